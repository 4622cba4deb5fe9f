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

/*
** m rows of A, from row i0 on, that lie in memory as doubles: their facts, and their codes of 8
** bits, m x columns.  work: gx_quantize_bytes(), with the rows at gx_quantize_rows_at(), m x
** columns; they stay.  What has no codes (GX_ARG above) has facts without bounds, but a NaN or an
** Inf is GX_ARG.
*/
gx_code gx_quantize_rows(const gx_mat *A, int64_t i0, int64_t m, void *work,
                         const gx_row_facts *facts, int8_t *codes, gx_err *err);
size_t gx_quantize_bytes(int64_t m, int64_t cols);
double *gx_quantize_rows_at(void *work, int64_t m);

#endif
