/*
** Finding and making one part of a stored factorisation: see parts.h.
*/
#include "parts.h"

#include <string.h>

const gx_part_def *gx_part_find(const gx_part_def *table, const char *name)
{
    for (const gx_part_def *p = table; p != NULL && p->name != NULL; p++) {
        if (strcmp(p->name, name) == 0) {
            return p;
        }
    }
    return NULL;
}

gx_code gx_part_make(gx_run *run, const gx_part_def *part, const gx_mat *F, const gx_aux *aux,
                     const gx_dest *dest, gx_sink *C)
{
    gx_part_shape shape = {0};
    part->shape(run, F, aux, &shape);
    gx_sink_begin(run, dest, shape.rows, shape.cols, shape.dtype, shape.properties, shape.tile_rows,
                  shape.tile_cols, C);
    return part->compute(run, F, aux, C);
}
