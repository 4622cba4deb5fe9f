/*
** Products with a sparse matrix on a device: see spmm_device.h.
**
** S goes there once and stays (sparse_device.h).  Each round of lines is D's columns up, turned
** there where S is on the left, one product, the result turned back, and down.
**
**   D       as it lies: inner x lines (S on the left), where lines are more than one
**   L       lines x inner
**   R       lines x length
**   D       again, for the result as it will lie: length x lines
**
** Where S has yet to be brought and all lines of a gathered S D are one round, both are brought by
** the same threads, D first, and each panel of S is multiplied when it arrives; who has nothing
** left to read takes the result down.
**
** Whether: predicted, from bytes through the memories of both sides, the reads and the copies.
** With `deterministic`, what is scattered stays on the host: there it is added in order.  What
** fails on the device the host does from the beginning.
*/
#include "spmm_device.h"

#include "../exec/load.h"
#include "../run/call.h"
#include "sparse_device.h"

#include <math.h>

/* Waiting, marks, copies of a few bytes: beside the launches. */
static const double DEVICE_S = 60e-6;

enum { PART_D, PART_L, PART_R, FEW = 8 };

typedef struct spmm {
    const gx_spmm_rounds *r;
    gx_run *run;
    gx_sparse_device S;
    int64_t width; /* lines at a time */
} spmm;

static gx_hold *part(spmm *x, int which)
{
    return &x->S.on.hold[GX_SPARSE_BESIDE + which];
}

static bool is_turned(const spmm *x)
{
    return x->r->is_left && x->width > 1;
}

static void measure(spmm *x, int64_t width)
{
    const gx_spmm_rounds *r = x->r;
    size_t line = gx_number_bytes(r->dtype) * (size_t)width;
    x->width = width;
    part(x, PART_D)->bytes = is_turned(x) ? (size_t)gx_max(r->inner, r->length) * line : 0;
    part(x, PART_L)->bytes = (size_t)r->inner * line;
    part(x, PART_R)->bytes = (size_t)r->length * line;
}

/* S as a whole beside a fair number of lines; else by panels. */
static bool fit(spmm *x)
{
    const gx_spmm_rounds *r = x->r;
    int64_t fair = gx_min(r->round, FEW);
    for (int ring = 0; ring < 2; ring++) {
        for (int64_t width = r->round; width >= (ring == 0 ? fair : 1); width /= 2) {
            measure(x, width);
            if (gx_sparse_device_fit(&x->S, width, ring == 0)) {
                return true;
            }
            if (!gx_devcall_is_open(&x->S.on)) {
                return false;
            }
        }
    }
    return false;
}

// Whether -----------------------------------------------------------------------------------------

static double bytes_of(const gx_mat *A, gx_number dtype)
{
    return (double)A->rows * (double)A->cols * (double)gx_number_bytes(dtype);
}

/* What both sides read and write. */
static gx_cost cost_of(const spmm *x, bool reads_sparse, double times)
{
    const gx_spmm_rounds *r = x->r;
    double entries = (double)gx_sparse_entries(r->S);
    gx_cost cost = {.flops = (gx_number_is_complex(r->dtype) ? 8 : 2) * entries * (double)r->lines};
    cost.bytes_read = gx_mat_base_stored(r->D) != NULL ? bytes_of(r->D, r->D->number) : 0;
    if (reads_sparse && r->S->kind == GX_MAT_STORED && !r->is_held) {
        cost.bytes_read += times * (double)gx_sparse_bytes(r->S);
    }
    if (r->write != NULL) {
        cost.bytes_written =
            (double)r->length * (double)r->lines * (double)gx_number_bytes(r->dtype);
    }
    return cost;
}

static void foresee_host(const spmm *x, gx_cost *cost, gx_terms *terms)
{
    const gx_spmm_rounds *r = x->r;
    double rounds = ceil((double)r->lines / (double)r->round);
    *cost = cost_of(x, true, rounds);
    cost->bytes_up = rounds * (double)gx_sparse_bytes(r->S);
    cost->calls = (int64_t)rounds * gx_sparse_pieces(r->S);
    cost->compute_s = rounds * gx_sparse_host_seconds(x->run, r->S, r->dtype, r->round);
    gx_predict_pass(x->run, cost, r->dtype, r->lines, terms);
}

/* Is S brought for all lines at once, whose products may follow its panels? */
static bool is_followed(const spmm *x)
{
    const gx_spmm_rounds *r = x->r;
    return x->S.is_whole && !x->S.on.is_there && r->op != GX_NO_TRANS && is_turned(x) &&
           x->width >= r->lines && gx_sparse_pieces(r->S) > 1;
}

static void foresee_device(const spmm *x, gx_cost *out, gx_terms *terms)
{
    const gx_spmm_rounds *r = x->r;
    const gx_accel *accel = x->S.on.accel;
    const gx_device_profile *device = &accel->profile;
    bool is_there = x->S.on.is_there;
    double rounds = ceil((double)r->lines / (double)x->width);
    double times = x->S.is_whole ? 1 : rounds, turned = is_turned(x) ? 2 : 0;
    double dense = (double)(r->inner + r->length) * (double)gx_number_bytes(r->dtype);
    gx_cost cost = cost_of(x, !is_there, times);
    cost.bytes_up = (is_there ? 0 : times * (double)gx_sparse_bytes(r->S)) +
                    (double)r->inner * (double)r->lines * (double)gx_number_bytes(r->dtype);
    cost.bytes_down = (double)r->length * (double)r->lines * (double)gx_number_bytes(r->dtype);
    cost.compute_s = rounds * (gx_sparse_device_seconds(&x->S, x->width) + device->wait_s) +
                     turned * dense * (double)r->lines / device->sweep_bytes_per_s;
    gx_predict_cost(x->run, accel, &cost, r->dtype, 1, terms);
    if (is_followed(x)) { // products while panels are read
        double share = (double)gx_sparse_bytes(r->S) / cost.bytes_up;
        terms->model_s -= fmin(terms->compute_s, share * fmax(terms->read_s, terms->up_s));
    }
    double helpers_s = is_there ? 0 : gx_predict_helpers_s(x->run, cost.bytes_read);
    gx_predict_begin(&x->S.on, helpers_s + DEVICE_S, terms);
    *out = cost;
    out->calls = (int64_t)rounds * (x->S.is_whole ? 1 : gx_sparse_pieces(r->S));
}

/* Does the device do it at all? */
static bool is_offered(spmm *x, gx_accel *accel)
{
    const gx_spmm_rounds *r = x->r;
    bool is_ordered = x->run->ctx->config.number[GX_SET_DETERMINISTIC] != 0;
    x->S = (gx_sparse_device){.on = {.run = x->run, .accel = accel}, .S = r->S, .dtype = r->dtype};
    return accel != NULL && !(is_ordered && r->op == GX_NO_TRANS) &&
           gx_sparse_device_offers(accel, r->S, r->dtype);
}

static double foresee_seconds(void *arg)
{
    gx_cost cost;
    gx_terms terms;
    foresee_device(arg, &cost, &terms);
    return terms.seconds;
}

void gx_spmm_foresee_rounds(gx_run *run, const gx_spmm_rounds *rounds, gx_cost *cost,
                            gx_terms *terms)
{
    spmm x = {.r = rounds, .run = run};
    *terms = (gx_terms){0};
    if (run->target == NULL) {
        foresee_host(&x, cost, terms);
    } else if (is_offered(&x, run->target) && fit(&x)) {
        foresee_device(&x, cost, terms);
    }
}

/* Is it to be done there?  Reserves nothing.  *here: what it takes on the host. */
static bool choose(spmm *x, gx_terms *here)
{
    const gx_spmm_rounds *r = x->r;
    gx_cost cost;
    gx_terms now;
    foresee_host(x, &cost, here);
    if (!is_offered(x, gx_place_for(x->run, here->seconds, NULL))) {
        return false;
    }
    if (!fit(x)) {
        return gx_place_has_no_room(&x->S.on, "two panels of ", r->S->label);
    }
    foresee_device(x, &cost, &now);
    bool is_chosen = gx_place_is_worth_it(&x->S.on, here->seconds, &now, foresee_seconds, x);
    if (is_chosen && !r->is_step) {
        gx_predict_expect(x->run, &now, true);
    }
    return is_chosen;
}

// The rounds --------------------------------------------------------------------------------------

/* A block of `rows` lines beside each other as columns: to = from^T. */
static gx_code turn(spmm *x, const void *from, void *to, int64_t m, int64_t n, gx_err *err)
{
    gx_args args = {.transa = GX_TRANS, .m = m, .n = n, .a = from, .lda = n, .c = to, .ldc = m};
    return gx_devcall_kernel(&x->S.on, GX_TRANSPOSE, x->r->dtype, &args, err);
}

/* D is memory that goes up as it is. */
static bool is_put(const spmm *x)
{
    return x->r->D->kind == GX_MAT_VALUE && x->r->D->number == x->r->dtype;
}

/* Lines [l0, l0 + m) of D to L. */
static gx_code bring_lines(spmm *x, int64_t l0, int64_t m, gx_err *err)
{
    const gx_spmm_rounds *r = x->r;
    int64_t rows = r->is_left ? r->inner : m, cols = r->is_left ? m : r->inner;
    bool turns = r->is_left && m > 1;
    void *to = part(x, turns ? PART_D : PART_L)->data;
    gx_mat some;
    gx_mat_view(&some, r->D, GX_NO_TRANS, r->is_left ? 0 : l0, r->is_left ? l0 : 0, rows, cols);
    if (is_put(x)) {
        GX_TRY(gx_device_put(x->run, x->S.on.accel, r->dtype, rows, cols,
                             gx_at(r->D->data, r->dtype, r->D->ld, some.row0, some.col0), r->D->ld,
                             to, err));
    } else {
        GX_TRY(gx_device_load(x->run, x->S.on.accel, &some, cols, r->dtype, false, to, err));
    }
    return turns && gx_ok(x->run) ? turn(x, to, part(x, PART_L)->data, m, r->inner, err) : GX_OK;
}

/* Leading dimension of the result, of which a round that is to be written is all there is. */
static int64_t ld_of(const gx_spmm_rounds *r, int64_t first)
{
    int64_t count = gx_min(r->round, r->lines - first);
    return r->write == NULL ? r->ldr : r->is_left ? r->length : count;
}

/* R, as the result lies: to the host. */
static gx_code take_down(spmm *x, int64_t l0, int64_t m, int64_t first, gx_err *err)
{
    const gx_spmm_rounds *r = x->r;
    int64_t rows = r->is_left ? r->length : m, cols = r->is_left ? m : r->length;
    gx_accel *accel = x->S.on.accel;
    const void *from = part(x, PART_R)->data;
    if (r->is_left && m > 1) {
        GX_TRY(turn(x, from, part(x, PART_D)->data, r->length, m, err));
        from = part(x, PART_D)->data;
    }
    GX_TRY(accel->backend->queue_wait(accel->dev, accel->run, err));
    int64_t line = r->write != NULL ? l0 - first : l0, ld = ld_of(r, first);
    return gx_device_get(
        x->run, accel, r->dtype, rows, cols, from,
        gx_at(r->result, r->dtype, ld, r->is_left ? 0 : line, r->is_left ? line : 0), ld, err);
}

static gx_sparse_product product_of(spmm *x, int64_t lines)
{
    return (gx_sparse_product){.op = x->r->op,
                               .lines = lines,
                               .alpha = x->r->alpha,
                               .L = part(x, PART_L)->data,
                               .R = part(x, PART_R)->data};
}

static gx_code multiply(spmm *x, int64_t m, gx_err *err)
{
    const gx_spmm_rounds *r = x->r;
    if (r->op == GX_NO_TRANS) {
        gx_args zeros = {.m = m * r->length, .n = 1, .ldc = m * r->length};
        zeros.c = part(x, PART_R)->data;
        GX_TRY(gx_devcall_kernel(&x->S.on, GX_FILL, r->dtype, &zeros, err));
    }
    const gx_sparse_product product = product_of(x, m);
    return gx_sparse_device_multiply(&x->S, &product, err);
}

/* What a poll may have changed. */
static bool goes_on(spmm *x, gx_err *err)
{
    gx_run_poll(x->run);
    return gx_ok(x->run) && gx_devcall_check_open(&x->S.on, err) == GX_OK;
}

/* D, S with its product, and the result. */
static gx_code run_followed(spmm *x, gx_err *err)
{
    const gx_spmm_rounds *r = x->r;
    gx_mat all;
    gx_mat_view(&all, r->D, GX_NO_TRANS, 0, 0, r->inner, r->lines);
    gx_sparse_follow follow = {.product = product_of(x, r->lines),
                               .dense = &all,
                               .at = part(x, PART_D)->data,
                               .result = r->result,
                               .ldr = ld_of(r, 0)};
    if (is_put(x)) {
        follow.dense = NULL;
        GX_TRY(bring_lines(x, 0, r->lines, err));
    }
    if (goes_on(x, err)) {
        GX_TRY(gx_sparse_device_bring(&x->S, &follow, err));
    }
    if (r->write != NULL && goes_on(x, err)) {
        r->write(r->arg, 0, r->lines);
    }
    return err->code;
}

static gx_code run_rounds(spmm *x, gx_err *err)
{
    const gx_spmm_rounds *r = x->r;
    GX_TRY(gx_sparse_device_begin(&x->S, err));
    if (is_followed(x)) {
        return run_followed(x, err);
    }
    GX_TRY(gx_sparse_device_bring(&x->S, NULL, err));
    for (int64_t first = 0; first < r->lines && goes_on(x, err); first += r->round) {
        int64_t end = gx_min(r->lines, first + r->round);
        for (int64_t l0 = first; l0 < end && goes_on(x, err); l0 += x->width) {
            int64_t m = gx_min(x->width, end - l0);
            GX_TRY(bring_lines(x, l0, m, err));
            if (goes_on(x, err)) {
                GX_TRY(multiply(x, m, err));
            }
            if (goes_on(x, err)) {
                GX_TRY(take_down(x, l0, m, first, err));
            }
        }
        if (r->write != NULL && goes_on(x, err)) {
            r->write(r->arg, first, end - first);
        }
    }
    return err->code;
}

bool gx_spmm_by_device(gx_run *run, const gx_spmm_rounds *rounds)
{
    spmm x = {.r = rounds, .run = run};
    gx_err err = {0};
    gx_terms here;
    if (!gx_ok(run) || rounds->lines == 0 || rounds->length == 0 || rounds->inner == 0 ||
        gx_sparse_pieces(rounds->S) == 0) {
        return !gx_ok(run);
    }
    if (!choose(&x, &here)) {
        if (!rounds->is_step) { // what comes of it corrects the next prediction
            gx_predict_expect(run, &here, false);
        }
        return !gx_ok(run);
    }
    gx_pool_begin(x.S.on.accel->pool);
    gx_code code = run_rounds(&x, &err);
    if (gx_devcall_end(&x.S.on, code, &err)) {
        return true;
    }
    if (!rounds->is_step) {
        gx_place_restart(run);
    }
    return false;
}

bool gx_sparse_apply_by_device(gx_run *run, const gx_mat *S, gx_trans op, gx_number dtype,
                               int64_t count, const void *X, int64_t ldx, void *Y, int64_t ldy,
                               bool is_held)
{
    bool is_own_transpose = (op == GX_TRANS && (S->properties & GX_PROP_SYMMETRIC) != 0) ||
                            (op == GX_CONJ_TRANS && (S->properties & GX_PROP_HERMITIAN) != 0);
    bool is_plain = op == GX_NO_TRANS || is_own_transpose;
    if (S->kind != GX_MAT_STORED || count == 0 ||
        (!is_plain && op == GX_CONJ_TRANS && gx_number_is_complex(S->number))) {
        return false; // the kernel scatters what is not conjugated
    }
    gx_mat D;
    gx_spmm_rounds rounds = {.S = S,
                             .D = &D,
                             .is_left = true,
                             .op = is_plain ? GX_TRANS : GX_NO_TRANS,
                             .alpha = {1, 0},
                             .dtype = dtype,
                             .lines = count,
                             .round = count,
                             .inner = is_plain ? S->cols : S->rows,
                             .length = is_plain ? S->rows : S->cols,
                             .result = Y,
                             .ldr = ldy,
                             .is_step = true,
                             .is_held = is_held};
    gx_mat_value(&D, "a block of vectors", dtype, rounds.inner, count, X, gx_max(1, ldx));
    return gx_spmm_by_device(run, &rounds);
}
