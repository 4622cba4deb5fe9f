/*
** Products with a sparse matrix: see spmm.h.
**
** The engine.  A row of S adds up columns of a dense block, or is spread over them, so the dense
** block lies in memory as *lines*: L is m x k, column j of it what index j of S names, m lines
** long.  For S on the right (D S) that is D as it is; for S on the left (S D) it is D^T, and what
** comes out are lines of C^T.  With R the lines of the result there are two ways, one kernel
** (GX_SPMM):
**
**   gathered    R = L S^T    a row of S makes one column of R: pieces of S make stretches of R
**   scattered   R = L S      a row of S adds to many columns of R
**
** S on the left untransposed, and on the right transposed, is gathered; so is a symmetric one on
** either side.  S passes as a streamed pass (exec/pass.c): a unit is a piece, which is a panel of
** about 8 MiB, so threads share entries, not rows; a thread that has read one works on it at once.
**
** Turning D and R costs as much as the product where S has a few entries a row.  It pays where the
** places that an entry touches are far from those of the last one: a column of L is then a fetched
** line that is used whole.  Where rows that follow each other name columns that lie together, as
** those of a grid or a band do, the columns of D stay in the cache by themselves and all is done as
** it lies: *columnwise*, with L = D and the result in their own order.  Which of the two, a look at
** one piece of S decides; the bits are the same.
**
** Gathered, threads write to stretches of their own: rows in chunks that stay in the second cache
** with their lines, turned into columns of the result where S is on the left.  Scattered, each
** thread adds to a *lane*, a copy of R; the lanes are added up at the end.  With `deterministic`
** there is one, and pieces are added to it in their order, by whoever folds.
**
** Memory: the lines of L and R for as many lines as fit (LINES_MOST columns fill a page's share of
** cache lines; more than that gains nothing), a panel a thread.  What does not fit goes in rounds
** of fewer lines, each of which reads S once more: entries, not lines, are what is read again.  S
** and D are read by the pass's readers (spmm_stream.c).
*/
#include "spmm_int.h"

#include "../exec/pass.h"
#include "../run/call.h"

#include <string.h>

enum {
    LINE_BYTES_MOST = 512,      /* of a column of L: so many lines, at most, in one round */
    CHUNK_BYTES = 128 << 10,    /* of R that is turned while it is in the cache           */
    ENTRY_BYTES = 1 << 20       /* of S that stay in the cache from columns to columns    */
};

typedef gx_spmm_engine engine;

// A piece -----------------------------------------------------------------------------------------

/* The imaginary parts of count elements. */
static void negate_imaginary(gx_number dtype, void *values, int64_t count)
{
    for (int64_t e = 0; e < count; e++) {
        if (dtype == GX_C128) {
            ((double *)values)[2 * e + 1] *= -1;
        } else {
            ((float *)values)[2 * e + 1] *= -1;
        }
    }
}

/* The values as the product wants them: a copy where they are not of its dtype, or conjugated. */
static void prepare_values(const engine *x, gx_csr *csr, char *values)
{
    if (x->value_bytes > 0) {
        int64_t first = csr->start[0], ld = gx_max(1, csr->entries);
        const char *from = (const char *)csr->value + (size_t)first * gx_number_bytes(csr->dtype);
        gx_convert(csr->dtype, from, ld, x->dtype, values, ld, csr->entries, 1);
        if (x->is_conjugated) {
            negate_imaginary(x->dtype, values, csr->entries);
        }
        // Entries are counted from the panel's first one, in a cut too.
        csr->value = (const void *)((uintptr_t)values - (uintptr_t)first * x->element);
        csr->dtype = x->dtype;
    }
}

static gx_code spmm(const engine *x, const gx_csr *csr, const char *b, int64_t ldb, char *c,
                    int64_t ldc, gx_err *err)
{
    bool is_scattered = x->op == GX_NO_TRANS;
    bool is_column = x->m == 1 && ldb == 1 && ldc == 1 && !is_scattered; // the same both ways
    gx_args args = {.transa = x->op,
                    .transb = x->is_columnwise || is_column ? GX_TRANS : GX_NO_TRANS,
                    .is_fresh = !is_scattered,
                    .m = x->m,
                    .n = is_scattered ? csr->cols : csr->rows,
                    .k = is_scattered ? csr->rows : csr->cols,
                    .alpha = x->alpha,
                    .sparse = csr,
                    .b = b,
                    .ldb = ldb,
                    .c = c,
                    .ldc = ldc};
    return x->backend->kernel[GX_SPMM][x->dtype](x->dev, NULL, &args, err);
}

/* result(row0 .., all lines) = R^T of a chunk. */
static gx_code turn(const engine *x, const char *chunk, int64_t row, int64_t rows, gx_err *err)
{
    gx_args args = {.transa = GX_TRANS,
                    .m = rows,
                    .n = x->m,
                    .a = chunk,
                    .lda = x->m,
                    .c = x->result + (size_t)row * x->element,
                    .ldc = x->ldr};
    return x->backend->kernel[GX_TRANSPOSE][x->dtype](x->dev, NULL, &args, err);
}

/*
** Columns of R that are worked on at a time.  Columnwise nothing is turned, and as many as find
** their entries in the cache again: where stretches are short, the processor begins to foresee
** those of each column again and again.
*/
static int64_t chunk_rows(const engine *x)
{
    if (x->is_columnwise) {
        int64_t row = (int64_t)gx_sparse_bytes(x->S) / gx_max(1, x->n) + 1;
        return gx_max(1, ENTRY_BYTES / row);
    }
    return gx_max(1, CHUNK_BYTES / (int64_t)((size_t)gx_max(1, x->m) * x->element));
}

/* Does the kernel write to the result itself?  A single line lies the same both ways. */
static bool is_direct(const engine *x)
{
    return !x->is_turned || x->is_columnwise || x->m == 1;
}

/* Column j of R, where it lies in the result. */
static char *column_of(const engine *x, int64_t j)
{
    return x->result + (size_t)(x->is_turned ? j : j * x->ldr) * x->element;
}

static gx_code gather(const engine *x, const gx_csr *csr, int64_t row0, char *chunk, gx_err *err)
{
    int64_t most = chunk_rows(x);
    for (int64_t i = 0; i < csr->rows; i += most) {
        gx_csr part = gx_csr_cut(csr, i, gx_min(most, csr->rows - i));
        bool is_there = is_direct(x);
        char *c = is_there ? column_of(x, row0 + i) : chunk;
        int64_t ldc = is_there && (!x->is_turned || x->is_columnwise) ? x->ldr : x->m;
        GX_TRY(spmm(x, &part, x->L, x->ldl, c, ldc, err));
        if (!is_there) {
            GX_TRY(turn(x, chunk, row0 + i, part.rows, err));
        }
    }
    return GX_OK;
}

static char *take_lane(engine *x, int64_t *which)
{
    pthread_mutex_lock(&x->lock);
    int64_t k = 0;
    while (k < x->lanes && x->is_taken[k]) {
        k++;
    }
    if (k < x->lanes) {
        x->is_taken[k] = true;
    }
    *which = k;
    pthread_mutex_unlock(&x->lock);
    return k < x->lanes ? x->lane[k] : NULL;
}

static void give_lane(engine *x, int64_t which)
{
    pthread_mutex_lock(&x->lock);
    x->is_taken[which] = false;
    pthread_mutex_unlock(&x->lock);
}

static gx_code scatter(const engine *x, const gx_csr *csr, int64_t row0, char *lane, gx_err *err)
{
    return spmm(x, csr, x->L + (size_t)(row0 * x->ldl) * x->element, x->ldl, lane, x->m, err);
}

// The pass ----------------------------------------------------------------------------------------

/* A piece in memory, its block behind it; that of an ordered pass waits to be added in its turn. */
typedef struct waiting {
    gx_csr csr;
} waiting;

enum { WAITING_BYTES = (sizeof(waiting) + 63) / 64 * 64 };

static gx_code work(void *arg, int64_t unit, gx_pass_thread *thread, void *memory, void *part,
                    gx_err *err)
{
    engine *x = arg;
    bool waits = x->is_ordered && x->op == GX_NO_TRANS;
    waiting *piece = waits ? part : memory;
    gx_csr *csr = &piece->csr;
    char *block = (char *)piece + WAITING_BYTES;
    GX_TRY(gx_pass_read_piece(thread, x->S, unit, block, csr, err));
    prepare_values(x, csr, block + x->block_bytes);
    int64_t row0 = gx_sparse_piece_row(x->S, unit);
    if (waits) {
        return GX_OK;
    }
    if (x->op != GX_NO_TRANS) {
        return gather(x, csr, row0, block + x->block_bytes + x->value_bytes, err);
    }
    int64_t which;
    char *lane = take_lane(x, &which);
    if (lane == NULL) {
        return gx_fail(err, GX_BUDGET, "more threads than copies of the result");
    }
    gx_code code = scatter(x, csr, row0, lane, err);
    give_lane(x, which);
    return code;
}

static gx_code fold(void *arg, int64_t unit, void *part, gx_err *err)
{
    engine *x = arg;
    return scatter(x, &((waiting *)part)->csr, gx_sparse_piece_row(x->S, unit), x->lane[0], err);
}

static gx_pass pass_of(engine *x, const gx_mat *const sources[1])
{
    bool is_scattered = x->op == GX_NO_TRANS, waits = is_scattered && x->is_ordered;
    size_t piece = WAITING_BYTES + x->block_bytes + x->value_bytes;
    size_t chunk = !is_scattered && !is_direct(x)
                       ? (size_t)chunk_rows(x) * (size_t)x->m * x->element
                       : 0;
    double entries = (double)gx_sparse_entries(x->S);
    return (gx_pass){.sources = sources,
                     .source_count = 1,
                     .units = gx_sparse_pieces(x->S),
                     .bytes = (double)gx_sparse_bytes(x->S),
                     .flops = 2 * entries * (double)x->m,
                     .work_bytes = waits ? 0 : piece + chunk,
                     .part_bytes = waits ? piece : 0,
                     .work = work,
                     .fold = waits ? fold : NULL,
                     .arg = x};
}

/* lane 0 += the others, a stretch of columns a piece. */
static gx_code add_lanes(void *arg, int64_t piece, int member, gx_err *err)
{
    engine *x = arg;
    (void)member;
    int64_t width = chunk_rows(x);
    int64_t j = piece * width, n = gx_min(width, x->n - j);
    for (int64_t k = 1; k < x->lanes; k++) {
        gx_args args = {.map = GX_MAP_ADD,
                        .m = x->m * n,
                        .n = 1,
                        .a = x->lane[0] + (size_t)(j * x->m) * x->element,
                        .lda = x->m * n,
                        .b = x->lane[k] + (size_t)(j * x->m) * x->element,
                        .ldb = x->m * n,
                        .alpha = {1, 0},
                        .beta = {1, 0},
                        .c = x->lane[0] + (size_t)(j * x->m) * x->element,
                        .ldc = x->m * n};
        GX_TRY(x->backend->kernel[GX_MAP][x->dtype](x->dev, NULL, &args, err));
    }
    return GX_OK;
}

/* The result from lane 0, where it is not the result itself. */
static void place_lane(engine *x)
{
    gx_args args = {.transa = GX_TRANS,
                    .m = x->n,
                    .n = x->m,
                    .a = x->lane[0],
                    .lda = x->m,
                    .c = x->result,
                    .ldc = x->ldr};
    if (!x->is_turned) {
        args.m = x->m;
        args.n = x->n;
    }
    gx_run_call(x->run, x->is_turned ? GX_TRANSPOSE : GX_COPY, x->dtype, &args);
}

/* Can lane 0 be the result? */
static bool is_lane(const engine *x)
{
    return x->is_turned ? x->m == 1 : x->ldr == x->m;
}

static size_t lane_bytes(const engine *x)
{
    return (size_t)(x->m * x->n) * x->element;
}

/* Lanes for as many threads as there will be, in what memory holds beside their panels. */
static void make_lanes(engine *x, const gx_pass *pass, gx_err *err)
{
    gx_mem *mem = x->run->ctx->mem;
    size_t bytes = lane_bytes(x);
    int64_t wanted = x->is_ordered ? 1 : gx_pass_threads(x->run, pass);
    if (is_lane(x)) {
        x->lane[x->lanes++] = x->result;
    }
    while (x->lanes < gx_max(1, gx_min(wanted, GX_SPMM_LANES_MOST)) && err->code == GX_OK) {
        void *lane = NULL;
        size_t beside = (size_t)(x->lanes + 1) * gx_pass_thread_bytes(pass);
        if (x->lanes > 0 && gx_mem_available(mem) < bytes + beside) {
            break;
        }
        if (gx_mem_alloc(mem, bytes, "a copy of the result", &lane, err) == GX_OK) {
            x->lane[x->lanes++] = lane;
        }
    }
    for (int64_t k = 0; k < x->lanes; k++) {
        memset(x->lane[k], 0, bytes);
    }
}

static void scatter_all(engine *x, gx_pass *pass)
{
    gx_err err = {0};
    make_lanes(x, pass, &err);
    if (err.code == GX_OK) {
        x->is_ordered = x->is_ordered || x->lanes < gx_pass_threads(x->run, pass);
        const gx_mat *const sources[1] = {x->S};
        *pass = pass_of(x, sources);
        gx_pass_run(x->run, pass);
    }
    gx_run_fail(x->run, &err);
    if (gx_ok(x->run) && x->lanes > 1) {
        gx_run_pieces(x->run, (double)x->m * (double)x->n, gx_ceil_div(x->n, chunk_rows(x)),
                      add_lanes, x);
    }
    if (gx_ok(x->run) && !is_lane(x)) {
        place_lane(x);
    }
    for (int64_t k = is_lane(x) ? 1 : 0; k < x->lanes; k++) {
        gx_mem_free(x->run->ctx->mem, x->lane[k]);
    }
    x->lanes = 0;
}

gx_code gx_spmm_run(gx_spmm_engine *x)
{
    const gx_mat *const sources[1] = {x->S};
    if (!gx_ok(x->run) || gx_run_device(x->run, &x->backend, &x->dev) != GX_OK) {
        return x->run->err.code;
    }
    gx_pass pass = pass_of(x, sources);
    pthread_mutex_init(&x->lock, NULL);
    if (x->m > 0 && x->n > 0 && x->op == GX_NO_TRANS) {
        scatter_all(x, &pass);
    } else if (x->m > 0 && x->n > 0) {
        if (pass.units == 0) { // S has no columns: nothing is added
            for (int64_t j = 0; j < (x->is_turned ? x->m : x->n); j++) {
                memset(x->result + (size_t)(j * x->ldr) * x->element, 0,
                       (size_t)(x->is_turned ? x->n : x->m) * x->element);
            }
        }
        gx_pass_run(x->run, &pass);
    }
    pthread_mutex_destroy(&x->lock);
    return gx_ok(x->run) ? GX_OK : x->run->err.code;
}

void gx_spmm_set_up(gx_spmm_engine *x, gx_run *run, const gx_mat *S, gx_trans op, bool is_left,
                   gx_number dtype)
{
    bool is_own_transpose = (op == GX_TRANS && (S->properties & GX_PROP_SYMMETRIC) != 0) ||
                            (op == GX_CONJ_TRANS && (S->properties & GX_PROP_HERMITIAN) != 0);
    op = is_own_transpose ? GX_NO_TRANS : op;
    *x = (engine){.run = run, .S = S, .dtype = dtype, .element = gx_number_bytes(dtype)};
    x->alpha = (gx_scalar){1, 0};
    x->is_turned = is_left;
    // The transpose of S D is D^T S^T, that of S^T D is D^T S, that of S^H D is D^T conj(S).
    x->op = is_left ? (op == GX_NO_TRANS ? GX_TRANS : GX_NO_TRANS) : op;
    if (!is_left && op == GX_NO_TRANS) { // gathered where it may be
        x->op = (S->properties & GX_PROP_SYMMETRIC) != 0   ? GX_TRANS
                : (S->properties & GX_PROP_HERMITIAN) != 0 ? GX_CONJ_TRANS
                                                           : GX_NO_TRANS;
    }
    x->is_conjugated = is_left && op == GX_CONJ_TRANS && gx_number_is_complex(S->number);
    x->n = op == GX_NO_TRANS ? (is_left ? S->rows : S->cols) : (is_left ? S->cols : S->rows);
    x->is_ordered = run->ctx->config.number[GX_SET_DETERMINISTIC] != 0;
    gx_spmm_read_from(x, S);
}

void gx_spmm_read_from(gx_spmm_engine *x, const gx_mat *S)
{
    x->S = S;
    x->block_bytes = gx_whole_lines(gx_sparse_block_bytes(S));
    x->value_bytes = 0;
    if (S->number != x->dtype || x->is_conjugated) {
        x->value_bytes = gx_whole_lines((size_t)gx_sparse_most_entries(S) * x->element);
    }
}

int64_t gx_spmm_inner(const gx_spmm_engine *x)
{
    return x->op == GX_NO_TRANS ? x->S->rows : x->S->cols;
}

int64_t gx_spmm_lines_most(const gx_spmm_engine *x, int64_t lines)
{
    return gx_max(1, gx_min(lines, LINE_BYTES_MOST / (int64_t)x->element));
}

// Columnwise --------------------------------------------------------------------------------------

/*
** Do rows that follow each other name columns that lie together?  A cache of SLOTS stretches of
** STRETCH columns is played through for some entries: one in SELDOM may find its stretch gone.
*/
static bool lies_together(const gx_csr *csr)
{
    enum { STRETCH_BITS = 9, SLOTS = 64, SELDOM = 16, ENTRIES = 1 << 16 };
    int64_t slot[SLOTS], misses = 0, first = csr->start[0];
    int64_t count = gx_min(csr->entries, ENTRIES);
    for (int k = 0; k < SLOTS; k++) {
        slot[k] = -1;
    }
    for (int64_t e = first; e < first + count; e++) {
        int64_t stretch = gx_csr_column(csr, e) >> STRETCH_BITS;
        misses += slot[stretch % SLOTS] != stretch;
        slot[stretch % SLOTS] = stretch;
    }
    return misses <= count / SELDOM;
}

gx_code gx_spmm_choose_order(gx_spmm_engine *x, int64_t lines, gx_err *err)
{
    gx_mem *mem = x->run->ctx->mem;
    gx_reader *reader = NULL;
    void *block = NULL;
    gx_csr csr;
    size_t bytes = gx_max(x->block_bytes, 1);
    x->is_columnwise = false;
    if (!x->is_turned || x->op == GX_NO_TRANS || lines < 2 || gx_sparse_pieces(x->S) == 0 ||
        gx_mem_available(mem) < 2 * bytes) {
        return GX_OK;
    }
    gx_code code = gx_mem_alloc(mem, bytes, "a panel", &block, err);
    if (code == GX_OK && x->S->kind == GX_MAT_STORED) {
        code = gx_reader_own(x->run->ctx->store, &reader, err);
    }
    if (code == GX_OK) {
        code = gx_sparse_read(x->S, reader, gx_sparse_pieces(x->S) / 2, block, &csr, err);
    }
    x->is_columnwise = code == GX_OK && lies_together(&csr);
    gx_reader_close(reader);
    gx_mem_free(mem, block);
    return code;
}

// In memory ---------------------------------------------------------------------------------------

/* L = X^T, m lines of it, where they are more than one. */
static gx_code turn_operand(engine *x, const void *X, int64_t ldx, void *lines)
{
    gx_args args = {.transa = GX_TRANS,
                    .m = x->m,
                    .n = gx_spmm_inner(x),
                    .a = X,
                    .lda = ldx,
                    .c = lines,
                    .ldc = x->m};
    x->L = lines;
    x->ldl = x->m;
    return gx_run_call(x->run, GX_TRANSPOSE, x->dtype, &args);
}

static gx_code apply_lines(engine *x, const void *X, int64_t ldx, gx_err *err)
{
    gx_mem *mem = x->run->ctx->mem;
    void *lines = NULL;
    if (x->m == 1 || x->is_columnwise) {
        x->L = X;
        x->ldl = x->is_columnwise ? ldx : 1;
    } else {
        GX_TRY(gx_mem_alloc(mem, (size_t)(x->m * gx_spmm_inner(x)) * x->element,
                            "lines of a dense block", &lines, err));
        turn_operand(x, X, ldx, lines);
    }
    gx_spmm_run(x);
    gx_mem_free(mem, lines);
    return GX_OK;
}

gx_code gx_sparse_apply(gx_run *run, const gx_mat *S, gx_trans op, gx_number dtype, int64_t count,
                        const void *X, int64_t ldx, void *Y, int64_t ldy)
{
    engine x;
    gx_err err = {0};
    gx_spmm_set_up(&x, run, S, op, true, dtype);
    int64_t most = gx_spmm_lines_most(&x, count);
    gx_spmm_choose_order(&x, count, &err);
    for (int64_t j = 0; j < count && gx_ok(run) && err.code == GX_OK; j += most) {
        x.m = gx_min(most, count - j);
        x.result = gx_at(Y, dtype, ldy, 0, j);
        x.ldr = ldy;
        apply_lines(&x, gx_at(X, dtype, ldx, 0, j), ldx, &err);
    }
    return gx_run_fail(run, &err);
}

size_t gx_spmm_thread_bytes(gx_spmm_engine *x)
{
    const gx_mat *const sources[1] = {x->S};
    gx_pass pass = pass_of(x, sources);
    return gx_pass_thread_bytes(&pass);
}

size_t gx_sparse_apply_bytes(gx_run *run, const gx_mat *S, gx_trans op, gx_number dtype,
                             int64_t count)
{
    engine x;
    gx_spmm_set_up(&x, run, S, op, true, dtype);
    x.m = gx_spmm_lines_most(&x, count);
    size_t lines = x.m == 1 ? 0 : (size_t)(x.m * gx_spmm_inner(&x)) * x.element;
    size_t lanes = x.op == GX_NO_TRANS && !is_lane(&x) ? lane_bytes(&x) : 0;
    return lines + lanes + gx_spmm_thread_bytes(&x);
}
