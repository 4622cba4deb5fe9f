/*
** Constraints: see constraints.h.
*/
#include "constraints.h"

#include <string.h>

void gx_extension_mul(int width, const uint32_t *a, const uint32_t *b, uint32_t *c)
{
    const uint32_t square[2] = {2, 1}; // u^2
    uint32_t low[2], high[2], cross[2], other[2];
    if (width == 1) {
        c[0] = gx_m31_mul(a[0], b[0]);
    } else if (width == 2) {
        gx_cm31_mul(a, b, c);
    } else {
        gx_cm31_mul(a, b, low);
        gx_cm31_mul(a + 2, b + 2, high);
        gx_cm31_mul(a, b + 2, cross);
        gx_cm31_mul(a + 2, b, other);
        gx_cm31_mul(high, square, high);
        for (int k = 0; k < 2; k++) {
            c[k] = gx_m31_add(low[k], high[k]);
            c[k + 2] = gx_m31_add(cross[k], other[k]);
        }
    }
}

void gx_extension_inverse(int width, const uint32_t *a, uint32_t *c)
{
    if (width == 1) {
        c[0] = gx_field_inverse(a[0], GX_M31_P);
        return;
    }
    int half = width / 2; // of the conjugate the second half is negative
    uint32_t conjugate[GX_CONSTRAINT_WIDTH], norm[GX_CONSTRAINT_WIDTH];
    for (int k = 0; k < width; k++) {
        conjugate[k] = k < half ? a[k] : gx_m31_sub(0, a[k]);
    }
    gx_extension_mul(width, a, conjugate, norm);
    gx_extension_inverse(half, norm, norm);
    memset(norm + half, 0, (size_t)half * sizeof *norm);
    gx_extension_mul(width, conjugate, norm, c);
}

static uint32_t value_of(const gx_constraint_step *step, int k, const uint32_t *now, int64_t ld,
                         const uint32_t *next, int64_t ldnext, const uint32_t *registers)
{
    int64_t index = step->from[k] & ((1u << GX_CONSTRAINT_KIND) - 1);
    switch ((gx_constraint_from)(step->from[k] >> GX_CONSTRAINT_KIND)) {
    case GX_CONSTRAINT_COLUMN:
        return now[index * ld];
    case GX_CONSTRAINT_NEXT:
        return next[index * ldnext];
    case GX_CONSTRAINT_REGISTER:
        return registers[index];
    case GX_CONSTRAINT_NUMBER:
        break;
    }
    return step->number;
}

void gx_constraints_row(const gx_constraints *p, const uint32_t *now, int64_t ld,
                        const uint32_t *next, int64_t ldnext, uint32_t sum[GX_CONSTRAINT_WIDTH])
{
    uint32_t registers[GX_CONSTRAINT_REGISTERS] = {0};
    memset(sum, 0, GX_CONSTRAINT_WIDTH * sizeof *sum);
    for (int64_t s = 0; s < p->steps; s++) {
        const gx_constraint_step *step = &p->step[s];
        uint32_t a = value_of(step, 0, now, ld, next, ldnext, registers);
        if (step->op == GX_CONSTRAINT_TAKE) {
            const uint32_t *power = p->power + GX_CONSTRAINT_WIDTH * step->from[1];
            for (int w = 0; w < p->width; w++) {
                sum[w] = gx_m31_add(sum[w], gx_m31_mul(a, power[w]));
            }
            continue;
        }
        uint32_t b = value_of(step, 1, now, ld, next, ldnext, registers);
        registers[step->dst] = step->op == GX_CONSTRAINT_ADD   ? gx_m31_add(a, b)
                               : step->op == GX_CONSTRAINT_SUB ? gx_m31_sub(a, b)
                                                               : gx_m31_mul(a, b);
    }
}
