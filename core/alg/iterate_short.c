/*
** Conjugate gradients and MINRES: methods of short recurrences, for symmetric matrices.
**
** CG (Hestenes and Stiefel 1952).  An iteration is bound by memory, so what one pass over the
** vectors can do is done in it, by whoever has the piece:
**
**     q = A p                 and p.q, while the rows of q are in the cache
**     r = r - alpha q         and r.r, and r.z where M is a diagonal
**     x = x + alpha p,  p = z + beta p
**
** of which the last has waited for beta: p is read once for both.  z is not kept where M is a
** diagonal.
**
** MINRES (Paige and Saunders 1975) with a positive definite M: Lanczos vectors in M's inner
** product, the tridiagonal matrix made triangular by rotations as it grows.
*/
#include "iterate_int.h"

#include "../run/call.h"

#include <float.h>
#include <math.h>

// Conjugate gradients -----------------------------------------------------------------------------

typedef struct cg {
    gx_iterate *it;
    double *x, *r, *p, *q;
    const double *z; /* NULL: r, scaled by inverse where that is not NULL */
    const double *inverse;
    double alpha, beta;
} cg;

/* q = A p and p.q */
static gx_code cg_product(void *arg, int64_t piece, int member, gx_err *err)
{
    const cg *s = arg;
    const gx_whole *A = s->it->A;
    const double *value = A->value, *p = s->p;
    double pq = 0;
    (void)member;
    (void)err;
    for (int64_t i = A->cut[piece]; i < A->cut[piece + 1]; i++) {
        double sum = 0;
        for (int64_t e = A->start[i]; e < A->start[i + 1]; e++) {
            sum += value[e] * p[A->index[e]];
        }
        s->q[i] = sum;
        pq += sum * p[i];
    }
    s->it->part[piece] = pq;
    return GX_OK;
}

/* r -= alpha q, r.r and r.z */
static gx_code cg_residual(void *arg, int64_t piece, int member, gx_err *err)
{
    const cg *s = arg;
    int64_t n = s->it->A->rows, end = gx_min(n, (piece + 1) * GX_VECTOR_PIECE);
    double *r = s->r, alpha = s->alpha, rr = 0, rz = 0;
    const double *q = s->q, *inverse = s->inverse;
    (void)member;
    (void)err;
    for (int64_t i = piece * GX_VECTOR_PIECE; i < end; i++) {
        double ri = r[i] - alpha * q[i];
        r[i] = ri;
        rr += ri * ri;
        rz += inverse == NULL ? 0 : ri * ri * inverse[i];
    }
    s->it->part[2 * piece] = rr;
    s->it->part[2 * piece + 1] = inverse == NULL ? rr : rz;
    return GX_OK;
}

/* x += alpha p, p = z + beta p */
static gx_code cg_direction(void *arg, int64_t piece, int member, gx_err *err)
{
    const cg *s = arg;
    int64_t n = s->it->A->rows, end = gx_min(n, (piece + 1) * GX_VECTOR_PIECE);
    double *x = s->x, *p = s->p, alpha = s->alpha, beta = s->beta;
    const double *z = s->z == NULL ? s->r : s->z, *inverse = s->inverse;
    (void)member;
    (void)err;
    for (int64_t i = piece * GX_VECTOR_PIECE; i < end; i++) {
        double pi = p[i];
        x[i] += alpha * pi;
        p[i] = (inverse == NULL ? z[i] : z[i] * inverse[i]) + beta * pi;
    }
    return GX_OK;
}

/* Sums of the pieces, in order: of every step-th number. */
static double fold(const double *part, int64_t pieces, int step)
{
    double sum = 0;
    for (int64_t p = 0; p < pieces; p++) {
        sum += part[p * step];
    }
    return sum;
}

void gx_iterate_cg(gx_iterate *it, double goal, double *x, double *r)
{
    const gx_whole *A = it->A;
    gx_run *run = it->run;
    int64_t n = A->rows, pieces = gx_vector_pieces(n);
    double *p = r + n, *q = p + n, *z = q + n;
    bool is_incomplete = it->M.kind == GX_PRECOND_ILU0 || it->M.kind == GX_PRECOND_IC0;
    cg s = {.it = it, .x = x, .r = r, .p = p, .q = q, .inverse = it->M.inverse};
    s.z = is_incomplete ? z : NULL;
    gx_iterate_precondition(it, r, p);
    double rho = gx_vector_dot(it, n, r, p);
    while (gx_ok(run) && it->done < it->most) {
        gx_run_pieces(run, (double)(n + A->entries), A->pieces, cg_product, &s);
        double pq = fold(it->part, A->pieces, 1);
        if (gx_ok(run) && !(pq > 0)) {
            gx_run_failf(run, GX_NUMERIC,
                         "%s is not positive definite (p^T A p = %.3g in iteration %lld of cg): "
                         "minres takes any symmetric matrix",
                         A->label, pq, (long long)it->done + 1);
        }
        s.alpha = rho / pq;
        gx_run_pieces(run, (double)n, pieces, cg_residual, &s);
        double rr = fold(it->part, pieces, 2), rz = fold(it->part + 1, pieces, 2);
        it->done++;
        if (sqrt(rr) <= goal || it->done == it->most) {
            gx_vector_sum(it, n, x, 1, x, s.alpha, p, 0, NULL);
            return;
        }
        if (is_incomplete) {
            gx_iterate_precondition(it, r, z);
            rz = gx_vector_dot(it, n, r, z);
        }
        s.beta = rz / rho;
        rho = rz;
        gx_run_pieces(run, (double)n, pieces, cg_direction, &s);
    }
}

// MINRES ------------------------------------------------------------------------------------------

static void swap(double **a, double **b)
{
    double *c = *a;
    *a = *b;
    *b = c;
}

void gx_iterate_minres(gx_iterate *it, double goal, double *x, double *r)
{
    gx_run *run = it->run;
    int64_t n = it->A->rows;
    double *r2 = r, *r1 = r + n, *y = r1 + n, *v = y + n;
    double *w = v + n, *w1 = w + n, *w2 = w1 + n;
    double norm = gx_vector_norm(it, n, r);
    gx_iterate_precondition(it, r2, y);
    double first = sqrt(gx_vector_dot(it, n, r2, y)), beta = first, old_beta = 0;
    double phi_bar = first, delta_bar = 0, epsilon = 0, cs = -1, sn = 0;
    gx_vector_sum(it, n, w, 0, y, 0, NULL, 0, NULL);
    gx_vector_sum(it, n, w2, 0, y, 0, NULL, 0, NULL);
    bool is_first = true;
    while (gx_ok(run) && it->done < it->most && beta > 0 && phi_bar > goal / norm * first) {
        gx_vector_sum(it, n, v, 1 / beta, y, 0, NULL, 0, NULL);
        gx_whole_times(run, it->A, v, y);
        double alpha = gx_vector_dot(it, n, v, y);
        if (is_first) {
            gx_vector_sum(it, n, y, 1, y, -alpha / beta, r2, 0, NULL);
        } else {
            gx_vector_sum(it, n, y, 1, y, -alpha / beta, r2, -beta / old_beta, r1);
        }
        is_first = false;
        swap(&r1, &r2); // r1 = r2, r2 = y, and y's memory is that of the old r1
        swap(&r2, &y);
        gx_iterate_precondition(it, r2, y);
        old_beta = beta;
        beta = sqrt(fmax(0, gx_vector_dot(it, n, r2, y)));
        double old_epsilon = epsilon, delta = cs * delta_bar + sn * alpha;
        double gamma_bar = sn * delta_bar - cs * alpha;
        epsilon = sn * beta;
        delta_bar = -cs * beta;
        double gamma = fmax(hypot(gamma_bar, beta), DBL_MIN);
        cs = gamma_bar / gamma;
        sn = beta / gamma;
        double phi = cs * phi_bar;
        phi_bar = sn * phi_bar;
        swap(&w1, &w2); // w1 = w2, w2 = w, and w's memory is that of the old w1
        swap(&w2, &w);
        gx_vector_sum(it, n, w, 1 / gamma, v, -old_epsilon / gamma, w1, -delta / gamma, w2);
        gx_vector_sum(it, n, x, 1, x, phi, w, 0, NULL);
        it->done++;
    }
}
