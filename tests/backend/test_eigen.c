/*
** Spectra: the reference, the CPU backend, and teams of several sizes.
**
** Plan (every runner of factor.h, every dtype, sides 0 .. 65, larger ones for teams):
**   1. gesdd: ||A - U S V^H|| / (max(m, n) ||A|| eps) < 50, U and V^H orthogonal to the same, sigma
**      descending and non-negative; values alone are the same; economy and full; tall and wide;
**      rank 0, rank 1, huge and tiny numbers
*/
#include "factor.h"

static const uint64_t SEED = 20250116;

static const int64_t sides[] = {0, 1, 2, 3, 5, 10, 33, 65};
enum { SIDES = sizeof sides / sizeof *sides };

/* LAPACK's bounds of its tests. */
enum { SVD_BOUND = 50 };

static gx_dtype real_of(gx_dtype dtype)
{
    return gx_dtype_is_double(dtype) ? GX_F64 : GX_F32;
}

static void assert_below(const runner *r, gx_kernel_id kernel, const block *like, const char *what,
                         double residual, double size, double bound)
{
    int64_t side = gx_max(gx_max(like->m, like->n), 1);
    double unit = size * (double)side * eps_of(like->dtype);
    if (!(residual <= bound * unit)) {
        fail_msg("%s: %s %s %dx%d: %s: ratio %g", r->name, gx_kernel_name(kernel),
                 gx_dtype_name(like->dtype), (int)like->m, (int)like->n, what, residual / unit);
    }
}

/* ||X^H X - I|| for columns, ||X X^H - I|| for rows. */
static double not_orthogonal(const block *x, bool is_rows)
{
    int64_t n = is_rows ? x->m : x->n;
    block unit = constant_block(x->dtype, n, n, 1);
    multiply(is_rows ? GX_NO_TRANS : GX_CONJ_TRANS, is_rows ? GX_CONJ_TRANS : GX_NO_TRANS, 1, x, x,
             -1, &unit);
    double result = norm_of(&unit);
    block_free(&unit);
    return result;
}

/* Column j of x times value(j). */
static block scaled_columns(const block *x, const block *values, int64_t count)
{
    block b = sub_block(x, 0, 0, x->m, count);
    for (int64_t j = 0; j < count; j++) {
        gx_scalar s = block_get(values, j, 0);
        for (int64_t i = 0; i < x->m; i++) {
            gx_scalar e = block_get(x, i, j);
            block_set(&b, i, j, (gx_scalar){e.re * s.re - e.im * s.im, e.re * s.im + e.im * s.re});
        }
    }
    return b;
}

/* ---- singular values ------------------------------------------------------------------------ */

static void check_svd(const runner *r, const block *a, const block *values, const block *u,
                      const block *vt)
{
    int64_t least = gx_min(a->m, a->n);
    for (int64_t j = 0; j < least; j++) {
        double s = block_get(values, j, 0).re;
        assert_true(s >= 0 && (j == 0 || s <= block_get(values, j - 1, 0).re));
    }
    block us = scaled_columns(u, values, least), v = sub_block(vt, 0, 0, least, a->n);
    block product = block_copy(a);
    multiply(GX_NO_TRANS, GX_NO_TRANS, 1, &us, &v, -1, &product);
    assert_below(r, GX_GESDD, a, "A - U S V^H", norm_of(&product), norm_of(a), SVD_BOUND);
    assert_below(r, GX_GESDD, a, "U^H U - I", not_orthogonal(u, false), 1, SVD_BOUND);
    assert_below(r, GX_GESDD, a, "V^H V - I", not_orthogonal(vt, true), 1, SVD_BOUND);
    block_free(&us);
    block_free(&v);
    block_free(&product);
}

static void svd_of(const runner *r, const block *a, bool is_full)
{
    int64_t m = a->m, n = a->n, least = gx_min(m, n), info = -7;
    block c = block_copy(a), values = block_make(real_of(a->dtype), least, 1, gx_max(least, 1));
    block u = random_block(a->dtype, m, is_full ? m : least);
    block vt = random_block(a->dtype, is_full ? n : least, n);
    gx_args args = {.m = m, .n = n, .wants_left = true, .wants_right = true, .is_full = is_full};
    args.info = &info;
    run(r, GX_GESDD, a->dtype, args,
        &(operands){.c = &c, .values = &values, .left = &u, .right = &vt});
    assert_int_equal(info, 0);
    check_svd(r, a, &values, &u, &vt);

    block again = block_copy(a), alone = block_copy(&values);
    args = (gx_args){.m = m, .n = n, .info = &info};
    run(r, GX_GESDD, a->dtype, args, &(operands){.c = &again, .values = &alone});
    assert_below(r, GX_GESDD, a, "values alone", distance_of(&alone, &values), norm_of(a),
                 SVD_BOUND);
    block *all[] = {&c, &values, &u, &vt, &again, &alone};
    for (int i = 0; i < 6; i++) {
        block_free(all[i]);
    }
}

static void svd_shapes(void **state)
{
    (void)state;
    for (int i = 0; i < RUNNERS; i++) {
        for (int d = 0; d < GX_DTYPE_COUNT; d++) {
            for (int s = 0; s < SIDES * SIDES; s++) {
                int64_t m = sides[s / SIDES], n = sides[s % SIDES];
                if (takes_shape(i, d, s, m, n)) {
                    block a = random_block((gx_dtype)d, m, n);
                    svd_of(&runners[i], &a, s % 2 == 0);
                    block_free(&a);
                }
            }
        }
    }
}

/* scale x y^H: rank 1 (or 0). */
static void svd_at_the_edges(void **state)
{
    (void)state;
    for (int i = 0; i < RUNNERS; i++) {
        for (int d = 0; d < GX_DTYPE_COUNT; d++) {
            bool is_double = gx_dtype_is_double((gx_dtype)d);
            double scales[] = {0, 1, is_double ? 1e300 : 1e37, is_double ? 1e-290 : 1e-32};
            for (int s = 0; s < 4; s++) {
                block x = random_block((gx_dtype)d, 12, 1), y = random_block((gx_dtype)d, 7, 1);
                block a = constant_block((gx_dtype)d, 12, 7, 0);
                multiply(GX_NO_TRANS, GX_CONJ_TRANS, scales[s], &x, &y, 0, &a);
                svd_of(&runners[i], &a, true);
                svd_of(&runners[i], &a, false);
                block_free(&x);
                block_free(&y);
                block_free(&a);
            }
        }
    }
}

static int prepare(void **state)
{
    (void)state;
    seed = SEED;
    open_runners();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(svd_shapes),
        cmocka_unit_test(svd_at_the_edges),
    };
    return cmocka_run_group_tests(tests, prepare, NULL);
}
