/*
** An upper triangle in memory: see small_r.h.
**
** Full rank is proved where it can be, which is nearly always: sigma_min >= 1 / ||R^-1||_F and
** sigma_max <= ||R||_F, so rcond ||R||_F ||R^-1||_F < 1 means that no singular value is below
** rcond * sigma_max.  R^-1 costs n^3 / 3 flops; the SVD, about 22 n^3 (Golub & Van Loan, 8.6), is
** for what is left: triangles that are rank-deficient or within a factor n of it.
**
**   pinv(R) = V S^+ U^H,  pinv(R)^H = U S^+ V^H        S^+: 1 / sigma_i for i < rank, else 0
**
** Memory: n^2 elements (R), n^2 for a moment (R^-1), or 3 n^2 and the SVD's workspace; its values
** alone, n^2 and a smaller one.  Where these do not fit the bound is all that is known.
*/
#include "small_r.h"

#include "../mat/simple.h"
#include "dense.h"

#include <math.h>
#include <string.h>

static gx_code take(gx_small_r *r, int64_t cols, const char *what, void **ptr)
{
    return gx_dense_alloc(r->run, r->dtype, r->n, cols, what, ptr);
}

/* Real element at index k of floats or doubles. */
static double real_at(gx_number dtype, const void *x, int64_t k)
{
    return gx_number_is_double(dtype) ? ((const double *)x)[k] : (double)((const float *)x)[k];
}

/* The sum of squares as it comes, in four parts, which processors add side by side. */
static double plain_squares(gx_number dtype, const void *x, int64_t count)
{
    enum { PARTS = 4 };
    double part[PARTS] = {0};
    int64_t i = 0;
    if (gx_number_is_double(dtype)) {
        const double *v = x;
        for (; i + PARTS <= count; i += PARTS) {
            for (int p = 0; p < PARTS; p++) {
                part[p] += v[i + p] * v[i + p];
            }
        }
    } else {
        const float *v = x;
        for (; i + PARTS <= count; i += PARTS) {
            for (int p = 0; p < PARTS; p++) {
                part[p] += (double)v[i + p] * (double)v[i + p];
            }
        }
    }
    for (; i < count; i++) {
        part[0] += real_at(dtype, x, i) * real_at(dtype, x, i);
    }
    return (part[0] + part[1]) + (part[2] + part[3]);
}

/* Of numbers of any size. */
static double scaled_norm(gx_number dtype, const void *x, int64_t ld, int64_t m, int64_t n)
{
    int64_t parts = gx_number_is_complex(dtype) ? 2 : 1;
    double scale = 0, sum = 1; // scale^2 * sum, as LAPACK's lassq
    for (int64_t j = 0; j < n; j++) {
        const void *column = gx_at(x, dtype, ld, 0, j);
        for (int64_t i = 0; i < parts * m; i++) {
            double value = fabs(real_at(dtype, column, i));
            if (value > scale) {
                sum = 1 + sum * (scale / value) * (scale / value);
                scale = value;
            } else if (value > 0) {
                sum += (value / scale) * (value / scale);
            } else if (isnan(value)) {
                return value;
            }
        }
    }
    return scale == 0 ? 0 : scale * sqrt(sum);
}

double gx_small_norm(gx_number dtype, const void *x, int64_t ld, int64_t m, int64_t n)
{
    // Between these nothing has overflowed, and what has underflowed does not count.
    const double LEAST = 1e-280, MOST = 1e300;
    double squares = 0;
    for (int64_t j = 0; j < n; j++) {
        int64_t reals = gx_number_is_complex(dtype) ? 2 * m : m;
        squares += plain_squares(dtype, gx_at(x, dtype, ld, 0, j), reals);
    }
    return squares > LEAST && squares < MOST ? sqrt(squares) : scaled_norm(dtype, x, ld, m, n);
}

gx_code gx_small_r_take(gx_run *run, const gx_mat *source, int64_t n, gx_number dtype,
                        gx_small_r *r)
{
    gx_mat top;
    *r = (gx_small_r){.run = run, .n = n, .dtype = dtype};
    GX_TRY(take(r, n, "the triangle R", &r->r));
    gx_mat_view(&top, source, GX_NO_TRANS, 0, 0, n, n);
    GX_TRY(gx_dense_load(run, &top, dtype, r->r, gx_max(1, n)));
    gx_args upper = {.uplo = GX_UPPER,
                     .m = n,
                     .n = n,
                     .a = r->r,
                     .lda = gx_max(1, n),
                     .c = r->r,
                     .ldc = gx_max(1, n)};
    GX_TRY(gx_dense_call(run, GX_TRIANGLE, dtype, &upper));
    if (!isfinite(gx_small_norm(dtype, r->r, gx_max(1, n), n, n))) {
        return gx_run_failf(run, GX_NUMERIC, "%s has NaN or Inf", source->label);
    }
    return GX_OK;
}

// Rank --------------------------------------------------------------------------------------------

/* x = R^-1 x, or R^-H x; n x p. */
static gx_code substitute(gx_small_r *r, gx_trans trans, void *x, int64_t p)
{
    gx_args args = {.side = GX_LEFT,
                    .uplo = GX_UPPER,
                    .transa = trans,
                    .m = r->n,
                    .n = p,
                    .alpha = GX_ONE,
                    .a = r->r,
                    .lda = r->n,
                    .c = x,
                    .ldc = r->n};
    return gx_dense_call(r->run, GX_TRSM, r->dtype, &args);
}

static bool has_zero_pivot(const gx_small_r *r)
{
    int64_t parts = gx_number_is_complex(r->dtype) ? 2 : 1;
    for (int64_t i = 0; i < r->n; i++) {
        const void *pivot = gx_at(r->r, r->dtype, r->n, i, i);
        if (real_at(r->dtype, pivot, 0) == 0 && (parts == 1 || real_at(r->dtype, pivot, 1) == 0)) {
            return true;
        }
    }
    return false;
}

/* 1 / (||R||_F ||R^-1||_F), a lower bound of sigma_min / sigma_max; 0: not invertible. */
static gx_code bound_rcond(gx_small_r *r, double *bound)
{
    void *inverse;
    *bound = 0;
    if (has_zero_pivot(r)) {
        return GX_OK;
    }
    GX_TRY(take(r, r->n, "the inverse of R", &inverse));
    const gx_diagonal ones = {.dtype = r->dtype};
    gx_diagonal_generate(&ones, 0, 0, r->n, r->n, r->dtype, inverse, r->n);
    if (substitute(r, GX_NO_TRANS, inverse, r->n) == GX_OK) {
        double norm = gx_small_norm(r->dtype, r->r, r->n, r->n, r->n);
        double inverse_norm = gx_small_norm(r->dtype, inverse, r->n, r->n, r->n);
        *bound = isfinite(inverse_norm) ? 1 / norm / inverse_norm : 0;
    }
    gx_mem_free(r->run->ctx->mem, inverse);
    return r->run->err.code;
}

/* The SVD of R, destroying `block`; u and vt where they are wanted. */
static gx_code decompose(gx_small_r *r, void *block, void *u, void *vt)
{
    gx_run *run = r->run;
    void *values;
    int64_t info = 0;
    GX_TRY(take(r, 1, "singular values", &values));
    r->sigma = gx_run_alloc(run, (size_t)r->n * sizeof *r->sigma, "singular values");
    gx_args args = {.m = r->n,
                    .n = r->n,
                    .c = block,
                    .ldc = r->n,
                    .values = values,
                    .left = u,
                    .ldleft = r->n,
                    .right = vt,
                    .ldright = r->n,
                    .wants_left = u != NULL,
                    .wants_right = vt != NULL,
                    .info = &info};
    if (gx_ok(run) && gx_dense_call(run, GX_GESDD, r->dtype, &args) == GX_OK && info > 0) {
        gx_run_failf(run, GX_NUMERIC, "the singular values of R (%lldx%lld) did not converge",
                     (long long)r->n, (long long)r->n);
    }
    for (int64_t i = 0; i < r->n && gx_ok(run); i++) {
        r->sigma[i] = real_at(r->dtype, values, i);
    }
    gx_mem_free(run->ctx->mem, values);
    return run->err.code;
}

static void count_rank(gx_small_r *r, double rcond)
{
    double largest = r->n == 0 ? 0 : r->sigma[0];
    r->rank = 0;
    while (r->rank < r->n && r->sigma[r->rank] > rcond * largest) {
        r->rank++;
    }
    r->rcond = largest > 0 ? r->sigma[r->n - 1] / largest : 0;
}

/*
** The SVD of a copy of R.  With its vectors, which say the rank; without them the singular values
** alone of a triangle of full rank.
*/
static gx_code decompose_copy(gx_small_r *r, bool wants_vectors, double rcond)
{
    void *block;
    GX_TRY(take(r, r->n, "a copy of R", &block));
    memcpy(block, r->r, (size_t)(r->n * r->n) * gx_number_bytes(r->dtype));
    if (wants_vectors) {
        take(r, r->n, "singular vectors of R", &r->u);
        take(r, r->n, "singular vectors of R", &r->vt);
    }
    if (gx_ok(r->run) && decompose(r, block, r->u, r->vt) == GX_OK) {
        count_rank(r, wants_vectors ? rcond : -1);
    }
    gx_mem_free(r->run->ctx->mem, block);
    return r->run->err.code;
}

/* Is there memory for the SVD of a copy of R? */
static bool svd_fits(gx_small_r *r, bool wants_vectors)
{
    const size_t SLACK = 64 << 10;
    size_t square, n = (size_t)r->n;
    gx_args args = {.m = r->n,
                    .n = r->n,
                    .ldc = r->n,
                    .ldleft = r->n,
                    .ldright = r->n,
                    .wants_left = wants_vectors,
                    .wants_right = wants_vectors};
    size_t work = gx_dense_call_bytes(r->run, GX_GESDD, r->dtype, &args);
    size_t available = gx_mem_available(r->run->ctx->mem);
    return gx_matrix_bytes(r->n, r->n, r->dtype, &square) && work < available &&
           (wants_vectors ? 3 : 1) * square + 2 * n * sizeof(double) + SLACK <= available - work;
}

/* R is not empty. */
static gx_code find_rank(gx_small_r *r, double rcond, bool wants_rcond)
{
    double bound;
    GX_TRY(bound_rcond(r, &bound));
    // The bound is of exact quantities: twice rcond covers the rounding of R^-1.
    bool is_full = bound > 2 * rcond && bound > 0;
    r->rank = r->n;
    r->is_rank_known = is_full || svd_fits(r, true);
    r->rcond = is_full && !wants_rcond ? bound : (double)NAN;
    if (is_full) {
        return wants_rcond && svd_fits(r, false) ? decompose_copy(r, false, rcond) : GX_OK;
    }
    return r->is_rank_known ? decompose_copy(r, true, rcond) : GX_OK;
}

gx_code gx_small_r_rank(gx_small_r *r, double rcond, bool wants_rcond, bool *is_known)
{
    if (gx_ok(r->run) && !r->is_ranked) {
        r->is_rank_known = r->is_ranked = true;
        if (r->n > 0) {
            find_rank(r, rcond, wants_rcond);
        }
    }
    *is_known = r->is_rank_known;
    return gx_ok(r->run) ? GX_OK : r->run->err.code;
}

gx_code gx_small_r_sigma(gx_small_r *r)
{
    return !gx_ok(r->run) ? r->run->err.code : r->n == 0 ? GX_OK : decompose(r, r->r, NULL, NULL);
}

// Solving -----------------------------------------------------------------------------------------

static gx_code multiply(gx_small_r *r, gx_trans trans, const void *a, const void *b, void *c,
                        int64_t p)
{
    return gx_dense_gemm(r->run, r->dtype, trans, GX_NO_TRANS, r->n, p, r->n, 1, a, r->n, b, r->n,
                         0, c, r->n);
}

/* Rows of y by 1 / sigma, those past the rank by 0. */
static void scale_rows(const gx_small_r *r, void *y, int64_t p)
{
    int64_t parts = gx_number_is_complex(r->dtype) ? 2 : 1;
    for (int64_t j = 0; j < p; j++) {
        void *column = gx_at(y, r->dtype, r->n, 0, j);
        for (int64_t i = 0; i < parts * r->n; i++) {
            double sigma = r->sigma[i / parts];
            bool is_kept = i / parts < r->rank;
            if (gx_number_is_double(r->dtype)) {
                double *value = (double *)column + i;
                *value = is_kept ? *value / sigma : 0;
            } else {
                float *value = (float *)column + i;
                *value = is_kept ? (float)((double)*value / sigma) : 0;
            }
        }
    }
}

/* x = V S^+ U^H x, or U S^+ V^H x. */
static gx_code solve_by_svd(gx_small_r *r, bool is_adjoint, void *x, int64_t p, double *rest)
{
    void *y;
    GX_TRY(take(r, p, "a right-hand side", &y));
    gx_trans first = is_adjoint ? GX_NO_TRANS : GX_CONJ_TRANS;
    if (multiply(r, first, is_adjoint ? r->vt : r->u, x, y, p) == GX_OK) {
        if (rest != NULL) {
            *rest =
                gx_small_norm(r->dtype, gx_at(y, r->dtype, 1, r->rank, 0), r->n, r->n - r->rank, p);
        }
        scale_rows(r, y, p);
        multiply(r, is_adjoint ? GX_NO_TRANS : GX_CONJ_TRANS, is_adjoint ? r->u : r->vt, y, x, p);
    }
    gx_mem_free(r->run->ctx->mem, y);
    return r->run->err.code;
}

gx_code gx_small_r_solve(gx_small_r *r, gx_trans trans, void *x, int64_t p, double *rest)
{
    if (rest != NULL) {
        *rest = 0;
    }
    if (!gx_ok(r->run) || r->n == 0 || p == 0) {
        return gx_ok(r->run) ? GX_OK : r->run->err.code;
    }
    if (r->u != NULL && r->rank < r->n) {
        return solve_by_svd(r, trans != GX_NO_TRANS, x, p, rest);
    }
    return substitute(r, trans == GX_NO_TRANS ? GX_NO_TRANS : GX_CONJ_TRANS, x, p);
}

void gx_small_r_clear(gx_small_r *r)
{
    if (r->run != NULL) {
        gx_mem *mem = r->run->ctx->mem;
        gx_mem_free(mem, r->r);
        gx_mem_free(mem, r->sigma);
        gx_mem_free(mem, r->u);
        gx_mem_free(mem, r->vt);
    }
    memset(r, 0, sizeof *r);
}
