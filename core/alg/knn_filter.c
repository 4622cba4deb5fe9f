/*
** Neighbours with a filter: rows that their codes rule out are not scored (knn_filter.h).
**
** A product of codes with a query bounds each row's merit from above and from below (knn_codes.h).
** A row whose upper bound is below the k-th best lower bound is
** not among the k best.  What is left is scored from E as listed candidates are (knn_listed.c): the
** likeliest first, since the k-th best of their scores rules out most of the others.  The result is
** that of the search among all rows, ties included.  Rows without bounds are always scored, queries
** without bounds search all rows.
**
** A pass over the codes (exec/pass.h): a unit is some rows, whose pairs that are left are folded
** into those of all.  Where too many rows cannot be told apart, all are searched.
**
** Codes of one bit are off by most of |x|: their v alone decides, and so many rows are scored as
** the caller says.
*/
#include "knn_filter.h"
#include "knn_codes.h"
#include "knn_int.h"

#include "dense.h"

#include "../base/best.h"
#include "../run/call.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Queries at a time; so few are multiplied while codes are read. */
enum { QUERIES = 1024, FEW = 16 };

/* Of a unit: codes in bytes, read at once, and the panels in which many queries meet them. */
enum { UNIT_BYTES = 4 << 20, PANEL_ROWS = 256, PANEL_QUERIES = 128 };

/* Rows whose bounds are looked at together. */
enum { GROUP = 16 };

/* A row that may be among a query's best, and between what its v is. */
typedef struct pair {
    float upper, lower;
    int32_t query;
    int64_t row;
} pair;

typedef struct sift {
    gx_run *run;
    const gx_knn_args *args;
    const gx_leaf *codes;
    const gx_backend *backend;
    gx_dev *dev;
    bool is_exact;        /* has bounds; else v decides              */
    int64_t first, n;     /* queries of Q                            */
    int64_t d, most;      /* numbers of a row; entries of a heap     */
    int per;              /* codes of a byte                         */
    int64_t high;         /* rows of a unit                          */
    double off;           /* |d| / |q| + u at most                   */
    double *query;        /* d x n, then: */
    double *length;       /* |q|                                     */
    int16_t *b;           /* bytes of a row x per, x n               */
    float *alpha, *gamma; /* v = alpha A p + B within gamma E + F    */
    double *best;         /* heaps of lower bounds, most x n         */
    int64_t *index;
    float *root;          /* their worst                             */
    pthread_mutex_t lock; /* guards root                             */
    pair *pair;           /* what is left of all rows                */
    int64_t pairs, room, limit;
    atomic_bool is_over; /* too many are left                       */
} sift;

// Queries -----------------------------------------------------------------------------------------

static int64_t padded(const sift *s)
{
    return gx_codes_bytes(s->codes) * s->per;
}

/* A query as whole numbers.  false: nothing is foretold of it. */
static bool code_query(sift *s, int64_t j)
{
    gx_query_code code;
    if (!gx_code_query(s->query + j * s->d, s->d, gx_codes_bits(s->codes), padded(s),
                       s->args->metric, s->b + j * padded(s), &code)) {
        return false;
    }
    s->length[j] = code.length;
    s->alpha[j] = code.alpha;
    s->gamma[j] = code.gamma;
    s->off = fmax(s->off, code.off);
    return true;
}

/* Some bytes of a block to *to, a pointer; without a block they are counted. */
static size_t hand_out(char *block, size_t used, size_t bytes, void *to)
{
    if (block != NULL) {
        memcpy(to, &(char *){block + used}, sizeof(char *));
    }
    return used + gx_whole_lines(bytes);
}

/* Memory for the queries and the heaps, in one block; its bytes. */
static size_t lay_out(sift *s, int64_t n, char *at)
{
    const size_t bytes[] = {(size_t)(s->d * n) * sizeof(double),
                            (size_t)n * sizeof(double),
                            (size_t)(s->most * n) * sizeof(double),
                            (size_t)(s->most * n) * sizeof(int64_t),
                            (size_t)(padded(s) * n) * sizeof(int16_t),
                            (size_t)n * sizeof(float),
                            (size_t)n * sizeof(float),
                            (size_t)n * sizeof(float)};
    void *const to[] = {&s->query, &s->length, &s->best,  &s->index,
                        &s->b,     &s->alpha,  &s->gamma, &s->root};
    size_t used = 0;
    for (size_t k = 0; k < sizeof bytes / sizeof bytes[0]; k++) {
        used = hand_out(at, used, bytes[k], to[k]);
    }
    return used;
}

/* false: the queries search all rows, or the run has failed. */
static bool load_queries(sift *s)
{
    gx_mat columns;
    bool all = true;
    gx_mat_view(&columns, s->args->Q, GX_TRANS, 0, s->first, s->d, s->n);
    gx_dense_load(s->run, &columns, GX_F64, s->query, s->d);
    if (!gx_ok(s->run)) {
        return false;
    }
    memset(s->b, 0, (size_t)(padded(s) * s->n) * sizeof *s->b);
    s->off = 0;
    for (int64_t j = 0; j < s->n && all; j++) {
        all = code_query(s, j);
        s->root[j] = -INFINITY;
    }
    gx_best_begin(s->best, s->index, s->most * s->n, false);
    return all;
}

// A unit ------------------------------------------------------------------------------------------

/* A thread's memory; what is of rows has as many as a unit. */
typedef struct room {
    int8_t *codes;    /* a byte each: all of the unit's, or a chunk of columns             */
    uint8_t *bytes;   /* as they are stored, where a code is no byte; of facts, in any case */
    int32_t *product; /* rows x queries, or those of a panel                                */
    float *scale, *residual, *norm; /* becoming: */
    float *a, *b, *e, *f;
    float *floor; /* of each query */
    double *best; /* most of each: heaps of the unit's lower bounds */
    int64_t *index;
} room;

static bool is_few(const sift *s)
{
    return s->n <= FEW;
}

/* Bytes of a row that are read at once. */
static int64_t chunk_of(const sift *s)
{
    int64_t all = gx_codes_bytes(s->codes);
    return is_few(s) ? gx_max(1, gx_min(all, GX_PASS_CHUNK_BYTES / s->per / s->high)) : all;
}

static size_t take_room(const sift *s, char *at, room *r)
{
    int64_t chunk = chunk_of(s), sums = is_few(s) ? s->high * s->n : PANEL_ROWS * PANEL_QUERIES;
    int64_t bytes = s->per > 1 ? gx_max(chunk, GX_ROW_FACTS) : GX_ROW_FACTS;
    size_t rows = (size_t)s->high * sizeof(float), used = 0;
    const size_t sizes[] = {(size_t)(s->high * chunk * s->per),
                            (size_t)(s->high * bytes),
                            (size_t)sums * sizeof(int32_t),
                            rows,
                            rows,
                            rows,
                            rows,
                            rows,
                            rows,
                            rows,
                            (size_t)s->n * sizeof(float),
                            (size_t)(s->n * s->most) * sizeof(double),
                            (size_t)(s->n * s->most) * sizeof(int64_t)};
    void *const to[] = {&r->codes, &r->bytes, &r->product, &r->scale, &r->residual, &r->norm, &r->a,
                        &r->b,     &r->e,     &r->f,       &r->floor, &r->best,     &r->index};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        used = hand_out(at, used, sizes[k], to[k]);
    }
    return used;
}

static gx_code multiply(const sift *s, const int8_t *codes, int64_t m, int64_t ld, int64_t from,
                        int64_t k, int64_t j, int64_t n, int32_t *product, int64_t ldc, gx_err *err)
{
    gx_args args = {.m = m, .n = n, .k = k, .a = codes, .lda = ld, .ldb = padded(s)};
    args.b = s->b + j * padded(s) + from;
    args.c = product;
    args.ldc = ldc;
    args.from = GX_DTYPE_I8;
    return s->backend->kernel[GX_WHOLE][GX_F32](s->dev, NULL, &args, err);
}

static void unpack(const sift *s, const uint8_t *bytes, int64_t m, int64_t w, int8_t *codes)
{
    for (int64_t j = 0; j < w * s->per; j++) {
        gx_codes_unpack(gx_codes_bits(s->codes), (int)(j % s->per), bytes + j / s->per * m, m,
                        codes + j * m);
    }
}

/* The codes of m rows; few queries are multiplied with them chunk by chunk. */
static gx_code read_unit(const sift *s, gx_pass_thread *thread, int64_t i0, int64_t m,
                         const room *r, gx_err *err)
{
    const gx_mat *base = &s->codes->base;
    int64_t all = gx_codes_bytes(s->codes), step = chunk_of(s);
    const gx_row_facts facts = {r->scale, r->residual, r->norm};
    GX_TRY(gx_pass_read_as(thread, base, i0, 0, m, GX_ROW_FACTS, GX_DTYPE_I8, r->bytes, m, err));
    GX_TRY(gx_row_facts_of(s->codes, i0, m, r->bytes, &facts, err));
    const gx_row_weights weights = {r->a, r->b, r->e, r->f};
    gx_weigh_rows(&facts, m, s->args->metric, s->off, s->is_exact, &weights);
    if (is_few(s)) {
        memset(r->product, 0, (size_t)(m * s->n) * sizeof *r->product);
    }
    for (int64_t b = 0; b < all && gx_ok(s->run); b += step) {
        int64_t w = gx_min(step, all - b);
        void *to = s->per > 1 ? (void *)r->bytes : r->codes;
        GX_TRY(gx_pass_read_as(thread, base, i0, GX_ROW_FACTS + b, m, w, GX_DTYPE_I8, to, m, err));
        if (s->per > 1) {
            unpack(s, r->bytes, m, w, r->codes);
        }
        if (is_few(s)) {
            GX_TRY(
                multiply(s, r->codes, m, m, b * s->per, w * s->per, 0, s->n, r->product, m, err));
        }
    }
    return GX_OK;
}

// What is left of it ------------------------------------------------------------------------------

/* A unit's pairs: as many as there is room for. */
typedef struct left {
    int64_t count;
    pair pair[];
} left;

static int64_t pairs_of_unit(const sift *s)
{
    return s->n * (4 * s->most + 8 * GROUP) + 2 * s->high;
}

static void add_pair(sift *s, left *to, const float *floor, const pair *p)
{
    int64_t all = pairs_of_unit(s);
    if (to->count == all) { // those that have fallen behind make room
        int64_t kept = 0;
        for (int64_t e = 0; e < all; e++) {
            if (!(to->pair[e].upper < floor[to->pair[e].query])) {
                to->pair[kept++] = to->pair[e];
            }
        }
        to->count = kept;
        if (kept > all / 4 * 3) {
            atomic_store(&s->is_over, true);
        }
        if (kept == all) {
            return;
        }
    }
    to->pair[to->count++] = *p;
}

/* Bounds of row i for query j. */
static inline pair bounds(const sift *s, const room *r, int64_t i, int64_t j, int32_t product)
{
    float v = s->alpha[j] * (r->a[i] * (float)product) + r->b[i];
    float within = s->gamma[j] * r->e[i] + r->f[i];
    bool is_number = v + within < INFINITY; // else it is scored
    return (pair){.upper = is_number ? v + within : INFINITY,
                  .lower = v - within,
                  .query = (int32_t)j,
                  .row = i};
}

/* Query j beside rows [i, i + m) of the unit that begins with row i0 of E. */
static void look(sift *s, const room *r, int64_t i0, int64_t i, int64_t m, int64_t j,
                 const int32_t *product, left *to)
{
    int64_t self = s->args->excludes_self ? s->first + j - i0 : -1;
    double *best = r->best + j * s->most;
    float alpha = s->alpha[j], gamma = s->gamma[j];
    for (int64_t g = 0; g < m; g += GROUP) {
        int64_t end = gx_min(g + GROUP, m);
        float floor = r->floor[j];
        int any = 0;
        for (int64_t k = g; k < end; k++) {
            float v = alpha * (r->a[i + k] * (float)product[k]) + r->b[i + k];
            any |= !(v + (gamma * r->e[i + k] + r->f[i + k]) < floor);
        }
        for (int64_t k = g; any && k < end; k++) {
            pair p = bounds(s, r, i + k, j, product[k]);
            if (p.upper < r->floor[j] || i + k == self) {
                continue;
            }
            p.row += i0;
            if (isfinite(p.lower) && (double)p.lower > best[0]) {
                gx_best_sift(best, r->index + j * s->most, s->most, (double)p.lower, p.row);
                r->floor[j] = fmaxf(r->floor[j], (float)best[0]);
            }
            add_pair(s, to, r->floor, &p);
        }
    }
}

static gx_code look_at_panels(sift *s, const room *r, int64_t i0, int64_t m, left *to, gx_err *err)
{
    for (int64_t i = 0; i < m; i += PANEL_ROWS) {
        int64_t rows = gx_min(PANEL_ROWS, m - i);
        for (int64_t j = 0; j < s->n && gx_ok(s->run); j += PANEL_QUERIES) {
            int64_t n = gx_min(PANEL_QUERIES, s->n - j);
            memset(r->product, 0, (size_t)(rows * n) * sizeof *r->product);
            GX_TRY(multiply(s, r->codes + i, rows, m, 0, padded(s), j, n, r->product, rows, err));
            for (int64_t q = 0; q < n && !atomic_load(&s->is_over); q++) {
                look(s, r, i0, i, rows, j + q, r->product + q * rows, to);
            }
        }
    }
    return GX_OK;
}

static gx_code look_at_unit(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                            gx_err *err)
{
    sift *s = arg;
    left *to = part;
    room r;
    int64_t i0 = unit * s->high, m = gx_min(s->high, s->args->E->rows - i0);
    take_room(s, work, &r);
    to->count = 0;
    if (atomic_load(&s->is_over)) {
        return GX_OK;
    }
    GX_TRY(read_unit(s, thread, i0, m, &r, err));
    pthread_mutex_lock(&s->lock);
    memcpy(r.floor, s->root, (size_t)s->n * sizeof *r.floor);
    pthread_mutex_unlock(&s->lock);
    gx_best_begin(r.best, r.index, s->n * s->most, false);
    if (!is_few(s)) {
        return look_at_panels(s, &r, i0, m, to, err);
    }
    for (int64_t j = 0; j < s->n && !atomic_load(&s->is_over); j++) {
        look(s, &r, i0, 0, m, j, r.product + j * m, to);
    }
    return GX_OK;
}

static void drop_behind(sift *s)
{
    int64_t kept = 0;
    for (int64_t e = 0; e < s->pairs; e++) {
        if (!(s->pair[e].upper < s->root[s->pair[e].query])) {
            s->pair[kept++] = s->pair[e];
        }
    }
    s->pairs = kept;
}

static gx_code make_room(sift *s, gx_err *err)
{
    void *memory = s->pair;
    drop_behind(s);
    bool is_last = s->room >= s->limit;
    if (s->room > 0 && s->pairs <= (is_last ? s->room / 8 * 7 : s->room / 2)) {
        return GX_OK;
    }
    if (is_last) {
        atomic_store(&s->is_over, true);
        return GX_OK;
    }
    int64_t larger = gx_min(s->limit, gx_max(1024, 2 * s->room));
    GX_TRY(gx_mem_realloc(s->run->ctx->mem, (size_t)larger * sizeof(pair), "rows that are left",
                          &memory, err));
    s->pair = memory;
    s->room = larger;
    return GX_OK;
}

static gx_code fold_unit(void *arg, int64_t unit, void *part, gx_err *err)
{
    sift *s = arg;
    const left *from = part;
    (void)unit;
    for (int64_t e = 0; e < from->count && !atomic_load(&s->is_over); e++) {
        const pair *p = &from->pair[e];
        double *best = s->best + p->query * s->most;
        if (p->upper < s->root[p->query]) {
            continue;
        }
        if (s->pairs == s->room) {
            GX_TRY(make_room(s, err));
            if (atomic_load(&s->is_over)) {
                break;
            }
        }
        s->pair[s->pairs++] = *p;
        if (isfinite(p->lower) && (double)p->lower > best[0]) {
            gx_best_sift(best, s->index + p->query * s->most, s->most, (double)p->lower, p->row);
            pthread_mutex_lock(&s->lock);
            s->root[p->query] = (float)best[0];
            pthread_mutex_unlock(&s->lock);
        }
    }
    return GX_OK;
}

/* All rows that may be among the best, by query, the likeliest first.  false: too many. */
static bool pass_over(sift *s)
{
    const gx_mat *sources[] = {&s->codes->base};
    room unused;
    double bytes = (double)s->codes->base.rows * (double)s->codes->base.cols;
    gx_pass pass = {.sources = sources,
                    .source_count = 1,
                    .units = gx_ceil_div(s->args->E->rows, s->high),
                    .bytes = bytes,
                    .flops = 2 * bytes * s->per * (double)s->n,
                    .part_bytes = sizeof(left) + (size_t)pairs_of_unit(s) * sizeof(pair),
                    .work = look_at_unit,
                    .fold = fold_unit,
                    .arg = s};
    pass.work_bytes = take_room(s, NULL, &unused);
    gx_pass_run(s->run, &pass);
    gx_stats_add(&s->run->ctx->stats, GX_STAT_KERNELS, pass.units);
    gx_stats_add(&s->run->ctx->stats, GX_STAT_FLOPS, (int64_t)pass.flops);
    drop_behind(s);
    return gx_ok(s->run) && !atomic_load(&s->is_over);
}

static int by_query(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    if (x->query != y->query) {
        return x->query < y->query ? -1 : 1;
    }
    if (x->upper != y->upper) {
        return x->upper < y->upper ? 1 : -1;
    }
    return (x->row > y->row) - (x->row < y->row);
}

// Scores ------------------------------------------------------------------------------------------

/* The pairs of a query that wait to be scored. */
typedef struct queue {
    int64_t next, end;
} queue;

/* What v a row must reach to be among the best, by the scores that are known. */
static double wanted(const sift *s, const gx_neighbours *out, int64_t j)
{
    int64_t list = s->first - s->args->first + j;
    double worst = out->merit[list * out->count + out->count - 1];
    return gx_code_wanted(s->args->metric, s->length[j], worst);
}

/* Up to `wide` of each query's, as candidates: n x wide, -1 where there are fewer; counts them. */
static int64_t choose(sift *s, const gx_neighbours *out, queue *q, int64_t wide, double *ids)
{
    int64_t chosen = 0;
    for (int64_t j = 0; j < s->n; j++) {
        double least = wanted(s, out, j);
        for (int64_t c = 0; c < wide; c++) {
            bool is_one = q[j].next < q[j].end;
            is_one = is_one && (!s->is_exact || !((double)s->pair[q[j].next].upper < least));
            q[j].next = is_one ? q[j].next : q[j].end; // those behind it are no better
            ids[c * s->n + j] = is_one ? (double)s->pair[q[j].next].row : -1;
            q[j].next += is_one;
            chosen += is_one;
        }
    }
    return chosen;
}

/* Their merits, from E, into the lists. */
static void score(sift *s, const double *ids, int64_t wide, gx_neighbours *out)
{
    gx_mat Q, C;
    gx_neighbours found = {0};
    gx_knn_args args = *s->args;
    gx_mat_view(&Q, s->args->Q, GX_NO_TRANS, s->first, 0, s->n, s->d);
    gx_mat_value(&C, "rows that are left", GX_F64, s->n, wide, ids, s->n);
    args.Q = &Q;
    args.C = &C;
    args.excludes_self = false; // it is not among them
    args.k = out->count;
    args.first = 0;
    args.last = s->n;
    if (gx_knn_run(s->run, &args, &found) == GX_OK) {
        for (int64_t j = 0; j < s->n; j++) {
            int64_t at = (s->first - s->args->first + j) * out->count;
            gx_best_merge(out->merit + at, out->index + at, found.merit + j * found.count,
                          found.index + j * found.count, out->count);
        }
    }
    gx_neighbours_clear(&found);
}

/* Round by round, the likeliest first: as many as are wanted, then twice as many, and so on. */
static int64_t score_all(sift *s, gx_neighbours *out)
{
    gx_mem *mem = s->run->ctx->mem;
    queue *q = gx_run_calloc(s->run, (size_t)s->n * sizeof *q, "rows that are left");
    int64_t wide = gx_max(out->count, s->is_exact ? 1 : s->most), scored = 0, chosen = 1;
    const int64_t WIDEST = gx_max(out->count, 4096);
    for (int64_t e = 0; e < s->pairs && q != NULL; e++) {
        queue *own = &q[s->pair[e].query];
        own->next = own->end == 0 ? e : own->next;
        own->end = e + 1;
    }
    while (chosen > 0 && gx_run_poll(s->run) == GX_OK) {
        double *ids =
            gx_run_alloc(s->run, (size_t)(s->n * wide) * sizeof *ids, "rows that are left");
        chosen = ids == NULL ? 0 : choose(s, out, q, wide, ids);
        if (chosen > 0) {
            score(s, ids, wide, out);
        }
        gx_mem_free(mem, ids);
        scored += chosen;
        wide = gx_max(wide, gx_min(2 * wide, WIDEST));
        if (!s->is_exact) {
            break;
        }
    }
    gx_mem_free(mem, q);
    return scored;
}

// Queries by some ---------------------------------------------------------------------------------

static void search_all_rows(sift *s, gx_neighbours *out)
{
    gx_neighbours found = {0};
    gx_knn_args args = *s->args;
    args.first = s->first;
    args.last = s->first + s->n;
    if (gx_knn_run(s->run, &args, &found) == GX_OK) {
        size_t entries = (size_t)(found.queries * found.count);
        int64_t at = (s->first - s->args->first) * out->count;
        memcpy(out->merit + at, found.merit, entries * sizeof *found.merit);
        memcpy(out->index + at, found.index, entries * sizeof *found.index);
    }
    gx_neighbours_clear(&found);
}

/* Heaps and queries are in memory. */
static int64_t search_some(sift *s, gx_neighbours *out)
{
    int64_t scored = 0;
    s->pairs = 0;
    atomic_store(&s->is_over, false);
    bool is_sifted = load_queries(s) && pass_over(s);
    if (is_sifted) {
        qsort(s->pair, (size_t)s->pairs, sizeof *s->pair, by_query);
        scored = score_all(s, out);
    } else if (gx_ok(s->run)) {
        gx_stats_note(&s->run->ctx->stats,
                      "neighbours: the filter cannot tell rows apart, all of E is searched");
        search_all_rows(s, out);
    }
    gx_mem_free(s->run->ctx->mem, s->pair);
    s->pair = NULL;
    s->room = 0;
    return scored;
}

static bool fits(sift *s)
{
    room unused;
    gx_pass pass = {.units = 2, .work_bytes = take_room(s, NULL, &unused)};
    pass.part_bytes = sizeof(left) + (size_t)pairs_of_unit(s) * sizeof(pair);
    size_t threads = (size_t)s->run->ctx->config.number[GX_SET_THREADS];
    return lay_out(s, s->n, NULL) + threads * gx_pass_thread_bytes(&pass) <=
           gx_mem_available(s->run->ctx->mem) / 2;
}

/* As many queries, and rows of a unit, as fit beside one another. */
static int64_t choose_queries(sift *s, int64_t queries)
{
    const int64_t LEAST_ROWS = 64;
    s->n = gx_min(queries, QUERIES);
    while (!fits(s) && (s->n > FEW || s->high > LEAST_ROWS)) {
        s->n = s->n > FEW ? gx_ceil_div(s->n, 2) : s->n;
        s->high = s->n > FEW ? s->high : gx_ceil_div(s->high, 2);
    }
    return s->n;
}

static void search(sift *s, gx_neighbours *out)
{
    gx_run *run = s->run;
    int64_t n = choose_queries(s, out->queries), scored = 0;
    char *memory = gx_run_alloc(run, lay_out(s, n, NULL), "queries");
    pthread_mutex_init(&s->lock, NULL);
    gx_best_begin(out->merit, out->index, out->queries * out->count, false);
    for (int64_t j = s->args->first; j < s->args->last && gx_run_poll(run) == GX_OK; j += n) {
        s->first = j;
        s->n = gx_min(n, s->args->last - j);
        int64_t share = s->args->E->rows / (is_few(s) ? 16 : 64); // more cost more than a search
        s->limit = s->n * gx_max(16 * (s->most + GROUP), share);
        lay_out(s, n, memory);
        scored += search_some(s, out);
    }
    pthread_mutex_destroy(&s->lock);
    gx_mem_free(run->ctx->mem, memory);
    gx_stats_note(&run->ctx->stats, "neighbours: %" PRId64 " rows scored for %" PRId64 " queries",
                  scored, out->queries);
}

gx_code gx_knn_run_filtered(gx_run *run, const gx_knn_args *args, const gx_knn_filter *filter,
                            gx_neighbours *out)
{
    sift s = {.run = run, .args = args, .codes = filter->codes, .d = args->E->cols};
    *out = (gx_neighbours){.mem = NULL};
    if (!gx_ok(run) || gx_run_device(run, &s.backend, &s.dev) != GX_OK) {
        return run->err.code;
    }
    int bits = gx_codes_bits(s.codes);
    s.is_exact = bits > 1;
    s.per = 8 / bits;
    int64_t queries = gx_max(0, args->last - args->first), count = gx_min(args->k, args->E->rows);
    bool is_odd = gx_number_is_complex(args->Q->number) || args->Q->cols != args->E->cols;
    if (is_odd || queries == 0 || count == 0) {
        return gx_knn_run(run, args, out); // which says why
    }
    s.most = s.is_exact ? count : gx_max(count, gx_min(filter->rescored, args->E->rows));
    s.high = gx_max(1, UNIT_BYTES / padded(&s));
    s.high = gx_min(s.high, s.codes->base.tile_rows);
    s.high = gx_ceil_div(s.codes->base.tile_rows, gx_ceil_div(s.codes->base.tile_rows, s.high));
    run->is_irregular = true; // not to be learnt from
    out->queries = queries;
    out->count = count;
    if (gx_knn_make_lists(run, out)) {
        search(&s, out);
    }
    if (gx_run_forgive(run, GX_BUDGET)) { // a search without a filter has other needs
        gx_stats_note(&run->ctx->stats, "neighbours: no memory for a filter, all of E is searched");
        gx_neighbours_clear(out);
        return gx_knn_run(run, args, out);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}
