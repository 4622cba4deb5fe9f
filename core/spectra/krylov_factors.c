/*
** Factors of any size for the inverses of Krylov methods: intermediates, see krylov_inverse.c.
**
** L of B = L L^H and F, the LU of S = A - sigma B, are made by the drivers (alg_chol.c, alg_lu.c)
** as intermediates (gx_sink_begin_scratch): in memory where they fit beside the blocks that are
** worked on, else in the temp database, and gone when the operator ends, however it does.  S is an
** intermediate too, dropped as soon as F is there: A and B are read once, in squares, and where
** they are Hermitian only their lower triangles, each square giving two of S.
**
** Blocks of vectors are solved for together, one pass over a factor each time: n^2 / 2 words for
** L, n^2 for F.
**
** Memory: three squares, then what the drivers take.  Deterministic mode: L's squares, panels and
** pieces follow from the shape alone, and so do the bits, wherever the factors are.
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
#include "spectrum_int.h"

#include <math.h>
#include <string.h>

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

bool gx_oper_sigma_is_usable(gx_oper *op, int attempt, double smallest, double largest)
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

typedef struct shifting {
    gx_oper *op;
    const gx_mat *A, *B; /* B NULL: the identity */
    gx_sink *S;
    gx_reader *own;
    int64_t edge;
    void *a, *b, *t; /* squares */
} shifting;

void gx_oper_shift_diagonal(const gx_oper *op, void *c, int64_t ld, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        gx_scalar x = gx_number_get(op->dtype, c, i * ld + i);
        x.re -= op->sigma.re;
        x.im -= op->sigma.im;
        gx_number_put(op->dtype, c, i * ld + i, x);
    }
}

/* Square (i, j) of a source, m x n; what is on the diagonal of a Hermitian one is mirrored. */
static void read_square(const shifting *w, const gx_mat *mat, int64_t i, int64_t j, int64_t m,
                        int64_t n, void *to)
{
    gx_run *run = w->op->run;
    gx_err err = {0};
    gx_mat_read(run, mat, w->own, i, j, m, n, w->op->dtype, to, m, &err);
    gx_run_fail(run, &err);
    gx_dense_finite_part(run, mat->label, w->op->dtype, to, m, m, n, i, j);
    if (gx_ok(run) && w->op->inner->is_hermitian && i == j) {
        gx_dense_mirror(run, w->op->dtype, to, m, n);
    }
}

/* x -= sigma y. */
static void subtract(const shifting *w, void *x, const void *y, int64_t m, int64_t n)
{
    const gx_oper *op = w->op;
    gx_dense_add(op->run, op->dtype, m, n, x, (gx_scalar){-op->sigma.re, -op->sigma.im}, y);
}

static void write_square(const shifting *w, int64_t i, int64_t j, int64_t m, int64_t n,
                         const void *x)
{
    gx_err err = {0};
    if (gx_ok(w->op->run)) {
        gx_sink_write(w->S, i, j, m, n, x, m, &err);
        gx_run_fail(w->op->run, &err);
    }
}

/* Square (i, j) of S and, of Hermitian matrices, the one across the diagonal. */
static void make_square(const shifting *w, int64_t i, int64_t j)
{
    gx_oper *op = w->op;
    int64_t m = gx_min(w->edge, op->n - i), n = gx_min(w->edge, op->n - j);
    bool is_pair = op->inner->is_hermitian && i != j;
    read_square(w, w->A, i, j, m, n, w->a);
    if (w->B != NULL) {
        read_square(w, w->B, i, j, m, n, w->b);
    }
    if (is_pair) {
        gx_vectors_turned(op->run, op->dtype, m, n, w->a, m, w->t);
    }
    if (w->B != NULL) {
        subtract(w, w->a, w->b, m, n);
    } else if (i == j && gx_ok(op->run)) {
        gx_oper_shift_diagonal(op, w->a, m, m);
    }
    write_square(w, i, j, m, n, w->a);
    if (is_pair && w->B != NULL) {
        gx_vectors_turned(op->run, op->dtype, m, n, w->b, m, w->a);
        subtract(w, w->t, w->a, n, m);
    }
    if (is_pair) {
        write_square(w, j, i, n, m, w->t);
    }
    gx_run_poll(op->run);
}

static void make_shifted(gx_oper *op, const gx_mat *B, gx_sink *S)
{
    gx_run *run = op->run;
    gx_mem *mem = run->ctx->mem;
    gx_err err = {0};
    shifting w = {.op = op, .A = op->inner->A, .B = B, .S = S, .edge = S->tile_rows};
    gx_dense_alloc(run, op->dtype, w.edge, w.edge, "a square of the matrix", &w.a);
    gx_dense_alloc(run, op->dtype, w.edge, B != NULL ? w.edge : 0, "a square of the matrix", &w.b);
    gx_dense_alloc(run, op->dtype, w.edge, op->inner->is_hermitian ? w.edge : 0,
                   "a square of the matrix", &w.t);
    if (gx_ok(run)) {
        gx_reader_own(run->ctx->store, &w.own, &err);
        gx_run_fail(run, &err);
    }
    for (int64_t j = 0; j < op->n && gx_ok(run); j += w.edge) {
        for (int64_t i = op->inner->is_hermitian ? j : 0; i < op->n && gx_ok(run); i += w.edge) {
            make_square(&w, i, j);
        }
    }
    gx_reader_close(w.own);
    gx_mem_free(mem, w.a);
    gx_mem_free(mem, w.b);
    gx_mem_free(mem, w.t);
    op->inner->passes++;
}

// Making factors ----------------------------------------------------------------------------------

/* The smallest and the largest pivot of F, in magnitude; NaN where one is. */
static double range_of_pivots(gx_oper *op, double *largest)
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
        if (gx_mat_read(run, &op->factors->F, own, i, i, 1, 1, GX_C128, x, 1, &err) == GX_OK) {
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
static void factor_shifted(gx_oper *op, const gx_mat *B)
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

void gx_factors_begin(gx_oper *op, const gx_mat *B, size_t keep_bytes)
{
    void *memory = NULL;
    gx_err err = {0};
    if (!gx_ok(op->run) || gx_mem_calloc(op->run->ctx->mem, sizeof(struct gx_factors),
                                         "two factors", &memory, &err) != GX_OK) {
        gx_run_fail(op->run, &err);
        return;
    }
    op->factors = memory;
    if (B != NULL) {
        factor_b(op, B, keep_bytes);
    }
    bool is_usable = !op->is_inverse;
    for (int attempt = 0; !is_usable && gx_ok(op->run); attempt++) {
        double largest, smallest;
        drop_lu(op);
        factor_shifted(op, B);
        smallest = range_of_pivots(op, &largest);
        is_usable = !gx_ok(op->run) || gx_oper_sigma_is_usable(op, attempt, smallest, largest);
    }
}

void gx_factors_end(gx_oper *op)
{
    if (op->factors != NULL) {
        drop_lu(op);
        gx_sink_drop(&op->factors->chol);
        gx_mem_free(op->run->ctx->mem, op->factors);
        op->factors = NULL;
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
    void *copy = NULL;
    if (gx_dense_alloc(op->run, op->dtype, op->n, cols, "a block of vectors", &copy) == GX_OK) {
        memcpy(copy, x, (size_t)(op->n * cols) * gx_number_bytes(op->dtype));
    }
    return copy;
}

gx_code gx_factors_solve(gx_oper *op, void *x, int64_t cols)
{
    gx_mat B;
    void *copy = copy_of(op, x, cols);
    gx_sink X = pair_of(op, copy, cols, op->n, x, &B);
    if (gx_ok(op->run)) {
        gx_alg_lu_solve(op->run, &op->factors->F, &op->factors->aux, GX_NO_TRANS, &B, &X);
    }
    gx_mem_free(op->run->ctx->mem, copy);
    return gx_ok(op->run) ? GX_OK : op->run->err.code;
}

gx_code gx_factors_triangle(gx_oper *op, gx_kernel_id kernel, gx_trans trans, void *x, int64_t cols)
{
    gx_mat B;
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
