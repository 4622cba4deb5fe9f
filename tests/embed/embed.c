/*
** An application that carries gx inside itself: links libgx.a and SQLite, no gx.so anywhere.
**
**     embed DATABASE
**
** Plan: register gx for every later connection with sqlite3_auto_extension(); make a database file;
** store two matrices, multiply them into a third; close; open the file again on a new connection;
** compare the product with the known numbers, read three ways (JSON, one element, rows of a table).
** A connection is closed that has statements of gx, which are there.
** The application defines functions of cJSON and of the Fortran runtime itself: it links all the
** same, and gx works.
** Then a connection for SQL of strangers: sqlite3_gx_safe_init() forbids files and settings, which
** gx_configure() may still set; what it refuses, it says.
** Prints one line; exit status 1 when anything differs.
*/
#include "gx.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

static int failures;

/* An application may carry its own cJSON and its own Fortran runtime: these stand for them. */
const char *cJSON_Version(void);
void _gfortran_concat_string(size_t dest_bytes, char *dest, size_t a_bytes, const char *a,
                             size_t b_bytes, const char *b);

const char *cJSON_Version(void)
{
    return "the application's";
}

void _gfortran_concat_string(size_t dest_bytes, char *dest, size_t a_bytes, const char *a,
                             size_t b_bytes, const char *b)
{
    for (size_t i = 0; i < dest_bytes; i++) {
        dest[i] = i < a_bytes ? a[i] : i - a_bytes < b_bytes ? b[i - a_bytes] : ' ';
    }
}

/* Run SQL and compare the first column of its first row, as text, with expected. */
static void expect(sqlite3 *db, const char *sql, const char *expected)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    const char *got = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
    if (got == NULL || strcmp(got, expected) != 0) {
        printf("%s\n  expected %s\n  got      %s (%s)\n", sql, expected,
               got != NULL ? got : "nothing", sqlite3_errmsg(db));
        failures++;
    }
    sqlite3_finalize(stmt);
}

static sqlite3 *open_database(const char *path)
{
    sqlite3 *db = NULL;
    if (sqlite3_open(path, &db) != SQLITE_OK) {
        printf("%s: %s\n", path, sqlite3_errmsg(db));
        failures++;
    }
    return db;
}

static void close_database(sqlite3 *db)
{
    if (sqlite3_close(db) != SQLITE_OK) {
        printf("close: %s\n", sqlite3_errmsg(db));
        failures++;
    }
}

/* SQL that must fail with that text. */
static void expect_error(sqlite3 *db, const char *sql, const char *expected)
{
    char *message = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &message) == SQLITE_OK || message == NULL ||
        strcmp(message, expected) != 0) {
        printf("%s\n  expected %s\n  got      %s\n", sql, expected,
               message == NULL ? "no error" : message);
        failures++;
    }
    sqlite3_free(message);
}

/* gx_configure() with its result code and, where that is none, its text. */
static void expect_configured(sqlite3 *db, const char *key, const char *value, int code,
                              const char *expected)
{
    char *message = NULL;
    int rc = gx_configure(db, key, value, &message);
    if (rc != code || strcmp(message == NULL ? "" : message, expected) != 0) {
        printf("gx_configure %s %s\n  expected %d %s\n  got      %d %s\n", key, value, code,
               expected, rc, message == NULL ? "" : message);
        failures++;
    }
    sqlite3_free(message);
}

static void use_safely(void)
{
    sqlite3 *db = open_database(":memory:");
    expect_configured(db, "threads", "1", SQLITE_MISUSE, "");
    if (sqlite3_gx_safe_init(db, NULL, NULL) != SQLITE_OK) {
        printf("sqlite3_gx_safe_init failed\n");
        failures++;
    }
    expect(db, "SELECT gx_json('[[1,2]]')", "[[1.0,2.0]]");
    expect(db, "SELECT gx_config('files') || gx_config('locked')", "offon");
    expect_error(db, "SELECT gx_export('[[1]]', '/nonexistent/a.npy')",
                 "gx_export: files are switched off in this connection");
    expect_error(db, "SELECT gx_config('locked', 'off')",
                 "gx_config: locked is on and stays on in this connection");
    expect_error(db, "SELECT gx_config('backend', 'reference')",
                 "gx_config: backend cannot be set: the settings of this connection are locked");
    expect_configured(db, "backend", "reference", SQLITE_OK, "");
    expect(db, "SELECT gx_config('backend')", "reference");
    expect_configured(db, "suitesparse_path", "/nonexistent", SQLITE_OK, "");
    expect(db, "SELECT gx_config('suitesparse_path')", "/nonexistent");
    expect_configured(db, "files", "on", SQLITE_OK, "");
    expect_error(db, "SELECT gx_export('[[1]]', '/nonexistent/a.npy')",
                 "gx_export: cannot write '/nonexistent/a.npy': No such file or directory");
    expect_configured(db, "files", "perhaps", SQLITE_ERROR,
                      "gx: files must be on or off, not 'perhaps'");
    expect_configured(db, NULL, "on", SQLITE_MISUSE, "");
    close_database(db);
}

static int statements_of(sqlite3 *db)
{
    int count = 0;
    for (sqlite3_stmt *s = sqlite3_next_stmt(db, NULL); s != NULL; s = sqlite3_next_stmt(db, s)) {
        count++;
    }
    return count;
}

/*
** gx keeps statements prepared between calls, which sqlite3_close() does not see; a connection that
** is not closed, since a statement of the application is left, goes on, and is closed after that.
*/
static void close_with_statements(const char *path)
{
    sqlite3 *db = open_database(path);
    sqlite3_stmt *own = NULL;
    for (int round = 0; round < 2; round++) {
        expect(db, "SELECT gx_get('C', 1, 0)", "43.0");
        int kept = statements_of(db);
        sqlite3_prepare_v2(db, "SELECT 1", -1, &own, NULL);
        int rc = sqlite3_close(db);
        if (kept == 0 || rc != SQLITE_BUSY || statements_of(db) != 1) {
            printf("%d statements were kept, %d are left, close said %d\n", kept,
                   statements_of(db), rc);
            failures++;
        }
        sqlite3_finalize(own);
    }
    expect(db, "SELECT gx_get('C', 1, 0)", "43.0");
    close_database(db);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        printf("usage: embed DATABASE\n");
        return 2;
    }
    // SQLite's signature for the callback is void (*)(void), whatever it is given.
    sqlite3_auto_extension((void (*)(void))sqlite3_gx_init);

    sqlite3 *db = open_database(argv[1]);
    expect(db, "SELECT gx_version()", GX_VERSION);
    expect(db, "SELECT gx_store('A', '[[1,2],[3,4]]')", "A");
    expect(db, "SELECT gx_store('B', '[[5,6],[7,8]]')", "B");
    expect(db, "SELECT gx_matmul('A', 'B', 'C')", "C");
    close_database(db);

    db = open_database(argv[1]);
    expect(db, "SELECT gx_json('C')", "[[19.0,22.0],[43.0,50.0]]");
    expect(db, "SELECT gx_get('C', 1, 0)", "43.0");
    expect(db, "SELECT sum(value) FROM gx_cells('C')", "134.0");
    expect(db, "SELECT gx_check('C')", "ok");
    expect(db, "SELECT json_extract(gx_debug(), '$.build.cjson')", "the application's");
    expect(db, "SELECT gx_show(gx_eigvals('[[2,1],[1,2]]')) <> ''", "1");
    close_database(db);
    close_with_statements(argv[1]);
    sqlite3_reset_auto_extension();
    use_safely();
    sqlite3_shutdown();

    if (sqlite3_memory_used() != 0) {
        printf("%lld bytes of SQLite's memory were not given back\n",
               (long long)sqlite3_memory_used());
        failures++;
    }
    printf("embedded in an application: %s\n", failures == 0 ? "same answers" : "WRONG");
    return failures == 0 ? 0 : 1;
}
