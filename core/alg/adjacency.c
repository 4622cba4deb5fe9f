/*
** Graphs by their adjacency matrix: see adjacency.h.
**
** PageRank (L.  Page, S.  Brin, 1998) and spreading activation (A.  Collins, E.  Loftus, 1975) are
** products with the transposed matrix by gx_sparse_apply(): a vector in, a vector out, of a copy in
** memory where it fits.
** Components are a union of sets, joined by each edge as it passes (R.  Tarjan, 1975).  Triangles
** are counted at their largest corner: the neighbours below i and those below its neighbour j < i
** are lists in ascending order, and what both have are corners.
*/
#include "adjacency.h"

#include "alg.h"
#include "csr_matrix.h"
#include "dense.h"
#include "graphs.h"
#include "spmm.h"
#include "spmm_device.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* `count` vectors of n numbers; NULL: failed. */
static double *vectors(gx_run *run, int64_t n, int64_t count)
{
    double *numbers;
    gx_dense_alloc(run, GX_F64, gx_max(1, n), count, "numbers of a graph's nodes", &numbers);
    return numbers;
}

/* G in memory where it fits beside a product's own; what fails is the run's. */
static void hold(gx_run *run, const gx_mat *G, gx_sparse_held *held)
{
    size_t lanes = 0;
    gx_matrix_bytes(gx_max(1, G->rows), 4, GX_F64, &lanes);
    lanes += gx_sparse_apply_bytes(run, G, GX_TRANS, GX_F64, 1);
    gx_sparse_held_begin(run, G, lanes, false, held);
}

// PageRank ----------------------------------------------------------------------------------------

static gx_code check_weight(void *arg, int64_t i, int64_t j, gx_scalar x, gx_err *err)
{
    const gx_mat *G = arg;
    return x.re >= 0 && isfinite(x.re)
               ? GX_OK
               : gx_fail(err, GX_ARG, "%s[%lld,%lld] is %g, but a weight is 0 or more and finite",
                         G->label, (long long)i, (long long)j, x.re);
}

/* What is divided by must be in the range where division gives a number. */
static void check_strength(gx_run *run, const gx_mat *G, const double *strength)
{
    for (int64_t i = 0; i < G->rows && gx_ok(run); i++) {
        if (strength[i] > 0 && (strength[i] < DBL_MIN || isinf(strength[i]))) {
            gx_run_failf(run, GX_NUMERIC,
                         "the weights of node %lld of %s sum up to %g: scale the weights",
                         (long long)i, G->label, strength[i]);
        }
    }
}

/* The share of walks that are broken off which goes on at node i. */
static double teleport_of(const gx_pagerank_args *args, int64_t n, int64_t i)
{
    return args->teleport != NULL ? args->teleport[i] : 1 / (double)n;
}

/* One iteration: next from rank; shared is scratch.  Returns the sum of changes. */
static double iterate(gx_run *run, const gx_mat *G, const gx_mat *held,
                      const gx_pagerank_args *args, const double *strength, const double *rank,
                      double *shared, double *next)
{
    int64_t n = G->rows;
    double left = 0, change = 0;
    for (int64_t i = 0; i < n; i++) {
        shared[i] = strength[i] > 0 ? rank[i] / strength[i] : 0;
        left += strength[i] > 0 ? 0 : rank[i];
    }
    if (!gx_sparse_apply_by_device(run, G, GX_TRANS, GX_F64, 1, shared, n, next, n, held != G)) {
        gx_sparse_apply(run, held, GX_TRANS, GX_F64, 1, shared, n, next, n);
    }
    double broken = 1 - args->damping + args->damping * left;
    for (int64_t i = 0; i < n; i++) {
        next[i] = args->damping * next[i] + broken * teleport_of(args, n, i);
        change += fabs(next[i] - rank[i]);
    }
    return change;
}

gx_code gx_graph_pagerank(gx_run *run, const gx_mat *G, const gx_pagerank_args *args, double *rank)
{
    int64_t n = G->rows;
    double change = INFINITY;
    double *work = gx_graph_check(run, G) == GX_OK ? vectors(run, n, 3) : NULL, *strength = work;
    if (work != NULL && n > 0) {
        gx_sparse_held held;
        hold(run, G, &held);
        if (gx_ok(run)) {
            gx_sparse_each(run, held.A, check_weight, (void *)(uintptr_t)G);
        }
        gx_alg_sums(run, held.A, true, 1, strength);
        check_strength(run, G, strength);
        for (int64_t i = 0; i < n; i++) {
            rank[i] = teleport_of(args, n, i);
        }
        for (int64_t k = 0; k < args->iterations && gx_ok(run) && !(change <= args->tolerance);
             k++) {
            double *next = work + 2 * n;
            change = iterate(run, G, held.A, args, strength, rank, work + n, next);
            memcpy(rank, next, (size_t)n * sizeof *rank);
        }
        if (gx_ok(run) && !(change <= args->tolerance)) {
            gx_run_failf(run, GX_NUMERIC,
                         "ranks still change by %.3g after %lld iterations (tolerance %.3g)",
                         change, (long long)args->iterations, args->tolerance);
        }
        gx_sparse_held_end(run, &held);
    }
    gx_mem_free(run->ctx->mem, work);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Components --------------------------------------------------------------------------------------

/* The smaller root stays one, so that a root is its component's first node. */
static gx_code join(void *arg, int64_t i, int64_t j, gx_scalar x, gx_err *err)
{
    int64_t *parent = arg, a = gx_root_of(parent, i), b = gx_root_of(parent, j);
    (void)x, (void)err;
    parent[gx_max(a, b)] = gx_min(a, b);
    return GX_OK;
}

gx_code gx_graph_components(gx_run *run, const gx_mat *G, double *label, int64_t *count)
{
    int64_t n = G->rows;
    *count = 0;
    int64_t *parent =
        gx_graph_check(run, G) == GX_OK ? (int64_t *)(void *)vectors(run, n, 1) : NULL;
    for (int64_t i = 0; parent != NULL && i < n; i++) {
        parent[i] = i;
    }
    if (parent != NULL && gx_sparse_each(run, G, join, parent) == GX_OK) {
        for (int64_t i = 0; i < n; i++) {
            int64_t root = gx_root_of(parent, i);
            label[i] = root == i ? (double)(*count)++ : label[root];
        }
    }
    gx_mem_free(run->ctx->mem, parent);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Triangles ---------------------------------------------------------------------------------------

/* Neighbours below each node, in ascending order; and a look at what is above. */
typedef struct lower {
    int64_t *start; /* n + 1                          */
    int64_t *node;  /* capacity of them               */
    int64_t count, row;
    int64_t above; /* entries above the diagonal     */
    uint64_t hash; /* of edges below, less those above: 0 where they are the same */
} lower;

static uint64_t hash_of(int64_t i, int64_t j)
{
    uint64_t z = (uint64_t)i * 0x9e3779b97f4a7c15u ^ ((uint64_t)j + 0x7f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static gx_code take_edge(void *arg, int64_t i, int64_t j, gx_scalar x, gx_err *err)
{
    lower *l = arg;
    (void)x, (void)err;
    while (l->row <= i) {
        l->start[l->row++] = l->count;
    }
    if (j < i) {
        l->node[l->count++] = j;
        l->hash += hash_of(i, j);
    } else if (j > i) {
        l->above++;
        l->hash -= hash_of(j, i);
    }
    return GX_OK;
}

/* How many numbers two ascending lists have in common. */
static int64_t common(const int64_t *a, int64_t m, const int64_t *b, int64_t n)
{
    int64_t found = 0;
    for (int64_t i = 0, j = 0; i < m && j < n;) {
        found += a[i] == b[j];
        int64_t step = a[i] <= b[j];
        j += b[j] <= a[i];
        i += step;
    }
    return found;
}

static gx_code count_triangles(gx_run *run, const gx_mat *G, const lower *l, int64_t *count)
{
    if (l->hash != 0 || l->above != l->count) {
        return gx_run_failf(run, GX_ARG,
                            "%s is not symmetric, and a triangle is of an undirected graph: "
                            "gx_add(G, gx_transpose(G)) is one",
                            G->label);
    }
    for (int64_t i = 0; i < G->rows && gx_ok(run); i++) {
        for (int64_t e = l->start[i]; e < l->start[i + 1]; e++) {
            int64_t j = l->node[e];
            *count += common(l->node + l->start[i], e - l->start[i], l->node + l->start[j],
                             l->start[j + 1] - l->start[j]);
        }
        if (i % 1024 == 0) {
            gx_run_poll(run);
        }
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_graph_triangles(gx_run *run, const gx_mat *G, int64_t *count)
{
    lower l = {0};
    *count = 0;
    if (gx_graph_check(run, G) != GX_OK) {
        return run->err.code;
    }
    l.start = (int64_t *)(void *)vectors(run, G->rows + 1, 1);
    l.node = (int64_t *)(void *)vectors(run, gx_sparse_entries(G), 1);
    if (gx_ok(run) && gx_sparse_each(run, G, take_edge, &l) == GX_OK) {
        while (l.row <= G->rows) {
            l.start[l.row++] = l.count;
        }
        count_triangles(run, G, &l, count);
    }
    gx_mem_free(run->ctx->mem, l.start);
    gx_mem_free(run->ctx->mem, l.node);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Spreading activation ----------------------------------------------------------------------------

gx_code gx_graph_spread(gx_run *run, const gx_mat *G, const gx_spread_args *args, double *pulse,
                        double *activation)
{
    int64_t n = G->rows;
    if (gx_graph_check(run, G) != GX_OK || gx_spread_by_device(run, G, args, pulse, activation)) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    double *work = vectors(run, n, 2), *strength = work;
    double *next = work == NULL ? NULL : work + n;
    gx_sparse_held held = {.A = G};
    if (work != NULL && args->steps > 1 && n > 0) {
        hold(run, G, &held);
    }
    if (work != NULL && args->normalize) {
        gx_alg_sums(run, G, true, 1, strength);
    }
    for (int64_t i = 0; work != NULL && i < n; i++) {
        activation[i] = pulse[i];
    }
    for (int64_t step = 0; step < args->steps && n > 0 && gx_ok(run); step++) {
        for (int64_t i = 0; i < n; i++) {
            double share = !args->normalize ? 1 : strength[i] != 0 ? 1 / strength[i] : 0;
            pulse[i] = fabs(pulse[i]) <= args->threshold ? 0 : pulse[i] * args->decay * share;
        }
        gx_sparse_apply(run, held.A, GX_TRANS, GX_F64, 1, pulse, n, next, n);
        for (int64_t i = 0; i < n; i++) {
            pulse[i] = next[i];
            activation[i] += next[i];
        }
    }
    gx_sparse_held_end(run, &held);
    gx_mem_free(run->ctx->mem, work);
    return gx_ok(run) ? GX_OK : run->err.code;
}
