/*
** Nearest neighbours: each query's k best among the rows of E, exactly, in streamed passes
** (pass.h).
**
** A unit is a strip: some rows of E, all of their columns.  A thread reads it and gives it and all
** queries to GX_NEAREST, which multiplies them, picks out of the product what may be among a
** list's best and computes these merits as nearest.h says: the product leaves neither the thread
** nor, panel by panel, its cache.  The lists that come back are folded into those of all strips;
** what these hold already is a floor for strips to come.  A merit has the same bits wherever its
** row lies and ties go by number: so do the results, for every budget and number of threads.
**
** Few queries are multiplied while the strip is read, some columns at a time (GX_APART),
** as a product with few columns is (alg_narrow.c), and GX_NEAREST is given what that came to.
**
** Differences by way of products, x.x - 2 x.y + y.y, lose what x and y have in common, so the mean
** of the queries is taken off both; what is lost all the same is only the foreknowledge of which
** rows need to be computed.
**
** Where the queries are E itself half of that is enough (knn_mutual.c).
**
** Queries are held as doubles, and beside that as what is multiplied; where the memory does not
** hold them all they go in batches, each a pass over E.
*/
#include "dense.h"
#include "knn_int.h"

#include "../base/best.h"
#include "../run/call.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Queries of one call of GX_NEAREST, of the reference's: an interrupt waits for one. */
enum { QUERIES = 4096, SLOW_QUERIES = 64 };

/* Lower strips cost more to read than they bring. */
enum { LEAST_STRIP = 1024 };

// The plan ----------------------------------------------------------------------------------------

static int64_t queries_of_call(const gx_knn_search *s)
{
    return s->backend == &gx_backend_ref ? SLOW_QUERIES : QUERIES;
}

static size_t kernel_bytes(const gx_knn_search *s, int64_t m, int64_t n)
{
    static const char there = 0;
    gx_nearest w = {.metric = s->args->metric,
                    .count = s->most,
                    .given = s->plan.is_few ? &there : NULL,
                    .shift = gx_knn_is_shifted(s) ? &there : NULL};
    gx_args args = {.m = m, .n = gx_min(n, queries_of_call(s)), .k = s->args->E->cols};
    args.nearest = &w;
    return gx_whole_lines(s->backend->workspace(s->dev, GX_NEAREST, s->dtype, &args));
}

/*
** What a strip of E is kept as.  Where few queries are multiplied while it is read that is what E
** is stored as: only rows that may be among the best are numbers again.
*/
static gx_dtype kept_as(const gx_knn_search *s)
{
    bool is_kept = s->plan.is_few && s->backend != &gx_backend_ref;
    return is_kept ? gx_mat_narrow(s->args->E, s->dtype) : gx_dtype_of(s->dtype);
}

static size_t strip_bytes(const gx_knn_search *s, int64_t m)
{
    return gx_whole_lines((size_t)(m * s->args->E->cols) * gx_dtype_bytes(kept_as(s)));
}

/* A block of a strip as numbers, where it is not kept so: in the first cache. */
enum { BLOCK_ROWS = 1024, BLOCK_COLS = 4 };

static size_t block_bytes(const gx_knn_search *s)
{
    bool is_wide = gx_dtype_is(kept_as(s), s->dtype);
    return is_wide ? 0 : (size_t)(BLOCK_ROWS * BLOCK_COLS) * gx_number_bytes(s->dtype);
}

/* One column beside the queries: the rows' squares. */
static size_t given_bytes(const gx_knn_search *s, int64_t m, int64_t n)
{
    return s->plan.is_few ? gx_whole_lines((size_t)(m * (n + 1)) * gx_number_bytes(s->dtype)) : 0;
}

/* A thread's: the strip, the floors, what is given, the kernel's or, before that, a block. */
static size_t work_bytes(const gx_knn_search *s, int64_t m, int64_t n)
{
    return strip_bytes(s, m) + gx_whole_lines((size_t)n * sizeof(double)) + given_bytes(s, m, n) +
           gx_max(block_bytes(s), kernel_bytes(s, m, n));
}

/* A strip's lists. */
static size_t part_bytes(const gx_knn_search *s, int64_t m, int64_t n)
{
    return (size_t)(n * gx_min(s->out->count, m)) * 2 * sizeof(double);
}

static size_t batch_bytes(const gx_knn_search *s, int64_t n)
{
    size_t number = sizeof(double) + gx_number_bytes(s->dtype);
    size_t listed = s->args->C != NULL ? (size_t)(n * s->args->C->cols) * 4 * sizeof(double) : 0;
    return (size_t)(n * s->args->E->cols) * number + (size_t)n * 4 * sizeof(double) + listed;
}

static bool fits(const gx_knn_search *s, int threads, int64_t strip, int64_t n)
{
    gx_pass pass = {.units = 2};
    pass.work_bytes = s->plan.is_mutual ? gx_knn_mutual_bytes(s, strip) : work_bytes(s, strip, n);
    pass.part_bytes = s->plan.is_mutual ? 0 : part_bytes(s, strip, n);
    double lists = (double)s->out->queries * (double)s->out->count * 2 * sizeof(double);
    size_t available = gx_mem_available(s->run->ctx->mem) / 16 * 15;
    if (s->out->merit == NULL) { // only foretold
        available -= lists < (double)available ? (size_t)lists : available;
    }
    return batch_bytes(s, n) + (size_t)threads * gx_pass_thread_bytes(&pass) <= available;
}

/*
** As many strips as keep the threads busy to the end, but none too low to be read well: a part of a
** tile's rows takes more pages than its bytes come to.
*/
static int64_t first_strip(const gx_knn_search *s)
{
    const gx_mat *E = s->args->E;
    int64_t threads = s->run->ctx->config.number[GX_SET_THREADS];
    int64_t rows = gx_max(LEAST_STRIP, E->rows / ((s->plan.is_few ? 1 : 8) * threads));
    int64_t tile = gx_max(1, gx_min(E->tile_rows, E->rows));
    return gx_ceil_div(tile, gx_ceil_div(tile, rows));
}

/* E as its own queries, where memory holds them all. */
static bool choose_mutual(gx_knn_search *s, int64_t queries)
{
    gx_knn_plan *plan = &s->plan;
    *plan = (gx_knn_plan){.batch = queries, .batches = 1};
    plan->is_mutual = gx_knn_is_mutual(s);
    plan->strip = plan->is_mutual ? gx_knn_mutual_height(s) : 0;
    plan->is_mutual = plan->is_mutual && fits(s, (int)s->run->ctx->config.number[GX_SET_THREADS],
                                              plan->strip, queries);
    return plan->is_mutual;
}

/* Threads are given up last but for the last query and the last row. */
static void choose(gx_knn_search *s, int64_t queries)
{
    gx_knn_plan *plan = &s->plan;
    const int64_t MANY = 512;
    int threads = (int)s->run->ctx->config.number[GX_SET_THREADS];
    if (choose_mutual(s, queries)) {
        return;
    }
    plan->is_few = queries <= GX_KNN_FEW;
    plan->strip = first_strip(s);
    plan->batch = gx_max(1, queries);
    while (!fits(s, threads, plan->strip, plan->batch)) {
        if (plan->batch > MANY) {
            plan->batch = gx_ceil_div(plan->batch, 2);
        } else if (plan->strip > LEAST_STRIP / 8) {
            plan->strip = gx_ceil_div(plan->strip, 2);
        } else if (threads > 1) {
            threads--;
        } else if (plan->batch > 1) {
            plan->batch = gx_ceil_div(plan->batch, 2);
        } else if (plan->strip > 1) {
            plan->strip = gx_ceil_div(plan->strip, 2);
        } else {
            break; // the allocation says what is missing
        }
    }
    if (plan->batch < queries && plan->batch > s->args->Q->tile_rows) { // whole tiles of Q
        plan->batch -= plan->batch % gx_max(1, s->args->Q->tile_rows);
    }
    plan->batches = gx_ceil_div(gx_max(queries, 1), plan->batch);
    plan->is_few = plan->batch <= GX_KNN_FEW;
}

static void cost_of(const gx_knn_search *s, gx_cost *cost, gx_terms *terms)
{
    const gx_mat *Q = s->args->Q, *E = s->args->E;
    double queries = (double)s->out->queries, numbers = (double)E->rows * (double)E->cols;
    double es = (double)gx_number_bytes(E->number);
    bool is_stored = gx_mat_base_stored(E) != NULL;
    gx_args all = {.m = E->rows, .n = s->out->queries, .k = E->cols};
    gx_nearest w = {.metric = s->args->metric};
    all.nearest = &w;
    double share = 1; // of the rows, that strips with candidates are
    if (s->args->C != NULL && E->rows > 0) {
        double pairs = queries * (double)s->args->C->cols;
        share = fmin(1, pairs * (double)s->plan.strip / (double)E->rows);
        all.m = (int64_t)(share * (double)E->rows);
        all.n = gx_max(1, gx_min(all.n, (int64_t)(pairs / fmax(1, (double)all.m))));
    }
    if (s->plan.is_mutual) { // E is there as its queries
        is_stored = false;
        all.n = gx_ceil_div(all.n + s->plan.strip, 2);
    }
    *cost = (gx_cost){.flops = gx_kernel_flops(GX_NEAREST, s->dtype, &all),
                      .bytes_up = share * (double)s->plan.batches * numbers * es};
    cost->bytes_read = (is_stored ? cost->bytes_up / es * (double)gx_dtype_bytes(E->dtype) : 0) +
                       (gx_mat_base_stored(Q) == NULL
                            ? 0
                            : queries * (double)Q->cols * (double)gx_dtype_bytes(Q->dtype));
    cost->calls = s->plan.batches * gx_knn_strips(s);
    cost->loads = cost->calls;
    gx_predict_pass(s->run, cost, s->dtype, gx_min(s->plan.batch, INT32_MAX), terms);
}

// A strip -----------------------------------------------------------------------------------------

static gx_code kernel(const gx_knn_search *s, gx_kernel_id id, const gx_args *args, gx_err *err)
{
    return s->backend->kernel[id][s->dtype](s->dev, NULL, args, err);
}

/* A strip's elements, columns ld apart. */
typedef struct elements {
    const void *at;
    int64_t ld;
} elements;

/* Few queries against m rows of columns j .. j + w - 1 of the strip; given: of ld rows. */
static gx_code multiply(const gx_knn_search *s, elements a, int64_t m, int64_t j, int64_t w,
                        void *given, int64_t ld, gx_err *err)
{
    const gx_knn_batch *b = &s->batch;
    int64_t d = s->args->E->cols;
    gx_nearest sums = {.metric = s->args->metric};
    gx_args args = {.m = m, .n = b->n, .k = w, .a = a.at, .lda = a.ld, .ldb = d, .ldc = ld};
    args.b = gx_at(b->b, s->dtype, d, j, 0);
    args.c = given;
    args.nearest = &sums;
    return kernel(s, GX_APART, &args, err);
}

/* The same of elements, which become numbers block by block. */
static gx_code multiply_elements(const gx_knn_search *s, elements a, int64_t m, int64_t j,
                                 int64_t w, void *given, void *block, gx_err *err)
{
    gx_dtype kept = kept_as(s);
    for (int64_t i = 0; i < m; i += BLOCK_ROWS) {
        int64_t rows = gx_min(BLOCK_ROWS, m - i);
        for (int64_t l = 0; l < w; l += BLOCK_COLS) {
            int64_t cols = gx_min(BLOCK_COLS, w - l);
            GX_TRY(gx_widen(kept, gx_dtype_at(a.at, kept, a.ld, i, l), a.ld, s->dtype, block, rows,
                            rows, cols, err));
            GX_TRY(multiply(s, (elements){block, rows}, rows, j + l, cols,
                            gx_at(given, s->dtype, m, i, 0), m, err));
        }
    }
    return GX_OK;
}

/* Which of the rows of a column are neither 0 nor 1: ORed to refused. */
static void look_at_column(gx_number dtype, const void *column, int64_t rows, uint8_t *refused)
{
    const double *wide = column;
    const float *narrow = column;
    for (int64_t i = 0; i < rows && dtype == GX_F64; i++) {
        refused[i] |= (wide[i] != 0) & (wide[i] != 1);
    }
    for (int64_t i = 0; i < rows && dtype != GX_F64; i++) {
        refused[i] |= (narrow[i] != 0) & (narrow[i] != 1);
    }
}

/* The first row that has others than 0 and 1 is marked. */
static gx_code look_for_bits(gx_knn_search *s, gx_knn_strip at, elements a, gx_err *err)
{
    enum { ROWS = 512 };
    const gx_dtype kept = kept_as(s);
    const bool is_number = gx_dtype_is_number(kept);
    gx_number dtype = is_number ? gx_dtype_number(kept) : s->dtype;
    for (int64_t i = 0; i < at.m && kept != GX_DTYPE_BOOL; i += ROWS) { // a bool is one of them
        int64_t rows = gx_min(ROWS, at.m - i);
        uint8_t refused[ROWS] = {0};
        double numbers[ROWS];
        for (int64_t l = 0; l < s->args->E->cols; l++) {
            const void *column = gx_dtype_at(a.at, kept, a.ld, i, l);
            if (!is_number) {
                GX_TRY(gx_widen(kept, column, a.ld, dtype, numbers, rows, rows, 1, err));
                column = numbers;
            }
            look_at_column(dtype, column, rows, refused);
        }
        for (int64_t k = 0; k < rows; k++) {
            if (refused[k] != 0 && gx_knn_has_listed(s, (gx_knn_strip){at.i0 + i + k, 1})) {
                gx_knn_mark(s, at.i0 + i + k);
                return GX_OK;
            }
        }
    }
    return GX_OK;
}

/* *strip: at memory, or where it lies. */
static gx_code read_strip(gx_knn_search *s, gx_knn_strip at, gx_pass_thread *thread, void *memory,
                          elements *strip, void *given, void *work, gx_err *err)
{
    const gx_mat *E = s->args->E;
    gx_dtype kept = kept_as(s);
    size_t es = gx_dtype_bytes(kept);
    int64_t bytes = s->plan.is_few ? GX_PASS_CHUNK_BYTES : 8 << 20;
    int64_t step = gx_max(1, bytes / (int64_t)es / at.m);
    bool is_there = gx_mat_lend(E, at.i0, 0, at.m, E->cols, kept, &strip->at, &strip->ld);
    *strip = is_there ? *strip : (elements){memory, at.m};
    if (s->plan.is_few) {
        memset(given, 0, (size_t)(at.m * (s->batch.n + 1)) * gx_number_bytes(s->dtype));
    }
    for (int64_t j = 0; j < E->cols && gx_ok(s->run); j += step) {
        int64_t w = gx_min(step, E->cols - j);
        elements part = {gx_dtype_at(strip->at, kept, strip->ld, 0, j), strip->ld};
        if (!is_there) {
            void *to = gx_dtype_at(memory, kept, at.m, 0, j);
            GX_TRY(gx_pass_read_as(thread, E, at.i0, j, at.m, w, kept, to, at.m, err));
        }
        if (s->plan.is_few && gx_dtype_is(kept, s->dtype)) {
            GX_TRY(multiply(s, part, at.m, j, w, given, at.m, err));
        } else if (s->plan.is_few) {
            GX_TRY(multiply_elements(s, part, at.m, j, w, given, work, err));
        }
    }
    return s->args->is_binary ? look_for_bits(s, at, *strip, err) : GX_OK;
}

/* The lists of queries j0 .. j0 + n - 1. */
static gx_code pick(gx_knn_search *s, gx_knn_strip at, int64_t j0, int64_t n, elements strip,
                    const double *floor, const void *given, void *work, double *part, gx_err *err)
{
    const gx_knn_batch *b = &s->batch;
    int64_t d = s->args->E->cols, most = gx_min(s->out->count, at.m), info = 0;
    gx_nearest w = {.metric = s->args->metric,
                    .query = b->query + j0 * d,
                    .square = b->square + j0,
                    .count = most,
                    .merit = part + j0 * most,
                    .index = (int64_t *)(part + b->n * most) + j0 * most,
                    .first_index = at.i0,
                    .self = s->args->excludes_self ? b->first + j0 : GX_NO_SELF,
                    .listed_words = s->listed_words,
                    .floor = floor + j0,
                    .length = b->length + j0,
                    .shift = b->shift,
                    .given = s->plan.is_few ? given : NULL};
    w.listed = s->listed == NULL ? NULL : s->listed + j0 * s->listed_words;
    gx_args args = {.m = at.m,
                    .n = n,
                    .k = d,
                    .a = strip.at,
                    .lda = strip.ld,
                    .b = gx_at(b->b, s->dtype, d, 0, j0),
                    .ldb = d,
                    .from = kept_as(s),
                    .nearest = &w,
                    .work = work,
                    .info = &info};
    GX_TRY(kernel(s, GX_NEAREST, &args, err));
    if (info > 0) {
        gx_knn_mark(s, at.i0 + info - 1);
    }
    return GX_OK;
}

static gx_code look_at_strip(void *arg, int64_t unit, gx_pass_thread *thread, void *work,
                             void *part, gx_err *err)
{
    gx_knn_search *s = arg;
    gx_knn_strip at = gx_knn_strip_of(s, unit);
    int64_t n = s->batch.n;
    elements strip;
    char *floor = (char *)work + strip_bytes(s, s->plan.strip);
    char *given = floor + gx_whole_lines((size_t)n * sizeof(double));
    char *own = given + given_bytes(s, s->plan.strip, n);
    if (at.m == 0 || gx_knn_is_marked(s) || !gx_knn_has_listed(s, at)) {
        int64_t entries = n * gx_min(s->out->count, at.m);
        gx_best_begin(part, (int64_t *)part + entries, entries, false);
        return GX_OK;
    }
    GX_TRY(read_strip(s, at, thread, work, &strip, given, own, err));
    pthread_mutex_lock(&s->lock);
    memcpy(floor, s->root, (size_t)n * sizeof(double));
    pthread_mutex_unlock(&s->lock);
    int64_t most = queries_of_call(s);
    for (int64_t j = 0; j < n && gx_ok(s->run) && !gx_knn_is_marked(s); j += most) {
        GX_TRY(pick(s, at, j, gx_min(most, n - j), strip, (double *)(void *)floor, given, own, part,
                    err));
    }
    return GX_OK;
}

/* A strip's lists join those of all. */
static gx_code fold_strip(void *arg, int64_t unit, void *part, gx_err *err)
{
    gx_knn_search *s = arg;
    gx_knn_strip at = gx_knn_strip_of(s, unit);
    int64_t n = s->batch.n, count = s->out->count, most = gx_min(count, at.m);
    const double *merit = part;
    const int64_t *index = (const int64_t *)(merit + n * most);
    (void)err;
    if (gx_knn_is_marked(s)) {
        return GX_OK;
    }
    pthread_mutex_lock(&s->lock);
    for (int64_t j = 0; j < n; j++) {
        double *best = s->out->merit + (s->batch.first - s->args->first + j) * count;
        int64_t *number = s->out->index + (s->batch.first - s->args->first + j) * count;
        for (int64_t e = j * most; e < (j + 1) * most; e++) {
            if (!gx_best_is_worse(best[0], number[0], merit[e], index[e])) {
                break;
            }
            gx_best_sift(best, number, count, merit[e], index[e]);
        }
        s->root[j] = best[0];
    }
    pthread_mutex_unlock(&s->lock);
    return GX_OK;
}

// The whole ---------------------------------------------------------------------------------------

static void pass_over(gx_knn_search *s)
{
    const gx_mat *E = s->args->E;
    double numbers = (double)E->rows * (double)E->cols;
    gx_pass pass = {.sources = &E,
                    .source_count = 1,
                    .units = gx_knn_strips(s),
                    .bytes = numbers * (double)gx_number_bytes(E->number),
                    .flops = 2 * numbers * (double)s->batch.n,
                    .work_bytes = work_bytes(s, s->plan.strip, s->batch.n),
                    .part_bytes = part_bytes(s, s->plan.strip, s->batch.n),
                    .work = look_at_strip,
                    .fold = fold_strip,
                    .arg = s};
    s->root = gx_run_alloc(s->run, (size_t)s->batch.n * sizeof(double), "results");
    for (int64_t j = 0; j < s->batch.n && s->root != NULL; j++) {
        s->root[j] = -(double)INFINITY;
    }
    gx_pass_run(s->run, &pass);
    gx_stats_add(&s->run->ctx->stats, GX_STAT_KERNELS, pass.units);
    gx_stats_add(&s->run->ctx->stats, GX_STAT_FLOPS, (int64_t)pass.flops);
    gx_mem_free(s->run->ctx->mem, s->root);
}

bool gx_knn_make_lists(gx_run *run, gx_neighbours *out)
{
    int64_t entries = 0;
    size_t bytes;
    if (!gx_mul_i64(out->queries, out->count, &entries) ||
        !gx_matrix_bytes(entries, 2, GX_F64, &bytes)) {
        gx_run_failf(run, GX_ARG, "%" PRId64 " neighbours of each of %" PRId64 " are too many",
                     out->count, out->queries);
        return false;
    }
    out->mem = run->ctx->mem;
    out->merit = gx_run_alloc(run, bytes / 2, "neighbours");
    out->index = gx_run_alloc(run, bytes / 2, "neighbours");
    return gx_ok(run);
}

static bool check_operands(gx_run *run, const gx_knn_args *args)
{
    const gx_mat *both[] = {args->Q, args->E};
    for (int k = 0; k < 2; k++) {
        if (gx_number_is_complex(both[k]->number)) {
            gx_run_failf(run, GX_ARG, "%s is complex (%s): complex numbers have no order",
                         both[k]->label, gx_number_name(both[k]->number));
            return false;
        }
    }
    if (args->Q->cols != args->E->cols) {
        gx_run_failf(run, GX_ARG,
                     "Q is %" PRId64 "x%" PRId64 " but E is %" PRId64 "x%" PRId64
                     ": rows of one length are compared",
                     args->Q->rows, args->Q->cols, args->E->rows, args->E->cols);
        return false;
    }
    return true;
}

static void size_up(const gx_knn_args *args, gx_neighbours *out)
{
    out->queries = gx_max(0, args->last - args->first);
    out->count = gx_min(args->k, args->C != NULL ? args->C->cols : args->E->rows);
}

static bool begin(gx_run *run, const gx_knn_args *args, gx_knn_search *s, gx_neighbours *out)
{
    *s = (gx_knn_search){.run = run, .args = args, .out = out, .dtype = args->E->number};
    atomic_init(&s->at, INT64_MAX);
    s->most = out->count;
    return gx_ok(run) && gx_run_device(run, &s->backend, &s->dev) == GX_OK;
}

void gx_knn_foresee(gx_run *run, const gx_knn_args *args, gx_knn_plan *plan, gx_cost *cost,
                    gx_terms *terms)
{
    gx_knn_search s;
    gx_neighbours none = {.mem = NULL};
    if (!gx_ok(run) || !check_operands(run, args)) {
        return;
    }
    size_up(args, &none);
    if (!begin(run, args, &s, &none)) {
        return;
    }
    if (run->target != NULL) {
        gx_knn_foresee_device(&s, plan, cost, terms);
        return;
    }
    choose(&s, none.queries);
    cost_of(&s, cost, terms);
    *plan = s.plan;
}

/* Rows of nothing are all alike, however many there are: the first ones are the nearest. */
static const gx_knn_args *without_more(const gx_knn_args *args, gx_mat *first, gx_knn_args *fewer)
{
    const gx_mat *E = args->E;
    if (E->cols > 0 || args->C != NULL || args->rows != NULL || args->k >= E->rows) {
        return args;
    }
    gx_mat_view(first, E, GX_NO_TRANS, 0, 0, gx_min(E->rows, args->k + 1), 0);
    *fewer = *args;
    fewer->E = first;
    return fewer;
}

/* The host's pass, or one a batch. */
static void search_here(gx_knn_search *s)
{
    const gx_knn_args *args = s->args;
    gx_run *run = s->run;
    gx_best_begin(s->out->merit, s->out->index, s->out->queries * s->out->count, false);
    for (int64_t j = args->first; j < args->last && gx_ok(run); j += s->plan.batch) {
        int64_t n = gx_min(s->plan.batch, args->last - j);
        if (gx_knn_begin(s, j, n) == GX_OK && gx_knn_make(s, n) == GX_OK) {
            if (args->C != NULL) {
                if (!gx_knn_listed(s)) {
                    pass_over(s);
                }
            } else if (s->plan.is_mutual) {
                gx_knn_mutual(s);
            } else {
                s->listed = args->rows;
                pass_over(s);
            }
        }
        gx_knn_explain(s);
        gx_knn_unload(s);
    }
}

/* A score that is no number is on no list; what is finite has others, but for overflows. */
static void check_lists(const gx_knn_search *s)
{
    const gx_knn_args *args = s->args;
    const gx_neighbours *out = s->out;
    gx_run *run = s->run;
    bool are_all = args->C == NULL && args->rows == NULL;
    for (int64_t j = 0; j < out->queries && gx_ok(run) && are_all; j++) {
        bool is_without_self = args->excludes_self && args->first + j < args->E->rows;
        int64_t least = gx_min(out->count, args->E->rows - is_without_self);
        if (least > 0 && out->index[j * out->count + least - 1] == INT64_MAX) {
            gx_run_failf(run, GX_NUMERIC,
                         "row %lld of %s has scores that overflow: scale the numbers, whose "
                         "squares are beyond the range of a double",
                         (long long)(args->first + j), args->Q->label);
        }
    }
}

/* The lists have memory. */
static gx_code search(gx_run *run, const gx_knn_args *args, gx_neighbours *out)
{
    gx_knn_search s;
    gx_cost cost;
    gx_terms terms;
    if (!begin(run, args, &s, out)) {
        return run->err.code;
    }
    pthread_mutex_init(&s.lock, NULL);
    choose(&s, out->queries);
    cost_of(&s, &cost, &terms);
    bool is_elsewhere = gx_knn_by_device(&s, &terms);
    if (!is_elsewhere) {
        gx_predict_expect(run, &terms, false);
        search_here(&s);
    }
    bool are_heaps = !is_elsewhere || args->C != NULL;
    for (int64_t j = 0; j < out->queries && are_heaps && gx_run_poll(run) == GX_OK; j++) {
        gx_best_sort(out->merit + j * out->count, out->index + j * out->count, out->count);
    }
    pthread_mutex_destroy(&s.lock);
    check_lists(&s);
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_knn_run(gx_run *run, const gx_knn_args *given, gx_neighbours *out)
{
    gx_mat first;
    gx_knn_args fewer;
    const gx_knn_args *args = without_more(given, &first, &fewer);
    *out = (gx_neighbours){.mem = NULL};
    if (!gx_ok(run) || !check_operands(run, args)) {
        return run->err.code;
    }
    size_up(args, out);
    return out->queries == 0 || out->count == 0 || !gx_knn_make_lists(run, out)
               ? run->err.code
               : search(run, args, out);
}

void gx_neighbours_clear(gx_neighbours *out)
{
    if (out->mem != NULL) {
        gx_mem_free(out->mem, out->merit);
        gx_mem_free(out->mem, out->index);
    }
    *out = (gx_neighbours){0};
}
