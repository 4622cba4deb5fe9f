/*
** The table of dtypes (core/base/dtype.c) and the seam between numbers and stored elements
** (core/base/convert.c).
**
** Plan:
**   1. ids of the file format; names of gx, of NumPy, of .npy files, each found again
**   2. one element, wherever it lies, of each dtype
**   3. numbers pass the seam as gx_convert() takes them, with gaps between columns
**   4. f16: all of its bits both ways, each place between two of them; u8: rounding and bounds
**   5. what a dtype does not hold is refused with its place, or clipped; NaN is refused
*/
#include "base/convert.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* As the format says (docs/format.md): a row moved or renamed is another format. */
static const struct {
    const char *name, *numpy, *npy;
    size_t bytes;
    gx_number number;
} rows[] = {{"f64", "float64", "f8", 8, GX_F64},
            {"f32", "float32", "f4", 4, GX_F32},
            {"c128", "complex128", "c16", 16, GX_C128},
            {"c64", "complex64", "c8", 8, GX_C64},
            {"f16", "float16", "f2", 2, GX_F32},
            {"u8", "uint8", "u1", 1, GX_F32},
            {"bool", "bool", "b1", 1, GX_F32},
            {"i8", "int8", "i1", 1, GX_F32},
            {"u16", "uint16", "u2", 2, GX_F32},
            {"i16", "int16", "i2", 2, GX_F32},
            {"u32", "uint32", "u4", 4, GX_F64},
            {"i32", "int32", "i4", 4, GX_F64},
            {"bf16", "bfloat16", "V2", 2, GX_F32},
            {"i64", "int64", "i8", 8, GX_F64},
            {"m31", "m31", "u4", 4, GX_M31}};

enum { ROWS = sizeof rows / sizeof rows[0] };

static void rows_are_the_format(void **state)
{
    (void)state;
    char names[256] = "";
    assert_int_equal(ROWS, GX_DTYPE_COUNT);
    for (int d = 0; d < ROWS; d++) {
        gx_dtype dtype = (gx_dtype)d, found = GX_DTYPE_COUNT;
        assert_string_equal(gx_dtype_name(dtype), rows[d].name);
        assert_string_equal(gx_dtype_npy(dtype), rows[d].npy);
        assert_int_equal(gx_dtype_bytes(dtype), rows[d].bytes);
        assert_int_equal(gx_dtype_number(dtype), rows[d].number);
        assert_int_equal(gx_dtype_is_number(dtype), d < GX_FLOATS || d == GX_DTYPE_M31);
        assert_true(rows[d].bytes % gx_dtype_alignment(dtype) == 0);
        assert_true(gx_dtype_parse(rows[d].name, &found) && found == dtype);
        found = GX_DTYPE_COUNT;
        assert_true(gx_dtype_parse(rows[d].numpy, &found) && found == dtype);
        found = GX_DTYPE_COUNT;
        // A file of m31 is one of its elements: they are u32 to who reads it.
        gx_dtype as = d == GX_DTYPE_M31 ? GX_DTYPE_U32 : dtype;
        assert_true(gx_dtype_of_npy(rows[d].npy, strlen(rows[d].npy), &found) && found == as);
        strcat(strcat(names, d == 0 ? "" : ", "), rows[d].name);
    }
    assert_string_equal(gx_dtype_names(), names);
    assert_string_equal(gx_dtype_name(GX_DTYPE_COUNT), "?");
    assert_string_equal(gx_dtype_name((gx_dtype)-1), "?");
}

static void other_names_are_unknown(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "f", "F64", "f64 ", " f64", "double", "c12", "c1288"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gx_dtype dtype = GX_DTYPE_COUNT;
        assert_false(gx_dtype_parse(bad[i], &dtype));
        assert_false(gx_dtype_of_npy(bad[i], strlen(bad[i]), &dtype));
        assert_int_equal(dtype, GX_DTYPE_COUNT);
    }
}

static void an_element_is_found_anywhere(void **state)
{
    (void)state;
    for (int d = 0; d < GX_DTYPE_COUNT; d++) {
        _Alignas(16) char element[16], far[17];
        const double x[2] = {d == GX_DTYPE_BOOL ? 1 : 3, 5};
        gx_err err = {0};
        const gx_narrowing to = {.dtype = (gx_dtype)d};
        assert_int_equal(gx_narrow_to(GX_C128, x, 1, &to, element, 1, 1, 1, &err), GX_OK);
        memcpy(far + 1, element, gx_dtype_bytes((gx_dtype)d));
        gx_scalar got = gx_dtype_get((gx_dtype)d, far + 1);
        assert_true(got.re == x[0]);
        assert_true(got.im == (gx_number_is_complex(gx_dtype_number((gx_dtype)d)) ? 5 : 0));
    }
}

/* Small whole numbers, which every dtype holds, through each and back, to and from each number. */
static void all_dtypes_hold_small_numbers(void **state)
{
    (void)state;
    enum { M = 300, N = 3, LD = M + 7 };
    static double from[2 * LD * N], back[2 * LD * N], there[2 * LD * N], want[2 * LD * N];
    for (int k = 0; k < GX_DTYPE_COUNT * GX_FLOATS; k++) {
        gx_dtype dtype = (gx_dtype)(k / GX_FLOATS);
        gx_number number = (gx_number)(k % GX_FLOATS);
        gx_err err = {0};
        bool is_real = !gx_number_is_complex(gx_dtype_number(dtype));
        int most = dtype == GX_DTYPE_BOOL ? 2 : dtype == GX_DTYPE_I8 ? 128 : 251;
        for (int p = 0; p < LD * N; p++) {
            from[2 * p] = p % most;
            from[2 * p + 1] = is_real ? 0 : p % 13;
        }
        memset(back, 0xee, sizeof back);
        memset(want, 0xee, sizeof want);
        gx_convert(GX_C128, from, LD, number, want, LD, LD, N);
        const gx_narrowing to = {.dtype = dtype};
        assert_int_equal(gx_narrow_to(number, want, LD, &to, there, LD, M, N, &err), GX_OK);
        assert_int_equal(gx_widen(dtype, there, LD, number, back, LD, M, N, &err), GX_OK);
        for (int j = 0; j < N; j++) {
            assert_memory_equal(gx_at(back, number, LD, 0, j), gx_at(want, number, LD, 0, j),
                                (size_t)M * gx_number_bytes(number));
        }
        assert_memory_equal(gx_at(back, number, LD, M, 0), "\xee\xee\xee\xee", 4);
    }
}

/* By the definition: sign, exponent, mantissa. */
static double half_by_definition(int half)
{
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    double size = exponent == 31  ? (mantissa == 0 ? INFINITY : (double)NAN)
                  : exponent == 0 ? ldexp(mantissa, -24)
                                  : ldexp(1024 + mantissa, exponent - 25);
    return half >> 15 != 0 ? -size : size;
}

static void f16_is_binary16(void **state)
{
    (void)state;
    for (int half = 0; half < 65536; half++) {
        uint16_t bits = (uint16_t)half, back = 0;
        double want = half_by_definition(half), got;
        assert_int_equal(gx_widen(GX_DTYPE_F16, &bits, 1, GX_F64, &got, 1, 1, 1, NULL), GX_OK);
        assert_true(isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want));
        assert_int_equal(gx_dtype_narrow(GX_DTYPE_F16, &got, 1, false, &back), -1);
        assert_true(isnan(want) ? (back & 0x7fff) > 0x7c00 : back == bits);
    }
}

/* Between two neighbours: to the nearer one, from half-way to the even one, and from beside it. */
static void f16_is_rounded_once(void **state)
{
    (void)state;
    for (int half = 0; half < 0x7c00; half++) {
        double low = half_by_definition(half);
        double high = half == 0x7bff ? 65536 : half_by_definition(half + 1);
        double middle = low + (high - low) / 2;
        const double x[] = {middle,
                            nextafter(middle, 0),
                            nextafter(middle, INFINITY),
                            low + (high - low) / 4,
                            -nextafter(middle, 0),
                            -middle};
        const int even = half + half % 2;
        const int want[] = {even, half, half + 1, half, half | 0x8000, even | 0x8000};
        uint16_t got[6];
        assert_int_equal(gx_dtype_narrow(GX_DTYPE_F16, x, 6, false, got), -1);
        for (int k = 0; k < 6; k++) {
            assert_int_equal(got[k], want[k]);
        }
    }
    const double large[] = {65519.999, 65520, 1e300, -INFINITY, 1e-30, -1e-300};
    const uint16_t want[] = {0x7bff, 0x7c00, 0x7c00, 0xfc00, 0, 0x8000};
    uint16_t got[6];
    assert_int_equal(gx_dtype_narrow(GX_DTYPE_F16, large, 6, false, got), -1);
    assert_memory_equal(got, want, sizeof want);
}

/* Bytes that are elements of i64 and of bf16, each once, against their definitions. */
static void bf16_is_half_of_a_float(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 65536; half++) {
        uint32_t w = half << 16;
        uint16_t bits = (uint16_t)half, back = 0;
        float want;
        double got;
        memcpy(&want, &w, sizeof want);
        assert_int_equal(gx_widen(GX_DTYPE_BF16, &bits, 1, GX_F64, &got, 1, 1, 1, NULL), GX_OK);
        assert_true(isnan(want) ? isnan(got) : got == (double)want);
        assert_int_equal(gx_dtype_narrow(GX_DTYPE_BF16, &got, 1, false, &back), -1);
        assert_true(isnan(want) ? (back & 0x7fff) > 0x7f80 : back == bits);
        if (half < 0x7f7f) { // between two neighbours, as for f16
            uint32_t next = (half + 1) << 16;
            float above;
            memcpy(&above, &next, sizeof above);
            double middle = ((double)want + (double)above) / 2;
            const double x[] = {middle, nextafter(middle, 0), nextafter(middle, INFINITY)};
            const uint16_t to[] = {(uint16_t)(half + half % 2), bits, (uint16_t)(half + 1)};
            uint16_t rounded[3];
            assert_int_equal(gx_dtype_narrow(GX_DTYPE_BF16, x, 3, false, rounded), -1);
            assert_memory_equal(rounded, to, sizeof to);
        }
    }
}

static void i64_says_what_f64_does_not_hold(void **state)
{
    (void)state;
    const int64_t x[] = {
        0, -1, INT64_C(1) << 53, INT64_MIN, INT64_C(1) << 62, (INT64_C(1) << 53) + 1};
    const int64_t none[] = {INT64_MAX, -(INT64_C(1) << 53) - 1, (INT64_C(1) << 60) + 1};
    double got[6];
    gx_err err = {0};
    assert_int_equal(gx_dtype_inexact(GX_DTYPE_I64, x, 5), -1);
    assert_int_equal(gx_dtype_inexact(GX_DTYPE_I64, x, 6), 5);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(gx_dtype_inexact(GX_DTYPE_I64, &none[k], 1), 0);
        assert_int_equal(gx_widen(GX_DTYPE_I64, &none[k], 1, GX_F64, got, 1, 1, 1, &err), GX_ARG);
        assert_int_equal(gx_widen(GX_DTYPE_I64, &none[k], 1, GX_F64, got, 1, 1, 1, NULL), GX_OK);
        assert_true(got[0] == (double)none[k]);
    }
    const double y[] = {0x1p62, -0x1p63, 4503599627370497.5, -2.5, 0x1.fffffffffffffp62};
    const int64_t want[] = {INT64_C(1) << 62, INT64_MIN, INT64_C(4503599627370498), -2,
                            INT64_MAX - 1023};
    int64_t back[5];
    assert_int_equal(gx_dtype_narrow(GX_DTYPE_I64, y, 5, false, back), -1);
    assert_memory_equal(back, want, sizeof want);
    const double far[] = {0x1p63, -INFINITY};
    assert_int_equal(gx_dtype_narrow(GX_DTYPE_I64, far, 2, false, back), 0);
    assert_int_equal(gx_dtype_narrow(GX_DTYPE_I64, far, 2, true, back), -1);
    assert_true(back[0] == INT64_MAX - 1023 && back[1] == INT64_MIN);
}

static void u8_is_rounded_and_bounded(void **state)
{
    (void)state;
    const double fits[] = {0, -0.0, -0.5, 0.5, 1.5, 2.5, 1.4999999999, 254.5, 255, 255.49};
    const uint8_t want[] = {0, 0, 0, 0, 2, 2, 1, 254, 255, 255};
    uint8_t got[10];
    assert_int_equal(gx_dtype_narrow(GX_DTYPE_U8, fits, 10, false, got), -1);
    assert_memory_equal(got, want, sizeof want);
    const double not [] = {-0.51, 255.5, 256, -1, 1e30, -1e30, INFINITY, -INFINITY};
    const uint8_t clipped[] = {0, 255, 255, 0, 255, 0, 255, 0};
    for (int k = 0; k < 8; k++) {
        const double pair[] = {7, not [k]};
        assert_int_equal(gx_dtype_narrow(GX_DTYPE_U8, pair, 2, false, got), 1);
        assert_int_equal(gx_dtype_narrow(GX_DTYPE_U8, pair, 2, true, got), -1);
        assert_true(got[0] == 7 && got[1] == clipped[k]);
    }
    const double nan[] = {1, 2, (double)NAN};
    assert_int_equal(gx_dtype_narrow(GX_DTYPE_U8, nan, 3, true, got), 2);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    float x[2 * 300] = {0};
    uint8_t y[2 * 300];
    gx_err err = {0};
    gx_narrowing to = {.dtype = GX_DTYPE_U8, .i0 = 1000, .j0 = 50};
    x[300 + 299] = 300.25f;
    assert_int_equal(gx_narrow_to(GX_F32, x, 300, &to, y, 300, 300, 2, &err), GX_ARG);
    assert_string_equal(err.text, "element (1299, 51) is 300.25, and u8 holds 0 to 255 "
                                  "(option \"saturate\":true clips)");
    to.saturate = true;
    err = (gx_err){0};
    assert_int_equal(gx_narrow_to(GX_F32, x, 300, &to, y, 300, 300, 2, &err), GX_OK);
    assert_int_equal(y[599], 255);
    x[1] = NAN;
    assert_int_equal(gx_narrow_to(GX_F32, x, 300, &to, y, 300, 300, 2, &err), GX_ARG);
    assert_string_equal(err.text, "element (1001, 50) is nan, and u8 holds 0 to 255");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_the_format),
        cmocka_unit_test(other_names_are_unknown),
        cmocka_unit_test(an_element_is_found_anywhere),
        cmocka_unit_test(all_dtypes_hold_small_numbers),
        cmocka_unit_test(f16_is_binary16),
        cmocka_unit_test(f16_is_rounded_once),
        cmocka_unit_test(bf16_is_half_of_a_float),
        cmocka_unit_test(i64_says_what_f64_does_not_hold),
        cmocka_unit_test(u8_is_rounded_and_bounded),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
