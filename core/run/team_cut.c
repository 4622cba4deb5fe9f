/*
** One kernel call cut into pieces for the team: see team_int.h, and gx_team_call() of team.h.
**
** The result c is cut by a grid of um x un elements; every piece is one cell, computed by one
** member.  Products also cut the inner dimension at uk: one piece runs its k steps one after the
** other, ascending, the first with the caller's beta and the others with beta = 1.
**
**   GEMM        cells of c
**   SYRK, HERK  cells of the triangle, un x un: on the diagonal by the same kernel, off it by
**               GEMM of the same operand, which is the same product without the symmetry
**   SYMMETRIZE  cells of the triangle: on the diagonal by the same kernel, off it a TRANSPOSE
**   TRSM, TRMM  of a small triangle: columns of c on the left, rows on the right
**   LASWP, TRIANGLE and elementwise  columns, about PIECE_BYTES each
**   FUSED       the same, without folds; each member has a workspace of its own
**   COMBINE     rows
**
** Factorisations, and triangles past GX_TRIANGLE_LEAF, are broken down into such calls by
** team_solve.c and team_qr.c, above this file.
**
** A small c with a long inner dimension (the covariance of a tall matrix) has too few cells for a
** team.  A free cut then slices k: slice 0 works on c, the others on partial results of their own,
** slices - 1 matrices of c's size taken from the memory governor, which are added to c in order at
** the end.  Where the governor refuses, k stays whole.
**
** Fixed: the grid is the caller's units (or FIXED_*), whatever the team, so each cell sees the
** same kernel calls with the same operands and gives the same bits.  Otherwise the grid follows
** the team: an even share of wide pieces (FREE_N), and no step longer than about 0.1 s at 20
** GFLOP/s.
**
** The reference backend's loops are SLOWER than that, so its cells are SLOW_SIDE at most, and its
** steps shorter: an interrupt waits for one.  Its sums do not depend on the cells, but on the steps
** of k, which a fixed cut leaves as they are.
**
** Little work (SMALL_S) stays with the caller, uncut unless the cut is fixed.
*/
#include "../base/triangle.h"
#include "team_int.h"

/*
** Units of a fixed cut: 0.5 GFLOP a step, 27 ms at 20 GFLOP/s.  Complex ones have half the sides m
** and k.
*/
enum { FIXED_M = 1024, FIXED_N = 256, FIXED_K = 1024 };

/* Floor of a piece of a product when a small result is shared out: below it dgemm slows down. */
enum { FLOOR_M = 128, FLOOR_N = 64 };

/* The most columns (rows) of c in one piece of a TRSM or TRMM: some 10 ms. */
enum { LINES_MAX = 1024 };

/*
** A free cut: the longest side of a cell, its least width, the shortest step of k, and the pieces
** per member up to which an uneven share is cut finer.  BLAS packs b once for each row of cells and
** a once for each column of them, while it works through k in pieces of about FREE_K anyway: what
** makes a step short is k first, then n.  A product 2500^3 on one core took, beside an uncut one,
** 1.12 in cells of 848 x 1256 and steps of 640, 1.03 of 2500 x 1256 and 368.
*/
enum { FREE_SIDE = 2560, FREE_N = 256, FREE_K = 320, PIECES_PER_MEMBER = 4 };

/* What a free cut assumes of one core, to bound the time of a step: a slow one, in f64. */
static const double FLOPS_PER_S = 20e9;
static const double BYTES_PER_S = 4e9;
static const double STEP_S = 0.11; // 1024 x 1024 x 1024
static const double STEPS_PER_S = 1e9; // of constraints

/* The reference: so many times slower; sides of its cells, the least step of k. */
enum { SLOWER = 64, SLOW_SIDE = 128, SLOW_K = 64 };

/* Work that is done before another thread has woken up. */
static const double SMALL_S = 50e-6;

/* The shortest slice of k: adding up the partial results is then a few percent of the work. */
enum { SLICE_K = 2048 };

/* The largest c whose inner dimension is sliced, in elements. */
enum { SLICED_MAX = 512 * 512 };

/* Elementwise pieces: far more than waking costs, far less than 50 ms. */
static const int64_t PIECE_BYTES = 1 << 20;

/* Side of the pieces of a transpose. */
enum { TRANSPOSE_SIDE = 512 };

/* Rows of a piece of constraints. */
enum { COMBINE_ROWS = 4096 };

typedef struct job {
    gx_team *team;
    const gx_backend *backend;
    gx_kernel_id kernel;
    gx_number dtype;
    const gx_args *args;
    gx_kernel run; /* the kernel itself            */
    gx_kernel off; /* cells off the diagonal       */
    gx_kernel add; /* of partial results           */
    gx_dev *dev;
    int64_t m, n;       /* of c                         */
    int64_t um, un, uk; /* the grid                     */
    int64_t rows, cols; /* of the grid                  */
    int64_t cells;      /* of the grid                  */
    int64_t slices, ks; /* of k: how many, how long     */
    void *partial;      /* slices - 1 matrices m x n    */
    char *work;         /* of all members               */
    size_t work_bytes;  /* of a member                  */
    bool is_triangle;   /* SYRK, HERK, SYMMETRIZE       */
} job;

// Pieces ------------------------------------------------------------------------------------------

/* Element (i, j) of a matrix that may be absent. */
static void *at(const job *w, const void *base, int64_t ld, int64_t i, int64_t j)
{
    return base == NULL ? NULL : gx_at(base, w->dtype, ld, i, j);
}

static const void *at_op(const job *w, gx_trans trans, const void *base, int64_t ld, int64_t i,
                         int64_t j)
{
    return trans == GX_NO_TRANS ? at(w, base, ld, i, j) : at(w, base, ld, j, i);
}

/* Row and column of a piece in the grid; the triangle is counted down its columns. */
static void locate(const job *w, int64_t piece, int64_t *row, int64_t *col)
{
    if (!w->is_triangle) {
        *row = piece % w->rows;
        *col = piece / w->rows;
        return;
    }
    int64_t j = 0;
    while (piece >= w->rows - j) {
        piece -= w->rows - j;
        j++;
    }
    bool is_lower = w->args->uplo == GX_LOWER;
    *row = is_lower ? j + piece : j;
    *col = is_lower ? j : j + piece;
}

/* The slice of k that a piece works on, [from, to); empty when k is 0. */
typedef struct range {
    int64_t from, to;
} range;

/* The steps of one cell over its slice of k; a and b of the cell are those of k = 0. */
static gx_code run_steps(const job *w, gx_kernel kernel, gx_args *cell, range k, int member,
                         gx_err *err)
{
    const void *a = cell->a, *b = cell->b;
    for (int64_t l = k.from; l == k.from || l < k.to; l += w->uk) {
        if (l > k.from) {
            if (!gx_team_continues(w->team, member)) {
                return GX_OK; // the failure is known to the team
            }
            cell->beta = (gx_scalar){1, 0};
        }
        cell->a = at_op(w, cell->transa, a, cell->lda, 0, l);
        cell->b = at_op(w, cell->transb, b, cell->ldb, l, 0);
        cell->k = gx_min(w->uk, k.to - l);
        GX_TRY(kernel(w->dev, NULL, cell, err));
    }
    return GX_OK;
}

/* Cell (i, j) of c, or of a partial result. */
static gx_code run_product(const job *w, gx_args *cell, int64_t i, int64_t j, int64_t slice,
                           int member, gx_err *err)
{
    const gx_args *p = w->args;
    range k = {slice * w->ks, gx_min(p->k, (slice + 1) * w->ks)};
    if (slice > 0) {
        cell->c = at(w, w->partial, w->m, i, (slice - 1) * w->n + j);
        cell->ldc = w->m;
        cell->beta = (gx_scalar){0, 0};
    }
    cell->a = at_op(w, p->transa, p->a, p->lda, i, 0);
    if (w->kernel == GX_GEMM) {
        cell->b = at_op(w, p->transb, p->b, p->ldb, 0, j);
        return run_steps(w, w->run, cell, k, member, err);
    }
    cell->b = NULL;
    if (i == j) {
        return run_steps(w, w->run, cell, k, member, err);
    }
    gx_trans across = w->kernel == GX_HERK ? GX_CONJ_TRANS : GX_TRANS;
    cell->transb = p->transa == GX_NO_TRANS ? across : GX_NO_TRANS;
    cell->b = at_op(w, cell->transb, p->a, p->lda, 0, j);
    cell->ldb = p->lda;
    if (w->kernel == GX_HERK) {
        cell->alpha.im = cell->beta.im = 0;
    }
    return run_steps(w, w->off, cell, k, member, err);
}

/* Columns j .. j+n-1 of a triangle: beyond the diagonal it is all zeros, or all of a. */
static gx_code run_triangle(const job *w, const gx_args *cell, int64_t j, gx_err *err)
{
    int64_t above = gx_min(j, cell->m);
    gx_args part = *cell;
    part.m = above;
    part.alpha = (gx_scalar){0, 0};
    gx_kernel_id kernel = part.uplo == GX_LOWER ? GX_FILL : GX_COPY;
    if (above > 0 && (kernel == GX_FILL || part.a != part.c)) {
        GX_TRY(w->backend->kernel[kernel][w->dtype](w->dev, NULL, &part, err));
    }
    part.m = cell->m - above;
    part.a = at(w, cell->a, cell->lda, above, 0);
    part.c = at(w, cell->c, cell->ldc, above, 0);
    return w->run(w->dev, NULL, &part, err);
}

static gx_fused_place place_at(const gx_fused_place *from, gx_number dtype, int64_t i, int64_t j)
{
    gx_fused_place to = *from;
    to.data = gx_at(from->data, dtype, 1, i * from->row + j * from->col, 0);
    return to;
}

static gx_code run_fused(const job *w, gx_args *cell, int64_t i, int64_t j, gx_err *err)
{
    gx_fused_place in[GX_FUSED_INPUTS], out[GX_FUSED_OUTPUTS];
    const gx_fused *f = cell->fused;
    for (int k = 0; k < f->inputs; k++) {
        in[k] = place_at(&w->args->in[k], w->dtype, i, j);
    }
    for (int k = 0; k < f->outputs; k++) {
        gx_number dtype = f->output[k].is_real ? gx_number_real(w->dtype) : w->dtype;
        out[k] = place_at(&w->args->out[k], dtype, i, j);
    }
    cell->in = in;
    cell->out = out;
    return w->run(w->dev, NULL, cell, err);
}

/* One cell of the grid. */
static gx_code run_cell(void *arg, int64_t piece, int member, gx_err *err)
{
    const job *w = arg;
    const gx_args *p = w->args;
    int64_t row, col;
    locate(w, piece % w->cells, &row, &col);
    int64_t i = row * w->um, j = col * w->un;
    gx_args cell = *p;
    cell.m = gx_min(w->um, w->m - i);
    cell.n = gx_min(w->un, w->n - j);
    cell.c = at(w, p->c, p->ldc, i, j);
    cell.work = w->work_bytes > 0 ? w->work + (size_t)member * w->work_bytes : p->work;

    switch (w->kernel) {
    case GX_GEMM:
    case GX_SYRK:
    case GX_HERK:
        return run_product(w, &cell, i, j, piece / w->cells, member, err);
    case GX_SYMMETRIZE:
        if (i == j) {
            return w->run(w->dev, NULL, &cell, err);
        }
        cell.a = cell.c;
        cell.lda = p->ldc;
        cell.c = at(w, p->c, p->ldc, j, i);
        cell.m = gx_min(w->un, w->n - j);
        cell.n = gx_min(w->um, w->m - i);
        cell.transa = p->transa == GX_CONJ_TRANS ? GX_CONJ_TRANS : GX_TRANS;
        return w->off(w->dev, NULL, &cell, err);
    case GX_TRANSPOSE:
        cell.a = at_op(w, p->transa, p->a, p->lda, i, j);
        return w->run(w->dev, NULL, &cell, err);
    case GX_TRSM:
    case GX_TRMM:
    case GX_LASWP:
        return w->run(w->dev, NULL, &cell, err);
    case GX_TRIANGLE:
        cell.a = at(w, p->a, p->lda, i, j);
        return run_triangle(w, &cell, j, err);
    case GX_FUSED:
        return run_fused(w, &cell, i, j, err);
    case GX_COMBINE:
        cell.first_row = p->first_row + i;
        return w->run(w->dev, NULL, &cell, err);
    default:
        cell.a = at(w, p->a, p->lda, i, j);
        cell.b = at(w, p->b, p->ldb, i, j);
        return w->run(w->dev, NULL, &cell, err);
    }
}

// The grid ----------------------------------------------------------------------------------------

static bool is_product(gx_kernel_id kernel)
{
    return kernel == GX_GEMM || kernel == GX_SYRK || kernel == GX_HERK;
}

/* Whose operand is a triangle and whose c is cut along the other side. */
static bool is_triangular(gx_kernel_id kernel)
{
    return kernel == GX_TRSM || kernel == GX_TRMM;
}

static bool is_slow(const job *w)
{
    return w->backend == &gx_backend_ref;
}

/*
** Seconds that m x n x k of a product takes on one slow core: arithmetic or memory, whichever is
** more.
*/
static double product_s(const job *w, int64_t m, int64_t n, int64_t k)
{
    double flops = (gx_number_is_complex(w->dtype) ? 8.0 : 2.0) * (double)m * (double)n * (double)k;
    double elements = (double)m * (double)k + (double)k * (double)n + (double)m * (double)n;
    double bytes = elements * (double)gx_number_bytes(w->dtype);
    double rate = gx_number_real(w->dtype) == GX_F32 ? 2 * FLOPS_PER_S : FLOPS_PER_S;
    rate /= is_slow(w) ? SLOWER : 1;
    double compute_s = flops / rate, memory_s = bytes / BYTES_PER_S;
    return compute_s > memory_s ? compute_s : memory_s;
}

static int64_t cells(const job *w)
{
    int64_t rows = gx_ceil_div(w->m, w->um), cols = gx_ceil_div(w->n, w->un);
    return w->is_triangle ? rows * (rows + 1) / 2 : rows * cols;
}

/*
** Pieces of even size: the largest multiple of step that cuts total into as many parts as unit
** does.
*/
static int64_t even(int64_t total, int64_t unit, int64_t step)
{
    if (unit >= total) {
        return gx_max(total, 1);
    }
    int64_t parts = gx_ceil_div(total, unit);
    return gx_ceil_div(gx_ceil_div(total, parts), step) * step;
}

/* True while some members would have nothing to do, or clearly less than others. */
static bool is_uneven(int64_t count, int64_t threads)
{
    return count < threads || (count < threads * PIECES_PER_MEMBER && count % threads != 0);
}

/* Halve the cells until there are enough for the team, but not below floor_m x floor_n. */
static void refine(job *w, int64_t floor_m, int64_t floor_n)
{
    int64_t threads = gx_team_workers(w->team);
    while (is_uneven(cells(w), threads) && (w->un > floor_n || w->um > floor_m)) {
        bool halves_n = w->un > floor_n && (w->un * 4 > w->um || w->um <= floor_m);
        if (w->is_triangle) {
            w->un = w->um = gx_ceil_div(w->un, 2);
        } else if (halves_n) {
            w->un = gx_ceil_div(w->un, 2);
        } else {
            w->um = gx_ceil_div(w->um, 2);
        }
    }
}

/* Too few cells, and an inner dimension long enough: one slice of k for each missing cell. */
static void slice(job *w)
{
    int64_t wanted = gx_team_workers(w->team);
    int64_t slices = gx_min(gx_ceil_div(wanted, cells(w)), w->args->k / SLICE_K);
    void *partial;
    if (slices < 2 || w->add == NULL || w->m > SLICED_MAX / w->n ||
        gx_mem_alloc(gx_team_mem(w->team),
                     (size_t)((slices - 1) * w->m * w->n) * gx_number_bytes(w->dtype),
                     "partial products", &partial, NULL) != GX_OK) {
        return;
    }
    w->partial = partial;
    w->slices = slices;
    w->ks = gx_ceil_div(w->args->k, slices);
}

static void cut_product_freely(job *w)
{
    int64_t side = FREE_SIDE / (gx_number_is_complex(w->dtype) ? 2 : 1);
    int64_t least_k = is_slow(w) ? SLOW_K : FREE_K;
    side = is_slow(w) ? 2 * SLOW_SIDE : side;
    w->um = gx_max(gx_min(w->m, w->is_triangle ? side / 2 : side), 1);
    w->un = gx_max(gx_min(w->n, w->is_triangle ? side / 2 : side), 1);
    double step_s = product_s(w, w->um, w->un, gx_min(w->ks, least_k));
    if (step_s > STEP_S) {
        w->un = gx_max((int64_t)((double)w->un * STEP_S / step_s), FREE_N);
    }
    if (gx_team_workers(w->team) > 1) {
        refine(w, 2 * FLOOR_M, 2 * FLOOR_N);
        slice(w);
        if (w->slices == 1) {
            refine(w, FLOOR_M, FLOOR_N);
        }
    }
    w->um = even(w->m, w->um, 16);
    w->un = w->is_triangle ? w->um : even(w->n, w->un, 8);
    w->uk = w->ks;
    while (w->uk > least_k && product_s(w, w->um, w->un, w->uk) > STEP_S) {
        w->uk = gx_ceil_div(w->uk, 2);
    }
    w->uk = even(w->ks, w->uk, 16);
}

static void cut_product_fixed(job *w, const gx_cut *cut)
{
    int half = gx_number_is_complex(w->dtype) ? 2 : 1;
    w->um = cut->m > 0 ? cut->m : FIXED_M / half;
    w->un = cut->n > 0 ? cut->n : FIXED_N;
    w->uk = cut->k > 0 ? cut->k : FIXED_K / half;
    if (is_slow(w)) {
        w->um = gx_min(w->um, SLOW_SIDE);
        w->un = gx_min(w->un, SLOW_SIDE);
    }
    if (w->is_triangle) {
        w->um = w->un; // the triangle has one unit for both sides
    }
}

/* Columns of c on the left, rows on the right: an even share of at most LINES_MAX. */
static void cut_lines(job *w, const gx_cut *cut)
{
    bool is_left = w->args->side == GX_LEFT, is_fixed = cut != NULL && cut->is_fixed;
    int64_t lines = is_left ? w->n : w->m, threads = gx_team_workers(w->team);
    int64_t unit = gx_min(LINES_MAX, gx_max(FLOOR_N, gx_ceil_div(lines, threads)));
    unit = is_fixed ? (cut->n > 0 ? cut->n : FIXED_N) : even(lines, unit, 16);
    unit = is_slow(w) ? gx_min(unit, SLOW_SIDE) : unit;
    w->um = is_left ? gx_max(w->m, 1) : unit;
    w->un = is_left ? unit : gx_max(w->n, 1);
    w->uk = 1;
}

/*
** Elementwise results do not depend on the cut: fixed or not, the pieces are sized for the caches.
*/
static void cut_elements(job *w)
{
    int64_t elements = gx_max(PIECE_BYTES / (int64_t)gx_number_bytes(w->dtype), 1);
    if (w->kernel == GX_TRANSPOSE || w->kernel == GX_SYMMETRIZE) {
        w->um = w->un = TRANSPOSE_SIDE;
    } else if (w->kernel == GX_COMBINE) {
        w->um = COMBINE_ROWS;
        w->un = w->n;
    } else {
        bool by_column = w->kernel == GX_LASWP || w->kernel == GX_TRIANGLE;
        w->um = gx_max(by_column ? w->m : gx_min(w->m, elements), 1);
        w->un = gx_max(elements / w->um, 1);
    }
    w->uk = 1;
}

/* c += the partial results, in order; a triangle column by column: the other one is not ours. */
static gx_code add_partials(const job *w, gx_err *err)
{
    const gx_args *p = w->args;
    for (int64_t j = 0; j < (w->slices - 1) * w->n; j += w->is_triangle ? 1 : w->n) {
        int64_t col = j % w->n;
        int64_t i0 = w->is_triangle && p->uplo == GX_LOWER ? col : 0;
        int64_t i1 = w->is_triangle && p->uplo == GX_UPPER ? col + 1 : w->m;
        void *c = at(w, p->c, p->ldc, i0, col);
        GX_TRY(w->add(w->dev, NULL,
                      &(gx_args){.map = GX_MAP_ADD,
                                 .m = i1 - i0,
                                 .n = w->is_triangle ? 1 : w->n,
                                 .alpha = {1, 0},
                                 .a = c,
                                 .lda = p->ldc,
                                 .beta = {1, 0},
                                 .b = at(w, w->partial, w->m, i0, j),
                                 .ldb = w->m,
                                 .c = c,
                                 .ldc = p->ldc},
                      err));
    }
    return GX_OK;
}

/* True where one uncut call on the caller's thread is best. */
static bool is_small(const job *w)
{
    if (is_product(w->kernel)) {
        double share = w->is_triangle ? 0.5 : 1;
        return share * product_s(w, w->m, w->n, w->args->k) < SMALL_S;
    }
    if (is_triangular(w->kernel)) {
        return 0.5 * product_s(w, w->m, w->n, gx_triangle_side(w->args)) < SMALL_S;
    }
    double rows = (double)w->m;
    if (w->kernel == GX_COMBINE) {
        return gx_kernel_flops(w->kernel, w->dtype, w->args) / STEPS_PER_S < SMALL_S;
    }
    if (w->kernel == GX_LASWP) {
        rows = 2.0 * (double)(w->args->pivot_last - w->args->pivot_first);
    }
    double bytes = rows * (double)w->n * (double)gx_number_bytes(w->dtype);
    return bytes / BYTES_PER_S < SMALL_S;
}

const gx_backend *gx_team_backend(const gx_backend *backend, gx_kernel_id kernel, gx_number dtype)
{
    bool is_spectrum = kernel >= GX_SYEV && kernel <= GX_GESDD;
    return is_spectrum && backend->kernel[kernel][dtype] == NULL ? &gx_backend_cpu : backend;
}

gx_code gx_job_kernel(const gx_job *x, gx_kernel_id kernel, gx_kernel *run, gx_err *err)
{
    *run = x->backend->kernel[kernel][x->dtype];
    return *run != NULL ? GX_OK
                        : gx_fail(err, GX_UNSUPPORTED, "%s has no %s for %s", x->backend->name,
                                  gx_kernel_name(kernel), gx_number_name(x->dtype));
}

gx_code gx_job_whole(const gx_job *x, gx_kernel_id kernel, const gx_args *args, gx_err *err)
{
    gx_mem *mem = x->team == NULL ? NULL : gx_team_mem(x->team);
    gx_args with_work = *args;
    with_work.work = NULL;
    size_t bytes =
        x->backend->workspace == NULL ? 0 : x->backend->workspace(x->dev, kernel, x->dtype, args);
    gx_kernel run;
    GX_TRY(gx_job_kernel(x, kernel, &run, err));
    GX_TRY(gx_team_poll_now(x->team, err));
    if (bytes > 0) {
        GX_TRY(gx_mem_alloc(mem, bytes, "the work space of a kernel", &with_work.work, err));
    }
    gx_code code = run(x->dev, NULL, &with_work, err);
    gx_mem_free(mem, with_work.work);
    return code;
}

/* Cut one call and run its cells. */
static gx_code cut_and_run(job *w, const gx_cut *cut, gx_err *err)
{
    bool is_exact = is_product(w->kernel) || is_triangular(w->kernel); // has roundings of its cut
    bool is_fixed = cut != NULL && cut->is_fixed && is_exact;
    if (w->m <= 0 || w->n <= 0 || (!is_fixed && is_small(w)) ||
        (w->is_triangle && w->off == NULL)) {
        gx_args all = *w->args;
        all.work = w->work_bytes > 0 ? w->work : all.work;
        return w->run(w->dev, NULL, &all, err);
    }
    if (is_triangular(w->kernel)) {
        cut_lines(w, cut);
    } else if (is_fixed) {
        cut_product_fixed(w, cut);
    } else if (is_product(w->kernel)) {
        cut_product_freely(w);
    } else {
        cut_elements(w);
    }
    w->rows = gx_ceil_div(w->m, w->um);
    w->cols = gx_ceil_div(w->n, w->un);
    w->cells = cells(w);
    if (w->team != NULL && !is_small(w)) {
        gx_code code = gx_team_run(w->team, w->cells * w->slices, run_cell, w, err);
        if (code == GX_OK && w->slices > 1) {
            code = add_partials(w, err);
        }
        gx_mem_free(gx_team_mem(w->team), w->partial);
        return code;
    }
    w->team = NULL; // the caller alone, without polling
    for (int64_t piece = 0; piece < w->cells; piece++) {
        GX_TRY(run_cell(w, piece, 0, err));
    }
    return GX_OK;
}

/*
** Cut and run with room for each member, where the kernel wants any.  What a product packs into is
** not counted, as that of OpenBLAS is not: no plan leaves room for it.
*/
static gx_code run_with_room(job *w, const gx_cut *cut, gx_err *err)
{
    bool packs = w->kernel == GX_GEMM && w->dtype == GX_M31;
    bool has_room = w->kernel == GX_FUSED || packs;
    gx_mem *mem = w->team == NULL || packs ? NULL : gx_team_mem(w->team);
    size_t members = w->team == NULL ? 1 : (size_t)gx_team_threads(w->team);
    void *work = NULL;
    if (has_room && w->backend->workspace != NULL) {
        w->work_bytes = gx_whole_lines(w->backend->workspace(w->dev, w->kernel, w->dtype, w->args));
    }
    if (w->work_bytes > 0) {
        GX_TRY(
            gx_mem_alloc(mem, members * w->work_bytes, "the work space of a kernel", &work, err));
    }
    w->work = work;
    gx_code code = cut_and_run(w, cut, err);
    gx_mem_free(mem, work);
    return code;
}

gx_code gx_job_call(const gx_job *x, gx_kernel_id kernel, const gx_args *args, gx_err *err)
{
    bool is_triangle = kernel == GX_SYRK || kernel == GX_HERK || kernel == GX_SYMMETRIZE;
    gx_kernel_id off = kernel == GX_SYMMETRIZE ? GX_TRANSPOSE : GX_GEMM;
    job w = {.team = x->team,
             .backend = x->backend,
             .kernel = kernel,
             .dtype = x->dtype,
             .args = args,
             .off = x->backend->kernel[off][x->dtype],
             .add = args->modulus != 0 ? NULL : x->backend->kernel[GX_MAP][x->dtype],
             .dev = x->dev,
             .m = is_triangle ? args->n : args->m,
             .n = args->n,
             .slices = 1,
             .ks = gx_max(args->k, 1),
             .is_triangle = is_triangle};
    GX_TRY(gx_job_kernel(x, kernel, &w.run, err));
    return run_with_room(&w, x->cut, err);
}

gx_code gx_job_fused(const gx_job *x, const gx_args *args, gx_err *err)
{
    job w = {.team = x->team,
             .backend = x->backend,
             .kernel = GX_FUSED,
             .dtype = x->dtype,
             .args = args,
             .dev = x->dev,
             .m = args->m,
             .n = args->n,
             .slices = 1,
             .ks = 1};
    GX_TRY(gx_job_kernel(x, GX_FUSED, &w.run, err));
    return run_with_room(&w, x->cut, err);
}
