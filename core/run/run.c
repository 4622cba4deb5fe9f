/*
** One SQL call: see run.h.
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

#include "progress.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Connections of the process with a call under way. */
static atomic_int under_way;

static const int64_t POLL_NS =
    10 * 1000 * 1000; /* an interrupt is seen this soon; see gx_run_poll() */

void gx_ctx_hold(gx_ctx *ctx)
{
    if (ctx->runs == 0 && ctx->holds > 0) { // not inside a call, but a cursor is open
        gx_store_renew(ctx->store);
    }
    ctx->holds++;
}

void gx_ctx_release(gx_ctx *ctx)
{
    assert(ctx->holds > ctx->runs);
    if (--ctx->holds == 0) {
        gx_store_release(ctx->store);
    }
    gx_ctx_log(ctx);
}

void gx_ctx_log(gx_ctx *ctx)
{
    if (ctx->is_logging || !atomic_load_explicit(&ctx->stats.is_untold, memory_order_relaxed)) {
        return; // who reads the log has made a call of its own
    }
    gx_event event;
    ctx->is_logging = true;
    atomic_store(&ctx->stats.is_untold, false);
    for (int left = GX_EVENTS_MOST;
         left > 0 && gx_events_next(ctx->stats.connection, ctx->logged, &event); left--) {
        ctx->logged = event.number;
        gx_store_log(&event);
    }
    ctx->is_logging = false;
}

void gx_ctx_failed(gx_ctx *ctx, const gx_err *err)
{
    gx_stats_failure(&ctx->stats, err);
    gx_ctx_log(ctx);
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
    run->planned_as = label;
    run->planned_work = 0;
    run->planned_model_s = run->planned_s = run->planned_own_s = 0;
    run->is_careful = run->is_planned_on_device = run->is_irregular = false;
    run->start_ns = gx_now_ns();
    run->polled_ns = run->start_ns;
    run->shown_ns = 0;
    run->done = 0;
    run->total = 0;
    run->expected_s = 0;
    run->base_flops = 0;
    run->base_bytes = 0;
    run->shown_percent = 0;
    run->is_shown = false;
    gx_ctx_hold(ctx);
    if (ctx->runs++ == 0) {
        atomic_fetch_add(&under_way, 1);
        if (ctx->accel != NULL) {
            ctx->attend(ctx, true);
        }
    }
    run->outer = gx_stats_begin(&ctx->stats, label);
    run->device_calls = gx_stats_get(&ctx->stats, GX_STAT_DEVICE_CALLS);
}

/* A call with a program that a device has run is the device's. */
static gx_ran ran_on(const gx_run *run)
{
    const gx_ctx *ctx = run->ctx;
    if (gx_stats_get(&ctx->stats, GX_STAT_DEVICE_CALLS) > run->device_calls) {
        return GX_RAN_CUDA;
    }
    bool is_reference = ctx->config.number[GX_SET_BACKEND] == GX_BACKEND_REFERENCE;
    return is_reference ? GX_RAN_REFERENCE : GX_RAN_CPU;
}

gx_code gx_run_end(gx_run *run)
{
    gx_ctx *ctx = run->ctx;
    gx_team_free(run->team);
    run->team = NULL;
    if (run->is_shown) {
        gx_progress_end(run);
    }
    assert(ctx->runs > 0 && ctx->holds >= ctx->runs);
    if (--ctx->runs == 0) {
        atomic_fetch_sub(&under_way, 1);
        if (ctx->accel != NULL) {
            ctx->attend(ctx, false);
        }
    }
    gx_ctx_release(ctx);
    int64_t taken_ns = gx_now_ns() - run->start_ns;
    gx_stats_end(&ctx->stats, run->label, run->outer, ran_on(run), taken_ns, &run->err);
    gx_ctx_log(ctx);
    gx_stats_set(&ctx->stats, GX_STAT_PREDICTED_NS, (int64_t)(1e9 * run->planned_s));
    gx_stats_set(&ctx->stats, GX_STAT_MEASURED_NS, taken_ns);
    if (run->planned_s > 0 && gx_ok(run) && !run->is_irregular) {
        gx_ledger_add(&ctx->ledger, run->planned_as, run->is_planned_on_device, run->planned_work,
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
        assert(run->err.text[0] != '\0' && "a failure says what failed");
        atomic_store(&run->stopped, true);
    }
    gx_code code = run->err.code;
    pthread_mutex_unlock(&run->lock);
    return code;
}

void *gx_run_alloc(gx_run *run, size_t bytes, const char *what)
{
    gx_err err = {0};
    void *memory = NULL;
    if (gx_ok(run) && gx_mem_alloc(run->ctx->mem, bytes, what, &memory, &err) != GX_OK) {
        gx_run_fail(run, &err);
    }
    return memory;
}

void *gx_run_calloc(gx_run *run, size_t bytes, const char *what)
{
    void *memory = gx_run_alloc(run, bytes, what);
    return memory == NULL ? NULL : memset(memory, 0, bytes);
}

gx_code gx_run_failf(gx_run *run, gx_code code, const char *format, ...)
{
    gx_err err = {.code = code};
    va_list args;
    va_start(args, format);
    vsnprintf(err.text, sizeof err.text, format, args);
    va_end(args);
    gx_text_clean(err.text);
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

gx_code gx_run_interrupted(void *arg, gx_err *err)
{
    gx_run *run = arg;
    int64_t now = gx_now_ns();
    if (now - run->polled_ns < POLL_NS) {
        return GX_OK;
    }
    run->polled_ns = now;
    return gx_store_is_interrupted(run->ctx->store) ? gx_fail(err, GX_INTERRUPT, "interrupted")
                                                    : GX_OK;
}

gx_code gx_run_poll(gx_run *run)
{
    if (!gx_ok(run)) {
        return gx_run_fail(run, &run->err);
    }
    int64_t polled_ns = run->polled_ns;
    gx_err err = {0};
    if (gx_run_interrupted(run, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    int64_t now = run->polled_ns;
    if (now == polled_ns) {
        return GX_OK; // too soon
    }
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
    run->expected_s = 0;
    gx_progress_begin(run);
}

void gx_run_advance(gx_run *run, double done)
{
    run->done += done;
}

void gx_run_expect(gx_run *run, double seconds)
{
    const double SHORT_S = 0.2; // progress shows nothing as early
    run->expected_s = seconds > SHORT_S ? seconds : 0;
    run->expected_ns = gx_now_ns();
}

int64_t gx_run_share(const gx_run *run, int64_t threads)
{
    int64_t users = atomic_load(&under_way);
    bool is_shared = users > 1 && run->ctx->config.number[GX_SET_DETERMINISTIC] == 0;
    return is_shared ? gx_ceil_div(threads, users) : threads;
}

int gx_run_threads(const gx_run *run)
{
    return (int)gx_run_share(run, run->ctx->config.number[GX_SET_THREADS]);
}

int64_t gx_run_threads_worth(double seconds)
{
    const double START = 20e-6, MANY = 1 << 20;
    return (int64_t)fmax(1, fmin(MANY, sqrt(seconds / START)));
}

gx_team *gx_run_team_for(gx_run *run, double seconds)
{
    gx_team *team = gx_run_team(run);
    if (team != NULL) {
        gx_team_limit(team, (int)gx_min(gx_run_threads(run), gx_run_threads_worth(seconds)));
    }
    return team;
}

gx_team *gx_run_team(gx_run *run)
{
    int threads = gx_run_threads(run);
    if (run->team != NULL) {
        gx_team_limit(run->team, threads);
    } else { // a team of one has no threads, but it polls
        gx_err err = {0};
        if (gx_team_create(threads, run->ctx->mem, gx_run_poll_fn, run, &run->team, &err) !=
            GX_OK) {
            gx_stats_note(&run->ctx->stats, "no team of %d: %s", threads, err.text);
        }
    }
    return run->team;
}

/* A careful run's reference, which has no state to close; else the connection's, opened now. */
static gx_code open_host(gx_run *run, const gx_backend **backend, gx_dev **dev)
{
    gx_ctx *ctx = run->ctx;
    gx_err err = {0};
    bool is_reference =
        run->is_careful || ctx->config.number[GX_SET_BACKEND] == GX_BACKEND_REFERENCE;
    *backend = is_reference ? &gx_backend_ref : &gx_backend_cpu;
    *dev = NULL;
    if ((*backend)->open(0, dev, &err) != GX_OK) {
        *backend = NULL;
        *dev = NULL;
        return gx_run_fail(run, &err);
    }
    if (!run->is_careful) {
        ctx->backend = *backend;
        ctx->dev = *dev;
    }
    return GX_OK;
}

gx_code gx_run_device(gx_run *run, const gx_backend **backend, gx_dev **dev)
{
    if (run->is_careful || run->ctx->dev == NULL) {
        return open_host(run, backend, dev);
    }
    *backend = run->ctx->backend;
    *dev = run->ctx->dev;
    return GX_OK;
}
