/*
** Rows appended, overwritten, deleted and read by their numbers (core/mat/rows.h), as what builds
** on them calls it: blocks in memory, on a context without a database file.
**
** Plan:
**   1. random changes on both axes beside an array: blocks of the stored dtype, with gaps between
**      their columns; rows read at random places, as numbers; the row given back is the new one
**   2. within one transaction that is rolled back: what was before
**   3. refused: a list with a number twice, one that is not there, blocks that do not fit
*/
#include "connection.h"
#include "mat/rows.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../alg/algkit.h"

enum { SIDE = 200, CHANGES = 300 };

/* The array beside the matrix, and what the next change puts there. */
typedef struct model {
    int64_t rows, cols;
    float at[SIDE][SIDE];
} model;

static model a;
static float block[SIDE * (SIDE + 3)];

static int64_t below(fixture *f, int64_t n)
{
    f->random = f->random * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((f->random >> 33) % (uint64_t)n);
}

static void ok(gx_code code, const gx_err *err)
{
    if (code != GX_OK) {
        fail_msg("%s", err->text);
    }
}

/* m x n numbers of its own in block, ld apart. */
static void fill_block(fixture *f, int64_t m, int64_t n, int64_t ld, gx_mat *rows)
{
    for (int64_t k = 0; k < ld * n; k++) {
        block[k] = (float)below(f, 100000);
    }
    gx_mat_array(rows, "rows", GX_DTYPE_F32, m, n, block, ld);
}

static void same(fixture *f, const gx_meta *meta)
{
    static float got[SIDE * SIDE];
    gx_err err = {0};
    gx_reader *reader;
    gx_mat A;
    gx_mat_stored(&A, meta);
    assert_int_equal(meta->rows, a.rows);
    assert_int_equal(meta->cols, a.cols);
    ok(gx_reader_own(f->ctx->store, &reader, &err), &err);
    ok(gx_mat_read(&f->run, &A, reader, 0, 0, a.rows, a.cols, GX_F32, got, SIDE, &err), &err);
    for (int64_t j = 0; j < a.cols; j++) {
        for (int64_t i = 0; i < a.rows; i++) {
            assert_true(got[j * SIDE + i] == a.at[i][j]);
        }
    }
    int axis = (int)below(f, 2);
    int64_t side = axis == 0 ? a.rows : a.cols, at[16];
    for (int64_t k = 0; k < 16 && side > 0; k++) {
        at[k] = k % 3 == 1 && at[k - 1] + 1 < side ? at[k - 1] + 1 : below(f, side);
    }
    if (side > 0) {
        static double read[SIDE * 16];
        int64_t ld = axis == 0 ? 16 : a.rows + 1;
        ok(gx_rows_read(&f->run, &A, reader, axis, at, 16, GX_F64, read, ld, &err), &err);
        for (int64_t k = 0; k < 16; k++) {
            for (int64_t p = 0; p < (axis == 0 ? a.cols : a.rows); p++) {
                double want = axis == 0 ? a.at[at[k]][p] : a.at[p][at[k]];
                assert_true(read[axis == 0 ? p * ld + k : k * ld + p] == want);
            }
        }
    }
    gx_reader_close(reader);
}

static void append(fixture *f, gx_meta *meta, int axis)
{
    gx_err err = {0};
    gx_mat rows;
    int64_t side = axis == 0 ? a.rows : a.cols, across = axis == 0 ? a.cols : a.rows;
    int64_t count = gx_min(below(f, 12), SIDE - side);
    int64_t m = axis == 0 ? count : across, n = axis == 0 ? across : count, ld = m + below(f, 3);
    fill_block(f, m, n, ld, &rows);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            a.at[axis == 0 ? side + i : i][axis == 0 ? j : side + j] = block[j * ld + i];
        }
    }
    *(axis == 0 ? &a.rows : &a.cols) += count;
    ok(gx_rows_append(&f->run, meta, axis, &rows, false, &err), &err);
}

/* Different numbers below side, in no order. */
static int64_t choose(fixture *f, int64_t side, int64_t *at)
{
    int64_t count = below(f, gx_min(side, 9) + 1), taken = 0;
    while (taken < count) {
        bool is_new = true;
        at[taken] = below(f, side);
        for (int64_t k = 0; k < taken; k++) {
            is_new &= at[k] != at[taken];
        }
        taken += is_new;
    }
    return count;
}

static void overwrite(fixture *f, gx_meta *meta, int axis)
{
    gx_err err = {0};
    gx_mat rows;
    int64_t at[16], count = choose(f, axis == 0 ? a.rows : a.cols, at);
    int64_t m = axis == 0 ? count : a.rows, n = axis == 0 ? a.cols : count, ld = m + below(f, 3);
    fill_block(f, m, n, ld, &rows);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            a.at[axis == 0 ? at[i] : i][axis == 0 ? j : at[j]] = block[j * ld + i];
        }
    }
    ok(gx_rows_set(&f->run, meta, axis, at, count, &rows, false, &err), &err);
}

static void take_out(fixture *f, gx_meta *meta, int axis)
{
    static model left;
    gx_err err = {0};
    int64_t at[16], count = choose(f, axis == 0 ? a.rows : a.cols, at), row = 0, col;
    for (int64_t i = 0; i < a.rows; i++) {
        bool goes = false;
        for (int64_t k = 0; k < count && axis == 0; k++) {
            goes |= at[k] == i;
        }
        col = 0;
        for (int64_t j = 0; j < a.cols && !goes; j++) {
            bool column_goes = false;
            for (int64_t k = 0; k < count && axis == 1; k++) {
                column_goes |= at[k] == j;
            }
            left.at[row][col] = a.at[i][j];
            col += !column_goes;
        }
        row += !goes;
    }
    left.rows = axis == 0 ? a.rows - count : a.rows;
    left.cols = axis == 1 ? a.cols - count : a.cols;
    a = left;
    ok(gx_rows_delete(&f->run, meta, axis, at, count, &err), &err);
}

/* A matrix of m x n ones, as A. */
static void store(fixture *f, int64_t m, int64_t n, gx_meta *meta)
{
    gx_err err = {0};
    gx_sink sink;
    const gx_dest dest = {.name = "A", .replace = true};
    for (int64_t k = 0; k < m * n; k++) {
        block[k] = 1;
        a.at[k / n][k % n] = 1;
    }
    a.rows = m;
    a.cols = n;
    gx_sink_begin(&f->run, &dest, m, n, GX_F32, 0, 0, 0, &sink);
    ok(gx_sink_write(&sink, 0, 0, m, n, block, m, &err), &err);
    assert_int_equal(gx_sink_end(&sink), GX_OK);
    ok(gx_store_find(f->ctx->store, "A", meta, &err), &err);
}

static void random_changes(void **state)
{
    fixture *f = *state;
    gx_meta meta, found;
    gx_err err = {0};
    set(f->ctx, GX_SET_TILE_BYTES, 800);
    gx_run_begin(&f->run, f->ctx, "test");
    store(f, 33, 40, &meta);
    for (int k = 0; k < CHANGES; k++) {
        int axis = (int)below(f, 2);
        switch (below(f, 4)) {
        case 0:
            overwrite(f, &meta, axis);
            break;
        case 1:
            take_out(f, &meta, axis);
            break;
        default:
            append(f, &meta, axis);
        }
        same(f, &meta);
    }
    ok(gx_store_find(f->ctx->store, "A", &found, &err), &err);
    assert_int_equal(found.generation, meta.generation);
    assert_int_equal(found.down_tiles, meta.down_tiles);
    assert_int_equal(gx_run_end(&f->run), GX_OK);
}

static void rolled_back(void **state)
{
    fixture *f = *state;
    gx_meta meta;
    gx_err err = {0};
    static model before;
    set(f->ctx, GX_SET_TILE_BYTES, 800);
    gx_run_begin(&f->run, f->ctx, "test");
    store(f, 33, 40, &meta);
    gx_meta was = meta;
    before = a;
    ok(gx_store_begin(f->ctx->store, "main", &err), &err);
    append(f, &meta, 0);
    take_out(f, &meta, 1);
    append(f, &meta, 1);
    same(f, &meta);
    gx_err reason = {.code = GX_ARG};
    assert_int_equal(gx_store_end(f->ctx->store, false, &reason), GX_ARG);
    a = before;
    same(f, &was);
    assert_int_equal(gx_run_end(&f->run), GX_OK);
}

static void refused(void **state)
{
    fixture *f = *state;
    gx_meta meta;
    gx_err err = {0};
    gx_mat rows;
    const int64_t twice[] = {3, 1, 3}, far[] = {0, 33, 1};
    gx_run_begin(&f->run, f->ctx, "test");
    store(f, 33, 40, &meta);
    fill_block(f, 3, 40, 3, &rows);
    for (int k = 0; k < 40; k++) {
        block[k] = 1;
    }
    assert_int_equal(gx_rows_set(&f->run, &meta, 0, twice, 3, &rows, false, &err), GX_ARG);
    assert_string_equal(err.text, "row 3 is listed twice");
    err.code = GX_OK;
    assert_int_equal(gx_rows_set(&f->run, &meta, 0, far, 3, &rows, false, &err), GX_ARG);
    assert_string_equal(err.text, "row 33 is not in A, which has 33");
    err.code = GX_OK;
    assert_int_equal(gx_rows_delete(&f->run, &meta, 0, far, 3, &err), GX_ARG);
    err.code = GX_OK;
    assert_int_equal(gx_rows_set(&f->run, &meta, 0, far, 2, &rows, false, &err), GX_ARG);
    err.code = GX_OK;
    assert_int_equal(gx_rows_append(&f->run, &meta, 1, &rows, false, &err), GX_ARG);
    assert_string_equal(err.text, "rows is 3x40, but A is 33x40: their rows differ");
    same(f, &meta);
    assert_int_equal(gx_run_end(&f->run), GX_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_changes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rolled_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
