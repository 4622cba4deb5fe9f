/*
** Samples: what a test of hypothesis keeps of the rows of a group.
**
** A test needs little of three kinds, and the rest stays empty: moments (of all rows, or by group),
** the rows themselves, and how often each label came.  All memory is counted by the governor; a
** group of ten rows takes two or three small blocks.
*/
#ifndef GX_SAMPLE_H
#define GX_SAMPLE_H

#include "../run/run.h"
#include "levels.h"

/* Moments of numbers that come one by one; all zero: none came. */
typedef struct gx_moments {
    int64_t n;
    double mean, m2, m3, m4; /* sums of powers of (x - mean) */
    bool is_varied;          /* two of the numbers differ    */
} gx_moments;

void gx_moments_add(gx_moments *of, double x);      /* n, mean, m2 */
void gx_moments_add_four(gx_moments *of, double x); /* all         */

/* Labels, each once, in the order in which they came, with what a test counts of each. */
typedef struct gx_groups {
    gx_levels levels;
    gx_moments *of; /* of each; owned */
    int64_t capacity;
} gx_groups;

/* A row that is kept, by its first number; ranks take the number's place. */
typedef struct gx_pair {
    double x;
    union {
        double y;
        int64_t tag; /* of the group, or where the row came from */
    };
} gx_pair;

typedef struct gx_sample {
    gx_ctx *ctx;
    int64_t missing;         /* rows with NULL, which are in nothing below */
    int64_t n;               /* the others                                 */
    gx_moments all, other;   /* of x or of differences; of y         */
    double cross;            /* sum of (x - mean)(y - mean), pearson's */
    double largest;          /* of |x| and |y|, where differences are taken */
    gx_groups group, column; /* of the first and of the second label */
    gx_groups cells;         /* pairs of labels: their two indexes, as int32_t; n counts */
    gx_pair *row;
    int64_t rows, capacity;
} gx_sample;

/* s is all zero; cleared also where that was all. */
void gx_sample_begin(gx_sample *s, gx_ctx *ctx);
void gx_sample_clear(gx_sample *s);

/* Moments of both into all and other, and cross. */
void gx_sample_add_cross(gx_sample *s, double x, double y);

/* The index of the label among `set`, where it is added if it is new. */
gx_code gx_sample_label(gx_sample *s, gx_groups *set, const char *text, size_t bytes,
                        int64_t *index, gx_err *err);
gx_code gx_sample_keep(gx_sample *s, gx_pair row, gx_err *err);

/*
** Sort the rows by x, rows of equal x staying in their order, in O(n log n) with as much memory
** again.  inversions (NULL: not wanted): how many pairs of rows stood the wrong way round.
*/
gx_code gx_sample_sort(gx_sample *s, int64_t *inversions, gx_err *err);
void gx_sample_swap(gx_sample *s); /* x and y of every row */

/* Sums over runs of equal x in sorted rows, of their lengths t. */
typedef struct gx_ties {
    double squares, cubes; /* of t; without ties each is the number of rows */
} gx_ties;

/* Put the mean rank, from 1 on, in the place of x of each of the sorted rows. */
gx_ties gx_sample_rank(gx_sample *s);

/* Fails when the statement has been interrupted. */
gx_code gx_sample_poll(const gx_sample *s, gx_err *err);

#endif
