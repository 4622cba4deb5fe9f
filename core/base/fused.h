/*
** Fused programs: elementwise functions one after the other, in one pass over their operands.
**
** A program is a list of steps, each a function of map.h applied to values that are there already:
** inputs (matrices), constants, results of earlier steps.  No value but the outputs is ever stored:
** a kernel (GX_FUSED) goes over the block in pieces that stay in the nearest memory, a register
** each.  An output is a matrix of the shape of the block, or is folded on the way: its sum, norm,
** least or largest element, of all, or of each row or column.
**
** All values are of one dtype, the program's; what is of another one is converted when it is read.
** A function that makes real numbers of complex ones (GX_MAP_REAL of map.h) leaves imaginary parts
** of 0: its result is real only as an output with is_real, so a group ends there.
**
**     gx_fused f;
**     gx_fused_begin(&f, GX_F64);
**     int a = gx_fused_input(&f), b = gx_fused_input(&f), two = gx_fused_constant(&f, TWO);
**     int t = gx_fused_step(&f, GX_MAP_POW, a, two, 0);
**     int u = gx_fused_step(&f, GX_MAP_MUL, t, b, 0);
**     gx_fused_output(&f, u, GX_FOLD_NONE, 0);
**     if (!gx_fused_end(&f)) ... too many of something: cut the group in two
**
** A gx_fused owns nothing and is copied by assignment.
*/
#ifndef GX_FUSED_H
#define GX_FUSED_H

#include "map.h"
#include "types.h"

enum {
    GX_FUSED_INPUTS = 12,
    GX_FUSED_CONSTANTS = 16,
    GX_FUSED_STEPS = 48,
    GX_FUSED_OUTPUTS = 4,
    GX_FUSED_REGISTERS = 12, /* results of steps that are wanted at the same time */

    /* Values by number: inputs from 0, then constants, then the steps' results. */
    GX_FUSED_CONSTANT = GX_FUSED_INPUTS,
    GX_FUSED_RESULT = GX_FUSED_CONSTANT + GX_FUSED_CONSTANTS,
    GX_FUSED_NONE = -1 /* no value: there was no room, or an operand was none */
};

typedef enum gx_fold {
    GX_FOLD_NONE, /* the elements themselves                                        */
    GX_FOLD_SUM,  /* doubles of a line: re, im                                      */
    GX_FOLD_NORM, /* the Euclidean norm, without overflow: scale, ssq of scale^2 ssq */
    GX_FOLD_MIN,  /* real dtypes; NaN where there is one; of nothing +Inf           */
    GX_FOLD_MAX   /* real dtypes; NaN where there is one; of nothing -Inf           */
} gx_fold;

typedef enum gx_fold_of {
    GX_FOLD_OF_ALL,  /* 1 x 1 */
    GX_FOLD_OF_ROWS, /* m x 1: along each row     */
    GX_FOLD_OF_COLS  /* 1 x n: down each column   */
} gx_fold_of;

typedef struct gx_fused_code {
    uint8_t map;     /* gx_map_kind                                       */
    uint8_t dst;     /* the register of the result: gx_fused_end()        */
    uint8_t from[3]; /* values; as many as the function has operands      */
    gx_scalar alpha, beta;
} gx_fused_code;

typedef struct gx_fused_result {
    uint8_t value;
    uint8_t fold;    /* gx_fold                                                         */
    uint8_t fold_of; /* gx_fold_of                                                      */
    bool is_real;    /* of a complex program: elements are stored without imaginary part */
} gx_fused_result;

typedef struct gx_fused {
    gx_number dtype;
    int inputs, constants, steps, outputs, registers;
    bool is_full; /* something did not fit */
    gx_scalar constant[GX_FUSED_CONSTANTS];
    gx_fused_code step[GX_FUSED_STEPS];
    gx_fused_result output[GX_FUSED_OUTPUTS];
} gx_fused;

/*
** Where the elements of an input or output of one block are: element (i, j) is i * row + j * col
** elements behind data.  A matrix: 1, ld; a row: 0, ld; a column: 1, 0; a number: 0, 0; a
** transposed matrix: ld, 1.  Outputs: 1, ld.
*/
typedef struct gx_fused_place {
    void *data;
    int64_t row, col;
} gx_fused_place;

void gx_fused_begin(gx_fused *f, gx_number dtype);

/* The value; GX_FUSED_NONE where there is no room, which gx_fused_end() tells too. */
int gx_fused_input(gx_fused *f);
int gx_fused_constant(gx_fused *f, gx_scalar value); /* the same one again for the same number */
int gx_fused_step(gx_fused *f, gx_map_kind map, int a, int b, int c);
int gx_fused_scaled(gx_fused *f, gx_map_kind map, gx_scalar alpha, int a, gx_scalar beta, int b);

/* The number of the output; GX_FUSED_NONE where there is no room. */
int gx_fused_output(gx_fused *f, int value, gx_fold fold, gx_fold_of of);

/* Give the results registers.  false: it is too large in some way and must not be run. */
bool gx_fused_end(gx_fused *f);

/* Of one element. */
double gx_fused_flops(const gx_fused *f);

/* Doubles of a line of a fold, and of all its lines for a block of m x n. */
int gx_fold_width(gx_fold fold);
int64_t gx_fold_doubles(gx_fold fold, gx_fold_of of, int64_t m, int64_t n);

/* Lines of a fold: of nothing; what part came to added to acc; the numbers that they stand for. */
void gx_fold_start(gx_fold fold, int64_t lines, double *acc);
void gx_fold_add(gx_fold fold, int64_t lines, double *acc, const double *part);
gx_scalar gx_fold_value(gx_fold fold, const double *line);

#endif
