/*
** Lattices: the nearest points of rows, E8, and the golden ratio in whole numbers.
*/
#ifndef GX_LATTICE_H
#define GX_LATTICE_H

#include "../mat/mat.h"

typedef enum gx_lattice {
    GX_LATTICE_ZN, /* whole numbers                                                       */
    GX_LATTICE_DN, /* the same of even sum                                                */
    GX_LATTICE_AN, /* the same of sum 0, in n + 1 numbers                                 */
    GX_LATTICE_E8  /* D8, and D8 moved by 1/2 in each number; rows of 8 k numbers: k points */
} gx_lattice;

/*
** C = the point of the lattice nearest to each row of A (Conway and Sloane, Fast quantizing and
** decoding algorithms, 1982); of two equally near ones that with the even number where it is
** rounded.  C is of A's shape, its tiles as gx_lattice_tiles() says.  A pass.
*/
gx_code gx_alg_nearest_points(gx_run *run, const gx_mat *A, gx_lattice lattice, gx_sink *C);

/* GX_ARG where rows of so many numbers have no points. */
gx_code gx_lattice_fits(const gx_mat *A, gx_lattice lattice, gx_err *err);

void gx_lattice_tiles(const gx_mat *A, int64_t *tile_rows, int64_t *tile_cols);

/* The points of E8 with squared norm 2 k, 240 sigma_3(k) of them, 8 numbers each; k at most 8. */
enum { GX_E8_SHELLS = 8 };
int64_t gx_e8_shell(int k, double *points); /* column-major, ld the count; NULL: only counted */

/*
** An orthonormal basis, 8 x 4 column-major, of the space that E8's Coxeter element turns by 1/30
** and 11/30: there the 240 roots are two shells of 120, of squared norms in the ratio of the golden
** ratio's square.
*/
void gx_e8_golden(double basis[32]);

/* floor(phi n), phi = (1 + sqrt 5) / 2; false: 64 bits do not hold it. */
bool gx_golden_floor(int64_t n, int64_t *result);

/* (a + b phi)(c + d phi) of pairs; false: 64 bits do not hold it. */
bool gx_golden_times(const int64_t a[2], const int64_t b[2], int64_t result[2]);

#endif
