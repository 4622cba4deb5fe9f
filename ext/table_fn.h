/*
** Table-valued functions whose rows are all there when the scan begins: gx_eig(A), gx_svd(A).
**
** Such a function gives a gx_table_fn: its name and counts of arguments, its columns, and three
** callbacks.  begin computes (with the gx_fn_* helpers, as a scalar function's body does), column
** puts one number, text or matrix value, clear frees.  Its line in GX_TABLE_FNS registers it, and
** table_fn.c does the rest of the virtual table.  A table that shows a connection to itself has
** look in the place of begin.
*/
#ifndef GX_TABLE_FN_H
#define GX_TABLE_FN_H

#include "gx_ext.h"

enum { GX_TABLE_COLUMNS_MAX = 20, GX_TABLE_ARGS_MAX = 8, GX_TABLE_RANGED_MAX = 2 };

/* What a statement asks of the rows: nothing it does not ask for needs to be there. */
typedef struct gx_table_wish {
    uint32_t used; /* bit c: column c may be asked for */
    int64_t low[GX_TABLE_RANGED_MAX], high[GX_TABLE_RANGED_MAX]; /* of the ranged columns         */
    int64_t limit;   /* the first so many rows                                */
    bool is_falling; /* by the `falling` column, the largest first            */
    double floor;    /* of that column, what is less is not looked at         */
} gx_table_wish;

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

    /*
    ** In its place, where the first `ranged` columns are integers by which the rows come ordered:
    ** what WHERE, ORDER BY and LIMIT say of these.  SQLite looks at what came once more.
    */
    bool (*begin_within)(gx_fn *fn, const gx_table_wish *wish, void *state, int64_t *rows);
    int ranged;
    int falling; /* a column, not the first, of which it can leave out what is less than a number,
                    and by which it can give the rows falling; 0: none */

    /* Instead of begin, without arguments: no call of gx, so it counts nothing and cannot fail. */
    void (*look)(gx_ctx *ctx, void *state, int64_t *rows);
    void (*column)(void *state, gx_ctx *ctx, int64_t row, int column, sqlite3_context *sql);
    void (*clear)(void *state); /* NULL: nothing is to be freed */
} gx_table_fn;

/* A comparison of SQLITE_INDEX_CONSTRAINT_* in a plan's text: = < l(<=) > g(>=); 0: another. */
char gx_comparison_letter(int op);

/* All of them: gx_table_NAME stands in the file named beside it.  docs/how-to-add-a-table.md */
#define GX_TABLE_FNS(TABLE)                                                                        \
    TABLE(eig) /* vtab_eig.c  */                                                                   \
    TABLE(svd)                                                                                     \
    TABLE(qr) /* vtab_qr.c   */                                                                    \
    TABLE(lstsq)                                                                                   \
    TABLE(lu)     /* fn_lu.c     */                                                                \
    TABLE(logdet) /* fn_det.c    */                                                                \
    TABLE(plan)   /* vtab_plan.c */                                                                \
    TABLE(pca)    /* fn_pca.c    */                                                                \
    TABLE(topk)   /* vtab_topk.c */                                                                \
    TABLE(histogram)                                                                               \
    TABLE(volumes) /* fn_volumes.c: gx_volume */                                                   \
    TABLE(knn) /* vtab_knn.c */                                                                    \
    TABLE(spread) /* fn_graph.c */                                                                 \
    TABLE(help) /* fn_help.c */                                                                    \
    TABLE(settings) /* vtab_control.c */                                                           \
    TABLE(stats)                                                                                   \
    TABLE(predictions)                                                                             \
    TABLE(devices)

#define GX_TABLE_DECLARE(name) extern const gx_table_fn gx_table_##name;
GX_TABLE_FNS(GX_TABLE_DECLARE)
#undef GX_TABLE_DECLARE

/*
** A matrix value as a column's result: rows x cols of dtype, column-major, elements `stride` apart
** down a column (1: contiguous), columns ld apart.
*/
void gx_table_result_matrix(sqlite3_context *sql, gx_ctx *ctx, const char *name, gx_number dtype,
                            int64_t rows, int64_t cols, const void *data, int64_t stride,
                            int64_t ld);

#endif
