/*
** Helper threads that read: see stream.h.
**
** Order of life: the caller's thread opens every reader and begins its read transaction (so that
** all see the generation the caller saw), then starts the threads; the threads only read; the
** caller joins them and closes the readers.  One connection is used by one thread at a time, so
** the SQLite library may be in serialized or multi-thread mode.
**
** Rollback journal: a helper's shared lock keeps the writer from spilling its cache and from
** committing, so whoever writes through the caller's connection stops the stream first
** (gx_stream_excludes_writer); a write-ahead log has no such conflict.
*/
#include "stream.h"

#include "../base/thread.h"

#include <assert.h>
#include <string.h>
#include <time.h>

typedef struct member {
    gx_helper helper;
    pthread_t thread;
    bool is_started;
} member;

struct gx_stream {
    gx_run *run;
    gx_helper_fn fn;
    void *arg;
    int schemas;
    char schema[GX_STREAM_SCHEMAS][GX_NAME_MAX + 1];
    int helpers;
    member member[]; /* helpers of them */
};

static int schema_index(const gx_stream *stream, const char *schema)
{
    for (int s = 0; s < stream->schemas; s++) {
        if (strcmp(stream->schema[s], schema) == 0) {
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

/* Collect the schemas of the sources; false when some database refuses helpers (noted). */
static bool collect_schemas(gx_stream *stream, const gx_mat *const *sources, int count)
{
    gx_ctx *ctx = stream->run->ctx;
    for (int k = 0; k < count; k++) {
        const gx_mat *stored = gx_mat_base_stored(sources[k]);
        if (stored == NULL || schema_index(stream, stored->meta.schema) >= 0) {
            continue;
        }
        const char *reason = gx_reader_refusal(ctx->store, stored->meta.schema);
        if (reason == NULL && stream->schemas == GX_STREAM_SCHEMAS) {
            reason = "too many databases in one call";
        }
        if (reason != NULL) {
            gx_stats_note(&ctx->stats, "readers: %s", reason);
            return false;
        }
        memcpy(stream->schema[stream->schemas++], stored->meta.schema, GX_NAME_MAX + 1);
    }
    return true;
}

static void close_helper(gx_stream *stream, gx_helper *helper)
{
    for (int s = 0; s < stream->schemas; s++) {
        if (helper->reader[s] != NULL) {
            gx_reader_end(helper->reader[s]);
            gx_reader_close(helper->reader[s]);
            helper->reader[s] = NULL;
        }
    }
}

/* One reader per schema, each inside a read transaction that sees what the caller sees. */
static gx_code open_helper(gx_stream *stream, gx_helper *helper, const gx_mat *const *sources,
                           int count, gx_err *err)
{
    for (int s = 0; s < stream->schemas; s++) {
        const gx_meta *metas[16];
        int n = 0;
        for (int k = 0; k < count && n < 16; k++) {
            const gx_mat *stored = gx_mat_base_stored(sources[k]);
            if (stored != NULL && strcmp(stored->meta.schema, stream->schema[s]) == 0) {
                metas[n++] = &stored->meta;
            }
        }
        GX_TRY(gx_reader_open(stream->run->ctx->store, stream->schema[s], &helper->reader[s], err));
        GX_TRY(gx_reader_begin(helper->reader[s], metas, n, err));
    }
    return GX_OK;
}

static void *run_member(void *arg)
{
    member *m = arg;
    m->helper.stream->fn(m->helper.stream->arg, &m->helper);
    return NULL;
}

/* Open readers for as many helpers as are wanted and can be had; failures are notes. */
static void open_helpers(gx_stream *stream, const gx_mat *const *sources, int count, int wanted)
{
    for (int h = 0; h < wanted; h++) {
        gx_helper *helper = &stream->member[h].helper;
        *helper = (gx_helper){.run = stream->run, .index = h, .stream = stream};
        gx_err err = {0};
        if (open_helper(stream, helper, sources, count, &err) != GX_OK) {
            close_helper(stream, helper);
            gx_stats_note(&stream->run->ctx->stats, "readers: %s", err.text);
            return;
        }
        stream->helpers++;
    }
}

static void start_threads(gx_stream *stream)
{
    int opened = stream->helpers, started = 0;
    for (int h = 0; h < opened; h++) {
        member *m = &stream->member[h];
        m->is_started = gx_thread_start(&m->thread, run_member, m);
        if (!m->is_started) {
            close_helper(stream, &m->helper);
            gx_stats_note(&stream->run->ctx->stats, "readers: the system refused a thread");
        }
        started += m->is_started;
    }
    assert(started <= opened);
    if (started == 0) {
        stream->helpers = 0;
    }
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
    if (collect_schemas(stream, sources, count)) {
        open_helpers(stream, sources, count, wanted);
        start_threads(stream);
    }
    if (stream->helpers == 0) {
        gx_mem_free(run->ctx->mem, stream);
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
    for (int h = 0; h < stream->helpers; h++) {
        close_helper(stream, &stream->member[h].helper);
    }
    gx_mem_free(stream->run->ctx->mem, stream);
}

int gx_stream_helpers(const gx_stream *stream)
{
    return stream == NULL ? 0 : stream->helpers;
}

bool gx_stream_excludes_writer(const gx_stream *stream, const char *schema)
{
    int s = stream == NULL ? -1 : schema_index(stream, schema);
    for (int h = 0; s >= 0 && h < stream->helpers; h++) {
        const gx_reader *reader = stream->member[h].helper.reader[s];
        if (reader != NULL && gx_reader_excludes_writer(reader)) {
            return true;
        }
    }
    return false;
}

void gx_stream_wait(pthread_cond_t *changed, pthread_mutex_t *lock)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 10 * 1000 * 1000;
    if (until.tv_nsec >= 1000 * 1000 * 1000) {
        until.tv_nsec -= 1000 * 1000 * 1000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(changed, lock, &until);
}
