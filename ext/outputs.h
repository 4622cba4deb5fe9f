/*
** Functions with several results: gx_eig(A, 'values', 'vectors'), gx_svd(A, 's', 'u', 'vt').
**
** begin takes the write lock of every destination and opens one savepoint around them all, so that
** what would refuse a result refuses it before the work, and either all are stored or none.  Then
** come the work, one store for each destination that is named, and finish.
*/
#ifndef GX_OUTPUTS_H
#define GX_OUTPUTS_H

#include "gx_ext.h"

enum { GX_OUTPUTS_MAX = 4 };

typedef struct gx_outputs {
    gx_fn *fn;
    int begun; /* gx_store_begin() to be ended */
} gx_outputs;

/* dests with name NULL are passed over.  finish must be called whatever begin returns. */
bool gx_outputs_begin(gx_outputs *out, gx_fn *fn, const gx_dest *const *dests, int count);

/* Store a matrix; nothing where dest has no name, or the run has failed. */
void gx_outputs_store(gx_outputs *out, const gx_dest *dest, uint32_t properties, gx_number dtype,
                      int64_t rows, int64_t cols, const void *data, int64_t ld);

/*
** The first result, then commit, or roll back where the run has failed; then the call's own result:
** the name of the first destination, or that matrix itself as a value.
*/
void gx_outputs_finish(gx_outputs *out, const gx_dest *first, uint32_t properties, gx_number dtype,
                       int64_t rows, int64_t cols, const void *data, int64_t ld);

/* Commit, or roll back where the run has failed, without a result; finish does it too. */
void gx_outputs_close(gx_outputs *out);

#endif
