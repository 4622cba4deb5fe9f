/*
** Products with a sparse matrix on a device: what spmm.c and who iterates hand over.
*/
#ifndef GX_SPMM_DEVICE_H
#define GX_SPMM_DEVICE_H

#include "../exec/predict.h"
#include "../mat/mat.h"

/* alpha op(S) D, or alpha D op(S), in rounds of lines as spmm.c has planned them. */
typedef struct gx_spmm_rounds {
    const gx_mat *S, *D;   /* D with its transposition */
    bool is_left;          /* S is */
    gx_trans op;           /* of the kernel */
    gx_scalar alpha;
    gx_number dtype;
    int64_t lines, round;  /* lines of the result; of a round, at most */
    int64_t inner, length; /* columns of L; of R                       */
    void *result;          /* in memory, of leading dimension ldr; or, packed, a round of it */
    int64_t ldr;
    void (*write)(void *arg, int64_t line, int64_t count); /* that goes on from there; or NULL */
    void *arg;
    bool is_step;          /* one of many products of a call that foretells itself */
    bool is_held;          /* the host has S in memory                             */
} gx_spmm_rounds;

/*
** All of it on the device, where that is predicted to be faster, or wanted.  false: the host's
** turn; the sink is as it was but for blocks that will be written again.
*/
bool gx_spmm_by_device(gx_run *run, const gx_spmm_rounds *rounds);

/* What all of it takes where the run is planning for; seconds 0: that device does not do it. */
void gx_spmm_foresee_rounds(gx_run *run, const gx_spmm_rounds *rounds, gx_cost *cost,
                            gx_terms *terms);

/*
** One of many products of an iterative method: gx_sparse_apply() (spmm.h) of a stored S, which
** stays on the device from call to call.  is_held: the host has a copy of S in memory.
*/
bool gx_sparse_apply_by_device(gx_run *run, const gx_mat *S, gx_trans op, gx_number dtype,
                               int64_t count, const void *X, int64_t ldx, void *Y, int64_t ldy,
                               bool is_held);

#endif
