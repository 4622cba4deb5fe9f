/*
** Shared inside core/store*.c: the store, a schema of it, and the SQL helpers.
**
** Each of those files includes <sqlite3ext.h> before this header; the header itself shows none of
** SQLite but names of its handles.
*/
#ifndef GX_STORE_INT_H
#define GX_STORE_INT_H

#include "store.h"

struct sqlite3_stmt;
struct sqlite3_blob;

/* Statements on one schema, prepared at first use in a call. */
/* clang-format off */
#define GX_SQLS(SQL)                                                                               \
    /* left un-reset it is the read pin */                                                         \
    SQL(PIN, "SELECT value FROM main.gx_state WHERE key = 'format'")                               \
    SQL(FIND, "SELECT " GX_META_COLUMNS ", (SELECT data FROM main.gx_tile LIMIT 0) "               \
        "FROM main.gx_meta WHERE name = ?1") /* may gx_tile.data be read? */                       \
    SQL(SHOW, "SELECT " GX_META_COLUMNS " FROM main.gx_meta WHERE name = ?1")                      \
    /* of a row that may be damaged */                                                             \
    SQL(FIND_ID, "SELECT id, name FROM main.gx_meta WHERE name = ?1")                              \
    SQL(LIST, "SELECT " GX_META_COLUMNS                                                            \
        " FROM main.gx_meta WHERE name IS NOT NULL ORDER BY name")                                 \
    SQL(ALL, "SELECT " GX_META_COLUMNS " FROM main.gx_meta ORDER BY id")                           \
    SQL(TABLES, "SELECT 1 FROM main.sqlite_master WHERE name = 'gx_state'")                        \
    /* takes the write lock, changes nothing */                                                    \
    SQL(LOCK, "UPDATE main.gx_state SET value = value WHERE 0")                                    \
    /* the same with a statement journal: see store_txn.c */                                       \
    SQL(JOURNAL, "INSERT INTO main.gx_meta(id) SELECT id FROM main.gx_meta WHERE 0")               \
    SQL(GET_STATE, "SELECT value FROM main.gx_state WHERE key = ?1")                               \
    SQL(SET_STATE, "UPDATE main.gx_state SET value = ?2 WHERE key = ?1")                           \
    SQL(CREATE, "INSERT INTO main.gx_meta(id, rows, cols, dtype, tile_rows, tile_cols, "           \
        "properties, generation) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")                          \
    SQL(WRITE_TILE, "INSERT OR REPLACE INTO main.gx_tile(id, data) VALUES(?1, ?2)")                \
    /* a tile that is there, in its own pages */                                                   \
    SQL(WRITE_OVER, "UPDATE main.gx_tile SET data = ?2 WHERE id = ?1")                             \
    SQL(PATCH, "EXPLAIN UPDATE main.gx_tile SET data = ?2 WHERE id = ?1") /* see store_auth.c */   \
    SQL(SET_NAME, "UPDATE main.gx_meta SET name = ?2 WHERE id = ?1")                               \
    SQL(TOUCH, "UPDATE main.gx_meta SET generation = ?2, properties = ?3, rows = ?4, "             \
        "cols = ?5, tile_rows = ?6, tile_cols = ?7 WHERE id = ?1")                                 \
    SQL(AUX, "SELECT aux FROM main.gx_meta WHERE id = ?1")                                         \
    SQL(SET_AUX, "UPDATE main.gx_meta SET aux = ?2 WHERE id = ?1")                                 \
    SQL(DROP_TILES, "DELETE FROM main.gx_tile WHERE id BETWEEN ?1 AND ?2")                         \
    SQL(DROP_META, "DELETE FROM main.gx_meta WHERE id = ?1")                                       \
    SQL(TILES, "SELECT id, typeof(data), length(data) FROM main.gx_tile "                          \
        "WHERE id BETWEEN ?1 AND ?2 ORDER BY id")                                                  \
    /* tiles without a catalog row */                                                              \
    SQL(ORPHANS, "SELECT id >> 32, count(*) FROM main.gx_tile "                                    \
        "WHERE id >> 32 NOT IN (SELECT id FROM main.gx_meta) GROUP BY 1 ORDER BY 1")               \
    SQL(GENERATION, "SELECT generation, properties, rows, cols, tile_rows, tile_cols "             \
        "FROM main.gx_meta WHERE id = ?1")                                                         \
    SQL(UNNAMED, "SELECT 1 FROM main.gx_meta WHERE id = ?1 AND name IS NULL")                      \
    SQL(STRANGERS, "SELECT name, type FROM main.sqlite_master WHERE type <> 'table' "              \
        "AND name IN ('gx_meta', 'gx_tile', 'gx_state', 'gx_volumes', "                            \
        "'gx_extent', 'gx_label')") /* ours that are no tables */                                  \
    SQL(LOCKING, "PRAGMA main.locking_mode")                                                       \
    /* changes when another connection has committed */                                            \
    SQL(DATA_VERSION, "PRAGMA main.data_version")                                                  \
    SQL(SCHEMA_VERSION, "PRAGMA main.schema_version")                                              \
    SQL(PAGE_BYTES, "PRAGMA main.page_size")                                                       \
    SQL(SPREAD_TILES, "SELECT id, typeof(data), length(data) FROM main.gx_tile "                   \
        "WHERE id BETWEEN ?1 AND ?2 UNION ALL SELECT id, 'extent', 0 "                             \
        "FROM main.gx_extent WHERE id BETWEEN ?1 AND ?2 ORDER BY 1") /* tiles and extents */       \
    SQL(ORPHAN_EXTENTS, "SELECT id >> 32, count(*) FROM main.gx_extent e WHERE NOT EXISTS "        \
        "(SELECT 1 FROM main.gx_meta m WHERE m.id = e.id >> 32 "                                   \
        "AND m.properties & 65536) GROUP BY 1 ORDER BY 1")                                         \
    SQL(NEXT_SET, "SELECT min(set_id) FROM main.gx_extent WHERE set_id > ?1")                      \
    /* of the set that new matrices go to */                                                       \
    SQL(FILES, "SELECT count(*) FROM main.gx_volumes WHERE set_id = "                              \
        "(SELECT value FROM main.gx_state WHERE key = 'volume_set')")                              \
    SQL(EXTENTS, "SELECT id, set_id, offset, length, stamp FROM main.gx_extent "                   \
        "WHERE set_id = ?1 ORDER BY offset")                                                       \
    SQL(SET_EXTENT, "INSERT OR REPLACE INTO main.gx_extent"                                        \
        "(id, set_id, offset, length, stamp) VALUES(?1, ?2, ?3, ?4, ?5)")                          \
    SQL(DROP_EXTENTS, "DELETE FROM main.gx_extent WHERE id BETWEEN ?1 AND ?2")                     \
    SQL(LABELS, "SELECT names FROM main.gx_label WHERE id = ?1 AND generation = ?2")               \
    SQL(SET_LABELS,                                                                                \
        "INSERT OR REPLACE INTO main.gx_label(id, generation, names) VALUES(?1, ?2, ?3)")          \
    SQL(KEEP_LABELS, "UPDATE main.gx_label SET generation = ?4 "                                   \
        "WHERE id BETWEEN ?1 AND ?2 AND generation = ?3")                                          \
    SQL(DROP_LABELS, "DELETE FROM main.gx_label WHERE id BETWEEN ?1 AND ?2")
/* clang-format on */

typedef enum gx_sql {
#define GX_SQL_ENUM(ID, TEXT) GX_SQL_##ID,
    GX_SQLS(GX_SQL_ENUM)
#undef GX_SQL_ENUM
    GX_SQL_COUNT
} gx_sql;

/* Columns of GX_SQL_FIND and of a helper's look at the catalog, in this order. */
#define GX_META_COLUMNS "id, name, rows, cols, dtype, tile_rows, tile_cols, properties, generation"
enum { GX_META_COLUMN_COUNT = 9 };

/* In gx_meta.properties beside the bits of types.h: tiles may be in volumes (gx_meta.is_spread). */
#define GX_META_SPREAD ((uint32_t)1 << 16)
#define GX_META_SPARSE ((uint32_t)1 << 17) /* tiles are panels (gx_meta.is_sparse) */

#define GX_META_COMPOSITE ((uint32_t)1 << 18) /* no tiles (gx_meta.is_composite) */

enum { GX_META_DOWN_AT = 32 }; /* bits from here on: gx_meta.down_tiles */

/* Of a schema that has had a sparse matrix, a composite, a quantised one, one with down_tiles, one
   of packed bits. */
enum {
    GX_FORMAT_SPARSE = 3,
    GX_FORMAT_COMPOSITE = 4,
    GX_FORMAT_QUANTIZED = 5,
    GX_FORMAT_GROWN = 6,
    GX_FORMAT_BITS = 7
};

enum { GX_SEEN_MAX = 16 }; /* matrices of one call that gx_store_begin() can look at again */

/* A row id of gx_tile is id << 32 | tile number, and positive; a tile is one blob of SQLite. */
#define GX_ID_MAX ((int64_t)INT32_MAX)
#define GX_TILES_MAX ((int64_t)UINT32_MAX)
#define GX_TILE_BYTES_MAX ((int64_t)INT32_MAX)

/* What a call knows of one schema; freed by gx_store_release(). */
typedef struct gx_schema gx_schema;
typedef struct gx_spread gx_spread; /* its volumes, while a call writes there: store_extent.c */
struct gx_schema {
    gx_schema *next;
    char name[GX_NAME_MAX + 1];
    bool has_tables;  /* as of the latest look                           */
    bool is_pinned;   /* GX_SQL_PIN stands on its row                    */
    bool is_locked;   /* the write lock is ours until the outermost end  */
    bool was_written; /* is_locked: the application had changes in it   */
    bool may_patch;   /* the authorizer was asked, in this call         */
    bool is_followed; /* is_locked: see gx_stamp_before()               */
    struct sqlite3_stmt *stmt[GX_SQL_COUNT];
    struct sqlite3_blob *patch; /* open for writing, or NULL            */
    int64_t patch_row;          /* its row id                           */
    struct {
        int64_t id, generation;
        bool is_spread; /* which gx_volumes(0) changes, and no generation with it */
    } seen[GX_SEEN_MAX]; /* matrices this call has found             */
    int seen_count;      /* GX_SEEN_MAX + 1: more than could be kept */
    int64_t newest;      /* the largest generation found or given    */
    gx_spread *spread;   /* or NULL                                  */
    bool has_dropped_extents; /* in this call                        */
};

/* Statements on the connection. */
typedef enum gx_armed {
    GX_ARMED_RELEASE = 0,
    GX_ARMED_ROLLBACK_TO,
    GX_ARMED_ROLLBACK,
    GX_ARMED_ABORT, /* see roll_back() in store_txn.c */
    GX_ARMED_COUNT
} gx_armed;

enum {
    GX_LEVEL_MAX = 16,  /* storing calls inside storing calls: a limit so that there is one */
    GX_CREATED_MAX = 64 /* matrices created by one storing call that has no savepoint       */
};

/* One storing call: between gx_store_begin() and gx_store_end(). */
typedef struct gx_level {
    bool has_savepoint;
    bool was_autocommit; /* the savepoint began the transaction        */
    int created;         /* of gx_store.created: those of outer levels */
    int64_t last_rowid;  /* sqlite3_last_insert_rowid() of the user    */
} gx_level;

typedef struct gx_panel_list gx_panel_list; /* directories that were loaded: store_panels.c */

/* A database's file as stat() has it; of main the first two fields alone. */
typedef struct gx_file_state {
    int64_t device, number, bytes, changed_s, changed_ns;
} gx_file_state;

/* How it was when it was first met, and last; what differs is our own. */
typedef struct gx_file_record {
    uint64_t path; /* a hash; 0: none */
    gx_file_state first, last;
} gx_file_record;

enum { GX_FILES_MAX = 16 }; /* of which stamps are told: more than SQLite usually attaches */

/* A statement that has been reset and stays for the next call. */
enum { GX_SPARES_MOST = 6, GX_SPARE_NAME = 32 }; /* schemas of longer names have none */
typedef struct gx_spare {
    struct sqlite3_stmt *stmt;
    gx_sql which;
    char schema[GX_SPARE_NAME];
} gx_spare;

struct gx_store {
    struct sqlite3 *db;
    gx_mem *mem;
    gx_stats *stats; /* may be NULL */
    size_t tile_bytes;
    bool volumes_anywhere; /* volumes may have paths of their own */
    gx_code (*flush)(void *arg, gx_err *err); /* may be NULL */
    void *flush_arg;
    bool is_flushing;
    gx_store_tables_fn tables; /* may be NULL */
    void *tables_arg;
    gx_schema *schemas; /* those touched by this call */
    gx_panel_list *panels; /* of the sparse matrices that it has found */
    struct sqlite3_stmt *poll, *progress;
    char progress_fn[GX_NAME_MAX + 1]; /* of which progress is the statement */
    struct sqlite3_stmt *armed[GX_ARMED_COUNT];
    gx_level level[GX_LEVEL_MAX];
    int depth; /* levels open */
    struct {
        gx_schema *schema;
        int64_t id;
    } created[GX_CREATED_MAX]; /* to be removed on failure; with a savepoint those that fit */
    int created_count;
    char overtaken[GX_NAME_MAX + 1]; /* see gx_store_overtaken(); "": not */
    gx_hold *hold;                   /* read pins kept after calls; or NULL: store_hold.c     */
    gx_guard guard;                  /* of what follows: store_spare.c                        */
    gx_spare spare[GX_SPARES_MOST];
    int spare_count;
    bool has_committed;              /* this call has, by itself                              */
    bool is_ended;                   /* this call is, by a signal                             */
    double logged_bytes;             /* written by calls since the last checkpoint: an estimate */
    gx_file_record file[GX_FILES_MAX]; /* store_stamp.c; the oldest one makes place */
    int next_file;
};

// store.c -----------------------------------------------------------------------------------------

/* gx_code of an SQLite result code; GX_OK for OK, ROW and DONE. */
gx_code gx_store_code(int rc);

/* Record rc of db as "<format>: <SQLite's message>"; "interrupted" for an interrupt. */
gx_code gx_store_fail(struct sqlite3 *db, int rc, gx_err *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* text with every "main." replaced by the schema's quoted name; sqlite3_free(); NULL: no memory. */
char *gx_store_qualify(const char *schema, const char *text);

/* What is known of a schema that exists; made at first use in a call.  Lent. */
gx_code gx_store_schema(gx_store *store, const char *name, gx_schema **schema, gx_err *err);

/* The statement, prepared at first use in a call; whoever steps it resets it. */
gx_code gx_store_stmt(gx_store *store, gx_schema *schema, gx_sql which, struct sqlite3_stmt **stmt,
                      gx_err *err);

/* Step a statement that returns no row, and reset it.  what: "writing to main". */
gx_code gx_store_run(gx_store *store, struct sqlite3_stmt *stmt, gx_err *err, const char *what,
                     const char *schema);

/* The same of one whose first parameters are whole numbers, and it has no others. */
gx_code gx_store_run_with(gx_store *store, gx_schema *schema, gx_sql which, const int64_t *values,
                          int count, const char *what, gx_err *err);

/* The same where parameter k was bound, with SQLITE_* rc, to memory of the caller: let go of. */
gx_code gx_store_run_bound(gx_store *store, gx_schema *schema, struct sqlite3_stmt *stmt, int k,
                           int rc, gx_err *err);

/* The statement on its first row, to be reset by the caller; false: there is none, or a failure. */
bool gx_store_first_row(gx_store *store, const char *schema_name, gx_sql which,
                        struct sqlite3_stmt **stmt);

/* Prepare, step to the end, finalize: no rows wanted.  Returns SQLITE_*. */
int gx_store_exec(gx_store *store, const char *sql);

/* gx_store_exec() of text that is written for main.  Returns SQLITE_*. */
int gx_store_exec_in(gx_store *store, const char *schema, const char *text);

/* gx_state's number of a key that is there. */
gx_code gx_store_set_state(gx_store *store, gx_schema *schema, const char *key, int64_t number,
                           gx_err *err);

/* Whether the schema has gx's tables: what the connection remembers of it, which may be old. */
bool gx_store_remembers(gx_store *store, const gx_schema *schema);

/*
** Look at a schema: whether it has the tables, and if so pin it (one read transaction until
** gx_store_release()) and refuse a format that is newer than ours.
*/
gx_code gx_store_look(gx_store *store, gx_schema *schema, gx_err *err);

/* Write out pending cells (gx_store_set_flush). */
gx_code gx_store_flush(gx_store *store, gx_err *err);

/* Prepare what a rollback needs, so that it can run while an interrupt is pending. */
gx_code gx_store_arm(gx_store *store, gx_err *err);

/* GX_IO: SQLite has rolled the transaction back, or a function of the application has ended it;
** GX_INTERRUPT where an interrupt may be the reason. */
gx_code gx_store_ended(gx_store *store, gx_err *err);

/* gx_store_ended() where it has: what is stored now would be committed alone. */
gx_code gx_store_still_stores(gx_store *store, gx_err *err);

/* A function of the application has run: may the call go on storing, and end? */
gx_code gx_store_called(gx_store *store, gx_err *err);

/* Close the handle that patches, which may be none. */
void gx_store_close_patch(gx_schema *schema);

// store_open.c ------------------------------------------------------------------------------------

/* Finalize the schema's statements and close its handles: its tables change. */
void gx_store_finish_schema(gx_store *store, gx_schema *schema);

// store_spare.c -----------------------------------------------------------------------------------

/* The statement, which may be NULL, stays for a later call, or is finalized. */
void gx_store_put_by(gx_store *store, const char *schema, gx_sql which, struct sqlite3_stmt *stmt);

/* One that has stayed, the caller's from now on; NULL: there is none. */
struct sqlite3_stmt *gx_store_take_spare(gx_store *store, const char *schema, gx_sql which);

// store_hold.c ------------------------------------------------------------------------------------

/* Before something is stored: what statements have kept is let go.  Their owners stay. */
void gx_store_give_up_pins(gx_store *store);

/* The same, for good: the store closes. */
void gx_store_leave_hold(gx_store *store);

// store_auth.c ------------------------------------------------------------------------------------

/* GX_AUTH where the authorizer ignores the SELECT, which has no columns then. */
gx_code gx_store_check_select(const char *schema, struct sqlite3_stmt *stmt, gx_err *err);

/* GX_AUTH where the authorizer has the statement's column, name of table, read as NULL. */
gx_code gx_store_check_ignored(gx_store *store, const gx_schema *schema, struct sqlite3_stmt *stmt,
                               int column, const char *table, const char *name, gx_err *err);

// store_meta.c ------------------------------------------------------------------------------------

/* "A", "temp.A": how messages call a matrix.  buf is returned. */
enum { GX_LABEL_MAX = 2 * GX_NAME_MAX + 2 };
const char *gx_meta_label(const gx_meta *meta, char buf[GX_LABEL_MAX]);

/* The current row of GX_META_COLUMNS as meta, every field validated: GX_CORRUPT names the field. */
gx_code gx_store_meta(struct sqlite3_stmt *stmt, const char *schema, gx_meta *meta, gx_err *err);

/* The same, nothing checked but that names fit: for showing. */
void gx_store_meta_raw(struct sqlite3_stmt *stmt, const char *schema, gx_meta *meta);

static inline int64_t gx_tile_rowid(int64_t id, int64_t tile)
{
    return (int64_t)((uint64_t)id << 32 | (uint64_t)tile);
}

// store_labels.c ----------------------------------------------------------------------------------

/* A matrix has a new generation: its names follow. */
gx_code gx_store_keep_labels(gx_store *store, gx_schema *schema, int64_t id, int64_t before,
                             int64_t generation, gx_err *err);

/* axis -1: of both. */
gx_code gx_store_drop_labels(gx_store *store, gx_schema *schema, int64_t id, int axis, gx_err *err);

// store_panels.c ----------------------------------------------------------------------------------

/* Of a sparse matrix: meta->panels, read and checked; the store's until gx_store_release(). */
gx_code gx_store_load_panels(gx_store *store, gx_meta *meta, gx_err *err);

/* All that was loaded. */
void gx_store_forget_panels(gx_store *store);

// store_stamp.c -----------------------------------------------------------------------------------

/* Around what a storing call writes to the schema: what is kept of its file stays right. */
void gx_stamp_before(gx_store *store, gx_schema *schema);
void gx_stamp_after(gx_store *store, const gx_schema *schema);

// store_pragma.c ----------------------------------------------------------------------------------

/* FNV-1a of some bytes, going on from hash. */
#define GX_HASH_SEED 14695981039346656037u
uint64_t gx_store_hash(uint64_t hash, const void *bytes, size_t count);

/* Tiles have been written since start_ns. */
void gx_store_count_write(gx_store *store, int64_t start_ns, size_t bytes, int64_t tiles);

/* Would a commit in the schema wait for its disk? */
bool gx_store_waits_for_disk(gx_store *store, const char *schema);

/*
** What the connection has open in a schema (NULL: in any): sqlite3_txn_state(), which came with
** 3.34.  Before that, the most that may have been written: anything within the application's
** transaction, in one of our own what is locked, else what a statement that writes holds.
*/
int gx_store_txn_state(gx_store *store, const char *schema_name);

// store_txn.c -------------------------------------------------------------------------------------

/* Before a matrix is created: GX_UNSUPPORTED when too many would have to be remembered. */
gx_code gx_store_remember(gx_store *store, gx_schema *schema, int64_t id, gx_err *err);

// store_tile.c ------------------------------------------------------------------------------------

/* Open *blob on the tile, or move it there; checks its length.  *row is the row id of *blob. */
gx_code gx_store_blob(struct sqlite3 *db, const char *schema, const gx_meta *meta, int64_t tile,
                      bool is_write, struct sqlite3_blob **blob, int64_t *row, gx_err *err);

#endif
