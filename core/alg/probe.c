/*
** Residual probes (probe.h).
**
** A result is right when it does to vectors what it should: for a product C w = A (B w), for a
** factorisation A w = L (L^H w), for a system A (X w) = B w.  With w random (signs, from a fixed
** seed) a wrong block of any size shows in every component it touches, and the chance that it
** cancels is nil (Freivalds 1977).  So a kernel, a copy or a disk that lies is found for the price
** of reading operands and result once more, which beside n^3 work is little.
**
** Each multiplication is a streamed pass (pass.h) over rectangles of M.  The norms that the ratio
** divides by are estimated as well: for a random vector s of independent elements of mean 0,
** E ||M s||^2 is about ||M||_F^2, and such vectors ride along.
**
** I/O: each operand once.  Memory: a few columns, and a rectangle for each thread.
*/
#include "probe.h"

#include "../exec/pass.h"
#include "alg_lu.h"
#include "dense.h"
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

/* The columns of every product: signs to compare by, and as many looks to estimate a norm by. */
enum { COLUMNS = 2 * GX_PROBE_VECTORS };

/* As many columns in memory; x NULL: none. */
typedef struct block {
    int64_t rows;
    void *x;
} block;

/* One pass Y = op(M) W, in rectangles of M. */
typedef struct multiplication {
    const gx_mat *M;
    gx_probe_part part;
    gx_trans trans;
    gx_number dtype;
    const block *W, *Y;
    int64_t rows, cols; /* of a rectangle */
    const gx_backend *backend;
    gx_dev *dev;
} multiplication;

static bool is_lower(const multiplication *p)
{
    return p->part != GX_PART_WHOLE && p->part != GX_PART_UPPER;
}

/* Has a rectangle nothing of the part? */
static bool is_outside(const multiplication *p, const gx_tile_place *t)
{
    return is_lower(p) ? t->i0 + t->m <= t->j0 : p->part == GX_PART_UPPER && t->j0 + t->n <= t->i0;
}

/* Zeros where the part has none of a rectangle's elements; what its diagonal counts as. */
static void cut_out(const multiplication *p, const gx_tile_place *t, void *a)
{
    size_t element = gx_number_bytes(p->dtype);
    for (int64_t j = 0; j < t->n && p->part != GX_PART_WHOLE; j++) {
        int64_t at = gx_max(-1, gx_min(t->j0 + j - t->i0, t->m)); // the diagonal's row
        int64_t first = is_lower(p) ? 0 : gx_min(at + 1, t->m);
        int64_t end = is_lower(p) ? gx_max(0, at) : t->m;
        memset(gx_at(a, p->dtype, t->m, first, j), 0, (size_t)(end - first) * element);
        if (at >= 0 && at < t->m && p->part == GX_PART_LOWER_UNIT) {
            gx_number_put(p->dtype, a, j * t->m + at, GX_ONE);
        } else if (at >= 0 && at < t->m && p->part == GX_PART_HERMITIAN) {
            double d = gx_number_get(p->dtype, a, j * t->m + at).re;
            gx_number_put(p->dtype, a, j * t->m + at, (gx_scalar){d, 0});
        }
    }
}

static void clear_diagonal(const multiplication *p, const gx_tile_place *t, void *a)
{
    for (int64_t j = 0; j < t->n; j++) {
        int64_t at = t->j0 + j - t->i0;
        if (at >= 0 && at < t->m) {
            gx_number_put(p->dtype, a, j * t->m + at, (gx_scalar){0, 0});
        }
    }
}

/* out = op(a) W, a being a rectangle of M. */
static gx_code apply(const multiplication *p, gx_trans trans, const gx_tile_place *t, const void *a,
                     void *out, gx_err *err)
{
    bool is_plain = trans == GX_NO_TRANS;
    gx_args args = {.transa = trans,
                    .m = is_plain ? t->m : t->n,
                    .n = COLUMNS,
                    .k = is_plain ? t->n : t->m,
                    .alpha = GX_ONE,
                    .a = a,
                    .lda = t->m,
                    .b = gx_at(p->W->x, p->dtype, 1, is_plain ? t->j0 : t->i0, 0),
                    .ldb = p->W->rows,
                    .c = out};
    args.ldc = args.m;
    return p->backend->kernel[GX_GEMM][p->dtype](p->dev, NULL, &args, err);
}

/* Of a Hermitian part a rectangle is that of its mirror, too: behind the first product in part. */
static gx_code multiply_unit(void *arg, int64_t unit, gx_pass_thread *thread, void *work,
                             void *part, gx_err *err)
{
    const multiplication *p = arg;
    gx_tile_place t = gx_tile_at(p->M->rows, p->M->cols, p->rows, p->cols, unit);
    if (is_outside(p, &t)) {
        return GX_OK;
    }
    GX_TRY(gx_pass_read(thread, p->M, t.i0, t.j0, t.m, t.n, p->dtype, work, t.m, err));
    cut_out(p, &t, work);
    if (p->part != GX_PART_HERMITIAN) {
        return apply(p, p->trans, &t, work, part, err);
    }
    GX_TRY(apply(p, GX_NO_TRANS, &t, work, part, err));
    clear_diagonal(p, &t, work);
    return apply(p, gx_adjoint(p->dtype), &t, work, gx_at(part, p->dtype, t.m, 0, COLUMNS), err);
}

/* Rows of Y from `row` on += count rows. */
static gx_code add_rows(const multiplication *p, int64_t row, int64_t count, const void *from,
                        gx_err *err)
{
    void *to = gx_at(p->Y->x, p->dtype, 1, row, 0);
    gx_args args = {.map = GX_MAP_ADD,
                    .m = count,
                    .n = COLUMNS,
                    .alpha = GX_ONE,
                    .beta = GX_ONE,
                    .a = to,
                    .lda = p->Y->rows,
                    .b = from,
                    .ldb = count,
                    .c = to,
                    .ldc = p->Y->rows};
    return p->backend->kernel[GX_MAP][p->dtype](p->dev, NULL, &args, err);
}

static gx_code fold_unit(void *arg, int64_t unit, void *part, gx_err *err)
{
    const multiplication *p = arg;
    gx_tile_place t = gx_tile_at(p->M->rows, p->M->cols, p->rows, p->cols, unit);
    if (is_outside(p, &t)) {
        return GX_OK;
    }
    if (p->part != GX_PART_HERMITIAN) {
        return p->trans == GX_NO_TRANS ? add_rows(p, t.i0, t.m, part, err)
                                       : add_rows(p, t.j0, t.n, part, err);
    }
    GX_TRY(add_rows(p, t.i0, t.m, part, err));
    return add_rows(p, t.j0, t.n, gx_at(part, p->dtype, t.m, 0, COLUMNS), err);
}

/* Y = op(M) W into memory, the caller's to free. */
static void multiply(gx_run *run, const gx_mat *M, gx_probe_part part, gx_trans trans,
                     const block *W, gx_number dtype, block *Y)
{
    multiplication p = {.M = M, .part = part, .trans = trans, .dtype = dtype, .W = W, .Y = Y};
    int64_t element = (int64_t)gx_number_bytes(dtype);
    Y->rows = trans == GX_NO_TRANS ? M->rows : M->cols;
    gx_dense_alloc(run, dtype, Y->rows, COLUMNS, "a probe", &Y->x);
    if (!gx_ok(run) || gx_run_device(run, &p.backend, &p.dev) != GX_OK) {
        return;
    }
    memset(Y->x, 0, (size_t)(Y->rows * COLUMNS * element));
    // Columns that stay in a core's cache, of less than half of the memory.
    int64_t room = (int64_t)(gx_mem_available(run->ctx->mem) / 4) / element;
    p.rows = gx_max(1, gx_min(gx_min(M->tile_rows, M->rows), room / (4 * COLUMNS)));
    p.cols = gx_min(GX_PASS_CHUNK_BYTES / element, room / 2) / p.rows;
    p.cols = gx_max(1, gx_min(p.cols, gx_min(M->tile_cols, M->cols)));
    gx_pass pass = {.sources = &p.M,
                    .source_count = 1,
                    .units = gx_ceil_div(M->rows, p.rows) * gx_ceil_div(M->cols, p.cols),
                    .bytes = (double)M->rows * (double)M->cols * (double)element,
                    .work_bytes = (size_t)(p.rows * p.cols * element),
                    .part_bytes = (size_t)((p.rows + p.cols) * COLUMNS * element),
                    .work = multiply_unit,
                    .fold = fold_unit,
                    .arg = &p};
    gx_pass_run(run, &pass);
}

// Vectors -----------------------------------------------------------------------------------------

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

/* Columns from `first` on become such vectors: signs and looks, or looks again. */
static void draw(gx_number dtype, const block *b, int64_t first)
{
    for (int64_t j = first; j < COLUMNS; j++) {
        for (int64_t i = 0; i < b->rows; i++) {
            gx_number_put(dtype, b->x, j * b->rows + i, (gx_scalar){vector_at(i, j), 0});
        }
    }
}

static double column_norm(gx_number dtype, const block *b, int64_t j)
{
    return gx_small_norm(dtype, gx_at(b->x, dtype, b->rows, 0, j), gx_max(1, b->rows), b->rows, 1);
}

/* The norm of the M in x = M [signs, looks], from the latter columns.  NaN where one has a NaN. */
static double estimate_norm(gx_number dtype, const block *x)
{
    double norm = 0;
    for (int64_t j = GX_PROBE_VECTORS; j < COLUMNS; j++) {
        double of_column = column_norm(dtype, x, j);
        norm = isnan(of_column) || of_column > norm ? of_column : norm;
    }
    return norm;
}

// Comparing ---------------------------------------------------------------------------------------

/* left = alpha right + beta more, right = M z; z = N w. */
typedef struct comparison {
    gx_run *run;
    gx_number dtype;
    int64_t n; /* of the ratio's n eps */
    block z, left, right, more;
    gx_scalar alpha, beta;
    bool is_left_given;            /* left comes from what was given, right from the result */
    bool is_norm_given;            /* M was given                                           */
    double inner_norm, outer_norm; /* of what made z, of M: estimates            */
} comparison;

static double difference(const comparison *c, int64_t j)
{
    double apart = 0;
    for (int64_t i = 0; i < c->left.rows; i++) {
        int64_t at = j * c->left.rows + i;
        gx_scalar l = gx_number_get(c->dtype, c->left.x, at), m = {0, 0};
        gx_scalar r = gx_scalar_times(c->alpha, gx_number_get(c->dtype, c->right.x, at));
        if (c->more.x != NULL) {
            m = gx_scalar_times(c->beta, gx_number_get(c->dtype, c->more.x, at));
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
    double inner = fmax(c->inner_norm, column_norm(c->dtype, &c->z, j));
    double scale = outer * inner + column_norm(c->dtype, &c->left, j);
    if (c->more.x != NULL) {
        scale += hypot(c->beta.re, c->beta.im) * column_norm(c->dtype, &c->more, j);
    }
    return scale + least / eps * (1 + outer);
}

/* The largest ratio; -1: what was given cannot be compared with, or the result is out of range. */
static double find_ratio(comparison *c)
{
    double eps = gx_number_eps(c->dtype) / 2, worst = 0;
    double most = gx_number_is_double(c->dtype) ? DBL_MAX : (double)FLT_MAX;
    c->outer_norm = estimate_norm(c->dtype, &c->right);
    for (int64_t j = 0; j < GX_PROBE_VECTORS; j++) {
        double left = column_norm(c->dtype, &c->left, j);
        double right = column_norm(c->dtype, &c->right, j);
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
    gx_mem *mem = run->ctx->mem;
    gx_mem_free(mem, c->z.x);
    gx_mem_free(mem, c->left.x);
    gx_mem_free(mem, c->right.x);
    gx_mem_free(mem, c->more.x);
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

/* to = op(M) [signs, looks]. */
static void first(comparison *c, const gx_mat *M, gx_probe_part part, gx_trans trans, block *to)
{
    block W = {.rows = trans == GX_NO_TRANS ? M->cols : M->rows};
    if (gx_dense_alloc(c->run, c->dtype, W.rows, COLUMNS, "a probe", &W.x) == GX_OK) {
        draw(c->dtype, &W, 0);
        multiply(c->run, M, part, trans, &W, c->dtype, to);
    }
    gx_mem_free(c->run->ctx->mem, W.x);
}

/* right = op(M) [z, looks]. */
static void second(comparison *c, const gx_mat *M, gx_probe_part part, gx_trans trans)
{
    if (gx_ok(c->run)) {
        c->inner_norm = estimate_norm(c->dtype, &c->z);
        draw(c->dtype, &c->z, GX_PROBE_VECTORS);
        multiply(c->run, M, part, trans, &c->z, c->dtype, &c->right);
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
    if (dtype == GX_M31) {
        return false; // its roundings are looked at, of which there are none
    }
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
    first(&c, C, GX_PART_WHOLE, GX_NO_TRANS, &c.left);
    if (args->C0 != NULL && (args->beta.re != 0 || args->beta.im != 0)) {
        first(&c, args->C0, GX_PART_WHOLE, GX_NO_TRANS, &c.more);
    }
    return finish(&c);
}

gx_code gx_probe_cholesky(gx_run *run, const gx_mat *A, gx_uplo uplo, const gx_mat *F)
{
    comparison c = begin(run, F->number, A->rows);
    bool is_low = uplo == GX_LOWER;
    gx_probe_part part = is_low ? GX_PART_LOWER : GX_PART_UPPER;
    c.is_left_given = true;
    first(&c, F, part, is_low ? gx_adjoint(F->number) : GX_NO_TRANS, &c.z);
    second(&c, F, part, is_low ? GX_NO_TRANS : gx_adjoint(F->number));
    first(&c, A, GX_PART_HERMITIAN, GX_NO_TRANS, &c.left);
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
        gx_mat_value(&b, "A W", F->number, A->rows, COLUMNS, c.z.x, A->rows);
        gx_sink_begin_scratch(run, A->rows, COLUMNS, F->number, 0, &X);
    }
    if (gx_ok(run) && gx_alg_lu_solve(run, F, aux, GX_NO_TRANS, &b, &X) == GX_OK) {
        gx_sink_source(&X, "X", &x);
        gx_probe_solve(run, A, GX_PART_WHOLE, GX_NO_TRANS, &x, &b);
    }
    gx_sink_drop(&X);
    gx_mem_free(run->ctx->mem, c.z.x);
    gx_run_forgive(run, GX_BUDGET);
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_probe_qr(gx_run *run, const gx_mat *A, const gx_mat *F)
{
    if (A->rows < A->cols) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    comparison c = begin(run, F->number, A->rows);
    gx_mat R;
    block Rw = {0};
    c.is_norm_given = true;
    gx_mat_view(&R, F, GX_NO_TRANS, 0, 0, A->cols, A->cols);
    first(&c, A, GX_PART_WHOLE, GX_NO_TRANS, &c.z);
    second(&c, A, GX_PART_WHOLE, gx_adjoint(F->number));
    first(&c, &R, GX_PART_UPPER, GX_NO_TRANS, &Rw);
    if (gx_ok(run)) {
        multiply(run, &R, GX_PART_UPPER, gx_adjoint(F->number), &Rw, c.dtype, &c.left);
    }
    gx_mem_free(run->ctx->mem, Rw.x);
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
    first(&c, B, GX_PART_WHOLE, GX_NO_TRANS, &c.left);
    return finish(&c);
}
