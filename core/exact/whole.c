/*
** Whole numbers of any size: see whole.h.
**
** Division is Knuth's algorithm D.  The greatest common divisor is Lehmer's: the quotients of
** Euclid's algorithm come from the highest 62 bits of both numbers as long as these decide them,
** and what some of them do together is done to the numbers in one pass (Knuth, The Art of Computer
** Programming 2, 4.3.1 and 4.5.2).
*/
#include "whole.h"

#include <stdio.h>
#include <string.h>

void gx_whole_begin(gx_whole *x, gx_mem *mem)
{
    *x = (gx_whole){.mem = mem};
}

void gx_whole_clear(gx_whole *x)
{
    gx_mem_free(x->mem, x->word);
    *x = (gx_whole){.mem = x->mem};
}

static void trim(gx_whole *x)
{
    while (x->words > 0 && x->word[x->words - 1] == 0) {
        x->words--;
    }
    x->is_negative = x->is_negative && x->words > 0;
}

static gx_code have(gx_whole *x, int64_t words, gx_err *err)
{
    if (words <= x->capacity) {
        return GX_OK;
    }
    int64_t capacity = gx_max(words, 2 * x->capacity);
    GX_TRY(gx_mem_realloc(x->mem, (size_t)capacity * sizeof *x->word, "a whole number", &x->word,
                          err));
    x->capacity = capacity;
    return GX_OK;
}

gx_code gx_whole_set(gx_whole *x, int64_t value, gx_err *err)
{
    GX_TRY(have(x, 2, err));
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    x->word[0] = (uint32_t)size;
    x->word[1] = (uint32_t)(size >> 32);
    x->words = 2;
    x->is_negative = value < 0;
    trim(x);
    return GX_OK;
}

gx_code gx_whole_copy(gx_whole *x, const gx_whole *y, gx_err *err)
{
    GX_TRY(have(x, gx_max(1, y->words), err));
    memcpy(x->word, y->word, (size_t)y->words * sizeof *x->word);
    x->words = y->words;
    x->is_negative = y->is_negative;
    return GX_OK;
}

gx_code gx_whole_times(gx_whole *x, uint32_t times, uint32_t plus, gx_err *err)
{
    GX_TRY(have(x, x->words + 1, err));
    uint64_t carry = plus;
    for (int64_t i = 0; i < x->words; i++) {
        carry += (uint64_t)x->word[i] * times;
        x->word[i] = (uint32_t)carry;
        carry >>= 32;
    }
    x->word[x->words++] = (uint32_t)carry;
    trim(x);
    return GX_OK;
}

int gx_whole_compare(const gx_whole *x, const gx_whole *y)
{
    if (x->words != y->words) {
        return x->words < y->words ? -1 : 1;
    }
    int64_t i = x->words - 1;
    while (i >= 0 && x->word[i] == y->word[i]) {
        i--;
    }
    return i < 0 ? 0 : x->word[i] < y->word[i] ? -1 : 1;
}

gx_code gx_whole_from(gx_whole *x, const gx_whole *y, gx_err *err)
{
    int64_t borrow = 0;
    GX_TRY(have(x, y->words, err));
    for (int64_t i = 0; i < y->words; i++) {
        int64_t word = (int64_t)y->word[i] - (i < x->words ? (int64_t)x->word[i] : 0) + borrow;
        x->word[i] = (uint32_t)word;
        borrow = word < 0 ? -1 : 0;
    }
    x->words = y->words;
    trim(x);
    return GX_OK;
}

/* |x| = |x| / by, the rest is returned; by > 0. */
static uint32_t divide_by(gx_whole *x, uint32_t by)
{
    uint64_t rest = 0;
    for (int64_t i = x->words - 1; i >= 0; i--) {
        rest = rest << 32 | x->word[i];
        x->word[i] = (uint32_t)(rest / by);
        rest %= by;
    }
    trim(x);
    return (uint32_t)rest;
}

// Division by more than a word --------------------------------------------------------------------

static void shift_left(uint32_t *x, int64_t words, int bits)
{
    for (int64_t i = words - 1; i >= 0 && bits > 0; i--) {
        x[i] = x[i] << bits | (i > 0 ? x[i - 1] >> (32 - bits) : 0);
    }
}

static void shift_right(uint32_t *x, int64_t words, int bits)
{
    for (int64_t i = 0; i < words && bits > 0; i++) {
        x[i] = x[i] >> bits | (i + 1 < words ? x[i + 1] << (32 - bits) : 0);
    }
}

/* x -= times y, words of y; what is borrowed from beyond is returned. */
static uint32_t subtract_times(uint32_t *x, const uint32_t *y, int64_t words, uint32_t times)
{
    uint64_t carry = 0;
    for (int64_t i = 0; i < words; i++) {
        carry += (uint64_t)y[i] * times;
        uint32_t low = (uint32_t)carry;
        carry = (carry >> 32) + (x[i] < low);
        x[i] -= low;
    }
    return (uint32_t)carry;
}

static void add_back(uint32_t *x, const uint32_t *y, int64_t words)
{
    uint64_t carry = 0;
    for (int64_t i = 0; i < words; i++) {
        carry += (uint64_t)x[i] + y[i];
        x[i] = (uint32_t)carry;
        carry >>= 32;
    }
    x[words] += (uint32_t)carry;
}

/* The quotient's word of the highest words of u, n + 1 of them, by v, whose highest bit is 1. */
static uint32_t quotient_word(const uint32_t *u, const uint32_t *v, int64_t n)
{
    uint64_t top = (uint64_t)u[n] << 32 | u[n - 1];
    uint64_t q = top / v[n - 1], rest = top % v[n - 1];
    while (q >> 32 != 0 || q * v[n - 2] > (rest << 32 | u[n - 2])) {
        q--;
        rest += v[n - 1];
        if (rest >> 32 != 0) {
            break;
        }
    }
    return (uint32_t)q;
}

/* |x| = |x| mod |y|, and the quotient where q is not NULL.  y has two words or more. */
static gx_code divide_long(gx_whole *x, const gx_whole *y, gx_whole *q, gx_err *err)
{
    int64_t n = y->words, count = x->words - n;
    gx_whole v = {.mem = x->mem};
    if (count < 0) {
        return q == NULL ? GX_OK : gx_whole_set(q, 0, err);
    }
    GX_TRY(have(x, x->words + 1, err));
    GX_TRY(gx_whole_copy(&v, y, err));
    gx_code code = q == NULL ? GX_OK : have(q, count + 1, err);
    if (code == GX_OK) {
        int bits = __builtin_clz(v.word[n - 1]);
        x->word[x->words] = 0;
        shift_left(v.word, n, bits);
        shift_left(x->word, x->words + 1, bits);
        for (int64_t j = count; j >= 0; j--) {
            uint32_t *u = x->word + j, word = quotient_word(u, v.word, n);
            uint32_t borrowed = subtract_times(u, v.word, n, word), high = u[n];
            u[n] = high - borrowed;
            if (high < borrowed) {
                word--;
                add_back(u, v.word, n);
            }
            if (q != NULL) {
                q->word[j] = word;
            }
        }
        x->words = n;
        shift_right(x->word, n, bits);
        trim(x);
    }
    if (code == GX_OK && q != NULL) {
        q->words = count + 1;
        trim(q);
    }
    gx_whole_clear(&v);
    return code;
}

gx_code gx_whole_divide_exactly(gx_whole *x, const gx_whole *y, gx_err *err)
{
    if (y->words == 1) {
        (void)divide_by(x, y->word[0]);
        return GX_OK;
    }
    gx_whole q = {.mem = x->mem};
    gx_code code = divide_long(x, y, &q, err);
    if (code == GX_OK) {
        q.is_negative = x->is_negative && q.words > 0;
        gx_whole_clear(x);
        *x = q;
        return GX_OK;
    }
    gx_whole_clear(&q);
    return code;
}

// The greatest common divisor ---------------------------------------------------------------------

static uint64_t value_of(const gx_whole *x)
{
    uint64_t high = x->words > 1 ? x->word[1] : 0;
    return x->words == 0 ? 0 : high << 32 | x->word[0];
}

/* 62 bits of x, from bit `low` on. */
static int64_t bits_from(const gx_whole *x, int64_t low)
{
    int64_t first = low / 32;
    int shift = (int)(low % 32);
    uint64_t word[3];
    for (int k = 0; k < 3; k++) {
        word[k] = first + k < x->words ? x->word[first + k] : 0;
    }
    uint64_t bits = (word[1] << 32 | word[0]) >> shift;
    bits |= shift == 0 ? 0 : word[2] << (64 - shift);
    return (int64_t)(bits & (((uint64_t)1 << 62) - 1));
}

/* What steps of Euclid's algorithm come to: (x, y) becomes (a x + b y, c x + d y). */
typedef struct steps {
    int64_t a, b, c, d;
} steps;

static steps steps_of(int64_t x, int64_t y)
{
    const int64_t MOST = (int64_t)1 << 30;
    steps s = {1, 0, 0, 1};
    while (y + s.c != 0 && y + s.d != 0) {
        int64_t q = (x + s.a) / (y + s.c);
        if (q != (x + s.b) / (y + s.d) || q >= MOST) {
            break;
        }
        steps next = {s.c, s.d, s.a - q * s.c, s.b - q * s.d};
        if (next.c >= MOST || next.c <= -MOST || next.d >= MOST || next.d <= -MOST) {
            break;
        }
        int64_t rest = x - q * y;
        x = y;
        y = rest;
        s = next;
    }
    return s;
}

/* x, y = a x + b y, c x + d y, both of which are not negative. */
static void combine(gx_whole *x, gx_whole *y, const steps *s)
{
    int64_t one = 0, two = 0; // factors are below 2^30, and of two signs
    int64_t words = x->words;
    for (int64_t i = 0; i < words; i++) {
        int64_t u = x->word[i], v = i < y->words ? y->word[i] : 0;
        one += s->a * u + s->b * v;
        two += s->c * u + s->d * v;
        x->word[i] = (uint32_t)one;
        y->word[i] = (uint32_t)two;
        one >>= 32;
        two >>= 32;
    }
    x->words = y->words = words;
    trim(x);
    trim(y);
}

static void exchange(gx_whole *x, gx_whole *y)
{
    gx_whole z = *x;
    *x = *y;
    *y = z;
}

static gx_code reduce(gx_whole *x, gx_whole *y, gx_err *err)
{
    while (y->words > 2) {
        int64_t bits = 32 * x->words - __builtin_clz(x->word[x->words - 1]);
        steps s = steps_of(bits_from(x, bits - 62), bits_from(y, bits - 62));
        if (s.b == 0) {
            GX_TRY(divide_long(x, y, NULL, err));
            exchange(x, y);
        } else {
            GX_TRY(have(y, x->words, err));
            combine(x, y, &s);
        }
    }
    if (y->words == 2) {
        GX_TRY(divide_long(x, y, NULL, err));
        exchange(x, y);
    }
    if (y->words == 1 && x->words > 2) {
        gx_whole copy = *x; // x is left the rest
        uint32_t rest = divide_by(&copy, y->word[0]);
        x->words = 0;
        GX_TRY(gx_whole_set(x, rest, err));
        exchange(x, y);
    }
    if (y->words == 0) {
        return GX_OK;
    }
    uint64_t u = value_of(x), v = value_of(y);
    while (v != 0) {
        uint64_t rest = u % v;
        u = v;
        v = rest;
    }
    GX_TRY(have(x, 2, err));
    x->word[0] = (uint32_t)u;
    x->word[1] = (uint32_t)(u >> 32);
    x->words = 2;
    trim(x);
    return GX_OK;
}

gx_code gx_whole_gcd(const gx_whole *x, const gx_whole *y, gx_whole *g, gx_err *err)
{
    gx_whole rest = {.mem = g->mem};
    bool is_less = gx_whole_compare(x, y) < 0;
    gx_code code = gx_whole_copy(g, is_less ? y : x, err);
    code = code == GX_OK ? gx_whole_copy(&rest, is_less ? x : y, err) : code;
    g->is_negative = rest.is_negative = false;
    code = code == GX_OK ? reduce(g, &rest, err) : code;
    gx_whole_clear(&rest);
    return code;
}

// Out ---------------------------------------------------------------------------------------------

bool gx_whole_fits(const gx_whole *x, int64_t *value)
{
    uint64_t size = value_of(x), most = (uint64_t)INT64_MAX + x->is_negative;
    *value = (int64_t)(x->is_negative ? 0 - size : size);
    return x->words <= 2 && size <= most;
}

gx_code gx_whole_text(const gx_whole *x, char **text, gx_err *err)
{
    const uint32_t NINE = 1000000000;
    enum { DIGITS = 9 };
    int64_t groups = x->words * 32 / 29 + 1, at = groups * DIGITS + 2; // 10^9 > 2^29
    gx_whole rest = {.mem = x->mem};
    char *to;
    *text = NULL;
    GX_TRY(gx_mem_alloc(x->mem, (size_t)at, "a number's digits", &to, err));
    gx_code code = gx_whole_copy(&rest, x, err);
    if (code != GX_OK) {
        gx_mem_free(x->mem, to);
        return code;
    }
    int64_t bytes = at;
    to[--at] = '\0';
    do {
        uint32_t group = divide_by(&rest, NINE);
        for (int k = 0; k < DIGITS && (k == 0 || group > 0 || rest.words > 0); k++) {
            to[--at] = (char)('0' + group % 10);
            group /= 10;
        }
    } while (rest.words > 0);
    if (x->is_negative) {
        to[--at] = '-';
    }
    memmove(to, to + at, (size_t)(bytes - at));
    *text = to;
    gx_whole_clear(&rest);
    return GX_OK;
}
