/*
** Randomized singular values: a random range finder with power steps.
**
**   Y = A Omega                    Omega: n x l, normal numbers that the seed names; l = k + more
**   repeat power times             Z = A^H orth(Y), Y = A orth(Z)
**   Q = orth(Y), Z = A^H Q = P R   so that Q^H A = R^H P^H;  R^H = X Sigma W^H
**   U = Q X, V = P W               the first k of l
**
** (Halko, Martinsson & Tropp 2011, algorithms 4.4 and 5.1.)  The orthonormal bases between the
** passes keep what lies below sqrt(eps) of the largest value, which (A A^H)^power A Omega loses.
** Nothing is iterated until it converges: a fixed 2 power + 2 passes.  The expected error ||A - Q
** Q^H A|| is near sigma_(k+1) once (sigma_(k+1) / sigma_k)^(2 power + 1) is small; values are never
** above the true ones.
**
** orth() is block Gram-Schmidt, twice, by panels (krylov_ortho.c): products of blocks, and columns
** that are dependent, where A has a rank below l, replaced by random ones.
**
** I/O: 2 power + 2 passes over A for l columns.  Memory: Y, m x l, and Z, n x l.
*/
#include "../alg/dense.h"
#include "krylov_svd.h"

#include <string.h>

typedef struct finder {
    gx_run *run;
    const gx_svd_args *args;
    gx_oper *op;
    gx_number dtype, wide;
    int64_t l;     /* columns                                  */
    void *Y, *Z;   /* m x l, n x l                             */
    void *work;    /* of Gram-Schmidt                          */
    void *h, *s;   /* wide: l x GX_SVD_PANEL, GX_SVD_PANEL x GX_SVD_PANEL           */
    void *R;       /* wide, l x l: Z = P R                     */
    void *W, *Xh;  /* wide, l x l: R = W Sigma X^H             */
    double *sigma; /* l                                        */
    uint64_t seed; /* of replacements; Omega's is the next one */
} finder;

static void reserve(finder *f)
{
    gx_run *run = f->run;
    int64_t l = f->l, m = f->op->m, n = f->op->n;
    int64_t work = gx_ortho_work(f->dtype, gx_max(m, n), l, GX_SVD_PANEL);
    f->Y = gx_dense_take(run, f->dtype, m, l, "a basis of the range");
    f->Z = gx_dense_take(run, f->dtype, n, l, "a basis of the rows");
    f->work = gx_dense_take(run, f->dtype, work, 1, "inner products");
    f->h = gx_dense_take(run, f->wide, l, GX_SVD_PANEL, "inner products");
    f->s = gx_dense_take(run, f->wide, GX_SVD_PANEL, GX_SVD_PANEL, "inner products");
    f->R = gx_dense_take(run, f->wide, l, l, "the projected matrix");
    f->W = gx_dense_take(run, f->wide, l, l, "its singular vectors");
    f->Xh = gx_dense_take(run, f->wide, l, l, "its singular vectors");
    f->sigma = gx_dense_take(run, GX_F64, l, 1, "singular values");
}

static void end(finder *f)
{
    void *owned[] = {f->Y, f->Z, f->work, f->h, f->s, f->R, f->W, f->Xh, f->sigma};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        gx_mem_free(f->run->ctx->mem, owned[i]);
    }
}

/* Y (rows x l) = orth(Y) R; R NULL: not kept. */
static void orthonormalise(finder *f, void *Y, int64_t rows, void *R)
{
    gx_ortho o = {.run = f->run, .dtype = f->dtype, .n = rows, .seed = f->seed, .work = f->work};
    f->seed += UINT64_C(1) << 32; // other columns the next time
    for (int64_t j = 0; j < f->l && gx_ok(f->run); j += GX_SVD_PANEL) {
        int64_t cols = gx_min(GX_SVD_PANEL, f->l - j);
        gx_ortho_block(&o, Y, j, gx_at(Y, f->dtype, rows, 0, j), cols, cols, f->h, f->l, f->s,
                       GX_SVD_PANEL);
        if (R != NULL) {
            gx_number wide = f->wide;
            void *to = gx_at(R, wide, f->l, 0, j), *square = gx_at(R, wide, f->l, j, j);
            memset(to, 0, (size_t)(f->l * cols) * gx_number_bytes(wide));
            gx_convert(wide, f->h, f->l, wide, to, f->l, j, cols);
            gx_convert(wide, f->s, GX_SVD_PANEL, wide, square, f->l, cols, cols);
        }
    }
}

/* Y spans the range, approximately: orthonormal. */
static void find_range(finder *f, int64_t power)
{
    gx_ortho draw = {.run = f->run, .dtype = f->dtype, .n = f->op->n, .seed = f->args->seed};
    gx_ortho_draw(&draw, f->Z, f->l);
    gx_svd_product(f->op, f->args->A, false, f->Z, f->l, f->Y);
    orthonormalise(f, f->Y, f->op->m, NULL);
    for (int64_t step = 0; step < power && gx_ok(f->run); step++) {
        gx_svd_product(f->op, f->args->A, true, f->Y, f->l, f->Z);
        orthonormalise(f, f->Z, f->op->n, NULL);
        gx_svd_product(f->op, f->args->A, false, f->Z, f->l, f->Y);
        orthonormalise(f, f->Y, f->op->m, NULL);
    }
}

/* Q^H A = R^H P^H, and R = W Sigma X^H. */
static void solve(finder *f)
{
    int64_t l = f->l;
    gx_svd_product(f->op, f->args->A, true, f->Y, l, f->Z);
    orthonormalise(f, f->Z, f->op->n, f->R);
    gx_dense_svd(f->run, f->wide, l, f->R, f->sigma, f->W, f->Xh);
}

static void give(finder *f, gx_svd_result *r)
{
    const gx_svd_args *args = f->args;
    int64_t k = args->k;
    gx_svd_reserve(f->run, r, f->op->m, f->op->n, k, f->dtype, args->mode);
    int64_t *pick = gx_dense_take(f->run, GX_F64, k, 1, "an order");
    for (int64_t i = 0; i < k && gx_ok(f->run); i++) {
        r->sigma[i] = f->sigma[i];
        pick[i] = i;
    }
    if (gx_ok(f->run)) {
        gx_vectors_turned(f->run, f->wide, f->l, f->l, f->Xh, f->l, f->R);
        gx_svd_give_vectors(f->run, r, f->l, f->Y, f->R, f->Z, f->W, pick);
        r->driver = "randomized";
    }
    gx_mem_free(f->run->ctx->mem, pick);
}

gx_code gx_svd_randomized(gx_run *run, gx_oper *op, const gx_svd_args *args, gx_svd_result *result)
{
    finder f = {.run = run, .args = args, .op = op, .dtype = op->dtype};
    gx_svd_sizes sizes;
    if (!gx_ok(run)) {
        return run->err.code;
    }
    gx_svd_choose_sizes(args, &sizes);
    f.l = sizes.width;
    f.wide = gx_number_wide(f.dtype);
    f.seed = args->seed + (UINT64_C(1) << 32);
    reserve(&f);
    find_range(&f, sizes.power);
    if (gx_ok(run)) {
        solve(&f);
    }
    if (gx_ok(run)) {
        give(&f, result);
    }
    end(&f);
    return gx_ok(run) ? GX_OK : run->err.code;
}
