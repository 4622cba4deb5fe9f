/*
** Whole matrices to and from device memory: see device_copy.h.
**
** Matrices from the database go up in pieces of PIECE_BYTES, some columns of a tile or some tiles:
** helper threads read them into page-locked buffers, and each enqueues what it has read.
** The pieces of a tile are a unit: one helper reads them in turn, because SQLite finds its way to
** the middle of a tile from its beginning; units go in any order.  So a call page-locks little
** memory (which takes 0.3 ms a MB), and what is read is still in the processor's cache when it
** goes up.  Several matrices go at once: one after the other would leave most helpers idle.
**
**   buffer   FREE -> FILLING (read and enqueued) -> LEAVING -> FREE at its mark
**
** A helper that finds none free takes the one that is leaving longest and waits for its mark.
** Units are taken panel by panel, and none takes a buffer while its panel has no memory.  What is
** to be done when a panel is there the caller does, and what it has to do meanwhile.
** Without helpers the caller reads as well; and of few units the caller takes its share, for which
** another helper would still be opening.  Memory from malloc is copied into such buffers by the
** team; ordinary memory that is copied from directly goes at a fraction of the speed.  So does what
** many processors have just written and still hold in their caches: the team writes past them.
**
** Memory: up to STAGES buffers of PIECE_BYTES, page-locked within pinning_budget.
*/
#include "device_copy.h"
#include "../mat/stream.h"

#include <assert.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { STAGES = 32, TURNS = 3, SPARE = 8, PIECE_BYTES = GX_PIECE_UP_BYTES };

enum { ENOUGH = 8 };    // helpers that nearly fill a link
enum { FEW_UNITS = 4 }; // the caller's reading keeps nobody waiting for long

// Failing -----------------------------------------------------------------------------------------

gx_code gx_device_settle(gx_accel *accel, gx_err *err)
{
    gx_queue *queues[3] = {accel->up, accel->run, accel->down};
    gx_code rc = GX_OK;
    for (int k = 0; k < 3; k++) {
        gx_err late = {0};
        gx_code code = accel->backend->queue_wait(accel->dev, queues[k], &late);
        if (code != GX_OK && rc == GX_OK) {
            rc = code;
            gx_fail(err, code, "%s", late.text);
        }
    }
    return rc;
}

void gx_device_give_up(gx_run *run, gx_accel *accel, const gx_err *err)
{
    gx_ctx *ctx = run->ctx;
    gx_stats_add(&ctx->stats, GX_STAT_DEVICE_FALLBACKS, 1);
    if (err->code == GX_DEVICE) {
        gx_accel_leave_out(ctx, accel, err);
        return;
    }
    gx_stats_note(&ctx->stats, "computed on the CPU: %s", err->text);
    if (err->code == GX_NOMEM) {
        gx_pool_trim(accel->pool);
    }
}

// From the database -------------------------------------------------------------------------------

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
    int64_t element = (int64_t)gx_dtype_bytes(to->dtype), most = (int64_t)PIECE_BYTES / element;
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

/* A piece goes up from a buffer.  The panel's memory is clear: begin_panel(). */
static gx_code send(loading *l, const buffer *b, const rectangle *r, gx_err *err)
{
    const gx_backend *backend = l->accel->backend;
    int64_t ld = r->of->to.mat->rows;
    gx_dtype dtype = r->of->to.dtype;
    size_t element = gx_dtype_bytes(dtype), bytes = (size_t)r->m * element;
    void *base = r->of->to.a;
    if (l->panels != NULL) {
        base = l->panels->place(l->panels->arg, r->panel, &ld);
    }
    void *to = gx_at(base, dtype, ld, r->i - r->panel * r->of->panel_rows, r->j);
    GX_TRY(backend->upload(l->accel->dev, l->accel->up, to, (size_t)ld * element, b->memory.data,
                           bytes, bytes, (size_t)r->n, err));
    gx_stats_add(&l->run->ctx->stats, GX_STAT_UPLOADED, (int64_t)bytes * r->n);
    return backend->mark_set(l->accel->dev, l->accel->up, b->mark, err);
}

/* Under the lock: the first piece of a panel has the panel's memory cleared. */
static gx_code begin_panel(loading *l, const rectangle *r, gx_err *err)
{
    if (l->panels == NULL || l->is_begun[r->panel]) {
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

/*
** Under the lock, let go in between: read piece t, by a helper or by `own`, and enqueue it.  false:
** the run or the device has failed.
*/
static bool bring_piece(loading *l, int64_t t, const gx_helper *helper, gx_reader *own)
{
    const gx_accel *accel = l->accel;
    gx_err err = {0}, fault = {0};
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
    const gx_device_part *to = &r.of->to;
    gx_reader *reader = helper != NULL ? gx_helper_reader(helper, to->mat) : own;
    if (!is_leaving || accel->backend->mark_wait(accel->dev, b->mark, &fault) == GX_OK) {
        gx_mat_read(l->run, to->mat, reader, r.i, r.j, r.m, r.n, to->dtype, b->memory.data, r.m,
                    &err);
        gx_run_fail(l->run, &err);
    }
    pthread_mutex_lock(&l->lock);
    bool goes_on = fault.code == GX_OK && gx_ok(l->run) && !l->is_stopped &&
                   begin_panel(l, &r, &fault) == GX_OK;
    if (goes_on) {
        pthread_mutex_unlock(&l->lock);
        goes_on = send(l, b, &r, &fault) == GX_OK;
        pthread_mutex_lock(&l->lock);
    }
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

static bool are_few(const loading *l)
{
    return l->panels == NULL && l->units <= FEW_UNITS;
}

/* The caller: until all is enqueued and used, the run has failed, or the device has. */
static gx_code attend(loading *l, const gx_stream *stream, gx_reader *own, gx_err *err)
{
    bool reads = stream == NULL || are_few(l);
    int64_t t = 0, end = 0;
    if (l->panels != NULL && l->panels->meanwhile != NULL) {
        gx_err fault = {0};
        if (l->panels->meanwhile(l->panels->arg, &fault) != GX_OK) {
            pthread_mutex_lock(&l->lock);
            fail(l, &fault);
            pthread_mutex_unlock(&l->lock);
        }
    }
    pthread_mutex_lock(&l->lock);
    while (gx_ok(l->run) && !l->is_stopped && (l->sent < l->pieces || l->there > 0)) {
        if (l->there > 0) {
            use_panels(l);
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
    const int64_t *setting = l->run->ctx->config.number;
    int64_t readers = setting[GX_SET_READERS];
    return l->panels == NULL ? readers
                             : gx_min(readers, gx_max(ENOUGH, setting[GX_SET_THREADS] / 4 * 3));
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
            bytes += (double)to->mat->rows * (double)to->cols * (double)gx_dtype_bytes(to->dtype);
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
    gx_code settled = gx_device_settle(accel, rc == GX_OK ? err : &late);
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
                       gx_dtype dtype, bool is_lower, void *a, gx_err *err)
{
    gx_device_part one = {.mat = mat, .cols = cols, .dtype = dtype, .is_lower = is_lower, .a = a};
    return gx_device_load_all(run, accel, &one, 1, err);
}

gx_code gx_device_load_panels(gx_run *run, gx_accel *accel, const gx_mat *mat, gx_dtype dtype,
                              const gx_device_panels *panels, gx_err *err)
{
    loading l = {.run = run, .accel = accel, .panels = panels};
    add_part(&l, &(gx_device_part){.mat = mat, .dtype = dtype, .cols = mat->cols});
    return load(&l, err);
}

// From and to memory ------------------------------------------------------------------------------

typedef struct shares {
    char *to;
    const char *from;
    size_t to_ld, from_ld, column, cols, share;
    bool is_staged;
} shares;

void gx_device_copy_past(void *target, const void *source, size_t bytes)
{
    char *to = target;
    const char *from = source;
#ifdef __SSE2__
    enum { LANE = sizeof(__m128i), LANES = 4 };
    size_t head = -(uintptr_t)to % LANE, step = LANES * LANE;
    head = head < bytes ? head : bytes;
    memcpy(to, from, head);
    for (to += head, from += head, bytes -= head; bytes >= step; bytes -= step) {
        __m128i lane[LANES];
        memcpy(lane, from, step);
        for (int k = 0; k < LANES; k++) {
            _mm_stream_si128((__m128i *)(void *)to + k, lane[k]);
        }
        to += step;
        from += step;
    }
    _mm_sfence();
#endif
    memcpy(to, from, bytes);
}

static int64_t shares_of_column(const shares *s)
{
    return (int64_t)((s->column + s->share - 1) / s->share);
}

static gx_code copy_share(void *arg, int64_t piece, int member, gx_err *err)
{
    const shares *s = arg;
    size_t col = (size_t)(piece / shares_of_column(s));
    size_t at = (size_t)(piece % shares_of_column(s)) * s->share;
    size_t bytes = s->column - at < s->share ? s->column - at : s->share;
    char *to = s->to + col * s->to_ld + at;
    const char *from = s->from + col * s->from_ld + at;
    (void)member, (void)err;
    if (s->is_staged) {
        gx_device_copy_past(to, from, bytes);
    } else {
        memcpy(to, from, bytes);
    }
    return GX_OK;
}

gx_team *gx_device_copiers(gx_run *run, size_t bytes, bool is_once)
{
    const size_t WORTH_A_TEAM = (size_t)1 << 20;
    bool must_pay = is_once && run->team == NULL;
    size_t threads = must_pay ? (size_t)run->ctx->config.number[GX_SET_THREADS] : 1;
    return bytes / WORTH_A_TEAM < threads ? NULL : gx_run_team(run);
}

static void copy_by(gx_run *run, gx_team *team, shares *s)
{
    const size_t SHARE = (size_t)128 << 10;
    if (s->to_ld == s->column && s->from_ld == s->column) {
        s->column *= s->cols;
        s->cols = 1;
    }
    s->share = SHARE;
    gx_err err = {0};
    if (team == NULL || gx_team_threads(team) == 1) {
        for (size_t col = 0; col < s->cols; col++) {
            memcpy(s->to + col * s->to_ld, s->from + col * s->from_ld, s->column);
        }
        return;
    }
    gx_team_run(team, shares_of_column(s) * (int64_t)s->cols, copy_share, s, &err);
    gx_run_fail(run, &err); // an interrupt: what was copied is not looked at any more
}

void gx_device_memcpy(gx_run *run, void *to, const void *from, size_t bytes)
{
    shares s = {.to = to, .from = from, .column = bytes, .cols = 1};
    s.to_ld = s.from_ld = bytes;
    copy_by(run, gx_device_copiers(run, bytes, false), &s);
}

void gx_device_stage(gx_run *run, void *to, size_t to_ld_bytes, const void *from,
                     size_t from_ld_bytes, size_t col_bytes, size_t cols)
{
    shares s = {.to = to, .from = from, .column = col_bytes, .cols = cols, .is_staged = true};
    s.to_ld = to_ld_bytes;
    s.from_ld = from_ld_bytes;
    copy_by(run, gx_device_copiers(run, col_bytes * cols, false), &s);
}

typedef struct transfer {
    gx_run *run;
    gx_accel *accel;
    gx_team *team; /* or NULL */
    gx_span span;
    size_t column, ld;  /* bytes of a column, and from one to the next in memory */
    int64_t cols, step; /* columns; of a piece */
    gx_staging stage[TURNS];
    gx_mark *mark[TURNS];
} transfer;

static gx_code begin_transfer(transfer *t, gx_err *err)
{
    size_t budget = (size_t)t->run->ctx->config.number[GX_SET_PINNING_BUDGET];
    t->span = gx_stats_open(&t->run->ctx->stats);
    t->team = gx_device_copiers(t->run, t->column * (size_t)t->cols, true);
    // A quarter: one is copied here while another one travels.
    int64_t most = gx_min(GX_PIECE_BYTES, gx_max(PIECE_BYTES, (int64_t)t->column * t->cols / 4));
    t->step = gx_min(t->cols, gx_max(1, most / ((int64_t)t->column + 1)));
    int64_t pieces = gx_ceil_div(t->cols, t->step);
    for (int k = 0; k < TURNS && k < pieces; k++) {
        GX_TRY(
            gx_pool_stage(t->accel->pool, t->column * (size_t)t->step, budget, &t->stage[k], err));
        GX_TRY(t->accel->backend->mark_create(t->accel->dev, &t->mark[k], err));
    }
    return GX_OK;
}

static gx_code end_transfer(transfer *t, gx_code rc, gx_err *err)
{
    gx_err late = {0};
    gx_code settled = gx_device_settle(t->accel, rc == GX_OK ? err : &late);
    for (int k = 0; k < TURNS; k++) {
        gx_pool_unstage(t->accel->pool, &t->stage[k]);
        t->accel->backend->mark_free(t->accel->dev, t->mark[k]);
    }
    gx_stats_close(&t->run->ctx->stats, GX_STAT_COPY_NS, t->span);
    return rc == GX_OK ? settled : rc;
}

/* Columns [j, j + n) between a buffer and memory. */
static void copy_piece(const transfer *t, bool is_up, void *stage, char *memory, int64_t n)
{
    shares s = {.column = t->column, .cols = (size_t)n, .is_staged = is_up};
    s.to = is_up ? stage : memory;
    s.from = is_up ? memory : stage;
    s.to_ld = is_up ? t->column : t->ld;
    s.from_ld = is_up ? t->ld : t->column;
    copy_by(t->run, t->team, &s);
}

gx_code gx_device_put(gx_run *run, gx_accel *accel, gx_dtype dtype, int64_t m, int64_t n,
                      const void *a, int64_t lda, void *b, gx_err *err)
{
    size_t element = gx_dtype_bytes(dtype);
    transfer t = {.run = run, .accel = accel, .column = (size_t)m * element, .cols = n};
    t.ld = (size_t)lda * element;
    if (m <= 0 || n <= 0) {
        return GX_OK;
    }
    gx_code rc = begin_transfer(&t, err);
    char *from = (char *)(uintptr_t)a; // read only
    for (int64_t j = 0, k = 0; rc == GX_OK && gx_ok(run) && j < n; j += t.step, k++) {
        int64_t cols = gx_min(t.step, n - j);
        size_t bytes = t.column * (size_t)cols;
        rc = accel->backend->mark_wait(accel->dev, t.mark[k % TURNS], err);
        if (rc == GX_OK) {
            copy_piece(&t, true, t.stage[k % TURNS].data, from + (size_t)j * t.ld, cols);
            rc = accel->backend->upload(accel->dev, accel->up, (char *)b + (size_t)j * t.column,
                                        bytes, t.stage[k % TURNS].data, bytes, bytes, 1, err);
        }
        if (rc == GX_OK) {
            gx_stats_add(&run->ctx->stats, GX_STAT_UPLOADED, (int64_t)bytes);
            rc = accel->backend->mark_set(accel->dev, accel->up, t.mark[k % TURNS], err);
        }
        gx_run_poll(run);
    }
    return end_transfer(&t, rc, err);
}

static gx_code fetch(const transfer *t, int64_t k, const void *b, gx_err *err)
{
    const gx_accel *accel = t->accel;
    int64_t j = k * t->step;
    size_t bytes = t->column * (size_t)gx_min(t->step, t->cols - j);
    GX_TRY(accel->backend->download(accel->dev, accel->down, t->stage[k % TURNS].data, bytes,
                                    (const char *)b + (size_t)j * t->column, bytes, bytes, 1, err));
    gx_stats_add(&t->run->ctx->stats, GX_STAT_DOWNLOADED, (int64_t)bytes);
    return accel->backend->mark_set(accel->dev, accel->down, t->mark[k % TURNS], err);
}

gx_code gx_device_get(gx_run *run, gx_accel *accel, gx_dtype dtype, int64_t m, int64_t n,
                      const void *b, void *a, int64_t lda, gx_err *err)
{
    size_t element = gx_dtype_bytes(dtype);
    transfer t = {.run = run, .accel = accel, .column = (size_t)m * element, .cols = n};
    t.ld = (size_t)lda * element;
    if (m <= 0 || n <= 0) {
        return GX_OK;
    }
    gx_code rc = begin_transfer(&t, err);
    int64_t pieces = gx_ceil_div(n, t.step);
    for (int64_t k = 0; rc == GX_OK && k < gx_min(TURNS - 1, pieces); k++) {
        rc = fetch(&t, k, b, err);
    }
    for (int64_t k = 0; rc == GX_OK && gx_ok(run) && k < pieces; k++) {
        if (k + TURNS - 1 < pieces) {
            rc = fetch(&t, k + TURNS - 1, b, err);
        }
        if (rc == GX_OK) {
            rc = accel->backend->mark_wait(accel->dev, t.mark[k % TURNS], err);
        }
        if (rc == GX_OK) {
            int64_t j = k * t.step;
            copy_piece(&t, false, t.stage[k % TURNS].data, (char *)a + (size_t)j * t.ld,
                       gx_min(t.step, n - j));
        }
        gx_run_poll(run);
    }
    return end_transfer(&t, rc, err);
}
