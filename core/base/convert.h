/*
** Numbers as other numbers, and the seam between numbers and stored elements: rectangles that are
** filled are widened, those that are written are narrowed.
*/
#ifndef GX_CONVERT_H
#define GX_CONVERT_H

#include "dtype.h"

/* m x n numbers, column-major; real -> complex sets the imaginary part to 0, complex -> real drops
** it. */
void gx_convert(gx_number from, const void *src, int64_t ld_src, gx_number to, void *dst,
                int64_t ld_dst, int64_t m, int64_t n);

/*
** m x n stored elements to numbers: a complex dtype to complex ones.  GX_ARG names an element that
** would be rounded; err NULL: it is.
*/
gx_code gx_widen(gx_dtype from, const void *src, int64_t ld_src, gx_number to, void *dst,
                 int64_t ld_dst, int64_t m, int64_t n, gx_err *err);

/*
** count elements, which lie at the end of the memory of count numbers `to`, become these: which are
** at least as large.  Else as gx_widen().
*/
gx_code gx_widen_in_place(gx_dtype from, gx_number to, void *at, int64_t count, gx_err *err);

/*
** m x n numbers to stored elements; saturate: what is out of range becomes the nearest that is not.
** GX_ARG names element (i0 + i, j0 + j) of what none becomes.  Complex ones go to a complex dtype.
*/
typedef struct gx_narrowing {
    gx_dtype dtype;
    bool saturate;
    int64_t i0, j0;
} gx_narrowing;

gx_code gx_narrow_to(gx_number from, const void *src, int64_t ld_src, const gx_narrowing *to,
                  void *dst, int64_t ld_dst, int64_t m, int64_t n, gx_err *err);

#endif
