/*
** The matrix store: names and catalog rows (table gx_meta).
**
** A name is "bare" or "schema.bare".  To find a bare one, temp is asked first, then main, then the
** attached databases in order, as SQLite does with tables; a new matrix with a bare name goes to
** main.  Names are compared byte by byte, schema names without case, again as SQLite does.
**
** A row whose name is NULL is a matrix that is still being written, and is found by nobody.  Rows
** are read, and checked, by store_meta.c.
**
** Ids and generations are counters in gx_state, moved in the same transaction as the row they are
** given to, so no two committed states of a file carry the same pair.
*/
#include <sqlite3ext.h>

#include "volume_int.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

// Names -------------------------------------------------------------------------------------------

/* A database attached under no name, or a longer one than there is room for, is not seen. */
static bool is_usable(const char *schema)
{
    return schema != NULL && schema[0] != '\0' && strlen(schema) <= GX_NAME_MAX;
}

/* Call fn with each attached database's name in order, until it returns true. */
static gx_code each_attached(gx_store *store, bool (*fn)(void *arg, const char *name), void *arg,
                             gx_err *err)
{
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(store->db, "PRAGMA database_list", -1, &stmt, NULL);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        rc = sqlite3_step(stmt);
        if (rc == SQLITE_ROW && sqlite3_column_int(stmt, 0) > 1) {
            const char *schema = (const char *)sqlite3_column_text(stmt, 1);
            rc = is_usable(schema) && fn(arg, schema) ? SQLITE_DONE : rc;
        }
    }
    gx_code code =
        rc == SQLITE_DONE ? GX_OK : gx_store_fail(store->db, rc, err, "list of databases");
    sqlite3_finalize(stmt);
    return code;
}

typedef struct wanted {
    const char *text; /* what the user wrote, not NUL-terminated there */
    int bytes;
    char *out; /* the database's own spelling of it */
    bool found;
} wanted;

static bool is_wanted(void *arg, const char *name)
{
    wanted *w = arg;
    if (name == NULL || (int)strlen(name) != w->bytes ||
        sqlite3_strnicmp(name, w->text, w->bytes) != 0) {
        return false;
    }
    memcpy(w->out, name, (size_t)w->bytes + 1);
    w->found = true;
    return true;
}

/* Is the text a schema of this connection?  Its own spelling into schema. */
static gx_code find_schema(gx_store *store, const char *text, size_t bytes,
                           char schema[GX_NAME_MAX + 1], bool *found, gx_err *err)
{
    *found = false;
    if (bytes == 0 || bytes > GX_NAME_MAX) {
        return GX_OK;
    }
    wanted w = {.text = text, .bytes = (int)bytes, .out = schema, .found = false};
    gx_code code = GX_OK;
    if (!is_wanted(&w, "main") && !is_wanted(&w, "temp")) {
        code = each_attached(store, is_wanted, &w, err);
    }
    *found = w.found;
    return code;
}

gx_code gx_store_split(gx_store *store, const char *text, char schema[GX_NAME_MAX + 1],
                       const char **bare, gx_err *err)
{
    *bare = text;
    for (const char *dot = strchr(text, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
        bool found;
        GX_TRY(find_schema(store, text, (size_t)(dot - text), schema, &found, err));
        if (found) {
            *bare = dot + 1;
            return GX_OK;
        }
    }
    schema[0] = '\0';
    return GX_OK;
}

static gx_code check_bare(const char *name, gx_err *err)
{
    size_t bytes = strlen(name);
    if (bytes == 0) {
        return gx_fail(err, GX_ARG, "the name of a matrix is empty");
    }
    if (bytes > GX_NAME_MAX) {
        char piece[44];
        return gx_fail(err, GX_ARG, "the name '%s' has %zu bytes; the most is %d",
                       gx_text_fit(name, bytes, piece, sizeof piece), bytes, GX_NAME_MAX);
    }
    gx_err shown = {.code = GX_OK};
    gx_fail(&shown, GX_ARG, "%s", name);
    if (strcmp(shown.text, name) != 0) {
        return gx_fail(err, GX_ARG, "the name '%s' has characters that are not to be shown",
                       shown.text);
    }
    char first = name[strspn(name, " \t\n\r")]; // an argument that starts so is never a name
    if (first == '[' || first == '{') {
        return gx_fail(err, GX_ARG, "the name '%s' starts with '%c', as a JSON text does", name,
                       first);
    }
    return GX_OK;
}

gx_code gx_store_resolve(gx_store *store, const char *text, char schema[GX_NAME_MAX + 1],
                         char name[GX_NAME_MAX + 1], gx_err *err)
{
    GX_TRY(gx_store_flush(store, err));
    const char *bare;
    GX_TRY(gx_store_split(store, text, schema, &bare, err));
    GX_TRY(check_bare(bare, err));
    const char *dot = strchr(bare, '.');
    if (schema[0] == '\0' && dot != NULL) {
        return gx_fail(err, GX_ARG, "no database named '%.*s' for the matrix '%s'",
                       (int)(dot - bare), bare, bare);
    }
    if (schema[0] == '\0') {
        strncpy(schema, "main", GX_NAME_MAX);
    }
    snprintf(name, GX_NAME_MAX + 1, "%s", bare);
    return GX_OK;
}

// Find --------------------------------------------------------------------------------------------

/* Those of gx_meta, and behind them gx_tile.data: none is ignored by the authorizer. */
static gx_code check_columns(gx_store *store, const gx_schema *schema, sqlite3_stmt *stmt,
                             gx_err *err)
{
    GX_TRY(gx_store_check_select(schema->name, stmt, err));
    int count = sqlite3_column_count(stmt);
    for (int c = 0; c < count; c++) {
        bool is_tile = c == GX_META_COLUMN_COUNT;
        GX_TRY(gx_store_check_ignored(store, schema, stmt, c, is_tile ? "gx_tile" : "gx_meta",
                                      is_tile ? "data" : sqlite3_column_name(stmt, c), err));
    }
    return GX_OK;
}

/*
** Bind the name, step.  *found: stmt stands on the row, and the caller resets it.
*/
static gx_code step_name(gx_store *store, gx_schema *schema, gx_sql which, const char *name,
                         sqlite3_stmt **stmt, bool *found, gx_err *err)
{
    *found = false;
    GX_TRY(gx_store_look(store, schema, err));
    if (!schema->has_tables) {
        return GX_OK;
    }
    GX_TRY(gx_store_stmt(store, schema, which, stmt, err));
    int rc = sqlite3_bind_text(*stmt, 1, name, -1, SQLITE_TRANSIENT);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(*stmt);
    }
    gx_code code = check_columns(store, schema, *stmt, err);
    if (code == GX_OK && rc == SQLITE_ROW) {
        *found = true;
        return GX_OK;
    }
    if (code == GX_OK && rc != SQLITE_DONE) {
        code = gx_store_fail(store->db, rc, err, "catalog of %s", schema->name);
    }
    sqlite3_reset(*stmt);
    return code;
}

static gx_code find_in(gx_store *store, const char *schema_name, const char *name, gx_meta *meta,
                       bool *found, gx_err *err)
{
    gx_schema *schema;
    sqlite3_stmt *stmt;
    GX_TRY(gx_store_schema(store, schema_name, &schema, err));
    GX_TRY(step_name(store, schema, GX_SQL_FIND, name, &stmt, found, err));
    if (!*found) {
        return GX_OK;
    }
    gx_code code = gx_store_meta(stmt, schema->name, meta, err);
    sqlite3_reset(stmt);
    return code == GX_OK && meta->is_sparse ? gx_store_load_panels(store, meta, err) : code;
}

/* The id alone, of a row that may be damaged: for replacing and dropping it. */
static gx_code locate_in(gx_store *store, const char *schema_name, const char *name, gx_meta *meta,
                         bool *found, gx_err *err)
{
    gx_schema *schema;
    sqlite3_stmt *stmt;
    GX_TRY(gx_store_schema(store, schema_name, &schema, err));
    GX_TRY(step_name(store, schema, GX_SQL_FIND_ID, name, &stmt, found, err));
    if (*found) {
        memset(meta, 0, sizeof *meta);
        meta->id = sqlite3_column_int64(stmt, 0);
        snprintf(meta->schema, sizeof meta->schema, "%s", schema->name);
        snprintf(meta->name, sizeof meta->name, "%s", name);
        sqlite3_reset(stmt);
    }
    return GX_OK;
}

typedef struct search {
    gx_store *store;
    const char *name;
    gx_meta *meta;
    gx_code (*look)(gx_store *, const char *, const char *, gx_meta *, bool *, gx_err *);
    bool found;
    gx_code code;
    gx_err *err;
} search;

static bool search_in(void *arg, const char *schema)
{
    search *s = arg;
    s->code = s->look(s->store, schema, s->name, s->meta, &s->found, s->err);
    return s->code != GX_OK || s->found;
}

/* look() in the schema the name says, or in one after the other. */
static gx_code search_all(gx_store *store, const char *name,
                          gx_code (*look)(gx_store *, const char *, const char *, gx_meta *, bool *,
                                          gx_err *),
                          gx_meta *meta, bool *found, gx_err *err)
{
    *found = false;
    GX_TRY(gx_store_flush(store, err));
    char schema[GX_NAME_MAX + 1];
    const char *bare;
    GX_TRY(gx_store_split(store, name, schema, &bare, err));
    if (bare[0] == '\0' || strlen(bare) > GX_NAME_MAX) {
        return GX_OK;
    }
    if (schema[0] != '\0') {
        return look(store, schema, bare, meta, found, err);
    }
    search s = {.store = store, .name = bare, .meta = meta, .look = look, .err = err};
    if (!search_in(&s, "temp") && !search_in(&s, "main")) {
        gx_code code = each_attached(store, search_in, &s, err);
        s.code = s.code == GX_OK ? code : s.code;
    }
    *found = s.found && s.code == GX_OK;
    return s.code;
}

/* What the call computes from: gx_store_begin() may have to look whether it is still the same. */
static gx_code remember_seen(gx_store *store, const gx_meta *meta, gx_err *err)
{
    gx_schema *schema;
    GX_TRY(gx_store_schema(store, meta->schema, &schema, err));
    if (schema->seen_count < GX_SEEN_MAX) {
        schema->seen[schema->seen_count].id = meta->id;
        schema->seen[schema->seen_count].generation = meta->generation;
        schema->seen[schema->seen_count].is_spread = meta->is_spread;
    }
    schema->seen_count += schema->seen_count <= GX_SEEN_MAX;
    schema->newest = gx_max(schema->newest, meta->generation);
    return GX_OK;
}

gx_code gx_store_lookup(gx_store *store, const char *name, gx_meta *meta, bool *found, gx_err *err)
{
    GX_TRY(search_all(store, name, find_in, meta, found, err));
    return *found ? remember_seen(store, meta, err) : GX_OK;
}

gx_code gx_store_locate(gx_store *store, const char *name, gx_meta *meta, bool *found, gx_err *err)
{
    return search_all(store, name, locate_in, meta, found, err);
}

// Change ------------------------------------------------------------------------------------------

/* The counter's value, or least where that is more, and the counter one on. */
static gx_code take_number(gx_store *store, gx_schema *schema, const char *key, int64_t least,
                           int64_t most, int64_t *number, gx_err *err)
{
    sqlite3_stmt *get;
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_GET_STATE, &get, err));
    sqlite3_bind_text(get, 1, key, -1, SQLITE_STATIC);
    int rc = sqlite3_step(get);
    bool is_integer = rc == SQLITE_ROW && sqlite3_column_type(get, 0) == SQLITE_INTEGER;
    *number = is_integer ? sqlite3_column_int64(get, 0) : 0;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        gx_code code = gx_store_fail(store->db, rc, err, "reading %s", schema->name);
        sqlite3_reset(get);
        return code;
    }
    sqlite3_reset(get);
    if (!is_integer || *number < 1) {
        return gx_fail(err, GX_CORRUPT, "gx_state of %s has no valid %s", schema->name, key);
    }
    *number = gx_max(*number, least);
    if (*number >= most) {
        return gx_fail(err, GX_UNSUPPORTED,
                       "%s of %s is used up at %lld: copy the matrices to a new "
                       "database",
                       key, schema->name, (long long)most);
    }
    return gx_store_set_state(store, schema, key, *number + 1, err);
}

/*
** A cursor tells states of a matrix apart by their generations.  A ROLLBACK takes the counter back,
** but not the cursor, which keeps the schema: it does not meet a generation twice.
*/
static gx_code take_generation(gx_store *store, gx_schema *schema, int64_t *generation, gx_err *err)
{
    int64_t least = schema->newest < INT64_MAX - 1 ? schema->newest + 1 : 1; // else it is damaged
    GX_TRY(take_number(store, schema, "next_generation", least, INT64_MAX, generation, err));
    schema->newest = *generation;
    return GX_OK;
}

/* What gx_meta.properties says of a matrix. */
static int64_t row_bits(const gx_meta *meta)
{
    return meta->down_tiles << GX_META_DOWN_AT | meta->properties |
           (meta->is_spread ? GX_META_SPREAD : 0) | (meta->is_sparse ? GX_META_SPARSE : 0) |
           (meta->is_composite ? GX_META_COMPOSITE : 0);
}

/* What older versions of gx would take for something else says so in the format's number. */
static gx_code raise_format(gx_store *store, gx_schema *schema, int64_t needed, gx_err *err)
{
    int64_t format;
    GX_TRY(gx_spread_state(store, schema, "format", &format, err));
    return format >= needed ? GX_OK : gx_store_set_state(store, schema, "format", needed, err);
}

/* The shape of its tiles; a sparse one has panels, and a composite is read so. */
static gx_code settle_tiles(gx_store *store, gx_schema *schema, gx_meta *meta, gx_err *err)
{
    if (meta->is_sparse) {
        meta->tile_rows = gx_max(meta->rows, 1);
        meta->tile_cols = gx_max(meta->cols, 1);
        return raise_format(store, schema, GX_FORMAT_SPARSE, err);
    }
    if (meta->is_composite) {
        GX_TRY(raise_format(store, schema, GX_FORMAT_COMPOSITE, err));
    }
    if ((meta->properties & GX_PROP_QUANTIZED) != 0) {
        GX_TRY(raise_format(store, schema,
                            gx_meta_is_bits(meta) ? GX_FORMAT_BITS : GX_FORMAT_QUANTIZED, err));
    }
    return meta->tile_rows != 0 && meta->tile_cols != 0
               ? GX_OK
               : gx_tile_shape(meta->rows, meta->cols, meta->dtype, gx_store_max_tile_bytes(store),
                               &meta->tile_rows, &meta->tile_cols, err);
}

static bool is_seen(const gx_schema *schema, int64_t id)
{
    bool is = schema->seen_count > GX_SEEN_MAX; // it may be
    for (int k = 0; k < schema->seen_count && !is; k++) {
        is = schema->seen[k].id == id;
    }
    return is;
}

/*
** Writing over: *id is that of the matrix called name, whose tiles will be those of meta, one by
** one, in the same pages; 0: it is to be written beside.  Over an operand of this call nothing is
** written, nor where a failure could not take it back; and pages that SQLite would fill with zeros
** are what makes it worth while.
*/
static gx_code find_replaced(gx_store *store, gx_schema *schema, const gx_meta *meta,
                             const char *name, int64_t *id, gx_err *err)
{
    const char SECURE_DELETE_ON[] = "1";
    char setting[64];
    gx_meta old;
    bool found;
    *id = 0;
    if (!store->level[store->depth - 1].has_savepoint || meta->is_sparse || meta->is_spread) {
        return GX_OK;
    }
    GX_TRY(locate_in(store, meta->schema, name, &old, &found, err));
    if (!found || is_seen(schema, old.id) ||
        find_in(store, meta->schema, name, &old, &found, NULL) != GX_OK || !found) {
        return GX_OK; // a damaged one is deleted when the new one is whole
    }
    bool is_alike = old.rows == meta->rows && old.cols == meta->cols && old.dtype == meta->dtype &&
                    old.tile_rows == meta->tile_rows && old.tile_cols == meta->tile_cols &&
                    old.down_tiles == meta->down_tiles && !old.is_sparse && !old.is_spread &&
                    !old.is_composite;
    if (is_alike) {
        GX_TRY(gx_store_can_patch(store, meta->schema, &is_alike, err));
    }
    if (is_alike) {
        GX_TRY(gx_store_pragma(store->db, schema->name, "secure_delete", setting, err));
        *id = strcmp(setting, SECURE_DELETE_ON) == 0 ? old.id : 0;
    }
    return GX_OK;
}

/* Its row, for another to be written with its id; its tiles stay. */
static gx_code forget_row(gx_store *store, gx_schema *schema, int64_t id, gx_err *err)
{
    GX_TRY(gx_store_drop_labels(store, schema, id, -1, err));
    return gx_store_run_with(store, schema, GX_SQL_DROP_META, &id, 1, "writing to", err);
}

gx_code gx_store_create(gx_store *store, gx_meta *meta, const char *replaced, gx_err *err)
{
    gx_schema *schema;
    sqlite3_stmt *stmt;
    assert(store->depth > 0);
    meta->id = 0;
    GX_TRY(gx_store_schema(store, meta->schema, &schema, err));
    GX_TRY(settle_tiles(store, schema, meta, err));
    assert(meta->tile_rows > 0 && meta->tile_cols > 0);
    assert(meta->is_sparse || gx_meta_tiles(meta) <= GX_TILES_MAX);
    if (!meta->is_composite) {
        GX_TRY(gx_spread_wanted(store, schema, meta, &meta->is_spread, err));
    }
    if (replaced != NULL) {
        GX_TRY(find_replaced(store, schema, meta, replaced, &meta->id, err));
    }
    meta->is_over = meta->id != 0;
    GX_TRY(meta->is_over ? forget_row(store, schema, meta->id, err)
                         : take_number(store, schema, "next_id", 1, GX_ID_MAX, &meta->id, err));
    GX_TRY(take_generation(store, schema, &meta->generation, err));
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_CREATE, &stmt, err));
    const int64_t values[] = {meta->id,        meta->rows,      meta->cols,     meta->dtype,
                              meta->tile_rows, meta->tile_cols, row_bits(meta), meta->generation};
    for (int i = 0; i < 8; i++) {
        sqlite3_bind_int64(stmt, i + 1, values[i]);
    }
    GX_TRY(gx_store_remember(store, schema, meta->id, err));
    return gx_store_run(store, stmt, err, "writing to", schema->name);
}

/* name NULL: none.  The row is there unless a trigger or a progress function has taken it away. */
static gx_code set_name(gx_store *store, gx_schema *schema, int64_t id, const char *name,
                        gx_err *err)
{
    sqlite3_stmt *stmt;
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_SET_NAME, &stmt, err));
    sqlite3_bind_int64(stmt, 1, id);
    int rc = name == NULL ? sqlite3_bind_null(stmt, 2)
                          : sqlite3_bind_text(stmt, 2, name, -1, SQLITE_TRANSIENT);
    if (rc != SQLITE_OK) {
        return gx_store_fail(store->db, rc, err, "writing to %s", schema->name);
    }
    GX_TRY(gx_store_run(store, stmt, err, "writing to", schema->name));
    if (sqlite3_changes(store->db) != 1) {
        return gx_fail(err, GX_IO, "the matrix with id %lld of %s was taken away meanwhile",
                       (long long)id, schema->name);
    }
    bool found = true;
    if (name != NULL) {
        GX_TRY(step_name(store, schema, GX_SQL_FIND_ID, name, &stmt, &found, err));
        found = found && sqlite3_column_int64(stmt, 0) == id;
        sqlite3_reset(stmt);
    }
    return found ? GX_OK
                 : gx_fail(err, GX_AUTH, "not authorized: gx_meta.name of %s stays as it is",
                           schema->name);
}

static gx_code exists(const gx_meta *taken, gx_err *err)
{
    char label[GX_LABEL_MAX];
    return gx_fail(err, GX_ARG, "matrix '%s' already exists (use '{\"replace\":true}')",
                   gx_meta_label(taken, label));
}

gx_code gx_store_check_free(gx_store *store, const char *schema, const char *name, bool replace,
                            gx_err *err)
{
    gx_meta taken;
    bool found;
    if (replace) {
        return GX_OK;
    }
    GX_TRY(locate_in(store, schema, name, &taken, &found, err));
    return found ? exists(&taken, err) : GX_OK;
}

/*
** The old matrix loses its name, the new one gets it, and only then is the old one deleted: should
** a step fail where there is no savepoint, no tile of a named matrix is missing.
*/
gx_code gx_store_publish(gx_store *store, gx_meta *meta, const char *name, bool replace,
                         gx_err *err)
{
    gx_schema *schema;
    gx_meta old;
    bool found;
    assert(store->depth > 0 && meta->id > 0);
    GX_TRY(gx_store_schema(store, meta->schema, &schema, err));
    GX_TRY(locate_in(store, meta->schema, name, &old, &found, err));
    found = found && old.id != meta->id;
    if (found && !replace) {
        return exists(&old, err);
    }
    if (found) {
        GX_TRY(set_name(store, schema, old.id, NULL, err));
    }
    GX_TRY(set_name(store, schema, meta->id, name, err));
    if (found) {
        GX_TRY(gx_store_erase(store, schema, old.id, err));
    }
    snprintf(meta->name, sizeof meta->name, "%s", name);
    return GX_OK;
}

enum { TOUCHED = 6 }; /* columns of GX_SQL_GENERATION, which GX_SQL_TOUCH sets */

/* An authorizer may ignore a column; the tiles are no longer those of the row then. */
static gx_code check_touched(gx_store *store, gx_schema *schema, int64_t id,
                             const int64_t values[TOUCHED], gx_err *err)
{
    sqlite3_stmt *stmt;
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_GENERATION, &stmt, err));
    sqlite3_bind_int64(stmt, 1, id);
    int rc = sqlite3_step(stmt);
    gx_code code = GX_OK;
    bool is_same = rc == SQLITE_ROW;
    for (int c = 0; c < TOUCHED && is_same; c++) {
        is_same = sqlite3_column_int64(stmt, c) == values[c];
    }
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        code = gx_store_fail(store->db, rc, err, "reading %s", schema->name);
    } else if (!is_same) {
        code = gx_fail(err, GX_AUTH, "not authorized: gx_meta of %s stays as it is", schema->name);
    }
    sqlite3_reset(stmt);
    return code;
}

gx_code gx_store_touch(gx_store *store, gx_meta *meta, uint32_t properties, gx_err *err)
{
    gx_schema *schema;
    int64_t generation;
    assert(store->depth > 0 && meta->id > 0);
    GX_TRY(gx_store_schema(store, meta->schema, &schema, err));
    uint32_t before = meta->properties;
    if (meta->down_tiles > 0) {
        GX_TRY(raise_format(store, schema, GX_FORMAT_GROWN, err));
    }
    GX_TRY(take_generation(store, schema, &generation, err));
    meta->properties = properties;
    const int64_t values[1 + TOUCHED] = {meta->id,   generation,      row_bits(meta), meta->rows,
                                         meta->cols, meta->tile_rows, meta->tile_cols};
    GX_TRY(gx_store_run_with(store, schema, GX_SQL_TOUCH, values, 1 + TOUCHED, "writing to", err));
    GX_TRY(check_touched(store, schema, meta->id, values + 1, err));
    GX_TRY(gx_store_keep_labels(store, schema, meta->id, meta->generation, generation, err));
    if ((before & GX_PROP_FACTOR) != 0 && (properties & GX_PROP_FACTOR) == 0) {
        GX_TRY(gx_store_write_aux(store, meta, NULL, 0, err));
    }
    meta->generation = generation;
    return GX_OK;
}

gx_code gx_store_drop(gx_store *store, const gx_meta *meta, gx_err *err)
{
    gx_schema *schema;
    GX_TRY(gx_store_begin(store, meta->schema, err));
    gx_code code = gx_store_schema(store, meta->schema, &schema, err);
    if (code == GX_OK) {
        code = gx_store_erase(store, schema, meta->id, err);
    }
    gx_code ended = gx_store_end(store, code == GX_OK, err);
    return code == GX_OK ? ended : code;
}

/* The new bare name: text, without the schema it may carry, which has to be the matrix's own. */
static gx_code new_name(gx_store *store, const gx_meta *meta, const char *text, const char **bare,
                        gx_err *err)
{
    char schema[GX_NAME_MAX + 1], name[GX_NAME_MAX + 1];
    GX_TRY(gx_store_split(store, text, schema, bare, err));
    if (schema[0] == '\0') {
        return gx_store_resolve(store, text, schema, name, err); // refuses what cannot be a name
    }
    if (sqlite3_stricmp(schema, meta->schema) != 0) {
        return gx_fail(err, GX_ARG, "renaming cannot move a matrix from %s to %s: use gx_copy",
                       meta->schema, schema);
    }
    return check_bare(*bare, err);
}

gx_code gx_store_rename(gx_store *store, gx_meta *meta, const char *text, gx_err *err)
{
    gx_schema *schema;
    gx_meta taken;
    bool found;
    const char *name;
    GX_TRY(new_name(store, meta, text, &name, err));
    GX_TRY(gx_store_begin(store, meta->schema, err));
    gx_code code = gx_store_schema(store, meta->schema, &schema, err);
    if (code == GX_OK) {
        code = locate_in(store, meta->schema, name, &taken, &found, err);
    }
    if (code == GX_OK && found && taken.id != meta->id) {
        char label[GX_LABEL_MAX];
        code = gx_fail(err, GX_ARG, "matrix '%s' already exists", gx_meta_label(&taken, label));
    }
    if (code == GX_OK) {
        code = set_name(store, schema, meta->id, name, err);
    }
    gx_code ended = gx_store_end(store, code == GX_OK, err);
    code = code == GX_OK ? ended : code;
    if (code == GX_OK) {
        snprintf(meta->name, sizeof meta->name, "%s", name);
    }
    return code;
}

// Lists -------------------------------------------------------------------------------------------

gx_code gx_store_list(gx_store *store, const char *schema_name, const char *name,
                      bool (*fn)(void *arg, const gx_meta *meta), void *arg, gx_err *err)
{
    gx_schema *schema;
    sqlite3_stmt *stmt;
    GX_TRY(gx_store_flush(store, err));
    GX_TRY(gx_store_schema(store, schema_name, &schema, err));
    GX_TRY(gx_store_look(store, schema, err));
    if (!schema->has_tables) {
        return GX_OK;
    }
    GX_TRY(gx_store_stmt(store, schema, name != NULL ? GX_SQL_SHOW : GX_SQL_LIST, &stmt, err));
    int rc = SQLITE_OK;
    if (name != NULL) {
        rc = sqlite3_bind_text(stmt, 1, name, -1, SQLITE_TRANSIENT);
    }
    bool more = true;
    while (more && (rc == SQLITE_OK || rc == SQLITE_ROW)) {
        rc = sqlite3_step(stmt);
        if (rc == SQLITE_ROW) {
            gx_meta meta;
            gx_store_meta_raw(stmt, schema->name, &meta);
            more = fn(arg, &meta);
        }
    }
    gx_code code = GX_OK;
    if (more && rc != SQLITE_DONE) {
        code = gx_store_fail(store->db, rc, err, "catalog of %s", schema->name);
    }
    sqlite3_reset(stmt);
    return code;
}

gx_code gx_store_each_schema(gx_store *store, bool (*fn)(void *arg, const char *schema), void *arg,
                             gx_err *err)
{
    if (!fn(arg, "main") && !fn(arg, "temp")) {
        return each_attached(store, fn, arg, err);
    }
    return GX_OK;
}
