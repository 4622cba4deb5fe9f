/*
** Vector tables: what the files behind gx_vectors share.
**
**   vectors_declare.c  CREATE VIRTUAL TABLE's arguments: columns, metrics
**   vtab_vectors.c     the module: tables, cursors
**   vectors_plan.c     plans
**   vectors_rows.c     matrices, NAME_new, vectors of rows, for the other files
**   vectors_search.c   the nearest rows of a query: filters, matrices, rows that have not settled
**   vectors_explain.c  how a search would be made
**   vectors_ahead.c    the queries of a join, some at a time
**   vectors_kinds.c    their conditions, which may differ
**   vectors_name.c     tables by their names: in the place of a matrix, gx_settle
**   vectors_value.c    a vector as a value, and as the elements that are stored
**   vectors_write.c    INSERT, UPDATE, DELETE, transactions
**   vectors_settle.c   rows that become rows of the matrices
**   vectors_index.c    the index as it is stored; rows that settle enter it
**   vectors_build.c    the index, made, and looked at
**   vectors_lists.c    the index, searched
**
** A vector column is a stored matrix NAME_COLUMN, a row for each position; all else is in the
** shadow tables of core/store/vector_tables.h.
*/
#ifndef GX_VECTORS_H
#define GX_VECTORS_H

#include "gx_ext.h"
#include "measure.h"

#include "../core/alg/ivf.h"
#include "../core/alg/knn.h"
#include "../core/store/vector_tables.h"

/* Columns of the table: a key, the user's, and three or four hidden ones. */
enum {
    GX_VEC_COLUMNS_MAX = 60,  /* of the user's */
    GX_VEC_VECTORS_MAX = 8,   /* of these      */
    GX_VEC_PLAN_COLUMNS = 58, /* with more of the user's SQLite does not say that gx_plan is used */
    GX_VEC_KEY = 0,           /* "rowid", or the column that is the key */
};

/* A vector column. */
typedef struct gx_vec_column {
    const char *name;             /* lent by the declaration               */
    char matrix[GX_NAME_MAX + 1]; /* of the settled rows, without a schema */
    gx_dtype dtype;               /* of its elements; of bits: of bytes    */
    bool is_bit;                  /* eight of them a byte                  */
    int64_t dims, cells;          /* numbers of a vector; elements of dtype, fewer of bits */
    int metric;                   /* gx_measures[]                         */
    size_t bytes;                 /* of a vector as a BLOB                 */
} gx_vec_column;

/* What an index is to be like; 0: as gx thinks best. */
typedef struct gx_vec_index_wish {
    int64_t vector, lists, probe;
    double recall;
} gx_vec_index_wish;

typedef struct gx_vec_shape {
    gx_vectors_shape tables;
    bool has_index;          /* CREATE says that it is to have one */
    gx_vec_index_wish index; /* and which                          */
    bool has_probe;          /* the hidden column probe: no column of the user's is called so */
    bool has_plan;           /* the same of the hidden column gx_plan */
    char *text;              /* all names and types; owned                                    */
    const char *key;         /* what column 0 is called                                       */
    bool is_text_key;        /* it is TEXT, and column 0 of the tables' columns; else the rowid */
    int columns;             /* the user's                                                    */
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
static inline int gx_vec_probe(const gx_vec_shape *s)
{
    return s->has_probe ? s->columns + 4 : -2;
}

static inline int gx_vec_plan(const gx_vec_shape *s)
{
    return s->has_plan ? s->columns + 4 + s->has_probe : -2;
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

/*
** The rows of NAME_new in memory, as they were at a committed state of the database.  Between
** searches they stand by in one block of the governor (gx_mem_keep()).
*/
typedef struct gx_vec_fresh {
    bool is_known;
    int64_t version, changes; /* of that state */
    int64_t after;            /* rows of the slots behind this one */
    int64_t count;
    int64_t entered; /* the first of them, which the index has */
    int64_t *ids;
    char *data[GX_VEC_VECTORS_MAX]; /* elements: dims of each row, row after row */
    void *block;                    /* where all these lie; NULL: each for itself */
    bool stands_by;                 /* it is the governor's, and nothing is here  */
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
    int64_t slot;   /* the last one in use, while a transaction writes; -1: not known       */
    int64_t full;   /* of so many slots rows settle; 0: not known                             */
    int64_t grown;  /* height of the matrices after rows have settled in this transaction, none
                     of them dead: more are coming; 0: not so                               */
    int64_t token;  /* random: no other table's on the same address                             */
    int64_t writes; /* so many changes, and ends of some that were undone; never goes back      */
    bool is_half_settled;   /* settling has begun to write                                  */
    bool is_in_transaction; /* between xBegin and xCommit or xRollback                      */
    bool is_marked;         /* changes of the index need no other state: nobody has looked */
    bool is_unannounced;    /* no xBegin and no xSavepoint yet: each row is written at once */
};

// What it has (vectors_rows.c) --------------------------------------------------------------------

/*
** "gx_vectors: note_vec: text" into zErrMsg; returns code, or SQLITE_* of err where code is 0.  Of
** a run, whose end has told the failure, by the second.
*/
int gx_vec_error(gx_vec_table *t, const gx_err *err, int code);
int gx_vec_run_error(gx_vec_table *t, const gx_err *err, int code);

/* The matrix of a column, checked; rows 0, where nothing has settled.  With the ctx held. */
gx_code gx_vec_matrix(gx_vec_table *t, int vector, gx_mat *E, gx_err *err);

/* Rows of the matrices, which are of one height. */
gx_code gx_vec_height(gx_vec_table *t, int64_t *rows, gx_err *err);

/* "schema.matrix" */
void gx_vec_full_name(const gx_vec_table *t, const char *matrix, char full[2 * GX_NAME_MAX + 2]);

/* fn as one storing call. */
gx_code gx_vec_store(gx_vec_table *t, gx_code (*fn)(gx_run *, gx_vec_table *, void *, gx_err *),
                     void *arg, gx_err *err);

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

/*
** NAME_new from behind a slot on, whose BLOBs are as long as they must be, and how many of the rows
** have slots up to `entered`; cleared by the caller, on failure as well.
*/
gx_code gx_vec_read_fresh(gx_vec_table *t, int64_t after, int64_t entered, gx_vec_fresh *fresh,
                          gx_err *err);
void gx_vec_fresh_clear(gx_vec_fresh *fresh, gx_mem *mem);
void gx_vec_forget_fresh(gx_vec_table *t); /* the table's, if there is no cursor: it stands by */
bool gx_vec_recall_fresh(gx_vec_table *t); /* whether it is there again, or still         */
gx_code gx_vec_know_fresh(gx_vec_table *t, int64_t after, gx_err *err); /* as of now: it */
gx_code gx_vec_count_dead(gx_vec_table *t, int64_t *dead, gx_err *err);
/* Bits of the rows of the matrices that are alive, the run's to free; NULL: all are. */
gx_code gx_vec_alive(gx_run *run, gx_vec_table *t, int64_t rows, uint64_t **bits, gx_err *err);
/* The one number of a statement of one number, or none; NULL is 0. */
gx_code gx_vec_count(gx_vec_table *t, gx_vectors_sql which, int64_t of, int64_t *count,
                     gx_err *err);

/*
** What tells whether the tables have changed: what was read is still so where no other connection
** has committed and this one has changed nothing.  *is_settled: no transaction writes, whose
** changes may be undone.
*/
gx_code gx_vec_state(gx_vec_table *t, int64_t *version, int64_t *changes, bool *is_settled,
                     gx_err *err);

/* The governor keeps no fewer bytes. */
#define GX_VEC_KEPT_BYTES ((size_t)1 << 20)

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

/* idxNum, ASKED: gx_plan is wanted, and no search; conditions that xFilter takes */
enum {
    GX_VEC_PLAN_MATCH = 1,
    GX_VEC_PLAN_BY_ROWID = 2,
    GX_VEC_PLAN_FALLING = 4,
    GX_VEC_PLAN_ASKED = 8
};
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

/*
** *blob: a value as the bytes of a BLOB of the column, column->bytes of them: the value's own, or
** *made, which the caller frees whatever this returns.
*/
gx_code gx_vec_take(gx_vec_table *t, const gx_vec_column *column, sqlite3_value *value, char **made,
                    const char **blob, gx_err *err);

/* The same as dims doubles: a query. */
gx_code gx_vec_take_query(gx_vec_table *t, const gx_vec_column *column, sqlite3_value *value,
                          double *query, gx_err *err);

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

/* The head of NAME_list, as it is stored: the table's own where it has been checked. */
typedef struct gx_vec_index {
    int64_t magic;
    int64_t vector, metric, dims, lists;
    int64_t probe;   /* lists that a search looks at                           */
    int64_t round;   /* how often rows have been entered                       */
    int64_t entries; /* of all lists, those included whose rows are gone       */
    int64_t panels;  /* of all lists                                           */
    int64_t trained; /* rows that there were when centres were made            */
    int64_t wished_lists, wished_probe;
    double wished_recall;
    double recall; /* that was measured when it was made                     */
    int64_t slot;  /* rows of NAME_new up to this slot are in the index, too */
    int64_t state; /* another number after each change of NAME_list or NAME_full */
} gx_vec_index;

/* What becomes of conditions: asked about neighbours; a list, or bits, of the rows left. */
typedef enum gx_vec_way {
    GX_VEC_UNFILTERED,
    GX_VEC_ASKED_LATE,
    GX_VEC_LIST,
    GX_VEC_BITS
} gx_vec_way;

/* How a search would be made. */
typedef struct gx_vec_plan_facts {
    const gx_vec_index *index; /* NULL: without the index */
    gx_vec_index found;        /* it                      */
    gx_vec_way way;
    int64_t dead, fresh; /* rows of the matrix that are nobody's; rows that are not in it */
    int64_t asked;       /* neighbours               */
    int64_t left;        /* rows that conditions leave */
    bool is_estimated;   /* by a sample of the rows    */
} gx_vec_plan_facts;

typedef struct gx_vec_wish {
    int vector;
    const double *query; /* dims */
    int64_t k;
    const gx_vectors_term *terms;
    int count;
    int64_t probe;           /* lists of the index; 0: search without it; -1: as many as it says */
    double low, high;        /* of the distance                    */
    bool is_above, is_below; /* these themselves are not in it     */
    gx_vec_plan_facts *plan; /* to be filled, and no search is made; NULL: a search */
} gx_vec_wish;

/* Values, some at a time, as words of bytes; which have numbers in the order of their coming. */
typedef struct gx_vec_words {
    char *bytes;
    int64_t used, room;
    int64_t count, *start; /* words; where they begin, and the next one does */
    uint64_t *hash;
    int32_t *slot; /* numbers by hash; -1: none */
    int64_t slots;
} gx_vec_words;

/* Rows that have the same values in some columns: of the matrices, then of NAME_new. */
typedef struct gx_vec_kinds {
    bool is_known;
    gx_vec_words words; /* a kind's values */
    int64_t rows[2];    /* of the matrices, of NAME_new                   */
    int64_t *id;        /* rowid of a row of each kind                    */
    int64_t *first;     /* where each kind's rows begin in row, and the end */
    int32_t *row;
} gx_vec_kinds;

/*
** The queries that a cursor is expected to bring next, with the one at hand, and their lists once
** a search has made them: of the matrix, and of the rows that have not settled.
*/
typedef struct gx_vec_ahead {
    int64_t searches, size;     /* of the cursor; how many are to be read next time               */
    char *source;               /* SQL: rows of the columns that they come from                   */
    int from[GX_VEC_TERMS_MAX]; /* which of them has a term's values; 0: none, it has its own   */
    int64_t last, before;       /* rowid of the last one that was read; of the last before these  */
    bool is_off;                /* it does not pay                                                */
    bool is_stopped;            /* an interrupt came while it was looked for: the call's          */
    bool is_unmasked;           /* others' terms are not known: they are asked about near rows */
    int vector;                 /* below: of these and that state of the table                    */
    int64_t k, changes, writes;
    int64_t count, at, used; /* queries; the one at hand; how many came                       */
    double *query;           /* dims of each                                                  */
    int64_t asked[2];
    gx_neighbours list[2];
    bool is_masked;     /* each has its own terms, and the lists have rows that these let through */
    gx_vec_kinds kinds; /* of the terms' columns                                         */
    gx_vec_words groups;   /* the values of all terms                                       */
    int32_t *group;        /* of each query                                                 */
    sqlite3_value **value; /* of each group, those that the other table has               */
    int64_t values;
    uint64_t *bits[2]; /* words[] for each query                                        */
    int64_t words[2];
} gx_vec_ahead;

/* Is the query among those of `ahead`, as number `at`?  Others are read where that may pay. */
bool gx_vec_look_ahead(gx_vec_table *t, gx_vec_ahead *ahead, const gx_vec_wish *wish);
void gx_vec_ahead_drop(gx_vec_ahead *ahead, gx_mem *mem); /* the queries and their lists       */
void gx_vec_ahead_clear(gx_vec_ahead *ahead, gx_mem *mem);

/*
** The k nearest rows of those that the terms let through, exactly; of equal distances the smaller
** ids.  fn: the call around it.  ahead: of the cursor.
*/
bool gx_vec_search(gx_fn *fn, gx_vec_table *t, const gx_vec_wish *wish, gx_vec_ahead *ahead,
                   gx_vec_hits *hits);
/* The same of all rows for each query of Q, whose ids are the lists' numbers. */
bool gx_vec_search_all(gx_fn *fn, gx_vec_table *t, int vector, const gx_knn_args *args,
                       gx_neighbours *out);
void gx_vec_hits_clear(gx_vec_hits *hits, gx_mem *mem);

// Conditions of several queries (vectors_kinds.c) -------------------------------------------------

/* More of a word; its end.  *number: of the word, -1: there is none such, and none is added. */
gx_code gx_vec_put_value(gx_vec_words *w, gx_mem *mem, sqlite3_value *value, gx_err *err);
gx_code gx_vec_put_term(gx_vec_words *w, gx_mem *mem, const gx_vectors_term *term, gx_err *err);
gx_code gx_vec_end_word(gx_vec_words *w, gx_mem *mem, bool adds, int64_t *number, gx_err *err);
void gx_vec_words_clear(gx_vec_words *w, gx_mem *mem);

/* Kinds by the columns of the terms; not is_known: there are too many.  Cleared by the caller. */
gx_code gx_vec_find_kinds(gx_vec_table *t, const gx_vectors_term *terms, int count,
                          gx_vec_kinds *kinds, gx_err *err);
void gx_vec_kinds_clear(gx_vec_kinds *kinds, gx_mem *mem);

/* The rows that each query of `ahead` is left with: a->bits. */
gx_code gx_vec_make_masks(gx_vec_table *t, gx_vec_ahead *a, const gx_vec_wish *wish, gx_err *err);

/* These in args, or as lists, C of *list, which is the caller's to free. */
gx_code gx_vec_mask(gx_vec_table *t, const gx_vec_ahead *a, int which, gx_knn_args *args, gx_mat *C,
                    double **list, gx_err *err);

// Plans of searches (vectors_explain.c) -----------------------------------------------------------

/* How that search would be made, as JSON: sqlite3_free(). */
bool gx_vec_explain(gx_fn *fn, gx_vec_table *t, const gx_vec_wish *wish, char **text);

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

/* And no row of the matrices is dead any more; the index, if there is to be one, has all rows. */
gx_code gx_vec_settle_all(gx_vec_table *t, gx_err *err);

// The index (vectors_index.c, vectors_lists.c) ----------------------------------------------------

/* The row of NAME_list that has panel `part` of a list, from 1 on; list -1: of the centres. */
static inline int64_t gx_vec_list_key(int64_t list, int64_t part)
{
    return (list + 1) << 24 | part;
}

/* *found false: there is none. */
gx_code gx_vec_read_index(gx_vec_table *t, gx_vec_index *index, bool *found, gx_err *err);
gx_code gx_vec_put_index(gx_vec_table *t, const gx_vec_index *index, gx_err *err); /* a new state */
gx_vec_index gx_vec_new_index(const gx_vec_index_wish *wish, const gx_vec_column *column);

/* Rows that are to be entered, with what is known of them before anything is written. */
typedef struct gx_vec_entries {
    bool has_index;
    gx_vec_index index;
    int64_t count, capacity;
    int64_t *ids;
    int32_t *list;
    gx_row_facts facts;
    int8_t *codes; /* row after row */
    void *block;
} gx_vec_entries;

/* Room for so many. */
gx_code gx_vec_make_entries(gx_vec_table *t, const gx_vec_index *index, int64_t capacity,
                            gx_vec_entries *e, gx_err *err);
/* Rows behind those that are there, with their lists and codes; C: the centres.  There is room. */
gx_code gx_vec_add_entries(gx_run *run, gx_vec_table *t, const gx_mat *C, const int64_t *ids,
                           const char *data, int64_t count, gx_vec_entries *e, gx_err *err);
/* They become rows of lists, which have none yet (is_new), or of NAME_full. */
gx_code gx_vec_write_lists(gx_vec_table *t, gx_vec_entries *e, bool is_new, gx_err *err);
gx_code gx_vec_write_full(gx_vec_table *t, const gx_vec_index *index, const int64_t *ids,
                          const char *data, int64_t count, gx_err *err);

/* Rows that settle, whose elements lie row after row: nothing where there is no index.  Cleared. */
gx_code gx_vec_prepare_entries(gx_run *run, gx_vec_table *t, const int64_t *ids,
                               const char *const *data, int64_t count, gx_vec_entries *e,
                               gx_err *err);
gx_code gx_vec_write_entries(gx_vec_table *t, gx_vec_entries *e, const char *const *data,
                             gx_err *err);
void gx_vec_clear_entries(gx_vec_entries *e, gx_mem *mem);

/* The last slot of NAME_new whose row the index has; 0: none; -1: there is no index. */
gx_code gx_vec_entered_slot(gx_vec_table *t, int64_t *slot, gx_err *err);

/* Rows of NAME_new enter the index, if they are many: before a transaction is committed. */
gx_code gx_vec_enter_new(gx_vec_table *t, gx_err *err);

/* Row id is gone from where it was, gx_pos. */
gx_code gx_vec_leave_index(gx_vec_table *t, int64_t id, int64_t pos, gx_err *err);

/*
** INSERT INTO t(k) VALUES('index VECTOR LISTS PROBE RECALL'), or 'index drop', for which vector is
** -1: what gx_index() says.
*/
gx_code gx_vec_take_index(const gx_vec_table *t, const char *text, gx_vec_index_wish *wish,
                          gx_err *err);

/* There is none then, whatever there was: no table is dropped while a statement runs. */
gx_code gx_vec_clear_index(gx_vec_table *t, gx_err *err);

/* The index is made: one storing call.  All that waits has settled. */
gx_code gx_vec_make_index(gx_vec_table *t, const gx_vec_index_wish *wish, gx_err *err);

/* The index is made, if CREATE says that there is to be one, or made anew where it is worn. */
gx_code gx_vec_renew_index(gx_vec_table *t, gx_err *err);

/* All of it is looked at: what is wrong, as a line. */
gx_code gx_vec_check_index(gx_vec_table *t, const gx_vec_index *index, gx_err *err);

/*
** The best of the rows that the index has, and that `passes` lets through, by merit and id: so many
** as there are, at most k, into the lists; *count of them.  *is_done false: a search of all rows is
** wanted instead.  is_filtered: not all pass.
*/
typedef struct gx_vec_probing {
    const gx_vec_index *index;
    const double *query;
    int64_t k, probe;
    bool is_filtered;
    bool (*passes)(void *arg, int64_t id);
    void *arg;
    double *merit;
    int64_t *id;
    int64_t count;
    bool is_done;
} gx_vec_probing;

bool gx_vec_search_lists(gx_fn *fn, gx_vec_table *t, gx_vec_probing *p);

/* Numbers of lists, the nearest to a query first: all of them. */
gx_code gx_vec_rank_lists(gx_run *run, gx_vec_table *t, const gx_vec_index *index,
                          const double *query, int32_t *order, gx_err *err);

/* The panels of the centres, gx_ivf_centres_bytes() of them. */
gx_code gx_vec_read_centres(gx_vec_table *t, const gx_vec_index *index, void *bytes, gx_err *err);

gx_code gx_vec_write_centres(gx_vec_table *t, const gx_vec_index *index, const void *bytes,
                             gx_err *err);
/* Centres as a matrix: C, whose numbers are the caller's to free. */
gx_code gx_vec_centre_matrix(gx_vec_table *t, const gx_vec_index *index, float **numbers, gx_mat *C,
                             gx_err *err);

#endif
