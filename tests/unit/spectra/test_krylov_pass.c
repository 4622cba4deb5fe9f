/*
** Passes of Krylov methods over a stored matrix (krylov_pass.c), with threads that read and
** multiply: what TSan and ASan look at.
**
** Plan, over a file with small tiles and a budget that holds less than half of the matrix:
**   1. general, y = A x and y = A^H x; Hermitian from the lower triangle; against plain sums; both
**      directions of a pass; f64 and c64; 1 to 9 columns
**   2. the same bits for one thread and for four
**   3. a run that has failed stops, and nothing is left in the budget
*/
#include "connection.h"
#include "spectra/krylov.h"

#include <sqlite3.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { M = 700, N = 530, MOST = 9 };

typedef struct fixture {
    char folder[64], path[96];
    sqlite3 *db;
    gx_ctx *ctx;
} fixture;

static void set(gx_ctx *ctx, gx_setting setting, const char *value)
{
    gx_err err = {0};
    if (gx_ctx_configure(ctx, setting, value, &err) != GX_OK) {
        fail_msg("%s", err.text);
    }
}

static int set_up(void **state)
{
    static fixture f;
    gx_err err = {0};
    snprintf(f.folder, sizeof f.folder, "/tmp/gx_pass_XXXXXX");
    assert_non_null(mkdtemp(f.folder));
    snprintf(f.path, sizeof f.path, "%s/t.db", f.folder);
    assert_int_equal(sqlite3_open(f.path, &f.db), SQLITE_OK);
    assert_int_equal(gx_ctx_create(f.db, &f.ctx, &err), GX_OK);
    set(f.ctx, GX_SET_TILE_BYTES, "80000");
    set(f.ctx, GX_SET_READERS, "3");
    set(f.ctx, GX_SET_BACKEND, "cpu");
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    gx_ctx_free(f->ctx);
    assert_int_equal(sqlite3_close(f->db), SQLITE_OK);
    unlink(f->path);
    rmdir(f->folder);
    return 0;
}

/* Element (i, j): of a Hermitian matrix where asked. */
static gx_scalar element(int64_t i, int64_t j, bool is_hermitian, bool is_complex)
{
    bool is_upper = is_hermitian && i < j;
    int64_t a = is_upper ? j : i, b = is_upper ? i : j;
    double im = is_complex && !(is_hermitian && i == j) ? (double)((a * 5 + b * 3) % 7) - 3 : 0;
    return (gx_scalar){(double)((a * 7 + b * 11) % 13) - 6, is_upper ? -im : im};
}

static void put(gx_number dtype, void *to, int64_t at, gx_scalar x)
{
    switch (dtype) {
    case GX_F64:
        ((double *)to)[at] = x.re;
        break;
    default:
        ((float *)to)[2 * at] = (float)x.re;
        ((float *)to)[2 * at + 1] = (float)x.im;
        break;
    }
}

static gx_scalar get(gx_number dtype, const void *from, int64_t at)
{
    return dtype == GX_F64 ? (gx_scalar){((const double *)from)[at], 0}
                           : (gx_scalar){(double)((const float *)from)[2 * at],
                                         (double)((const float *)from)[2 * at + 1]};
}

static void store(fixture *f, int64_t m, int64_t n, gx_number dtype, bool is_hermitian)
{
    gx_run run;
    gx_sink sink;
    gx_err err = {0};
    void *data = malloc((size_t)(m * n) * gx_number_bytes(dtype));
    assert_non_null(data);
    for (int64_t k = 0; k < m * n; k++) {
        put(dtype, data, k, element(k % m, k / m, is_hermitian, dtype != GX_F64));
    }
    set(f->ctx, GX_SET_MEMORY_LIMIT, "64MB");
    gx_run_begin(&run, f->ctx, "store");
    gx_sink_begin(&run, &(gx_dest){.name = "A", .replace = true}, m, n, dtype, 0, 0, 0, &sink);
    gx_sink_write(&sink, 0, 0, m, n, data, m, &err);
    gx_sink_end(&sink);
    assert_int_equal(gx_run_end(&run), GX_OK);
    free(data);
}

/* y = op(A) x, twice (forwards and backwards), with so many threads. */
static void apply(fixture *f, gx_number dtype, bool is_hermitian, bool is_adjoint, int64_t cols,
                  const char *threads, const void *x, void *y)
{
    gx_run run;
    gx_oper op = {0};
    gx_mat A;
    gx_meta meta;
    set(f->ctx, GX_SET_THREADS, threads);
    set(f->ctx, GX_SET_READERS, threads);
    set(f->ctx, GX_SET_MEMORY_LIMIT, "1500KB");
    gx_run_begin(&run, f->ctx, "pass");
    assert_int_equal(gx_store_find(f->ctx->store, "A", &meta, &run.err), GX_OK);
    gx_mat_stored(&A, &meta);
    assert_int_equal(gx_oper_begin(&run, &A, dtype, is_hermitian, 64 << 10, &op), GX_OK);
    for (int pass = 0; pass < 2; pass++) {
        op.apply(&op, is_adjoint, x, cols, y);
    }
    gx_oper_end(&op);
    if (gx_run_end(&run) != GX_OK) {
        fail_msg("%s", run.err.text);
    }
}

static void check(fixture *f, int64_t m, int64_t n, gx_number dtype, bool is_hermitian,
                  bool is_adjoint, int64_t cols)
{
    int64_t rows = is_adjoint ? n : m, inner = is_adjoint ? m : n;
    size_t bytes = (size_t)(rows * cols) * gx_number_bytes(dtype);
    void *x = malloc((size_t)(inner * cols) * gx_number_bytes(dtype)), *y = malloc(bytes);
    void *again = malloc(bytes);
    assert_true(x != NULL && y != NULL && again != NULL);
    for (int64_t k = 0; k < inner * cols; k++) {
        put(dtype, x, k, (gx_scalar){(double)(k % 5) - 2, dtype == GX_F64 ? 0 : (double)(k % 3)});
    }
    apply(f, dtype, is_hermitian, is_adjoint, cols, "4", x, y);
    apply(f, dtype, is_hermitian, is_adjoint, cols, "1", x, again);
    assert_memory_equal(y, again, bytes); // small integers: exact in every order
    for (int64_t c = 0; c < cols; c++) {
        for (int64_t i = 0; i < rows; i += 37) {
            gx_scalar sum = {0, 0}, got = get(dtype, y, c * rows + i);
            for (int64_t k = 0; k < inner; k++) {
                gx_scalar a = is_adjoint ? element(k, i, is_hermitian, dtype != GX_F64)
                                         : element(i, k, is_hermitian, dtype != GX_F64);
                gx_scalar b = get(dtype, x, c * inner + k);
                a.im = is_adjoint ? -a.im : a.im;
                sum.re += a.re * b.re - a.im * b.im;
                sum.im += a.re * b.im + a.im * b.re;
            }
            assert_true(got.re == sum.re && got.im == sum.im);
        }
    }
    free(x);
    free(y);
    free(again);
}

static void passes(void **state)
{
    fixture *f = *state;
    static const int64_t widths[] = {1, 4, MOST};
    static const gx_number dtypes[] = {GX_F64, GX_C64};
    for (int d = 0; d < 2; d++) {
        store(f, M, N, dtypes[d], false);
        for (int w = 0; w < 3; w++) {
            check(f, M, N, dtypes[d], false, false, widths[w]);
            check(f, M, N, dtypes[d], false, true, widths[w]);
        }
        store(f, M, M, dtypes[d], true);
        for (int w = 0; w < 3; w++) {
            check(f, M, M, dtypes[d], true, false, widths[w]);
        }
    }
}

static void stopped(void **state)
{
    fixture *f = *state;
    gx_run run;
    gx_oper op = {0};
    gx_mat A;
    gx_meta meta;
    gx_err err = {0};
    static double x[M], y[M];
    store(f, M, M, GX_F64, true);
    set(f->ctx, GX_SET_MEMORY_LIMIT, "1500KB");
    gx_run_begin(&run, f->ctx, "pass");
    assert_int_equal(gx_store_find(f->ctx->store, "A", &meta, &run.err), GX_OK);
    gx_mat_stored(&A, &meta);
    size_t before = gx_mem_used(f->ctx->mem);
    assert_int_equal(gx_oper_begin(&run, &A, GX_F64, true, 64 << 10, &op), GX_OK);
    (void)gx_fail(&err, GX_INTERRUPT, "interrupted");
    gx_run_fail(&run, &err);
    assert_int_equal(op.apply(&op, false, x, 1, y), GX_INTERRUPT);
    gx_oper_end(&op);
    assert_true(gx_mem_used(f->ctx->mem) <= before);
    assert_int_equal(gx_run_end(&run), GX_INTERRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(passes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stopped, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
