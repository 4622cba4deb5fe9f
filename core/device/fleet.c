/*
** Several devices for one program: see fleet.h.
**
** The first device is the connection's own, gx_accel_get(); the others follow it in accel->next, in
** the order in which they were opened, and stay open with it.  A link is measured when both its
** ends are first used together: some copies of LINK_BYTES, a few milliseconds; where the way is
** barred the driver goes through the host, and the rate says so.
*/
#include "fleet.h"

#include <string.h>

enum { COPIES = 4 };

static const size_t LINK_BYTES = 16 << 20;

void gx_fleet_single(gx_fleet *fleet, gx_accel *accel, size_t bytes)
{
    *fleet = (gx_fleet){.count = accel != NULL, .accel = {accel}, .bytes = {bytes}};
}

bool gx_fleet_is_wanted(const gx_ctx *ctx, bool *is_listed)
{
    *is_listed = ctx->config.number[GX_SET_DEVICES] == GX_DEVICES_LISTED;
    return ctx->config.number[GX_SET_DEVICES] != 1;
}

// Links -------------------------------------------------------------------------------------------

/* Copies between two buffers, after one that is not counted. */
static gx_code time_copies(gx_accel *to, gx_accel *from, void *dst, const void *src,
                           double *seconds, gx_err *err)
{
    const gx_backend *backend = to->backend;
    int64_t start_ns = 0;
    for (int k = 0; k <= COPIES; k++) {
        GX_TRY(backend->copy_from(to->dev, to->in, dst, from->dev, src, LINK_BYTES, err));
        if (k == 0) {
            GX_TRY(backend->queue_wait(to->dev, to->in, err));
            start_ns = gx_now_ns();
        }
    }
    GX_TRY(backend->queue_wait(to->dev, to->in, err));
    *seconds = (double)gx_max(1, gx_now_ns() - start_ns) * 1e-9;
    return GX_OK;
}

/*
** What cannot be measured is taken for half of the host's links; a device that is gone shows
** later.
*/
static void measure_link(gx_ctx *ctx, gx_accel *to, size_t to_bytes, gx_accel *from,
                         size_t from_bytes)
{
    gx_link *link = &to->link[from->ordinal];
    void *dst = NULL, *src = NULL;
    gx_err err = {0};
    double seconds;
    if (link->is_known) {
        return;
    }
    link->is_known = true;
    link->is_direct = to->backend->reaches != NULL && to->backend->reaches(to->dev, from->dev);
    double up = to->profile.upload_bytes_per_s, down = from->profile.download_bytes_per_s;
    link->bytes_per_s = (up < down ? up : down) / 2;
    if (gx_pool_take(to->pool, LINK_BYTES, to_bytes, &dst, &err) == GX_OK &&
        gx_pool_take(from->pool, LINK_BYTES, from_bytes, &src, &err) == GX_OK &&
        time_copies(to, from, dst, src, &seconds, &err) == GX_OK) {
        link->bytes_per_s = COPIES * (double)LINK_BYTES / seconds;
    }
    if (err.code != GX_OK && err.code != GX_NOMEM) {
        const gx_about about = {.kind = GX_EVENT_LINK, .device = to->info.name};
        gx_stats_tell(&ctx->stats, &about, "the way from device %d to device %d: %.110s",
                      from->ordinal, to->ordinal, err.text);
    }
    gx_pool_give(to->pool, dst, LINK_BYTES);
    gx_pool_give(from->pool, src, LINK_BYTES);
}

static void measure_links(gx_ctx *ctx, const gx_fleet *fleet)
{
    for (int i = 0; i < fleet->count; i++) {
        for (int j = 0; j < fleet->count; j++) {
            if (i != j) {
                measure_link(ctx, fleet->accel[i], fleet->bytes[i], fleet->accel[j],
                             fleet->bytes[j]);
            }
        }
    }
}

// Members -----------------------------------------------------------------------------------------

/* Ordinals that the settings name, the first device's own left out. */
static int wanted(const gx_ctx *ctx, const gx_accel *first, int list[GX_DEVICES_MOST])
{
    int64_t most = ctx->config.number[GX_SET_DEVICES];
    if (most == GX_DEVICES_LISTED) {
        return gx_parse_devices(ctx->config.text[GX_SET_DEVICES], list);
    }
    int there = first->backend->count(), count = 0;
    there = (int)gx_min(there, GX_DEVICES_MOST);
    for (int k = 1; k < there && (most == GX_DEVICES_ALL || count + 1 < most); k++) {
        list[count++] = (gx_accel_first(ctx) + k) % there;
    }
    return count;
}

static bool is_member(const gx_fleet *fleet, const gx_accel *accel)
{
    bool is_found = false;
    for (int k = 0; k < fleet->count; k++) {
        is_found = is_found || fleet->accel[k] == accel;
    }
    return is_found;
}

void gx_fleet_gather(gx_ctx *ctx, gx_fleet *fleet)
{
    int list[GX_DEVICES_MOST];
    if (fleet->count != 1 || fleet->accel[0]->backend->copy_from == NULL ||
        fleet->accel[0]->ordinal >= GX_DEVICES_MOST) {
        return;
    }
    int count = wanted(ctx, fleet->accel[0], list);
    for (int k = 0; k < count && fleet->count < GX_DEVICES_MOST; k++) {
        gx_accel *accel = gx_accel_more(ctx, list[k]);
        gx_err err = {0};
        size_t bytes;
        if (accel == NULL || is_member(fleet, accel)) {
            continue;
        }
        if (gx_accel_limit(ctx, accel, 0, &bytes, &err) != GX_OK) {
            gx_accel_leave_out(ctx, accel, &err);
            continue;
        }
        fleet->accel[fleet->count] = accel;
        fleet->bytes[fleet->count++] = bytes;
    }
    measure_links(ctx, fleet);
}

/* Whoever does not answer; a call that the device has nothing to do for. */
static bool answers(gx_accel *accel)
{
    gx_dev_info info;
    gx_err err = {0};
    return accel->backend->info(accel->dev, &info, &err) == GX_OK;
}

/* Leave out of the connection whoever does not answer any more, or else the culprit. */
static void lose(gx_ctx *ctx, const gx_fleet *fleet, int culprit, const gx_err *err)
{
    bool is_lost[GX_DEVICES_MOST] = {false}, is_any = false;
    for (int k = 0; k < fleet->count; k++) {
        is_lost[k] = !answers(fleet->accel[k]);
        is_any = is_any || is_lost[k];
    }
    is_lost[culprit] = is_lost[culprit] || !is_any;
    for (int k = 0; k < fleet->count; k++) {
        if (is_lost[k]) {
            gx_accel_leave_out(ctx, fleet->accel[k], err);
        }
    }
}

bool gx_fleet_has(const gx_ctx *ctx, const gx_accel *accel)
{
    const gx_accel *open = gx_accel_opened(ctx);
    while (open != NULL && open != accel) {
        open = open->next;
    }
    return open != NULL;
}

/*
** Those that are still the connection's (ctx NULL: all), without the avoided ones; the culprit's
** new place among them, -1: it is gone.
*/
static int keep(const gx_ctx *ctx, gx_fleet *fleet, uint64_t avoided, int culprit)
{
    int left = 0, place = -1;
    for (int k = 0; k < fleet->count; k++) {
        gx_accel *accel = fleet->accel[k];
        if ((ctx == NULL || gx_fleet_has(ctx, accel)) &&
            (avoided >> (accel->ordinal % 64) & 1) == 0) {
            place = k == culprit ? left : place;
            fleet->accel[left] = accel;
            fleet->bytes[left++] = fleet->bytes[k];
        }
    }
    fleet->count = left;
    return place;
}

void gx_fleet_avoid(gx_fleet *fleet, uint64_t avoided)
{
    keep(NULL, fleet, avoided, 0);
}

bool gx_fleet_goes_on(gx_ctx *ctx, gx_fleet *fleet, int culprit, const gx_err *err,
                      uint64_t *avoided)
{
    bool is_failed = err->code == GX_DEVICE;
    culprit = keep(ctx, fleet, 0, culprit);
    if (culprit < 0) {
        return fleet->count > 0;
    }
    if (gx_accel_opened(ctx)->next == NULL || (fleet->count == 1 && !is_failed)) {
        return false;
    }
    int before = fleet->count;
    if (is_failed) {
        lose(ctx, fleet, culprit, err);
        keep(ctx, fleet, 0, culprit);
        gx_stats_add(&ctx->stats, GX_STAT_DEVICES_LOST, before - fleet->count);
        return true;
    }
    const gx_accel *accel = fleet->accel[culprit];
    gx_stats_add(&ctx->stats, GX_STAT_DEVICES_LOST, 1);
    bool is_full = err->code == GX_NOMEM;
    const gx_about about = {.kind = is_full ? GX_EVENT_NOMEM_DEVICE : gx_fallback_after(err->code),
                            .device = accel->info.name,
                            .bytes = err->bytes};
    gx_stats_tell(&ctx->stats, &about, "%s is left out of a program: %.150s", accel->info.name,
                  err->text);
    gx_pool_trim(accel->pool);
    *avoided |= (uint64_t)1 << (accel->ordinal % 64);
    gx_fleet_avoid(fleet, *avoided);
    return true;
}
