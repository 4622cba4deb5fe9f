/*
** The matrix store: reading tiles, on the caller's connection or on a helper's own.
**
** sqlite3_blob_read() copies from database pages straight into the destination; parallel
** connections do that in parallel.  A helper is a second connection to the same file through the
** same VFS, or through ours on it, which is the same and lets large pieces of tiles be read past
** SQLite's pages (store_chain.c):
**
**     gx_reader_open()    caller's thread: asks where it leads; gx_reader_another() asks nobody
**     gx_reader_begin()   any one thread: opens it the first time (read-only, no mutex, a small
**                         page cache), begins a read transaction and looks at the catalog: the
**                         matrices must be there in the caller's generation.  Uncommitted work of
**                         the caller, or another file in the place of ours, is a difference
**     gx_reader_read()    the same thread
**     gx_reader_end()     no lock is left; begin again looks again
**     gx_reader_close()
**
** Led readers.  What is read straight from the file needs SQLite only to find a tile.  So a reader
** made like another one that has begun does without a connection, which takes 0.3 ms of a lock that
** the whole process shares: that other one, its guide, whose transaction holds the file still for
** both, leads it to its tiles, one reader at a time, and reads a few small things for it.  When
** there is more of that it opens its own, and where that cannot be the guide goes on.
**
** A helper never waits: where a lock is in its way it gives up at once (GX_UNSUPPORTED), and the
** caller reads through its own connection, which is always right.
**
** In rollback-journal mode a helper's shared lock stops the writer from spilling its cache or
** committing, and a writer that has spilled stops helpers from beginning: whoever streams ends the
** helpers' transactions before it writes more than the page cache holds
** (gx_reader_excludes_writer()).  What fills the cache before, the application's own changes above
** all, is not known: the writer, who has to spill at the next page it reads, would wait for the
** helpers at every page, each time as long as the busy timeout.  So there are no helpers then.  In
** WAL mode readers and the writer do not meet.
**
** Handles.  A tile is a chain of pages, and SQLite finds its way to the middle of one from its
** beginning, once for a handle that stays there.  A reader has HANDLES of them, one a matrix, so
** that tiles of several can be read in turn, piece by piece.
**
** Memory: one page cache a helper, SQLite's (helper_setup); the reader itself from the governor.
*/
#include <sqlite3ext.h>

#include "../base/thread.h"
#include "chain_int.h"
#include "volume_int.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum { HANDLES = 12 }; /* as many as a fused program has inputs */
enum { GUIDED = 4 };   /* pieces that a guide reads for another one before that opens its own */

typedef struct handle {
    sqlite3_blob *blob;           /* NULL, or open on row                              */
    int64_t row, id;              /* of the tile, of its matrix                        */
    int64_t used;                 /* when: by number                                   */
    char schema[GX_NAME_MAX + 1]; /* a helper's is always main               */
} handle;

struct gx_reader {
    gx_store *store;
    sqlite3 *db; /* the store's, or the helper's own: NULL until it begins  */
    bool is_own; /* the store's connection                                   */
    bool is_led; /* by the guide, whose lock and connection find its tiles   */
    gx_reader *guide;                     /* helper: the one that it was made like, or NULL */
    pthread_mutex_t finding;              /* guards db and handles, where others are led    */
    const gx_meta *meta[GX_READER_METAS]; /* led: what it reads, so many ...                */
    int metas, guided;                    /* ... and pieces that the guide read for it      */
    handle handle[HANDLES];
    int64_t uses;
    const char *file;         /* helper: what it opens, the store's text     */
    sqlite3_vfs *vfs;         /* ... by this; NULL: SQLite's own choice      */
    int64_t map_bytes;        /* ... and how much of it is mapped            */
    sqlite3_stmt *find;       /* helper: id -> catalog row                   */
    gx_extent_reader extents; /* of tiles in volumes                         */
    gx_chains chains;         /* helper: tiles read past SQLite              */
    int64_t latest;           /* row that was read so                        */
    bool is_begun;            /* helper: a read transaction is open          */
    bool is_wal;              /* helper: as of gx_reader_begin()             */
};

/*
** Helpers.  A page passes through the cache only once, so it need not hold more than the b-tree's
** inner pages: 4 of the largest ones.  They stay in a core's own cache; memory that is fresh for
** each connection is dear: a virtual machine takes 0.3 ms for the first touch of a MiB.
*/
static const char helper_setup[] = "PRAGMA query_only = 1; PRAGMA cache_size = -256";

static const char helper_find[] = "SELECT " GX_META_COLUMNS " FROM main.gx_meta WHERE id = ?1";

// Who may have helpers ----------------------------------------------------------------------------

/* One text of a PRAGMA without a value: compared with expected, without case. */
static bool pragma_is(gx_store *store, const char *schema_name, gx_sql which, const char *expected)
{
    sqlite3_stmt *stmt;
    if (!gx_store_first_row(store, schema_name, which, &stmt)) {
        return false;
    }
    const char *text = (const char *)sqlite3_column_text(stmt, 0);
    bool is_equal = text != NULL && sqlite3_stricmp(text, expected) == 0;
    sqlite3_reset(stmt);
    return is_equal;
}

/*
** Whether reading on the caller's connection may have to write changed pages out first, for which
** helpers would be in its way: when it has changes of the application, or room for few pages.
*/
static bool may_spill(gx_store *store, const char *schema_name)
{
    const int64_t OWN_PAGES = 16; // a call changes fewer until its first tile, tables made included
    gx_schema *schema;
    char text[64];
    if (gx_store_txn_state(store, schema_name) != SQLITE_TXN_WRITE ||
        gx_store_is_wal(store, schema_name)) {
        return false;
    }
    if (gx_store_schema(store, schema_name, &schema, NULL) != GX_OK || !schema->is_locked ||
        schema->was_written ||
        gx_store_pragma(store->db, schema_name, "cache_size", text, NULL) != GX_OK) {
        return true;
    }
    long long size = atoll(text); // pages; or negative: KiB
    int64_t page = (int64_t)gx_store_page_bytes(store, schema_name);
    return (size >= 0 ? size : -size * 1024 / page) < OWN_PAGES;
}

const char *gx_reader_refusal(gx_store *store, const char *schema)
{
    if (sqlite3_threadsafe() == 0) {
        return "single-threaded SQLite";
    }
    if (sqlite3_stricmp(schema, "temp") == 0) {
        return "temporary database";
    }
    const char *file = sqlite3_db_filename(store->db, schema);
    if (file == NULL || file[0] == '\0') {
        return "in-memory database";
    }
    if (strncmp(file, "file:", 5) == 0) {
        return "file name that reads as a URI";
    }
    if (sqlite3_uri_boolean(file, "nolock", 0)) {
        return "database opened without locks";
    }
    sqlite3_vfs *vfs = NULL;
    if (sqlite3_file_control(store->db, schema, SQLITE_FCNTL_VFS_POINTER, &vfs) != SQLITE_OK ||
        vfs == NULL || sqlite3_vfs_find(vfs->zName) != vfs) {
        return "VFS that is not registered";
    }
    int has_moved = 0;
    if (sqlite3_file_control(store->db, schema, SQLITE_FCNTL_HAS_MOVED, &has_moved) == SQLITE_OK &&
        has_moved) {
        return "database file was moved";
    }
    if (pragma_is(store, schema, GX_SQL_LOCKING, "exclusive")) {
        return "exclusive locking mode";
    }
    if (may_spill(store, schema)) {
        return "uncommitted changes and a rollback journal";
    }
    return NULL;
}

// Open and close ----------------------------------------------------------------------------------

size_t gx_reader_bytes(void)
{
    return sizeof(gx_reader);
}

static gx_code make_reader(gx_store *store, gx_reader **reader, gx_err *err)
{
    *reader = NULL;
    void *memory;
    GX_TRY(gx_mem_calloc(store->mem, gx_reader_bytes(), "reader", &memory, err));
    *reader = memory;
    (*reader)->store = store;
    (*reader)->extents.store = store;
    (*reader)->chains.mem = store->mem;
    pthread_mutex_init(&(*reader)->finding, NULL);
    return GX_OK;
}

gx_code gx_reader_own(gx_store *store, gx_reader **reader, gx_err *err)
{
    GX_TRY(make_reader(store, reader, err));
    (*reader)->db = store->db;
    (*reader)->is_own = true;
    (*reader)->extents.db = store->db;
    return GX_OK;
}

/*
** A helper maps as much of the file as the application lets its own connection map: PRAGMA
** mmap_size saves a copy of every page, and whoever sets it has accepted that a file cut short by
** somebody else is then a SIGBUS.  SQLite's default is none.
*/
static int64_t mapped_bytes(gx_store *store, const char *schema)
{
    char text[64];
    return gx_store_pragma(store->db, schema, "mmap_size", text, NULL) == GX_OK ? atoll(text) : 0;
}

gx_code gx_reader_open(gx_store *store, const char *schema, gx_reader **reader, gx_err *err)
{
    *reader = NULL;
    const char *refusal = gx_reader_refusal(store, schema);
    if (refusal != NULL) {
        return gx_fail(err, GX_UNSUPPORTED, "%s", refusal);
    }
    GX_TRY(make_reader(store, reader, err));
    (*reader)->file = sqlite3_db_filename(store->db, schema);
    (void)sqlite3_file_control(store->db, schema, SQLITE_FCNTL_VFS_POINTER, &(*reader)->vfs);
    (*reader)->map_bytes = mapped_bytes(store, schema);
    (*reader)->extents.is_snapshot = true;
    return GX_OK;
}

gx_code gx_reader_another(gx_reader *reader, gx_reader **another, gx_err *err)
{
    assert(!reader->is_own);
    GX_TRY(make_reader(reader->store, another, err));
    (*another)->guide = reader;
    (*another)->file = reader->file;
    (*another)->vfs = reader->vfs;
    (*another)->map_bytes = reader->map_bytes;
    (*another)->extents.is_snapshot = true;
    return GX_OK;
}

void gx_reader_close(gx_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    gx_reader_end(reader);
    gx_extent_reader_close(&reader->extents);
    if (!reader->is_own) {
        sqlite3_finalize(reader->find);
        sqlite3_close(reader->db);
    }
    pthread_mutex_destroy(&reader->finding);
    gx_mem_free(reader->store->mem, reader);
}

// The helper's transaction ------------------------------------------------------------------------

static bool is_same(const gx_meta *a, const gx_meta *b)
{
    return a->id == b->id && a->generation == b->generation && a->rows == b->rows &&
           a->cols == b->cols && a->dtype == b->dtype && a->tile_rows == b->tile_rows &&
           a->tile_cols == b->tile_cols;
}

static gx_code compare(gx_reader *reader, const gx_meta *meta, gx_err *err)
{
    char label[GX_LABEL_MAX];
    gx_meta seen;
    sqlite3_bind_int64(reader->find, 1, meta->id);
    int rc = sqlite3_step(reader->find);
    bool is_equal = rc == SQLITE_ROW &&
                    gx_store_meta(reader->find, meta->schema, &seen, NULL) == GX_OK &&
                    is_same(&seen, meta);
    gx_code code = GX_OK;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        code = gx_fail(err, GX_UNSUPPORTED, "%s", sqlite3_errmsg(reader->db));
    } else if (!is_equal) {
        code = gx_fail(err, GX_UNSUPPORTED, "%s has changes that are not committed",
                       gx_meta_label(meta, label));
    }
    sqlite3_reset(reader->find);
    return code;
}

/*
** Asked on the helper's connection: PRAGMA journal_mode counts as writing, so an interrupt that
** meets it on the caller's would roll back the caller's transaction.
*/
static bool is_in_wal_mode(sqlite3 *db)
{
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(db, "PRAGMA main.journal_mode", -1, &stmt, NULL) != SQLITE_OK) {
        return false;
    }
    const char *mode = NULL;
    if (sqlite3_step(stmt) == SQLITE_ROW) {
        mode = (const char *)sqlite3_column_text(stmt, 0);
    }
    bool is_wal = mode != NULL && sqlite3_stricmp(mode, "wal") == 0;
    sqlite3_finalize(stmt);
    return is_wal;
}

bool gx_reader_excludes_writer(const gx_reader *reader)
{
    return !reader->is_own && !reader->is_wal;
}

/* A helper's connection, on the thread that will use it: nothing of the store's is asked. */
static gx_code connect(gx_reader *reader, gx_err *err)
{
    char map[64];
    snprintf(map, sizeof map, "PRAGMA mmap_size = %lld", (long long)reader->map_bytes);
    const char *vfs = reader->map_bytes > 0 ? NULL : gx_vfs_over(reader->vfs);
    if (vfs == NULL && reader->vfs != NULL) {
        vfs = reader->vfs->zName;
    }
    int rc = sqlite3_open_v2(
        reader->file, &reader->db,
        SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, vfs);
    if (rc == SQLITE_OK) {
        rc = sqlite3_exec(reader->db, helper_setup, NULL, NULL, NULL);
    }
    if (rc == SQLITE_OK && reader->map_bytes > 0) {
        rc = sqlite3_exec(reader->db, map, NULL, NULL, NULL);
    }
    if (rc == SQLITE_OK) { // in WAL mode the last one out would write the log back: not ours to do
        rc = sqlite3_db_config(reader->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    }
    reader->extents.db = reader->db;
    if (rc == SQLITE_OK) {
        return GX_OK;
    }
    if (rc == SQLITE_NOMEM || reader->db == NULL) {
        gx_fail_nomem(err, 0, "reader connection");
    } else {
        gx_fail(err, GX_UNSUPPORTED, "second connection: %s", sqlite3_errmsg(reader->db));
    }
    sqlite3_close(reader->db);
    reader->db = reader->extents.db = NULL;
    return err->code;
}

/* Is a tile long enough to look for its pages? */
static bool is_worth_it(size_t tile_bytes, size_t page_bytes)
{
    const size_t LEAST_TILE = 256 << 10;
    return tile_bytes >= LEAST_TILE + 4 * page_bytes;
}

/* Will most of what is read of these matrices be read straight from the file? */
static bool is_for_guide(const gx_reader *guide, const gx_meta *const *metas, int count)
{
    bool has_large = false, has_spread = count > GX_READER_METAS;
    for (int i = 0; guide != NULL && i < count; i++) {
        has_spread |= metas[i]->is_spread;
        has_large |= is_worth_it(gx_meta_tile_bytes(metas[i], 0), guide->chains.page_bytes);
    }
    return has_large && !has_spread && guide->is_begun && guide->chains.page_bytes > 0;
}

/* A connection in a transaction that sees what the caller sees. */
static gx_code begin_own(gx_reader *reader, const gx_meta *const *metas, int count, gx_err *err)
{
    if (reader->db == NULL) {
        GX_TRY(connect(reader, err));
    }
    int rc = sqlite3_exec(reader->db, "BEGIN", NULL, NULL, NULL);
    if (rc == SQLITE_OK && reader->find == NULL) {
        rc = sqlite3_prepare_v2(reader->db, helper_find, -1, &reader->find, NULL);
    }
    gx_code code = GX_OK;
    if (rc != SQLITE_OK) {
        code = gx_fail(err, GX_UNSUPPORTED, "%s", sqlite3_errmsg(reader->db));
    }
    reader->is_begun = true;
    reader->is_wal = is_in_wal_mode(reader->db);
    for (int i = 0; i < count && code == GX_OK; i++) {
        code = compare(reader, metas[i], err);
    }
    if (code != GX_OK) {
        gx_reader_end(reader);
    } else if (count > 0 && reader->map_bytes == 0) {
        gx_chains_begin(&reader->chains, reader->db, reader->is_wal);
    }
    return code;
}

gx_code gx_reader_begin(gx_reader *reader, const gx_meta *const *metas, int count, gx_err *err)
{
    if (reader->is_own || reader->is_begun) {
        return GX_OK;
    }
    reader->is_led = is_for_guide(reader->guide, metas, count);
    if (!reader->is_led) {
        return begin_own(reader, metas, count, err);
    }
    gx_chains_join(&reader->chains, &reader->guide->chains);
    memcpy(reader->meta, metas, (size_t)count * sizeof *metas);
    reader->metas = count;
    reader->guided = 0;
    reader->is_begun = true;
    return GX_OK;
}

/*
** A led reader gets a connection of its own, which has to see what the guide sees: in WAL mode
** others may have written since.  false: it could not, and is led as before.
*/
static bool leave_guide(gx_reader *reader)
{
    gx_err ignored = {0};
    if (reader->is_led) {
        gx_chains_end(&reader->chains);
        reader->is_led = reader->is_begun = false;
        if (begin_own(reader, reader->meta, reader->metas, &ignored) != GX_OK) {
            gx_chains_join(&reader->chains, &reader->guide->chains);
            reader->is_led = reader->is_begun = true;
        }
    }
    return !reader->is_led;
}

void gx_reader_end(gx_reader *reader)
{
    for (int k = 0; k < HANDLES; k++) {
        sqlite3_blob_close(reader->handle[k].blob);
        reader->handle[k].blob = NULL;
    }
    gx_extent_reader_reset(&reader->extents);
    gx_chains_end(&reader->chains);
    if (!reader->is_own && reader->is_begun) {
        reader->is_begun = false;
        if (reader->find != NULL) {
            sqlite3_reset(reader->find);
        }
        if (!reader->is_led) {
            (void)sqlite3_exec(reader->db, "ROLLBACK", NULL, NULL, NULL);
        }
        reader->is_led = false;
    }
}

// Reading -----------------------------------------------------------------------------------------

static void count_read(gx_reader *reader, int64_t start_ns, size_t bytes, bool is_new_tile)
{
    gx_stats *stats = reader->store->stats;
    gx_stats_add(stats, GX_STAT_BYTES_READ, (int64_t)bytes);
    gx_stats_add(stats, GX_STAT_TILES_READ, is_new_tile);
    gx_stats_add(stats, GX_STAT_HELPER_READS, is_new_tile && !reader->is_own);
    gx_stats_add(stats, GX_STAT_READ_NS, gx_now_ns() - start_ns);
}

/* The matrix's handle, else one that is not open, else the one not used for longest. */
static handle *handle_of(gx_reader *reader, const gx_meta *meta)
{
    handle *best = &reader->handle[0];
    for (int k = 0; k < HANDLES; k++) {
        handle *h = &reader->handle[k];
        if (h->blob != NULL && h->id == meta->id &&
            (!reader->is_own || sqlite3_stricmp(h->schema, meta->schema) == 0)) {
            best = h;
            break;
        }
        if (best->blob != NULL && (h->blob == NULL || h->used < best->used)) {
            best = h;
        }
    }
    best->used = ++reader->uses;
    return best;
}

static gx_code move(gx_reader *reader, handle *h, const gx_meta *meta, int64_t tile, gx_err *err)
{
    const char *schema = reader->is_own ? meta->schema : "main";
    if (h->blob != NULL && sqlite3_stricmp(h->schema, schema) != 0) {
        sqlite3_blob_close(h->blob);
        h->blob = NULL;
    }
    snprintf(h->schema, sizeof h->schema, "%s", schema);
    h->id = meta->id;
    return gx_store_blob(reader->db, schema, meta, tile, false, &h->blob, &h->row, err);
}

/* Where the tile has an extent.  *found false: it has none. */
static gx_code read_extent(gx_reader *reader, const gx_meta *meta, int64_t tile, size_t offset,
                           size_t bytes, void *dst, bool *found, gx_err *err)
{
    int64_t start_ns = gx_now_ns();
    bool is_here = reader->extents.row == gx_tile_rowid(meta->id, tile);
    GX_TRY(gx_extent_read(&reader->extents, reader->is_own ? meta->schema : "main", meta, tile,
                          offset, bytes, dst, found, err));
    if (*found) {
        count_read(reader, start_ns, bytes, !is_here);
    }
    return GX_OK;
}

static bool is_on(const gx_reader *reader, const handle *h, const gx_meta *meta, int64_t tile)
{
    return h->blob != NULL && h->id == meta->id && h->row == gx_tile_rowid(meta->id, tile) &&
           (!reader->is_own || sqlite3_stricmp(h->schema, meta->schema) == 0);
}

// Straight from the file --------------------------------------------------------------------------

/* Whose connection finds its tiles. */
static gx_reader *finder_of(gx_reader *reader)
{
    return reader->is_led ? reader->guide : reader;
}

/*
** The pages of a tile, and what the b-tree's own page has of the columns: c is what is left of
** them, *rest what is left of the column before that.  NULL: not known, or not read this way.
*/
static gx_chain *find_tile(gx_reader *reader, const gx_meta *meta, int64_t tile, gx_columns *c,
                           gx_columns *rest)
{
    gx_reader *guide = finder_of(reader);
    handle *h = handle_of(guide, meta);
    if (!is_on(guide, h, meta, tile) && move(guide, h, meta, tile, NULL) != GX_OK) {
        return NULL; // said again by who asks SQLite
    }
    gx_chain *chain = gx_chain_find(&reader->chains, h->blob, gx_tile_rowid(meta->id, tile));
    for (; c->count > 0 && c->offset < chain->start; c->count--) {
        size_t here = gx_min(c->bytes, chain->start - c->offset);
        if (sqlite3_blob_read(h->blob, c->dst, (int)here, (int)c->offset) != SQLITE_OK) {
            return NULL;
        }
        *rest = (gx_columns){.offset = chain->start,
                             .bytes = c->bytes - here,
                             .count = 1,
                             .dst = (char *)c->dst + here};
        c->offset += c->step;
        c->dst = (char *)c->dst + c->dst_step;
    }
    return chain->start > 0 ? chain : NULL;
}

/* *is_new: the tile was looked for. */
static bool read_chain(gx_reader *reader, const gx_meta *meta, int64_t tile, gx_columns c,
                       bool *is_new)
{
    gx_columns rest = {.bytes = 0}, whole = c;
    gx_chain *chain = gx_chain_known(&reader->chains, gx_tile_rowid(meta->id, tile));
    *is_new = chain == NULL || c.offset < chain->start;
    if (*is_new) {
        gx_reader *guide = finder_of(reader);
        pthread_mutex_lock(&guide->finding);
        chain = find_tile(reader, meta, tile, &c, &rest);
        pthread_mutex_unlock(&guide->finding);
    }
    if (chain != NULL && chain->start > 0) {
        gx_chain_ahead(&reader->chains, chain, &whole, gx_meta_tiles(meta) - 1 - tile);
    }
    return chain != NULL && chain->start > 0 &&
           (rest.bytes == 0 || gx_chain_read(&reader->chains, chain, &rest)) &&
           (c.count == 0 || gx_chain_read(&reader->chains, chain, &c));
}

/* False: nothing of it counts as read. */
static bool read_straight(gx_reader *reader, const gx_meta *meta, int64_t tile,
                          const gx_columns *columns)
{
    const size_t LEAST = 32 << 10; // less is not worth the calls
    size_t bytes = columns->bytes * (size_t)columns->count;
    size_t span = (size_t)(columns->count - 1) * columns->step + columns->bytes;
    if (reader->chains.page_bytes == 0 || span < LEAST ||
        !is_worth_it(gx_meta_tile_bytes(meta, tile), reader->chains.page_bytes)) {
        return false;
    }
    bool is_looked_for;
    int64_t start_ns = gx_now_ns(), row = gx_tile_rowid(meta->id, tile);
    bool is_read = read_chain(reader, meta, tile, *columns, &is_looked_for);
    if (is_read) {
        bool is_new = reader->latest != row && (is_looked_for || columns->offset == 0);
        reader->latest = row;
        count_read(reader, start_ns, bytes, is_new);
    }
    return is_read;
}

/* The same of a tile that is in volumes; false where it has come home. */
static bool read_spread(gx_reader *reader, const gx_meta *meta, int64_t tile, const gx_columns *c)
{
    gx_err ignored = {0};
    int64_t start_ns = gx_now_ns();
    bool found = reader->extents.is_snapshot;
    bool is_here = reader->extents.row == gx_tile_rowid(meta->id, tile);
    for (int64_t j = 0; j < c->count && found; j++) {
        found = gx_extent_read(&reader->extents, "main", meta, tile,
                               c->offset + (size_t)j * c->step, c->bytes,
                               (char *)c->dst + (size_t)j * c->dst_step, &found,
                               &ignored) == GX_OK &&
                found;
    }
    if (found) {
        count_read(reader, start_ns, c->bytes * (size_t)c->count, !is_here && c->offset == 0);
    }
    return found;
}

bool gx_reader_columns(gx_reader *reader, const gx_meta *meta, int64_t tile,
                       const gx_columns *columns)
{
    const size_t LEAST_RUN = 1 << 10, FAR = 8 << 10; // else better cut out of a buffer
    assert(tile >= 0 && tile < gx_meta_tiles(meta) && columns->count > 0);
    assert(columns->offset + (size_t)(columns->count - 1) * columns->step + columns->bytes <=
           gx_meta_tile_bytes(meta, tile));
    if (meta->scratch != NULL) {
        return gx_scratch_read(meta, tile, columns, NULL) == GX_OK;
    }
    return (columns->bytes >= LEAST_RUN || columns->step >= FAR) &&
           ((meta->is_spread && leave_guide(reader) &&
             read_spread(reader, meta, tile, columns)) ||
            read_straight(reader, meta, tile, columns));
}

bool gx_reader_is_random(gx_store *store, const gx_meta *meta)
{
    sqlite3_vfs *vfs = NULL;
    int reserved = -1; // asked, not set
    if (meta->scratch != NULL) {
        return true;
    }
    if (meta->is_sparse || gx_store_is_wal(store, meta->schema) ||
        gx_reader_refusal(store, meta->schema) != NULL) {
        return false;
    }
    if (meta->is_spread) {
        return true;
    }
    size_t page_bytes = gx_store_page_bytes(store, meta->schema);
    return is_worth_it(gx_meta_tile_bytes(meta, 0), page_bytes) &&
           sqlite3_file_control(store->db, meta->schema, SQLITE_FCNTL_VFS_POINTER, &vfs) ==
               SQLITE_OK &&
           gx_vfs_over(vfs) != NULL &&
           sqlite3_file_control(store->db, meta->schema, SQLITE_FCNTL_RESERVE_BYTES, &reserved) ==
               SQLITE_OK &&
           reserved == 0 && mapped_bytes(store, meta->schema) == 0;
}

// By SQLite ---------------------------------------------------------------------------------------

static gx_code read_by_sqlite(gx_reader *reader, const gx_meta *meta, int64_t tile, size_t offset,
                              size_t bytes, void *dst, gx_err *err)
{
    int64_t start_ns = gx_now_ns();
    handle *h = handle_of(reader, meta);
    bool is_here = is_on(reader, h, meta, tile);
    int rc = SQLITE_ABORT;
    if (is_here) {
        rc = sqlite3_blob_read(h->blob, dst, (int)bytes, (int)offset);
    }
    if ((rc & 0xff) == SQLITE_ABORT) { // another tile, or the row was replaced under the handle
        GX_TRY(move(reader, h, meta, tile, err));
        rc = sqlite3_blob_read(h->blob, dst, (int)bytes, (int)offset);
    }
    if (rc != SQLITE_OK) {
        char label[GX_LABEL_MAX];
        return gx_store_fail(reader->db, rc, err, "tile %lld of %s", (long long)tile,
                             gx_meta_label(meta, label));
    }
    count_read(reader, start_ns, bytes, !is_here);
    return GX_OK;
}

/* The tile is in a volume, or in the database; its reader has a connection. */
static gx_code read_anyhow(gx_reader *reader, const gx_meta *meta, int64_t tile, size_t offset,
                           size_t bytes, void *dst, gx_err *err)
{
    bool found = false;
    if (meta->is_spread) {
        GX_TRY(read_extent(reader, meta, tile, offset, bytes, dst, &found, err));
    }
    return found ? GX_OK : read_by_sqlite(reader, meta, tile, offset, bytes, dst, err);
}

gx_code gx_reader_read(gx_reader *reader, const gx_meta *meta, int64_t tile, size_t offset,
                       size_t bytes, void *dst, gx_err *err)
{
    assert(tile >= 0 && tile < gx_meta_tiles(meta));
    assert(offset + bytes <= gx_meta_tile_bytes(meta, tile));
    const gx_columns all = {.offset = offset, .bytes = bytes, .count = 1, .dst = dst};
    bool found = false;
    if (meta->scratch != NULL) {
        return gx_scratch_read(meta, tile, &all, err);
    }
    if (meta->is_spread && leave_guide(reader)) {
        GX_TRY(read_extent(reader, meta, tile, offset, bytes, dst, &found, err));
    }
    if (found || read_straight(reader, meta, tile, &all)) {
        return GX_OK;
    }
    bool is_alone = !reader->is_led || (++reader->guided > GUIDED && leave_guide(reader));
    gx_reader *guide = is_alone ? reader : reader->guide;
    pthread_mutex_lock(&guide->finding);
    gx_code code = guide == reader
                       ? read_by_sqlite(reader, meta, tile, offset, bytes, dst, err)
                       : read_anyhow(guide, meta, tile, offset, bytes, dst, err);
    pthread_mutex_unlock(&guide->finding);
    return code;
}
