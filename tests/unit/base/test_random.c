/*
** core/base/random.c: numbers from (seed, i, j).
**
** Plan
**  1. Philox2x64-10 against the known answers published with Random123 (tests/kat_vectors).
**  2. The normal quantile against reference values; symmetric to the bit.
**  3. A matrix does not depend on how it is cut: every rectangle equals the same part of the whole,
**     for every dtype and kind, with odd origins and leading dimensions; nothing outside is
**     written; singles are its elements.
**  4. f32 is f64 rounded; complex parts; real read as complex; the bits of a few elements, frozen.
**  5. Moments, range, correlation of neighbours, and that seeds and kinds differ.
**  6. Uniform stays below high where rounding would reach it; wrong parameters, exact words.
*/
#include "base/random.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static gx_random make(gx_random_kind kind, gx_number dtype, int64_t seed, double a, double b)
{
    gx_random random;
    gx_err err = {0};
    assert_int_equal(gx_random_init(&random, kind, dtype, seed, a, b, &err), GX_OK);
    return random;
}

static double element(const gx_random *random, int64_t i, int64_t j)
{
    double x;
    gx_random_generate(random, i, j, 1, 1, GX_F64, &x, 1);
    return x;
}

// 1. known answers --------------------------------------------------------------------------------

static void philox_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint64_t counter[2], key, out[2];
    } known[] = {
        {{0, 0}, 0, {0xca00a0459843d731u, 0x66c24222c9a845b5u}},
        {{UINT64_MAX, UINT64_MAX}, UINT64_MAX, {0x65b021d60cd8310fu, 0x4d02f3222f86df20u}},
        {{0x243f6a8885a308d3u, 0x13198a2e03707344u},
         0xa4093822299f31d0u,
         {0x0a5e742c2997341cu, 0xb0f883d38000de5du}},
    };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        uint64_t out[2];
        gx_philox(known[k].counter, known[k].key, out);
        assert_true(out[0] == known[k].out[0] && out[1] == known[k].out[1]);
    }
}

static void uniform_is_philox(void **state)
{
    (void)state;
    gx_random random = make(GX_RANDOM_UNIFORM, GX_F64, 7, 0, 1);
    for (int64_t i = 0; i < 300; i++) {
        uint64_t counter[2] = {(uint64_t)i / 2, 5}, out[2];
        gx_philox(counter, 7, out);
        assert_true(element(&random, i, 5) == (double)(out[i % 2] >> 11) * 0x1p-53);
    }
    random = make(GX_RANDOM_NORMAL, GX_F64, 7, 0, 1);
    for (int64_t i = 0; i < 300; i++) {
        uint64_t counter[2] = {(uint64_t)i / 2 | (uint64_t)1 << 63, 5}, out[2];
        gx_philox(counter, 7, out);
        assert_true(element(&random, i, 5) == gx_random_normal_of(out[i % 2]));
    }
}

// 2. the quantile ---------------------------------------------------------------------------------

static void quantile_reference(void **state)
{
    (void)state;
    static const struct {
        uint64_t word;
        double z;
    } known[] = {
        {0x0000000000000000u, -8.209536151601387},     {0x0000000000001000u, -8.076571004130123},
        {0x0000001000000000u, -5.780439319465389},     {0x123456789abcdef0u, -1.4675657313132977},
        {0x1333000000000000u, -1.439553030021941},     {0x1333333333333333u, -1.4395314709384557},
        {0x4000000000000000u, -0.6744897501960815},
        {0x7fffffffffffffffu, -2.782916424671767e-16},
      {0x8000000000000000u, 2.782916424671767e-16},  {0xeccd000000000000u, 1.439553030021943},
        {0xfedcba9876543210u, 2.6162982036439675},     {0xffffffffffffffffu, 8.209536151601387},
    };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        double z = gx_random_normal_of(known[k].word);
        assert_true(fabs(z - known[k].z) <= 8 * DBL_EPSILON * fabs(known[k].z));
        assert_true(gx_random_normal_of(~known[k].word) == -z);
    }
}

static void quantile_is_monotone_at_the_seams(void **state)
{
    (void)state;
    // p = 0.075 and the p with sqrt(-log p) = 5: the formulas meet to rounding.
    static const uint64_t seams[] = {0x1333333333333333u, 0x000000000f451000u};
    for (size_t k = 0; k < 2; k++) {
        for (int64_t step = -50; step < 50; step++) {
            uint64_t word = seams[k] + (uint64_t)(step * 4096);
            double z = gx_random_normal_of(word), next = gx_random_normal_of(word + 4096);
            assert_true(next >= z - 8 * DBL_EPSILON * fabs(z));
        }
    }
}

// 3. rectangles -----------------------------------------------------------------------------------

static void check_rectangles(gx_random_kind kind, gx_number made, gx_number read)
{
    enum { M = 301, N = 5, LD = 320 };
    gx_random random = make(kind, made, 42, -1, 3);
    size_t size = gx_number_bytes(read);
    unsigned char *whole = malloc(M * N * size), *part = malloc(LD * N * size);
    gx_random_generate(&random, 0, 0, M, N, read, whole, M);
    static const int64_t cuts[][4] = {{0, 0, 1, 1},  {1, 1, 1, 4},   {127, 0, 2, 5},
                                      {3, 2, 298, 3}, {128, 1, 128, 2}, {300, 4, 1, 1},
                                      {0, 0, 0, 5},  {17, 3, 200, 0}};
    for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
        int64_t i0 = cuts[k][0], j0 = cuts[k][1], m = cuts[k][2], n = cuts[k][3];
        memset(part, 0xA5, LD * N * size);
        gx_random_generate(&random, i0, j0, m, n, read, part, LD);
        for (int64_t j = 0; j < n; j++) {
            const unsigned char *column = part + (size_t)(j * LD) * size;
            assert_memory_equal(column, gx_at(whole, read, M, i0, j0 + j), (size_t)m * size);
            for (size_t b = (size_t)m * size; b < LD * size; b++) {
                assert_int_equal(column[b], 0xA5);
            }
        }
    }
    free(whole);
    free(part);
}

static void rectangles_agree(void **state)
{
    (void)state;
    for (int kind = GX_RANDOM_UNIFORM; kind <= GX_RANDOM_NORMAL; kind++) {
        for (int dtype = 0; dtype < GX_FLOATS; dtype++) {
            check_rectangles((gx_random_kind)kind, (gx_number)dtype, (gx_number)dtype);
        }
        check_rectangles((gx_random_kind)kind, GX_F64, GX_C128);
        check_rectangles((gx_random_kind)kind, GX_F32, GX_C64);
        check_rectangles((gx_random_kind)kind, GX_F32, GX_F64);
    }
}

/* Singles are the elements of rectangles. */
static void singles_agree(void **state)
{
    (void)state;
    for (int k = 0; k < 2 * GX_FLOATS * 5; k++) {
        static const int counts[] = {0, 1, 2, 7, GX_RANDOM_SINGLES};
        gx_number dtype = (gx_number)(k / 2 % GX_FLOATS);
        int count = counts[k / 2 / GX_FLOATS], parts = gx_number_is_complex(dtype) ? 2 : 1;
        gx_random random = make((gx_random_kind)(k % 2), dtype, 11, 1, 3);
        int64_t i[GX_RANDOM_SINGLES], j[GX_RANDOM_SINGLES];
        double x[2 * GX_RANDOM_SINGLES], want[2];
        for (int64_t l = 0; l < count; l++) {
            i[l] = l * l % 19;
            j[l] = ((int64_t)1 << 33) + l * 7;
        }
        gx_random_singles(&random, count, i, j, x);
        for (int l = 0; l < count; l++) {
            gx_random_generate(&random, i[l], j[l], 1, 1, GX_C128, want, 1);
            assert_memory_equal(x + parts * l, want, (size_t)parts * sizeof *x);
        }
    }
}

static void far_corner(void **state)
{
    (void)state;
    gx_random random = make(GX_RANDOM_UNIFORM, GX_F64, -3, 0, 1);
    double x[6];
    gx_random_generate(&random, ((int64_t)1 << 62) - 2, ((int64_t)1 << 62) - 3, 2, 3, GX_F64, x, 2);
    for (int k = 0; k < 6; k++) {
        assert_true(x[k] >= 0 && x[k] < 1);
        for (int l = 0; l < k; l++) {
            assert_true(x[k] != x[l]);
        }
    }
}

// 4. dtypes ---------------------------------------------------------------------------------------

static void dtypes(void **state)
{
    (void)state;
    enum { M = 1000 };
    double f64[M], c128[2 * M], widened[2 * M];
    float f32[M], c64[2 * M];
    for (int kind = GX_RANDOM_UNIFORM; kind <= GX_RANDOM_NORMAL; kind++) {
        gx_random r64 = make((gx_random_kind)kind, GX_F64, 9, 0, 1);
        gx_random r32 = make((gx_random_kind)kind, GX_F32, 9, 0, 1);
        gx_random rc128 = make((gx_random_kind)kind, GX_C128, 9, 0, 1);
        gx_random rc64 = make((gx_random_kind)kind, GX_C64, 9, 0, 1);
        gx_random_generate(&r64, 0, 3, M, 1, GX_F64, f64, M);
        gx_random_generate(&r32, 0, 3, M, 1, GX_F32, f32, M);
        gx_random_generate(&rc128, 0, 3, M, 1, GX_C128, c128, M);
        gx_random_generate(&rc64, 0, 3, M, 1, GX_C64, c64, M);
        gx_random_generate(&r64, 0, 3, M, 1, GX_C128, widened, M);
        for (int i = 0; i < M; i++) {
            assert_true(f32[i] == (float)f64[i]);
            assert_true(c64[2 * i] == (float)c128[2 * i]);
            assert_true(c64[2 * i + 1] == (float)c128[2 * i + 1]);
            assert_true(widened[2 * i] == f64[i] && widened[2 * i + 1] == 0);
            assert_true(c128[2 * i] != c128[2 * i + 1] && c128[i] != f64[i]);
        }
    }
}

/* Matrices that people have stored depend on these bits: they never change. */
static void frozen_bits(void **state)
{
    (void)state;
    static const struct {
        gx_random_kind kind;
        int64_t seed, i, j;
        double x;
    } frozen[] = {
        {GX_RANDOM_UNIFORM, 0, 0, 0, 0x1.9401408b3087ap-1},
        {GX_RANDOM_UNIFORM, 0, 1, 0, 0x1.9b09088b26a1p-2},
        {GX_RANDOM_UNIFORM, 1, 1000, 77, 0x1.c813560cdb2b4p-3},
        {GX_RANDOM_NORMAL, 0, 0, 0, -0x1.c08c96fdf448fp-1},
        {GX_RANDOM_NORMAL, 0, 3, 4, -0x1.ca8d70b6f4f9bp-3},
        {GX_RANDOM_NORMAL, -1, 1000, 77, 0x1.113ebe72be5c8p+1},
    };
    for (size_t k = 0; k < sizeof frozen / sizeof *frozen; k++) {
        gx_random random = make(frozen[k].kind, GX_F64, frozen[k].seed, 0, 1);
        assert_true(element(&random, frozen[k].i, frozen[k].j) == frozen[k].x);
    }
}

// 5. statistics -----------------------------------------------------------------------------------

static void moments(void **state)
{
    (void)state;
    enum { M = 1024, N = 512, COUNT = M * N };
    double *x = malloc(COUNT * sizeof *x);
    static const double expected[2][4] = {
        {0.5, 1.0 / 12, 0, 1.8}, // uniform: mean, variance, skewness, kurtosis
        {0, 1, 0, 3},
    };
    for (int kind = GX_RANDOM_UNIFORM; kind <= GX_RANDOM_NORMAL; kind++) {
        gx_random random = make((gx_random_kind)kind, GX_F64, 2024, 0, 1);
        gx_random_generate(&random, 0, 0, M, N, GX_F64, x, M);
        double sum = 0, m2 = 0, m3 = 0, m4 = 0, down = 0, right = 0;
        for (int k = 0; k < COUNT; k++) {
            sum += x[k];
        }
        double mean = sum / COUNT;
        for (int k = 0; k < COUNT; k++) {
            double d = x[k] - mean, d2 = d * d;
            m2 += d2;
            m3 += d2 * d;
            m4 += d2 * d2;
            down += k + 1 < COUNT ? d * (x[k + 1] - mean) : 0;
            right += k + M < COUNT ? d * (x[k + M] - mean) : 0;
        }
        double variance = m2 / COUNT, sigma = sqrt(variance), five = 5 / sqrt(COUNT);
        assert_true(fabs(mean - expected[kind][0]) < five * sigma);
        assert_true(fabs(variance / expected[kind][1] - 1) < 2 * five);
        assert_true(fabs(m3 / COUNT / (variance * sigma)) < 3 * five);
        assert_true(fabs(m4 / COUNT / (variance * variance) - expected[kind][3]) < 10 * five);
        assert_true(fabs(down / COUNT / variance) < five);
        assert_true(fabs(right / COUNT / variance) < five);
    }
    free(x);
}

static void streams_differ(void **state)
{
    (void)state;
    gx_random a = make(GX_RANDOM_UNIFORM, GX_F64, 1, 0, 1);
    gx_random b = make(GX_RANDOM_UNIFORM, GX_F64, 2, 0, 1);
    gx_random normal = make(GX_RANDOM_NORMAL, GX_F64, 1, 0, 1);
    int same = 0, ordered = 0;
    for (int64_t i = 0; i < 400; i++) {
        same += element(&a, i, 0) == element(&b, i, 0);
        ordered += (element(&a, i, 0) < 0.5) == (element(&normal, i, 0) < 0);
    }
    assert_int_equal(same, 0);
    assert_in_range(ordered, 140, 260); // a normal matrix is no function of the uniform one
}

// 6. parameters -----------------------------------------------------------------------------------

static void below_high(void **state)
{
    (void)state;
    enum { M = 4096 };
    static float x[M];
    // In f32 [1, 1 + 2^-20) has 8 numbers: rounding to nearest would give high in 1 of 16.
    gx_random random = make(GX_RANDOM_UNIFORM, GX_F32, 5, 1, 1 + 0x1p-20);
    gx_random_generate(&random, 0, 0, M, 1, GX_F32, x, M);
    int top = 0;
    for (int i = 0; i < M; i++) {
        assert_true(x[i] >= 1 && x[i] < 1 + 0x1p-20f);
        top += x[i] == 1 + 7 * 0x1p-23f;
    }
    assert_true(top > 0);
    random = make(GX_RANDOM_UNIFORM, GX_F64, 5, 2.5, 2.5);
    assert_true(element(&random, 3, 3) == 2.5);
    random = make(GX_RANDOM_NORMAL, GX_F64, 5, 2.5, 0);
    assert_true(element(&random, 3, 3) == 2.5);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        gx_random_kind kind;
        double a, b;
        const char *text;
    } wrong[] = {
        {GX_RANDOM_UNIFORM, 2, 1, "low is 2 but high is 1"},
        {GX_RANDOM_UNIFORM, 0, INFINITY, "low 0 and high inf must be finite"},
        {GX_RANDOM_UNIFORM, -DBL_MAX, DBL_MAX,
         "the range from low -1.79769e+308 to high 1.79769e+308 overflows"},
        {GX_RANDOM_NORMAL, 0, -1, "std is -1 but must not be negative"},
        {GX_RANDOM_NORMAL, -INFINITY, 1, "mean -inf and std 1 must be finite"},
    };
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        gx_random random;
        gx_err err = {0};
        assert_int_equal(gx_random_init(&random, wrong[k].kind, GX_F64, 0, wrong[k].a, wrong[k].b,
                                        &err),
                         GX_ARG);
        assert_string_equal(err.text, wrong[k].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers), cmocka_unit_test(uniform_is_philox),
        cmocka_unit_test(quantile_reference),   cmocka_unit_test(quantile_is_monotone_at_the_seams),
        cmocka_unit_test(rectangles_agree),     cmocka_unit_test(far_corner),
        cmocka_unit_test(singles_agree),
        cmocka_unit_test(dtypes),               cmocka_unit_test(frozen_bits),
        cmocka_unit_test(moments),              cmocka_unit_test(streams_differ),
        cmocka_unit_test(below_high),           cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
