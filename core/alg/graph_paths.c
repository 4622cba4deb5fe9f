/*
** Shortest paths and searches: see graphs.h.
*/
#include "graphs.h"

#include "dense.h"
#include "node_heap.h"

#include <math.h>
#include <string.h>

enum { POLL = 1 << 14 };

void *gx_nodes_take(gx_run *run, int64_t count)
{
    return gx_dense_take(run, GX_F64, gx_max(1, count), 1, "numbers of a graph's nodes");
}

static gx_code refuse_complex(gx_run *run, const gx_mat *G)
{
    if (gx_ok(run) && gx_number_is_complex(G->number)) {
        return gx_run_failf(run, GX_ARG, "%s is complex (%s), but weights of edges are real",
                            G->label, gx_number_name(G->number));
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_graph_check(gx_run *run, const gx_mat *G)
{
    if (gx_ok(run) && G->rows != G->cols) {
        return gx_run_failf(run, GX_ARG, "%s is %lldx%lld, but a graph's matrix is square",
                            G->label, (long long)G->rows, (long long)G->cols);
    }
    return refuse_complex(run, G);
}

gx_code gx_graph_load(gx_run *run, const gx_mat *G, bool is_directed, bool has_from,
                      gx_edges *edges)
{
    *edges = (gx_edges){.is_directed = is_directed};
    GX_TRY(gx_graph_check(run, G));
    return gx_edges_load(run, G, is_directed, has_from, edges);
}

gx_code gx_edges_load(gx_run *run, const gx_mat *G, bool is_directed, bool has_from,
                      gx_edges *edges)
{
    *edges = (gx_edges){.is_directed = is_directed};
    GX_TRY(refuse_complex(run, G));
    if (gx_csr_matrix_load(run, G, GX_F64, &edges->to) == GX_OK && (has_from || !is_directed)) {
        gx_csr_matrix_transpose(run, &edges->to, &edges->from);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

void gx_edges_clear(gx_edges *edges)
{
    gx_csr_matrix_clear(&edges->to);
    gx_csr_matrix_clear(&edges->from);
}

/* The sides on which a node's neighbours stand. */
static int sides(const gx_edges *edges)
{
    return edges->is_directed ? 1 : 2;
}

static const gx_csr_matrix *side(const gx_edges *edges, int k)
{
    return k == 0 ? &edges->to : &edges->from;
}

static double weight(const gx_csr_matrix *M, int64_t e)
{
    return ((const double *)M->value)[e];
}

// Shortest paths ----------------------------------------------------------------------------------

typedef struct search {
    gx_run *run;
    const gx_edges *edges;
    int64_t n;
    bool is_unweighted;
    double *potential;   /* NULL: no weight is below 0                                   */
    gx_node_heap heap;   /* keys: the lengths, the potentials added                      */
    int64_t looked_at;   /* edges, for polling                                           */
    const bool *is_shut; /* nodes that no path may enter; NULL: none                   */
    int64_t from;        /* from this one, not to ...                                  */
    const bool *is_past; /* ... these                                                  */
} search;

static bool may_enter(const search *s, int64_t u, int64_t v)
{
    return s->is_shut == NULL || (!s->is_shut[v] && !(u == s->from && s->is_past[v]));
}

/* u is done: its edges make other nodes nearer. */
static void look_from(search *s, int64_t u, double *distance, double *before)
{
    for (int k = 0; k < sides(s->edges); k++) {
        const gx_csr_matrix *M = side(s->edges, k);
        for (int64_t e = M->start[u]; e < M->start[u + 1]; e++) {
            int64_t v = M->index[e];
            double w = s->is_unweighted ? 1 : weight(M, e), step = w;
            if (s->potential != NULL) { // 0 or more but for rounding
                step = fmax(0, w + s->potential[u] - s->potential[v]);
            }
            if (may_enter(s, u, v) && gx_heap_put(&s->heap, v, s->heap.key[u] + step)) {
                distance[v] = distance[u] + w;
                if (before != NULL) {
                    before[v] = (double)u;
                }
            }
        }
        s->looked_at += M->start[u + 1] - M->start[u];
    }
}

static void find_from(search *s, int64_t start, double *distance, double *before)
{
    for (int64_t v = 0; v < s->n; v++) {
        distance[v] = HUGE_VAL;
    }
    for (int64_t v = 0; v < s->n && before != NULL; v++) {
        before[v] = -1;
    }
    gx_heap_clear(&s->heap, s->n);
    gx_heap_put(&s->heap, start, 0);
    distance[start] = 0;
    while (s->heap.size > 0 && gx_ok(s->run)) {
        look_from(s, gx_heap_take(&s->heap), distance, before);
        if (s->looked_at >= POLL) {
            s->looked_at = 0;
            gx_run_poll(s->run);
        }
    }
}

/* Is some edge shorter than the difference of the potentials?  Then the latter becomes it. */
static bool lower(search *s)
{
    bool is_lower = false;
    for (int k = 0; k < sides(s->edges); k++) {
        const gx_csr_matrix *M = side(s->edges, k);
        for (int64_t u = 0; u < s->n; u++) {
            for (int64_t e = M->start[u]; e < M->start[u + 1]; e++) {
                int64_t v = M->index[e];
                double least = s->potential[u] + weight(M, e);
                if (least < s->potential[v]) {
                    s->potential[v] = least;
                    is_lower = true;
                }
            }
        }
    }
    return is_lower;
}

/* Potentials by Bellman's and Ford's rounds, where a weight is below 0. */
static void find_potentials(search *s, const char *label)
{
    bool has_negative = false;
    for (int64_t e = 0; e < s->edges->to.entries && !s->is_unweighted; e++) {
        has_negative = has_negative || weight(&s->edges->to, e) < 0;
    }
    s->potential = has_negative ? gx_nodes_take(s->run, s->n) : NULL;
    if (s->potential == NULL) {
        return;
    }
    memset(s->potential, 0, (size_t)s->n * sizeof(double));
    int64_t round = 0;
    while (lower(s) && gx_run_poll(s->run) == GX_OK) {
        if (++round > s->n) {
            gx_run_failf(s->run, GX_NUMERIC,
                         "%s has a cycle whose weights add up to less than 0: there is no shortest "
                         "path",
                         label);
        }
    }
}

/* Edges, potentials and a heap, to be given back whatever has become of them. */
static void open_search(gx_run *run, const gx_mat *G, const gx_paths_args *args, gx_edges *edges,
                        search *s)
{
    int64_t n = G->rows;
    *s = (search){.run = run, .edges = edges, .n = n, .is_unweighted = args->is_unweighted};
    if (gx_graph_load(run, G, args->is_directed, false, edges) == GX_OK) {
        s->heap.key = gx_nodes_take(run, n);
        s->heap.node = gx_nodes_take(run, n);
        s->heap.place = gx_nodes_take(run, n);
    }
    if (gx_ok(run)) {
        find_potentials(s, G->label);
    }
}

static void close_search(search *s, gx_edges *edges)
{
    gx_mem *mem = s->run->ctx->mem;
    gx_mem_free(mem, s->heap.key);
    gx_mem_free(mem, s->heap.node);
    gx_mem_free(mem, s->heap.place);
    gx_mem_free(mem, s->potential);
    gx_edges_clear(edges);
}

gx_code gx_graph_paths(gx_run *run, const gx_mat *G, const gx_paths_args *args, double *distance,
                       double *before)
{
    gx_edges edges;
    search s;
    int64_t n = G->rows;
    open_search(run, G, args, &edges, &s);
    for (int64_t k = 0; k < args->count && gx_run_poll(run) == GX_OK; k++) {
        find_from(&s, (int64_t)args->from[k], distance + k * n,
                  before == NULL ? NULL : before + k * n);
    }
    close_search(&s, &edges);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Several paths -----------------------------------------------------------------------------------

/*
** Yen: a further path leaves one that was found at some node, by an edge that no path found goes on
** by from there, and comes to no node of its own beginning.  Of those ways out the shortest wait,
** no more than can still be wanted.
*/
typedef struct several {
    search *s;
    int64_t target, most;
    gx_path *path, *waiting;
    int64_t found, waits;
    double *distance, *before;
    bool *is_shut, *is_past;
} several;

static bool is_same(const gx_path *a, const gx_path *b, int64_t count)
{
    return a->count >= count && b->count >= count &&
           memcmp(a->node, b->node, (size_t)count * sizeof *a->node) == 0;
}

static bool is_known(const several *y, const gx_path *path)
{
    for (int64_t k = 0; k < y->found + y->waits; k++) {
        const gx_path *other = k < y->found ? &y->path[k] : &y->waiting[k - y->found];
        if (other->count == path->count && is_same(other, path, path->count)) {
            return true;
        }
    }
    return false;
}

/* The first `shared` nodes of `root`, so long, and the way from there that has been found. */
static gx_path join_paths(const several *y, const gx_path *root, int64_t shared, double length)
{
    gx_path made = {.length = length + y->distance[y->target], .count = shared};
    int64_t from = y->s->from;
    for (int64_t v = y->target; v != from; v = (int64_t)y->before[v]) {
        made.count++;
    }
    made.node = gx_nodes_take(y->s->run, made.count);
    if (made.node != NULL) {
        int64_t k = made.count;
        for (int64_t v = y->target; v != from; v = (int64_t)y->before[v]) {
            made.node[--k] = v;
        }
        memcpy(made.node, root->node, (size_t)shared * sizeof *made.node);
    }
    return made;
}

/* Waits, where it is new and among the shortest; else it is given back. */
static void offer(several *y, gx_path path)
{
    gx_mem *mem = y->s->run->ctx->mem;
    int64_t room = y->most - y->found, worst = 0;
    if (path.node == NULL || is_known(y, &path)) {
        gx_mem_free(mem, path.node);
        return;
    }
    if (y->waits < room) {
        y->waiting[y->waits++] = path;
        return;
    }
    for (int64_t k = 1; k < y->waits; k++) {
        worst = y->waiting[k].length > y->waiting[worst].length ? k : worst;
    }
    bool is_better = path.length < y->waiting[worst].length;
    gx_mem_free(mem, is_better ? y->waiting[worst].node : path.node);
    y->waiting[worst] = is_better ? path : y->waiting[worst];
}

/* The length of the edge from u to v, the shortest where there are two. */
static double edge_length(const search *s, int64_t u, int64_t v)
{
    double least = HUGE_VAL;
    for (int k = 0; k < sides(s->edges); k++) {
        const gx_csr_matrix *M = side(s->edges, k);
        for (int64_t e = M->start[u]; e < M->start[u + 1]; e++) {
            if (M->index[e] == v) {
                least = fmin(least, s->is_unweighted ? 1 : weight(M, e));
            }
        }
    }
    return least;
}

/* What leaves the path that was found last, at each of its nodes. */
static void leave_path(several *y)
{
    const gx_path *last = &y->path[y->found - 1];
    double length = 0;
    for (int64_t i = 0; i + 1 < last->count && gx_run_poll(y->s->run) == GX_OK; i++) {
        memset(y->is_past, 0, (size_t)y->s->n);
        for (int64_t k = 0; k < y->found; k++) {
            if (is_same(&y->path[k], last, i + 1)) {
                y->is_past[y->path[k].node[i + 1]] = true;
            }
        }
        y->s->from = last->node[i];
        find_from(y->s, last->node[i], y->distance, y->before);
        if (gx_ok(y->s->run) && isfinite(y->distance[y->target])) {
            offer(y, join_paths(y, last, i + 1, length));
        }
        y->is_shut[last->node[i]] = true;
        length += edge_length(y->s, last->node[i], last->node[i + 1]);
    }
    memset(y->is_shut, 0, (size_t)y->s->n);
}

static void find_several(several *y, int64_t source)
{
    gx_path none = {.node = &source};
    memset(y->is_shut, 0, (size_t)y->s->n);
    memset(y->is_past, 0, (size_t)y->s->n);
    y->s->from = source;
    find_from(y->s, source, y->distance, y->before);
    if (gx_ok(y->s->run) && isfinite(y->distance[y->target])) {
        offer(y, join_paths(y, &none, 1, 0));
    }
    while (y->waits > 0 && gx_ok(y->s->run)) {
        int64_t best = 0;
        for (int64_t k = 1; k < y->waits; k++) {
            best = y->waiting[k].length < y->waiting[best].length ? k : best;
        }
        y->path[y->found++] = y->waiting[best];
        y->waiting[best] = y->waiting[--y->waits];
        if (y->found == y->most) {
            return;
        }
        leave_path(y);
    }
}

gx_code gx_graph_several(gx_run *run, const gx_mat *G, const gx_paths_args *args, int64_t target,
                         int64_t most, gx_path *path, int64_t *found)
{
    gx_edges edges;
    search s;
    gx_mem *mem = run->ctx->mem;
    several y = {.s = &s, .target = target, .most = most, .path = path};
    open_search(run, G, args, &edges, &s);
    y.waiting = gx_nodes_take(run, 3 * most);
    y.distance = gx_nodes_take(run, G->rows);
    y.before = gx_nodes_take(run, G->rows);
    y.is_shut = gx_nodes_take(run, G->rows / 8 + 1);
    y.is_past = gx_nodes_take(run, G->rows / 8 + 1);
    s.is_shut = y.is_shut;
    s.is_past = y.is_past;
    if (gx_ok(run)) {
        find_several(&y, (int64_t)args->from[0]);
    }
    *found = y.found;
    for (int64_t k = 0; k < y.waits; k++) {
        gx_mem_free(mem, y.waiting[k].node);
    }
    gx_mem_free(mem, y.waiting);
    gx_mem_free(mem, y.distance);
    gx_mem_free(mem, y.before);
    gx_mem_free(mem, y.is_shut);
    gx_mem_free(mem, y.is_past);
    close_search(&s, &edges);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Searches ----------------------------------------------------------------------------------------

typedef struct walking {
    gx_run *run;
    const gx_edges *edges;
    double *walk;
    int64_t count;
    int64_t *row;  /* of a node in the walk, -1: not there yet                     */
    int64_t *next; /* in depth: which neighbour of a node is looked at next       */
} walking;

static void reach(walking *w, int64_t v, int64_t before, double depth)
{
    double *row = w->walk + 3 * w->count;
    row[0] = (double)v;
    row[1] = (double)before;
    row[2] = depth;
    w->row[v] = w->count++;
}

/* The k-th neighbour of u on both sides; -1: there are no more. */
static int64_t neighbour(const gx_edges *edges, int64_t u, int64_t k)
{
    for (int at = 0; at < sides(edges); at++) {
        const gx_csr_matrix *M = side(edges, at);
        int64_t count = M->start[u + 1] - M->start[u];
        if (k < count) {
            return M->index[M->start[u] + k];
        }
        k -= count;
    }
    return -1;
}

static void walk_in_breadth(walking *w)
{
    for (int64_t at = 0; at < w->count && gx_ok(w->run); at++) {
        int64_t u = (int64_t)w->walk[3 * at], v;
        for (int64_t k = 0; (v = neighbour(w->edges, u, k)) >= 0; k++) {
            if (w->row[v] < 0) {
                reach(w, v, u, w->walk[3 * at + 2] + 1);
            }
        }
        if (at % POLL == 0) {
            gx_run_poll(w->run);
        }
    }
}

static void walk_in_depth(walking *w, int64_t start)
{
    int64_t u = start, steps = 0;
    while (u >= 0 && (++steps % POLL != 0 || gx_run_poll(w->run) == GX_OK)) {
        int64_t v = neighbour(w->edges, u, w->next[u]++);
        const double *row = w->walk + 3 * w->row[u];
        if (v < 0) {
            u = (int64_t)row[1];
        } else if (w->row[v] < 0) {
            reach(w, v, u, row[2] + 1);
            u = v;
        }
    }
}

gx_code gx_graph_walk(gx_run *run, const gx_mat *G, int64_t start, bool is_directed, bool is_deep,
                      double *walk, int64_t *count)
{
    gx_edges edges;
    int64_t n = G->rows;
    walking w = {.run = run, .edges = &edges, .walk = walk};
    if (gx_graph_load(run, G, is_directed, false, &edges) == GX_OK) {
        w.row = gx_nodes_take(run, n);
        w.next = gx_nodes_take(run, n);
    }
    for (int64_t v = 0; v < n && gx_ok(run); v++) {
        w.row[v] = -1;
        w.next[v] = 0;
    }
    if (gx_ok(run)) {
        reach(&w, start, -1, 0);
        if (is_deep) {
            walk_in_depth(&w, start);
        } else {
            walk_in_breadth(&w);
        }
    }
    *count = w.count;
    gx_mem_free(run->ctx->mem, w.row);
    gx_mem_free(run->ctx->mem, w.next);
    gx_edges_clear(&edges);
    return gx_ok(run) ? GX_OK : run->err.code;
}
