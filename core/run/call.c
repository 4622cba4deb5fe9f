/*
** One kernel call on buffers in memory: see call.h.
**
** Whoever computes on the host comes through here: programs (core/exec/exec_host.c) with a team and
** a cut of their own, calls of whole matrices with the run's.  So calls, flops and the time in
** kernels are counted once, and for all.
*/
#include "call.h"

#include <assert.h>

/* A product that is over before a clock could be read twice: neither timed nor polled for. */
static bool is_tiny(gx_kernel_id kernel, double flops)
{
    return kernel == GX_GEMM && flops < GX_CLOCK_FLOPS;
}

gx_code gx_run_call_cut(gx_run *run, gx_team *team, gx_kernel_id kernel, gx_number dtype,
                        const gx_args *args, const gx_cut *cut, gx_err *err)
{
    const gx_backend *backend;
    gx_dev *dev;
    assert(run->ctx->dev != NULL && args->info != NULL);
    gx_run_device(run, &backend, &dev); // which is open
    double flops = gx_kernel_flops(kernel, dtype, args);
    int64_t start_ns = is_tiny(kernel, flops) ? 0 : gx_now_ns();
    gx_code code = gx_team_call(team, backend, dev, kernel, dtype, args, cut, err);
    gx_stats_kernel(&run->ctx->stats, flops, is_tiny(kernel, flops) ? 0 : gx_now_ns() - start_ns);
    return code;
}

/* A spectrum, one long call, is left in the middle where the call is interrupted. */
static gx_code poll_inside(void *arg, gx_err *err)
{
    gx_run *run = arg;
    gx_code code = gx_run_interrupted(run, err);
    if (code != GX_OK) {
        gx_stats_add(&run->ctx->stats, GX_STAT_KERNELS_LEFT, 1);
    }
    return code;
}

gx_code gx_run_call(gx_run *run, gx_kernel_id kernel, gx_number dtype, const gx_args *args)
{
    const gx_backend *backend;
    gx_dev *dev;
    if (!gx_ok(run) || gx_run_device(run, &backend, &dev) != GX_OK) {
        return run->err.code;
    }
    gx_args call = *args;
    int64_t ignored = 0;
    call.info = args->info == NULL ? &ignored : args->info;
    call.poll = poll_inside;
    call.poll_arg = run;
    double flops = gx_kernel_flops(kernel, dtype, args);
    gx_cut cut = {.is_fixed = run->ctx->config.number[GX_SET_DETERMINISTIC] != 0};
    gx_team *team = flops < GX_TEAM_FLOPS ? NULL : gx_run_team_for(run, GX_SECONDS_OF_FLOPS(flops));
    gx_err err;
    err.code = GX_OK; // its text, half a kilobyte, comes with a failure
    gx_run_call_cut(run, team, kernel, dtype, &call, &cut, &err);
    if (err.code != GX_OK) {
        return gx_run_fail(run, &err);
    }
    return is_tiny(kernel, flops) ? GX_OK : gx_run_poll(run);
}

/* NULL: the caller alone. */
static gx_team *team_for(gx_run *run, double work)
{
    const double WORTH_A_TEAM = 1 << 17, ITS_TIME = 1e-4; // elements, seconds
    return !gx_ok(run) || work < WORTH_A_TEAM
               ? NULL
               : gx_run_team_for(run, ITS_TIME / WORTH_A_TEAM * work);
}

int gx_run_members(gx_run *run, double work)
{
    return gx_team_threads(team_for(run, work));
}

gx_code gx_run_pieces(gx_run *run, double work, int64_t pieces, gx_team_fn fn, void *arg)
{
    gx_err err = {0};
    gx_team *team = team_for(run, work);
    if (team != NULL) {
        gx_team_run(team, pieces, fn, arg, &err);
    }
    for (int64_t k = 0; team == NULL && k < pieces && gx_ok(run) && err.code == GX_OK; k++) {
        fn(arg, k, 0, &err);
        gx_run_poll(run);
    }
    gx_run_fail(run, &err);
    return gx_ok(run) ? GX_OK : run->err.code;
}
