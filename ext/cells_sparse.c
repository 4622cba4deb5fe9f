/*
** The entries of a sparse matrix as rows of gx_cells: those that are there, in the rectangle that
** a query leaves.
**
** By row, which is how they lie: piece after piece (a panel of about 8 MiB is read at once), in
** each row from the first column wanted on, found by bisection.  By column: they are gathered and
** sorted, which takes 32 bytes an entry of the rectangle from the governor.
**
** As for a dense scan, other statements may change or drop the matrix between two rows: each read
** looks it up again (gx_scan_check()).
*/
#include "cells.h"

#include "../core/mat/sparse.h"

#include <stdlib.h>

struct gx_sorted_entry {
    int64_t i, j;
    gx_scalar value;
};

void gx_entries_clear(gx_entries *entries, gx_mem *mem)
{
    gx_mem_free(mem, entries->block);
    gx_mem_free(mem, entries->sorted);
    *entries = (gx_entries){0};
}

/* The piece, in memory. */
static gx_code read_piece(gx_entries *n, gx_scan *scan, gx_err *err)
{
    gx_ctx *ctx = scan->shared->ctx;
    gx_reader *reader = NULL;
    bool is_stored = scan->A.kind == GX_MAT_STORED;
    if (is_stored) {
        GX_TRY(gx_scan_check(scan, err));
        GX_TRY(gx_reader_own(ctx->store, &reader, err));
    }
    gx_code code = gx_sparse_read(&scan->A, reader, n->piece, n->block, &n->csr, err);
    gx_reader_close(reader);
    n->row0 = gx_sparse_piece_row(&scan->A, n->piece);
    n->row = gx_max(0, scan->select.i0 - n->row0) - 1; // none yet
    n->e = n->end = 0;
    return code;
}

/* The next entry by row; the last one leaves scan->is_done. */
static gx_code step(gx_entries *n, gx_scan *scan, gx_err *err)
{
    const gx_rect *r = &scan->select;
    n->e++;
    while (n->e >= n->end || gx_csr_column(&n->csr, n->e) >= r->j1) {
        n->row++;
        while (n->row >= n->csr.rows || n->row0 + n->row >= r->i1) {
            n->piece++;
            if (n->piece >= gx_sparse_pieces(&scan->A) ||
                gx_sparse_piece_row(&scan->A, n->piece) >= r->i1) {
                scan->is_done = true;
                return GX_OK;
            }
            GX_TRY(read_piece(n, scan, err));
            n->row++;
        }
        n->end = n->csr.start[n->row + 1];
        n->e = gx_csr_seek(&n->csr, n->row, r->j0);
    }
    scan->i = n->row0 + n->row;
    scan->j = gx_csr_column(&n->csr, n->e);
    n->value = gx_csr_value(&n->csr, n->e);
    return GX_OK;
}

static int by_column(const void *a, const void *b)
{
    const struct gx_sorted_entry *x = a, *y = b;
    int64_t order = x->j != y->j ? x->j - y->j : x->i - y->i;
    return (order > 0) - (order < 0);
}

static void show_sorted(gx_entries *n, gx_scan *scan)
{
    scan->is_done = n->at >= n->count;
    if (!scan->is_done) {
        scan->i = n->sorted[n->at].i;
        scan->j = n->sorted[n->at].j;
        n->value = n->sorted[n->at].value;
    }
}

static gx_code sort_all(gx_entries *n, gx_scan *scan, gx_err *err)
{
    gx_mem *mem = scan->shared->ctx->mem;
    int64_t capacity = 0;
    for (; !scan->is_done; n->count++) {
        if (n->count == capacity) {
            void *grown = n->sorted;
            capacity = gx_max(256, 2 * capacity);
            GX_TRY(gx_mem_realloc(mem, (size_t)capacity * sizeof *n->sorted,
                                  "entries to be sorted by column", &grown, err));
            n->sorted = grown;
        }
        n->sorted[n->count] =
            (struct gx_sorted_entry){.i = scan->i, .j = scan->j, .value = n->value};
        GX_TRY(step(n, scan, err));
    }
    if (n->count > 0) {
        qsort(n->sorted, (size_t)n->count, sizeof *n->sorted, by_column);
    }
    n->is_sorted = true;
    show_sorted(n, scan);
    return GX_OK;
}

/* The first piece that has rows of the rectangle. */
static int64_t first_piece(const gx_scan *scan)
{
    int64_t low = 0;
    GX_BISECT(low, gx_sparse_pieces(&scan->A), middle,
              gx_sparse_piece_row(&scan->A, middle) + gx_sparse_piece_rows(&scan->A, middle) <=
                  scan->select.i0)
    return low;
}

gx_code gx_entries_start(gx_entries *n, gx_scan *scan, gx_order order, gx_rect rect, gx_err *err)
{
    gx_mem *mem = scan->shared->ctx->mem;
    gx_entries_clear(n, mem);
    scan->select = rect;
    scan->is_done = rect.i0 >= rect.i1 || rect.j0 >= rect.j1;
    if (scan->is_done) {
        return GX_OK;
    }
    GX_TRY(gx_mem_alloc(mem, gx_sparse_block_bytes(&scan->A), "a panel", &n->block, err));
    n->piece = first_piece(scan);
    GX_TRY(read_piece(n, scan, err));
    GX_TRY(step(n, scan, err));
    return order == GX_BY_COLUMN ? sort_all(n, scan, err) : GX_OK;
}

gx_code gx_entries_next(gx_entries *n, gx_scan *scan, gx_err *err)
{
    if (!n->is_sorted) {
        return step(n, scan, err);
    }
    n->at++;
    show_sorted(n, scan);
    return GX_OK;
}
