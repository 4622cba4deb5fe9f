/*
** Storing in SQL: gx_store, gx_copy, gx_cast, gx_set, gx_drop, gx_rename, gx_exists, gx_check.
**
** The first three are one thing, a source copied into a sink (core/mat/sink.c): stored or a value,
** converted or not.  The others speak to the catalog.
*/
#include "cells.h"

#include "../core/mat/quantized.h"
#include "../core/mat/sparse.h"

#include <stdio.h>
#include <string.h>

// Copies ------------------------------------------------------------------------------------------

/* What A keeps in another dtype: rounding to single precision spoils the last two. */
static uint32_t kept_properties(const gx_mat *A, gx_number number)
{
    bool is_narrower = gx_number_is_double(A->number) && !gx_number_is_double(number);
    uint32_t lost = is_narrower ? GX_PROP_POSITIVE | GX_PROP_ORTHOGONAL : 0;
    return A->properties & ~lost;
}

void gx_copy_any(gx_run *run, const gx_mat *A, const gx_dest *dest, uint32_t properties, gx_sink *C)
{
    bool is_field = dest->has_dtype && dest->dtype == GX_DTYPE_M31; // all digits of i64 count
    gx_number number = is_field ? GX_M31 : gx_dest_number(dest, A->number);
    if (A->is_sparse) {
        gx_sparse_copy(run, A, dest, number, properties, C);
    } else {
        gx_sink_begin(run, dest, A->rows, A->cols, number, properties, 0, 0, C);
        gx_copy_to_sink(run, A, C);
    }
    if (dest->name != NULL) {
        gx_sink_take_names(C, A);
    }
}

static void copy(gx_fn *fn, gx_mat *A)
{
    gx_dest to = gx_dest_like(&fn->dest, A);
    uint32_t kept = kept_properties(A, gx_dest_number(&to, A->number));
    gx_sink C;
    if (gx_fn_check(fn, gx_dtype_takes(to.dtype, A->number, A->label, &fn->err))) {
        gx_copy_any(&fn->run, A, &to, kept, &C);
        gx_fn_result_sink(fn, &C);
    }
}

/* A stored factorisation is copied to another one, with its tiles and pivots as they are. */
static void copy_factor(gx_fn *fn, gx_mat *A, gx_aux *factor)
{
    const gx_dest *dest = &fn->dest;
    const char *which = factor->kind == GX_AUX_LU ? "LU" : "QR";
    if (dest->name == NULL) {
        gx_fn_fail(fn, "%s is a stored %s factorisation: give its copy a destination", A->label,
                   which);
        return;
    }
    if (dest->has_dtype && dest->dtype != A->dtype) {
        gx_fn_fail(fn, "%s is a stored %s factorisation of dtype %s and cannot become %s", A->label,
                   which, gx_number_name(A->number), gx_dtype_name(dest->dtype));
        return;
    }
    gx_sink C;
    gx_sink_begin(&fn->run, dest, A->rows, A->cols, A->number, A->properties, A->tile_rows,
                  A->tile_cols, &C);
    gx_sink_aux(&C, factor);
    gx_copy_to_sink(&fn->run, A, &C);
    gx_fn_result_sink(fn, &C);
}

/* A matrix where the name belongs, and a name where the matrix does. */
static bool check_order(gx_fn *fn)
{
    char shown[GX_SHOWN_BYTES];
    bool is_name_last = fn->argc > 1 && sqlite3_value_type(fn->argv[1]) == SQLITE_TEXT &&
                        !gx_arg_begins(fn->argv[1], '[');
    bool is_matrix_first =
        sqlite3_value_type(fn->argv[0]) == SQLITE_BLOB || gx_arg_begins(fn->argv[0], '[');
    return !is_name_last || !is_matrix_first ||
           gx_fn_fail(fn, "%s is a matrix, but the name comes first: gx_store(name, A)",
                      gx_arg_show(fn->argv[0], shown));
}

/* gx_store(name, A[, options]), gx_copy(A[, destination][, options]) */
static void copy_any(gx_fn *fn)
{
    int index = fn->def->variant; // of A
    gx_mat A;
    gx_aux factor;
    const char *name;
    if ((index == 1 && (!check_order(fn) || !gx_fn_text(fn, 0, "name", &name))) ||
        !gx_fn_options(fn, NULL, NULL) ||
        !gx_fn_factor(fn, index, index == 1 ? "matrix" : "A", GX_AUX_ANY, &A, &factor)) {
        return;
    }
    if (factor.kind == GX_AUX_NONE) {
        copy(fn, &A);
    } else {
        copy_factor(fn, &A, &factor);
    }
}

/* The dtype is an argument. */
static const gx_option cast_keys[] = {
    {"saturate", GX_OPT_BOOL, offsetof(gx_dest, saturate), 0},
    {"round", GX_OPT_BOOL, offsetof(gx_dest, round), 0},
    {"replace", GX_OPT_BOOL, offsetof(gx_dest, replace), 0},
    {NULL, GX_OPT_END, 0, 0},
};

/* gx_cast(A, dtype[, destination][, options]) */
static void cast(gx_fn *fn)
{
    gx_mat A;
    if (gx_fn_options(fn, cast_keys, &fn->dest) && gx_fn_matrix(fn, 0, "A", &A) &&
        gx_fn_dtype(fn, 1, &fn->dest.dtype)) {
        fn->dest.has_dtype = true;
        A.is_rounded = fn->dest.round;
        copy(fn, &A);
    }
}

// The catalog -------------------------------------------------------------------------------------

static const gx_option drop_keys[] = {{"if_exists", GX_OPT_BOOL, 0, 0}, {NULL, GX_OPT_END, 0, 0}};

/* gx_drop(name[, options]): the name, or NULL when there was none and that is fine. */
static void drop(gx_fn *fn)
{
    gx_store *store = fn->ctx->store;
    const char *name;
    gx_meta meta;
    bool if_exists = false, found;
    if (!gx_fn_options(fn, drop_keys, &if_exists) || !gx_fn_text(fn, 0, "name", &name) ||
        !gx_fn_check(fn, gx_store_locate(store, name, &meta, &found, &fn->err))) {
        return;
    }
    if (!found && !if_exists) {
        gx_fn_check(fn, gx_store_missing(store, name, &fn->err));
    } else if (found && gx_fn_check(fn, gx_store_drop(store, &meta, &fn->err))) {
        sqlite3_result_text(fn->sql, name, -1, SQLITE_TRANSIENT);
    }
}

/* gx_rename(old, new): the new name */
static void rename_fn(gx_fn *fn)
{
    const char *from, *to;
    gx_store *store = fn->ctx->store;
    gx_meta meta;
    if (gx_fn_options(fn, NULL, NULL) && gx_fn_text(fn, 0, "name", &from) &&
        gx_fn_text(fn, 1, "new name", &to) &&
        gx_fn_check(fn, gx_store_find_all(store, from, &meta, &fn->err)) &&
        gx_fn_check(fn, gx_mat_rename(store, fn->ctx->mem, &meta, to, &fn->err))) {
        sqlite3_result_text(fn->sql, to, -1, SQLITE_TRANSIENT);
    }
}

/* gx_exists(name): 1 or 0 */
static void exists(gx_fn *fn)
{
    const char *name;
    gx_meta meta;
    bool found;
    if (gx_fn_options(fn, NULL, NULL) && gx_fn_text(fn, 0, "name", &name) &&
        gx_fn_check(fn, gx_store_locate(fn->ctx->store, name, &meta, &found, &fn->err))) {
        sqlite3_result_int(fn->sql, found);
    }
}

// One cell ----------------------------------------------------------------------------------------

/*
** The bytes of the element are written in place (incremental blob I/O), under a savepoint, and the
** matrix has a new generation without properties.  For many cells the named tables of gx_cells are
** the way: they write tile by tile (cells_write.c).
*/
static gx_code write_element(gx_store *store, gx_meta *meta, int64_t i, int64_t j,
                             const void *bytes, gx_err *err)
{
    size_t count = gx_dtype_bytes(meta->dtype);
    int64_t ti = i / meta->tile_rows, tj = j / meta->tile_cols;
    int64_t at =
        (j - tj * meta->tile_cols) * gx_meta_tile_height(meta, ti) + i - ti * meta->tile_rows;
    GX_TRY(gx_store_begin(store, meta->schema, err));
    gx_code rc = gx_store_patch_tile(store, meta, gx_meta_tile(meta, ti, tj),
                                     (size_t)at * count, count, bytes, err);
    if (rc == GX_OK) {
        rc = gx_store_touch(store, meta, 0, err);
    }
    gx_code ended = gx_store_end(store, rc == GX_OK, err);
    return rc == GX_OK ? ended : rc;
}

/* The element that argument `index` gives; an i64 with all its digits. */
static bool take_element(gx_fn *fn, int index, const gx_meta *meta, int64_t i, int64_t j,
                         void *bytes)
{
    gx_scalar x;
    const gx_narrowing to = {.dtype = meta->dtype, .i0 = i, .j0 = j};
    if (meta->dtype == GX_DTYPE_I64 && sqlite3_value_type(fn->argv[index]) == SQLITE_INTEGER) {
        int64_t whole = sqlite3_value_int64(fn->argv[index]);
        memcpy(bytes, &whole, sizeof whole);
        return true;
    }
    if (!gx_fn_scalar(fn, index, "value", &x)) {
        return false;
    }
    if (x.im != 0 && !gx_number_is_complex(gx_meta_number(meta))) {
        return gx_fn_fail(fn, "value is complex, but %s is real (%s)", meta->name,
                          gx_dtype_name(meta->dtype));
    }
    return gx_fn_check(fn, gx_narrow_to(GX_C128, &x, 1, &to, bytes, 1, 1, 1, &fn->err));
}

/* gx_set(A, i, j, value) */
static void set(gx_fn *fn)
{
    const char *name;
    int64_t i, j;
    _Alignas(16) char bytes[16];
    gx_meta meta;
    gx_store *store = fn->ctx->store;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_text(fn, 0, "A", &name) ||
        !gx_fn_int(fn, 1, "i", &i) || !gx_fn_int(fn, 2, "j", &j)) {
        return;
    }
    if (name[0] == '[') {
        gx_fn_fail(fn, "A is a JSON literal: only a stored matrix can be written");
        return;
    }
    if (!gx_fn_check(fn, gx_store_find(store, name, &meta, &fn->err)) ||
        !gx_fn_check(fn, gx_cells_check_index("i", i, meta.rows, &fn->err)) ||
        !gx_fn_check(fn, gx_cells_check_index("j", j, meta.cols, &fn->err))) {
        return;
    }
    if (take_element(fn, 3, &meta, i, j, bytes) &&
        gx_fn_check(fn, write_element(store, &meta, i, j, bytes, &fn->err))) {
        sqlite3_result_text(fn->sql, name, -1, SQLITE_TRANSIENT);
    }
}

// gx_check ----------------------------------------------------------------------------------------

typedef struct checking {
    gx_store *store;
    gx_mem *mem;
    sqlite3_str *text; /* the problems so far, joined by "; " */
    gx_err *err;
} checking;

static void add_problem(void *arg, const char *line)
{
    const checking *c = arg;
    sqlite3_str_appendf(c->text, "%s%s", sqlite3_str_length(c->text) > 0 ? "; " : "", line);
}

/* What cannot even be read is a problem as well, and not a failure of the check. */
static gx_code note_damage(checking *c, gx_code code, const gx_err *damage)
{
    if (code == GX_CORRUPT) {
        add_problem(c, damage->text);
        return GX_OK;
    }
    return code == GX_OK ? GX_OK : gx_fail(c->err, code, "%s", damage->text);
}

/* Are the parts of a composite there, of the sizes that it says?  Does a quantised matrix say of
** which one it is? */
static bool check_parts(void *arg, const gx_meta *meta)
{
    checking *c = arg;
    gx_err damage = {0};
    gx_mat opened = {.owned = NULL};
    gx_code code =
        meta->is_composite ? gx_mat_open(c->store, c->mem, meta, &opened, &damage) : GX_OK;
    gx_mat_clear(&opened, c->mem);
    if (gx_meta_code_bits(meta) > 0) {
        gx_quantized_of of;
        code = gx_quantized_read_of(c->store, c->mem, meta, &of, &damage);
    }
    if (code == GX_ARG) {
        damage.code = code = GX_CORRUPT; // of a check it is
    }
    return note_damage(c, code, &damage) == GX_OK;
}

static bool check_schema(void *arg, const char *schema)
{
    checking *c = arg;
    gx_err damage = {0};
    gx_code code = gx_store_check_schema(c->store, schema, add_problem, c, &damage);
    if (note_damage(c, code, &damage) != GX_OK) {
        return true;
    }
    code = gx_store_list(c->store, schema, NULL, check_parts, c, &damage);
    if (code != GX_OK && code != GX_CORRUPT) {
        return gx_fail(c->err, code, "%s", damage.text) != GX_OK;
    }
    if (code != GX_OK && sqlite3_str_length(c->text) == 0) { // else it has been said
        add_problem(c, damage.text);
    }
    return c->err->code != GX_OK;
}

void gx_check_failed(gx_ctx *ctx, sqlite3_str *text)
{
    gx_err err = {.code = GX_OK};
    if (sqlite3_str_length(text) > 0) {
        gx_fail(&err, GX_CORRUPT, "%.*s", sqlite3_str_length(text), sqlite3_str_value(text));
        gx_ctx_failed(ctx, &err);
    }
}

static void check_one(checking *c, const char *name)
{
    gx_err damage = {0};
    gx_meta meta;
    gx_code code = gx_store_find_all(c->store, name, &meta, &damage);
    if (code == GX_OK) {
        code = gx_store_check(c->store, &meta, add_problem, c, &damage);
    }
    (void)note_damage(c, code, &damage);
    if (code == GX_OK) {
        check_parts(c, &meta);
    }
}

/* gx_check([name]): 'ok' or the problems */
static void check(gx_fn *fn)
{
    gx_err err = {0};
    checking c = {.store = fn->ctx->store, .mem = fn->ctx->mem, .err = &err};
    const char *name = NULL;
    if (!gx_fn_options(fn, NULL, NULL) || (gx_fn_has(fn, 0) && !gx_fn_text(fn, 0, "name", &name))) {
        return;
    }
    c.text = sqlite3_str_new(NULL);
    if (name != NULL) {
        check_one(&c, name);
    } else {
        gx_store_each_schema(c.store, check_schema, &c, &err);
    }
    gx_check_failed(fn->ctx, c.text);
    if (sqlite3_str_errcode(c.text) != SQLITE_OK) {
        gx_fail_nomem(&err, 0, "list of problems");
    }
    char *text = sqlite3_str_finish(c.text);
    if (gx_run_fail(&fn->run, &err) != GX_OK) {
        sqlite3_free(text);
    } else if (text == NULL) {
        sqlite3_result_text(fn->sql, "ok", -1, SQLITE_STATIC);
    } else {
        sqlite3_result_text(fn->sql, text, -1, sqlite3_free);
    }
}

const gx_function gx_functions_store[] = {
    {"gx_store", 2, 3, GX_MADE(0) | GX_SPARSE(1) | GX_EXACT, copy_any, 1},
    {"gx_copy", 1, 3, GX_MADE(1) | GX_SPARSE(0) | GX_EXACT, copy_any, 0},
    {"gx_cast", 2, 4, GX_DEST(2) | GX_SPARSE(0) | GX_EXACT, cast, 0},
    {"gx_drop", 1, 2, GX_CHANGES, drop, 0},
    {"gx_rename", 2, 2, GX_CHANGES, rename_fn, 0},
    {"gx_set", 4, 4, GX_CHANGES, set, 0},
    {"gx_exists", 1, 1, 0, exists, 0},
    {"gx_check", 0, 1, 0, check, 0},
    {.name = NULL},
};
