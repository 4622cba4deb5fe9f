/*
** core/base/decimal.c: text to double and back.
**
** Plan
**  1. Every row of the table of powers is the rounded-up power of ten: recomputed with big
**     integers.
**  2. Reading: exact cases, ties, the ends of the range, more digits than matter, words, what is
**     refused.
**  3. Printing: repr()'s layout, the shortest text, the ends of the range.
**  4. Round trips: random bit patterns, double and float, print then read: the same bits.
**  5. Places: correctly rounded to 1 .. 17 digits.
**  6. The locale of the process (German, where it is installed) changes nothing.
**  7. Complex numbers: every spelling, and what is none.
*/
#include "base/decimal.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// 1. the table ------------------------------------------------------------------------------------

enum { WORDS = 24 }; /* 1536 bits: 10^342 times a row */

static void multiply(uint32_t *big, int words, uint32_t factor)
{
    uint64_t carry = 0;
    for (int i = 0; i < words; i++) {
        carry += (uint64_t)big[i] * factor;
        big[i] = (uint32_t)carry;
        carry >>= 32;
    }
    assert_int_equal(carry, 0);
}

static int bit_length(const uint32_t *big, int words)
{
    for (int i = words - 1; i >= 0; i--) {
        if (big[i] != 0) {
            return 32 * i + 32 - __builtin_clz(big[i]);
        }
    }
    return 0;
}

static bool get_bit(const uint32_t *big, int i)
{
    return (big[i / 32] >> (i % 32) & 1) != 0;
}

/* The 128 bits from the top of big, rounded up; big is 10^k. */
static void check_positive(int k)
{
    uint32_t big[2 * WORDS] = {1};
    for (int i = 0; i < k; i++) {
        multiply(big, 2 * WORDS, 10);
    }
    int top = bit_length(big, 2 * WORDS) - 1;
    uint64_t word[2] = {0, 0};
    for (int i = 0; i < 128; i++) {
        uint64_t bit = top - i >= 0 && get_bit(big, top - i);
        word[i / 64] |= bit << (63 - i % 64);
    }
    bool is_exact = true;
    for (int i = 0; i <= top - 128; i++) {
        is_exact = is_exact && !get_bit(big, i);
    }
    if (!is_exact) {
        word[1]++;
        word[0] += word[1] == 0;
    }
    const uint64_t *row = gx_decimal_pow10(k);
    assert_int_equal(row[0], word[0]);
    assert_int_equal(row[1], word[1]);
}

/*
** g = ceil(2^m / 10^-k): (g - 1) 10^-k < 2^m <= g 10^-k, so that g 10^-k - 2^m lies in [0,
** 10^-k).
*/
static void check_negative(int k)
{
    const uint64_t *row = gx_decimal_pow10(k);
    uint32_t product[2 * WORDS] = {(uint32_t)row[1], (uint32_t)(row[1] >> 32), (uint32_t)row[0],
                                   (uint32_t)(row[0] >> 32)};
    uint32_t power[2 * WORDS] = {1};
    for (int i = 0; i < -k; i++) {
        multiply(product, 2 * WORDS, 10);
        multiply(power, 2 * WORDS, 10);
    }
    int top = bit_length(product, 2 * WORDS) - 1;
    product[top / 32] &= ~((uint32_t)1 << top % 32); // minus 2^m
    bool is_less = false;
    for (int i = 2 * WORDS - 1; i >= 0 && !is_less; i--) {
        assert_true(product[i] <= power[i]);
        is_less = product[i] < power[i];
    }
    assert_true(is_less);
    assert_true(row[0] >> 63);
}

static void table(void **state)
{
    (void)state;
    for (int k = GX_POW10_MIN; k < 0; k++) {
        check_negative(k);
    }
    for (int k = 0; k <= GX_POW10_MAX; k++) {
        check_positive(k);
    }
}

// 2. reading --------------------------------------------------------------------------------------

static void reads_as(const char *text, double expected, size_t length)
{
    double value = -77;
    const char *stop = NULL;
    bool is_read = gx_decimal_parse(text, text + strlen(text), &stop, &value);
    if (!is_read || stop != text + length || memcmp(&value, &expected, sizeof value) != 0) {
        fail_msg("'%s' reads as %.17g, %d bytes", text, value, is_read ? (int)(stop - text) : -1);
    }
}

static void reading(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } whole[] = {
        {"0", 0},
        {"-0", -0.0},
        {"7", 7},
        {"+7", 7},
        {".5", 0.5},
        {"5.", 5},
        {"-1.25e2", -125},
        {"-1.E+2", -100},
        {"1E-2", 0.01},
        {"0.1", 0.1},
        {"1e22", 1e22},
        {"1e23", 1e23},
        {"000000000000000000000000001", 1},
        {"0.00000000000000000000000000001", 1e-29},
        {"123456789012345678901234567890", 123456789012345678901234567890.0},
        {"9007199254740993", 9007199254740992.0}, // a tie goes to the even one
        {"9007199254740993.0000000000000000000000000000000000001", 9007199254740994.0},
        {"9007199254740995", 9007199254740996.0},
        {"5e-324", 5e-324},
        {"2.4703282292062327e-324", 0},
        {"2.4703282292062328e-324", 5e-324},
        {"2.2250738585072011e-308", 2.2250738585072011e-308}, // once hung PHP and Java
        {"1.7976931348623157e308", 1.7976931348623157e308},
        {"1.7976931348623159e308", INFINITY},
        {"1e400", INFINITY},
        {"-1e400", -INFINITY},
        {"1e-400", 0},
        {"-1e-400", -0.0},
        {"0e99999999999999999999", 0},
        {"1e-99999999999999999999", 0},
        {"inf", INFINITY},
        {"-Infinity", -INFINITY},
        {"+INF", INFINITY},
        {"6.631236846766476e-316", 6.631236846766476e-316},
        {"2.22507385850720113605740979670913197593481954635164564e-308", 2.2250738585072011e-308},
        {"179769313486231580793728971405301e276", 1.797693134862315807e308},
    };
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        reads_as(whole[i].text, whole[i].value, strlen(whole[i].text));
    }
    reads_as("1e", 1, 1);
    reads_as("1e+x", 1, 1);
    reads_as("1.2.3", 1.2, 3);
    reads_as("1,5", 1, 1);
    reads_as("0x10", 0, 1);
    reads_as("infin", INFINITY, 3);
    reads_as("1d5", 1, 1);
    static const char *const refused[] = {"",    "-", "+",  ".",  "-.", "e5",
                                          "-+1", "x", "na", "in", " 1"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        double value = 5;
        const char *stop = NULL;
        const char *end = refused[i] + strlen(refused[i]);
        assert_false(gx_decimal_parse(refused[i], end, &stop, &value));
        assert_true(value == 5 && stop == NULL);
    }
    static const char nan_text[] = "-NaN";
    const char *stop;
    double value;
    assert_true(gx_decimal_parse(nan_text, nan_text + 4, &stop, &value));
    assert_true(stop == nan_text + 4 && isnan(value));
}

/*
** Halfway between 1 and its neighbour, written with all of its digits, and a little to each
** side.
*/
static void many_digits(void **state)
{
    (void)state;
    double up = nextafter(1, 2);
    reads_as("1.00000000000000011102230246251565404236316680908203125", 1, 55);
    reads_as("1.000000000000000111022302462515654042363166809082031250000001", up, 62);
    reads_as("1.00000000000000011102230246251565404236316680908203124999", 1, 58);
    char text[2000] = "1.00000000000000011102230246251565404236316680908203125";
    memset(text + 55, '0', 1500);
    strcpy(text + 1555, "1");
    reads_as(text, up, 1556);
    // 10^-400 written with digits, times 10^400.
    char small[600] = "0.";
    memset(small + 2, '0', 399);
    strcpy(small + 401, "1234567890123456789012345e400");
    reads_as(small, 1.234567890123456789012345, strlen(small));
}

static void integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"-5", -5},
                {"+12", 12},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN},
                {"00000000000000000000000012", 12}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t value = 99;
        const char *end = good[i].text + strlen(good[i].text);
        assert_true(gx_decimal_parse_i64(good[i].text, end, &value));
        assert_int_equal(value, good[i].value);
    }
    static const char *const bad[] = {"",
                                      "-",
                                      "x",
                                      "5 ",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "99999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t value;
        assert_false(gx_decimal_parse_i64(bad[i], bad[i] + strlen(bad[i]), &value));
    }
}

// 3. printing -------------------------------------------------------------------------------------

static void prints_as(double value, const char *expected)
{
    char text[GX_DECIMAL_MAX];
    assert_int_equal(gx_decimal_format(value, text), strlen(expected));
    assert_string_equal(text, expected);
}

static void printing(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {0, "0.0"},
        {-0.0, "-0.0"},
        {1, "1.0"},
        {-1.5, "-1.5"},
        {0.1, "0.1"},
        {1.0 / 3, "0.3333333333333333"},
        {100, "100.0"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {1e22, "1e+22"},
        {1e23, "1e+23"},
        {123456789012345680.0, "1.2345678901234568e+17"},
        {9007199254740993.0, "9007199254740992.0"},
        {0.0001, "0.0001"},
        {0.00001, "1e-05"},
        {1.5e-7, "1.5e-07"},
        {5e-324, "5e-324"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {-1.7976931348623157e308, "-1.7976931348623157e+308"},
        {0x1p60, "1.152921504606847e+18"},
        {INFINITY, "inf"},
        {-INFINITY, "-inf"},
        {NAN, "nan"},
        {-NAN, "nan"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        prints_as(rows[i].value, rows[i].text);
    }
    char text[GX_DECIMAL_MAX];
    static const struct {
        float value;
        const char *text;
    } singles[] = {
        {0.1f, "0.1"},   {16777216.0f, "16777216.0"},      {1e-45f, "1e-45"},
        {-0.0f, "-0.0"}, {3.4028235e38f, "3.4028235e+38"}, {1.17549435e-38f, "1.1754944e-38"}};
    for (size_t i = 0; i < sizeof singles / sizeof *singles; i++) {
        gx_decimal_format_f32(singles[i].value, text);
        assert_string_equal(text, singles[i].text);
    }
}

// 4. round trips ----------------------------------------------------------------------------------

static uint64_t next_random(uint64_t *seed) // splitmix64
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static void round_trip(void **state)
{
    (void)state;
    uint64_t seed = 20240607;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < 200000; i++) {
        uint64_t bits = next_random(&seed);
        double value, again;
        memcpy(&value, &bits, sizeof value);
        if (isnan(value)) {
            continue;
        }
        char text[GX_DECIMAL_MAX];
        const char *stop;
        int length = gx_decimal_format(value, text);
        assert_true(length < GX_DECIMAL_MAX && length == (int)strlen(text));
        assert_true(gx_decimal_parse(text, text + length, &stop, &again) && stop == text + length);
        assert_memory_equal(&value, &again, sizeof value);
        if (i % 16 == 0 && isfinite(value)) {
            assert_true(strtod(text, NULL) == value); // libc agrees
        }

        uint32_t low = (uint32_t)bits;
        float single, single_again;
        memcpy(&single, &low, sizeof single);
        if (!isnan(single)) {
            length = gx_decimal_format_f32(single, text);
            assert_true(gx_decimal_parse(text, text + length, &stop, &again));
            single_again = (float)again;
            assert_memory_equal(&single, &single_again, sizeof single);
        }
    }
}

// 5. places ---------------------------------------------------------------------------------------

static void places(void **state)
{
    (void)state;
    static const struct {
        double value;
        int digits;
        const char *text;
    } rows[] = {{0.1, 17, "0.10000000000000001"},
                {2.0 / 3, 3, "0.667"},
                {2.0 / 3, 1, "0.7"},
                {0.5, 6, "0.5"},
                {123456, 2, "120000.0"},
                {-1e300, 5, "-1e+300"},
                {9.99, 2, "10.0"},
                {0, 3, "0.0"},
                {1e-7, 0, "1e-07"},
                {1.0 / 3, 99, "0.33333333333333331"},
                {INFINITY, 3, "inf"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[GX_DECIMAL_MAX];
        gx_decimal_format_places(rows[i].value, rows[i].digits, text);
        assert_string_equal(text, rows[i].text);
    }
}

// 6. locale ---------------------------------------------------------------------------------------

static void locale(void **state)
{
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL && setlocale(LC_NUMERIC, "de_DE") == NULL &&
        setlocale(LC_NUMERIC, "fr_FR.UTF-8") == NULL) {
        print_message("no locale with a decimal comma is installed\n");
        skip();
    }
    places(state);
    many_digits(state);
    reading(state);
    printing(state);
    setlocale(LC_NUMERIC, "C");
}

// 7. complex --------------------------------------------------------------------------------------

static void complex_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double re, im;
        bool is_complex;
    } good[] = {{"1.5", 1.5, 0, false},
                {"2i", 0, 2, true},
                {"-j", 0, -1, true},
                {"1+2i", 1, 2, true},
                {"(1-2.5e3j)", 1, -2500, true},
                {" 1 - 2J ", 1, -2, true},
                {"1e5-1e-5i", 1e5, -1e-5, true},
                {"inf-infi", INFINITY, -INFINITY, true},
                {"-0-0j", -0.0, -0.0, true}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        gx_scalar value;
        bool is_complex;
        const char *end = good[i].text + strlen(good[i].text);
        assert_true(gx_decimal_parse_complex(good[i].text, end, &value, &is_complex));
        assert_memory_equal(&value.re, &good[i].re, sizeof value.re);
        assert_memory_equal(&value.im, &good[i].im, sizeof value.im);
        assert_int_equal(is_complex, good[i].is_complex);
    }
    static const char *const bad[] = {"",   "()",    "(1",   "1)",    "1+",   "1+2", "1+2i3",
                                      "i1", "1i+2i", "2i+1", "1+-2i", "--1i", "abc", "1 2i"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gx_scalar value;
        bool is_complex;
        const char *end = bad[i] + strlen(bad[i]);
        assert_false(gx_decimal_parse_complex(bad[i], end, &value, &is_complex));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),    cmocka_unit_test(reading),  cmocka_unit_test(many_digits),
        cmocka_unit_test(integers), cmocka_unit_test(printing), cmocka_unit_test(round_trip),
        cmocka_unit_test(places),   cmocka_unit_test(locale),   cmocka_unit_test(complex_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
