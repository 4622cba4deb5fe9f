/*
** Elements of one dtype as elements of another.
*/
#ifndef GX_CONVERT_H
#define GX_CONVERT_H

#include "types.h"

/* m x n of them, column-major; real -> complex sets the imaginary part to 0, complex -> real drops
** it. */
void gx_convert(gx_number from, const void *src, int64_t ld_src, gx_number to, void *dst,
                int64_t ld_dst, int64_t m, int64_t n);

#endif
