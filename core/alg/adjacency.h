/*
** Graphs by their adjacency matrix: entry (i, j) is an edge from node i to node j, its value the
** edge's weight.  G is sparse, square and real; GX_ARG where it is not.  Results are numbers in the
** caller's memory.  What fails is the run's.
*/
#ifndef GX_ADJACENCY_H
#define GX_ADJACENCY_H

#include "../mat/sparse.h"

typedef struct gx_pagerank_args {
    double damping;     /* 0 <= d < 1                                    */
    double tolerance;   /* of the sum of changes                         */
    int64_t iterations; /* at most                                       */
    const double *teleport; /* n, their sum 1: where a walk goes on; NULL: all alike */
} gx_pagerank_args;

/*
** rank: one a node, their sum 1.  A node passes its rank on by the weights of its edges; one
** without edges by args->teleport, as a walk that is broken off.  GX_ARG: a negative weight, NaN
** or Inf; GX_NUMERIC: not converged, with the change of the last iteration.  Reads G once; where
** memory has no room for a copy twice, and once an iteration.
*/
gx_code gx_graph_pagerank(gx_run *run, const gx_mat *G, const gx_pagerank_args *args, double *rank);

/*
** label: the weakly connected component of each node, numbered from 0 in the order of their first
** nodes; *count: how many there are.  Reads G once; 8 bytes a node.
*/
gx_code gx_graph_components(gx_run *run, const gx_mat *G, double *label, int64_t *count);

/*
** Triangles of an undirected graph, each counted once, weights and loops left aside.  GX_ARG where
** the pattern is not symmetric.  The edges have to fit in memory, at 8 bytes each.
*/
gx_code gx_graph_triangles(gx_run *run, const gx_mat *G, int64_t *count);

typedef struct gx_spread_args {
    int64_t steps;
    double decay;     /* what is left of an activation after one edge          */
    double threshold; /* a node passes on what is larger in magnitude          */
    bool normalize;   /* edges of a node share it by their weights             */
} gx_spread_args;

/*
** Spreading activation.  pulse: what each node is given at first, overwritten; activation: the sum
** of what it has got in all steps, the first included.  In a step each node passes
** decay * weight * pulse along its edges, and what arrives is the next pulse.  Reads G once, or
** once a step where memory has no room for a copy.
*/
gx_code gx_graph_spread(gx_run *run, const gx_mat *G, const gx_spread_args *args, double *pulse,
                        double *activation);

/*
** gx_graph_spread() on the device, where that is predicted to be faster, or wanted; G has been
** looked at.  false: the host's turn; pulse and activation are then as they were.
*/
bool gx_spread_by_device(gx_run *run, const gx_mat *G, const gx_spread_args *args,
                         const double *pulse, double *activation);

#endif
