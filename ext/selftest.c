/*
** gx_selftest(): does gx work here?
**
** A private in-memory database is opened, gx is registered on it with this connection's limits,
** and statements are run whose answers are known: values, stored matrices of many small tiles,
** products of every dtype against the reference backend, reads, and the store's own check.  The
** first answer that differs is told; nothing of the caller's databases, settings and counters is
** touched.  It takes a few hundredths of a second.
*/
#include "gx_ext.h"

#include "../core/connection.h"

#include <stdio.h>
#include <string.h>

static const int64_t LEAST_MEMORY = (int64_t)1 << 20;

typedef struct step {
    const char *what, *sql, *expected;
} step;

// clang-format off
static const step steps[] = {
    {"value", "SELECT gx_json('[[1,2],[3,4]]')", "[[1.0,2.0],[3.0,4.0]]"},
    {"value", "SELECT gx_json(gx_matmul('[[1,2],[3,4]]', '[[5],[6]]'))", "[[17.0],[39.0]]"},
    {"value", "SELECT hex(gx_add('[1]', '[1]'))",
              "67786D7601000000" "0100000000000000" "0100000000000000"
              "0000000000000000" "0000000000000040"},

    {"store", "SELECT gx_store('T', '[[1,2],[3,4]]')", "T"},
    {"store", "SELECT gx_json('T')", "[[1.0,2.0],[3.0,4.0]]"},
    {"store", "SELECT gx_randn(37, 29, 'A', '{\"seed\":1}')", "A"},
    {"store", "SELECT gx_randn(29, 41, 'B', '{\"seed\":2}')", "B"},
    {"store", "SELECT gx_randn(29, 41, 'F', '{\"seed\":3,\"dtype\":\"f32\"}')", "F"},
    {"store", "SELECT gx_randn(29, 41, 'Z', '{\"seed\":4,\"dtype\":\"c128\"}')", "Z"},

    {"product", "SELECT gx_matmul('A', 'B', 'AB')", "AB"},
    {"product", "SELECT gx_matmul('F', 'F', 'FF', '{\"transa\":true}')", "FF"},
    {"product", "SELECT gx_matmul('A', 'Z', 'AZ')", "AZ"},
    {"product", "SELECT gx_matmul('A', 'A', 'AA', '{\"transb\":true}')", "AA"},
    {"reference", "SELECT gx_config('backend', 'reference')", "reference"},
    {"reference", "SELECT gx_norm(gx_sub('AB', gx_matmul('A', 'B'))) < 1e-13 * gx_norm('AB')", "1"},
    {"reference", "SELECT gx_norm(gx_sub('FF', gx_matmul('F', 'F', '{\"transa\":true}')))"
                  " < 1e-5 * gx_norm('FF')", "1"},
    {"reference", "SELECT gx_norm(gx_sub('AZ', gx_matmul('A', 'Z'))) < 1e-13 * gx_norm('AZ')", "1"},
    {"reference", "SELECT gx_norm(gx_sub('AA', gx_matmul('A', 'A', '{\"transb\":true}')))"
                  " < 1e-13 * gx_norm('AA')", "1"},

    {"reading", "SELECT gx_get('A', 36, 28) = gx_get(gx_transpose('A'), 28, 36)", "1"},
    {"reading", "SELECT abs(gx_trace('AA') / (gx_norm('A') * gx_norm('A')) - 1) < 1e-13", "1"},
    {"checking", "SELECT gx_check('AB')", "ok"},
};
// clang-format on

/* Run one statement; false, with the difference in text, when its answer is another. */
static bool is_right(sqlite3 *db, const step *one, char *text, size_t bytes)
{
    sqlite3_stmt *stmt = NULL;
    const char *got = NULL;
    if (sqlite3_prepare_v2(db, one->sql, -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW) {
        got = (const char *)sqlite3_column_text(stmt, 0);
        got = got == NULL ? "NULL" : got;
    }
    bool is_same = got != NULL && strcmp(got, one->expected) == 0;
    if (!is_same) {
        snprintf(text, bytes, "%s: %.150s gave %.150s instead of %.80s", one->what, one->sql,
                 got == NULL ? sqlite3_errmsg(db) : got, one->expected);
    }
    sqlite3_finalize(stmt);
    return is_same;
}

/*
** The settings of the caller's connection that the answers must not depend on.  The memory limit is
** at least 1 MiB: results that are values need some memory, however small the tiles are.
*/
static bool copy_settings(gx_fn *fn, gx_ctx *own, char *text, size_t bytes)
{
    const gx_config *config = &fn->ctx->config;
    char limit[32];
    snprintf(limit, sizeof limit, "%lld",
             (long long)gx_max(config->number[GX_SET_MEMORY_LIMIT], LEAST_MEMORY));
    const struct {
        gx_setting setting;
        const char *value;
    } copied[] = {
        {GX_SET_LOCKED, "off"}, // of the environment: the steps set what they need
        {GX_SET_PROGRESS, "off"},
        {GX_SET_TILE_BYTES, "512"}, // before the limit, whose floor it lowers
        {GX_SET_MEMORY_LIMIT, limit},
        {GX_SET_THREADS, config->text[GX_SET_THREADS]},
        {GX_SET_BACKEND, config->text[GX_SET_BACKEND]},
        {GX_SET_DETERMINISTIC, config->text[GX_SET_DETERMINISTIC]},
    };
    for (size_t i = 0; i < sizeof copied / sizeof copied[0]; i++) {
        gx_err err = {0};
        if (gx_ctx_configure(own, copied[i].setting, copied[i].value, &err) != GX_OK) {
            snprintf(text, bytes, "settings: %.300s", err.text);
            return false;
        }
    }
    return true;
}

int gx_open_private(gx_ctx *ctx, const char *path, sqlite3 **db, gx_ctx **made, char *text,
                    size_t bytes)
{
    char *message = NULL;
    int rc = sqlite3_open_v2(path, db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (rc == SQLITE_OK) {
        rc = ctx->load(*db, made, &message);
    }
    if (rc != SQLITE_OK) {
        snprintf(text, bytes, "a private database could not be opened: %.150s",
                 message != NULL ? message : sqlite3_errstr(rc));
        sqlite3_close(*db);
        *db = NULL;
    }
    sqlite3_free(message);
    return rc;
}

void gx_fn_selftest(gx_fn *fn)
{
    char text[500] = "ok";
    sqlite3 *db = NULL;
    gx_ctx *own;
    if (gx_open_private(fn->ctx, ":memory:", &db, &own, text, sizeof text) != SQLITE_OK) {
        sqlite3_result_text(fn->sql, text, -1, SQLITE_TRANSIENT);
        return;
    }
    bool is_good = copy_settings(fn, own, text, sizeof text);
    for (size_t i = 0; is_good && i < sizeof steps / sizeof steps[0]; i++) {
        is_good = is_right(db, &steps[i], text, sizeof text) && gx_run_poll(&fn->run) == GX_OK;
    }
    if (sqlite3_close(db) != SQLITE_OK && is_good) {
        snprintf(text, sizeof text, "closing: a statement or blob is still open");
        sqlite3_close_v2(db);
    }
    sqlite3_result_text(fn->sql, text, -1, SQLITE_TRANSIENT);
}
