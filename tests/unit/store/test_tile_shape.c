/*
** gx_tile_shape(): the shape of a storage tile, a pure function.
**
** Plan:
**   1. the shapes that store.h promises: square, tall, flat, vectors, empty matrices
**   2. slivers: sides just past the limit are cut evenly
**   3. tiny tile limits, down to one element, and below it
**   4. huge matrices: refused past what a matrix may be and past 2^32 - 1 tiles, with the text
**   5. invariants on a grid of shapes: within the limits, within the matrix, multiples of 64
*/
#include "store/store.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const size_t MIB8 = (size_t)8 << 20;

static void shape_is(int64_t rows, int64_t cols, gx_dtype dtype, size_t bytes, int64_t p,
                     int64_t q)
{
    gx_err err = {.code = GX_OK};
    int64_t tile_rows = -1, tile_cols = -1;
    assert_int_equal(gx_tile_shape(rows, cols, dtype, bytes, &tile_rows, &tile_cols, &err), GX_OK);
    assert_int_equal(tile_rows, p);
    assert_int_equal(tile_cols, q);
}

static void fails(int64_t rows, int64_t cols, gx_dtype dtype, size_t bytes, const char *text)
{
    gx_err err = {.code = GX_OK};
    int64_t p, q;
    assert_int_equal(gx_tile_shape(rows, cols, dtype, bytes, &p, &q, &err), GX_TOOBIG);
    assert_string_equal(err.text, text);
}

static void promised(void **state)
{
    (void)state;
    shape_is(4096, 4096, GX_DTYPE_F64, MIB8, 1024, 1024);
    shape_is(1024, 1024, GX_DTYPE_F64, MIB8, 1024, 1024);
    shape_is(1000, 1000, GX_DTYPE_F64, MIB8, 1000, 1000);
    shape_is(1000000, 64, GX_DTYPE_F64, MIB8, 16384, 64);
    shape_is(64, 1000000, GX_DTYPE_F64, MIB8, 64, 16384);
    shape_is(1000000, 64, GX_DTYPE_F32, MIB8, 32768, 64);
    shape_is(1000000, 100, GX_DTYPE_F64, MIB8, 10432,
             100); // 1048576 / 100, down to a multiple of 64
    shape_is(3000000, 1, GX_DTYPE_F64, MIB8, 1048576, 1);
    shape_is(1, 3000000, GX_DTYPE_C128, MIB8, 1, 524288);
    shape_is(1, 1, GX_DTYPE_C128, MIB8, 1, 1);
    shape_is(0, 0, GX_DTYPE_F64, MIB8, 1, 1);
    shape_is(0, 1000, GX_DTYPE_F64, MIB8, 1, 1000);
    shape_is(1000, 0, GX_DTYPE_F64, MIB8, 1000, 1);
    shape_is(8192, 8192, GX_DTYPE_F32, MIB8, 1408, 1408);
    shape_is(8192, 8192, GX_DTYPE_C64, MIB8, 1024, 1024);
    shape_is(4096, 4096, GX_DTYPE_F64, (size_t)32 << 20, 2048, 2048);
}

static void no_slivers(void **state)
{
    (void)state;
    shape_is(1025, 1025, GX_DTYPE_F64, MIB8, 576, 576);
    shape_is(1100, 1000000, GX_DTYPE_F64, MIB8, 576, 1024);
    shape_is(2049, 2049, GX_DTYPE_F64, MIB8, 704, 704);
}

static void tiny(void **state)
{
    (void)state;
    shape_is(10, 10, GX_DTYPE_F64, 64, 2, 2);
    shape_is(10, 2, GX_DTYPE_F64, 64, 4, 2);
    shape_is(2, 10, GX_DTYPE_F64, 64, 2, 4);
    shape_is(100, 1, GX_DTYPE_F64, 64, 8, 1);
    shape_is(100, 100, GX_DTYPE_F64, 8, 1, 1);
    shape_is(100, 100, GX_DTYPE_C128, 31, 1, 1);
    fails(1, 1, GX_DTYPE_C128, 15, "an element of 16 bytes does not fit a tile of 15");
    fails(1, 1, GX_DTYPE_F64, 0, "an element of 8 bytes does not fit a tile of 0");
}

static void huge(void **state)
{
    (void)state;
    fails(INT64_MAX, 2, GX_DTYPE_F64, MIB8,
          "a result of 9223372036854775807x2 f64: " GX_SIZES_TEXT);
    fails((int64_t)1 << 40, (int64_t)1 << 40, GX_DTYPE_F32, MIB8,
          "a result of 1099511627776x1099511627776 f32: " GX_SIZES_TEXT);
    fails(1 << 26, 1 << 26, GX_DTYPE_F64, 64,
          "a matrix of 67108864x67108864 f64 has more than 2^32 - 1 tiles of 64 bytes: raise it "
          "with gx_config('tile_bytes', ...)");
    // 2^16 * 3 on each side at 4 elements a tile would be 9 * 2^30 tiles: 8 fit in 64 bytes.
    fails(196608, 196608, GX_DTYPE_F64, 64,
          "a matrix of 196608x196608 f64 has more than 2^32 - 1 tiles of 64 bytes: raise it with "
          "gx_config('tile_bytes', ...)");
    shape_is(131072, 131072, GX_DTYPE_F64, 64, 4, 2); // 2^32 tiles of 2 x 2 were one too many
    shape_is((int64_t)1 << 40, 1, GX_DTYPE_F64, MIB8, 1048576, 1);
    shape_is(1 << 20, 1 << 20, GX_DTYPE_F64, SIZE_MAX, 16192,
             16192); // a blob has at most 2^31 - 1 bytes
}

static void invariants(void **state)
{
    (void)state;
    static const int64_t sides[] = {1, 2, 63, 64, 65, 100, 1023, 1024, 1025, 1449, 5000, 100000,
                                    12345678};
    static const size_t limits[] = {16, 64, 1000, 65536, 1 << 20, (size_t)8 << 20};
    enum { SIDES = sizeof sides / sizeof *sides, LIMITS = sizeof limits / sizeof *limits };
    for (int c = 0; c < SIDES * SIDES * LIMITS * GX_DTYPE_COUNT; c++) {
        int64_t m = sides[c % SIDES], n = sides[c / SIDES % SIDES], p, q;
        size_t limit = limits[c / SIDES / SIDES % LIMITS];
        gx_dtype dtype = (gx_dtype)(c / SIDES / SIDES / LIMITS);
        gx_err err = {.code = GX_OK};
        if (gx_tile_shape(m, n, dtype, limit, &p, &q, &err) != GX_OK) {
            int64_t needed = gx_ceil_div(m * n, (int64_t)(limit / gx_dtype_bytes(dtype)));
            assert_true(needed > UINT32_MAX / 4); // refused only where the tiles are very many
            continue;
        }
        assert_in_range(p, 1, m);
        assert_in_range(q, 1, n);
        assert_true((size_t)(p * q) * gx_dtype_bytes(dtype) <= limit);
        assert_true(gx_ceil_div(m, p) * gx_ceil_div(n, q) <= UINT32_MAX);
        assert_true(p == m || p <= 64 || p % 64 == 0);
        assert_true(q == n || q <= 64 || q % 64 == 0);
        // At least a quarter of the limit is used where the matrix is that large.
        size_t whole = (size_t)(m * n) * gx_dtype_bytes(dtype);
        size_t least = (whole < limit ? whole : limit) / 4;
        assert_true((size_t)(p * q) * gx_dtype_bytes(dtype) + gx_dtype_bytes(dtype) * 64 >=
                    least);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(promised), cmocka_unit_test(no_slivers), cmocka_unit_test(tiny),
        cmocka_unit_test(huge),     cmocka_unit_test(invariants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
