/*
** Operations on grids, by core/grid: see lower.h, and shape_grid.c for what whole[] is.
*/
#include "../grid/grid.h"
#include "lower.h"
#include "values.h"

#include <string.h>

void gx_lower_grid(gx_exec *x, const gx_node *node)
{
    enum { KEPT_BYTES = 4 << 20 }; // about what a thread works in
    gx_run *run = x->run;
    gx_mat space[3];
    const gx_mat *in[3] = {NULL, NULL, NULL};
    gx_grid_call call = {.id = (gx_grid_id)(node->op->id - GX_OP_GRID_LABEL)};
    int64_t height = node->whole[GX_WHOLES - 1], tile_rows, tile_cols;
    int own = 0; // operands that are no table of grids
    for (const char *kind = gx_grid_kinds(call.id); *kind != '\0'; kind++) {
        own += *kind != 'i';
    }
    for (int k = 0; k < node->count; k++) {
        in[k] = gx_input_mat(x, node, k, &space[k]);
    }
    if (!gx_ok(run)) {
        return;
    }
    memcpy(call.number, node->whole, sizeof call.number);
    call.rule = (gx_label_rule){(int)node->whole[0], (gx_grid_by)node->whole[1]};
    call.in[0] = in[0];
    call.in[1] = own > 1 ? in[1] : NULL;
    bool has_table = node->count > own;
    bool is_number = gx_grid_result_of(call.id) == GX_GRID_NUMBER;
    if (has_table) {
        gx_grid_batch_table(run, in[0], in[own], &call.batch);
    } else if (height > 0) {
        gx_grid_batch_even(run, in[0], height, &call.batch);
    } else {
        gx_grid_batch_one(run, in[0], &call.batch);
    }
    gx_label_tiles(run, in[0], &tile_rows, &tile_cols);
    gx_sink *C = !gx_ok(run) ? NULL
                             : gx_result_sink(x, node, 0, KEPT_BYTES, is_number ? 0 : tile_rows,
                                              is_number ? 0 : tile_cols);
    if (C != NULL && call.id == GX_GRID_LABEL && !has_table && height == 0) {
        gx_grid_label(run, in[0], &call.rule, C);
    } else if (C != NULL) {
        gx_grid_run(run, &call, C);
    }
    gx_mem_free(run->ctx->mem, call.batch.place);
}
