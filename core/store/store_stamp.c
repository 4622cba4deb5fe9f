/*
** Stamps: which database a schema is, and in which state, without reading it (store.h).
**
** What is kept of a matrix from call to call, in memory or on a device, is known by a stamp and the
** matrix's (id, generation).  Others' commits change data_version, a backup into the connection
** itself schema_version, another file under the name its number.  None of these tells a file that
** was detached, overwritten in place with another database of the same history, and attached again:
** its ids and generations may be the same, and data_version begins anew.  So of an attached file
** length and time of change count, too.
**
** Our own commits change these as well, and what is kept stays right.  A file is therefore known by
** how it was first met: when a storing call has taken the lock and finds the file as the last stamp
** saw it, how the call leaves it is the same state.  What the application itself writes to an
** attached file ends what is kept of it.  Main cannot be detached, and needs none of this.
*/
#include <sqlite3ext.h>

#include "store_int.h"

#include <string.h>
#include <sys/stat.h>

SQLITE_EXTENSION_INIT3

/* True when nothing that the connection sees in the schema is still to be committed. */
static bool is_committed(gx_store *store, const char *schema)
{
    if (store->depth > 0) { // our own savepoint, begun where nothing was pending
        return store->depth == 1 && store->level[0].has_savepoint && store->level[0].was_autocommit;
    }
    return sqlite3_get_autocommit(store->db) != 0 &&
           gx_store_txn_state(store, schema) != SQLITE_TXN_WRITE;
}

/* The file of a schema, and how it is now; false: it has none, or it cannot be said. */
static bool look(gx_store *store, const char *schema, uint64_t *path, gx_file_state *state)
{
    const char *file = sqlite3_db_filename(store->db, schema);
    struct stat about;
    if (file == NULL || *file == '\0' || stat(file, &about) != 0) {
        return false;
    }
    *path = gx_store_hash(GX_HASH_SEED, file, strlen(file));
    *state = (gx_file_state){.device = (int64_t)about.st_dev, .number = (int64_t)about.st_ino};
    if (sqlite3_stricmp(schema, "main") != 0) {
        state->bytes = about.st_size;
        state->changed_s = about.st_ctim.tv_sec;
        state->changed_ns = about.st_ctim.tv_nsec;
    }
    return true;
}

static bool is_same(const gx_file_state *a, const gx_file_state *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* What is known of the file; NULL: nothing yet. */
static gx_file_record *find(gx_store *store, uint64_t path)
{
    for (int k = 0; k < GX_FILES_MAX; k++) {
        if (store->file[k].path == path) {
            return &store->file[k];
        }
    }
    return NULL;
}

static bool ask(gx_store *store, const char *name, gx_sql which, int64_t *number)
{
    sqlite3_stmt *stmt;
    if (!gx_store_first_row(store, name, which, &stmt)) {
        return false;
    }
    *number = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return true;
}

uint64_t gx_store_stamp(gx_store *store, const char *schema)
{
    int64_t version, schema_version;
    uint64_t path;
    gx_file_state now;
    if (!is_committed(store, schema) ||
        !ask(store, schema, GX_SQL_DATA_VERSION, &version) ||
        !ask(store, schema, GX_SQL_SCHEMA_VERSION, &schema_version) ||
        !look(store, schema, &path, &now)) {
        return 0;
    }
    gx_file_record *record = find(store, path);
    if (record == NULL) {
        record = &store->file[store->next_file++ % GX_FILES_MAX];
        record->path = 0;
    }
    if (record->path == 0 || !is_same(&record->last, &now)) {
        *record = (gx_file_record){.path = path, .first = now, .last = now};
    }
    uint64_t which = path >> GX_STAMP_STATE_BITS << GX_STAMP_STATE_BITS;
    uint64_t hash = gx_store_hash(path, &version, sizeof version);
    hash = gx_store_hash(hash, &schema_version, sizeof schema_version);
    hash = gx_store_hash(hash, &record->first, sizeof record->first);
    uint64_t state = hash % ((uint64_t)1 << GX_STAMP_STATE_BITS);
    return which | (state == 0 ? 1 : state);
}

void gx_stamp_before(gx_store *store, gx_schema *schema)
{
    uint64_t path;
    gx_file_state now;
    const gx_file_record *record =
        look(store, schema->name, &path, &now) ? find(store, path) : NULL;
    schema->is_followed = record != NULL && is_same(&record->last, &now);
}

void gx_stamp_after(gx_store *store, const gx_schema *schema)
{
    uint64_t path;
    gx_file_state now;
    gx_file_record *record = schema->is_followed && look(store, schema->name, &path, &now)
                                 ? find(store, path)
                                 : NULL;
    if (record != NULL) {
        record->last = now;
    }
}
