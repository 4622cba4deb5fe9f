/*
** The planner's choice between the host and a device.
**
** Both programs are predicted by running their schedules on model clocks (predict.c), corrected by
** what earlier calls took (ledger.c), and the device is used when its time is smaller; strictly: a
** tie, and everything that is not known, goes to the host.
**
** Opening.  A device that is open costs nothing more.  One that is not costs its opening, some
** tenths of a second, or a hundredth where this process has CUDA already.  That is the ski-rental
** problem: every call on the host is rent, opening is the price of the skis, and nobody knows how
** many more calls there will be.  gx opens when this call alone saves the price, or when what the
** device would have saved in the calls so far comes to it: never more than twice what would have
** been best.  The saving of a call is its arithmetic on the host, times what calls like it have
** taken more than was foretold, less arithmetic and copies on the device, from the rates saved by
** an earlier process, or, where there are none, from copies alone.
** Little work (GX_TEAM_FLOPS) has no saving and never asks.
**
** Several devices.  A program that the first device would run is predicted on two, four, ...  of
** those that the setting 'devices' allows, and spread over the number that takes least, or over all
** where they are listed (spread.c, fleet.c).  Opening them is a ski-rental of its own.  Who fails
** on the way is left out, and the program begun anew on the others.
**
** 'backend' = cuda skips the comparison, not the requirements: a program that the device does not
** offer, or has no room for, runs on the host, and gx_stats says so.  Deterministic mode promises
** the same bits everywhere, so it stays on the host unless told.
*/
#include "place.h"

#include "../device/devcall.h"
#include "../run/call.h"
#include "spread.h"

#include <math.h>

/* What opening a device takes in a process that has CUDA already: queues, pools, its profile. */
static const double REOPEN_SECONDS = 0.02;

/*
** What a program takes besides when others help: their queues filled by the same two threads, marks
** across devices.  No clock of the model has it; a product of order 1024 on four H200s, foretold
** below the 3.5 ms of one, took 5.4.
*/
static const double SPREAD_SECONDS = 0.004;

bool gx_place_is_forced(const gx_run *run)
{
    return run->ctx->config.number[GX_SET_BACKEND] == GX_BACKEND_CUDA;
}

/* May a device come into question at all? */
static bool is_allowed(const gx_run *run)
{
    const gx_ctx *ctx = run->ctx;
    int64_t choice = ctx->config.number[GX_SET_BACKEND];
    if (!gx_ok(run) || ctx->is_accel_off || run->is_careful ||
        (choice != GX_BACKEND_AUTO && choice != GX_BACKEND_CUDA)) {
        return false;
    }
    return gx_place_is_forced(run) || (ctx->config.number[GX_SET_DETERMINISTIC] == 0 &&
                                       !(ctx->is_cuda_tried && ctx->cuda == NULL));
}

bool gx_place_comes_into_question(const gx_run *run, double flops)
{
    return is_allowed(run) && (gx_place_is_forced(run) || flops >= GX_TEAM_FLOPS);
}

/* Seconds of so many flops on the device that may be opened, with the copies of a product. */
static double device_seconds(gx_ctx *ctx, double flops, gx_number dtype)
{
    gx_device_profile d;
    double pairs = flops / (gx_number_is_complex(dtype) ? 8 : 2), n = cbrt(pairs);
    double bytes = n * n * (double)gx_number_bytes(dtype);
    gx_profile_saved_device(ctx, &d);
    return flops / gx_profile_device_flops(&d, dtype, (int64_t)n) + d.wait_s +
           2 * bytes / d.upload_bytes_per_s + bytes / d.download_bytes_per_s;
}

/* Seconds that a device would save of so many flops. */
static double saving(gx_run *run, double flops, gx_number dtype)
{
    gx_ctx *ctx = run->ctx;
    double n = cbrt(flops / (gx_number_is_complex(dtype) ? 8 : 2));
    double host_s = flops / gx_profile_flops(gx_profile_get(ctx), dtype, (int64_t)n,
                                             (int)ctx->config.number[GX_SET_THREADS]);
    host_s *= gx_ledger_factor(&ctx->ledger, run->planned_as, false, flops);
    return fmax(0, host_s - device_seconds(ctx, flops, dtype));
}

static double opening_seconds(gx_ctx *ctx)
{
    gx_device_profile d;
    bool is_known = gx_profile_saved_device(ctx, &d);
    double open_s = gx_device_is_loaded() ? REOPEN_SECONDS : is_known ? d.open_s : GX_ACCEL_OPEN_S;
    return is_known ? open_s : open_s + GX_ACCEL_MEASURE_S; // that once on this machine
}

/* Might a device that is not open have done so much? */
static bool is_owed(const gx_run *run, double flops)
{
    return flops >= GX_TEAM_FLOPS && is_allowed(run) && gx_accel_opened(run->ctx) == NULL;
}

void gx_place_owe(gx_run *run, double flops, gx_number dtype)
{
    if (is_owed(run, flops)) {
        run->ctx->owed_s += saving(run, flops, dtype);
    }
}

/* The device, opened where it is not, with what it may take of its memory; wanted: bytes, about. */
static gx_accel *take_device(gx_run *run, double wanted, size_t *device_bytes)
{
    gx_ctx *ctx = run->ctx;
    run->is_irregular |= gx_accel_opened(ctx) == NULL; // a call that opens it is no measure
    gx_accel *accel = gx_accel_get(ctx);
    gx_err err = {0};
    while (accel != NULL && gx_accel_limit(ctx, accel, wanted, device_bytes, &err) != GX_OK) {
        gx_accel_leave_out(ctx, ctx->accel, &err);
        err = (gx_err){0};
        accel = gx_accel_opened(ctx); // the next one, or none
    }
    return accel;
}

gx_accel *gx_place_candidate(gx_run *run, double flops, gx_number dtype, size_t *device_bytes)
{
    gx_ctx *ctx = run->ctx;
    *device_bytes = 0;
    if (!is_allowed(run)) {
        return NULL;
    }
    if (!gx_place_is_forced(run)) {
        if (flops < GX_TEAM_FLOPS) {
            return NULL;
        }
        if (gx_accel_opened(ctx) == NULL &&
            ctx->owed_s + saving(run, flops, dtype) < opening_seconds(ctx)) {
            return NULL;
        }
    }
    ctx->owed_s = 0;
    const double n = cbrt(flops / 2); // of a square product
    gx_accel *accel = take_device(run, 3 * n * n * (double)gx_number_bytes(dtype), device_bytes);
    return accel != NULL && gx_accel_offers(accel, GX_GEMM, dtype) ? accel : NULL;
}

gx_accel *gx_place_saving(gx_run *run, double saving_s, size_t *device_bytes)
{
    gx_ctx *ctx = run->ctx;
    *device_bytes = 0;
    if (!is_allowed(run)) {
        return NULL;
    }
    if (!gx_place_is_forced(run) && gx_accel_opened(ctx) == NULL) {
        ctx->owed_s += fmax(0, saving_s);
        if (saving_s <= 0 || ctx->owed_s < opening_seconds(ctx)) {
            return NULL;
        }
    }
    ctx->owed_s = 0;
    const double LONG_S = 0.1; // what the call wants will be known later
    return take_device(run, saving_s > LONG_S ? INFINITY : 0, device_bytes);
}

gx_accel *gx_place_for(gx_run *run, double host_s, size_t *device_bytes)
{
    const double LEAST_S = 60e-6; // less is not worth asking
    size_t bytes;
    gx_accel *accel = is_allowed(run) ? gx_accel_opened(run->ctx) : NULL;
    if (!gx_place_is_forced(run) && host_s < LEAST_S) {
        return NULL;
    }
    return accel != NULL && device_bytes == NULL
               ? accel
               : gx_place_saving(run, host_s / 2, device_bytes == NULL ? &bytes : device_bytes);
}

double gx_place_owe_copy(gx_run *run, const gx_block_key *key, double saving_s)
{
    gx_ctx *ctx = run->ctx;
    if (key->file == 0) { // no copy would be found again
        return saving_s;
    }
    bool is_same = ctx->owed_copy.file == key->file && ctx->owed_copy.id == key->id &&
                   ctx->owed_copy.generation == key->generation;
    double before = is_same ? ctx->owed_copy.seconds : 0;
    ctx->owed_copy.file = key->file;
    ctx->owed_copy.id = key->id;
    ctx->owed_copy.generation = key->generation;
    ctx->owed_copy.seconds = before + fmax(0, saving_s);
    return ctx->owed_copy.seconds;
}

bool gx_place_is_less(const gx_run *run, double device_s, double host_s)
{
    return gx_place_is_forced(run) || device_s < host_s;
}

bool gx_place_is_worth_it(gx_devcall *call, double host_s, const gx_terms *now,
                          gx_place_foresee foresee, void *arg)
{
    bool is_there = call->is_there;
    double now_s = now->seconds - now->factor * now->once_s;
    if (gx_place_is_less(call->run, now_s, host_s) || is_there || call->key.file == 0) {
        return gx_place_is_less(call->run, now_s, host_s);
    }
    call->is_there = true;
    double later_s = foresee(arg);
    call->is_there = is_there;
    return later_s < host_s &&
           gx_place_owe_copy(call->run, &call->key, host_s - later_s) >= now_s - later_s;
}

bool gx_place_has_no_room(const gx_devcall *call, const char *what, const char *label)
{
    if (gx_devcall_is_open(call)) {
        const gx_about about = {.kind = GX_EVENT_FALLBACK_MEMORY, .device = call->accel->info.name};
        gx_stats_tell(&call->run->ctx->stats, &about,
                      "computed on the CPU: %zu bytes of device memory do not hold %s%s",
                      call->limit, what, label);
    }
    return false;
}

gx_accel *gx_place_look(gx_run *run, size_t *device_bytes)
{
    *device_bytes = 0;
    return is_allowed(run) ? take_device(run, 0, device_bytes) : NULL;
}

// Several devices ---------------------------------------------------------------------------------

/* The first `count` of them. */
static gx_fleet first_of(const gx_fleet *fleet, int count)
{
    gx_fleet some = *fleet;
    some.count = count;
    return some;
}

bool gx_place_gather(gx_run *run, gx_fleet *fleet, double alone_s, bool is_asked, bool *is_listed)
{
    gx_ctx *ctx = run->ctx;
    const gx_accel *first = fleet->accel[0];
    if (!gx_fleet_is_wanted(ctx, is_listed)) {
        return false;
    }
    ctx->owed_fleet_s += is_asked ? 0 : alone_s / 2;
    if (!*is_listed && !is_asked && first->next == NULL &&
        ctx->owed_fleet_s < first->profile.open_s) {
        return false;
    }
    run->is_irregular |= first->next == NULL; // a call that opens them is no measure
    gx_fleet_gather(ctx, fleet);
    return fleet->count > 1;
}

/* false: it has no room there, or the run has failed. */
static bool predict_spread(gx_prog *prog, const gx_fleet *fleet, gx_cost *cost, gx_terms *terms)
{
    gx_prog_spread(prog, fleet);
    return gx_predict_program(prog, fleet, cost, terms) == GX_OK && cost->slots > 0;
}

/*
** Predict the program on more devices, twice as many each time, and leave it spread over the best
** number of them; over all where the settings list them.  *fleet, *cost and *terms: the first one's
** so far.  is_asked: only to know (gx_plan).
*/
static void widen(gx_prog *prog, gx_run *run, gx_fleet *fleet, bool is_asked, gx_cost *cost,
                  gx_terms *terms)
{
    gx_fleet all = *fleet, best = *fleet;
    bool is_listed;
    double most_s = terms->seconds - SPREAD_SECONDS; // that others could save
    if (!gx_fleet_is_wanted(run->ctx, &is_listed) || (!is_listed && most_s <= 0) ||
        !gx_prog_can_spread(prog) ||
        !gx_place_gather(run, &all, fmax(0, most_s), is_asked, &is_listed)) {
        return;
    }
    int count = is_listed ? all.count : 2;
    for (bool is_last = false; !is_last && gx_ok(run); count *= 2) {
        is_last = count >= all.count;
        gx_fleet some = first_of(&all, is_last ? all.count : count);
        gx_terms more;
        gx_cost its;
        bool is_good = predict_spread(prog, &some, &its, &more);
        if (is_good && (is_listed || more.seconds + SPREAD_SECONDS < terms->seconds)) {
            *cost = its;
            *terms = more;
            best = some;
        } else if (is_good) {
            is_last = true; // more of them would not help either
        }
    }
    *fleet = best;
    gx_prog_spread(prog, fleet);
}

/* Does the program run on the device, with how many others, and how long does it take there? */
static bool predict(gx_prog *prog, gx_run *run, gx_fleet *fleet, gx_terms *terms)
{
    const char *missing = NULL;
    const gx_accel *accel = fleet->accel[0];
    if (!gx_prog_is_offered(prog, accel, &missing)) {
        if (gx_place_is_forced(run)) {
            const gx_about about = {.kind = GX_EVENT_FALLBACK_KERNEL, .device = accel->info.name};
            gx_stats_tell(&run->ctx->stats, &about,
                          "computed on the CPU: %s has no kernel %s of %s", accel->backend->name,
                          missing, gx_number_name(gx_prog_dtype(prog)));
        }
        return false;
    }
    gx_cost cost;
    if (!predict_spread(prog, fleet, &cost, terms)) {
        if (gx_place_is_forced(run)) {
            const gx_about about = {.kind = GX_EVENT_FALLBACK_MEMORY, .device = accel->info.name};
            gx_stats_tell(&run->ctx->stats, &about,
                          "computed on the CPU: blocks too large for %zu bytes of device memory",
                          fleet->bytes[0]);
        }
        return false;
    }
    widen(prog, run, fleet, false, &cost, terms);
    return gx_ok(run);
}

bool gx_place_predict(gx_prog *prog, gx_fleet *fleet, gx_cost *cost, gx_terms *terms)
{
    gx_run *run = gx_prog_runner(prog);
    if (predict_spread(prog, fleet, cost, terms) && fleet->count > 0) {
        widen(prog, run, fleet, true, cost, terms);
    }
    return gx_ok(run) && cost->slots > 0;
}

bool gx_place_is_faster(double flops, const gx_terms *host, const gx_terms *device)
{
    // What later calls will find allocated is no reason never to make the first one.
    return flops >= GX_TEAM_FLOPS &&
           device->seconds - device->factor * device->once_s < host->seconds;
}

/*
** Is the device program predicted to be faster than the host, with its program or other way?
** *fleet: the first device; then those that it is spread over.
*/
static bool is_faster(gx_prog *host, const gx_terms *other, gx_prog *device, gx_run *run,
                      gx_fleet *fleet)
{
    gx_terms device_terms, host_terms;
    gx_fleet none = {.count = 0};
    if (!predict(device, run, fleet, &device_terms)) {
        return false;
    }
    if (gx_place_is_forced(run)) {
        return true;
    }
    gx_cost cost;
    if (other != NULL) {
        host_terms = *other;
    } else if (!predict_spread(host, &none, &cost, &host_terms) && !gx_ok(run)) {
        return false;
    }
    bool is_device = gx_place_is_faster(gx_prog_flops(device), &host_terms, &device_terms);
    gx_ledger_age(&run->ctx->ledger, run->planned_as, !is_device,
                  is_device ? host_terms.work : device_terms.work);
    return is_device;
}

// Running -----------------------------------------------------------------------------------------

void gx_place_restart(gx_run *run)
{
    run->is_irregular = true;
    run->planned_work = run->planned_model_s = run->planned_s = 0;
    run->is_planned_on_device = false;
}

bool gx_prog_run_spread(gx_prog *prog, gx_fleet *fleet)
{
    gx_run *run = gx_prog_runner(prog);
    if (!gx_ok(run) || gx_prog_calls(prog) == 0) {
        return true;
    }
    uint64_t avoided = 0;
    gx_err err = {0};
    while (fleet->count > 0) {
        int culprit = 0;
        err = (gx_err){0};
        gx_prog_spread(prog, fleet);
        if (!gx_ok(run) || gx_exec_device(prog, fleet, &culprit, &err)) {
            return true;
        }
        if (!gx_device_goes_on(run, fleet, culprit, &err, &avoided)) {
            return false;
        }
        gx_place_restart(run);
        if (fleet->count == 0) {
            size_t bytes = 0;
            gx_accel *next = take_device(run, 0, &bytes);
            gx_fleet_single(fleet, next, bytes);
        }
    }
    gx_stats_add(&run->ctx->stats, GX_STAT_DEVICE_FALLBACKS, 1);
    gx_stats_event(&run->ctx->stats, gx_fallback_after(err.code), NULL, &err);
    return false;
}

/* The devices that a program is to run on; none: the host, by its program or the other way. */
static gx_fleet choose(gx_prog *prog, const gx_terms *other)
{
    gx_run *run = gx_prog_runner(prog);
    gx_fleet fleet = {.count = 0};
    if (!gx_ok(run) || gx_prog_calls(prog) == 0) {
        return fleet;
    }
    size_t device_bytes;
    double flops = gx_prog_flops(prog);
    gx_accel *accel = gx_place_candidate(run, flops, gx_prog_dtype(prog), &device_bytes);
    gx_fleet_single(&fleet, accel, device_bytes);
    if (accel != NULL && is_faster(prog, other, prog, run, &fleet)) {
        return fleet;
    }
    return (gx_fleet){.count = 0};
}

/* What its threads and its arithmetic took, as foretold, a device would have saved in part. */
static void run_on_host(gx_prog *prog)
{
    gx_run *run = gx_prog_runner(prog);
    double flops = gx_prog_flops(prog), before = run->planned_own_s;
    if (gx_ok(run) && gx_prog_calls(prog) > 0) {
        gx_prog_spread(prog, &(gx_fleet){.count = 0});
        gx_exec_host(prog);
    }
    if (is_owed(run, flops)) {
        double there_s = GX_PREDICT_DEVICE_S + device_seconds(run->ctx, flops, gx_prog_dtype(prog));
        run->ctx->owed_s += fmax(0, run->planned_own_s - before - there_s);
    }
}

/* On the devices that are chosen for it; false: there are none, or they could not finish it. */
static bool run_on_chosen(gx_prog *prog, const gx_terms *other, bool *is_begun)
{
    gx_run *run = gx_prog_runner(prog);
    gx_fleet fleet = choose(prog, other);
    *is_begun = fleet.count > 0;
    bool is_run = *is_begun && gx_prog_run_spread(prog, &fleet);
    if (*is_begun && !is_run && gx_ok(run)) {
        gx_place_restart(run);
    }
    return is_run || !gx_ok(run);
}

gx_code gx_prog_run(gx_prog *prog)
{
    gx_run *run = gx_prog_runner(prog);
    bool is_begun;
    if (!run_on_chosen(prog, NULL, &is_begun)) {
        run_on_host(prog);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

bool gx_prog_run_beside(gx_prog *prog, const gx_terms *host)
{
    bool is_begun, is_run = run_on_chosen(prog, host, &is_begun);
    if (!is_run && !is_begun && gx_prog_calls(prog) > 0) {
        gx_place_owe(gx_prog_runner(prog), gx_prog_flops(prog), gx_prog_dtype(prog));
    }
    return is_run;
}

/* On the device, in ever smaller blocks while its memory runs out.  false: the host must do it. */
static bool run_on_device(gx_run *run, gx_prog *host, const gx_terms *other, gx_accel *accel,
                          size_t device_bytes, gx_place_build build, void *arg)
{
    enum { ATTEMPTS = 3 };
    bool is_run = false;
    for (int k = 0; k < ATTEMPTS && !is_run && gx_ok(run); k++) {
        gx_fleet fleet;
        if (gx_accel_opened(run->ctx) != accel) {
            break; // it has failed
        }
        gx_fleet_single(&fleet, accel, device_bytes);
        run->target = accel;
        run->target_bytes = device_bytes;
        gx_prog *device = build(run, arg);
        run->target = NULL;
        if (device == NULL || !is_faster(host, other, device, run, &fleet)) {
            gx_prog_free(device);
            break;
        }
        is_run = gx_prog_run_spread(device, &fleet);
        gx_prog_free(device);
        device_bytes /= 4;
        if (!is_run) {
            gx_place_restart(run);
        }
    }
    return is_run || !gx_ok(run);
}

gx_code gx_place_run(gx_run *run, double flops, gx_number dtype, gx_place_build build, void *arg)
{
    size_t device_bytes;
    gx_accel *accel = gx_place_candidate(run, flops, dtype, &device_bytes);
    gx_prog *host = gx_ok(run) ? build(run, arg) : NULL;
    if (host != NULL && gx_ok(run)) {
        bool is_run = accel != NULL && gx_prog_calls(host) > 0 &&
                      run_on_device(run, host, NULL, accel, device_bytes, build, arg);
        if (!is_run) {
            run_on_host(host);
        }
    }
    gx_prog_free(host);
    return gx_ok(run) ? GX_OK : run->err.code;
}

bool gx_place_on_device(gx_run *run, double flops, gx_number dtype, gx_place_build build, void *arg,
                        const gx_terms *host)
{
    size_t device_bytes;
    gx_accel *accel = gx_place_candidate(run, flops, dtype, &device_bytes);
    if (accel != NULL && run_on_device(run, NULL, host, accel, device_bytes, build, arg)) {
        return true;
    }
    gx_place_owe(run, flops, dtype);
    return !gx_ok(run);
}
