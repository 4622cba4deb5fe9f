/*
** Sparse matrices in memory for a while: see sparse_held.h.
*/
#include "sparse_held.h"

#include <string.h>

/* The pieces of A one behind the other, as one panel in memory. */
static gx_code gather(gx_run *run, const gx_mat *A, gx_reader *reader, const gx_csr_layout *layout,
                      void *block, char *to, gx_err *err)
{
    uint32_t *start = (uint32_t *)(void *)to;
    size_t index_bytes = (size_t)gx_csr_index_bytes(A->cols), element = gx_dtype_bytes(A->dtype);
    int64_t done = 0;
    start[0] = 0;
    for (int64_t p = 0; p < gx_sparse_pieces(A); p++) {
        gx_csr csr;
        GX_TRY(gx_sparse_read(A, reader, p, block, &csr, err));
        int64_t row = gx_sparse_piece_row(A, p);
        for (int64_t i = 0; i < csr.rows; i++) {
            start[row + i + 1] = (uint32_t)(done + csr.start[i + 1]);
        }
        memcpy(to + layout->index + (size_t)done * index_bytes, csr.index,
               (size_t)csr.entries * index_bytes);
        memcpy(to + layout->value + (size_t)done * element, csr.value,
               (size_t)csr.entries * element);
        done += csr.entries;
        if (gx_run_poll(run) != GX_OK) {
            return gx_fail(err, run->err.code, "%s", run->err.text);
        }
    }
    return GX_OK;
}

/* Into memory. */
static gx_code load(gx_run *run, const gx_mat *A, const gx_csr_layout *layout, gx_sparse_held *held,
                    gx_err *err)
{
    gx_mem *mem = run->ctx->mem;
    gx_reader *reader = NULL;
    void *block = NULL;
    gx_csr csr;
    gx_code code = gx_mem_alloc(mem, layout->bytes, "a sparse matrix", &held->memory, err);
    if (code == GX_OK) {
        code = gx_mem_alloc(mem, gx_sparse_block_bytes(A), "a panel", &block, err);
    }
    if (code == GX_OK) {
        code = gx_reader_own(run->ctx->store, &reader, err);
    }
    if (code == GX_OK) {
        code = gather(run, A, reader, layout, block, held->memory, err);
    }
    if (code == GX_OK) {
        gx_csr_map(&csr, A->rows, A->cols, gx_sparse_entries(A), A->dtype, held->memory);
        gx_mat_sparse_value(&held->copy, A->label, &csr);
        held->copy.properties = A->properties;
        held->A = &held->copy;
    }
    gx_reader_close(reader);
    gx_mem_free(mem, block);
    return code;
}

gx_code gx_sparse_held_begin(gx_run *run, const gx_mat *A, size_t beside, gx_sparse_held *held)
{
    gx_csr_layout layout;
    gx_err err = {0};
    *held = (gx_sparse_held){.A = A};
    if (!gx_ok(run) || !A->is_sparse || A->kind != GX_MAT_STORED || A->rows == 0 || A->cols == 0 ||
        !gx_csr_lay_out(A->rows, A->cols, gx_sparse_entries(A), A->dtype, &layout)) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    double wanted = (double)beside + (double)gx_sparse_block_bytes(A) + (double)layout.bytes;
    if (wanted <= (double)gx_mem_available(run->ctx->mem)) {
        load(run, A, &layout, held, &err);
    }
    return gx_run_fail(run, &err);
}

void gx_sparse_held_end(gx_run *run, gx_sparse_held *held)
{
    gx_mem_free(run->ctx->mem, held->memory);
    *held = (gx_sparse_held){.A = NULL};
}
