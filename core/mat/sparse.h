/*
** Sparse matrices: read in pieces of whole rows, written row after row.
**
** A gx_mat whose is_sparse is set is a stored matrix of panels, or a value that is one panel
** (csr.h).  gx_mat_read() gives rectangles of it like of any matrix, zeros included, for who wants
** few of its elements; who works on all of it goes through its pieces: panels of a stored matrix,
** runs of rows of a value that weigh about as much, so that the team has something to share.
**
** What is read from a file has been looked through when it arrives (GX_CORRUPT names the panel).
*/
#ifndef GX_SPARSE_H
#define GX_SPARSE_H

#include "mat.h"

// Reading -----------------------------------------------------------------------------------------

/* A sparse value, whose panel has been checked and outlives mat. */
void gx_mat_sparse_value(gx_mat *mat, const char *label, const gx_csr *csr);

int64_t gx_sparse_entries(const gx_mat *A);
size_t gx_sparse_bytes(const gx_mat *A);        /* of its panels, of numbers in memory */
size_t gx_sparse_stored_bytes(const gx_mat *A); /* as they are stored                  */
int64_t gx_sparse_pieces(const gx_mat *A); /* 0 where A has no rows or no columns */

/* The first row of a piece, and how many it has, at least one; pieces follow each other. */
int64_t gx_sparse_piece_row(const gx_mat *A, int64_t piece);
int64_t gx_sparse_piece_rows(const gx_mat *A, int64_t piece);
int64_t gx_sparse_piece_entries(const gx_mat *A, int64_t piece);

/* Of the piece that has most; the block that gx_sparse_read() of any piece needs. */
int64_t gx_sparse_most_rows(const gx_mat *A);
int64_t gx_sparse_most_entries(const gx_mat *A);
size_t gx_sparse_block_bytes(const gx_mat *A);

/*
** A piece.  block: gx_sparse_block_bytes(), aligned to 8; csr points into it, or into the value.
** reader: as for gx_mat_read(); any thread with one of its own.
*/
gx_code gx_sparse_read(const gx_mat *A, gx_reader *reader, int64_t piece, void *block, gx_csr *csr,
                       gx_err *err);

/*
** What stands before the values of a piece, looked through, as a panel lies in the database:
** csr->value is NULL.  Then its values from the first-th on, as they are stored: a reader that goes
** on in a panel finds its place at once.
*/
size_t gx_sparse_head_bytes(const gx_mat *A, int64_t piece);
gx_code gx_sparse_read_head(const gx_mat *A, gx_reader *reader, int64_t piece, void *block,
                            gx_csr *csr, gx_err *err);
gx_code gx_sparse_read_values(const gx_mat *A, gx_reader *reader, int64_t piece, int64_t first,
                              int64_t count, void *values, gx_err *err);

/* For gx_mat_read(): the rectangle, zeros included.  Reads only its rows. */
gx_code gx_sparse_fill(const gx_mat *A, gx_reader *reader, int64_t i0, int64_t j0, int64_t m,
                       int64_t n, gx_number dtype, void *dst, int64_t ld, gx_err *err);

// Writing -----------------------------------------------------------------------------------------

/*
** A sparse result under construction: entries in ascending order of (i, j), none twice.  A panel is
** written when its rows have filled it (the setting tile_bytes); of a value all is in memory.
** Begin, put, end, then gx_sink_end() of the sink; gx_sparse_out_clear() whatever happened.
*/
typedef struct gx_sparse_out {
    gx_sink *sink;
    size_t limit;   /* bytes of a panel; 0: a value, which is one                */
    size_t element; /* bytes of a value                                          */
    int index_bytes;
    int64_t row;     /* the row under construction                                */
    int64_t first;   /* first row that is in memory                               */
    int64_t entries; /* in memory                                                 */
    int64_t total;   /* of all                                                    */
    uint32_t *start; /* of the rows in memory, start[row - first] the latest      */
    char *index, *value;
    int64_t row_capacity, capacity;
    void *block; /* a panel to be written                                     */
    size_t block_bytes;
} gx_sparse_out;

gx_code gx_sparse_out_begin(gx_run *run, const gx_dest *dest, int64_t rows, int64_t cols,
                            gx_number dtype, uint32_t properties, gx_sink *sink,
                            gx_sparse_out *out);

/* Entry (i, j), which lies behind the latest one. */
gx_code gx_sparse_put(gx_sparse_out *out, int64_t i, int64_t j, gx_scalar value, gx_err *err);

/* All rows are there: the last panel, or the value.  What fails is the run's. */
gx_code gx_sparse_out_end(gx_sparse_out *out);
void gx_sparse_out_clear(gx_sparse_out *out); /* of zeros: a no-op */

/* A sparse matrix as it is, in the sink's dtype. */
gx_code gx_sparse_copy(gx_run *run, const gx_mat *A, const gx_dest *dest, gx_number dtype,
                       uint32_t properties, gx_sink *sink);

/*
** Rows at the end of a stored matrix, in a storing call: new panels, and the last one where it is
** not half full.  rows: of its width, dense ones without their zeros.  is_over_it: they are read
** from the matrix itself, whose panels all stay as they are then.  meta: the new state, without
** panels: to be found again.
*/
gx_code gx_sparse_append(gx_run *run, gx_meta *meta, const gx_mat *rows, bool is_over_it,
                         bool saturate, gx_err *err);

/* Is |x| above it, or x a NaN? */
bool gx_sparse_is_above(gx_scalar x, double threshold);

/* The entries of a dense matrix whose magnitude is above threshold, and every NaN. */
gx_code gx_sparse_of_dense(gx_run *run, const gx_mat *A, const gx_dest *dest, gx_number dtype,
                           uint32_t properties, double threshold, gx_sink *sink);

/*
** Every panel, from the first row on, or every entry in ascending order of (i, j); by the caller's
** thread, polling: fn until it fails, and then the run for what fn's err says.
*/
typedef gx_code (*gx_sparse_panel_visit)(void *arg, const gx_csr *panel, int64_t row0, gx_err *err);
gx_code gx_sparse_each_panel(gx_run *run, const gx_mat *A, gx_sparse_panel_visit fn, void *arg);
typedef gx_code (*gx_sparse_visit)(void *arg, int64_t i, int64_t j, gx_scalar value, gx_err *err);
gx_code gx_sparse_each(gx_run *run, const gx_mat *A, gx_sparse_visit fn, void *arg);

#endif
