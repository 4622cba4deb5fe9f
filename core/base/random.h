/*
** Random matrices: each element is a function of (seed, i, j) alone.
**
** The generator is counter-based (Philox2x64-10), so any rectangle can be made on its own, by any
** thread or device, in any order, and the matrix is the same.  The formulas that turn its words
** into numbers use correctly rounded IEEE operations only: the same bits everywhere.  See random.c.
*/
#ifndef GX_RANDOM_H
#define GX_RANDOM_H

#include "err.h"
#include "types.h"

typedef enum gx_random_kind {
    GX_RANDOM_UNIFORM, /* a <= x < b          */
    GX_RANDOM_NORMAL   /* mean a, deviation b */
} gx_random_kind;

typedef struct gx_random {
    gx_random_kind kind;
    gx_number dtype;  /* complex: both parts are drawn             */
    uint64_t seed;
    double offset;   /* low, mean                                 */
    double scale;    /* high - low, standard deviation            */
    double largest;  /* uniform: the largest number below high, in dtype's precision */
} gx_random;

/*
** Uniform in [a, b), or normal with mean a and standard deviation b; complex dtypes draw the real
** and the imaginary part independently, each from that distribution.  GX_ARG: not finite, a > b, a
** negative deviation, a range that overflows.
*/
gx_code gx_random_init(gx_random *random, gx_random_kind kind, gx_number dtype, int64_t seed,
                       double a, double b, gx_err *err);

/* The elements: a gx_generate; arg is a gx_random.  A real one makes complex elements re + 0i. */
void gx_random_generate(const void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n,
                        gx_number dtype, void *dst, int64_t ld);

/*
** Single elements, at (i[k], j[k]), as doubles: one each, or two where random's dtype is complex.
*/
enum { GX_RANDOM_SINGLES = 64 };

void gx_random_singles(const gx_random *random, int count, const int64_t *i, const int64_t *j,
                       double *x);

/* Philox2x64-10: 128 random bits from a 128-bit counter and a 64-bit key. */
void gx_philox(const uint64_t counter[2], uint64_t key, uint64_t out[2]);

/* The standard normal quantile of p = (word / 2^12 + 1/2) / 2^52, for the tests. */
double gx_random_normal_of(uint64_t word);

#endif
