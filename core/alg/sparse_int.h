/*
** Inside a sparse matrix on a device: sparse_device.c says where it lies, sparse_bring.c brings its
** panels there.
*/
#ifndef GX_SPARSE_INT_H
#define GX_SPARSE_INT_H

#include "sparse_device.h"

/* Where indexes, values and panels' own starts lie in a block, and what that comes to. */
typedef struct gx_sparse_layout {
    size_t index, value, own, bytes;
} gx_sparse_layout;

gx_sparse_layout gx_sparse_lay_out(const gx_mat *S, gx_number dtype, int64_t rows, int64_t entries);

/* The panel of a block that is laid out so. */
gx_csr gx_sparse_panel_at(const gx_sparse_device *d, void *block, int64_t rows, int64_t entries);

/* The product of S, or of its rows from row0 on, which are on the device. */
gx_code gx_sparse_call(gx_sparse_device *d, const gx_csr *csr, const gx_sparse_product *p,
                       int64_t row0, gx_err *err);

/*
** All panels, once.  product: through the ring; else to the whole's place, with `follow` or NULL.
** Has waited for all queues.
*/
gx_code gx_sparse_load(gx_sparse_device *d, const gx_sparse_product *product,
                       const gx_sparse_follow *follow, gx_err *err);

#endif
