/*
** What the functions for looking at matrices share: fn_look.c, json.c, show.c, heatmap.c,
** fn_bytes.c, vtab_topk.c.
*/
#ifndef GX_LOOK_H
#define GX_LOOK_H

#include "gx_ext.h"

#include <string.h>

/* A reader for A through the caller's connection; NULL where no stored matrix is under it. */
bool gx_look_open(gx_fn *fn, const gx_mat *A, gx_reader **reader);

/* A block of m x n elements of A's dtype that the call owns. */
bool gx_look_buffer(gx_fn *fn, const gx_mat *A, int64_t m, int64_t n, void **buffer);

/* Read a rectangle of A, in its dtype; reports. */
bool gx_look_read(gx_fn *fn, const gx_mat *A, gx_reader *reader, int64_t i0, int64_t j0, int64_t m,
                  int64_t n, void *dst, int64_t ld);

/*
** Rows of A to read at a time by what goes through A row by row: tile rows where memory allows, at
** most 64 MiB and a quarter of what is free, at least one.
*/
int64_t gx_look_strip_rows(const gx_fn *fn, const gx_mat *A);

/* The bodies of json.c, show.c, heatmap.c, for the table in fn_look.c. */
void gx_look_json(gx_fn *fn);
void gx_look_show(gx_fn *fn);
void gx_look_heatmap(gx_fn *fn);

#endif
