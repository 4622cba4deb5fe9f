/*
** Matrices from elsewhere: gx_from_bytes, gx_from_memory, gx_from_function, gx_from_table; and the
** ways back, gx_to_bytes and gx_to_memory.
*/
#include "gx_ext.h"


#include "../core/alg/alg.h"
#include "../core/base/names.h"
#include "../core/mat/assembly.h"

#include <inttypes.h>
#include <string.h>

// Raw elements in BLOBs ---------------------------------------------------------------------------

/*
** NumPy's a.tobytes() and the vector extensions keep elements as little-endian numbers by rows and
** nothing else.  By rows is by columns of the transpose: both ways are a transposition, which takes
** the bytes where they lie (or copied once where they are not aligned), or puts them where they are
** given to SQLite.  The result's size, which SQLite's length limit bounds, is refused before
** anything is read.
*/

/* The elements as a column, aligned; a copy belongs to the call. */
static bool take_elements(gx_fn *fn, gx_dtype dtype, gx_mat *flat)
{
    char shown[GX_SHOWN_BYTES];
    sqlite3_value *value = fn->argv[0];
    if (sqlite3_value_type(value) != SQLITE_BLOB) {
        return gx_fn_fail(fn, "bytes must be a blob, not %s", gx_arg_show(value, shown));
    }
    const void *data = sqlite3_value_blob(value);
    size_t bytes = (size_t)sqlite3_value_bytes(value), size = gx_dtype_bytes(dtype);
    gx_value header;
    gx_err ignored = {0};
    if (data != NULL && gx_value_parse(data, bytes, &header, &ignored) == GX_OK) {
        return gx_fn_fail(fn, "bytes is a matrix value, which needs no conversion");
    }
    if (bytes % size != 0) {
        return gx_fn_fail(fn, "bytes is a blob of %zu bytes, not a multiple of %zu (%s)", bytes,
                          size, gx_dtype_name(dtype));
    }
    int64_t count = (int64_t)(bytes / size);
    if ((uintptr_t)data % gx_dtype_alignment(dtype) != 0) {
        void *copy = gx_fn_alloc(fn, bytes, "bytes");
        if (copy == NULL) {
            return false;
        }
        data = memcpy(copy, data, bytes);
    }
    gx_mat_array(flat, "bytes", dtype, count, 1, data, gx_max(count, 1));
    return true;
}

/* The number of columns, where the third argument is one: a text there is the destination. */
static bool take_cols(gx_fn *fn, int64_t count, int64_t *cols, int *dest_index)
{
    *cols = 1;
    *dest_index = 3;
    if (!gx_fn_has(fn, 2)) {
        return true;
    }
    if (sqlite3_value_type(fn->argv[2]) == SQLITE_TEXT && fn->argc == 3) {
        *dest_index = 2;
        return true;
    }
    if (!gx_fn_int(fn, 2, "cols", cols)) {
        return false;
    }
    if (*cols < 1) {
        return gx_fn_fail(fn, "cols must be positive, not %" PRId64, *cols);
    }
    return count % *cols == 0 ||
           gx_fn_fail(fn, "bytes has %" PRId64 " elements, which make no rows of %" PRId64, count,
                      *cols);
}

/* gx_from_bytes(bytes, dtype[, cols][, destination][, options]) */
static void from_bytes(gx_fn *fn)
{
    gx_dtype dtype;
    gx_mat flat, by_columns;
    int64_t cols;
    int dest_index;
    if (!gx_fn_options(fn, NULL, NULL)) {
        return;
    }
    if (fn->argc < 2) {
        gx_fn_fail(fn, "dtype is missing: %s", gx_dtype_names());
        return;
    }
    if (!gx_fn_dtype(fn, 1, &dtype) || !take_elements(fn, dtype, &flat) ||
        !take_cols(fn, flat.rows, &cols, &dest_index) || !gx_fn_dest(fn, dest_index, &fn->dest)) {
        return;
    }
    if (!gx_dtype_is_sound(dtype, flat.data, flat.rows * flat.cols)) {
        gx_fn_fail(fn, "bytes has elements above 2^31 - 2, which m31 has not (u32 takes them)");
        return;
    }
    int64_t rows = flat.rows / cols;
    gx_sink sink;
    gx_mat_array(&by_columns, "bytes", dtype, cols, rows, flat.data, cols);
    gx_dest dest = gx_dest_like(&fn->dest, &flat);
    if (dest.is_verbatim) {
        gx_mat_verbatim(&by_columns);
    }
    gx_sink_begin(&fn->run, &dest, rows, cols, gx_dest_number(&dest, flat.number), 0, 0, 0, &sink);
    if (cols == 1) {
        gx_copy_to_sink(&fn->run, &flat, &sink);
    } else {
        gx_alg_transpose(&fn->run, &by_columns, GX_TRANS, &sink);
    }
    gx_fn_result_sink(fn, &sink);
}

/* Room for the result, counted while it is filled; NULL: the call has failed. */
static char *result_room(gx_fn *fn, const gx_mat *A, gx_dtype dtype, size_t *bytes)
{
    int64_t limit = gx_store_length_limit(fn->ctx->store);
    if (!gx_dtype_matrix_bytes(A->rows, A->cols, dtype, bytes) || *bytes > (size_t)limit) {
        gx_run_failf(&fn->run, GX_TOOBIG,
                     "%s is %" PRId64 "x%" PRId64 " %s, more bytes than SQLite's length limit of "
                     "%" PRId64 ": take a slice",
                     A->label, A->rows, A->cols, gx_dtype_name(dtype), limit);
        return NULL;
    }
    void *out;
    gx_fn_check(fn, gx_mem_alloc(fn->ctx->mem, *bytes, "bytes", &out, &fn->err));
    return out;
}

/* gx_to_bytes(A[, dtype]) */
static void to_bytes(gx_fn *fn)
{
    gx_mat A;
    gx_sink by_rows;
    size_t bytes;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "A", &A)) {
        return;
    }
    gx_dtype dtype = A.dtype;
    if ((gx_fn_has(fn, 1) && !gx_fn_dtype(fn, 1, &dtype)) ||
        !gx_fn_check(fn, gx_dtype_takes(dtype, A.number, A.label, &fn->err))) {
        return;
    }
    char *out = result_room(fn, &A, dtype, &bytes);
    if (out == NULL) {
        return;
    }
    bool is_verbatim = dtype == GX_DTYPE_I64 && A.dtype == GX_DTYPE_I64 && !A.is_sparse;
    if (is_verbatim) { // f64 does not hold all of them: their bytes are moved
        gx_mat_verbatim(&A);
    }
    const gx_landing place = {out, A.cols, A.rows, is_verbatim ? GX_DTYPE_F64 : dtype};
    gx_sink_begin_lent(&fn->run, &place, A.number, &by_rows);
    gx_alg_transpose(&fn->run, &A, GX_TRANS, &by_rows);
    gx_sink_end(&by_rows);
    if (gx_ok(&fn->run)) {
        gx_mem_disown(fn->ctx->mem, out);
        sqlite3_result_blob64(fn->sql, out, bytes, gx_value_release);
    } else {
        gx_mem_free(fn->ctx->mem, out);
    }
}

// The application's memory ------------------------------------------------------------------------

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

/* Argument `index`'s array, which stays until gx_lent_give_up(). */
static bool take(gx_fn *fn, int index, gx_lent **array)
{
    const char *token;
    if (!gx_fn_text(fn, index, "token", &token)) {
        return false;
    }
    *array = gx_lent_take(token);
    return *array != NULL || gx_fn_fail(fn, "this token stands for no array: the application has "
                                            "taken it back, or it is of another connection");
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

// A function of the application -------------------------------------------------------------------

/*
** gx_from_function: a matrix whose rectangles a function of the application gives.
**
** The way in for elements that are in the application's memory, or made by it: nothing but one
** tile is there twice.  The function is asked tile by tile, along a row of tiles before the next
** one, so that who has only rows in their order (a file, a generator) need keep no more than the
** rows of one tile.  Each answer, a matrix value, goes from where SQLite has it into the
** result, through one tile's buffer where it is of another dtype.
*/

/* Who is asked. */
typedef struct asked {
    const char *fn;
    sqlite3_stmt *stmt;
    void *tile; /* for answers of another dtype; NULL until one comes */
} asked;

/* The answer about the rectangle `at`, into the sink. */
static bool put_answer(gx_fn *fn, asked *from, gx_sink *sink, const int64_t at[4])
{
    const void *blob;
    size_t bytes;
    gx_value value;
    if (!gx_fn_check(fn, gx_store_call_rectangle(fn->ctx->store, from->stmt, from->fn, at, &blob,
                                                 &bytes, &fn->err))) {
        return false;
    }
    if (blob == NULL) {
        return gx_fn_fail(fn, "%s(%" PRId64 ", %" PRId64 ", ...) gave no matrix value", from->fn,
                          at[0], at[1]);
    }
    if (gx_value_parse(blob, bytes, &value, &fn->err) != GX_OK) {
        return gx_fn_fail(fn, "%s(%" PRId64 ", %" PRId64 ", ...) gave %s", from->fn, at[0], at[1],
                          fn->err.text);
    }
    if (value.rows != at[2] || value.cols != at[3]) {
        return gx_fn_fail(
            fn, "%s(%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ") gave %" PRId64 "x%" PRId64,
            from->fn, at[0], at[1], at[2], at[3], value.rows, value.cols);
    }
    const void *elements = value.data;
    if (!gx_dtype_is(value.dtype, sink->number) || (uintptr_t)elements % sizeof(double) != 0) {
        gx_mat answer;
        const gx_mat like = {.number = sink->number};
        if (from->tile == NULL &&
            !gx_look_buffer(fn, &like, gx_min(sink->tile_rows, sink->rows),
                            gx_min(sink->tile_cols, sink->cols), &from->tile)) {
            return false;
        }
        gx_mat_array(&answer, from->fn, value.dtype, at[2], at[3], elements, at[2]);
        elements = from->tile;
        if (!gx_fn_check(fn, gx_mat_read(&fn->run, &answer, NULL, 0, 0, at[2], at[3], sink->number,
                                         from->tile, at[2], &fn->err))) {
            return false;
        }
    }
    gx_fn_check(fn, gx_sink_write(sink, at[0], at[1], at[2], at[3], elements, at[2], &fn->err));
    gx_run_advance(&fn->run, (double)at[2] * (double)at[3]);
    return gx_run_poll(&fn->run) == GX_OK;
}

static void ask(gx_fn *fn, asked *from, gx_sink *sink)
{
    int64_t height = gx_max(sink->tile_rows, 1), width = gx_max(sink->tile_cols, 1);
    gx_run_progress(&fn->run, (double)sink->rows * (double)sink->cols);
    for (int64_t i = 0; i < sink->rows; i += height) {
        for (int64_t j = 0; j < sink->cols; j += width) {
            const int64_t at[] = {i, j, gx_min(height, sink->rows - i),
                                  gx_min(width, sink->cols - j)};
            if (!put_answer(fn, from, sink, at)) {
                return;
            }
        }
    }
}

/* gx_from_function(fn, m, n[, destination][, options]) */
static void from_function(gx_fn *fn)
{
    asked from = {0};
    int64_t m, n;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_text(fn, 0, "fn", &from.fn) ||
        !gx_fn_size(fn, 1, "m", &m) || !gx_fn_size(fn, 2, "n", &n) ||
        !gx_fn_check(fn, gx_store_call_open(fn->ctx->store, from.fn, &from.stmt, &fn->err))) {
        return;
    }
    gx_sink sink;
    fn->dest.is_asked_for = true;
    fn->dest.is_streamed = true;
    gx_sink_begin(&fn->run, &fn->dest, m, n, gx_dest_number(&fn->dest, GX_F64), 0, 0, 0, &sink);
    if (gx_ok(&fn->run)) {
        ask(fn, &from, &sink);
    }
    gx_store_call_close(from.stmt);
    gx_fn_result_sink(fn, &sink);
}

// A table -----------------------------------------------------------------------------------------

/*
** gx_from_table: a matrix of a table's or view's columns, read by its name.
**
** A function of SQLite takes 127 arguments, a table has up to 2000 columns (or more, where the
** library was built so); so the rows do not come as arguments here, but by a statement of the
** store's (store_table.c).  They go into a gx_stack as those of gx_store_rows do, within the memory
** limit.
*/

/* The list of columns, where the second argument is one: another text there is the destination. */
static bool take_columns(gx_fn *fn, const char **columns, int *dest_index)
{
    *columns = NULL;
    *dest_index = 2;
    if (!gx_fn_has(fn, 1)) {
        return true;
    }
    if (!gx_fn_text(fn, 1, "columns", columns)) {
        return false;
    }
    if (gx_arg_begins(fn->argv[1], '[')) {
        return true;
    }
    if (fn->argc > 2) {
        char shown[GX_SHOWN_BYTES];
        return gx_fn_fail(fn, "columns must be a JSON list of names, '[\"a\",\"b\"]', not '%s'",
                          gx_text_show(*columns, strlen(*columns), shown));
    }
    *columns = NULL;
    *dest_index = 1;
    return true;
}

/* All rows, each through `row`: the numbers, then the elements. */
static gx_code add_rows(gx_table *table, gx_stack *stack, int64_t cols, gx_number dtype,
                        double *row, gx_err *err)
{
    void *elements = row + cols;
    bool is_row;
    for (int64_t i = 0;; i++) {
        GX_TRY(gx_table_next(table, row, &is_row, err));
        if (!is_row) {
            return GX_OK;
        }
        gx_convert(GX_F64, row, cols, dtype, elements, cols, cols, 1);
        GX_TRY(gx_stack_add(stack, i, elements, cols, err));
    }
}

/* What the columns are called, as a list of base/names.h. */
static gx_code take_names(gx_mem *mem, const gx_table *table, int64_t cols, char **names,
                          gx_err *err)
{
    size_t used = 1;
    void *list;
    for (int64_t j = 0; j < cols; j++) {
        const char *name = gx_table_column(table, j);
        used += 6 * (name == NULL ? 0 : strlen(name)) + 3;
    }
    GX_TRY(gx_mem_alloc(mem, used + 2, "names of columns", &list, err));
    char *to = *names = list;
    *to++ = '[';
    for (int64_t j = 0; j < cols; j++) {
        const char *name = gx_table_column(table, j);
        to += gx_names_quote(name == NULL ? "" : name, name == NULL ? 0 : strlen(name), to);
        *to++ = j + 1 < cols ? ',' : ']';
    }
    memcpy(to, cols > 0 ? "" : "]", cols > 0 ? 1 : 2);
    return GX_OK;
}

static gx_code collect(gx_fn *fn, const char *name, const char *columns, gx_number dtype,
                       gx_stack **stack, char **names, gx_err *err)
{
    gx_scatter_spec spec = {.rows = -1, .dtype = dtype};
    gx_mem *mem = fn->ctx->mem;
    gx_table *table;
    void *row = NULL;
    GX_TRY(gx_table_open(fn->ctx->store, name, columns, &table, &spec.cols, err));
    gx_code code = gx_mem_alloc(mem, (size_t)spec.cols * (sizeof(double) + gx_number_bytes(dtype)),
                                "a row", &row, err);
    if (code == GX_OK) {
        code = gx_stack_create(fn->ctx, &spec, stack, err);
    }
    if (code == GX_OK && fn->dest.name != NULL) {
        code = take_names(mem, table, spec.cols, names, err);
    }
    if (code == GX_OK) {
        code = add_rows(table, *stack, spec.cols, dtype, row, err);
    }
    gx_mem_free(mem, row);
    gx_table_close(table);
    return code;
}

/* gx_from_table(name[, columns][, destination][, options]) */
static void from_table(gx_fn *fn)
{
    char schema[GX_NAME_MAX + 1], bare[GX_NAME_MAX + 1];
    const char *name, *columns;
    int dest_index;
    gx_stack *stack = NULL;
    char *names = NULL;
    gx_sink sink;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_text(fn, 0, "name", &name) ||
        !take_columns(fn, &columns, &dest_index) || !gx_fn_dest(fn, dest_index, &fn->dest) ||
        (fn->dest.name != NULL &&
         !gx_fn_is_free(fn, fn->dest.name, fn->dest.replace, schema, bare)) ||
        !gx_fn_changes(fn, dest_index)) { // locked before it reads
        return;
    }
    gx_number number = gx_dest_number(&fn->dest, GX_F64);
    fn->dest.is_streamed = true;
    if (gx_fn_check(fn, collect(fn, name, columns, number, &stack, &names, &fn->err))) {
        gx_stack_finish(stack, &fn->run, &fn->dest, &sink);
        if (gx_ok(&fn->run) && names != NULL) {
            gx_sink_names(&sink, 1, names);
            names = NULL;
        }
        gx_fn_result_sink(fn, &sink);
    }
    gx_mem_free(fn->ctx->mem, names);
    gx_stack_free(stack);
}

const gx_function gx_functions_from[] = {
    {"gx_from_bytes", 2, 5, GX_MADE(3) | GX_DEST_LATE, from_bytes, 0},
    {"gx_to_bytes", 1, 2, GX_EXACT, to_bytes, 0},
    {"gx_from_memory", 1, 3, GX_MADE(1), from_memory, 0},
    {"gx_to_memory", 2, 2, GX_EXACT, to_memory, 0},
    {"gx_from_function", 3, 5, GX_MADE(3), from_function, 0},
    {"gx_from_table", 1, 4, GX_MADE(2) | GX_DEST_LATE, from_table, 0},
    {.name = NULL},
};
