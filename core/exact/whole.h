/*
** Whole numbers of any size: what exact results of many primes are put together in.
**
** Words of 32 bits, the lowest first, and a sign.  As much as determinants and fractions need:
** sums and products with one word, remainders, the greatest common divisor, decimal text.
*/
#ifndef GX_WHOLE_H
#define GX_WHOLE_H

#include "../base/mem.h"

typedef struct gx_whole {
    gx_mem *mem;
    uint32_t *word;
    int64_t words, capacity; /* the highest word is not 0; of zero there is none */
    bool is_negative;
} gx_whole;

void gx_whole_begin(gx_whole *x, gx_mem *mem); /* zero */
void gx_whole_clear(gx_whole *x);              /* zero, without memory */

static inline bool gx_whole_is_zero(const gx_whole *x)
{
    return x->words == 0;
}

/* x = value; x = y.  GX_NOMEM as for gx_mem_alloc(), here and below. */
gx_code gx_whole_set(gx_whole *x, int64_t value, gx_err *err);
gx_code gx_whole_copy(gx_whole *x, const gx_whole *y, gx_err *err);

/* |x| = |x| times + plus. */
gx_code gx_whole_times(gx_whole *x, uint32_t times, uint32_t plus, gx_err *err);

/* |x| = |y| - |x|, which is not negative. */
gx_code gx_whole_from(gx_whole *x, const gx_whole *y, gx_err *err);

/* Compares |x| with |y|: below 0, 0, above. */
int gx_whole_compare(const gx_whole *x, const gx_whole *y);

/* |x| = |x| / |y|, without a rest: y divides x and is not 0. */
gx_code gx_whole_divide_exactly(gx_whole *x, const gx_whole *y, gx_err *err);

/* *g = gcd(|x|, |y|); gcd(0, y) = |y|. */
gx_code gx_whole_gcd(const gx_whole *x, const gx_whole *y, gx_whole *g, gx_err *err);

/* *value = x; false: 64 bits do not hold it. */
bool gx_whole_fits(const gx_whole *x, int64_t *value);

/* Decimal digits, NUL behind them: *text is the caller's, of x->mem. */
gx_code gx_whole_text(const gx_whole *x, char **text, gx_err *err);

#endif
