/*
** Results of eigenvalues and singular values, whoever computes them: their memory, the order of
** values, and the sign of vectors, which are all that makes the same matrix give the same result.
**
** The order is total: by the key that `which` names, then descending magnitude, descending real
** part, descending imaginary part, and last the place where the driver found the value.  A heap
** sort, in place: 24 bytes a value.
*/
#include "../alg/dense.h"
#include "../run/call.h"
#include "spectrum_int.h"

#include <math.h>
#include <string.h>

// Eigenvalues -------------------------------------------------------------------------------------

void gx_eig_clear(gx_eig_result *result)
{
    gx_mem_free(result->mem, result->values);
    gx_mem_free(result->mem, result->residuals);
    gx_mem_free(result->mem, result->right);
    gx_mem_free(result->mem, result->left);
    result->values = NULL;
    result->residuals = NULL;
    result->right = result->left = NULL;
}

gx_code gx_eig_reserve(gx_run *run, gx_eig_result *result, int64_t n, int64_t count,
                       gx_number dtype, bool wants_right, bool wants_left, bool wants_residuals)
{
    result->mem = run->ctx->mem;
    result->n = n;
    result->count = count;
    result->dtype = dtype;
    result->values = gx_dense_take(run, GX_C128, count, 1, "eigenvalues");
    if (wants_residuals) {
        result->residuals = gx_dense_take(run, GX_F64, count, 1, "residuals");
    }
    if (wants_right) {
        result->right = gx_dense_take(run, dtype, n, count, "eigenvectors");
    }
    if (wants_left) {
        result->left = gx_dense_take(run, dtype, n, count, "left eigenvectors");
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Singular values ---------------------------------------------------------------------------------

void gx_svd_clear(gx_svd_result *result)
{
    gx_mem_free(result->mem, result->sigma);
    gx_mem_free(result->mem, result->residuals);
    gx_mem_free(result->mem, result->u);
    gx_mem_free(result->mem, result->vt);
    result->sigma = result->residuals = NULL;
    result->u = result->vt = NULL;
}

gx_code gx_svd_reserve(gx_run *run, gx_svd_result *result, int64_t m, int64_t n, int64_t count,
                       gx_number dtype, gx_svd_mode mode)
{
    result->mem = run->ctx->mem;
    result->m = m;
    result->n = n;
    result->count = count;
    result->dtype = dtype;
    result->u_cols = mode == GX_SVD_FULL ? m : count;
    result->vt_rows = mode == GX_SVD_FULL ? n : count;
    result->sigma = gx_dense_take(run, GX_F64, count, 1, "singular values");
    if (mode != GX_SVD_VALUES) {
        gx_dense_alloc(run, dtype, m, result->u_cols, "left singular vectors", &result->u);
        gx_dense_alloc(run, dtype, result->vt_rows, n, "right singular vectors", &result->vt);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

// The order ---------------------------------------------------------------------------------------

typedef struct ordering {
    const gx_scalar *values;
    gx_eig_which which;
    gx_scalar sigma;
} ordering;

double gx_eig_key(gx_eig_which which, gx_scalar sigma, gx_scalar x)
{
    switch (which) {
    case GX_EIG_SMALLEST_MAGNITUDE:
        return hypot(x.re, x.im);
    case GX_EIG_LARGEST_REAL:
        return -x.re;
    case GX_EIG_SMALLEST_REAL:
        return x.re;
    case GX_EIG_LARGEST_IMAG:
        return -fabs(x.im);
    case GX_EIG_SMALLEST_IMAG:
        return fabs(x.im);
    case GX_EIG_NEAREST:
        return hypot(x.re - sigma.re, x.im - sigma.im);
    default:
        return -hypot(x.re, x.im);
    }
}

/* Does value i stand before value j? */
static bool is_before(const ordering *o, int64_t i, int64_t j)
{
    gx_scalar x = o->values[i], y = o->values[j];
    double kx = gx_eig_key(o->which, o->sigma, x), ky = gx_eig_key(o->which, o->sigma, y);
    if (kx != ky) {
        return kx < ky;
    }
    double mx = hypot(x.re, x.im), my = hypot(y.re, y.im);
    if (mx != my) {
        return mx > my;
    }
    if (x.re != y.re) {
        return x.re > y.re;
    }
    return x.im != y.im ? x.im > y.im : i < j;
}

/* Let the element at `at` sink until both below it stand before it. */
static void sink(const ordering *o, int64_t *order, int64_t at, int64_t count)
{
    for (int64_t below = 2 * at + 1; below < count; below = 2 * at + 1) {
        if (below + 1 < count && is_before(o, order[below], order[below + 1])) {
            below++;
        }
        if (!is_before(o, order[at], order[below])) {
            return;
        }
        int64_t t = order[at];
        order[at] = order[below];
        order[below] = t;
        at = below;
    }
}

void gx_eig_sort_order(const gx_scalar *values, int64_t count, gx_eig_which which, gx_scalar sigma,
                       bool is_hermitian, bool is_all, int64_t *order)
{
    ordering o = {.values = values, .which = which, .sigma = sigma};
    if (is_all) {
        o.which = is_hermitian ? GX_EIG_SMALLEST_REAL : GX_EIG_LARGEST_MAGNITUDE;
    }
    for (int64_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (int64_t i = count / 2 - 1; i >= 0; i--) {
        sink(&o, order, i, count);
    }
    for (int64_t left = count - 1; left > 0; left--) {
        int64_t last = order[0];
        order[0] = order[left];
        order[left] = last;
        sink(&o, order, 0, left);
    }
}

// The sign ----------------------------------------------------------------------------------------

/* Components of almost the largest magnitude count as equal: rounding does not choose. */
static const double ALMOST = 1 - 0x1p-10;

static double magnitude(gx_scalar x)
{
    return x.im == 0 ? fabs(x.re) : hypot(x.re, x.im);
}

double gx_vector_largest(gx_number dtype, const void *x, int64_t n)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, magnitude(gx_number_get(dtype, x, i)));
    }
    return largest;
}

bool gx_vector_phase_of(gx_number dtype, const void *x, int64_t n, double largest, gx_scalar *phase)
{
    *phase = (gx_scalar){1, 0};
    for (int64_t i = 0; i < n && largest > 0; i++) {
        gx_scalar e = gx_number_get(dtype, x, i);
        double size = magnitude(e);
        if (size >= ALMOST * largest) {
            *phase = (gx_scalar){e.re / size, -e.im / size};
            return true;
        }
    }
    return false;
}

gx_scalar gx_vector_phase(gx_number dtype, const void *x, int64_t n)
{
    gx_scalar phase;
    gx_vector_phase_of(dtype, x, n, gx_vector_largest(dtype, x, n), &phase);
    return phase;
}

void gx_vector_scale(gx_number dtype, void *x, int64_t n, int64_t stride, gx_scalar s)
{
    if (s.re == 1 && s.im == 0) {
        return;
    }
    for (int64_t i = 0; dtype == GX_F64 && i < n; i++) {
        ((double *)x)[i * stride] *= s.re;
    }
    for (int64_t i = 0; dtype != GX_F64 && i < n; i++) {
        gx_scalar e = gx_number_get(dtype, x, i * stride);
        gx_number_put(dtype, x, i * stride,
                      (gx_scalar){e.re * s.re - e.im * s.im, e.re * s.im + e.im * s.re});
    }
}

void gx_vectors_turned(gx_run *run, gx_number dtype, int64_t m, int64_t n, const void *from,
                       int64_t ld, void *to)
{
    gx_args args = {.transa = gx_adjoint(dtype), .m = n, .n = m, .a = from, .lda = gx_max(1, ld)};
    args.c = to;
    args.ldc = gx_max(1, n);
    gx_dense_call(run, GX_TRANSPOSE, dtype, &args);
}

/* Columns that get their sign, some at a time; of V^H the elements of a column, each its row's. */
typedef struct signing {
    gx_number dtype;
    void *x;
    int64_t rows, cols, width; /* width: columns of a piece                         */
    gx_scalar *phase;          /* of columns: found; of V^H's rows: given; or NULL  */
} signing;

static gx_code sign_columns(void *arg, int64_t piece, int member, gx_err *err)
{
    const signing *s = arg;
    (void)member, (void)err;
    for (int64_t j = piece * s->width; j < gx_min(s->cols, (piece + 1) * s->width); j++) {
        void *x = gx_at(s->x, s->dtype, s->rows, 0, j);
        gx_scalar phase = gx_vector_phase(s->dtype, x, s->rows);
        gx_vector_scale(s->dtype, x, s->rows, 1, phase);
        if (s->phase != NULL) {
            s->phase[j] = phase;
        }
    }
    return GX_OK;
}

/* V^H is of columns in memory: row by row each element would be in another page. */
static gx_code sign_rows(void *arg, int64_t piece, int member, gx_err *err)
{
    const signing *s = arg;
    (void)member, (void)err;
    for (int64_t j = piece * s->width; j < gx_min(s->cols, (piece + 1) * s->width); j++) {
        double *x = gx_at(s->x, s->dtype, s->rows, 0, j);
        for (int64_t i = 0; i < s->rows && s->dtype == GX_F64; i++) {
            x[i] *= s->phase[i].re;
        }
        for (int64_t i = 0; i < s->rows && s->dtype != GX_F64; i++) {
            gx_scalar conjugated = {s->phase[i].re, -s->phase[i].im};
            gx_vector_scale(s->dtype, gx_at(x, s->dtype, s->rows, i, 0), 1, 1, conjugated);
        }
    }
    return GX_OK;
}

static void sign(gx_run *run, signing *s, gx_team_fn fn)
{
    enum { ELEMENTS = 32768 }; // of a piece
    s->width = gx_max(1, ELEMENTS / gx_max(1, s->rows));
    gx_span span = gx_stats_open(&run->ctx->stats);
    gx_run_pieces(run, (double)s->rows * (double)s->cols, gx_ceil_div(s->cols, s->width), fn, s);
    gx_stats_close(&run->ctx->stats, GX_STAT_COPY_NS, span);
}

void gx_eig_fix_sign(gx_run *run, gx_number dtype, void *vectors, int64_t n, int64_t count)
{
    signing s = {.dtype = dtype, .x = vectors, .rows = n, .cols = count};
    if (vectors != NULL) {
        sign(run, &s, sign_columns);
    }
}

void gx_svd_fix_sign(gx_run *run, gx_svd_result *r)
{
    int64_t most = gx_max(r->u_cols, r->vt_rows);
    gx_scalar *phase =
        r->u == NULL ? NULL : gx_dense_take(run, GX_C128, most, 1, "signs of vectors");
    if (phase == NULL) {
        return;
    }
    for (int64_t j = 0; j < most; j++) {
        phase[j] = (gx_scalar){1, 0}; // rows of V^H without a column of U
    }
    signing left = {
        .dtype = r->dtype, .x = r->u, .rows = r->m, .cols = r->u_cols, .phase = phase};
    sign(run, &left, sign_columns);
    for (int64_t j = r->count; j < most; j++) {
        phase[j] = (gx_scalar){1, 0}; // of the null space
    }
    signing right = {
        .dtype = r->dtype, .x = r->vt, .rows = r->vt_rows, .cols = r->n, .phase = phase};
    sign(run, &right, sign_rows);
    gx_mem_free(run->ctx->mem, phase);
}
