/*
** Copies in the device's memory: see device_memory.h.
**
** A stored matrix is looked for among the blocks that earlier calls left there, as one block, and
** left there again.  Large matrices go up and down through page-locked buffers (device_copy.h),
** which waits for all queues; small ones by way of one such buffer that is filled from the front,
** without a wait until it is full, and that small results come down by.
*/
#include "device_memory.h"

#include "../exec/load.h"

#include <assert.h>
#include <string.h>

enum { STAGE_BYTES = 256 << 10, SMALL_MOST = 32 << 10 };

bool gx_device_lost(gx_exec *x, const gx_err *err)
{
    if (x->fault.code == GX_OK) {
        x->fault = *err;
        x->culprit = (int)(x->on - x->lane);
    }
    gx_run_failf(x->run, GX_DEVICE, "%s", err->text);
    return false;
}

/* The buffer of small copies is there, and room for one number behind it. */
static bool has_stage(gx_exec *x)
{
    gx_err err = {.code = GX_OK};
    gx_devcall *call = &x->on->call;
    size_t bytes = STAGE_BYTES + gx_whole_lines(sizeof(int64_t));
    return gx_devcall_stage(call, &call->stage, bytes, &err) == GX_OK ||
           gx_run_fail(x->run, &err) == GX_OK;
}

int64_t *gx_device_refused(gx_exec *x)
{
    gx_lane *on = x->on;
    gx_accel *accel = on->call.accel;
    gx_err err = {.code = GX_OK};
    if (!gx_ok(x->run) || on->refused != NULL || !has_stage(x)) {
        return gx_ok(x->run) ? on->refused : NULL;
    }
    gx_args zero = {.m = 1, .n = 1, .ldc = 1};
    gx_code code = gx_pool_take(accel->pool, sizeof(int64_t), on->call.limit, &on->refused, &err);
    zero.c = on->refused = code == GX_OK ? on->refused : NULL;
    on->is_under_way = true;
    if (code != GX_OK || gx_devcall_kernel(&on->call, GX_FILL, GX_F64, &zero, &err) != GX_OK) {
        gx_device_lost(x, &err);
        return NULL;
    }
    return on->refused;
}

/* The number that kernels leave comes behind them. */
static bool ask_refused(gx_exec *x, int64_t **answer)
{
    gx_lane *on = x->on;
    const gx_accel *accel = on->call.accel;
    gx_err err = {.code = GX_OK};
    size_t bytes = sizeof **answer;
    if (on->refused == NULL) {
        return true;
    }
    *answer = (int64_t *)(void *)((char *)on->call.stage.data + STAGE_BYTES);
    gx_stats_add(&x->run->ctx->stats, GX_STAT_DOWNLOADED, (int64_t)bytes);
    return accel->backend->download(accel->dev, accel->run, *answer, bytes, on->refused, bytes,
                                    bytes, 1, &err) == GX_OK ||
           gx_device_lost(x, &err);
}

bool gx_device_wait(gx_exec *x)
{
    gx_err err = {.code = GX_OK};
    int64_t *refused = NULL;
    if (!gx_ok(x->run) || !ask_refused(x, &refused)) {
        return false;
    }
    gx_lane *on = x->on;
    on->staged = 0;
    on->is_under_way = false;
    if (on->call.accel->backend->queue_wait(on->call.accel->dev, on->call.accel->run, &err) !=
        GX_OK) {
        return gx_device_lost(x, &err);
    }
    if (on->record != NULL) {
        on->call.accel->backend->record_free(on->call.accel->dev, on->record);
        on->record = NULL;
    }
    if (refused != NULL && *refused != 0) {
        gx_fail(&err, GX_ARG, "an operand is no matrix of grids");
        x->is_refused = true;
        return gx_device_lost(x, &err);
    }
    return true;
}

bool gx_device_wait_all(gx_exec *x)
{
    gx_lane *now = x->on;
    bool is_good = gx_ok(x->run);
    for (x->on = x->lane; x->on < x->lane + x->lanes && is_good; x->on++) {
        is_good = !x->on->is_under_way || gx_device_wait(x);
    }
    x->on = now;
    return is_good;
}

static size_t bytes_of(const gx_type *type)
{
    size_t bytes = 0;
    gx_matrix_bytes(type->rows, type->cols, type->dtype, &bytes);
    return bytes;
}

bool gx_device_val_make(gx_exec *x, gx_val *val)
{
    gx_err err = {.code = GX_OK};
    if (!gx_ok(x->run)) {
        return false;
    }
    val->device_bytes = bytes_of(&val->type);
    val->device_bytes = val->device_bytes == 0 ? 1 : val->device_bytes;
    val->lane = (int)(x->on - x->lane);
    if (gx_pool_take(x->on->call.accel->pool, val->device_bytes, x->on->call.limit, &val->device,
                     &err) != GX_OK) {
        val->device = NULL;
        return gx_device_lost(x, &err);
    }
    return true;
}

// Sending -----------------------------------------------------------------------------------------

gx_block_key gx_device_key_of(gx_exec *x, const gx_mat *mat, gx_number dtype)
{
    bool is_same = mat != NULL && mat->number == dtype;
    bool is_share = is_same && mat->kind == GX_MAT_VIEW && mat->trans == GX_NO_TRANS;
    const gx_mat *base = !is_same ? NULL : is_share ? mat->base : mat;
    gx_block_key key = gx_devcall_key(x->run, base, 0, is_same ? mat->rows : 0, dtype);
    if (is_share && key.file != 0) {
        key.i0 = mat->row0;
        key.j0 = mat->col0;
        key.n = mat->cols;
    }
    return key;
}

static bool send_small(gx_exec *x, gx_val *val, const void *data)
{
    gx_accel *accel = x->on->call.accel;
    gx_err err = {.code = GX_OK};
    size_t bytes = bytes_of(&val->type), room = gx_whole_lines(bytes);
    if (!has_stage(x)) {
        return false;
    }
    if (x->on->staged + room > STAGE_BYTES && !gx_device_wait(x)) {
        return false;
    }
    char *at = (char *)x->on->call.stage.data + x->on->staged;
    memcpy(at, data, bytes);
    x->on->staged += room;
    x->on->is_under_way = true;
    gx_stats_add(&x->run->ctx->stats, GX_STAT_UPLOADED, (int64_t)bytes);
    return accel->backend->upload(accel->dev, accel->run, val->device, bytes, at, bytes, bytes, 1,
                                  &err) == GX_OK ||
           gx_device_lost(x, &err);
}

/* Through pieces: everything before it is done first. */
static bool send_large(gx_exec *x, gx_val *val)
{
    gx_err err = {.code = GX_OK};
    const gx_type *t = &val->type;
    gx_code code;
    if (!gx_device_wait(x)) {
        return false;
    }
    if (val->data != NULL) {
        code = gx_device_put(x->run, x->on->call.accel, t->dtype, t->rows, t->cols, val->data,
                             gx_max(1, t->rows), val->device, &err);
    } else {
        gx_mat space;
        const gx_mat *mat = val->mat;
        if (val->sink != NULL) {
            gx_sink_source(val->sink, "an intermediate", &space);
            mat = &space;
        }
        code = gx_device_load(x->run, x->on->call.accel, mat, t->cols, t->dtype, false, val->device,
                              &err);
    }
    return code == GX_OK ? gx_ok(x->run) : gx_device_lost(x, &err);
}

/* A block of an earlier call; false: there is none. */
static bool claim(gx_exec *x, gx_val *val)
{
    gx_block_key key = gx_device_key_of(x, val->mat, val->type.dtype);
    if (key.file == 0) {
        return false;
    }
    val->device_bytes = bytes_of(&val->type);
    val->device = gx_pool_claim(x->on->call.accel->pool, &key, val->device_bytes);
    val->lane = (int)(x->on - x->lane);
    val->key = val->device != NULL ? key : val->key;
    gx_stats_add(&x->run->ctx->stats, GX_STAT_DEVICE_HITS, val->device != NULL);
    return val->device != NULL;
}

/* The copy of a stored operand has all of it: it may be kept. */
static void name(gx_exec *x, gx_val *val)
{
    val->key = gx_device_key_of(x, val->mat, val->type.dtype);
}

static bool is_here(const gx_exec *x, const gx_val *val)
{
    return &x->lane[val->lane] == x->on;
}

bool gx_device_val_is_away(const gx_exec *x, const gx_val *val)
{
    bool is_elsewhere = val->device == NULL || !is_here(x, val);
    return gx_val_is_there(val) && is_elsewhere && val->mat == NULL && val->sink == NULL;
}

const void *gx_device_val_send(gx_exec *x, gx_val *val)
{
    if (val->device != NULL && !is_here(x, val)) {
        assert(!gx_device_val_is_away(x, val));
        gx_device_val_give(x, val); // there is another source
    }
    if (!gx_ok(x->run) || val->device != NULL) {
        return gx_ok(x->run) ? val->device : NULL;
    }
    size_t bytes = bytes_of(&val->type);
    if (claim(x, val) || !gx_device_val_make(x, val) || bytes == 0) {
        return val->device;
    }
    x->transfers++;
    bool is_value = val->mat != NULL && val->mat->kind == GX_MAT_VALUE &&
                    val->mat->number == val->type.dtype && val->mat->ld == val->mat->rows;
    const void *data = val->data != NULL ? val->data : is_value ? val->mat->data : NULL;
    bool is_sent =
        data != NULL && bytes <= SMALL_MOST ? send_small(x, val, data) : send_large(x, val);
    if (is_sent) {
        name(x, val);
    }
    return is_sent ? val->device : NULL;
}

/* Is it whole in the database, and nowhere else? */
static bool is_to_be_read(const gx_val *val)
{
    return val->device == NULL && val->data == NULL && val->sink == NULL && val->mat != NULL &&
           gx_mat_is_tiled(val->mat->kind == GX_MAT_VIEW ? val->mat->base : val->mat) &&
           bytes_of(&val->type) > 0;
}

bool gx_device_vals_send(gx_exec *x, gx_val *const *vals, int count, bool is_dealt)
{
    gx_lane *now = x->on;
    gx_accel *culprit = NULL;
    gx_device_part part[GX_DEVICE_PARTS];
    gx_val *sent[GX_DEVICE_PARTS];
    int parts = 0;
    gx_err err = {.code = GX_OK};
    for (int k = 0; k < count && parts < GX_DEVICE_PARTS && gx_ok(x->run); k++) {
        gx_val *val = vals[k];
        x->on = is_dealt ? &x->lane[k] : now;
        if (is_to_be_read(val) && !claim(x, val) && gx_device_val_make(x, val)) {
            sent[parts] = val;
            part[parts++] = (gx_device_part){.accel = x->on->call.accel,
                                             .mat = val->mat,
                                             .cols = val->type.cols,
                                             .dtype = val->type.dtype,
                                             .a = val->device};
        }
    }
    x->on = now;
    if (parts == 0 || !(is_dealt ? gx_device_wait_all(x) : gx_device_wait(x))) {
        return gx_ok(x->run);
    }
    x->transfers += parts;
    if (gx_device_load_all(x->run, part, parts, &culprit, &err) != GX_OK) {
        for (int k = 0; k < x->lanes; k++) {
            x->on = x->lane[k].call.accel == culprit ? &x->lane[k] : x->on;
        }
        gx_device_lost(x, &err);
        x->on = now;
        return false;
    }
    for (int k = 0; k < parts && gx_ok(x->run); k++) {
        name(x, sent[k]);
    }
    return gx_ok(x->run);
}

// Fetching, giving back ---------------------------------------------------------------------------

/* Behind what made it, in the same queue. */
static bool fetch_small(gx_exec *x, const gx_val *val, void *data, int64_t ld)
{
    gx_accel *accel = x->on->call.accel;
    gx_err err = {.code = GX_OK};
    const gx_type *t = &val->type;
    size_t bytes = bytes_of(t), column = (size_t)t->rows * gx_number_bytes(t->dtype);
    if (!has_stage(x) || (x->on->staged > 0 && !gx_device_wait(x))) {
        return false;
    }
    if (accel->backend->download(accel->dev, accel->run, x->on->call.stage.data, bytes, val->device,
                                 bytes, bytes, 1, &err) != GX_OK) {
        return gx_device_lost(x, &err);
    }
    gx_stats_add(&x->run->ctx->stats, GX_STAT_DOWNLOADED, (int64_t)bytes);
    if (!gx_device_wait(x)) {
        return false;
    }
    for (int64_t j = 0; j < t->cols; j++) {
        memcpy(gx_at(data, t->dtype, ld, 0, j), (char *)x->on->call.stage.data + (size_t)j * column,
               column);
    }
    return true;
}

static bool fetch(gx_exec *x, const gx_val *val, void *data, int64_t ld)
{
    gx_err err = {.code = GX_OK};
    const gx_type *t = &val->type;
    size_t bytes = bytes_of(t);
    if (!gx_ok(x->run)) {
        return false;
    }
    x->transfers++;
    if (bytes > 0 && bytes <= SMALL_MOST) {
        return fetch_small(x, val, data, ld);
    }
    if (!gx_device_wait(x)) {
        return false;
    }
    return gx_device_get(x->run, x->on->call.accel, t->dtype, t->rows, t->cols, val->device, data,
                         ld, &err) == GX_OK ||
           gx_device_lost(x, &err);
}

bool gx_device_val_fetch(gx_exec *x, const gx_val *val, void *data, int64_t ld)
{
    gx_lane *now = x->on;
    x->on = &x->lane[val->lane];
    bool is_good = val->device == NULL || fetch(x, val, data, ld);
    for (int k = 0; val->device == NULL && k < val->holds && is_good; k++) {
        const gx_val *share = val->held[k];
        x->on = &x->lane[share->lane];
        is_good = fetch(x, share, gx_at(data, val->type.dtype, ld, share->i0, share->j0), ld);
    }
    x->on = now;
    return is_good;
}

void gx_device_val_give(gx_exec *x, gx_val *val)
{
    if (val->device == NULL) {
        return;
    }
    gx_accel *accel = x->lane[val->lane].call.accel;
    if (!gx_devcall_is_open(&x->lane[val->lane].call)) {
        // it was closed, and its memory with it
    } else if (val->key.file != 0 && x->fault.code == GX_OK) {
        gx_pool_keep(accel->pool, &val->key, val->device, val->device_bytes);
    } else {
        gx_pool_give(accel->pool, val->device, val->device_bytes);
    }
    val->device = NULL;
    val->key.file = 0;
}

void gx_device_end(gx_exec *x)
{
    for (x->on = x->lane; x->on < x->lane + x->lanes; x->on++) {
        gx_lane *on = x->on;
        gx_err late = {.code = GX_OK};
        if (!gx_devcall_is_open(&on->call)) {
            continue;
        }
        if (gx_device_settle(on->call.accel, &late) != GX_OK && x->fault.code == GX_OK) {
            gx_device_lost(x, &late);
        }
        if (on->record != NULL) {
            on->call.accel->backend->record_free(on->call.accel->dev, on->record);
            on->record = NULL;
        }
        gx_pool_unstage(on->call.accel->pool, &on->call.stage);
        gx_pool_give(on->call.accel->pool, on->refused, sizeof(int64_t));
        on->refused = NULL;
    }
    x->on = x->lane;
}
