/*
** The gate of OpenBLAS's threads (kernels/cpu.h).
**
** Plan:
**   1. one thread is what a narrow section finds, before, between and after wide ones
**   2. a wide section has the threads it asked for, and nobody else is inside, narrow or wide
**   3. narrow sections run at the same time
**   4. products go on correctly while wide sections come and go
**   5. a wide section is left where its poll fails, in the middle of the call and while it waits
**      for another; another thread's look leaves nothing; the gate is free afterwards
**   6. whoever is inside a wide section passes the gate freely, and a poll's own calls are not left
**   7. a fork() waits until nobody else is inside; the gate is free in the child and goes on in
**      the parent; from inside a wide section it does not wait, and in the child that one ends, too
*/
#include "../../../kernels/cpu.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cblas.h>
#include <cmocka.h>

typedef struct visitors {
    atomic_int narrow, wide; /* inside now                        */
    atomic_int most_narrow;  /* most narrow ones at the same time */
    atomic_int wrong;        /* broken rules                      */
} visitors;

static void note_most(atomic_int *most, int now)
{
    int old = atomic_load(most);
    while (now > old && !atomic_compare_exchange_weak(most, &old, now)) {
    }
}

static void *narrow_visitor(void *arg)
{
    visitors *v = arg;
    for (int i = 0; i < 200; i++) {
        gx_err err = {.code = GX_OK};
        gx_cpu_narrow_begin(&err);
        note_most(&v->most_narrow, atomic_fetch_add(&v->narrow, 1) + 1);
        if (atomic_load(&v->wide) != 0 || openblas_get_num_threads() != 1) {
            atomic_fetch_add(&v->wrong, 1);
        }
        usleep(20);
        atomic_fetch_sub(&v->narrow, 1);
        gx_cpu_narrow_end();
    }
    return NULL;
}

static void stay_alone(void *arg)
{
    visitors *v = arg;
    int others = atomic_fetch_add(&v->wide, 1) + atomic_load(&v->narrow);
    if (others != 0 || openblas_get_num_threads() != 2) {
        atomic_fetch_add(&v->wrong, 1);
    }
    usleep(50);
    atomic_fetch_sub(&v->wide, 1);
}

static void *wide_visitor(void *arg)
{
    gx_args args = {.threads = 2};
    gx_err err = {.code = GX_OK};
    for (int i = 0; i < 30; i++) {
        gx_cpu_wide(&args, 1000, stay_alone, arg, &err);
        usleep(50);
    }
    return NULL;
}

static void wide_excludes(void **state)
{
    (void)state;
    visitors v = {0};
    pthread_t threads[5];
    for (int i = 0; i < 5; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, i < 3 ? narrow_visitor : wide_visitor, &v), 0);
    }
    for (int i = 0; i < 5; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(v.wrong, 0);
    assert_in_range(v.most_narrow, 2, 3);
    gx_err err = {.code = GX_OK};
    assert_int_equal(gx_cpu_narrow_begin(&err), GX_OK);
    assert_int_equal(openblas_get_num_threads(), 1);
    gx_cpu_narrow_end();
}

// Products ----------------------------------------------------------------------------------------

enum { SIDE = 40 };

static void *multiply_ones(void *arg)
{
    double ones[SIDE * SIDE];
    for (int e = 0; e < SIDE * SIDE; e++) {
        ones[e] = 1;
    }
    visitors *v = arg;
    double c[SIDE * SIDE];
    gx_args args = {.m = SIDE,
                    .n = SIDE,
                    .k = SIDE,
                    .alpha = {1, 0},
                    .a = ones,
                    .lda = SIDE,
                    .b = ones,
                    .ldb = SIDE,
                    .c = c,
                    .ldc = SIDE};
    gx_err err = {.code = GX_OK};
    for (int i = 0; i < 300; i++) {
        gx_code code = gx_cpu_gemm_f64(NULL, NULL, &args, &err);
        for (int e = 0; e < SIDE * SIDE; e++) {
            if (code != GX_OK || c[e] != SIDE) {
                atomic_fetch_add(&v->wrong, 1);
            }
        }
    }
    return NULL;
}

static void products_pass_the_gate(void **state)
{
    (void)state;
    visitors v = {0};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, i < 3 ? multiply_ones : wide_visitor, &v), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(v.wrong, 0);
}

// Leaving -----------------------------------------------------------------------------------------

/* A poll that fails the third time. */
static gx_code third_fails(void *arg, gx_err *err)
{
    atomic_int *polls = arg;
    return atomic_fetch_add(polls, 1) < 2 ? GX_OK : gx_fail(err, GX_INTERRUPT, "third");
}

static void *look(void *arg)
{
    gx_cpu_look();
    return arg;
}

/* Ends by being left alone. */
static void look_for_ever(void *arg)
{
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, look, arg), 0);
    pthread_join(other, NULL);
    for (;;) {
        gx_cpu_look();
    }
}

static void left_in_the_middle(void **state)
{
    (void)state;
    atomic_int polls = 0;
    gx_err err = {.code = GX_OK};
    gx_args args = {.threads = 2, .poll = third_fails, .poll_arg = &polls};
    assert_int_equal(gx_cpu_wide(&args, 1000, look_for_ever, &polls, &err), GX_INTERRUPT);
    assert_string_equal(err.text, "third");
    assert_int_equal(polls, 3);
    gx_cpu_look(); // outside: nothing
    assert_int_equal(gx_cpu_narrow_begin(&err), GX_OK);
    assert_int_equal(openblas_get_num_threads(), 1);
    gx_cpu_narrow_end();
}

typedef struct holder {
    atomic_bool is_inside, may_go;
} holder;

static void hold(void *arg)
{
    holder *h = arg;
    atomic_store(&h->is_inside, true);
    while (!atomic_load(&h->may_go)) {
        usleep(100);
    }
}

static void *hold_gate(void *arg)
{
    gx_args args = {.threads = 1};
    gx_err err = {.code = GX_OK};
    gx_cpu_wide(&args, 1000, hold, arg, &err);
    return NULL;
}

static void never(void *arg)
{
    (void)arg;
    fail();
}

static void left_while_waiting(void **state)
{
    (void)state;
    holder h = {0};
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, hold_gate, &h), 0);
    while (!atomic_load(&h.is_inside)) {
        usleep(100);
    }
    atomic_int polls = 0;
    gx_err err = {.code = GX_OK};
    gx_args args = {.poll = third_fails, .poll_arg = &polls};
    assert_int_equal(gx_cpu_wide(&args, 1000, never, NULL, &err), GX_INTERRUPT);
    assert_false(h.may_go);
    atomic_store(&h.may_go, true);
    pthread_join(other, NULL);
}

static void count(void *arg)
{
    ++*(int *)arg;
    gx_cpu_look();
}

/* A poll that computes: what it calls is not left, and finds the gate open. */
static gx_code compute(void *arg, gx_err *err)
{
    gx_args args = {.threads = 2, .poll = compute, .poll_arg = arg};
    GX_TRY(gx_cpu_narrow_begin(err));
    gx_cpu_narrow_end();
    return gx_cpu_wide(&args, 1000, count, arg, err);
}

static void polls_may_compute(void **state)
{
    (void)state;
    int calls = 0;
    gx_err err = {.code = GX_OK};
    gx_args args = {.threads = 2, .poll = compute, .poll_arg = &calls};
    assert_int_equal(gx_cpu_wide(&args, 1000, count, &calls, &err), GX_OK);
    assert_int_equal(calls, 2);
    assert_int_equal(gx_cpu_wide(&args, 1000, count, &calls, &err), GX_OK); // the gate is free
}

// Forks -------------------------------------------------------------------------------------------

// TSan knows nothing of locks, nor of new threads, in a fork's child.
#ifndef __SANITIZE_THREAD__

/* In the child; where the gate is not free the alarm ends it. */
static int pass_the_gate(visitors *v)
{
    alarm(20);
    int inside = atomic_load(&v->narrow) + atomic_load(&v->wide);
    gx_args args = {.threads = 2};
    gx_err err = {.code = GX_OK};
    bool passes = gx_cpu_wide(&args, 1000, stay_alone, v, &err) == GX_OK &&
                  gx_cpu_narrow_begin(&err) == GX_OK;
    gx_cpu_narrow_end();
    return inside == 0 && passes && atomic_load(&v->wrong) == 0 ? 0 : 1;
}

static void assert_child_passes(pid_t child)
{
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void forks_find_the_gate_free(void **state)
{
    (void)state;
    visitors v = {0};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, i < 2 ? narrow_visitor : wide_visitor, &v), 0);
    }
    for (int k = 0; k < 8; k++) {
        usleep(500);
        pid_t child = fork();
        if (child == 0) {
            _exit(pass_the_gate(&v));
        }
        assert_child_passes(child);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(v.wrong, 0);
}

static void fork_inside(void *arg)
{
    *(pid_t *)arg = fork();
}

static void forks_inside_a_wide_section(void **state)
{
    (void)state;
    visitors v = {0};
    pid_t child = -1;
    gx_err err = {.code = GX_OK};
    gx_args args = {.threads = 2};
    gx_code code = gx_cpu_wide(&args, 1000, fork_inside, &child, &err);
    if (child == 0) {
        _exit(pass_the_gate(&v));
    }
    assert_int_equal(code, GX_OK);
    assert_child_passes(child);
    assert_int_equal(gx_cpu_wide(&args, 1000, stay_alone, &v, &err), GX_OK);
    assert_int_equal(v.wrong, 0);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wide_excludes),
        cmocka_unit_test(products_pass_the_gate),
        cmocka_unit_test(left_in_the_middle),
        cmocka_unit_test(left_while_waiting),
        cmocka_unit_test(polls_may_compute),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(forks_find_the_gate_free),
        cmocka_unit_test(forks_inside_a_wide_section),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
