/*
** Results in device memory: see resident.h.
**
** Buffers are the executor's slots, each one block packed with its own height as leading dimension.
** Reading cuts a rectangle at the blocks' borders and copies each part down on a queue of its own,
** one reader at a time; where another dtype is asked for, by columns through a small buffer.
*/
#include "resident.h"

#include <assert.h>
#include <string.h>

typedef struct gx_resident {
    gx_run *run;
    gx_accel *accel; /* NULL: lost */
    struct gx_resident *next;
    gx_number dtype;
    int64_t rows, cols, block_rows, block_cols, grid_rows, grid_cols;
    size_t slot_bytes;
    gx_queue *queue; /* NULL until something is read */
    pthread_mutex_t lock;
    void *place[]; /* grid_rows x grid_cols, column-major */
} gx_resident;

// Reading -----------------------------------------------------------------------------------------

/* Part (i, j) m x n of one block of height `height` at base. */
static gx_code read_part(gx_resident *r, const void *base, int64_t height, int64_t i, int64_t j,
                         int64_t m, int64_t n, gx_number dtype, void *dst, int64_t ld, gx_err *err)
{
    enum { BOUNCE_BYTES = 16 << 10 };
    const gx_backend *backend = r->accel->backend;
    size_t element = gx_number_bytes(r->dtype);
    if (dtype == r->dtype) {
        GX_TRY(backend->download(r->accel->dev, r->queue, dst, (size_t)ld * element,
                                 gx_at(base, dtype, height, i, j), (size_t)height * element,
                                 (size_t)m * element, (size_t)n, err));
        return backend->queue_wait(r->accel->dev, r->queue, err);
    }
    _Alignas(16) char bounce[BOUNCE_BYTES];
    int64_t most = BOUNCE_BYTES / (int64_t)element;
    for (int64_t k = 0; k < n; k++) {
        for (int64_t at = 0; at < m; at += most) {
            int64_t count = gx_min(most, m - at);
            size_t bytes = (size_t)count * element;
            GX_TRY(backend->download(r->accel->dev, r->queue, bounce, bytes,
                                     gx_at(base, r->dtype, height, i + at, j + k), bytes, bytes, 1,
                                     err));
            GX_TRY(backend->queue_wait(r->accel->dev, r->queue, err));
            gx_convert(r->dtype, bounce, count, dtype, gx_at(dst, dtype, ld, at, k), ld, count, 1);
        }
    }
    return GX_OK;
}

/* Under the lock. */
static gx_code read_all(gx_resident *r, int64_t i0, int64_t j0, int64_t m, int64_t n,
                        gx_number dtype, void *dst, int64_t ld, gx_err *err)
{
    if (r->accel == NULL) {
        return gx_fail(err, GX_DEVICE, "the device was closed while it held a result");
    }
    if (r->queue == NULL) {
        GX_TRY(r->accel->backend->queue_create(r->accel->dev, &r->queue, err));
    }
    for (int64_t j = j0; j < j0 + n;) {
        int64_t bj = j / r->block_cols, j1 = gx_min(j0 + n, (bj + 1) * r->block_cols);
        for (int64_t i = i0; i < i0 + m;) {
            int64_t bi = i / r->block_rows, i1 = gx_min(i0 + m, (bi + 1) * r->block_rows);
            int64_t height = gx_min(r->block_rows, r->rows - bi * r->block_rows);
            GX_TRY(read_part(r, r->place[bj * r->grid_rows + bi], height, i - bi * r->block_rows,
                             j - bj * r->block_cols, i1 - i, j1 - j, dtype,
                             gx_at(dst, dtype, ld, i - i0, j - j0), ld, err));
            i = i1;
        }
        j = j1;
    }
    return GX_OK;
}

/* The sink's gx_generate: any thread. */
static void read_held(const void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n,
                      gx_number dtype, void *dst, int64_t ld)
{
    gx_resident *r = *(void *const *)arg;
    gx_err err = {0};
    pthread_mutex_lock(&r->lock);
    gx_code code = read_all(r, i0, j0, m, n, dtype, dst, ld, &err);
    pthread_mutex_unlock(&r->lock);
    if (code != GX_OK) { // whoever asked cannot be told: the run is
        for (int64_t j = 0; j < n; j++) {
            memset(gx_at(dst, dtype, ld, 0, j), 0xFF, (size_t)m * gx_number_bytes(dtype));
        }
        gx_run_fail(r->run, &err);
    }
}

// Ending ------------------------------------------------------------------------------------------

/* Off the accelerator; the memory goes to its pool. */
static void detach(gx_resident *r)
{
    gx_accel *accel = r->accel;
    if (accel == NULL) {
        return;
    }
    for (int64_t k = 0; k < r->grid_rows * r->grid_cols; k++) {
        gx_pool_give(accel->pool, r->place[k], r->slot_bytes);
        r->place[k] = NULL;
    }
    if (r->queue != NULL) {
        accel->backend->queue_free(accel->dev, r->queue);
        r->queue = NULL;
    }
    gx_resident **link = &accel->residents;
    while (*link != r) {
        link = &(*link)->next;
    }
    *link = r->next;
    r->accel = NULL;
}

void gx_resident_lose(gx_accel *accel)
{
    while (accel->residents != NULL) {
        detach(accel->residents);
    }
}

static void drop_held(void *data)
{
    gx_resident *r = data;
    detach(r);
    pthread_mutex_destroy(&r->lock);
    gx_mem_free(r->run->ctx->mem, r);
}

// Making one --------------------------------------------------------------------------------------

void gx_resident_begin(gx_sink *sink, gx_accel *accel, int64_t block_rows, int64_t block_cols,
                       size_t slot_bytes)
{
    assert(sink->is_resident && block_rows > 0 && block_cols > 0);
    gx_run *run = sink->run;
    int64_t grid_rows = gx_ceil_div(sink->rows, block_rows);
    int64_t grid_cols = gx_ceil_div(sink->cols, block_cols);
    size_t bytes = sizeof(gx_resident) + (size_t)(grid_rows * grid_cols) * sizeof(void *);
    gx_err err = {0};
    void *memory;
    gx_sink_hold(sink, &(gx_held){0}); // its buffers serve the new one
    if (gx_mem_calloc(run->ctx->mem, bytes, "the list of blocks on the device", &memory, &err) !=
        GX_OK) {
        gx_run_fail(run, &err);
        return;
    }
    gx_resident *r = memory;
    r->run = run;
    r->accel = accel;
    r->dtype = sink->number;
    r->rows = sink->rows;
    r->cols = sink->cols;
    r->block_rows = block_rows;
    r->block_cols = block_cols;
    r->grid_rows = grid_rows;
    r->grid_cols = grid_cols;
    r->slot_bytes = slot_bytes;
    pthread_mutex_init(&r->lock, NULL);
    r->next = accel->residents;
    accel->residents = r;
    gx_sink_hold(sink, &(gx_held){.data = r, .read = read_held, .drop = drop_held});
}

void gx_resident_put(gx_sink *sink, int64_t block, void *buffer)
{
    gx_resident *r = sink->held.data;
    assert(r != NULL && block >= 0 && block < r->grid_rows * r->grid_cols);
    assert(r->place[block] == NULL);
    r->place[block] = buffer;
}
