/*
** Maximum likelihood factor analysis: see multivariate.h.
**
** The correlations S are modelled as L L' + Psi, Psi diagonal.  For a given Psi the best L comes
** from the eigenvalues m and vectors w of Psi^-1/2 S Psi^-1/2, and what is to be made small is the
** sum over the others of m - log m - 1.  With t = log Psi,
**
**     gradient   sum (1 - m) w_i^2         Hessian   about (sum w_i w_j)^2
**
** (Joreskog 1967; the Hessian is what is left where every m is nearly 1), which is solved for a
** step that is halved until it makes the sum smaller.  A variance below LEAST is kept there (a
** Heywood case), as R's factanal does.
*/
#include "multivariate.h"

#include "small_triangle.h"

#include <math.h>
#include <string.h>

static const double LEAST = 0.005;

typedef struct search {
    int64_t p, k;
    const double *c;            /* the triangle of the correlations: S = C'C                   */
    double *a, *s, *v;          /* C Psi^-1/2 and its singular values and vectors              */
    double *psi, *tried;        /* p; p                                                       */
    double *hessian, *gradient; /* p x p, p; the step takes the gradient's place              */
} search;

/* The sum for these variances, their singular vectors behind it. */
static double sum_at(search *f, const double *psi)
{
    double sum = 0;
    for (int64_t j = 0; j < f->p; j++) {
        for (int64_t i = 0; i < f->p; i++) {
            f->a[i + j * f->p] = f->c[i + j * f->p] / sqrt(psi[j]);
        }
    }
    gx_small_svd(f->a, f->p, f->p, f->s, f->v);
    for (int64_t m = f->k; m < f->p; m++) {
        double value = f->s[m] * f->s[m];
        sum += value - log(value) - 1;
    }
    return sum;
}

/* Gradient and Hessian of the vectors that are there; a variance that wants below LEAST is held. */
static double derive(search *f)
{
    int64_t p = f->p;
    double most = 0;
    for (int64_t i = 0; i < p; i++) {
        f->gradient[i] = 0;
        for (int64_t m = f->k; m < p; m++) {
            double w = f->v[i + m * p];
            f->gradient[i] += (1 - f->s[m] * f->s[m]) * w * w;
        }
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0;
            for (int64_t m = f->k; m < p; m++) {
                sum += f->v[i + m * p] * f->v[j + m * p];
            }
            f->hessian[i + j * p] = sum * sum;
        }
    }
    for (int64_t i = 0; i < p; i++) {
        if (f->psi[i] <= LEAST && f->gradient[i] > 0) {
            f->gradient[i] = 0;
            for (int64_t j = 0; j < p; j++) {
                f->hessian[gx_max(i, j) + gx_min(i, j) * p] = i == j;
            }
        }
        most = fmax(most, fabs(f->gradient[i]));
    }
    return most;
}

/* hessian = L L', the gradient becomes the step. */
static void solve_step(search *f)
{
    int64_t p = f->p;
    double *L = f->hessian, *x = f->gradient;
    for (int64_t j = 0; j < p; j++) {
        for (int64_t i = j; i < p; i++) {
            double sum = L[i + j * p] + (i == j ? 1e-10 : 0);
            for (int64_t m = 0; m < j; m++) {
                sum -= L[i + m * p] * L[j + m * p];
            }
            L[i + j * p] = i == j ? sqrt(fmax(sum, 1e-12)) : sum / L[j + j * p];
        }
    }
    for (int64_t i = 0; i < p; i++) {
        for (int64_t m = 0; m < i; m++) {
            x[i] -= L[i + m * p] * x[m];
        }
        x[i] /= L[i + i * p];
    }
    for (int64_t i = p - 1; i >= 0; i--) {
        for (int64_t m = i + 1; m < p; m++) {
            x[i] -= L[m + i * p] * x[m];
        }
        x[i] /= L[i + i * p];
    }
}

static bool search_on(search *f, double *sum)
{
    enum { STEPS = 500, HALVINGS = 40 };
    *sum = sum_at(f, f->psi);
    for (int step = 0; step < STEPS; step++) {
        if (derive(f) <= 1e-9) {
            return true;
        }
        solve_step(f);
        double share = 1, found = HUGE_VAL;
        for (int half = 0; half < HALVINGS && !(found < *sum); half++, share /= 2) {
            for (int64_t i = 0; i < f->p; i++) {
                double t = fmax(-3, fmin(3, share * f->gradient[i]));
                f->tried[i] = fmax(LEAST, f->psi[i] * exp(-t));
            }
            found = sum_at(f, f->tried);
        }
        if (!(found < *sum)) { // rounding is all that is left
            *sum = sum_at(f, f->psi);
            return derive(f) <= 1e-6;
        }
        memcpy(f->psi, f->tried, (size_t)f->p * sizeof *f->psi);
        *sum = found;
    }
    return false;
}

// Turning -----------------------------------------------------------------------------------------

/* Varimax (Kaiser 1958): pairs of factors are turned until none turns; rows have length 1. */
static void varimax(double *loading, int64_t p, int64_t k, double *length)
{
    enum { SWEEPS = 1000 };
    for (int64_t i = 0; i < p; i++) {
        double sum = 0;
        for (int64_t f = 0; f < k; f++) {
            sum += loading[i + f * p] * loading[i + f * p];
        }
        length[i] = sum > 0 ? sqrt(sum) : 1;
    }
    bool turns = true;
    for (int sweep = 0; sweep < SWEEPS && turns; sweep++) {
        turns = false;
        for (int64_t a = 0; a < k; a++) {
            for (int64_t b = a + 1; b < k; b++) {
                double *x = loading + a * p, *y = loading + b * p, u = 0, v = 0, uv = 0, d = 0;
                for (int64_t i = 0; i < p; i++) {
                    double xi = x[i] / length[i], yi = y[i] / length[i];
                    double ui = xi * xi - yi * yi, vi = 2 * xi * yi;
                    u += ui;
                    v += vi;
                    uv += ui * ui - vi * vi;
                    d += 2 * ui * vi;
                }
                double angle =
                    atan2(d - 2 * u * v / (double)p, uv - (u * u - v * v) / (double)p) / 4;
                double c = cos(angle), s = sin(angle);
                turns = turns || fabs(angle) > 1e-12;
                for (int64_t i = 0; i < p; i++) {
                    double xi = x[i];
                    x[i] = c * xi + s * y[i];
                    y[i] = c * y[i] - s * xi;
                }
            }
        }
    }
}

/* Factors that explain most come first, and most of a factor's loadings are positive. */
static void arrange(double *loading, int64_t p, int64_t k)
{
    for (int64_t a = 0; a < k; a++) {
        int64_t best = a;
        double most = -1, sum = 0;
        for (int64_t b = a; b < k; b++) {
            double squares = 0;
            for (int64_t i = 0; i < p; i++) {
                squares += loading[i + b * p] * loading[i + b * p];
            }
            best = squares > most ? b : best;
            most = fmax(most, squares);
        }
        for (int64_t i = 0; i < p; i++) {
            double x = loading[i + a * p];
            loading[i + a * p] = loading[i + best * p];
            loading[i + best * p] = x;
            sum += loading[i + a * p];
        }
        for (int64_t i = 0; i < p && sum < 0; i++) {
            loading[i + a * p] = -loading[i + a * p];
        }
    }
}

double gx_factors_df(int64_t columns, int64_t factors)
{
    double p = (double)columns, k = (double)factors;
    return ((p - k) * (p - k) - p - k) / 2;
}

gx_code gx_factors_make(gx_mem *mem, const double *r, int64_t columns, int64_t factors, double n,
                        bool is_turned, gx_factors *out, gx_err *err)
{
    int64_t p = columns, k = factors, ld = p + 1;
    *out = (gx_factors){.columns = p, .factors = k};
    out->df = gx_factors_df(p, k);
    int64_t bad = gx_triangle_dependent(r, ld, 1, 1 + p);
    if (bad >= 0) {
        return gx_fail(err, GX_NUMERIC, "column %lld is constant, or depends on those before it",
                       (long long)bad + 1);
    }
    size_t P = (size_t)p, total = P * (size_t)k + P + 5 * P * P + 3 * P;
    GX_TRY(gx_mem_calloc(mem, total * sizeof(double), "factors", &out->memory, err));
    out->loading = out->memory;
    out->unique = out->loading + p * k;
    double *c = out->unique + p, *inverse = c + p * p;
    search f = {.p = p, .k = k, .c = c, .psi = out->unique, .a = inverse};
    f.v = f.a + p * p;
    f.hessian = f.v + p * p;
    f.s = f.hessian + p * p;
    f.tried = f.s + p;
    f.gradient = f.tried + p;
    for (int64_t j = 0; j < p; j++) {
        double squares = 0;
        for (int64_t i = 0; i <= j; i++) {
            squares += r[1 + i + (1 + j) * ld] * r[1 + i + (1 + j) * ld];
        }
        for (int64_t i = 0; i <= j; i++) {
            c[i + j * p] = r[1 + i + (1 + j) * ld] / sqrt(squares);
        }
    }
    gx_triangle_invert(c, p, p, 1, inverse);
    for (int64_t i = 0; i < p; i++) {
        double sum = 0;
        for (int64_t j = i; j < p; j++) {
            sum += inverse[i + j * p] * inverse[i + j * p];
        }
        f.psi[i] = fmax(LEAST, (1 - 0.5 * (double)k / (double)p) / sum);
    }
    double least;
    if (!search_on(&f, &least)) {
        return gx_fail(err, GX_NUMERIC, "the factors did not converge");
    }
    out->statistic = (n - 1 - (2 * (double)p + 5) / 6 - 2 * (double)k / 3) * least;
    for (int64_t a = 0; a < k; a++) {
        double root = sqrt(fmax(0, f.s[a] * f.s[a] - 1));
        for (int64_t i = 0; i < p; i++) {
            out->loading[i + a * p] = sqrt(f.psi[i]) * f.v[i + a * p] * root;
        }
    }
    if (is_turned) {
        varimax(out->loading, p, k, f.gradient);
    }
    arrange(out->loading, p, k);
    return GX_OK;
}
