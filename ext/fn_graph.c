/*
** Graphs in SQL, of the adjacency matrix: ranks, components, triangles, paths, orders, trees,
** matchings, flows, and the table gx_spread.  A dense matrix is made sparse first, which is no more
** than looking at it.
*/
#include "../core/alg/adjacency.h"
#include "../core/alg/alg.h"
#include "../core/alg/graphs.h"
#include "../core/base/best.h"
#include "table_fn.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Argument 0, sparse. */
static bool take_graph(gx_fn *fn, gx_mat *G)
{
    gx_mat A;
    gx_sink sink;
    gx_value value;
    gx_csr csr;
    if (!gx_fn_matrix(fn, 0, "G", &A)) {
        return false;
    }
    *G = A;
    if (A.is_sparse) {
        return true;
    }
    gx_alg_sparse(&fn->run, &A, NULL, A.number, A.properties, 0, &sink);
    if (gx_sink_end(&sink) != GX_OK || !gx_fn_own(fn, sink.value.blob)) {
        return false;
    }
    gx_code code = gx_value_parse_any(sink.value.blob, sink.value.bytes, &value, &fn->err);
    gx_csr_map(&csr, A.rows, A.cols, value.entries, A.number, value.data);
    gx_mat_sparse_value(G, A.label, &csr);
    G->properties = A.properties;
    return gx_fn_check(fn, code);
}

/* A column of n numbers under construction, in memory of the call's. */
static bool take_numbers(gx_fn *fn, int64_t n, double **numbers)
{
    *numbers = gx_fn_alloc(fn, (size_t)gx_max(1, n) * sizeof **numbers, "numbers of nodes");
    return *numbers != NULL;
}

/* Nodes in a column, each with 1; or with what stands beside it: numbers, of all nodes. */
static bool take_seeds(gx_fn *fn, const gx_mat *seeds, const gx_mat *G, double *numbers)
{
    gx_reader *reader;
    double *number;
    if (seeds->rows > 0 && seeds->cols != 1 && seeds->cols != 2) {
        return gx_fn_fail(fn,
                          "seeds is %lldx%lld, but has nodes in a column, and what each is "
                          "given in a second one or not",
                          (long long)seeds->rows, (long long)seeds->cols);
    }
    if (!take_numbers(fn, 2 * seeds->rows, &number) || !gx_look_open(fn, seeds, &reader)) {
        return false;
    }
    gx_fn_check(fn, gx_mat_read(&fn->run, seeds, reader, 0, 0, seeds->rows, seeds->cols, GX_F64,
                                number, gx_max(1, seeds->rows), &fn->err));
    gx_reader_close(reader);
    memset(numbers, 0, (size_t)gx_max(1, G->rows) * sizeof *numbers);
    for (int64_t k = 0; k < seeds->rows && gx_ok(&fn->run); k++) {
        double i = number[k];
        if (!(i >= 0 && i < (double)G->rows && i == floor(i))) {
            return gx_fn_fail(fn, "seeds has node %g, but the nodes of %s are 0 to %lld", i,
                              G->label, (long long)G->rows - 1);
        }
        numbers[(int64_t)i] += seeds->cols == 2 ? number[seeds->rows + k] : 1;
    }
    return gx_ok(&fn->run);
}

static void result_column(gx_fn *fn, int64_t n, const double *numbers)
{
    gx_mat column;
    gx_sink sink;
    gx_mat_value(&column, fn->def->name, GX_F64, n, 1, numbers, gx_max(1, n));
    gx_sink_begin(&fn->run, &fn->dest, n, 1, GX_F64, 0, 0, 0, &sink);
    gx_copy_to_sink(&fn->run, &column, &sink);
    gx_fn_result_sink(fn, &sink);
}

// gx_pagerank(G[, destination][, options]) --------------------------------------------------------

typedef struct rank_options {
    gx_pagerank_args args;
    const char *seeds;
} rank_options;

static const gx_option rank_keys[] = {
    {"damping=[0,1)", GX_OPT_REAL, offsetof(rank_options, args.damping), 0},
    {"tolerance=[0,inf]", GX_OPT_REAL, offsetof(rank_options, args.tolerance), 0},
    {"iterations=[1,inf]", GX_OPT_INT, offsetof(rank_options, args.iterations), 0},
    {"seeds", GX_OPT_MATRIX, offsetof(rank_options, seeds), 0},
    {NULL, GX_OPT_END, 0, 0},
};

/* The seeds' shares, which add up to 1. */
static bool take_teleport(gx_fn *fn, const char *text, const gx_mat *G, const double **teleport)
{
    gx_mat seeds;
    double *share, sum = 0;
    if (!gx_fn_option_matrix(fn, "seeds", text, &seeds) || !take_numbers(fn, G->rows, &share) ||
        !take_seeds(fn, &seeds, G, share)) {
        return false;
    }
    for (int64_t i = 0; i < G->rows; i++) {
        if (!(share[i] >= 0 && isfinite(share[i]))) {
            return gx_fn_fail(fn, "seeds gives node %lld %g, but a share is 0 or more and finite",
                              (long long)i, share[i]);
        }
        sum += share[i];
    }
    if (G->rows > 0 && !(sum >= DBL_MIN && isfinite(sum))) {
        return gx_fn_fail(fn, "what seeds gives its nodes adds up to %g: there is nowhere to go on",
                          sum);
    }
    for (int64_t i = 0; i < G->rows; i++) {
        share[i] /= sum;
    }
    *teleport = share;
    return true;
}

static void pagerank(gx_fn *fn)
{
    rank_options opt = {.args = {.damping = 0.85, .tolerance = 1e-10, .iterations = 1000}};
    gx_mat G;
    double *rank;
    if (gx_fn_options(fn, rank_keys, &opt) && take_graph(fn, &G) &&
        (opt.seeds == NULL || take_teleport(fn, opt.seeds, &G, &opt.args.teleport)) &&
        take_numbers(fn, G.rows, &rank) &&
        gx_graph_pagerank(&fn->run, &G, &opt.args, rank) == GX_OK) {
        result_column(fn, G.rows, rank);
    }
}

// gx_components(G[, destination][, options]) ------------------------------------------------------

static void components(gx_fn *fn)
{
    static const gx_option keys[] = {{"connection=weak|strong", GX_OPT_WORD, 0, 0},
                                     {NULL, GX_OPT_END, 0, 0}};
    gx_mat G;
    double *label;
    int64_t count;
    int is_strong = 0;
    if (!gx_fn_options(fn, keys, &is_strong) || !take_graph(fn, &G) ||
        !take_numbers(fn, G.rows, &label)) {
        return;
    }
    gx_code code = is_strong ? gx_graph_strong(&fn->run, &G, label, &count)
                             : gx_graph_components(&fn->run, &G, label, &count);
    if (code == GX_OK) {
        result_column(fn, G.rows, label);
    }
}

// gx_triangles(G) ---------------------------------------------------------------------------------

static void triangles(gx_fn *fn)
{
    gx_mat G;
    int64_t count;
    if (gx_fn_options(fn, NULL, NULL) && take_graph(fn, &G) &&
        gx_graph_triangles(&fn->run, &G, &count) == GX_OK) {
        sqlite3_result_int64(fn->sql, count);
    }
}

// Paths, orders, trees, matchings, flows ----------------------------------------------------------

/* Columns of n numbers each, as the rows of the result. */
static void result_rows(gx_fn *fn, int64_t rows, int64_t cols, const double *numbers)
{
    gx_mat turned;
    gx_sink sink;
    gx_mat_value(&turned, fn->def->name, GX_F64, cols, rows, numbers, gx_max(1, cols));
    gx_sink_begin(&fn->run, &fn->dest, rows, cols, GX_F64, 0, 0, 0, &sink);
    gx_alg_transpose(&fn->run, &turned, GX_TRANS, &sink);
    gx_fn_result_sink(fn, &sink);
}

/* Node `index` of the arguments. */
static bool take_node(gx_fn *fn, int index, const char *what, const gx_mat *G, int64_t *node)
{
    return gx_fn_int(fn, index, what, node) &&
           ((*node >= 0 && *node < G->rows) ||
            gx_fn_fail(fn, "%s is %lld, but the nodes of %s are 0 to %lld", what, (long long)*node,
                       G->label, (long long)G->rows - 1));
}

typedef struct path_options {
    const char *from;
    bool is_directed, is_unweighted, wants_before;
} path_options;

static const gx_option path_keys[] = {
    {"from", GX_OPT_MATRIX, offsetof(path_options, from), 0},
    {"predecessors", GX_OPT_BOOL, offsetof(path_options, wants_before), 0},
    {"directed", GX_OPT_BOOL, offsetof(path_options, is_directed), 0}, // and of gx_k_paths
    {"unweighted", GX_OPT_BOOL, offsetof(path_options, is_unweighted), 0},
    {NULL, GX_OPT_END, 0, 0},
};

/* The nodes of option "from", or all of them. */
static bool take_starts(gx_fn *fn, const char *text, const gx_mat *G, gx_paths_args *args)
{
    gx_mat nodes = {.rows = G->rows, .cols = 1};
    gx_reader *reader;
    double *from;
    if (text != NULL && !gx_fn_option_matrix(fn, "from", text, &nodes)) {
        return false;
    }
    if (nodes.cols != 1 && nodes.rows > 0) {
        return gx_fn_fail(fn, "from is %lldx%lld, but has nodes in a column", (long long)nodes.rows,
                          (long long)nodes.cols);
    }
    args->count = nodes.rows;
    if (!take_numbers(fn, nodes.rows, &from)) {
        return false;
    }
    args->from = from;
    for (int64_t k = 0; k < nodes.rows && text == NULL; k++) {
        from[k] = (double)k;
    }
    if (text != NULL && gx_look_open(fn, &nodes, &reader)) {
        gx_fn_check(fn, gx_mat_read(&fn->run, &nodes, reader, 0, 0, nodes.rows, 1, GX_F64, from,
                                    gx_max(1, nodes.rows), &fn->err));
        gx_reader_close(reader);
    }
    for (int64_t k = 0; k < nodes.rows && gx_ok(&fn->run); k++) {
        if (!(from[k] >= 0 && from[k] < (double)G->rows && from[k] == floor(from[k]))) {
            return gx_fn_fail(fn, "from has node %g, but the nodes of %s are 0 to %lld", from[k],
                              G->label, (long long)G->rows - 1);
        }
    }
    return gx_ok(&fn->run);
}

/* gx_shortest_paths(G[, destination][, options]) */
static void shortest_paths(gx_fn *fn)
{
    path_options opt = {.is_directed = true};
    gx_paths_args args = {0};
    gx_mat G;
    double *distance, *before = NULL;
    int64_t size;
    if (!gx_fn_options(fn, path_keys, &opt) || !take_graph(fn, &G) ||
        !take_starts(fn, opt.from, &G, &args)) {
        return;
    }
    args.is_directed = opt.is_directed;
    args.is_unweighted = opt.is_unweighted;
    if (!gx_mul_i64(args.count, G.cols, &size) || size > INT64_MAX / 16) {
        gx_fn_fail(fn, "the result is too large");
        return;
    }
    if (take_numbers(fn, size, &distance) &&
        (!opt.wants_before || take_numbers(fn, size, &before)) &&
        gx_graph_paths(&fn->run, &G, &args, distance, before) == GX_OK) {
        result_rows(fn, args.count, G.rows, opt.wants_before ? before : distance);
    }
}

/* The lengths of paths and their nodes, behind which -1 stands, as rows. */
static void result_paths(gx_fn *fn, int64_t found, const gx_path *path)
{
    int64_t width = 1, size;
    double *row;
    for (int64_t k = 0; k < found; k++) {
        width = gx_max(width, path[k].count + 1);
    }
    if (!gx_mul_i64(found, width, &size) || !take_numbers(fn, size, &row)) {
        return;
    }
    for (int64_t k = 0; k < found; k++) {
        row[k * width] = path[k].length;
        for (int64_t i = 1; i < width; i++) {
            row[k * width + i] = i <= path[k].count ? (double)path[k].node[i - 1] : -1;
        }
    }
    result_rows(fn, found, width, row);
}

/* gx_k_paths(G, source, target, k[, destination][, options]) */
static void several_paths(gx_fn *fn)
{
    path_options opt = {.is_directed = true};
    gx_mat G;
    gx_path *path;
    int64_t source, target, most, found = 0;
    if (!gx_fn_options(fn, path_keys + 2, &opt) || !take_graph(fn, &G) ||
        !take_node(fn, 1, "source", &G, &source) || !take_node(fn, 2, "target", &G, &target) ||
        !gx_fn_size(fn, 3, "k", &most)) {
        return;
    }
    if (source == target || most < 1 || most > INT32_MAX) {
        gx_fn_fail(fn, source == target ? "source and target are the same node"
                                        : "k must be from 1 to 2^31 - 1");
        return;
    }
    double from = (double)source;
    const gx_paths_args args = {&from, 1, opt.is_directed, opt.is_unweighted};
    path = gx_fn_alloc(fn, (size_t)most * sizeof *path, "paths");
    if (path == NULL) {
        return;
    }
    memset(path, 0, (size_t)most * sizeof *path);
    if (gx_graph_several(&fn->run, &G, &args, target, most, path, &found) == GX_OK) {
        result_paths(fn, found, path);
    }
    for (int64_t k = 0; k < found; k++) {
        gx_mem_free(fn->ctx->mem, path[k].node);
    }
}

/* gx_breadth_first(G, start[, destination][, options]), gx_depth_first: variant 1 */
static void walk(gx_fn *fn)
{
    path_options opt = {.is_directed = true};
    static const gx_option keys[] = {
        {"directed", GX_OPT_BOOL, offsetof(path_options, is_directed), 0},
        {NULL, GX_OPT_END, 0, 0}};
    gx_mat G;
    int64_t start, count;
    double *rows;
    if (gx_fn_options(fn, keys, &opt) && take_graph(fn, &G) &&
        take_node(fn, 1, "start", &G, &start) && take_numbers(fn, 3 * G.rows, &rows) &&
        gx_graph_walk(&fn->run, &G, start, opt.is_directed, fn->def->variant == 1, rows, &count) ==
            GX_OK) {
        result_rows(fn, count, 3, rows);
    }
}

static void narrow(gx_fn *fn)
{
    gx_mat G;
    double *order;
    if (gx_fn_options(fn, NULL, NULL) && take_graph(fn, &G) && take_numbers(fn, G.rows, &order) &&
        gx_graph_narrow(&fn->run, &G, order) == GX_OK) {
        result_column(fn, G.rows, order);
    }
}

typedef struct tree_options {
    bool is_largest, is_normed, is_out;
} tree_options;

static void spanning_tree(gx_fn *fn)
{
    static const gx_option keys[] = {
        {"largest", GX_OPT_BOOL, offsetof(tree_options, is_largest), 0}, {NULL, GX_OPT_END, 0, 0}};
    tree_options opt = {0};
    gx_mat G;
    gx_sink sink;
    if (gx_fn_options(fn, keys, &opt) && take_graph(fn, &G)) {
        gx_graph_tree(&fn->run, &G, opt.is_largest, &fn->dest, &sink);
        gx_fn_result_sink(fn, &sink);
    }
}

static void laplacian(gx_fn *fn)
{
    static const gx_option keys[] = {{"normed", GX_OPT_BOOL, offsetof(tree_options, is_normed), 0},
                                     {"out_degree", GX_OPT_BOOL, offsetof(tree_options, is_out), 0},
                                     {NULL, GX_OPT_END, 0, 0}};
    tree_options opt = {0};
    gx_mat G;
    gx_sink sink;
    if (gx_fn_options(fn, keys, &opt) && take_graph(fn, &G)) {
        gx_graph_laplacian(&fn->run, &G, opt.is_normed, opt.is_out, &fn->dest, &sink);
        gx_fn_result_sink(fn, &sink);
    }
}

/* gx_max_flow(G, source, target[, destination]) */
static void max_flow(gx_fn *fn)
{
    gx_mat G;
    gx_sink sink;
    int64_t source, target;
    double value;
    if (!gx_fn_options(fn, NULL, NULL) || !take_graph(fn, &G) ||
        !take_node(fn, 1, "source", &G, &source) || !take_node(fn, 2, "target", &G, &target)) {
        return;
    }
    if (source == target) {
        gx_fn_fail(fn, "source and target are both %lld", (long long)source);
        return;
    }
    gx_graph_flow(&fn->run, &G, source, target, &value, &fn->dest, &sink);
    gx_fn_result_sink(fn, &sink);
}

static void matching(gx_fn *fn)
{
    static const gx_option keys[] = {{"weights=none|min|max", GX_OPT_WORD, 0, 0},
                                     {NULL, GX_OPT_END, 0, 0}};
    gx_mat G;
    double *column;
    int how = 0;
    if (gx_fn_options(fn, keys, &how) && take_graph(fn, &G) && take_numbers(fn, G.rows, &column) &&
        gx_graph_match(&fn->run, &G, (gx_matching)how, column) == GX_OK) {
        result_column(fn, G.rows, column);
    }
}

const gx_function gx_functions_graph[] = {
    {"gx_pagerank", 1, 3, GX_MADE(1) | GX_SPARSE(0), pagerank, 0},
    {"gx_components", 1, 3, GX_MADE(1) | GX_SPARSE(0), components, 0},
    {"gx_triangles", 1, 1, GX_SPARSE(0), triangles, 0},
    {"gx_shortest_paths", 1, 3, GX_MADE(1) | GX_SPARSE(0), shortest_paths, 0},
    {"gx_k_paths", 4, 6, GX_MADE(4) | GX_SPARSE(0), several_paths, 0},
    {"gx_breadth_first", 2, 4, GX_MADE(2) | GX_SPARSE(0), walk, 0},
    {"gx_depth_first", 2, 4, GX_MADE(2) | GX_SPARSE(0), walk, 1},
    {"gx_cuthill_mckee", 1, 3, GX_MADE(1) | GX_SPARSE(0), narrow, 0},
    {"gx_spanning_tree", 1, 3, GX_MADE(1) | GX_SPARSE(0), spanning_tree, 0},
    {"gx_laplacian", 1, 3, GX_MADE(1) | GX_SPARSE(0), laplacian, 0},
    {"gx_max_flow", 3, 5, GX_MADE(3) | GX_SPARSE(0), max_flow, 0},
    {"gx_matching", 1, 3, GX_MADE(1) | GX_SPARSE(0), matching, 0},
    {.name = NULL}};

// gx_spread(G, seeds[, options]) ------------------------------------------------------------------

enum { SPREAD_NODE, SPREAD_ACTIVATION, SPREAD_COLUMNS };

typedef struct spread {
    gx_mem *mem;
    double *activation; /* owned, with what follows      */
    int64_t *node;      /* those that have one           */
    int64_t rows;       /* how many                      */
    bool is_falling;
    int64_t left; /* falling: the first so many are a heap, the largest at its root; behind it stand
                     the larger ones, the last of them first */
} spread;

static const gx_option spread_keys[] = {
    {"steps=[0,inf]", GX_OPT_INT, offsetof(gx_spread_args, steps), 0},
    {"decay=(-inf,inf)", GX_OPT_REAL, offsetof(gx_spread_args, decay), 0},
    {"threshold=[0,inf]", GX_OPT_REAL, offsetof(gx_spread_args, threshold), 0},
    {"normalize", GX_OPT_BOOL, offsetof(gx_spread_args, normalize), 0},
    {NULL, GX_OPT_END, 0, 0},
};

/* Room for all nodes; it outlives the call. */
static bool reserve(gx_fn *fn, int64_t n, spread *s)
{
    void *memory;
    size_t count = (size_t)gx_max(1, n), bytes = count * (sizeof(double) + sizeof(int64_t));
    s->mem = fn->ctx->mem;
    if (gx_fn_check(fn, gx_mem_alloc(s->mem, bytes, "activations", &memory, &fn->err))) {
        s->activation = memory;
        s->node = (int64_t *)(s->activation + count);
    }
    return gx_ok(&fn->run);
}

/* The nodes that have an activation, and none below the floor; how many they are. */
static int64_t list_nodes(const double *activation, int64_t n, double floor, int64_t *node)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) { // nothing to foretell: either is common
        node[count] = i;
        count += (activation[i] != 0) & !(activation[i] < floor);
    }
    return count;
}

/* node, in the heap of the first `count` from `at` down. */
static void sift(const double *activation, int64_t *heap, int64_t count, int64_t at, int64_t node)
{
    double x = activation[node];
    for (int64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && gx_best_is_worse(activation[heap[child]], heap[child],
                                                  activation[heap[child + 1]], heap[child + 1])) {
            child++;
        }
        if (!gx_best_is_worse(x, node, activation[heap[child]], heap[child])) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = node;
}

/* The row's node.  The rows come one after the other: who looks at ten has ten sorted. */
static int64_t node_of(spread *s, int64_t row)
{
    if (!s->is_falling) {
        return s->node[row];
    }
    while (s->left > s->rows - row - 1) {
        int64_t last = s->node[--s->left];
        s->node[s->left] = s->node[0];
        if (s->left > 0) {
            sift(s->activation, s->node, s->left, 0, last);
        }
    }
    return s->node[s->rows - row - 1];
}

static bool spread_begin(gx_fn *fn, const gx_table_wish *wish, void *state, int64_t *rows)
{
    spread *s = state;
    gx_spread_args args = {.steps = 3, .decay = 0.5};
    gx_mat G, seeds;
    double *pulse;
    s->mem = fn->ctx->mem;
    if (!gx_fn_options(fn, spread_keys, &args) || !take_graph(fn, &G) ||
        !take_numbers(fn, G.rows, &pulse)) {
        return false;
    }
    if (!gx_fn_matrix(fn, 1, "seeds", &seeds) || !take_seeds(fn, &seeds, &G, pulse) ||
        !reserve(fn, G.rows, s) ||
        gx_graph_spread(&fn->run, &G, &args, pulse, s->activation) != GX_OK) {
        return false;
    }
    *rows = s->rows = s->left = list_nodes(s->activation, G.rows, wish->floor, s->node);
    s->is_falling = wish->is_falling;
    for (int64_t at = s->rows / 2; s->is_falling && at-- > 0;) {
        sift(s->activation, s->node, s->rows, at, s->node[at]);
    }
    return true;
}

static gx_cell spread_cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    spread *s = state;
    int64_t node = node_of(s, row);
    (void)ctx;
    return column == SPREAD_NODE ? gx_cell_int(node) : gx_cell_real(s->activation[node]);
}

static void spread_clear(void *state)
{
    spread *s = state;
    gx_mem_free(s->mem, s->activation);
}

const gx_table_fn gx_table_spread = {
    .def = {"gx_spread", 2, 3, GX_SPARSE(0), NULL, 0},
    .shape = "CREATE TABLE x(node INTEGER, activation REAL, g HIDDEN, seeds HIDDEN, "
             "options HIDDEN)",
    .columns = SPREAD_COLUMNS,
    .state_bytes = sizeof(spread),
    .begin_within = spread_begin,
    .falling = SPREAD_ACTIVATION,
    .cell = spread_cell,
    .clear = spread_clear,
};
