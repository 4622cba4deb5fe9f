/*
** A sparse panel: some rows of a sparse matrix as compressed rows (CSR), in one block of bytes.
**
**   row starts      rows + 1 numbers of 32 bits: the entries of row i are start[i] .. start[i + 1]
**   column indexes  entries numbers of 4 or 8 bytes (gx_csr_index_bytes()), ascending in each row
**   values          entries elements of the dtype
**
** Each part begins at a multiple of 8 bytes, with zeros in between; all is little-endian.  A panel
** is a tile of a stored sparse matrix, or what follows the header of a sparse value
** (docs/format.md).
**
** What comes from a file or a caller is looked through (gx_csr_check) before anybody uses it: after
** that, every start lies in the entries and every index in the columns.
*/
#ifndef GX_CSR_H
#define GX_CSR_H

#include "dtype.h"

/* A panel is one blob, and a blob has at most 2^31 - 1 bytes; so entries are counted in 31 bits. */
#define GX_CSR_BYTES_MAX ((size_t)INT32_MAX)

typedef struct gx_csr {
    gx_number dtype;
    int64_t rows, cols;
    int64_t entries;       /* of these rows: start[rows] - start[0]                        */
    int index_bytes;       /* 4 (below 2^31: the sign is never set) or 8                   */
    const uint32_t *start; /* rows + 1; start[0] is 0 in a panel, and may be more in a cut */
    const void *index;     /* entry e of the panel is number e, in a cut too               */
    const void *value;
} gx_csr;

/* Bytes of a column index in a matrix of so many columns. */
static inline int gx_csr_index_bytes(int64_t cols)
{
    return cols <= (int64_t)1 << 31 ? 4 : 8;
}

/* Where the parts of a panel are; false: it would have more than GX_CSR_BYTES_MAX bytes. */
typedef struct gx_csr_layout {
    size_t index, value, bytes;
} gx_csr_layout;

bool gx_csr_lay_out(int64_t rows, int64_t cols, int64_t entries, gx_dtype dtype,
                    gx_csr_layout *layout);

/* The panel that lies in a block of layout.bytes, aligned to 8: nothing is looked at. */
void gx_csr_map(gx_csr *csr, int64_t rows, int64_t cols, int64_t entries, gx_number dtype,
                const void *block);

/*
** Starts from 0 to entries that do not fall; in each row indexes that rise and lie in the columns.
** GX_CORRUPT "panel 3 of S: ..." with what in front: the panel's name.
*/
gx_code gx_csr_check(const gx_csr *csr, const char *what, gx_err *err);

static inline int64_t gx_csr_column(const gx_csr *csr, int64_t entry)
{
    return csr->index_bytes == 4 ? ((const int32_t *)csr->index)[entry]
                                 : ((const int64_t *)csr->index)[entry];
}

/* Element `entry` as a complex number. */
gx_scalar gx_csr_value(const gx_csr *csr, int64_t entry);

/* Rows [first, first + count) of a panel: the same blocks, nothing is copied. */
gx_csr gx_csr_cut(const gx_csr *csr, int64_t first, int64_t count);

/* The first entry of row `row` whose column is not below j; the row's end where there is none. */
int64_t gx_csr_seek(const gx_csr *csr, int64_t row, int64_t j);

/* "S is sparse (9x9, 12 entries) and is needed dense here: ..., 648 bytes"; GX_ARG. */
gx_code gx_csr_refuse(const char *label, int64_t rows, int64_t cols, int64_t entries,
                      gx_number dtype, gx_err *err);

#endif
