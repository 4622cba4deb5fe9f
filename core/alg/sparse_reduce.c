/*
** Reductions of a sparse matrix: see sparse_alg.h.
**
** A streamed pass over the pieces (exec/pass.c).  What all entries come to is one kernel call on
** the values of a piece (GX_REDUCE), folded in the order of the pieces; sums along rows are written
** where they belong, since a row is in one piece; sums down the columns are added by the fold, in
** order.  So the bits depend on no number of threads.  The zeros between count for the smallest and
** the largest element, and for nothing else.
**
** Extremes of lines go entry by entry, whose places in a line ascend, so that the first place that
** has no entry is known too: there the first of the zeros is.
*/
#include "sparse_alg.h"

#include "../exec/pass.h"
#include "../run/call.h"

#include <math.h>

typedef struct scan {
    gx_run *run;
    const gx_mat *A;
    gx_reduce_kind kind;
    double *out;
    const gx_backend *backend;
    gx_dev *dev;
    size_t block_bytes;
} scan;

/* A piece that waits to be folded; its block stands behind it. */
typedef struct piece {
    gx_csr csr;
    double result[2];
} piece;

enum { PIECE_BYTES = (sizeof(piece) + 63) / 64 * 64 };

static bool is_by_column(gx_reduce_kind kind)
{
    return kind == GX_REDUCE_COL_ABS || kind == GX_REDUCE_COL_SUM;
}

static bool is_by_row(gx_reduce_kind kind)
{
    return kind == GX_REDUCE_ROW_ABS || kind == GX_REDUCE_ROW_SUM;
}

/* One entry into its line's sum. */
static void add_entry(gx_reduce_kind kind, double *out, int64_t line, gx_scalar x)
{
    if (kind == GX_REDUCE_COL_ABS || kind == GX_REDUCE_ROW_ABS) {
        out[line] += x.im == 0 ? fabs(x.re) : hypot(x.re, x.im);
    } else {
        out[2 * line] += x.re;
        out[2 * line + 1] += x.im;
    }
}

static void add_lines(const scan *s, const gx_csr *csr, int64_t row0)
{
    for (int64_t i = 0; i < csr->rows; i++) {
        for (int64_t e = csr->start[i]; e < csr->start[i + 1]; e++) {
            add_entry(s->kind, s->out, is_by_row(s->kind) ? row0 + i : gx_csr_column(csr, e),
                      gx_csr_value(csr, e));
        }
    }
}

static gx_code work(void *arg, int64_t unit, gx_pass_thread *thread, void *memory, void *part,
                    gx_err *err)
{
    const scan *s = arg;
    piece *p = part;
    (void)memory;
    GX_TRY(gx_pass_read_piece(thread, s->A, unit, (char *)part + PIECE_BYTES, &p->csr, err));
    if (is_by_row(s->kind)) {
        add_lines(s, &p->csr, gx_sparse_piece_row(s->A, unit));
    }
    if (is_by_row(s->kind) || is_by_column(s->kind)) {
        return GX_OK;
    }
    size_t first = (size_t)p->csr.start[0] * gx_number_bytes(s->A->number);
    gx_args args = {.m = p->csr.entries,
                    .n = 1,
                    .a = (const char *)p->csr.value + first,
                    .lda = gx_max(1, p->csr.entries),
                    .reduce_kind = s->kind,
                    .reduce = p->result};
    return s->backend->kernel[GX_REDUCE][s->A->number](s->dev, NULL, &args, err);
}

static gx_code fold(void *arg, int64_t unit, void *part, gx_err *err)
{
    const scan *s = arg;
    const piece *p = part;
    (void)unit, (void)err;
    gx_fold_add(gx_reduce_fold(s->kind), 1, s->out, p->result);
    if (is_by_column(s->kind)) {
        add_lines(s, &p->csr, 0);
    }
    return GX_OK;
}

/* What the zeros between the entries come to. */
static void start(const scan *s)
{
    int64_t width = gx_reduce_width(s->kind, s->A->rows, s->A->cols), all = 0;
    bool has_zeros = !gx_mul_i64(s->A->rows, s->A->cols, &all) || gx_sparse_entries(s->A) < all;
    for (int64_t k = 0; k < width; k++) {
        s->out[k] = 0;
    }
    if (s->kind == GX_REDUCE_SUMSQ) {
        s->out[0] = 1;
    } else if (!has_zeros && s->kind == GX_REDUCE_MIN) {
        s->out[0] = INFINITY;
    } else if (!has_zeros && s->kind == GX_REDUCE_MAX) {
        s->out[0] = -INFINITY;
    }
}

gx_code gx_sparse_reduce(gx_run *run, const gx_mat *A, gx_reduce_kind kind, double *out)
{
    scan s = {.run = run, .A = A, .kind = kind, .out = out};
    if (!gx_ok(run) || gx_run_device(run, &s.backend, &s.dev) != GX_OK) {
        return run->err.code;
    }
    start(&s);
    gx_pass pass = {.sources = &s.A,
                    .source_count = 1,
                    .units = gx_sparse_pieces(A),
                    .bytes = (double)gx_sparse_bytes(A),
                    .flops = (double)gx_sparse_entries(A),
                    .part_bytes = PIECE_BYTES + gx_sparse_block_bytes(A),
                    .work = work,
                    .fold = fold,
                    .arg = &s};
    return gx_pass_run(run, &pass);
}

static gx_code add_diagonal(void *arg, int64_t i, int64_t j, gx_scalar x, gx_err *err)
{
    gx_scalar *sum = arg;
    (void)err;
    sum->re += i == j ? x.re : 0;
    sum->im += i == j ? x.im : 0;
    return GX_OK;
}

gx_code gx_sparse_trace(gx_run *run, const gx_mat *A, gx_scalar *trace)
{
    gx_err err = {0};
    (void)gx_sparse_each(run, A, add_diagonal, trace, &err);
    return gx_run_fail(run, &err);
}

// Extremes of lines -------------------------------------------------------------------------------

typedef struct best {
    double most;
    int64_t place; /* -1: no entry yet                  */
    int64_t gap;   /* the first place without an entry  */
} best;

typedef struct extremes {
    const gx_mat *A;
    bool is_max;
    int64_t axis;
    best *of;
} extremes;

static bool is_beyond(const extremes *x, double a, double b)
{
    return x->is_max ? a > b : a < b;
}

static gx_code look_at_entry(void *arg, int64_t i, int64_t j, gx_scalar value, gx_err *err)
{
    const extremes *x = arg;
    best *b = &x->of[x->axis == 0 ? j : x->axis == 1 ? i : 0];
    int64_t place = x->axis == 0 ? i : x->axis == 1 ? j : i * x->A->cols + j;
    (void)err;
    b->gap += place == b->gap;
    if (b->place < 0 || (!isnan(b->most) && (isnan(value.re) || is_beyond(x, value.re, b->most)))) {
        b->most = value.re;
        b->place = place;
    }
    return GX_OK;
}

/* The zeros between the entries take part. */
static void look_at_zeros(const extremes *x, int64_t length, best *b)
{
    bool is_first = b->place < 0 || (b->most == 0 && b->gap < b->place);
    if (b->gap < length && (is_first || is_beyond(x, 0, b->most))) {
        b->most = 0;
        b->place = b->gap;
    }
}

gx_code gx_sparse_extremes(gx_run *run, const gx_mat *A, bool is_max, int64_t axis, double *most,
                           double *place)
{
    int64_t count = axis == 0 ? A->cols : axis == 1 ? A->rows : 1;
    int64_t length = axis == 0 ? A->rows : axis == 1 ? A->cols : A->rows * A->cols; // < 2^56
    gx_err err = {0};
    extremes x = {.A = A, .is_max = is_max, .axis = axis};
    if (gx_ok(run)) {
        gx_mem_alloc(run->ctx->mem, (size_t)count * sizeof(best), "extremes", &x.of, &err);
    }
    if (gx_run_fail(run, &err) != GX_OK) {
        return run->err.code;
    }
    for (int64_t k = 0; k < count; k++) {
        x.of[k] = (best){.place = -1};
    }
    (void)gx_sparse_each(run, A, look_at_entry, &x, &err);
    gx_run_fail(run, &err);
    for (int64_t k = 0; k < count && gx_ok(run); k++) {
        look_at_zeros(&x, length, &x.of[k]);
        if (most != NULL) {
            most[k] = x.of[k].most;
        }
        if (place != NULL) {
            place[k] = (double)x.of[k].place;
        }
    }
    gx_mem_free(run->ctx->mem, x.of);
    return gx_ok(run) ? GX_OK : run->err.code;
}
