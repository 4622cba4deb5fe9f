/*
** Spectra: the reference, the CPU backend, and teams of several sizes.
**
** Plan (every runner of factor.h, every dtype, sides 0 .. 65, larger ones for teams):
**   1. syev: ||A Z - Z L|| / (n ||A|| eps) < 60, Z orthogonal to the same, values ascending and the
**      same without vectors; both triangles, what must not be read holds NaN; zero, diagonal and
**      repeated values, huge and tiny numbers; n I with one value n-fold
**   2. geev: each column ||A x - value x|| / (n ||A|| eps) < 20, ||x|| = 1; left ones by A^H;
**      values of real matrices in exact pairs; the sum of values is the trace; Jordan blocks,
**      rotations (companion of x^n - 1), the unit matrix, triangles
**   3. gees: ||A - Q T Q^H|| / (n ||A|| eps) < 20, Q unitary, T triangular with the values on its
**      diagonal; of real matrices with a 2 x 2 block for each conjugate pair and for nothing else;
**      its eigenvectors as geev's.  trexc: the same T and Q, after the last value has moved to the
**      front, which is then in front
**   4. fixed cuts: the same bits for any team
**   5. gesdd: ||A - U S V^H|| / (max(m, n) ||A|| eps) < 50, U and V^H orthogonal to the same, sigma
**      descending and non-negative; values alone are the same; economy and full; tall and wide;
**      rank 0, rank 1, huge and tiny numbers
*/
#include "factor.h"

static const uint64_t SEED = 20250116;

static const int64_t sides[] = {0, 1, 2, 3, 5, 10, 33, 65};
enum { SIDES = sizeof sides / sizeof *sides };

/* LAPACK's bounds of its tests. */
enum { SYMMETRIC_BOUND = 60, GENERAL_BOUND = 20, SVD_BOUND = 50 };

static gx_number real_of(gx_number dtype)
{
    return gx_number_is_double(dtype) ? GX_F64 : GX_F32;
}

static void assert_below(const runner *r, gx_kernel_id kernel, const block *like, const char *what,
                         double residual, double size, double bound)
{
    int64_t side = gx_max(gx_max(like->m, like->n), 1);
    double unit = size * (double)side * eps_of(like->dtype);
    if (!(residual <= bound * unit)) {
        fail_msg("%s: %s %s %dx%d: %s: ratio %g", r->name, gx_kernel_name(kernel),
                 gx_number_name(like->dtype), (int)like->m, (int)like->n, what, residual / unit);
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

static gx_number complex_of(gx_number dtype)
{
    return gx_number_is_double(dtype) ? GX_C128 : GX_C64;
}

/* The same numbers in another dtype, conjugate transposed or not. */
static block converted(const block *x, gx_number dtype, bool is_adjoint)
{
    block b = block_make(dtype, is_adjoint ? x->n : x->m, is_adjoint ? x->m : x->n,
                         gx_max(is_adjoint ? x->n : x->m, 1));
    for (int64_t j = 0; j < x->n; j++) {
        for (int64_t i = 0; i < x->m; i++) {
            gx_scalar e = block_get(x, i, j);
            if (is_adjoint) {
                block_set(&b, j, i, (gx_scalar){e.re, -e.im});
            } else {
                block_set(&b, i, j, e);
            }
        }
    }
    return b;
}

// Hermitian ---------------------------------------------------------------------------------------

static void check_syev(const runner *r, const block *a, const block *values, const block *z)
{
    for (int64_t j = 1; j < a->n; j++) {
        assert_true(block_get(values, j - 1, 0).re <= block_get(values, j, 0).re);
    }
    block zl = scaled_columns(z, values, a->n);
    multiply(GX_NO_TRANS, GX_NO_TRANS, 1, a, z, -1, &zl);
    assert_below(r, GX_SYEV, a, "A Z - Z L", norm_of(&zl), norm_of(a), SYMMETRIC_BOUND);
    assert_below(r, GX_SYEV, a, "Z^H Z - I", not_orthogonal(z, false), 1, SYMMETRIC_BOUND);
    block_free(&zl);
}

/* a: the whole Hermitian matrix. */
static void syev_of(const runner *r, const block *a, gx_uplo uplo)
{
    int64_t n = a->n, info = -7;
    block c = block_copy(a), values = block_make(real_of(a->dtype), n, 1, gx_max(n, 1));
    spoil_outside(&c, uplo, GX_NON_UNIT);
    block again = block_copy(&c), alone = block_copy(&values);
    gx_args args = {.m = n, .n = n, .uplo = uplo, .wants_right = true, .info = &info};
    run(r, GX_SYEV, a->dtype, args, &(operands){.c = &c, .values = &values});
    assert_int_equal(info, 0);
    check_syev(r, a, &values, &c);
    args.wants_right = false;
    run(r, GX_SYEV, a->dtype, args, &(operands){.c = &again, .values = &alone});
    assert_below(r, GX_SYEV, a, "values alone", distance_of(&alone, &values), norm_of(a),
                 SYMMETRIC_BOUND);
    block *all[] = {&c, &values, &again, &alone};
    for (int i = 0; i < 4; i++) {
        block_free(all[i]);
    }
}

static block hermitian_block(gx_number dtype, int64_t n)
{
    block a = random_block(dtype, n, n);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i <= j; i++) {
            gx_scalar x = block_get(&a, i, j);
            x.im = i == j ? 0 : x.im;
            block_set(&a, i, j, x);
            block_set(&a, j, i, (gx_scalar){x.re, -x.im});
        }
    }
    return a;
}

static void syev_shapes(void **state)
{
    (void)state;
    for (int i = 0; i < RUNNERS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            for (int s = 0; s < SIDES; s++) {
                block a = hermitian_block((gx_number)d, sides[s]);
                syev_of(&runners[i], &a, (gx_uplo)(s % 2));
                block_free(&a);
            }
        }
    }
}

static void syev_at_the_edges(void **state)
{
    (void)state;
    for (int i = 0; i < RUNNERS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            bool is_double = gx_number_is_double((gx_number)d);
            double scales[] = {0, 1, is_double ? 1e200 : 1e25, is_double ? 1e-200 : 1e-25};
            for (int s = 0; s < 4; s++) {
                block a = constant_block((gx_number)d, 20, 20, scales[s]);
                syev_of(&runners[i], &a, GX_UPPER);
                for (int64_t j = 0; j < 20; j++) { // one value 18-fold, off the diagonal
                    block_set(&a, j, 19 - j, (gx_scalar){j < 2 || j > 17 ? scales[s] : 0, 0});
                }
                syev_of(&runners[i], &a, GX_LOWER);
                block_free(&a);
            }
        }
    }
}

// General -----------------------------------------------------------------------------------------

/* Columns of x: ||A x - value x|| each, and their length. */
static void check_columns(const runner *r, const block *a, const block *values, const block *x,
                          const char *what)
{
    block product = scaled_columns(x, values, a->n);
    multiply(GX_NO_TRANS, GX_NO_TRANS, 1, a, x, -1, &product);
    for (int64_t j = 0; j < a->n; j++) {
        block column = sub_block(&product, 0, j, a->n, 1), alone = sub_block(x, 0, j, a->n, 1);
        assert_below(r, GX_GEEV, a, what, norm_of(&column), norm_of(a), GENERAL_BOUND);
        assert_below(r, GX_GEEV, a, "length", fabs(norm_of(&alone) - 1), 1, GENERAL_BOUND);
        block_free(&column);
        block_free(&alone);
    }
    block_free(&product);
}

static void check_values(const runner *r, const block *a, const block *values, bool is_real)
{
    gx_scalar sum = {0, 0};
    for (int64_t j = 0; j < a->n; j++) {
        gx_scalar x = block_get(values, j, 0), d = block_get(a, j, j);
        sum.re += x.re - d.re;
        sum.im += x.im - d.im;
        if (is_real && x.im > 0) {
            gx_scalar y = block_get(values, j + 1, 0);
            assert_true(x.re == y.re && x.im == -y.im);
        }
    }
    assert_below(r, GX_GEEV, a, "trace", hypot(sum.re, sum.im), norm_of(a), 4 * GENERAL_BOUND);
}

static void geev_of(const runner *r, const block *a, bool is_real)
{
    int64_t n = a->n, info = -7;
    gx_number wide = complex_of(a->dtype);
    block c = block_copy(a), values = block_make(wide, n, 1, gx_max(n, 1));
    block right = random_block(wide, n, n), left = random_block(wide, n, n);
    bool has_left = r->d.backend->alloc == NULL; // the host's alone
    gx_args args = {.m = n, .n = n, .wants_right = true, .wants_left = has_left, .info = &info};
    run(r, GX_GEEV, a->dtype, args,
        &(operands){.c = &c, .values = &values, .left = &left, .right = &right});
    assert_int_equal(info, 0);
    block full = converted(a, wide, false), adjoint = converted(a, wide, true);
    check_values(r, &full, &values, is_real);
    check_columns(r, &full, &values, &right, "A x - value x");
    block conjugates = converted(&values, wide, false);
    for (int64_t j = 0; j < n; j++) {
        gx_scalar x = block_get(&values, j, 0);
        block_set(&conjugates, j, 0, (gx_scalar){x.re, -x.im});
    }
    if (has_left) {
        check_columns(r, &adjoint, &conjugates, &left, "A^H y - value^* y");
    }

    block again = block_copy(a);
    args.wants_right = args.wants_left = false;
    run(r, GX_GEEV, a->dtype, args, &(operands){.c = &again, .values = &values});
    check_values(r, &full, &values, is_real);
    block *all[] = {&c, &values, &right, &left, &full, &adjoint, &conjugates, &again};
    for (int i = 0; i < 8; i++) {
        block_free(all[i]);
    }
}

/* Values down the diagonal of T; of a 2 x 2 block by its trace and determinant. */
static void check_diagonal(const runner *r, const block *a, const block *t, const block *values)
{
    for (int64_t j = 0; j < a->n; j++) {
        gx_scalar x = block_get(values, j, 0), d = block_get(t, j, j);
        double below = j + 1 < a->n ? block_get(t, j + 1, j).re : 0;
        if (gx_number_is_complex(a->dtype) || below == 0) {
            double off = hypot(x.re - d.re, x.im - d.im);
            assert_below(r, GX_GEES, a, "value", off, norm_of(t), GENERAL_BOUND);
            continue;
        }
        gx_scalar y = block_get(values, j + 1, 0), e = block_get(t, j + 1, j + 1);
        assert_true(x.im > 0 && x.re == y.re && x.im == -y.im);
        double off =
            x.im - sqrt(-below * block_get(t, j, j + 1).re - (d.re - e.re) * (d.re - e.re) / 4);
        assert_below(r, GX_GEES, a, "pair", fabs(off), norm_of(t), GENERAL_BOUND);
        assert_below(r, GX_GEES, a, "sum", fabs(x.re + y.re - d.re - e.re), norm_of(t),
                     GENERAL_BOUND);
        j++;
    }
}

/* T without its blocks' elements below the diagonal, none of which follows another. */
static block without_blocks(const block *t)
{
    block b = block_copy(t);
    for (int64_t j = 0; j + 1 < t->n && !gx_number_is_complex(t->dtype); j++) {
        bool is_next = j > 0 && block_get(t, j, j - 1).re != 0;
        assert_false(is_next && block_get(t, j + 1, j).re != 0);
        block_set(&b, j + 1, j, (gx_scalar){0, 0});
    }
    return b;
}

/* A = Q T Q^H, T triangular but for blocks. */
static void check_schur(const runner *r, gx_kernel_id kernel, const block *a, const block *t,
                        const block *q)
{
    int64_t n = a->n;
    block single = without_blocks(t), upper = triangle_of(t, GX_UPPER, GX_NON_UNIT, n, n);
    block qt = block_copy(a), product = block_copy(a);
    assert_true(distance_of(&upper, &single) == 0);
    multiply(GX_NO_TRANS, GX_NO_TRANS, 1, q, t, 0, &qt);
    multiply(GX_NO_TRANS, GX_CONJ_TRANS, 1, &qt, q, -1, &product);
    assert_below(r, kernel, a, "A - Q T Q^H", norm_of(&product), norm_of(a), GENERAL_BOUND);
    assert_below(r, kernel, a, "Q^H Q - I", not_orthogonal(q, false), 1, GENERAL_BOUND);
    block *all[] = {&upper, &qt, &product, &single};
    for (int i = 0; i < 4; i++) {
        block_free(all[i]);
    }
}

/* The last value to the front: A is random, so that its values can be parted. */
static void trexc_of(const runner *r, const block *a, block *t, block *q, const block *values)
{
    int64_t n = a->n, info = -7, at = -7;
    bool is_pair = !gx_number_is_complex(a->dtype) && n > 1 && block_get(t, n - 1, n - 2).re != 0;
    gx_args args = {.n = n, .pivots = &at, .info = &info};
    args.pivot_first = n - (is_pair ? 2 : 1);
    run(r, GX_TREXC, a->dtype, args, &(operands){.c = t, .right = q});
    assert_int_equal(info, 0);
    assert_int_equal(at, 0);
    check_schur(r, GX_TREXC, a, t, q);
    gx_scalar moved = block_get(values, n - 1, 0), first = block_get(t, 0, 0);
    assert_true(!is_pair || block_get(t, 1, 0).re != 0);
    double off = is_pair ? (first.re + block_get(t, 1, 1).re) / 2 - moved.re
                         : hypot(first.re - moved.re, first.im - moved.im);
    assert_below(r, GX_TREXC, a, "value", fabs(off), norm_of(a), GENERAL_BOUND);
}

static void gees_of(const runner *r, const block *a)
{
    int64_t n = a->n, info = -7;
    gx_number wide = complex_of(a->dtype);
    block t = block_copy(a), values = block_make(wide, n, 1, gx_max(n, 1));
    block q = random_block(a->dtype, n, n), left = random_block(wide, n, n);
    bool has_left = offers(r, GX_TREXC, (int)a->dtype); // the oracle has neither
    gx_args args = {.m = n, .n = n, .wants_right = true, .wants_left = has_left, .info = &info};
    run(r, GX_GEES, a->dtype, args,
        &(operands){.c = &t, .values = &values, .left = &left, .right = &q});
    assert_int_equal(info, 0);
    check_diagonal(r, a, &t, &values);
    check_schur(r, GX_GEES, a, &t, &q);
    block full = converted(a, wide, false);
    if (has_left) {
        check_columns(r, &full, &values, &left, "A x - value x");
    }
    if (has_left && n > 0) {
        trexc_of(r, a, &t, &q, &values);
    }
    block *all[] = {&t, &values, &q, &left, &full};
    for (int i = 0; i < 5; i++) {
        block_free(all[i]);
    }
}

/* Both, for any matrix. */
static void general_of(const runner *r, const block *a)
{
    geev_of(r, a, !gx_number_is_complex(a->dtype));
    if (offers(r, GX_GEES, (int)a->dtype)) {
        gees_of(r, a);
    }
}

static void general_shapes(void **state)
{
    (void)state;
    for (int i = 0; i < RUNNERS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            for (int s = 0; s < SIDES && offers(&runners[i], GX_GEEV, d); s++) {
                block a = random_block((gx_number)d, sides[s], sides[s]);
                general_of(&runners[i], &a);
                block_free(&a);
            }
        }
    }
}

/* A matrix of a kind; n x n. */
static block special_block(gx_number dtype, int kind, int64_t n)
{
    block a = constant_block(dtype, n, n, kind == 0 ? 0 : kind == 1 ? 3 : kind == 2 ? 0.5 : 0);
    for (int64_t i = 0; i + 1 < n; i++) {
        if (kind == 2) { // a Jordan block
            block_set(&a, i, i + 1, (gx_scalar){1, 0});
        } else if (kind == 3) { // x^n - 1
            block_set(&a, i + 1, i, (gx_scalar){1, 0});
        }
    }
    if (kind == 3) {
        block_set(&a, 0, n - 1, (gx_scalar){1, 0});
    }
    for (int64_t j = 0; kind >= 4 && j < n; j++) { // frank; minus it, transposed and huge
        for (int64_t i = 0; i <= gx_min(j + 1, n - 1); i++) {
            double x = (double)(n - gx_max(i, j));
            double huge = gx_number_is_double(dtype) ? -1e150 : -1e20;
            block_set(&a, kind == 4 ? i : j, kind == 4 ? j : i,
                      (gx_scalar){kind == 4 ? x : huge * x, 0});
        }
    }
    return a;
}

static void general_at_the_edges(void **state)
{
    (void)state;
    for (int i = 0; i < RUNNERS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            for (int kind = 0; kind < 6 && offers(&runners[i], GX_GEEV, d); kind++) {
                block a = special_block((gx_number)d, kind, 12);
                general_of(&runners[i], &a);
                block_free(&a);
            }
        }
    }
}

/* The unit matrix has independent eigenvectors. */
static void vectors_of_a_multiple_value(void **state)
{
    (void)state;
    for (int i = 0; i < RUNNERS && offers(&runners[i], GX_GEEV, GX_F64); i++) {
        int64_t n = 6, info;
        block c = constant_block(GX_F64, n, n, 2), values = block_make(GX_C128, n, 1, n);
        block right = random_block(GX_C128, n, n), s = block_make(GX_F64, n, 1, n);
        gx_args args = {.m = n, .n = n, .wants_right = true, .info = &info};
        run(&runners[i], GX_GEEV, GX_F64, args,
            &(operands){.c = &c, .values = &values, .right = &right});
        args = (gx_args){.m = n, .n = n, .info = &info};
        run(&runners[i], GX_GESDD, GX_C128, args, &(operands){.c = &right, .values = &s});
        assert_true(block_get(&s, n - 1, 0).re > 1e-3);
        block *all[] = {&c, &values, &right, &s};
        for (int k = 0; k < 4; k++) {
            block_free(all[k]);
        }
    }
}

/* The same bits with every team. */
static void fixed_cuts(void **state)
{
    (void)state;
    block first = {0};
    for (int threads = 0; threads < 4; threads++) {
        runner r = {"fixed", {&gx_backend_cpu, NULL}, threads, true, 1000};
        gx_err err = {.code = GX_OK};
        assert_int_equal(gx_backend_cpu.open(0, &r.d.dev, &err), GX_OK);
        seed = SEED;
        int64_t n = 150, info;
        block a = hermitian_block(GX_F64, n), values = block_make(GX_F64, n, 1, n);
        gx_args args = {.m = n, .n = n, .wants_right = true, .info = &info};
        run(&r, GX_SYEV, GX_F64, args, &(operands){.c = &a, .values = &values});
        if (threads == 0) {
            first = block_copy(&a);
        }
        assert_memory_equal(first.raw, a.raw, a.bytes);
        block_free(&a);
        block_free(&values);
    }
    block_free(&first);
}

// Singular values ---------------------------------------------------------------------------------

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
        for (int d = 0; d < GX_FLOATS; d++) {
            for (int s = 0; s < SIDES * SIDES; s++) {
                int64_t m = sides[s / SIDES], n = sides[s % SIDES];
                if (takes_shape(i, d, s, m, n)) {
                    block a = random_block((gx_number)d, m, n);
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
        for (int d = 0; d < GX_FLOATS; d++) {
            bool is_double = gx_number_is_double((gx_number)d);
            double scales[] = {0, 1, is_double ? 1e300 : 1e37, is_double ? 1e-290 : 1e-32};
            for (int s = 0; s < 4; s++) {
                block x = random_block((gx_number)d, 12, 1), y = random_block((gx_number)d, 7, 1);
                block a = constant_block((gx_number)d, 12, 7, 0);
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
        cmocka_unit_test(syev_shapes),
        cmocka_unit_test(syev_at_the_edges),
        cmocka_unit_test(general_shapes),
        cmocka_unit_test(general_at_the_edges),
        cmocka_unit_test(vectors_of_a_multiple_value),
        cmocka_unit_test(fixed_cuts),
        cmocka_unit_test(svd_shapes),
        cmocka_unit_test(svd_at_the_edges),
    };
    return cmocka_run_group_tests(tests, prepare, NULL);
}
