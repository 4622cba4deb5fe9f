/*
** Products of f32 by bf16 tiles (kernels/cpu_amx.c), in the loops that do what the unit does and,
** where the processor has one, on the unit.
**
** Plan:
**   1. shapes around tiles, panels, steps and blocks; every transpose; alpha, beta; gaps between
**      columns; within rounding of a product in double, nothing written outside the rectangle,
**      beta = 0 not reading
**   2. the same of triangles, whose other half stays as it was
**   3. the identity gives the other operand back, to the bit: the three pieces are all of a number
**   4. errors are not larger than BLAS's: largest and root mean square, of sums of magnitudes, for
**      numbers around 0, between 0 and 1, of ten orders, and with graded rows and columns
**   5. NaN, Inf, numbers that overflow or vanish: in the first block nothing is done and said so,
**      in later ones the result is as good as BLAS's, NaN and Inf where they belong; zeros among
**      them
**   6. subnormal numbers in c stay
**   7. the unit's bits are the loops'
*/
#include "block.h"

#include "../../../kernels/cpu.h"
#include "../../../kernels/cpu_amx.h"

#include <math.h>
#include <unistd.h>

static const uint64_t SEED = 20261123;
static uint64_t seed;

static gx_amx_way ways[2] = {GX_AMX_LOOPS};
static int way_count = 1;

typedef enum data { NORMAL, POSITIVE, WIDE, GRADED_ROWS, GRADED_COLS, BYTES } data;

static double number(data what, int64_t i, int64_t j)
{
    double x = random_unit(&seed) + random_unit(&seed) + random_unit(&seed);
    switch (what) {
    case POSITIVE:
        return fabs(random_unit(&seed));
    case WIDE:
        return x * pow(10, 5 * random_unit(&seed));
    case GRADED_ROWS:
        return x * pow(10, (double)(i % 11) - 5);
    case GRADED_COLS:
        return x * pow(10, (double)(j % 11) - 5);
    case BYTES:
        return nearbyint(60 * x) / 4;
    default:
        return x;
    }
}

static block random_block(int64_t m, int64_t n, data what)
{
    static const int64_t gaps[] = {0, 1, 7};
    block b = block_make(GX_F32, m, n, gx_max(m, 1) + gaps[random_bits(&seed) % 3]);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            block_set(&b, i, j, (gx_scalar){number(what, i, j), 0});
        }
    }
    return b;
}

/* A product with what it needs; b is not there for triangles. */
typedef struct product {
    gx_args args;
    bool is_triangle;
    block a, b, c;
} product;

static product make_product(gx_args args, bool is_triangle, data of_a, data of_b)
{
    product p = {.args = args, .is_triangle = is_triangle};
    bool ta = args.transa != GX_NO_TRANS, tb = args.transb != GX_NO_TRANS;
    p.a = random_block(ta ? args.k : args.m, ta ? args.m : args.k, of_a);
    p.b = is_triangle ? p.a : random_block(tb ? args.n : args.k, tb ? args.k : args.n, of_b);
    p.c = random_block(args.m, args.n, NORMAL);
    return p;
}

static void free_product(product *p)
{
    if (!p->is_triangle) {
        block_free(&p->b);
    }
    block_free(&p->a);
    block_free(&p->c);
}

static gx_args on_blocks(const product *p, const block *c)
{
    gx_args args = p->args;
    args.a = p->a.data;
    args.lda = p->a.ld;
    args.b = p->b.data;
    args.ldb = p->b.ld;
    args.c = c->data;
    args.ldc = c->ld;
    return args;
}

/* c by tiles; false: the numbers were found unfit, and c is as it was. */
static bool by_tiles(gx_amx_way way, const product *p, const block *c)
{
    gx_args args = on_blocks(p, c);
    gx_err err = {.code = GX_OK};
    bool is_unfit;
    assert_int_equal(gx_cpu_amx_gemm(way, &args, p->is_triangle, &is_unfit, &err), GX_OK);
    assert_true(block_is_guarded(c));
    return !is_unfit;
}

static double element_of(const block *x, gx_trans trans, int64_t i, int64_t j)
{
    return trans == GX_NO_TRANS ? block_get(x, i, j).re : block_get(x, j, i).re;
}

/* Element (i, j) in double, and the sum of its terms' magnitudes. */
static double in_double(const product *p, int64_t i, int64_t j, double *size)
{
    const gx_args *g = &p->args;
    double sum = 0, magnitudes = 0;
    for (int64_t l = 0; l < g->k; l++) {
        double term = element_of(&p->a, g->transa, i, l) * element_of(&p->b, g->transb, l, j);
        sum += term;
        magnitudes += fabs(term);
    }
    double old = g->beta.re == 0 ? 0 : g->beta.re * block_get(&p->c, i, j).re;
    *size = fabs(g->alpha.re) * magnitudes + fabs(old);
    return g->alpha.re * sum + old;
}

static void differs(const product *p, int64_t i, int64_t j, double got, double want)
{
    const gx_args *g = &p->args;
    fail_msg("%s %dx%dx%d trans %d %d uplo %d alpha %g beta %g: (%d, %d) is %.9g, not %.9g",
             p->is_triangle ? "triangle" : "product", (int)g->m, (int)g->n, (int)g->k,
             (int)g->transa, (int)g->transb, (int)g->uplo, g->alpha.re, g->beta.re, (int)i, (int)j,
             got, want);
}

static bool is_written(const product *p, int64_t i, int64_t j)
{
    return !p->is_triangle || (p->args.uplo == GX_LOWER ? i >= j : i <= j);
}

/* c against the product in double: (some) rows and columns. */
static void compare(const product *p, const block *c, int64_t step)
{
    for (int64_t j = 0; j < c->n; j += step) {
        for (int64_t i = 0; i < c->m; i++) {
            double got = block_get(c, i, j).re, size, want;
            if (!is_written(p, i, j)) {
                want = block_get(&p->c, i, j).re;
                if (got != want) {
                    differs(p, i, j, got, want);
                }
                continue;
            }
            want = in_double(p, i, j, &size);
            double room = (double)(p->args.k + 8) * (0x1p-24 * size + 0x1p-149);
            bool is_over = fabs(want) > 3.4028235e38;
            if (is_over || !isfinite(want)) {
                if (isnan(want) ? !isnan(got) : got != (want > 0 ? INFINITY : -INFINITY)) {
                    differs(p, i, j, got, want);
                }
            } else if (!(fabs(got - want) <= room)) {
                differs(p, i, j, got, want);
            }
        }
    }
}

static void check_product(const product *p, int64_t step)
{
    for (int w = 0; w < way_count; w++) {
        block c = block_copy(&p->c);
        if (p->args.beta.re == 0) {
            for (int64_t j = 0; j < c.n; j++) {
                for (int64_t i = 0; i < c.m; i++) {
                    double other = block_get(&c, i, j).re;
                    block_set(&c, i, j, (gx_scalar){is_written(p, i, j) ? NAN : other, 0});
                }
            }
        }
        assert_true(by_tiles(ways[w], p, &c));
        compare(p, &c, step);
        block_free(&c);
    }
}

// Shapes ------------------------------------------------------------------------------------------

static const gx_scalar scalars[][2] = {
    {{1, 0}, {0, 0}}, {{1, 0}, {1, 0}}, {{-1.5, 0}, {0.5, 0}}, {{0.25, 0}, {-2, 0}}};

static void shapes(void **state)
{
    (void)state;
    static const int64_t sides[] = {1, 15, 16, 17, 31, 32, 33, 64, 70};
    enum { SIDES = sizeof sides / sizeof *sides };
    int turn = 0;
    for (int i = 0; i < SIDES * SIDES * SIDES; i++, turn++) {
        gx_args args = {.m = sides[i % SIDES],
                        .n = sides[i / SIDES % SIDES],
                        .k = sides[i / SIDES / SIDES],
                        .transa = turn % 5 == 0 ? GX_CONJ_TRANS : (gx_trans)(turn % 2),
                        .transb = (gx_trans)(turn / 2 % 2),
                        .alpha = scalars[turn / 4 % 4][0],
                        .beta = scalars[turn / 4 % 4][1]};
        product p = make_product(args, false, NORMAL, NORMAL);
        check_product(&p, 1);
        free_product(&p);
    }
}

/* Past the sides of packed blocks. */
static void blocks(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {
        {600, 40, 33}, {40, 2600, 20}, {33, 50, 1100}, {530, 33, 1040}, {33, 2570, 520}};
    for (int i = 0; i < 20; i++) {
        gx_args args = {.m = sizes[i / 4][0],
                        .n = sizes[i / 4][1],
                        .k = sizes[i / 4][2],
                        .transa = (gx_trans)(i % 2),
                        .transb = (gx_trans)(i / 2 % 2),
                        .alpha = scalars[i % 4][0],
                        .beta = scalars[i % 4][1]};
        product p = make_product(args, false, NORMAL, NORMAL);
        check_product(&p, 13);
        free_product(&p);
    }
}

/* Numbers of one piece: the same bits where nobody says that they are. */
static void short_numbers(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {
        {33, 32, 20}, {290, 70, 1600}, {64, 2600, 40}, {40, 64, 1100}, {70, 33, 600}};
    for (int i = 0; i < 5 * 4 * way_count; i++) {
        gx_args args = {.m = sizes[i / 4 % 5][0], .n = sizes[i / 4 % 5][1]};
        args.k = sizes[i / 4 % 5][2];
        args.transa = (gx_trans)(i % 2);
        args.transb = (gx_trans)(i / 2 % 2);
        args.alpha = scalars[i % 4][0];
        args.beta = scalars[i % 4][1];
        args.half = GX_DTYPE_BF16;
        product p = make_product(args, false, BYTES, BYTES);
        block c = block_copy(&p.c), d = block_copy(&p.c);
        check_product(&p, 17);
        assert_true(by_tiles(ways[i / 20], &p, &c));
        p.args.half = GX_DTYPE_F64;
        assert_true(by_tiles(ways[i / 20], &p, &d));
        if (args.k <= 512) { // else sums of more k are added to c at once
            assert_memory_equal(c.raw, d.raw, c.bytes);
        }
        block_free(&c);
        block_free(&d);
        free_product(&p);
    }
}

static product make_triangle(int64_t n, int64_t k, gx_trans trans, gx_uplo uplo, int scalar)
{
    gx_args args = {.m = n,
                    .n = n,
                    .k = k,
                    .transa = trans,
                    .transb = trans == GX_NO_TRANS ? GX_TRANS : GX_NO_TRANS,
                    .uplo = uplo,
                    .alpha = scalars[scalar][0],
                    .beta = scalars[scalar][1]};
    return make_product(args, true, NORMAL, NORMAL);
}

static void triangles(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{1, 5},    {31, 40},   {33, 64},
                                       {100, 33}, {300, 600}, {2600, 20}};
    for (int i = 0; i < 24; i++) {
        product p = make_triangle(sizes[i / 4][0], sizes[i / 4][1], (gx_trans)(i % 2),
                                  i / 2 % 2 == 0 ? GX_LOWER : GX_UPPER, (i + i / 4) % 4);
        check_product(&p, sizes[i / 4][0] > 200 ? 7 : 1);
        free_product(&p);
    }
}

// Accuracy ----------------------------------------------------------------------------------------

static void identity(void **state)
{
    (void)state;
    for (int i = 0; i < 4 * way_count; i++) {
        gx_args args = {.m = 48, .n = 48, .k = 48, .alpha = {1, 0}};
        args.transa = args.transb = (gx_trans)(i / 2 % 2);
        product p = make_product(args, false, i % 4 == 0 ? NORMAL : WIDE, NORMAL);
        block *one = i % 2 == 0 ? &p.a : &p.b, *other = i % 2 == 0 ? &p.b : &p.a;
        for (int64_t j = 0; j < 48 * 48; j++) {
            block_set(one, j % 48, j / 48, (gx_scalar){j % 49 == 0, 0});
        }
        assert_true(by_tiles(ways[i / 4], &p, &p.c));
        for (int64_t j = 0; j < 48 * 48; j++) {
            double want = element_of(other, args.transa, j % 48, j / 48);
            assert_true(block_get(&p.c, j % 48, j / 48).re == want);
        }
        free_product(&p);
    }
}

/* Errors of c in parts of the sums of magnitudes: the largest, the root of their mean square. */
static void errors_of(const product *p, const block *c, double *largest, double *mean)
{
    double sum = 0;
    *largest = 0;
    for (int64_t j = 0; j < c->n; j++) {
        for (int64_t i = 0; i < c->m; i++) {
            double size, want = in_double(p, i, j, &size);
            double error = fabs(block_get(c, i, j).re - want) / size;
            *largest = error > *largest ? error : *largest;
            sum += error * error;
        }
    }
    *mean = sqrt(sum / (double)(c->m * c->n));
}

static void accuracy(void **state)
{
    (void)state;
    static const data kinds[][2] = {
        {NORMAL, NORMAL}, {POSITIVE, POSITIVE},       {WIDE, NORMAL},
        {WIDE, WIDE},     {GRADED_ROWS, GRADED_COLS}, {GRADED_COLS, GRADED_ROWS}};
    static const int64_t ks[] = {40, 300, 1500};
    seed = SEED; // whatever came before
    for (int i = 0; i < 18; i++) {
        // Too small for the slot's own choice: BLAS has it.
        gx_args args = {.m = 90, .n = 60, .k = ks[i % 3], .alpha = {1, 0}};
        product p = make_product(args, false, kinds[i / 3][0], kinds[i / 3][1]);
        gx_args by_blas = on_blocks(&p, &p.c);
        gx_err err = {.code = GX_OK};
        double most, mean, most_there, mean_there;
        assert_int_equal(gx_backend_cpu.kernel[GX_GEMM][GX_F32](NULL, NULL, &by_blas, &err), GX_OK);
        errors_of(&p, &p.c, &most_there, &mean_there);
        for (int w = 0; w < way_count; w++) {
            assert_true(by_tiles(ways[w], &p, &p.c));
            errors_of(&p, &p.c, &most, &mean);
            printf("kinds %d %d, k %4d: %.2e, %.2e   BLAS %.2e, %.2e\n", (int)kinds[i / 3][0],
                   (int)kinds[i / 3][1], (int)args.k, most, mean, most_there, mean_there);
            // A sum of three numbers beside many small ones has more roundings than its terms.
            // The largest of 5400 errors is chance: a quarter more or less with other numbers.
            double room = kinds[i / 3][0] == GRADED_COLS ? 1.25 : 1;
            assert_true(most <= 1.5 * most_there && mean <= room * mean_there);
        }
        free_product(&p);
    }
}

// Ranges ------------------------------------------------------------------------------------------

static const double bad[] = {NAN, INFINITY, -INFINITY, 3.4e38, 1e-40, 1e-37, 1e-32, -1e37};
enum { BAD = sizeof bad / sizeof *bad };

/* The element that is k = l, line i of op(a), or of op(b). */
static void set_bad(product *p, bool in_a, int64_t i, int64_t l, double value)
{
    block *x = in_a ? &p->a : &p->b;
    gx_trans trans = in_a ? p->args.transa : p->args.transb;
    bool is_swapped = (trans != GX_NO_TRANS) == in_a;
    block_set(x, is_swapped ? l : i, is_swapped ? i : l, (gx_scalar){value, 0});
}

/* Far behind the first block the rest is BLAS's; in it all is left to the caller. */
static void ranges(void **state)
{
    (void)state;
    for (int i = 0; i < 4 * BAD; i++) {
        bool in_a = i % 2 == 0, is_first = i / 2 % 2 == 0;
        gx_args args = {.m = 300, .n = 40, .k = 530, .alpha = {1, 0}, .beta = {i % 3 - 1, 0}};
        args.transa = (gx_trans)(i % 3 == 0);
        args.transb = (gx_trans)(i % 5 < 2);
        product p = make_product(args, false, NORMAL, NORMAL);
        set_bad(&p, in_a, is_first ? 7 : in_a ? 280 : 39, is_first ? 3 : 525, bad[i / 4]);
        for (int w = 0; w < way_count; w++) {
            block c = block_copy(&p.c);
            bool is_done = by_tiles(ways[w], &p, &c);
            assert_int_equal(is_done, !is_first);
            if (is_done) {
                compare(&p, &c, 13); // column 39 is one of them
            } else {
                assert_memory_equal(c.raw, p.c.raw, c.bytes);
            }
            block_free(&c);
        }
        free_product(&p);
    }
}

static void ranges_of_triangles(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) {
        product p =
            make_triangle(330, 530, (gx_trans)(i % 2), i / 2 % 2 == 0 ? GX_LOWER : GX_UPPER, i / 4);
        set_bad(&p, true, i % 3 == 0 ? 5 : 300, 520, i / 4 == 0 ? NAN : i / 4 == 1 ? 1e37 : 1e-37);
        p.b = p.a;
        for (int w = 0; w < way_count; w++) {
            block c = block_copy(&p.c);
            assert_true(by_tiles(ways[w], &p, &c));
            compare(&p, &c, 15); // and so is 300
            block_free(&c);
        }
        free_product(&p);
    }
}

/* All of a is so small, or zero, and all of b so large. */
static void scaled_products(void **state)
{
    (void)state;
    static const struct {
        double a, b;
        bool is_fit;
    } cases[] = {{1e-20, 1e20, true}, {1e-20, 1e-20, false}, {1e25, 1e25, false}, {0, 1e25, true},
                 {0, 1e-40, true},    {0, INFINITY, false},  {NAN, 0, false},     {1e-40, 1, false},
                 {1e30, 1e-30, true}, {1e38, 1e-30, false},  {1e-12, 1e-12, true}};
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        gx_args args = {.m = 20, .n = 40, .k = 50, .alpha = {1, 0}, .beta = {1, 0}};
        product p = make_product(args, false, POSITIVE, POSITIVE);
        for (int64_t l = 0; l < 50; l++) {
            for (int64_t j = 0; j < 40; j++) {
                double x = 1 + block_get(&p.b, l, j).re;
                block_set(&p.b, l, j, (gx_scalar){cases[i].b * x, 0});
                if (j < 20) {
                    x = 1 + block_get(&p.a, j, l).re;
                    block_set(&p.a, j, l, (gx_scalar){cases[i].a * x, 0});
                }
            }
        }
        block_set(&p.c, 3, 3, (gx_scalar){1e-41, 0});
        for (int w = 0; w < way_count; w++) {
            block c = block_copy(&p.c);
            assert_int_equal(by_tiles(ways[w], &p, &c), cases[i].is_fit);
            if (cases[i].is_fit) {
                compare(&p, &c, 1);
            }
            if (cases[i].a == 0 && cases[i].is_fit) {
                assert_memory_equal(c.raw, p.c.raw, c.bytes);
            }
            block_free(&c);
        }
        free_product(&p);
    }
}

// The unit ----------------------------------------------------------------------------------------

static void unit_is_loops(void **state)
{
    (void)state;
    if (way_count < 2) {
        printf("no AMX here (%s): the loops alone are tested\n", gx_cpu_amx_state());
        skip();
    }
    for (int i = 0; i < 8; i++) {
        gx_args args = {.m = 290, .n = 150, .k = 700, .alpha = {1, 0}, .beta = {i % 2, 0}};
        args.transa = (gx_trans)(i / 2 % 2);
        args.transb = (gx_trans)(i / 4);
        product p = make_product(args, false,
                                 i % 3 == 0   ? NORMAL
                                 : i % 3 == 1 ? WIDE
                                              : BYTES,
                                 i % 3 == 2 ? BYTES : NORMAL);
        block c = block_copy(&p.c), d = block_copy(&p.c);
        assert_true(by_tiles(GX_AMX_UNIT, &p, &c) && by_tiles(GX_AMX_LOOPS, &p, &d));
        assert_memory_equal(c.raw, d.raw, c.bytes);
        gx_args by_slot = on_blocks(&p, &p.c);
        gx_err err = {.code = GX_OK};
        assert_true(gx_cpu_amx_takes(&by_slot));
        assert_int_equal(gx_backend_cpu.kernel[GX_GEMM][GX_F32](NULL, NULL, &by_slot, &err), GX_OK);
        assert_memory_equal(c.raw, p.c.raw, c.bytes);
        block_free(&c);
        block_free(&d);
        free_product(&p);
    }
}

char *gx_cpu_getenv(const char *name); /* kernels/cpu_core.c */

/* Once more with the kernels of BLAS that gx.so takes, which are the peer. */
static void run_with_known_kernels(char **argv)
{
    const char *core = gx_cpu_getenv("OPENBLAS_CORETYPE");
    if (getenv("OPENBLAS_CORETYPE") == NULL && core != NULL &&
        setenv("OPENBLAS_CORETYPE", core, 1) == 0) {
        execv("/proc/self/exe", argv);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    run_with_known_kernels(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),          cmocka_unit_test(blocks),
        cmocka_unit_test(short_numbers),   cmocka_unit_test(triangles),
        cmocka_unit_test(identity),        cmocka_unit_test(accuracy),
        cmocka_unit_test(ranges),          cmocka_unit_test(ranges_of_triangles),
        cmocka_unit_test(scaled_products), cmocka_unit_test(unit_is_loops),
    };
    seed = SEED;
    printf("seed %llu\n", (unsigned long long)SEED);
    if (gx_cpu_amx_way() == GX_AMX_UNIT) {
        ways[way_count++] = GX_AMX_UNIT;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
