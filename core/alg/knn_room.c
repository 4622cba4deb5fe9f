/*
** A search on a device: how much of it fits there, how long it takes, and whether it is worth it.
**
** Predicted from the device's rates: copies, a product of E with the batch, going through what that
** gave.  A copy of E that one call does not pay is owed: when what the device would have saved on
** this matrix comes to the copy, the next call makes it.
*/
#include "knn_device.h"

#include "../run/call.h"

#include <math.h>

/* Queries of a batch at most; bytes of a panel: the last one's search follows the last copy. */
enum { BATCH_MOST = 1 << 16 };
static const int64_t PANEL_LEAST = 32 << 20, PANEL_MOST = 256 << 20;

/* Marks, copies of a few bytes, waiting: beside the launches. */
static const double DEVICE_S = 40e-6;

/* Sums of magnitudes are a loop of ours, products are tuned. */
static const double APART_COST = 5;

// Sizes -------------------------------------------------------------------------------------------

static size_t rounded(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

size_t gx_knn_rows_bytes(const gx_knn_device *d, int64_t rows)
{
    return (size_t)(rows * d->s->args->E->cols) * gx_number_bytes(d->s->dtype);
}

int64_t gx_knn_turns(int64_t n)
{
    return gx_ceil_div(3 * n + 2 * GX_KNN_QUERIES, 3 * GX_KNN_QUERIES);
}

int64_t gx_knn_each(int64_t n)
{
    const int64_t STEP = 128; // of products
    int64_t each = gx_ceil_div(gx_ceil_div(3 * n, 3 * gx_knn_turns(n) - 2), STEP) * STEP;
    return n <= GX_KNN_QUERIES ? GX_KNN_QUERIES : gx_min(each, GX_KNN_QUERIES);
}

/* Where the pieces of a batch lie. */
size_t gx_knn_lay_out(gx_knn_device *d, int64_t n)
{
    size_t k = (size_t)d->s->args->E->cols, es = gx_number_bytes(d->s->dtype), q = (size_t)n;
    size_t entries = gx_knn_is_listed(d) ? 0 : q * (size_t)d->s->out->count;
    bool has_b = d->s->dtype != GX_F64 || gx_knn_is_shifted(d->s);
    size_t bytes[GX_KNN_PIECES] = {[GX_KNN_QUERY] = q * k * sizeof(double),
                                   [GX_KNN_SQUARE] = q * sizeof(double),
                                   [GX_KNN_LENGTH] = q * sizeof(double),
                                   [GX_KNN_SHIFT] = gx_knn_is_shifted(d->s) ? k * es : 0,
                                   [GX_KNN_PLAIN] = gx_knn_are_plain(d) ? q * k * es : 0,
                                   [GX_KNN_B] = has_b && !gx_knn_is_listed(d) ? q * k * es : 0,
                                   [GX_KNN_MERIT] = entries * sizeof(double),
                                   [GX_KNN_INDEX] = entries * sizeof(int64_t)};
    int64_t groups = gx_ceil_div(n, gx_knn_each(n));
    bytes[GX_KNN_OUTCOME] = groups > 1 ? (size_t)groups * GX_KNN_CALLS * sizeof(int32_t) : 0;
    size_t used = 0;
    for (int p = 0; p < GX_KNN_PIECES; p++) {
        d->at[p] = used;
        used += rounded(bytes[p]);
    }
    return used;
}

/* What GX_NEAREST is told of m rows and n queries; no operands. */
static gx_args call_of(const gx_knn_device *d, gx_nearest *w, int64_t m, int64_t n)
{
    static const char there = 0;
    *w = (gx_nearest){.metric = d->s->args->metric,
                      .count = d->s->out->count,
                      .shift = gx_knn_is_shifted(d->s) ? &there : NULL};
    return (gx_args){
        .m = m, .n = gx_min(n, GX_KNN_QUERIES), .k = d->s->args->E->cols, .nearest = w};
}

size_t gx_knn_work_bytes(const gx_knn_device *d, int64_t n)
{
    gx_nearest w;
    gx_args args = call_of(d, &w, d->height, n);
    return gx_knn_is_listed(d)
               ? 0
               : d->accel->backend->workspace(d->accel->dev, GX_NEAREST, d->s->dtype, &args);
}

size_t gx_knn_pairs_bytes(const gx_knn_device *d)
{
    return gx_knn_is_listed(d) ? (size_t)GX_KNN_PAIRS * 3 * sizeof(double) : 0;
}

/* Beside E. */
static size_t rest_bytes(gx_knn_device *d, int64_t n)
{
    return gx_pool_rounded(gx_knn_lay_out(d, n)) + gx_pool_rounded(gx_knn_work_bytes(d, n)) +
           gx_pool_rounded(gx_knn_pairs_bytes(d));
}

/* Panels of whole tiles; false: there is no room for two of one tile. */
static bool choose_panels(gx_knn_device *d, size_t room)
{
    const gx_mat *E = d->s->args->E;
    int64_t row = gx_max(1, (int64_t)gx_knn_rows_bytes(d, 1)),
            tile = gx_max(1, gx_min(E->tile_rows, d->height));
    int64_t bytes = gx_max(PANEL_LEAST, gx_min(PANEL_MOST, row * d->height / 16));
    d->is_whole = gx_pool_rounded(gx_knn_rows_bytes(d, d->height)) <= room;
    bytes =
        gx_min(bytes, d->is_whole ? (int64_t)(room / 8)
                                  : (int64_t)(room / GX_KNN_RING / 9 * 8)); // as the pool rounds
    d->rows = gx_min(d->height, gx_max(1, bytes / row / tile) * tile);
    d->panels = gx_ceil_div(d->height, d->rows);
    return d->is_whole || (!gx_knn_is_listed(d) &&
                           GX_KNN_RING * gx_pool_rounded(gx_knn_rows_bytes(d, d->rows)) <= room);
}

/* Batches, of so many queries at most, and panels within the device's memory and the host's. */
static bool choose(gx_knn_device *d, int64_t most)
{
    size_t host = gx_mem_available(d->run->ctx->mem);
    int64_t all = d->s->out->queries;
    size_t each = (size_t)(d->s->args->E->cols + 4) * 2 * sizeof(double) +
                  (gx_knn_is_listed(d) ? (size_t)d->s->args->C->cols * 4 * sizeof(double) : 0);
    for (d->batch = gx_min(all, most);; d->batch = gx_ceil_div(d->batch, 2)) {
        d->s->plan.is_few = d->batch <= GX_KNN_FEW;
        size_t rest = rest_bytes(d, d->batch);
        bool fits = rest < d->limit / 2 && (size_t)d->batch * each < host / 4 * 3;
        if (fits && choose_panels(d, d->limit - rest)) {
            break;
        }
        if (d->batch <= 1) {
            return false;
        }
    }
    d->batches = gx_ceil_div(all, d->batch);
    d->s->plan.batch = d->batch;
    return true;
}

bool gx_knn_key(const gx_knn_device *d, gx_block_key *key)
{
    const gx_mat *E = d->s->args->E;
    *key = (gx_block_key){
        .file = d->stamp, .i0 = d->first, .m = d->height, .n = E->cols, .dtype = d->s->dtype};
    if (d->stamp != 0) {
        key->id = E->meta.id;
        key->generation = E->meta.generation;
    }
    return d->stamp != 0;
}

// Whether -----------------------------------------------------------------------------------------

/* Seconds of kernels for all queries. */
static double kernel_seconds(const gx_knn_device *d)
{
    const gx_mat *E = d->s->args->E;
    const gx_device_profile *device = &d->accel->profile;
    double n = (double)d->s->out->queries, es = (double)gx_number_bytes(d->s->dtype);
    gx_args product = {.m = d->height, .n = d->batch, .k = E->cols};
    if (gx_knn_is_listed(d)) { // a row's numbers are as many columns' sectors
        double sectors = 8 * es * n * (double)d->s->args->C->cols * (double)E->cols;
        return sectors / device->sweep_bytes_per_s + device->wait_s;
    }
    double one = gx_profile_device_kernel(device, GX_GEMM, d->s->dtype, &product);
    bool is_slow = d->s->args->metric == GX_METRIC_ABSOLUTE && d->batch > GX_KNN_FEW;
    double looked_at = 2 * (double)d->height * n * es +
                       (double)d->batches * (double)gx_knn_rows_bytes(d, d->height);
    return one * (double)d->batches * (is_slow ? APART_COST : 1) +
           looked_at / device->sweep_bytes_per_s + device->wait_s;
}

/* is_there: E is in the device's memory. */
static void foresee(gx_knn_device *d, bool is_there, gx_cost *cost, gx_terms *terms)
{
    const gx_mat *E = d->s->args->E, *Q = d->s->args->Q;
    const gx_device_profile *device = &d->accel->profile;
    double n = (double)d->s->out->queries, stored = (double)gx_dtype_bytes(E->dtype);
    double times = d->is_whole ? 1 : (double)d->batches;
    double e = is_there ? 0 : times * (double)gx_knn_rows_bytes(d, d->height);
    double batch = (double)gx_knn_lay_out(d, d->batch);
    if (gx_knn_is_made_there(d)) { // the doubles, and with a shift b
        batch -= (double)d->at[GX_KNN_SQUARE];
        batch -= gx_knn_are_plain(d) ? (double)(d->at[GX_KNN_MERIT] - d->at[GX_KNN_B]) : 0;
    }
    gx_growth growth = {0};
    gx_nearest w = {.metric = d->s->args->metric};
    gx_args all = {.m = d->height, .n = d->s->out->queries, .k = E->cols, .nearest = &w};
    *cost = (gx_cost){.flops = gx_kernel_flops(GX_NEAREST, d->s->dtype, &all),
                      .bytes_up = e + (double)d->batches * batch,
                      .bytes_down = n * (double)d->s->out->count * 2 * sizeof(double),
                      .loads = is_there ? 0 : d->panels,
                      .calls = 4 * d->batches * d->panels};
    cost->bytes_read = gx_mat_base_stored(E) == NULL || is_there
                           ? 0
                           : times * (double)d->height * (double)E->cols * stored;
    if (gx_mat_base_stored(Q) != NULL) {
        cost->bytes_read += n * (double)Q->cols * (double)gx_dtype_bytes(Q->dtype);
    }
    cost->slots = d->is_whole ? 1 : GX_KNN_RING;
    cost->slot_bytes = gx_knn_rows_bytes(d, d->is_whole ? d->height : d->rows);
    double kernels = kernel_seconds(d);
    double read = cost->bytes_read / gx_predict_read_rate(d->run, 0);
    double others = fmax(read, cost->bytes_up / device->upload_bytes_per_s);
    // The panels' kernels run beside the copies; the last panel's come after them.
    cost->compute_s = is_there ? kernels : fmax(kernels / (double)d->panels, kernels - others);
    gx_predict_cost(d->run, d->accel, cost, d->s->dtype, 1, terms);
    if (!is_there) {
        gx_pool_foresee(d->accel->pool, cost->slot_bytes, cost->slots, &growth);
        terms->start_s += gx_predict_helpers_s(d->run, cost->bytes_read);
    }
    terms->once_s =
        growth.device_buffers * device->alloc_s + growth.device_bytes / device->alloc_bytes_per_s;
    terms->start_s += terms->once_s + DEVICE_S;
    terms->model_s += terms->start_s;
    terms->seconds = terms->model_s * terms->factor;
}

/* What the device would save on this matrix, with what it would have saved before. */
static double owe(gx_knn_device *d, double saving)
{
    const gx_mat *E = d->s->args->E;
    gx_block_key key;
    return !gx_knn_key(d, &key)
               ? saving
               : gx_place_owe_copy(d->run, d->stamp, E->meta.id, E->meta.generation, saving);
}

static bool is_worth_it(gx_knn_device *d, const gx_terms *host, gx_terms *terms)
{
    gx_cost cost;
    foresee(d, d->is_there, &cost, terms);
    double now = terms->seconds - terms->factor * terms->once_s;
    if (d->run->ctx->config.number[GX_SET_BACKEND] == GX_BACKEND_CUDA || now < host->seconds) {
        return true;
    }
    if (d->is_there || !d->is_whole) {
        return false;
    }
    gx_terms later;
    foresee(d, true, &cost, &later);
    return owe(d, host->seconds - later.seconds) >= now - later.seconds;
}

/* Does the device do such a search at all?  Else *why, where there is a reason to be told. */
static bool is_offered(const gx_knn_search *s, const gx_accel *accel, const char **why)
{
    gx_kernel_id kernel = s->args->C != NULL ? GX_MERIT : GX_NEAREST;
    *why = s->args->is_binary ? "hamming is for the host alone"
           : s->out->count > GX_NEAREST_MOST && s->args->C == NULL
               ? "lists of more than 1024 neighbours are for the host alone"
           : !gx_accel_offers(accel, kernel, s->dtype) ? "the device has no kernel for neighbours"
                                                       : NULL;
    return *why == NULL && s->args->E->rows > 0 && s->args->E->rows < INT32_MAX / 2 &&
           s->args->E->cols > 0;
}

/* Is E there?  Then nothing is asked of the device where the pool has all that is needed. */
static bool find_room(gx_knn_device *d, int64_t most)
{
    const gx_mat *E = d->s->args->E;
    gx_block_key key;
    gx_err err = {0};
    d->stamp = E->kind == GX_MAT_STORED ? gx_store_stamp(d->run->ctx->store, E->meta.schema) : 0;
    d->is_there =
        gx_knn_key(d, &key) && gx_pool_holds(d->accel->pool, &key, gx_knn_rows_bytes(d, d->height));
    if (d->is_there) {
        gx_growth growth = {0};
        d->limit = SIZE_MAX / 4;
        if (choose(d, most)) {
            gx_pool_foresee(d->accel->pool, gx_knn_lay_out(d, d->batch), 1, &growth);
            gx_pool_foresee(d->accel->pool, gx_knn_work_bytes(d, d->batch), !gx_knn_is_listed(d),
                            &growth);
            gx_pool_foresee(d->accel->pool, gx_knn_pairs_bytes(d), gx_knn_is_listed(d), &growth);
            if (growth.device_bytes == 0) {
                return true;
            }
        }
    }
    if (gx_accel_limit(d->run->ctx, d->accel, &d->limit, &err) != GX_OK) {
        gx_accel_leave_out(d->run->ctx, d->accel, &err);
        return false;
    }
    if (!choose(d, most)) {
        return false;
    }
    d->is_there = d->is_there && d->is_whole;
    return true;
}

/* The device alone: has it room, and is it worth it? */
static bool prepare_alone(gx_knn_device *d, const gx_terms *host, gx_terms *terms)
{
    const char *why = NULL;
    if (!is_offered(d->s, d->accel, &why)) {
        if (why != NULL && d->run->ctx->config.number[GX_SET_BACKEND] == GX_BACKEND_CUDA) {
            gx_stats_note(&d->run->ctx->stats, "computed on the CPU: %s", why);
        }
        return false;
    }
    bool has_room = find_room(d, BATCH_MOST);
    if (!has_room && gx_fleet_has(d->run->ctx, d->accel)) {
        gx_stats_note(
            &d->run->ctx->stats,
            "computed on the CPU: %zu bytes of device memory do not hold rows and queries",
            d->limit);
    }
    return has_room && is_worth_it(d, host, terms);
}

// Several devices ---------------------------------------------------------------------------------

static gx_knn_device of_device(gx_knn_search *s, gx_accel *accel)
{
    return (gx_knn_device){.s = s, .run = s->run, .accel = accel, .height = s->args->E->rows};
}

/* Whole tiles of rows to each of the fleet's first devices, by their rates. */
static void deal_rows(gx_knn_group *g, gx_knn_search *s, const gx_fleet *fleet, int count)
{
    const int64_t EDGE = 4096;
    int64_t rows = s->args->E->rows, tile = gx_max(1, gx_min(s->args->E->tile_rows, rows));
    double rate[GX_DEVICES_MOST], all = 0, so_far = 0;
    int64_t at = 0;
    *g = (gx_knn_group){.parts = 0};
    for (int k = 0; k < count; k++) {
        rate[k] = gx_profile_device_flops(&fleet->accel[k]->profile, s->dtype, EDGE);
        all += rate[k];
    }
    for (int k = 0; k < count; k++) {
        so_far += rate[k];
        int64_t end = (int64_t)llround((double)gx_ceil_div(rows, tile) * so_far / all) * tile;
        end = k + 1 == count ? rows : gx_min(end, rows);
        if (end > at) {
            gx_knn_device *d = &g->part[g->parts++];
            *d = of_device(s, fleet->accel[k]);
            d->first = at;
            d->height = end - at;
            at = end;
        }
    }
}

/* Room for all rows of each, and batches of one size; false: there is not. */
static bool find_room_for_all(gx_knn_group *g)
{
    int64_t most = BATCH_MOST;
    for (int k = 0; k < g->parts;) {
        gx_knn_device *d = &g->part[k];
        if (!find_room(d, most) || !d->is_whole) {
            return false;
        }
        bool is_smaller = k > 0 && d->batch < g->part[0].batch;
        most = gx_min(most, d->batch);
        k = is_smaller ? 0 : k + 1;
    }
    return g->parts > 1;
}

/* Seconds of the kernels of the slowest, and what the others cost. */
static double group_seconds(const gx_knn_group *g)
{
    double longest = 0;
    for (int k = 0; k < g->parts; k++) {
        longest = fmax(longest, kernel_seconds(&g->part[k]));
    }
    return longest + DEVICE_S * (g->parts - 1);
}

/* Is the group faster than one device, and does that come to the copies that it wants? */
static bool is_better(gx_knn_device *alone, double alone_s, const gx_knn_group *g)
{
    double saving = alone_s - group_seconds(g), missing = 0;
    for (int k = 0; k < g->parts; k++) {
        missing += g->part[k].is_there ? 0 : (double)gx_knn_rows_bytes(alone, g->part[k].height);
    }
    if (saving <= 0 || missing == 0 || !alone->is_there) {
        return saving > 0;
    }
    return owe(alone, saving) >= missing / alone->accel->profile.upload_bytes_per_s;
}

/* The group of one becomes one of several, where they are listed or that is better. */
static void widen(gx_knn_group *g, const gx_terms *alone_terms, uint64_t avoided)
{
    gx_knn_device alone = g->part[0];
    gx_run *run = alone.run;
    gx_knn_plan plan = alone.s->plan;
    gx_fleet all;
    bool is_listed = false, is_wide = false;
    gx_fleet_single(&all, alone.accel, alone.limit);
    if (gx_knn_is_listed(&alone) ||
        !gx_place_gather(run, &all, alone_terms->seconds, false, &is_listed)) {
        return;
    }
    gx_fleet_avoid(&all, avoided);
    double alone_s = kernel_seconds(&alone), least = INFINITY;
    int count = is_listed ? all.count : 2;
    for (bool is_last = all.count < 2; !is_last; count *= 2) {
        gx_knn_group more;
        is_last = count >= all.count;
        deal_rows(&more, alone.s, &all, (int)gx_min(count, all.count));
        double seconds = find_room_for_all(&more) ? group_seconds(&more) : INFINITY;
        if (seconds < least && (is_listed || is_better(&alone, alone_s, &more))) {
            *g = more;
            least = seconds;
            plan = alone.s->plan;
            is_wide = true;
        }
    }
    alone.s->plan = plan;
    run->is_irregular |= is_wide; // what was predicted is one device's
}

bool gx_knn_prepare(gx_knn_group *g, gx_knn_search *s, const gx_terms *host, uint64_t avoided,
                    gx_terms *terms)
{
    gx_fleet open = {.count = 0};
    gx_accel *accel = gx_place_for(s->run, host->seconds, NULL);
    for (; accel != NULL && open.count < GX_DEVICES_MOST; accel = accel->next) {
        open.accel[open.count++] = accel;
    }
    gx_fleet_avoid(&open, avoided);
    if (open.count == 0) {
        return false;
    }
    *g = (gx_knn_group){.parts = 1};
    g->part[0] = of_device(s, open.accel[0]);
    if (!prepare_alone(&g->part[0], host, terms)) {
        return false;
    }
    widen(g, terms, avoided);
    return gx_ok(s->run);
}

void gx_knn_foresee_device(gx_knn_search *s, gx_knn_plan *plan, gx_cost *cost, gx_terms *terms)
{
    gx_knn_device d = of_device(s, s->run->target);
    const char *why;
    *terms = (gx_terms){0};
    if (is_offered(s, d.accel, &why) && s->out->queries > 0 && find_room(&d, BATCH_MOST)) {
        foresee(&d, d.is_there, cost, terms);
        *plan = s->plan;
        plan->strip = d.is_whole ? s->args->E->rows : d.rows;
        plan->batches = d.batches;
    }
}
