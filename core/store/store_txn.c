/*
** The matrix store: making the tables, and the transaction around a storing call.
**
** A storing call is atomic.  gx_store_begin() opens SAVEPOINT gx_store, gx_store_end() releases it
** or rolls it back; where no transaction was open the savepoint is one, and its release the commit.
** Calls nest (a progress function that stores): each has a savepoint of its own.
**
** Inside a statement that is itself writing (INSERT ... SELECT gx_matmul(...)) SQLite refuses
** savepoints with SQLITE_BUSY.  There the outer statement's own rollback undoes what the call wrote
** in most cases (in autocommit always); for the others the store remembers which matrices it
** created and deletes them.  Within BEGIN ... COMMIT that rollback is a savepoint that SQLite has
** set in the schema of the outer statement; in another one it sets it with the first statement that
** might itself fail half-way, and goes back to it in all of them.  So the call's lock is taken by
** such a statement there (GX_SQL_JOURNAL: several rows, which may not be unique; there are none).
**
** Interrupts.  While sqlite3_interrupt() is pending every statement stops as it starts, ROLLBACK as
** well, and the flag falls only when the outermost statement has ended: after us.  But SQLite rolls
** back the whole transaction when a *writing* statement is interrupted, which is documented, so
** stepping BEGIN IMMEDIATE (it counts as writing, and cannot do harm: a transaction is open) rolls
** back.  It has to be prepared beforehand, since the parser stops too, and again after each change
** of the schema: gx_store_arm().  So an interrupted storing call within BEGIN ... COMMIT ends that
** transaction, as an interrupted INSERT does.
**
** Some failures (disk full, I/O error, no memory) make SQLite roll back the whole transaction by
** itself.  Then autocommit mode is back on and there is nothing left to undo.  After a COMMIT by a
** function that the call has called what was unfinished is left: it goes too.
*/
#include <sqlite3ext.h>

#include "volume_int.h"

#include "schema.h" // made from sql/schema.sql by the build: static const char schema_sql[]

#include <assert.h>
#include <stdio.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

// The tables --------------------------------------------------------------------------------------

/* Nothing but a catalog, which gx 0.1 made, may be called gx: it would hide ours. */
static gx_code check_catalog_name(gx_store *store, const gx_schema *schema, gx_err *err)
{
    char *text =
        gx_store_qualify(schema->name, "SELECT 1 FROM main.sqlite_master WHERE lower(name) = 'gx' "
                                       "AND sql NOT LIKE 'CREATE VIRTUAL TABLE%USING gx_catalog%'");
    if (text == NULL) {
        return gx_fail_nomem(err, 100, "SQL text");
    }
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(store->db, text, -1, &stmt, NULL);
    sqlite3_free(text);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    gx_code code = GX_OK;
    if (rc == SQLITE_ROW) {
        code = gx_fail(err, GX_ARG, "%s has a table gx that is not the catalog of gx: rename it",
                       schema->name);
    } else if (rc != SQLITE_DONE) {
        code = gx_store_fail(store->db, rc, err, "reading %s", schema->name);
    }
    sqlite3_finalize(stmt);
    return code;
}

static gx_code make_failed(gx_store *store, int rc, const gx_schema *schema, gx_err *err)
{
    gx_err reason = {.code = GX_OK}; // before the look at the interrupt overwrites it
    (void)gx_fail(&reason, GX_ARG, "making the tables of gx in %s: %s", schema->name,
                  sqlite3_errmsg(store->db));
    if (gx_store_is_interrupted(store)) {
        return gx_fail(err, GX_INTERRUPT, "interrupted"); // whatever it made of the parser
    }
    if ((rc & 0xff) == SQLITE_ERROR) { // such as: table gx_meta already exists
        return gx_fail(err, reason.code, "%s", reason.text);
    }
    return gx_store_fail(store->db, rc, err, "making the tables of gx in %s", schema->name);
}

gx_code gx_store_make_tables(gx_store *store, const char *name, gx_err *err)
{
    gx_schema *schema;
    GX_TRY(gx_store_schema(store, name, &schema, err));
    GX_TRY(gx_store_look(store, schema, err));
    if (schema->has_tables) {
        return GX_OK;
    }
    int rc = gx_store_exec_in(store, schema->name, schema_sql);
    if (rc != SQLITE_OK) {
        return make_failed(store, rc, schema, err);
    }
    return gx_store_look(store, schema, err);
}

// Begin -------------------------------------------------------------------------------------------

static gx_code roll_back(gx_store *store, const gx_level *level, gx_err *err);

static gx_code open_level(gx_store *store, gx_err *err)
{
    if (store->depth == GX_LEVEL_MAX) {
        return gx_fail(err, GX_UNSUPPORTED, "storing calls nested deeper than %d", GX_LEVEL_MAX);
    }
    gx_store_close_patches(store);
    GX_TRY(gx_store_arm(store, err));
    gx_level *level = &store->level[store->depth];
    *level = (gx_level){
        .was_autocommit = sqlite3_get_autocommit(store->db) != 0,
        .created = store->created_count,
        .last_rowid = sqlite3_last_insert_rowid(store->db),
    };
    int rc = gx_store_exec(store, "SAVEPOINT gx_store");
    if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY) {
        gx_code code = gx_store_fail(store->db, rc, err, "beginning to store");
        if (level->was_autocommit && !sqlite3_get_autocommit(store->db)) {
            (void)roll_back(store, level, err); // opened, then stopped by a progress handler
        }
        return code;
    }
    if (rc == SQLITE_OK && sqlite3_get_autocommit(store->db)) { // an authorizer ignores it
        return gx_fail(err, GX_AUTH, "not authorized: beginning to store");
    }
    level->has_savepoint = rc == SQLITE_OK;
    store->depth++;
    return GX_OK;
}

/*
** While a read transaction is open SQLite does not wait for another writer (two that wait for each
** other would wait for ever): the call would fail although the application set a busy timeout.  So
** the lock comes before anything is read from the schema, where that can be: in autocommit our own
** read pin goes first, unless too much was found under it to look at again; within BEGIN ... COMMIT
** nothing may have been read yet.  *lock_first: it can be, and there are tables to lock.
*/
static gx_code unpin(gx_store *store, gx_schema *schema, bool *lock_first, gx_err *err)
{
    *lock_first = false;
    if (store->depth == 0 && sqlite3_get_autocommit(store->db) != 0) {
        gx_store_give_up_pins(store);
    }
    if (store->depth > 0 || schema->seen_count > GX_SEEN_MAX) {
        return GX_OK;
    }
    if (sqlite3_get_autocommit(store->db) == 0) {
        bool is_unread = gx_store_txn_state(store, schema->name) == SQLITE_TXN_NONE;
        *lock_first = is_unread && gx_store_remembers(store, schema);
        return GX_OK;
    }
    GX_TRY(gx_store_look(store, schema, err));
    if (schema->is_pinned) {
        sqlite3_reset(schema->stmt[GX_SQL_PIN]);
        schema->is_pinned = false;
        *lock_first = true;
    }
    return GX_OK;
}

/* After the pin was gone for a moment: what the call has found must be as it was. */
static gx_code check_seen(gx_store *store, gx_schema *schema, gx_err *err)
{
    for (int k = 0; k < schema->seen_count; k++) {
        sqlite3_stmt *stmt;
        GX_TRY(gx_store_stmt(store, schema, GX_SQL_GENERATION, &stmt, err));
        sqlite3_bind_int64(stmt, 1, schema->seen[k].id);
        int rc = sqlite3_step(stmt);
        bool is_same =
            rc == SQLITE_ROW && sqlite3_column_int64(stmt, 0) == schema->seen[k].generation &&
            ((sqlite3_column_int64(stmt, 1) & GX_META_SPREAD) != 0) == schema->seen[k].is_spread;
        gx_code code = GX_OK;
        if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
            code = gx_store_fail(store->db, rc, err, "reading %s", schema->name);
        } else if (!is_same) {
            snprintf(store->overtaken, sizeof store->overtaken, "%s", schema->name);
            code = gx_fail(err, GX_BUSY,
                           "another connection changed a matrix of %s between finding it and "
                           "locking the database: try again",
                           schema->name);
        }
        sqlite3_reset(stmt);
        if (code != GX_OK) {
            return code;
        }
    }
    return GX_OK;
}

/* Past spaces and comments, what sets a statement apart. */
static const char *first_word(const char *sql)
{
    for (sql = gx_sql_blanks(sql); *sql == ';';) {
        sql = gx_sql_blanks(sql + 1);
    }
    return sql;
}

/*
** When the schema of temp changes, SQLite ends every running statement that then opens a table.
** CREATE TABLE ... AS SELECT always does, at its end, and takes back the tables that made it fail:
** it would never succeed.
*/
static gx_code check_temp(gx_store *store, const gx_schema *schema, gx_err *err)
{
    bool is_temp = sqlite3_stricmp(schema->name, "temp") == 0;
    sqlite3_stmt *stmt = is_temp ? sqlite3_next_stmt(store->db, NULL) : NULL;
    for (; stmt != NULL; stmt = sqlite3_next_stmt(store->db, stmt)) {
        const char *sql = sqlite3_sql(stmt);
        if (sql != NULL && sqlite3_stmt_busy(stmt) && !sqlite3_stmt_readonly(stmt) &&
            sqlite3_strnicmp(first_word(sql), "CREATE", 6) == 0) {
            return gx_fail(err, GX_UNSUPPORTED,
                           "CREATE TABLE ... AS SELECT cannot store the first matrix of temp: "
                           "store one there before it, or use INSERT ... SELECT");
        }
    }
    return GX_OK;
}

/* The write lock, and within a writing statement that statement's savepoint: see above. */
static gx_code take_lock(gx_store *store, gx_schema *schema, gx_err *err)
{
    sqlite3_stmt *lock;
    bool has_savepoint = store->level[store->depth - 1].has_savepoint;
    gx_sql which = has_savepoint ? GX_SQL_LOCK : GX_SQL_JOURNAL;
    GX_TRY(gx_store_stmt(store, schema, which, &lock, err));
    GX_TRY(gx_store_run(store, lock, err, "writing to", schema->name));
    schema->is_locked = true;
    gx_stamp_before(store, schema);
    return GX_OK;
}

/*
** Where there are no tables, as far as the connection knows, making them takes the lock, and comes
** before the look whether there are: SQLite waits for it then (see unpin()).  Another connection
** may have made them meanwhile.
*/
static gx_code make_unseen(gx_store *store, gx_schema *schema, gx_err *err)
{
    if (!store->level[store->depth - 1].has_savepoint || schema->is_locked ||
        gx_store_txn_state(store, schema->name) != SQLITE_TXN_NONE ||
        sqlite3_stricmp(schema->name, "temp") == 0 || gx_store_remembers(store, schema)) {
        return GX_OK;
    }
    int rc = gx_store_exec_in(store, schema->name, schema_sql);
    gx_err failed = {.code = GX_OK};
    if (rc != SQLITE_OK) {
        (void)make_failed(store, rc, schema, &failed);
    }
    if (failed.code == GX_ARG) { // a table of that name is there: ours?
        GX_TRY(gx_store_look(store, schema, err));
    }
    if (failed.code != GX_OK && !(failed.code == GX_ARG && schema->has_tables)) {
        return gx_fail(err, failed.code, "%s", failed.text);
    }
    GX_TRY(gx_store_arm(store, err));
    return check_catalog_name(store, schema, err);
}

/* The lock first; where there are no tables yet, their making takes it. */
static gx_code lock_schema(gx_store *store, gx_schema *schema, bool lock_first, gx_err *err)
{
    if (!schema->is_locked) {
        schema->was_written = gx_store_txn_state(store, schema->name) == SQLITE_TXN_WRITE;
    }
    if (!lock_first) {
        GX_TRY(make_unseen(store, schema, err));
        GX_TRY(gx_store_look(store, schema, err));
        if (!schema->has_tables) {
            GX_TRY(check_catalog_name(store, schema, err));
            GX_TRY(check_temp(store, schema, err));
            GX_TRY(gx_store_make_tables(store, schema->name, err));
            GX_TRY(gx_store_arm(store, err));
        }
    }
    if (!schema->is_locked) {
        GX_TRY(take_lock(store, schema, err));
    }
    if (lock_first) {
        GX_TRY(gx_store_look(store, schema, err));
        GX_TRY(check_seen(store, schema, err));
    }
    assert(schema->is_locked && schema->has_tables);
    return GX_OK;
}

static gx_code begin(gx_store *store, gx_schema *schema, bool lock_first, gx_err *err)
{
    GX_TRY(open_level(store, err));
    gx_code code = lock_schema(store, schema, lock_first, err);
    if (code != GX_OK) {
        (void)gx_store_end(store, false, err);
    }
    return code;
}

gx_code gx_store_begin(gx_store *store, const char *name, gx_err *err)
{
    gx_schema *schema;
    bool lock_first;
    GX_TRY(gx_store_flush(store, err));
    GX_TRY(gx_store_schema(store, name, &schema, err));
    GX_TRY(unpin(store, schema, &lock_first, err));
    gx_err failed = {.code = GX_OK};
    if (lock_first && begin(store, schema, true, &failed) == GX_OK) {
        return GX_OK;
    }
    if (lock_first && failed.code != GX_CORRUPT) {
        return gx_fail(err, failed.code, "%s", failed.text);
    }
    return begin(store, schema, false, err); // or another connection has dropped the tables
}

bool gx_store_waits_in_transaction(gx_store *store)
{
    return store->depth == 0 && sqlite3_get_autocommit(store->db) == 0 &&
           gx_store_txn_state(store, NULL) == SQLITE_TXN_NONE;
}

bool gx_store_has_tables(gx_store *store, const char *name)
{
    gx_schema *schema;
    gx_err err = {.code = GX_OK};
    return gx_store_schema(store, name, &schema, &err) == GX_OK &&
           gx_store_remembers(store, schema);
}

bool gx_store_overtaken(gx_store *store, char schema[GX_NAME_MAX + 1])
{
    bool is_so = store->overtaken[0] != '\0';
    memcpy(schema, store->overtaken, sizeof store->overtaken);
    store->overtaken[0] = '\0';
    return is_so;
}

gx_code gx_store_remember(gx_store *store, gx_schema *schema, int64_t id, gx_err *err)
{
    assert(store->depth > 0);
    bool has_savepoint = store->level[store->depth - 1].has_savepoint;
    if (has_savepoint && store->created_count >= GX_CREATED_MAX / 2) {
        return GX_OK; // the others are those of calls inside, which may have none
    }
    if (store->created_count == GX_CREATED_MAX) {
        return gx_fail(err, GX_UNSUPPORTED, "more than %d matrices stored by one call",
                       GX_CREATED_MAX);
    }
    store->created[store->created_count].schema = schema;
    store->created[store->created_count].id = id;
    store->created_count++;
    return GX_OK;
}

// End ---------------------------------------------------------------------------------------------

static int step_armed(gx_store *store, gx_armed which)
{
    if (store->armed[which] == NULL) {
        return SQLITE_MISUSE;
    }
    int rc = sqlite3_step(store->armed[which]);
    sqlite3_reset(store->armed[which]);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int try_roll_back(gx_store *store, const gx_level *level)
{
    if (level->was_autocommit) {
        return step_armed(store, GX_ARMED_ROLLBACK);
    }
    int rc = step_armed(store, GX_ARMED_ROLLBACK_TO);
    return rc == SQLITE_OK ? step_armed(store, GX_ARMED_RELEASE) : rc;
}

/*
** A change of the schema makes prepared statements stale, the armed ones as well, and an interrupt
** keeps them from being prepared again.  Opening a blob for writing needs no parser; interrupted,
** it rolls back like any writing statement.
*/
static void abort_by_blob(gx_store *store)
{
    for (gx_schema *schema = store->schemas; schema != NULL; schema = schema->next) {
        if (!sqlite3_get_autocommit(store->db)) {
            sqlite3_blob *blob = NULL;
            (void)sqlite3_blob_open(store->db, schema->name, "gx_tile", "data", 0, 1, &blob);
            sqlite3_blob_close(blob);
        }
    }
}

/*
** A savepoint that began the transaction ends with ROLLBACK, since a release would have to commit,
** for which the lock may be missing.  One retry: memory that was missing may be there now.
*/
static gx_code roll_back(gx_store *store, const gx_level *level, gx_err *err)
{
    int rc = try_roll_back(store, level);
    if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_INTERRUPT && !sqlite3_get_autocommit(store->db)) {
        rc = try_roll_back(store, level);
    }
    if (rc != SQLITE_OK && !sqlite3_get_autocommit(store->db)) {
        (void)step_armed(store,
                         (rc & 0xff) == SQLITE_INTERRUPT ? GX_ARMED_ABORT : GX_ARMED_ROLLBACK);
    }
    if (rc != SQLITE_OK && !sqlite3_get_autocommit(store->db)) {
        abort_by_blob(store);
    }
    if (rc != SQLITE_OK && !sqlite3_get_autocommit(store->db)) {
        return gx_store_fail(store->db, rc, err, "rolling back");
    }
    return GX_OK;
}

/*
** Where the transaction is over: if all was rolled back there is nothing; if a function of the
** application, called for elements or for the progress, has committed, what is unfinished was kept,
** and goes.
*/
static void drop_unfinished(gx_store *store, const gx_level *level)
{
    gx_err ignored = {.code = GX_OK};
    bool is_over = sqlite3_get_autocommit(store->db) != 0;
    for (int k = level->created; is_over && k < store->created_count; k++) {
        sqlite3_stmt *stmt;
        gx_schema *schema = store->created[k].schema;
        if (gx_store_stmt(store, schema, GX_SQL_UNNAMED, &stmt, &ignored) == GX_OK) {
            sqlite3_bind_int64(stmt, 1, store->created[k].id);
            bool is_left = sqlite3_step(stmt) == SQLITE_ROW;
            sqlite3_reset(stmt);
            if (is_left) {
                (void)gx_store_erase(store, schema, store->created[k].id, &ignored);
            }
        }
    }
}

static gx_code commit_level(gx_store *store, const gx_level *level, gx_err *err)
{
    GX_TRY(gx_store_still_stores(store, err));
    int rc = step_armed(store, GX_ARMED_RELEASE);
    if (rc == SQLITE_OK && level->was_autocommit && !sqlite3_get_autocommit(store->db)) {
        rc = SQLITE_AUTH; // an authorizer ignores it
    }
    if (rc == SQLITE_OK) {
        store->has_committed |= level->was_autocommit;
        return GX_OK;
    }
    bool is_gone =
        rc == SQLITE_ERROR && strncmp(sqlite3_errmsg(store->db), "no such savepoint", 17) == 0;
    gx_code code = is_gone ? gx_store_ended(store, err)
                           : gx_store_fail(store->db, rc, err, "committing");
    if (!sqlite3_get_autocommit(store->db)) {
        (void)roll_back(store, level, err);
    }
    drop_unfinished(store, level);
    return code;
}

/*
** No savepoint: delete what this level created.  The outer statement's rollback may do it as well;
** after an interrupt, which lets nothing be deleted, it certainly does.
*/
static gx_code undo_created(gx_store *store, const gx_level *level, gx_err *err)
{
    gx_code code = GX_OK;
    while (store->created_count > level->created) {
        store->created_count--;
        gx_schema *schema = store->created[store->created_count].schema;
        gx_err failed = {.code = GX_OK};
        gx_store_erase(store, schema, store->created[store->created_count].id, &failed);
        if (failed.code != GX_OK && failed.code != GX_INTERRUPT && code == GX_OK) {
            code = gx_fail(err, failed.code, "%s", failed.text);
        }
    }
    return code;
}

/* After a rollback nothing is known of any schema. */
static void forget(gx_store *store)
{
    for (gx_schema *schema = store->schemas; schema != NULL; schema = schema->next) {
        sqlite3_reset(schema->stmt[GX_SQL_PIN]);
        schema->is_pinned = false;
        schema->has_tables = false;
        schema->is_locked = false;
    }
}

static gx_code abandon_level(gx_store *store, const gx_level *level, gx_err *err)
{
    gx_code code = GX_OK;
    if (!level->has_savepoint) {
        code = undo_created(store, level, err);
    } else {
        code = sqlite3_get_autocommit(store->db) ? GX_OK : roll_back(store, level, err);
        drop_unfinished(store, level);
    }
    forget(store);
    return code;
}

gx_code gx_store_end(gx_store *store, bool commit, gx_err *err)
{
    if (store->depth == 0) {
        return GX_OK;
    }
    assert(store->depth <= GX_LEVEL_MAX);
    gx_store_close_patches(store);
    gx_level level = store->level[store->depth - 1];
    assert(level.created >= 0 && level.created <= store->created_count);
    gx_code code = GX_OK;
    if (commit && store->depth == 1) { // tiles in volumes are there before the rows that name them
        code = gx_spread_sync(store, err);
        commit = code == GX_OK;
    }
    if (!commit) {
        gx_code failed = abandon_level(store, &level, err);
        code = code == GX_OK ? failed : code;
    } else if (level.has_savepoint) {
        code = commit_level(store, &level, err);
        if (code != GX_OK) {
            forget(store);
        }
    }
    store->depth--;
    if (level.has_savepoint || store->depth == 0) {
        store->created_count = level.created;
    }
    assert(store->depth > 0 || store->created_count == 0);
    if (store->depth == 0) {
        for (gx_schema *schema = store->schemas; schema != NULL; schema = schema->next) {
            if (schema->is_locked) {
                gx_stamp_after(store, schema);
            }
            schema->is_locked = false;
            schema->seen_count = 0; // what this connection changes is no other's change
            gx_spread_forget(store, schema);
            bool is_committed = sqlite3_get_autocommit(store->db) != 0;
            schema->has_dropped_extents = schema->has_dropped_extents && !is_committed;
        }
    }
    sqlite3_set_last_insert_rowid(store->db, level.last_rowid);
    bool has_reason = !commit && code == GX_OK && err != NULL;
    return has_reason ? err->code : code;
}
