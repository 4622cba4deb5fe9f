/*
** Sparse matrices in memory, preconditioners and iterative methods (csr_matrix.h, system.h).
**
** Plan, with a tridiagonal matrix whose solutions are known, and small ones written out:
**   1. loading: all entries, pieces that cover the rows; NaN is named; products; the norm
**   2. the transpose; Hermitian or not; the diagonal; a shift where diagonal entries are missing
**   3. ILU(0) and IC(0) of a matrix whose factors fill nothing are its factorisations
**   4. every method reaches its tolerance; too few iterations are an error with their number
**   5. without memory each fails in words, and nothing is left behind
*/
#include "connection.h"
#include "alg/system.h"

#include <math.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algkit.h"

enum { N = 50 };

typedef struct tridiagonal {
    uint32_t start[N + 1];
    int32_t index[3 * N];
    double value[3 * N];
    gx_csr csr;
    gx_mat mat;
} tridiagonal;

/* Rows low, 4, high. */
static void make(tridiagonal *t, double low, double high)
{
    int64_t e = 0;
    for (int i = 0; i < N; i++) {
        t->start[i] = (uint32_t)e;
        for (int j = i > 0 ? i - 1 : 0; j <= i + 1 && j < N; j++) {
            t->index[e] = j;
            t->value[e++] = j < i ? low : j > i ? high : 4;
        }
    }
    t->start[N] = (uint32_t)e;
    t->csr = (gx_csr){.dtype = GX_F64,
                      .rows = N,
                      .cols = N,
                      .entries = e,
                      .index_bytes = 4,
                      .start = t->start,
                      .index = t->index,
                      .value = t->value};
    gx_mat_sparse_value(&t->mat, "T", &t->csr);
}

static void load(fixture *f, tridiagonal *t, gx_csr_matrix *W)
{
    assert_int_equal(gx_csr_matrix_load(&f->run, &t->mat, GX_F64, W), GX_OK);
}

/* 1. */
static void loads(void **state)
{
    fixture *f = *state;
    tridiagonal t;
    gx_csr_matrix W;
    double x[N], y[N], sum = 0;
    gx_run_begin(&f->run, f->ctx, "test");
    make(&t, -1, -2);
    load(f, &t, &W);
    assert_int_equal(W.entries, 3 * N - 2);
    assert_int_equal(W.cut[0], 0);
    assert_int_equal(W.cut[W.pieces], N);
    for (int i = 0; i < N; i++) {
        x[i] = i + 1;
    }
    assert_int_equal(gx_csr_matrix_times(&f->run, &W, x, y), GX_OK);
    for (int i = 0; i < N; i++) {
        double expected = 4 * x[i] - (i > 0 ? x[i - 1] : 0) - (i + 1 < N ? 2 * x[i + 1] : 0);
        assert_true(y[i] == expected);
    }
    for (int64_t e = 0; e < W.entries; e++) {
        sum += t.value[e] * t.value[e];
    }
    assert_true(fabs(gx_csr_matrix_norm(&W) - sqrt(sum)) < 1e-12);
    gx_csr_matrix_clear(&W);
    t.value[4] = NAN;
    assert_int_equal(gx_csr_matrix_load(&f->run, &t.mat, GX_F64, &W), GX_ARG);
    assert_string_equal(f->run.err.text, "T[1,2] is NaN");
    gx_csr_matrix_clear(&W);
    gx_run_end(&f->run);
}

/* 2. */
static void looks(void **state)
{
    fixture *f = *state;
    tridiagonal t;
    gx_csr_matrix W, T;
    gx_run_begin(&f->run, f->ctx, "test");
    make(&t, -1, -1);
    load(f, &t, &W);
    assert_true(gx_csr_matrix_is_hermitian(&f->run, &W) && gx_csr_matrix_has_positive_diagonal(&W));
    gx_csr_matrix_clear(&W);
    make(&t, -1, -2);
    load(f, &t, &W);
    assert_false(gx_csr_matrix_is_hermitian(&f->run, &W));
    assert_int_equal(gx_csr_matrix_transpose(&f->run, &W, &T), GX_OK);
    for (int64_t i = 0; i + 1 < N; i++) {
        int64_t e = gx_csr_matrix_diagonal(&T, i);
        assert_int_equal(T.index[e + 1], i + 1);
        assert_true(((double *)T.value)[e + 1] == -1 && ((double *)T.value)[e] == 4);
    }
    gx_csr_matrix_clear(&T);
    gx_csr_matrix_clear(&W);
    const uint32_t start[] = {0, 1, 2, 2};
    const int32_t index[] = {2, 0};
    const double value[] = {5, 6};
    const gx_csr hollow = {.dtype = GX_F64,
                           .rows = 3,
                           .cols = 3,
                           .entries = 2,
                           .index_bytes = 4,
                           .start = start,
                           .index = index,
                           .value = value};
    gx_mat mat;
    gx_mat_sparse_value(&mat, "H", &hollow);
    assert_int_equal(gx_csr_matrix_load(&f->run, &mat, GX_F64, &W), GX_OK);
    assert_int_equal(gx_csr_matrix_diagonal(&W, 1), -1);
    assert_int_equal(gx_csr_matrix_shift(&f->run, &W, (gx_scalar){7, 0}), GX_OK);
    const int32_t columns[] = {0, 2, 0, 1, 2};
    const double values[] = {-7, 5, 6, -7, -7};
    assert_int_equal(W.entries, 5);
    assert_memory_equal(W.index, columns, sizeof columns);
    assert_memory_equal(W.value, values, sizeof values);
    gx_csr_matrix_clear(&W);
    gx_run_end(&f->run);
}

/* 3. */
static void factors(void **state)
{
    fixture *f = *state;
    for (int k = 0; k < 2; k++) {
        tridiagonal t;
        gx_csr_matrix W;
        gx_precond M;
        double x[N], b[N], z[N];
        gx_run_begin(&f->run, f->ctx, "test");
        make(&t, -1, k == 0 ? -2 : -1);
        load(f, &t, &W);
        for (int i = 0; i < N; i++) {
            x[i] = sin(i);
        }
        gx_csr_matrix_times(&f->run, &W, x, b);
        gx_precond_kind kind = k == 0 ? GX_PRECOND_ILU0 : GX_PRECOND_IC0;
        assert_int_equal(gx_precond_make(&f->run, kind, &W, false, &M), GX_OK);
        gx_precond_apply(&M, b, z);
        for (int i = 0; i < N; i++) {
            assert_true(fabs(z[i] - x[i]) < 1e-13);
        }
        gx_precond_clear(&M);
        gx_csr_matrix_clear(&W);
        assert_int_equal(gx_run_end(&f->run), GX_OK);
    }
}

/* A method on the matrix, with so many iterations at most; the run's code. */
static gx_code iterate(fixture *f, tridiagonal *t, gx_system_method method, int64_t most, double *x)
{
    gx_csr_matrix W, T = {.mem = NULL};
    double b[N];
    gx_run_begin(&f->run, f->ctx, "test");
    if (gx_csr_matrix_load(&f->run, &t->mat, GX_F64, &W) == GX_OK &&
        gx_csr_matrix_transpose(&f->run, &W, &T) == GX_OK) {
        gx_iterate it = {.method = method,
                         .A = &W,
                         .T = &T,
                         .tol = 1e-12,
                         .most = most,
                         .restart = 10,
                         .norm = gx_csr_matrix_norm(&W)};
        for (int i = 0; i < N; i++) {
            b[i] = 1 + i % 3;
            x[i] = 0;
        }
        if (gx_iterate_begin(&f->run, GX_PRECOND_JACOBI, &it) == GX_OK) {
            gx_iterate_solve(&it, b, x);
        }
        gx_iterate_end(&it);
    }
    gx_csr_matrix_clear(&T);
    gx_csr_matrix_clear(&W);
    return gx_run_end(&f->run);
}

static const gx_system_method KINDS[] = {GX_SYSTEM_CG, GX_SYSTEM_MINRES, GX_SYSTEM_GMRES,
                                         GX_SYSTEM_LSQR};

/* 4. */
static void methods(void **state)
{
    fixture *f = *state;
    for (size_t k = 0; k < sizeof KINDS / sizeof *KINDS; k++) {
        tridiagonal t;
        double x[N];
        make(&t, -1, -1);
        assert_int_equal(iterate(f, &t, KINDS[k], 1000, x), GX_OK);
        for (int i = 1; i + 1 < N; i++) {
            assert_true(fabs(4 * x[i] - x[i - 1] - x[i + 1] - (1 + i % 3)) < 1e-9);
        }
        assert_int_equal(iterate(f, &t, KINDS[k], 2, x), GX_NUMERIC);
        assert_non_null(strstr(f->run.err.text, "after 2 iterations"));
        assert_non_null(strstr(f->run.err.text, gx_system_methods[KINDS[k]]));
    }
}

/* 5. */
static void budget(void **state)
{
    fixture *f = *state;
    tridiagonal t;
    double x[N];
    make(&t, -1, -1);
    size_t used = gx_mem_used(f->ctx->mem);
    for (size_t k = 0; k < sizeof KINDS / sizeof *KINDS; k++) {
        size_t limit = 0;
        gx_code code = GX_BUDGET;
        while (code == GX_BUDGET) {
            gx_mem_set_limit(f->ctx->mem, used + limit);
            limit += 512;
            code = iterate(f, &t, KINDS[k], 1000, x);
            assert_int_equal(gx_mem_used(f->ctx->mem), used);
        }
        assert_int_equal(code, GX_OK);
        assert_true(limit > 4096);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(loads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(looks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(factors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(methods, set_up, tear_down),
        cmocka_unit_test_setup_teardown(budget, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
