/*
** Constraints on the CPU (core/base/constraints.h): piece by piece of the rows, each step a
** vectorised loop over a piece, whose registers and sums stay in the nearest memory.  Columns are
** read where they are.
*/
#include "cpu.h"

enum { LINES = 256 };

typedef struct machine {
    const gx_args *args;
    int64_t first, lines; /* the piece: rows of a               */
    uint32_t registers[GX_CONSTRAINT_REGISTERS][LINES];
    uint32_t side[2][LINES];                  /* values that are not in one place   */
    uint64_t sum[GX_CONSTRAINT_WIDTH][LINES]; /* below 2^33 for each step so far    */
} machine;

/* A column's elements of the next rows: of a, of b, or of both. */
static const uint32_t *next_rows(machine *x, int64_t column, uint32_t *side)
{
    const gx_args *p = x->args;
    int64_t row = x->first + p->constraints->next, in_a = gx_max(0, gx_min(x->lines, p->k - row));
    const uint32_t *a = gx_at(p->a, GX_M31, p->lda, gx_min(row, p->k - 1), column);
    if (in_a == x->lines) {
        return a;
    }
    const uint32_t *b = gx_at(p->b, GX_M31, p->ldb, gx_max(row, p->k) - p->k, column);
    if (in_a == 0) {
        return b;
    }
    memcpy(side, a, (size_t)in_a * sizeof *side);
    memcpy(side + in_a, b, (size_t)(x->lines - in_a) * sizeof *side);
    return side;
}

/* Value k of a step. */
static const uint32_t *value_of(machine *x, const gx_constraint_step *step, int k)
{
    const gx_args *p = x->args;
    int64_t index = step->from[k] & ((1u << GX_CONSTRAINT_KIND) - 1);
    switch ((gx_constraint_from)(step->from[k] >> GX_CONSTRAINT_KIND)) {
    case GX_CONSTRAINT_COLUMN:
        return gx_at(p->a, GX_M31, p->lda, x->first, index);
    case GX_CONSTRAINT_NEXT:
        return next_rows(x, index, x->side[k]);
    case GX_CONSTRAINT_REGISTER:
        return x->registers[index];
    case GX_CONSTRAINT_NUMBER:
        break;
    }
    for (int64_t i = 0; i < x->lines; i++) {
        x->side[k][i] = step->number;
    }
    return x->side[k];
}

/* sum += a t, of which the highest bits are added to the lowest ones. */
GX_INLINE void take(uint64_t *restrict sum, const uint32_t *restrict a, uint32_t t, int64_t lines)
{
    for (int64_t i = 0; i < lines; i++) {
        uint64_t product = (uint64_t)a[i] * t;
        sum[i] += (product & GX_M31_P) + (product >> 31);
    }
}

GX_INLINE void do_step(machine *x, const gx_constraint_step *step)
{
    const uint32_t *a = value_of(x, step, 0);
    const gx_constraints *p = x->args->constraints;
    if (step->op == GX_CONSTRAINT_TAKE) {
        const uint32_t *power = p->power + GX_CONSTRAINT_WIDTH * step->from[1];
        for (int w = 0; w < p->width; w++) {
            take(x->sum[w], a, power[w], x->lines);
        }
        return;
    }
    const uint32_t *b = value_of(x, step, 1);
    uint32_t *c = x->registers[step->dst]; // may be a or b, element for element
    if (step->op == GX_CONSTRAINT_ADD) {
#pragma GCC ivdep
        for (int64_t i = 0; i < x->lines; i++) {
            c[i] = gx_m31_add(a[i], b[i]);
        }
    } else if (step->op == GX_CONSTRAINT_SUB) {
#pragma GCC ivdep
        for (int64_t i = 0; i < x->lines; i++) {
            c[i] = gx_m31_sub(a[i], b[i]);
        }
    } else {
#pragma GCC ivdep
        for (int64_t i = 0; i < x->lines; i++) {
            c[i] = gx_m31_mul(a[i], b[i]);
        }
    }
}

/* Sums of at most 2^16 steps as elements. */
GX_INLINE void leave(const machine *x, int64_t i0)
{
    for (int w = 0; w < x->args->constraints->width; w++) {
        uint32_t *c = gx_at(x->args->c, GX_M31, x->args->ldc, i0, w);
        for (int64_t i = 0; i < x->lines; i++) {
            uint64_t sum = (x->sum[w][i] & GX_M31_P) + (x->sum[w][i] >> 31);
            c[i] = gx_m31_add((uint32_t)(sum & GX_M31_P), (uint32_t)(sum >> 31));
        }
    }
}

GX_LOOP(combine)
{
    machine x;
    x.args = p;
    for (int64_t i = 0; i < p->m; i += LINES) {
        x.first = p->first_row + i;
        x.lines = gx_min(LINES, p->m - i);
        memset(x.sum, 0, sizeof x.sum);
        for (int64_t s = 0; s < p->constraints->steps; s++) {
            do_step(&x, &p->constraints->step[s]);
        }
        leave(&x, i);
    }
    return GX_OK;
}
GX_WIDTHS_SLOT(gx_cpu_combine, m31, GX_M31, combine, combine, combine)
