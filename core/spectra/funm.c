/*
** Functions of a square matrix: which way they are computed.  See funm.h.
**
**   whole powers            by squaring, of any matrix (funm_expm.c)
**   of a Hermitian matrix   A = V diag(values) V^H, f(A) = V diag(f(values)) V^H
**   exponential             scaling and squaring (funm_expm.c)
**   root, log, sign, powers A = Q T Q^H (GEES), f(A) = Q f(T) Q^H (funm_schur.c); a power p is that
**                           of T, whole part and fraction
**
** Everything is in double precision, complex in the last line: f32 and c64 are converted when they
** are loaded and rounded once at the end.  A real matrix has a real f(A) where none of its
** eigenvalues is negative (within rounding of the norm); else the result is complex.
**
** f(values) of a Hermitian matrix: an eigenvalue that is negative but within rounding of zero
** counts as zero, so that the root of a positive semidefinite matrix is real.
*/
#include "funm.h"

#include "../alg/dense.h"
#include "../alg/dense_device.h"
#include "funm_matrix.h"

#include <complex.h>
#include <math.h>
#include <string.h>

typedef struct evaluation {
    gx_funm_work w;
    const gx_funm_args *args;
    gx_funm_result *result;
    void *a; /* A, then f(A), of w.dtype */
    bool is_hermitian;
} evaluation;

// Matrices ----------------------------------------------------------------------------------------

/* x of dtype becomes complex: another matrix; x is freed.  NULL: the run has failed. */
static void *complex_of(const gx_funm_work *w, void *x, gx_number dtype)
{
    if (gx_number_is_complex(dtype)) {
        return x;
    }
    gx_funm_work wide = *w;
    wide.dtype = GX_C128;
    void *z = gx_funm_matrix(&wide);
    if (z != NULL) {
        gx_convert(GX_F64, x, gx_max(1, w->n), GX_C128, z, gx_max(1, w->n), w->n, w->n);
    }
    gx_funm_free(w, x);
    return z;
}

static void singular(const evaluation *e)
{
    gx_run_failf(e->w.run, GX_NUMERIC, "%s is singular: it has no %s", e->w.label,
                 e->args->function == GX_FUNM_LOG ? "logarithm"
                 : e->args->power < 0             ? "negative power"
                                                  : "such power");
}

static double complex no_sign(const evaluation *e)
{
    gx_run_failf(e->w.run, GX_NUMERIC,
                 "%s has an eigenvalue on the imaginary axis, within rounding: it has no sign",
                 e->w.label);
    return 0;
}

// Hermitian ---------------------------------------------------------------------------------------

/* f of one eigenvalue; *is_real is cleared where it is not.  size: the largest magnitude. */
static double complex scalar_function(const evaluation *e, double x, double size, bool *is_real)
{
    double tiny = (double)e->w.n * gx_number_eps(GX_F64) * size;
    bool is_none = x <= 0 && -x <= tiny;
    switch (e->args->function) {
    case GX_FUNM_EXP:
        return exp(x);
    case GX_FUNM_LOG:
        if (is_none) {
            singular(e);
        }
        *is_real = *is_real && x > 0;
        return x > 0 ? log(x) : clog(x);
    case GX_FUNM_SQRT:
        x = is_none ? 0 : x;
        *is_real = *is_real && x >= 0;
        return x >= 0 ? sqrt(x) : csqrt(x);
    case GX_FUNM_SIGN:
        return fabs(x) <= tiny ? no_sign(e) : x > 0 ? 1 : -1;
    default:
        if (is_none && e->args->power < 0) {
            singular(e);
        }
        x = is_none ? 0 : x;
        *is_real = *is_real && x >= 0;
        return x >= 0 ? pow(x, e->args->power) : cpow(x, e->args->power);
    }
}

/* values = f(values), as complex numbers into f; is everything real? */
static bool map_values(const evaluation *e, const double *values, double complex *f)
{
    bool is_real = true;
    double size = 0;
    for (int64_t i = 0; i < e->w.n; i++) {
        size = fmax(size, fabs(values[i]));
    }
    for (int64_t i = 0; i < e->w.n && gx_ok(e->w.run); i++) {
        f[i] = scalar_function(e, values[i], size, &is_real);
    }
    return is_real;
}

/* out = V diag(f), both of w's dtype. */
static void scale_columns(const gx_funm_work *w, const void *v, const double complex *f, void *out)
{
    for (int64_t j = 0; j < w->n && gx_ok(w->run); j++) {
        const double *from = gx_at(v, w->dtype, w->n, 0, j);
        double *to = gx_at(out, w->dtype, w->n, 0, j);
        double re = creal(f[j]), im = cimag(f[j]);
        for (int64_t i = 0; i < w->n; i++) {
            if (w->dtype == GX_F64) {
                to[i] = from[i] * re;
            } else {
                to[2 * i] = from[2 * i] * re - from[2 * i + 1] * im;
                to[2 * i + 1] = from[2 * i] * im + from[2 * i + 1] * re;
            }
        }
    }
}

/* x = x^T from its lower triangle. */
static void make_symmetric(const gx_funm_work *w, void *x)
{
    gx_args args = gx_funm_square_args(w);
    args.transa = GX_TRANS;
    args.uplo = GX_LOWER;
    args.c = x;
    gx_dense_call(w->run, GX_SYMMETRIZE, w->dtype, &args);
}

static void make_hermitian(const gx_funm_work *w, void *x)
{
    gx_dense_mirror(w->run, w->dtype, x, gx_max(1, w->n), w->n);
}

/* a = V diag(f) V^H. */
static void put_together(evaluation *e, const double complex *f, bool is_real)
{
    gx_number dtype = e->w.dtype;
    bool is_widened = !is_real && !gx_number_is_complex(dtype);
    if (is_widened) { // V is real: the result is symmetric, not Hermitian
        e->a = complex_of(&e->w, e->a, dtype);
        e->w.dtype = GX_C128;
    }
    void *scaled = gx_funm_matrix(&e->w), *product = gx_funm_matrix(&e->w);
    if (gx_ok(e->w.run)) {
        scale_columns(&e->w, e->a, f, scaled);
        gx_funm_multiply(&e->w, 1, GX_NO_TRANS, scaled, GX_CONJ_TRANS, e->a, 0, product);
        gx_funm_copy(&e->w, product, e->a);
    }
    if (is_widened) {
        make_symmetric(&e->w, e->a);
        e->result->properties = GX_PROP_SYMMETRIC;
    } else if (is_real) {
        make_hermitian(&e->w, e->a);
        e->result->properties = GX_PROP_HERMITIAN;
    }
    gx_funm_free(&e->w, scaled);
    gx_funm_free(&e->w, product);
}

static void by_eigenvalues(evaluation *e)
{
    gx_run *run = e->w.run;
    void *values = gx_dense_take(run, GX_F64, e->w.n, 1, "eigenvalues");
    void *f = gx_dense_take(run, GX_C128, e->w.n, 1, "eigenvalues");
    gx_args args = gx_funm_square_args(&e->w);
    args.uplo = GX_LOWER;
    args.wants_right = true;
    args.c = e->a;
    args.values = values;
    gx_dense_spectrum(run, GX_SYEV, e->w.dtype, &args);
    if (gx_ok(run)) {
        bool is_real = map_values(e, values, f);
        put_together(e, f, is_real);
    }
    gx_mem_free(run->ctx->mem, values);
    gx_mem_free(run->ctx->mem, f);
}

// By the Schur form -------------------------------------------------------------------------------

/* Is f a square root and products?  A singular matrix may have it. */
static bool is_by_root(const gx_funm_args *args)
{
    return args->function == GX_FUNM_SQRT || (args->function == GX_FUNM_POWER && args->power > 0 &&
                                              args->power - trunc(args->power) == 0.5);
}

/* Less than this an eigenvalue is not known to be off an axis. */
static double rounding_of(const gx_scalar *t, const gx_funm_work *wide)
{
    return (double)wide->n * gx_number_eps(wide->dtype) * gx_funm_norm1(wide, t);
}

/* Of a real A, is this eigenvalue a negative number, whatever rounding says? */
static bool is_negative(const evaluation *e, gx_scalar x, double tiny)
{
    return e->w.dtype == GX_F64 && x.re < -tiny && fabs(x.im) <= 10 * tiny;
}

/*
** T as f wants it: no eigenvalue that is exactly zero where there may be none; negative ones on the
** axis, and none with -0: the principal logarithm of -1 is +pi i.
*/
static bool check_triangle(const evaluation *e, gx_scalar *t, const gx_funm_work *wide)
{
    bool may_be_singular = is_by_root(e->args);
    double tiny = rounding_of(t, wide);
    for (int64_t i = 0; i < e->w.n; i++) {
        gx_scalar *x = &t[i * e->w.n + i];
        x->im = x->im == 0 || is_negative(e, *x, tiny) ? 0 : x->im;
        if (e->args->function == GX_FUNM_SIGN && fabs(x->re) <= tiny) {
            no_sign(e);
            return false;
        }
        if (x->re == 0 && x->im == 0 && !may_be_singular) {
            singular(e);
            return false;
        }
    }
    return true;
}

/* Is f(A) of a real A real: no eigenvalue on the negative axis?  A sign always is. */
static bool is_real_function(const evaluation *e, const gx_scalar *t, const gx_funm_work *wide)
{
    double tiny = rounding_of(t, wide);
    for (int64_t i = 0; i < e->w.n && e->args->function != GX_FUNM_SIGN; i++) {
        if (is_negative(e, t[i * e->w.n + i], tiny)) {
            return false;
        }
    }
    return true;
}

static void function_of_triangle(const evaluation *e, const gx_funm_work *wide, gx_scalar *t)
{
    double whole = trunc(e->args->power), fraction = e->args->power - whole;
    if (e->args->function == GX_FUNM_SQRT) {
        gx_funm_root_of_triangle(wide, t);
    } else if (e->args->function == GX_FUNM_LOG) {
        gx_funm_log_of_triangle(wide, t);
    } else if (e->args->function == GX_FUNM_SIGN) {
        gx_funm_sign_of_triangle(wide, t);
    } else {
        void *power = gx_funm_matrix(wide), *product = gx_funm_matrix(wide);
        if (gx_ok(wide->run)) {
            gx_funm_copy(wide, t, power);
            gx_funm_whole_power(wide, power, (int64_t)whole);
            if (is_by_root(e->args)) {
                gx_funm_root_of_triangle(wide, t);
            } else {
                gx_funm_power_of_triangle(wide, t, fraction);
            }
            gx_funm_multiply(wide, 1, GX_NO_TRANS, power, GX_NO_TRANS, t, 0, product);
            gx_funm_copy(wide, product, t);
        }
        gx_funm_free(wide, power);
        gx_funm_free(wide, product);
    }
}

/* The real parts, as a matrix of its own; z is freed. */
static void *real_part(const gx_funm_work *w, void *z)
{
    void *x = gx_funm_matrix(w);
    if (x != NULL) {
        gx_convert(GX_C128, z, w->n, GX_F64, x, w->n, w->n, w->n);
    }
    gx_funm_free(w, z);
    return x;
}

static void by_schur(evaluation *e)
{
    gx_run *run = e->w.run;
    gx_funm_work wide = e->w;
    wide.dtype = GX_C128;
    e->a = complex_of(&e->w, e->a, e->w.dtype);
    void *q = gx_funm_matrix(&wide);
    void *values = gx_dense_take(run, GX_C128, e->w.n, 1, "eigenvalues");
    gx_args args = gx_funm_square_args(&wide);
    args.c = e->a;
    args.right = q;
    args.values = values;
    args.wants_right = true;
    gx_dense_call(run, GX_GEES, GX_C128, &args);
    gx_mem_free(run->ctx->mem, values);
    bool is_real = false;
    if (gx_ok(run) && check_triangle(e, e->a, &wide)) {
        is_real = e->w.dtype == GX_F64 && is_real_function(e, e->a, &wide);
        function_of_triangle(e, &wide, e->a);
        void *product = gx_funm_matrix(&wide);
        gx_funm_multiply(&wide, 1, GX_NO_TRANS, q, GX_NO_TRANS, e->a, 0, product);
        gx_funm_multiply(&wide, 1, GX_NO_TRANS, product, GX_CONJ_TRANS, q, 0, e->a);
        gx_funm_free(&wide, product);
    }
    gx_funm_free(&wide, q);
    if (is_real && gx_ok(run)) {
        e->a = real_part(&e->w, e->a);
    } else {
        e->w.dtype = GX_C128;
    }
}

// The driver --------------------------------------------------------------------------------------

static bool is_whole_power(const gx_funm_args *args)
{
    return args->function == GX_FUNM_POWER && args->power == trunc(args->power);
}

/* Matrices of n^2 complex doubles (real for the exponential of a real A) that are there at once. */
static gx_code refuse_what_is_too_large(const evaluation *e)
{
    bool is_multiplied = e->args->function == GX_FUNM_EXP || is_whole_power(e->args);
    double n = (double)e->w.n;
    double es = is_multiplied && !e->is_hermitian ? (double)gx_number_bytes(e->w.dtype) : 16;
    double bytes = 8 * n * n * es + 1e5;
    return gx_dense_fits(e->w.run, bytes < 1e18 ? (size_t)bytes : SIZE_MAX, "functions", e->args->A,
                         "raise it with gx_config('memory_limit', ...)");
}

static void load(evaluation *e)
{
    const gx_mat *A = e->args->A;
    int64_t n = e->w.n, ld = gx_max(1, n);
    e->a = gx_funm_matrix(&e->w);
    gx_dense_load(e->w.run, A, e->w.dtype, e->a, ld);
    e->is_hermitian = (A->properties & GX_PROP_HERMITIAN) != 0;
    if (e->is_hermitian) {
        make_hermitian(&e->w, e->a);
    }
    if (gx_dense_finite(e->w.run, A->label, e->w.dtype, e->a, ld, n, n) == GX_OK) {
        e->is_hermitian =
            e->is_hermitian || gx_dense_is_hermitian(e->w.run, e->w.dtype, e->a, ld, n);
    }
}

/* f(A) in A's precision. */
static void give(evaluation *e)
{
    gx_run *run = e->w.run;
    gx_number of_a = e->args->A->number, dtype = e->w.dtype;
    bool is_complex = gx_number_is_complex(dtype);
    gx_number to = gx_number_is_double(of_a) ? dtype : is_complex ? GX_C64 : GX_F32;
    if (to != dtype) {
        void *out;
        if (gx_dense_alloc(run, to, e->w.n, e->w.n, "the result", &out) != GX_OK) {
            return;
        }
        gx_convert(dtype, e->a, gx_max(1, e->w.n), to, out, gx_max(1, e->w.n), e->w.n, e->w.n);
        gx_funm_free(&e->w, e->a);
        e->a = out;
    }
    e->result->data = e->a;
    e->a = NULL;
    e->result->dtype = to;
    if (!is_complex && (e->result->properties & GX_PROP_HERMITIAN) != 0) {
        e->result->properties |= GX_PROP_SYMMETRIC;
    }
}

gx_code gx_alg_funm(gx_run *run, const gx_funm_args *args, gx_funm_result *result)
{
    const gx_mat *A = args->A;
    *result = (gx_funm_result){.dtype = A->number};
    evaluation e = {.args = args, .result = result};
    e.w = (gx_funm_work){
        .run = run, .label = A->label, .n = A->rows, .dtype = gx_number_wide(A->number)};
    if (A->rows != A->cols) {
        return gx_run_failf(run, GX_ARG, "%s is %lldx%lld, but this is for square matrices",
                            A->label, (long long)A->rows, (long long)A->cols);
    }
    if (refuse_what_is_too_large(&e) == GX_OK) {
        load(&e);
    }
    if (gx_ok(run) && e.w.n > 0) {
        if (is_whole_power(args)) {
            if (!gx_funm_on_device(&e.w, args, e.a)) {
                gx_funm_whole_power(&e.w, e.a, (int64_t)args->power);
            }
            if (e.is_hermitian) {
                make_hermitian(&e.w, e.a);
                result->properties = GX_PROP_HERMITIAN;
            }
        } else if (e.is_hermitian) {
            by_eigenvalues(&e);
        } else if (args->function == GX_FUNM_EXP) {
            if (!gx_funm_on_device(&e.w, args, e.a)) {
                gx_funm_exponential(&e.w, e.a);
            }
        } else {
            by_schur(&e);
        }
    }
    if (gx_ok(run)) {
        give(&e);
    }
    gx_funm_free(&e.w, e.a);
    return gx_ok(run) ? GX_OK : run->err.code;
}
