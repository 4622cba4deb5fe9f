/*
** Rows of a stored matrix: appended, overwritten, deleted, read by their numbers.  axis 0: rows; 1:
** columns, and then "row" below is a column.  The matrix is dense, or sparse and appended to.
**
** The matrix is changed where it is, tile by tile, within the transaction of the statement: it
** keeps its id and name, gets a new generation, and loses its properties (*meta is updated).  What
** fails is rolled back.
**
**   append  writes the new rows and, where the last tile row is not full, that tile row.  A matrix
**           of one tile row gets taller tiles, up to the default size.
**   set     rewrites the tiles that the rows lie in.
**   delete  rewrites the tiles from the first of these rows on: those behind move up.
**
** The cost is counted in whole tiles, about 8 MiB: many rows in one call are as cheap as one.  Tile
** rows that are appended to a matrix of several tile columns are numbered along the rows
** (gx_meta_tile(); format 6), so that no tile that is there changes its number.  Two changes
** renumber, and so rewrite, tiles that they do not touch: a new tile column, those of the tile rows
** that are numbered along; fewer tile rows than there are numbered down, all.
**
** Memory: two tiles, a megabyte for conversion, 24 bytes for each row that is listed.
*/
#ifndef GX_ROWS_H
#define GX_ROWS_H

#include "mat.h"

/*
** `rows` are of the width of the matrix, and become its dtype as gx_store's elements do; saturate:
** what is out of range becomes the nearest that it has.  They may be those of the matrix itself, or
** computed from it.  i64 that become i64 are moved as bytes, and `rows` is read so from then on.
** GX_ARG: a shape that does not fit, a dtype, rows past what a matrix may have; a factorisation, a
** composite or a quantised one.  A sparse matrix takes rows as new panels, and no columns; meta has
** no panels afterwards.
*/
gx_code gx_rows_append(gx_run *run, gx_meta *meta, int axis, gx_mat *rows, bool saturate,
                       gx_err *err);

/* Row k of `rows` becomes row at[k].  GX_ARG: one that is not there, or is listed twice. */
gx_code gx_rows_set(gx_run *run, gx_meta *meta, int axis, const int64_t *at, int64_t count,
                    gx_mat *rows, bool saturate, gx_err *err);

/* Twice is once. */
gx_code gx_rows_delete(gx_run *run, gx_meta *meta, int axis, const int64_t *at, int64_t count,
                       gx_err *err);

/* Row at[k], as numbers, to row k of dst (column-major, ld).  Neighbours are read at once. */
gx_code gx_rows_read(gx_run *run, const gx_mat *mat, gx_reader *reader, int axis, const int64_t *at,
                     int64_t count, gx_number number, void *dst, int64_t ld, gx_err *err);

#endif
