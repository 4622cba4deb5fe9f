/*
** Table-valued functions whose rows are all there when the scan begins: gx_eig(A), gx_svd(A).
**
** Such a function gives a gx_table_fn: its name and counts of arguments, its columns, and three
** callbacks.  begin computes (with the gx_fn_* helpers, as a scalar function's body does), column
** puts one number, text or matrix value, clear frees.  table_fn.c does the rest of the virtual
** table.
*/
#ifndef GX_TABLE_FN_H
#define GX_TABLE_FN_H

#include "gx_ext.h"

enum { GX_TABLE_COLUMNS_MAX = 20, GX_TABLE_ARGS_MAX = 8 };

typedef struct gx_table_fn {
    gx_function def;    /* name, min_args, max_args (the options included); body NULL */
    const char *shape;  /* "CREATE TABLE x(k INTEGER, value REAL, ..., a HIDDEN, options HIDDEN)":
                          the visible columns, then one hidden column an argument            */
    int columns;        /* visible ones                                                        */
    size_t state_bytes; /* of the state of a scan, zeroed before begin                         */

    /*
    ** Compute the rows.  used: bit c set when column c may be asked for.  false: the run has failed
    ** (clear is called all the same).  What outlives the call is not the call's own memory.
    */
    bool (*begin)(gx_fn *fn, uint32_t used, void *state, int64_t *rows);
    void (*column)(void *state, gx_ctx *ctx, int64_t row, int column, sqlite3_context *sql);
    void (*clear)(void *state);
} gx_table_fn;

/* table must be static.  Returns SQLITE_*. */
int gx_register_table_fn(sqlite3 *db, gx_ctx *ctx, const gx_table_fn *table);

/*
** A matrix value as a column's result: rows x cols of dtype, column-major, elements `stride` apart
** down a column (1: contiguous), columns ld apart.
*/
void gx_table_result_matrix(sqlite3_context *sql, gx_ctx *ctx, const char *name, gx_dtype dtype,
                            int64_t rows, int64_t cols, const void *data, int64_t stride,
                            int64_t ld);

#endif
