/*
** Layers of a circle transform on the CPU (core/base/circle.h), vectorised along elements that are
** next to each other: those of a layer that lie apart, and of the three lowest layers of eight
** elements, groups of eight at once.  Two layers at a time otherwise, so that each pass over the
** elements does four layers' loads and stores for two.
*/
#include "cpu.h"

#include "../core/base/circle.h"

#ifdef __x86_64__
#define WIDE(words) __attribute__((target(words), noinline))
#endif

/* One pair of elements through a layer. */
GX_INLINE void pass_pair(bool is_back, uint32_t *x, uint32_t *y, uint32_t t)
{
    uint32_t a = *x, b = is_back ? *y : gx_m31_mul(*y, t), rest = gx_m31_sub(a, b);
    *x = gx_m31_add(a, b);
    *y = is_back ? gx_m31_mul(rest, t) : rest;
}

/* Where a layer's elements are: groups of pairs of runs, `apart` from one another. */
typedef struct runs {
    int64_t groups, inner, length; /* a group has `inner` runs of that length to either side */
    int64_t apart, step;           /* elements; from one of these runs to the next         */
} runs;

/* Layers `layer` and the next (count 2): runs without gaps are one. */
GX_INLINE runs runs_of(const gx_args *p, int layer, int count)
{
    int layers = (int)(p->pivot_last - p->pivot_first);
    int64_t inner = (int64_t)1 << layer;
    bool is_flat = p->k == p->ldb;
    return (runs){(int64_t)1 << (layers - layer - count), is_flat ? 1 : inner,
                  is_flat ? inner * p->k : p->k, inner * p->ldb, p->ldb};
}

/* One layer. */
GX_INLINE void pass_layer(bool is_back, uint32_t *v, const runs *r, const uint32_t *t)
{
    for (int64_t g = 0; g < r->groups; g++) {
        uint32_t by = t[g];
        for (int64_t q = 0; q < r->inner; q++) {
            uint32_t *restrict x = v + 2 * r->apart * g + q * r->step;
            uint32_t *restrict y = x + r->apart;
            for (int64_t e = 0; e < r->length; e++) {
                pass_pair(is_back, &x[e], &y[e], by);
            }
        }
    }
}

/* Two layers, of pairs `apart` and twice that. */
GX_INLINE void pass_two(bool is_back, uint32_t *v, const runs *r, const uint32_t *near,
                        const uint32_t *far)
{
    for (int64_t g = 0; g < r->groups; g++) {
        uint32_t t = far[g], t0 = near[2 * g], t1 = near[2 * g + 1];
        for (int64_t q = 0; q < r->inner; q++) {
            uint32_t *restrict a = v + 4 * r->apart * g + q * r->step, *restrict b = a + r->apart;
            uint32_t *restrict c = b + r->apart, *restrict d = c + r->apart;
            for (int64_t e = 0; e < r->length; e++) {
                uint32_t w = a[e], x = b[e], y = c[e], z = d[e];
                if (!is_back) {
                    pass_pair(false, &w, &y, t);
                    pass_pair(false, &x, &z, t);
                }
                pass_pair(is_back, &w, &x, t0);
                pass_pair(is_back, &y, &z, t1);
                if (is_back) {
                    pass_pair(true, &w, &y, t);
                    pass_pair(true, &x, &z, t);
                }
                a[e] = w;
                b[e] = x;
                c[e] = y;
                d[e] = z;
            }
        }
    }
}

/* The layers of pairs 4, 2 and 1 apart. */
GX_INLINE void pass_lowest(bool is_back, uint32_t *restrict v, int64_t m,
                           const uint32_t *restrict t0, const uint32_t *restrict t1,
                           const uint32_t *restrict t2)
{
    for (int64_t g = 0; 8 * g < m; g++) {
        uint32_t a[8];
        for (int k = 0; k < 8; k++) {
            a[k] = v[8 * g + k];
        }
        for (int k = 0; k < 4 && !is_back; k++) {
            pass_pair(false, &a[k], &a[k + 4], t2[g]);
        }
        for (int k = 0; k < 2 && !is_back; k++) {
            pass_pair(false, &a[4 * k], &a[4 * k + 2], t1[2 * g + k]);
            pass_pair(false, &a[4 * k + 1], &a[4 * k + 3], t1[2 * g + k]);
        }
        for (int k = 0; k < 4; k++) {
            pass_pair(is_back, &a[2 * k], &a[2 * k + 1], t0[4 * g + k]);
        }
        for (int k = 0; k < 2 && is_back; k++) {
            pass_pair(true, &a[4 * k], &a[4 * k + 2], t1[2 * g + k]);
            pass_pair(true, &a[4 * k + 1], &a[4 * k + 3], t1[2 * g + k]);
        }
        for (int k = 0; k < 4 && is_back; k++) {
            pass_pair(true, &a[k], &a[k + 4], t2[g]);
        }
        for (int k = 0; k < 8; k++) {
            v[8 * g + k] = a[k];
        }
    }
}

/* Some layers of a column from `layer` on, counted from the first; returns how many. */
GX_INLINE int pass_some(bool is_back, const gx_args *p, uint32_t *v, int layer)
{
    int first = (int)p->pivot_first, count = (int)p->pivot_last - first, log = (int)p->row_offset;
    bool has_lowest = p->k == 1 && p->ldb == 1 && count >= 3;
    bool is_lowest = has_lowest && layer == (is_back ? 0 : 2);
    bool is_two = is_back ? layer + 1 < count : layer > (has_lowest ? 3 : 0);
    int layers = is_lowest ? 3 : is_two ? 2 : 1, low = is_back ? layer : layer - layers + 1;
    const uint32_t *t[3];
    for (int k = 0; k < layers; k++) {
        t[k] = (const uint32_t *)p->a + gx_circle_layer(log, first + low + k);
    }
    runs r = runs_of(p, low, layers);
    if (is_lowest) {
        pass_lowest(is_back, v, (int64_t)1 << count, t[0], t[1], t[2]);
    } else if (is_two) {
        pass_two(is_back, v, &r, t[0], t[1]);
    } else {
        pass_layer(is_back, v, &r, t[0]);
    }
    return layers;
}

GX_INLINE gx_code pass_all(const gx_args *p)
{
    int count = (int)(p->pivot_last - p->pivot_first);
    for (int64_t j = 0; j < p->n; j++) {
        uint32_t *v = gx_at(p->c, GX_M31, p->ldc, 0, j);
        for (int done = 0; done < count;) {
            done += p->is_backward ? pass_some(true, p, v, done)
                                   : pass_some(false, p, v, count - 1 - done);
        }
    }
    return GX_OK;
}

#ifdef __x86_64__
static WIDE("avx512f,avx512dq,avx512vl") gx_code pass_avx512(const gx_args *p)
{
    return pass_all(p);
}

static WIDE("avx2") gx_code pass_avx2(const gx_args *p)
{
    return pass_all(p);
}
#endif

GX_LOOP(circle)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        return pass_avx512(p);
    }
    if (__builtin_cpu_supports("avx2")) {
        return pass_avx2(p);
    }
#endif
    return pass_all(p);
}
GX_FIELD_SLOT_DEFINE(gx_cpu_circle, circle)
