/*
** Whole numbers modulo a prime p below 2^31: the arithmetic of the number GX_M31, whose p is
** 2^31 - 1, and of `"mod":p`.
**
** Elements are canonical: 0 .. p - 1.  Arguments of any 32 bits give an element, too, but for
** those of gx_field_add() and gx_field_sub().
*/
#ifndef GX_FIELD_H
#define GX_FIELD_H

#include "map.h"

static inline uint32_t gx_field_add(uint32_t a, uint32_t b, uint32_t p)
{
    uint32_t sum = a + b; // below 2^32
    return sum >= p ? sum - p : sum;
}

static inline uint32_t gx_field_sub(uint32_t a, uint32_t b, uint32_t p)
{
    return a >= b ? a - b : a + p - b;
}

static inline uint32_t gx_field_mul(uint32_t a, uint32_t b, uint32_t p)
{
    return (uint32_t)((uint64_t)a * b % p);
}

/*
** The same modulo 2^31 - 1, without a division, in a form that is vectorised: 2^31 is 1, and of a
** number and that less p (or more) the smaller one is the element, since the other has wrapped.
*/
static inline uint32_t gx_m31_add(uint32_t a, uint32_t b)
{
    uint32_t sum = a + b, less = sum - GX_M31_P;
    return less < sum ? less : sum;
}

static inline uint32_t gx_m31_sub(uint32_t a, uint32_t b)
{
    uint32_t rest = a - b, more = rest + GX_M31_P;
    return more < rest ? more : rest;
}

static inline uint32_t gx_m31_mul(uint32_t a, uint32_t b)
{
    uint64_t product = (uint64_t)a * b;
    return gx_m31_add((uint32_t)(product & GX_M31_P), (uint32_t)(product >> 31));
}

/* a^exponent; 0^0 is 1. */
static inline uint32_t gx_field_pow(uint32_t a, uint64_t exponent, uint32_t p)
{
    uint32_t result = 1 % p;
    for (; exponent > 0; exponent >>= 1) {
        result = (exponent & 1) != 0 ? gx_field_mul(result, a, p) : result;
        a = gx_field_mul(a, a, p);
    }
    return result;
}

/* The element x with a x = 1, by Fermat; of 0 it is 0, which is none: the caller looks first. */
static inline uint32_t gx_field_inverse(uint32_t a, uint32_t p)
{
    return gx_field_pow(a, p - 2, p);
}

/* A whole number of any size as an element. */
static inline uint32_t gx_field_of(int64_t x, uint32_t p)
{
    int64_t rest = x % (int64_t)p;
    return (uint32_t)(rest < 0 ? rest + (int64_t)p : rest);
}

/*
** A function of map.h at elements of GX_M31: alpha and beta are elements, too.  The exponent of a
** power is the element itself.  A quotient by 0, which no element is, is 0: who divides looks.
*/
static inline uint32_t gx_field_map(gx_map_kind kind, uint32_t alpha, uint32_t beta, uint32_t a,
                                    uint32_t b, uint32_t c)
{
    const uint32_t p = GX_M31_P;
    switch (kind) {
    case GX_MAP_ADD:
        return gx_field_add(gx_field_mul(alpha, a, p), gx_field_mul(beta, b, p), p);
    case GX_MAP_MUL:
        return gx_field_mul(a, b, p);
    case GX_MAP_DIV:
        return gx_field_mul(a, gx_field_inverse(b, p), p);
    case GX_MAP_SCALE:
        return gx_field_mul(alpha, a, p);
    case GX_MAP_SQUARE:
        return gx_field_mul(a, a, p);
    case GX_MAP_RECIPROCAL:
        return gx_field_inverse(a, p);
    case GX_MAP_POW:
        return gx_field_pow(a, b, p);
    case GX_MAP_WHERE:
        return a != 0 ? b : c;
    case GX_MAP_EQUAL:
        return a == b;
    case GX_MAP_NOT_EQUAL:
        return a != b;
    case GX_MAP_LOGICAL_AND:
        return a != 0 && b != 0;
    case GX_MAP_LOGICAL_OR:
        return a != 0 || b != 0;
    case GX_MAP_LOGICAL_XOR:
        return (a != 0) != (b != 0);
    case GX_MAP_LOGICAL_NOT:
        return a == 0;
    default:
        return 0;
    }
}

/* Does the function divide by its operand number 0 or 1?  -1: by none. */
static inline int gx_field_divides_by(gx_map_kind kind)
{
    return kind == GX_MAP_DIV ? 1 : kind == GX_MAP_RECIPROCAL ? 0 : -1;
}

#define GX_FIELD_ZERO_TEXT "a division by zero modulo 2^31 - 1"

#endif
