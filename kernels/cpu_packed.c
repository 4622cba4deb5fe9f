/*
** Rows of f32 beside queries, where the processor has vectors of 512 bits and no matrix unit.
**
** Who looks for neighbours multiplies a block of rows with queries, and hardly any product is of
** use.  A BLAS packs both operands in each call, writes all products to memory and leaves them to
** be read again.  Here rows are packed once for all queries; queries are used where they lie, a
** number at a time, which is good for a whole vector of rows; and a product is compared with what
** its query wants while it is in a register: it is stored where one of its group is wanted.
**
**   group    GX_PACKED_GROUP rows, four vectors: k columns of them, one after the other
**   DEEP     queries, a number of each of which meets one column of the group: 24 sums, 4 vectors
**            and a number are 29 registers of 32, and 10 loads feed 24 multiplications
**   block    groups that stay in the second cache while all queries pass, each batch of DEEP
**            through the first one
**
** Sums add their k terms in ascending order, fused: within the rounding that foretell.h knows.
**
** Goto & van de Geijn 2008; GEMM with the selection inside: Yu, Huang, Austin, Xiao & Biros 2015
** (performance optimization for the k-nearest-neighbors kernel).
*/
#include "cpu_packed.h"

#include "slots.h"

#include <float.h>
#include <string.h>

enum { LANES = 16, VECTORS = GX_PACKED_GROUP / LANES, DEEP = GX_PACKED_QUERIES };

/*
** A block's bytes, for a second cache of 1 MiB or more; the longest rows, of which one group is as
** much; columns asked for ahead of the one being packed.
*/
enum { BLOCK_BYTES = 640 << 10, LONGEST = 4096, AHEAD = 4 };

typedef float vec __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

#ifdef __x86_64__
#define ON_VECTORS __attribute__((target("avx512f,avx512dq,avx512vl"), noinline))
#else
#define ON_VECTORS
#endif

bool gx_cpu_packed_takes(int64_t k)
{
#ifdef __x86_64__
    return k > 0 && k <= LONGEST && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
    (void)k;
    return false;
#endif
}

ON_VECTORS
void gx_cpu_pack(const float *a, int64_t lda, int64_t rows, int64_t k, const float *shift,
                 float *to, double *square)
{
    for (int64_t i = 0; i < rows; i++) {
        square[i] = 0;
    }
    for (int64_t l = 0; l < k; l++) {
        const float *column = a + l * lda, *later = a + gx_min(l + AHEAD, k - 1) * lda;
        float off = shift != NULL ? shift[l] : 0;
        for (int64_t i0 = 0; i0 < rows; i0 += GX_PACKED_GROUP) {
            int64_t count = gx_min(GX_PACKED_GROUP, rows - i0);
            float *x = to + i0 * k + l * GX_PACKED_GROUP;
            for (int64_t i = 0; i < count; i += LANES) {
                __builtin_prefetch(later + i0 + i);
            }
            for (int64_t i = 0; i < count; i++) {
                x[i] = column[i0 + i] - off;
                square[i0 + i] += (double)x[i] * (double)x[i];
            }
            for (int64_t i = count; i < GX_PACKED_GROUP; i++) {
                x[i] = 0;
            }
        }
    }
}

/* sum[c][t]: alpha times vector t of the group at x with query b[c]. */
GX_INLINE void multiply(const float *x, const float *const b[DEEP], int64_t k, float alpha,
                        vec sum[DEEP][VECTORS])
{
#pragma GCC unroll 4 // a twentieth faster
    for (int64_t l = 0; l < k; l++, x += GX_PACKED_GROUP) {
        vec v[VECTORS];
        for (int t = 0; t < VECTORS; t++) {
            v[t] = *(const vec *)(x + t * LANES);
        }
        for (int c = 0; c < DEEP; c++) {
            float y = b[c][l];
            for (int t = 0; t < VECTORS; t++) {
                sum[c][t] += v[t] * y;
            }
        }
    }
    for (int c = 0; c < DEEP; c++) {
        for (int t = 0; t < VECTORS; t++) {
            sum[c][t] *= alpha;
        }
    }
}

/* Whether one of a group's values is wanted, or is no number. */
GX_INLINE bool is_wanted(gx_sight how, const float *value, const float *factor, float least)
{
    int any = 0;
    for (int i = 0; i < GX_PACKED_GROUP; i++) {
        float v = gx_seen_f32(how, value[i], factor[i]);
        any |= !(v < least) | (v < -FLT_MAX);
    }
    return any != 0;
}

/* Queries j .. j + DEEP - 1, or the last one again, beside the group of rows from i0 on. */
GX_INLINE void look_at_group(const gx_packed *p, gx_sight how, int64_t i0, int64_t j)
{
    vec sum[DEEP][VECTORS] = {{{0}}};
    const float *b[DEEP], *factor = p->factor + i0;
    int64_t ld = gx_ceil_div(p->rows, GX_PACKED_GROUP) * GX_PACKED_GROUP;
    for (int c = 0; c < DEEP; c++) {
        b[c] = p->b + gx_min(j + c, p->n - 1) * p->ldb;
    }
    multiply(p->x + i0 * p->k, b, p->k, p->alpha, sum);
    for (int c = 0; c < DEEP; c++) {
        int64_t at = gx_min(j + c, p->n - 1);
        if (is_wanted(how, (const float *)sum[c], factor, p->least[at])) {
            p->mark[at] = (uint16_t)(p->mark[at] | 1U << i0 / GX_PACKED_GROUP);
            memcpy(p->value + at * ld + i0, sum[c], sizeof sum[c]);
        }
    }
}

GX_INLINE void look(const gx_packed *p, gx_sight how)
{
    int64_t groups = BLOCK_BYTES / ((int64_t)sizeof(float) * GX_PACKED_GROUP * p->k);
    int64_t step = gx_max(1, groups) * GX_PACKED_GROUP;
    for (int64_t first = 0; first < p->rows; first += step) {
        int64_t end = gx_min(first + step, p->rows);
        for (int64_t j = 0; j < p->n; j += DEEP) {
            for (int64_t i0 = first; i0 < end; i0 += GX_PACKED_GROUP) {
                look_at_group(p, how, i0, j);
            }
        }
    }
}

ON_VECTORS
void gx_cpu_packed_look(const gx_packed *p)
{
    memset(p->mark, 0, (size_t)p->n * sizeof *p->mark);
    switch (p->how) {
    case GX_SEEN_TIMES_FACTOR:
        look(p, GX_SEEN_TIMES_FACTOR);
        break;
    case GX_SEEN_LESS_FACTOR:
        look(p, GX_SEEN_LESS_FACTOR);
        break;
    default:
        look(p, GX_SEEN_AS_IT_IS);
        break;
    }
}
