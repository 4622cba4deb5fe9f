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
** and D are read by the pass's readers; results are written by the caller between rounds.
*/
#include "spmm.h"

#include "../exec/pass.h"
#include "../run/call.h"
#include "spmm_device.h"

#include <pthread.h>
#include <string.h>

enum {
    LINE_BYTES_MOST = 512,      /* of a column of L: so many lines, at most, in one round */
    CHUNK_BYTES = 128 << 10,    /* of R that is turned while it is in the cache           */
    LOAD_BYTES = 4 << 20,       /* of L, by one thread, where nothing is turned           */
    LANES_MOST = 64
};

/* One round: lines of the result. */
typedef struct engine {
    gx_run *run;
    const gx_mat *S;
    gx_trans op; /* of the kernel: NO_TRANS scatters */
    gx_dtype dtype;
    size_t element;
    const gx_backend *backend;
    gx_dev *dev;
    gx_scalar alpha;
    int64_t m;      /* lines                                                          */
    int64_t n;      /* columns of R                                                   */
    const char *L;  /* m x k                                                          */
    int64_t ldl;
    bool is_turned; /* the result is R^T: S is on the left                            */
    bool is_columnwise; /* L is L^T: k x m                                            */
    char *result;   /* R or R^T                                                       */
    int64_t ldr;
    size_t block_bytes, value_bytes; /* of a piece as it is read; its values in dtype */
    bool is_conjugated; /* the values are, before they are used                      */
    bool is_ordered; /* scattered pieces are added in their order                     */
    pthread_mutex_t lock; /* guards what follows                                      */
    char *lane[LANES_MOST];
    bool is_taken[LANES_MOST];
    int64_t lanes;
} engine;

// A piece -----------------------------------------------------------------------------------------

/* The imaginary parts of count elements. */
static void negate_imaginary(gx_dtype dtype, void *values, int64_t count)
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
        const char *from = (const char *)csr->value + (size_t)first * gx_dtype_bytes(csr->dtype);
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

/* Columns of R that are worked on at a time. */
static int64_t chunk_rows(const engine *x)
{
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
    while (x->lanes < gx_max(1, gx_min(wanted, LANES_MOST)) && err->code == GX_OK) {
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

/* One round: the result of x->m lines, which is overwritten. */
static gx_code run_engine(engine *x)
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

/* The engine for S, which stands on the left or on the right as op(S). */
static void set_up(engine *x, gx_run *run, const gx_mat *S, gx_trans op, bool is_left,
                   gx_dtype dtype)
{
    bool is_own_transpose = (op == GX_TRANS && (S->properties & GX_PROP_SYMMETRIC) != 0) ||
                            (op == GX_CONJ_TRANS && (S->properties & GX_PROP_HERMITIAN) != 0);
    op = is_own_transpose ? GX_NO_TRANS : op;
    *x = (engine){.run = run, .S = S, .dtype = dtype, .element = gx_dtype_bytes(dtype)};
    x->alpha = (gx_scalar){1, 0};
    x->is_turned = is_left;
    // The transpose of S D is D^T S^T, that of S^T D is D^T S, that of S^H D is D^T conj(S).
    x->op = is_left ? (op == GX_NO_TRANS ? GX_TRANS : GX_NO_TRANS) : op;
    if (!is_left && op == GX_NO_TRANS) { // gathered where it may be
        x->op = (S->properties & GX_PROP_SYMMETRIC) != 0   ? GX_TRANS
                : (S->properties & GX_PROP_HERMITIAN) != 0 ? GX_CONJ_TRANS
                                                           : GX_NO_TRANS;
    }
    x->is_conjugated = is_left && op == GX_CONJ_TRANS && gx_dtype_is_complex(S->dtype);
    x->n = op == GX_NO_TRANS ? (is_left ? S->rows : S->cols) : (is_left ? S->cols : S->rows);
    x->block_bytes = (gx_sparse_block_bytes(S) + 63) / 64 * 64;
    x->is_ordered = run->ctx->config.number[GX_SET_DETERMINISTIC] != 0;
    if (S->dtype != dtype || x->is_conjugated) {
        x->value_bytes = ((size_t)gx_sparse_most_entries(S) * x->element + 63) / 64 * 64;
    }
}

/* What the other operand's index counts: columns of L. */
static int64_t inner(const engine *x)
{
    return x->op == GX_NO_TRANS ? x->S->rows : x->S->cols;
}

/* Lines of one round at most, of so many; one at least. */
static int64_t lines_most(const engine *x, int64_t lines)
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

/* A look at the piece in the middle of S, where rows are gathered into several columns. */
static gx_code choose_order(engine *x, int64_t lines, gx_err *err)
{
    gx_mem *mem = x->run->ctx->mem;
    gx_reader *reader = NULL;
    void *block = NULL;
    gx_csr csr;
    size_t bytes = gx_max(x->block_bytes, 1);
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
                    .n = inner(x),
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
        GX_TRY(gx_mem_alloc(mem, (size_t)(x->m * inner(x)) * x->element, "lines of a dense block",
                            &lines, err));
        turn_operand(x, X, ldx, lines);
    }
    run_engine(x);
    gx_mem_free(mem, lines);
    return GX_OK;
}

gx_code gx_sparse_apply(gx_run *run, const gx_mat *S, gx_trans op, gx_dtype dtype, int64_t count,
                        const void *X, int64_t ldx, void *Y, int64_t ldy)
{
    engine x;
    gx_err err = {0};
    set_up(&x, run, S, op, true, dtype);
    int64_t most = lines_most(&x, count);
    choose_order(&x, count, &err);
    for (int64_t j = 0; j < count && gx_ok(run) && err.code == GX_OK; j += most) {
        x.m = gx_min(most, count - j);
        x.result = gx_at(Y, dtype, ldy, 0, j);
        x.ldr = ldy;
        apply_lines(&x, gx_at(X, dtype, ldx, 0, j), ldx, &err);
    }
    return gx_run_fail(run, &err);
}

/* What a round takes beside L and the result: lanes of one thread, and a thread. */
static size_t thread_bytes(engine *x)
{
    const gx_mat *const sources[1] = {x->S};
    gx_pass pass = pass_of(x, sources);
    return gx_pass_thread_bytes(&pass);
}

size_t gx_sparse_apply_bytes(gx_run *run, const gx_mat *S, gx_trans op, gx_dtype dtype,
                             int64_t count)
{
    engine x;
    set_up(&x, run, S, op, true, dtype);
    x.m = lines_most(&x, count);
    size_t lines = x.m == 1 ? 0 : (size_t)(x.m * inner(&x)) * x.element;
    return lines + (x.op == GX_NO_TRANS && !is_lane(&x) ? lane_bytes(&x) : 0) + thread_bytes(&x);
}

// From sources to sinks ---------------------------------------------------------------------------

/* A product on its way. */
typedef struct product {
    engine x;
    gx_mat D;         /* dense; op(D) as a view                              */
    bool is_left;     /* S is                                                */
    int64_t lines;    /* of R: columns of op(D) where S is on the left, else rows */
    int64_t round;    /* lines at a time                                     */
    gx_sink *sink;
    void *L, *block;  /* what it has allocated                               */
    int64_t l0;       /* the round's first line                              */
    int64_t width;    /* of what is loaded at once: columns of L             */
} product;

/* Are lines of D in memory as they are wanted? */
static bool is_in_place(const product *p)
{
    const gx_mat *D = &p->D;
    return (!p->is_left || p->x.is_columnwise) && D->kind == GX_MAT_VALUE &&
           D->dtype == p->x.dtype;
}

/* One stretch of columns of L. */
static gx_code load_stretch(void *arg, int64_t unit, gx_pass_thread *thread, void *memory,
                            void *part, gx_err *err)
{
    product *p = arg;
    engine *x = &p->x;
    int64_t j = unit * p->width, n = gx_min(p->width, inner(x) - j);
    char *to = (char *)p->L + (size_t)(x->is_columnwise ? j : j * x->m) * x->element;
    (void)part;
    if (x->is_columnwise) {
        return gx_pass_read(thread, &p->D, j, p->l0, n, x->m, x->dtype, to, x->ldl, err);
    }
    if (!p->is_left) {
        return gx_pass_read(thread, &p->D, p->l0, j, x->m, n, x->dtype, to, x->m, err);
    }
    char *rows = x->m == 1 ? to : memory;
    GX_TRY(gx_pass_read(thread, &p->D, j, p->l0, n, x->m, x->dtype, rows, n, err));
    gx_args args = {
        .transa = GX_TRANS, .m = x->m, .n = n, .a = rows, .lda = n, .c = to, .ldc = x->m};
    return x->m == 1 ? GX_OK
                     : x->backend->kernel[GX_TRANSPOSE][x->dtype](x->dev, NULL, &args, err);
}

/* Lines [l0, l0 + m) of the dense operand. */
static void load_lines(product *p)
{
    engine *x = &p->x;
    const gx_mat *const sources[1] = {&p->D};
    if (is_in_place(p)) {
        x->L = p->is_left ? gx_at(p->D.data, x->dtype, p->D.ld, 0, p->l0)
                          : gx_at(p->D.data, x->dtype, p->D.ld, p->l0, 0);
        x->ldl = p->D.ld;
        return;
    }
    bool is_worked_on = p->is_left && x->m > 1 && !x->is_columnwise;
    size_t column = (size_t)x->m * x->element, room = gx_mem_available(x->run->ctx->mem) / 4;
    p->width = is_worked_on ? gx_min(GX_PASS_CHUNK_BYTES, (int64_t)room) : LOAD_BYTES;
    p->width = gx_max(1, p->width / (int64_t)column);
    gx_pass pass = {.sources = sources,
                    .source_count = 1,
                    .units = gx_ceil_div(inner(x), p->width),
                    .bytes = (double)column * (double)inner(x),
                    .work_bytes = is_worked_on ? (size_t)p->width * column : 0,
                    .work = load_stretch,
                    .arg = p};
    x->L = p->L;
    x->ldl = x->is_columnwise ? inner(x) : x->m;
    gx_pass_run(x->run, &pass);
}

/* The round's lines of the result, from the block into the sink. */
static void write_round(product *p)
{
    gx_sink *sink = p->sink;
    gx_err err = {0};
    int64_t length = p->is_left ? sink->rows : sink->cols;
    int64_t step = p->is_left ? sink->tile_rows : sink->tile_cols;
    for (int64_t k = 0; k < length && gx_run_poll(p->x.run) == GX_OK && err.code == GX_OK;
         k += step) {
        int64_t n = gx_min(step, length - k);
        if (p->is_left) {
            gx_sink_write(sink, k, p->l0, n, p->x.m, gx_at(p->block, p->x.dtype, p->x.ldr, k, 0),
                          p->x.ldr, &err);
        } else {
            gx_sink_write(sink, p->l0, k, p->x.m, n, gx_at(p->block, p->x.dtype, p->x.ldr, 0, k),
                          p->x.ldr, &err);
        }
    }
    gx_run_fail(p->x.run, &err);
}

/* All rounds; the sink has been begun. */
static void run_rounds(product *p)
{
    engine *x = &p->x;
    gx_sink *sink = p->sink;
    for (p->l0 = 0; p->l0 < p->lines && gx_ok(x->run); p->l0 += p->round) {
        x->m = gx_min(p->round, p->lines - p->l0);
        if (sink->is_stored) {
            x->result = p->block;
            x->ldr = p->is_left ? sink->rows : x->m;
        } else {
            x->result = gx_at(sink->value.data, x->dtype, sink->rows, p->is_left ? 0 : p->l0,
                              p->is_left ? p->l0 : 0);
            x->ldr = sink->rows;
        }
        load_lines(p);
        run_engine(x);
        if (sink->is_stored && gx_ok(x->run)) {
            write_round(p);
        }
    }
}

/* Bytes of one line: of L, of the block, of `lanes` lanes. */
static size_t bytes_of_line(const product *p, bool is_stored, int64_t lanes)
{
    const engine *x = &p->x;
    int64_t numbers = is_in_place(p) ? 0 : inner(x);
    numbers += is_stored ? x->n : 0;
    numbers += x->op == GX_NO_TRANS ? lanes * x->n : 0;
    return (size_t)gx_max(1, numbers) * x->element;
}

/* As many lines a round as memory holds beside the threads' panels: for all threads, or for one. */
static gx_code plan_rounds(product *p, bool is_stored, size_t beside, gx_err *err)
{
    engine *x = &p->x;
    gx_run *run = x->run;
    enum { FEW = 8 }; // lines from which on another round costs less than a thread
    size_t available = gx_mem_available(run->ctx->mem), slack = 64 << 10;
    available = available > beside + slack ? available - beside - slack : 0;
    int64_t most = lines_most(x, p->lines), fit = 0;
    int64_t threads = gx_max(1, run->ctx->config.number[GX_SET_THREADS]);
    for (; threads > 0 && fit < gx_min(most, FEW); threads--) {
        x->m = most;
        size_t fixed = (size_t)threads * thread_bytes(x);
        fit = available <= fixed ? 0
                                 : (int64_t)((available - fixed) /
                                             bytes_of_line(p, is_stored, gx_min(threads, 2)));
    }
    if (fit == 0) {
        x->m = 1;
        size_t wanted = thread_bytes(x) + bytes_of_line(p, is_stored, 1);
        if (available < wanted) {
            return gx_fail(err, GX_BUDGET,
                           "a product with sparse %s needs %zu bytes but memory_limit leaves %zu: "
                           "raise it with gx_config('memory_limit', ...)",
                           x->S->label, wanted + beside + slack,
                           gx_mem_available(run->ctx->mem));
        }
        fit = 1;
    }
    int64_t rounds = gx_ceil_div(gx_max(1, p->lines), gx_min(fit, most));
    p->round = gx_max(1, gx_ceil_div(p->lines, rounds));
    return GX_OK;
}

/* Tiles of a stored result: whole rounds. */
static void choose_tiles(const product *p, int64_t *tile_rows, int64_t *tile_cols)
{
    *tile_rows = *tile_cols = 0;
    if (p->round < p->lines) {
        size_t bytes = gx_store_max_tile_bytes(p->x.run->ctx->store);
        int64_t fit = (int64_t)(bytes / ((size_t)p->round * p->x.element));
        fit = gx_max(1, gx_min(p->x.n, fit > 64 ? fit / 64 * 64 : fit));
        *tile_rows = p->is_left ? fit : p->round;
        *tile_cols = p->is_left ? p->round : fit;
    }
}

static gx_code reserve_block(product *p, gx_err *err)
{
    const engine *x = &p->x;
    return !p->sink->is_stored
               ? GX_OK
               : gx_mem_alloc(x->run->ctx->mem, (size_t)(p->round * x->n) * x->element,
                              "lines of a product", &p->block, err);
}

static gx_code reserve_lines(product *p, gx_err *err)
{
    engine *x = &p->x;
    return is_in_place(p)
               ? GX_OK
               : gx_mem_alloc(x->run->ctx->mem, (size_t)(p->round * inner(x)) * x->element,
                              "lines of a dense block", &p->L, err);
}

/* The device's round is in the block. */
static void write_lines(void *arg, int64_t line, int64_t count)
{
    product *p = arg;
    p->l0 = line;
    p->x.m = count;
    p->x.ldr = p->is_left ? p->sink->rows : count;
    write_round(p);
}

/* All rounds on a device; false: here. */
static bool is_elsewhere(product *p)
{
    const engine *x = &p->x;
    const gx_spmm_rounds rounds = {.S = x->S,
                                   .D = &p->D,
                                   .is_left = p->is_left,
                                   .op = x->op,
                                   .alpha = x->alpha,
                                   .dtype = x->dtype,
                                   .lines = p->lines,
                                   .round = p->round,
                                   .inner = inner(x),
                                   .length = x->n,
                                   .result = p->sink->is_stored ? p->block : p->sink->value.data,
                                   .ldr = p->sink->rows,
                                   .write = p->sink->is_stored ? write_lines : NULL,
                                   .arg = p};
    return !x->is_conjugated && gx_spmm_by_device(x->run, &rounds);
}

gx_code gx_alg_spmm(gx_run *run, const gx_spmm_args *args, int64_t m, int64_t n, gx_dtype dtype,
                    const gx_dest *dest, gx_sink *sink)
{
    product p = {.is_left = args->A->is_sparse, .sink = sink};
    gx_err err = {0};
    bool is_stored = dest != NULL && dest->name != NULL;
    const gx_mat *S = p.is_left ? args->A : args->B, *dense = p.is_left ? args->B : args->A;
    gx_trans op = p.is_left ? args->transb : args->transa;
    size_t value = 0;
    int64_t tile_rows, tile_cols;
    *sink = (gx_sink){.run = run};
    if (!gx_ok(run)) {
        return run->err.code;
    }
    p.D = *dense;
    if (op != GX_NO_TRANS) {
        gx_mat_view(&p.D, dense, op, 0, 0, dense->cols, dense->rows);
    }
    set_up(&p.x, run, S, p.is_left ? args->transa : args->transb, p.is_left, dtype);
    p.x.alpha = args->alpha;
    p.lines = p.is_left ? n : m;
    gx_matrix_bytes(m, n, dtype, &value);
    if (gx_run_device(run, &p.x.backend, &p.x.dev) != GX_OK ||
        plan_rounds(&p, is_stored, is_stored ? 0 : value, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    choose_tiles(&p, &tile_rows, &tile_cols);
    gx_sink_begin(run, dest, m, n, dtype, 0, tile_rows, tile_cols, sink);
    if (gx_ok(run) && reserve_block(&p, &err) == GX_OK && !is_elsewhere(&p) &&
        choose_order(&p.x, p.lines, &err) == GX_OK && reserve_lines(&p, &err) == GX_OK) {
        run_rounds(&p);
    }
    gx_mem_free(run->ctx->mem, p.L);
    gx_mem_free(run->ctx->mem, p.block);
    return gx_run_fail(run, &err);
}
