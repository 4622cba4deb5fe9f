/*
** Constraints: polynomials over m31 of a row of a matrix and of the row some rows further on, taken
** together as one number of m31 or of an extension of it.
**
** The extensions are cm31, numbers a + b i of two elements with i^2 = -1, and qm31, numbers x + y u
** of two of those with u^2 = 2 + i: 1, 2 or 4 elements next to each other.
**
** A program is a list of steps on elements of one row.  A step takes values and leaves one in a
** register; GX_CONSTRAINT_TAKE adds its first value, times a power of the coefficient, to the sum
** that the row comes to.
*/
#ifndef GX_CONSTRAINTS_H
#define GX_CONSTRAINTS_H

#include "field.h"

enum {
    GX_CONSTRAINT_REGISTERS = 16,
    GX_CONSTRAINT_WIDTH = 4,       /* elements of the sum, at most */
    GX_CONSTRAINT_STEPS = 1 << 16, /* of a program, at most        */
    GX_CONSTRAINT_KIND = 30        /* bits of a value's index      */
};

typedef enum gx_constraint_op {
    GX_CONSTRAINT_ADD,
    GX_CONSTRAINT_SUB,
    GX_CONSTRAINT_MUL,
    GX_CONSTRAINT_TAKE /* from[1]: the number of the power */
} gx_constraint_op;

/* What a value is: the highest bits of it.  The others are its index. */
typedef enum gx_constraint_from {
    GX_CONSTRAINT_COLUMN, /* an element of the row             */
    GX_CONSTRAINT_NEXT,   /* of the next row                   */
    GX_CONSTRAINT_REGISTER,
    GX_CONSTRAINT_NUMBER /* the step's `number`                */
} gx_constraint_from;

typedef struct gx_constraint_step {
    uint16_t op, dst; /* dst: a register */
    uint32_t from[2];
    uint32_t number;
} gx_constraint_step;

typedef struct gx_constraints {
    const gx_constraint_step *step;
    const uint32_t *power; /* GX_CONSTRAINT_WIDTH elements each, zeros beyond the width      */
    int64_t steps, powers; /* a power for each TAKE                                          */
    int64_t columns;       /* of the matrix                                                  */
    int64_t next;          /* the next row is so many rows further on                        */
    int registers, width;  /* width: 1, 2, 4                                                 */
} gx_constraints;

/* Multiply-adds of 32 bits that a row takes, for predictions. */
static inline double gx_constraints_flops(const gx_constraints *p)
{
    return (double)p->steps + (double)p->powers * p->width;
}

/* (a + b i)(c + d i). */
static inline void gx_cm31_mul(const uint32_t a[2], const uint32_t b[2], uint32_t c[2])
{
    uint32_t re = gx_m31_sub(gx_m31_mul(a[0], b[0]), gx_m31_mul(a[1], b[1]));
    c[1] = gx_m31_add(gx_m31_mul(a[0], b[1]), gx_m31_mul(a[1], b[0]));
    c[0] = re;
}

/* c = a b of numbers of `width` elements; c may be a or b. */
void gx_extension_mul(int width, const uint32_t *a, const uint32_t *b, uint32_t *c);

/* c = 1 / a, by the conjugates: x / y of cm31 has the norm a^2 + b^2, of qm31 x^2 - (2 + i) y^2. */
void gx_extension_inverse(int width, const uint32_t *a, uint32_t *c);

/* The value of a row in plain loops, for the reference.  now, next: row i of a, ld apart. */
void gx_constraints_row(const gx_constraints *p, const uint32_t *now, int64_t ld,
                        const uint32_t *next, int64_t ldnext, uint32_t sum[GX_CONSTRAINT_WIDTH]);

#endif
