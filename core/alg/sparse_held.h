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
    bool is_kept; /* for a later call, under the key */
    gx_mem_key key;
} gx_sparse_held;

/*
** held->A is A, or a copy of a stored A where memory has room for it beside so many bytes, looked
** through once.  The copy stays, while nothing changes, for later calls of the connection
** (gx_mem_keep()).  is_read_once: this call needs no copy, and makes one only where it will stay.
** held stays where it is; to be ended whatever this returns.
*/
gx_code gx_sparse_held_begin(gx_run *run, const gx_mat *A, size_t beside, bool is_read_once,
                             gx_sparse_held *held);
void gx_sparse_held_end(gx_run *run, gx_sparse_held *held);

/*
** The key of A, or of `count` columns from `first` on in some form of the caller's, for
** gx_mem_keep().  false: it cannot be kept.
*/
bool gx_sparse_held_key(gx_run *run, const gx_mat *A, int64_t first, int64_t count, int64_t form,
                        gx_mem_key *key);

#endif
