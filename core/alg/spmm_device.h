/*
** Products with a sparse matrix on a device: what spmm.c and who iterates hand over.
*/
#ifndef GX_SPMM_DEVICE_H
#define GX_SPMM_DEVICE_H

#include "../mat/mat.h"

/* alpha op(S) D, or alpha D op(S), in rounds of lines as spmm.c has planned them. */
typedef struct gx_spmm_rounds {
    const gx_mat *S, *D;   /* D with its transposition */
    bool is_left;          /* S is */
    gx_trans op;           /* of the kernel */
    gx_scalar alpha;
    gx_dtype dtype;
    int64_t lines, round;  /* lines of the result; of a round, at most */
    int64_t inner, length; /* columns of L; of R                       */
    gx_sink *sink;
    void *block;           /* of a round, for a stored sink */
    void (*write)(void *arg, int64_t line, int64_t count); /* the block to the sink */
    void *arg;
} gx_spmm_rounds;

/*
** All of it on the device, where that is predicted to be faster, or wanted.  false: the host's
** turn; the sink is as it was but for blocks that will be written again.
*/
bool gx_spmm_by_device(gx_run *run, const gx_spmm_rounds *rounds);

#endif
