/*
** How many passes a Krylov driver will take: it is rehearsed on a model of the spectrum.
**
** The passes that a Krylov method needs depend on A through its eigenvalues alone, the starting
** block being random: on diag(theta) it takes what it takes on A.  Those of a matrix that nobody
** has looked at are unknown, but the law that independent random entries give is a fair stand-in
** for a dense matrix without structure, and known in closed form:
**
**   Hermitian  the semicircle, density sin^2 phi at cos phi                       (Wigner 1958)
**   general    the unit disc, evenly; in pairs where A is real                    (Ginibre 1965)
**   m x n      sigma^2 = 1 + c + 2 sqrt(c) cos phi, density sin^2 phi / sigma^2,
**              c = n / m <= 1                                         (Marchenko & Pastur 1967)
**
** So the driver itself is run on the diagonal matrix of that law's quantiles (at (i + 1/4) / n:
** with 1/2 the two ends would mirror each other, which no random matrix does), and its passes are
** counted.  Values that fall faster take fewer.
**
** What converges is decided near the edge.  So at most NODES quantiles are taken, those at the edge
** (at a shift, those about it) one by one and the others thinned out; and where many are wanted, k,
** the basis and the block are halved together with n until the basis has at most BASIS columns: the
** degree of the polynomials and the share of the spectrum that is wanted stay what they are.
**
** Memory: NODES vectors of the basis at most, less than the real call's.  Time: tenths of a second,
** RESTARTS at most.  Nothing of A is read.
*/
#include "krylov_rehearsal.h"
#include "../alg/dense.h"
#include "../base/random.h"
#include "krylov_eig.h"
#include "krylov_svd.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NODES = 1536, BASIS = 160, RESTARTS = 60 };

static const double PI = 3.14159265358979323846;

/* ---- the law --------------------------------------------------------------------------------- */

/*
** phi where the share `above` of the density sin^2 phi / d(phi) lies between 0 and phi; d is
** 1 + c + 2 sqrt(c) cos phi.  table[i] has the share up to i pi / STEPS.
*/
enum { STEPS = 4096 };

static void tabulate(double c, double *table)
{
    double sum = 0, before = 0;
    table[0] = 0;
    for (int i = 1; i <= STEPS; i++) {
        double phi = PI * i / STEPS, d = 1 + c + 2 * sqrt(c) * cos(phi);
        double density = d > 1e-12 ? sin(phi) * sin(phi) / d : 1;
        sum += (before + density) / 2;
        before = density;
        table[i] = sum;
    }
    for (int i = 1; i <= STEPS; i++) {
        table[i] /= sum;
    }
}

static double angle_of(const double *table, double above)
{
    int low = 0, high = STEPS;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        *(table[middle] < above ? &low : &high) = middle;
    }
    double along = (above - table[low]) / (table[high] - table[low]);
    if (low == 0) { // the share grows with the cube of the angle
        along = cbrt(along);
    }
    return PI * (low + along) / STEPS;
}

/*
** Place j of `nodes` that stand for n of them, as a share of what lies above it: at each of `ends`
** ends a half or all of three quarters one by one, the others thinned out evenly.
*/
static double share_of(int64_t j, int64_t nodes, int64_t n, int ends)
{
    int64_t own = 3 * nodes / (4 * ends), last = nodes - (ends == 2 ? own : 0);
    double place = (double)j;
    if (n > nodes && j >= last) {
        place = (double)(n - (nodes - j));
    } else if (n > nodes && j >= own) {
        double step = (double)(n - own * ends) / (double)(last - own);
        place = (double)own + step * ((double)(j - own) + 0.5);
    }
    return (place + 0.25) / (double)n;
}

/* ---- the operator ---------------------------------------------------------------------------- */

/* A diagonal matrix; of pairs, [re -im; im re] for each two rows. */
typedef struct model {
    gx_oper op; /* must be first */
    gx_scalar *value;
    void *wide; /* one column, in doubles */
    bool has_pairs;
} model;

static gx_code apply_model(gx_oper *op, bool is_adjoint, const void *x, int64_t cols, void *y)
{
    const model *of = (const model *)op;
    int64_t n = op->n;
    bool is_complex = gx_dtype_is_complex(op->dtype);
    gx_dtype wide = gx_kry_wide(op->dtype);
    int64_t count = of->has_pairs ? n / 2 : n;
    for (int64_t j = 0; j < cols && gx_ok(op->run); j++) {
        double *z = of->wide;
        gx_convert(op->dtype, gx_at((void *)x, op->dtype, n, 0, j), n, wide, z, n, n, 1);
        for (int64_t i = 0; i < count; i++) {
            double re = of->value[i].re, im = is_adjoint ? -of->value[i].im : of->value[i].im;
            if (is_complex || of->has_pairs) {
                double a = z[2 * i], b = z[2 * i + 1];
                z[2 * i] = re * a - im * b;
                z[2 * i + 1] = im * a + re * b;
            } else {
                z[i] *= re;
            }
        }
        gx_convert(wide, z, n, op->dtype, gx_at(y, op->dtype, n, 0, j), n, n, 1);
    }
    op->passes++;
    return gx_run_poll(op->run);
}

static void begin_model(gx_run *run, int64_t n, gx_dtype dtype, model *out)
{
    void *value = NULL, *wide = NULL;
    gx_dense_alloc(run, GX_C128, n, "a model of the spectrum", &value);
    gx_dense_alloc(run, GX_C128, n, "a model of the spectrum", &wide);
    *out = (model){.op = {.run = run, .m = n, .n = n, .dtype = dtype, .apply = apply_model},
                   .value = value,
                   .wide = wide};
}

static void end_model(model *of)
{
    gx_mem_free(of->op.run->ctx->mem, of->value);
    gx_mem_free(of->op.run->ctx->mem, of->wide);
}

/* What messages and sizes are taken from; it has no elements. */
static void stand_in(const gx_mat *A, int64_t n, gx_mat *out)
{
    *out = (gx_mat){.kind = A->kind, .rows = n, .cols = n, .dtype = A->dtype};
    snprintf(out->label, sizeof out->label, "%s", A->label);
}

/* A smaller problem of the same shape: see above. */
static void shrink(int64_t *n, int64_t *k, int64_t *ncv, int64_t *block)
{
    while (*ncv > BASIS && *block % 2 == 0 && *k > 1) {
        *n = gx_ceil_div(*n, 2);
        *k = gx_ceil_div(*k, 2);
        *ncv = gx_ceil_div(*ncv, 2);
        *block /= 2;
    }
}

static const char *how_of(bool is_enough)
{
    return is_enough ? "for a random matrix's spectrum" : "or more for a random matrix's spectrum";
}

/* ---- eigenvalues ----------------------------------------------------------------------------- */

static void lay_semicircle(model *of, int64_t n, bool is_inverse)
{
    double table[STEPS + 1];
    tabulate(0, table);
    int64_t nodes = of->op.n;
    for (int64_t j = 0; j < nodes; j++) {
        double share = share_of(j, nodes, n, 2);
        if (is_inverse) { // the ends of 1 / x are the values on both sides of the middle
            share = share < 0.5 ? 0.5 - share : 1.5 - share;
        }
        double x = cos(angle_of(table, share));
        of->value[j] = (gx_scalar){is_inverse ? 1 / x : x, 0};
    }
}

static uint64_t word_of(int64_t j)
{
    uint64_t counter[2] = {(uint64_t)j, 0}, out[2];
    gx_philox(counter, 0, out);
    return out[0];
}

/*
** By the sunflower's angles: evenly at each radius.  The j-th squared radius from the middle is
** Gamma(j) / n (Kostlan 1992), so that the outermost values stand apart as a random matrix's do.
*/
static void lay_disc(model *of, int64_t n, bool is_inverse)
{
    const double GOLDEN = 2.39996322972865332;
    of->has_pairs = !gx_dtype_is_complex(of->op.dtype);
    int64_t nodes = of->op.n / (of->has_pairs ? 2 : 1), whole = n / (of->has_pairs ? 2 : 1);
    for (int64_t j = 0; j < nodes; j++) {
        double share = share_of(j, nodes, whole, 1), angle = GOLDEN * (double)j;
        double order = (double)n * (is_inverse ? share : 1 - share), spread = sqrt(order);
        order = fmax(0.1, order + spread * gx_random_normal_of(word_of(j)));
        double radius = sqrt(order / (double)n);
        radius = is_inverse ? 1 / radius : radius;
        of->value[j] = (gx_scalar){radius * cos(angle), radius * sin(angle)};
    }
}

static gx_code rehearse_eig(gx_run *run, const gx_eig_args *asked, gx_foretold *told)
{
    gx_eig_args args = *asked;
    gx_krylov_sizes sizes;
    gx_krylov_eig_sizes(asked, &sizes);
    int64_t n = asked->A->rows;
    shrink(&n, &args.k, &sizes.ncv, &sizes.block);
    int64_t nodes = gx_min(n, gx_max(NODES, 8 * sizes.ncv));
    bool is_inverse = args.which == GX_EIG_NEAREST || args.which == GX_EIG_SMALLEST_MAGNITUDE;
    nodes -= asked->is_hermitian ? 0 : nodes % 2;
    gx_mat A;
    stand_in(asked->A, nodes, &A);
    args.A = &A;
    args.B = args.start = NULL;
    args.sigma = (gx_scalar){0, 0};
    args.ncv = gx_min(sizes.ncv, nodes);
    args.block = sizes.block;
    args.maxiter = gx_min(sizes.maxiter, RESTARTS);
    args.k = gx_min(args.k, nodes);
    args.wants_right = args.wants_left = args.wants_residuals = false;
    args.allows_partial = true;
    model of;
    begin_model(run, nodes, A.dtype, &of);
    if (gx_ok(run)) {
        (args.is_hermitian ? lay_semicircle : lay_disc)(&of, n, is_inverse);
        gx_eig_result result = {0};
        gx_eig_krylov_of(run, &of.op, &args, &result);
        told->passes = result.passes;
        told->how = how_of(result.count >= args.k);
        gx_eig_clear(&result);
    }
    end_model(&of);
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* ---- singular values ------------------------------------------------------------------------- */

static gx_code rehearse_svd(gx_run *run, const gx_svd_args *asked, gx_foretold *told)
{
    gx_svd_args args = *asked;
    gx_svd_sizes sizes;
    gx_svd_choose_sizes(asked, &sizes);
    int64_t most = gx_max(asked->A->rows, asked->A->cols);
    int64_t n = gx_min(asked->A->rows, asked->A->cols);
    double ratio = (double)n / (double)most, table[STEPS + 1];
    shrink(&n, &args.k, &sizes.ncv, &sizes.block);
    int64_t nodes = gx_min(n, gx_max(NODES, 8 * sizes.ncv));
    gx_mat A;
    stand_in(asked->A, nodes, &A);
    args.A = &A;
    args.mode = GX_SVD_VALUES;
    args.ncv = gx_min(sizes.ncv, nodes);
    args.block = sizes.block;
    args.maxiter = gx_min(sizes.maxiter, RESTARTS);
    args.k = gx_min(args.k, nodes);
    args.wants_residuals = false;
    args.allows_partial = true;
    model of;
    begin_model(run, nodes, A.dtype, &of);
    if (gx_ok(run)) {
        tabulate(ratio, table);
        for (int64_t j = 0; j < nodes; j++) {
            double phi = angle_of(table, share_of(j, nodes, n, 1));
            of.value[j] = (gx_scalar){sqrt(1 + ratio + 2 * sqrt(ratio) * cos(phi)), 0};
        }
        gx_svd_result result = {0};
        gx_svd_krylov(run, &of.op, &args, &result);
        told->passes = result.passes;
        told->how = how_of(result.count >= args.k);
        gx_svd_clear(&result);
    }
    end_model(&of);
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* ---- what was, and what will be -------------------------------------------------------------- */

static void of_matrix(const gx_mat *A, gx_search *out)
{
    memset(out, 0, sizeof *out);
    snprintf(out->schema, sizeof out->schema, "%s", A->meta.schema);
    out->id = A->meta.id;
    out->generation = A->meta.generation;
}

/* false: not to be known again by its arguments. */
static bool search_of_eig(const gx_eig_args *args, gx_search *out)
{
    of_matrix(args->A, out);
    out->k = args->k;
    out->ncv = args->ncv;
    out->block = args->block;
    out->maxiter = args->maxiter;
    out->tol = args->tol;
    out->sigma[0] = args->sigma.re;
    out->sigma[1] = args->sigma.im;
    out->which = (int64_t)args->which;
    out->is_general = args->is_general;
    return args->A->kind == GX_MAT_STORED && args->B == NULL && args->start == NULL;
}

static bool search_of_svd(const gx_svd_args *args, gx_search *out)
{
    of_matrix(args->A, out);
    out->is_svd = 1;
    out->k = args->k;
    out->ncv = args->ncv;
    out->block = args->block;
    out->maxiter = args->maxiter;
    out->tol = args->tol;
    return args->A->kind == GX_MAT_STORED && args->method != GX_SVD_RANDOMIZED;
}

/* Its place, or -1. */
static int place_of(const gx_past *past, const gx_search *search)
{
    for (int i = 0; i < GX_PAST_SEARCHES; i++) {
        if (past->passes[i] > 0 && memcmp(&past->search[i], search, sizeof *search) == 0) {
            return i;
        }
    }
    return -1;
}

static void note(gx_past *past, const gx_search *search, int64_t passes)
{
    int i = place_of(past, search);
    if (i < 0) {
        i = past->next;
        past->next = (past->next + 1) % GX_PAST_SEARCHES;
    }
    past->search[i] = *search;
    past->passes[i] = passes;
}

void gx_passes_note_eig(gx_run *run, const gx_eig_args *args, int64_t passes)
{
    gx_search search;
    if (gx_ok(run) && search_of_eig(args, &search)) {
        note(&run->ctx->past, &search, passes);
    }
}

void gx_passes_note_svd(gx_run *run, const gx_svd_args *args, int64_t passes)
{
    gx_search search;
    if (gx_ok(run) && search_of_svd(args, &search)) {
        note(&run->ctx->past, &search, passes);
    }
}

gx_code gx_foretell_eig(gx_run *run, const gx_eig_args *args, gx_foretold *told)
{
    gx_search search;
    int i = search_of_eig(args, &search) ? place_of(&run->ctx->past, &search) : -1;
    if (i < 0) {
        return rehearse_eig(run, args, told);
    }
    *told = (gx_foretold){run->ctx->past.passes[i], "as in the last call"};
    return GX_OK;
}

gx_code gx_foretell_svd(gx_run *run, const gx_svd_args *args, gx_foretold *told)
{
    gx_search search;
    int i = search_of_svd(args, &search) ? place_of(&run->ctx->past, &search) : -1;
    if (i < 0) {
        return rehearse_svd(run, args, told);
    }
    *told = (gx_foretold){run->ctx->past.passes[i], "as in the last call"};
    return GX_OK;
}
