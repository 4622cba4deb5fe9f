/*
** Sparse matrices by formula, row after row, never dense.
*/
#ifndef GX_SPARSE_MAKE_H
#define GX_SPARSE_MAKE_H

#include "../base/random.h"
#include "gallery.h"
#include "sparse.h"

/*
** A random matrix: each row has density * cols entries, or one more with the probability that makes
** this exact in the mean; their columns lie one in each of as many equal stretches, so that they
** spread over the row; an entry has the value that the dense matrix of that seed has there.
*/
gx_code gx_sparse_random(gx_run *run, const gx_random *random, int64_t rows, int64_t cols,
                         double density, const gx_dest *dest, gx_sink *sink);

/* A family of the gallery that has few entries a row: poisson, tridiag, ...; GX_ARG for others. */
gx_code gx_sparse_gallery(gx_run *run, const gx_gallery *g, const char *kind, gx_number dtype,
                          const gx_dest *dest, gx_sink *sink);

#endif
