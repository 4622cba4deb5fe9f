/*
** What a launch of a fused program takes: shared by the host, the interpreter and what NVRTC
** compiles, so it includes nothing.  See core/base/fused.h, of which the numbers are.
*/
#ifndef GX_CUDA_FUSED_H
#define GX_CUDA_FUSED_H

/* A kernel's parameter that is read where it lies; before compute capability 7.0 it is copied. */
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 700
#define GX_GRID_CONSTANT
#else
#define GX_GRID_CONSTANT __grid_constant__
#endif

enum {
    GX_CUDA_FUSED_INPUTS = 12,
    GX_CUDA_FUSED_CONSTANTS = 16,
    GX_CUDA_FUSED_STEPS = 48,
    GX_CUDA_FUSED_OUTPUTS = 4,
    GX_CUDA_FUSED_REGISTERS = 12
};

/* Element (i, j) is i * row + j * col elements behind data. */
typedef struct gx_cuda_place {
    void *data;
    long long row, col;
} gx_cuda_place;

/* Register dst = function `map` of values from[0] ..., as many as it has operands. */
typedef struct gx_cuda_step {
    unsigned char map, operands, dst, from[3], unused[2];
    double alpha[2], beta[2];
} gx_cuda_step;

typedef struct gx_cuda_fused {
    long long m, n;
    int inputs, constants, steps, outputs;
    gx_cuda_place in[GX_CUDA_FUSED_INPUTS], out[GX_CUDA_FUSED_OUTPUTS];
    double constant[GX_CUDA_FUSED_CONSTANTS][2];
    gx_cuda_step step[GX_CUDA_FUSED_STEPS];
    unsigned char value[GX_CUDA_FUSED_OUTPUTS];   /* of each output                          */
    unsigned char is_real[GX_CUDA_FUSED_OUTPUTS]; /* it is stored without its imaginary part */
    /* 0, or 1 + a gx_reduce_kind: out.data are three doubles for each of `blocks` thread blocks, as
       the first stage of a reduction leaves them (cuda_kernels.h) */
    unsigned char fold[GX_CUDA_FUSED_OUTPUTS];
    int blocks;
} gx_cuda_fused;

#endif
