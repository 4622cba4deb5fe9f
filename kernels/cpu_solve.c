/*
** The CPU backend: triangles, Cholesky, LU.
**
** OpenBLAS computes TRSM, TRMM, POTRF and GETRF, single-threaded, inside a narrow section (cpu.h).
** What stands around it:
**   - TRSM: only small triangles are OpenBLAS's; larger ones are halved, and most of the work is
**     gemm's.  OpenBLAS multiplies by reciprocals, and that of a subnormal number is infinite: such
**     a triangle is the reference's, which divides.
**   - POTRF: OpenBLAS takes the root of a NaN and goes on, so a NaN is looked for on the diagonal
**     of the factor afterwards: whatever spoilt the minor arrives there.
**   - GETRF: LAPACK's pivots count from 1 in 32 bits; they are widened in place, from the last one.
**   - alpha = 0 is a fill: neither a nor c is read.
** TRIANGLE and LASWP are loops down the columns; LASWP does all exchanges of one column before the
** next, while it is in cache.
*/
#include "../core/base/triangle.h"
#include "cpu_lapack.h"

#include <math.h>
#include <string.h>

static const gx_kernel fill[] = GX_SLOTS(gx_cpu_fill);
static const gx_kernel gemm[] = GX_SLOTS(gx_cpu_gemm);

/*
** The longest side of a triangle that goes to OpenBLAS's trsm, whose rate is a quarter of gemm's.
** All solves of an LU with n = 3000 on one core: side 256 0.137 s, 128 0.089, 64 0.077, 32 0.045.
*/
enum { SOLVE_SIDE = 32 };

// Triangles ---------------------------------------------------------------------------------------

GX_LOOP(triangle)
{
    size_t es = gx_number_bytes(dtype);
    for (int64_t j = 0; j < p->n; j++) {
        const char *a = gx_at(p->a, dtype, p->lda, 0, j);
        char *c = gx_at(p->c, dtype, p->ldc, 0, j);
        int64_t first = p->uplo == GX_LOWER ? gx_min(j, p->m) : 0;
        int64_t last = p->uplo == GX_LOWER ? p->m : gx_min(j + 1, p->m);
        if (a != c && last > first) {
            memmove(c + (size_t)first * es, a + (size_t)first * es, (size_t)(last - first) * es);
        }
        memset(c, 0, (size_t)first * es);
        memset(c + (size_t)last * es, 0, (size_t)(p->m - last) * es);
        if (p->diag == GX_UNIT && j < p->m) {
            gx_number_put(dtype, c, j, GX_ONE);
        }
    }
    return GX_OK;
}

/* cblas_?trsm or cblas_?trmm. */
#define TRIANGULAR(name)                                                                           \
    do {                                                                                           \
        if (dtype == GX_F64) {                                                                     \
            cblas_d##name(CblasColMajor, side, uplo, trans, diag, m, n, p->alpha.re, p->a, lda,    \
                          p->c, ldc);                                                              \
        } else if (dtype == GX_F32) {                                                              \
            cblas_s##name(CblasColMajor, side, uplo, trans, diag, m, n, alpha[0], p->a, lda, p->c, \
                          ldc);                                                                    \
        } else if (dtype == GX_C128) {                                                             \
            cblas_z##name(CblasColMajor, side, uplo, trans, diag, m, n, &p->alpha, p->a, lda,      \
                          p->c, ldc);                                                              \
        } else {                                                                                   \
            cblas_c##name(CblasColMajor, side, uplo, trans, diag, m, n, alpha, p->a, lda, p->c,    \
                          ldc);                                                                    \
        }                                                                                          \
    } while (0)

GX_INLINE gx_code blas_triangular(gx_number dtype, const gx_args *p, bool solves, gx_err *err)
{
    CBLAS_SIDE side = p->side == GX_LEFT ? CblasLeft : CblasRight;
    CBLAS_UPLO uplo = p->uplo == GX_LOWER ? CblasLower : CblasUpper;
    CBLAS_DIAG diag = p->diag == GX_UNIT ? CblasUnit : CblasNonUnit;
    bool is_complex = gx_number_is_complex(dtype);
    CBLAS_TRANSPOSE trans = p->transa == GX_NO_TRANS                   ? CblasNoTrans
                            : p->transa == GX_CONJ_TRANS && is_complex ? CblasConjTrans
                                                                       : CblasTrans;
    blasint m = (blasint)p->m, n = (blasint)p->n;
    blasint lda = ld_of(p->lda), ldc = ld_of(p->ldc);
    float alpha[2] = {(float)p->alpha.re, (float)p->alpha.im};

    GX_TRY(gx_cpu_narrow_begin(err));
    if (solves) {
        TRIANGULAR(trsm);
    } else {
        TRIANGULAR(trmm);
    }
    gx_cpu_narrow_end();
    return GX_OK;
}

/* Zero and done, or for the reference: what blas_triangular() must not see. */
GX_INLINE bool is_special(gx_number dtype, gx_kernel_id kernel, const gx_args *p, gx_code *code,
                          gx_err *err)
{
    *code = GX_OK;
    if (p->m <= 0 || p->n <= 0) {
        return true;
    }
    if (p->alpha.re == 0 && (!gx_number_is_complex(dtype) || p->alpha.im == 0)) {
        gx_args zero = *p;
        zero.alpha = (gx_scalar){0, 0};
        *code = fill[dtype](NULL, NULL, &zero, err);
        return true;
    }
    if (!fits_lapack(p)) {
        *code = by_reference(kernel, dtype, p, err);
        return true;
    }
    return false;
}

/* A number on the diagonal whose reciprocal, by which OpenBLAS multiplies, may be infinite. */
GX_INLINE bool has_subnormal(gx_number dtype, const gx_args *p, int64_t count)
{
    double least = gx_number_least(dtype);
    bool is_double = gx_number_is_double(dtype), is_found = false;
    for (int64_t i = 0; i < count && p->diag != GX_UNIT; i++) {
        const void *x = gx_at(p->a, dtype, p->lda, i, i);
        double size = fabs(get(is_double, x, 0));
        size = gx_number_is_complex(dtype) ? fmax(size, fabs(get(is_double, x, 1))) : size;
        is_found = is_found || (size < least && size > 0);
    }
    return is_found;
}

/* TRSM by halves down to SOLVE_SIDE; alpha is not 0. */
static gx_code solve(gx_number dtype, const gx_args *p, gx_err *err)
{
    int64_t side = p->side == GX_LEFT ? p->m : p->n;
    if (side > SOLVE_SIDE) {
        gx_halves h = gx_halve(GX_TRSM, dtype, p, SOLVE_SIDE);
        GX_TRY(solve(dtype, &h.p, err));
        GX_TRY(gemm[dtype](NULL, NULL, &h.off, err));
        return solve(dtype, &h.q, err);
    }
    if (has_subnormal(dtype, p, side)) {
        return by_reference(GX_TRSM, dtype, p, err);
    }
    GX_TRY(blas_triangular(dtype, p, true, err));
    return GX_OK;
}

GX_INLINE gx_code trsm(gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_code code;
    return is_special(dtype, GX_TRSM, p, &code, err) ? code : solve(dtype, p, err);
}

GX_INLINE gx_code trmm(gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_code code;
    if (!is_special(dtype, GX_TRMM, p, &code, err)) {
        GX_TRY(blas_triangular(dtype, p, false, err));
    }
    return code;
}

// Cholesky ----------------------------------------------------------------------------------------

/* Index of the first NaN on the diagonal of c, up to count; count when there is none. */
GX_INLINE int64_t first_nan(gx_number dtype, const gx_args *p, int64_t count)
{
    for (int64_t j = 0; j < count; j++) {
        const void *x = gx_at(p->c, dtype, p->ldc, j, j);
        if (isnan(get(gx_number_is_double(dtype), x, 0))) {
            return j;
        }
    }
    return count;
}

GX_INLINE gx_code potrf(gx_number dtype, const gx_args *p, gx_err *err)
{
    *p->info = 0;
    if (p->n <= 0) {
        return GX_OK;
    }
    if (!fits_lapack(p)) {
        return by_reference(GX_POTRF, dtype, p, err);
    }
    GX_TRY(gx_cpu_narrow_begin(err));
    lapack_int info =
        GX_LAPACK(dtype, potrf_work, LAPACK_COL_MAJOR, p->uplo == GX_LOWER ? 'L' : 'U',
                  (lapack_int)p->n, p->c, ld_of(p->ldc));
    gx_cpu_narrow_end();
    int64_t good = info > 0 ? info - 1 : p->n;
    int64_t nan_at = first_nan(dtype, p, good);
    *p->info = nan_at < good ? nan_at + 1 : info;
    return GX_OK;
}

// LU ----------------------------------------------------------------------------------------------

/*
** A pivot that is NaN makes all that comes after it NaN, but not through every one of OpenBLAS's
** kernels: of f32 some unknowns came out as numbers.  The last column is made to say so.
*/
GX_INLINE void spread_nan(gx_number dtype, const gx_args *p, int64_t count)
{
    bool d = gx_number_is_double(dtype), is_complex = gx_number_is_complex(dtype), is_nan = false;
    int64_t parts = is_complex ? 2 : 1;
    for (int64_t j = 0; j < count; j++) {
        const void *pivot = gx_at(p->c, dtype, p->ldc, j, j);
        is_nan |= isnan(get(d, pivot, 0)) || isnan(get(d, pivot, parts - 1));
    }
    void *last = gx_at(p->c, dtype, p->ldc, 0, count - 1);
    for (int64_t k = 0; k < p->m * parts && is_nan; k++) {
        put(d, last, k, (double)NAN);
    }
}

/* The largest number below the diagonal of column j, where that has a 0; or NULL. */
GX_INLINE const void *left_below(gx_number dtype, const gx_args *p, int64_t j)
{
    const void *best = NULL;
    double most = 0;
    bool d = gx_number_is_double(dtype);
    int64_t last_part = gx_number_is_complex(dtype) ? 1 : 0;
    const void *pivot = gx_at(p->c, dtype, p->ldc, j, j);
    bool is_zero = get(d, pivot, 0) == 0 && get(d, pivot, last_part) == 0;
    for (int64_t i = j + 1; i < p->m && is_zero; i++) {
        const void *x = gx_at(p->c, dtype, p->ldc, i, j);
        double size = fmax(fabs(get(d, x, 0)), fabs(get(d, x, last_part)));
        best = size > most ? x : best;
        most = fmax(most, size);
    }
    return best;
}

/*
** Newer OpenBLAS (0.3.29) leaves a column as it is, its rows too, where the pivot is subnormal.  A
** zero may then stand on the diagonal.  Put the pivot's size there, so that those who ask see a
** subnormal number and not a singular matrix.
*/
GX_INLINE void show_left(gx_number dtype, const gx_args *p, int64_t count)
{
    for (int64_t j = 0; j < count; j++) {
        const void *best = left_below(dtype, p, j);
        if (best != NULL) {
            memcpy(gx_at(p->c, dtype, p->ldc, j, j), best, gx_number_bytes(dtype));
        }
    }
}

GX_INLINE gx_code getrf(gx_number dtype, const gx_args *p, gx_err *err)
{
    *p->info = 0;
    int64_t count = gx_min(p->m, p->n);
    if (count <= 0) {
        return GX_OK;
    }
    if (!fits_lapack(p)) {
        return by_reference(GX_GETRF, dtype, p, err);
    }
    GX_TRY(gx_cpu_narrow_begin(err));
    lapack_int info = GX_LAPACK(dtype, getrf_work, LAPACK_COL_MAJOR, (lapack_int)p->m,
                                (lapack_int)p->n, p->c, ld_of(p->ldc), (void *)p->pivots);
    gx_cpu_narrow_end();
    *p->info = info;
    show_left(dtype, p, count);
    spread_nan(dtype, p, count);
    for (int64_t j = count - 1; j >= 0; j--) {
        lapack_int from_1;
        memcpy(&from_1, (const char *)p->pivots + (size_t)j * sizeof from_1, sizeof from_1);
        p->pivots[j] = (int64_t)from_1 - 1;
    }
    return GX_OK;
}

/* The exchanges of one column; size: a constant of 4, 8 or 16 bytes. */
GX_INLINE void exchange(char *column, size_t size, const gx_args *p)
{
    char x[16];
    for (int64_t q = p->pivot_first; q < p->pivot_last; q++) {
        int64_t j = p->is_backward ? p->pivot_first + p->pivot_last - 1 - q : q;
        char *one = column + (size_t)j * size, *other = column + (size_t)p->pivots[j] * size;
        memcpy(x, one, size);
        memmove(one, other, size); // the same when the row stays
        memcpy(other, x, size);
    }
}

GX_LOOP(laswp)
{
    for (int64_t j = 0; j < p->n; j++) {
        exchange(gx_at(p->c, dtype, p->ldc, p->row_offset, j), gx_number_bytes(dtype), p);
    }
    return GX_OK;
}

GX_SLOTS_DEFINE(, gx_cpu_triangle, triangle)
GX_SLOTS_DEFINE(, gx_cpu_trsm, trsm)
GX_SLOTS_DEFINE(, gx_cpu_trmm, trmm)
GX_SLOTS_DEFINE(, gx_cpu_potrf, potrf)
GX_SLOTS_DEFINE(, gx_cpu_getrf, getrf)
GX_SLOTS_DEFINE(, gx_cpu_laswp, laswp)
