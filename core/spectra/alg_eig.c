/*
** Eigenvalues: what is asked is checked, and a driver chosen.  See alg_eig.h.
**
** Beside the choice this file has what every driver shares: memory of a result, the order of
** values, and the sign of vectors, which are all that makes the same matrix give the same result.
**
** The order is total: by the key that `which` names, then descending magnitude, descending real
** part, descending imaginary part, and last the place where the driver found the value.  A heap
** sort, in place: 24 bytes a value.
*/
#include "alg_eig.h"
#include "../alg/property.h"
#include "krylov_eig.h"

#include <math.h>
#include <string.h>

/* ---- results -------------------------------------------------------------------------------- */

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

static void *reserve(gx_run *run, int64_t rows, int64_t cols, gx_dtype dtype, const char *what)
{
    gx_err err = {0};
    size_t bytes = 0;
    void *ptr = NULL;
    if (!gx_ok(run)) {
        return NULL;
    }
    if (!gx_matrix_bytes(rows, cols, dtype, &bytes)) {
        gx_run_failf(run, GX_TOOBIG, "%lld %s of %lld numbers are too large", (long long)cols, what,
                     (long long)rows);
        return NULL;
    }
    gx_mem_alloc(run->ctx->mem, bytes, what, &ptr, &err);
    gx_run_fail(run, &err);
    return ptr;
}

gx_code gx_eig_reserve(gx_run *run, gx_eig_result *result, int64_t n, int64_t count, gx_dtype dtype,
                       bool wants_right, bool wants_left, bool wants_residuals)
{
    result->mem = run->ctx->mem;
    result->n = n;
    result->count = result->asked = count;
    result->dtype = dtype;
    result->values = reserve(run, count, 1, GX_C128, "eigenvalues");
    if (wants_residuals) {
        result->residuals = reserve(run, count, 1, GX_F64, "residuals");
    }
    if (wants_right) {
        result->right = reserve(run, n, count, dtype, "eigenvectors");
    }
    if (wants_left) {
        result->left = reserve(run, n, count, dtype, "left eigenvectors");
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* ---- the order ------------------------------------------------------------------------------ */

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

/* ---- the sign ------------------------------------------------------------------------------- */

/* Components of almost the largest magnitude count as equal: rounding does not choose. */
static const double ALMOST = 1 - 0x1p-10;

static gx_scalar part_of(gx_dtype dtype, const void *x, int64_t i)
{
    bool is_pair = gx_dtype_is_complex(dtype);
    int64_t at = is_pair ? 2 * i : i;
    if (gx_dtype_is_double(dtype)) {
        const double *d = (const double *)x + at;
        return (gx_scalar){d[0], is_pair ? d[1] : 0};
    }
    const float *f = (const float *)x + at;
    return (gx_scalar){(double)f[0], is_pair ? (double)f[1] : 0};
}

static double magnitude(gx_scalar x)
{
    return x.im == 0 ? fabs(x.re) : hypot(x.re, x.im);
}

double gx_vector_largest(gx_dtype dtype, const void *x, int64_t n)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, magnitude(part_of(dtype, x, i)));
    }
    return largest;
}

bool gx_vector_phase_of(gx_dtype dtype, const void *x, int64_t n, double largest, gx_scalar *phase)
{
    *phase = (gx_scalar){1, 0};
    for (int64_t i = 0; i < n && largest > 0; i++) {
        gx_scalar e = part_of(dtype, x, i);
        double size = magnitude(e);
        if (size >= ALMOST * largest) {
            *phase = (gx_scalar){e.re / size, -e.im / size};
            return true;
        }
    }
    return false;
}

gx_scalar gx_vector_phase(gx_dtype dtype, const void *x, int64_t n)
{
    gx_scalar phase;
    gx_vector_phase_of(dtype, x, n, gx_vector_largest(dtype, x, n), &phase);
    return phase;
}

void gx_vector_scale(gx_dtype dtype, void *x, int64_t n, int64_t stride, gx_scalar s)
{
    if (s.re == 1 && s.im == 0) {
        return;
    }
    for (int64_t i = 0; dtype == GX_F64 && i < n; i++) {
        ((double *)x)[i * stride] *= s.re;
    }
    if (dtype == GX_F64) {
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        gx_scalar e = part_of(dtype, x, i * stride);
        double product[2] = {e.re * s.re - e.im * s.im, e.re * s.im + e.im * s.re};
        gx_convert(gx_dtype_is_complex(dtype) ? GX_C128 : GX_F64, product, 1, dtype,
                   gx_at(x, dtype, 1, i * stride, 0), 1, 1, 1);
    }
}

void gx_eig_fix_sign(gx_dtype dtype, void *vectors, int64_t n, int64_t count)
{
    for (int64_t j = 0; j < count && vectors != NULL; j++) {
        void *x = gx_at(vectors, dtype, n, 0, j);
        gx_vector_scale(dtype, x, n, 1, gx_vector_phase(dtype, x, n));
    }
}

/* ---- what is asked -------------------------------------------------------------------------- */

static gx_code check_b(gx_run *run, const gx_eig_args *args)
{
    const gx_mat *A = args->A, *B = args->B;
    if (B != NULL && (B->rows != A->rows || B->cols != A->cols)) {
        return gx_run_failf(run, GX_ARG, "%s is %lldx%lld but %s is %lldx%lld", A->label,
                            (long long)A->rows, (long long)A->cols, B->label, (long long)B->rows,
                            (long long)B->cols);
    }
    return GX_OK;
}

gx_code gx_eig_prepare(gx_run *run, gx_eig_args *args)
{
    const gx_mat *A = args->A;
    if (A->rows != A->cols) {
        return gx_run_failf(run, GX_ARG, "%s is %lldx%lld, but eigenvalues are of a square matrix",
                            A->label, (long long)A->rows, (long long)A->cols);
    }
    if (check_b(run, args) != GX_OK) {
        return run->err.code;
    }
    if (args->k < 0 || args->k > A->rows) {
        return gx_run_failf(run, GX_ARG, "k is %lld but %s is %lldx%lld: it has %lld eigenvalues",
                            (long long)args->k, A->label, (long long)A->rows, (long long)A->cols,
                            (long long)A->rows);
    }
    uint32_t wanted = GX_PROP_HERMITIAN;
    args->is_hermitian = !args->is_general && (args->is_hermitian || (A->properties & wanted) != 0);
    args->wants_right = args->wants_right || args->wants_left || args->wants_residuals;
    if (args->which == GX_EIG_DEFAULT) {
        args->which = GX_EIG_LARGEST_MAGNITUDE;
    }
    return GX_OK;
}

/*
** Krylov where it was asked for, where the dense driver does not fit, or where few of many are
** wanted: below FEW_SIDE rows, or for more than a twentieth, the dense one is not slower.
*/
bool gx_eig_wants_krylov(gx_run *run, const gx_eig_args *args)
{
    const int64_t FEW_SIDE = 1000, SHARE = 20;
    if (args->method != GX_METHOD_AUTO || args->k == 0) {
        return args->method == GX_METHOD_KRYLOV || args->method == GX_METHOD_CHEBYSHEV;
    }
    bool fits = gx_eig_dense_bytes(run, args) <= gx_mem_available(run->ctx->mem);
    bool is_b = args->B != NULL && !args->is_hermitian;
    bool is_few = args->A->rows >= FEW_SIDE && args->k * SHARE <= args->A->rows;
    return !is_b && (is_few || !fits);
}

static void find_few(gx_run *run, gx_eig_args *args, gx_eig_result *result)
{
    if (args->k == 0) {
        const char *method = args->method == GX_METHOD_CHEBYSHEV ? "chebyshev" : "krylov";
        gx_run_failf(run, GX_ARG, "method \"%s\" needs k, the number of eigenvalues", method);
    } else if (!args->is_hermitian && !args->is_general) { // nobody has said: look
        gx_alg_check_property(run, args->A, GX_PROP_HERMITIAN, 0, &args->is_hermitian);
    }
    if (gx_ok(run)) {
        gx_eig_krylov(run, args, result);
    }
}

gx_code gx_alg_eig(gx_run *run, const gx_eig_args *asked, gx_eig_result *result)
{
    gx_eig_args args = *asked;
    memset(result, 0, sizeof *result);
    result->mem = run->ctx->mem;
    if (gx_ok(run) && gx_eig_prepare(run, &args) == GX_OK) {
        if (gx_eig_wants_krylov(run, &args)) {
            find_few(run, &args, result);
        } else {
            gx_eig_dense(run, &args, result);
        }
    }
    if (!gx_ok(run)) {
        gx_eig_clear(result);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}
