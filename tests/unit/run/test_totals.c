/*
** What the connections of a process come to.  Test plan:
**
**   1. Calls are counted by operation, by what they ran on and by how long they took, once each;
**      labels at different addresses with the same text are one operation; more of them than the
**      table has are "other".
**   2. The process has the sum of open connections, of closed ones and of what was reset.
**   3. Threads that open, call, reset and close beside one that reads: totals never go down, and in
**      the end nothing is lost and nothing counted twice.
**   4. A device that is held while it is looked at is counted up to now, and once.
**   5. The log: each event once, in order, and a call from within it does not come back.
*/
#include "connection.h"
#include "run/totals.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static gx_ctx *open_ctx(sqlite3 **db)
{
    gx_ctx *ctx;
    gx_err err = {0};
    assert_int_equal(sqlite3_open(":memory:", db), SQLITE_OK);
    assert_int_equal(gx_ctx_create(*db, &ctx, &err), GX_OK);
    return ctx;
}

static void close_ctx(gx_ctx *ctx, sqlite3 *db)
{
    gx_ctx_free(ctx);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void call(gx_ctx *ctx, const char *label)
{
    gx_run run;
    gx_run_begin(&run, ctx, label);
    gx_run_end(&run);
}

/* Sums over the operations whose names begin so: calls, and how often they were within a bucket. */
static void count_ops(gx_totals *totals, const char *name, int64_t *calls, int64_t *within)
{
    const char *op;
    *calls = *within = 0;
    for (int k = 0; (op = gx_operation_name(k)) != NULL; k++) {
        if (strncmp(op, name, strlen(name)) != 0) {
            continue;
        }
        for (int r = 0; r < GX_RAN_COUNT; r++) {
            *calls += atomic_load(&totals->stats.op[k].calls[r]);
        }
        for (int b = 0; b < GX_OP_BUCKETS; b++) {
            *within += atomic_load(&totals->stats.op[k].within[b]);
        }
    }
}

static gx_totals *get(gx_ctx *ctx)
{
    gx_totals *totals = calloc(1, sizeof *totals);
    assert_non_null(totals);
    gx_totals_get(ctx, totals);
    return totals;
}

static void expect(gx_ctx *ctx, const char *name, int64_t count)
{
    int64_t calls, within;
    gx_totals *totals = get(ctx);
    count_ops(totals, name, &calls, &within);
    assert_int_equal(calls, count);
    assert_int_equal(within, count);
    free(totals);
}

static void test_sums(void **state)
{
    (void)state;
    static const char again[] = "gx_sums_one";
    sqlite3 *db[2];
    gx_ctx *first = open_ctx(&db[0]), *second = open_ctx(&db[1]);
    call(first, "gx_sums_one");
    call(first, again);
    call(second, "gx_sums_two");
    gx_run run;
    gx_run_begin(&run, second, "gx_sums_two");
    gx_stats_add(&second->stats, GX_STAT_DEVICE_CALLS, 1);
    gx_run_failf(&run, GX_NUMERIC, "singular");
    assert_int_equal(gx_run_end(&run), GX_NUMERIC);
    expect(first, "gx_sums", 2);
    expect(first, "gx_sums_one", 2);
    expect(second, "gx_sums", 2);
    expect(NULL, "gx_sums", 4);
    gx_totals_reset(second);
    expect(second, "gx_sums", 0);
    expect(NULL, "gx_sums", 4);
    call(second, "gx_sums_two");
    assert_int_equal(second->stats.connection, first->stats.connection + 1);
    gx_totals *totals = get(NULL);
    assert_int_equal(totals->connections, 2);
    assert_int_equal(totals->limit, gx_mem_limit(first->mem) + gx_mem_limit(second->mem));
    assert_int_equal(atomic_load(&totals->stats.failed[GX_NUMERIC]), 1);
    assert_int_equal(atomic_load(&totals->stats.running), 0);
    free(totals);
    close_ctx(first, db[0]);
    expect(NULL, "gx_sums", 5);
    close_ctx(second, db[1]);
    expect(NULL, "gx_sums", 5);
    totals = get(NULL);
    assert_int_equal(totals->connections, 0);
    free(totals);
}

// Threads -----------------------------------------------------------------------------------------

enum { THREADS = 3, CONNECTIONS = 8, CALLS = 200 };

static _Atomic int workers;

static void *work(void *arg)
{
    (void)arg;
    for (int c = 0; c < CONNECTIONS; c++) {
        sqlite3 *db;
        gx_ctx *ctx = open_ctx(&db);
        for (int k = 0; k < CALLS; k++) {
            call(ctx, k % 2 == 0 ? "gx_thread_even" : "gx_thread_odd");
            gx_stats_add(&ctx->stats, GX_STAT_UPLOADED, 3);
            if (k == CALLS / 2) {
                gx_totals_reset(ctx);
            }
        }
        close_ctx(ctx, db);
    }
    atomic_fetch_sub(&workers, 1);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    int64_t calls = 0, within, latest = 0, uploaded = 0;
    gx_totals *before = get(NULL);
    atomic_store(&workers, THREADS);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, NULL), 0);
    }
    while (atomic_load(&workers) > 0) {
        gx_totals *totals = get(NULL);
        count_ops(totals, "gx_thread", &calls, &within);
        int64_t now = gx_stats_get(&totals->stats, GX_STAT_UPLOADED);
        assert_true(within >= latest && now >= uploaded);
        latest = within;
        uploaded = now;
        free(totals);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    expect(NULL, "gx_thread", THREADS * CONNECTIONS * CALLS);
    gx_totals *after = get(NULL);
    assert_int_equal(gx_stats_get(&after->stats, GX_STAT_UPLOADED) -
                         gx_stats_get(&before->stats, GX_STAT_UPLOADED),
                     3 * THREADS * CONNECTIONS * CALLS);
    free(before);
    free(after);
}

static void test_many_names(void **state)
{
    (void)state;
    enum { NAMES = 2 * GX_OPS_MOST };
    static char name[NAMES][16];
    sqlite3 *db;
    gx_ctx *ctx = open_ctx(&db);
    for (int k = 0; k < NAMES; k++) {
        snprintf(name[k], sizeof name[k], "many_%d", k);
        call(ctx, name[k]);
        call(ctx, name[k]);
    }
    int64_t calls, within, others;
    gx_totals *totals = get(ctx);
    count_ops(totals, "many_", &calls, &within);
    count_ops(totals, "other", &others, &within);
    assert_true(calls > 0 && others > 0 && within == others);
    assert_int_equal(calls + others, 2 * NAMES);
    assert_string_equal(gx_operation_name(GX_OPS_MOST - 1), "other");
    assert_null(gx_operation_name(GX_OPS_MOST));
    free(totals);
    close_ctx(ctx, db);
}

// Devices -----------------------------------------------------------------------------------------

static void test_held(void **state)
{
    (void)state;
    sqlite3 *db;
    gx_ctx *ctx = open_ctx(&db);
    gx_dev_info info = {.name = "cuda:3 test", .uuid = "GPU-3"};
    gx_device_name name;
    gx_totals_name_device(3, &info);
    gx_totals_device(3, &name);
    assert_string_equal(name.uuid, "GPU-3");
    int64_t start_ns = gx_now_ns();
    gx_stats_hold(&ctx->stats, 3, true);
    gx_stats_device_bytes(&ctx->stats, 3, 1000, 10);
    int64_t held = 0;
    for (int k = 0; k < 100; k++) { // it goes up while it is held, and through a reset
        gx_totals *totals = get(NULL);
        assert_int_equal(totals->stats.device[3].since_ns, 1);
        assert_int_equal(atomic_load(&totals->stats.device[3].bytes), 1000);
        assert_true(totals->stats.device[3].held_ns >= held);
        held = totals->stats.device[3].held_ns;
        free(totals);
        if (k == 50) {
            gx_totals_reset(ctx);
        }
    }
    gx_stats_hold(&ctx->stats, 3, false);
    int64_t passed_ns = gx_now_ns() - start_ns;
    gx_stats_device_bytes(&ctx->stats, 3, 0, 0);
    gx_stats_hold(&ctx->stats, -1, true);
    gx_stats_hold(&ctx->stats, GX_TALLIED_DEVICES, true);
    close_ctx(ctx, db);
    gx_totals *totals = get(NULL);
    assert_int_equal(totals->stats.device[3].since_ns, 0);
    assert_int_equal(atomic_load(&totals->stats.device[3].bytes), 0);
    assert_true(totals->stats.device[3].held_ns >= held);
    assert_true(totals->stats.device[3].held_ns <= passed_ns);
    free(totals);
}

// The log -----------------------------------------------------------------------------------------

static struct {
    gx_ctx *ctx; /* that a line of the log calls */
    int lines;
    char text[4][300];
} log_seen;

static void take_line(void *arg, int code, const char *text)
{
    (void)arg, (void)code;
    if (log_seen.lines < 4) {
        snprintf(log_seen.text[log_seen.lines], sizeof log_seen.text[0], "%s", text);
    }
    log_seen.lines++;
    if (log_seen.ctx != NULL) {
        gx_stats_tell(&log_seen.ctx->stats, &(gx_about){.kind = GX_EVENT_DAMAGE}, "from within");
        call(log_seen.ctx, "gx_from_the_log");
    }
}

static void test_log(void **state)
{
    (void)state;
    sqlite3 *db;
    gx_ctx *ctx = open_ctx(&db);
    gx_run run;
    gx_run_begin(&run, ctx, "gx_test");
    gx_stats_tell(&ctx->stats, &(gx_about){.kind = GX_EVENT_PROFILE}, "not read");
    assert_int_equal(log_seen.lines, 0); // when the call ends
    gx_run_failf(&run, GX_CORRUPT, "tile 3 is missing");
    gx_run_end(&run);
    assert_int_equal(log_seen.lines, 2);
    assert_string_equal(log_seen.text[0], "gx_test: profile (file): not read");
    assert_string_equal(log_seen.text[1], "gx_test: damage (database): tile 3 is missing");
    call(ctx, "gx_test");
    assert_int_equal(log_seen.lines, 2);
    log_seen.ctx = ctx;
    gx_ctx_failed(ctx, &(gx_err){.code = GX_CORRUPT, .text = "outside"});
    log_seen.ctx = NULL;
    assert_string_equal(log_seen.text[2], "gx: damage (database): outside");
    assert_true(log_seen.lines <= 3 + GX_EVENTS_MOST); // each line made one, and no line came back
    close_ctx(ctx, db);
}

int main(void)
{
    sqlite3_config(SQLITE_CONFIG_LOG, take_line, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums), cmocka_unit_test(test_threads),    cmocka_unit_test(test_held),
        cmocka_unit_test(test_log),  cmocka_unit_test(test_many_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
