/*
** What goes up to devices for a search: queries, by turns, and listed pairs.
**
** All of it passes through one page-locked buffer, from which copies are enqueued when it is full
** or the next bytes have another place; before it is written to again they are waited for.
*/
#include "knn_device.h"

#include <string.h>

static const size_t GAP_MOST = 256; // bytes that go up as nothing

/* What is in the stage goes up, behind what went before. */
static gx_code flush(gx_knn_device *d, char *to, gx_err *err)
{
    const gx_accel *accel = d->accel;
    size_t bytes = d->filled;
    if (bytes > 0) {
        GX_TRY(accel->backend->upload(accel->dev, accel->up, to + d->sent, bytes, d->stage.data,
                                      bytes, bytes, 1, err));
        gx_stats_add(&d->run->ctx->stats, GX_STAT_UPLOADED, (int64_t)bytes);
        d->is_flying = true;
    }
    d->sent += bytes;
    d->filled = 0;
    return GX_OK;
}

gx_code gx_knn_put_end(gx_knn_device *d, char *to, gx_err *err)
{
    const gx_accel *accel = d->accel;
    GX_TRY(flush(d, to, err));
    GX_TRY(accel->backend->mark_set(accel->dev, accel->up, d->loaded, err));
    return accel->backend->queue_after_mark(accel->dev, accel->run, d->loaded, err);
}

gx_code gx_knn_put(gx_knn_device *d, char *to, size_t at, const void *from, size_t bytes,
                   gx_err *err)
{
    size_t gap = at - d->sent - d->filled; // for alignment, or wherever it goes on
    if (gap > GAP_MOST || gap > d->stage.bytes - d->filled) {
        GX_TRY(flush(d, to, err));
        d->sent = at;
        gap = 0;
    }
    GX_TRY(gx_knn_wait_for_stage(d, err));
    memset((char *)d->stage.data + d->filled, 0, gap);
    d->filled += gap;
    for (size_t done = 0; done < bytes;) {
        size_t room = d->stage.bytes - d->filled, step = bytes - done < room ? bytes - done : room;
        GX_TRY(gx_knn_wait_for_stage(d, err));
        if (gx_knn_wants_team(d->s)) {
            gx_device_stage(d->run, (char *)d->stage.data + d->filled, step,
                            (const char *)from + done, step, step, 1);
        } else {
            memcpy((char *)d->stage.data + d->filled, (const char *)from + done, step);
        }
        d->filled += step;
        done += step;
        if (d->filled == d->stage.bytes) {
            GX_TRY(flush(d, to, err));
        }
    }
    return GX_OK;
}

/*
** What of a piece belongs to queries [j, j + n) of the batch; the shift goes with the first.
** What the device can make itself does not go: doubles are two thirds of the bytes.
*/
typedef struct slice {
    const char *from;
    size_t at, bytes;
} slice;

static slice slice_of(const gx_knn_device *d, gx_knn_piece piece, int64_t j, int64_t n)
{
    const gx_knn_batch *b = &d->s->batch;
    size_t k = (size_t)d->s->args->E->cols, es = gx_number_bytes(d->s->dtype);
    const struct {
        const void *from;
        size_t each;
    } of[GX_KNN_MERIT] = {[GX_KNN_QUERY] = {b->query, k * sizeof(double)},
                          [GX_KNN_SQUARE] = {b->square, sizeof(double)},
                          [GX_KNN_LENGTH] = {b->length, sizeof(double)},
                          [GX_KNN_SHIFT] = {b->shift, k * es},
                          [GX_KNN_PLAIN] = {b->b, k * es},
                          [GX_KNN_B] = {b->b, k * es}};
    bool is_left_out = piece == GX_KNN_QUERY ? gx_knn_is_made_there(d)
                                             : piece == GX_KNN_B && gx_knn_are_plain(d);
    if (d->at[piece + 1] == d->at[piece] || (piece == GX_KNN_SHIFT && j > 0) ||
        is_left_out) {
        return (slice){.bytes = 0};
    }
    size_t at = (size_t)j * of[piece].each;
    return (slice){.from = (const char *)of[piece].from + at,
                   .at = d->at[piece] + at,
                   .bytes = piece == GX_KNN_SHIFT ? k * es : (size_t)n * of[piece].each};
}

/* Of queries [j, j + n), which have been sent, what the device makes: doubles; b, of a shift. */
static gx_code make_there(gx_knn_device *d, int64_t j, int64_t n, gx_err *err)
{
    const gx_accel *accel = d->accel;
    int64_t k = d->s->args->E->cols;
    size_t at = (size_t)(j * k);
    gx_args args = {.m = k, .n = n, .from = GX_DTYPE_F32, .lda = k, .ldc = k};
    if (!gx_knn_is_made_there(d) || k == 0) {
        return GX_OK;
    }
    args.a = gx_knn_place(d, gx_knn_are_plain(d) ? GX_KNN_PLAIN : GX_KNN_B, at * sizeof(float));
    args.c = gx_knn_place(d, GX_KNN_QUERY, at * sizeof(double));
    GX_TRY(accel->backend->kernel[GX_CONVERT][GX_F64](accel->dev, accel->run, &args, err));
    args.map = GX_MAP_ADD;
    args.alpha = GX_ONE;
    args.b = gx_knn_place(d, GX_KNN_SHIFT, 0); // one column, taken off each
    args.beta = (gx_scalar){-1, 0};
    args.c = gx_knn_place(d, GX_KNN_B, at * sizeof(float));
    return !gx_knn_are_plain(d)
               ? GX_OK
               : accel->backend->kernel[GX_MAP][GX_F32](accel->dev, accel->run, &args, err);
}

gx_code gx_knn_send(gx_knn_group *g, int64_t end, gx_err *err)
{
    gx_knn_device *first = &g->part[0];
    int64_t j = g->sent, n = end - j;
    int culprit = g->culprit;
    if (n <= 0) {
        return GX_OK;
    }
    g->sent = end;
    g->culprit = 0;
    GX_TRY(gx_knn_check_open(first, err));
    for (int p = 0; p < GX_KNN_MERIT; p++) {
        slice of = slice_of(first, p, j, n);
        if (of.bytes > 0) {
            GX_TRY(gx_knn_put(first, first->part.data, of.at, of.from, of.bytes, err));
        }
    }
    GX_TRY(gx_knn_put_end(first, first->part.data, err));
    GX_TRY(make_there(first, j, n, err));
    for (int k = 1; k < g->parts; k++) {
        gx_knn_device *d = &g->part[k];
        const gx_accel *accel = d->accel;
        g->culprit = k;
        GX_TRY(gx_knn_check_open(d, err));
        GX_TRY(accel->backend->queue_after_mark(accel->dev, accel->run, first->loaded, err));
        for (int p = 0; p < GX_KNN_MERIT; p++) {
            slice of = slice_of(first, p, j, n);
            GX_TRY(accel->backend->copy_from(
                accel->dev, accel->run, (char *)d->part.data + of.at, first->accel->dev,
                (const char *)first->part.data + of.at, of.bytes, err));
            gx_stats_add(&d->run->ctx->stats, GX_STAT_PEER_BYTES, (int64_t)of.bytes);
        }
        GX_TRY(make_there(d, j, n, err));
    }
    g->culprit = culprit;
    return GX_OK;
}
