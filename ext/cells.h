/*
** Matrices as rows: what the files behind gx_cells and gx_rows share.
**
**   vtab_cells.c   the two modules: tables, cursors, columns
**   cells_plan.c   which rows a query wants: xBestIndex, and constraints turned into a rectangle
**   cells_scan.c   a rectangle of a matrix as a sequence of chunks in memory
**   cells_sparse.c the entries of a sparse matrix
**   cells_write.c  INSERT, UPDATE, DELETE: cells gathered in a batch, written tile by tile
*/
#ifndef GX_CELLS_H
#define GX_CELLS_H

#include "gx_ext.h"

/* Columns of gx_cells and gx_rows.  Hidden: the argument, and the name of the row. */
enum { GX_CELLS_I = 0, GX_CELLS_J, GX_CELLS_VALUE, GX_CELLS_IMAG, GX_CELLS_MATRIX };
enum { GX_ROWS_I = 0, GX_ROWS_ROW, GX_ROWS_MATRIX, GX_ROWS_LABEL };

// What a connection has ---------------------------------------------------------------------------

typedef struct gx_cells_table gx_cells_table;

/* One real number that waits to be written. */
typedef struct gx_cells_entry {
    uint64_t key; /* tile << 32 | index of the real number inside the tile */
    double value;
} gx_cells_entry;

enum { GX_CELLS_EMBEDDED = 32 };

/* The cells that wait: all of one matrix, of one table.  See cells_write.c. */
typedef struct gx_cells_batch {
    gx_cells_table *table;   /* NULL: no cell waits, and meta means nothing       */
    gx_meta meta;            /* of the matrix, already touched                    */
    gx_cells_entry *entries; /* room for 2 * capacity: the second half is to sort */
    size_t count, capacity;  /* entries                                           */
    bool is_flushing;
    gx_cells_entry embedded[2 * GX_CELLS_EMBEDDED]; /* the entries at first */
} gx_cells_batch;

/* Shared by both modules of one connection. */
typedef struct gx_cells_shared {
    gx_ctx *ctx;
    int modules;   /* that still refer to this                             */
    int64_t epoch; /* counts rollbacks: what was read before may be untrue */
    gx_cells_batch batch;
} gx_cells_shared;

struct gx_cells_table {
    sqlite3_vtab base; /* must be first */
    sqlite3 *db;
    gx_cells_shared *shared;
    gx_ctx *ctx;
    bool is_rows;           /* gx_rows; else gx_cells                                     */
    const char *module;     /* "gx_cells", "gx_rows"                                      */
    char *schema, *name;    /* of the table                                               */
    char *matrix;           /* the matrix of a named table; NULL: table-valued function   */
    int64_t rows, cols;     /* of the matrix last seen, for estimates; 0: none seen       */
    bool is_in_transaction; /* between xBegin and xCommit or xRollback                    */
    bool is_unannounced;    /* no xBegin and no xSavepoint yet: see gx_cells_update()     */
    int level;              /* savepoints open, SQLite's own included                     */
    int foreign_level;      /* level at the latest flush into another schema; -1: none    */
    gx_meta foreign;        /* the matrix flushed into then                               */
};

/*
** The matrix behind a named table, in the table's own schema: what came with a file must not reach
** others.  For a table of temp, where it is not there, any that the name finds.  Flushes the batch
** (through the store).
*/
gx_code gx_cells_find(gx_cells_table *table, gx_meta *meta, gx_err *err);

// Which rows (cells_plan.c) -----------------------------------------------------------------------

/* Rows i0 <= i < i1, columns j0 <= j < j1. */
typedef struct gx_rect {
    int64_t i0, i1, j0, j1;
} gx_rect;

typedef enum gx_order {
    GX_BY_TILE = 0, /* tile after tile, column-major over tiles and inside each */
    GX_BY_COLUMN,   /* by j, then i                                             */
    GX_BY_ROW       /* by i, then j                                             */
} gx_order;

/* idxNum is a gx_order, idxStr the plan. */
int gx_cells_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info);

/* The argument among xFilter's values, or NULL when the plan has none. */
sqlite3_value *gx_cells_plan_matrix(const char *plan, sqlite3_value **argv);

/*
** What a plan wants of a rows x cols matrix, as SQLite compares i and j with the values; empty when
** i0 >= i1 or j0 >= j1.
*/
gx_rect gx_cells_plan_rect(const char *plan, sqlite3_value **argv, bool is_rows, int64_t rows,
                           int64_t cols);

// Reading (cells_scan.c) --------------------------------------------------------------------------

/* What lies in memory: a rectangle of one state of one stored matrix, or a value's elements. */
typedef struct gx_window {
    gx_rect rect;
    const char *base; /* element (rect.i0, rect.j0); NULL: nothing */
    int64_t ld;       /* elements                                  */
    int64_t id, generation, epoch;
} gx_window;

enum { GX_HOT_TILES = 64 };

/* Tiles that a cursor keeps coming back to: what they cost so far, and some of them whole. */
typedef struct gx_hot {
    struct gx_hot_tile {
        int64_t number;
        size_t spent; /* bytes: what small reads of it have cost           */
        void *data;   /* the whole tile, from the governor; NULL: not here */
        size_t bytes; /* of data                                           */
        int64_t used; /* clock at the latest visit; 0: an empty place      */
    } tile[GX_HOT_TILES];
    int64_t clock;                 /* visits                               */
    size_t bytes;                  /* of all data                          */
    int64_t id, generation, epoch; /* the state of the matrix that this is */
} gx_hot;

typedef struct gx_scan {
    gx_cells_shared *shared;
    gx_mat A;
    size_t element; /* bytes of one                                               */
    gx_order order;
    bool wants_data; /* an element was asked for: chunks are sized to be read      */
    bool whole_rows; /* a chunk is never narrower than the selection               */
    gx_rect select;  /* what is wanted                                             */
    gx_rect region;  /* the tile at hand (GX_BY_TILE), or all of select            */
    gx_rect chunk;   /* what comes into memory at once; lies in region             */
    int64_t i, j;    /* the cell at hand                                           */
    bool is_done;    /* past the last cell                                         */
    bool is_loaded;  /* window holds chunk                                         */
    gx_window window;
    void *buffer; /* owned; from the governor                                   */
    size_t buffer_bytes;
    size_t aim_bytes; /* of the next chunk: grows from chunk to chunk               */
    gx_hot *hot;      /* owned; NULL until a small selection is read                */
    bool has_changed; /* the failure is: changed while being read                   */
    _Alignas(8) char spare[256];  /* the buffer where the governor has none                     */
} gx_scan;

/* Scan A from now on; A is moved in.  The window of an earlier scan stays where it still serves. */
void gx_scan_source(gx_scan *scan, gx_cells_shared *shared, const gx_mat *A);

/* Stand on the first cell of rect, which lies in A, or be done.  Reads nothing yet. */
void gx_scan_start(gx_scan *scan, gx_order order, bool whole_rows, gx_rect rect);

/* The chunk is used up: stand on the first cell of the next one. */
gx_code gx_scan_next_chunk(gx_scan *scan, gx_err *err);

/*
** Bring the chunk into memory.  The first load may cut the chunk to what memory allows, from the
** cell at hand on.  Fails when the matrix is no longer what it was at gx_scan_source():
** has_changed.
*/
gx_code gx_scan_load(gx_scan *scan, gx_err *err);

/* The element (i, j) of the chunk, once is_loaded. */
static inline const char *gx_scan_at(const gx_scan *scan, int64_t i, int64_t j)
{
    const gx_window *w = &scan->window;
    return w->base + (size_t)((j - w->rect.j0) * w->ld + (i - w->rect.i0)) * scan->element;
}

/* Fails when the matrix is no longer what it was at gx_scan_source(): has_changed. */
gx_code gx_scan_check(gx_scan *scan, gx_err *err);

// Entries (cells_sparse.c) ------------------------------------------------------------------------

/* Where a scan of a sparse matrix stands; scan->i and scan->j are the entry's, or is_done. */
typedef struct gx_entries {
    void *block; /* the piece at hand; owned, from the governor                    */
    gx_csr csr;
    int64_t piece, row0; /* which it is, and its first row                         */
    int64_t row, e, end; /* inside it                                              */
    gx_scalar value;     /* of the entry                                           */
    struct gx_sorted_entry *sorted; /* by column: all of them; owned               */
    int64_t count, at;
    bool is_sorted;
} gx_entries;

/* Stand on the first entry of rect.  Reads its piece. */
gx_code gx_entries_start(gx_entries *entries, gx_scan *scan, gx_order order, gx_rect rect,
                         gx_err *err);
gx_code gx_entries_next(gx_entries *entries, gx_scan *scan, gx_err *err);
void gx_entries_clear(gx_entries *entries, gx_mem *mem);

/* What cells_hot.c reads: the tile (ti, tj) as a rectangle, what two rectangles share. */
gx_rect gx_tile_rect(const gx_meta *meta, int64_t ti, int64_t tj);
gx_rect gx_rect_common(const gx_rect *a, const gx_rect *b);

/*
** Read rect of A, as it was when the scan began, into dst with leading dimension rect.i1 - rect.i0.
*/
gx_code gx_scan_read(const gx_scan *scan, const gx_rect *rect, char *dst, gx_err *err);

/*
** A small selection inside one tile (cells_hot.c).  *data: the whole tile, as long as no other
** selection is read; or NULL when the selection is better read alone.
*/
gx_code gx_hot_visit(gx_scan *scan, const gx_rect *rect, gx_rect *tile, const char **data,
                     gx_err *err);
void gx_hot_free(gx_scan *scan);

/* Free everything; the scan may be used again. */
void gx_scan_clear(gx_scan *scan);


// Writing (cells_write.c) -------------------------------------------------------------------------

/* "gx_cells: a: text" into zErrMsg; returns code, or SQLITE_* of err where code is 0. */
int gx_cells_error(gx_cells_table *table, const gx_err *err, int code);

/* Index 0 .. count - 1 of the row (label "i") or column ("j"), or words that say so. */
gx_code gx_cells_check_index(const char *label, int64_t index, int64_t count, gx_err *err);

int gx_cells_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv, sqlite3_int64 *rowid);
int gx_cells_begin(sqlite3_vtab *vtab);
int gx_cells_sync(sqlite3_vtab *vtab);
int gx_cells_commit(sqlite3_vtab *vtab);
int gx_cells_rollback(sqlite3_vtab *vtab);
int gx_cells_savepoint(sqlite3_vtab *vtab, int n);
int gx_cells_release(sqlite3_vtab *vtab, int n);
int gx_cells_rollback_to(sqlite3_vtab *vtab, int n);

/* The batch into its tiles; also the store's flush hook (arg: gx_cells_shared). */
gx_code gx_cells_flush(void *arg, gx_err *err);

#endif
