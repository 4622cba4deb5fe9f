/*
** Nearest neighbours: of each query among the rows of a matrix, exactly.
*/
#ifndef GX_KNN_H
#define GX_KNN_H

#include "../exec/pass.h"
#include "../exec/predict.h"
#include "../mat/sparse.h"

typedef struct gx_knn_args {
    const gx_mat *Q, *E;  /* rows; Q may be E                                             */
    const gx_mat *C;      /* which rows are looked at: a row for each query of Q, numbers of E's
                            rows, -1 for none; NULL: all                                 */
    const uint64_t *rows; /* which rows are looked at by the queries: bit i % 64 of word i / 64 is
                             row i's; others may hold NaN.  NULL: all.  Without C             */
    int64_t row_words;    /* query j's begin at rows + j * row_words; 0: all have the same ones  */
    gx_metric metric;
    bool is_binary;      /* only zeros and ones are taken                                */
    bool excludes_self;  /* row i of E is not for query i                                */
    int64_t k;           /* at least 0; more than there are is all                       */
    int64_t first, last; /* queries first .. last - 1 alone                              */
} gx_knn_args;

/* For each query a list of count entries, the best first; -Inf, INT64_MAX where there are fewer. */
typedef struct gx_neighbours {
    gx_mem *mem;
    int64_t queries, count;
    double *merit; /* nearest.h */
    int64_t *index;
} gx_neighbours;

/*
** 2 m n d flops for m queries among n rows of d numbers, half of that where all rows of E are the
** queries and in memory; reads E once for as many queries as the
** memory holds (gx_knn_plan says how many times that is), each query once.  Results are the same to
** the bit for every number of threads and every budget.  Memory: 16 m k for the lists, 8 to 12
** bytes a number for the queries of a batch; for each thread a strip of E.
**
** GX_ARG  Q has another number of columns than E; a complex operand; a NaN or an Inf in Q or in a
**         row of E that is looked at, which is named.
*/
gx_code gx_knn_run(gx_run *run, const gx_knn_args *args, gx_neighbours *out);
void gx_neighbours_clear(gx_neighbours *out); /* also of one that was never filled */

/* How it would be done: strips of so many rows, so many queries at a time. */
typedef struct gx_knn_plan {
    int64_t strip, batch, batches;
    bool is_few;    /* the queries are multiplied while the strip is read        */
    bool is_mutual; /* the queries are E, in blocks as high as a strip: each pair of rows once */
} gx_knn_plan;

void gx_knn_foresee(gx_run *run, const gx_knn_args *args, gx_knn_plan *plan, gx_cost *cost,
                    gx_terms *terms);

// The graph of neighbours, as a sparse matrix (knn_graph.c) ---------------------------------------

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
