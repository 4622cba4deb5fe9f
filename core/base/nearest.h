/*
** Neighbours: what the kernels GX_APART, GX_MERIT and GX_NEAREST (backend.h) are asked.
**
** Rows of a block are looked at by queries, the columns of another.  A pair's merit says how near
** they are, more being nearer:
**
**   DOT       x . y
**   COSINE    x . y / sqrt(x . x * y . y); 0 where either row is zeros; where x . x or y . y is not
**             plain, of both rows in units of the power of two at their largest number
**   SQUARED   - sum (x_k - y_k)^2
**   ABSOLUTE  - sum |x_k - y_k|
**
** A merit is a double and has the same bits on every backend, wherever the pair lies in whatever
** block: terms are doubles, term k is added to sum k mod GX_MERIT_LANES, in the order of k, and
** the sums are added as a tree, each upper half to the lower one.  Nothing is fused.  So equal rows
** have equal merits, and ties are broken by the rows' numbers alone.
*/
#ifndef GX_NEAREST_H
#define GX_NEAREST_H

#include "types.h"

#include <math.h>

enum { GX_MERIT_LANES = 16 };

/* Host code, and device code where nvcc reads this. */
#ifdef __CUDACC__
#define GX_MERIT_FN static inline __host__ __device__
#else
#define GX_MERIT_FN static inline
#endif

/* Entries of a list that a device makes, at most. */
enum { GX_NEAREST_MOST = 1024 };

#define GX_NO_SELF INT64_MIN

typedef enum gx_metric {
    GX_METRIC_DOT,
    GX_METRIC_COSINE,
    GX_METRIC_SQUARED,
    GX_METRIC_ABSOLUTE
} gx_metric;

/*
** A pair that MUTUAL found: row of a, column of b.
*/
typedef struct gx_found {
    double merit;
    int32_t row, column;
} gx_found;

/*
** Of a call with m rows of k numbers (a, m x k) and n queries (k x n).  The queries come twice: as
** they are, in `query`, of which merits are made; and in args.b, of the dtype of a, from which a
** backend may foretell merits, and which it need not look at.  On a device all arrays are in its
** memory.  NEAREST's workspace is enough for as many rows and queries, or fewer.
*/
typedef struct gx_nearest {
    gx_metric metric;
    const double *query;  /* k x n, contiguous                                            */
    const double *square; /* n: the sums x . x of the queries, in the order above           */

    /* MERIT: of count pairs (row, column of query), into merit. */
    /* NEAREST: lists of count entries, the best first, for each query in turn.  Where there are
       fewer: -Inf, index INT64_MAX. */
    int64_t count;
    double *merit;
    int64_t *index;        /* NEAREST: first_index + row; MERIT: not used                        */
    const int64_t *row;    /* MERIT                                                              */
    const int64_t *column; /* MERIT                                                              */

    /* NEAREST alone. */
    bool goes_on; /* the lists hold what was found elsewhere, and keep the best of both      */
    int64_t first_index;
    int64_t self;         /* index self + j is not for query j; GX_NO_SELF: all are              */
    const uint64_t *listed; /* host only: rows of bits, one a query: bit index of row j is set where
                               that index is for query j.  A row that is for none may hold NaN.
                               NULL: all are                                                    */
    int64_t listed_words;   /* of a row of bits                                                 */
    const double *floor;  /* n: what is worse may be left out; NULL: nothing                     */
    const double *length; /* n: |b_j|; 0 for zeros alone                                         */
    const void *shift;    /* k of dtype that have been taken off b, or NULL; SQUARED only        */
    const void *given;    /* m x n of dtype, ld m: x . y, sum (x - y)^2 or sum |x - y|, each
                             wrong by no more than adding up n terms one by one makes it; or
                             NULL.  DOT, COSINE: one column more, x . x.  Not NULL: a has elements
                             of gx_args.from, where that is no number's                       */
    int32_t *outcome;     /* of a device, in its memory: where info goes in the place of info,
                             which is looked at when a queue has been waited for; or NULL        */

    /* MUTUAL: rows are queries, too; count, floor and length are as above.  Found are the pairs
       whose merit is at least floor[j], or rows->floor[i], and maybe others; but of a query whose
       floor is -Inf, those that may be among its count best. */
    const struct gx_nearest *rows; /* of a's m columns: query, square, length, floor */
    gx_found *found;               /* room for m n of them                          */
    int64_t *pairs;                /* OUT: how many                               */
} gx_nearest;

/* Whether row i of the block is for query j. */
static inline bool gx_is_listed(const gx_nearest *w, int64_t i, int64_t j)
{
    int64_t index = w->first_index + i;
    return w->listed == NULL ||
           (w->listed[j * w->listed_words + index / 64] >> index % 64 & 1) != 0;
}

/* Whether row i of the block is for one of n queries. */
static inline bool gx_is_listed_at_all(const gx_nearest *w, int64_t i, int64_t n)
{
    bool any = w->listed == NULL;
    for (int64_t j = 0; j < n && !any; j++) {
        any = gx_is_listed(w, i, j);
    }
    return any;
}

/* The end of such a sum; the lanes are used up. */
static inline double gx_merit_tree(double lane[GX_MERIT_LANES])
{
    for (int half = GX_MERIT_LANES / 2; half > 0; half /= 2) {
        for (int e = 0; e < half; e++) {
            lane[e] += lane[e + half];
        }
    }
    return lane[0];
}

/* Neither has x . x overflowed nor has it lost digits, and no product of two such does. */
GX_MERIT_FN bool gx_merit_is_plain(double square)
{
    return square > 0x1p-480 && square < 0x1p480;
}

/* The binary exponent of the largest number of a row; false: it is zeros. */
static inline bool gx_merit_unit(const double *x, int64_t k, int *exponent)
{
    double most = 0;
    for (int64_t l = 0; l < k; l++) {
        most = fabs(x[l]) > most || x[l] != x[l] ? fabs(x[l]) : most;
    }
    frexp(most, exponent);
    return most != 0; // so NaN goes on
}

/* COSINE of two rows whose squares are not plain. */
static inline double gx_merit_scaled(const double *x, const double *y, int64_t k)
{
    double both[GX_MERIT_LANES] = {0}, own[GX_MERIT_LANES] = {0}, other[GX_MERIT_LANES] = {0};
    int of_x, of_y;
    if (!gx_merit_unit(x, k, &of_x) || !gx_merit_unit(y, k, &of_y)) {
        return 0;
    }
    for (int64_t l = 0; l < k; l++) {
        double a = ldexp(x[l], -of_x), b = ldexp(y[l], -of_y);
        both[l % GX_MERIT_LANES] += a * b;
        own[l % GX_MERIT_LANES] += a * a;
        other[l % GX_MERIT_LANES] += b * b;
    }
    return gx_merit_tree(both) / sqrt(gx_merit_tree(own) * gx_merit_tree(other));
}

/* x . x, as `square` has it. */
static inline double gx_merit_square(const double *x, int64_t k)
{
    double lane[GX_MERIT_LANES] = {0};
    int64_t l = 0;
    for (; l + GX_MERIT_LANES <= k; l += GX_MERIT_LANES) {
        for (int64_t e = 0; e < GX_MERIT_LANES; e++) {
            lane[e] += x[l + e] * x[l + e];
        }
    }
    for (int64_t e = 0; l + e < k; e++) {
        lane[e] += x[l + e] * x[l + e];
    }
    return gx_merit_tree(lane);
}

#endif
