/*
** The program of a Cholesky factorisation, left-looking by blocks.
**
**   for each rectangle of blocks of L, column by column:            (stays in memory)
**       L[i,j] = A[i,j] - sum L[i,k] L[j,k]^H                       k left of the rectangle
**       for each column j of it, from the left:
**           L[i,j] -= L[i,k] L[j,k]^H                               k in the rectangle
**           L[j,j] = chol(L[j,j]);   L[i,j] = L[i,j] L[j,j]^-H      i > j
**
** Work n^3/3 flops.  Left-looking writes each block once, when it is finished; right-looking would
** write the trailing matrix again and again.  What is read again: plan_factor.c, which writes
** candidates down to count.  The same program in and out of memory: only the rectangle differs.
** Minimum memory: three blocks.
**
** R with A = R^H R is L^H: the same program with every block mirrored, on a view of A that reads
** the lower triangle transposed.  So A's upper triangle is never looked at.  (The blocks on the
** diagonal are loaded whole; POTRF and HERK see one triangle of them.)
**
** Blocks of the other triangle are written as zeros: the stored factor is a triangular matrix for
** everybody who reads it.
**
** No look-ahead beyond loading: the team shares each block operation, so nobody waits for a panel.
*/
#include "plan.h"

typedef struct cholesky {
    gx_prog *prog;
    const gx_cholesky_plan *plan;
    const gx_opnd *F;
    int64_t grid;
    bool is_lower;
} cholesky;

/* Block (i, j) of L, which is block (j, i) of R. */
static gx_block at(const cholesky *c, int64_t i, int64_t j)
{
    return c->is_lower ? gx_blk(c->F, i, j) : gx_blk(c->F, j, i);
}

/* L[i,j] -= L[i,k] L[j,k]^H, of R: R[j,i] -= R[k,j]^H R[k,i]. */
static void subtract(const cholesky *c, int64_t i, int64_t j, int64_t k)
{
    gx_call call = {.kernel = GX_GEMM,
                    .transa = c->is_lower ? GX_NO_TRANS : GX_CONJ_TRANS,
                    .alpha = GX_MINUS_ONE,
                    .beta = GX_ONE,
                    .a = at(c, c->is_lower ? i : j, k),
                    .c = at(c, i, j),
                    .keeps_c = true};
    if (i == j) {
        call.kernel = GX_HERK;
        call.uplo = c->plan->uplo;
    } else {
        call.transb = c->is_lower ? GX_CONJ_TRANS : GX_NO_TRANS;
        call.b = at(c, c->is_lower ? j : i, k);
    }
    gx_prog_call(c->prog, &call);
}

/* L[j,j] = chol(L[j,j]), zeros beside it. */
static void factor_diagonal(const cholesky *c, int64_t j)
{
    gx_block block = at(c, j, j);
    gx_prog_call(c->prog, &(gx_call){.kernel = GX_POTRF,
                                     .uplo = c->plan->uplo,
                                     .c = block,
                                     .keeps_c = true,
                                     .info_base = j * c->plan->block});
    gx_prog_call(
        c->prog,
        &(gx_call){
            .kernel = GX_TRIANGLE, .uplo = c->plan->uplo, .a = block, .c = block, .keeps_c = true});
}

/* L[i,j] = L[i,j] L[j,j]^-H. */
static void solve_below(const cholesky *c, int64_t i, int64_t j)
{
    gx_prog_call(c->prog, &(gx_call){.kernel = GX_TRSM,
                                     .side = c->is_lower ? GX_RIGHT : GX_LEFT,
                                     .uplo = c->plan->uplo,
                                     .transa = GX_CONJ_TRANS,
                                     .alpha = GX_ONE,
                                     .a = at(c, j, j),
                                     .c = at(c, i, j),
                                     .keeps_c = true});
}

/* What the columns left of the rectangle [i0, i1) x [j0, j1) contribute to it. */
static void subtract_left(const cholesky *c, int64_t i0, int64_t i1, int64_t j0, int64_t j1,
                          bool is_backward)
{
    bool is_tall = i1 - i0 > j1 - j0;
    for (int64_t q = 0; q < j0; q++) {
        int64_t k = is_backward ? j0 - 1 - q : q;
        // The shorter side's blocks stay; the longer side's pass one at a time.
        int64_t outer0 = is_tall ? i0 : j0, outer1 = is_tall ? i1 : j1;
        int64_t inner0 = is_tall ? j0 : i0, inner1 = is_tall ? j1 : i1;
        for (int64_t o = outer0; o < outer1; o++) {
            for (int64_t n = inner0; n < inner1; n++) {
                int64_t i = is_tall ? o : n, j = is_tall ? n : o;
                if (i >= j) {
                    subtract(c, i, j, k);
                }
            }
        }
    }
}

/* The rectangle itself, from its left edge j0 on. */
static void factor_rectangle(const cholesky *c, int64_t i0, int64_t i1, int64_t j0, int64_t j1)
{
    for (int64_t j = j0; j < j1; j++) {
        for (int64_t i = gx_max(i0, j); i < i1; i++) {
            for (int64_t k = j0; k < j; k++) {
                subtract(c, i, j, k);
            }
            if (i == j) {
                factor_diagonal(c, j);
            } else {
                solve_below(c, i, j);
            }
        }
    }
}

/* The other triangle's blocks of the stored columns [j0, j1). */
static void fill_zeros(const cholesky *c, int64_t j0, int64_t j1)
{
    for (int64_t j = j0; j < j1; j++) {
        int64_t first = c->is_lower ? 0 : j + 1, last = c->is_lower ? j : c->grid;
        for (int64_t i = first; i < last; i++) {
            gx_prog_call(c->prog, &(gx_call){.kernel = GX_FILL, .c = gx_blk(c->F, i, j)});
        }
    }
}

/*
** In memory the zeros come first, to be written at once; else last, when blocks of the finished
** rows make room for them.
*/
static void factor_all(const cholesky *c)
{
    const gx_cholesky_plan *plan = c->plan;
    bool is_backward = false;
    for (int64_t j0 = 0; j0 < c->grid && gx_ok(c->F->sink->run); j0 += plan->super_n) {
        int64_t j1 = gx_min(j0 + plan->super_n, c->grid);
        if (plan->is_in_memory) {
            fill_zeros(c, j0, j1);
        }
        for (int64_t i0 = j0; i0 < c->grid; i0 += plan->super_m) {
            int64_t i1 = gx_min(i0 + plan->super_m, c->grid);
            subtract_left(c, i0, i1, j0, j1, is_backward);
            factor_rectangle(c, i0, i1, j0, j1);
            is_backward = plan->is_snake && !is_backward;
        }
        if (!plan->is_in_memory) {
            fill_zeros(c, j0, j1);
        }
    }
}

gx_prog *gx_cholesky_program(gx_run *run, const gx_mat *A, gx_cholesky_plan *plan, gx_sink *F)
{
    cholesky c = {.plan = plan,
                  .grid = gx_ceil_div(plan->n, plan->block),
                  .is_lower = plan->uplo == GX_LOWER};
    double calls = (double)c.grid * (double)(c.grid + 1) * (double)(c.grid + 2) / 6;
    if (calls > (double)INT32_MAX) {
        gx_run_failf(run, GX_TOOBIG, "%s is %lldx%lld: too many blocks of %lldx%lld", A->label,
                     (long long)A->rows, (long long)A->cols, (long long)plan->block,
                     (long long)plan->block);
    }
    if (gx_prog_create(run, (int64_t)calls + c.grid * c.grid, &c.prog) != GX_OK) {
        return NULL;
    }
    gx_mat_view(&plan->mirror, A, GX_CONJ_TRANS, 0, 0, plan->n, plan->n);
    c.F = gx_prog_operand(c.prog, c.is_lower ? A : &plan->mirror, F, plan->dtype, plan->n, plan->n,
                          plan->block, plan->block);
    gx_prog_cut(c.prog, &plan->cut);
    gx_prog_lookahead(c.prog, plan->lookahead);
    if (gx_ok(run)) {
        factor_all(&c);
    }
    return c.prog;
}
