/*
** Host or device, by given rates: core/program/estimate.c.
**
** Plan:
**   1  elementwise programs: arithmetic and memory against the link, operands that are held there,
**      results that come back or are one number, what is read from the database
**   2  products and loops; an unknown device, which costs copies alone
**   3  transforms: of a device that has them, of one that has not, of those that none has
**   4  the parts: bytes up and down, the widest node, seconds in proportion
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "exec/place.h"
#include "program/compile.h"
#include "program/estimate.h"

#include <math.h>
#include <string.h>

#define SIX "sqrt(?1 * ?1 + ?2 * ?2) * 0.5 + ?1 / (?2 * ?2 + 1)"
#define CHAIN "where(?1 > 0, exp(-?1) * tanh(?2), erf(?1 * 0.5) + ?2)"

/* A machine: its figures, and a program of ?1 and ?2, side x side each. */
typedef struct machine {
    gx_profile host;
    gx_device_profile device;
    double read_bytes_per_s;
    int64_t side;
    bool is_stored, is_held, lacks_transforms;
} machine;

/* Sixteen slow cores and a fast card on a fast link. */
static machine usual(void)
{
    machine m = {.read_bytes_per_s = 30e9, .side = 4096};
    gx_profile_built_in(&m.host);
    m.host.threads = 16;
    m.host.memcpy_bytes_per_s = 8e9;
    m.host.core_flops_per_s = 16e9;
    for (int d = 0; d < GX_FLOATS; d++) {
        for (int i = 0; i < GX_PROFILE_SIZES; i++) {
            m.host.gemm_flops_per_s[d][i] = 250e9;
        }
        for (int i = 0; i < GX_DEVICE_SIZES; i++) {
            m.device.gemm_flops_per_s[d][i] = 50e12;
        }
    }
    for (int i = 0; i < GX_DEVICE_SIZES; i++) {
        m.device.gemm_size[i] = 256 << i;
    }
    m.device.upload_bytes_per_s = m.device.download_bytes_per_s = 50e9;
    m.device.sweep_bytes_per_s = 3e12;
    m.device.launch_s = 5e-6;
    return m;
}

static gx_estimate estimate(const machine *m, const char *text)
{
    gx_syntax *syntax;
    gx_graph *g;
    gx_err err = {.code = GX_OK};
    gx_estimate e;
    gx_given given[2];
    bool held[GX_OPERANDS_MAX];
    for (int k = 0; k < 2; k++) {
        given[k].type = (gx_type){.rows = m->side, .cols = m->side, .dtype = GX_F64};
    }
    assert_int_equal(gx_syntax_parse(NULL, text, strlen(text), &syntax, &err), GX_OK);
    if (gx_compile(NULL, syntax, given, 2, false, &g, &err) != GX_OK) {
        fail_msg("%s: %s", text, err.text);
    }
    gx_graph_count(g);
    gx_graph_fuse(g);
    gx_graph_finish(g);
    for (int k = 0; k < g->operands; k++) {
        g->operand[k].name = m->is_stored ? "A" : NULL;
        held[k] = m->is_held;
    }
    gx_rates rates = {&m->host, &m->device, m->host.threads, m->read_bytes_per_s,
                      !m->lacks_transforms};
    gx_estimate_graph(g, &rates, held, &e);
    gx_graph_free(g);
    gx_syntax_free(syntax);
    return e;
}

static bool goes(const machine *m, const char *text)
{
    gx_estimate e = estimate(m, text);
    return e.device_s < e.host_s;
}

static void elementwise(void **state)
{
    (void)state;
    machine m = usual();
    assert_true(goes(&m, CHAIN)); // 1.5e9 flops: 40 ms; the copies 8
    m.is_stored = true;
    assert_true(goes(&m, CHAIN));
    m.device.upload_bytes_per_s = m.device.download_bytes_per_s = 5e9;
    assert_false(goes(&m, CHAIN));
    m.is_held = true; // then only the result travels: 27 ms
    assert_true(goes(&m, CHAIN));
    assert_true(goes(&m, "sum(" SIX ")")); // and a sum is nothing

    m = usual();
    m.host.threads = 2;
    assert_true(goes(&m, SIX)); // 31 ms on two cores
    m.host.memcpy_bytes_per_s = 100e9;
    m.host.core_flops_per_s = 400e9;
    assert_false(goes(&m, SIX));

    m.is_stored = true; // who has to read it anyhow: 9 ms, and the host need not wait for copies
    assert_false(goes(&m, "sum(" SIX ")"));
    m.is_held = true;
    assert_true(goes(&m, "sum(" SIX ")"));
}

static void products_and_loops(void **state)
{
    (void)state;
    machine m = usual();
    m.side = 2048;
    assert_true(goes(&m, "X = ?2; repeat 100 { X = ?1 @ X } X"));
    assert_true(goes(&m, "?1 @ ?2"));
    m.side = 40;
    assert_false(goes(&m, "?1 @ ?2"));
    assert_false(goes(&m, "?1 + ?2"));

    m = usual();
    gx_profile_guess_device(&m.device);
    assert_false(goes(&m, SIX));
    assert_true(goes(&m, "X = ?2; repeat 100 { X = ?1 @ X } X"));
    gx_estimate e = estimate(&m, "X = ?2; repeat 100 { X = ?1 @ X } X");
    double bytes = 3 * 8.0 * 4096 * 4096;
    assert_true(fabs(e.device_s - bytes / m.device.upload_bytes_per_s) < 0.01);
}

static void transforms(void **state)
{
    (void)state;
    machine m = usual();
    assert_true(goes(&m, "fft(?1)")); // 1e9 flops: 26 ms; the copies 8
    assert_true(goes(&m, "irfft(rfft(?1, 4096, 1), 4096, 1)"));
    m.device.upload_bytes_per_s = m.device.download_bytes_per_s = 5e9;
    assert_false(goes(&m, "fft(?1)"));
    m.is_held = true;
    assert_true(goes(&m, "sum(abs(fft2(?1)))"));
    assert_false(goes(&m, "sum(abs(dct(?1)))"));
    m.lacks_transforms = true;
    assert_false(goes(&m, "sum(abs(fft2(?1)))"));
}

static void parts(void **state)
{
    (void)state;
    machine m = usual();
    double one = 8.0 * 4096 * 4096;
    gx_estimate e = estimate(&m, SIX), sum = estimate(&m, "sum(" SIX ")");
    assert_true(e.up_bytes == 2 * one && e.down_bytes == one && e.widest == one);
    assert_true(e.read_bytes == 0 && e.sent_bytes == 0 && sum.down_bytes == 8);
    m.is_stored = true;
    e = estimate(&m, SIX);
    assert_true(e.read_bytes == 2 * one && e.sent_bytes == 2 * one);
    m.is_held = true;
    e = estimate(&m, SIX);
    assert_true(e.up_bytes == 0 && e.read_bytes == 2 * one && e.sent_bytes == 0);
    m = usual();
    gx_estimate first = estimate(&m, "X = ?2; repeat 10 { X = tanh(?1 @ X) } X");
    gx_estimate second = estimate(&m, "X = ?2; repeat 20 { X = tanh(?1 @ X) } X");
    assert_true(fabs(second.host_s / first.host_s - 2) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise),
        cmocka_unit_test(products_and_loops),
        cmocka_unit_test(transforms),
        cmocka_unit_test(parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
