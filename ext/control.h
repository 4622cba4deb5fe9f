/*
** Shared by the files of control: fn_control.c, selftest.c, benchmark.c, vtab_control.c.
*/
#ifndef GX_CONTROL_H
#define GX_CONTROL_H

#include "gx_ext.h"

#include "gx.h"

/* A setting's value as SQLite's result: sizes and counts as integers, words as text. */
void gx_result_setting(sqlite3_context *sql, gx_setting setting, const char *text, int64_t number);

/*
** A connection of our own with gx on it, as it is on ctx's: ":memory:", or "" for a database in a
** temporary file.  *made is what it has, freed with it.  On failure *db is NULL and text says why.
** Closed by sqlite3_close().
*/
int gx_open_private(gx_ctx *ctx, const char *path, sqlite3 **db, gx_ctx **made, char *text,
                    size_t bytes);

/* The bodies of gx_selftest() and gx_benchmark([force]). */
void gx_fn_selftest(gx_fn *fn);
void gx_fn_benchmark(gx_fn *fn);

#endif
