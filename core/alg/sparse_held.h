/*
** A sparse matrix that is read again and again: in memory where it fits, else where it is.
*/
#ifndef GX_SPARSE_HELD_H
#define GX_SPARSE_HELD_H

#include "../mat/sparse.h"

typedef struct gx_sparse_held {
    const gx_mat *A; /* what to read: the copy, or the matrix itself */
    gx_mat copy;
    void *memory;
} gx_sparse_held;

/*
** held->A is A, or a copy of a stored A where memory has room for it beside so many bytes, looked
** through once.  held stays where it is; to be ended whatever this returns.
*/
gx_code gx_sparse_held_begin(gx_run *run, const gx_mat *A, size_t beside, gx_sparse_held *held);
void gx_sparse_held_end(gx_run *run, gx_sparse_held *held);

#endif
