/*
** Sorting a line.
**
** Plan:
**   1  short and long lines of every kind (random, few different ones, sorted, falling, one value,
**      both zeros, NaN of either sign, infinities, subnormals): ascending, NaN last, equal ones as
**      they stood, a permutation; what the C library's sort of (value, index) says; pairs by rank,
**      how many different ones
**   2  a run that has failed: looked at, a permutation all the same
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "program/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 200000 };

static int by_value(const void *left, const void *right)
{
    const gx_ranked *a = left, *b = right;
    bool is_before = isnan(a->value) != 0 && isnan(b->value) != 0 ? a->index < b->index
                     : isnan(a->value) || isnan(b->value)         ? isnan(b->value) != 0
                     : a->value != b->value                       ? a->value < b->value
                                                                  : a->index < b->index;
    return is_before ? -1 : a->index != b->index;
}

static double element(int kind, int64_t k, int64_t length)
{
    const double odd[] = {0.0,     -0.0,        (double)NAN, -(double)NAN, INFINITY, -INFINITY,
                          5e-324, -5e-324, 1e308,       -1e308,       1,        -1};
    uint64_t bits = (uint64_t)(k + 1) * 0x9e3779b97f4a7c15u;
    double value;
    bits ^= bits >> 29;
    switch (kind) {
    case 0: // any bits
        bits *= 0xbf58476d1ce4e5b9u;
        memcpy(&value, &bits, sizeof value);
        return value;
    case 1:
        return odd[bits % (sizeof odd / sizeof *odd)];
    case 2:
        return (double)(bits % 1000);
    case 3:
        return (double)k;
    case 4:
        return (double)(length - k) / 3;
    default:
        return 7;
    }
}

static bool is_same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void check_pair(const double *line, int64_t length, int64_t k, void *work,
                       const gx_ranked *right)
{
    double pair[2];
    gx_order_pair(NULL, line, length, k, work, pair);
    assert_true(is_same(pair[0], right[k].value));
    assert_true(is_same(pair[1], right[k + 1 < length ? k + 1 : k].value));
}

static void test_sorted(void **state)
{
    const int64_t lengths[] = {0, 1, 2, 95, 96, 97, 1000, LONGEST};
    double *line = malloc(LONGEST * sizeof *line);
    gx_ranked *right = malloc(LONGEST * sizeof *right);
    void *work = malloc(gx_order_bytes(LONGEST));
    (void)state;
    for (int kind = 0; kind < 6; kind++) {
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            int64_t length = lengths[i];
            for (int64_t k = 0; k < length; k++) {
                line[k] = element(kind, k, length);
                right[k] = (gx_ranked){line[k], k};
            }
            qsort(right, (size_t)length, sizeof *right, by_value);
            assert_memory_equal(gx_order_line(NULL, line, length, work), right,
                                (size_t)length * sizeof *right);
            int64_t distinct = length > 0;
            for (int64_t k = 1; k < length; k++) {
                distinct += !is_same(right[k].value, right[k - 1].value);
            }
            assert_int_equal(gx_order_distinct(NULL, line, length, work), distinct);
            for (int64_t k = 0; k < length; k += 1 + length / 5) {
                check_pair(line, length, k, work, right);
            }
        }
    }
    free(line);
    free(right);
    free(work);
}

static void test_stopped(void **state)
{
    static double line[1000];
    static bool is_there[1000];
    void *work = malloc(gx_order_bytes(1000));
    gx_run run = {.lock = PTHREAD_MUTEX_INITIALIZER};
    (void)state;
    for (int k = 0; k < 1000; k++) {
        line[k] = -k;
    }
    gx_run_failf(&run, GX_INTERRUPT, "interrupted");
    const gx_ranked *order = gx_order_line(&run, line, 1000, work);
    assert_true(order[0].value != -999); // left before the work
    for (int k = 0; k < 1000; k++) {
        assert_true(order[k].value == line[order[k].index] && !is_there[order[k].index]);
        is_there[order[k].index] = true;
    }
    free(work);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sorted),
        cmocka_unit_test(test_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
