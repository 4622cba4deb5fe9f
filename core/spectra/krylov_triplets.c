/*
** What the iterative singular value drivers share: sizes, memory, products, vectors, residuals.
**
** A driver gets an operator that has been begun with room left for it, so that the bases come
** first, and the rest of the budget holds columns of the matrix.  Sizes depend on the arguments
** alone: a smaller budget means more I/O, never other bits (deterministic mode).  Otherwise a basis
** that does not fit becomes smaller.
**
** Where a product is not finite, A is looked through for the element, which costs one pass more
** and nothing where all is well.
*/
#include "../alg/dense.h"
#include "../alg/small_r.h"
#include "krylov_svd.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Sizes -------------------------------------------------------------------------------------------

/* Shorter sides for which a QR takes less time than a Krylov method's passes. */
enum { SHORT_MOST = 2048 };

enum { RESTARTS = 300, OVERSAMPLE = 10, POWER = 2 };

void gx_svd_choose_sizes(const gx_svd_args *args, gx_svd_sizes *sizes)
{
    int64_t n = gx_min(args->A->rows, args->A->cols), k = args->k;
    enum { WIDE = 8, NARROW = 4, FEW = 4, BLOCKS = 12 };
    int64_t block = gx_kry_chosen(args->block, k >= FEW ? WIDE : NARROW);
    sizes->block = gx_max(1, gx_min(gx_min(block, GX_KRY_BLOCK_MOST), n));
    int64_t ncv = gx_max(2 * k + 4 * sizes->block, BLOCKS * sizes->block);
    sizes->ncv = gx_min(n, gx_kry_chosen(args->ncv, ncv));
    if (sizes->ncv < n) { // a few blocks beside the wanted ones
        sizes->block = gx_max(1, gx_min(sizes->block, (sizes->ncv - k) / 4));
    }
    sizes->maxiter = gx_kry_chosen(args->maxiter, RESTARTS);
    sizes->width = gx_min(n, k + (args->oversample < 0 ? OVERSAMPLE : args->oversample));
    sizes->power = args->power < 0 ? POWER : args->power;
    double rounding = gx_number_is_double(args->A->number) ? 1e-12 : 2e-6;
    sizes->tol = args->tol > 0 ? args->tol : rounding;
}

/* Half of the bases, at least the wanted ones; more where no step is lost by it. */
int64_t gx_svd_kept(int64_t wanted, int64_t m, int64_t room, int64_t block)
{
    int64_t least = gx_min(gx_max(wanted, m / 2), room - block);
    int64_t steps = (room - least) / block;
    return gx_max(1, gx_min(m, room - steps * block));
}

/* What the two drivers hold from beginning to end. */
static double krylov_bytes(const gx_svd_sizes *s, double k, double most, double least, double es,
                           double wide)
{
    double ncv = (double)s->ncv, b = (double)s->block;
    return (most * ncv + least * (ncv + b)) * es +
           (4 * ncv * ncv + (3 * b + k) * ncv + b * b) * wide + 24 * ncv;
}

static double random_bytes(const gx_svd_sizes *s, double most, double least, double es, double wide)
{
    double l = (double)s->width, b = GX_SVD_PANEL;
    return (most + least) * l * es + (3 * l * l + b * l + b * b) * wide + 8 * l;
}

/* Temporary memory of the largest step: a rotation, the small problem, vectors and residuals. */
static double passing_bytes(gx_run *run, const gx_svd_args *args, double width)
{
    double m = (double)args->A->rows, n = (double)args->A->cols, k = (double)args->k;
    double es = (double)gx_number_bytes(args->A->number);
    int64_t side = (int64_t)width;
    gx_args call = {.m = side,
                    .n = side,
                    .ldc = gx_max(1, side),
                    .ldleft = gx_max(1, side),
                    .ldright = gx_max(1, side),
                    .wants_left = true,
                    .wants_right = true};
    double small =
        (double)gx_dense_call_bytes(run, GX_GESDD, gx_number_wide(args->A->number), &call);
    double rotation = (width + GX_KRY_PANEL) * width * es;
    double vectors = args->mode == GX_SVD_VALUES ? 0 : (m + n) * k * es + 2 * width * k * es;
    vectors += args->wants_residuals ? (2 * n + m) * k * es : 0;
    return fmax(fmax(small, rotation), vectors) + 32 * k;
}

/* Without what the operator takes. */
static double work_bytes(gx_run *run, const gx_svd_args *args)
{
    gx_svd_sizes s;
    gx_svd_choose_sizes(args, &s);
    double most = (double)gx_max(args->A->rows, args->A->cols);
    double least = (double)gx_min(args->A->rows, args->A->cols);
    double es = (double)gx_number_bytes(args->A->number);
    double wide = (double)gx_number_bytes(gx_number_wide(args->A->number));
    bool is_random = args->method == GX_SVD_RANDOMIZED;
    double bytes = is_random ? random_bytes(&s, most, least, es, wide)
                             : krylov_bytes(&s, (double)args->k, most, least, es, wide);
    int64_t width = is_random ? s.width : s.ncv, block = is_random ? GX_SVD_PANEL : s.block;
    bytes += (double)gx_ortho_work(args->A->number, (int64_t)most, width, block) * es;
    return bytes + passing_bytes(run, args, (double)width) + (32 << 10);
}

static size_t to_size(double bytes)
{
    return bytes < 1e18 ? (size_t)bytes : SIZE_MAX / 4;
}

size_t gx_svd_work_bytes(gx_run *run, const gx_svd_args *args)
{
    return to_size(work_bytes(run, args));
}

size_t gx_svd_iterative_bytes(gx_run *run, const gx_svd_args *args)
{
    double floor = (double)gx_oper_least_bytes(args->A, args->A->number);
    return to_size(work_bytes(run, args) + floor);
}

/* In two passes (alg_svd_short.c): vectors twice, the triangle and what finds it. */
static size_t short_bytes(gx_run *run, const gx_svd_args *args)
{
    const gx_mat *A = args->A;
    double m = (double)A->rows, n = (double)A->cols, k = (double)args->k;
    double l = (double)gx_min(A->rows, A->cols), es = (double)gx_number_bytes(A->number);
    double ortho =
        (double)gx_ortho_work(A->number, (int64_t)fmax(m, n), args->k, GX_SVD_PANEL) * es;
    double vectors = (m + n) * k * es + (A->rows < A->cols ? n * k * es : 0) + l * k * es;
    double pass = (double)gx_oper_least_bytes(A, A->number);
    double first = (double)gx_svd_triangle_bytes(run, args) + 2 * l * l * es;
    double second = vectors + fmax(ortho, pass) + l * l * es;
    double bytes = fmax(first, second) + 64 * l + (64 << 10);
    return bytes < 1e18 ? (size_t)bytes : SIZE_MAX;
}

bool gx_svd_short_fits(gx_run *run, const gx_svd_args *args)
{
    const gx_mat *A = args->A;
    bool is_fixed = run->ctx->config.number[GX_SET_DETERMINISTIC] != 0;
    return !is_fixed && !A->is_sparse && args->mode == GX_SVD_ECONOMY && args->k > 0 &&
           !args->is_smallest && gx_svd_is_long(A) && gx_min(A->rows, A->cols) <= SHORT_MOST &&
           short_bytes(run, args) <= gx_mem_available(run->ctx->mem);
}

// Products ----------------------------------------------------------------------------------------

/* The place of a NaN or Inf in A, looked for in pieces of columns of tiles. */
static void refuse_values(gx_run *run, const gx_mat *A, gx_number dtype)
{
    enum { PIECE_BYTES = 8 << 20 };
    int64_t width = gx_max(1, gx_min(A->cols, A->tile_cols));
    int64_t height = PIECE_BYTES / (width * (int64_t)gx_number_bytes(dtype));
    height = gx_max(1, gx_min(A->rows, gx_max(A->tile_rows, height)));
    void *piece = NULL;
    if (A->is_sparse) {
        gx_run_failf(run, GX_NUMERIC, "%s has NaN or Inf, or a product with it", A->label);
        return;
    }
    gx_dense_alloc(run, dtype, width, height, "a piece of the matrix", &piece);
    for (int64_t j = 0; j < A->cols && gx_ok(run); j += width) {
        int64_t cols = gx_min(width, A->cols - j);
        for (int64_t i = 0; i < A->rows && gx_ok(run); i += height) {
            int64_t rows = gx_min(height, A->rows - i);
            gx_mat view;
            gx_mat_view(&view, A, GX_NO_TRANS, i, j, rows, cols);
            gx_dense_load(run, &view, dtype, piece, rows);
            gx_dense_finite_part(run, A->label, dtype, piece, rows, rows, cols, i, j);
        }
    }
    gx_mem_free(run->ctx->mem, piece);
    gx_run_failf(run, GX_NUMERIC, "a product with %s has NaN or Inf", A->label); // it overflowed
}

gx_code gx_svd_product(gx_oper *op, const gx_mat *A, bool is_adjoint, const void *x, int64_t cols,
                       void *y)
{
    int64_t rows = is_adjoint ? op->n : op->m;
    if (gx_ok(op->run)) {
        op->apply(op, is_adjoint, x, cols, y);
    }
    if (gx_ok(op->run) && !isfinite(gx_small_norm(op->dtype, y, gx_max(1, rows), rows, cols))) {
        refuse_values(op->run, A, op->dtype);
    }
    return gx_ok(op->run) ? GX_OK : op->run->err.code;
}

// Vectors -----------------------------------------------------------------------------------------

/* Columns pick[0 ..] of X (b rows of doubles) as dtype. */
static void *picked(gx_run *run, gx_number dtype, int64_t b, const void *X, const int64_t *pick,
                    int64_t count)
{
    gx_number wide = gx_number_wide(dtype);
    void *out = gx_dense_take(run, dtype, b, count, "singular vectors");
    for (int64_t j = 0; j < count && gx_ok(run); j++) {
        gx_convert(wide, gx_at(X, wide, b, 0, pick[j]), b, dtype, gx_at(out, dtype, b, 0, j), b, b,
                   1);
    }
    return out;
}

gx_code gx_svd_give_vectors(gx_run *run, gx_svd_result *r, int64_t b, const void *P, const void *X,
                            const void *Q, const void *W, const int64_t *pick)
{
    if (!gx_ok(run) || r->u == NULL || r->count == 0) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    gx_trans adjoint = gx_adjoint(r->dtype);
    void *x = picked(run, r->dtype, b, X, pick, r->count);
    void *w = picked(run, r->dtype, b, W, pick, r->count);
    gx_dense_gemm(run, r->dtype, GX_NO_TRANS, GX_NO_TRANS, r->m, r->count, b, 1, P, r->m, x, b, 0,
                  r->u, r->m);
    gx_dense_gemm(run, r->dtype, adjoint, adjoint, r->count, r->n, b, 1, w, b, Q, r->n, 0, r->vt,
                  r->count);
    gx_mem_free(run->ctx->mem, x);
    gx_mem_free(run->ctx->mem, w);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Residuals ---------------------------------------------------------------------------------------

/* ||y - sigma x|| of the columns, where it is larger than the residual that is there. */
static void take_residuals(gx_run *run, const gx_svd_result *r, int64_t rows, void *y,
                           const void *x)
{
    for (int64_t j = 0; j < r->count; j++) {
        void *column = gx_at(y, r->dtype, rows, 0, j);
        gx_dense_add(run, r->dtype, rows, 1, column, (gx_scalar){-r->sigma[j], 0},
                     gx_at(x, r->dtype, rows, 0, j));
        double norm = gx_kry_norm(r->dtype, column, rows);
        r->residuals[j] = fmax(r->residuals[j], norm);
    }
}

gx_code gx_svd_find_residuals(gx_oper *op, const gx_mat *A, gx_svd_result *r)
{
    gx_run *run = op->run;
    r->residuals = gx_dense_take(run, GX_F64, r->count, 1, "residuals");
    void *v = gx_dense_take(run, r->dtype, r->n, r->count, "residuals");
    void *y = gx_dense_take(run, r->dtype, gx_max(r->m, r->n), r->count, "residuals");
    for (int64_t j = 0; j < r->count && gx_ok(run); j++) {
        r->residuals[j] = 0;
    }
    gx_vectors_turned(run, r->dtype, r->count, r->n, r->vt, r->vt_rows, v);
    if (r->count > 0 && gx_svd_product(op, A, false, v, r->count, y) == GX_OK) {
        take_residuals(run, r, r->m, y, r->u);
    }
    if (r->count > 0 && gx_svd_product(op, A, true, r->u, r->count, y) == GX_OK) {
        take_residuals(run, r, r->n, y, v);
    }
    gx_mem_free(run->ctx->mem, v);
    gx_mem_free(run->ctx->mem, y);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// The entry ---------------------------------------------------------------------------------------

/* With k of them, and the smallest basis where that can be chosen. */
static bool fits_with(gx_run *run, const gx_svd_args *args, int64_t k)
{
    gx_svd_args fewer = *args;
    fewer.k = k;
    fewer.ncv = args->method == GX_SVD_RANDOMIZED
                    ? 0
                    : gx_min(gx_min(args->A->rows, args->A->cols), 2 * k + 1);
    return gx_svd_iterative_bytes(run, &fewer) <= gx_mem_available(run->ctx->mem);
}

/* The most, up to k, for which there is memory: by this method, or in two passes. */
static int64_t most_that_fit(gx_run *run, const gx_svd_args *args, bool is_short)
{
    gx_svd_args fewer = *args;
    while (fewer.k > 0 &&
           !(is_short ? gx_svd_short_fits(run, &fewer) : fits_with(run, args, fewer.k))) {
        fewer.k--;
    }
    return fewer.k;
}

/* What would do: found by trying. */
static void advise(gx_run *run, const gx_svd_args *args, char *advice, size_t bytes)
{
    int64_t n = gx_min(args->A->rows, args->A->cols), k = most_that_fit(run, args, false);
    int64_t most = most_that_fit(run, args, true);
    char first[96] = "";
    if (most > k) {
        snprintf(first, sizeof first, "ask for %lld, with method \"auto\", or ", (long long)most);
    } else if (k > 0 && args->method == GX_SVD_RANDOMIZED) {
        snprintf(first, sizeof first, "ask for %lld, or ", (long long)k);
    } else if (k > 0) {
        snprintf(first, sizeof first, "ask for %lld with {\"ncv\":%lld}, or ", (long long)k,
                 (long long)gx_min(n, 2 * k + 1));
    }
    snprintf(advice, bytes, "%sraise it with gx_config('memory_limit', ...)", first);
}

static gx_code refuse_bytes(gx_run *run, const gx_svd_args *args)
{
    gx_svd_sizes sizes;
    gx_svd_choose_sizes(args, &sizes);
    bool is_random = args->method == GX_SVD_RANDOMIZED;
    char what[80], advice[160];
    size_t needed = gx_svd_iterative_bytes(run, args);
    if (needed <= gx_mem_available(run->ctx->mem)) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    advise(run, args, advice, sizeof advice);
    snprintf(what, sizeof what, "%lld singular values with a basis of %lld", (long long)args->k,
             (long long)(is_random ? sizes.width : sizes.ncv));
    return gx_dense_fits(run, needed, what, args->A, advice);
}

/*
** A basis that nobody asked for gets smaller until it fits, which costs passes; not in
** deterministic mode, where the bits would depend on the budget.
*/
static void fit_basis(gx_run *run, gx_svd_args *args, size_t keep_bytes)
{
    bool is_fixed = run->ctx->config.number[GX_SET_DETERMINISTIC] != 0;
    if (args->ncv != 0 || args->method == GX_SVD_RANDOMIZED || is_fixed) {
        return;
    }
    gx_svd_sizes sizes;
    gx_svd_choose_sizes(args, &sizes);
    int64_t n = gx_min(args->A->rows, args->A->cols);
    int64_t least = gx_min(sizes.ncv, gx_min(n, 2 * args->k + 2 * sizes.block));
    while (sizes.ncv > least &&
           gx_svd_iterative_bytes(run, args) + keep_bytes > gx_mem_available(run->ctx->mem)) {
        sizes.ncv = gx_max(least, sizes.ncv / 4 * 3);
        args->ncv = sizes.ncv;
    }
}

gx_code gx_svd_check_sizes(gx_run *run, gx_svd_args *args, size_t keep_bytes)
{
    int64_t n = gx_min(args->A->rows, args->A->cols);
    if (gx_ok(run) && args->method != GX_SVD_RANDOMIZED) {
        gx_kry_check_sizes(run, n, args->k, args->ncv, args->block);
    }
    if (!gx_ok(run)) {
        return run->err.code;
    }
    fit_basis(run, args, keep_bytes);
    return refuse_bytes(run, args);
}
