/*
** Facts about a database that SQLite tells through PRAGMA, and waiting for its disk: see store.h.
**
** Settling.  A commit waits until the disk has all that was written, with every processor idle.
** A result that is written while others compute can be waited for meanwhile, with the VFS's own
** xSync on the connection's own file: SQLite writes to it only what may be there before the commit
** (original pages are in the journal, which it has synced), so an early sync changes nothing but
** when the waiting is done.
**
** The schema's name is quoted as an identifier; the pragma's is one of gx's own constants.
*/
#include <sqlite3ext.h>

#include "store_int.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

SQLITE_EXTENSION_INIT3

gx_code gx_store_pragma(sqlite3 *db, const char *schema, const char *pragma, char text[64],
                        gx_err *err)
{
    text[0] = '\0';
    char *sql = sqlite3_mprintf("PRAGMA \"%w\".%s", schema, pragma);
    if (sql == NULL) {
        return gx_fail_nomem(err, 0, "pragma");
    }
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    sqlite3_free(sql);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    if (rc == SQLITE_ROW) {
        const unsigned char *value = sqlite3_column_text(stmt, 0);
        snprintf(text, 64, "%s", value == NULL ? "" : (const char *)value);
        rc = SQLITE_OK;
    }
    gx_code code = rc == SQLITE_OK || rc == SQLITE_DONE
                       ? GX_OK
                       : gx_store_fail(db, rc, err, "PRAGMA %s of %s", pragma, schema);
    sqlite3_finalize(stmt);
    return code;
}

size_t gx_store_page_bytes(gx_store *store, const char *schema_name)
{
    size_t bytes = 0;
    sqlite3_stmt *stmt;
    if (gx_store_first_row(store, schema_name, GX_SQL_PAGE_BYTES, &stmt)) {
        bytes = (size_t)sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return bytes != 0 ? bytes : 4096;
}

int gx_store_txn_state(gx_store *store, const char *schema_name)
{
    const int KNOWS_STATE = 3034000; // sqlite3_txn_state()
    if (sqlite3_libversion_number() >= KNOWS_STATE) {
        return sqlite3_txn_state(store->db, schema_name);
    }
    bool is_ours =
        store->depth > 0 && store->level[0].has_savepoint && store->level[0].was_autocommit;
    if (!is_ours && sqlite3_get_autocommit(store->db) == 0) {
        return SQLITE_TXN_WRITE;
    }
    sqlite3_stmt *stmt = NULL;
    while ((stmt = sqlite3_next_stmt(store->db, stmt)) != NULL) {
        if (sqlite3_stmt_busy(stmt) != 0 && sqlite3_stmt_readonly(stmt) == 0) {
            return SQLITE_TXN_WRITE;
        }
    }
    for (const gx_schema *s = store->schemas; s != NULL; s = s->next) {
        if (s->is_locked && (schema_name == NULL || sqlite3_stricmp(s->name, schema_name) == 0)) {
            return SQLITE_TXN_WRITE;
        }
    }
    return SQLITE_TXN_NONE;
}

bool gx_store_commits(const gx_store *store)
{
    const char *file = sqlite3_db_filename(store->db, "main");
    bool is_last = store->depth > 0
                       ? store->level[0].has_savepoint && store->level[0].was_autocommit
                       : sqlite3_get_autocommit(store->db) != 0;
    return is_last && file != NULL && file[0] != '\0';
}

/* Is there a log beside the file, and how long? */
static bool has_log(sqlite3 *db, const char *schema, double *bytes)
{
    const char *file = sqlite3_db_filename(db, schema);
    char log[PATH_MAX];
    int length = file == NULL || file[0] == '\0' ? 0 : snprintf(log, sizeof log, "%s-wal", file);
    struct stat about;
    bool is_there = length > 0 && length < PATH_MAX && stat(log, &about) == 0;
    *bytes = is_there ? (double)about.st_size : 0;
    return is_there;
}

bool gx_store_is_wal(gx_store *store, const char *schema)
{
    double bytes;
    return has_log(store->db, schema, &bytes);
}

void gx_store_space(gx_store *store, const char *schema, gx_space *space)
{
    const char *file = sqlite3_db_filename(store->db, schema);
    char count[64];
    *space = (gx_space){.is_file = file != NULL && file[0] != '\0'};
    if (space->is_file) {
        space->has_log = has_log(store->db, schema, &space->log_bytes);
        if (gx_store_pragma(store->db, schema, "freelist_count", count, NULL) == GX_OK) {
            space->free_bytes = strtod(count, NULL) * (double)gx_store_page_bytes(store, schema);
        }
    }
}

/* The file's header says so, also where no log is there yet. */
static bool is_wal(sqlite3 *db)
{
    enum { READ_VERSION_AT = 19, WAL = 2 };
    sqlite3_file *file = NULL;
    unsigned char version = 0;
    return sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK &&
           file != NULL && file->pMethods != NULL &&
           file->pMethods->xRead(file, &version, 1, READ_VERSION_AT) == SQLITE_OK && version == WAL;
}

void gx_store_imitate(sqlite3 *from, sqlite3 *to)
{
    static const char *const names[] = {"page_size", "synchronous"};
    const char *file = sqlite3_db_filename(from, "main");
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        char value[64], sql[128];
        if (file != NULL && file[0] != '\0' &&
            gx_store_pragma(from, "main", names[k], value, NULL) == GX_OK && value[0] != '\0') {
            snprintf(sql, sizeof sql, "PRAGMA main.%s = %.60s", names[k], value);
            (void)sqlite3_exec(to, sql, NULL, NULL, NULL);
        }
    }
    if (is_wal(from)) {
        (void)sqlite3_exec(to, "PRAGMA main.journal_mode = wal", NULL, NULL, NULL);
    }
}

uint64_t gx_store_hash(uint64_t hash, const void *bytes, size_t count)
{
    for (size_t k = 0; k < count; k++) { // FNV-1a
        hash = (hash ^ ((const unsigned char *)bytes)[k]) * 1099511628211u;
    }
    return hash;
}

/*
** The database's file, where a commit would wait for the disk because of it; else NULL.  The
** journal's mode is not asked: PRAGMA journal_mode counts as writing, and an interrupt that met it
** would roll back the application's transaction.
*/
static sqlite3_file *durable_file(gx_store *store, const char *schema)
{
    char synchronous[64];
    sqlite3_file *file = NULL;
    if (sqlite3_stricmp(schema, "temp") == 0 ||
        gx_store_pragma(store->db, schema, "synchronous", synchronous, NULL) != GX_OK ||
        strcmp(synchronous, "0") == 0 ||
        sqlite3_file_control(store->db, schema, SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK) {
        return NULL;
    }
    return file != NULL && file->pMethods != NULL ? file : NULL;
}

bool gx_store_waits_for_disk(gx_store *store, const char *schema)
{
    return durable_file(store, schema) != NULL;
}

gx_code gx_store_settle(gx_store *store, const char *schema, gx_err *err)
{
    sqlite3_file *file = durable_file(store, schema);
    int rc = file == NULL ? SQLITE_OK : file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
    if (rc != SQLITE_OK) {
        return gx_store_fail(store->db, rc, err, "waiting for the disk of %s", schema);
    }
    return GX_OK;
}
