/*
** TSQR: QR of a tall matrix in one pass over its rows (Demmel, Grigori, Hoemmen & Langou 2012, the
** sequential tree).
**
**   A_0 = V_0\R                         GEQRF of the first block of rows
**   [R; A_i] = Q_i [R'; 0]              TPQRT, i = 1, 2, ...
**
** and, where right-hand sides pass by with A,
**
**   B_0 = Q_0^H B_0,  C = its first n rows;   [C; B_i] = Q_i^H [C; B_i]
**
** so that C ends as the first n rows of Q^H B.  What is left of column j of the blocks B_i has the
** norm of the least-squares residual: a small QR of its own (strips of GX_TSQR_STRIP columns, E)
** folds it into a triangle, whose columns have these norms.  No differences of squares anywhere.
**
** R, C and E are resident, A and B are read once.  Work 2 m n^2 (+ 4 m n p).  Kept V and tau are
** the tree's reflectors; Q X is made from the last block to the first:
**
**   C = X;   [C; Y_i] = Q_i [C; 0], i = last .. 1;   Y_0 = Q_0 [C; 0]
**
** Minimum memory: R, a block of rows, and what passes by.  m >= n.
**
** That is for a device, for wide matrices, and where V is kept.  On the host a narrow one's
** triangle is made by many threads, each with rows of its own (alg_stack.c).
*/
#include "alg_qr.h"

#include "../exec/place.h"
#include "narrow.h"
#include "dense.h"
#include "small_r.h"

typedef struct tree {
    gx_prog *prog;
    const gx_tsqr_plan *plan;
    const gx_opnd *V, *R, *C, *B, *E;
    gx_vector *tau, *strip_tau;
    bool is_kept;
} tree;

static int64_t height_of(const tree *t, int64_t i)
{
    return gx_min(t->plan->height, t->plan->rows - i * t->plan->height);
}

static int64_t tau_at(const tree *t, int64_t i)
{
    return t->is_kept ? i * t->plan->cols : 0;
}

/* The first n rows of block 0. */
static gx_block head(const tree *t, const gx_opnd *X, int64_t j)
{
    return gx_blk_part(X, 0, j, 0, 0, t->plan->cols,
                       gx_min(X->block_cols, X->cols - j * X->block_cols));
}

static void factor_block(const tree *t, int64_t i)
{
    gx_call call = {.tau = t->tau, .tau_at = tau_at(t, i), .keeps_c = true};
    if (i == 0) {
        call.kernel = GX_GEQRF;
        call.c = gx_blk(t->V, 0, 0);
        gx_prog_call(t->prog, &call);
        gx_prog_call(t->prog, &(gx_call){.kernel = GX_TRIANGLE,
                                         .uplo = GX_UPPER,
                                         .a = head(t, t->V, 0),
                                         .c = gx_blk(t->R, 0, 0)});
    } else {
        call.kernel = GX_TPQRT;
        call.c = gx_blk(t->R, 0, 0);
        call.c2 = gx_blk(t->V, i, 0);
        gx_prog_call(t->prog, &call);
    }
}

/* Fold rows [row, row + rows) of B's block (i, j), strip by strip, into E. */
static void fold_rest(const tree *t, int64_t i, int64_t j, int64_t row, int64_t rows)
{
    int64_t j0 = j * t->B->block_cols, cols = gx_min(t->B->block_cols, t->B->cols - j0);
    for (int64_t c = 0; c < cols && rows > 0; c += GX_TSQR_STRIP) {
        int64_t width = gx_min(GX_TSQR_STRIP, cols - c);
        gx_prog_call(t->prog, &(gx_call){.kernel = GX_TPQRT,
                                         .c = gx_blk_part(t->E, 0, 0, 0, j0 + c, width, width),
                                         .c2 = gx_blk_part(t->B, i, j, row, c, rows, width),
                                         .tau = t->strip_tau,
                                         .keeps_c = true});
    }
}

/* Q_i^H on block (i, j) of B and the top of its columns. */
static void reduce_rhs(const tree *t, int64_t i, int64_t j)
{
    gx_call call = {.side = GX_LEFT,
                    .transa = GX_CONJ_TRANS,
                    .a = gx_blk(t->V, i, 0),
                    .tau = t->tau,
                    .tau_at = tau_at(t, i),
                    .keeps_c = true};
    int64_t n = t->plan->cols, rows = height_of(t, i);
    if (i == 0) {
        call.kernel = GX_ORMQR;
        call.c = gx_blk(t->B, 0, j);
        gx_prog_call(t->prog, &call);
        gx_prog_call(t->prog,
                     &(gx_call){.kernel = GX_COPY, .a = head(t, t->B, j), .c = gx_blk(t->C, 0, j)});
    } else {
        call.kernel = GX_TPMQRT;
        call.c = gx_blk(t->C, 0, j);
        call.c2 = gx_blk(t->B, i, j);
        gx_prog_call(t->prog, &call);
    }
    if (t->E != NULL) {
        fold_rest(t, i, j, i == 0 ? n : 0, i == 0 ? rows - n : rows);
    }
}

/* The operands of one pass; columns of right-hand sides in blocks as wide as A at most. */
static void declare(gx_run *run, const gx_tsqr_args *args, tree *t, void *tau, void *strip_tau)
{
    const gx_tsqr_plan *plan = t->plan;
    gx_number dtype = args->R->number;
    int64_t n = plan->cols, strip = gx_max(GX_TSQR_STRIP, n / GX_TSQR_STRIP * GX_TSQR_STRIP);
    t->is_kept = args->V != NULL;
    t->V = gx_prog_operand(t->prog, args->A, args->V, dtype, plan->rows, n, plan->height, n);
    t->R = gx_prog_operand(t->prog, NULL, args->R, dtype, n, n, n, n);
    t->tau = gx_prog_vector(t->prog, dtype, tau, t->is_kept ? plan->blocks * n : n);
    if (args->B != NULL && gx_ok(run)) {
        int64_t p = args->B->cols, width = gx_min(strip, p);
        t->B = gx_prog_operand(t->prog, args->B, NULL, dtype, plan->rows, p, plan->height, width);
        t->C = gx_prog_operand(t->prog, NULL, args->C, dtype, n, p, n, width);
        if (args->E != NULL) {
            t->E =
                gx_prog_operand(t->prog, NULL, args->E, dtype, GX_TSQR_STRIP, p, GX_TSQR_STRIP, p);
            t->strip_tau = gx_prog_vector(t->prog, dtype, strip_tau, GX_TSQR_STRIP);
        }
    }
}

static void write_down(gx_run *run, tree *t)
{
    if (t->E != NULL) {
        gx_prog_call(t->prog, &(gx_call){.kernel = GX_FILL, .c = gx_blk(t->E, 0, 0)});
    }
    for (int64_t i = 0; i < t->plan->blocks && gx_ok(run); i++) {
        factor_block(t, i);
        for (int64_t j = 0; t->B != NULL && j < t->B->grid_cols; j++) {
            reduce_rhs(t, i, j);
        }
    }
}

/* What a streamed pass has found: R, the top of Q^H B, and the norms below it. */
static void hand_out(gx_run *run, const gx_tsqr_args *args, const gx_stack *stack, const void *r)
{
    gx_err err = {0};
    gx_number dtype = stack->dtype;
    int64_t n = stack->A->cols, p = stack->cols - n;
    gx_sink_write(args->R, 0, 0, n, n, r, stack->cols, &err);
    if (p > 0) {
        gx_sink_write(args->C, 0, 0, n, p, gx_at(r, dtype, stack->cols, 0, n), stack->cols, &err);
    }
    for (int64_t j = 0; args->E != NULL && j < p; j++) {
        const void *below = gx_at(r, dtype, stack->cols, n, n + j);
        double norm[2] = {gx_small_norm(dtype, below, stack->cols, j + 1, 1), 0};
        char column[GX_TSQR_STRIP * 2 * sizeof(double)] = {0};
        gx_convert(gx_number_is_complex(dtype) ? GX_C128 : GX_F64, norm, 1, dtype, column, 1, 1, 1);
        gx_sink_write(args->E, 0, j, GX_TSQR_STRIP, 1, column, GX_TSQR_STRIP, &err);
    }
    gx_run_fail(run, &err);
}

static void run_program(gx_run *run, const gx_tsqr_args *args, const gx_tsqr_plan *plan,
                        const gx_terms *beside, bool *is_run)
{
    tree t = {.plan = plan};
    void *scratch = NULL;
    int64_t n = plan->cols;
    if (gx_dense_alloc(run, args->R->number, n + GX_TSQR_STRIP, 1, "scalars of reflectors",
                       &scratch) != GX_OK) {
        return;
    }
    if (gx_prog_create(run, plan->blocks * 4 + 4, &t.prog) == GX_OK) {
        declare(run, args, &t, args->V != NULL ? args->tau : scratch,
                gx_at(scratch, args->R->number, 1, n, 0));
        gx_prog_cut(t.prog, &plan->cut);
        gx_prog_lookahead(t.prog, plan->lookahead);
        if (gx_ok(run)) {
            write_down(run, &t);
            if (beside != NULL) {
                *is_run = gx_prog_run_beside(t.prog, beside);
            } else {
                gx_prog_run(t.prog);
            }
        }
    }
    gx_prog_free(t.prog);
    gx_mem_free(run->ctx->mem, scratch);
}

gx_code gx_alg_tsqr(gx_run *run, const gx_tsqr_args *args, const gx_tsqr_plan *plan)
{
    gx_stack stack;
    if (!gx_ok(run) || plan->cols == 0) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    if (args->V != NULL || !gx_stack_plan(run, args->A, args->B, args->R->number, &stack)) {
        run_program(run, args, plan, NULL, NULL);
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    bool is_run = false;
    size_t device_bytes;
    if (gx_place_candidate(run, stack.flops, stack.dtype, &device_bytes) != NULL) {
        gx_cost cost;
        gx_terms terms;
        gx_stack_predict(run, &stack, &cost, &terms);
        run_program(run, args, plan, &terms, &is_run);
    }
    void *r = NULL;
    if (!is_run && gx_dense_alloc(run, GX_C128, stack.cols, stack.cols, "the triangle of its QR",
                                  &r) == GX_OK) {
        gx_place_owe(run, stack.flops, stack.dtype);
        if (gx_stack_run(run, &stack, r) == GX_OK) {
            hand_out(run, args, &stack, r);
        }
    }
    gx_mem_free(run->ctx->mem, r);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Q X ---------------------------------------------------------------------------------------------

/* [C; Y_i] = Q_i [C; 0] for one block of columns; block 0 has no C beneath it any more. */
static void expand(const tree *t, const gx_opnd *Y, int64_t i, int64_t j)
{
    gx_call call = {.side = GX_LEFT,
                    .a = gx_blk(t->V, i, 0),
                    .tau = t->tau,
                    .tau_at = tau_at(t, i),
                    .keeps_c = true};
    gx_prog_call(t->prog, &(gx_call){.kernel = GX_FILL, .c = gx_blk(Y, i, j)});
    if (i == 0) {
        gx_prog_call(t->prog, &(gx_call){.kernel = GX_COPY,
                                         .a = gx_blk(t->C, 0, j),
                                         .c = head(t, Y, j),
                                         .keeps_c = true});
        call.kernel = GX_ORMQR;
        call.c = gx_blk(Y, 0, j);
    } else {
        call.kernel = GX_TPMQRT;
        call.c = gx_blk(t->C, 0, j);
        call.c2 = gx_blk(Y, i, j);
    }
    gx_prog_call(t->prog, &call);
}

/* Columns of Y that are worked on together: whole tiles, as wide as X's resident part allows. */
static int64_t expand_width(const gx_tsqr_plan *plan, const gx_sink *C)
{
    int64_t tile = gx_max(1, C->tile_cols), p = gx_max(1, C->cols);
    return gx_min(p, gx_max(tile, gx_max(1, plan->cols) / tile * tile));
}

gx_code gx_alg_tsqr_apply(gx_run *run, const gx_mat *V, const void *tau, const gx_tsqr_plan *plan,
                          const gx_mat *X, gx_sink *C)
{
    tree t = {.plan = plan, .is_kept = true};
    int64_t n = plan->cols, p = C->cols;
    if (!gx_ok(run) || p == 0 || plan->rows == 0 ||
        gx_prog_create(run, plan->blocks * 3 + 4, &t.prog) != GX_OK) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    int64_t width = expand_width(plan, C);
    gx_prog_cut(t.prog, &plan->cut);
    gx_prog_lookahead(t.prog, plan->lookahead);
    t.V = gx_prog_operand(t.prog, V, NULL, C->number, plan->rows, n, plan->height, n);
    t.C = gx_prog_operand(t.prog, X, NULL, C->number, n, p, n, width);
    const gx_opnd *Y =
        gx_prog_operand(t.prog, NULL, C, C->number, plan->rows, p, plan->height, width);
    t.tau = gx_prog_vector(t.prog, C->number, (void *)(uintptr_t)tau, plan->blocks * n);
    for (int64_t i = plan->blocks - 1; i >= 0 && gx_ok(run); i--) {
        for (int64_t j = 0; j < Y->grid_cols; j++) {
            expand(&t, Y, i, j);
        }
    }
    gx_prog_run(t.prog);
    gx_prog_free(t.prog);
    return gx_ok(run) ? GX_OK : run->err.code;
}
