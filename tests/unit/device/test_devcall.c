/*
** A call on a device that is not there: what it wants, takes, keeps and gives back.
**
** Plan:
**   1  what is wanted fits, is taken and given back; the next such call allocates nothing
**   2  the first buffer is kept under its key when it is there, and found by the next call, which
**      then does not ask for the device's memory; not found once the matrix has been replaced
**   3  what is too large does not fit; what no device has, neither
**   4  a call that has failed on the device ends with nothing kept, and is the host's turn
** After each of them every buffer, queue and mark is back (kit_down).
*/
#include "../exec/devicekit.h"
#include "device/devcall.h"

enum { ROWS = 30, COLS = 20, BYTES = ROWS * COLS * 8 };

static gx_devcall begin(job *x, kit *f, gx_meta *meta, gx_mat *A)
{
    size_t bytes;
    gx_err err = {0};
    *x = (job){.f = f};
    gx_run_begin(&x->run, f->ctx, "call");
    gx_devcall c = {.run = &x->run, .accel = kit_device(x, &bytes)};
    assert_int_equal(gx_store_find(f->ctx->store, "A", meta, &err), GX_OK);
    gx_mat_stored(A, meta);
    c.key = gx_devcall_key(&x->run, A, 0, ROWS, GX_F64);
    c.hold[0].bytes = BYTES;
    c.hold[1].bytes = c.hold[3].bytes = BYTES / 2; // two alike
    return c;
}

/* What taking it would allocate. */
static double missing(const gx_devcall *c)
{
    gx_growth growth = {0};
    gx_devcall_foresee(c, &growth);
    return growth.device_buffers;
}

static void test_kept(void **state)
{
    kit *f = *state;
    job x;
    gx_meta meta;
    gx_mat A;
    gx_err err = {0};
    kit_store(f, 'A', ROWS, COLS);
    gx_devcall c = begin(&x, f, &meta, &A);
    assert_true(c.key.file != 0 && gx_devcall_fits(&c) && !c.is_there);
    assert_true(missing(&c) == 3);
    assert_int_equal(gx_devcall_begin(&c, 0, &err), GX_OK);
    assert_true(c.hold[0].data != NULL && c.hold[3].data != NULL && c.hold[2].data == NULL);
    c.is_there = true;
    assert_true(gx_devcall_end(&c, GX_OK, &err));
    assert_true(c.hold[0].data == NULL && !c.is_there);
    assert_int_equal(gx_run_end(&x.run), GX_OK);

    c = begin(&x, f, &meta, &A);
    assert_true(gx_devcall_fits(&c) && c.is_there && c.limit == GX_DEVCALL_NO_LIMIT);
    assert_true(missing(&c) == 0);
    int64_t hits = kit_stat(f, GX_STAT_DEVICE_HITS);
    assert_int_equal(gx_devcall_begin(&c, 0, &err), GX_OK);
    assert_int_equal(kit_stat(f, GX_STAT_DEVICE_HITS), hits + 1);
    gx_devcall_give(&c);
    assert_int_equal(gx_run_end(&x.run), GX_OK);

    kit_store(f, 'A', ROWS, COLS); // another generation
    c = begin(&x, f, &meta, &A);
    assert_true(gx_devcall_fits(&c) && !c.is_there && c.limit < GX_DEVCALL_NO_LIMIT);
    assert_int_equal(gx_run_end(&x.run), GX_OK);
}

static void test_large(void **state)
{
    kit *f = *state;
    job x;
    gx_meta meta;
    gx_mat A;
    kit_store(f, 'A', ROWS, COLS);
    gx_devcall c = begin(&x, f, &meta, &A);
    c.hold[1].bytes = GX_NO_WORKSPACE;
    assert_false(gx_devcall_fits(&c));
    c.hold[1].bytes = GX_NO_WORKSPACE / 2;
    assert_false(gx_devcall_fits(&c));
    assert_true(gx_devcall_is_open(&c));
    assert_int_equal(gx_run_end(&x.run), GX_OK);
}

static void test_failed(void **state)
{
    kit *f = *state;
    job x;
    gx_meta meta;
    gx_mat A;
    gx_err err = {0};
    kit_store(f, 'A', ROWS, COLS);
    gx_devcall c = begin(&x, f, &meta, &A);
    assert_true(gx_devcall_fits(&c));
    assert_int_equal(gx_devcall_begin(&c, 0, &err), GX_OK);
    c.is_there = true;
    gx_fail(&err, GX_DEVICE, "it is broken");
    assert_false(gx_devcall_end(&c, GX_DEVICE, &err));
    assert_false(gx_devcall_is_open(&c)); // the only one is off
    assert_int_equal(gx_devcall_check_open(&c, &err), GX_DEVICE);
    assert_int_equal(gx_run_end(&x.run), GX_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kept, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_large, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_failed, kit_up, kit_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
