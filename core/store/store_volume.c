/*
** Volumes: made, listed, given up, and a copy of the whole.  See store.h and volume_int.h.
**
**     gx_volumes(id, set_id, path)                 one row a file; path NULL: beside the database
**     gx_extent(id, set_id, offset, length, stamp) one row a tile that is in a set
**     gx_state: volume_key    a random number that the files carry too
**               volume_set    the set that new matrices go to; 0: none
**               next_volume   the next file's id, never used twice: its name has it
**
** A set's id is the id of its first file.  A set that is no longer the current one stays while a
** matrix has tiles there; gx_store_vacuum() removes it afterwards, cuts the others behind their
** last extent and makes holes between.  Files are made before the rows that name them are committed
** and removed after the rows are gone: killed in between leaves a file that no database names, and
** whose name no volume gets again.
*/
#include <sqlite3ext.h>

#include "volume_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

static const char tables_sql[] =
    "CREATE TABLE main.gx_volumes(\n"
    "  id INTEGER PRIMARY KEY, -- never used twice in one file\n"
    "  set_id INTEGER,         -- files of a set are written side by side\n"
    "  path TEXT               -- NULL: beside the database, its name with -gx and the id behind\n"
    ");"
    "CREATE TABLE main.gx_extent(\n"
    "  id INTEGER PRIMARY KEY, -- as gx_tile.id, of a tile that is not there but in volumes\n"
    "  set_id INTEGER,\n"
    "  offset INTEGER,         -- of its stripe in each file of the set\n"
    "  length INTEGER,         -- bytes there\n"
    "  stamp INTEGER           -- a random number that stands behind each stripe\n"
    ");"
    "INSERT OR IGNORE INTO main.gx_state(key, value) "
    "VALUES('volume_key', 0), ('volume_set', 0), ('next_volume', 1);"
    "UPDATE main.gx_state SET value = abs(random() >> 1) + 1 WHERE key = 'volume_key';"
    "UPDATE main.gx_state SET value = 2 WHERE key = 'format' AND value < 2";

/* The counter stays, so that no file's name comes again. */
static const char no_tables_sql[] =
    "DROP TABLE main.gx_volumes; DROP TABLE main.gx_extent;"
    "DELETE FROM main.gx_state WHERE key IN ('volume_key', 'volume_set');"
    "UPDATE main.gx_state SET value = 1 WHERE key = 'format' AND value = 2";

static gx_code exec_in(gx_store *store, const gx_schema *schema, const char *text, gx_err *err)
{
    int rc = gx_store_exec_in(store, schema->name, text);
    return rc == SQLITE_OK
               ? GX_OK
               : gx_store_fail(store->db, rc, err, "the volumes of %s", schema->name);
}

// Rows --------------------------------------------------------------------------------------------

/* Run text, written for main with one number ?1, and call fn for its rows until it fails. */
static gx_code each_row(gx_store *store, const gx_schema *schema, const char *text, int64_t number,
                        gx_code (*fn)(void *arg, sqlite3_stmt *row, gx_err *err), void *arg,
                        gx_err *err)
{
    char *qualified = gx_store_qualify(schema->name, text);
    sqlite3_stmt *stmt = NULL;
    int rc = qualified == NULL
                 ? SQLITE_NOMEM
                 : sqlite3_prepare_v2(store->db, qualified, -1, &stmt, NULL);
    sqlite3_free(qualified);
    gx_code code =
        rc == SQLITE_OK ? gx_store_check_select(schema->name, stmt, err) : GX_OK;
    if (rc == SQLITE_OK && sqlite3_bind_parameter_count(stmt) == 1) {
        rc = sqlite3_bind_int64(stmt, 1, number);
    }
    while (code == GX_OK && rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
        if (rc == SQLITE_ROW) {
            code = fn(arg, stmt, err);
            rc = SQLITE_OK;
        }
    }
    if (code == GX_OK && rc != SQLITE_DONE) {
        code = gx_store_fail(store->db, rc, err, "the volumes of %s", schema->name);
    }
    sqlite3_finalize(stmt);
    return code;
}

typedef struct listing {
    gx_store *store;
    gx_schema *schema;
    int64_t current;
    bool (*fn)(void *arg, const gx_volume_info *info);
    void *arg;
} listing;

static gx_code list_one(void *arg, sqlite3_stmt *row, gx_err *err)
{
    listing *l = arg;
    gx_volume_info info = {.id = sqlite3_column_int64(row, 0), .bytes = -1};
    int64_t set = sqlite3_column_int64(row, 1);
    info.tiles = sqlite3_column_int64(row, 3);
    snprintf(info.schema, sizeof info.schema, "%s", l->schema->name);
    GX_TRY(gx_volume_path(l->store->db, l->schema->name, info.id,
                          (const char *)sqlite3_column_text(row, 2), info.path, err));
    gx_volumes *files = NULL;
    gx_err damage = {.code = GX_OK};
    if (gx_volumes_open(l->store, l->store->db, l->schema->name, set, false, &files, &damage) ==
        GX_OK) {
        (void)gx_volumes_bytes(files, &info.bytes, &damage);
    }
    gx_volumes_close(files);
    if (damage.code == GX_NOMEM || damage.code == GX_BUDGET) {
        return gx_fail(err, damage.code, "%s", damage.text);
    }
    const char *fine = set == l->current ? "current" : "old";
    snprintf(info.state, sizeof info.state, "%s", damage.code != GX_OK ? damage.text : fine);
    l->fn(l->arg, &info);
    return GX_OK;
}

gx_code gx_store_list_volumes(gx_store *store, const char *name,
                              bool (*fn)(void *arg, const gx_volume_info *info), void *arg,
                              gx_err *err)
{
    listing l = {.store = store, .fn = fn, .arg = arg};
    GX_TRY(gx_store_flush(store, err));
    GX_TRY(gx_store_schema(store, name, &l.schema, err));
    GX_TRY(gx_store_look(store, l.schema, err));
    if (!l.schema->has_tables || !gx_spread_has_tables(store, l.schema)) {
        return GX_OK;
    }
    GX_TRY(gx_spread_state(store, l.schema, "volume_set", &l.current, err));
    return each_row(store, l.schema,
                    "SELECT id, set_id, path, (SELECT count(*) FROM main.gx_extent e "
                    "WHERE e.set_id = v.set_id) FROM main.gx_volumes v ORDER BY id",
                    0, list_one, &l, err);
}

// Making a set ------------------------------------------------------------------------------------

static gx_code insert_volume(gx_store *store, const gx_schema *schema, int64_t id, int64_t set,
                             const char *path, gx_err *err)
{
    char *text = sqlite3_mprintf("INSERT INTO main.gx_volumes VALUES(%lld, %lld, %Q)", id, set,
                                 path);
    gx_code code = text == NULL ? gx_fail_nomem(err, 100, "SQL text")
                                : exec_in(store, schema, text, err);
    sqlite3_free(text);
    return code;
}

/* One file and its row.  made: how many files there are, for the removal after a failure. */
static gx_code add_volume(gx_store *store, const gx_schema *schema, const char *path,
                          gx_volume_id *id, gx_err *err)
{
    char full[GX_VOLUME_PATH_MAX];
    GX_TRY(gx_volume_path(store->db, schema->name, id->id, path, full, err));
    bool is_there;
    GX_TRY(gx_volume_exists(store->db, schema->name, full, &is_there, err));
    if (is_there) {
        return gx_fail(err, GX_ARG, "the file %s exists already: move it away", full);
    }
    GX_TRY(insert_volume(store, schema, id->id, id->set, path, err));
    return gx_volume_make(store->db, schema->name, full, id, err);
}

static void remove_made(gx_store *store, const gx_schema *schema, const char *const *paths,
                        int64_t first, int made)
{
    char full[GX_VOLUME_PATH_MAX];
    for (int k = 0; k < made; k++) {
        if (gx_volume_path(store->db, schema->name, first + k, paths == NULL ? NULL : paths[k],
                           full, NULL) == GX_OK) {
            gx_volume_remove(store->db, schema->name, full);
        }
    }
}

/*
** The next numbers of which there are no files: a call that was killed before its commit has left
** some, whose numbers the rollback has given back.  They may be somebody's, and are not touched.
*/
static gx_code pass_leftovers(gx_store *store, const gx_schema *schema, gx_volume_id *id,
                              gx_err *err)
{
    const int64_t PASSED_MOST = 1000;
    int64_t least = id->set;
    for (int64_t free = 0; free < id->count && id->set - least < PASSED_MOST;) {
        char full[GX_VOLUME_PATH_MAX];
        bool is_there;
        GX_TRY(gx_volume_path(store->db, schema->name, id->set + free, NULL, full, err));
        GX_TRY(gx_volume_exists(store->db, schema->name, full, &is_there, err));
        id->set += is_there ? free + 1 : 0;
        free = is_there ? 0 : free + 1;
    }
    return GX_OK;
}

/* made: files that are there, whether it succeeds or not. */
static gx_code make_set(gx_store *store, gx_schema *schema, int count, const char *const *paths,
                        int64_t *first, int *made, gx_err *err)
{
    gx_volume_id id = {.count = count};
    if (!gx_spread_has_tables(store, schema)) {
        GX_TRY(exec_in(store, schema, tables_sql, err));
        GX_TRY(gx_store_arm(store, err));
    }
    GX_TRY(gx_spread_state(store, schema, "volume_key", &id.key, err));
    GX_TRY(gx_spread_state(store, schema, "next_volume", &id.set, err));
    if (id.set < 1 || id.set > INT64_MAX / 2) {
        return gx_fail(err, GX_CORRUPT, "gx_state of %s has no valid next_volume", schema->name);
    }
    if (paths == NULL) {
        GX_TRY(pass_leftovers(store, schema, &id, err));
    }
    *first = id.set;
    for (id.index = 0; id.index < count; id.index++) {
        id.id = id.set + id.index;
        GX_TRY(add_volume(store, schema, paths == NULL ? NULL : paths[id.index], &id, err));
        ++*made;
    }
    GX_TRY(gx_store_set_state(store, schema, "next_volume", id.set + count, err));
    return gx_store_set_state(store, schema, "volume_set", id.set, err);
}

/* The set that new matrices go to has so many files, beside the database. */
static gx_code count_current(void *arg, sqlite3_stmt *row, gx_err *err)
{
    (void)err;
    *(int64_t *)arg = sqlite3_column_int64(row, 0);
    return GX_OK;
}

static gx_code is_so_already(gx_store *store, gx_schema *schema, int count, bool *is_so,
                             gx_err *err)
{
    int64_t set = 0, files = -1;
    *is_so = false;
    if (gx_spread_has_tables(store, schema)) {
        GX_TRY(gx_spread_state(store, schema, "volume_set", &set, err));
        GX_TRY(each_row(store, schema,
                        "SELECT count(*) FROM main.gx_volumes WHERE set_id = ?1 AND path IS NULL",
                        set, count_current, &files, err));
    }
    *is_so = set > 0 && files == count;
    return GX_OK;
}

// Home --------------------------------------------------------------------------------------------

typedef struct homeward {
    gx_store *store;
    gx_schema *schema;
} homeward;

/* A row of the tiles that are in volumes: the catalog's columns, then the tile's row id. */
static gx_code bring_row(void *arg, sqlite3_stmt *row, gx_err *err)
{
    homeward *h = arg;
    gx_meta meta;
    GX_TRY(gx_store_meta(row, h->schema->name, &meta, err));
    if (meta.is_sparse) {
        GX_TRY(gx_store_load_panels(h->store, &meta, err));
    }
    int64_t tile = sqlite3_column_int64(row, GX_META_COLUMN_COUNT) & UINT32_MAX;
    if (tile >= gx_meta_tiles(&meta)) {
        return gx_fail(err, GX_CORRUPT, "gx_extent of %s has a tile too many", h->schema->name);
    }
    if (gx_store_is_interrupted(h->store)) {
        return gx_fail(err, GX_INTERRUPT, "interrupted");
    }
    return gx_spread_bring_home(h->store, h->schema, &meta, tile, err);
}

/*
** Rows of gx_extent go while they are read: the list is sorted by an expression, so that SQLite has
** all of it before the first one is given.
*/
static gx_code bring_all(gx_store *store, gx_schema *schema, gx_err *err)
{
    homeward h = {store, schema};
    GX_TRY(each_row(store, schema,
                    "SELECT m.id, m.name, m.rows, m.cols, m.dtype, m.tile_rows, m.tile_cols, "
                    "m.properties, m.generation, e.id FROM main.gx_extent e "
                    "JOIN main.gx_meta m ON m.id = e.id >> 32 ORDER BY +e.id",
                    0, bring_row, &h, err));
    char *text = sqlite3_mprintf("UPDATE main.gx_meta SET properties = properties & ~%u "
                                 "WHERE properties & %u; DELETE FROM main.gx_extent",
                                 (unsigned)GX_META_SPREAD, (unsigned)GX_META_SPREAD);
    gx_code code = text == NULL ? gx_fail_nomem(err, 100, "SQL text")
                                : exec_in(store, schema, text, err);
    sqlite3_free(text);
    return code == GX_OK ? gx_store_set_state(store, schema, "volume_set", 0, err) : code;
}

static gx_code check_schema(gx_store *store, const gx_schema *schema, gx_err *err)
{
    char full[GX_VOLUME_PATH_MAX];
    if (sqlite3_stricmp(schema->name, "temp") == 0) {
        return gx_fail(err, GX_UNSUPPORTED, "temp has no volumes: it is gone with the connection");
    }
    return gx_volume_path(store->db, schema->name, 1, NULL, full, err);
}

gx_code gx_store_set_volumes(gx_store *store, const char *name, int count,
                             const char *const *paths, gx_err *err)
{
    gx_schema *schema;
    bool is_so = false;
    int64_t first = 0;
    int made = 0;
    GX_TRY(gx_store_flush(store, err));
    GX_TRY(gx_store_schema(store, name, &schema, err));
    GX_TRY(check_schema(store, schema, err));
    if (count < 0 || count > GX_VOLUMES_MAX) {
        return gx_fail(err, GX_ARG, "%d volumes, but at least 0 and at most %d", count,
                       GX_VOLUMES_MAX);
    }
    GX_TRY(gx_store_begin(store, schema->name, err));
    gx_code code = GX_OK;
    if (count > 0 && paths == NULL) {
        code = is_so_already(store, schema, count, &is_so, err);
    }
    if (code == GX_OK && count > 0 && !is_so) {
        code = make_set(store, schema, count, paths, &first, &made, err);
    } else if (code == GX_OK && count == 0 && gx_spread_has_tables(store, schema)) {
        code = bring_all(store, schema, err);
    }
    gx_code ended = gx_store_end(store, code == GX_OK, err);
    code = code == GX_OK ? ended : code;
    if (code != GX_OK) {
        remove_made(store, schema, paths, first, made);
    }
    return code;
}

// Vacuum ------------------------------------------------------------------------------------------

enum { SETS_MAX = 256 };

typedef struct vacuum {
    gx_store *store;
    gx_schema *schema;
    int64_t current, freed;
    int64_t gone[SETS_MAX]; /* sets without an extent */
    int gone_count, sets;
} vacuum;

/* What is free between extents goes back to the file system, where it takes it. */
static gx_code punch_gaps(const vacuum *v, gx_volumes *files, const gx_space_map *map,
                          int64_t *freed, gx_err *err)
{
    int64_t offset, length;
    for (int64_t k = 0; gx_space_map_gap(map, k, &offset, &length); k++) {
        if (gx_store_is_interrupted(v->store)) {
            return gx_fail(err, GX_INTERRUPT, "interrupted");
        }
        gx_volumes_punch(files, offset, length, freed);
    }
    return GX_OK;
}

static gx_code vacuum_set(void *arg, sqlite3_stmt *row, gx_err *err)
{
    vacuum *v = arg;
    gx_volumes *files;
    gx_space_map *map = NULL;
    int64_t set = sqlite3_column_int64(row, 0), bytes = 0;
    v->sets++;
    GX_TRY(gx_volumes_open(v->store, v->store->db, v->schema->name, set, true, &files, err));
    gx_code code = gx_spread_map(v->store, v->schema, set, &map, err);
    if (code == GX_OK) {
        code = gx_volumes_bytes(files, &bytes, err);
    }
    if (code == GX_OK) {
        int64_t end = gx_space_map_end(map);
        bool is_gone = set != v->current && end == GX_VOLUME_BLOCK && v->gone_count < SETS_MAX;
        code = gx_volumes_truncate(files, end, err);
        v->freed += gx_max(0, bytes - end) * gx_volumes_count(files);
        if (is_gone) {
            v->gone[v->gone_count++] = set;
        }
    }
    if (code == GX_OK) {
        code = punch_gaps(v, files, map, &v->freed, err);
    }
    gx_space_map_free(map);
    gx_volumes_close(files);
    return code;
}

/* Paths of the files that go with the commit, one behind the other. */
typedef struct doomed {
    gx_store *store;
    gx_schema *schema;
    char *paths;
    size_t bytes;
} doomed;

static gx_code doom(void *arg, sqlite3_stmt *row, gx_err *err)
{
    doomed *d = arg;
    char full[GX_VOLUME_PATH_MAX];
    GX_TRY(gx_volume_path(d->store->db, d->schema->name, sqlite3_column_int64(row, 0),
                          (const char *)sqlite3_column_text(row, 1), full, err));
    size_t bytes = strlen(full) + 1;
    void *memory = d->paths;
    GX_TRY(gx_mem_realloc(d->store->mem, d->bytes + bytes, "paths of volumes", &memory, err));
    d->paths = memory;
    memcpy(d->paths + d->bytes, full, bytes);
    d->bytes += bytes;
    return GX_OK;
}

static gx_code drop_sets(vacuum *v, doomed *d, gx_err *err)
{
    for (int k = 0; k < v->gone_count; k++) {
        GX_TRY(each_row(v->store, v->schema,
                        "SELECT id, path FROM main.gx_volumes WHERE set_id = ?1", v->gone[k], doom,
                        d, err));
        char text[80];
        snprintf(text, sizeof text, "DELETE FROM main.gx_volumes WHERE set_id = %lld",
                 (long long)v->gone[k]);
        GX_TRY(exec_in(v->store, v->schema, text, err));
    }
    if (v->gone_count < v->sets || v->current != 0) {
        return GX_OK;
    }
    gx_store_finish_schema(v->store, v->schema); // no statement on tables that go
    GX_TRY(exec_in(v->store, v->schema, no_tables_sql, err));
    return gx_store_arm(v->store, err);
}

gx_code gx_store_vacuum(gx_store *store, const char *name, int64_t *freed, gx_err *err)
{
    vacuum v = {.store = store};
    doomed d = {.store = store};
    *freed = 0;
    GX_TRY(gx_store_flush(store, err));
    GX_TRY(gx_store_schema(store, name, &v.schema, err));
    GX_TRY(gx_store_look(store, v.schema, err));
    d.schema = v.schema;
    if (!v.schema->has_tables || !gx_spread_has_tables(store, v.schema)) {
        return GX_OK;
    }
    GX_TRY(gx_store_begin(store, v.schema->name, err));
    gx_code code = GX_OK;
    bool has_volumes = gx_spread_has_tables(store, v.schema); // another may have given them up
    if (has_volumes && gx_spread_may_fill(store, v.schema)) {
        code = gx_spread_state(store, v.schema, "volume_set", &v.current, err);
        if (code == GX_OK) {
            code = each_row(store, v.schema,
                            "SELECT DISTINCT set_id FROM main.gx_volumes ORDER BY 1", 0,
                            vacuum_set, &v, err);
        }
        if (code == GX_OK) {
            code = drop_sets(&v, &d, err);
        }
    }
    gx_code ended = gx_store_end(store, code == GX_OK, err);
    code = code == GX_OK ? ended : code;
    for (size_t at = 0; code == GX_OK && at < d.bytes; at += strlen(d.paths + at) + 1) {
        gx_volume_remove(store->db, v.schema->name, d.paths + at);
    }
    gx_mem_free(store->mem, d.paths);
    *freed = code == GX_OK ? v.freed : 0;
    return code;
}
