/*
** The CUDA backend: eigenvalues and singular values by cuSOLVER.
**
**   SYEV    Xsyevd (divide and conquer), in place
**   GEEV    Xgeev, right vectors alone; those of a real matrix come as LAPACK packs them, and a
**           kernel of ours unpacks the conjugate pairs
**   GESDD   Xgesvd (QR iteration), which takes m >= n only: a wide c goes through its conjugate
**           transpose, c^H = V S U^H, and what comes out is transposed back
**
** Sizes at which wrong results or failures of cuSOLVER have been reported are refused (SYEV from
** SYEV_SIDE on, GESDD from SVD_SIDE on): the CPU takes them.  GEES, and left vectors of GEEV, are
** not offered.
**
** cuSOLVER squares elements, so that a matrix of very large or very small numbers loses its digits.
** Such a one is multiplied by a power of two first, as LAPACK's drivers do, and its values are
** multiplied back; the largest magnitude, and what it asks for, stay on the device, so that a call
** does not wait.  For SYEV the triangle that is not read is made zero for that.
**
** `work`: for a wide GESDD c^H, V and U^H; info (256 bytes), the largest magnitude and its partial
** results, then cuSOLVER's own.
*/
#include "cuda.h"

enum { INFO_BYTES = 256, SYEV_SIDE = 24000, SVD_SIDE = 19000 };
enum { NO_VECTORS = 0, VECTORS = 1 }; /* cusolverEigMode_t */

static int real_type(gx_number dtype)
{
    return gx_cuda_type(gx_number_real(dtype));
}

// Hermitian ---------------------------------------------------------------------------------------

static gx_code ask_syevd(gx_dev *dev, gx_cuda_handle solver, gx_cuda_handle params, gx_number dtype,
                         const gx_args *p, gx_cuda_appetite *a, gx_err *err)
{
    int type = gx_cuda_type(dtype);
    *a = (gx_cuda_appetite){0, 0};
    int status = dev->api->syevd_bytes(
        solver, params, p->wants_right ? VECTORS : NO_VECTORS, (int)p->uplo, p->n, type, p->c,
        gx_max(p->ldc, gx_max(p->n, 1)), real_type(dtype), p->values, type, &a->device, &a->host);
    return gx_cusolver_check(dev, status, "Xsyevd_bufferSize", err);
}

/* c = the triangle that counts, of a size that cuSOLVER takes, with zeros in the other one. */
static gx_code scale_hermitian(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p,
                               void *work, const double **largest, gx_err *err)
{
    GX_TRY(gx_cuda_triangle(dev, queue, dtype, GX_CUDA_ALL, p->uplo, GX_NON_UNIT, p->n, p->n, p->c,
                            p->ldc, p->c, p->ldc, err));
    if (gx_number_is_complex(dtype)) {
        GX_TRY(gx_cuda_region(dev, queue, dtype, GX_CUDA_DIAGONAL, p->uplo, p->n, p->n,
                              (gx_scalar){1, 0}, p->c, p->ldc, err));
    }
    GX_TRY(gx_cuda_measure(dev, queue, dtype, p->n, p->n, p->c, p->ldc, work, largest, err));
    return gx_cuda_rescale(dev, queue, dtype, false, *largest, p->n, p->n, p->c, p->ldc, err);
}

static gx_code syev(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    *p->info = 0;
    if (p->n <= 0) {
        return GX_OK;
    }
    if (p->n >= SYEV_SIDE) {
        return gx_fail(err, GX_UNSUPPORTED, "cuSOLVER's syevd is trusted below n = %d, not at %lld",
                       (int)SYEV_SIDE, (long long)p->n);
    }
    gx_cuda_appetite a;
    void *host;
    const double *largest;
    int type = gx_cuda_type(dtype);
    char *rest = (char *)p->work + INFO_BYTES;
    GX_TRY(gx_cuda_solver(dev, queue, err));
    GX_TRY(ask_syevd(dev, queue->solver, queue->params, dtype, p, &a, err));
    GX_TRY(gx_cuda_host_work(dev, queue, a.host, &host, err));
    GX_TRY(scale_hermitian(dev, queue, dtype, p, rest, &largest, err));
    rest += gx_cuda_measure_bytes(p->n, p->n);
    int status =
        dev->api->syevd(queue->solver, queue->params, p->wants_right ? VECTORS : NO_VECTORS,
                        (int)p->uplo, p->n, type, p->c, p->ldc, real_type(dtype), p->values, type,
                        rest, a.device, host, a.host, p->work);
    GX_TRY(gx_cusolver_check(dev, status, "Xsyevd", err));
    GX_TRY(gx_cuda_rescale(dev, queue, gx_number_real(dtype), true, largest, p->n, 1, p->values,
                           p->n, err));
    return gx_cuda_post(dev, queue, p->work, p->info, err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_syev, syev)

// General -----------------------------------------------------------------------------------------

/* Where the parts of `work` are. */
typedef struct general {
    char *info, *measure, *vectors, *rest;
    gx_number wide;
    bool is_real;
} general;

static general general_of(gx_number dtype, const gx_args *p)
{
    general g = {.info = p->work, .is_real = !gx_number_is_complex(dtype)};
    g.wide = gx_number_promote(dtype, GX_C64);
    g.measure = g.info + INFO_BYTES;
    g.vectors = g.measure + gx_cuda_measure_bytes(p->n, p->n);
    g.rest = g.vectors + (g.is_real && p->wants_right ? gx_cuda_area(dtype, p->n, p->n) : 0);
    return g;
}

static gx_code ask_geev(gx_dev *dev, gx_cuda_handle solver, gx_cuda_handle params, gx_number dtype,
                        const gx_args *p, gx_cuda_appetite *a, gx_err *err)
{
    int type = gx_cuda_type(dtype), wide = gx_cuda_type(gx_number_promote(dtype, GX_C64));
    int64_t ld = gx_max(p->n, 1);
    *a = (gx_cuda_appetite){0, 0};
    int status =
        dev->api->geev_bytes(solver, params, NO_VECTORS, p->wants_right ? VECTORS : NO_VECTORS,
                             p->n, type, p->c, gx_max(p->ldc, ld), wide, p->values, type, NULL, ld,
                             type, p->right, gx_max(p->ldright, ld), type, &a->device, &a->host);
    return gx_cusolver_check(dev, status, "Xgeev_bufferSize", err);
}

static gx_code refuse_geev(const gx_dev *dev, const gx_args *p, gx_err *err)
{
    if (dev->api->geev == NULL || dev->api->geev_bytes == NULL) {
        return gx_fail(err, GX_UNSUPPORTED, "cuSOLVER has no geev before CUDA 12.6");
    }
    return p->wants_left ? gx_fail(err, GX_UNSUPPORTED, "cuSOLVER's geev has no left vectors")
                         : GX_OK;
}

static gx_code geev(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    *p->info = 0;
    if (p->n <= 0) {
        return GX_OK;
    }
    GX_TRY(refuse_geev(dev, p, err));
    gx_cuda_appetite a;
    void *host;
    const double *largest;
    general g = general_of(dtype, p);
    bool is_packed = g.is_real && p->wants_right;
    void *vectors = is_packed ? (void *)g.vectors : p->wants_right ? p->right : NULL;
    int64_t ld = is_packed || !p->wants_right ? p->n : p->ldright;
    int type = gx_cuda_type(dtype);
    GX_TRY(gx_cuda_solver(dev, queue, err));
    GX_TRY(ask_geev(dev, queue->solver, queue->params, dtype, p, &a, err));
    GX_TRY(gx_cuda_host_work(dev, queue, a.host, &host, err));
    GX_TRY(gx_cuda_measure(dev, queue, dtype, p->n, p->n, p->c, p->ldc, g.measure, &largest, err));
    GX_TRY(gx_cuda_rescale(dev, queue, dtype, false, largest, p->n, p->n, p->c, p->ldc, err));
    int status = dev->api->geev(queue->solver, queue->params, NO_VECTORS,
                                p->wants_right ? VECTORS : NO_VECTORS, p->n, type, p->c, p->ldc,
                                gx_cuda_type(g.wide), p->values, type, NULL, p->n, type, vectors,
                                ld, type, g.rest, a.device, host, a.host, (int *)(void *)g.info);
    GX_TRY(gx_cusolver_check(dev, status, "Xgeev", err));
    if (is_packed) {
        gx_cuda_call call = {.m = p->n,
                             .n = p->n,
                             .a = vectors,
                             .lda = ld,
                             .tau = p->values,
                             .c = p->right,
                             .ldc = p->ldright};
        GX_TRY(gx_cuda_over_block(dev, queue, GX_CUDA_PAIRS, dtype, &call, err));
    }
    GX_TRY(gx_cuda_rescale(dev, queue, g.wide, true, largest, p->n, 1, p->values, p->n, err));
    return gx_cuda_post(dev, queue, (int32_t *)(void *)g.info, p->info, err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_geev, geev)

// Singular values ---------------------------------------------------------------------------------

/* What gesvd works on: c itself, or for a wide c its conjugate transpose in `work`. */
typedef struct svd {
    bool is_wide;
    int64_t m, n; /* m >= n */
    signed char job;
    void *c, *u, *vt;
    int64_t ldc, ldu, ldvt;
    char *rest; /* info, the largest magnitude, then cuSOLVER's */
} svd;

static svd svd_of(gx_number dtype, const gx_args *p)
{
    svd s = {.is_wide = p->m < p->n,
             .m = gx_max(p->m, p->n),
             .n = gx_min(p->m, p->n),
             .job = !p->wants_left ? 'N'
                    : p->is_full   ? 'A'
                                   : 'S',
             .c = p->c,
             .ldc = gx_max(p->ldc, 1),
             .u = p->left,
             .ldu = gx_max(p->ldleft, 1),
             .vt = p->right,
             .ldvt = gx_max(p->ldright, 1),
             .rest = p->work};
    if (s.is_wide) {
        s.ldc = s.ldu = s.m;
        s.ldvt = gx_max(s.n, 1);
        s.c = p->work;
        s.u = (char *)s.c + gx_cuda_area(dtype, s.m, s.n);
        int64_t columns = s.job == 'N' ? 0 : s.job == 'A' ? s.m : s.n;
        s.vt = (char *)s.u + gx_cuda_area(dtype, s.m, columns);
        s.rest = (char *)s.vt + (s.job == 'N' ? 0 : gx_cuda_area(dtype, s.n, s.n));
    }
    if (s.job == 'N') { // leading dimensions are looked at all the same
        s.u = s.vt = NULL;
        s.ldu = s.m;
        s.ldvt = gx_max(s.n, 1);
    }
    return s;
}

static gx_code ask_gesvd(gx_dev *dev, gx_cuda_handle solver, gx_cuda_handle params, gx_number dtype,
                         const svd *s, gx_cuda_appetite *a, gx_err *err)
{
    int type = gx_cuda_type(dtype);
    *a = (gx_cuda_appetite){0, 0};
    int status = dev->api->gesvd_bytes(solver, params, s->job, s->job, s->m, s->n, type, s->c,
                                       gx_max(s->ldc, s->m), real_type(dtype), NULL, type, s->u,
                                       gx_max(s->ldu, s->m), type, s->vt, gx_max(s->ldvt, s->n),
                                       type, &a->device, &a->host);
    return gx_cusolver_check(dev, status, "Xgesvd_bufferSize", err);
}

/* Nothing to factorise: full vectors of an empty matrix are unit matrices. */
static gx_code empty_svd(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p,
                         gx_err *err)
{
    if (!p->wants_left || !p->is_full) {
        return GX_OK;
    }
    GX_TRY(gx_cuda_triangle(dev, queue, dtype, GX_CUDA_IDENTITY, GX_LOWER, GX_UNIT, p->m, p->m,
                            NULL, 0, p->left, p->ldleft, err));
    return gx_cuda_triangle(dev, queue, dtype, GX_CUDA_IDENTITY, GX_LOWER, GX_UNIT, p->n, p->n,
                            NULL, 0, p->right, p->ldright, err);
}

/* left = (V^H of c^H)^H, right = (U of c^H)^H. */
static gx_code turn_back(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p,
                         const svd *s, gx_err *err)
{
    int64_t columns = s->job == 'A' ? s->m : s->n;
    GX_TRY(gx_cuda_copy(dev, queue, dtype, GX_CONJ_TRANS, p->m, s->n, s->vt, s->ldvt, p->left,
                        p->ldleft, err));
    return gx_cuda_copy(dev, queue, dtype, GX_CONJ_TRANS, columns, p->n, s->u, s->ldu, p->right,
                        p->ldright, err);
}

static gx_code gesdd(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    *p->info = 0;
    if (p->m <= 0 || p->n <= 0) {
        return empty_svd(dev, queue, dtype, p, err);
    }
    if (gx_min(p->m, p->n) >= SVD_SIDE) {
        return gx_fail(err, GX_UNSUPPORTED,
                       "cuSOLVER's gesvd is trusted below min(m, n) = %d, not at %lld x %lld",
                       (int)SVD_SIDE, (long long)p->m, (long long)p->n);
    }
    svd s = svd_of(dtype, p);
    gx_cuda_appetite a;
    void *host;
    const double *largest;
    char *measure = s.rest + INFO_BYTES, *rest = measure + gx_cuda_measure_bytes(s.m, s.n);
    int type = gx_cuda_type(dtype);
    GX_TRY(gx_cuda_solver(dev, queue, err));
    GX_TRY(ask_gesvd(dev, queue->solver, queue->params, dtype, &s, &a, err));
    GX_TRY(gx_cuda_host_work(dev, queue, a.host, &host, err));
    if (s.is_wide) {
        GX_TRY(gx_cuda_copy(dev, queue, dtype, GX_CONJ_TRANS, s.m, s.n, p->c, p->ldc, s.c, s.ldc,
                            err));
    }
    GX_TRY(gx_cuda_measure(dev, queue, dtype, s.m, s.n, s.c, s.ldc, measure, &largest, err));
    GX_TRY(gx_cuda_rescale(dev, queue, dtype, false, largest, s.m, s.n, s.c, s.ldc, err));
    int status = dev->api->gesvd(queue->solver, queue->params, s.job, s.job, s.m, s.n, type, s.c,
                                 s.ldc, real_type(dtype), p->values, type, s.u, s.ldu, type, s.vt,
                                 s.ldvt, type, rest, a.device, host, a.host, (int *)(void *)s.rest);
    GX_TRY(gx_cusolver_check(dev, status, "Xgesvd", err));
    GX_TRY(gx_cuda_rescale(dev, queue, gx_number_real(dtype), true, largest, s.n, 1, p->values,
                           s.n, err));
    if (s.is_wide && s.job != 'N') {
        GX_TRY(turn_back(dev, queue, dtype, p, &s, err));
    }
    return gx_cuda_post(dev, queue, (int32_t *)(void *)s.rest, p->info, err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_gesdd, gesdd)

// Workspaces --------------------------------------------------------------------------------------

size_t gx_cuda_spectra_bytes(gx_dev *dev, gx_kernel_id kernel, gx_number dtype, const gx_args *p)
{
    gx_cuda_appetite a = {0, 0};
    gx_args args = *p;
    args.work = NULL;
    svd s = svd_of(dtype, &args);
    bool is_syev = kernel == GX_SYEV && p->n > 0 && p->n < SYEV_SIDE;
    bool is_geev = kernel == GX_GEEV && p->n > 0 && refuse_geev(dev, p, NULL) == GX_OK;
    bool is_svd = kernel == GX_GESDD && s.n > 0 && s.n < SVD_SIDE;
    if (!is_syev && !is_svd && !is_geev) {
        return INFO_BYTES;
    }
    GX_CUDA_ASK(dev, is_syev   ? ask_syevd(dev, dev->solver, dev->params, dtype, p, &a, NULL)
                     : is_geev ? ask_geev(dev, dev->solver, dev->params, dtype, p, &a, NULL)
                               : ask_gesvd(dev, dev->solver, dev->params, dtype, &s, &a, NULL));
    size_t before = is_svd ? (size_t)(s.rest - (char *)args.work) : 0;
    if (is_geev) {
        return (size_t)(uintptr_t)general_of(dtype, &args).rest + gx_cuda_round(a.device);
    }
    size_t measure = is_svd ? gx_cuda_measure_bytes(s.m, s.n) : gx_cuda_measure_bytes(p->n, p->n);
    return before + INFO_BYTES + measure + gx_cuda_round(a.device);
}
