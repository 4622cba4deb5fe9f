/*
** What the functions for looking at matrices share: a way to tiles, memory, reading a rectangle.
** See gx_ext.h.
*/
#include "gx_ext.h"

/* 64 tile rows of a megabyte each: more helps no disk. */
static const int64_t STRIP_BYTES = (int64_t)64 << 20;

bool gx_look_open(gx_fn *fn, const gx_mat *A, gx_reader **reader)
{
    *reader = NULL;
    return gx_mat_base_stored(A) == NULL ||
           gx_fn_check(fn, gx_reader_own(fn->ctx->store, reader, &fn->err));
}

bool gx_look_buffer(gx_fn *fn, const gx_mat *A, int64_t m, int64_t n, void **buffer)
{
    size_t bytes;
    if (!gx_matrix_bytes(m, n, A->number, &bytes)) {
        *buffer = NULL;
        return gx_fn_check(fn, gx_fail_nomem(&fn->err, UINT64_MAX, "matrix"));
    }
    *buffer = gx_fn_alloc(fn, bytes, "a piece of the matrix");
    return *buffer != NULL;
}

bool gx_look_read(gx_fn *fn, const gx_mat *A, gx_reader *reader, int64_t i0, int64_t j0, int64_t m,
                  int64_t n, void *dst, int64_t ld)
{
    return gx_fn_check(
        fn, gx_mat_read(&fn->run, A, reader, i0, j0, m, n, A->number, dst, ld, &fn->err));
}

gx_dtype gx_look_exactly(gx_mat *A)
{
    gx_dtype dtype = A->is_sparse ? gx_dtype_of(A->number) : A->dtype;
    if (dtype == GX_DTYPE_I64) {
        gx_mat_verbatim(A);
    }
    return dtype;
}

int64_t gx_look_whole(gx_dtype dtype, const void *data, int64_t k)
{
    return dtype == GX_DTYPE_I64 ? ((const int64_t *)data)[k]
                                 : (int64_t)gx_number_get(gx_dtype_number(dtype), data, k).re;
}

int64_t gx_look_strip_rows(const gx_fn *fn, const gx_mat *A)
{
    size_t one_row;
    if (!gx_matrix_bytes(1, A->cols, A->number, &one_row)) {
        return 1; // of 0 rows
    }
    int64_t row_bytes = gx_max(1, (int64_t)one_row);
    int64_t bytes = gx_min(STRIP_BYTES, (int64_t)(gx_mem_available(fn->ctx->mem) / 4));
    int64_t rows = gx_max(1, gx_min(A->rows, bytes / row_bytes));
    return rows > A->tile_rows ? rows - rows % A->tile_rows : rows;
}
