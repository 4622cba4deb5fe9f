/*
** One pass of a Krylov method over the stored matrix: y += A x for a few columns.
**
** A is cut into units, pieces of its blocks of about UNIT_BYTES.  Threads take units in order; each
** reads its unit chunk by chunk (CHUNK_BYTES, so that it is still in the core's own cache) and
** multiplies it at once (GX_PAIR), so a pass runs at the rate of the reads, and nobody waits for
** somebody else's chunk.  A Hermitian matrix is read below its diagonal alone, and each chunk is
** used twice: y_i += A_ij x_j and y_j += A_ij^H x_i.  On the diagonal the square of a chunk is
** mirrored in a small buffer.
**
** What a unit adds to y is a partial result of its own.  They are folded into y in the order of the
** units, by whoever has just finished one while nobody else folds; each thread has SLOTS of them,
** so that a slow one holds nobody up for a while.  Chunks and order follow from the shape of the
** blocks alone: the same bits whatever the number of threads and wherever the blocks are.
**
** Blocks in memory are multiplied by the run's team, the others by helper threads with connections
** of their own (stream.h), or by the caller through its connection.  Every second pass goes
** backwards: what the system's cache of a file larger than it still holds is the end of the pass
** before (a cyclic order would find nothing there).
**
** Memory: for each thread a chunk, a square, and SLOTS partial results of (rows + columns of a
** unit) x columns.  Where the budget does not hold that, fewer threads; then fewer columns at a
** time, with a sweep over A for each group of them.  I/O: each unit once in a sweep.
*/
#include "../alg/dense.h"
#include "../mat/stream.h"
#include "krylov.h"

#include <string.h>

/* Half of a common second-level cache (1-2 MiB a core). */
static const int64_t CHUNK_BYTES = 512 << 10;

/* Much work beside folding its partial result, little beside a pass. */
static const int64_t UNIT_BYTES = 2 << 20;

/* Rows of a unit, at most: its columns of vectors stay in the cache.  A power of two, as chunks. */
enum { ROWS_MOST = 4096 };

enum { SLOTS = 2 };

/* Columns of vectors for which room is kept. */
enum { USUAL_COLUMNS = 16 };

/* What a thread takes beside its buffers. */
static const size_t SMALL_BYTES = 4 << 10;

typedef struct unit {
    int64_t i0, j0, m, n; /* the rectangle of A                       */
    const void *a;        /* in memory; NULL: read                    */
    int64_t lda;
} unit;

/* A partial result. */
typedef struct slot {
    const unit *of;
    char *rows;   /* m x cols: for y_i                        */
    char *cols;   /* n x cols: for y_j                        */
    bool is_busy; /* until it has been folded                 */
} slot;

typedef struct worker {
    void *memory;
    char *chunk, *square;
    slot slot[SLOTS];
} worker;

typedef struct pass {
    gx_oper *op;
    gx_run *run;
    const gx_backend *backend;
    gx_dev *dev;
    bool is_adjoint;         /* of a general matrix                            */
    bool has_rows, has_cols; /* partial results that there are                 */
    const char *x;
    char *y;
    int64_t ldx, ldy, cols;
    int64_t chunk_cols;
    int64_t unit_rows, unit_cols; /* at most                                        */
    unit *units;
    int64_t count;
    worker *workers;
    int64_t threads;
    atomic_llong next;    /* the first unit nobody has taken                */
    atomic_llong done;    /* units folded                                   */
    pthread_mutex_t lock; /* guards what follows and is_busy                */
    pthread_cond_t freed;
    slot **waiting; /* threads * SLOTS: by number of the unit          */
    int64_t folded; /* the first unit that has not been                */
    bool is_folding;
} pass;

// Units -------------------------------------------------------------------------------------------

/* The sides of chunks and units, by the shape of a block alone. */
static void choose_sides(const gx_oper *op, pass *p)
{
    int64_t element = (int64_t)gx_number_bytes(op->dtype), width = 1;
    p->unit_rows = gx_min(op->edge_rows, ROWS_MOST);
    int64_t most = gx_max(1, CHUNK_BYTES / element / p->unit_rows);
    while (2 * width <= gx_min(most, ROWS_MOST) && width < op->edge_cols) {
        width *= 2;
    }
    p->chunk_cols = width;
    int64_t chunks = gx_max(1, UNIT_BYTES / element / p->unit_rows / width);
    p->unit_cols = gx_min(chunks * width, op->edge_cols);
}

static int64_t units_of_block(const gx_oper *op, const pass *p)
{
    return gx_ceil_div(op->edge_rows, p->unit_rows) * gx_ceil_div(op->edge_cols, p->unit_cols);
}

/* The units of block (i, j), appended. */
static void add_block(pass *p, int64_t i, int64_t j)
{
    const gx_oper *op = p->op;
    int64_t row = i * op->edge_rows, col = j * op->edge_cols;
    int64_t row_end = gx_min(op->m, row + op->edge_rows);
    int64_t col_end = gx_min(op->n, col + op->edge_cols);
    for (int64_t j0 = col; j0 < col_end; j0 += p->unit_cols) {
        for (int64_t i0 = row; i0 < row_end; i0 += p->unit_rows) {
            unit u = {.i0 = i0,
                      .j0 = j0,
                      .m = gx_min(p->unit_rows, row_end - i0),
                      .n = gx_min(p->unit_cols, col_end - j0)};
            if (op->is_hermitian && i0 + u.m <= j0) {
                continue; // above the diagonal
            }
            if (op->strip[j] != NULL) {
                int64_t top = gx_oper_strip_row(op, j);
                u.lda = op->m - top;
                u.a = gx_at(op->strip[j], op->dtype, u.lda, i0 - top, j0 - col);
            }
            p->units[p->count++] = u;
        }
    }
}

/* Those of the columns of blocks from `first` on that are in memory, or are not. */
static void list_units(pass *p, int64_t first, bool are_resident)
{
    const gx_oper *op = p->op;
    p->count = 0;
    for (int64_t j = first; j < gx_oper_grid_cols(op); j++) {
        for (int64_t i = op->is_hermitian ? j : 0;
             (op->strip[j] != NULL) == are_resident && i < gx_oper_grid_rows(op); i++) {
            add_block(p, i, j);
        }
    }
    for (int64_t t = 0; op->passes % 2 == 1 && t < p->count / 2; t++) {
        unit swap = p->units[t];
        p->units[t] = p->units[p->count - 1 - t];
        p->units[p->count - 1 - t] = swap;
    }
}

// One unit ----------------------------------------------------------------------------------------

/* What a chunk adds: rows [i, i + m), columns [j, j + n) of A at a. */
static gx_code multiply(const pass *p, const unit *u, const slot *out, int64_t i, int64_t j,
                        int64_t m, int64_t n, const void *a, int64_t lda, bool is_square,
                        gx_err *err)
{
    gx_number dtype = p->op->dtype;
    gx_args args = {.m = m, .n = n, .k = p->cols, .a = a, .lda = lda};
    if (p->has_rows) {
        args.b = gx_at(p->x, dtype, p->ldx, j, 0);
        args.ldb = p->ldx;
        args.c = gx_at(out->rows, dtype, u->m, i - u->i0, 0);
        args.ldc = u->m;
    }
    if (p->has_cols && !is_square) {
        args.b2 = gx_at(p->x, dtype, p->ldx, i, 0);
        args.ldb2 = p->ldx;
        args.c2 = gx_at(out->cols, dtype, u->n, j - u->j0, 0);
        args.ldc2 = u->n;
    }
    return m == 0 ? GX_OK : p->backend->kernel[GX_PAIR][dtype](p->dev, NULL, &args, err);
}

/* A chunk with the diagonal in it: its square, mirrored, and what lies below. */
static gx_code multiply_diagonal(const pass *p, const unit *u, const slot *out, const worker *w,
                                 int64_t j, int64_t n, const void *a, int64_t lda, gx_err *err)
{
    gx_number dtype = p->op->dtype;
    int64_t below = gx_min(j + n, u->i0 + u->m), side = below - j; // = n: chunks are square there
    const void *top = gx_at(a, dtype, lda, j - u->i0, 0);
    for (int64_t c = 0; c < side; c++) {
        memcpy(gx_at(w->square, dtype, side, c, c), gx_at(top, dtype, lda, c, c),
               (size_t)(side - c) * gx_number_bytes(dtype));
    }
    gx_args mirror = {.uplo = GX_LOWER,
                      .transa = gx_adjoint(dtype),
                      .m = side,
                      .n = side,
                      .c = w->square,
                      .ldc = side};
    GX_TRY(p->backend->kernel[GX_SYMMETRIZE][dtype](p->dev, NULL, &mirror, err));
    GX_TRY(multiply(p, u, out, j, j, side, n, w->square, side, true, err));
    return multiply(p, u, out, below, j, u->i0 + u->m - below, n,
                    gx_at(a, dtype, lda, below - u->i0, 0), lda, false, err);
}

static gx_code multiply_unit(const pass *p, const unit *u, slot *out, const worker *w,
                             gx_reader *reader, gx_err *err)
{
    const gx_oper *op = p->op;
    size_t element = gx_number_bytes(op->dtype);
    memset(out->rows, 0, p->has_rows ? (size_t)(u->m * p->cols) * element : 0);
    memset(out->cols, 0, p->has_cols ? (size_t)(u->n * p->cols) * element : 0);
    for (int64_t j = u->j0; j < u->j0 + u->n && gx_ok(p->run); j += p->chunk_cols) {
        int64_t n = gx_min(p->chunk_cols, u->j0 + u->n - j), lda = u->lda;
        const void *a = gx_at(u->a == NULL ? w->chunk : u->a, op->dtype, lda, 0, j - u->j0);
        if (op->is_hermitian && u->i0 + u->m <= j) {
            break; // above the diagonal
        }
        if (u->a == NULL) {
            a = w->chunk;
            lda = u->m;
            GX_TRY(gx_mat_read(p->run, op->A, reader, u->i0, j, u->m, n, op->dtype, w->chunk, lda,
                               err));
        }
        bool is_diagonal = op->is_hermitian && u->i0 <= j;
        GX_TRY(is_diagonal ? multiply_diagonal(p, u, out, w, j, n, a, lda, err)
                           : multiply(p, u, out, u->i0, j, u->m, n, a, lda, false, err));
    }
    return GX_OK;
}

// Folding -----------------------------------------------------------------------------------------

static void fold(const pass *p, const slot *s)
{
    gx_number dtype = p->op->dtype;
    const unit *u = s->of;
    if (p->has_rows) {
        gx_kry_add(dtype, u->m, p->cols, s->rows, gx_at(p->y, dtype, p->ldy, u->i0, 0), p->ldy);
    }
    if (p->has_cols) {
        gx_kry_add(dtype, u->n, p->cols, s->cols, gx_at(p->y, dtype, p->ldy, u->j0, 0), p->ldy);
    }
}

/* Unit t is done: fold what is next in order, unless somebody does already. */
static void hand_in(pass *p, int64_t t, slot *s)
{
    int64_t places = p->threads * SLOTS;
    pthread_mutex_lock(&p->lock);
    p->waiting[t % places] = s;
    while (!p->is_folding && (s = p->waiting[p->folded % places]) != NULL) {
        p->waiting[p->folded % places] = NULL;
        p->is_folding = true;
        pthread_mutex_unlock(&p->lock);
        fold(p, s);
        pthread_mutex_lock(&p->lock);
        p->is_folding = false;
        s->is_busy = false;
        p->folded++;
        atomic_fetch_add(&p->done, 1);
        pthread_cond_broadcast(&p->freed);
    }
    pthread_mutex_unlock(&p->lock);
}

/* A partial result of the thread's own that is free; NULL: the run has stopped. */
static slot *free_slot(pass *p, worker *w, bool is_caller)
{
    slot *found = NULL;
    pthread_mutex_lock(&p->lock);
    while (found == NULL && gx_ok(p->run)) {
        for (int k = 0; k < SLOTS && found == NULL; k++) {
            found = w->slot[k].is_busy ? NULL : &w->slot[k];
        }
        if (found == NULL) {
            gx_stream_wait(&p->freed, &p->lock);
            if (is_caller) {
                pthread_mutex_unlock(&p->lock);
                gx_run_poll(p->run);
                pthread_mutex_lock(&p->lock);
            }
        }
    }
    if (found != NULL) {
        found->is_busy = true;
    }
    pthread_mutex_unlock(&p->lock);
    return found;
}

// Threads -----------------------------------------------------------------------------------------

static void multiply_units(pass *p, worker *w, gx_reader *reader, bool is_caller)
{
    gx_err err = {0};
    slot *s;
    while (err.code == GX_OK && (s = free_slot(p, w, is_caller)) != NULL) {
        int64_t t = atomic_fetch_add(&p->next, 1);
        if (t >= p->count) {
            break;
        }
        s->of = &p->units[t];
        if (multiply_unit(p, s->of, s, w, reader, &err) == GX_OK) {
            hand_in(p, t, s);
        }
        if (is_caller) {
            gx_run_poll(p->run);
        }
    }
    gx_run_fail(p->run, &err);
}

static void help(void *arg, gx_helper *helper)
{
    pass *p = arg;
    multiply_units(p, &p->workers[helper->index], gx_helper_reader(helper, p->op->A), false);
}

static gx_code work(void *arg, int64_t piece, int member, gx_err *err)
{
    pass *p = arg;
    (void)err;
    multiply_units(p, &p->workers[piece], NULL, member == 0);
    return GX_OK;
}

static void wait_for_helpers(pass *p, gx_stream *stream)
{
    int64_t shown = 0;
    bool is_over = false;
    while (gx_ok(p->run) && !is_over) {
        is_over = gx_stream_rest(stream);
        int64_t done = atomic_load(&p->done);
        gx_run_advance(p->run, (double)(done - shown));
        shown = done;
        gx_run_poll(p->run);
    }
}

/* The units that have to be read: by helpers, or by the caller. */
static void run_streamed(pass *p)
{
    gx_run *run = p->run;
    gx_stream *stream = NULL;
    double bytes = 0;
    for (int64_t t = 0; t < p->count; t++) {
        bytes +=
            (double)(p->units[t].m * p->units[t].n) * (double)gx_number_bytes(p->op->A->number);
    }
    gx_run_progress(run, (double)p->count);
    int64_t readers = gx_min(p->threads, run->ctx->config.number[GX_SET_READERS]);
    gx_stream_start(run, &p->op->A, 1, (int)readers, bytes, help, p, &stream);
    if (stream != NULL) {
        wait_for_helpers(p, stream);
        gx_stream_stop(stream);
        return;
    }
    gx_reader *own = NULL;
    gx_err err = {0};
    if (gx_reader_own(run->ctx->store, &own, &err) == GX_OK) {
        multiply_units(p, &p->workers[0], own, true);
    }
    gx_reader_close(own);
    gx_run_fail(run, &err);
}

static void run_units(pass *p, bool are_read)
{
    gx_err err = {0};
    atomic_store(&p->next, 0);
    atomic_store(&p->done, 0);
    p->folded = 0;
    for (int64_t t = 0; t < p->threads; t++) {
        for (int k = 0; k < SLOTS; k++) {
            p->workers[t].slot[k].is_busy = false;
        }
    }
    if (p->count == 0 || !gx_ok(p->run)) {
        return;
    }
    if (are_read && gx_mat_base_stored(p->op->A) != NULL) {
        run_streamed(p);
        return;
    }
    enum { ALONE = 1 << 16 }; // elements that are multiplied before another thread has woken up
    gx_team *team = p->count == 1 || p->op->m * p->op->n < ALONE ? NULL : gx_run_team(p->run);
    if (team == NULL || p->threads == 1) {
        multiply_units(p, &p->workers[0], NULL, true);
    } else {
        gx_team_run(team, gx_min(p->threads, gx_team_threads(team)), work, p, &err);
        gx_run_fail(p->run, &err);
    }
}

// Memory ------------------------------------------------------------------------------------------

/* To whole lines of the cache. */
static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t slot_bytes(const pass *p, int64_t cols)
{
    return rounded((size_t)((p->unit_rows + p->unit_cols) * cols) * gx_number_bytes(p->op->dtype));
}

static size_t chunk_bytes(const pass *p, bool streams)
{
    size_t element = gx_number_bytes(p->op->dtype);
    return streams ? rounded((size_t)(p->unit_rows * p->chunk_cols) * element) : 0;
}

static size_t square_bytes(const pass *p)
{
    size_t element = gx_number_bytes(p->op->dtype);
    int64_t side = p->op->is_hermitian ? gx_min(p->chunk_cols, p->unit_rows) : 0;
    return rounded((size_t)(side * side) * element);
}

static size_t thread_bytes(const pass *p, int64_t cols, bool streams)
{
    return chunk_bytes(p, streams) + square_bytes(p) + SLOTS * slot_bytes(p, cols) + SMALL_BYTES;
}

static bool streams_any(const gx_oper *op, int64_t first)
{
    for (int64_t j = first; j < gx_oper_grid_cols(op); j++) {
        if (op->strip[j] == NULL) {
            return true;
        }
    }
    return false;
}

static int64_t threads_wanted(const gx_run *run, bool streams)
{
    const gx_config *config = &run->ctx->config;
    int64_t threads = config->number[GX_SET_THREADS];
    return gx_max(1, streams ? gx_max(threads, config->number[GX_SET_READERS]) : threads);
}

static int64_t most_units(const gx_oper *op, const pass *p)
{
    return gx_oper_grid_rows(op) * gx_oper_grid_cols(op) * units_of_block(op, p);
}

size_t gx_oper_pass_bytes(gx_oper *op, bool streams)
{
    pass p = {.op = op};
    choose_sides(op, &p);
    size_t threads = (size_t)threads_wanted(op->run, streams);
    return threads * thread_bytes(&p, USUAL_COLUMNS, streams) +
           (size_t)most_units(op, &p) * sizeof(unit);
}

size_t gx_oper_pass_least(const gx_oper *op)
{
    pass p = {.op = (gx_oper *)(uintptr_t)op};
    choose_sides(op, &p);
    return thread_bytes(&p, USUAL_COLUMNS, true) + (size_t)most_units(op, &p) * sizeof(unit) +
           sizeof(worker) + SLOTS * sizeof(slot *);
}

static gx_code reserve_worker(const pass *p, worker *w, int64_t cols, bool streams, gx_err *err)
{
    GX_TRY(gx_mem_alloc(p->run->ctx->mem, thread_bytes(p, cols, streams) - SMALL_BYTES,
                        "partial products", &w->memory, err));
    size_t rows = (size_t)(p->unit_rows * cols) * gx_number_bytes(p->op->dtype);
    w->chunk = w->memory;
    w->square = w->chunk + chunk_bytes(p, streams);
    for (int k = 0; k < SLOTS; k++) {
        w->slot[k].rows = w->square + square_bytes(p) + (size_t)k * slot_bytes(p, cols);
        w->slot[k].cols = w->slot[k].rows + rows;
    }
    return GX_OK;
}

/* Threads and columns at a time, by what there is; then their memory. */
static void reserve(pass *p, int64_t first, int64_t *cols)
{
    gx_mem *mem = p->run->ctx->mem;
    gx_err err = {0};
    void *units = NULL, *workers = NULL, *waiting = NULL;
    bool streams = streams_any(p->op, first);
    int64_t wanted = threads_wanted(p->run, streams);
    gx_mem_alloc(mem, (size_t)most_units(p->op, p) * sizeof(unit), "pieces of the matrix", &units,
                 &err);
    gx_mem_calloc(mem, (size_t)wanted * sizeof(worker), "threads", &workers, &err);
    gx_mem_calloc(mem, (size_t)(wanted * SLOTS) * sizeof(slot *), "threads", &waiting, &err);
    p->units = units;
    p->workers = workers;
    p->waiting = waiting;
    size_t available = gx_mem_available(mem);
    while (*cols > 1 && thread_bytes(p, *cols, streams) > available) {
        *cols = gx_ceil_div(*cols, 2);
    }
    int64_t fit = (int64_t)(available / thread_bytes(p, *cols, streams));
    p->threads = gx_max(1, gx_min(fit, wanted));
    for (int64_t t = 0; t < p->threads && err.code == GX_OK; t++) {
        reserve_worker(p, &p->workers[t], *cols, streams, &err);
    }
    gx_run_fail(p->run, &err);
}

static void give_back(pass *p)
{
    gx_mem *mem = p->run->ctx->mem;
    for (int64_t t = 0; p->workers != NULL && t < p->threads; t++) {
        gx_mem_free(mem, p->workers[t].memory);
    }
    gx_mem_free(mem, p->workers);
    gx_mem_free(mem, p->waiting);
    gx_mem_free(mem, p->units);
}

// The pass ----------------------------------------------------------------------------------------

static void count_flops(const pass *p)
{
    gx_stats *stats = &p->run->ctx->stats;
    double flops = 0;
    for (int64_t t = 0; t < p->count; t++) {
        flops += (double)(p->units[t].m * p->units[t].n);
    }
    flops *= (double)p->cols * (gx_number_is_complex(p->op->dtype) ? 8 : 2) *
             (p->has_rows && p->has_cols ? 2 : 1);
    gx_stats_add(stats, GX_STAT_FLOPS, (int64_t)flops);
    gx_stats_add(stats, GX_STAT_KERNELS, p->count);
}

int64_t gx_oper_pass(gx_oper *op, bool is_adjoint, const void *x, int64_t cols, void *y,
                     int64_t first)
{
    pass p = {.op = op, .run = op->run, .is_adjoint = is_adjoint && !op->is_hermitian};
    int64_t together = cols, sweeps = 0;
    p.has_rows = !p.is_adjoint;
    p.has_cols = p.is_adjoint || op->is_hermitian;
    p.ldx = is_adjoint ? op->m : op->n;
    p.ldy = is_adjoint ? op->n : op->m;
    choose_sides(op, &p);
    if (gx_run_device(op->run, &p.backend, &p.dev) != GX_OK) {
        return 0;
    }
    reserve(&p, first, &together);
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.freed, NULL);
    bool is_back = op->passes % 2 == 1;
    for (int64_t c = 0; c < cols && gx_ok(op->run); c += together, sweeps++) {
        p.cols = gx_min(together, cols - c);
        p.x = gx_at(x, op->dtype, p.ldx, 0, c);
        p.y = gx_at(y, op->dtype, p.ldy, 0, c);
        for (int half = 0; half < 2 && gx_ok(op->run); half++) {
            bool are_resident = (half == 0) != is_back;
            list_units(&p, first, are_resident);
            run_units(&p, !are_resident);
            count_flops(&p);
        }
    }
    pthread_cond_destroy(&p.freed);
    pthread_mutex_destroy(&p.lock);
    give_back(&p);
    return sweeps;
}
