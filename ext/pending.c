/*
** Empty tables for files that have not landed: weak, so that the real ones replace them.
** This file goes when the last of them is there.
*/
#include "gx_ext.h"

#define WEAK __attribute__((weak))

WEAK const gx_function gx_functions_algebra[] = {{.name = NULL}};
WEAK const gx_function gx_functions_store[] = {{.name = NULL}};
WEAK const gx_function gx_functions_make[] = {{.name = NULL}};
WEAK const gx_function gx_functions_look[] = {{.name = NULL}};
WEAK const gx_function gx_functions_files[] = {{.name = NULL}};
WEAK const gx_function gx_functions_control[] = {{.name = NULL}};

static int nothing(sqlite3 *db, gx_ctx *ctx)
{
    (void)db;
    (void)ctx;
    return SQLITE_OK;
}

WEAK int gx_register_aggregates(sqlite3 *db, gx_ctx *ctx)
{
    return nothing(db, ctx);
}

WEAK int gx_register_catalog(sqlite3 *db, gx_ctx *ctx)
{
    return nothing(db, ctx);
}

WEAK int gx_register_cells(sqlite3 *db, gx_ctx *ctx)
{
    return nothing(db, ctx);
}

WEAK int gx_register_control(sqlite3 *db, gx_ctx *ctx)
{
    return nothing(db, ctx);
}
