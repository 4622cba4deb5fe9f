/*
** Fourier transforms, by core/fft: see lower.h.
*/
#include "lower.h"
#include "values.h"

gx_fft_args gx_fft_args_of(const gx_node *node)
{
    const int64_t *whole = node->whole;
    return (gx_fft_args){(gx_fft_kind)whole[0], whole[1],      whole[2],
                         (gx_fft_norm)whole[3], (int)whole[4], whole[5] != 0};
}

void gx_lower_fft(gx_exec *x, const gx_node *node)
{
    enum { KEPT_BYTES = 16 << 20 }; // about what a few lines are worked on in
    gx_mat space;
    int64_t tile_rows, tile_cols;
    const gx_fft_args args = gx_fft_args_of(node);
    const gx_mat *A = gx_input_mat(x, node, 0, &space);
    if (A == NULL || !gx_ok(x->run)) {
        return;
    }
    gx_fft_tiles(x->run, &args, A, &tile_rows, &tile_cols);
    gx_sink *C = gx_result_sink(x, node, 0, KEPT_BYTES, tile_rows, tile_cols);
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
