/*
** gx_normalize, gx_cosine, gx_distance, gx_kmeans, gx_knn_graph: rows beside rows
** (core/alg/similar.h, core/alg/knn.h).
**
** gx_kmeans returns the centres alone: they are a matrix, as everything that has a destination;
** which rows are whose is gx_knn(A, centres, 1), for the rows of A and for any others.
*/
#include "rows_arg.h"

#include "../core/alg/knn.h"
#include "../core/alg/similar.h"

#include <inttypes.h>
#include <string.h>

typedef struct similar_options {
    gx_dest dest; /* first: a set_offset of 0 means none */
    char metric[64];
    int64_t seed, iterations;
    double tolerance;
} similar_options;

static const gx_option distance_keys[] = {
    {"metric", GX_OPT_TEXT, offsetof(similar_options, metric), 0},
    GX_DEST_KEYS(similar_options, dest),
    {NULL, GX_OPT_END, 0, 0},
};

static const gx_option kmeans_keys[] = {
    {"seed", GX_OPT_INT, offsetof(similar_options, seed), 0},
    {"iterations", GX_OPT_INT, offsetof(similar_options, iterations), 0},
    {"tolerance", GX_OPT_REAL, offsetof(similar_options, tolerance), 0},
    GX_DEST_KEYS(similar_options, dest),
    {NULL, GX_OPT_END, 0, 0},
};

static bool is_real(gx_fn *fn, const gx_mat *A, const char *label)
{
    return !gx_number_is_complex(A->number) ||
           gx_fn_fail(fn, "%s is complex (%s): rows of real numbers are compared", label,
                      gx_number_name(A->number));
}

// gx_normalize ------------------------------------------------------------------------------------

static bool take_kind(gx_fn *fn, int index, gx_line_norm *kind)
{
    static const char *const names[] = {
        [GX_LINE_L2] = "l2", [GX_LINE_L1] = "l1", [GX_LINE_MAX] = "max"};
    const char *name;
    char shown[GX_SHOWN_BYTES];
    *kind = GX_LINE_L2;
    if (!gx_fn_has(fn, index)) {
        return true;
    }
    if (!gx_fn_text(fn, index, "kind", &name)) {
        return false;
    }
    for (int k = 0; k < 3; k++) {
        if (strcmp(name, names[k]) == 0) {
            *kind = (gx_line_norm)k;
            return true;
        }
    }
    return gx_fn_fail(fn, "kind '%s' is not known (l2, l1, max)",
                      gx_text_show(name, strlen(name), shown));
}

/* gx_normalize(A[, axis[, kind[, destination]]][, options]) */
static void normalize(gx_fn *fn)
{
    gx_dest dest = {0};
    gx_mat A;
    gx_normal normal = {0};
    gx_line_norm kind;
    gx_sink C;
    int64_t axis = 1;
    if (!gx_fn_options(fn, gx_dest_keys, &dest) || !gx_fn_matrix(fn, 0, "A", &A) ||
        (gx_fn_has(fn, 1) && !gx_fn_int(fn, 1, "axis", &axis)) || !take_kind(fn, 2, &kind) ||
        !gx_fn_dest(fn, 3, &dest) || !is_real(fn, &A, "A")) {
        return;
    }
    if (axis != 0 && axis != 1) {
        gx_fn_fail(fn, "axis is %" PRId64 " but must be 0 (columns) or 1 (rows)", axis);
        return;
    }
    gx_sink_begin(&fn->run, &dest, A.rows, A.cols, A.number, 0, 0, 0, &C);
    if (gx_ok(&fn->run) && gx_normal_make(&fn->run, &A, axis == 1, kind, &normal) == GX_OK) {
        gx_copy_to_sink(&fn->run, normal.mat, &C);
    }
    gx_normal_clear(&fn->run, &normal);
    gx_fn_result_sink(fn, &C);
}

// Rows beside rows --------------------------------------------------------------------------------

static bool take_both(gx_fn *fn, gx_mat *A, gx_mat *B)
{
    if (!gx_fn_matrix(fn, 0, "A", A) || !gx_fn_matrix(fn, 1, "B", B) || !is_real(fn, A, "A") ||
        !is_real(fn, B, "B")) {
        return false;
    }
    return A->cols == B->cols || gx_fn_fail(fn,
                                            "A is %" PRId64 "x%" PRId64 " but B is %" PRId64
                                            "x%" PRId64 ": rows of one length are compared",
                                            A->rows, A->cols, B->rows, B->cols);
}

/* gx_distance(A, B[, destination][, options]) */
static void distance(gx_fn *fn)
{
    similar_options opt = {.metric = "l2"};
    gx_measure measure;
    gx_mat A, B;
    gx_sink C;
    if (!gx_fn_options(fn, distance_keys, &opt) || !take_both(fn, &A, &B) ||
        !gx_fn_dest(fn, 2, &opt.dest) ||
        !gx_measure_parse(fn, opt.metric, GX_MEASURES_DISTANCE, &measure)) {
        return;
    }
    gx_distance_args args = {.A = &A,
                             .B = &B,
                             .metric = measure.metric,
                             .is_root = measure.is_root,
                             .is_binary = measure.is_binary};
    gx_number dtype = gx_number_promote(A.number, B.number);
    int64_t rows = 0, cols = 0; // of a tile; 0: the default
    if (measure.metric != GX_METRIC_COSINE) {
        gx_err err = {0};
        gx_tile_shape(A.rows, B.rows, gx_dtype_of(dtype), gx_store_max_tile_bytes(fn->ctx->store),
                      &rows, &cols, &err);
        gx_run_fail(&fn->run, &err);
        rows = gx_min(rows, GX_DISTANCE_TILE);
        cols = gx_min(cols, GX_DISTANCE_TILE);
    }
    gx_sink_begin(&fn->run, &opt.dest, A.rows, B.rows, dtype, 0, rows, cols, &C);
    gx_alg_distance(&fn->run, &args, &C);
    gx_fn_result_sink(fn, &C);
}

/* gx_cosine(A, B[, destination][, options]) */
static void cosine(gx_fn *fn)
{
    gx_dest dest = {0};
    gx_mat A, B;
    gx_sink C;
    if (!gx_fn_options(fn, gx_dest_keys, &dest) || !take_both(fn, &A, &B) ||
        !gx_fn_dest(fn, 2, &dest)) {
        return;
    }
    gx_sink_begin(&fn->run, &dest, A.rows, B.rows, gx_number_promote(A.number, B.number), 0, 0, 0,
                  &C);
    gx_alg_cosine(&fn->run, &A, &B, &C);
    gx_fn_result_sink(fn, &C);
}

// gx_kmeans ---------------------------------------------------------------------------------------

/* gx_kmeans(A, k[, destination][, options]) */
static void kmeans(gx_fn *fn)
{
    similar_options opt = {.iterations = 100, .tolerance = 1e-4};
    gx_mat A;
    gx_sink C;
    gx_kmeans_args args = {.A = &A};
    if (!gx_fn_options(fn, kmeans_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_int(fn, 1, "k", &args.k) || !gx_fn_dest(fn, 2, &opt.dest) || !is_real(fn, &A, "A")) {
        return;
    }
    if (args.k < 1 || args.k > A.rows) {
        gx_fn_fail(fn, "k is %" PRId64 " but A has %" PRId64 " rows: from 1 to as many clusters",
                   args.k, A.rows);
        return;
    }
    if (opt.iterations < 0 || !(opt.tolerance >= 0)) {
        gx_fn_fail(fn, "iterations and tolerance must not be negative");
        return;
    }
    args.seed = opt.seed;
    args.iterations = opt.iterations;
    args.tolerance = opt.tolerance;
    gx_sink_begin(&fn->run, &opt.dest, args.k, A.cols, A.number, 0, 0, 0, &C);
    gx_alg_kmeans(&fn->run, &args, &C);
    gx_fn_result_sink(fn, &C);
}

// gx_knn_graph ------------------------------------------------------------------------------------

typedef struct graph_options {
    gx_dest dest; /* first: a set_offset of 0 means none */
    char metric[64], symmetric[64], values[64];
    bool excludes_self;
} graph_options;

static const gx_option graph_keys[] = {
    {"metric", GX_OPT_TEXT, offsetof(graph_options, metric), 0},
    {"symmetric", GX_OPT_TEXT, offsetof(graph_options, symmetric), 0},
    {"values", GX_OPT_TEXT, offsetof(graph_options, values), 0},
    {"exclude_self", GX_OPT_BOOL, offsetof(graph_options, excludes_self), 0},
    GX_DEST_KEYS(graph_options, dest),
    {NULL, GX_OPT_END, 0, 0},
};

/* Which of some words; -1, and the run has failed. */
static int word_of(gx_fn *fn, const char *what, const char *text, const char *const words[],
                   const char *all)
{
    char shown[GX_SHOWN_BYTES];
    for (int w = 0; words[w] != NULL; w++) {
        if (strcmp(text, words[w]) == 0) {
            return w;
        }
    }
    gx_fn_fail(fn, "%s '%s' is not known (%s)", what, gx_text_show(text, strlen(text), shown), all);
    return -1;
}

/* gx_knn_graph(E, k[, destination][, options]) */
static void knn_graph(gx_fn *fn)
{
    static const char *const edges[] = {"no", "union", "mutual", NULL};
    static const char *const values[] = {"score", "one", NULL};
    graph_options opt = {
        .metric = "cosine", .symmetric = "no", .values = "score", .excludes_self = true};
    gx_mat E;
    gx_knn_args args = {.Q = &E, .E = &E};
    gx_measure measure;
    gx_neighbours found = {0};
    gx_sink G = {.run = &fn->run};
    if (!gx_fn_options(fn, graph_keys, &opt) || !gx_fn_matrix(fn, 0, "E", &E) ||
        !gx_fn_int(fn, 1, "k", &args.k) || !gx_fn_dest(fn, 2, &opt.dest) ||
        !gx_measure_parse(fn, opt.metric, GX_MEASURES_KNN, &measure)) {
        return;
    }
    int way = word_of(fn, "symmetric", opt.symmetric, edges, "no, union, mutual");
    int value = way < 0 ? -1 : word_of(fn, "values", opt.values, values, "score, one");
    if (value < 0) {
        return;
    }
    if (args.k < 0) {
        gx_fn_fail(fn, "k must not be negative, not %" PRId64, args.k);
        return;
    }
    args.metric = measure.metric;
    args.is_binary = measure.is_binary;
    args.excludes_self = opt.excludes_self;
    args.last = E.rows;
    if (gx_knn_run(&fn->run, &args, &found) == GX_OK) {
        for (int64_t e = 0; e < found.queries * found.count; e++) {
            double merit = found.merit[e];
            found.merit[e] = value == 1 ? 1 : gx_measure_score(&measure, merit, E.cols);
        }
        gx_knn_graph_store(&fn->run, &found, (gx_knn_edges)way, &opt.dest, E.number, &G);
    }
    gx_neighbours_clear(&found);
    gx_fn_result_sink(fn, &G);
}

const gx_function gx_functions_similar[] = {
    {"gx_normalize", 1, 5, false, normalize}, {"gx_distance", 2, 4, false, distance},
    {"gx_cosine", 2, 4, false, cosine},       {"gx_kmeans", 2, 4, false, kmeans},
    {"gx_knn_graph", 2, 4, false, knn_graph}, {NULL, 0, 0, false, NULL},
};
