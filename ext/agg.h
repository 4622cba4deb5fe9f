/*
** Shared by the aggregates that make matrices: gx_from_cells, gx_store_cells (agg_cells.c),
** gx_from_rows, gx_store_rows (agg_rows.c).
*/
#ifndef GX_AGG_H
#define GX_AGG_H

#include "gx_ext.h"

#include "../core/scatter.h"

/* One aggregate function of one connection: SQLite's user data. */
typedef struct gx_agg_binding {
    gx_ctx *ctx;
    const char *function; /* "gx_store_cells": static         */
    bool is_stored;       /* the first argument is a name     */
    int max_args;         /* without name and options         */
} gx_agg_binding;

/* What to take back should the statement fail (agg_undo.c). */
typedef struct gx_agg_undo gx_agg_undo;

/* State between the rows of one group; SQLite clears it before the first. */
typedef struct gx_agg {
    const gx_agg_binding *bound; /* NULL before the first row                    */
    bool is_failed;              /* the error has been reported                  */
    int first;                   /* place of i among the arguments               */
    int argc;                    /* arguments, name included, options not        */
    int64_t input_row;           /* rows so far, for messages                    */
    bool is_replacing;
    bool is_dtype_given; /* by the options                               */
    gx_scatter_spec spec;
    char name[2 * GX_NAME_MAX + 2]; /* destination; "" for a value               */
    gx_agg_undo *undo;              /* of the storing ones: belongs to the statement */
    struct gx_scatter *scatter;     /* of gx_*_cells                                */
    struct gx_stack *stack;         /* of gx_*_rows                                 */
} gx_agg;

/*
** The state of this group, the row counted; at the first row arguments and options are read and the
** destination is looked at.  is_first: OUT.  NULL: failed, and reported.
*/
gx_agg *gx_agg_step(sqlite3_context *sql, int argc, sqlite3_value **argv, bool *is_first);

/* Report a failure of the step as "gx_fn: text (input row 17)". */
void gx_agg_fail(sqlite3_context *sql, gx_agg *agg, const gx_err *err);

/* The state at the end; NULL: there was no row, or it failed: what there is to free is agg's. */
gx_agg *gx_agg_final(sqlite3_context *sql);

/* What an aggregate without a row gives: an empty matrix value, or NULL from the storing ones. */
void gx_agg_result_empty(sqlite3_context *sql);

/* The statement's note, made at its first call; belongs to SQLite.  Only in a step function. */
gx_code gx_agg_undo_note(sqlite3_context *sql, gx_ctx *ctx, gx_agg_undo **undo, gx_err *err);

/* The final function has stored a matrix: the last thing it does. */
void gx_agg_undo_stored(gx_agg_undo *undo, const char *name, int64_t id);

/* An index of the row: an integer of SQLite, or a real number that is one. */
gx_code gx_agg_index(sqlite3_value *value, const char *label, int64_t *index, gx_err *err);

/* End the sink and the run, and give SQLite the result or the error. */
void gx_agg_result(sqlite3_context *sql, gx_agg *agg, gx_run *run, gx_sink *sink);

/* Register one aggregate.  Returns SQLITE_*. */
int gx_agg_register(sqlite3 *db, gx_ctx *ctx, const gx_agg_binding *binding,
                    void (*step)(sqlite3_context *, int, sqlite3_value **),
                    void (*final)(sqlite3_context *));

int gx_register_row_aggregates(sqlite3 *db, gx_ctx *ctx); /* agg_rows.c; called by agg_cells.c */

#endif
