/*
** Names of rows and columns in SQL: gx_labels, gx_set_labels (core/base/names.h).
*/
#include "gx_ext.h"

#include "../core/base/names.h"

#include <cjson/cJSON.h>
#include <string.h>

static const char *const sides[2] = {"rows", "columns"};

/* A stored matrix of any kind; *is_one false: a value, which has no labels. */
static bool find(gx_fn *fn, gx_meta *meta, bool *is_one)
{
    const char *name;
    gx_mat value;
    *is_one = sqlite3_value_type(fn->argv[0]) == SQLITE_TEXT && !gx_arg_begins(fn->argv[0], '[');
    return *is_one ? gx_fn_text(fn, 0, "A", &name) &&
                         gx_fn_check(fn, gx_store_find_all(fn->ctx->store, name, meta, &fn->err))
                   : gx_fn_matrix(fn, 0, "A", &value);
}

/* gx_labels(A[, axis]): a JSON list of texts and nulls; NULL where there is none */
static void labels(gx_fn *fn)
{
    gx_meta meta;
    gx_text text;
    int64_t axis = 0, count;
    char *names = NULL;
    size_t bytes;
    bool is_stored;
    if (!gx_fn_options(fn, NULL, NULL) || !find(fn, &meta, &is_stored) ||
        !gx_fn_axis(fn, 1, &axis) || !is_stored ||
        !gx_fn_check(
            fn, gx_store_read_labels(fn->ctx->store, &meta, (int)axis, &names, &bytes, &fn->err)) ||
        names == NULL || !gx_fn_own(fn, names)) {
        return;
    }
    gx_names_check(names, bytes, &count);
    int64_t side = axis == 0 ? meta.rows : meta.cols;
    gx_text_begin(&text, &fn->run);
    gx_text_expect(&text, bytes + 5 * (size_t)(side - count));
    gx_text_put(&text, names, bytes - 1);
    for (; count < side && gx_ok(&fn->run); count++) {
        gx_text_puts(&text, count == 0 ? "null" : ",null");
    }
    gx_text_puts(&text, "]");
    gx_fn_result_text(fn, &text);
    gx_fn_result_is_json(fn);
}

/* One item of the list behind what the text has so far. */
static bool put_item(gx_fn *fn, gx_text *text, const cJSON *item, const char *side)
{
    if (cJSON_IsNull(item)) {
        gx_text_puts(text, "null,");
        return gx_ok(&fn->run);
    }
    const char *name = cJSON_GetStringValue(item);
    if (name == NULL) {
        return gx_fn_fail(fn,
                          "labels must be a JSON list of texts and nulls, one for each of the "
                          "%s",
                          side);
    }
    size_t bytes = strlen(name);
    char *room = gx_text_room(text, 6 * bytes + 3);
    if (room == NULL) {
        return false;
    }
    size_t used = gx_names_quote(name, bytes, room);
    room[used] = ',';
    text->used += used + 1;
    return true;
}

/* The list as gx keeps it. */
static bool put_list(gx_fn *fn, gx_text *text, const cJSON *list, const gx_meta *meta, int axis)
{
    int64_t side = axis == 0 ? meta->rows : meta->cols, count = 0;
    const cJSON *item;
    gx_text_puts(text, "[");
    cJSON_ArrayForEach(item, list)
    {
        if (!put_item(fn, text, item, sides[axis])) {
            return false;
        }
        count++;
    }
    if (count != side) {
        return gx_fn_fail(fn, "%lld labels for the %lld %s of %s", (long long)count,
                          (long long)side, sides[axis], meta->name);
    }
    if (count > 0 && text->used > 0) {
        text->used--;
    }
    gx_text_puts(text, "]");
    return gx_ok(&fn->run);
}

static bool parse(gx_fn *fn, const char *json, const gx_meta *meta, int axis, gx_text *text)
{
    const char *rest;
    cJSON *list = gx_json_parse(json, strlen(json), &rest);
    bool is_list = cJSON_IsArray(list) ||
                   gx_fn_fail(fn,
                              "labels must be a JSON list of texts and nulls, one for each of "
                              "the %s",
                              sides[axis]);
    bool is_put = is_list && put_list(fn, text, list, meta, axis);
    cJSON_Delete(list);
    return is_put;
}

static gx_code write(gx_store *store, const gx_meta *meta, int axis, const gx_text *text,
                     gx_err *err)
{
    GX_TRY(gx_store_begin(store, meta->schema, err));
    gx_code rc = gx_store_write_labels(store, meta, axis, text->data, text->used, err);
    gx_code ended = gx_store_end(store, rc == GX_OK, err);
    return rc == GX_OK ? ended : rc;
}

/* gx_set_labels(A, axis, labels): the name; NULL takes them off */
static void set_labels(gx_fn *fn)
{
    const char *name, *json = NULL;
    int64_t axis = 0;
    gx_meta meta;
    gx_text text = {.data = NULL};
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_text(fn, 0, "A", &name) ||
        !gx_fn_axis(fn, 1, &axis)) {
        return;
    }
    if (name[0] == '[') {
        gx_fn_fail(fn, "A is a JSON literal: only a stored matrix has labels");
        return;
    }
    if ((sqlite3_value_type(fn->argv[2]) != SQLITE_NULL && !gx_fn_text(fn, 2, "labels", &json)) ||
        !gx_fn_check(fn, gx_store_find_all(fn->ctx->store, name, &meta, &fn->err))) {
        return;
    }
    gx_text_begin(&text, &fn->run);
    if ((json == NULL || parse(fn, json, &meta, (int)axis, &text)) &&
        gx_fn_check(fn, write(fn->ctx->store, &meta, (int)axis, &text, &fn->err))) {
        sqlite3_result_text(fn->sql, name, -1, SQLITE_TRANSIENT);
    }
    gx_text_clear(&text);
}

const gx_function gx_functions_labels[] = {
    {"gx_labels", 1, 2, GX_SPARSE(0) | GX_EXACT, labels, 0},
    {"gx_set_labels", 3, 3, GX_CHANGES | GX_EXACT, set_labels, 0},
    {.name = NULL},
};
