/*
** Products of Krylov methods on devices: columns of A that stay in their memory for all passes.
**
** A pass over a matrix in memory does 2 f flops for each element that is read, f being the columns
** of the block of vectors: it is as fast as the memory.  A device's is an order of magnitude faster
** than the host's, and copying A there once costs about what one streamed pass does.  So the first
** columns of A, all of them where the devices' memory allows, go there once, in one buffer a
** device, its share (krylov_share.c: which, and what is multiplied with what).
**
** Vectors go up and products come down in every pass, through page-locked buffers that the team
** fills; they are n x f beside n x n.  The sum of the shares' products is made where they come
** down.  What has no room on the devices is the host's part, worked on at the same time
** (krylov_oper.c).
**
** Buffers that hold all of a stored matrix together are kept in the devices' pools, and found there
** by a later call while neither the matrix nor the file has changed.
**
** Failures: out of memory gives smaller shares, then none; a device that fails is left out.  The
** others begin anew, with the columns cut anew, and compute the pass again; without any the host
** does.
*/
#include "../alg/plan.h"
#include "../device/device_copy.h"
#include "krylov_device.h"

#include <string.h>

/* Columns of vectors on the devices at a time; rows of sums that a member of the team makes. */
enum { MOST_COLUMNS = 64, ATTEMPTS = 3, SUM_ROWS = 1 << 16 };

/* Another call, one of a progress report, may have lost a device meanwhile. */
static bool is_open(const struct gx_kry_device *d, const gx_kry_share *s)
{
    return gx_fleet_has(d->op->run->ctx, s->accel);
}

static gx_code fail_of(struct gx_kry_device *d, int culprit, gx_code code)
{
    d->culprit = code == GX_OK ? d->culprit : culprit;
    return code;
}

// Memory ------------------------------------------------------------------------------------------

static gx_code take(const gx_kry_share *s, gx_kry_buffer *b, size_t bytes, gx_err *err)
{
    if (b->data != NULL && b->bytes >= bytes) {
        return GX_OK;
    }
    gx_pool_give(s->accel->pool, b->data, b->bytes);
    *b = (gx_kry_buffer){NULL, bytes};
    return gx_pool_take(s->accel->pool, bytes, s->limit, &b->data, err);
}

static bool key_of(const struct gx_kry_device *d, const gx_kry_share *s, gx_block_key *key)
{
    const gx_oper *op = d->op;
    if (d->stamp == 0 || gx_kry_columns(d) != op->n) {
        return false;
    }
    *key = (gx_block_key){.file = d->stamp,
                          .id = op->A->meta.id,
                          .generation = op->A->meta.generation,
                          .i0 = op->is_hermitian ? -1 : 0, // mirrored: not what is stored
                          .j0 = s->first,
                          .m = op->m - gx_kry_top(op, s),
                          .n = s->cols,
                          .dtype = op->dtype};
    return true;
}

/* Everything back to the pools of the devices that are still there; nothing may be under way. */
static void give_back(struct gx_kry_device *d)
{
    for (int k = 0; k < d->shares; k++) {
        gx_kry_share *s = &d->share[k];
        gx_block_key key;
        if (!is_open(d, s)) {
            continue;
        }
        gx_pool *pool = s->accel->pool;
        if (s->is_sound && key_of(d, s, &key)) {
            gx_pool_keep(pool, &key, s->a.data, s->a.bytes);
        } else {
            gx_pool_give(pool, s->a.data, s->a.bytes);
        }
        gx_kry_buffer *buffers[] = {&s->below, &s->x, &s->y, &s->work};
        for (int b = 0; b < 4; b++) {
            gx_pool_give(pool, buffers[b]->data, buffers[b]->bytes);
            *buffers[b] = (gx_kry_buffer){NULL, 0};
        }
        s->a = (gx_kry_buffer){NULL, 0};
        s->is_sound = false;
        gx_pool_unstage(pool, &s->down);
        if (k == 0) {
            gx_pool_unstage(pool, &d->up);
        }
    }
}

/* Nothing is under way any more; what a failed device has is not to be found again. */
static void settle(struct gx_kry_device *d)
{
    for (int k = 0; k < d->shares; k++) {
        gx_err late = {0};
        gx_kry_share *s = &d->share[k];
        if (is_open(d, s) && gx_device_settle(s->accel, &late) != GX_OK) {
            s->is_sound = false;
            d->culprit = d->err.code == GX_OK ? k : d->culprit;
            d->err = d->err.code == GX_OK ? late : d->err;
        }
    }
    if (d->err.code == GX_DEVICE) {
        d->share[d->culprit].is_sound = false;
    }
}

// Products ----------------------------------------------------------------------------------------

static gx_code stage(const gx_oper *op, gx_pool *pool, gx_staging *staging, size_t bytes,
                     gx_err *err)
{
    if (staging->bytes >= bytes) {
        return GX_OK;
    }
    gx_pool_unstage(pool, staging);
    return gx_pool_stage(pool, bytes, (size_t)op->run->ctx->config.number[GX_SET_PINNING_BUDGET],
                         staging, err);
}

/* A share of the next columns: up, products, down, all enqueued. */
static gx_code enqueue_share(struct gx_kry_device *d, gx_kry_share *s, gx_err *err)
{
    const gx_oper *op = d->op;
    const gx_backend *backend = s->accel->backend;
    gx_stats *stats = &op->run->ctx->stats;
    gx_dev *dev = s->accel->dev;
    gx_queue *queue = s->accel->run;
    gx_kry_extents e = gx_kry_extents_of(op, s, d->is_adjoint);
    size_t element = gx_dtype_bytes(op->dtype), count = (size_t)d->count;
    size_t in = (size_t)e.x * element, out = (size_t)(e.y * d->count) * element;
    size_t work = gx_kry_work_bytes(op, s, d->is_adjoint, d->count);
    size_t length = (size_t)(d->is_adjoint ? op->m : op->n) * element; // of a vector
    GX_TRY(take(s, &s->x, in * count, err));
    GX_TRY(take(s, &s->y, out, err));
    if (work > 0) {
        GX_TRY(take(s, &s->work, work, err));
    }
    GX_TRY(stage(op, s->accel->pool, &s->down, out, err));
    bool is_one = in == length;
    GX_TRY(backend->upload(dev, queue, s->x.data, is_one ? in * count : in,
                           (const char *)d->up.data + (size_t)e.x0 * element,
                           is_one ? in * count : length, is_one ? in * count : in,
                           is_one ? 1 : count, err));
    gx_args args[2];
    int calls = gx_kry_products(op, s, d->is_adjoint, d->count, args);
    for (int k = 0; k < calls; k++) {
        args[k].work = work > 0 ? args[k].work : NULL;
        GX_TRY(backend->kernel[GX_GEMM][op->dtype](dev, queue, &args[k], err));
        gx_stats_kernel(stats, gx_kernel_flops(GX_GEMM, op->dtype, &args[k]), 0);
    }
    GX_TRY(backend->download(dev, queue, s->down.data, out, s->y.data, out, out, 1, err));
    gx_stats_add(stats, GX_STAT_UPLOADED, (int64_t)(in * count));
    gx_stats_add(stats, GX_STAT_DOWNLOADED, (int64_t)out);
    return GX_OK;
}

/* The next columns of vectors on all devices. */
static gx_code enqueue(struct gx_kry_device *d)
{
    const gx_oper *op = d->op;
    int64_t length = d->is_adjoint ? op->m : op->n;
    d->count = gx_min(d->all - d->from, MOST_COLUMNS);
    size_t in = (size_t)(length * d->count) * gx_dtype_bytes(op->dtype);
    for (int k = 0; k < d->shares; k++) {
        if (!is_open(d, &d->share[k])) {
            return fail_of(d, k, gx_fail(&d->err, GX_DEVICE, "the device was lost"));
        }
    }
    GX_TRY(fail_of(d, 0, stage(op, d->share[0].accel->pool, &d->up, in, &d->err)));
    gx_device_memcpy(op->run, d->up.data, gx_at(d->vectors, op->dtype, length, 0, d->from), in);
    for (int k = 0; k < d->shares; k++) {
        GX_TRY(fail_of(d, k, enqueue_share(d, &d->share[k], &d->err)));
    }
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
    enqueue(d);
}

// Sums --------------------------------------------------------------------------------------------

typedef struct summing {
    const struct gx_kry_device *d;
    bool adds;
    int64_t length, pieces; /* of a column of y */
    void *y;
} summing;

/* Rows of a column of y: what the shares have for them, in their order. */
static gx_code sum_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const summing *a = arg;
    const struct gx_kry_device *d = a->d;
    const gx_oper *op = d->op;
    int64_t j = piece / a->pieces, i = piece % a->pieces * SUM_ROWS;
    int64_t end = gx_min(a->length, i + SUM_ROWS);
    bool turned = gx_kry_is_turned(op, d->is_adjoint);
    (void)member, (void)err;
    for (int k = 0; k < d->shares; k++) {
        const gx_kry_share *s = &d->share[k];
        gx_kry_extents e = gx_kry_extents_of(op, s, d->is_adjoint);
        int64_t from = gx_max(i, e.y0), to = gx_min(end, e.y0 + e.y);
        if (to <= from) {
            continue;
        }
        const void *part = gx_at(s->down.data, op->dtype, e.y, from - e.y0, j);
        void *sum = gx_at(a->y, op->dtype, a->length, from, d->from + j);
        if (!a->adds && (k == 0 || turned)) { // the first to come there
            memcpy(sum, part, (size_t)(to - from) * gx_dtype_bytes(op->dtype));
        } else {
            gx_kry_add(op->dtype, to - from, 1, part, sum, a->length);
        }
    }
    return GX_OK;
}

/* y (adds: y +=) what has come down; all of y where nobody else has a part in it. */
static void sum_up(const struct gx_kry_device *d, bool adds, void *y)
{
    const size_t WORTH_A_TEAM = (size_t)1 << 20;
    const gx_oper *op = d->op;
    summing a = {.d = d, .adds = adds, .length = d->is_adjoint ? op->n : op->m, .y = y};
    size_t bytes = (size_t)(a.length * d->count) * gx_dtype_bytes(op->dtype);
    gx_team *team = bytes < WORTH_A_TEAM ? NULL : gx_run_team(op->run);
    gx_err err = {0};
    a.pieces = gx_ceil_div(a.length, SUM_ROWS);
    if (team != NULL) {
        gx_team_run(team, a.pieces * d->count, sum_piece, &a, &err);
        gx_run_fail(op->run, &err);
        return;
    }
    for (int64_t piece = 0; piece < a.pieces * d->count; piece++) {
        sum_piece(&a, piece, 0, &err);
    }
}

static gx_code wait_for_all(struct gx_kry_device *d)
{
    for (int k = 0; k < d->shares; k++) {
        gx_accel *accel = d->share[k].accel;
        GX_TRY(fail_of(d, k, accel->backend->queue_wait(accel->dev, accel->run, &d->err)));
    }
    return GX_OK;
}

/*
** The culprit did not do its part, and everything has been given back: a failed device is left out
** for the connection, one without room for this matrix alone.
*/
static void leave_out(struct gx_kry_device *d)
{
    gx_run *run = d->op->run;
    gx_accel *accel = d->share[d->culprit].accel;
    gx_fleet fleet = {.count = d->shares};
    for (int k = 0; k < d->shares; k++) {
        fleet.accel[k] = d->share[k].accel;
    }
    if (!gx_fleet_goes_on(run->ctx, &fleet, d->culprit, &d->err, &d->op->avoided) &&
        gx_fleet_has(run->ctx, accel)) {
        d->op->avoided |= (uint64_t)1 << (accel->ordinal % 64);
        gx_device_give_up(run, accel, &d->err);
    }
}

bool gx_oper_device_finish(gx_oper *op, bool adds, void *y)
{
    struct gx_kry_device *d = op->device;
    while (d->err.code == GX_OK && gx_ok(op->run)) {
        if (wait_for_all(d) != GX_OK) {
            break;
        }
        sum_up(d, adds, y);
        d->from += d->count;
        if (d->from == d->all) {
            return true;
        }
        enqueue(d);
    }
    if (!gx_ok(op->run)) {
        return true; // gx_oper_device_end() will settle
    }
    settle(d);
    give_back(d);
    leave_out(d);
    gx_mem_free(op->run->ctx->mem, d);
    op->device = NULL;
    return false;
}

// Bringing them there -----------------------------------------------------------------------------

/* A share's buffer: found, or read, copied and mirrored. */
static gx_code fill(struct gx_kry_device *d, gx_kry_share *s, gx_err *err)
{
    gx_oper *op = d->op;
    int64_t top = gx_kry_top(op, s), rows = op->m - top;
    size_t bytes = (size_t)(rows * s->cols) * gx_dtype_bytes(op->dtype);
    gx_block_key key;
    gx_mat view;
    if (!is_open(d, s)) {
        return gx_fail(err, GX_DEVICE, "the device was lost");
    }
    if (key_of(d, s, &key)) {
        s->a = (gx_kry_buffer){gx_pool_claim(s->accel->pool, &key, bytes), bytes};
        s->is_sound = s->a.data != NULL;
        gx_stats_add(&op->run->ctx->stats, GX_STAT_DEVICE_HITS, s->is_sound);
    }
    if (s->is_sound) {
        return GX_OK;
    }
    GX_TRY(take(s, &s->a, bytes, err));
    gx_mat_view(&view, op->A, GX_NO_TRANS, top, s->first, rows, s->cols);
    GX_TRY(gx_device_load(op->run, s->accel, &view, s->cols, op->dtype, op->is_hermitian, s->a.data,
                          err));
    if (op->is_hermitian && gx_ok(op->run)) {
        gx_args args = {.uplo = GX_LOWER,
                        .transa = gx_adjoint(op->dtype),
                        .m = s->cols,
                        .n = s->cols,
                        .c = s->a.data,
                        .ldc = rows};
        GX_TRY(s->accel->backend->kernel[GX_SYMMETRIZE][op->dtype](s->accel->dev, s->accel->run,
                                                                   &args, err));
        GX_TRY(s->accel->backend->queue_wait(s->accel->dev, s->accel->run, err));
    }
    s->is_sound = gx_ok(op->run);
    return GX_OK;
}

/* What is below the mirrored square, turned, where memory is plenty. */
static gx_code turn(const struct gx_kry_device *d, gx_kry_share *s, gx_err *err)
{
    const gx_oper *op = d->op;
    int64_t rows = op->m - gx_kry_top(op, s), below = rows - s->cols;
    size_t bytes = (size_t)(s->cols * below) * gx_dtype_bytes(op->dtype);
    if (!op->is_hermitian || below == 0 || s->a.bytes + bytes > s->limit / 2 ||
        !gx_accel_offers(s->accel, GX_TRANSPOSE, op->dtype)) {
        return GX_OK;
    }
    GX_TRY(take(s, &s->below, bytes, err));
    gx_args args = {.transa = gx_adjoint(op->dtype),
                    .m = s->cols,
                    .n = below,
                    .a = gx_at(s->a.data, op->dtype, rows, s->cols, 0),
                    .lda = rows,
                    .c = s->below.data,
                    .ldc = s->cols};
    return s->accel->backend->kernel[GX_TRANSPOSE][op->dtype](s->accel->dev, s->accel->run, &args,
                                                              err);
}

static bool fill_all(struct gx_kry_device *d)
{
    bool is_good = true;
    d->err = (gx_err){0};
    for (int k = 0; k < d->shares && is_good; k++) {
        gx_kry_share *s = &d->share[k];
        is_good = fail_of(d, k, fill(d, s, &d->err)) == GX_OK && gx_ok(d->op->run) &&
                  fail_of(d, k, turn(d, s, &d->err)) == GX_OK;
    }
    return is_good;
}

/* Those that are still there and have room. */
static void keep_good(struct gx_kry_device *d)
{
    int some = 0;
    for (int k = 0; k < d->shares; k++) {
        if (is_open(d, &d->share[k]) && gx_kry_serves(d->op, d->share[k].accel)) {
            d->share[some++] = d->share[k];
        }
    }
    d->shares = some;
}

/* No device has room for a single column, of limits as small as the first one's. */
static void refuse(const struct gx_kry_device *d)
{
    const gx_kry_share *s = &d->share[0];
    gx_err err = {0};
    gx_fail(&err, GX_NOMEM, "%zu bytes of device memory do not hold columns of %s", s->limit,
            d->op->A->label);
    gx_device_give_up(d->op->run, s->accel, &err);
}

/* As many columns as there is memory for; fewer where a device has less than it said. */
static void fill_what_fits(struct gx_kry_device *d)
{
    gx_run *run = d->op->run;
    for (int k = 1; d->shares > 0 && gx_ok(run) && !fill_all(d) && gx_ok(run); k++) {
        settle(d);
        give_back(d);
        if (d->err.code == GX_NOMEM && k < ATTEMPTS) {
            gx_stats_note(&run->ctx->stats, "device memory: fewer columns: %s", d->err.text);
            d->share[d->culprit].limit /= 2;
        } else {
            leave_out(d);
            keep_good(d);
        }
        if (d->shares > 0) {
            gx_kry_cut(d);
            if (d->shares == 0) {
                refuse(d);
            }
        }
    }
}

int64_t gx_oper_device_begin(gx_oper *op)
{
    gx_run *run = op->run;
    size_t limit = 0;
    if (!gx_ok(run) || op->m == 0 || op->n == 0) {
        return 0;
    }
    gx_accel *accel = gx_kry_candidate(op, &limit);
    void *memory = NULL;
    gx_err err = {0};
    if (accel == NULL) {
        return 0;
    }
    if (gx_mem_calloc(run->ctx->mem, sizeof(struct gx_kry_device), "the device's part", &memory,
                      &err) != GX_OK) {
        gx_run_fail(run, &err);
        return 0;
    }
    struct gx_kry_device *d = memory;
    *d = (struct gx_kry_device){.op = op};
    if (op->A->kind == GX_MAT_STORED) {
        d->stamp = gx_store_stamp(run->ctx->store, op->A->meta.schema);
    }
    gx_kry_choose(d, accel, limit, false);
    if (d->shares == 0 && op->avoided == 0) {
        refuse(d);
    }
    fill_what_fits(d);
    if (d->shares == 0 || !gx_ok(run)) {
        settle(d);
        give_back(d);
        gx_mem_free(run->ctx->mem, d);
        return 0;
    }
    gx_stats_add(&run->ctx->stats, GX_STAT_DEVICE_CALLS, 1);
    gx_stats_add(&run->ctx->stats, GX_STAT_SPREAD_CALLS, d->shares > 1);
    op->device = d;
    return gx_kry_columns(d);
}

double gx_oper_device_bytes(const gx_oper *op, bool is_adjoint)
{
    const struct gx_kry_device *d = op->device;
    gx_args args[2];
    double elements = 0;
    for (int s = 0; s < d->shares; s++) {
        int count = gx_kry_products(op, &d->share[s], is_adjoint, 1, args);
        for (int k = 0; k < count; k++) {
            elements += (double)args[k].m * (double)args[k].k;
        }
    }
    return elements * (double)gx_dtype_bytes(op->dtype);
}

void gx_oper_device_end(gx_oper *op)
{
    struct gx_kry_device *d = op->device;
    if (d == NULL) {
        return;
    }
    settle(d);
    give_back(d);
    if (d->err.code == GX_DEVICE && is_open(d, &d->share[d->culprit])) { // nothing is lost by it
        gx_accel_leave_out(op->run->ctx, d->share[d->culprit].accel, &d->err);
    }
    gx_mem_free(op->run->ctx->mem, d);
    op->device = NULL;
}
