/*
** The matrix value: a matrix as one BLOB.
**
**   offset  bytes
**        0      4   "gxmv"
**        4      1   version, 1
**        5      1   dtype (gx_number)
**        6      1   0: every element; 1: sparse
**        7      1   zero
**        8      8   rows, little-endian
**       16      8   cols, little-endian
**       24      8   zero; sparse: entries
**       32      .   the elements, column-major, little-endian; sparse: one panel (csr.h)
**
** The length of the BLOB must be exactly what the header says, and a panel is looked through: a
** forged one is refused.
*/
#ifndef GX_VALUE_H
#define GX_VALUE_H

#include "csr.h"
#include "dtype.h"
#include "err.h"
#include "mem.h"
#include "types.h"

enum { GX_VALUE_HEADER = 32 };

/* A value seen in place: data points into the blob (no alignment promised). */
typedef struct gx_value {
    gx_dtype dtype;
    int64_t rows, cols;
    const void *data;
    bool is_sparse;
    int64_t entries; /* is_sparse: data is a panel of all rows, which has not been looked through */
} gx_value;

/* True when the bytes start as a matrix value does (magic); the rest may still be wrong. */
bool gx_value_is(const void *blob, size_t bytes);

/*
** Refuses, in words: wrong magic, a future version, unknown dtype, negative or huge sizes, wrong
** length.
*/
gx_code gx_value_parse(const void *blob, size_t bytes, gx_value *value, gx_err *err);

/* That refuses a sparse value too; this one does not.  gx_csr_check() is the caller's to do. */
gx_code gx_value_parse_any(const void *blob, size_t bytes, gx_value *value, gx_err *err);

/* A value under construction. */
typedef struct gx_value_buf {
    void *blob;   /* header and elements; owned until moved out or gx_value_buf_free() */
    size_t bytes; /* of the blob                                                     */
    void *data;   /* the elements inside it (32 bytes in, and aligned to that)       */
} gx_value_buf;

/* limit_bytes: SQLite's length limit; past it GX_TOOBIG with the size, the limit and the advice. */
gx_code gx_value_buf_create(gx_mem *mem, gx_dtype dtype, int64_t rows, int64_t cols,
                            int64_t limit_bytes, gx_value_buf *buf, gx_err *err);
/* The same of a sparse one, whose parts the caller fills: buf->data is the panel's first byte. */
gx_code gx_value_buf_create_sparse(gx_mem *mem, gx_dtype dtype, int64_t rows, int64_t cols,
                                   int64_t entries, int64_t limit_bytes, gx_value_buf *buf,
                                   gx_err *err);
void gx_value_buf_free(gx_mem *mem, gx_value_buf *buf);

/* Give the blob to the caller, who releases it; its bytes leave the budget. */
void *gx_value_buf_move(gx_mem *mem, gx_value_buf *buf, size_t *bytes);

/* The destructor of a blob that was moved out: from any thread, NULL is a no-op. */
void gx_value_release(void *blob);

#endif
