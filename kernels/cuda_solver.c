/*
** The CUDA backend: Cholesky and LU by cuSOLVER's 64-bit interface.
**
** `work` holds, each part aligned to 256 bytes: cuSOLVER's info (32 bits), GETRF's pivots (64
** bits each), cuSOLVER's own workspace; its workspace on the host, where it wants one, is the
** queue's.  info reaches the caller at queue_wait(); pivots are counted from 0 by a kernel of ours
** and copied, which waits where the caller's memory is not pinned.
**
** POTRF: cuSOLVER leaves the imaginary part of the diagonal as it pleases at entry and real at the
** end; a kernel of ours clears it first, so that nothing depends on that.  Its info is not taken
** on trust: some sizes let a zero, a negative number or a NaN pass, which then stands on the
** factor's diagonal.  A kernel of ours looks there for the first that is not positive and corrects
** info; n = 1 it factors itself.
**
** GETRF: cuSOLVER takes a NaN for a zero, so that determinants and inverses of what is not known
** would be numbers like any others.  The block is measured first; where it has a NaN the last
** column of the factors becomes NaN, from which it spreads as it would have, and info 0, since no
** pivot is zero.
*/
#include "cuda.h"

enum { INFO_BYTES = 256 };

static gx_code ask(const gx_cuda_api *api, gx_dev *dev, gx_cuda_handle solver,
                   gx_cuda_handle params, gx_kernel_id kernel, gx_number dtype, const gx_args *p,
                   gx_cuda_appetite *a, gx_err *err)
{
    int type = gx_cuda_type(dtype);
    int64_t ld = gx_max(p->ldc, gx_max(kernel == GX_POTRF ? p->n : p->m, 1));
    *a = (gx_cuda_appetite){0, 0};
    if (kernel == GX_POTRF) {
        CUSOLVER_TRY(dev,
                     api->potrf_bytes(solver, params, (int)p->uplo, p->n, type, p->c, ld, type,
                                      &a->device, &a->host),
                     "Xpotrf_bufferSize");
    } else {
        CUSOLVER_TRY(dev,
                     api->getrf_bytes(solver, params, p->m, p->n, type, p->c, ld, type, &a->device,
                                      &a->host),
                     "Xgetrf_bufferSize");
    }
    return GX_OK;
}

static bool is_empty(gx_kernel_id kernel, const gx_args *p)
{
    return p->n <= 0 || (kernel == GX_GETRF && p->m <= 0);
}

static size_t pivot_bytes(gx_kernel_id kernel, const gx_args *p)
{
    int64_t count = kernel == GX_GETRF ? gx_min(p->m, p->n) : 0;
    return gx_cuda_round((size_t)count * sizeof(int64_t));
}

static size_t measure_bytes(gx_kernel_id kernel, const gx_args *p)
{
    return kernel == GX_GETRF ? gx_cuda_measure_bytes(p->m, p->n) : 0;
}

size_t gx_cuda_solver_bytes(gx_dev *dev, gx_kernel_id kernel, gx_number dtype, const gx_args *args)
{
    gx_cuda_appetite a = {0, 0};
    if (is_empty(kernel, args)) {
        return INFO_BYTES;
    }
    GX_CUDA_ASK(dev, ask(dev->api, dev, dev->solver, dev->params, kernel, dtype, args, &a, NULL));
    return INFO_BYTES + pivot_bytes(kernel, args) + measure_bytes(kernel, args) +
           gx_cuda_round(a.device);
}

/* info as the factor's diagonal has it; is_alone: n = 1, which is factored here. */
static gx_code look_at_diagonal(gx_dev *dev, gx_queue *queue, gx_number dtype, bool is_alone,
                                const gx_args *p, gx_err *err)
{
    gx_cuda_call call = gx_cuda_call_of(p);
    call.kind = is_alone ? 1 : 0;
    call.b = p->work;
    gx_cuda_dim grid = {1, 1, 1}, block = {256, 1, 1};
    GX_TRY(gx_cuda_launch(dev, queue, GX_CUDA_DEFINITE, dtype, grid, block, &call, err));
    return gx_cuda_post(dev, queue, p->work, p->info, err);
}

static gx_code potrf(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    *p->info = 0;
    if (is_empty(GX_POTRF, p)) {
        return GX_OK;
    }
    if (p->n == 1) {
        return look_at_diagonal(dev, queue, dtype, true, p, err);
    }
    gx_cuda_appetite a;
    void *host;
    int type = gx_cuda_type(dtype);
    int32_t *info = p->work;
    GX_TRY(gx_cuda_solver(dev, queue, err));
    GX_TRY(ask(dev->api, dev, queue->solver, queue->params, GX_POTRF, dtype, p, &a, err));
    GX_TRY(gx_cuda_host_work(dev, queue, a.host, &host, err));
    if (gx_number_is_complex(dtype)) {
        GX_TRY(gx_cuda_region(dev, queue, dtype, GX_CUDA_DIAGONAL, p->uplo, p->n, p->n,
                              (gx_scalar){1, 0}, p->c, p->ldc, err));
    }
    CUSOLVER_TRY(dev,
                 dev->api->potrf(queue->solver, queue->params, (int)p->uplo, p->n, type, p->c,
                                 p->ldc, type, (char *)p->work + INFO_BYTES, a.device, host, a.host,
                                 info),
                 "Xpotrf");
    return look_at_diagonal(dev, queue, dtype, false, p, err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_potrf, potrf)

/* The last column of factors of a block that had a NaN. */
static gx_code poison(gx_dev *dev, gx_queue *queue, gx_number dtype, const double *largest,
                      const gx_args *p, int32_t *info, gx_err *err)
{
    gx_cuda_call call = {.m = p->m, .n = 1, .a = largest, .lda = 1, .b = info, .ldb = 1};
    call.c = gx_at(p->c, dtype, p->ldc, 0, gx_min(p->m, p->n) - 1);
    call.ldc = p->ldc;
    return gx_cuda_over_block(dev, queue, GX_CUDA_POISON, dtype, &call, err);
}

static gx_code getrf(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    *p->info = 0;
    if (is_empty(GX_GETRF, p)) {
        return GX_OK;
    }
    gx_cuda_appetite a;
    void *host;
    int type = gx_cuda_type(dtype);
    int64_t count = gx_min(p->m, p->n);
    int32_t *info = p->work;
    int64_t *pivots = (int64_t *)((char *)p->work + INFO_BYTES);
    char *measure = (char *)pivots + pivot_bytes(GX_GETRF, p);
    char *rest = measure + measure_bytes(GX_GETRF, p);
    const double *largest;
    GX_TRY(gx_cuda_solver(dev, queue, err));
    GX_TRY(ask(dev->api, dev, queue->solver, queue->params, GX_GETRF, dtype, p, &a, err));
    GX_TRY(gx_cuda_host_work(dev, queue, a.host, &host, err));
    GX_TRY(gx_cuda_measure(dev, queue, dtype, p->m, p->n, p->c, p->ldc, measure, &largest, err));
    CUSOLVER_TRY(dev,
                 dev->api->getrf(queue->solver, queue->params, p->m, p->n, type, p->c, p->ldc,
                                 pivots, type, rest, a.device, host, a.host, info),
                 "Xgetrf");
    GX_TRY(poison(dev, queue, dtype, largest, p, info, err));
    gx_cuda_call call = {.n = count, .c = pivots, .m = 1};
    gx_cuda_dim block = {256, 1, 1};
    gx_cuda_dim grid = {(unsigned)gx_min(gx_ceil_div(count, 256), 1024), 1, 1};
    GX_TRY(gx_cuda_launch(dev, queue, GX_CUDA_PIVOTS, GX_F64, grid, block, &call, err));
    GX_TRY(gx_cuda_post(dev, queue, info, p->info, err));
    return gx_cuda_fetch(dev, queue, p->pivots, pivots, (size_t)count * sizeof(int64_t), err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_getrf, getrf)
