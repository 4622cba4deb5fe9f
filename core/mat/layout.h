/*
** Private to core/mat: layouts of composites (composite.h) as layout.c, composite.c and
** composite_store.c share them.
*/
#ifndef GX_LAYOUT_H
#define GX_LAYOUT_H

#include "composite.h"

/*
** The sizes of all terms from those of matrices, and of parts of blocks from one another; span.
** GX_ARG in words.
*/
gx_code gx_layout_measure(gx_mem *mem, gx_layout *layout, gx_err *err);

gx_code gx_layout_write(gx_store *store, gx_mem *mem, const gx_meta *meta, const gx_layout *layout,
                        gx_err *err);

/* The catalog's row of a MATRIX in a composite of this schema; GX_ARG: there is none. */
gx_code gx_layout_find(gx_store *store, const gx_meta *of, const gx_term *term, gx_meta *meta,
                       gx_err *err);

/* gx_mat_open() of a layout that has been measured; of meta the schema, name and sizes are used. */
gx_code gx_layout_open(gx_store *store, gx_mem *mem, const gx_meta *meta, const gx_layout *layout,
                       gx_mat *out, gx_err *err);

/* What a term is called in messages: the matrix's name, or its kind. */
const char *gx_term_name(const gx_term *term);

#endif
