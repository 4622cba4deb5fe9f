/*
** GX_WHOLE and GX_HAMMING of the CPU backend beside the reference, which is plain loops.
**
** Plan, for I8 and U8: shapes around blocks of rows, steps of columns, batches of queries, one
** query and few; leading dimensions that are larger; sums that c held before; the largest numbers,
** whose sums just fit.  Every number is compared, and what lies beside them is untouched.
*/
#include "block.h"

enum { PAD = 3, BESIDE = 0x5a5a5a5a };

typedef struct shape {
    int64_t m, n, k;
} shape;

/* most: all numbers of b are it, if it is not 0.  HAMMING takes half of them, as bytes. */
static void same_of(gx_kernel_id kernel, gx_dtype from, shape s, int most)
{
    int64_t lda = s.m + PAD, ldb = s.k + PAD, ldc = s.m + PAD;
    uint8_t *a = test_malloc((size_t)(lda * s.k + 1));
    int16_t *b = test_malloc((size_t)(ldb * s.n + 1) * sizeof *b);
    int32_t *c[2];
    gx_err err = {0};
    uint32_t seed = 7;
    for (int64_t e = 0; e < lda * s.k; e++) {
        seed = seed * 1664525 + 1013904223;
        a[e] = (uint8_t)(seed >> 24);
    }
    for (int64_t e = 0; e < ldb * s.n; e++) {
        seed = seed * 1664525 + 1013904223;
        b[e] = most != 0 ? (int16_t)most : (int16_t)(seed >> 16);
        b[e] = most == 0 ? (int16_t)(b[e] / 16) : b[e];
    }
    for (int way = 0; way < 2; way++) {
        const gx_backend *backend = way == 0 ? &gx_backend_ref : &gx_backend_cpu;
        gx_args args = {.m = s.m, .n = s.n, .k = s.k, .a = a, .lda = lda, .b = b, .ldb = ldb};
        c[way] = test_malloc((size_t)(ldc * s.n + 1) * sizeof **c);
        for (int64_t e = 0; e < ldc * s.n + 1; e++) {
            c[way][e] = e % ldc < s.m && e < ldc * s.n ? (int32_t)e - 50 : BESIDE;
        }
        args.c = c[way];
        args.ldc = ldc;
        args.from = from;
        assert_int_equal(backend->kernel[kernel][GX_F32](NULL, NULL, &args, &err), GX_OK);
    }
    for (int64_t e = 0; e < ldc * s.n + 1; e++) {
        if (c[0][e] != c[1][e]) {
            fail_msg("%s %dx%dx%d: element %d is %d, want %d", gx_dtype_name(from), (int)s.m,
                     (int)s.n, (int)s.k, (int)e, (int)c[1][e], (int)c[0][e]);
        }
        bool is_beside = e % ldc >= s.m || e == ldc * s.n;
        assert_true(!is_beside || c[1][e] == BESIDE);
    }
    test_free(a);
    test_free(b);
    test_free(c[0]);
    test_free(c[1]);
}

static void same(gx_dtype from, shape s, int most)
{
    same_of(GX_WHOLE, from, s, most);
}

static void as_the_reference(void **state)
{
    const int64_t rows[] = {0, 1, 15, 16, 17, 33, 70, 600},
                  queries[] = {1, 2, 3, 16, 127, 129, 260};
    const int64_t numbers[] = {0, 1, 7, 8, 9, 24, 31, 32, 70};
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (size_t q = 0; q < sizeof queries / sizeof *queries; q++) {
            for (size_t l = 0; l < sizeof numbers / sizeof *numbers; l++) {
                same(GX_DTYPE_I8, (shape){rows[r], queries[q], numbers[l]}, 0);
                same(GX_DTYPE_U8, (shape){rows[r], queries[q], numbers[l]}, 0);
                same_of(GX_HAMMING, GX_DTYPE_U8, (shape){rows[r], queries[q], numbers[l]}, 0);
            }
        }
    }
}

static void the_largest(void **state)
{
    (void)state;
    same(GX_DTYPE_U8, (shape){20, 3, 250}, 32767);
    same(GX_DTYPE_U8, (shape){20, 3, 250}, -32768);
    same(GX_DTYPE_I8, (shape){20, 3, 500}, -32768);
    same(GX_DTYPE_I8, (shape){40, 30, 500}, 32767);
    same(GX_DTYPE_I8, (shape){70, 1, 500}, -32768);
    same_of(GX_HAMMING, GX_DTYPE_U8, (shape){600, 3, 8200}, 0);
    same_of(GX_HAMMING, GX_DTYPE_U8, (shape){600, 3, 62}, -1);
}

static void slots(void **state)
{
    (void)state;
    for (int d = 0; d < GX_NUMBER_COUNT; d++) {
        assert_int_equal(gx_backend_cpu.kernel[GX_WHOLE][d] != NULL, d == GX_F32);
        assert_int_equal(gx_backend_cpu.kernel[GX_HAMMING][d] != NULL, d == GX_F32);
        assert_int_equal(gx_backend_ref.kernel[GX_WHOLE][d] != NULL, d == GX_F32);
        assert_int_equal(gx_backend_ref.kernel[GX_HAMMING][d] != NULL, d == GX_F32);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_reference),
        cmocka_unit_test(the_largest),
        cmocka_unit_test(slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
