/*
** What agg_undo.c does for the aggregates that store matrices (agg.c).
*/
#ifndef GX_AGG_H
#define GX_AGG_H

#include "gx_ext.h"

/* What to take back should the statement fail. */
typedef struct gx_agg_undo gx_agg_undo;

/* The statement's note, made at its first call; belongs to SQLite.  Only in a step function. */
gx_code gx_agg_undo_note(sqlite3_context *sql, gx_ctx *ctx, gx_agg_undo **undo, gx_err *err);

/* The final function has stored a matrix: the last thing it does. */
void gx_agg_undo_stored(gx_agg_undo *undo, const char *name, int64_t id);

#endif
