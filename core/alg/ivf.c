/*
** Inverted lists: see ivf.h.
*/
#include "ivf.h"

#include "knn.h"
#include "quantize.h"

#include "../base/copy.h"
#include "../exec/place.h"
#include "../run/call.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Of k-means: more change little, and what an index is for is never exact. */
enum { PASSES = 4 };

/* Rows that become codes at once; columns whose means are made together. */
enum { CODE_ROWS = 256, TOGETHER = 16 };

/* Rows whose lists one thread looks for at once. */
enum { ASSIGN_ROWS = 256 };

// Panels ------------------------------------------------------------------------------------------

size_t gx_ivf_panel_bytes(int64_t m, int64_t d)
{
    return (size_t)(m * (d + (int64_t)(sizeof(int64_t) + sizeof(int32_t) + 3 * sizeof(float))));
}

int64_t gx_ivf_panel_rows(size_t size, int64_t d)
{
    size_t row = gx_ivf_panel_bytes(1, d);
    bool is_one = size > 0 && size % row == 0 && size / row <= GX_IVF_PANEL_ROWS;
    return is_one ? (int64_t)(size / row) : 0;
}

gx_ivf_panel gx_ivf_panel_at(void *bytes, int64_t m, int64_t d)
{
    gx_ivf_panel p = {.m = m, .d = d, .id = bytes};
    p.round = (int32_t *)(void *)(p.id + m);
    p.facts.scale = (float *)(void *)(p.round + m);
    p.facts.residual = p.facts.scale + m;
    p.facts.norm = p.facts.residual + m;
    p.codes = (int8_t *)(p.facts.norm + m);
    return p;
}

gx_code gx_ivf_panel_check(void *bytes, size_t size, int64_t d, const char *of, gx_ivf_panel *out,
                           gx_err *err)
{
    int64_t m = gx_ivf_panel_rows(size, d);
    if (m == 0) {
        return gx_fail(err, GX_CORRUPT, "%s has a list of %zu bytes, of rows of %zu", of, size,
                       gx_ivf_panel_bytes(1, d));
    }
    *out = gx_ivf_panel_at(bytes, m, d);
    bool is_good = true;
    for (int64_t i = 0; i < 3 * m; i++) { // the three lie together
        float x = out->facts.scale[i];
        is_good = is_good && x >= 0 && x <= GX_ROW_FACT_MOST;
    }
    return is_good ? GX_OK : gx_fail(err, GX_CORRUPT, "a list of %s has facts of no row", of);
}

// Centres -----------------------------------------------------------------------------------------

size_t gx_ivf_centres_bytes(int64_t lists, int64_t d)
{
    return gx_ivf_panel_bytes(lists, d);
}

/* Numbers of centres, lists x d, to panels. */
static gx_code code_centres(gx_run *run, const float *centres, int64_t lists, int64_t d,
                            char *bytes, gx_err *err)
{
    gx_mat C;
    int8_t *codes;
    gx_mat_value(&C, "centres", GX_F32, lists, d, centres, lists);
    GX_TRY(gx_mem_alloc(run->ctx->mem, (size_t)(GX_IVF_PANEL_ROWS * d), "centres", &codes, err));
    gx_code code = GX_OK;
    for (int64_t l = 0; l < lists && code == GX_OK; l += GX_IVF_PANEL_ROWS) {
        int64_t m = gx_min(GX_IVF_PANEL_ROWS, lists - l);
        gx_ivf_panel p = gx_ivf_panel_at(bytes + gx_ivf_panel_bytes(l, d), m, d);
        code = gx_ivf_code(run, &C, l, m, &p.facts, codes, err);
        gx_copy_turned(1, m, d, codes, d, p.codes, m);
        for (int64_t i = 0; i < m; i++) {
            p.id[i] = l + i;
            p.round[i] = 0;
        }
    }
    gx_mem_free(run->ctx->mem, codes);
    return code;
}

/* A sample, row after row, and its centres, lists x d. */
typedef struct clusters {
    gx_run *run;
    gx_metric metric;
    int64_t n, d, lists;
    const float *rows;
    float *centre, *scale; /* scale: by what a row counts */
    double *sum;           /* of TOGETHER columns         */
    int64_t *count;        /* rows of each list           */
    int32_t *list;         /* of each row                 */
} clusters;

/* 1; COSINE: a row's direction counts. */
static void find_scales(const clusters *c)
{
    for (int64_t i = 0; i < c->n; i++) {
        const float *x = c->rows + i * c->d;
        float sum = c->metric == GX_METRIC_COSINE ? 0 : 1;
        for (int64_t j = 0; j < c->d && c->metric == GX_METRIC_COSINE; j++) {
            sum += x[j] * x[j];
        }
        float by = 1 / sqrtf(sum);
        c->scale[i] = isfinite(by) ? by : 0;
    }
}

/* Centres become the means of the first m rows; one without rows stays. */
static void move_centres(const clusters *c, int64_t m)
{
    memset(c->count, 0, (size_t)c->lists * sizeof *c->count);
    for (int64_t i = 0; i < m; i++) {
        c->count[c->list[i]]++;
    }
    for (int64_t j = 0; j < c->d; j += TOGETHER) {
        int64_t cols = gx_min(TOGETHER, c->d - j);
        memset(c->sum, 0, (size_t)(c->lists * TOGETHER) * sizeof *c->sum);
        for (int64_t i = 0; i < m; i++) {
            const float *x = c->rows + i * c->d + j;
            double *to = c->sum + (int64_t)c->list[i] * TOGETHER;
            for (int64_t k = 0; k < cols; k++) {
                to[k] += (double)(x[k] * c->scale[i]);
            }
        }
        for (int64_t l = 0; l < c->lists; l++) {
            for (int64_t k = 0; k < cols && c->count[l] > 0; k++) {
                double mean = c->sum[l * TOGETHER + k] / (double)c->count[l];
                c->centre[(j + k) * c->lists + l] = (float)mean;
            }
        }
    }
}

/* Seeds are the first rows; each pass takes more rows, the last one all. */
static gx_code find_centres(const clusters *c)
{
    gx_mat all, C;
    gx_mat_value(&all, "sample", GX_F32, c->d, c->n, c->rows, c->d);
    gx_mat_value(&C, "centres", GX_F32, c->lists, c->d, c->centre, c->lists);
    find_scales(c);
    for (int64_t j = 0; j < c->d; j++) {
        for (int64_t l = 0; l < c->lists; l++) {
            c->centre[j * c->lists + l] = c->rows[l * c->d + j] * c->scale[l];
        }
    }
    for (int64_t pass = 1; pass <= PASSES && gx_ok(c->run); pass++) {
        gx_mat part;
        int64_t m = gx_max(c->lists, c->n * pass / PASSES);
        gx_mat_view(&part, &all, GX_TRANS, 0, 0, m, c->d);
        if (gx_ivf_assign(c->run, &part, &C, c->metric, c->list) == GX_OK) {
            move_centres(c, m);
        }
    }
    return gx_ok(c->run) ? GX_OK : c->run->err.code;
}

gx_code gx_ivf_make_centres(gx_run *run, const float *rows, int64_t n, int64_t d, gx_metric metric,
                            int64_t lists, void *bytes)
{
    clusters c = {.run = run, .metric = metric, .n = n, .d = d, .lists = lists, .rows = rows};
    c.centre = gx_run_alloc(run, (size_t)(lists * d) * sizeof *c.centre, "centres");
    c.scale = gx_run_alloc(run, (size_t)n * sizeof *c.scale, "rows");
    c.sum = gx_run_alloc(run, (size_t)(lists * TOGETHER) * sizeof *c.sum, "centres");
    c.count = gx_run_alloc(run, (size_t)lists * sizeof *c.count, "centres");
    c.list = gx_run_alloc(run, (size_t)n * sizeof *c.list, "rows");
    if (gx_ok(run) && find_centres(&c) == GX_OK) {
        gx_err err = {.code = GX_OK};
        code_centres(run, c.centre, lists, d, bytes, &err);
        gx_run_fail(run, &err);
    }
    gx_mem *mem = run->ctx->mem;
    gx_mem_free(mem, c.centre);
    gx_mem_free(mem, c.scale);
    gx_mem_free(mem, c.sum);
    gx_mem_free(mem, c.count);
    gx_mem_free(mem, c.list);
    return gx_ok(run) ? GX_OK : run->err.code;
}

void gx_ivf_centre_numbers(void *bytes, int64_t lists, int64_t d, float *to)
{
    for (int64_t l = 0; l < lists; l += GX_IVF_PANEL_ROWS) {
        int64_t m = gx_min(GX_IVF_PANEL_ROWS, lists - l);
        gx_ivf_panel p = gx_ivf_panel_at((char *)bytes + gx_ivf_panel_bytes(l, d), m, d);
        for (int64_t j = 0; j < d; j++) {
            for (int64_t i = 0; i < m; i++) {
                to[j * lists + l + i] = (float)p.codes[j * m + i] * p.facts.scale[i];
            }
        }
    }
}

// Rows --------------------------------------------------------------------------------------------

/* Rows that look for the nearest of few centres. */
typedef struct assigning {
    gx_run *run;
    const gx_mat *Q, *C; /* C: in memory */
    gx_metric metric;
    const gx_backend *backend;
    gx_dev *dev;
    int32_t *list;
    atomic_bool is_odd; /* a row has squares that overflow, or vanish, or is not finite */
} assigning;

/* What a thread has for m rows: their numbers, merits and places, and what the kernel takes. */
typedef struct assign_room {
    size_t narrow, merit, square, length, index, kernel, end;
} assign_room;

static gx_args nearest_call(const assigning *x, gx_nearest *w, int64_t m)
{
    *w = (gx_nearest){.metric = x->metric, .count = 1, .self = GX_NO_SELF};
    gx_args call = {.m = x->C->rows, .n = m, .k = x->C->cols, .a = x->C->data, .lda = x->C->ld};
    call.ldb = x->C->cols;
    call.nearest = w;
    return call;
}

static assign_room room_of(const assigning *x, int64_t m)
{
    gx_nearest w;
    gx_args call = nearest_call(x, &w, m);
    size_t row = gx_whole_lines((size_t)m * sizeof(double));
    assign_room r = {.narrow = gx_whole_lines((size_t)(m * x->C->cols) * sizeof(double))};
    r.merit = r.narrow + gx_whole_lines((size_t)(m * x->C->cols) * sizeof(float));
    r.square = r.merit + row;
    r.length = r.square + row;
    r.index = r.length + row;
    r.kernel = r.index + row;
    r.end = r.kernel + x->backend->workspace(x->dev, GX_NEAREST, GX_F32, &call);
    return r;
}

/* Their squares and lengths; false: a row is odd. */
static bool take_lengths(const double *row, int64_t m, int64_t d, double *square, double *length)
{
    bool is_good = true;
    for (int64_t i = 0; i < m; i++) {
        int exponent;
        square[i] = gx_merit_square(row + i * d, d);
        length[i] = sqrt(square[i]);
        is_good = is_good && (gx_merit_is_plain(square[i]) ||
                              (square[i] == 0 && !gx_merit_unit(row + i * d, d, &exponent)));
    }
    return is_good;
}

static gx_code assign_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    assigning *x = arg;
    int64_t i0 = piece * ASSIGN_ROWS, m = gx_min(ASSIGN_ROWS, x->Q->rows - i0), d = x->Q->cols;
    assign_room r = room_of(x, m);
    int64_t info = 0;
    char *work;
    gx_mat turned;
    (void)member;
    GX_TRY(gx_mem_alloc(x->run->ctx->mem, r.end, "rows of lists", &work, err));
    double *row = (void *)work, *square = (void *)(work + r.square);
    double *length = (void *)(work + r.length);
    int64_t *index = (void *)(work + r.index);
    float *narrow = (void *)(work + r.narrow);
    gx_mat_view(&turned, x->Q, GX_TRANS, 0, i0, d, m);
    gx_code code = gx_mat_read(x->run, &turned, NULL, 0, 0, d, m, GX_F64, row, d, err);
    if (code == GX_OK && !take_lengths(row, m, d, square, length)) {
        atomic_store(&x->is_odd, true);
    } else if (code == GX_OK) {
        gx_nearest w;
        gx_args call = nearest_call(x, &w, m);
        for (int64_t e = 0; e < m * d; e++) {
            narrow[e] = (float)row[e];
        }
        w.query = row;
        w.square = square;
        w.length = length;
        w.merit = (void *)(work + r.merit);
        w.index = index;
        call.b = narrow;
        call.work = work + r.kernel;
        call.info = &info;
        code = x->backend->kernel[GX_NEAREST][GX_F32](x->dev, NULL, &call, err);
        for (int64_t i = 0; i < m && code == GX_OK; i++) {
            x->list[i0 + i] = index[i] < x->C->rows ? (int32_t)index[i] : 0;
        }
    }
    gx_mem_free(x->run->ctx->mem, work);
    return code;
}

/* Some rows after the other, by the team.  false: that is not the way. */
static bool assign_here(gx_run *run, const gx_mat *Q, const gx_mat *C, gx_metric metric,
                        int32_t *list)
{
    assigning x = {.run = run, .Q = Q, .C = C, .metric = metric, .list = list};
    double flops = 2 * (double)Q->rows * (double)C->rows * (double)C->cols;
    size_t device_bytes;
    int64_t pieces = gx_ceil_div(Q->rows, ASSIGN_ROWS);
    if (pieces < 2 || gx_place_candidate(run, flops, GX_F32, &device_bytes) != NULL ||
        gx_run_device(run, &x.backend, &x.dev) != GX_OK) {
        return false;
    }
    size_t each = room_of(&x, ASSIGN_ROWS).end;
    if ((size_t)gx_run_members(run, flops) * each > gx_mem_available(run->ctx->mem) / 2) {
        return false;
    }
    gx_run_pieces(run, flops, pieces, assign_piece, &x);
    return !atomic_load(&x.is_odd) || !gx_ok(run);
}

gx_code gx_ivf_assign(gx_run *run, const gx_mat *Q, const gx_mat *C, gx_metric metric,
                      int32_t *list)
{
    gx_neighbours found = {0};
    gx_knn_args args = {.Q = Q, .E = C, .k = 1, .last = Q->rows};
    args.metric = metric == GX_METRIC_COSINE ? GX_METRIC_COSINE : GX_METRIC_SQUARED;
    if (assign_here(run, Q, C, args.metric, list)) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    gx_code code = gx_knn_run(run, &args, &found);
    for (int64_t i = 0; i < Q->rows && code == GX_OK; i++) {
        list[i] = (int32_t)found.index[i];
    }
    gx_neighbours_clear(&found);
    return code;
}

typedef struct coding {
    gx_run *run;
    const gx_mat *Q;
    int64_t i0, m, rows; /* rows: of a piece */
    const gx_row_facts *facts;
    int8_t *codes;
} coding;

static gx_code code_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const coding *c = arg;
    int64_t i = piece * c->rows, n = gx_min(c->rows, c->m - i), d = c->Q->cols;
    size_t bytes = gx_quantize_bytes(n, d);
    const gx_row_facts of = {c->facts->scale + i, c->facts->residual + i, c->facts->norm + i};
    void *work;
    (void)member;
    GX_TRY(gx_mem_alloc(c->run->ctx->mem, bytes + (size_t)(n * d), "codes", &work, err));
    int8_t *turned = (int8_t *)work + bytes;
    gx_code code = gx_mat_read(c->run, c->Q, NULL, c->i0 + i, 0, n, d, GX_F64,
                               gx_quantize_rows_at(work, n), n, err);
    code = code == GX_OK ? gx_quantize_rows(c->Q, c->i0 + i, n, work, &of, turned, err) : code;
    if (code == GX_OK) {
        gx_copy_turned(1, d, n, turned, n, c->codes + i * d, d);
    }
    gx_mem_free(c->run->ctx->mem, work);
    return code;
}

gx_code gx_ivf_code(gx_run *run, const gx_mat *Q, int64_t i0, int64_t m, const gx_row_facts *facts,
                    int8_t *codes, gx_err *err)
{
    const double LOOKS = 8; // at each number: it is scaled, rounded, summed up and moved
    coding c = {run, Q, i0, m, gx_min(m, CODE_ROWS), facts, codes};
    int64_t pieces = m == 0 ? 0 : gx_ceil_div(m, c.rows);
    size_t each = gx_quantize_bytes(c.rows, Q->cols) + (size_t)(c.rows * Q->cols);
    double work = LOOKS * (double)m * (double)Q->cols;
    bool fits = (size_t)gx_run_members(run, work) * each <= gx_mem_available(run->ctx->mem) / 2;
    return gx_run_pieces(run, fits ? work : 0, pieces, code_piece, &c) == GX_OK
               ? GX_OK
               : gx_fail(err, run->err.code, "%s", run->err.text);
}

// Searching ---------------------------------------------------------------------------------------

/* One row beside the query. */
static gx_args merit_call(const gx_ivf_query *q, gx_nearest *w)
{
    *w = (gx_nearest){.metric = q->metric, .query = q->query, .square = &q->square, .count = 1};
    return (gx_args){.m = 1, .n = 1, .k = q->d, .lda = 1, .ldb = q->d, .nearest = w};
}

bool gx_ivf_begin(gx_run *run, gx_metric metric, const double *query, int64_t d, gx_ivf_query *out)
{
    *out = (gx_ivf_query){.metric = metric, .d = d, .query = query, .run = run};
    if (gx_run_device(run, &out->backend, &out->dev) != GX_OK) {
        return false;
    }
    gx_nearest w;
    gx_args call = merit_call(out, &w);
    size_t bytes = gx_whole_lines(out->backend->workspace(out->dev, GX_MERIT, GX_F64, &call));
    out->work = gx_run_alloc(run, bytes + (size_t)d * sizeof *out->b, "query");
    if (out->work == NULL) {
        return false;
    }
    out->b = (int16_t *)(void *)((char *)out->work + bytes);
    out->square = gx_merit_square(query, d);
    return gx_code_query(query, d, 8, d, metric, out->b, &out->code);
}

void gx_ivf_end(gx_ivf_query *q)
{
    if (q->run != NULL) {
        gx_mem_free(q->run->ctx->mem, q->work);
    }
    *q = (gx_ivf_query){.run = NULL};
}

gx_code gx_ivf_bound(const gx_ivf_query *q, const gx_ivf_panel *panel, bool is_exact, float *upper,
                     gx_err *err)
{
    int64_t m = panel->m;
    int32_t product[GX_IVF_PANEL_ROWS] = {0};
    float weight[4][GX_IVF_PANEL_ROWS];
    const gx_row_weights w = {weight[0], weight[1], weight[2], weight[3]};
    gx_args args = {.m = m, .n = 1, .k = q->d, .a = panel->codes, .lda = m, .b = q->b, .ldb = q->d};
    args.c = product;
    args.ldc = m;
    args.from = GX_DTYPE_I8;
    GX_TRY(q->backend->kernel[GX_WHOLE][GX_F32](q->dev, NULL, &args, err));
    gx_weigh_rows(&panel->facts, m, q->metric, q->code.off, is_exact, &w);
    for (int64_t i = 0; i < m; i++) {
        float v = q->code.alpha * (w.a[i] * (float)product[i]) + w.b[i];
        float most = v + (q->code.gamma * w.e[i] + w.f[i]);
        upper[i] = most < INFINITY ? most : INFINITY; // NaN is no bound
    }
    return GX_OK;
}

gx_code gx_ivf_merit(const gx_ivf_query *q, const double *row, double *merit, gx_err *err)
{
    const int64_t first = 0;
    gx_nearest w;
    gx_args args = merit_call(q, &w);
    w.merit = merit;
    w.row = w.column = &first;
    args.a = row;
    args.b = q->query;
    args.work = q->work;
    GX_TRY(q->backend->kernel[GX_MERIT][GX_F64](q->dev, NULL, &args, err));
    return !isnan(*merit) ? GX_OK
                          : gx_fail(err, GX_CORRUPT, "a row has no distance from the query");
}
