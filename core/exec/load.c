/*
** Matrices to device memory: see load.h.
**
** A load is a streamed pass (pass.h) through a ring of stages (upload.h): its threads read pieces
** of PIECE_BYTES, some columns of a tile or some tiles, and each enqueues what it has read.  The
** pieces of a tile are a unit: one thread reads them in turn, because SQLite finds its way to the
** middle of a tile from its beginning.  So a call page-locks little memory (which takes 0.3 ms a
** MB), and what is read is still in the processor's cache when it goes up.  Several matrices go at
** once: one after the other would leave most helpers idle.  Those for several devices go by turns,
** each device through a ring of its own.
**
** From a stage that nothing has gone up from yet a quarter of a piece goes first: the link has
** nothing else to do.  Units are taken panel by panel, and none is sent while its panel has no
** memory.  What is to be done when a panel is there the caller does, and what it has to do
** meanwhile.
**
** Memory: up to GX_UPLOAD_STAGES buffers of PIECE_BYTES a device, page-locked within
** pinning_budget.
*/
#include "load.h"

#include "../device/device_copy.h"

#include <assert.h>

enum { PIECE_BYTES = GX_PIECE_UP_BYTES };

enum { ENOUGH = 8, OWN = 2 }; // helpers that nearly fill a link; processors for the caller's work

// Units -------------------------------------------------------------------------------------------

void gx_load_cut(gx_load_part *part, const gx_device_part *to, int64_t panel_rows)
{
    const gx_mat *mat = to->mat;
    int64_t element = (int64_t)gx_number_bytes(to->dtype), most = (int64_t)PIECE_BYTES / element;
    int64_t rows = gx_max(1, gx_min(mat->tile_rows, mat->rows));
    *part = (gx_load_part){.to = *to};
    part->unit_cols = gx_max(1, gx_min(mat->tile_cols, to->cols));
    part->piece_cols = gx_max(1, gx_min(part->unit_cols, most / rows));
    part->panel_rows = gx_max(1, panel_rows > 0 ? panel_rows : mat->rows);
    part->piece_rows = gx_min(part->panel_rows, rows * gx_max(1, most / (rows * part->piece_cols)));
    part->down = gx_ceil_div(part->panel_rows, part->piece_rows);
    part->per_panel = part->down * gx_ceil_div(to->cols, part->unit_cols);
    part->units = part->per_panel * gx_ceil_div(mat->rows, part->panel_rows);
    part->pieces = part->units * gx_ceil_div(part->unit_cols, part->piece_cols);
    part->piece_bytes = (size_t)(part->piece_rows * part->piece_cols * element);
}

/* Part of a panel. */
typedef struct rectangle {
    int64_t panel, i, j, m, n;
} rectangle;

/* Under the ring's lock: columns from a stage to where they belong. */
static gx_code send(gx_upload *u, const gx_load_part *p, const rectangle *r, gx_dtype as,
                    const void *from, gx_err *err)
{
    gx_number dtype = p->to.dtype;
    int64_t ld = p->to.mat->rows;
    void *base = p->place == NULL ? p->to.a : p->place(p->arg, r->panel, &ld, err);
    void *to = gx_at(base, dtype, ld, r->i - r->panel * p->panel_rows, r->j);
    return base == NULL
               ? err->code
               : gx_device_send(u->run, u->accel, as, from, dtype, to, ld, r->m, r->n, err);
}

static gx_code bring_piece(gx_upload *u, const gx_load_part *p, const rectangle *piece,
                           bool is_last, gx_pass_thread *thread, gx_err *err)
{
    gx_stage *s = gx_upload_take(u);
    gx_err fault = {0};
    gx_code code = GX_OK;
    int64_t n = s == NULL ? 0 : piece->n, step = s != NULL && s->turn == 0 ? gx_max(1, n / 4) : n;
    gx_dtype as =
        s == NULL ? GX_DTYPE_F64 : gx_device_form(u->accel, &s->memory, p->to.mat, p->to.dtype);
    for (int64_t j = 0; j < n; j += step, step = n - j) {
        rectangle r = *piece;
        void *at = gx_dtype_at(s->memory.data, as, r.m, 0, j);
        bool is_end = j + step == n;
        r.j += j;
        r.n = step;
        code = code == GX_OK
                   ? gx_pass_read_as(thread, p->to.mat, r.i, r.j, r.m, r.n, as, at, r.m, err)
                   : code;
        if (gx_upload_begin(u, s, code) && send(u, p, &r, as, at, &fault) == GX_OK && is_end &&
            gx_upload_mark(u, s, &fault) == GX_OK && is_last && p->sent != NULL) {
            (void)p->sent(p->arg, r.panel, s, &fault);
        }
        gx_upload_end(u, is_end ? s : NULL, &fault);
    }
    return code;
}

gx_code gx_load_unit(gx_upload *u, const gx_load_part *p, int64_t unit, gx_pass_thread *thread,
                     gx_err *err)
{
    int64_t panel = unit / p->per_panel, e = unit % p->per_panel;
    rectangle r = {.panel = panel,
                   .i = panel * p->panel_rows + e % p->down * p->piece_rows,
                   .j = e / p->down * p->unit_cols};
    int64_t end = gx_min((panel + 1) * p->panel_rows, p->to.mat->rows);
    int64_t right = gx_min(p->to.cols, r.j + p->unit_cols);
    r.m = gx_min(p->piece_rows, end - r.i);
    if (r.m <= 0 || (p->to.is_lower && r.i + r.m <= r.j)) {
        return GX_OK; // below the last row, or above the diagonal
    }
    for (; r.j < right && gx_ok(u->run); r.j += p->piece_cols) {
        r.n = gx_min(p->piece_cols, right - r.j);
        GX_TRY(bring_piece(u, p, &r, r.j + r.n == right, thread, err));
    }
    return GX_OK;
}

// Panels ------------------------------------------------------------------------------------------

typedef struct loading {
    gx_upload up[GX_DEVICE_PARTS]; /* of each device; panels go through the first */
    int rings, culprit;            /* ... that are open; whose failure there was   */
    gx_load_part part[GX_DEVICE_PARTS];
    int ring[GX_DEVICE_PARTS]; /* of each part */
    int parts;
    int64_t units;                  /* of all parts */
    const gx_device_panels *panels; /* of the only part, or NULL      */
    int64_t *left;                  /* units of each panel to be sent; -1: it is ready */
    int64_t count;                  /* of panels                      */
    pthread_t caller;
    pthread_cond_t gone;  /* there is memory for more of them, or the caller has stopped */
    int64_t there, whole; /* panels that have been sent and are not ready; ready without a gap */
    bool is_open, is_first, is_done; /* memory is there; before the first panel; meanwhile's */
} loading;

/* Under the lock. */
static bool goes_on(const loading *l)
{
    return l->up->fault.code == GX_OK && gx_ok(l->up->run);
}

/* Under the lock, let go in between: what can be done with panels that are there. */
static void use_panels(loading *l, gx_err *fault)
{
    int64_t p = l->whole, count;
    for (; l->there > 0 && p < l->count && goes_on(l) && fault->code == GX_OK;
         p += gx_max(1, count)) {
        for (count = 0; p + count < l->count && l->left[p + count] == 0;) {
            l->left[p + count++] = -1;
        }
        l->there -= count;
        if (count > 0) {
            pthread_mutex_unlock(&l->up->lock);
            (void)l->panels->ready(l->panels->arg, p, count, fault);
            pthread_mutex_lock(&l->up->lock);
        }
    }
    while (l->whole < l->count && l->left[l->whole] < 0) {
        l->whole++;
    }
}

/* The caller's, while others read; false: there is nothing to do for now. */
static bool attend(void *arg)
{
    loading *l = arg;
    const gx_device_panels *panels = l->panels;
    gx_err fault = {0};
    pthread_mutex_lock(&l->up->lock);
    bool opens = !l->is_open, uses = l->there > 0 && !l->is_first;
    bool has_work = goes_on(l) && (opens || uses || !l->is_done);
    if (has_work && uses && !opens) {
        use_panels(l, &fault);
        l->is_done = panels->meanwhile == NULL;
    } else if (has_work) {
        pthread_mutex_unlock(&l->up->lock);
        (void)(opens ? panels->open(panels->arg, &fault)
                     : panels->meanwhile(panels->arg, &l->is_done, &fault));
        pthread_mutex_lock(&l->up->lock);
        l->is_open = true;
        l->is_first = l->is_first && opens;
    }
    pthread_cond_broadcast(&l->gone);
    gx_upload_end(l->up, NULL, &fault);
    return has_work;
}

/* Under the lock, let go in between: where the panel lies, once there is memory for it. */
static void *place_panel(void *arg, int64_t panel, int64_t *ld, gx_err *err)
{
    loading *l = arg;
    const gx_device_panels *panels = l->panels;
    while (goes_on(l) && (!l->is_open || panel >= l->whole + panels->ring)) {
        if (!pthread_equal(pthread_self(), l->caller)) {
            gx_stream_wait(&l->gone, &l->up->lock);
            continue;
        }
        pthread_mutex_unlock(&l->up->lock); // nobody else reads
        attend(l);
        gx_run_poll(l->up->run);
        pthread_mutex_lock(&l->up->lock);
    }
    return goes_on(l) ? panels->place(panels->arg, panel, ld, err) : NULL;
}

static gx_code count_sent(void *arg, int64_t panel, const gx_stage *s, gx_err *err)
{
    loading *l = arg;
    (void)s, (void)err;
    l->there += --l->left[panel] == 0;
    return GX_OK;
}

static gx_code reserve_panels(loading *l, const gx_device_panels *panels, gx_err *err)
{
    gx_load_part *p = &l->part[0];
    void *memory;
    l->count = gx_ceil_div(p->to.mat->rows, p->panel_rows);
    GX_TRY(gx_mem_alloc(l->up->run->ctx->mem, (size_t)l->count * sizeof *l->left,
                        "the schedule of blocks", &memory, err));
    l->left = memory;
    for (int64_t k = 0; k < l->count; k++) {
        int64_t rows = gx_min(p->panel_rows, p->to.mat->rows - k * p->panel_rows);
        l->left[k] = gx_ceil_div(rows, p->piece_rows) * (p->per_panel / p->down);
    }
    l->panels = panels;
    l->is_open = panels->open == NULL;
    l->is_first = panels->meanwhile != NULL;
    l->is_done = !l->is_first;
    l->caller = pthread_self();
    p->place = place_panel;
    p->sent = count_sent;
    p->arg = l;
    return GX_OK;
}

// The whole ---------------------------------------------------------------------------------------

static gx_code bring_unit(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                          gx_err *err)
{
    loading *l = arg;
    int64_t each = l->part[0].units; // that every part has
    int k = 0;
    (void)work, (void)part;
    for (int i = 1; i < l->parts; i++) {
        each = gx_min(each, l->part[i].units);
    }
    each = l->rings > 1 ? each : 0;
    if (unit < each * l->parts) { // by turns, for all links to have something to do
        k = (int)(unit % l->parts);
        unit /= l->parts;
    } else {
        for (unit -= each * l->parts; unit >= l->part[k].units - each; k++) {
            unit -= l->part[k].units - each;
        }
        unit += each;
    }
    return gx_load_unit(&l->up[l->ring[k]], &l->part[k], unit, thread, err);
}

/* A ring for each of the devices, for as many threads as all of them have stages for. */
static gx_code open_rings(loading *l, size_t bytes, int64_t threads, int64_t pieces,
                          int64_t *threads_most, gx_err *err)
{
    gx_run *run = l->up->run;
    gx_code code = GX_OK;
    *threads_most = threads;
    for (int k = 0; k < l->parts && code == GX_OK; k++) {
        int r = 0;
        while (r < l->rings && l->up[r].accel != l->part[k].to.accel) {
            r++;
        }
        l->ring[k] = r;
        if (r == l->rings) {
            l->up[l->rings++] = (gx_upload){.run = run, .accel = l->part[k].to.accel};
            code = gx_upload_open(&l->up[r], bytes, threads, pieces, err);
            l->culprit = r;
            *threads_most = gx_min(*threads_most, gx_upload_threads(&l->up[r]));
        }
    }
    return code;
}

static gx_code close_rings(loading *l, gx_code code, gx_err *err)
{
    for (int r = 0; r < l->rings; r++) {
        bool was_well = code == GX_OK;
        code = gx_upload_close(&l->up[r], true, code, err); // kernels go on with what has come
        l->culprit = was_well && code != GX_OK ? r : l->culprit;
    }
    return code;
}

static gx_code load(loading *l, gx_err *err)
{
    gx_run *run = l->up->run;
    const int64_t *setting = run->ctx->config.number;
    const gx_mat *sources[GX_DEVICE_PARTS];
    int64_t threads = gx_max(setting[GX_SET_THREADS], setting[GX_SET_READERS]), pieces = 0;
    gx_pass pass = {.sources = sources,
                    .source_count = l->parts,
                    .work = bring_unit,
                    .meanwhile = l->panels != NULL ? attend : NULL,
                    .arg = l};
    size_t bytes = 0;
    for (int k = 0; k < l->parts; k++) {
        const gx_load_part *p = &l->part[k];
        sources[k] = p->to.mat;
        pass.units += p->units;
        pass.bytes +=
            (double)p->to.mat->rows * (double)p->to.cols * (double)gx_number_bytes(p->to.dtype);
        pieces += p->pieces;
        bytes = p->piece_bytes > bytes ? p->piece_bytes : bytes;
    }
    if (l->panels != NULL) { // the caller has work of its own
        threads = gx_min(threads, gx_max(ENOUGH, setting[GX_SET_THREADS] - OWN));
    }
    pthread_cond_init(&l->gone, NULL);
    gx_code code = open_rings(l, bytes, threads, pieces, &pass.threads, err);
    if (code == GX_OK) {
        gx_pass_run(run, &pass);
        while (l->there > 0 && attend(l)) {
        }
    }
    code = close_rings(l, code, err);
    gx_mem_free(run->ctx->mem, l->left);
    pthread_cond_destroy(&l->gone);
    return code;
}

gx_code gx_device_load_all(gx_run *run, const gx_device_part *parts, int count, gx_accel **culprit,
                           gx_err *err)
{
    loading l = {.up = {{.run = run}}};
    assert(count > 0 && count <= GX_DEVICE_PARTS);
    for (; l.parts < count; l.parts++) {
        gx_load_cut(&l.part[l.parts], &parts[l.parts], 0);
    }
    gx_code code = load(&l, err);
    *culprit = code == GX_OK ? NULL : l.up[l.culprit].accel;
    return code;
}

gx_code gx_device_load(gx_run *run, gx_accel *accel, const gx_mat *mat, int64_t cols,
                       gx_number dtype, bool is_lower, void *a, gx_err *err)
{
    gx_device_part one = {.mat = mat, .cols = cols, .dtype = dtype, .is_lower = is_lower, .a = a};
    gx_accel *culprit;
    one.accel = accel;
    return gx_device_load_all(run, &one, 1, &culprit, err);
}

gx_code gx_device_load_panels(gx_run *run, gx_accel *accel, const gx_mat *mat, gx_number dtype,
                              const gx_device_panels *panels, gx_err *err)
{
    loading l = {.up = {{.run = run}}, .parts = 1};
    const gx_device_part to = {.accel = accel, .mat = mat, .cols = mat->cols, .dtype = dtype};
    gx_err refusal = {0};
    gx_load_cut(&l.part[0], &to, panels->rows);
    return reserve_panels(&l, panels, &refusal) == GX_OK ? load(&l, err)
                                                         : gx_run_fail(run, &refusal);
}
