/*
** Shared by the aggregates that make matrices: gx_from_cells, gx_store_cells (agg_cells.c),
** gx_from_rows, gx_store_rows (agg_rows.c).
*/
#ifndef GX_AGG_H
#define GX_AGG_H

#include "gx_ext.h"

#include "../core/mat/assembly.h"

typedef struct gx_agg gx_agg;

/* What the first row's options say. */
typedef struct gx_agg_options {
    int64_t rows, cols;
    gx_dest dest; /* without the name */
    char duplicates[64], gaps[64];
    const char *ids;
    bool has_rows, has_cols, sparse, number;
} gx_agg_options;

#define GX_AGG_KEY(key, type, field) {key, type, offsetof(gx_agg_options, field), 0}
#define GX_AGG_KEY_SET(key, type, field, has) \
    {key, type, offsetof(gx_agg_options, field), offsetof(gx_agg_options, has)}
#define GX_AGG_KEYS /* of all of them */ \
    GX_AGG_KEY_SET("rows", GX_OPT_INT, rows, has_rows), \
        GX_AGG_KEY_SET("cols", GX_OPT_INT, cols, has_cols), \
        GX_AGG_KEY_SET("dtype", GX_OPT_DTYPE, dest.dtype, dest.has_dtype), \
        GX_AGG_KEY("saturate", GX_OPT_BOOL, dest.saturate), \
        GX_AGG_KEY("duplicates", GX_OPT_TEXT, duplicates), \
        GX_AGG_KEY("sparse", GX_OPT_BOOL, sparse)

/* What collects rows, one state a group: agg->collector, NULL before create and after drop. */
typedef struct gx_agg_kind {
    const char *from, *store; /* names of the two functions                                  */
    int max_args;             /* without name and options                                    */
    const gx_option *from_keys, *store_keys; /* into a gx_agg_options                         */
    gx_code (*create)(gx_agg *agg, gx_err *err);
    gx_code (*add)(gx_agg *agg, sqlite3_value **argv, gx_err *err); /* one row of the query  */
    gx_code (*finish)(gx_agg *agg, gx_run *run, const gx_dest *dest, gx_sink *sink);
    void (*drop)(gx_agg *agg); /* nothing where there is no collector                        */
} gx_agg_kind;

/* One aggregate function of one connection: SQLite's user data. */
typedef struct gx_agg_binding {
    gx_ctx *ctx;
    const gx_agg_kind *kind;
    const char *function; /* "gx_store_cells": static         */
    bool is_stored;       /* the first argument is a name     */
} gx_agg_binding;

/* What to take back should the statement fail (agg_undo.c). */
typedef struct gx_agg_undo gx_agg_undo;

/* State between the rows of one group; SQLite clears it before the first. */
struct gx_agg {
    const gx_agg_binding *bound; /* NULL before the first row                    */
    bool is_failed;              /* the error has been reported                  */
    int first;                   /* place of i among the arguments               */
    int argc;                    /* arguments, name included, options not        */
    int64_t input_row;           /* rows so far, for messages                    */
    gx_dest dest;                /* without the name                             */
    gx_dtype raw;                /* of a row that is raw bytes                   */
    gx_scatter_spec spec;
    char name[2 * GX_NAME_MAX + 2]; /* destination; "" for a value               */
    char ids[2 * GX_NAME_MAX + 2];  /* of numbered rows; "": not wanted          */
    int64_t ids_id;                 /* of the matrix that was stored there       */
    gx_agg_undo *undo;              /* of the storing ones: belongs to the statement */
    void *collector;                /* of the kind                                  */
};

/* The statement's note, made at its first call; belongs to SQLite.  Only in a step function. */
gx_code gx_agg_undo_note(sqlite3_context *sql, gx_ctx *ctx, gx_agg_undo **undo, gx_err *err);

/* The final function has stored a matrix: the last thing it does. */
void gx_agg_undo_stored(gx_agg_undo *undo, const char *name, int64_t id);

/* An index of the row: an integer of SQLite, or a real number that is one. */
gx_code gx_agg_index(sqlite3_value *value, const char *label, int64_t *index, gx_err *err);

/* Register both functions of a kind, which is static.  Returns SQLITE_*. */
int gx_agg_register(sqlite3 *db, gx_ctx *ctx, const gx_agg_kind *kind);

int gx_register_row_aggregates(sqlite3 *db, gx_ctx *ctx); /* agg_rows.c; called by agg_cells.c */

#endif
