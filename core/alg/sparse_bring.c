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
#include "sparse_device.h"

#include "../exec/load.h"

#include <string.h>

enum { CHUNK_BYTES = 2 << 20, ALIGN = 256 };

typedef struct loading {
    gx_upload up;
    gx_sparse_device *d;
    const gx_sparse_product *product; /* of the ring; NULL: to the whole's place */
    const gx_sparse_follow *follow;   /* of the whole, or NULL                   */
    size_t block_bytes; /* of a stage: as it is read; behind it own starts, or values in dtype */
    int64_t chunk;      /* values at a time                                                */
    gx_load_part dense; /* follow->dense */
    int64_t down_rows, down_units; /* of the result: rows of a piece at most; pieces       */
    int64_t *first;         /* entries before each piece                                     */
    int64_t *waiting;       /* pieces that are there before follow->dense is                 */
    int64_t *done;          /* pieces whose products have been enqueued                      */
    pthread_cond_t goes_on; /* there is a product more; it and what follows under up.lock  */
    int64_t dense_left, waits, dones;
    int64_t fetched, fetched_rows; /* of `done`: pieces that are on their way down; of the next */
} loading;

gx_sparse_layout gx_sparse_lay_out(const gx_mat *S, gx_number dtype, int64_t rows, int64_t entries)
{
    gx_sparse_layout l = {.index = gx_round_up((size_t)(rows + 1) * sizeof(uint32_t), ALIGN)};
    l.value = l.index + gx_round_up((size_t)entries * (size_t)gx_csr_index_bytes(S->cols), ALIGN);
    l.own = l.value + gx_round_up((size_t)entries * gx_number_bytes(dtype), ALIGN);
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

static bool converts(const loading *l)
{
    return l->d->S->number != l->d->dtype;
}

// Up ----------------------------------------------------------------------------------------------

static gx_code send_bytes(loading *l, const void *to, size_t at, const void *from, size_t bytes,
                          gx_err *err)
{
    return gx_upload_send(&l->up, (char *)(uintptr_t)to + at, bytes, from, bytes, 1, err);
}

/* Starts and indexes of csr to row `row`, entry `entry` of `to`. */
static gx_code send_head(loading *l, const gx_csr *csr, const gx_csr *to, int64_t row,
                         int64_t entry, gx_err *err)
{
    size_t own = (size_t)csr->index_bytes;
    GX_TRY(send_bytes(l, to->start, (size_t)row * sizeof(uint32_t), csr->start,
                      (size_t)(csr->rows + 1) * sizeof(uint32_t), err));
    return send_bytes(l, to->index, (size_t)entry * own, csr->index, (size_t)csr->entries * own,
                      err);
}

static gx_code send_values(loading *l, const void *values, int64_t count, const gx_csr *to,
                           int64_t entry, gx_err *err)
{
    size_t element = gx_number_bytes(l->d->dtype);
    return send_bytes(l, to->value, (size_t)entry * element, values, (size_t)count * element, err);
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

/* m x n numbers at `to`, of leading dimension ldc: those at `from` turned. */
static gx_code turn(const loading *l, int64_t m, int64_t n, const void *from, void *to, int64_t ldc,
                    gx_err *err)
{
    gx_args args = {.transa = GX_TRANS, .m = m, .n = n, .a = from, .lda = n, .c = to, .ldc = ldc};
    return gx_devcall_kernel(&l->d->on, GX_TRANSPOSE, l->d->dtype, &args, err);
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
    const gx_sparse_product *p = &l->follow->product;
    GX_TRY(turn(l, there.rows, p->lines, gx_at(p->R, d->dtype, p->lines, 0, row0),
                gx_at(l->follow->at, d->dtype, d->S->rows, row0, 0), d->S->rows, err));
    l->done[l->dones++] = piece;
    pthread_cond_broadcast(&l->goes_on);
    return GX_OK;
}

/* Under the lock: all of a piece has been sent, the last of it from s. */
static gx_code follow_piece(loading *l, const gx_stage *s, int64_t piece, gx_err *err)
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

/* Under the lock: a unit of follow->dense has been sent; is it all, and what waits for it, too? */
static gx_code follow_dense(void *arg, int64_t panel, const gx_stage *s, gx_err *err)
{
    loading *l = arg;
    const gx_accel *accel = l->d->on.accel;
    (void)panel;
    if (--l->dense_left > 0) {
        return GX_OK;
    }
    GX_TRY(accel->backend->queue_after_mark(accel->dev, accel->run, s->mark, err));
    const gx_sparse_follow *f = l->follow;
    GX_TRY(turn(l, f->product.lines, f->dense->rows, f->at, (void *)(uintptr_t)f->product.L,
                f->product.lines, err));
    for (int64_t k = 0; k < l->waits; k++) {
        GX_TRY(multiply_piece(l, l->waiting[k], err));
    }
    return GX_OK;
}

/*
** The head of a piece as it goes up: starts that count on from the pieces before it; behind them in
** the stage those of its own, where a product follows.
*/
static void prepare_head(const loading *l, const gx_stage *s, int64_t rows, int64_t from)
{
    uint32_t *start = s->memory.data;
    if (l->follow != NULL) {
        memcpy((char *)s->memory.data + l->block_bytes, start, (size_t)(rows + 1) * sizeof *start);
    }
    for (int64_t i = 0; i <= rows; i++) {
        start[i] = (uint32_t)(start[i] + from);
    }
}

static gx_code bring_head(loading *l, int64_t piece, gx_pass_thread *thread, gx_err *err)
{
    gx_sparse_device *d = l->d;
    gx_stage *s = gx_upload_take(&l->up);
    gx_err fault = {0};
    gx_csr up = {0};
    if (s == NULL) {
        return GX_OK;
    }
    gx_code code = gx_pass_read_head(thread, d->S, piece, s->memory.data, &up, err);
    if (code == GX_OK) {
        prepare_head(l, s, up.rows, l->first[piece]);
    }
    if (gx_upload_begin(&l->up, s, code)) {
        int64_t row0 = gx_sparse_piece_row(d->S, piece);
        if (l->follow != NULL) {
            (void)send_bytes(l, own_starts(d, piece), 0,
                             (const char *)s->memory.data + l->block_bytes,
                             (size_t)(up.rows + 1) * sizeof(uint32_t), &fault);
        }
        if (fault.code == GX_OK &&
            send_head(l, &up, &d->csr, row0, l->first[piece], &fault) == GX_OK) {
            (void)gx_upload_mark(&l->up, s, &fault);
        }
    }
    gx_upload_end(&l->up, s, &fault);
    return code;
}

/* Values of a piece from the stage's byte `at` on, in the product's dtype; *up: where they are. */
static gx_code read_values(const loading *l, const gx_stage *s, size_t at, int64_t piece,
                           int64_t first, int64_t count, gx_pass_thread *thread, const void **up,
                           gx_err *err)
{
    const gx_mat *S = l->d->S;
    char *values = (char *)s->memory.data + at, *to = (char *)s->memory.data + l->block_bytes;
    int64_t ld = gx_max(1, count);
    if (count > 0) {
        GX_TRY(gx_pass_read_values(thread, S, piece, first, count, values, err));
    }
    *up = converts(l) ? to : values;
    if (converts(l)) {
        gx_convert(S->number, values, ld, l->d->dtype, to, ld, count, 1);
    }
    return GX_OK;
}

/* Values [first, first + count) of the piece; the product behind the last ones. */
static gx_code bring_values(loading *l, int64_t piece, int64_t first, int64_t count,
                            gx_pass_thread *thread, gx_err *err)
{
    gx_sparse_device *d = l->d;
    gx_stage *s = gx_upload_take(&l->up);
    gx_err fault = {0};
    const void *up = NULL;
    if (s == NULL) {
        return GX_OK;
    }
    gx_code code = read_values(l, s, 0, piece, first, count, thread, &up, err);
    if (gx_upload_begin(&l->up, s, code) &&
        send_values(l, up, count, &d->csr, l->first[piece] + first, &fault) == GX_OK &&
        gx_upload_mark(&l->up, s, &fault) == GX_OK &&
        first + count == gx_sparse_piece_entries(d->S, piece)) {
        (void)follow_piece(l, s, piece, &fault);
    }
    gx_upload_end(&l->up, s, &fault);
    return code;
}

static gx_code bring_piece(loading *l, int64_t piece, gx_pass_thread *thread, gx_err *err)
{
    int64_t entries = gx_sparse_piece_entries(l->d->S, piece), first = 0;
    GX_TRY(bring_head(l, piece, thread, err));
    do { // once where there are none
        int64_t count = gx_min(l->chunk, entries - first);
        GX_TRY(bring_values(l, piece, first, count, thread, err));
        first += count;
    } while (first < entries);
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
    while (l->fetched == l->dones && l->up.fault.code == GX_OK && gx_ok(l->d->on.run)) {
        gx_stream_wait(&l->goes_on, &l->up.lock);
    }
    if (l->fetched == l->dones || l->up.fault.code != GX_OK) {
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
static gx_code fetch_rows(loading *l, const gx_stage *s, int64_t row, int64_t rows, gx_err *err)
{
    gx_sparse_device *d = l->d;
    const gx_accel *accel = d->on.accel;
    size_t element = gx_number_bytes(d->dtype), column = (size_t)rows * element;
    int64_t lines = l->follow->product.lines;
    GX_TRY(accel->backend->mark_set(accel->dev, accel->run, s->mark, err));
    GX_TRY(accel->backend->queue_after_mark(accel->dev, accel->down, s->mark, err));
    GX_TRY(accel->backend->download(accel->dev, accel->down, s->memory.data, column,
                                    gx_at(l->follow->at, d->dtype, d->S->rows, row, 0),
                                    (size_t)d->S->rows * element, column, (size_t)lines, err));
    gx_stats_add(&d->on.run->ctx->stats, GX_STAT_DOWNLOADED, (int64_t)column * lines);
    return accel->backend->mark_set(accel->dev, accel->down, s->mark, err);
}

/* Some rows of the result, whichever are next. */
static gx_code bring_down(loading *l)
{
    const gx_accel *accel = l->d->on.accel;
    const gx_sparse_follow *f = l->follow;
    gx_stage *s = gx_upload_take(&l->up);
    gx_err fault = {0};
    int64_t row, rows;
    if (s == NULL) {
        return GX_OK;
    }
    bool is_coming = gx_upload_begin(&l->up, s, GX_OK) && next_rows(l, &row, &rows) &&
                     fetch_rows(l, s, row, rows, &fault) == GX_OK;
    gx_upload_end(&l->up, is_coming ? NULL : s, &fault);
    if (!is_coming) {
        return GX_OK;
    }
    if (accel->backend->mark_wait(accel->dev, s->mark, &fault) == GX_OK) {
        size_t bytes = (size_t)rows * gx_number_bytes(l->d->dtype);
        for (int64_t j = 0; j < f->product.lines; j++) {
            memcpy(gx_at(f->result, l->d->dtype, f->ldr, row, j),
                   (const char *)s->memory.data + (size_t)j * bytes, bytes);
        }
    }
    pthread_mutex_lock(&l->up.lock);
    gx_upload_end(&l->up, s, &fault);
    return GX_OK;
}

// Pieces through the ring -------------------------------------------------------------------------

static gx_code send_through(loading *l, const gx_stage *s, const gx_csr *up, int64_t piece,
                            gx_err *err)
{
    gx_sparse_device *d = l->d;
    const gx_accel *accel = d->on.accel;
    int64_t slot = s->turn % GX_SPARSE_RING;
    gx_csr there = gx_sparse_panel_at(d, d->on.hold[slot].data, up->rows, up->entries);
    GX_TRY(accel->backend->queue_after_mark(accel->dev, accel->up, d->on.mark[slot], err));
    GX_TRY(send_head(l, up, &there, 0, 0, err));
    GX_TRY(send_values(l, up->value, up->entries, &there, 0, err));
    GX_TRY(gx_upload_mark(&l->up, s, err));
    GX_TRY(accel->backend->queue_after_mark(accel->dev, accel->run, s->mark, err));
    GX_TRY(gx_sparse_call(d, &there, l->product, gx_sparse_piece_row(d->S, piece), err));
    return accel->backend->mark_set(accel->dev, accel->run, d->on.mark[slot], err);
}

static gx_code bring_through(loading *l, int64_t piece, gx_pass_thread *thread, gx_err *err)
{
    gx_stage *s = gx_upload_take(&l->up);
    gx_err fault = {0};
    gx_csr up = {0};
    if (s == NULL) {
        return GX_OK;
    }
    gx_code code = gx_pass_read_head(thread, l->d->S, piece, s->memory.data, &up, err);
    if (code == GX_OK) {
        code = read_values(l, s, gx_sparse_head_bytes(l->d->S, piece), piece, 0, up.entries, thread,
                           &up.value, err);
    }
    if (gx_upload_begin(&l->up, s, code)) {
        (void)send_through(l, s, &up, piece, &fault);
    }
    gx_upload_end(&l->up, s, &fault);
    return code;
}

// All of them -------------------------------------------------------------------------------------

/* A unit of the pass.  What the device fails at ends it without a word; gx_sparse_load() looks. */
static gx_code bring(void *arg, int64_t unit, gx_pass_thread *thread, void *memory, void *part,
                     gx_err *err)
{
    loading *l = arg;
    int64_t piece = unit - l->dense.units;
    (void)memory, (void)part;
    return unit < l->dense.units               ? gx_load_unit(&l->up, &l->dense, unit, thread, err)
           : l->product != NULL                ? bring_through(l, unit, thread, err)
           : piece < gx_sparse_pieces(l->d->S) ? bring_piece(l, piece, thread, err)
                                               : bring_down(l);
}

/* Bytes of a stage's two parts: what is read into it, and what is made of that. */
static size_t lay_out_stage(loading *l)
{
    const gx_mat *S = l->d->S;
    size_t rows = (size_t)gx_sparse_most_rows(S) + 1, entries = (size_t)gx_sparse_most_entries(S);
    size_t starts = gx_round_up(rows * sizeof(uint32_t), ALIGN);
    size_t head = starts + gx_round_up(entries * (size_t)gx_csr_index_bytes(S->cols), ALIGN);
    size_t element = gx_number_bytes(l->d->dtype), stored = gx_number_bytes(S->number);
    size_t chunk = CHUNK_BYTES / (element > stored ? element : stored);
    l->chunk = (int64_t)(l->product != NULL || entries < chunk ? entries : chunk);
    size_t values = gx_round_up((size_t)l->chunk * stored, ALIGN);
    l->block_bytes = l->product != NULL ? head + values : head > values ? head : values;
    size_t behind = l->follow != NULL ? starts : 0;
    size_t converted = converts(l) ? gx_round_up((size_t)l->chunk * element, ALIGN) : 0;
    size_t bytes = l->block_bytes + (behind > converted ? behind : converted);
    size_t down =
        l->follow == NULL ? 0 : (size_t)(l->down_rows * l->follow->product.lines) * element;
    bytes = l->dense.piece_bytes > bytes ? l->dense.piece_bytes : bytes;
    return down > bytes ? down : bytes;
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
    const gx_mat *D = l->dense.to.mat;
    const gx_mat *const sources[2] = {d->S, D};
    gx_pass pass = {.sources = sources,
                    .source_count = 2,
                    .units = units,
                    .bytes = (double)gx_sparse_bytes(d->S),
                    .threads = gx_upload_threads(&l->up),
                    .work = bring,
                    .arg = l};
    if (D != NULL) {
        pass.bytes += (double)D->rows * (double)D->cols * (double)gx_number_bytes(d->dtype);
    }
    gx_pass_run(d->on.run, &pass);
}

gx_code gx_sparse_load(gx_sparse_device *d, const gx_sparse_product *product,
                       const gx_sparse_follow *follow, gx_err *err)
{
    gx_run *run = d->on.run;
    const int64_t *setting = run->ctx->config.number;
    loading l = {
        .up = {.run = run, .accel = d->on.accel}, .d = d, .product = product, .follow = follow};
    gx_err refusal = {0};
    if (count_entries(&l, &refusal) != GX_OK) {
        return gx_run_fail(run, &refusal);
    }
    if (follow != NULL && follow->dense != NULL) {
        const gx_mat *D = follow->dense;
        gx_load_cut(
            &l.dense,
            &(gx_device_part){.mat = D, .cols = D->cols, .dtype = d->dtype, .a = follow->at}, 0);
        l.dense.sent = follow_dense;
        l.dense.arg = &l;
        l.dense_left = l.dense.units;
    }
    if (follow != NULL) {
        cut_result(&l);
    }
    pthread_cond_init(&l.goes_on, NULL);
    int64_t units = l.dense.units + gx_sparse_pieces(d->S) + l.down_units;
    int64_t threads = gx_max(setting[GX_SET_READERS], setting[GX_SET_THREADS]);
    gx_code code = gx_upload_open(&l.up, lay_out_stage(&l), threads, units, err);
    if (code == GX_OK) {
        run_pass(&l, units);
    }
    // The marks are awaited by kernels of the ring, too.
    code = gx_upload_close(&l.up, false, code, err);
    pthread_cond_destroy(&l.goes_on);
    gx_mem_free(run->ctx->mem, l.first);
    return code;
}
