/*
** Residual probes.  Test plan:
**
**   1. Products, Cholesky, LU, QR, solves that are right pass, with a ratio near 1: dtypes, orders
**      0 to several blocks, transposes, memory for few blocks.
**   2. The same with one wrong element, wherever it is, fail in words.
**   3. What was given with a NaN or an infinity is not judged; a NaN that the result made is.
**   4. The setting: on, off, auto.
*/
#include "connection.h"
#include "alg/probe.h"

#include <math.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct fixture {
    sqlite3 *db;
    gx_ctx *ctx;
    gx_run run;
} fixture;

static int set_up(void **state)
{
    static fixture f;
    gx_err err = {0};
    assert_int_equal(sqlite3_open(":memory:", &f.db), SQLITE_OK);
    assert_int_equal(gx_ctx_create(f.db, &f.ctx, &err), GX_OK);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    gx_ctx_free(f->ctx);
    assert_int_equal(sqlite3_close(f->db), SQLITE_OK);
    return 0;
}

/* A matrix of the test: elements in its dtype, and as complex doubles. */
typedef struct matrix {
    int64_t m, n;
    gx_number dtype;
    void *data;
    gx_scalar *wide;
    gx_mat mat;
} matrix;

static matrix make(gx_number dtype, int64_t m, int64_t n)
{
    matrix x = {.m = m, .n = n, .dtype = dtype};
    x.data = calloc((size_t)(m * n) + 1, 16);
    x.wide = calloc((size_t)(m * n) + 1, sizeof *x.wide);
    gx_mat_value(&x.mat, "X", dtype, m, n, x.data, m > 0 ? m : 1);
    return x;
}

static void free_matrix(matrix *x)
{
    free(x->data);
    free(x->wide);
}

static gx_scalar *at(const matrix *x, int64_t i, int64_t j)
{
    return &x->wide[j * x->m + i];
}

/* The elements as they will be seen: rounded to the dtype. */
static void settle(matrix *x)
{
    if (x->m * x->n == 0) {
        return;
    }
    if (gx_number_is_complex(x->dtype)) {
        gx_convert(GX_C128, x->wide, x->m, x->dtype, x->data, x->m, x->m, x->n);
    } else {
        for (int64_t p = 0; p < x->m * x->n; p++) {
            gx_convert(GX_F64, &x->wide[p].re, 1, x->dtype, gx_at(x->data, x->dtype, 1, p, 0), 1, 1,
                       1);
        }
    }
    for (int64_t p = 0; p < x->m * x->n; p++) {
        gx_convert(x->dtype, gx_at(x->data, x->dtype, 1, p, 0), 1, GX_C128, &x->wide[p], 1, 1, 1);
    }
}

static double next_number(void)
{
    static uint64_t seed = 42;
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (double)(seed >> 11) / 9007199254740992.0 - 0.5;
}

static matrix make_random(gx_number dtype, int64_t m, int64_t n)
{
    matrix x = make(dtype, m, n);
    for (int64_t p = 0; p < m * n; p++) {
        x.wide[p] = (gx_scalar){next_number(), gx_number_is_complex(dtype) ? next_number() : 0};
    }
    settle(&x);
    return x;
}

/* op(x) element (i, j) */
static gx_scalar op_at(const matrix *x, gx_trans trans, int64_t i, int64_t j)
{
    gx_scalar v = trans == GX_NO_TRANS ? *at(x, i, j) : *at(x, j, i);
    v.im = trans == GX_CONJ_TRANS ? -v.im : v.im;
    return v;
}

static matrix multiply(const matrix *a, gx_trans ta, const matrix *b, gx_trans tb)
{
    int64_t m = ta == GX_NO_TRANS ? a->m : a->n, k = ta == GX_NO_TRANS ? a->n : a->m;
    int64_t n = tb == GX_NO_TRANS ? b->n : b->m;
    matrix c = make(a->dtype, m, n);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            gx_scalar sum = {0, 0};
            for (int64_t p = 0; p < k; p++) {
                gx_scalar x = op_at(a, ta, i, p), y = op_at(b, tb, p, j);
                sum.re += x.re * y.re - x.im * y.im;
                sum.im += x.re * y.im + x.im * y.re;
            }
            *at(&c, i, j) = sum;
        }
    }
    settle(&c);
    return c;
}

/* Lower (or upper) triangle of x with a strong diagonal; zeros elsewhere. */
static void make_triangle(matrix *x, gx_uplo uplo, bool is_unit)
{
    for (int64_t j = 0; j < x->n; j++) {
        for (int64_t i = 0; i < x->m; i++) {
            if (i == j) {
                *at(x, i, j) = (gx_scalar){is_unit ? 1 : 2 + fabs(at(x, i, j)->re), 0};
            } else if ((i > j) != (uplo == GX_LOWER)) {
                *at(x, i, j) = (gx_scalar){0, 0};
            }
        }
    }
    settle(x);
}

/* Begin a run with room for blocks of about `edge`, run the probe, and expect what `text` says. */
typedef gx_code (*probe_fn)(gx_run *run, void *arg);

static void expect(fixture *f, probe_fn probe, void *arg, int64_t edge, bool is_good)
{
    gx_run *run = &f->run;
    size_t limit = gx_mem_limit(f->ctx->mem);
    gx_run_begin(run, f->ctx, "probe");
    gx_mem_set_limit(f->ctx->mem,
                     gx_mem_used(f->ctx->mem) + (size_t)(8 * 16 * edge * edge) + (256 << 10));
    gx_stats_set(&f->ctx->stats, GX_STAT_PROBE_RATIO, 0);
    gx_code code = probe(run, arg);
    gx_mem_set_limit(f->ctx->mem, limit);
    int64_t ratio = gx_stats_get(&f->ctx->stats, GX_STAT_PROBE_RATIO);
    if (is_good && code != GX_OK) {
        fail_msg("%s", run->err.text);
    }
    if (is_good) {
        assert_true(ratio < 30 * 1000);
    } else {
        assert_int_equal(code, GX_DEVICE);
        assert_non_null(strstr(run->err.text, "the result failed its residual check (ratio "));
    }
    gx_run_end(run);
}

/* Twice: as it is, and with each of some elements of the result wrong. */
static void expect_both(fixture *f, probe_fn probe, void *arg, matrix *result, int64_t edge)
{
    expect(f, probe, arg, edge, true);
    int64_t count = result->m * result->n;
    for (int64_t q = 0; q < 3 && count > 0; q++) {
        // The first and the last element, and one on the diagonal, which is in every triangle.
        int64_t p = q == 0 ? 0 : q == 1 ? count - 1 : count / result->n / 2 * (result->m + 1);
        p = p < count ? p : 0;
        gx_scalar kept = result->wide[p];
        result->wide[p].re += 9 + fabs(kept.re);
        settle(result);
        expect(f, probe, arg, edge, false);
        result->wide[p] = kept;
        settle(result);
    }
}

static const int64_t ORDERS[] = {0, 1, 2, 5, 40, 67};
enum { ORDER_COUNT = sizeof ORDERS / sizeof ORDERS[0], EDGE = 16 };

// Products ----------------------------------------------------------------------------------------

typedef struct product {
    gx_matmul_args args;
    matrix a, b, c;
} product;

static gx_code probe_product(gx_run *run, void *arg)
{
    product *p = arg;
    return gx_probe_product(run, &p->args, &p->c.mat);
}

static void test_products(void **state)
{
    for (int dtype = 0; dtype < GX_FLOATS; dtype++) {
        for (int k = 0; k < ORDER_COUNT; k++) {
            gx_trans ta = k % 3 == 0 ? GX_CONJ_TRANS : k % 3 == 1 ? GX_NO_TRANS : GX_TRANS;
            int64_t m = ORDERS[k], n = ORDERS[k] + 3;
            product p = {.a = make_random((gx_number)dtype, ta == GX_NO_TRANS ? m : 2 * m,
                                          ta == GX_NO_TRANS ? 2 * m : m),
                         .b = make_random((gx_number)dtype, n, 2 * m)};
            p.c = multiply(&p.a, ta, &p.b, GX_TRANS);
            p.args = (gx_matmul_args){
                .A = &p.a.mat, .B = &p.b.mat, .transa = ta, .transb = GX_TRANS, .alpha = {1, 0}};
            expect_both(*state, probe_product, &p, &p.c, EDGE);
            free_matrix(&p.a), free_matrix(&p.b), free_matrix(&p.c);
        }
    }
}

// Factorisations ----------------------------------------------------------------------------------

typedef struct factored {
    matrix a, f;
    gx_uplo uplo;
    int64_t *pivots;
} factored;

static gx_code probe_cholesky(gx_run *run, void *arg)
{
    factored *p = arg;
    return gx_probe_cholesky(run, &p->a.mat, p->uplo, &p->f.mat);
}

static void test_cholesky(void **state)
{
    for (int dtype = 0; dtype < GX_FLOATS; dtype++) {
        for (int k = 0; k < ORDER_COUNT; k++) {
            int64_t n = ORDERS[k];
            gx_trans h = gx_number_is_complex((gx_number)dtype) ? GX_CONJ_TRANS : GX_TRANS;
            factored p = {.f = make_random((gx_number)dtype, n, n),
                          .uplo = k % 2 == 0 ? GX_LOWER : GX_UPPER};
            make_triangle(&p.f, p.uplo, false);
            bool is_lower = p.uplo == GX_LOWER;
            p.a = multiply(&p.f, is_lower ? GX_NO_TRANS : h, &p.f, is_lower ? h : GX_NO_TRANS);
            for (int64_t j = 1; j < n; j++) { // the upper triangle is not to be trusted
                *at(&p.a, j - 1, j) = (gx_scalar){99, 0};
            }
            for (int64_t j = 0; j < n && gx_number_is_complex((gx_number)dtype); j++) {
                at(&p.a, j, j)->im = 77; // nor the imaginary part of the diagonal
            }
            settle(&p.a);
            expect(*state, probe_cholesky, &p, EDGE, true);
            if (n > 0) {
                at(&p.f, n / 2, n / 2)->re += 9;
                settle(&p.f);
                expect(*state, probe_cholesky, &p, EDGE, false);
            }
            free_matrix(&p.a), free_matrix(&p.f);
        }
    }
}

static gx_code probe_lu(gx_run *run, void *arg)
{
    factored *p = arg;
    gx_aux aux = {.kind = GX_AUX_LU,
                  .dtype = p->f.dtype,
                  .rows = p->f.m,
                  .cols = p->f.n,
                  .panel = p->f.n > 0 ? p->f.n : 1, // one panel: as LAPACK leaves it
                  .count = p->f.n,
                  .pivots = p->pivots};
    return gx_probe_lu(run, &p->a.mat, &p->f.mat, &aux);
}

static void test_lu(void **state)
{
    for (int dtype = 0; dtype < GX_FLOATS; dtype++) {
        for (int k = 0; k < ORDER_COUNT; k++) {
            int64_t n = ORDERS[k];
            matrix l = make_random((gx_number)dtype, n, n), u = make_random((gx_number)dtype, n, n);
            make_triangle(&l, GX_LOWER, true);
            make_triangle(&u, GX_UPPER, false);
            factored p = {.a = multiply(&l, GX_NO_TRANS, &u, GX_NO_TRANS),
                          .f = make((gx_number)dtype, n, n)};
            int64_t pivots[128];
            p.pivots = pivots;
            for (int64_t j = 0; j < n; j++) {
                pivots[j] = j + (n - j) / 2 - ((n - j) / 2 == n - j);
                for (int64_t i = 0; i < n; i++) {
                    *at(&p.f, i, j) = i > j ? *at(&l, i, j) : *at(&u, i, j);
                }
            }
            for (int64_t j = n - 1; j >= 0; j--) { // A = P^T L U: exchanges from the last one
                for (int64_t c = 0; c < n; c++) {
                    gx_scalar x = *at(&p.a, j, c);
                    *at(&p.a, j, c) = *at(&p.a, pivots[j], c);
                    *at(&p.a, pivots[j], c) = x;
                }
            }
            settle(&p.a);
            settle(&p.f);
            expect_both(*state, probe_lu, &p, &p.f, EDGE);
            free_matrix(&l), free_matrix(&u), free_matrix(&p.a), free_matrix(&p.f);
        }
    }
}

static gx_code probe_qr(gx_run *run, void *arg)
{
    factored *p = arg;
    return gx_probe_qr(run, &p->a.mat, &p->f.mat);
}

/* A = [R; 0] has itself as R. */
static void test_qr(void **state)
{
    for (int dtype = 0; dtype < GX_FLOATS; dtype++) {
        for (int k = 1; k < ORDER_COUNT; k++) {
            int64_t n = ORDERS[k];
            factored p = {.a = make_random((gx_number)dtype, n + 7, n)};
            make_triangle(&p.a, GX_UPPER, false);
            p.f = make((gx_number)dtype, n + 7, n);
            for (int64_t j = 0; j < n; j++) {
                for (int64_t i = 0; i < n + 7; i++) {
                    *at(&p.f, i, j) = i <= j ? *at(&p.a, i, j) : (gx_scalar){5, 0};
                }
            }
            settle(&p.f);
            expect(*state, probe_qr, &p, EDGE, true);
            at(&p.f, 0, n - 1)->re += 9;
            settle(&p.f);
            expect(*state, probe_qr, &p, EDGE, false);
            free_matrix(&p.a), free_matrix(&p.f);
        }
    }
}

// Systems -----------------------------------------------------------------------------------------

typedef struct system {
    matrix a, b, x;
    gx_trans trans;
    gx_probe_part part;
} system_of;

static gx_code probe_solve(gx_run *run, void *arg)
{
    system_of *p = arg;
    return gx_probe_solve(run, &p->a.mat, p->part, p->trans, &p->x.mat, &p->b.mat);
}

static void test_solve(void **state)
{
    for (int dtype = 0; dtype < GX_FLOATS; dtype++) {
        for (int k = 0; k < ORDER_COUNT; k++) {
            system_of p = {.a = make_random((gx_number)dtype, ORDERS[k], ORDERS[k]),
                           .x = make_random((gx_number)dtype, ORDERS[k], 3),
                           .trans = k % 2 == 0 ? GX_CONJ_TRANS : GX_NO_TRANS,
                           .part = k % 3 == 0 ? GX_PART_LOWER : GX_PART_WHOLE};
            matrix kept = make((gx_number)dtype, ORDERS[k], ORDERS[k]);
            memcpy(kept.wide, p.a.wide, (size_t)(ORDERS[k] * ORDERS[k]) * sizeof(gx_scalar));
            settle(&kept);
            if (p.part == GX_PART_LOWER) {
                make_triangle(&kept, GX_LOWER, false);
                for (int64_t j = 0; j < ORDERS[k]; j++) {
                    *at(&p.a, j, j) = *at(&kept, j, j);
                }
                settle(&p.a);
            }
            p.b = multiply(&kept, p.trans, &p.x, GX_NO_TRANS);
            expect_both(*state, probe_solve, &p, &p.x, EDGE);
            free_matrix(&kept), free_matrix(&p.a), free_matrix(&p.b), free_matrix(&p.x);
        }
    }
}

// Strange numbers, the setting --------------------------------------------------------------------

static void test_not_finite(void **state)
{
    fixture *f = *state;
    product p = {.a = make_random(GX_F64, 5, 5), .b = make_random(GX_F64, 5, 5)};
    at(&p.a, 2, 2)->re = (double)NAN;
    settle(&p.a);
    p.c = multiply(&p.a, GX_NO_TRANS, &p.b, GX_NO_TRANS);
    p.args = (gx_matmul_args){.A = &p.a.mat, .B = &p.b.mat, .alpha = {1, 0}};
    int64_t before = gx_stats_get(&f->ctx->stats, GX_STAT_PROBES);
    expect(f, probe_product, &p, EDGE, true);
    assert_int_equal(gx_stats_get(&f->ctx->stats, GX_STAT_PROBES), before);
    at(&p.a, 2, 2)->re = 1;
    settle(&p.a);
    expect(f, probe_product, &p, EDGE, false);
    free_matrix(&p.a), free_matrix(&p.b), free_matrix(&p.c);
}

static bool is_due(fixture *f, const char *choice, double flops)
{
    gx_err err = {0};
    assert_int_equal(gx_ctx_configure(f->ctx, GX_SET_PROBE, choice, &err), GX_OK);
    gx_run_begin(&f->run, f->ctx, "probe");
    bool due = gx_probe_is_due(&f->run, GX_F64, flops, 8e6, 1e6, 8e6);
    gx_run_end(&f->run);
    return due;
}

static void test_setting(void **state)
{
    fixture *f = *state;
    assert_true(is_due(f, "on", 1));
    assert_false(is_due(f, "off", 1e30));
    assert_false(is_due(f, "auto", 1e6));
    assert_true(is_due(f, "auto", 1e15));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products), cmocka_unit_test(test_cholesky),
        cmocka_unit_test(test_lu),       cmocka_unit_test(test_qr),
        cmocka_unit_test(test_solve),    cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_setting),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
