/*
** The matrix store: catalog and tiles in ordinary tables of an ordinary SQLite database.
**
** All SQL text of gx lives in core/store*.c; this header shows none of SQLite but its handle's
** name.
**
** Tables (one set per schema: main, temp, attached; made on first store, sql/schema.sql comments
** each column):
**
**   gx        the catalog virtual table (ext/vtab_catalog.c), which owns the next three as shadow
**             tables; not in temp, where it would hide main's in queries that say just gx
**   gx_meta   one row a matrix; name is NULL while the matrix is being written
**   gx_tile   id = matrix id << 32 | tile number, data = the tile's elements
**   gx_state  key/value: format version, next matrix id, next generation
**
** Tile number = tile column * tiles per column + tile row (column-major, like the elements); of a
** matrix that has grown gx_meta_tile() says it.  A tile holds its elements column-major,
** little-endian; edge tiles hold just what they need (leading
** dimension = the tile's own number of rows).  docs/format.md is the contract.
**
** Matrix ids and generations are never used twice in one database file, so (id, generation) names
** one state of one matrix for ever.
*/
#ifndef GX_STORE_H
#define GX_STORE_H

#include "../base/csr.h"
#include "../base/dtype.h"
#include "../base/err.h"
#include "../base/events.h"
#include "../base/mem.h"
#include "../base/stats.h"
#include "../base/types.h"

struct sqlite3;
struct sqlite3_stmt;
typedef struct gx_store gx_store;

enum {
    GX_NAME_MAX = 255,    /* bytes of a matrix name or schema name, without NUL */
    GX_FORMAT_VERSION = 7 /* gx_state 'format'; newer ones are refused in words */
};

/*
** The panels of a stored sparse matrix, which are its tiles, in ascending order of their rows: the
** directory that stands in gx_meta.aux (docs/format.md).
*/
typedef struct gx_panel_place {
    int64_t end;     /* the row behind its last one          */
    int64_t entries; /* in it                                */
} gx_panel_place;

typedef struct gx_panels {
    int64_t count;
    int64_t entries; /* of all                               */
    gx_panel_place *place;
} gx_panels;

/* One catalog row. */
typedef struct gx_scratch gx_scratch;

typedef struct gx_meta {
    char schema[GX_NAME_MAX + 1]; /* "main", "temp", or an attached database's name */
    char name[GX_NAME_MAX + 1];   /* without schema; "": none                       */
    int64_t id;                   /* 1 .. 2^31-1                                    */
    int64_t rows, cols;           /* elements                                       */
    gx_dtype dtype;
    int64_t tile_rows, tile_cols; /* elements of a full tile, >= 1                  */
    int64_t down_tiles; /* tile rows whose tiles are numbered down the columns; 0: all are */
    uint32_t properties;          /* GX_PROP_ bits                                  */
    int64_t generation;           /* changes with every write                       */
    bool is_spread;               /* tiles may be in volumes                        */
    bool is_over;                 /* being written over the tiles of an older one    */
    bool is_sparse;               /* tiles are panels: csr.h                        */
    bool is_composite;            /* no tiles, a layout: mat/composite.h            */
    gx_scratch *scratch;          /* an intermediate in a file of its own, which no table knows */
    const gx_panels *panels;      /* is_sparse: of the store's as long as the call lives, or of
                                     who writes the matrix; NULL in lists               */
} gx_meta;

/* What its elements are computed as; of a sparse matrix or a factorisation also what they are. */
static inline gx_number gx_meta_number(const gx_meta *meta)
{
    return gx_dtype_number(meta->dtype);
}

/*
** A quantised matrix (mat/quantized.h) is stored as bytes: of each row GX_ROW_FACTS bytes about it,
** and behind these its codes.  Bits of a code, 8, 4 or 1, and 0 of a matrix that is not quantised;
** the columns of the matrix that the codes stand for, -1: there can be none of these.
**
** One of packed bits is stored as bytes alone, eight columns each, the first in the lowest bit.
*/
enum { GX_ROW_FACTS = 12 };

static inline int gx_meta_code_bits(const gx_meta *meta)
{
    static const int bits[] = {8, 4, 1, 0};
    bool is_it = (meta->properties & GX_PROP_QUANTIZED) != 0;
    return is_it ? bits[meta->properties >> GX_PROP_CODES_AT & 3] : 0;
}

static inline bool gx_meta_is_bits(const gx_meta *meta)
{
    return (meta->properties & GX_PROP_BITS) == GX_PROP_BITS;
}

static inline int64_t gx_meta_shown_cols(const gx_meta *meta)
{
    int bits = gx_meta_code_bits(meta);
    if (gx_meta_is_bits(meta)) {
        return meta->cols <= INT64_MAX / 8 ? 8 * meta->cols : -1;
    }
    int64_t codes = meta->cols - GX_ROW_FACTS, unused = meta->properties >> GX_PROP_UNUSED_AT & 7;
    return bits == 0                         ? meta->cols
           : codes < 1 || unused >= 8 / bits ? -1
                                             : codes * (8 / bits) - unused;
}

/* Is it opened by gx_mat_open(), and no matrix of tiles as they are? */
static inline bool gx_meta_is_made(const gx_meta *meta)
{
    return meta->is_composite || (meta->properties & GX_PROP_QUANTIZED) != 0;
}

/* Tiles of a matrix.  A matrix with 0 rows or 0 columns has none. */
static inline int64_t gx_meta_row_tiles(const gx_meta *meta)
{
    return meta->cols == 0 ? 0 : gx_ceil_div(meta->rows, meta->tile_rows);
}

static inline int64_t gx_meta_col_tiles(const gx_meta *meta)
{
    return meta->rows == 0 ? 0 : gx_ceil_div(meta->cols, meta->tile_cols);
}

/* Rows in tile row ti, columns in tile column tj: the edge ones hold fewer. */
static inline int64_t gx_meta_tile_height(const gx_meta *meta, int64_t ti)
{
    return gx_min(meta->tile_rows, meta->rows - ti * meta->tile_rows);
}

static inline int64_t gx_meta_tile_width(const gx_meta *meta, int64_t tj)
{
    return gx_min(meta->tile_cols, meta->cols - tj * meta->tile_cols);
}

/* All tiles of a matrix, or panels; bytes of number `tile` as it is stored.  The meta is valid. */
static inline int64_t gx_meta_tiles(const gx_meta *meta)
{
    return meta->is_sparse      ? meta->panels->count
           : meta->is_composite ? 0
                                : gx_meta_row_tiles(meta) * gx_meta_col_tiles(meta);
}

size_t gx_meta_tile_bytes(const gx_meta *meta, int64_t tile);

/*
** The number of the tile in tile row ti and tile column tj.  Rows that are appended to a matrix of
** several tile columns must not change the numbers of tiles that are there: the tile rows from
** down_tiles on are numbered along the rows, behind those before them.
*/
static inline int64_t gx_meta_tile(const gx_meta *meta, int64_t ti, int64_t tj)
{
    return meta->down_tiles == 0    ? tj * gx_meta_row_tiles(meta) + ti
           : ti < meta->down_tiles ? tj * meta->down_tiles + ti
                                   : ti * gx_meta_col_tiles(meta) + tj;
}

/* Where the tile of that number is. */
static inline void gx_meta_tile_place(const gx_meta *meta, int64_t tile, int64_t *ti, int64_t *tj)
{
    int64_t cols = gx_meta_col_tiles(meta);
    int64_t down = meta->down_tiles > 0 ? meta->down_tiles : gx_meta_row_tiles(meta);
    bool is_down = tile < down * cols;
    *ti = is_down ? tile % down : tile / cols;
    *tj = is_down ? tile / down : tile % cols;
}

/* The first row of panel `panel` of a sparse matrix, and how many rows it has. */
static inline int64_t gx_meta_panel_row(const gx_meta *meta, int64_t panel)
{
    return panel == 0 ? 0 : meta->panels->place[panel - 1].end;
}

static inline int64_t gx_meta_panel_rows(const gx_meta *meta, int64_t panel)
{
    return meta->panels->place[panel].end - gx_meta_panel_row(meta, panel);
}

/*
** The tile shape for a new matrix: about 8 MiB (never more than max_tile_bytes), square for square
** matrices, taller for narrow ones (1 000 000 x 64 f64 -> 16384 x 64), multiples of 64 where the
** matrix is larger than that, at least 1 x 1, never larger than the matrix (min 1), and never more
** than 2^32 - 1 tiles (then tiles grow; GX_TOOBIG when they cannot).
*/
gx_code gx_tile_shape(int64_t rows, int64_t cols, gx_dtype dtype, size_t max_tile_bytes,
                      int64_t *tile_rows, int64_t *tile_cols, gx_err *err);

// The connection ----------------------------------------------------------------------------------

/*
** The VFS "gx": files that helpers read large tiles of past SQLite's pages (store_vfs.c).  For the
** SQLite library that the process uses gx with first; one thread at a time.
*/
void gx_vfs_register(void);

/* db is borrowed and must outlive the store.  *store is NULL on failure. */
gx_code gx_store_open(struct sqlite3 *db, gx_mem *mem, gx_store **store, gx_err *err);
void gx_store_close(gx_store *store); /* NULL is a no-op */

/* Whether a connection has an SQL function of that name; GX_UNKNOWN where it may not be asked. */
typedef enum gx_presence { GX_ABSENT, GX_PRESENT, GX_UNKNOWN } gx_presence;
gx_presence gx_store_has_function(struct sqlite3 *db, const char *name);

/* Is there a view or a trigger in temp of whose SQL is_it(text, name) says so? */
bool gx_store_any_in_temp(struct sqlite3 *db, bool (*is_it)(const char *text, const char *name),
                          const char *name);

/*
** End of a SQL call: finalize cached statements, release the read pin.  Must be called after any
** use of the store, on success and failure, so that sqlite3_close() finds nothing open.
*/
void gx_store_release(gx_store *store);

/* The event as a line of SQLite's log: SQLITE_WARNING, SQLITE_CORRUPT, ... by its kind. */
void gx_store_log(const gx_event *event);

/*
** Before a call ends that has succeeded: what it has pinned stays pinned until gx_hold_drop(), so
** that all calls of a statement see one state.  For each of these the caller owes a gx_hold_drop()
** when the statement ends, not later: NULL, and nothing is owed, where nothing is pinned, the call
** has stored something, or is inside a transaction of the application.
*/
typedef struct gx_hold gx_hold;
gx_hold *gx_store_keep_pins(gx_store *store);
void gx_hold_drop(void *hold); /* NULL is a no-op */

/*
** Begin of a SQL call while a cursor keeps what earlier calls have found: the matrices they
** computed from are not this one's, and a ROLLBACK may have undone the making of the tables.
*/
void gx_store_renew(gx_store *store);

/*
** Where the store counts what it reads and writes (bytes, tiles, time; helpers' reads too); NULL:
** nowhere.  Consecutive reads or patches of one tile by one reader count as one tile.
*/
void gx_store_set_stats(gx_store *store, gx_stats *stats);

/*
** Cells that are set but not yet in their tiles (ext/cells_write.c): flush(arg) puts them there.
** The store calls it first thing in gx_store_find, gx_store_lookup, gx_store_resolve and
** gx_store_begin, so that nobody reads, replaces or drops a matrix before them; its failure is
** theirs.  Not called again while it runs (it uses the store itself).
*/
void gx_store_set_flush(gx_store *store, gx_code (*flush)(void *arg, gx_err *err), void *arg);

/*
** Statements may stay prepared between calls while a guard stands, who drops them before
** sqlite3_close() looks for them: the table gx_guard (ext/vtab_guard.c), which says when it has
** been connected.  GX_GUARD_UNTRIED: it is there and can be asked for.
*/
typedef enum gx_guard { GX_GUARD_NONE, GX_GUARD_UNTRIED, GX_GUARD_STANDS } gx_guard;
void gx_store_set_guard(gx_store *store, gx_guard guard);
void gx_store_drop_spares(gx_store *store);

/*
** Tables whose rows are a matrix's (ext/vectors.h): what gx_store_find_source() asks of a name that
** is no matrix's.  *found false: it is none of theirs either.
*/
typedef gx_code (*gx_store_tables_fn)(void *arg, const char *name, gx_meta *meta, bool *found,
                                      gx_err *err);
void gx_store_set_tables(gx_store *store, gx_store_tables_fn find, void *arg);
void *gx_store_tables(const gx_store *store); /* arg */

/* Polls sqlite3_interrupt() and the signal of base/signal.h; cheap; caller's thread. */
bool gx_store_is_interrupted(gx_store *store);

int64_t gx_store_length_limit(gx_store *store); /* SQLITE_LIMIT_LENGTH, bytes */

/* What a pragma of the schema tells, as text; pragma is one of gx's own words. */
gx_code gx_store_pragma(struct sqlite3 *db, const char *schema, const char *pragma, char text[64],
                        gx_err *err);

/* Tile bytes of new matrices, from the setting 'tile_bytes'; 8 MiB before the first call. */
void gx_store_set_tile_bytes(gx_store *store, size_t bytes);

/* Whether volumes may have paths of their own, from the setting; not, before the first call. */
void gx_store_set_volumes_anywhere(gx_store *store, bool is_allowed);

size_t gx_store_max_tile_bytes(gx_store *store); /* default tile bytes within the length limit */

/* Bytes of a page of the schema's file, for estimates; 4096 where SQLite does not say. */
size_t gx_store_page_bytes(gx_store *store, const char *schema);

/*
** Call a SQL function of the application: "SELECT fn(?1, ?2, ?3)" with (label, fraction, seconds);
** for progress.  Non-zero result = stop with GX_INTERRUPT.
*/
gx_code gx_store_call_progress(gx_store *store, const char *fn, const char *label, double fraction,
                               double seconds, gx_err *err);

/*
** The same for the rectangles of a matrix: "SELECT fn(i, j, rows, columns)", at in that order.  The
** blob, NULL where the result is none, is lent until the next call.
*/
gx_code gx_store_call_open(gx_store *store, const char *fn, struct sqlite3_stmt **stmt,
                           gx_err *err);
gx_code gx_store_call_rectangle(gx_store *store, struct sqlite3_stmt *stmt, const char *fn,
                                const int64_t at[4], const void **blob, size_t *bytes, gx_err *err);
void gx_store_call_close(struct sqlite3_stmt *stmt);

/*
** The rows of an ordinary table or view, "name" or "schema.name", lent until it is closed: all its
** columns, or those of a JSON list of names.  A table's come by rowid or primary key, a view's as
** it gives them.  next: cols numbers; NULL, texts and blobs are refused, naming column and row.
*/
typedef struct gx_table gx_table;
gx_code gx_table_open(gx_store *store, const char *name, const char *columns, gx_table **table,
                      int64_t *cols, gx_err *err);
gx_code gx_table_next(gx_table *table, double *row, bool *is_row, gx_err *err);
const char *gx_table_column(const gx_table *table, int64_t j); /* its name, lent; NULL: no memory */
void gx_table_close(gx_table *table); /* NULL is a no-op */

// The catalog -------------------------------------------------------------------------------------

/*
** Find a matrix by "name" or "schema.name" (temp, main, then attached in order, when unqualified;
** a dotted name whose head is no schema is looked up whole).  GX_ARG "no matrix named 'X'" when
** absent; GX_CORRUPT when the row cannot be (negative sizes, unknown dtype, tile shape < 1, ...).
** Validates every field.  Also opens the read pin on that schema: the connection keeps one read
** transaction until gx_store_release(), so the matrix cannot change under the call.
*/
gx_code gx_store_find(gx_store *store, const char *name, gx_meta *meta, gx_err *err);

/*
** That refuses a sparse matrix in words (gx_csr_refuse): who computes with tiles need not think of
** it.  This one is for those who take it.
*/
gx_code gx_store_find_any(gx_store *store, const char *name, gx_meta *meta, gx_err *err);

/*
** Composites and quantised ones, too: who opens what is found by gx_mat_open().  The others refuse
** them in words.
*/
gx_code gx_store_find_all(gx_store *store, const char *name, gx_meta *meta, gx_err *err);

/* That, or the matrix behind a table: for what only reads. */
gx_code gx_store_find_source(gx_store *store, const char *name, gx_meta *meta, gx_err *err);

/* "M is a composite of other matrices and is needed as a matrix of its own here: ..." */
gx_code gx_store_refuse_made(const gx_meta *meta, gx_err *err);

/* Fail with "no matrix named 'X'" and, where it can be guessed, what was meant. */
gx_code gx_store_missing(gx_store *store, const char *name, gx_err *err);

/* As find, but absence is *found = false and GX_OK. */
gx_code gx_store_lookup(gx_store *store, const char *name, gx_meta *meta, bool *found, gx_err *err);

/*
** As lookup, for dropping and replacing: the row may be damaged, and of meta only schema, name and
** id are set.
*/
gx_code gx_store_locate(gx_store *store, const char *name, gx_meta *meta, bool *found, gx_err *err);

/*
** The visible matrices of a schema by name, or the one named so: fn(arg, meta) for each, until it
** returns false.  For showing: the fields are as the row has them, nothing is validated.
*/
gx_code gx_store_list(gx_store *store, const char *schema, const char *name,
                      bool (*fn)(void *arg, const gx_meta *meta), void *arg, gx_err *err);

/* fn(arg, schema) for main, temp, and the attached databases in order, until it returns true. */
gx_code gx_store_each_schema(gx_store *store, bool (*fn)(void *arg, const char *schema), void *arg,
                             gx_err *err);

/*
** "schema.bare" into its parts, schema as the connection spells it; where nothing before a dot is a
** schema, schema is "" and bare the whole text.
*/
gx_code gx_store_split(gx_store *store, const char *text, char schema[GX_NAME_MAX + 1],
                       const char **bare, gx_err *err);

/*
** After functions and modules are registered: what is known of the schemas that are open came
** before them.
*/
void gx_store_reread_schemas(struct sqlite3 *db);

/* For the catalog's xCreate: the tables of sql/schema.sql.  No-op where they exist. */
gx_code gx_store_make_tables(gx_store *store, const char *schema, gx_err *err);

/* One token of an SQL text, without its quotes (store_named.c). */
typedef struct gx_sql_token {
    char kind; /* 'a': a word or number; '"': a name in quotes; '\'': a string; '\0': the end;
                  else a sign, which is itself */
    const char *text;
    size_t bytes;
} gx_sql_token;

/* Behind blanks and comments. */
const char *gx_sql_blanks(const char *text);

/* The first token of a text; returns what stands behind it. */
const char *gx_sql_next(const char *text, gx_sql_token *token);

/* Is it that word, in quotes or not, without regard to case? */
bool gx_sql_is(const gx_sql_token *token, const char *word);

/*
** Which database the running statement means by the table gx: main, or X by X.gx.  own: the
** database whose table SQLite has found (NULL: the eponymous one).  is_into: by INSERT INTO gx;
** else where it reads.  GX_ARG, which says how to ask: several, or one that is not there.
*/
gx_code gx_store_named(gx_store *store, const char *own, bool is_into,
                       char schema[GX_NAME_MAX + 1], gx_err *err);

/*
** Split a destination name into schema and bare name; "main" when unqualified.  Refuses, in words:
** empty names, longer than GX_NAME_MAX, starting with '[' or '{', an unknown schema.
*/
gx_code gx_store_resolve(gx_store *store, const char *text, char schema[GX_NAME_MAX + 1],
                         char name[GX_NAME_MAX + 1], gx_err *err);

// Writing: begin, create, write tiles, publish, end -----------------------------------------------

/*
** Begin a storing call on a schema: makes the tables when missing, takes the write lock (so a
** read-only database, a busy one, a full disk fail here, before anything is computed), opens a
** SAVEPOINT.  Inside a statement that is itself writing SQLite refuses the savepoint: then the
** store remembers what it creates and gx_store_end(false) removes it.  Calls nest (inner pairs are
** counted).
*/
gx_code gx_store_begin(gx_store *store, const char *schema, gx_err *err);

/*
** Whether the latest gx_store_begin() failed (GX_BUSY) because another connection had changed what
** this call had found, while the lock was waited for.  schema: the one to begin with then, before
** the call is made again from its start, so that the finding comes after the lock.  Tells it once.
*/
bool gx_store_overtaken(gx_store *store, char schema[GX_NAME_MAX + 1]);

/*
** Within BEGIN, and outside storing calls: what comes first decides whether gx_store_begin() waits
** for the lock or, after something has been read, fails at once.
*/
bool gx_store_waits_in_transaction(gx_store *store);

/* Whether a schema has the tables of gx, as far as the connection knows: reads no matrix. */
bool gx_store_has_tables(gx_store *store, const char *schema);

/*
** commit:  RELEASE; !commit: roll back everything since begin.  err may already hold the failure
** that is the reason; then it stays, and its code is returned.
*/
gx_code gx_store_end(gx_store *store, bool commit, gx_err *err);

/*
** A new, still invisible matrix.  In: meta->schema, rows, cols, dtype, properties, and tile_rows,
** tile_cols (0: gx_tile_shape chooses), or is_sparse; name: what messages call it, or "".
** OUT: id, generation, tile shape.
** replaced: the bare name that it is going to take from another matrix, or NULL.  It may be written
** over that one, with its id and another generation: what has its tiles by then has the old ones.
*/
gx_code gx_store_create(gx_store *store, gx_meta *meta, const char *replaced, gx_err *err);

/*
** Write one whole tile (insert, or replace when it exists).  data: the tile's elements, contiguous,
** exactly gx_meta_tile_height x gx_meta_tile_width; read before the call returns.  Of a sparse
** matrix: a whole panel, which meta->panels has already.
** Fastest in ascending tile order.
*/
gx_code gx_store_write_tile(gx_store *store, const gx_meta *meta, int64_t tile, const void *data,
                            gx_err *err);

/*
** Write bytes inside an existing tile (incremental blob I/O).  offset, bytes within the tile.  In a
** storing call; or anywhere in a transaction that has stored in the schema before and so holds the
** write lock, followed by gx_store_close_patches().
*/
gx_code gx_store_patch_tile(gx_store *store, const gx_meta *meta, int64_t tile, size_t offset,
                            size_t bytes, const void *data, gx_err *err);

/* GX_AUTH where the authorizer forbids patches, which ask by themselves: to be told earlier. */
gx_code gx_store_may_patch(gx_store *store, const char *schema, gx_err *err);

/* Whether it does: *can.  Errors: any other, such as an interrupt, which has rolled back. */
gx_code gx_store_can_patch(gx_store *store, const char *schema, bool *can, gx_err *err);

/* A patched tile's handle stays open for the next patch, and would keep a COMMIT from running. */
void gx_store_close_patches(gx_store *store);

/*
** Make the matrix visible as name.  An existing one of that name: dropped when replace, else GX_ARG
** "matrix 'X' already exists (use '{"replace":true}')".
*/
gx_code gx_store_publish(gx_store *store, gx_meta *meta, const char *name, bool replace,
                         gx_err *err);

/* Refuse early, with the same text as publish, when name exists and replace is not set. */
gx_code gx_store_check_free(gx_store *store, const char *schema, const char *name, bool replace,
                            gx_err *err);

/*
** A new generation after cells were written, or tiles; properties as given; rows, columns, tile
** shape and down_tiles as meta has them, which may have changed.  Auxiliary data is gone with the
** bits that speak of it.  Updates meta.
*/
gx_code gx_store_touch(gx_store *store, gx_meta *meta, uint32_t properties, gx_err *err);

/* Delete the tiles that are numbered `first` and above. */
gx_code gx_store_cut_tiles(gx_store *store, const gx_meta *meta, int64_t first, gx_err *err);

/*
** Auxiliary data of a matrix (aux_data.h): a blob in its catalog row, kept by renaming, gone
** with the matrix, and lost with the properties that speak of it when cells are written.
**
** read   *data: bytes of it, of the store's governor, the caller's to free; NULL and 0 where there
**        is none.
** write  In a storing call, before publish.  The column is made where the tables were made by a gx
**        that had none.
** allows Refuse early, GX_TOOBIG, what SQLite's length limit would.
*/
gx_code gx_store_read_aux(gx_store *store, const gx_meta *meta, void **data, size_t *bytes,
                          gx_err *err);
gx_code gx_store_write_aux(gx_store *store, const gx_meta *meta, const void *data, size_t bytes,
                           gx_err *err);
gx_code gx_store_allows_aux(gx_store *store, size_t bytes, gx_err *err);

/*
** Names of the rows (axis 0) or columns of a matrix of any kind, a text of base/names.h, which may
** have fewer names than there are rows.  They stay with the matrix until it is dropped or replaced.
**
** read   *names: of the store's governor, the caller's to free, ended by a NUL; NULL: it has none.
** write  In a storing call, after the last generation.  NULL: it has none from now on.
*/
gx_code gx_store_read_labels(gx_store *store, const gx_meta *meta, int axis, char **names,
                             size_t *bytes, gx_err *err);
gx_code gx_store_write_labels(gx_store *store, const gx_meta *meta, int axis, const char *names,
                              size_t bytes, gx_err *err);

/* The directory of a sparse matrix, meta->panels, into its catalog row: before publish. */
gx_code gx_store_write_panels(gx_store *store, const gx_meta *meta, gx_err *err);

/* Entries of a sparse matrix, of gx_store_list() too, and bytes of its panels; false: damaged. */
bool gx_store_measure_sparse(gx_store *store, const gx_meta *meta, int64_t *entries, size_t *bytes);

gx_code gx_store_drop(gx_store *store, const gx_meta *meta, gx_err *err);

/* name: bare, or with the matrix's own schema.  GX_ARG when it is taken. */
gx_code gx_store_rename(gx_store *store, gx_meta *meta, const char *name, gx_err *err);

/*
** Verify a matrix: catalog row, every tile present with its exact length, no tile too many.
** Problems are appended to report as lines through fn; returns GX_OK when the check itself could
** run.
*/
typedef void (*gx_store_report)(void *arg, const char *line);
gx_code gx_store_check(gx_store *store, const gx_meta *meta, gx_store_report fn, void *arg,
                       gx_err *err);

/* All matrices of a schema, tiles and rows that belong to none, and the counters. */
gx_code gx_store_check_schema(gx_store *store, const char *schema, gx_store_report fn, void *arg,
                              gx_err *err);

// Volumes: decision 030, docs/format.md -----------------------------------------------------------

enum {
    GX_VOLUMES_MAX = 64,      /* files of a set                */
    GX_VOLUME_PATH_MAX = 4096 /* bytes of a path, with its NUL */
};

typedef struct gx_volume_info {
    char schema[GX_NAME_MAX + 1];
    int64_t id;
    char path[GX_VOLUME_PATH_MAX];
    int64_t bytes, tiles; /* of the file, -1 where it cannot be opened; with a stripe in it */
    char state[512];      /* "current", "old", or what is wrong with it                     */
} gx_volume_info;

/*
** From now on new large matrices of the schema go to `count` files, beside the database, or where
** paths say (count of them, lent; the caller has made sure that they may be written).  0: all tiles
** come home into the database.  Nothing happens where there are as many beside it already.
*/
gx_code gx_store_set_volumes(gx_store *store, const char *schema, int count,
                             const char *const *paths, gx_err *err);

/* How many files a new matrix of so many bytes would be written to; 0: it goes to the database. */
int gx_store_spread_files(gx_store *store, const char *schema, double bytes);

/*
** A new matrix written by several threads at once, past the database.
**
** open   After gx_store_create().  *writers NULL: the matrix is not in volumes.  Until close the
**        caller's thread does nothing else with the store.
** write  Bytes [offset, offset + bytes) of a tile, by any thread.
** seal   All of the tile has been written.
** close  is_done: every tile has been sealed; else nothing has been stored.  NULL is a no-op.
*/
typedef struct gx_writers gx_writers;
gx_code gx_writers_open(gx_store *store, const gx_meta *meta, gx_writers **writers, gx_err *err);
gx_code gx_writers_write(gx_writers *writers, int64_t tile, size_t offset, size_t bytes,
                         const void *data, gx_err *err);
gx_code gx_writers_seal(gx_writers *writers, int64_t tile, gx_err *err);
gx_code gx_writers_close(gx_writers *writers, bool is_done, gx_err *err);
int gx_writers_files(const gx_writers *writers); /* that are written side by side */

/* The schema's volumes in order, damaged ones too, until fn returns false. */
gx_code gx_store_list_volumes(gx_store *store, const char *schema,
                              bool (*fn)(void *arg, const gx_volume_info *info), void *arg,
                              gx_err *err);

/*
** Give bytes of volumes back that no matrix uses, where no reader of an older state may still need
** them: files are cut behind their last tile, sets that are not used any more removed.
*/
gx_code gx_store_vacuum(gx_store *store, const char *schema, int64_t *freed, gx_err *err);

/*
** Copy a schema and its volumes into a new database at path, with volumes beside it: one committed
** state, while others read and write.  GX_ARG where a file is there already.
*/
gx_code gx_store_backup(gx_store *store, const char *schema, const char *path, gx_err *err);

// Reading -----------------------------------------------------------------------------------------

/*
** A reader: one connection's way to tiles.  gx_reader_own() reads through the caller's connection
** (only on the caller's thread); gx_reader_open() opens a second, read-only connection to the same
** file for a helper thread.
*/
typedef struct gx_reader gx_reader;

gx_code gx_reader_own(gx_store *store, gx_reader **reader, gx_err *err);

/*
** Why helpers cannot serve this schema, as a static text for gx_stats ("in-memory database",
** "single-threaded SQLite", "exclusive locking mode", ...), or NULL when they may.
*/
const char *gx_reader_refusal(gx_store *store, const char *schema);

/*
** Called on the caller's thread.  GX_UNSUPPORTED with the reason where it cannot be.  The
** connection is opened by the first gx_reader_begin(), on its thread: what takes a tenth of a
** millisecond for one is not done for sixteen in turn.
*/
gx_code gx_reader_open(gx_store *store, const char *schema, gx_reader **reader, gx_err *err);

/* What one takes of the connection's memory, beside what it knows of tiles' pages. */
size_t gx_reader_bytes(void);

/* One more of the same; any thread.  `reader` is its guide, and is closed after it. */
gx_code gx_reader_another(gx_reader *reader, gx_reader **another, gx_err *err);

/*
** Open the helper's connection where it is not, begin its read transaction and compare (id,
** generation, shape) of the count metas with what it sees: GX_UNSUPPORTED when they differ or the
** database is locked.  No-op on an own reader.  One whose guide has begun may do without a
** connection; what metas point to stays until the end.
*/
enum { GX_READER_METAS = 16 }; /* that one without a connection knows */
gx_code gx_reader_begin(gx_reader *reader, const gx_meta *const *metas, int count, gx_err *err);
void gx_reader_end(gx_reader *reader); /* ends the read transaction: the writer may spill, commit */
void gx_reader_close(gx_reader *reader);

/*
** Read bytes [offset, offset + bytes) of one tile into dst.  A missing tile, or one whose length is
** not the expected one, is GX_CORRUPT naming matrix and tile.  Reopens one blob handle from call to
** call.  One thread at a time per reader.
*/
gx_code gx_reader_read(gx_reader *reader, const gx_meta *meta, int64_t tile, size_t offset,
                       size_t bytes, void *dst, gx_err *err);

/*
** Runs of bytes of a tile, `step` apart, that go where they belong, dst_step apart: columns.
** False: this way is not open, or not worth it, or something is wrong: gx_reader_read() has to read
** them, and says what.
*/
typedef struct gx_columns {
    size_t offset, bytes, step;
    int64_t count; /* at least 1 */
    void *dst;
    size_t dst_step;
} gx_columns;

bool gx_reader_columns(gx_reader *reader, const gx_meta *meta, int64_t tile,
                       const gx_columns *columns);

/*
** An intermediate's tiles in a file without a name, which goes with gx_scratch_close(): id,
** generation and scratch of meta are set.  *is_open false: the application's VFS or settings want
** no such file, and the temp database is the place.  Any thread reads and writes, other bytes than
** others do; gx_reader_read() and gx_store_write_tile() come here too, and need no reader.
*/
gx_code gx_scratch_open(gx_store *store, gx_meta *meta, bool *is_open, gx_err *err);
void gx_scratch_close(gx_meta *meta); /* where there is none a no-op */
gx_code gx_scratch_read(const gx_meta *meta, int64_t tile, const gx_columns *to, gx_err *err);
gx_code gx_scratch_write(const gx_meta *meta, int64_t tile, const gx_columns *from, gx_err *err);

/*
** Will helpers that read the matrix most likely read pieces of several tiles in turn as fast as
** whole ones?  Straight from the file, that is: SQLite goes through a tile from its beginning.
*/
bool gx_reader_is_random(gx_store *store, const gx_meta *meta);

/* After begin: true when a writer of the schema cannot spill or commit while this helper reads. */
bool gx_reader_excludes_writer(const gx_reader *reader);

/*
** Give an empty database the page size, journal mode and synchronous of another connection's main
** one, where that has a file.  What cannot be set stays as it is.
*/
void gx_store_imitate(struct sqlite3 *from, struct sqlite3 *to);

/* Is the schema's file in WAL mode?  Seen by its log: asking SQLite counts as writing. */
bool gx_store_is_wal(gx_store *store, const char *schema);

/* Where what is stored next goes. */
typedef struct gx_space {
    bool is_file;      /* false: in memory, or a temporary file                 */
    bool has_log;      /* WAL mode                                              */
    double log_bytes;  /* how long the log is: as long as the longest commit    */
    double free_bytes; /* pages of the database that others have left           */
} gx_space;

/* What is known of it; nothing is read but the head of the file. */
void gx_store_space(gx_store *store, const char *schema, gx_space *space);

/* Does what the call stores go to a disk when it ends?  Not while a transaction is open. */
bool gx_store_commits(const gx_store *store);

/*
** Which database a schema is and the state of it that others have committed: two equal stamps and
** an equal (id, generation) mean the same matrix with the same elements.  0: that cannot be said (a
** database without a file, an open transaction of the application).  Caller's thread.  The lower
** GX_STAMP_STATE_BITS are the state, those above them the file.
*/
enum { GX_STAMP_STATE_BITS = 48 };
uint64_t gx_store_stamp(gx_store *store, const char *schema);

/* Is a stamp one of an earlier state of the same file?  (Seldom also of another file.) */
static inline bool gx_stamp_is_past(uint64_t stamp, uint64_t now)
{
    return stamp != now && stamp >> GX_STAMP_STATE_BITS == now >> GX_STAMP_STATE_BITS;
}

/*
** Wait for the disk now for what SQLite has written to the schema's file so far, so that the commit
** need not: for a writer that has nothing better to do while others compute.  Nothing where
** `synchronous` is off and in temp and in-memory databases; in WAL mode the file has nothing new.
** GX_IO, GX_FULL: the disk refused, and the call must fail, because it may say so only once.
*/
gx_code gx_store_settle(gx_store *store, const char *schema, gx_err *err);

#endif
