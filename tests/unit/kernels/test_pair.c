/*
** GX_PAIR, both products of a block with a few columns, beside the reference.
**
** Plan, for every dtype:
**   1. by hand: a 2 x 2 block, real and complex, both products
**   2. shapes around the kernel's groups, vectors and panels (0, 1, 3, 4, 5, ..., 513, 1100) with 0
**      to 9 and 64 columns, other leading dimensions, and either product alone: within the rounding
**      of the reference, nothing written outside the rectangles, operands unchanged
**   3. the same bits whatever the other columns, the other product and the leading dimensions are
**   4. NaN and Inf reach the rows and columns they are in, and no others
*/
#include "block.h"

#include <float.h>
#include <math.h>

static const uint64_t SEED = 20261121;

typedef struct sides {
    block a, b, c, b2, c2;
} sides;

static block random_block(gx_number dtype, int64_t m, int64_t n, int64_t gap, uint64_t *seed)
{
    block b = block_make(dtype, m, n, gx_max(1, m + gap));
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            double re = random_unit(seed);
            block_set(&b, i, j, (gx_scalar){re, random_unit(seed)});
        }
    }
    return b;
}

static sides make_sides(gx_number dtype, int64_t m, int64_t n, int64_t k, int64_t gap)
{
    uint64_t seed = SEED;
    sides s;
    s.a = random_block(dtype, m, n, gap, &seed);
    s.b = random_block(dtype, n, k, gap, &seed);
    s.c = random_block(dtype, m, k, gap, &seed);
    s.b2 = random_block(dtype, m, k, gap, &seed);
    s.c2 = random_block(dtype, n, k, gap, &seed);
    return s;
}

static void free_sides(sides *s)
{
    block *all[] = {&s->a, &s->b, &s->c, &s->b2, &s->c2};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_true(block_is_guarded(all[i]));
        block_free(all[i]);
    }
}

static void run(const gx_backend *backend, sides *s, int64_t k, bool has_plain, bool has_adjoint)
{
    gx_err err = {.code = GX_OK};
    gx_dev *dev;
    assert_int_equal(backend->open(0, &dev, &err), GX_OK);
    gx_args args = {.m = s->a.m, .n = s->a.n, .k = k, .a = s->a.data, .lda = s->a.ld};
    if (has_plain) {
        args.b = s->b.data;
        args.ldb = s->b.ld;
        args.c = s->c.data;
        args.ldc = s->c.ld;
    }
    if (has_adjoint) {
        args.b2 = s->b2.data;
        args.ldb2 = s->b2.ld;
        args.c2 = s->c2.data;
        args.ldc2 = s->c2.ld;
    }
    assert_int_equal(backend->kernel[GX_PAIR][s->a.dtype](dev, NULL, &args, &err), GX_OK);
    backend->close(dev);
}

static void compare(const block *got, const block *want, int64_t terms)
{
    double eps = gx_number_is_double(got->dtype) ? DBL_EPSILON : (double)FLT_EPSILON;
    double bound = 4 * eps * ((double)terms + 2); // elements are below 1, complex ones below 2
    for (int64_t j = 0; j < got->n; j++) {
        for (int64_t i = 0; i < got->m; i++) {
            gx_scalar x = block_get(got, i, j), y = block_get(want, i, j);
            double gap = hypot(x.re - y.re, x.im - y.im);
            if (!(gap <= bound)) {
                fail_msg("%s, %lld terms: %g+%gi at (%lld, %lld), not %g+%gi",
                         gx_number_name(got->dtype), (long long)terms, x.re, x.im, (long long)i,
                         (long long)j, y.re, y.im);
            }
        }
    }
}

static bool is_same(const block *x, const block *y, int64_t cols)
{
    for (int64_t j = 0; j < cols; j++) {
        size_t bytes = (size_t)x->m * gx_number_bytes(x->dtype);
        if (memcmp(gx_at(x->data, x->dtype, x->ld, 0, j), gx_at(y->data, y->dtype, y->ld, 0, j),
                   bytes) != 0) {
            return false;
        }
    }
    return true;
}

// Tests -------------------------------------------------------------------------------------------

static void by_hand(void **state)
{
    (void)state;
    const gx_backend *backends[] = {&gx_oracle, &gx_backend_cpu};
    for (int b = 0; b < 2; b++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            bool is_complex = gx_number_is_complex((gx_number)d);
            sides s = make_sides((gx_number)d, 2, 2, 1, 0);
            const gx_scalar a[] = {{1, 2}, {3, -1}, {2, 0}, {0, 1}}, x[] = {{1, 1}, {2, 0}};
            for (int64_t i = 0; i < 2; i++) {
                block_set(&s.a, i, 0, a[i]);
                block_set(&s.a, i, 1, a[2 + i]);
                block_set(&s.b, i, 0, x[i]);
                block_set(&s.b2, i, 0, x[i]);
                block_set(&s.c, i, 0, (gx_scalar){10, 0});
                block_set(&s.c2, i, 0, (gx_scalar){20, 0});
            }
            run(backends[b], &s, 1, true, true);
            // Real: [1 2; 3 0] [1; 2] = [5; 3], its transpose [7; 2].
            gx_scalar want[] = {is_complex ? (gx_scalar){13, 3} : (gx_scalar){15, 0},
                                is_complex ? (gx_scalar){14, 4} : (gx_scalar){13, 0}};
            gx_scalar want2[] = {is_complex ? (gx_scalar){29, 1} : (gx_scalar){27, 0},
                                 is_complex ? (gx_scalar){22, 0} : (gx_scalar){22, 0}};
            for (int64_t i = 0; i < 2; i++) {
                gx_scalar c = block_get(&s.c, i, 0), c2 = block_get(&s.c2, i, 0);
                assert_true(c.re == want[i].re && c.im == want[i].im);
                assert_true(c2.re == want2[i].re && c2.im == want2[i].im);
            }
            free_sides(&s);
        }
    }
}

static void one_shape(gx_number dtype, int64_t m, int64_t n, int64_t k, int64_t gap)
{
    for (int which = 1; which < 4; which++) {
        sides got = make_sides(dtype, m, n, k, gap), want = make_sides(dtype, m, n, k, gap);
        run(&gx_backend_cpu, &got, k, which & 1, which & 2);
        run(&gx_oracle, &want, k, which & 1, which & 2);
        compare(&got.c, &want.c, which & 1 ? n : 0);
        compare(&got.c2, &want.c2, which & 2 ? m : 0);
        assert_true(is_same(&got.a, &want.a, n) && is_same(&got.b, &want.b, k) &&
                    is_same(&got.b2, &want.b2, k));
        free_sides(&got);
        free_sides(&want);
    }
}

static void shapes(void **state)
{
    (void)state;
    static const int64_t sides_m[] = {0, 1, 2, 7, 8, 9, 16, 31, 33, 511, 513, 1100};
    static const int64_t sides_n[] = {0, 1, 2, 3, 4, 5, 9};
    for (int d = 0; d < GX_FLOATS; d++) {
        for (size_t i = 0; i < sizeof sides_m / sizeof *sides_m; i++) {
            for (size_t j = 0; j < sizeof sides_n / sizeof *sides_n; j++) {
                for (int64_t k = 0; k<10; k += sides_m[i]> 100 ? 3 : 1) {
                    one_shape((gx_number)d, sides_m[i], sides_n[j], k, (int64_t)(i + j) % 3);
                }
            }
        }
        one_shape((gx_number)d, 100, 70, 64, 1);
    }
}

static void bits(void **state)
{
    (void)state;
    for (int d = 0; d < GX_FLOATS; d++) {
        sides all = make_sides((gx_number)d, 1003, 21, 11, 0);
        run(&gx_backend_cpu, &all, 11, true, true);
        for (int64_t k = 1; k < 11; k++) {
            for (int64_t gap = 0; gap < 3; gap++) {
                sides few = make_sides((gx_number)d, 1003, 21, 11, gap);
                bool has_plain = k % 3 != 1, has_adjoint = k % 3 != 2;
                run(&gx_backend_cpu, &few, k, has_plain, has_adjoint);
                assert_true(!has_plain || is_same(&few.c, &all.c, k));
                assert_true(!has_adjoint || is_same(&few.c2, &all.c2, k));
                free_sides(&few);
            }
        }
        free_sides(&all);
    }
}

static bool is_finite_at(const block *b, int64_t i, int64_t j)
{
    gx_scalar x = block_get(b, i, j);
    return isfinite(x.re) && isfinite(x.im);
}

static void not_finite(void **state)
{
    (void)state;
    const double odd[] = {NAN, INFINITY};
    for (int d = 0; d < GX_FLOATS; d++) {
        for (int v = 0; v < 2; v++) {
            sides s = make_sides((gx_number)d, 37, 9, 5, 1);
            block_set(&s.a, 36, 8, (gx_scalar){odd[v], odd[v]}); // in the last, short vector
            run(&gx_backend_cpu, &s, 5, true, true);
            for (int64_t c = 0; c < 5; c++) {
                for (int64_t i = 0; i < 37; i++) {
                    assert_int_equal(is_finite_at(&s.c, i, c), i != 36);
                }
                for (int64_t j = 0; j < 9; j++) {
                    assert_int_equal(is_finite_at(&s.c2, j, c), j != 8);
                }
            }
            free_sides(&s);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(shapes),
        cmocka_unit_test(bits),
        cmocka_unit_test(not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
