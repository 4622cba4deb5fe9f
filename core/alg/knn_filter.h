/*
** Nearest neighbours with a filter: E quantised tells which rows of E may be among the nearest.
*/
#ifndef GX_KNN_FILTER_H
#define GX_KNN_FILTER_H

#include "../mat/quantized.h"
#include "knn.h"

typedef struct gx_knn_filter {
    const gx_leaf *codes; /* of all rows of E, as they are now                              */
    int64_t rescored;     /* of one bit: so many rows of E are scored for each query        */
} gx_knn_filter;

/*
** gx_knn_run(), without candidates, for the metrics DOT, COSINE and SQUARED.  With codes of 8 or 4
** bits the rows and bits are the same, always.  With those of one bit the search is approximate.
** Reads the codes once for some 1000 queries, and the rows of E that are left.  Memory: 10 bytes a
** number of these queries, 40 k for each of them; for each thread 4 MiB of codes, and pairs.
*/
gx_code gx_knn_run_filtered(gx_run *run, const gx_knn_args *args, const gx_knn_filter *filter,
                            gx_neighbours *out);

#endif
