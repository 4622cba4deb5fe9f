/*
** Which device has which columns of A in the passes of a Krylov method (krylov_device.c), and what
** they are multiplied with.  With c = [first, first + cols), the columns of a share:
**
**   general      y += A_c x_c                adjoint: y_c += A_c^H x
**   Hermitian    of the lower triangle the columns, mirrored at the top: y_r += A_rc x_c, r: rows
**                from `first` on, and for what lies above the columns behind them
**                y_c += A_qc^H x_q, q: rows below the mirrored square
**
** Narrow products go through a matrix faster as it lies than transposed: where there is room,
** A_qc^H is kept, too.  Where several devices that reach each other's memory have room for all of a
** Hermitian A, above the diagonal, too, each has whole rows of it instead: one product gives it its
** part of y, and nothing is added up.
**
** Long vectors go up in two parts, few rows first, and what is a share's own comes down in two, few
** last: the matrix is cut across and along, and only what belongs to the few is waited for.
**
** Where the products of several devices that reach each other's memory have to be added up, y is
** cut into as many stretches, each of which is one share's own in the end.  Of D shares number k
** makes the stretches k + 1, k + 2, ..., k (mod D): what share k + 1 has made of one is brought
** here while this share multiplies, and its product added to it in the end.  So sums travel behind
** the products, and each share has its own stretch, summed up, when its last product is done.
**
** Whether: predicted, with PASSES passes, from the rates of copies and of such products on host and
** device; 'backend' = cuda skips the comparison.  Deterministic mode stays on the host unless told.
**
** How many devices: those that the setting 'devices' lists, or twice as many each time while that
** is predicted to be faster; in deterministic mode one, because sums depend on the cut.
**
** Which columns: consecutive ones, whole blocks, in the devices' order.  The products of columns
** [first, last) read m (last - first) elements of A, or, where A is Hermitian and each element
** below the diagonal counts twice, (m - first)^2 - (m - last)^2; they are as fast as the memory.
** The time in which all is done is found by halving, each device taking what it goes through in it
** and has room for.  Where all of them together have no room for A, each takes what it can, and the
** host the rest, in whole blocks; else blocks need not stay whole, where only columns are cut.
*/
#include "../alg/plan.h"
#include "krylov_device.h"

#include <math.h>

/* Passes that pay for the copy: a basis of sixteen blocks. */
static const double PASSES = 16;

/* What a pass takes for each device beyond the first: its copies, launches, the wait for it. */
static const double ANOTHER_S = 30e-6;

/* Columns of vectors: of a usual block; for which room is kept.  Of A: that stay together. */
enum { USUAL_COLUMNS = 8, MOST_NARROW = 16, GRAIN = 64 };

// A share -----------------------------------------------------------------------------------------

bool gx_kry_is_open(const struct gx_kry_device *d, const gx_kry_share *s)
{
    return gx_fleet_has(d->op->run->ctx, s->accel);
}

gx_code gx_kry_fail_of(struct gx_kry_device *d, int culprit, gx_code code)
{
    d->culprit = code == GX_OK ? d->culprit : culprit;
    return code;
}

gx_code gx_kry_take(const gx_kry_share *s, gx_kry_buffer *b, size_t bytes, gx_err *err)
{
    if (b->data != NULL && b->bytes >= bytes) {
        return GX_OK;
    }
    gx_pool_give(s->accel->pool, b->data, b->bytes);
    *b = (gx_kry_buffer){NULL, bytes};
    return gx_pool_take(s->accel->pool, bytes, s->limit, &b->data, err);
}

bool gx_kry_key(const struct gx_kry_device *d, const gx_kry_share *s, gx_block_key *key)
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

// Products ----------------------------------------------------------------------------------------

bool gx_kry_is_turned(const gx_oper *op, bool is_adjoint)
{
    return is_adjoint && !op->is_hermitian;
}

/*
** Of so many rows those that are a sixteenth of a pass, or more: of y, whose stretches take a part
** of it each.
*/
static int64_t few_rows(int64_t rows, int64_t sixteenths)
{
    return gx_min(rows, gx_ceil_div(rows * sixteenths, 16 * GRAIN) * GRAIN);
}

static bool is_worth_parts(const gx_oper *op, int64_t rows, int64_t cols)
{
    const int64_t WORTH_PARTS = (int64_t)256 << 10;
    return rows * cols * (int64_t)gx_number_bytes(op->dtype) > WORTH_PARTS;
}

/*
** Where the parts of x begin.  The first is an eighth, or more where it meets only one of many
** stretches of y: its product takes as long as it takes to bring the others.
*/
static void cut_x(const gx_oper *op, int64_t cols, gx_kry_extents *e)
{
    int64_t few = few_rows(e->x, gx_max(2, e->stretches));
    if (few < e->x && is_worth_parts(op, e->x, cols)) {
        e->x_parts = 2;
        e->x_at[1] = few;
    }
    e->x_at[e->x_parts] = e->x;
}

/* A strip with columns behind it: two products, each with all of x, into all of y. */
static bool is_triangle(const struct gx_kry_device *d, const gx_kry_share *s)
{
    const gx_oper *op = d->op;
    return op->is_hermitian && !d->has_whole_rows && s->cols < op->m - gx_kry_top(op, s);
}

gx_kry_extents gx_kry_extents_of(const struct gx_kry_device *d, const gx_kry_share *s,
                                 bool is_adjoint, int64_t cols)
{
    const gx_oper *op = d->op;
    int64_t top = gx_kry_top(op, s), rows = op->m - top;
    gx_kry_extents e = {.rows = rows, .x0 = s->first, .y0 = top, .x = s->cols, .y = rows};
    if (d->has_whole_rows) {
        e = (gx_kry_extents){.rows = s->cols, .x = op->n, .y0 = s->first, .y = s->cols};
    } else if (gx_kry_is_turned(op, is_adjoint)) {
        e = (gx_kry_extents){.rows = rows, .x = rows, .y0 = s->first, .y = s->cols};
    } else if (op->is_hermitian) {
        e.x = rows;
    }
    e.stretches = d->is_added ? d->shares : 1;
    e.halves = e.x_parts = 1;
    e.x_at[1] = e.x;
    if (!is_triangle(d, s)) {
        int64_t each = e.y / e.stretches;
        bool has_parts = d->is_added || is_worth_parts(op, e.y, cols);
        e.halves = has_parts && few_rows(each, e.stretches) < each ? 2 : 1;
        cut_x(op, cols, &e);
    }
    return e;
}

gx_kry_part gx_kry_part_of(int share, const gx_kry_extents *e, int64_t cols, int which)
{
    int64_t each = gx_ceil_div(gx_ceil_div(e->y, GRAIN), e->stretches) * GRAIN;
    int own = e->stretches - 1;
    gx_kry_part p = {.is_received = which > 0 && own > 0};
    for (int k = 0; k <= which && k <= own; k++) {
        int64_t number = (share + 1 + k) % e->stretches;
        p.at += p.ld * cols;
        p.row = gx_min(e->y, number * each);
        p.rows = p.ld = gx_min(e->y, p.row + each) - p.row;
    }
    if (which >= own && e->halves > 1) {
        int64_t last = few_rows(p.ld, e->stretches), skipped = which == own ? 0 : p.ld - last;
        p.row += skipped;
        p.at += skipped;
        p.rows = which == own ? p.ld - last : last;
    }
    return p;
}

/* In a triangle what is above the columns behind a share's: y_c += A_qc^H x_q. */
static gx_args mirrored(const struct gx_kry_device *d, const gx_kry_share *s, const gx_args *first)
{
    gx_number dtype = d->op->dtype;
    gx_args args = *first;
    args.transa = gx_adjoint(dtype);
    args.m = s->cols;
    args.k = first->m - s->cols;
    args.beta = (gx_scalar){1, 0};
    if (s->a.data != NULL && s->x.data != NULL) {
        args.a = gx_at(s->a.data, dtype, first->lda, s->cols, 0);
        args.b = gx_at(s->x.data, dtype, first->ldb, s->cols, 0);
    }
    if (s->below.data != NULL) {
        args.transa = GX_NO_TRANS;
        args.a = s->below.data;
        args.lda = s->cols;
    }
    return args;
}

int gx_kry_products(const struct gx_kry_device *d, const gx_kry_share *s, bool is_adjoint,
                    int64_t cols, int part_x, int part_y, gx_args out[2])
{
    const gx_oper *op = d->op;
    gx_kry_extents e = gx_kry_extents_of(d, s, is_adjoint, cols);
    bool turned = gx_kry_is_turned(op, is_adjoint);
    if (part_x >= e.x_parts || part_y >= gx_kry_y_parts(&e) ||
        (part_y > 0 && part_x < e.x_parts - 1)) {
        return 0;
    }
    gx_kry_part p = gx_kry_part_of((int)(s - d->share), &e, cols, part_y);
    int64_t x = part_y > 0 ? 0 : e.x_at[part_x], y = p.row;
    gx_args args = {.transa = turned ? gx_adjoint(op->dtype) : GX_NO_TRANS,
                    .m = p.rows,
                    .n = cols,
                    .k = e.x_at[part_x + 1] - x,
                    .alpha = {1, 0},
                    .beta = {x > 0 || p.is_received, 0},
                    .lda = gx_max(1, e.rows),
                    .ldb = gx_max(1, e.x),
                    .work = s->work.data};
    args.ldc = gx_max(1, p.ld);
    if (is_triangle(d, s) && part_x == 0) {
        args.k = s->cols;
    }
    if (s->a.data != NULL && s->x.data != NULL && s->y.data != NULL) {
        args.a = gx_at(s->a.data, op->dtype, e.rows, turned ? x : y, turned ? y : x);
        args.b = gx_at(s->x.data, op->dtype, e.x, x, 0);
        args.c = gx_at(s->y.data, op->dtype, 1, p.at, 0);
    }
    out[0] = args;
    if (args.m == 0 || args.k == 0) {
        return 0;
    }
    if (!is_triangle(d, s)) {
        return 1;
    }
    out[1] = mirrored(d, s, &args);
    return 2;
}

size_t gx_kry_work_bytes(const struct gx_kry_device *d, const gx_kry_share *s, bool is_adjoint,
                         int64_t cols)
{
    const gx_backend *backend = s->accel->backend;
    gx_kry_extents e = gx_kry_extents_of(d, s, is_adjoint, cols);
    size_t most = 0;
    int parts = backend->workspace == NULL ? 0 : e.x_parts * gx_kry_y_parts(&e);
    for (int part = 0; part < parts; part++) {
        gx_args args[2];
        int count = gx_kry_products(d, s, is_adjoint, cols, part % e.x_parts, part / e.x_parts,
                                    args);
        for (int k = 0; k < count; k++) {
            size_t bytes = backend->workspace(s->accel->dev, GX_GEMM, d->op->dtype, &args[k]);
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

// Seconds -----------------------------------------------------------------------------------------

static double bytes_of(const gx_oper *op)
{
    return (double)op->m * (double)op->n * (double)gx_number_bytes(op->dtype);
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
    double stream = half * bytes / gx_predict_read_rate(run, 0);
    return fits || memory > stream ? memory : stream;
}

/* Seconds of a pass for `cols` columns over so many bytes of A on the device. */
static double device_pass(const gx_oper *op, const gx_accel *accel, double bytes, int64_t cols)
{
    const gx_device_profile *device = &accel->profile;
    double vectors = (double)((op->m + op->n) * cols) * (double)gx_number_bytes(op->dtype);
    return bytes / device->sweep_bytes_per_s + vectors / device->upload_bytes_per_s +
           8 * device->launch_s;
}

static bool is_faster(const gx_oper *op, const gx_accel *accel)
{
    const gx_device_profile *device = &accel->profile;
    double pass = device_pass(op, accel, bytes_of(op), USUAL_COLUMNS);
    double copy = bytes_of(op) * (op->is_hermitian ? 0.5 : 1) / device->upload_bytes_per_s;
    return op->run->ctx->config.number[GX_SET_BACKEND] == GX_BACKEND_CUDA ||
           PASSES * pass + copy < PASSES * host_pass(op);
}

// Columns -----------------------------------------------------------------------------------------

int64_t gx_kry_columns(const struct gx_kry_device *d)
{
    int64_t cols = 0;
    for (int k = 0; k < d->shares; k++) {
        cols += d->share[k].cols;
    }
    return cols;
}

int64_t gx_kry_strip_top(const gx_oper *op, const gx_kry_share *s)
{
    return s->first / op->edge_cols * op->edge_cols;
}

/* What a share's columns take; whole rows are made of a strip of columns. */
static size_t share_bytes(const struct gx_kry_device *d, const gx_kry_share *s)
{
    const gx_oper *op = d->op;
    size_t column = (size_t)s->cols * gx_number_bytes(op->dtype);
    size_t rows = (size_t)(op->m - gx_kry_top(op, s));
    if (!d->has_whole_rows) {
        return gx_pool_rounded(rows * column);
    }
    rows = (size_t)(op->m - gx_kry_strip_top(op, s));
    return gx_pool_rounded((size_t)op->n * column) + gx_pool_rounded(rows * column);
}

/* Of the columns from s->first on, those that its memory holds beside vectors, whole grains. */
static int64_t columns_within(const struct gx_kry_device *d, const gx_kry_share *of, int64_t grain)
{
    const gx_oper *op = d->op;
    gx_kry_share s = *of;
    size_t element = gx_number_bytes(op->dtype);
    int64_t block = gx_min(MOST_NARROW, gx_max(1, op->n));
    for (int64_t cols = op->n - of->first; cols > 0;) {
        s.cols = cols;
        size_t rest = gx_pool_rounded(gx_kry_work_bytes(d, &s, false, block) +
                                      gx_kry_work_bytes(d, &s, true, block));
        rest += gx_pool_rounded((size_t)(op->n * block) * element);
        rest += gx_pool_rounded((size_t)(op->m * block) * element);
        size_t room = s.limit > rest ? s.limit - rest : 0, bytes = share_bytes(d, &s);
        if (bytes <= room) {
            return cols;
        }
        int64_t fit = (int64_t)((double)cols * (double)room / (double)bytes) / grain * grain;
        cols = gx_min(fit, (cols - 1) / grain * grain);
    }
    return 0;
}

/* Bytes of A that the products of columns [first, last) read. */
static double swept(const struct gx_kry_device *d, int64_t first, int64_t last)
{
    const gx_oper *op = d->op;
    double m = (double)op->m, a = m - (double)first, b = m - (double)last;
    bool is_mirrored = op->is_hermitian && !d->has_whole_rows;
    double elements = is_mirrored ? a * a - b * b : m * (double)(last - first);
    return elements * (double)gx_number_bytes(op->dtype);
}

/* Whole grains, of `most` columns from `first` on, that are gone through with so many bytes. */
static int64_t grains_within(const struct gx_kry_device *d, int64_t first, int64_t most,
                             int64_t grain, double bytes)
{
    int64_t low = 0, high = gx_ceil_div(most, grain);
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        int64_t cols = gx_min(most, middle * grain);
        if (swept(d, first, first + cols) <= bytes) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return gx_min(most, low * grain);
}

/* Each device the columns that it has room for and goes through in so many seconds. */
static int64_t deal(struct gx_kry_device *d, int64_t grain, double seconds)
{
    int64_t at = 0;
    for (int k = 0; k < d->shares; k++) {
        gx_kry_share *s = &d->share[k];
        double bytes = seconds * s->accel->profile.sweep_bytes_per_s;
        s->first = at;
        s->cols = grains_within(d, at, columns_within(d, s, grain), grain, bytes);
        at += s->cols;
    }
    return at;
}

/* All columns, so that the last device is done soonest; false: those that there is room for. */
static bool cut_into(struct gx_kry_device *d, int64_t grain)
{
    enum { HALVINGS = 30 };
    int64_t all = d->op->n;
    double slowest = INFINITY, low = 0;
    for (int k = 0; k < d->shares; k++) {
        slowest = fmin(slowest, d->share[k].accel->profile.sweep_bytes_per_s);
    }
    double high = 1.01 * swept(d, 0, all) / slowest;
    if (deal(d, grain, high) != all) {
        return false;
    }
    for (int k = 0; k < HALVINGS; k++) {
        double middle = (low + high) / 2;
        bool is_enough = deal(d, grain, middle) == all;
        high = is_enough ? middle : high;
        low = is_enough ? low : middle;
    }
    return deal(d, grain, high) == all;
}

bool gx_kry_are_linked(const struct gx_kry_device *d, gx_kernel_id kernel)
{
    bool all = d->shares > 1;
    for (int i = 0; i < d->shares; i++) {
        const gx_accel *accel = d->share[i].accel;
        all = all && gx_accel_offers(accel, kernel, d->op->dtype);
        for (int j = 0; j < d->shares && all; j++) {
            all = i == j || accel->link[d->share[j].accel->ordinal].is_direct;
        }
    }
    return all;
}

void gx_kry_cut(struct gx_kry_device *d)
{
    const gx_oper *op = d->op;
    int64_t grain = gx_min(GRAIN, op->edge_cols);
    int some = 0;
    d->has_whole_rows = op->is_hermitian && gx_kry_are_linked(d, GX_TRANSPOSE) &&
                        gx_kry_are_linked(d, GX_COPY);
    d->has_whole_rows = d->has_whole_rows && cut_into(d, grain);
    if (!d->has_whole_rows && (op->is_hermitian || !cut_into(d, grain))) {
        cut_into(d, op->edge_cols);
    }
    for (int k = 0; k < d->shares; k++) {
        if (d->share[k].cols > 0) {
            d->share[some++] = d->share[k];
        }
    }
    d->shares = some;
}

/* Seconds of the devices' part of a pass. */
static double devices_pass(const struct gx_kry_device *d, int64_t cols)
{
    double longest = 0;
    for (int k = 0; k < d->shares; k++) {
        const gx_kry_share *s = &d->share[k];
        double bytes = swept(d, s->first, s->first + s->cols);
        longest = fmax(longest, device_pass(d->op, s->accel, bytes, cols));
    }
    return longest + ANOTHER_S * (d->shares - 1);
}

/* The fleet's first `count` devices get shares; seconds of a pass, with the host's part. */
static double share_out(struct gx_kry_device *d, const gx_fleet *fleet, int count)
{
    const gx_oper *op = d->op;
    d->shares = count;
    for (int k = 0; k < count; k++) {
        d->share[k] = (gx_kry_share){.accel = fleet->accel[k], .limit = fleet->bytes[k]};
    }
    gx_kry_cut(d);
    double rest = 1 - swept(d, 0, gx_kry_columns(d)) / swept(d, 0, op->n);
    return fmax(devices_pass(d, USUAL_COLUMNS), rest > 0 ? rest * host_pass(op) : 0);
}

// Devices -----------------------------------------------------------------------------------------

bool gx_kry_serves(const gx_oper *op, const gx_accel *accel)
{
    return (op->avoided >> (accel->ordinal % 64) & 1) == 0 &&
           gx_accel_offers(accel, GX_GEMM, op->dtype) &&
           gx_accel_offers(accel, GX_SYMMETRIZE, op->dtype);
}

void gx_kry_choose(struct gx_kry_device *d, gx_accel *first, size_t limit, bool is_asked)
{
    gx_run *run = d->op->run;
    gx_fleet all, some = {.count = 0};
    bool is_listed = false;
    gx_fleet_single(&all, first, limit);
    if (run->ctx->config.number[GX_SET_DETERMINISTIC] == 0) {
        gx_place_gather(run, &all, PASSES * share_out(d, &all, 1), is_asked, &is_listed);
    }
    for (int k = 0; k < all.count; k++) {
        if (gx_kry_serves(d->op, all.accel[k])) {
            some.accel[some.count] = all.accel[k];
            some.bytes[some.count++] = all.bytes[k];
        }
    }
    int best = is_listed || some.count == 0 ? some.count : 1;
    double least = share_out(d, &some, best);
    for (int count = 2 * best; best > 0 && best < some.count && count / 2 < some.count;
         count *= 2) {
        double seconds = share_out(d, &some, (int)gx_min(count, some.count));
        if (seconds >= least) {
            break; // more of them would not help either
        }
        best = (int)gx_min(count, some.count);
        least = seconds;
    }
    share_out(d, &some, best);
}

gx_accel *gx_kry_candidate(const gx_oper *op, size_t *limit)
{
    gx_run *run = op->run;
    gx_accel *accel = gx_place_for(run, PASSES * host_pass(op), limit);
    bool is_good = accel != NULL && gx_accel_offers(accel, GX_GEMM, op->dtype) &&
                   gx_accel_offers(accel, GX_SYMMETRIZE, op->dtype) && is_faster(op, accel);
    return is_good ? accel : NULL;
}

int64_t gx_oper_device_foresee(gx_oper *op, int64_t cols, gx_oper_plan *plan)
{
    gx_run *run = op->run;
    struct gx_kry_device d = {.op = op};
    if (op->m == 0 || op->n == 0 || !gx_kry_serves(op, run->target)) {
        return 0;
    }
    gx_kry_choose(&d, run->target, run->target_bytes, true);
    int64_t there = gx_kry_columns(&d);
    double rows = (double)op->m, width = (double)there;
    double element = (double)gx_number_bytes(op->dtype);
    plan->up = (op->is_hermitian ? rows - width / 2 : rows) * width * element;
    plan->pass_s = there > 0 ? devices_pass(&d, cols) : 0;
    plan->is_faster = there > 0 && is_faster(op, run->target);
    return there;
}
