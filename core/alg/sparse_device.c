/*
** A sparse matrix on a device: see sparse_device.h.
**
** How panels get there: sparse_bring.c.
**
**   whole   one buffer: row starts of all rows, indexes, values.  The starts are counted on from
**           panel to panel before they go up, so that a product is one launch however many panels
**           there are.  A stored matrix is kept in the pool under the key that other blocks have,
**           and found there while neither it nor the file has changed.
**           Where a gathered product follows, each panel is multiplied as it is, behind its copy:
**           it goes up with a second set of starts, its own.
**   ring    panels as they lie, in any order, through two buffers, each multiplied when it is
**           there
**
** Starts are numbers of 32 bits: a whole of more than 2^32 entries, 50 GB and more, goes by panels.
*/
#include "sparse_int.h"

#include "../run/call.h"

#include <math.h>

// Sizes -------------------------------------------------------------------------------------------

size_t gx_sparse_device_bytes(const gx_sparse_device *d)
{
    const gx_mat *S = d->S;
    return d->is_whole
               ? gx_sparse_lay_out(S, d->dtype, S->rows, gx_sparse_entries(S)).bytes
               : gx_sparse_lay_out(S, d->dtype, gx_sparse_most_rows(S), gx_sparse_most_entries(S))
                     .bytes;
}

static size_t work_bytes(const gx_sparse_device *d, int64_t lines)
{
    const gx_backend *backend = d->accel->backend;
    const gx_mat *S = d->S;
    gx_csr sizes = {.dtype = d->dtype,
                    .rows = d->is_whole ? S->rows : gx_sparse_most_rows(S),
                    .cols = S->cols,
                    .entries = d->is_whole ? gx_sparse_entries(S) : gx_sparse_most_entries(S),
                    .index_bytes = gx_csr_index_bytes(S->cols)};
    gx_args args = {
        .transa = GX_TRANS, .m = lines, .n = sizes.rows, .k = S->cols, .sparse = &sizes};
    return backend->workspace == NULL ? 0
                                      : backend->workspace(d->accel->dev, GX_SPMM, d->dtype, &args);
}

bool gx_sparse_device_offers(const gx_accel *accel, const gx_mat *S, gx_number dtype)
{
    return gx_accel_offers(accel, GX_SPMM, dtype) && gx_accel_offers(accel, GX_TRANSPOSE, dtype) &&
           gx_accel_offers(accel, GX_FILL, dtype) && gx_sparse_pieces(S) > 0;
}

static bool key_of(const gx_sparse_device *d, gx_block_key *key)
{
    *key = (gx_block_key){.file = d->stamp, .m = d->S->rows, .n = d->S->cols, .dtype = d->dtype};
    if (d->stamp != 0) {
        key->id = d->S->meta.id;
        key->generation = d->S->meta.generation;
    }
    return d->stamp != 0;
}

/* Of a whole: the panels' own starts, which a product that follows them wants. */
static size_t own_starts_bytes(const gx_sparse_device *d)
{
    return (size_t)(d->S->rows + gx_sparse_pieces(d->S)) * sizeof(uint32_t);
}

/* S, or two panels, and what a product takes, within the limit beside others. */
static bool is_within(const gx_sparse_device *d, int64_t lines, size_t others)
{
    size_t work = work_bytes(d, lines), blocks = gx_pool_rounded(gx_sparse_device_bytes(d));
    blocks += d->is_whole ? gx_pool_rounded(own_starts_bytes(d)) : blocks;
    return work < GX_NO_WORKSPACE && blocks <= d->limit && others <= d->limit - blocks &&
           gx_pool_rounded(work) <= d->limit - blocks - others;
}

/* S is there: does the pool have all that is wanted beside it? */
static bool has_all(const gx_sparse_device *d, int64_t lines, const size_t *beside, int count)
{
    gx_growth growth = {0};
    size_t work = work_bytes(d, lines);
    gx_pool_foresee(d->accel->pool, work, work > 0 && work < GX_NO_WORKSPACE, &growth);
    for (int k = 0; k < count; k++) {
        gx_pool_foresee(d->accel->pool, beside[k], beside[k] > 0, &growth);
    }
    return d->is_there && work < GX_NO_WORKSPACE && growth.device_bytes == 0;
}

bool gx_sparse_device_fit(gx_sparse_device *d, int64_t lines, const size_t *beside, int count,
                          bool is_whole_only)
{
    gx_block_key key;
    gx_err err = {0};
    gx_ctx *ctx = d->run->ctx;
    size_t others = 0;
    d->stamp = d->S->kind == GX_MAT_STORED ? gx_store_stamp(ctx->store, d->S->meta.schema) : 0;
    d->is_whole = gx_sparse_entries(d->S) < (int64_t)UINT32_MAX;
    d->is_there = d->is_whole && key_of(d, &key) &&
                  gx_pool_holds(d->accel->pool, &key, gx_sparse_device_bytes(d));
    if (has_all(d, lines, beside, count)) {
        d->limit = SIZE_MAX / 4;
        return true;
    }
    if (gx_accel_limit(ctx, d->accel, &d->limit, &err) != GX_OK) {
        gx_accel_fail(ctx, &err);
        return false;
    }
    for (int k = 0; k < count; k++) {
        others += gx_pool_rounded(beside[k]);
    }
    if (d->is_whole && is_within(d, lines, others)) {
        return true;
    }
    d->is_whole = d->is_there = false;
    return !is_whole_only && is_within(d, lines, others);
}

// The whole ---------------------------------------------------------------------------------------

static gx_code take(gx_sparse_device *d, gx_sparse_hold *hold, size_t bytes, gx_err *err)
{
    hold->bytes = bytes;
    return bytes == 0 || hold->data != NULL
               ? GX_OK
               : gx_pool_take(d->accel->pool, bytes, d->limit, &hold->data, err);
}

gx_code gx_sparse_device_begin(gx_sparse_device *d, int64_t lines, gx_err *err)
{
    const gx_backend *backend = d->accel->backend;
    size_t bytes = gx_sparse_device_bytes(d), work = work_bytes(d, lines);
    gx_block_key key;
    if (work >= GX_NO_WORKSPACE) {
        return gx_fail(err, GX_DEVICE, "%s does not say how much memory a kernel needs",
                       d->accel->info.name);
    }
    d->is_there = false;
    if (d->is_whole && key_of(d, &key)) {
        d->block[0] = (gx_sparse_hold){gx_pool_claim(d->accel->pool, &key, bytes), bytes};
        d->is_there = d->block[0].data != NULL;
        gx_stats_add(&d->run->ctx->stats, GX_STAT_DEVICE_HITS, d->is_there);
    }
    GX_TRY(take(d, &d->work, work, err));
    GX_TRY(take(d, &d->block[0], bytes, err));
    d->csr = gx_sparse_panel_at(d, d->block[0].data, d->S->rows, gx_sparse_entries(d->S));
    if (d->is_whole) {
        return GX_OK;
    }
    GX_TRY(take(d, &d->block[1], bytes, err));
    for (int k = 0; k < GX_SPARSE_RING; k++) {
        GX_TRY(backend->mark_create(d->accel->dev, &d->used[k], err));
    }
    return GX_OK;
}

gx_code gx_sparse_device_bring(gx_sparse_device *d, const gx_sparse_follow *follow, gx_err *err)
{
    if (!d->is_whole || d->is_there) {
        return GX_OK;
    }
    if (follow != NULL) { // each panel's own starts
        GX_TRY(take(d, &d->block[1], own_starts_bytes(d), err));
    }
    GX_TRY(gx_sparse_load(d, NULL, follow, err));
    d->is_there = gx_ok(d->run);
    return GX_OK;
}

gx_code gx_sparse_device_multiply(gx_sparse_device *d, const gx_sparse_product *product,
                                  gx_err *err)
{
    return d->is_whole ? gx_sparse_call(d, &d->csr, product, 0, err)
                       : gx_sparse_load(d, product, NULL, err);
}

/* Everything back to the pool, where a sound S is kept. */
static void give_back(gx_sparse_device *d, bool is_sound)
{
    gx_pool *pool = d->accel->pool;
    gx_block_key key;
    if (is_sound && d->is_there && key_of(d, &key)) {
        gx_pool_keep(pool, &key, d->block[0].data, d->block[0].bytes);
    } else {
        gx_pool_give(pool, d->block[0].data, d->block[0].bytes);
    }
    gx_pool_give(pool, d->block[1].data, d->block[1].bytes);
    gx_pool_give(pool, d->work.data, d->work.bytes);
    for (int k = 0; k < GX_SPARSE_RING; k++) {
        d->accel->backend->mark_free(d->accel->dev, d->used[k]);
        d->block[k] = (gx_sparse_hold){NULL, 0};
        d->used[k] = NULL;
    }
    d->work = (gx_sparse_hold){NULL, 0};
    d->is_there = false;
}

bool gx_sparse_device_finish(gx_sparse_device *d, void *const *buffers, const size_t *bytes,
                             int count, gx_code code, const gx_err *err)
{
    gx_run *run = d->run;
    bool is_well = code == GX_OK && gx_ok(run);
    if (gx_accel_opened(run->ctx) == d->accel) { // a progress report may have lost it
        gx_err late = {0};
        gx_code settled = is_well ? GX_OK : gx_device_settle(d->accel, &late);
        for (int k = 0; k < count; k++) {
            gx_pool_give(d->accel->pool, buffers[k], bytes[k]);
        }
        give_back(d, settled == GX_OK && code != GX_DEVICE);
        if (code != GX_OK && gx_ok(run)) {
            gx_device_give_up(run, d->accel, err);
        }
    }
    bool is_done = code == GX_OK || !gx_ok(run);
    gx_stats_add(&run->ctx->stats, GX_STAT_DEVICE_CALLS, is_done);
    return is_done;
}

// Whether -----------------------------------------------------------------------------------------

/*
** Bytes that pass through memory: S, lines of both operands, lines that entries name, half of which
** a cache has.
*/
static double traffic(const gx_mat *S, gx_number dtype, int64_t lines)
{
    double line = (double)lines * (double)gx_number_bytes(dtype);
    return (double)gx_sparse_bytes(S) + line * (double)(S->rows + S->cols) +
           line * (double)gx_sparse_entries(S) / 2;
}

double gx_sparse_host_seconds(gx_run *run, const gx_mat *S, gx_number dtype, int64_t lines)
{
    const double ENTRY_S = 1.5e-9, PASS_S = 20e-6; // of a thread: an entry of one line; a pass
    int64_t threads = run->ctx->config.number[GX_SET_THREADS];
    double rate = gx_profile_sweep_rate(gx_profile_get(run->ctx), (int)threads);
    double entries = (double)gx_sparse_entries(S) * ENTRY_S;
    return PASS_S + fmax(traffic(S, dtype, lines) / rate,
                         entries / (double)gx_max(1, gx_min(threads, gx_sparse_pieces(S))));
}

double gx_sparse_device_seconds(const gx_sparse_device *d, int64_t lines)
{
    const gx_device_profile *device = &d->accel->profile;
    return traffic(d->S, d->dtype, lines) / device->sweep_bytes_per_s + 2 * device->launch_s;
}

bool gx_sparse_device_is_worth_it(gx_sparse_device *d, double host_s, double now_s, double later_s)
{
    if (d->run->ctx->config.number[GX_SET_BACKEND] == GX_BACKEND_CUDA || now_s < host_s) {
        return true;
    }
    gx_block_key key;
    bool is_kept = d->is_whole && key_of(d, &key);
    return is_kept && !d->is_there &&
           gx_place_owe_copy(d->run, d->stamp, d->S->meta.id, d->S->meta.generation,
                             host_s - later_s) >= now_s - later_s;
}
