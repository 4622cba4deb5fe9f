/*
** Which arguments of which functions may be sparse.
**
** A function that is not here, and every other argument of one that is, gets dense matrices only:
** args.c refuses a sparse one in one line, with the bytes that it would take.  A row is added when
** the body does something about gx_mat.is_sparse: it works on the panels, or reads so few elements
** that gx_mat_read() will do.
*/
#include "gx_ext.h"

#include <string.h>

static const struct {
    const char *function;
    uint32_t arguments; /* bit k: argument k */
} taking[] = {
    {"gx_cast", 1 << 0},
    {"gx_cols_count", 1 << 0},
    {"gx_copy", 1 << 0},
    {"gx_dense", 1 << 0},
    {"gx_dtype", 1 << 0},
    {"gx_export", 1 << 0},
    {"gx_get", 1 << 0},
    {"gx_info", 1 << 0},
    {"gx_matmul", 1 << 0 | 1 << 1},
    {"gx_nnz", 1 << 0},
    {"gx_rows_count", 1 << 0},
    {"gx_shape", 1 << 0},
    {"gx_show", 1 << 0},
    {"gx_sparse", 1 << 0},
    {"gx_store", 1 << 1},
};

bool gx_takes_sparse(const char *function, int index)
{
    for (size_t k = 0; k < sizeof taking / sizeof *taking; k++) {
        if (strcmp(taking[k].function, function) == 0) {
            return index < 32 && (taking[k].arguments >> index & 1) != 0;
        }
    }
    return false;
}
