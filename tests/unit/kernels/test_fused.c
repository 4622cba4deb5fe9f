/*
** Fused programs: how they are written down, and every backend against the reference.
**
** Plan:
**   1. writing down: numbers of values, equal constants are one, what nobody wants is dropped,
**      registers are used again, what does not fit is refused
**   2. random programs of functions that are the same to the bit everywhere: dtypes, shapes,
**      inputs with gaps, spread, transposed, outputs apart and in place, folds of every kind
**   3. every function as a program of one step, to its ULPS, with a sum over it
**   4. an element's bits depend neither on the length of its run nor on its place (the CPU)
**   5. without libmvec (the CPU)
**
** Compiled with GX_TEST_GPU the backend under test is that of gx_cuda.so.
*/
#include "block.h"

#ifndef GX_TEST_GPU
#include "../../../kernels/cpu_vector.h"
#endif

#include <math.h>

static const uint64_t SEED = 20241122;

static const device ref = {&gx_oracle, NULL};
static device device_now = {&gx_backend_cpu, NULL};
static uint64_t seed;

static int below(int limit)
{
    return (int)(random_bits(&seed) % (uint64_t)limit);
}

// Writing down ------------------------------------------------------------------------------------

static void written_down(void **state)
{
    (void)state;
    gx_fused f;
    gx_fused_begin(&f, GX_F64);
    int a = gx_fused_input(&f), b = gx_fused_input(&f);
    int two = gx_fused_constant(&f, (gx_scalar){2, 0});
    assert_int_equal(gx_fused_constant(&f, (gx_scalar){2, 0}), two);
    int t = gx_fused_step(&f, GX_MAP_MUL, a, b, 0);
    gx_fused_step(&f, GX_MAP_EXP, t, 0, 0); // nobody wants it
    int u = gx_fused_step(&f, GX_MAP_POW, t, two, 0);
    int v = gx_fused_scaled(&f, GX_MAP_ADD, (gx_scalar){1, 0}, u, (gx_scalar){-1, 0}, a);
    assert_int_equal(gx_fused_output(&f, v, GX_FOLD_NONE, GX_FOLD_OF_ALL), 0);
    assert_true(gx_fused_end(&f));
    assert_int_equal(f.steps, 3);
    assert_int_equal(f.registers, 1);
    assert_int_equal(f.output[0].value, GX_FUSED_RESULT + 2);
    assert_int_equal(f.step[1].from[0], GX_FUSED_RESULT);
    assert_true(gx_fused_flops(&f) > 0);

    gx_fused_begin(&f, GX_C64);
    a = gx_fused_input(&f);
    assert_int_equal(gx_fused_output(&f, a, GX_FOLD_MIN, GX_FOLD_OF_ALL), GX_FUSED_NONE);
    assert_false(gx_fused_end(&f));

    gx_fused_begin(&f, GX_F32);
    a = gx_fused_input(&f);
    for (int k = 0; k <= GX_FUSED_STEPS; k++) {
        t = gx_fused_step(&f, GX_MAP_SQUARE, a, 0, 0);
    }
    assert_int_equal(t, GX_FUSED_NONE);
    assert_int_equal(gx_fused_step(&f, GX_MAP_ADD, a, t, 0), GX_FUSED_NONE);
    assert_false(gx_fused_end(&f));
}

/* Sums of sums: more results wanted at once than there are registers. */
static void too_wide(void **state)
{
    (void)state;
    gx_fused f;
    int value[GX_FUSED_REGISTERS + 1];
    for (int extra = 0; extra <= 1; extra++) {
        gx_fused_begin(&f, GX_F64);
        int count = GX_FUSED_REGISTERS + extra, a = gx_fused_input(&f);
        for (int k = 0; k < count; k++) {
            value[k] = gx_fused_step(&f, GX_MAP_SQUARE, a, 0, 0);
        }
        int t = value[count - 1];
        for (int k = 0; k < count; k++) {
            t = gx_fused_step(&f, GX_MAP_ADD, value[k], t, 0);
        }
        gx_fused_output(&f, t, GX_FOLD_SUM, GX_FOLD_OF_ALL);
        assert_int_equal(gx_fused_end(&f), extra == 0);
    }
}

// Running -----------------------------------------------------------------------------------------

enum { LONGEST = 300 };

typedef struct trial {
    gx_fused f;
    int64_t m, n;
    block in[GX_FUSED_INPUTS];
    gx_fused_place shape[GX_FUSED_INPUTS]; /* row, col; data is not looked at */
    block out[GX_FUSED_OUTPUTS];
    int in_place[GX_FUSED_OUTPUTS]; /* the input that it is; -1 */
    double fold[GX_FUSED_OUTPUTS][2 * LONGEST];
} trial;

static double any_number(void)
{
    static const double specials[] = {NAN, INFINITY, -INFINITY, 0, -0.0, 1, -1, 0.5, 2, 30};
    return below(9) == 0 ? specials[below(10)] : 4 * random_unit(&seed);
}

static void fill(block *b, bool has_specials)
{
    for (int64_t j = 0; j < b->n; j++) {
        for (int64_t i = 0; i < b->m; i++) {
            gx_scalar x = {2 * random_unit(&seed), 2 * random_unit(&seed)};
            block_set(b, i, j, has_specials ? (gx_scalar){any_number(), any_number()} : x);
        }
    }
}

/* An input: a matrix (with a gap or none), a row, a column, a number, a transposed matrix. */
static void make_input(trial *t, int k, bool has_specials)
{
    int64_t gap = below(2) * below(5);
    int shape = below(8);
    int64_t m = shape == 1 || shape == 3 ? 1 : t->m, n = shape == 2 || shape == 3 ? 1 : t->n;
    bool is_transposed = shape == 4;
    block b = is_transposed ? block_make(t->f.dtype, n, m, gx_max(n, 1) + gap)
                            : block_make(t->f.dtype, m, n, gx_max(m, 1) + gap);
    fill(&b, has_specials);
    t->in[k] = b;
    t->shape[k] = (gx_fused_place){.row = is_transposed          ? b.ld
                                          : m == 1 && shape != 0 ? 0
                                                                 : 1,
                                   .col = is_transposed          ? 1
                                          : n == 1 && shape != 0 ? 0
                                                                 : b.ld};
}

static void make_outputs(trial *t)
{
    for (int k = 0; k < t->f.outputs; k++) {
        gx_number dtype = t->f.output[k].is_real ? gx_number_real(t->f.dtype) : t->f.dtype;
        t->out[k] = block_make(dtype, t->m, t->n, gx_max(t->m, 1) + below(2) * 3);
        fill(&t->out[k], false);
        t->in_place[k] = -1;
    }
}

/* In the place of the first input, which then is a matrix. */
static void put_in_place(trial *t)
{
    bool fits = t->f.inputs > 0 && t->shape[0].row == 1 && t->in[0].n == t->n &&
                t->f.output[0].fold == GX_FOLD_NONE && !t->f.output[0].is_real &&
                t->f.output[0].value >= GX_FUSED_RESULT;
    if (fits && below(3) == 0) {
        t->in_place[0] = 0;
    }
}

static trial copy_of(const trial *t)
{
    trial c = *t;
    for (int k = 0; k < t->f.inputs; k++) {
        c.in[k] = block_copy(&t->in[k]);
    }
    for (int k = 0; k < t->f.outputs; k++) {
        c.out[k] = block_copy(&t->out[k]);
    }
    return c;
}

static void clear(trial *t)
{
    for (int k = 0; k < t->f.inputs; k++) {
        block_free(&t->in[k]);
    }
    for (int k = 0; k < t->f.outputs; k++) {
        block_free(&t->out[k]);
    }
}

static void run(const device *d, trial *t)
{
    gx_queue *queue = device_queue(d);
    gx_fused_place in[GX_FUSED_INPUTS], out[GX_FUSED_OUTPUTS];
    unsigned char *at_in[GX_FUSED_INPUTS], *at_out[GX_FUSED_OUTPUTS];
    double *fold[GX_FUSED_OUTPUTS];
    gx_err err = {.code = GX_OK};
    gx_args args = {.m = t->m, .n = t->n, .fused = &t->f, .in = in, .out = out, .fold = fold};
    for (int k = 0; k < t->f.inputs; k++) {
        at_in[k] = device_place(d, queue, &t->in[k]);
        in[k] = t->shape[k];
        in[k].data = at_in[k] + GUARD_BYTES;
    }
    for (int k = 0; k < t->f.outputs; k++) {
        block *b = t->in_place[k] < 0 ? &t->out[k] : &t->in[t->in_place[k]];
        at_out[k] = t->in_place[k] < 0 ? device_place(d, queue, b) : at_in[t->in_place[k]];
        out[k] = (gx_fused_place){at_out[k] + GUARD_BYTES, 1, b->ld};
        fold[k] = t->fold[k];
    }
    size_t bytes = d->backend->workspace(d->dev, GX_FUSED, t->f.dtype, &args);
    block work = block_make(GX_F32, (int64_t)(bytes + 3) / 4, 1, (int64_t)(bytes + 3) / 4);
    unsigned char *at_work = device_place(d, queue, &work);
    args.work = at_work + GUARD_BYTES;
    gx_code code = d->backend->kernel[GX_FUSED][t->f.dtype](d->dev, queue, &args, &err);
    if (code != GX_OK) {
        fail_msg("%s: %s", d->backend->name, err.text);
    }
    for (int k = 0; k < t->f.outputs; k++) {
        device_fetch(d, queue, t->in_place[k] < 0 ? &t->out[k] : &t->in[t->in_place[k]], at_out[k]);
    }
    device_fetch(d, queue, &work, at_work);
    if (queue != NULL) {
        assert_int_equal(d->backend->queue_wait(d->dev, queue, &err), GX_OK);
    }
    assert_true(block_is_guarded(&work));
    device_drop(d, &work, at_work);
    block_free(&work);
    for (int k = 0; k < t->f.inputs; k++) {
        device_drop(d, &t->in[k], at_in[k]);
    }
    for (int k = 0; k < t->f.outputs; k++) {
        if (t->in_place[k] < 0) {
            device_drop(d, &t->out[k], at_out[k]);
        }
    }
}

// Comparing ---------------------------------------------------------------------------------------

static bool is_close(double x, double y, double tolerance)
{
    return isnan(y) ? isnan(x) : x == y || fabs(x - y) <= tolerance;
}

static void trial_fails(const trial *t, int output, int64_t i, int64_t j, gx_scalar got,
                        gx_scalar want)
{
    for (int s = 0; s < t->f.steps; s++) {
        const gx_fused_code *c = &t->f.step[s];
        printf("  r%d = %s(%d, %d, %d)\n", c->dst, gx_map_row((gx_map_kind)c->map)->name,
               c->from[0], c->from[1], c->from[2]);
    }
    fail_msg("%s: %s %dx%d, %d inputs, output %d (fold %d of %d), (%d,%d): %.17g%+.17gi, want "
             "%.17g%+.17gi",
             device_now.backend->name, gx_number_name(t->f.dtype), (int)t->m, (int)t->n,
             t->f.inputs, output, t->f.output[output].fold, t->f.output[output].fold_of, (int)i,
             (int)j, got, want);
}

/* ulps: of the larger part of an element. */
static void compare_matrices(const trial *got, const trial *want, int k, double ulps)
{
    const block *x = got->in_place[k] < 0 ? &got->out[k] : &got->in[got->in_place[k]];
    const block *y = want->in_place[k] < 0 ? &want->out[k] : &want->in[want->in_place[k]];
    double eps = gx_number_eps(x->dtype), least = gx_number_least(x->dtype) * eps;
    for (int64_t j = 0; j < got->n; j++) {
        for (int64_t i = 0; i < got->m; i++) {
            gx_scalar a = block_get(x, i, j), b = block_get(y, i, j);
            double size = isfinite(b.re) && isfinite(b.im) ? hypot(b.re, b.im) : 0;
            double tolerance = ulps == 0 ? 0 : ulps * (eps * size + least);
            if (!is_close(a.re, b.re, tolerance) || !is_close(a.im, b.im, tolerance)) {
                trial_fails(got, k, i, j, a, b);
            }
        }
    }
    assert_true(block_is_guarded(x));
}

/* Sums are rounded in another order: to a part of the norms of what they are of. */
static void compare_folds(const trial *got, const trial *want, int k)
{
    gx_fold fold = (gx_fold)got->f.output[k].fold;
    int width = gx_fold_width(fold);
    int64_t doubles = gx_fold_doubles(fold, (gx_fold_of)got->f.output[k].fold_of, got->m, got->n);
    trial sizes = copy_of(want);
    sizes.f.output[k].fold = GX_FOLD_NORM;
    run(&ref, &sizes);
    for (int64_t l = 0; l < doubles / width; l++) {
        gx_scalar x = gx_fold_value(fold, &got->fold[k][l * width]);
        gx_scalar y = gx_fold_value(fold, &want->fold[k][l * width]);
        double norm = gx_fold_value(GX_FOLD_NORM, &sizes.fold[k][2 * l]).re;
        bool is_exact = fold == GX_FOLD_MIN || fold == GX_FOLD_MAX;
        norm = isfinite(norm) ? norm : 1e6; // specials among small numbers
        double tolerance = is_exact ? 0 : 1e-14 * norm * (double)(got->m * got->n);
        if (!is_close(x.re, y.re, tolerance) || !is_close(x.im, y.im, tolerance)) {
            trial_fails(got, k, l, -1, x, y);
        }
    }
    clear(&sizes);
}

static void compare(trial *t, double ulps)
{
    trial before = copy_of(t), want = copy_of(t);
    run(&device_now, t);
    run(&ref, &want);
    for (int k = 0; k < t->f.outputs; k++) {
        if (t->f.output[k].fold == GX_FOLD_NONE) {
            compare_matrices(t, &want, k, ulps);
        } else {
            memcpy(before.fold, want.fold, sizeof want.fold);
            compare_folds(t, &before, k);
        }
    }
    clear(&before);
    clear(&want);
    clear(t);
}

// Random programs ---------------------------------------------------------------------------------

/* The same to the bit on every backend. */
static const gx_map_kind plain[] = {
    GX_MAP_ADD,   GX_MAP_MUL,   GX_MAP_SCALE, GX_MAP_CONJ,        GX_MAP_SQUARE,
    GX_MAP_WHERE, GX_MAP_EQUAL, GX_MAP_REAL,  GX_MAP_LOGICAL_NOT, GX_MAP_ISFINITE,
    GX_MAP_DIV,   GX_MAP_SQRT,  GX_MAP_ABS,   GX_MAP_MAXIMUM,     GX_MAP_MINIMUM,
    GX_MAP_CLIP,  GX_MAP_FLOOR, GX_MAP_ROUND, GX_MAP_LESS,        GX_MAP_GREATER_EQUAL,
    GX_MAP_RELU,  GX_MAP_SIGN,  GX_MAP_TRUNC, GX_MAP_RECIPROCAL,  GX_MAP_LOGICAL_XOR,
};
enum { PLAIN = sizeof plain / sizeof *plain, PLAIN_COMPLEX = 10 };

static int any_value(const gx_fused *f)
{
    int kind = below(10);
    if (kind < 6 && f->steps > 0) {
        return GX_FUSED_RESULT + (int)gx_max(0, f->steps - 1 - below(4));
    }
    return kind == 9 && f->constants > 0 ? GX_FUSED_CONSTANT + below(f->constants)
                                         : below(f->inputs);
}

static void any_output(gx_fused *f, int value, bool is_first)
{
    bool is_complex = gx_number_is_complex(f->dtype);
    gx_fold fold = is_first ? GX_FOLD_NONE : (gx_fold)below(is_complex ? 3 : 5);
    int k = gx_fused_output(f, value, fold, (gx_fold_of)below(3));
    f->output[k].is_real = is_complex && fold == GX_FOLD_NONE && below(3) == 0;
}

static void random_program(gx_fused *f, gx_number dtype)
{
    do {
        gx_fused_begin(f, dtype);
        for (int k = 1 + below(4); k > 0; k--) {
            gx_fused_input(f);
        }
        for (int k = below(3); k > 0; k--) {
            gx_fused_constant(f, (gx_scalar){random_unit(&seed), random_unit(&seed)});
        }
        for (int k = 1 + below(12); k > 0; k--) {
            gx_map_kind kind = plain[below(gx_number_is_complex(dtype) ? PLAIN_COMPLEX : PLAIN)];
            int s = gx_fused_step(f, kind, any_value(f), any_value(f), any_value(f));
            if (kind == GX_MAP_ADD || kind == GX_MAP_SCALE) {
                f->step[s - GX_FUSED_RESULT].alpha = (gx_scalar){random_unit(&seed), below(2)};
                f->step[s - GX_FUSED_RESULT].beta.re = below(3) - 1;
            }
        }
        any_output(f, GX_FUSED_RESULT + f->steps - 1, true);
        for (int k = below(3); k > 0; k--) {
            any_output(f, GX_FUSED_RESULT + below(f->steps), false);
        }
    } while (!gx_fused_end(f));
}

static void random_programs(void **state)
{
    (void)state;
    static const int64_t sides[] = {0, 1, 2, 3, 5, 17, 63, 64, 65, 130, 299};
    for (int turn = 0; turn < 4000; turn++) {
        trial t;
        random_program(&t.f, (gx_number)(turn % GX_FLOATS));
        t.m = sides[below(11)];
        t.n = sides[below(11)];
        if (t.m * t.n > 6000) {
            t.n = gx_max(1, 6000 / t.m);
        }
        for (int k = 0; k < t.f.inputs; k++) {
            make_input(&t, k, below(3) == 0);
        }
        make_outputs(&t);
        put_in_place(&t);
        compare(&t, 0);
    }
}

// Every function ----------------------------------------------------------------------------------

static void one_step(gx_map_kind kind, gx_number dtype, int64_t m)
{
    const gx_map_facts *row = gx_map_row(kind);
    trial t = {.m = m, .n = 3};
    int from[3] = {0, 0, 0};
    gx_fused_begin(&t.f, dtype);
    for (int k = 0; k < row->operands; k++) {
        from[k] = gx_fused_input(&t.f);
    }
    int s = gx_fused_step(&t.f, kind, from[0], from[1], from[2]);
    gx_fused_output(&t.f, s, GX_FOLD_NONE, GX_FOLD_OF_ALL);
    assert_true(gx_fused_end(&t.f));
    for (int k = 0; k < t.f.inputs; k++) {
        make_input(&t, k, false);
    }
    make_outputs(&t);
    compare(&t, row->ulps);
}

static void every_function(void **state)
{
    (void)state;
    for (int kind = 0; kind < GX_MAP_KIND_COUNT; kind++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            gx_number result;
            if (gx_map_dtype((gx_map_kind)kind, (gx_number)d, &result, NULL) == GX_OK) {
                one_step((gx_map_kind)kind, (gx_number)d, 5);
                one_step((gx_map_kind)kind, (gx_number)d, 299);
            }
        }
    }
}

#ifndef GX_TEST_GPU

/* f of the last `count` elements of a run of 200: the same bits as in the whole run. */
static void same_anywhere(gx_map_kind kind, gx_number dtype, int64_t count)
{
    enum { RUN = 200 };
    block x[3], whole = block_make(dtype, RUN, 1, RUN), part = block_make(dtype, RUN, 1, RUN);
    seed = SEED; // the same numbers for each count
    for (int k = 0; k < 3; k++) {
        x[k] = block_make(dtype, RUN, 1, RUN);
        fill(&x[k], true);
    }
    int64_t first = RUN - count;
    gx_err err = {.code = GX_OK};
    gx_args args = {.map = kind, .m = RUN, .n = 1, .alpha = {0.3, 0}, .beta = {0.7, 0}};
    args.lda = args.ldb = args.ldb2 = args.ldc = RUN;
    for (int is_part = 0; is_part <= 1; is_part++) {
        int64_t at = is_part ? first : 0;
        args.m = RUN - at;
        args.a = gx_at(x[0].data, dtype, RUN, at, 0);
        args.b = gx_at(x[1].data, dtype, RUN, at, 0);
        args.b2 = gx_at(x[2].data, dtype, RUN, at, 0);
        args.c = is_part ? part.data : whole.data;
        assert_int_equal(gx_backend_cpu.kernel[GX_MAP][dtype](NULL, NULL, &args, &err), GX_OK);
    }
    if (memcmp(part.data, gx_at(whole.data, dtype, RUN, first, 0),
               (size_t)count * gx_number_bytes(dtype)) != 0) {
        fail_msg("%s of %s: other bits in a run of %d", gx_map_row(kind)->name,
                 gx_number_name(dtype), (int)count);
    }
    for (int k = 0; k < 3; k++) {
        block_free(&x[k]);
    }
    block_free(&whole);
    block_free(&part);
}

static void places(void **state)
{
    (void)state;
    for (int kind = 0; kind < GX_MAP_KIND_COUNT; kind++) {
        for (int d = 0; d < 2; d++) {
            for (int64_t count = 1; count < 70; count += 1 + count / 9) {
                same_anywhere((gx_map_kind)kind, (gx_number)d, count);
            }
        }
    }
    seed = SEED;
}

static void without_libmvec(void **state)
{
    gx_vector_use(0);
    every_function(state);
    places(state);
    gx_vector_use(1);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_down),    cmocka_unit_test(too_wide),
        cmocka_unit_test(random_programs), cmocka_unit_test(every_function),
#ifndef GX_TEST_GPU
        cmocka_unit_test(places),          cmocka_unit_test(without_libmvec),
#endif
    };
    seed = SEED;
    printf("seed %llu\n", (unsigned long long)SEED);
#ifdef GX_TEST_GPU
    device_now = device_on_demand();
    if (device_now.backend->kernel[GX_FUSED][GX_F64] == NULL) {
        printf("SKIPPED: not offered\n");
        return 77;
    }
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
