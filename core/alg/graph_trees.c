/*
** Strong components, orders, spanning trees, Laplacians: see graphs.h.
*/
#include "graphs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POLL = 1 << 14 };

// Strong components -------------------------------------------------------------------------------

/*
** Tarjan's algorithm with a path of its own instead of recursion.  first: the number of a node in
** the order of the search, from 1; low: the least that its part of the tree leads back to.
*/
typedef struct strong {
    const gx_csr_matrix *M;
    int64_t *first, *low, *next, *path, *stack;
    int64_t found, depth, kept;
    double *label; /* -1 while a node is on the stack */
    int64_t count;
} strong;

static void enter(strong *s, int64_t v)
{
    s->first[v] = s->low[v] = ++s->found;
    s->next[v] = s->M->start[v];
    s->path[s->depth++] = v;
    s->stack[s->kept++] = v;
}

/* v has no edges left: it may be its component's root. */
static void leave(strong *s, int64_t v)
{
    s->depth--;
    if (s->low[v] == s->first[v]) {
        int64_t u;
        do {
            u = s->stack[--s->kept];
            s->label[u] = (double)s->count;
        } while (u != v);
        s->count++;
    }
    if (s->depth > 0) {
        int64_t parent = s->path[s->depth - 1];
        s->low[parent] = gx_min(s->low[parent], s->low[v]);
    }
}

static void search(gx_run *run, strong *s, int64_t root)
{
    enter(s, root);
    for (int64_t steps = 1; s->depth > 0; steps++) {
        int64_t v = s->path[s->depth - 1];
        if (s->next[v] == s->M->start[v + 1]) {
            leave(s, v);
            continue;
        }
        int64_t u = s->M->index[s->next[v]++];
        if (s->first[u] == 0) {
            enter(s, u);
        } else if (s->label[u] < 0) {
            s->low[v] = gx_min(s->low[v], s->first[u]);
        }
        if (steps % POLL == 0 && gx_run_poll(run) != GX_OK) {
            return;
        }
    }
}

gx_code gx_graph_strong(gx_run *run, const gx_mat *G, double *label, int64_t *count)
{
    gx_edges edges;
    int64_t n = G->rows, *work = NULL;
    if (gx_graph_load(run, G, true, false, &edges) == GX_OK) {
        work = gx_nodes_take(run, 5 * n);
    }
    if (work != NULL) {
        strong s = {.M = &edges.to,
                    .first = work,
                    .low = work + n,
                    .next = work + 2 * n,
                    .path = work + 3 * n,
                    .stack = work + 4 * n,
                    .label = label};
        memset(work, 0, (size_t)n * sizeof *work);
        for (int64_t v = 0; v < n; v++) {
            label[v] = -1;
        }
        for (int64_t v = 0; v < n && gx_ok(run); v++) {
            if (s.first[v] == 0) {
                search(run, &s, v);
            }
        }
        int64_t *number = work, known = 0; // by their first nodes
        memset(number, -1, (size_t)n * sizeof *number);
        for (int64_t v = 0; v < n && gx_ok(run); v++) {
            int64_t *of = &number[(int64_t)label[v]];
            *of = *of < 0 ? known++ : *of;
            label[v] = (double)*of;
        }
        *count = known;
    }
    gx_mem_free(run->ctx->mem, work);
    gx_edges_clear(&edges);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Cuthill and McKee -------------------------------------------------------------------------------

typedef struct ranked {
    int64_t degree, node;
} ranked;

static int by_degree(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->degree != y->degree ? (x->degree > y->degree) - (x->degree < y->degree)
                                  : (x->node > y->node) - (x->node < y->node);
}

/* The neighbours of u that have no place yet, on both sides, by degree, at the end of the queue. */
static int64_t queue_neighbours(const gx_edges *edges, const int64_t *degree, int64_t u,
                                bool *is_queued, ranked *queue, int64_t end)
{
    int64_t first = end;
    for (int k = 0; k < 2; k++) {
        const gx_csr_matrix *M = k == 0 ? &edges->to : &edges->from;
        for (int64_t e = M->start[u]; e < M->start[u + 1]; e++) {
            int64_t v = M->index[e];
            if (!is_queued[v]) {
                is_queued[v] = true;
                queue[end++] = (ranked){degree[v], v};
            }
        }
    }
    qsort(queue + first, (size_t)(end - first), sizeof *queue, by_degree);
    return end;
}

gx_code gx_graph_narrow(gx_run *run, const gx_mat *G, double *order)
{
    gx_edges edges;
    gx_mem *mem = run->ctx->mem;
    int64_t n = G->rows, end = 0, *degree = NULL;
    ranked *queue = NULL, *start = NULL;
    bool *is_queued = NULL;
    if (gx_graph_load(run, G, true, true, &edges) == GX_OK) {
        degree = gx_nodes_take(run, n);
        queue = gx_nodes_take(run, 2 * n);
        start = gx_nodes_take(run, 2 * n);
        is_queued = gx_nodes_take(run, n);
    }
    for (int64_t v = 0; v < n && gx_ok(run); v++) {
        degree[v] = edges.to.start[v + 1] - edges.to.start[v] + edges.from.start[v + 1] -
                    edges.from.start[v];
        start[v] = (ranked){degree[v], v};
        is_queued[v] = false;
    }
    if (gx_ok(run)) {
        qsort(start, (size_t)n, sizeof *start, by_degree);
    }
    for (int64_t k = 0, at = 0; k < n && gx_ok(run); k++) {
        if (!is_queued[start[k].node]) {
            is_queued[start[k].node] = true;
            queue[end++] = start[k];
        }
        for (; at < end && gx_ok(run); at++) {
            end = queue_neighbours(&edges, degree, queue[at].node, is_queued, queue, end);
            if (at % POLL == 0) {
                gx_run_poll(run);
            }
        }
    }
    for (int64_t k = 0; k < n && gx_ok(run); k++) {
        order[k] = (double)queue[n - 1 - k].node;
    }
    gx_mem_free(mem, degree);
    gx_mem_free(mem, queue);
    gx_mem_free(mem, start);
    gx_mem_free(mem, is_queued);
    gx_edges_clear(&edges);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Spanning trees ----------------------------------------------------------------------------------

typedef struct edge {
    double weight;
    int64_t entry;
    int32_t i, j;
} edge;

static int by_weight(const void *a, const void *b)
{
    const edge *x = a, *y = b;
    return x->weight != y->weight ? (x->weight > y->weight) - (x->weight < y->weight)
                                  : (x->entry > y->entry) - (x->entry < y->entry);
}

/* The entries of M that are marked. */
static void put_marked(gx_run *run, const gx_csr_matrix *M, const bool *is_marked,
                       const gx_dest *dest, gx_number dtype, gx_sink *sink)
{
    gx_sparse_out out;
    gx_err err = {0};
    if (gx_sparse_out_begin(run, dest, M->rows, M->cols, dtype, 0, sink, &out) == GX_OK) {
        for (int64_t i = 0; i < M->rows && err.code == GX_OK; i++) {
            for (int64_t e = M->start[i]; e < M->start[i + 1] && err.code == GX_OK; e++) {
                if (is_marked[e]) {
                    gx_sparse_put(&out, i, M->index[e],
                                  (gx_scalar){((const double *)M->value)[e], 0}, &err);
                }
            }
        }
        if (gx_run_fail(run, &err) == GX_OK) {
            gx_sparse_out_end(&out);
        }
    }
    gx_sparse_out_clear(&out);
}

/* The edges that join two trees, the lightest first. */
static void mark_tree(gx_run *run, const gx_csr_matrix *M, double sign, edge *edges,
                      int64_t *parent, bool *is_kept)
{
    for (int64_t i = 0; i < M->rows; i++) {
        parent[i] = i;
        for (int64_t e = M->start[i]; e < M->start[i + 1]; e++) {
            edges[e] = (edge){sign * ((const double *)M->value)[e], e, (int32_t)i, M->index[e]};
            is_kept[e] = false;
        }
    }
    qsort(edges, (size_t)M->entries, sizeof *edges, by_weight);
    for (int64_t k = 0; k < M->entries && gx_ok(run); k++) {
        int64_t a = gx_root_of(parent, edges[k].i), b = gx_root_of(parent, edges[k].j);
        is_kept[edges[k].entry] = a != b;
        parent[gx_max(a, b)] = gx_min(a, b);
        if (k % POLL == 0) {
            gx_run_poll(run);
        }
    }
}

gx_code gx_graph_tree(gx_run *run, const gx_mat *G, bool is_largest, const gx_dest *dest,
                      gx_sink *sink)
{
    gx_edges graph;
    edge *edges = NULL;
    int64_t *parent = NULL;
    bool *is_kept = NULL;
    *sink = (gx_sink){.run = run};
    if (gx_graph_load(run, G, true, false, &graph) == GX_OK) {
        edges = gx_nodes_take(run, 3 * graph.to.entries);
        parent = gx_nodes_take(run, G->rows);
        is_kept = gx_nodes_take(run, graph.to.entries / 8 + 1);
    }
    if (gx_ok(run)) {
        mark_tree(run, &graph.to, is_largest ? -1 : 1, edges, parent, is_kept);
    }
    if (gx_ok(run)) {
        put_marked(run, &graph.to, is_kept, dest, G->number, sink);
    }
    gx_mem_free(run->ctx->mem, edges);
    gx_mem_free(run->ctx->mem, parent);
    gx_mem_free(run->ctx->mem, is_kept);
    gx_edges_clear(&graph);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Laplacians --------------------------------------------------------------------------------------

/* The sums of the rows, or the columns, without loops. */
static void add_up(const gx_csr_matrix *M, bool is_out, double *sum)
{
    memset(sum, 0, (size_t)M->rows * sizeof *sum);
    for (int64_t i = 0; i < M->rows; i++) {
        for (int64_t e = M->start[i]; e < M->start[i + 1]; e++) {
            if (M->index[e] != i) {
                sum[is_out ? i : M->index[e]] += ((const double *)M->value)[e];
            }
        }
    }
}

static double root_or_one(double sum)
{
    return sum == 0 ? 1 : sqrt(sum);
}

/* Row i: its entries, and the diagonal where it stands among them. */
static gx_code put_row(gx_sparse_out *out, const gx_csr_matrix *M, int64_t i, const double *sum,
                       bool is_normed, gx_err *err)
{
    bool is_put = false;
    gx_scalar diagonal = {is_normed ? sum[i] != 0 : sum[i], 0};
    for (int64_t e = M->start[i]; e <= M->start[i + 1]; e++) {
        bool is_end = e == M->start[i + 1];
        int64_t j = is_end ? M->rows : M->index[e];
        if (!is_put && j >= i) {
            GX_TRY(diagonal.re == 0 ? GX_OK : gx_sparse_put(out, i, i, diagonal, err));
            is_put = true;
        }
        if (!is_end && j != i) {
            double x = ((const double *)M->value)[e];
            double by = is_normed ? root_or_one(sum[i]) * root_or_one(sum[j]) : 1;
            GX_TRY(gx_sparse_put(out, i, j, (gx_scalar){-x / by, 0}, err));
        }
    }
    return GX_OK;
}

static void put_laplacian(gx_run *run, const gx_csr_matrix *M, const double *sum, bool is_normed,
                          const gx_dest *dest, gx_number dtype, uint32_t properties, gx_sink *sink)
{
    gx_sparse_out out;
    gx_err err = {0};
    if (gx_sparse_out_begin(run, dest, M->rows, M->rows, dtype, properties, sink, &out) == GX_OK) {
        for (int64_t i = 0; i < M->rows && err.code == GX_OK && gx_ok(run); i++) {
            put_row(&out, M, i, sum, is_normed, &err);
            if (i % POLL == 0) {
                gx_run_poll(run);
            }
        }
        if (gx_run_fail(run, &err) == GX_OK) {
            gx_sparse_out_end(&out);
        }
    }
    gx_sparse_out_clear(&out);
}

gx_code gx_graph_laplacian(gx_run *run, const gx_mat *G, bool is_normed, bool is_out,
                           const gx_dest *dest, gx_sink *sink)
{
    gx_edges edges;
    double *sum = NULL;
    uint32_t symmetric = GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN;
    *sink = (gx_sink){.run = run};
    if (gx_graph_load(run, G, true, false, &edges) == GX_OK) {
        sum = gx_nodes_take(run, G->rows);
    }
    if (sum != NULL) {
        add_up(&edges.to, is_out, sum);
    }
    for (int64_t i = 0; i < G->rows && is_normed && gx_ok(run); i++) {
        if (sum[i] < 0) {
            gx_run_failf(run, GX_NUMERIC,
                         "the weights of node %lld of %s add up to %g: it has no normed Laplacian",
                         (long long)i, G->label, sum[i]);
        }
    }
    if (gx_ok(run)) {
        bool is_symmetric = gx_csr_matrix_is_hermitian(run, &edges.to);
        put_laplacian(run, &edges.to, sum, is_normed, dest, G->number, is_symmetric ? symmetric : 0,
                      sink);
    }
    gx_mem_free(run->ctx->mem, sum);
    gx_edges_clear(&edges);
    return gx_ok(run) ? GX_OK : run->err.code;
}
