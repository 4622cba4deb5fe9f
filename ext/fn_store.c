/*
** Storing in SQL: gx_store, gx_copy, gx_cast, gx_drop, gx_rename, gx_exists, gx_check.
**
** The first three are one thing, a source copied into a sink (core/mat/sink.c): stored or a value,
** converted or not.  The others speak to the catalog.
*/
#include "gx_ext.h"

#include "../core/mat/sparse.h"

#include <stdio.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

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
    gx_number number = gx_dest_number(dest, A->number);
    if (A->is_sparse) {
        gx_sparse_copy(run, A, dest, number, properties, C);
    } else {
        gx_sink_begin(run, dest, A->rows, A->cols, number, properties, 0, 0, C);
        gx_copy_to_sink(run, A, C);
    }
}

static void copy(gx_fn *fn, const gx_mat *A, const gx_dest *dest)
{
    gx_dest to = gx_dest_like(dest, A);
    uint32_t kept = kept_properties(A, gx_dest_number(&to, A->number));
    gx_sink C;
    gx_err err;
    err.code = GX_OK;
    if (gx_dtype_takes(to.dtype, A->number, A->label, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return;
    }
    gx_copy_any(&fn->run, A, &to, kept, &C);
    gx_fn_result_sink(fn, &C);
}

/* A stored factorisation is copied to another one, with its tiles and pivots as they are. */
static void copy_factor(gx_fn *fn, gx_mat *A, gx_aux *factor, const gx_dest *dest)
{
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

static void copy_any(gx_fn *fn, gx_mat *A, gx_aux *factor, const gx_dest *dest)
{
    if (factor->kind == GX_AUX_NONE) {
        copy(fn, A, dest);
    } else {
        copy_factor(fn, A, factor, dest);
    }
}

static bool is_literal(sqlite3_value *value)
{
    const char *text =
        sqlite3_value_type(value) == SQLITE_TEXT ? (const char *)sqlite3_value_text(value) : NULL;
    return text != NULL && text[strspn(text, " \t\r\n")] == '[';
}

/* A matrix where the name belongs, and a name where the matrix does. */
static bool check_order(gx_fn *fn)
{
    char shown[GX_SHOWN_BYTES];
    bool is_name_last =
        fn->argc > 1 && sqlite3_value_type(fn->argv[1]) == SQLITE_TEXT && !is_literal(fn->argv[1]);
    bool is_matrix_first =
        sqlite3_value_type(fn->argv[0]) == SQLITE_BLOB || is_literal(fn->argv[0]);
    return !is_name_last || !is_matrix_first ||
           gx_fn_fail(fn, "%s is a matrix, but the name comes first: gx_store(name, A)",
                      gx_arg_show(fn->argv[0], shown));
}

/* gx_store(name, A[, options]) */
static void store(gx_fn *fn)
{
    gx_dest dest = {0};
    gx_mat A;
    gx_aux factor;
    const char *name;
    if (gx_fn_options(fn, gx_dest_keys, &dest) && check_order(fn) &&
        gx_fn_text(fn, 0, "name", &name) && gx_fn_dest(fn, 0, &dest) &&
        gx_fn_factor(fn, 1, "matrix", &A, &factor)) {
        copy_any(fn, &A, &factor, &dest);
    }
}

/* gx_copy(A[, destination][, options]) */
static void copy_fn(gx_fn *fn)
{
    gx_dest dest = {0};
    gx_mat A;
    gx_aux factor;
    if (gx_fn_options(fn, gx_dest_keys, &dest) && gx_fn_factor(fn, 0, "A", &A, &factor) &&
        gx_fn_dest(fn, 1, &dest)) {
        copy_any(fn, &A, &factor, &dest);
    }
}

/* The dtype is an argument. */
static const gx_option cast_keys[] = {
    {"saturate", GX_OPT_BOOL, offsetof(gx_dest, saturate), 0},
    {"replace", GX_OPT_BOOL, offsetof(gx_dest, replace), 0},
    {NULL, GX_OPT_END, 0, 0},
};

/* gx_cast(A, dtype[, destination][, options]) */
static void cast(gx_fn *fn)
{
    gx_dest dest = {0};
    gx_mat A;
    if (!gx_fn_options(fn, cast_keys, &dest) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_dtype(fn, 1, &dest.dtype) || !gx_fn_dest(fn, 2, &dest)) {
        return;
    }
    dest.has_dtype = true;
    copy(fn, &A, &dest);
}

// The catalog -------------------------------------------------------------------------------------

typedef struct drop_options {
    int unused; /* a set_offset of 0 means none */
    bool if_exists;
} drop_options;

static const gx_option drop_keys[] = {
    {"if_exists", GX_OPT_BOOL, offsetof(drop_options, if_exists), 0},
    {NULL, GX_OPT_END, 0, 0},
};

/* gx_drop(name[, options]): the name, or NULL when there was none and that is fine. */
static void drop(gx_fn *fn)
{
    drop_options opt = {0};
    const char *name;
    if (!gx_fn_options(fn, drop_keys, &opt) || !gx_fn_text(fn, 0, "name", &name) ||
        !gx_fn_changes(fn, 0)) {
        return;
    }
    gx_err err = {0};
    gx_meta meta;
    bool found;
    if (gx_store_locate(fn->ctx->store, name, &meta, &found, &err) == GX_OK) {
        if (found) {
            gx_store_drop(fn->ctx->store, &meta, &err);
        } else if (!opt.if_exists) {
            gx_store_missing(fn->ctx->store, name, &err);
        }
    }
    if (gx_run_fail(&fn->run, &err) == GX_OK && found) {
        sqlite3_result_text(fn->sql, name, -1, SQLITE_TRANSIENT);
    }
}

/* gx_rename(old, new): the new name */
static void rename_fn(gx_fn *fn)
{
    const char *from, *to;
    gx_err err = {0};
    gx_meta meta;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_text(fn, 0, "name", &from) ||
        !gx_fn_text(fn, 1, "new name", &to) || !gx_fn_changes(fn, 0)) {
        return;
    }
    if (gx_store_find_any(fn->ctx->store, from, &meta, &err) == GX_OK) {
        gx_store_rename(fn->ctx->store, &meta, to, &err);
    }
    if (gx_run_fail(&fn->run, &err) == GX_OK) {
        sqlite3_result_text(fn->sql, to, -1, SQLITE_TRANSIENT);
    }
}

/* gx_exists(name): 1 or 0 */
static void exists(gx_fn *fn)
{
    const char *name;
    gx_err err = {0};
    gx_meta meta;
    bool found;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_text(fn, 0, "name", &name)) {
        return;
    }
    gx_store_locate(fn->ctx->store, name, &meta, &found, &err);
    if (gx_run_fail(&fn->run, &err) == GX_OK) {
        sqlite3_result_int(fn->sql, found);
    }
}

// gx_check ----------------------------------------------------------------------------------------

typedef struct checking {
    gx_store *store;
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

static bool check_schema(void *arg, const char *schema)
{
    checking *c = arg;
    gx_err damage = {0};
    gx_code code = gx_store_check_schema(c->store, schema, add_problem, c, &damage);
    return note_damage(c, code, &damage) != GX_OK;
}

static void check_one(checking *c, const char *name)
{
    gx_err damage = {0};
    gx_meta meta;
    gx_code code = gx_store_find_any(c->store, name, &meta, &damage);
    if (code == GX_OK) {
        code = gx_store_check(c->store, &meta, add_problem, c, &damage);
    }
    (void)note_damage(c, code, &damage);
}

/* gx_check([name]): 'ok' or the problems */
static void check(gx_fn *fn)
{
    gx_err err = {0};
    checking c = {.store = fn->ctx->store, .err = &err};
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
    {"gx_store", 2, 3, false, store},      {"gx_copy", 1, 3, false, copy_fn},
    {"gx_cast", 2, 4, false, cast},        {"gx_drop", 1, 2, false, drop},
    {"gx_rename", 2, 2, false, rename_fn}, {"gx_exists", 1, 1, false, exists},
    {"gx_check", 0, 1, false, check},      {NULL, 0, 0, false, NULL},
};
