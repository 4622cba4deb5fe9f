/*
** The parts of stored factorisations: each kind has a table of its own (fn_lu.c, fn_qr.c), and
** gx_part(F, part) goes by all of them (fn_part.c).
*/
#ifndef GX_PARTS_H
#define GX_PARTS_H

#include "gx_ext.h"

/* What a part is, before it is computed. */
typedef struct gx_part_shape {
    int64_t rows, cols;
    gx_number dtype;
    uint32_t properties;
    int64_t tile_rows, tile_cols; /* for its sink; 0: the default */
} gx_part_shape;

typedef struct gx_part_def {
    const char *name; /* 'L': case counts */
    gx_aux_kind kind; /* of the factorisation */
    void (*shape)(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_part_shape *out);
    gx_code (*compute)(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_sink *C);
} gx_part_def;

/* The part of that name in a table (which may be NULL), or NULL. */
const gx_part_def *gx_part_find(const gx_part_def *table, const char *name);

/* Begin its sink, compute it; the caller ends the sink. */
gx_code gx_part_make(gx_run *run, const gx_part_def *part, const gx_mat *F, const gx_aux *aux,
                     const gx_dest *dest, gx_sink *C);

/* Ended by a NULL name. */
extern const gx_part_def gx_parts_lu[]; /* fn_lu.c: L, U, P, p */
extern const gx_part_def gx_parts_qr[]; /* fn_qr.c: Q, R       */

#endif
