/*
** Sparse results from sparse operands: see sparse_alg.h.
**
** Transposing sorts: entries go, their indexes exchanged, to the sorter of cells, which spills what
** memory does not hold.  Slices and maps pass the rows on.  Two operands are two streams of rows,
** merged row by row.
*/
#include "sparse_alg.h"

#include "../mat/assembly.h"
#include "../run/call.h"

#include <stdlib.h>
#include <string.h>

/* By a real number part by part, as the reference has it. */
static gx_scalar scaled(gx_scalar s, gx_scalar x)
{
    return s.im == 0 ? (gx_scalar){s.re * x.re, s.re * x.im} : gx_scalar_times(s, x);
}

// Transposes --------------------------------------------------------------------------------------

typedef struct turning {
    gx_scatter *cells;
    bool is_conjugated;
} turning;

static gx_code put_turned(void *arg, int64_t i, int64_t j, gx_scalar x, gx_err *err)
{
    const turning *t = arg;
    x.im = t->is_conjugated ? -x.im : x.im;
    return gx_scatter_add(t->cells, j, i, x, err);
}

/* Entries of A, as put() hands them to *cells, sorted: arg is put's, and holds cells. */
static gx_code sort_entries(gx_run *run, const gx_mat *A, const gx_scatter_spec *spec,
                            gx_sparse_visit put, void *arg, gx_scatter **cells, const gx_dest *dest,
                            gx_sink *sink)
{
    gx_err err = {0};
    *sink = (gx_sink){.run = run};
    if (gx_ok(run) && gx_scatter_create(run->ctx, spec, cells, &err) == GX_OK &&
        gx_sparse_each(run, A, put, arg) == GX_OK) {
        gx_scatter_finish(*cells, run, dest, sink);
    }
    gx_scatter_free(*cells);
    return gx_run_fail(run, &err);
}

gx_code gx_sparse_transpose(gx_run *run, const gx_mat *A, gx_trans op, const gx_dest *dest,
                            uint32_t properties, gx_sink *sink)
{
    turning t = {.is_conjugated = op == GX_CONJ_TRANS};
    const gx_scatter_spec spec = {.rows = A->cols,
                                  .cols = A->rows,
                                  .dtype = A->number,
                                  .is_sparse = true,
                                  .properties = properties};
    return sort_entries(run, A, &spec, put_turned, &t, &t.cells, dest, sink);
}

// Slices ------------------------------------------------------------------------------------------

typedef struct slicing {
    gx_sparse_out out;
    int64_t i0, i1, j0, j1;
} slicing;

static gx_code put_inside(void *arg, int64_t i, int64_t j, gx_scalar x, gx_err *err)
{
    slicing *s = arg;
    bool is_inside = i >= s->i0 && i < s->i1 && j >= s->j0 && j < s->j1;
    return is_inside ? gx_sparse_put(&s->out, i - s->i0, j - s->j0, x, err) : GX_OK;
}

gx_code gx_sparse_slice(gx_run *run, const gx_mat *A, int64_t i0, int64_t i1, int64_t j0,
                        int64_t j1, const gx_dest *dest, gx_sink *sink)
{
    slicing s = {.i0 = i0, .i1 = i1, .j0 = j0, .j1 = j1};
    if (gx_sparse_out_begin(run, dest, i1 - i0, j1 - j0, A->number, 0, sink, &s.out) == GX_OK &&
        gx_sparse_each(run, A, put_inside, &s) == GX_OK) {
        gx_sparse_out_end(&s.out);
    }
    gx_sparse_out_clear(&s.out);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Lists -------------------------------------------------------------------------------------------

/* A line that is wanted, and where it goes. */
typedef struct wish {
    int64_t number, place;
} wish;

typedef struct picking {
    gx_scatter *cells;
    bool is_rows;
    wish *wish; /* in ascending order */
    int64_t count;
} picking;

static int compare_wishes(const void *a, const void *b)
{
    const wish *x = a, *y = b;
    int order = (x->number > y->number) - (x->number < y->number);
    return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

static gx_code put_picked(void *arg, int64_t i, int64_t j, gx_scalar x, gx_err *err)
{
    const picking *p = arg;
    int64_t number = p->is_rows ? i : j, low = 0;
    GX_BISECT(low, p->count, middle, p->wish[middle].number < number)
    for (; low < p->count && p->wish[low].number == number; low++) {
        int64_t place = p->wish[low].place;
        GX_TRY(gx_scatter_add(p->cells, p->is_rows ? place : i, p->is_rows ? j : place, x, err));
    }
    return GX_OK;
}

gx_code gx_sparse_pick(gx_run *run, const gx_mat *A, bool is_rows, const int64_t *number,
                       int64_t count, const gx_dest *dest, gx_sink *sink)
{
    picking p = {.is_rows = is_rows, .count = count};
    const gx_scatter_spec spec = {.rows = is_rows ? count : A->rows,
                                  .cols = is_rows ? A->cols : count,
                                  .dtype = A->number,
                                  .is_sparse = true};
    *sink = (gx_sink){.run = run};
    p.wish = gx_run_alloc(run, (size_t)count * sizeof(wish), "a list of lines");
    if (p.wish == NULL) {
        return run->err.code;
    }
    for (int64_t k = 0; k < count; k++) {
        p.wish[k] = (wish){number[k], k};
    }
    if (count > 0) {
        qsort(p.wish, (size_t)count, sizeof *p.wish, compare_wishes);
    }
    sort_entries(run, A, &spec, put_picked, &p, &p.cells, dest, sink);
    gx_mem_free(run->ctx->mem, p.wish);
    return run->err.code;
}

// Rows of two operands ----------------------------------------------------------------------------

/* A matrix whose rows are asked for in ascending order. */
typedef struct rows {
    const gx_mat *A;
    gx_reader *reader;
    void *block;
    gx_csr csr;
    int64_t piece, row0; /* what csr is; -1: nothing */
} rows;

static gx_code open_rows(gx_run *run, const gx_mat *A, rows *r, gx_err *err)
{
    *r = (rows){.A = A, .piece = -1};
    GX_TRY(gx_mem_alloc(run->ctx->mem, gx_sparse_block_bytes(A), "a panel", &r->block, err));
    return A->kind == GX_MAT_STORED ? gx_reader_own(run->ctx->store, &r->reader, err) : GX_OK;
}

static void close_rows(gx_run *run, rows *r)
{
    gx_reader_close(r->reader);
    gx_mem_free(run->ctx->mem, r->block);
}

/* Entries [*e, *end) of row i. */
static gx_code find_row(rows *r, int64_t i, int64_t *e, int64_t *end, gx_err *err)
{
    while (r->piece < 0 || i >= r->row0 + r->csr.rows) {
        r->piece++;
        GX_TRY(gx_sparse_read(r->A, r->reader, r->piece, r->block, &r->csr, err));
        r->row0 = gx_sparse_piece_row(r->A, r->piece);
    }
    *e = r->csr.start[i - r->row0];
    *end = r->csr.start[i - r->row0 + 1];
    return GX_OK;
}

typedef struct merging {
    rows A, B;
    gx_scalar alpha, beta;
    bool is_product;
    gx_sparse_out out;
} merging;

static gx_code merge_row(merging *m, int64_t i, gx_err *err)
{
    int64_t a, a_end, b, b_end;
    GX_TRY(find_row(&m->A, i, &a, &a_end, err));
    GX_TRY(find_row(&m->B, i, &b, &b_end, err));
    while (a < a_end || b < b_end) {
        int64_t ja = a < a_end ? gx_csr_column(&m->A.csr, a) : INT64_MAX;
        int64_t jb = b < b_end ? gx_csr_column(&m->B.csr, b) : INT64_MAX, j = gx_min(ja, jb);
        gx_scalar x = {0, 0}, y = {0, 0};
        x = ja == j ? scaled(m->alpha, gx_csr_value(&m->A.csr, a++)) : x;
        y = jb == j ? gx_csr_value(&m->B.csr, b++) : y;
        if (m->is_product && ja == jb) {
            GX_TRY(gx_sparse_put(&m->out, i, j, gx_scalar_times(x, y), err));
        } else if (!m->is_product) {
            y = scaled(m->beta, y);
            GX_TRY(gx_sparse_put(&m->out, i, j, (gx_scalar){x.re + y.re, x.im + y.im}, err));
        }
    }
    return GX_OK;
}

static gx_code merge_rows(gx_run *run, merging *m, gx_err *err)
{
    enum { POLL_ROWS = 4096 };
    int64_t count = m->A.A->cols == 0 ? 0 : m->A.A->rows;
    gx_run_progress(run, (double)count);
    for (int64_t i = 0; i < count; i++) {
        GX_TRY(merge_row(m, i, err));
        if (i % POLL_ROWS == 0) {
            gx_run_advance(run, POLL_ROWS);
            if (gx_run_poll(run) != GX_OK) {
                return gx_fail(err, run->err.code, "%s", run->err.text);
            }
        }
    }
    return GX_OK;
}

static gx_code merge(gx_run *run, merging *m, const gx_mat *A, const gx_mat *B, gx_number dtype,
                     const gx_dest *dest, gx_sink *sink)
{
    gx_err err = {0};
    uint32_t both = A->properties & B->properties & (GX_PROP_LOWER | GX_PROP_UPPER);
    if (gx_sparse_out_begin(run, dest, A->rows, A->cols, dtype, both, sink, &m->out) == GX_OK &&
        open_rows(run, A, &m->A, &err) == GX_OK && open_rows(run, B, &m->B, &err) == GX_OK &&
        merge_rows(run, m, &err) == GX_OK) {
        gx_sparse_out_end(&m->out);
    }
    close_rows(run, &m->A);
    close_rows(run, &m->B);
    gx_sparse_out_clear(&m->out);
    return gx_run_fail(run, &err);
}

gx_code gx_sparse_add(gx_run *run, gx_scalar alpha, const gx_mat *A, gx_scalar beta,
                      const gx_mat *B, gx_number dtype, const gx_dest *dest, gx_sink *sink)
{
    merging m = {.alpha = alpha, .beta = beta};
    return merge(run, &m, A, B, dtype, dest, sink);
}

gx_code gx_sparse_times(gx_run *run, gx_scalar alpha, const gx_mat *A, const gx_mat *B,
                        gx_number dtype, const gx_dest *dest, gx_sink *sink)
{
    merging m = {.alpha = alpha, .is_product = true};
    return merge(run, &m, A, B, dtype, dest, sink);
}

// Elementwise functions ---------------------------------------------------------------------------

bool gx_sparse_keeps_zero(gx_map_kind kind)
{
    const gx_map_facts *row = gx_map_row(kind);
    return row->operands == 1 && (row->keeps & GX_PROP_LOWER) != 0;
}

typedef struct mapping {
    gx_run *run;
    gx_map_kind kind;
    gx_scalar alpha;
    void *values; /* of a panel */
    gx_sparse_out out;
} mapping;

/* Entries of a panel through the kernel, of A's dtype; dtype of the result may be its real one. */
static gx_code map_panel(void *arg, const gx_csr *csr, int64_t row0, gx_err *err)
{
    mapping *x = arg;
    gx_run *run = x->run;
    int64_t first = csr->start[0];
    gx_args args = {.map = x->kind,
                    .m = csr->entries,
                    .n = 1,
                    .a = (const char *)csr->value + (size_t)first * gx_number_bytes(csr->dtype),
                    .lda = gx_max(1, csr->entries),
                    .alpha = x->alpha,
                    .beta = {1, 0},
                    .c = x->values,
                    .ldc = gx_max(1, csr->entries)};
    if (gx_run_call(run, GX_MAP, csr->dtype, &args) != GX_OK) {
        return gx_fail(err, run->err.code, "%s", run->err.text);
    }
    const gx_csr mapped = {.dtype = csr->dtype, .value = x->values};
    for (int64_t i = 0; i < csr->rows; i++) {
        for (int64_t e = csr->start[i]; e < csr->start[i + 1]; e++) {
            GX_TRY(gx_sparse_put(&x->out, row0 + i, gx_csr_column(csr, e),
                                 gx_csr_value(&mapped, e - first), err));
        }
    }
    return GX_OK;
}

gx_code gx_sparse_map(gx_run *run, gx_map_kind kind, gx_scalar alpha, const gx_mat *A,
                      gx_number dtype, uint32_t properties, const gx_dest *dest, gx_sink *sink)
{
    mapping x = {.run = run, .kind = kind, .alpha = alpha};
    size_t bytes = (size_t)gx_sparse_most_entries(A) * gx_number_bytes(A->number);
    gx_sparse_out_begin(run, dest, A->rows, A->cols, dtype, properties, sink, &x.out);
    x.values = gx_run_alloc(run, bytes, "values of a panel");
    if (x.values != NULL && gx_sparse_each_panel(run, A, map_panel, &x) == GX_OK) {
        gx_sparse_out_end(&x.out);
    }
    gx_mem_free(run->ctx->mem, x.values);
    gx_sparse_out_clear(&x.out);
    return gx_ok(run) ? GX_OK : run->err.code;
}
