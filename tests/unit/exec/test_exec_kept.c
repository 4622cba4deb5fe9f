/*
** What a program finds on the device, and what it would have to allocate.
**
** Plan:
**   1  pieces: a power of two from 1 to 8 MiB, several for everybody who reads; staging buffers: at
**      least one a piece at most, never more than there is room for
**   2  what is foreseen is what is then allocated, for many numbers of slots and blocks, in a pool
**      that is empty and in one that is not
**   3  blocks of stored matrices are found by the next program, and loads of them cost nothing; not
**      with fewer slots than blocks; not after the matrix is replaced; not a view of it
**   4  where there is room for all blocks, each has a buffer of its size, and that is what the pool
**      holds then; with a byte less all buffers are alike
*/
#include "devicekit.h"

enum { EDGE = 32, BLOCK = EDGE * EDGE * 8 };

/* A program of one block, as large as said: only its schedule is looked at. */
static void test_pieces(void **state)
{
    kit *f = *state;
    kit_store(f, 'A', 40, 40);
    kit_store(f, 'B', 40, 40);
    for (int readers = 1; readers <= 16; readers *= 4) {
        char text[16];
        snprintf(text, sizeof text, "%d", readers);
        kit_set(f, GX_SET_READERS, text);
        for (int64_t n = 100; n <= 20000; n *= 2) {
            job x;
            gx_schedule plan = {0};
            kit_begin(&x, f, n);
            x.A.rows = x.A.cols = x.B.rows = x.B.cols = n; // never read
            gx_prog *prog = kit_product(&x, false);
            gx_slots slots;
            assert_true(gx_schedule_make_on(prog, &(size_t){(size_t)1 << 40}, &slots, &plan));
            assert_int_equal(gx_slots_all(&slots), 3);
            size_t piece = gx_exec_piece(prog, &plan, true);
            double bytes = 2.0 * (double)n * (double)n * 8;
            double helpers = (double)gx_exec_helpers(prog, plan.load_count, bytes);
            assert_true(helpers >= 1 && helpers <= readers);
            assert_true(piece >= 1 << 20 && piece <= GX_PIECE_BYTES && (piece & (piece - 1)) == 0);
            assert_true(piece == 1 << 20 || (double)piece < bytes / (2.0 * helpers));
            gx_schedule_clear(prog, &plan);
            gx_prog_free(prog);
            gx_run_failf(&x.run, GX_INTERRUPT, "enough");
            gx_sink_end(&x.C);
            gx_run_end(&x.run);
        }
        gx_run run = {.ctx = f->ctx};
        static gx_load loads[1000]; // from other slots: there is nothing to read
        for (int64_t k = 0; k < 800; k++) {
            int64_t pieces = 1 + k % 200;
            gx_schedule plan = {.loads = loads, .load_count = pieces % 2 == 0 ? 1 : 1000};
            gx_prog prog = {.run = &run, .devices = 1 << k / 200};
            int up = gx_exec_stages_up(&prog, &plan, pieces);
            int down = gx_exec_stages_down(&prog, pieces);
            assert_true(up >= 1 && up <= pieces && down >= 1 && down <= pieces);
            assert_true(up + down <= GX_XD_STAGES);
        }
    }
}

/* Run it with so many slots; what was foreseen must have been allocated. */
static void run_foreseen(kit *f, size_t slots, int64_t edge, bool is_trimmed)
{
    job x;
    size_t all;
    gx_schedule plan = {0};
    gx_growth growth;
    size_t bytes = slots * gx_pool_rounded((size_t)(edge * edge) * 8);
    kit_begin(&x, f, edge);
    gx_prog *prog = kit_product(&x, false);
    gx_accel *accel = kit_device(&x, &all);
    if (is_trimmed) {
        gx_pool_trim(accel->pool);
    }
    gx_fleet fleet;
    gx_slots got;
    gx_fleet_single(&fleet, accel, bytes);
    assert_true(gx_schedule_make_on(prog, fleet.bytes, &got, &plan));
    assert_true(gx_slots_all(&got) >= 3);
    bool *is_there = gx_exec_find_kept(prog, &fleet, &plan);
    gx_exec_foresee(prog, &fleet, &plan, is_there, &growth);
    gx_mem_free(f->ctx->mem, is_there);
    gx_schedule_clear(prog, &plan);
    assert_true(kit_run_on(prog, accel, bytes));
    const gx_growth *grown = gx_pool_grown(accel->pool);
    assert_true(growth.device_buffers == grown->device_buffers);
    assert_true(growth.device_bytes == grown->device_bytes);
    assert_true(growth.pinned_bytes == grown->pinned_bytes);
    assert_true(!is_trimmed || growth.device_bytes > 0);
    gx_prog_free(prog);
    kit_end(&x);
}

static void test_foreseen(void **state)
{
    kit *f = *state;
    kit_store(f, 'A', 300, 200);
    kit_store(f, 'B', 200, 250);
    for (int64_t edge = 32; edge <= 320; edge *= 3) {
        for (size_t slots = 3; slots < 200; slots += 1 + slots / 2) {
            run_foreseen(f, slots, edge, true);
            run_foreseen(f, slots, edge, false);
        }
    }
}

/* Loads of the product's schedule, and how many of them are in device memory. */
static int64_t find(kit *f, size_t slots, bool is_view, int64_t *loads)
{
    job x;
    size_t all;
    gx_schedule plan = {0};
    int64_t found = 0;
    kit_begin(&x, f, EDGE);
    gx_mat whole = x.A;
    if (is_view) {
        gx_mat_view(&x.A, &whole, GX_NO_TRANS, 0, 0, whole.rows, whole.cols);
    }
    gx_prog *prog = kit_product(&x, false);
    gx_accel *accel = kit_device(&x, &all);
    gx_fleet fleet;
    gx_slots got;
    gx_fleet_single(&fleet, accel, slots * BLOCK);
    assert_true(gx_schedule_make_on(prog, fleet.bytes, &got, &plan));
    bool *is_there = gx_exec_find_kept(prog, &fleet, &plan);
    *loads = plan.load_count;
    for (int64_t k = 0; k < plan.load_count && is_there != NULL; k++) {
        found += is_there[k];
    }
    gx_mem_free(f->ctx->mem, is_there);
    gx_schedule_clear(prog, &plan);
    assert_true(kit_run_on(prog, accel, slots * BLOCK));
    gx_prog_free(prog);
    kit_end(&x);
    return found;
}

static void test_found(void **state)
{
    kit *f = *state;
    int64_t loads, a = 3 * 2, b = 2 * 4;
    kit_store(f, 'A', 96, 64);
    kit_store(f, 'B', 64, 128);
    assert_int_equal(find(f, 100, false, &loads), 0);
    assert_int_equal(loads, a + b);
    assert_int_equal(find(f, 100, false, &loads), a + b);
    assert_int_equal(find(f, 8, false, &loads), 0); // a slot holds several, one after the other
    find(f, 100, false, &loads);
    kit_store(f, 'B', 64, 128); // another generation; and the database has changed
    int64_t found = find(f, 100, false, &loads);
    assert_true(found == 0 || found == a);
    find(f, 100, false, &loads);
    found = find(f, 100, true, &loads);
    assert_int_equal(found, b);
}

/* What buffers for all blocks take, each of its size. */
static size_t own_bytes(const gx_prog *prog)
{
    size_t sum = 0;
    for (int k = 0; k < prog->operands; k++) {
        const gx_opnd *op = &prog->operand[k];
        for (int32_t b = 0; b < op->grid_rows * op->grid_cols; b++) {
            sum += gx_pool_rounded(gx_block_shape(op, op->first + b).bytes);
        }
    }
    return sum;
}

static void test_own_sizes(void **state)
{
    kit *f = *state;
    kit_store(f, 'A', 300, 200);
    kit_store(f, 'B', 200, 250);
    for (int64_t edge = 64; edge <= 320; edge *= 2) {
        job x;
        size_t all;
        gx_schedule plan = {0};
        gx_slots slots;
        kit_begin(&x, f, edge);
        gx_prog *prog = kit_product(&x, false);
        gx_accel *accel = kit_device(&x, &all);
        size_t own = own_bytes(prog), less = own - 1;
        assert_true(own < (size_t)prog->blocks * gx_pool_rounded(prog->slot_bytes));
        if (gx_schedule_make_on(prog, &less, &slots, &plan)) {
            assert_null(plan.room);
            assert_int_equal(gx_slot_bytes(prog, &plan, 0), prog->slot_bytes);
        }
        gx_schedule_clear(prog, &plan);
        assert_true(gx_schedule_make_on(prog, &own, &slots, &plan));
        assert_true(plan.is_roomy && plan.room != NULL);
        assert_int_equal(gx_slots_all(&slots), prog->blocks);
        gx_schedule_clear(prog, &plan);
        gx_pool_trim(accel->pool);
        assert_true(kit_run_on(prog, accel, own));
        assert_int_equal(gx_pool_device_bytes(accel->pool), own);
        gx_prog_free(prog);
        kit_end(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pieces, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_foreseen, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_found, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_own_sizes, kit_up, kit_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
