/*
** Products of Krylov methods on a device: columns of A that stay in its memory for all passes.
**
** A pass over a matrix in memory does 2 f flops for each element that is read, f being the columns
** of the block of vectors: it is as fast as the memory.  A device's is an order of magnitude faster
** than the host's, and copying A there once costs about what one streamed pass does.  So the first
** columns of A, all of them where the device's memory allows, go there once, in one buffer:
**
**   general              y += A_c x_c                adjoint: y_c += A_c^H x
**   Hermitian            of the lower triangle the columns, mirrored at the top: y += A_c x_c, and
**                        for what lies above the other columns y_c += A_rc^H x_r, r: rows below
**
** Vectors go up and products come down in every pass, through page-locked buffers that the team
** fills; they are n x f beside n x n.  What has no room on the device is the host's part, worked on
** at the same time (krylov_oper.c).
**
** A buffer with all of a stored matrix is kept in the device's pool, and found there by a later
** call while neither the matrix nor the file has changed.
**
** Whether: predicted, with PASSES passes, from the rates of copies and of such products on either
** side; 'backend' = cuda skips the comparison.  Deterministic mode stays on the host unless told.
** Failures: out of memory gives smaller parts, then none; another failure switches the device off.
** Either way the host computes the pass again, and all later ones.
*/
#include "../alg/plan.h"
#include "../device/device_copy.h"
#include "krylov.h"

#include <string.h>

/* Passes that pay for the copy: a basis of sixteen blocks. */
static const double PASSES = 16;

/* Columns of vectors on the device at a time. */
enum { MOST_COLUMNS = 64, MOST_NARROW = 16, ATTEMPTS = 3 };

typedef struct device_buffer {
    void *data;
    size_t bytes;
} device_buffer;

struct gx_kry_device {
    gx_oper *op;
    gx_accel *accel;
    size_t limit;
    int64_t cols;    /* of A that are there               */
    bool is_sound;   /* a holds them                      */
    uint64_t stamp;  /* of the file; 0: a is not kept     */
    device_buffer a; /* m x cols                          */
    device_buffer x, y, work;
    gx_staging up, down;
    int64_t from, count; /* columns of vectors that are under way */
    const void *vectors; /* of this pass */
    int64_t all;
    bool is_adjoint;
    gx_err err; /* the first failure */
};

/* Another call, one of a progress report, may have lost the device meanwhile. */
static bool is_open(const struct gx_kry_device *d)
{
    return gx_accel_opened(d->op->run->ctx) == d->accel;
}

// Memory ------------------------------------------------------------------------------------------

static gx_code take(struct gx_kry_device *d, device_buffer *b, size_t bytes, gx_err *err)
{
    if (b->data != NULL && b->bytes >= bytes) {
        return GX_OK;
    }
    gx_pool_give(d->accel->pool, b->data, b->bytes);
    *b = (device_buffer){NULL, bytes};
    return gx_pool_take(d->accel->pool, bytes, d->limit, &b->data, err);
}

static bool key_of(const struct gx_kry_device *d, gx_block_key *key)
{
    const gx_oper *op = d->op;
    if (d->stamp == 0 || d->cols != op->n) {
        return false;
    }
    *key = (gx_block_key){.file = d->stamp,
                          .id = op->A->meta.id,
                          .generation = op->A->meta.generation,
                          .i0 = op->is_hermitian ? -1 : 0, // mirrored: not what is stored
                          .m = op->m,
                          .n = op->n,
                          .dtype = op->dtype};
    return true;
}

/* Everything back to the pool; nothing may be under way. */
static void give_back(struct gx_kry_device *d)
{
    gx_pool *pool = d->accel->pool;
    gx_block_key key;
    if (d->is_sound && key_of(d, &key)) {
        gx_pool_keep(pool, &key, d->a.data, d->a.bytes);
    } else {
        gx_pool_give(pool, d->a.data, d->a.bytes);
    }
    device_buffer *buffers[] = {&d->x, &d->y, &d->work};
    for (int k = 0; k < 3; k++) {
        gx_pool_give(pool, buffers[k]->data, buffers[k]->bytes);
        *buffers[k] = (device_buffer){NULL, 0};
    }
    d->a = (device_buffer){NULL, 0};
    gx_pool_unstage(pool, &d->up);
    gx_pool_unstage(pool, &d->down);
}

// Products ----------------------------------------------------------------------------------------

typedef struct lengths {
    int64_t x, y, out; /* rows of x, of y, of y that the device's columns reach */
} lengths;

static lengths lengths_of(const struct gx_kry_device *d, bool is_adjoint)
{
    const gx_oper *op = d->op;
    lengths l = {is_adjoint ? op->m : op->n, is_adjoint ? op->n : op->m, op->m};
    l.out = is_adjoint && !op->is_hermitian ? d->cols : l.y;
    return l;
}

/* The products of a pass; sizes alone where the buffers are not there yet. */
static int products(const struct gx_kry_device *d, bool is_adjoint, int64_t cols, gx_args out[2])
{
    const gx_oper *op = d->op;
    lengths l = lengths_of(d, is_adjoint);
    bool is_turned = is_adjoint && !op->is_hermitian;
    out[0] = (gx_args){.transa = is_turned ? gx_adjoint(op->dtype) : GX_NO_TRANS,
                       .m = l.out,
                       .n = cols,
                       .k = is_turned ? op->m : d->cols,
                       .alpha = {1, 0},
                       .a = d->a.data,
                       .lda = gx_max(1, op->m),
                       .b = d->x.data,
                       .ldb = gx_max(1, l.x),
                       .c = d->y.data,
                       .ldc = gx_max(1, l.out),
                       .work = d->work.data};
    if (!op->is_hermitian || d->cols == op->n) {
        return 1;
    }
    out[1] = out[0];
    out[1].transa = gx_adjoint(op->dtype);
    out[1].m = d->cols;
    out[1].k = op->m - d->cols;
    out[1].beta = (gx_scalar){1, 0};
    if (d->a.data != NULL && d->x.data != NULL) {
        out[1].a = gx_at(d->a.data, op->dtype, op->m, d->cols, 0);
        out[1].b = gx_at(d->x.data, op->dtype, l.x, d->cols, 0);
    }
    return 2;
}

static size_t work_bytes(const struct gx_kry_device *d, bool is_adjoint, int64_t cols)
{
    const gx_backend *backend = d->accel->backend;
    gx_args args[2];
    size_t most = 0;
    int count = products(d, is_adjoint, cols, args);
    for (int k = 0; k < count && backend->workspace != NULL; k++) {
        size_t bytes = backend->workspace(d->accel->dev, GX_GEMM, d->op->dtype, &args[k]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* The next columns of vectors: up, products, down, all enqueued. */
static gx_code enqueue(struct gx_kry_device *d, gx_err *err)
{
    const gx_oper *op = d->op;
    const gx_backend *backend = d->accel->backend;
    gx_dev *dev = d->accel->dev;
    gx_queue *queue = d->accel->run;
    lengths l = lengths_of(d, d->is_adjoint);
    size_t element = gx_dtype_bytes(op->dtype);
    d->count = gx_min(d->all - d->from, MOST_COLUMNS);
    size_t in = (size_t)(l.x * d->count) * element, out = (size_t)(l.out * d->count) * element;
    size_t budget = (size_t)op->run->ctx->config.number[GX_SET_PINNING_BUDGET];
    GX_TRY(take(d, &d->x, in, err));
    GX_TRY(take(d, &d->y, out, err));
    size_t work = work_bytes(d, d->is_adjoint, d->count);
    if (work > 0) {
        GX_TRY(take(d, &d->work, work, err));
    }
    if (d->up.bytes < in) {
        gx_pool_unstage(d->accel->pool, &d->up);
        GX_TRY(gx_pool_stage(d->accel->pool, in, budget, &d->up, err));
    }
    if (d->down.bytes < out) {
        gx_pool_unstage(d->accel->pool, &d->down);
        GX_TRY(gx_pool_stage(d->accel->pool, out, budget, &d->down, err));
    }
    gx_device_memcpy(op->run, d->up.data, gx_at(d->vectors, op->dtype, l.x, 0, d->from), in);
    GX_TRY(backend->upload(dev, queue, d->x.data, in, d->up.data, in, in, 1, err));
    gx_args args[2];
    int count = products(d, d->is_adjoint, d->count, args);
    for (int k = 0; k < count; k++) {
        args[k].work = work > 0 ? args[k].work : NULL;
        GX_TRY(backend->kernel[GX_GEMM][op->dtype](dev, queue, &args[k], err));
        gx_stats_kernel(&op->run->ctx->stats, gx_kernel_flops(GX_GEMM, op->dtype, &args[k]), 0);
    }
    GX_TRY(backend->download(dev, queue, d->down.data, out, d->y.data, out, out, 1, err));
    gx_stats_add(&op->run->ctx->stats, GX_STAT_UPLOADED, (int64_t)in);
    gx_stats_add(&op->run->ctx->stats, GX_STAT_DOWNLOADED, (int64_t)out);
    return GX_OK;
}

void gx_oper_device_start(gx_oper *op, bool is_adjoint, const void *x, int64_t cols)
{
    struct gx_kry_device *d = op->device;
    d->vectors = x;
    d->is_adjoint = is_adjoint;
    d->all = cols;
    d->from = 0;
    d->err = (gx_err){0};
    if (is_open(d)) {
        enqueue(d, &d->err);
    } else {
        gx_fail(&d->err, GX_DEVICE, "the device was lost");
    }
}

/* y (or y +=) what has come down. */
static void add_down(const struct gx_kry_device *d, bool adds, void *y)
{
    const gx_oper *op = d->op;
    lengths l = lengths_of(d, d->is_adjoint);
    size_t element = gx_dtype_bytes(op->dtype);
    if (!adds && l.out == l.y) {
        gx_device_memcpy(op->run, gx_at(y, op->dtype, l.y, 0, d->from), d->down.data,
                         (size_t)(l.y * d->count) * element);
        return;
    }
    gx_kry_add(op->dtype, l.out, d->count, d->down.data, gx_at(y, op->dtype, l.y, 0, d->from), l.y);
}

bool gx_oper_device_finish(gx_oper *op, bool adds, void *y)
{
    struct gx_kry_device *d = op->device;
    gx_accel *accel = d->accel;
    while (d->err.code == GX_OK && gx_ok(op->run)) {
        if (accel->backend->queue_wait(accel->dev, accel->run, &d->err) != GX_OK) {
            break;
        }
        add_down(d, adds, y);
        d->from += d->count;
        if (d->from == d->all) {
            return true;
        }
        enqueue(d, &d->err);
    }
    if (!gx_ok(op->run)) {
        return true; // gx_oper_device_end() will settle
    }
    if (is_open(d)) {
        gx_err err = d->err, late = {0};
        gx_device_settle(accel, &late);
        d->is_sound = err.code != GX_DEVICE;
        give_back(d);
        gx_device_give_up(op->run, accel, &err);
    }
    gx_mem_free(op->run->ctx->mem, d);
    op->device = NULL;
    return false;
}

// Whether, and how much ---------------------------------------------------------------------------

static double bytes_of(const gx_oper *op)
{
    return (double)op->m * (double)op->n * (double)gx_dtype_bytes(op->dtype);
}

/* Seconds of a pass on the host: at the speed of its memory, or of the database. */
static double host_pass(const gx_oper *op)
{
    gx_run *run = op->run;
    const gx_profile *profile = gx_profile_get(run->ctx);
    int threads = (int)run->ctx->config.number[GX_SET_THREADS];
    double bytes = bytes_of(op), half = op->is_hermitian ? 0.5 : 1;
    double memory = bytes / gx_profile_sweep_rate(profile, threads);
    bool fits = half * bytes < (double)gx_mem_available(run->ctx->mem);
    double stream = half * bytes / gx_plan_read_rate(run);
    return fits || memory > stream ? memory : stream;
}

/* Seconds of a pass for `cols` columns over so many bytes of A on the device. */
static double device_pass(const gx_oper *op, const gx_accel *accel, double bytes, int64_t cols)
{
    const gx_device_profile *device = &accel->profile;
    double vectors = (double)((op->m + op->n) * cols) * (double)gx_dtype_bytes(op->dtype);
    return bytes / device->sweep_bytes_per_s + vectors / device->upload_bytes_per_s +
           8 * device->launch_s;
}

static bool is_faster(const gx_oper *op, const gx_accel *accel)
{
    const gx_device_profile *device = &accel->profile;
    double pass = device_pass(op, accel, bytes_of(op), 8);
    double copy = bytes_of(op) * (op->is_hermitian ? 0.5 : 1) / device->upload_bytes_per_s;
    return op->run->ctx->config.number[GX_SET_BACKEND] == GX_BACKEND_CUDA ||
           PASSES * pass + copy < PASSES * host_pass(op);
}

/* Columns that `bytes` of device memory hold beside vectors, whole blocks. */
static int64_t columns_within(struct gx_kry_device *d, size_t bytes)
{
    const gx_oper *op = d->op;
    size_t element = gx_dtype_bytes(op->dtype);
    int64_t block = gx_min(MOST_NARROW, gx_max(1, op->n));
    for (int64_t cols = op->n; cols > 0;) {
        d->cols = cols;
        size_t rest = gx_pool_rounded(work_bytes(d, false, block) + work_bytes(d, true, block));
        rest += gx_pool_rounded((size_t)(op->n * block) * element);
        rest += gx_pool_rounded((size_t)(op->m * block) * element);
        size_t room = bytes > rest ? bytes - rest : 0;
        if (gx_pool_rounded((size_t)(op->m * cols) * element) <= room) {
            return cols;
        }
        int64_t fit = (int64_t)(room / ((size_t)op->m * element)) / op->edge_cols * op->edge_cols;
        cols = gx_min(fit, (cols - 1) / op->edge_cols * op->edge_cols);
    }
    return 0;
}

int64_t gx_oper_device_foresee(gx_oper *op, int64_t cols, gx_oper_plan *plan)
{
    gx_run *run = op->run;
    gx_accel *accel = run->target;
    struct gx_kry_device d = {.op = op, .accel = accel, .limit = run->target_bytes};
    if (op->m == 0 || op->n == 0 || !gx_accel_offers(accel, GX_GEMM, op->dtype) ||
        !gx_accel_offers(accel, GX_SYMMETRIZE, op->dtype)) {
        return 0;
    }
    int64_t there = columns_within(&d, run->target_bytes);
    double rows = (double)op->m, width = (double)there;
    double element = (double)gx_dtype_bytes(op->dtype);
    plan->up = (op->is_hermitian ? rows - width / 2 : rows) * width * element;
    plan->pass_s = there > 0 ? device_pass(op, accel, rows * width * element, cols) : 0;
    plan->is_faster = there > 0 && is_faster(op, accel);
    return there;
}

/* The buffer with A's first columns: found, or read, copied and mirrored. */
static gx_code fill(struct gx_kry_device *d, gx_err *err)
{
    gx_oper *op = d->op;
    gx_stats *stats = &op->run->ctx->stats;
    size_t bytes = (size_t)(op->m * d->cols) * gx_dtype_bytes(op->dtype);
    gx_block_key key;
    if (key_of(d, &key)) {
        d->a = (device_buffer){gx_pool_claim(d->accel->pool, &key, bytes), bytes};
        d->is_sound = d->a.data != NULL;
        gx_stats_add(stats, GX_STAT_DEVICE_HITS, d->is_sound);
    }
    if (d->is_sound) {
        return GX_OK;
    }
    GX_TRY(take(d, &d->a, bytes, err));
    GX_TRY(gx_device_load(op->run, d->accel, op->A, d->cols, op->dtype, op->is_hermitian, d->a.data,
                          err));
    if (op->is_hermitian && gx_ok(op->run)) {
        gx_args args = {.uplo = GX_LOWER,
                        .transa = gx_adjoint(op->dtype),
                        .m = d->cols,
                        .n = d->cols,
                        .c = d->a.data,
                        .ldc = op->m};
        GX_TRY(d->accel->backend->kernel[GX_SYMMETRIZE][op->dtype](d->accel->dev, d->accel->run,
                                                                   &args, err));
        GX_TRY(d->accel->backend->queue_wait(d->accel->dev, d->accel->run, err));
    }
    d->is_sound = gx_ok(op->run);
    return GX_OK;
}

/* As many columns as there is memory for; fewer where the device has less than it said. */
static void fill_what_fits(struct gx_kry_device *d)
{
    gx_oper *op = d->op;
    size_t bytes = d->limit;
    gx_err err = {0};
    for (int k = 0; k < ATTEMPTS && !d->is_sound && gx_ok(op->run); k++) {
        err = (gx_err){0};
        d->cols = columns_within(d, bytes);
        if (d->cols == 0) {
            gx_fail(&err, GX_NOMEM, "%zu bytes of device memory do not hold columns of %s", bytes,
                    op->A->label);
            break;
        }
        if (fill(d, &err) == GX_OK) {
            break;
        }
        gx_err late = {0};
        gx_device_settle(d->accel, &late);
        give_back(d);
        if (err.code != GX_NOMEM) {
            break;
        }
        gx_stats_note(&op->run->ctx->stats, "device memory: fewer columns: %s", err.text);
        bytes /= 2;
    }
    if (!d->is_sound && gx_ok(op->run)) {
        gx_device_give_up(op->run, d->accel, &err);
    }
}

int64_t gx_oper_device_begin(gx_oper *op)
{
    gx_run *run = op->run;
    size_t limit = 0;
    if (!gx_ok(run) || op->m == 0 || op->n == 0) {
        return 0;
    }
    double rate = gx_profile_flops(gx_profile_get(run->ctx), op->dtype, 1024,
                                   (int)run->ctx->config.number[GX_SET_THREADS]);
    // What the passes take on the host, in the flops that it does in that time.
    gx_accel *accel = gx_place_candidate(run, PASSES * host_pass(op) * rate, op->dtype, &limit);
    void *memory = NULL;
    gx_err err = {0};
    if (accel == NULL || !gx_accel_offers(accel, GX_GEMM, op->dtype) ||
        !gx_accel_offers(accel, GX_SYMMETRIZE, op->dtype) || !is_faster(op, accel)) {
        return 0;
    }
    if (gx_mem_calloc(run->ctx->mem, sizeof(struct gx_kry_device), "the device's part", &memory,
                      &err) != GX_OK) {
        gx_run_fail(run, &err);
        return 0;
    }
    struct gx_kry_device *d = memory;
    *d = (struct gx_kry_device){.op = op, .accel = accel, .limit = limit};
    if (op->A->kind == GX_MAT_STORED) {
        d->stamp = gx_store_stamp(run->ctx->store, op->A->meta.schema);
    }
    fill_what_fits(d);
    if (!d->is_sound) {
        if (d->a.data != NULL) { // the run has failed: the accelerator is still there
            give_back(d);
        }
        gx_mem_free(run->ctx->mem, d);
        return 0;
    }
    gx_stats_add(&run->ctx->stats, GX_STAT_DEVICE_CALLS, 1);
    op->device = d;
    return d->cols;
}

double gx_oper_device_bytes(const gx_oper *op, bool is_adjoint)
{
    gx_args args[2];
    double elements = 0;
    int count = products(op->device, is_adjoint, 1, args);
    for (int k = 0; k < count; k++) {
        elements += (double)args[k].m * (double)args[k].k;
    }
    return elements * (double)gx_dtype_bytes(op->dtype);
}

void gx_oper_device_end(gx_oper *op)
{
    struct gx_kry_device *d = op->device;
    if (d == NULL) {
        return;
    }
    if (is_open(d)) {
        gx_err late = {0};
        d->is_sound = gx_device_settle(d->accel, &late) == GX_OK;
        give_back(d);
    }
    gx_mem_free(op->run->ctx->mem, d);
    op->device = NULL;
}
