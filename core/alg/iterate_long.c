/*
** GMRES and LSQR: for matrices that are not symmetric, or not square.
**
** GMRES (Saad and Schultz 1986), restarted: an orthonormal basis of the Krylov space by modified
** Gram-Schmidt, the Hessenberg matrix made triangular by rotations as it grows; a call is a
** cycle.  M stands on the right, A M^-1 u = b, x = M^-1 u, so that the residual that is made
** small is b - A x itself.
**
** LSQR (Paige and Saunders 1982): Golub-Kahan bidiagonalisation of A D, D the preconditioner's
** diagonal; what is kept of its directions is D w, so that x is updated as it is.
*/
#include "iterate_int.h"

#include <math.h>

// GMRES -------------------------------------------------------------------------------------------

/* The projected problem, in gx_iterate.small: H is (m + 1) x m. */
typedef struct projected {
    int64_t m;
    double *H, *g, *cs, *sn, *y;
} projected;

/* Column j of H: earlier rotations, then the one that makes it triangular; g follows. */
static void rotate(projected *s, int64_t j)
{
    double *h = s->H + j * (s->m + 1);
    for (int64_t i = 0; i < j; i++) {
        double upper = s->cs[i] * h[i] + s->sn[i] * h[i + 1];
        h[i + 1] = s->cs[i] * h[i + 1] - s->sn[i] * h[i];
        h[i] = upper;
    }
    double length = hypot(h[j], h[j + 1]);
    s->cs[j] = length > 0 ? h[j] / length : 1;
    s->sn[j] = length > 0 ? h[j + 1] / length : 0;
    h[j] = length;
    h[j + 1] = 0;
    s->g[j + 1] = -s->sn[j] * s->g[j];
    s->g[j] *= s->cs[j];
}

/* y of the first k columns; a direction that A takes to nothing is left out. */
static void solve_triangle(projected *s, int64_t k)
{
    for (int64_t i = k - 1; i >= 0; i--) {
        double sum = s->g[i], d = s->H[i + i * (s->m + 1)];
        for (int64_t j = i + 1; j < k; j++) {
            sum -= s->H[i + j * (s->m + 1)] * s->y[j];
        }
        s->y[i] = d != 0 ? sum / d : 0;
    }
}

void gx_iterate_gmres(gx_iterate *it, double goal, double *x, double *r)
{
    gx_run *run = it->run;
    int64_t n = it->A->rows, m = it->restart, k = 0;
    double *z = r + n, *V = z + n;
    projected s = {.m = m, .H = it->small};
    s.g = s.H + (m + 1) * m;
    s.cs = s.g + m + 1;
    s.sn = s.cs + m + 1;
    s.y = s.sn + m + 1;
    s.g[0] = gx_vector_norm(it, n, r);
    gx_vector_sum(it, n, V, 1 / s.g[0], r, 0, NULL, 0, NULL);
    while (gx_ok(run) && k < m && it->done < it->most && fabs(s.g[k]) > goal) {
        double *h = s.H + k * (m + 1), *w = V + (k + 1) * n;
        gx_iterate_precondition(it, V + k * n, z);
        gx_whole_times(run, it->A, z, w);
        for (int64_t i = 0; i <= k; i++) {
            h[i] = gx_vector_dot(it, n, V + i * n, w);
            gx_vector_sum(it, n, w, 1, w, -h[i], V + i * n, 0, NULL);
        }
        h[k + 1] = gx_vector_norm(it, n, w);
        double length = h[k + 1];
        rotate(&s, k++);
        it->done++;
        if (!(length > 0)) {
            break;
        }
        gx_vector_sum(it, n, w, 1 / length, w, 0, NULL, 0, NULL);
    }
    if (!gx_ok(run) || k == 0) {
        return;
    }
    solve_triangle(&s, k);
    gx_vector_sum(it, n, r, s.y[0], V, 0, NULL, 0, NULL);
    for (int64_t i = 1; i < k; i++) {
        gx_vector_sum(it, n, r, 1, r, s.y[i], V + i * n, 0, NULL);
    }
    gx_iterate_precondition(it, r, z);
    gx_vector_sum(it, n, x, 1, x, 1, z, 0, NULL);
}

// LSQR --------------------------------------------------------------------------------------------

/* x / its norm, which is returned. */
static double normalize(const gx_iterate *it, int64_t n, double *x)
{
    double norm = gx_vector_norm(it, n, x);
    if (norm > 0) {
        gx_vector_sum(it, n, x, 1 / norm, x, 0, NULL, 0, NULL);
    }
    return norm;
}

void gx_iterate_lsqr(gx_iterate *it, double goal, double *x, double *r)
{
    gx_run *run = it->run;
    int64_t m = it->A->rows, n = it->A->cols, longest = gx_max(m, n);
    double *u = r, *v = r + longest, *t = v + longest, *w = t + longest, *g = w + longest;
    double norm_ad = it->M.inverse == NULL ? it->norm : sqrt((double)n); // Frobenius, of A D
    double phi_bar = normalize(it, m, u);
    gx_whole_times(run, it->T, u, g);
    gx_iterate_precondition(it, g, v);
    double alpha = normalize(it, n, v), rho_bar = alpha, cs = 1;
    gx_iterate_precondition(it, v, t);
    gx_vector_sum(it, n, w, 1, t, 0, NULL, 0, NULL);
    while (gx_ok(run) && it->done < it->most && phi_bar > goal &&
           alpha * fabs(cs) > 0.1 * it->tol * norm_ad) {
        gx_whole_times(run, it->A, t, g);
        gx_vector_sum(it, m, u, 1, g, -alpha, u, 0, NULL);
        double beta = normalize(it, m, u);
        gx_whole_times(run, it->T, u, g);
        gx_iterate_precondition(it, g, t);
        gx_vector_sum(it, n, v, 1, t, -beta, v, 0, NULL);
        alpha = normalize(it, n, v);
        double rho = hypot(rho_bar, beta), sn = beta / rho;
        cs = rho_bar / rho;
        double theta = sn * alpha, phi = cs * phi_bar;
        rho_bar = -cs * alpha;
        phi_bar = sn * phi_bar;
        gx_vector_sum(it, n, x, 1, x, phi / rho, w, 0, NULL);
        gx_iterate_precondition(it, v, t);
        gx_vector_sum(it, n, w, 1, t, -theta / rho, w, 0, NULL);
        it->done++;
    }
}
