/*
** Solves with an LU factorisation: op(A) X = B for A, A^T, A^H.  Test plan:
**
**   1. ||B - op(A) X|| / (n eps ||A|| ||X||) < 30 in the max-norm of columns (LAPACK's dget02) over
**      sizes 0, 1, 2, tile +- 1, several panels; right-hand sides from none to more than a tile;
**      all dtypes; budgets from as little as goes to all; results in memory and stored.  Under
**      the small budgets the factor has many panels, and strips are narrower than a tile.
**   2. The order of rows and the sign of the permutation: P A by gx_lu_order() is L U's.
**   3. Counters: any number of right-hand sides that fit read the factor once, the diagonal twice.
**   4. Bad input in words.
*/
#include "connection.h"
#include "alg/alg_lu.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algkit.h"

enum { AMPLE = 64 << 20 };

/* A matrix of pairs and the same as elements of a dtype, column-major. */
typedef struct pairs {
    int64_t m, n;
    gx_number dtype;
    gx_scalar *x;
    void *data;
    gx_mat mat;
} pairs;

static pairs make(int64_t m, int64_t n, gx_number dtype)
{
    pairs p = {.m = m, .n = n, .dtype = dtype};
    p.x = calloc((size_t)gx_max(1, m * n), sizeof *p.x);
    p.data = calloc((size_t)gx_max(1, m * n), gx_number_bytes(dtype));
    gx_mat_value(&p.mat, "A", dtype, m, n, p.data, gx_max(1, m));
    return p;
}

static void clear(pairs *p)
{
    free(p->x);
    free(p->data);
}

/* Pairs to elements and back, so that both are what the dtype can hold. */
static void round_to_dtype(pairs *p)
{
    int64_t ld = gx_max(1, p->m);
    if (gx_number_is_complex(p->dtype)) {
        gx_convert(GX_C128, p->x, ld, p->dtype, p->data, ld, p->m, p->n);
    } else {
        for (int64_t k = 0; k < p->m * p->n; k++) {
            gx_convert(GX_F64, &p->x[k].re, 1, p->dtype, gx_at(p->data, p->dtype, 1, k, 0), 1, 1,
                       1);
        }
    }
    gx_convert(p->dtype, p->data, ld, GX_C128, p->x, ld, p->m, p->n);
}

static void randomise(fixture *f, pairs *p)
{
    for (int64_t k = 0; k < p->m * p->n; k++) {
        double part[2];
        for (int c = 0; c < 2; c++) {
            f->random = f->random * 6364136223846793005u + 1442695040888963407u;
            part[c] = (double)(f->random >> 11) * 0x1p-52 - 1;
        }
        p->x[k] = (gx_scalar){part[0], gx_number_is_complex(p->dtype) ? part[1] : 0};
    }
    round_to_dtype(p);
}

static gx_scalar element(const pairs *A, gx_trans trans, int64_t i, int64_t j)
{
    gx_scalar a = trans == GX_NO_TRANS ? A->x[j * A->m + i] : A->x[i * A->m + j];
    a.im = trans == GX_CONJ_TRANS ? -a.im : a.im;
    return a;
}

/* max over columns of ||b - op(A) x||_1 / (n eps ||op(A)||_1 ||x||_1) */
static double residual(const pairs *A, gx_trans trans, const pairs *X, const pairs *B)
{
    int64_t n = A->n;
    double worst = 0, norm = 0, eps = gx_number_is_double(A->dtype) ? DBL_EPSILON : FLT_EPSILON;
    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            gx_scalar a = element(A, trans, i, j);
            sum += hypot(a.re, a.im);
        }
        norm = fmax(norm, sum);
    }
    for (int64_t c = 0; c < X->n; c++) {
        double error = 0, size = 0;
        for (int64_t i = 0; i < n; i++) {
            gx_scalar r = B->x[c * n + i], x = X->x[c * n + i];
            size += hypot(x.re, x.im);
            for (int64_t k = 0; k < n; k++) {
                gx_scalar a = element(A, trans, i, k), y = X->x[c * n + k];
                r.re -= a.re * y.re - a.im * y.im;
                r.im -= a.re * y.im + a.im * y.re;
            }
            error += hypot(r.re, r.im);
        }
        double ratio = error / ((double)n * eps * norm * size);
        worst = ratio > worst || isnan(ratio) ? ratio : worst;
    }
    return worst;
}

/* What the sink holds, into X. */
static void fetch(fixture *f, gx_sink *sink, pairs *X)
{
    gx_mat mat;
    gx_reader *own;
    gx_err err = {0};
    gx_run_begin(&f->run, f->ctx, "fetch");
    if (sink->is_stored) {
        gx_meta meta;
        assert_int_equal(gx_store_find(f->ctx->store, sink->name, &meta, &err), GX_OK);
        gx_mat_stored(&mat, &meta);
    } else {
        gx_mat_value(&mat, "X", sink->number, sink->rows, sink->cols, sink->value.data,
                     gx_max(1, sink->rows));
    }
    assert_int_equal(gx_reader_own(f->ctx->store, &own, &err), GX_OK);
    assert_int_equal(
        gx_mat_read(&f->run, &mat, own, 0, 0, X->m, X->n, GX_C128, X->x, gx_max(1, X->m), &err),
        GX_OK);
    gx_reader_close(own);
    gx_value_buf_free(f->ctx->mem, &sink->value);
    assert_int_equal(gx_run_end(&f->run), GX_OK);
}

static void solve_once(fixture *f, gx_number dtype, int64_t n, int64_t m, gx_trans trans,
                       size_t limit, bool is_stored)
{
    pairs A = make(n, n, dtype), B = make(n, m, dtype), X = make(n, m, dtype);
    randomise(f, &A);
    randomise(f, &B);
    gx_sink F, sink;
    gx_aux aux;
    gx_mat factor;
    set(f->ctx, GX_SET_MEMORY_LIMIT, limit);
    gx_run_begin(&f->run, f->ctx, "solve");
    gx_sink_begin(&f->run, &(gx_dest){.name = is_stored ? "X" : NULL, .replace = true}, n, m, dtype,
                  0, 0, 0, &sink);
    if (gx_alg_lu_scratch(&f->run, &A.mat, dtype, &F, &aux) == GX_OK) {
        gx_sink_source(&F, "A", &factor);
        gx_alg_lu_solve(&f->run, &factor, &aux, trans, &B.mat, &sink);
    }
    gx_sink_drop(&F);
    gx_aux_clear(&aux, f->ctx->mem);
    gx_sink_end(&sink);
    if (f->run.err.code != GX_OK) {
        fail_msg("%s: n %lld, m %lld, limit %zu, %s", f->run.err.text, (long long)n, (long long)m,
                 limit, gx_number_name(dtype));
    }
    assert_int_equal(gx_run_end(&f->run), GX_OK);
    set(f->ctx, GX_SET_MEMORY_LIMIT, AMPLE);
    fetch(f, &sink, &X);
    double ratio = n == 0 || m == 0 ? 0 : residual(&A, trans, &X, &B);
    if (!(ratio < 30)) {
        fail_msg("residual ratio %g: n %lld, m %lld, limit %zu, trans %d, %s", ratio, (long long)n,
                 (long long)m, limit, (int)trans, gx_number_name(dtype));
    }
    clear(&A);
    clear(&B);
    clear(&X);
}

// 1. ----------------------------------------------------------------------------------------------

static void test_residuals(void **state)
{
    static const int64_t sizes[] = {0, 1, 2, TILE - 1, TILE, TILE + 1, 65, 110};
    static const int64_t columns[] = {0, 1, 3, TILE + 1, 45};
    fixture *f = *state;
    int turn = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
            for (int dtype = 0; dtype < GX_FLOATS; dtype++, turn++) {
                solve_once(f, (gx_number)dtype, sizes[s], columns[c], (gx_trans)(turn % 3), AMPLE,
                           turn % 2 == 0);
            }
        }
    }
}

static void test_budgets(void **state)
{
    static const size_t limits[] = {260000, 330000, 420000, 600000};
    fixture *f = *state;
    int turn = 0;
    for (size_t b = 0; b < sizeof limits / sizeof limits[0]; b++) {
        for (int trans = 0; trans < 3; trans++) {
            for (int dtype = 0; dtype < GX_FLOATS; dtype++, turn++) {
                solve_once(f, (gx_number)dtype, 150, 35, (gx_trans)trans, limits[b], turn % 2 == 0);
            }
        }
    }
}

// 2. ----------------------------------------------------------------------------------------------

static void test_order(void **state)
{
    int64_t pivots[4] = {2, 3, 2, 3}, order[5];
    gx_aux aux = {.kind = GX_AUX_LU, .rows = 5, .cols = 4, .count = 4, .pivots = pivots};
    (void)state;
    gx_lu_order(&aux, order);
    const int64_t expected[5] = {2, 3, 0, 1, 4};
    assert_memory_equal(order, expected, sizeof expected);
    assert_false(gx_lu_is_odd(&aux));
    pivots[2] = 4;
    assert_true(gx_lu_is_odd(&aux));
    gx_lu_order(&aux, order);
    assert_int_equal(order[2], 4);
    assert_int_equal(order[4], 0);
}

// 3. ----------------------------------------------------------------------------------------------

static void test_counters(void **state)
{
    fixture *f = *state;
    const int64_t n = 300;
    pairs A = make(n, n, GX_F64), B = make(n, 100, GX_F64);
    randomise(f, &A);
    randomise(f, &B);
    for (int trans = 0; trans < 2; trans++) {
        gx_sink F, sink;
        gx_aux aux;
        gx_lu_plan plan;
        gx_err err = {0};
        gx_meta meta;
        gx_mat factor;
        gx_run_begin(&f->run, f->ctx, "lu");
        gx_plan_lu(&f->run, n, n, GX_F64, &plan);
        plan.panel = 40; // as under a small budget
        assert_int_equal(gx_sink_begin(&f->run, &(gx_dest){.name = "F", .replace = true}, n, n,
                                       GX_F64, GX_PROP_LU, 80, 40, &F),
                         GX_OK);
        assert_int_equal(
            gx_aux_create(f->ctx->mem, GX_AUX_LU, n, n, GX_F64, plan.panel, &aux, &err), GX_OK);
        gx_sink_aux(&F, &aux);
        gx_alg_lu(&f->run, &A.mat, &F, &aux);
        assert_int_equal(gx_sink_end(&F), GX_OK);
        assert_int_equal(gx_run_end(&f->run), GX_OK);

        gx_stats_reset(&f->ctx->stats);
        gx_run_begin(&f->run, f->ctx, "solve");
        assert_int_equal(gx_store_find(f->ctx->store, "F", &meta, &err), GX_OK);
        gx_mat_stored(&factor, &meta);
        gx_sink_begin(&f->run, &(gx_dest){.name = "X", .replace = true}, n, 100, GX_F64, 0, 0, 0,
                      &sink);
        gx_alg_lu_solve(&f->run, &factor, &aux, (gx_trans)trans, &B.mat, &sink);
        assert_int_equal(gx_sink_end(&sink), GX_OK);
        assert_int_equal(gx_run_end(&f->run), GX_OK);
        gx_aux_clear(&aux, f->ctx->mem);
        int64_t read = gx_stats_get(&f->ctx->stats, GX_STAT_BYTES_READ);
        assert_true(read >= 8 * n * n);
        assert_true(read <= 8 * n * n + 8 * n * 80); // blocks on the diagonal are 80 high
        assert_int_equal(gx_stats_get(&f->ctx->stats, GX_STAT_BYTES_WRITTEN), 8 * n * 100);
        assert_int_equal(gx_stats_get(&f->ctx->stats, GX_STAT_SPILLS), 0);
    }
    clear(&A);
    clear(&B);
}

// 4. ----------------------------------------------------------------------------------------------

static void refuse(fixture *f, int64_t rows, int64_t n, int64_t info, const char *text)
{
    double a[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    int64_t pivots[3] = {0, 1, 2};
    gx_aux aux = {.kind = GX_AUX_LU,
                  .rows = 3,
                  .cols = n,
                  .panel = n,
                  .count = n,
                  .info = info,
                  .pivots = pivots};
    gx_mat F, B;
    gx_sink sink;
    gx_mat_value(&F, "F", GX_F64, 3, n, a, 3);
    gx_mat_value(&B, "B", GX_F64, rows, 1, a, gx_max(1, rows));
    gx_run_begin(&f->run, f->ctx, "solve");
    gx_sink_begin(&f->run, NULL, rows, 1, GX_F64, 0, 0, 0, &sink);
    gx_alg_lu_solve(&f->run, &F, &aux, GX_NO_TRANS, &B, &sink);
    gx_sink_end(&sink);
    assert_string_equal(f->run.err.text, text);
    assert_int_not_equal(gx_run_end(&f->run), GX_OK);
}

static void test_refused(void **state)
{
    refuse(*state, 3, 2, 0, "F is 3x2 but must be square");
    refuse(*state, 2, 3, 0, "F is 3x3 but B is 2x1");
    refuse(*state, 3, 3, 2, "F is singular (pivot 2 is exactly zero)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_residuals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_budgets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_counters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
