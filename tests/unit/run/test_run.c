/*
** Connections and calls.  Test plan:
**
**   1. A context: made, configured, freed; settings have their consequences; the backend cuda
**      is refused in words where gx_cuda.so is missing; files that are off stay off.
**   2. A run: counted, first failure wins (also from threads), holds are paired, calls nest,
**      beginning and ending is cheap.
**   3. Polling: an interrupt is seen; polls within 10 ms look at nothing.
**   4. Progress as plain lines, on a terminal, by an SQL function: when, what, how often, the
**      end. Time is not waited for: the run's start is moved into the past.
**   5. A reader of stderr that went away kills nobody.
**   6. Teams and devices are made at first use.
*/
#include "connection.h"
#include "run/run.h"

#include "run/progress.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const int64_t SECOND = 1000000000;

typedef struct fixture {
    sqlite3 *db;
    gx_ctx *ctx;
    size_t used; /* bytes of the budget that a connection at rest holds */
} fixture;

static int set_up(void **state)
{
    static fixture f;
    gx_err err = {0};
    assert_int_equal(sqlite3_open(":memory:", &f.db), SQLITE_OK);
    assert_int_equal(gx_ctx_create(f.db, &f.ctx, &err), GX_OK);
    f.used = gx_mem_used(f.ctx->mem);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    assert_int_equal(f->ctx->holds, 0);
    assert_int_equal(f->ctx->runs, 0);
    assert_int_equal(gx_mem_used(f->ctx->mem), f->used);
    gx_ctx_free(f->ctx);
    assert_int_equal(sqlite3_close(f->db), SQLITE_OK);
    return 0;
}

static void configure(gx_ctx *ctx, gx_setting setting, const char *value)
{
    gx_err err = {0};
    if (gx_ctx_configure(ctx, setting, value, &err) != GX_OK) {
        fail_msg("%s", err.text);
    }
}

static void expect_refusal(gx_ctx *ctx, gx_setting setting, const char *value, gx_code code,
                           const char *text)
{
    gx_err err = {0};
    char before[64];
    memcpy(before, ctx->config.text[setting], sizeof before);
    assert_int_equal(gx_ctx_configure_by_sql(ctx, setting, value, &err), code);
    assert_string_equal(err.text, text);
    assert_string_equal(ctx->config.text[setting], before);
}

// 1. The context ----------------------------------------------------------------------------------

static void test_configure(void **state)
{
    gx_ctx *ctx = ((fixture *)*state)->ctx;
    assert_int_equal(gx_mem_limit(ctx->mem), (size_t)ctx->config.number[GX_SET_MEMORY_LIMIT]);
    configure(ctx, GX_SET_MEMORY_LIMIT, "64MB");
    assert_int_equal(gx_mem_limit(ctx->mem), 64000000);
    configure(ctx, GX_SET_TILE_BYTES, "4096");
    assert_int_equal(gx_store_max_tile_bytes(ctx->store), 4096);
    configure(ctx, GX_SET_BACKEND, "auto");
    expect_refusal(ctx, GX_SET_BACKEND, "cuda", GX_DEVICE,
                   "backend cuda is not available: gx_cuda.so is not beside gx.so");
    configure(ctx, GX_SET_FILES, "on");
    configure(ctx, GX_SET_FILES, "off");
    configure(ctx, GX_SET_FILES, "off");
    expect_refusal(ctx, GX_SET_FILES, "on", GX_ARG,
                   "files is off and stays off in this connection");
}

static void test_environment_backend(void **state)
{
    fixture *f = *state;
    setenv("GX_BACKEND", "cuda", 1);
    gx_ctx *ctx;
    gx_err err = {0};
    assert_int_equal(gx_ctx_create(f->db, &ctx, &err), GX_OK);
    unsetenv("GX_BACKEND");
    assert_string_equal(ctx->config.text[GX_SET_BACKEND], "auto");
    struct gx_note note;
    assert_true(gx_stats_note_get(&ctx->stats, 0, &note));
    assert_string_equal(note.text,
                        "GX_BACKEND ignored: backend cuda is not available: gx_cuda.so is "
                        "not beside gx.so");
    gx_ctx_free(ctx);
    gx_ctx_free(NULL);
}

// 2. The run --------------------------------------------------------------------------------------

static void test_begin_end(void **state)
{
    gx_ctx *ctx = ((fixture *)*state)->ctx;
    gx_run outer, inner;
    gx_run_begin(&outer, ctx, "gx_outer");
    assert_true(gx_ok(&outer));
    gx_run_begin(&inner, ctx, "gx_inner");
    assert_int_equal(ctx->runs, 2);
    expect_refusal(ctx, GX_SET_THREADS, "1", GX_ARG,
                   "threads cannot be set while another call of gx is running");
    configure(ctx, GX_SET_PROGRESS, "off");
    assert_int_equal(gx_run_end(&inner), GX_OK);
    configure(ctx, GX_SET_THREADS, "1"); // as gx_config() does, whose own run is the only one
    assert_int_equal(gx_run_end(&outer), GX_OK);
    assert_int_equal(gx_stats_get(&ctx->stats, GX_STAT_CALLS), 2);
    assert_true(gx_stats_get(&ctx->stats, GX_STAT_MEASURED_NS) > 0);
}

/* Processor time of this thread, so that a busy machine does not count. */
static int64_t processor_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * SECOND + now.tv_nsec;
}

static void test_cheap(void **state)
{
    gx_ctx *ctx = ((fixture *)*state)->ctx;
    enum { CALLS = 20000, TRIES = 5 };
    int64_t best = INT64_MAX;
    for (int try = 0; try < TRIES; try++) {
        int64_t start = processor_ns();
        for (int i = 0; i < CALLS; i++) {
            gx_run run;
            gx_run_begin(&run, ctx, "gx_test");
            gx_run_end(&run);
        }
        best = gx_min(best, processor_ns() - start);
    }
    print_message("begin and end: %lld ns\n", (long long)(best / CALLS));
    assert_true(best / CALLS < 3000); // about 100 where it is not instrumented
}

static void test_failures(void **state)
{
    gx_ctx *ctx = ((fixture *)*state)->ctx;
    gx_run run;
    gx_run_begin(&run, ctx, "gx_test");
    gx_err none = {0}, second = {.code = GX_IO, .text = "second"};
    assert_int_equal(gx_run_fail(&run, &none), GX_OK);
    assert_true(gx_ok(&run));
    assert_int_equal(gx_run_failf(&run, GX_ARG, "A is %dx%d\nbut", 3, 4), GX_ARG);
    assert_false(gx_ok(&run));
    assert_int_equal(gx_run_fail(&run, &second), GX_ARG);
    assert_int_equal(gx_run_poll(&run), GX_ARG);
    gx_err copy = {0};
    assert_int_equal(gx_run_poll_fn(&run, &copy), GX_ARG);
    assert_string_equal(copy.text, "A is 3x4 but");
    assert_int_equal(gx_run_end(&run), GX_ARG);

    // A failure that was written into the run's own gx_err stops it when it is reported.
    gx_run_begin(&run, ctx, "gx_test");
    gx_fail(&run.err, GX_CORRUPT, "tile 3");
    assert_int_equal(gx_run_fail(&run, &run.err), GX_CORRUPT);
    assert_false(gx_ok(&run));
    assert_int_equal(gx_run_end(&run), GX_CORRUPT);
}

static void *report(void *arg)
{
    gx_run *run = arg;
    gx_run_failf(run, GX_NUMERIC, "column %d", 7);
    return NULL;
}

static void test_threads_report(void **state)
{
    gx_run run;
    gx_run_begin(&run, ((fixture *)*state)->ctx, "gx_test");
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, report, &run), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_false(gx_ok(&run));
    assert_string_equal(run.err.text, "column 7");
    assert_int_equal(gx_run_end(&run), GX_NUMERIC);
}

// 3. Polling --------------------------------------------------------------------------------------

static int interrupt_on_call; // the poll to be seen happens inside a running statement

static void poll_in_statement(sqlite3_context *sql, int argc, sqlite3_value **argv)
{
    (void)argc;
    (void)argv;
    gx_run *run = sqlite3_user_data(sql);
    interrupt_on_call = gx_run_poll(run); // too early to look
    sqlite3_interrupt(sqlite3_context_db_handle(sql));
    assert_int_equal(gx_run_poll(run), GX_OK); // still too early
    run->polled_ns -= SECOND;
    interrupt_on_call = gx_run_poll(run);
}

static void test_interrupt(void **state)
{
    fixture *f = *state;
    gx_run run;
    gx_run_begin(&run, f->ctx, "gx_test");
    sqlite3_create_function(f->db, "poll", 0, SQLITE_UTF8, &run, poll_in_statement, NULL, NULL);
    sqlite3_exec(f->db, "SELECT poll()", NULL, NULL, NULL);
    assert_int_equal(interrupt_on_call, GX_INTERRUPT);
    assert_string_equal(run.err.text, "interrupted");
    assert_int_equal(gx_run_end(&run), GX_INTERRUPT);
}

// 4. Progress -------------------------------------------------------------------------------------

/* Standard error goes into fd until restored; what was written meanwhile comes back as text. */
static int saved_stderr;

static void capture(int fd)
{
    fflush(stderr);
    saved_stderr = dup(STDERR_FILENO);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
}

static void restore(void)
{
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
}

static int open_scratch(void)
{
    char path[] = "/tmp/gx_test_run_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    return fd;
}

/* Let the run look as if so many seconds had passed since it began, then poll. */
static gx_code poll_after(gx_run *run, double seconds)
{
    run->start_ns = gx_now_ns() - (int64_t)(seconds * (double)SECOND);
    run->polled_ns = run->start_ns;
    run->shown_ns -= SECOND;
    return gx_run_poll(run);
}

static void test_plain(void **state)
{
    gx_ctx *ctx = ((fixture *)*state)->ctx;
    configure(ctx, GX_SET_PROGRESS, "on");
    int fd = open_scratch();
    capture(fd);
    gx_run run;
    gx_run_begin(&run, ctx, "gx_matmul");
    gx_run_progress(&run, 200);
    gx_run_advance(&run, 2);
    poll_after(&run, 0.4); // too early: nothing
    gx_stats_add(&ctx->stats, GX_STAT_FLOPS, 4000000000);
    gx_run_advance(&run, 18);
    poll_after(&run, 2.001); // 10 %
    gx_run_advance(&run, 9);
    poll_after(&run, 3); // 14 %: no step of 5 %
    gx_run_advance(&run, 71);
    gx_stats_add(&ctx->stats, GX_STAT_BYTES_READ, 123456);
    poll_after(&run, 100.4); // 50 %
    run.start_ns = gx_now_ns() - 3725 * SECOND;
    gx_run_end(&run);
    restore();
    char text[1000] = "";
    assert_true(pread(fd, text, sizeof text - 1, 0) > 0);
    close(fd);
    assert_string_equal(text, "gx_matmul  10 %   2.00 GFLOP/s   18 s left\n"
                              "gx_matmul  50 %   39.8 MFLOP/s   1.23 kB/s   1 min 40 s left\n"
                              "gx_matmul took 1 h 02 min   1.07 MFLOP/s   33.1 B/s\n");
}

static void test_plain_unknown_total(void **state)
{
    gx_ctx *ctx = ((fixture *)*state)->ctx;
    configure(ctx, GX_SET_PROGRESS, "on");
    int fd = open_scratch();
    capture(fd);
    gx_run run;
    gx_run_begin(&run, ctx, "gx_import");
    poll_after(&run, 1);
    poll_after(&run, 2); // a line every 5 seconds
    run.shown_ns -= 5 * SECOND;
    poll_after(&run, 8);
    gx_run_failf(&run, GX_IO, "no more");
    run.start_ns = gx_now_ns() - 9 * SECOND;
    gx_run_end(&run);
    restore();
    char text[1000] = "";
    assert_true(pread(fd, text, sizeof text - 1, 0) > 0);
    close(fd);
    assert_string_equal(text, "gx_import 1.0 s\ngx_import 8.0 s\ngx_import stopped after 9.0 s\n");
}

static void test_short_call_is_silent(void **state)
{
    gx_ctx *ctx = ((fixture *)*state)->ctx;
    configure(ctx, GX_SET_PROGRESS, "on");
    int fd = open_scratch();
    capture(fd);
    gx_run run;
    gx_run_begin(&run, ctx, "gx_matmul");
    gx_run_progress(&run, 10);
    gx_run_advance(&run, 10);
    poll_after(&run, 0.3);
    gx_run_end(&run);
    restore();
    assert_int_equal(lseek(fd, 0, SEEK_END), 0);
    close(fd);
}

static void test_terminal(void **state)
{
    gx_ctx *ctx = ((fixture *)*state)->ctx;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
        skip(); // no pseudo-terminals here
    }
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);
    struct termios mode;
    tcgetattr(slave, &mode);
    mode.c_oflag &= ~(tcflag_t)OPOST; // bytes as they are
    tcsetattr(slave, TCSANOW, &mode);
    configure(ctx, GX_SET_PROGRESS, "on");
    capture(slave);
    gx_run run;
    gx_run_begin(&run, ctx, "gx_matmul");
    gx_run_progress(&run, 100);
    gx_run_advance(&run, 40);
    poll_after(&run, 2);
    int64_t shown = run.shown_ns;
    run.polled_ns -= SECOND;
    gx_run_poll(&run); // within a tenth of a second: not shown again
    assert_int_equal(run.shown_ns, shown);
    run.start_ns = gx_now_ns() - 4 * SECOND;
    gx_run_end(&run);
    restore();
    static const char expected[] =
        "\rgx_matmul [##########               ]  40 %   3.0 s left\033[K"
        "\rgx_matmul took 4.0 s\033[K\n";
    char text[1000] = "";
    size_t count = 0;
    while (count < sizeof expected - 1) { // a terminal hands out what has come so far
        ssize_t more = read(master, text + count, sizeof text - 1 - count);
        assert_true(more > 0);
        count += (size_t)more;
    }
    close(slave);
    close(master);
    assert_string_equal(text, expected);
}

typedef struct calls {
    int count, answer;
    char label[32];
    double fraction[10], seconds;
} calls;

static void on_progress(sqlite3_context *sql, int argc, sqlite3_value **argv)
{
    (void)argc;
    calls *seen = sqlite3_user_data(sql);
    snprintf(seen->label, sizeof seen->label, "%s", (const char *)sqlite3_value_text(argv[0]));
    seen->fraction[seen->count++] = sqlite3_value_double(argv[1]);
    seen->seconds = sqlite3_value_double(argv[2]);
    if (seen->answer < 0) {
        sqlite3_result_error(sql, "no display", -1);
    } else {
        sqlite3_result_int(sql, seen->answer);
    }
}

static void test_function(void **state)
{
    fixture *f = *state;
    calls seen = {0};
    sqlite3_create_function(f->db, "on_progress", 3, SQLITE_UTF8, &seen, on_progress, NULL, NULL);
    configure(f->ctx, GX_SET_PROGRESS, "on_progress");
    gx_run run;
    gx_run_begin(&run, f->ctx, "gx_matmul");
    gx_run_progress(&run, 100);
    assert_int_equal(poll_after(&run, 0.05), GX_OK); // too early
    assert_int_equal(seen.count, 0);
    gx_run_advance(&run, 25);
    assert_int_equal(poll_after(&run, 0.5), GX_OK);
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.label, "gx_matmul");
    assert_true(seen.fraction[0] == 0.25);
    assert_true(seen.seconds > 0.49 && seen.seconds < 60);
    assert_int_equal(gx_run_end(&run), GX_OK);
    assert_int_equal(seen.count, 2);
    assert_true(seen.fraction[1] == 1);

    // It says stop.
    seen = (calls){.answer = 1};
    gx_run_begin(&run, f->ctx, "gx_matmul");
    assert_int_equal(poll_after(&run, 0.5), GX_INTERRUPT);
    assert_int_equal(gx_run_end(&run), GX_INTERRUPT);
    assert_int_equal(seen.count, 1); // a call that failed has no last report

    // It fails: so does the call.
    seen = (calls){.answer = -1};
    gx_run_begin(&run, f->ctx, "gx_matmul");
    assert_int_not_equal(poll_after(&run, 0.5), GX_OK);
    assert_non_null(strstr(run.err.text, "no display"));
    assert_int_not_equal(gx_run_end(&run), GX_OK);
}

// 5. A broken pipe --------------------------------------------------------------------------------

static void test_broken_pipe(void **state)
{
    gx_ctx *ctx = ((fixture *)*state)->ctx;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    signal(SIGPIPE, SIG_DFL); // would kill
    configure(ctx, GX_SET_PROGRESS, "on");
    capture(ends[1]);
    gx_run run;
    gx_run_begin(&run, ctx, "gx_matmul");
    gx_run_progress(&run, 100);
    gx_run_advance(&run, 40);
    poll_after(&run, 2);
    assert_int_equal(gx_run_end(&run), GX_OK);
    restore();
    close(ends[1]);
    sigset_t pending;
    sigpending(&pending);
    assert_false(sigismember(&pending, SIGPIPE));
}

// 6. Team and device ------------------------------------------------------------------------------

static void test_team(void **state)
{
    gx_ctx *ctx = ((fixture *)*state)->ctx;
    gx_run run;
    configure(ctx, GX_SET_THREADS, "1");
    gx_run_begin(&run, ctx, "gx_test");
    assert_int_equal(gx_team_threads(gx_run_team(&run)), 1);
    gx_run_end(&run);
    configure(ctx, GX_SET_THREADS, "3");
    gx_run_begin(&run, ctx, "gx_test");
    assert_null(run.team);
    gx_team *team = gx_run_team(&run);
    assert_non_null(team);
    assert_ptr_equal(gx_run_team(&run), team);
    assert_true(gx_team_threads(team) <= 3);
    gx_run_end(&run);
}

static void test_device(void **state)
{
    gx_ctx *ctx = ((fixture *)*state)->ctx;
    const gx_backend *backend;
    gx_dev *dev;
    gx_run run;
    gx_run_begin(&run, ctx, "gx_test");
    assert_null(ctx->dev);
    assert_int_equal(gx_run_device(&run, &backend, &dev), GX_OK);
    assert_ptr_equal(backend, &gx_backend_cpu);
    assert_non_null(dev);
    configure(ctx, GX_SET_BACKEND, "reference");
    assert_null(ctx->dev); // closed; the next call opens the other one
    assert_int_equal(gx_run_device(&run, &backend, &dev), GX_OK);
    assert_ptr_equal(backend, &gx_backend_ref);
    gx_run_end(&run);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    // The caller's variables are not part of the test.
    static const char *const names[] = {
        "GX_MEMORY_LIMIT", "GX_PINNING_BUDGET", "GX_DEVICE_MEMORY_LIMIT",
        "GX_BACKEND",      "GX_THREADS",        "GX_READERS",
        "GX_TILE_BYTES",   "GX_DETERMINISTIC",  "GX_PROGRESS",
        "GX_FILES",        "GX_PROFILE",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsetenv(names[i]);
    }
    const struct CMUnitTest tests[] = {
        TEST(test_configure),
        TEST(test_environment_backend),
        TEST(test_begin_end),
        TEST(test_cheap),
        TEST(test_failures),
        TEST(test_threads_report),
        TEST(test_interrupt),
        TEST(test_plain),
        TEST(test_plain_unknown_total),
        TEST(test_short_call_is_silent),
        TEST(test_terminal),
        TEST(test_function),
        TEST(test_broken_pipe),
        TEST(test_team),
        TEST(test_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
