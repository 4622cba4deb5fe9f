/*
** Numbers as text: see decimal.h.
**
** strtod() and printf() follow the locale of the host process (a German one writes 1,5), and the
** shortest text takes them up to 17 tries.  Here both directions are done with integers.
**
** Parsing.  The first 19 significant digits go into a 64-bit integer m: the number is m * 10^e.
**   1. m < 2^53, |e| <= 22: both are exact doubles, one operation rounds once (Clinger 1990).
**   2. Else m times the 128-bit power of ten gives the bits and tells on which side of a
**      rounding boundary they are (Lemire, "Number parsing at a gigabyte per second", 2021;
**      Mushtak and Lemire, 2023).
**   3. More than 19 digits: m and m + 1 bracket the number; when both round alike that is it.
**      Else strtod() gets digits and exponent, without a point, so that no locale matters; 780
**      digits and a sticky one decide any double.
**
** Printing.  Schubfach (Giulietti, "The Schubfach way to render doubles", 2021): of the shortest
** decimals inside the rounding interval the closest one; three 128-bit multiplications.
**
** Either way 10 to 40 ns, over the whole range.  No allocation, any thread.
*/
#include "decimal.h"

#include "spelling.h"

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

/* floor(log2(10^k)) for |k| <= 400. */
static int64_t log2_pow10(int64_t k)
{
    return (k * 1741647) >> 19;
}

// Reading -----------------------------------------------------------------------------------------

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

/* Eight digits at once: true when all are; *value is their number.  (Little-endian words.) */
static bool read_eight(const char *c, uint64_t *value)
{
    uint64_t word;
    memcpy(&word, c, sizeof word);
    uint64_t digit = word ^ 0x3030303030303030; // '0'..'9' become 0..9, others more
    if (((digit + 0x7676767676767676) | digit) & 0x8080808080808080) {
        return false;
    }
    digit = digit * 10 + (digit >> 8); // pairs in every other byte
    digit = ((digit & 0x000000ff000000ff) * 0x000f424000000064 +
             (digit >> 16 & 0x000000ff000000ff) * 0x0000271000000001) >> 32;
    *value = digit;
    return true;
}

/* Digits and point.  false when there is no digit. */
static bool scan_digits(const char *text, const char *end, digits *d, const char **stop)
{
    bool seen_point = false, seen_digit = false;
    *d = (digits){0};
    const char *c = text;
    while (c < end) {
        uint64_t eight;
        if (d->count > 0 && d->count <= 11 && end - c >= 8 && read_eight(c, &eight)) {
            d->m = d->m * 100000000 + eight;
            d->count += 8;
            d->exponent -= seen_point ? 8 : 0;
            c += 8;
            continue;
        }
        if (*c == '.' && !seen_point) {
            seen_point = true;
            c++;
            continue;
        }
        if (!gx_is_digit(*c)) {
            break;
        }
        seen_digit = true;
        d->exponent -= seen_point;
        if (d->count > 0 || *c != '0') {
            d->first = d->count == 0 ? c : d->first;
            if (d->count < 19) {
                d->m = d->m * 10 + (uint64_t)(*c - '0');
            } else {
                d->exponent++;
                d->is_long = d->is_long || *c != '0';
            }
            d->count++;
        }
        c++;
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
    if (c == end || !gx_is_digit(*c)) {
        return text;
    }
    int64_t e = 0;
    for (; c < end && gx_is_digit(*c); c++) {
        if (e < (int64_t)1 << 40) {
            e = e * 10 + (*c - '0');
        }
    }
    *exponent += is_negative ? -e : e;
    return c;
}

/* More than 19 digits that nearest_double() cannot decide. */
static double slow_value(const digits *d)
{
    char text[SLOW_DIGITS + 32];
    int n = 0;
    bool is_sticky = false;
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
    int64_t exponent = d->exponent - (n - 19); // the digits beyond the 19th that are written out
    if (is_sticky) {
        text[n++] = '1';
        exponent--;
    }
    snprintf(text + n, sizeof text - (size_t)n, "e%lld", (long long)exponent);
    return strtod(text, NULL);
}

/*
** m 10^e to the nearest double, as bits without sign.  m != 0.  The table's power is cut, not
** rounded up, where it is not exact (e beyond -27 .. 55): the proof of the algorithm asks for
** that.
*/
static uint64_t nearest_double(uint64_t m, int64_t e)
{
    const uint64_t infinite = (uint64_t)0x7ff << 52;
    if (e < GX_POW10_MIN) {
        return 0;
    }
    if (e > 308) {
        return infinite;
    }
    int zeros = __builtin_clzll(m);
    m <<= zeros;
    const uint64_t *power = gx_decimal_pow10(e);
    u128 product = (u128)m * power[0];
    if (((uint64_t)(product >> 64) & 0x1ff) == 0x1ff) {
        uint64_t low = power[1] - (e < -27 || e > 55);
        product += ((u128)m * low) >> 64;
    }
    uint64_t high = (uint64_t)(product >> 64);
    int upper = (int)(high >> 63);
    int shift = upper + 9; // keeps 54 bits: 53 and one to round by
    uint64_t mantissa = high >> shift;
    int64_t exponent = log2_pow10(e) + 63 + upper - zeros + 1023;
    if (exponent <= 0) { // subnormal; a carry into bit 52 is the smallest normal number
        mantissa = exponent > -63 ? mantissa >> (1 - exponent) : 0;
        return (mantissa + (mantissa & 1)) >> 1;
    }
    // A tie is possible only where 5^e fits 64 bits: to even.
    if ((uint64_t)product <= 1 && e >= -4 && e <= 23 && (mantissa & 3) == 1 &&
        mantissa << shift == high) {
        mantissa--;
    }
    mantissa = (mantissa + (mantissa & 1)) >> 1;
    if (mantissa >> 53 != 0) {
        mantissa >>= 1;
        exponent++;
    }
    if (exponent >= 0x7ff) {
        return infinite;
    }
    return (mantissa & ~((uint64_t)1 << 52)) | (uint64_t)exponent << 52;
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
    uint64_t bits = nearest_double(d->m, e);
    if (d->is_long && bits != nearest_double(d->m + 1, e)) {
        return slow_value(d);
    }
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
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
    if (c < end && (gx_is_digit(*c) || *c == '.')) {
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
        if (!gx_is_digit(*c) || __builtin_mul_overflow(sum, 10, &sum) ||
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

// Complex numbers ---------------------------------------------------------------------------------

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

// Printing ----------------------------------------------------------------------------------------

/* A decimal number: n in units of 10^exponent. */
typedef struct decimal {
    uint64_t n;
    int64_t exponent;
} decimal;

/* The digits without trailing zeros, n > 0; *point: places before the point. */
static int write_digits(decimal d, char text[GX_DECIMAL_MAX], int *point)
{
    char reversed[GX_DECIMAL_MAX]; // filled from its end
    char *first = reversed + sizeof reversed, *last = first;
    while (d.n >= 100000000) { // eight at a time: 32-bit divisions are cheap
        uint32_t low = (uint32_t)(d.n % 100000000);
        d.n /= 100000000;
        for (int i = 0; i < 8; i++, low /= 10) {
            *--first = (char)('0' + low % 10);
        }
    }
    for (uint32_t low = (uint32_t)d.n; low != 0; low /= 10) {
        *--first = (char)('0' + low % 10);
    }
    *point = (int)(last - first) + (int)d.exponent;
    while (last[-1] == '0') {
        last--;
    }
    int count = (int)(last - first);
    memcpy(text, first, (size_t)count);
    text[count] = '\0';
    return count;
}

/* g x / 2^128, rounded to odd: the last bit also says that something was cut. */
static uint64_t scale(const uint64_t g[2], uint64_t x)
{
    u128 low = (u128)g[1] * x;
    u128 high = (u128)g[0] * x + (uint64_t)(low >> 64);
    return (uint64_t)(high >> 64) | ((uint64_t)high > 1);
}

/*
** The shortest decimal in the rounding interval of m 2^e.  is_narrow: m is the smallest mantissa
** of its exponent, so that the lower neighbour is half as far away.
*/
static decimal shortest(uint64_t m, int64_t e, bool is_narrow)
{
    // Interval and number in quarters of 10^k; its ends belong to it when m is even.
    int64_t k = (e * 1262611 - (is_narrow ? 524031 : 0)) >> 22; // floor(log10(interval))
    int64_t h = e + log2_pow10(-k) + 1;
    const uint64_t *g = gx_decimal_pow10(-k);
    bool is_odd = m % 2 == 1;
    uint64_t lower = scale(g, (4 * m - 2 + is_narrow) << h) + is_odd;
    uint64_t middle = scale(g, (4 * m) << h);
    uint64_t upper = scale(g, (4 * m + 2) << h) - is_odd;

    // One digit less, where one such number lies inside.
    uint64_t n = middle / 4;
    if (n >= 10) {
        uint64_t tens = n / 10;
        bool is_below_in = lower <= 40 * tens, is_above_in = 40 * tens + 40 <= upper;
        if (is_below_in != is_above_in) {
            return (decimal){tens + is_above_in, k + 1};
        }
    }
    bool is_below_in = lower <= 4 * n, is_above_in = 4 * n + 4 <= upper;
    if (is_below_in != is_above_in) {
        return (decimal){n + is_above_in, k};
    }
    // Both: the closer one, to even.
    uint64_t half = 4 * n + 2;
    return (decimal){n + (middle > half || (middle == half && n % 2 == 1)), k};
}

int gx_decimal_digits(double value, bool is_f32, char text[GX_DECIMAL_MAX], int *point)
{
    int mantissa_bits = is_f32 ? 23 : 52, bias = is_f32 ? 127 : 1023;
    float single = (float)value;
    uint32_t single_bits;
    uint64_t bits;
    memcpy(&single_bits, &single, sizeof single_bits);
    memcpy(&bits, &value, sizeof bits);
    bits = is_f32 ? single_bits : bits;

    uint64_t mantissa = bits & (((uint64_t)1 << mantissa_bits) - 1);
    int64_t exponent = (int64_t)(bits >> mantissa_bits);
    uint64_t m = exponent == 0 ? mantissa : mantissa | (uint64_t)1 << mantissa_bits;
    int64_t e = (exponent == 0 ? 1 : exponent) - bias - mantissa_bits;
    if (e <= 0 && e >= -mantissa_bits && (m & (((uint64_t)1 << -e) - 1)) == 0) {
        return write_digits((decimal){m >> -e, 0}, text, point); // an integer
    }
    return write_digits(shortest(m, e, mantissa == 0 && exponent > 1), text, point);
}

/*
** value, finite and > 0, rounded to so many significant digits by printf, which rounds
** correctly.
*/
static int rounded_digits(double value, int places, char text[GX_DECIMAL_MAX], int *point)
{
    char printed[GX_DECIMAL_MAX + 32];
    uint64_t n = 0;
    snprintf(printed, sizeof printed, "%.*e", places - 1, value);
    const char *c = printed;
    for (; *c != 'e'; c++) { // the locale's point, whatever it is, is no digit
        if (gx_is_digit(*c)) {
            n = n * 10 + (uint64_t)(*c - '0');
        }
    }
    return write_digits((decimal){n, strtol(c + 1, NULL, 10) - (places - 1)}, text, point);
}

/* How many digits to print: the shortest text of a double or float, or so many places. */
enum { SHORTEST = 0, SHORTEST_F32 = -1 };

/* As Python: an exponent below 1e-4 and from 1e16 on. */
static int format_finite(double value, int places, char text[GX_DECIMAL_MAX])
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
    int count = places > 0 ? rounded_digits(value, places, d, &point)
                           : gx_decimal_digits(value, places == SHORTEST_F32, d, &point);
    if (point <= -4 || point > 16) {
        *c++ = d[0];
        if (count > 1) {
            *c++ = '.';
            memcpy(c, d + 1, (size_t)(count - 1));
            c += count - 1;
        }
        int exponent = point - 1;
        *c++ = 'e';
        *c++ = exponent < 0 ? '-' : '+';
        exponent = abs(exponent);
        if (exponent >= 100) {
            *c++ = (char)('0' + exponent / 100);
        }
        *c++ = (char)('0' + exponent / 10 % 10);
        *c++ = (char)('0' + exponent % 10);
        *c = '\0';
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

static int format(double value, int places, char text[GX_DECIMAL_MAX])
{
    if (isnan(value)) {
        memcpy(text, "nan", 4);
        return 3;
    }
    if (isinf(value)) {
        memcpy(text, value < 0 ? "-inf" : "inf", value < 0 ? 5 : 4);
        return value < 0 ? 4 : 3;
    }
    return format_finite(value, places, text);
}

int gx_decimal_format(double value, char text[GX_DECIMAL_MAX])
{
    return format(value, SHORTEST, text);
}

int gx_decimal_format_f32(float value, char text[GX_DECIMAL_MAX])
{
    return format((double)value, SHORTEST_F32, text);
}

int gx_decimal_format_places(double value, int places, char text[GX_DECIMAL_MAX])
{
    return format(value, (int)gx_max(1, gx_min(17, places)), text);
}
