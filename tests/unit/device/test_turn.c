/*
** Turns of connections on a device, on a backend that does at once what it is told (turn.h).
**
** Plan:
**   1  what takes long is cut where somebody else uses the device, along each side that there is,
**      to the same numbers; whole where nobody does, where 'deterministic' is on, and while a
**      record is made
**   2  two connections with pieces of unlike size get the same seconds, whenever one looks; one of
**      them comes back from a pause, and is owed nothing
**   3  who waits goes on when the other one leaves, rests or never comes back, and when its run
**      fails
**   4  the queue is preferred for the first milliseconds of each call
**   5  two pieces are under way at most; a mark that fails is the kernel's failure
**   6  who is short of its share gets what idle connections keep above theirs, the oldest first,
**      and nothing of those that have a call or buffers under way; nobody borrows for a while then
*/
#include "device/accel.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { LONG = 600, SHORT = 40, ELEMENTS = LONG * LONG };

/* One connection. */
typedef struct user {
    gx_ctx ctx;
    gx_run run;
    gx_accel accel;
} user;

/* What the backend has been told. */
static _Atomic int64_t kernels;
static _Atomic int64_t marks, marks_set, marks_waited, preferred, ordinary;
static bool marks_fail;
static gx_backend backend;

#define WRAPPED(ID, dtype)                                                                         \
    static gx_code ID##_##dtype(gx_dev *dev, gx_queue *queue, const gx_args *args, gx_err *err)    \
    {                                                                                              \
        kernels++;                                                                                 \
        return gx_backend_ref.kernel[ID][dtype](dev, queue, args, err);                            \
    }
WRAPPED(GX_GEMM, GX_F64)
WRAPPED(GX_GEMM, GX_C128)
WRAPPED(GX_SYRK, GX_F64)
WRAPPED(GX_HERK, GX_C128)
WRAPPED(GX_TRSM, GX_F64)
WRAPPED(GX_TRMM, GX_F64)

static gx_code idle(gx_dev *dev, gx_queue *queue, const gx_args *args, gx_err *err)
{
    (void)dev, (void)queue, (void)args, (void)err;
    kernels++;
    return GX_OK;
}

static gx_code mark_create(gx_dev *dev, gx_mark **mark, gx_err *err)
{
    (void)dev;
    *mark = marks_fail ? NULL : (gx_mark *)(void *)&marks;
    marks += !marks_fail;
    return marks_fail ? gx_fail(err, GX_DEVICE, "no marks") : GX_OK;
}

static void mark_free(gx_dev *dev, gx_mark *mark)
{
    (void)dev;
    marks -= mark != NULL;
}

static gx_code mark_set(gx_dev *dev, gx_queue *queue, gx_mark *mark, gx_err *err)
{
    (void)dev, (void)queue, (void)mark, (void)err;
    marks_set++;
    return GX_OK;
}

static gx_code mark_wait(gx_dev *dev, gx_mark *mark, gx_err *err)
{
    (void)dev, (void)mark, (void)err;
    marks_waited++;
    return GX_OK;
}

/* Memory of a device of DEVICE_BYTES, of which `taken` are. */
enum { DEVICE_BYTES = 1 << 20, BLOCK = 64 << 10 };
static size_t taken;

static gx_code alloc(gx_dev *dev, size_t bytes, void **ptr, gx_err *err)
{
    (void)dev;
    if (bytes > DEVICE_BYTES - taken) {
        return gx_fail(err, GX_NOMEM, "full");
    }
    size_t *room = malloc(sizeof *room);
    *room = bytes;
    taken += bytes;
    *ptr = room;
    return GX_OK;
}

static void give(gx_dev *dev, void *ptr)
{
    (void)dev;
    taken -= *(size_t *)ptr;
    free(ptr);
}

static gx_code info(gx_dev *dev, gx_dev_info *out, gx_err *err)
{
    (void)dev, (void)err;
    *out = (gx_dev_info){.total_bytes = DEVICE_BYTES, .free_bytes = DEVICE_BYTES - taken};
    return GX_OK;
}

static gx_code queue_prefer(gx_dev *dev, gx_queue *queue, bool is_preferred, gx_err *err)
{
    (void)dev, (void)queue, (void)err;
    preferred += is_preferred;
    ordinary += !is_preferred;
    return GX_OK;
}

static void user_up(user *u)
{
    memset(u, 0, sizeof *u);
    u->run.ctx = &u->ctx;
    u->run.start_ns = gx_now_ns();
    u->accel.backend = &backend;
    gx_device_profile *p = &u->accel.profile;
    gx_profile_guess_device(p);
    p->launch_s = 1e-6;
    p->sweep_bytes_per_s = 1e12;
    for (int d = 0; d < GX_FLOATS; d++) {
        for (int k = 0; k < GX_DEVICE_SIZES; k++) {
            p->gemm_flops_per_s[d][k] = 2e8;
        }
    }
    gx_err err = {0};
    assert_int_equal(info(NULL, &u->accel.info, &err), GX_OK);
    assert_int_equal(gx_pool_create(&backend, NULL, NULL, &u->ctx.stats, &u->accel.pool, &err),
                     GX_OK);
    gx_turn_enter(&u->accel.turn, 3, u->accel.pool);
}

static void user_down(user *u)
{
    gx_turn_leave(&u->accel.turn);
    gx_pool_free(u->accel.pool);
    for (int k = 0; k < 2; k++) {
        mark_free(NULL, u->accel.turn.mark[k]);
    }
}

/* Work of about so many seconds, of which the backend does nothing. */
static gx_code enqueue(user *u, double seconds)
{
    gx_err err = {0};
    gx_args args = {.m = 100, .n = 100, .k = (int64_t)(seconds * 2e8 / 2e4)};
    return gx_turn_kernel(&u->run, &u->accel, GX_GEMM, GX_F32, &args, &err);
}

static int up(void **state)
{
    (void)state;
    backend = gx_backend_ref;
    backend.kernel[GX_GEMM][GX_F64] = GX_GEMM_GX_F64;
    backend.kernel[GX_GEMM][GX_C128] = GX_GEMM_GX_C128;
    backend.kernel[GX_SYRK][GX_F64] = GX_SYRK_GX_F64;
    backend.kernel[GX_HERK][GX_C128] = GX_HERK_GX_C128;
    backend.kernel[GX_TRSM][GX_F64] = GX_TRSM_GX_F64;
    backend.kernel[GX_TRMM][GX_F64] = GX_TRMM_GX_F64;
    backend.kernel[GX_GEMM][GX_F32] = idle;
    backend.workspace = NULL;
    backend.mark_create = mark_create;
    backend.mark_free = mark_free;
    backend.mark_set = mark_set;
    backend.mark_wait = mark_wait;
    backend.queue_prefer = queue_prefer;
    backend.alloc = alloc;
    backend.free = give;
    backend.info = info;
    kernels = 0;
    marks = marks_set = marks_waited = preferred = ordinary = 0;
    marks_fail = false;
    return 0;
}

static int down(void **state)
{
    (void)state;
    return marks != 0 || taken != 0;
}

// Cuts --------------------------------------------------------------------------------------------

/* Numbers of a fixed sequence, with twos on the diagonals so that triangles can be solved. */
static double *numbers(int seed)
{
    double *x = malloc(2 * ELEMENTS * sizeof *x);
    uint32_t s = (uint32_t)seed * 2654435761u + 1;
    for (int64_t k = 0; k < 2 * (int64_t)ELEMENTS; k++) {
        s = s * 1664525u + 1013904223u;
        x[k] = (double)(s >> 8) / (1 << 24) - 0.5;
        x[k] = k % (LONG + 1) == 0 ? 20 : x[k] / LONG;
    }
    return x;
}

/* Kernels that the call was made of. */
static int64_t run_call(user *u, gx_kernel_id id, gx_number dtype, gx_args args, double *c)
{
    gx_err err = {0};
    int64_t before = kernels;
    args.c = c;
    gx_turn_rest(&u->accel.turn);
    assert_int_equal(gx_turn_kernel(&u->run, &u->accel, id, dtype, &args, &err), GX_OK);
    return kernels - before;
}

static void test_cuts(void **state)
{
    (void)state;
    double *a = numbers(1), *b = numbers(2);
    const struct {
        gx_kernel_id id;
        gx_number dtype;
        gx_args args;
        int64_t pieces;
    } calls[] = {
        {GX_GEMM, GX_F64, {.m = SHORT, .n = LONG, .k = LONG}, 3},
        {GX_GEMM, GX_F64, {.m = SHORT, .n = LONG, .k = LONG, .transb = GX_TRANS}, 3},
        {GX_GEMM, GX_F64, {.m = LONG, .n = SHORT, .k = LONG}, 3},
        {GX_GEMM, GX_F64, {.m = LONG, .n = SHORT, .k = LONG, .transa = GX_TRANS}, 3},
        {GX_GEMM, GX_F64, {.m = SHORT, .n = 2 * SHORT, .k = LONG}, 3},
        {GX_GEMM,
         GX_C128,
         {.m = 2 * SHORT, .n = SHORT, .k = LONG, .transa = GX_CONJ_TRANS, .transb = GX_TRANS},
         3},
        {GX_SYRK, GX_F64, {.n = 3 * SHORT, .k = LONG, .uplo = GX_LOWER}, 3},
        {GX_SYRK, GX_F64, {.n = 3 * SHORT, .k = LONG, .uplo = GX_UPPER, .transa = GX_TRANS}, 3},
        {GX_HERK, GX_C128, {.n = 3 * SHORT, .k = LONG, .transa = GX_CONJ_TRANS}, 3},
        {GX_TRSM, GX_F64, {.m = 2 * SHORT, .n = LONG, .side = GX_LEFT, .uplo = GX_LOWER}, 3},
        {GX_TRSM, GX_F64, {.m = LONG, .n = 2 * SHORT, .side = GX_RIGHT, .uplo = GX_UPPER}, 3},
        {GX_TRMM, GX_F64, {.m = 2 * SHORT, .n = LONG, .side = GX_LEFT, .uplo = GX_UPPER}, 3},
        {GX_TRMM, GX_F64, {.m = LONG, .n = 2 * SHORT, .side = GX_RIGHT, .uplo = GX_LOWER}, 3},
    };
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
        user alone, other;
        double *whole = numbers(3), *cut = numbers(3), *fixed = numbers(3);
        gx_args args = calls[k].args;
        args.a = a;
        args.b = b;
        args.lda = args.ldb = args.ldc = LONG;
        args.alpha.re = 0.7;
        args.beta.re = -0.3;
        user_up(&alone);
        assert_int_equal(run_call(&alone, calls[k].id, calls[k].dtype, args, whole), 1);
        user_up(&other);
        assert_int_equal(enqueue(&other, 1e-3), GX_OK);
        assert_int_equal(run_call(&alone, calls[k].id, calls[k].dtype, args, cut), calls[k].pieces);
        for (int64_t i = 0; i < 2 * (int64_t)ELEMENTS; i++) {
            assert_true(fabs(whole[i] - cut[i]) <= 1e-13 * (1 + fabs(whole[i])));
        }
        gx_turn_record(&alone.accel, true);
        assert_int_equal(run_call(&alone, calls[k].id, calls[k].dtype, args, cut), 1);
        gx_turn_record(&alone.accel, false);
        assert_true(alone.accel.turn.recorded_s > GX_TURN_PIECE_S);
        alone.ctx.config.number[GX_SET_DETERMINISTIC] = 1;
        assert_int_equal(run_call(&alone, calls[k].id, calls[k].dtype, args, fixed), 1);
        assert_memory_equal(fixed, whole, ELEMENTS * sizeof *whole);
        user_down(&other);
        user_down(&alone);
        free(whole);
        free(cut);
        free(fixed);
    }
    free(a);
    free(b);
}

// Shares ------------------------------------------------------------------------------------------

static const double FAR_S = 2 * GX_TURN_LEAD_S + 8e-3;

typedef struct tenant {
    user u;
    double piece_s, all_s;
    _Atomic int64_t had_us, far;
    struct tenant *other;
    atomic_bool has_ended;
    pthread_t thread;
} tenant;

static void *work(void *arg)
{
    tenant *t = arg;
    while ((double)t->had_us * 1e-6 < t->all_s && enqueue(&t->u, t->piece_s) == GX_OK) {
        t->had_us += (int64_t)(t->piece_s * 1e6);
        double apart_s = (double)(t->had_us - t->other->had_us) * 1e-6;
        t->far += !t->other->has_ended && t->other->had_us > 0 && apart_s > FAR_S;
    }
    gx_turn_rest(&t->u.accel.turn);
    t->has_ended = true;
    return NULL;
}

static void test_shares(void **state)
{
    (void)state;
    tenant a = {.piece_s = 8e-3, .all_s = 1.0}, b = {.piece_s = 1e-3, .all_s = 1.0};
    a.other = &b;
    b.other = &a;
    user_up(&a.u);
    user_up(&b.u);
    assert_int_equal(enqueue(&a.u, 1e-3), GX_OK); // both are there from the beginning
    assert_int_equal(enqueue(&b.u, 1e-3), GX_OK);
    a.u.accel.turn.until_ns = b.u.accel.turn.until_ns = gx_now_ns() + 100000000;
    assert_int_equal(pthread_create(&a.thread, NULL, work, &a), 0);
    assert_int_equal(pthread_create(&b.thread, NULL, work, &b), 0);
    pthread_join(a.thread, NULL);
    pthread_join(b.thread, NULL);
    assert_int_equal(a.far + b.far, 0);
    assert_true(gx_stats_get(&a.u.ctx.stats, GX_STAT_TURN_NS) +
                    gx_stats_get(&b.u.ctx.stats, GX_STAT_TURN_NS) >
                0);
    // After a pause in which a had ten seconds, b is where a is.
    for (int k = 0; k < 1000; k++) {
        assert_int_equal(enqueue(&a.u, 8e-3), GX_OK);
    }
    assert_int_equal(enqueue(&b.u, 1e-3), GX_OK);
    double apart_s = a.u.accel.turn.served_s - b.u.accel.turn.served_s;
    assert_true(apart_s < FAR_S && apart_s > -FAR_S);
    user_down(&a.u);
    user_down(&b.u);
}

static void *enqueue_one(void *arg)
{
    return enqueue(arg, 1e-3) == GX_OK ? arg : NULL;
}

typedef enum ending { LEAVES, RESTS, FAILS, STAYS } ending;

static void test_wait_ends(void **state)
{
    (void)state;
    for (ending how = LEAVES; how <= STAYS; how++) {
        user ahead, behind;
        pthread_t thread;
        void *done = NULL;
        user_up(&ahead);
        user_up(&behind);
        assert_int_equal(enqueue(&behind, 1e-3), GX_OK);
        behind.accel.turn.until_ns = INT64_MAX; // it never says that it has done
        ahead.accel.turn.served_s = behind.accel.turn.served_s + 1;
        ahead.accel.turn.until_ns = INT64_MAX / 2;
        int64_t start_ns = gx_now_ns();
        assert_int_equal(pthread_create(&thread, NULL, enqueue_one, &ahead), 0);
        usleep(how == STAYS ? 0 : 20000); // it waits by then
        if (how == LEAVES) {
            gx_turn_leave(&behind.accel.turn);
        } else if (how == RESTS) {
            gx_turn_rest(&behind.accel.turn);
        } else if (how == FAILS) {
            atomic_store(&ahead.run.stopped, true);
        }
        pthread_join(thread, &done);
        assert_true(done != NULL);
        double waited_s = (double)(gx_now_ns() - start_ns) * 1e-9;
        assert_true(how == STAYS ? waited_s >= 0.25 : waited_s < 0.25);
        user_down(&behind);
        user_down(&ahead);
    }
}

// Order -------------------------------------------------------------------------------------------

static void test_preference(void **state)
{
    (void)state;
    user u, other;
    user_up(&u);
    assert_int_equal(enqueue(&u, 1e-3), GX_OK); // alone: as the queue is
    user_up(&other);
    assert_int_equal(enqueue(&u, 1e-3), GX_OK); // nobody else has come yet
    assert_int_equal(preferred + ordinary, 0);
    assert_int_equal(enqueue(&other, 5e-3), GX_OK); // long: as the queue is
    assert_int_equal(preferred + ordinary, 0);
    for (int call = 1; call <= 3; call++) {
        u.run.start_ns++;
        for (int k = 0; k < 4; k++) {
            assert_int_equal(enqueue(&u, 0.9e-3), GX_OK);
            assert_int_equal(preferred, call);
            assert_int_equal(ordinary, k < 2 ? call - 1 : call);
        }
    }
    user_down(&u);
    user_down(&other);
}

static void test_marks(void **state)
{
    (void)state;
    user u, other;
    user_up(&u);
    user_up(&other);
    for (int k = 0; k < 20; k++) {
        assert_int_equal(enqueue(&other, 1e-4), GX_OK);
        other.accel.turn.until_ns = 0;
        assert_int_equal(enqueue(&u, 8e-3), GX_OK);
        assert_int_equal(marks_set, k);
        assert_int_equal(marks_waited, k > 1 ? k - 1 : 0); // k pieces before, of which one may run
    }
    gx_turn_rest(&u.accel.turn);
    int64_t set = marks_set, waited = marks_waited;
    assert_int_equal(enqueue(&u, 8e-3), GX_OK);
    assert_int_equal(enqueue(&u, 8e-3), GX_OK);
    assert_true(marks_set == set + 1 && marks_waited == waited);
    user_down(&u);
    user_up(&u);
    marks_fail = true;
    assert_int_equal(enqueue(&u, 8e-3), GX_OK);
    assert_int_equal(enqueue(&u, 8e-3), GX_DEVICE);
    user_down(&u);
    user_down(&other);
}

// Memory ------------------------------------------------------------------------------------------

/* A connection keeps so many blocks, number `first` the one used longest ago. */
static void keep(user *u, int first, int count)
{
    gx_err err = {0};
    for (int k = first; k < first + count; k++) {
        gx_block_key key = {.file = 2, .id = k, .m = 1, .n = 1};
        void *block = NULL;
        assert_int_equal(gx_pool_take(u->accel.pool, BLOCK, DEVICE_BYTES, &block, &err), GX_OK);
        gx_pool_keep(u->accel.pool, &key, block, BLOCK);
    }
}

static bool holds(const user *u, int k)
{
    gx_block_key key = {.file = 2, .id = k, .m = 1, .n = 1};
    return gx_pool_holds(u->accel.pool, &key, BLOCK);
}

/* What the connection may take for a call that wants so much. */
static size_t limit_of(user *u, double wanted)
{
    gx_err err = {0};
    size_t bytes = 0;
    u->accel.seen_bytes = 0;
    assert_int_equal(gx_accel_limit(&u->ctx, &u->accel, wanted, &bytes, &err), GX_OK);
    return bytes;
}

static void test_memory(void **state)
{
    (void)state;
    user a, b;
    const size_t share = DEVICE_BYTES / 5 * 4 / 2;
    void *lent = NULL;
    gx_err err = {0};
    user_up(&a);
    keep(&a, 0, 12); // three quarters
    assert_true(limit_of(&a, 1e9) > share);
    user_up(&b);
    assert_true(limit_of(&b, 1e5) < share && gx_pool_kept(a.accel.pool) == 12); // enough for that
    gx_turn_attend(&a.accel.turn, true);
    assert_true(!gx_turn_is_short(&b.accel.turn));
    assert_true(limit_of(&b, 1e9) < share && gx_pool_kept(a.accel.pool) == 12); // a has a call
    assert_true(gx_turn_is_short(&a.accel.turn) && limit_of(&a, 1e9) == share);
    gx_turn_attend(&a.accel.turn, false);
    assert_int_equal(gx_pool_take(a.accel.pool, BLOCK, DEVICE_BYTES, &lent, &err), GX_OK);
    assert_true(limit_of(&b, 1e9) < share && gx_pool_kept(a.accel.pool) == 12);
    gx_pool_give(a.accel.pool, lent, BLOCK);
    assert_true(limit_of(&b, 1e9) >= share - BLOCK);
    assert_true(gx_pool_device_bytes(a.accel.pool) <= DEVICE_BYTES / 2);
    assert_true(!holds(&a, 0) && holds(&a, 11));
    assert_true(gx_pool_kept(a.accel.pool) >= 6); // its share, and what b has no use for
    assert_true(gx_stats_get(&a.ctx.stats, GX_STAT_DEVICE_EVICTIONS) > 0);
    b.ctx.config.number[GX_SET_DEVICE_MEMORY_LIMIT] = 1000;
    assert_int_equal(limit_of(&b, 1e9), 1000);
    user_down(&b);
    assert_true(limit_of(&a, 1e9) > share); // alone again
    user_down(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cuts, up, down),
        cmocka_unit_test_setup_teardown(test_shares, up, down),
        cmocka_unit_test_setup_teardown(test_wait_ends, up, down),
        cmocka_unit_test_setup_teardown(test_preference, up, down),
        cmocka_unit_test_setup_teardown(test_marks, up, down),
        cmocka_unit_test_setup_teardown(test_memory, up, down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
