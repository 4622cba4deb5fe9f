/*
** Lines of a matrix, its columns, its rows or all of it row by row, as doubles: what is computed of
** one, and along one.  A complex line has (re, im) pairs.
*/
#ifndef GX_LINES_H
#define GX_LINES_H

#include "../run/run.h"
#include "ops.h"

typedef struct gx_lines {
    gx_type type;
    int64_t axis; /* 0: columns, 1: rows, -1: the whole           */
    int64_t count, length;
    bool is_complex;
} gx_lines;

gx_lines gx_lines_of(const gx_type *type, int64_t axis);
void gx_line_gather(const gx_lines *lines, const void *a, int64_t k, double *line);

/* Line k of a matrix of that type. */
void gx_line_scatter(int64_t axis, const gx_type *type, void *c, int64_t k, const double *line,
                     bool is_complex);

/*
** What the two below are given beside the line: a run to poll where they sort (NULL: nobody asks),
** and work, gx_order_bytes(length) of it (order.h).
*/
/* PROD, MIN, MAX, ANY, ALL, VAR, STD, ARGMIN, ARGMAX, MEDIAN, QUANTILE (q), LOGSUMEXP. */
gx_scalar gx_line_reduce(gx_run *run, gx_op_id op, const double *line, int64_t length,
                         bool is_complex, double q, void *work);

/* CUMSUM, CUMPROD, DIFF, SORT, ARGSORT, SOFTMAX, in place. */
void gx_line_along(gx_run *run, gx_op_id op, double *line, int64_t length, bool is_complex,
                   void *work);

#endif
