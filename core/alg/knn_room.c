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
enum { BATCH_MOST = 1 << 16, ALIGN = 256 };
static const int64_t PANEL_LEAST = 32 << 20, PANEL_MOST = 256 << 20;

/* Marks, copies of a few bytes, waiting: beside the launches. */
static const double DEVICE_S = 40e-6;

/* Sums of magnitudes are a loop of ours, products are tuned. */
static const double APART_COST = 5;

// Sizes -------------------------------------------------------------------------------------------

static size_t rows_bytes(const gx_knn_device *d, int64_t rows)
{
    return (size_t)(rows * d->s->args->E->cols) * gx_number_bytes(d->s->dtype);
}

int64_t gx_knn_turns(const gx_knn_device *d, int64_t n)
{
    return gx_knn_is_listed(d) ? 1 : gx_ceil_div(3 * n + 2 * GX_KNN_QUERIES, 3 * GX_KNN_QUERIES);
}

int64_t gx_knn_each(const gx_knn_device *d, int64_t n)
{
    const int64_t STEP = 128; // of products
    int64_t each = gx_ceil_div(gx_ceil_div(3 * n, 3 * gx_knn_turns(d, n) - 2), STEP) * STEP;
    return gx_knn_is_listed(d) || n <= GX_KNN_QUERIES ? n : gx_min(each, GX_KNN_QUERIES);
}

gx_knn_layout gx_knn_lay_out(const gx_knn_device *d, int64_t n)
{
    const gx_mat *E = d->s->args->E;
    bool is_listed = gx_knn_is_listed(d), is_shifted = gx_knn_is_shifted(d->s);
    bool is_made = gx_knn_is_made_there(d), has_b = d->s->dtype != GX_F64 || is_shifted;
    int64_t panels = gx_ceil_div(d->height, gx_max(1, gx_min(E->tile_rows, d->height))); // at most
    size_t q = (size_t)n, numbers = q * (size_t)E->cols, es = gx_number_bytes(d->s->dtype);
    size_t entries = is_listed ? 0 : q * (size_t)d->s->out->count;
    size_t calls = is_listed ? 0 : (size_t)gx_max(panels, GX_KNN_CALLS);
    size_t bytes[GX_KNN_PIECES] = {[GX_KNN_SQUARE] = q * sizeof(double),
                                   [GX_KNN_LENGTH] = q * sizeof(double),
                                   [GX_KNN_PLAIN] = is_made && is_shifted ? numbers * es : 0,
                                   [GX_KNN_B] = has_b && !is_listed ? numbers * es : 0,
                                   [GX_KNN_QUERY] = numbers * sizeof(double),
                                   [GX_KNN_MERIT] = entries * sizeof(double),
                                   [GX_KNN_INDEX] = entries * sizeof(int64_t),
                                   [GX_KNN_OUTCOME] = calls * sizeof(int32_t)};
    gx_knn_piece last = !is_made ? GX_KNN_QUERY : is_shifted ? GX_KNN_PLAIN : GX_KNN_B;
    gx_knn_layout l = {.at = {0}};
    for (int p = 0; p < GX_KNN_PIECES; p++) {
        l.at[p + 1] = l.at[p] + gx_round_up(bytes[p], ALIGN);
    }
    l.sent = l.at[last] + bytes[last];
    return l;
}

/* The shift is in front of all turns. */
static size_t shift_bytes(const gx_knn_device *d)
{
    return gx_knn_is_shifted(d->s) ? gx_round_up(rows_bytes(d, 1), ALIGN) : 0;
}

char *gx_knn_turn_at(const gx_knn_device *d, int64_t t)
{
    size_t each = gx_knn_lay_out(d, d->group->each).at[GX_KNN_PIECES];
    return (char *)d->on.hold[GX_KNN_PART].data + shift_bytes(d) + (size_t)t * each;
}

/* What GX_NEAREST is told of the rows and n queries; no operands. */
static size_t work_bytes(const gx_knn_device *d, int64_t n)
{
    static const char there = 0;
    gx_nearest w = {.metric = d->s->args->metric,
                    .count = d->s->out->count,
                    .shift = gx_knn_is_shifted(d->s) ? &there : NULL};
    gx_args args = {.m = d->height, .k = d->s->args->E->cols, .half = gx_knn_half(d->s)};
    args.nearest = &w;
    args.n = gx_min(n, GX_KNN_QUERIES);
    return gx_devcall_workspace(&d->on, GX_NEAREST, d->s->dtype, &args);
}

/* Batches of n queries, or of fewer; bytes of all that is wanted beside E. */
static size_t want_rest(gx_knn_device *d, int64_t n)
{
    gx_hold *hold = d->on.hold;
    bool is_listed = gx_knn_is_listed(d);
    int64_t each = gx_knn_each(d, n);
    size_t slack = (size_t)gx_knn_turns(d, n) * (GX_KNN_PIECES * ALIGN);
    hold[GX_KNN_PART].bytes = shift_bytes(d) + slack +
                              (size_t)(n / each) * gx_knn_lay_out(d, each).at[GX_KNN_PIECES] +
                              gx_knn_lay_out(d, n % each).at[GX_KNN_PIECES];
    hold[GX_KNN_WORK].bytes = is_listed ? 0 : work_bytes(d, n);
    hold[GX_KNN_LISTED].bytes = is_listed ? (size_t)GX_KNN_PAIRS * 3 * sizeof(double) : 0;
    return gx_pool_rounded(hold[GX_KNN_PART].bytes) + gx_pool_rounded(hold[GX_KNN_WORK].bytes) +
           gx_pool_rounded(hold[GX_KNN_LISTED].bytes);
}

/* Panels of whole tiles; false: there is no room for two of one tile. */
static bool choose_panels(gx_knn_device *d, size_t room)
{
    const gx_mat *E = d->s->args->E;
    int64_t row = gx_max(1, (int64_t)rows_bytes(d, 1)),
            tile = gx_max(1, gx_min(E->tile_rows, d->height));
    int64_t bytes = gx_max(PANEL_LEAST, gx_min(PANEL_MOST, row * d->height / 16));
    d->is_whole = gx_pool_rounded(rows_bytes(d, d->height)) <= room;
    bytes =
        gx_min(bytes, d->is_whole ? (int64_t)(room / 8)
                                  : (int64_t)(room / GX_KNN_RING / 9 * 8)); // as the pool rounds
    d->rows = gx_min(d->height, gx_max(1, bytes / row / tile) * tile);
    d->panels = gx_ceil_div(d->height, d->rows);
    d->on.hold[0].bytes = rows_bytes(d, d->is_whole ? d->height : d->rows);
    d->on.hold[1].bytes = d->is_whole ? 0 : d->on.hold[0].bytes;
    return d->is_whole ||
           (!gx_knn_is_listed(d) && GX_KNN_RING * gx_pool_rounded(rows_bytes(d, d->rows)) <= room);
}

/* Batches, of so many queries at most, and panels within the device's memory and the host's. */
static bool choose(gx_knn_device *d, int64_t most)
{
    size_t host = gx_mem_available(d->s->run->ctx->mem);
    int64_t all = d->s->out->queries;
    size_t each = (size_t)(d->s->args->E->cols + 4) * 2 * sizeof(double) +
                  (gx_knn_is_listed(d) ? (size_t)d->s->args->C->cols * 4 * sizeof(double) : 0);
    for (d->batch = gx_min(all, most);; d->batch = gx_ceil_div(d->batch, 2)) {
        d->s->plan.is_few = d->batch <= GX_KNN_FEW;
        size_t rest = want_rest(d, d->batch);
        bool fits = rest < d->on.limit / 2 && (size_t)d->batch * each < host / 4 * 3;
        if (fits && choose_panels(d, d->on.limit - rest)) {
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

// Whether -----------------------------------------------------------------------------------------

/* Seconds of kernels for all queries. */
static double kernel_seconds(const gx_knn_device *d)
{
    const gx_mat *E = d->s->args->E;
    const gx_device_profile *device = &d->on.accel->profile;
    double n = (double)d->s->out->queries, es = (double)gx_number_bytes(d->s->dtype);
    gx_args product = {.m = d->height, .n = d->batch, .k = E->cols};
    if (gx_knn_is_listed(d)) { // a row's numbers are as many columns' sectors
        double sectors = 8 * es * n * (double)d->s->args->C->cols * (double)E->cols;
        return sectors / device->sweep_bytes_per_s + device->wait_s;
    }
    double one = gx_profile_device_kernel(device, GX_GEMM, d->s->dtype, &product);
    bool is_slow = d->s->args->metric == GX_METRIC_ABSOLUTE && d->batch > GX_KNN_FEW;
    double looked_at =
        2 * (double)d->height * n * es + (double)d->batches * (double)rows_bytes(d, d->height);
    return one * (double)d->batches * (is_slow ? APART_COST : 1) +
           looked_at / device->sweep_bytes_per_s + device->wait_s;
}

/* d->on.is_there: E is in the device's memory. */
static void foresee(const gx_knn_device *d, gx_cost *cost, gx_terms *terms)
{
    const gx_mat *E = d->s->args->E, *Q = d->s->args->Q;
    const gx_device_profile *device = &d->on.accel->profile;
    gx_run *run = d->s->run;
    bool is_there = d->on.is_there;
    double n = (double)d->s->out->queries, stored = (double)gx_dtype_bytes(E->dtype);
    double times = d->is_whole ? 1 : (double)d->batches;
    double e = is_there ? 0 : times * (double)rows_bytes(d, d->height);
    gx_nearest w = {.metric = d->s->args->metric};
    gx_args all = {.m = d->height, .n = d->s->out->queries, .k = E->cols, .nearest = &w};
    *cost = (gx_cost){.flops = gx_kernel_flops(GX_NEAREST, d->s->dtype, &all),
                      .bytes_up = e + (double)d->batches * (double)gx_knn_lay_out(d, d->batch).sent,
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
    cost->slot_bytes = d->on.hold[GX_KNN_ROWS].bytes;
    double kernels = kernel_seconds(d);
    double read = cost->bytes_read / gx_predict_read_rate(run, 0);
    double others = fmax(read, cost->bytes_up / device->upload_bytes_per_s);
    // The panels' kernels run beside the copies; the last panel's come after them.
    cost->compute_s = is_there ? kernels : fmax(kernels / (double)d->panels, kernels - others);
    gx_predict_cost(run, d->on.accel, cost, d->s->dtype, 1, terms);
    double helpers_s = is_there ? 0 : gx_predict_helpers_s(run, cost->bytes_read);
    gx_predict_begin(&d->on, helpers_s + DEVICE_S, terms);
}

static double foresee_seconds(void *arg)
{
    gx_cost cost;
    gx_terms terms;
    foresee(arg, &cost, &terms);
    return terms.seconds;
}

/* Does the device do such a search at all?  Else *why, where there is a reason to be told. */
static bool is_offered(const gx_knn_search *s, const gx_accel *accel, const char **why)
{
    gx_kernel_id kernel = s->args->C != NULL ? GX_MERIT : GX_NEAREST;
    *why = s->args->rows != NULL ? "a search among some rows is for the host alone"
           : s->args->is_binary  ? "hamming is for the host alone"
           : s->out->count > GX_NEAREST_MOST && s->args->C == NULL
               ? "lists of more than 1024 neighbours are for the host alone"
           : !gx_accel_offers(accel, kernel, s->dtype) ? "the device has no kernel for neighbours"
                                                       : NULL;
    return *why == NULL && s->args->E->rows > 0 && s->args->E->rows < INT32_MAX / 2 &&
           s->args->E->cols > 0;
}

static bool find_room(gx_knn_device *d, int64_t most)
{
    gx_devcall *on = &d->on;
    on->key = gx_devcall_key(on->run, d->s->args->E, d->first, d->height, d->s->dtype);
    on->limit = GX_DEVCALL_NO_LIMIT;
    if (!choose(d, most)) {
        return false;
    }
    gx_devcall_fits(on);
    bool is_good = on->limit == GX_DEVCALL_NO_LIMIT || choose(d, most);
    on->key.file = d->is_whole ? on->key.file : 0;
    on->is_there = on->is_there && d->is_whole;
    return is_good;
}

/* The device alone: has it room, and is it worth it? */
static bool prepare_alone(gx_knn_device *d, const gx_terms *host, gx_terms *terms)
{
    const char *why = NULL;
    if (!is_offered(d->s, d->on.accel, &why)) {
        if (why != NULL && gx_place_is_forced(d->s->run)) {
            const gx_about about = {.kind = GX_EVENT_FALLBACK_KERNEL,
                                    .device = d->on.accel->info.name};
            gx_stats_tell(&d->s->run->ctx->stats, &about, "computed on the CPU: %s", why);
        }
        return false;
    }
    if (!find_room(d, BATCH_MOST)) {
        return gx_place_has_no_room(&d->on, "rows and queries", "");
    }
    gx_cost cost;
    foresee(d, &cost, terms);
    return gx_place_is_worth_it(&d->on, host->seconds, terms, foresee_seconds, d);
}

// Several devices ---------------------------------------------------------------------------------

static gx_knn_device of_device(gx_knn_search *s, gx_accel *accel)
{
    return (gx_knn_device){
        .s = s, .on = {.run = s->run, .accel = accel}, .height = s->args->E->rows};
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
        missing += g->part[k].on.is_there ? 0 : (double)rows_bytes(alone, g->part[k].height);
    }
    if (saving <= 0 || missing == 0 || !alone->on.is_there) {
        return saving > 0;
    }
    return gx_place_owe_copy(alone->on.run, &alone->on.key, saving) >=
           missing / alone->on.accel->profile.upload_bytes_per_s;
}

/* The group of one becomes one of several, where they are listed or that is better. */
static void widen(gx_knn_group *g, const gx_terms *alone_terms, uint64_t avoided)
{
    gx_knn_device alone = g->part[0];
    gx_run *run = alone.on.run;
    gx_knn_plan plan = alone.s->plan;
    gx_fleet all;
    bool is_listed = false, is_wide = false;
    gx_fleet_single(&all, alone.on.accel, alone.on.limit);
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
    if (is_offered(s, d.on.accel, &why) && s->out->queries > 0 && find_room(&d, BATCH_MOST)) {
        foresee(&d, cost, terms);
        *plan = s->plan;
        plan->strip = d.is_whole ? s->args->E->rows : d.rows;
        plan->batches = d.batches;
    }
}
