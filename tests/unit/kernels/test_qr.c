/*
** Reflectors: the reference, the CPU backend, and teams of several sizes.
**
** Plan (every runner of factor.h, every dtype, sides 0 .. 130, larger ones for teams):
**   1. geqrf, orgqr: ||A - Q R|| / (m ||A|| eps) < 30, ||I - Q^H Q|| / (m eps) < 30; R's diagonal
**      real; the square Q of fewer reflectors
**   2. ormqr against Q itself, larft and larfb against ormqr: both sides, both transposes
**   3. tpqrt: [R; B] = Q [R'; 0] by tpmqrt; the triangle below R untouched to the bit; tpmqrt and
**      its inverse, both sides; larft of a pentagon against the reference
**   4. known answers: a column that needs no reflector, one that does, by hand
**   5. huge and tiny numbers; NaN and Inf end
**   6. complex reflectors have no plain transpose: refused in words
**   7. fixed cuts: the same bits with no team and 1, 2, 3 threads
**   8. memory: no more than gx_team_call_bytes(); a budget that is too small is an error and leaves
**      nothing; a failing poll stops them
*/
#include "factor.h"

static const uint64_t SEED = 20240702;

static const int64_t shapes[][2] = {
    {0, 0},     {0, 3},     {3, 0},      {1, 1},     {2, 1},     {1, 2},    {2, 2},
    {3, 3},     {5, 2},     {2, 5},      {10, 10},   {50, 3},    {3, 50},   {50, 50},
    {65, 33},   {33, 65},   {65, 65},    {130, 70},  {130, 130}, {70, 130}, {200, 32},
    {400, 250}, {250, 400}, {1000, 200}, {600, 600},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

// QR ----------------------------------------------------------------------------------------------

/* V\R and tau of a. */
static void factor(const runner *r, const block *a, block *v, block *tau)
{
    *v = block_copy(a);
    *tau = random_block(a->dtype, gx_min(a->m, a->n), 1);
    run(r, GX_GEQRF, a->dtype, (gx_args){.m = a->m, .n = a->n}, &(operands){.c = v, .tau = tau});
}

/* The first n columns of Q. */
static block generate(const runner *r, const block *v, block *tau, int64_t n)
{
    block q = constant_block(v->dtype, v->m, n, NAN);
    for (int64_t j = 0; j < tau->m; j++) {
        for (int64_t i = j + 1; i < v->m; i++) { // what is above stays NaN: it must not be read
            block_set(&q, i, j, block_get(v, i, j));
        }
    }
    gx_args args = {.m = v->m, .n = n, .k = tau->m};
    run(r, GX_ORGQR, v->dtype, args, &(operands){.c = &q, .tau = tau});
    return q;
}

static void assert_orthogonal(const runner *r, gx_kernel_id kernel, const block *q)
{
    block one = constant_block(q->dtype, q->n, q->n, 1);
    multiply(GX_CONJ_TRANS, GX_NO_TRANS, -1, q, q, 1, &one);
    assert_ratio(r, kernel, q->dtype, q->m, q->n, "||I - Q^H Q||", norm_of(&one), 1, q->m);
    block_free(&one);
}

static void qr_of(const runner *r, const block *a)
{
    int64_t m = a->m, n = a->n, count = gx_min(m, n);
    block v, tau;
    factor(r, a, &v, &tau);
    block q = generate(r, &v, &tau, count);
    block upper = triangle_of(&v, GX_UPPER, GX_NON_UNIT, count, n), residual = block_copy(a);
    multiply(GX_NO_TRANS, GX_NO_TRANS, -1, &q, &upper, 1, &residual);
    assert_ratio(r, GX_GEQRF, a->dtype, m, n, "||A - QR||", norm_of(&residual), norm_of(a), m);
    assert_orthogonal(r, GX_ORGQR, &q);
    for (int64_t i = 0; i < count; i++) {
        assert_true(block_get(&v, i, i).im == 0);
    }
    block *all[] = {&v, &tau, &q, &upper, &residual};
    for (int i = 0; i < 5; i++) {
        block_free(all[i]);
    }
}

static void geqrf_and_orgqr(void **state)
{
    (void)state;
    for (int i = 0; i < RUNNERS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            for (int s = 0; s < SHAPES; s++) {
                if (takes_shape(i, d, s, shapes[s][0], shapes[s][1])) {
                    block a = random_block((gx_number)d, shapes[s][0], shapes[s][1]);
                    qr_of(&runners[i], &a);
                    block_free(&a);
                }
            }
        }
    }
}

// Applying Q --------------------------------------------------------------------------------------

/* op(Q) c or c op(Q) by ormqr, by larft and larfb, and by the whole Q. */
static void apply_all_ways(const runner *r, const block *v, block *tau, const block *q,
                           gx_side side, gx_trans trans, int64_t lines)
{
    gx_number dtype = v->dtype;
    bool is_left = side == GX_LEFT;
    int64_t k = tau->m, m = is_left ? v->m : lines, n = is_left ? lines : v->m;
    block c = random_block(dtype, m, n), want = random_block(dtype, m, n);
    block by_tau = block_copy(&c), by_t = block_copy(&c), t = random_block(dtype, k, k);
    block reflectors = sub_block(v, 0, 0, v->m, k);
    spoil_outside(&reflectors, GX_LOWER, GX_UNIT);
    multiply(is_left ? trans : GX_NO_TRANS, is_left ? GX_NO_TRANS : trans, 1, is_left ? q : &c,
             is_left ? &c : q, 0, &want);

    gx_args args = {.side = side, .transa = trans, .m = m, .n = n, .k = k};
    run(r, GX_ORMQR, dtype, args, &(operands){.a = &reflectors, .c = &by_tau, .tau = tau});
    assert_ratio(r, GX_ORMQR, dtype, m, n, "against Q", distance_of(&by_tau, &want), norm_of(&c),
                 v->m);
    gx_args make = {.m = v->m, .n = k, .k = k};
    run(r, GX_LARFT, dtype, make, &(operands){.a = &reflectors, .c = &t, .tau = tau});
    for (int64_t j = 0; j < k; j++) {
        for (int64_t i = j + 1; i < k; i++) {
            assert_true(block_get(&t, i, j).re == 0 && block_get(&t, i, j).im == 0);
        }
    }
    spoil_outside(&t, GX_UPPER, GX_NON_UNIT);
    run(r, GX_LARFB, dtype, args, &(operands){.a = &reflectors, .b = &t, .c = &by_t});
    assert_ratio(r, GX_LARFB, dtype, m, n, "against Q", distance_of(&by_t, &want), norm_of(&c),
                 v->m);
    block *all[] = {&c, &want, &by_tau, &by_t, &t, &reflectors};
    for (int i = 0; i < 6; i++) {
        block_free(all[i]);
    }
}

static void ormqr_larft_larfb(void **state)
{
    (void)state;
    static const int64_t many[] = {0, 1, 7, 40};
    for (int i = 0; i < RUNNERS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            for (int s = 0; s < SHAPES; s++) {
                int64_t m = shapes[s][0], k = shapes[s][1];
                if (k > m || m > 600 || !takes_shape(i, d, s, m, k)) {
                    continue;
                }
                block a = random_block((gx_number)d, m, k), v, tau;
                factor(&runners[i], &a, &v, &tau);
                block q = generate(&runners[i], &v, &tau, m); // all of it, of k reflectors
                assert_orthogonal(&runners[i], GX_ORGQR, &q);
                for (int bits = 0; bits < 4; bits++) {
                    int64_t lines = m > 200 ? 300 : many[(s + bits) % 4];
                    gx_trans back = (s + d) % 2 == 0 && !gx_number_is_complex((gx_number)d)
                                        ? GX_TRANS
                                        : GX_CONJ_TRANS;
                    apply_all_ways(&runners[i], &v, &tau, &q, (gx_side)(bits & 1),
                                   bits >> 1 ? back : GX_NO_TRANS, lines);
                }
                block *all[] = {&a, &v, &tau, &q};
                for (int b = 0; b < 4; b++) {
                    block_free(all[b]);
                }
            }
        }
    }
}

// Stacks ------------------------------------------------------------------------------------------

/* Norm of two blocks beside each other. */
static double norm_of_two(const block *x, const block *y)
{
    return hypot(norm_of(x), norm_of(y));
}

/* There and back through Q, beside random blocks. */
static void stack_round_trip(const runner *r, block *v2, block *tau, gx_side side, int64_t lines)
{
    gx_number dtype = v2->dtype;
    int64_t k = tau->m, rows = v2->m;
    bool is_left = side == GX_LEFT;
    block c = is_left ? random_block(dtype, k, lines) : random_block(dtype, lines, k);
    block c2 = is_left ? random_block(dtype, rows, lines) : random_block(dtype, lines, rows);
    block x = block_copy(&c), x2 = block_copy(&c2);
    operands o = {.a = v2, .c = &x, .c2 = &x2, .tau = tau};
    gx_args args = {.side = side, .m = c2.m, .n = c2.n, .k = k};
    double size = norm_of_two(&c, &c2);
    for (int first = 0; first < 2; first++) {
        args.transa = first == 0 ? GX_NO_TRANS : GX_CONJ_TRANS;
        run(r, GX_TPMQRT, dtype, args, &o);
        assert_ratio(r, GX_TPMQRT, dtype, c2.m, c2.n, "the norm stays",
                     fabs(norm_of_two(&x, &x2) - size), size, k + rows);
        if (k > 0 && rows > 0 && lines > 0) { // and it did something
            assert_true(distance_of(&c, &x) + distance_of(&c2, &x2) > 1e-3 * size);
        }
        args.transa = first == 0 ? GX_CONJ_TRANS : GX_NO_TRANS;
        run(r, GX_TPMQRT, dtype, args, &o);
        double gap = hypot(distance_of(&c, &x), distance_of(&c2, &x2));
        assert_ratio(r, GX_TPMQRT, dtype, c2.m, c2.n, "there and back", gap, size, k + rows);
    }
    block *all[] = {&c, &c2, &x, &x2};
    for (int i = 0; i < 4; i++) {
        block_free(all[i]);
    }
}

static void stack_shape(const runner *r, gx_number dtype, int64_t m, int64_t n)
{
    block c = random_block(dtype, n, n), c2 = random_block(dtype, m, n);
    block top = triangle_of(&c, GX_UPPER, GX_NON_UNIT, n, n), b = block_copy(&c2);
    spoil_outside(&c, GX_UPPER, GX_NON_UNIT);
    block tau = random_block(dtype, n, 1);
    double size = norm_of_two(&top, &b);
    run(r, GX_TPQRT, dtype, (gx_args){.m = m, .n = n},
        &(operands){.c = &c, .c2 = &c2, .tau = &tau});
    for (int64_t j = 0; j < n; j++) { // still the NaN that was there
        assert_true(j + 1 == n || isnan(block_get(&c, n - 1, j).re));
        assert_true(block_get(&c, j, j).im == 0 || m == 0);
    }

    // Q [R'; 0] is what we began with.
    block x = triangle_of(&c, GX_UPPER, GX_NON_UNIT, n, n), x2 = constant_block(dtype, m, n, 0);
    run(r, GX_TPMQRT, dtype, (gx_args){.m = m, .n = n, .k = n},
        &(operands){.a = &c2, .c = &x, .c2 = &x2, .tau = &tau});
    double gap = hypot(distance_of(&x, &top), distance_of(&x2, &b));
    assert_ratio(r, GX_TPQRT, dtype, m, n, "||[R; B] - Q [R'; 0]||", gap, size, m + n);
    stack_round_trip(r, &c2, &tau, GX_LEFT, n > 100 ? 300 : 9);
    stack_round_trip(r, &c2, &tau, GX_RIGHT, n > 100 ? 300 : 9);

    // T of the pentagon, against the reference's.
    block t = random_block(dtype, n, n), want = random_block(dtype, n, n);
    gx_args args = {.m = m, .n = n, .k = n, .is_pentagon = true};
    if (n <= 130) {
        run(r, GX_LARFT, dtype, args, &(operands){.a = &c2, .c = &t, .tau = &tau});
        run(&runners[0], GX_LARFT, dtype, args, &(operands){.a = &c2, .c = &want, .tau = &tau});
        assert_ratio(r, GX_LARFT, dtype, m, n, "pentagon", distance_of(&t, &want),
                     1 + norm_of(&want), m + n);
    }
    block *all[] = {&c, &c2, &top, &b, &tau, &x, &x2, &t, &want};
    for (int i = 0; i < 9; i++) {
        block_free(all[i]);
    }
}

static void stacks(void **state)
{
    (void)state;
    for (int i = 0; i < RUNNERS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            for (int s = 0; s < SHAPES; s++) {
                if (takes_shape(i, d, s, shapes[s][0], shapes[s][1])) {
                    stack_shape(&runners[i], (gx_number)d, shapes[s][0], shapes[s][1]);
                }
            }
        }
    }
}

// Known answers and edges -------------------------------------------------------------------------

static bool is_close(gx_scalar x, double re, double im)
{
    return fabs(x.re - re) < 1e-6 && fabs(x.im - im) < 1e-6;
}

static void known_answers(void **state)
{
    (void)state;
    for (int i = 0; i < RUNNERS; i++) {
        // (3, 4): beta = -5, tau = (-5 - 3) / -5, v = 4 / (3 + 5).
        block a = constant_block(GX_F32, 2, 1, 3), v, tau;
        block_set(&a, 1, 0, (gx_scalar){4, 0});
        factor(&runners[i], &a, &v, &tau);
        assert_true(is_close(block_get(&v, 0, 0), -5, 0));
        assert_true(is_close(block_get(&v, 1, 0), 0.5, 0));
        assert_true(is_close(block_get(&tau, 0, 0), 1.6, 0));
        block_free(&a);
        block_free(&v);
        block_free(&tau);

        // (2, 0) needs none; (3i) becomes -3 or 3 with tau = 1 -+ i.
        a = constant_block(GX_C128, 2, 1, 2);
        factor(&runners[i], &a, &v, &tau);
        assert_true(is_close(block_get(&v, 0, 0), 2, 0));
        assert_true(is_close(block_get(&tau, 0, 0), 0, 0));
        block_free(&a);
        block_free(&v);
        block_free(&tau);
        a = constant_block(GX_C128, 1, 1, 1);
        block_set(&a, 0, 0, (gx_scalar){0, 3});
        factor(&runners[i], &a, &v, &tau);
        assert_true(is_close(block_get(&v, 0, 0), -3, 0));
        assert_true(is_close(block_get(&tau, 0, 0), 1, 1));
        block_free(&a);
        block_free(&v);
        block_free(&tau);
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

static void geqrf_at_the_edges(void **state)
{
    (void)state;
    for (int i = 0; i < RUNNERS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            for (int64_t n = 3; n <= gx_min(runners[i].largest, 200); n = n * 8 - 4) {
                double scale = gx_number_is_double((gx_number)d) ? 1e290 : 1e33;
                block a = random_block((gx_number)d, n + 5, n), v, tau;
                scale_block(&a, scale);
                qr_of(&runners[i], &a);
                scale_block(&a, 1 / scale);
                scale_block(&a, 1 / scale);
                qr_of(&runners[i], &a);
                scale_block(&a, 0);
                qr_of(&runners[i], &a); // R = 0, Q = I
                static const double bad[] = {NAN, INFINITY};
                for (int b = 0; b < 2; b++) {
                    block_set(&a, n / 2, n / 3, (gx_scalar){bad[b], 0});
                    factor(&runners[i], &a, &v, &tau);
                    assert_false(isfinite(norm_of(&v)));
                    block_free(&v);
                    block_free(&tau);
                }
                block_free(&a);
            }
        }
    }
}

static void refusals(void **state)
{
    (void)state;
    static const gx_kernel_id kernels[] = {GX_LARFB, GX_ORMQR, GX_TPMQRT};
    for (int i = 0; i < RUNNERS; i++) {
        for (int k = 0; k < 3; k++) {
            block a = constant_block(GX_C64, 2, 2, 1);
            gx_args args = {.transa = GX_TRANS, .m = 2, .n = 2, .k = 2};
            gx_err err = {.code = GX_OK};
            char want[100];
            snprintf(want, sizeof want, "%s has no plain transpose of complex reflectors",
                     gx_kernel_name(kernels[k]));
            assert_int_equal(run_code(&runners[i], kernels[k], GX_C64, args,
                                      &(operands){.a = &a, .b = &a, .c = &a, .c2 = &a, .tau = &a},
                                      &err),
                             GX_UNSUPPORTED);
            assert_string_equal(err.text, want);
            block_free(&a);
        }
    }
}

// Teams -------------------------------------------------------------------------------------------

/* One call of every kernel on blocks of a factored matrix; results in c, c2, tau. */
static const struct {
    gx_kernel_id kernel;
    gx_side side;
    bool is_pentagon;
} calls[] = {{GX_GEQRF, GX_LEFT, false},  {GX_ORGQR, GX_LEFT, false},  {GX_LARFT, GX_LEFT, false},
             {GX_LARFT, GX_LEFT, true},   {GX_LARFB, GX_LEFT, false},  {GX_LARFB, GX_RIGHT, false},
             {GX_ORMQR, GX_LEFT, false},  {GX_ORMQR, GX_RIGHT, false}, {GX_TPQRT, GX_LEFT, false},
             {GX_TPMQRT, GX_LEFT, false}, {GX_TPMQRT, GX_RIGHT, false}};
enum { CALLS = sizeof calls / sizeof *calls, N = 421 };

typedef struct set {
    block v, tau, t, c, c2; /* N x N; tau N x 1 */
} set;

static set set_of(gx_number dtype)
{
    set s;
    block a = random_block(dtype, N, N);
    factor(&runners[1], &a, &s.v, &s.tau);
    s.t = random_block(dtype, N, N);
    s.c = block_copy(&s.v);
    s.c2 = random_block(dtype, N, N);
    block_free(&a);
    return s;
}

static set set_copy(const set *s)
{
    return (set){block_copy(&s->v), block_copy(&s->tau), block_copy(&s->t), block_copy(&s->c),
                 block_copy(&s->c2)};
}

static void set_free(set *s)
{
    block *all[] = {&s->v, &s->tau, &s->t, &s->c, &s->c2};
    for (int i = 0; i < 5; i++) {
        block_free(all[i]);
    }
}

static gx_args args_of(int call)
{
    return (gx_args){.m = N,
                     .n = N,
                     .k = N,
                     .lda = N,
                     .ldb = N,
                     .ldc = N,
                     .ldc2 = N,
                     .side = calls[call].side,
                     .is_pentagon = calls[call].is_pentagon};
}

static operands operands_of(set *s)
{
    return (operands){.a = &s->v, .b = &s->t, .c = &s->c, .c2 = &s->c2, .tau = &s->tau};
}

static void fixed_cuts_give_the_same_bits(void **state)
{
    (void)state;
    for (int d = 0; d < GX_FLOATS; d++) {
        set start = set_of((gx_number)d);
        for (int call = 0; call < CALLS; call++) {
            set first = set_copy(&start);
            for (int threads = NO_TEAM; threads <= 3; threads++) {
                runner r = {"fixed", {&gx_backend_cpu, NULL}, threads, true, 0};
                set now = set_copy(&start);
                operands o = operands_of(threads == NO_TEAM ? &first : &now);
                run(&r, calls[call].kernel, (gx_number)d, args_of(call), &o);
                if (threads != NO_TEAM &&
                    (memcmp(now.c.raw, first.c.raw, now.c.bytes) != 0 ||
                     memcmp(now.c2.raw, first.c2.raw, now.c2.bytes) != 0 ||
                     memcmp(now.tau.raw, first.tau.raw, now.tau.bytes) != 0)) {
                    fail_msg("%s %s: other bits with %d threads",
                             gx_kernel_name(calls[call].kernel), gx_number_name((gx_number)d),
                             threads);
                }
                set_free(&now);
            }
            set_free(&first);
        }
        set_free(&start);
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

/* Within its own bound; in half of it, or without any, a budget error. */
static void memory_is_bounded(void **state)
{
    (void)state;
    gx_number dtype = GX_F64;
    set s = set_of(dtype);
    for (int call = 0; call < CALLS; call++) {
        gx_args args = args_of(call);
        operands o = operands_of(&s);
        size_t most = gx_team_call_bytes(&gx_backend_cpu, NULL, calls[call].kernel, dtype, &args);
        gx_mem *mem;
        gx_team *team;
        gx_err err = {.code = GX_OK};
        assert_int_equal(gx_mem_create((size_t)1 << 30, &mem, &err), GX_OK);
        assert_int_equal(gx_team_create(1, mem, NULL, NULL, &team, &err), GX_OK);
        size_t used = gx_mem_used(mem);
        gx_mem_reset(mem);
        assert_int_equal(run_team(&runners[4], team, calls[call].kernel, dtype, args, &o, &err),
                         GX_OK);
        size_t peak = gx_mem_peak(mem) - used;
        if (peak > most) {
            fail_msg("%s takes %zu bytes, said %zu", gx_kernel_name(calls[call].kernel), peak,
                     most);
        }
        for (int i = 0; i < 3 && peak > 0; i++) {
            gx_mem_set_limit(mem, used + peak * (size_t)i / 3);
            err.code = GX_OK;
            assert_int_equal(run_team(&runners[4], team, calls[call].kernel, dtype, args, &o, &err),
                             GX_BUDGET);
            assert_int_equal(gx_mem_used(mem), used);
        }
        gx_team_free(team);
        gx_mem_free_all(mem);
    }
    set_free(&s);
}

static void a_failing_poll_stops(void **state)
{
    (void)state;
    set s = set_of(GX_F64);
    for (int call = 0; call < CALLS; call++) {
        for (int fail_at = 1; fail_at <= 4; fail_at++) {
            stopper p = {.fail_at = fail_at};
            gx_mem *mem;
            gx_team *team;
            gx_err err = {.code = GX_OK};
            assert_int_equal(gx_mem_create((size_t)1 << 30, &mem, &err), GX_OK);
            assert_int_equal(gx_team_create(2, mem, poll_stop, &p, &team, &err), GX_OK);
            operands o = operands_of(&s);
            assert_int_equal(
                run_team(&runners[4], team, calls[call].kernel, GX_F64, args_of(call), &o, &err),
                GX_INTERRUPT);
            assert_int_equal(p.calls, fail_at);
            gx_team_free(team);
            assert_int_equal(gx_mem_used(mem), 0);
            gx_mem_free_all(mem);
        }
    }
    set_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(geqrf_and_orgqr),
        cmocka_unit_test(ormqr_larft_larfb),
        cmocka_unit_test(stacks),
        cmocka_unit_test(known_answers),
        cmocka_unit_test(geqrf_at_the_edges),
        cmocka_unit_test(refusals),
        cmocka_unit_test(fixed_cuts_give_the_same_bits),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(a_failing_poll_stops),
    };
    seed = SEED;
    printf("seed %llu\n", (unsigned long long)SEED);
    open_runners();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
