/*
** Which arguments of which functions may be sparse.
**
** A function that is not here, and every other argument of one that is, gets dense matrices only:
** args.c refuses a sparse one in one line, with the bytes that it would take.  A row is added when
** the body does something about gx_mat.is_sparse: it works on the panels, or reads so few elements
** that gx_mat_read() will do.  At the end, what extremes of a sparse matrix are given back.
*/
#include "gx_ext.h"

#include "../core/alg/dense.h"
#include "../core/alg/sparse_alg.h"

#include <string.h>

static const struct {
    const char *function;
    uint32_t arguments; /* bit k: argument k */
} taking[] = {
    {"gx_add", 1 << 0 | 1 << 1},
    {"gx_argmax", 1 << 0},
    {"gx_argmin", 1 << 0},
    {"gx_cast", 1 << 0},
    {"gx_col", 1 << 0},
    {"gx_cols_count", 1 << 0},
    {"gx_components", 1 << 0},
    {"gx_copy", 1 << 0},
    {"gx_dense", 1 << 0},
    {"gx_dtype", 1 << 0},
    {"gx_eig", 1 << 0},
    {"gx_eigvals", 1 << 0},
    {"gx_export", 1 << 0},
    {"gx_get", 1 << 0},
    {"gx_info", 1 << 0},
    {"gx_lstsq", 1 << 0},
    {"gx_matmul", 1 << 0 | 1 << 1},
    {"gx_max", 1 << 0},
    {"gx_mean", 1 << 0},
    {"gx_min", 1 << 0},
    {"gx_mul", 1 << 0 | 1 << 1},
    {"gx_neg", 1 << 0},
    {"gx_nnz", 1 << 0},
    {"gx_norm", 1 << 0},
    {"gx_pagerank", 1 << 0},
    {"gx_row", 1 << 0},
    {"gx_rows_count", 1 << 0},
    {"gx_shape", 1 << 0},
    {"gx_show", 1 << 0},
    {"gx_slice", 1 << 0},
    {"gx_solve", 1 << 0},
    {"gx_sparse", 1 << 0},
    {"gx_spread", 1 << 0},
    {"gx_store", 1 << 1},
    {"gx_sub", 1 << 0 | 1 << 1},
    {"gx_sum", 1 << 0},
    {"gx_svd", 1 << 0},
    {"gx_take", 1 << 0},
    {"gx_trace", 1 << 0},
    {"gx_transpose", 1 << 0},
    {"gx_triangles", 1 << 0},
};

/* gx_NAME of an elementwise function of one operand that makes 0 of 0. */
static bool is_map(const char *function)
{
    for (int kind = 0; kind < GX_MAP_KIND_COUNT; kind++) {
        if (strcmp(function, gx_map_row((gx_map_kind)kind)->name) == 0) {
            return gx_sparse_keeps_zero((gx_map_kind)kind);
        }
    }
    return false;
}

bool gx_takes_sparse(const char *function, int index)
{
    for (size_t k = 0; k < sizeof taking / sizeof *taking; k++) {
        if (strcmp(taking[k].function, function) == 0) {
            return index < 32 && (taking[k].arguments >> index & 1) != 0;
        }
    }
    return index == 0 && is_map(function + strlen("gx_"));
}

void gx_fn_sparse_extremes(gx_fn *fn, const gx_mat *A, bool is_max, int64_t axis,
                           const gx_dest *dest, bool has_places)
{
    int64_t rows = axis == 1 ? A->rows : 1, cols = axis == 0 ? A->cols : 1, count = rows * cols;
    gx_number dtype = has_places ? GX_F64 : A->number;
    void *numbers = NULL;
    gx_err err = {0};
    gx_mem_alloc(fn->ctx->mem, (size_t)gx_max(1, count) * 2 * sizeof(double), "extremes", &numbers,
                 &err);
    if (gx_run_fail(&fn->run, &err) != GX_OK) {
        return;
    }
    double *out = numbers, *given = out + gx_max(1, count); // as doubles, then in the dtype
    gx_sparse_extremes(&fn->run, A, is_max, axis, has_places ? NULL : out, has_places ? out : NULL);
    if (axis < 0 && (dest == NULL || dest->name == NULL)) {
        gx_fn_result_scalar(fn, (gx_scalar){out[0], 0}, false);
    } else {
        gx_sink C;
        gx_sink_begin(&fn->run, dest, rows, cols, dtype, 0, 0, 0, &C);
        if (gx_ok(&fn->run)) {
            gx_convert(GX_F64, out, gx_max(1, rows), dtype, given, gx_max(1, rows), rows, cols);
            gx_dense_write(&fn->run, &C, given, gx_max(1, rows));
        }
        gx_fn_result_sink(fn, &C);
    }
    gx_mem_free(fn->ctx->mem, numbers);
}
