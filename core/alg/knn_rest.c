/*
** Lists that are made while those before them are handed out.
**
** When the first lists of the last batch have come down, everything else is enqueued: the call can
** come back (gx_knn_start), and its caller asks for the others as it goes on (gx_knn_more).  No
** thread waits meanwhile, and nobody but the devices works.  What that takes, buffers of the
** devices, the queries and the marks, is in a gx_knn_rest until the last list is there, or nobody
** wants it any more.
**
** The devices are one call's at a time: the next call of gx on the connection, of the statement
** itself perhaps, first waits for all lists (settle), and then finds pools and memory as after any
** search.  So there is one rest at most that flies.
**
** Devices that fail, or cannot tell, are left out as ever, and the queries whose lists are missing
** are searched for anew: among the rows of E as they are stored, if that is still the same E; the
** queries are still in memory.
*/
#include "knn_device.h"

#include <stdio.h>
#include <string.h>

typedef struct gx_knn_rest {
    gx_ctx *ctx;
    gx_knn_search s;
    gx_knn_args args;
    gx_mat Q, E;
    gx_knn_group group;
    bool is_flying; /* the group is under way                                          */
    bool is_here;   /* what is missing is for the host alone                           */
    uint64_t avoided;
    gx_err err; /* why no more lists come; GX_OK: they do, or what is missing is searched for */
} gx_knn_rest;

/* The call that goes on. */
static void bind(gx_knn_rest *rest, gx_run *run)
{
    rest->s.run = run;
    for (int k = 0; k < rest->group.parts; k++) {
        rest->group.part[k].run = run;
    }
}

static void settle(void *arg);

static void watch(gx_knn_rest *rest)
{
    rest->ctx->rest = (gx_ctx_rest){.settle = settle, .arg = rest};
}

static void unwatch(gx_knn_rest *rest)
{
    if (rest->ctx->rest.arg == rest) {
        rest->ctx->rest = (gx_ctx_rest){.arg = NULL};
    }
}

static bool leave(gx_knn_group *g)
{
    gx_knn_search *s = g->part[0].s;
    gx_run *run = s->run;
    void *memory = NULL;
    gx_err refusal = {0};
    if (gx_mem_calloc(run->ctx->mem, sizeof(gx_knn_rest), "results", &memory, &refusal) != GX_OK) {
        return false;
    }
    gx_knn_rest *rest = memory;
    rest->ctx = run->ctx;
    memcpy(&rest->s, s, sizeof *s);
    rest->args = *s->args;
    rest->Q = *s->args->Q;
    rest->E = *s->args->E;
    rest->args.Q = &rest->Q;
    rest->args.E = &rest->E;
    rest->s.args = &rest->args;
    rest->group = *g;
    for (int k = 0; k < g->parts; k++) {
        rest->group.part[k].s = &rest->s;
        rest->group.part[k].group = &rest->group;
    }
    rest->is_flying = true;
    bind(rest, run);
    watch(rest);
    s->out->rest = rest;
    s->out->ready = g->first + g->taken - s->args->first;
    run->is_irregular = true; // it ends before the search does
    return true;
}

// Under way ---------------------------------------------------------------------------------------

/* Nothing flies any more; how it has ended. */
static void land(gx_knn_rest *rest, gx_code code, gx_err *err)
{
    gx_run *run = rest->s.run;
    gx_knn_group *g = &rest->group;
    code = gx_knn_finish(g, code, err);
    rest->is_flying = false;
    if (code == GX_OK || !gx_ok(run)) {
        gx_stats_add(&run->ctx->stats, GX_STAT_DEVICE_CALLS, 1);
        gx_stats_add(&run->ctx->stats, GX_STAT_SPREAD_CALLS, g->parts > 1);
        gx_knn_unload(&rest->s);
    } else {
        rest->is_here = !gx_knn_goes_on(g, err, &rest->avoided);
    }
    if (!gx_ok(run)) {
        rest->err = run->err;
    }
}

/* The next lists; the last ones end it. */
static void take(gx_knn_rest *rest)
{
    gx_knn_search *s = &rest->s;
    gx_knn_group *g = &rest->group;
    gx_neighbours *out = s->out;
    gx_err err = {0};
    gx_code code = gx_knn_take(g, &err);
    int64_t ready = g->first + g->taken - s->args->first;
    if (code == GX_OK && gx_knn_is_marked(s)) { // by this group's kernels alone
        code = gx_fail(&err, GX_UNSUPPORTED, "rows of %s are no plain numbers: the host looks",
                       s->args->E->label);
    }
    if (code == GX_OK) {
        gx_knn_check_lists(s, out->ready, ready);
    }
    if (code != GX_OK || !gx_ok(s->run) || g->taken == g->count) {
        land(rest, code, &err);
        code = err.code;
    }
    if (code == GX_OK && gx_ok(s->run)) {
        out->ready = ready;
    }
}

/* Another call begins. */
static void settle(void *arg)
{
    gx_knn_rest *rest = arg;
    gx_run run;
    gx_run_resume(&run, rest->ctx, "gx_knn");
    bind(rest, &run);
    unwatch(rest);
    while (rest->is_flying) {
        take(rest);
    }
    gx_run_end(&run);
}

// Anew --------------------------------------------------------------------------------------------

/* Elements of Q, out of the batch that has been read. */
static void query_of(const void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n, gx_dtype dtype,
                     void *dst, int64_t ld)
{
    const gx_knn_rest *rest = arg;
    const gx_knn_batch *b = &rest->s.batch;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            const double *x = b->query + (i0 + i - b->first) * rest->E.cols + j0 + j;
            gx_convert(GX_F64, x, 1, dtype, gx_at(dst, dtype, ld, i, j), ld, 1, 1);
        }
    }
}

/* E, as it was when the search began. */
static bool find_rows(gx_run *run, const gx_mat *was, gx_mat *E)
{
    char name[2 * GX_NAME_MAX + 2];
    gx_meta meta;
    gx_err err = {0};
    bool is_found = false;
    snprintf(name, sizeof name, "%s.%s", was->meta.schema, was->meta.name);
    gx_store_lookup(run->ctx->store, name, &meta, &is_found, &err);
    if (gx_run_fail(run, &err) != GX_OK) {
        return false;
    }
    if (!is_found || meta.id != was->meta.id || meta.generation != was->meta.generation) {
        gx_run_failf(run, GX_ARG, "a device has failed, and %s has changed since the search began",
                     was->label);
        return false;
    }
    gx_mat_stored(E, &meta);
    return true;
}

/* A call of its own: it reads. */
static void search_again(gx_knn_rest *rest)
{
    gx_neighbours *out = rest->s.out;
    gx_knn_args args = rest->args;
    gx_mat Q, E;
    gx_run run;
    gx_neighbours left = {.mem = out->mem,
                          .queries = out->queries - out->ready,
                          .count = out->count,
                          .merit = out->merit + out->ready * out->count,
                          .index = out->index + out->ready * out->count};
    gx_mat_generated(&Q, rest->Q.label, GX_F64, rest->Q.rows, rest->Q.cols, query_of, rest);
    args.first += out->ready;
    args.Q = &Q;
    args.E = &E;
    gx_run_begin(&run, rest->ctx, "gx_knn");
    if (find_rows(&run, &rest->E, &E)) {
        gx_knn_way way = {.is_here = rest->is_here, .avoided = rest->avoided};
        gx_knn_fill(&run, &args, &way, &left);
    }
    if (gx_run_end(&run) == GX_OK) {
        out->ready = out->queries;
    }
    rest->err = run.err;
}

// The whole ---------------------------------------------------------------------------------------

/* Nothing is under way any more. */
static void drop(gx_neighbours *out)
{
    gx_knn_rest *rest = out->rest;
    gx_run run;
    gx_err err = {0};
    if (rest == NULL) {
        return;
    }
    gx_run_resume(&run, rest->ctx, "gx_knn");
    bind(rest, &run);
    unwatch(rest);
    if (rest->is_flying) {
        land(rest, GX_OK, &err);
    }
    gx_knn_unload(&rest->s);
    gx_run_end(&run);
    gx_mem_free(out->mem, rest);
    out->rest = NULL;
}

gx_code gx_knn_start(gx_run *run, const gx_knn_args *args, gx_neighbours *out)
{
    return gx_knn_search_all(run, args, &(gx_knn_way){.leave = leave}, out);
}

gx_code gx_knn_more(gx_run *run, gx_neighbours *out)
{
    gx_knn_rest *rest = out->rest;
    if (rest == NULL || !gx_ok(run)) {
        return run->err.code;
    }
    bind(rest, run);
    unwatch(rest);
    if (rest->is_flying) {
        take(rest);
    }
    if (!rest->is_flying && rest->err.code == GX_OK && out->ready < out->queries) {
        search_again(rest);
    }
    if (rest->is_flying) {
        watch(rest);
    } else if (gx_run_fail(run, &rest->err) == GX_OK) {
        drop(out);
    }
    return run->err.code;
}

void gx_neighbours_clear(gx_neighbours *out)
{
    drop(out);
    if (out->mem != NULL) {
        gx_mem_free(out->mem, out->merit);
        gx_mem_free(out->mem, out->index);
    }
    *out = (gx_neighbours){0};
}
