/*
** The pools of an accelerator, on a stand-in whose buffers are counted.
**
** Plan:
**   1  sizes are rounded up, never by more than an eighth, and in order
**   2  a buffer that is given back is taken again; what taking allocates is foreseen and counted
**   3  the limit: idle buffers go first, then kept blocks, the one used longest ago before others;
**      what is lent stays, and GX_NOMEM names the numbers
**   4  a device that has no room is asked again after idle buffers have gone; another failure is
**      handed on
**   5  page-locked buffers within the budget, pageable ones of the memory limit beyond it
**   6  kept blocks: found by the whole key in their size only, one copy each, forgotten; those of
**      an earlier state of their file make place, those of other files stay
**   7  what 64 programs have not used goes when the pool next grows
**   8  idle page-locked buffers make room for other sizes in the budget, and go by age and number
**   9  the connection's counters have what the pool holds, and how long calls hold the device, of
**      all their buffers; a refusal to page-lock is an event, the budget's is none
** After each of them nothing is left on the device, and nothing outside of a buffer was touched.
*/
#include "../../mockcuda/mock_machine.h"
#include "base/mem.h"
#include "device/pool.h"
#include "store/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { KIB = 1 << 10, PLENTY = 1 << 30 };

const gx_backend *gx_cuda_backend(const char *cuda_path, gx_err *err);

typedef struct fixture {
    const gx_backend *backend;
    gx_dev *dev;
    gx_mem *mem;
    gx_stats stats;
    gx_pool *pool;
} fixture;

static mock_counts counts(void)
{
    mock_counts now;
    mock_read(&now);
    return now;
}

static int set_up(void **state)
{
    static fixture f;
    gx_err err = {0};
    f = (fixture){.backend = gx_cuda_backend(NULL, &err)};
    mock_order("");
    assert_non_null(f.backend);
    assert_int_equal(f.backend->open(0, &f.dev, &err), GX_OK);
    assert_int_equal(gx_mem_create((size_t)1 << 20, &f.mem, &err), GX_OK);
    assert_int_equal(gx_pool_create(f.backend, f.dev, f.mem, &f.stats, &f.pool, &err), GX_OK);
    gx_pool_begin(f.pool);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    gx_pool_free(f->pool);
    assert_int_equal(gx_mem_used(f->mem), 0);
    gx_mem_free_all(f->mem);
    f->backend->close(f->dev);
    mock_counts now = counts();
    assert_int_equal(now.device_buffers + now.pinned_buffers, 0);
    assert_int_equal(now.violations, 0);
    return 0;
}

static void *take(fixture *f, size_t bytes, size_t limit)
{
    gx_err err = {0};
    void *buffer = NULL;
    if (gx_pool_take(f->pool, bytes, limit, &buffer, &err) != GX_OK) {
        fail_msg("%s", err.text);
    }
    assert_true(mock_is_on_device(buffer, bytes));
    return buffer;
}

static gx_block_key key_of(int64_t id)
{
    return (gx_block_key){.file = 7, .id = id, .generation = 1, .m = 10, .n = 10, .dtype = GX_F64};
}

/* A block of matrix `id` is kept. */
static void keep(fixture *f, int64_t id, size_t bytes)
{
    gx_block_key key = key_of(id);
    gx_pool_keep(f->pool, &key, take(f, bytes, PLENTY), bytes);
}

static bool holds(const fixture *f, int64_t id, size_t bytes)
{
    gx_block_key key = key_of(id);
    return gx_pool_holds(f->pool, &key, bytes);
}

static void test_rounded(void **state)
{
    (void)state;
    size_t previous = 0;
    for (size_t bytes = 1; bytes < (size_t)3 << 30; bytes += 1 + bytes / 37) {
        size_t rounded = gx_pool_rounded(bytes);
        assert_true(rounded >= bytes && rounded >= previous);
        assert_true(rounded <= 4 * KIB || rounded - bytes <= bytes / 8);
        assert_int_equal(gx_pool_rounded(rounded), rounded);
        previous = rounded;
    }
}

static void test_taken_again(void **state)
{
    fixture *f = *state;
    gx_growth growth = {0};
    gx_pool_foresee(f->pool, 100 * KIB, 2, &growth);
    void *a = take(f, 100 * KIB, PLENTY), *b = take(f, 100 * KIB, PLENTY);
    assert_memory_equal(&growth, gx_pool_grown(f->pool), sizeof growth);
    assert_int_equal((int64_t)growth.device_bytes, gx_pool_device_bytes(f->pool));
    gx_pool_give(f->pool, a, 100 * KIB);
    gx_pool_begin(f->pool);
    growth = (gx_growth){0};
    gx_pool_foresee(f->pool, 100 * KIB, 1, &growth);
    assert_int_equal((int64_t)growth.device_buffers, 0);
    assert_ptr_equal(take(f, 100 * KIB, PLENTY), a);
    assert_int_equal((int64_t)gx_pool_grown(f->pool)->device_buffers, 0);
    void *other = take(f, 200 * KIB, PLENTY);
    assert_int_equal(counts().device_buffers, 3);
    gx_pool_give(f->pool, other, 200 * KIB);
    gx_pool_give(f->pool, a, 100 * KIB);
    gx_pool_give(f->pool, b, 100 * KIB);
    gx_pool_give(f->pool, NULL, 100 * KIB);
    assert_int_equal(counts().device_buffers, 3);
    gx_pool_trim(f->pool);
    assert_int_equal(counts().device_buffers, 0);
    assert_int_equal(gx_pool_device_bytes(f->pool), 0);
}

static void test_limit(void **state)
{
    fixture *f = *state;
    gx_err err = {0};
    void *lent = take(f, 64 * KIB, PLENTY), *idle = take(f, 32 * KIB, PLENTY), *none = lent;
    keep(f, 1, 128 * KIB);
    keep(f, 2, 128 * KIB);
    gx_pool_give(f->pool, idle, 32 * KIB);
    size_t limit = gx_pool_device_bytes(f->pool);
    void *first = take(f, 16 * KIB, limit); // the idle one goes
    assert_int_equal(counts().device_buffers, 4);
    assert_true(holds(f, 1, 128 * KIB) && holds(f, 2, 128 * KIB));
    assert_int_equal(gx_stats_get(&f->stats, GX_STAT_DEVICE_EVICTIONS), 0);
    void *second = take(f, 96 * KIB, limit); // and the older of the blocks
    assert_false(holds(f, 1, 128 * KIB));
    assert_true(holds(f, 2, 128 * KIB));
    assert_int_equal(gx_stats_get(&f->stats, GX_STAT_DEVICE_EVICTIONS), 1);
    assert_true(gx_pool_device_bytes(f->pool) <= limit);
    assert_int_equal(gx_pool_take(f->pool, 512 * KIB, limit, &none, &err), GX_NOMEM);
    assert_null(none);
    assert_non_null(strstr(err.text, "524288 bytes of device memory: device_memory_limit leaves"));
    assert_int_equal(gx_pool_kept(f->pool), 0); // it was tried
    gx_pool_give(f->pool, lent, 64 * KIB);
    gx_pool_give(f->pool, first, 16 * KIB);
    gx_pool_give(f->pool, second, 96 * KIB);
}

static void test_device_is_full(void **state)
{
    fixture *f = *state;
    gx_err err = {0};
    void *buffer = NULL;
    size_t all = mock_memory();
    gx_pool_give(f->pool, take(f, all / 2, all), all / 2);
    keep(f, 1, all / 4);
    buffer = take(f, all, all); // both have to go
    assert_int_equal(counts().device_buffers, 1);
    assert_int_equal(gx_pool_kept(f->pool), 0);
    gx_pool_give(f->pool, buffer, all);
    gx_pool_trim(f->pool);
    gx_pool_give(f->pool, take(f, 8 * KIB, PLENTY), 8 * KIB);
    mock_order("memory:1");
    gx_pool_give(f->pool, take(f, KIB, PLENTY), KIB); // asked again, without the idle one
    assert_int_equal(counts().device_buffers, 1);
    gx_pool_trim(f->pool);
    mock_order("memory:1:always");
    assert_int_equal(gx_pool_take(f->pool, KIB, PLENTY, &buffer, &err), GX_NOMEM);
    assert_null(buffer);
    err = (gx_err){0};
    mock_order("alloc:1");
    assert_int_equal(gx_pool_take(f->pool, KIB, PLENTY, &buffer, &err), GX_DEVICE);
    mock_order("");
    assert_null(buffer);
    assert_int_equal(gx_pool_device_bytes(f->pool), 0);
}

static void test_staging(void **state)
{
    fixture *f = *state;
    gx_err err = {0};
    gx_growth growth = {0};
    gx_staging stage[3] = {{0}}, more = {0};
    const size_t budget = 256 * KIB, bytes[2] = {100 * KIB, 120 * KIB};
    gx_pool_foresee_stages(f->pool, bytes, (int64_t[2]){2, 1}, budget, &growth);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(gx_pool_stage(f->pool, bytes[k / 2], budget, &stage[k], &err), GX_OK);
        assert_true(stage[k].bytes >= bytes[k / 2]);
        memset(stage[k].data, k, bytes[k / 2]);
    }
    assert_true(stage[0].is_pinned && stage[1].is_pinned && !stage[2].is_pinned);
    assert_int_equal((int64_t)growth.pinned_bytes, gx_pool_pinned_bytes(f->pool));
    assert_int_equal((int64_t)gx_pool_grown(f->pool)->pinned_bytes, gx_pool_pinned_bytes(f->pool));
    assert_true(gx_pool_pinned_bytes(f->pool) <= budget);
    assert_true(mock_is_pinned(stage[0].data, bytes[0]));
    assert_true(gx_mem_used(f->mem) >= bytes[1]);
    assert_int_equal(gx_stats_get(&f->stats, GX_STAT_PINNED_DENIED), 1);
    assert_int_equal(gx_pool_stage(f->pool, (size_t)1 << 21, 0, &more, &err), GX_BUDGET);
    assert_null(more.data);
    void *again = stage[1].data;
    for (int k = 0; k < 3; k++) {
        gx_pool_unstage(f->pool, &stage[k]);
        assert_null(stage[k].data);
        gx_pool_unstage(f->pool, &stage[k]);
    }
    assert_int_equal(gx_pool_stage(f->pool, bytes[0], budget, &more, &err), GX_OK);
    assert_ptr_equal(more.data, again); // the one used last
    gx_pool_unstage(f->pool, &more);
}

static void test_kept(void **state)
{
    fixture *f = *state;
    const size_t bytes = 50 * KIB;
    gx_block_key key = key_of(3), other = key, unknown = key;
    void *buffer = take(f, bytes, PLENTY);
    gx_pool_keep(f->pool, &key, buffer, bytes);
    other.generation++;
    assert_null(gx_pool_claim(f->pool, &other, bytes));
    assert_null(gx_pool_claim(f->pool, &key, 2 * bytes));
    keep(f, 3, bytes); // the same again: one of the two
    assert_int_equal(gx_pool_kept(f->pool), 1);
    assert_true(holds(f, 3, bytes));
    buffer = gx_pool_claim(f->pool, &key, bytes);
    assert_non_null(buffer);
    assert_int_equal(gx_pool_kept(f->pool), 0);
    unknown.file = 0; // nothing that could be found again
    gx_pool_keep(f->pool, &unknown, buffer, bytes);
    assert_int_equal(gx_pool_kept(f->pool), 0);
    for (int64_t id = 0; id < 1030; id++) { // more than there are places for
        keep(f, id, 4 * KIB);
    }
    assert_int_equal(gx_pool_kept(f->pool), 1024);
    gx_pool_forget(f->pool);
    assert_int_equal(gx_pool_kept(f->pool), 0);
    gx_pool_give(f->pool, take(f, bytes, PLENTY), bytes);
}

static void test_past(void **state)
{
    fixture *f = *state;
    const size_t bytes = 50 * KIB;
    const uint64_t one = (uint64_t)5 << GX_STAMP_STATE_BITS;
    const uint64_t two = (uint64_t)6 << GX_STAMP_STATE_BITS;
    gx_block_key key = key_of(1);
    for (uint64_t version = 1; version <= 9; version++) {
        for (key.id = 1; key.id <= 3; key.id++) {
            key.file = key.id == 3 ? two + 1 : one + version;
            void *buffer = gx_pool_claim(f->pool, &key, bytes);
            gx_pool_keep(f->pool, &key, buffer == NULL ? take(f, bytes, PLENTY) : buffer, bytes);
        }
    }
    assert_int_equal(gx_pool_kept(f->pool), 3);
    assert_true(gx_pool_device_bytes(f->pool) <= 5 * gx_pool_rounded(bytes));
    key.id = 3;
    assert_true(gx_pool_holds(f->pool, &key, bytes));
    key.id = 1;
    key.file = one + 9;
    assert_true(gx_pool_holds(f->pool, &key, bytes));
}

/* Columns 0 to 2 and 5 to 9 of 10, beside others that are not of the matrix, and all of it. */
static void test_shares(void **state)
{
    fixture *f = *state;
    const int64_t first[] = {0, 5, 3, 0}, cols[] = {3, 5, 8, 10};
    gx_block_key whole = key_of(1), key;
    whole.m = 7;
    whole.n = 10;
    for (int k = 0; k < 4; k++) {
        key = whole;
        key.j0 = first[k];
        key.n = cols[k];
        gx_pool_keep(f->pool, &key, take(f, 4 * KIB, PLENTY), 4 * KIB);
    }
    key = whole;
    key.id = 2;
    key.n = 2;
    gx_pool_keep(f->pool, &key, take(f, 4 * KIB, PLENTY), 4 * KIB);
    assert_true(gx_pool_shares(f->pool, &whole) == 7 * (3 + 5));
    whole.generation++;
    assert_true(gx_pool_shares(f->pool, &whole) == 0);
}

static void test_aged(void **state)
{
    fixture *f = *state;
    gx_pool_give(f->pool, take(f, 40 * KIB, PLENTY), 40 * KIB);
    keep(f, 1, 80 * KIB);
    for (int k = 0; k < 63; k++) {
        gx_pool_begin(f->pool);
    }
    void *new = take(f, 8 * KIB, PLENTY);
    assert_int_equal(counts().device_buffers, 3);
    gx_pool_begin(f->pool);
    void *newer = take(f, 8 * KIB, PLENTY);
    assert_int_equal(counts().device_buffers, 2);
    assert_int_equal(gx_pool_kept(f->pool), 0);
    gx_pool_give(f->pool, new, 8 * KIB);
    gx_pool_give(f->pool, newer, 8 * KIB);
}

/* So many page-locked buffers, lent at once and given back; how many there are then. */
static int64_t stage_and_back(fixture *f, size_t bytes, int count, size_t budget)
{
    static gx_staging stage[300];
    gx_err err = {0};
    for (int k = 0; k < count; k++) {
        assert_int_equal(gx_pool_stage(f->pool, bytes, budget, &stage[k], &err), GX_OK);
        assert_true(stage[k].is_pinned);
    }
    for (int k = 0; k < count; k++) {
        gx_pool_unstage(f->pool, &stage[k]);
    }
    assert_true(gx_pool_pinned_bytes(f->pool) <= budget);
    return counts().pinned_buffers;
}

static void test_pinned_goes(void **state)
{
    fixture *f = *state;
    assert_int_equal(stage_and_back(f, 64 * KIB, 4, 256 * KIB), 4);
    assert_int_equal(stage_and_back(f, 128 * KIB, 1, 256 * KIB), 3);
    assert_int_equal(stage_and_back(f, 64 * KIB, 300, PLENTY), 256); // as many as there are places
    for (int k = 0; k < 65; k++) {
        gx_pool_begin(f->pool);
    }
    assert_int_equal(stage_and_back(f, 256 * KIB, 1, PLENTY), 1);
}

static bool is_held(const fixture *f)
{
    return f->stats.device[3].since_ns != 0;
}

static void test_tally(void **state)
{
    fixture *f = *state;
    const gx_device_tally *tally = &f->stats.device[3];
    gx_pool_number(f->pool, 3);
    assert_false(is_held(f));
    void *first = take(f, 64 * KIB, PLENTY);
    assert_int_equal(tally->bytes, 64 * KIB);
    void *second = take(f, 64 * KIB, PLENTY);
    gx_pool_give(f->pool, first, 64 * KIB);
    assert_true(is_held(f) && tally->held_ns == 0);
    gx_block_key key = key_of(1);
    gx_pool_keep(f->pool, &key, second, 64 * KIB);
    assert_true(!is_held(f) && tally->held_ns > 0);
    gx_pool_give(f->pool, NULL, 64 * KIB);
    assert_non_null(second = gx_pool_claim(f->pool, &key, 64 * KIB));
    assert_true(is_held(f));
    gx_pool_keep(f->pool, &key, second, 64 * KIB);
    keep(f, 1, 64 * KIB); // one copy is enough
    gx_pool_forget(f->pool);
    assert_false(is_held(f));
    assert_int_equal(tally->bytes, 128 * KIB);
    assert_int_equal(stage_and_back(f, 64 * KIB, 1, PLENTY), 1);
    assert_int_equal(tally->pinned_bytes, 64 * KIB);
    gx_staging stage;
    gx_err err = {0};
    assert_int_equal(gx_pool_stage(f->pool, 128 * KIB, 64 * KIB, &stage, &err), GX_OK);
    assert_true(!stage.is_pinned && f->stats.event[GX_EVENT_NOMEM_PINNED] == 0); // the budget
    gx_pool_unstage(f->pool, &stage);
    mock_order("pin:1");
    assert_int_equal(gx_pool_stage(f->pool, 128 * KIB, PLENTY, &stage, &err), GX_OK);
    assert_true(!stage.is_pinned && f->stats.event[GX_EVENT_NOMEM_PINNED] == 1);
    gx_pool_unstage(f->pool, &stage);
    gx_pool_trim(f->pool);
    assert_true(tally->bytes == 0 && tally->pinned_bytes == 0);
}

int main(void)
{
    setenv("MOCK_MEMORY", "16777216", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounded),
        cmocka_unit_test_setup_teardown(test_taken_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_device_is_full, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_staging, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_past, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shares, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_aged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pinned_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tally, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
