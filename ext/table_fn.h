/*
** Table-valued functions whose rows are all there when the scan begins: gx_eig(A), gx_svd(A).
**
** Such a function gives a gx_table_fn: its name and counts of arguments, its columns, and three
** callbacks.  begin computes (with the gx_fn_* helpers, as a scalar function's body does), cell
** gives one number, text or matrix value, clear frees.  Its line in GX_TABLE_FNS registers it, and
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
    int64_t begin[GX_TABLE_RANGED_MAX], end[GX_TABLE_RANGED_MAX]; /* of the ranged columns */
    int64_t limit;   /* the first so many rows                                */
    bool is_falling; /* by the `falling` column, the largest first            */
    double floor;    /* of that column, what is less is not looked at         */
} gx_table_wish;

/* What a row has in a column; all zero: NULL. */
typedef struct gx_cell {
    enum {
        GX_CELL_NULL,
        GX_CELL_INT,
        GX_CELL_REAL,
        GX_CELL_TEXT,
        GX_CELL_BLOB,
        GX_CELL_VECTOR
    } type;
    gx_number number; /* of a vector */
    union {
        int64_t integer; /* or bytes, or elements */
        double real;
    };
    const void *data;
    int64_t stride; /* of a vector */
} gx_cell;

static inline gx_cell gx_cell_int(int64_t value)
{
    return (gx_cell){.type = GX_CELL_INT, .integer = value};
}

static inline gx_cell gx_cell_real(double value)
{
    return (gx_cell){.type = GX_CELL_REAL, .real = value};
}

/* NaN: NULL. */
static inline gx_cell gx_cell_number(double value)
{
    return isnan(value) ? (gx_cell){0} : gx_cell_real(value);
}

/* bytes -1: as far as its NUL.  text NULL: NULL. */
static inline gx_cell gx_cell_text(const char *text, int64_t bytes)
{
    return (gx_cell){.type = text == NULL ? GX_CELL_NULL : GX_CELL_TEXT, .integer = bytes,
                     .data = text};
}

/* n elements, so many apart, as a column; data NULL: NULL. */
static inline gx_cell gx_cell_vector(gx_number number, int64_t n, const void *data, int64_t stride)
{
    return (gx_cell){.type = data == NULL ? GX_CELL_NULL : GX_CELL_VECTOR, .number = number,
                     .integer = n, .data = data, .stride = stride};
}

/* The cell as SQLite's result; function: for a failure. */
void gx_cell_result(sqlite3_context *sql, gx_ctx *ctx, const char *function,
                    const gx_cell *cell);

/* A matrix that a scan keeps until it ends; all zero: none. */
typedef struct gx_kept {
    gx_mem *mem;
    gx_value_buf value;
} gx_kept;

/* Argument 0 is a model, of gx_lda or of another: a copy of it, the caller's, and what it has. */
struct gx_model;
bool gx_fn_model(gx_fn *fn, bool is_discriminant, void **copy, struct gx_model *model);

/* Ends a sink of a value. */
bool gx_keep(gx_fn *fn, gx_sink *sink, gx_kept *kept);
void gx_kept_clear(gx_kept *kept);
gx_cell gx_kept_cell(const gx_kept *kept);

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
    gx_cell (*cell)(void *state, gx_ctx *ctx, int64_t row, int column);
    void (*column)(void *state, gx_ctx *ctx, int64_t row, int column,
                   sqlite3_context *sql); /* or as a result at once */
    void (*clear)(void *state); /* NULL: nothing is to be freed */
} gx_table_fn;

/* All of them: gx_table_NAME stands in the file named beside it.  docs/how-to-add-a-table.md */
#define GX_TABLE_FNS(TABLE)                                                                        \
    TABLE(eig) /* fn_eig.c    */                                                                   \
    TABLE(svd)                                                                                     \
    TABLE(lu) /* fn_factor.c */                                                                    \
    TABLE(qr)                                                                                      \
    TABLE(schur)                                                                                   \
    TABLE(hessenberg)                                                                              \
    TABLE(polar)                                                                                   \
    TABLE(ldl)                                                                                     \
    TABLE(qz)                                                                                      \
    TABLE(lm_terms) /* vtab_lm.c   */                                                             \
    TABLE(lm_model)                                                                                \
    TABLE(lm_anova)                                                                                \
    TABLE(cca) /* vtab_multi.c */                                                                  \
    TABLE(factor)                                                                                  \
    TABLE(lda_axes)                                                                                \
    TABLE(lda_groups)                                                                              \
    TABLE(lstsq)  /* fn_lstsq.c  */                                                                \
    TABLE(logdet) /* fn_det.c    */                                                                \
    TABLE(plan)   /* vtab_plan.c */                                                                \
    TABLE(pca)    /* fn_pca.c    */                                                                \
    TABLE(topk)   /* vtab_topk.c */                                                                \
    TABLE(histogram)                                                                               \
    TABLE(volumes) /* fn_volumes.c: gx_volume */                                                   \
    TABLE(knn) /* fn_similar.c */                                                                  \
    TABLE(spread) /* fn_graph.c */                                                                 \
    TABLE(test) /* fn_tests.c */                                                                   \
    TABLE(objects) /* fn_grid.c */                                                                 \
    TABLE(help) /* fn_help.c */                                                                    \
    TABLE(settings) /* vtab_control.c */                                                           \
    TABLE(stats)                                                                                   \
    TABLE(events)                                                                                  \
    TABLE(predictions)                                                                             \
    TABLE(devices)

#define GX_TABLE_DECLARE(name) extern const gx_table_fn gx_table_##name;
GX_TABLE_FNS(GX_TABLE_DECLARE)
#undef GX_TABLE_DECLARE

#endif
