/*
** Iterative methods: see iterate.h.
**
** The methods (iterate_short.c, iterate_long.c) update a residual by a recurrence, which parts from
** b - A x by rounding.  So each runs until the recurrence says that tol is reached; then the
** residual is computed anew, and where it is not, the method begins again from the x that it has.
** A method that is at its limit of accuracy gains nothing by that, and says so.
*/
#include "iterate_int.h"

#include <math.h>
#include <string.h>

enum { ROUNDS_MOST = 10 /* beginnings of a method that does not restart by itself */ };

const char *gx_iterate_name(gx_iterate_kind kind)
{
    static const char *const names[] = {[GX_ITERATE_CG] = "cg",
                                        [GX_ITERATE_MINRES] = "minres",
                                        [GX_ITERATE_GMRES] = "gmres",
                                        [GX_ITERATE_LSQR] = "lsqr"};
    return names[kind];
}

// A column ----------------------------------------------------------------------------------------

/* Vectors that a method works with, the residual included. */
static int64_t vectors_of(const gx_iterate *it)
{
    switch (it->kind) {
    case GX_ITERATE_CG:
        return 4;
    case GX_ITERATE_MINRES:
        return 8;
    case GX_ITERATE_GMRES:
        return it->restart + 3;
    default:
        return 5;
    }
}

static gx_code allocate(gx_iterate *it, gx_err *err)
{
    gx_mem *mem = it->run->ctx->mem;
    int64_t longest = gx_max(it->A->rows, it->A->cols);
    int64_t pieces = gx_max(gx_vector_pieces(longest), it->A->pieces);
    size_t m = (size_t)it->restart;
    GX_TRY(gx_mem_alloc(mem, (size_t)(vectors_of(it) * longest) * sizeof *it->work,
                        "an iterative method's vectors", &it->work, err));
    GX_TRY(
        gx_mem_alloc(mem, (size_t)(2 * pieces) * sizeof *it->part, "partial sums", &it->part, err));
    if (it->kind == GX_ITERATE_GMRES) {
        GX_TRY(gx_mem_alloc(mem, ((m + 1) * m + 4 * (m + 1)) * sizeof *it->small,
                            "a projected problem", &it->small, err));
    }
    return GX_OK;
}

gx_code gx_iterate_begin(gx_run *run, gx_precond_kind precond, gx_iterate *it)
{
    gx_err err = {0};
    it->run = run;
    it->work = it->part = it->small = NULL;
    it->M = (gx_precond){.kind = GX_PRECOND_NONE};
    if (gx_ok(run) && allocate(it, &err) == GX_OK) {
        gx_precond_make(run, precond, it->A, it->kind == GX_ITERATE_LSQR, &it->M);
    }
    return gx_run_fail(run, &err);
}

void gx_iterate_end(gx_iterate *it)
{
    gx_mem *mem = it->run->ctx->mem;
    gx_precond_clear(&it->M);
    gx_mem_free(mem, it->work);
    gx_mem_free(mem, it->part);
    gx_mem_free(mem, it->small);
    it->work = it->part = it->small = NULL;
}

/* r = b - A x; returns its norm. */
static double residual(const gx_iterate *it, const double *b, const double *x, double *r)
{
    int64_t m = it->A->rows;
    gx_whole_times(it->run, it->A, x, r);
    gx_vector_sum(it, m, r, 1, b, -1, r, 0, NULL);
    return gx_vector_norm(it, m, r);
}

/* LSQR: is x a least squares solution, r being orthogonal to A's columns? */
static bool is_least(const gx_iterate *it, const double *r, double norm)
{
    double *g = it->work + gx_max(it->A->rows, it->A->cols);
    if (it->kind != GX_ITERATE_LSQR || gx_whole_times(it->run, it->T, r, g) != GX_OK) {
        return false;
    }
    return gx_vector_norm(it, it->A->cols, g) <= it->tol * it->norm * norm;
}

static gx_code not_converged(gx_iterate *it, double norm, double norm_b, bool is_stuck)
{
    return gx_run_failf(it->run, GX_NUMERIC,
                        "no convergence: %s %s a residual of %.3g |b| after %lld iteration%s "
                        "(\"tol\" is %.3g)",
                        gx_iterate_name(it->kind), is_stuck ? "does not get below" : "has",
                        norm / norm_b, (long long)it->done, it->done == 1 ? "" : "s", it->tol);
}

gx_code gx_iterate_solve(gx_iterate *it, const double *b, double *x)
{
    static void (*const methods[])(gx_iterate *, double, double *,
                                   double *) = {[GX_ITERATE_CG] = gx_iterate_cg,
                                                [GX_ITERATE_MINRES] = gx_iterate_minres,
                                                [GX_ITERATE_GMRES] = gx_iterate_gmres,
                                                [GX_ITERATE_LSQR] = gx_iterate_lsqr};
    gx_run *run = it->run;
    double *r = it->work, norm_b = gx_vector_norm(it, it->A->rows, b);
    it->done = 0;
    if (gx_ok(run) && !isfinite(norm_b)) {
        return gx_run_failf(run, GX_ARG, "B has an element that is not finite");
    }
    if (norm_b == 0) {
        memset(x, 0, (size_t)it->A->cols * sizeof *x);
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    double norm = residual(it, b, x, r), goal = it->tol * norm_b;
    for (int round = 0; gx_ok(run) && !(norm <= goal) && !is_least(it, r, norm); round++) {
        double before = norm;
        methods[it->kind](it, goal, x, r);
        norm = residual(it, b, x, r);
        bool is_stuck = it->kind == GX_ITERATE_GMRES ? !(norm < before) : round >= ROUNDS_MOST;
        if (gx_ok(run) && !(norm <= goal) && (is_stuck || it->done >= it->most) &&
            !is_least(it, r, norm)) {
            not_converged(it, norm, norm_b, is_stuck);
        }
    }
    gx_stats_add(&run->ctx->stats, GX_STAT_ITERATIONS, it->done);
    return gx_ok(run) ? GX_OK : run->err.code;
}
