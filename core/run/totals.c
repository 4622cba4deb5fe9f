/*
** The connections of the process together: see totals.h.
**
** One lock guards the list of connections, the sum of what has gone and the names of devices.  It
** is taken when a connection is made, reset or closed, when a device is opened, and by who asks for
** totals; never by a call.  A reader sees each connection as it is at that moment: counters go up
** between two looks, and never down, because what leaves a connection's counters comes into `past`
** under the lock.
*/
#include "totals.h"

#include <string.h>

static struct {
    pthread_mutex_t lock;
    gx_ctx *first;   /* of the open ones            */
    int64_t entered; /* connections, ever           */
    gx_stats past;   /* what is no connection's now */
    gx_device_name device[GX_TALLIED_DEVICES];
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

void gx_totals_enter(gx_ctx *ctx)
{
    pthread_mutex_lock(&process.lock);
    ctx->stats.connection = ++process.entered;
    ctx->next = process.first;
    ctx->link = &process.first;
    if (ctx->next != NULL) {
        ctx->next->link = &ctx->next;
    }
    process.first = ctx;
    pthread_mutex_unlock(&process.lock);
}

void gx_totals_leave(gx_ctx *ctx)
{
    if (ctx->link == NULL) {
        return; // it could not be made
    }
    pthread_mutex_lock(&process.lock);
    gx_stats_add_all(&ctx->stats, true, &process.past);
    *ctx->link = ctx->next;
    if (ctx->next != NULL) {
        ctx->next->link = ctx->link;
    }
    ctx->link = NULL;
    pthread_mutex_unlock(&process.lock);
}

void gx_totals_reset(gx_ctx *ctx)
{
    pthread_mutex_lock(&process.lock);
    gx_stats_add_all(&ctx->stats, true, &process.past);
    gx_stats_reset(&ctx->stats);
    pthread_mutex_unlock(&process.lock);
}

static void add(gx_ctx *ctx, gx_totals *out)
{
    gx_stats_add_all(&ctx->stats, false, &out->stats);
    out->connections++;
    out->used += gx_mem_used(ctx->mem);
    out->limit += gx_mem_limit(ctx->mem);
}

void gx_totals_get(gx_ctx *ctx, gx_totals *out)
{
    pthread_mutex_lock(&process.lock);
    if (ctx != NULL) {
        add(ctx, out);
    } else {
        gx_stats_add_all(&process.past, false, &out->stats);
    }
    for (gx_ctx *each = process.first; ctx == NULL && each != NULL; each = each->next) {
        add(each, out);
    }
    pthread_mutex_unlock(&process.lock);
}

void gx_totals_name_device(int ordinal, const gx_dev_info *info)
{
    if (ordinal < 0 || ordinal >= GX_TALLIED_DEVICES) {
        return;
    }
    gx_device_name *device = &process.device[ordinal];
    pthread_mutex_lock(&process.lock);
    memcpy(device->name, info->name, sizeof device->name);
    memcpy(device->uuid, info->uuid, sizeof device->uuid);
    memcpy(device->driver, info->driver, sizeof device->driver);
    pthread_mutex_unlock(&process.lock);
}

void gx_totals_device(int ordinal, gx_device_name *out)
{
    pthread_mutex_lock(&process.lock);
    *out = process.device[ordinal];
    pthread_mutex_unlock(&process.lock);
}
