/*
** gx_from_memory, gx_to_memory: matrices straight out of the application's memory and into it.
**
** A value goes through SQLite, which copies it and has a limit on its length; an array of the
** application's own needs neither.  It is lent by C (gx_lend() in gx.h): SQL sees a token of 128
** random bits, so that no SQL text, whoever wrote it, makes gx touch memory that was not lent, and
** the one who lends decides for how long (decision 044).
**
** The arrays that are lent stand in one table of the process, since a token is made before it is
** known which connection will get it.  A call holds its entry (users), and taking it back waits for
** that.  The lock is never held while anything is computed.
**
** An array by rows is the transpose of one by columns: both ways are copies or transposes, which
** threads make piece by piece (core/alg/alg_map.c).
*/
#include "../core/alg/alg.h"
#include "gx.h"
#include "gx_ext.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

typedef struct lent {
    char token[GX_TOKEN_BYTES]; /* "": this place is free */
    void *data;
    gx_dtype dtype;
    int64_t rows, cols, step; /* from column to column, or by_rows from row to row */
    bool by_rows, is_writable;
    int users; /* calls that are at it */
} lent;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given_up = PTHREAD_COND_INITIALIZER;
static lent table[GX_LENT_MAX]; /* under the lock; what a user's entry says does not change */

// Lending -----------------------------------------------------------------------------------------

/* 32 hexadecimal digits. */
static bool make_token(char token[GX_TOKEN_BYTES])
{
    unsigned char random[(GX_TOKEN_BYTES - 1) / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        return false;
    }
    for (size_t k = 0; k < sizeof random; k++) {
        snprintf(token + 2 * k, 3, "%02x", random[k]);
    }
    return true;
}

/* Under the lock; NULL: there is none.  token "": a free place. */
static lent *find(const char *token)
{
    for (int k = 0; k < GX_LENT_MAX; k++) {
        if (strcmp(table[k].token, token) == 0) {
            return &table[k];
        }
    }
    return NULL;
}

__attribute__((visibility("default"))) int gx_lend(void *data, const char *dtype, int64_t rows,
                                                   int64_t cols, int64_t row_step,
                                                   int64_t col_step, int is_writable,
                                                   char token[GX_TOKEN_BYTES])
{
    size_t bytes;
    lent made = {.data = data, .rows = rows, .cols = cols, .is_writable = is_writable != 0};
    made.by_rows = row_step != 1 || (col_step == 1 && rows == 1);
    made.step = made.by_rows ? row_step : col_step;
    int64_t run = made.by_rows ? cols : rows;
    token[0] = '\0';
    if (data == NULL || !gx_dtype_parse(dtype, &made.dtype) || rows < 1 || cols < 1 ||
        (made.by_rows ? col_step : row_step) != 1 || made.step < run ||
        !gx_matrix_bytes(made.step, made.by_rows ? rows : cols, made.dtype, &bytes) ||
        (uintptr_t)data % (gx_dtype_is_double(made.dtype) ? sizeof(double) : sizeof(float)) != 0 ||
        !make_token(made.token)) {
        return 1;
    }
    pthread_mutex_lock(&lock);
    lent *place = find("");
    if (place != NULL) {
        *place = made;
        memcpy(token, made.token, GX_TOKEN_BYTES);
    }
    pthread_mutex_unlock(&lock);
    return place == NULL;
}

__attribute__((visibility("default"))) void gx_lend_end(const char *token)
{
    pthread_mutex_lock(&lock);
    lent *place = token[0] == '\0' ? NULL : find(token);
    while (place != NULL && place->users > 0) {
        pthread_cond_wait(&given_up, &lock);
    }
    if (place != NULL) {
        place->token[0] = '\0';
    }
    pthread_mutex_unlock(&lock);
}

// Calls -------------------------------------------------------------------------------------------

/* Argument `index`'s array, which stays until give_up(). */
static bool take(gx_fn *fn, int index, lent **array)
{
    const char *token;
    if (!gx_fn_text(fn, index, "token", &token)) {
        return false;
    }
    pthread_mutex_lock(&lock);
    *array = token[0] == '\0' ? NULL : find(token);
    if (*array != NULL) {
        (*array)->users++;
    }
    pthread_mutex_unlock(&lock);
    return *array != NULL || gx_fn_fail(fn, "no memory is lent under that token");
}

static void give_up(lent *array)
{
    pthread_mutex_lock(&lock);
    if (--array->users == 0) {
        pthread_cond_broadcast(&given_up);
    }
    pthread_mutex_unlock(&lock);
}

typedef struct memory_options {
    gx_dest dest; /* first: a set_offset of 0 means none */
    bool has_dtype;
    gx_dtype dtype;
} memory_options;

static const gx_option memory_keys[] = {
    {"dtype", GX_OPT_DTYPE, offsetof(memory_options, dtype), offsetof(memory_options, has_dtype)},
    {"replace", GX_OPT_BOOL, offsetof(memory_options, dest.replace), 0},
    {NULL, GX_OPT_END, 0, 0},
};

/* C = the array. */
static void copy_out_of(gx_fn *fn, const lent *array, const memory_options *opt)
{
    gx_mat A, turned;
    gx_sink C;
    gx_dtype dtype = opt->has_dtype ? opt->dtype : array->dtype;
    if (gx_dtype_is_complex(array->dtype) && !gx_dtype_is_complex(dtype)) {
        gx_fn_fail(fn, "the memory is %s and %s would lose the imaginary part",
                   gx_dtype_name(array->dtype), gx_dtype_name(dtype));
        return;
    }
    gx_sink_begin(&fn->run, &opt->dest, array->rows, array->cols, dtype, 0, 0, 0, &C);
    if (!array->by_rows) {
        gx_mat_value(&A, "memory", array->dtype, array->rows, array->cols, array->data,
                     array->step);
        gx_copy_to_sink(&fn->run, &A, &C);
    } else {
        gx_mat_value(&A, "memory", array->dtype, array->cols, array->rows, array->data,
                     array->step);
        gx_mat_view(&turned, &A, GX_TRANS, 0, 0, array->rows, array->cols);
        if (dtype == array->dtype) {
            gx_alg_transpose(&fn->run, &A, GX_TRANS, &C);
        } else {
            gx_copy_to_sink(&fn->run, &turned, &C);
        }
    }
    gx_fn_result_sink(fn, &C);
}

/* gx_from_memory(token[, destination][, options]) */
static void from_memory(gx_fn *fn)
{
    memory_options opt = {.dest = {0}};
    lent *array;
    if (gx_fn_options(fn, memory_keys, &opt) && gx_fn_dest(fn, 1, &opt.dest) &&
        take(fn, 0, &array)) {
        copy_out_of(fn, array, &opt);
        give_up(array);
    }
}

/* The array = A. */
static void copy_into(gx_fn *fn, const gx_mat *A, const lent *array)
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
    if (gx_dtype_is_complex(A->dtype) && !gx_dtype_is_complex(array->dtype)) {
        gx_fn_fail(fn, "%s is %s and %s would lose the imaginary part", A->label,
                   gx_dtype_name(A->dtype), gx_dtype_name(array->dtype));
        return;
    }
    gx_sink_begin_lent(&fn->run, run, array->by_rows ? array->rows : array->cols, array->dtype,
                       array->data, &C);
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
    lent *array;
    if (gx_fn_options(fn, NULL, NULL) && gx_fn_matrix(fn, 0, "A", &A) && take(fn, 1, &array)) {
        copy_into(fn, &A, array);
        give_up(array);
    }
}

const gx_function gx_functions_memory[] = {
    {"gx_from_memory", 1, 3, false, from_memory},
    {"gx_to_memory", 2, 2, false, to_memory},
    {NULL, 0, 0, false, NULL},
};
