/*
** Sylvester's and Lyapunov's equations, and what all matrix equations share: see equation.h.
**
**   A = U T U^H, B = V S V^H:   T Y + Y S = U^H Q V, X = U Y V^H
**   X - A X A^H = Q:            T Y T^H - Y = -U^H Q U, a column at a time, the last one first,
**                               each by a triangular solve; complex, whatever A is
*/
#include "equation.h"

#include "../alg/alg.h"
#include "../alg/dense.h"
#include "../alg/small_r.h"
#include "decomp.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const gx_equation_letters[GX_EQUATIONS] = {
    [GX_SYLVESTER] = "ABQ", [GX_LYAPUNOV] = "AQ",           [GX_LYAPUNOV_DISCRETE] = "AQ",
    [GX_RICCATI] = "ABQR",  [GX_RICCATI_DISCRETE] = "ABQR",
};

static bool is_riccati(gx_equation equation)
{
    return equation == GX_RICCATI || equation == GX_RICCATI_DISCRETE;
}

// Shapes ------------------------------------------------------------------------------------------

static gx_code check_square(const gx_mat *A, gx_err *err)
{
    return A->rows == A->cols ? GX_OK
                              : gx_fail(err, GX_ARG, "%s is %lldx%lld, but it must be square",
                                        A->label, (long long)A->rows, (long long)A->cols);
}

static gx_code check_sides(const gx_mat *A, int64_t rows, int64_t cols, gx_err *err)
{
    return A->rows == rows && A->cols == cols
               ? GX_OK
               : gx_fail(err, GX_ARG, "%s is %lldx%lld, but it must be %lldx%lld here", A->label,
                         (long long)A->rows, (long long)A->cols, (long long)rows, (long long)cols);
}

gx_code gx_equation_shape(const gx_equation_args *args, gx_solution *X, gx_err *err)
{
    const gx_mat *A = args->mat[0], *B = args->mat[1];
    int count = (int)strlen(gx_equation_letters[args->equation]);
    *X = (gx_solution){.rows = A->rows, .cols = A->rows, .number = A->number};
    for (int k = 1; k < count; k++) {
        X->number = gx_number_promote(X->number, args->mat[k]->number);
    }
    GX_TRY(check_square(A, err));
    if (args->equation == GX_SYLVESTER) {
        GX_TRY(check_square(B, err));
        X->cols = B->rows;
        return check_sides(args->mat[2], X->rows, X->cols, err);
    }
    if (count == 2) {
        return check_sides(B, A->rows, A->rows, err);
    }
    GX_TRY(check_sides(B, A->rows, B->cols, err));
    GX_TRY(check_sides(args->mat[2], A->rows, A->rows, err));
    return check_sides(args->mat[3], B->cols, B->cols, err);
}

// Linear equations --------------------------------------------------------------------------------

typedef struct solving {
    gx_run *run;
    const gx_equation_args *args;
    gx_number dtype;
    int64_t m, n;
    gx_decomp a, b;          /* b: of B; Lyapunov: not used          */
    const gx_decomp *second; /* the right one of them                */
    gx_trans trans;          /* of the right one: T, or T^H          */
} solving;

/* to = op(u) x op(v); m x n; room: another such matrix. */
static void turn(const solving *s, gx_trans tu, gx_trans tv, void *x, void *room)
{
    int64_t m = s->m, n = s->n;
    gx_dense_gemm(s->run, s->dtype, tu, GX_NO_TRANS, m, n, m, 1, s->a.part[1].data, m, x, m, 0,
                  room, m);
    gx_dense_gemm(s->run, s->dtype, GX_NO_TRANS, tv, m, n, n, 1, room, m, s->second->part[1].data,
                  n, 0, x, m);
}

/* Where a triangle of order n is cut: about in the middle, never in a 2 x 2 block. */
static int64_t middle(const solving *s, const void *t, int64_t ld, int64_t n)
{
    int64_t half = n / 2;
    gx_scalar below = gx_number_get(s->dtype, t, (half - 1) * ld + half);
    return below.re == 0 && below.im == 0 ? half : half + 1;
}

/* y := Y with a Y + Y op(b) = y, m x n; a and b lie in T and S: leading dimensions s->m, s->n. */
static void solve_block(const solving *s, const void *a, int64_t m, const void *b, int64_t n,
                        void *y)
{
    enum { LEAF = 64 };
    gx_run *run = s->run;
    gx_number dtype = s->dtype;
    int64_t lda = s->m, ldb = s->n, ld = s->m;
    if (!gx_ok(run) || m == 0 || n == 0) {
        return;
    }
    if (m <= LEAF && n <= LEAF) {
        int64_t info = 0; // eigenvalues that meet were refused before
        gx_args args = {.transb = s->trans, .m = m, .n = n, .a = a, .lda = lda, .b = b, .ldb = ldb};
        args.c = y;
        args.ldc = ld;
        args.info = &info;
        gx_dense_call(run, GX_TRSYL, dtype, &args);
        gx_run_poll(run);
    } else if (m >= n) {
        int64_t k = middle(s, a, lda, m);
        void *below = gx_at(y, dtype, ld, k, 0);
        solve_block(s, gx_at(a, dtype, lda, k, k), m - k, b, n, below);
        gx_dense_gemm(run, dtype, GX_NO_TRANS, GX_NO_TRANS, k, n, m - k, -1,
                      gx_at(a, dtype, lda, 0, k), lda, below, ld, 1, y, ld);
        solve_block(s, a, k, b, n, y);
    } else {
        int64_t k = middle(s, b, ldb, n);
        bool is_last_first = s->trans != GX_NO_TRANS;
        const void *corner = gx_at(b, dtype, ldb, 0, k), *low = gx_at(b, dtype, ldb, k, k);
        void *right = gx_at(y, dtype, ld, 0, k);
        if (is_last_first) {
            solve_block(s, a, m, low, n - k, right);
            gx_dense_gemm(run, dtype, GX_NO_TRANS, s->trans, m, k, n - k, -1, right, ld, corner,
                          ldb, 1, y, ld);
            solve_block(s, a, m, b, k, y);
        } else {
            solve_block(s, a, m, b, k, y);
            gx_dense_gemm(run, dtype, GX_NO_TRANS, GX_NO_TRANS, m, n - k, k, -1, y, ld, corner, ldb,
                          1, right, ld);
            solve_block(s, a, m, low, n - k, right);
        }
    }
}

/* y = T Y T^H - Y = -y, complex: the last column first. */
static void solve_columns(const solving *s, const gx_scalar *t, gx_scalar *y)
{
    int64_t n = s->n;
    gx_scalar *shifted = gx_dense_take(s->run, GX_C128, n, n, "a triangle");
    gx_scalar *sum = gx_dense_take(s->run, GX_C128, n, 1, "a column");
    for (int64_t j = n - 1; j >= 0 && gx_ok(s->run); j--) {
        gx_scalar *column = y + j * n, pivot = {t[j * n + j].re, -t[j * n + j].im};
        int64_t rest = n - 1 - j;
        if (rest > 0) {
            gx_dense_gemm(s->run, GX_C128, GX_NO_TRANS, GX_CONJ_TRANS, n, 1, rest, 1, column + n, n,
                          t + (j + 1) * n + j, n, 0, sum, n);
            gx_dense_gemm(s->run, GX_C128, GX_NO_TRANS, GX_NO_TRANS, n, 1, n, 1, t, n, sum, n, 1,
                          column, n);
        }
        for (int64_t k = 0; k < n && gx_ok(s->run); k++) {
            column[k] = (gx_scalar){-column[k].re, -column[k].im};
            for (int64_t i = 0; i <= k; i++) {
                gx_scalar x = t[k * n + i];
                shifted[k * n + i] = (gx_scalar){x.re * pivot.re - x.im * pivot.im,
                                                 x.re * pivot.im + x.im * pivot.re};
            }
            shifted[k * n + k].re -= 1;
        }
        gx_dense_triangle(s->run, GX_TRSM, GX_C128, GX_UPPER, GX_NO_TRANS, GX_NON_UNIT, n, shifted,
                          1, column);
        gx_run_poll(s->run);
    }
    gx_mem_free(s->run->ctx->mem, shifted);
    gx_mem_free(s->run->ctx->mem, sum);
}

static double triangle_norm(const solving *s, const gx_decomp *d)
{
    int64_t n = d->part[0].rows;
    return gx_small_norm(s->dtype, d->part[0].data, gx_max(1, n), n, n);
}

/* Refuses two eigenvalues whose sum (or 1 - product) is zero within rounding. */
static void refuse_meeting(const solving *s)
{
    enum { ROUNDINGS = 10 };
    bool is_discrete = s->args->equation == GX_LYAPUNOV_DISCRETE;
    bool is_own = s->args->equation != GX_SYLVESTER;
    double first = triangle_norm(s, &s->a), second = triangle_norm(s, s->second);
    double tiny =
        ROUNDINGS * gx_number_eps(GX_F64) * (is_discrete ? 1 + first * first : first + second);
    for (int64_t i = 0; i < s->m; i++) {
        for (int64_t j = 0; j < s->n; j++) {
            gx_scalar a = s->a.values[i], b = s->second->values[j];
            b.im = is_own ? -b.im : b.im;
            gx_scalar gap =
                is_discrete ? (gx_scalar){a.re * b.re - a.im * b.im - 1, a.re * b.im + a.im * b.re}
                            : (gx_scalar){a.re + b.re, a.im + b.im};
            if (hypot(gap.re, gap.im) <= tiny) {
                gx_run_failf(s->run, GX_NUMERIC,
                             "the equation has no solution, or many: the eigenvalues %.6g%+.6gi of "
                             "%s and %.6g%+.6gi of %s %s, within rounding",
                             a.re, a.im, s->args->mat[0]->label, b.re, b.im,
                             is_own ? "its conjugate transpose" : s->args->mat[1]->label,
                             is_discrete ? "have the product 1" : "add up to 0");
                return;
            }
        }
    }
}

/* x = Q on entry, X on return. */
static void solve_linear(solving *s, void *x)
{
    const gx_equation_args *args = s->args;
    gx_decomp_args schur = {.A = args->mat[0], .kind = GX_DECOMP_SCHUR, .number = s->dtype};
    gx_alg_decompose(s->run, &schur, &s->a);
    s->second = &s->a;
    s->trans = GX_CONJ_TRANS;
    if (args->equation == GX_SYLVESTER && gx_ok(s->run)) {
        schur.A = args->mat[1];
        gx_alg_decompose(s->run, &schur, &s->b);
        s->second = &s->b;
        s->trans = GX_NO_TRANS;
    }
    void *room = gx_dense_take(s->run, s->dtype, s->m, s->n, "the solution");
    if (gx_ok(s->run) && s->m > 0 && s->n > 0) {
        refuse_meeting(s);
        turn(s, GX_CONJ_TRANS, GX_NO_TRANS, x, room);
        if (args->equation == GX_LYAPUNOV_DISCRETE) {
            solve_columns(s, s->a.part[0].data, x);
        } else {
            solve_block(s, s->a.part[0].data, s->m, s->second->part[0].data, s->n, x);
        }
        turn(s, GX_NO_TRANS, GX_CONJ_TRANS, x, room);
    }
    gx_mem_free(s->run->ctx->mem, room);
    gx_decomp_clear(&s->a);
    gx_decomp_clear(&s->b);
}

/* X of an equation of Lyapunov is Hermitian where Q is. */
static bool is_hermitian_result(const solving *s, const void *q)
{
    return s->args->equation != GX_SYLVESTER && gx_ok(s->run) &&
           gx_dense_is_hermitian(s->run, s->dtype, q, gx_max(1, s->n), s->n);
}

// The driver --------------------------------------------------------------------------------------

static gx_code refuse_what_is_too_large(gx_run *run, const gx_equation_args *args,
                                        const gx_solution *X, gx_number dtype)
{
    double m = (double)X->rows, n = (double)X->cols, k = (double)args->mat[1]->cols;
    double elements = is_riccati(args->equation) ? (2 * m + k) * (4 * m + k) + 12 * m * m
                                                 : 3 * m * m + 3 * n * n + 3 * m * n;
    double bytes = elements * (double)gx_number_bytes(dtype) + 1024 * (m + n) + 65536;
    return gx_dense_fits(run, bytes < 1e18 ? (size_t)bytes : SIZE_MAX, "the equation", args->mat[0],
                         "raise it with gx_config('memory_limit', ...)");
}

/* X in the number that it has. */
static void give(gx_run *run, gx_number dtype, void *x, gx_solution *X)
{
    int64_t ld = gx_max(1, X->rows);
    if (gx_dense_finite(run, "the solution", dtype, x, ld, X->rows, X->cols) == GX_OK) {
        X->data = gx_dense_take(run, X->number, X->rows, X->cols, "the solution");
    }
    if (gx_ok(run)) {
        gx_convert(dtype, x, ld, X->number, X->data, ld, X->rows, X->cols);
        bool is_real = !gx_number_is_complex(X->number);
        X->properties |= is_real && X->properties != 0 ? GX_PROP_SYMMETRIC : 0;
    }
}

gx_code gx_alg_equation(gx_run *run, const gx_equation_args *args, gx_solution *X)
{
    gx_err err = {0};
    gx_equation_shape(args, X, &err);
    gx_run_fail(run, &err);
    bool is_complex = gx_number_is_complex(X->number) || args->equation == GX_LYAPUNOV_DISCRETE;
    gx_number dtype = is_complex ? GX_C128 : GX_F64;
    void *x = NULL;
    if (!gx_ok(run) || refuse_what_is_too_large(run, args, X, dtype) != GX_OK) {
        return run->err.code;
    }
    if (is_riccati(args->equation)) {
        x = gx_dense_take(run, dtype, X->rows, X->rows, "the solution");
        gx_equation_riccati(run, args, dtype, x);
        X->properties = GX_PROP_HERMITIAN;
    } else {
        solving s = {.run = run, .args = args, .dtype = dtype, .m = X->rows, .n = X->cols};
        x = gx_dense_whole(run, args->mat[args->equation == GX_SYLVESTER ? 2 : 1], dtype);
        bool is_hermitian = is_hermitian_result(&s, x);
        solve_linear(&s, x);
        if (is_hermitian && gx_ok(run)) {
            gx_dense_halve(dtype, X->rows, x);
            X->properties = GX_PROP_HERMITIAN;
        }
    }
    give(run, dtype, x, X);
    gx_mem_free(run->ctx->mem, x);
    return gx_ok(run) ? GX_OK : run->err.code;
}
