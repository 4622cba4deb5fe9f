/*
** Iterative methods: see system.h.
**
** The methods update a residual by a recurrence, which parts from
** b - A x by rounding.  So each runs until the recurrence says that tol is reached; then the
** residual is computed anew, and where it is not, the method begins again from the x that it has.
** A method that is at its limit of accuracy gains nothing by that, and says so.
**
** Vectors are cut into pieces of fixed length, which the team shares: each piece's part of a sum is
** one number, and these are added in order by the caller.
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
**
** GMRES (Saad and Schultz 1986), restarted: an orthonormal basis of the Krylov space by modified
** Gram-Schmidt, the Hessenberg matrix made triangular by rotations as it grows; a call is a
** cycle.  M stands on the right, A M^-1 u = b, x = M^-1 u, so that the residual that is made
** small is b - A x itself.
**
** LSQR (Paige and Saunders 1982): Golub-Kahan bidiagonalisation of A D, D the preconditioner's
** diagonal; what is kept of its directions is D w, so that x is updated as it is.
*/
#include "alg.h"
#include "dense.h"
#include "system.h"

#include "../run/call.h"

#include <float.h>
#include <math.h>
#include <string.h>

// Products ----------------------------------------------------------------------------------------

/* y = mat x or mat^T x. */
static gx_code stream(const gx_iterate *it, bool is_turned, const double *x, double *y)
{
    gx_run *run = it->run;
    int64_t n = is_turned ? it->mat->rows : it->mat->cols;
    int64_t m = is_turned ? it->mat->cols : it->mat->rows;
    gx_mat X, Y;
    gx_sink sink = {0};
    gx_mat_value(&X, "x", GX_F64, n, 1, x, n);
    gx_matmul_args product = {
        .A = it->mat, .B = &X, .transa = is_turned ? GX_TRANS : GX_NO_TRANS, .alpha = GX_ONE};
    if (gx_ok(run) && gx_sink_begin_scratch(run, m, 1, GX_F64, 0, &sink) == GX_OK &&
        gx_alg_matmul(run, &product, &sink) == GX_OK) {
        gx_sink_source(&sink, "y", &Y);
        gx_dense_load(run, &Y, GX_F64, y, m);
    }
    gx_sink_drop(&sink);
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* y = op(A) x */
static gx_code times(const gx_iterate *it, const double *x, double *y)
{
    return it->A == NULL ? stream(it, it->is_turned, x, y)
                         : gx_csr_matrix_times(it->run, it->A, x, y);
}

/* y = op(A)^T x */
static gx_code times_turned(const gx_iterate *it, const double *x, double *y)
{
    return it->A == NULL ? stream(it, !it->is_turned, x, y)
                         : gx_csr_matrix_times(it->run, it->T, x, y);
}

// Vectors -----------------------------------------------------------------------------------------

/* Elements of a piece of a vector; fixed, so that sums have the same bits for every team. */
enum { VECTOR_PIECE = 1 << 14 };

static int64_t vector_pieces(int64_t n)
{
    return gx_max(1, gx_ceil_div(n, VECTOR_PIECE));
}

typedef struct vector_job {
    int64_t n;
    const double *x, *y, *z;
    double a, b, c;
    double *out;
} vector_job;

static int64_t piece_end(int64_t n, int64_t piece)
{
    return gx_min(n, (piece + 1) * VECTOR_PIECE);
}

/* Four sums, so that additions need not wait for each other. */
static gx_code dot_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const vector_job *job = arg;
    const double *x = job->x, *y = job->y;
    int64_t i = piece * VECTOR_PIECE, end = piece_end(job->n, piece);
    double sum[4] = {0, 0, 0, 0};
    (void)member;
    (void)err;
    for (; i + 4 <= end; i += 4) {
        for (int k = 0; k < 4; k++) {
            sum[k] += x[i + k] * y[i + k];
        }
    }
    for (; i < end; i++) {
        sum[0] += x[i] * y[i];
    }
    job->out[piece] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    return GX_OK;
}

static double dot(const gx_iterate *it, int64_t n, const double *x, const double *y)
{
    vector_job job = {.n = n, .x = x, .y = y, .out = it->part};
    double sum = 0;
    if (gx_run_pieces(it->run, (double)n, vector_pieces(n), dot_piece, &job) == GX_OK) {
        for (int64_t p = 0; p < vector_pieces(n); p++) {
            sum += it->part[p];
        }
    }
    return sum;
}

static double vector_norm(const gx_iterate *it, int64_t n, const double *x)
{
    return sqrt(dot(it, n, x, x));
}

static gx_code sum_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const vector_job *job = arg;
    const double *x = job->x, *y = job->y, *z = job->z;
    int64_t i = piece * VECTOR_PIECE, end = piece_end(job->n, piece);
    double a = job->a, b = job->b, c = job->c, *out = job->out;
    (void)member;
    (void)err;
    if (y == NULL) {
        for (; i < end; i++) {
            out[i] = a * x[i];
        }
    } else if (z == NULL) {
        for (; i < end; i++) {
            out[i] = a * x[i] + b * y[i];
        }
    } else {
        for (; i < end; i++) {
            out[i] = a * x[i] + b * y[i] + c * z[i];
        }
    }
    return GX_OK;
}

/* out = a x + b y + c z; y, or y and z, may be NULL; out may be any of them. */
static void sum(const gx_iterate *it, int64_t n, double *out, double a, const double *x, double b,
                const double *y, double c, const double *z)
{
    vector_job job = {.n = n, .x = x, .y = y, .z = z, .a = a, .b = b, .c = c, .out = out};
    gx_run_pieces(it->run, (double)n, vector_pieces(n), sum_piece, &job);
}

static gx_code product_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const vector_job *job = arg;
    (void)member;
    (void)err;
    for (int64_t i = piece * VECTOR_PIECE; i < piece_end(job->n, piece); i++) {
        job->out[i] = job->x[i] * job->y[i];
    }
    return GX_OK;
}

/* z = M^-1 r, z != r. */
static void precondition(const gx_iterate *it, const double *r, double *z)
{
    int64_t n = it->cols;
    vector_job job = {.n = n, .x = r, .y = it->M.inverse, .out = z};
    if (!gx_ok(it->run)) {
        return;
    }
    switch (it->M.kind) {
    case GX_PRECOND_JACOBI:
        gx_run_pieces(it->run, (double)n, vector_pieces(n), product_piece, &job);
        break;
    case GX_PRECOND_ILU0:
    case GX_PRECOND_IC0:
        gx_precond_apply(&it->M, r, z);
        gx_run_poll(it->run);
        break;
    case GX_PRECOND_AUTO:
    case GX_PRECOND_NONE:
        memcpy(z, r, (size_t)n * sizeof *z);
        break;
    }
}

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
    const gx_csr_matrix *A = s->it->A;
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
    int64_t n = s->it->rows, end = gx_min(n, (piece + 1) * VECTOR_PIECE);
    double *r = s->r, alpha = s->alpha, rr = 0, rz = 0;
    const double *q = s->q, *inverse = s->inverse;
    (void)member;
    (void)err;
    for (int64_t i = piece * VECTOR_PIECE; i < end; i++) {
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
    int64_t n = s->it->rows, end = gx_min(n, (piece + 1) * VECTOR_PIECE);
    double *x = s->x, *p = s->p, alpha = s->alpha, beta = s->beta;
    const double *z = s->z == NULL ? s->r : s->z, *inverse = s->inverse;
    (void)member;
    (void)err;
    for (int64_t i = piece * VECTOR_PIECE; i < end; i++) {
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

/* q = A p; returns p.q. */
static double cg_multiply(cg *s)
{
    gx_iterate *it = s->it;
    if (it->A == NULL) {
        return times(it, s->p, s->q) == GX_OK ? dot(it, it->rows, s->p, s->q) : 0;
    }
    double work = (double)(it->rows + it->A->entries);
    gx_run_pieces(it->run, work, it->A->pieces, cg_product, s);
    return fold(it->part, it->A->pieces, 1);
}

/*
** A method improves x, whose residual is r (destroyed), until |b - A x| <= goal by the recurrence,
** the iterations are spent, or it can do no more.  it->work behind r is free.
*/
static void solve_by_cg(gx_iterate *it, double goal, double *x, double *r)
{
    gx_run *run = it->run;
    int64_t n = it->rows, pieces = vector_pieces(n);
    double *p = r + n, *q = p + n, *z = q + n;
    bool is_incomplete = it->M.kind == GX_PRECOND_ILU0 || it->M.kind == GX_PRECOND_IC0;
    cg s = {.it = it, .x = x, .r = r, .p = p, .q = q, .inverse = it->M.inverse};
    s.z = is_incomplete ? z : NULL;
    precondition(it, r, p);
    double rho = dot(it, n, r, p);
    while (gx_ok(run) && it->done < it->most) {
        double pq = cg_multiply(&s);
        if (gx_ok(run) && !(pq > 0)) {
            gx_run_failf(run, GX_NUMERIC,
                         "%s is not positive definite (p^T A p = %.3g in iteration %lld of cg): "
                         "minres takes any symmetric matrix",
                         it->label, pq, (long long)it->done + 1);
        }
        s.alpha = rho / pq;
        gx_run_pieces(run, (double)n, pieces, cg_residual, &s);
        double rr = fold(it->part, pieces, 2), rz = fold(it->part + 1, pieces, 2);
        it->done++;
        if (sqrt(rr) <= goal || it->done == it->most) {
            sum(it, n, x, 1, x, s.alpha, p, 0, NULL);
            return;
        }
        if (is_incomplete) {
            precondition(it, r, z);
            rz = dot(it, n, r, z);
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

static void solve_by_minres(gx_iterate *it, double goal, double *x, double *r)
{
    gx_run *run = it->run;
    int64_t n = it->rows;
    double *r2 = r, *r1 = r + n, *y = r1 + n, *v = y + n;
    double *w = v + n, *w1 = w + n, *w2 = w1 + n;
    double norm = vector_norm(it, n, r);
    precondition(it, r2, y);
    double first = sqrt(dot(it, n, r2, y)), beta = first, old_beta = 0;
    double phi_bar = first, delta_bar = 0, epsilon = 0, cs = -1, sn = 0;
    sum(it, n, w, 0, y, 0, NULL, 0, NULL);
    sum(it, n, w2, 0, y, 0, NULL, 0, NULL);
    bool is_first = true;
    while (gx_ok(run) && it->done < it->most && beta > 0 && phi_bar > goal / norm * first) {
        sum(it, n, v, 1 / beta, y, 0, NULL, 0, NULL);
        times(it, v, y);
        double alpha = dot(it, n, v, y);
        if (is_first) {
            sum(it, n, y, 1, y, -alpha / beta, r2, 0, NULL);
        } else {
            sum(it, n, y, 1, y, -alpha / beta, r2, -beta / old_beta, r1);
        }
        is_first = false;
        swap(&r1, &r2); // r1 = r2, r2 = y, and y's memory is that of the old r1
        swap(&r2, &y);
        precondition(it, r2, y);
        old_beta = beta;
        beta = sqrt(fmax(0, dot(it, n, r2, y)));
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
        sum(it, n, w, 1 / gamma, v, -old_epsilon / gamma, w1, -delta / gamma, w2);
        sum(it, n, x, 1, x, phi, w, 0, NULL);
        it->done++;
    }
}

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

static void solve_by_gmres(gx_iterate *it, double goal, double *x, double *r)
{
    gx_run *run = it->run;
    int64_t n = it->rows, m = it->restart, k = 0;
    double *z = r + n, *V = z + n;
    projected s = {.m = m, .H = it->small};
    s.g = s.H + (m + 1) * m;
    s.cs = s.g + m + 1;
    s.sn = s.cs + m + 1;
    s.y = s.sn + m + 1;
    s.g[0] = vector_norm(it, n, r);
    sum(it, n, V, 1 / s.g[0], r, 0, NULL, 0, NULL);
    while (gx_ok(run) && k < m && it->done < it->most && fabs(s.g[k]) > goal) {
        double *h = s.H + k * (m + 1), *w = V + (k + 1) * n;
        precondition(it, V + k * n, z);
        times(it, z, w);
        for (int64_t i = 0; i <= k; i++) {
            h[i] = dot(it, n, V + i * n, w);
            sum(it, n, w, 1, w, -h[i], V + i * n, 0, NULL);
        }
        h[k + 1] = vector_norm(it, n, w);
        double length = h[k + 1];
        rotate(&s, k++);
        it->done++;
        if (!(length > 0)) {
            break;
        }
        sum(it, n, w, 1 / length, w, 0, NULL, 0, NULL);
    }
    if (!gx_ok(run) || k == 0) {
        return;
    }
    solve_triangle(&s, k);
    sum(it, n, r, s.y[0], V, 0, NULL, 0, NULL);
    for (int64_t i = 1; i < k; i++) {
        sum(it, n, r, 1, r, s.y[i], V + i * n, 0, NULL);
    }
    precondition(it, r, z);
    sum(it, n, x, 1, x, 1, z, 0, NULL);
}

// LSQR --------------------------------------------------------------------------------------------

/* x / its norm, which is returned. */
static double normalize(const gx_iterate *it, int64_t n, double *x)
{
    double norm = vector_norm(it, n, x);
    if (norm > 0) {
        sum(it, n, x, 1 / norm, x, 0, NULL, 0, NULL);
    }
    return norm;
}

/* A's norm where nobody has looked at its elements: at least that of its bidiagonal part. */
static void learn_norm(gx_iterate *it, double squares)
{
    it->norm = it->A == NULL ? fmax(it->norm, sqrt(squares)) : it->norm;
}

static void solve_by_lsqr(gx_iterate *it, double goal, double *x, double *r)
{
    gx_run *run = it->run;
    int64_t m = it->rows, n = it->cols, longest = gx_max(m, n);
    double *u = r, *v = r + longest, *t = v + longest, *w = t + longest, *g = w + longest;
    double phi_bar = normalize(it, m, u);
    times_turned(it, u, g);
    precondition(it, g, v);
    double alpha = normalize(it, n, v), rho_bar = alpha, cs = 1, squares = alpha * alpha;
    learn_norm(it, squares);
    double norm_ad = it->M.inverse == NULL ? it->norm : sqrt((double)n); // Frobenius, of A D
    precondition(it, v, t);
    sum(it, n, w, 1, t, 0, NULL, 0, NULL);
    while (gx_ok(run) && it->done < it->most && phi_bar > goal &&
           alpha * fabs(cs) > 0.1 * it->tol * norm_ad) {
        times(it, t, g);
        sum(it, m, u, 1, g, -alpha, u, 0, NULL);
        double beta = normalize(it, m, u);
        times_turned(it, u, g);
        precondition(it, g, t);
        sum(it, n, v, 1, t, -beta, v, 0, NULL);
        alpha = normalize(it, n, v);
        squares += alpha * alpha + beta * beta;
        learn_norm(it, squares);
        norm_ad = it->M.inverse == NULL ? it->norm : norm_ad;
        double rho = hypot(rho_bar, beta), sn = beta / rho;
        cs = rho_bar / rho;
        double theta = sn * alpha, phi = cs * phi_bar;
        rho_bar = -cs * alpha;
        phi_bar = sn * phi_bar;
        sum(it, n, x, 1, x, phi / rho, w, 0, NULL);
        precondition(it, v, t);
        sum(it, n, w, 1, t, -theta / rho, w, 0, NULL);
        it->done++;
    }
}

enum { ROUNDS_MOST = 10 /* beginnings of a method that does not restart by itself */ };

const char *const gx_system_methods[] = {"auto", "direct", "cg", "minres", "gmres", "lsqr"};

// A column ----------------------------------------------------------------------------------------

/* Vectors that a method works with, the residual included. */
static int64_t vectors_of(const gx_iterate *it)
{
    switch (it->method) {
    case GX_SYSTEM_CG:
        return 4;
    case GX_SYSTEM_MINRES:
        return 8;
    case GX_SYSTEM_GMRES:
        return it->restart + 3;
    default:
        return 5;
    }
}

static gx_code allocate(gx_iterate *it, gx_err *err)
{
    gx_mem *mem = it->run->ctx->mem;
    int64_t longest = gx_max(it->rows, it->cols);
    int64_t pieces = gx_max(vector_pieces(longest), it->A == NULL ? 0 : it->A->pieces);
    size_t m = (size_t)it->restart;
    GX_TRY(gx_mem_alloc(mem, (size_t)(vectors_of(it) * longest) * sizeof *it->work,
                        "an iterative method's vectors", &it->work, err));
    GX_TRY(
        gx_mem_alloc(mem, (size_t)(2 * pieces) * sizeof *it->part, "partial sums", &it->part, err));
    if (it->method == GX_SYSTEM_GMRES) {
        GX_TRY(gx_mem_alloc(mem, ((m + 1) * m + 4 * (m + 1)) * sizeof *it->small,
                            "a projected problem", &it->small, err));
    }
    return GX_OK;
}

gx_code gx_iterate_begin(gx_run *run, gx_precond_kind precond, gx_iterate *it)
{
    gx_err err = {0};
    it->run = run;
    it->work = it->part = it->small = NULL;
    it->M = (gx_precond){.kind = GX_PRECOND_NONE};
    it->label = it->A != NULL ? it->A->label : it->mat->label;
    it->rows = it->A != NULL ? it->A->rows : it->is_turned ? it->mat->cols : it->mat->rows;
    it->cols = it->A != NULL ? it->A->cols : it->is_turned ? it->mat->rows : it->mat->cols;
    if (gx_ok(run) && allocate(it, &err) == GX_OK) {
        if (it->A == NULL) {
            gx_precond_make_dense(run, precond, it->mat, &it->M);
        } else {
            gx_precond_make(run, precond, it->A, it->method == GX_SYSTEM_LSQR, &it->M);
        }
    }
    return gx_run_fail(run, &err);
}

/* Numbers between -1 and 1, the same in every call. */
static void fill(double *x, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        x[i] = (double)(int64_t)seed * 0x1p-63;
    }
}

bool gx_iterate_is_symmetric(gx_iterate *it)
{
    const double ROUNDING = 1e-10;
    int64_t n = it->rows;
    double *u = it->work, *v = u + n, *y = v + n;
    fill(u, n, 1);
    fill(v, n, 2);
    times(it, v, y);
    double uav = dot(it, n, u, y), size = vector_norm(it, n, y);
    times(it, u, y);
    double vau = dot(it, n, v, y);
    size = vector_norm(it, n, u) * size + vector_norm(it, n, v) * vector_norm(it, n, y);
    return !(fabs(uav - vau) > ROUNDING * size); // what is not finite is found by the method
}

void gx_iterate_end(gx_iterate *it)
{
    gx_mem *mem = it->run->ctx->mem;
    gx_precond_clear(&it->M);
    gx_mem_free(mem, it->work);
    gx_mem_free(mem, it->part);
    gx_mem_free(mem, it->small);
    it->work = it->part = it->small = NULL;
}

/* r = b - A x; returns its norm. */
static double residual(const gx_iterate *it, const double *b, const double *x, double *r)
{
    int64_t m = it->rows;
    times(it, x, r);
    sum(it, m, r, 1, b, -1, r, 0, NULL);
    return vector_norm(it, m, r);
}

/* LSQR: is x a least squares solution, r being orthogonal to A's columns? */
static bool is_least(const gx_iterate *it, const double *r, double norm)
{
    double *g = it->work + gx_max(it->rows, it->cols);
    if (it->method != GX_SYSTEM_LSQR || times_turned(it, r, g) != GX_OK) {
        return false;
    }
    return vector_norm(it, it->cols, g) <= it->tol * it->norm * norm;
}

static gx_code not_converged(gx_iterate *it, double norm, double norm_b, bool is_stuck)
{
    return gx_run_failf(it->run, GX_NUMERIC,
                        "no convergence: %s %s a residual of %.3g |b| after %lld iteration%s "
                        "(\"tol\" is %.3g)",
                        gx_system_methods[it->method], is_stuck ? "does not get below" : "has",
                        norm / norm_b, (long long)it->done, it->done == 1 ? "" : "s", it->tol);
}

gx_code gx_iterate_solve(gx_iterate *it, const double *b, double *x)
{
    static void (*const methods[])(gx_iterate *, double, double *,
                                   double *) = {[GX_SYSTEM_CG] = solve_by_cg,
                                                [GX_SYSTEM_MINRES] = solve_by_minres,
                                                [GX_SYSTEM_GMRES] = solve_by_gmres,
                                                [GX_SYSTEM_LSQR] = solve_by_lsqr};
    gx_run *run = it->run;
    double *r = it->work, norm_b = vector_norm(it, it->rows, b);
    it->done = 0;
    if (gx_ok(run) && !isfinite(norm_b)) {
        return gx_run_failf(run, GX_ARG, "B has an element that is not finite");
    }
    if (norm_b == 0) {
        memset(x, 0, (size_t)it->cols * sizeof *x);
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    double norm = residual(it, b, x, r), goal = it->tol * norm_b;
    for (int round = 0; gx_ok(run) && !(norm <= goal) && !is_least(it, r, norm); round++) {
        double before = norm;
        methods[it->method](it, goal, x, r);
        norm = residual(it, b, x, r);
        bool is_stuck = it->method == GX_SYSTEM_GMRES ? !(norm < before) : round >= ROUNDS_MOST;
        if (gx_ok(run) && !(norm <= goal) && (is_stuck || it->done >= it->most) &&
            !is_least(it, r, norm)) {
            not_converged(it, norm, norm_b, is_stuck);
        }
    }
    gx_stats_add(&run->ctx->stats, GX_STAT_ITERATIONS, it->done);
    return gx_ok(run) ? GX_OK : run->err.code;
}
