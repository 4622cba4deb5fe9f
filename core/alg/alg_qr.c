/*
** QR by column panels of full height, left-looking (Golub & Van Loan, 5.2; the blocked form with
** compact WY, Schreiber & Van Loan 1989).
**
**   for each group of panels:                       (stays in memory)
**       for each earlier panel k:                   (passes by)
**           A_j = Q_k^H A_j                         for all j of the group
**       for each panel j of the group:
**           A_j = Q_k^H A_j                         for the panels k of the group before j
**           A_j = V_j\R_j                           rows from j w on
**
** Q_k = I - V_k T_k V_k^H works on the rows from k w on.  All T_k (w x w) stand side by side in one
** block, w x k, which stays in memory: a panel's T is made once, not again each time it passes.
**
** Work 2 m n^2 - 2 n^3 / 3 flops.  Reads A once and each finished panel once for every later group;
** writes each tile of F once, while later panels are computed.  Minimum memory: three panels (V,
** A_j, T), and a panel may be one column wide.
**
** Applying op(Q) to B is the same program without the factoring: for Q^H panels ascend, for Q they
** descend.  Q itself is Q E with E the first columns of the unit matrix: panel j of E is zero below
** row (j + 1) w, so panels after the j-th leave it alone.
**
** Q and R as matrices of their own come of the packed F, an intermediate, or of TSQR's tree, which
** serves tall matrices whose full-height panels do not fit well, and R alone of any tall matrix, in
** one pass and with nothing kept.  Both give the economy Q; only panels the full one.
**
** What it does not do: no column pivoting (the rank is told by the singular values of R), no
** tournament for panels that do not fit three times (TSQR is for these).
*/
#include "alg_qr.h"
#include "dense.h"
#include "plan.h"

#include "../mat/simple.h"
#include "probe.h"

/* Columns up to which T costs more than it saves: the kernel makes what it needs. */
enum { FEW_COLUMNS = 64 };

/* What applies panels of V to panels of C. */
typedef struct reflection {
    gx_prog *prog;
    const gx_opnd *V, *C, *T; /* T NULL: not kept */
    gx_vector *tau;
    int64_t rows, width, k; /* of V: its rows, a panel's columns, all reflectors */
    gx_trans trans;
} reflection;

/* Reflectors of panel q. */
static int64_t reflectors_of(const reflection *x, int64_t q)
{
    return gx_min(x->width, x->k - q * x->width);
}

static gx_block v_panel(const reflection *x, int64_t q)
{
    int64_t top = q * x->width;
    return gx_blk_part(x->V, 0, q, top, 0, x->rows - top, reflectors_of(x, q));
}

static gx_block t_of(const reflection *x, int64_t q)
{
    int64_t k = reflectors_of(x, q);
    return gx_blk_part(x->T, 0, 0, 0, q * x->width, k, k);
}

/* The rows of panel j of C that panel q of V works on. */
static gx_block c_panel(const reflection *x, int64_t j, int64_t q)
{
    int64_t top = q * x->width, cols = gx_min(x->C->block_cols, x->C->cols - j * x->C->block_cols);
    return gx_blk_part(x->C, 0, j, top, 0, x->rows - top, cols);
}

static void make_t(const reflection *x, int64_t q)
{
    gx_prog_call(x->prog, &(gx_call){.kernel = GX_LARFT,
                                     .a = v_panel(x, q),
                                     .c = t_of(x, q),
                                     .tau = x->tau,
                                     .tau_at = q * x->width,
                                     .keeps_c = true});
}

/* C_j = op(Q_q) C_j. */
static void apply(const reflection *x, int64_t q, int64_t j)
{
    gx_call call = {.kernel = x->T == NULL ? GX_ORMQR : GX_LARFB,
                    .side = GX_LEFT,
                    .transa = x->trans,
                    .a = v_panel(x, q),
                    .c = c_panel(x, j, q),
                    .keeps_c = true};
    if (x->T == NULL) {
        call.tau = x->tau;
        call.tau_at = q * x->width;
    } else {
        call.b = t_of(x, q);
    }
    gx_prog_call(x->prog, &call);
}

static gx_code finish(gx_run *run, gx_prog *prog)
{
    if (prog != NULL) {
        gx_prog_run(prog);
    }
    gx_prog_free(prog);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Factoring ---------------------------------------------------------------------------------------

/* Panel j: what the panels of its own group do to it, then its own reflectors. */
static void factor_panel(const reflection *x, int64_t first, int64_t j)
{
    int64_t panels = gx_ceil_div(x->k, x->width);
    for (int64_t q = first; q < gx_min(j, panels); q++) {
        apply(x, q, j);
    }
    if (j >= panels) {
        return;
    }
    gx_prog_call(x->prog, &(gx_call){.kernel = GX_GEQRF,
                                     .c = c_panel(x, j, j),
                                     .tau = x->tau,
                                     .tau_at = j * x->width,
                                     .keeps_c = true});
    if (j + 1 < x->C->grid_cols) {
        make_t(x, j);
    }
}

gx_prog *gx_qr_program(gx_run *run, const gx_mat *A, const gx_panel_plan *plan, gx_sink *F,
                       void *tau)
{
    int64_t m = plan->rows, n = plan->cols, k = gx_min(m, n);
    int64_t grid = gx_ceil_div(n, plan->width), panels = gx_ceil_div(k, plan->width);
    reflection x = {.rows = m, .width = plan->width, .k = k, .trans = GX_CONJ_TRANS};
    if (gx_prog_create(run, panels * (2 * grid - panels + 3) / 2 + 1, &x.prog) != GX_OK) {
        return NULL;
    }
    x.C = gx_prog_operand(x.prog, A, F, F->number, m, n, gx_max(1, m), plan->width);
    x.V = x.C;
    if (grid > 1 && k > 0) {
        int64_t width = gx_min(plan->width, k);
        x.T = gx_prog_operand(x.prog, NULL, NULL, F->number, width, k, width, k);
    }
    x.tau = gx_prog_vector(x.prog, F->number, tau, k);
    gx_prog_cut(x.prog, &plan->cut);
    gx_prog_lookahead(x.prog, plan->lookahead);
    for (int64_t j0 = 0; j0 < x.C->grid_cols && gx_ok(run); j0 += plan->group) {
        int64_t j1 = gx_min(j0 + plan->group, x.C->grid_cols);
        for (int64_t q = 0; q < gx_min(j0, panels); q++) {
            for (int64_t j = j0; j < j1; j++) {
                apply(&x, q, j);
            }
        }
        for (int64_t j = j0; j < j1; j++) {
            factor_panel(&x, j0, j);
        }
    }
    return x.prog;
}

/* A^H A = R^H R for random vectors (probe.c): A is read twice more, R twice. */
static void check_factor(gx_run *run, const gx_mat *A, const gx_sink *F)
{
    double m = (double)F->rows, n = (double)F->cols, elements = 2 * m * n + n * n;
    double bytes = elements * (double)gx_number_bytes(F->number);
    double flops = 2 * m * n * n * (gx_number_is_complex(F->number) ? 4 : 1);
    gx_mat factor;
    if (gx_ok(run) && m >= n && n > 0 &&
        gx_probe_is_due(run, F->number, flops, bytes, elements, bytes)) {
        gx_sink_source(F, "F", &factor);
        gx_probe_qr(run, A, &factor);
    }
}

/* What build_qr() is told. */
typedef struct qr_args {
    const gx_mat *A;
    gx_sink *F;
    void *tau;
} qr_args;

static gx_prog *build_qr(gx_run *run, void *arg)
{
    const qr_args *b = arg;
    gx_panel_plan plan;
    gx_sink *F = b->F;
    int64_t k = gx_min(F->rows, F->cols);
    gx_plan_panels(run, F->rows, F->cols, k, F->number, F->is_stored ? F->tile_cols : 0, &plan);
    return gx_ok(run) ? gx_qr_program(run, b->A, &plan, F, b->tau) : NULL;
}

gx_code gx_alg_qr(gx_run *run, const gx_mat *A, gx_sink *F, void *tau)
{
    if (!gx_ok(run)) {
        return run->err.code;
    }
    gx_args size = {.m = F->rows, .n = F->cols};
    if (F->rows > 0 && F->cols > 0) {
        gx_place_run(run, gx_kernel_flops(GX_GEQRF, F->number, &size), F->number, build_qr,
                     &(qr_args){A, F, tau});
    }
    check_factor(run, A, F);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Applying ----------------------------------------------------------------------------------------

/* Panel q to the panels [j0, j1) of C that it reaches: of a unit matrix, those from q on. */
static void apply_to_group(const reflection *x, int64_t q, int64_t j0, int64_t j1, bool is_unit)
{
    for (int64_t j = j0; j < j1; j++) {
        int64_t end = gx_min((j + 1) * x->C->block_cols, x->C->cols);
        if (!is_unit || q * x->width < end) {
            apply(x, q, j);
        }
    }
}

/*
** All panels to all of C, group by group from the last (the one that every panel of V reaches,
** where C starts as a unit matrix); T is made in the first group.
*/
static void apply_all(const reflection *x, int64_t group, bool is_unit)
{
    int64_t panels = gx_ceil_div(x->k, x->width), grid = x->C->grid_cols;
    bool is_first = true;
    for (int64_t g = gx_ceil_div(grid, group) - 1; g >= 0; g--) {
        int64_t j0 = g * group, j1 = gx_min(j0 + group, grid);
        for (int64_t i = 0; i < panels; i++) {
            int64_t q = x->trans == GX_NO_TRANS ? panels - 1 - i : i;
            if (is_first && x->T != NULL) {
                make_t(x, q);
            }
            apply_to_group(x, q, j0, j1, is_unit);
        }
        is_first = false;
    }
}

/* C without a reflector is B. */
static void copy_all(gx_prog *prog, const gx_opnd *C)
{
    for (int64_t j = 0; j < C->grid_cols; j++) {
        gx_prog_call(prog,
                     &(gx_call){.kernel = GX_KERNEL_COUNT, .c = gx_blk(C, 0, j), .keeps_c = true});
    }
}

/* The width of V's panels: its tiles', narrower where three of them do not fit. */
static void plan_apply(gx_run *run, const gx_mat *F, int64_t k, const gx_sink *C, int64_t *v_width,
                       gx_panel_plan *plan)
{
    gx_panel_plan own;
    int64_t tile = gx_mat_base_stored(F) != NULL ? gx_min(F->tile_cols, gx_max(1, k)) : 0;
    gx_plan_panels(run, C->rows, C->cols, k, C->number, C->is_stored ? C->tile_cols : 0, plan);
    gx_plan_panels(run, F->rows, k, k, C->number, tile, &own);
    bool is_fixed = run->ctx->config.number[GX_SET_DETERMINISTIC] != 0;
    if (tile > 0 && own.slots < (is_fixed ? 3 : 6)) {
        gx_plan_panels(run, F->rows, k, k, C->number, 0, &own);
    }
    *v_width = own.width;
    // Slots are of the larger panel.
    int64_t slots = plan->width >= own.width ? plan->slots : own.slots;
    int64_t panels = gx_ceil_div(gx_max(1, C->cols), plan->width);
    plan->group = gx_max(1, gx_min(panels, slots - 3));
}

/* What build_apply() is told. */
typedef struct apply_args {
    const gx_mat *F, *B;
    const void *tau;
    int64_t k;
    gx_trans trans;
    gx_sink *C;
    bool is_unit;
} apply_args;

static gx_prog *build_apply(gx_run *run, void *arg)
{
    const apply_args *b = arg;
    const gx_mat *F = b->F;
    gx_sink *C = b->C;
    int64_t k = b->k;
    gx_panel_plan plan;
    reflection x = {.rows = F->rows, .k = k, .trans = b->trans};
    plan_apply(run, F, k, C, &x.width, &plan);
    int64_t panels = gx_ceil_div(k, x.width), grid = gx_ceil_div(C->cols, plan.width);
    if (!gx_ok(run) || gx_prog_create(run, (panels + 1) * grid + panels, &x.prog) != GX_OK) {
        return NULL;
    }
    gx_prog_cut(x.prog, &plan.cut);
    gx_prog_lookahead(x.prog, plan.lookahead);
    x.C = gx_prog_operand(x.prog, b->B, C, C->number, C->rows, C->cols, C->rows, plan.width);
    if (k == 0) {
        copy_all(x.prog, x.C);
        return x.prog;
    }
    x.V = gx_prog_operand(x.prog, F, NULL, C->number, F->rows, k, F->rows, x.width);
    if (C->cols > FEW_COLUMNS) {
        x.T = gx_prog_operand(x.prog, NULL, NULL, C->number, x.width, k, x.width, k);
    }
    x.tau = gx_prog_vector(x.prog, C->number, (void *)(uintptr_t)b->tau, k); // only read
    if (gx_ok(run)) {
        apply_all(&x, plan.group, b->is_unit);
    }
    return x.prog;
}

static gx_code apply_q(gx_run *run, const apply_args *b)
{
    gx_sink *C = b->C;
    if (gx_ok(run) && C->rows > 0 && C->cols > 0) {
        apply_args again = *b;
        gx_args size = {.side = GX_LEFT, .m = C->rows, .n = C->cols, .k = b->k};
        gx_place_run(run, gx_kernel_flops(GX_ORMQR, C->number, &size), C->number, build_apply,
                     &again);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_alg_qr_apply(gx_run *run, const gx_mat *F, const void *tau, int64_t k, gx_trans trans,
                        const gx_mat *B, gx_sink *C)
{
    return apply_q(run, &(apply_args){.F = F, .B = B, .tau = tau, .k = k, .trans = trans, .C = C});
}

/* Q itself: its first Q->cols columns (k: economy, rows: full). */
static gx_code form_q(gx_run *run, const gx_mat *F, const void *tau, int64_t k, gx_sink *Q)
{
    gx_mat unit;
    gx_diagonal ones = {.dtype = Q->number};
    gx_mat_generated(&unit, "the unit matrix", Q->number, Q->rows, Q->cols, gx_diagonal_generate,
                     &ones);
    return apply_q(
        run,
        &(apply_args){
            .F = F, .B = &unit, .tau = tau, .k = k, .trans = GX_NO_TRANS, .C = Q, .is_unit = true});
}

/*
** One block of R from the same block of F, which begins at row i0, column j0: zero below the
** diagonal.  What is above row j0 - i0 is full, what is before column i0 - j0 is empty.
*/
static void cut_triangle(gx_prog *prog, gx_block c, int64_t i0, int64_t j0, int64_t m, int64_t n)
{
    if (i0 >= j0 + n) {
        gx_prog_call(prog, &(gx_call){.kernel = GX_FILL, .c = c});
        return;
    }
    int64_t empty = gx_max(0, i0 - j0), full = gx_max(0, j0 - i0);
    if (full >= m) {
        gx_prog_call(prog, &(gx_call){.kernel = GX_KERNEL_COUNT, .c = c, .keeps_c = true});
        return;
    }
    gx_block rest = gx_blk_part(c.m, c.i, c.j, full, empty, m - full, n - empty);
    gx_prog_call(
        prog,
        &(gx_call){.kernel = GX_TRIANGLE, .uplo = GX_UPPER, .a = rest, .c = rest, .keeps_c = true});
    if (empty > 0) {
        gx_prog_call(prog, &(gx_call){.kernel = GX_FILL,
                                      .c = gx_blk_part(c.m, c.i, c.j, 0, 0, m, empty),
                                      .keeps_c = true});
    }
}

gx_code gx_alg_qr_r(gx_run *run, const gx_mat *F, gx_sink *R)
{
    gx_prog *prog;
    int64_t bm = gx_max(1, R->tile_rows), bn = gx_max(1, R->tile_cols);
    int64_t blocks = gx_ceil_div(R->rows, bm) * gx_ceil_div(R->cols, bn);
    if (!gx_ok(run) || gx_prog_create(run, blocks, &prog) != GX_OK) {
        return run->err.code;
    }
    gx_prog_lookahead(prog, gx_max(4, 2 * run->ctx->config.number[GX_SET_READERS]));
    const gx_opnd *r = gx_prog_operand(prog, F, R, R->number, R->rows, R->cols, bm, bn);
    for (int64_t j = 0; j < r->grid_cols && gx_ok(run); j++) {
        for (int64_t i = 0; i < r->grid_rows; i++) {
            cut_triangle(prog, gx_blk(r, i, j), i * bm, j * bn, gx_min(bm, R->rows - i * bm),
                         gx_min(bn, R->cols - j * bn));
        }
    }
    return finish(run, prog);
}

// Intermediates -----------------------------------------------------------------------------------

gx_code gx_qr_begin_scratch(gx_run *run, int64_t rows, int64_t cols, gx_number dtype,
                            int64_t tile_rows, int64_t tile_cols, size_t keep_bytes, gx_sink *sink)
{
    const size_t SLACK = 1 << 20;
    size_t bytes = 0;
    gx_matrix_bytes(rows, cols, dtype, &bytes);
    return gx_sink_begin_scratch_tiles(run, rows, cols, dtype, bytes + keep_bytes + SLACK,
                                       tile_rows, tile_cols, sink);
}

// Q and R as matrices of their own ----------------------------------------------------------------

gx_code gx_alg_qr_parts_of(gx_run *run, const gx_mat *F, const void *tau, gx_sink *Q, gx_sink *R)
{
    if (R != NULL && gx_ok(run)) {
        gx_alg_qr_r(run, F, R);
    }
    if (Q != NULL && gx_ok(run)) {
        form_q(run, F, tau, gx_min(F->rows, F->cols), Q);
    }
    return run->err.code;
}

static gx_code by_panels(gx_run *run, const gx_mat *A, gx_number dtype, gx_sink *Q, gx_sink *R)
{
    gx_sink F = {0};
    gx_mat source;
    void *tau = NULL;
    int64_t k = gx_min(A->rows, A->cols), tile_rows, tile_cols;
    gx_plan_panel_tiles(run, A->rows, A->cols, k, dtype, &tile_rows, &tile_cols);
    if (gx_qr_begin_scratch(run, A->rows, A->cols, dtype, tile_rows, tile_cols, 0, &F) == GX_OK &&
        gx_dense_alloc(run, dtype, k, 1, "scalars of reflectors", &tau) == GX_OK &&
        gx_alg_qr(run, A, &F, tau) == GX_OK) {
        gx_sink_source(&F, A->label, &source);
        gx_alg_qr_parts_of(run, &source, tau, Q, R);
    }
    gx_mem_free(run->ctx->mem, tau);
    gx_sink_drop(&F);
    return run->err.code;
}

/* Q = the tree's Q times the unit matrix. */
static gx_code form_by_tree(gx_run *run, const gx_sink *V, const void *tau,
                            const gx_tsqr_plan *plan, gx_sink *Q)
{
    gx_mat source, unit;
    gx_diagonal ones = {.dtype = Q->number};
    gx_sink_source(V, "V", &source);
    gx_mat_generated(&unit, "the unit matrix", Q->number, plan->cols, plan->cols,
                     gx_diagonal_generate, &ones);
    return gx_alg_tsqr_apply(run, &source, tau, plan, &unit, Q);
}

/* *is_done false: it does not fit, nothing was done. */
static gx_code by_tree(gx_run *run, const gx_mat *A, gx_number dtype, gx_sink *Q, gx_sink *R,
                       bool *is_done)
{
    gx_sink V = {0}, top;
    gx_mat source;
    gx_tsqr_plan plan = {0};
    void *tau = NULL;
    int64_t n = A->cols, tile_rows, tile_cols;
    if (Q != NULL) {
        gx_plan_q_tiles(run, A->rows, n, n, dtype, &tile_rows, &tile_cols);
        gx_qr_begin_scratch(run, A->rows, n, dtype, tile_rows, tile_cols, 0, &V);
    }
    gx_sink_begin_scratch(run, n, n, dtype, 0, &top);
    if (gx_ok(run)) {
        gx_plan_tsqr(run, A->rows, n, Q != NULL ? n : 0, dtype, &plan);
    }
    *is_done = plan.is_possible && !top.is_stored;
    if (*is_done && gx_dense_alloc(run, dtype, Q == NULL ? 0 : plan.blocks * n, 1,
                                   "scalars of reflectors", &tau) == GX_OK) {
        gx_tsqr_args args = {.A = A, .R = &top, .V = Q == NULL ? NULL : &V, .tau = tau};
        gx_alg_tsqr(run, &args, &plan);
        gx_sink_source(&top, "R", &source);
        if (R != NULL && gx_ok(run)) {
            gx_copy_to_sink(run, &source, R);
        }
    }
    gx_sink_drop(&top); // before Q takes its memory
    if (*is_done && Q != NULL && gx_ok(run)) {
        form_by_tree(run, &V, tau, &plan, Q);
    }
    gx_mem_free(run->ctx->mem, tau);
    gx_sink_drop(&V);
    return run->err.code;
}

gx_code gx_alg_qr_parts(gx_run *run, const gx_mat *A, gx_sink *Q, gx_sink *R)
{
    if (!gx_ok(run)) {
        return run->err.code;
    }
    int64_t k = gx_min(A->rows, A->cols);
    gx_number dtype = R != NULL ? R->number : Q->number;
    bool is_full = R != NULL ? R->rows > k : Q->cols > k;
    bool is_tall = k > 0 && (Q == NULL ? A->rows >= 2 * A->cols
                                       : gx_plan_prefers_tsqr(run, A->rows, A->cols, dtype));
    bool is_done = false;
    if (is_tall && !is_full) {
        by_tree(run, A, dtype, Q, R, &is_done);
    }
    return is_done || !gx_ok(run) ? run->err.code : by_panels(run, A, dtype, Q, R);
}
