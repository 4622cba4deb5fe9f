/*
** Streamed passes: who works, in which order parts are folded, what happens when one fails.
**
** Plan, for a matrix in a file (helpers), in memory (served by the caller, or alone), and a value
** (the team), 1 to 4 threads, folding by whoever comes by and by the caller, one part each and two:
**   1  Every unit is worked on once, with what it reads right; every part is folded once, in
**      ascending order, never two at a time.
**   2  A unit that fails, and a fold that fails, end the pass with their words, whoever else works.
**   3  Memory for one thread and one part is enough; less is refused, and nothing is left.
**   4  No units: nothing happens.
**   5  The system refuses all threads: the caller does everything.
*/
#include "../../../core/connection.h"
#include "../../../core/exec/pass.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <sqlite3.h>
#include <unistd.h>

/* The system has no threads to give: none has room for such a stack. */
static void refuse_threads(bool are_refused)
{
    static size_t usual;
    pthread_attr_t how;
    assert_int_equal(pthread_getattr_default_np(&how), 0);
    if (are_refused) {
        assert_int_equal(pthread_attr_getstacksize(&how, &usual), 0);
    }
    assert_int_equal(pthread_attr_setstacksize(&how, are_refused ? (size_t)1 << 60 : usual), 0);
    assert_int_equal(pthread_setattr_default_np(&how), 0);
    pthread_attr_destroy(&how);
}

enum { ROWS = 90, COLS = 70, EDGE = 10, ROW_TILES = 9, TILES = 63, ELEMENTS = EDGE * EDGE };

static const char path[] = "/tmp/gx-test-pass.db";

typedef struct fixture {
    sqlite3 *db;
    gx_ctx *ctx;
    gx_run run;
    gx_sink sink;
    gx_mat A;
    double *value; /* of A, where it is one         */
    size_t used;   /* memory, before the pass      */
} fixture;

static void set(gx_ctx *ctx, gx_setting setting, size_t number)
{
    char text[32];
    gx_err err = {0};
    snprintf(text, sizeof text, "%zu", number);
    assert_int_equal(gx_ctx_configure(ctx, setting, text, &err), GX_OK);
}

static double element(int64_t i, int64_t j)
{
    return (double)(i * 1000 + j);
}

static void fill(const void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n, gx_number dtype,
                 void *dst, int64_t ld)
{
    (void)arg;
    assert_int_equal(dtype, GX_F64);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            ((double *)dst)[j * ld + i] = element(i0 + i, j0 + j);
        }
    }
}

/* where: 'f' a file, 'm' a database in memory, 'v' a value. */
static void begin(fixture *f, char where, int threads)
{
    gx_err err = {0};
    memset(f, 0, sizeof *f);
    unlink(path);
    assert_int_equal(sqlite3_open(where == 'f' ? path : ":memory:", &f->db), SQLITE_OK);
    assert_int_equal(gx_ctx_create(f->db, &f->ctx, &err), GX_OK);
    set(f->ctx, GX_SET_TILE_BYTES, ELEMENTS * sizeof(double));
    set(f->ctx, GX_SET_THREADS, (size_t)threads);
    set(f->ctx, GX_SET_READERS, (size_t)threads);
    gx_mat source;
    gx_mat_generated(&source, "source", GX_F64, ROWS, COLS, fill, NULL);
    gx_run_begin(&f->run, f->ctx, "test");
    if (where == 'v') {
        f->value = malloc(ROWS * COLS * sizeof(double));
        fill(NULL, 0, 0, ROWS, COLS, GX_F64, f->value, ROWS);
        gx_mat_value(&f->A, "A", GX_F64, ROWS, COLS, f->value, ROWS);
    } else {
        gx_dest dest = {.name = "A"};
        assert_int_equal(gx_sink_begin(&f->run, &dest, ROWS, COLS, GX_F64, 0, EDGE, EDGE, &f->sink),
                         GX_OK);
        assert_int_equal(gx_copy_to_sink(&f->run, &source, &f->sink), GX_OK);
        gx_sink_source(&f->sink, "A", &f->A);
        assert_int_equal(gx_sink_end(&f->sink), GX_OK);
    }
    assert_int_equal(gx_run_end(&f->run), GX_OK);
    f->used = gx_mem_used(f->ctx->mem);
    gx_run_begin(&f->run, f->ctx, "test");
}

static void end(fixture *f)
{
    (void)gx_run_end(&f->run);
    assert_int_equal(gx_mem_used(f->ctx->mem), f->used);
    gx_ctx_free(f->ctx);
    assert_int_equal(sqlite3_close(f->db), SQLITE_OK);
    free(f->value);
    unlink(path);
}

/* What a pass is told, and what came of it. */
typedef struct journal {
    fixture *f;
    int64_t bad_unit, bad_fold; /* -1: none */
    atomic_int worked[TILES], folding;
    int64_t folded;
} journal;

static gx_code work(void *arg, int64_t unit, gx_pass_thread *thread, void *memory, void *part,
                    gx_err *err)
{
    journal *l = arg;
    int64_t i0 = unit % ROW_TILES * EDGE, j0 = unit / ROW_TILES * EDGE;
    if (unit == l->bad_unit) {
        return gx_fail(err, GX_NUMERIC, "unit %lld", (long long)unit);
    }
    GX_TRY(gx_pass_read(thread, &l->f->A, i0, j0, EDGE, EDGE, GX_F64, memory, EDGE, err));
    double sum = 0;
    for (int64_t k = 0; k < ELEMENTS; k++) {
        sum += ((double *)memory)[k];
    }
    *(double *)part = sum;
    atomic_fetch_add(&l->worked[unit], 1);
    return GX_OK;
}

static gx_code fold(void *arg, int64_t unit, void *part, gx_err *err)
{
    journal *l = arg;
    double sum = 0;
    assert_int_equal(atomic_fetch_add(&l->folding, 1), 0);
    assert_int_equal(unit, l->folded++);
    for (int64_t k = 0; k < ELEMENTS; k++) {
        sum += element(unit % ROW_TILES * EDGE + k % EDGE, unit / ROW_TILES * EDGE + k / EDGE);
    }
    assert_true(*(const double *)part == sum);
    atomic_fetch_sub(&l->folding, 1);
    return unit == l->bad_fold ? gx_fail(err, GX_NUMERIC, "fold %lld", (long long)unit) : GX_OK;
}

static gx_pass pass_of(journal *l, const gx_mat *const *source, const char *writes)
{
    return (gx_pass){.sources = source,
                     .source_count = 1,
                     .units = TILES,
                     .bytes = 64 << 20, // so that it is worth helpers
                     .work_bytes = ELEMENTS * sizeof(double),
                     .part_bytes = sizeof(double),
                     .work = work,
                     .fold = fold,
                     .is_callers = writes != NULL,
                     .writes = writes,
                     .arg = l};
}

static void each(void (*check)(fixture *f, const char *writes))
{
    for (const char *where = "fmv"; *where != '\0'; where++) {
        for (int threads = 1; threads <= 4; threads++) {
            for (int is_written = 0; is_written < 2; is_written++) {
                fixture f;
                begin(&f, *where, threads);
                check(&f, is_written ? "main" : NULL);
                end(&f);
            }
        }
    }
}

static void check_order(fixture *f, const char *writes)
{
    for (int parts = 0; parts < 3; parts++) {
        journal l = {.f = f, .bad_unit = -1, .bad_fold = -1};
        const gx_mat *source = &f->A;
        gx_pass pass = pass_of(&l, &source, writes);
        pass.parts = parts;
        assert_int_equal(gx_pass_run(&f->run, &pass), GX_OK);
        assert_int_equal(l.folded, TILES);
        for (int k = 0; k < TILES; k++) {
            assert_int_equal(atomic_load(&l.worked[k]), 1);
        }
    }
}

static void test_order(void **state)
{
    (void)state;
    each(check_order);
}

static void test_refused_threads(void **state)
{
    (void)state;
    refuse_threads(true);
    for (const char *where = "fmv"; *where != '\0'; where++) {
        for (int is_written = 0; is_written < 2; is_written++) {
            fixture f;
            begin(&f, *where, 3);
            check_order(&f, is_written ? "main" : NULL);
            end(&f);
        }
    }
    refuse_threads(false);
}

static void check_failure(fixture *f, const char *writes)
{
    journal l = {.f = f, .bad_unit = 40, .bad_fold = -1};
    const gx_mat *source = &f->A;
    gx_pass pass = pass_of(&l, &source, writes);
    assert_int_equal(gx_pass_run(&f->run, &pass), GX_NUMERIC);
    assert_string_equal(f->run.err.text, "unit 40");
    assert_true(l.folded <= 40);
}

static void check_bad_fold(fixture *f, const char *writes)
{
    journal l = {.f = f, .bad_unit = -1, .bad_fold = 25};
    const gx_mat *source = &f->A;
    gx_pass pass = pass_of(&l, &source, writes);
    assert_int_equal(gx_pass_run(&f->run, &pass), GX_NUMERIC);
    assert_string_equal(f->run.err.text, "fold 25");
    assert_int_equal(l.folded, 26);
}

static void test_failures(void **state)
{
    (void)state;
    each(check_failure);
    each(check_bad_fold);
}

static void test_memory(void **state)
{
    (void)state;
    const size_t LIMIT = 600 << 10;
    fixture f;
    begin(&f, 'm', 3);
    set(f.ctx, GX_SET_THREADS, 1);
    gx_run_end(&f.run);
    set(f.ctx, GX_SET_MEMORY_LIMIT, LIMIT);
    gx_run_begin(&f.run, f.ctx, "test");
    journal l = {.f = &f, .bad_unit = -1, .bad_fold = -1};
    const gx_mat *source = &f.A;
    gx_pass pass = pass_of(&l, &source, NULL);
    pass.work_bytes = 300 << 10;
    pass.part_bytes = gx_mem_available(f.ctx->mem) - (pass.work_bytes + (16 << 10));
    assert_int_equal(gx_pass_threads(&f.run, &pass), 1);
    assert_int_equal(gx_pass_run(&f.run, &pass), GX_OK);
    assert_int_equal(l.folded, TILES);
    pass.part_bytes += 16 << 10;
    assert_int_equal(gx_pass_threads(&f.run, &pass), 0);
    assert_int_equal(gx_pass_run(&f.run, &pass), GX_BUDGET);
    end(&f);
}

static void test_nothing(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 'v', 2);
    journal l = {.f = &f, .bad_unit = -1, .bad_fold = -1};
    const gx_mat *source = &f.A;
    gx_pass pass = pass_of(&l, &source, NULL);
    pass.units = 0;
    assert_int_equal(gx_pass_run(&f.run, &pass), GX_OK);
    assert_int_equal(l.folded, 0);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_refused_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
