/*
** Volumes in SQL: gx_volumes, gx_vacuum, gx_backup, and the table gx_volume.
**
** What they do is the store's (core/store/store_volume.c, store_backup.c); here is how they are
** called.  Every schema has its own volumes; an argument names it, else it is main.
*/
#include "table_fn.h"

#include "../core/base/files.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { LIST_BYTES = 1 << 16 };

/* A schema by name, as the connection spells it; main where the argument is not there. */
static bool take_schema(gx_fn *fn, int index, char schema[GX_NAME_MAX + 1])
{
    const char *text, *bare;
    char dotted[GX_NAME_MAX + 2];
    snprintf(schema, GX_NAME_MAX + 1, "main");
    if (!gx_fn_has(fn, index)) {
        return true;
    }
    if (!gx_fn_text(fn, index, "schema", &text)) {
        return false;
    }
    if (strlen(text) > GX_NAME_MAX) {
        return gx_fn_fail(fn, "the name of the schema is too long");
    }
    snprintf(dotted, sizeof dotted, "%s.", text);
    if (!gx_fn_check(fn, gx_store_split(fn->ctx->store, dotted, schema, &bare, &fn->err))) {
        return false;
    }
    return schema[0] != '\0' || gx_fn_fail(fn, "there is no database %s", text);
}

/* Paths of the list, lent by it.  false: the call has failed. */
static bool take_paths(gx_fn *fn, const cJSON *list, const char *paths[GX_VOLUMES_MAX], int *count)
{
    const cJSON *item;
    *count = 0;
    if (!cJSON_IsArray(list)) {
        return gx_fn_fail(fn, "volumes must be a number or a JSON list of paths");
    }
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsString(item) || item->valuestring[0] == '\0') {
            return gx_fn_fail(fn, "path %d of the list is not a text", *count + 1);
        }
        if (*count == GX_VOLUMES_MAX) {
            return gx_fn_fail(fn, "more than %d volumes", GX_VOLUMES_MAX);
        }
        paths[(*count)++] = item->valuestring;
    }
    return *count > 0 || gx_fn_fail(fn, "the list of paths is empty");
}

static bool set_paths(gx_fn *fn, const char *schema, const char *text, int *count)
{
    const char *paths[GX_VOLUMES_MAX];
    if (!gx_fn_may_use_files(fn)) {
        return false;
    }
    if (fn->ctx->config.number[GX_SET_VOLUMES_ANYWHERE] == 0) {
        return gx_fn_fail(fn, "volumes that are not beside the database must be allowed first: "
                              "gx_config('volumes_anywhere', 'on')");
    }
    const char *rest;
    cJSON *list = strlen(text) < LIST_BYTES ? gx_json_parse(text, strlen(text), &rest) : NULL;
    bool is_set =
        take_paths(fn, list, paths, count) &&
        gx_fn_check(fn, gx_store_set_volumes(fn->ctx->store, schema, *count, paths, &fn->err));
    cJSON_Delete(list);
    return is_set;
}

/* gx_volumes(count or paths[, schema]): how many */
static void volumes(gx_fn *fn)
{
    char schema[GX_NAME_MAX + 1];
    const char *text;
    int64_t wanted;
    int count = 0;
    if (!gx_fn_options(fn, NULL, NULL) || !take_schema(fn, 1, schema)) {
        return;
    }
    if (sqlite3_value_type(fn->argv[0]) == SQLITE_TEXT) {
        if (gx_fn_text(fn, 0, "volumes", &text) && set_paths(fn, schema, text, &count)) {
            sqlite3_result_int(fn->sql, count);
        }
        return;
    }
    if (!gx_fn_int(fn, 0, "volumes", &wanted)) {
        return;
    }
    if (wanted < 0 || wanted > GX_VOLUMES_MAX) {
        gx_fn_fail(fn, "volumes must be 0 to %d, not %" PRId64, GX_VOLUMES_MAX, wanted);
        return;
    }
    gx_store *store = fn->ctx->store;
    int64_t freed; // of the files, when they are empty
    if ((wanted == 0 || gx_fn_may_use_files(fn)) &&
        gx_fn_check(fn, gx_store_set_volumes(store, schema, (int)wanted, NULL, &fn->err)) &&
        (wanted > 0 || gx_fn_check(fn, gx_store_vacuum(store, schema, &freed, &fn->err)))) {
        sqlite3_result_int64(fn->sql, wanted);
    }
}

/* gx_vacuum([schema]): bytes given back */
static void vacuum(gx_fn *fn)
{
    char schema[GX_NAME_MAX + 1];
    int64_t freed;
    if (gx_fn_options(fn, NULL, NULL) && take_schema(fn, 0, schema) &&
        gx_fn_check(fn, gx_store_vacuum(fn->ctx->store, schema, &freed, &fn->err))) {
        sqlite3_result_int64(fn->sql, freed);
    }
}

/* The copy, or what SQLite looks for beside it, is a FIFO or the like: opening it may never end. */
static bool is_place_regular(gx_fn *fn, const char *path)
{
    static const char *const endings[] = {"", "-journal", "-wal", "-shm"};
    char full[PATH_MAX];
    for (size_t k = 0; k < sizeof endings / sizeof endings[0]; k++) {
        int length = snprintf(full, sizeof full, "%s%s", path, endings[k]);
        const char *oddity = length > 0 && (size_t)length < sizeof full
                                 ? gx_file_oddity(full, true)
                                 : NULL;
        if (oddity != NULL) {
            return gx_fn_fail(fn, "'%.300s' is %s, not a regular file", full, oddity);
        }
    }
    return true;
}

/* gx_backup(path[, schema]): the path */
static void backup(gx_fn *fn)
{
    char schema[GX_NAME_MAX + 1];
    const char *path;
    if (gx_fn_options(fn, NULL, NULL) && gx_fn_text(fn, 0, "path", &path) &&
        take_schema(fn, 1, schema) && gx_fn_may_use_files(fn) && is_place_regular(fn, path) &&
        gx_fn_check(fn, gx_store_backup(fn->ctx->store, schema, path, &fn->err))) {
        sqlite3_result_text(fn->sql, path, -1, SQLITE_TRANSIENT);
    }
}

const gx_function gx_functions_volumes[] = {
    {"gx_volumes", 1, 2, 0, volumes, 0},
    {"gx_vacuum", 0, 1, 0, vacuum, 0},
    {"gx_backup", 1, 2, 0, backup, 0},
    {.name = NULL},
};

// The table ---------------------------------------------------------------------------------------

typedef struct volume_list {
    gx_mem *mem;
    gx_volume_info *info; /* owned */
    int64_t count;
    gx_store *store;
    gx_err *err;
} volume_list;

static bool add_volume(void *arg, const gx_volume_info *info)
{
    volume_list *list = arg;
    void *memory = list->info;
    if (gx_mem_realloc(list->mem, (size_t)(list->count + 1) * sizeof *info, "list of volumes",
                       &memory, list->err) != GX_OK) {
        return false;
    }
    list->info = memory;
    list->info[list->count++] = *info;
    return true;
}

static bool add_schema(void *arg, const char *schema)
{
    volume_list *list = arg;
    return gx_store_list_volumes(list->store, schema, add_volume, list, list->err) != GX_OK;
}

static bool begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    volume_list *list = state;
    (void)used;
    *list = (volume_list){.mem = fn->ctx->mem, .store = fn->ctx->store, .err = &fn->err};
    gx_code code = gx_store_each_schema(list->store, add_schema, list, &fn->err);
    *rows = list->count;
    return gx_fn_check(fn, code == GX_OK ? fn->err.code : code);
}

enum { COL_SCHEMA, COL_ID, COL_PATH, COL_BYTES, COL_TILES, COL_STATE, COLUMNS };

static gx_cell cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    const gx_volume_info *info = &((const volume_list *)state)->info[row];
    (void)ctx;
    const gx_cell cells[COLUMNS] = {
        [COL_SCHEMA] = gx_cell_text(info->schema, -1),
        [COL_ID] = gx_cell_int(info->id),
        [COL_PATH] = gx_cell_text(info->path, -1),
        [COL_BYTES] = info->bytes < 0 ? (gx_cell){0} : gx_cell_int(info->bytes),
        [COL_TILES] = gx_cell_int(info->tiles),
        [COL_STATE] = gx_cell_text(info->state, -1),
    };
    return cells[column];
}

static void clear(void *state)
{
    volume_list *list = state;
    if (list->mem != NULL) {
        gx_mem_free(list->mem, list->info);
    }
}

const gx_table_fn gx_table_volumes = {
    .def = {"gx_volume", 0, 0, 0, NULL, 0},
    .shape = "CREATE TABLE x(schema TEXT, id INTEGER, path TEXT, bytes INTEGER, tiles INTEGER, "
             "state TEXT)",
    .columns = COLUMNS,
    .state_bytes = sizeof(volume_list),
    .begin = begin,
    .cell = cell,
    .clear = clear,
};
