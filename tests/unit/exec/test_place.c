/*
** Where a program runs, on a stand-in whose rates a test sets.
**
** Plan:
**   1  no device comes into question: for little work, when the setting says so, in deterministic
**      mode, after a failure; when it is told to be used, for little work, too
**   2  a closed device is opened when this call alone saves the price, or when what the calls so
**      far would have saved comes to it; calls that took longer than foretold would have saved
**      more, and programs save their threads and arithmetic
**   3  the faster of the two runs the program; told to, the device does, whatever it takes
**   4  a device that cannot finish: the host does, exactly, and what was predicted does not count
**   5  a driver's program is written anew for the device, and in smaller blocks while its memory
**      runs out; then the host's is run
*/
#include "devicekit.h"

#include "run/call.h"

static void test_candidate(void **state)
{
    kit *f = *state;
    gx_run run;
    size_t bytes;
    const double much = 1e15, little = GX_TEAM_FLOPS - 1;
    gx_run_begin(&run, f->ctx, "test");
    assert_non_null(gx_place_candidate(&run, much, GX_F64, &bytes));
    assert_true(bytes > 0);
    assert_null(gx_place_candidate(&run, little, GX_F64, &bytes));
    assert_int_equal(bytes, 0);
    assert_non_null(gx_place_look(&run, &bytes));
    f->ctx->config.number[GX_SET_DETERMINISTIC] = 1;
    assert_null(gx_place_candidate(&run, much, GX_F64, &bytes));
    f->ctx->config.number[GX_SET_BACKEND] = GX_BACKEND_CUDA;
    assert_non_null(gx_place_candidate(&run, little, GX_F64, &bytes));
    f->ctx->is_accel_off = true;
    assert_null(gx_place_candidate(&run, much, GX_F64, &bytes));
    f->ctx->is_accel_off = false;
    f->ctx->config.number[GX_SET_BACKEND] = GX_BACKEND_CPU;
    assert_null(gx_place_candidate(&run, much, GX_F64, &bytes));
    assert_null(gx_place_look(&run, &bytes));
    f->ctx->config.number[GX_SET_BACKEND] = GX_BACKEND_AUTO;
    assert_int_equal(gx_run_end(&run), GX_OK);
}

static void test_opening(void **state)
{
    kit *f = *state;
    gx_run run;
    size_t bytes;
    int calls = 0;
    const double flops = 1e7; // saves less than the 10 ms of opening
    gx_run_begin(&run, f->ctx, "test");
    for (; gx_place_candidate(&run, flops, GX_F64, &bytes) == NULL; calls++) {
        assert_true(calls < 1000);
        double owed = f->ctx->owed_s;
        gx_place_owe(&run, flops, GX_F64);
        assert_true(f->ctx->owed_s > owed);
        gx_place_owe(&run, GX_TEAM_FLOPS - 1, GX_F64);
    }
    assert_true(calls >= 2);
    assert_true(f->ctx->owed_s == 0);
    assert_true(run.is_irregular);
    gx_place_owe(&run, flops, GX_F64); // it is open
    assert_true(f->ctx->owed_s == 0);
    gx_accel_close(f->ctx);
    assert_non_null(gx_place_candidate(&run, 1e15, GX_F64, &bytes)); // alone worth it
    assert_int_equal(gx_run_end(&run), GX_OK);
}

/* What is owed for a call of so many flops. */
static double owed_for(kit *f, gx_run *run, double flops)
{
    double before = f->ctx->owed_s;
    gx_place_owe(run, flops, GX_F64);
    return f->ctx->owed_s - before;
}

static void test_saving_is_learnt(void **state)
{
    kit *f = *state;
    gx_run run;
    const double flops = 1e7;
    gx_run_begin(&run, f->ctx, "test");
    double foretold = owed_for(f, &run, flops);
    assert_true(foretold > 0);
    gx_ledger_add(&f->ctx->ledger, "test", true, flops, 1, 1, 4); // a device's: another matter
    gx_ledger_add(&f->ctx->ledger, "other", false, flops, 1, 1, 4);
    assert_true(owed_for(f, &run, flops) == foretold);
    gx_ledger_add(&f->ctx->ledger, "test", false, flops, 1, 1, 3);
    assert_true(owed_for(f, &run, flops) >= 3 * foretold); // its device's part stays as it was
    assert_int_equal(gx_run_end(&run), GX_OK);
}

static void store_both(kit *f)
{
    kit_store(f, 'A', 320, 320);
    kit_store(f, 'B', 320, 320);
}

/* What is owed for a product of 65 million flops by a program on a host of such a speed. */
static double owed_by_program(kit *f, double flops_per_s)
{
    job x;
    gx_profile_get(f->ctx);
    for (int i = 0; i < GX_PROFILE_SIZES; i++) {
        f->ctx->profile.gemm_flops_per_s[GX_F64][i] = flops_per_s;
    }
    f->ctx->profile.core_flops_per_s = flops_per_s;
    f->ctx->profile.thread_s = 1e-9;
    f->ctx->device_profile.open_s = 1e6; // never
    f->ctx->owed_s = 0;
    kit_begin(&x, f, 160);
    gx_prog *prog = kit_product(&x, false);
    assert_int_equal(gx_prog_run(prog), GX_OK);
    gx_prog_free(prog);
    kit_end(&x);
    return f->ctx->owed_s;
}

static void test_program_owes(void **state)
{
    kit *f = *state;
    store_both(f);
    assert_true(owed_by_program(f, 1e18) == 0);
    assert_true(owed_by_program(f, 1e8) > 0.1); // it takes more than half a second
}

/* Multiply where the planner says; does the device do it? */
static bool is_on_device(kit *f)
{
    job x;
    int64_t calls = kit_stat(f, GX_STAT_DEVICE_CALLS);
    kit_begin(&x, f, 160);
    gx_prog *prog = kit_product(&x, false);
    assert_int_equal(gx_prog_run(prog), GX_OK);
    gx_prog_free(prog);
    kit_end(&x);
    return kit_stat(f, GX_STAT_DEVICE_CALLS) > calls;
}

static void test_faster(void **state)
{
    kit *f = *state;
    gx_run run;
    size_t bytes;
    store_both(f);
    gx_run_begin(&run, f->ctx, "test");
    assert_non_null(gx_place_look(&run, &bytes)); // open
    assert_int_equal(gx_run_end(&run), GX_OK);
    f->ctx->accel->profile.launch_s = 10; // slower than anything
    assert_false(is_on_device(f));
    f->ctx->config.number[GX_SET_BACKEND] = GX_BACKEND_CUDA;
    assert_true(is_on_device(f));
    gx_terms host = {.seconds = 1, .factor = 1}, device = {.seconds = 1, .factor = 1};
    assert_false(gx_place_is_faster(1e9, &host, &device)); // a tie is the host's
    device.once_s = 0.5;
    assert_true(gx_place_is_faster(1e9, &host, &device)); // memory that later calls find
    assert_false(gx_place_is_faster(GX_TEAM_FLOPS - 1, &host, &device));
}

static void test_fallback(void **state)
{
    kit *f = *state;
    store_both(f);
    kit_set(f, GX_SET_BACKEND, "cuda");
    mock_order("gemm:3");
    assert_false(is_on_device(f));
    mock_order("");
    assert_true(f->ctx->is_accel_off);
    assert_int_equal(kit_stat(f, GX_STAT_DEVICE_FALLBACKS), 1);
    assert_int_equal(kit_stat(f, GX_STAT_DEVICE_FAULTS), 1);
    assert_false(is_on_device(f));
}

/* What build() was called for. */
typedef struct built {
    job x;
    int host, device;
    size_t bytes[8];
} built;

static gx_prog *build(gx_run *run, void *arg)
{
    built *b = arg;
    if (run->target == NULL) {
        b->host++;
    } else {
        b->bytes[b->device++] = run->target_bytes;
        b->x.edge = gx_max(TILE, 160 >> (b->device - 1));
    }
    return kit_product(&b->x, false);
}

static void run_built(kit *f, built *b)
{
    *b = (built){0};
    kit_begin(&b->x, f, 160);
    gx_place_run(&b->x.run, 1e9, GX_F64, build, b);
    kit_end(&b->x);
}

static void test_built(void **state)
{
    kit *f = *state;
    built b;
    store_both(f);
    kit_set(f, GX_SET_BACKEND, "cuda");
    run_built(f, &b);
    assert_int_equal(b.host, 1);
    assert_int_equal(b.device, 1);
    assert_int_equal(kit_stat(f, GX_STAT_DEVICE_CALLS), 1);
    gx_pool_trim(f->ctx->accel->pool);
    mock_order("memory:1:always");
    run_built(f, &b);
    mock_order("");
    assert_int_equal(b.host, 1);
    assert_int_equal(b.device, 3);
    assert_int_equal(b.bytes[1], b.bytes[0] / 4);
    assert_int_equal(b.bytes[2], b.bytes[1] / 4);
    assert_true(b.x.run.is_irregular && !b.x.run.is_planned_on_device);
    assert_int_equal(kit_stat(f, GX_STAT_DEVICE_CALLS), 1);
    assert_false(f->ctx->is_accel_off);
    kit_set(f, GX_SET_BACKEND, "cpu");
    run_built(f, &b);
    assert_int_equal(b.device, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_candidate, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_opening, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_saving_is_learnt, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_program_owes, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_faster, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_fallback, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_built, kit_up, kit_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
