/*
** Everything that can fail, fails once: the loop over scripts, kinds of failure and the n-th
** event.
**
**     fault [--points N] [--seed S] [--journal delete|wal] [kind[/journal[/script[/n]]]...]
**
** For each kind (allocation, file system, step; table `kinds`), each journal mode and each
** script of fault_scripts.c: a first run counts the kind's events; then, for n = 1, 2, ... (all
** of them, or N of them spread at random with the printed seed), a fresh copy of the database is
** opened, the script runs while its n-th event fails, and then
**
**   1. the answer is the undisturbed one, or an error of the kind expected, with a message;
**   2. on the same connection, after ROLLBACK where a transaction is open: integrity_check says
**      ok, gx_check says ok of every matrix, nothing is half-stored, the governor counts the
**      bytes it counted before;
**   3. the connection closes, SQLite's memory is back to what it was, and the process's blocks
**      do not grow when the same failure is repeated;
**   4. opened again, the database is as before or as after the undisturbed run, never between:
**      the old one after an error (either one after an error in COMMIT's own I/O), the new one
**      after success.
**
** Prints a line per kind and journal mode, and for each violation the kind/journal/script/n that
** repeats it.  Works in a folder of its own under $TMPDIR.  Memory: the harness itself allocates
** nothing while a failure is armed.
*/
#include "fault.h"

#include "../../ext/gx.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const fault_kind *const kinds[] = {
    &fault_alloc_once, &fault_alloc_all, &fault_io_once, &fault_io_all, &fault_io_busy,
    &fault_io_full, &fault_io_full_volume, &fault_step_once, &fault_step_interrupt,
    &fault_step_thread, &fault_pages,
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static const char *const journals[] = {"delete", "wal"};

/* What one run showed. */
typedef struct outcome {
    int rc;
    int64_t events;
    char message[512];
    char output[8192];  /* the rows, cut when longer      */
    uint64_t state;     /* of the database, opened again  */
    int64_t live_after; /* blocks after everything closed */
    char wrong[800];    /* the first violation; "" = none */
} outcome;

static int64_t points_most; /* 0: all */
static uint64_t random_state = 20260101;
static int violations;
static char folder[256];

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void wrong(outcome *o, const char *what, const char *detail)
{
    if (o->wrong[0] == '\0') {
        snprintf(o->wrong, sizeof o->wrong, "%s: %s", what, detail);
    }
}

// Files -------------------------------------------------------------------------------------------

static void copy_file(const char *from, const char *to)
{
    static char buffer[1 << 16];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    size_t bytes;
    while (in != NULL && out != NULL && (bytes = fread(buffer, 1, sizeof buffer, in)) > 0) {
        fwrite(buffer, 1, bytes, out);
    }
    if (in == NULL || out == NULL || fclose(in) != 0 || fclose(out) != 0) {
        printf("cannot copy %s to %s: %s\n", from, to, strerror(errno));
        exit(2);
    }
}

static void fresh_database(const char *journal)
{
    static const char *const leftovers[] = {
        "work.db-journal", "work.db-wal", "work.db-shm", "aux.db",  "aux.db-journal",
        "aux.db-wal",      "aux.db-shm",  "out.npy",     "out.mtx", "out.csv"};
    for (size_t i = 0; i < sizeof leftovers / sizeof leftovers[0]; i++) {
        unlink(leftovers[i]);
    }
    for (int volume = 1; volume <= 16; volume++) {
        char name[32];
        snprintf(name, sizeof name, "work.db-gx%d", volume);
        unlink(name);
        snprintf(name, sizeof name, "out.npy-gx%d", volume);
        unlink(name);
    }
    char base[64];
    snprintf(base, sizeof base, "base-%s.db", journal);
    copy_file(base, "work.db");
}

// SQL ---------------------------------------------------------------------------------------------

typedef struct text {
    char *bytes;
    size_t size, used;
} text;

static int append_row(void *arg, int columns, char **values, char **names)
{
    (void)names;
    text *t = arg;
    for (int i = 0; i < columns && t->used + 2 < t->size; i++) {
        int n = snprintf(t->bytes + t->used, t->size - t->used, "%s%c",
                         values[i] != NULL ? values[i] : "NULL", i + 1 < columns ? '|' : '\n');
        t->used += (size_t)n < t->size - t->used ? (size_t)n : t->size - t->used - 1;
    }
    return 0;
}

/*
** Run SQL, its rows into out (may be NULL).  Does what sqlite3_exec() does, without its
** allocations.
*/
static int run_sql(sqlite3 *db, const char *sql, char *out, size_t size)
{
    char ignored[256];
    text t = {out != NULL ? out : ignored, out != NULL ? size : sizeof ignored, 0};
    t.bytes[0] = '\0';
    int rc = SQLITE_OK;
    while (rc == SQLITE_OK && *sql != '\0') {
        sqlite3_stmt *stmt = NULL;
        rc = sqlite3_prepare_v2(db, sql, -1, &stmt, &sql);
        while (rc == SQLITE_OK && stmt != NULL && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
            int columns = sqlite3_column_count(stmt);
            char *values[16] = {0};
            for (int i = 0; i < columns && i < 16; i++) {
                values[i] = (char *)(uintptr_t)sqlite3_column_text(stmt, i);
            }
            append_row(&t, columns < 16 ? columns : 16, values, NULL);
            rc = SQLITE_OK;
        }
        if (stmt != NULL) {
            int end = sqlite3_finalize(stmt);
            rc = rc == SQLITE_DONE ? end : rc;
        }
    }
    return rc;
}

static void must(sqlite3 *db, const char *sql)
{
    if (run_sql(db, sql, NULL, 0) != SQLITE_OK) {
        printf("%s\n  %s\n", sql, sqlite3_errmsg(db));
        exit(2);
    }
}

/* message: as sqlite3_load_extension() would give it. */
static int open_gx(const char *path, sqlite3 **db, char message[512])
{
    int rc = sqlite3_open(path, db);
    snprintf(message, 512, "%s", *db != NULL ? sqlite3_errmsg(*db) : sqlite3_errstr(rc));
    if (rc == SQLITE_OK) {
        char *said = NULL;
        rc = sqlite3_gx_init(*db, &said, NULL);
        rc = rc == SQLITE_OK_LOAD_PERMANENTLY ? SQLITE_OK : rc;
        snprintf(message, 512, "%s", said != NULL ? said : sqlite3_errstr(rc));
        sqlite3_free(said);
    }
    return rc;
}

static void hash(uint64_t *h, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++) {
        *h = (*h ^ p[i]) * 1099511628211u;
    }
}

/*
** A number for all that a user can see: names, shapes and elements of the matrices, rows of the
** tables.
*/
static uint64_t state_of(const char *path)
{
    static const char *const queries[] = {
        "SELECT name, rows, cols, dtype, properties, tile_rows, tile_cols, t.id & 0xffffffff, data"
        " FROM gx_meta m LEFT JOIN gx_tile t ON t.id >> 32 = m.id ORDER BY name, t.id",
        "SELECT * FROM plain ORDER BY rowid",
        "SELECT gx_to_bytes(name) FROM gx_meta WHERE properties & 65536 ORDER BY name", // volumes
    };
    uint64_t h = 14695981039346656037u;
    sqlite3 *db;
    if (sqlite3_open(path, &db) == SQLITE_OK) {
        char spread[16];
        run_sql(db, "SELECT count(*) FROM gx_meta WHERE properties & 65536", spread, sizeof spread);
        if (spread[0] != '\0' && strcmp(spread, "0\n") != 0) {
            sqlite3_gx_init(db, NULL, NULL);
        }
        for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++) {
            sqlite3_stmt *stmt = NULL;
            int rc = sqlite3_prepare_v2(db, queries[i], -1, &stmt, NULL);
            while (rc == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW) {
                for (int c = 0; c < sqlite3_column_count(stmt); c++) {
                    const void *data = sqlite3_column_blob(stmt, c);
                    hash(&h, data, data != NULL ? (size_t)sqlite3_column_bytes(stmt, c) : 0);
                    hash(&h, "|", 1);
                }
            }
            sqlite3_finalize(stmt);
        }
    }
    sqlite3_close(db);
    return h;
}

// What must hold ----------------------------------------------------------------------------------

static void expect(sqlite3 *db, outcome *o, const char *what, const char *sql, const char *expected)
{
    char got[512];
    if (run_sql(db, sql, got, sizeof got) != SQLITE_OK) {
        wrong(o, what, sqlite3_errmsg(db));
    } else if (strcmp(got, expected) != 0) {
        got[strcspn(got, "\n")] = '\0';
        wrong(o, what, got);
    }
}

/* Points 2 of the head: no gx needed for what is said about the tables. */
static void check_database(sqlite3 *db, outcome *o)
{
    char has_tables[16];
    expect(db, o, "integrity_check", "PRAGMA integrity_check", "ok\n");
    run_sql(db, "SELECT count(*) FROM sqlite_schema WHERE name IN ('gx_meta', 'gx_tile')",
            has_tables, sizeof has_tables);
    if (strcmp(has_tables, "0\n") == 0) {
        return;
    }
    expect(db, o, "tables half made",
           "SELECT count(*) FROM sqlite_schema WHERE name IN ('gx_meta', 'gx_tile', 'gx_state')",
           "3\n");
    expect(db, o, "half-stored matrices", "SELECT count(*) FROM gx_meta WHERE name IS NULL", "0\n");
    expect(db, o, "orphan tiles",
           "SELECT count(*) FROM gx_tile WHERE (id >> 32) NOT IN (SELECT id FROM gx_meta)", "0\n");
    expect(db, o, "gx_check", "SELECT DISTINCT gx_check(name) FROM gx WHERE gx_check(name) <> 'ok'",
           "");
}

static void memory_used(sqlite3 *db, char out[64])
{
    run_sql(db, "SELECT value FROM gx_stats WHERE name = 'memory_used'", out, 64);
}

/* SQLite reports whatever stops a virtual table's constructor as SQLITE_ERROR. */
static bool is_constructor_stopped(const fault_kind *kind, const outcome *o)
{
    return o->rc == SQLITE_ERROR && kind->is_expected(SQLITE_INTERRUPT) &&
           strncmp(o->message, "vtable constructor failed", 25) == 0;
}

static void check_answer(const fault_kind *kind, const outcome *plain, outcome *o)
{
    char detail[700];
    if (o->rc == SQLITE_OK) {
        if (strcmp(o->output, plain->output) != 0) {
            snprintf(detail, sizeof detail, "%.300s instead of %.300s", o->output, plain->output);
            wrong(o, "answers without an error", detail);
        }
    } else if (!kind->is_expected(o->rc) && !is_constructor_stopped(kind, o)) {
        snprintf(detail, sizeof detail, "%d (%.400s)", o->rc, o->message);
        wrong(o, "unexpected error code", detail);
    } else if (o->message[0] == '\0' || strcmp(o->message, "not an error") == 0) {
        wrong(o, "error without a message", o->message);
    }
}

/* The same connection, after the failure. */
static void check_connection(sqlite3 *db, outcome *o, const char *used_before)
{
    char used[64];
    if (!sqlite3_get_autocommit(db)) {
        run_sql(db, "ROLLBACK", NULL, 0);
    }
    check_database(db, o);
    memory_used(db, used);
    if (strcmp(used, used_before) != 0) {
        wrong(o, "governor counts", used);
    }
}

// One run -----------------------------------------------------------------------------------------

static void run_once(const fault_kind *kind, const char *journal, const fault_script *script,
                     int64_t n, outcome *o)
{
    sqlite3 *db = NULL;
    char used[64] = "";
    memset(o, 0, sizeof *o);
    fresh_database(journal);
    if (script->sql == NULL) {
        kind->arm(NULL, n);
        o->rc = open_gx("work.db", &db, o->message);
        o->events = kind->disarm(NULL);
    } else {
        o->rc = open_gx("work.db", &db, o->message);
        if (script->prep != NULL) {
            must(db, script->prep);
        }
        memory_used(db, used);
        bool was_autocommit = sqlite3_get_autocommit(db) != 0;
        kind->arm(db, n);
        o->rc = run_sql(db, script->sql, o->output, sizeof o->output);
        snprintf(o->message, sizeof o->message, "%s", sqlite3_errmsg(db));
        o->events = kind->disarm(db);
        bool begins = strncmp(script->sql, "BEGIN", 5) == 0 || !was_autocommit;
        if (!begins && !sqlite3_get_autocommit(db)) {
            wrong(o, "a transaction is left open", o->message);
        }
        check_connection(db, o, used);
    }
    if (sqlite3_close(db) != SQLITE_OK) {
        wrong(o, "close", sqlite3_errmsg(db));
        sqlite3_close_v2(db);
    }
    if (sqlite3_open("work.db", &db) == SQLITE_OK) {
        expect(db, o, "integrity_check when opened again", "PRAGMA integrity_check", "ok\n");
    }
    sqlite3_close(db);
    o->state = state_of("work.db");
    o->live_after = fault_alloc_live();
    if (sqlite3_memory_used() != 0) {
        char bytes[32];
        snprintf(bytes, sizeof bytes, "%lld bytes", (long long)sqlite3_memory_used());
        wrong(o, "SQLite's memory not given back", bytes);
    }
}

/* Repeat a failure: blocks that grow every time are a leak; a cache that fills once is not. */
static void check_leak(const fault_kind *kind, const char *journal, const fault_script *script,
                       int64_t n, int64_t before, outcome *o)
{
    static outcome again;
    int64_t live = o->live_after;
    for (int i = 0; i < 4 && live > before; i++) {
        before = live;
        run_once(kind, journal, script, n, &again);
        live = again.live_after;
    }
    if (live > before) {
        char blocks[64];
        snprintf(blocks, sizeof blocks, "%lld blocks each time", (long long)(live - before));
        wrong(o, "leak", blocks);
    }
}

static void check_state(const outcome *plain, uint64_t old_state, outcome *o)
{
    if (o->state != old_state && o->state != plain->state) {
        wrong(o, "database", "neither the old state nor the new one");
    } else if (o->rc == SQLITE_OK && o->state != plain->state) {
        wrong(o, "database", "succeeded, but the state is the old one");
    }
}

// All runs ----------------------------------------------------------------------------------------

typedef struct tally {
    int scripts;
    int64_t runs, errors;
} tally;

static void report(const fault_kind *kind, const char *journal, const fault_script *script,
                   int64_t n, const outcome *o)
{
    violations++;
    printf("%s/%s/%s/%lld: %s\n    (rc %d, %s)\n", kind->name, journal, script->name, (long long)n,
           o->wrong, o->rc, o->message);
}

static void run_point(const fault_kind *kind, const char *journal, const fault_script *script,
                      int64_t n, const outcome *plain, uint64_t old_state, tally *t)
{
    static outcome o;
    int64_t before = fault_alloc_live();
    run_once(kind, journal, script, n, &o);
    check_answer(kind, plain, &o);
    check_state(plain, old_state, &o);
    check_leak(kind, journal, script, n, before, &o);
    t->runs++;
    t->errors += o.rc != SQLITE_OK;
    if (o.wrong[0] != '\0') {
        report(kind, journal, script, n, &o);
    }
}

static void run_script(const fault_kind *kind, const char *journal, const fault_script *script,
                       int64_t only, tally *t)
{
    static outcome plain;
    if (script->sql == NULL && kind->needs_db) {
        return;
    }
    run_once(kind, journal, script, INT64_MAX, &plain); // warms every cache
    run_once(kind, journal, script, INT64_MAX, &plain);
    if (plain.rc != SQLITE_OK || plain.wrong[0] != '\0') {
        wrong(&plain, "fails undisturbed", plain.message);
        report(kind, journal, script, 0, &plain);
        return;
    }
    char base[64];
    snprintf(base, sizeof base, "base-%s.db", journal);
    fresh_database(journal);
    sqlite3 *db;
    if (open_gx("work.db", &db, plain.message) == SQLITE_OK && script->prep != NULL) {
        must(db, script->prep);
    }
    sqlite3_close(db);
    uint64_t old_state = state_of("work.db");

    t->scripts++;
    int64_t events = plain.events;
    if (only > 0) {
        run_point(kind, journal, script, only, &plain, old_state, t);
    } else if (points_most == 0 || events <= points_most) {
        for (int64_t n = 1; n <= events; n++) {
            run_point(kind, journal, script, n, &plain, old_state, t);
        }
    } else {
        for (int64_t p = 0; p < points_most; p++) { // one at random in each of the equal parts
            int64_t from = events * p / points_most, to = events * (p + 1) / points_most;
            int64_t n = from + 1 + (int64_t)(next_random() % (uint64_t)(to - from));
            run_point(kind, journal, script, n, &plain, old_state, t);
        }
    }
}

/* pattern: kind[/journal[/script[/n]]]; *n is set when it is there. */
static bool is_wanted(const char *pattern, const char *kind, const char *journal,
                      const char *script, int64_t *n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s/%s", kind, journal, script);
    size_t length = strlen(path), given = strlen(pattern);
    *n = 0;
    if (given <= length) {
        return strncmp(path, pattern, given) == 0 && (path[given] == '/' || path[given] == '\0');
    }
    if (strncmp(path, pattern, length) == 0 && pattern[length] == '/') {
        *n = atoll(pattern + length + 1);
        return true;
    }
    return false;
}

static int64_t scripts_run;

static void run_kind(const fault_kind *kind, const char *journal, char **patterns, int count)
{
    tally t = {0, 0, 0};
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (const fault_script *s = fault_scripts; s->name != NULL; s++) {
        int64_t n = 0;
        bool wanted = count == 0;
        for (int i = 0; i < count && !wanted; i++) {
            wanted = is_wanted(patterns[i], kind->name, journal, s->name, &n);
        }
        if (wanted) {
            run_script(kind, journal, s, n, &t);
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    scripts_run += t.scripts;
    if (t.scripts > 0) {
        printf("%-10s %-7s %3d scripts %6lld failures %6lld came up as errors %6.1f s\n",
               kind->name, journal, t.scripts, (long long)t.runs, (long long)t.errors,
               (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9);
        fflush(stdout);
    }
}

static void make_base(const char *journal)
{
    char path[64], pragma[64];
    sqlite3 *db;
    snprintf(path, sizeof path, "base-%s.db", journal);
    snprintf(pragma, sizeof pragma, "PRAGMA journal_mode=%s", journal);
    char message[512];
    if (open_gx(path, &db, message) != SQLITE_OK) {
        printf("%s: %s\n", path, message);
        exit(2);
    }
    must(db, pragma);
    must(db, fault_base);
    must(db, "PRAGMA wal_checkpoint(TRUNCATE)");
    sqlite3_close(db);
}

static void make_folder(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/gx-fault-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(folder) == NULL || chdir(folder) != 0) {
        printf("cannot make a folder like %s\n", folder);
        exit(2);
    }
}

static void remove_folder(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (chdir("/") != 0 || system(command) != 0) {
        printf("%s is left\n", folder);
    }
}

int main(int argc, char **argv)
{
    static char stdout_buffer[1 << 16]; // printf() must not allocate between two counts of blocks
    setvbuf(stdout, stdout_buffer, _IOLBF, sizeof stdout_buffer);
    const char *journal = NULL; // NULL: each
    int arg = 1;
    for (; arg + 1 < argc && argv[arg][0] == '-'; arg += 2) {
        if (strcmp(argv[arg], "--points") == 0) {
            points_most = atoll(argv[arg + 1]);
        } else if (strcmp(argv[arg], "--seed") == 0) {
            random_state = (uint64_t)atoll(argv[arg + 1]) * 2654435761u + 1;
        } else if (strcmp(argv[arg], "--journal") == 0) {
            journal = argv[arg + 1];
        }
    }
    setenv("GX_CPU_AMX", "loops", 1); // everywhere the memory that it packs in, which can lack
    if (fault_vfs_install() != SQLITE_OK) {
        printf("no default VFS\n");
        return 2;
    }
    make_folder();
    for (size_t j = 0; j < sizeof journals / sizeof journals[0]; j++) {
        make_base(journals[j]);
    }
    for (size_t k = 0; k < KINDS; k++) {
        for (size_t j = 0; j < sizeof journals / sizeof journals[0]; j++) {
            if (journal == NULL || strcmp(journal, journals[j]) == 0) {
                run_kind(kinds[k], journals[j], argv + arg, argc - arg);
            }
        }
    }
    remove_folder();
    if (scripts_run == 0) {
        printf("no script is called so\n");
        return 2;
    }
    printf("%d violations\n", violations);
    return violations == 0 ? 0 : 1;
}
