/*
** Twiddles of circle transforms: see circle.h.
**
** Layer 1 is made of the points with even index: q[h] = g h^(h's bits reversed), each from one with
** a bit less.  Layer 0's are their y and -y, since the odd ones are the points opposite.  Layer i +
** 1's are 2 t^2 - 1 of every second one of layer i's.  Inverses: prefix products, one division, and
** back, in LANES chains.
*/
#include "circle.h"

enum { LANES = 16 };

typedef struct point {
    uint32_t x, y;
} point;

static const point GENERATOR = {2, 1268011823};
enum { ORDER = 31 }; /* log2 of the generator's */

static inline point both(point a, point b)
{
    return (point){gx_m31_sub(gx_m31_mul(a.x, b.x), gx_m31_mul(a.y, b.y)),
                   gx_m31_add(gx_m31_mul(a.x, b.y), gx_m31_mul(a.y, b.x))};
}

/* A point of order 2^log. */
static point of_order(int log)
{
    point g = GENERATOR;
    for (int k = ORDER; k > log; k--) {
        g = both(g, g);
    }
    return g;
}

static inline uint32_t twice(uint32_t x)
{
    uint32_t square = gx_m31_mul(x, x);
    return gx_m31_sub(gx_m31_add(square, square), 1);
}

/* 1 / t for all of count, none of which is 0; room: as many. */
static void invert_in_lanes(uint32_t *t, int64_t count, uint32_t *room)
{
    for (int64_t k = 0; k < LANES; k++) {
        room[k] = t[k];
    }
    for (int64_t k = LANES; k < count; k++) {
        room[k] = gx_m31_mul(room[k - LANES], t[k]);
    }
    uint32_t rest[LANES];
    for (int64_t k = 0; k < LANES; k++) {
        rest[k] = gx_field_inverse(room[count - LANES + k], GX_M31_P);
    }
    for (int64_t k = count - LANES; k >= LANES; k -= LANES) {
        for (int64_t l = 0; l < LANES; l++) {
            uint32_t x = t[k + l];
            t[k + l] = gx_m31_mul(rest[l], room[k + l - LANES]);
            rest[l] = gx_m31_mul(rest[l], x);
        }
    }
    for (int64_t k = 0; k < LANES; k++) {
        t[k] = rest[k];
    }
}

static void invert(uint32_t *t, int64_t count)
{
    enum { ROOM = 4096 };
    uint32_t room[ROOM];
    int64_t k = 0;
    for (; count - k >= LANES; k += gx_min(ROOM, (count - k) / LANES * LANES)) {
        invert_in_lanes(t + k, gx_min(ROOM, (count - k) / LANES * LANES), room);
    }
    for (; k < count; k++) {
        t[k] = gx_field_inverse(t[k], GX_M31_P);
    }
}

void gx_circle_twiddles(int log, int part, int64_t b, bool is_inverse, uint32_t *t)
{
    const uint32_t p = GX_M31_P;
    if (part == 1) {
        t[0] = p - 1; // of (0, -1); its own inverse
        return;
    }
    // Room for the points: x in layer 1's place, y in layer 0's, first the even, then the odd half.
    int64_t count = (int64_t)1 << (part - 2);
    uint32_t *x = t + gx_circle_layer(part, 1), *y = t;
    point first = of_order(log + 1);
    for (int j = 0; j < log - part; j++) { // bits of the block
        if ((b >> j & 1) != 0) {
            first = both(first, of_order(part + j));
        }
    }
    x[0] = first.x;
    y[0] = first.y;
    for (int j = 0; j < part - 2; j++) {
        point step = of_order(2 + j);
        for (int64_t h = 0; h < (int64_t)1 << j; h++) {
            point q = both((point){x[h], y[h]}, step);
            x[h + ((int64_t)1 << j)] = q.x;
            y[h + ((int64_t)1 << j)] = q.y;
        }
    }
    for (int64_t h = count - 1; h >= 0; h--) {
        uint32_t even = y[h];
        y[2 * h] = even;
        y[2 * h + 1] = even == 0 ? 0 : p - even;
    }
    for (int i = 2; i < part; i++) {
        const uint32_t *from = t + gx_circle_layer(part, i - 1);
        uint32_t *to = t + gx_circle_layer(part, i);
        for (int64_t h = 0; h < (int64_t)1 << (part - 1 - i); h++) {
            to[h] = twice(from[2 * h]);
        }
    }
    if (is_inverse) {
        invert(t, ((int64_t)1 << part) - 1);
    }
}

void gx_circle_points(uint32_t x[GX_CIRCLE_POINTS], uint32_t y[GX_CIRCLE_POINTS])
{
    for (int log = 0; log < GX_CIRCLE_POINTS; log++) {
        point p = of_order(log);
        x[log] = p.x;
        y[log] = p.y;
    }
}
