/*
** Elementwise kernels of the CPU backend: fill, copy, and the functions of GX_MAP, which are those
** of cpu_block.c.
**
** A block is walked column by column (as one long column where nothing lies between them).
*/
#include "cpu.h"
#include "cpu_element.h"

#include <string.h>

GX_LOOP(fill)
{
    bool d = gx_number_is_double(dtype), is_flat = p->ldc == p->m;
    int64_t m = is_flat ? p->m * p->n : p->m, n = is_flat ? gx_min(p->n, 1) : p->n;
    gx_scalar alpha = p->alpha;
    for (int64_t j = 0; j < n; j++) {
        void *c = (char *)p->c + (size_t)(j * p->ldc) * gx_number_bytes(dtype);
        for (int64_t i = 0; i < m; i++) {
            if (gx_number_is_complex(dtype)) {
                put_pair(d, c, i, alpha);
            } else {
                put(d, c, i, alpha.re);
            }
        }
    }
    return GX_OK;
}
GX_SIMD_SLOTS_DEFINE(gx_cpu_fill, fill)

/* from: the operands' columns; ld: 0 past the last of them. */
GX_INLINE gx_code walk(gx_kernel_id kernel, int operands, gx_number dtype, const gx_args *p,
                       gx_err *err)
{
    const void *from[3] = {p->a, p->b, p->b2};
    int64_t ld[3] = {p->lda, p->ldb, p->ldb2}, m = p->m, n = p->n;
    bool is_flat = p->ldc == m;
    for (int k = 0; k < operands; k++) {
        is_flat = is_flat && ld[k] == m;
    }
    if (m <= 0 || n <= 0) {
        return GX_OK;
    }
    if (is_flat) {
        m *= n;
        n = 1;
    }
    for (int64_t j = 0; j < n; j++) {
        const void *column[3] = {NULL, NULL, NULL};
        void *c = gx_at(p->c, dtype, p->ldc, 0, j);
        for (int k = 0; k < operands; k++) {
            column[k] = gx_at(from[k], dtype, ld[k], 0, j);
        }
        if (kernel == GX_MAP) {
            GX_TRY(gx_cpu_block(p->map, dtype, m, p->alpha, p->beta, column, c, err));
        } else if (c != column[0]) {
            memmove(c, column[0], (size_t)m * gx_number_bytes(dtype));
        }
    }
    return GX_OK;
}

GX_LOOP(copy)
{
    return walk(GX_COPY, 1, dtype, p, err);
}
GX_SLOTS_DEFINE(, gx_cpu_copy, copy)
GX_FIELD_SLOT_DEFINE(gx_cpu_copy, copy)

GX_INLINE gx_code map(gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_number result;
    GX_TRY(gx_map_dtype(p->map, dtype, &result, err));
    gx_cpu_block_open();
    return walk(GX_MAP, gx_map_row(p->map)->operands, dtype, p, err);
}
GX_SLOTS_DEFINE(, gx_cpu_map, map)
GX_FIELD_SLOT_DEFINE(gx_cpu_map, map)
