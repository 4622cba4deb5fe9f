/*
** Inverted lists: see ivf.h.
*/
#include "ivf.h"

#include "knn.h"
#include "quantize.h"

#include "../run/call.h"

#include <math.h>
#include <string.h>

/* Of k-means: more change little, and what an index is for is never exact. */
enum { PASSES = 4 };

/* Rows that become codes at once. */
enum { CODE_ROWS = 256 };

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
        for (int64_t i = 0; i < m && code == GX_OK; i++) {
            p.id[i] = l + i;
            p.round[i] = 0;
            for (int64_t j = 0; j < d; j++) {
                p.codes[j * m + i] = codes[i * d + j];
            }
        }
    }
    gx_mem_free(run->ctx->mem, codes);
    return code;
}

/* A sample, n x d by columns, and its centres, lists x d. */
typedef struct clusters {
    gx_run *run;
    gx_metric metric;
    int64_t n, d, lists;
    const float *rows;
    float *centre, *scale; /* scale: by what a row counts */
    double *sum;           /* of one column               */
    int64_t *count;        /* rows of each list           */
    int32_t *list;         /* of each row                 */
} clusters;

/* 1; COSINE: a row's direction counts. */
static void find_scales(const clusters *c)
{
    for (int64_t i = 0; i < c->n; i++) {
        c->scale[i] = c->metric == GX_METRIC_COSINE ? 0 : 1;
    }
    for (int64_t j = 0; j < c->d && c->metric == GX_METRIC_COSINE; j++) {
        for (int64_t i = 0; i < c->n; i++) {
            c->scale[i] += c->rows[j * c->n + i] * c->rows[j * c->n + i];
        }
    }
    for (int64_t i = 0; i < c->n && c->metric == GX_METRIC_COSINE; i++) {
        float by = 1 / sqrtf(c->scale[i]);
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
    for (int64_t j = 0; j < c->d; j++) {
        const float *x = c->rows + j * c->n;
        memset(c->sum, 0, (size_t)c->lists * sizeof *c->sum);
        for (int64_t i = 0; i < m; i++) {
            c->sum[c->list[i]] += (double)(x[i] * c->scale[i]);
        }
        for (int64_t l = 0; l < c->lists; l++) {
            if (c->count[l] > 0) {
                c->centre[j * c->lists + l] = (float)(c->sum[l] / (double)c->count[l]);
            }
        }
    }
}

/* Seeds are the first rows; each pass takes more rows, the last one all. */
static gx_code find_centres(const clusters *c)
{
    gx_mat all, C;
    gx_mat_value(&all, "sample", GX_F32, c->n, c->d, c->rows, c->n);
    gx_mat_value(&C, "centres", GX_F32, c->lists, c->d, c->centre, c->lists);
    find_scales(c);
    for (int64_t j = 0; j < c->d; j++) {
        for (int64_t l = 0; l < c->lists; l++) {
            c->centre[j * c->lists + l] = c->rows[j * c->n + l] * c->scale[l];
        }
    }
    for (int64_t pass = 1; pass <= PASSES && gx_ok(c->run); pass++) {
        gx_mat part;
        int64_t m = gx_max(c->lists, c->n * pass / PASSES);
        gx_mat_view(&part, &all, GX_NO_TRANS, 0, 0, m, c->d);
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
    c.sum = gx_run_alloc(run, (size_t)lists * sizeof *c.sum, "centres");
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

gx_code gx_ivf_assign(gx_run *run, const gx_mat *Q, const gx_mat *C, gx_metric metric,
                      int32_t *list)
{
    gx_neighbours found = {0};
    gx_knn_args args = {.Q = Q, .E = C, .k = 1, .last = Q->rows};
    args.metric = metric == GX_METRIC_COSINE ? GX_METRIC_COSINE : GX_METRIC_SQUARED;
    gx_code code = gx_knn_run(run, &args, &found);
    for (int64_t i = 0; i < Q->rows && code == GX_OK; i++) {
        list[i] = (int32_t)found.index[i];
    }
    gx_neighbours_clear(&found);
    return code;
}

gx_code gx_ivf_code(gx_run *run, const gx_mat *Q, int64_t i0, int64_t m, const gx_row_facts *facts,
                    int8_t *codes, gx_err *err)
{
    int64_t d = Q->cols, most = gx_min(m, CODE_ROWS);
    void *work;
    size_t bytes = gx_quantize_bytes(most, d);
    GX_TRY(gx_mem_alloc(run->ctx->mem, bytes + (size_t)(most * d), "codes", &work, err));
    int8_t *turned = (int8_t *)work + bytes;
    gx_code code = GX_OK;
    for (int64_t i = 0; i < m && code == GX_OK; i += most) {
        int64_t n = gx_min(most, m - i);
        const gx_row_facts of = {facts->scale + i, facts->residual + i, facts->norm + i};
        code = gx_mat_read(run, Q, NULL, i0 + i, 0, n, d, GX_F64, gx_quantize_rows_at(work, n), n,
                           err);
        code = code == GX_OK ? gx_quantize_rows(Q, i0 + i, n, work, &of, turned, err) : code;
        for (int64_t j = 0; j < d && code == GX_OK; j++) {
            for (int64_t r = 0; r < n; r++) {
                codes[(i + r) * d + j] = turned[j * n + r];
            }
        }
    }
    gx_mem_free(run->ctx->mem, work);
    return code;
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
