/*
** gx_from_memory, gx_to_memory: matrices straight out of the application's memory and into it.
**
** A value goes through SQLite, which copies it and has a limit on its length; an array of the
** application's own needs neither.  It is lent by C (gx_lend() in gx.h): SQL sees a token of 128
** random bits, so that no SQL text, whoever wrote it, makes gx touch memory that was not lent, and
** the one who lends decides for how long (decision 044).
**
** A token is also a matrix argument and a destination of any function: then nothing is copied at
** all, the function reads the array and writes into it.
**
** An array by rows is the transpose of one by columns: both ways are copies or transposes, which
** threads make piece by piece (core/alg/alg_map.c).
*/
#include "../core/alg/alg.h"
#include "gx_ext.h"

#include <inttypes.h>

/* Argument `index`'s array, which stays until gx_lent_give_up(). */
static bool take(gx_fn *fn, int index, gx_lent **array)
{
    const char *token;
    if (!gx_fn_text(fn, index, "token", &token)) {
        return false;
    }
    *array = gx_lent_take(token);
    return *array != NULL || gx_fn_fail(fn, "no memory is lent under that token");
}

/* C = the array. */
static void copy_out_of(gx_fn *fn, const gx_lent *array)
{
    gx_mat A, turned;
    gx_sink C;
    bool by_rows = array->by_rows;
    gx_mat_array(&A, "memory", array->dtype, by_rows ? array->cols : array->rows,
                 by_rows ? array->rows : array->cols, array->data, array->step);
    gx_dest to = gx_dest_like(&fn->dest, &A);
    if (!gx_fn_check(fn, gx_dtype_takes(to.dtype, A.number, "the memory", &fn->err))) {
        return;
    }
    gx_sink_begin(&fn->run, &to, array->rows, array->cols, gx_dest_number(&to, A.number), 0, 0, 0,
                  &C);
    gx_mat_view(&turned, &A, GX_TRANS, 0, 0, array->rows, array->cols);
    if (by_rows && gx_dtype_is(A.dtype, C.number)) {
        gx_alg_transpose(&fn->run, &A, GX_TRANS, &C);
    } else {
        gx_copy_to_sink(&fn->run, by_rows ? &turned : &A, &C);
    }
    gx_fn_result_sink(fn, &C);
}

/* gx_from_memory(token[, destination][, options]) */
static void from_memory(gx_fn *fn)
{
    gx_lent *array;
    if (gx_fn_options(fn, NULL, NULL) && take(fn, 0, &array)) {
        copy_out_of(fn, array);
        gx_lent_give_up(array);
    }
}

/* The array = A. */
static void copy_into(gx_fn *fn, const gx_mat *A, const gx_lent *array)
{
    int64_t run = array->by_rows ? array->cols : array->rows;
    gx_sink C;
    if (A->rows != array->rows || A->cols != array->cols) {
        gx_fn_fail(fn, "A is %" PRId64 "x%" PRId64 " but the memory %" PRId64 "x%" PRId64, A->rows,
                   A->cols, array->rows, array->cols);
        return;
    }
    if (!array->is_writable || array->step != run) {
        gx_fn_fail(fn, "the memory is %s",
                   array->is_writable ? "not without gaps" : "lent for reading only");
        return;
    }
    if (!gx_fn_check(fn, gx_dtype_takes(array->dtype, A->number, A->label, &fn->err))) {
        return;
    }
    const gx_landing place = {array->data, run, array->by_rows ? array->rows : array->cols,
                              array->dtype};
    gx_sink_begin_lent(&fn->run, &place, A->number, &C);
    if (array->by_rows) {
        gx_alg_transpose(&fn->run, A, GX_TRANS, &C);
    } else {
        gx_copy_to_sink(&fn->run, A, &C);
    }
    gx_sink_end(&C);
    if (gx_ok(&fn->run)) {
        sqlite3_result_int64(fn->sql, array->rows * array->cols);
    }
}

/* gx_to_memory(A, token) */
static void to_memory(gx_fn *fn)
{
    gx_mat A;
    gx_lent *array;
    if (gx_fn_options(fn, NULL, NULL) && gx_fn_matrix(fn, 0, "A", &A) && take(fn, 1, &array)) {
        copy_into(fn, &A, array);
        gx_lent_give_up(array);
    }
}

const gx_function gx_functions_memory[] = {
    {"gx_from_memory", 1, 3, GX_MADE(1), from_memory, 0},
    {"gx_to_memory", 2, 2, 0, to_memory, 0},
    {.name = NULL},
};
