/*
** Programs on a device: see on_device.h.
**
** The choice is made for the graph (estimate.c); then a node runs there when it can and any of its
** operands is there or large.  Values stay there until somebody on the host asks for them.  Kernels
** are enqueued one after the other in one queue, and the host waits only for numbers that it looks
** at: folds and reductions.  Other operations (factorisations, sorting, ...) are steps of the host.
*/
#include "on_device.h"

#include "../alg/by_parts.h"
#include "../base/fused.h"
#include "../base/random.h"
#include "../exec/place.h"
#include "device_memory.h"
#include "device_node.h"
#include "estimate.h"
#include "lower.h"
#include "on_device_grid.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A program that takes less is not worth a look at the device. */
static const double LEAST_S = 1e-4;

// Where -------------------------------------------------------------------------------------------

/* What a copy of the operand on a device is known by; file 0: none is kept. */
static gx_block_key key_of(gx_exec *x, const gx_node *node)
{
    const gx_mat *mat = x->operand == NULL ? NULL : &x->operand[node->whole[0]];
    return gx_device_key_of(x, mat, node->type.dtype);
}

/* Is the operand on an open device from an earlier call, or on several in shares? */
static bool is_held(gx_exec *x, const gx_node *node)
{
    size_t bytes = 0;
    bool is_found = false;
    const gx_accel *open = gx_accel_opened(x->run->ctx);
    gx_block_key key = open == NULL ? (gx_block_key){.file = 0} : key_of(x, node);
    gx_matrix_bytes(node->type.rows, node->type.cols, node->type.dtype, &bytes);
    double shares = 0;
    for (; key.file != 0 && open != NULL; open = open->next) {
        is_found = is_found || gx_pool_holds(open->pool, &key, bytes);
        shares += gx_pool_shares(open->pool, &key);
    }
    bool is_dealt = x->shares.has != NULL && x->shares.has[node - x->g->node];
    return is_found || (is_dealt && shares >= gx_elements_of(&node->type) && shares > 0);
}

/* is_later: as it will be when the device has every operand that it keeps. */
static void predict(gx_exec *x, const gx_device_profile *device, bool is_later, gx_estimate *e)
{
    const gx_graph *g = x->g;
    gx_ctx *ctx = x->run->ctx;
    const gx_accel *open = gx_accel_opened(ctx);
    bool held[GX_OPERANDS_MAX] = {false};
    gx_rates rates = {
        .host = gx_profile_get(ctx),
        .device = device,
        .threads = (int)ctx->config.number[GX_SET_THREADS],
        .has_transforms = open == NULL || gx_accel_offers(open, GX_FFT, GX_C128),
        .read_bytes_per_s = gx_predict_read_rate(x->run, 0),
    };
    for (int k = 0; k < g->operands; k++) {
        gx_ref ref = g->operand[k].node;
        held[k] = ref != GX_NO_NODE &&
                  (is_later ? key_of(x, &g->node[ref]).file != 0 : is_held(x, &g->node[ref]));
    }
    gx_estimate_graph(g, &rates, held, e);
    e->host_s += gx_predict_helpers_s(x->run, e->read_bytes);
    e->device_s += gx_predict_helpers_s(x->run, e->sent_bytes) + device->wait_s;
}

/* The open device's figures, those that were saved, or a guess. */
static const gx_device_profile *profile_of(gx_exec *x, gx_device_profile *space)
{
    gx_accel *open = gx_accel_opened(x->run->ctx);
    if (open != NULL) {
        return &open->profile;
    }
    gx_profile_saved_device(x->run->ctx, space);
    return space;
}

/* Programs of one making are learnt of together, under a name that tells them from others. */
static void name_program(const gx_exec *x)
{
    uint32_t hash = 2166136261u;
    for (int32_t k = 0; k < x->g->nodes; k++) {
        hash = (hash ^ (uint32_t)x->g->node[k].op->id) * 16777619u;
    }
    snprintf(x->run->planned_name, sizeof x->run->planned_name, "%s %08x", x->run->label, hash);
}

/* What is known of the place, into the ledger's terms. */
static gx_terms correct(const gx_exec *x, const gx_estimate *e, bool is_device)
{
    double n = sqrt((e->read_bytes + e->down_bytes + e->widest) / sizeof(double));
    gx_terms terms = {.work = 2 * n * n * n, .model_s = is_device ? e->device_s : e->host_s};
    terms.factor =
        gx_ledger_factor(&x->run->ctx->ledger, x->run->planned_name, is_device, terms.work);
    terms.seconds = terms.model_s * terms.factor;
    return terms;
}

/* With copies of all operands there that are kept. */
static double foresee_later(void *arg)
{
    gx_exec *x = arg;
    gx_estimate e;
    predict(x, &x->on->call.accel->profile, true, &e);
    return correct(x, &e, true).seconds;
}

/* Of a copy of the first operand that is kept, in place of all. */
static gx_block_key key_of_first(gx_exec *x)
{
    const gx_graph *g = x->g;
    gx_block_key key = {.file = 0};
    for (int k = 0; k < g->operands && key.file == 0; k++) {
        if (g->operand[k].node != GX_NO_NODE) {
            key = key_of(x, &g->node[g->operand[k].node]);
        }
    }
    return key;
}

void gx_on_device_learn(gx_exec *x)
{
    gx_run *run = x->run;
    if (x->foretold.seconds > 0 && x->lanes == 1 && x->fault.code == GX_OK) {
        run->planned_as = run->planned_name;
        run->planned_s = run->planned_model_s = run->planned_work = 0; // not of its parts
        run->is_planned_on_device = false;
        gx_predict_expect(run, &x->foretold, x->on->call.accel != NULL);
    }
}

/* No device is open: what a call saves where one has what this call finds again; or 0. */
static double later_saving(gx_exec *x, const gx_terms *host)
{
    gx_device_profile space;
    gx_estimate e;
    gx_block_key key = key_of_first(x);
    predict(x, profile_of(x, &space), true, &e);
    double saving = host->seconds - correct(x, &e, true).seconds;
    return saving > 0 && gx_place_owe_copy(x->run, &key, saving) > saving ? saving : 0;
}

void gx_on_device_choose(gx_exec *x)
{
    gx_run *run = x->run;
    gx_ctx *ctx = run->ctx;
    gx_device_profile space;
    gx_estimate e;
    gx_devcall *call = &x->lane[0].call;
    bool is_forced = gx_place_is_forced(run);
    x->on = x->lane;
    x->lanes = 1;
    if (x->g->is_plain || (ctx->config.number[GX_SET_BACKEND] != GX_BACKEND_AUTO && !is_forced)) {
        return;
    }
    predict(x, profile_of(x, &space), false, &e);
    if (!is_forced && e.host_s * GX_LEDGER_MOST < LEAST_S) {
        return;
    }
    name_program(x);
    gx_terms host = correct(x, &e, false), device = correct(x, &e, true);
    if (!is_forced && host.seconds < LEAST_S) {
        return;
    }
    x->foretold = host;
    double saving = host.seconds - device.seconds;
    if (saving <= 0 && !is_forced && gx_accel_opened(ctx) == NULL) {
        saving = later_saving(x, &host);
    }
    call->accel = gx_place_saving(run, saving, &call->limit);
    if (call->accel == NULL || !gx_ok(run)) {
        call->accel = NULL;
        return;
    }
    predict(x, &call->accel->profile, false, &e);
    device = correct(x, &e, true);
    bool fits = e.up_bytes + 3 * e.widest <= (double)call->limit;
    if (fits && device.seconds >= host.seconds) {
        call->key = key_of_first(x);
    }
    bool is_device = fits ? gx_place_is_worth_it(call, host.seconds, &device, foresee_later, x)
                          : gx_place_has_no_room(call, "a program's matrices", "");
    call->key.file = 0;
    gx_ledger_age(&ctx->ledger, run->planned_name, !is_device, host.work);
    if (is_device) {
        x->foretold = device;
        gx_pool_begin(call->accel->pool);
    }
    call->accel = is_device ? call->accel : NULL;
}

// Operands ----------------------------------------------------------------------------------------

/* What the node reads from the database goes there together: fewer, longer waits. */
static bool inputs(gx_exec *x, const gx_node *node)
{
    gx_val *vals[GX_FUSED_INPUTS];
    int count = node->count < GX_FUSED_INPUTS ? node->count : GX_FUSED_INPUTS;
    for (int k = 0; k < count; k++) {
        vals[k] = x->val[gx_input(x->g, node, k)];
    }
    return gx_device_vals_send(x, vals, count, false);
}

// Operations --------------------------------------------------------------------------------------

/* Has every operand the dtype, or can it be converted there? */
static bool converts(const gx_exec *x, const gx_node *node, gx_number dtype)
{
    bool is_same = true;
    for (int k = 0; k < node->count; k++) {
        is_same = is_same && gx_input_node(x->g, node, k)->type.dtype == dtype;
    }
    return is_same || gx_node_offers(x, GX_CONVERT, dtype);
}

/* A.T @ A: the lower triangle, mirrored; false: it is none, or is not offered. */
static bool is_gram(const gx_exec *x, const gx_node *node, gx_kernel_id *kernel)
{
    bool is_hermitian =
        gx_number_is_complex(node->type.dtype) && (node->type.properties & GX_PROP_HERMITIAN) != 0;
    *kernel = is_hermitian ? GX_HERK : GX_SYRK;
    return gx_input(x->g, node, 0) == gx_input(x->g, node, 1) &&
           (node->type.properties & (GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN)) != 0 &&
           gx_node_offers(x, *kernel, node->type.dtype) &&
           gx_node_offers(x, GX_SYMMETRIZE, node->type.dtype);
}

/* The dtype that input k is stored as, whatever it lies on the device as. */
static gx_dtype stored_dtype(const gx_exec *x, const gx_node *node, int k)
{
    const gx_val *val = x->val[gx_input(x->g, node, k)];
    return val->mat == NULL ? gx_dtype_of(val->type.dtype)
                            : gx_mat_narrow(val->mat, val->type.dtype);
}

static void product(gx_exec *x, const gx_node *node)
{
    const gx_type *ta = &gx_input_node(x->g, node, 0)->type,
                  *tb = &gx_input_node(x->g, node, 1)->type;
    gx_number dtype = node->type.dtype;
    gx_kernel_id kernel;
    gx_dtype half = gx_dtype_half(stored_dtype(x, node, 0), stored_dtype(x, node, 1));
    bool is_half = half == GX_DTYPE_F64 && is_gram(x, node, &kernel),
         is_left = node->trans[0] != GX_NO_TRANS;
    gx_trans other = is_half && kernel == GX_HERK ? GX_CONJ_TRANS : GX_TRANS;
    gx_args args = {.transa = is_half && is_left ? other : node->trans[0],
                    .transb = node->trans[1],
                    .half = half,
                    .uplo = GX_LOWER,
                    .m = node->type.rows,
                    .n = node->type.cols,
                    .k = is_left ? ta->rows : ta->cols,
                    .alpha = {1, 0},
                    .lda = gx_max(1, ta->rows),
                    .ldb = gx_max(1, tb->rows),
                    .ldc = gx_max(1, node->type.rows)};
    args.a = gx_node_input(x, node, 0, dtype);
    args.b = is_half ? args.a : gx_node_input(x, node, 1, dtype);
    args.c = args.a == NULL || args.b == NULL ? NULL : gx_node_result(x, node);
    if (args.c != NULL && node->type.rows > 0 && node->type.cols > 0 &&
        gx_node_call(x, is_half ? kernel : GX_GEMM, dtype, &args) && is_half) {
        args.transa = other;
        gx_node_call(x, GX_SYMMETRIZE, dtype, &args);
    }
}

/* The result in an operand's place, where that is wanted no more; else a buffer of its own. */
static void *overwritten(gx_exec *x, const gx_node *node)
{
    for (int k = 0; k < node->count && gx_ok(x->run); k++) {
        gx_val *val = x->val[gx_input(x->g, node, k)];
        if (val->device != NULL && val->owned == NULL && val->data == NULL &&
            gx_may_overwrite(x, node, k)) {
            val->refs++;
            val->type = gx_type_now(x, node);
            gx_val_put(x, gx_result_ref(x, node, 0), val);
            return val->device;
        }
    }
    return gx_node_result(x, node);
}

static void put_numbers(gx_exec *x, const gx_node *node, const gx_fused_result *o,
                        const double *fold)
{
    int64_t count = node->type.rows * node->type.cols;
    int width = gx_fold_width((gx_fold)o->fold);
    void *c = gx_result(x, node, 0);
    for (int64_t k = 0; k < count && c != NULL; k++) {
        gx_scalar value = gx_fold_value((gx_fold)o->fold, fold + k * width);
        value.re *= node->alpha.re;
        value.im *= node->alpha.re;
        gx_number_put(node->type.dtype, c, k, value);
    }
}

static void fused(gx_exec *x, const gx_node *node)
{
    const gx_fused *f = node->fused;
    const gx_fused_result *o = &f->output[0];
    bool is_fold = o->fold != GX_FOLD_NONE;
    const gx_type type = gx_type_now(x, node);
    int64_t m = is_fold ? node->whole[0] : type.rows, n = is_fold ? node->whole[1] : type.cols;
    gx_fused_place in[GX_FUSED_INPUTS], out = {.data = NULL};
    double *fold = NULL;
    for (int k = 0; k < node->count && gx_ok(x->run); k++) {
        const gx_type *from = &x->val[gx_input(x->g, node, k)]->type;
        in[k] = (gx_fused_place){.data = (void *)(uintptr_t)gx_node_input(x, node, k, f->dtype),
                                 .row = from->rows == 1 ? 0 : 1,
                                 .col = from->cols == 1 ? 0 : gx_max(1, from->rows)};
    }
    if (is_fold) {
        fold = gx_temp(x, (size_t)gx_fold_doubles((gx_fold)o->fold, (gx_fold_of)o->fold_of, m, n) *
                              sizeof *fold);
    } else if (gx_ok(x->run)) {
        out = (gx_fused_place){.data = overwritten(x, node), .row = 1, .col = gx_max(1, m)};
    }
    if (gx_ok(x->run) && m > 0 && n > 0) {
        gx_args args = {
            .m = m, .n = n, .fused = f, .in = in, .out = &out, .fold = &fold, .more = x->times - 1};
        gx_node_call(x, GX_FUSED, f->dtype, &args);
    }
    if (is_fold && gx_device_wait(x)) {
        put_numbers(x, node, o, fold);
    }
}

/* Kinds of GX_REDUCE for a node; false: it is the host's. */
static bool reduction_of(const gx_node *node, gx_reduce_kind *kind)
{
    int64_t axis = node->whole[0];
    switch (node->op->id) {
    case GX_OP_SUM:
    case GX_OP_MEAN:
        *kind = axis < 0 ? GX_REDUCE_SUM : axis == 0 ? GX_REDUCE_COL_SUM : GX_REDUCE_ROW_SUM;
        return true;
    case GX_OP_MIN:
    case GX_OP_MAX:
        *kind = node->op->id == GX_OP_MIN ? GX_REDUCE_MIN : GX_REDUCE_MAX;
        return axis < 0;
    case GX_OP_NORM:
        *kind = GX_REDUCE_SUMSQ;
        return axis == 'F';
    default:
        return false;
    }
}

/* Is an operand one that is multiplied by its parts, by the drivers, which keep these there? */
static bool reads_structured(const gx_graph *g, const gx_node *node)
{
    bool reads = false, is_narrow = node->op->id == GX_OP_MATMUL &&
                                    gx_min(node->type.rows, node->type.cols) <= GX_PARTS_FEW;
    for (int k = 0; k < node->count; k++) {
        const gx_node *in = gx_input_node(g, node, k);
        const gx_operand *of = in->op->id == GX_OP_OPERAND ? &g->operand[in->whole[0]] : NULL;
        reads |= of != NULL && (of->is_structured || (is_narrow && of->parts_pay));
    }
    return reads;
}

/* The kernel of a node and its number; GX_KERNEL_COUNT: the node is the host's. */
static gx_kernel_id kernel_of(const gx_graph *g, const gx_node *node, gx_number *dtype)
{
    gx_reduce_kind kind;
    *dtype = node->type.dtype;
    if (gx_reads_sparse(g, node) || reads_structured(g, node)) {
        return GX_KERNEL_COUNT;
    }
    switch (node->op->id) {
    case GX_OP_MATMUL:
        return GX_GEMM;
    case GX_OP_FUSED:
        *dtype = node->fused->dtype;
        return GX_FUSED;
    case GX_OP_DISTANCE:
        *dtype = GX_F64;
        return node->whole[0] == GX_METRIC_COSINE || node->whole[2] ? GX_KERNEL_COUNT : GX_APART;
    case GX_OP_FFT:
    case GX_OP_IFFT:
    case GX_OP_RFFT:
    case GX_OP_IRFFT:
        return GX_FFT;
    case GX_OP_TRANSPOSE:
    case GX_OP_ADJOINT:
        return GX_TRANSPOSE;
    case GX_OP_CAST:
        return GX_CONVERT;
    case GX_OP_SLICE:
        return GX_COPY;
    case GX_OP_ONES:
    case GX_OP_ZEROS:
        return GX_FILL;
    case GX_OP_RANDOM:
    case GX_OP_RANDN:
        return GX_RANDOM;
    default:
        if (node->op->run == gx_lower_grid) {
            *dtype = GX_F64;
            return GX_GRID;
        }
        if (!reduction_of(node, &kind)) {
            return GX_KERNEL_COUNT;
        }
        *dtype = gx_input_node(g, node, 0)->type.dtype;
        return GX_REDUCE;
    }
}

/* One kernel that reads one input at most: copied, turned, converted; or filled, drawn. */
static void made(gx_exec *x, const gx_node *node)
{
    const gx_type now = gx_type_now(x, node), *type = &now;
    gx_err err = {.code = GX_OK};
    gx_random random;
    gx_number dtype;
    gx_kernel_id kernel = kernel_of(x->g, node, &dtype);
    gx_args args = {.m = type->rows, .n = type->cols, .ldc = gx_max(1, type->rows)};
    if (kernel == GX_FILL) {
        args.alpha = node->alpha;
    } else if (kernel == GX_RANDOM) {
        bool is_normal = node->op->id == GX_OP_RANDN;
        gx_random_init(&random, is_normal ? GX_RANDOM_NORMAL : GX_RANDOM_UNIFORM, type->dtype,
                       node->whole[0], 0, 1, &err);
        gx_run_fail(x->run, &err);
        args.random = &random;
    } else {
        const gx_val *of = x->val[gx_input(x->g, node, 0)]; // or a share of it
        const gx_type *from = &of->type;
        args.from = gx_dtype_of(from->dtype);
        args.lda = gx_max(1, from->rows);
        args.a = gx_node_input(x, node, 0, from->dtype);
        args.transa = kernel != GX_TRANSPOSE          ? GX_NO_TRANS
                      : node->op->id == GX_OP_ADJOINT ? GX_CONJ_TRANS
                                                      : GX_TRANS;
        if (kernel == GX_COPY && args.a != NULL) { // a slice without steps
            args.a = gx_at(args.a, from->dtype, args.lda, node->whole[0] - of->i0,
                           node->whole[3] - of->j0);
        }
    }
    args.c = gx_ok(x->run) ? gx_node_result(x, node) : NULL;
    if (args.c != NULL && type->rows > 0 && type->cols > 0) {
        gx_node_call(x, kernel, dtype, &args);
    }
}

static void reduced(gx_exec *x, const gx_node *node)
{
    const gx_type *from = &gx_input_node(x->g, node, 0)->type;
    gx_reduce_kind kind;
    reduction_of(node, &kind);
    const void *a = gx_node_input(x, node, 0, from->dtype);
    double *out = gx_temp(x, (size_t)gx_reduce_width(kind, from->rows, from->cols) * sizeof *out);
    int64_t count = node->type.rows * node->type.cols;
    gx_args args = {.m = from->rows,
                    .n = from->cols,
                    .a = a,
                    .lda = gx_max(1, from->rows),
                    .reduce_kind = kind,
                    .reduce = out};
    if (a != NULL && out != NULL && gx_node_call(x, GX_REDUCE, from->dtype, &args) &&
        gx_device_wait(x)) {
        bool is_pair =
            kind == GX_REDUCE_SUM || kind == GX_REDUCE_COL_SUM || kind == GX_REDUCE_ROW_SUM;
        double over = node->op->id != GX_OP_MEAN ? 1 : gx_elements_of(from) / (double)count;
        for (int64_t k = 0; k < (is_pair ? 2 * count : 0); k++) {
            out[k] /= over;
        }
        if (kind == GX_REDUCE_SUMSQ) {
            out[0] = out[1] == 0 ? 0 : out[0] * sqrt(out[1]);
        }
        void *c = gx_result(x, node, 0);
        if (c != NULL) {
            gx_convert(is_pair ? GX_C128 : GX_F64, out, gx_max(1, count), node->type.dtype, c,
                       gx_max(1, count), count, 1);
        }
    }
}

/* Differences are summed in double; the sums, or their roots, are rounded once. */
static void distances(gx_exec *x, const gx_node *node)
{
    const gx_type *type = &node->type, *a = &gx_input_node(x->g, node, 0)->type;
    int64_t ld = gx_max(1, type->rows);
    size_t bytes = 0;
    gx_nearest sums = {.metric = (gx_metric)node->whole[0]};
    gx_args args = {.m = type->rows,
                    .n = type->cols,
                    .k = a->cols,
                    .transb = GX_TRANS,
                    .nearest = &sums,
                    .lda = ld,
                    .ldb = gx_max(1, type->cols),
                    .ldc = ld};
    args.a = gx_node_input(x, node, 0, GX_F64);
    args.b = gx_node_input(x, node, 1, GX_F64);
    void *c = args.a == NULL || args.b == NULL ? NULL : gx_node_result(x, node);
    bool is_double = type->dtype == GX_F64;
    gx_matrix_bytes(type->rows, type->cols, GX_F64, &bytes);
    args.c = c == NULL || is_double ? c : gx_node_take(x, bytes);
    if (args.c == NULL || type->rows == 0 || type->cols == 0) {
        return;
    }
    gx_args pass = {.m = args.m, .n = args.n, .a = args.c, .lda = ld, .c = args.c, .ldc = ld};
    bool is_done =
        gx_node_call(x, GX_FILL, GX_F64, &pass) && gx_node_call(x, GX_APART, GX_F64, &args);
    if (is_done && node->whole[1] != 0) {
        pass.map = GX_MAP_SQRT;
        is_done = gx_node_call(x, GX_MAP, GX_F64, &pass);
    }
    if (is_done && !is_double) {
        pass.from = GX_DTYPE_F64;
        pass.c = c;
        gx_node_call(x, GX_CONVERT, type->dtype, &pass);
    }
}

/* Lines that a transform takes, from a matrix that has longer or shorter ones, or other numbers. */
typedef struct lines {
    void *data;
    gx_number number;
    bool is_rows;
    int64_t length, count;
} lines;

/* Columns or rows from `first` on, `length` numbers of each, of such lines, as args->c. */
static void aim(const lines *l, int64_t first, int64_t length, gx_args *args)
{
    int64_t ld = gx_max(1, l->is_rows ? l->count : l->length);
    args->m = l->is_rows ? l->count : length;
    args->n = l->is_rows ? length : l->count;
    args->c = gx_at(l->data, l->number, ld, l->is_rows ? 0 : first, l->is_rows ? first : 0);
    args->ldc = ld;
}

/* Lines of a, zeros behind them. */
static bool bring(gx_exec *x, const gx_type *from, const void *a, const lines *to)
{
    int64_t there = gx_min(to->length, to->is_rows ? from->cols : from->rows);
    gx_args args = {.a = a, .from = gx_dtype_of(from->dtype), .lda = gx_max(1, from->rows)};
    aim(to, there, to->length - there, &args);
    bool is_good = there == to->length || gx_node_call(x, GX_FILL, to->number, &args);
    aim(to, 0, there, &args);
    return is_good && (there == 0 || gx_node_call(x, GX_CONVERT, to->number, &args));
}

/* The first numbers of half lines are real, and the last ones of those of an even n. */
static bool make_real(gx_exec *x, int64_t n, const lines *half)
{
    gx_args args = {.map = GX_MAP_REAL};
    bool is_good = true;
    for (int64_t k = 0; k <= n / 2 && is_good; k += gx_max(1, n / 2)) {
        aim(half, k, 1, &args);
        args.a = args.c;
        args.lda = args.ldc;
        is_good = 2 * k % n != 0 || gx_node_call(x, GX_MAP, half->number, &args);
    }
    return is_good;
}

/*
** Where A is what the kernel takes it is read where it lies, or overwritten; else its lines are
** brought into the result's place, or, where that is of other numbers, into memory beside it.
*/
static void transformed(gx_exec *x, const gx_node *node)
{
    const gx_type now = gx_type_now(x, node), given = x->val[gx_input(x->g, node, 0)]->type;
    const gx_type *type = &now, *from = &given;
    const gx_fft_args f = gx_fft_args_of(node);
    bool gives_real = f.kind == GX_FFT_REAL_INVERSE, is_rows = f.axis == 1;
    lines in = {.is_rows = is_rows, .length = gives_real ? f.n / 2 + 1 : f.n};
    in.count = is_rows ? from->rows : from->cols;
    in.number = f.kind == GX_FFT_REAL ? gx_number_real(type->dtype)
                                      : gx_number_promote(type->dtype, GX_C64);
    bool is_taken =
        from->dtype == in.number && !gives_real && (is_rows ? from->cols : from->rows) >= in.length;
    gx_args args = {.side = is_rows ? GX_RIGHT : GX_LEFT,
                    .m = type->rows,
                    .n = type->cols,
                    .k = f.n,
                    .from = gx_dtype_of(in.number),
                    .is_backward = gives_real || f.kind == GX_FFT_INVERSE,
                    .lda = gx_max(1, is_taken || is_rows ? from->rows : in.length),
                    .ldc = gx_max(1, type->rows)};
    const void *a = gx_node_input(x, node, 0, from->dtype);
    args.c = a == NULL ? NULL : is_taken ? overwritten(x, node) : gx_node_result(x, node);
    if (args.c == NULL || type->rows == 0 || type->cols == 0) {
        return;
    }
    args.a = a;
    if (!is_taken) {
        size_t bytes = 0;
        gx_matrix_bytes(in.length, in.count, in.number, &bytes);
        in.data = in.number == type->dtype ? args.c : gx_node_take(x, bytes);
        args.a = in.data;
        if (in.data == NULL || !bring(x, from, a, &in) || (gives_real && !make_real(x, f.n, &in))) {
            return;
        }
    }
    double scale = gx_fft_scale(&f);
    if (gx_node_call(x, GX_FFT, type->dtype, &args) && scale != 1) {
        gx_args pass = {.m = args.m, .n = args.n, .a = args.c, .lda = args.ldc};
        pass.map = GX_MAP_SCALE;
        pass.alpha.re = scale;
        pass.c = args.c;
        pass.ldc = args.ldc;
        gx_node_call(x, GX_MAP, type->dtype, &pass);
    }
}

// One node ----------------------------------------------------------------------------------------

static bool is_offered(const gx_exec *x, const gx_node *node)
{
    gx_number dtype;
    gx_kernel_id kernel = kernel_of(x->g, node, &dtype);
    bool is_good = kernel != GX_KERNEL_COUNT && gx_node_offers(x, kernel, dtype);
    switch (is_good ? kernel : GX_KERNEL_COUNT) {
    case GX_GEMM:
    case GX_FUSED:
    case GX_APART:
        return converts(x, node, dtype) && gx_node_offers(x, GX_CONVERT, node->type.dtype);
    case GX_COPY:
        return node->whole[2] == 1 && node->whole[5] == 1;
    case GX_REDUCE:
        return gx_elements_of(&gx_input_node(x->g, node, 0)->type) > 0;
    case GX_GRID:
        return gx_on_device_has_grids(x->g, node) && gx_node_offers(x, GX_FILL, node->type.dtype) &&
               gx_node_offers(x, GX_CONVERT, GX_F64);
    default:
        return is_good;
    }
}

bool gx_on_device_may(const gx_exec *x, const gx_node *node)
{
    bool is_large = gx_elements_of(&node->type) >= GX_ON_DEVICE_LEAST;
    for (int k = 0; k < node->count; k++) {
        is_large |= gx_elements_of(&gx_input_node(x->g, node, k)->type) >= GX_ON_DEVICE_LEAST;
    }
    return x->on->call.accel != NULL && is_large && is_offered(x, node);
}

bool gx_on_device_repeats(const gx_exec *x, const gx_node *node)
{
    gx_reduce_kind kind;
    bool is_fold = node->op->id == GX_OP_FUSED && node->fused->output[0].fold != GX_FOLD_NONE;
    gx_number dtype; // a plan of a transform may have gone before a record of it
    return gx_on_device_may(x, node) && !is_fold && !reduction_of(node, &kind) &&
           kernel_of(x->g, node, &dtype) != GX_FFT &&
           (node->op->run != gx_lower_grid || gx_on_device_knows_grids(x->g, node));
}

/* Is there enough to do, or is what it needs there already? */
static bool is_worth_it(const gx_exec *x, const gx_node *node)
{
    bool is_there = x->shares.is_one || gx_elements_of(&node->type) >= GX_ON_DEVICE_LEAST;
    for (int k = 0; k < node->count; k++) {
        const gx_val *val = x->val[gx_input(x->g, node, k)];
        is_there |= gx_elements_of(&val->type) >= GX_ON_DEVICE_LEAST ||
                    (val->device != NULL && val->data == NULL);
    }
    return is_there;
}

/* A kernel that other devices of the kind have is missing: a remark. */
static void tell_lack(const gx_exec *x, const gx_node *node)
{
    gx_number dtype;
    const gx_accel *accel = x->on->call.accel;
    gx_kernel_id kernel = kernel_of(x->g, node, &dtype);
    if (kernel == GX_FFT && !gx_node_offers(x, kernel, dtype)) {
        const gx_about about = {.kind = GX_EVENT_FALLBACK_KERNEL, .device = accel->info.name};
        gx_stats_tell(&x->run->ctx->stats, &about, "computed on the CPU: %s has no kernel %s of %s",
                      accel->backend->name, gx_kernel_name(kernel), gx_number_name(dtype));
    }
}

bool gx_on_device_run(gx_exec *x, const gx_node *node)
{
    if (x->on->call.accel == NULL || !is_worth_it(x, node)) {
        return false;
    }
    if (!is_offered(x, node)) {
        tell_lack(x, node);
        return false;
    }
    bool is_grid = node->op->run == gx_lower_grid;
    if (is_grid && !gx_on_device_fits_grids(x, node)) {
        return false;
    }
    x->gpu_ops++;
    if (!inputs(x, node)) {
        return true;
    }
    switch (node->op->id) {
    case GX_OP_MATMUL:
        product(x, node);
        break;
    case GX_OP_FUSED:
        fused(x, node);
        break;
    case GX_OP_DISTANCE:
        distances(x, node);
        break;
    case GX_OP_FFT:
    case GX_OP_IFFT:
    case GX_OP_RFFT:
    case GX_OP_IRFFT:
        transformed(x, node);
        break;
    case GX_OP_SUM:
    case GX_OP_MEAN:
    case GX_OP_MIN:
    case GX_OP_MAX:
    case GX_OP_NORM:
        reduced(x, node);
        break;
    default:
        (is_grid ? gx_on_device_grid : made)(x, node);
    }
    gx_node_give(x);
    return true;
}
