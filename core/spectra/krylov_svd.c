/*
** Few singular values of a matrix of any size: block Golub-Kahan-Lanczos bidiagonalisation with
** thick restart.
**
**   A V = U B      A^H U = V B^H + F C      V: n x m, U: M x m, F: n x f; [V F], U orthonormal
**
**   expand   Y = A F (one pass), Y = U h + P S; B gains the columns [h; S], U := [U P]
**            Z = A^H P (one pass), Z = [V F] . + F' S'; V := [V F], F := F', C := [0 S']
**   triplet  of B = X Sigma W^H: sigma, u = U x, v = V w; A v = sigma u, and ||A^H u - sigma v|| is
**            ||C x||
**   restart  V := V W, U := U X, B := Sigma, C := C X of the p largest
**
** (Golub, Luk & Overton 1981 for blocks; Baglama & Reichel 2005 and Hernandez, Roman & Tomas 2008
** for the restart.)  In exact arithmetic h = C^H, and B is bidiagonal by blocks with an arrow after
** a restart; here B holds all the coefficients that Gram-Schmidt found, so that A V = U B is true
** to rounding whatever has been lost.  Both sides are orthogonalised in full and twice: one side
** alone (Simon & Zha 2000) saves a quarter of what is little beside a pass, and loses the other
** where A is ill-conditioned.
**
** A wide A is worked on as A^H, so that V is the short side: when it has no direction left, F is
** empty and all triplets are exact.  Columns of Y and Z that are dependent are replaced by random
** ones (rank-deficient A; zero A).
**
** A block of f columns finds f copies of a multiple value.  When k values have converged, the rest
** of the basis is dropped, they are locked (C := 0), and a random block looks for what was missed
** outside of them; only when a few steps change none of the k values, and find nothing that may
** become one of them, is it over.
**
** I/O: two passes over A for f columns (none where it is in memory, see krylov_oper.c).  A pass
** that multiplied by A^H A would halve them, and squares the condition of what it works on.
** Memory: both bases, M x ncv and n x (ncv + block), and the projected problem; none depends on the
** budget, so that in deterministic mode the bits do not either.
*/
#include "krylov_svd.h"
#include "../alg/dense.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Steps of the random block that looks for missed values, two passes each. */
enum { CHECK_LEAST = 2, CHECK_MOST = 8 };

typedef struct lanczos {
    gx_run *run;
    const gx_svd_args *args;
    gx_svd_result *result;
    gx_oper *op;
    bool is_swapped; /* works on op^H                                          */
    gx_ortho left, right;
    gx_number dtype, wide;
    int64_t M, n; /* of what is worked on: M >= n                           */
    int64_t k, block, ncv, maxiter;
    double tol;
    void *U, *V;         /* M x ncv; n x (ncv + block): basis, F, what comes next  */
    int64_t m, f;        /* columns of the bases, of F                             */
    int64_t first;       /* of which are locked: 0, or k while others are looked for */
    int64_t coupled;     /* A F has but rounding of U's columns before it          */
    void *B, *C, *h, *s; /* wide: ncv x ncv, block x ncv, ncv x block, block^2     */
    void *X, *Wh;        /* wide: B = X Sigma W^H, of what is not locked           */
    void *small, *h2;    /* wide, ncv x ncv                                        */
    double *sigma;       /* ncv                                                    */
    double *residual;    /* k: ||A^H u - sigma v||                                 */
    double *locked;      /* k: values when they converged                          */
    int64_t converged;   /* of the first k                                         */
} lanczos;

// Begin, end --------------------------------------------------------------------------------------

static void reserve(lanczos *s)
{
    gx_run *run = s->run;
    int64_t ncv = s->ncv, b = s->block;
    s->U = gx_dense_take(run, s->dtype, s->M, ncv, "the left Krylov basis");
    s->V = gx_dense_take(run, s->dtype, s->n, ncv + b, "the right Krylov basis");
    s->left.work = s->right.work =
        gx_dense_take(run, s->dtype, gx_ortho_work(s->dtype, s->M, ncv, b), 1, "inner products");
    s->B = gx_dense_take(run, s->wide, ncv, ncv, "the projected matrix");
    s->C = gx_dense_take(run, s->wide, b, ncv, "the projected matrix");
    s->h = gx_dense_take(run, s->wide, ncv, b, "the projected matrix");
    s->s = gx_dense_take(run, s->wide, b, b, "the projected matrix");
    s->X = gx_dense_take(run, s->wide, ncv, ncv, "its singular vectors");
    s->Wh = gx_dense_take(run, s->wide, ncv, ncv, "its singular vectors");
    s->small = gx_dense_take(run, s->wide, ncv, ncv, "its singular vectors");
    s->h2 = gx_dense_take(run, s->wide, ncv, gx_max(b, s->k), "inner products");
    s->sigma = gx_dense_take(run, GX_F64, ncv, 1, "singular values");
    s->residual = gx_dense_take(run, GX_F64, s->k, 1, "residuals");
    s->locked = gx_dense_take(run, GX_F64, s->k, 1, "singular values");
}

static void end(lanczos *s)
{
    void *owned[] = {s->U, s->V,  s->left.work, s->B,  s->C,     s->h,        s->s,
                     s->X, s->Wh, s->small,     s->h2, s->sigma, s->residual, s->locked};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        gx_mem_free(s->run->ctx->mem, owned[i]);
    }
}

static void begin(lanczos *s)
{
    const gx_svd_args *args = s->args;
    gx_svd_sizes sizes;
    gx_svd_choose_sizes(args, &sizes);
    s->is_swapped = s->op->m < s->op->n;
    s->M = gx_max(s->op->m, s->op->n);
    s->n = gx_min(s->op->m, s->op->n);
    s->k = args->k;
    s->block = sizes.block;
    s->ncv = sizes.ncv;
    s->maxiter = sizes.maxiter;
    s->dtype = s->op->dtype;
    s->wide = gx_number_wide(s->dtype);
    s->tol = sizes.tol;
    s->right = (gx_ortho){.run = s->run, .dtype = s->dtype, .n = s->n, .seed = args->seed};
    s->left = s->right;
    s->left.n = s->M;
    s->left.seed = args->seed + (UINT64_C(1) << 32); // other columns than those of the right side
    reserve(s);
    s->m = 0;
    s->f = s->block;
    gx_ortho_block(&s->right, s->V, 0, s->V, 0, s->f, NULL, 0, NULL, 0);
}

// Expansion ---------------------------------------------------------------------------------------

static size_t wide_bytes(const lanczos *s)
{
    return gx_number_bytes(s->wide);
}

static void *left_column(const lanczos *s, int64_t j)
{
    return gx_at(s->U, s->dtype, s->M, 0, j);
}

static void *right_column(const lanczos *s, int64_t j)
{
    return gx_at(s->V, s->dtype, s->n, 0, j);
}

/* Two passes: F joins the right basis, what A makes of it the left one. */
static void expand_once(lanczos *s)
{
    int64_t m = s->m, f = s->f, more = m + f, ncv = s->ncv, b = s->block;
    assert(f > 0 && f <= b && more <= ncv && s->first <= m);
    void *y = left_column(s, m), *z = right_column(s, more);
    gx_svd_product(s->op, s->args->A, s->is_swapped, right_column(s, m), f, y);
    s->left.first = s->coupled;
    gx_ortho_block(&s->left, s->U, m, y, f, f, s->h, ncv, s->s, b);
    gx_svd_product(s->op, s->args->A, !s->is_swapped, y, f, z);
    if (!gx_ok(s->run)) {
        return;
    }
    for (int64_t j = 0; j < m; j++) { // A V = U B is of the old columns alone
        memset(gx_at(s->B, s->wide, ncv, m, j), 0, (size_t)f * wide_bytes(s));
    }
    gx_convert(s->wide, s->h, ncv, s->wide, gx_at(s->B, s->wide, ncv, 0, m), ncv, m, f);
    gx_convert(s->wide, s->s, b, s->wide, gx_at(s->B, s->wide, ncv, m, m), ncv, f, f);
    int64_t next = gx_min(gx_min(b, s->n - more), f);
    s->right.first = m; // A^H P is coupled to F alone
    gx_ortho_block(&s->right, s->V, more, z, f, next, NULL, 0, s->s, b);
    s->right.first = 0;
    memset(s->C, 0, (size_t)(b * more) * wide_bytes(s));
    gx_convert(s->wide, s->s, b, s->wide, gx_at(s->C, s->wide, b, 0, m), b, next, f);
    s->m = more;
    s->f = next;
    s->coupled = m;
}

// Triplets ----------------------------------------------------------------------------------------

/* ||C x|| of X's column i. */
static double residual_of(const lanczos *s, int64_t i)
{
    int64_t m = s->m - s->first;
    const double *x = gx_at(s->X, s->wide, m, 0, i);
    int64_t parts = s->wide == GX_C128 ? 2 : 1;
    double norm = 0;
    for (int64_t r = 0; r < s->f; r++) {
        double re = 0, im = 0;
        for (int64_t j = 0; j < m; j++) {
            const double *c = gx_at(s->C, s->wide, s->block, r, s->first + j);
            const double *e = x + j * parts;
            re += parts == 2 ? c[0] * e[0] - c[1] * e[1] : c[0] * e[0];
            im += parts == 2 ? c[0] * e[1] + c[1] * e[0] : 0;
        }
        norm = hypot(norm, hypot(re, im));
    }
    return norm;
}

/* Half of the tolerance: what locking drops comes on top of what is found afterwards. */
static bool has_converged(const lanczos *s, int64_t i)
{
    double rounding = 8 * gx_number_eps(s->dtype);
    return s->f == 0 || s->residual[i] <= fmax(s->tol / 2, rounding) * s->sigma[0];
}

/*
** B = X Sigma W^H of what is not locked; where nothing is, residuals of the first k, and how many
** of them have converged.
*/
static void find_triplets(lanczos *s)
{
    int64_t m = s->m - s->first;
    s->converged = 0;
    const void *rest = gx_at(s->B, s->wide, s->ncv, s->first, s->first);
    gx_convert(s->wide, rest, s->ncv, s->wide, s->small, m, m, m);
    gx_dense_svd(s->run, s->wide, m, s->small, s->sigma, s->X, s->Wh);
    for (int64_t i = 0; i < gx_min(s->k, m) && s->first == 0 && gx_ok(s->run); i++) {
        s->residual[i] = residual_of(s, i);
        s->converged += has_converged(s, i) ? 1 : 0;
    }
}

/* Is the small problem cheap beside the passes that it may save? */
static bool is_worth_looking(const lanczos *s)
{
    const double GESDD = 20, SHARE = 2; // flops an m^3; passes cost I/O too
    double m = (double)s->m;
    double pass = 2 * (double)s->M * (double)s->n * (double)gx_max(1, s->f);
    return s->m >= s->k && GESDD * m * m * m <= SHARE * pass;
}

/*
** Until the basis has ncv columns, or earlier where a look finds k triplets converged; blocks are
** cut so that it never has more.
*/
static void expand(lanczos *s)
{
    bool is_known = false;
    while (gx_ok(s->run) && s->f > 0 && s->m + s->f <= s->ncv) {
        expand_once(s);
        is_known = gx_ok(s->run) && is_worth_looking(s);
        if (is_known) {
            find_triplets(s);
            if (s->converged >= s->k) {
                return;
            }
        }
    }
    if (gx_ok(s->run) && !is_known) {
        find_triplets(s);
    }
}

/* x (rows x m) = x Z, Z m x p, for coefficients. */
static void rotate_small(lanczos *s, void *x, int64_t ld, int64_t rows, int64_t m, const void *Z,
                         int64_t p)
{
    gx_dense_gemm(s->run, s->wide, GX_NO_TRANS, GX_NO_TRANS, rows, p, m, 1, x, ld, Z, m, 0, s->h2,
                  rows);
    if (gx_ok(s->run)) {
        gx_convert(s->wide, s->h2, rows, s->wide, x, ld, rows, p);
    }
}

/* The p largest triplets of what is not locked are the basis behind the locked; F moves up. */
static void restart(lanczos *s, int64_t p)
{
    int64_t first = s->first, m = s->m - first, ncv = s->ncv, b = s->block;
    assert(p >= 0 && p <= m);
    gx_vectors_turned(s->run, s->wide, p, m, s->Wh, m, s->small); // p columns of W
    gx_kry_rotate(s->run, s->dtype, right_column(s, first), s->n, m, s->small, m, p);
    gx_kry_rotate(s->run, s->dtype, left_column(s, first), s->M, m, s->X, m, p);
    rotate_small(s, gx_at(s->B, s->wide, ncv, 0, first), ncv, first, m, s->small, p);
    rotate_small(s, gx_at(s->C, s->wide, b, 0, first), b, b, m, s->X, p);
    if (!gx_ok(s->run)) {
        return;
    }
    for (int64_t i = 0; i < p; i++) {
        memset(gx_at(s->B, s->wide, ncv, first, first + i), 0, (size_t)p * wide_bytes(s));
        double *diagonal = gx_at(s->B, s->wide, ncv, first + i, first + i);
        diagonal[0] = s->sigma[i];
    }
    memmove(right_column(s, first + p), right_column(s, s->m),
            (size_t)(s->n * s->f) * gx_number_bytes(s->dtype));
    s->m = first + p;
    s->coupled = 0; // F is coupled to all of them
}

static int64_t kept(const lanczos *s)
{
    int64_t wanted = s->first > 0 ? 1 : s->k + 1;
    return gx_svd_kept(wanted, s->m - s->first, s->ncv - s->first, s->block);
}

// The loop ----------------------------------------------------------------------------------------

/*
** Steps of a random block outside of the k locked triplets.  true: there are none better.  It has
** looked enough when the best that it found is below the k-th by more than its residual, or after
** CHECK_MOST steps where values lie that close.
*/
static bool looks_complete(lanczos *s)
{
    double last = s->locked[s->k - 1];
    double slack = fmax(100 * s->tol, 1e-9) * s->locked[0];
    for (int step = 1; step <= CHECK_MOST && s->f > 0 && gx_ok(s->run); step++) {
        if (s->m + s->f > s->ncv) {
            restart(s, kept(s));
        }
        expand_once(s);
        if (gx_ok(s->run)) {
            find_triplets(s);
        }
        if (!gx_ok(s->run) || s->sigma[0] > last + slack) {
            return false;
        }
        if (step >= CHECK_LEAST && s->sigma[0] + residual_of(s, 0) < last) {
            return true;
        }
    }
    return gx_ok(s->run);
}

/*
** The k triplets are locked and a random block looks for others: true when there are none better,
** and then they alone are the basis; else what was found joins it.
*/
static bool confirm(lanczos *s)
{
    memcpy(s->locked, s->sigma, (size_t)s->k * sizeof *s->locked);
    restart(s, s->k);
    s->first = s->k;
    s->f = gx_min(s->block, s->n - s->m);
    if (!gx_ok(s->run)) {
        return true;
    }
    memset(s->C, 0, (size_t)(s->block * s->m) * wide_bytes(s));
    gx_ortho_block(&s->right, s->V, s->m, right_column(s, s->m), 0, s->f, NULL, 0, NULL, 0);
    bool is_complete = looks_complete(s);
    s->first = 0;
    if (is_complete) { // the locked ones have lost nothing: B and the bases begin with them
        s->m = s->k;
        s->f = s->coupled = 0;
    }
    if (gx_ok(s->run)) {
        find_triplets(s);
    }
    return is_complete;
}

static void iterate(lanczos *s)
{
    for (int64_t step = 0; gx_ok(s->run); step++) {
        expand(s);
        if (!gx_ok(s->run) || step >= s->maxiter) {
            return;
        }
        bool is_done = s->converged >= s->k && s->m >= s->k;
        if (is_done && (s->f == 0 || confirm(s))) { // a basis of everything misses nothing
            return;
        }
        if (gx_ok(s->run) && s->m + s->f > s->ncv) {
            restart(s, kept(s));
        }
    }
}

// Results -----------------------------------------------------------------------------------------

static void give(lanczos *s)
{
    const gx_svd_args *args = s->args;
    gx_svd_result *r = s->result;
    int64_t *pick = (int64_t *)(void *)s->locked; // k of 8 bytes, no longer needed
    int64_t count = 0;
    double worst = 0;
    for (int64_t i = 0; i < gx_min(s->k, s->m); i++) {
        worst = fmax(worst, s->residual[i]);
        if (has_converged(s, i)) {
            pick[count++] = i;
        }
    }
    if (count < s->k && !args->allows_partial) {
        gx_run_failf(s->run, GX_NUMERIC,
                     "%lld of %lld singular values of %s converged in %lld restarts (largest "
                     "residual %.2g, tolerance %.2g ||A||): raise maxiter or ncv, or take what "
                     "there is with {\"partial\":true}",
                     (long long)count, (long long)s->k, args->A->label, (long long)s->maxiter,
                     worst, s->tol);
        return;
    }
    if (gx_svd_reserve(s->run, r, s->op->m, s->op->n, count, s->dtype, args->mode) != GX_OK) {
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        r->sigma[i] = s->sigma[pick[i]];
    }
    gx_vectors_turned(s->run, s->wide, s->m, s->m, s->Wh, s->m, s->small);
    if (s->is_swapped) {
        gx_svd_give_vectors(s->run, r, s->m, s->V, s->small, s->U, s->X, pick);
    } else {
        gx_svd_give_vectors(s->run, r, s->m, s->U, s->X, s->V, s->small, pick);
    }
    r->passes = s->op->passes;
    r->driver = "golub-kahan";
}

gx_code gx_svd_krylov(gx_run *run, gx_oper *op, const gx_svd_args *args, gx_svd_result *result)
{
    lanczos s = {.run = run, .args = args, .result = result, .op = op};
    if (!gx_ok(run)) {
        return run->err.code;
    }
    begin(&s);
    if (gx_ok(run)) {
        iterate(&s);
    }
    if (gx_ok(run)) {
        give(&s);
    }
    end(&s);
    return gx_ok(run) ? GX_OK : run->err.code;
}
