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

#include "../base/grids.h"
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

enum { GX_GRID_UNIT = 1 << 16 }; /* cells, about, that a thread takes at a time */

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
** All grids of the batch, each held in memory by one thread at a time; a large one that is all of
** G by all threads.  C: of G's shape, with tiles of any shape; of a NUMBER one row a grid.
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
