/*
** The triangle of matrices of any size.
*/
#ifndef GX_TRIANGLE_OF_H
#define GX_TRIANGLE_OF_H

#include "../mat/mat.h"

/*
** The triangle R of [1 X Y] = Q R in one streamed pass; has_ones false: without the ones; Y NULL:
** without Y.  *r: cols x cols, zeros below the diagonal, the caller's to free, also on failure.
** GX_ARG: other rows; GX_NUMERIC: numbers that are not finite.
*/
gx_code gx_triangle_of(gx_run *run, const gx_mat *X, const gx_mat *Y, bool has_ones, double **r,
                       int64_t *cols);

#endif
