/*
** Several connections in threads on one device, from SQL down to stand-ins for NVIDIA's libraries:
** what `make check` runs under ThreadSanitizer.
**
** Plan: THREADS connections to one file, each in its thread, multiply, factorise and are closed,
** ROUNDS times, while the others do the same.
**   1. every result is the CPU's; every product was computed on the device
**   2. a context that ends in the middle of it: the results are right, and nothing waits for ever
** gx_cuda.so lies beside this program, the stand-ins in ../../../mock/lib (Makefile).
*/
#include "../../../ext/gx.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 4, ROUNDS = 3 };

static char folder[PATH_MAX], database[64];

static sqlite3 *open_connection(void)
{
    sqlite3 *db = NULL;
    char *message = NULL;
    assert_int_equal(sqlite3_open(database, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 20000);
    assert_int_equal(sqlite3_gx_init(db, &message, NULL), SQLITE_OK);
    return db;
}

/* The one number that the statement gives; -1 where it fails. */
static double number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    double value = -1;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW) {
        value = sqlite3_column_double(statement, 0);
    }
    sqlite3_finalize(statement);
    return value;
}

typedef struct job {
    pthread_t thread;
    double worst; /* difference from the CPU's results */
    double calls; /* on the device                     */
} job;

static void *work(void *arg)
{
    static const char *const difference[] = {
        "SELECT gx_norm(gx_sub(gx_matmul('A', 'A'), 'AA'))",
        "SELECT gx_norm(gx_sub(gx_cholesky('P'), 'L'))",
    };
    job *j = arg;
    for (int round = 0; round < ROUNDS; round++) {
        sqlite3 *db = open_connection();
        number(db, "SELECT gx_config('profile', 'off')");
        number(db, "SELECT gx_config('backend', 'cuda')");
        for (int k = 0; k < 2; k++) {
            double found = number(db, difference[k]);
            j->worst = found < 0 ? 1e300 : found > j->worst ? found : j->worst;
        }
        j->calls += number(db, "SELECT value FROM gx_stats WHERE name = 'device_calls'");
        sqlite3_close(db);
    }
    return NULL;
}

static void run_all(job jobs[THREADS])
{
    memset(jobs, 0, THREADS * sizeof *jobs);
    for (int k = 0; k < THREADS; k++) {
        assert_int_equal(pthread_create(&jobs[k].thread, NULL, work, &jobs[k]), 0);
    }
    for (int k = 0; k < THREADS; k++) {
        pthread_join(jobs[k].thread, NULL);
        assert_true(jobs[k].worst < 1e-9);
    }
}

static int prepare(void **state)
{
    (void)state;
    static const char *const statements[] = {
        "SELECT gx_config('backend', 'cpu')",
        "SELECT gx_config('tile_bytes', 8192)",
        "SELECT gx_randn(60, 60, 'A', '{\"seed\":1}')",
        "SELECT gx_matmul('A', 'A', 'AA')",
        "SELECT gx_store('P', gx_add(gx_matmul('A', 'A', '{\"transb\":true}'), gx_eye(60)))",
        "SELECT gx_cholesky('P', 'L')",
    };
    char path[PATH_MAX + 32];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    folder[length < 0 ? 0 : length] = '\0';
    dirname(folder);
    snprintf(path, sizeof path, "%s/../../../mock", folder);
    setenv("CUDA_PATH", path, 1);
    setenv("MOCK_MEMORY", "1073741824", 1);
    snprintf(database, sizeof database, "/tmp/gx-device-threads-%d.db", (int)getpid());
    sqlite3 *db = open_connection();
    for (size_t k = 0; k < sizeof statements / sizeof *statements; k++) {
        number(db, statements[k]);
    }
    assert_true(number(db, "SELECT gx_norm('L')") > 0);
    return sqlite3_close(db);
}

static int clean(void **state)
{
    (void)state;
    return unlink(database);
}

static void together(void **state)
{
    (void)state;
    job jobs[THREADS];
    run_all(jobs);
    for (int k = 0; k < THREADS; k++) {
        assert_true(jobs[k].calls >= ROUNDS); // at least the product, every time
    }
}

/* Last: the device is lost to the process then. */
static void lost(void **state)
{
    (void)state;
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/../../../mock/lib/libcudart.so.13", folder);
    void *library = dlopen(path, RTLD_NOW);
    assert_non_null(library);
    void *symbol = dlsym(library, "mock_order");
    void (*order)(const char *);
    memcpy(&order, &symbol, sizeof order);
    order("cudaMemcpyAsync:40:later");
    job jobs[THREADS];
    run_all(jobs);
    sqlite3 *db = open_connection();
    number(db, "SELECT gx_config('backend', 'cuda')");
    assert_true(number(db,
                       "SELECT count(*) FROM gx_devices WHERE backend = 'cuda' AND status = 'off'"
                       " AND reason LIKE 'cuda:0 is off until the process ends: %'") == 1);
    sqlite3_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(together), cmocka_unit_test(lost)};
    return cmocka_run_group_tests(tests, prepare, clean);
}
