/*
** Transforms over the circle x^2 + y^2 = 1 modulo 2^31 - 1 (Habock, Levit, Papini, Circle STARKs,
** 2024), in the order of the prover stwo.
**
** The coefficients of a polynomial of 2^log terms are in natural order: bit 0 of an index stands
** for y, bit 1 for x, bit 2 for 2 x^2 - 1, bit 3 for that of that, and so on.  Its values are those
** at the points of a domain: of a half coset and then of their conjugates, where the half coset is
** g, g h, g h^2, ... with g of order 2^(log + 1) and h of order 2^(log - 1), powers of (2,
** 1268011823); the indices of the values are the points' with their bits reversed.
**
** Layer i has 2^(log - 1 - i) twiddles t: it takes elements that differ in bit i of their index to
** v0 + t v1 and v0 - t v1, t being that of the bits above.  From coefficients to values: from layer
** log - 1 down to 0.  Back: up, (v0 + v1, (v0 - v1) / t), and all divided by 2^log at the end.
*/
#ifndef GX_CIRCLE_H
#define GX_CIRCLE_H

#include "field.h"

enum { GX_CIRCLE_MOST = 30 }; /* the largest log */

/*
** The twiddles of layers 0 .. part - 1 for the elements of block b, 2^part of them that are next to
** each other, of a transform of 2^log: layer i's, 2^(part - 1 - i) of them, from element
** 2^part - 2^(part - i) of t on.  part is 1 only where log is.  is_inverse: 1 / t.
*/
void gx_circle_twiddles(int log, int part, int64_t b, bool is_inverse, uint32_t *t);

/* The powers of the generator of order 2^1 ... 2^31: what a device makes twiddles of. */
enum { GX_CIRCLE_POINTS = 32 };
void gx_circle_points(uint32_t x[GX_CIRCLE_POINTS], uint32_t y[GX_CIRCLE_POINTS]);

/* Where layer i's begin. */
static inline int64_t gx_circle_layer(int part, int i)
{
    return ((int64_t)1 << part) - ((int64_t)1 << (part - i));
}

#endif
