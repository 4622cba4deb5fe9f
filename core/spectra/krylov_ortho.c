/*
** Orthonormal blocks for Krylov methods: Y = V h + Q s, Q orthonormal and orthogonal to V.
**
** A round takes V out of Y and makes what is left orthonormal, by products of blocks alone:
**
**   C = V^H Y,  G = Y^H Y
**   R^H R = G - C^H C           Cholesky; by Pythagoras this is (Y - V C)^H (Y - V C)
**   Y := (Y - V C) R^-1,  h += C s,  s := R s
**
** Rounds go on until C and G - I are small: what a round makes of such a Y is orthonormal to
** working precision, as after two sweeps of classical Gram-Schmidt, or after CholeskyQR2.  Usually
** that is the second one.
**
** While a round applies its C and R to some rows it measures the next C and G of them, so that a
** round reads V once, a panel of rows that stays in the second-level cache; the last one does not
** measure.  Two rounds read V three times, where two sweeps read it four times and the columns of Y
** afterwards once for each of them.
**
** Where a Krylov method knows that Y has next to nothing of V's first columns (the three terms of
** Lanczos, the two of Golub and Kahan), the first round leaves them out, and what rounding left of
** them is the second one's: half of the work, to the same measure.
**
** Where Y is too ill-conditioned for its G (its columns scaled to length 1, which a Cholesky factor
** does not see) a multiple of I is added: R is then well enough conditioned, and what it leaves is
** better than what there was, by 1 / sqrt(shift) at most.  Another round takes it from there.
** Where a column may be nothing but rounding, columns go one by one (gx_ortho_columns), which finds
** those that are dependent.
**
** Pythagorean block Gram-Schmidt, twice: Carson, Lund, Ma & Oktay 2024 (BCGS-PIPI+).  CholeskyQR2:
** Yamamoto, Nakatsukasa, Yanagisawa & Fukaya 2015; shifted: Fukaya, Kannan, Nakatsukasa, Yamamoto &
** Yanagisawa 2020.  Twice is enough: Giraud, Langou, Rozloznik & van den Eshof 2005.
**
** C and G are added up in slices of rows, at most SLICES, each by one thread, then in the order of
** the slices: bits depend on n alone, not on how many threads there are.  Work: 4 n m cols flops a
** round that measures.  Memory: the caller's, gx_ortho_work().
*/
#include "../alg/dense.h"
#include "../run/call.h"
#include "krylov.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Bytes of a column in a panel of rows: what GX_PAIR takes at once. */
enum { PANEL_BYTES = 4096 };

/* Sums of their own. */
enum { SLICES = 32 };

/* From so many columns on a packed product is faster. */
enum { GEMM_COLUMNS = 24 };

enum { ROUNDS = 8 };

/* How n rows are cut: all slices have the same panels, or nobody would have the last ones to do. */
typedef struct cut {
    int64_t slices;
    int64_t panels; /* of a slice  */
    int64_t panel;  /* rows of one */
} cut;

static cut cut_rows(gx_number dtype, int64_t n)
{
    enum { LEAST = 128, STEP = 16 };
    cut c;
    int64_t most = PANEL_BYTES / (int64_t)gx_number_bytes(dtype);
    int64_t rows = gx_max(LEAST, gx_ceil_div(n, SLICES));
    c.panels = gx_ceil_div(rows, most);
    c.panel = gx_ceil_div(gx_ceil_div(rows, c.panels), STEP) * STEP;
    c.slices = gx_max(1, gx_ceil_div(n, c.panels * c.panel));
    return c;
}

typedef struct block {
    gx_ortho *o;
    gx_run *run;
    const gx_backend *backend;
    gx_dev *dev;
    gx_number dtype, wide;
    const void *V;
    void *y;
    int64_t n, m, cols;      /* of y: those given, and drawn ones behind them       */
    int64_t first;           /* C is of V's columns from here on                    */
    void *C;                 /* wide, (m - first) x cols: what will be taken away   */
    void *G, *P, *R, *S, *T; /* wide, cols x cols                                   */
    void *taken, *triangle;  /* -C and R, of dtype                                  */
    char *partial;           /* of dtype: for each slice the next C above the next G */
    int64_t from;            /* the next C's first                                  */
    cut cut;                 /* of rows                                             */
    bool applies, measures;  /* what a sweep does                                   */
    bool is_large;           /* the team takes part                                 */
} block;

// Memory ------------------------------------------------------------------------------------------

int64_t gx_ortho_work(gx_number dtype, int64_t n, int64_t most, int64_t cols)
{
    int64_t ratio = (int64_t)(gx_number_bytes(gx_number_wide(dtype)) / gx_number_bytes(dtype));
    return (most * cols + 5 * cols * cols) * ratio + (most + cols) * cols +
           cut_rows(dtype, n).slices * (most + cols) * cols;
}

static void lay_out(block *b)
{
    int64_t square = b->cols * b->cols, tall = b->m * b->cols;
    b->C = b->o->work;
    b->G = gx_at(b->C, b->wide, 1, tall, 0);
    b->P = gx_at(b->G, b->wide, 1, square, 0);
    b->R = gx_at(b->P, b->wide, 1, square, 0);
    b->S = gx_at(b->R, b->wide, 1, square, 0);
    b->T = gx_at(b->S, b->wide, 1, square, 0);
    b->taken = gx_at(b->T, b->wide, 1, square, 0);
    b->triangle = gx_at(b->taken, b->dtype, 1, tall, 0);
    b->partial = gx_at(b->triangle, b->dtype, 1, square, 0);
}

// Sweeps ------------------------------------------------------------------------------------------

static gx_code call(const block *b, gx_kernel_id kernel, const gx_args *args, gx_err *err)
{
    return b->backend->kernel[kernel][b->dtype](b->dev, NULL, args, err);
}

/* Rows i .. i + rows - 1 of Y := (Y - V C) R^-1. */
static gx_code apply(const block *b, int64_t i, int64_t rows, gx_err *err)
{
    int64_t m = b->m - b->first;
    const void *V = gx_at(b->V, b->dtype, b->n, i, b->first);
    void *y = gx_at(b->y, b->dtype, b->n, i, 0);
    gx_args product = {.m = rows, .a = V, .lda = b->n, .b = b->taken, .ldb = m};
    product.c = y;
    product.ldc = b->n;
    bool is_packed = b->cols >= GEMM_COLUMNS;
    product.n = is_packed ? b->cols : m;
    product.k = is_packed ? m : b->cols;
    product.alpha.re = product.beta.re = 1;
    if (m > 0) {
        GX_TRY(call(b, is_packed ? GX_GEMM : GX_PAIR, &product, err));
    }
    gx_args solve = {.side = GX_RIGHT, .uplo = GX_UPPER, .m = rows, .n = b->cols, .alpha = {1, 0}};
    solve.a = b->triangle;
    solve.lda = b->cols;
    solve.c = y;
    solve.ldc = b->n;
    return call(b, GX_TRSM, &solve, err);
}

/* Rows of a sum: of C and of G. */
static int64_t height(const block *b)
{
    return b->m - b->from + b->cols;
}

/* sum += X^H Y of rows i .. i + rows - 1; X has m columns. */
static gx_code add_inner(const block *b, const void *X, int64_t m, int64_t i, int64_t rows,
                         void *sum, gx_err *err)
{
    const void *x = gx_at(X, b->dtype, b->n, i, 0), *y = gx_at(b->y, b->dtype, b->n, i, 0);
    int64_t ld = height(b);
    if (m == 0) {
        return GX_OK;
    }
    if (b->cols >= GEMM_COLUMNS) {
        gx_args args = {.transa = gx_adjoint(b->dtype), .m = m, .n = b->cols, .k = rows};
        args.alpha.re = args.beta.re = 1;
        args.a = x;
        args.b = y;
        args.c = sum;
        args.lda = args.ldb = b->n;
        args.ldc = ld;
        return call(b, GX_GEMM, &args, err);
    }
    gx_args args = {.m = rows, .n = m, .k = b->cols, .a = x, .lda = b->n};
    args.b2 = y;
    args.ldb2 = b->n;
    args.c2 = sum;
    args.ldc2 = ld;
    return call(b, GX_PAIR, &args, err);
}

/* One slice: panel after panel. */
static gx_code sweep_slice(void *arg, int64_t slice, int member, gx_err *err)
{
    const block *b = arg;
    int64_t high = height(b), m = b->m - b->from, i = slice * b->cut.panels * b->cut.panel;
    const void *V = gx_at(b->V, b->dtype, b->n, 0, b->from);
    int64_t end = gx_min(b->n, i + b->cut.panels * b->cut.panel);
    void *sum = gx_at(b->partial, b->dtype, high, 0, slice * b->cols);
    if (b->measures) {
        memset(sum, 0, (size_t)(high * b->cols) * gx_number_bytes(b->dtype));
    }
    for (; i < end; i += b->cut.panel) {
        int64_t rows = gx_min(b->cut.panel, end - i);
        if (b->is_large && !gx_team_continues(b->run->team, member)) {
            return GX_OK; // the failure is known to the team
        }
        if (b->applies) {
            GX_TRY(apply(b, i, rows, err));
        }
        if (b->measures) {
            GX_TRY(add_inner(b, V, m, i, rows, sum, err));
            GX_TRY(add_inner(b, b->y, b->cols, i, rows, gx_at(sum, b->dtype, high, m, 0), err));
        }
    }
    return GX_OK;
}

/* to (wide, `rows` numbers) = the sum of all slices of column j, from row i on. */
static void add_slices(const block *b, int64_t i, int64_t j, int64_t rows, double *to)
{
    int64_t parts = gx_number_is_complex(b->dtype) ? 2 : 1, high = height(b);
    memset(to, 0, (size_t)(rows * parts) * sizeof *to);
    for (int64_t slice = 0; slice < b->cut.slices; slice++) {
        const void *from = gx_at(b->partial, b->dtype, high, i, slice * b->cols + j);
        const double *d = from;
        const float *f = from;
        for (int64_t k = 0; gx_number_is_double(b->dtype) && k < rows * parts; k++) {
            to[k] += d[k];
        }
        for (int64_t k = 0; !gx_number_is_double(b->dtype) && k < rows * parts; k++) {
            to[k] += (double)f[k];
        }
    }
}

/* Column j of C and G; what is taken away is C as dtype has it. */
static gx_code add_column(void *arg, int64_t j, int member, gx_err *err)
{
    const block *b = arg;
    int64_t m = b->m - b->from, numbers = m * (gx_number_is_complex(b->dtype) ? 2 : 1);
    double *C = gx_at(b->C, b->wide, m, 0, j);
    void *taken = gx_at(b->taken, b->dtype, m, 0, j);
    (void)member, (void)err;
    add_slices(b, m, j, b->cols, gx_at(b->G, b->wide, b->cols, 0, j));
    add_slices(b, 0, j, m, C);
    for (int64_t k = 0; k < numbers; k++) {
        if (gx_number_is_double(b->dtype)) {
            ((double *)taken)[k] = -C[k];
        } else {
            ((float *)taken)[k] = -(float)C[k];
            C[k] = (double)(float)C[k];
        }
    }
    return GX_OK;
}

/*
** A round over all rows: Y := (Y - V C) R^-1, and of what it is then G and C, of V's columns from
** `from` on.
*/
static void sweep(block *b, bool applies, bool measures, int64_t from)
{
    double n = (double)b->n, m = (double)(b->m - from), cols = (double)b->cols;
    double taken = (double)(b->m - b->first);
    double flops = gx_number_is_complex(b->dtype) ? 8 : 2;
    int64_t start_ns = gx_now_ns();
    b->from = from;
    b->is_large = n * (m + cols) > (double)(1 << 22);
    b->applies = applies;
    b->measures = measures;
    gx_run_pieces(b->run, n * (m + cols), b->cut.slices, sweep_slice, b);
    b->first = from;
    if (measures && gx_ok(b->run)) {
        gx_run_pieces(b->run, (double)b->cut.slices * (m + cols) * cols, b->cols, add_column, b);
    }
    flops *= n * cols * ((applies ? taken + cols / 2 : 0) + (measures ? m + cols : 0));
    gx_stats_kernel(&b->run->ctx->stats, flops, gx_now_ns() - start_ns);
}

// What a round takes away -------------------------------------------------------------------------

/* The real part of element (i, j) of a wide cols x cols matrix. */
static double *small_at(const block *b, void *x, int64_t i, int64_t j)
{
    return gx_at(x, b->wide, b->cols, i, j);
}

static void make_unit(const block *b, void *x)
{
    memset(x, 0, (size_t)(b->cols * b->cols) * gx_number_bytes(b->wide));
    for (int64_t j = 0; j < b->cols; j++) {
        *small_at(b, x, j, j) = 1;
    }
}

/* Are the columns of Y nearly orthonormal, and orthogonal to V? */
static bool is_near(const block *b)
{
    const double NEAR = 0.25;
    int64_t parts = b->wide == GX_C128 ? 2 : 1;
    const double *C = b->C, *G = b->G;
    double square = 0, taken = 0;
    for (int64_t k = 0; k < b->cols * b->cols * parts; k++) {
        double x = G[k] - (k % (parts * (b->cols + 1)) == 0 ? 1 : 0);
        square += x * x;
    }
    for (int64_t k = 0; k < (b->m - b->first) * b->cols * parts; k++) {
        taken += C[k] * C[k];
    }
    return square <= NEAR * NEAR && taken <= NEAR * NEAR; // NaN is not
}

/* Does G tell the lengths?  Nothing may have overflowed, nor what counts underflowed. */
static bool is_measured(const block *b)
{
    bool is_double = gx_number_is_double(b->dtype);
    double least = is_double ? 1e-280 : 1e-25, most = is_double ? 1e300 : 1e35;
    for (int64_t j = 0; j < b->cols; j++) {
        double x = *small_at(b, b->G, j, j);
        if (!(x > least && x < most)) {
            return false;
        }
    }
    return true;
}

/* R = the Cholesky factor of P + shift I; false where there is none. */
static bool factorise(const block *b, double shift)
{
    int64_t info = 0;
    memcpy(b->R, b->P, (size_t)(b->cols * b->cols) * gx_number_bytes(b->wide));
    for (int64_t j = 0; j < b->cols; j++) {
        *small_at(b, b->R, j, j) += shift;
    }
    gx_args args = {.uplo = GX_UPPER, .m = b->cols, .n = b->cols, .a = b->R, .lda = b->cols};
    args.c = b->R;
    args.ldc = b->cols;
    args.info = &info;
    gx_dense_call(b->run, GX_POTRF, b->wide, &args);
    args.info = NULL;
    gx_dense_call(b->run, GX_TRIANGLE, b->wide, &args);
    return gx_ok(b->run) && info == 0;
}

/* A lower bound of P's smallest eigenvalue: 1 / ||R^-1||_F^2. */
static double least_eigenvalue(const block *b)
{
    make_unit(b, b->T);
    gx_dense_triangle(b->run, GX_TRSM, b->wide, GX_UPPER, GX_NO_TRANS, GX_NON_UNIT, b->cols, b->R,
                      b->cols, b->T);
    const double *inverse = b->T;
    double squares = 0;
    for (int64_t k = 0; k < b->cols * b->cols * (b->wide == GX_C128 ? 2 : 1); k++) {
        squares += inverse[k] * inverse[k];
    }
    return squares > 0 && gx_ok(b->run) ? 1 / squares : 0;
}

/* R^H R = G - C^H C, or a little more; false where that says nothing. */
static bool find_triangle(block *b)
{
    double length[GX_KRY_BLOCK_MOST], *P = b->P;
    int64_t m = b->m - b->first, cols = b->cols, parts = b->wide == GX_C128 ? 2 : 1;
    // What rounding may have done to a P with a diagonal of ones, and what makes up for it.
    double rounding = 256 * gx_number_eps(b->dtype);
    memcpy(P, b->G, (size_t)(cols * cols) * gx_number_bytes(b->wide));
    gx_dense_gemm(b->run, b->wide, gx_adjoint(b->dtype), GX_NO_TRANS, cols, cols, m, -1, b->C, m,
                  b->C, m, 1, P, cols);
    for (int64_t j = 0; j < cols; j++) {
        length[j] = sqrt(*small_at(b, b->G, j, j));
    }
    for (int64_t k = 0; k < cols * cols * parts; k++) {
        P[k] /= length[k / parts % cols] * length[k / parts / cols];
    }
    if ((!factorise(b, 0) || !(least_eigenvalue(b) > rounding)) && !factorise(b, rounding)) {
        return false;
    }
    double *R = b->R;
    for (int64_t k = 0; k < cols * cols * parts; k++) {
        R[k] *= length[k / parts / cols];
    }
    gx_convert(b->wide, R, cols, b->dtype, b->triangle, cols, cols, cols);
    gx_convert(b->dtype, b->triangle, cols, b->wide, R, cols, cols, cols);
    return gx_ok(b->run);
}

/* h += C S, of V's columns from `first` on. */
static void add_taken(const block *b, int64_t given, void *h, int64_t ldh)
{
    int64_t m = b->m - b->first;
    if (h != NULL) {
        gx_dense_gemm(b->run, b->wide, GX_NO_TRANS, GX_NO_TRANS, m, given, given, 1, b->C, m, b->S,
                      b->cols, 1, gx_at(h, b->wide, ldh, b->first, 0), ldh);
    }
}

/* S := R S. */
static void add_triangle(const block *b)
{
    gx_dense_triangle(b->run, GX_TRMM, b->wide, GX_UPPER, GX_NO_TRANS, GX_NON_UNIT, b->cols, b->R,
                      b->cols, b->S);
}

/*
** After this round, would more than rounding be left of each column?  What is left of column j
** beside those before it is S's diagonal.
*/
static bool are_columns_left(const block *b, const gx_ortho_lengths *l, int64_t given)
{
    const double ROUNDING = GX_ORTHO_ROUNDING * gx_number_eps(b->dtype);
    for (int64_t j = 0; j < b->cols; j++) {
        double left = fabs(*small_at(b, b->R, j, j) * *small_at(b, b->S, j, j));
        if (!(left > ROUNDING * fmax(j < given ? b->o->norm : 0, l->before[j]))) {
            return false;
        }
    }
    return true;
}

// The block ---------------------------------------------------------------------------------------

/* false: columns are to go one by one, from where Y is now: Y before = V h + Y S. */
static bool go_in_rounds(block *b, gx_ortho_lengths *l, int64_t given, bool has_norm, void *h,
                         int64_t ldh)
{
    sweep(b, false, true, b->o->first);
    for (int round = 0; round < ROUNDS && gx_ok(b->run); round++) {
        if (!is_measured(b)) {
            return false;
        }
        for (int64_t j = 0; j < b->cols && round == 0; j++) {
            l->before[j] = sqrt(*small_at(b, b->G, j, j));
            b->o->norm = fmax(b->o->norm, has_norm && j < given ? l->before[j] : 0);
        }
        bool is_last = b->first == 0 && is_near(b);
        if (!find_triangle(b) || !are_columns_left(b, l, given)) {
            return false;
        }
        add_taken(b, given, h, ldh);
        add_triangle(b);
        sweep(b, true, !is_last, 0);
        if (is_last) {
            return true;
        }
    }
    return false;
}

/* h += H S, s = T S of the columns that were left to go one by one. */
static void go_by_columns(block *b, gx_ortho_lengths *l, int64_t given, int64_t want, void *h,
                          int64_t ldh, void *s, int64_t lds)
{
    for (int64_t j = 0; j < given; j++) {
        l->scale[j] = fabs(*small_at(b, b->S, j, j));
    }
    gx_ortho_columns(b->o, b->V, b->m, b->y, given, want, l, b->C, b->m, b->T, b->cols);
    b->first = 0;
    add_taken(b, given, h, ldh);
    if (s != NULL) {
        gx_dense_gemm(b->run, b->wide, GX_NO_TRANS, GX_NO_TRANS, want, given, given, 1, b->T,
                      b->cols, b->S, b->cols, 0, s, lds);
    }
}

/* Lengths of columns as they are given, of any size; NaN and Inf are refused. */
static void measure_columns(block *b, gx_ortho_lengths *l, int64_t given, bool has_norm)
{
    for (int64_t j = 0; j < given; j++) {
        l->before[j] = gx_kry_norm(b->dtype, gx_at(b->y, b->dtype, b->n, 0, j), b->n);
        b->o->norm = fmax(b->o->norm, has_norm ? l->before[j] : 0);
        if (!isfinite(l->before[j])) {
            gx_run_failf(b->run, GX_NUMERIC, "a product with the matrix has NaN or Inf");
            return;
        }
    }
}

static void clear_wide(gx_number dtype, void *x, int64_t ld, int64_t rows, int64_t cols)
{
    gx_number wide = gx_number_wide(dtype);
    for (int64_t j = 0; j < cols && x != NULL && rows > 0; j++) {
        memset(gx_at(x, wide, ld, 0, j), 0, (size_t)rows * gx_number_bytes(wide));
    }
}

gx_code gx_ortho_block(gx_ortho *o, const void *V, int64_t m, void *y, int64_t cols, int64_t want,
                       void *h, int64_t ldh, void *s, int64_t lds)
{
    int64_t start_ns = gx_now_ns();
    gx_ortho_lengths lengths = {.before = {0}};
    block b = {.o = o, .run = o->run, .dtype = o->dtype, .V = V, .y = y, .n = o->n, .m = m};
    b.wide = gx_number_wide(o->dtype);
    b.cols = gx_max(cols, want);
    b.cut = cut_rows(b.dtype, b.n);
    assert(b.cols <= GX_KRY_BLOCK_MOST && m + want <= o->n && o->first <= m);
    clear_wide(o->dtype, h, ldh, m, cols);
    clear_wide(o->dtype, s, lds, want, cols);
    if (!gx_ok(o->run) || b.cols == 0 || gx_run_device(o->run, &b.backend, &b.dev) != GX_OK) {
        return o->run->err.code;
    }
    lay_out(&b);
    o->scratch = b.partial;
    make_unit(&b, b.S);
    if (want > cols) {
        gx_ortho_draw(o, gx_at(y, o->dtype, o->n, 0, cols), want - cols);
    }
    if (want >= cols && go_in_rounds(&b, &lengths, cols, s != NULL, h, ldh)) {
        for (int64_t j = 0; j < cols && s != NULL; j++) {
            memcpy(gx_at(s, b.wide, lds, 0, j), small_at(&b, b.S, 0, j),
                   (size_t)want * gx_number_bytes(b.wide));
        }
    } else if (gx_ok(o->run)) {
        if (lengths.before[0] == 0) {
            measure_columns(&b, &lengths, cols, s != NULL);
        }
        go_by_columns(&b, &lengths, cols, want, h, ldh, s, lds);
        gx_stats_add(&o->run->ctx->stats, GX_STAT_ORTHO_COLUMNS, 1);
    }
    gx_stats_add(&o->run->ctx->stats, GX_STAT_ORTHO_NS, gx_now_ns() - start_ns);
    return gx_run_poll(o->run);
}
