/*
** The team of threads (core/run/team.c) and the cutting of kernel calls (core/run/team_cut.c).
**
** Plan:
**   1. every piece is run once, by a member that exists, for teams of 1 to 4 and 0 to 1000 pieces
**   2. the first failure is returned and stops the rest; the next job starts afresh
**   3. a failing poll stops a job: between pieces, between the steps of one piece, and while the
**      caller waits for the others
**   4. fixed cuts: the same bits for 1 to 4 threads, products of every dtype with odd sizes
**   5. products of a small result and a long inner dimension, which is sliced
**   6. free and fixed cuts against the reference: products, elementwise kernels, transposes,
**      mirrored triangles, reductions, in sizes that are cut; nothing outside the rectangle is
**      touched
**   7. teams come and go: many create/free cycles, memory given back, a budget too small, odd
**      arguments
*/
#include "run/team.h"

#include "../kernels/block.h"

#include <math.h>
#include <stdatomic.h>
#include <unistd.h>

static const uint64_t SEED = 20240608;
static const device ref = {&gx_backend_ref, NULL};

/* A team without a poll; the tests that poll make their own. */
static gx_team *team_of(int threads)
{
    gx_team *team;
    gx_err err = {.code = GX_OK};
    assert_int_equal(gx_team_create(threads, NULL, NULL, NULL, &team, &err), GX_OK);
    return team;
}

/*
** ---- pieces
** -------------------------------------------------------------------------------------
*/

typedef struct tally {
    atomic_int runs[1000];
    atomic_int total;
    int threads;
    int64_t bad_piece; /* this one fails; -1: none */
    bool is_silent;    /* ... without a text       */
    gx_team *team;
    atomic_bool is_inside; /* a member other than the caller runs a piece */
} tally;

static gx_code count_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    tally *t = arg;
    atomic_fetch_add(&t->runs[piece], 1);
    atomic_fetch_add(&t->total, 1);
    if (member < 0 || member >= t->threads) {
        return gx_fail(err, GX_ARG, "member %d of %d", member, t->threads);
    }
    if (piece == t->bad_piece) {
        return t->is_silent ? GX_IO : gx_fail(err, GX_NUMERIC, "piece %d is bad", (int)piece);
    }
    return GX_OK;
}

static void every_piece_once(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 1, 2, 3, 7, 64, 1000};
    for (int threads = 1; threads <= 4; threads++) {
        gx_team *team = team_of(threads);
        assert_in_range(gx_team_threads(team), 1, threads);
        for (int again = 0; again < 5; again++) {
            for (int c = 0; c < 7; c++) {
                static tally t;
                memset(&t, 0, sizeof t);
                t.threads = gx_team_threads(team);
                t.bad_piece = -1;
                gx_err err = {.code = GX_OK};
                assert_int_equal(gx_team_run(team, counts[c], count_piece, &t, &err), GX_OK);
                assert_int_equal(t.total, counts[c]);
                for (int64_t i = 0; i < counts[c]; i++) {
                    assert_int_equal(t.runs[i], 1);
                }
            }
        }
        gx_team_free(team);
    }
}

static gx_code slow_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    usleep(200);
    return count_piece(arg, piece, member, err);
}

static void first_failure_stops(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        gx_team *team = team_of(threads);
        static tally t;
        memset(&t, 0, sizeof t);
        t.threads = gx_team_threads(team);
        t.bad_piece = 10;
        gx_err err = {.code = GX_OK};
        assert_int_equal(gx_team_run(team, 1000, slow_piece, &t, &err), GX_NUMERIC);
        assert_string_equal(err.text, "piece 10 is bad");
        assert_in_range(t.total, 11, 200);

        // A failure that was there before stays the first.
        assert_int_equal(gx_team_run(team, 20, count_piece, &t, &err), GX_NUMERIC);
        gx_err fresh = {.code = GX_OK};
        t.is_silent = true;
        assert_int_equal(gx_team_run(team, 20, count_piece, &t, &fresh), GX_IO);
        assert_string_equal(fresh.text, "a piece of the work failed");
        t.bad_piece = -1;
        fresh.code = GX_OK;
        assert_int_equal(gx_team_run(team, 20, count_piece, &t, &fresh), GX_OK);
        gx_team_free(team);
    }
}

/*
** ---- polls
** --------------------------------------------------------------------------------------
*/

typedef struct poller {
    int calls, fail_at; /* fails from this call on; 0: never */
} poller;

static gx_code poll_count(void *arg, gx_err *err)
{
    poller *p = arg;
    p->calls++;
    return p->fail_at > 0 && p->calls >= p->fail_at ? gx_fail(err, GX_INTERRUPT, "interrupted")
                                                    : GX_OK;
}

static void poll_stops_between_pieces(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        poller p = {.fail_at = 5};
        gx_team *team;
        gx_err err = {.code = GX_OK};
        assert_int_equal(gx_team_create(threads, NULL, poll_count, &p, &team, &err), GX_OK);
        static tally t;
        memset(&t, 0, sizeof t);
        t.threads = gx_team_threads(team);
        t.bad_piece = -1;
        assert_int_equal(gx_team_run(team, 1000, slow_piece, &t, &err), GX_INTERRUPT);
        assert_string_equal(err.text, "interrupted");
        assert_int_equal(p.calls, 5);
        assert_in_range(t.total, 5, 300);
        gx_team_free(team);
    }
}

/*
** The caller's piece waits until another member is in, and ends; the other's goes on until it is
** stopped.
*/
static gx_code endless_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    (void)piece;
    (void)err;
    tally *t = arg;
    if (member == 0) {
        while (!atomic_load(&t->is_inside)) {
            usleep(100);
        }
        return GX_OK;
    }
    atomic_store(&t->is_inside, true);
    while (gx_team_continues(t->team, member)) {
        usleep(100);
    }
    return GX_OK;
}

static void poll_stops_while_waiting(void **state)
{
    (void)state;
    poller p = {.fail_at = 4};
    gx_team *team;
    gx_err err = {.code = GX_OK};
    assert_int_equal(gx_team_create(2, NULL, poll_count, &p, &team, &err), GX_OK);
    if (gx_team_threads(team) == 2) {
        static tally t;
        memset(&t, 0, sizeof t);
        t.team = team;
        assert_int_equal(gx_team_run(team, 2, endless_piece, &t, &err), GX_INTERRUPT);
        assert_int_equal(p.calls, 4);
    }
    gx_team_free(team);
    assert_true(gx_team_continues(NULL, 0));
}

/*
** ---- kernel calls
** -------------------------------------------------------------------------------
*/

static void block_fill(const block *b, uint64_t *seed)
{
    for (int64_t j = 0; j < b->n; j++) {
        for (int64_t i = 0; i < b->m; i++) {
            double re = random_unit(seed);
            block_set(b, i, j, (gx_scalar){re, random_unit(seed)});
        }
    }
}

/* Odd sizes, cut into odd units; enough work for the team to be woken. */
enum { M = 211, N = 187, K = 131 };
static const gx_cut odd_units = {.m = 50, .n = 70, .k = 37, .is_fixed = true};

typedef struct call {
    gx_kernel_id kernel;
    gx_trans transa, transb;
    gx_uplo uplo;
} call;

static const call products[] = {
    {GX_GEMM, GX_NO_TRANS, GX_NO_TRANS, GX_LOWER},   {GX_GEMM, GX_TRANS, GX_CONJ_TRANS, GX_LOWER},
    {GX_GEMM, GX_CONJ_TRANS, GX_TRANS, GX_LOWER},    {GX_SYRK, GX_NO_TRANS, GX_NO_TRANS, GX_LOWER},
    {GX_SYRK, GX_TRANS, GX_NO_TRANS, GX_UPPER},      {GX_HERK, GX_NO_TRANS, GX_NO_TRANS, GX_UPPER},
    {GX_HERK, GX_CONJ_TRANS, GX_NO_TRANS, GX_LOWER},
};
enum { PRODUCTS = sizeof products / sizeof *products };

typedef struct operands {
    block a, b, c;
    gx_args args;
} operands;

static operands operands_of(const call *p, gx_number dtype, uint64_t *seed)
{
    int64_t m = p->kernel == GX_GEMM ? M : N;
    operands o = {
        .a = p->transa == GX_NO_TRANS ? block_make(dtype, m, K, m + 3) : block_make(dtype, K, m, K),
        .b = p->transb == GX_NO_TRANS ? block_make(dtype, K, N, K + 1) : block_make(dtype, N, K, N),
        .c = block_make(dtype, m, N, m + 5)};
    block_fill(&o.a, seed);
    block_fill(&o.b, seed);
    block_fill(&o.c, seed);
    o.args = (gx_args){.transa = p->transa,
                       .transb = p->transb,
                       .uplo = p->uplo,
                       .m = m,
                       .n = N,
                       .k = K,
                       .alpha = {1.5, 0},
                       .beta = {-0.5, 0},
                       .a = o.a.data,
                       .lda = o.a.ld,
                       .b = o.b.data,
                       .ldb = o.b.ld};
    return o;
}

static void operands_free(operands *o)
{
    block_free(&o->a);
    block_free(&o->b);
    block_free(&o->c);
}

/* The call by a team on the CPU backend, from a copy of c0. */
static block by_team(int threads, const call *p, const operands *o, const gx_cut *cut)
{
    gx_team *team = threads == 0 ? NULL : team_of(threads);
    block c = block_copy(&o->c);
    gx_args args = o->args;
    args.c = c.data;
    args.ldc = c.ld;
    gx_err err = {.code = GX_OK};
    if (gx_team_call(team, &gx_backend_cpu, NULL, p->kernel, c.dtype, &args, cut, &err) != GX_OK) {
        fail_msg("%s: %s", gx_kernel_name(p->kernel), err.text);
    }
    assert_true(block_is_guarded(&c));
    gx_team_free(team);
    return c;
}

static void fixed_cuts_give_the_same_bits(void **state)
{
    (void)state;
    uint64_t seed = SEED;
    for (int i = 0; i < PRODUCTS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            operands o = operands_of(&products[i], (gx_number)d, &seed);
            block first = by_team(0, &products[i], &o, &odd_units);
            for (int threads = 1; threads <= 4; threads++) {
                block c = by_team(threads, &products[i], &o, &odd_units);
                if (memcmp(c.raw, first.raw, c.bytes) != 0) {
                    fail_msg("%s %s: other bits with %d threads",
                             gx_kernel_name(products[i].kernel), gx_number_name((gx_number)d),
                             threads);
                }
                block_free(&c);
            }
            block_free(&first);
            operands_free(&o);
        }
    }
}

/* Largest difference of an element from the reference's. */
static double farthest(const block *c, const block *want)
{
    double most = 0;
    for (int64_t j = 0; j < c->n; j++) {
        for (int64_t i = 0; i < c->m; i++) {
            gx_scalar x = block_get(c, i, j), y = block_get(want, i, j);
            double gap = hypot(x.re - y.re, x.im - y.im);
            most = gap > most || isnan(gap) ? gap : most;
        }
    }
    return most;
}

static void products_agree(void **state)
{
    (void)state;
    static const gx_cut cuts[] = {{.is_fixed = false}, {.is_fixed = true}};
    uint64_t seed = SEED;
    for (int i = 0; i < PRODUCTS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            operands o = operands_of(&products[i], (gx_number)d, &seed);
            block want = block_copy(&o.c);
            gx_err err = {.code = GX_OK};
            assert_int_equal(
                device_run(&ref, products[i].kernel, (gx_number)d, o.args, &o.a, &o.b, &want, &err),
                GX_OK);
            double bound = 30 * K * (gx_number_is_double((gx_number)d) ? 0x1p-53 : 0x1p-24);
            for (int c = 0; c < 3; c++) {
                block got = by_team(3, &products[i], &o, c < 2 ? &cuts[c] : &odd_units);
                if (!(farthest(&got, &want) < bound)) {
                    fail_msg("%s %s cut %d: off by %g", gx_kernel_name(products[i].kernel),
                             gx_number_name((gx_number)d), c, farthest(&got, &want));
                }
                block_free(&got);
            }
            block_free(&want);
            operands_free(&o);
        }
    }
}

/* A call of products[], SIDE x SIDE x LONG, by a team of 3 and by the reference. */
enum { SIDE = 24, LONG = 9001 };

static void long_product(const call *p, gx_number dtype, gx_mem *mem, uint64_t *seed)
{
    block a = p->transa == GX_NO_TRANS ? block_make(dtype, SIDE, LONG, SIDE)
                                       : block_make(dtype, LONG, SIDE, LONG);
    block b = p->transb == GX_NO_TRANS ? block_make(dtype, LONG, SIDE, LONG + 1)
                                       : block_make(dtype, SIDE, LONG, SIDE + 1);
    block c = block_make(dtype, SIDE, SIDE, SIDE + 5);
    block_fill(&a, seed);
    block_fill(&b, seed);
    block_fill(&c, seed);
    block want = block_copy(&c);
    gx_args args = {.transa = p->transa,
                    .transb = p->transb,
                    .uplo = p->uplo,
                    .m = SIDE,
                    .n = SIDE,
                    .k = LONG,
                    .alpha = {0.5, 0},
                    .beta = {2, 0},
                    .a = a.data,
                    .lda = a.ld,
                    .b = b.data,
                    .ldb = b.ld,
                    .c = c.data,
                    .ldc = c.ld};
    gx_err err = {.code = GX_OK};
    assert_int_equal(device_run(&ref, p->kernel, dtype, args, &a, &b, &want, &err), GX_OK);

    gx_team *team;
    assert_int_equal(gx_team_create(3, mem, NULL, NULL, &team, &err), GX_OK);
    size_t used = gx_mem_used(mem);
    gx_mem_reset(mem);
    assert_int_equal(
        gx_team_call(team, &gx_backend_cpu, NULL, p->kernel, dtype, &args, &(gx_cut){.m = 0}, &err),
        GX_OK);
    bool is_sliced = gx_mem_peak(mem) > used;
    assert_int_equal(is_sliced, gx_team_threads(team) > 1 && gx_mem_limit(mem) > 10000);
    assert_int_equal(gx_mem_used(mem), used);
    gx_team_free(team);
    double bound = gx_number_is_double(dtype) ? 1e-10 : 1e-2;
    if (!(farthest(&c, &want) < bound) || !block_is_guarded(&c)) {
        fail_msg("%s %s: off by %g", gx_kernel_name(p->kernel), gx_number_name(dtype),
                 farthest(&c, &want));
    }
    block_free(&a);
    block_free(&b);
    block_free(&c);
    block_free(&want);
}

/* A small result with a long inner dimension is sliced; without the memory for it, it is not. */
static void long_products_agree(void **state)
{
    (void)state;
    static const size_t limits[] = {1 << 20, 2000};
    uint64_t seed = SEED;
    for (int l = 0; l < 2; l++) {
        gx_mem *mem;
        assert_int_equal(gx_mem_create(limits[l], &mem, NULL), GX_OK);
        for (int i = 0; i < PRODUCTS; i++) {
            long_product(&products[i], (gx_number)(i % GX_FLOATS), mem, &seed);
        }
        assert_int_equal(gx_mem_used(mem), 0);
        gx_mem_free_all(mem);
    }
}

/* No inner dimension, or alpha 0: c is scaled, and a and b may be absent. */
static void products_without_operands(void **state)
{
    (void)state;
    for (int threads = 0; threads <= 2; threads++) {
        gx_team *team = threads == 0 ? NULL : team_of(threads);
        for (int fixed = 0; fixed < 2; fixed++) {
            block c = block_make(GX_F64, 700, 600, 701);
            uint64_t seed = SEED;
            block_fill(&c, &seed);
            block want = block_copy(&c);
            gx_args args = {.m = 700,
                            .n = 600,
                            .alpha = {1, 0},
                            .beta = {2, 0},
                            .lda = 1,
                            .ldb = 1,
                            .c = c.data,
                            .ldc = c.ld};
            gx_cut cut = {.is_fixed = fixed == 1};
            gx_err err = {.code = GX_OK};
            assert_int_equal(
                gx_team_call(team, &gx_backend_cpu, NULL, GX_GEMM, GX_F64, &args, &cut, &err),
                GX_OK);
            args.c = want.data;
            assert_int_equal(gx_backend_ref.kernel[GX_GEMM][GX_F64](NULL, NULL, &args, &err),
                             GX_OK);
            assert_memory_equal(c.raw, want.raw, c.bytes);
            block_free(&c);
            block_free(&want);
        }
        gx_team_free(team);
    }
}

static void elements_agree(void **state)
{
    (void)state;
    static const call maps[] = {
        {GX_FILL, GX_NO_TRANS, GX_NO_TRANS, GX_LOWER},
        {GX_COPY, GX_NO_TRANS, GX_NO_TRANS, GX_LOWER},
        {GX_MAP, GX_NO_TRANS, GX_NO_TRANS, GX_LOWER},
        {GX_TRANSPOSE, GX_TRANS, GX_NO_TRANS, GX_LOWER},
        {GX_TRANSPOSE, GX_CONJ_TRANS, GX_NO_TRANS, GX_LOWER},
        {GX_TRANSPOSE, GX_NO_TRANS, GX_NO_TRANS, GX_LOWER},
        {GX_SYMMETRIZE, GX_NO_TRANS, GX_NO_TRANS, GX_LOWER},
        {GX_SYMMETRIZE, GX_CONJ_TRANS, GX_NO_TRANS, GX_UPPER},
    };
    static const int64_t shapes[][2] = {{601, 601}, {150001, 2}, {2, 150001}};
    uint64_t seed = SEED;
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        for (int s = 0; s < (maps[i].kernel == GX_SYMMETRIZE ? 1 : 3); s++) {
            gx_number dtype = (gx_number)((i + (size_t)s) % GX_FLOATS);
            int64_t m = shapes[s][0], n = shapes[s][1];
            bool turns = maps[i].kernel == GX_TRANSPOSE && maps[i].transa != GX_NO_TRANS;
            operands o = {.a = turns ? block_make(dtype, n, m, n + 1)
                                     : block_make(dtype, m, n, m + 1),
                          .b = block_make(dtype, m, n, m),
                          .c = block_make(dtype, m, n, m + 3)};
            block_fill(&o.a, &seed);
            block_fill(&o.b, &seed);
            block_fill(&o.c, &seed);
            o.args = (gx_args){.transa = maps[i].transa,
                               .uplo = maps[i].uplo,
                               .map = GX_MAP_ADD,
                               .m = m,
                               .n = n,
                               .alpha = {2, 1},
                               .beta = {-1, 0.5},
                               .a = o.a.data,
                               .lda = o.a.ld,
                               .b = o.b.data,
                               .ldb = o.b.ld};
            block want = block_copy(&o.c), got = by_team(3, &maps[i], &o, &(gx_cut){.m = 0});
            gx_err err = {.code = GX_OK};
            assert_int_equal(
                device_run(&ref, maps[i].kernel, dtype, o.args, &o.a, &o.b, &want, &err), GX_OK);
            if (!(farthest(&got, &want) <= 1e-6)) {
                fail_msg("%s %s %dx%d: off by %g", gx_kernel_name(maps[i].kernel),
                         gx_number_name(dtype), (int)m, (int)n, farthest(&got, &want));
            }
            block_free(&want);
            block_free(&got);
            operands_free(&o);
        }
    }
}

static void reductions_run_on_the_caller(void **state)
{
    (void)state;
    gx_team *team = team_of(2);
    double x[] = {1, 2, 3, 4}, out[2];
    gx_args args = {.m = 2, .n = 2, .a = x, .lda = 2, .reduce_kind = GX_REDUCE_SUM, .reduce = out};
    gx_err err = {.code = GX_OK};
    assert_int_equal(
        gx_team_call(team, &gx_backend_cpu, NULL, GX_REDUCE, GX_F64, &args, NULL, &err), GX_OK);
    assert_true(out[0] == 10 && out[1] == 0);
    gx_team_free(team);
}

/* The steps of one long piece are polled, too. */
static void poll_stops_a_long_product(void **state)
{
    (void)state;
    enum { EDGE = 16, INNER = 60000 };
    block a = block_make(GX_F64, EDGE, INNER, EDGE), b = block_make(GX_F64, INNER, EDGE, INNER);
    block c = block_make(GX_F64, EDGE, EDGE, EDGE);
    uint64_t seed = SEED;
    block_fill(&a, &seed);
    block_fill(&b, &seed);
    gx_args args = {.m = EDGE,
                    .n = EDGE,
                    .k = INNER,
                    .alpha = {1, 0},
                    .a = a.data,
                    .lda = a.ld,
                    .b = b.data,
                    .ldb = b.ld,
                    .c = c.data,
                    .ldc = c.ld};
    gx_cut cut = {.m = EDGE, .n = EDGE, .k = 1000, .is_fixed = true};
    poller p = {.fail_at = 7};
    gx_team *team;
    gx_err err = {.code = GX_OK};
    assert_int_equal(gx_team_create(1, NULL, poll_count, &p, &team, &err), GX_OK);
    assert_int_equal(gx_team_call(team, &gx_backend_cpu, NULL, GX_GEMM, GX_F64, &args, &cut, &err),
                     GX_INTERRUPT);
    assert_int_equal(p.calls, 7);

    // What was stopped leaves nothing behind: the next call is complete, a small one as well.
    p.fail_at = 0;
    err.code = GX_OK;
    assert_int_equal(gx_team_call(team, &gx_backend_cpu, NULL, GX_GEMM, GX_F64, &args, &cut, &err),
                     GX_OK);
    gx_scalar whole = block_get(&c, 3, 4);
    double sum = 0;
    for (int64_t l = 0; l < INNER; l++) {
        sum += block_get(&a, 3, l).re * block_get(&b, l, 4).re;
    }
    assert_true(fabs(whole.re - sum) < 1e-9);
    gx_team_free(team);
    block_free(&a);
    block_free(&b);
    block_free(&c);
}

static void missing_kernels_are_named(void **state)
{
    (void)state;
    gx_backend bare = gx_backend_cpu;
    bare.kernel[GX_SYRK][GX_C64] = NULL;
    gx_args args = {.m = 1, .n = 1, .k = 1};
    gx_err err = {.code = GX_OK};
    assert_int_equal(gx_team_call(NULL, &bare, NULL, GX_SYRK, GX_C64, &args, NULL, &err),
                     GX_UNSUPPORTED);
    assert_string_equal(err.text, "cpu has no syrk for c64");
}

/*
** ---- teams
** --------------------------------------------------------------------------------------
*/

static void teams_come_and_go(void **state)
{
    (void)state;
    gx_mem *mem;
    gx_err err = {.code = GX_OK};
    assert_int_equal(gx_mem_create(1 << 20, &mem, &err), GX_OK);
    for (int i = 0; i < 100; i++) {
        gx_team *team;
        assert_int_equal(gx_team_create(i % 5, mem, NULL, NULL, &team, &err), GX_OK);
        assert_in_range(gx_team_threads(team), 1, 4);
        static tally t;
        memset(&t, 0, sizeof t);
        t.threads = gx_team_threads(team);
        t.bad_piece = -1;
        for (int job = 0; job < i % 4; job++) {
            assert_int_equal(gx_team_run(team, 1 + i % 7, count_piece, &t, &err), GX_OK);
        }
        gx_team_free(team);
        assert_int_equal(gx_mem_used(mem), 0);
    }
    gx_team *team = (gx_team *)1;
    gx_mem_set_limit(mem, 100);
    assert_int_equal(gx_team_create(4, mem, NULL, NULL, &team, &err), GX_BUDGET);
    assert_null(team);
    gx_mem_free_all(mem);
    gx_team_free(NULL);
    assert_int_equal(gx_team_threads(NULL), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_piece_once),
        cmocka_unit_test(first_failure_stops),
        cmocka_unit_test(poll_stops_between_pieces),
        cmocka_unit_test(poll_stops_while_waiting),
        cmocka_unit_test(fixed_cuts_give_the_same_bits),
        cmocka_unit_test(products_agree),
        cmocka_unit_test(long_products_agree),
        cmocka_unit_test(products_without_operands),
        cmocka_unit_test(elements_agree),
        cmocka_unit_test(reductions_run_on_the_caller),
        cmocka_unit_test(poll_stops_a_long_product),
        cmocka_unit_test(missing_kernels_are_named),
        cmocka_unit_test(teams_come_and_go),
    };
    printf("seed %llu\n", (unsigned long long)SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
