/*
** Residual probes (probe.h).
**
** A result is right when it does to vectors what it should: for a product C w = A (B w), for a
** factorisation A w = L (L^H w), for a system A (X w) = B w.  With w random (signs, from a fixed
** seed) a wrong block of any size shows in every component it touches, and the chance that it
** cancels is nil (Freivalds 1977).  So a kernel, a copy or a disk that lies is found for the price
** of reading operands and result once more, which beside n^3 work is little.
**
** Each multiplication is a program of its own: block rows of M against w, read in the order of the
** rows, three blocks in memory.  The norms that the ratio divides by are estimated as well: for a
** random vector s of independent elements of mean 0, E ||M s||^2 is about ||M||_F^2, and such
** vectors ride along.
**
** I/O: each operand once (the lower triangle of a Hermitian one twice).  Memory: three blocks and
** a few columns.
*/
#include "probe.h"

#include "alg_lu.h"
#include "plan.h"
#include "small_r.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* The share of a driver's time that a probe may take by itself. */
static const double WORTH_IT = 0.03;

/* Flops below which nothing is predicted: the probe would never be worth it. */
static const double WORTH_A_THOUGHT = 1e9;

// Multiplying -------------------------------------------------------------------------------------

/* One program Y = op(M) W. */
typedef struct multiplication {
    gx_prog *prog;
    gx_probe_part part;
    gx_trans trans;
    const gx_opnd *M, *W, *Y;
    const gx_opnd *T; /* triangles: a block of W on its way; Hermitian: a diagonal block */
} multiplication;

/* Y[i] += op(M[r,c]) W[j]. */
static void add_block(const multiplication *p, int64_t r, int64_t c, gx_trans trans, int64_t i,
                      int64_t j)
{
    gx_prog_call(p->prog, &(gx_call){.kernel = GX_GEMM,
                                     .transa = trans,
                                     .alpha = GX_ONE,
                                     .beta = GX_ONE,
                                     .keeps_c = true,
                                     .a = gx_blk(p->M, r, c),
                                     .b = gx_blk(p->W, j, 0),
                                     .c = gx_blk(p->Y, i, 0)});
}

/* A diagonal block of a triangle: T = W[i]; T = op(M[i,i]) T; Y[i] += T. */
static void add_triangle(const multiplication *p, int64_t i)
{
    gx_block t = gx_blk(p->T, i, 0), y = gx_blk(p->Y, i, 0);
    gx_prog_call(p->prog, &(gx_call){.kernel = GX_COPY, .a = gx_blk(p->W, i, 0), .c = t});
    gx_prog_call(p->prog, &(gx_call){.kernel = GX_TRMM,
                                     .side = GX_LEFT,
                                     .transa = p->trans,
                                     .uplo = p->part == GX_PART_UPPER ? GX_UPPER : GX_LOWER,
                                     .diag = p->part == GX_PART_LOWER_UNIT ? GX_UNIT : GX_NON_UNIT,
                                     .alpha = GX_ONE,
                                     .a = gx_blk(p->M, i, i),
                                     .c = t,
                                     .keeps_c = true});
    gx_prog_call(p->prog, &(gx_call){.kernel = GX_MAP,
                                     .map = GX_MAP_ADD,
                                     .alpha = GX_ONE,
                                     .beta = GX_ONE,
                                     .a = y,
                                     .b = t,
                                     .c = y,
                                     .keeps_c = true});
}

/*
** T = the whole diagonal block of a Hermitian matrix; Y[i] += (T + T^H) / 2 W[i], so that what is
** stored as imaginary parts on the diagonal does not count.
*/
static void add_mirrored(const multiplication *p, int64_t i)
{
    int64_t edge = gx_min(p->M->block_rows, p->M->rows - i * p->M->block_rows);
    gx_block t = gx_blk_part(p->T, i, 0, 0, 0, edge, edge);
    gx_trans mirror = gx_adjoint(p->M->dtype);
    gx_prog_call(p->prog, &(gx_call){.kernel = GX_COPY, .a = gx_blk(p->M, i, i), .c = t});
    gx_prog_call(
        p->prog,
        &(gx_call){
            .kernel = GX_SYMMETRIZE, .transa = mirror, .uplo = GX_LOWER, .c = t, .keeps_c = true});
    for (int half = 0; half < 2; half++) {
        gx_prog_call(p->prog, &(gx_call){.kernel = GX_GEMM,
                                         .transa = half == 0 ? GX_NO_TRANS : mirror,
                                         .alpha = {0.5, 0},
                                         .beta = GX_ONE,
                                         .a = t,
                                         .b = gx_blk(p->W, i, 0),
                                         .c = gx_blk(p->Y, i, 0),
                                         .keeps_c = true});
    }
}

/* Block row i of op(M) times W. */
static void add_row(const multiplication *p, int64_t i)
{
    bool is_plain = p->trans == GX_NO_TRANS;
    bool is_triangle = p->part != GX_PART_WHOLE && p->part != GX_PART_HERMITIAN;
    bool is_lower = (p->part == GX_PART_UPPER) != is_plain; // of op(M)
    gx_trans mirror = gx_adjoint(p->M->dtype);
    gx_prog_call(p->prog, &(gx_call){.kernel = GX_FILL, .c = gx_blk(p->Y, i, 0)});
    for (int64_t j = 0; j < p->W->grid_rows; j++) {
        if (p->part == GX_PART_WHOLE) {
            add_block(p, is_plain ? i : j, is_plain ? j : i, p->trans, i, j);
        } else if (i == j) {
            (is_triangle ? add_triangle : add_mirrored)(p, i);
        } else if (is_triangle && (j < i) == is_lower) {
            add_block(p, is_plain ? i : j, is_plain ? j : i, p->trans, i, j);
        } else if (!is_triangle) { // op(M) is M
            bool is_stored = j < i;
            add_block(p, is_stored ? i : j, is_stored ? j : i, is_stored ? GX_NO_TRANS : mirror, i,
                      j);
        }
    }
}

/* Tiles, or what lets three of them fit into half of the memory. */
static int64_t choose_edge(gx_run *run, const gx_mat *M, gx_number dtype)
{
    double elements = (double)(gx_mem_available(run->ctx->mem) / 8 / gx_number_bytes(dtype));
    int64_t tile = gx_max(M->tile_rows, M->tile_cols);
    return gx_max(1, gx_min(tile, (int64_t)sqrt(elements)));
}

/* Y = op(M) W into memory; Y is begun here and dropped by the caller. */
static void multiply(gx_run *run, const gx_mat *M, gx_probe_part part, gx_trans trans,
                     const gx_mat *W, gx_number dtype, gx_sink *Y)
{
    int64_t rows = trans == GX_NO_TRANS ? M->rows : M->cols;
    int64_t edge = choose_edge(run, M, dtype);
    int64_t blocks = gx_ceil_div(gx_max(1, M->rows), edge) * gx_ceil_div(gx_max(1, M->cols), edge);
    multiplication p = {.part = part, .trans = trans};
    if (gx_sink_begin_scratch(run, rows, W->cols, dtype, 0, Y) != GX_OK) {
        return;
    }
    if (Y->is_stored) { // a few columns, and not even they fit
        gx_run_failf(run, GX_BUDGET, "no memory for a probe");
        return;
    }
    if (gx_prog_create(run, 4 * blocks, &p.prog) != GX_OK) {
        return;
    }
    p.M = gx_prog_operand(p.prog, M, NULL, dtype, M->rows, M->cols, edge, edge);
    p.W = gx_prog_operand(p.prog, W, NULL, dtype, W->rows, W->cols, edge, W->cols);
    p.Y = gx_prog_operand(p.prog, NULL, Y, dtype, rows, W->cols, edge, W->cols);
    if (part == GX_PART_HERMITIAN) {
        p.T = gx_prog_operand(p.prog, NULL, NULL, dtype, M->rows, edge, edge, edge);
    } else if (part != GX_PART_WHOLE) {
        p.T = gx_prog_operand(p.prog, NULL, NULL, dtype, rows, W->cols, edge, W->cols);
    }
    gx_prog_lookahead(p.prog, gx_max(4, 2 * run->ctx->config.number[GX_SET_READERS]));
    for (int64_t i = 0; i < p.Y->grid_rows && gx_ok(run); i++) {
        add_row(&p, i);
    }
    gx_prog_run(p.prog);
    gx_prog_free(p.prog);
}

// Vectors -----------------------------------------------------------------------------------------

/* The columns of every product: signs to compare by, and as many looks to estimate a norm by. */
enum { COLUMNS = 2 * GX_PROBE_VECTORS };

/*
** Vectors that depend on (i, j) alone (splitmix64: Steele, Lea & Flood 2014).  Signs, or for looks
** signs times sizes from 0.5 to 1.5: a small or sparse row may be orthogonal to signs, and then its
** norm would seem to be 0.
*/
static double vector_at(int64_t i, int64_t j)
{
    uint64_t z = ((uint64_t)i * COLUMNS + (uint64_t)j + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    double size = j < GX_PROBE_VECTORS ? 1 : 0.5 + (double)(z >> 11) * 0x1p-53;
    return (z & 1) != 0 ? size : -size;
}

static void generate_vectors(const void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n,
                             gx_number dtype, void *dst, int64_t ld)
{
    (void)arg;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            gx_number_put(dtype, dst, j * ld + i, (gx_scalar){vector_at(i0 + i, j0 + j), 0});
        }
    }
}

static void start_vectors(gx_mat *W, int64_t rows, gx_number dtype)
{
    gx_mat_generated(W, "random vectors", dtype, rows, COLUMNS, generate_vectors, NULL);
}

/* The latter half of the columns become looks again. */
static void renew_looks(const gx_sink *z)
{
    int64_t half = GX_PROBE_VECTORS, ld = gx_max(1, z->rows);
    generate_vectors(NULL, 0, half, z->rows, half, z->number,
                     gx_at(z->value.data, z->number, ld, 0, half), ld);
}

static gx_scalar element(const gx_sink *x, int64_t i, int64_t j)
{
    return gx_number_get(x->number, x->value.data, j * gx_max(1, x->rows) + i);
}

static double column_norm(const gx_sink *x, int64_t j)
{
    int64_t ld = gx_max(1, x->rows);
    return gx_small_norm(x->number, gx_at(x->value.data, x->number, ld, 0, j), ld, x->rows, 1);
}

/* The norm of the M in x = M [signs, looks], from the latter columns.  NaN where one has a NaN. */
static double estimate_norm(const gx_sink *x)
{
    double norm = 0;
    for (int64_t j = GX_PROBE_VECTORS; j < COLUMNS; j++) {
        double of_column = column_norm(x, j);
        norm = isnan(of_column) || of_column > norm ? of_column : norm;
    }
    return norm;
}

static gx_scalar times(gx_scalar a, gx_scalar b)
{
    return (gx_scalar){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// Comparing ---------------------------------------------------------------------------------------

/* left = alpha right + beta more, right = M z; z = N w. */
typedef struct comparison {
    gx_run *run;
    gx_number dtype;
    int64_t n; /* of the ratio's n eps */
    gx_sink z, left, right, more;
    gx_scalar alpha, beta;
    bool is_left_given;            /* left comes from what was given, right from the result */
    bool is_norm_given;            /* M was given                                           */
    double inner_norm, outer_norm; /* of what made z, of M: estimates            */
} comparison;

static double difference(const comparison *c, int64_t j)
{
    double apart = 0;
    bool has_more = c->more.run != NULL;
    for (int64_t i = 0; i < c->left.rows; i++) {
        gx_scalar l = element(&c->left, i, j), r = times(c->alpha, element(&c->right, i, j));
        gx_scalar m = {0, 0};
        if (has_more) {
            m = times(c->beta, element(&c->more, i, j));
        }
        apart = hypot(apart, hypot(l.re - r.re - m.re, l.im - r.im - m.im));
    }
    return apart;
}

/* What rounding is relative to, and what products that underflow lose. */
static double scale_of(const comparison *c, int64_t j)
{
    double eps = gx_number_eps(c->dtype), least = gx_number_least(c->dtype);
    double outer = hypot(c->alpha.re, c->alpha.im) * c->outer_norm;
    double scale = outer * fmax(c->inner_norm, column_norm(&c->z, j)) + column_norm(&c->left, j);
    if (c->more.run != NULL) {
        scale += hypot(c->beta.re, c->beta.im) * column_norm(&c->more, j);
    }
    return scale + least / eps * (1 + outer);
}

/* The largest ratio; -1: what was given cannot be compared with, or the result is out of range. */
static double find_ratio(comparison *c)
{
    double eps = gx_number_eps(c->dtype) / 2, worst = 0;
    double most = gx_number_is_double(c->dtype) ? DBL_MAX : (double)FLT_MAX;
    c->outer_norm = estimate_norm(&c->right);
    for (int64_t j = 0; j < GX_PROBE_VECTORS; j++) {
        double left = column_norm(&c->left, j), right = column_norm(&c->right, j);
        bool is_given_finite = isfinite(c->is_left_given ? left : right) &&
                               (!c->is_norm_given || isfinite(c->outer_norm));
        // A solution is at least this long: its elements, or what led to them, may overflow.
        bool overflows = c->is_left_given && c->is_norm_given && left / c->outer_norm > most * eps;
        double scale = scale_of(c, j);
        if (!is_given_finite || overflows || scale > sqrt(most)) {
            return -1;
        }
        double apart = difference(c, j);
        double ratio = apart == 0 ? 0 : apart / ((double)gx_max(1, c->n) * eps * scale);
        worst = isnan(ratio) || ratio > worst ? ratio : worst;
        if (isnan(worst)) {
            return (double)INFINITY;
        }
    }
    return worst;
}

/* Judge, and put everything away; a probe that found no memory is passed over. */
static gx_code finish(comparison *c)
{
    gx_run *run = c->run;
    double ratio = gx_ok(run) ? find_ratio(c) : -1;
    gx_sink_drop(&c->z);
    gx_sink_drop(&c->left);
    gx_sink_drop(&c->right);
    gx_sink_drop(&c->more);
    if (gx_run_forgive(run, GX_BUDGET)) {
        gx_stats_note(&run->ctx->stats, "residual check: no memory for it");
        return GX_OK;
    }
    if (!gx_ok(run) || ratio < 0) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    gx_stats_add(&run->ctx->stats, GX_STAT_PROBES, 1);
    gx_stats_set(&run->ctx->stats, GX_STAT_PROBE_RATIO,
                 (int64_t)fmin(ratio * 1000, 9e15)); // thousandths
    if (ratio > GX_PROBE_MOST) {
        gx_run_failf(run, GX_DEVICE,
                     "the result failed its residual check (ratio %.3g of at most %d)", ratio,
                     GX_PROBE_MOST);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

static comparison begin(gx_run *run, gx_number dtype, int64_t n)
{
    return (comparison){.run = run, .dtype = dtype, .n = n, .alpha = GX_ONE};
}

/* z = op(M) [signs, looks]. */
static void first(comparison *c, const gx_mat *M, gx_probe_part part, gx_trans trans, gx_sink *to)
{
    gx_mat W;
    start_vectors(&W, trans == GX_NO_TRANS ? M->cols : M->rows, c->dtype);
    multiply(c->run, M, part, trans, &W, c->dtype, to);
}

/* right = op(M) [z, looks]. */
static void second(comparison *c, const gx_mat *M, gx_probe_part part, gx_trans trans)
{
    gx_mat z;
    if (gx_ok(c->run)) {
        c->inner_norm = estimate_norm(&c->z);
        renew_looks(&c->z);
        gx_sink_source(&c->z, "z", &z);
        multiply(c->run, M, part, trans, &z, c->dtype, &c->right);
    }
}

// The probes --------------------------------------------------------------------------------------

/* Seconds by the model alone: what calls have taught is about calls. */
static double seconds_of(gx_run *run, const gx_cost *cost, gx_number dtype)
{
    enum { EDGE = 1024 };
    gx_terms terms;
    gx_predict_cost(run, NULL, cost, dtype, EDGE, &terms);
    return terms.model_s;
}

bool gx_probe_is_due(gx_run *run, gx_number dtype, double driver_flops, double driver_bytes,
                     double elements, double bytes)
{
    int64_t choice = run->ctx->config.number[GX_SET_PROBE];
    if (!gx_ok(run) || choice != GX_PROBE_AUTO || elements == 0) {
        return gx_ok(run) && choice == GX_PROBE_ON && elements > 0;
    }
    if (driver_flops < WORTH_A_THOUGHT) {
        return false;
    }
    gx_cost driver = {.flops = driver_flops, .bytes_read = driver_bytes};
    gx_cost probe = {.flops = 4 * COLUMNS * elements, .bytes_read = bytes};
    // Matrix times a few columns is bound by memory: a tenth of the flop rate, rather less.
    probe.flops *= 10;
    double driver_s = run->is_planned_on_device ? run->planned_s : seconds_of(run, &driver, dtype);
    return seconds_of(run, &probe, dtype) < WORTH_IT * driver_s;
}

gx_code gx_probe_product(gx_run *run, const gx_matmul_args *args, const gx_mat *C)
{
    comparison c = begin(run, C->number, gx_max(args->A->cols, gx_max(C->rows, C->cols)));
    c.alpha = args->alpha;
    c.beta = args->beta;
    c.is_norm_given = true;
    first(&c, args->B, GX_PART_WHOLE, args->transb, &c.z);
    second(&c, args->A, GX_PART_WHOLE, args->transa);
    if (gx_ok(run)) {
        first(&c, C, GX_PART_WHOLE, GX_NO_TRANS, &c.left);
    }
    if (gx_ok(run) && args->C0 != NULL && (args->beta.re != 0 || args->beta.im != 0)) {
        first(&c, args->C0, GX_PART_WHOLE, GX_NO_TRANS, &c.more);
    }
    return finish(&c);
}

gx_code gx_probe_cholesky(gx_run *run, const gx_mat *A, gx_uplo uplo, const gx_mat *F)
{
    comparison c = begin(run, F->number, A->rows);
    bool is_lower = uplo == GX_LOWER;
    gx_probe_part part = is_lower ? GX_PART_LOWER : GX_PART_UPPER;
    c.is_left_given = true;
    first(&c, F, part, is_lower ? gx_adjoint(F->number) : GX_NO_TRANS, &c.z);
    second(&c, F, part, is_lower ? GX_NO_TRANS : gx_adjoint(F->number));
    if (gx_ok(run)) {
        first(&c, A, GX_PART_HERMITIAN, GX_NO_TRANS, &c.left);
    }
    return finish(&c);
}

gx_code gx_probe_lu(gx_run *run, const gx_mat *A, const gx_mat *F, const gx_aux *aux)
{
    if (A->rows != A->cols || aux->info > 0 || A->rows == 0) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    comparison c = begin(run, F->number, A->rows);
    gx_sink X = {0};
    gx_mat b, x;
    first(&c, A, GX_PART_WHOLE, GX_NO_TRANS, &c.z);
    if (gx_ok(run)) {
        gx_sink_source(&c.z, "A W", &b);
        gx_sink_begin_scratch(run, A->rows, COLUMNS, F->number, 0, &X);
    }
    if (gx_ok(run) && gx_alg_lu_solve(run, F, aux, GX_NO_TRANS, &b, &X) == GX_OK) {
        gx_sink_source(&X, "X", &x);
        gx_probe_solve(run, A, GX_PART_WHOLE, GX_NO_TRANS, &x, &b);
    }
    gx_sink_drop(&X);
    gx_sink_drop(&c.z);
    gx_run_forgive(run, GX_BUDGET);
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_probe_qr(gx_run *run, const gx_mat *A, const gx_mat *F)
{
    if (A->rows < A->cols) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    comparison c = begin(run, F->number, A->rows);
    gx_mat R, z;
    gx_sink Rw = {0};
    c.is_norm_given = true;
    gx_mat_view(&R, F, GX_NO_TRANS, 0, 0, A->cols, A->cols);
    first(&c, A, GX_PART_WHOLE, GX_NO_TRANS, &c.z);
    second(&c, A, GX_PART_WHOLE, gx_adjoint(F->number));
    if (gx_ok(run)) {
        first(&c, &R, GX_PART_UPPER, GX_NO_TRANS, &Rw);
    }
    if (gx_ok(run)) {
        gx_sink_source(&Rw, "R w", &z);
        multiply(run, &R, GX_PART_UPPER, gx_adjoint(F->number), &z, c.dtype, &c.left);
    }
    gx_sink_drop(&Rw);
    return finish(&c);
}

gx_code gx_probe_solve(gx_run *run, const gx_mat *A, gx_probe_part part, gx_trans trans,
                       const gx_mat *X, const gx_mat *B)
{
    comparison c = begin(run, X->number, A->rows);
    c.is_left_given = true;
    c.is_norm_given = true;
    first(&c, X, GX_PART_WHOLE, GX_NO_TRANS, &c.z);
    second(&c, A, part, trans);
    if (gx_ok(run)) {
        first(&c, B, GX_PART_WHOLE, GX_NO_TRANS, &c.left);
    }
    return finish(&c);
}
