/*
** Whole matrices to and from a device that is not there: values, and what is left after failures.
**
** Plan:
**   1  a stored matrix comes whole, in each dtype, read by several helpers, by one, by the caller;
**      some of its columns; its lower triangle, where nothing above the diagonal is touched;
**      few tiles, read by the caller where helpers get no connection
**   2  a generator (there is nothing to read) comes whole
**   3  memory goes up and comes back: columns with gaps between them, one piece, more pieces than
**      there are buffers, copies that the team shares
**   4  each call of the device fails once: GX_DEVICE, and the run is well; a run that has failed
**      ends the copying
**   5  panels: each is handed over once, whole, whether there is memory for all of them or for two;
**      several at once where the caller comes late, read by helpers, by one and by the caller; what
**      is done meanwhile comes first, and again behind each panel until it says that it is done
** After each of them every buffer, queue and mark is back (kit_down).
*/
#include "../exec/devicekit.h"
#include "exec/load.h"
#include "mat/simple.h"

enum { ROWS = 900, COLS = 700 }; /* 5 MB, of which helpers read a part each */

static gx_accel *begin(job *x, kit *f)
{
    size_t bytes;
    *x = (job){.f = f};
    gx_run_begin(&x->run, f->ctx, "copy");
    return kit_device(x, &bytes);
}

static void *take(gx_accel *accel, size_t bytes)
{
    void *buffer;
    gx_err err = {0};
    assert_int_equal(gx_pool_take(accel->pool, bytes, (size_t)1 << 31, &buffer, &err), GX_OK);
    return buffer;
}

/* Columns [0, cols) of the matrix called A (mat NULL), or of mat, to the device and back. */
static void check_load(kit *f, const gx_mat *mat, int64_t cols, gx_number dtype, bool is_lower)
{
    job x;
    gx_meta meta;
    gx_mat A;
    gx_err err = {0};
    gx_accel *accel = begin(&x, f);
    if (mat == NULL) {
        assert_int_equal(gx_store_find(f->ctx->store, "A", &meta, &err), GX_OK);
        gx_mat_stored(&A, &meta);
        mat = &A;
    }
    int64_t m = mat->rows;
    size_t bytes = (size_t)(m * cols) * gx_number_bytes(dtype);
    void *up = take(accel, bytes), *down = malloc(bytes);
    double *found = malloc((size_t)(m * cols) * 16);
    assert_non_null(down);
    assert_non_null(found);
    memset(down, 0xff, bytes); // NaNs
    assert_int_equal(gx_device_put(&x.run, accel, dtype, m, cols, down, m, up, &err), GX_OK);
    assert_int_equal(gx_device_load(&x.run, accel, mat, cols, dtype, is_lower, up, &err), GX_OK);
    assert_int_equal(gx_device_get(&x.run, accel, dtype, m, cols, up, down, m, &err), GX_OK);
    gx_convert(dtype, down, m, GX_C128, found, m, m, cols);
    for (int64_t j = 0; j < cols; j++) {
        for (int64_t i = 0; i < m; i++) {
            double want = mat == &A ? kit_element('A', i, j) : i == j ? 1 : 0;
            double got = found[2 * (i + j * m)];
            bool is_there = !is_lower || i >= j;
            assert_true(got == want || (!is_there && isnan(got)));
            assert_true(got == want ? found[2 * (i + j * m) + 1] == 0 : true);
        }
    }
    gx_pool_give(accel->pool, up, bytes);
    free(down);
    free(found);
    assert_int_equal(gx_run_end(&x.run), GX_OK);
}

static void test_stored(void **state)
{
    kit *f = *state;
    static const char *const readers[] = {"4", "1", "0"};
    kit_store(f, 'A', ROWS, COLS);
    for (int k = 0; k < 3; k++) {
        kit_set(f, GX_SET_READERS, readers[k]);
        for (int dtype = 0; dtype < GX_FLOATS; dtype++) {
            check_load(f, NULL, COLS, (gx_number)dtype, false);
        }
        check_load(f, NULL, COLS / 3, GX_F64, false);
        check_load(f, NULL, COLS, GX_F64, true);
    }
    assert_true(kit_stat(f, GX_STAT_UPLOADED) > 0);
}

static void test_few_tiles(void **state)
{
    kit *f = *state;
    static const char *const readers[] = {"4", "1", "0"};
    static const int64_t tiles[] = {ROWS, (ROWS + 1) / 2, ROWS - 1}; // 1, 4 and 2; of some pieces
    for (int t = 0; t < 3; t++) {
        kit_store_tiles(f, 'A', ROWS, COLS, tiles[t]);
        for (int k = 0; k < 3; k++) {
            kit_set(f, GX_SET_READERS, readers[k]);
            check_load(f, NULL, COLS, GX_F64, false);
            check_load(f, NULL, COLS, GX_C128, true);
        }
    }
    kit_set(f, GX_SET_READERS, "4");
    sqlite3_exec(f->db, "PRAGMA locking_mode = EXCLUSIVE; SELECT count(*) FROM gx_meta", NULL, NULL,
                 NULL);
    int64_t helped = kit_stat(f, GX_STAT_HELPER_READS);
    check_load(f, NULL, COLS, GX_F64, false);
    assert_int_equal(kit_stat(f, GX_STAT_HELPER_READS), helped);
}

static void test_generated(void **state)
{
    gx_mat one;
    gx_diagonal diagonal = {.data = NULL};
    gx_mat_generated(&one, "I", GX_F64, ROWS, COLS, gx_diagonal_generate, &diagonal);
    check_load(*state, &one, COLS, GX_F64, false);
    check_load(*state, &one, COLS, GX_C64, true);
}

static void check_memory(kit *f, int64_t m, int64_t n, int64_t ld)
{
    job x;
    gx_err err = {0};
    gx_accel *accel = begin(&x, f);
    size_t bytes = (size_t)(m * n) * sizeof(double), there = (size_t)(ld * n) * sizeof(double);
    double *a = malloc(there), *b = malloc(there);
    assert_non_null(a);
    assert_non_null(b);
    for (int64_t k = 0; k < ld * n; k++) {
        a[k] = (double)k;
        b[k] = -1;
    }
    void *device = take(accel, bytes);
    assert_int_equal(gx_device_put(&x.run, accel, GX_F64, m, n, a, ld, device, &err), GX_OK);
    assert_int_equal(gx_device_get(&x.run, accel, GX_F64, m, n, device, b, ld, &err), GX_OK);
    for (int64_t k = 0; k < ld * n; k++) {
        assert_true(b[k] == (k % ld < m ? a[k] : -1));
    }
    assert_int_equal(gx_device_put(&x.run, accel, GX_F64, 0, n, a, ld, device, &err), GX_OK);
    assert_int_equal(gx_device_get(&x.run, accel, GX_F64, m, 0, device, b, ld, &err), GX_OK);
    gx_pool_give(accel->pool, device, bytes);
    free(a);
    free(b);
    assert_int_equal(gx_run_end(&x.run), GX_OK);
}

static void test_memory(void **state)
{
    check_memory(*state, 30, 40, 37);
    check_memory(*state, 500, 400, 500);
    check_memory(*state, (1 << 20) + 1, 5, (1 << 20) + 1);
}

/* A load, a put and a get while something fails; what is said of it. */
static gx_code copy(kit *f, const char *order, bool *has_failed, gx_err *err)
{
    job x;
    gx_meta meta;
    gx_mat A;
    gx_accel *accel = begin(&x, f);
    size_t bytes = (size_t)ROWS * COLS * sizeof(double);
    void *device = take(accel, bytes);
    double *memory = malloc(bytes);
    assert_non_null(memory);
    assert_int_equal(gx_store_find(f->ctx->store, "A", &meta, err), GX_OK);
    gx_mat_stored(&A, &meta);
    mock_order(order);
    gx_code rc = gx_device_load(&x.run, accel, &A, COLS, GX_F64, false, device, err);
    rc = rc != GX_OK ? rc
                     : gx_device_get(&x.run, accel, GX_F64, ROWS, COLS, device, memory, ROWS, err);
    rc = rc != GX_OK ? rc
                     : gx_device_put(&x.run, accel, GX_F64, ROWS, COLS, memory, ROWS, device, err);
    *has_failed = kit_counts().failures > 0; // since the order
    mock_order("");
    gx_pool_give(accel->pool, device, bytes);
    free(memory);
    assert_int_equal(gx_run_end(&x.run), GX_OK);
    return rc;
}

static void test_failures(void **state)
{
    kit *f = *state;
    static const char *const calls[] = {"upload",   "download",  "mark_create",
                                        "mark_set", "mark_wait", "queue_wait"};
    for (size_t c = 0; c < 2 * (sizeof calls / sizeof calls[0]); c++) {
        kit_store_tiles(f, 'A', ROWS, COLS, c % 2 == 0 ? TILE : ROWS / 2); // and few: 4
        for (int n = 1; n <= 40; n += 3) {
            char order[40];
            gx_err err = {0};
            bool has_failed;
            kit_set(f, GX_SET_READERS, n % 2 == 0 ? "3" : "0");
            snprintf(order, sizeof order, "%s:%d", calls[c / 2], n);
            gx_code rc = copy(f, order, &has_failed, &err);
            assert_int_equal(rc, has_failed ? GX_DEVICE : GX_OK);
            assert_int_equal(rc, err.code);
        }
    }
}

/* A matrix that comes by panels. */
typedef struct panels {
    job x;
    gx_accel *accel;
    const gx_mat *A;
    gx_device_panels p;
    void *buffer[ROWS];
    int64_t seen[ROWS]; /* how often */
    bool is_late;
    int64_t handed_over, meanwhile; /* panels, and calls            */
    bool is_done;                   /* the last of them has said so */
} panels;

static int64_t height_of(const panels *x, int64_t panel)
{
    return gx_min(x->p.rows, x->A->rows - panel * x->p.rows);
}

static void *place(void *arg, int64_t panel, int64_t *ld, gx_err *err)
{
    panels *x = arg;
    (void)err;
    assert_true(panel < x->p.ring || x->seen[panel - x->p.ring] == 1);
    *ld = height_of(x, panel);
    return x->buffer[panel % x->p.ring];
}

static gx_code look_at_panels(void *arg, int64_t panel, int64_t count, gx_err *err)
{
    panels *x = arg;
    double *found = malloc((size_t)x->p.rows * COLS * sizeof *found);
    assert_non_null(found);
    assert_true(count > 0 && count <= x->p.ring && x->meanwhile > 0);
    x->handed_over += count;
    x->is_done = false;
    assert_int_equal(x->accel->backend->queue_wait(x->accel->dev, x->accel->up, err), GX_OK);
    for (int64_t end = panel + count; panel < end; panel++) {
        int64_t m = height_of(x, panel);
        x->seen[panel]++;
        assert_int_equal(gx_device_get(&x->x.run, x->accel, GX_F64, m, COLS,
                                       x->buffer[panel % x->p.ring], found, m, err),
                         GX_OK);
        for (int64_t e = 0; e < m * COLS; e++) {
            assert_true(found[e] == kit_element('A', panel * x->p.rows + e % m, e / m));
        }
    }
    free(found);
    return GX_OK;
}

/* The first time until all that has memory has come, where it comes at all; done by threes. */
static gx_code come_late(void *arg, bool *is_done, gx_err *err)
{
    panels *x = arg;
    int64_t uploaded = kit_stat(x->x.f, GX_STAT_UPLOADED), start = gx_now_ns();
    int64_t rows = gx_min(x->A->rows, x->p.ring * x->p.rows);
    (void)err;
    assert_true(!x->is_done && (x->meanwhile > 0 || x->handed_over == 0));
    *is_done = x->is_done = ++x->meanwhile % 3 == 0;
    while (x->is_late && x->meanwhile == 1 && gx_now_ns() - start < 2 * (int64_t)1000000000 &&
           kit_stat(x->x.f, GX_STAT_UPLOADED) - uploaded < rows * COLS * (int64_t)sizeof(double)) {
        sched_yield();
    }
    return GX_OK;
}

static void check_panels(kit *f, int64_t rows, int64_t ring, bool is_late)
{
    panels x = {.is_late = is_late};
    gx_meta meta;
    gx_mat A;
    gx_err err = {0};
    x.accel = begin(&x.x, f);
    assert_int_equal(gx_store_find(f->ctx->store, "A", &meta, &err), GX_OK);
    gx_mat_stored(&A, &meta);
    x.A = &A;
    x.p = (gx_device_panels){.rows = rows,
                             .ring = ring,
                             .place = place,
                             .ready = look_at_panels,
                             .meanwhile = come_late,
                             .arg = &x};
    for (int64_t k = 0; k < ring; k++) {
        x.buffer[k] = take(x.accel, (size_t)rows * COLS * sizeof(double));
    }
    assert_int_equal(gx_device_load_panels(&x.x.run, x.accel, &A, GX_F64, &x.p, &err), GX_OK);
    for (int64_t panel = 0; panel * rows < ROWS; panel++) {
        assert_int_equal(x.seen[panel], 1);
    }
    for (int64_t k = 0; k < ring; k++) {
        gx_pool_give(x.accel->pool, x.buffer[k], (size_t)rows * COLS * sizeof(double));
    }
    assert_int_equal(gx_run_end(&x.x.run), GX_OK);
}

static void test_panels(void **state)
{
    kit *f = *state;
    static const char *const readers[] = {"4", "1", "0"};
    kit_store(f, 'A', ROWS, COLS);
    for (int k = 0; k < 3; k++) {
        kit_set(f, GX_SET_READERS, readers[k]);
        for (int64_t rows = TILE; rows < ROWS; rows *= 4) {
            check_panels(f, rows, gx_ceil_div(ROWS, rows), false);
            check_panels(f, rows, gx_ceil_div(ROWS, rows), k == 0);
            check_panels(f, rows, 2, k == 0);
        }
    }
}

static void test_stopped(void **state)
{
    kit *f = *state;
    job x;
    gx_meta meta;
    gx_mat A;
    gx_err err = {0};
    kit_store(f, 'A', ROWS, COLS);
    gx_accel *accel = begin(&x, f);
    size_t bytes = (size_t)ROWS * COLS * sizeof(double);
    void *device = take(accel, bytes);
    assert_int_equal(gx_store_find(f->ctx->store, "A", &meta, &err), GX_OK);
    gx_mat_stored(&A, &meta);
    gx_run_failf(&x.run, GX_INTERRUPT, "interrupted");
    int64_t uploads = kit_counts().uploads;
    assert_int_equal(gx_device_load(&x.run, accel, &A, COLS, GX_F64, false, device, &err), GX_OK);
    assert_int_equal(gx_device_put(&x.run, accel, GX_F64, 1, 1, &bytes, 1, device, &err), GX_OK);
    assert_int_equal(kit_counts().uploads, uploads);
    gx_pool_give(accel->pool, device, bytes);
    assert_int_equal(gx_run_end(&x.run), GX_INTERRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_stored, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_few_tiles, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_generated, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_memory, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_failures, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_stopped, kit_up, kit_down),
        cmocka_unit_test_setup_teardown(test_panels, kit_up, kit_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
