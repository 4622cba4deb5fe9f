/*
** The CPU backend: reflectors, in blocks of nb = 32 columns (LAPACK's own width).
**
**   GEQRF    for each block of columns: geqrt3 (recursive, gives V, R and T), then larfb to the
**            columns behind it
**   LARFT    T from V^H V by one HERK, then column by column (see triangle_of_block)
**   LARFB    LAPACK's larfb
**   ORMQR    for each block: T as LARFT, then larfb.  (LAPACK's ormqr would write into V for a
**            moment where k is small, and V may be read by others.)
**   ORGQR    LAPACK's orgqr
**   TPQRT    LAPACK's tpqrt; its T is dropped but for the diagonal, which is tau
**   TPMQRT   T of every block as LARFT, then LAPACK's tpmqrt
**
** T is never part of a factorisation that gx keeps: it costs k / (2 n) of applying it to n columns
** to make it again, and V and tau are enough.
**
** Memory: `work` only, see gx_cpu_workspace().  tau is read and written as it is, packed.
*/
#include "cpu_lapack.h"

#include <string.h>

enum { NB = GX_LAPACK_BLOCK };

static const gx_kernel herk[] = GX_SLOTS(gx_cpu_herk);

// T -----------------------------------------------------------------------------------------------

/* k reflectors of `rows` components below the unit triangle (or the unit matrix, is_pentagon). */
typedef struct reflectors {
    int64_t k, rows;
    const void *v; /* the triangle, or for a pentagon the rows below the unit matrix */
    int64_t ldv;
    const char *tau;
    bool is_pentagon;
} reflectors;

/* The part of V^H V above the diagonal that the unit triangle at the top of V contributes. */
GX_INLINE void product_of_triangle(gx_number dtype, const reflectors *r, void *t, int64_t ldt)
{
    for (int64_t j = 0; j < r->k; j++) {
        for (int64_t i = 0; i <= j; i++) {
            gx_scalar sum = {0, 0};
            if (!r->is_pentagon && i < j) {
                sum = conjugate(load(dtype, r->v, r->ldv, j, i));
                for (int64_t l = j + 1; l < r->k; l++) {
                    gx_scalar x = load(dtype, r->v, r->ldv, l, i);
                    sum = add(sum, times(conjugate(x), load(dtype, r->v, r->ldv, l, j)));
                }
            }
            store(dtype, t, ldt, i, j, sum);
        }
    }
}

/* Column j of t: x = T x for the j x j T before it, times -tau_j; tau_j on the diagonal. */
GX_INLINE void finish_column(gx_number dtype, void *t, int64_t ldt, int64_t j, gx_scalar tau)
{
    for (int64_t l = 0; l < j; l++) {
        gx_scalar x = load(dtype, t, ldt, l, j);
        for (int64_t i = 0; i < l; i++) {
            gx_scalar step = times(load(dtype, t, ldt, i, l), x);
            store(dtype, t, ldt, i, j, add(load(dtype, t, ldt, i, j), step));
        }
        store(dtype, t, ldt, l, j, times(load(dtype, t, ldt, l, l), x));
    }
    for (int64_t i = 0; i < j; i++) {
        gx_scalar x = times(tau, load(dtype, t, ldt, i, j));
        store(dtype, t, ldt, i, j, (gx_scalar){-x.re, -x.im});
    }
    store(dtype, t, ldt, j, j, tau);
}

/*
** The upper triangle of t = T.  First V^H V, most of it by HERK; then T(:, j) = -tau_j T V^H v_j.
** Takes the gate itself.
*/
GX_INLINE gx_code triangle_of_block(gx_number dtype, const reflectors *r, void *t, int64_t ldt,
                                    gx_err *err)
{
    product_of_triangle(dtype, r, t, ldt);
    if (r->rows > 0) {
        gx_args square = {.transa = GX_CONJ_TRANS,
                          .uplo = GX_UPPER,
                          .m = r->k,
                          .n = r->k,
                          .k = r->rows,
                          .alpha = {1, 0},
                          .beta = {1, 0},
                          .a = gx_at(r->v, dtype, r->ldv, r->is_pentagon ? 0 : r->k, 0),
                          .lda = r->ldv,
                          .c = t,
                          .ldc = ldt};
        GX_TRY(herk[dtype](NULL, NULL, &square, err));
    }
    for (int64_t j = 0; j < r->k; j++) {
        finish_column(dtype, t, ldt, j, load(dtype, r->tau, 1, 0, j));
    }
    return GX_OK;
}

GX_INLINE gx_code larft(gx_number dtype, const gx_args *p, gx_err *err)
{
    if (!fits_lapack(p)) {
        return by_reference(GX_LARFT, dtype, p, err);
    }
    reflectors r = {.k = p->k,
                    .rows = p->is_pentagon ? p->m : p->m - p->k,
                    .v = p->a,
                    .ldv = p->lda,
                    .tau = p->tau,
                    .is_pentagon = p->is_pentagon};
    GX_TRY(triangle_of_block(dtype, &r, p->c, p->ldc, err));
    for (int64_t j = 0; j + 1 < p->k; j++) {
        size_t below = (size_t)(p->k - 1 - j) * gx_number_bytes(dtype);
        memset(gx_at(p->c, dtype, p->ldc, j + 1, j), 0, below);
    }
    return GX_OK;
}

// Applying ----------------------------------------------------------------------------------------

/* c = op(I - V T V^H) c or c op(...), m x n and k reflectors; work: (n or m) x k. */
GX_INLINE void apply_block(gx_number dtype, gx_side side, gx_trans trans, int64_t m, int64_t n,
                           int64_t k, const void *v, int64_t ldv, const void *t, int64_t ldt,
                           void *c, int64_t ldc, void *work)
{
    if (m <= 0 || n <= 0 || k <= 0) {
        return;
    }
    (void)GX_LAPACK(dtype, larfb_work, LAPACK_COL_MAJOR, side == GX_LEFT ? 'L' : 'R',
                    trans_of(dtype, trans), 'F', 'C', (lapack_int)m, (lapack_int)n, (lapack_int)k,
                    v, ld_of(ldv), t, ld_of(ldt), c, ld_of(ldc), work,
                    (lapack_int)(side == GX_LEFT ? n : m));
}

/* Complex reflectors have no plain transpose; the reference says so in its words. */
GX_INLINE bool is_for_reference(gx_number dtype, const gx_args *p)
{
    return !fits_lapack(p) || (gx_number_is_complex(dtype) && p->transa == GX_TRANS);
}

GX_INLINE gx_code larfb(gx_number dtype, const gx_args *p, gx_err *err)
{
    if (is_for_reference(dtype, p)) {
        return by_reference(GX_LARFB, dtype, p, err);
    }
    GX_TRY(gx_cpu_narrow_begin(err));
    apply_block(dtype, p->side, p->transa, p->m, p->n, p->k, p->a, p->lda, p->b, p->ldb, p->c,
                p->ldc, p->work);
    gx_cpu_narrow_end();
    return GX_OK;
}

GX_INLINE gx_code ormqr(gx_number dtype, const gx_args *p, gx_err *err)
{
    if (is_for_reference(dtype, p)) {
        return by_reference(GX_ORMQR, dtype, p, err);
    }
    bool is_left = p->side == GX_LEFT;
    bool is_ascending = (p->transa == GX_NO_TRANS) != is_left;
    int64_t length = is_left ? p->m : p->n, blocks = gx_ceil_div(gx_max(p->k, 0), NB);
    char *t = p->work, *rest = t + NB * NB * gx_number_bytes(dtype);
    for (int64_t q = 0; q < blocks; q++) {
        int64_t i = (is_ascending ? q : blocks - 1 - q) * NB;
        reflectors r = {.k = gx_min(NB, p->k - i),
                        .v = gx_at(p->a, dtype, p->lda, i, i),
                        .ldv = p->lda,
                        .tau = (const char *)p->tau + (size_t)i * gx_number_bytes(dtype)};
        r.rows = length - i - r.k;
        GX_TRY(triangle_of_block(dtype, &r, t, NB, err));
        GX_TRY(gx_cpu_narrow_begin(err));
        apply_block(dtype, p->side, p->transa, is_left ? p->m - i : p->m, is_left ? p->n : p->n - i,
                    r.k, r.v, r.ldv, t, NB,
                    gx_at(p->c, dtype, p->ldc, is_left ? i : 0, is_left ? 0 : i), p->ldc, rest);
        gx_cpu_narrow_end();
    }
    return GX_OK;
}

GX_INLINE gx_code tpmqrt(gx_number dtype, const gx_args *p, gx_err *err)
{
    if (is_for_reference(dtype, p)) {
        return by_reference(GX_TPMQRT, dtype, p, err);
    }
    if (p->m <= 0 || p->n <= 0 || p->k <= 0) {
        return GX_OK; // with no V2 all tau are 0
    }
    bool is_left = p->side == GX_LEFT;
    int64_t nb = gx_min(NB, p->k);
    char *rest = (char *)p->work + (size_t)(nb * p->k) * gx_number_bytes(dtype);
    for (int64_t i = 0; i < p->k; i += nb) {
        reflectors r = {.k = gx_min(nb, p->k - i),
                        .rows = is_left ? p->m : p->n,
                        .v = gx_at(p->a, dtype, p->lda, 0, i),
                        .ldv = p->lda,
                        .tau = (const char *)p->tau + (size_t)i * gx_number_bytes(dtype),
                        .is_pentagon = true};
        GX_TRY(triangle_of_block(dtype, &r, gx_at(p->work, dtype, nb, 0, i), nb, err));
    }
    GX_TRY(gx_cpu_narrow_begin(err));
    (void)GX_LAPACK(dtype, tpmqrt_work, LAPACK_COL_MAJOR, is_left ? 'L' : 'R',
                    trans_of(dtype, p->transa), (lapack_int)p->m, (lapack_int)p->n,
                    (lapack_int)p->k, 0, (lapack_int)nb, p->a, ld_of(p->lda), p->work,
                    (lapack_int)nb, p->c, ld_of(p->ldc), p->c2, ld_of(p->ldc2), (void *)rest);
    gx_cpu_narrow_end();
    return GX_OK;
}

// Factorising -------------------------------------------------------------------------------------

/* tau = the diagonal of t. */
GX_INLINE void take_tau(gx_number dtype, const void *t, int64_t ldt, void *tau, int64_t first,
                        int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        store(dtype, tau, 1, 0, first + i, load(dtype, t, ldt, i, i));
    }
}

GX_INLINE gx_code geqrf(gx_number dtype, const gx_args *p, gx_err *err)
{
    if (!fits_lapack(p)) {
        return by_reference(GX_GEQRF, dtype, p, err);
    }
    int64_t count = gx_min(p->m, p->n);
    char *t = p->work, *rest = t + NB * NB * gx_number_bytes(dtype);
    GX_TRY(gx_cpu_narrow_begin(err));
    for (int64_t j = 0; j < count; j += NB) {
        int64_t k = gx_min(NB, count - j), behind = p->n - j - k;
        void *v = gx_at(p->c, dtype, p->ldc, j, j);
        (void)GX_LAPACK(dtype, geqrt3_work, LAPACK_COL_MAJOR, (lapack_int)(p->m - j), (lapack_int)k,
                        v, ld_of(p->ldc), (void *)t, NB);
        take_tau(dtype, t, NB, p->tau, j, k);
        apply_block(dtype, GX_LEFT, GX_CONJ_TRANS, p->m - j, behind, k, v, p->ldc, t, NB,
                    gx_at(p->c, dtype, p->ldc, j, j + k), p->ldc, rest);
    }
    gx_cpu_narrow_end();
    return GX_OK;
}

GX_INLINE gx_code orgqr(gx_number dtype, const gx_args *p, gx_err *err)
{
    if (p->m <= 0 || p->n <= 0) {
        return GX_OK;
    }
    if (!fits_lapack(p)) {
        return by_reference(GX_ORGQR, dtype, p, err);
    }
    GX_TRY(gx_cpu_narrow_begin(err));
    lapack_int m = (lapack_int)p->m, n = (lapack_int)p->n, k = (lapack_int)p->k, ld = ld_of(p->ldc);
    lapack_int lwork = (lapack_int)(p->n * NB);
    (void)GX_LAPACK2(dtype, orgqr_work,
                     (LAPACK_COL_MAJOR, m, n, k, p->c, ld, p->tau, p->work, lwork), ungqr_work,
                     (LAPACK_COL_MAJOR, m, n, k, p->c, ld, p->tau, p->work, lwork));
    gx_cpu_narrow_end();
    return GX_OK;
}

GX_INLINE gx_code tpqrt(gx_number dtype, const gx_args *p, gx_err *err)
{
    if (!fits_lapack(p)) {
        return by_reference(GX_TPQRT, dtype, p, err);
    }
    if (p->m <= 0 || p->n <= 0) {
        memset(p->tau, 0, (size_t)gx_max(p->n, 0) * gx_number_bytes(dtype));
        return GX_OK;
    }
    int64_t nb = gx_min(NB, p->n);
    char *rest = (char *)p->work + (size_t)(nb * p->n) * gx_number_bytes(dtype);
    GX_TRY(gx_cpu_narrow_begin(err));
    (void)GX_LAPACK(dtype, tpqrt_work, LAPACK_COL_MAJOR, (lapack_int)p->m, (lapack_int)p->n, 0,
                    (lapack_int)nb, p->c, ld_of(p->ldc), p->c2, ld_of(p->ldc2), p->work,
                    (lapack_int)nb, (void *)rest);
    gx_cpu_narrow_end();
    for (int64_t j = 0; j < p->n; j += nb) {
        take_tau(dtype, gx_at(p->work, dtype, nb, 0, j), nb, p->tau, j, gx_min(nb, p->n - j));
    }
    return GX_OK;
}

// The slots ---------------------------------------------------------------------------------------

size_t gx_cpu_workspace(gx_dev *dev, gx_kernel_id kernel, gx_number dtype, const gx_args *p)
{
    if (kernel == GX_FUSED) {
        return gx_cpu_fused_bytes(p);
    }
    if (kernel == GX_GEMM) {
        return dtype == GX_M31 ? gx_cpu_field_gemm_bytes(p) : 0;
    }
    if (!fits_lapack(p)) {
        return gx_backend_ref.workspace(dev, kernel, dtype, p);
    }
    int64_t lines = gx_max(p->side == GX_LEFT ? p->n : p->m, 0), elements = 0;
    switch (kernel) {
    case GX_MERIT:
        return (size_t)gx_max(p->k, 0) * sizeof(double);
    case GX_NEAREST:
        return gx_cpu_nearest_bytes(dtype, p);
    case GX_MUTUAL:
        return gx_cpu_mutual_bytes(dtype, p);
    case GX_GEQRF:
        elements = NB * NB + NB * gx_max(p->n, 0);
        break;
    case GX_LARFB:
        elements = lines * gx_max(p->k, 0);
        break;
    case GX_ORMQR:
        elements = NB * NB + NB * lines;
        break;
    case GX_ORGQR:
        elements = NB * gx_max(p->n, 0);
        break;
    case GX_TPQRT:
        elements = 2 * NB * gx_max(p->n, 0);
        break;
    case GX_TPMQRT:
        elements = NB * (gx_max(p->k, 0) + lines);
        break;
    default:
        return gx_cpu_spectrum_bytes(kernel, dtype, p);
    }
    return (size_t)elements * gx_number_bytes(dtype);
}

GX_SLOTS_DEFINE(, gx_cpu_geqrf, geqrf)
GX_SLOTS_DEFINE(, gx_cpu_larft, larft)
GX_SLOTS_DEFINE(, gx_cpu_larfb, larfb)
GX_SLOTS_DEFINE(, gx_cpu_ormqr, ormqr)
GX_SLOTS_DEFINE(, gx_cpu_orgqr, orgqr)
GX_SLOTS_DEFINE(, gx_cpu_tpqrt, tpqrt)
GX_SLOTS_DEFINE(, gx_cpu_tpmqrt, tpmqrt)
