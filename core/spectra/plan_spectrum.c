/*
** What gx_eig and gx_svd would do: the driver, passes over A, bytes read, flops; see
** plan_spectrum.h.
**
** The choices are those of the drivers (alg_eig.c, krylov_eig.c, alg_svd.c, krylov_triplets.c),
** asked of the same functions, with the memory there is.  A dense driver reads A once.  What a
** Krylov driver reads of A in a pass is known: columns that stay in memory are read once, the
** others in every pass (krylov_oper.c), of a Hermitian matrix those below the diagonal alone.  The
** randomized driver's passes are fixed.  How many passes a Krylov driver takes is foretold:
**
** The passes depend on A through its eigenvalues alone, the starting block being random, and those
** nobody knows beforehand.  Foretold are those that the connection's latest such search of A took
** (core/base/ledger.h), else those for the law that independent random entries give, a fair
** stand-in for a dense matrix without structure; values that fall faster take fewer.
**
**   Hermitian  the semicircle, density sin^2 phi at cos phi                       (Wigner 1958)
**   general    the unit disc, evenly                                              (Ginibre 1965)
**   m x n      sigma^2 = 1 + c + 2 sqrt(c) cos phi, density sin^2 phi / sigma^2,
**              c = n / m <= 1                                         (Marchenko & Pastur 1967)
**
** Between two restarts the polynomial has degree d, the block steps, and the basis keeps p vectors:
** the k-th value then stands out from the p-th, and from all behind it, by T_d, that is cosh(d a),
** a = acosh(1 + 2 (x_k - x_p) / (x_p - x_n)).  Of a disc polynomials make no more than the power
** d of |x_k / x_p|.  So many times, until the product is 1 / tol and what it takes to know that
** none was missed.
**
** What that takes (EXTRA, STEPS) is fitted to the drivers on such spectra, n = 500 .. 16000, k = 1
** .. 50, blocks of 4 .. 16, both precisions: within 17 %; within a factor of two where general.
*/
#include "plan_spectrum.h"

#include "../alg/dense.h"
#include "../alg/dense_device.h"
#include "krylov_eig.h"
#include "krylov_svd.h"

#include <assert.h>
#include <math.h>

// Passes ------------------------------------------------------------------------------------------

/* What decides how many block steps a Krylov driver takes. */
typedef struct search {
    enum {
        END,   /* one end of a Hermitian spectrum */
        ENDS,  /* both: the largest magnitudes    */
        SIGMA, /* singular values                 */
        DISC   /* a general matrix                */
    } shape;
    int64_t n, k;             /* values there are; wanted                                  */
    double ratio;             /* SIGMA: the shorter side by the longer; else 0             */
    int64_t ncv, block, kept; /* columns of the basis, of a block, kept at a restart       */
    int64_t maxiter;
    double tol;
} search;

static const double PI = 3.14159265358979323846;

/* phi where the share of the law with so much c above cos phi is that of `above` of n values. */
static double angle_of(double above, double n, double c)
{
    double side = 1 + sqrt(c);
    return fmin(cbrt(1.5 * PI * side * side * above / n), PI - 0.1);
}

/* ln of what a block step makes of the k-th value beside the p-th, of n. */
static double step_of(const search *s, double k, double p)
{
    double n = (double)s->n;
    if (s->shape == DISC) {
        return log((1 - k / n) / fmax(1 - p / n, 0.01)) / 2;
    }
    bool has_ends = s->shape == ENDS; // half of them at each
    double x = cos(angle_of(has_ends ? k / 2 : k, n, s->ratio));
    double y = cos(angle_of(has_ends ? p / 2 : p, n, s->ratio));
    return has_ends ? acosh(x / fmax(y, 0.01)) : acosh(1 + 2 * (x - y) / (1 + y));
}

/* Block steps. */
static int64_t steps_for_random(const search *s)
{
    static const double EXTRA[] = {[END] = 12, [ENDS] = 5, [SIGMA] = 0, [DISC] = 0};
    const double STEPS = 16;
    double block = (double)s->block, all = ceil((double)s->n / block);
    double filled = (double)s->ncv / block, degree = (double)(s->ncv - s->kept) / block;
    double place = s->shape == ENDS ? 0.5 : 0.75; // the i-th of n stands at i - place
    double k = (double)s->k - place, p = (double)gx_max(s->k, s->kept);
    double wanted = log(1 / s->tol) + EXTRA[s->shape];
    wanted = s->shape == DISC ? wanted / 2 : wanted;
    assert(s->block > 0 && s->k > 0 && s->tol > 0);
    if (s->ncv >= s->n) { // the basis is everything
        return (int64_t)all;
    }
    double gained = degree * step_of(s, k, p);
    double cycle = s->shape == DISC ? gained : log(cosh(fmin(gained, 100)));
    double cycles = fmax(1, fmin(wanted / fmax(cycle, 1e-3), (double)s->maxiter));
    return (int64_t)(filled + (cycles - 1) * degree + STEPS);
}

/*
** Passes over A until all have converged: those of the latest such search, known by its key, else
** as if A's spectrum were that of a random matrix.
*/
static void foretell(gx_run *run, uint64_t key, const search *s, gx_spectrum_plan *plan)
{
    int64_t made = gx_ledger_passes(&run->ctx->ledger, key);
    int64_t each = s->shape == SIGMA ? 2 : 1; // with A and with A^H
    plan->passes = made > 0 ? made : each * steps_for_random(s);
    plan->how = made > 0 ? "as in the last call" : "for a random matrix's spectrum";
}

// Costs -------------------------------------------------------------------------------------------

/*
** The cost of plan->passes over A.  A pass is as fast as memory, or as the flops where they take
** longer.  is_coupled: what A makes of a block has something of all of the basis.
*/
static void cost_passes(gx_run *run, const gx_mat *A, bool is_coupled, gx_spectrum_plan *plan)
{
    const double HALF = 0.5; // of a basis, on average
    const gx_profile *profile = gx_profile_get(run->ctx);
    int threads = (int)run->ctx->config.number[GX_SET_THREADS];
    double passes = (double)plan->passes, m = (double)A->rows, n = (double)A->cols;
    double element = (double)gx_number_bytes(A->number),
           unit = gx_number_is_complex(A->number) ? 4 : 1;
    // Two products of a block with the basis on the host, which is read twice; four, and thrice.
    double basis = (m + n) / 2 * (double)plan->ncv * HALF, readings = is_coupled ? 3 : 2;
    double ortho = unit * (is_coupled ? 8 : 4) * basis * (double)plan->block;
    double flops = unit * 2 * m * n * (double)plan->block + ortho;
    double rate = gx_profile_flops(profile, A->number, 1024, threads), flops_s = flops / rate;
    double reading_s = readings * basis * element / gx_profile_sweep_rate(profile, threads);
    double sweep_s = fmax(reading_s, ortho / rate) + plan->oper.pass_s;
    bool is_host = run->target == NULL;
    plan->driver = is_host || plan->oper.up > 0 ? plan->driver : NULL;
    plan->cost = (gx_cost){
        .flops = flops * passes,
        .bytes_read = plan->oper.once + plan->oper.each * passes,
        .bytes_up = plan->oper.up,
        .calls = plan->passes,
        .compute_s = (is_host && flops_s > sweep_s ? flops_s : sweep_s) * passes,
    };
    plan->is_faster = !is_host && plan->oper.is_faster;
}

/* The cost of one dense call, on A as it is. */
static void cost_dense(gx_run *run, const gx_mat *A, const char *driver, gx_kernel_id kernel,
                       const gx_args *call, gx_spectrum_plan *plan)
{
    size_t bytes = 0;
    gx_matrix_bytes(A->rows, A->cols, A->number, &bytes);
    plan->passes = 1;
    plan->cost = (gx_cost){
        .flops = gx_kernel_flops(kernel, A->number, call),
        .bytes_read = (double)bytes,
        .calls = 1,
        .compute_s = gx_dense_spectrum_seconds(run, kernel, A->number, call, &plan->is_faster),
    };
    plan->driver = run->target != NULL && plan->cost.compute_s == 0 ? NULL : driver;
}

// Eigenvalues -------------------------------------------------------------------------------------

static void plan_krylov_eig(gx_run *run, const gx_eig_args *args, gx_spectrum_plan *plan)
{
    const gx_mat *A = args->A;
    if (args->B != NULL || args->which == GX_EIG_NEAREST ||
        args->which == GX_EIG_SMALLEST_MAGNITUDE) {
        gx_run_failf(run, GX_UNSUPPORTED,
                     "eigenvalues near a number, and those of a pair of matrices, are not planned: "
                     "they take a factorisation first, see gx_plan('lu(A)')");
        return;
    }
    gx_krylov_sizes sizes;
    gx_krylov_eig_sizes(args, &sizes);
    size_t needed = gx_krylov_eig_bytes(args);
    if (gx_dense_fits(run, needed, "eigenvalues with such a basis", A,
                      "ask for fewer, or raise it with gx_config('memory_limit', ...)") != GX_OK) {
        return;
    }
    search asked = {.shape = args->which == GX_EIG_LARGEST_MAGNITUDE ? ENDS : END,
                    .n = A->rows,
                    .k = args->k,
                    .ncv = sizes.ncv,
                    .block = sizes.block,
                    .maxiter = sizes.maxiter,
                    .tol = sizes.tol};
    asked.shape = args->is_hermitian ? asked.shape : DISC;
    asked.kept = gx_krylov_eig_kept(args->k, sizes.ncv, sizes.ncv, sizes.block);
    foretell(run, gx_eig_search_key(args), &asked, plan);
    plan->block = sizes.block;
    size_t keep = needed - gx_oper_floor_bytes(A, A->number);
    gx_oper_foresee(run, A, A->number, args->is_hermitian, keep, sizes.block, &plan->oper);
    plan->ncv = sizes.ncv;
    plan->driver = args->is_hermitian ? "lanczos" : "krylov-schur";
    cost_passes(run, A, !args->is_hermitian, plan);
}

static void plan_dense_eig(gx_run *run, const gx_eig_args *args, gx_spectrum_plan *plan)
{
    const gx_mat *A = args->A;
    gx_args call = {.m = A->rows,
                    .n = A->rows,
                    .ldc = gx_max(1, A->rows),
                    .wants_right = args->wants_right,
                    .wants_left = args->wants_left && !args->is_hermitian};
    if (gx_dense_fits(run, gx_eig_dense_bytes(run, args), "all eigenvalues", A,
                      "ask for k of them") == GX_OK) {
        cost_dense(run, A, args->is_hermitian ? "syevd" : "geev",
                   args->is_hermitian ? GX_SYEV : GX_GEEV, &call, plan);
    }
}

gx_code gx_plan_eig(gx_run *run, const gx_eig_args *asked, gx_spectrum_plan *plan)
{
    gx_eig_args args = *asked;
    *plan = (gx_spectrum_plan){0};
    if (gx_eig_prepare(run, &args) != GX_OK || gx_eig_look(run, &args) != GX_OK) {
        return run->err.code;
    }
    if (gx_eig_wants_krylov(run, &args)) {
        plan_krylov_eig(run, &args, plan);
    } else {
        plan_dense_eig(run, &args, plan);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Singular values ---------------------------------------------------------------------------------

static void plan_iterative_svd(gx_run *run, const gx_svd_args *wanted, gx_spectrum_plan *plan)
{
    const gx_mat *A = wanted->A;
    gx_svd_args args = *wanted;
    gx_svd_sizes sizes;
    bool is_random = args.method == GX_SVD_RANDOMIZED;
    args.method = is_random ? GX_SVD_RANDOMIZED : GX_SVD_KRYLOV;
    if (gx_svd_check_sizes(run, &args, 0) != GX_OK) {
        return;
    }
    gx_svd_choose_sizes(&args, &sizes);
    plan->passes = 2 * sizes.power + 2;
    plan->how = "whatever its spectrum";
    if (!is_random) {
        int64_t least = gx_min(A->rows, A->cols), most = gx_max(A->rows, A->cols);
        search asked = {.shape = SIGMA,
                        .n = least,
                        .k = args.k,
                        .ratio = (double)least / (double)most,
                        .ncv = sizes.ncv,
                        .block = sizes.block,
                        .maxiter = sizes.maxiter,
                        .tol = sizes.tol};
        asked.kept = gx_svd_kept(args.k + 1, sizes.ncv, sizes.ncv, sizes.block);
        foretell(run, gx_svd_search_key(&args), &asked, plan);
    }
    bool is_hermitian = A->rows == A->cols && (A->properties & GX_PROP_HERMITIAN) != 0;
    plan->ncv = is_random ? sizes.width : sizes.ncv;
    plan->block = is_random ? sizes.width : sizes.block;
    gx_oper_foresee(run, A, A->number, is_hermitian, gx_svd_work_bytes(run, &args), plan->block,
                    &plan->oper);
    plan->driver = is_random ? "randomized" : "golub-kahan";
    cost_passes(run, A, false, plan);
}

static void plan_dense_svd(gx_run *run, const gx_svd_args *args, gx_spectrum_plan *plan)
{
    const gx_mat *A = args->A;
    bool has_vectors = args->mode != GX_SVD_VALUES;
    gx_args call = {.m = A->rows,
                    .n = A->cols,
                    .ldc = gx_max(1, A->rows),
                    .wants_left = has_vectors,
                    .wants_right = has_vectors,
                    .is_full = args->mode == GX_SVD_FULL};
    if (gx_svd_refuse_dense(run, args) == GX_OK) {
        cost_dense(run, A, "gesdd", GX_GESDD, &call, plan);
    }
}

/* A QR by panels, and a pass for the long side's vectors. */
static void plan_short_svd(gx_run *run, const gx_svd_args *args, gx_spectrum_plan *plan)
{
    const gx_mat *A = args->A;
    double m = (double)gx_max(A->rows, A->cols), l = (double)gx_min(A->rows, A->cols);
    gx_args call = {.m = A->rows, .n = A->cols, .ldc = gx_max(1, A->rows)};
    cost_dense(run, A, NULL, GX_GESDD, &call, plan);
    plan->driver = run->target == NULL ? "tsqr" : NULL;
    plan->passes = 2;
    plan->cost.flops = (gx_number_is_complex(A->number) ? 4 : 1) *
                       (2 * m * l * l + 22 * l * l * l + 2 * m * l * (double)args->k);
    plan->cost.bytes_read *= 2;
    plan->cost.bytes_up *= 2;
}

gx_code gx_plan_svd(gx_run *run, const gx_svd_args *args, gx_spectrum_plan *plan)
{
    *plan = (gx_spectrum_plan){0};
    if (gx_svd_check(run, args) != GX_OK) {
        return run->err.code;
    }
    gx_svd_method method = gx_svd_choose_method(run, args);
    if (gx_svd_short_is_due(run, args)) {
        plan_short_svd(run, args, plan);
    } else if (method == GX_SVD_DENSE) {
        plan_dense_svd(run, args, plan);
    } else if (args->k > 0 && args->is_smallest) {
        gx_run_failf(run, GX_UNSUPPORTED,
                     "the smallest singular values of a matrix that is not for the dense driver "
                     "are not planned: they take the inverse's passes");
    } else if (gx_svd_check_iterative(run, args) == GX_OK) {
        plan_iterative_svd(run, args, plan);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}
