/*
** What the fuzz targets share: see fuzz.h.
**
** Nothing is kept between inputs but what SQLite and gx keep per process.
*/
#include "fuzz.h"

#include "../../ext/gx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fuzz_fail(const char *what, const char *detail)
{
    fprintf(stderr, "fuzz: %s: %s\n", what, detail);
    __builtin_trap();
}

sqlite3 *fuzz_open(void)
{
    sqlite3 *db = NULL;
    if (sqlite3_open(":memory:", &db) != SQLITE_OK) {
        fuzz_fail("sqlite3_open", sqlite3_errmsg(db));
    }
    int rc = sqlite3_gx_init(db, NULL, NULL);
    if (rc != SQLITE_OK && rc != SQLITE_OK_LOAD_PERMANENTLY) {
        fuzz_fail("sqlite3_gx_init", sqlite3_errmsg(db));
    }
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 4000000);
    if (fuzz_run(db,
                 "SELECT gx_config('threads', 1), gx_config('tile_bytes', 2048),"
                 " gx_config('memory_limit', 8000000), gx_config('files', 'off')",
                 NULL, 0, NULL, 0) != SQLITE_OK) {
        fuzz_fail("gx_config", sqlite3_errmsg(db));
    }
    return db;
}

void fuzz_close(sqlite3 *db)
{
    if (sqlite3_close(db) != SQLITE_OK) {
        fuzz_fail("sqlite3_close", sqlite3_errmsg(db));
    }
    if (sqlite3_memory_used() != 0) {
        fuzz_fail("leak", "SQLite's memory is not back to 0");
    }
}

static void bind(sqlite3_stmt *stmt, const uint8_t *data, size_t size)
{
    const void *bytes = data != NULL ? (const void *)data : "";
    if (sqlite3_bind_parameter_count(stmt) >= 1) {
        sqlite3_bind_blob64(stmt, 1, bytes, size, SQLITE_STATIC);
    }
    if (sqlite3_bind_parameter_count(stmt) >= 2) {
        sqlite3_bind_text64(stmt, 2, bytes, size, SQLITE_STATIC, SQLITE_UTF8);
    }
}

/*
** A catalog row edited to 500 million columns makes an UPDATE of a row of cells long, as it would
** be for a true matrix of that size.  Statements are interrupted, as an application would, after
** so many steps of SQLite's machine, so that a run can be repeated.
*/
enum { STEPS_PER_CALL = 1000, CALLS_MAX = 2000 };

static int count_down(void *calls)
{
    return --*(int *)calls < 0;
}

int fuzz_run(sqlite3 *db, const char *sql, const uint8_t *data, size_t size, char *out,
             size_t out_size)
{
    int first = SQLITE_OK;
    if (out != NULL) {
        out[0] = '\0';
    }
    while (*sql != '\0') {
        sqlite3_stmt *stmt = NULL;
        int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, &sql);
        if (rc != SQLITE_OK) {
            return first != SQLITE_OK ? first
                                      : rc; // the target's own SQL: nothing after it is known
        }
        if (stmt == NULL) {
            continue;
        }
        bind(stmt, data, size);
        int calls = CALLS_MAX;
        sqlite3_progress_handler(db, STEPS_PER_CALL, count_down, &calls);
        for (int rows = 0; rows < 1000 && sqlite3_step(stmt) == SQLITE_ROW; rows++) {
            for (int c = 0; c < sqlite3_column_count(stmt); c++) {
                const char *text = (const char *)sqlite3_column_text(stmt, c);
                if (out != NULL && rows == 0 && c == 0 && text != NULL) {
                    snprintf(out, out_size, "%s", text);
                }
            }
        }
        rc = sqlite3_finalize(stmt);
        sqlite3_progress_handler(db, 0, NULL, NULL);
        first = first != SQLITE_OK ? first : rc;
    }
    return first;
}
