/*
** The CUDA backend: operations on grids.
**
** A block of threads has one grid at a time, in its shared memory where that has room, else in a
** part of `work`, of which there are as many as fit in a few megabytes.
*/
#include "cuda.h"

#include "grid_team.h"

enum {
    SHARED_BYTES = 40 << 10,
    WORK_BYTES = 64 << 20,
    BLOCKS_MOST = 1 << 14,
    CELLS = 4,
    WARP = 32
};

/* Bytes of one grid's memory. */
static int64_t bytes_of(const gx_grid_job *job)
{
    return team_numbers(job) * (int64_t)sizeof(int32_t);
}

static int64_t blocks_of(const gx_grid_job *job)
{
    int64_t most = bytes_of(job) <= SHARED_BYTES ? BLOCKS_MOST : WORK_BYTES / bytes_of(job);
    return gx_min(job->count, gx_max(1, most));
}

size_t gx_cuda_grid_bytes(const gx_args *args)
{
    const gx_grid_job *job = args->grid;
    return bytes_of(job) <= SHARED_BYTES ? 0 : (size_t)(bytes_of(job) * blocks_of(job));
}

static gx_code grid(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    const gx_grid_job *job = p->grid;
    bool is_shared = bytes_of(job) <= SHARED_BYTES;
    gx_cuda_grid call = {.job = *job,
                         .m = p->m,
                         .n = p->n,
                         .a = p->a,
                         .lda = p->lda,
                         .b = p->b,
                         .ldb = p->ldb,
                         .table = p->b2,
                         .ld_table = p->ldb2,
                         .c = p->c,
                         .ldc = p->ldc,
                         .work = is_shared ? NULL : p->work,
                         .numbers = team_numbers(job)};
    gx_cuda_dim blocks = {(unsigned)blocks_of(job), 1, 1}, threads = {WARP, 1, 1};
    void *list[] = {&call};
    while (threads.x < TEAM_THREADS && threads.x * CELLS < job->cells) {
        threads.x *= 2; // a power of two
    }
    (void)dtype;
    if (job->count == 0) {
        return GX_OK;
    }
    int status = dev->api->launch(dev->function[GX_CUDA_GRID][GX_F64], blocks, threads, list,
                                  is_shared ? (size_t)bytes_of(job) : 0, queue->stream);
    return gx_cuda_check(dev, status, "cudaLaunchKernel", err);
}
GX_CUDA_SLOT(gx_cuda_grid, f64, GX_F64, grid)
