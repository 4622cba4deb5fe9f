/*
** What a product in a block's own precision foretells of a merit (core/base/nearest.h), and what
** rounding may have done to it: for the CPU, for CUDA's device code and for its stand-in.
**
**   foretold     v, more being nearer:   DOT x . y    COSINE x . y / |x|    SQUARED 2 x . y - x . x
**                of a block and queries that the same shift has been taken off; ABSOLUTE, and where
**                sums of differences are at hand: minus those
**   wanted       v >= bound - error, where the bound is the worst merit of the query's list, its
**                floor, or, of the rows foretold right now, the count-th best one less another
**                error.  error is what rounding may have done to v at most: (k + 8) roundings of
**                |x| |y|, and the like
**
** Where numbers are so large or small that products might overflow or vanish nothing is foretold.
*/
#ifndef GX_FORETELL_H
#define GX_FORETELL_H

#include "../core/base/nearest.h"

#include <math.h>

#ifdef __CUDACC__
#define GX_FORETELLS static inline __device__
#else
#define GX_FORETELLS static inline __attribute__((always_inline))
#endif

/* What rounding may have done to a value v: fixed + relative |v| + root sqrt |v|. */
typedef struct gx_errors {
    double fixed, relative, root;
} gx_errors;

/* How a sum of products or differences is seen as more being nearer. */
typedef enum gx_sight {
    GX_SEEN_AS_IT_IS,
    GX_SEEN_TIMES_FACTOR,
    GX_SEEN_LESS_FACTOR,
    GX_SEEN_NEGATIVE
} gx_sight;

/* Of a query and the rows that it is compared with. */
typedef struct gx_prospect {
    gx_metric metric;
    bool has_gaps;  /* sums are of differences, not of products          */
    double k;       /* numbers of a row                                  */
    double unit;    /* (k + 8) roundings: gx_unit_of()                   */
    double length;  /* |y|, without the shift                            */
    double longest; /* |x| of the rows at most; not looked at with gaps  */
} gx_prospect;

GX_FORETELLS double gx_unit_of(bool is_double, int64_t k)
{
    return (double)(k + 8) * (is_double ? 0x1p-52 : 0x1p-23);
}

GX_FORETELLS double gx_lowered(double bound, const gx_errors *e)
{
    if (!isfinite(bound)) {
        return bound;
    }
    return bound - e->fixed - e->relative * fabs(bound) - e->root * sqrt(fabs(bound));
}

/* What the query's merits of at least `bound` are, foretold, and what rounding may have done. */
GX_FORETELLS double gx_foretell(const gx_prospect *p, double bound, gx_sight *how, gx_errors *e)
{
    e->fixed = e->relative = e->root = 0;
    if (p->metric == GX_METRIC_ABSOLUTE) { // the query's own rounding: u |y| at most
        *how = GX_SEEN_NEGATIVE;
        e->fixed = p->unit * p->length * sqrt(p->k);
        e->relative = p->unit;
    } else if (p->metric == GX_METRIC_SQUARED && p->has_gaps) {
        double own = 2 * p->unit / (p->k + 8) * p->length;
        *how = GX_SEEN_NEGATIVE;
        e->fixed = own * own;
        e->relative = p->unit;
        e->root = 2 * own;
    } else if (p->metric == GX_METRIC_SQUARED) {
        *how = GX_SEEN_LESS_FACTOR;
        e->fixed = 2 * p->unit * (p->length + p->longest) * (p->length + p->longest);
        bound += p->length * p->length;
    } else if (p->metric == GX_METRIC_COSINE) {
        *how = GX_SEEN_TIMES_FACTOR;
        e->fixed = p->unit * p->length;
        bound *= p->length > 0 ? p->length : 1;
    } else {
        *how = GX_SEEN_AS_IT_IS;
        e->fixed = p->unit * p->length * p->longest;
    }
    return gx_lowered(bound, e);
}

GX_FORETELLS double gx_seen_f64(gx_sight how, double x, double factor)
{
    return how == GX_SEEN_TIMES_FACTOR  ? x * factor
           : how == GX_SEEN_LESS_FACTOR ? x - factor
           : how == GX_SEEN_NEGATIVE    ? -x
                                        : x;
}

GX_FORETELLS float gx_seen_f32(gx_sight how, float x, float factor)
{
    return how == GX_SEEN_TIMES_FACTOR  ? x * factor
           : how == GX_SEEN_LESS_FACTOR ? x - factor
           : how == GX_SEEN_NEGATIVE    ? -x
                                        : x;
}

/* Whether products with a query so long, or with a row of such a square, may overflow or vanish. */
GX_FORETELLS bool gx_is_extreme_length(bool is_double, double length)
{
    double least = is_double ? 0x1p-450 : 0x1p-50;
    return length != 0 && !(length >= least && length <= 1 / least);
}

GX_FORETELLS bool gx_is_extreme_square(bool is_double, double square)
{
    double least = is_double ? 0x1p-900 : 0x1p-100;
    return square != 0 && !(square >= least && square <= 1 / least);
}

#endif
