/*
** What the kernels ask of a device and a queue of theirs: memory, handles of cuBLAS and cuSOLVER,
** a workspace on the host, letters.
**
** The handles are made on a queue's first call of the library, the products' workspace with them:
** one workspace a stream makes results the same bits on every run.  LAPACK's info goes through a
** pinned mailbox of the queue, so that a factorisation can be enqueued without waiting.
*/
#include "cuda.h"

#include "../core/base/mem.h"

enum { BLAS_WORK_BYTES = 32 << 20 }; // what cuBLAS asks for on Hopper and newer

gx_code gx_cuda_alloc(gx_dev *dev, size_t bytes, void **ptr, gx_err *err)
{
    *ptr = NULL;
    GX_TRY(gx_cuda_enter(dev, err));
    int status = dev->api->malloc(ptr, bytes == 0 ? 1 : bytes);
    if (status == GX_CUDA_OUT_OF_MEMORY) {
        (void)dev->api->last_error();
        *ptr = NULL;
        return gx_fail(err, GX_NOMEM, "out of memory on cuda:%d (%zu bytes)", dev->ordinal, bytes);
    }
    return gx_cuda_check(dev, status, "cudaMalloc", err);
}

// Letters -----------------------------------------------------------------------------------------

gx_code gx_cuda_queue_wait(gx_dev *dev, gx_queue *queue, gx_err *err)
{
    gx_code code = gx_cuda_enter(dev, err);
    int letters = queue->letters;
    queue->letters = 0;
    if (gx_cuda_is_lost(dev)) {
        return code;
    }
    GX_TRY(gx_cuda_settle(dev, queue->stream, err)); // whatever gx_cuda_enter() said
    for (int i = 0; i < letters; i++) {
        *queue->receiver[i] = queue->mailbox[i];
    }
    return code;
}

gx_code gx_cuda_fetch(gx_dev *dev, gx_queue *queue, void *to, const void *from, size_t bytes,
                      gx_err *err)
{
    int status = dev->api->copy(to, from, bytes, GX_CUDA_DEVICE_TO_HOST, queue->stream);
    return gx_cuda_check(dev, status, "cudaMemcpyAsync", err);
}

gx_code gx_cuda_post(gx_dev *dev, gx_queue *queue, const int32_t *from, int64_t *to, gx_err *err)
{
    if (queue->letters == GX_CUDA_MAILBOX) {
        GX_TRY(gx_cuda_queue_wait(dev, queue, err));
    }
    int i = queue->letters;
    GX_TRY(gx_cuda_fetch(dev, queue, &queue->mailbox[i], from, sizeof *from, err));
    queue->receiver[i] = to;
    queue->letters++;
    return GX_OK;
}

// Handles and workspaces --------------------------------------------------------------------------

gx_code gx_cuda_blas_workspace(gx_dev *dev, gx_queue *queue, gx_err *err)
{
    int status = dev->api->blas_workspace(queue->blas, queue->blas_work, BLAS_WORK_BYTES);
    return gx_cublas_check(dev, status, "workspace", err);
}

gx_code gx_cuda_blas(gx_dev *dev, gx_queue *queue, gx_err *err)
{
    if (queue->blas != NULL) {
        return GX_OK;
    }
    const gx_cuda_api *api = dev->api;
    CUBLAS_TRY(dev, api->blas_create(&queue->blas), "create");
    gx_code code =
        gx_cublas_check(dev, api->blas_stream(queue->blas, queue->stream), "stream", err);
    if (code == GX_OK && queue->blas_work == NULL) {
        code = gx_cuda_alloc(dev, BLAS_WORK_BYTES, &queue->blas_work, err);
    }
    if (code == GX_OK) {
        code = gx_cuda_blas_workspace(dev, queue, err);
    }
    if (code != GX_OK) {
        gx_cuda_release(dev, queue->blas, api->blas_destroy, "cublasDestroy");
        queue->blas = NULL;
    }
    return code;
}

gx_code gx_cuda_solver(gx_dev *dev, gx_queue *queue, gx_err *err)
{
    const gx_cuda_api *api = dev->api;
    if (queue->params == NULL) {
        CUSOLVER_TRY(dev, api->params_create(&queue->params), "CreateParams");
    }
    if (queue->solver == NULL) {
        CUSOLVER_TRY(dev, api->solver_create(&queue->solver), "Create");
        gx_code code = gx_cusolver_check(dev, api->solver_stream(queue->solver, queue->stream),
                                         "SetStream", err);
        if (code != GX_OK) {
            gx_cuda_release(dev, queue->solver, api->solver_destroy, "cusolverDnDestroy");
            queue->solver = NULL;
            return code;
        }
    }
    return GX_OK;
}

gx_code gx_cuda_host_work(gx_dev *dev, gx_queue *queue, size_t bytes, void **work, gx_err *err)
{
    if (bytes > queue->host_bytes) {
        GX_TRY(gx_cuda_settle(dev, queue->stream, err));
        gx_mem_free(NULL, queue->host_work);
        queue->host_work = NULL;
        queue->host_bytes = 0;
        GX_TRY(gx_mem_alloc(NULL, bytes, "cuSOLVER", &queue->host_work, err));
        queue->host_bytes = bytes;
    }
    *work = queue->host_work;
    return GX_OK;
}

gx_code gx_cuda_ask_begin(gx_dev *dev, gx_err *err)
{
    GX_TRY(gx_cuda_enter(dev, err));
    pthread_mutex_lock(&dev->lock);
    gx_code code = GX_OK;
    if (dev->params == NULL) {
        code = gx_cusolver_check(dev, dev->api->params_create(&dev->params), "CreateParams", err);
    }
    if (code == GX_OK && dev->solver == NULL) {
        code = gx_cusolver_check(dev, dev->api->solver_create(&dev->solver), "Create", err);
    }
    if (code != GX_OK) {
        pthread_mutex_unlock(&dev->lock);
    }
    return code;
}

void gx_cuda_ask_end(gx_dev *dev)
{
    pthread_mutex_unlock(&dev->lock);
}
