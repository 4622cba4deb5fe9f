/*
** Progress: see progress.h.
**
** On a terminal one line is rewritten, from half a second on and at most ten times a second:
**
**     gx_matmul [###########              ]  45 %   98.1 GFLOP/s   1.20 GB/s   12 s left
**
** and the end of the call replaces it by one line that stays.  Where stderr is a file or a pipe
** there is a plain line at every 5 %, or every 5 seconds where the amount of work is unknown.
** The rates are the connection's counters of flops and tile bytes since the work began; time
** left assumes that the rest goes as what is done did.  While one call of LAPACK runs, which does
** not say how far it is, the clock and the predicted time do: "about 45 %".
**
** An SQL function is called as fn(label, fraction, seconds), from a tenth of a second on and as
** often, and a last time with fraction 1 when the call has succeeded.  What it returns then is
** not looked at.
**
** This is the one place of gx that writes to a stream, and only where the user asked for it.  A
** reader of stderr that has gone away must not kill the process, so SIGPIPE is held back around
** the write.
*/
#include "progress.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 160, BAR_WIDTH = 25, PLAIN_PERCENT = 5 };

static const int64_t FIRST_LINE_NS = 500 * 1000 * 1000;
static const int64_t FIRST_CALL_NS = 100 * 1000 * 1000;
static const int64_t INTERVAL_NS = 100 * 1000 * 1000;
static const int64_t UNKNOWN_INTERVAL_NS = (int64_t)5 * 1000 * 1000 * 1000;

static int64_t tile_bytes(const gx_run *run)
{
    const gx_stats *stats = &run->ctx->stats;
    return gx_stats_get(stats, GX_STAT_BYTES_READ) + gx_stats_get(stats, GX_STAT_BYTES_WRITTEN);
}

void gx_progress_begin(gx_run *run)
{
    run->base_flops = gx_stats_get(&run->ctx->stats, GX_STAT_FLOPS);
    run->base_bytes = tile_bytes(run);
}

/* By the clock: in time up to most of it, then ever slower, never all. */
static double fraction_by_clock(const gx_run *run)
{
    const double IN_TIME = 0.8, MOST = 0.99;
    double t = (double)(gx_now_ns() - run->expected_ns) * 1e-9 / run->expected_s;
    return t < IN_TIME ? t : MOST - (MOST - IN_TIME) * exp((IN_TIME - t) / (MOST - IN_TIME));
}

static double fraction_done(const gx_run *run)
{
    if (run->expected_s > 0) {
        return fraction_by_clock(run);
    }
    if (!(run->total > 0)) {
        return 0;
    }
    double fraction = run->done / run->total;
    return fraction > 1 ? 1 : fraction > 0 ? fraction : 0;
}

static double seconds_since(const gx_run *run, int64_t now_ns)
{
    return (double)(now_ns - run->start_ns) * 1e-9;
}

// Text --------------------------------------------------------------------------------------------

typedef struct text_line {
    char text[LINE_BYTES];
    size_t used;
} text_line;

static void append(text_line *line, const char *text)
{
    size_t count = strlen(text), room = sizeof line->text - 1 - line->used;
    count = count < room ? count : room;
    memcpy(line->text + line->used, text, count);
    line->used += count;
    line->text[line->used] = '\0';
}

static void append_duration(text_line *line, double seconds)
{
    char text[40];
    int64_t whole = (int64_t)(seconds + 0.5);
    if (seconds < 10) {
        snprintf(text, sizeof text, "%.1f s", seconds);
    } else if (whole < 60) {
        snprintf(text, sizeof text, "%" PRId64 " s", whole);
    } else if (whole < 3600) {
        snprintf(text, sizeof text, "%" PRId64 " min %02" PRId64 " s", whole / 60, whole % 60);
    } else {
        snprintf(text, sizeof text, "%" PRId64 " h %02" PRId64 " min", whole / 3600,
                 whole / 60 % 60);
    }
    append(line, text);
}

/* "98.1 GFLOP/s": three digits and a decimal prefix. */
static void append_rate(text_line *line, double per_s, const char *unit)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
    size_t prefix = 0;
    while (per_s >= 999.5 && prefix + 1 < sizeof prefixes / sizeof prefixes[0]) {
        per_s /= 1000;
        prefix++;
    }
    char text[40];
    int decimals = per_s < 9.995 ? 2 : per_s < 99.95 ? 1 : 0;
    snprintf(text, sizeof text, "   %.*f %s%s", decimals, per_s, prefixes[prefix], unit);
    append(line, text);
}

static void append_rates(text_line *line, const gx_run *run, double seconds)
{
    int64_t flops = gx_stats_get(&run->ctx->stats, GX_STAT_FLOPS) - run->base_flops;
    int64_t bytes = tile_bytes(run) - run->base_bytes;
    if (flops > 0 && seconds > 0) {
        append_rate(line, (double)flops / seconds, "FLOP/s");
    }
    if (bytes > 0 && seconds > 0) {
        append_rate(line, (double)bytes / seconds, "B/s");
    }
}

static void append_bar(text_line *line, double fraction)
{
    char bar[BAR_WIDTH + 4];
    int full = (int)(fraction * BAR_WIDTH + 0.5);
    snprintf(bar, sizeof bar, " [%*s]", BAR_WIDTH, "");
    memset(bar + 2, '#', (size_t)full);
    append(line, bar);
}

static void compose(text_line *line, const gx_run *run, bool has_bar, double seconds)
{
    double fraction = fraction_done(run);
    append(line, run->label);
    bool is_estimate = run->expected_s > 0;
    if (run->total > 0 || is_estimate) {
        if (has_bar) {
            append_bar(line, fraction);
        }
        char percent[24];
        snprintf(percent, sizeof percent, "%s %3d %%", is_estimate ? " about" : "",
                 (int)(fraction * 100));
        append(line, percent);
    } else {
        append(line, " ");
        append_duration(line, seconds);
    }
    append_rates(line, run, seconds);
    if (fraction > 0 && fraction < 1) {
        append(line, "   ");
        append_duration(line, seconds * (1 - fraction) / fraction);
        append(line, " left");
    }
}

// Output ------------------------------------------------------------------------------------------

/* write() to stderr that neither raises SIGPIPE nor minds a failure: progress is a courtesy. */
static void write_stderr(const text_line *line)
{
    sigset_t pipe_set, before, pending;
    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe_set, &before);
    ssize_t written = write(STDERR_FILENO, line->text, line->used);
    if (written < 0 && !sigismember(&pending, SIGPIPE)) {
        (void)sigtimedwait(&pipe_set, NULL, &(struct timespec){0}); // take back the one just raised
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void show_on_terminal(gx_run *run, double seconds)
{
    text_line line = {0};
    append(&line, "\r");
    compose(&line, run, true, seconds);
    append(&line, "\033[K"); // clears what a longer line has left
    write_stderr(&line);
}

static void show_plain(gx_run *run, double seconds)
{
    text_line line = {0};
    compose(&line, run, false, seconds);
    append(&line, "\n");
    write_stderr(&line);
}

/* Plain lines are for files: one at every 5 %. */
static bool is_plain_due(gx_run *run, int64_t now_ns)
{
    if (!(run->total > 0) && !(run->expected_s > 0)) {
        return !run->is_shown || now_ns - run->shown_ns >= UNKNOWN_INTERVAL_NS;
    }
    int percent = (int)(fraction_done(run) * 100) / PLAIN_PERCENT * PLAIN_PERCENT;
    bool is_due = !run->is_shown || percent > run->shown_percent;
    if (is_due) {
        run->shown_percent = percent;
    }
    return is_due;
}

static gx_code call_function(gx_run *run, double fraction, double seconds, gx_err *err)
{
    gx_ctx *ctx = run->ctx;
    char function[64]; // a copy: the function may set 'progress'
    memcpy(function, ctx->config.text[GX_SET_PROGRESS], sizeof function);
    return gx_store_call_progress(ctx->store, function, run->label, fraction, seconds, err);
}

gx_code gx_progress_show(gx_run *run, int64_t now_ns, gx_err *err)
{
    int64_t choice = run->ctx->config.number[GX_SET_PROGRESS];
    if (choice == GX_PROGRESS_OFF) {
        return GX_OK;
    }
    int64_t first = choice == GX_PROGRESS_ON ? FIRST_LINE_NS : FIRST_CALL_NS;
    if (now_ns - run->start_ns < first || now_ns - run->shown_ns < INTERVAL_NS) {
        return GX_OK;
    }
    double seconds = seconds_since(run, now_ns);
    if (choice == GX_PROGRESS_CALLBACK) {
        run->shown_ns = now_ns;
        run->is_shown = true;
        return call_function(run, fraction_done(run), seconds, err);
    }
    if (isatty(STDERR_FILENO)) {
        show_on_terminal(run, seconds);
    } else if (is_plain_due(run, now_ns)) {
        show_plain(run, seconds);
    } else {
        return GX_OK;
    }
    run->shown_ns = now_ns;
    run->is_shown = true;
    return GX_OK;
}

void gx_progress_end(gx_run *run)
{
    int64_t choice = run->ctx->config.number[GX_SET_PROGRESS];
    double seconds = seconds_since(run, gx_now_ns());
    if (choice == GX_PROGRESS_CALLBACK) {
        gx_err ignored = {0};
        if (run->err.code == GX_OK) {
            (void)call_function(run, 1, seconds, &ignored);
        }
        return;
    }
    text_line line = {0};
    if (isatty(STDERR_FILENO)) {
        append(&line, "\r");
    }
    append(&line, run->label);
    append(&line, run->err.code == GX_OK ? " took " : " stopped after ");
    append_duration(&line, seconds);
    append_rates(&line, run, seconds);
    append(&line, isatty(STDERR_FILENO) ? "\033[K\n" : "\n");
    write_stderr(&line);
}
