/*
** Cholesky factorisation of matrices of any size: the driver.  The program is chol_program.c's, its
** cut plan_factor.c's.
**
** A NaN or an Inf below the diagonal makes the factorisation fail at its row, an Inf on the
** diagonal would go through as an infinite pivot; so the diagonal is looked at before, the rest
** after a failure, and named.
*/
#include "alg.h"
#include "plan.h"
#include "probe.h"

typedef struct failure {
    const gx_mat *A;
    int64_t order; /* of the leading minor; 0: none */
} failure;

static gx_code refuse_indefinite(void *arg, int64_t info, gx_err *err)
{
    failure *f = arg;
    f->order = info;
    return gx_fail(err, GX_NUMERIC, "%s is not positive definite (leading minor of order %lld)",
                   f->A->label, (long long)info);
}

/* The side of a square block of whole tiles: the tile's own, unless tiles are not square. */
static int64_t square_tile(const gx_sink *F)
{
    int64_t p = gx_max(1, F->tile_rows), q = gx_max(1, F->tile_cols), a = p, b = q;
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return p / a <= gx_max(1, F->rows) / q ? p / a * q : gx_max(1, F->rows);
}

/* The factor against A (probe.c). */
static void check_factor(gx_run *run, const gx_mat *A, const gx_cholesky_plan *plan, gx_uplo uplo,
                         const gx_sink *F)
{
    double n = (double)plan->n, bytes = n * n * (double)gx_number_bytes(plan->dtype);
    double flops = n * n * n / 3 * (gx_number_is_complex(plan->dtype) ? 4 : 1);
    gx_mat factor;
    if (gx_ok(run) && gx_probe_is_due(run, plan->dtype, flops, bytes, 2 * n * n, 2 * bytes)) {
        gx_sink_source(F, "the factor", &factor);
        gx_probe_cholesky(run, A, uplo, &factor);
    }
}

/* What build_cholesky() is told, and the plan it made last, which must outlive its program. */
typedef struct build_args {
    const gx_mat *A;
    gx_uplo uplo;
    gx_sink *F;
    failure *failure;
    gx_cholesky_plan plan[2]; /* of the host, of the device */
} build_args;

static gx_prog *build_cholesky(gx_run *run, void *arg)
{
    build_args *b = arg;
    gx_cholesky_plan *plan = &b->plan[run->target != NULL];
    gx_plan_cholesky(run, b->A, b->uplo, square_tile(b->F), plan);
    gx_prog *prog = gx_ok(run) ? gx_cholesky_program(run, b->A, plan, b->F) : NULL;
    if (prog != NULL) {
        gx_prog_on_info(prog, refuse_indefinite, b->failure);
    }
    return prog;
}

gx_code gx_alg_cholesky(gx_run *run, const gx_mat *A, gx_uplo uplo, gx_sink *F)
{
    if (gx_alg_need_square(run, A) != GX_OK || gx_alg_refuse_nonfinite_diagonal(run, A) != GX_OK) {
        return run->err.code;
    }
    failure f = {.A = A};
    build_args b = {.A = A, .uplo = uplo, .F = F, .failure = &f};
    gx_args size = {.m = A->rows, .n = A->rows};
    gx_place_run(run, gx_kernel_flops(GX_POTRF, A->number, &size), A->number, build_cholesky, &b);
    check_factor(run, A, &b.plan[0], uplo, F);
    if (f.order > 0 && run->err.code == GX_NUMERIC) {
        gx_alg_explain_nonfinite(run, A, f.order);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}
