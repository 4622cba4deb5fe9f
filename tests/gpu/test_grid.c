/*
** GX_GRID against the reference: every operation on random batches, the same bits each time.
**
** Plan:
**   1. even batches of 1x1 to 41x41 in a block's shared memory, larger ones in the device's; tables
**      of ragged grids with gaps, of which nothing is written; gaps between columns
**   2. few colours, many, some far apart and below 0; masks of one cell and of none; templates
**   3. f64 and f32 as a, b and c; the numbers of operations, on and off the grid
**   4. spirals, combs, lines: components that meet late
**   5. what is no colour, or no label, is noted, and nothing else is written
*/
#include "../unit/kernels/factor.h"

enum { CUDA = RUNNERS - 1 };

static const uint64_t SEED = 20261130;

static int64_t below(int64_t most)
{
    return (int64_t)(random_bits(&seed) % (uint64_t)most);
}

typedef struct batch {
    int64_t rows, cols, count, height, cells;
    block table; /* of ragged ones */
} batch;

static batch even(int64_t count, int64_t height, int64_t cols)
{
    return (batch){.rows = count * height,
                   .cols = cols,
                   .count = count,
                   .height = height,
                   .cells = height * cols};
}

static batch ragged(int64_t count, int64_t most)
{
    batch b = {.cols = most + 1, .count = count};
    b.table = block_make(GX_F64, count, 3, count);
    for (int64_t k = 0; k < count; k++) {
        int64_t rows = 1 + below(most), cols = 1 + below(most);
        b.rows += below(3);
        block_set(&b.table, k, 0, (gx_scalar){(double)b.rows, 0});
        block_set(&b.table, k, 1, (gx_scalar){(double)rows, 0});
        block_set(&b.table, k, 2, (gx_scalar){(double)cols, 0});
        b.cells = gx_max(b.cells, rows * cols);
        b.rows += rows;
    }
    return b;
}

static block cells(gx_number number, int64_t m, int64_t n, int64_t colours, int64_t apart)
{
    block x = block_make(number, m, n, m + 3);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            int64_t c = gx_max(0, below(2 * colours) - colours); // half of them are 0
            block_set(&x, i, j, (gx_scalar){(double)(c * apart - (apart > 1 ? 3 : 0)), 0});
        }
    }
    return x;
}

/* Runs the job on a device; whether it was refused. */
static bool run_job(const device *d, gx_grid_job job, const batch *b, block *a, block *mask,
                    block *c)
{
    gx_err err = {.code = GX_OK};
    block note = block_make(GX_F64, 1, 1, 1);
    int64_t refused = 0;
    memcpy(note.data, &refused, sizeof refused);
    gx_queue *queue = device_queue(d);
    unsigned char *at = device_place(d, queue, &note);
    job.refused = (int64_t *)(void *)(at + GUARD_BYTES);
    gx_args args = {.m = b->rows, .n = b->cols, .grid = &job};
    block *table = b->height > 0 ? NULL : (block *)(uintptr_t)&b->table;
    assert_int_equal(device_run3(d, GX_GRID, GX_F64, args, a, mask, table, c, &err), GX_OK);
    device_fetch(d, queue, &note, at);
    if (queue != NULL) {
        assert_int_equal(d->backend->queue_wait(d->dev, queue, &err), GX_OK);
    }
    device_drop(d, &note, at);
    memcpy(&refused, note.data, sizeof refused);
    assert_true(block_is_guarded(&note) && block_is_guarded(c));
    block_free(&note);
    return refused != 0;
}

/* By the device, twice, and by the reference. */
static void same_job(const gx_grid_job *job, const batch *b, block *a, block *mask)
{
    bool is_number = job->result == GX_GRID_NUMBER, is_refused[3];
    block c[3];
    c[0] = block_make(job->c, is_number ? b->count : b->rows, is_number ? 1 : b->cols,
                      (is_number ? b->count : b->rows) + 1);
    for (int64_t e = 0; e < c[0].m * c[0].n; e++) {
        block_set(&c[0], e % c[0].m, e / c[0].m, (gx_scalar){-77, 0}); // stays in the gaps
    }
    c[1] = block_copy(&c[0]);
    c[2] = block_copy(&c[0]);
    for (int q = 0; q < 3; q++) {
        is_refused[q] = run_job(&runners[q == 0 ? 0 : CUDA].d, *job, b, a, mask, &c[q]);
    }
    for (int q = 1; q < 3; q++) {
        if (is_refused[q] != is_refused[0] || memcmp(c[0].raw, c[q].raw, c[0].bytes) != 0) {
            fail_msg("operation %d by %d, %d grids of up to %d cells in %dx%d: other than the "
                     "reference",
                     (int)job->id, (int)job->rule.by, (int)b->count, (int)b->cells, (int)b->rows,
                     (int)b->cols);
        }
    }
    for (int q = 0; q < 3; q++) {
        block_free(&c[q]);
    }
}

static const struct {
    const char *kinds;
    gx_grid_result result;
} ops[GX_GRID_COUNT] = {{"G", GX_GRID_LABELS},
#define ROW(X, ID, NAME, ARGUMENTS, KINDS, RESULT, KERNEL, HELP) {KINDS, GX_GRID_##RESULT},
                        GX_GRID_OPS(ROW, )
#undef ROW
};

/* Numbers that core/grid lets through. */
static void draw_numbers(const batch *b, gx_grid_job *job)
{
    int64_t *n = job->number, di = below(3) - 1, dj = below(3) - 1, far = below(9);
    int64_t side = gx_min(b->height > 0 ? b->height : 5, b->cols);
    n[0] = below(side + 4) - 2;
    n[1] = below(side + 4) - 2;
    n[2] = below(4);
    switch (job->id) {
    case GX_GRID_FLOOD:
        n[0] = gx_max(0, n[0]);
        n[1] = gx_max(0, n[1]);
        n[3] = 4 + 4 * below(2);
        break;
    case GX_GRID_BESIDE:
        n[0] = 4 + 4 * below(2);
        break;
    case GX_GRID_TURN:
        n[0] = b->height == b->cols ? 90 + 90 * below(3) : 180;
        break;
    case GX_GRID_MIRROR:
        n[0] = below(2);
        break;
    case GX_GRID_CONNECT:
        n[2] = n[0] + di * far;
        n[3] = n[1] + dj * far;
        break;
    case GX_GRID_SHOOT:
        n[2] = di;
        n[3] = di == 0 && dj == 0 ? 1 : dj;
        break;
    default:
        break;
    }
}

static void every_operation(const batch *b, int64_t colours, int64_t apart, gx_number number)
{
    block g = cells(number, b->rows, b->cols, colours, apart);
    for (int id = 0; id < GX_GRID_COUNT; id++) {
        bool has_mask = strchr(ops[id].kinds, 'M') != NULL, has_t = strchr(ops[id].kinds, 'T');
        bool is_exact = ops[id].result == GX_GRID_NUMBER || ops[id].result == GX_GRID_LABELS;
        gx_grid_job job = {.id = (gx_grid_id)id,
                           .result = ops[id].result,
                           .rule = {4 + 4 * (int)below(2), (gx_grid_by)below(6)},
                           .count = b->count,
                           .height = b->height,
                           .cells = b->cells,
                           .a = number,
                           .b = below(2) ? GX_F64 : GX_F32,
                           .c = is_exact ? GX_F64 : number};
        block mask = cells(job.b, has_t ? 2 : b->rows, has_t ? 2 : b->cols, 1, 1);
        if (has_t) {
            job.t_rows = job.t_cols = 2;
        }
        for (int64_t e = 0; e < mask.m * mask.n && has_mask; e++) { // few cells, apart from g's
            bool is_taken = below(8) == 0 && block_get(&g, e % mask.m, e / mask.m).re <= 0;
            block_set(&mask, e % mask.m, e / mask.m, (gx_scalar){is_taken, 0});
        }
        draw_numbers(b, &job);
        same_job(&job, b, &g, has_mask || has_t ? &mask : NULL);
        block_free(&mask);
    }
    block_free(&g);
}

static void batches(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{2000, 1, 1}, {300, 2, 3},  {100, 30, 30}, {40, 41, 41},
                                        {20, 7, 90},  {6, 64, 64},  {3, 256, 256}, {2, 1, 5000},
                                        {2, 5000, 1}, {90, 12, 12}, {5, 100, 33}};
    for (int turn = 0; turn < 3; turn++) {
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            batch b = even(shapes[k][0], shapes[k][1], shapes[k][2]);
            int64_t colours = turn == 0 ? 3 : turn == 1 ? 2 : 200;
            every_operation(&b, colours, turn == 2 ? 70001 : 1, k % 2 == 0 ? GX_F64 : GX_F32);
        }
        for (int64_t most = 1; most < 60; most += 14) {
            batch b = ragged(80, most);
            every_operation(&b, 1 + 3 * turn, turn == 2 ? 99991 : 1, GX_F64);
            block_free(&b.table);
        }
    }
}

static void labels(void **state)
{
    (void)state;
    enum { SIDE = 250 };
    batch one = even(1, SIDE, SIDE);
    for (int which = 0; which < 3; which++) {
        block g = cells(GX_F64, SIDE, SIDE, 1, 1);
        for (int64_t i = 0; i < SIDE; i++) {
            for (int64_t j = 0; j < SIDE; j++) {
                int64_t ring = gx_min(gx_min(i, j), gx_min(SIDE - 1 - i, SIDE - 1 - j));
                bool is_spiral = ring % 2 == 0 ? i != ring + 1 || j != ring || ring == 0
                                               : i == ring + 1 && j == ring;
                bool is = which == 0 ? is_spiral : which == 1 ? j % 2 == 0 || i == SIDE - 1 : true;
                block_set(&g, i, j, (gx_scalar){is, 0});
            }
        }
        for (int by = GX_BY_NONZERO; by <= GX_BY_COLOUR_ALL; by++) {
            gx_grid_job job = {.result = GX_GRID_LABELS,
                               .rule = {4 + 4 * (by % 2), (gx_grid_by)by},
                               .count = 1,
                               .height = SIDE,
                               .cells = SIDE * SIDE,
                               .a = GX_F64,
                               .c = GX_F64};
            same_job(&job, &one, &g, NULL);
        }
        block_free(&g);
    }
}

static void refusals(void **state)
{
    (void)state;
    static const double bad[] = {0.5, NAN, INFINITY, -0x1p31, 0x1p31, 1e300, -3, 1000};
    for (int k = 0; k < 8; k++) {
        batch b = even(20, 5, 6);
        block g = cells(GX_F64, b.rows, b.cols, 1, 1), c = block_copy(&g);
        block_set(&g, 50, 3, (gx_scalar){bad[k], 0});
        gx_grid_job job = {.id = GX_GRID_SIZES,
                           .result = GX_GRID_LABELS,
                           .count = b.count,
                           .height = b.height,
                           .cells = b.cells,
                           .a = GX_F64,
                           .c = GX_F64};
        assert_true(run_job(&runners[CUDA].d, job, &b, &g, NULL, &c));
        job.id = GX_GRID_BESIDE;
        job.number[0] = 4;
        assert_int_equal(run_job(&runners[CUDA].d, job, &b, &g, NULL, &c), k < 6);
        block_free(&g);
        block_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches),
        cmocka_unit_test(labels),
        cmocka_unit_test(refusals),
    };
    seed = SEED;
    printf("seed %llu\n", (unsigned long long)SEED);
    open_runners();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
