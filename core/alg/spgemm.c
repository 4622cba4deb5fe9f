/*
** Products of two sparse matrices, row by row (F. G. Gustavson, 1978): see sparse_alg.h.
**
**   C(i, :) = sum of A(i, k) B(k, :) over the entries k of A's row i
**
** The row under construction is a dense one of numbers, with a mark for each column that has one
** and a list of those columns, which is sorted before they are put.  A passes once; rows of B are
** wanted in any order, so all of B is in memory.
*/
#include "sparse_alg.h"

#include <stdlib.h>
#include <string.h>

/* B in memory. */
typedef struct whole {
    void *blocks;
    gx_csr *piece;
    int64_t *row0; /* of each, and the row behind the last */
    int64_t pieces;
} whole;

/* The row under construction. */
typedef struct row {
    double *number; /* one or two a column         */
    int64_t *mark;  /* row + 1 that it was last in */
    int64_t *list;  /* columns that have one       */
    int64_t count;
    int parts;
} row;

typedef struct product {
    gx_run *run;
    gx_scalar alpha;
    whole B;
    row row;
    gx_sparse_out out;
} product;

static void close_whole(gx_run *run, whole *w)
{
    gx_mem_free(run->ctx->mem, w->blocks);
    gx_mem_free(run->ctx->mem, w->piece);
    gx_mem_free(run->ctx->mem, w->row0);
}

static gx_code open_whole(gx_run *run, const gx_mat *B, whole *w, gx_err *err)
{
    gx_mem *mem = run->ctx->mem;
    gx_reader *reader = NULL;
    w->pieces = gx_sparse_pieces(B);
    size_t bytes = B->kind == GX_MAT_STORED ? gx_sparse_bytes(B) : 0;
    GX_TRY(
        gx_mem_calloc(mem, (size_t)(w->pieces + 1) * sizeof *w->piece, "panels", &w->piece, err));
    GX_TRY(gx_mem_calloc(mem, (size_t)(w->pieces + 1) * sizeof *w->row0, "panels", &w->row0, err));
    GX_TRY(gx_mem_alloc(mem, bytes, "all panels of the right operand", &w->blocks, err));
    gx_code code = B->kind == GX_MAT_STORED ? gx_reader_own(run->ctx->store, &reader, err) : GX_OK;
    char *at = w->blocks;
    for (int64_t p = 0; p < w->pieces && code == GX_OK; p++) {
        gx_csr_layout layout = {0};
        code = gx_sparse_read(B, reader, p, at, &w->piece[p], err);
        w->row0[p + 1] = w->row0[p] + gx_sparse_piece_rows(B, p);
        (void)gx_csr_lay_out(w->piece[p].rows, B->cols, w->piece[p].entries, gx_dtype_of(B->number),
                             &layout);
        at += B->kind == GX_MAT_STORED ? layout.bytes : 0;
        if (code == GX_OK && gx_run_poll(run) != GX_OK) {
            code = gx_fail(err, run->err.code, "%s", run->err.text);
        }
    }
    gx_reader_close(reader);
    return code;
}

/* The piece that has row k. */
static const gx_csr *find(const whole *w, int64_t k, int64_t *inside)
{
    int64_t low = 0;
    GX_BISECT(low, w->pieces - 1, middle, w->row0[middle + 1] <= k)
    *inside = k - w->row0[low];
    return &w->piece[low];
}

static gx_code open_row(gx_run *run, int64_t cols, bool is_complex, row *r, gx_err *err)
{
    gx_mem *mem = run->ctx->mem;
    size_t count = (size_t)gx_max(1, cols);
    r->parts = is_complex ? 2 : 1;
    GX_TRY(gx_mem_calloc(mem, count * (size_t)r->parts * sizeof(double), "a row", &r->number, err));
    GX_TRY(gx_mem_calloc(mem, count * sizeof(int64_t), "a row", &r->mark, err));
    GX_TRY(gx_mem_alloc(mem, count * sizeof(int64_t), "a row", &r->list, err));
    return GX_OK;
}

static void close_row(gx_run *run, row *r)
{
    gx_mem_free(run->ctx->mem, r->number);
    gx_mem_free(run->ctx->mem, r->mark);
    gx_mem_free(run->ctx->mem, r->list);
}

/* Row i += a times row k of B. */
static void add_row(product *p, int64_t i, int64_t k, gx_scalar a)
{
    int64_t inside;
    row *r = &p->row;
    const gx_csr *B = find(&p->B, k, &inside);
    for (int64_t e = B->start[inside]; e < B->start[inside + 1]; e++) {
        int64_t j = gx_csr_column(B, e);
        gx_scalar b = gx_csr_value(B, e);
        if (r->mark[j] != i + 1) {
            r->mark[j] = i + 1;
            r->list[r->count++] = j;
            memset(r->number + j * r->parts, 0, (size_t)r->parts * sizeof *r->number);
        }
        r->number[j * r->parts] += a.re * b.re - a.im * b.im;
        if (r->parts == 2) {
            r->number[2 * j + 1] += a.re * b.im + a.im * b.re;
        }
    }
}

static int ascending(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static gx_code put_row(product *p, int64_t i, gx_err *err)
{
    row *r = &p->row;
    if (r->count > 1) {
        qsort(r->list, (size_t)r->count, sizeof *r->list, ascending);
    }
    for (int64_t k = 0; k < r->count; k++) {
        int64_t j = r->list[k];
        gx_scalar x = {r->number[j * r->parts], r->parts == 2 ? r->number[2 * j + 1] : 0};
        GX_TRY(gx_sparse_put(&p->out, i, j, x, err));
    }
    r->count = 0;
    return GX_OK;
}

static gx_code multiply_panel(void *arg, const gx_csr *A, int64_t row0, gx_err *err)
{
    enum { POLL_ROWS = 64 };
    product *p = arg;
    for (int64_t i = 0; i < A->rows; i++) {
        for (int64_t e = A->start[i]; e < A->start[i + 1]; e++) {
            gx_scalar a = gx_scalar_times(p->alpha, gx_csr_value(A, e));
            add_row(p, row0 + i, gx_csr_column(A, e), a);
        }
        GX_TRY(put_row(p, row0 + i, err));
        if (i % POLL_ROWS == 0 && gx_run_poll(p->run) != GX_OK) {
            return gx_fail(err, p->run->err.code, "%s", p->run->err.text);
        }
    }
    return GX_OK;
}

gx_code gx_alg_spgemm(gx_run *run, gx_scalar alpha, const gx_mat *A, const gx_mat *B,
                      gx_number dtype, const gx_dest *dest, gx_sink *sink)
{
    product p = {.run = run, .alpha = alpha};
    gx_err err = {0};
    if (gx_sparse_out_begin(run, dest, A->rows, B->cols, dtype, 0, sink, &p.out) == GX_OK &&
        open_whole(run, B, &p.B, &err) == GX_OK &&
        open_row(run, B->cols, gx_number_is_complex(dtype), &p.row, &err) == GX_OK &&
        gx_sparse_each_panel(run, A, multiply_panel, &p) == GX_OK) {
        gx_sparse_out_end(&p.out);
    }
    close_whole(run, &p.B);
    close_row(run, &p.row);
    gx_sparse_out_clear(&p.out);
    return gx_run_fail(run, &err);
}
