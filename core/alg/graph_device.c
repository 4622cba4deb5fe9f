/*
** Spreading activation on a device: see adjacency.h.
**
** The graph goes there once and stays (sparse_device.h).  The nodes' numbers stay there for all
** steps; a step is a fused pass over them and a product with the transposed matrix, all enqueued
** one behind the other.  So a call is one copy up, a few launches a step, one copy down.
**
**   arrived      what nodes got in the step before; at first what they are given
**   activation   += arrived
**   passed       what they pass on, by threshold and share
**   share        1 / the weights of a node's edges, which are their product with ones
*/
#include "adjacency.h"

#include "../run/call.h"
#include "sparse_device.h"

#include <math.h>

/* Waiting, marks, copies of a few bytes: beside the launches. */
static const double DEVICE_S = 60e-6;

enum { ARRIVED, ACTIVATION, PASSED, SHARE, VECTORS };

typedef struct spreading {
    gx_run *run;
    const gx_mat *G;
    const gx_spread_args *args;
    gx_sparse_device S;
    gx_trans op; /* of the kernel: a symmetric graph is gathered */
    gx_fused step, inverse;
} spreading;

static gx_hold *vector(spreading *x, int which)
{
    return &x->S.on.hold[GX_SPARSE_BESIDE + which];
}

// Passes over the nodes ---------------------------------------------------------------------------

/* arrived, activation[, share] -> activation, passed; and arrived = 0 for what is scattered */
static bool write_step(spreading *x)
{
    gx_fused *f = &x->step;
    gx_fused_begin(f, GX_F64);
    int arrived = gx_fused_input(f), sum = gx_fused_input(f);
    int share = x->args->normalize ? gx_fused_input(f) : GX_FUSED_NONE;
    int threshold = gx_fused_constant(f, (gx_scalar){x->args->threshold, 0});
    int zero = gx_fused_constant(f, (gx_scalar){0, 0});
    int passed = share < 0 ? arrived : gx_fused_step(f, GX_MAP_MUL, arrived, share, 0);
    int size = gx_fused_step(f, GX_MAP_ABS, arrived, 0, 0);
    int is_quiet = gx_fused_step(f, GX_MAP_LESS_EQUAL, size, threshold, 0);
    const gx_scalar one = {1, 0};
    gx_fused_output(f, gx_fused_scaled(f, GX_MAP_ADD, one, sum, one, arrived), GX_FOLD_NONE,
                    GX_FOLD_OF_ALL);
    gx_fused_output(f, gx_fused_step(f, GX_MAP_WHERE, is_quiet, zero, passed), GX_FOLD_NONE,
                    GX_FOLD_OF_ALL);
    if (x->op == GX_NO_TRANS) {
        int nothing = gx_fused_step(f, GX_MAP_WHERE, is_quiet, zero, zero);
        gx_fused_output(f, nothing, GX_FOLD_NONE, GX_FOLD_OF_ALL);
    }
    return gx_fused_end(f);
}

/* share -> 1 / share, or 0 */
static bool write_inverse(spreading *x)
{
    gx_fused *f = &x->inverse;
    gx_fused_begin(f, GX_F64);
    int weights = gx_fused_input(f), zero = gx_fused_constant(f, (gx_scalar){0, 0});
    int inverse = gx_fused_step(f, GX_MAP_RECIPROCAL, weights, 0, 0);
    gx_fused_output(f, gx_fused_step(f, GX_MAP_WHERE, weights, inverse, zero), GX_FOLD_NONE,
                    GX_FOLD_OF_ALL);
    return gx_fused_end(f);
}

static gx_code fill(spreading *x, int which, double value, gx_err *err)
{
    gx_args args = {.m = x->G->rows, .n = 1, .alpha = {value, 0}, .ldc = x->G->rows};
    args.c = vector(x, which)->data;
    return gx_devcall_kernel(&x->S.on, GX_FILL, GX_F64, &args, err);
}

/* A fused program of a column for each input and output. */
static gx_code pass(spreading *x, const gx_fused *f, const int *in, const int *out, gx_err *err)
{
    int64_t n = x->G->rows;
    gx_fused_place inputs[VECTORS], outputs[VECTORS];
    double *fold[VECTORS] = {NULL};
    for (int k = 0; k < f->inputs; k++) {
        inputs[k] = (gx_fused_place){vector(x, in[k])->data, 1, n};
    }
    for (int k = 0; k < f->outputs; k++) {
        outputs[k] = (gx_fused_place){vector(x, out[k])->data, 1, n};
    }
    gx_args args = {.m = n, .n = 1, .fused = f, .in = inputs, .out = outputs, .fold = fold};
    return gx_devcall_kernel(&x->S.on, GX_FUSED, GX_F64, &args, err);
}

// Whether -----------------------------------------------------------------------------------------

/* device NULL: the host alone. */
static void foresee(const spreading *x, gx_terms *host, gx_terms *device)
{
    gx_run *run = x->run;
    double steps = (double)x->args->steps, bytes = (double)gx_sparse_bytes(x->G);
    double n = (double)x->G->rows * sizeof(double);
    bool is_stored = x->G->kind == GX_MAT_STORED;
    gx_cost cost = {.flops = 2 * steps * (double)gx_sparse_entries(x->G)};
    int64_t readers =
        gx_min(run->ctx->config.number[GX_SET_READERS], gx_sparse_pieces(x->G)); // at work
    cost.compute_s = steps * gx_sparse_host_seconds(run, x->G, GX_F64, 1) +
                     (is_stored ? bytes / gx_predict_read_rate(run, readers) : 0);
    gx_predict_cost(run, NULL, &cost, GX_F64, 1, host);
    if (device == NULL) {
        return;
    }
    const gx_accel *accel = x->S.on.accel;
    bool is_there = x->S.on.is_there;
    cost.bytes_read = is_stored && !is_there ? bytes : 0;
    cost.bytes_up = n + (is_there ? 0 : bytes);
    cost.bytes_down = n;
    cost.compute_s = steps * (gx_sparse_device_seconds(&x->S, 1) + accel->profile.launch_s) +
                     accel->profile.wait_s;
    gx_predict_cost(run, accel, &cost, GX_F64, 1, device);
    gx_predict_begin(&x->S.on, DEVICE_S, device);
}

static double foresee_seconds(void *arg)
{
    gx_terms host, device;
    foresee(arg, &host, &device);
    return device.seconds;
}

/* Is it to be done there?  Reserves nothing.  *here: what it takes on the host. */
static bool choose(spreading *x, gx_terms *here)
{
    gx_terms now;
    bool is_ordered = x->run->ctx->config.number[GX_SET_DETERMINISTIC] != 0;
    foresee(x, here, NULL);
    gx_accel *accel = gx_place_for(x->run, here->seconds, NULL);
    if (accel == NULL || (is_ordered && x->op == GX_NO_TRANS) ||
        !gx_sparse_device_offers(accel, x->G, GX_F64) ||
        !gx_accel_offers(accel, GX_FUSED, GX_F64) || !write_step(x) || !write_inverse(x)) {
        return false;
    }
    x->S = (gx_sparse_device){.on = {.run = x->run, .accel = accel}, .S = x->G, .dtype = GX_F64};
    for (int k = 0; k < VECTORS; k++) {
        bool is_used = k != SHARE || x->args->normalize;
        vector(x, k)->bytes = is_used ? (size_t)x->G->rows * sizeof(double) : 0;
    }
    if (!gx_sparse_device_fit(&x->S, 1, true)) {
        return gx_place_has_no_room(&x->S.on, "", x->G->label);
    }
    foresee(x, here, &now);
    bool is_chosen = gx_place_is_worth_it(&x->S.on, here->seconds, &now, foresee_seconds, x);
    if (is_chosen) {
        gx_predict_expect(x->run, &now, true);
    }
    return is_chosen;
}

// The call ----------------------------------------------------------------------------------------

static gx_code multiply(spreading *x, gx_trans op, double alpha, int from, int to, gx_err *err)
{
    const gx_sparse_product product = {.op = op,
                                       .lines = 1,
                                       .alpha = {alpha, 0},
                                       .L = vector(x, from)->data,
                                       .R = vector(x, to)->data};
    return gx_sparse_device_multiply(&x->S, &product, err);
}

static gx_code compute(spreading *x, const double *pulse, double *activation, gx_err *err)
{
    static const int in[] = {ARRIVED, ACTIVATION, SHARE}, out[] = {ACTIVATION, PASSED, ARRIVED};
    static const int share[] = {SHARE};
    int64_t n = x->G->rows;
    gx_accel *accel = x->S.on.accel;
    GX_TRY(gx_sparse_device_begin(&x->S, err));
    GX_TRY(gx_sparse_device_bring(&x->S, NULL, err));
    if (!gx_ok(x->run)) {
        return GX_OK;
    }
    GX_TRY(gx_devcall_check_open(&x->S.on, err));
    GX_TRY(gx_device_put(x->run, accel, GX_F64, n, 1, pulse, n, vector(x, ARRIVED)->data, err));
    GX_TRY(fill(x, ACTIVATION, 0, err));
    if (x->args->normalize) {
        GX_TRY(fill(x, PASSED, 1, err));
        GX_TRY(multiply(x, GX_TRANS, 1, PASSED, SHARE, err));
        GX_TRY(pass(x, &x->inverse, share, share, err));
    }
    for (int64_t step = 0; step < x->args->steps; step++) {
        GX_TRY(pass(x, &x->step, in, out, err));
        GX_TRY(multiply(x, x->op, x->args->decay, PASSED, ARRIVED, err));
        if (gx_run_poll(x->run) != GX_OK) {
            return GX_OK;
        }
        GX_TRY(gx_devcall_check_open(&x->S.on, err));
    }
    GX_TRY(pass(x, &x->step, in, out, err));
    GX_TRY(accel->backend->queue_wait(accel->dev, accel->run, err));
    return gx_device_get(x->run, accel, GX_F64, n, 1, vector(x, ACTIVATION)->data, activation, n,
                         err);
}

bool gx_spread_by_device(gx_run *run, const gx_mat *G, const gx_spread_args *args,
                         const double *pulse, double *activation)
{
    bool is_symmetric = (G->properties & GX_PROP_SYMMETRIC) != 0;
    spreading x = {.run = run, .G = G, .args = args, .op = is_symmetric ? GX_TRANS : GX_NO_TRANS};
    gx_err err = {0};
    gx_terms here;
    if (!gx_ok(run) || gx_sparse_pieces(G) == 0 || args->steps == 0) {
        return !gx_ok(run);
    }
    if (!choose(&x, &here)) {
        gx_predict_expect(run, &here, false); // what comes of it corrects the next prediction
        return !gx_ok(run);
    }
    gx_pool_begin(x.S.on.accel->pool);
    gx_code code = compute(&x, pulse, activation, &err);
    if (gx_devcall_end(&x.S.on, code, &err)) {
        return true;
    }
    gx_place_restart(run);
    return false;
}
