/*
** Reductions: one pass over a matrix, reduced where it is read.
**
** A streamed pass (pass.h) whose units are tiles: each is read a chunk at a time, and folded while
** it is in the core's own cache, so a scan runs at the rate of the reads.  Each tile has a partial
** result, and these are folded in the tiles' order: the same bits whatever the number of
** threads.  Sums along rows that one tile holds whole need no folding, and are written where they
** belong by the thread that makes them: ten million of them are as much memory as many a matrix.
**
** I/O: each tile once.  Memory: for each thread a chunk, and two partial results: 1-2 doubles, for
** row results one (complex sums: two) a row of a tile, for column results one (two) a column.
**
** Of a sparse matrix the units are pieces.  What all entries come to is one kernel call on the
** values of a piece; sums along rows are written where they belong, since a row is in one piece;
** sums down the columns are added by the fold, in order.  The zeros between count for the smallest
** and the largest element, and for nothing else.  Extremes of lines go entry by entry, whose places
** in a line ascend, so that the first place without an entry is known: there the first zero is.
*/
#include "../exec/pass.h"
#include "alg.h"
#include "dense.h"
#include "by_parts.h"
#include "sparse_alg.h"

#include <math.h>
#include <string.h>

/*
** Sums along rows of tiles that are higher than ROWS_MOST: those of a chunk would not stay in the
** cache beside it, so more columns go together.
*/
static const int64_t ROWS_MOST = 4096, PIECE_BYTES = 2 << 20;

typedef struct scan {
    gx_run *run;
    const gx_mat *A;
    gx_reduce_kind kind;
    gx_kernel kernel;
    gx_dev *dev;
    int64_t row_tiles, col_tiles;
    int64_t chunk_rows, chunk_cols;
    double *out;
    bool is_direct; /* tiles share no element of the result */
    bool is_real;   /* sums whose imaginary parts, all 0, are dropped */
    double divisor; /* of sums */
} scan;

static bool is_row_kind(gx_reduce_kind kind)
{
    return kind == GX_REDUCE_ROW_ABS || kind == GX_REDUCE_ROW_SUM;
}

static bool is_col_kind(gx_reduce_kind kind)
{
    return kind == GX_REDUCE_COL_ABS || kind == GX_REDUCE_COL_SUM;
}

static bool is_sum_kind(gx_reduce_kind kind)
{
    return kind == GX_REDUCE_ROW_SUM || kind == GX_REDUCE_COL_SUM;
}

static int64_t doubles_per_item(const scan *s)
{
    return is_sum_kind(s->kind) && !s->is_real ? 2 : 1;
}

/* Doubles of the result of m x n elements. */
static int64_t width_of(const scan *s, int64_t m, int64_t n)
{
    return gx_reduce_width(s->kind, m, n) / (s->is_real ? 2 : 1);
}

static void start_partial(gx_reduce_kind kind, double *acc, int64_t width)
{
    memset(acc, 0, (size_t)width * sizeof *acc);
    if (kind == GX_REDUCE_MIN) {
        acc[0] = (double)INFINITY;
    } else if (kind == GX_REDUCE_MAX) {
        acc[0] = -(double)INFINITY;
    }
}

/* acc takes part in; part begins `offset` rows or columns into acc and has width doubles. */
static void fold(const scan *s, double *acc, int64_t offset, const double *part, int64_t width)
{
    gx_fold_add(gx_reduce_fold(s->kind), 1, acc, part);
    for (int64_t p = 0; p < width && gx_reduce_fold(s->kind) == GX_FOLD_NONE; p++) {
        acc[offset * doubles_per_item(s) + p] += part[p];
    }
}

static int64_t offset_of(gx_reduce_kind kind, int64_t i, int64_t j)
{
    return is_row_kind(kind) ? i : is_col_kind(kind) ? j : 0;
}

static gx_tile_place tile_of(const gx_mat *A, int64_t tile)
{
    return gx_tile_at(A->rows, A->cols, A->tile_rows, A->tile_cols, tile);
}

/* The result of one kernel call lies behind the chunk. */
static size_t chunk_bytes(const scan *s)
{
    size_t bytes = (size_t)(s->chunk_rows * s->chunk_cols) * gx_number_bytes(s->A->number);
    return gx_whole_lines(bytes);
}

static double *result_of(const scan *s, int64_t i, int64_t j)
{
    return s->out + offset_of(s->kind, i, j) * doubles_per_item(s);
}

/* The real parts alone. */
static void drop_imaginary(double *sums, int64_t count)
{
    for (int64_t p = 1; p < count; p++) {
        sums[p] = sums[2 * p];
    }
}

static void divide(double *sums, int64_t count, double divisor)
{
    for (int64_t p = 0; p < count && divisor != 1; p++) {
        sums[p] /= divisor;
    }
}

/*
** A rectangle in chunks, into acc, where it begins at (i0, j0).  src: it lies in memory; NULL: the
** thread reads it.
*/
static gx_code reduce_chunks(const scan *s, const gx_tile_place *r, gx_pass_thread *thread,
                             const void *src, int64_t ld, int64_t i0, int64_t j0, void *work,
                             double *acc, gx_err *err)
{
    double *latest = (double *)((char *)work + (src == NULL ? chunk_bytes(s) : 0));
    gx_number number = s->A->number;
    for (int64_t i = 0; i < r->m && gx_ok(s->run); i += s->chunk_rows) {
        for (int64_t j = 0; j < r->n && gx_ok(s->run); j += s->chunk_cols) {
            gx_args args = {.m = gx_min(s->chunk_rows, r->m - i),
                            .n = gx_min(s->chunk_cols, r->n - j),
                            .reduce_kind = s->kind,
                            .reduce = latest};
            if (src != NULL) {
                args.a = gx_at(src, number, ld, i, j);
                args.lda = ld;
            } else {
                GX_TRY(gx_pass_take(thread, s->A, r->i0 + i, r->j0 + j, args.m, args.n,
                                    gx_dtype_of(number), work, &args.a, &args.lda, err));
            }
            GX_TRY(s->kernel(s->dev, NULL, &args, err));
            int64_t width = width_of(s, args.m, args.n);
            if (s->is_real) {
                drop_imaginary(latest, width);
            }
            fold(s, acc, offset_of(s->kind, i0 + i, j0 + j), latest, width);
        }
    }
    return GX_OK;
}

static gx_code reduce_tile(void *arg, int64_t tile, gx_pass_thread *thread, void *work, void *part,
                           gx_err *err)
{
    const scan *s = arg;
    gx_tile_place r = tile_of(s->A, tile);
    double *acc = s->is_direct ? result_of(s, r.i0, r.j0) : part;
    start_partial(s->kind, acc, width_of(s, r.m, r.n));
    GX_TRY(reduce_chunks(s, &r, thread, NULL, 0, 0, 0, work, acc, err));
    if (s->is_direct) {
        divide(acc, width_of(s, r.m, r.n), s->divisor);
    }
    return GX_OK;
}

static gx_code fold_tile(void *arg, int64_t tile, void *part, gx_err *err)
{
    const scan *s = arg;
    gx_tile_place r = tile_of(s->A, tile);
    (void)err;
    fold(s, s->out, offset_of(s->kind, r.i0, r.j0), part, width_of(s, r.m, r.n));
    return GX_OK;
}

/* By the tile's shape alone. */
static void choose_chunks(scan *s)
{
    int64_t element = (int64_t)gx_number_bytes(s->A->number);
    int64_t elements = GX_PASS_CHUNK_BYTES / element;
    if (is_row_kind(s->kind) && s->A->tile_rows > ROWS_MOST) {
        elements = PIECE_BYTES / element;
        s->chunk_cols = gx_max(1, gx_min(elements / s->A->tile_rows, s->A->tile_cols));
        s->chunk_rows = gx_min(elements / s->chunk_cols, s->A->tile_rows);
        return;
    }
    s->chunk_rows = gx_max(1, gx_min(elements, s->A->tile_rows));
    s->chunk_cols = gx_max(1, gx_min(elements / s->chunk_rows, s->A->tile_cols));
}

static void run_scan(scan *s)
{
    size_t bytes = 0;
    const gx_mat *A = s->A;
    gx_matrix_bytes(A->rows, A->cols, A->number, &bytes);
    int64_t latest = gx_reduce_width(s->kind, s->chunk_rows, s->chunk_cols);
    int64_t width = width_of(s, A->tile_rows, A->tile_cols);
    gx_pass pass = {.sources = &s->A,
                    .source_count = 1,
                    .units = s->row_tiles * s->col_tiles,
                    .bytes = (double)bytes,
                    .work_bytes = chunk_bytes(s) + (size_t)latest * sizeof(double),
                    .part_bytes = s->is_direct ? 0 : (size_t)width * sizeof(double),
                    .work = reduce_tile,
                    .fold = s->is_direct ? NULL : fold_tile,
                    .arg = s};
    gx_pass_run(s->run, &pass);
}

typedef struct taking {
    const scan *s;
    void *latest;
} taking;

static gx_code take_rectangle(void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n,
                              const void *src, int64_t ld, gx_err *err)
{
    const taking *t = arg;
    const gx_tile_place r = {i0, j0, m, n};
    return reduce_chunks(t->s, &r, NULL, src, ld, i0, j0, t->latest, t->s->out, err);
}

/* What is made once, as it comes: in the order in which it is made. */
static void reduce_made(scan *s)
{
    const gx_mat *A = s->A;
    gx_sink sink;
    taking t = {.s = s};
    int64_t latest = gx_reduce_width(s->kind, s->chunk_rows, s->chunk_cols);
    gx_sink_begin_nowhere(s->run, A->rows, A->cols, A->number, A->tile_rows, A->tile_cols, &sink);
    t.latest = gx_run_alloc(s->run, (size_t)latest * sizeof(double), "a reduction");
    sink.take = take_rectangle;
    sink.take_arg = &t;
    if (t.latest != NULL) {
        A->make(s->run, A->make_arg, &sink);
    }
    gx_mem_free(s->run->ctx->mem, t.latest);
}

static gx_code reduce(scan *s)
{
    gx_run *run = s->run;
    const gx_mat *A = s->A;
    const gx_backend *backend;
    if (!gx_ok(run) || gx_run_device(run, &backend, &s->dev) != GX_OK) {
        return run->err.code;
    }
    s->kernel = backend->kernel[GX_REDUCE][A->number];
    bool is_empty = A->rows == 0 || A->cols == 0;
    s->row_tiles = is_empty ? 0 : gx_ceil_div(A->rows, A->tile_rows);
    s->col_tiles = is_empty ? 0 : gx_ceil_div(A->cols, A->tile_cols);
    s->is_direct = A->make == NULL && ((is_row_kind(s->kind) && s->col_tiles == 1) ||
                                       (is_col_kind(s->kind) && s->row_tiles == 1));
    if (!s->is_direct) {
        start_partial(s->kind, s->out, width_of(s, A->rows, A->cols));
    }
    if (!is_empty) {
        choose_chunks(s);
        if (A->make != NULL) {
            reduce_made(s);
        } else {
            run_scan(s);
        }
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Sparse ------------------------------------------------------------------------------------------

typedef struct sparse_scan {
    gx_run *run;
    const gx_mat *A;
    gx_reduce_kind kind;
    double *out;
    const gx_backend *backend;
    gx_dev *dev;
    size_t block_bytes;
} sparse_scan;

/* A piece that waits to be folded; its block stands behind it. */
typedef struct piece {
    gx_csr csr;
    double result[2];
} piece;

enum { WAITING_BYTES = (sizeof(piece) + 63) / 64 * 64 };

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

static void add_lines(const sparse_scan *s, const gx_csr *csr, int64_t row0)
{
    for (int64_t i = 0; i < csr->rows; i++) {
        for (int64_t e = csr->start[i]; e < csr->start[i + 1]; e++) {
            add_entry(s->kind, s->out, is_row_kind(s->kind) ? row0 + i : gx_csr_column(csr, e),
                      gx_csr_value(csr, e));
        }
    }
}

static gx_code reduce_piece(void *arg, int64_t unit, gx_pass_thread *thread, void *memory,
                            void *part, gx_err *err)
{
    const sparse_scan *s = arg;
    piece *p = part;
    (void)memory;
    GX_TRY(gx_pass_read_piece(thread, s->A, unit, (char *)part + WAITING_BYTES, &p->csr, err));
    if (is_row_kind(s->kind)) {
        add_lines(s, &p->csr, gx_sparse_piece_row(s->A, unit));
    }
    if (is_row_kind(s->kind) || is_col_kind(s->kind)) {
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

static gx_code fold_piece(void *arg, int64_t unit, void *part, gx_err *err)
{
    const sparse_scan *s = arg;
    const piece *p = part;
    (void)unit, (void)err;
    gx_fold_add(gx_reduce_fold(s->kind), 1, s->out, p->result);
    if (is_col_kind(s->kind)) {
        add_lines(s, &p->csr, 0);
    }
    return GX_OK;
}

/* What the zeros between the entries come to. */
static void start_sparse(const sparse_scan *s)
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

static gx_code reduce_sparse(gx_run *run, const gx_mat *A, gx_reduce_kind kind, double *out)
{
    sparse_scan s = {.run = run, .A = A, .kind = kind, .out = out};
    if (!gx_ok(run) || gx_run_device(run, &s.backend, &s.dev) != GX_OK) {
        return run->err.code;
    }
    start_sparse(&s);
    gx_pass pass = {.sources = &s.A,
                    .source_count = 1,
                    .units = gx_sparse_pieces(A),
                    .bytes = (double)gx_sparse_bytes(A),
                    .flops = (double)gx_sparse_entries(A),
                    .part_bytes = WAITING_BYTES + gx_sparse_block_bytes(A),
                    .work = reduce_piece,
                    .fold = fold_piece,
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

static gx_code trace_of_sparse(gx_run *run, const gx_mat *A, gx_scalar *trace)
{
    return gx_sparse_each(run, A, add_diagonal, trace);
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
    extremes x = {.A = A, .is_max = is_max, .axis = axis};
    x.of = gx_run_alloc(run, (size_t)count * sizeof(best), "extremes");
    if (x.of == NULL) {
        return run->err.code;
    }
    for (int64_t k = 0; k < count; k++) {
        x.of[k] = (best){.place = -1};
    }
    (void)gx_sparse_each(run, A, look_at_entry, &x);
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

// The calls ---------------------------------------------------------------------------------------

/* gx_alg_sums() of a sparse matrix: pairs, of which real sums are the first halves. */
static gx_code sums_of_sparse(gx_run *run, const gx_mat *A, bool is_by_row, double divisor,
                              double *out)
{
    int64_t count = is_by_row ? A->rows : A->cols, parts = gx_number_is_complex(A->number) ? 2 : 1;
    double *pair;
    GX_TRY(gx_dense_alloc(run, GX_F64, count, 2, "sums", &pair));
    reduce_sparse(run, A, is_by_row ? GX_REDUCE_ROW_SUM : GX_REDUCE_COL_SUM, pair);
    for (int64_t k = 0; k < count * parts && gx_ok(run); k++) {
        out[k] = pair[parts == 2 ? k : 2 * k] / divisor;
    }
    gx_mem_free(run->ctx->mem, pair);
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_alg_reduce(gx_run *run, const gx_mat *A, gx_reduce_kind kind, double *out)
{
    if (A->is_sparse) {
        return reduce_sparse(run, A, kind, out);
    }

    return reduce(&(scan){.run = run, .A = A, .kind = kind, .out = out, .divisor = 1});
}

gx_code gx_alg_sums(gx_run *run, const gx_mat *A, bool is_by_row, double divisor, double *out)
{
    if (A->is_sparse) {
        return gx_ok(run) ? sums_of_sparse(run, A, is_by_row, divisor, out) : run->err.code;
    }
    scan s = {.run = run, .A = A, .out = out, .divisor = divisor};
    s.kind = is_by_row ? GX_REDUCE_ROW_SUM : GX_REDUCE_COL_SUM;
    s.is_real = !gx_number_is_complex(A->number);
    if (reduce(&s) == GX_OK && !s.is_direct) {
        divide(out, width_of(&s, A->rows, A->cols), divisor);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* Largest of count doubles; NaN when there is one. */
static double largest(const double *x, int64_t count)
{
    double most = 0;
    for (int64_t p = 0; p < count; p++) {
        most = isnan(x[p]) || x[p] > most ? x[p] : most;
        if (isnan(most)) {
            break;
        }
    }
    return most;
}

gx_code gx_alg_norm(gx_run *run, const gx_mat *A, char kind, double *norm)
{
    gx_reduce_kind reduce = kind == 'F'   ? GX_REDUCE_SUMSQ
                            : kind == '1' ? GX_REDUCE_COL_ABS
                            : kind == 'I' ? GX_REDUCE_ROW_ABS
                                          : GX_REDUCE_MAX_ABS;
    int64_t width = gx_reduce_width(reduce, A->rows, A->cols);
    double *out;
    if (gx_parts_norm(run, A, kind, norm)) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    GX_TRY(gx_dense_alloc(run, GX_F64, width, 1, "a norm", &out));
    if (gx_alg_reduce(run, A, reduce, out) == GX_OK) {
        if (kind == 'F') {
            *norm = out[1] == 0 ? 0 : out[0] * sqrt(out[1]);
        } else {
            *norm = largest(out, width);
        }
    }
    gx_mem_free(run->ctx->mem, out);
    return gx_ok(run) ? GX_OK : run->err.code;
}

static gx_code add_element(void *arg, int64_t i, gx_scalar x, gx_err *err)
{
    gx_scalar *sum = arg;
    (void)i, (void)err;
    sum->re += x.re;
    sum->im += x.im;
    return GX_OK;
}

gx_code gx_alg_trace(gx_run *run, const gx_mat *A, gx_scalar *trace)
{
    *trace = (gx_scalar){0, 0};
    if (A->rows != A->cols) {
        return gx_run_failf(run, GX_ARG, "%s is %lldx%lld, but the trace is of a square matrix",
                            A->label, (long long)A->rows, (long long)A->cols);
    }
    return A->is_sparse ? trace_of_sparse(run, A, trace)
                        : gx_alg_each_diagonal(run, A, 0, A->rows, add_element, trace);
}
