/*
** The index of a vector table, made: gx_index, and its verification.
**
** Two passes over the settled rows, strip by strip: one for a sample, of which k-means makes the
** centres, one in which each row gets its list and its codes.  Neighbours of some rows, which a
** search finds between the two, say how many lists a search is to look at.  See vectors_index.c.
*/
#include "vectors.h"

#include "../core/base/copy.h"
#include "../core/run/call.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLE_A_LIST = 32, /* rows                                                  */
    ROWS_A_LIST = 8,    /* at least, where gx says how many lists there are      */
    LISTS_A_ROOT = 4,   /* lists are so many times the root of the rows          */
    STRIP_ROWS = 8192,
    LEAST_STRIP = 64,
    TURNED = 256, /* rows of it that are turned together                   */
    ASKED = 64,   /* rows whose neighbours are looked for                  */
    NEAREST = 10, /* and how many of them                                  */
    WORN = 4,     /* so many times as many rows: made anew when all settle */
    FEW = 1024    /* void entries do no harm                               */
};

static const double RECALL = 0.95;

typedef struct build {
    gx_run *run;
    gx_vec_table *t;
    const gx_vec_index_wish *wish;
    const gx_vec_column *column;
    gx_vec_index index;
    gx_mat E;
    gx_reader *reader;
    int64_t alive;

    /* A strip: rows that are alive. */
    int64_t high, count;
    char *block, *by_columns, *rows; /* rows: row after row */
    int64_t *ids, *pos;

    /* The sample, wanted rows of d. */
    float *sample;
    int64_t wanted, seen, taken, step;

    gx_vec_entries entries;
    gx_mat C;
    float *numbers;
    bool is_written; /* some lists are */

    /* Rows whose neighbours are looked for, ASKED x d, and where they are. */
    double *asked;
    int64_t asked_pos[ASKED], asked_count;
    gx_neighbours found; /* theirs */
    int32_t *list_of;    /* of each position, -1: dead */
} build;

// Strips ------------------------------------------------------------------------------------------

static gx_code open_strips(build *b, gx_err *err)
{
    gx_mem *mem = b->t->ctx->mem;
    size_t row = 2 * b->column->bytes + 2 * sizeof(int64_t);
    int64_t fits = (int64_t)(gx_mem_available(mem) / 8 / row);
    b->high = gx_max(LEAST_STRIP, gx_min(gx_min(STRIP_ROWS, b->E.rows), fits));
    GX_TRY(gx_mem_alloc(mem, (size_t)b->high * row, "rows", &b->block, err));
    b->ids = (int64_t *)(void *)b->block;
    b->pos = b->ids + b->high;
    b->by_columns = (char *)(b->pos + b->high);
    b->rows = b->by_columns + (size_t)b->high * b->column->bytes;
    return GX_OK;
}

static void close_strips(build *b)
{
    gx_mem_free(b->t->ctx->mem, b->block);
    b->block = NULL;
}

/* Which rows from i0 on, m of them, are somebody's. */
static gx_code find_alive(build *b, int64_t i0, int64_t m, gx_err *err)
{
    sqlite3_stmt *stmt;
    bool is_row;
    b->count = 0;
    GX_TRY(gx_vectors_stmt(b->t->rows, GX_VECTORS_TAIL, &stmt, err));
    sqlite3_bind_int64(stmt, 1, i0);
    gx_code code = gx_vectors_step(b->t->rows, stmt, &is_row, err);
    while (code == GX_OK && is_row && b->count < m && sqlite3_column_int64(stmt, 1) < i0 + m) {
        b->ids[b->count] = sqlite3_column_int64(stmt, 0);
        b->pos[b->count++] = sqlite3_column_int64(stmt, 1);
        code = gx_vectors_step(b->t->rows, stmt, &is_row, err);
    }
    sqlite3_reset(stmt);
    return code;
}

typedef struct turning {
    build *b;
    int64_t i0, m; /* of the strip */
} turning;

/* Rows that are alive, some that lie together at a time, from columns. */
static gx_code turn_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const turning *t = arg;
    const build *b = t->b;
    size_t size = gx_dtype_bytes(b->column->dtype), row = b->column->bytes;
    int64_t end = gx_min(b->count, (piece + 1) * TURNED), d = b->column->dims;
    (void)member, (void)err;
    for (int64_t k = piece * TURNED, next; k < end; k = next) {
        for (next = k + 1; next < end && b->pos[next] == b->pos[next - 1] + 1; next++) {
        }
        gx_copy_turned(size, d, next - k, b->by_columns + (size_t)(b->pos[k] - t->i0) * size, t->m,
                       b->rows + (size_t)k * row, d);
    }
    return GX_OK;
}

static gx_code read_strip(build *b, int64_t i0, gx_err *err)
{
    const gx_mat *E = &b->E;
    int64_t m = gx_min(b->high, E->rows - i0), d = b->column->dims;
    gx_err failed = {.code = GX_OK};
    gx_code code = gx_mat_read_as(b->run, E, b->reader, i0, 0, m, d, gx_mat_narrow(E, E->number),
                                  b->by_columns, m, &failed);
    if (code == GX_CORRUPT && gx_store_is_interrupted(b->t->ctx->store)) { // as SQLite says it
        return gx_fail(err, GX_INTERRUPT, "interrupted");
    }
    if (code != GX_OK) {
        return gx_fail(err, code, "%s", failed.text);
    }
    GX_TRY(find_alive(b, i0, m, err));
    turning t = {b, i0, m};
    double work = (double)b->count * (double)d;
    return gx_run_pieces(b->run, work, gx_ceil_div(b->count, TURNED), turn_piece, &t) == GX_OK
               ? GX_OK
               : gx_fail(err, b->run->err.code, "%s", b->run->err.text);
}

static gx_code each_strip(build *b, gx_code (*fn)(build *, gx_err *), gx_err *err)
{
    gx_code code = open_strips(b, err);
    for (int64_t i = 0; i < b->E.rows && code == GX_OK; i += b->high) {
        code = read_strip(b, i, err);
        code = code == GX_OK && b->count > 0 ? fn(b, err) : code;
        if (code == GX_OK && gx_run_poll(b->run) != GX_OK) {
            code = gx_fail(err, b->run->err.code, "%s", b->run->err.text);
        }
    }
    close_strips(b);
    return code;
}

// Centres -----------------------------------------------------------------------------------------

/* Row number `at` of n, if one out of each of `of` equal stretches is taken: whether it is. */
static bool is_chosen(int64_t at, int64_t n, int64_t of)
{
    double share = (double)of / (double)n;
    return floor((double)at * share) != floor((double)(at + 1) * share);
}

/* A step with which one comes to each of n places once, and early to all parts. */
static int64_t step_through(int64_t n)
{
    int64_t step = gx_max(1, (int64_t)(0.618 * (double)n)), a, b;
    for (bool is_one = false; !is_one; step += !is_one) {
        for (a = step, b = n; b != 0;) {
            int64_t rest = a % b;
            a = b;
            b = rest;
        }
        is_one = a == 1;
    }
    return step;
}

/* Rows are spread: the first of the sample are a sample. */
static gx_code take_sample(build *b, gx_err *err)
{
    for (int64_t k = 0; k < b->count; k++, b->seen++) {
        if (b->asked_count < ASKED && is_chosen(b->seen, b->alive, gx_min(ASKED, b->alive))) {
            b->asked_pos[b->asked_count] = b->pos[k];
            GX_TRY(gx_widen(b->column->dtype, b->rows + (size_t)k * b->column->bytes, 1, GX_F64,
                            b->asked + b->asked_count++ * b->column->dims, 1, 1, b->column->dims,
                            err));
        }
        if (b->taken < b->wanted && is_chosen(b->seen, b->alive, b->wanted)) {
            int64_t at = b->taken++ * b->step % b->wanted;
            GX_TRY(gx_widen(b->column->dtype, b->rows + (size_t)k * b->column->bytes, 1, GX_F32,
                            b->sample + at * b->column->dims, 1, 1, b->column->dims, err));
        }
    }
    return GX_OK;
}

static gx_code train(build *b, gx_err *err)
{
    void *bytes = NULL;
    gx_mem *mem = b->t->ctx->mem;
    int64_t *lists = &b->index.lists, d = b->column->dims;
    gx_code code = GX_BUDGET;
    GX_TRY(gx_mem_alloc(mem, gx_ivf_centres_bytes(*lists, d), "centres", &bytes, err));
    while (code == GX_BUDGET) {
        code = gx_ivf_make_centres(b->run, b->sample, b->wanted, d,
                                   gx_measures[b->column->metric].metric, *lists, bytes);
        bool is_less = code == GX_BUDGET && b->wish->lists == 0 && *lists > 1;
        if (!is_less || !gx_run_forgive(b->run, GX_BUDGET)) {
            break;
        }
        *lists /= 2; // there is memory for fewer
    }
    code = code == GX_OK ? gx_vec_write_centres(b->t, &b->index, bytes, err)
                         : gx_fail(err, code, "%s", b->run->err.text);
    gx_mem_free(mem, bytes);
    return code;
}

static gx_code make_centres(build *b, gx_err *err)
{
    gx_mem *mem = b->t->ctx->mem;
    int64_t d = b->column->dims, root = (int64_t)(LISTS_A_ROOT * sqrt((double)b->alive));
    int64_t lists =
        b->wish->lists > 0 ? b->wish->lists : gx_max(1, gx_min(root, b->alive / ROWS_A_LIST));
    int64_t fits = (int64_t)(gx_mem_available(mem) / 4 / sizeof(float)) / d;
    b->index.lists = gx_min(gx_min(lists, b->alive), GX_IVF_LISTS_MOST);
    b->index.trained = b->alive;
    b->wanted = gx_min(b->alive, b->index.lists * SAMPLE_A_LIST);
    b->wanted = gx_max(b->index.lists, gx_min(b->wanted, fits));
    b->step = step_through(b->wanted);
    GX_TRY(gx_mem_alloc(mem, (size_t)(ASKED * d) * sizeof *b->asked, "rows", &b->asked, err));
    GX_TRY(gx_mem_alloc(mem, (size_t)(b->wanted * d) * sizeof(float), "a sample of rows",
                        &b->sample, err));
    gx_code code = each_strip(b, take_sample, err);
    if (code == GX_OK && b->taken < b->wanted) {
        code =
            gx_fail(err, GX_CORRUPT, "%s_row has %" PRId64 " rows that have settled, not %" PRId64,
                    b->t->name, b->seen, b->alive);
    }
    code = code == GX_OK ? train(b, err) : code;
    gx_mem_free(mem, b->sample);
    return code;
}

// Rows --------------------------------------------------------------------------------------------

static gx_code flush(build *b, gx_err *err)
{
    gx_vec_entries *e = &b->entries;
    GX_TRY(gx_vec_write_lists(b->t, e, !b->is_written, err));
    b->is_written = true;
    e->count = 0;
    return GX_OK;
}

static gx_code take_rows(build *b, gx_err *err)
{
    gx_vec_entries *e = &b->entries;
    if (e->count + b->count > e->capacity) {
        GX_TRY(flush(b, err));
    }
    int64_t first = e->count;
    GX_TRY(gx_vec_add_entries(b->run, b->t, &b->C, b->ids, b->rows, b->count, e, err));
    GX_TRY(gx_vec_write_full(b->t, &b->index, b->ids, b->rows, b->count, err));
    for (int64_t k = 0; k < b->count; k++, b->seen++) {
        b->list_of[b->pos[k]] = e->list[first + k];
    }
    return GX_OK;
}

static gx_code enter_rows(build *b, gx_err *err)
{
    gx_mem *mem = b->t->ctx->mem;
    int64_t d = b->column->dims;
    int64_t fits = (int64_t)(gx_mem_available(mem) / 4 / (gx_ivf_panel_bytes(1, d) + 16));
    GX_TRY(gx_mem_alloc(mem, (size_t)b->E.rows * sizeof *b->list_of, "lists of rows", &b->list_of,
                        err));
    memset(b->list_of, 0xff, (size_t)b->E.rows * sizeof *b->list_of);
    GX_TRY(gx_vec_centre_matrix(b->t, &b->index, &b->numbers, &b->C, err));
    GX_TRY(gx_vec_make_entries(b->t, &b->index, gx_max(STRIP_ROWS, gx_min(b->alive, fits)),
                               &b->entries, err));
    b->seen = 0;
    GX_TRY(each_strip(b, take_rows, err));
    GX_TRY(flush(b, err));
    b->index = b->entries.index;
    gx_vec_clear_entries(&b->entries, mem);
    gx_mem_free(mem, b->numbers);
    b->numbers = NULL;
    return GX_OK;
}

// How many lists a search looks at ----------------------------------------------------------------

static int compare_ranks(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* The place of its list in the query's order, for each neighbour: behind those in `ranks`. */
static gx_code add_ranks(build *b, int64_t j, int32_t *work, int32_t *ranks, int64_t *count,
                         gx_err *err)
{
    const gx_neighbours *found = &b->found;
    int32_t *order = work, *rank = work + b->index.lists;
    GX_TRY(gx_vec_rank_lists(b->run, b->t, &b->index, b->asked + j * b->column->dims, order, err));
    for (int64_t l = 0; l < b->index.lists; l++) {
        rank[order[l]] = (int32_t)l;
    }
    for (int64_t e = 0; e < found->count; e++) {
        int64_t pos = found->index[j * found->count + e];
        if (pos != INT64_MAX && pos != b->asked_pos[j] && b->list_of[pos] >= 0) {
            ranks[(*count)++] = rank[b->list_of[pos]];
        }
    }
    return GX_OK;
}

/* probe, and the recall that comes of it: of the ranks of neighbours' lists. */
static void choose_probe(build *b, int32_t *ranks, int64_t count)
{
    double aim = b->wish->recall > 0 ? b->wish->recall : RECALL;
    aim += (1 - aim) / 2; // the rows that are asked about are among those that made the centres
    int64_t lists = b->index.lists, probe = b->wish->probe, within = 0;
    qsort(ranks, (size_t)count, sizeof *ranks, compare_ranks);
    if (probe == 0 && count > 0) {
        int64_t at = gx_min(count - 1, (int64_t)(aim * (double)count));
        probe = ranks[at] + ranks[at] / 4 + 2;
    }
    probe = gx_max(1, gx_min(lists, probe == 0 ? lists : probe));
    for (; within < count && ranks[within] < probe; within++) {
    }
    b->index.probe = probe;
    b->index.recall = count == 0 ? 1 : (double)within / (double)count;
}

/* The neighbours of the rows that are asked: before lists are written, which makes reading slow. */
static gx_code find_neighbours(build *b, gx_err *err)
{
    gx_mat base, Q;
    uint64_t *alive = NULL;
    int64_t n = b->asked_count, d = b->column->dims;
    gx_mat_value(&base, b->t->name, GX_F64, d, n, b->asked, d);
    gx_mat_view(&Q, &base, GX_TRANS, 0, 0, n, d);
    gx_knn_args args = {.Q = &Q, .E = &b->E, .k = NEAREST + 1, .last = n};
    args.metric = gx_measures[b->column->metric].metric;
    gx_code code = gx_vec_alive(b->run, b->t, b->E.rows, &alive, err);
    args.rows = alive;
    if (code == GX_OK && gx_knn_run(b->run, &args, &b->found) != GX_OK) {
        code = gx_fail(err, b->run->err.code, "%s", b->run->err.text);
    }
    gx_mem_free(b->t->ctx->mem, alive);
    return code;
}

static gx_code measure(build *b, gx_err *err)
{
    gx_mem *mem = b->t->ctx->mem;
    int32_t *work = NULL;
    int64_t n = b->asked_count, lists = b->index.lists, count = 0;
    size_t numbers = (size_t)(2 * lists + n * (NEAREST + 1));
    gx_code code = gx_mem_alloc(mem, numbers * sizeof *work, "ranks of lists", &work, err);
    for (int64_t j = 0; j < n && code == GX_OK; j++) {
        code = add_ranks(b, j, work, work + 2 * lists, &count, err);
    }
    if (code == GX_OK) {
        choose_probe(b, work + 2 * lists, count);
    }
    gx_mem_free(mem, work);
    return code;
}

// The whole ---------------------------------------------------------------------------------------

gx_code gx_vec_clear_index(gx_vec_table *t, gx_err *err)
{
    GX_TRY(gx_vectors_make_index(t->rows, err));
    GX_TRY(gx_vec_run(t, GX_VECTORS_CLEAR_LIST, 0, 0, err));
    return gx_vec_run(t, GX_VECTORS_CLEAR_FULL, 0, 0, err);
}

static gx_code prepare(build *b, gx_err *err)
{
    gx_vec_table *t = b->t;
    int64_t dead = 0;
    b->column = &t->shape.vector[b->wish->vector];
    gx_metric metric = gx_measures[b->column->metric].metric;
    if (b->column->is_bit || metric == GX_METRIC_ABSOLUTE) {
        return gx_fail(err, GX_ARG,
                       "%s has the metric %s: an index is for cosine, l2, sqeuclidean "
                       "and dot",
                       b->column->name, b->column->is_bit ? "hamming" : "l1");
    }
    GX_TRY(gx_vec_matrix(t, (int)b->wish->vector, &b->E, err));
    GX_TRY(gx_vec_count_dead(t, &dead, err));
    b->alive = b->E.rows - dead;
    if (b->alive <= 0) {
        return gx_fail(err, GX_ARG, "there are no rows to make an index of");
    }
    b->index = gx_vec_new_index(b->wish, b->column);
    GX_TRY(gx_vec_clear_index(t, err));
    return gx_reader_own(t->ctx->store, &b->reader, err);
}

static gx_code make(gx_run *run, gx_vec_table *t, void *wish, gx_err *err)
{
    gx_mem *mem = t->ctx->mem;
    build b = {.run = run, .t = t, .wish = wish};
    gx_code code = prepare(&b, err);
    code = code == GX_OK ? make_centres(&b, err) : code;
    code = code == GX_OK ? find_neighbours(&b, err) : code;
    code = code == GX_OK ? enter_rows(&b, err) : code;
    code = code == GX_OK ? measure(&b, err) : code;
    code = code == GX_OK ? gx_vec_put_index(t, &b.index, err) : code;
    gx_neighbours_clear(&b.found);
    gx_reader_close(b.reader);
    gx_vec_clear_entries(&b.entries, mem);
    gx_mem_free(mem, b.numbers);
    gx_mem_free(mem, b.list_of);
    gx_mem_free(mem, b.asked);
    return code;
}

gx_code gx_vec_make_index(gx_vec_table *t, const gx_vec_index_wish *wish, gx_err *err)
{
    gx_vec_index_wish own = *wish;
    return gx_vec_store(t, make, &own, err);
}

gx_code gx_vec_renew_index(gx_vec_table *t, gx_err *err)
{
    gx_vec_index x;
    bool found;
    int64_t rows = 0;
    GX_TRY(gx_vec_read_index(t, &x, &found, err));
    GX_TRY(gx_vec_height(t, &rows, err));
    bool is_due =
        found ? x.entries > 2 * (rows + FEW) || rows / WORN > x.trained : t->shape.has_index;
    gx_vec_index_wish wish = t->shape.index;
    if (found) {
        wish = (gx_vec_index_wish){x.vector, x.wished_lists, x.wished_probe, x.wished_recall};
    }
    return is_due && rows > 0 ? gx_vec_make_index(t, &wish, err) : GX_OK;
}

gx_code gx_vec_take_index(const gx_vec_table *t, const char *text, gx_vec_index_wish *wish,
                          gx_err *err)
{
    *wish = (gx_vec_index_wish){.vector = -1};
    if (strcmp(text, "index drop") == 0) {
        return GX_OK;
    }
    int read = sscanf(text, "index %" SCNd64 " %" SCNd64 " %" SCNd64 " %lf", &wish->vector,
                      &wish->lists, &wish->probe, &wish->recall);
    bool is_good = read == 4 && wish->vector >= 0 && wish->vector < t->shape.vectors;
    is_good = is_good && wish->lists >= 0 && wish->lists <= GX_IVF_LISTS_MOST && wish->probe >= 0;
    if (!is_good || !(wish->recall >= 0 && wish->recall <= 1)) {
        return gx_fail(err, GX_ARG, "'%.60s' is no command: gx_index() writes them", text);
    }
    return GX_OK;
}

// Verification ------------------------------------------------------------------------------------

/* How many of a panel's rows are meant. */
static gx_code count_meant(gx_vec_table *t, const gx_ivf_panel *panel, int64_t *meant, gx_err *err)
{
    sqlite3_stmt *stmt;
    bool is_row;
    GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_FULL, &stmt, err));
    gx_code code = GX_OK;
    for (int64_t i = 0; i < panel->m && code == GX_OK; i++) {
        sqlite3_bind_int64(stmt, 1, panel->id[i]);
        code = gx_vectors_step(t->rows, stmt, &is_row, err);
        *meant += code == GX_OK && is_row && sqlite3_column_int64(stmt, 0) == panel->round[i];
        sqlite3_reset(stmt);
    }
    return code;
}

static gx_code check_panels(gx_vec_table *t, const gx_vec_index *x, sqlite3_stmt *stmt,
                            int64_t *meant, gx_vec_index *sum, gx_err *err)
{
    bool is_row;
    void *memory = NULL;
    gx_code code = gx_vectors_step(t->rows, stmt, &is_row, err);
    while (code == GX_OK && is_row) {
        gx_ivf_panel panel;
        size_t bytes = (size_t)sqlite3_column_bytes(stmt, 1);
        code = gx_mem_realloc(t->ctx->mem, bytes + 1, "a list", &memory, err);
        if (code == GX_OK && bytes > 0) {
            memcpy(memory, sqlite3_column_blob(stmt, 1), bytes);
        }
        code =
            code == GX_OK ? gx_ivf_panel_check(memory, bytes, x->dims, t->name, &panel, err) : code;
        code = code == GX_OK ? count_meant(t, &panel, meant, err) : code;
        sum->panels++;
        sum->entries += code == GX_OK ? panel.m : 0;
        code = code == GX_OK ? gx_vectors_step(t->rows, stmt, &is_row, err) : code;
    }
    gx_mem_free(t->ctx->mem, memory);
    return code;
}

gx_code gx_vec_check_index(gx_vec_table *t, const gx_vec_index *x, gx_err *err)
{
    sqlite3_stmt *stmt;
    void *centres;
    int64_t meant = 0, dead = 0, rows = 0, entered = 0;
    gx_vec_index sum = {.panels = 0};
    GX_TRY(gx_mem_alloc(t->ctx->mem, gx_ivf_centres_bytes(x->lists, x->dims), "centres", &centres,
                        err));
    gx_code code = gx_vec_read_centres(t, x, centres, err);
    gx_mem_free(t->ctx->mem, centres);
    GX_TRY(code);
    GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_LISTS, &stmt, err));
    sqlite3_bind_int64(stmt, 1, gx_vec_list_key(0, 1));
    sqlite3_bind_int64(stmt, 2, gx_vec_list_key(x->lists, 0) - 1);
    code = check_panels(t, x, stmt, &meant, &sum, err);
    sqlite3_reset(stmt);
    GX_TRY(code);
    GX_TRY(gx_vec_count_dead(t, &dead, err));
    GX_TRY(gx_vec_height(t, &rows, err));
    GX_TRY(gx_vec_count(t, GX_VECTORS_COUNT_NEW, x->slot, &entered, err));
    rows += entered;
    if (meant != rows - dead || sum.entries != x->entries || sum.panels != x->panels) {
        return gx_fail(err, GX_CORRUPT,
                       "%s_list has %" PRId64 " of %" PRId64 " rows, %" PRId64
                       " entries of %" PRId64 ", %" PRId64 " panels of %" PRId64,
                       t->name, meant, rows - dead, sum.entries, x->entries, sum.panels, x->panels);
    }
    return GX_OK;
}
