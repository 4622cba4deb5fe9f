/*
** Triangular solves, Cholesky and LU of one block by a team: recursion down to kernels.
**
** Each halves its matrix, works on the parts through gx_job_call(), and so spends nearly all of
** its flops in products that the team shares:
**
**   TRSM    X1 = T11^-1 C1;  C2 -= T21 X1;  X2 = T22^-1 C2          (and its seven mirror images)
**   POTRF   A11 = L11 L11^H;  L21 = A21 L11^-H;  A22 -= L21 L21^H;  A22 = L22 L22^H
**   GETRF   [A11; A21] = P1 L U;  [A12; A22] exchanged;  U12 = L11^-1 A12;  A22 -= L21 U12;
**           A22 = P2 L U;  A21 exchanged                            (Toledo 1997; no panel width)
**
** The leaves are single kernel calls of a few milliseconds on the caller's thread (a TRSM's are cut
** over the team by team_cut.c), so an interrupt is seen soon.  The halving depends on sizes
** alone, so a fixed cut gives the same bits whatever the team.
**
** Measured with two cores, n = 8192, f64, beside OpenBLAS's own threads: see the table in
** docs/decisions/.  Memory: none.
*/
#include "../base/triangle.h"
#include "team_int.h"

/*
** Leaves: POTRF's is n x n, GETRF's m x n with any m, so its time is the serial part that grows
** with m; narrower ones cost more exchanges than they save.
*/
enum { POTRF_LEAF = 128, GETRF_LEAF = 32 };

/* About half of n, a multiple of step. */
static int64_t half_of(int64_t n, int64_t step)
{
    return gx_max(step, gx_ceil_div(n / 2, step) * step);
}

// Triangles ---------------------------------------------------------------------------------------

gx_code gx_job_triangular(const gx_job *job, gx_kernel_id kernel, const gx_args *args, gx_err *err)
{
    if (gx_triangle_side(args) <= GX_TRIANGLE_LEAF || args->m <= 0 || args->n <= 0) {
        return gx_job_call(job, kernel, args, err);
    }
    if (args->alpha.re == 0 && (args->alpha.im == 0 || !gx_number_is_complex(job->dtype))) {
        gx_args zero = *args;
        zero.alpha = (gx_scalar){0, 0};
        return gx_job_call(job, GX_FILL, &zero, err);
    }
    gx_halves h = gx_halve(kernel, job->dtype, args, GX_TRIANGLE_LEAF);
    bool solves = kernel == GX_TRSM;
    GX_TRY(gx_team_poll_now(job->team, err));
    GX_TRY(gx_job_triangular(job, kernel, solves ? &h.p : &h.q, err));
    GX_TRY(gx_job_call(job, GX_GEMM, &h.off, err));
    return gx_job_triangular(job, kernel, solves ? &h.q : &h.p, err);
}

// Cholesky ----------------------------------------------------------------------------------------

gx_code gx_job_potrf(const gx_job *job, const gx_args *args, gx_err *err)
{
    if (args->n <= POTRF_LEAF) {
        return gx_job_whole(job, GX_POTRF, args, err);
    }
    bool is_lower = args->uplo == GX_LOWER;
    int64_t n1 = half_of(args->n, POTRF_LEAF), n2 = args->n - n1;
    void *beside = gx_at(args->c, job->dtype, args->ldc, is_lower ? n1 : 0, is_lower ? 0 : n1);
    gx_args first = *args, second = *args;
    first.n = first.m = n1;
    second.n = second.m = n2;
    second.c = gx_at(args->c, job->dtype, args->ldc, n1, n1);

    GX_TRY(gx_job_potrf(job, &first, err));
    if (*args->info != 0) {
        return GX_OK;
    }
    GX_TRY(gx_job_triangular(job, GX_TRSM,
                             &(gx_args){.side = is_lower ? GX_RIGHT : GX_LEFT,
                                        .uplo = args->uplo,
                                        .transa = GX_CONJ_TRANS,
                                        .m = is_lower ? n2 : n1,
                                        .n = is_lower ? n1 : n2,
                                        .alpha = GX_ONE,
                                        .a = args->c,
                                        .lda = args->ldc,
                                        .c = beside,
                                        .ldc = args->ldc},
                             err));
    GX_TRY(gx_job_call(job, GX_HERK,
                       &(gx_args){.uplo = args->uplo,
                                  .transa = is_lower ? GX_NO_TRANS : GX_CONJ_TRANS,
                                  .m = n2,
                                  .n = n2,
                                  .k = n1,
                                  .alpha = GX_MINUS_ONE,
                                  .beta = GX_ONE,
                                  .a = beside,
                                  .lda = args->ldc,
                                  .c = second.c,
                                  .ldc = args->ldc},
                       err));
    GX_TRY(gx_job_potrf(job, &second, err));
    *args->info += *args->info == 0 ? 0 : n1;
    return GX_OK;
}

// LU ----------------------------------------------------------------------------------------------

/* Exchange rows of the m x n block c by pivots[0 .. count-1]. */
static gx_code exchange(const gx_job *job, const gx_args *args, int64_t m, int64_t n, void *c,
                        int64_t *pivots, int64_t count, gx_err *err)
{
    return gx_job_call(
        job, GX_LASWP,
        &(gx_args){.m = m, .n = n, .c = c, .ldc = args->ldc, .pivots = pivots, .pivot_last = count},
        err);
}

/* U12 = L11^-1 A12: the first k rows of the n columns at c. */
static gx_code solve_unit(const gx_job *job, const gx_args *args, int64_t k, int64_t n, void *c,
                          gx_err *err)
{
    return gx_job_triangular(job, GX_TRSM,
                             &(gx_args){.side = GX_LEFT,
                                        .uplo = GX_LOWER,
                                        .diag = GX_UNIT,
                                        .m = k,
                                        .n = n,
                                        .alpha = GX_ONE,
                                        .a = args->c,
                                        .lda = args->ldc,
                                        .c = c,
                                        .ldc = args->ldc},
                             err);
}

/* The right part, after the left n1 columns (info of them in *args->info). */
static gx_code factor_right(const gx_job *job, const gx_args *args, int64_t n1, gx_err *err)
{
    int64_t n2 = args->n - n1, info = *args->info, info2 = 0;
    void *top = gx_at(args->c, job->dtype, args->ldc, 0, n1);
    void *low = gx_at(args->c, job->dtype, args->ldc, n1, 0);
    gx_args rest = *args;
    rest.m = args->m - n1;
    rest.n = n2;
    rest.c = gx_at(args->c, job->dtype, args->ldc, n1, n1);
    rest.pivots = args->pivots + n1;
    rest.info = &info2;

    GX_TRY(exchange(job, args, args->m, n2, top, args->pivots, n1, err));
    GX_TRY(solve_unit(job, args, n1, n2, top, err));
    if (rest.m == 0) {
        return GX_OK;
    }
    GX_TRY(gx_job_call(job, GX_GEMM,
                       &(gx_args){.m = rest.m,
                                  .n = n2,
                                  .k = n1,
                                  .alpha = GX_MINUS_ONE,
                                  .beta = GX_ONE,
                                  .a = low,
                                  .lda = args->ldc,
                                  .b = top,
                                  .ldb = args->ldc,
                                  .c = rest.c,
                                  .ldc = args->ldc},
                       err));
    GX_TRY(gx_job_getrf(job, &rest, err));
    int64_t count = gx_min(rest.m, n2);
    GX_TRY(exchange(job, args, rest.m, n1, low, rest.pivots, count, err));
    for (int64_t j = 0; j < count; j++) {
        rest.pivots[j] += n1;
    }
    *args->info = info != 0 ? info : info2 != 0 ? info2 + n1 : 0;
    return GX_OK;
}

gx_code gx_job_getrf(const gx_job *job, const gx_args *args, gx_err *err)
{
    if (args->n <= GETRF_LEAF || args->m == 0) {
        return gx_job_whole(job, GX_GETRF, args, err);
    }
    gx_args left = *args;
    left.n = args->n > args->m ? args->m : half_of(args->n, GETRF_LEAF);
    GX_TRY(gx_job_getrf(job, &left, err));
    return factor_right(job, args, left.n, err);
}
