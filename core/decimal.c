/*
** Numbers as text: see decimal.h.
**
** Parsing.  The digits are gathered in a 64-bit integer m with a decimal exponent e: m * 10^e.
**   m < 2^53, |e| <= 22     both are exact doubles, one operation rounds once (Clinger 1990)
**   m < 2^64, |e| <= 19     exact in 128-bit integers, with a sticky bit for what a division leaves
**   otherwise               strtod() on digits and exponent alone, without a point: no locale
**                           matters; 780 digits and a sticky one decide any double
**
** Printing.  x = m * 2^e lies alone between two neighbours' midpoints.  For 2^-16 <= x < 1e16 the
** interval and x itself, scaled by a power of ten to 17 digits, fit in 128-bit integers, so that
** the largest power of ten with a multiple inside the interval is found exactly: these are the
** fewest digits; of several the one nearest to x is taken.  Elsewhere the C library prints 1, 2,
** ... 17 digits until they read back.  About 50 ns and 1 us.
**
** No allocation, any thread.
*/
#include "decimal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 u128;

enum { SLOW_DIGITS = 780 }; /* a midpoint between doubles has at most 767 significant digits */

/* 10^0 .. 10^22: the powers of ten that are doubles. */
static const double exact_power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                     1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                     1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* 10^0 .. 10^19: those that fit in 64 bits. */
static const uint64_t power10[] = {1u,
                                   10u,
                                   100u,
                                   1000u,
                                   10000u,
                                   100000u,
                                   1000000u,
                                   10000000u,
                                   100000000u,
                                   1000000000u,
                                   10000000000u,
                                   100000000000u,
                                   1000000000000u,
                                   10000000000000u,
                                   100000000000000u,
                                   1000000000000000u,
                                   10000000000000000u,
                                   100000000000000000u,
                                   1000000000000000000u,
                                   10000000000000000000u};

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The word at text, in any case; word is in lower case. */
static bool has_word(const char *text, const char *end, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(end - text) < length) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if ((text[i] | 0x20) != word[i]) {
            return false;
        }
    }
    return true;
}

static bool parse_word(const char *text, const char *end, const char **stop, double *value)
{
    static const struct {
        const char *word;
        double value;
    } words[] = {{"nan", (double)NAN}, {"infinity", (double)INFINITY}, {"inf", (double)INFINITY}};
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
        if (has_word(text, end, words[w].word)) {
            *stop = text + strlen(words[w].word);
            *value = words[w].value;
            return true;
        }
    }
    return false;
}

/* Unsigned digits as they were found. */
typedef struct digits {
    const char *first; /* first significant digit; a point may lie among the digits  */
    const char *last;  /* one past the last digit                                    */
    uint64_t m;        /* the first 19 significant digits                            */
    int64_t exponent;  /* value = m * 10^exponent when !is_long                      */
    int64_t count;     /* significant digits                                         */
    bool is_long;      /* more than 19, and those beyond are not all zero            */
} digits;

/* Digits and point.  false when there is no digit. */
static bool scan_digits(const char *text, const char *end, digits *d, const char **stop)
{
    bool seen_point = false, seen_digit = false;
    *d = (digits){0};
    const char *c = text;
    for (; c < end; c++) {
        if (*c == '.' && !seen_point) {
            seen_point = true;
            continue;
        }
        if (!is_digit(*c)) {
            break;
        }
        seen_digit = true;
        d->exponent -= seen_point;
        if (d->count == 0 && *c == '0') {
            continue;
        }
        if (d->count == 0) {
            d->first = c;
        }
        if (d->count < 19) {
            d->m = d->m * 10 + (uint64_t)(*c - '0');
        } else {
            d->exponent++;
            d->is_long = d->is_long || *c != '0';
        }
        d->count++;
    }
    d->last = c;
    *stop = c;
    return seen_digit;
}

/* "e-12" at text, when it is one; added to *exponent, clamped far outside any double. */
static const char *scan_exponent(const char *text, const char *end, int64_t *exponent)
{
    const char *c = text;
    if (c == end || (*c != 'e' && *c != 'E')) {
        return text;
    }
    c++;
    bool is_negative = c < end && *c == '-';
    if (c < end && (*c == '-' || *c == '+')) {
        c++;
    }
    if (c == end || !is_digit(*c)) {
        return text;
    }
    int64_t e = 0;
    for (; c < end && is_digit(*c); c++) {
        if (e < (int64_t)1 << 40) {
            e = e * 10 + (*c - '0');
        }
    }
    *exponent += is_negative ? -e : e;
    return c;
}

static double slow_value(const digits *d)
{
    char text[SLOW_DIGITS + 32];
    int n = 0;
    int64_t exponent = d->exponent;
    int64_t kept = d->count < 19 ? d->count : 19;
    bool is_sticky = false;
    if (!d->is_long) { // m holds every digit that is not zero
        n = snprintf(text, sizeof text, "%llu", (unsigned long long)d->m);
    } else {
        for (const char *c = d->first; c < d->last; c++) {
            if (*c == '.') {
                continue;
            }
            if (n < SLOW_DIGITS) {
                text[n++] = *c;
            } else {
                is_sticky = is_sticky || *c != '0';
            }
        }
        exponent -= n - kept; // the digits beyond the 19th that are written out
        if (is_sticky) {
            text[n++] = '1';
            exponent--;
        }
    }
    exponent = gx_max(-100000, gx_min(100000, exponent));
    snprintf(text + n, sizeof text - (size_t)n, "e%lld", (long long)exponent);
    return strtod(text, NULL);
}

/* m * 10^-k for k <= 19, rounded once. */
static double divide(uint64_t m, int k)
{
    int shift = __builtin_clzll(m);
    u128 numerator = (u128)(m << shift) << 63;
    u128 quotient = numerator / power10[k]; // at least 2^62: bits below the 53 and one to spare
    if (quotient * power10[k] != numerator) {
        quotient |= 1;
    }
    return ldexp((double)quotient, -63 - shift);
}

static double value_of(const digits *d)
{
    int64_t e = d->exponent;
    if (d->m == 0) {
        return 0;
    }
    if (!d->is_long && d->m < (uint64_t)1 << 53 && e >= -22 && e <= 22) {
        double m = (double)d->m;
        return e < 0 ? m / exact_power[-e] : m * exact_power[e];
    }
    if (!d->is_long && e >= 0 && e <= 19) {
        return (double)((u128)d->m * power10[e]);
    }
    if (!d->is_long && e < 0 && e >= -19) {
        return divide(d->m, (int)-e);
    }
    return slow_value(d);
}

bool gx_decimal_parse(const char *text, const char *end, const char **stop, double *value)
{
    const char *c = text;
    bool is_negative = c < end && *c == '-';
    if (c < end && (*c == '-' || *c == '+')) {
        c++;
    }
    double magnitude;
    digits d;
    const char *after;
    if (c < end && (is_digit(*c) || *c == '.')) {
        if (!scan_digits(c, end, &d, &after)) {
            return false;
        }
        after = scan_exponent(after, end, &d.exponent);
        magnitude = value_of(&d);
    } else if (!parse_word(c, end, &after, &magnitude)) {
        return false;
    }
    *stop = after;
    *value = is_negative ? -magnitude : magnitude;
    return true;
}

bool gx_decimal_parse_i64(const char *text, const char *end, int64_t *value)
{
    const char *c = text;
    bool is_negative = c < end && *c == '-';
    if (c < end && (*c == '-' || *c == '+')) {
        c++;
    }
    if (c == end) {
        return false;
    }
    int64_t sum = 0; // built negative, so that -2^63 is reached
    for (; c < end; c++) {
        if (!is_digit(*c) || __builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_sub_overflow(sum, *c - '0', &sum)) {
            return false;
        }
    }
    if (!is_negative && sum == INT64_MIN) {
        return false;
    }
    *value = is_negative ? sum : -sum;
    return true;
}

/* ---- complex numbers ------------------------------------------------------------------------- */

static const char *skip_space(const char *c, const char *end)
{
    while (c < end && (*c == ' ' || *c == '\t' || *c == '\n' || *c == '\r')) {
        c++;
    }
    return c;
}

static bool is_unit(const char *c, const char *end)
{
    return c < end && (*c == 'i' || *c == 'j' || *c == 'I' || *c == 'J');
}

/*
** One term: sign (required unless first), number, unit.  A unit alone is 1.  "inf" starts with a
** unit's letter, so the number is tried first.
*/
static bool parse_term(const char **at, const char *end, bool is_first, double *value,
                       bool *is_imaginary)
{
    const char *c = skip_space(*at, end);
    double sign = 1;
    if (c < end && (*c == '+' || *c == '-')) {
        sign = *c == '-' ? -1 : 1;
        c = skip_space(c + 1, end);
    } else if (!is_first) {
        return false;
    }
    if (c < end && (*c == '+' || *c == '-')) {
        return false;
    }
    double magnitude = 1;
    bool has_number = gx_decimal_parse(c, end, &c, &magnitude);
    *is_imaginary = is_unit(c, end);
    if (!has_number && !*is_imaginary) {
        return false;
    }
    *value = sign * magnitude;
    *at = *is_imaginary ? c + 1 : c;
    return true;
}

bool gx_decimal_parse_complex(const char *text, const char *end, gx_scalar *value, bool *is_complex)
{
    const char *c = skip_space(text, end);
    while (end > c && skip_space(end - 1, end) == end) {
        end--;
    }
    if (end - c >= 2 && *c == '(' && end[-1] == ')') {
        c++;
        end--;
    }
    double first, second = 0;
    bool is_imaginary, is_second_imaginary = false;
    if (!parse_term(&c, end, true, &first, &is_imaginary)) {
        return false;
    }
    c = skip_space(c, end);
    if (c < end && (is_imaginary || !parse_term(&c, end, false, &second, &is_second_imaginary) ||
                    !is_second_imaginary)) {
        return false;
    }
    if (skip_space(c, end) != end) {
        return false;
    }
    *value = is_imaginary ? (gx_scalar){0, first} : (gx_scalar){first, second};
    *is_complex = is_imaginary || is_second_imaginary;
    return true;
}

/* ---- printing -------------------------------------------------------------------------------- */

/* n in units of 10^exponent, without trailing zeros; *point: places before the point. */
static int write_digits(uint64_t n, int exponent, char text[GX_DECIMAL_MAX], int *point)
{
    while (n % 10 == 0) {
        n /= 10;
        exponent++;
    }
    int count = snprintf(text, GX_DECIMAL_MAX, "%llu", (unsigned long long)n);
    *point = count + exponent;
    return count;
}

/*
** Shortest digits by exact arithmetic.  In units of 2^(e-2): x is 4m, its neighbours' midpoints are
** 4m + 2 and 4m - 2, or 4m - 1 below a power of two.  places: significant digits that always
** suffice.
*/
static int exact_digits(uint64_t m, int e, bool is_power_of_2, int places,
                        char text[GX_DECIMAL_MAX], int *point)
{
    // Scale by 10^p so that x has at least that many digits before the point.
    int shift = 2 - e;
    int log2 = 63 - __builtin_clzll(m) + e;
    int p = (int)gx_max(0, places - 1 - (int)floor(log2 * 0.30102999566398120));
    u128 scale = p <= 19 ? power10[p] : (u128)power10[19] * power10[p - 19];
    u128 x = (u128)(4 * m) * scale;
    u128 low = (u128)(4 * m - (is_power_of_2 ? 1 : 2)) * scale, high = (u128)(4 * m + 2) * scale;
    if (shift < 0) {
        x <<= -shift;
        low <<= -shift;
        high <<= -shift;
        shift = 0;
    }

    // The integers inside the interval; its ends read back as x when m is even.
    u128 mask = ((u128)1 << shift) - 1;
    bool is_even = m % 2 == 0;
    uint64_t first = (uint64_t)(low >> shift) + ((low & mask) != 0 || !is_even);
    uint64_t last = (uint64_t)(high >> shift) - ((high & mask) == 0 && !is_even);

    // The largest power of ten with a multiple among them.
    int k = 0;
    while ((first + 9) / 10 <= last / 10) {
        first = (first + 9) / 10;
        last /= 10;
        k++;
    }

    // The multiple nearest to x.
    uint64_t whole = (uint64_t)(x >> shift), unit = power10[k], n = whole / unit;
    u128 twice = 2 * ((((u128)(whole % unit)) << shift) + (x & mask)), one = (u128)unit << shift;
    if (twice > one || (twice == one && n % 2 == 1)) {
        n++;
    }
    n = n < first ? first : n > last ? last : n;
    return write_digits(n, k - p, text, point);
}

static bool reads_back(uint64_t n, int exponent, bool is_f32, double value)
{
    char text[GX_DECIMAL_MAX + 8];
    snprintf(text, sizeof text, "%llue%d", (unsigned long long)n, exponent);
    return is_f32 ? (double)strtof(text, NULL) == value : strtod(text, NULL) == value;
}

/* Shortest digits by trying: 1, 2, ... until they read back. */
static int tried_digits(double value, bool is_f32, char text[GX_DECIMAL_MAX], int *point)
{
    for (int places = 1;; places++) {
        char printed[GX_DECIMAL_MAX + 8];
        uint64_t n = 0;
        snprintf(printed, sizeof printed, "%.*e", places - 1, value);
        const char *c = printed;
        for (; *c != 'e'; c++) { // the locale's point, whatever it is, is no digit
            if (is_digit(*c)) {
                n = n * 10 + (uint64_t)(*c - '0');
            }
        }
        int exponent = (int)strtol(c + 1, NULL, 10) - (places - 1);
        // Below a power of two the interval is narrower: the next one up may read back where n does
        // not.
        for (uint64_t candidate = n; candidate <= n + 1; candidate++) {
            if (reads_back(candidate, exponent, is_f32, value) || places == 17) {
                return write_digits(candidate, exponent, text, point);
            }
        }
    }
}

int gx_decimal_digits(double value, bool is_f32, char text[GX_DECIMAL_MAX], int *point)
{
    if (!(value >= 0x1p-16 && value < 1e16)) { // outside, 4m * 10^p may pass 128 bits
        return tried_digits(value, is_f32, text, point);
    }
    int e;
    double fraction = frexp(value, &e);
    int bits = is_f32 ? 24 : 53;
    uint64_t m = (uint64_t)ldexp(fraction, bits);
    return exact_digits(m, e - bits, fraction == 0.5, is_f32 ? 9 : 17, text, point);
}

/* As Python: an exponent below 1e-4 and from 1e16 on. */
static int format_finite(double value, bool is_f32, char text[GX_DECIMAL_MAX])
{
    char d[GX_DECIMAL_MAX];
    int point;
    char *c = text;
    if (signbit(value)) {
        *c++ = '-';
        value = -value;
    }
    if (value == 0) {
        memcpy(c, "0.0", 4);
        return (int)(c - text) + 3;
    }
    int count = gx_decimal_digits(value, is_f32, d, &point);
    if (point <= -4 || point > 16) {
        *c++ = d[0];
        if (count > 1) {
            *c++ = '.';
            memcpy(c, d + 1, (size_t)(count - 1));
            c += count - 1;
        }
        int exponent = point - 1;
        c += snprintf(c, 8, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return (int)(c - text);
    }
    if (point <= 0) {
        *c++ = '0';
        *c++ = '.';
        memset(c, '0', (size_t)-point);
        c += -point;
        memcpy(c, d, (size_t)count);
        c += count;
    } else {
        for (int i = 0; i < gx_max(count, point + 1); i++) {
            if (i == point) {
                *c++ = '.';
            }
            *c++ = i < count ? d[i] : '0';
        }
    }
    *c = '\0';
    return (int)(c - text);
}

static int format(double value, bool is_f32, char text[GX_DECIMAL_MAX])
{
    if (isnan(value)) {
        memcpy(text, "nan", 4);
        return 3;
    }
    if (isinf(value)) {
        memcpy(text, value < 0 ? "-inf" : "inf", value < 0 ? 5 : 4);
        return value < 0 ? 4 : 3;
    }
    return format_finite(value, is_f32, text);
}

int gx_decimal_format(double value, char text[GX_DECIMAL_MAX])
{
    return format(value, false, text);
}

int gx_decimal_format_f32(float value, char text[GX_DECIMAL_MAX])
{
    return format((double)value, true, text);
}
