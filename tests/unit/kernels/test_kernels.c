/*
** Every backend against the reference: one table of kernels over dtypes, shapes, scalars and
** kinds of data.
**
** Plan:
**   1. products: shapes 0, 1, 2, 3, 5, 63..65, 130 in m, n, k; every transpose and triangle;
**      alpha, beta in the cases of scalars[]; leading dimensions longer than the columns.  beta =
**      0 finds NaN in c, alpha = 0 finds NaN in a and b: neither may be read.  ||C - C'|| < 30 k
**      eps (|alpha| ||A|| ||B|| + |beta| ||C0||)
**   2. products with NaN and Inf in an operand, and at the ends of the exponents
**   3. elementwise kernels, apart and in place, on plain, huge, subnormal and special data: each
**      within ULPS of the size of its terms; NaN where the reference has NaN, Inf where it has
**      Inf
**   4. transposes and mirrored triangles, to the bit
**   5. reductions of every kind on every kind of data
**   6. what is refused is refused with the reference's words
** Throughout, every byte outside the result's rectangle stays as it was.
**
** A new backend: a line in backends[].  A slot that is NULL is skipped: that kernel is not offered.
** Compiled with GX_TEST_GPU (make test-gpu) the backend under test is that of gx_cuda.so.
*/
#include "block.h"

#include <math.h>

#ifdef GX_TEST_GPU
static const gx_backend *const backends[] = {NULL}; // the one on demand
#else
static const gx_backend *const backends[] = {&gx_backend_cpu};
#endif

static const uint64_t SEED = 20240607;

static const device ref = {&gx_oracle, NULL};
static device device_now; // the one under test: set by main() before each run of the tests
static uint64_t seed;     // state of the random numbers

static const int64_t sides[] = {0, 1, 2, 3, 5, 63, 64, 65, 130};
enum { SIDES = sizeof sides / sizeof *sides };

// Data --------------------------------------------------------------------------------------------

typedef enum data { PLAIN, HUGE, TINY, SPECIAL, ZEROS, DATA_KINDS } data;

static double number_of(data what, gx_number dtype)
{
    static const double specials[] = {NAN, INFINITY, -INFINITY, 0, -0.0, 1, -1, 0.5};
    bool d = gx_number_is_double(dtype);
    double x = random_unit(&seed);
    switch (what) {
    case HUGE:
        return x * (d ? 1e300 : 1e37);
    case TINY:
        return x * (d ? 1e-310 : 1e-40);
    case SPECIAL:
        return random_bits(&seed) % 4 == 0 ? specials[random_bits(&seed) % 8] : x;
    case ZEROS:
        return 0;
    default:
        return x;
    }
}

static void block_fill(const block *b, data what)
{
    for (int64_t j = 0; j < b->n; j++) {
        for (int64_t i = 0; i < b->m; i++) {
            double re = number_of(what, b->dtype);
            block_set(b, i, j, (gx_scalar){re, number_of(what, b->dtype)});
        }
    }
}

/* A block of random numbers; every third one has columns that follow each other without a gap. */
static block block_random(gx_number dtype, int64_t m, int64_t n, data what)
{
    static const int64_t gaps[] = {0, 1, 7};
    block b = block_make(dtype, m, n, gx_max(m, 1) + gaps[random_bits(&seed) % 3]);
    block_fill(&b, what);
    return b;
}

static void block_spoil(const block *b)
{
    for (int64_t j = 0; j < b->n; j++) {
        for (int64_t i = 0; i < b->m; i++) {
            block_set(b, i, j, (gx_scalar){NAN, NAN});
        }
    }
}

// Comparing ---------------------------------------------------------------------------------------

static double eps_of(gx_number dtype)
{
    return gx_number_is_double(dtype) ? 0x1p-53 : 0x1p-24;
}

static double smallest_of(gx_number dtype)
{
    return gx_number_is_double(dtype) ? 0x1p-1074 : 0x1p-149;
}

static bool is_near(double got, double want, double tolerance)
{
    if (!isfinite(want)) {
        return isnan(want) ? isnan(got) : got == want;
    }
    return fabs(got - want) <= tolerance;
}

static bool is_finite(gx_scalar x)
{
    return isfinite(x.re) && isfinite(x.im);
}

static long double norm_of(const block *b)
{
    long double sum = 0;
    for (int64_t j = 0; j < b->n; j++) {
        for (int64_t i = 0; i < b->m; i++) {
            gx_scalar x = block_get(b, i, j);
            sum += is_finite(x) ? (long double)x.re * x.re + (long double)x.im * x.im : 0;
        }
    }
    return sqrtl(sum);
}

/* ||C - C'|| over the finite elements; -1 where one is finite and the other is not. */
static long double distance(const block *got, const block *want)
{
    long double sum = 0;
    for (int64_t j = 0; j < want->n; j++) {
        for (int64_t i = 0; i < want->m; i++) {
            gx_scalar x = block_get(got, i, j), y = block_get(want, i, j);
            if (!is_finite(y) || !is_finite(x)) {
                bool is_real = !gx_number_is_complex(want->dtype);
                if (is_finite(x) != is_finite(y) || (is_real && !is_near(x.re, y.re, 0))) {
                    return -1;
                }
                continue;
            }
            long double re = (long double)x.re - y.re, im = (long double)x.im - y.im;
            sum += re * re + im * im;
        }
    }
    return sqrtl(sum);
}

// Products ----------------------------------------------------------------------------------------

static const struct {
    gx_scalar alpha, beta;
} scalars[] = {
    {{1, 0}, {0, 0}}, {{1, 0}, {1, 0}},       {{-1.5, 0}, {0.5, 0}},  {{0, 0}, {2, 0}},
    {{0, 0}, {0, 0}}, {{0.25, 0.75}, {0, 0}}, {{0.5, -1}, {1, 0.25}}, {{-1, 0}, {0, 0}},
};
enum { SCALARS = sizeof scalars / sizeof *scalars };

typedef struct product {
    gx_kernel_id kernel;
    gx_number dtype;
    gx_args args;
    data a, b;
} product;

static bool is_zero(gx_number dtype, gx_scalar s)
{
    return s.re == 0 && (!gx_number_is_complex(dtype) || s.im == 0);
}

static void product_fails(const product *p, const char *why, long double ratio)
{
    fail_msg("%s: %s %s %dx%dx%d trans %d %d uplo %d alpha %g%+gi beta %g%+gi: %s (%Lg)",
             device_now.backend->name, gx_kernel_name(p->kernel), gx_number_name(p->dtype),
             (int)p->args.m, (int)p->args.n, (int)p->args.k, (int)p->args.transa,
             (int)p->args.transb, (int)p->args.uplo, p->args.alpha.re, p->args.alpha.im,
             p->args.beta.re, p->args.beta.im, why, ratio);
}

/* Compute c by the device and want by the reference, both from the same c0. */
static void compare_products(const product *p, block *a, block *b, const block *c0)
{
    block c = block_copy(c0), want = block_copy(c0);
    gx_err err = {.code = GX_OK};
    gx_code code = device_run(&device_now, p->kernel, p->dtype, p->args, a, b, &c, &err);
    gx_code code_ref = device_run(&ref, p->kernel, p->dtype, p->args, a, b, &want, &err);
    if (code != GX_OK || code_ref != GX_OK) {
        product_fails(p, err.text, 0);
    }
    const block *b_or_a = p->kernel == GX_GEMM ? b : a;
    double alpha = hypot(p->args.alpha.re, p->args.alpha.im);
    double beta = hypot(p->args.beta.re, p->args.beta.im);
    long double k = p->args.k + 1, eps = eps_of(p->dtype);
    long double size = alpha * norm_of(a) * norm_of(b_or_a) + beta * norm_of(c0);
    long double floor = k * smallest_of(p->dtype) * (long double)(p->args.m * p->args.n + 1);
    long double gap = distance(&c, &want);
    if (gap < 0) {
        product_fails(p, "finite here, not finite there", gap);
    }
    if (gap > 30 * k * eps * size + floor) {
        product_fails(p, "too far from the reference", gap / (k * eps * size));
    }
    if (!block_is_guarded(&c)) {
        product_fails(p, "wrote outside the rectangle", 0);
    }
    for (int64_t i = 0; p->kernel == GX_HERK && i < p->args.n; i++) {
        if (block_get(&c, i, i).im != 0) {
            product_fails(p, "imaginary part on the diagonal", block_get(&c, i, i).im);
        }
    }
    block_free(&c);
    block_free(&want);
}

static void run_product(const product *p)
{
    const gx_args *s = &p->args;
    int64_t m = s->m, n = s->n, k = s->k;
    bool is_gemm = p->kernel == GX_GEMM;
    int64_t rows = is_gemm ? m : n;
    block a = s->transa == GX_NO_TRANS ? block_random(p->dtype, rows, k, p->a)
                                       : block_random(p->dtype, k, rows, p->a);
    block b = !is_gemm                   ? block_make(p->dtype, 0, 0, 1)
              : s->transb == GX_NO_TRANS ? block_random(p->dtype, k, n, p->b)
                                         : block_random(p->dtype, n, k, p->b);
    block c = block_random(p->dtype, rows, n, PLAIN);
    if (is_zero(p->dtype, s->alpha)) {
        block_spoil(&a);
        block_spoil(&b);
    }
    // Where c is not read it may hold anything; the triangle that is not written keeps its numbers.
    if (is_zero(p->dtype, s->beta) && (is_gemm || p->kernel == GX_SYRK)) {
        block_spoil(&c);
    }
    compare_products(p, &a, is_gemm ? &b : NULL, &c);
    block_free(&a);
    block_free(&b);
    block_free(&c);
}

static void gemm_shapes(gx_number dtype, gx_trans transa, gx_trans transb)
{
    int turn = (int)dtype + 3 * (int)transa + (int)transb; // which scalars: all of them in turn
    for (int i = 0; i < SIDES; i++) {
        for (int j = 0; j < SIDES; j++) {
            for (int l = 0; l < SIDES; l++) {
                bool is_large = sides[i] * sides[j] * sides[l] > 20000;
                if (is_large && (i + j + l) % 9 != 3 * (int)transa + (int)transb) {
                    continue; // the large ones are shared out among the transposes
                }
                int s = turn++ % SCALARS;
                run_product(&(product){.kernel = GX_GEMM,
                                       .dtype = dtype,
                                       .args = {.transa = transa,
                                                .transb = transb,
                                                .m = sides[i],
                                                .n = sides[j],
                                                .k = sides[l],
                                                .alpha = scalars[s].alpha,
                                                .beta = scalars[s].beta}});
            }
        }
    }
}

static void gemm(void **state)
{
    (void)state;
    for (int d = 0; d < GX_FLOATS; d++) {
        for (int t = 0; t < 9; t++) {
            gemm_shapes((gx_number)d, (gx_trans)(t / 3), (gx_trans)(t % 3));
        }
    }
}

/* Every transpose that the kernel takes. */
static bool takes(gx_kernel_id kernel, gx_number dtype, gx_trans trans)
{
    gx_trans other = kernel == GX_SYRK ? GX_CONJ_TRANS : GX_TRANS;
    return !gx_number_is_complex(dtype) || trans != other;
}

static void rank_k_shapes(gx_kernel_id kernel, gx_number dtype, gx_trans trans, gx_uplo uplo)
{
    int turn = (int)dtype + (int)trans + (int)uplo;
    for (int j = 0; j < SIDES; j++) {
        for (int l = 0; l < SIDES; l++) {
            int s = turn++ % SCALARS;
            if (sides[j] * sides[j] * sides[l] > 20000 &&
                (j + l + (int)uplo + (int)trans) % 2 != 0) {
                continue; // the large ones are shared out among triangles and transposes
            }
            run_product(&(product){.kernel = kernel,
                                   .dtype = dtype,
                                   .args = {.transa = trans,
                                            .uplo = uplo,
                                            .m = sides[j],
                                            .n = sides[j],
                                            .k = sides[l],
                                            .alpha = scalars[s].alpha,
                                            .beta = scalars[s].beta}});
        }
    }
}

/* As high as tables are: other code than for blocks. */
static void tall_rank_k(gx_kernel_id kernel, gx_number dtype, gx_trans trans, gx_uplo uplo)
{
    static const int64_t columns[] = {7, 8, 13, 65};
    for (int s = 0; s < SCALARS; s++) {
        for (int j = 0; j < 4; j++) {
            run_product(&(product){.kernel = kernel,
                                   .dtype = dtype,
                                   .args = {.transa = trans,
                                            .uplo = uplo,
                                            .m = columns[j],
                                            .n = columns[j],
                                            .k = j % 2 == 0 ? 700 : 2100,
                                            .alpha = {1, 0},
                                            .beta = scalars[s].beta}});
        }
    }
}

static void rank_k(gx_kernel_id kernel)
{
    for (int d = 0; d < GX_FLOATS; d++) {
        for (int t = 0; t < 3; t++) {
            if (takes(kernel, (gx_number)d, (gx_trans)t)) {
                rank_k_shapes(kernel, (gx_number)d, (gx_trans)t, GX_LOWER);
                rank_k_shapes(kernel, (gx_number)d, (gx_trans)t, GX_UPPER);
                tall_rank_k(kernel, (gx_number)d, (gx_trans)t, (d + t) % 2 ? GX_UPPER : GX_LOWER);
            }
        }
    }
}

static void syrk(void **state)
{
    (void)state;
    rank_k(GX_SYRK);
}

static void herk(void **state)
{
    (void)state;
    rank_k(GX_HERK);
}

/* One NaN or Inf in a spoils its row of c and nothing else. */
static void spoilt_row(gx_number dtype, int64_t side, double bad)
{
    product p = {.kernel = GX_GEMM,
                 .dtype = dtype,
                 .args = {.m = side, .n = side, .k = side, .alpha = {1, 0}}};
    block a = block_random(dtype, side, side, PLAIN), b = block_random(dtype, side, side, PLAIN);
    block c = block_random(dtype, side, side, PLAIN);
    block_set(&a, side / 2, side / 3, (gx_scalar){bad, 0});
    compare_products(&p, &a, &b, &c);
    block_free(&a);
    block_free(&b);
    block_free(&c);
}

static void products_at_the_edges(void **state)
{
    (void)state;
    for (int d = 0; d < GX_FLOATS; d++) {
        for (int i = 1; i < SIDES; i++) {
            spoilt_row((gx_number)d, sides[i], NAN);
            if (!gx_number_is_complex((gx_number)d)) {
                spoilt_row((gx_number)d, sides[i], INFINITY);
            }
            gx_args args = {.m = sides[i], .n = 3, .k = sides[i], .alpha = {1, 0}, .beta = {1, 0}};
            product huge = {.kernel = GX_GEMM, .dtype = (gx_number)d, .args = args, .a = HUGE};
            product tiny = {.kernel = GX_GEMM, .dtype = (gx_number)d, .args = args, .b = TINY};
            product both = {
                .kernel = GX_GEMM, .dtype = (gx_number)d, .args = args, .a = HUGE, .b = TINY};
            run_product(&huge);
            run_product(&tiny);
            run_product(&both);
        }
    }
}

// Elementwise -------------------------------------------------------------------------------------

/* FILL, COPY, and after them a case for each row of map.h. */
typedef struct map {
    gx_kernel_id kernel;
    gx_map_kind kind;
    const char *name;
    int operands; /* how many of a, b are read; c may be each of them        */
    double ulps;  /* of the size of the terms; 0: to the bit                 */
} map;

enum { MOVES = 2, MAPS = MOVES + GX_MAP_KIND_COUNT };

static map map_case(int i)
{
    static const map moves[MOVES] = {{.kernel = GX_FILL, .name = "fill"},
                                     {.kernel = GX_COPY, .name = "copy", .operands = 1}};
    if (i < MOVES) {
        return moves[i];
    }
    gx_map_kind kind = (gx_map_kind)(i - MOVES);
    const gx_map_facts *row = gx_map_row(kind);
    return (map){GX_MAP, kind, row->name, row->operands, row->ulps};
}

static double magnitude(gx_scalar x)
{
    return hypot(x.re, x.im);
}

/* What an element of c is made of, without cancellation: the scale of its rounding errors. */
static double size_of_terms(const map *t, const gx_args *s, gx_scalar a, gx_scalar b, gx_scalar c)
{
    if (t->kernel != GX_MAP) {
        return magnitude(a);
    }
    switch (t->kind) {
    case GX_MAP_ADD:
        return magnitude(s->alpha) * magnitude(a) + magnitude(s->beta) * magnitude(b);
    case GX_MAP_MUL:
        return magnitude(a) * magnitude(b);
    case GX_MAP_DIV:
        return magnitude(a) / magnitude(b);
    case GX_MAP_SCALE:
        return magnitude(s->alpha) * magnitude(a);
    default:
        return magnitude(c);
    }
}

static void map_fails(const map *t, gx_number dtype, const gx_args *s, int64_t i, int64_t j,
                      gx_scalar got, gx_scalar want)
{
    fail_msg("%s: %s %s %dx%d alpha %g%+gi beta %g%+gi (%d,%d): %.17g%+.17gi, want %.17g%+.17gi",
             device_now.backend->name, t->name, gx_number_name(dtype), (int)s->m, (int)s->n,
             s->alpha.re, s->alpha.im, s->beta.re, s->beta.im, (int)i, (int)j, got.re, got.im,
             want.re, want.im);
}

static void compare_maps(const map *t, const gx_args *s, const block *a, const block *b,
                         const block *c, const block *want)
{
    double ulp = 2 * eps_of(c->dtype);
    for (int64_t j = 0; j < c->n; j++) {
        for (int64_t i = 0; i < c->m; i++) {
            gx_scalar x = block_get(c, i, j), y = block_get(want, i, j);
            double size = size_of_terms(t, s, block_get(a, i, j), block_get(b, i, j), y);
            if (!isfinite(size)) { // of the part that is finite, if one is
                size = (isfinite(y.re) ? fabs(y.re) : 0) + (isfinite(y.im) ? fabs(y.im) : 0);
            }
            double tolerance = t->ulps * (ulp * size + smallest_of(c->dtype));
            if (!is_near(x.re, y.re, tolerance) || !is_near(x.im, y.im, tolerance)) {
                map_fails(t, c->dtype, s, i, j, x, y);
            }
        }
    }
    if (!block_is_guarded(c)) {
        map_fails(t, c->dtype, s, -1, -1, (gx_scalar){0, 0}, (gx_scalar){0, 0});
    }
}

/* place: -1 c apart, b one column for all; 0 c apart, 1 c = a, 2 c = b, 3 c = the third operand. */
static void run_map(const map *t, gx_number dtype, gx_args s, data what, int place)
{
    block x[3], x0[3], c = block_random(dtype, s.m, s.n, PLAIN), want = block_copy(&c);
    block *from[3] = {NULL, NULL, NULL}, *into = place <= 0 ? &c : &x[place - 1];
    for (int k = 0; k < 3; k++) {
        x[k] = block_random(dtype, s.m, s.n, what);
        for (int64_t j = 1; k == 1 && place < 0 && j < s.n; j++) {
            for (int64_t i = 0; i < s.m; i++) {
                block_set(&x[k], i, j, block_get(&x[k], i, 0));
            }
        }
        x0[k] = block_copy(&x[k]);
        from[k] = k < t->operands ? &x[k] : NULL;
    }
    gx_err err = {.code = GX_OK}, err_ref = {.code = GX_OK};
    s.map = t->kind;
    gx_code code = device_run3(&ref, t->kernel, dtype, s, from[0], from[1], from[2], &want,
                               &err_ref);
    x[1].ld = place < 0 ? 0 : x[1].ld;
    assert_int_equal(device_run3(&device_now, t->kernel, dtype, s, from[0], from[1], from[2], into,
                                 &err),
                     code);
    if (code == GX_OK) {
        compare_maps(t, &s, &x0[0], &x0[1], into, &want);
    } else {
        assert_string_equal(err.text, err_ref.text);
        assert_non_null(strstr(err.text, " is of real numbers, not of c"));
    }
    for (int k = 0; k < 3; k++) {
        block_free(&x[k]);
        block_free(&x0[k]);
    }
    block_free(&c);
    block_free(&want);
}

static void map_shapes(const map *t, gx_number dtype, data what)
{
    static const int64_t rows[] = {0, 1, 2, 3, 5, 17, 65, 130}, cols[] = {0, 1, 3, 6};
    int turn = (int)what;
    for (int i = 0; i < 8; i++) {
        for (int j = 0; j < 4; j++) {
            int s = turn++ % SCALARS;
            gx_args args = {
                .m = rows[i], .n = cols[j], .alpha = scalars[s].alpha, .beta = scalars[s].beta};
            for (int place = t->operands == 2 ? -1 : 0; place <= t->operands; place++) {
                run_map(t, dtype, args, what, place);
            }
        }
    }
}

/* A device's functions of complex numbers have their own ends; C's specials for three of them. */
static bool is_compared(const map *t, gx_number dtype, data what)
{
#ifdef GX_TEST_GPU
    bool is_special = what != PLAIN && what != ZEROS;
    return t->kernel != GX_MAP || gx_map_row(t->kind)->has_bits || !gx_number_is_complex(dtype) ||
           !is_special || t->kind == GX_MAP_EXP || t->kind == GX_MAP_LOG || t->kind == GX_MAP_SQRT;
#else
    (void)t;
    (void)dtype;
    (void)what;
    return true;
#endif
}

static void elementwise(void **state)
{
    (void)state;
    for (int i = 0; i < MAPS; i++) {
        map t = map_case(i);
        for (int d = 0; d < GX_FLOATS; d++) {
            for (int k = 0; k < DATA_KINDS; k++) {
                if (device_now.backend->kernel[t.kernel][d] != NULL &&
                    is_compared(&t, (gx_number)d, (data)k)) {
                    map_shapes(&t, (gx_number)d, (data)k);
                }
            }
        }
    }
}

// Transposes --------------------------------------------------------------------------------------

static bool same_bits(const block *x, const block *y)
{
    return memcmp(x->raw, y->raw, x->bytes) == 0;
}

static void transpose_shape(gx_number dtype, gx_trans trans, int64_t m, int64_t n)
{
    block a =
        trans == GX_NO_TRANS ? block_random(dtype, m, n, PLAIN) : block_random(dtype, n, m, PLAIN);
    block c = block_random(dtype, m, n, ZEROS), want = block_copy(&c);
    gx_args args = {.transa = trans, .m = m, .n = n};
    gx_err err = {.code = GX_OK};
    assert_int_equal(device_run(&ref, GX_TRANSPOSE, dtype, args, &a, NULL, &want, &err), GX_OK);
    assert_int_equal(device_run(&device_now, GX_TRANSPOSE, dtype, args, &a, NULL, &c, &err), GX_OK);
    if (!same_bits(&c, &want)) {
        fail_msg("%s: transpose %s %dx%d trans %d", device_now.backend->name, gx_number_name(dtype),
                 (int)m, (int)n, (int)trans);
    }
    block_free(&a);
    block_free(&c);
    block_free(&want);
}

static void symmetrize_shape(gx_number dtype, gx_trans trans, gx_uplo uplo, int64_t n)
{
    block c = block_random(dtype, n, n, PLAIN), want = block_copy(&c);
    gx_args args = {.transa = trans, .uplo = uplo, .m = n, .n = n};
    gx_err err = {.code = GX_OK};
    assert_int_equal(device_run(&ref, GX_SYMMETRIZE, dtype, args, NULL, NULL, &want, &err), GX_OK);
    assert_int_equal(device_run(&device_now, GX_SYMMETRIZE, dtype, args, NULL, NULL, &c, &err),
                     GX_OK);
    if (!same_bits(&c, &want)) {
        fail_msg("%s: symmetrize %s %d trans %d uplo %d", device_now.backend->name,
                 gx_number_name(dtype), (int)n, (int)trans, (int)uplo);
    }
    block_free(&c);
    block_free(&want);
}

static void transposes(void **state)
{
    (void)state;
    static const int64_t edges[] = {0, 1, 3, 15, 16, 17, 31, 32, 33, 64, 65, 130};
    for (int d = 0; d < GX_FLOATS; d++) {
        for (int t = 0; t < 3; t++) {
            for (int i = 0; i < 12; i++) {
                for (int j = 0; j < 12; j++) {
                    transpose_shape((gx_number)d, (gx_trans)t, edges[i], edges[j]);
                }
                symmetrize_shape((gx_number)d, (gx_trans)t, GX_LOWER, edges[i]);
                symmetrize_shape((gx_number)d, (gx_trans)t, GX_UPPER, edges[i]);
            }
        }
    }
}

// Reductions --------------------------------------------------------------------------------------

static void reduction_fails(gx_reduce_kind kind, const block *a, int64_t at, double got,
                            double want)
{
    fail_msg("%s: reduce %d of %s %dx%d ld %d [%d]: %.17g, want %.17g", device_now.backend->name,
             (int)kind, gx_number_name(a->dtype), (int)a->m, (int)a->n, (int)a->ld, (int)at, got,
             want);
}

/* Norms are compared, scale * sqrt(ssq): the split between the two is the backend's own. */
static void compare_sumsq(const block *a, const double *got, const double *want)
{
    long double x = got[0] * sqrtl(got[1]), y = want[0] * sqrtl(want[1]);
    bool is_same = isnan(y) ? isnan(x) : isinf(y) ? x == y : fabsl(x - y) <= 0x1p-46L * y;
    if (!is_same || !(got[0] > 0)) {
        reduction_fails(GX_REDUCE_SUMSQ, a, 0, (double)x, (double)y);
    }
}

/*
** Sums of n terms differ by the rounding of a tree or, for rows, of a plain sum over the columns.
** A complex magnitude below the normal numbers is rounded to the smallest of them, however large
** that is beside it.
*/
static double tolerance_of(gx_reduce_kind kind, const block *a, const double *row_abs,
                           const double *col_abs, int64_t at, double want)
{
    int64_t line = kind == GX_REDUCE_COL_ABS || kind == GX_REDUCE_ROW_ABS ? at : at / 2;
    double total = 0;
    for (int64_t j = 0; kind == GX_REDUCE_SUM && j < a->n; j++) {
        total += col_abs[j];
    }
    if (kind == GX_REDUCE_COL_ABS || kind == GX_REDUCE_COL_SUM) {
        total = col_abs[line];
    } else if (kind == GX_REDUCE_ROW_ABS || kind == GX_REDUCE_ROW_SUM) {
        total = row_abs[line];
    }
    double smallest = gx_number_is_complex(a->dtype) ? 0x1p-1074 : 0;
    if (!isfinite(total)) {
        total = (double)(a->m * a->n); // special data: the numbers among it are at most 1
    }
    switch (kind) {
    case GX_REDUCE_COL_ABS:
        return 0x1p-53 * 40 * total + (double)a->m * smallest;
    case GX_REDUCE_SUM:
    case GX_REDUCE_COL_SUM:
        return 0x1p-53 * 40 * total;
    case GX_REDUCE_ROW_ABS:
        return 0x1p-53 * (double)(a->n + 4) * total + (double)a->n * smallest;
    case GX_REDUCE_ROW_SUM:
        return 0x1p-53 * (double)(a->n + 4) * total;
    default: // an extreme: an element itself, or the magnitude of a complex one
        return gx_number_is_complex(a->dtype) ? 0x1p-51 * want + smallest : 0;
    }
}

static void reduce_with(const device *d, gx_reduce_kind kind, block *a, double *out)
{
    gx_err err = {.code = GX_OK};
    gx_args args = {.m = a->m, .n = a->n, .reduce_kind = kind, .reduce = out};
    assert_int_equal(device_run(d, GX_REDUCE, a->dtype, args, a, NULL, NULL, &err), GX_OK);
}

static void reduction_shape(gx_number dtype, int64_t m, int64_t n, data what)
{
    block a = block_random(dtype, m, n, what);
    size_t room = (size_t)(2 * (m + n) + 4);
    double *got = malloc(room * 8), *want = malloc(room * 8);
    double *row_abs = malloc(room * 8), *col_abs = malloc(room * 8);
    reduce_with(&ref, GX_REDUCE_ROW_ABS, &a, row_abs);
    reduce_with(&ref, GX_REDUCE_COL_ABS, &a, col_abs);
    for (int k = 0; k < GX_REDUCE_KIND_COUNT; k++) {
        gx_reduce_kind kind = (gx_reduce_kind)k;
        bool is_order = kind == GX_REDUCE_MIN || kind == GX_REDUCE_MAX;
        if (is_order && gx_number_is_complex(dtype)) {
            continue;
        }
        int64_t width = gx_reduce_width(kind, m, n);
        got[width] = -12345;
        reduce_with(&ref, kind, &a, want);
        reduce_with(&device_now, kind, &a, got);
        if (kind == GX_REDUCE_SUMSQ) {
            compare_sumsq(&a, got, want);
        }
        for (int64_t i = 0; kind != GX_REDUCE_SUMSQ && i < width; i++) {
            double tolerance = tolerance_of(kind, &a, row_abs, col_abs, i, want[i]);
            if (!is_near(got[i], want[i], tolerance)) {
                reduction_fails(kind, &a, i, got[i], want[i]);
            }
        }
        assert_true(got[width] == -12345);
    }
    free(got);
    free(want);
    free(row_abs);
    free(col_abs);
    block_free(&a);
}

static void reductions(void **state)
{
    (void)state;
    static const struct {
        int64_t m, n;
    } shapes[] = {{0, 0},   {0, 3},   {3, 0},    {1, 1},    {2, 1},    {1, 5},
                  {3, 3},   {15, 2},  {16, 2},   {17, 3},   {63, 65},  {128, 4},
                  {129, 3}, {257, 9}, {1023, 2}, {1025, 3}, {2500, 4}, {3, 700}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            for (int k = 0; k < DATA_KINDS; k++) {
                for (int again = 0; again < 2; again++) { // with other leading dimensions
                    reduction_shape((gx_number)d, shapes[i].m, shapes[i].n, (data)k);
                }
            }
        }
    }
}

// Refusals ----------------------------------------------------------------------------------------

static void refuses_alike(gx_kernel_id kernel, gx_number dtype, gx_args args)
{
    block a = block_make(dtype, 2, 2, 2), c = block_make(dtype, 2, 2, 2);
    double out[4];
    args.m = args.n = args.k = 2;
    args.reduce = out;
    gx_err got = {.code = GX_OK}, want = {.code = GX_OK};
    assert_int_equal(device_run(&ref, kernel, dtype, args, &a, NULL, &c, &want), GX_UNSUPPORTED);
    assert_int_equal(device_run(&device_now, kernel, dtype, args, &a, NULL, &c, &got),
                     GX_UNSUPPORTED);
    assert_string_equal(got.text, want.text);
    block_free(&a);
    block_free(&c);
}

static void refusals(void **state)
{
    (void)state;
    for (int d = GX_C128; d <= GX_C64; d++) {
        refuses_alike(GX_SYRK, (gx_number)d, (gx_args){.transa = GX_CONJ_TRANS});
        refuses_alike(GX_HERK, (gx_number)d, (gx_args){.transa = GX_TRANS});
        refuses_alike(GX_REDUCE, (gx_number)d, (gx_args){.reduce_kind = GX_REDUCE_MIN});
        refuses_alike(GX_REDUCE, (gx_number)d, (gx_args){.reduce_kind = GX_REDUCE_MAX});
    }
    gx_dev *dev;
    gx_err err = {.code = GX_OK};
    assert_int_equal(device_now.backend->open(1000, &dev, &err), GX_ARG);
    assert_null(dev);
}

static void facts(void **state)
{
    (void)state;
    gx_dev_info info;
    gx_err err = {.code = GX_OK};
    assert_int_equal(device_now.backend->abi, GX_BACKEND_ABI);
    assert_int_equal(device_now.backend->info(device_now.dev, &info, &err), GX_OK);
    assert_int_equal(strncmp(info.name, device_now.backend->name, strlen(device_now.backend->name)),
                     0);
    assert_int_equal(info.is_host, device_now.backend->alloc == NULL);
    assert_true(info.total_bytes > 0 && info.free_bytes <= info.total_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm),        cmocka_unit_test(syrk),
        cmocka_unit_test(herk),        cmocka_unit_test(products_at_the_edges),
        cmocka_unit_test(elementwise), cmocka_unit_test(transposes),
        cmocka_unit_test(reductions),  cmocka_unit_test(refusals),
        cmocka_unit_test(facts),
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        gx_err err = {.code = GX_OK};
        seed = SEED;
        device_now = (device){.backend = backends[i]};
        if (backends[i] == NULL) {
            device_now = device_on_demand();
        } else if (backends[i]->open(0, &device_now.dev, &err) != GX_OK) {
            printf("%s: %s\n", backends[i]->name, err.text);
            failed++;
            continue;
        }
        printf("backend %s, seed %llu\n", device_now.backend->name, (unsigned long long)SEED);
        failed += cmocka_run_group_tests(tests, NULL, NULL);
        device_now.backend->close(device_now.dev);
    }
    return failed;
}
