/*
** Block Krylov-Schur: the basis, how it begins, grows and is cut back, and the projected problem.
** See krylov_eig.c.
**
** One step is one product with the operator and Gram-Schmidt against everything.  A restart rotates
** the basis onto the invariant subspace of the wanted values, in place, panel by panel.
**
** Ritz values are those of H, in the order that is asked for; the residual of a vector V y is
** ||C y||.  Hermitian: eigenvectors of H; else a Schur form.  Work O(m^3) a restart, m the columns
** of the basis.
*/
#include "../alg/dense.h"
#include "krylov_eig.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void *gx_kry_column(const gx_kry *s, int64_t j)
{
    return gx_at(s->V, s->dtype, s->n, 0, j);
}

void gx_kry_start(gx_kry *s)
{
    int64_t given = 0;
    const gx_mat *from = s->args->start;
    if (from != NULL && gx_ok(s->run)) {
        given = gx_min(from->cols, s->block);
        gx_mat view;
        gx_mat_view(&view, from, GX_NO_TRANS, 0, 0, s->n, given);
        gx_dense_load(s->run, &view, s->dtype, gx_kry_column(s, 0), s->n);
        gx_dense_finite(s->run, "the start", s->dtype, gx_kry_column(s, 0), s->n, s->n, given);
    }
    s->m = s->coupled = 0;
    s->f = s->block;
    gx_ortho_block(&s->ortho, s->V, 0, s->V, given, s->f, NULL, 0, NULL, 0);
}

// Expansion ---------------------------------------------------------------------------------------

/* One pass: F joins the basis. */
static void expand_once(gx_kry *s)
{
    int64_t m = s->m, f = s->f, more = m + f;
    assert(f > 0 && f <= s->block && more <= s->ncv);
    void *y = gx_kry_column(s, more);
    if (s->op->apply(s->op, false, gx_kry_column(s, m), f, y) != GX_OK) {
        return;
    }
    int64_t next = gx_min(gx_min(s->block, s->n - more), f);
    s->ortho.first = s->is_hermitian ? s->coupled : 0;
    gx_ortho_block(&s->ortho, s->V, more, y, f, next, s->h, s->ld, s->s, s->block);
    s->ortho.first = 0;
    if (!gx_ok(s->run)) {
        return;
    }
    gx_number wide = s->wide; // C is the coupling of the old columns to F
    gx_convert(wide, s->C, s->block, wide, gx_at(s->H, wide, s->ld, m, 0), s->ld, f, m);
    gx_convert(wide, s->h, s->ld, wide, gx_at(s->H, wide, s->ld, 0, m), s->ld, more, f);
    memset(s->C, 0, (size_t)(s->block * more) * gx_number_bytes(s->wide));
    gx_convert(wide, s->s, s->block, wide, gx_at(s->C, wide, s->block, 0, m), s->block, next, f);
    s->m = more;
    s->f = next;
    s->coupled = m;
    s->steps++;
}

void gx_kry_expand(gx_kry *s, int64_t most)
{
    while (gx_ok(s->run) && s->m < most && s->f > 0 && s->m + s->f <= s->ncv) {
        expand_once(s);
    }
}

// The projected problem ---------------------------------------------------------------------------

static gx_scalar back(const gx_kry *s, gx_scalar theta)
{
    if (!s->is_inverse) {
        return theta;
    }
    gx_scalar sigma = s->op->sigma;
    double size = hypot(theta.re, theta.im);
    if (size == 0) {
        return (gx_scalar){(double)INFINITY, 0};
    }
    return (gx_scalar){sigma.re + theta.re / size / size, sigma.im - theta.im / size / size};
}

/* The eigenvectors of H's lower triangle. */
static void solve_hermitian(gx_kry *s)
{
    int64_t m = s->m;
    gx_convert(s->wide, s->H, s->ld, s->wide, s->W, m, m, m);
    gx_args args = {.uplo = GX_LOWER,
                    .m = m,
                    .n = m,
                    .c = s->W,
                    .ldc = m,
                    .values = s->residual, // for a moment
                    .wants_right = true};
    if (gx_dense_call(s->run, GX_SYEV, s->wide, &args) == GX_OK) {
        gx_convert(s->wide, s->W, m, GX_C128, s->vectors, m, m, m);
        for (int64_t i = 0; i < m; i++) {
            s->theta[i] = (gx_scalar){s->residual[i], 0};
        }
    }
}

static void solve_general(gx_kry *s)
{
    int64_t m = s->m;
    gx_convert(s->wide, s->H, s->ld, s->wide, s->T, m, m, m);
    gx_args args = {.m = m, .n = m, .c = s->T, .values = s->theta, .right = s->Q};
    args.left = s->vectors;
    args.ldc = args.ldleft = args.ldright = gx_max(1, m);
    args.wants_left = args.wants_right = true;
    gx_dense_call(s->run, GX_GEES, s->wide, &args);
}

/*
** Of a real H it is the real Schur form: a span of the first columns of Q is invariant and real
** wherever it does not part a conjugate pair.  A complex form would not do: where values are
** ill-conditioned, its rounding leaves no set of them that is closed under conjugation.
*/
int64_t gx_kry_order_span(gx_kry *s, int64_t p)
{
    int64_t m = s->m, front = 0;
    memset(s->is_wanted, 0, (size_t)m * sizeof *s->is_wanted);
    for (int64_t j = 0; j < p; j++) {
        s->is_wanted[s->order[j]] = true;
    }
    for (int64_t i = 0, size; i < m && gx_ok(s->run); i += size) {
        bool is_pair = s->is_real && i + 1 < m && *(double *)gx_at(s->T, s->wide, m, i + 1, i) != 0;
        size = is_pair ? 2 : 1;
        int64_t at = i;
        gx_args args = {.n = m, .c = s->T, .ldc = m, .right = s->Q, .ldright = m, .pivots = &at};
        args.pivot_first = i;
        args.pivot_last = front;
        if (s->is_wanted[i] && i > front) {
            gx_dense_call(s->run, GX_TREXC, s->wide, &args);
        }
        front += s->is_wanted[i] && at == front ? size : 0;
    }
    return front;
}

/* ||C x||. */
static double residual_of(const gx_kry *s, const gx_scalar *x)
{
    double sum = 0;
    int64_t parts = s->wide == GX_C128 ? 2 : 1;
    for (int64_t i = 0; i < s->f; i++) {
        gx_scalar r = {0, 0};
        for (int64_t j = 0; j < s->m; j++) {
            const double *c = gx_at(s->C, s->wide, s->block, i, j);
            double im = parts == 2 ? c[1] : 0;
            r.re += c[0] * x[j].re - im * x[j].im;
            r.im += c[0] * x[j].im + im * x[j].re;
        }
        sum = hypot(sum, hypot(r.re, r.im));
    }
    return sum;
}

bool gx_kry_has_converged(const gx_kry *s, int64_t i)
{
    gx_scalar theta = s->theta[s->order[i]];
    bool is_relative = s->is_inverse || !s->is_hermitian;
    double scale = is_relative ? hypot(theta.re, theta.im) : s->largest;
    double rounding = 8 * gx_number_eps(s->dtype);
    return s->f == 0 || s->residual[i] <= fmax(s->tol * scale, rounding * s->largest);
}

/*
** The order with the two of a pair side by side, the positive imaginary part first, even where
** other pairs have the same place.  marks: m flags.
*/
static void join_pairs(const gx_kry *s, bool *is_placed, int64_t *joined)
{
    int64_t count = 0;
    memset(is_placed, 0, (size_t)s->m * sizeof *is_placed);
    for (int64_t p = 0; p < s->m; p++) {
        int64_t i = s->order[p];
        i -= s->theta[i].im < 0 ? 1 : 0; // where T's block begins
        if (!is_placed[i]) {
            bool is_flipped = s->value[i].im < 0; // by the inversion
            joined[count++] = is_flipped ? i + 1 : i;
            is_placed[i] = true;
            if (s->theta[i].im != 0) {
                joined[count++] = is_flipped ? i : i + 1;
            }
        }
    }
    memcpy(s->order, joined, (size_t)s->m * sizeof *joined);
}

/* Values, their order, residuals of the first k + 2, and how many of them have converged. */
void gx_kry_find_ritz(gx_kry *s)
{
    if (s->is_hermitian) {
        solve_hermitian(s);
    } else {
        solve_general(s);
    }
    if (!gx_ok(s->run)) {
        return;
    }
    double largest = 0;
    for (int64_t i = 0; i < s->m; i++) {
        s->value[i] = back(s, s->theta[i]);
        largest = fmax(largest, hypot(s->theta[i].re, s->theta[i].im));
    }
    s->largest = s->is_hermitian ? largest : fmax(largest, s->ortho.norm);
    gx_scalar sigma = s->args->which == GX_EIG_NEAREST ? s->args->sigma : (gx_scalar){0, 0};
    gx_eig_sort_order(s->value, s->m, s->which, sigma, s->is_hermitian, false, s->order);
    if (s->is_real && !s->is_hermitian) {
        join_pairs(s, s->is_wanted, s->joined);
    }
    s->converged = 0;
    for (int64_t i = 0; i < gx_min(s->k + 2, s->m); i++) { // and the pair behind them
        s->residual[i] = residual_of(s, s->vectors + s->order[i] * s->m);
        s->converged += i < s->k && gx_kry_has_converged(s, i) ? 1 : 0;
    }
}

// Restart -----------------------------------------------------------------------------------------

/* Does place p of the order stand between the two of a conjugate pair? */
bool gx_kry_splits_pair(const gx_kry *s, int64_t p)
{
    if (!s->is_real || s->is_hermitian || p < 1 || p >= s->m) {
        return false;
    }
    int64_t before = s->order[p - 1], after = s->order[p];
    return s->theta[before].im != 0 && (before > after ? before - after : after - before) == 1 &&
           s->theta[before].im == -s->theta[after].im && s->theta[before].re == s->theta[after].re;
}

/*
** W (m x p, wide) = an orthonormal basis of the invariant subspace of the first p values; fewer
** where T's order does not allow them all.  Returns how many.
*/
static int64_t choose_span(gx_kry *s, int64_t p)
{
    int64_t m = s->m;
    if (s->is_hermitian) {
        for (int64_t j = 0; j < p; j++) {
            gx_convert(GX_C128, s->vectors + s->order[j] * m, m, s->wide,
                       gx_at(s->W, s->wide, m, 0, j), m, m, 1);
        }
        return p;
    }
    p = gx_kry_order_span(s, p);
    memcpy(s->W, s->Q, (size_t)(m * p) * gx_number_bytes(s->wide));
    return p;
}

/* H := W^H H W, C := C W, V := V W; F moves behind. */
static void rotate(gx_kry *s, int64_t p)
{
    int64_t m = s->m, b = s->block;
    gx_trans adjoint = s->wide == GX_C128 ? GX_CONJ_TRANS : GX_TRANS;
    if (s->is_hermitian) { // its upper part is rounding's: H is what its lower triangle says
        gx_dense_mirror(s->run, s->wide, s->H, s->ld, m);
    }
    gx_dense_gemm(s->run, s->wide, GX_NO_TRANS, GX_NO_TRANS, m, p, m, 1, s->H, s->ld, s->W, m, 0,
                  s->small, m);
    gx_dense_gemm(s->run, s->wide, adjoint, GX_NO_TRANS, p, p, m, 1, s->W, m, s->small, m, 0, s->H,
                  s->ld);
    gx_dense_gemm(s->run, s->wide, GX_NO_TRANS, GX_NO_TRANS, b, p, m, 1, s->C, b, s->W, m, 0,
                  s->small, b);
    if (gx_ok(s->run)) {
        memcpy(s->C, s->small, (size_t)(b * p) * gx_number_bytes(s->wide));
    }
    gx_kry_rotate(s->run, s->dtype, s->V, s->n, m, s->W, m, p);
    if (gx_ok(s->run)) {
        memmove(gx_kry_column(s, p), gx_kry_column(s, m),
                (size_t)(s->n * s->f) * gx_number_bytes(s->dtype));
    }
    s->m = p;
    s->coupled = 0; // F is coupled to all of them
}

void gx_kry_restart(gx_kry *s, int64_t p)
{
    while (gx_kry_splits_pair(s, p)) {
        p++;
    }
    assert(p >= 1 && p <= s->m);
    p = choose_span(s, p);
    if (gx_ok(s->run)) {
        rotate(s, p);
    }
}
