/*
** Whole matrices in memory (dense.h), on a context without a database file.
**
** Plan:
**   1. loading a source and rows of it: every element, leading dimensions, views
**   2. NaN and Inf are found where they are; Hermitian to the bit, a part at a time; by several
**   3. sums: trace and norm; values that fit them pass, wrong ones and NaN are refused in words
**   4. a mirrored triangle; a call whose info is not 0
**   5. what does not fit is refused with both numbers
*/
#include "connection.h"
#include "alg/dense.h"

#include <math.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct fixture {
    sqlite3 *db;
    gx_ctx *ctx;
    gx_run run;
    size_t used; /* bytes that a connection at rest holds */
} fixture;

static int set_up(void **state)
{
    static fixture f;
    gx_err err = {0};
    assert_int_equal(sqlite3_open(":memory:", &f.db), SQLITE_OK);
    assert_int_equal(gx_ctx_create(f.db, &f.ctx, &err), GX_OK);
    f.used = gx_mem_used(f.ctx->mem);
    gx_run_begin(&f.run, f.ctx, "test");
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    gx_run_end(&f->run);
    assert_int_equal(gx_mem_used(f->ctx->mem), f->used);
    gx_ctx_free(f->ctx);
    assert_int_equal(sqlite3_close(f->db), SQLITE_OK);
    return 0;
}

static void failed_with(fixture *f, gx_code code, const char *text)
{
    assert_int_equal(f->run.err.code, code);
    if (strstr(f->run.err.text, text) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", f->run.err.text, text);
    }
}

static void number(const void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n, gx_number dtype,
                   void *dst, int64_t ld)
{
    (void)arg;
    assert_int_equal(dtype, GX_F64);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            ((double *)dst)[j * ld + i] = (double)(1000 * (i0 + i) + j0 + j);
        }
    }
}

static void loads(void **state)
{
    fixture *f = *state;
    gx_mat mat, view;
    double x[70 * 9];
    gx_mat_generated(&mat, "G", GX_F64, 60, 9, number, NULL);
    mat.tile_rows = 16;
    mat.tile_cols = 4;
    assert_int_equal(gx_dense_load(&f->run, &mat, GX_F64, x, 70), GX_OK);
    for (int64_t j = 0; j < 9; j++) {
        for (int64_t i = 0; i < 60; i++) {
            assert_true(x[j * 70 + i] == (double)(1000 * i + j));
        }
    }
    assert_int_equal(gx_dense_load_rows(&f->run, &mat, 13, 40, GX_F64, x, 40), GX_OK);
    assert_true(x[0] == 13000 && x[39] == 52000 && x[8 * 40 + 39] == 52008);
    gx_mat_view(&view, &mat, GX_TRANS, 0, 0, 9, 60);
    assert_int_equal(gx_dense_load(&f->run, &view, GX_F64, x, 9), GX_OK);
    assert_true(x[9] == 1000 && x[1] == 1 && x[59 * 9 + 8] == 59008);
}

static void looks(void **state)
{
    fixture *f = *state;
    float x[] = {1, 0, 2, 3, 2, -3, 4, 0}; // complex: 1, 2+3i; 2-3i, 4
    assert_true(gx_dense_is_hermitian(&f->run, GX_C64, x, 2, 2));
    x[5] = 3;
    assert_false(gx_dense_is_hermitian(&f->run, GX_C64, x, 2, 2));
    x[5] = -3;
    x[1] = 1; // the diagonal
    assert_false(gx_dense_is_hermitian(&f->run, GX_C64, x, 2, 2));
    double y[] = {1, 5, 7, 1};
    assert_false(gx_dense_is_hermitian(&f->run, GX_F64, y, 2, 2));
    assert_int_equal(gx_dense_finite(&f->run, "X", GX_C64, x, 2, 2, 2), GX_OK);
    gx_dense_mirror(&f->run, GX_C64, x, 2, 2);
    assert_true(gx_dense_is_hermitian(&f->run, GX_C64, x, 2, 2) && x[1] == 0);
    x[7] = INFINITY;
    assert_int_equal(gx_dense_finite(&f->run, "X", GX_C64, x, 2, 2, 2), GX_NUMERIC);
    failed_with(f, GX_NUMERIC, "X has Inf at (1, 1)");
}

/* So large that several look: the first place is named all the same. */
static void looks_at_many(void **state)
{
    enum { N = 700 };
    static float z[N * N * 2];
    fixture *f = *state;
    gx_number dtypes[] = {GX_F32, GX_C64};
    for (int t = 0; t < 2; t++) {
        int64_t parts = t + 1;
        gx_run_end(&f->run);
        gx_run_begin(&f->run, f->ctx, "test");
        memset(z, 0, sizeof z);
        assert_int_equal(gx_dense_finite(&f->run, "Z", dtypes[t], z, N, N, N), GX_OK);
        assert_true(gx_dense_is_hermitian(&f->run, dtypes[t], z, N, N));
        z[(690 * N + 3) * parts] = 1;
        assert_false(gx_dense_is_hermitian(&f->run, dtypes[t], z, N, N));
        z[(3 * N + 690) * parts] = 1;
        assert_true(gx_dense_is_hermitian(&f->run, dtypes[t], z, N, N));
        z[(650 * N + 1) * parts] = NAN;
        z[(640 * N + 699) * parts + parts - 1] = -INFINITY;
        assert_int_equal(gx_dense_finite(&f->run, "Z", dtypes[t], z, N, N, N), GX_NUMERIC);
        failed_with(f, GX_NUMERIC, "Z has Inf at (699, 640)");
    }
}

static void sums(void **state)
{
    fixture *f = *state;
    double x[] = {2, 1, 1, 2};
    gx_dense_sums s;
    assert_int_equal(gx_dense_sums_of(&f->run, GX_F64, x, 2, 2, 2, &s), GX_OK);
    assert_true(s.trace.re == 4 && s.trace.im == 0 && fabs(s.norm - sqrt(10)) < 1e-15);
    gx_scalar good[] = {{1, 0}, {3, 0}}, wrong[] = {{1.5, 0}, {2.5, 0}}, nan[] = {{1, 0}, {NAN, 0}};
    assert_int_equal(
        gx_dense_check_sums(&f->run, "X", "eigenvalues", GX_F64, &s, good, 2, true, true), GX_OK);
    assert_int_equal( // the trace alone does not see it
        gx_dense_check_sums(&f->run, "X", "eigenvalues", GX_F64, &s, wrong, 2, true, false), GX_OK);
    gx_dense_sums none = {.norm = 0};
    assert_int_equal(
        gx_dense_check_sums(&f->run, "X", "eigenvalues", GX_F64, &none, NULL, 0, true, true),
        GX_OK);
    gx_dense_check_sums(&f->run, "X", "eigenvalues", GX_F64, &s, wrong, 2, true, true);
    failed_with(f, GX_NUMERIC, "the eigenvalues found are not those of X: off by 0.15 of its norm");
    fixture fresh = *f;
    gx_run_begin(&fresh.run, f->ctx, "test");
    gx_dense_check_sums(&fresh.run, "X", "eigenvalues", GX_F64, &s, nan, 2, true, false);
    failed_with(&fresh, GX_NUMERIC, "the eigenvalues found are not those of X");
    gx_run_end(&fresh.run);
}

static void calls(void **state)
{
    fixture *f = *state;
    double x[] = {1, 2, 2, 1}; // not positive definite
    int64_t info = 0;
    gx_args args = {.uplo = GX_LOWER, .m = 2, .n = 2, .c = x, .ldc = 2, .info = &info};
    assert_int_equal(gx_dense_call(&f->run, GX_POTRF, GX_F64, &args), GX_OK);
    assert_int_equal(info, 2);
    double y[] = {1, 2, 2, 1};
    args.c = y;
    args.info = NULL;
    assert_int_equal(gx_dense_call(&f->run, GX_POTRF, GX_F64, &args), GX_NUMERIC);
    failed_with(f, GX_NUMERIC, "did not converge (potrf: 2)");
    double z[] = {1, 2, 2, 1}; // sticky: a failed run calls nothing
    args.c = z;
    assert_int_equal(gx_dense_call(&f->run, GX_POTRF, GX_F64, &args), GX_NUMERIC);
    assert_true(z[3] == 1);
}

static void budget(void **state)
{
    fixture *f = *state;
    gx_mat mat;
    gx_mat_generated(&mat, "G", GX_F64, 60, 9, number, NULL);
    assert_int_equal(gx_dense_fits(&f->run, 1000, "values", &mat, "ask for k"), GX_OK);
    size_t more = gx_mem_available(f->ctx->mem) + 1;
    assert_int_equal(gx_dense_fits(&f->run, more, "values", &mat, "ask for k"), GX_BUDGET);
    failed_with(f, GX_BUDGET, "values of G (60x9 f64) need ");
    failed_with(f, GX_BUDGET, "in memory but memory_limit leaves ");
    failed_with(f, GX_BUDGET, ": ask for k");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(loads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(looks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(looks_at_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sums, set_up, tear_down),
        cmocka_unit_test_setup_teardown(calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(budget, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
