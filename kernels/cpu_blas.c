/*
** Products of the CPU backend: gemm, syrk, herk.
**
** OpenBLAS computes them, single-threaded, inside a narrow section (cpu.h).  Four things stand in
** front:
**
**   - alpha = 0 or k = 0 is a scaling of c: a and b are not touched.
**   - tiny products (TINY_FLOPS) run in a plain loop here: at 4 x 4 the call of BLAS alone costs
**     more.
**   - a real c = a^T a with a few columns as high as they are in tables is inner products
**     (cpu_pair.c) of a where it lies, where the registers hold enough of them: BLAS packs a twice,
**     which takes as long as multiplying it.
**   - large f32 products go to the processor's matrix unit where it has one (cpu_amx.c).
**   - BLAS counts in 32-bit integers: longer sides are cut at SIDE_MAX, and a matrix whose
**     leading dimension is longer yet has the plain loop do it: slow, but right.
**
** Memory: OpenBLAS packs into buffers of its own, one set for each concurrent call.
*/
#include "cpu.h"
#include "cpu_amx.h"
#include "cpu_element.h"

#include <cblas.h>
#include <string.h>

/* Multiply-adds up to which the loop beats a call of BLAS, which takes 0.3 us for the smallest. */
static const int64_t TINY = 5 * 5 * 5;

/* The longest side handed to BLAS: products of two of them are computed in 64 bits there. */
static const int64_t SIDE_MAX = (int64_t)1 << 30;

// The plain loop ----------------------------------------------------------------------------------

/* One operand as the loop walks it: element (i, l) of op(x) lies at i * row + l * col. */
typedef struct walk {
    const void *x;
    int64_t row, col;
    double sign; /* of the imaginary part */
} walk;

GX_INLINE walk walk_of(gx_trans trans, const void *x, int64_t ld)
{
    return trans == GX_NO_TRANS ? (walk){x, 1, ld, 1}
                                : (walk){x, ld, 1, trans == GX_CONJ_TRANS ? -1 : 1};
}

GX_INLINE gx_scalar walk_load(gx_number dtype, const walk *w, int64_t i, int64_t l)
{
    gx_scalar value = load(dtype, w->x, 1, i * w->row + l * w->col, 0);
    value.im *= w->sign;
    return value;
}

/*
** c = alpha op(a) op(b) + beta c on rows i0(j) .. i1(j) of each column: all, or the triangle of
** uplo.
*/
GX_INLINE gx_code product_loop(gx_number dtype, const gx_args *p, bool is_triangle)
{
    walk a = walk_of(p->transa, p->a, p->lda), b = walk_of(p->transb, p->b, p->ldb);
    int64_t k = is_zero(scalar_of(dtype, p->alpha)) ? 0 : p->k;
    bool adds = !is_zero(scalar_of(dtype, p->beta));
    for (int64_t j = 0; j < p->n; j++) {
        int64_t i0 = is_triangle && p->uplo == GX_LOWER ? j : 0;
        int64_t i1 = is_triangle && p->uplo == GX_UPPER ? j + 1 : p->m;
        for (int64_t i = i0; i < i1; i++) {
            gx_scalar sum = {0, 0};
            for (int64_t l = 0; l < k; l++) {
                gx_scalar x = walk_load(dtype, &a, i, l), y = walk_load(dtype, &b, l, j);
                bool is_complex = gx_number_is_complex(dtype);
                gx_scalar term = is_complex ? times(x, y) : (gx_scalar){x.re * y.re, 0};
                sum = add(sum, term);
            }
            sum = k > 0 ? scaled(scalar_of(dtype, p->alpha), sum) : sum;
            if (adds) {
                sum = add(sum, scaled(scalar_of(dtype, p->beta), load(dtype, p->c, p->ldc, i, j)));
            }
            store(dtype, p->c, p->ldc, i, j, sum);
        }
    }
    return GX_OK;
}

// BLAS --------------------------------------------------------------------------------------------

GX_INLINE CBLAS_TRANSPOSE blas_trans(gx_number dtype, gx_trans trans)
{
    if (trans == GX_NO_TRANS) {
        return CblasNoTrans;
    }
    return trans == GX_CONJ_TRANS && gx_number_is_complex(dtype) ? CblasConjTrans : CblasTrans;
}

/* Large products of f32 by matrix tiles, where the processor has them and the numbers are fit. */
GX_INLINE gx_code try_tiles(gx_number dtype, const gx_args *p, bool is_triangle, bool *is_done,
                            gx_err *err)
{
    bool is_unfit = true;
    if (dtype == GX_F32 && gx_cpu_amx_takes(p)) {
        GX_TRY(gx_cpu_amx_gemm(gx_cpu_amx_way(), p, is_triangle, &is_unfit, err));
    }
    *is_done = !is_unfit;
    return GX_OK;
}

/* One call of xGEMM; every side fits. */
GX_INLINE gx_code blas_gemm(gx_number dtype, const gx_args *p, gx_err *err)
{
    CBLAS_TRANSPOSE ta = blas_trans(dtype, p->transa), tb = blas_trans(dtype, p->transb);
    blasint m = (blasint)p->m, n = (blasint)p->n, k = (blasint)p->k;
    blasint lda = (blasint)p->lda, ldb = (blasint)p->ldb, ldc = (blasint)p->ldc;
    float alpha[2] = {(float)p->alpha.re, (float)p->alpha.im};
    float beta[2] = {(float)p->beta.re, (float)p->beta.im};

    bool is_done;
    GX_TRY(try_tiles(dtype, p, false, &is_done, err));
    if (is_done) {
        return GX_OK;
    }
    GX_TRY(gx_cpu_narrow_begin(err));
    switch (dtype) {
    case GX_F64:
        cblas_dgemm(CblasColMajor, ta, tb, m, n, k, p->alpha.re, p->a, lda, p->b, ldb, p->beta.re,
                    p->c, ldc);
        break;
    case GX_F32:
        cblas_sgemm(CblasColMajor, ta, tb, m, n, k, alpha[0], p->a, lda, p->b, ldb, beta[0], p->c,
                    ldc);
        break;
    case GX_C128:
        cblas_zgemm(CblasColMajor, ta, tb, m, n, k, &p->alpha, p->a, lda, p->b, ldb, &p->beta, p->c,
                    ldc);
        break;
    case GX_C64:
        cblas_cgemm(CblasColMajor, ta, tb, m, n, k, alpha, p->a, lda, p->b, ldb, beta, p->c, ldc);
        break;
    case GX_M31:
    case GX_NUMBER_COUNT:
        break;
    }
    gx_cpu_narrow_end();
    return GX_OK;
}

/* One call of xSYRK, or of xHERK for complex dtypes when is_herk. */
GX_INLINE gx_code blas_rank_k(gx_number dtype, const gx_args *p, bool is_herk, gx_err *err)
{
    CBLAS_UPLO uplo = p->uplo == GX_LOWER ? CblasLower : CblasUpper;
    CBLAS_TRANSPOSE trans = blas_trans(dtype, p->transa);
    blasint n = (blasint)p->n, k = (blasint)p->k;
    blasint lda = (blasint)p->lda, ldc = (blasint)p->ldc;
    float alpha[2] = {(float)p->alpha.re, (float)p->alpha.im};
    float beta[2] = {(float)p->beta.re, (float)p->beta.im};

    bool is_done;
    GX_TRY(try_tiles(dtype, p, true, &is_done, err));
    if (is_done) {
        return GX_OK;
    }
    GX_TRY(gx_cpu_narrow_begin(err));
    switch (dtype) {
    case GX_F64:
        cblas_dsyrk(CblasColMajor, uplo, trans, n, k, p->alpha.re, p->a, lda, p->beta.re, p->c,
                    ldc);
        break;
    case GX_F32:
        cblas_ssyrk(CblasColMajor, uplo, trans, n, k, alpha[0], p->a, lda, beta[0], p->c, ldc);
        break;
    case GX_C128:
        if (is_herk) {
            cblas_zherk(CblasColMajor, uplo, trans, n, k, p->alpha.re, p->a, lda, p->beta.re, p->c,
                        ldc);
        } else {
            cblas_zsyrk(CblasColMajor, uplo, trans, n, k, &p->alpha, p->a, lda, &p->beta, p->c,
                        ldc);
        }
        break;
    case GX_C64:
        if (is_herk) {
            cblas_cherk(CblasColMajor, uplo, trans, n, k, alpha[0], p->a, lda, beta[0], p->c, ldc);
        } else {
            cblas_csyrk(CblasColMajor, uplo, trans, n, k, alpha, p->a, lda, beta, p->c, ldc);
        }
        break;
    case GX_M31:
    case GX_NUMBER_COUNT:
        break;
    }
    gx_cpu_narrow_end();
    return GX_OK;
}

// The slots ---------------------------------------------------------------------------------------

/* Nothing but beta c to compute, or too little for BLAS, or too long for it. */
GX_INLINE bool wants_loop(gx_number dtype, const gx_args *p, int64_t ld_max)
{
    return p->k == 0 || is_zero(scalar_of(dtype, p->alpha)) || ld_max > INT32_MAX ||
           (p->m <= TINY && p->n <= TINY && p->k <= TINY && p->m * p->n * p->k <= TINY);
}

/*
** Cut at SIDE_MAX; the k pieces of one piece of c follow each other, from the second on with beta
** = 1.
*/
GX_LOOP(gemm)
{
    if (p->m <= 0 || p->n <= 0) {
        return GX_OK;
    }
    if (wants_loop(dtype, p, gx_max(p->ldc, gx_max(p->lda, p->ldb)))) {
        return product_loop(dtype, p, false);
    }
    for (int64_t j = 0; j < p->n; j += SIDE_MAX) {
        for (int64_t i = 0; i < p->m; i += SIDE_MAX) {
            for (int64_t l = 0; l < p->k; l += SIDE_MAX) {
                gx_args piece = *p;
                piece.m = gx_min(SIDE_MAX, p->m - i);
                piece.n = gx_min(SIDE_MAX, p->n - j);
                piece.k = gx_min(SIDE_MAX, p->k - l);
                piece.a = p->transa == GX_NO_TRANS ? gx_at(p->a, dtype, p->lda, i, l)
                                                   : gx_at(p->a, dtype, p->lda, l, i);
                piece.b = p->transb == GX_NO_TRANS ? gx_at(p->b, dtype, p->ldb, l, j)
                                                   : gx_at(p->b, dtype, p->ldb, j, l);
                piece.c = gx_at(p->c, dtype, p->ldc, i, j);
                if (l > 0) {
                    piece.beta = (gx_scalar){1, 0};
                }
                GX_TRY(blas_gemm(dtype, &piece, err));
            }
        }
    }
    return GX_OK;
}

// Tall and narrow ---------------------------------------------------------------------------------

/* Columns, at most, with vectors of 512 bits and of 256; rows a column, at least; a group of
** columns; bytes that go through together. */
enum {
    INNER_COLUMNS = 128,
    HALF_COLUMNS = 48,
    INNER_ROWS = 4,
    INNER_GROUP = 8,
    INNER_BYTES = 512 << 10
};

static const gx_kernel pair_of[] = GX_SLOTS(gx_cpu_pair);

GX_INLINE bool wants_inner(gx_number dtype, const gx_args *p)
{
#ifdef __x86_64__
    bool is_wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512vl");
    bool is_half = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    int64_t most = is_wide ? INNER_COLUMNS : is_half ? HALF_COLUMNS : 0;
    return !gx_number_is_complex(dtype) && p->transa != GX_NO_TRANS && p->alpha.re == 1 &&
           p->n >= INNER_GROUP && p->n <= most && p->k >= INNER_ROWS * p->n;
#else
    return false;
#endif
}

/* c += x^T y: rows [r, r + rows) of a's columns from i and j on. */
GX_INLINE gx_code inner(gx_number dtype, const gx_args *p, int64_t r, int64_t rows, int64_t i,
                        int64_t m, int64_t j, int64_t n, void *c, int64_t ldc, gx_err *err)
{
    gx_args args = {.m = rows, .n = m, .k = n, .lda = p->lda, .ldb2 = p->lda, .c2 = c, .ldc2 = ldc};
    args.a = gx_at(p->a, dtype, p->lda, r, i);
    args.b2 = gx_at(p->a, dtype, p->lda, r, j);
    return pair_of[dtype](NULL, NULL, &args, err);
}

/* c += a^T a, or beta c first, the triangle alone. */
GX_INLINE gx_code inner_products(gx_number dtype, const gx_args *p, gx_err *err)
{
    double square[INNER_GROUP * INNER_GROUP]; // of floats, too
    bool is_lower = p->uplo == GX_LOWER, d = gx_number_is_double(dtype);
    int64_t step = INNER_BYTES / (int64_t)gx_number_bytes(dtype) / p->n;
    gx_args scale = *p;
    scale.k = 0;
    GX_TRY(product_loop(dtype, &scale, true));
    for (int64_t r = 0; r < p->k; r += step) {
        int64_t rows = gx_min(step, p->k - r);
        for (int64_t i = 0; i < p->n; i += INNER_GROUP) {
            int64_t w = gx_min(INNER_GROUP, p->n - i);
            memset(square, 0, sizeof square);
            GX_TRY(inner(dtype, p, r, rows, i, w, i, w, square, INNER_GROUP, err));
            for (int64_t e = 0; e < INNER_GROUP * w; e++) {
                int64_t row = e % INNER_GROUP, col = e / INNER_GROUP, at;
                at = (i + col) * p->ldc + i + row;
                if (row < w && (is_lower ? row >= col : row <= col)) {
                    put(d, p->c, at, get(d, p->c, at) + get(d, square, e));
                }
            }
            void *rest =
                is_lower ? gx_at(p->c, dtype, p->ldc, i, 0) : gx_at(p->c, dtype, p->ldc, 0, i);
            if (i > 0) {
                GX_TRY(is_lower ? inner(dtype, p, r, rows, i, w, 0, i, rest, p->ldc, err)
                                : inner(dtype, p, r, rows, 0, i, i, w, rest, p->ldc, err));
            }
        }
    }
    return GX_OK;
}

/* c n x n with n > SIDE_MAX is beyond any memory, so only k is cut. */
GX_INLINE gx_code rank_k(gx_number dtype, const gx_args *args, bool is_herk, gx_err *err)
{
    gx_args p = *args;
    p.m = p.n;
    p.b = p.a;
    p.ldb = p.lda;
    gx_trans across = is_herk ? GX_CONJ_TRANS : GX_TRANS;
    p.transb = p.transa == GX_NO_TRANS ? across : GX_NO_TRANS;
    if (p.n <= 0) {
        return GX_OK;
    }
    if (wants_loop(dtype, &p, gx_max(p.ldc, p.lda))) {
        return product_loop(dtype, &p, true);
    }
    if (wants_inner(dtype, args)) {
        return inner_products(dtype, &p, err);
    }
    for (int64_t l = 0; l < args->k; l += SIDE_MAX) {
        p.k = gx_min(SIDE_MAX, args->k - l);
        p.a = p.transa == GX_NO_TRANS ? gx_at(args->a, dtype, p.lda, 0, l)
                                      : gx_at(args->a, dtype, p.lda, l, 0);
        p.b = p.a;
        GX_TRY(blas_rank_k(dtype, &p, is_herk, err));
        p.beta = (gx_scalar){1, 0};
    }
    return GX_OK;
}

GX_INLINE gx_code syrk(gx_number dtype, const gx_args *p, gx_err *err)
{
    if (gx_number_is_complex(dtype) && p->transa == GX_CONJ_TRANS) {
        return gx_fail(err, GX_UNSUPPORTED, "syrk has no conjugate transpose: herk has");
    }
    return rank_k(dtype, p, false, err);
}

GX_INLINE gx_code herk(gx_number dtype, const gx_args *p, gx_err *err)
{
    if (gx_number_is_complex(dtype) && p->transa == GX_TRANS) {
        return gx_fail(err, GX_UNSUPPORTED, "herk has no plain transpose: syrk has");
    }
    gx_args real = *p;
    real.alpha.im = real.beta.im = 0;
    GX_TRY(rank_k(dtype, &real, gx_number_is_complex(dtype), err));
    for (int64_t i = 0; gx_number_is_complex(dtype) && i < p->n; i++) {
        gx_scalar diagonal = {load(dtype, p->c, p->ldc, i, i).re, 0};
        store(dtype, p->c, p->ldc, i, i, diagonal);
    }
    return GX_OK;
}

GX_SLOTS_DEFINE(, gx_cpu_gemm, gemm)
GX_SLOTS_DEFINE(, gx_cpu_syrk, syrk)
GX_SLOTS_DEFINE(, gx_cpu_herk, herk)
