/*
** Solves with a Cholesky factor, both sweeps in one program.  Test plan:
**
**   1. Exact answers: F has ones on the diagonal and few small (Gaussian) integers beside it, X
**      small integers, so B = F F^H X and every step back are exact.  Sizes 0, 1, tile +- 1,
**      several tiles; right-hand sides from none to more than a tile; L and R; all dtypes; budgets
**      of 3 blocks, 10 blocks, all; results in memory and stored.
**   2. Counters: the factor is read at most twice for any number of right-hand sides that fit, and
**      fewer times where memory keeps some of it; nothing spills.
**   3. Bad input in words: a zero on the diagonal, shapes that do not fit; nothing is left behind.
*/
#include "connection.h"
#include "alg/alg.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algkit.h"

/* Element of a matrix of pairs, column-major. */
static gx_scalar *at(gx_scalar *x, int64_t ld, int64_t i, int64_t j)
{
    return &x[j * ld + i];
}

static gx_scalar times(gx_scalar a, gx_scalar b)
{
    return (gx_scalar){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* L: ones, and three or so units beside the diagonal of each row; the other triangle is poison. */
static void make_lower(gx_scalar *L, int64_t n, bool is_complex)
{
    static const gx_scalar units[] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            int64_t pick = (7 * i + 3 * j) % 4;
            gx_scalar unit = units[is_complex ? pick : 2 * (pick / 2)];
            bool is_there = i > j && (i * 31 + j * 17) % gx_max(1, n / 3) == 0;
            *at(L, n, i, j) = i == j     ? (gx_scalar){1, 0}
                              : i < j    ? (gx_scalar){1e30, 0}
                              : is_there ? unit
                                         : (gx_scalar){0, 0};
        }
    }
}

/* Y = L X, or L^H X. */
static void multiply(gx_scalar *L, int64_t n, bool is_conjugated, gx_scalar *X, int64_t m,
                     gx_scalar *Y)
{
    for (int64_t c = 0; c < m; c++) {
        for (int64_t i = 0; i < n; i++) {
            gx_scalar sum = {0, 0};
            for (int64_t k = 0; k < n; k++) {
                if (is_conjugated ? k >= i : k <= i) {
                    gx_scalar l = is_conjugated ? *at(L, n, k, i) : *at(L, n, i, k);
                    l.im = is_conjugated ? -l.im : l.im;
                    gx_scalar p = times(l, *at(X, n, k, c));
                    sum.re += p.re;
                    sum.im += p.im;
                }
            }
            *at(Y, n, i, c) = sum;
        }
    }
}

/* Stored under that name, of dtype; mat: the source it then is. */
static void store(fixture *f, const char *name, gx_number dtype, int64_t m, int64_t n,
                  const gx_scalar *x, gx_mat *mat)
{
    gx_mat value;
    gx_sink sink;
    gx_err err = {0};
    void *memory = calloc((size_t)gx_max(1, m * n), gx_number_bytes(dtype));
    for (int64_t k = 0; k < m * n; k++) {
        double pair[2] = {x[k].re, x[k].im};
        gx_convert(gx_number_is_complex(dtype) ? GX_C128 : GX_F64, pair, 1, dtype,
                   (char *)memory + (size_t)k * gx_number_bytes(dtype), 1, 1, 1);
    }
    gx_mat_value(&value, name, dtype, m, n, memory, gx_max(1, m));
    gx_run_begin(&f->run, f->ctx, "store");
    gx_sink_begin(&f->run, &(gx_dest){.name = name, .replace = true}, m, n, dtype, 0, 0, 0, &sink);
    gx_copy_to_sink(&f->run, &value, &sink);
    assert_int_equal(gx_sink_end(&sink), GX_OK);
    assert_int_equal(gx_run_end(&f->run), GX_OK);
    free(memory);
    gx_meta meta;
    assert_int_equal(gx_store_find(f->ctx->store, name, &meta, &err), GX_OK);
    gx_mat_stored(mat, &meta);
    gx_store_release(f->ctx->store);
}

/* What the sink holds, as pairs; it has been ended. */
static void fetch(fixture *f, gx_sink *sink, gx_scalar *x)
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
    assert_int_equal(gx_mat_read(&f->run, &mat, own, 0, 0, mat.rows, mat.cols, GX_C128, x,
                                 gx_max(1, mat.rows), &err),
                     GX_OK);
    gx_reader_close(own);
    gx_value_buf_free(f->ctx->mem, &sink->value);
    assert_int_equal(gx_run_end(&f->run), GX_OK);
}

static void budget(fixture *f, int64_t blocks)
{
    size_t least = 3 * TILE_BYTES + (256 << 10);
    size_t bytes = (size_t)blocks * TILE_BYTES + (160 << 10);
    set(f->ctx, GX_SET_MEMORY_LIMIT,
        blocks == 0     ? (size_t)64 << 20
        : bytes > least ? bytes
                        : least);
}

static void solve_once(fixture *f, gx_number dtype, int64_t n, int64_t m, gx_uplo uplo,
                       int64_t blocks, bool is_stored)
{
    size_t n1 = (size_t)gx_max(1, n), m1 = (size_t)gx_max(1, m);
    gx_scalar *L = calloc(n1 * n1, sizeof *L), *F = calloc(n1 * n1, sizeof *F);
    gx_scalar *X = calloc(n1 * m1, sizeof *X), *Y = calloc(n1 * m1, sizeof *Y);
    gx_scalar *B = calloc(n1 * m1, sizeof *B);
    make_lower(L, n, gx_number_is_complex(dtype));
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            gx_scalar l = *at(L, n, i, j);
            *at(F, n, uplo == GX_LOWER ? i : j, uplo == GX_LOWER ? j : i) =
                uplo == GX_LOWER ? l : (gx_scalar){l.re, -l.im};
        }
    }
    for (int64_t k = 0; k < n * m; k++) {
        X[k] = (gx_scalar){(double)(k % 5) - 2, gx_number_is_complex(dtype) ? (double)(k % 3) : 0};
    }
    multiply(L, n, true, X, m, Y);
    multiply(L, n, false, Y, m, B);
    gx_mat factor, right;
    budget(f, 0);
    store(f, "F", dtype, n, n, F, &factor);
    store(f, "B", dtype, n, m, B, &right);
    budget(f, blocks);

    gx_sink sink;
    gx_dest dest = {.name = is_stored ? "X" : NULL, .replace = true};
    gx_run_begin(&f->run, f->ctx, "solve");
    gx_sink_begin(&f->run, &dest, n, m, dtype, 0, 0, 0, &sink);
    gx_alg_cholesky_solve(&f->run, &factor, uplo, &right, &sink);
    gx_sink_end(&sink);
    if (f->run.err.code != GX_OK) {
        fail_msg("%s: n %lld, m %lld, blocks %lld", f->run.err.text, (long long)n, (long long)m,
                 (long long)blocks);
    }
    assert_int_equal(gx_run_end(&f->run), GX_OK);
    budget(f, 0);
    fetch(f, &sink, Y);
    for (int64_t k = 0; k < n * m; k++) {
        if (Y[k].re != X[k].re || Y[k].im != X[k].im) { // -0 is 0
            fail_msg("X[%lld] is (%g, %g), not (%g, %g): n %lld, m %lld", (long long)k, Y[k].re,
                     Y[k].im, X[k].re, X[k].im, (long long)n, (long long)m);
        }
    }
    free(L);
    free(F);
    free(X);
    free(Y);
    free(B);
}

static void test_exact(void **state)
{
    static const int64_t sizes[] = {0, 1, 2, TILE - 1, TILE, TILE + 1, 3 * TILE + 5, 6 * TILE};
    static const int64_t columns[] = {0, 1, 3, TILE + 1, 3 * TILE};
    static const int64_t budgets[] = {3, 10, 0};
    fixture *f = *state;
    int turn = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
            for (size_t b = 0; b < 3; b++) {
                for (int dtype = 0; dtype < GX_FLOATS; dtype++, turn++) {
                    solve_once(f, (gx_number)dtype, sizes[s], columns[c],
                               turn % 2 == 0 ? GX_LOWER : GX_UPPER, budgets[b], turn % 3 != 0);
                }
                solve_once(f, GX_F64, sizes[s], columns[c], GX_UPPER, budgets[b], true);
                solve_once(f, GX_C128, sizes[s], columns[c], GX_LOWER, budgets[b], true);
            }
        }
    }
}

static void test_counters(void **state)
{
    fixture *f = *state;
    const int64_t n = 30 * TILE, triangle = 30 * 31 / 2 * TILE_BYTES;
    static const int64_t columns[] = {1, 10};
    for (size_t c = 0; c < 2; c++) {
        for (int64_t blocks = 130; blocks < 700; blocks += 260) {
            // Factor and answer are made before the counters begin.
            gx_scalar *F = calloc((size_t)(n * n), sizeof *F);
            make_lower(F, n, false);
            gx_mat factor, right;
            budget(f, 0);
            set(f->ctx, GX_SET_MEMORY_LIMIT, (size_t)256 << 20);
            store(f, "F", GX_F64, n, n, F, &factor);
            store(f, "B", GX_F64, n, columns[c], F, &right);
            free(F);
            budget(f, blocks);
            gx_stats_reset(&f->ctx->stats);
            gx_sink sink;
            gx_run_begin(&f->run, f->ctx, "solve");
            gx_sink_begin(&f->run, &(gx_dest){.name = "X", .replace = true}, n, columns[c], GX_F64,
                          0, 0, 0, &sink);
            gx_alg_cholesky_solve(&f->run, &factor, GX_LOWER, &right, &sink);
            gx_sink_end(&sink);
            assert_int_equal(gx_run_end(&f->run), GX_OK);
            int64_t read = gx_stats_get(&f->ctx->stats, GX_STAT_BYTES_READ);
            int64_t rest = 8 * n * columns[c] + 8 * n;
            // The second sweep begins with what the first has left: about the cache, once.
            int64_t kept = gx_min((blocks - 40) * TILE_BYTES, triangle) * 3 / 4;
            int64_t corners = 30 * TILE_BYTES * 4; // larger blocks reach over the diagonal
            assert_int_equal(gx_stats_get(&f->ctx->stats, GX_STAT_SPILLS), 0);
            if (read > 2 * triangle - kept + rest + corners) {
                fail_msg("%lld bytes read, %lld a triangle, cache %lld", (long long)read,
                         (long long)triangle, (long long)(blocks * TILE_BYTES));
            }
        }
    }
}

static void refuse(fixture *f, int64_t n, int64_t rows, const gx_scalar *F, const char *text)
{
    gx_mat factor, right;
    gx_scalar b[4] = {{1, 0}, {1, 0}, {1, 0}, {1, 0}};
    gx_sink sink;
    gx_err err = {0};
    bool found = true;
    gx_meta meta;
    store(f, "F", GX_F64, n, n, F, &factor);
    store(f, "B", GX_F64, rows, 1, b, &right);
    gx_run_begin(&f->run, f->ctx, "solve");
    gx_sink_begin(&f->run, &(gx_dest){.name = "none"}, rows, 1, GX_F64, 0, 0, 0, &sink);
    gx_alg_cholesky_solve(&f->run, &factor, GX_LOWER, &right, &sink);
    gx_sink_end(&sink);
    assert_string_equal(f->run.err.text, text);
    assert_int_not_equal(gx_run_end(&f->run), GX_OK);
    assert_int_equal(gx_store_lookup(f->ctx->store, "none", &meta, &found, &err), GX_OK);
    assert_false(found);
    gx_store_release(f->ctx->store);
}

static void test_refused(void **state)
{
    const gx_scalar F[4] = {{1, 0}, {2, 0}, {3, 0}, {0, 0}};
    refuse(*state, 2, 2, F, "F is singular (F[1,1] = 0)");
    refuse(*state, 2, 3, F, "F is 2x2 but B is 3x1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_exact, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_counters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
