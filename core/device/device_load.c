/*
** Matrices from the database to device memory: see device_copy.h.
**
** They go up in pieces of PIECE_BYTES, some columns of a tile or some tiles: helper threads read
** them into page-locked buffers, and each enqueues what it has read.  The pieces of a tile are a
** unit: one helper reads them in turn, because SQLite finds its way to the middle of a tile from
** its beginning; units go in any order.  So a call page-locks little memory (which takes 0.3 ms a
** MB), and what is read is still in the processor's cache when it goes up.  Several matrices go at
** once: one after the other would leave most helpers idle.
**
**   buffer   FREE -> FILLING (read and enqueued) -> LEAVING -> FREE at its mark
**
** A helper that finds none free takes the one that is leaving longest and waits for its mark.
** Where nothing has gone up yet a quarter of a piece goes first: the link has nothing else to do.
** Units are taken panel by panel, and none takes a buffer while its panel has no memory.  What is
** to be done when a panel is there the caller does, and what it has to do meanwhile.
** Without helpers the caller reads as well; and of few units the caller takes its share, for which
** another helper would still be opening.
**
** Memory: up to STAGES buffers of PIECE_BYTES, page-locked within pinning_budget.
*/
#include "device_copy.h"

#include "../mat/stream.h"

#include <assert.h>

enum { STAGES = 32, TURNS = 3, SPARE = 8, PIECE_BYTES = GX_PIECE_UP_BYTES };

enum { ENOUGH = 8 };    // helpers that nearly fill a link
enum { FEW_UNITS = 4 }; // the caller's reading keeps nobody waiting for long

typedef enum buffer_state { FREE = 0, FILLING, LEAVING } buffer_state;

typedef struct buffer {
    gx_staging memory;
    gx_mark *mark;
    buffer_state state;
    int64_t turn; /* when it was enqueued, by number */
} buffer;

/* A matrix that goes up, and how it is cut. */
typedef struct part {
    gx_device_part to;
    int64_t panel_rows, piece_rows, piece_cols, unit_cols;
    int64_t turns;           /* pieces in a unit, beside each other        */
    int64_t down, per_panel; /* units in a column of a panel; pieces in it */
    int64_t first, pieces;   /* its first piece, of all; how many          */
} part;

typedef struct loading {
    gx_run *run;
    gx_accel *accel;
    const gx_device_panels *panels; /* of the only part; NULL: one panel, at its a */
    int64_t *left;                  /* of each panel: pieces to be sent; -1: it is ready */
    bool *is_begun;                 /* of each panel: its memory was asked for     */
    part part[GX_DEVICE_PARTS];
    int parts;
    int64_t pieces, units; /* of all parts */
    size_t piece_bytes;
    buffer buffer[STAGES];
    int buffers;

    pthread_mutex_t lock;      /* guards what follows, and the buffers' states            */
    pthread_cond_t come, gone; /* a panel is there, or all: the caller; a buffer: a helper */
    int64_t next, sent;        /* pieces taken; enqueued, or passed over  */
    int64_t turn;              /* of buffers that were enqueued           */
    int64_t there,
        whole;       /* panels of which all have been sent; those that are ready, without a gap */
    bool is_open;    /* the panels' memory is there             */
    bool is_stopped; /* nothing more is taken                   */
    gx_err fault;    /* of the device, the first                */
} loading;

typedef struct rectangle {
    const part *of;
    int64_t i, j, m, n, panel;
} rectangle;

/* m or n <= 0: the last panel is lower than that, the last unit narrower. */
static rectangle piece_of(const loading *l, int64_t t)
{
    const part *p = l->part;
    while (t >= p->first + p->pieces) {
        p++;
    }
    t -= p->first;
    int64_t panel = t / p->per_panel, e = t % p->per_panel, unit = e / p->turns;
    int64_t i = panel * p->panel_rows + unit % p->down * p->piece_rows;
    int64_t right = gx_min(p->to.cols, (unit / p->down + 1) * p->unit_cols);
    int64_t j = unit / p->down * p->unit_cols + e % p->turns * p->piece_cols;
    int64_t end = gx_min((panel + 1) * p->panel_rows, p->to.mat->rows);
    return (rectangle){p,    i, j, gx_min(p->piece_rows, end - i), gx_min(p->piece_cols, right - j),
                       panel};
}

/* Whole tiles where they are small, columns of one where it is large. */
static void add_part(loading *l, const gx_device_part *to)
{
    part *p = &l->part[l->parts++];
    const gx_mat *mat = to->mat;
    int64_t element = (int64_t)gx_number_bytes(to->dtype), most = (int64_t)PIECE_BYTES / element;
    int64_t rows = gx_max(1, gx_min(mat->tile_rows, mat->rows));
    p->to = *to;
    p->unit_cols = gx_max(1, gx_min(mat->tile_cols, to->cols));
    p->piece_cols = gx_max(1, gx_min(p->unit_cols, most / rows));
    p->turns = gx_ceil_div(p->unit_cols, p->piece_cols);
    p->panel_rows = gx_max(1, l->panels == NULL ? mat->rows : l->panels->rows);
    p->piece_rows = gx_min(p->panel_rows, rows * gx_max(1, most / (rows * p->piece_cols)));
    p->down = gx_ceil_div(p->panel_rows, p->piece_rows);
    p->per_panel = p->down * gx_ceil_div(to->cols, p->unit_cols) * p->turns;
    p->first = l->pieces;
    p->pieces = p->per_panel * gx_ceil_div(mat->rows, p->panel_rows);
    l->pieces += p->pieces;
    l->units += p->pieces / p->turns;
    size_t bytes = (size_t)(p->piece_rows * p->piece_cols * element);
    l->piece_bytes = bytes > l->piece_bytes ? bytes : l->piece_bytes;
}

static int64_t count_panels(const loading *l)
{
    return gx_ceil_div(l->part[0].to.mat->rows, l->part[0].panel_rows);
}

static gx_code count_pieces(loading *l)
{
    void *memory = NULL;
    gx_err refusal = {0};
    size_t bytes = (size_t)count_panels(l) * (sizeof *l->left + sizeof *l->is_begun);
    if (gx_mem_calloc(l->run->ctx->mem, bytes, "the schedule of blocks", &memory, &refusal) !=
        GX_OK) {
        return gx_run_fail(l->run, &refusal);
    }
    l->left = memory;
    l->is_begun = (bool *)(l->left + count_panels(l));
    for (int64_t t = 0; t < l->pieces; t++) {
        rectangle r = piece_of(l, t);
        l->left[r.panel] += r.m > 0 && r.n > 0;
    }
    return GX_OK;
}

/* Under the lock: the pieces [t, end) of the next unit that is wanted; false: there is none. */
static bool next_unit(loading *l, int64_t *t, int64_t *end)
{
    while (!l->is_stopped && gx_ok(l->run) && l->next < l->pieces) {
        rectangle r = piece_of(l, l->next);
        *t = l->next;
        l->next = *end = *t + r.of->turns;
        if (r.m > 0 && (!r.of->to.is_lower || r.i + r.m > r.j)) {
            while (piece_of(l, *end - 1).n <= 0) { // the first one never is
                --*end;
                l->sent++;
            }
            return true;
        }
        l->sent += r.of->turns; // above the diagonal, or below the last row
    }
    return false;
}

static buffer *find_buffer(loading *l)
{
    buffer *best = NULL;
    for (int k = 0; k < l->buffers; k++) {
        buffer *b = &l->buffer[k];
        if (b->state == FREE) {
            return b;
        }
        if (b->state == LEAVING && (best == NULL || b->turn < best->turn)) {
            best = b;
        }
    }
    return best;
}

/* Under the lock: does the piece's panel have memory?  Only such pieces take buffers. */
static bool has_memory(const loading *l, int64_t t)
{
    return l->panels == NULL || piece_of(l, t).panel < l->whole + l->panels->ring;
}

static void wake_all(loading *l)
{
    pthread_cond_signal(&l->come);
    pthread_cond_broadcast(&l->gone);
}

static void stop(loading *l)
{
    pthread_mutex_lock(&l->lock);
    l->is_stopped = true;
    wake_all(l);
    pthread_mutex_unlock(&l->lock);
}

/* Columns of a piece go up from where they are.  The panel's memory is clear: begin_panel(). */
static gx_code send(loading *l, gx_dtype as, const void *from, const rectangle *r, gx_err *err)
{
    int64_t ld = r->of->to.mat->rows;
    gx_number dtype = r->of->to.dtype;
    void *base = r->of->to.a;
    if (l->panels != NULL) {
        base = l->panels->place(l->panels->arg, r->panel, &ld);
    }
    void *to = gx_at(base, dtype, ld, r->i - r->panel * r->of->panel_rows, r->j);
    return gx_device_send(l->run, l->accel, as, from, dtype, to, ld, r->m, r->n, err);
}

/*
** Under the lock, let go in between: once there is memory, the first piece of a panel has the
** panel's cleared.
*/
static gx_code begin_panel(loading *l, const rectangle *r, gx_err *err)
{
    while (!l->is_open && !l->is_stopped && gx_ok(l->run)) {
        gx_stream_wait(&l->gone, &l->lock);
    }
    if (l->panels == NULL || !l->is_open || l->is_begun[r->panel]) {
        return GX_OK;
    }
    l->is_begun[r->panel] = true;
    return l->panels->begin(l->panels->arg, r->panel, err);
}

/* Under the lock: a piece has been enqueued, and its buffer may be taken again. */
static void count_sent(loading *l, buffer *b, const rectangle *r)
{
    b->state = LEAVING;
    b->turn = ++l->turn;
    l->sent++;
    if (l->panels != NULL && --l->left[r->panel] == 0) {
        l->there++;
        pthread_cond_signal(&l->come);
    }
    if (l->sent == l->pieces) {
        pthread_cond_signal(&l->come);
    }
    if (l->panels != NULL) {
        pthread_cond_broadcast(&l->gone); // some wait for a buffer, some for a panel's memory
    } else {
        pthread_cond_signal(&l->gone);
    }
}

/* Under the lock: the device has failed; nothing more is taken. */
static void fail(loading *l, const gx_err *fault)
{
    l->fault = l->fault.code == GX_OK ? *fault : l->fault;
    l->is_stopped = true;
    wake_all(l);
}

/* Read columns of a piece into its buffer, and enqueue them. */
static gx_code bring_columns(loading *l, const buffer *b, const rectangle *r, int64_t j, int64_t n,
                             gx_reader *reader, gx_err *fault)
{
    const gx_device_part *to = &r->of->to;
    rectangle cut = {.of = r->of, .i = r->i, .j = r->j + j, .m = r->m, .n = n, .panel = r->panel};
    gx_dtype as = gx_device_form(l->accel, &b->memory, to->mat, to->dtype);
    void *at = gx_dtype_at(b->memory.data, as, r->m, 0, j);
    gx_err err = {0};
    if (!gx_ok(l->run)) {
        return GX_OK;
    }
    gx_mat_read_as(l->run, to->mat, reader, cut.i, cut.j, cut.m, n, as, at, r->m, &err);
    gx_run_fail(l->run, &err);
    pthread_mutex_lock(&l->lock);
    gx_code code = begin_panel(l, r, fault);
    bool goes_on = code == GX_OK && gx_ok(l->run) && !l->is_stopped;
    pthread_mutex_unlock(&l->lock);
    return goes_on ? send(l, as, at, &cut, fault) : code;
}

/* Into a buffer that is free, or is leaving. */
static gx_code bring(loading *l, buffer *b, const rectangle *r, bool is_leaving, gx_reader *reader,
                     gx_err *fault)
{
    const gx_accel *accel = l->accel;
    int64_t ahead = is_leaving ? 0 : r->n / 4;
    if (is_leaving) {
        GX_TRY(accel->backend->mark_wait(accel->dev, b->mark, fault));
    }
    GX_TRY(ahead == 0 ? GX_OK : bring_columns(l, b, r, 0, ahead, reader, fault));
    GX_TRY(bring_columns(l, b, r, ahead, r->n - ahead, reader, fault));
    return accel->backend->mark_set(accel->dev, accel->up, b->mark, fault);
}

/*
** Under the lock, let go in between: read piece t, by a helper or by `own`, and enqueue it.  false:
** the run or the device has failed.
*/
static bool bring_piece(loading *l, int64_t t, const gx_helper *helper, gx_reader *own)
{
    gx_err fault = {0};
    buffer *b = NULL;
    while (!has_memory(l, t) || (b = find_buffer(l)) == NULL) {
        if (l->is_stopped || !gx_ok(l->run) || helper == NULL) {
            return false;
        }
        gx_stream_wait(&l->gone, &l->lock);
    }
    bool is_leaving = b->state == LEAVING;
    b->state = FILLING;
    pthread_mutex_unlock(&l->lock);
    rectangle r = piece_of(l, t);
    (void)bring(l, b, &r, is_leaving,
                helper != NULL ? gx_helper_reader(helper, r.of->to.mat) : own, &fault);
    pthread_mutex_lock(&l->lock);
    bool goes_on = fault.code == GX_OK && gx_ok(l->run) && !l->is_stopped;
    if (goes_on) {
        count_sent(l, b, &r);
    } else if (fault.code != GX_OK) {
        fail(l, &fault);
    }
    return goes_on;
}

static void help(void *arg, gx_helper *helper)
{
    loading *l = arg;
    int64_t t, end;
    bool goes_on = true;
    pthread_mutex_lock(&l->lock);
    while (goes_on && next_unit(l, &t, &end)) {
        for (; t < end && goes_on; t++) {
            goes_on = bring_piece(l, t, helper, NULL);
        }
    }
    wake_all(l);
    pthread_mutex_unlock(&l->lock);
}

/* Under the lock, let go in between: what is to be done with panels that are there. */
static void use_panels(loading *l)
{
    int64_t p = l->whole, count;
    for (; l->there > 0 && p < count_panels(l) && !l->is_stopped; p += gx_max(1, count)) {
        gx_err fault = {0};
        for (count = 0; p + count < count_panels(l) && l->left[p + count] == 0;) {
            l->left[p + count++] = -1;
        }
        l->there -= count;
        if (count == 0) {
            continue;
        }
        pthread_mutex_unlock(&l->lock);
        (void)l->panels->ready(l->panels->arg, p, count, &fault);
        pthread_mutex_lock(&l->lock);
        if (fault.code != GX_OK) {
            fail(l, &fault);
        }
    }
    while (l->panels != NULL && l->whole < count_panels(l) && l->left[l->whole] < 0) {
        l->whole++;
        pthread_cond_broadcast(&l->gone);
    }
}

/* Under the lock, let go in between: what can be done while nothing is there.  Is that all? */
static bool do_meanwhile(loading *l)
{
    gx_err fault = {0};
    bool is_done = true;
    pthread_mutex_unlock(&l->lock);
    (void)l->panels->meanwhile(l->panels->arg, &is_done, &fault);
    pthread_mutex_lock(&l->lock);
    if (fault.code != GX_OK) {
        fail(l, &fault);
    }
    return is_done;
}

/* Under the lock, let go in between: memory for what goes up. */
static void open_panels(loading *l)
{
    gx_err fault = {0};
    if (!l->is_open) {
        pthread_mutex_unlock(&l->lock);
        (void)l->panels->open(l->panels->arg, &fault);
        pthread_mutex_lock(&l->lock);
        l->is_open = fault.code == GX_OK;
        if (fault.code != GX_OK) {
            fail(l, &fault);
        }
        pthread_cond_broadcast(&l->gone);
    }
}

static bool are_few(const loading *l)
{
    return l->panels == NULL && l->units <= FEW_UNITS;
}

/* The caller: until all is enqueued and used, the run has failed, or the device has. */
static gx_code attend(loading *l, const gx_stream *stream, gx_reader *own, gx_err *err)
{
    bool reads = stream == NULL || are_few(l);
    int64_t t = 0, end = 0;
    bool is_done = l->panels == NULL || l->panels->meanwhile == NULL;
    pthread_mutex_lock(&l->lock);
    open_panels(l);
    if (!is_done && !l->is_stopped) {
        is_done = do_meanwhile(l);
    }
    while (gx_ok(l->run) && !l->is_stopped && (l->sent < l->pieces || l->there > 0)) {
        if (l->there > 0) {
            use_panels(l);
            is_done = l->panels->meanwhile == NULL;
        } else if (!is_done && stream != NULL) {
            is_done = do_meanwhile(l);
        } else if (reads && (t < end || next_unit(l, &t, &end)) &&
                   (stream == NULL || find_buffer(l) != NULL)) { // else helpers have them all
            t += bring_piece(l, t, NULL, own) ? 1 : 0;
        } else if (stream != NULL && l->sent < l->pieces) {
            gx_stream_wait(&l->come, &l->lock);
        }
        pthread_mutex_unlock(&l->lock);
        gx_run_poll(l->run);
        pthread_mutex_lock(&l->lock);
    }
    gx_code code = l->fault.code;
    if (code != GX_OK) {
        gx_fail(err, code, "%s", l->fault.text);
    }
    pthread_mutex_unlock(&l->lock);
    return code;
}

/* Helpers that are worth it; where the caller has work of its own they leave it processors. */
static int64_t readers_of(const loading *l)
{
    const int64_t *setting = l->run->ctx->config.number, OWN = 2;
    int64_t readers = setting[GX_SET_READERS];
    return l->panels == NULL ? readers
                             : gx_min(readers, gx_max(ENOUGH, setting[GX_SET_THREADS] - OWN));
}

/* Buffers and marks: at least one; no more than helpers fill, as they have to stay in the cache. */
static gx_code take_buffers(loading *l, gx_err *err)
{
    gx_run *run = l->run;
    size_t budget = (size_t)run->ctx->config.number[GX_SET_PINNING_BUDGET];
    int64_t readers = readers_of(l);
    int64_t wanted = gx_min(readers + gx_max(TURNS, gx_min(readers / 2, SPARE)), STAGES);
    wanted = gx_min(wanted, l->pieces);
    for (int k = 0; k < wanted; k++) {
        gx_err refusal = {0};
        buffer *b = &l->buffer[k];
        if (k >= TURNS && !l->buffer[k - 1].memory.is_pinned) {
            break; // they come out of memory_limit: a few will do
        }
        if (gx_pool_stage(l->accel->pool, l->piece_bytes, budget, &b->memory, &refusal) != GX_OK) {
            return k > 0 ? GX_OK : gx_run_fail(run, &refusal);
        }
        l->buffers++;
        GX_TRY(l->accel->backend->mark_create(l->accel->dev, &b->mark, err));
    }
    return GX_OK;
}

/* Helpers, where one of the matrices is stored. */
static gx_stream *start_helpers(loading *l)
{
    const gx_mat *stored[GX_DEVICE_PARTS];
    gx_stream *stream = NULL;
    int count = 0;
    double bytes = 0;
    for (int k = 0; k < l->parts; k++) {
        const gx_device_part *to = &l->part[k].to;
        if (gx_mat_base_stored(to->mat) != NULL) {
            stored[count++] = to->mat;
            bytes += (double)to->mat->rows * (double)to->cols * (double)gx_number_bytes(to->dtype);
        }
    }
    int64_t wanted = gx_min(readers_of(l), l->units - are_few(l));
    if (count > 0) {
        gx_stream_start(l->run, stored, count, (int)wanted, bytes, help, l, &stream);
    }
    return stream;
}

static gx_code load(loading *l, gx_err *err)
{
    gx_run *run = l->run;
    gx_accel *accel = l->accel;
    gx_stream *stream = NULL;
    gx_reader *own = NULL;
    gx_err refusal = {0};
    if (l->panels != NULL && count_pieces(l) != GX_OK) {
        return GX_OK; // the run has failed
    }
    l->is_open = l->panels == NULL || l->panels->open == NULL;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->come, NULL);
    pthread_cond_init(&l->gone, NULL);
    gx_code rc = take_buffers(l, err);
    if (rc == GX_OK && gx_ok(run)) {
        stream = start_helpers(l);
        if (gx_reader_own(run->ctx->store, &own, &refusal) == GX_OK) {
            rc = attend(l, stream, own, err);
        }
        gx_run_fail(run, &refusal);
    }
    stop(l);
    gx_stream_stop(stream);
    gx_reader_close(own);
    gx_err late = {0};
    // Kernels that work on what has come go on.
    gx_code settled = rc == GX_OK && gx_ok(run)
                          ? accel->backend->queue_wait(accel->dev, accel->up, err)
                          : gx_device_settle(accel, rc == GX_OK ? err : &late);
    for (int k = 0; k < l->buffers; k++) {
        gx_pool_unstage(accel->pool, &l->buffer[k].memory);
        accel->backend->mark_free(accel->dev, l->buffer[k].mark);
    }
    gx_mem_free(run->ctx->mem, l->left);
    pthread_cond_destroy(&l->gone);
    pthread_cond_destroy(&l->come);
    pthread_mutex_destroy(&l->lock);
    return rc == GX_OK ? settled : rc;
}

gx_code gx_device_load_all(gx_run *run, gx_accel *accel, const gx_device_part *parts, int count,
                           gx_err *err)
{
    loading l = {.run = run, .accel = accel};
    assert(count > 0 && count <= GX_DEVICE_PARTS);
    for (int k = 0; k < count; k++) {
        add_part(&l, &parts[k]);
    }
    return load(&l, err);
}

gx_code gx_device_load(gx_run *run, gx_accel *accel, const gx_mat *mat, int64_t cols,
                       gx_number dtype, bool is_lower, void *a, gx_err *err)
{
    gx_device_part one = {.mat = mat, .cols = cols, .dtype = dtype, .is_lower = is_lower, .a = a};
    return gx_device_load_all(run, accel, &one, 1, err);
}

gx_code gx_device_load_panels(gx_run *run, gx_accel *accel, const gx_mat *mat, gx_number dtype,
                              const gx_device_panels *panels, gx_err *err)
{
    loading l = {.run = run, .accel = accel, .panels = panels};
    add_part(&l, &(gx_device_part){.mat = mat, .dtype = dtype, .cols = mat->cols});
    return load(&l, err);
}
