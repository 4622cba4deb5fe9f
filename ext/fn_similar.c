/*
** gx_normalize, gx_cosine, gx_kmeans, gx_knn_graph, and the table gx_knn(Q, E, k), the
** k nearest rows of E for each row of Q: rows beside rows (core/alg/similar.h, core/alg/knn.h).
**
** gx_kmeans returns the centres alone: they are a matrix, as everything that has a destination;
** which rows are whose is gx_knn(A, centres, 1), for the rows of A and for any others.
**
** The queries of gx_knn are a matrix, or the raw numbers of vector extensions, used where they lie
** when their address fits, else copied once.  WHERE query = ..., rank < ... and LIMIT reach the
** search (table_fn.h): other queries are not compared, and a shorter list is the front of a longer
** one.
*/
#include "table_fn.h"
#include "vectors.h"

#include "../core/alg/knn_filter.h"
#include "../core/alg/similar.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct similar_options {
    int metric;
    int64_t seed, iterations;
    double tolerance;
} similar_options;

static const gx_option kmeans_keys[] = {
    {"seed", GX_OPT_INT, offsetof(similar_options, seed), 0},
    {"iterations=[0,inf]", GX_OPT_INT, offsetof(similar_options, iterations), 0},
    {"tolerance=[0,inf]", GX_OPT_REAL, offsetof(similar_options, tolerance), 0},
    {NULL, GX_OPT_END, 0, 0},
};

static bool is_real(gx_fn *fn, const gx_mat *A, const char *label)
{
    return !gx_number_is_complex(A->number) ||
           gx_fn_fail(fn, "%s is complex (%s): rows of real numbers are compared", label,
                      gx_number_name(A->number));
}

// gx_normalize ------------------------------------------------------------------------------------

/* gx_normalize(A[, axis[, kind[, destination]]][, options]) */
static void normalize(gx_fn *fn)
{
    gx_mat A;
    gx_normal normal = {0};
    int kind = GX_LINE_L2;
    gx_sink C;
    int64_t axis = 1;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_axis(fn, 1, &axis) || !gx_fn_word(fn, 2, "kind", "l2|l1|max", &kind) ||
        !is_real(fn, &A, "A")) {
        return;
    }
    gx_sink_begin(&fn->run, &fn->dest, A.rows, A.cols, A.number, 0, 0, 0, &C);
    if (gx_ok(&fn->run) &&
        gx_normal_make(&fn->run, &A, axis == 1, (gx_line_norm)kind, &normal) == GX_OK) {
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

/* gx_cosine(A, B[, destination][, options]) */
static void cosine(gx_fn *fn)
{
    gx_mat A, B;
    gx_sink C;
    if (!gx_fn_options(fn, NULL, NULL) || !take_both(fn, &A, &B)) {
        return;
    }
    gx_sink_begin(&fn->run, &fn->dest, A.rows, B.rows, gx_number_promote(A.number, B.number), 0, 0,
                  0, &C);
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
        !gx_fn_int(fn, 1, "k", &args.k) ||
        !is_real(fn, &A, "A")) {
        return;
    }
    if (args.k < 1 || args.k > A.rows) {
        gx_fn_fail(fn, "k is %" PRId64 " but A has %" PRId64 " rows: from 1 to as many clusters",
                   args.k, A.rows);
        return;
    }
    args.seed = opt.seed;
    args.iterations = opt.iterations;
    args.tolerance = opt.tolerance;
    gx_sink_begin(&fn->run, &fn->dest, args.k, A.cols, A.number, 0, 0, 0, &C);
    gx_alg_kmeans(&fn->run, &args, &C);
    gx_fn_result_sink(fn, &C);
}

// gx_knn_graph ------------------------------------------------------------------------------------

typedef struct graph_options {
    int metric, edges, is_one;
    bool excludes_self;
} graph_options;

static const gx_option graph_keys[] = {
    {"metric=" GX_METRICS "|dot", GX_OPT_WORD, offsetof(graph_options, metric), 0},
    {"symmetric=no|union|mutual", GX_OPT_WORD, offsetof(graph_options, edges), 0},
    {"values=score|one", GX_OPT_WORD, offsetof(graph_options, is_one), 0},
    {"exclude_self", GX_OPT_BOOL, offsetof(graph_options, excludes_self), 0},
    {NULL, GX_OPT_END, 0, 0},
};

/* gx_knn_graph(E, k[, destination][, options]) */
static void knn_graph(gx_fn *fn)
{
    graph_options opt = {.excludes_self = true};
    gx_mat E;
    gx_knn_args args = {.Q = &E, .E = &E};
    gx_neighbours found = {0};
    gx_sink G = {.run = &fn->run};
    if (!gx_fn_options(fn, graph_keys, &opt) || !gx_fn_matrix(fn, 0, "E", &E) ||
        !gx_fn_size(fn, 1, "k", &args.k)) {
        return;
    }
    const gx_measure measure = gx_measures[opt.metric];
    args.metric = measure.metric;
    args.is_binary = measure.is_binary;
    args.excludes_self = opt.excludes_self;
    args.last = E.rows;
    if (gx_knn_run(&fn->run, &args, &found) == GX_OK) {
        for (int64_t e = 0; e < found.queries * found.count; e++) {
            double merit = found.merit[e];
            found.merit[e] = opt.is_one ? 1 : gx_score_of(&measure, merit, E.cols);
        }
        gx_knn_graph_store(&fn->run, &found, (gx_knn_edges)opt.edges, &fn->dest, E.number, &G);
    }
    gx_neighbours_clear(&found);
    gx_fn_result_sink(fn, &G);
}

const gx_function gx_functions_similar[] = {
    {"gx_normalize", 1, 5, GX_MADE(3), normalize, 0},
    {"gx_cosine", 2, 4, GX_MADE(2), cosine, 0},       {"gx_kmeans", 2, 4, GX_MADE(2), kmeans, 0},
    {"gx_knn_graph", 2, 4, GX_MADE(2), knn_graph, 0}, {.name = NULL},
};

// gx_knn ------------------------------------------------------------------------------------------

/* An argument as rows of numbers. */
typedef struct gx_rows {
    gx_mat base, turned;
    const gx_mat *mat; /* one of the two; as long as this struct stays where it is */
} gx_rows;

/* stated: GX_DTYPE_COUNT where the statement does not say. */
static bool take_raw(gx_fn *fn, const gx_raw *raw, const void *data, gx_dtype stated, gx_rows *out)
{
    gx_dtype dtype = stated;
    if (stated == GX_DTYPE_COUNT && !gx_fn_check(fn, gx_raw_dtype(raw, &dtype, &fn->err))) {
        return false;
    }
    int64_t cols = raw->cols;
    size_t row = (size_t)cols * gx_dtype_bytes(dtype);
    if (row == 0 || raw->bytes % row != 0) {
        return gx_fn_fail(fn,
                          "%s is a blob of %zu bytes, no rows of %" PRId64
                          " %s numbers (%zu bytes each)",
                          raw->label, raw->bytes, cols, gx_dtype_name(dtype), row);
    }
    int64_t rows = (int64_t)(raw->bytes / row);
    gx_mat_array(&out->base, raw->label, dtype, cols, rows, data, cols);
    if ((uintptr_t)data % gx_dtype_alignment(dtype) != 0) {
        void *copy;
        if (!gx_look_buffer(fn, &out->base, cols, rows, &copy)) {
            return false;
        }
        out->base.data = memcpy(copy, data, raw->bytes);
    }
    gx_mat_view(&out->turned, &out->base, GX_TRANS, 0, 0, rows, cols);
    out->mat = &out->turned;
    return true;
}

/*
** A matrix in any of its forms, or a blob of raw numbers, `cols` of them a row, as the vector
** extensions keep them: of the dtype that is stated, or (GX_DTYPE_COUNT) of f32 or f64, where one
** of them alone makes whole rows.  A list (a column) of `cols` numbers is one row.
*/
static bool take_rows(gx_fn *fn, int index, const char *label, int64_t cols, gx_dtype stated,
                gx_rows *out)
{
    sqlite3_value *value = fn->argv[index];
    if (sqlite3_value_type(value) == SQLITE_BLOB) {
        const void *blob = sqlite3_value_blob(value);
        const gx_raw raw = {.label = label,
                            .bytes = (size_t)sqlite3_value_bytes(value),
                            .cols = cols,
                            .how = ": option \"dtype\" says which"};
        if (raw.bytes > 0 && blob == NULL) {
            return gx_fn_check(fn, gx_fail_nomem(&fn->err, raw.bytes, "argument"));
        }
        if (raw.bytes > 0 && !gx_value_is(blob, raw.bytes)) {
            return take_raw(fn, &raw, blob, stated, out);
        }
    }
    if (!gx_fn_matrix(fn, index, label, &out->base)) {
        return false;
    }
    out->mat = &out->base;
    if (out->base.cols == 1 && cols != 1 && out->base.rows == cols) {
        gx_mat_view(&out->turned, &out->base, GX_TRANS, 0, 0, 1, cols);
        out->mat = &out->turned;
    }
    return true;
}

typedef struct knn_options {
    const char *candidates, *filter;
    int64_t rescore; /* 0: not given */
    int metric;
    bool has_metric, excludes_self;
    gx_dtype dtype; /* of raw numbers; GX_DTYPE_COUNT: not stated */
} knn_options;

static const gx_option knn_keys[] = {
    {"metric=" GX_METRICS "|dot", GX_OPT_WORD, offsetof(knn_options, metric),
     offsetof(knn_options, has_metric)},
    {"candidates", GX_OPT_MATRIX, offsetof(knn_options, candidates), 0},
    {"filter", GX_OPT_MATRIX, offsetof(knn_options, filter), 0},
    {"rescore=[1,inf]", GX_OPT_INT, offsetof(knn_options, rescore), 0},
    {"exclude_self", GX_OPT_BOOL, offsetof(knn_options, excludes_self), 0},
    {"dtype", GX_OPT_DTYPE, offsetof(knn_options, dtype), 0},
    {NULL, GX_OPT_END, 0, 0},
};

/* The rows of a scan. */
typedef struct knn {
    gx_neighbours found;
    gx_measure measure;
    int64_t first;           /* query of the first list                                       */
    int64_t cols;            /* numbers of a row                                              */
    int64_t *start;          /* of each list, where they are not of one length; NULL: they are */
    int64_t row, list, rank; /* the row asked for last, and where it is */
} knn;

/* Row j is query j's; those of a single query may stand in a column. */
static bool take_candidates(gx_fn *fn, const char *text, const gx_mat *Q, gx_mat *base, gx_mat *C)
{
    if (!gx_fn_option_matrix(fn, "candidates", text, base)) {
        return false;
    }
    bool is_turned = Q->rows == 1 && base->cols == 1 && base->rows != 1;
    gx_mat_view(C, base, is_turned ? GX_TRANS : GX_NO_TRANS, 0, 0, is_turned ? 1 : base->rows,
                is_turned ? base->rows : base->cols);
    if (gx_number_is_complex(C->number)) {
        return gx_fn_fail(fn, "%s is complex (%s), not numbers of rows", C->label,
                          gx_number_name(C->number));
    }
    bool is_empty = base->rows == 0; // a list of nothing: none for any query
    return is_empty || C->rows == Q->rows ||
           gx_fn_fail(fn,
                      "%s is %" PRId64 "x%" PRId64 " but Q has %" PRId64
                      " rows: there is a row of candidates for each query",
                      C->label, C->rows, C->cols, Q->rows);
}

/* The quantised matrix of an option: of all of E, as it is now. */
static bool take_filter(gx_fn *fn, const knn_options *opt, const gx_knn_args *args, gx_mat *mat,
                        gx_knn_filter *filter)
{
    const int64_t RESCORED = 40; // times k
    const gx_mat *E = args->E;
    gx_quantized_of of;
    if (!gx_fn_option_matrix(fn, "filter", opt->filter, mat)) {
        return false;
    }
    filter->codes = gx_mat_codes(mat);
    if (filter->codes == NULL) {
        return gx_fn_fail(fn, "filter: %s is not a quantised matrix (gx_quantize makes them)",
                          mat->label);
    }
    if (args->metric == GX_METRIC_ABSOLUTE || args->is_binary || opt->candidates != NULL) {
        return gx_fn_fail(fn, "a filter is for the metrics cosine, dot, l2 and sqeuclidean, and "
                              "for all rows of E, without candidates");
    }
    bool is_rough = gx_codes_bits(filter->codes) == 1;
    if (!is_rough && opt->rescore > 0) {
        return gx_fn_fail(fn,
                          "rescore is for codes of one bit: with %s, of %d bits, as many rows are "
                          "scored as may be among the nearest",
                          mat->label, gx_codes_bits(filter->codes));
    }
    filter->rescored = opt->rescore > 0 ? opt->rescore : gx_min(args->k, E->rows) * RESCORED;
    if (!gx_fn_check(
            fn, gx_quantized_read_of(fn->ctx->store, fn->ctx->mem, &mat->meta, &of, &fn->err))) {
        return false;
    }
    bool is_of = E->kind == GX_MAT_STORED && of.id == E->meta.id &&
                 strcmp(E->meta.schema, mat->meta.schema) == 0 && !E->is_sparse;
    if (!is_of || E->rows != mat->rows || E->cols != mat->cols) {
        return gx_fn_fail(fn, "filter: %s is not made of %s, but of another matrix", mat->label,
                          E->label);
    }
    return of.generation == E->meta.generation ||
           gx_fn_fail(fn,
                      "filter: %s is made of %s as it was before it changed: "
                      "gx_quantize('%s', ..., '%s', '{\"replace\":true}') makes it again",
                      mat->label, E->label, E->label, mat->label);
}

/* Only what the statement wants to see. */
static void narrow(const gx_table_wish *wish, const gx_knn_args *all, gx_knn_args *args)
{
    args->first = wish->begin[0];
    args->last = gx_max(args->first, gx_min(all->Q->rows, wish->end[0]));
    args->k = gx_min(args->k, wish->end[1]); // the last rank that is asked for
    int64_t least = gx_min(args->k, all->E->rows - (all->excludes_self ? 1 : 0));
    if (wish->limit < INT64_MAX && wish->begin[1] == 0 && all->C == NULL && least > 0) {
        int64_t lists = gx_ceil_div(wish->limit, least);
        args->last = gx_min(args->last - args->first, lists) + args->first;
        args->k = lists <= 1 ? gx_min(args->k, wish->limit) : args->k;
    }
}

/* Where the lists begin among the rows; counts these. */
static bool count_rows(gx_fn *fn, knn *k, int64_t *rows)
{
    const gx_neighbours *f = &k->found;
    int64_t shortest = f->count;
    *rows = f->queries * f->count;
    for (int64_t j = 0; j < f->queries && shortest == f->count && f->count > 0; j++) {
        shortest = f->index[(j + 1) * f->count - 1] == INT64_MAX ? -1 : shortest;
    }
    if (shortest == f->count) {
        return true;
    }
    void *start = NULL;
    if (!gx_fn_check(fn, gx_mem_alloc(fn->ctx->mem, (size_t)(f->queries + 1) * sizeof(int64_t),
                                      "results", &start, &fn->err))) {
        return false;
    }
    k->start = start;
    *rows = 0;
    for (int64_t j = 0; j < f->queries; j++) {
        k->start[j] = *rows;
        for (int64_t e = 0; e < f->count && f->index[j * f->count + e] != INT64_MAX; e++) {
            (*rows)++;
        }
    }
    k->start[f->queries] = *rows;
    return true;
}

/* E is a vector table: its rows by their rowids, whether they have settled or not. */
static bool begin_vectors(gx_fn *fn, const gx_table_wish *wish, const knn_options *opt,
                          gx_vec_table *t, int vector, knn *table)
{
    gx_rows Q;
    gx_knn_args args = {.first = wish->begin[0]};
    if (vector < 0) {
        return gx_fn_fail(fn, "%s has several vector columns: say which, as in '%s.%s'", t->name,
                          t->name, t->shape.vector[0].name);
    }
    if (opt->candidates != NULL || opt->filter != NULL || opt->excludes_self || opt->rescore > 0) {
        return gx_fn_fail(fn, "candidates, filter, rescore and exclude_self are for matrices, and "
                              "%s is a vector table: WHERE of a search with MATCH chooses rows",
                          t->name);
    }
    const gx_vec_column *column = &t->shape.vector[vector];
    if (!take_rows(fn, 0, "Q", column->dims, opt->dtype, &Q) ||
        !gx_fn_size(fn, 2, "k", &args.k)) {
        return false;
    }
    table->measure = gx_measures[opt->has_metric ? opt->metric : column->metric];
    args.Q = Q.mat;
    args.metric = table->measure.metric;
    args.is_binary = table->measure.is_binary;
    args.last = gx_max(args.first, gx_min(Q.mat->rows, wish->end[0]));
    args.k = gx_min(args.k, wish->end[1]);
    table->first = args.first;
    table->cols = column->dims;
    return gx_vec_search_all(fn, t, vector, &args, &table->found);
}

static bool begin(gx_fn *fn, const gx_table_wish *wish, void *state, int64_t *rows)
{
    knn *table = state;
    knn_options opt = {.dtype = GX_DTYPE_COUNT};
    gx_rows Q;
    gx_mat E, C, listed;
    gx_knn_args args = {.E = &E};
    gx_vec_table *t;
    int vector;
    *rows = 0;
    if (!gx_fn_options(fn, knn_keys, &opt) || !gx_vec_argument(fn, 1, &t, &vector)) {
        return false;
    }
    if (t != NULL) {
        return begin_vectors(fn, wish, &opt, t, vector, table) && count_rows(fn, table, rows);
    }
    if (!gx_fn_matrix(fn, 1, "E", &E) ||
        !take_rows(fn, 0, "Q", E.cols, opt.dtype, &Q) || !gx_fn_size(fn, 2, "k", &args.k)) {
        return false;
    }
    table->measure = gx_measures[opt.metric];
    if (opt.excludes_self && Q.mat->rows != E.rows) {
        return gx_fn_fail(fn,
                          "exclude_self is for a matrix and itself, but Q has %" PRId64
                          " rows and E %" PRId64,
                          Q.mat->rows, E.rows);
    }
    args.Q = Q.mat;
    args.metric = table->measure.metric;
    args.is_binary = table->measure.is_binary;
    args.excludes_self = opt.excludes_self;
    if (opt.candidates != NULL) {
        if (!take_candidates(fn, opt.candidates, Q.mat, &listed, &C)) {
            return false;
        }
        args.C = &C;
    }
    gx_mat codes;
    gx_knn_filter filter = {.codes = NULL};
    if (opt.filter == NULL && opt.rescore > 0) {
        return gx_fn_fail(fn, "rescore is for searches with a filter");
    }
    if (opt.filter != NULL && !take_filter(fn, &opt, &args, &codes, &filter)) {
        return false;
    }
    gx_knn_args all = args;
    narrow(wish, &all, &args);
    table->first = args.first;
    table->cols = E.cols;
    gx_code code = filter.codes == NULL
                       ? gx_knn_run(&fn->run, &args, &table->found)
                       : gx_knn_run_filtered(&fn->run, &args, &filter, &table->found);
    return code == GX_OK && count_rows(fn, table, rows);
}

enum { COL_QUERY, COL_RANK, COL_ID, COL_SCORE, COLUMNS };

static int64_t length_of(const knn *k, int64_t list)
{
    return k->start == NULL ? k->found.count : k->start[list + 1] - k->start[list];
}

/* The list that a row is in, and its rank there; rows are asked for in their order. */
static void seek(knn *k, int64_t row)
{
    if (row < k->row) {
        k->row = k->list = k->rank = 0;
    }
    k->rank += row - k->row;
    k->row = row;
    for (int64_t n = length_of(k, k->list); k->rank >= n; n = length_of(k, k->list)) {
        k->rank -= n;
        k->list++;
    }
}

static gx_cell cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    knn *k = state;
    (void)ctx;
    seek(k, row);
    int64_t at = k->list * k->found.count + k->rank;
    return column == COL_SCORE
               ? gx_cell_real(gx_score_of(&k->measure, k->found.merit[at], k->cols))
               : gx_cell_int(column == COL_QUERY  ? k->first + k->list
                             : column == COL_RANK ? k->rank
                                                  : k->found.index[at]);
}

static void clear(void *state)
{
    knn *k = state;
    if (k->found.mem != NULL) {
        gx_mem_free(k->found.mem, k->start);
    }
    gx_neighbours_clear(&k->found);
}

const gx_table_fn gx_table_knn = {
    .def = {"gx_knn", 3, 4, 0, NULL, 0},
    .shape = "CREATE TABLE x(query INTEGER, rank INTEGER, id INTEGER, score REAL, q HIDDEN, "
             "e HIDDEN, k HIDDEN, options HIDDEN)",
    .columns = COLUMNS,
    .state_bytes = sizeof(knn),
    .begin_within = begin,
    .ranged = 2,
    .cell = cell,
    .clear = clear,
};
