/*
** What a connection has, and one SQL call: see run.h.
**
** A call of a function on 4 x 4 values lasts a microsecond or two, so beginning and ending a run
** costs two looks at the clock and nothing else: no allocation, no system call, no thread.  The
** team, the device and the progress report come into being when they are first wanted.
**
** Threads report failures through gx_run_fail(): the first one is kept under the run's lock,
** then the flag `stopped` is raised, and everybody else sees the flag.  Only the caller's thread
** polls: it looks at sqlite3_interrupt() and reports progress, at most every 10 ms.
**
** Calls nest (a progress callback may run SQL of its own, a cursor of gx_cells is open while
** functions are called for its rows); what the store keeps for a call is therefore released by
** the last one out.
*/
#include "run.h"

#include "../device/accel.h"
#include "../device/device.h"
#include "progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const int64_t POLL_NS =
    10 * 1000 * 1000; /* an interrupt is seen this soon; see gx_run_poll() */

// The connection ----------------------------------------------------------------------------------

static void warn(void *arg, const char *text)
{
    gx_stats_note(arg, "%s", text);
}

/* A backend that the environment asks for and the machine lacks is a remark, not a failure. */
static void check_environment_backend(gx_ctx *ctx)
{
    const gx_backend *backend;
    gx_err err = {0};
    gx_config *config = &ctx->config;
    if (gx_device_choose(ctx, &backend, &err) != GX_OK) {
        gx_stats_note(&ctx->stats, "GX_BACKEND ignored: %s", err.text);
        memcpy(config->default_text[GX_SET_BACKEND], "auto", sizeof "auto");
        (void)gx_config_set(config, GX_SET_BACKEND, "auto", NULL);
    }
}

gx_code gx_ctx_create(struct sqlite3 *db, gx_ctx **out, gx_err *err)
{
    *out = NULL;
    void *memory;
    GX_TRY(gx_mem_calloc(NULL, sizeof(gx_ctx), "connection", &memory, err));
    gx_ctx *ctx = memory;
    gx_config_init(&ctx->config, warn, &ctx->stats);
    check_environment_backend(ctx);
    gx_code rc = gx_mem_create((size_t)ctx->config.number[GX_SET_MEMORY_LIMIT], &ctx->mem, err);
    if (rc == GX_OK) {
        rc = gx_store_open(db, ctx->mem, &ctx->store, err);
    }
    if (rc != GX_OK) {
        gx_ctx_free(ctx);
        return rc;
    }
    gx_store_set_tile_bytes(ctx->store, (size_t)ctx->config.number[GX_SET_TILE_BYTES]);
    gx_store_set_stats(ctx->store, &ctx->stats);
    *out = ctx;
    return GX_OK;
}

static void close_host(gx_ctx *ctx)
{
    if (ctx->dev != NULL) {
        ctx->backend->close(ctx->dev);
    }
    ctx->dev = NULL;
    ctx->backend = NULL;
}

void gx_ctx_free(gx_ctx *ctx)
{
    if (ctx == NULL) {
        return;
    }
    close_host(ctx);
    gx_accel_close(ctx);
    gx_store_close(ctx->store);
    gx_mem_free_all(ctx->mem);
    gx_mem_free(NULL, ctx);
}

gx_code gx_ctx_configure(gx_ctx *ctx, gx_setting setting, const char *value, gx_err *err)
{
    if (ctx->runs > 1 && setting != GX_SET_PROGRESS) {
        return gx_fail(err, GX_ARG, "%s cannot be set while another call of gx is running",
                       gx_config_info(setting)->key);
    }
    gx_config *config = &ctx->config;
    bool was_off = setting == GX_SET_FILES && config->number[setting] == 0;
    char before[sizeof config->text[0]];
    memcpy(before, config->text[setting], sizeof before);
    GX_TRY(gx_config_set(config, setting, value, err));
    int64_t number = config->number[setting];
    if (was_off && number != 0) { // whoever switched it off does not want SQL to switch it on
        (void)gx_config_set(config, setting, before, NULL);
        return gx_fail(err, GX_ARG, "files is off and stays off in this connection");
    }
    if (setting == GX_SET_MEMORY_LIMIT) {
        gx_mem_set_limit(ctx->mem, (size_t)number);
    } else if (setting == GX_SET_TILE_BYTES) {
        gx_store_set_tile_bytes(ctx->store, (size_t)number);
    } else if (setting == GX_SET_CUDA_PATH) {
        ctx->is_cuda_tried = ctx->cuda != NULL; // what is open stays; else look again
    } else if (setting == GX_SET_DEVICE) {
        gx_accel_close(ctx);
        ctx->is_accel_off = false;
    } else if (setting == GX_SET_BACKEND) {
        const gx_backend *backend;
        gx_code rc = gx_device_choose(ctx, &backend, err);
        if (rc != GX_OK) {
            (void)gx_config_set(config, setting, before, NULL);
            return rc;
        }
        close_host(ctx);
        if (number != GX_BACKEND_AUTO && number != GX_BACKEND_CUDA) {
            gx_accel_close(ctx); // else it is still wanted, with what it keeps
        }
        ctx->is_accel_off = false; // whoever sets it wants it tried again
    }
    return GX_OK; // the other settings are looked up where they are used
}

void gx_ctx_hold(gx_ctx *ctx)
{
    if (ctx->runs == 0 && ctx->holds > 0) { // not inside a call, but a cursor is open
        gx_store_renew(ctx->store);
    }
    ctx->holds++;
}

void gx_ctx_release(gx_ctx *ctx)
{
    if (--ctx->holds == 0) {
        gx_store_release(ctx->store);
    }
}

// The call ----------------------------------------------------------------------------------------

void gx_run_begin(gx_run *run, gx_ctx *ctx, const char *label)
{
    run->ctx = ctx;
    run->label = label;
    run->err.code = GX_OK;
    run->err.text[0] = '\0';
    pthread_mutex_init(&run->lock, NULL);
    atomic_init(&run->stopped, false);
    run->team = NULL;
    run->target = NULL;
    run->target_bytes = 0;
    run->planned_as = NULL;
    run->planned_work = 0;
    run->planned_model_s = run->planned_s = 0;
    run->is_planned_on_device = run->is_irregular = false;
    run->start_ns = gx_now_ns();
    run->polled_ns = run->start_ns;
    run->shown_ns = 0;
    run->done = 0;
    run->total = 0;
    run->base_flops = 0;
    run->base_bytes = 0;
    run->shown_percent = 0;
    run->is_shown = false;
    gx_ctx_hold(ctx);
    ctx->runs++;
}

gx_code gx_run_end(gx_run *run)
{
    gx_ctx *ctx = run->ctx;
    gx_team_free(run->team);
    run->team = NULL;
    if (run->is_shown) {
        gx_progress_end(run);
    }
    ctx->runs--;
    gx_ctx_release(ctx);
    gx_stats_add(&ctx->stats, GX_STAT_CALLS, 1);
    int64_t taken_ns = gx_now_ns() - run->start_ns;
    gx_stats_set(&ctx->stats, GX_STAT_PREDICTED_NS, (int64_t)(1e9 * run->planned_s));
    gx_stats_set(&ctx->stats, GX_STAT_MEASURED_NS, taken_ns);
    if (run->planned_s > 0 && gx_ok(run) && !run->is_irregular) {
        gx_ledger_add(&ctx->ledger, run->label, run->is_planned_on_device, run->planned_work,
                      run->planned_model_s, run->planned_s, (double)taken_ns * 1e-9);
    }
    pthread_mutex_destroy(&run->lock);
    return run->err.code;
}

gx_code gx_run_fail(gx_run *run, const gx_err *err)
{
    pthread_mutex_lock(&run->lock);
    if (err->code != GX_OK) {
        if (run->err.code == GX_OK) {
            run->err = *err;
        }
        atomic_store(&run->stopped, true);
    }
    gx_code code = run->err.code;
    pthread_mutex_unlock(&run->lock);
    return code;
}

gx_code gx_run_failf(gx_run *run, gx_code code, const char *format, ...)
{
    gx_err err = {.code = code};
    va_list args;
    va_start(args, format);
    vsnprintf(err.text, sizeof err.text, format, args);
    va_end(args);
    for (char *c = err.text; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ') {
            *c = ' ';
        }
    }
    return gx_run_fail(run, &err);
}

bool gx_run_forgive(gx_run *run, gx_code code)
{
    if (gx_ok(run) || run->err.code != code) {
        return false;
    }
    run->err.code = GX_OK;
    run->err.text[0] = '\0';
    atomic_store(&run->stopped, false);
    return true;
}

gx_code gx_run_poll(gx_run *run)
{
    if (!gx_ok(run)) {
        return gx_run_fail(run, &run->err);
    }
    int64_t now = gx_now_ns();
    if (now - run->polled_ns < POLL_NS) {
        return GX_OK;
    }
    run->polled_ns = now;
    if (gx_store_is_interrupted(run->ctx->store)) {
        return gx_run_failf(run, GX_INTERRUPT, "interrupted");
    }
    gx_err err = {0};
    if (gx_progress_show(run, now, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    return GX_OK;
}

gx_code gx_run_poll_fn(void *arg, gx_err *err)
{
    gx_run *run = arg;
    gx_code code = gx_run_poll(run);
    return code == GX_OK ? GX_OK : gx_fail(err, code, "%s", run->err.text);
}

void gx_run_progress(gx_run *run, double total)
{
    run->done = 0;
    run->total = total;
    gx_progress_begin(run);
}

void gx_run_advance(gx_run *run, double done)
{
    run->done += done;
}

gx_team *gx_run_team(gx_run *run)
{
    int threads = (int)run->ctx->config.number[GX_SET_THREADS];
    if (run->team == NULL) { // a team of one has no threads, but it polls
        gx_err err = {0};
        if (gx_team_create(threads, run->ctx->mem, gx_run_poll_fn, run, &run->team, &err) !=
            GX_OK) {
            gx_stats_note(&run->ctx->stats, "no team of %d: %s", threads, err.text);
        }
    }
    return run->team;
}

gx_code gx_run_device(gx_run *run, const gx_backend **backend, gx_dev **dev)
{
    gx_ctx *ctx = run->ctx;
    *backend = NULL;
    *dev = NULL;
    if (ctx->dev == NULL) {
        gx_err err = {0};
        const gx_backend *chosen;
        chosen = ctx->config.number[GX_SET_BACKEND] == GX_BACKEND_REFERENCE ? &gx_backend_ref
                                                                            : &gx_backend_cpu;
        if (chosen->open(0, &ctx->dev, &err) != GX_OK) {
            ctx->dev = NULL;
            return gx_run_fail(run, &err);
        }
        ctx->backend = chosen;
    }
    *backend = ctx->backend;
    *dev = ctx->dev;
    return GX_OK;
}
