/*
** Property: with the shadow tables edited in any way, every query answers or refuses; gx_check
** and integrity_check run; nothing is read past a tile's end.
**
** The input is a list of edits, 8 bytes each: what (1), row (1), value kind (1), value (5); a kind
** from 128 on is a patch of bytes, which panels of sparse matrices and their directory meet most.
** They are applied to a copy of a small database, whose gx_meta, gx_tile and gx_state they
** change; then the queries run.
*/
#include "fuzz.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *const base =
    "SELECT gx_randn(20, 24, 'A', '{\"seed\":1}'), gx_randn(24, 20, 'B', '{\"seed\":2}');"
    "SELECT gx_store('S', '[[1,2],[3,4]]'), gx_randn(3, 20, 'Z', '{\"dtype\":\"c64\"}');"
    "SELECT gx_random(90, 20, 'G', '{\"density\":0.2}');"
    "CREATE VIRTUAL TABLE cells USING gx_cells('A');";

static const char *const queries =
    "SELECT * FROM gx; SELECT gx_info('A'); SELECT gx_shape('A'); SELECT gx_check('A');"
    "SELECT gx_check('S'); SELECT gx_check('Z'); PRAGMA integrity_check; SELECT gx_json('A');"
    "SELECT gx_show('A'); SELECT gx_heatmap('Z'); SELECT gx_get('A', 19, 23); SELECT gx_norm('A');"
    "SELECT gx_norm('Z', '1'); SELECT gx_sum('S'); SELECT gx_trace('S'); SELECT sum(value) FROM "
    "cells;"
    "SELECT * FROM gx_cells('A') WHERE i = 17 AND j = 18; SELECT * FROM gx_rows('B') WHERE i = 3;"
    "SELECT gx_matmul('A', 'B'); SELECT gx_matmul('A', 'B', 'P'); SELECT gx_matmul('A', 'A', 'Q', "
    "'{\"transb\":true}'); SELECT gx_transpose('A', 'T'); SELECT gx_add('A', 'A', 'D');"
    "SELECT gx_store('N', 'Z'); SELECT gx_store('A', 'B', '{\"replace\":true}');"
    "SELECT gx_check('G'); SELECT gx_nnz('G'); SELECT sum(value) FROM gx_cells('G') ORDER BY j, i;"
    "SELECT gx_dense('G'); SELECT gx_get('G', 3, 4); SELECT gx_matmul('G', 'A', 'H'); SELECT "
    "gx_matmul('G', 'B', 'H', '{\"transa\":true}'); SELECT gx_sum('G', 0); SELECT gx_copy('G', "
    "'I'); SELECT gx_transpose('G', 'J'); SELECT gx_matmul('G', 'J'); SELECT gx_abs('G');"
    "SELECT gx_eval('G.T @ (G @ A) + sum(G)'); SELECT gx_matmul(gx_copy('G'), 'A');"
    "UPDATE cells SET value = 1 WHERE i = 2; DELETE FROM cells WHERE j = 0;"
    "INSERT OR REPLACE INTO cells(i, j, value) VALUES (19, 19, 1);"
    "UPDATE gx SET name = 'R' WHERE name = 'S'; DELETE FROM gx WHERE name IN ('A', 'Z');"
    "SELECT gx_store('M', '[[1]]'); SELECT * FROM gx;";

static const char *const columns[] = {"id",        "name",      "rows",       "cols",      "dtype",
                                      "tile_rows", "tile_cols", "properties", "generation"};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

/*
** The value of an edit as SQL: small and large integers, powers of two, text, blobs, NULL,
** reals.
*/
static void value_of(const uint8_t *edit, char *out, size_t size)
{
    long long number = edit[3] | edit[4] << 8 | edit[5] << 16;
    switch (edit[2] % 8) {
    case 0:
        snprintf(out, size, "%lld", number);
        break;
    case 1:
        snprintf(out, size, "-%lld", number);
        break;
    case 2:
        snprintf(out, size, "%lld",
                 (long long)((1ULL << (edit[3] % 64)) + (unsigned long long)(signed char)edit[4]));
        break;
    case 3:
        snprintf(out, size, "NULL");
        break;
    case 4:
        snprintf(out, size, "'%c%c'", 'A' + edit[3] % 26, 'A' + edit[4] % 26);
        break;
    case 5:
        snprintf(out, size, "zeroblob(%lld)", number % 5000);
        break;
    case 6:
        snprintf(out, size, "%lld.5e%d", number, (signed char)edit[6] % 40);
        break;
    default:
        snprintf(out, size, "randomblob(%d)", edit[3] % 64);
        break;
    }
}

/* Some bytes of a tile, or of the directory of a sparse matrix, are others. */
static void patch(sqlite3 *db, const uint8_t *edit)
{
    char sql[400], where[120], bytes[2 * 4 + 1];
    int at = edit[3] | (edit[4] & 3) << 8, count = 1 + edit[1] % 4;
    bool is_tile = (edit[2] & 64) == 0;
    const char *column = is_tile ? "data" : "aux";
    for (int k = 0; k < count; k++) {
        snprintf(bytes + 2 * k, 3, "%02x", edit[4 + k]);
    }
    snprintf(where, sizeof where,
             is_tile ? "id = (SELECT id FROM gx_tile LIMIT 1 OFFSET %d)" : "aux IS NOT NULL",
             edit[1] % 24);
    snprintf(sql, sizeof sql,
             "UPDATE %s SET %s = CAST(substr(%s, 1, %d) || x'%s' || substr(%s, %d) AS BLOB) "
             "WHERE %s AND length(%s) >= %d",
             is_tile ? "gx_tile" : "gx_meta", column, column, at, bytes, column, at + count + 1,
             where, column, at + count);
    fuzz_run(db, sql, NULL, 0, NULL, 0);
}

static void apply(sqlite3 *db, const uint8_t *edit)
{
    char sql[400], value[64];
    if ((edit[2] & 128) != 0) {
        patch(db, edit);
        return;
    }
    value_of(edit, value, sizeof value);
    const char *column = columns[edit[0] % COLUMNS];
    int row = edit[1];
    switch (edit[0] / COLUMNS % 8) {
    case 0:
    case 1:
    case 2:
        snprintf(sql, sizeof sql, "UPDATE gx_meta SET %s = %s WHERE id %% 5 = %d", column, value,
                 row % 5);
        break;
    case 3:
        snprintf(
            sql, sizeof sql,
            "UPDATE gx_tile SET data = %s WHERE rowid = (SELECT id FROM gx_tile LIMIT 1 OFFSET %d)",
            value, row % 24);
        break;
    case 4:
        snprintf(sql, sizeof sql,
                 "DELETE FROM gx_tile WHERE rowid = (SELECT id FROM gx_tile LIMIT 1 OFFSET %d)",
                 row % 24);
        break;
    case 5:
        snprintf(sql, sizeof sql,
                 "UPDATE gx_tile SET id = id + %s WHERE rowid = (SELECT id FROM gx_tile LIMIT 1 "
                 "OFFSET %d)",
                 value, row % 24);
        break;
    case 6:
        snprintf(sql, sizeof sql, "UPDATE gx_state SET value = %s WHERE rowid = %d", value,
                 row % 4);
        break;
    default:
        snprintf(sql, sizeof sql, "%s",
                 row % 6 == 0   ? "DELETE FROM gx_state"
                 : row % 6 == 1 ? "DELETE FROM gx_meta WHERE name = 'A'"
                 : row % 6 == 2
                     ? "INSERT INTO gx_meta SELECT id + 7, name || 'x', rows, cols, dtype, "
                       "tile_rows, tile_cols, properties, generation FROM gx_meta"
                 : row % 6 == 3 ? "DROP TABLE gx_tile"
                 : row % 6 == 4 ? "ALTER TABLE gx_meta RENAME COLUMN dtype TO kind"
                                : "UPDATE gx_tile SET data = CAST(data AS TEXT)");
        break;
    }
    fuzz_run(db, sql, NULL, 0, NULL, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char *image; // the database of `base`, made once
    static sqlite3_int64 image_bytes;
    if (size > 8 * 64) {
        return 0;
    }
    sqlite3 *db = fuzz_open();
    if (image == NULL) {
        if (fuzz_run(db, base, NULL, 0, NULL, 0) != SQLITE_OK) {
            fuzz_fail("base", sqlite3_errmsg(db));
        }
        sqlite3_int64 bytes;
        unsigned char *copy = sqlite3_serialize(db, "main", &bytes, 0);
        static unsigned char store[1 << 20]; // not SQLite's memory, whose balance is checked
        memcpy(store, copy, (size_t)bytes);
        sqlite3_free(copy);
        image = store;
        image_bytes = bytes;
        fuzz_close(db);
        db = fuzz_open();
    }
    unsigned char *copy = sqlite3_malloc64((sqlite3_uint64)image_bytes);
    memcpy(copy, image, (size_t)image_bytes);
    sqlite3_deserialize(db, "main", copy, image_bytes, image_bytes,
                        SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE);
    for (size_t at = 0; at + 8 <= size; at += 8) {
        apply(db, data + at);
    }
    fuzz_run(db, queries, NULL, 0, NULL, 0);
    fuzz_close(db);
    return 0;
}
