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

/* Nothing is under way any more, and everything is back in the pools of those that are open. */
static void give_back(struct gx_kry_device *d)
{
    d->calls.count = d->shares;
    for (int k = 0; k < d->shares; k++) {
        d->calls.on[k] = &d->share[k].on;
    }
    gx_devcalls_end(&d->calls, &d->err);
    if (d->shares > 0 && gx_devcall_is_open(&d->share[0].on)) {
        gx_pool_unstage(d->share[0].on.accel->pool, &d->up);
    }
}

// Products ----------------------------------------------------------------------------------------

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
        d->is_added = gx_devcall_is_open(&s->on) &&
                      gx_devcall_grow(&s->on, GX_KRY_WORK, work, &none) == GX_OK;
    }
}

/* Room for a share of the next columns, and marks. */
static gx_code make_room(struct gx_kry_device *d, int share, gx_err *err)
{
    gx_devcall *on = &d->share[share].on;
    const gx_kry_layout *l = layout_of(d, share);
    size_t element = gx_number_bytes(d->op->dtype);
    size_t down = (size_t)(own_part(l, 0)->ld * d->count) * element;
    GX_TRY(gx_devcall_check_open(on, err));
    GX_TRY(gx_devcall_grow(on, GX_KRY_X, (size_t)(l->x * d->count) * element, err));
    GX_TRY(gx_devcall_grow(on, GX_KRY_Y, (size_t)(l->y * d->count) * element, err));
    GX_TRY(gx_devcall_grow(on, GX_KRY_WORK, l->work, err));
    GX_TRY(gx_devcall_marks(on, 0, GX_KRY_MARKS, err));
    return gx_devcall_stage(on, &on->stage, down, err);
}

/* Rows of all columns, in ranges that are cut into pieces for the team. */
typedef struct ranges {
    const struct gx_kry_device *d;
    int64_t first[GX_DEVICES_MOST], last[GX_DEVICES_MOST];
    int count;
    int64_t longest, rows;
    bool is_shared; /* by the team */
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

/* Of a piece the rows [*first, *last), none where its range is a shorter one, and the column. */
static int64_t find_piece(const ranges *r, int64_t piece, int64_t *first, int64_t *last)
{
    int64_t cols = r->d->count, high = gx_ceil_div(r->longest, COPY_ROWS), range = piece / high;
    *first = r->first[range / cols] + piece % high * COPY_ROWS;
    *last = gx_min(r->last[range / cols], *first + COPY_ROWS);
    return range % cols;
}

/* By the team, or by the caller: after an interrupt nobody looks at what has been copied. */
static void take_pieces(ranges *r, gx_team_fn fn, void *arg)
{
    gx_run *run = r->d->op->run;
    int64_t pieces = r->count * r->d->count * gx_ceil_div(r->longest, COPY_ROWS);
    size_t bytes = (size_t)(r->rows * r->d->count) * gx_number_bytes(r->d->op->dtype);
    gx_team *team = gx_device_copiers(run, bytes, false);
    gx_err err = {0};
    r->is_shared = team != NULL;
    if (team != NULL) {
        gx_team_run(team, pieces, fn, arg, &err);
    }
    for (int64_t piece = 0; team == NULL && piece < pieces; piece++) {
        fn(arg, piece, 0, &err);
    }
    gx_run_fail(run, &err);
}

/* Vectors to the buffer that they go up from. */
static gx_code stage_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const ranges *r = arg;
    const struct gx_kry_device *d = r->d;
    gx_number dtype = d->op->dtype;
    int64_t length = length_of_x(d), i, end, j = find_piece(r, piece, &i, &end);
    size_t bytes = i < end ? (size_t)(end - i) * gx_number_bytes(dtype) : 0;
    (void)member, (void)err;
    if (bytes > 0) {
        void *to = gx_at(d->up.data, dtype, length, i, j);
        const void *from = gx_at(d->vectors, dtype, length, i, d->from + j);
        if (r->is_shared) {
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
    ranges r = {.d = d};
    for (int k = 0; k < d->shares; k++) {
        const gx_kry_layout *l = layout_of(d, k);
        int64_t first = part_x < l->x_parts ? l->x0 + l->x_at[part_x] : 0;
        int64_t last = part_x < l->x_parts ? l->x0 + l->x_at[part_x + 1] : 0;
        bool is_there = r.count > 0 && first >= r.first[0] && last <= r.last[0]; // of all x
        add_range(&r, first, is_there ? first : last);
    }
    take_pieces(&r, stage_piece, &r);
}

/* A part of x goes up to a share, enqueued: the first before products, the others beside them. */
static gx_code send(struct gx_kry_device *d, int share, int part_x, gx_err *err)
{
    gx_kry_share *s = &d->share[share];
    const gx_kry_layout *l = layout_of(d, share);
    gx_number dtype = d->op->dtype;
    const gx_backend *backend = s->on.accel->backend;
    gx_dev *dev = s->on.accel->dev;
    gx_queue *queue = part_x == 0 ? s->on.accel->run : s->on.accel->up;
    int64_t first = l->x_at[part_x], last = l->x_at[part_x + 1];
    int64_t length = length_of_x(d);
    size_t element = gx_number_bytes(dtype), column = (size_t)(last - first) * element;
    GX_TRY(gx_devcall_check_open(&s->on, err));
    GX_TRY(backend->upload(dev, queue, gx_at(s->on.hold[GX_KRY_X].data, dtype, l->x, first, 0),
                           (size_t)l->x * element,
                           gx_at(d->up.data, dtype, length, l->x0 + first, 0),
                           (size_t)length * element, column, (size_t)d->count, err));
    gx_stats_add(&d->op->run->ctx->stats, GX_STAT_UPLOADED, (int64_t)column * d->count);
    if (part_x == 0) {
        return GX_OK;
    }
    GX_TRY(backend->mark_set(dev, queue, s->on.mark[GX_KRY_ARRIVED], err));
    return backend->queue_after_mark(dev, s->on.accel->run, s->on.mark[GX_KRY_ARRIVED], err);
}

/* A share's products with a part of x into a part of y, enqueued. */
static gx_code multiply(struct gx_kry_device *d, int share, int part_x, int part_y, gx_err *err)
{
    const gx_oper *op = d->op;
    const gx_kry_share *s = &d->share[share];
    const gx_kry_layout *l = layout_of(d, share);
    const gx_backend *backend = s->on.accel->backend;
    gx_dev *dev = s->on.accel->dev;
    gx_queue *queue = s->on.accel->run;
    gx_args args[2];
    int calls = gx_kry_products(op, s, l, part_x, part_y, args);
    if (l->part[part_y].is_received) {
        GX_TRY(backend->queue_after_mark(dev, queue, s->on.mark[GX_KRY_RECEIVED], err));
    }
    for (int k = 0; k < calls; k++) {
        GX_TRY(gx_devcall_kernel(&s->on, GX_GEMM, op->dtype, &args[k], err));
    }
    bool is_awaited = part_x == l->x_parts - 1 && part_y < l->y_parts - 1;
    return is_awaited
               ? backend->mark_set(dev, queue, s->on.mark[GX_KRY_DONE + part_y % HALVES], err)
               : GX_OK;
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
    const gx_backend *backend = s->on.accel->backend;
    gx_dev *dev = s->on.accel->dev;
    gx_queue *queue = s->on.accel->down; // there is nothing to come down yet
    gx_number dtype = d->op->dtype;
    int part_there = part_y - 1;
    gx_kry_part there = layout_of(d, next)->part[part_there];
    size_t bytes = (size_t)(p.ld * d->count) * gx_number_bytes(dtype);
    GX_TRY(backend->queue_after_mark(dev, queue, from->on.mark[GX_KRY_DONE + part_there % HALVES],
                                     err));
    GX_TRY(backend->copy_from(
        dev, queue, gx_at(s->on.hold[GX_KRY_Y].data, dtype, 1, p.at, 0), from->on.accel->dev,
        gx_at(from->on.hold[GX_KRY_Y].data, dtype, 1, there.at, 0), bytes, err));
    gx_stats_add(&d->op->run->ctx->stats, GX_STAT_PEER_BYTES, (int64_t)bytes);
    return backend->mark_set(dev, queue, s->on.mark[GX_KRY_RECEIVED], err);
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
    const gx_backend *backend = s->on.accel->backend;
    gx_number dtype = d->op->dtype;
    gx_dev *dev = s->on.accel->dev;
    const gx_kry_layout *l = layout_of(d, share);
    const gx_kry_part *p = own_part(l, which);
    bool is_last = own_part(l, which + 1) == NULL;
    gx_queue *queue = is_last ? s->on.accel->run : s->on.accel->down;
    size_t element = gx_number_bytes(dtype), column = (size_t)p->rows * element;
    size_t ld = (size_t)p->ld * element;
    void *to = gx_at(s->on.stage.data, dtype, 1, p->at - own_part(l, 0)->at, 0);
    if (!is_last) {
        GX_TRY(backend->queue_after_mark(dev, queue,
                                         s->on.mark[GX_KRY_DONE + (l->own + which) % HALVES], err));
    }
    GX_TRY(backend->download(dev, queue, to, ld,
                             gx_at(s->on.hold[GX_KRY_Y].data, dtype, 1, p->at, 0), ld, column,
                             (size_t)d->count, err));
    gx_stats_add(&d->op->run->ctx->stats, GX_STAT_DOWNLOADED, (int64_t)column * d->count);
    return is_last ? GX_OK : backend->mark_set(dev, queue, s->on.mark[GX_KRY_DOWN], err);
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
    GX_TRY(gx_kry_fail_of(d, 0, gx_devcall_stage(&d->share[0].on, &d->up, bytes, &d->err)));
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
        GX_TRY(gx_kry_fail_of(d, k, gx_devcall_check_open(&d->share[k].on, &d->err)));
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
    const struct gx_kry_device *d = a->rows.d;
    gx_number dtype = d->op->dtype;
    int64_t i, end, j = find_piece(&a->rows, piece, &i, &end);
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
        const void *here = gx_at(d->share[k].on.stage.data, dtype, 1, at, 0);
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
    summing a = {.rows = {.d = d}, .which = which, .is_apart = d->is_added || d->has_whole_rows};
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
    take_pieces(&a.rows, sum_piece, &a);
}

/* A part of a share's y has come down. */
static gx_code wait_for(struct gx_kry_device *d, int share, int which)
{
    const gx_kry_share *s = &d->share[share];
    GX_TRY(gx_kry_fail_of(d, share, gx_devcall_check_open(&s->on, &d->err)));
    const gx_backend *backend = s->on.accel->backend;
    return gx_kry_fail_of(
        d, share,
        own_part(layout_of(d, share), which + 1) != NULL
            ? backend->mark_wait(s->on.accel->dev, s->on.mark[GX_KRY_DOWN], &d->err)
            : backend->queue_wait(s->on.accel->dev, s->on.accel->run, &d->err));
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
    give_back(d);
    gx_devcalls_go_on(&d->calls, &d->err, &op->avoided);
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
        if (gx_devcall_is_open(&d->share[k].on) && gx_kry_serves(d->op, d->share[k].on.accel)) {
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
    gx_fail(&err, GX_NOMEM, "%zu bytes of device memory do not hold columns of %s", s->on.limit,
            d->op->A->label);
    gx_device_give_up(d->op->run, s->on.accel, &err);
}

/* As many columns as there is memory for; fewer where a device has less than it said. */
static void fill_what_fits(struct gx_kry_device *d)
{
    gx_run *run = d->op->run;
    for (int k = 1; d->shares > 0 && gx_ok(run) && !gx_kry_fill_all(d) && gx_ok(run); k++) {
        give_back(d);
        if (d->err.code == GX_NOMEM && k < ATTEMPTS) {
            const gx_about about = {.kind = GX_EVENT_NOMEM_DEVICE, .bytes = d->err.bytes};
            gx_stats_tell(&run->ctx->stats, &about, "device memory: fewer columns: %s",
                          d->err.text);
            d->share[d->calls.culprit].on.limit /= 2;
        } else {
            gx_devcalls_go_on(&d->calls, &d->err, &d->op->avoided);
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
    struct gx_kry_device *d =
        accel == NULL ? NULL : gx_run_calloc(run, sizeof *d, "the device's part");
    if (d == NULL) {
        return 0;
    }
    d->op = op;
    gx_kry_choose(d, accel, limit, false);
    if (d->shares == 0 && op->avoided == 0) {
        refuse(d);
    }
    fill_what_fits(d);
    if (d->shares == 0 || !gx_ok(run)) {
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
    give_back(d);
    const gx_devcall *culprit = d->calls.on[d->calls.culprit];
    if (d->err.code == GX_DEVICE && gx_devcall_is_open(culprit)) { // nothing is lost by it
        gx_accel_leave_out(op->run->ctx, culprit->accel, &d->err);
    }
    gx_mem_free(op->run->ctx->mem, d);
    op->device = NULL;
}
