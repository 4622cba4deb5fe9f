/*
** A copy of a database and its volumes, for gx_backup(): one committed state.
**
** SQLite's backup API copies the database through this connection, whose read pin holds a state of
** it; the extents that this state names are not written again while it is read (store_extent.c),
** and are copied at their own offsets into volumes of the copy's own, with its key, beside it.
**
** I/O: every page and every extent once.  Memory: COPY_BYTES.
*/
#include <sqlite3ext.h>

#include "volume_int.h"

#include <stdio.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum { COPY_BYTES = 1 << 20 };

typedef struct copying {
    gx_store *store;
    gx_schema *schema;
    sqlite3 *to;
    void *buffer;
} copying;

/* The pages.  The backup's own connection waits for nobody. */
static gx_code copy_pages(const copying *c, gx_err *err)
{
    sqlite3_backup *backup =
        sqlite3_backup_init(c->to, "main", c->store->db, c->schema->name);
    if (backup == NULL) {
        return gx_store_fail(c->to, sqlite3_errcode(c->to), err, "copying %s", c->schema->name);
    }
    (void)sqlite3_backup_step(backup, -1);
    int rc = sqlite3_backup_finish(backup);
    return rc == SQLITE_OK ? GX_OK : gx_store_fail(c->to, rc, err, "copying %s", c->schema->name);
}

static gx_code exec(sqlite3 *db, const char *text, gx_err *err)
{
    int rc = sqlite3_exec(db, text, NULL, NULL, NULL);
    return rc == SQLITE_OK ? GX_OK : gx_store_fail(db, rc, err, "the copy");
}

/* The copy's volumes are its own: another key, names beside it. */
static gx_code adopt(const copying *c, gx_err *err)
{
    return exec(c->to,
                "UPDATE main.gx_volumes SET path = NULL;"
                "UPDATE main.gx_state SET value = abs(random() >> 1) + 1 WHERE key = 'volume_key'",
                err);
}

static const char volumes_sql[] =
    "SELECT id, set_id, (SELECT count(*) FROM main.gx_volumes w WHERE w.set_id = v.set_id), "
    "(SELECT count(*) FROM main.gx_volumes w WHERE w.set_id = v.set_id AND w.id < v.id), "
    "(SELECT value FROM main.gx_state WHERE key = 'volume_key') FROM main.gx_volumes v";

typedef enum action { LOOK, MAKE, REMOVE } action;

/* What the table names, beside the copy.  LOOK: none of it is there yet. */
static gx_code each_file(const copying *c, action what, gx_err *err)
{
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(c->to, volumes_sql, -1, &stmt, NULL);
    gx_code code = rc == SQLITE_OK ? GX_OK : gx_store_fail(c->to, rc, err, "the copy");
    while (code == GX_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        char full[GX_VOLUME_PATH_MAX];
        const gx_volume_id id = {sqlite3_column_int64(stmt, 4), sqlite3_column_int64(stmt, 1),
                                 sqlite3_column_int64(stmt, 0), sqlite3_column_int(stmt, 3),
                                 sqlite3_column_int(stmt, 2)};
        code = gx_volume_path(c->to, "main", id.id, NULL, full, err);
        if (code == GX_OK && what == REMOVE) {
            gx_volume_remove(c->to, "main", full);
        } else if (code == GX_OK && what == LOOK) {
            bool is_there = false;
            code = gx_volume_exists(c->to, "main", full, &is_there, err);
            if (is_there) {
                code = gx_fail(err, GX_ARG, "the file %s exists already: move it away", full);
            }
        } else if (code == GX_OK && what == MAKE) {
            code = gx_volume_make(c->to, "main", full, &id, err);
        }
    }
    if (code == GX_OK && rc != SQLITE_DONE) {
        code = gx_store_fail(c->to, rc, err, "the copy");
    }
    sqlite3_finalize(stmt);
    return code;
}

static gx_code copy_extents(const copying *c, int64_t set, gx_volumes *from, gx_volumes *to,
                            gx_err *err)
{
    sqlite3_stmt *stmt;
    GX_TRY(gx_store_stmt(c->store, c->schema, GX_SQL_EXTENTS, &stmt, err));
    sqlite3_bind_int64(stmt, 1, set);
    int rc;
    gx_code code = GX_OK;
    while (code == GX_OK && (rc = sqlite3_step(stmt)) != SQLITE_DONE) {
        if (rc != SQLITE_ROW) {
            code = gx_store_fail(c->store->db, rc, err, "extents of %s", c->schema->name);
        } else {
            code = gx_volumes_copy(from, to, sqlite3_column_int64(stmt, 0),
                                   sqlite3_column_int64(stmt, 1), c->buffer, COPY_BYTES, err);
        }
    }
    sqlite3_reset(stmt);
    return code;
}

static gx_code copy_set(const copying *c, int64_t set, gx_err *err)
{
    gx_volumes *from = NULL, *to = NULL;
    gx_code code = gx_volumes_open(c->store, c->store->db, c->schema->name, set, false, &from, err);
    if (code == GX_OK) {
        code = gx_volumes_open(c->store, c->to, "main", set, true, &to, err);
    }
    if (code == GX_OK) {
        code = copy_extents(c, set, from, to, err);
    }
    if (code == GX_OK) {
        code = gx_volumes_sync(to, err);
    }
    gx_volumes_close(from);
    gx_volumes_close(to);
    return code;
}

static gx_code copy_volumes(const copying *c, gx_err *err)
{
    int64_t set = 0;
    GX_TRY(adopt(c, err));
    GX_TRY(each_file(c, LOOK, err));
    gx_code code = each_file(c, MAKE, err);
    while (code == GX_OK &&
           (code = gx_spread_next_set(c->store, c->schema, &set, err)) == GX_OK && set > 0) {
        code = copy_set(c, set, err);
    }
    if (code != GX_OK) {
        (void)each_file(c, REMOVE, NULL);
    }
    return code;
}

static gx_code copy_all(copying *c, gx_err *err)
{
    GX_TRY(copy_pages(c, err));
    bool has_volumes = c->schema->has_tables && gx_spread_has_tables(c->store, c->schema);
    return has_volumes ? copy_volumes(c, err) : GX_OK;
}

gx_code gx_store_backup(gx_store *store, const char *name, const char *path, gx_err *err)
{
    copying c = {.store = store};
    GX_TRY(gx_store_flush(store, err));
    GX_TRY(gx_store_schema(store, name, &c.schema, err));
    GX_TRY(gx_store_look(store, c.schema, err));
    if (sqlite3_txn_state(store->db, c.schema->name) == SQLITE_TXN_WRITE) {
        return gx_fail(err, GX_UNSUPPORTED, "%s has uncommitted changes: commit them first",
                       c.schema->name);
    }
    if (path[0] == '\0' || path[0] == ':' || strncmp(path, "file:", 5) == 0) {
        return gx_fail(err, GX_ARG, "'%.40s' is no path of a file", path);
    }
    bool is_there;
    GX_TRY(gx_volume_exists(store->db, c.schema->name, path, &is_there, err));
    if (is_there) {
        return gx_fail(err, GX_ARG, "the file %s exists already", path);
    }
    GX_TRY(gx_mem_alloc(store->mem, COPY_BYTES, "buffer of a copy", &c.buffer, err));
    int rc = sqlite3_open_v2(path, &c.to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    gx_code code = c.to == NULL      ? gx_fail_nomem(err, 0, "connection")
                   : rc == SQLITE_OK ? copy_all(&c, err)
                                     : gx_store_fail(c.to, rc, err, "%s", path);
    sqlite3_close(c.to);
    gx_mem_free(store->mem, c.buffer);
    if (code != GX_OK && rc == SQLITE_OK) {
        gx_volume_remove(store->db, c.schema->name, path);
    }
    return code;
}
