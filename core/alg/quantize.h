/*
** Quantised matrices made (core/mat/quantized.h says what they are).
*/
#ifndef GX_QUANTIZE_H
#define GX_QUANTIZE_H

#include "../mat/quantized.h"

/*
** A, real and dense, in codes of 8, 4 or 1 bits, stored as dest says.  Reads A once.  Memory: for
** each thread a tile of codes, at most 2 MiB or a row, and 4 MiB or a row of A.
**
** GX_ARG  A complex or empty; a NaN or an Inf; a row whose largest number is below 2^-100 or above
**         2^100: named.
*/
gx_code gx_alg_quantize(gx_run *run, const gx_mat *A, int bits, const gx_dest *dest);

#endif
