/*
** The reference backend: elementwise functions (functions.h), one by one and in programs.
**
** A program is run again for every element that is looked at; a value is rounded to the program's
** dtype when it is made.  Sums run in long double.
*/
#include "ref.h"

// Functions ---------------------------------------------------------------------------------------

/* Is it a division by zero, where there is no infinity? */
GX_INLINE bool divides_by_zero(gx_number dtype, gx_map_kind kind, const gx_scalar x[3])
{
    int by = dtype == GX_M31 ? gx_field_divides_by(kind) : -1;
    return by >= 0 && x[by].re == 0;
}

/* One element under a function; operands that it does not have are not looked at. */
GX_INLINE gx_scalar map_element(gx_number dtype, gx_map_kind kind, gx_scalar alpha, gx_scalar beta,
                                const gx_scalar x[3])
{
    if (dtype == GX_M31) {
        return (gx_scalar){gx_field_map(kind, gx_m31_of(alpha.re), gx_m31_of(beta.re),
                                        (uint32_t)x[0].re, (uint32_t)x[1].re, (uint32_t)x[2].re),
                           0};
    }
    if (!gx_number_is_complex(dtype)) {
        return (gx_scalar){of_real(kind, alpha.re, beta.re, x[0].re, x[1].re, x[2].re), 0};
    }
    return of_pair(kind, alpha, beta, x[0], x[1], x[2]);
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
            if (divides_by_zero(dtype, p->map, x)) {
                return gx_fail(err, GX_NUMERIC, GX_FIELD_ZERO_TEXT);
            }
            store(dtype, p->c, p->ldc, i, j, map_element(dtype, p->map, p->alpha, p->beta, x));
        }
    }
    return GX_OK;
}
GX_SLOTS_DEFINE(, gx_ref_map, map)
GX_FIELD_SLOT_DEFINE(gx_ref_map, map)

// Programs ----------------------------------------------------------------------------------------

/* As the dtype holds it.  Through memory: vectorising, gcc 12 loses (double)(float) of pairs. */
GX_INLINE gx_scalar rounded(gx_number dtype, gx_scalar x)
{
    double im = gx_number_is_complex(dtype) ? x.im : 0;
    if (dtype == GX_M31) {
        return (gx_scalar){gx_m31_of(x.re), 0};
    }
    if (gx_number_is_double(dtype)) {
        return (gx_scalar){x.re, im};
    }
    volatile float narrow[2] = {(float)x.re, (float)im};
    return (gx_scalar){(double)narrow[0], (double)narrow[1]};
}

/* The value of every output at element (i, j); false: something is divided by zero. */
GX_INLINE bool run_element(gx_number dtype, const gx_args *p, int64_t i, int64_t j,
                           gx_scalar out[GX_FUSED_OUTPUTS])
{
    bool is_defined = true;
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
        is_defined = is_defined && !divides_by_zero(dtype, kind, x);
        value[GX_FUSED_RESULT + s] =
            rounded(dtype, map_element(dtype, kind, code->alpha, code->beta, x));
    }
    for (int k = 0; k < f->outputs; k++) {
        out[k] = value[f->output[k].value];
    }
    return is_defined;
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
            (void)run_element(dtype, p, i, j, out);
            re += (long double)out[k].re;
            im += (long double)out[k].im;
            bool is_nan = isnan(out[k].re) || isnan(out[k].im);
            double size = is_nan ? NAN : magnitude_of(dtype, out[k]);
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
        line[0] = dtype == GX_M31 ? (double)fmodl(re, GX_M31_P) : (double)re;
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
    for (int k = 0; k < f->outputs; k++) {
        if (f->output[k].fold != GX_FOLD_NONE) {
            fold_lines(dtype, p, k); // first: an output may be an input
        }
    }
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            gx_scalar out[GX_FUSED_OUTPUTS];
            if (!run_element(dtype, p, i, j, out)) {
                return gx_fail(err, GX_NUMERIC, GX_FIELD_ZERO_TEXT);
            }
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
GX_FIELD_SLOT_DEFINE(gx_ref_fused, fused)
