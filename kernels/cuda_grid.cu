/*
** Device code: operations on grids (grid_ops.h), a block of threads for each grid.
*/
#include "cuda_kernels.h"

#include "grid_ops.h"

extern "C" __global__ void __launch_bounds__(TEAM_THREADS)
    gx_grid(const GX_GRID_CONSTANT gx_cuda_grid p)
{
    extern __shared__ int32_t own[];
    __shared__ team_room room;
    const team_call call = {&p.job, p.n, p.a, p.b, p.lda, p.ldb, p.table, p.ld_table, p.c, p.ldc};
    int32_t *memory = p.work == nullptr ? own : p.work + blockIdx.x * p.numbers;
    for (int64_t k = blockIdx.x; k < p.job.count; k += gridDim.x) {
        work_on_place(&call, k, &room, memory);
    }
}
