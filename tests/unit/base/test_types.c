/*
** Numbers, properties and checked sizes (core/base/types.c), and errors (core/base/err.c).
**
** Plan:
**   1. numbers: bytes, names
**   2. promotion: the whole 4 x 4 table, and its symmetry
**   3. properties: text and parsing, all bits at once fit
**   4. checked products at the edge of overflow; nothing is written on failure
**   5. addresses, minima, rounded division
**   6. errors: the first one wins, the text is one line and cut, NULL is allowed, codes come
**      through
*/
#include "base/err.h"
#include "base/types.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const gx_number dtypes[] = {GX_F64, GX_F32, GX_C128, GX_C64};

static void dtypes_are_the_format(void **state)
{
    (void)state;
    static const size_t bytes[] = {8, 4, 16, 8};
    static const char *const names[] = {"f64", "f32", "c128", "c64"};
    for (int d = 0; d < GX_FLOATS; d++) {
        assert_int_equal(dtypes[d], d); // stored in files
        assert_int_equal(gx_number_bytes(dtypes[d]), bytes[d]);
        assert_string_equal(gx_number_name(dtypes[d]), names[d]);
        assert_int_equal(gx_number_is_complex(dtypes[d]), d >= 2);
        assert_int_equal(gx_number_is_double(dtypes[d]), d % 2 == 0);
    }
    assert_string_equal(gx_number_name(GX_M31), "m31");
    assert_string_equal(gx_number_name((gx_number)-1), "?");
}

static void promotion_loses_nothing(void **state)
{
    (void)state;
    static const gx_number table[4][4] = {
        {GX_F64, GX_F64, GX_C128, GX_C128},
        {GX_F64, GX_F32, GX_C128, GX_C64},
        {GX_C128, GX_C128, GX_C128, GX_C128},
        {GX_C128, GX_C64, GX_C128, GX_C64},
    };
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            assert_int_equal(gx_number_promote((gx_number)i, (gx_number)j), table[i][j]);
            assert_int_equal(table[i][j], table[j][i]);
        }
    }
}

static void properties(void **state)
{
    (void)state;
    char text[GX_PROPERTIES_MAX];
    assert_string_equal(gx_properties_text(0, text), "");
    assert_string_equal(gx_properties_text(GX_PROP_LOWER, text), "lower");
    assert_string_equal(gx_properties_text(GX_PROP_SYMMETRIC | GX_PROP_POSITIVE, text),
                        "symmetric,positive");
    assert_string_equal(gx_properties_text(UINT32_MAX, text),
                        "symmetric,hermitian,positive,lower,upper,unit,orthogonal,lu,qr,quantized");
    uint32_t bit = 99;
    assert_true(gx_property_parse("orthogonal", &bit));
    assert_int_equal(bit, GX_PROP_ORTHOGONAL);
    assert_true(gx_property_parse("symmetric", &bit));
    assert_int_equal(bit, GX_PROP_SYMMETRIC);
    assert_false(gx_property_parse("lu", &bit)); // shown, but nobody's to set
    assert_false(gx_property_parse("quantized", &bit));
    assert_false(gx_property_parse("Symmetric", &bit));
    assert_false(gx_property_parse("", &bit));
    assert_int_equal(bit, GX_PROP_SYMMETRIC);
}

static void products_are_checked(void **state)
{
    (void)state;
    size_t size = 7;
    assert_true(gx_mul_size(SIZE_MAX, 1, &size));
    assert_true(size == SIZE_MAX);
    assert_true(gx_mul_size(0, SIZE_MAX, &size));
    assert_int_equal(size, 0);
    size = 7;
    assert_false(gx_mul_size(SIZE_MAX / 2 + 1, 2, &size));
    assert_int_equal(size, 7);

    int64_t product = 7;
    assert_true(gx_mul_i64(INT64_MAX, 1, &product));
    assert_true(product == INT64_MAX);
    product = 7;
    assert_false(gx_mul_i64((int64_t)1 << 32, (int64_t)1 << 31, &product));
    assert_int_equal(product, 7);

    size_t bytes = 7;
    assert_true(gx_matrix_bytes(1000, 64, GX_C128, &bytes));
    assert_int_equal(bytes, 1024000);
    assert_true(gx_matrix_bytes(0, GX_SIDE_MAX, GX_F64, &bytes));
    assert_int_equal(bytes, 0);
    assert_true(gx_matrix_bytes(GX_SIDE_MAX, 1 << 13, GX_F64, &bytes));
    assert_true(bytes == GX_BYTES_MAX);
    static const int64_t refused[][2] = {
        {-1, 3},
        {3, -1},
        {INT64_MIN, INT64_MIN},
        {0, GX_SIDE_MAX + 1},
        {GX_SIDE_MAX + 1, 0},
        {GX_SIDE_MAX, (1 << 13) + 1},
        {(int64_t)1 << 32, (int64_t)1 << 32}, // 2^64 elements
        {INT64_MAX, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        bytes = 7;
        assert_false(gx_matrix_bytes(refused[i][0], refused[i][1], GX_F64, &bytes));
        assert_true(bytes == SIZE_MAX / 16);
    }
}

static void small_arithmetic(void **state)
{
    (void)state;
    char base[1];
    assert_ptr_equal(gx_at(base, GX_F64, 10, 0, 0), base);
    assert_int_equal((char *)gx_at(base, GX_F64, 10, 3, 2) - base, 8 * 23);
    assert_int_equal((char *)gx_at(base, GX_C128, 5, 1, 4) - base, 16 * 21);
    assert_int_equal(gx_min(-3, 2), -3);
    assert_int_equal(gx_max(-3, 2), 2);
    assert_int_equal(gx_ceil_div(0, 5), 0);
    assert_int_equal(gx_ceil_div(10, 5), 2);
    assert_int_equal(gx_ceil_div(11, 5), 3);
    assert_true(gx_ceil_div(INT64_MAX, 2) == INT64_MAX / 2 + 1);
}

/*
** ---- errors
** -------------------------------------------------------------------------------------
*/

static gx_code two_steps(gx_code first, gx_code second, int *reached)
{
    *reached = 0;
    GX_TRY(first);
    *reached = 1;
    GX_TRY(second);
    *reached = 2;
    return GX_OK;
}

static void the_first_error_wins(void **state)
{
    (void)state;
    gx_err err = {.code = GX_OK};
    assert_int_equal(gx_fail(&err, GX_ARG, "A is %dx%d", 3, 4), GX_ARG);
    assert_int_equal(gx_fail(&err, GX_IO, "later"), GX_ARG);
    assert_int_equal(err.code, GX_ARG);
    assert_string_equal(err.text, "A is 3x4");
    assert_int_equal(gx_fail(NULL, GX_FULL, "nobody listens"), GX_FULL);

    gx_err nomem = {.code = GX_OK};
    assert_int_equal(gx_fail_nomem(&nomem, 12345678901ull, "block cache"), GX_NOMEM);
    assert_string_equal(nomem.text, "out of memory (12345678901 bytes for block cache)");

    int reached;
    assert_int_equal(two_steps(GX_OK, GX_OK, &reached), GX_OK);
    assert_int_equal(reached, 2);
    assert_int_equal(two_steps(GX_OK, GX_BUSY, &reached), GX_BUSY);
    assert_int_equal(reached, 1);
    assert_int_equal(two_steps(GX_NOMEM, GX_BUSY, &reached), GX_NOMEM);
    assert_int_equal(reached, 0);
}

static void the_text_is_one_line(void **state)
{
    (void)state;
    gx_err err = {.code = GX_OK};
    gx_fail(&err, GX_ARG, "a\nb\tc\rd%s", "\x1b[0m caf\xc3\xa9");
    assert_string_equal(err.text, "a b c d\\x1b[0m caf\xc3\xa9");

    char lengthy[2000];
    memset(lengthy, 'x', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = '\0';
    gx_err cut = {.code = GX_OK};
    gx_fail(&cut, GX_ARG, "%s", lengthy);
    assert_int_equal(strlen(cut.text), sizeof cut.text - 1);
}

/* Whole characters stay, what is none is escaped, and a cut is between two of either. */
static void text_is_fitted(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"", ""},
        {"1234567890A", "1234567890A"},
        {"1234567890AB", "12345678..."},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"1234567\xc3\xa9"
         "90A",
         "1234567..."},
        {"\xe9\x7f", "\\xe9\\x7f"},
        {"\xc3", "\\xc3"},
        {"\xc0\x80", "\\xc0\\x80"},
        {"12345\x01"
         "8901",
         "12345..."},
        {"\n\t\r", "   "},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char shown[12];
        size_t bytes = strlen(cases[k].text);
        assert_ptr_equal(gx_text_fit(cases[k].text, bytes, shown, sizeof shown), shown);
        assert_string_equal(shown, cases[k].shown);
    }
    char nul[8];
    assert_string_equal(gx_text_fit("\0", 1, nul, sizeof nul), "\\x00");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtypes_are_the_format),
        cmocka_unit_test(promotion_loses_nothing), cmocka_unit_test(properties),
        cmocka_unit_test(products_are_checked),    cmocka_unit_test(small_arithmetic),
        cmocka_unit_test(the_first_error_wins),    cmocka_unit_test(the_text_is_one_line),
        cmocka_unit_test(text_is_fitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
