/*
** Small triangles, columns one after the other: what a regression is solved by.  Plain loops, for
** sizes where a call of LAPACK costs more than the work.
*/
#ifndef GX_SMALL_TRIANGLE_H
#define GX_SMALL_TRIANGLE_H

#include "../base/types.h"

/* a' b, by eight sums side by side. */
double gx_small_dot(const double *a, const double *b, int64_t n);

/*
** Fold rows (a block of them, columns ld apart, overwritten) under the upper triangle r of cols
** columns, ldr apart: r becomes the triangle of both.
*/
void gx_triangle_fold(double *r, int64_t ldr, int64_t cols, double *block, int64_t ld,
                      int64_t rows);

/*
** Solve min |X b - y| by a triangle of columns + 1 columns, ldr apart: columns that depend on those
** before are left out, the triangle is repaired.  kept, estimate: columns; returns the rank.
*/
int64_t gx_triangle_solve(double *r, int64_t ldr, int64_t columns, int64_t *kept, double *estimate);

/* The first column of [first, end) that depends on those before it, less first; -1: none. */
int64_t gx_triangle_dependent(const double *r, int64_t ldr, int64_t first, int64_t end);

/* out (n x n) = the inverse of the triangle, times a factor. */
void gx_triangle_invert(const double *r, int64_t ldr, int64_t n, double factor, double *out);

/*
** The singular values of a, m x n, descending, by one-sided Jacobi (Hestenes 1958): a becomes U S,
** v (n x n, or NULL) V.
*/
void gx_small_svd(double *a, int64_t m, int64_t n, double *s, double *v);

#endif
