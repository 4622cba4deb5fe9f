/*
** Grids: small matrices of colours, alone or many in one matrix, and operations on them.
**
** A colour is a whole number of 32 bits, -2^31 left out.  A set of places is a mask: not 0 where a
** place is in it.  Objects are labels: 0 where there is none, else 1, 2 ... in the order of their
** first cells, row by row.
**
** A batch is one matrix of grids that stand one below the other, from column 0 on.  What lies
** beside and between them is not looked at, and 0 in results.
*/
#ifndef GX_GRID_H
#define GX_GRID_H

#include "../mat/mat.h"

/*
** Where a grid of more cells is labelled alone, its most frequent colour is looked for from
** -GX_COLOUR_MOST to GX_COLOUR_MOST.
*/
enum { GX_COLOUR_MOST = 65536, GX_GRID_SMALL = 1 << 16 };

// Batches -----------------------------------------------------------------------------------------

typedef struct gx_grid_place {
    int64_t row, rows, cols; /* the first row in the matrix, and the shape */
} gx_grid_place;

typedef struct gx_grid_batch {
    const char *label;    /* of the matrix, for messages           */
    int64_t rows, cols;   /* of the matrix                         */
    int64_t count;        /* of grids, by ascending rows           */
    gx_grid_place *place; /* gx_mem_free() of run->ctx->mem        */
} gx_grid_batch;

/* A alone. */
gx_code gx_grid_batch_one(gx_run *run, const gx_mat *A, gx_grid_batch *batch);

/* Grids of so many rows each, and all columns.  GX_ARG where these do not divide A's rows. */
gx_code gx_grid_batch_even(gx_run *run, const gx_mat *A, int64_t height, gx_grid_batch *batch);

/*
** As a table says: a row (first row, rows, cols) for each.  GX_ARG names the first row of it that
** is not in A, has no cell, or does not begin behind the one before.
*/
gx_code gx_grid_batch_table(gx_run *run, const gx_mat *A, const gx_mat *table,
                            gx_grid_batch *batch);

// Labels ------------------------------------------------------------------------------------------

/* Which cells are of objects, and whether those of an object are of one colour. */
typedef enum gx_grid_by {
    GX_BY_NONZERO,
    GX_BY_COLOUR,                /* not 0; of one colour                                        */
    GX_BY_NOT_BACKGROUND,        /* not the most frequent colour, the smallest of several       */
    GX_BY_COLOUR_NOT_BACKGROUND, /* the same; of one colour                                     */
    GX_BY_ALL,                   /* all cells                                                   */
    GX_BY_COLOUR_ALL             /* all; of one colour                                          */
} gx_grid_by;

#define GX_GRID_BY_WORDS "nonzero|colour|not_background|colour_not_background|all|colour_all"

typedef struct gx_label_rule {
    int neighbours; /* 4, or 8 with those at the corners */
    gx_grid_by by;
} gx_label_rule;

/*
** C = the connected components of A, numbered row by row as SciPy does it.  A need not fit in
** memory: two passes over strips of rows, which are labelled alone and joined at their edges.
** Strips are of gx_label_tiles() rows, as the tiles of C have to be.
*/
gx_code gx_grid_label(gx_run *run, const gx_mat *A, const gx_label_rule *rule, gx_sink *C);
void gx_label_tiles(gx_run *run, const gx_mat *A, int64_t *tile_rows, int64_t *tile_cols);

/* An object: places are of its grid. */
typedef struct gx_grid_object {
    int64_t grid, label, cells;
    int64_t top, left, bottom, right; /* the box, its last row and column included */
    int64_t row_sum, col_sum;         /* of its cells                              */
    int32_t colour;
    bool is_mixed; /* it has other colours beside that */
} gx_grid_object;

typedef struct gx_grid_objects {
    gx_grid_object *object; /* of grid 0 in the order of labels, of grid 1 ...; gx_mem_free() */
    int64_t count, capacity;
} gx_grid_objects;

/* The objects of all grids.  *found is the caller's, whatever is returned. */
gx_code gx_grid_find_objects(gx_run *run, const gx_mat *A, const gx_grid_batch *batch,
                             const gx_label_rule *rule, gx_grid_objects *found);

// Operations --------------------------------------------------------------------------------------

typedef enum gx_grid_result {
    GX_GRID_MASK,    /* of G's shape: 0 and 1         */
    GX_GRID_LABELS,  /* the same: 0, 1, 2 ...         */
    GX_GRID_COLOURS, /* the same: colours             */
    GX_GRID_NUMBER   /* one for each grid of a batch  */
} gx_grid_result;

enum { GX_GRID_NUMBERS = 5 };

/*
** The operations:
**
**   ROW(X, ID, name, arguments, kinds, result, kernel, help)
**
** arguments are named as kinds says, a letter each: G the grid; M another one of its shape; T a
** matrix of any shape; i a whole number.  KERNEL is one of GX_GRID_KERNELS (grid_int.h).  The
** operation is gx_grid_NAME in SQL and NAME in programs; X is handed on.
*/
/* clang-format off */
#define GX_GRID_OPS(ROW, X)                                                                        \
    ROW(X, PARTITION, "partition", "G", "G", LABELS, partition, "a label for each colour")         \
    ROW(X, FGPARTITION, "fgpartition", "G", "G", LABELS, partition,                                \
        "the same without the most frequent")                                                      \
    ROW(X, SIZES, "sizes", "L", "G", LABELS, sizes, "cells of the object that a cell is of")       \
    ROW(X, MOST_COLOUR, "most_colour", "G", "G", NUMBER, frequent, "the most frequent colour")     \
    ROW(X, LEAST_COLOUR, "least_colour", "G", "G", NUMBER, frequent, "the least frequent colour")  \
    ROW(X, COLOUR_COUNT, "colour_count", "G, c", "Gi", NUMBER, count, "cells of colour c")         \
    ROW(X, FLOOD, "flood", "G, i, j, c, neighbours", "Giiii", COLOURS, flood,                      \
        "what is connected to (i, j) in colour c")                                                 \
    ROW(X, COVER, "cover", "G, M", "GM", COLOURS, cover, "M in the most frequent colour")          \
    ROW(X, UNDERFILL, "underfill", "G, M, c", "GMi", COLOURS, cover,                               \
        "M in colour c where it is of the most frequent one")                                      \
    ROW(X, SHIFT, "shift", "G, di, dj, c", "Giii", COLOURS, shift, "moved, c where nothing comes") \
    ROW(X, TURN, "turn", "G, degrees", "Gi", COLOURS, turn,                                        \
        "by 180, or by 90 or 270 where it is square")                                              \
    ROW(X, MIRROR, "mirror", "G, axis", "Gi", COLOURS, turn, "rows (0) or columns (1) backwards")  \
    ROW(X, CONNECT, "connect", "G, i, j, k, l", "Giiii", MASK, line,                               \
        "from (i, j) to (k, l), straight or diagonally")                                           \
    ROW(X, SHOOT, "shoot", "G, i, j, di, dj", "Giiii", MASK, line, "from (i, j) to the edge")      \
    ROW(X, GRAVITATE, "gravitate", "M, T", "GM", MASK, gravitate,                                  \
        "M moved towards T until it is beside it")                                                 \
    ROW(X, BOX, "box", "M", "G", MASK, box, "the outline of M's box")                              \
    ROW(X, INBOX, "inbox", "M", "G", MASK, box, "the outline one cell inside")                     \
    ROW(X, OUTBOX, "outbox", "M", "G", MASK, box, "the outline one cell outside")                  \
    ROW(X, CORNERS, "corners", "M", "G", MASK, box, "the corners of M's box")                      \
    ROW(X, BACKDROP, "backdrop", "M", "G", MASK, box, "all of M's box")                            \
    ROW(X, DELTA, "delta", "M", "G", MASK, box, "M's box without M")                               \
    ROW(X, BESIDE, "beside", "M, neighbours", "Gi", MASK, beside, "neighbours of M, not in M")     \
    ROW(X, FRONTIERS, "frontiers", "G", "G", MASK, frontiers, "rows and columns of one colour")    \
    ROW(X, OCCURRENCES, "occurrences", "G, T", "GT", MASK, occurrences,                            \
        "where T begins; below 0 it matches all")                                                  \
    ROW(X, ROW_PERIOD, "row_period", "G", "G", NUMBER, period, "rows repeat after so many")        \
    ROW(X, COL_PERIOD, "col_period", "G", "G", NUMBER, period, "columns repeat after so many")     \
    ROW(X, MANHATTAN, "manhattan", "M, T", "GM", NUMBER, manhattan, "least distance of cells")     \
    ROW(X, BORDERING, "bordering", "M", "G", NUMBER, bordering, "1 where M reaches an edge")
/* clang-format on */

typedef enum gx_grid_id {
    GX_GRID_LABEL, /* by a rule */
#define GX_GRID_ENUM(X, ID, ...) GX_GRID_##ID,
    GX_GRID_OPS(GX_GRID_ENUM, )
#undef GX_GRID_ENUM
        GX_GRID_COUNT
} gx_grid_id;

typedef struct gx_grid_call {
    gx_grid_id id;
    const gx_mat *in[2]; /* G, and M or T                                           */
    int64_t number[GX_GRID_NUMBERS];
    gx_label_rule rule; /* of labels                                               */
    gx_grid_batch batch;
} gx_grid_call;

/* GX_ARG: complex numbers, m31 and sparse matrices are no colours. */
gx_code gx_grid_is_of_colours(const gx_mat *A, gx_err *err);

/* "GMi", the kinds of its arguments; its result. */
const char *gx_grid_kinds(gx_grid_id id);
gx_grid_result gx_grid_result_of(gx_grid_id id);

/* GX_ARG in words: numbers or shapes that the operation does not take. */
gx_code gx_grid_check(const gx_grid_call *call, gx_err *err);

/*
** All grids of the batch, each held in memory by one thread at a time.  C: of G's shape, with tiles
** of any shape; of a NUMBER one row a grid.
*/
gx_code gx_grid_run(gx_run *run, const gx_grid_call *call, gx_sink *C);

// Parts -------------------------------------------------------------------------------------------

/* Where something lies: rows [top, bottom) and columns [left, right). */
typedef struct gx_grid_window {
    int64_t top, bottom, left, right;
} gx_grid_window;

/* The box of the mask M, empty where M is. */
gx_code gx_grid_box_of(gx_run *run, const gx_mat *M, gx_grid_window *box);

/*
** G without the rows and columns that are of one colour: *m x *n colours by columns in *x, which is
** the caller's, of run->ctx->mem; NULL on failure.
*/
gx_code gx_grid_compressed(gx_run *run, const gx_mat *G, double **x, int64_t *m, int64_t *n);

#endif
