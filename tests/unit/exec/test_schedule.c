/*
** Schedules of block programs.
**
** Plan:
**   1  Replay: a model machine executes schedules of products of many shapes with every number of
**      slots from the minimum up, loads performed as early AND as late as they may be; each call
**      must find the blocks it names, with the contents the order of calls gives them; at the end
**      every result block is in its sink with its final contents, flushed as often as the schedule
**      says.
**   2  With everything fitting, each block is loaded once, each result flushed once, in ascending
**      order.
**   3  Loads of a large product stay within 1.25 of 2 m n k / sqrt(S).
**   4  A program that needs more blocks at once than there are is refused in words.
**   5  Unfinished blocks that must go are spilled and read back.
*/
#include "../../../core/alg/plan.h"
#include "../../../core/exec/prog_int.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct fixture {
    gx_ctx ctx;
    gx_run run;
    gx_sink sink;
    gx_mat A, B;
} fixture;

static void set_up(fixture *f, size_t limit, int64_t m, int64_t n, int64_t k)
{
    gx_err err = {0};
    memset(f, 0, sizeof *f);
    assert_int_equal(gx_mem_create(limit, &f->ctx.mem, &err), GX_OK);
    f->run.ctx = &f->ctx;
    f->run.polled_ns = INT64_MAX / 2; // there is no connection to ask for an interrupt
    pthread_mutex_init(&f->run.lock, NULL);
    f->ctx.config.number[GX_SET_THREADS] = 2;
    f->ctx.config.number[GX_SET_READERS] = 2;
    f->A = (gx_mat){.kind = GX_MAT_STORED, .rows = m, .cols = k, .tile_rows = 1, .tile_cols = 1};
    f->B = (gx_mat){.kind = GX_MAT_STORED, .rows = k, .cols = n, .tile_rows = 1, .tile_cols = 1};
    f->A.meta = (gx_meta){.id = 1, .rows = m, .cols = k, .tile_rows = 1, .tile_cols = 1};
    f->B.meta = (gx_meta){.id = 2, .rows = k, .cols = n, .tile_rows = 1, .tile_cols = 1};
    f->sink = (gx_sink){
        .run = &f->run, .rows = m, .cols = n, .is_stored = true, .tile_rows = 1, .tile_cols = 1};
}

static void tear_down(fixture *f)
{
    assert_int_equal(gx_mem_used(f->ctx.mem), 0);
    pthread_mutex_destroy(&f->run.lock);
    gx_mem_free_all(f->ctx.mem);
}

/* A product of 1 x 1 blocks with a given rectangle. */
static gx_prog *product(fixture *f, int64_t super_m, int64_t super_n, int64_t lookahead)
{
    gx_matmul_args args = {.A = &f->A, .B = &f->B, .alpha = {1, 0}};
    gx_matmul_plan plan = {.m = f->A.rows,
                           .n = f->B.cols,
                           .k = f->A.cols,
                           .dtype = GX_F64,
                           .block_m = 1,
                           .block_n = 1,
                           .block_k = 1,
                           .super_m = super_m,
                           .super_n = super_n,
                           .is_snake = true,
                           .lookahead = lookahead};
    return gx_matmul_program(&f->run, &args, &plan, &f->sink);
}

// A model machine: contents are version numbers ---------------------------------------------------

enum { MAX_BLOCKS = 4096, MAX_SLOTS = 512 };

typedef struct machine {
    int32_t holder[MAX_SLOTS];   /* block in the slot                                */
    int32_t version[MAX_SLOTS];  /* how often it was written when it was put there   */
    int32_t latest[MAX_BLOCKS];  /* how often a block has been written               */
    int32_t in_sink[MAX_BLOCKS]; /* version in the sink, -1: none                    */
    int flushes[MAX_BLOCKS];
} machine;

static void do_load(machine *x, const gx_load *item)
{
    x->holder[item->slot] = item->block;
    x->version[item->slot] = item->is_spilled ? x->in_sink[item->block] : 0;
    assert_true(x->version[item->slot] >= 0);
}

static void do_flushes(machine *x, const gx_schedule *s, int64_t *next, int32_t t)
{
    while (*next < s->flush_count && s->flushes[*next].before <= t) {
        const gx_flush *item = &s->flushes[(*next)++];
        assert_int_equal(x->holder[item->slot], item->block);
        x->in_sink[item->block] = x->version[item->slot];
        x->flushes[item->block]++;
    }
}

static void do_step(machine *x, const gx_prog *prog, const gx_step *st)
{
    for (int p = 0; p < 3; p++) {
        if (st->block[p] == GX_NO_BLOCK) {
            continue;
        }
        bool is_fresh = p == 2 && !prog->kind[st->kind].keeps_c;
        if (is_fresh) {
            x->holder[st->slot[p]] = st->block[p];
        }
        assert_int_equal(x->holder[st->slot[p]], st->block[p]);
        if (!is_fresh) {
            assert_int_equal(x->version[st->slot[p]], x->latest[st->block[p]]);
        }
        if (p == 2) {
            x->version[st->slot[p]] = ++x->latest[st->block[p]];
        }
    }
}

/* Execute the schedule; loads as early as `after` allows, or as late as `need` does. */
static void replay(const gx_prog *prog, const gx_schedule *s, bool is_early)
{
    static machine x;
    memset(&x, 0, sizeof x);
    memset(x.holder, 0xff, sizeof x.holder);
    memset(x.in_sink, 0xff, sizeof x.in_sink);
    assert_true(prog->blocks <= MAX_BLOCKS);
    int64_t next_flush = 0, next_load = 0;
    for (int32_t t = 0; t < prog->step_count; t++) {
        do_flushes(&x, s, &next_flush, t);
        while (next_load < s->load_count &&
               (is_early ? s->loads[next_load].after : s->loads[next_load].need) <= t) {
            assert_true(s->loads[next_load].after <= s->loads[next_load].need);
            do_load(&x, &s->loads[next_load++]);
        }
        do_step(&x, prog, &prog->steps[t]);
    }
    do_flushes(&x, s, &next_flush, (int32_t)prog->step_count);
    assert_int_equal(next_load, s->load_count);
    assert_int_equal(next_flush, s->flush_count);
    for (int k = 0; k < prog->operands; k++) {
        const gx_opnd *op = &prog->operand[k];
        for (int32_t b = op->first;
             op->sink != NULL && b < op->first + op->grid_rows * op->grid_cols; b++) {
            assert_int_equal(x.in_sink[b], x.latest[b]);
            assert_true(x.flushes[b] >= 1);
        }
    }
}

static void test_replay(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1}, {2, 3, 4}, {5, 4, 3},
                                        {1, 7, 2}, {7, 1, 5}, {6, 6, 6}};
    for (size_t c = 0; c < sizeof shapes / sizeof shapes[0]; c++) {
        for (int64_t slots = 3; slots <= 120; slots += slots < 12 ? 1 : 27) {
            for (int64_t lookahead = 0; lookahead <= 9; lookahead += 3) {
                fixture f;
                set_up(&f, 16 << 20, shapes[c][0], shapes[c][1], shapes[c][2]);
                gx_prog *prog = product(&f, 1 + slots % 3, 1 + slots % 2, lookahead);
                gx_schedule s;
                gx_slots all = gx_slots_of(slots);
                assert_int_equal(gx_schedule_make(prog, &all, &s), GX_OK);
                replay(prog, &s, true);
                replay(prog, &s, false);
                gx_schedule_clear(prog, &s);
                gx_prog_free(prog);
                tear_down(&f);
            }
        }
    }
}

static void test_all_fits(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, 16 << 20, 6, 5, 4);
    gx_prog *prog = product(&f, 6, 5, 4);
    gx_schedule s;
    gx_slots all = gx_slots_of(prog->blocks);
    assert_int_equal(gx_schedule_make(prog, &all, &s), GX_OK);
    assert_int_equal(s.load_count, 6 * 4 + 4 * 5);
    assert_int_equal(s.flush_count, 6 * 5);
    assert_int_equal(s.spills, 0);
    for (int64_t k = 1; k < s.flush_count; k++) {
        assert_true(s.flushes[k].block > s.flushes[k - 1].block);
    }
    gx_schedule_clear(prog, &s);
    gx_prog_free(prog);
    tear_down(&f);
}

/* n = 8 tiles a side, 31 tiles of memory: the planner's own plan, in tiles of 1024 x 1024 f64. */
static void test_io_bound(void **state)
{
    (void)state;
    const int64_t n = 8192;
    const size_t limit = (size_t)256 << 20;
    fixture f;
    set_up(&f, limit, n, n, n);
    f.A.tile_rows = f.A.tile_cols = f.B.tile_rows = f.B.tile_cols = 1024;
    f.sink.tile_rows = f.sink.tile_cols = 1024;
    gx_matmul_args args = {.A = &f.A, .B = &f.B, .alpha = {1, 0}};
    gx_matmul_plan plan;
    gx_plan_matmul(&f.run, &args, 1024, 1024, &plan);
    gx_prog *prog = gx_matmul_program(&f.run, &args, &plan, &f.sink);
    gx_cost cost;
    assert_int_equal(gx_prog_cost(prog, &cost), GX_OK);
    double words = (double)(limit / sizeof(double));
    double bound = 8.0 * 2.0 * pow((double)n, 3) / sqrt(words);
    print_message("reads %.0f MB, 2mnk/sqrt(S) %.0f MB, ratio %.3f\n", cost.bytes_read / 1e6,
                  bound / 1e6, cost.bytes_read / bound);
    assert_true(cost.bytes_read <= 1.25 * bound);
    assert_true(cost.bytes_written == 8.0 * (double)(n * n));
    assert_int_equal(cost.spills, 0);
    gx_prog_free(prog);
    tear_down(&f);
}

static void test_too_small(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, 256 << 10, 512, 512, 512);
    f.A.tile_rows = f.A.tile_cols = f.B.tile_rows = f.B.tile_cols = 128;
    f.sink.tile_rows = f.sink.tile_cols = 128;
    gx_matmul_args args = {.A = &f.A, .B = &f.B, .alpha = {1, 0}};
    gx_matmul_plan plan;
    gx_plan_matmul(&f.run, &args, 128, 128, &plan);
    gx_prog *prog = gx_matmul_program(&f.run, &args, &plan, &f.sink);
    gx_cost cost;
    assert_int_equal(gx_prog_cost(prog, &cost), GX_BUDGET);
    assert_non_null(strstr(f.run.err.text, "needs 3 blocks of 131072 bytes"));
    gx_prog_free(prog);
    tear_down(&f);
}

/* A rectangle larger than the cache: results are spilled and come back whole. */
static void test_spill(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, 16 << 20, 6, 6, 6);
    gx_prog *prog = product(&f, 6, 6, 2);
    gx_schedule s;
    gx_slots all = gx_slots_of(5);
    assert_int_equal(gx_schedule_make(prog, &all, &s), GX_OK);
    assert_true(s.spills > 0);
    replay(prog, &s, true);
    replay(prog, &s, false);
    gx_schedule_clear(prog, &s);
    gx_prog_free(prog);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay),   cmocka_unit_test(test_all_fits),
        cmocka_unit_test(test_io_bound), cmocka_unit_test(test_too_small),
        cmocka_unit_test(test_spill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
