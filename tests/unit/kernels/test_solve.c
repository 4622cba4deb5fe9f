/*
** Triangles, Cholesky, LU: the reference, the CPU backend, and teams of several sizes.
**
** Plan (every runner of factor.h, every dtype, sides 0 .. 130, larger ones for teams):
**   1. triangle: to the bit, apart and in place, wide and tall
**   2. trsm: ||op(A) X - alpha B|| / (n ||A|| ||X|| eps) < 30, every side, triangle, diagonal and
**      transpose; what must not be read holds NaN; alpha 0 reads nothing; a zero on the diagonal
**      gives Inf or NaN and no failure
**   3. trmm: ||C - alpha op(A) B|| / (n ||A|| ||B|| eps) < 30
**   4. potrf: ||A - L L^H|| / (n ||A|| eps) < 30, the other triangle untouched to the bit; not
**      positive definite at a known order; NaN and Inf
**   5. getrf: ||P A - L U|| / (n ||A|| eps) < 30, |l_ij| <= 1, pivots in range; singular at a known
**      column; NaN ends; huge and tiny numbers
**   6. laswp: forward, backward, ranges, offsets
**   7. fixed cuts: the same bits with no team and 1, 2, 3 threads
**   8. a failing poll stops them
*/
#include "factor.h"

static const uint64_t SEED = 20240701;

static const int64_t sides[] = {0, 1, 2, 3, 5, 10, 50, 65, 130};
enum { SIDES = sizeof sides / sizeof *sides };

static double largest_part(const block *x)
{
    double most = 0;
    for (int64_t j = 0; j < x->n; j++) {
        for (int64_t i = 0; i < x->m; i++) {
            gx_scalar e = block_get(x, i, j);
            most = fmax(most, fabs(e.re) + fabs(e.im));
        }
    }
    return most;
}

// Triangles ---------------------------------------------------------------------------------------

static void triangle_shape(const runner *r, gx_number dtype, int64_t m, int64_t n)
{
    for (int bits = 0; bits < 8; bits++) {
        gx_uplo uplo = (gx_uplo)(bits & 1);
        gx_diag diag = (gx_diag)(bits >> 1 & 1);
        block a = random_block(dtype, m, n), c = random_block(dtype, m, n);
        block want = triangle_of(&a, uplo, diag, m, n);
        operands o = {.a = &a, .c = bits >> 2 ? &a : &c};
        run(r, GX_TRIANGLE, dtype, (gx_args){.m = m, .n = n, .uplo = uplo, .diag = diag}, &o);
        assert_true(distance_of(o.c, &want) == 0);
        block_free(&a);
        block_free(&c);
        block_free(&want);
    }
}

static void triangle(void **state)
{
    (void)state;
    for (int i = 0; i < RUNNERS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            for (int s = 0; s < SIDES; s++) {
                triangle_shape(&runners[i], (gx_number)d, sides[s], gx_min(sides[s], 50));
                triangle_shape(&runners[i], (gx_number)d, sides[s], 7);
                triangle_shape(&runners[i], (gx_number)d, 3, sides[s]);
            }
        }
        triangle_shape(&runners[i], i % 2 == 0 ? GX_F64 : GX_C64, 300, 500);
        triangle_shape(&runners[i], i % 2 == 0 ? GX_C128 : GX_F32, 500, 200);
    }
}

/* A triangle that is far from singular, NaN outside it. */
static block good_triangle(gx_number dtype, int64_t n, gx_uplo uplo, gx_diag diag)
{
    block a = random_block(dtype, n, n);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            gx_scalar x = block_get(&a, i, j);
            double s = i == j ? 1 : 1 / (double)n;
            block_set(&a, i, j, (gx_scalar){s * x.re + (i == j ? 2 : 0), s * x.im});
        }
    }
    spoil_outside(&a, uplo, diag);
    return a;
}

static void triangular_call(const runner *r, gx_kernel_id kernel, gx_number dtype, gx_args args)
{
    bool is_left = args.side == GX_LEFT;
    int64_t side = is_left ? args.m : args.n;
    block a = good_triangle(dtype, side, args.uplo, args.diag);
    block b = random_block(dtype, args.m, args.n), c = block_copy(&b);
    block full = triangle_of(&a, args.uplo, args.diag, side, side);
    run(r, kernel, dtype, args, &(operands){.a = &a, .c = &c});

    // X is c for trsm, b for trmm; the other one is op(A) X / alpha, alpha op(A) X.
    const block *x = kernel == GX_TRSM ? &c : &b;
    block product = block_copy(kernel == GX_TRSM ? &b : &c);
    double alpha = kernel == GX_TRSM ? 1 : args.alpha.re;
    double beta = kernel == GX_TRSM ? -args.alpha.re : -1;
    multiply(is_left ? args.transa : GX_NO_TRANS, is_left ? GX_NO_TRANS : args.transa, alpha,
             is_left ? &full : x, is_left ? x : &full, beta, &product);
    double size = norm_of(&full) * norm_of(x) * fmax(1, fabs(args.alpha.re));
    assert_ratio(r, kernel, dtype, args.m, args.n, "residual", norm_of(&product), size, side);
    block *all[] = {&a, &b, &c, &full, &product};
    for (int i = 0; i < 5; i++) {
        block_free(all[i]);
    }
}

static void triangular_shapes(const runner *r, gx_kernel_id kernel, gx_number dtype)
{
    static const double alphas[] = {1, -0.5, 2};
    int turn = (int)dtype;
    for (int bits = 0; bits < 24; bits++) {
        gx_args args = {.side = (gx_side)(bits & 1),
                        .uplo = (gx_uplo)(bits >> 1 & 1),
                        .diag = (gx_diag)(bits >> 2 & 1),
                        .transa = (gx_trans)(bits / 8)};
        for (int s = 0; s < SIDES; s++) {
            args.alpha.re = alphas[turn++ % 3];
            args.m = sides[s];
            args.n = sides[(s + bits) % SIDES];
            if (takes_shape((int)(r - runners), dtype, s + bits, args.m, args.n)) {
                triangular_call(r, kernel, dtype, args);
            }
        }
        args.m = bits % 2 == 0 ? 601 : 70; // past the leaf, on the triangle's side
        args.n = bits % 2 == 0 ? 70 : 601;
        if (r->largest >= 1000 && bits % 4 == (int)dtype) {
            triangular_call(r, kernel, dtype, args);
        }
    }
}

static void trsm(void **state)
{
    (void)state;
    for (int i = 0; i < RUNNERS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            triangular_shapes(&runners[i], GX_TRSM, (gx_number)d);
        }
    }
}

static void trmm(void **state)
{
    (void)state;
    for (int i = 0; i < RUNNERS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            triangular_shapes(&runners[i], GX_TRMM, (gx_number)d);
        }
    }
}

/* A complex alpha: c = alpha I c. */
static void complex_alpha(const runner *r, gx_kernel_id kernel, int64_t n)
{
    block a = constant_block(GX_C128, n, n, 1), c = constant_block(GX_C128, n, 2, 1);
    gx_args args = {.m = n, .n = 2, .alpha = {2, 3}};
    run(r, kernel, GX_C128, args, &(operands){.a = &a, .c = &c});
    for (int64_t j = 0; j < 2; j++) {
        gx_scalar x = block_get(&c, j, j);
        assert_true(x.re == 2 && x.im == 3);
    }
    block_free(&a);
    block_free(&c);
}

/* alpha 0 reads neither; a zero on the diagonal divides. */
static void triangles_at_the_edges(void **state)
{
    (void)state;
    for (int i = 0; i < RUNNERS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            for (int64_t n = 2; n <= 300; n += 298) {
                gx_number dtype = (gx_number)d;
                block a = constant_block(dtype, n, n, NAN), c = constant_block(dtype, n, n, NAN);
                operands o = {.a = &a, .c = &c};
                run(&runners[i], GX_TRSM, dtype, (gx_args){.m = n, .n = n, .alpha = {0, 5}},
                    gx_number_is_complex(dtype) ? &(operands){.a = &a, .c = &a} : &o);
                run(&runners[i], GX_TRMM, dtype, (gx_args){.m = n, .n = n}, &o);
                assert_true(norm_of(&c) == 0);
                block_free(&a);
                block_free(&c);
                a = constant_block(dtype, n, n, 1);
                c = constant_block(dtype, n, n, 1);
                block_set(&a, 1, 1, (gx_scalar){0, 0});
                run(&runners[i], GX_TRSM, dtype, (gx_args){.m = n, .n = n, .alpha = {1, 0}}, &o);
                assert_false(isfinite(block_get(&c, 1, 1).re));
                assert_true(block_get(&c, 0, 0).re == 1);
                block_free(&a);
                block_free(&c);
            }
        }
        complex_alpha(&runners[i], GX_TRSM, 2);
        complex_alpha(&runners[i], GX_TRMM, 300);
    }
}

// Cholesky ----------------------------------------------------------------------------------------

/*
** L D L^H of a random unit lower L and D = I, but for d_p = -1: the leading minors are positive
** definite up to order p.  p = -1: the whole is.
*/
static block definite_block(gx_number dtype, int64_t n, int64_t p)
{
    block l = random_block(dtype, n, n), a = random_block(dtype, n, n);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            gx_scalar x = block_get(&l, i, j);
            double s = i > j ? 1 / sqrt((double)n) : 0;
            block_set(&l, i, j, (gx_scalar){i == j ? 1 : s * x.re, s * x.im});
        }
    }
    block d = block_copy(&l);
    for (int64_t i = 0; p >= 0 && i < n; i++) {
        gx_scalar x = block_get(&l, i, p);
        block_set(&d, i, p, (gx_scalar){-x.re, -x.im});
    }
    multiply(GX_NO_TRANS, GX_CONJ_TRANS, 1, &d, &l, 0, &a);
    block_free(&l);
    block_free(&d);
    return a;
}

static bool same_outside(const block *x, const block *y, gx_uplo uplo)
{
    for (int64_t j = 0; j < x->n; j++) {
        for (int64_t i = 0; i < x->m; i++) {
            if (!is_inside(uplo, i, j) &&
                memcmp(gx_at(x->data, x->dtype, x->ld, i, j), gx_at(y->data, y->dtype, y->ld, i, j),
                       gx_number_bytes(x->dtype)) != 0) {
                return false;
            }
        }
    }
    return true;
}

static void potrf_shape(const runner *r, gx_number dtype, gx_uplo uplo, int64_t n)
{
    block a = definite_block(dtype, n, -1), c = block_copy(&a);
    spoil_outside(&c, uplo, GX_NON_UNIT);
    for (int64_t i = 0; gx_number_is_complex(dtype) && i < n; i++) {
        block_set(&c, i, i, (gx_scalar){block_get(&c, i, i).re, NAN}); // not read
    }
    block before = block_copy(&c);
    int64_t info = -7;
    run(r, GX_POTRF, dtype, (gx_args){.m = n, .n = n, .uplo = uplo, .info = &info},
        &(operands){.c = &c});
    assert_int_equal(info, 0);
    assert_true(same_outside(&c, &before, uplo));
    block l = triangle_of(&c, uplo, GX_NON_UNIT, n, n), residual = block_copy(&a);
    gx_trans first = uplo == GX_LOWER ? GX_NO_TRANS : GX_CONJ_TRANS;
    gx_trans second = uplo == GX_LOWER ? GX_CONJ_TRANS : GX_NO_TRANS;
    multiply(first, second, -1, &l, &l, 1, &residual);
    assert_ratio(r, GX_POTRF, dtype, n, n, "||A - LL^H||", norm_of(&residual), norm_of(&a), n);
    for (int64_t i = 0; i < n; i++) {
        assert_true(block_get(&c, i, i).re > 0 && block_get(&c, i, i).im == 0);
    }
    block *all[] = {&a, &c, &before, &l, &residual};
    for (int i = 0; i < 5; i++) {
        block_free(all[i]);
    }
}

static void potrf(void **state)
{
    (void)state;
    static const int64_t large[] = {127, 128, 129, 200, 400, 700};
    for (int i = 0; i < RUNNERS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            for (int s = 0; s < SIDES + 6; s++) {
                int64_t n = s < SIDES ? sides[s] : large[s - SIDES];
                if (takes_shape(i, d, s, n, n)) {
                    potrf_shape(&runners[i], (gx_number)d, GX_LOWER, n);
                    potrf_shape(&runners[i], (gx_number)d, GX_UPPER, n);
                }
            }
        }
    }
}

static void potrf_fails_at(const runner *r, gx_number dtype, gx_uplo uplo, block *a, int64_t order)
{
    int64_t info = -7;
    run(r, GX_POTRF, dtype, (gx_args){.m = a->n, .n = a->n, .uplo = uplo, .info = &info},
        &(operands){.c = a});
    if (info != order) {
        fail_msg("%s: potrf %s %d uplo %d: info %d, want %d", r->name, gx_number_name(dtype),
                 (int)a->n, (int)uplo, (int)info, (int)order);
    }
    block_free(a);
}

static void not_definite(const runner *r, gx_number dtype, gx_uplo uplo, int64_t n, int64_t p)
{
    block a = definite_block(dtype, n, p);
    potrf_fails_at(r, dtype, uplo, &a, p + 1);
    a = definite_block(dtype, n, -1);
    block_set(&a, p, p, (gx_scalar){NAN, 0});
    potrf_fails_at(r, dtype, uplo, &a, p + 1);
    a = definite_block(dtype, n, -1);
    block_set(&a, p, p, (gx_scalar){-INFINITY, 0});
    potrf_fails_at(r, dtype, uplo, &a, p + 1);
    if (p > 0) { // a NaN off the diagonal arrives on it in its row
        a = definite_block(dtype, n, -1);
        block_set(&a, p, p / 2, (gx_scalar){NAN, 0});
        block_set(&a, p / 2, p, (gx_scalar){NAN, 0});
        potrf_fails_at(r, dtype, uplo, &a, p + 1);
    }
    a = constant_block(dtype, n, n, 1);
    block_set(&a, p, p, (gx_scalar){0, 0});
    potrf_fails_at(r, dtype, uplo, &a, p + 1);
}

static void not_positive_definite(void **state)
{
    (void)state;
    static const int64_t where[][2] = {{1, 0},    {2, 1},     {5, 3},     {50, 0},   {65, 64},
                                       {130, 77}, {300, 127}, {300, 128}, {400, 399}};
    for (int i = 0; i < RUNNERS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            for (int w = 0; w < 9; w++) {
                if (takes_shape(i, d, w, where[w][0], where[w][0])) {
                    not_definite(&runners[i], (gx_number)d, GX_LOWER, where[w][0], where[w][1]);
                    not_definite(&runners[i], (gx_number)d, GX_UPPER, where[w][0], where[w][1]);
                }
            }
        }
    }
}

// LU ----------------------------------------------------------------------------------------------

static void swap_rows(const block *x, int64_t i, int64_t k)
{
    for (int64_t j = 0; i != k && j < x->n; j++) {
        gx_scalar e = block_get(x, i, j);
        block_set(x, i, j, block_get(x, k, j));
        block_set(x, k, j, e);
    }
}

/* Factor a; ||P A - L U||, |L|, pivots.  Returns info. */
static int64_t lu_of(const runner *r, const block *a)
{
    int64_t m = a->m, n = a->n, count = gx_min(m, n), info = -7;
    int64_t *pivots = malloc((size_t)(count + 1) * sizeof *pivots);
    pivots[count] = -12345;
    block c = block_copy(a), moved = block_copy(a);
    run(r, GX_GETRF, a->dtype, (gx_args){.m = m, .n = n, .pivots = pivots, .info = &info},
        &(operands){.c = &c});
    assert_int_equal(pivots[count], -12345);
    for (int64_t j = 0; j < count; j++) {
        assert_true(pivots[j] >= j && pivots[j] < m);
        swap_rows(&moved, j, pivots[j]);
    }
    block l = triangle_of(&c, GX_LOWER, GX_UNIT, m, count);
    block u = triangle_of(&c, GX_UPPER, GX_NON_UNIT, count, n);
    multiply(GX_NO_TRANS, GX_NO_TRANS, -1, &l, &u, 1, &moved);
    double size = norm_of(a);
    if (isfinite(size)) {
        assert_ratio(r, GX_GETRF, a->dtype, m, n, "||PA - LU||", norm_of(&moved), size,
                     gx_max(m, n));
        double most = gx_number_is_complex(a->dtype) ? 2 : 1; // of |re| + |im|
        assert_true(largest_part(&l) <= most + 8 * eps_of(a->dtype));
    }
    block *all[] = {&c, &moved, &l, &u};
    for (int i = 0; i < 4; i++) {
        block_free(all[i]);
    }
    free(pivots);
    return info;
}

static void getrf(void **state)
{
    (void)state;
    static const int64_t large[][2] = {{200, 200}, {400, 90},  {90, 400},
                                       {33, 33},   {700, 700}, {1000, 300}};
    for (int i = 0; i < RUNNERS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            for (int s = 0; s < SIDES * SIDES + 6; s++) {
                bool is_large = s >= SIDES * SIDES;
                int64_t m = is_large ? large[s - SIDES * SIDES][0] : sides[s / SIDES];
                int64_t n = is_large ? large[s - SIDES * SIDES][1] : sides[s % SIDES];
                if (takes_shape(i, d, s, m, n)) {
                    block a = random_block((gx_number)d, m, n);
                    assert_int_equal(lu_of(&runners[i], &a), 0);
                    block_free(&a);
                }
            }
        }
    }
}

static void scale_block(const block *x, double s)
{
    for (int64_t j = 0; j < x->n; j++) {
        for (int64_t i = 0; i < x->m; i++) {
            gx_scalar e = block_get(x, i, j);
            block_set(x, i, j, (gx_scalar){s * e.re, s * e.im});
        }
    }
}

/* Columns p and later that are zero below: exact zeros arrive as pivots. */
static void singular_shape(const runner *r, gx_number dtype, int64_t n, int64_t p)
{
    block a = random_block(dtype, n, n);
    for (int64_t i = 0; i < n; i++) {
        block_set(&a, i, p, (gx_scalar){0, 0});
        block_set(&a, i, n - 1, (gx_scalar){0, 0});
    }
    assert_int_equal(lu_of(r, &a), p + 1);
    block_free(&a);
    a = constant_block(dtype, n, n, 0);
    assert_int_equal(lu_of(r, &a), 1);
    block_free(&a);
    double scale = gx_number_is_double(dtype) ? 1e300 : 1e35;
    a = random_block(dtype, n, n);
    scale_block(&a, scale);
    assert_int_equal(lu_of(r, &a), 0);
    scale_block(&a, 1 / scale);
    scale_block(&a, 1 / scale);
    assert_int_equal(lu_of(r, &a), 0);
    // NaN and Inf: it ends, with pivots in range.
    block_set(&a, n / 2, p, (gx_scalar){NAN, 0});
    (void)lu_of(r, &a);
    block_set(&a, n / 2, p, (gx_scalar){INFINITY, 0});
    (void)lu_of(r, &a);
    block_free(&a);
    a = constant_block(dtype, n, n, NAN);
    (void)lu_of(r, &a);
    block_free(&a);
}

static void getrf_at_the_edges(void **state)
{
    (void)state;
    static const int64_t where[][2] = {{1, 0},   {2, 0},   {5, 3},    {50, 31},
                                       {65, 33}, {130, 9}, {300, 257}};
    for (int i = 0; i < RUNNERS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            for (int w = 0; w < 7; w++) {
                if (takes_shape(i, d, w, where[w][0], where[w][0])) {
                    singular_shape(&runners[i], (gx_number)d, where[w][0], where[w][1]);
                }
            }
        }
    }
}

static void laswp_shape(const runner *r, gx_number dtype, int64_t m, int64_t n, int64_t offset)
{
    int64_t pivots[40], count = gx_min(40, m - offset);
    for (int64_t j = 0; j < count; j++) {
        pivots[j] = j + (int64_t)(random_bits(&seed) % (uint64_t)(m - offset - j));
    }
    block a = random_block(dtype, m, n), c = block_copy(&a), want = block_copy(&a);
    gx_args args = {.m = m,
                    .n = n,
                    .pivots = pivots,
                    .pivot_first = 1,
                    .pivot_last = count,
                    .row_offset = offset};
    run(r, GX_LASWP, dtype, args, &(operands){.c = &c});
    for (int64_t j = 1; j < count; j++) {
        swap_rows(&want, offset + j, offset + pivots[j]);
    }
    assert_true(distance_of(&c, &want) == 0);
    args.is_backward = true;
    run(r, GX_LASWP, dtype, args, &(operands){.c = &c});
    assert_true(distance_of(&c, &a) == 0);
    args.pivot_last = args.pivot_first;
    run(r, GX_LASWP, dtype, args, &(operands){.c = &c});
    assert_true(distance_of(&c, &a) == 0);
    block_free(&a);
    block_free(&c);
    block_free(&want);
}

static void laswp(void **state)
{
    (void)state;
    for (int i = 0; i < RUNNERS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            laswp_shape(&runners[i], (gx_number)d, 1, 1, 0);
            laswp_shape(&runners[i], (gx_number)d, 5, 0, 2);
            laswp_shape(&runners[i], (gx_number)d, 50, 13, 0);
            laswp_shape(&runners[i], (gx_number)d, 65, 3, 20);
            laswp_shape(&runners[i], (gx_number)d, 130, 3000, 100);
        }
    }
}

// Teams -------------------------------------------------------------------------------------------

/* What one call leaves in c. */
static block fixed_result(gx_kernel_id kernel, gx_args args, const block *a, const block *c0,
                          int threads)
{
    runner r = {"fixed", {&gx_backend_cpu, NULL}, threads, true, 0};
    block c = block_copy(c0), t = block_copy(a);
    run(&r, kernel, c0->dtype, args, &(operands){.a = &t, .c = &c});
    block_free(&t);
    return c;
}

static void fixed_call(gx_kernel_id kernel, gx_args args, const block *a, const block *c0)
{
    int64_t pivots[700], first_pivots[700], info;
    memset(pivots, 0, sizeof pivots);
    args.pivots = pivots;
    args.info = &info;
    block first = fixed_result(kernel, args, a, c0, NO_TEAM);
    memcpy(first_pivots, pivots, sizeof pivots);
    for (int threads = 1; threads <= 3; threads++) {
        block c = fixed_result(kernel, args, a, c0, threads);
        if (memcmp(c.raw, first.raw, c.bytes) != 0) {
            fail_msg("%s %s: other bits with %d threads", gx_kernel_name(kernel),
                     gx_number_name(c.dtype), threads);
        }
        assert_memory_equal(pivots, first_pivots, sizeof pivots);
        block_free(&c);
    }
    block_free(&first);
}

static void fixed_cuts_give_the_same_bits(void **state)
{
    (void)state;
    for (int d = 0; d < GX_FLOATS; d++) {
        gx_number dtype = (gx_number)d;
        enum { N = 611 };
        block a = good_triangle(dtype, N, GX_LOWER, GX_NON_UNIT), c = random_block(dtype, N, N);
        block spd = definite_block(dtype, N, -1);
        gx_args args = {.m = N, .n = N, .alpha = {1, 0}};
        fixed_call(GX_TRSM, args, &a, &c);
        fixed_call(GX_TRMM, args, &a, &c);
        fixed_call(GX_POTRF, args, &a, &spd);
        fixed_call(GX_GETRF, args, &a, &c);
        block_free(&a);
        block_free(&c);
        block_free(&spd);
    }
}

typedef struct stopper {
    int calls, fail_at;
} stopper;

static gx_code poll_stop(void *arg, gx_err *err)
{
    stopper *s = arg;
    return ++s->calls == s->fail_at ? gx_fail(err, GX_INTERRUPT, "interrupted") : GX_OK;
}

static void a_failing_poll_stops(void **state)
{
    (void)state;
    static const gx_kernel_id kernels[] = {GX_TRSM, GX_TRMM, GX_POTRF, GX_GETRF};
    for (int k = 0; k < 4; k++) {
        for (int fail_at = 1; fail_at <= 5; fail_at++) {
            enum { N = 800 };
            block a = constant_block(GX_F64, N, N, 1), c = constant_block(GX_F64, N, N, 1);
            stopper s = {.fail_at = fail_at};
            gx_team *team;
            gx_err err = {.code = GX_OK};
            int64_t pivots[N], info = 0;
            assert_int_equal(gx_team_create(2, NULL, poll_stop, &s, &team, &err), GX_OK);
            gx_args args = {.m = N,
                            .n = N,
                            .alpha = {1, 0},
                            .lda = N,
                            .ldc = N,
                            .pivots = pivots,
                            .info = &info};
            assert_int_equal(run_team(&runners[4], team, kernels[k], GX_F64, args,
                                      &(operands){.a = &a, .c = &c}, &err),
                             GX_INTERRUPT);
            assert_string_equal(err.text, "interrupted");
            assert_int_equal(s.calls, fail_at);
            gx_team_free(team);
            block_free(&a);
            block_free(&c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(triangle),
        cmocka_unit_test(trsm),
        cmocka_unit_test(trmm),
        cmocka_unit_test(triangles_at_the_edges),
        cmocka_unit_test(potrf),
        cmocka_unit_test(not_positive_definite),
        cmocka_unit_test(getrf),
        cmocka_unit_test(getrf_at_the_edges),
        cmocka_unit_test(laswp),
        cmocka_unit_test(fixed_cuts_give_the_same_bits),
        cmocka_unit_test(a_failing_poll_stops),
    };
    seed = SEED;
    printf("seed %llu\n", (unsigned long long)SEED);
    open_runners();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
