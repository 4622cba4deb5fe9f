/*
** Circle transforms of columns (core/base/circle.h): coefficients to values and back.
*/
#ifndef GX_TRANSFORM_H
#define GX_TRANSFORM_H

#include "../base/circle.h"
#include "../mat/mat.h"

/*
** In which order the values are: the points' indices with reversed bits; the half coset, then its
** conjugates; the coset g, g^3, g^5, ... with g of order 2^(log + 1).
*/
typedef enum gx_circle_order {
    GX_CIRCLE_BITREV,
    GX_CIRCLE_DOMAIN,
    GX_CIRCLE_COSET
} gx_circle_order;

typedef struct gx_circle_args {
    const gx_mat *A; /* of m31; coefficients or values, a column each */
    bool is_inverse;
    gx_circle_order order;
    int log; /* of the result's rows.  From coefficients to values, A may have fewer rows: zeros */
} gx_circle_args;

/*
** GX_ARG: the rows are no power of two, or more than 2^30.  log: below 0 where it is not given,
** then A's.
*/
gx_code gx_circle_shape(const gx_circle_args *args, int *log, gx_err *err);

/* Tiles of the result that both sweeps over a large column can write. */
void gx_circle_tiles(int log, int64_t *tile_rows, int64_t *tile_cols);

/*
** In memory as many columns at a time as it has room for; a column that is larger in two sweeps,
** the upper layers in strips, the lower ones in blocks, with an intermediate between them.
*/
gx_code gx_alg_circle(gx_run *run, const gx_circle_args *args, gx_sink *C);

#endif
