/*
** LU with partial pivoting, P A = L U, of matrices of any size and shape.
**
** Left-looking over panels, which are w columns as high as the matrix:
**
**   for each panel j:
**       for each panel k < j:                                r = k w, the rows below: r + w ...
**           rows of F[:,j] exchanged by the pivots of panel k          LASWP
**           F[r:r+w, j]  = L[k,k]^-1 F[r:r+w, j]                       TRSM
**           F[r+w:, j]  -= F[r+w:, k] F[r:r+w, j]                      GEMM
**       P F[r:, j] = L U, r = j w, with partial pivoting               GETRF
**
** A panel reads A's columns once and is written once, when it is finished; so the exchanges of
** later panels are not made in it.  F is therefore "interleaved" (docs/format.md): each panel of L
** has its rows in the order in which they were when it was finished.  Where A fits in one panel F
** is just what LAPACK's getrf returns.  That is the lazy form of pivoting of out-of-core LU (Toledo
** & Gustavson, "The design and implementation of SOLAR", 1996; D'Azevedo & Dongarra, "The design
** and implementation of the parallel out-of-core ScaLAPACK LU, QR and Cholesky factorization
** routines", 1997).
**
** Memory: a group of panels stays while the finished ones pass by, from their diagonals down, each
** once a group; with S words of memory that is about n^4 / (3 S) words of an n x n matrix.  When
** everything fits nothing is read again, and finished panels are written while the next compute.
** At the least two panels of one column.
**
** Kernels multiply by the reciprocal of a pivot, which is infinite where that is subnormal.  The
** first such pivot is still right, and found on the diagonal of F: then all is done again by the
** reference's kernels, which divide.
**
** The 1-norm of A goes by: the sums of each panel's columns are taken when it has been read.
**
** Of L as a matrix the rows of panel k are still to be exchanged by the pivots of all later panels;
** those of U were final when their panel was finished.
**
** Wide matrices have panels without pivots, tall ones rows without: both are the loops above with
** some of them empty.  NaN and Inf flow as IEEE 754 says.
*/
#include "alg_lu.h"

#include "../mat/simple.h"
#include "../run/call.h"
#include "alg_qr.h"
#include "dense.h"
#include "probe.h"

#include <math.h>

// The program -------------------------------------------------------------------------------------

typedef struct lu {
    gx_prog *prog;
    const gx_lu_plan *plan;
    const gx_opnd *F;
    gx_aux *aux;
    int64_t panels;   /* of F                               */
    int64_t factored; /* of these: those that have pivots   */
} lu;

/* Columns of panel j. */
static int64_t width_of(const lu *x, int64_t j)
{
    return gx_min(x->plan->panel, x->plan->n - j * x->plan->panel);
}

/* Pivots of panel k. */
static int64_t pivots_of(const lu *x, int64_t k)
{
    return gx_min(width_of(x, k), x->plan->m - k * x->plan->panel);
}

/* What the finished panel k does to panel j. */
static void apply(const lu *x, int64_t k, int64_t j)
{
    int64_t r = k * x->plan->panel, p = pivots_of(x, k), wide = width_of(x, j);
    int64_t below = x->plan->m - r - p;
    gx_block top = gx_blk_part(x->F, 0, j, r, 0, p, wide);
    gx_prog_call(x->prog, &(gx_call){.kernel = GX_LASWP,
                                     .c = gx_blk_part(x->F, 0, j, r, 0, x->plan->m - r, wide),
                                     .keeps_c = true,
                                     .pivots = x->aux->pivots + r,
                                     .pivot_last = p});
    gx_prog_call(x->prog, &(gx_call){.kernel = GX_TRSM,
                                     .side = GX_LEFT,
                                     .uplo = GX_LOWER,
                                     .diag = GX_UNIT,
                                     .alpha = GX_ONE,
                                     .a = gx_blk_part(x->F, 0, k, r, 0, p, p),
                                     .c = top,
                                     .keeps_c = true});
    if (below > 0) {
        gx_prog_call(x->prog, &(gx_call){.kernel = GX_GEMM,
                                         .alpha = GX_MINUS_ONE,
                                         .beta = GX_ONE,
                                         .a = gx_blk_part(x->F, 0, k, r + p, 0, below, p),
                                         .b = top,
                                         .c = gx_blk_part(x->F, 0, j, r + p, 0, below, wide),
                                         .keeps_c = true});
    }
}

/* Sums of |a| down the columns of panel j, which is still A's. */
static void sum_columns(const lu *x, int64_t j, double *sums)
{
    gx_block panel = gx_blk(x->F, 0, j);
    gx_prog_call(x->prog, &(gx_call){.kernel = GX_REDUCE,
                                     .reduce_kind = GX_REDUCE_COL_ABS,
                                     .reduce = sums + j * x->plan->panel,
                                     .a = panel,
                                     .c = panel,
                                     .keeps_c = true});
}

/* The panel's own factorisation; its pivots are counted from its first row until finish(). */
static void factor(const lu *x, int64_t j)
{
    int64_t r = j * x->plan->panel;
    gx_prog_call(x->prog,
                 &(gx_call){.kernel = GX_GETRF,
                            .c = gx_blk_part(x->F, 0, j, r, 0, x->plan->m - r, width_of(x, j)),
                            .keeps_c = true,
                            .pivots = x->aux->pivots + r,
                            .info_base = r});
}

/* Panels j0 .. j1 - 1, which stay in memory. */
static void factor_group(const lu *x, int64_t j0, int64_t j1, double *sums)
{
    for (int64_t j = j0; j < j1 && j0 > 0; j++) {
        sum_columns(x, j, sums);
        apply(x, 0, j); // at once, so that the next panel is read while this one computes
    }
    for (int64_t k = 1; k < gx_min(j0, x->factored); k++) {
        for (int64_t j = j0; j < j1; j++) {
            apply(x, k, j);
        }
    }
    for (int64_t j = j0; j < j1; j++) {
        if (j0 == 0) {
            sum_columns(x, j, sums);
        }
        for (int64_t k = j0; k < gx_min(j, x->factored); k++) {
            apply(x, k, j);
        }
        if (j < x->factored) {
            factor(x, j);
        }
    }
}

/* GETRF reports in the order of the steps: the first zero pivot is the one to keep. */
static gx_code note_zero_pivot(void *arg, int64_t info, gx_err *err)
{
    gx_aux *aux = arg;
    (void)err;
    aux->info = aux->info == 0 ? info : aux->info;
    return GX_OK;
}

gx_prog *gx_lu_program(gx_run *run, const gx_mat *A, const gx_lu_plan *plan, gx_sink *F,
                       gx_aux *aux, double *sums)
{
    lu x = {.plan = plan, .aux = aux, .panels = gx_ceil_div(plan->n, plan->panel)};
    x.factored = gx_min(x.panels, gx_ceil_div(gx_min(plan->m, plan->n), plan->panel));
    int64_t pairs = x.factored * (x.factored - 1) / 2 + (x.panels - x.factored) * x.factored;
    if (gx_prog_create(run, 3 * pairs + 2 * x.panels, &x.prog) != GX_OK) {
        return NULL;
    }
    gx_prog_expect_parts(x.prog, 3 * pairs + 2 * x.panels);
    x.F = gx_prog_operand(x.prog, A, F, plan->dtype, plan->m, plan->n, gx_max(1, plan->m),
                          plan->panel);
    gx_prog_again_below(x.prog, x.F);
    gx_prog_cut(x.prog, &plan->cut);
    gx_prog_lookahead(x.prog, plan->lookahead);
    gx_prog_on_info(x.prog, note_zero_pivot, aux);
    if (plan->m == 0) {
        return x.prog;
    }
    for (int64_t j = 0; j < x.panels && gx_ok(run); j += plan->group) {
        factor_group(&x, j, gx_min(j + plan->group, x.panels), sums);
    }
    return x.prog;
}

// The driver --------------------------------------------------------------------------------------

/* Pivots counted from row 0; the largest sum is the norm, unless one is no number. */
static void finish(const gx_lu_plan *plan, const double *sums, gx_aux *aux)
{
    for (int64_t j = 0; j < aux->count; j++) {
        aux->pivots[j] += j / plan->panel * plan->panel;
    }
    aux->norm1 = 0;
    for (int64_t j = 0; j < plan->n && plan->m > 0; j++) {
        aux->norm1 = sums[j] > aux->norm1 || isnan(sums[j]) ? sums[j] : aux->norm1;
    }
}

/* The factorisation against A (probe.c). */
static void check_factor(gx_run *run, const gx_mat *A, const gx_lu_plan *plan, const gx_sink *F,
                         const gx_aux *aux)
{
    double m = (double)plan->m, n = (double)plan->n;
    double bytes = m * n * (double)gx_number_bytes(plan->dtype);
    double flops = 2 * m * n * fmin(m, n) / 3 * (gx_number_is_complex(plan->dtype) ? 4 : 1);
    gx_mat factor;
    if (gx_ok(run) && gx_probe_is_due(run, plan->dtype, flops, bytes, 3 * m * n, 3 * bytes)) {
        gx_sink_source(F, "the factor", &factor);
        gx_probe_lu(run, A, &factor, aux);
    }
}

/* Is one of count pivots at x, x + step, ... (in elements) subnormal? */
static bool is_subnormal(gx_number dtype, const void *x, int64_t step, int64_t count)
{
    bool is_found = false;
    for (int64_t i = 0; i < count; i++) {
        gx_scalar pivot = gx_number_get(dtype, x, i * step);
        double size = fmax(fabs(pivot.re), fabs(pivot.im));
        is_found = is_found || (size > 0 && size < gx_number_least(dtype));
    }
    return is_found;
}

static bool has_subnormal_pivot(gx_run *run, const gx_sink *F)
{
    gx_mat factor;
    void *diagonal = NULL;
    bool is_found = false;
    int64_t count = gx_min(F->rows, F->cols);
    if (!gx_ok(run) || F->is_dropped) {
        return false;
    }
    gx_sink_source(F, "the factor", &factor);
    if (gx_gather_diagonal(run, &factor, 0, count, F->number, &diagonal) == GX_OK) {
        is_found = is_subnormal(F->number, diagonal, 1, count);
    }
    gx_mem_free(run->ctx->mem, diagonal);
    return is_found;
}

gx_code gx_lu_in_memory(gx_run *run, gx_number dtype, int64_t n, void *(*load)(void *arg),
                        void *arg, int64_t *pivots, int64_t *info)
{
    gx_args args = {.m = n, .n = n, .ldc = gx_max(1, n), .pivots = pivots, .info = info};
    args.c = gx_ok(run) ? load(arg) : NULL;
    gx_run_call(run, GX_GETRF, dtype, &args);
    if (gx_ok(run) && is_subnormal(dtype, args.c, n + 1, n)) {
        args.c = load(arg);
        run->is_careful = true;
        gx_run_call(run, GX_GETRF, dtype, &args);
        run->is_careful = false;
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* What build_lu() is told. */
typedef struct build_args {
    const gx_mat *A;
    gx_sink *F;
    gx_aux *aux;
    double *sums;
    gx_lu_plan plan[2]; /* of the host, of the device: the same panels */
} build_args;

static gx_prog *build_lu(gx_run *run, void *arg)
{
    build_args *b = arg;
    gx_lu_plan *plan = &b->plan[run->target != NULL];
    gx_plan_lu_again(run, b->aux, b->F, plan);
    return gx_ok(run) ? gx_lu_program(run, b->A, plan, b->F, b->aux, b->sums) : NULL;
}

gx_code gx_alg_lu(gx_run *run, const gx_mat *A, gx_sink *F, gx_aux *aux)
{
    if (!gx_ok(run)) {
        return run->err.code;
    }
    void *sums = gx_run_calloc(run, (size_t)A->cols * sizeof(double), "sums of columns");
    if (sums == NULL) {
        return run->err.code;
    }
    build_args b = {.A = A, .F = F, .aux = aux, .sums = sums};
    gx_args size = {.m = F->rows, .n = F->cols};
    double flops = gx_kernel_flops(GX_GETRF, F->number, &size);
    gx_place_run(run, flops, F->number, build_lu, &b);
    if (has_subnormal_pivot(run, F)) {
        run->is_careful = true;
        aux->info = 0;
        gx_place_run(run, flops, F->number, build_lu, &b);
        run->is_careful = false;
    }
    if (gx_ok(run)) {
        finish(&b.plan[0], sums, aux);
    }
    gx_mem_free(run->ctx->mem, sums);
    check_factor(run, A, &b.plan[0], F, aux);
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* The panel, in what is left when the pivots, the sums and the sink are there. */
static void plan_beside(gx_run *run, int64_t m, int64_t n, gx_number dtype, gx_lu_plan *plan)
{
    size_t opened = ((size_t)8 << 10) + 2 * (size_t)gx_min(m, n) * sizeof(int64_t);
    gx_err err = {0};
    bool is_held = gx_mem_reserve(run->ctx->mem, opened, "a factor's lists", &err) == GX_OK;
    gx_plan_lu(run, m, n, dtype, plan);
    if (is_held) {
        gx_mem_return(run->ctx->mem, opened);
    }
}

/*
** Choose the panel for an intermediate, which is in memory where half of its size is left beside
** it.  *keep: what gx_sink_begin_scratch() is to leave.
*/
static void plan_scratch(gx_run *run, int64_t m, int64_t n, gx_number dtype, gx_lu_plan *plan,
                         size_t *keep)
{
    const size_t LISTS = (size_t)256 << 10; // of a small program, generously
    gx_mem *mem = run->ctx->mem;
    gx_err err = {0};
    size_t bytes = 0, left = gx_mem_available(mem);
    bool fits = left > LISTS && gx_matrix_bytes(m, n, dtype, &bytes) &&
                bytes < (left - LISTS) / 3 * 2 &&
                gx_mem_reserve(mem, bytes, "a factor", &err) == GX_OK;
    plan_beside(run, m, n, dtype, plan);
    if (fits) {
        gx_mem_return(mem, bytes);
        size_t panels = 3 * (size_t)(m * plan->panel) * gx_number_bytes(dtype);
        if (bytes + panels + LISTS > left) { // panels of a fixed width may be large beside it
            fits = false;
            plan_beside(run, m, n, dtype, plan);
        }
    }
    *keep = fits ? bytes / 4 : left;
}

gx_code gx_alg_lu_begin_scratch(gx_run *run, int64_t m, int64_t n, gx_number dtype, gx_sink *F,
                                gx_aux *aux)
{
    *aux = (gx_aux){.kind = GX_AUX_NONE};
    *F = (gx_sink){.run = NULL};
    gx_lu_plan plan;
    gx_err err = {0};
    size_t keep;
    if (!gx_ok(run)) {
        return run->err.code;
    }
    plan_scratch(run, m, n, dtype, &plan, &keep);
    if (gx_ok(run) &&
        gx_aux_create(run->ctx->mem, GX_AUX_LU, m, n, dtype, plan.panel, aux, &err) != GX_OK) {
        gx_run_fail(run, &err);
    }
    return gx_sink_begin_scratch_tiles(run, m, n, dtype, keep, plan.tile_rows, plan.tile_cols, F);
}

gx_code gx_alg_lu_scratch(gx_run *run, const gx_mat *A, gx_number dtype, gx_sink *F, gx_aux *aux)
{
    gx_alg_lu_begin_scratch(run, A->rows, A->cols, dtype, F, aux);
    return gx_alg_lu(run, A, F, aux);
}

// L, U and P as matrices of their own -------------------------------------------------------------

/*
** Columns of L are a strip as high as the matrix, since exchanges reach from end to end: a panel,
** or the largest half, quarter, ... of it of which two fit.
*/
static int64_t strip_width(gx_run *run, const gx_aux *aux)
{
    size_t available = gx_mem_available(run->ctx->mem);
    size_t column = (size_t)gx_max(1, aux->rows) * gx_number_bytes(aux->dtype);
    int64_t width = aux->panel;
    while (width > 1 && width % 2 == 0 && 4 * (size_t)width * column > available) {
        width /= 2;
    }
    return width;
}

void gx_lu_part_tiles(gx_run *run, const gx_aux *aux, int64_t rows, int64_t cols,
                      int64_t *tile_rows, int64_t *tile_cols)
{
    int64_t elements =
        (int64_t)(gx_store_max_tile_bytes(run->ctx->store) / gx_number_bytes(aux->dtype));
    int64_t wide = strip_width(run, aux);
    while (wide > 1 && wide > elements / gx_max(1, gx_min(wide, rows))) {
        wide = wide % 2 == 0 ? wide / 2 : 1;
    }
    *tile_cols = gx_max(1, gx_min(wide, cols));
    *tile_rows = gx_max(1, gx_min(elements / *tile_cols, rows));
}

/* Columns [first, first + cols) of L, which are one strip of C. */
static void make_lower(gx_prog *prog, const gx_aux *aux, gx_block from, gx_block to, int64_t first,
                       int64_t cols)
{
    int64_t m = aux->rows, last = (first / aux->panel + 1) * aux->panel;
    from.part = (gx_part){0, 0, m, cols};
    gx_prog_call(prog, &(gx_call){.kernel = GX_COPY, .a = from, .c = to});
    if (last < aux->count) {
        gx_prog_call(prog, &(gx_call){.kernel = GX_LASWP,
                                      .c = to,
                                      .keeps_c = true,
                                      .pivots = aux->pivots,
                                      .pivot_first = last,
                                      .pivot_last = aux->count});
    }
    gx_block triangle = to, above = to;
    triangle.part = (gx_part){first, 0, m - first, cols};
    above.part = (gx_part){0, 0, first, cols};
    gx_prog_call(prog, &(gx_call){.kernel = GX_TRIANGLE,
                                  .uplo = GX_LOWER,
                                  .diag = GX_UNIT,
                                  .a = triangle,
                                  .c = triangle,
                                  .keeps_c = true});
    if (first > 0) {
        gx_prog_call(prog, &(gx_call){.kernel = GX_FILL, .c = above, .keeps_c = true});
    }
}

gx_code gx_alg_lu_part(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_lu_part part, gx_sink *C)
{
    gx_prog *prog;
    if (part == GX_LU_UPPER) {
        return gx_alg_qr_r(run, F, C); // what is on and above the diagonal, as of any factor
    }
    if (!gx_ok(run) || C->rows == 0 || C->cols == 0) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    int64_t width = strip_width(run, aux);
    if (C->is_stored && width % C->tile_cols != 0 && width < C->cols) {
        width = C->tile_cols; // the budget has changed since the sink was begun
    }
    int64_t strips = gx_ceil_div(C->cols, width);
    if (gx_prog_create(run, 4 * strips, &prog) != GX_OK) {
        return run->err.code;
    }
    const gx_opnd *from =
        gx_prog_operand(prog, F, NULL, C->number, F->rows, F->cols, F->rows, width);
    const gx_opnd *to = gx_prog_operand(prog, NULL, C, C->number, C->rows, C->cols, C->rows, width);
    for (int64_t s = 0; s < strips && gx_ok(run); s++) {
        int64_t first = s * width, cols = gx_min(width, C->cols - first);
        make_lower(prog, aux, gx_blk(from, 0, s), gx_blk(to, 0, s), first, cols);
    }
    gx_prog_run(prog);
    gx_prog_free(prog);
    return run->err.code;
}

void gx_lu_order(const gx_aux *aux, int64_t *order)
{
    for (int64_t i = 0; i < aux->rows; i++) {
        order[i] = i;
    }
    for (int64_t j = 0; j < aux->count; j++) {
        int64_t other = aux->pivots[j], moved = order[j];
        order[j] = order[other];
        order[other] = moved;
    }
}

bool gx_lu_is_odd(const gx_aux *aux)
{
    bool is_odd = false;
    for (int64_t j = 0; j < aux->count; j++) {
        is_odd ^= aux->pivots[j] != j;
    }
    return is_odd;
}
