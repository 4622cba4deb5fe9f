/*
** The reference backend: elementwise functions, one expression each, and programs of them.
**
** A program is run again for every element that is looked at; a value is rounded to the program's
** dtype when it is made.  Sums run in long double.
*/
#include "pairs.h"
#include "ref.h"

// Functions ---------------------------------------------------------------------------------------

static double remainder_of(double a, double b)
{
    double r = fmod(a, b);
    return r == 0 ? copysign(0, b) : (r < 0) != (b < 0) ? r + b : r;
}

/* NaN where one of them is. */
static double larger_of(double a, double b)
{
    return isnan(a) || a > b ? a : b;
}

static double smaller_of(double a, double b)
{
    return isnan(a) || a < b ? a : b;
}

static double sigmoid_of(double a)
{
    double e = exp(-fabs(a));
    return isnan(a) ? a : a < 0 ? e / (1 + e) : 1 / (1 + e);
}

static double log_gamma_of(double a)
{
    int sign;
    return lgamma_r(a, &sign);
}

#define OF(KIND, expression)                                                                       \
    case GX_MAP_##KIND:                                                                            \
        return expression;

/* What is 1 or 0, of real numbers. */
static double test_of(gx_map_kind kind, double a, double b)
{
    switch (kind) {
        OF(ISNAN, isnan(a))
        OF(ISINF, isinf(a) != 0)
        OF(ISFINITE, isfinite(a))
        OF(EQUAL, a == b)
        OF(NOT_EQUAL, a != b)
        OF(LESS, a < b)
        OF(LESS_EQUAL, a <= b)
        OF(GREATER, a > b)
        OF(GREATER_EQUAL, a >= b)
        OF(LOGICAL_AND, a != 0 && b != 0)
        OF(LOGICAL_OR, a != 0 || b != 0)
        OF(LOGICAL_XOR, (a != 0) != (b != 0))
        OF(LOGICAL_NOT, a == 0)
    default:
        return NAN;
    }
}

/* f of real numbers. */
static double of_real(gx_map_kind kind, double alpha, double beta, double a, double b, double c)
{
    switch (kind) {
        OF(ADD, alpha * a + beta * b)
        OF(MUL, a * b)
        OF(DIV, a / b)
        OF(SCALE, alpha * a)
        OF(CONJ, a)
        OF(ABS, fabs(a))
        OF(REAL, a)
        OF(IMAG, 0)
        OF(ARG, atan2(0, a))
        OF(SQUARE, a * a)
        OF(RECIPROCAL, 1 / a)
        OF(SQRT, sqrt(a))
        OF(CBRT, cbrt(a))
        OF(POW, pow(a, b))
        OF(HYPOT, hypot(a, b))
        OF(MOD, remainder_of(a, b))
        OF(EXP, exp(a))
        OF(EXPM1, expm1(a))
        OF(LOG, log(a))
        OF(LOG1P, log1p(a))
        OF(LOG2, log2(a))
        OF(LOG10, log10(a))
        OF(SIN, sin(a))
        OF(COS, cos(a))
        OF(TAN, tan(a))
        OF(ASIN, asin(a))
        OF(ACOS, acos(a))
        OF(ATAN, atan(a))
        OF(ATAN2, atan2(a, b))
        OF(SINH, sinh(a))
        OF(COSH, cosh(a))
        OF(TANH, tanh(a))
        OF(ASINH, asinh(a))
        OF(ERF, erf(a))
        OF(ERFC, erfc(a))
        OF(GAMMA, tgamma(a))
        OF(LGAMMA, log_gamma_of(a))
        OF(FLOOR, floor(a))
        OF(CEIL, ceil(a))
        OF(ROUND, rint(a))
        OF(TRUNC, trunc(a))
        OF(SIGN, a > 0 ? 1 : a < 0 ? -1 : a == 0 ? 0 : a)
        OF(MAXIMUM, larger_of(a, b))
        OF(MINIMUM, smaller_of(a, b))
        OF(CLIP, smaller_of(larger_of(a, b), c))
        OF(WHERE, a != 0 ? b : c)
        OF(RELU, isnan(a) || a > 0 ? a : 0)
        OF(SIGMOID, sigmoid_of(a))
        OF(SOFTPLUS, (a > 0 ? a : 0) + log1p(exp(-fabs(a))))
        OF(GELU, a < -40 ? -0.0 : 0.5 * a * erfc(-a * sqrt(0.5)))
    default:
        return test_of(kind, a, b);
    }
}

/* The same of complex numbers, for the kinds that have a meaning there. */
static double complex of_pair(gx_map_kind kind, double complex a, double complex b,
                              double complex c)
{
    switch (kind) {
        OF(REAL, creal(a))
        OF(IMAG, cimag(a))
        OF(ARG, carg(a))
        OF(RECIPROCAL, 1 / a)
        OF(SQRT, csqrt(a))
        OF(POW, gx_cpow(a, b))
        OF(EXP, cexp(a))
        OF(EXPM1, gx_cexpm1(a))
        OF(LOG, clog(a))
        OF(LOG1P, gx_clog1p(a))
        OF(LOG2, clog(a) * (1 / log(2)))
        OF(LOG10, clog(a) * (1 / log(10)))
        OF(SIN, csin(a))
        OF(COS, ccos(a))
        OF(TAN, ctan(a))
        OF(ASIN, casin(a))
        OF(ACOS, cacos(a))
        OF(ATAN, catan(a))
        OF(SINH, csinh(a))
        OF(COSH, ccosh(a))
        OF(TANH, ctanh(a))
        OF(ASINH, casinh(a))
        OF(SIGN, gx_csign(a))
        OF(WHERE, a != 0 ? b : c)
        OF(ISNAN, isnan(creal(a)) || isnan(cimag(a)))
        OF(ISINF, isinf(creal(a)) || isinf(cimag(a)))
        OF(ISFINITE, isfinite(creal(a)) && isfinite(cimag(a)))
        OF(EQUAL, a == b)
        OF(NOT_EQUAL, a != b)
        OF(LOGICAL_AND, a != 0 && b != 0)
        OF(LOGICAL_OR, a != 0 || b != 0)
        OF(LOGICAL_XOR, (a != 0) != (b != 0))
        OF(LOGICAL_NOT, a == 0)
    default:
        return NAN;
    }
}

/* One element under a function; operands that it does not have are not looked at. */
GX_INLINE gx_scalar map_element(gx_number dtype, gx_map_kind kind, gx_scalar alpha, gx_scalar beta,
                                const gx_scalar x[3])
{
    if (!gx_number_is_complex(dtype)) {
        return (gx_scalar){of_real(kind, alpha.re, beta.re, x[0].re, x[1].re, x[2].re), 0};
    }
    switch (kind) { // what C's multiplication would do otherwise
        OF(ADD, add(scale(alpha, x[0]), scale(beta, x[1])))
        OF(MUL, multiply(x[0], x[1]))
        OF(DIV, divide(dtype, x[0], x[1]))
        OF(SCALE, scale(alpha, x[0]))
        OF(CONJ, conjugate(x[0]))
        OF(ABS, ((gx_scalar){magnitude(dtype, x[0]), 0}))
        OF(SQUARE, multiply(x[0], x[0]))
    default:
        return scalar_from(of_pair(kind, complex_of(x[0]), complex_of(x[1]), complex_of(x[2])));
    }
}

GX_INLINE gx_code map(gx_number dtype, const gx_args *p, gx_err *err)
{
    int operands = gx_map_row(p->map)->operands;
    const void *from[3] = {p->a, p->b, p->b2};
    int64_t ld[3] = {p->lda, p->ldb, p->ldb2};
    gx_number result;
    GX_TRY(gx_map_dtype(p->map, dtype, &result, err));
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            gx_scalar x[3] = {{0, 0}, {0, 0}, {0, 0}};
            for (int k = 0; k < operands; k++) {
                x[k] = load(dtype, from[k], ld[k], i, j);
            }
            store(dtype, p->c, p->ldc, i, j, map_element(dtype, p->map, p->alpha, p->beta, x));
        }
    }
    return GX_OK;
}
GX_SLOTS_DEFINE(, gx_ref_map, map)

// Programs ----------------------------------------------------------------------------------------

/* As the dtype holds it.  Through memory: vectorising, gcc 12 loses (double)(float) of pairs. */
GX_INLINE gx_scalar rounded(gx_number dtype, gx_scalar x)
{
    double im = gx_number_is_complex(dtype) ? x.im : 0;
    if (gx_number_is_double(dtype)) {
        return (gx_scalar){x.re, im};
    }
    volatile float narrow[2] = {(float)x.re, (float)im};
    return (gx_scalar){(double)narrow[0], (double)narrow[1]};
}

/* The value of every output at element (i, j). */
GX_INLINE void run_element(gx_number dtype, const gx_args *p, int64_t i, int64_t j,
                           gx_scalar out[GX_FUSED_OUTPUTS])
{
    const gx_fused *f = p->fused;
    gx_scalar value[GX_FUSED_RESULT + GX_FUSED_STEPS];
    for (int k = 0; k < f->inputs; k++) {
        value[k] = load(dtype, p->in[k].data, 1, i * p->in[k].row + j * p->in[k].col, 0);
    }
    for (int k = 0; k < f->constants; k++) {
        value[GX_FUSED_CONSTANT + k] = rounded(dtype, f->constant[k]);
    }
    for (int s = 0; s < f->steps; s++) {
        const gx_fused_code *code = &f->step[s];
        gx_map_kind kind = (gx_map_kind)code->map;
        gx_scalar x[3] = {{0, 0}, {0, 0}, {0, 0}};
        for (int k = 0; k < gx_map_row(kind)->operands; k++) {
            x[k] = value[code->from[k]];
        }
        value[GX_FUSED_RESULT + s] =
            rounded(dtype, map_element(dtype, kind, code->alpha, code->beta, x));
    }
    for (int k = 0; k < f->outputs; k++) {
        out[k] = value[f->output[k].value];
    }
}

/* Output k folded over a rectangle. */
GX_INLINE void fold_over(gx_number dtype, const gx_args *p, int k, int64_t i0, int64_t i1,
                         int64_t j0, int64_t j1, double *line)
{
    gx_fold fold = (gx_fold)p->fused->output[k].fold;
    long double re = 0, im = 0;
    gx_fold_start(fold, 1, line);
    for (int64_t j = j0; j < j1; j++) {
        for (int64_t i = i0; i < i1; i++) {
            gx_scalar out[GX_FUSED_OUTPUTS];
            run_element(dtype, p, i, j, out);
            re += (long double)out[k].re;
            im += (long double)out[k].im;
            bool is_nan = isnan(out[k].re) || isnan(out[k].im);
            double size = is_nan ? NAN : magnitude(dtype, out[k]);
            double part[2] = {fold == GX_FOLD_NORM ? size : out[k].re, 1};
            if (fold == GX_FOLD_NORM && !isfinite(part[0])) {
                part[1] = part[0]; // as SUMSQ has it: scale 1
                part[0] = 1;
            } else if (part[0] == 0) {
                part[1] = 0;
            }
            gx_fold_add(fold, 1, line, part);
        }
    }
    if (fold == GX_FOLD_SUM) {
        line[0] = (double)re;
        line[1] = (double)im;
    }
}

GX_INLINE void fold_lines(gx_number dtype, const gx_args *p, int k)
{
    gx_fold_of of = (gx_fold_of)p->fused->output[k].fold_of;
    int width = gx_fold_width((gx_fold)p->fused->output[k].fold);
    int64_t lines = of == GX_FOLD_OF_ALL ? 1 : of == GX_FOLD_OF_ROWS ? p->m : p->n;
    for (int64_t l = 0; l < lines; l++) {
        bool is_row = of == GX_FOLD_OF_ROWS, is_col = of == GX_FOLD_OF_COLS;
        fold_over(dtype, p, k, is_row ? l : 0, is_row ? l + 1 : p->m, is_col ? l : 0,
                  is_col ? l + 1 : p->n, p->fold[k] + l * width);
    }
}

GX_INLINE gx_code fused(gx_number dtype, const gx_args *p, gx_err *err)
{
    const gx_fused *f = p->fused;
    (void)err;
    for (int k = 0; k < f->outputs; k++) {
        if (f->output[k].fold != GX_FOLD_NONE) {
            fold_lines(dtype, p, k); // first: an output may be an input
        }
    }
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            gx_scalar out[GX_FUSED_OUTPUTS];
            run_element(dtype, p, i, j, out);
            for (int k = 0; k < f->outputs; k++) {
                const gx_fused_place *at = &p->out[k];
                if (f->output[k].fold == GX_FOLD_NONE) {
                    store(f->output[k].is_real ? gx_number_real(dtype) : dtype, at->data, 1,
                          i * at->row + j * at->col, 0, out[k]);
                }
            }
        }
    }
    return GX_OK;
}
GX_SLOTS_DEFINE(, gx_ref_fused, fused)
