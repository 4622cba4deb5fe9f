/*
** Powers of ten to 128 bits, for decimal.c: reading (Lemire's algorithm) and printing (Schubfach).
**
** 10^k = beta 2^r with 2^127 <= beta < 2^128; the row of k is ceil(beta), high word first.  beta's
** bits are those of 5^k, so 1 is multiplied by 5 again and again, exactly; and 2^1023 divided by 5,
** cut each time, which leaves floor(2^1023 / 5^-k): 228 bits at least, and the rest is never 0.
**
** Made once in a process, in a tenth of a millisecond, when the first number is read or printed.
*/
#include "decimal.h"

#include <pthread.h>

__extension__ typedef unsigned __int128 u128;

enum { LOW = 2, WORDS = 16 + LOW }; // the lowest two are 0, so that each top word has two behind it

static uint64_t rows[GX_POW10_MAX - GX_POW10_MIN + 1][2];

/* The 128 bits from the top of big, rounded up. */
static void set_row(int k, const uint64_t *big, bool is_exact)
{
    int top = WORDS - 1;
    while (big[top] == 0) {
        top--;
    }
    int zeros = __builtin_clzll(big[top]);
    u128 behind = (u128)big[top - 2] << zeros;
    u128 beta = ((u128)big[top] << 64 | big[top - 1]) << zeros | (uint64_t)(behind >> 64);
    is_exact = is_exact && (uint64_t)behind == 0;
    for (int i = LOW; i < top - 2; i++) {
        is_exact = is_exact && big[i] == 0;
    }
    beta += is_exact ? 0 : 1;
    rows[k - GX_POW10_MIN][0] = (uint64_t)(beta >> 64);
    rows[k - GX_POW10_MIN][1] = (uint64_t)beta;
}

static void make(void)
{
    uint64_t big[WORDS] = {[LOW] = 1}, small[WORDS] = {[WORDS - 1] = (uint64_t)1 << 63};
    for (int k = 0; k <= GX_POW10_MAX; k++) {
        u128 carry = 0;
        set_row(k, big, true);
        for (int i = LOW; i < WORDS; i++) {
            carry += (u128)big[i] * 5;
            big[i] = (uint64_t)carry;
            carry >>= 64;
        }
    }
    for (int k = -1; k >= GX_POW10_MIN; k--) {
        u128 rest = 0;
        for (int i = WORDS - 1; i >= LOW; i--) {
            rest = rest << 64 | small[i];
            small[i] = (uint64_t)(rest / 5);
            rest %= 5;
        }
        set_row(k, small, false);
    }
}

const uint64_t *gx_decimal_pow10(int64_t k)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make); // fails where `once` is none
    return rows[k - GX_POW10_MIN];
}
