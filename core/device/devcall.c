/*
** A call on a device: see devcall.h.
*/
#include "devcall.h"

gx_block_key gx_devcall_key(gx_run *run, const gx_mat *mat, int64_t i0, int64_t m, gx_number dtype)
{
    if (mat == NULL || mat->kind != GX_MAT_STORED) {
        return (gx_block_key){.file = 0};
    }
    return (gx_block_key){.file = gx_store_stamp(run->ctx->store, mat->meta.schema),
                          .id = mat->meta.id,
                          .generation = mat->meta.generation,
                          .i0 = i0,
                          .m = m,
                          .n = mat->cols,
                          .dtype = dtype};
}

// Memory ------------------------------------------------------------------------------------------

/* Has hold k yet to be taken? */
static bool is_missing(const gx_devcall *c, int k)
{
    return c->hold[k].bytes > 0 && c->hold[k].data == NULL && !(k == 0 && c->is_there);
}

void gx_devcall_foresee(const gx_devcall *c, gx_growth *growth)
{
    bool is_counted[GX_DEVCALL_HOLDS] = {false};
    for (int k = 0; k < GX_DEVCALL_HOLDS; k++) {
        size_t bytes = gx_pool_rounded(c->hold[k].bytes);
        int64_t alike = 0;
        for (int j = k; j < GX_DEVCALL_HOLDS; j++) {
            bool is_alike =
                is_missing(c, j) && !is_counted[j] && gx_pool_rounded(c->hold[j].bytes) == bytes;
            is_counted[j] |= is_alike;
            alike += is_alike;
        }
        gx_pool_foresee(c->accel->pool, bytes, alike, growth);
    }
}

bool gx_devcall_fits(gx_devcall *c)
{
    gx_growth growth = {0};
    gx_err err = {0};
    size_t all = 0;
    c->limit = 0;
    c->is_there = c->key.file != 0 && gx_pool_holds(c->accel->pool, &c->key, c->hold[0].bytes);
    for (int k = 0; k < GX_DEVCALL_HOLDS; k++) {
        if (c->hold[k].bytes >= GX_NO_WORKSPACE) {
            return false;
        }
        all += c->hold[k].bytes == 0 ? 0 : gx_pool_rounded(c->hold[k].bytes);
    }
    if (c->is_there) {
        gx_devcall_foresee(c, &growth);
        c->limit = GX_DEVCALL_NO_LIMIT;
        if (growth.device_bytes == 0) {
            return true;
        }
    }
    if (gx_accel_limit(c->run->ctx, c->accel, (double)all, &c->limit, &err) != GX_OK) {
        c->limit = 0; // not as many as when all is there
        gx_accel_leave_out(c->run->ctx, c->accel, &err);
        return false;
    }
    return all <= c->limit;
}

gx_code gx_devcall_take(gx_devcall *c, int k, gx_err *err)
{
    gx_hold *h = &c->hold[k];
    return h->bytes == 0 || h->data != NULL
               ? GX_OK
               : gx_pool_take(c->accel->pool, h->bytes, c->limit, &h->data, err);
}

gx_code gx_devcall_grow(gx_devcall *c, int k, size_t bytes, gx_err *err)
{
    gx_hold *h = &c->hold[k];
    if (h->data == NULL || h->bytes < bytes) {
        gx_pool_give(c->accel->pool, h->data, h->bytes);
        *h = (gx_hold){.bytes = bytes};
    }
    return gx_devcall_take(c, k, err);
}

gx_code gx_devcall_stage(const gx_devcall *c, gx_staging *stage, size_t bytes, gx_err *err)
{
    size_t budget = (size_t)c->run->ctx->config.number[GX_SET_PINNING_BUDGET];
    if (stage->bytes >= bytes) {
        return GX_OK;
    }
    gx_pool_unstage(c->accel->pool, stage);
    return gx_pool_stage(c->accel->pool, bytes, budget, stage, err);
}

gx_code gx_devcall_marks(gx_devcall *c, int first, int end, gx_err *err)
{
    const gx_accel *accel = c->accel;
    for (int k = first; k < end; k++) {
        GX_TRY(c->mark[k] != NULL ? GX_OK
                                  : accel->backend->mark_create(accel->dev, &c->mark[k], err));
    }
    return GX_OK;
}

gx_code gx_devcall_begin(gx_devcall *c, int first, gx_err *err)
{
    gx_pool *pool = c->accel->pool;
    c->hold[0].data = c->key.file != 0 ? gx_pool_claim(pool, &c->key, c->hold[0].bytes) : NULL;
    c->is_there = c->hold[0].data != NULL;
    gx_stats_add(&c->run->ctx->stats, GX_STAT_DEVICE_HITS, c->is_there);
    for (int k = first; k < GX_DEVCALL_HOLDS; k++) {
        GX_TRY(gx_devcall_take(c, k, err));
    }
    return GX_OK;
}

void gx_devcall_give(gx_devcall *c)
{
    gx_pool *pool = c->accel->pool;
    if (c->is_there && c->key.file != 0) {
        gx_pool_keep(pool, &c->key, c->hold[0].data, c->hold[0].bytes);
        c->hold[0].data = NULL;
    }
    for (int k = 0; k < GX_DEVCALL_HOLDS; k++) {
        gx_pool_give(pool, c->hold[k].data, c->hold[k].bytes);
        c->hold[k].data = NULL;
    }
    for (int k = 0; k < GX_DEVCALL_MARKS; k++) {
        c->accel->backend->mark_free(c->accel->dev, c->mark[k]);
        c->mark[k] = NULL;
    }
    gx_pool_unstage(pool, &c->stage);
    gx_turn_rest(&c->accel->turn);
    c->is_there = false;
}

// The call ----------------------------------------------------------------------------------------

bool gx_devcall_is_open(const gx_devcall *c)
{
    return gx_fleet_has(c->run->ctx, c->accel);
}

gx_code gx_devcall_check_open(const gx_devcall *c, gx_err *err)
{
    return gx_devcall_is_open(c) ? GX_OK : gx_fail(err, GX_DEVICE, "the device was lost");
}

size_t gx_devcall_workspace(const gx_devcall *c, gx_kernel_id id, gx_number dtype,
                            const gx_args *args)
{
    const gx_backend *backend = c->accel->backend;
    return backend->workspace == NULL ? 0 : backend->workspace(c->accel->dev, id, dtype, args);
}

gx_code gx_devcall_kernel(const gx_devcall *c, gx_kernel_id id, gx_number dtype,
                          const gx_args *args, gx_err *err)
{
    GX_TRY(gx_turn_kernel(c->run, c->accel, id, dtype, args, err));
    gx_stats_kernel(&c->run->ctx->stats, gx_kernel_flops(id, dtype, args), 0);
    return GX_OK;
}

bool gx_devcall_end(gx_devcall *c, gx_code code, const gx_err *err)
{
    gx_run *run = c->run;
    bool is_well = code == GX_OK && gx_ok(run);
    if (gx_devcall_is_open(c)) {
        gx_err late = {0};
        gx_code settled = is_well ? GX_OK : gx_device_settle(c->accel, &late);
        c->is_there = c->is_there && settled == GX_OK && code != GX_DEVICE;
        gx_devcall_give(c);
        if (code != GX_OK && gx_ok(run)) {
            gx_device_give_up(run, c->accel, err);
        }
    }
    bool is_done = code == GX_OK || !gx_ok(run);
    gx_stats_add(&run->ctx->stats, GX_STAT_DEVICE_CALLS, is_done);
    return is_done;
}

// Several devices ---------------------------------------------------------------------------------

void gx_devcalls_end(gx_devcalls *calls, gx_err *err)
{
    for (int k = 0; k < calls->count; k++) {
        gx_devcall *c = calls->on[k];
        gx_err late = {0};
        bool is_failed = err->code == GX_DEVICE && k == calls->culprit;
        bool is_well =
            gx_devcall_check_open(c, &late) == GX_OK && gx_device_settle(c->accel, &late) == GX_OK;
        c->is_there = c->is_there && is_well && !is_failed;
        if (err->code == GX_OK && !is_well) {
            *err = late;
            calls->culprit = k;
        }
    }
    for (int k = 0; k < calls->count; k++) {
        if (gx_devcall_is_open(calls->on[k])) {
            gx_devcall_give(calls->on[k]);
        }
    }
}

bool gx_device_goes_on(gx_run *run, gx_fleet *fleet, int culprit, const gx_err *err,
                       uint64_t *avoided)
{
    gx_accel *accel = fleet->accel[culprit];
    if (err->code != GX_UNSUPPORTED && gx_fleet_goes_on(run->ctx, fleet, culprit, err, avoided)) {
        return true;
    }
    if (gx_fleet_has(run->ctx, accel)) {
        *avoided |= (uint64_t)1 << (accel->ordinal % 64);
        gx_device_give_up(run, accel, err);
    }
    return false;
}

bool gx_devcalls_go_on(const gx_devcalls *calls, const gx_err *err, uint64_t *avoided)
{
    gx_fleet fleet = {.count = calls->count};
    for (int k = 0; k < calls->count; k++) {
        fleet.accel[k] = calls->on[k]->accel;
    }
    return gx_device_goes_on(calls->on[0]->run, &fleet, calls->culprit, err, avoided);
}
