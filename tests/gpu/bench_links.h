/*
** A part of bench_core.c, which includes it when it has said what a bench is: what the machine
** allows a matrix that goes through the devices once, in the same run.
**
** As many threads as read for a program on these devices take pieces of A's tiles in turn: each
** reads them from the file into page-locked buffers of its own (`read`), or sends what it has there
** to the devices in turn (`up`: the links, all at once), or both, the way without an order, blocks
** or kernels: less than either where both go through the same memory.
*/
#ifndef BENCH_LINKS_H
#define BENCH_LINKS_H

enum { LINK_BUFFERS = 2 };

typedef struct linking {
    bench *b;
    gx_fleet fleet;
    gx_mat source;
    bool reads, sends;
    int helpers;
    char *there[GX_DEVICES_MOST]; /* a piece for each buffer */
    _Atomic int64_t next;         /* tile                    */
} linking;

/* A thread's buffers. */
typedef struct link_lane {
    void *host[LINK_BUFFERS];
    gx_mark *mark[LINK_BUFFERS][GX_DEVICES_MOST];
    int device[LINK_BUFFERS]; /* that it goes to; -1: nobody */
} link_lane;

static void make_lane(const linking *l, link_lane *lane)
{
    gx_err err = {0};
    for (int k = 0; k < LINK_BUFFERS; k++) {
        const gx_accel *first = l->fleet.accel[0];
        must(first->backend->pin(first->dev, GX_PIECE_UP_BYTES, &lane->host[k], &err), &err);
        memset(lane->host[k], 1, GX_PIECE_UP_BYTES);
        lane->device[k] = -1;
        for (int d = 0; d < l->fleet.count; d++) {
            const gx_accel *accel = l->fleet.accel[d];
            must(accel->backend->mark_create(accel->dev, &lane->mark[k][d], &err), &err);
        }
    }
}

static void free_lane(const linking *l, link_lane *lane)
{
    for (int k = 0; k < LINK_BUFFERS; k++) {
        for (int d = 0; d < l->fleet.count; d++) {
            l->fleet.accel[d]->backend->mark_free(l->fleet.accel[d]->dev, lane->mark[k][d]);
        }
        l->fleet.accel[0]->backend->unpin(l->fleet.accel[0]->dev, lane->host[k]);
    }
}

/* A buffer is free when what was sent from it has left. */
static void await_buffer(const linking *l, link_lane *lane, int k)
{
    gx_err err = {0};
    if (lane->device[k] >= 0) {
        const gx_accel *accel = l->fleet.accel[lane->device[k]];
        must(accel->backend->mark_wait(accel->dev, lane->mark[k][lane->device[k]], &err), &err);
        lane->device[k] = -1;
    }
}

static void send_buffer(const linking *l, link_lane *lane, int k, int to_whom, void *to,
                        size_t bytes)
{
    gx_err err = {0};
    const gx_accel *accel = l->fleet.accel[to_whom];
    const gx_backend *backend = accel->backend;
    must(backend->upload(accel->dev, accel->up, to, bytes, lane->host[k], bytes, bytes, 1, &err),
         &err);
    must(backend->mark_set(accel->dev, accel->up, lane->mark[k][to_whom], &err), &err);
    lane->device[k] = to_whom;
}

typedef struct link_thread {
    linking *l;
    link_lane *lane; /* of each helper */
} link_thread;

static void move_tile(linking *l, link_lane *lane, gx_helper *helper, int64_t tile)
{
    const gx_meta *meta = &l->source.meta;
    int to_whom = (int)(tile % l->fleet.count), k = 0;
    char *to = l->there[to_whom] + (size_t)helper->index * LINK_BUFFERS * GX_PIECE_UP_BYTES;
    gx_err err = {0};
    for (size_t at = 0, bytes; at < tile_bytes(meta, tile); at += bytes) {
        bytes = (size_t)gx_min(GX_PIECE_UP_BYTES, (int64_t)(tile_bytes(meta, tile) - at));
        await_buffer(l, lane, k);
        if (l->reads) {
            gx_reader_read(gx_helper_reader(helper, &l->source), meta, tile, at, bytes,
                           lane->host[k], &err);
            gx_run_fail(helper->run, &err);
        }
        if (l->sends) {
            send_buffer(l, lane, k, to_whom, to + (size_t)k * GX_PIECE_UP_BYTES, bytes);
        }
        k = (k + 1) % LINK_BUFFERS;
    }
}

static void move_tiles(void *arg, gx_helper *helper)
{
    linking *l = ((link_thread *)arg)->l;
    link_lane *lane = &((link_thread *)arg)->lane[helper->index];
    int64_t tiles = tiles_of(&l->source.meta);
    for (int64_t t = l->next++; t < tiles && gx_ok(helper->run); t = l->next++) {
        move_tile(l, lane, helper, t);
    }
    for (int k = 0; k < LINK_BUFFERS; k++) {
        await_buffer(l, lane, k);
    }
}

static double link_once(linking *l, link_lane *lanes)
{
    gx_run run;
    gx_stream *stream = NULL;
    link_thread all = {l, lanes};
    const gx_mat *sources[] = {&l->source};
    l->next = 0;
    gx_run_begin(&run, l->b->ctx, "links");
    double start = now();
    gx_stream_start(&run, sources, 1, l->helpers, l->b->bytes, move_tiles, &all, &stream);
    gx_stream_stop(stream);
    double seconds = now() - start;
    must(gx_run_end(&run), &run.err);
    return seconds;
}

static double link_best(linking *l, link_lane *lanes, const char *what, bool reads, bool sends)
{
    double best = 0;
    l->reads = reads;
    l->sends = sends;
    for (int round = 0; round < 5; round++) {
        gx_stats_reset(&l->b->ctx->stats);
        double seconds = link_once(l, lanes);
        best = round == 0 || seconds < best ? seconds : best;
    }
    printf("{\"what\": \"limit: %s\", \"devices\": %d, \"threads\": %d, \"seconds\": %.4f, "
           "\"GB_per_s\": %.2f}\n",
           what, l->fleet.count, l->helpers, best, l->b->bytes / best / 1e9);
    fflush(stdout);
    return best;
}

/* Seconds of the way without an order: what a stream of A is measured against. */
static double measure_links(bench *b)
{
    const int64_t *setting = b->ctx->config.number;
    linking l = {.b = b};
    gx_err err = {0};
    gx_accel *first = accel_of(b);
    size_t room = 0;
    gx_mat_stored(&l.source, &b->A);
    must(gx_accel_limit(b->ctx, first, 0, &room, &err), &err);
    gx_fleet_single(&l.fleet, first, room);
    gx_fleet_gather(b->ctx, &l.fleet);
    int64_t most = gx_max(setting[GX_SET_READERS], setting[GX_SET_THREADS] / 4 * 3);
    l.helpers = (int)gx_max(1, gx_min(setting[GX_SET_READERS] * l.fleet.count, most));
    link_lane *lanes = calloc((size_t)l.helpers, sizeof *lanes);
    for (int h = 0; h < l.helpers; h++) {
        make_lane(&l, &lanes[h]);
    }
    size_t bytes = (size_t)l.helpers * LINK_BUFFERS * GX_PIECE_UP_BYTES;
    for (int d = 0; d < l.fleet.count; d++) {
        void *memory = NULL;
        must(first->backend->alloc(l.fleet.accel[d]->dev, bytes, &memory, &err), &err);
        l.there[d] = memory;
    }
    link_best(&l, lanes, "all links at once", false, true);
    link_best(&l, lanes, "read into page-locked memory", true, false);
    double both = link_best(&l, lanes, "read and up", true, true);
    for (int d = 0; d < l.fleet.count; d++) {
        first->backend->free(l.fleet.accel[d]->dev, l.there[d]);
    }
    for (int h = 0; h < l.helpers; h++) {
        free_lane(&l, &lanes[h]);
    }
    free(lanes);
    return both;
}

#endif
