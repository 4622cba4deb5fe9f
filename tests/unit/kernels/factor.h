/*
** Shared by the tests of factorisations: who runs a kernel, and norms of residuals.
**
** A runner is a backend's kernel itself (on any device), or gx_team_call() of the CPU backend with
** a team of some size, free or fixed.  The same checks run on all of them: RUNNERS below.
**
** Residuals are computed by the CPU backend's GEMM, in the dtype under test, as LAPACK's own tests
** do; ratios are divided by eps, so "< 30" is the bound everywhere.
*/
#ifndef GX_TEST_FACTOR_H
#define GX_TEST_FACTOR_H

#include "block.h"
#include "run/team.h"

#include <math.h>

// Runners -----------------------------------------------------------------------------------------

enum { DIRECT = -1, NO_TEAM = 0 };

typedef struct runner {
    const char *name;
    device d;
    int threads; /* DIRECT: the kernel itself; NO_TEAM: gx_team_call() without one */
    bool is_fixed;
    int64_t largest; /* sides beyond this are not for this runner */
} runner;

/* On a device (make test-gpu) the others only lend a hand. */
#ifdef GX_TEST_GPU
enum { IS_GPU = 1 };
#else
enum { IS_GPU = 0 };
#endif

static runner runners[] = {
    {"reference", {&gx_oracle, NULL}, DIRECT, false, IS_GPU ? -1 : 65},
    {"cpu", {&gx_backend_cpu, NULL}, DIRECT, false, IS_GPU ? -1 : 200},
    {"no team", {&gx_backend_cpu, NULL}, NO_TEAM, false, IS_GPU ? -1 : 400},
    {"team of 1", {&gx_backend_cpu, NULL}, 1, false, IS_GPU ? -1 : 400},
    {"team of 2", {&gx_backend_cpu, NULL}, 2, false, IS_GPU ? -1 : 1000},
    {"team of 3, fixed", {&gx_backend_cpu, NULL}, 3, true, IS_GPU ? -1 : 1000},
#ifdef GX_TEST_GPU
    {"cuda", {NULL, NULL}, DIRECT, false, 1000},
#endif
};
enum { RUNNERS = sizeof runners / sizeof *runners };

/*
** A shape for a runner: small enough for it, and large ones shared out among the dtypes and runners
** (turn: any number that goes on).
*/
static inline bool takes_shape(int which, int dtype, int turn, int64_t m, int64_t n)
{
    int64_t side = gx_max(m, n);
    bool is_turn = side <= 50 || IS_GPU || (turn + dtype + which) % (side <= 200 ? 2 : 4) == 0;
    return side <= runners[which].largest && is_turn;
}

/* Whether the runner's backend has the kernel at all. */
static inline bool offers(const runner *r, gx_kernel_id kernel, int dtype)
{
    return r->d.backend->kernel[kernel][dtype] != NULL;
}

/* The blocks of a call; NULL where the kernel has none. */
typedef struct operands {
    block *a, *b, *c, *c2, *tau;
    block *values, *left, *right; /* of spectra */
} operands;

enum { OPERANDS = 8 };

/* Every pointer of args from the blocks, on the device. */
static inline gx_code run_direct(const device *d, gx_kernel_id kernel, gx_number dtype,
                                 gx_args args, const operands *o, gx_err *err)
{
    gx_queue *queue = device_queue(d);
    block *blocks[OPERANDS] = {o->a, o->b, o->c, o->c2, o->tau, o->values, o->left, o->right};
    unsigned char *there[OPERANDS];
    for (int i = 0; i < OPERANDS; i++) {
        there[i] = blocks[i] == blocks[0] && i > 0 ? there[0] : device_place(d, queue, blocks[i]);
    }
    size_t bytes =
        d->backend->workspace == NULL ? 0 : d->backend->workspace(d->dev, kernel, dtype, &args);
    block work = block_make(GX_F32, (int64_t)(bytes + 3) / 4, 1, (int64_t)(bytes + 3) / 4);
    unsigned char *at_work = device_place(d, queue, &work);
    args.a = o->a == NULL ? NULL : there[0] + GUARD_BYTES;
    args.b = o->b == NULL ? NULL : there[1] + GUARD_BYTES;
    args.c = o->c == NULL ? NULL : there[2] + GUARD_BYTES;
    args.c2 = o->c2 == NULL ? NULL : there[3] + GUARD_BYTES;
    args.tau = o->tau == NULL ? NULL : there[4] + GUARD_BYTES;
    args.values = o->values == NULL ? NULL : there[5] + GUARD_BYTES;
    args.left = o->left == NULL ? NULL : there[6] + GUARD_BYTES;
    args.right = o->right == NULL ? NULL : there[7] + GUARD_BYTES;
    args.work = at_work + GUARD_BYTES;
    gx_code code = d->backend->kernel[kernel][dtype](d->dev, queue, &args, err);
    for (int i = 2; i < OPERANDS; i++) {
        device_fetch(d, queue, blocks[i], there[i]);
    }
    device_fetch(d, queue, &work, at_work);
    if (queue != NULL) {
        gx_err late = {.code = GX_OK};
        assert_int_equal(d->backend->queue_wait(d->dev, queue, &late), GX_OK);
    }
    for (int i = 0; i < OPERANDS; i++) {
        device_drop(d, blocks[i] == blocks[0] && i > 0 ? NULL : blocks[i], there[i]);
    }
    assert_true(block_is_guarded(&work));
    device_drop(d, &work, at_work);
    block_free(&work);
    return code;
}

static inline gx_code run_team(const runner *r, gx_team *team, gx_kernel_id kernel, gx_number dtype,
                               gx_args args, const operands *o, gx_err *err)
{
    gx_cut cut = {.is_fixed = r->is_fixed};
    args.a = o->a == NULL ? NULL : o->a->data;
    args.b = o->b == NULL ? NULL : o->b->data;
    args.c = o->c == NULL ? NULL : o->c->data;
    args.c2 = o->c2 == NULL ? NULL : o->c2->data;
    args.tau = o->tau == NULL ? NULL : o->tau->data;
    args.values = o->values == NULL ? NULL : o->values->data;
    args.left = o->left == NULL ? NULL : o->left->data;
    args.right = o->right == NULL ? NULL : o->right->data;
    return gx_team_call(team, r->d.backend, r->d.dev, kernel, dtype, &args, &cut, err);
}

/* Leading dimensions come from the blocks. */
static inline gx_code run_code(const runner *r, gx_kernel_id kernel, gx_number dtype, gx_args args,
                               const operands *o, gx_err *err)
{
    args.lda = o->a == NULL ? 0 : o->a->ld;
    args.ldb = o->b == NULL ? 0 : o->b->ld;
    args.ldc = o->c == NULL ? 0 : o->c->ld;
    args.ldc2 = o->c2 == NULL ? 0 : o->c2->ld;
    args.ldleft = o->left == NULL ? 0 : o->left->ld;
    args.ldright = o->right == NULL ? 0 : o->right->ld;
    if (r->threads == DIRECT) {
        return run_direct(&r->d, kernel, dtype, args, o, err);
    }
    gx_mem *mem = NULL;
    gx_team *team = NULL;
    assert_int_equal(gx_mem_create((size_t)1 << 30, &mem, err), GX_OK);
    if (r->threads > 0) {
        assert_int_equal(gx_team_create(r->threads, mem, NULL, NULL, &team, err), GX_OK);
    }
    gx_code code = run_team(r, team, kernel, dtype, args, o, err);
    gx_team_free(team);
    assert_int_equal(gx_mem_used(mem), 0);
    gx_mem_free_all(mem);
    return code;
}

/* As run_code(), which must succeed, and must not write outside the rectangles. */
static inline void run(const runner *r, gx_kernel_id kernel, gx_number dtype, gx_args args,
                       const operands *o)
{
    gx_err err = {.code = GX_OK};
    if (run_code(r, kernel, dtype, args, o, &err) != GX_OK) {
        fail_msg("%s: %s %s: %s", r->name, gx_kernel_name(kernel), gx_number_name(dtype), err.text);
    }
    block *written[] = {o->c, o->c2, o->tau, o->values, o->left, o->right};
    for (int i = 0; i < 6; i++) {
        if (written[i] != NULL && !block_is_guarded(written[i])) {
            fail_msg("%s: %s %s %dx%d wrote outside the rectangle of result %d", r->name,
                     gx_kernel_name(kernel), gx_number_name(dtype), (int)args.m, (int)args.n, i);
        }
    }
}

// Matrices ----------------------------------------------------------------------------------------

static uint64_t seed; /* of the random numbers */

/* Random numbers in [-1, 1); every third one has columns without a gap. */
static inline block random_block(gx_number dtype, int64_t m, int64_t n)
{
    static const int64_t gaps[] = {0, 1, 7};
    block b = block_make(dtype, m, n, gx_max(m, 1) + gaps[random_bits(&seed) % 3]);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            double re = random_unit(&seed);
            block_set(&b, i, j, (gx_scalar){re, random_unit(&seed)});
        }
    }
    return b;
}

static inline block constant_block(gx_number dtype, int64_t m, int64_t n, double value)
{
    block b = block_make(dtype, m, n, gx_max(m, 1));
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            block_set(&b, i, j, (gx_scalar){i == j || isnan(value) ? value : 0, 0});
        }
    }
    return b;
}

/* Rows i .. i+m-1 and columns j .. j+n-1, as a block of its own. */
static inline block sub_block(const block *x, int64_t i, int64_t j, int64_t m, int64_t n)
{
    block b = block_make(x->dtype, m, n, gx_max(m, 1));
    for (int64_t q = 0; q < n; q++) {
        for (int64_t p = 0; p < m; p++) {
            block_set(&b, p, q, block_get(x, i + p, j + q));
        }
    }
    return b;
}

static inline bool is_inside(gx_uplo uplo, int64_t i, int64_t j)
{
    return uplo == GX_LOWER ? i >= j : i <= j;
}

/* The triangle (unit: ones on the diagonal), zeros elsewhere. */
static inline block triangle_of(const block *x, gx_uplo uplo, gx_diag diag, int64_t m, int64_t n)
{
    block b = sub_block(x, 0, 0, m, n);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            if (i == j && diag == GX_UNIT) {
                block_set(&b, i, j, (gx_scalar){1, 0});
            } else if (!is_inside(uplo, i, j)) {
                block_set(&b, i, j, (gx_scalar){0, 0});
            }
        }
    }
    return b;
}

/* NaN where the kernel must not look: off the triangle, and for UNIT on the diagonal. */
static inline void spoil_outside(const block *x, gx_uplo uplo, gx_diag diag)
{
    for (int64_t j = 0; j < x->n; j++) {
        for (int64_t i = 0; i < x->m; i++) {
            if (!is_inside(uplo, i, j) || (i == j && diag == GX_UNIT)) {
                block_set(x, i, j, (gx_scalar){NAN, NAN});
            }
        }
    }
}

/* c = alpha op(a) op(b) + beta c. */
static inline void multiply(gx_trans transa, gx_trans transb, double alpha, const block *a,
                            const block *b, double beta, const block *c)
{
    gx_args args = {.transa = transa,
                    .transb = transb,
                    .m = c->m,
                    .n = c->n,
                    .k = transa == GX_NO_TRANS ? a->n : a->m,
                    .alpha = {alpha, 0},
                    .beta = {beta, 0},
                    .a = a->data,
                    .lda = a->ld,
                    .b = b->data,
                    .ldb = b->ld,
                    .c = c->data,
                    .ldc = c->ld};
    gx_err err = {.code = GX_OK};
    assert_int_equal(gx_backend_cpu.kernel[GX_GEMM][c->dtype](NULL, NULL, &args, &err), GX_OK);
}

// Norms -------------------------------------------------------------------------------------------

static inline double eps_of(gx_number dtype)
{
    return gx_number_is_double(dtype) ? 0x1p-53 : 0x1p-24;
}

/* Frobenius, in long double: nothing overflows.  NaN when there is one. */
static inline double norm_of(const block *x)
{
    long double sum = 0;
    for (int64_t j = 0; j < x->n; j++) {
        for (int64_t i = 0; i < x->m; i++) {
            gx_scalar e = block_get(x, i, j);
            sum += (long double)e.re * e.re + (long double)e.im * e.im;
        }
    }
    return (double)sqrtl(sum);
}

static inline double distance_of(const block *x, const block *y)
{
    long double sum = 0;
    for (int64_t j = 0; j < x->n; j++) {
        for (int64_t i = 0; i < x->m; i++) {
            gx_scalar e = block_get(x, i, j), f = block_get(y, i, j);
            long double re = (long double)e.re - f.re, im = (long double)e.im - f.im;
            sum += re * re + im * im;
        }
    }
    return (double)sqrtl(sum);
}

/* residual / (size * count * eps) < 30, NaN fails; 0 / 0 is good. */
static inline void assert_ratio(const runner *r, gx_kernel_id kernel, gx_number dtype, int64_t m,
                                int64_t n, const char *what, double residual, double size,
                                int64_t count)
{
    double unit = size * (double)gx_max(count, 1) * eps_of(dtype);
    if (!(residual <= 30 * unit)) {
        fail_msg("%s: %s %s %dx%d: %s: ratio %g", r->name, gx_kernel_name(kernel),
                 gx_number_name(dtype), (int)m, (int)n, what, residual / unit);
    }
}

static inline void open_runners(void)
{
    for (int i = 0; i < RUNNERS; i++) {
        gx_err err = {.code = GX_OK};
        if (runners[i].d.backend == NULL) {
            runners[i].d = device_on_demand();
            const char *largest = getenv("GX_TEST_LARGEST"); // for stand-ins, which are slow
            runners[i].largest = largest == NULL ? runners[i].largest : atoll(largest);
            continue;
        }
        assert_int_equal(runners[i].d.backend->open(0, &runners[i].d.dev, &err), GX_OK);
    }
}

#endif
