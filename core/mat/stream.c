/*
** Helper threads that read: see stream.h.
**
** Order of life: the caller's thread opens the first helper's readers and begins their read
** transactions, which says whether helpers can serve at all, and starts the threads.  The first
** helper's readers lead the others' to their tiles (store_reader.c), or every other helper opens
** its own on its thread, closes them there, and leaves without a word to the caller when it cannot:
** each looks whether it sees the generation that the caller saw, so when it does so is the same.
** The caller joins them.  One connection is used by one thread at a time, so the SQLite library may
** be in serialized or multi-thread mode.
**
** Those that open do so one after the other, while others read: SQLite allocates under a lock of
** the whole process, and sixteen that open at once are all ready when the last one is.  Whoever
** comes to it when there is no work left does not open.
**
** Memory.  Helpers are a convenience: what is left when they have their readers has to do for the
** caller, who may read, start its team or write besides, and may not be refused for want of it.
**
** Rollback journal: a helper's shared lock keeps the writer from spilling its cache and from
** committing, so whoever writes through the caller's connection stops the stream first
** (gx_stream_excludes_writer); a write-ahead log has no such conflict.
*/
#include "stream.h"

#include "../base/thread.h"

#include <assert.h>
#include <string.h>

enum { SPARE_BYTES = 16 << 10 }; /* the caller's reader and team, and as much again */

typedef struct member {
    gx_stream *stream;
    gx_helper helper;
    pthread_t thread;
    bool is_started;
} member;

/* One database of the stream, and what is read from it. */
typedef struct origin {
    char schema[GX_NAME_MAX + 1];
    const gx_meta *meta[GX_READER_METAS]; /* those that are looked at */
    int metas;
} origin;

struct gx_stream {
    gx_run *run;
    gx_helper_fn fn;
    void *arg;
    int schemas;
    origin origin[GX_STREAM_SCHEMAS];
    pthread_mutex_t opening; /* one helper at a time */
    _Atomic bool is_over;    /* one has found no work left */
    int helpers;
    member member[]; /* helpers of them */
};

static int schema_index(const gx_stream *stream, const char *schema)
{
    for (int s = 0; s < stream->schemas; s++) {
        if (strcmp(stream->origin[s].schema, schema) == 0) {
            return s;
        }
    }
    return -1;
}

gx_reader *gx_helper_reader(const gx_helper *helper, const gx_mat *source)
{
    const gx_mat *stored = gx_mat_base_stored(source);
    if (stored == NULL) {
        return NULL;
    }
    int s = schema_index(helper->stream, stored->meta.schema);
    assert(s < 0 || helper->reader[s] != NULL);
    return s < 0 ? NULL : helper->reader[s];
}

/* Of several parts of a composite all have to be looked at: they are too many, or one more is. */
static bool look_at(origin *o, const gx_meta *meta, bool is_part)
{
    for (int k = 0; k < o->metas; k++) {
        if (o->meta[k]->id == meta->id) {
            return true;
        }
    }
    if (o->metas < GX_READER_METAS) {
        o->meta[o->metas++] = meta;
        return true;
    }
    return !is_part;
}

/* What a source reads, by database; false when that refuses helpers (noted). */
static bool collect_origin(gx_stream *stream, const gx_mat *source)
{
    gx_ctx *ctx = stream->run->ctx;
    const gx_mat *stored = gx_mat_base_stored(source);
    if (stored == NULL || stored->meta.scratch != NULL) {
        return true;
    }
    int s = schema_index(stream, stored->meta.schema);
    if (s < 0 && stream->schemas == GX_STREAM_SCHEMAS) {
        gx_stats_note(&ctx->stats, "readers: too many databases in one call");
        return false;
    }
    if (s < 0) {
        s = stream->schemas++;
        memcpy(stream->origin[s].schema, stored->meta.schema, GX_NAME_MAX + 1);
    }
    for (int64_t k = 0; (stored = gx_mat_base_number(source, k)) != NULL; k++) {
        if (!look_at(&stream->origin[s], &stored->meta, k > 0)) {
            gx_stats_note(&ctx->stats, "readers: a composite of more than %d matrices",
                          GX_READER_METAS);
            return false;
        }
    }
    return true;
}

/* Of all sources. */
static bool collect_origins(gx_stream *stream, const gx_mat *const *sources, int count)
{
    bool is_served = true;
    for (int k = 0; k < count && is_served; k++) {
        is_served = collect_origin(stream, sources[k]);
    }
    return is_served;
}

static void close_helper(const gx_stream *stream, gx_helper *helper)
{
    for (int s = 0; s < stream->schemas; s++) {
        gx_reader_close(helper->reader[s]);
        helper->reader[s] = NULL;
    }
}

/* Read transactions that see what the caller sees; false with a note: it cannot have them. */
static bool begin_helper(const gx_stream *stream, gx_helper *helper)
{
    gx_err err = {0};
    for (int s = 0; s < stream->schemas; s++) {
        const origin *o = &stream->origin[s];
        if (gx_reader_begin(helper->reader[s], o->meta, o->metas, &err) != GX_OK) {
            gx_stats_note(&stream->run->ctx->stats, "readers: %s", err.text);
            return false;
        }
    }
    return true;
}

static void *run_member(void *arg)
{
    member *m = arg;
    gx_stream *stream = m->stream;
    bool is_first = m->helper.index == 0; // the caller opened, looks at and closes its readers
    bool is_ready = is_first;
    if (!is_first) {
        pthread_mutex_lock(&stream->opening);
        is_ready = !stream->is_over && gx_ok(stream->run) && begin_helper(stream, &m->helper);
        pthread_mutex_unlock(&stream->opening);
    }
    if (is_ready) {
        stream->fn(stream->arg, &m->helper);
        stream->is_over = true;
    }
    if (!is_first) {
        close_helper(stream, &m->helper);
    }
    return NULL;
}

/* A reader for each database: the first helper's asks the store, the others are like it. */
static bool make_readers(gx_stream *stream, gx_helper *helper)
{
    gx_err err = {0};
    const gx_helper *first = &stream->member[0].helper;
    for (int s = 0; s < stream->schemas; s++) {
        gx_reader **reader = &helper->reader[s];
        gx_code code = helper == first ? gx_reader_open(stream->run->ctx->store,
                                                        stream->origin[s].schema, reader, &err)
                                       : gx_reader_another(first->reader[s], reader, &err);
        if (code != GX_OK) {
            gx_stats_note(&stream->run->ctx->stats, "readers: %s", err.text);
            return false;
        }
    }
    return true;
}

/* Helper h has its readers. */
static bool leaves_enough(const gx_stream *stream, int h)
{
    gx_ctx *ctx = stream->run->ctx;
    size_t available = gx_mem_available(ctx->mem);
    if (available < SPARE_BYTES) {
        gx_stats_note(&ctx->stats, "readers: %d, for another one memory_limit leaves %zu bytes", h,
                      available);
    }
    return available >= SPARE_BYTES;
}

/* As many helpers as are wanted and can be had, of which the first is ready; failures are notes. */
static void make_helpers(gx_stream *stream, int wanted)
{
    for (int h = 0; h < wanted; h++) {
        gx_helper *helper = &stream->member[h].helper;
        stream->member[h].stream = stream;
        *helper = (gx_helper){.run = stream->run, .index = h, .stream = stream};
        if (!make_readers(stream, helper) || !leaves_enough(stream, h) ||
            (h == 0 && !begin_helper(stream, helper))) {
            close_helper(stream, helper);
            return;
        }
        stream->helpers++;
    }
}

/* The first one's thread is the one that must be had: others may find nothing to open. */
static void start_threads(gx_stream *stream)
{
    int made = stream->helpers;
    stream->helpers = 0;
    for (int h = 0; h < made; h++) {
        member *m = &stream->member[h];
        m->is_started =
            (h == 0 || stream->helpers > 0) && gx_thread_start(&m->thread, run_member, m);
        if (m->is_started) {
            stream->helpers = h + 1;
        } else {
            close_helper(stream, &m->helper);
            gx_stats_note(&stream->run->ctx->stats, "readers: the system refused a thread");
        }
    }
}

static void free_stream(gx_stream *stream)
{
    pthread_mutex_destroy(&stream->opening);
    gx_mem_free(stream->run->ctx->mem, stream);
}

gx_code gx_stream_start(gx_run *run, const gx_mat *const *sources, int count, int wanted,
                        double bytes, gx_helper_fn fn, void *arg, gx_stream **stream_out)
{
    *stream_out = NULL;
    if (wanted <= 0 || bytes < GX_STREAM_LEAST_BYTES || !gx_ok(run)) {
        return GX_OK;
    }
    gx_err err = {0};
    void *memory;
    size_t stream_bytes = sizeof(gx_stream) + (size_t)wanted * sizeof(member);
    if (gx_mem_calloc(run->ctx->mem, stream_bytes, "helper threads", &memory, &err) != GX_OK) {
        gx_stats_note(&run->ctx->stats, "readers: %s", err.text);
        return GX_OK;
    }
    gx_stream *stream = memory;
    stream->run = run;
    stream->fn = fn;
    stream->arg = arg;
    pthread_mutex_init(&stream->opening, NULL);
    if (collect_origins(stream, sources, count)) {
        make_helpers(stream, wanted);
        start_threads(stream);
    }
    if (stream->helpers == 0) {
        free_stream(stream);
        return GX_OK;
    }
    *stream_out = stream;
    return GX_OK;
}

void gx_stream_stop(gx_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    for (int h = 0; h < stream->helpers; h++) {
        if (stream->member[h].is_started) {
            pthread_join(stream->member[h].thread, NULL);
        }
    }
    close_helper(stream, &stream->member[0].helper);
    free_stream(stream);
}

int gx_stream_helpers(const gx_stream *stream)
{
    return stream == NULL ? 0 : stream->helpers;
}

bool gx_stream_excludes_writer(const gx_stream *stream, const char *schema)
{
    int s = stream == NULL ? -1 : schema_index(stream, schema);
    return s >= 0 && gx_reader_excludes_writer(stream->member[0].helper.reader[s]);
}

void gx_stream_wait(pthread_cond_t *changed, pthread_mutex_t *lock)
{
    const struct timespec until = gx_deadline(CLOCK_REALTIME, 10 * 1000 * 1000);
    pthread_cond_timedwait(changed, lock, &until);
}
