/*
** The shadow tables of a vector table (ext/vectors.h), which hold all of it but the vectors that
** have settled, which are stored matrices:
**
**   NAME_row   rowid, gx_pos, and the table's columns.  gx_pos >= 0: the vectors are row gx_pos of
**              the matrices; < 0: they are row -gx_pos of NAME_new
**   NAME_new   slot, id, v0, v1 ...: the vectors of rows that have not settled
**   NAME_dead  pos: rows of the matrices that are nobody's
**
** and, of a table with an index (ext/vectors_index.c):
**
**   NAME_list  key, data: the lists of the index, in panels
**   NAME_full  id, round, v: the indexed vector of each row that the index has
**
** docs/format.md is the contract.  Whoever steps a statement resets it.
*/
#ifndef GX_VECTOR_TABLES_H
#define GX_VECTOR_TABLES_H

#include "store.h"

struct sqlite3_value;

/* What the SQL texts are made of; all lent, as long as the tables are open. */
typedef struct gx_vectors_shape {
    const char *schema, *name;
    const char *key;           /* the column that is a text key, one of columns; NULL: none     */
    int columns;               /* of NAME_row beside rowid and gx_pos                           */
    const char *const *column; /* their names                                                   */
    const char *const *type;   /* and what follows these in CREATE TABLE: made of words alone   */
    int vectors;               /* of NAME_new                                                   */
} gx_vectors_shape;

typedef enum gx_vectors_sql {
    GX_VECTORS_INSERT,     /* (rowid, pos, columns ...)                           */
    GX_VECTORS_SET,        /* (rowid, pos, columns ...)                           */
    GX_VECTORS_MOVE,       /* (rowid, pos)                                        */
    GX_VECTORS_RENUMBER,   /* (rowid, new rowid)                                  */
    GX_VECTORS_DELETE,     /* (rowid)                                             */
    GX_VECTORS_ROW,        /* (rowid) -> rowid, pos, columns ...                  */
    GX_VECTORS_AT,         /* (pos) -> rowid                                      */
    GX_VECTORS_OF_KEY,     /* (key) -> rowid                                      */
    GX_VECTORS_PUT_NEW,    /* (slot, id, vectors ...)                             */
    GX_VECTORS_NEW,        /* (slot) -> slot, id, vectors ...                     */
    GX_VECTORS_ALL_NEW,    /* (slot) -> the same, of those behind it, by slot     */
    GX_VECTORS_COUNT_NEW,  /* (slot) -> count of those up to it                   */
    GX_VECTORS_LAST_SLOT,  /* () -> slot or NULL                                  */
    GX_VECTORS_DELETE_NEW, /* (slot)                                              */
    GX_VECTORS_CLEAR_NEW,  /* ()                                                  */
    GX_VECTORS_KILL,       /* (pos)                                               */
    GX_VECTORS_REVIVE,     /* (first pos, last pos)                               */
    GX_VECTORS_DEAD_IN,    /* (first pos, last pos) -> pos, ascending             */
    GX_VECTORS_DEAD_COUNT, /* () -> count                                         */
    GX_VECTORS_DEAD_TILES, /* (rows, least) -> tile, count: tiles of that many rows */
    GX_VECTORS_TAIL,       /* (pos) -> rowid, pos: from there on                  */
    GX_VECTORS_VERSION,    /* () -> changes when another connection commits       */
    GX_VECTORS_PUT_LIST,   /* (key, data)                                         */
    GX_VECTORS_LISTS,      /* (first key, last key) -> key, data, by key          */
    GX_VECTORS_LAST_LIST,  /* the same, the last one alone                        */
    GX_VECTORS_CLEAR_LIST, /* ()                                                  */
    GX_VECTORS_PUT_FULL,   /* (id, round, v)                                      */
    GX_VECTORS_FULL,       /* (id) -> round, v                                    */
    GX_VECTORS_DROP_FULL,  /* (id)                                                */
    GX_VECTORS_CLEAR_FULL, /* ()                                                  */
    GX_VECTORS_COUNT
} gx_vectors_sql;

/* A condition on a row: what stands in WHERE, and its value. */
typedef struct gx_vectors_term {
    int column;            /* -1: rowid                                           */
    int op;                /* SQLITE_INDEX_CONSTRAINT_...                         */
    const char *collation; /* by which SQLite would compare; NULL: none           */
    const char *list;      /* IN: a list as JSON; NULL: compare with value        */
    struct sqlite3_value *value;
} gx_vectors_term;

/*
** Is there a vector table of that name, by the text that made it?  Then it is connected.
*/
gx_code gx_vectors_connect(struct sqlite3 *db, const char *schema, const char *name, bool *found,
                           gx_err *err);

/*
** gx_settle, gx_index: a statement that writes to the table, so that SQLite begins and ends it as
** one.  command: what the table's xUpdate finds in its column k.
*/
gx_code gx_vectors_command(struct sqlite3 *db, const char *schema, const char *name,
                           const char *command, gx_err *err);

/*
** *use: a statement that is not run.  SQLite keeps what the table's module has of it, even where an
** error undoes its making, until the caller finalizes the statement.
*/
gx_code gx_vectors_use(struct sqlite3 *db, const char *schema, const char *name,
                       struct sqlite3_stmt **use, gx_err *err);

/*
** Rows of an ordinary table's column behind a rowid, as SQL: sqlite3_free(); NULL: there are none.
** The table by the number of its schema and its root page, the column by its number.
*/
char *gx_vectors_source(struct sqlite3 *db, int schema, int root, int column, bool *is_stopped);

/* Whether a term of that op can be; it need not be compared again by SQLite then. */
bool gx_vectors_takes(int op);

/* The tables, with the statements that have been used. */
typedef struct gx_vectors gx_vectors;
gx_code gx_vectors_open(gx_store *store, const gx_vectors_shape *shape, gx_vectors **out,
                        gx_err *err);
void gx_vectors_close(gx_vectors *v); /* NULL is a no-op */

/* CREATE, DROP; RENAME, after which shape->name is to be the new one.  Statements are let go. */
gx_code gx_vectors_make(gx_vectors *v, gx_err *err);
gx_code gx_vectors_drop(gx_vectors *v, gx_err *err);
gx_code gx_vectors_rename(gx_vectors *v, const char *name, gx_err *err);

/* The tables of an index: are both there; made where they are not. */
gx_code gx_vectors_has_index(gx_vectors *v, bool *has, gx_err *err);
gx_code gx_vectors_make_index(gx_vectors *v, gx_err *err);

gx_code gx_vectors_stmt(gx_vectors *v, gx_vectors_sql which, struct sqlite3_stmt **stmt,
                        gx_err *err);

/* Step: a row, or the end.  A constraint that fails is GX_ARG in SQLite's words; see the code. */
gx_code gx_vectors_step(gx_vectors *v, struct sqlite3_stmt *stmt, bool *is_row, gx_err *err);

/* Step a statement that has no rows, and reset it. */
gx_code gx_vectors_run(gx_vectors *v, struct sqlite3_stmt *stmt, gx_err *err);

/* Which rows, and what of them: the caller finalizes the statement. */
typedef enum gx_vectors_want {
    GX_VECTORS_ALL,       /* rowid, pos, columns ..., by rowid                        */
    GX_VECTORS_FALLING,   /* the same from the last one on                            */
    GX_VECTORS_ANY_ORDER, /* the same, in any order                                   */
    GX_VECTORS_ONE,       /* ?1 a rowid: the same                                     */
    GX_VECTORS_SETTLED,   /* pos, of those that have settled                          */
    GX_VECTORS_IS_AT,     /* ?1 a pos: rowid, if that row is one of them              */
    GX_VECTORS_IS_ROW     /* ?1 a rowid: that, in the same way                        */
} gx_vectors_want;

gx_code gx_vectors_select(gx_vectors *v, gx_vectors_want want, const gx_vectors_term *terms,
                          int count, struct sqlite3_stmt **stmt, gx_err *err);

/*
** PRAGMA integrity_check: what is wrong with the tables, beside a matrix of that many rows and an
** index that has the slots of NAME_new up to `entered`, -1: there is none, as lines.
*/
gx_code gx_vectors_check(gx_vectors *v, int64_t rows, int64_t entered, gx_store_report fn,
                         void *arg, gx_err *err);

#endif
