/*
** Private to core/grid: reading grids, their components, and the kernels of operations.
**
** In here a grid is an array of 32-bit colours by columns, without gaps.
*/
#ifndef GX_GRID_INT_H
#define GX_GRID_INT_H

#include "../exec/pass.h"
#include "../run/call.h"
#include "grid.h"

/* No colour: what no cell is equal to. */
static const int32_t GX_NO_COLOUR = INT32_MIN;

// Reading and writing (cells.c) -------------------------------------------------------------------

/* Bytes for gx_grid_read() and gx_grid_give() of so many rows, or fewer, to work in. */
size_t gx_grid_chunk_bytes(int64_t rows, int64_t cols);

/* Rows of a matrix, by columns ld cells apart: bytes, or else colours of 32 bits. */
typedef struct gx_grid_cells {
    const void *at, *end; /* what lies before end may be loaded */
    int64_t ld;
    bool are_bytes;
} gx_grid_cells;

/*
** Rows i0 .. i0 + m - 1 of A: where they lie in memory, or read into room, m * cols colours.
** GX_ARG names an element that is no colour.  chunk: gx_grid_chunk_bytes().
*/
gx_code gx_grid_read(gx_pass_thread *thread, const gx_mat *A, int64_t i0, int64_t m, void *chunk,
                     int32_t *room, gx_grid_cells *cells, gx_err *err);

/* rows x cols of them as colours, with columns ld apart. */
void gx_grid_colours(const gx_grid_cells *cells, int64_t rows, int64_t cols, int32_t *to,
                     int64_t ld);

/* A sink that rows are given to in their order; all zero but for run, sink and is_unsigned. */
typedef struct gx_grid_out {
    gx_run *run;
    gx_sink *sink;
    bool is_unsigned; /* cells are uint32_t: labels                               */
    void *rows;       /* a row of tiles that is not full; gx_mem_free()           */
    int64_t filled;   /* ... rows of it are, and ...                              */
    int64_t written;  /* ... so many have been written                            */
} gx_grid_out;

/* Does any thread write?  Else units make parts of rows x cols numbers, which the caller folds. */
static inline bool gx_grid_is_direct(const gx_grid_out *out)
{
    return !out->sink->is_stored;
}

/* In a unit's work: m rows from i0 on, written where that is direct, else into the part. */
gx_code gx_grid_give(const gx_grid_out *out, int64_t i0, int64_t m, const int32_t *cells,
                     void *chunk, void *part, gx_err *err);

/* Where labels lie as they are, in a matrix of u32 in memory; NULL: they do not. */
int32_t *gx_grid_labels_in(const gx_grid_out *out);

/* In its fold: the part of the rows that come next. */
gx_code gx_grid_put(gx_grid_out *out, int64_t m, const void *part, gx_err *err);

/* All of a matrix, by columns, in memory that is the caller's, of run->ctx->mem; NULL: failed. */
int32_t *gx_grid_load(gx_run *run, const gx_mat *A);

// Units (cells.c) ---------------------------------------------------------------------------------

/*
** A batch cut into units of about `cells` cells: unit k has rows [row[k], row[k + 1]) and the grids
** [grid[k], grid[k + 1]), which are whole.
*/
typedef struct gx_grid_units {
    int64_t count, most_rows, most_cells; /* of a unit: rows; of a grid: cells    */
    int64_t *row, *grid;                  /* count + 1 each; one gx_mem_free(row) */
} gx_grid_units;

gx_code gx_grid_cut(gx_run *run, const gx_grid_batch *batch, int64_t cells, gx_grid_units *units);

/* The cells from row i on. */
gx_grid_cells gx_grid_cells_at(const gx_grid_cells *cells, int64_t i);

/*
** A grid among rows that begin at row i0, as colours without gaps: themselves where they are that,
** else copied to room.
*/
const int32_t *gx_grid_take(const gx_grid_place *place, int64_t i0, const gx_grid_cells *cells,
                            int32_t *room);

/* A grid to its place in a unit of so many rows from i0 on; nothing where it lies there. */
void gx_grid_return(const gx_grid_place *place, int64_t i0, int64_t rows, const int32_t *grid,
                    int32_t *unit);

// Colours (kernels.c) -----------------------------------------------------------------------------

/* Entries of a table of colours: colour c's is number c + GX_COLOUR_MOST. */
enum { GX_TALLY = 2 * GX_COLOUR_MOST + 1 };

/* Adds the cells of each colour to tally; only for grids in strips.  GX_ARG: it has no entry. */
gx_code gx_grid_tally(const gx_grid_cells *cells, int64_t rows, int64_t cols, int32_t *tally,
                      gx_err *err);

// Components (components.c) -----------------------------------------------------------------------

typedef struct gx_component_rule {
    bool is_eight, is_of_colour;
    int32_t background; /* GX_NO_COLOUR: none */
} gx_component_rule;

/* Is its background the most frequent colour? */
bool gx_looks_for_background(const gx_label_rule *rule);

gx_component_rule gx_component_rule_of(const gx_label_rule *rule, int32_t most_frequent);

/*
** Runs of a grid: cells of an object that follow each other in a column (and are of one colour,
** where the rule says so), numbered down the columns.
*/
typedef struct gx_runs {
    int64_t rows, cols, words; /* ... of 64 cells in a column                          */
    uint64_t *start, *object;  /* bits of cells: a run begins there; it is of an object */
    int32_t *before;           /* of each word and one more: runs that begin before it */
    int32_t *parent;           /* of a run: one of its component that begins earlier   */
    int32_t *row;              /* ... where it begins; then the number of a root       */
    int32_t *label;            /* ... its component                                    */
    int32_t *first;            /* of each row: components that begin in earlier ones   */
    uint64_t *top;             /* bits of rows: a grid begins there, not the first alone */
} gx_runs;

/* Cut from memory, which is aligned to 64; NULL: its bytes are counted. */
size_t gx_runs_lay_out(int64_t rows, int64_t cols, void *memory, gx_runs *runs);

/*
** The runs and their components, from 1 on in the order of first cells, row by row; how many
** components the last grid has.  Afterwards parent and row are free.
*/
int32_t gx_runs_find(const gx_component_rule *rule, const gx_grid_cells *cells, gx_runs *runs);

/*
** The label of each cell of column j, 0 of the background: label[k] of the column's run k.  Eight
** numbers before and behind label are looked at, and not used.
*/
void gx_runs_spread(const gx_runs *runs, int64_t j, const int32_t *label, int32_t *to);

/* The same of all columns, ld apart, from runs->label. */
void gx_runs_labels(const gx_runs *runs, int32_t *to, int64_t ld);

// Kernels (kernels.c, masks.c) --------------------------------------------------------------------

/* Numbers that a kernel works in, for a grid of so many cells. */
#define GX_GRID_WORK(cells) (2 * (cells) + 1)

/* One grid, and what is to be made of it. */
typedef struct gx_grid_piece {
    gx_run *run;
    pthread_t caller; /* who may poll */
    gx_grid_id id;
    int64_t rows, cols;
    const int32_t *g;       /* NULL: a label's, of which cells are looked at  */
    gx_grid_cells cells;    /* the same as they lie                           */
    const int32_t *m;       /* M, of the same shape, or T                     */
    int64_t m_rows, m_cols; /* of T                                           */
    const int64_t *number;
    const gx_label_rule *rule;
    const gx_grid_place *place; /* a label's: of grids that stand below each other ...  */
    int64_t count;              /* ... in this piece: so many                           */
    int32_t *out;  /* undefined: all of it is to be written; of labels ...   */
    int64_t ld;    /* ... columns so far apart                               */
    double value;  /* the result of a NUMBER                                 */
    bool is_alone; /* the caller's, and large: a team shares its steps       */
    int32_t *work; /* GX_GRID_WORK(rows * cols) numbers, undefined           */
    void *runs;    /* of labels: as much as gx_runs_lay_out() says           */
} gx_grid_piece;

typedef gx_code (*gx_grid_kernel)(gx_grid_piece *p, gx_err *err);

/* Asked now and then by a kernel that may take long; false: the run has been stopped. */
static inline bool gx_grid_goes_on(const gx_grid_piece *p)
{
    return pthread_equal(pthread_self(), p->caller) != 0 ? gx_run_poll(p->run) == GX_OK
                                                         : gx_ok(p->run);
}

// Shares of a grid (cells.c) ----------------------------------------------------------------------

/*
** Some cells of a grid.  Any member of a team may have them: what several add up to is folded with
** GX_GRID_FOLD() or added atomically, in whole numbers, whose order does not matter.
*/
typedef void (*gx_grid_share)(const gx_grid_piece *p, gx_grid_window w, void *arg);

/* What shares are: rectangles, whole columns, or whole rows; of the last two at most so many. */
typedef enum gx_grid_shape { GX_GRID_CELLS, GX_GRID_COLUMNS, GX_GRID_ROWS } gx_grid_shape;
enum { GX_GRID_LINES = 512, GX_GRID_TALL = 2048 /* rows of a rectangle, at most */ };

/* fn of all cells, one share after the other, or by a team where the grid is_alone. */
void gx_grid_each(const gx_grid_piece *p, gx_grid_shape shape, gx_grid_share fn, void *arg);

/* *at = x where x IS (< or >) what is there. */
#define GX_GRID_FOLD(at, x, IS)                                                                    \
    for (__typeof__(*(at)) was = __atomic_load_n(at, __ATOMIC_RELAXED);                            \
         (x)IS was && !__atomic_compare_exchange_n(at, &was, x, true, __ATOMIC_RELAXED,            \
                                                   __ATOMIC_RELAXED);) {                           \
    }

/* p->out, of all of the sink's rows, to the sink, where it does not lie there. */
void gx_grid_give_all(const gx_grid_piece *p, gx_grid_out *out);

gx_code gx_grid_labelled(gx_grid_piece *p, gx_err *err);
#define GX_GRID_KERNELS(KERNEL)                                                                    \
    KERNEL(partition)                                                                              \
    KERNEL(sizes)                                                                                  \
    KERNEL(frequent)                                                                               \
    KERNEL(count)                                                                                  \
    KERNEL(flood)                                                                                  \
    KERNEL(cover)                                                                                  \
    KERNEL(shift)                                                                                  \
    KERNEL(turn)                                                                                   \
    KERNEL(line)                                                                                   \
    KERNEL(gravitate)                                                                              \
    KERNEL(box)                                                                                    \
    KERNEL(beside) KERNEL(frontiers) KERNEL(occurrences) KERNEL(period) KERNEL(manhattan)          \
        KERNEL(bordering)
#define GX_GRID_DECLARE(NAME) gx_code gx_grid_##NAME(gx_grid_piece *p, gx_err *err);
GX_GRID_KERNELS(GX_GRID_DECLARE)
#undef GX_GRID_DECLARE

#endif
