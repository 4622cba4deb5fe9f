/*
** The ledger of predictions.
**
** Plan: nothing known is a factor of 1; one call is believed at once, later ones smoothed; the
** factor is bounded by 1/4 and 4, interpolated between sizes, halved in the logarithm with each
** doubling beyond them; functions and places are apart; ageing fades it; ratios are those of the
** predictions, not of the model; a full table forgets what was seen least; figures that are no
** times are passed over; the passes of a search are those of the latest with its key.
*/
#include "base/ledger.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Work of a product of order n. */
static double product(double n)
{
    return 2 * n * n * n;
}

static void near(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-9 * fabs(expected))) {
        fail_msg("found %.17g, expected %.17g", found, expected);
    }
}

static void test_empty(void **state)
{
    (void)state;
    gx_ledger ledger = {0};
    near(gx_ledger_factor(&ledger, "gx_matmul", false, product(100)), 1);
    gx_ledger_age(&ledger, "gx_matmul", false, product(100));
    gx_ledger_add(&ledger, "gx_matmul", false, product(100), 0, 1, 1);
    gx_ledger_add(&ledger, "gx_matmul", false, product(100), 1, 1, NAN);
    assert_int_equal(ledger.rows, 0);
}

static void test_smoothing(void **state)
{
    (void)state;
    gx_ledger ledger = {0};
    gx_ledger_add(&ledger, "gx_matmul", false, product(1024), 1, 1, 2);
    near(gx_ledger_factor(&ledger, "gx_matmul", false, product(1024)), 2);
    near(gx_ledger_factor(&ledger, "gx_matmul", true, product(1024)), 1);
    near(gx_ledger_factor(&ledger, "gx_cholesky", false, product(1024)), 1);
    gx_ledger_add(&ledger, "gx_matmul", false, product(1024), 1, 2, 1);
    near(gx_ledger_factor(&ledger, "gx_matmul", false, product(1024)), sqrt(2));
    assert_int_equal(ledger.rows, 1);
    assert_int_equal(ledger.row[0].calls, 2);
    assert_int_equal(ledger.row[0].size, 10);
    near(ledger.row[0].least, 0.5);
    near(ledger.row[0].most, 2);
    near(ledger.row[0].log_ratio + 1, 1);
    for (int k = 0; k < 50; k++) {
        gx_ledger_add(&ledger, "gx_matmul", false, product(1024), 1, 1, 100);
    }
    double factor = gx_ledger_factor(&ledger, "gx_matmul", false, product(1024));
    assert_true(factor > 3.99 && factor <= 4);
    gx_ledger_add(&ledger, "gx_norm", false, 0, 100, 100, 1);
    near(gx_ledger_factor(&ledger, "gx_norm", false, 0), 0.25);
    double before = log(factor);
    gx_ledger_age(&ledger, "gx_matmul", false, product(1024));
    near(log(gx_ledger_factor(&ledger, "gx_matmul", false, product(1024))), 0.98 * before);
}

static void test_first_on_device(void **state)
{
    (void)state;
    gx_ledger ledger = {0};
    gx_ledger_add(&ledger, "gx_matmul", true, product(1024), 1, 1, 4);
    near(gx_ledger_factor(&ledger, "gx_matmul", true, product(1024)), 1);
    gx_ledger_add(&ledger, "gx_matmul", true, product(1024), 1, 1, 4);
    near(gx_ledger_factor(&ledger, "gx_matmul", true, product(1024)), 2);
    gx_ledger_add(&ledger, "gx_norm", true, product(1024), 1, 1, 0.5);
    near(gx_ledger_factor(&ledger, "gx_norm", true, product(1024)), 0.5);
}

static void test_sizes(void **state)
{
    (void)state;
    gx_ledger ledger = {0};
    gx_ledger_add(&ledger, "gx_matmul", false, product(256), 1, 1, 4);
    gx_ledger_add(&ledger, "gx_matmul", false, product(1024), 1, 1, 1);
    assert_int_equal(ledger.rows, 2);
    near(gx_ledger_factor(&ledger, "gx_matmul", false, product(256)), 4);
    near(gx_ledger_factor(&ledger, "gx_matmul", false, product(512)), 2);
    near(gx_ledger_factor(&ledger, "gx_matmul", false, product(16384)), 1);
    double below = log(gx_ledger_factor(&ledger, "gx_matmul", false, product(256 / sqrt(8))));
    near(below, log(4) / 2); // one and a half away, of which half a one is near
}

static void test_full(void **state)
{
    (void)state;
    gx_ledger ledger = {0};
    char label[GX_LEDGER_LABEL + 20];
    for (int k = 0; k < GX_LEDGER_ROWS; k++) {
        snprintf(label, sizeof label, "f%d_with_a_name_that_is_far_too_long", k);
        gx_ledger_add(&ledger, label, false, product(64), 1, 1, 2);
        if (k != 3) {
            gx_ledger_add(&ledger, label, false, product(64), 1, 1, 2);
        }
    }
    assert_int_equal(ledger.rows, GX_LEDGER_ROWS);
    gx_ledger_add(&ledger, "new", false, product(64), 1, 1, 3);
    assert_int_equal(ledger.rows, GX_LEDGER_ROWS);
    near(gx_ledger_factor(&ledger, "new", false, product(64)), 3);
    near(gx_ledger_factor(&ledger, "f3_with_a_name_that_is_far_too_long", false, product(64)), 1);
    near(gx_ledger_factor(&ledger, "f4_with_a_name_that_is_far_too_long", false, product(64)), 2);
}

static void test_passes(void **state)
{
    gx_ledger ledger = {0};
    (void)state;
    assert_int_equal(gx_ledger_passes(&ledger, 7), 0);
    gx_ledger_add_passes(&ledger, 7, 30);
    gx_ledger_add_passes(&ledger, 0, 99);
    gx_ledger_add_passes(&ledger, 7, 20);
    assert_int_equal(gx_ledger_passes(&ledger, 7), 20);
    assert_int_equal(gx_ledger_passes(&ledger, 0), 0);
    for (uint64_t key = 100; key < 100 + GX_LEDGER_SEARCHES; key++) {
        gx_ledger_add_passes(&ledger, key, (int64_t)key);
    }
    assert_int_equal(gx_ledger_passes(&ledger, 7), 0);
    assert_int_equal(gx_ledger_passes(&ledger, 100), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_smoothing),
        cmocka_unit_test(test_first_on_device),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
