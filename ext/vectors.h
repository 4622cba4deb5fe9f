/*
** Vector tables: what the files behind gx_vectors share.
**
**   vectors_declare.c  CREATE VIRTUAL TABLE's arguments: columns, metrics
**   vtab_vectors.c     the module: tables, cursors
**   vectors_plan.c     plans
**   vectors_rows.c     matrices, NAME_new, vectors of rows, for the other files
**   vectors_search.c   the nearest rows of a query: filters, matrices, rows that have not settled
**   vectors_name.c     tables by their names: in the place of a matrix, gx_settle
**   vectors_value.c    a vector as a value, and as the elements that are stored
**   vectors_write.c    INSERT, UPDATE, DELETE, transactions
**   vectors_settle.c   rows that become rows of the matrices
**
** A vector column is a stored matrix NAME_COLUMN, a row for each position; all else is in the
** shadow tables of core/store/vector_tables.h.
*/
#ifndef GX_VECTORS_H
#define GX_VECTORS_H

#include "gx_ext.h"
#include "measure.h"

#include "../core/alg/knn.h"
#include "../core/store/vector_tables.h"

/* Columns of the table: a key, the user's, and three hidden ones. */
enum {
    GX_VEC_COLUMNS_MAX = 60, /* of the user's */
    GX_VEC_VECTORS_MAX = 8,  /* of these      */
    GX_VEC_KEY = 0,          /* "rowid", or the column that is the key */
};

/* A vector column. */
typedef struct gx_vec_column {
    const char *name;             /* lent by the declaration               */
    char matrix[GX_NAME_MAX + 1]; /* of the settled rows, without a schema */
    gx_dtype dtype;               /* of its elements                       */
    bool is_bit;                  /* bool there, eight of them a byte in a BLOB */
    int64_t dims;
    int metric;   /* gx_measures[]                         */
    size_t bytes; /* of a vector as a BLOB                 */
} gx_vec_column;

typedef struct gx_vec_shape {
    gx_vectors_shape tables;
    char *text;       /* all names and types; owned                                    */
    const char *key;  /* what column 0 is called                                       */
    bool is_text_key; /* it is TEXT, and column 0 of the tables' columns; else the rowid */
    int columns;      /* the user's                                                    */
    struct {
        const char *name;
        int vector; /* which of the vectors; -1: an ordinary column                  */
        int plain;  /* which of tables.columns                                       */
    } column[GX_VEC_COLUMNS_MAX];
    int vectors;
    gx_vec_column vector[GX_VEC_VECTORS_MAX];
    const char *name[GX_VEC_COLUMNS_MAX + 1], *type[GX_VEC_COLUMNS_MAX + 1]; /* tables' */
} gx_vec_shape;

/* Numbers of the hidden columns. */
static inline int gx_vec_distance(const gx_vec_shape *s)
{
    return s->columns + 1;
}
static inline int gx_vec_score(const gx_vec_shape *s)
{
    return s->columns + 2;
}
static inline int gx_vec_k(const gx_vec_shape *s)
{
    return s->columns + 3;
}

/*
** The arguments as SQLite hands them to xCreate: argv[1] the schema, argv[2] the table's name,
** columns from argv[3] on.  Refuses in words.  Cleared by gx_vec_shape_clear() whatever it returns.
*/
gx_code gx_vec_declare(gx_vec_shape *shape, int argc, const char *const *argv, gx_err *err);
void gx_vec_shape_clear(gx_vec_shape *shape);

/* "CREATE TABLE x(...)" for sqlite3_declare_vtab(): sqlite3_free(); NULL: no memory. */
char *gx_vec_declaration(const gx_vec_shape *shape);

// Tables ------------------------------------------------------------------------------------------

typedef struct gx_vec_table gx_vec_table;

/*
** Rows that were inserted and are not in NAME_new yet: ids[k] has slot first + k.  at > 0: NAME_row
** says of it already that it is row at + k of the matrices, where it is to settle.
*/
typedef struct gx_vec_batch {
    int64_t first, at, count, capacity;
    int64_t *ids;
    char *data[GX_VEC_VECTORS_MAX]; /* capacity x bytes of each column */
} gx_vec_batch;

/* The rows of NAME_new in memory, as they were at a committed state of the database. */
typedef struct gx_vec_fresh {
    bool is_known;
    int64_t version, changes; /* of that state */
    int64_t count;
    int64_t *ids;
    char *data[GX_VEC_VECTORS_MAX]; /* elements: dims of each row, row after row */
} gx_vec_fresh;

/* Settled rows that are in memory, because one of them was read: of one state of a matrix. */
typedef struct gx_vec_window {
    struct {
        int64_t id, generation, first, count, capacity;
        char *blobs, *elements; /* rows as BLOBs, and by columns */
    } of[GX_VEC_VECTORS_MAX];
} gx_vec_window;

/* The tables of a connection that are connected. */
typedef struct gx_vec_list {
    sqlite3 *db;
    gx_ctx *ctx;
    gx_vec_table *first;
} gx_vec_list;

struct gx_vec_table {
    sqlite3_vtab base; /* must be first */
    gx_vec_list *list;
    gx_vec_table *next; /* in it */
    sqlite3 *db;
    gx_ctx *ctx;
    char *schema, *name;
    gx_vec_shape shape;
    gx_vectors *rows;
    gx_vec_batch batch;
    gx_vec_fresh fresh; /* while there are cursors */
    int cursors;
    int64_t slot;  /* the last one in use, while a transaction writes; -1: not known       */
    int64_t full;  /* of so many slots rows settle; 0: not known                             */
    int64_t grown; /* height of the matrices after rows have settled in this transaction, none
                     of them dead: more are coming; 0: not so                               */
    bool is_half_settled;   /* settling has begun to write                                  */
    bool is_in_transaction; /* between xBegin and xCommit or xRollback                      */
    bool is_unannounced;    /* no xBegin and no xSavepoint yet: each row is written at once */
};

// What it has (vectors_rows.c) --------------------------------------------------------------------

/* "gx_vectors: note_vec: text" into zErrMsg; returns code, or SQLITE_* of err where code is 0. */
int gx_vec_error(gx_vec_table *t, const gx_err *err, int code);

/* The matrix of a column, checked; rows 0, where nothing has settled.  With the ctx held. */
gx_code gx_vec_matrix(gx_vec_table *t, int vector, gx_mat *E, gx_err *err);

/* Rows of the matrices, which are of one height. */
gx_code gx_vec_height(gx_vec_table *t, int64_t *rows, gx_err *err);

/* "schema.matrix" */
void gx_vec_full_name(const gx_vec_table *t, const char *matrix, char full[2 * GX_NAME_MAX + 2]);

/* A statement of one or two numbers. */
gx_code gx_vec_run(gx_vec_table *t, gx_vectors_sql which, int64_t first, int64_t second,
                   gx_err *err);

/* Row `slot` of NAME_new: BLOBs of all vector columns, lent. */
gx_code gx_vec_put_new(gx_vec_table *t, int64_t slot, int64_t id, const char *const *blobs,
                       gx_err *err);

/* The slot of a position below 0; a forged one has none. */
static inline int64_t gx_vec_slot(int64_t pos)
{
    return pos == INT64_MIN ? 0 : -pos;
}

/* The batch into NAME_new; freed. */
gx_code gx_vec_flush(gx_vec_table *t, gx_err *err);

void gx_vec_free_batch(gx_vec_table *t, gx_vec_batch *batch);

/* The batch, which the table has no longer; freed, or given back where it has not been written. */
gx_vec_batch gx_vec_take_batch(gx_vec_table *t);
void gx_vec_end_batch(gx_vec_table *t, gx_vec_batch *batch, bool is_written);

/* NAME_new, whose BLOBs are as long as they must be; cleared by the caller, on failure as well. */
gx_code gx_vec_read_fresh(gx_vec_table *t, gx_vec_fresh *fresh, gx_err *err);
void gx_vec_fresh_clear(gx_vec_fresh *fresh, gx_mem *mem);
void gx_vec_forget_fresh(gx_vec_table *t); /* the table's, if there is no cursor */
gx_code gx_vec_count_dead(gx_vec_table *t, int64_t *dead, gx_err *err);

/*
** The vector of a settled row, or of slot `slot` of NAME_new, which must be row id's there, as a
** BLOB: lent as long as the window is not read from again; into blob.
*/
gx_code gx_vec_window_read(gx_vec_table *t, gx_vec_window *window, int vector, int64_t pos,
                           const void **blob, gx_err *err);
gx_code gx_vec_read_new(gx_vec_table *t, int vector, int64_t slot, int64_t id, void *blob,
                        gx_err *err);
void gx_vec_window_clear(gx_vec_window *window, gx_mem *mem);

// Plans (vectors_plan.c) --------------------------------------------------------------------------

/* idxNum; conditions that xFilter takes */
enum { GX_VEC_PLAN_MATCH = 1, GX_VEC_PLAN_BY_ROWID = 2, GX_VEC_PLAN_FALLING = 4 };
enum { GX_VEC_TERMS_MAX = 64 };

int gx_vec_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info);

/* The column of NAME_row behind one of the table's, -1 for the rowid; -2: there is none. */
int gx_vec_plain(const gx_vec_shape *s, int column);

// By name (vectors_name.c) ------------------------------------------------------------------------

/*
** The table, or the vector column, of a name: "t", "schema.t", "t.embedding".  *t NULL: there is
** none.  *vector -1: the table has several, and the name says none of them.
*/
gx_code gx_vec_find(gx_ctx *ctx, const char *name, gx_vec_table **t, int *vector, gx_err *err);

/* gx_store_tables_fn of a gx_vec_list: rows of a table none of which is dead or has not settled. */
gx_code gx_vec_source(void *list, const char *name, gx_meta *meta, bool *found, gx_err *err);

/* An argument that names a table, and no matrix; *t NULL: it does not. */
bool gx_vec_argument(gx_fn *fn, int index, gx_vec_table **t, int *vector);

// Values (vectors_value.c) ------------------------------------------------------------------------

/* A value as the bytes of a BLOB of the column, column->bytes of them, into blob. */
gx_code gx_vec_take(gx_vec_table *t, const gx_vec_column *column, sqlite3_value *value, void *blob,
                    gx_err *err);

/* The same as dims doubles: a query. */
gx_code gx_vec_take_query(gx_vec_table *t, const gx_vec_column *column, sqlite3_value *value,
                          double *query, gx_err *err);

/* count BLOBs to dims elements each, and back.  They are the same but for bits. */
void gx_vec_unpack(const gx_vec_column *column, const void *blobs, int64_t count, void *elements);
void gx_vec_pack(const gx_vec_column *column, const void *elements, int64_t count, void *blobs);
size_t gx_vec_row_bytes(const gx_vec_column *column); /* of a row's elements */

// Searching (vectors_search.c) --------------------------------------------------------------------

typedef struct gx_vec_hit {
    double distance, score;
    int64_t id;
} gx_vec_hit;

typedef struct gx_vec_hits {
    int64_t count, capacity;
    gx_vec_hit *hit;  /* by distance, then id                                        */
    bool is_complete; /* there are no more                                           */
} gx_vec_hits;

typedef struct gx_vec_wish {
    int vector;
    const double *query; /* dims */
    int64_t k;
    const gx_vectors_term *terms;
    int count;
    double low, high;        /* of the distance                    */
    bool is_above, is_below; /* these themselves are not in it     */
} gx_vec_wish;

/*
** The k nearest rows of those that the terms let through, exactly; of equal distances the smaller
** ids.  fn: the call around it.
*/
bool gx_vec_search(gx_fn *fn, gx_vec_table *t, const gx_vec_wish *wish, gx_vec_hits *hits);
/* The same of all rows for each query of Q, whose ids are the lists' numbers. */
bool gx_vec_search_all(gx_fn *fn, gx_vec_table *t, int vector, const gx_knn_args *args,
                       gx_neighbours *out);
void gx_vec_hits_clear(gx_vec_hits *hits, gx_mem *mem);

// Writing (vectors_write.c) -----------------------------------------------------------------------

int gx_vec_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv, sqlite3_int64 *rowid);
int gx_vec_begin(sqlite3_vtab *vtab);
int gx_vec_sync(sqlite3_vtab *vtab);
int gx_vec_commit(sqlite3_vtab *vtab);
int gx_vec_rollback(sqlite3_vtab *vtab);
int gx_vec_savepoint(sqlite3_vtab *vtab, int n);
int gx_vec_release(sqlite3_vtab *vtab, int n);
int gx_vec_rollback_to(sqlite3_vtab *vtab, int n);

// Settling (vectors_settle.c) ---------------------------------------------------------------------

/* Rows that have not settled become rows of the matrices: NAME_new and the batch. */
gx_code gx_vec_settle(gx_vec_table *t, gx_err *err);

/*
** The same if they are as many as a tile takes: as the last thing that a statement does.  Before it
** writes, gx_vec_know_full() looks at the matrices.
*/
gx_code gx_vec_know_full(gx_vec_table *t, gx_err *err);
gx_code gx_vec_settle_full(gx_vec_table *t, gx_err *err);

/* And no row of the matrices is dead any more. */
gx_code gx_vec_settle_all(gx_vec_table *t, gx_err *err);

#endif
