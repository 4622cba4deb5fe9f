/*
** The engine of products with a sparse matrix (spmm.c), for what streams operands and results
** through it (spmm_stream.c).
*/
#ifndef GX_SPMM_INT_H
#define GX_SPMM_INT_H

#include "spmm.h"

#include <pthread.h>

enum { GX_SPMM_LANES_MOST = 64 };

/* One round: lines of the result. */
typedef struct gx_spmm_engine {
    gx_run *run;
    const gx_mat *S;
    gx_trans op; /* of the kernel: NO_TRANS scatters */
    gx_number dtype;
    size_t element;
    const gx_backend *backend;
    gx_dev *dev;
    gx_scalar alpha;
    int64_t m;      /* lines                                                          */
    int64_t n;      /* columns of R                                                   */
    const char *L;  /* m x k                                                          */
    int64_t ldl;
    bool is_turned; /* the result is R^T: S is on the left                            */
    bool is_columnwise; /* L is L^T: k x m                                            */
    char *result;   /* R or R^T                                                       */
    int64_t ldr;
    size_t block_bytes, value_bytes; /* of a piece as it is read; its values in dtype */
    bool is_conjugated; /* the values are, before they are used                      */
    bool is_ordered; /* scattered pieces are added in their order                     */
    pthread_mutex_t lock; /* guards what follows                                      */
    char *lane[GX_SPMM_LANES_MOST];
    bool is_taken[GX_SPMM_LANES_MOST];
    int64_t lanes;
} gx_spmm_engine;

/* The engine for S, which stands on the left or on the right as op(S). */
void gx_spmm_set_up(gx_spmm_engine *x, gx_run *run, const gx_mat *S, gx_trans op, bool is_left,
                    gx_number dtype);

/* S by another copy of it, read from now on. */
void gx_spmm_read_from(gx_spmm_engine *x, const gx_mat *S);

/* What the other operand's index counts: columns of L. */
int64_t gx_spmm_inner(const gx_spmm_engine *x);

/* Lines of one round at most, of so many; one at least. */
int64_t gx_spmm_lines_most(const gx_spmm_engine *x, int64_t lines);

/* Columnwise or not, for so many lines: a look at the piece in the middle of S. */
gx_code gx_spmm_choose_order(gx_spmm_engine *x, int64_t lines, gx_err *err);

/* What a round takes beside L and the result: lanes of one thread, and a thread. */
size_t gx_spmm_thread_bytes(gx_spmm_engine *x);

/* One round: the result of x->m lines, which is overwritten. */
gx_code gx_spmm_run(gx_spmm_engine *x);

#endif
