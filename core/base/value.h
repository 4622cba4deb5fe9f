/*
** The matrix value: a matrix as one BLOB.
**
**   offset  bytes
**        0      4   "gxmv"
**        4      1   version, 1
**        5      1   dtype (gx_dtype)
**        6      2   zero
**        8      8   rows, little-endian
**       16      8   cols, little-endian
**       24      8   zero (reserved; keeps the elements 32 bytes in)
**       32      .   the elements, column-major, little-endian
**
** The length of the BLOB must be exactly 32 + rows * cols * element size: a forged header is
** refused.
*/
#ifndef GX_VALUE_H
#define GX_VALUE_H

#include "err.h"
#include "mem.h"
#include "types.h"

enum { GX_VALUE_HEADER = 32 };

/* A value seen in place: data points into the blob (no alignment promised). */
typedef struct gx_value {
    gx_dtype dtype;
    int64_t rows, cols;
    const void *data;
} gx_value;

/* True when the bytes start as a matrix value does (magic); the rest may still be wrong. */
bool gx_value_is(const void *blob, size_t bytes);

/*
** Refuses, in words: wrong magic, a future version, unknown dtype, negative or huge sizes, wrong
** length.
*/
gx_code gx_value_parse(const void *blob, size_t bytes, gx_value *value, gx_err *err);

/* A value under construction. */
typedef struct gx_value_buf {
    void *blob;   /* header and elements; owned until moved out or gx_value_buf_free() */
    size_t bytes; /* of the blob                                                     */
    void *data;   /* the elements inside it (32 bytes in, and aligned to that)       */
} gx_value_buf;

/* limit_bytes: SQLite's length limit; past it GX_TOOBIG with the size, the limit and the advice. */
gx_code gx_value_buf_create(gx_mem *mem, gx_dtype dtype, int64_t rows, int64_t cols,
                            int64_t limit_bytes, gx_value_buf *buf, gx_err *err);
void gx_value_buf_free(gx_mem *mem, gx_value_buf *buf);

/* Give the blob to the caller, who releases it; its bytes leave the budget. */
void *gx_value_buf_move(gx_mem *mem, gx_value_buf *buf, size_t *bytes);

/* The destructor of a blob that was moved out: from any thread, NULL is a no-op. */
void gx_value_release(void *blob);

#endif
