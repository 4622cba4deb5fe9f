/*
** The accelerator of a connection: see accel.h.
**
** Opening costs what the vendor's runtime takes to start (tenths of a second), so nothing here
** happens before a program is large enough to be worth it, or the settings ask for it.  A
** connection has its own queues and pools; several connections and processes share a device by
** each leaving a fifth of what is free.
**
** The device's rates come from the saved hardware profile, under the device's name and driver;
** where they are not there they are measured at the first opening and saved.
*/
#include "accel.h"

#include "../run/totals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gx_accel *gx_accel_opened(const gx_ctx *ctx)
{
    return ctx->accel;
}

static void close_queues(gx_accel *accel)
{
    const gx_backend *backend = accel->backend;
    gx_queue *queues[4] = {accel->up, accel->run, accel->down, accel->in};
    for (int k = 0; k < 4; k++) {
        if (queues[k] != NULL) {
            backend->queue_free(accel->dev, queues[k]);
        }
    }
}

static void destroy(gx_accel *accel)
{
    gx_turn_leave(&accel->turn);
    if (accel->dev != NULL) {
        for (int k = 0; k < 2; k++) {
            accel->backend->mark_free(accel->dev, accel->turn.mark[k]);
        }
        close_queues(accel);
        gx_pool_free(accel->pool);
        accel->backend->close(accel->dev);
    }
    gx_mem_free(NULL, accel);
}

void gx_accel_close(gx_ctx *ctx)
{
    while (ctx->accel != NULL) {
        gx_accel *first = ctx->accel;
        ctx->accel = first->next;
        destroy(first);
    }
    ctx->devices_lost = 0;
}

/* A failure that gx_devices will tell. */
static void count_fault(gx_ctx *ctx, const gx_err *err)
{
    gx_stats_add(&ctx->stats, GX_STAT_DEVICE_FAULTS, 1);
    memcpy(ctx->accel_reason, err->text, sizeof ctx->accel_reason - 1);
    ctx->accel_reason[sizeof ctx->accel_reason - 1] = '\0';
}

/* No accelerator any more; name: of the one that has failed, or NULL. */
static void switch_off(gx_ctx *ctx, const char *name, const gx_err *err)
{
    const gx_about about = {.kind = GX_EVENT_DEVICE_LOST, .device = name, .bytes = err->bytes};
    gx_stats_tell(&ctx->stats, &about, "CUDA off for this connection: %s", err->text);
    count_fault(ctx, err);
    ctx->is_accel_off = true;
    gx_accel_close(ctx);
}

void gx_accel_leave_out(gx_ctx *ctx, gx_accel *accel, const gx_err *err)
{
    if (accel == NULL || (accel == ctx->accel && accel->next == NULL)) {
        switch_off(ctx, accel == NULL ? NULL : accel->info.name, err);
        return;
    }
    gx_accel **link = &ctx->accel;
    while (*link != accel) {
        link = &(*link)->next;
    }
    *link = accel->next;
    ctx->devices_lost |= (uint64_t)1 << (accel->ordinal % 64);
    const gx_about about = {
        .kind = GX_EVENT_DEVICE_LOST, .device = accel->info.name, .bytes = err->bytes};
    gx_stats_tell(&ctx->stats, &about, "%s is left out: %.180s", accel->info.name, err->text);
    count_fault(ctx, err);
    destroy(accel);
}

/* Measure it and keep the figures. */
static gx_code measure(gx_ctx *ctx, gx_accel *accel, double seconds, double open_s, gx_err *err)
{
    gx_device_profile measured = {.open_s = open_s};
    size_t limit = 0;
    GX_TRY(gx_accel_limit(ctx, accel, 0, &limit, err));
    GX_TRY(gx_accel_measure(ctx, accel, seconds, limit, &measured, err));
    accel->profile = measured;
    gx_profile_keep_device(ctx, &accel->info, &measured);
    return GX_OK;
}

/* The figures of an open device of the same make, which differ by the number in its name. */
static bool borrow_profile(const gx_ctx *ctx, gx_accel *accel)
{
    const char *make = strchr(accel->info.name, ' ');
    for (const gx_accel *other = ctx->accel; other != NULL && make != NULL; other = other->next) {
        const char *its = strchr(other->info.name, ' ');
        if (its != NULL && strcmp(its, make) == 0) {
            accel->profile = other->profile;
            return true;
        }
    }
    return false;
}

static gx_code open_parts(gx_ctx *ctx, gx_accel *accel, int64_t start_ns, gx_err *err)
{
    const gx_backend *backend = accel->backend;
    GX_TRY(backend->open(accel->ordinal, &accel->dev, err));
    GX_TRY(backend->info(accel->dev, &accel->info, err));
    gx_totals_name_device(accel->ordinal, &accel->info);
    GX_TRY(backend->queue_create(accel->dev, &accel->up, err));
    GX_TRY(backend->queue_create(accel->dev, &accel->run, err));
    GX_TRY(backend->queue_create(accel->dev, &accel->down, err));
    if (backend->copy_from != NULL) {
        GX_TRY(backend->queue_create(accel->dev, &accel->in, err));
    }
    GX_TRY(gx_pool_create(backend, accel->dev, ctx->mem, &ctx->stats, &accel->pool, err));
    gx_pool_number(accel->pool, accel->ordinal);
    if (!borrow_profile(ctx, accel) && !gx_profile_device(ctx, &accel->info, &accel->profile)) {
        double open_s = start_ns == 0 ? GX_ACCEL_OPEN_S : (double)(gx_now_ns() - start_ns) * 1e-9;
        GX_TRY(measure(ctx, accel, GX_ACCEL_MEASURE_S, open_s, err));
    }
    const char *said = getenv("GX_RESIDUES_FROM"); // for tests
    accel->profile.residues_from = said == NULL ? accel->profile.residues_from : atof(said);
    return GX_OK;
}

static void attend(gx_ctx *ctx, bool is_begun)
{
    for (gx_accel *accel = ctx->accel; accel != NULL; accel = accel->next) {
        gx_turn_attend(&accel->turn, is_begun);
    }
}

/* Opened behind the others. */
static gx_code open_accel(gx_ctx *ctx, int ordinal, int64_t start_ns, gx_err *err)
{
    void *memory;
    GX_TRY(gx_mem_calloc(NULL, sizeof(gx_accel), "the device", &memory, err));
    gx_accel *accel = memory;
    accel->backend = gx_device_cuda(ctx);
    accel->ordinal = ordinal;
    gx_code rc = open_parts(ctx, accel, start_ns, err);
    if (rc != GX_OK) {
        destroy(accel);
        return rc;
    }
    gx_accel **last = &ctx->accel;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = accel;
    gx_turn_enter(&accel->turn, ordinal, accel->pool);
    gx_turn_attend(&accel->turn, ctx->runs > 0);
    ctx->attend = attend;
    return GX_OK;
}

gx_accel *gx_accel_more(gx_ctx *ctx, int ordinal)
{
    gx_accel *accel = ctx->accel;
    while (accel != NULL && accel->ordinal != ordinal) {
        accel = accel->next;
    }
    uint64_t bit = (uint64_t)1 << (ordinal % 64);
    if (accel != NULL || (ctx->devices_lost & bit) != 0) {
        return accel;
    }
    gx_err err = {0};
    if (open_accel(ctx, ordinal, 0, &err) != GX_OK) {
        bool is_full = err.code == GX_NOMEM;
        char name[16];
        snprintf(name, sizeof name, "cuda:%d", ordinal);
        const gx_about about = {.kind = is_full ? GX_EVENT_NOMEM_DEVICE : GX_EVENT_DEVICE_LOST,
                                .device = name,
                                .bytes = err.bytes};
        gx_stats_tell(&ctx->stats, &about, "device %d is left out: %.180s", ordinal, err.text);
        if (!is_full) {
            count_fault(ctx, &err);
            ctx->devices_lost |= bit;
        }
        return NULL;
    }
    for (accel = ctx->accel; accel->next != NULL; accel = accel->next) {
    }
    return accel;
}

int gx_accel_first(const gx_ctx *ctx)
{
    int list[GX_DEVICES_MOST];
    return gx_parse_devices(ctx->config.text[GX_SET_DEVICES], list) > 0
               ? list[0]
               : (int)ctx->config.number[GX_SET_DEVICE];
}

gx_accel *gx_accel_get(gx_ctx *ctx)
{
    int64_t choice = ctx->config.number[GX_SET_BACKEND];
    bool is_wanted = choice == GX_BACKEND_AUTO || choice == GX_BACKEND_CUDA;
    if (!is_wanted || ctx->is_accel_off || ctx->accel != NULL) {
        return is_wanted && !ctx->is_accel_off ? ctx->accel : NULL;
    }
    int64_t start_ns = gx_device_is_loaded() ? 0 : gx_now_ns();
    const gx_backend *cuda = gx_device_cuda(ctx);
    if (cuda == NULL) {
        if (choice == GX_BACKEND_CUDA) { // from the environment: gx_config() refuses it
            gx_stats_tell(&ctx->stats, &(gx_about){.kind = GX_EVENT_FALLBACK_ABSENT},
                          "computed on the CPU: %s", ctx->cuda_reason);
        }
        return NULL; // gx_devices says why
    }
    gx_err err = {0};
    if (cuda->alloc == NULL || cuda->queue_create == NULL || cuda->mark_create == NULL) {
        gx_fail(&err, GX_DEVICE, "the backend %.60s has no memory and queues of its own",
                cuda->name);
        gx_accel_leave_out(ctx, NULL, &err);
        return NULL;
    }
    gx_code rc = open_accel(ctx, gx_accel_first(ctx), start_ns, &err);
    if (rc == GX_NOMEM) { // others have the memory now: the next call looks again
        const gx_about about = {.kind = GX_EVENT_FALLBACK_MEMORY, .bytes = err.bytes};
        gx_stats_event(&ctx->stats, GX_EVENT_NOMEM_DEVICE, NULL, &err);
        gx_stats_tell(&ctx->stats, &about, "computed on the CPU: %s", err.text);
        gx_stats_add(&ctx->stats, GX_STAT_DEVICE_FALLBACKS, 1);
    } else if (rc != GX_OK) {
        gx_accel_leave_out(ctx, NULL, &err);
    }
    return ctx->accel;
}

gx_code gx_accel_remeasure(gx_ctx *ctx, gx_err *err)
{
    const double AT_LEISURE_S = 4;
    gx_accel *accel = ctx->accel;
    gx_code rc = measure(ctx, accel, AT_LEISURE_S, accel->profile.open_s, err);
    if (rc != GX_OK && rc != GX_NOMEM && rc != GX_BUDGET) {
        gx_accel_leave_out(ctx, accel, err);
    }
    return rc;
}

/* What is free, and what the pool has of it. */
static gx_code look(gx_accel *accel, bool is_anew, gx_err *err)
{
    // The driver takes a tenth of a millisecond to answer, and more than some calls take.  What the
    // pool takes or gives back in between changes nothing; what others take it finds out in time.
    const int64_t FRESH_NS = 50000000;
    int64_t now_ns = gx_now_ns();
    if (is_anew || accel->seen_bytes == 0 || now_ns - accel->seen_ns > FRESH_NS) {
        gx_dev_info now;
        GX_TRY(accel->backend->info(accel->dev, &now, err));
        accel->seen_bytes = now.free_bytes + gx_pool_device_bytes(accel->pool);
        accel->seen_ns = now_ns;
    }
    return GX_OK;
}

static size_t most_of(size_t bytes)
{
    return bytes / 5 * 4;
}

gx_code gx_accel_limit(gx_ctx *ctx, gx_accel *accel, double wanted, size_t *bytes, gx_err *err)
{
    size_t limit = (size_t)ctx->config.number[GX_SET_DEVICE_MEMORY_LIMIT];
    size_t share = gx_turn_share(&accel->turn, most_of(accel->info.total_bytes));
    size_t fair = limit > 0 && limit < share ? limit : share;
    GX_TRY(look(accel, false, err));
    size_t most = most_of(accel->seen_bytes);
    if (most < fair && (double)most < wanted) {
        gx_turn_reclaim(&accel->turn, share, (fair - most) / 4 * 5);
        GX_TRY(look(accel, true, err));
        most = most_of(accel->seen_bytes);
    }
    most = gx_turn_is_short(&accel->turn) && share < most ? share : most;
    *bytes = limit > 0 && limit < most ? limit : most;
    return GX_OK;
}

bool gx_accel_offers(const gx_accel *accel, gx_kernel_id kernel, gx_number dtype)
{
    return kernel == GX_KERNEL_COUNT || accel->backend->kernel[kernel][dtype] != NULL;
}
