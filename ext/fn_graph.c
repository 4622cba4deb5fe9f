/*
** Graphs in SQL: gx_pagerank, gx_components, gx_triangles and the table gx_spread, of the adjacency
** matrix.  A dense one is made sparse first, which is no more than looking at it.
*/
#include "../core/alg/adjacency.h"
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
    gx_sparse_of_dense(&fn->run, &A, NULL, A.number, A.properties, 0, &sink);
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
    gx_mat G;
    double *label;
    int64_t count;
    if (gx_fn_options(fn, NULL, NULL) && take_graph(fn, &G) && take_numbers(fn, G.rows, &label) &&
        gx_graph_components(&fn->run, &G, label, &count) == GX_OK) {
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

const gx_function gx_functions_graph[] = {
    {"gx_pagerank", 1, 3, GX_MADE(1) | GX_SPARSE(0), pagerank, 0},
    {"gx_components", 1, 3, GX_MADE(1) | GX_SPARSE(0), components, 0},
    {"gx_triangles", 1, 1, GX_SPARSE(0), triangles, 0},
    {.name = NULL}};

// gx_spread(G, seeds[, options]) ------------------------------------------------------------------

enum { SPREAD_NODE, SPREAD_ACTIVATION, SPREAD_COLUMNS };

typedef struct spread {
    gx_mem *mem;
    double *activation; /* owned, with what follows      */
    int64_t *node; /* those that have one           */
    int64_t rows;  /* how many                      */
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
