/*
** The graph of nearest neighbours, as a sparse matrix.
*/
#ifndef GX_KNN_GRAPH_H
#define GX_KNN_GRAPH_H

#include "../mat/sparse.h"
#include "knn.h"

/* Which edges there are beside those of the lists. */
typedef enum gx_knn_edges {
    GX_KNN_AS_FOUND, /* i -> j: j is in i's list                      */
    GX_KNN_UNION,    /* both ways where either is in the other's list */
    GX_KNN_MUTUAL    /* both ways where each is                       */
} gx_knn_edges;

/*
** Row i has an entry for each row of list i, with its merit as the value.  The lists, one a row of
** the matrix, are sorted by index.  Memory: for UNION and MUTUAL once more what the lists take.
*/
gx_code gx_knn_graph_store(gx_run *run, gx_neighbours *found, gx_knn_edges edges,
                           const gx_dest *dest, gx_number dtype, gx_sink *sink);

#endif
