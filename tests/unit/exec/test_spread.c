/*
** One program on several devices, on stand-ins that are not alike.
**
** Plan:
**   1  a product on 1 to 8 devices, with memory for everything and for a few blocks, in an order
**      that spills: exact, nothing left behind, no device touches another one's memory
**   2  with room for everything each block of an operand goes up once, whatever the number of
**      devices, and each device works; blocks kept by one call serve the next
**   3  any call of any device fails, once, or from then on: the others go on, the answer is exact,
**      the device is counted and left out; with all of them gone the host answers
**   4  a device without room is left out of the program, not of the connection
**   5  little work stays on one device, much goes to as many as help; devices that are slower get
**      less
**   6  with the rates of a large machine set, a product and a Cholesky factorisation that fit are
**      foretold nearly twice and four times as fast on two and four devices as on one
*/
#include "alg/plan.h"
#include "devicekit.h"
#include "exec/predict.h"
#include "exec/spread.h"

enum { DEVICES = 8 };

/* 'devices' lists the first so many. */
static void use(kit *f, int devices)
{
    char list[64] = "0";
    for (int d = 1; d < devices; d++) {
        char more[8];
        snprintf(more, sizeof more, ",%d", d);
        strcat(list, more);
    }
    kit_set(f, GX_SET_DEVICES, devices == 1 ? "1" : list);
    kit_set(f, GX_SET_BACKEND, "cuda");
}

static void multiply(kit *f, int64_t edge, bool is_outer)
{
    job x;
    kit_begin(&x, f, edge);
    gx_prog *prog = kit_product(&x, is_outer);
    assert_int_equal(gx_prog_run(prog), GX_OK);
    gx_prog_free(prog);
    kit_end(&x);
}

static void test_product(void **state)
{
    kit *f = *state;
    kit_store(f, 'A', 300, 200);
    kit_store(f, 'B', 200, 250);
    for (int devices = 1; devices <= DEVICES; devices++) {
        for (size_t blocks = 0; blocks <= 24; blocks = 2 * blocks + 3) {
            char limit[32];
            size_t slot = gx_pool_rounded((size_t)TILE * TILE * 8);
            snprintf(limit, sizeof limit, "%zu", blocks * slot);
            use(f, devices);
            kit_set(f, GX_SET_DEVICE_MEMORY_LIMIT, limit);
            int64_t calls = kit_stat(f, GX_STAT_DEVICE_CALLS);
            int64_t spread = kit_stat(f, GX_STAT_SPREAD_CALLS);
            multiply(f, TILE, false);
            multiply(f, TILE, true);
            assert_int_equal(kit_stat(f, GX_STAT_DEVICE_CALLS) - calls, 2);
            assert_int_equal(kit_stat(f, GX_STAT_SPREAD_CALLS) - spread, devices > 1 ? 2 : 0);
            assert_int_equal(kit_counts().violations, 0);
        }
    }
    kit_set(f, GX_SET_DEVICE_MEMORY_LIMIT, "0");
}

static void test_once(void **state)
{
    kit *f = *state;
    const int64_t m = 256, k = 160, n = 320, bytes = 8 * (m * k + k * n);
    kit_store(f, 'A', m, k);
    kit_store(f, 'B', k, n);
    for (int devices = 1; devices <= DEVICES; devices++) {
        use(f, devices);
        kit_set(f, GX_SET_DEVICE, "0"); // nothing is kept
        int64_t up = kit_stat(f, GX_STAT_UPLOADED), across = kit_stat(f, GX_STAT_PEER_BYTES);
        multiply(f, TILE, false);
        assert_int_equal(kit_stat(f, GX_STAT_UPLOADED) - up, bytes);
        across = kit_stat(f, GX_STAT_PEER_BYTES) - across;
        assert_true(devices == 1 ? across == 0 : across > 0 && across < devices * bytes);
        up = kit_stat(f, GX_STAT_UPLOADED);
        across = kit_stat(f, GX_STAT_PEER_BYTES);
        multiply(f, TILE, false);
        assert_int_equal(kit_stat(f, GX_STAT_UPLOADED) - up, 0);
        assert_int_equal(kit_stat(f, GX_STAT_PEER_BYTES) - across, 0);
    }
}

/* The n-th call of a device fails; false: there were not so many. */
static bool fail_at(kit *f, int devices, int device, int n, const char *mode)
{
    char order[64];
    use(f, devices);
    kit_set(f, GX_SET_DEVICE, "0");
    multiply(f, TILE, false); // opens them
    int64_t lost = kit_stat(f, GX_STAT_DEVICES_LOST);
    int64_t back = kit_stat(f, GX_STAT_DEVICE_FALLBACKS);
    snprintf(order, sizeof order, "*@%d:%d%s", device, n, mode);
    mock_order(order);
    kit_store(f, 'A', 128, 96);
    multiply(f, TILE, false);
    bool has_failed = kit_counts().failures > 0;
    mock_order("");
    lost = kit_stat(f, GX_STAT_DEVICES_LOST) - lost;
    assert_int_equal(kit_stat(f, GX_STAT_DEVICE_FALLBACKS), back);
    // A refusal of memory is answered with fewer blocks; lost before it has work is no loss.
    bool is_lost = has_failed && n > 1 && strcmp(mode, ":lost") == 0;
    assert_true(is_lost ? lost == 1 : lost <= 1);
    assert_int_equal(kit_counts().violations, 0);
    multiply(f, TILE, false); // and the connection goes on
    return has_failed;
}

static void test_failures(void **state)
{
    kit *f = *state;
    kit_store(f, 'A', 128, 96);
    kit_store(f, 'B', 96, 128);
    const char *modes[] = {"", ":lost"};
    for (int mode = 0; mode < 2; mode++) {
        for (int device = 0; device < 3; device++) {
            int n = 1;
            while (fail_at(f, 3, device, n, modes[mode])) {
                n += n < 26 ? 1 : 17;
            }
            assert_true(n > 40);
        }
    }
    use(f, 3);
    kit_set(f, GX_SET_DEVICE, "0");
    mock_order("gemm:1:always");
    int64_t back = kit_stat(f, GX_STAT_DEVICE_FALLBACKS);
    multiply(f, TILE, false);
    mock_order("");
    assert_int_equal(kit_stat(f, GX_STAT_DEVICE_FALLBACKS) - back, 1);
    assert_true(f->ctx->is_accel_off);
}

static void test_no_room(void **state)
{
    kit *f = *state;
    kit_store(f, 'A', 128, 96);
    kit_store(f, 'B', 96, 128);
    use(f, 3);
    kit_set(f, GX_SET_DEVICE, "0");
    multiply(f, TILE, false);
    kit_store(f, 'A', 128, 96);
    int64_t lost = kit_stat(f, GX_STAT_DEVICES_LOST);
    gx_pool_trim(f->ctx->accel->next->pool);
    mock_order("memory@1:1:always");
    multiply(f, TILE, false);
    mock_order("");
    assert_int_equal(kit_stat(f, GX_STAT_DEVICES_LOST) - lost, 1);
    assert_int_equal(f->ctx->accel->next->ordinal, 1);
    int64_t spread = kit_stat(f, GX_STAT_SPREAD_CALLS);
    multiply(f, TILE, false);
    assert_int_equal(kit_stat(f, GX_STAT_SPREAD_CALLS) - spread, 1);
    assert_int_equal(kit_stat(f, GX_STAT_DEVICES_LOST) - lost, 1);
}

/* How many of 'all' a product of order n is predicted to run on; their steps. */
static int predicted(kit *f, int64_t n, int64_t edge, int64_t steps[DEVICES])
{
    job x;
    size_t bytes;
    gx_fleet fleet;
    gx_cost cost;
    gx_terms terms;
    kit_begin(&x, f, edge);
    x.A.rows = x.A.cols = x.B.rows = x.B.cols = n; // never read
    gx_prog *prog = kit_product(&x, false);
    gx_fleet_single(&fleet, kit_device(&x, &bytes), (size_t)1 << 40);
    assert_true(gx_place_predict(prog, &fleet, &cost, &terms));
    for (int d = 0; d < DEVICES; d++) {
        steps[d] = 0;
    }
    for (int64_t t = 0; t < prog->step_count; t++) {
        steps[prog->steps[t].device]++;
    }
    gx_prog_free(prog);
    gx_run_failf(&x.run, GX_INTERRUPT, "enough");
    gx_sink_end(&x.C);
    gx_run_end(&x.run);
    return fleet.count;
}

static void test_choice(void **state)
{
    kit *f = *state;
    int64_t steps[DEVICES];
    kit_store(f, 'A', 40, 40);
    kit_store(f, 'B', 40, 40);
    for (int k = 0; k < GX_DEVICE_SIZES; k++) {
        f->ctx->device_profile.gemm_flops_per_s[GX_F64][k] /= 200; // what bounds it
    }
    kit_set(f, GX_SET_DEVICES, "all");
    kit_set(f, GX_SET_BACKEND, "cuda");
    assert_int_equal(predicted(f, 100, 64, steps), 1);
    assert_true(predicted(f, 65536, 4096, steps) >= 4);
    kit_set(f, GX_SET_DEVICES, "3");
    assert_int_equal(predicted(f, 65536, 4096, steps), 3);
    kit_set(f, GX_SET_DEVICES, "0,1");
    assert_int_equal(predicted(f, 65536, 4096, steps), 2);
    assert_int_equal(steps[0], steps[1]);
    gx_device_profile *slower = &f->ctx->accel->next->profile;
    for (int k = 0; k < GX_DEVICE_SIZES; k++) {
        slower->gemm_flops_per_s[GX_F64][k] /= 3;
    }
    assert_int_equal(predicted(f, 65536, 4096, steps), 2);
    assert_true(steps[0] >= 2 * steps[1] && steps[1] > 0);
}

/* Of every device, its links and the host: 55 TF, 55 GB/s up and down, 300 across, 90 read. */
static void set_rates(kit *f)
{
    gx_profile *host = (gx_profile *)gx_profile_get(f->ctx);
    host->memcpy_bytes_per_s = 1e12;
    host->db_readers = 16;
    host->db_read_all_bytes_per_s = 90e9;
    host->db_read_bytes_per_s = 6e9;
    for (gx_accel *accel = f->ctx->accel; accel != NULL; accel = accel->next) {
        gx_device_profile *p = &accel->profile;
        p->upload_bytes_per_s = p->download_bytes_per_s = 55e9;
        p->sweep_bytes_per_s = 4e12;
        p->launch_s = 1e-6;
        p->wait_s = 1e-5;
        for (int k = 0; k < GX_DEVICE_SIZES; k++) {
            p->gemm_size[k] = (int64_t)128 << k;
            p->gemm_flops_per_s[GX_F64][k] = 55e12;
            p->rate_flops_per_s[GX_RATE_POTRF][k] = 12e12;
        }
        for (int d = 0; d < DEVICES; d++) {
            accel->link[d] = (gx_link){.is_known = true, .is_direct = true, .bytes_per_s = 300e9};
        }
    }
}

/* What a program of order 65536 is foretold to take, start not counted. */
static double foretold(kit *f, bool is_product, int devices)
{
    const int64_t n = 65536, edge = 4096;
    job x;
    size_t bytes;
    gx_fleet fleet;
    gx_cost cost;
    gx_terms terms;
    gx_sink nowhere = {0};
    use(f, devices);
    kit_begin(&x, f, edge);
    x.A.rows = x.A.cols = x.B.rows = x.B.cols = n; // never read
    gx_sink_end(&x.C);
    gx_sink_begin_nowhere(&x.run, n, n, GX_F64, edge, edge, &nowhere);
    x.C = nowhere;
    gx_cholesky_plan plan = {.n = n,
                             .dtype = GX_F64,
                             .uplo = GX_LOWER,
                             .block = edge,
                             .super_m = 1,
                             .super_n = 1,
                             .is_in_memory = true};
    gx_prog *prog =
        is_product ? kit_product(&x, false) : gx_cholesky_program(&x.run, &x.A, &plan, &x.C);
    gx_prog_lookahead(prog, INT32_MAX / 2);
    gx_fleet_single(&fleet, kit_device(&x, &bytes), bytes);
    gx_fleet_gather(f->ctx, &fleet);
    assert_int_equal(fleet.count, devices);
    for (int d = 0; d < devices; d++) {
        fleet.bytes[d] = (size_t)1 << 40;
    }
    set_rates(f);
    gx_prog_spread(prog, &fleet);
    assert_int_equal(gx_predict_program(prog, &fleet, &cost, &terms), GX_OK);
    gx_prog_free(prog);
    gx_sink_drop(&x.C);
    gx_run_end(&x.run);
    return terms.model_s - terms.start_s;
}

static void test_shares(void **state)
{
    kit *f = *state;
    kit_store(f, 'A', 40, 40);
    kit_store(f, 'B', 40, 40);
    kit_set(f, GX_SET_THREADS, "16");
    kit_set(f, GX_SET_READERS, "16");
    for (int is_product = 0; is_product < 2; is_product++) {
        double one = foretold(f, is_product, 1), two = foretold(f, is_product, 2);
        double four = foretold(f, is_product, 4);
        assert_true(one / two > (is_product ? 1.95 : 1.85));
        assert_true(one / four > (is_product ? 3.8 : 3.2));
    }
}

int main(void)
{
    setenv("MOCK_DEVICES", "8", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_product, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_once, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_failures, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_no_room, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_choice, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_shares, kit_up, kit_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
