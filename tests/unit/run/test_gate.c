/*
** The gate of OpenBLAS's threads (kernels/cpu.h).
**
** Plan:
**   1. one thread is what a narrow section finds, before, between and after wide ones
**   2. a wide section has the threads it asked for, and nobody else is inside, narrow or wide
**   3. narrow sections run at the same time
**   4. products go on correctly while wide sections come and go
*/
#include "../../../kernels/cpu.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
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
        gx_cpu_narrow_begin();
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

static void *wide_visitor(void *arg)
{
    visitors *v = arg;
    for (int i = 0; i < 30; i++) {
        gx_cpu_wide_begin(2, 1000);
        int others = atomic_fetch_add(&v->wide, 1) + atomic_load(&v->narrow);
        if (others != 0 || openblas_get_num_threads() != 2) {
            atomic_fetch_add(&v->wrong, 1);
        }
        usleep(50);
        atomic_fetch_sub(&v->wide, 1);
        gx_cpu_wide_end();
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
    gx_cpu_narrow_begin();
    assert_int_equal(openblas_get_num_threads(), 1);
    gx_cpu_narrow_end();
}

/* ---- products ------------------------------------------------------------------------------- */

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wide_excludes),
        cmocka_unit_test(products_pass_the_gate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
