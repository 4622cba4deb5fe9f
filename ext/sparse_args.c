/*
** Which arguments of which functions may be sparse.
**
** A function that is not here, and every other argument of one that is, gets dense matrices only:
** args.c refuses a sparse one in one line, with the bytes that it would take.  A row is added when
** the body does something about gx_mat.is_sparse: it works on the panels, or reads so few elements
** that gx_mat_read() will do.
*/
#include "gx_ext.h"

#include "../core/alg/sparse_alg.h"

#include <string.h>

static const struct {
    const char *function;
    uint32_t arguments; /* bit k: argument k */
} taking[] = {
    {"gx_add", 1 << 0 | 1 << 1},
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
