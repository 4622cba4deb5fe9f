/*
** Streamed passes: see pass.h.
**
** Who works:
**
**   helpers    (stream.h) where a source is stored and helpers can be: each reads and works;
**   team       where nothing is stored: values, generators;
**   attended   where only the caller may read (an in-memory database, data of an open transaction,
**              a fold that writes where helpers would be in its way) or fold: the team's other
**              members work, and ask the caller for what they want to read;
**   caller     alone, where the work is little, or there is one thread.
**
** What the caller does while others work: it reads what is asked for, folds where folding writes,
** looks after interrupts and progress.
**
** Folding.  A thread takes a free part before it takes a unit, so the unit that is folded next has
** been taken by somebody and will come.  Whoever hands in a part folds what is next in order,
** unless somebody does already (then that one goes on) or folding is the caller's.  Each thread has
** some of them: a slow unit holds the others up only when they have used theirs up.
**
** Memory: for each thread its work and its parts; fewer threads where the budget does not hold
** that, one part where it holds a single thread only.
*/
#include "pass.h"

#include "../run/call.h"

#include "../mat/sparse.h"
#include "../mat/stream.h"

#include <string.h>

/* What a thread takes beside its memory: its connection's bookkeeping, and what is noted of it. */
static const size_t THREAD_BYTES = 6 << 10;

typedef struct part {
    char *data;
    bool is_busy; /* from being taken until it has been folded */
} part;

typedef enum wanted { RECTANGLE = 0, PIECE, HEAD, VALUES } wanted;

/* What a thread wants to be read, by the caller where it must not read itself. */
typedef struct request {
    const gx_mat *source;
    wanted what;
    int64_t i0, j0, m, n, ld; /* of a rectangle; values [j0, j0 + n) of a piece */
    gx_dtype as;
    void *dst;
    int64_t piece; /* of a sparse matrix  */
    gx_csr *csr;   /* of it, but for VALUES */
    gx_err err;
    enum { IDLE = 0, ASKED, SERVED, DONE } state;
} request;

typedef struct job job;

struct gx_pass_thread {
    job *job;
    void *memory;
    char *work;
    part part[GX_PASS_PARTS];
    int parts;
    const gx_helper *helper; /* reads by this one's connections                       */
    gx_reader *own;          /* the caller's; both NULL: asks the caller               */
    request request;         /* under the job's lock */
};

struct job {
    gx_run *run;
    const gx_pass *pass;
    gx_pass_thread *thread;
    int64_t threads;
    atomic_llong next;      /* the first unit nobody has taken                         */
    atomic_llong joined;    /* members of the team that have a thread's memory         */
    pthread_mutex_t lock;   /* guards what follows, is_busy and the requests           */
    pthread_cond_t changed; /* parts have become free, requests are done; for the caller:
                               there is something to do                               */
    part **waiting;         /* GX_PASS_PARTS * threads, by number of the unit: handed in    */
    int64_t folded;         /* the first unit that has not been; nothing to fold: how many have */
    bool is_folding;
    bool has_asked; /* somebody's request is to be looked for                         */
    int64_t shown;  /* caller: units that progress knows of                            */
};

// Reading -----------------------------------------------------------------------------------------

static gx_code ask_caller(gx_pass_thread *t, const request *asked, gx_err *err)
{
    job *x = t->job;
    request *r = &t->request;
    pthread_mutex_lock(&x->lock);
    *r = *asked;
    r->state = ASKED;
    x->has_asked = true;
    pthread_cond_broadcast(&x->changed);
    while (r->state == SERVED || (r->state == ASKED && gx_ok(x->run))) {
        gx_stream_wait(&x->changed, &x->lock);
    }
    bool is_done = r->state == DONE;
    r->state = IDLE;
    pthread_mutex_unlock(&x->lock);
    if (!is_done) {
        return gx_fail(err, GX_INTERRUPT, "interrupted"); // the run knows why
    }
    *err = r->err.code == GX_OK ? *err : r->err;
    return r->err.code;
}

static gx_code read_now(const job *x, const request *r, gx_reader *reader, gx_err *err)
{
    switch (r->what) {
    case PIECE:
        return gx_sparse_read(r->source, reader, r->piece, r->dst, r->csr, err);
    case HEAD:
        return gx_sparse_read_head(r->source, reader, r->piece, r->dst, r->csr, err);
    case VALUES:
        return gx_sparse_read_values(r->source, reader, r->piece, r->j0, r->n, r->dst, err);
    default:
        return gx_mat_read_as(x->run, r->source, reader, r->i0, r->j0, r->m, r->n, r->as, r->dst,
                              r->ld, err);
    }
}

/* By the thread itself, where it may, or where nothing is stored. */
static gx_code read_request(gx_pass_thread *t, const request *r, gx_err *err)
{
    gx_reader *reader = t->helper != NULL ? gx_helper_reader(t->helper, r->source) : t->own;
    return reader != NULL || !gx_mat_wants_reader(r->source) ? read_now(t->job, r, reader, err)
                                                             : ask_caller(t, r, err);
}

gx_code gx_pass_read(gx_pass_thread *t, const gx_mat *source, int64_t i0, int64_t j0, int64_t m,
                     int64_t n, gx_number dtype, void *dst, int64_t ld, gx_err *err)
{
    return gx_pass_read_as(t, source, i0, j0, m, n, gx_dtype_of(dtype), dst, ld, err);
}

gx_code gx_pass_read_as(gx_pass_thread *t, const gx_mat *source, int64_t i0, int64_t j0, int64_t m,
                        int64_t n, gx_dtype as, void *dst, int64_t ld, gx_err *err)
{
    request r = {
        .source = source, .i0 = i0, .j0 = j0, .m = m, .n = n, .ld = ld, .as = as, .dst = dst};
    return read_request(t, &r, err);
}

gx_code gx_pass_take(gx_pass_thread *t, const gx_mat *source, int64_t i0, int64_t j0, int64_t m,
                     int64_t n, gx_dtype as, void *own, const void **at, int64_t *ld, gx_err *err)
{
    if (gx_mat_lend(source, i0, j0, m, n, as, at, ld)) {
        return GX_OK;
    }
    *at = own;
    *ld = m;
    return gx_pass_read_as(t, source, i0, j0, m, n, as, own, m, err);
}

gx_code gx_pass_read_piece(gx_pass_thread *t, const gx_mat *source, int64_t piece, void *block,
                           gx_csr *csr, gx_err *err)
{
    request r = {.source = source, .what = PIECE, .piece = piece, .dst = block, .csr = csr};
    return read_request(t, &r, err);
}

gx_code gx_pass_read_head(gx_pass_thread *t, const gx_mat *source, int64_t panel, void *block,
                          gx_csr *csr, gx_err *err)
{
    request r = {.source = source, .what = HEAD, .piece = panel, .dst = block, .csr = csr};
    return read_request(t, &r, err);
}

gx_code gx_pass_read_values(gx_pass_thread *t, const gx_mat *source, int64_t panel, int64_t first,
                            int64_t count, void *values, gx_err *err)
{
    request r = {
        .source = source, .what = VALUES, .piece = panel, .j0 = first, .n = count, .dst = values};
    return read_request(t, &r, err);
}

/* Caller, under the lock, which is given up meanwhile: one thing that was asked for. */
static bool serve(job *x, gx_reader *own)
{
    for (int64_t k = 0; x->has_asked && k < x->threads; k++) {
        request *r = &x->thread[k].request;
        if (r->state != ASKED) {
            continue;
        }
        r->state = SERVED;
        pthread_mutex_unlock(&x->lock);
        read_now(x, r, own, &r->err);
        pthread_mutex_lock(&x->lock);
        r->state = DONE;
        pthread_cond_broadcast(&x->changed);
        return true;
    }
    x->has_asked = false;
    return false;
}

// Folding -----------------------------------------------------------------------------------------

/* Under the lock, which is given up meanwhile: the parts that are next in order. */
static void fold_waiting(job *x)
{
    int64_t places = x->threads * GX_PASS_PARTS;
    part *p;
    gx_err err = {0};
    while (!x->is_folding && gx_ok(x->run) && (p = x->waiting[x->folded % places]) != NULL) {
        x->waiting[x->folded % places] = NULL;
        x->is_folding = true;
        pthread_mutex_unlock(&x->lock);
        x->pass->fold(x->pass->arg, x->folded, p->data, &err);
        gx_run_fail(x->run, &err);
        pthread_mutex_lock(&x->lock);
        x->is_folding = false;
        p->is_busy = false;
        x->folded++;
        pthread_cond_broadcast(&x->changed);
    }
}

static void hand_in(job *x, int64_t unit, part *p, bool is_caller)
{
    pthread_mutex_lock(&x->lock);
    if (x->pass->fold == NULL) {
        p->is_busy = false;
        x->folded++;
        pthread_cond_broadcast(&x->changed);
        pthread_mutex_unlock(&x->lock);
        return;
    }
    x->waiting[unit % (x->threads * GX_PASS_PARTS)] = p;
    if (is_caller || !x->pass->is_callers) {
        fold_waiting(x);
    } else {
        pthread_cond_broadcast(&x->changed);
    }
    pthread_mutex_unlock(&x->lock);
}

/* A part of the thread's own that is free; NULL: the run has stopped. */
static part *free_part(job *x, gx_pass_thread *t, bool is_caller)
{
    part *found = NULL;
    pthread_mutex_lock(&x->lock);
    while (found == NULL && gx_ok(x->run)) {
        for (int k = 0; k < t->parts && found == NULL; k++) {
            found = t->part[k].is_busy ? NULL : &t->part[k];
        }
        if (found == NULL) {
            gx_stream_wait(&x->changed, &x->lock);
            if (is_caller) {
                pthread_mutex_unlock(&x->lock);
                gx_run_poll(x->run);
                pthread_mutex_lock(&x->lock);
            }
        }
    }
    if (found != NULL) {
        found->is_busy = true;
    }
    pthread_mutex_unlock(&x->lock);
    return found;
}

// Threads -----------------------------------------------------------------------------------------

/* Caller: progress, interrupts, work of its own; false: nothing has changed. */
static bool look_around(job *x)
{
    pthread_mutex_lock(&x->lock);
    int64_t folded = x->folded;
    pthread_mutex_unlock(&x->lock);
    gx_run_advance(x->run, (double)(folded - x->shown));
    bool has_changed = folded > x->shown;
    x->shown = folded;
    gx_run_poll(x->run);
    return (x->pass->meanwhile != NULL && x->pass->meanwhile(x->pass->arg)) || has_changed;
}

static void work_on_units(job *x, gx_pass_thread *t, bool is_caller)
{
    gx_err err = {0};
    part *p;
    while (err.code == GX_OK && (p = free_part(x, t, is_caller)) != NULL) {
        int64_t unit = atomic_fetch_add(&x->next, 1);
        if (unit >= x->pass->units) {
            break;
        }
        if (x->pass->work(x->pass->arg, unit, t, t->work, p->data, &err) == GX_OK) {
            hand_in(x, unit, p, is_caller);
        }
        if (is_caller) {
            look_around(x);
        }
    }
    gx_run_fail(x->run, &err);
}

/* The caller while others work: until all has been folded, or the run has stopped. */
static void attend(job *x, gx_reader *own)
{
    pthread_mutex_lock(&x->lock);
    while (gx_ok(x->run) && x->folded < x->pass->units) {
        if (x->pass->is_callers) {
            fold_waiting(x);
        }
        bool has_served = gx_ok(x->run) && serve(x, own);
        pthread_mutex_unlock(&x->lock);
        bool has_changed = look_around(x);
        pthread_mutex_lock(&x->lock);
        if (gx_ok(x->run) && !has_served && !has_changed && !x->has_asked &&
            x->folded == x->shown && x->folded < x->pass->units &&
            x->waiting[x->folded % (x->threads * GX_PASS_PARTS)] == NULL) {
            gx_stream_wait(&x->changed, &x->lock);
        }
    }
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->lock);
}

static void help(void *arg, gx_helper *helper)
{
    job *x = arg;
    gx_pass_thread *t = &x->thread[helper->index];
    t->helper = helper;
    work_on_units(x, t, false);
}

/* The team's job: a piece for each member, the caller included, who attends where it must. */
typedef struct crew {
    job *job;
    gx_team *team;
    gx_reader *own; /* the caller's; NULL: nothing is stored */
    bool is_attended;
} crew;

/* A member for whom there is no memory keeps its piece, so that everybody has one. */
static void stand_by(job *x)
{
    pthread_mutex_lock(&x->lock);
    while (gx_ok(x->run) && x->folded < x->pass->units) {
        gx_stream_wait(&x->changed, &x->lock);
    }
    pthread_mutex_unlock(&x->lock);
}

/* A team's size is known once it has a job: the system may have refused all of its threads. */
static bool is_deserted(const crew *c, int member)
{
    return member == 0 && gx_team_threads(c->team) == 1;
}

static gx_code join(void *arg, int64_t piece, int member, gx_err *err)
{
    crew *c = arg;
    bool is_attended = c->is_attended && !is_deserted(c, member);
    (void)piece;
    (void)err;
    if (is_attended && member == 0) {
        attend(c->job, c->own);
        return GX_OK;
    }
    int64_t number = atomic_fetch_add(&c->job->joined, 1);
    if (number < c->job->threads) {
        gx_pass_thread *t = &c->job->thread[number];
        t->own = member == 0 ? c->own : NULL;
        work_on_units(c->job, t, member == 0);
    }
    if (is_attended) {
        stand_by(c->job);
    }
    return GX_OK;
}

static bool has_stored(const gx_pass *pass)
{
    for (int k = 0; k < pass->source_count; k++) {
        if (pass->sources[k] != NULL && gx_mat_wants_reader(pass->sources[k])) {
            return true;
        }
    }
    return false;
}

bool gx_pass_is_small(double bytes, double flops)
{
    return flops < GX_TEAM_FLOPS && bytes < GX_STREAM_LEAST_BYTES;
}

static bool is_small(const gx_pass *pass)
{
    return pass->units <= 1 || gx_pass_is_small(pass->bytes, pass->flops);
}

/* Would what is stored have to wait for helpers to go?  (stream.c) */
static bool is_in_the_way(const job *x)
{
    const gx_pass *pass = x->pass;
    for (int k = 0; k < pass->source_count && pass->writes != NULL; k++) {
        const gx_mat *stored =
            pass->sources[k] == NULL ? NULL : gx_mat_base_stored(pass->sources[k]);
        if (stored != NULL && strcmp(stored->meta.schema, pass->writes) == 0 &&
            !gx_store_is_wal(x->run->ctx->store, pass->writes)) {
            return true;
        }
    }
    return false;
}

/* Helper connections. */
static gx_stream *start_helpers(job *x)
{
    const gx_pass *pass = x->pass;
    gx_stream *stream = NULL;
    const gx_mat *sources[16];
    int count = 0;
    for (int k = 0; k < pass->source_count && count < 16; k++) {
        if (pass->sources[k] != NULL) {
            sources[count++] = pass->sources[k];
        }
    }
    int64_t readers = gx_min(x->threads, x->run->ctx->config.number[GX_SET_READERS]);
    if (!is_in_the_way(x) && !is_small(pass) && has_stored(pass)) {
        gx_stream_start(x->run, sources, count, (int)readers, pass->bytes, help, x, &stream);
    }
    return stream;
}

/* Without helpers: with the team, or alone. */
static void run_here(job *x)
{
    bool reads = has_stored(x->pass);
    crew c = {.job = x, .is_attended = reads || x->pass->is_callers};
    gx_err err = {0};
    // A caller that has work of its own may want the team for that.
    bool is_alone = is_small(x->pass) || (reads && x->pass->is_reading);
    is_alone = is_alone || x->pass->meanwhile != NULL;
    gx_team *team = c.team = is_alone ? NULL : gx_run_team(x->run);
    int64_t members = gx_team_threads(team);
    if (reads && gx_reader_own(x->run->ctx->store, &c.own, &err) != GX_OK) {
        gx_run_fail(x->run, &err);
        return;
    }
    if (members > 1 && (c.is_attended || x->threads > 1)) {
        gx_team_run(team, gx_min(members, x->threads + c.is_attended), join, &c, &err);
        gx_run_fail(x->run, &err);
    } else {
        x->thread[0].own = c.own;
        work_on_units(x, &x->thread[0], true);
    }
    gx_reader_close(c.own);
}

// Memory ------------------------------------------------------------------------------------------

size_t gx_pass_least_bytes(const gx_pass *pass)
{
    return gx_whole_lines(pass->work_bytes) + gx_whole_lines(pass->part_bytes) + THREAD_BYTES;
}

static int parts_wanted(const gx_pass *pass)
{
    return pass->parts > 0 ? pass->parts : GX_PASS_PARTS;
}

size_t gx_pass_thread_bytes(const gx_pass *pass)
{
    return gx_pass_least_bytes(pass) +
           (size_t)(parts_wanted(pass) - 1) * gx_whole_lines(pass->part_bytes);
}

/* What is read from the database takes longer than what lies in memory, and has readers. */
static int64_t threads_wanted(const gx_run *run, const gx_pass *pass)
{
    const gx_config *config = &run->ctx->config;
    bool reads = has_stored(pass);
    int64_t threads = config->number[GX_SET_THREADS];
    double seconds = GX_SECONDS_OF_FLOPS(pass->flops) + GX_SECONDS_OF_BYTES(pass->bytes);
    if (reads) {
        threads = gx_max(threads, config->number[GX_SET_READERS]);
        seconds += 2 * GX_SECONDS_OF_BYTES(pass->bytes);
    }
    threads = gx_min(threads, gx_run_threads_worth(seconds));
    if (pass->threads > 0) {
        threads = gx_min(threads, pass->threads);
    }
    return is_small(pass) ? 1 : gx_max(1, gx_min(threads, pass->units));
}

int64_t gx_pass_threads(gx_run *run, const gx_pass *pass)
{
    size_t available = gx_mem_available(run->ctx->mem);
    int64_t fit = (int64_t)(available / gx_pass_thread_bytes(pass));
    if (fit == 0) {
        return available >= gx_pass_least_bytes(pass) ? 1 : 0;
    }
    return gx_min(fit, threads_wanted(run, pass));
}

static gx_code reserve_thread(job *x, gx_pass_thread *t, int parts, gx_err *err)
{
    size_t work = gx_whole_lines(x->pass->work_bytes), bytes = gx_whole_lines(x->pass->part_bytes);
    GX_TRY(gx_mem_alloc(x->run->ctx->mem, work + (size_t)parts * bytes, "a pass over the matrix",
                        &t->memory, err));
    t->job = x;
    t->work = t->memory;
    t->parts = parts;
    for (int k = 0; k < parts; k++) {
        t->part[k].data = t->work + work + (size_t)k * bytes;
    }
    return GX_OK;
}

static gx_code reserve(job *x)
{
    gx_mem *mem = x->run->ctx->mem;
    gx_err err = {0};
    void *threads = NULL, *waiting = NULL;
    x->threads = gx_max(1, gx_run_share(x->run, gx_pass_threads(x->run, x->pass)));
    bool is_tight = gx_mem_available(mem) < gx_pass_thread_bytes(x->pass);
    if (gx_mem_calloc(mem, (size_t)x->threads * sizeof *x->thread, "threads", &threads, &err) ==
            GX_OK &&
        gx_mem_calloc(mem, (size_t)(x->threads * GX_PASS_PARTS) * sizeof(part *), "threads",
                      &waiting, &err) == GX_OK) {
        x->thread = threads;
        x->waiting = waiting;
        bool is_alone = x->threads == 1 && (is_tight || is_small(x->pass));
        int parts = is_alone ? 1 : parts_wanted(x->pass);
        for (int64_t k = 0; k < x->threads && err.code == GX_OK; k++) {
            reserve_thread(x, &x->thread[k], parts, &err);
        }
    } else {
        gx_mem_free(mem, threads);
    }
    return gx_run_fail(x->run, &err);
}

static void give_back(job *x)
{
    gx_mem *mem = x->run->ctx->mem;
    for (int64_t k = 0; x->thread != NULL && k < x->threads; k++) {
        gx_mem_free(mem, x->thread[k].memory);
    }
    gx_mem_free(mem, x->thread);
    gx_mem_free(mem, x->waiting);
}

gx_code gx_pass_run(gx_run *run, const gx_pass *pass)
{
    job x = {.run = run, .pass = pass};
    if (!gx_ok(run) || pass->units <= 0) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    pthread_mutex_init(&x.lock, NULL);
    pthread_cond_init(&x.changed, NULL);
    if (reserve(&x) == GX_OK) {
        gx_run_progress(run, (double)pass->units);
        gx_stream *stream = start_helpers(&x);
        if (stream != NULL) {
            attend(&x, NULL);
            gx_stream_stop(stream);
        } else {
            run_here(&x);
        }
    }
    give_back(&x);
    pthread_cond_destroy(&x.changed);
    pthread_mutex_destroy(&x.lock);
    return gx_ok(run) ? GX_OK : run->err.code;
}
