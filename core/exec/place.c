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
** been best.  The saving of a call is its arithmetic on the host less arithmetic and copies on the
** device, from the rates saved by an earlier process, or, where there are none, from copies alone.
** Little work (GX_TEAM_FLOPS) has no saving and never asks.
**
** 'backend' = cuda skips the comparison, not the requirements: a program that the device does not
** offer, or has no room for, runs on the host, and gx_stats says so.  Deterministic mode promises
** the same bits everywhere, so it stays on the host unless told.
*/
#include "place.h"

#include "../device/accel.h"
#include "../run/call.h"
#include "exec_int.h"

#include <math.h>

/* What opening a device takes in a process that has CUDA already: queues, pools, its profile. */
static const double REOPEN_SECONDS = 0.02;

/* The same in a new process, about, until it has been measured. */
static const double OPEN_SECONDS = 0.3;

/* Copies to a device that nobody has measured: pageable ones over PCI Express 3. */
static const double UNKNOWN_BYTES_PER_S = 6e9, UNKNOWN_CALL_S = 3e-4;

static bool is_forced(const gx_run *run)
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
    return is_forced(run) || (ctx->config.number[GX_SET_DETERMINISTIC] == 0 &&
                              !(ctx->is_cuda_tried && ctx->cuda == NULL));
}

bool gx_place_comes_into_question(const gx_run *run, double flops)
{
    return is_allowed(run) && (is_forced(run) || flops >= GX_TEAM_FLOPS);
}

/* Seconds that a device would save of so many flops. */
static double saving(gx_run *run, double flops, gx_dtype dtype)
{
    gx_ctx *ctx = run->ctx;
    double pairs = flops / (gx_dtype_is_complex(dtype) ? 8 : 2), n = cbrt(pairs);
    double bytes = n * n * (double)gx_dtype_bytes(dtype);
    double host_s = flops / gx_profile_flops(gx_profile_get(ctx), dtype, (int64_t)n,
                                             (int)ctx->config.number[GX_SET_THREADS]);
    gx_device_profile d;
    double device_s = gx_profile_saved_device(ctx, &d)
                          ? flops / gx_profile_device_flops(&d, dtype, (int64_t)n) + d.wait_s +
                                2 * bytes / d.upload_bytes_per_s + bytes / d.download_bytes_per_s
                          : 3 * bytes / UNKNOWN_BYTES_PER_S + UNKNOWN_CALL_S;
    return fmax(0, host_s - device_s);
}

static double opening_seconds(gx_ctx *ctx)
{
    gx_device_profile d;
    if (!gx_profile_saved_device(ctx, &d)) {
        return OPEN_SECONDS; // and then it is measured, once on this machine
    }
    return gx_device_is_loaded() ? REOPEN_SECONDS : d.open_s;
}

void gx_place_owe(gx_run *run, double flops, gx_dtype dtype)
{
    if (flops >= GX_TEAM_FLOPS && is_allowed(run) && gx_accel_opened(run->ctx) == NULL) {
        run->ctx->owed_s += saving(run, flops, dtype);
    }
}

/* The device, opened where it is not, with what it may take of its memory. */
static gx_accel *take_device(gx_run *run, size_t *device_bytes)
{
    gx_ctx *ctx = run->ctx;
    run->is_irregular |= gx_accel_opened(ctx) == NULL; // a call that opens it is no measure
    gx_accel *accel = gx_accel_get(ctx);
    gx_err err = {0};
    if (accel != NULL && gx_accel_limit(ctx, accel, device_bytes, &err) != GX_OK) {
        gx_accel_fail(ctx, &err);
        return NULL;
    }
    return accel;
}

gx_accel *gx_place_candidate(gx_run *run, double flops, gx_dtype dtype, size_t *device_bytes)
{
    gx_ctx *ctx = run->ctx;
    *device_bytes = 0;
    if (!is_allowed(run)) {
        return NULL;
    }
    if (!is_forced(run)) {
        if (flops < GX_TEAM_FLOPS) {
            return NULL;
        }
        if (gx_accel_opened(ctx) == NULL &&
            ctx->owed_s + saving(run, flops, dtype) < opening_seconds(ctx)) {
            return NULL;
        }
    }
    ctx->owed_s = 0;
    return take_device(run, device_bytes);
}

gx_accel *gx_place_look(gx_run *run, size_t *device_bytes)
{
    *device_bytes = 0;
    return is_allowed(run) ? take_device(run, device_bytes) : NULL;
}

/* Does the program run on the device, and how long does it take there? */
static bool predict(gx_prog *prog, gx_run *run, gx_accel *accel, size_t device_bytes,
                    gx_terms *terms)
{
    const char *missing = NULL;
    if (!gx_prog_is_offered(prog, accel, &missing)) {
        if (is_forced(run)) {
            gx_stats_note(&run->ctx->stats, "computed on the CPU: %s has no kernel %s of %s",
                          accel->backend->name, missing, gx_dtype_name(gx_prog_dtype(prog)));
        }
        return false;
    }
    gx_cost cost;
    if (gx_predict_program(prog, accel, device_bytes, &cost, terms) != GX_OK || cost.slots == 0) {
        if (is_forced(run)) {
            gx_stats_note(&run->ctx->stats,
                          "computed on the CPU: blocks too large for %zu bytes of device memory",
                          device_bytes);
        }
        return false;
    }
    return true;
}

bool gx_place_is_faster(double flops, const gx_terms *host, const gx_terms *device)
{
    // What later calls will find allocated is no reason never to make the first one.
    return flops >= GX_TEAM_FLOPS &&
           device->seconds - device->factor * device->once_s < host->seconds;
}

/* Is the device program predicted to be faster than the host, with its program or other way? */
static bool is_faster(gx_prog *host, const gx_terms *other, gx_prog *device, gx_run *run,
                      gx_accel *accel, size_t device_bytes)
{
    gx_terms device_terms, host_terms;
    if (!predict(device, run, accel, device_bytes, &device_terms)) {
        return false;
    }
    if (is_forced(run)) {
        return true;
    }
    gx_cost cost;
    if (other != NULL) {
        host_terms = *other;
    } else if (gx_predict_program(host, NULL, 0, &cost, &host_terms) != GX_OK) {
        return false;
    }
    bool is_device = gx_place_is_faster(gx_prog_flops(device), &host_terms, &device_terms);
    gx_ledger_age(&run->ctx->ledger, run->label, !is_device,
                  is_device ? host_terms.work : device_terms.work);
    return is_device;
}

// Running -----------------------------------------------------------------------------------------

bool gx_prog_run_on(gx_prog *prog, gx_accel *accel, size_t device_bytes)
{
    gx_run *run = gx_prog_runner(prog);
    if (!gx_ok(run) || gx_prog_calls(prog) == 0) {
        return true;
    }
    if (accel == NULL) {
        gx_exec_host(prog);
        return true;
    }
    return gx_exec_device(prog, accel, device_bytes);
}

/* What was begun on a device is done again on the host: the predictions so far do not count. */
static void restart(gx_run *run)
{
    run->is_irregular = true;
    run->planned_work = run->planned_model_s = run->planned_s = 0;
    run->is_planned_on_device = false;
}

/* The device that a program is to run on; NULL: the host, by its program or the other way. */
static gx_accel *choose(gx_prog *prog, const gx_terms *other, size_t *device_bytes)
{
    *device_bytes = 0;
    gx_run *run = gx_prog_runner(prog);
    if (!gx_ok(run) || gx_prog_calls(prog) == 0) {
        return NULL;
    }
    double flops = gx_prog_flops(prog);
    gx_accel *accel = gx_place_candidate(run, flops, gx_prog_dtype(prog), device_bytes);
    if (accel != NULL && is_faster(prog, other, prog, run, accel, *device_bytes)) {
        return accel;
    }
    gx_place_owe(run, flops, gx_prog_dtype(prog));
    return NULL;
}

gx_code gx_prog_run(gx_prog *prog)
{
    gx_run *run = gx_prog_runner(prog);
    size_t device_bytes = 0;
    gx_accel *accel = choose(prog, NULL, &device_bytes);
    if (!gx_prog_run_on(prog, accel, device_bytes) && gx_ok(run)) {
        restart(run);
        gx_exec_host(prog);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

bool gx_prog_run_beside(gx_prog *prog, const gx_terms *host)
{
    gx_run *run = gx_prog_runner(prog);
    size_t device_bytes = 0;
    gx_accel *accel = choose(prog, host, &device_bytes);
    bool is_run = accel != NULL && gx_prog_run_on(prog, accel, device_bytes);
    if (accel != NULL && !is_run && gx_ok(run)) {
        restart(run);
    }
    return is_run || !gx_ok(run);
}

/* On the device, in ever smaller blocks while its memory runs out.  false: the host must do it. */
static bool run_on_device(gx_run *run, gx_prog *host, const gx_terms *other, gx_accel *accel,
                          size_t device_bytes, gx_place_build build, void *arg)
{
    enum { ATTEMPTS = 3 };
    bool is_run = false;
    for (int k = 0; k < ATTEMPTS && !is_run && gx_ok(run) && !run->ctx->is_accel_off; k++) {
        run->target = accel;
        run->target_bytes = device_bytes;
        gx_prog *device = build(run, arg);
        run->target = NULL;
        if (device == NULL || !is_faster(host, other, device, run, accel, device_bytes)) {
            gx_prog_free(device);
            break;
        }
        is_run = gx_prog_run_on(device, accel, device_bytes);
        gx_prog_free(device);
        device_bytes /= 4;
        if (!is_run) {
            restart(run);
        }
    }
    return is_run || !gx_ok(run);
}

gx_code gx_place_run(gx_run *run, double flops, gx_dtype dtype, gx_place_build build, void *arg)
{
    size_t device_bytes;
    gx_accel *accel = gx_place_candidate(run, flops, dtype, &device_bytes);
    gx_prog *host = gx_ok(run) ? build(run, arg) : NULL;
    if (host != NULL && gx_ok(run)) {
        bool is_run = accel != NULL && gx_prog_calls(host) > 0 &&
                      run_on_device(run, host, NULL, accel, device_bytes, build, arg);
        if (!is_run) {
            gx_place_owe(run, flops, dtype);
            gx_prog_run_on(host, NULL, 0);
        }
    }
    gx_prog_free(host);
    return gx_ok(run) ? GX_OK : run->err.code;
}

bool gx_place_on_device(gx_run *run, double flops, gx_dtype dtype, gx_place_build build, void *arg,
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
