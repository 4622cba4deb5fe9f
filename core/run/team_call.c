/*
** gx_team_call(): one kernel of a host backend over the whole team (see team.h), by how the kernel
** can be shared:
**
**   one piece      PAIR, REDUCE: their callers share them out by tiles; TREXC
**   one call       spectra (SYEV, GESDD, ...): it takes the team's number of threads for itself
**   broken down    into products: triangles, POTRF, GETRF (team_solve.c), reflectors (team_qr.c)
**   cut            all others (team_cut.c): cells of the result
*/
#include "team_int.h"

/* A call that threads inside has sums that depend on how many: a fixed cut takes one. */
static gx_code call_spectrum(const gx_job *job, gx_kernel_id kernel, const gx_args *args,
                             gx_err *err)
{
    bool is_fixed = job->cut != NULL && job->cut->is_fixed;
    gx_args threaded = *args;
    threaded.threads = is_fixed ? 1 : gx_team_threads(job->team);
    return gx_job_whole(job, kernel, &threaded, err);
}

gx_code gx_team_call(gx_team *team, const gx_backend *backend, gx_dev *dev, gx_kernel_id kernel,
                     gx_number dtype, const gx_args *args, const gx_cut *cut, gx_err *err)
{
    gx_kernel run;
    gx_job job = {.team = team, .dev = dev, .dtype = dtype, .cut = cut};
    job.backend = gx_team_backend(backend, kernel, dtype);
    GX_TRY(gx_job_kernel(&job, kernel, &run, err));
    switch (kernel) {
    case GX_PAIR:
    case GX_REDUCE:
    case GX_SPMM:
    case GX_TREXC:
    case GX_ONE_HOT:
        return run(dev, NULL, args, err);
    case GX_SYEV:
    case GX_GEEV:
    case GX_GEES:
    case GX_GESDD:
    case GX_GGES:
    case GX_GEHRD:
    case GX_TRSYL:
    case GX_SYTRF:
    case GX_GEBAL:
    case GX_UNCSD:
    case GX_GEQP3:
        return call_spectrum(&job, kernel, args, err);
    case GX_TRSM:
    case GX_TRMM:
        return gx_job_triangular(&job, kernel, args, err);
    case GX_FUSED:
        return gx_job_fused(&job, args, err);
    case GX_POTRF:
        return gx_job_potrf(&job, args, err);
    case GX_GETRF:
        return gx_job_getrf(&job, args, err);
    case GX_GEQRF:
    case GX_LARFT:
    case GX_LARFB:
    case GX_ORMQR:
    case GX_ORGQR:
    case GX_TPQRT:
    case GX_TPMQRT:
        return gx_job_reflectors(&job, kernel, args, err);
    default:
        return gx_job_call(&job, kernel, args, err);
    }
}
