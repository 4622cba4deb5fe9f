/*
** Block Krylov-Schur: the basis, how it begins, grows and is cut back.  See krylov_eig.c.
**
** One step is one product with the operator and Gram-Schmidt against everything.  A restart rotates
** the basis onto the invariant subspace of the wanted values, in place, panel by panel.
*/
#include "../alg/dense.h"
#include "krylov_eig_int.h"

#include <assert.h>
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
