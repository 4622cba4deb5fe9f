/*
** The planner's choice between the host and a device.
**
** On a device reading, copying up, computing, copying down and writing overlap, so a program takes
**
**     T = max(read, up, down, compute, write) + fill + launches,
**
** fill being the first piece on its way through (the pipeline runs empty at both ends).  On the
** host it takes gx_plan_seconds().  The device is used when its T is smaller; strictly: a tie, and
** everything that is not known, goes to the host.
**
** A device that is not open costs its opening, and looking for one costs dlopen: so work that the
** host does in OPEN_SECONDS never asks.  'backend' = cuda skips the comparison, not the
** requirements: a program that the device does not offer, or has no room for, runs on the host, and
** gx_stats says so.  Deterministic mode promises the same bits everywhere, so it stays on the host
** unless told.
*/
#include "accel.h"
#include "plan.h"

/* What opening a device takes, about. */
static const double OPEN_SECONDS = 0.3;

/* Less work than this is not worth looking at the device, even an open one. */
static const double LEAST_FLOPS = 1e7;

/* A pipeline's first piece goes up and the last one comes down with nothing beside them. */
static const double PIECE_BYTES = 8 << 20;

double gx_plan_device_seconds(gx_run *run, const gx_accel *accel, const gx_cost *cost,
                              gx_dtype dtype, int64_t edge)
{
    const gx_device_profile *device = &accel->profile;
    double read_s = cost->bytes_read / gx_plan_read_rate(run);
    double write_s = cost->bytes_written / gx_profile_get(run->ctx)->db_write_bytes_per_s;
    double up_s = cost->bytes_up / device->upload_bytes_per_s;
    double down_s = cost->bytes_down / device->download_bytes_per_s;
    double compute_s = cost->flops / gx_profile_device_flops(device, dtype, edge);
    double longest = read_s;
    longest = up_s > longest ? up_s : longest;
    longest = down_s > longest ? down_s : longest;
    longest = compute_s > longest ? compute_s : longest;
    longest = write_s > longest ? write_s : longest;
    double piece = cost->bytes_up < PIECE_BYTES ? cost->bytes_up : PIECE_BYTES;
    double fill_s = piece / device->upload_bytes_per_s + piece / device->download_bytes_per_s;
    return longest + fill_s + (double)(cost->calls + cost->loads) * device->launch_s;
}

static bool is_forced(const gx_run *run)
{
    return run->ctx->config.number[GX_SET_BACKEND] == GX_BACKEND_CUDA;
}

gx_accel *gx_plan_candidate(gx_run *run, double flops, gx_dtype dtype, size_t *device_bytes)
{
    gx_ctx *ctx = run->ctx;
    *device_bytes = 0;
    int64_t choice = ctx->config.number[GX_SET_BACKEND];
    if (!gx_ok(run) || ctx->is_accel_off ||
        (choice != GX_BACKEND_AUTO && choice != GX_BACKEND_CUDA)) {
        return NULL;
    }
    if (!is_forced(run)) {
        if (flops < LEAST_FLOPS || ctx->config.number[GX_SET_DETERMINISTIC] != 0 ||
            (ctx->is_cuda_tried && ctx->cuda == NULL)) {
            return NULL;
        }
        double host_s = flops / gx_profile_flops(gx_profile_get(ctx), dtype, 1024,
                                                 (int)ctx->config.number[GX_SET_THREADS]);
        if (gx_accel_opened(ctx) == NULL && host_s < OPEN_SECONDS) {
            return NULL;
        }
    }
    gx_accel *accel = gx_accel_get(ctx);
    gx_err err = {0};
    if (accel != NULL && gx_accel_limit(ctx, accel, device_bytes, &err) != GX_OK) {
        gx_accel_fail(ctx, &err);
        return NULL;
    }
    return accel;
}

/* Does the program run on the device, and how long does it take there? */
static bool predict(gx_prog *prog, gx_run *run, const gx_accel *accel, size_t device_bytes,
                    double *seconds)
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
    if (gx_prog_cost_on(prog, device_bytes, &cost) != GX_OK || cost.slots == 0) {
        if (is_forced(run)) {
            gx_stats_note(&run->ctx->stats,
                          "computed on the CPU: blocks too large for %zu bytes of device memory",
                          device_bytes);
        }
        return false;
    }
    *seconds = gx_plan_device_seconds(run, accel, &cost, gx_prog_dtype(prog), gx_prog_edge(prog));
    return true;
}

/* Is the device program predicted to be faster than the host's? */
static bool is_faster(gx_prog *host, gx_prog *device, gx_run *run, const gx_accel *accel,
                      size_t device_bytes)
{
    double device_s = 0;
    if (!predict(device, run, accel, device_bytes, &device_s)) {
        return false;
    }
    if (is_forced(run)) {
        return true;
    }
    gx_cost cost;
    if (gx_prog_cost(host, &cost) != GX_OK) {
        return false;
    }
    return device_s < gx_plan_seconds(run, &cost, gx_prog_dtype(host), gx_prog_edge(host));
}

gx_accel *gx_plan_place(gx_prog *prog, size_t *device_bytes)
{
    *device_bytes = 0;
    gx_run *run = gx_prog_runner(prog);
    if (!gx_ok(run) || gx_prog_calls(prog) == 0) {
        return NULL;
    }
    gx_accel *accel =
        gx_plan_candidate(run, gx_prog_flops(prog), gx_prog_dtype(prog), device_bytes);
    return accel != NULL && is_faster(prog, prog, run, accel, *device_bytes) ? accel : NULL;
}

/* On the device, in ever smaller blocks while its memory runs out.  false: the host must do it. */
static bool run_on_device(gx_run *run, gx_prog *host, gx_accel *accel, size_t device_bytes,
                          gx_plan_build build, void *arg)
{
    enum { ATTEMPTS = 3 };
    bool is_run = false;
    for (int k = 0; k < ATTEMPTS && !is_run && gx_ok(run) && !run->ctx->is_accel_off; k++) {
        run->target = accel;
        run->target_bytes = device_bytes;
        gx_prog *device = build(run, arg);
        run->target = NULL;
        if (device == NULL || !is_faster(host, device, run, accel, device_bytes)) {
            gx_prog_free(device);
            break;
        }
        is_run = gx_prog_run_on(device, accel, device_bytes);
        gx_prog_free(device);
        device_bytes /= 4;
    }
    return is_run || !gx_ok(run);
}

gx_code gx_plan_run(gx_run *run, double flops, gx_dtype dtype, gx_plan_build build, void *arg)
{
    size_t device_bytes;
    gx_accel *accel = gx_plan_candidate(run, flops, dtype, &device_bytes);
    gx_prog *host = gx_ok(run) ? build(run, arg) : NULL;
    if (host != NULL && gx_ok(run)) {
        bool is_run = accel != NULL && run_on_device(run, host, accel, device_bytes, build, arg);
        if (!is_run) {
            gx_prog_run_on(host, NULL, 0);
        }
    }
    gx_prog_free(host);
    return gx_ok(run) ? GX_OK : run->err.code;
}
