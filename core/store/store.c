/*
** The matrix store, ground floor: the connection, its schemas, and how SQL is run.  See store.h.
**
**     store.c          this file: statements, error codes, interrupts, limits, progress
**     store_pragma.c   what SQLite tells of a database
**     store_meta.c     one catalog row: read, checked, erased
**     store_tile.c     writing tiles
**     store_auth.c     what an authorizer forbids
**     store_aux.c      auxiliary data of factorisations
**     store_labels.c   names of rows and columns
**     store_txn.c      making the tables, begin and end of a storing call
**     store_hold.c     read pins that last as long as a statement
**     store_open.c     opening, closing, the end of a SQL call
**     store_spare.c    statements that stay prepared between calls
**     store_catalog.c  names and what becomes of them: create, publish, rename, drop
**     store_named.c    which database a statement means by the table gx
**     store_missing.c  what is said when there is no matrix of a name
**     store_check.c    verification
**     store_reader.c   reading tiles, helpers; store_chain.c, store_vfs.c: past SQLite's pages
**     store_extent.c   tiles in volumes; volume_file.c, volume_space.c below it
**     store_volume.c   volumes: made, listed, given up
**     store_probe.c    what a connection has already
**     store_call.c     asking a function of the application for a matrix
**     store_spill.c    temporary data, in a private database
**
** All SQL of the store is in the table sql[] below, written for the schema main; for another schema
** `main.` is replaced by its quoted name.  A statement is prepared when a call first needs it and
** lives until gx_store_release(): a call that writes a thousand tiles prepares one INSERT.  A few
** live longer, but sqlite3_close() never finds a statement of ours (store_spare.c).
**
** The read pin.  GX_SQL_PIN reads the format version and stays on its row: an open cursor keeps the
** connection's read transaction, so that no other connection can change the schema's matrices until
** the call ends (in WAL mode: so that this call does not see it).  The same statement refuses a
** file whose format is newer than ours.  A schema without tables has nothing to pin.
**
** Memory: a few hundred bytes a schema, from the governor; statements belong to SQLite.
** Threads: the caller's only, but for readers (store_reader.c).
*/
#include <sqlite3ext.h>

#include "../base/signal.h"
#include "store_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

static const size_t ROW_OVERHEAD = 64; // record header of a gx_tile row: 12 bytes, and some room

#define TEXT(ID, TEXT) TEXT,
static const char *const sql[GX_SQL_COUNT] = {GX_SQLS(TEXT)};
#undef TEXT

_Static_assert(GX_META_SPREAD == 65536, "GX_SQL_ORPHAN_EXTENTS says it");

static const char *const armed_sql[GX_ARMED_COUNT] = {
    [GX_ARMED_RELEASE] = "RELEASE gx_store",
    [GX_ARMED_ROLLBACK_TO] = "ROLLBACK TO gx_store",
    [GX_ARMED_ROLLBACK] = "ROLLBACK",
    [GX_ARMED_ABORT] = "BEGIN IMMEDIATE",
};

// Errors ------------------------------------------------------------------------------------------

gx_code gx_store_code(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return GX_OK;
    case SQLITE_NOMEM:
        return GX_NOMEM;
    case SQLITE_INTERRUPT:
        return GX_INTERRUPT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_SCHEMA:
        return GX_BUSY;
    case SQLITE_READONLY:
        return GX_READONLY;
    case SQLITE_FULL:
        return GX_FULL;
    case SQLITE_TOOBIG:
        return GX_TOOBIG;
    case SQLITE_AUTH:
        return GX_AUTH;
    case SQLITE_PERM:
        return GX_UNSUPPORTED;
    case SQLITE_ERROR: // no such table or column: the shadow tables are not as gx made them
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
        return GX_CORRUPT;
    default: // IOERR, CANTOPEN, PROTOCOL, ABORT, ...
        return GX_IO;
    }
}

gx_code gx_store_fail(sqlite3 *db, int rc, gx_err *err, const char *format, ...)
{
    gx_code code = gx_store_code(rc);
    if (code == GX_INTERRUPT) {
        return gx_fail(err, code, "interrupted");
    }
    char what[300];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    bool is_current = (sqlite3_errcode(db) & 0xff) == (rc & 0xff);
    if (is_current && sqlite3_extended_errcode(db) == SQLITE_BUSY_SNAPSHOT) {
        return gx_fail(err, code,
                       "%s: another connection has written since this call began to read", what);
    }
    const char *said = is_current ? sqlite3_errmsg(db) : sqlite3_errstr(rc);
    bool is_function = strncmp(said, "not authorized to use function", 30) == 0; // SQLITE_ERROR
    code = is_function ? GX_AUTH : code;
    if (code == GX_AUTH) { // SQLite says which column, or the same two words
        bool is_plain = strcmp(said, "not authorized") == 0;
        return gx_fail(err, code, "not authorized: %s%s%s", what, is_plain ? "" : ": ",
                       is_plain ? "" : said);
    }
    return gx_fail(err, code, "%s: %s", what, said);
}

// Statements --------------------------------------------------------------------------------------

char *gx_store_qualify(const char *schema, const char *text)
{
    sqlite3_str *out = sqlite3_str_new(NULL);
    const char *hit;
    while ((hit = strstr(text, "main.")) != NULL) {
        sqlite3_str_append(out, text, (int)(hit - text));
        sqlite3_str_appendf(out, "\"%w\".", schema);
        text = hit + strlen("main.");
    }
    sqlite3_str_appendall(out, text);
    return sqlite3_str_finish(out);
}

gx_code gx_store_schema(gx_store *store, const char *name, gx_schema **schema, gx_err *err)
{
    for (gx_schema *s = store->schemas; s != NULL; s = s->next) {
        if (sqlite3_stricmp(s->name, name) == 0) {
            *schema = s;
            return GX_OK;
        }
    }
    *schema = NULL;
    void *memory;
    GX_TRY(gx_mem_calloc(store->mem, sizeof(gx_schema), "schema", &memory, err));
    gx_schema *made = memory;
    snprintf(made->name, sizeof made->name, "%s", name);
    made->next = store->schemas;
    store->schemas = made;
    *schema = made;
    return GX_OK;
}

gx_code gx_store_stmt(gx_store *store, gx_schema *schema, gx_sql which, sqlite3_stmt **stmt,
                      gx_err *err)
{
    if (schema->stmt[which] == NULL) {
        schema->stmt[which] = gx_store_take_spare(store, schema->name, which);
    }
    *stmt = schema->stmt[which];
    if (*stmt != NULL) {
        return GX_OK;
    }
    char *text = gx_store_qualify(schema->name, sql[which]);
    if (text == NULL) {
        return gx_fail_nomem(err, strlen(sql[which]), "SQL text");
    }
    int rc = sqlite3_prepare_v2(store->db, text, -1, &schema->stmt[which], NULL);
    sqlite3_free(text);
    if (rc != SQLITE_OK) {
        return gx_store_fail(store->db, rc, err, "tables of gx in %s", schema->name);
    }
    *stmt = schema->stmt[which];
    bool is_insert = strncmp(sql[which], "INSERT", strlen("INSERT")) == 0;
    bool is_select = strncmp(sql[which], "SELECT", strlen("SELECT")) == 0;
    gx_code code = is_select ? gx_store_check_select(schema->name, *stmt, err) : GX_OK;
    if (code != GX_OK) { // one of before that is compiled anew is looked at when it gives no row
        sqlite3_finalize(*stmt);
        schema->stmt[which] = *stmt = NULL;
        return code;
    }
    if (is_insert && sqlite3_stmt_readonly(*stmt)) { // the authorizer ignores it
        sqlite3_finalize(*stmt);
        schema->stmt[which] = *stmt = NULL;
        return gx_fail(err, GX_AUTH, "not authorized: writing to %s changes nothing", schema->name);
    }
    return GX_OK;
}

gx_code gx_store_run(gx_store *store, sqlite3_stmt *stmt, gx_err *err, const char *what,
                     const char *schema)
{
    int rc = sqlite3_step(stmt);
    gx_code code = GX_OK;
    if (rc != SQLITE_DONE) {
        code = gx_store_fail(store->db, rc, err, "%s %s", what, schema);
    }
    sqlite3_reset(stmt);
    return code;
}

gx_code gx_store_run_with(gx_store *store, gx_schema *schema, gx_sql which, const int64_t *values,
                          int count, const char *what, gx_err *err)
{
    sqlite3_stmt *stmt;
    GX_TRY(gx_store_stmt(store, schema, which, &stmt, err));
    for (int k = 0; k < count; k++) {
        sqlite3_bind_int64(stmt, k + 1, values[k]);
    }
    return gx_store_run(store, stmt, err, what, schema->name);
}

gx_code gx_store_run_bound(gx_store *store, gx_schema *schema, sqlite3_stmt *stmt, int k, int rc,
                           gx_err *err)
{
    gx_code code = rc == SQLITE_OK
                       ? gx_store_run(store, stmt, err, "writing to", schema->name)
                       : gx_store_fail(store->db, rc, err, "writing to %s", schema->name);
    sqlite3_bind_null(stmt, k);
    return code;
}

bool gx_store_first_row(gx_store *store, const char *schema_name, gx_sql which, sqlite3_stmt **stmt)
{
    gx_schema *schema;
    if (gx_store_schema(store, schema_name, &schema, NULL) != GX_OK ||
        gx_store_stmt(store, schema, which, stmt, NULL) != GX_OK) {
        return false;
    }
    bool is_row = sqlite3_step(*stmt) == SQLITE_ROW;
    if (!is_row) {
        sqlite3_reset(*stmt);
    }
    return is_row;
}

int gx_store_exec(gx_store *store, const char *text)
{
    return sqlite3_exec(store->db, text, NULL, NULL, NULL);
}

/*
** Take the comments out of text where the application has switched them off, which SQLite can from
** 3.49 on.  They are from -- to the end of a line, and no string of ours has a -- in it.
*/
static void drop_comments(sqlite3 *db, char *text)
{
    const int ENABLE_COMMENTS = 1022; // SQLITE_DBCONFIG_ENABLE_COMMENTS
    int is_on = 1;
    if (sqlite3_db_config(db, ENABLE_COMMENTS, -1, &is_on) != SQLITE_OK || is_on != 0) {
        return;
    }
    char *to = text;
    for (const char *from = text; *from != '\0';) {
        if (from[0] == '-' && from[1] == '-') {
            from += strcspn(from, "\n");
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

int gx_store_exec_in(gx_store *store, const char *schema, const char *text)
{
    char *plain = sqlite3_mprintf("%s", text); // before a schema's name is in it
    if (plain != NULL) {
        drop_comments(store->db, plain);
    }
    char *qualified = plain == NULL ? NULL : gx_store_qualify(schema, plain);
    sqlite3_free(plain);
    int rc = qualified == NULL ? SQLITE_NOMEM : gx_store_exec(store, qualified);
    sqlite3_free(qualified);
    return rc;
}

gx_code gx_store_set_state(gx_store *store, gx_schema *schema, const char *key, int64_t number,
                           gx_err *err)
{
    sqlite3_stmt *stmt;
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_SET_STATE, &stmt, err));
    sqlite3_bind_text(stmt, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 2, number);
    GX_TRY(gx_store_run(store, stmt, err, "writing to", schema->name));
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_GET_STATE, &stmt, err));
    sqlite3_bind_text(stmt, 1, key, -1, SQLITE_STATIC);
    bool is_ignored = sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_int64(stmt, 0) != number;
    sqlite3_reset(stmt);
    return is_ignored ? gx_fail(err, GX_AUTH, "not authorized: gx_state.value of %s stays as it is",
                                schema->name)
                      : GX_OK;
}

// The schema and its pin --------------------------------------------------------------------------

bool gx_store_remembers(gx_store *store, const gx_schema *schema)
{
    return sqlite3_table_column_metadata(store->db, schema->name, "gx_state", "value", NULL, NULL,
                                         NULL, NULL, NULL) == SQLITE_OK;
}

/* The same, asked of the file. */
static gx_code ask_for_tables(gx_store *store, gx_schema *schema, gx_err *err)
{
    sqlite3_stmt *stmt;
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_TABLES, &stmt, err));
    int rc = sqlite3_step(stmt);
    gx_code code = GX_OK;
    schema->has_tables = rc == SQLITE_ROW;
    if (rc != SQLITE_ROW) {
        code = rc == SQLITE_DONE ? gx_store_check_select(schema->name, stmt, err)
                                 : gx_store_fail(store->db, rc, err, "reading %s", schema->name);
    }
    sqlite3_reset(stmt);
    return code;
}

static gx_code check_format(gx_store *store, gx_schema *schema, int rc, sqlite3_stmt *stmt,
                            gx_err *err)
{
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        return gx_store_fail(store->db, rc, err, "reading %s", schema->name);
    }
    GX_TRY(gx_store_check_ignored(store, schema, stmt, 0, "gx_state", "value", err));
    if (rc == SQLITE_DONE || sqlite3_column_type(stmt, 0) != SQLITE_INTEGER ||
        sqlite3_column_int64(stmt, 0) < 1) {
        return gx_fail(err, GX_CORRUPT, "gx_state of %s has no valid format number", schema->name);
    }
    int64_t format = sqlite3_column_int64(stmt, 0);
    if (format > GX_FORMAT_VERSION) {
        return gx_fail(err, GX_UNSUPPORTED,
                       "matrices of %s are in format %lld of a newer gx; this one knows formats up "
                       "to %d",
                       schema->name, (long long)format, GX_FORMAT_VERSION);
    }
    return GX_OK;
}

static gx_code pin(gx_store *store, gx_schema *schema, gx_err *err)
{
    sqlite3_stmt *stmt;
    GX_TRY(gx_store_stmt(store, schema, GX_SQL_PIN, &stmt, err));
    int rc = sqlite3_step(stmt);
    gx_code code = check_format(store, schema, rc, stmt, err);
    if (code != GX_OK) {
        sqlite3_reset(stmt);
        return code;
    }
    schema->is_pinned = true;
    return GX_OK;
}

/*
** Most calls find the tables where the connection remembers them, and the pin is all they need.
** Where it fails, or where none are remembered, the file is asked: another connection may have made
** or dropped them (nobody else can in temp).
*/
gx_code gx_store_look(gx_store *store, gx_schema *schema, gx_err *err)
{
    if (schema->is_pinned) {
        return GX_OK;
    }
    schema->has_tables = gx_store_remembers(store, schema);
    bool is_temp = sqlite3_stricmp(schema->name, "temp") == 0;
    if (is_temp && !schema->has_tables) {
        return GX_OK;
    }
    gx_err failed = {.code = GX_OK};
    if (schema->has_tables && pin(store, schema, &failed) == GX_OK) {
        return GX_OK;
    }
    if (failed.code != GX_OK && failed.code != GX_CORRUPT) {
        return gx_fail(err, failed.code, "%s", failed.text);
    }
    GX_TRY(ask_for_tables(store, schema, err));
    if (!schema->has_tables) {
        return GX_OK;
    }
    if (failed.code != GX_OK) {
        return gx_fail(err, failed.code, "%s", failed.text);
    }
    return pin(store, schema, err);
}

void gx_store_renew(gx_store *store)
{
    store->is_ended = false;
    for (gx_schema *schema = store->schemas; schema != NULL; schema = schema->next) {
        gx_err failed = {.code = GX_OK};
        schema->seen_count = 0;
        schema->may_patch = false;
        if (schema->is_pinned) {
            // The file is asked: after a statement's rollback the connection remembers wrongly.
            bool is_known = ask_for_tables(store, schema, &failed) == GX_OK;
            schema->is_pinned = !is_known || schema->has_tables;
            schema->has_tables = true;
        }
        if (!schema->is_pinned) {
            sqlite3_reset(schema->stmt[GX_SQL_PIN]);
        }
    }
}

gx_code gx_store_flush(gx_store *store, gx_err *err)
{
    if (store->flush == NULL || store->is_flushing) {
        return GX_OK;
    }
    store->is_flushing = true;
    gx_code code = store->flush(store->flush_arg, err);
    store->is_flushing = false;
    return code;
}

// What a call holds -------------------------------------------------------------------------------

void gx_store_close_patch(gx_schema *schema)
{
    sqlite3_blob_close(schema->patch);
    schema->patch = NULL;
    schema->patch_row = 0;
}

/* An open blob handle for writing counts as a writing statement: savepoints would be refused. */
void gx_store_close_patches(gx_store *store)
{
    for (gx_schema *schema = store->schemas; schema != NULL; schema = schema->next) {
        gx_store_close_patch(schema);
    }
}

gx_code gx_store_arm(gx_store *store, gx_err *err)
{
    for (int which = 0; which < GX_ARMED_COUNT; which++) {
        sqlite3_stmt *armed;
        int rc = sqlite3_prepare_v2(store->db, armed_sql[which], -1, &armed, NULL);
        if (rc != SQLITE_OK) { // what there is already may do
            return gx_store_fail(store->db, rc, err, "beginning to store");
        }
        sqlite3_finalize(store->armed[which]);
        store->armed[which] = armed;
    }
    return GX_OK;
}

static void finalize(sqlite3_stmt **stmt)
{
    sqlite3_finalize(*stmt);
    *stmt = NULL;
}

// The connection ----------------------------------------------------------------------------------

void gx_store_set_stats(gx_store *store, gx_stats *stats)
{
    store->stats = stats;
}

void gx_store_set_tables(gx_store *store, gx_store_tables_fn find, void *arg)
{
    store->tables = find;
    store->tables_arg = arg;
}

void *gx_store_tables(const gx_store *store)
{
    return store->tables_arg;
}

void gx_store_set_flush(gx_store *store, gx_code (*flush)(void *arg, gx_err *err), void *arg)
{
    store->flush = flush;
    store->flush_arg = arg;
}

bool gx_store_is_interrupted(gx_store *store)
{
    // Not made one of SQLite's interrupts, which last until no cursor of the connection is open.
    store->is_ended = store->is_ended || gx_signal_ends_statement();
    if (store->is_ended) {
        return true;
    }
#if SQLITE_VERSION_NUMBER >= 3041000
    if (sqlite3_libversion_number() >= 3041000) {
        return sqlite3_is_interrupted(store->db) != 0;
    }
#endif
    // Older: while the flag is up every statement stops with SQLITE_INTERRUPT as it starts.
    if (store->poll == NULL) {
        int rc = sqlite3_prepare_v2(store->db, "SELECT 1", -1, &store->poll, NULL);
        if (rc != SQLITE_OK) {
            return rc == SQLITE_INTERRUPT;
        }
    }
    int rc = sqlite3_step(store->poll);
    sqlite3_reset(store->poll);
    return (rc & 0xff) == SQLITE_INTERRUPT;
}

int64_t gx_store_length_limit(gx_store *store)
{
    return sqlite3_limit(store->db, SQLITE_LIMIT_LENGTH, -1);
}

void gx_store_set_tile_bytes(gx_store *store, size_t bytes)
{
    store->tile_bytes = bytes;
}

void gx_store_set_volumes_anywhere(gx_store *store, bool is_allowed)
{
    store->volumes_anywhere = is_allowed;
}

size_t gx_store_max_tile_bytes(gx_store *store)
{
    size_t limit = (size_t)gx_store_length_limit(store);
    size_t most = limit > ROW_OVERHEAD ? limit - ROW_OVERHEAD : 0;
    return store->tile_bytes < most ? store->tile_bytes : most;
}

// Functions of the application --------------------------------------------------------------------

gx_code gx_store_ended(gx_store *store, gx_err *err)
{
    if (gx_store_is_interrupted(store)) { // which makes SQLite roll back
        return gx_fail(err, GX_INTERRUPT, "interrupted");
    }
    return gx_fail(err, GX_IO, "the transaction was ended while the call was storing");
}

gx_code gx_store_still_stores(gx_store *store, gx_err *err)
{
    bool is_gone = store->depth > 0 && store->level[store->depth - 1].has_savepoint &&
                   sqlite3_get_autocommit(store->db);
    return is_gone ? gx_store_ended(store, err) : GX_OK;
}

gx_code gx_store_called(gx_store *store, gx_err *err)
{
    GX_TRY(gx_store_still_stores(store, err));
    return store->depth > 0 ? gx_store_arm(store, err) : GX_OK;
}

// Progress ----------------------------------------------------------------------------------------

static gx_code prepare_progress(gx_store *store, const char *fn, gx_err *err)
{
    if (store->progress != NULL && strcmp(store->progress_fn, fn) == 0) {
        return GX_OK;
    }
    finalize(&store->progress);
    char *text = sqlite3_mprintf("SELECT \"%w\"(?1, ?2, ?3)", fn);
    if (text == NULL) {
        return gx_fail_nomem(err, strlen(fn), "SQL text");
    }
    int rc = sqlite3_prepare_v2(store->db, text, -1, &store->progress, NULL);
    sqlite3_free(text);
    if (rc != SQLITE_OK) {
        gx_code code = rc == SQLITE_ERROR ? GX_ARG : gx_store_code(rc);
        return gx_fail(err, code, "progress function %s: %s", fn, sqlite3_errmsg(store->db));
    }
    snprintf(store->progress_fn, sizeof store->progress_fn, "%s", fn);
    return GX_OK;
}

gx_code gx_store_call_progress(gx_store *store, const char *fn, const char *label, double fraction,
                               double seconds, gx_err *err)
{
    GX_TRY(prepare_progress(store, fn, err));

    // The function may use gx, which may report progress: the statement is out of reach then.
    sqlite3_stmt *stmt = store->progress;
    store->progress = NULL;
    sqlite3_bind_text(stmt, 1, label, -1, SQLITE_TRANSIENT);
    sqlite3_bind_double(stmt, 2, fraction);
    sqlite3_bind_double(stmt, 3, seconds);
    int rc = sqlite3_step(stmt);
    gx_code code = GX_OK;
    if (rc == SQLITE_ROW) {
        if (sqlite3_column_double(stmt, 0) != 0) {
            code = gx_fail(err, GX_INTERRUPT, "interrupted by progress function %s", fn);
        }
    } else if ((rc & 0xff) == SQLITE_INTERRUPT) {
        code = gx_fail(err, GX_INTERRUPT, "interrupted");
    } else {
        code = (rc & 0xff) == SQLITE_ERROR ? GX_ARG : gx_store_code(rc);
        code = gx_fail(err, code, "progress function %s: %s", fn, sqlite3_errmsg(store->db));
    }
    sqlite3_reset(stmt);
    finalize(&store->progress);
    store->progress = stmt;
    return code == GX_OK ? gx_store_called(store, err) : code;
}
