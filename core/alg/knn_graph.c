/*
** The graph of nearest neighbours: see knn.h.
**
** Lists are sorted by index, and a row of the matrix is its list.  Where edges go both ways, a
** row's list is merged with the rows in whose lists it is: the lists turned round, which are sorted
** because rows are gone through in their order.  A merit is the same to the bit from either side
** (nearest.h), so the matrix is symmetric.
*/
#include "knn.h"

typedef struct graph {
    gx_run *run;
    gx_neighbours *found;
    gx_knn_edges edges;
    int64_t *start; /* of the lists turned round: queries + 1 */
    int64_t *other; /* ... who has this row in its list       */
    double *merit;
} graph;

// Lists -------------------------------------------------------------------------------------------

static void sift(int64_t *index, double *merit, int64_t at, int64_t count)
{
    int64_t x = index[at];
    double x_merit = merit[at];
    for (int64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count && index[child] < index[child + 1];
        if (x >= index[child]) {
            break;
        }
        index[at] = index[child];
        merit[at] = merit[child];
        at = child;
    }
    index[at] = x;
    merit[at] = x_merit;
}

static void sort_list(int64_t *index, double *merit, int64_t count)
{
    for (int64_t at = count / 2; at-- > 0;) {
        sift(index, merit, at, count);
    }
    for (int64_t last = count - 1; last > 0; last--) {
        int64_t x = index[last];
        double x_merit = merit[last];
        index[last] = index[0];
        merit[last] = merit[0];
        index[0] = x;
        merit[0] = x_merit;
        sift(index, merit, 0, last);
    }
}

/* Entries of list i; those that are missing come last. */
static int64_t length_of(const gx_neighbours *f, int64_t i)
{
    int64_t count = f->count;
    while (count > 0 && f->index[i * f->count + count - 1] == INT64_MAX) {
        count--;
    }
    return count;
}

static gx_code turn_round(graph *g)
{
    const gx_neighbours *f = g->found;
    size_t entries = (size_t)(f->queries * f->count);
    g->start = gx_run_calloc(g->run, (size_t)(f->queries + 2) * sizeof(int64_t), "results");
    g->other = gx_run_alloc(g->run, entries * sizeof(int64_t), "results");
    g->merit = gx_run_alloc(g->run, entries * sizeof(double), "results");
    if (!gx_ok(g->run)) {
        return g->run->err.code;
    }
    int64_t *at = g->start + 1; // where row j's next one goes; its end when all are there
    for (int64_t i = 0; i < f->queries; i++) {
        for (int64_t e = 0; e < length_of(f, i); e++) {
            at[f->index[i * f->count + e] + 1]++;
        }
    }
    for (int64_t j = 0; j < f->queries; j++) {
        at[j + 1] += at[j];
    }
    for (int64_t i = 0; i < f->queries; i++) {
        for (int64_t e = 0; e < length_of(f, i); e++) {
            int64_t to = at[f->index[i * f->count + e]]++;
            g->other[to] = i;
            g->merit[to] = f->merit[i * f->count + e];
        }
    }
    return GX_OK;
}

// Rows --------------------------------------------------------------------------------------------

/* Row i: its list and, where edges go both ways, those that have it in theirs. */
static gx_code put_row(const graph *g, int64_t i, gx_sparse_out *out, gx_err *err)
{
    const gx_neighbours *f = g->found;
    const int64_t *own = f->index + i * f->count, *other = g->other;
    int64_t e = 0, end = length_of(f, i);
    int64_t o = g->start == NULL ? 0 : g->start[i], o_end = g->start == NULL ? 0 : g->start[i + 1];
    while (e < end || o < o_end) {
        int64_t mine = e < end ? own[e] : INT64_MAX, theirs = o < o_end ? other[o] : INT64_MAX;
        bool is_both = mine == theirs;
        double merit = mine <= theirs ? f->merit[i * f->count + e] : g->merit[o];
        if (g->edges != GX_KNN_MUTUAL || is_both) {
            GX_TRY(gx_sparse_put(out, i, gx_min(mine, theirs), (gx_scalar){merit, 0}, err));
        }
        e += mine <= theirs;
        o += is_both || theirs < mine;
    }
    return GX_OK;
}

static gx_code put_rows(const graph *g, gx_sparse_out *out, gx_err *err)
{
    enum { POLL_ROWS = 4096 };
    for (int64_t i = 0; i < g->found->queries; i++) {
        GX_TRY(put_row(g, i, out, err));
        if (i % POLL_ROWS == 0 && gx_run_poll(g->run) != GX_OK) {
            return gx_fail(err, g->run->err.code, "%s", g->run->err.text);
        }
    }
    return GX_OK;
}

gx_code gx_knn_graph_store(gx_run *run, gx_neighbours *found, gx_knn_edges edges,
                           const gx_dest *dest, gx_number dtype, gx_sink *sink)
{
    graph g = {.run = run, .found = found, .edges = edges};
    gx_sparse_out out;
    gx_err err = {0};
    int64_t n = found->queries;
    uint32_t properties = edges == GX_KNN_AS_FOUND ? 0 : GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN;
    *sink = (gx_sink){.run = run};
    for (int64_t i = 0; i < n && gx_ok(run); i++) {
        int64_t count = length_of(found, i);
        sort_list(found->index + i * found->count, found->merit + i * found->count, count);
    }
    if (gx_ok(run) && (edges == GX_KNN_AS_FOUND || turn_round(&g) == GX_OK)) {
        if (gx_sparse_out_begin(run, dest, n, n, dtype, properties, sink, &out) == GX_OK &&
            put_rows(&g, &out, &err) == GX_OK) {
            gx_sparse_out_end(&out);
        }
        gx_sparse_out_clear(&out);
    }
    gx_run_fail(run, &err);
    gx_mem_free(run->ctx->mem, g.start);
    gx_mem_free(run->ctx->mem, g.other);
    gx_mem_free(run->ctx->mem, g.merit);
    return gx_ok(run) ? GX_OK : run->err.code;
}
