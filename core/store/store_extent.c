/*
** Volumes: tiles that have an extent, read, written, brought home.  See volume_int.h.
**
** Why a tile in a volume is as safe as one in the database.  Which tile is where says gx_extent,
** an ordinary table, and so the transaction around it.  An extent is written only by who holds the
** database's write lock, only where nobody reads (below), and is synced before the rows that name
** it are committed.  Killed in between, or rolled back: no row names the bytes, and they are free.
** An extent that a committed row names is never written again; a tile that is changed in place goes
** home into gx_tile first.
**
** Where nobody reads.  Free is what no row names; but a reader in an older snapshot may still see a
** row that has since been deleted.  With a rollback journal there is none: the commit that deleted
** it has excluded all readers.  In WAL mode there is none when a checkpoint, run by a second
** connection while this one holds the write lock, copies the whole log: readers of an older state
** would have kept it from doing so.  Where it does not, within the application's own transaction
** (which may roll a deletion back), and once this call itself has deleted extents, nothing is
** filled: new extents go behind the end of the files.
**
** Memory: the files' handles, the map of gaps; to bring a tile home, that tile.
*/
#include <sqlite3ext.h>

#include "volume_int.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum { SPREAD_TILES = 4 }; /* a matrix of as many default tiles is worth it */

struct gx_spread {
    gx_volumes *files; /* of the current set, for writing; or NULL */
    gx_space_map *map; /* with files                               */
    bool is_dirty;     /* written since the latest sync            */
    gx_extent_reader reader;
};

bool gx_spread_has_tables(gx_store *store, const gx_schema *schema)
{
    return sqlite3_table_column_metadata(store->db, schema->name, "gx_extent", "stamp", NULL, NULL,
                                         NULL, NULL, NULL) == SQLITE_OK;
}

// Reading -----------------------------------------------------------------------------------------

static const char find_sql[] =
    "SELECT id, set_id, offset, length, stamp FROM main.gx_extent WHERE id = ?1";

/*
** The row that the statement stands on, with the columns of find_sql: everybody's only look at
** them.  Whoever can write to the table may have written anything, so that each number is checked
** before it is an offset in a file.  Whether the length is that of the tile checks who knows the
** tile.
*/
static gx_code read_row(sqlite3_stmt *stmt, const char *schema, gx_extent_row *extent, gx_err *err)
{
    enum { ID, SET, OFFSET, LENGTH, STAMP, COLUMNS };
    int64_t number[COLUMNS];
    bool is_sound = true;
    for (int c = 0; c < COLUMNS; c++) {
        is_sound &= sqlite3_column_type(stmt, c) == SQLITE_INTEGER;
        number[c] = sqlite3_column_int64(stmt, c);
    }
    for (int c = OFFSET; c <= LENGTH; c++) {
        is_sound &= number[c] >= GX_VOLUME_BLOCK && number[c] % GX_VOLUME_BLOCK == 0;
    }
    if (!is_sound || number[LENGTH] > INT64_MAX - number[OFFSET]) {
        return gx_fail(err, GX_CORRUPT,
                       "tile %lld of the matrix with id %lld of %s: gx_extent says %lld bytes at "
                       "%lld, expected multiples of %d from %d on",
                       (long long)(number[ID] & UINT32_MAX), (long long)(number[ID] >> 32), schema,
                       (long long)number[LENGTH], (long long)number[OFFSET], GX_VOLUME_BLOCK,
                       GX_VOLUME_BLOCK);
    }
    *extent = (gx_extent_row){number[SET], number[OFFSET], number[LENGTH], number[STAMP]};
    return GX_OK;
}

static gx_code prepare(gx_extent_reader *reader, const char *schema, gx_err *err)
{
    if (sqlite3_stricmp(reader->schema, schema) != 0) {
        gx_extent_reader_close(reader);
        snprintf(reader->schema, sizeof reader->schema, "%s", schema);
    }
    if (reader->find != NULL) {
        return GX_OK;
    }
    char *text = gx_store_qualify(schema, find_sql);
    if (text == NULL) {
        return gx_fail_nomem(err, sizeof find_sql, "SQL text");
    }
    int rc = sqlite3_prepare_v2(reader->db, text, -1, &reader->find, NULL);
    sqlite3_free(text);
    return rc == SQLITE_OK ? GX_OK
                           : gx_store_fail(reader->db, rc, err, "extents of %s", schema);
}

/* The row of a tile, if there is one, as it stands in the table. */
static gx_code look_up(gx_extent_reader *reader, const char *schema, const gx_meta *meta,
                       int64_t row, gx_extent_row *extent, bool *found, gx_err *err)
{
    GX_TRY(prepare(reader, schema, err));
    sqlite3_bind_int64(reader->find, 1, row);
    int rc = sqlite3_step(reader->find);
    gx_code code = GX_OK;
    char label[GX_LABEL_MAX];
    *found = rc == SQLITE_ROW;
    if (rc == SQLITE_ROW) {
        code = read_row(reader->find, schema, extent, err);
    } else if (rc != SQLITE_DONE) {
        code = gx_store_fail(reader->db, rc, err, "extents of %s", gx_meta_label(meta, label));
    }
    sqlite3_reset(reader->find);
    return code;
}

/* The extent's files, open; its length is what it must be for a tile of so many bytes. */
static gx_code enter(gx_extent_reader *reader, const char *schema, const gx_meta *meta,
                     int64_t tile, const gx_extent_row *e, gx_err *err)
{
    size_t tile_bytes = gx_meta_tile_bytes(meta, tile);
    if (reader->volumes == NULL || gx_volumes_set(reader->volumes) != e->set) {
        gx_volumes_close(reader->volumes);
        reader->volumes = NULL;
        GX_TRY(gx_volumes_open(reader->store, reader->db, schema, e->set, false,
                               &reader->volumes, err));
    }
    int64_t length = gx_extent_length(tile_bytes, gx_volumes_count(reader->volumes));
    if (e->length != length) {
        char label[GX_LABEL_MAX];
        return gx_fail(err, GX_CORRUPT,
                       "tile %lld of %s: gx_extent says %lld bytes at %lld, expected %lld",
                       (long long)tile, gx_meta_label(meta, label), (long long)e->length,
                       (long long)e->offset, (long long)length);
    }
    return gx_volumes_verify(reader->volumes, e, gx_tile_rowid(meta->id, tile), tile_bytes, err);
}

gx_code gx_extent_find(gx_extent_reader *reader, const char *schema, const gx_meta *meta,
                       int64_t tile, bool *found, gx_err *err)
{
    int64_t row = gx_tile_rowid(meta->id, tile);
    gx_extent_row extent;
    if (reader->is_snapshot && reader->row == row) {
        *found = true;
        return GX_OK;
    }
    GX_TRY(look_up(reader, schema, meta, row, &extent, found, err));
    bool is_known = *found && reader->row == row && reader->extent.stamp == extent.stamp &&
                    reader->extent.set == extent.set && reader->extent.offset == extent.offset;
    if (is_known || !*found) {
        return GX_OK;
    }
    reader->row = 0;
    GX_TRY(enter(reader, schema, meta, tile, &extent, err));
    reader->row = row;
    reader->extent = extent;
    return GX_OK;
}

gx_code gx_extent_read(gx_extent_reader *reader, const char *schema, const gx_meta *meta,
                       int64_t tile, size_t offset, size_t bytes, void *dst, bool *found,
                       gx_err *err)
{
    GX_TRY(gx_extent_find(reader, schema, meta, tile, found, err));
    return !*found ? GX_OK
                   : gx_volumes_read(reader->volumes, &reader->extent,
                                     gx_meta_tile_bytes(meta, tile), offset, bytes, dst, err);
}

void gx_extent_reader_reset(gx_extent_reader *reader)
{
    sqlite3_finalize(reader->find);
    reader->find = NULL;
    reader->row = 0;
}

void gx_extent_reader_close(gx_extent_reader *reader)
{
    gx_extent_reader_reset(reader);
    gx_volumes_close(reader->volumes);
    reader->volumes = NULL;
}

// Where to write ----------------------------------------------------------------------------------

/* gx_state's number of a key; 0: there is none. */
gx_code gx_spread_state(gx_store *store, gx_schema *schema, const char *key, int64_t *number,
                        gx_err *err)
{
    sqlite3_stmt *stmt;
    *number = 0;
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_GET_STATE, &stmt, err));
    sqlite3_bind_text(stmt, 1, key, -1, SQLITE_STATIC);
    int rc = sqlite3_step(stmt);
    gx_code code = GX_OK;
    if (rc == SQLITE_ROW) {
        *number = sqlite3_column_int64(stmt, 0);
    } else if (rc != SQLITE_DONE) {
        code = gx_store_fail(store->db, rc, err, "reading %s", schema->name);
    }
    sqlite3_reset(stmt);
    return code;
}

gx_code gx_spread_next_set(gx_store *store, gx_schema *schema, int64_t *set, gx_err *err)
{
    sqlite3_stmt *stmt;
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_NEXT_SET, &stmt, err));
    sqlite3_bind_int64(stmt, 1, *set);
    int rc = sqlite3_step(stmt);
    gx_code code = GX_OK;
    *set = rc == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : 0;
    if (rc != SQLITE_ROW) {
        code = gx_store_fail(store->db, rc, err, "extents of %s", schema->name);
    } else if (sqlite3_column_type(stmt, 0) != SQLITE_INTEGER && // what sorts behind all numbers
               sqlite3_column_type(stmt, 0) != SQLITE_NULL) {
        code = gx_fail(err, GX_CORRUPT, "gx_extent of %s has a set_id that is no integer",
                       schema->name);
    }
    sqlite3_reset(stmt);
    return code;
}

/* Does a checkpoint by somebody else copy the whole log? */
static bool all_read_the_latest(gx_store *store, const gx_schema *schema)
{
    sqlite3 *other = NULL;
    sqlite3_vfs *vfs = NULL;
    int in_log = 0, copied = -1;
    (void)sqlite3_file_control(store->db, schema->name, SQLITE_FCNTL_VFS_POINTER, &vfs);
    int rc = sqlite3_open_v2(sqlite3_db_filename(store->db, schema->name), &other,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                             vfs != NULL ? vfs->zName : NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_db_config(other, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    }
    if (rc == SQLITE_OK) { // only a connection that has read knows the log
        rc = sqlite3_exec(other, "SELECT 1 FROM sqlite_master LIMIT 1", NULL, NULL, NULL);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_wal_checkpoint_v2(other, "main", SQLITE_CHECKPOINT_PASSIVE, &in_log, &copied);
    }
    sqlite3_close(other);
    return rc == SQLITE_OK && in_log >= 0 && in_log == copied;
}

bool gx_spread_may_fill(gx_store *store, const gx_schema *schema)
{
    bool is_alone = store->depth > 0 && store->level[0].was_autocommit &&
                    store->level[0].has_savepoint && schema->is_locked &&
                    !schema->has_dropped_extents;
    return is_alone &&
           (!gx_store_is_wal(store, schema->name) || all_read_the_latest(store, schema));
}

gx_code gx_spread_each(gx_store *store, gx_schema *schema, int64_t set,
                       gx_code (*fn)(void *arg, const gx_extent_row *extent, gx_err *err),
                       void *arg, gx_err *err)
{
    sqlite3_stmt *stmt;
    gx_extent_row extent;
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_EXTENTS, &stmt, err));
    sqlite3_bind_int64(stmt, 1, set);
    int rc;
    int64_t end = GX_VOLUME_BLOCK;
    gx_code code = GX_OK;
    while (code == GX_OK && (rc = sqlite3_step(stmt)) != SQLITE_DONE) {
        code = rc == SQLITE_ROW ? read_row(stmt, schema->name, &extent, err)
                                : gx_store_fail(store->db, rc, err, "extents of %s", schema->name);
        if (code == GX_OK && extent.offset < end) {
            code = gx_fail(err, GX_CORRUPT,
                           "gx_extent says %lld bytes at %lld of the volumes of %s, which another "
                           "tile has up to %lld",
                           (long long)extent.length, (long long)extent.offset, schema->name,
                           (long long)end);
        }
        if (code == GX_OK) {
            end = extent.offset + extent.length;
            code = fn(arg, &extent, err);
        }
    }
    sqlite3_reset(stmt);
    return code;
}

static gx_code use_extent(void *arg, const gx_extent_row *extent, gx_err *err)
{
    return gx_space_map_use(arg, extent->offset, extent->length, err);
}

gx_code gx_spread_map(gx_store *store, gx_schema *schema, int64_t set, gx_space_map **map,
                      gx_err *err)
{
    *map = NULL;
    GX_TRY(gx_space_map_create(store->mem, map, err));
    gx_code code = gx_spread_each(store, schema, set, use_extent, *map, err);
    if (code != GX_OK) {
        gx_space_map_free(*map);
        *map = NULL;
    }
    return code;
}

static gx_code spread_of(gx_store *store, gx_schema *schema, gx_spread **spread, gx_err *err)
{
    if (schema->spread == NULL) {
        void *memory;
        GX_TRY(gx_mem_calloc(store->mem, sizeof(gx_spread), "volumes", &memory, err));
        schema->spread = memory;
        schema->spread->reader.db = store->db;
        schema->spread->reader.store = store;
    }
    *spread = schema->spread;
    return GX_OK;
}

/* The current set's files for writing, and what is free there. */
static gx_code open_current(gx_store *store, gx_schema *schema, int64_t set, gx_err *err)
{
    gx_spread *spread;
    GX_TRY(spread_of(store, schema, &spread, err));
    if (spread->files != NULL && gx_volumes_set(spread->files) == set) {
        return GX_OK;
    }
    gx_volumes *files;
    gx_space_map *map;
    GX_TRY(gx_volumes_open(store, store->db, schema->name, set, true, &files, err));
    int64_t bytes = 0;
    gx_code code = gx_spread_map(store, schema, set, &map, err);
    if (code == GX_OK && !gx_spread_may_fill(store, schema)) {
        code = gx_volumes_bytes(files, &bytes, err);
        gx_space_map_append_only(map, bytes);
    }
    if (code == GX_OK && spread->is_dirty) {
        code = gx_volumes_sync(spread->files, err);
    }
    if (code != GX_OK) {
        gx_space_map_free(map);
        gx_volumes_close(files);
        return code;
    }
    gx_volumes_close(spread->files);
    gx_space_map_free(spread->map);
    spread->files = files;
    spread->map = map;
    spread->is_dirty = false;
    return GX_OK;
}

int gx_store_spread_files(gx_store *store, const char *schema_name, double bytes)
{
    gx_schema *schema;
    sqlite3_stmt *stmt;
    if (bytes < SPREAD_TILES * (double)store->tile_bytes ||
        gx_store_schema(store, schema_name, &schema, NULL) != GX_OK ||
        !gx_spread_has_tables(store, schema) ||
        !gx_store_first_row(store, schema_name, GX_SQL_FILES, &stmt)) {
        return 0;
    }
    int files = sqlite3_column_int(stmt, 0);
    sqlite3_reset(stmt);
    return files;
}

gx_code gx_spread_wanted(gx_store *store, gx_schema *schema, const gx_meta *meta, bool *is_wanted,
                         gx_err *err)
{
    size_t bytes = 0;
    int64_t set = 0;
    bool is_large = gx_dtype_matrix_bytes(meta->rows, meta->cols, meta->dtype, &bytes) &&
                    bytes / SPREAD_TILES >= store->tile_bytes;
    *is_wanted = false;
    if (!is_large || !gx_spread_has_tables(store, schema)) {
        return GX_OK;
    }
    GX_TRY(gx_spread_state(store, schema, "volume_set", &set, err));
    *is_wanted = set > 0;
    return set > 0 ? open_current(store, schema, set, err) : GX_OK;
}

// Writing -----------------------------------------------------------------------------------------

static gx_code insert_extent(gx_store *store, gx_schema *schema, int64_t row,
                             const gx_extent_row *e, gx_err *err)
{
    const int64_t values[] = {row, e->set, e->offset, e->length, e->stamp};
    return gx_store_run_with(store, schema, GX_SQL_SET_EXTENT, values, 5, "writing to", err);
}

/* A tile that had gone home, and comes back whole. */
static gx_code drop_tile(gx_store *store, gx_schema *schema, int64_t row, gx_err *err)
{
    const int64_t values[] = {row, row};
    return gx_store_run_with(store, schema, GX_SQL_DROP_TILES, values, 2, "deleting from", err);
}

gx_code gx_spread_files(gx_store *store, gx_schema *schema, gx_volumes **files, gx_err *err)
{
    int64_t set;
    if (schema->spread == NULL || schema->spread->files == NULL) { // rolled back to an outer level
        GX_TRY(gx_spread_state(store, schema, "volume_set", &set, err));
        GX_TRY(open_current(store, schema, set, err));
    }
    *files = schema->spread->files;
    return GX_OK;
}

gx_code gx_spread_place(gx_schema *schema, size_t tile_bytes, gx_extent_row *extent, gx_err *err)
{
    gx_spread *spread = schema->spread;
    *extent = (gx_extent_row){.set = gx_volumes_set(spread->files)};
    extent->length = gx_extent_length(tile_bytes, gx_volumes_count(spread->files));
    sqlite3_randomness(sizeof extent->stamp, &extent->stamp);
    spread->is_dirty = true;
    return gx_space_map_take(spread->map, extent->length, &extent->offset, err);
}

gx_code gx_spread_enter(gx_store *store, gx_schema *schema, int64_t row,
                        const gx_extent_row *extent, gx_err *err)
{
    GX_TRY(drop_tile(store, schema, row, err));
    return insert_extent(store, schema, row, extent, err);
}

gx_code gx_spread_write(gx_store *store, gx_schema *schema, const gx_meta *meta, int64_t tile,
                        const void *data, gx_err *err)
{
    gx_volumes *files;
    gx_extent_row extent;
    size_t bytes = gx_meta_tile_bytes(meta, tile);
    int64_t row = gx_tile_rowid(meta->id, tile);
    GX_TRY(gx_spread_files(store, schema, &files, err));
    GX_TRY(gx_spread_place(schema, bytes, &extent, err));
    GX_TRY(gx_volumes_write(files, &extent, row, bytes, data, err));
    schema->has_dropped_extents |= meta->is_over; // the one that is replaced
    return gx_spread_enter(store, schema, row, &extent, err);
}

gx_code gx_spread_sync(gx_store *store, gx_err *err)
{
    for (gx_schema *schema = store->schemas; schema != NULL; schema = schema->next) {
        if (schema->spread != NULL && schema->spread->is_dirty) {
            if (gx_store_waits_for_disk(store, schema->name)) {
                GX_TRY(gx_volumes_sync(schema->spread->files, err));
            }
            schema->spread->is_dirty = false;
        }
    }
    return GX_OK;
}

void gx_spread_forget(gx_store *store, gx_schema *schema)
{
    gx_spread *spread = schema->spread;
    if (spread != NULL) {
        gx_volumes_close(spread->files);
        gx_space_map_free(spread->map);
        gx_extent_reader_close(&spread->reader);
        gx_mem_free(store->mem, spread);
        schema->spread = NULL;
    }
}

// Home --------------------------------------------------------------------------------------------

/* Extents of tiles, by row ids, that are no more. */
static gx_code erase_extents(gx_store *store, gx_schema *schema, int64_t first, int64_t last,
                             gx_err *err)
{
    const int64_t values[] = {first, last};
    if (!gx_spread_has_tables(store, schema)) {
        return GX_OK;
    }
    schema->has_dropped_extents = true;
    return gx_store_run_with(store, schema, GX_SQL_DROP_EXTENTS, values, 2, "deleting from", err);
}

/* Those of a matrix from number `first` on. */
static gx_code erase_tiles(gx_store *store, gx_schema *schema, int64_t id, int64_t first,
                           gx_err *err)
{
    const int64_t rows[] = {gx_tile_rowid(id, first), gx_tile_rowid(id, UINT32_MAX)};
    GX_TRY(gx_store_run_with(store, schema, GX_SQL_DROP_TILES, rows, 2, "deleting from", err));
    return erase_extents(store, schema, rows[0], rows[1], err);
}

gx_code gx_store_erase(gx_store *store, gx_schema *schema, int64_t id, gx_err *err)
{
    if (id >= 1 && id <= GX_ID_MAX) { // else the row is damaged and owns no tiles
        GX_TRY(erase_tiles(store, schema, id, 0, err));
        GX_TRY(gx_store_drop_labels(store, schema, id, -1, err));
    }
    return gx_store_run_with(store, schema, GX_SQL_DROP_META, &id, 1, "deleting from", err);
}

gx_code gx_store_cut_tiles(gx_store *store, const gx_meta *meta, int64_t first, gx_err *err)
{
    gx_schema *schema;
    GX_TRY(gx_store_schema(store, meta->schema, &schema, err));
    return erase_tiles(store, schema, meta->id, first, err);
}

static gx_code insert_tile(gx_store *store, gx_schema *schema, int64_t row, const void *data,
                           size_t bytes, gx_err *err)
{
    sqlite3_stmt *stmt;
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_WRITE_TILE, &stmt, err));
    sqlite3_bind_int64(stmt, 1, row);
    int rc = sqlite3_bind_blob64(stmt, 2, data, bytes, SQLITE_STATIC);
    return gx_store_run_bound(store, schema, stmt, 2, rc, err);
}

gx_code gx_spread_bring_home(gx_store *store, gx_schema *schema, const gx_meta *meta, int64_t tile,
                             gx_err *err)
{
    gx_spread *spread;
    bool found;
    void *data;
    size_t bytes = gx_meta_tile_bytes(meta, tile);
    int64_t row = gx_tile_rowid(meta->id, tile);
    GX_TRY(spread_of(store, schema, &spread, err));
    GX_TRY(gx_extent_find(&spread->reader, schema->name, meta, tile, &found, err));
    if (!found) {
        return GX_OK;
    }
    GX_TRY(gx_mem_alloc(store->mem, bytes, "a tile of a volume", &data, err));
    gx_code code = gx_extent_read(&spread->reader, schema->name, meta, tile, 0, bytes, data,
                                  &found, err);
    if (code == GX_OK) {
        code = insert_tile(store, schema, row, data, bytes, err);
    }
    gx_mem_free(store->mem, data);
    return code == GX_OK ? erase_extents(store, schema, row, row, err) : code;
}
