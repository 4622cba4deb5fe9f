/*
** The order of a line of doubles: ascending, NaN last, equal ones (0 and -0 are) as they stood.
*/
#ifndef GX_ORDER_H
#define GX_ORDER_H

#include "../run/run.h"

typedef struct gx_ranked {
    double value;
    int64_t index; /* where it stood */
} gx_ranked;

/* What gx_order_line() needs for a line of that length. */
size_t gx_order_bytes(int64_t length);

/*
** The sorted line, in work.  run is polled (NULL: nobody asks); once it has failed, what comes back
** is a permutation all the same.
*/
const gx_ranked *gx_order_line(gx_run *run, const double *line, int64_t length, void *work);

size_t gx_order_pair_bytes(int64_t length);

/*
** The numbers of rank k and k + 1 in that order, from 0; the last one twice.  0 <= k < length; run
** as above, work of gx_order_pair_bytes(length).
*/
void gx_order_pair(gx_run *run, const double *line, int64_t length, int64_t k, void *work,
                   double pair[2]);

/* How many different ones there are, 0 and -0 one, all NaN one; run as above. */
size_t gx_order_distinct_bytes(int64_t length);
int64_t gx_order_distinct(gx_run *run, const double *line, int64_t length, void *work);

/* A set of different ones, by that rule: GX_FEW at most; GX_FEW_SLOTS keys, all 0 at first. */
enum { GX_FEW = 1 << 14, GX_FEW_SLOTS = 2 * GX_FEW };

typedef struct gx_few {
    uint64_t *slot;
    int64_t count;
} gx_few;

/* false: there are more than GX_FEW. */
bool gx_few_add(gx_few *set, const double *line, int64_t length);

/* Those of another set. */
bool gx_few_join(gx_few *set, const gx_few *other);

#endif
