/*
** An intermediate result that stays in device memory, on a device that is not there.
**
** Plan:
**   1  a product of several blocks stays: rectangles that cross blocks, single rows and columns,
**      the whole of it are read, in its dtype and in others, by columns through a small buffer
**   2  a second program writes it anew: the first one's buffers serve it; dropped, all are back
**   3  the host has made it after all: it is an intermediate like any other
**   4  the device is closed, or fails, before it is read: the run says so, and what was asked for
**      is NaN
*/
#include "devicekit.h"

#include "device/accel.h"

enum { EDGE = 64, M = 150, K = 40, N = 2200 }; /* a row of f64 is longer than the small buffer */

/* A B into C, which stays; on the device where there is one. */
static void make(job *x, kit *f, bool is_on_device)
{
    size_t bytes;
    kit_begin(x, f, EDGE);
    gx_run_failf(&x->run, GX_INTERRUPT, "C is not to be stored");
    gx_sink_end(&x->C);
    gx_run_end(&x->run);
    gx_run_begin(&x->run, f->ctx, "product");
    gx_sink_begin_resident(&x->run, M, N, GX_F64, &x->C);
    gx_accel *accel = is_on_device ? kit_device(x, &bytes) : NULL;
    for (int round = 0; round < 2; round++) {
        gx_prog *prog = kit_product(x, false);
        assert_true(gx_prog_run_on(prog, accel, is_on_device ? bytes : 0));
        gx_prog_free(prog);
    }
    assert_true(gx_ok(&x->run));
    assert_true((x->C.held.data != NULL) == is_on_device);
}

static void look(job *x, int64_t i0, int64_t j0, int64_t m, int64_t n, gx_number dtype)
{
    gx_mat mat;
    gx_err err = {0};
    size_t count = (size_t)(m * n);
    void *raw = malloc(count * 16);
    double *found = malloc(count * 16);
    assert_non_null(raw);
    assert_non_null(found);
    gx_sink_source(&x->C, "C", &mat);
    assert_int_equal(gx_mat_read(&x->run, &mat, NULL, i0, j0, m, n, dtype, raw, m, &err), GX_OK);
    assert_true(gx_ok(&x->run));
    gx_convert(dtype, raw, m, GX_C128, found, m, m, n);
    for (int64_t p = 0; p < m * n; p++) {
        double sum = 0;
        for (int64_t l = 0; l < K; l++) {
            sum += kit_element('A', i0 + p % m, l) * kit_element('B', l, j0 + p / m);
        }
        assert_true(found[2 * p] == sum && found[2 * p + 1] == 0);
    }
    free(found);
    free(raw);
}

static void end(job *x)
{
    gx_sink_drop(&x->C);
    gx_run_end(&x->run);
}

static void check_reading(kit *f, bool is_on_device)
{
    static const gx_number dtypes[] = {GX_F64, GX_F32, GX_C128, GX_C64};
    job x;
    kit_store(f, 'A', M, K);
    kit_store(f, 'B', K, N);
    make(&x, f, is_on_device);
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        look(&x, 0, 0, M, N, dtypes[d]);
        look(&x, 60, 120, 70, 20, dtypes[d]);
        look(&x, M - 1, 0, 1, N, dtypes[d]);
        look(&x, 0, N - 1, M, 1, dtypes[d]);
        look(&x, 64, 64, 64, 64, dtypes[d]);
    }
    end(&x);
}

static void test_read(void **state)
{
    check_reading(*state, true);
}

static void test_host(void **state)
{
    check_reading(*state, false);
}

/* Reading fails the run with those words. */
static void check_refused(job *x, const char *words)
{
    gx_mat mat;
    gx_err err = {0};
    double element = 0;
    gx_sink_source(&x->C, "C", &mat);
    gx_mat_read(&x->run, &mat, NULL, 3, 5, 1, 1, GX_F64, &element, 1, &err);
    assert_true(element != element);
    assert_false(gx_ok(&x->run));
    assert_non_null(strstr(x->run.err.text, words));
}

static void test_lost(void **state)
{
    kit *f = *state;
    job x;
    kit_store(f, 'A', M, K);
    kit_store(f, 'B', K, N);
    make(&x, f, true);
    gx_accel_close(f->ctx);
    check_refused(&x, "the device was closed while it held a result");
    end(&x);
    make(&x, f, true);
    mock_order("download:1:launch");
    check_refused(&x, "mock");
    mock_order("");
    end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_read, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_host, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_lost, kit_up, kit_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
