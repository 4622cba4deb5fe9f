/*
** Paths, trees, orders, matchings and flows of a graph by its adjacency matrix G (graph_paths.c,
** graph_trees.c, graph_match.c).
**
** An entry (i, j) of G is an edge from i to j with that weight.  G is loaded into memory once, as
** f64: 12 bytes an edge, twice that where edges are followed backwards, too.  Each function
** refuses, in words: NaN and Inf, complex weights, more memory than there is, and, but for
** matchings, a G that is not square.  Numbers of nodes count from 0 and are doubles in results.
*/
#ifndef GX_GRAPHS_H
#define GX_GRAPHS_H

#include "csr_matrix.h"

/* The edges, and those backwards where somebody follows them. */
typedef struct gx_edges {
    gx_csr_matrix to, from;
    bool is_directed; /* false: every edge goes both ways */
} gx_edges;

/* Refuses a G that is not square, and complex weights. */
gx_code gx_graph_check(gx_run *run, const gx_mat *G);

/*
** has_from: `from` is loaded, which an undirected graph has anyway.  To be cleared in any case.
** gx_graph_load() checks G, gx_edges_load() its weights alone.
*/
gx_code gx_graph_load(gx_run *run, const gx_mat *G, bool is_directed, bool has_from,
                      gx_edges *edges);
gx_code gx_edges_load(gx_run *run, const gx_mat *G, bool is_directed, bool has_from,
                      gx_edges *edges);
void gx_edges_clear(gx_edges *edges);

/* `count` numbers of 8 bytes, of the run's memory; NULL: the run has failed. */
void *gx_nodes_take(gx_run *run, int64_t count);

typedef struct gx_paths_args {
    const double *from; /* count nodes, whole numbers below n */
    int64_t count;
    bool is_directed, is_unweighted; /* unweighted: every edge is 1 long */
} gx_paths_args;

/*
** distance, before: count x n by rows, row k of node from[k]: the length of the shortest path to
** each node, Inf where there is none, and the node before it on that path, -1 where there is none.
** Weights below 0 are allowed; GX_NUMERIC where a cycle's sum is below 0.  before may be NULL.
** Dijkstra's algorithm with a heap, after potentials where a weight is below 0 (Johnson 1977).
*/
gx_code gx_graph_paths(gx_run *run, const gx_mat *G, const gx_paths_args *args, double *distance,
                       double *before);

/* A path: its length and its nodes, in the run's memory. */
typedef struct gx_path {
    double length;
    int64_t count;
    int64_t *node;
} gx_path;

/*
** The `most` shortest paths from source to target that visit no node twice, in ascending order, or
** all where they are fewer (Yen 1971): path, of `most`, zeroed; *found of them are filled, and
** path[k].node is freed by the caller, whatever this returns.  Weights as for gx_graph_paths().
*/
gx_code gx_graph_several(gx_run *run, const gx_mat *G, const gx_paths_args *args, int64_t target,
                         int64_t most, gx_path *path, int64_t *found);

/*
** The nodes that can be reached from `start`, in the order of a search in breadth or depth: *count
** rows of node, the node before it (-1), how many edges it is away in the search's tree.  walk: 3 n
** numbers, by rows.
*/
gx_code gx_graph_walk(gx_run *run, const gx_mat *G, int64_t start, bool is_directed, bool is_deep,
                      double *walk, int64_t *count);

/* label: strongly connected components (Tarjan 1972), numbered by their first nodes. */
gx_code gx_graph_strong(gx_run *run, const gx_mat *G, double *label, int64_t *count);

/* order: n nodes by Cuthill and McKee, reversed: neighbours have numbers near each other. */
gx_code gx_graph_narrow(gx_run *run, const gx_mat *G, double *order);

/*
** A spanning tree of each component with the smallest sum of weights, or the largest: the entries
** of G that are its edges, whatever their direction (Kruskal 1956).  Sparse.
*/
gx_code gx_graph_tree(gx_run *run, const gx_mat *G, bool is_largest, const gx_dest *dest,
                      gx_sink *sink);

/*
** D - G without its loops, D: the sums of its columns, of its rows where is_out.  is_normed:
** divided by the roots of D from both sides, with ones on the diagonal of nodes that have edges.
** Sparse.
*/
gx_code gx_graph_laplacian(gx_run *run, const gx_mat *G, bool is_normed, bool is_out,
                           const gx_dest *dest, gx_sink *sink);

/*
** A largest flow from source to target, weights being capacities, 0 or more: what flows along each
** edge that something flows along (Dinic 1970).  *value: what arrives.  Sparse.
*/
gx_code gx_graph_flow(gx_run *run, const gx_mat *G, int64_t source, int64_t target, double *value,
                      const gx_dest *dest, gx_sink *sink);

typedef enum gx_matching { GX_MATCH_MOST, GX_MATCH_LEAST_WEIGHT, GX_MATCH_MOST_WEIGHT } gx_matching;

/*
** column: for each of G's m rows the column that it is matched with, -1: none; no column twice.
** MOST: as many as there can be (Hopcroft & Karp 1973).  By weight: all rows, or all columns where
** they are fewer, with the smallest or largest sum (shortest augmenting paths: Jonker & Volgenant
** 1987); GX_NUMERIC where there is no such matching.
*/
gx_code gx_graph_match(gx_run *run, const gx_mat *G, gx_matching how, double *column);

#endif
