/*
** Quantised matrices: each row as small whole numbers, its codes, times one number of its own.
**
**   bits  codes                 scale of a row x     packed
**      8  -127 .. 127           max |x_j| / 127      one a byte
**      4  -7 .. 7, plus 8       max |x_j| / 7        two a byte, the first in the low half
**      1  -1, 1: bit 0, 1       sum |x_j| / columns  eight a byte, the first in the lowest bit
**
** Scales are rounded up to 16 bits, so that a code times its scale is an f32 exactly: the matrix
** that the codes stand for is of f32.
**
** A stored one is a matrix of bytes (i8) with the property GX_PROP_QUANTIZED.  Of each row it holds
** GX_ROW_FACTS bytes, three f32 byte by byte: the scale; the residual, a bound on the norm of what
** the codes are off, rounded up; |x|.  Behind them are the codes, so that the facts come with them,
** tile by tile.  The auxiliary data says whose rows they are:
**
**   offset  bytes  is
**        0      4  'gxqz'
**        4      1  version, 1
**        5      3  zero
**        8      8  id of the matrix that was quantised, in the same database; 0: of none there
**       16      8  its generation then
**       24     40  zero
**
** Opened (gx_mat_open()) it is a composite of one leaf, GX_LEAF_CODES, which is read through.
*/
#ifndef GX_QUANTIZED_H
#define GX_QUANTIZED_H

#include "composite.h"

/* A row's largest number, if it is not 0, and what no fact of a row is above. */
static const double GX_QUANTIZED_LEAST = 0x1p-100, GX_QUANTIZED_MOST = 0x1p100;
static const float GX_ROW_FACT_MOST = 0x1p126f;

/* Of rows: arrays of as many. */
typedef struct gx_row_facts {
    float *scale, *residual, *norm;
} gx_row_facts;

/* Which state of which matrix it was made of. */
typedef struct gx_quantized_of {
    int64_t id, generation; /* id 0: of a value, or of another database's */
} gx_quantized_of;

/* A quantised matrix, as gx_mat_open() gives it: its leaf; else NULL. */
const gx_leaf *gx_mat_codes(const gx_mat *mat);

/* Bits of a code; bytes of a row's codes. */
static inline int gx_codes_bits(const gx_leaf *codes)
{
    return (int)codes->offset;
}

static inline int64_t gx_codes_bytes(const gx_leaf *codes)
{
    return codes->base.cols - GX_ROW_FACTS;
}

gx_code gx_quantized_read_of(gx_store *store, gx_mem *mem, const gx_meta *meta, gx_quantized_of *of,
                             gx_err *err);
gx_code gx_quantized_write_of(gx_store *store, const gx_meta *meta, const gx_quantized_of *of,
                              gx_err *err);

/*
** The facts of m rows from i0 on out of their bytes, m x GX_ROW_FACTS.  GX_CORRUPT names a row
** whose numbers are none: they come from a file.
*/
gx_code gx_row_facts_of(const gx_leaf *codes, int64_t i0, int64_t m, const uint8_t *bytes,
                        const gx_row_facts *facts, gx_err *err);

/* Code number `within` of each of m bytes. */
void gx_codes_unpack(int bits, int within, const uint8_t *bytes, int64_t m, int8_t *codes);

/* Elements as gx_leaf_read() gives them. */
gx_code gx_codes_read(gx_run *run, const gx_leaf *codes, gx_reader *reader, int64_t i0, int64_t j0,
                      int64_t m, int64_t n, gx_number dtype, void *dst, int64_t ld, gx_err *err);

#endif
