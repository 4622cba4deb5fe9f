/*
** The few best of many numbers: a heap whose root is the worst of those that are kept.
**
** An entry is a number and its index.  Larger is better; of equals the one with the smaller index;
** NaN is worst of all.  Which are the best so does not depend on the order of looking.
*/
#ifndef GX_BEST_H
#define GX_BEST_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

static inline bool gx_best_is_worse(double a, int64_t a_index, double b, int64_t b_index)
{
    if (isnan(a) != isnan(b)) {
        return isnan(a);
    }
    return a < b || (!(a > b) && a_index > b_index);
}

/* Put an entry at the root of a heap of `count`, and where it belongs from there. */
static inline void gx_best_sift(double *value, int64_t *index, int64_t count, double x,
                                int64_t x_index)
{
    int64_t at = 0;
    for (int64_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count &&
            gx_best_is_worse(value[child + 1], index[child + 1], value[child], index[child])) {
            child++;
        }
        if (!gx_best_is_worse(value[child], index[child], x, x_index)) {
            break;
        }
        value[at] = value[child];
        index[at] = index[child];
        at = child;
    }
    value[at] = x;
    index[at] = x_index;
}

/* A heap of nothing; goes_on: of what a list that was sorted holds. */
static inline void gx_best_begin(double *value, int64_t *index, int64_t count, bool goes_on)
{
    for (int64_t e = 0; e < count && !goes_on; e++) {
        value[e] = -(double)INFINITY;
        index[e] = INT64_MAX;
    }
    for (int64_t e = 0; e < count / 2 && goes_on; e++) { // the worst first is a heap
        int64_t other = count - 1 - e, x_index = index[e];
        double x = value[e];
        value[e] = value[other];
        index[e] = index[other];
        value[other] = x;
        index[other] = x_index;
    }
}

/* The best first: the root, the worst, goes to the end, and so on. */
static inline void gx_best_sort(double *value, int64_t *index, int64_t count)
{
    for (int64_t last = count - 1; last > 0; last--) {
        double x = value[last];
        int64_t x_index = index[last];
        value[last] = value[0];
        index[last] = index[0];
        gx_best_sift(value, index, last, x, x_index);
    }
}

/*
** Of two lists, the best first, the best `count` of both, into the first: how many come from it,
** then from the worst on, which overwrites nothing that is still wanted.
*/
static inline void gx_best_merge(double *value, int64_t *index, const double *value2,
                                 const int64_t *index2, int64_t count)
{
    int64_t a = 0;
    while (a < count) {
        int64_t b = count - 1 - a; // were all before a and up to b chosen, with a next
        if (gx_best_is_worse(value[a], index[a], value2[b], index2[b])) {
            break;
        }
        a++;
    }
    int64_t b = count - a - 1, at = count - 1;
    for (a--; b >= 0; at--) {
        bool is_second = a < 0 || gx_best_is_worse(value2[b], index2[b], value[a], index[a]);
        value[at] = is_second ? value2[b] : value[a];
        index[at] = is_second ? index2[b--] : index[a--];
    }
}

#endif
