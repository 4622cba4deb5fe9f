/*
** The matrix store: verification, for gx_check() and PRAGMA integrity_check.
**
** A matrix is sound when its catalog row is (store_catalog.c) and gx_tile holds exactly its tiles,
** each a blob of the right length; of a factorisation, when its pivots are.  A schema is sound when
** its matrices are, no tile belongs to no matrix, no matrix was left half written, and the counters
** in gx_state are ahead of all they gave.
**
** One pass over the rows of gx_tile in key order.  Lengths come from the record headers, so no
** element is read, but for the panels of a sparse matrix, whose starts and indexes others follow.
** Runs of missing tiles are reported as one line, so the work is bounded by what is in the file and
** not by what a damaged catalog row claims.  At most LINES_MAX lines a matrix.
*/
#include <sqlite3ext.h>

#include "aux_data.h"
#include "volume_int.h"

#include <stdio.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum { LINES_MAX = 100, LINE_BYTES = 600 };

/* Where lines go, and how many of them this matrix may still write. */
typedef struct report {
    gx_store_report fn;
    void *arg;
    int left;
} report;

static void say(report *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(report *out, const char *format, ...)
{
    if (out->left == 0) {
        return;
    }
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    gx_text_clean(line);
    out->fn(out->arg, --out->left > 0 ? line : "... and more");
}

/* Never NULL: without memory for it a text is "?". */
static const char *text_of(sqlite3_stmt *stmt, int column)
{
    const char *text = (const char *)sqlite3_column_text(stmt, column);
    return text != NULL ? text : "?";
}

static void say_missing(report *out, const char *label, int64_t first, int64_t last)
{
    if (first == last) {
        say(out, "tile %lld of %s is missing", (long long)first, label);
    } else if (first < last) {
        say(out, "tiles %lld to %lld of %s are missing", (long long)first, (long long)last, label);
    }
}

/* Damage is a line, anything else a failure. */
static gx_code say_damage(report *out, gx_code code, const gx_err *damage, gx_err *err)
{
    if (code == GX_CORRUPT || code == GX_UNSUPPORTED || code == GX_IO || code == GX_AUTH) {
        say(out, "%s", damage->text);
        return GX_OK;
    }
    return code == GX_OK ? GX_OK : gx_fail(err, code, "%s", damage->text);
}

/* A tile in volumes: its row, and what stands behind its stripes. */
static gx_code check_extent(gx_extent_reader *reader, const gx_meta *meta, int64_t tile,
                            report *out, gx_err *err)
{
    gx_err damage = {.code = GX_OK};
    bool found;
    if (tile >= gx_meta_tiles(meta)) { // said already
        return GX_OK;
    }
    gx_code code = gx_extent_find(reader, meta->schema, meta, tile, &found, &damage);
    return say_damage(out, code, &damage, err);
}

/* One row of GX_SQL_TILES against the tile that should come next; returns the one after it. */
static int64_t check_row(sqlite3_stmt *stmt, const gx_meta *meta, const char *label, int64_t next,
                         report *out)
{
    int64_t tiles = gx_meta_tiles(meta);
    int64_t tile = sqlite3_column_int64(stmt, 0) & UINT32_MAX;
    const char *type = text_of(stmt, 1);
    bool is_extent = strcmp(type, "extent") == 0;
    say_missing(out, label, next, gx_min(tile, tiles) - 1);
    if (tile < next) {
        say(out, "tile %lld of %s is there twice: in the database and in volumes", (long long)tile,
            label);
    } else if (tile < tiles && is_extent) {
        return tile + 1;
    } else if (tile >= tiles) {
        say(out, "tile %lld of %s is one too many: it has %lld", (long long)tile, label,
            (long long)tiles);
    } else if (strcmp(type, "blob") != 0) {
        say(out, "tile %lld of %s is of type %s, not a blob", (long long)tile, label, type);
    } else if ((size_t)sqlite3_column_int64(stmt, 2) != gx_meta_tile_bytes(meta, tile)) {
        say(out, "tile %lld of %s has %lld bytes, expected %zu", (long long)tile, label,
            (long long)sqlite3_column_int64(stmt, 2), gx_meta_tile_bytes(meta, tile));
    }
    return gx_min(tile, tiles - 1) + 1;
}

/* Auxiliary data is what the properties say, and is there only when they do. */
static gx_code check_aux(gx_store *store, const gx_meta *meta, const char *label, report *out,
                         gx_err *err)
{
    gx_err damage = {.code = GX_OK};
    void *aux;
    size_t bytes;
    gx_code code = gx_store_read_aux(store, meta, &aux, &bytes, &damage);
    if (code == GX_OK && (meta->is_sparse || meta->is_composite)) { // a directory; what opens it
    } else if (code == GX_OK && (meta->properties & GX_PROP_FACTOR) != 0) {
        code = gx_aux_check(meta, label, aux == NULL ? "" : aux, bytes, &damage);
    } else if (code == GX_OK && aux != NULL && meta->properties < 2 * (uint32_t)GX_PROP_QR) {
        code = gx_fail(&damage, GX_CORRUPT, "%s has auxiliary data but is no factorisation", label);
    }
    gx_mem_free(store->mem, aux);
    return say_damage(out, code, &damage, err);
}

/* One panel that is there, whole, in memory: starts and indexes. */
static gx_code check_panel(gx_store *store, gx_reader *reader, const gx_meta *meta, int64_t panel,
                           report *out, gx_err *err)
{
    char label[GX_LABEL_MAX], what[GX_LABEL_MAX + 40];
    size_t bytes = gx_meta_tile_bytes(meta, panel);
    gx_err damage = {.code = GX_OK};
    gx_csr csr;
    void *block;
    if (gx_store_is_interrupted(store)) {
        return gx_fail(err, GX_INTERRUPT, "interrupted");
    }
    GX_TRY(gx_mem_alloc(store->mem, bytes, "a panel to check", &block, err));
    snprintf(what, sizeof what, "panel %lld of %s", (long long)panel, gx_meta_label(meta, label));
    gx_code code = gx_reader_read(reader, meta, panel, 0, bytes, block, &damage);
    if (code == GX_OK) {
        gx_csr_map(&csr, gx_meta_panel_rows(meta, panel), meta->cols,
                   meta->panels->place[panel].entries, gx_meta_number(meta), block);
        code = gx_csr_check(&csr, what, &damage);
    }
    gx_mem_free(store->mem, block);
    return say_damage(out, code, &damage, err);
}

static gx_code check_panels(gx_store *store, const gx_meta *meta, report *out, gx_err *err)
{
    gx_reader *reader;
    gx_code code = GX_OK;
    GX_TRY(gx_reader_own(store, &reader, err));
    for (int64_t p = 0; p < meta->panels->count && code == GX_OK && out->left > 0; p++) {
        code = check_panel(store, reader, meta, p, out, err);
    }
    gx_reader_close(reader);
    return code;
}

gx_code gx_store_check(gx_store *store, const gx_meta *meta, gx_store_report fn, void *arg,
                       gx_err *err)
{
    report out = {.fn = fn, .arg = arg, .left = LINES_MAX};
    char label[GX_LABEL_MAX];
    gx_schema *schema;
    sqlite3_stmt *stmt;
    gx_meta_label(meta, label);
    GX_TRY(gx_store_schema(store, meta->schema, &schema, err));
    GX_TRY(gx_store_look(store, schema, err));
    bool is_spread = meta->is_spread && gx_spread_has_tables(store, schema);
    gx_extent_reader reader = {.db = store->db, .store = store};
    GX_TRY(gx_store_stmt(store, schema, is_spread ? GX_SQL_SPREAD_TILES : GX_SQL_TILES, &stmt,
                         err));
    sqlite3_bind_int64(stmt, 1, gx_tile_rowid(meta->id, 0));
    sqlite3_bind_int64(stmt, 2, gx_tile_rowid(meta->id, UINT32_MAX));
    int64_t next = 0;
    int rc = SQLITE_DONE;
    gx_code code = GX_OK;
    while (code == GX_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        int64_t tile = sqlite3_column_int64(stmt, 0) & UINT32_MAX;
        next = check_row(stmt, meta, label, next, &out);
        if (strcmp(text_of(stmt, 1), "extent") == 0) {
            code = check_extent(&reader, meta, tile, &out, err);
        }
    }
    gx_extent_reader_close(&reader);
    if (code == GX_OK && rc != SQLITE_DONE) {
        code = gx_store_fail(store->db, rc, err, "reading the tiles of %s", label);
    }
    sqlite3_reset(stmt);
    if (code == GX_OK) {
        say_missing(&out, label, next, gx_meta_tiles(meta) - 1);
        code = check_aux(store, meta, label, &out, err);
    }
    if (code == GX_OK && meta->is_sparse && out.left == LINES_MAX) { // all panels are there
        code = check_panels(store, meta, &out, err);
    }
    return code;
}

// A whole schema ----------------------------------------------------------------------------------

/* What the counters in gx_state have to be ahead of. */
typedef struct counters {
    int64_t id, generation;
} counters;

static gx_code check_matrix(gx_store *store, gx_schema *schema, sqlite3_stmt *stmt, report *out,
                            counters *largest, gx_err *err)
{
    gx_meta meta;
    gx_err damage = {.code = GX_OK};
    out->left = LINES_MAX;
    gx_code code = gx_store_meta(stmt, schema->name, &meta, &damage);
    if (code == GX_OK && meta.is_sparse && meta.name[0] != '\0') {
        code = gx_store_load_panels(store, &meta, &damage);
    }
    largest->id = gx_max(largest->id, meta.id);
    if (code != GX_OK && code != GX_CORRUPT && code != GX_UNSUPPORTED) {
        return gx_fail(err, code, "%s", damage.text);
    }
    if (code != GX_OK) {
        say(out, "%s", damage.text);
        return GX_OK;
    }
    largest->generation = gx_max(largest->generation, meta.generation);
    if (meta.name[0] == '\0') {
        say(out, "matrix with id %lld of %s has no name: a storing call left it unfinished",
            (long long)meta.id, schema->name);
        return GX_OK;
    }
    return gx_store_check(store, &meta, out->fn, out->arg, err);
}

static gx_code check_matrices(gx_store *store, gx_schema *schema, report *out, counters *largest,
                              gx_err *err)
{
    sqlite3_stmt *stmt;
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_ALL, &stmt, err));
    int rc;
    gx_code code = GX_OK;
    while (code == GX_OK && (rc = sqlite3_step(stmt)) != SQLITE_DONE) {
        code = rc == SQLITE_ROW ? check_matrix(store, schema, stmt, out, largest, err)
                                : gx_store_fail(store->db, rc, err, "catalog of %s", schema->name);
    }
    sqlite3_reset(stmt);
    return code;
}

/* A view in the place of a table can be queried, but has no blobs to open. */
static gx_code check_tables(gx_store *store, gx_schema *schema, report *out, gx_err *err)
{
    sqlite3_stmt *stmt;
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_STRANGERS, &stmt, err));
    int rc;
    gx_code code = GX_OK;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        say(out, "%s of %s is a %s, not a table", text_of(stmt, 0), schema->name, text_of(stmt, 1));
    }
    if (rc != SQLITE_DONE) {
        code = gx_store_fail(store->db, rc, err, "reading %s", schema->name);
    }
    sqlite3_reset(stmt);
    return code;
}

static gx_code check_orphans(gx_store *store, gx_schema *schema, gx_sql which, const char *what,
                             report *out, gx_err *err)
{
    sqlite3_stmt *stmt;
    GX_TRY(gx_store_stmt(store, schema, which, &stmt, err));
    int rc;
    gx_code code = GX_OK;
    out->left = LINES_MAX;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        say(out, "%lld %s of %s belong to no matrix (id %lld)",
            (long long)sqlite3_column_int64(stmt, 1), what, schema->name,
            (long long)sqlite3_column_int64(stmt, 0));
    }
    if (rc != SQLITE_DONE) {
        code = gx_store_fail(store->db, rc, err, "tiles of %s", schema->name);
    }
    sqlite3_reset(stmt);
    return code;
}

/* No two extents of a set overlap. */
static gx_code check_sets(gx_store *store, gx_schema *schema, report *out, gx_err *err)
{
    int64_t set = 0;
    gx_code code = GX_OK;
    while (code == GX_OK && (code = gx_spread_next_set(store, schema, &set, err)) == GX_OK &&
           set > 0) {
        gx_err damage = {.code = GX_OK};
        gx_space_map *map = NULL;
        code = gx_spread_map(store, schema, set, &map, &damage);
        gx_space_map_free(map);
        code = say_damage(out, code, &damage, err);
    }
    return code;
}

static gx_code check_counter(gx_store *store, gx_schema *schema, const char *key, int64_t largest,
                             report *out, gx_err *err)
{
    sqlite3_stmt *stmt;
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_GET_STATE, &stmt, err));
    sqlite3_bind_text(stmt, 1, key, -1, SQLITE_STATIC);
    int rc = sqlite3_step(stmt);
    gx_code code = GX_OK;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        code = gx_store_fail(store->db, rc, err, "reading %s", schema->name);
    } else if (rc == SQLITE_DONE || sqlite3_column_type(stmt, 0) != SQLITE_INTEGER) {
        say(out, "gx_state of %s has no valid %s", schema->name, key);
    } else if (sqlite3_column_int64(stmt, 0) <= largest) {
        say(out, "gx_state of %s: %s is %lld, but %lld is in use", schema->name, key,
            (long long)sqlite3_column_int64(stmt, 0), (long long)largest);
    }
    sqlite3_reset(stmt);
    return code;
}

gx_code gx_store_check_schema(gx_store *store, const char *name, gx_store_report fn, void *arg,
                              gx_err *err)
{
    report out = {.fn = fn, .arg = arg, .left = LINES_MAX};
    counters largest = {0, 0};
    gx_schema *schema;
    GX_TRY(gx_store_flush(store, err));
    GX_TRY(gx_store_schema(store, name, &schema, err));
    GX_TRY(gx_store_look(store, schema, err));
    if (!schema->has_tables) {
        return GX_OK;
    }
    GX_TRY(check_tables(store, schema, &out, err));
    GX_TRY(check_matrices(store, schema, &out, &largest, err));
    GX_TRY(check_orphans(store, schema, GX_SQL_ORPHANS, "tiles", &out, err));
    if (gx_spread_has_tables(store, schema)) {
        GX_TRY(check_orphans(store, schema, GX_SQL_ORPHAN_EXTENTS, "extents", &out, err));
        GX_TRY(check_sets(store, schema, &out, err));
    }
    GX_TRY(check_counter(store, schema, "next_id", largest.id, &out, err));
    return check_counter(store, schema, "next_generation", largest.generation, &out, err);
}
