/*
** Many connections of one process, in threads, with small statements by turns: operations a second
** and how long they take.  Beside fair.py's `mixed`, whose threads wait for Python's lock.
**
**     cc -O2 -o mixed bench/mixed.c -lsqlite3 -lpthread
**     ./mixed ./gx.so [seconds [threads [backend [counted]]]]
**
** backend: cpu, cuda, auto, or both: every other connection cuda, the others auto.  Operands are
** stored: products of 64, 128 and 256, the ten nearest of 20 000 x 64 rows, a system of 128.
** counted: SQLite counts its memory (SQLITE_CONFIG_MEMSTATUS), as it does unless told otherwise:
** one lock for every allocation of every thread.
** Prints operations a second, the median, p99 and longest call in ms, the fewest calls of a
** connection beside the most, errors, the process's memory in MB after a third and at the end,
** processor time and context switches of an operation, and the median of each statement.
*/
#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MOST = 256, CALLS_MOST = 4000000 };

static const char *const made[] = {
    "SELECT gx_randn(64, 64, 'A64')",
    "SELECT gx_randn(128, 128, 'A128')",
    "SELECT gx_randn(256, 256, 'A256')",
    "SELECT gx_add(gx_matmul('A128', 'A128', '{\"transb\":true}'), gx_eye(128), 'P')",
    "SELECT gx_randn(128, 4, 'b')",
    "SELECT gx_randn(20000, 64, 'E', '{\"dtype\":\"f32\"}')",
    "SELECT gx_randn(1, 64, 'Q', '{\"dtype\":\"f32\"}')"};
static const char *const asked[] = {
    "SELECT gx_norm(gx_matmul('A64', 'A64'))", "SELECT gx_norm(gx_matmul('A128', 'A128'))",
    "SELECT sum(score) FROM gx_knn('Q', 'E', 10)", "SELECT gx_norm(gx_solve('P', 'b'))",
    "SELECT gx_norm(gx_matmul('A256', 'A256'))"};
enum { ASKED = sizeof asked / sizeof *asked };

typedef struct user {
    pthread_t thread;
    sqlite3_stmt *statement[ASKED];
    float *taken; /* ms of each call */
    long calls, errors;
} user;

static volatile int is_over;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(sqlite3 *db, int rc, const char *what)
{
    if (rc != SQLITE_OK && rc != SQLITE_ROW && rc != SQLITE_DONE) {
        fprintf(stderr, "%s: %s\n", what, sqlite3_errmsg(db));
        exit(1);
    }
}

static sqlite3 *connect_to(const char *path, const char *so, const char *backend)
{
    sqlite3 *db;
    char text[64];
    must(NULL, sqlite3_open(path, &db), path);
    sqlite3_enable_load_extension(db, 1);
    must(db, sqlite3_load_extension(db, so, NULL, NULL), so);
    sqlite3_busy_timeout(db, 60000);
    snprintf(text, sizeof text, "SELECT gx_config('backend', '%s')", backend);
    must(db, sqlite3_exec(db, text, NULL, NULL, NULL), text);
    return db;
}

static void *work(void *arg)
{
    user *u = arg;
    for (long k = 0; !is_over && u->calls < CALLS_MOST; k++) {
        sqlite3_stmt *statement = u->statement[k % ASKED];
        double start = now();
        u->errors += sqlite3_step(statement) != SQLITE_ROW;
        sqlite3_reset(statement);
        u->taken[u->calls++] = (float)(1e3 * (now() - start));
    }
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double memory(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) {
        pages = 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE) * 1e-6;
}

static void pause_for(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&t, NULL);
}

static double seconds_of(struct timeval end, struct timeval start)
{
    return (double)(end.tv_sec - start.tv_sec) + 1e-6 * (double)(end.tv_usec - start.tv_usec);
}

/* What an operation costs the process since `start`. */
static void report_use(const struct rusage *start, long calls)
{
    struct rusage end;
    getrusage(RUSAGE_SELF, &end);
    printf("an operation: %.3f ms of a processor (%.3f in the system), %.2f context switches, "
           "%.2f page faults\n",
           1e3 / (double)calls *
               (seconds_of(end.ru_utime, start->ru_utime) +
                seconds_of(end.ru_stime, start->ru_stime)),
           1e3 / (double)calls * seconds_of(end.ru_stime, start->ru_stime),
           (double)(end.ru_nvcsw + end.ru_nivcsw - start->ru_nvcsw - start->ru_nivcsw) /
               (double)calls,
           (double)(end.ru_minflt - start->ru_minflt) / (double)calls);
}

/* Medians of the statements, over all connections. */
static void report_each(const user *users, int threads)
{
    for (int which = 0; which < ASKED; which++) {
        long count = 0;
        float *taken = malloc(CALLS_MOST * sizeof *taken);
        for (int t = 0; t < threads; t++) {
            for (long k = which; k < users[t].calls && count < CALLS_MOST; k += ASKED) {
                taken[count++] = users[t].taken[k];
            }
        }
        qsort(taken, (size_t)count, sizeof *taken, ascending);
        printf("%.3f ms %s\n", count > 0 ? taken[count / 2] : 0, asked[which]);
        free(taken);
    }
}

int main(int argc, char **argv)
{
    static user users[THREADS_MOST];
    const char *so = argc > 1 ? argv[1] : "./gx.so", *backend = argc > 4 ? argv[4] : "auto";
    double seconds = argc > 2 ? atof(argv[2]) : 10;
    int threads = argc > 3 ? atoi(argv[3]) : 16;
    char path[] = "/tmp/mixed-XXXXXX";
    bool is_counted = argc > 5 && strcmp(argv[5], "counted") == 0;
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, (int)is_counted);
    threads = threads < 1 ? 1 : threads > THREADS_MOST ? THREADS_MOST : threads;
    close(mkstemp(path));
    sqlite3 *db = connect_to(path, so, "cpu");
    must(db, sqlite3_exec(db, "PRAGMA journal_mode = wal", NULL, NULL, NULL), "wal");
    for (size_t k = 0; k < sizeof made / sizeof *made; k++) {
        must(db, sqlite3_exec(db, made[k], NULL, NULL, NULL), made[k]);
    }
    for (int t = 0; t < threads; t++) {
        const char *own = strcmp(backend, "both") != 0 ? backend : t % 2 == 0 ? "cuda" : "auto";
        sqlite3 *mine = connect_to(path, so, own);
        users[t].taken = malloc(CALLS_MOST * sizeof(float));
        for (int k = 0; k < ASKED; k++) {
            must(mine, sqlite3_prepare_v2(mine, asked[k], -1, &users[t].statement[k], NULL),
                 asked[k]);
            for (int warm = 0; warm < 3; warm++) {
                must(mine, sqlite3_step(users[t].statement[k]), asked[k]);
                sqlite3_reset(users[t].statement[k]);
            }
        }
    }
    struct rusage before;
    getrusage(RUSAGE_SELF, &before);
    double start = now();
    for (int t = 0; t < threads; t++) {
        pthread_create(&users[t].thread, NULL, work, &users[t]);
    }
    pause_for(seconds / 3);
    double middle = memory();
    pause_for(2 * seconds / 3);
    double end = memory(), taken = now() - start;
    is_over = 1;
    long calls = 0, errors = 0, fewest = CALLS_MOST, most = 1;
    for (int t = 0; t < threads; t++) {
        pthread_join(users[t].thread, NULL);
        calls += users[t].calls;
        errors += users[t].errors;
        fewest = users[t].calls < fewest ? users[t].calls : fewest;
        most = users[t].calls > most ? users[t].calls : most;
    }
    float *all = malloc((size_t)calls * sizeof *all);
    long used = 0;
    for (int t = 0; t < threads; t++) {
        memcpy(all + used, users[t].taken, (size_t)users[t].calls * sizeof *all);
        used += users[t].calls;
    }
    report_each(users, threads);
    report_use(&before, calls);
    qsort(all, (size_t)calls, sizeof *all, ascending);
    printf("%d connections, %s: %.0f operations/s, median %.2f ms, p99 %.2f, most %.1f; "
           "fewest/most %.2f; "
           "%ld errors; %.0f MB after a third, %.0f at the end\n",
           threads, backend, (double)calls / taken, all[calls / 2], all[calls * 99 / 100],
           all[calls - 1], (double)fewest / (double)most, errors, middle, end);
    for (int k = 0; k < 3; k++) {
        const char *const ends[] = {"", "-wal", "-shm"};
        char file[64];
        snprintf(file, sizeof file, "%s%s", path, ends[k]);
        unlink(file);
    }
    return errors != 0;
}
