/*
** Transforms of several lines at once, of one kind of number: see fft_int.h.  Included by
** lanes_f64.c and lanes_f32.c, which say REAL, LANES and NAME().
**
** A line is a lane of vectors: an element of LANES lines is a vector of real parts and one of
** imaginary parts, so that nothing is shuffled between the load and the store.  The passes are
** Stockham's (radices 2, 3, 4, 5, 7, 8, 11, 13, and any other prime by the same loop): a pass reads
** what lies apart and writes what comes in order, from one buffer to the other.
**
** All loops are inlined into a copy for AVX2 with fused multiply-adds and one for any processor.
*/
#include "fft_int.h"

#include <string.h>

#ifdef REAL

#define FORCED static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 16")

typedef REAL vec __attribute__((vector_size(LANES * sizeof(REAL)), may_alias));
typedef REAL loose
    __attribute__((vector_size(LANES * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));

typedef struct pair {
    vec re, im;
} pair;

// Butterflies -------------------------------------------------------------------------------------

FORCED pair add(pair a, pair b)
{
    return (pair){a.re + b.re, a.im + b.im};
}

FORCED pair sub(pair a, pair b)
{
    return (pair){a.re - b.re, a.im - b.im};
}

/* -i a */
FORCED pair turn(pair a)
{
    return (pair){a.im, -a.re};
}

FORCED pair times(pair a, REAL re, REAL im)
{
    return (pair){a.re * re - a.im * im, a.im * re + a.re * im};
}

FORCED pair many(pair a, pair b)
{
    return (pair){a.re * b.re - a.im * b.im, a.im * b.re + a.re * b.im};
}

FORCED void two(pair *a, pair *b)
{
    pair sum = add(*a, *b);
    *b = sub(*a, *b);
    *a = sum;
}

FORCED void four(pair *a, pair *b, pair *c, pair *d)
{
    two(a, c);
    two(b, d);
    two(a, b);
    pair rest = turn(*d), x = *c;
    *d = sub(x, rest);
    pair y = add(x, rest);
    *c = *b;
    *b = y;
}

FORCED void eight(pair *v)
{
    const REAL half = (REAL)0.70710678118654752440;
    for (int k = 0; k < 4; k++) {
        two(&v[k], &v[k + 4]);
    }
    pair a = v[5], b = v[7];
    v[5] = (pair){(a.re + a.im) * half, (a.im - a.re) * half};
    v[6] = turn(v[6]);
    v[7] = (pair){(b.im - b.re) * half, -(b.re + b.im) * half};
    four(&v[0], &v[1], &v[2], &v[3]);
    four(&v[4], &v[5], &v[6], &v[7]);
    pair x[8] = {v[0], v[4], v[1], v[5], v[2], v[6], v[3], v[7]};
    memcpy(v, x, sizeof x);
}

/* Of an odd prime: root holds cos and sin of 2 pi k / r, k < r. */
FORCED void odd(int r, pair *v, const REAL *root)
{
    pair sum[GX_FFT_RADIX / 2 + 1], rest[GX_FFT_RADIX / 2 + 1], all = v[0];
    UNROLLED
    for (int k = 1; k <= r / 2; k++) {
        sum[k] = add(v[k], v[r - k]);
        rest[k] = sub(v[k], v[r - k]);
        all = add(all, sum[k]);
    }
    UNROLLED
    for (int j = 1; j <= r / 2; j++) {
        pair a = v[0], b = {{0}, {0}};
        int at = 0;
        UNROLLED
        for (int k = 1; k <= r / 2; k++) {
            at = at + j >= r ? at + j - r : at + j;
            a = (pair){a.re + sum[k].re * root[2 * at], a.im + sum[k].im * root[2 * at]};
            b = (pair){b.re + rest[k].re * root[2 * at + 1], b.im + rest[k].im * root[2 * at + 1]};
        }
        v[j] = add(a, turn(b));
        v[r - j] = sub(a, turn(b));
    }
    v[0] = all;
}

FORCED void butterfly(int r, pair *v, const REAL *root)
{
    if (r == 2) {
        two(&v[0], &v[1]);
    } else if (r == 4) {
        four(&v[0], &v[1], &v[2], &v[3]);
    } else if (r == 8) {
        eight(v);
    } else {
        odd(r, v, root);
    }
}

/*
** One pass: elements q + s (p + m j), j < r, to q + s (r p + k), times w^(p k), w of order m r.
*/
FORCED void pass(int r, int64_t m, int64_t s, const REAL *root, const REAL *w,
                 const pair *restrict x, pair *restrict y)
{
    for (int64_t p = 0; p < m; p++, w += 2 * (r - 1)) {
        for (int64_t q = 0; q < s; q++) {
            pair v[GX_FFT_RADIX];
            v[0] = x[q + s * p];
            UNROLLED
            for (int j = 1; j < r; j++) {
                v[j] = x[q + s * (p + m * j)];
            }
            butterfly(r, v, root);
            y[q + s * r * p] = v[0];
            UNROLLED
            for (int k = 1; k < r; k++) {
                y[q + s * (r * p + k)] = p == 0 ? v[k] : times(v[k], w[2 * k - 2], w[2 * k - 1]);
            }
        }
    }
}

/* All passes of a line a lane; where the result is: x or y. */
FORCED pair *passes(const gx_fft_plan *plan, pair *x, pair *y)
{
    const REAL *w = plan->twiddles;
    int64_t m = plan->n, s = 1;
    for (int k = 0; k < plan->radices; k++) {
        int r = plan->radix[k];
        const REAL *root = w;
        m /= r;
        w += 2 * r;
        switch (r) {
#define CASE(R)                                                                                    \
    case R:                                                                                        \
        pass(R, m, s, root, w, x, y);                                                              \
        break;
            CASE(2)
            CASE(3) CASE(4) CASE(5) CASE(7) CASE(8) CASE(11) CASE(13)
#undef CASE
                default : pass(r, m, s, root, w, x, y);
        }
        w += 2 * m * (r - 1);
        s *= r;
        pair *z = x;
        x = y;
        y = z;
    }
    return x;
}

// Loads and stores --------------------------------------------------------------------------------

#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#if LANES == 2
#define EVEN 0, 2
#define ODD 1, 3
#define LOW 0, 2
#define HIGH 1, 3
#elif LANES == 4
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#define LOW 0, 4, 1, 5
#define HIGH 2, 6, 3, 7
#else
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#define LOW 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#endif

/* A complex number as one thing that is moved; half a vector of them, `next` reals apart. */
#ifdef REAL_IS_DOUBLE
typedef REAL unit __attribute__((vector_size(16), aligned(8), may_alias));
#if LANES == 2
#define GATHER(from, next) (*(const unit *)(from))
#define SCATTER(a, to, next) (*(unit *)(to) = (a))
#else
#define GATHER(from, next) PICK(*(const unit *)(from), *(const unit *)((from) + (next)), 0, 1, 2, 3)
#define SCATTER(a, to, next)                                                                       \
    (*(unit *)(to) = PICK(a, a, 0, 1), *(unit *)((to) + (next)) = PICK(a, a, 2, 3))
#endif
#else
typedef double unit __attribute__((aligned(4), may_alias));
typedef double units __attribute__((vector_size(LANES * sizeof(REAL)), may_alias));
FORCED vec gather(const REAL *from, int64_t next)
{
    units a = {0};
    UNROLLED
    for (int l = 0; l < LANES / 2; l++) {
        a[l] = *(const unit *)(from + l * next);
    }
    return (vec)a;
}
FORCED void scatter(vec x, REAL *to, int64_t next)
{
    units a = (units)x;
    UNROLLED
    for (int l = 0; l < LANES / 2; l++) {
        *(unit *)(to + l * next) = a[l];
    }
}
#define GATHER(from, next) gather(from, next)
#define SCATTER(a, to, next) scatter(a, to, next)
#endif

/* LANES complex numbers, `next` reals from one to the next. */
FORCED pair load_pairs(const REAL *from, int64_t next)
{
    vec a, b;
    if (next == 2) {
        a = *(const loose *)from;
        b = *(const loose *)(from + LANES);
    } else {
        a = GATHER(from, next);
        b = GATHER(from + next * (LANES / 2), next);
    }
    return (pair){PICK(a, b, EVEN), PICK(a, b, ODD)};
}

FORCED void store_pairs(pair x, REAL *to, int64_t next)
{
    vec a = PICK(x.re, x.im, LOW), b = PICK(x.re, x.im, HIGH);
    if (next == 2) {
        *(loose *)to = a;
        *(loose *)(to + LANES) = b;
    } else {
        SCATTER(a, to, next);
        SCATTER(b, to + next * (LANES / 2), next);
    }
}

/* Element `i` of `count` lines; the flags are known outside of the loop. */
FORCED pair load_one(const REAL *data, int64_t next, int64_t part, int count)
{
    pair v = {{0}, {0}};
    for (int l = 0; l < count; l++) {
        v.re[l] = data[l * next];
        v.im[l] = part == 0 ? 0 : data[l * next + part];
    }
    return v;
}

FORCED void store_one(pair v, REAL *data, int64_t next, int64_t part, int count)
{
    for (int l = 0; l < count; l++) {
        data[l * next] = v.re[l];
        if (part != 0) {
            data[l * next + part] = v.im[l];
        }
    }
}

/* How the elements of lines lie to one another. */
typedef enum way { BY_PAIRS, BY_PAIRS_ABREAST, BY_PARTS_ABREAST, ANYHOW } way;

FORCED way way_of(const gx_fft_place *place, int count)
{
    bool is_full = count == LANES, is_pair = place->part == 1 || place->part == -1;
    return is_full && is_pair && place->next == 2 ? BY_PAIRS_ABREAST
           : is_full && is_pair                   ? BY_PAIRS
           : is_full && place->next == 1          ? BY_PARTS_ABREAST
                                                  : ANYHOW;
}

FORCED void load_as(way how, bool is_turned, const gx_fft_place *from, int count, int64_t n,
                    pair *x)
{
    const REAL *data = (const REAL *)from->data - is_turned;
    int64_t step = from->step, next = how == BY_PAIRS_ABREAST ? 2 : from->next, part = from->part;
    for (int64_t i = 0; i < n; i++, data += step) {
        if (how == BY_PAIRS || how == BY_PAIRS_ABREAST) {
            pair v = load_pairs(data, next);
            x[i] = is_turned ? (pair){v.im, v.re} : v;
        } else if (how == BY_PARTS_ABREAST) {
            x[i] = (pair){*(const loose *)data, {0}};
            if (part != 0) {
                x[i].im = *(const loose *)(data + part);
            }
        } else {
            x[i] = load_one(data, next, part, count);
        }
    }
}

FORCED void store_as(way how, bool is_turned, const gx_fft_place *to, int count, int64_t n,
                     REAL scale, const pair *x)
{
    REAL *data = (REAL *)to->data - is_turned;
    int64_t step = to->step, next = how == BY_PAIRS_ABREAST ? 2 : to->next, part = to->part;
    for (int64_t i = 0; i < n; i++, data += step) {
        pair v = {x[i].re * scale, x[i].im * scale};
        if (how == BY_PAIRS || how == BY_PAIRS_ABREAST) {
            store_pairs(is_turned ? (pair){v.im, v.re} : v, data, next);
        } else if (how == BY_PARTS_ABREAST) {
            *(loose *)data = v.re;
            if (part != 0) {
                *(loose *)(data + part) = v.im;
            }
        } else {
            store_one(v, data, next, part, count);
        }
    }
}

/* what_as(how, is_turned, ...) with both constant. */
#define BY_WAY(what, place, count, ...)                                                            \
    do {                                                                                           \
        bool is_back = (place)->part == -1;                                                        \
        switch (way_of(place, count)) {                                                            \
        case BY_PAIRS:                                                                             \
            is_back ? what##_as(BY_PAIRS, true, __VA_ARGS__)                                       \
                    : what##_as(BY_PAIRS, false, __VA_ARGS__);                                     \
            break;                                                                                 \
        case BY_PAIRS_ABREAST:                                                                     \
            is_back ? what##_as(BY_PAIRS_ABREAST, true, __VA_ARGS__)                               \
                    : what##_as(BY_PAIRS_ABREAST, false, __VA_ARGS__);                             \
            break;                                                                                 \
        case BY_PARTS_ABREAST:                                                                     \
            what##_as(BY_PARTS_ABREAST, false, __VA_ARGS__);                                       \
            break;                                                                                 \
        default:                                                                                   \
            what##_as(ANYHOW, false, __VA_ARGS__);                                                 \
        }                                                                                          \
    } while (0)

/* x[k] of line first + l times w^(k (first + l)), w of order turn->n. */
FORCED void turn_lines(const gx_fft_turn *turn, int64_t first, int64_t n, pair *x)
{
    const REAL *low = turn->low, *high = turn->high;
    const pair *lane = turn->lanes;
    int64_t at = 0;
    for (int64_t k = 0; k < n; k++) {
        const REAL *a = low + 2 * (at & turn->mask), *b = high + 2 * (at >> turn->shift);
        REAL re = a[0] * b[0] - a[1] * b[1], im = a[0] * b[1] + a[1] * b[0];
        x[k] = many(x[k], times(lane[k], re, im));
        at += first;
        at = at >= turn->n ? at - turn->n : at;
    }
}

/* A group of lines, at most LANES: see fft_int.h. */
FORCED void group(const gx_fft_plan *plan, const gx_fft_group *g, void *room)
{
    pair *x = room;
    BY_WAY(load, &g->from, g->count, &g->from, g->count, plan->n, x);
    x = passes(plan, x, x + plan->n);
    if (g->turn != NULL) {
        turn_lines(g->turn, g->first, plan->n, x);
    }
    BY_WAY(store, &g->to, g->count, &g->to, g->count, plan->n, (REAL)g->scale, x);
}

void NAME(const gx_fft_plan *plan, const gx_fft_group *g, void *room)
{
    group(plan, g, room);
}

#endif
