/*
** Sparse matrices in memory for a while: see sparse_held.h.
**
** The panels are read by the threads of a streamed pass, each of which puts what it has looked
** through to its place in one panel of all rows: where that is says the catalog, which counts each
** panel's entries.
**
** Memory: the copy, a panel a thread.  When the call is over the copy stands by, within
** memory_limit, until the matrix or the file changes or somebody needs the memory.
*/
#include "sparse_held.h"

#include "../exec/pass.h"

#include <string.h>

typedef struct loading {
    const gx_mat *A;
    gx_csr_layout layout;
    char *to;
} loading;

/* Entries before a piece, of which there are few. */
static int64_t entries_before(const gx_mat *A, int64_t piece)
{
    int64_t entries = 0;
    for (int64_t p = 0; p < piece; p++) {
        entries += gx_sparse_piece_entries(A, p);
    }
    return entries;
}

/* One piece, to its place. */
static gx_code place_piece(void *arg, int64_t unit, gx_pass_thread *thread, void *memory,
                           void *part, gx_err *err)
{
    const loading *l = arg;
    const gx_mat *A = l->A;
    size_t index_bytes = (size_t)gx_csr_index_bytes(A->cols), element = gx_number_bytes(A->number);
    gx_csr csr;
    (void)part;
    GX_TRY(gx_pass_read_piece(thread, A, unit, memory, &csr, err));
    int64_t before = entries_before(A, unit);
    uint32_t *start = (uint32_t *)(void *)l->to + gx_sparse_piece_row(A, unit);
    for (int64_t i = 0; i < csr.rows; i++) {
        start[i + 1] = (uint32_t)before + csr.start[i + 1];
    }
    memcpy(l->to + l->layout.index + (size_t)before * index_bytes, csr.index,
           (size_t)csr.entries * index_bytes);
    memcpy(l->to + l->layout.value + (size_t)before * element, csr.value,
           (size_t)csr.entries * element);
    return GX_OK;
}

/* Into memory; what fails is the run's. */
static void load(gx_run *run, const gx_mat *A, const gx_csr_layout *layout, gx_sparse_held *held)
{
    gx_err err = {0};
    const gx_mat *const sources[1] = {A};
    if (gx_mem_alloc(run->ctx->mem, layout->bytes, "a sparse matrix", &held->memory, &err) !=
        GX_OK) {
        gx_run_fail(run, &err);
        return;
    }
    loading l = {.A = A, .layout = *layout, .to = held->memory};
    gx_pass pass = {.sources = sources,
                    .source_count = 1,
                    .units = gx_sparse_pieces(A),
                    .bytes = (double)gx_sparse_bytes(A),
                    .work_bytes = gx_sparse_block_bytes(A),
                    .work = place_piece,
                    .arg = &l};
    *(uint32_t *)held->memory = 0;
    gx_pass_run(run, &pass);
}

bool gx_sparse_held_key(gx_run *run, const gx_mat *A, int64_t first, int64_t count, int64_t form,
                        gx_mem_key *key)
{
    bool is_stored = A->kind == GX_MAT_STORED;
    *key = (gx_mem_key){.file = is_stored ? gx_store_stamp(run->ctx->store, A->meta.schema) : 0};
    if (key->file != 0) {
        key->id = A->meta.id;
        key->generation = A->meta.generation;
        key->part[0] = first;
        key->part[1] = count;
        key->part[2] = form;
    }
    return key->file != 0;
}

gx_code gx_sparse_held_begin(gx_run *run, const gx_mat *A, size_t beside, bool is_read_once,
                             gx_sparse_held *held)
{
    gx_mem *mem = run->ctx->mem;
    gx_csr_layout layout;
    *held = (gx_sparse_held){.A = A};
    if (!gx_ok(run) || !A->is_sparse || A->kind != GX_MAT_STORED || A->rows == 0 || A->cols == 0 ||
        !gx_csr_lay_out(A->rows, A->cols, gx_sparse_entries(A), A->number, &layout)) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    held->is_kept = gx_sparse_held_key(run, A, 0, A->cols, 0, &held->key);
    double wanted = (double)beside + (double)gx_sparse_block_bytes(A) + (double)layout.bytes;
    bool has_room = wanted <= (double)gx_mem_available(mem);
    if (has_room && held->is_kept) {
        held->memory = gx_mem_claim(mem, &held->key, layout.bytes);
    }
    bool is_worth_it = !is_read_once || (held->is_kept && layout.bytes <= gx_mem_keeps(mem) / 2);
    if (has_room && held->memory == NULL && is_worth_it) {
        load(run, A, &layout, held);
    }
    if (held->memory != NULL && gx_ok(run)) {
        gx_csr csr;
        gx_csr_map(&csr, A->rows, A->cols, gx_sparse_entries(A), A->number, held->memory);
        gx_mat_sparse_value(&held->copy, A->label, &csr);
        held->copy.properties = A->properties;
        held->A = &held->copy;
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

void gx_sparse_held_end(gx_run *run, gx_sparse_held *held)
{
    bool is_whole = held->A == &held->copy;
    if (is_whole && held->is_kept) {
        gx_mem_keep(run->ctx->mem, held->memory, &held->key);
    } else {
        gx_mem_free(run->ctx->mem, held->memory);
    }
    *held = (gx_sparse_held){.A = NULL};
}
