/*
** Control functions: gx_config, gx_version, gx_debug, gx_stats_reset, gx_metrics, gx_selftest,
** gx_benchmark.
**
** gx_debug() gathers in one JSON object what a bug report needs: versions, libraries, the
** machine, the databases of the connection with their journal modes, the settings, and the
** remarks of gx_stats.  It opens gx_cuda.so where it is there, to be able to say why CUDA is
** off.
**
** The last three have files of their own: metrics.c, selftest.c and benchmark.c.
*/
#include "gx_ext.h"

#include "../core/base/machine.h"
#include "../core/connection.h"
#include "../core/device/device.h"
#include "../core/run/totals.h"
#include "../kernels/cpu.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* The new value as text; numbers become theirs.  NULL once the call has failed. */
static const char *setting_value(gx_fn *fn, const char *key)
{
    sqlite3_value *value = fn->argv[1];
    int type = sqlite3_value_type(value);
    if (type == SQLITE_NULL || type == SQLITE_BLOB) {
        gx_fn_fail(fn, "%.40s cannot be %s", key, type == SQLITE_NULL ? "NULL" : "a blob");
        return NULL;
    }
    const char *text = (const char *)sqlite3_value_text(value);
    if (text == NULL) {
        gx_run_failf(&fn->run, GX_NOMEM, "out of memory");
    } else if (strlen(text) != (size_t)sqlite3_value_bytes(value)) {
        gx_fn_fail(fn, "%.40s has a zero byte in it", key);
        text = NULL;
    }
    return text;
}

/*
** A function that reports progress must be there when it is named: a long call is no time to
** miss it.
*/
static gx_code check_progress(gx_fn *fn, const char *value, gx_err *err)
{
    gx_config trial = fn->ctx->config;
    GX_TRY(gx_config_set(&trial, GX_SET_PROGRESS, value, err));
    const char *name = trial.text[GX_SET_PROGRESS];
    if (trial.number[GX_SET_PROGRESS] == GX_PROGRESS_CALLBACK &&
        gx_store_has_function(sqlite3_context_db_handle(fn->sql), name) == GX_ABSENT) {
        return gx_fail(err, GX_ARG,
                       "progress must be off, on, or the name of an SQL function, but there is no "
                       "function %s",
                       name);
    }
    return GX_OK;
}

/* gx_config(key[, value]): the value in force; with a value, sets it first. */
static void config(gx_fn *fn)
{
    const char *key;
    gx_setting setting;
    if (!gx_fn_text(fn, 0, "key", &key) ||
        !gx_fn_check(fn, gx_config_find(key, &setting, &fn->err))) {
        return;
    }
    const char *value = fn->argc == 2 ? setting_value(fn, key) : NULL;
    if ((fn->argc == 2 && value == NULL) ||
        (value != NULL && setting == GX_SET_PROGRESS &&
         !gx_fn_check(fn, check_progress(fn, value, &fn->err))) ||
        (value != NULL &&
         !gx_fn_check(fn, gx_ctx_configure_by_sql(fn->ctx, setting, value, &fn->err)))) {
        return;
    }
    const gx_config *config = &fn->ctx->config;
    gx_result_setting(fn->sql, setting, config->text[setting], config->number[setting]);
}

static void version(gx_fn *fn)
{
    sqlite3_result_text(fn->sql, GX_VERSION, -1, SQLITE_STATIC);
}

/* Counters to zero, remarks forgotten, the memory's peak to what is held now. */
static void stats_reset(gx_fn *fn)
{
    gx_totals_reset(fn->ctx);
    gx_mem_reset(fn->ctx->mem);
}

// gx_debug ----------------------------------------------------------------------------------------

static void add_sqlite(cJSON *root)
{
    cJSON *sqlite = cJSON_AddObjectToObject(root, "sqlite");
    int threading = sqlite3_threadsafe(); // SQLITE_THREADSAFE: 0, 1 or 2
    cJSON_AddStringToObject(sqlite, "version", sqlite3_libversion());
    cJSON_AddStringToObject(sqlite, "source", sqlite3_sourceid());
    cJSON_AddStringToObject(sqlite, "threading",
                            threading == 0   ? "single-thread"
                            : threading == 2 ? "multi-thread"
                                             : "serialized");
    cJSON_AddBoolToObject(sqlite, "secure_delete", sqlite3_compileoption_used("SECURE_DELETE"));
}

static void add_build(cJSON *root)
{
    cJSON *build = cJSON_AddObjectToObject(root, "build");
#ifdef __clang__
    cJSON_AddStringToObject(build, "compiler", __VERSION__);
#else
    cJSON_AddStringToObject(build, "compiler", "gcc " __VERSION__);
#endif
    cJSON_AddStringToObject(build, "blas", gx_cpu_blas_config());
    cJSON_AddStringToObject(build, "cjson", cJSON_Version());
#ifdef SQLITE_CORE
    cJSON_AddStringToObject(build, "linked", "into the application");
#else
    cJSON_AddStringToObject(build, "linked", "loadable extension");
#endif
}

static void add_machine(cJSON *root)
{
    cJSON *machine = cJSON_AddObjectToObject(root, "machine");
    char cpu[128];
    gx_machine_cpu_name(cpu, sizeof cpu);
    cJSON_AddStringToObject(machine, "cpu", cpu);
    cJSON_AddStringToObject(machine, "amx", gx_cpu_amx_state());
    cJSON_AddNumberToObject(machine, "processors", gx_machine_cpus());
    cJSON_AddNumberToObject(machine, "memory", (double)gx_machine_memory());
    cJSON_AddNumberToObject(machine, "memory_available", (double)gx_machine_memory_available());
}

static void add_memory(cJSON *root, const gx_ctx *ctx)
{
    cJSON *memory = cJSON_AddObjectToObject(root, "memory");
    cJSON_AddNumberToObject(memory, "used", (double)gx_mem_used(ctx->mem));
    cJSON_AddNumberToObject(memory, "peak", (double)gx_mem_peak(ctx->mem));
    cJSON_AddNumberToObject(memory, "limit", (double)gx_mem_limit(ctx->mem));
}

static void add_devices(cJSON *root, gx_ctx *ctx)
{
    const gx_backend *backend = NULL;
    gx_device_choose(ctx, &backend, NULL);
    cJSON_AddStringToObject(root, "backend", backend == NULL ? "none" : backend->name);
    bool has_cuda = gx_device_cuda(ctx) != NULL;
    cJSON_AddStringToObject(root, "cuda", has_cuda ? "available" : ctx->cuda_reason);
    char path[PATH_MAX];
    cJSON *profile = cJSON_AddObjectToObject(root, "profile");
    bool has_path = gx_profile_path(path, sizeof path);
    cJSON_AddStringToObject(profile, "file", has_path ? path : "");
    cJSON_AddBoolToObject(profile, "measured", gx_profile_get(ctx)->is_measured);
}

/* One open database: file, journal mode, page size, and whether helper connections can read it. */
static void add_database(cJSON *list, gx_ctx *ctx, sqlite3 *db, const char *schema)
{
    static const char *const pragmas[] = {"journal_mode", "locking_mode", "page_size", "encoding"};
    cJSON *one = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(list, one)) {
        cJSON_Delete(one);
        return;
    }
    cJSON_AddStringToObject(one, "schema", schema);
    const char *file = sqlite3_db_filename(db, schema);
    cJSON_AddStringToObject(one, "file", file == NULL ? "" : file);
    cJSON_AddBoolToObject(one, "read_only", sqlite3_db_readonly(db, schema) == 1);
    for (size_t i = 0; i < sizeof pragmas / sizeof pragmas[0]; i++) {
        char value[64];
        if (gx_store_pragma(db, schema, pragmas[i], value, NULL) == GX_OK) {
            cJSON_AddStringToObject(one, pragmas[i], value);
        }
    }
    const char *refusal = gx_reader_refusal(ctx->store, schema);
    cJSON_AddStringToObject(one, "helpers", refusal == NULL ? "yes" : refusal);
}

static void add_databases(cJSON *root, gx_ctx *ctx, sqlite3 *db)
{
    enum { HAS_DB_NAME = 3039000, SCHEMAS_MOST = 127 }; // sqlite3_db_name() came with 3.39
    cJSON *list = cJSON_AddArrayToObject(root, "databases");
    for (int i = 0; i < SCHEMAS_MOST; i++) {
        const char *schema = i == 0 ? "main" : i == 1 ? "temp" : NULL;
        if (sqlite3_libversion_number() >= HAS_DB_NAME) {
            schema = sqlite3_db_name(db, i);
        }
        if (schema == NULL) {
            return;
        }
        add_database(list, ctx, db, schema);
    }
}

static void add_settings(cJSON *root, const gx_config *config)
{
    cJSON *settings = cJSON_AddObjectToObject(root, "settings");
    for (int i = 0; i < GX_SETTING_COUNT; i++) {
        const char *key = gx_config_info((gx_setting)i)->key;
        if (gx_config_is_number((gx_setting)i)) {
            cJSON_AddNumberToObject(settings, key, (double)config->number[i]);
        } else {
            cJSON_AddStringToObject(settings, key, config->text[i]);
        }
    }
}

static void add_notes(cJSON *root, gx_stats *stats)
{
    cJSON *notes = cJSON_AddObjectToObject(root, "notes");
    struct gx_note note;
    for (int i = 0; gx_stats_note_get(stats, i, &note); i++) {
        cJSON_AddNumberToObject(notes, note.text, (double)note.count);
    }
}

static void debug(gx_fn *fn)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "gx", GX_VERSION);
    cJSON_AddNumberToObject(root, "format", GX_FORMAT_VERSION);
    cJSON_AddNumberToObject(root, "connection", (double)fn->ctx->stats.connection);
    add_sqlite(root);
    add_build(root);
    add_machine(root);
    add_devices(root, fn->ctx);
    add_memory(root, fn->ctx);
    add_databases(root, fn->ctx, sqlite3_context_db_handle(fn->sql));
    add_settings(root, &fn->ctx->config);
    add_notes(root, &fn->ctx->stats);
    char *text = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    if (text == NULL) {
        gx_run_failf(&fn->run, GX_NOMEM, "out of memory");
        return;
    }
    sqlite3_result_text(fn->sql, text, -1, SQLITE_TRANSIENT);
    cJSON_free(text);
}

const gx_function gx_functions_control[] = {
    {"gx_config", 1, 2, 0, config, 0},
    {"gx_version", 0, 0, GX_PURE, version, 0},
    {"gx_debug", 0, 0, 0, debug, 0},
    {"gx_stats_reset", 0, 0, 0, stats_reset, 0},
    {"gx_metrics", 0, 1, 0, gx_fn_metrics, 0},
    {"gx_selftest", 0, 0, 0, gx_fn_selftest, 0},
    {"gx_benchmark", 0, 1, 0, gx_fn_benchmark, 0},
    {.name = NULL},
};
