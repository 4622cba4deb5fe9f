/*
** Halving a triangular solve or product: three smaller calls in place of one.
**
** On the left, with op(a) lower:   X1 = T11^-1 C1;  C2 -= T21 X1;  X2 = T22^-1 C2
**                                  C2 = T22 C2;  C2 += T21 C1;  C1 = T11 C1
** and the mirror images for upper triangles and the right.  A pure function of its arguments; both
** the team (team_solve.c) and backends use it.
*/
#ifndef GX_TRIANGLE_H
#define GX_TRIANGLE_H

#include "backend.h"

/* The side of the triangle of a TRSM or TRMM. */
static inline int64_t gx_triangle_side(const gx_args *args)
{
    return args->side == GX_LEFT ? args->m : args->n;
}

/* p's half of the triangle does not depend on q's.  Order: p, off, q (TRSM); q, off, p (TRMM). */
typedef struct gx_halves {
    gx_args p, q; /* calls of the same kernel */
    gx_args off;  /* GEMM into q's part of c  */
} gx_halves;

/* kernel: GX_TRSM or GX_TRMM.  step: the first half is a multiple of it; less than the side. */
static inline gx_halves gx_halve(gx_kernel_id kernel, gx_number dtype, const gx_args *args,
                                 int64_t step)
{
    bool is_left = args->side == GX_LEFT, is_plain = args->transa == GX_NO_TRANS;
    bool is_lower = (args->uplo == GX_LOWER) == is_plain; // op(a)
    int64_t side = gx_triangle_side(args), half = gx_ceil_div(side / 2, step) * step;
    int64_t size[2] = {half, side - half}, start[2] = {0, half};
    int ip = is_lower == is_left ? 0 : 1, iq = 1 - ip;
    gx_args part[2];
    for (int i = 0; i < 2; i++) {
        part[i] = *args;
        part[i].m = is_left ? size[i] : args->m;
        part[i].n = is_left ? args->n : size[i];
        part[i].a = gx_at(args->a, dtype, args->lda, start[i], start[i]);
        part[i].c =
            gx_at(args->c, dtype, args->ldc, is_left ? start[i] : 0, is_left ? 0 : start[i]);
    }
    // The block of op(a) beside the diagonal: rows q, columns p on the left, the other way right.
    int row = is_left ? iq : ip, col = is_left ? ip : iq;
    const void *block =
        gx_at(args->a, dtype, args->lda, start[is_plain ? row : col], start[is_plain ? col : row]);
    gx_args off = {.m = part[iq].m, .n = part[iq].n, .k = size[ip]};
    off.c = part[iq].c;
    off.ldc = args->ldc;
    off.transa = is_left ? args->transa : GX_NO_TRANS;
    off.a = is_left ? block : part[ip].c;
    off.lda = is_left ? args->lda : args->ldc;
    off.transb = is_left ? GX_NO_TRANS : args->transa;
    off.b = is_left ? part[ip].c : block;
    off.ldb = is_left ? args->ldc : args->lda;
    if (kernel == GX_TRSM) {
        off.alpha.re = -1;
        off.beta = args->alpha;
        part[iq].alpha.re = 1;
        part[iq].alpha.im = 0;
    } else {
        off.alpha = args->alpha;
        off.beta.re = 1;
    }
    gx_halves halves = {part[ip], part[iq], off};
    return halves;
}

#endif
