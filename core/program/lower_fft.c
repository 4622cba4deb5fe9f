/*
** Fourier transforms, by core/fft: see lower.h.
*/
#include "lower.h"
#include "values.h"

gx_fft_args gx_fft_args_of(const gx_node *node)
{
    const int64_t *whole = node->whole;
    return (gx_fft_args){(gx_fft_kind)whole[0], whole[1],      whole[2], (gx_fft_norm)whole[3],
                         (int)whole[4],         whole[5] != 0, 0};
}

enum { KEPT_BYTES = 16 << 20 }; /* about what a few lines are worked on in */

/* A transform that is left to the reduction that uses it: see gx_mat.make. */
typedef struct left {
    gx_mat mat, A;
    gx_fft_args args;
} left;

static gx_code make(gx_run *run, const void *arg, gx_sink *C)
{
    const left *l = arg;
    gx_fft_tiles(run, &l->args, &l->A, NULL, &C->tile_rows, &C->tile_cols);
    return gx_alg_fft(run, &l->args, &l->A, C);
}

/*
** Is it left to that?  Not where it fits in memory; under `deterministic` a reduction goes by tiles
** that are the same for every memory limit.
*/
static bool is_left(const gx_exec *x, const gx_node *node)
{
    const gx_type *t = &node->type;
    return x->on->call.accel == NULL && !gx_is_deterministic(x) &&
           !gx_scratch_fits(x->run, t->rows, t->cols, t->dtype, KEPT_BYTES);
}

static void leave(gx_exec *x, const gx_node *node, const gx_fft_args *args, const gx_mat *A)
{
    const gx_type *t = &node->type;
    gx_val *val = gx_val_of(x, t);
    left *l = val == NULL ? NULL : gx_run_alloc(x->run, sizeof *l, "a program's value");
    if (l == NULL) {
        gx_val_release(x, val);
        return;
    }
    l->A = *A;
    l->args = *args;
    gx_mat_generated(&l->mat, "an intermediate", t->dtype, t->rows, t->cols, NULL, NULL);
    l->mat.make = make;
    l->mat.make_arg = l;
    val->mat = val->source = &l->mat;
    val->held = (gx_val **)(void *)val->small;
    val->held[val->holds++] = x->val[gx_input(x->g, node, 0)];
    val->held[0]->refs++;
    gx_val_put(x, gx_result_ref(x, node, 0), val);
}

void gx_lower_fft(gx_exec *x, const gx_node *node)
{
    gx_mat space;
    int64_t tile_rows, tile_cols;
    gx_fft_args args = gx_fft_args_of(node);
    const gx_mat *A = gx_input_mat(x, node, 0, &space);
    if (A == NULL || !gx_ok(x->run)) {
        return;
    }
    const gx_type *from = &gx_input_node(x->g, node, 0)->type;
    args.whole = A->rows < from->rows ? from->rows : 0; // see below
    if (args.whole > 0 || (node->is_joined && is_left(x, node))) {
        leave(x, node, &args, A);
        return;
    }
    gx_type half = node->type;
    bool is_half = node->is_half && is_left(x, node); // columns whose other halves are conjugates
    args.kind = is_half ? GX_FFT_REAL : args.kind;
    half.rows = args.n / 2 + 1;
    gx_fft_tiles(x->run, &args, A, gx_result_store(x, node, 0), &tile_rows, &tile_cols);
    gx_sink *C = is_half ? gx_result_scratch(x, node, 0, &half, KEPT_BYTES, tile_rows, tile_cols)
                         : gx_result_sink(x, node, 0, KEPT_BYTES, tile_rows, tile_cols);
    if (C != NULL) {
        gx_alg_fft(x->run, &args, A, C);
    }
}

void gx_lower_fftfreq(gx_exec *x, const gx_node *node)
{
    double *to = gx_result(x, node, 0);
    bool is_half = node->op->id == GX_OP_RFFTFREQ;
    int64_t rows = node->type.rows, positive = (int64_t)node->alpha.im;
    for (int64_t k = 0; k < rows && to != NULL; k++) {
        to[k] = (double)(k < positive || is_half ? k : k - rows) * node->alpha.re;
    }
}
