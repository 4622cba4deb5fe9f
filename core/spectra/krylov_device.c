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
** fills and empties; they are n x f beside n x n.
**
** Where shares' products have to be added up, sums travel from device to device behind the
** products, and each brings a stretch of y down; where they do not reach each other's memory, or y
** is small, the sum is made where the products come down.  What has no room on the devices is the
** host's part, worked on at the same time (krylov_oper.c).
**
** Buffers that hold all of a stored matrix together are kept in the devices' pools, and found there
** by a later call while neither the matrix nor the file has changed.
**
** Failures: out of memory gives smaller shares, then none; a device that fails is left out.  The
** others begin anew, with the columns cut anew, and compute the pass again; without any the host
** does.
*/
#include "../alg/plan.h"
#include "../base/copy.h"
#include "../device/device_copy.h"
#include "krylov_device.h"

#include <string.h>

/*
** Columns of vectors on the devices at a time; rows that a member of the team adds, or copies: so
** many that the members who are woken for them, one after the other, have something to do.
*/
enum { MOST_COLUMNS = 64, ATTEMPTS = 3, COPY_ROWS = 1 << 15 };

/* A smaller y is added up by the host before devices have waited for each other. */
static const size_t WORTH_ADDING = (size_t)3 << 20;

/* Parts of a stretch of y. */
enum { HALVES = 2 };

// Memory ------------------------------------------------------------------------------------------

/* Everything back to the pools of the devices that are still there; nothing may be under way. */
static void give_back(struct gx_kry_device *d)
{
    for (int k = 0; k < d->shares; k++) {
        gx_kry_share *s = &d->share[k];
        gx_block_key key;
        if (!gx_kry_is_open(d, s)) {
            continue;
        }
        gx_pool *pool = s->accel->pool;
        if (s->is_sound && gx_kry_key(d, s, &key)) {
            gx_pool_keep(pool, &key, s->a.data, s->a.bytes);
        } else {
            gx_pool_give(pool, s->a.data, s->a.bytes);
        }
        gx_kry_buffer *buffers[] = {&s->x, &s->y, &s->work, &s->other};
        for (int b = 0; b < 4; b++) {
            gx_pool_give(pool, buffers[b]->data, buffers[b]->bytes);
            *buffers[b] = (gx_kry_buffer){NULL, 0};
        }
        s->a = (gx_kry_buffer){NULL, 0};
        s->is_sound = false;
        gx_mark **marks[] = {&s->arrived, &s->done[0], &s->done[1], &s->received, &s->down_there};
        for (int m = 0; m < 5; m++) {
            s->accel->backend->mark_free(s->accel->dev, *marks[m]);
            *marks[m] = NULL;
        }
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
        if (gx_kry_is_open(d, s) && gx_device_settle(s->accel, &late) != GX_OK) {
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

static int64_t length_of_x(const struct gx_kry_device *d)
{
    return d->is_adjoint ? d->op->m : d->op->n;
}

static int64_t length_of_y(const struct gx_kry_device *d)
{
    return d->is_adjoint ? d->op->n : d->op->m;
}

/* Of a share, for the columns of vectors that are under way. */
static const gx_kry_layout *layout_of(struct gx_kry_device *d, int share)
{
    gx_kry_layout *l = &d->share[share].layout[d->is_adjoint];
    if (l->cols != d->count || l->is_added != d->is_added) {
        *l = gx_kry_lay_out(d, &d->share[share], share, d->is_adjoint, d->count);
    }
    return l;
}

/* Part number `which` of the stretch that comes down from a share; NULL: it has none. */
static const gx_kry_part *own_part(const gx_kry_layout *l, int which)
{
    return l->own + which < l->y_parts ? &l->part[l->own + which] : NULL;
}

/* Do the devices add the shares' products up?  Where there is room for what that needs. */
static void choose_adding(struct gx_kry_device *d)
{
    const gx_oper *op = d->op;
    size_t bytes = (size_t)(length_of_y(d) * d->count) * gx_number_bytes(op->dtype);
    d->is_added = bytes >= WORTH_ADDING && !op->is_hermitian && !d->is_adjoint &&
                  gx_kry_are_linked(d, GX_GEMM);
    for (int k = 0; k < d->shares && d->is_added; k++) {
        gx_kry_share *s = &d->share[k];
        size_t work = layout_of(d, k)->work;
        gx_err none = {0}; // what is wrong with the device shows when it is to work
        d->is_added = gx_kry_is_open(d, s) &&
                      (work == 0 || gx_kry_take(s, &s->work, work, &none) == GX_OK);
    }
}

static gx_code make_mark(const gx_kry_share *s, gx_mark **mark, gx_err *err)
{
    return *mark != NULL ? GX_OK : s->accel->backend->mark_create(s->accel->dev, mark, err);
}

/* Room for a share of the next columns, and marks. */
static gx_code make_room(struct gx_kry_device *d, int share, gx_err *err)
{
    gx_kry_share *s = &d->share[share];
    const gx_kry_layout *l = layout_of(d, share);
    size_t element = gx_number_bytes(d->op->dtype);
    size_t down = (size_t)(own_part(l, 0)->ld * d->count) * element;
    GX_TRY(gx_kry_check_open(d, s, err));
    GX_TRY(gx_kry_take(s, &s->x, (size_t)(l->x * d->count) * element, err));
    GX_TRY(gx_kry_take(s, &s->y, (size_t)(l->y * d->count) * element, err));
    if (l->work > 0) {
        GX_TRY(gx_kry_take(s, &s->work, l->work, err));
    }
    for (int k = 0; k < HALVES; k++) {
        GX_TRY(make_mark(s, &s->done[k], err));
    }
    GX_TRY(make_mark(s, &s->arrived, err));
    GX_TRY(make_mark(s, &s->received, err));
    GX_TRY(make_mark(s, &s->down_there, err));
    return stage(d->op, s->accel->pool, &s->down, down, err);
}

/* Ranges of the rows of all columns, each cut into pieces for the team. */
typedef struct ranges {
    int64_t first[GX_DEVICES_MOST], last[GX_DEVICES_MOST];
    int count;
    int64_t longest, rows;
} ranges;

static void add_range(ranges *r, int64_t first, int64_t last)
{
    if (first < last) {
        r->first[r->count] = first;
        r->last[r->count++] = last;
        r->longest = gx_max(r->longest, last - first);
        r->rows += last - first;
    }
}

static int64_t count_pieces(const ranges *r, int64_t cols)
{
    return r->count * cols * gx_ceil_div(r->longest, COPY_ROWS);
}

/* Of a piece the rows [*first, *last), none where its range is a shorter one, and the column. */
static int64_t find_piece(const ranges *r, int64_t cols, int64_t piece, int64_t *first,
                          int64_t *last)
{
    int64_t high = gx_ceil_div(r->longest, COPY_ROWS), range = piece / high / cols;
    *first = r->first[range] + piece % high * COPY_ROWS;
    *last = gx_min(r->last[range], *first + COPY_ROWS);
    return piece / high % cols;
}

/* By the team, or by the caller: after an interrupt nobody looks at what has been copied. */
static void take_pieces(gx_run *run, gx_team *team, int64_t pieces, gx_team_fn fn, void *arg)
{
    gx_err err = {0};
    if (team != NULL) {
        gx_team_run(team, pieces, fn, arg, &err);
    }
    for (int64_t piece = 0; team == NULL && piece < pieces; piece++) {
        fn(arg, piece, 0, &err);
    }
    gx_run_fail(run, &err);
}

/* Vectors that are copied to the buffer that they go up from. */
typedef struct staging {
    const struct gx_kry_device *d;
    ranges rows;
    bool is_shared; /* by the team */
} staging;

static gx_code stage_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const staging *s = arg;
    const struct gx_kry_device *d = s->d;
    gx_number dtype = d->op->dtype;
    int64_t length = length_of_x(d), i, end, j = find_piece(&s->rows, d->count, piece, &i, &end);
    size_t bytes = i < end ? (size_t)(end - i) * gx_number_bytes(dtype) : 0;
    (void)member, (void)err;
    if (bytes > 0) {
        void *to = gx_at(d->up.data, dtype, length, i, j);
        const void *from = gx_at(d->vectors, dtype, length, i, d->from + j);
        if (s->is_shared) {
            gx_copy_past(to, from, bytes);
            gx_copy_past_end();
        } else {
            memcpy(to, from, bytes);
        }
    }
    return GX_OK;
}

/* A part of x of all shares into the buffer that it goes up from. */
static void stage_part(struct gx_kry_device *d, int part_x)
{
    staging s = {.d = d};
    for (int k = 0; k < d->shares; k++) {
        const gx_kry_layout *l = layout_of(d, k);
        int64_t first = part_x < l->x_parts ? l->x0 + l->x_at[part_x] : 0;
        int64_t last = part_x < l->x_parts ? l->x0 + l->x_at[part_x + 1] : 0;
        bool is_there =
            s.rows.count > 0 && first >= s.rows.first[0] && last <= s.rows.last[0]; // of all x
        add_range(&s.rows, first, is_there ? first : last);
    }
    size_t bytes = (size_t)(s.rows.rows * d->count) * gx_number_bytes(d->op->dtype);
    int64_t pieces = count_pieces(&s.rows, d->count);
    gx_team *team = gx_device_copiers(d->op->run, bytes, false);
    s.is_shared = team != NULL;
    take_pieces(d->op->run, team, pieces, stage_piece, &s);
}

/* A part of x goes up to a share, enqueued: the first before products, the others beside them. */
static gx_code send(struct gx_kry_device *d, int share, int part_x, gx_err *err)
{
    gx_kry_share *s = &d->share[share];
    const gx_kry_layout *l = layout_of(d, share);
    gx_number dtype = d->op->dtype;
    const gx_backend *backend = s->accel->backend;
    gx_dev *dev = s->accel->dev;
    gx_queue *queue = part_x == 0 ? s->accel->run : s->accel->up;
    int64_t first = l->x_at[part_x], last = l->x_at[part_x + 1];
    int64_t length = length_of_x(d);
    size_t element = gx_number_bytes(dtype), column = (size_t)(last - first) * element;
    GX_TRY(gx_kry_check_open(d, s, err));
    GX_TRY(backend->upload(dev, queue, gx_at(s->x.data, dtype, l->x, first, 0),
                           (size_t)l->x * element,
                           gx_at(d->up.data, dtype, length, l->x0 + first, 0),
                           (size_t)length * element, column, (size_t)d->count, err));
    gx_stats_add(&d->op->run->ctx->stats, GX_STAT_UPLOADED, (int64_t)column * d->count);
    if (part_x == 0) {
        return GX_OK;
    }
    GX_TRY(backend->mark_set(dev, queue, s->arrived, err));
    return backend->queue_after_mark(dev, s->accel->run, s->arrived, err);
}

/* A share's products with a part of x into a part of y, enqueued. */
static gx_code multiply(struct gx_kry_device *d, int share, int part_x, int part_y, gx_err *err)
{
    const gx_oper *op = d->op;
    const gx_kry_share *s = &d->share[share];
    const gx_kry_layout *l = layout_of(d, share);
    const gx_backend *backend = s->accel->backend;
    gx_dev *dev = s->accel->dev;
    gx_queue *queue = s->accel->run;
    gx_stats *stats = &op->run->ctx->stats;
    gx_args args[2];
    int calls = gx_kry_products(op, s, l, part_x, part_y, args);
    if (l->part[part_y].is_received) {
        GX_TRY(backend->queue_after_mark(dev, queue, s->received, err));
    }
    for (int k = 0; k < calls; k++) {
        GX_TRY(backend->kernel[GX_GEMM][op->dtype](dev, queue, &args[k], err));
        gx_stats_kernel(stats, gx_kernel_flops(GX_GEMM, op->dtype, &args[k]), 0);
    }
    bool is_awaited = part_x == l->x_parts - 1 && part_y < l->y_parts - 1;
    return is_awaited ? backend->mark_set(dev, queue, s->done[part_y % HALVES], err) : GX_OK;
}

/* What the next share has summed up so far of a stretch, brought from its memory, enqueued. */
static gx_code receive(struct gx_kry_device *d, int share, int part_y, gx_err *err)
{
    gx_kry_share *s = &d->share[share];
    int next = (share + 1) % d->shares;
    const gx_kry_share *from = &d->share[next];
    const gx_kry_layout *l = layout_of(d, share);
    gx_kry_part p = l->part[part_y];
    if (!p.is_received || part_y > l->own) { // the last part has come with the one before it
        return GX_OK;
    }
    const gx_backend *backend = s->accel->backend;
    gx_dev *dev = s->accel->dev;
    gx_queue *queue = s->accel->down; // there is nothing to come down yet
    gx_number dtype = d->op->dtype;
    int part_there = part_y - 1;
    gx_kry_part there = layout_of(d, next)->part[part_there];
    size_t bytes = (size_t)(p.ld * d->count) * gx_number_bytes(dtype);
    GX_TRY(backend->queue_after_mark(dev, queue, from->done[part_there % HALVES], err));
    GX_TRY(backend->copy_from(dev, queue, gx_at(s->y.data, dtype, 1, p.at, 0), from->accel->dev,
                              gx_at(from->y.data, dtype, 1, there.at, 0), bytes, err));
    gx_stats_add(&d->op->run->ctx->stats, GX_STAT_PEER_BYTES, (int64_t)bytes);
    return backend->mark_set(dev, queue, s->received, err);
}

/* The parts of y that are made with all of x at once, enqueued: on all devices in turn. */
static gx_code multiply_rest(struct gx_kry_device *d)
{
    for (int part_y = 1, most = 1; part_y <= most; part_y++) {
        for (int k = 0; k < d->shares; k++) { // before its source's mark is set anew
            const gx_kry_layout *l = layout_of(d, k);
            most = l->y_parts - 1 > most ? l->y_parts - 1 : most;
            if (part_y < l->y_parts) {
                GX_TRY(gx_kry_fail_of(d, k, receive(d, k, part_y, &d->err)));
            }
        }
        for (int k = 0; k < d->shares; k++) {
            const gx_kry_layout *l = layout_of(d, k);
            if (part_y < l->y_parts) {
                GX_TRY(gx_kry_fail_of(d, k, multiply(d, k, l->x_parts - 1, part_y, &d->err)));
            }
        }
    }
    return GX_OK;
}

/* A part of a share's stretch comes down, enqueued: the last behind products, the other beside. */
static gx_code bring_down(struct gx_kry_device *d, int share, int which, gx_err *err)
{
    gx_kry_share *s = &d->share[share];
    const gx_backend *backend = s->accel->backend;
    gx_number dtype = d->op->dtype;
    gx_dev *dev = s->accel->dev;
    const gx_kry_layout *l = layout_of(d, share);
    const gx_kry_part *p = own_part(l, which);
    bool is_last = own_part(l, which + 1) == NULL;
    gx_queue *queue = is_last ? s->accel->run : s->accel->down;
    size_t element = gx_number_bytes(dtype), column = (size_t)p->rows * element;
    size_t ld = (size_t)p->ld * element;
    void *to = gx_at(s->down.data, dtype, 1, p->at - own_part(l, 0)->at, 0);
    if (!is_last) {
        GX_TRY(backend->queue_after_mark(dev, queue, s->done[(l->own + which) % HALVES], err));
    }
    GX_TRY(backend->download(dev, queue, to, ld, gx_at(s->y.data, dtype, 1, p->at, 0), ld, column,
                             (size_t)d->count, err));
    gx_stats_add(&d->op->run->ctx->stats, GX_STAT_DOWNLOADED, (int64_t)column * d->count);
    return is_last ? GX_OK : backend->mark_set(dev, queue, s->down_there, err);
}

/* The next columns of vectors on all devices; first of all each has something to do. */
static gx_code enqueue(struct gx_kry_device *d)
{
    d->count = gx_min(d->all - d->from, MOST_COLUMNS);
    choose_adding(d);
    for (int k = 0; k < d->shares; k++) {
        GX_TRY(gx_kry_fail_of(d, k, make_room(d, k, &d->err)));
    }
    size_t bytes = (size_t)(length_of_x(d) * d->count) * gx_number_bytes(d->op->dtype);
    GX_TRY(gx_kry_fail_of(d, 0, stage(d->op, d->share[0].accel->pool, &d->up, bytes, &d->err)));
    for (int part_x = 0; part_x < GX_KRY_X_PARTS; part_x++) {
        stage_part(d, part_x);
        for (int k = 0; k < d->shares; k++) {
            if (part_x < layout_of(d, k)->x_parts) {
                GX_TRY(gx_kry_fail_of(d, k, send(d, k, part_x, &d->err)));
            }
        }
        for (int k = 0; k < d->shares; k++) { // while that is on its way to all of them
            if (part_x < layout_of(d, k)->x_parts) {
                GX_TRY(gx_kry_fail_of(d, k, multiply(d, k, part_x, 0, &d->err)));
            }
        }
    }
    for (int k = 0; k < d->shares; k++) { // after all that may have been told of progress
        GX_TRY(gx_kry_fail_of(d, k, gx_kry_check_open(d, &d->share[k], &d->err)));
    }
    GX_TRY(multiply_rest(d));
    for (int which = 0; which < HALVES; which++) {
        for (int k = 0; k < d->shares; k++) {
            if (own_part(layout_of(d, k), which) != NULL) {
                GX_TRY(gx_kry_fail_of(d, k, bring_down(d, k, which, &d->err)));
            }
        }
    }
    return GX_OK;
}

void gx_oper_device_start(gx_oper *op, bool is_adjoint, const void *x, int64_t cols, bool adds,
                          void *y)
{
    struct gx_kry_device *d = op->device;
    d->vectors = x;
    d->y = y;
    d->adds = adds;
    d->is_adjoint = is_adjoint;
    d->all = cols;
    d->from = 0;
    d->err = (gx_err){0};
    enqueue(d);
}

// Sums --------------------------------------------------------------------------------------------

typedef struct summing {
    const struct gx_kry_device *d;
    const gx_kry_layout *layout[GX_DEVICES_MOST];
    int which;     /* part of each share's own stretch  */
    bool is_apart; /* each element is one share's alone */
    ranges rows;
    void *y;
} summing;

/* Rows of a column of y: what the shares have for them, in their order. */
static gx_code sum_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const summing *a = arg;
    const struct gx_kry_device *d = a->d;
    gx_number dtype = d->op->dtype;
    int64_t i, end, j = find_piece(&a->rows, d->count, piece, &i, &end);
    (void)member, (void)err;
    for (int k = 0; k < d->shares; k++) {
        const gx_kry_layout *l = a->layout[k];
        const gx_kry_part *p = own_part(l, a->which);
        int64_t row = p == NULL ? 0 : l->y0 + p->row, rows = p == NULL ? 0 : p->rows;
        int64_t from = gx_max(i, row), to = gx_min(end, row + rows);
        if (to <= from) {
            continue;
        }
        int64_t at = p->at - own_part(l, 0)->at + j * p->ld + from - row, length = length_of_y(d);
        const void *here = gx_at(d->share[k].down.data, dtype, 1, at, 0);
        void *sum = gx_at(a->y, dtype, length, from, j);
        if (!d->adds && (k == 0 || a->is_apart)) { // the first to come there
            memcpy(sum, here, (size_t)(to - from) * gx_number_bytes(dtype));
        } else {
            gx_kry_add(dtype, to - from, 1, here, sum, length);
        }
    }
    return GX_OK;
}

/* What has come down of a part into y, or added to it. */
static void sum_up(struct gx_kry_device *d, int which)
{
    const gx_oper *op = d->op;
    summing a = {.d = d, .which = which, .is_apart = d->is_added || d->has_whole_rows};
    a.is_apart = a.is_apart || (d->is_adjoint && !op->is_hermitian);
    int64_t low = INT64_MAX, high = 0;
    a.y = gx_at(d->y, op->dtype, length_of_y(d), 0, d->from);
    for (int k = 0; k < d->shares; k++) {
        const gx_kry_layout *l = a.layout[k] = layout_of(d, k);
        const gx_kry_part *p = own_part(l, which);
        int64_t row = p == NULL ? 0 : l->y0 + p->row, rows = p == NULL ? 0 : p->rows;
        low = rows > 0 ? gx_min(low, row) : low;
        high = gx_max(high, row + rows);
        if (a.is_apart) {
            add_range(&a.rows, row, row + rows);
        }
    }
    if (!a.is_apart) { // all have something for some rows, which nobody else may add to meanwhile
        add_range(&a.rows, low, high);
    }
    size_t bytes = (size_t)(a.rows.rows * d->count) * gx_number_bytes(op->dtype);
    int64_t pieces = count_pieces(&a.rows, d->count);
    take_pieces(op->run, gx_device_copiers(op->run, bytes, false), pieces, sum_piece, &a);
}

/* A part of a share's y has come down. */
static gx_code wait_for(struct gx_kry_device *d, int share, int which)
{
    const gx_kry_share *s = &d->share[share];
    GX_TRY(gx_kry_fail_of(d, share, gx_kry_check_open(d, s, &d->err)));
    const gx_backend *backend = s->accel->backend;
    return gx_kry_fail_of(d, share,
                          own_part(layout_of(d, share), which + 1) != NULL
                              ? backend->mark_wait(s->accel->dev, s->down_there, &d->err)
                              : backend->queue_wait(s->accel->dev, s->accel->run, &d->err));
}

/* What is under way, part by part. */
static gx_code take_in(struct gx_kry_device *d)
{
    for (int which = 0; which < HALVES; which++) {
        for (int k = 0; k < d->shares; k++) {
            if (own_part(layout_of(d, k), which) != NULL) {
                GX_TRY(wait_for(d, k, which));
            }
        }
        sum_up(d, which);
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

bool gx_oper_device_finish(gx_oper *op)
{
    struct gx_kry_device *d = op->device;
    while (d->err.code == GX_OK && gx_ok(op->run)) {
        if (take_in(d) != GX_OK) {
            break;
        }
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

// Beginning and ending ----------------------------------------------------------------------------

/* Those that are still there and have room. */
static void keep_good(struct gx_kry_device *d)
{
    int some = 0;
    for (int k = 0; k < d->shares; k++) {
        if (gx_kry_is_open(d, &d->share[k]) && gx_kry_serves(d->op, d->share[k].accel)) {
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
    for (int k = 1; d->shares > 0 && gx_ok(run) && !gx_kry_fill_all(d) && gx_ok(run); k++) {
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

void gx_oper_device_end(gx_oper *op)
{
    struct gx_kry_device *d = op->device;
    if (d == NULL) {
        return;
    }
    settle(d);
    give_back(d);
    const gx_kry_share *culprit = &d->share[d->culprit];
    if (d->err.code == GX_DEVICE && gx_kry_is_open(d, culprit)) { // nothing is lost by it
        gx_accel_leave_out(op->run->ctx, culprit->accel, &d->err);
    }
    gx_mem_free(op->run->ctx->mem, d);
    op->device = NULL;
}
