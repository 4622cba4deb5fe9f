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
** fills; they are n x f beside n x n.  Where shares' products have to be added up, each of several
** devices adds up a part of y from the others' memory, and brings that down; where they do not
** reach each other's memory, or y is small, the sum is made where the products come down.  What has
** no room on the devices is the host's part, worked on at the same time (krylov_oper.c).
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

/* A smaller y is added up by the host before devices have waited for each other. */
static const size_t WORTH_ADDING = (size_t)128 << 10;

/* Elements that parts of y begin at a multiple of; bytes of vectors that are staged at a time. */
enum { PART_GRAIN = 64, STAGE_BYTES = 2 << 20 };

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
    if (d->has_whole_rows) {
        key->i0 = -2;
        key->m = op->n;
    }
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
        gx_kry_buffer *buffers[] = {&s->below, &s->x, &s->y, &s->work, &s->other};
        for (int b = 0; b < 5; b++) {
            gx_pool_give(pool, buffers[b]->data, buffers[b]->bytes);
            *buffers[b] = (gx_kry_buffer){NULL, 0};
        }
        s->a = (gx_kry_buffer){NULL, 0};
        s->is_sound = false;
        s->accel->backend->mark_free(s->accel->dev, s->done);
        s->done = NULL;
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

/* Rows [first, last) of a column of y: what of it comes down from a share; columns. */
typedef struct part {
    int64_t first, last, cols;
} part;

static int64_t length_of_y(const struct gx_kry_device *d)
{
    return d->is_adjoint ? d->op->n : d->op->m;
}

/* What is added up is y as one column, in equal parts. */
static part part_of(const struct gx_kry_device *d, int share)
{
    if (!d->is_added) {
        gx_kry_extents e = gx_kry_extents_of(d, &d->share[share], d->is_adjoint);
        return (part){e.y0, e.y0 + e.y, d->count};
    }
    int64_t all = length_of_y(d) * d->count, grains = gx_ceil_div(all, PART_GRAIN);
    int64_t each = gx_ceil_div(grains, d->shares) * PART_GRAIN;
    return (part){gx_min(all, share * each), gx_min(all, (share + 1) * each), 1};
}

/* Do the devices add the shares' products up? */
static bool is_added(const struct gx_kry_device *d)
{
    const gx_oper *op = d->op;
    size_t bytes = (size_t)(length_of_y(d) * d->count) * gx_dtype_bytes(op->dtype);
    return bytes >= WORTH_ADDING && !op->is_hermitian && !gx_kry_is_turned(op, d->is_adjoint) &&
           gx_kry_are_linked(d, GX_MAP);
}

/* Room for a share of the next columns. */
static gx_code make_room(struct gx_kry_device *d, gx_kry_share *s, gx_err *err)
{
    gx_kry_extents e = gx_kry_extents_of(d, s, d->is_adjoint);
    size_t element = gx_dtype_bytes(d->op->dtype);
    size_t work = gx_kry_work_bytes(d, s, d->is_adjoint, d->count);
    if (!is_open(d, s)) {
        return gx_fail(err, GX_DEVICE, "the device was lost");
    }
    GX_TRY(take(s, &s->x, (size_t)(e.x * d->count) * element, err));
    GX_TRY(take(s, &s->y, (size_t)(e.y * d->count) * element, err));
    return work == 0 ? GX_OK : take(s, &s->work, work, err);
}

/* Vectors [j, j + cols) of those that are staged: a share's rows of them go up, enqueued. */
static gx_code send(struct gx_kry_device *d, gx_kry_share *s, int64_t j, int64_t cols, gx_err *err)
{
    const gx_oper *op = d->op;
    gx_kry_extents e = gx_kry_extents_of(d, s, d->is_adjoint);
    size_t element = gx_dtype_bytes(op->dtype), column = (size_t)e.x * element;
    int64_t length = d->is_adjoint ? op->m : op->n;
    bool is_one = e.x == length;
    size_t run = column * (size_t)(is_one ? cols : 1);
    gx_stats_add(&op->run->ctx->stats, GX_STAT_UPLOADED, (int64_t)column * cols);
    return s->accel->backend->upload(
        s->accel->dev, s->accel->run, gx_at(s->x.data, op->dtype, e.x, 0, j), run,
        gx_at(d->up.data, op->dtype, length, e.x0, j),
        is_one ? run : (size_t)length * element, run, is_one ? 1 : (size_t)cols, err);
}

/* The next columns of vectors go up to all shares, some while others are copied to the stage. */
static gx_code send_all(struct gx_kry_device *d)
{
    const gx_oper *op = d->op;
    int64_t length = d->is_adjoint ? op->m : op->n;
    size_t column = (size_t)length * gx_dtype_bytes(op->dtype);
    int64_t step = gx_max(1, (int64_t)(STAGE_BYTES / (column + 1)));
    GX_TRY(fail_of(d, 0, stage(op, d->share[0].accel->pool, &d->up, column * (size_t)d->count,
                               &d->err)));
    for (int64_t j = 0; j < d->count; j += step) {
        int64_t cols = gx_min(step, d->count - j);
        gx_device_stage(op->run, gx_at(d->up.data, op->dtype, length, 0, j),
                        gx_at(d->vectors, op->dtype, length, 0, d->from + j),
                        column * (size_t)cols);
        for (int k = 0; k < d->shares; k++) {
            GX_TRY(fail_of(d, k, send(d, &d->share[k], j, cols, &d->err)));
        }
    }
    return GX_OK;
}

/* A share's products, enqueued. */
static gx_code multiply(struct gx_kry_device *d, gx_kry_share *s, gx_err *err)
{
    const gx_oper *op = d->op;
    const gx_backend *backend = s->accel->backend;
    gx_dev *dev = s->accel->dev;
    gx_queue *queue = s->accel->run;
    gx_args args[2];
    bool has_work = gx_kry_work_bytes(d, s, d->is_adjoint, d->count) > 0;
    int calls = gx_kry_products(d, s, d->is_adjoint, d->count, args);
    for (int k = 0; k < calls; k++) {
        args[k].work = has_work ? args[k].work : NULL;
        GX_TRY(backend->kernel[GX_GEMM][op->dtype](dev, queue, &args[k], err));
        gx_stats_kernel(&op->run->ctx->stats, gx_kernel_flops(GX_GEMM, op->dtype, &args[k]), 0);
    }
    if (!d->is_added) {
        return GX_OK;
    }
    if (s->done == NULL) {
        GX_TRY(backend->mark_create(dev, &s->done, err));
    }
    return backend->mark_set(dev, queue, s->done, err);
}

/* A share's part of y becomes the sum of all shares', enqueued. */
static gx_code add_others(struct gx_kry_device *d, int share, gx_err *err)
{
    const gx_oper *op = d->op;
    gx_kry_share *s = &d->share[share];
    const gx_backend *backend = s->accel->backend;
    gx_dev *dev = s->accel->dev;
    gx_queue *queue = s->accel->run;
    part p = part_of(d, share);
    size_t bytes = (size_t)(p.last - p.first) * gx_dtype_bytes(op->dtype);
    GX_TRY(take(s, &s->other, bytes, err));
    gx_args args = {.m = p.last - p.first, .n = 1, .alpha = {1, 0}, .beta = {1, 0}};
    args.map = GX_MAP_ADD;
    args.a = args.c = gx_at(s->y.data, op->dtype, 1, p.first, 0);
    args.b = s->other.data;
    args.lda = args.ldb = args.ldc = gx_max(1, args.m);
    for (int k = 0; k < d->shares && bytes > 0; k++) {
        const gx_kry_share *from = &d->share[k];
        if (k == share) {
            continue;
        }
        GX_TRY(backend->queue_after_mark(dev, queue, from->done, err));
        GX_TRY(backend->copy_from(dev, queue, s->other.data, from->accel->dev,
                                  gx_at(from->y.data, op->dtype, 1, p.first, 0), bytes, err));
        GX_TRY(backend->kernel[GX_MAP][op->dtype](dev, queue, &args, err));
        gx_stats_add(&op->run->ctx->stats, GX_STAT_PEER_BYTES, (int64_t)bytes);
    }
    return GX_OK;
}

/* A share's part of y comes down, enqueued. */
static gx_code bring_down(struct gx_kry_device *d, int share, gx_err *err)
{
    const gx_oper *op = d->op;
    gx_kry_share *s = &d->share[share];
    part p = part_of(d, share);
    size_t bytes = (size_t)((p.last - p.first) * p.cols) * gx_dtype_bytes(op->dtype);
    const void *from = d->is_added ? gx_at(s->y.data, op->dtype, 1, p.first, 0) : s->y.data;
    GX_TRY(stage(op, s->accel->pool, &s->down, bytes, err));
    GX_TRY(s->accel->backend->download(s->accel->dev, s->accel->run, s->down.data, bytes, from,
                                       bytes, bytes, 1, err));
    gx_stats_add(&op->run->ctx->stats, GX_STAT_DOWNLOADED, (int64_t)bytes);
    return GX_OK;
}

/* The next columns of vectors on all devices; first of all each has something to do. */
static gx_code enqueue(struct gx_kry_device *d)
{
    d->count = gx_min(d->all - d->from, MOST_COLUMNS);
    d->is_added = is_added(d);
    for (int k = 0; k < d->shares; k++) {
        GX_TRY(fail_of(d, k, make_room(d, &d->share[k], &d->err)));
    }
    GX_TRY(send_all(d));
    for (int k = 0; k < d->shares; k++) {
        GX_TRY(fail_of(d, k, multiply(d, &d->share[k], &d->err)));
    }
    for (int k = 0; k < d->shares; k++) {
        if (d->is_added) {
            GX_TRY(fail_of(d, k, add_others(d, k, &d->err)));
        }
        GX_TRY(fail_of(d, k, bring_down(d, k, &d->err)));
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
    bool adds, is_apart;    /* to what y holds; each row is one share's alone */
    int64_t length, pieces; /* of a column of y                               */
    void *y;
} summing;

/* Rows of a column of y: what the shares have for them, in their order. */
static gx_code sum_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const summing *a = arg;
    const struct gx_kry_device *d = a->d;
    gx_dtype dtype = d->op->dtype;
    int64_t j = piece / a->pieces, i = piece % a->pieces * SUM_ROWS;
    int64_t end = gx_min(a->length, i + SUM_ROWS);
    (void)member, (void)err;
    for (int k = 0; k < d->shares; k++) {
        part p = part_of(d, k);
        int64_t from = gx_max(i, p.first), to = gx_min(end, p.last);
        if (to <= from) {
            continue;
        }
        const void *here =
            gx_at(d->share[k].down.data, dtype, p.last - p.first, from - p.first, j);
        void *sum = gx_at(a->y, dtype, a->length, from, j);
        if (!a->adds && (k == 0 || a->is_apart)) { // the first to come there
            memcpy(sum, here, (size_t)(to - from) * gx_dtype_bytes(dtype));
        } else {
            gx_kry_add(dtype, to - from, 1, here, sum, a->length);
        }
    }
    return GX_OK;
}

/* y (adds: y +=) what has come down; all of y where nobody else has a part in it. */
static void sum_up(const struct gx_kry_device *d, bool adds, void *y)
{
    const size_t WORTH_A_TEAM = (size_t)1 << 20;
    const gx_oper *op = d->op;
    int64_t length = length_of_y(d), cols = d->is_added ? 1 : d->count;
    summing a = {.d = d, .adds = adds, .length = length * d->count / cols};
    a.is_apart = d->is_added || d->has_whole_rows || gx_kry_is_turned(op, d->is_adjoint);
    a.y = gx_at(y, op->dtype, length, 0, d->from);
    a.pieces = gx_ceil_div(a.length, SUM_ROWS);
    size_t bytes = (size_t)(length * d->count) * gx_dtype_bytes(op->dtype);
    gx_team *team = bytes < WORTH_A_TEAM ? NULL : gx_run_team(op->run);
    gx_err err = {0};
    if (team != NULL) {
        gx_team_run(team, a.pieces * cols, sum_piece, &a, &err);
        gx_run_fail(op->run, &err);
        return;
    }
    for (int64_t piece = 0; piece < a.pieces * cols; piece++) {
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

static gx_code run_kernel(const gx_kry_share *s, gx_kernel_id kernel, gx_dtype dtype,
                          const gx_args *args, gx_err *err)
{
    return s->accel->backend->kernel[kernel][dtype](s->accel->dev, s->accel->run, args, err);
}

/* The lower triangle of n x n elements, mirrored. */
static gx_code mirror(const gx_kry_share *s, gx_dtype dtype, int64_t n, void *c, int64_t ldc,
                      gx_err *err)
{
    gx_args args = {.uplo = GX_LOWER, .transa = gx_adjoint(dtype), .m = n, .n = n};
    args.c = c;
    args.ldc = ldc;
    return run_kernel(s, GX_SYMMETRIZE, dtype, &args, err);
}

/* c (m x n) = a^H, or a. */
static gx_code move(const gx_kry_share *s, gx_dtype dtype, bool is_turned, int64_t m, int64_t n,
                    const void *a, int64_t lda, void *c, int64_t ldc, gx_err *err)
{
    gx_args args = {.transa = is_turned ? gx_adjoint(dtype) : GX_NO_TRANS, .m = m, .n = n};
    args.a = a;
    args.lda = lda;
    args.c = c;
    args.ldc = ldc;
    return m == 0 || n == 0
               ? GX_OK
               : run_kernel(s, is_turned ? GX_TRANSPOSE : GX_COPY, dtype, &args, err);
}

/* What lies before a share's square in its rows: turned, from those who have it in theirs. */
static gx_code take_over(struct gx_kry_device *d, int share, gx_err *err)
{
    const gx_oper *op = d->op;
    gx_kry_share *s = &d->share[share];
    size_t element = gx_dtype_bytes(op->dtype);
    for (int k = 0; k < share; k++) {
        const gx_kry_share *from = &d->share[k];
        if (!is_open(d, from)) {
            return gx_fail(err, GX_DEVICE, "the device was lost");
        }
        size_t column = (size_t)from->cols * element;
        int64_t most = (int64_t)(s->other.bytes / column);
        for (int64_t j = 0; j < s->cols; j += most) {
            int64_t cols = gx_min(most, s->cols - j);
            size_t bytes = (size_t)cols * column;
            GX_TRY(s->accel->backend->copy_from(
                s->accel->dev, s->accel->run, s->other.data, from->accel->dev,
                gx_at(from->a.data, op->dtype, from->cols, 0, s->first + j), bytes, err));
            GX_TRY(move(s, op->dtype, true, cols, from->cols, s->other.data, from->cols,
                        gx_at(s->a.data, op->dtype, s->cols, j, from->first), s->cols, err));
            gx_stats_add(&op->run->ctx->stats, GX_STAT_PEER_BYTES, (int64_t)bytes);
        }
    }
    return GX_OK;
}

/* Whole rows: from the share's columns on the diagonal and below, and from shares before it. */
static gx_code make_rows(struct gx_kry_device *d, int share, gx_err *err)
{
    gx_oper *op = d->op;
    gx_kry_share *s = &d->share[share];
    gx_dtype dtype = op->dtype;
    int64_t top = gx_kry_strip_top(op, s), rows = op->m - top, end = s->first + s->cols;
    int64_t elements = rows * s->cols;
    gx_mat view;
    for (int k = 0; k < share; k++) { // a column of theirs has room
        elements = gx_max(elements, d->share[k].cols);
    }
    GX_TRY(take(s, &s->other, (size_t)elements * gx_dtype_bytes(dtype), err));
    gx_mat_view(&view, op->A, GX_NO_TRANS, top, s->first, rows, s->cols);
    GX_TRY(gx_device_load(op->run, s->accel, &view, s->cols, dtype, true, s->other.data, err));
    if (!gx_ok(op->run)) {
        return GX_OK;
    }
    void *square = gx_at(s->other.data, dtype, rows, s->first - top, 0);
    GX_TRY(mirror(s, dtype, s->cols, square, rows, err));
    GX_TRY(move(s, dtype, false, s->cols, s->cols, square, rows,
                gx_at(s->a.data, dtype, s->cols, 0, s->first), s->cols, err));
    GX_TRY(move(s, dtype, true, s->cols, op->m - end,
                gx_at(s->other.data, dtype, rows, end - top, 0), rows,
                gx_at(s->a.data, dtype, s->cols, 0, end), s->cols, err));
    GX_TRY(take_over(d, share, err));
    GX_TRY(s->accel->backend->queue_wait(s->accel->dev, s->accel->run, err));
    gx_pool_give(s->accel->pool, s->other.data, s->other.bytes);
    s->other = (gx_kry_buffer){NULL, 0};
    return GX_OK;
}

/* A share's columns: read, copied and mirrored. */
static gx_code make_columns(struct gx_kry_device *d, gx_kry_share *s, gx_err *err)
{
    gx_oper *op = d->op;
    int64_t top = gx_kry_top(op, s), rows = op->m - top;
    gx_mat view;
    gx_mat_view(&view, op->A, GX_NO_TRANS, top, s->first, rows, s->cols);
    GX_TRY(gx_device_load(op->run, s->accel, &view, s->cols, op->dtype, op->is_hermitian, s->a.data,
                          err));
    if (op->is_hermitian && gx_ok(op->run)) {
        GX_TRY(mirror(s, op->dtype, s->cols, s->a.data, rows, err));
        GX_TRY(s->accel->backend->queue_wait(s->accel->dev, s->accel->run, err));
    }
    return GX_OK;
}

/* A share's buffer: found, or made. */
static gx_code fill(struct gx_kry_device *d, int share, gx_err *err)
{
    gx_oper *op = d->op;
    gx_kry_share *s = &d->share[share];
    int64_t rows = d->has_whole_rows ? op->n : op->m - gx_kry_top(op, s);
    size_t bytes = (size_t)(rows * s->cols) * gx_dtype_bytes(op->dtype);
    gx_block_key key;
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
    GX_TRY(d->has_whole_rows ? make_rows(d, share, err) : make_columns(d, s, err));
    s->is_sound = gx_ok(op->run);
    return GX_OK;
}

/* What is below the mirrored square, turned, where memory is plenty. */
static gx_code turn(const struct gx_kry_device *d, gx_kry_share *s, gx_err *err)
{
    const gx_oper *op = d->op;
    int64_t rows = op->m - gx_kry_top(op, s), below = rows - s->cols;
    size_t bytes = (size_t)(s->cols * below) * gx_dtype_bytes(op->dtype);
    if (!op->is_hermitian || d->has_whole_rows || below == 0 || s->a.bytes + bytes > s->limit / 2 ||
        !gx_accel_offers(s->accel, GX_TRANSPOSE, op->dtype)) {
        return GX_OK;
    }
    GX_TRY(take(s, &s->below, bytes, err));
    return move(s, op->dtype, true, s->cols, below,
                gx_at(s->a.data, op->dtype, rows, s->cols, 0), rows, s->below.data, s->cols, err);
}

static bool fill_all(struct gx_kry_device *d)
{
    bool is_good = true;
    d->err = (gx_err){0};
    for (int k = 0; k < d->shares && is_good; k++) {
        gx_kry_share *s = &d->share[k];
        is_good = fail_of(d, k, fill(d, k, &d->err)) == GX_OK && gx_ok(d->op->run) &&
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
        int count = gx_kry_products(d, &d->share[s], is_adjoint, 1, args);
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
