/*
** From cells or rows to a matrix, within the memory limit: create, add each one, finish (or free at
** any time).  Behind that what both have in common on their way: the sorted runs that full buffers
** become, and the tiles that are put together from them.
*/
#ifndef GX_ASSEMBLY_H
#define GX_ASSEMBLY_H

#include "../store/spill.h"
#include "mat.h"

/* What to do with a cell or a row that comes more than once. */
typedef enum gx_duplicates {
    GX_DUPLICATES_ERROR, /* refuse, naming it                   */
    GX_DUPLICATES_SUM,   /* add up, in the order of arrival     */
    GX_DUPLICATES_LAST   /* the latest counts                   */
} gx_duplicates;

/* What rows are that did not come. */
typedef enum gx_gaps {
    GX_GAPS_ERROR, /* none may be missing */
    GX_GAPS_ZERO,
    GX_GAPS_NAN
} gx_gaps;

/* The largest index + 1: records keep 32 bits of each index. */
#define GX_SCATTER_INDEX_END ((int64_t)UINT32_MAX)
#define GX_SCATTER_ROWS_TEXT "a sparse matrix from cells has at most 4294967295 rows, not %lld"

typedef struct gx_scatter_spec {
    int64_t rows, cols; /* -1: one more than the largest index that comes */
    gx_number dtype;     /* of the matrix; complex: cells have two parts   */
    gx_duplicates duplicates;
    gx_gaps gaps;        /* rows only: cells that do not come are 0             */
    bool is_numbered;    /* rows only: row k is that of the k-th smallest index */
    bool is_sparse;      /* cells: the result is sparse (gx_scatter_finish)     */
    uint32_t properties; /* of a sparse result                              */
} gx_scatter_spec;

// Cells: (i, j, value) records in any order, any number (cell_scatter.c) --------------------------

typedef struct gx_scatter gx_scatter;

/*
** Takes up to half of the memory that is available now.  *scatter: owned by the caller; NULL on
** failure.  GX_ARG: a sparse matrix of more rows than GX_SCATTER_INDEX_END.
*/
gx_code gx_scatter_create(gx_ctx *ctx, const gx_scatter_spec *spec, gx_scatter **scatter,
                          gx_err *err);
void gx_scatter_free(gx_scatter *scatter); /* NULL is a no-op */

/*
** One cell.  GX_ARG: an index that is negative, past the shape or past GX_SCATTER_INDEX_END.
** Amortised about 10 ns; writes temporary data when its memory is full.
*/
gx_code gx_scatter_add(gx_scatter *scatter, int64_t i, int64_t j, gx_scalar value, gx_err *err);

/*
** Build the matrix in a sink that is begun here; the caller ends it, also on failure.  Cells that
** did not come are 0, or not there where the spec says sparse.  Each tile is written once, in
** ascending order.  Sticky, as a driver.
*/
gx_code gx_scatter_finish(gx_scatter *scatter, gx_run *run, const gx_dest *dest, gx_sink *sink);

// Whole rows in any order, any number (row_stack.c) -----------------------------------------------

typedef struct gx_stack gx_stack;

/* spec.cols -1: the length of the first row.  Takes up to half of the memory available now. */
gx_code gx_stack_create(gx_ctx *ctx, const gx_scatter_spec *spec, gx_stack **stack, gx_err *err);
void gx_stack_free(gx_stack *stack); /* NULL is a no-op */

/*
** One row: count elements of the matrix's dtype, copied.  GX_ARG: a length that is not the
** others'; an index that is negative, past spec.rows or past GX_SCATTER_INDEX_END, unless rows are
** numbered.
*/
gx_code gx_stack_add(gx_stack *stack, int64_t i, const void *row, int64_t count, gx_err *err);

/* The length of the rows; -1: none has come, and spec has none. */
int64_t gx_stack_cols(const gx_stack *stack);

/* As gx_scatter_finish().  GX_ARG, before anything is written: a gap that spec.gaps refuses. */
gx_code gx_stack_finish(gx_stack *stack, gx_run *run, const gx_dest *dest, gx_sink *sink);

/*
** After that, and once, of numbered rows: the indexes of rows 0, 1, ..., count of them; lent by the
** stack.  GX_ARG: one is past 2^53.
*/
gx_code gx_stack_ids(gx_stack *stack, const double **ids, int64_t *count, gx_err *err);

// Sorted runs -------------------------------------------------------------------------------------

typedef struct gx_sorted_run {
    int64_t stream[2];           /* of the spill; rows: their indexes, their elements */
    const unsigned char *memory; /* cells that are not spilled, else NULL             */
    int64_t count;               /* cells or rows                                     */
} gx_sorted_run;

typedef struct gx_sorted_runs {
    gx_ctx *ctx;
    gx_scatter_spec spec;
    size_t share;    /* bytes that collecting may take: half of what was available */
    gx_spill *spill; /* NULL: nothing spilled                                      */
    gx_sorted_run *list;
    int64_t count, capacity;
} gx_sorted_runs;

void gx_sorted_runs_begin(gx_sorted_runs *runs, gx_ctx *ctx, const gx_scatter_spec *spec);
void gx_sorted_runs_free(gx_sorted_runs *runs);
gx_code gx_sorted_runs_add(gx_sorted_runs *runs, const gx_sorted_run *info, gx_err *err);

/* Before the streams of a run are written: there is a spill.  Counts one. */
gx_code gx_sorted_runs_spill(gx_sorted_runs *runs, gx_err *err);

// Tiles -------------------------------------------------------------------------------------------

/* First in the struct of whoever fills the tiles. */
typedef struct gx_assembly {
    const gx_sorted_runs *runs;
    gx_run *run;
    gx_sink *sink;
    const gx_dest *dest;
    int64_t rows, cols, tile_rows, tile_cols; /* a result that is a value is one tile            */
    void *tile;         /* the elements under construction, leading dimension m        */
    bool is_tile_owned; /* else it is the value itself                                 */
    uint8_t *marks;     /* bits of what has come to the tile; NULL: nobody asks        */
    size_t mark_bytes;
    int64_t i0, j0, m, n; /* the current tile                                            */
} gx_assembly;

/* With runs, run, sink, dest set: gx_sink_end() may follow.  False: the run has failed before. */
bool gx_assembly_begin(gx_assembly *a);

/* The shape of the result, max_i and max_j being the largest indexes that came, and its tiles'. */
gx_code gx_assembly_shape(gx_assembly *a, int64_t max_i, int64_t max_j, gx_err *err);

/* Whether a tile of that shape does not fit beside what is allocated now. */
bool gx_assembly_is_tight(const gx_assembly *a);

/* The sink, a tile buffer, and marks where duplicates are errors or gaps NaN: bits for a tile. */
gx_code gx_assembly_open(gx_assembly *a, int64_t marks, gx_err *err);

/*
** Every tile once, in ascending order: column() before the first one of a tile column; take() puts
** what has come into the tile, which is zero, as are the marks.
*/
gx_code gx_assembly_tiles(gx_assembly *a, gx_code (*column)(gx_assembly *a, gx_err *err),
                          gx_code (*take)(gx_assembly *a, gx_err *err), gx_err *err);

/* Free it, pass a failure on to the run. */
gx_code gx_assembly_end(gx_assembly *a, const gx_err *err);

/* Has bit k of the tile been noted? */
static inline bool gx_assembly_has(const gx_assembly *a, int64_t k)
{
    return (a->marks[k >> 3] & (uint8_t)(1 << (k & 7))) != 0;
}

/* Note bit k of the tile.  True: it came before, and may come only once. */
static inline bool gx_assembly_is_twice(const gx_assembly *a, int64_t k)
{
    if (a->marks == NULL) {
        return false;
    }
    uint8_t mask = (uint8_t)(1 << (k & 7));
    bool was_set = (a->marks[k >> 3] & mask) != 0;
    a->marks[k >> 3] = (uint8_t)(a->marks[k >> 3] | mask);
    return was_set && a->runs->spec.duplicates == GX_DUPLICATES_ERROR;
}

/* Set or add one number to element k of the tile. */
void gx_assembly_put(const gx_assembly *a, int64_t k, gx_scalar value, bool is_sum);

#endif
