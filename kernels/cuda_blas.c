/*
** The CUDA backend: products and triangles by cuBLAS, in its 64-bit interface.
**
** BLAS says that alpha = 0 or k = 0 reads neither operand and beta = 0 does not read the result;
** cuBLAS does not promise it, so such calls go to a kernel of ours (gx_region).  gx's words for
** transposes, triangles, sides and diagonals are cuBLAS's own numbers.
**
** Factors of f32 whose numbers are some of f16 or bf16, as those of stored matrices of these types,
** of bytes and of bool are, go through tensor cores: an f32 number holds the product of two, and
** sums are of f32 there, too.
**
** Products of a large real matrix with a few columns, and syrk with a long side, for which cuBLAS
** leaves many of the processors without work, go to cuda_narrow.c.
**
** TRMM is cuBLAS's out-of-place product with the same matrix on both sides, which is its documented
** way to work in place.
*/
#include "cuda.h"

static int op_of(gx_number dtype, gx_trans trans)
{
    return !gx_number_is_complex(dtype) && trans == GX_CONJ_TRANS ? GX_TRANS : (int)trans;
}

static int64_t ld_of(int64_t ld)
{
    return gx_max(ld, 1);
}

// Gemm --------------------------------------------------------------------------------------------

/* From so many on of each of m, n and k tensor cores make up for two passes over the operands. */
enum { HALF_LEAST = 128, HALF_BYTES = 2 };

/* Compute capabilities with tensor cores for f16 and for bf16. */
enum { HAS_F16 = 70, HAS_BF16 = 80 };

static int64_t rows_of(const gx_args *p, bool is_b)
{
    return is_b ? (p->transb == GX_NO_TRANS ? p->k : p->n)
                : (p->transa == GX_NO_TRANS ? p->m : p->k);
}

static int64_t cols_of(const gx_args *p, bool is_b)
{
    return (is_b ? p->n : p->m) + p->k - rows_of(p, is_b);
}

/* Columns so far apart, as tensor cores want them aligned. */
static int64_t half_ld(const gx_args *p, bool is_b)
{
    return gx_ceil_div(rows_of(p, is_b), 8) * 8;
}

static size_t operand_bytes(const gx_args *p, bool is_b)
{
    return gx_cuda_round((size_t)(half_ld(p, is_b) * cols_of(p, is_b)) * HALF_BYTES);
}

size_t gx_cuda_half_bytes(const gx_dev *dev, gx_number dtype, const gx_args *p)
{
    bool is_offered = p->half == GX_DTYPE_F16    ? dev->capability >= HAS_F16
                      : p->half == GX_DTYPE_BF16 ? dev->capability >= HAS_BF16
                                                 : false;
    bool is_worth_it = gx_min(p->m, gx_min(p->n, p->k)) >= HALF_LEAST;
    return dtype == GX_F32 && is_offered && is_worth_it && dev->api->gemm_ex != NULL
               ? operand_bytes(p, false) + operand_bytes(p, true)
               : 0;
}

gx_code gx_cuda_gemm_half(gx_dev *dev, gx_queue *queue, const gx_args *p, gx_err *err)
{
    const int F16 = 2, BF16 = 14, COMPUTE_F32 = 68, ANY = -1; // CUDA_R_*, CUBLAS_COMPUTE_32F, ...
    const float alpha = (float)p->alpha.re, beta = (float)p->beta.re;
    int type = p->half == GX_DTYPE_F16 ? F16 : BF16;
    GX_TRY(gx_cuda_blas(dev, queue, err));
    int status =
        dev->api->gemm_ex(queue->blas, op_of(GX_F32, p->transa), op_of(GX_F32, p->transb), p->m,
                          p->n, p->k, &alpha, p->a, type, ld_of(p->lda), p->b, type, ld_of(p->ldb),
                          &beta, p->c, gx_cuda_type(GX_F32), ld_of(p->ldc), COMPUTE_F32, ANY);
    return gx_cublas_check(dev, status, "gemm", err);
}

/* f32 operands whose numbers are some of p->half: they become that first, in p->work. */
static gx_code multiply_halves(gx_dev *dev, gx_queue *queue, const gx_args *p, gx_err *err)
{
    gx_args product = *p;
    char *work = p->work;
    for (int is_b = 0; is_b < 2; is_b++) {
        gx_cuda_call call = {.to = (int32_t)p->half,
                             .m = rows_of(p, is_b),
                             .n = cols_of(p, is_b),
                             .a = is_b ? p->b : p->a,
                             .lda = is_b ? p->ldb : p->lda,
                             .c = work,
                             .ldc = half_ld(p, is_b)};
        GX_TRY(gx_cuda_over_block(dev, queue, GX_CUDA_HALVE, GX_F32, &call, err));
        *(is_b ? &product.b : &product.a) = work;
        *(is_b ? &product.ldb : &product.lda) = call.ldc;
        work += operand_bytes(p, is_b);
    }
    return gx_cuda_gemm_half(dev, queue, &product, err);
}

static gx_code gemm(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    if (p->m <= 0 || p->n <= 0) {
        return GX_OK;
    }
    if (p->k <= 0 || is_zero(scalar_of(dtype, p->alpha))) {
        return gx_cuda_region(dev, queue, dtype, GX_CUDA_ALL, GX_LOWER, p->m, p->n, p->beta, p->c,
                              p->ldc, err);
    }
    bool is_done;
    if (p->by_residues) {
        return gx_cuda_residues_gemm(dev, queue, p, err);
    }
    if (p->work != NULL && gx_cuda_half_bytes(dev, dtype, p) > 0) {
        return multiply_halves(dev, queue, p, err);
    }
    GX_TRY(gx_cuda_narrow_gemm(dev, queue, dtype, p, &is_done, err));
    if (is_done) {
        return GX_OK;
    }
    GX_TRY(gx_cuda_blas(dev, queue, err));
    gx_cuda_scalar alpha, beta;
    int status = dev->api->gemm[dtype](
        queue->blas, op_of(dtype, p->transa), op_of(dtype, p->transb), p->m, p->n, p->k,
        gx_cuda_scalar_of(&alpha, dtype, p->alpha), p->a, ld_of(p->lda), p->b, ld_of(p->ldb),
        gx_cuda_scalar_of(&beta, dtype, p->beta), p->c, ld_of(p->ldc));
    return gx_cublas_check(dev, status, "gemm", err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_gemm, gemm)

gx_code gx_cuda_gemm(gx_dev *dev, gx_queue *queue, gx_number dtype, gx_trans transa,
                     gx_trans transb, int64_t m, int64_t n, int64_t k, double alpha, const void *a,
                     int64_t lda, const void *b, int64_t ldb, double beta, void *c, int64_t ldc,
                     gx_err *err)
{
    gx_args args = {.transa = transa,
                    .transb = transb,
                    .m = m,
                    .n = n,
                    .k = k,
                    .alpha = {alpha, 0},
                    .beta = {beta, 0},
                    .a = a,
                    .lda = lda,
                    .b = b,
                    .ldb = ldb,
                    .c = c,
                    .ldc = ldc};
    return gemm(dev, queue, dtype, &args, err);
}

// Syrk, herk --------------------------------------------------------------------------------------

static gx_code rank_k(gx_dev *dev, gx_queue *queue, gx_number dtype, bool is_hermitian,
                      const gx_args *p, gx_err *err)
{
    gx_scalar alpha = p->alpha, beta = p->beta;
    if (is_hermitian) {
        alpha.im = beta.im = 0;
    }
    if (p->n <= 0) {
        return GX_OK;
    }
    if (p->k <= 0 || is_zero(scalar_of(dtype, alpha))) {
        return gx_cuda_region(dev, queue, dtype,
                              is_hermitian ? GX_CUDA_REAL_DIAGONAL : GX_CUDA_TRIANGLE, p->uplo,
                              p->n, p->n, beta, p->c, p->ldc, err);
    }
    bool is_done;
    GX_TRY(gx_cuda_narrow_rank_k(dev, queue, dtype, is_hermitian, p, &is_done, err));
    if (is_done) {
        return GX_OK;
    }
    GX_TRY(gx_cuda_blas(dev, queue, err));
    gx_cuda_scalar room[2];
    gx_cublas_rank_k call = is_hermitian ? dev->api->herk[dtype] : dev->api->syrk[dtype];
    int status = call(queue->blas, (int)p->uplo, op_of(dtype, p->transa), p->n, p->k,
                      gx_cuda_scalar_of(&room[0], dtype, alpha), p->a, ld_of(p->lda),
                      gx_cuda_scalar_of(&room[1], dtype, beta), p->c, ld_of(p->ldc));
    return gx_cublas_check(dev, status, is_hermitian ? "herk" : "syrk", err);
}

static gx_code syrk(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    if (gx_number_is_complex(dtype) && p->transa == GX_CONJ_TRANS) {
        return gx_fail(err, GX_UNSUPPORTED, "syrk has no conjugate transpose: herk has");
    }
    return rank_k(dev, queue, dtype, false, p, err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_syrk, syrk)

static gx_code herk(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    if (gx_number_is_complex(dtype) && p->transa == GX_TRANS) {
        return gx_fail(err, GX_UNSUPPORTED, "herk has no plain transpose: syrk has");
    }
    return rank_k(dev, queue, dtype, gx_number_is_complex(dtype), p, err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_herk, herk)

// Triangles ---------------------------------------------------------------------------------------

static gx_code triangular(gx_dev *dev, gx_queue *queue, gx_number dtype, bool solves,
                          const gx_args *p, gx_err *err)
{
    if (p->m <= 0 || p->n <= 0) {
        return GX_OK;
    }
    if (is_zero(scalar_of(dtype, p->alpha))) {
        return gx_cuda_region(dev, queue, dtype, GX_CUDA_ALL, GX_LOWER, p->m, p->n,
                              (gx_scalar){0, 0}, p->c, p->ldc, err);
    }
    GX_TRY(gx_cuda_blas(dev, queue, err));
    gx_cuda_scalar room;
    const void *alpha = gx_cuda_scalar_of(&room, dtype, p->alpha);
    int side = (int)p->side, uplo = (int)p->uplo, diag = (int)p->diag, op = op_of(dtype, p->transa);
    int status =
        solves ? dev->api->trsm[dtype](queue->blas, side, uplo, op, diag, p->m, p->n, alpha, p->a,
                                       ld_of(p->lda), p->c, ld_of(p->ldc))
               : dev->api->trmm[dtype](queue->blas, side, uplo, op, diag, p->m, p->n, alpha, p->a,
                                       ld_of(p->lda), p->c, ld_of(p->ldc), p->c, ld_of(p->ldc));
    return gx_cublas_check(dev, status, solves ? "trsm" : "trmm", err);
}

static gx_code trsm(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    return triangular(dev, queue, dtype, true, p, err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_trsm, trsm)

static gx_code trmm(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    return triangular(dev, queue, dtype, false, p, err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_trmm, trmm)
