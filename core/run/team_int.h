/*
** Inside gx_team_call(): what team_cut.c, which cuts one kernel call into pieces, and team_solve.c
** and team_qr.c, which break the call of a factorisation down into smaller calls, know of each
** other.
*/
#ifndef GX_TEAM_INT_H
#define GX_TEAM_INT_H

#include "team.h"

/* What all calls that one call is broken down into have in common. */
typedef struct gx_job {
    gx_team *team; /* may be NULL */
    const gx_backend *backend;
    gx_dev *dev;
    gx_dtype dtype;
    const gx_cut *cut; /* may be NULL */
} gx_job;

/* The longest side of a triangle that TRSM and TRMM take as one kernel call. */
enum { GX_TRIANGLE_LEAF = 256 };

/* gx_team_call() of a part. */
gx_code gx_job_call(const gx_job *job, gx_kernel_id kernel, const gx_args *args, gx_err *err);

/* One kernel call on the caller's thread, with the memory that it wants; polls before. */
gx_code gx_job_whole(const gx_job *job, gx_kernel_id kernel, const gx_args *args, gx_err *err);

/* team_solve.c: TRSM and TRMM of triangles past the leaf, POTRF, GETRF. */
gx_code gx_job_triangular(const gx_job *job, gx_kernel_id kernel, const gx_args *args, gx_err *err);
gx_code gx_job_potrf(const gx_job *job, const gx_args *args, gx_err *err);
gx_code gx_job_getrf(const gx_job *job, const gx_args *args, gx_err *err);

/* team_qr.c: GEQRF, LARFT, LARFB, ORMQR, ORGQR, TPQRT, TPMQRT. */
gx_code gx_job_reflectors(const gx_job *job, gx_kernel_id kernel, const gx_args *args, gx_err *err);

#endif
