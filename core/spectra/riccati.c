/*
** Riccati's equations: see equation.h.
**
** The extended pencil H - lambda J, of order 2n + m,
**
**     continuous  [ A   0    B]   [I 0 0]        discrete  [ A  0  B]   [I   0   0]
**                 [-Q  -A^H  0] - [0 I 0] l                [-Q  I  0] - [0  A^H  0] l
**                 [ 0   B^H  R]   [0 0 0]                  [ 0  0  R]   [0 -B^H  0]
**
** is freed of its last m columns by a QR of those of H: the rest of the rows is a pencil of order
** 2n.  Its n stable values come first in an ordered generalised Schur form; Z's first n columns,
** [U1; U2], span their deflating subspace, and X = U2 U1^-1.  A and B are inverted nowhere.
*/
#include "../alg/alg.h"
#include "../alg/alg_qr.h"
#include "../alg/dense.h"
#include "../alg/small_r.h"
#include "equation.h"
#include "funm_matrix.h"

#include <math.h>
#include <string.h>

typedef struct pencil {
    gx_run *run;
    gx_number dtype;
    int64_t n, m, order; /* order: 2n + m                                        */
    bool is_discrete;
    double scale;       /* the pencil is that of X / scale, Q / scale, R / scale */
    void *h, *j, *last; /* order x 2n, order x 2n, order x m: H without its last columns */
} pencil;

/* block(i0 + i, j0 + j) of x = sign op(a)(i, j); a is rows x cols. */
static void place(const pencil *p, void *x, int64_t i0, int64_t j0, double sign, bool is_turned,
                  const void *a, int64_t rows, int64_t cols)
{
    for (int64_t j = 0; j < cols && gx_ok(p->run); j++) {
        for (int64_t i = 0; i < rows; i++) {
            gx_scalar v = gx_number_get(p->dtype, a, j * rows + i);
            int64_t row = i0 + (is_turned ? j : i), col = j0 + (is_turned ? i : j);
            v = (gx_scalar){sign * v.re, (is_turned ? -sign : sign) * v.im};
            gx_number_put(p->dtype, x, col * p->order + row, v);
        }
    }
}

static void place_unit(const pencil *p, void *x, int64_t i0)
{
    for (int64_t i = 0; i < p->n && gx_ok(p->run); i++) {
        gx_number_put(p->dtype, x, (i0 + i) * p->order + i0 + i, GX_ONE);
    }
}

static void *zeros(const pencil *p, int64_t cols)
{
    void *x = gx_dense_take(p->run, p->dtype, p->order, cols, "an extended pencil");
    if (x != NULL) {
        memset(x, 0, (size_t)(p->order * cols) * gx_number_bytes(p->dtype));
    }
    return x;
}

static void fill(pencil *p, const gx_equation_args *args)
{
    int64_t n = p->n, m = p->m;
    void *mat[GX_EQUATION_MATS];
    p->h = zeros(p, 2 * n);
    p->j = zeros(p, 2 * n);
    p->last = zeros(p, m);
    for (int k = 0; k < GX_EQUATION_MATS; k++) {
        mat[k] = gx_dense_whole(p->run, args->mat[k], p->dtype);
    }
    void *a = mat[0], *b = mat[1];
    place(p, p->h, 0, 0, 1, false, a, n, n);
    place(p, p->h, n, 0, -1 / p->scale, false, mat[2], n, n);
    place(p, p->last, 0, 0, 1, false, b, n, m);
    place(p, p->last, 2 * n, 0, 1 / p->scale, false, mat[3], m, m);
    place_unit(p, p->j, 0);
    if (p->is_discrete) {
        place_unit(p, p->h, n);
        place(p, p->j, n, n, 1, true, a, n, n);
        place(p, p->j, 2 * n, n, -1, true, b, n, m);
    } else {
        place_unit(p, p->j, n);
        place(p, p->h, n, n, -1, true, a, n, n);
        place(p, p->h, 2 * n, n, 1, true, b, n, m);
    }
    for (int k = 0; k < GX_EQUATION_MATS; k++) {
        gx_mem_free(p->run->ctx->mem, mat[k]);
    }
}

/* H and J := Q^H H, Q^H J by the QR of H's last columns: their rows from m on are the smaller. */
static void compress(const pencil *p, const gx_mat *R)
{
    void *tau = gx_dense_take(p->run, p->dtype, p->m, 1, "reflectors");
    gx_args qr = {.m = p->order, .n = p->m, .c = p->last, .ldc = p->order, .tau = tau};
    gx_dense_call(p->run, GX_GEQRF, p->dtype, &qr);
    double least = HUGE_VAL, most = 0;
    int64_t rank = R->rows;
    for (int64_t i = 0; i < p->m && gx_ok(p->run); i++) {
        gx_scalar d = gx_number_get(p->dtype, p->last, i * p->order + i);
        least = fmin(least, hypot(d.re, d.im));
        most = fmax(most, hypot(d.re, d.im));
    }
    if (gx_ok(p->run) && !p->is_discrete) {
        gx_alg_rank(p->run, R, -1, &rank);
    }
    bool is_singular = least <= (double)p->order * gx_number_eps(p->dtype) * most;
    if (gx_ok(p->run) && p->m > 0 && (is_singular || rank < R->rows)) {
        gx_run_failf(p->run, GX_NUMERIC, "%s is singular: the equation has no unique solution",
                     R->label);
    }
    for (int k = 0; k < 2 && p->m > 0; k++) {
        gx_args turn = {.transa = GX_CONJ_TRANS, .m = p->order, .n = 2 * p->n, .k = p->m};
        turn.a = p->last;
        turn.c = k == 0 ? p->h : p->j;
        turn.lda = turn.ldc = p->order;
        turn.tau = tau;
        gx_dense_call(p->run, GX_ORMQR, p->dtype, &turn);
    }
    gx_mem_free(p->run->ctx->mem, tau);
}

/* z = the right vectors, 2n x 2n, the stable ones first. */
static void order_stable(const pencil *p, void *z)
{
    int64_t n = p->n, twice = 2 * n, info = 0, stable = 0;
    void *q = gx_dense_take(p->run, p->dtype, twice, twice, "a Schur form");
    gx_args args = {.m = twice, .n = twice, .ldc = p->order, .ldc2 = p->order, .left = q};
    args.c = gx_ok(p->run) ? gx_at(p->h, p->dtype, p->order, p->m, 0) : NULL;
    args.c2 = gx_ok(p->run) ? gx_at(p->j, p->dtype, p->order, p->m, 0) : NULL;
    args.right = z;
    args.ldleft = args.ldright = twice;
    args.wants_left = args.wants_right = true;
    args.sort = p->is_discrete ? GX_SORT_INSIDE : GX_SORT_LEFT;
    args.pivots = &stable;
    args.info = &info;
    gx_dense_call(p->run, GX_GGES, p->dtype, &args);
    if (gx_ok(p->run) && (info != 0 || stable != n)) {
        gx_run_failf(p->run, GX_NUMERIC,
                     "there is no stabilising solution: the pencil has values %s, or too near",
                     p->is_discrete ? "on the unit circle" : "on the imaginary axis");
    }
    gx_mem_free(p->run->ctx->mem, q);
}

/* x = scale U2 U1^-1, by U1^H X^H = U2^H; X is Hermitian, and was not by so much, of its norm. */
static double divide(const pencil *p, const void *z, void *x)
{
    int64_t n = p->n;
    gx_funm_work w = {.run = p->run, .label = "the stable subspace", .n = n, .dtype = p->dtype};
    void *first = gx_funm_matrix(&w);
    for (int64_t j = 0; j < n && gx_ok(p->run); j++) {
        for (int64_t i = 0; i < n; i++) {
            gx_scalar a = gx_number_get(p->dtype, z, j * 2 * n + i);
            gx_scalar b = gx_number_get(p->dtype, z, j * 2 * n + n + i);
            gx_number_put(p->dtype, first, i * n + j, (gx_scalar){a.re, -a.im});
            gx_number_put(p->dtype, x, i * n + j, (gx_scalar){p->scale * b.re, -p->scale * b.im});
        }
    }
    gx_funm_solve(&w, first, x, "there is no stabilising solution");
    double off = gx_ok(p->run) ? gx_dense_halve(p->dtype, n, x) : 0;
    gx_funm_free(&w, first);
    return off;
}

/* One solution; what divide() says. */
static double solve(pencil *p, const gx_equation_args *args, void *x)
{
    gx_mem *mem = p->run->ctx->mem;
    fill(p, args);
    compress(p, args->mat[3]);
    void *z = gx_dense_take(p->run, p->dtype, 2 * p->n, 2 * p->n, "a Schur form");
    order_stable(p, z);
    double off = divide(p, z, x);
    void *done[] = {z, p->h, p->j, p->last};
    for (int i = 0; i < 4; i++) {
        gx_mem_free(mem, done[i]);
    }
    return off;
}

/*
** A large X has a U1 far smaller than U2, and loses digits: where it is not Hermitian enough, X is
** solved for once more, divided by the root of its norm, so that both are of like size.
*/
void gx_equation_riccati(gx_run *run, const gx_equation_args *args, gx_number dtype, void *x)
{
    const double FINE = 1e-11, MOST = 1e-6; // of the asymmetry: good, and no result at all
    const gx_mat *A = args->mat[0], *R = args->mat[3];
    pencil p = {.run = run, .dtype = dtype, .n = A->rows, .m = R->rows, .scale = 1};
    p.order = 2 * p.n + p.m;
    p.is_discrete = args->equation == GX_RICCATI_DISCRETE;
    gx_alg_refuse_asymmetric(run, args->mat[2]);
    gx_alg_refuse_asymmetric(run, R);
    if (!gx_ok(run) || p.n == 0) {
        return;
    }
    double off = solve(&p, args, x);
    if (gx_ok(run) && !(off <= FINE)) {
        p.scale = sqrt(gx_small_norm(dtype, x, p.n, p.n, p.n));
        off = solve(&p, args, x);
    }
    if (gx_ok(run) && !(off <= MOST)) {
        gx_run_failf(run, GX_NUMERIC,
                     "there is no stabilising solution, or none that these numbers tell: values of "
                     "the pencil are too near the %s",
                     p.is_discrete ? "unit circle" : "imaginary axis");
    }
}
