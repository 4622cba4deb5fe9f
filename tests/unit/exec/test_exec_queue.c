/*
** Programs on a device: helpers, carrier, conductor and caller, on a stand-in whose memory is full
** of NaNs, so that a copy that comes too late shows.
**
** Plan:
**   1  a product with every number of slots from the least to all, with 0 to 3 readers, in a
**      rollback journal and in WAL: exact; later runs find what fits in device memory
**   2  unfinished blocks are spilled to their tiles and read back: exact
**   3  a block of several tiles is copied in pieces; a tile of several pieces, with few slots and
**      many, few buffers and many, 0 to 3 readers, who leave when the caller writes: exact, and
**      where there is room each goes up once
**   4  every call of the device fails once, one after the other, with whole tiles and with cut
**      ones: the program says so or has run, the run is well, and on the host the result is exact;
**      memory that runs out is no reason to give the device up, anything else is
**   5  a tile that cannot be read fails the run, not the device
** After each of them the device has everything back, and nothing outside of a buffer was touched.
*/
#include "devicekit.h"

enum { M = 130, K = 100, N = 90, EDGE = 32, BLOCK = EDGE * EDGE * 8 };

static void exec(kit *f, const char *sql)
{
    char *message = NULL;
    if (sqlite3_exec(f->db, sql, NULL, NULL, &message) != SQLITE_OK) {
        fail_msg("%s: %s", sql, message);
    }
}

static void store_both(kit *f)
{
    kit_store(f, 'A', M, K);
    kit_store(f, 'B', K, N);
}

/* The product on the device with so many bytes of its memory. */
static void run_within(kit *f, size_t bytes, int64_t edge, bool is_outer)
{
    job x;
    size_t all;
    int64_t calls = kit_stat(f, GX_STAT_DEVICE_CALLS);
    kit_begin(&x, f, edge);
    gx_prog *prog = kit_product(&x, is_outer);
    gx_accel *accel = kit_device(&x, &all);
    assert_true(kit_run_on(prog, accel, bytes));
    gx_prog_free(prog);
    kit_end(&x);
    assert_int_equal(kit_stat(f, GX_STAT_DEVICE_CALLS), calls + 1);
}

static void test_slots(void **state)
{
    kit *f = *state;
    static const char *const readers[] = {"0", "1", "3"};
    for (int mode = 0; mode < 2; mode++) {
        exec(f, mode == 0 ? "PRAGMA journal_mode=delete" : "PRAGMA journal_mode=wal");
        store_both(f);
        for (int r = 0; r < 3; r++) {
            kit_set(f, GX_SET_READERS, readers[r]);
            for (size_t slots = 3; slots <= 48; slots += slots < 8 ? 1 : 20) {
                run_within(f, slots * BLOCK, EDGE, false);
            }
        }
        int64_t hits = kit_stat(f, GX_STAT_DEVICE_HITS), up = kit_stat(f, GX_STAT_UPLOADED);
        run_within(f, 60 * BLOCK, EDGE, false); // all of A and B is there already
        assert_true(kit_stat(f, GX_STAT_DEVICE_HITS) > hits);
        assert_int_equal(kit_stat(f, GX_STAT_UPLOADED), up);
    }
}

static void test_spills(void **state)
{
    kit *f = *state;
    store_both(f);
    for (size_t slots = 3; slots <= 9; slots += 2) {
        int64_t spills = kit_stat(f, GX_STAT_SPILLS);
        run_within(f, slots * BLOCK, EDGE, true);
        assert_true(kit_stat(f, GX_STAT_SPILLS) > spills);
    }
}

static void test_pieces(void **state)
{
    kit *f = *state;
    kit_store(f, 'A', 700, 640); // more than the least piece
    kit_store(f, 'B', 640, 33);
    kit_set(f, GX_SET_READERS, "2");
    run_within(f, (size_t)64 << 20, 704, false);
    assert_true(kit_counts().uploads > 2);
}

enum { PART = 512, PART_BYTES = PART * PART * 8 }; // a tile of two of the least pieces

static void store_large(kit *f)
{
    kit_store_tiles(f, 'A', PART, 4 * PART, PART);
    kit_store_tiles(f, 'B', 4 * PART, TILE, PART);
}

/* What earlier runs left on the device. */
static void forget(kit *f)
{
    job x;
    size_t bytes;
    kit_begin(&x, f, PART);
    gx_pool_forget(kit_device(&x, &bytes)->pool);
    gx_sink_end(&x.C);
    gx_run_end(&x.run);
}

static void test_tiles_in_pieces(void **state)
{
    kit *f = *state;
    static const char *const readers[] = {"0", "1", "3"}, *const pinned[] = {"0", "100000000"};
    store_large(f);
    for (int k = 0; k < 6; k++) {
        exec(f, k < 3 ? "PRAGMA journal_mode=delete" : "PRAGMA journal_mode=wal");
        kit_set(f, GX_SET_READERS, readers[k % 3]);
        kit_set(f, GX_SET_PINNING_BUDGET, pinned[k % 2]);
        for (size_t slots = 3; slots <= 12; slots += slots < 6 ? 1 : 6) {
            int64_t up = kit_stat(f, GX_STAT_UPLOADED), hits = kit_stat(f, GX_STAT_DEVICE_HITS);
            forget(f);
            run_within(f, slots * PART_BYTES, PART, slots % 2 == 0);
            up = kit_stat(f, GX_STAT_UPLOADED) - up;
            assert_true(up >= 4 * (int64_t)PART_BYTES + 4 * TILE * PART * 8);
            assert_true(slots < 12 || up == 4 * (int64_t)PART_BYTES + 4 * TILE * PART * 8);
            assert_int_equal(kit_stat(f, GX_STAT_DEVICE_HITS), hits);
        }
    }
}

/* The n-th call of that name fails; *is_seen: there was one.  Then the host does it. */
static void run_failing(kit *f, const char *call, int64_t edge, int n, bool *is_seen)
{
    job x;
    char order[40];
    size_t bytes;
    kit_begin(&x, f, edge);
    gx_prog *prog = kit_product(&x, false);
    gx_accel *accel = kit_device(&x, &bytes);
    gx_pool_trim(accel->pool); // so that buffers are asked for
    snprintf(order, sizeof order, "%s:%d", call, n);
    mock_order(order);
    size_t slots = edge == EDGE ? 12 : 4;
    bool is_run = kit_run_on(prog, accel, slots * (size_t)(edge * edge) * 8);
    *is_seen = kit_counts().failures > 0;
    mock_order("");
    assert_true(gx_ok(&x.run));
    assert_true(is_run || *is_seen);
    if (!is_run) {
        bool is_memory = strcmp(call, "memory") == 0;
        assert_int_equal(f->ctx->is_accel_off, !is_memory);
        kit_run_on(prog, NULL, 0);
    }
    gx_prog_free(prog);
    kit_end(&x);
    f->ctx->is_accel_off = false;
}

static void test_failures(void **state)
{
    kit *f = *state;
    static const char *const calls[] = {
        "memory",   "alloc",     "pin",         "upload",     "download",        "kernel",
        "mark_set", "mark_wait", "mark_create", "queue_wait", "queue_after_mark"};
    kit_set(f, GX_SET_READERS, "2");
    for (size_t k = 0; k < 2 * sizeof calls / sizeof calls[0]; k++) {
        const char *call = calls[k / 2];
        bool is_seen = true;
        int n = 1, seen = 0;
        (k % 2 == 0 ? store_both : store_large)(f);
        for (; is_seen && n < 200; n += 1 + (k % 2 == 0 ? n / 4 : 2 * n)) {
            run_failing(f, call, k % 2 == 0 ? EDGE : PART, n, &is_seen);
            seen += is_seen;
        }
        if (seen == 0) {
            fail_msg("%s is never called", call);
        }
    }
}

static void test_damaged_tile(void **state)
{
    kit *f = *state;
    for (int readers = 0; readers < 3; readers += 2) {
        job x;
        size_t bytes;
        store_both(f);
        kit_set(f, GX_SET_READERS, readers == 0 ? "0" : "2");
        exec(f, "UPDATE gx_tile SET data = substr(data, 1, 100) WHERE id = (SELECT max(id) - 1 "
                "FROM gx_tile)");
        kit_begin(&x, f, EDGE);
        gx_prog *prog = kit_product(&x, false);
        gx_accel *accel = kit_device(&x, &bytes);
        assert_true(kit_run_on(prog, accel, 12 * BLOCK)); // not to be tried again
        gx_prog_free(prog);
        gx_sink_end(&x.C);
        assert_int_equal(gx_run_end(&x.run), GX_CORRUPT);
        assert_non_null(strstr(x.run.err.text, "tile"));
        assert_false(f->ctx->is_accel_off);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_slots, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_spills, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_pieces, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_tiles_in_pieces, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_failures, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_damaged_tile, kit_up, kit_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
