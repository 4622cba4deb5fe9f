/*
** Operators of Krylov methods: inverses, and the transformed problem of A x = lambda B x.
**
**   shift-invert    (A - sigma I)^-1, or L^H (A - sigma B)^-1 L with B = L L^H
**   generalised     L^-1 A L^-H: its vectors y are L^H x of A x = lambda B x
**
** The factors, LU of S = A - sigma B with partial pivoting and B = L L^H, are dense.  Where they
** fit beside what others want they are in memory, made and used by one kernel call each.  Else, and
** in deterministic mode always, so that the bits do not depend on the budget, the drivers
** (alg_chol.c, alg_lu.c) make them as intermediates (gx_sink_begin_scratch): in memory where they
** fit beside the blocks that are worked on, else in the temp database, and gone when the operator
** ends, however it does.  S is an intermediate too, dropped as soon as its LU is there.
**
** A and B are read once; of Hermitian ones only the lower triangles, twice.  Blocks of vectors are
** solved for together, one pass over a factor each time: n^2 / 2 words for L, n^2 for the LU.
**
** Memory of intermediates: two squares, then what the drivers take.  Deterministic mode: L's
** squares, panels and pieces follow from the shape alone, and so do the bits, wherever they are.
**
** Where a pivot of U is zero, or next to it, sigma is an eigenvalue to working precision, whose
** 1 / (value - sigma) would drown all others: it is then moved by 1e-6 of the largest pivot (1e-4
** in single precision), A is factorised once more, and values are computed from where sigma is.
** Source: Ericsson and Ruhe, The spectral transformation Lanczos method, Math. Comp. 35 (1980).
*/
#include "../alg/alg.h"
#include "../alg/alg_lu.h"
#include "../alg/dense.h"
#include "krylov.h"

#include <math.h>
#include <string.h>

/* Factors that are intermediates. */
struct gx_factors {
    gx_sink chol, lu; /* of run NULL: none */
    gx_aux aux;       /* pivots of lu      */
    gx_mat L, F;      /* as sources        */
};

/* An intermediate as a source that is cut the same wherever it is. */
static void take_source(const gx_sink *sink, const char *label, gx_mat *mat)
{
    gx_sink_source(sink, label, mat);
    mat->tile_rows = sink->tile_rows;
    mat->tile_cols = sink->tile_cols;
}

/* The edge of squares of which `count` fit in a part of the memory. */
static int64_t choose_edge(const gx_oper *op, int64_t count)
{
    enum { LARGEST = 1024, SMALLEST = 16, PART = 3 };
    int64_t edge = LARGEST;
    size_t available = gx_mem_available(op->run->ctx->mem), element = gx_number_bytes(op->dtype);
    while (edge > SMALLEST && (size_t)(count * edge * edge) * element > available / PART) {
        edge /= 2;
    }
    return gx_min(edge, op->n);
}

// Where sigma is an eigenvalue --------------------------------------------------------------------

enum { ATTEMPTS = 3 };

/*
** Whether A - sigma B whose pivots are from smallest to largest can be solved with.  false: op's
** sigma has moved, and the factorisation is to be made again as the next attempt, counted from 0.
** The last one fails the run instead.
*/
static bool is_sigma_usable(gx_oper *op, int attempt, double smallest, double largest)
{
    bool is_double = gx_number_is_double(op->dtype);
    double step = is_double ? 1e-6 : 1e-4; // of the largest pivot: far from eps, near to sigma
    double eps = gx_number_eps(op->dtype);
    double tiny = 4 * gx_number_least(op->dtype); // its reciprocal is finite
    double rounding =
        fmin((16 + (double)op->n) * eps, step / 16); // of pivots that ought to be zero
    double least = attempt == 0 ? rounding * largest : attempt == 1 ? eps * largest : 0;
    if (smallest > least) {
        return true;
    }
    if (attempt + 1 == ATTEMPTS) {
        gx_run_failf(op->run, GX_NUMERIC,
                     "%s minus sigma times %s has no factorisation, sigma being %g: its pivots "
                     "are from %.2g to %.2g",
                     op->inner->A->label, op->has_b ? "b" : "the identity", op->sigma.re, smallest,
                     largest);
        return true;
    }
    double scale = largest > 0 ? largest : hypot(op->sigma.re, op->sigma.im);
    op->sigma.re -= fmax(step * scale, tiny) * (attempt == 0 ? 1 : 1.7);
    return false;
}

// S = A - sigma B ---------------------------------------------------------------------------------

/*
** The rectangle (i, j) m x n of A or B, without gaps, square where it is on the diagonal; of a
** Hermitian one from its lower triangle.
*/
static void load_square(gx_oper *op, const gx_mat *mat, int64_t i, int64_t j, int64_t m, int64_t n,
                        void *to)
{
    gx_mat view;
    bool is_upper = op->inner->is_hermitian && i < j;
    gx_mat_view(&view, mat, is_upper ? gx_adjoint(mat->number) : GX_NO_TRANS, i, j, m, n);
    gx_dense_load(op->run, &view, op->dtype, to, m);
    gx_dense_finite_part(op->run, mat->label, op->dtype, to, m, m, n, i, j);
    if (gx_ok(op->run) && op->inner->is_hermitian && i == j) {
        gx_dense_mirror(op->run, op->dtype, to, m, n);
    }
}

/* a -= sigma b; b NULL: of the identity. */
static void shift(gx_oper *op, bool is_diagonal, int64_t m, int64_t n, void *a, const void *b)
{
    gx_scalar minus = {-op->sigma.re, -op->sigma.im};
    if (b != NULL) {
        gx_dense_add(op->run, op->dtype, m, n, a, minus, b);
    }
    for (int64_t i = 0; b == NULL && is_diagonal && i < n && gx_ok(op->run); i++) {
        gx_scalar x = gx_number_get(op->dtype, a, i * m + i);
        gx_number_put(op->dtype, a, i * m + i, (gx_scalar){x.re + minus.re, x.im + minus.im});
    }
}

/* Square after square. */
static void make_shifted(gx_oper *op, const gx_mat *B, gx_sink *S)
{
    gx_run *run = op->run;
    int64_t edge = S->tile_rows;
    void *a = gx_dense_take(run, op->dtype, edge, edge, "a square of the matrix");
    void *b =
        B == NULL ? NULL : gx_dense_take(run, op->dtype, edge, edge, "a square of the matrix");
    for (int64_t at = 0, across = gx_ceil_div(op->n, edge); at < across * across && gx_ok(run);
         at++) {
        int64_t i = at % across * edge, j = at / across * edge;
        int64_t m = gx_min(edge, op->n - i), n = gx_min(edge, op->n - j);
        gx_err err = {0};
        load_square(op, op->inner->A, i, j, m, n, a);
        if (B != NULL) {
            load_square(op, B, i, j, m, n, b);
        }
        shift(op, i == j, m, n, a, b);
        if (gx_ok(run)) {
            gx_sink_write(S, i, j, m, n, a, m, &err);
            gx_run_fail(run, &err);
        }
        gx_run_poll(run);
    }
    gx_mem_free(run->ctx->mem, a);
    gx_mem_free(run->ctx->mem, b);
    op->inner->passes++;
}

// Making factors ----------------------------------------------------------------------------------

/* The smallest pivot of F, an LU, and the largest, in magnitude; NaN where one is. */
static double range_of_pivots(gx_oper *op, const gx_mat *F, double *largest)
{
    gx_run *run = op->run;
    gx_reader *own = NULL;
    gx_err err = {0};
    double smallest = INFINITY;
    *largest = 0;
    if (gx_ok(run)) {
        gx_reader_own(run->ctx->store, &own, &err);
    }
    for (int64_t i = 0; i < op->n && err.code == GX_OK && gx_ok(run); i++) {
        double x[2] = {0, 0};
        if (gx_mat_read(run, F, own, i, i, 1, 1, GX_C128, x, 1, &err) == GX_OK) {
            double size = hypot(x[0], x[1]);
            smallest = size < smallest || isnan(size) ? size : smallest;
            *largest = fmax(*largest, size);
        }
    }
    gx_reader_close(own);
    gx_run_fail(run, &err);
    return smallest;
}

static void drop_lu(gx_oper *op)
{
    gx_sink_drop(&op->factors->lu);
    op->factors->lu = (gx_sink){0};
    gx_aux_clear(&op->factors->aux, op->run->ctx->mem);
    op->factors->aux = (gx_aux){0};
}

/* F of S.  S is begun after F, in memory only where there is room for another one. */
static void factor_large(gx_oper *op, const gx_mat *B)
{
    gx_run *run = op->run;
    struct gx_factors *f = op->factors;
    gx_sink S = {0};
    gx_mat shifted;
    size_t bytes = 0;
    int64_t n = op->n;
    gx_alg_lu_begin_scratch(run, n, n, op->dtype, &f->lu, &f->aux);
    gx_matrix_bytes(n, n, op->dtype, &bytes);
    int64_t edge = choose_edge(op, 3);
    gx_sink_begin_scratch_tiles(run, n, n, op->dtype, bytes, edge, edge, &S);
    if (gx_ok(run)) {
        make_shifted(op, B, &S);
        take_source(&S, op->inner->A->label, &shifted);
        gx_alg_lu(run, &shifted, &f->lu, &f->aux);
    }
    gx_sink_drop(&S);
    if (gx_ok(run)) {
        take_source(&f->lu, op->inner->A->label, &f->F);
    }
}

/* In memory where that leaves room for the LU and its work, if one follows, and for others. */
static void factor_b(gx_oper *op, const gx_mat *B, size_t keep_bytes)
{
    struct gx_factors *f = op->factors;
    enum { SQUARES = 12, FIXED = 256 };
    bool is_fixed = op->run->ctx->config.number[GX_SET_DETERMINISTIC] != 0;
    int64_t edge = is_fixed ? gx_min(FIXED, op->n) : choose_edge(op, SQUARES);
    size_t element = gx_number_bytes(op->dtype);
    size_t keep = keep_bytes + (size_t)(SQUARES * edge * edge) * element;
    keep += op->is_inverse ? 2 * (size_t)(op->n * op->n) * element : 0;
    gx_mat converted; // as it is read
    gx_mat_view(&converted, B, GX_NO_TRANS, 0, 0, B->rows, B->cols);
    converted.number = op->dtype;
    gx_sink_begin_scratch_tiles(op->run, op->n, op->n, op->dtype, keep, edge, edge, &f->chol);
    if (gx_ok(op->run)) {
        gx_alg_cholesky(op->run, B->number == op->dtype ? B : &converted, GX_LOWER, &f->chol);
        take_source(&f->chol, B->label, &f->L);
    }
}

/* A - sigma B where its LU will be. */
static void *load_shifted(void *arg)
{
    gx_oper *op = arg, *inner = op->inner;
    load_square(op, inner->A, 0, 0, op->n, op->n, op->factor);
    inner->passes++;
    shift(op, true, op->n, op->n, op->factor, op->chol);
    return op->factor;
}

/* LU of A - sigma B; a sigma that is an eigenvalue moves a little. */
static void factor_shifted(gx_oper *op, const gx_mat *B)
{
    bool is_usable = false;
    for (int attempt = 0; !is_usable && gx_ok(op->run); attempt++) {
        int64_t info = 0;
        double largest;
        gx_mat F;
        if (op->factors != NULL) {
            drop_lu(op);
            factor_large(op, B);
            F = op->factors->F;
        } else {
            gx_lu_in_memory(op->run, op->dtype, op->n, load_shifted, op, op->pivots, &info);
            gx_mat_value(&F, "a factorisation", op->dtype, op->n, op->n, op->factor, op->n);
        }
        double smallest = range_of_pivots(op, &F, &largest);
        is_usable = !gx_ok(op->run) || is_sigma_usable(op, attempt, smallest, largest);
    }
}

static void begin_large(gx_oper *op, const gx_mat *B, size_t keep_bytes)
{
    op->factors = gx_run_calloc(op->run, sizeof *op->factors, "two factors");
    if (gx_ok(op->run) && B != NULL) {
        factor_b(op, B, keep_bytes);
    }
    if (op->is_inverse && gx_ok(op->run)) {
        factor_shifted(op, B);
    }
}

static void begin_in_memory(gx_oper *op, const gx_mat *B)
{
    gx_run *run = op->run;
    int64_t n = op->n;
    if (B != NULL) {
        op->chol = gx_dense_take(run, op->dtype, n, n, B->label);
        load_square(op, B, 0, 0, n, n, op->chol);
    }
    if (op->is_inverse) {
        op->factor = gx_dense_take(run, op->dtype, n, n, "a factorisation");
        op->pivots = gx_dense_take(run, GX_F64, n, 1, "pivots");
        factor_shifted(op, B);
    }
    if (B != NULL) {
        gx_dense_cholesky(run, B->label, op->dtype, n, op->chol);
    }
}

// Using them --------------------------------------------------------------------------------------

/* x as a source, and y as a sink into memory of ours; tiles along the factor's. */
static gx_sink pair_of(const gx_oper *op, const void *x, int64_t cols, int64_t tile, void *y,
                       gx_mat *source)
{
    gx_mat_value(source, "a block of vectors", op->dtype, op->n, cols, x, op->n);
    return (gx_sink){.run = op->run,
                     .rows = op->n,
                     .cols = cols,
                     .number = op->dtype,
                     .tile_rows = tile,
                     .tile_cols = cols,
                     .value = {.data = y}};
}

/* A copy of x, so that the result has x's place. */
static void *copy_of(gx_oper *op, const void *x, int64_t cols)
{
    void *copy = gx_dense_take(op->run, op->dtype, op->n, cols, "a block of vectors");
    if (copy != NULL) {
        memcpy(copy, x, (size_t)(op->n * cols) * gx_number_bytes(op->dtype));
    }
    return copy;
}

/* x = (L U)^-1 P x. */
static void solve(gx_oper *op, void *x, int64_t cols)
{
    gx_mat B;
    if (op->factors == NULL) {
        gx_dense_lu_solve(op->run, op->dtype, op->n, op->factor, op->pivots, cols, x);
        return;
    }
    void *copy = copy_of(op, x, cols);
    gx_sink X = pair_of(op, copy, cols, op->n, x, &B);
    if (gx_ok(op->run)) {
        gx_alg_lu_solve(op->run, &op->factors->F, &op->factors->aux, GX_NO_TRANS, &B, &X);
    }
    gx_mem_free(op->run->ctx->mem, copy);
}

/* x = op(L)^-1 x (TRSM), op(L) x (TRMM); nothing where there is no B. */
static gx_code by_chol(gx_oper *op, gx_kernel_id kernel, gx_trans trans, void *x, int64_t cols)
{
    gx_mat B;
    if (!op->has_b || cols == 0) {
        return op->run->err.code;
    }
    if (op->factors == NULL) {
        return gx_dense_triangle(op->run, kernel, op->dtype, GX_LOWER, trans, GX_NON_UNIT, op->n,
                                 op->chol, cols, x);
    }
    const gx_mat *L = &op->factors->L;
    void *copy = copy_of(op, x, cols);
    gx_sink X = pair_of(op, copy, cols, L->tile_rows, x, &B);
    gx_tri_args args = {.A = L,
                        .B = &B,
                        .side = GX_LEFT,
                        .uplo = GX_LOWER,
                        .trans = trans,
                        .diag = GX_NON_UNIT,
                        .alpha = GX_ONE};
    if (gx_ok(op->run) && kernel == GX_TRSM) {
        gx_alg_trsm(op->run, &args, &X);
    } else if (gx_ok(op->run)) {
        gx_alg_trmm(op->run, &args, &X);
    }
    gx_mem_free(op->run->ctx->mem, copy);
    return gx_ok(op->run) ? GX_OK : op->run->err.code;
}

static gx_code apply_transformed(gx_oper *op, bool is_adjoint, const void *x, int64_t cols, void *y)
{
    gx_trans adjoint = gx_adjoint(op->dtype);
    size_t bytes = (size_t)(op->n * cols) * gx_number_bytes(op->dtype);
    (void)is_adjoint; // only Krylov-Schur comes here
    if (!gx_ok(op->run) || bytes == 0) {
        return op->run->err.code;
    }
    if (op->is_inverse) {
        memcpy(y, x, bytes);
        by_chol(op, GX_TRMM, GX_NO_TRANS, y, cols);
        solve(op, y, cols);
        by_chol(op, GX_TRMM, adjoint, y, cols);
        return gx_run_poll(op->run);
    }
    void *z = NULL;
    if (gx_dense_alloc(op->run, op->dtype, op->n, cols, "a block of vectors", &z) == GX_OK) {
        memcpy(z, x, bytes);
        by_chol(op, GX_TRSM, adjoint, z, cols);
        op->inner->apply(op->inner, false, z, cols, y);
        by_chol(op, GX_TRSM, GX_NO_TRANS, y, cols);
    }
    gx_mem_free(op->run->ctx->mem, z);
    return gx_ok(op->run) ? GX_OK : op->run->err.code;
}

gx_code gx_oper_back(gx_oper *op, void *x, int64_t cols)
{
    return by_chol(op, GX_TRSM, gx_adjoint(op->dtype), x, cols);
}

gx_code gx_oper_times_b(gx_oper *op, const void *x, int64_t cols, void *y)
{
    memcpy(y, x, (size_t)(op->n * cols) * gx_number_bytes(op->dtype));
    by_chol(op, GX_TRMM, gx_adjoint(op->dtype), y, cols);
    return by_chol(op, GX_TRMM, GX_NO_TRANS, y, cols);
}

// Where the factors are ---------------------------------------------------------------------------

double gx_oper_transformed_bytes(int64_t n, gx_number dtype, bool has_b, bool is_inverse)
{
    double one = (double)n * (double)n * (double)gx_number_bytes(dtype);
    return one * ((has_b ? 1 : 0) + (is_inverse ? 1 : 0));
}

/* The factors, what the hungriest kernel wants, and what others do. */
static bool fits_in_memory(const gx_oper *op, size_t keep_bytes)
{
    int64_t n = op->n;
    gx_args args = {.m = n, .n = n, .lda = n, .ldc = n, .uplo = GX_LOWER};
    double bytes = gx_oper_transformed_bytes(n, op->dtype, op->has_b, op->is_inverse);
    bytes += (double)gx_dense_call_bytes(op->run, op->is_inverse ? GX_GETRF : GX_POTRF, op->dtype,
                                         &args);
    bytes += (double)keep_bytes + 8 * (double)n;
    return bytes <= (double)gx_mem_available(op->run->ctx->mem);
}

gx_code gx_oper_begin_transformed(gx_run *run, gx_oper *inner, const gx_mat *B, bool is_inverse,
                                  gx_scalar sigma, size_t keep_bytes, gx_oper *op)
{
    int64_t n = inner->n;
    *op = (gx_oper){.run = run,
                    .m = n,
                    .n = n,
                    .dtype = inner->dtype,
                    .apply = apply_transformed,
                    .inner = inner,
                    .has_b = B != NULL,
                    .is_inverse = is_inverse,
                    .sigma = sigma};
    bool is_fixed = run->ctx->config.number[GX_SET_DETERMINISTIC] != 0;
    if (n > 0 && (is_fixed || !fits_in_memory(op, keep_bytes))) {
        begin_large(op, B, keep_bytes);
    } else {
        begin_in_memory(op, B);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

void gx_oper_end_transformed(gx_oper *op)
{
    gx_mem *mem = op->run->ctx->mem;
    if (op->factors != NULL) {
        drop_lu(op);
        gx_sink_drop(&op->factors->chol);
    }
    gx_mem_free(mem, op->factors);
    gx_mem_free(mem, op->factor);
    gx_mem_free(mem, op->pivots);
    gx_mem_free(mem, op->chol);
}
