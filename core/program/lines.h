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

/* How many lines are gathered at once: few beside the matrix, and what the cache holds. */
int64_t gx_lines_at_once(const gx_lines *lines);

/* The doubles of n lines, at least one. */
size_t gx_lines_bytes(const gx_lines *lines, int64_t n);

/* Columns or rows k ... k + n - 1, one after the other. */
void gx_lines_gather(const gx_lines *lines, const void *a, int64_t k, int64_t n, double *line);

/* The whole matrix row by row; run is polled. */
void gx_lines_gather_whole(gx_run *run, const gx_type *type, const void *a, double *line);

/* Rows whose elements, row after row, are those of the matrix row by row. */
gx_lines gx_lines_of_whole(const gx_type *type);

/*
** Such rows that are tallied together, a power of two: by the shape alone, so that a result's bits
** depend on nothing else.
*/
int64_t gx_lines_of_part(const gx_lines *rows);

/* The same lines of a matrix of that type, which are not longer. */
void gx_lines_scatter(const gx_lines *lines, const gx_type *type, void *c, int64_t k, int64_t n,
                      const double *line);

enum { GX_TALLY_LANES = 4 }; /* a sum is kept in so many, for speed */

/*
** A reduction of one line whose elements come in pieces, from the first to the last, as often as
** there are passes: all but MEDIAN and QUANTILE.
**
**     gx_tally f = {.op = op, .is_complex = is_complex, .ddof = ddof};
**     do { gx_tally_add(&f, piece, length) ... } while (gx_tally_next(&f));
**
** Where the pieces are tallied apart, each begins as gx_tally_part() of the line's, and these are
** joined in the order of the pieces.
*/
typedef struct gx_tally {
    gx_op_id op;
    bool is_complex;
    int pass;
    int64_t length;       /* of what this pass has had, then of the line     */
    int64_t place, count; /* of the extreme; of elements that are not zero   */
    double most;          /* the extreme                                     */
    union {
        gx_scalar product; /* PROD                                                      */
        gx_scalar offset;  /* taken off: the first element, if finite; then the mean    */
    };
    double sum[GX_TALLY_LANES];     /* of x - offset, by part k mod GX_TALLY_LANES            */
    double squares[GX_TALLY_LANES]; /* |x - mean|^2; first: e^(x - most)                   */
    double ddof;                    /* VAR and STD divide by length - ddof                    */
} gx_tally;

bool gx_tally_can(gx_op_id op);
void gx_tally_add(gx_tally *f, const double *piece, int64_t length);
gx_tally gx_tally_part(const gx_tally *f);
void gx_tally_join(gx_tally *f, const gx_tally *part);
bool gx_tally_next(gx_tally *f);
gx_scalar gx_tally_value(const gx_tally *f);

/*
** What the two below are given beside the line: a run to poll where they sort (NULL: nobody asks),
** and work, of which this says how many bytes the operation needs.
*/
size_t gx_line_work_bytes(gx_op_id op, int64_t length);

/*
** PROD, MIN, MAX, ANY, ALL, VAR and STD (number: ddof), ARGMIN, ARGMAX, MEDIAN, QUANTILE (number:
** q), LOGSUMEXP.
*/
gx_scalar gx_line_reduce(gx_run *run, gx_op_id op, const double *line, int64_t length,
                         bool is_complex, double number, void *work);

/* CUMSUM, CUMPROD, DIFF, SORT, ARGSORT, SOFTMAX, in place. */
void gx_line_along(gx_run *run, gx_op_id op, double *line, int64_t length, bool is_complex,
                   void *work);

#endif
