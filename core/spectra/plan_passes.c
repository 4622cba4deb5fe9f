/*
** How many passes a Krylov driver takes, and what passes and dense calls cost: for plan_eig.c and
** plan_svd.c.
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
#include "../alg/dense.h"
#include "../alg/dense_device.h"
#include "plan_spectrum_int.h"

#include <assert.h>
#include <math.h>

// Passes ------------------------------------------------------------------------------------------

static const double PI = 3.14159265358979323846;

/* phi where the share of the law with so much c above cos phi is that of `above` of n values. */
static double angle_of(double above, double n, double c)
{
    double side = 1 + sqrt(c);
    return fmin(cbrt(1.5 * PI * side * side * above / n), PI - 0.1);
}

/* ln of what a block step makes of the k-th value beside the p-th, of n. */
static double step_of(const gx_search *s, double k, double p)
{
    double n = (double)s->n;
    if (s->shape == GX_SEARCH_DISC) {
        return log((1 - k / n) / fmax(1 - p / n, 0.01)) / 2;
    }
    bool has_ends = s->shape == GX_SEARCH_ENDS; // half of them at each
    double x = cos(angle_of(has_ends ? k / 2 : k, n, s->ratio));
    double y = cos(angle_of(has_ends ? p / 2 : p, n, s->ratio));
    return has_ends ? acosh(x / fmax(y, 0.01)) : acosh(1 + 2 * (x - y) / (1 + y));
}

/* Block steps. */
static int64_t steps_for_random(const gx_search *s)
{
    static const double EXTRA[] = {
        [GX_SEARCH_END] = 12, [GX_SEARCH_ENDS] = 5, [GX_SEARCH_SIGMA] = 0, [GX_SEARCH_DISC] = 0};
    const double STEPS = 16;
    double block = (double)s->block, all = ceil((double)s->n / block);
    double filled = (double)s->ncv / block, degree = (double)(s->ncv - s->kept) / block;
    double place = s->shape == GX_SEARCH_ENDS ? 0.5 : 0.75; // the i-th of n stands at i - place
    double k = (double)s->k - place, p = (double)gx_max(s->k, s->kept);
    double wanted = log(1 / s->tol) + EXTRA[s->shape];
    wanted = s->shape == GX_SEARCH_DISC ? wanted / 2 : wanted;
    assert(s->block > 0 && s->k > 0 && s->tol > 0);
    if (s->ncv >= s->n) { // the basis is everything
        return (int64_t)all;
    }
    double gained = degree * step_of(s, k, p);
    double cycle = s->shape == GX_SEARCH_DISC ? gained : log(cosh(fmin(gained, 100)));
    double cycles = fmax(1, fmin(wanted / fmax(cycle, 1e-3), (double)s->maxiter));
    return (int64_t)(filled + (cycles - 1) * degree + STEPS);
}

gx_foretold gx_foretell_passes(gx_run *run, uint64_t key, const gx_search *search)
{
    int64_t made = gx_ledger_passes(&run->ctx->ledger, key);
    int64_t each = search->shape == GX_SEARCH_SIGMA ? 2 : 1; // with A and with A^H
    return made > 0
               ? (gx_foretold){made, "as in the last call"}
               : (gx_foretold){each * steps_for_random(search), "for a random matrix's spectrum"};
}

// Costs -------------------------------------------------------------------------------------------

void gx_plan_passes(gx_run *run, const gx_mat *A, bool is_coupled, gx_spectrum_plan *plan)
{
    const double HALF = 0.5; // of a basis, on average
    const gx_profile *profile = gx_profile_get(run->ctx);
    int threads = (int)run->ctx->config.number[GX_SET_THREADS];
    double passes = (double)plan->told.passes, m = (double)A->rows, n = (double)A->cols;
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
    plan->cost = (gx_cost){
        .flops = flops * passes,
        .bytes_read = plan->oper.once + plan->oper.each * passes,
        .bytes_up = plan->oper.up,
        .calls = plan->told.passes,
        .compute_s = (is_host && flops_s > sweep_s ? flops_s : sweep_s) * passes,
    };
    plan->is_faster = !is_host && plan->oper.is_faster;
}

void gx_plan_dense(gx_run *run, const gx_mat *A, gx_kernel_id kernel, const gx_args *call,
                   gx_spectrum_plan *plan)
{
    size_t bytes = 0;
    gx_matrix_bytes(A->rows, A->cols, A->number, &bytes);
    plan->told = (gx_foretold){1, "over A"};
    plan->cost = (gx_cost){
        .flops = gx_kernel_flops(kernel, A->number, call),
        .bytes_read = (double)bytes,
        .calls = 1,
        .compute_s = gx_dense_spectrum_seconds(run, kernel, A->number, call, &plan->is_faster),
    };
    if (run->target != NULL && plan->cost.compute_s == 0) {
        plan->driver = NULL;
    }
}
