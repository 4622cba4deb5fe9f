/*
** Helper readers, the executor and the team, through SQL on a file: what the thread sanitizer is
** run on.
**
** Plan:
**   1  A product whose helpers read while blocks are computed and written: rollback journal and
**      WAL, tight and ample memory, 0-3 readers, 1-3 threads: the same checksum everywhere, and
**      helpers took part.
**   2  A scan by helpers: the same norm, to the bit, for every number of readers.
**   3  A damaged tile met by a helper: the call fails with matrix and tile named, nothing is left.
**   4  sqlite3_interrupt() from another thread at the call's n-th statement, for ever later n:
**      SQLITE_INTERRUPT or a whole result, never between.
**   5  A source written in the open transaction: helpers do not see it, the caller reads it itself.
**   6  Another connection drops a matrix before the call: refused; the helpers' snapshot is
**      checked.
**   7  After every call sqlite3_close() finds nothing open and gx holds no memory.
*/
#include "../../../ext/gx.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <sqlite3.h>
#include <unistd.h>

enum { N = 480 };

static char folder[] = "/tmp/gx-stream-XXXXXX";
static char path[100];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/m.db", folder);
    return 0;
}

static void remove_database(void)
{
    static const char *const suffixes[] = {"", "-journal", "-wal", "-shm"};
    for (size_t k = 0; k < sizeof suffixes / sizeof suffixes[0]; k++) {
        char name[120];
        snprintf(name, sizeof name, "%s%s", path, suffixes[k]);
        unlink(name);
    }
}

static int remove_folder(void **state)
{
    (void)state;
    remove_database();
    return rmdir(folder);
}

static sqlite3 *open_database(void)
{
    sqlite3 *db;
    char *message = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_gx_init(db, &message, NULL), SQLITE_OK);
    return db;
}

static void close_database(sqlite3 *db)
{
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* Run one statement; its first value as a double.  *rc and text get what SQLite says. */
static double run(sqlite3 *db, const char *sql, int *rc, char text[300])
{
    sqlite3_stmt *st = NULL;
    double value = 0;
    *rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);
    if (*rc == SQLITE_OK) {
        *rc = sqlite3_step(st);
        if (*rc == SQLITE_ROW) {
            value = sqlite3_column_double(st, 0);
            *rc = sqlite3_step(st);
        }
    }
    snprintf(text, 300, "%s", sqlite3_errmsg(db));
    sqlite3_finalize(st);
    return value;
}

static double must(sqlite3 *db, const char *sql)
{
    int rc;
    char text[300];
    double value = run(db, sql, &rc, text);
    if (rc != SQLITE_DONE) {
        print_message("%s\n%s\n", sql, text);
    }
    assert_int_equal(rc, SQLITE_DONE);
    return value;
}

static void configure(sqlite3 *db, const char *key, long long value)
{
    char sql[100];
    snprintf(sql, sizeof sql, "SELECT gx_config('%s', %lld)", key, value);
    must(db, sql);
}

static sqlite3 *fresh(const char *journal_mode)
{
    remove_database();
    sqlite3 *db = open_database();
    char sql[100];
    snprintf(sql, sizeof sql, "PRAGMA journal_mode=%s", journal_mode);
    must(db, sql);
    configure(db, "tile_bytes", 64 * 64 * 8);
    snprintf(sql, sizeof sql, "SELECT gx_random(%d, %d, 'A', '{\"seed\":1}')", N, N);
    must(db, sql);
    snprintf(sql, sizeof sql, "SELECT gx_random(%d, %d, 'B', '{\"seed\":2}')", N, N);
    must(db, sql);
    return db;
}

static void expect_whole(sqlite3 *db)
{
    assert_int_equal((int)must(db, "SELECT gx_check() = 'ok'"), 1);
    assert_int_equal((int)must(db, "SELECT count(*) FROM gx_meta WHERE name IS NULL"), 0);
}

static void test_product(void **state)
{
    (void)state;
    static const char *const modes[] = {"delete", "wal"};
    double sum = 0, all_helped = 0;
    for (int mode = 0; mode < 2; mode++) {
        sqlite3 *db = fresh(modes[mode]);
        configure(db, "deterministic", 1);
        for (int readers = 0; readers <= 3; readers++) {
            for (int tight = 0; tight < 2; tight++) {
                configure(db, "readers", readers);
                configure(db, "threads", 1 + (readers + tight) % 3);
                configure(db, "memory_limit", tight ? 768 << 10 : 64 << 20);
                must(db, "SELECT gx_stats_reset()");
                must(db, "SELECT gx_matmul('A', 'B', 'C', '{\"replace\":true}')");
                double helped = must(db, "SELECT value FROM gx_stats WHERE name = 'helper_reads'");
                assert_true(helped == 0 || readers > 0);
                all_helped += helped;
                double s = must(db, "SELECT gx_sum('C')");
                assert_true(sum == 0 || s == sum);
                sum = s;
                expect_whole(db);
            }
        }
        close_database(db);
    }
    assert_true(all_helped > 0); // the caller reads what no helper has taken, so once may be never
}

static void test_scan(void **state)
{
    (void)state;
    sqlite3 *db = fresh("delete");
    double norm = 0;
    for (int readers = 0; readers <= 4; readers++) {
        configure(db, "readers", readers);
        double x = must(db, "SELECT gx_norm('A')");
        assert_true(norm == 0 || x == norm);
        norm = x;
    }
    assert_true(norm > 0.57 * N && norm < 0.585 * N); // uniform on [0, 1): rms 1/sqrt(3)
    close_database(db);
}

static void test_damaged_tile(void **state)
{
    (void)state;
    sqlite3 *db = fresh("delete");
    configure(db, "readers", 2);
    must(db, "UPDATE gx_tile SET data = substr(data, 1, 100) WHERE id = (SELECT max(id) - 3 FROM "
             "gx_tile)");
    static const char *const calls[] = {"SELECT gx_matmul('A', 'B', 'C')", "SELECT gx_norm('B')"};
    for (int k = 0; k < 2; k++) {
        int rc;
        char text[300];
        run(db, calls[k], &rc, text);
        assert_int_equal(rc, SQLITE_CORRUPT);
        assert_non_null(strstr(text, "B"));
        assert_non_null(strstr(text, "tile"));
        assert_int_equal((int)must(db, "SELECT count(*) FROM gx_meta"), 2);
    }
    close_database(db);
}

/* Another thread interrupts at the call's n-th statement, while the call waits for it to have. */
typedef struct alarm_clock {
    sqlite3 *db;
    int left; /* statements until it rings; 0: it has rung */
} alarm_clock;

static void *ring(void *arg)
{
    sqlite3_interrupt(arg);
    return NULL;
}

static int on_statement(unsigned what, void *arg, void *statement, void *text)
{
    alarm_clock *clock = arg;
    pthread_t thread;
    (void)what, (void)statement, (void)text;
    if (clock->left > 0 && --clock->left == 0) {
        assert_int_equal(pthread_create(&thread, NULL, ring, clock->db), 0);
        pthread_join(thread, NULL);
    }
    return 0;
}

/* What comes of the call when it is interrupted at the n-th statement; false: it has fewer. */
static bool interrupt_at(sqlite3 *db, int n, int *rc)
{
    char text[300];
    alarm_clock clock = {db, n};
    sqlite3_trace_v2(db, SQLITE_TRACE_STMT, on_statement, &clock);
    run(db, "SELECT gx_matmul('A', 'B', 'C')", rc, text);
    sqlite3_trace_v2(db, 0, NULL, NULL);
    assert_true(*rc == SQLITE_DONE || *rc == SQLITE_INTERRUPT);
    return clock.left == 0;
}

static void test_interrupt(void **state)
{
    (void)state;
    sqlite3 *db = fresh("delete");
    configure(db, "readers", 2);
    configure(db, "memory_limit", 768 << 10);
    int interrupted = 0, rc;
    for (int n = 2; interrupt_at(db, n, &rc); n += 7) { // the first is the SELECT itself
        int left = (int)must(db, "SELECT count(*) FROM gx_meta WHERE name = 'C'");
        assert_true(left == 1 || rc == SQLITE_INTERRUPT);
        assert_true(left == 0 || n > 2); // after its commit it is too late
        if (left) {
            must(db, "SELECT gx_drop('C')");
        }
        interrupted += left == 0;
        expect_whole(db);
    }
    assert_int_equal(rc, SQLITE_DONE);
    assert_true(interrupted > 5);
    close_database(db);
}

static void test_open_transaction(void **state)
{
    (void)state;
    sqlite3 *db = fresh("delete");
    configure(db, "readers", 2);
    double before = must(db, "SELECT gx_sum('A')");
    must(db, "BEGIN");
    must(db, "SELECT gx_scale('A', 2, 'A', '{\"replace\":true}')");
    must(db, "SELECT gx_stats_reset()");
    double inside = must(db, "SELECT gx_sum('A')");
    assert_true(inside == 2 * before);
    assert_int_equal((int)must(db, "SELECT value FROM gx_stats WHERE name = 'helper_reads'"), 0);
    must(db, "ROLLBACK");
    assert_true(must(db, "SELECT gx_sum('A')") == before);
    close_database(db);
}

static void test_dropped_elsewhere(void **state)
{
    (void)state;
    sqlite3 *db = fresh("wal");
    configure(db, "readers", 2);
    sqlite3 *other = open_database();
    must(other, "SELECT gx_drop('B')");
    int rc;
    char text[300];
    run(db, "SELECT gx_matmul('A', 'B', 'C')", &rc, text);
    assert_int_equal(rc, SQLITE_ERROR);
    assert_non_null(strstr(text, "no matrix named 'B'"));
    close_database(other);
    close_database(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_product),          cmocka_unit_test(test_scan),
        cmocka_unit_test(test_damaged_tile),     cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_open_transaction), cmocka_unit_test(test_dropped_elsewhere),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
