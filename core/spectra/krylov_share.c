/*
** Which device has which columns of A in the passes of a Krylov method (krylov_device.c), and what
** they are multiplied with.  With c = [first, first + cols), the columns of a share:
**
**   general      y += A_c x_c                adjoint: y_c += A_c^H x
**   Hermitian    of the lower triangle the columns, mirrored at the top: y_r += A_rc x_c, r: rows
**                from `first` on, and for what lies above the columns behind them
**                y_c += A_qc^H x_q, q: rows below the mirrored square
**
** Where several devices that reach each other's memory have room for all of a Hermitian A, above
** the diagonal, too, each has whole rows of it instead: one product gives it its part of y, and
** nothing is added up.
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

gx_code gx_kry_fail_of(struct gx_kry_device *d, int culprit, gx_code code)
{
    d->calls.culprit = code == GX_OK ? d->calls.culprit : culprit;
    return code;
}

// Products ----------------------------------------------------------------------------------------

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
static void cut_x(const gx_oper *op, int stretches, gx_kry_layout *l)
{
    int64_t few = few_rows(l->x, gx_max(2, stretches));
    if (few < l->x && is_worth_parts(op, l->x, l->cols)) {
        l->x_parts = 2;
        l->x_at[1] = few;
    }
    l->x_at[l->x_parts] = l->x;
}

/* The stretches of y, and of its own one two parts where that is asked for. */
static void cut_y(int share, int stretches, bool has_halves, gx_kry_layout *l)
{
    int64_t each = gx_ceil_div(gx_ceil_div(l->y, GRAIN), stretches) * GRAIN, at = 0;
    l->own = stretches - 1;
    l->y_parts = stretches + (has_halves ? 1 : 0);
    for (int k = 0; k < stretches; k++) {
        int64_t row = gx_min(l->y, (share + 1 + k) % stretches * each);
        int64_t rows = gx_min(l->y, row + each) - row;
        l->part[k] = (gx_kry_part){.row = row, .rows = rows, .at = at, .ld = rows};
        l->part[k].is_received = k > 0;
        at += rows * l->cols;
    }
    if (has_halves) {
        gx_kry_part *own = &l->part[l->own], *last = own + 1;
        own->rows -= few_rows(own->ld, stretches);
        *last = *own;
        last->row += own->rows;
        last->at += own->rows;
        last->rows = own->ld - own->rows;
    }
}

/* What the hungriest product needs. */
static size_t work_bytes(const gx_oper *op, const gx_kry_share *s, const gx_kry_layout *l)
{
    size_t most = 0;
    for (int part = 0; part < l->x_parts * l->y_parts; part++) {
        gx_args args[2];
        int count = gx_kry_products(op, s, l, part % l->x_parts, part / l->x_parts, args);
        for (int k = 0; k < count; k++) {
            size_t bytes = gx_devcall_workspace(&s->on, GX_GEMM, op->dtype, &args[k]);
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

gx_kry_layout gx_kry_lay_out(const struct gx_kry_device *d, const gx_kry_share *s, int share,
                             bool is_adjoint, int64_t cols)
{
    const gx_oper *op = d->op;
    int64_t top = gx_kry_top(op, s), rows = op->m - top;
    gx_kry_layout l = {.cols = cols,
                       .is_added = d->is_added,
                       .is_turned = is_adjoint && !op->is_hermitian,
                       .rows = d->has_whole_rows ? s->cols : rows,
                       .x0 = s->first,
                       .y0 = s->first,
                       .x = op->is_hermitian ? rows : s->cols,
                       .y = s->cols,
                       .x_parts = 1};
    l.is_triangle = op->is_hermitian && !d->has_whole_rows && s->cols < rows;
    if (d->has_whole_rows || l.is_turned) {
        l.x0 = 0;
        l.x = d->has_whole_rows ? op->n : rows;
    } else {
        l.y0 = top;
        l.y = rows;
    }
    int stretches = d->is_added ? d->shares : 1;
    int64_t each = l.y / stretches;
    bool has_halves = !l.is_triangle && (d->is_added || is_worth_parts(op, l.y, cols)) &&
                      few_rows(each, stretches) < each;
    l.x_at[1] = l.x;
    if (!l.is_triangle) {
        cut_x(op, stretches, &l);
    }
    cut_y(share, stretches, has_halves, &l);
    l.work = work_bytes(op, s, &l);
    return l;
}

/* In a triangle what is above the columns behind a share's: y_c += A_qc^H x_q. */
static gx_args mirrored(gx_number dtype, const gx_kry_share *s, const gx_args *first)
{
    gx_args args = *first;
    args.transa = gx_adjoint(dtype);
    args.m = s->cols;
    args.k = first->m - s->cols;
    args.beta = (gx_scalar){1, 0};
    if (first->a != NULL) {
        args.a = gx_at(s->on.hold[GX_KRY_A].data, dtype, first->lda, s->cols, 0);
        args.b = gx_at(s->on.hold[GX_KRY_X].data, dtype, first->ldb, s->cols, 0);
    }
    return args;
}

int gx_kry_products(const gx_oper *op, const gx_kry_share *s, const gx_kry_layout *l, int part_x,
                    int part_y, gx_args out[2])
{
    if (part_y > 0 && part_x < l->x_parts - 1) {
        return 0;
    }
    const gx_hold *hold = s->on.hold;
    gx_kry_part p = l->part[part_y];
    int64_t x = part_y > 0 ? 0 : l->x_at[part_x], y = p.row;
    gx_args args = {.transa = l->is_turned ? gx_adjoint(op->dtype) : GX_NO_TRANS,
                    .m = p.rows,
                    .n = l->cols,
                    .k = l->is_triangle ? s->cols : l->x_at[part_x + 1] - x,
                    .alpha = {1, 0},
                    .beta = {x > 0 || p.is_received, 0},
                    .lda = gx_max(1, l->rows),
                    .ldb = gx_max(1, l->x),
                    .work = l->work > 0 ? hold[GX_KRY_WORK].data : NULL};
    args.ldc = gx_max(1, p.ld);
    if (hold[GX_KRY_A].data != NULL && hold[GX_KRY_X].data != NULL && hold[GX_KRY_Y].data != NULL) {
        int64_t i = l->is_turned ? x : y, j = l->is_turned ? y : x;
        args.a = gx_at(hold[GX_KRY_A].data, op->dtype, l->rows, i, j);
        args.b = gx_at(hold[GX_KRY_X].data, op->dtype, l->x, x, 0);
        args.c = gx_at(hold[GX_KRY_Y].data, op->dtype, 1, p.at, 0);
    }
    out[0] = args;
    if (args.m == 0 || args.k == 0) {
        return 0;
    }
    out[1] = mirrored(op->dtype, s, &args);
    return l->is_triangle ? 2 : 1;
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
    return gx_place_is_less(op->run, PASSES * pass + copy, PASSES * host_pass(op));
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
        size_t rest = gx_pool_rounded(gx_kry_lay_out(d, &s, 0, false, block).work +
                                      gx_kry_lay_out(d, &s, 0, true, block).work);
        rest += gx_pool_rounded((size_t)(op->n * block) * element);
        rest += gx_pool_rounded((size_t)(op->m * block) * element);
        size_t room = s.on.limit > rest ? s.on.limit - rest : 0, bytes = share_bytes(d, &s);
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

double gx_oper_device_bytes(const gx_oper *op)
{
    return swept(op->device, 0, gx_kry_columns(op->device));
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
        double bytes = seconds * s->on.accel->profile.sweep_bytes_per_s;
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
        slowest = fmin(slowest, d->share[k].on.accel->profile.sweep_bytes_per_s);
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
        const gx_accel *accel = d->share[i].on.accel;
        all = all && gx_accel_offers(accel, kernel, d->op->dtype);
        for (int j = 0; j < d->shares && all; j++) {
            all = i == j || accel->link[d->share[j].on.accel->ordinal].is_direct;
        }
    }
    return all;
}

void gx_kry_cut(struct gx_kry_device *d)
{
    const gx_oper *op = d->op;
    int64_t grain = gx_min(GRAIN, op->edge_cols);
    int some = 0;
    d->has_whole_rows =
        op->is_hermitian && gx_kry_are_linked(d, GX_TRANSPOSE) && gx_kry_are_linked(d, GX_COPY);
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
        longest = fmax(longest, device_pass(d->op, s->on.accel, bytes, cols));
    }
    return longest + ANOTHER_S * (d->shares - 1);
}

/* The fleet's first `count` devices get shares; seconds of a pass, with the host's part. */
static double share_out(struct gx_kry_device *d, const gx_fleet *fleet, int count)
{
    const gx_oper *op = d->op;
    d->shares = count;
    for (int k = 0; k < count; k++) {
        d->share[k] = (gx_kry_share){
            .on = {.run = op->run, .accel = fleet->accel[k], .limit = fleet->bytes[k]}};
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
