/*
** What the tests of the store use: a connection with a store on a file of its own, checks of codes
** and texts, and a matrix whose elements say where they are.  Included by one .c a program.
*/
#ifndef STOREKIT_H
#define STOREKIT_H

#include "store/store.h"

#include <sqlite3.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A connection with a store, on a file of its own in a fresh folder. */
typedef struct fixture {
    char folder[64], path[96];
    sqlite3 *db, *other; /* other: a second connection to the file */
    gx_mem *mem;
    gx_store *store;
    gx_err err;
} fixture;

static inline int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    snprintf(f->folder, sizeof f->folder, "/tmp/gx_store_XXXXXX");
    if (f == NULL || mkdtemp(f->folder) == NULL) {
        return -1;
    }
    snprintf(f->path, sizeof f->path, "%s/t.db", f->folder);
    sqlite3_open(f->path, &f->db);
    sqlite3_open(f->path, &f->other);
    gx_mem_create((size_t)64 << 20, &f->mem, &f->err);
    gx_store_open(f->db, f->mem, &f->store, &f->err);
    gx_store_set_tile_bytes(f->store, 3200); // 20 x 20 f64
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    fixture *f = *state;
    static const char *const names[] = {"t.db", "t.db-journal", "t.db-wal", "t.db-shm",
                                        "u.db", "u.db-journal", "moved.db"};
    gx_store_close(f->store);
    assert_int_equal(sqlite3_close(f->db), SQLITE_OK); // close, not close_v2: nothing may be open
    assert_int_equal(sqlite3_close(f->other), SQLITE_OK);
    assert_int_equal(gx_mem_used(f->mem), 0);
    gx_mem_free_all(f->mem);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", f->folder, names[i]);
        unlink(path);
    }
    rmdir(f->folder);
    free(f);
    return 0;
}

static inline void ok(fixture *f, gx_code code)
{
    if (code != GX_OK) {
        fail_msg("code %d: %s", code, f->err.text);
    }
}

static inline void is_error(fixture *f, gx_code code, gx_code expected, const char *text)
{
    assert_string_equal(f->err.text, text);
    assert_int_equal(code, expected);
    memset(&f->err, 0, sizeof f->err);
}

static inline void run_sql(sqlite3 *db, const char *sql)
{
    char *message = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
        fail_msg("%s: %s", sql, message);
    }
}

static inline int64_t number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return value;
}

/* rows x cols of f64, element (i, j) of tile t = t * 1000 + its number in the tile. */
static inline gx_code write_all(fixture *f, gx_meta *meta)
{
    double data[400];
    int64_t tiles = gx_meta_row_tiles(meta) * gx_meta_col_tiles(meta);
    for (int64_t t = 0; t < tiles; t++) {
        for (int i = 0; i < 400; i++) {
            data[i] = (double)t * 1000 + i;
        }
        GX_TRY(gx_store_write_tile(f->store, meta, t, data, &f->err));
    }
    return GX_OK;
}

static inline gx_meta shaped(const char *schema, int64_t rows, int64_t cols)
{
    gx_meta meta = {.rows = rows, .cols = cols, .dtype = GX_DTYPE_F64};
    snprintf(meta.schema, sizeof meta.schema, "%s", schema);
    return meta;
}

static inline gx_code create_all(fixture *f, const char *schema, const char *name, gx_meta *meta)
{
    *meta = shaped(schema, 50, 30);
    GX_TRY(gx_store_create(f->store, meta, NULL, &f->err));
    GX_TRY(write_all(f, meta));
    return gx_store_publish(f->store, meta, name, false, &f->err);
}

static inline gx_meta make(fixture *f, const char *schema, const char *name)
{
    gx_meta meta;
    ok(f, gx_store_begin(f->store, schema, &f->err));
    ok(f, create_all(f, schema, name, &meta));
    ok(f, gx_store_end(f->store, true, &f->err));
    return meta;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
