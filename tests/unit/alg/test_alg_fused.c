/*
** Fused programs over matrices.  Test plan:
**
**   1. A program with two matrices and three folds for results, of operands that are all there, a
**      row, a column and a number; values, stored, transposed views: sizes 0, 1, tile +- 1, several
**      tiles; all dtypes; results in memory, stored, one of each; budgets from the least that runs
**      up.  Matrices to the bit as the reference kernel has them from the whole, folds closely.
**   2. A real result of complex operands, stored beside a complex one: tiles of two shapes.
**   3. Too little memory is refused in words; nothing is left behind.
*/
#include "connection.h"
#include "alg/alg.h"

#include <math.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algkit.h"

enum { INPUTS = 4, OUTPUTS = 4, ROOM = 70 * 70 };

typedef enum kind { VALUES, STORED, TURNED, KINDS } kind;

typedef struct operand {
    gx_number dtype;
    int64_t m, n;
    double data[2 * ROOM];   /* column-major, of dtype */
    double turned[2 * ROOM]; /* the transpose          */
    gx_mat base, mat;
} operand;

static operand operands[INPUTS];
static char wanted[2][16 * ROOM], got[16 * ROOM];

static double next_number(fixture *f)
{
    f->random = f->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)f->random * 0x1p-62;
}

static void put(gx_number dtype, void *data, int64_t at, double re, double im)
{
    double pair[2] = {re, im};
    gx_convert(GX_C128, pair, 1, dtype, gx_at(data, dtype, 1, at, 0), 1, 1, 1);
}

/* As a value, under a name, or as the view of its transpose. */
static void make_operand(fixture *f, operand *x, gx_number dtype, int64_t m, int64_t n, kind as,
                         const char *name)
{
    gx_err err = {0};
    x->dtype = dtype;
    x->m = m;
    x->n = n;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            double re = next_number(f), im = gx_number_is_complex(dtype) ? next_number(f) : 0;
            put(dtype, x->data, j * m + i, re, im);
            put(dtype, x->turned, i * n + j, re, im);
        }
    }
    gx_mat_value(&x->base, name, dtype, m, n, x->data, gx_max(1, m));
    x->mat = x->base;
    if (as == TURNED) {
        gx_mat_value(&x->base, name, dtype, n, m, x->turned, gx_max(1, n));
        gx_mat_view(&x->mat, &x->base, GX_TRANS, 0, 0, m, n);
    } else if (as == STORED) {
        gx_sink sink;
        gx_meta meta;
        gx_run_begin(&f->run, f->ctx, "store");
        gx_sink_begin(&f->run, &(gx_dest){.name = name, .replace = true}, m, n, dtype, 0, 0, 0,
                      &sink);
        gx_copy_to_sink(&f->run, &x->base, &sink);
        assert_int_equal(gx_sink_end(&sink), GX_OK);
        assert_int_equal(gx_run_end(&f->run), GX_OK);
        assert_int_equal(gx_store_find(f->ctx->store, name, &meta, &err), GX_OK);
        gx_mat_stored(&x->mat, &meta);
        gx_store_release(f->ctx->store);
    }
}

/* t = A * row + column, u = where(t != number, t, A): t, u, sum of u, norms of the rows of t. */
static void write_program(gx_fused *f, gx_number dtype)
{
    gx_fused_begin(f, dtype);
    int a = gx_fused_input(f), row = gx_fused_input(f), column = gx_fused_input(f);
    int number = gx_fused_input(f);
    int t = gx_fused_step(f, GX_MAP_ADD, gx_fused_step(f, GX_MAP_MUL, a, row, 0), column, 0);
    int u = gx_fused_step(f, GX_MAP_WHERE, gx_fused_step(f, GX_MAP_EQUAL, a, number, 0), a, t);
    gx_fused_output(f, t, GX_FOLD_NONE, GX_FOLD_OF_ALL);
    gx_fused_output(f, u, GX_FOLD_NONE, GX_FOLD_OF_ALL);
    gx_fused_output(f, u, GX_FOLD_SUM, GX_FOLD_OF_COLS);
    gx_fused_output(f, t, GX_FOLD_NORM, GX_FOLD_OF_ROWS);
    assert_true(gx_fused_end(f));
}

static void want(const gx_fused *f, int64_t m, int64_t n, double *sums, double *norms)
{
    gx_fused_place in[INPUTS], out[OUTPUTS] = {{NULL, 0, 0}};
    double *fold[OUTPUTS] = {NULL, NULL, sums, norms};
    gx_args args = {.m = m, .n = n, .fused = f, .in = in, .out = out, .fold = fold};
    gx_err err = {0};
    for (int k = 0; k < INPUTS; k++) {
        const operand *x = &operands[k];
        in[k] = (gx_fused_place){(void *)x->data, x->m == 1 && m != 1 ? 0 : 1,
                                 x->n == 1 && n != 1 ? 0 : x->m};
    }
    for (int k = 0; k < 2; k++) {
        out[k] = (gx_fused_place){wanted[k], 1, gx_max(1, m)};
    }
    assert_int_equal(gx_backend_ref.kernel[GX_FUSED][f->dtype](NULL, NULL, &args, &err), GX_OK);
}

/* What the sink holds, which has been ended, into got[]. */
static void fetch(fixture *f, gx_sink *sink)
{
    gx_mat mat;
    gx_reader *own;
    gx_err err = {0};
    gx_run_begin(&f->run, f->ctx, "fetch");
    gx_mat_value(&mat, "X", sink->number, sink->rows, sink->cols, sink->value.data,
                 gx_max(1, sink->rows));
    if (sink->is_stored) {
        gx_meta meta;
        assert_int_equal(gx_store_find(f->ctx->store, sink->name, &meta, &err), GX_OK);
        gx_mat_stored(&mat, &meta);
    }
    assert_int_equal(gx_reader_own(f->ctx->store, &own, &err), GX_OK);
    assert_int_equal(gx_mat_read(&f->run, &mat, own, 0, 0, mat.rows, mat.cols, mat.number, got,
                                 gx_max(1, mat.rows), &err),
                     GX_OK);
    gx_reader_close(own);
    gx_value_buf_free(f->ctx->mem, &sink->value);
    assert_int_equal(gx_run_end(&f->run), GX_OK);
}

static void is_same(fixture *f, gx_sink *sink, const void *matrix)
{
    fetch(f, sink);
    size_t bytes = (size_t)(sink->rows * sink->cols) * gx_number_bytes(sink->number);
    assert_memory_equal(got, matrix, bytes);
}

static void is_close(fixture *f, gx_sink *sink, gx_fold fold, const double *lines)
{
    fetch(f, sink);
    for (int64_t l = 0; l < sink->rows * sink->cols; l++) {
        gx_scalar y = gx_fold_value(fold, &lines[2 * l]);
        double pair[2];
        gx_convert(sink->number, gx_at(got, sink->number, 1, l, 0), 1, GX_C128, pair, 1, 1, 1);
        double eps = 100 * gx_number_eps(sink->number) * (1 + fabs(y.re) + fabs(y.im));
        if (fabs(pair[0] - y.re) > eps ||
            fabs(pair[1] - (gx_number_is_complex(sink->number) ? y.im : 0)) > eps) {
            fail_msg("line %d: %g%+gi, want %g%+gi", (int)l, pair[0], pair[1], y.re, y.im);
        }
    }
}

/* which: bits, results 0 and 1 that are stored. */
static void run_once(fixture *f, gx_number dtype, int64_t m, int64_t n, kind as, int which,
                     size_t limit)
{
    static double sums[2 * 70], norms[2 * 70];
    gx_fused program;
    gx_sink sink[OUTPUTS], *sinks[OUTPUTS];
    const gx_mat *sources[INPUTS];
    write_program(&program, dtype);
    make_operand(f, &operands[0], dtype, m, n, as, "A");
    make_operand(f, &operands[1], dtype, 1, n, as, "row");
    make_operand(f, &operands[2], dtype, m, 1, as, "column");
    make_operand(f, &operands[3], dtype, 1, 1, VALUES, "number");
    for (int k = 0; k < INPUTS; k++) {
        sources[k] = &operands[k].mat;
    }
    want(&program, m, n, sums, norms);
    set(f->ctx, GX_SET_MEMORY_LIMIT, limit);
    size_t before = gx_mem_used(f->ctx->mem);
    gx_run_begin(&f->run, f->ctx, "fused");
    const int64_t rows[OUTPUTS] = {m, m, 1, m}, cols[OUTPUTS] = {n, n, n, 1};
    for (int k = 0; k < OUTPUTS; k++) {
        gx_dest dest = {.name = k == 0 ? "T" : "U", .replace = true};
        bool is_stored = k < 2 && (which >> k & 1) != 0;
        gx_sink_begin(&f->run, is_stored ? &dest : NULL, rows[k], cols[k], dtype, 0, 0, 0,
                      &sink[k]);
        sinks[k] = &sink[k];
    }
    gx_alg_fused(&f->run, &program, m, n, sources, sinks);
    for (int k = OUTPUTS - 1; k >= 0; k--) {
        gx_sink_end(&sink[k]);
    }
    if (gx_run_end(&f->run) != GX_OK) {
        fail_msg("%s %dx%d: %s", gx_number_name(dtype), (int)m, (int)n, f->run.err.text);
    }
    set(f->ctx, GX_SET_MEMORY_LIMIT, (size_t)64 << 20);
    is_same(f, &sink[0], wanted[0]);
    is_same(f, &sink[1], wanted[1]);
    is_close(f, &sink[2], GX_FOLD_SUM, sums);
    is_close(f, &sink[3], GX_FOLD_NORM, norms);
    assert_int_equal(gx_mem_used(f->ctx->mem), before);
}

static void results(void **state)
{
    static const int64_t sides[] = {0, 1, TILE - 1, TILE, TILE + 1, 67};
    int turn = 0;
    for (int d = 0; d < GX_FLOATS; d++) {
        for (int i = 0; i < 6; i++) {
            for (int j = 0; j < 6; j++, turn++) {
                run_once(*state, (gx_number)d, sides[i], sides[j], (kind)(turn % KINDS), turn % 4,
                         (size_t)64 << 20);
            }
        }
    }
}

static void budgets(void **state)
{
    for (size_t kib = 640; kib <= 2048; kib += 128) {
        for (int as = 0; as < KINDS; as++) {
            run_once(*state, GX_F64, 67, 53, (kind)as, 3, kib << 10);
            run_once(*state, GX_C64, 53, 67, (kind)as, 1, kib << 10);
        }
    }
}

/* |Z| beside Z: real tiles are larger. */
static void two_shapes(void **state)
{
    fixture *f = *state;
    gx_fused program;
    gx_sink sink[2], *sinks[2] = {&sink[0], &sink[1]};
    make_operand(f, &operands[0], GX_C128, 67, 45, STORED, "A");
    const gx_mat *sources[1] = {&operands[0].mat};
    gx_fused_begin(&program, GX_C128);
    int a = gx_fused_input(&program);
    gx_fused_output(&program, gx_fused_step(&program, GX_MAP_SQUARE, a, 0, 0), GX_FOLD_NONE, 0);
    gx_fused_output(&program, gx_fused_step(&program, GX_MAP_IMAG, a, 0, 0), GX_FOLD_NONE, 0);
    program.output[1].is_real = true;
    assert_true(gx_fused_end(&program));
    gx_run_begin(&f->run, f->ctx, "fused");
    gx_sink_begin(&f->run, &(gx_dest){.name = "Q", .replace = true}, 67, 45, GX_C128, 0, 0, 0,
                  &sink[0]);
    gx_sink_begin(&f->run, &(gx_dest){.name = "I", .replace = true}, 67, 45, GX_F64, 0, 0, 0,
                  &sink[1]);
    gx_alg_fused(&f->run, &program, 67, 45, sources, sinks);
    gx_sink_end(&sink[1]);
    gx_sink_end(&sink[0]);
    assert_int_equal(gx_run_end(&f->run), GX_OK);
    fetch(f, &sink[1]);
    for (int k = 0; k < 67 * 45; k++) {
        assert_true(((double *)got)[k] == operands[0].data[2 * k + 1]);
    }
    fetch(f, &sink[0]);
    for (int k = 0; k < 67 * 45; k++) {
        double re = operands[0].data[2 * k], im = operands[0].data[2 * k + 1];
        assert_true(((double *)got)[2 * k] == re * re - im * im);
    }
}

static void refusals(void **state)
{
    fixture *f = *state;
    gx_fused program;
    gx_sink sink, *sinks[1] = {&sink};
    make_operand(f, &operands[0], GX_F64, 67, 67, STORED, "A");
    const gx_mat *sources[1] = {&operands[0].mat};
    gx_fused_begin(&program, GX_F64);
    gx_fused_output(&program, gx_fused_step(&program, GX_MAP_EXP, gx_fused_input(&program), 0, 0),
                    GX_FOLD_SUM, GX_FOLD_OF_ALL);
    assert_true(gx_fused_end(&program));
    size_t before = gx_mem_used(f->ctx->mem);
    gx_run_begin(&f->run, f->ctx, "fused");
    gx_sink_begin(&f->run, NULL, 1, 1, GX_F64, 0, 0, 0, &sink);
    void *hog;
    gx_err err = {0};
    size_t rest = gx_mem_available(f->ctx->mem) - 4096;
    assert_int_equal(gx_mem_alloc(f->ctx->mem, rest, "the test", &hog, &err), GX_OK);
    assert_int_equal(gx_alg_fused(&f->run, &program, 67, 67, sources, sinks), GX_BUDGET);
    assert_non_null(strstr(f->run.err.text, "memory_limit"));
    gx_mem_free(f->ctx->mem, hog);
    gx_sink_end(&sink);
    gx_run_end(&f->run);
    assert_int_equal(gx_mem_used(f->ctx->mem), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(results, set_up, tear_down),
        cmocka_unit_test_setup_teardown(budgets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_shapes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refusals, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
