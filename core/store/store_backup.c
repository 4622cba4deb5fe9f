/*
** A copy of a database and its volumes, for gx_backup(): one committed state.
**
** SQLite's backup API copies the database through this connection, whose read pin holds a state of
** it; the extents that this state names are not written again while it is read (store_extent.c),
** and are copied at their own offsets into volumes of the copy's own, with its key, beside it.
**
** Nothing has the copy's name before all of it is on the disk: database and volumes are made under
** a name of their own in the same folder (files.h) and renamed at the end, the database last.  A
** failure or an interrupt removes them; a process that is killed leaves files called .gx-*.tmp and
** nothing that a database could take for its own.  The copy is written without a journal, since
** there is no earlier state to go back to: a journal that stays behind would undo whatever database
** is put beside it later.  For the same reason a journal or log that is there already is refused.
**
** I/O: every page and every extent once.  Memory: COPY_BYTES, and some bytes a volume.
** Interrupts: polled between pieces of COPY_BYTES.
*/
#include <sqlite3ext.h>

#include "../base/files.h"
#include "volume_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

SQLITE_EXTENSION_INIT3

enum { COPY_BYTES = 1 << 20 };

/* What SQLite makes beside a database that would change it when it is opened, or is left over. */
static const char *const companions[] = {"-journal", "-wal", "-shm"};
enum { COMPANIONS = sizeof companions / sizeof companions[0] };

typedef struct copying {
    gx_store *store;
    gx_schema *schema;
    const char *path;               /* of the copy when it is whole         */
    char name[GX_VOLUME_PATH_MAX];  /* until then                           */
    sqlite3 *to;
    void *buffer;
    int64_t key;                    /* of the copy's volumes                */
    gx_volume_id *volumes;          /* of the copy: the source's with its key */
    int64_t count, made, published; /* of volumes: there are, made, renamed */
} copying;

static gx_code poll(void *arg, gx_err *err)
{
    const copying *c = arg;
    return gx_store_is_interrupted(c->store) ? gx_fail(err, GX_INTERRUPT, "interrupted") : GX_OK;
}

static gx_code exec(sqlite3 *db, const char *text, gx_err *err)
{
    int rc = sqlite3_exec(db, text, NULL, NULL, NULL);
    return rc == SQLITE_OK ? GX_OK : gx_store_fail(db, rc, err, "the copy");
}

// Names -------------------------------------------------------------------------------------------

/* base, and behind it what a companion or volume has. */
static gx_code join(const char *base, const char *ending, char full[GX_VOLUME_PATH_MAX],
                    gx_err *err)
{
    int length = snprintf(full, GX_VOLUME_PATH_MAX, "%s%s", base, ending);
    return length > 0 && length < GX_VOLUME_PATH_MAX
               ? GX_OK
               : gx_fail(err, GX_ARG, "the path %.40s... is too long", base);
}

static gx_code name_volume(const copying *c, const char *base, int64_t k,
                           char full[GX_VOLUME_PATH_MAX], gx_err *err)
{
    char ending[32];
    snprintf(ending, sizeof ending, "-gx%lld", (long long)c->volumes[k].id);
    return join(base, ending, full, err);
}

static gx_code check_free(const copying *c, const char *path, gx_err *err)
{
    bool is_there;
    GX_TRY(gx_volume_exists(c->store->db, c->schema->name, path, &is_there, err));
    return is_there ? gx_fail(err, GX_ARG, "the file %s exists already: move it away", path)
                    : GX_OK;
}

/* The copy, and all that belongs to a database of its name. */
static gx_code check_place(const copying *c, gx_err *err)
{
    char full[GX_VOLUME_PATH_MAX];
    GX_TRY(check_free(c, c->path, err));
    for (int k = 0; k < COMPANIONS; k++) {
        GX_TRY(join(c->path, companions[k], full, err));
        GX_TRY(check_free(c, full, err));
    }
    for (int64_t k = 0; k < c->count; k++) {
        GX_TRY(name_volume(c, c->path, k, full, err));
        GX_TRY(check_free(c, full, err));
    }
    return GX_OK;
}

/* An empty file counts as none, to SQLite as well: it is replaced. */
static gx_code publish(const char *name, const char *path, gx_err *err)
{
    struct stat st;
    bool is_empty = stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0;
    if (gx_newfile_publish(name, path, is_empty)) {
        return GX_OK;
    }
    char why[128];
    return gx_fail(err, GX_IO, "giving the copy the name %s: %s", path,
                   strerror_r(errno, why, sizeof why));
}

/* After a failure: all there is, under either name.  No SQL: an interrupt would stop that too. */
static void discard(const copying *c)
{
    char full[GX_VOLUME_PATH_MAX];
    for (int64_t k = 0; k < c->made; k++) {
        const char *base = k < c->published ? c->path : c->name;
        if (name_volume(c, base, k, full, NULL) == GX_OK) {
            gx_volume_remove(c->store->db, c->schema->name, full);
        }
    }
    for (int k = 0; k < COMPANIONS; k++) {
        if (join(c->name, companions[k], full, NULL) == GX_OK) {
            gx_volume_remove(c->store->db, c->schema->name, full);
        }
    }
    gx_volume_remove(c->store->db, c->schema->name, c->name);
}

// The database ------------------------------------------------------------------------------------

/* A read transaction until the statement is finalized, also where gx has no tables to pin. */
static gx_code hold(const copying *c, sqlite3_stmt **stmt, gx_err *err)
{
    *stmt = NULL;
    char *text = gx_store_qualify(c->schema->name, "SELECT count(*) FROM main.sqlite_master");
    int rc = text == NULL ? SQLITE_NOMEM
                          : sqlite3_prepare_v2(c->store->db, text, -1, stmt, NULL);
    sqlite3_free(text);
    rc = rc == SQLITE_OK ? sqlite3_step(*stmt) : rc;
    return rc == SQLITE_ROW
               ? GX_OK
               : gx_store_fail(c->store->db, rc, err, "reading %s", c->schema->name);
}

/* The pages.  The backup's own connection waits for nobody. */
static gx_code step_pages(copying *c, gx_err *err)
{
    int64_t page_bytes = gx_max(512, (int64_t)gx_store_page_bytes(c->store, c->schema->name));
    sqlite3_backup *backup =
        sqlite3_backup_init(c->to, "main", c->store->db, c->schema->name);
    if (backup == NULL) {
        return gx_store_fail(c->to, sqlite3_errcode(c->to), err, "copying %s", c->schema->name);
    }
    int rc = SQLITE_OK;
    gx_code code = GX_OK;
    while (code == GX_OK && rc == SQLITE_OK) {
        code = poll(c, err);
        rc = code == GX_OK ? sqlite3_backup_step(backup, (int)gx_max(1, COPY_BYTES / page_bytes))
                           : SQLITE_OK;
    }
    rc = sqlite3_backup_finish(backup);
    return code != GX_OK || rc == SQLITE_OK
               ? code
               : gx_store_fail(c->to, rc, err, "copying %s", c->schema->name);
}

static gx_code copy_pages(copying *c, gx_err *err)
{
    sqlite3_stmt *stmt;
    gx_code code = hold(c, &stmt, err);
    if (code == GX_OK) {
        code = step_pages(c, err);
    }
    sqlite3_finalize(stmt);
    return code;
}

/* In WAL mode, which the copy has from its source: all of it in the database's own file. */
static gx_code empty_log(const copying *c, gx_err *err)
{
    int in_log = 0, copied = 0;
    int rc = sqlite3_wal_checkpoint_v2(c->to, "main", SQLITE_CHECKPOINT_TRUNCATE, &in_log, &copied);
    return rc == SQLITE_OK ? GX_OK : gx_store_fail(c->to, rc, err, "the copy");
}

// Volumes -----------------------------------------------------------------------------------------

static const char volumes_sql[] =
    "SELECT id, set_id, (SELECT count(*) FROM main.gx_volumes w WHERE w.set_id = v.set_id), "
    "(SELECT count(*) FROM main.gx_volumes w WHERE w.set_id = v.set_id AND w.id < v.id) "
    "FROM main.gx_volumes v";

/* What the table of the source names. */
static gx_code list_volumes(copying *c, gx_err *err)
{
    sqlite3_stmt *stmt = NULL;
    void *memory = NULL;
    char *text = gx_store_qualify(c->schema->name, volumes_sql);
    int rc = text == NULL ? SQLITE_NOMEM
                          : sqlite3_prepare_v2(c->store->db, text, -1, &stmt, NULL);
    sqlite3_free(text);
    gx_code code = GX_OK;
    while (code == GX_OK && (rc == SQLITE_OK || rc == SQLITE_ROW)) {
        rc = sqlite3_step(stmt);
        if (rc == SQLITE_ROW) {
            memory = c->volumes;
            code = gx_mem_realloc(c->store->mem, (size_t)(c->count + 1) * sizeof *c->volumes,
                                  "list of volumes", &memory, err);
        }
        if (rc == SQLITE_ROW && code == GX_OK) {
            c->volumes = memory;
            c->volumes[c->count++] = (gx_volume_id){
                c->key, sqlite3_column_int64(stmt, 1), sqlite3_column_int64(stmt, 0),
                sqlite3_column_int(stmt, 3), sqlite3_column_int(stmt, 2)};
        }
    }
    if (code == GX_OK && rc != SQLITE_DONE) {
        code = gx_store_fail(c->store->db, rc, err, "volumes of %s", c->schema->name);
    }
    sqlite3_finalize(stmt);
    return code;
}

/* The copy's volumes are its own: another key, names beside it. */
static gx_code adopt(const copying *c, gx_err *err)
{
    char text[200];
    snprintf(text, sizeof text,
             "UPDATE main.gx_volumes SET path = NULL;"
             "UPDATE main.gx_state SET value = %lld WHERE key = 'volume_key'",
             (long long)c->key);
    return exec(c->to, text, err);
}

static gx_code make_volumes(copying *c, gx_err *err)
{
    char full[GX_VOLUME_PATH_MAX];
    for (int64_t k = 0; k < c->count; k++) {
        GX_TRY(poll(c, err));
        GX_TRY(name_volume(c, c->name, k, full, err));
        GX_TRY(gx_volume_make(c->to, "main", full, &c->volumes[k], err));
        c->made++;
    }
    return GX_OK;
}

typedef struct copying_set {
    copying *c;
    gx_volumes *from, *to;
} copying_set;

static gx_code copy_extent(void *arg, const gx_extent_row *extent, gx_err *err)
{
    const copying_set *s = arg;
    return gx_volumes_copy(s->from, s->to, extent, s->c->buffer, COPY_BYTES, poll, s->c, err);
}

static gx_code copy_set(copying *c, int64_t set, gx_err *err)
{
    copying_set s = {.c = c};
    gx_code code =
        gx_volumes_open(c->store, c->store->db, c->schema->name, set, false, &s.from, err);
    if (code == GX_OK) {
        code = gx_volumes_open(c->store, c->to, "main", set, true, &s.to, err);
    }
    if (code == GX_OK) {
        code = gx_spread_each(c->store, c->schema, set, copy_extent, &s, err);
    }
    if (code == GX_OK) {
        code = gx_volumes_sync(s.to, err);
    }
    gx_volumes_close(s.from);
    gx_volumes_close(s.to);
    return code;
}

static gx_code copy_volumes(copying *c, gx_err *err)
{
    int64_t set = 0;
    gx_code code = GX_OK;
    GX_TRY(adopt(c, err));
    GX_TRY(make_volumes(c, err));
    while (code == GX_OK &&
           (code = gx_spread_next_set(c->store, c->schema, &set, err)) == GX_OK && set > 0) {
        code = copy_set(c, set, err);
    }
    return code;
}

// The whole ---------------------------------------------------------------------------------------

/* Under its first name, on the disk, closed. */
static gx_code copy_all(copying *c, gx_err *err)
{
    int rc = sqlite3_open_v2(c->name, &c->to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (rc != SQLITE_OK) {
        return c->to == NULL ? gx_fail_nomem(err, 0, "connection")
                             : gx_store_fail(c->to, rc, err, "%s", c->path);
    }
    GX_TRY(exec(c->to, "PRAGMA journal_mode = OFF", err));
    GX_TRY(copy_pages(c, err));
    if (c->count > 0) {
        GX_TRY(copy_volumes(c, err));
    }
    GX_TRY(empty_log(c, err));
    rc = sqlite3_close(c->to);
    c->to = rc == SQLITE_OK ? NULL : c->to;
    return rc == SQLITE_OK ? poll(c, err) : gx_fail(err, GX_IO, "closing %s", c->name);
}

/* The volumes first: a database with the name is never without them. */
static gx_code publish_all(copying *c, gx_err *err)
{
    char from[GX_VOLUME_PATH_MAX], to[GX_VOLUME_PATH_MAX];
    for (int64_t k = 0; k < c->count; k++) {
        GX_TRY(name_volume(c, c->name, k, from, err));
        GX_TRY(name_volume(c, c->path, k, to, err));
        GX_TRY(publish(from, to, err));
        c->published++;
    }
    GX_TRY(publish(c->name, c->path, err));
    gx_newfile_sync_folder(c->path);
    return GX_OK;
}

static gx_code back_up(copying *c, gx_err *err)
{
    bool has_volumes = c->schema->has_tables && gx_spread_has_tables(c->store, c->schema);
    if (has_volumes) {
        GX_TRY(list_volumes(c, err));
    }
    GX_TRY(check_place(c, err));
    if (gx_newfile_name(c->path, c->name, sizeof c->name) >= sizeof c->name) {
        return gx_fail(err, GX_ARG, "the path %.40s... is too long", c->path);
    }
    GX_TRY(gx_mem_alloc(c->store->mem, COPY_BYTES, "buffer of a copy", &c->buffer, err));
    gx_code code = copy_all(c, err);
    sqlite3_close(c->to); // NULL is a no-op
    if (code == GX_OK) {
        code = publish_all(c, err);
    }
    if (code != GX_OK) {
        discard(c);
    }
    return code;
}

gx_code gx_store_backup(gx_store *store, const char *name, const char *path, gx_err *err)
{
    copying c = {.store = store, .path = path};
    GX_TRY(gx_store_flush(store, err));
    GX_TRY(gx_store_schema(store, name, &c.schema, err));
    GX_TRY(gx_store_look(store, c.schema, err));
    if (gx_store_txn_state(store, c.schema->name) == SQLITE_TXN_WRITE) {
        return gx_fail(err, GX_UNSUPPORTED, "%s has uncommitted changes: commit them first",
                       c.schema->name);
    }
    if (path[0] == '\0' || path[0] == ':' || strncmp(path, "file:", 5) == 0) {
        return gx_fail(err, GX_ARG, "'%.40s' is no path of a file", path);
    }
    sqlite3_randomness(sizeof c.key, &c.key);
    c.key = (int64_t)((uint64_t)c.key >> 2) + 1;
    gx_code code = back_up(&c, err);
    gx_mem_free(store->mem, c.buffer);
    gx_mem_free(store->mem, c.volumes);
    return code;
}
