/*
** Principal components and covariance of the columns of A (m x n), without a centred copy.
**
** Tall A: one pass.  Let s be the means of the first rows and B = A - 1 s^T, made where blocks are
** read.  TSQR of [1 B] leaves
**
**   R = [ r  t ]      t / r = the means of B's columns, so that mean(A) = s + t / r
**       [ 0  T ]      T^H T = (A - 1 mean^T)^H (A - 1 mean^T)
**
** because the reflectors that annihilate below the first column of ones project everything else
** onto the complement of 1: that is the centring.  No squares are formed and nothing is downdated:
** a Gram matrix loses deviations below sqrt(eps) of the largest, and R^H R - m mean mean^H cancels.
** The error is eps ||B||, not eps ||A||, which is why s is taken off first: columns with a large
** mean and a small deviation lose no digits.  T = X S V^H (GESDD) gives components V and variances
** S^2 / (m - ddof); columns of T divided by their norm standardise.
**
** Where [1 B] times itself is a streamed product (narrow.h) that is quicker, and good enough: for
** covariances, as long as means of B are no more than its deviations; for the k largest components,
** as long as their variances are no less than WEAKEST of the largest: S^2 has errors of eps S_1^2,
** so those of S are some eps S_1 still.  Where that turns out not to be so, TSQR does it again.
**
**   [1 B]^H [1 B] = [ m    1^T B ]    (A - 1 mean^T)^H (A - 1 mean^T) = B^H B - m d d^H,
**                   [ ...  B^H B ]                            d = B^H 1 / m
**
** Other A: means and deviations of B in one pass, then the SVD of the centred source: its elements
** are centred and scaled where its blocks are read, in every pass, so that nothing cancels as it
** would in A x - 1 (mean^T x).  s and B's mean are taken off one after the other: their sum has no
** double of its own where the means are large.  alg_svd.c has all of it in memory where it fits,
** and the k largest by passes where it does not or few are wanted (krylov_svd.c).  For covariances,
** its product with itself (syrk), which reads it as often as any product does.
**
** Work: 2 m n^2 flops and 22 n^3 (Golub & Van Loan 2013, 8.6).  Memory: R, T, V and three blocks of
** rows.  f32 is computed in f64: deviations are differences.  Published: Chan, Golub & LeVeque 1983
** (variances by shifted data), Demmel, Grigori, Hoemmen & Langou 2012 (TSQR).
*/
#include "alg_pca.h"
#include "../alg/alg.h"
#include "../alg/dense.h"
#include "../alg/dense_device.h"
#include "../alg/narrow.h"
#include "../alg/small_r.h"
#include "plan_spectrum.h"
#include "spectrum_int.h"

#include <math.h>
#include <string.h>

/* Bytes of a panel of rows where columns are looked at one by one. */
enum { PANEL_BYTES = 8 << 20 };

/* Squared means of B are at most so many variances; variances of components: see above. */
static const double FARTHEST = 1, WEAKEST = 1e-3;

/* Sums of squares below it may have lost digits, or all: TSQR squares nothing. */
static const double LEAST_SQUARES = 1e-250;

/* What is known of the columns. */
typedef struct columns {
    gx_run *run;
    const gx_mat *A;
    gx_number dtype;  /* computed in: f64 or c128                          */
    gx_scalar *shift; /* n: what is taken off while reading                */
    gx_scalar *rest;  /* n: the mean of what that leaves                   */
    double *scale;    /* n: deviations (divisor m - ddof) where asked      */
    double divisor;   /* m - ddof                                          */
    void *strip;      /* moments of a column of tiles, while they are found */
} columns;

static double square(gx_scalar x)
{
    return x.re * x.re + x.im * x.im;
}

static gx_code begin_columns(columns *c, gx_run *run, const gx_mat *A, int64_t ddof)
{
    *c = (columns){.run = run, .A = A, .dtype = gx_number_wide(A->number)};
    if (ddof < 0) {
        return gx_run_failf(run, GX_ARG, "ddof must not be negative, not %lld", (long long)ddof);
    }
    if (A->rows <= ddof) {
        return gx_run_failf(run, GX_ARG, "%s has %lld row%s: ddof %lld needs more", A->label,
                            (long long)A->rows, A->rows == 1 ? "" : "s", (long long)ddof);
    }
    c->divisor = (double)(A->rows - ddof);
    c->shift = gx_dense_take(run, GX_C128, A->cols, 1, "shifts of columns");
    c->rest = gx_dense_take(run, GX_C128, A->cols, 1, "means of columns");
    c->scale = gx_dense_take(run, GX_F64, A->cols, 1, "deviations of columns");
    for (int64_t j = 0; j < A->cols && gx_ok(run); j++) {
        c->scale[j] = 1;
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

static void end_columns(columns *c)
{
    gx_mem_free(c->run->ctx->mem, c->shift);
    gx_mem_free(c->run->ctx->mem, c->rest);
    gx_mem_free(c->run->ctx->mem, c->scale);
}

// One pass ----------------------------------------------------------------------------------------

/*
** The mean of a column's first rows; the value itself where they are all the same, so that a
** column that does not vary becomes zeros, not rounding errors; 0 of what is not finite.
*/
static gx_scalar shift_of(gx_number dtype, const void *column, int64_t rows)
{
    gx_scalar sum = {0, 0}, first = gx_number_get(dtype, column, 0);
    bool is_constant = true;
    for (int64_t i = 0; i < rows; i++) {
        gx_scalar x = gx_number_get(dtype, column, i);
        is_constant = is_constant && x.re == first.re && x.im == first.im;
        sum.re += x.re;
        sum.im += x.im;
    }
    gx_scalar mean = {sum.re / (double)rows, sum.im / (double)rows};
    mean = is_constant ? first : mean;
    return isfinite(mean.re) && isfinite(mean.im) ? mean : (gx_scalar){0, 0};
}

static void choose_shift(columns *c, int64_t most)
{
    const gx_mat *A = c->A;
    int64_t rows = gx_min(A->rows, most);
    void *head = gx_dense_take(c->run, c->dtype, rows, A->cols, "the first rows");
    gx_dense_load_rows(c->run, A, 0, rows, c->dtype, head, rows);
    for (int64_t j = 0; j < A->cols && gx_ok(c->run); j++) {
        c->shift[j] = shift_of(c->dtype, gx_at(head, c->dtype, rows, 0, j), rows);
    }
    gx_mem_free(c->run->ctx->mem, head);
}

bool gx_pca_is_one_pass(gx_run *run, const gx_mat *A, gx_tsqr_plan *plan)
{
    int64_t n = A->cols;
    if (A->rows <= n || n == 0) {
        return false;
    }
    gx_plan_tsqr(run, A->rows, n + 1, n + 1, gx_number_wide(A->number), plan);
    return plan->is_possible;
}

/*
** t: n x n, upper triangle, zeros below: the R of the centred columns; the means.  The caller
** frees *t.
*/
static gx_code factor(columns *c, const gx_tsqr_plan *plan, void **t)
{
    gx_run *run = c->run;
    int64_t n = c->A->cols;
    *t = NULL;
    choose_shift(c, GX_PCA_SHIFT_ROWS);
    gx_mat ones;
    gx_mat_centred(&ones, c->A, c->dtype, c->shift, NULL, true);
    gx_sink R = {0};
    if (gx_dense_alloc(run, c->dtype, n, n, "the triangle of its QR", t) == GX_OK &&
        gx_sink_begin_scratch(run, n + 1, n + 1, c->dtype, 0, &R) == GX_OK) {
        gx_alg_tsqr(run, &(gx_tsqr_args){.A = &ones, .R = &R}, plan);
    }
    gx_mat source;
    if (gx_ok(run)) {
        gx_sink_source(&R, c->A->label, &source);
        gx_scalar r = gx_number_get(c->dtype, source.data, 0);
        for (int64_t j = 0; j < n; j++) {
            const void *column = gx_at(source.data, c->dtype, n + 1, 0, j + 1);
            gx_scalar top = gx_number_get(c->dtype, column, 0); // r is real
            c->rest[j] = (gx_scalar){top.re / r.re, top.im / r.re};
            void *to = gx_at(*t, c->dtype, n, 0, j);
            memset(to, 0, (size_t)n * gx_number_bytes(c->dtype));
            memcpy(to, gx_at(column, c->dtype, 1, 1, 0),
                   (size_t)(j + 1) * gx_number_bytes(c->dtype));
        }
    }
    gx_sink_drop(&R);
    return gx_ok(run) ? GX_OK : run->err.code;
}

void gx_pca_ones(const gx_mat *A, const gx_scalar *shift, gx_mat *ones)
{
    gx_mat_centred(ones, A, gx_number_wide(A->number), shift, NULL, true);
    ones->tile_cols = A->tile_cols >= A->cols ? ones->cols : ones->tile_cols;
}

bool gx_pca_is_streamed(gx_run *run, const gx_mat *ones, const gx_sink *S, struct gx_narrow *plan)
{
    gx_matmul_args product = {.A = ones, .B = ones, .alpha = GX_ONE};
    product.transa = gx_adjoint(ones->number);
    return run->ctx->config.number[GX_SET_DETERMINISTIC] == 0 && // bits do not depend on memory
           gx_narrow_plan(run, &product, S, plan);
}

/*
** What s is the product of [1 B] with itself, becomes B^H B - m d d^H, n x n, without gaps; the
** means.  false: too much of it cancels or is too small to be squared, or it has NaN or Inf.
*/
static bool take_means_off(columns *c, const gx_mat *s, void *gram)
{
    int64_t n = c->A->cols;
    double m = (double)c->A->rows;
    bool is_good = true;
    for (int64_t j = 0; j < n; j++) {
        gx_scalar sum = gx_number_get(c->dtype, s->data, (j + 1) * s->ld);
        c->rest[j] = (gx_scalar){sum.re / m, sum.im / m};
    }
    for (int64_t j = 0; j < n; j++) {
        gx_scalar d = c->rest[j];
        for (int64_t i = 0; i < n; i++) {
            gx_scalar x = gx_number_get(c->dtype, s->data, (j + 1) * s->ld + i + 1), e = c->rest[i];
            x.re -= m * (e.re * d.re + e.im * d.im);
            x.im -= m * (e.re * d.im - e.im * d.re);
            gx_number_put(c->dtype, gram, j * n + i, x);
            is_good = is_good && isfinite(x.re) && isfinite(x.im) &&
                      (i != j || (m * square(d) <= FARTHEST * x.re && x.re > LEAST_SQUARES));
        }
    }
    return is_good;
}

/*
** (A - 1 mean^T)^H (A - 1 mean^T), n x n, and the means, by a streamed product.  NULL: not that
** way, or the run has failed.  The caller's.
*/
static void *find_scatter(columns *c)
{
    gx_run *run = c->run;
    int64_t n = c->A->cols;
    gx_mat ones, source;
    gx_sink S = {0};
    gx_narrow plan;
    void *gram = NULL;
    bool is_good = false;
    gx_pca_ones(c->A, c->shift, &ones);
    if (!gx_ok(run) || !gx_scratch_fits(run, n + 1, n + 1, c->dtype, 0) ||
        gx_sink_begin_scratch(run, n + 1, n + 1, c->dtype, 0, &S) != GX_OK) {
        return NULL;
    }
    if (!S.is_stored && gx_pca_is_streamed(run, &ones, &S, &plan)) {
        choose_shift(c, GX_PCA_SHIFT_ROWS);
        gram = gx_dense_take(run, c->dtype, n, n, "the covariance");
        gx_matmul_args product = {.A = &ones, .B = &ones, .alpha = GX_ONE};
        product.transa = gx_adjoint(c->dtype);
        if (gx_ok(run) && gx_alg_matmul(run, &product, &S) == GX_OK) {
            gx_sink_source(&S, c->A->label, &source);
            is_good = take_means_off(c, &source, gram);
        }
    }
    gx_sink_drop(&S);
    if (!is_good || !gx_ok(run)) {
        gx_mem_free(run->ctx->mem, gram);
        return NULL;
    }
    return gram;
}

/* Deviations from the diagonal, by which rows and columns are divided. */
static void standardize_scatter(columns *c, void *gram)
{
    int64_t n = c->A->cols;
    for (int64_t j = 0; j < n; j++) {
        c->scale[j] = sqrt(gx_number_get(c->dtype, gram, j * n + j).re / c->divisor);
    }
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            gx_scalar x = gx_number_get(c->dtype, gram, j * n + i);
            double by = 1 / c->scale[i] / c->scale[j];
            gx_number_put(c->dtype, gram, j * n + i, (gx_scalar){x.re * by, x.im * by});
        }
    }
}

/* Deviations from T, whose columns are divided by those that are not 0. */
static void standardize(columns *c, void *t)
{
    int64_t n = c->A->cols;
    for (int64_t j = 0; j < n; j++) {
        void *column = gx_at(t, c->dtype, n, 0, j);
        double norm = gx_small_norm(c->dtype, column, n, j + 1, 1);
        c->scale[j] = norm == 0 ? 1 : norm / sqrt(c->divisor);
        gx_vector_scale(c->dtype, column, j + 1, 1, (gx_scalar){1 / c->scale[j], 0});
    }
}

// By other passes ---------------------------------------------------------------------------------

static void find_means(columns *c)
{
    int64_t n = c->A->cols;
    gx_mat shifted;
    choose_shift(c, 1);
    gx_mat_centred(&shifted, c->A, c->dtype, c->shift, NULL, false);
    void *means = gx_dense_take(c->run, c->dtype, n, 1, "means of columns");
    if (gx_ok(c->run)) {
        gx_alg_sums(c->run, &shifted, false, (double)c->A->rows, means);
    }
    for (int64_t j = 0; j < n && gx_ok(c->run); j++) {
        c->rest[j] = gx_number_get(c->dtype, means, j);
    }
    gx_mem_free(c->run->ctx->mem, means);
}

/* What is known of the rows of a column that have been read: mean, and sum of |x - mean|^2. */
typedef struct moments {
    double count;
    gx_scalar mean;
    double squares;
} moments;

/*
** Of count numbers, `step` apart: from the first on, so that a column that does not vary has
** exactly its value as the mean; and with what rounding has left of it taken off the squares (Chan,
** Golub & LeVeque 1983, the corrected two-pass formula).
*/
static void real_moments(const double *x, int64_t count, int64_t step, double base, double *mean,
                         double *squares)
{
    double sum = 0, rest = 0, shift = x[0];
    for (int64_t i = 0; i < count; i++) {
        sum += x[i * step] - shift;
    }
    double local = sum / (double)count;
    *mean = (shift - base) + local;
    for (int64_t i = 0; i < count; i++) {
        double d = (x[i * step] - shift) - local;
        rest += d;
        *squares += d * d;
    }
    *squares -= rest * rest / (double)count;
}

/* Both together, by their formula for two samples. */
static moments merged(moments a, moments b)
{
    if (a.count == 0) {
        return b;
    }
    double count = a.count + b.count, share = b.count / count;
    gx_scalar d = {b.mean.re - a.mean.re, b.mean.im - a.mean.im};
    return (moments){.count = count,
                     .mean = {a.mean.re + d.re * share, a.mean.im + d.im * share},
                     .squares = a.squares + b.squares + square(d) * a.count * share};
}

/* Columns j .. j + width - 1, in pieces of `height` rows; their shifts are in the first row. */
static void look_at_columns(columns *c, int64_t j, int64_t width, int64_t height, void *piece)
{
    int64_t m = c->A->rows;
    int64_t parts = gx_number_is_complex(c->dtype) ? 2 : 1;
    moments *of = c->strip;
    memset(of, 0, (size_t)width * sizeof *of);
    for (int64_t i = 0; i < m && gx_ok(c->run); i += height) {
        int64_t rows = gx_min(height, m - i);
        gx_mat view;
        gx_mat_view(&view, c->A, GX_NO_TRANS, i, j, rows, width);
        gx_dense_load(c->run, &view, c->dtype, piece, rows);
        for (int64_t p = 0; p < width && gx_ok(c->run); p++) {
            const double *x = gx_at(piece, c->dtype, rows, 0, p);
            moments part = {.count = (double)rows};
            gx_scalar *shift = &c->shift[j + p];
            *shift = i == 0 ? shift_of(c->dtype, x, 1) : *shift;
            real_moments(x, rows, parts, shift->re, &part.mean.re, &part.squares);
            if (parts == 2) {
                real_moments(x + 1, rows, parts, shift->im, &part.mean.im, &part.squares);
            }
            of[p] = merged(of[p], part);
        }
        gx_run_advance(c->run, (double)rows * (double)width);
        gx_run_poll(c->run);
    }
    for (int64_t p = 0; p < width && gx_ok(c->run); p++) {
        c->rest[j + p] = of[p].mean;
        double squares = of[p].squares < 0 ? 0 : of[p].squares; // NaN stays
        c->scale[j + p] = sqrt(squares / c->divisor);
    }
}

/*
** Means and deviations in one pass, a column of tiles at a time.  Pieces depend on the tiles alone:
** the same bits for every budget.
*/
static void find_moments(columns *c)
{
    const gx_mat *A = c->A;
    int64_t width = gx_max(1, gx_min(A->cols, A->tile_cols));
    int64_t tile = gx_max(1, gx_min(A->rows, A->tile_rows));
    int64_t tiles = PANEL_BYTES / (tile * width * (int64_t)gx_number_bytes(c->dtype));
    int64_t height = gx_min(A->rows, tile * gx_max(1, tiles));
    void *piece = gx_dense_take(c->run, c->dtype, height, width, "a piece of the matrix");
    c->strip = gx_dense_take(c->run, GX_C128, 2, width, "moments of columns");
    gx_run_progress(c->run, (double)A->rows * (double)A->cols);
    for (int64_t j = 0; j < A->cols && gx_ok(c->run); j += width) {
        look_at_columns(c, j, gx_min(width, A->cols - j), height, piece);
    }
    gx_mem_free(c->run->ctx->mem, piece);
    gx_mem_free(c->run->ctx->mem, c->strip);
}

// Components --------------------------------------------------------------------------------------

void gx_pca_clear(gx_pca_result *r)
{
    gx_mem_free(r->mem, r->mean);
    gx_mem_free(r->mem, r->scale);
    gx_mem_free(r->mem, r->variance);
    gx_mem_free(r->mem, r->vectors);
    r->mean = NULL;
    r->scale = r->variance = NULL;
    r->vectors = NULL;
}

/* Variances and components from X S V^H. */
static void take_svd(const columns *c, const gx_svd_result *svd, gx_pca_result *r)
{
    for (int64_t i = 0; i < r->count; i++) {
        r->variance[i] = svd->sigma[i] * svd->sigma[i] / c->divisor;
    }
    gx_vectors_turned(c->run, r->dtype, r->count, r->n, svd->vt, svd->vt_rows, r->vectors);
    gx_eig_fix_sign(c->run, r->dtype, r->vectors, r->n, r->count);
}

gx_svd_args gx_pca_svd_args(const gx_pca_args *asked, const gx_mat *X, int64_t count)
{
    const double TOL = 1e-13; // components differ from the exact ones by this / the gap
    gx_svd_args args = asked->how;
    args.A = X;
    args.mode = GX_SVD_ECONOMY;
    args.k = count < gx_min(X->rows, X->cols) || args.method > GX_SVD_DENSE ? count : 0;
    args.tol = args.tol > 0 ? args.tol : TOL;
    return args;
}

static void decompose(const columns *c, const gx_pca_args *asked, const gx_mat *X, gx_pca_result *r)
{
    gx_svd_result svd;
    gx_svd_args args = gx_pca_svd_args(asked, X, r->count);
    if (gx_alg_svd(c->run, &args, &svd) == GX_OK) {
        take_svd(c, &svd, r);
    }
    gx_svd_clear(&svd);
}

static void pca_in_one_pass(columns *c, const gx_pca_args *args, const gx_tsqr_plan *plan,
                            gx_pca_result *r)
{
    void *t = NULL;
    int64_t n = r->n;
    r->driver = "tsqr";
    if (factor(c, plan, &t) == GX_OK) {
        if (!isfinite(gx_small_norm(c->dtype, t, n, n, n))) {
            gx_run_failf(c->run, GX_NUMERIC, "%s has NaN or Inf", c->A->label);
        } else {
            if (args->is_standardized) {
                standardize(c, t);
            }
            double norm = gx_small_norm(c->dtype, t, n, n, n);
            r->total = norm * norm / c->divisor;
            gx_mat T;
            gx_mat_value(&T, c->A->label, c->dtype, n, n, t, n);
            decompose(c, args, &T, r);
        }
    }
    gx_mem_free(c->run->ctx->mem, t);
}

/* By the eigenvalues of the scatter.  false: not that way, or it is not good enough. */
static bool pca_by_scatter(columns *c, const gx_pca_args *args, gx_pca_result *r)
{
    gx_run *run = c->run;
    int64_t n = r->n, k = r->count, info = 0;
    void *gram = 2 * k <= n ? find_scatter(c) : NULL;
    if (gram == NULL) {
        return !gx_ok(run);
    }
    if (args->is_standardized) {
        standardize_scatter(c, gram);
    }
    double total = 0;
    for (int64_t j = 0; j < n; j++) {
        total += gx_number_get(c->dtype, gram, j * n + j).re;
    }
    double *values = gx_dense_take(run, GX_F64, n, 1, "variances");
    gx_args call = {.uplo = GX_LOWER, .m = n, .n = n, .c = gram, .ldc = n, .info = &info};
    call.values = values;
    call.wants_right = true;
    if (gx_ok(run)) {
        gx_dense_spectrum(run, GX_SYEV, c->dtype, &call);
    }
    bool is_good =
        gx_ok(run) && info == 0 && values[n - k] >= WEAKEST * values[n - 1] && values[n - k] > 0;
    for (int64_t i = 0; i < k && is_good; i++) { // ascending
        r->variance[i] = values[n - 1 - i] / c->divisor;
        memcpy(gx_at(r->vectors, r->dtype, n, 0, i), gx_at(gram, c->dtype, n, 0, n - 1 - i),
               (size_t)n * gx_number_bytes(c->dtype));
    }
    if (is_good) {
        r->driver = "gram";
        r->total = total / c->divisor;
        gx_eig_fix_sign(run, r->dtype, r->vectors, n, k);
    }
    for (int64_t j = 0; j < n && !is_good && gx_ok(run); j++) {
        c->scale[j] = 1;
    }
    gx_mem_free(run->ctx->mem, values);
    gx_mem_free(run->ctx->mem, gram);
    return is_good || !gx_ok(run);
}

static void pca_by_svd(columns *c, const gx_pca_args *args, gx_pca_result *r)
{
    r->driver = "svd";
    gx_mat X;
    gx_mat_centred(&X, c->A, c->dtype, c->shift, r->scale, false);
    X.rest = c->rest;
    gx_svd_args svd = gx_pca_svd_args(args, &X, r->count);
    gx_spectrum_plan plan;
    if (gx_plan_svd(c->run, &svd, &plan) != GX_OK) { // before a pass that would be for nothing
        return;
    }
    find_moments(c);
    for (int64_t j = 0; j < r->n && gx_ok(c->run); j++) {
        double deviation = c->scale[j];
        if (!isfinite(deviation)) {
            gx_run_failf(c->run, GX_NUMERIC, "%s has NaN or Inf", c->A->label);
            return;
        }
        bool is_scaled = args->is_standardized && deviation != 0;
        r->total += is_scaled ? 1 : deviation * deviation;
        c->scale[j] = is_scaled ? deviation : 1;
        r->scale[j] = 1 / c->scale[j]; // factors, for now
    }
    if (gx_ok(c->run)) {
        decompose(c, args, &X, r);
    }
}

size_t gx_pca_held_bytes(const gx_mat *A, int64_t count)
{
    double n = (double)A->cols, es = (double)gx_number_bytes(gx_number_wide(A->number));
    double bytes = n * (4 * sizeof(gx_scalar) + 2 * sizeof(double)) +
                   (double)count * (n * es + sizeof(double)) + 4096;
    return bytes < 1e18 ? (size_t)bytes : SIZE_MAX / 4;
}

static gx_code reserve(gx_run *run, gx_pca_result *r)
{
    r->mean = gx_dense_take(run, GX_C128, r->n, 1, "means of columns");
    r->scale = gx_dense_take(run, GX_F64, r->n, 1, "deviations of columns");
    r->variance = gx_dense_take(run, GX_F64, r->count, 1, "variances");
    r->vectors = gx_dense_take(run, r->dtype, r->n, r->count, "components");
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_alg_pca(gx_run *run, const gx_pca_args *args, gx_pca_result *result)
{
    const gx_mat *A = args->A;
    int64_t most = gx_min(A->rows, A->cols);
    *result =
        (gx_pca_result){.mem = run->ctx->mem, .n = A->cols, .dtype = gx_number_wide(A->number)};
    if (gx_ok(run) && (args->k < 0 || args->k > most)) {
        gx_run_failf(run, GX_ARG, "k is %lld but %s is %lldx%lld: it has %lld components",
                     (long long)args->k, A->label, (long long)A->rows, (long long)A->cols,
                     (long long)most);
    }
    columns c = {.run = run};
    result->count = args->k > 0 ? args->k : most;
    if (gx_ok(run) && begin_columns(&c, run, A, args->ddof) == GX_OK &&
        reserve(run, result) == GX_OK) {
        gx_tsqr_plan plan;
        if (args->how.method <= GX_SVD_DENSE && gx_pca_is_one_pass(run, A, &plan)) {
            if (!pca_by_scatter(&c, args, result)) {
                pca_in_one_pass(&c, args, &plan, result);
            }
        } else if (result->count > 0) {
            pca_by_svd(&c, args, result);
        }
    }
    if (gx_ok(run)) {
        for (int64_t j = 0; j < result->n; j++) {
            gx_scalar shift = c.shift[j], rest = c.rest[j];
            result->mean[j] = (gx_scalar){shift.re + rest.re, shift.im + rest.im};
        }
        memcpy(result->scale, c.scale, (size_t)result->n * sizeof *c.scale);
    } else {
        gx_pca_clear(result);
    }
    end_columns(&c);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Covariance --------------------------------------------------------------------------------------

/* x, of modulus above 1 by rounding, has at most that of 1. */
static gx_scalar shorten(gx_number dtype, gx_scalar x)
{
    double size = hypot(x.re, x.im), shorter = 1 - gx_number_eps(dtype);
    while (size > 1) {
        double re = x.re / size * shorter, im = x.im / size * shorter;
        x.re = gx_number_is_double(dtype) ? re : (double)(float)re;
        x.im = gx_number_is_double(dtype) ? im : (double)(float)im;
        size = hypot(x.re, x.im);
    }
    return x;
}

/* Correlations: 1 on the diagonal, no modulus above 1.  m x n from (i0, j0); NaN stays. */
static void clip(gx_number dtype, void *x, int64_t ld, int64_t i0, int64_t j0, int64_t m, int64_t n)
{
    const double NEAR = 0.99;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            gx_scalar r = gx_number_get(dtype, x, j * ld + i);
            if (!(r.re * r.re + r.im * r.im > NEAR)) {
                continue;
            }
            bool is_real = !gx_number_is_complex(dtype);
            r = i0 + i == j0 + j ? (gx_scalar){1, 0}
                : is_real        ? (gx_scalar){fmax(-1, fmin(1, r.re)), 0}
                                 : shorten(dtype, r);
            gx_number_put(dtype, x, j * ld + i, r);
        }
    }
}

/* C = S, clipped, tile by tile. */
static gx_code write_clipped(gx_run *run, const gx_sink *S, gx_sink *C)
{
    gx_mat source, part;
    int64_t n = C->rows, height = gx_min(n, C->tile_rows), width = gx_min(n, C->tile_cols);
    gx_sink_source(S, "correlations", &source);
    void *tile = gx_dense_take(run, C->number, height, width, "a tile");
    for (int64_t j = 0; j < n; j += width) {
        for (int64_t i = 0; i < n && gx_ok(run); i += height) {
            gx_err err = {0};
            int64_t rows = gx_min(height, n - i), cols = gx_min(width, n - j);
            gx_mat_view(&part, &source, GX_NO_TRANS, i, j, rows, cols);
            if (gx_dense_load(run, &part, C->number, tile, rows) == GX_OK) {
                clip(C->number, tile, rows, i, j, rows, cols);
                gx_sink_write(C, i, j, rows, cols, tile, rows, &err);
            }
            gx_run_fail(run, &err);
        }
    }
    gx_mem_free(run->ctx->mem, tile);
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* C = conj(gram) factor; the diagonal of correlations is 1. */
static void write_gram(columns *c, void *gram, double factor, bool is_correlation, gx_sink *C)
{
    gx_run *run = c->run;
    int64_t n = c->A->cols;
    void *narrow = gx_dense_take(run, C->number, n, n, "the covariance");
    gx_dense_conj(run, c->dtype, n, n, gram); // the mean of x_i conj(x_j), not conj(x_i) x_j
    if (gx_ok(run)) {
        gx_vector_scale(c->dtype, gram, n * n, 1, (gx_scalar){factor, 0});
        gx_convert(c->dtype, gram, n, C->number, narrow, n, n, n);
        if (is_correlation) {
            clip(C->number, narrow, n, 0, 0, n, n);
        }
        gx_dense_write(run, C, narrow, n);
    }
    gx_mem_free(run->ctx->mem, narrow);
}

/* C = conj(T^H T) / divisor, T upper triangular in memory. */
static void gram_of_triangle(columns *c, void *t, bool is_correlation, gx_sink *C)
{
    int64_t n = c->A->cols;
    gx_run *run = c->run;
    bool is_complex = gx_number_is_complex(c->dtype);
    if (is_correlation) {
        standardize(c, t);
        for (int64_t j = 0; j < n; j++) {
            double norm = gx_small_norm(c->dtype, gx_at(t, c->dtype, n, 0, j), n, j + 1, 1);
            if (norm == 0) { // does not vary: correlations are 0/0
                gx_vector_scale(c->dtype, gx_at(t, c->dtype, n, 0, j), 1, 1,
                                (gx_scalar){(double)NAN, (double)NAN});
            }
        }
    }
    void *gram = gx_dense_take(run, c->dtype, n, n, "the covariance");
    gx_args args = {.uplo = GX_LOWER, .transa = gx_adjoint(c->dtype), .m = n, .n = n, .k = n};
    args.alpha.re = 1 / c->divisor;
    args.a = t;
    args.c = gram;
    args.lda = args.ldc = n;
    gx_dense_call(run, is_complex ? GX_HERK : GX_SYRK, c->dtype, &args);
    gx_dense_mirror(run, c->dtype, gram, n, n);
    write_gram(c, gram, 1, is_correlation, C);
    gx_mem_free(run->ctx->mem, gram);
}

/* The same of the scatter, in which all columns vary. */
static void cov_of_scatter(columns *c, void *gram, bool is_correlation, gx_sink *C)
{
    if (is_correlation) {
        standardize_scatter(c, gram);
    }
    write_gram(c, gram, 1 / c->divisor, is_correlation, C);
}

/* C = X^H X / divisor, X = conj of the centred (standardised) columns, of A's own dtype. */
static void gram_of_columns(columns *c, bool is_correlation, gx_sink *C)
{
    gx_run *run = c->run;
    int64_t n = c->A->cols;
    if (is_correlation) {
        find_moments(c);
    } else {
        find_means(c);
    }
    for (int64_t j = 0; j < n && gx_ok(run) && is_correlation; j++) {
        c->scale[j] = 1 / c->scale[j]; // Inf, then NaN, where a column does not vary
    }
    gx_mat X;
    gx_mat_centred(&X, c->A, C->number, c->shift, is_correlation ? c->scale : NULL, false);
    X.rest = c->rest;
    X.is_conjugated = gx_number_is_complex(C->number);
    gx_matmul_args args = {.A = &X, .B = &X, .alpha = {1 / c->divisor, 0}};
    args.transa = X.is_conjugated ? GX_CONJ_TRANS : GX_TRANS;
    if (!is_correlation || !C->is_stored) {
        gx_alg_matmul(run, &args, C);
        if (is_correlation && gx_ok(run)) {
            clip(C->number, C->value.data, n, 0, 0, n, n);
        }
        return;
    }
    gx_sink S;
    if (gx_qr_begin_scratch(run, n, n, C->number, C->tile_rows, C->tile_cols, 0, &S) == GX_OK &&
        gx_alg_matmul(run, &args, &S) == GX_OK) {
        write_clipped(run, &S, C);
    }
    gx_sink_drop(&S);
}

gx_code gx_alg_cov(gx_run *run, const gx_cov_args *args, gx_sink *C)
{
    columns c = {.run = run};
    const gx_mat *A = args->A;
    if (!gx_ok(run) || begin_columns(&c, run, A, args->ddof) != GX_OK) {
        end_columns(&c);
        return run->err.code;
    }
    gx_tsqr_plan plan;
    if (A->cols <= GX_PCA_NARROW && gx_pca_is_one_pass(run, A, &plan)) {
        void *t = NULL, *gram = find_scatter(&c);
        if (gram != NULL) {
            cov_of_scatter(&c, gram, args->is_correlation, C);
        } else if (factor(&c, &plan, &t) == GX_OK) {
            gram_of_triangle(&c, t, args->is_correlation, C);
        }
        gx_mem_free(run->ctx->mem, gram);
        gx_mem_free(run->ctx->mem, t);
    } else if (A->cols > 0) {
        gram_of_columns(&c, args->is_correlation, C);
    }
    end_columns(&c);
    return gx_ok(run) ? GX_OK : run->err.code;
}
