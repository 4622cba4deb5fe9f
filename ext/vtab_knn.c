/*
** gx_knn(Q, E, k): the k nearest rows of E for each row of Q, as rows of a table.
**
** The search is core/alg/alg_knn.c's.  Here: what the queries are (a matrix, or the raw numbers of
** vector extensions), what the options say, and merits as scores: cosine and dot as they are,
** distances with their sign turned round, l2 its root.
**
** WHERE query = ..., rank < ... and LIMIT reach the search (table_fn.h): other queries are not
** compared, and a shorter list is the front of a longer one.
*/
#include "../core/alg/knn.h"
#include "rows_arg.h"
#include "table_fn.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct knn_options {
    char metric[64];
    const char *candidates;
    bool excludes_self;
    gx_dtype dtype; /* of raw numbers; GX_DTYPE_COUNT: not stated */
} knn_options;

static const gx_option knn_keys[] = {
    {"metric", GX_OPT_TEXT, offsetof(knn_options, metric), 0},
    {"candidates", GX_OPT_MATRIX, offsetof(knn_options, candidates), 0},
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

// The search --------------------------------------------------------------------------------------

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

/* Only what the statement wants to see. */
static void narrow(const gx_table_wish *wish, const gx_knn_args *all, gx_knn_args *args)
{
    args->first = gx_max(0, wish->low[0]);
    args->last = gx_max(args->first, gx_min(all->Q->rows - 1, wish->high[0]) + 1);
    if (wish->high[1] < args->k) { // the last rank that is asked for
        args->k = gx_max(wish->high[1], -1) + 1;
    }
    int64_t least = gx_min(args->k, all->E->rows - (all->excludes_self ? 1 : 0));
    if (wish->limit < INT64_MAX && wish->low[1] <= 0 && all->C == NULL && least > 0) {
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
    gx_err err = {0};
    void *start = NULL;
    *rows = f->queries * f->count;
    for (int64_t j = 0; j < f->queries && shortest == f->count && f->count > 0; j++) {
        shortest = f->index[(j + 1) * f->count - 1] == INT64_MAX ? -1 : shortest;
    }
    if (shortest == f->count) {
        return true;
    }
    if (gx_mem_alloc(fn->ctx->mem, (size_t)(f->queries + 1) * sizeof(int64_t), "results", &start,
                     &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
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

static bool begin(gx_fn *fn, const gx_table_wish *wish, void *state, int64_t *rows)
{
    knn *table = state;
    knn_options opt = {.metric = "cosine", .dtype = GX_DTYPE_COUNT};
    gx_rows Q;
    gx_mat E, C, listed;
    gx_knn_args args = {.E = &E};
    *rows = 0;
    if (!gx_fn_options(fn, knn_keys, &opt) || !gx_fn_matrix(fn, 1, "E", &E) ||
        !gx_fn_rows(fn, 0, "Q", E.cols, opt.dtype, &Q) || !gx_fn_int(fn, 2, "k", &args.k) ||
        !gx_measure_parse(fn, opt.metric, GX_MEASURES_KNN, &table->measure)) {
        return false;
    }
    if (args.k < 0) {
        return gx_fn_fail(fn, "k must not be negative, not %" PRId64, args.k);
    }
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
    gx_knn_args all = args;
    narrow(wish, &all, &args);
    table->first = args.first;
    table->cols = E.cols;
    return gx_knn_run(&fn->run, &args, &table->found) == GX_OK && count_rows(fn, table, rows);
}

// The table ---------------------------------------------------------------------------------------

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

static void put_column(void *state, gx_ctx *ctx, int64_t row, int column, sqlite3_context *sql)
{
    knn *k = state;
    (void)ctx;
    seek(k, row);
    int64_t at = k->list * k->found.count + k->rank;
    switch (column) {
    case COL_QUERY:
        sqlite3_result_int64(sql, k->first + k->list);
        break;
    case COL_RANK:
        sqlite3_result_int64(sql, k->rank);
        break;
    case COL_ID:
        sqlite3_result_int64(sql, k->found.index[at]);
        break;
    default:
        sqlite3_result_double(sql, gx_measure_score(&k->measure, k->found.merit[at], k->cols));
    }
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
    .def = {"gx_knn", 3, 4, false, NULL},
    .shape = "CREATE TABLE x(query INTEGER, rank INTEGER, id INTEGER, score REAL, q HIDDEN, "
             "e HIDDEN, k HIDDEN, options HIDDEN)",
    .columns = COLUMNS,
    .state_bytes = sizeof(knn),
    .begin_within = begin,
    .ranged = 2,
    .column = put_column,
    .clear = clear,
};
