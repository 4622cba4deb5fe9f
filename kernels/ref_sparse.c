/*
** The reference backend: products with a sparse panel.  See ref.c for the manner.
**
** Entry (i, j) of the panel with value v adds alpha v times column i of b to column j of c, or, for
** the transposes, column j of b to column i of c; of rows, where transb says that both are turned.
*/
#include "ref.h"

GX_INLINE void add_entry(gx_number dtype, const gx_args *p, gx_scalar v, int64_t from, int64_t to)
{
    bool is_turned = p->transb == GX_TRANS;
    for (int64_t l = 0; l < p->m; l++) {
        int64_t i = is_turned ? to : l, j = is_turned ? l : to;
        gx_scalar x = is_turned ? load(dtype, p->b, p->ldb, from, l)
                                : load(dtype, p->b, p->ldb, l, from);
        store(dtype, p->c, p->ldc, i, j, add(load(dtype, p->c, p->ldc, i, j), multiply(v, x)));
    }
}

GX_INLINE gx_code spmm(gx_number dtype, const gx_args *p, gx_err *err)
{
    (void)err;
    const gx_csr *s = p->sparse;
    gx_scalar alpha = scalar_of(dtype, p->alpha);
    for (int64_t j = 0; p->is_fresh && j < p->n; j++) {
        for (int64_t l = 0; l < p->m; l++) {
            bool is_turned = p->transb == GX_TRANS;
            store(dtype, p->c, p->ldc, is_turned ? j : l, is_turned ? l : j, (gx_scalar){0, 0});
        }
    }
    for (int64_t i = 0; i < s->rows; i++) {
        for (int64_t e = s->start[i]; e < s->start[i + 1]; e++) {
            int64_t j = gx_csr_column(s, e);
            gx_scalar v = load(dtype, s->value, 1, 0, e);
            v.im = p->transa == GX_CONJ_TRANS ? -v.im : v.im;
            v = scale(alpha, v);
            bool is_turned = p->transa != GX_NO_TRANS;
            add_entry(dtype, p, v, is_turned ? j : i, is_turned ? i : j);
        }
    }
    return GX_OK;
}
GX_SLOTS_DEFINE(, gx_ref_spmm, spmm)
