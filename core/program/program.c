/*
** Programs: prepared, kept, run.  See program.h.
**
** The connection keeps the latest programs with what they were compiled for: the shape, dtype and
** properties of each operand, and the numbers of arguments that decide shapes.  A call with the
** same text looks its operands up again, which also pins them, and takes the graph when all is as
** it was; the tree is kept even where it is not.
**
** Stored results are begun before anything is computed, so that what would refuse them does so
** first, written when all is there, and published together: the first begun is the last ended.
*/
#include "program.h"

#include "../alg/dense.h"
#include "../device/fleet.h"
#include "../exec/place.h"
#include "../mat/composite.h"
#include "../mat/kept.h"
#include "../store/aux_data.h"
#include "compile.h"
#include "device_memory.h"
#include "execute.h"
#include "prepared.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PROGRAMS_KEPT = 32 };

static void program_free(gx_program *p)
{
    gx_graph_free(p->graph);
    gx_syntax_free(p->syntax);
    gx_mem_free(NULL, p);
}

static void programs_free(void *all)
{
    for (gx_program *p = all, *next; p != NULL; p = next) {
        next = p->next;
        program_free(p);
    }
}

/* The program of that text, moved to the front; NULL. */
static gx_program *find_kept(gx_ctx *ctx, const char *text, size_t bytes, bool is_plain)
{
    gx_program **link = (gx_program **)&ctx->programs;
    for (gx_program *p = *link; p != NULL; link = &p->next, p = p->next) {
        if (p->syntax->bytes == bytes && p->is_plain == is_plain && p->users == 0 &&
            memcmp(p->syntax->source, text, bytes) == 0) {
            *link = p->next;
            p->next = ctx->programs;
            ctx->programs = p;
            return p;
        }
    }
    return NULL;
}

/* No more than PROGRAMS_KEPT that nobody runs. */
static void drop_oldest(gx_ctx *ctx)
{
    int count = 0;
    gx_program **link = (gx_program **)&ctx->programs;
    while (*link != NULL) {
        gx_program *p = *link;
        if (++count > PROGRAMS_KEPT && p->users == 0) {
            *link = p->next;
            program_free(p);
        } else {
            link = &p->next;
        }
    }
}

static gx_program *parse_new(gx_run *run, const char *text, size_t bytes, bool is_plain)
{
    gx_ctx *ctx = run->ctx;
    gx_err err = {0};
    void *memory;
    if (gx_mem_calloc(NULL, sizeof(gx_program), "a program", &memory, &err) != GX_OK) {
        gx_run_fail(run, &err);
        return NULL;
    }
    gx_program *p = memory;
    p->is_plain = is_plain;
    if (gx_syntax_parse(NULL, text, bytes, &p->syntax, &err) != GX_OK) {
        gx_mem_free(NULL, p);
        gx_run_fail(run, &err);
        return NULL;
    }
    p->next = ctx->programs;
    ctx->programs = p;
    ctx->programs_free = programs_free;
    drop_oldest(ctx);
    return p;
}

// Operands ----------------------------------------------------------------------------------------

static gx_type type_of(const gx_program_arg *arg)
{
    return (gx_type){.rows = arg->mat.rows,
                     .cols = arg->mat.cols,
                     .dtype = arg->mat.number,
                     .properties = arg->mat.properties,
                     .is_weak = arg->is_number};
}

/* Operand k as a source; false: failed. */
static bool operand_mat(gx_run *run, const gx_operand *operand, const gx_program_arg *args,
                        gx_mat *out)
{
    gx_meta meta;
    gx_err err = {0};
    if (operand->name == NULL) {
        *out = args[operand->argument].mat;
        return true;
    }
    gx_ctx *ctx = run->ctx;
    if (gx_store_find_source(ctx->store, operand->name, &meta, &err) != GX_OK ||
        gx_mat_open(ctx->store, ctx->mem, &meta, out, &err) != GX_OK) {
        gx_run_fail(run, &err);
        return false;
    }
    gx_mat_keep(ctx, out);
    return true;
}

static bool same_type(const gx_type *a, const gx_type *b)
{
    return a->rows == b->rows && a->cols == b->cols && a->dtype == b->dtype &&
           a->properties == b->properties && a->is_weak == b->is_weak;
}

/* Is the graph for operands as they are now?  Nothing fails: what has gone is missed later. */
static bool still_fits(gx_run *run, const gx_graph *g, const gx_program_arg *args, int count)
{
    for (int k = 0; k < g->operands; k++) {
        const gx_operand *o = &g->operand[k];
        gx_type now;
        if (o->name == NULL) {
            if (o->argument >= count) {
                return false;
            }
            now = type_of(&args[o->argument]);
            if (o->is_pinned && gx_bits_of(args[o->argument].number) != gx_bits_of(o->number)) {
                return false;
            }
        } else {
            gx_meta meta;
            gx_err err = {0};
            bool found = false;
            if (gx_store_lookup(run->ctx->store, o->name, &meta, &found, &err) != GX_OK || !found ||
                gx_meta_is_made(&meta)) { // whose parts may be others now
                return false;
            }
            now = (gx_type){meta.rows, meta.cols, gx_meta_number(&meta), meta.properties, false};
            now.properties |= meta.is_sparse ? GX_TYPE_SPARSE : 0;
        }
        if (!same_type(&now, &o->type)) {
            return false;
        }
    }
    return true;
}

static void compile_again(gx_run *run, gx_program *p, const gx_program_arg *args, int count)
{
    gx_given given[GX_ARGUMENT_MAX];
    gx_err err = {0};
    for (int k = 0; k < count; k++) {
        given[k] = (gx_given){.type = type_of(&args[k]), .number = args[k].number};
    }
    gx_graph_free(p->graph);
    if (gx_compile(run, p->syntax, given, count, p->is_plain, &p->graph, &err) != GX_OK) {
        gx_run_fail(run, &err);
        return;
    }
    gx_graph *g = p->graph;
    gx_graph_count(g);
    if (!g->is_plain) {
        gx_graph_fuse(g);
    }
    gx_graph_finish(g);
    if (!gx_graph_ok(g)) {
        gx_run_fail(run, &g->err);
        gx_graph_free(g);
        p->graph = NULL;
    }
}

gx_code gx_program_prepare(gx_run *run, const char *text, size_t bytes, const gx_program_arg *args,
                           int count, bool is_plain, gx_program **out)
{
    *out = NULL;
    if (!gx_ok(run)) {
        return run->err.code;
    }
    if (count > GX_ARGUMENT_MAX) {
        return gx_run_failf(run, GX_ARG, "takes at most %d arguments after the text, not %d",
                            GX_ARGUMENT_MAX, count);
    }
    gx_program *p = find_kept(run->ctx, text, bytes, is_plain);
    p = p != NULL ? p : parse_new(run, text, bytes, is_plain);
    if (p == NULL) {
        return run->err.code;
    }
    if (p->syntax->arguments < count) {
        char most[32] = "no ?1";
        if (p->syntax->arguments > 0) {
            snprintf(most, sizeof most, "?%d at most", p->syntax->arguments);
        }
        return gx_run_failf(run, GX_ARG, "%d argument%s came after the text, which names %s", count,
                            count == 1 ? "" : "s", most);
    }
    if (p->graph == NULL || !still_fits(run, p->graph, args, count)) {
        compile_again(run, p, args, count);
    }
    *out = gx_ok(run) ? p : NULL;
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Running -----------------------------------------------------------------------------------------

/* All destinations, before anything is computed; how many are begun. */
static int begin_outputs(gx_run *run, const gx_graph *g, const gx_program_how *how, gx_sink *sinks)
{
    int begun = 0, wanted = g->outputs + (how->name != NULL);
    for (; begun < wanted && gx_ok(run); begun++) {
        bool is_value = begun == g->outputs;
        const gx_type *t = &g->node[is_value ? g->result : g->output[begun].node].type;
        gx_dest dest = {.name = is_value ? how->name : g->output[begun].name,
                        .replace = how->replace};
        if (is_value ? g->result_is_truth : g->output[begun].is_truth) {
            gx_dest_takes_truth(&dest);
        }
        gx_sink_begin(run, &dest, t->rows, t->cols, t->dtype, t->properties, 0, 0, &sinks[begun]);
    }
    return begun;
}

static void write_value(gx_exec *x, gx_ref ref, gx_sink *sink)
{
    gx_mat space;
    gx_val *val = x->val[ref];
    if (!gx_ok(x->run) || val->is_delivered) {
        return;
    }
    if (gx_val_is_there(val) && gx_val_data(x, val) == NULL) {
        return;
    }
    if (val->data != NULL) {
        gx_dense_write(x->run, sink, val->data, gx_max(1, val->type.rows));
    } else {
        gx_copy_to_sink(x->run, gx_val_mat(x, val, "an intermediate", &space), sink);
    }
}

/* A value is too large before it is computed. */
static bool refuse_size(gx_run *run, const gx_type *t)
{
    size_t bytes = 0;
    gx_sink sink;
    int64_t limit = gx_store_length_limit(run->ctx->store);
    gx_matrix_bytes(t->rows, t->cols, t->dtype, &bytes);
    if (bytes + GX_VALUE_HEADER > (size_t)limit) {
        gx_sink_begin(run, NULL, t->rows, t->cols, t->dtype, 0, 0, 0, &sink); // says it in words
        gx_sink_end(&sink);
    }
    return !gx_ok(run);
}

static void put_result(gx_exec *x, const gx_graph *g, const gx_program_how *how,
                       gx_program_result *result)
{
    gx_run *run = x->run;
    if (g->result == GX_NO_NODE) {
        result->kind = GX_GIVES_NAME;
        result->name = g->output[g->outputs - 1].name;
        return;
    }
    const gx_type *t = &g->node[g->result].type;
    if (t->rows == 1 && t->cols == 1 && !gx_number_is_complex(t->dtype) && !how->is_matrix) {
        const void *data = gx_val_data(x, x->val[g->result]);
        result->kind = GX_GIVES_NUMBER;
        if (data != NULL) {
            gx_convert(t->dtype, data, 1, GX_F64, &result->number, 1, 1, 1);
        }
        return;
    }
    result->kind = GX_GIVES_MATRIX;
    const gx_val *val = x->val[g->result];
    if (!val->is_delivered) {
        gx_sink_begin(run, NULL, t->rows, t->cols, t->dtype, 0, 0, 0, &result->sink);
    }
    if (gx_ok(run) && gx_val_is_there(val)) { // straight to its place
        gx_device_val_fetch(x, val, result->sink.value.data, gx_max(1, t->rows));
    } else {
        write_value(x, g->result, &result->sink);
    }
    gx_sink_end(&result->sink);
}

static void count_steps(gx_run *run, const gx_exec *x)
{
    gx_stats *stats = &run->ctx->stats;
    gx_stats_add(stats, GX_STAT_NODES, x->steps);
    gx_stats_add(stats, GX_STAT_FUSED_GROUPS, x->fused);
    gx_stats_add(stats, GX_STAT_GPU_OPS, x->gpu_ops);
    gx_stats_add(stats, GX_STAT_CPU_OPS, x->cpu_ops);
    gx_stats_add(stats, GX_STAT_TRANSFERS, x->transfers);
    gx_stats_add(stats, GX_STAT_DEVICE_CALLS, x->on->call.accel != NULL);
    gx_stats_add(stats, GX_STAT_SPREAD_CALLS, x->lanes > 1);
}

/* What an attempt may use: devices at all, and those whose ordinals' bits are not in avoided. */
typedef struct attempt {
    bool may_leave;
    uint64_t avoided;
} attempt;

/* The program has failed on a device: may it go on elsewhere than on the host? */
static bool goes_on(gx_exec *x, attempt *next)
{
    gx_devcalls calls = {.count = x->lanes, .culprit = x->culprit};
    for (int k = 0; k < x->lanes; k++) {
        calls.on[k] = &x->lane[k].call;
    }
    return !x->is_refused && (x->is_spoilt || gx_devcalls_go_on(&calls, &x->fault, &next->avoided));
}

/*
** All nodes, and then the results.  false: a device has failed, and nothing was written: it is to
** be done again, as *next says.
*/
static bool run_once(gx_run *run, const gx_graph *g, gx_mat *operand, gx_sink *sinks,
                     const gx_program_how *how, attempt *next, gx_program_result *result)
{
    gx_exec x = {.avoided = next->avoided};
    x.stores = sinks;
    x.stores_value = how->name != NULL;
    x.value = &result->sink;
    gx_exec_begin(&x, run, g, operand, how->rounds_most, next->may_leave);
    for (int k = 0; k < g->outputs && gx_ok(run); k++) { // all there, before one is written
        gx_val *val = x.val[g->output[k].node];
        if (gx_val_is_there(val)) {
            gx_val_data(&x, val);
        }
    }
    if (gx_ok(run) && how->name != NULL) {
        write_value(&x, g->result, &sinks[g->outputs]);
        result->kind = GX_GIVES_NAME;
        result->name = how->name;
    } else if (gx_ok(run)) {
        put_result(&x, g, how, result);
    }
    for (int k = 0; k < g->outputs && gx_ok(run); k++) {
        write_value(&x, g->output[k].node, &sinks[k]);
    }
    gx_exec_end(&x);
    count_steps(run, &x);
    if (x.fault.code == GX_OK || !gx_run_forgive(run, GX_DEVICE)) {
        return true;
    }
    gx_value_buf_free(run->ctx->mem, &result->sink.value);
    gx_place_restart(run);
    next->may_leave = goes_on(&x, next);
    return false;
}

static void run_graph(gx_run *run, const gx_graph *g, gx_mat *operand, gx_sink *sinks,
                      const gx_program_how *how, gx_program_result *result)
{
    int begun = begin_outputs(run, g, how, sinks);
    gx_stats_add(&run->ctx->stats, GX_STAT_PROGRAMS, 1);
    attempt next = {.may_leave = true};
    while (gx_ok(run) && !run_once(run, g, operand, sinks, how, &next, result)) {
    }
    while (begun > 0) {
        gx_sink_end(&sinks[--begun]);
    }
    if (!gx_ok(run)) {
        gx_value_buf_free(run->ctx->mem, &result->sink.value);
    }
}

gx_code gx_program_run(gx_run *run, gx_program *program, const gx_program_arg *args,
                       const gx_program_how *how, gx_program_result *result)
{
    gx_graph *g = program->graph;
    memset(result, 0, sizeof *result);
    if (!gx_ok(run)) {
        return run->err.code;
    }
    if (g->result != GX_NO_NODE && how->name == NULL &&
        refuse_size(run, &g->node[g->result].type)) {
        return run->err.code;
    }
    bool has_sinks = g->outputs > 0 || how->name != NULL;
    gx_mat *operand = gx_run_calloc(run, (size_t)(g->operands + 1) * sizeof *operand, "operands");
    gx_sink *sinks =
        has_sinks ? gx_run_alloc(run, (size_t)(g->outputs + 1) * sizeof *sinks, "results") : NULL;
    for (int k = 0; k < g->operands && gx_ok(run); k++) {
        operand_mat(run, &g->operand[k], args, &operand[k]);
    }
    program->users++;
    if (gx_ok(run)) {
        run_graph(run, g, operand, sinks, how, result);
    }
    program->users--;
    for (int k = 0; k < g->operands && operand != NULL; k++) {
        if (g->operand[k].name != NULL) {
            gx_mat_clear(&operand[k], run->ctx->mem);
        }
    }
    gx_mem_free(run->ctx->mem, sinks);
    gx_mem_free(run->ctx->mem, operand);
    return gx_ok(run) ? GX_OK : run->err.code;
}
