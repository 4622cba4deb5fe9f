/*
** What gx_alg_eig() and gx_alg_svd() would do (plan_spectrum.c), and what gx_alg_cov() and
** gx_alg_pca() (plan_pca.c): for gx_plan.
*/
#ifndef GX_PLAN_SPECTRUM_H
#define GX_PLAN_SPECTRUM_H

#include "../exec/predict.h"
#include "alg_eig.h"
#include "alg_pca.h"
#include "krylov.h"

/* Where the run is planning for: the host, or run->target. */
typedef struct gx_spectrum_plan {
    const char *driver; /* NULL: it cannot be done there                           */
    int64_t passes;     /* over A; dense: 1                                        */
    const char *how;    /* they are known, in words after "17 passes": static      */
    int64_t ncv, block; /* 0: dense                                                */
    gx_oper_plan oper;  /* not dense                                               */
    gx_cost cost;       /* what is written is the caller's to say                  */
    gx_terms terms;     /* of statistics of columns                                */
    bool is_faster;     /* run->target would be chosen                             */
} gx_spectrum_plan;

/* Refuse what the drivers refuse, for lack of memory, too; nothing is read. */
gx_code gx_plan_eig(gx_run *run, const gx_eig_args *args, gx_spectrum_plan *plan);
gx_code gx_plan_svd(gx_run *run, const gx_svd_args *args, gx_spectrum_plan *plan);

/*
** On the host.  driver: "tsqr", one pass of `block` rows at a time; "syrk" and "svd", means or
** moments first.  C: a sink that need not be begun.
*/
gx_code gx_plan_cov(gx_run *run, const gx_cov_args *args, const gx_sink *C, gx_spectrum_plan *plan);
gx_code gx_plan_pca(gx_run *run, const gx_pca_args *args, gx_spectrum_plan *plan);

#endif
