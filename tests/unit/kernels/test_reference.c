/*
** The reference backend against values computed by hand.
**
** Plan:
**   1. every slot of the table is filled
**   2. products: gemm with each transpose, syrk and herk with each triangle, alpha and beta, in
**      small whole numbers that every dtype holds exactly
**   3. elementwise kernels in numbers, then with zeros, Inf and NaN
**   4. reductions, with their scaled sums of squares, NaN, Inf, and nothing to reduce
**   5. Fourier transforms of four and of six numbers, both ways, of columns and of rows
**   6. what it refuses, to the letter
*/
#include "block.h"

#include <math.h>

static const device ref = {&gx_oracle, NULL};

static const gx_number dtypes[] = {GX_F64, GX_F32, GX_C128, GX_C64};

/* Numbers for a block, column after column; real dtypes use the re of each. */
typedef const gx_scalar *numbers;

static block block_of(gx_number dtype, int64_t m, int64_t n, numbers x)
{
    block b = block_make(dtype, m, n, m + 1);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            block_set(&b, i, j, x[j * m + i]);
        }
    }
    return b;
}

static bool same(double x, double y)
{
    return x == y || (isnan(x) && isnan(y));
}

static void block_is(const block *b, numbers want, const char *what)
{
    for (int64_t j = 0; j < b->n; j++) {
        for (int64_t i = 0; i < b->m; i++) {
            gx_scalar got = block_get(b, i, j), x = want[j * b->m + i];
            double im = gx_number_is_complex(b->dtype) ? x.im : 0;
            if (!same(got.re, x.re) || !same(got.im, im)) {
                fail_msg("%s %s (%d,%d): %g%+gi, want %g%+gi", what, gx_number_name(b->dtype),
                         (int)i, (int)j, got.re, got.im, x.re, im);
            }
        }
    }
    assert_true(block_is_guarded(b));
}

static void slots_are_filled(void **state)
{
    (void)state;
    for (int k = 0; k < GX_KERNEL_COUNT; k++) {
        bool is_real = k == GX_APART || k == GX_MERIT || k == GX_NEAREST || k == GX_MUTUAL;
        for (int d = 0; d < GX_FLOATS; d++) {
            // What these make is held against what it was made of: no oracle.
            bool is_there = k != GX_TREXC && !(k >= GX_GGES && k <= GX_GEQP3) &&
                            k != GX_CIRCLE && k != GX_COMBINE &&
                            ((k != GX_ONE_HOT && k != GX_GRID) || d == GX_F64) &&
                            ((k != GX_WHOLE && k != GX_HAMMING) || d == GX_F32) &&
                            (!is_real || !gx_number_is_complex((gx_number)d));
            assert_int_equal(gx_oracle.kernel[k][d] != NULL, is_there);
        }
        assert_string_not_equal(gx_kernel_name((gx_kernel_id)k), "?");
    }
    assert_string_equal(gx_kernel_name(GX_KERNEL_COUNT), "?");
    assert_int_equal(gx_oracle.abi, GX_BACKEND_ABI);
}

// Products ----------------------------------------------------------------------------------------

/* Short words for the tables. */
#define N GX_NO_TRANS
#define T GX_TRANS
#define H GX_CONJ_TRANS
#define LO GX_LOWER
#define UP GX_UPPER

/* A = [1+i 2; 3 4-i; 5 7+6i], B = [1 -1; 3+2i 2+i]; the real parts alone for real dtypes. */
static const gx_scalar A32[] = {{1, 1}, {3, 0}, {5, 0}, {2, 0}, {4, -1}, {7, 6}};
static const gx_scalar B22[] = {{1, 0}, {3, 2}, {-1, 0}, {2, 1}};

typedef struct product {
    const char *what;
    gx_kernel_id kernel;
    gx_trans transa, transb;
    gx_uplo uplo;
    int64_t m, n, k;
    numbers a, b;
    gx_scalar alpha, beta;
    numbers c;        /* before; NULL: NaN everywhere */
    numbers real;     /* after, f64 and f32; NULL: not run */
    numbers complex_; /* after, c128 and c64; NULL: not run */
} product;

static const gx_scalar ones4[] = {{1, 5}, {1, 5}, {1, 5}, {1, 5}};

// clang-format off
static const product products[] = {
    {"A B", GX_GEMM, N, N, LO, 3, 2, 2, A32, B22, {1, 0}, {0, 0},
     NULL,
     (const gx_scalar[]){{7, 0}, {15, 0}, {26, 0}, {3, 0}, {5, 0}, {9, 0}},
     (const gx_scalar[]){{7, 5}, {17, 5}, {14, 32}, {3, 1}, {6, 2}, {3, 19}}},
    {"2 A^T A + C", GX_GEMM, T, N, LO, 2, 2, 3, A32, A32, {2, 0},
     {1, 0}, ones4,
     (const gx_scalar[]){{71, 0}, {99, 0}, {99, 0}, {139, 0}},
     (const gx_scalar[]){{69, 9}, {99, 63}, {99, 63}, {65, 157}}},
    {"A^H A", GX_GEMM, H, N, LO, 2, 2, 3, A32, A32, {1, 0},
     {0, 0}, NULL,
     (const gx_scalar[]){{35, 0}, {49, 0}, {49, 0}, {69, 0}},
     (const gx_scalar[]){{36, 0}, {49, -25}, {49, 25}, {106, 0}}},
    {"B B^H", GX_GEMM, N, H, LO, 2, 2, 2, B22, B22, {1, 0},
     {0, 0}, NULL,
     (const gx_scalar[]){{2, 0}, {1, 0}, {1, 0}, {13, 0}},
     (const gx_scalar[]){{2, 0}, {1, 1}, {1, -1}, {18, 0}}},
    {"i B", GX_GEMM, N, T, LO, 2, 1, 1, B22, ones4, {0, 1}, {0, 0},
     NULL, NULL, (const gx_scalar[]){{-5, 1}, {-17, -7}}},
    {"alpha 0", GX_GEMM, N, N, LO, 2, 2, 2, B22, B22, {0, 0},
     {3, 0}, ones4,
     (const gx_scalar[]){{3, 0}, {3, 0}, {3, 0}, {3, 0}},
     (const gx_scalar[]){{3, 15}, {3, 15}, {3, 15}, {3, 15}}},
    {"k 0", GX_GEMM, N, N, LO, 2, 2, 0, B22, B22, {1, 0}, {0, 0},
     NULL,
     (const gx_scalar[]){{0, 0}, {0, 0}, {0, 0}, {0, 0}},
     (const gx_scalar[]){{0, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {"syrk lower B B^T", GX_SYRK, N, N, LO, 2, 2, 2, B22, NULL,
     {1, 0}, {1, 0}, ones4,
     (const gx_scalar[]){{3, 0}, {2, 0}, {1, 0}, {14, 0}},
     (const gx_scalar[]){{3, 5}, {2, 6}, {1, 5}, {9, 21}}},
    {"syrk upper B^T B", GX_SYRK, T, N, UP, 2, 2, 2, B22, NULL,
     {1, 0}, {1, 0}, ones4,
     (const gx_scalar[]){{11, 0}, {1, 0}, {6, 0}, {6, 0}},
     (const gx_scalar[]){{7, 17}, {1, 5}, {4, 12}, {5, 9}}},
    {"herk lower B B^H", GX_HERK, N, N, LO, 2, 2, 2, B22, NULL,
     {1, 7}, {1, 7}, ones4,
     (const gx_scalar[]){{3, 0}, {2, 0}, {1, 0}, {14, 0}},
     (const gx_scalar[]){{3, 0}, {2, 6}, {1, 5}, {19, 0}}},
    {"herk upper B^H B", GX_HERK, H, N, UP, 2, 2, 2, B22, NULL,
     {1, 0}, {1, 0}, ones4,
     (const gx_scalar[]){{11, 0}, {1, 0}, {6, 0}, {6, 0}},
     (const gx_scalar[]){{15, 0}, {1, 5}, {8, 4}, {7, 0}}},
    {"herk alpha 0", GX_HERK, N, N, UP, 2, 2, 2, B22, NULL,
     {0, 0}, {1, 0}, ones4,
     (const gx_scalar[]){{1, 0}, {1, 0}, {1, 0}, {1, 0}},
     (const gx_scalar[]){{1, 0}, {1, 5}, {1, 5}, {1, 0}}},
};
// clang-format on

static void run_product(const product *p, gx_number dtype, numbers want)
{
    block a =
        p->transa == N ? block_of(dtype, p->m, p->k, p->a) : block_of(dtype, p->k, p->m, p->a);
    block b = p->b == NULL     ? block_make(dtype, 0, 0, 1)
              : p->transb == N ? block_of(dtype, p->k, p->n, p->b)
                               : block_of(dtype, p->n, p->k, p->b);
    block c = block_make(dtype, p->m, p->n, p->m + 2);
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            block_set(&c, i, j, p->c == NULL ? (gx_scalar){NAN, NAN} : p->c[j * p->m + i]);
        }
    }
    gx_args args = {.transa = p->transa,
                    .transb = p->transb,
                    .uplo = p->uplo,
                    .m = p->m,
                    .n = p->n,
                    .k = p->k,
                    .alpha = p->alpha,
                    .beta = p->beta};
    gx_err err = {.code = GX_OK};
    assert_int_equal(
        device_run(&ref, p->kernel, dtype, args, &a, p->b == NULL ? NULL : &b, &c, &err), GX_OK);
    block_is(&c, want, p->what);
    block_free(&a);
    block_free(&b);
    block_free(&c);
}

static void products_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            bool is_complex = gx_number_is_complex(dtypes[d]);
            numbers want = is_complex ? products[i].complex_ : products[i].real;
            if (want != NULL) {
                run_product(&products[i], dtypes[d], want);
            }
        }
    }
}

// Elementwise -------------------------------------------------------------------------------------

typedef struct map {
    const char *what;
    gx_kernel_id kernel;
    gx_map_kind map; /* MAP */
    gx_trans transa;
    gx_scalar alpha, beta;
    gx_scalar a[4], b[4]; /* 2 x 2 */
    gx_scalar real[4], complex_[4];
} map;

// clang-format off
static const map maps[] = {
    {"fill", GX_FILL, 0, N, {2, 3}, {0, 0}, {{0, 0}}, {{0, 0}},
     {{2, 0}, {2, 0}, {2, 0}, {2, 0}}, {{2, 3}, {2, 3}, {2, 3}, {2, 3}}},
    {"copy", GX_COPY, 0, N, {0, 0}, {0, 0}, {{1, 2}, {3, 4}, {5, 6}, {7, 8}}, {{0, 0}},
     {{1, 0}, {3, 0}, {5, 0}, {7, 0}}, {{1, 2}, {3, 4}, {5, 6}, {7, 8}}},
    {"transpose", GX_TRANSPOSE, 0, T, {0, 0}, {0, 0}, {{1, 2}, {3, 4}, {5, 6}, {7, 8}}, {{0, 0}},
     {{1, 0}, {5, 0}, {3, 0}, {7, 0}}, {{1, 2}, {5, 6}, {3, 4}, {7, 8}}},
    {"conjugate transpose", GX_TRANSPOSE, 0, H, {0, 0}, {0, 0},
     {{1, 2}, {3, 4}, {5, 6}, {7, 8}}, {{0, 0}},
     {{1, 0}, {5, 0}, {3, 0}, {7, 0}}, {{1, -2}, {5, -6}, {3, -4}, {7, -8}}},
    {"no transpose", GX_TRANSPOSE, 0, N, {0, 0}, {0, 0}, {{1, 2}, {3, 4}, {5, 6}, {7, 8}},
     {{0, 0}}, {{1, 0}, {3, 0}, {5, 0}, {7, 0}}, {{1, 2}, {3, 4}, {5, 6}, {7, 8}}},
    {"conj", GX_MAP, GX_MAP_CONJ, N, {0, 0}, {0, 0}, {{1, 2}, {3, -4}, {5, 0}, {7, INFINITY}},
     {{0, 0}},
     {{1, 0}, {3, 0}, {5, 0}, {7, 0}}, {{1, -2}, {3, 4}, {5, 0}, {7, -INFINITY}}},
    {"add", GX_MAP, GX_MAP_ADD, N, {2, 0}, {-1, 0}, {{1, 2}, {3, 4}, {INFINITY, 1}, {NAN, 1}},
     {{1, 1}, {10, 0}, {INFINITY, 1}, {1, 1}},
     {{1, 0}, {-4, 0}, {NAN, 0}, {NAN, 0}}, {{1, 3}, {-4, 8}, {NAN, 1}, {NAN, 1}}},
    {"mul", GX_MAP, GX_MAP_MUL, N, {0, 0}, {0, 0}, {{1, 2}, {3, 0}, {INFINITY, 0}, {0, 1}},
     {{3, 4}, {2, 1}, {0, 0}, {0, 1}},
     {{3, 0}, {6, 0}, {NAN, 0}, {0, 0}}, {{-5, 10}, {6, 3}, {NAN, NAN}, {-1, 0}}},
    {"div", GX_MAP, GX_MAP_DIV, N, {0, 0}, {0, 0}, {{6, 8}, {1, 0}, {0, 0}, {-3, 0}},
     {{2, 0}, {0, 0}, {0, 0}, {-INFINITY, 0}},
     {{3, 0}, {INFINITY, 0}, {NAN, 0}, {0, 0}}, {{3, 4}, {INFINITY, NAN}, {NAN, NAN}, {0, 0}}},
    {"scale", GX_MAP, GX_MAP_SCALE, N, {-2, 0}, {0, 0}, {{1, 2}, {1, INFINITY}, {NAN, 1}, {0, 0}},
     {{0, 0}}, {{-2, 0}, {-2, 0}, {NAN, 0}, {0, 0}},
     {{-2, -4}, {-2, -INFINITY}, {NAN, -2}, {0, 0}}},
    {"scale by i", GX_MAP, GX_MAP_SCALE, N, {0, 1}, {0, 0}, {{1, 2}, {3, 4}, {0, 0}, {1, 0}},
     {{0, 0}},
     {{0, 0}, {0, 0}, {0, 0}, {0, 0}}, {{-2, 1}, {-4, 3}, {0, 0}, {0, 1}}},
    {"abs", GX_MAP, GX_MAP_ABS, N, {0, 0}, {0, 0}, {{-3, 4}, {0, 0}, {-INFINITY, NAN}, {NAN, 1}},
     {{0, 0}}, {{3, 0}, {0, 0}, {INFINITY, 0}, {NAN, 0}},
     {{5, 0}, {0, 0}, {INFINITY, 0}, {NAN, 0}}},
    {"exp", GX_MAP, GX_MAP_EXP, N, {0, 0}, {0, 0},
     {{0, 0}, {-INFINITY, 0}, {INFINITY, NAN}, {NAN, 0}}, {{0, 0}},
     {{1, 0}, {0, 0}, {INFINITY, 0}, {NAN, 0}}, {{1, 0}, {0, 0}, {INFINITY, NAN}, {NAN, 0}}},
    {"log", GX_MAP, GX_MAP_LOG, N, {0, 0}, {0, 0},
     {{1, 0}, {0, 0}, {INFINITY, 1}, {-INFINITY, NAN}}, {{0, 0}},
     {{0, 0}, {-INFINITY, 0}, {INFINITY, 0}, {NAN, 0}},
     {{0, 0}, {-INFINITY, 0}, {INFINITY, 0}, {INFINITY, NAN}}},
    {"sqrt", GX_MAP, GX_MAP_SQRT, N, {0, 0}, {0, 0},
     {{4, 0}, {-4, 0}, {INFINITY, 1}, {-INFINITY, 2}}, {{0, 0}},
     {{2, 0}, {NAN, 0}, {INFINITY, 0}, {NAN, 0}},
     {{2, 0}, {0, 2}, {INFINITY, 0}, {0, INFINITY}}},
};
// clang-format on

static void maps_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        const map *p = &maps[i];
        for (int d = 0; d < GX_FLOATS; d++) {
            block a = block_of(dtypes[d], 2, 2, p->a), b = block_of(dtypes[d], 2, 2, p->b);
            block c = block_make(dtypes[d], 2, 2, 5);
            gx_args args = {.map = p->map,
                            .transa = p->transa,
                            .m = 2,
                            .n = 2,
                            .alpha = p->alpha,
                            .beta = p->beta};
            gx_err err = {.code = GX_OK};
            assert_int_equal(device_run(&ref, p->kernel, dtypes[d], args, &a, &b, &c, &err), GX_OK);
            block_is(&c, gx_number_is_complex(dtypes[d]) ? p->complex_ : p->real, p->what);
            block_free(&a);
            block_free(&b);
            block_free(&c);
        }
    }
}

static void symmetrize_by_hand(void **state)
{
    (void)state;
    const gx_scalar c0[] = {{1, 1}, {2, 2}, {3, 3}, {4, 4}};
    const struct {
        gx_uplo uplo;
        gx_trans trans;
        gx_scalar want[4];
    } cases[] = {
        {GX_LOWER, GX_NO_TRANS, {{1, 1}, {2, 2}, {2, 2}, {4, 4}}},
        {GX_UPPER, GX_NO_TRANS, {{1, 1}, {3, 3}, {3, 3}, {4, 4}}},
        {GX_LOWER, GX_CONJ_TRANS, {{1, 1}, {2, 2}, {2, -2}, {4, 4}}},
        {GX_UPPER, GX_CONJ_TRANS, {{1, 1}, {3, -3}, {3, 3}, {4, 4}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            block c = block_of(dtypes[d], 2, 2, c0);
            gx_err err = {.code = GX_OK};
            gx_args args = {.transa = cases[i].trans, .uplo = cases[i].uplo, .n = 2};
            assert_int_equal(device_run(&ref, GX_SYMMETRIZE, dtypes[d], args, NULL, NULL, &c, &err),
                             GX_OK);
            block_is(&c, cases[i].want, "symmetrize");
            block_free(&c);
        }
    }
}

// Reductions --------------------------------------------------------------------------------------

static void reduces_to(gx_number dtype, int64_t m, int64_t n, numbers x, gx_reduce_kind kind,
                       int count, const double *want)
{
    block a = block_of(dtype, m, n, x);
    double out[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    gx_err err = {.code = GX_OK};
    gx_args args = {.m = m, .n = n, .reduce_kind = kind, .reduce = out};
    assert_int_equal(gx_reduce_width(kind, m, n), count);
    assert_int_equal(device_run(&ref, GX_REDUCE, dtype, args, &a, NULL, NULL, &err), GX_OK);
    for (int i = 0; i < 8; i++) {
        double x_want = i < count ? want[i] : -1;
        if (!same(out[i], x_want)) {
            fail_msg("reduce %d %s [%d]: %g, want %g", (int)kind, gx_number_name(dtype), i, out[i],
                     x_want);
        }
    }
    block_free(&a);
}

static void reductions_by_hand(void **state)
{
    (void)state;
    const gx_scalar x[] = {{3, 4}, {-5, 12}, {8, -15}, {0, 0}}; // 2 x 2; magnitudes 5 13 17 0
    for (int d = 0; d < GX_FLOATS; d++) {
        gx_number t = dtypes[d];
        bool c = gx_number_is_complex(t);
        reduces_to(t, 2, 2, x, GX_REDUCE_SUM, 2, (double[]){6, c ? 1 : 0});
        reduces_to(t, 2, 2, x, GX_REDUCE_MAX_ABS, 1, (double[]){c ? 17 : 8});
        reduces_to(t, 2, 2, x, GX_REDUCE_COL_ABS, 2, c ? (double[]){18, 17} : (double[]){8, 8});
        reduces_to(t, 2, 2, x, GX_REDUCE_ROW_ABS, 2, c ? (double[]){22, 13} : (double[]){11, 5});
        reduces_to(t, 2, 2, x, GX_REDUCE_COL_SUM, 4,
                   c ? (double[]){-2, 16, 8, -15} : (double[]){-2, 0, 8, 0});
        reduces_to(t, 2, 2, x, GX_REDUCE_ROW_SUM, 4,
                   c ? (double[]){11, -11, -5, 12} : (double[]){11, 0, -5, 0});
        reduces_to(t, 1, 1, x, GX_REDUCE_SUMSQ, 2, c ? (double[]){4, 25.0 / 16} : (double[]){3, 1});
        if (!c) {
            reduces_to(t, 2, 2, x, GX_REDUCE_MIN, 1, (double[]){-5});
            reduces_to(t, 2, 2, x, GX_REDUCE_MAX, 1, (double[]){8});
        }
    }
}

static void reductions_at_the_edges(void **state)
{
    (void)state;
    const gx_scalar none[1] = {{0, 0}}, nan[] = {{1, 0}, {NAN, 0}, {2, 0}};
    const gx_scalar inf[] = {{1, 0}, {-INFINITY, 0}, {2, 0}};
    const gx_scalar huge[] = {{0x1p1023, 0}, {0x1p1023, 0}}, tiny[] = {{0x1p-1074, 0}, {0, 0}};
    reduces_to(GX_F64, 0, 3, none, GX_REDUCE_SUM, 2, (double[]){0, 0});
    reduces_to(GX_F64, 0, 3, none, GX_REDUCE_SUMSQ, 2, (double[]){1, 0});
    reduces_to(GX_F64, 0, 3, none, GX_REDUCE_MAX_ABS, 1, (double[]){0});
    reduces_to(GX_F64, 0, 3, none, GX_REDUCE_MIN, 1, (double[]){INFINITY});
    reduces_to(GX_F64, 0, 3, none, GX_REDUCE_MAX, 1, (double[]){-INFINITY});
    reduces_to(GX_F64, 0, 3, none, GX_REDUCE_COL_ABS, 3, (double[]){0, 0, 0});
    reduces_to(GX_F64, 3, 0, none, GX_REDUCE_ROW_SUM, 6, (double[]){0, 0, 0, 0, 0, 0});
    reduces_to(GX_F64, 3, 1, nan, GX_REDUCE_SUM, 2, (double[]){NAN, 0});
    reduces_to(GX_F64, 3, 1, nan, GX_REDUCE_SUMSQ, 2, (double[]){1, NAN});
    reduces_to(GX_F64, 3, 1, nan, GX_REDUCE_MAX_ABS, 1, (double[]){NAN});
    reduces_to(GX_F32, 3, 1, nan, GX_REDUCE_MIN, 1, (double[]){NAN});
    reduces_to(GX_F32, 3, 1, nan, GX_REDUCE_MAX, 1, (double[]){NAN});
    reduces_to(GX_F64, 3, 1, inf, GX_REDUCE_SUMSQ, 2, (double[]){1, INFINITY});
    reduces_to(GX_F64, 3, 1, inf, GX_REDUCE_MAX_ABS, 1, (double[]){INFINITY});
    const gx_scalar inf_nan[] = {{1, 1}, {INFINITY, NAN}, {2, 0}};
    reduces_to(GX_C128, 3, 1, inf_nan, GX_REDUCE_MAX_ABS, 1, (double[]){INFINITY});
    reduces_to(GX_F64, 3, 1, inf, GX_REDUCE_MIN, 1, (double[]){-INFINITY});
    reduces_to(GX_F64, 2, 1, huge, GX_REDUCE_SUMSQ, 2, (double[]){0x1p1023, 2});
    reduces_to(GX_F64, 2, 1, tiny, GX_REDUCE_SUMSQ, 2, (double[]){0x1p-1074, 1});
}

// Transforms --------------------------------------------------------------------------------------

/* c of c's dtype from a line of a as a column or as a row, up to a rounding of the roots of 1. */
static void transforms_to(gx_number from, gx_number to, bool is_row, int64_t k, bool is_backward,
                          int64_t have, numbers x, int64_t want, numbers y)
{
    gx_err err = {.code = GX_OK};
    block a = block_of(from, is_row ? 1 : have, is_row ? have : 1, x);
    block c = block_make(to, is_row ? 1 : want, is_row ? want : 1, (is_row ? 1 : want) + 2);
    gx_args args = {.side = is_row ? GX_RIGHT : GX_LEFT,
                    .m = c.m,
                    .n = c.n,
                    .k = k,
                    .from = gx_dtype_of(from),
                    .is_backward = is_backward};
    assert_int_equal(device_run(&ref, GX_FFT, to, args, &a, NULL, &c, &err), GX_OK);
    for (int64_t i = 0; i < want; i++) {
        gx_scalar got = block_get(&c, is_row ? 0 : i, is_row ? i : 0);
        double im = gx_number_is_complex(to) ? y[i].im : 0;
        assert_true(fabs(got.re - y[i].re) < 1e-5 && fabs(got.im - im) < 1e-5);
    }
    assert_true(block_is_guarded(&c));
    block_free(&a);
    block_free(&c);
}

static void transforms_by_hand(void **state)
{
    (void)state;
    const double r = sqrt(3) / 2;
    const gx_scalar x4[] = {{1, 0}, {2, -1}, {0, -1}, {-1, 2}};
    const gx_scalar y4[] = {{2, 0}, {-2, -2}, {0, -2}, {4, 4}};
    const gx_scalar x6[] = {{1, 0}, {1, 0}, {0, 0}, {2, 0}, {0, 0}, {0, 0}};
    const gx_scalar y6[] = {{4, 0}, {-0.5, -r}, {2.5, -r}, {-2, 0}};
    const gx_scalar back[] = {{6, 0}, {6, 0}, {0, 0}, {12, 0}, {0, 0}, {0, 0}};
    const gx_scalar x4_4[] = {{4, 0}, {8, -4}, {0, -4}, {-4, 8}};
    for (int q = 0; q < 4; q++) {
        bool is_row = (q & 1) != 0;
        gx_number complex = q < 2 ? GX_C128 : GX_C64, real = q < 2 ? GX_F64 : GX_F32;
        transforms_to(complex, complex, is_row, 4, false, 4, x4, 4, y4);
        transforms_to(complex, complex, is_row, 4, true, 4, y4, 4, x4_4);
        transforms_to(real, complex, is_row, 6, false, 6, x6, 4, y6);
        transforms_to(complex, real, is_row, 6, true, 4, y6, 6, back);
        transforms_to(complex, complex, is_row, 1, true, 1, x4 + 1, 1, x4 + 1);
    }
}

// Refusals ----------------------------------------------------------------------------------------

static void refuses(gx_kernel_id kernel, gx_number dtype, gx_args args, const char *text)
{
    block a = block_make(dtype, 1, 1, 1), c = block_make(dtype, 1, 1, 1);
    gx_err err = {.code = GX_OK};
    assert_int_equal(device_run(&ref, kernel, dtype, args, &a, NULL, &c, &err), GX_UNSUPPORTED);
    assert_string_equal(err.text, text);
    block_free(&a);
    block_free(&c);
}

static void refusals(void **state)
{
    (void)state;
    double out[2];
    gx_args args = {.transa = GX_CONJ_TRANS, .m = 1, .n = 1, .k = 1, .reduce = out};
    refuses(GX_SYRK, GX_C128, args, "syrk has no conjugate transpose: herk has");
    args.transa = GX_TRANS;
    refuses(GX_HERK, GX_C64, args, "herk has no plain transpose: syrk has");
    args.reduce_kind = GX_REDUCE_MIN;
    refuses(GX_REDUCE, GX_C128, args, "complex numbers have no smallest or largest element");
    args.reduce_kind = GX_REDUCE_MAX;
    refuses(GX_REDUCE, GX_C64, args, "complex numbers have no smallest or largest element");

    gx_dev *dev;
    gx_err err = {.code = GX_OK};
    assert_int_equal(gx_oracle.count(), 1);
    assert_int_equal(gx_oracle.open(1, &dev, &err), GX_ARG);
    assert_null(dev);
    assert_string_equal(err.text, "reference has 1 device, not number 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_filled),   cmocka_unit_test(products_by_hand),
        cmocka_unit_test(maps_by_hand),       cmocka_unit_test(symmetrize_by_hand),
        cmocka_unit_test(reductions_by_hand), cmocka_unit_test(reductions_at_the_edges),
        cmocka_unit_test(transforms_by_hand), cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
