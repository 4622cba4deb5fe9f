/*
** Panels of a sparse matrix on their way to a device: see sparse_device.h.
**
** They are read and looked through on the host (sparse.h), by the threads of a streamed pass
** (exec/pass.h), into page-locked buffers, and go up from there; so no index that lies outside of
** the matrix ever gets to the device.  Whoever has read something enqueues it, under a lock.
**
**   whole   a panel is read in parts, one behind the other: its starts and indexes, then its values
**           CHUNK_BYTES at a time, each into a buffer of its own, so that little memory is
**           page-locked and what is read is still in the processor's cache when it goes up.
**   ring    a panel in one buffer: the device has room for two, which must not be mixed.
**
** A product that follows is enqueued behind the last part of its panel.  What it multiplies with
** goes up first, as units of the same pass, so that no thread waits for another matrix's end;
** panels that are there before that is are multiplied when it has come.  Last in the pass are
** pieces of the result, in the order of the products: who has nothing left to read takes them down
** while others read.  Earlier they would take processors from the reading.
**
** Memory: on the host up to STAGES buffers, page-locked within pinning_budget.
*/
#include "sparse_int.h"

#include "../exec/pass.h"

#include <string.h>

enum { STAGES = 32, AHEAD = 4, CHUNK_BYTES = 2 << 20, ALIGN = 256 };

/* A page-locked buffer. */
typedef struct stage {
    gx_staging memory;
    gx_mark *mark; /* behind its copies */
    bool is_busy;
    int64_t turn; /* of the copies, ascending; 0: none */
} stage;

typedef struct loading {
    gx_sparse_device *d;
    const gx_sparse_product *product; /* of the ring; NULL: to the whole's place */
    const gx_sparse_follow *follow;   /* of the whole, or NULL                   */
    stage stage[STAGES];
    int stages;
    size_t block_bytes; /* of a stage: as it is read; behind it own starts, or values in dtype */
    int64_t chunk;      /* values at a time                                                */
    int64_t dense_rows, dense_cols, dense_down, dense_units; /* pieces of follow->dense    */
    int64_t down_rows, down_units; /* of the result: rows of a piece at most; pieces       */
    int64_t *first;         /* entries before each piece                                     */
    int64_t *waiting;       /* pieces that are there before follow->dense is                 */
    int64_t *done;          /* pieces whose products have been enqueued                      */
    pthread_mutex_t lock;   /* over what follows, the stages' states, and the queues         */
    pthread_cond_t goes_on; /* there is a product more                                     */
    int64_t dense_left, waits, dones;
    int64_t fetched, fetched_rows; /* of `done`: pieces that are on their way down; of the next */
    int64_t turn;
    gx_err fault; /* of the device */
} loading;

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

gx_sparse_layout gx_sparse_lay_out(const gx_mat *S, gx_number dtype, int64_t rows, int64_t entries)
{
    gx_sparse_layout l = {.index = aligned((size_t)(rows + 1) * sizeof(uint32_t))};
    l.value = l.index + aligned((size_t)entries * (size_t)gx_csr_index_bytes(S->cols));
    l.own = l.value + aligned((size_t)entries * gx_number_bytes(dtype));
    l.bytes = l.own + (size_t)(rows + gx_sparse_pieces(S)) * sizeof(uint32_t);
    return l;
}

gx_csr gx_sparse_panel_at(const gx_sparse_device *d, void *block, int64_t rows, int64_t entries)
{
    gx_sparse_layout l = gx_sparse_lay_out(d->S, d->dtype, rows, entries);
    return (gx_csr){.dtype = d->dtype,
                    .rows = rows,
                    .cols = d->S->cols,
                    .entries = entries,
                    .index_bytes = gx_csr_index_bytes(d->S->cols),
                    .start = block,
                    .index = (char *)block + l.index,
                    .value = (char *)block + l.value};
}

static bool is_stored(const loading *l)
{
    return l->d->S->kind == GX_MAT_STORED;
}

static bool converts(const loading *l)
{
    return !is_stored(l) || l->d->S->number != l->d->dtype;
}

// Stages ------------------------------------------------------------------------------------------

/* The one that has been leaving longest; there are as many as threads, at least. */
static stage *find_stage(loading *l)
{
    stage *best = NULL;
    pthread_mutex_lock(&l->lock);
    for (int k = 0; k < l->stages && l->fault.code == GX_OK; k++) {
        stage *s = &l->stage[k];
        if (!s->is_busy && (best == NULL || s->turn < best->turn)) {
            best = s;
        }
    }
    if (best != NULL) {
        best->is_busy = true;
    }
    pthread_mutex_unlock(&l->lock);
    return best;
}

static void give_stage(loading *l, stage *s, const gx_err *fault)
{
    s->is_busy = false;
    if (fault->code != GX_OK && l->fault.code == GX_OK) {
        l->fault = *fault;
    }
}

/* A stage to read into; NULL: the device has failed. */
static stage *take_stage(loading *l)
{
    const gx_accel *accel = l->d->on.accel;
    gx_err fault = {0};
    stage *s = find_stage(l);
    if (s != NULL && s->turn > 0 &&
        accel->backend->mark_wait(accel->dev, s->mark, &fault) != GX_OK) {
        pthread_mutex_lock(&l->lock);
        give_stage(l, s, &fault);
        pthread_mutex_unlock(&l->lock);
        return NULL;
    }
    return s;
}

/* Take the queues; false: there is nothing to be sent any more. */
static bool begin_sending(loading *l, stage *s, gx_code code)
{
    pthread_mutex_lock(&l->lock);
    s->turn = ++l->turn;
    return code == GX_OK && l->fault.code == GX_OK;
}

static void end_sending(loading *l, stage *s, const gx_err *fault)
{
    give_stage(l, s, fault);
    pthread_mutex_unlock(&l->lock);
}

// Up ----------------------------------------------------------------------------------------------

static gx_code send_bytes(gx_sparse_device *d, const void *to, size_t at, const void *from,
                          size_t bytes, gx_err *err)
{
    const gx_accel *accel = d->on.accel;
    if (bytes == 0) {
        return GX_OK;
    }
    gx_stats_add(&d->on.run->ctx->stats, GX_STAT_UPLOADED, (int64_t)bytes);
    return accel->backend->upload(accel->dev, accel->up, (char *)(uintptr_t)to + at, bytes, from,
                                  bytes, bytes, 1, err);
}

static gx_code set_mark(const loading *l, const stage *s, gx_err *err)
{
    const gx_accel *accel = l->d->on.accel;
    return accel->backend->mark_set(accel->dev, accel->up, s->mark, err);
}

/* Starts and indexes of csr to row `row`, entry `entry` of `to`. */
static gx_code send_head(gx_sparse_device *d, const gx_csr *csr, const gx_csr *to, int64_t row,
                         int64_t entry, gx_err *err)
{
    size_t own = (size_t)csr->index_bytes;
    GX_TRY(send_bytes(d, to->start, (size_t)row * sizeof(uint32_t), csr->start,
                      (size_t)(csr->rows + 1) * sizeof(uint32_t), err));
    return send_bytes(d, to->index, (size_t)entry * own, csr->index, (size_t)csr->entries * own,
                      err);
}

static gx_code send_values(gx_sparse_device *d, const void *values, int64_t count, const gx_csr *to,
                           int64_t entry, gx_err *err)
{
    size_t element = gx_number_bytes(d->dtype);
    return send_bytes(d, to->value, (size_t)entry * element, values, (size_t)count * element, err);
}

gx_code gx_sparse_call(gx_sparse_device *d, const gx_csr *csr, const gx_sparse_product *p,
                       int64_t row0, gx_err *err)
{
    bool is_gathered = p->op != GX_NO_TRANS;
    gx_args args = {.transa = p->op,
                    .m = p->lines,
                    .n = is_gathered ? csr->rows : csr->cols,
                    .k = is_gathered ? csr->cols : csr->rows,
                    .alpha = p->alpha,
                    .is_fresh = is_gathered,
                    .b = is_gathered ? p->L : gx_at(p->L, d->dtype, p->lines, 0, row0),
                    .ldb = p->lines,
                    .c = is_gathered ? gx_at(p->R, d->dtype, p->lines, 0, row0) : p->R,
                    .ldc = p->lines,
                    .sparse = csr,
                    .work = d->on.hold[GX_SPARSE_WORK].data};
    return gx_devcall_kernel(&d->on, GX_SPMM, d->dtype, &args, err);
}

// Pieces of the whole -----------------------------------------------------------------------------

/* Where a piece's own starts lie on the device. */
static const uint32_t *own_starts(const gx_sparse_device *d, int64_t piece)
{
    gx_sparse_layout l = gx_sparse_lay_out(d->S, d->dtype, d->S->rows, gx_sparse_entries(d->S));
    return (const uint32_t *)(const void *)((const char *)d->on.hold[0].data + l.own) +
           gx_sparse_piece_row(d->S, piece) + piece;
}

/* Rows of the result, behind their product. */
static gx_code turn_rows(const loading *l, int64_t row0, int64_t rows, gx_err *err)
{
    const gx_sparse_device *d = l->d;
    const gx_accel *accel = d->on.accel;
    const gx_sparse_product *p = &l->follow->product;
    gx_args args = {.transa = GX_TRANS,
                    .m = rows,
                    .n = p->lines,
                    .a = gx_at(p->R, d->dtype, p->lines, 0, row0),
                    .lda = p->lines,
                    .c = gx_at(l->follow->turned, d->dtype, d->S->rows, row0, 0),
                    .ldc = d->S->rows};
    return accel->backend->kernel[GX_TRANSPOSE][d->dtype](accel->dev, accel->run, &args, err);
}

/* A piece that lies in the whole, by starts of its own. */
static gx_code multiply_piece(loading *l, int64_t piece, gx_err *err)
{
    gx_sparse_device *d = l->d;
    int64_t row0 = gx_sparse_piece_row(d->S, piece), first = l->first[piece];
    gx_csr there = d->csr;
    there.rows = gx_sparse_piece_rows(d->S, piece);
    there.entries = gx_sparse_piece_entries(d->S, piece);
    there.start = own_starts(d, piece);
    there.index = (const char *)d->csr.index + first * there.index_bytes;
    there.value = (const char *)d->csr.value + (size_t)first * gx_number_bytes(d->dtype);
    GX_TRY(gx_sparse_call(d, &there, &l->follow->product, row0, err));
    GX_TRY(turn_rows(l, row0, there.rows, err));
    l->done[l->dones++] = piece;
    pthread_cond_broadcast(&l->goes_on);
    return GX_OK;
}

/* Under the lock: all of a piece has been sent, the last of it from s. */
static gx_code follow_piece(loading *l, const stage *s, int64_t piece, gx_err *err)
{
    const gx_accel *accel = l->d->on.accel;
    if (l->follow == NULL) {
        return GX_OK;
    }
    if (l->dense_left > 0) {
        l->waiting[l->waits++] = piece;
        return GX_OK;
    }
    GX_TRY(accel->backend->queue_after_mark(accel->dev, accel->run, s->mark, err));
    return multiply_piece(l, piece, err);
}

/* Under the lock: all of follow->dense has been sent, and before s's mark what waits for it. */
static gx_code follow_dense(loading *l, const stage *s, gx_err *err)
{
    const gx_accel *accel = l->d->on.accel;
    GX_TRY(accel->backend->queue_after_mark(accel->dev, accel->run, s->mark, err));
    GX_TRY(l->follow->ready(l->follow->arg, err));
    for (int64_t k = 0; k < l->waits; k++) {
        GX_TRY(multiply_piece(l, l->waiting[k], err));
    }
    return GX_OK;
}

/*
** The head of a piece as it goes up: starts that count on from the pieces before it; behind them in
** the stage those of its own, where a product follows.
*/
static gx_csr prepare_head(const loading *l, const stage *s, const gx_csr *csr, int64_t from)
{
    gx_csr up = *csr;
    char *memory = s->memory.data;
    int64_t first = csr->start[0];
    uint32_t *start = (uint32_t *)(void *)memory;
    uint32_t *own_start = (uint32_t *)(void *)(memory + l->block_bytes);
    for (int64_t i = 0; l->follow != NULL && i <= csr->rows; i++) {
        own_start[i] = csr->start[i] - (uint32_t)first;
    }
    for (int64_t i = 0; i <= csr->rows; i++) {
        start[i] = (uint32_t)((int64_t)csr->start[i] - first + from);
    }
    up.start = start;
    if (!is_stored(l)) {
        char *index = memory + aligned((size_t)(csr->rows + 1) * sizeof(uint32_t));
        size_t own = (size_t)csr->index_bytes;
        memcpy(index, (const char *)csr->index + (size_t)first * own, (size_t)csr->entries * own);
        up.index = index;
    }
    return up;
}

/* *values: those of a piece that is not stored; else NULL. */
static gx_code bring_head(loading *l, int64_t piece, gx_pass_thread *thread, const char **values,
                          gx_err *err)
{
    gx_sparse_device *d = l->d;
    stage *s = take_stage(l);
    gx_err fault = {0};
    gx_csr csr = {0}, up = {0};
    if (s == NULL) {
        return GX_OK;
    }
    gx_code code = is_stored(l)
                       ? gx_pass_read_head(thread, d->S, piece, s->memory.data, &csr, err)
                       : gx_pass_read_piece(thread, d->S, piece, s->memory.data, &csr, err);
    if (code == GX_OK) {
        size_t before = (size_t)csr.start[0] * gx_number_bytes(csr.dtype);
        *values = csr.value == NULL ? NULL : (const char *)csr.value + before;
        up = prepare_head(l, s, &csr, l->first[piece]);
    }
    if (begin_sending(l, s, code)) {
        int64_t row0 = gx_sparse_piece_row(d->S, piece);
        if (l->follow != NULL) {
            (void)send_bytes(d, own_starts(d, piece), 0,
                             (const char *)s->memory.data + l->block_bytes,
                             (size_t)(up.rows + 1) * sizeof(uint32_t), &fault);
        }
        if (fault.code == GX_OK &&
            send_head(d, &up, &d->csr, row0, l->first[piece], &fault) == GX_OK) {
            (void)set_mark(l, s, &fault);
        }
    }
    end_sending(l, s, &fault);
    return code;
}

/* Values [first, first + count) of the piece; the product behind the last ones. */
static gx_code bring_values(loading *l, int64_t piece, int64_t first, int64_t count,
                            const char *values, gx_pass_thread *thread, gx_err *err)
{
    gx_sparse_device *d = l->d;
    stage *s = take_stage(l);
    gx_err fault = {0};
    gx_code code = GX_OK;
    if (s == NULL) {
        return GX_OK;
    }
    const char *up = s->memory.data, *from = s->memory.data;
    if (values != NULL) {
        from = values + (size_t)first * gx_number_bytes(d->S->number);
    } else if (count > 0) {
        code = gx_pass_read_values(thread, d->S, piece, first, count, s->memory.data, err);
    }
    if (code == GX_OK && converts(l)) {
        int64_t ld = gx_max(1, count);
        char *to = (char *)s->memory.data + l->block_bytes;
        gx_convert(d->S->number, from, ld, d->dtype, to, ld, count, 1);
        up = to;
    }
    if (begin_sending(l, s, code) &&
        send_values(d, up, count, &d->csr, l->first[piece] + first, &fault) == GX_OK &&
        set_mark(l, s, &fault) == GX_OK && first + count == gx_sparse_piece_entries(d->S, piece)) {
        (void)follow_piece(l, s, piece, &fault);
    }
    end_sending(l, s, &fault);
    return code;
}

static gx_code bring_piece(loading *l, int64_t piece, gx_pass_thread *thread, gx_err *err)
{
    const char *values = NULL;
    int64_t entries = gx_sparse_piece_entries(l->d->S, piece), first = 0;
    GX_TRY(bring_head(l, piece, thread, &values, err));
    do { // once where there are none
        int64_t count = gx_min(l->chunk, entries - first);
        GX_TRY(bring_values(l, piece, first, count, values, thread, err));
        first += count;
    } while (first < entries);
    return GX_OK;
}

// What it is multiplied with ----------------------------------------------------------------------

/* A tile, some columns at a time, or several small ones. */
static void cut_dense(loading *l)
{
    const gx_mat *D = l->follow->dense;
    int64_t most = CHUNK_BYTES / (int64_t)gx_number_bytes(l->d->dtype);
    int64_t rows = gx_max(1, gx_min(D->tile_rows, D->rows));
    int64_t cols = gx_max(1, gx_min(D->tile_cols, D->cols));
    l->dense_cols = gx_max(1, gx_min(cols, most / rows));
    l->dense_rows = gx_min(D->rows, rows * gx_max(1, most / (rows * l->dense_cols)));
    l->dense_down = gx_ceil_div(D->rows, l->dense_rows);
    l->dense_units = l->dense_left = l->dense_down * gx_ceil_div(D->cols, cols);
}

static gx_code bring_some(loading *l, int64_t i, int64_t m, int64_t j, int64_t n, bool is_last,
                          gx_pass_thread *thread, gx_err *err)
{
    gx_sparse_device *d = l->d;
    const gx_accel *accel = d->on.accel;
    const gx_mat *D = l->follow->dense;
    size_t column = (size_t)m * gx_number_bytes(d->dtype);
    stage *s = take_stage(l);
    gx_err fault = {0};
    if (s == NULL) {
        return GX_OK;
    }
    gx_code code = gx_pass_read(thread, D, i, j, m, n, d->dtype, s->memory.data, m, err);
    if (begin_sending(l, s, code) &&
        accel->backend->upload(accel->dev, accel->up, gx_at(l->follow->at, d->dtype, D->rows, i, j),
                               (size_t)D->rows * gx_number_bytes(d->dtype), s->memory.data, column,
                               column, (size_t)n, &fault) == GX_OK) {
        gx_stats_add(&d->on.run->ctx->stats, GX_STAT_UPLOADED, (int64_t)column * n);
        if (set_mark(l, s, &fault) == GX_OK && is_last && --l->dense_left == 0) {
            (void)follow_dense(l, s, &fault);
        }
    }
    end_sending(l, s, &fault);
    return code;
}

static gx_code bring_dense(loading *l, int64_t unit, gx_pass_thread *thread, gx_err *err)
{
    const gx_mat *D = l->follow->dense;
    int64_t cols = gx_max(1, gx_min(D->tile_cols, D->cols));
    int64_t i = unit % l->dense_down * l->dense_rows, j = unit / l->dense_down * cols;
    int64_t m = gx_min(l->dense_rows, D->rows - i), end = gx_min(D->cols, j + cols);
    for (; j < end; j += l->dense_cols) {
        int64_t n = gx_min(l->dense_cols, end - j);
        GX_TRY(bring_some(l, i, m, j, n, j + n == end, thread, err));
    }
    return GX_OK;
}

// The result --------------------------------------------------------------------------------------

static void cut_result(loading *l)
{
    const gx_mat *S = l->d->S;
    int64_t row = l->follow->product.lines * (int64_t)gx_number_bytes(l->d->dtype);
    l->down_rows = gx_max(1, gx_min(CHUNK_BYTES / row, gx_sparse_most_rows(S)));
    for (int64_t p = 0; p < gx_sparse_pieces(S); p++) {
        l->down_units += gx_ceil_div(gx_sparse_piece_rows(S, p), l->down_rows);
    }
}

/* Under the lock, let go while waiting: the next rows; false: the run or the device has failed. */
static bool next_rows(loading *l, int64_t *row, int64_t *rows)
{
    const gx_mat *S = l->d->S;
    while (l->fetched == l->dones && l->fault.code == GX_OK && gx_ok(l->d->on.run)) {
        gx_stream_wait(&l->goes_on, &l->lock);
    }
    if (l->fetched == l->dones || l->fault.code != GX_OK) {
        return false;
    }
    int64_t piece = l->done[l->fetched], left = gx_sparse_piece_rows(S, piece) - l->fetched_rows;
    *row = gx_sparse_piece_row(S, piece) + l->fetched_rows;
    *rows = gx_min(left, l->down_rows);
    l->fetched_rows += *rows;
    if (*rows == left) {
        l->fetched++;
        l->fetched_rows = 0;
    }
    return true;
}

/* Under the lock: rows of the result to a stage, behind the products that have been enqueued. */
static gx_code fetch_rows(loading *l, stage *s, int64_t row, int64_t rows, gx_err *err)
{
    gx_sparse_device *d = l->d;
    const gx_accel *accel = d->on.accel;
    size_t element = gx_number_bytes(d->dtype), column = (size_t)rows * element;
    int64_t lines = l->follow->product.lines;
    s->turn = ++l->turn;
    GX_TRY(accel->backend->mark_set(accel->dev, accel->run, s->mark, err));
    GX_TRY(accel->backend->queue_after_mark(accel->dev, accel->down, s->mark, err));
    GX_TRY(accel->backend->download(accel->dev, accel->down, s->memory.data, column,
                                    gx_at(l->follow->turned, d->dtype, d->S->rows, row, 0),
                                    (size_t)d->S->rows * element, column, (size_t)lines, err));
    gx_stats_add(&d->on.run->ctx->stats, GX_STAT_DOWNLOADED, (int64_t)column * lines);
    return accel->backend->mark_set(accel->dev, accel->down, s->mark, err);
}

/* Some rows of the result, whichever are next. */
static gx_code bring_down(loading *l)
{
    const gx_accel *accel = l->d->on.accel;
    const gx_sparse_follow *f = l->follow;
    stage *s = take_stage(l);
    gx_err fault = {0};
    int64_t row, rows;
    if (s == NULL) {
        return GX_OK;
    }
    pthread_mutex_lock(&l->lock);
    bool is_coming = next_rows(l, &row, &rows) && fetch_rows(l, s, row, rows, &fault) == GX_OK;
    pthread_mutex_unlock(&l->lock);
    if (is_coming && accel->backend->mark_wait(accel->dev, s->mark, &fault) == GX_OK) {
        size_t bytes = (size_t)rows * gx_number_bytes(l->d->dtype);
        for (int64_t j = 0; j < f->product.lines; j++) {
            memcpy(gx_at(f->result, l->d->dtype, f->ldr, row, j),
                   (const char *)s->memory.data + (size_t)j * bytes, bytes);
        }
    }
    pthread_mutex_lock(&l->lock);
    give_stage(l, s, &fault);
    pthread_mutex_unlock(&l->lock);
    return GX_OK;
}

// Pieces through the ring -------------------------------------------------------------------------

/* From a piece in the stage, or in memory, to what goes up. */
static gx_csr prepare_ring(const loading *l, const stage *s, const gx_csr *csr)
{
    const gx_sparse_device *d = l->d;
    int64_t first = csr->start[0], ld = gx_max(1, csr->entries);
    gx_csr up = prepare_head(l, s, csr, 0);
    if (converts(l)) {
        char *to = (char *)s->memory.data + l->block_bytes;
        const char *values = (const char *)csr->value + (size_t)first * gx_number_bytes(csr->dtype);
        gx_convert(csr->dtype, values, ld, d->dtype, to, ld, csr->entries, 1);
        up.value = to;
    }
    return up;
}

static gx_code send_through(loading *l, const stage *s, const gx_csr *up, int64_t piece,
                            gx_err *err)
{
    gx_sparse_device *d = l->d;
    const gx_accel *accel = d->on.accel;
    int64_t slot = s->turn % GX_SPARSE_RING;
    gx_csr there = gx_sparse_panel_at(d, d->on.hold[slot].data, up->rows, up->entries);
    GX_TRY(accel->backend->queue_after_mark(accel->dev, accel->up, d->on.mark[slot], err));
    GX_TRY(send_head(d, up, &there, 0, 0, err));
    GX_TRY(send_values(d, up->value, up->entries, &there, 0, err));
    GX_TRY(set_mark(l, s, err));
    GX_TRY(accel->backend->queue_after_mark(accel->dev, accel->run, s->mark, err));
    GX_TRY(gx_sparse_call(d, &there, l->product, gx_sparse_piece_row(d->S, piece), err));
    return accel->backend->mark_set(accel->dev, accel->run, d->on.mark[slot], err);
}

static gx_code bring_through(loading *l, int64_t piece, gx_pass_thread *thread, gx_err *err)
{
    stage *s = take_stage(l);
    gx_err fault = {0};
    gx_csr csr = {0}, up = {0};
    if (s == NULL) {
        return GX_OK;
    }
    gx_code code = gx_pass_read_piece(thread, l->d->S, piece, s->memory.data, &csr, err);
    if (code == GX_OK) {
        up = prepare_ring(l, s, &csr);
    }
    if (begin_sending(l, s, code)) {
        (void)send_through(l, s, &up, piece, &fault);
    }
    end_sending(l, s, &fault);
    return code;
}

// All of them -------------------------------------------------------------------------------------

/* A unit of the pass.  What the device fails at ends it without a word; gx_sparse_load() looks. */
static gx_code bring(void *arg, int64_t unit, gx_pass_thread *thread, void *memory, void *part,
                     gx_err *err)
{
    loading *l = arg;
    int64_t piece = unit - l->dense_units;
    (void)memory, (void)part;
    return unit < l->dense_units               ? bring_dense(l, unit, thread, err)
           : l->product != NULL                ? bring_through(l, unit, thread, err)
           : piece < gx_sparse_pieces(l->d->S) ? bring_piece(l, piece, thread, err)
                                               : bring_down(l);
}

/* Bytes of a stage's two parts: what is read into it, and what is made of that. */
static size_t lay_out_stage(loading *l)
{
    const gx_mat *S = l->d->S;
    size_t rows = (size_t)gx_sparse_most_rows(S) + 1, entries = (size_t)gx_sparse_most_entries(S);
    size_t starts = aligned(rows * sizeof(uint32_t));
    size_t head = starts + aligned(entries * (size_t)gx_csr_index_bytes(S->cols));
    size_t element = gx_number_bytes(l->d->dtype), stored = gx_number_bytes(S->number);
    size_t chunk = CHUNK_BYTES / (element > stored ? element : stored);
    l->chunk = (int64_t)(l->product != NULL || entries < chunk ? entries : chunk);
    size_t values = aligned((size_t)l->chunk * stored);
    l->block_bytes = head > values ? head : values;
    size_t whole = l->product != NULL ? aligned(gx_sparse_block_bytes(S)) : 0;
    l->block_bytes = whole > l->block_bytes ? whole : l->block_bytes;
    size_t behind = l->follow != NULL ? starts : 0;
    size_t converted = converts(l) ? aligned((size_t)l->chunk * element) : 0;
    size_t bytes = l->block_bytes + (behind > converted ? behind : converted);
    size_t dense = (size_t)(l->dense_rows * l->dense_cols) * element;
    size_t down =
        l->follow == NULL ? 0 : (size_t)(l->down_rows * l->follow->product.lines) * element;
    bytes = dense > bytes ? dense : bytes;
    return down > bytes ? down : bytes;
}

static gx_code take_stages(loading *l, int64_t units, gx_err *err)
{
    gx_sparse_device *d = l->d;
    gx_run *run = d->on.run;
    size_t budget = (size_t)run->ctx->config.number[GX_SET_PINNING_BUDGET];
    size_t bytes = lay_out_stage(l);
    int64_t wanted =
        gx_max(run->ctx->config.number[GX_SET_READERS], run->ctx->config.number[GX_SET_THREADS]);
    wanted = gx_min(gx_min(wanted + AHEAD, STAGES), units);
    for (int64_t k = 0; k < wanted; k++) {
        gx_err refusal = {0};
        stage *s = &l->stage[k];
        if (k > 0 && !l->stage[k - 1].memory.is_pinned && k > AHEAD) {
            break; // they come out of memory_limit: a few will do
        }
        if (gx_pool_stage(d->on.accel->pool, bytes, budget, &s->memory, &refusal) != GX_OK) {
            return k > 0 ? GX_OK : gx_fail(err, refusal.code, "%s", refusal.text);
        }
        l->stages++;
        GX_TRY(d->on.accel->backend->mark_create(d->on.accel->dev, &s->mark, err));
    }
    return GX_OK;
}

static gx_code count_entries(loading *l, gx_err *err)
{
    const gx_mat *S = l->d->S;
    int64_t pieces = gx_sparse_pieces(S), entries = 0;
    GX_TRY(gx_mem_alloc(l->d->on.run->ctx->mem, 3 * (size_t)pieces * sizeof *l->first,
                        "the schedule of panels", &l->first, err));
    l->waiting = l->first + pieces;
    l->done = l->waiting + pieces;
    for (int64_t p = 0; p < pieces; p++) {
        l->first[p] = entries;
        entries += gx_sparse_piece_entries(S, p);
    }
    return GX_OK;
}

static void run_pass(loading *l, int64_t units)
{
    gx_sparse_device *d = l->d;
    const gx_mat *const sources[2] = {d->S, l->dense_units > 0 ? l->follow->dense : NULL};
    double bytes = (double)gx_sparse_bytes(d->S);
    if (l->dense_units > 0) {
        bytes +=
            (double)sources[1]->rows * (double)sources[1]->cols * (double)gx_number_bytes(d->dtype);
    }
    gx_pass pass = {.sources = sources,
                    .source_count = 2,
                    .units = units,
                    .bytes = bytes,
                    .threads = gx_max(1, l->stages > AHEAD ? l->stages - AHEAD : l->stages),
                    .work = bring,
                    .arg = l};
    gx_pass_run(d->on.run, &pass);
}

gx_code gx_sparse_load(gx_sparse_device *d, const gx_sparse_product *product,
                       const gx_sparse_follow *follow, gx_err *err)
{
    gx_run *run = d->on.run;
    loading l = {.d = d, .product = product, .follow = follow};
    gx_err refusal = {0};
    if (count_entries(&l, &refusal) != GX_OK) {
        return gx_run_fail(run, &refusal);
    }
    if (follow != NULL && follow->dense != NULL) {
        cut_dense(&l);
    }
    if (follow != NULL) {
        cut_result(&l);
    }
    pthread_mutex_init(&l.lock, NULL);
    pthread_cond_init(&l.goes_on, NULL);
    int64_t units = l.dense_units + gx_sparse_pieces(d->S) + l.down_units;
    gx_code code = take_stages(&l, units, err);
    if (code == GX_OK) {
        run_pass(&l, units);
        code = l.fault.code;
        if (code != GX_OK) {
            gx_fail(err, code, "%s", l.fault.text);
        }
    }
    gx_err late = {0};
    // The marks are awaited by kernels of the ring, too.
    gx_code settled = gx_device_settle(d->on.accel, code == GX_OK ? err : &late);
    code = code == GX_OK ? settled : code;
    for (int k = 0; k < l.stages; k++) {
        gx_pool_unstage(d->on.accel->pool, &l.stage[k].memory);
        d->on.accel->backend->mark_free(d->on.accel->dev, l.stage[k].mark);
    }
    pthread_cond_destroy(&l.goes_on);
    pthread_mutex_destroy(&l.lock);
    gx_mem_free(run->ctx->mem, l.first);
    return code;
}
