/*
** What operations on grids there are, and what of them a backend is told: see core/grid/grid.h.
*/
#ifndef GX_GRIDS_H
#define GX_GRIDS_H

#include "types.h"

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

/* A grid of more cells, or with a larger template, is no backend's: the host has drivers for it. */
enum { GX_GRID_MOST = 1 << 16 };

/* Of a cell, by the time that an operation takes. */
enum { GX_GRID_FLOPS = 60 };

/* GX_GRID: an operation on the grids of a batch. */
typedef struct gx_grid_job {
    gx_grid_id id;
    gx_grid_result result;   /* the operation's                                            */
    gx_label_rule rule;      /* of labels                                                  */
    int64_t number[GX_GRID_NUMBERS];
    int64_t count;           /* of grids                                                   */
    int64_t height;          /* the rows of each; 0: there is a table                      */
    int64_t cells;           /* of the largest grid: 1 to GX_GRID_MOST                     */
    int64_t t_rows, t_cols;  /* of a template, b; 0: b is a matrix of a's shape, or none    */
    gx_number a, b, c;       /* f64 or f32: of the matrices                                */
    int64_t *refused;        /* in the device's memory: becomes 1 where a cell is no colour, or of
                                sizes no label; else it is left alone                       */
} gx_grid_job;

#endif
