/*
** Values of a running program: see values.h.
**
** Small matrices lie in the value itself, and values are kept for the next ones, so that a node on
** small matrices allocates nothing.
*/
#include "values.h"

#include "../alg/dense.h"
#include "device_memory.h"

#include <assert.h>
#include <string.h>

gx_val *gx_val_of(gx_exec *x, const gx_type *type)
{
    gx_val *val = x->spare;
    if (!gx_ok(x->run)) {
        return NULL;
    }
    if (val != NULL) {
        x->spare = val->next;
    } else {
        val = gx_run_alloc(x->run, sizeof *val, "a program's value");
        if (val == NULL) {
            return NULL;
        }
    }
    val->refs = 1;
    val->type = *type;
    val->data = val->owned = NULL;
    val->sink = NULL;
    val->mat = val->source = NULL;
    val->holds = 0;
    val->i0 = val->j0 = 0;
    val->device = NULL;
    val->lane = 0;
    val->key.file = 0;
    val->product = NULL;
    val->is_delivered = false;
    return val;
}

void gx_val_release(gx_exec *x, gx_val *val)
{
    gx_mem *mem = x->run->ctx->mem;
    if (val == NULL || --val->refs > 0) {
        return;
    }
    if (val->sink != NULL) {
        gx_sink_drop(val->sink);
        gx_mem_free(mem, val->sink);
    }
    gx_mem_free(mem, val->owned);
    for (int k = 0; k < val->holds; k++) {
        gx_val_release(x, val->held[k]);
    }
    gx_mem_free(mem, val->source);
    gx_device_val_give(x, val);
    for (int k = 0; k < 2 && val->product != NULL; k++) {
        gx_val_release(x, val->factor[k]);
    }
    val->next = x->spare;
    x->spare = val;
}

void gx_spares_free(gx_exec *x)
{
    while (x->spare != NULL) {
        gx_val *val = x->spare;
        x->spare = val->next;
        gx_mem_free(x->run->ctx->mem, val);
    }
}

void gx_val_put(gx_exec *x, gx_ref ref, gx_val *val)
{
    gx_val *before = x->val[ref];
    x->val[ref] = val;
    gx_val_release(x, before);
}

// Elements ----------------------------------------------------------------------------------------

/* Memory for a value's elements; false: failed. */
static bool give_memory(gx_exec *x, gx_val *val)
{
    size_t bytes = 0;
    gx_matrix_bytes(val->type.rows, val->type.cols, val->type.dtype, &bytes);
    if (bytes <= GX_SMALL_BYTES) {
        val->data = val->small;
        return true;
    }
    val->data = val->owned = gx_run_alloc(x->run, bytes, "an intermediate matrix");
    return val->data != NULL;
}

bool gx_is_deterministic(const gx_exec *x)
{
    return x->run->ctx->config.number[GX_SET_DETERMINISTIC] != 0;
}

gx_reader *gx_source_reader(gx_exec *x, const gx_mat *A)
{
    gx_reader *reader = NULL;
    gx_err err = {.code = GX_OK};
    if (gx_ok(x->run) && gx_mat_base_stored(A) != NULL) {
        gx_reader_own(x->run->ctx->store, &reader, &err);
        gx_run_fail(x->run, &err);
    }
    return reader;
}

const gx_mat *gx_val_mat(gx_exec *x, gx_val *val, const char *label, gx_mat *space)
{
    if (gx_val_is_there(val) && val->mat == NULL) {
        gx_val_data(x, val); // a driver on the host, or one that sends it there again
    }
    if (val->mat != NULL && gx_is_deterministic(x)) {
        return val->mat; // folded by its own tiles, whether it is in memory or not
    }
    if (val->data != NULL) {
        gx_mat_value(space, label, val->type.dtype, val->type.rows, val->type.cols, val->data,
                     gx_max(1, val->type.rows));
        space->properties = val->type.properties;
        return space;
    }
    if (val->sink != NULL) {
        gx_sink_source(val->sink, label, space);
        space->properties = val->type.properties;
        return space;
    }
    return val->mat;
}

const void *gx_val_data(gx_exec *x, gx_val *val)
{
    if (val == NULL || !gx_ok(x->run)) {
        return NULL;
    }
    assert(!gx_is_sparse(&val->type)); // nothing becomes dense that was not asked for
    if (gx_val_is_there(val)) {
        if (give_memory(x, val)) {
            gx_device_val_fetch(x, val, val->data, gx_max(1, val->type.rows));
        }
    } else if (val->data == NULL) {
        gx_mat space;
        const gx_mat *mat = gx_val_mat(x, val, "an intermediate", &space);
        if (mat->kind == GX_MAT_VALUE && mat->number == val->type.dtype &&
            (mat->ld == mat->rows || mat->cols <= 1 || (mat->rows == 0 && mat->ld == 1))) {
            val->data = (void *)(uintptr_t)mat->data; // an argument's own elements: never written
        } else if (give_memory(x, val)) {
            gx_dense_load(x->run, mat, val->type.dtype, val->data, gx_max(1, val->type.rows));
        }
    }
    return gx_ok(x->run) ? val->data : NULL;
}

// Inputs and results ------------------------------------------------------------------------------

gx_ref gx_result_ref(const gx_exec *x, const gx_node *node, int k)
{
    const gx_graph *g = x->g;
    return node->parts != 0 ? g->pool[node->parts + k] : (gx_ref)(node - g->node);
}

gx_type gx_type_now(const gx_exec *x, const gx_node *node)
{
    const gx_shares *s = &x->shares;
    gx_type type = node->type;
    if (s->is_one) {
        const int64_t *first = &s->first[x->on - x->lane];
        *(s->axis == 0 ? &type.cols : &type.rows) = first[1] - first[0];
    }
    return type;
}

bool gx_wants(const gx_exec *x, const gx_node *node, int k)
{
    gx_ref ref = gx_result_ref(x, node, k);
    return ref != GX_NO_NODE && x->g->node[ref].is_live;
}

const gx_type *gx_result_type(const gx_node *node, int k)
{
    return k == 0 ? &node->type : &node->more[k - 1];
}

/* Is it the matrix that the program returns, made on the host and wanted by nobody else? */
static bool is_returned(const gx_exec *x, gx_ref ref)
{
    const gx_node *n = &x->g->node[ref];
    return x->on->call.accel == NULL && n->uses == 1 && !x->stores_value && x->g->result == ref &&
           (n->type.rows > 1 || n->type.cols > 1);
}

/* Where the program returns a matrix is begun; false: failed. */
static bool begin_value(gx_exec *x, const gx_type *t, int64_t tile_rows, int64_t tile_cols)
{
    gx_sink_begin(x->run, NULL, t->rows, t->cols, t->dtype, 0, tile_rows, tile_cols, x->value);
    return gx_ok(x->run);
}

/* Memory for result k: where the program returns it, or the value's own; false: failed. */
static bool give_result_memory(gx_exec *x, const gx_node *node, int k, gx_val *val)
{
    const gx_type *t = &val->type;
    size_t bytes = 0;
    gx_matrix_bytes(t->rows, t->cols, t->dtype, &bytes);
    if (bytes <= GX_SMALL_BYTES || !is_returned(x, gx_result_ref(x, node, k))) {
        return give_memory(x, val);
    }
    val->is_delivered = begin_value(x, t, 0, 0);
    val->data = x->value->value.data;
    return val->is_delivered;
}

void *gx_result(gx_exec *x, const gx_node *node, int k)
{
    gx_val *val = gx_val_of(x, gx_result_type(node, k));
    if (val == NULL) {
        return NULL;
    }
    if (!give_result_memory(x, node, k, val)) {
        gx_val_release(x, val);
        return NULL;
    }
    gx_val_put(x, gx_result_ref(x, node, k), val);
    return val->data;
}

/* Where the program stores result k; NULL: there is no such place, or not with those tiles. */
static gx_sink *store_of(const gx_exec *x, gx_ref ref, int64_t tile_rows, int64_t tile_cols)
{
    const gx_graph *g = x->g;
    gx_sink *store = x->stores_value && g->result == ref ? &x->stores[g->outputs] : NULL;
    for (int i = 0; i < g->outputs; i++) {
        store = g->output[i].node == ref ? &x->stores[i] : store;
    }
    bool is_alike =
        store != NULL &&
        (tile_rows == 0 || (tile_rows == store->tile_rows && tile_cols == store->tile_cols));
    return is_alike ? store : NULL;
}

const gx_sink *gx_result_store(const gx_exec *x, const gx_node *node, int k)
{
    gx_ref ref = gx_result_ref(x, node, k);
    return x->on->call.accel == NULL && x->g->node[ref].uses == 1 ? store_of(x, ref, 0, 0) : NULL;
}

/* Where result k ends up, when nobody else wants it; NULL: it is an intermediate. */
static gx_sink *destination_of(gx_exec *x, const gx_node *node, int k, size_t keep_bytes,
                               int64_t tile_rows, int64_t tile_cols)
{
    const gx_type *t = gx_result_type(node, k);
    gx_ref ref = gx_result_ref(x, node, k);
    if (is_returned(x, ref)) {
        return begin_value(x, t, tile_rows, tile_cols) ? x->value : NULL;
    }
    if (x->on->call.accel != NULL || x->g->node[ref].uses != 1) {
        return NULL;
    }
    return gx_scratch_fits(x->run, t->rows, t->cols, t->dtype, keep_bytes)
               ? NULL
               : store_of(x, ref, tile_rows, tile_cols);
}

gx_sink *gx_result_scratch(gx_exec *x, const gx_node *node, int k, const gx_type *type,
                           size_t keep_bytes, int64_t tile_rows, int64_t tile_cols)
{
    gx_run *run = x->run;
    gx_val *val = gx_val_of(x, type);
    if (val == NULL) {
        return NULL;
    }
    val->sink = gx_run_alloc(run, sizeof(gx_sink), "an intermediate matrix");
    if (val->sink == NULL) {
        gx_val_release(x, val);
        return NULL;
    }
    gx_sink_begin_scratch_tiles(run, type->rows, type->cols, type->dtype, keep_bytes, tile_rows,
                                tile_cols, val->sink);
    if (!gx_ok(run)) {
        gx_val_release(x, val);
        return NULL;
    }
    if (val->sink->is_stored) {
        gx_stats_add(&run->ctx->stats, GX_STAT_SPILLS, 1);
    } else {
        val->data = val->sink->value.data;
    }
    gx_val_put(x, gx_result_ref(x, node, k), val);
    return val->sink;
}

gx_sink *gx_result_sink(gx_exec *x, const gx_node *node, int k, size_t keep_bytes,
                        int64_t tile_rows, int64_t tile_cols)
{
    const gx_type *type = gx_result_type(node, k);
    gx_sink *end =
        gx_ok(x->run) ? destination_of(x, node, k, keep_bytes, tile_rows, tile_cols) : NULL;
    if (end == NULL && gx_ok(x->run)) {
        return gx_result_scratch(x, node, k, type, keep_bytes, tile_rows, tile_cols);
    }
    gx_val *val = gx_val_of(x, type);
    if (val != NULL) {
        val->is_delivered = true;
        gx_val_put(x, gx_result_ref(x, node, k), val);
    }
    return val == NULL ? NULL : end;
}

gx_sink *gx_result_strips(gx_exec *x, const gx_node *node, int64_t axis, size_t bytes,
                          int64_t *lines)
{
    const int64_t TILE = 1 << 20;           // elements
    const size_t BESIDE = (size_t)64 << 10; // a reader, and what works on lines
    const gx_type *t = &node->type;
    const gx_sink *store = gx_result_store(x, node, 0);
    int64_t count = axis == 0 ? t->cols : t->rows, length = axis == 0 ? t->rows : t->cols;
    int64_t fits = (int64_t)(gx_mem_available(x->run->ctx->mem) / 4 / (bytes + 1));
    int64_t tile = store == NULL ? 0 : axis == 0 ? store->tile_cols : store->tile_rows;
    bool is_wide = tile > 0 && fits >= tile;
    *lines = gx_max(1, gx_min(is_wide ? fits / tile * tile : fits, count));
    int64_t along = gx_max(1, gx_min(length, TILE / *lines));
    int64_t rows = axis == 0 ? along : *lines, cols = axis == 0 ? *lines : along;
    return gx_result_sink(x, node, 0, 2 * bytes * (size_t)*lines + BESIDE,
                          is_wide ? store->tile_rows : rows, is_wide ? store->tile_cols : cols);
}

gx_sink *gx_result_made(gx_exec *x, const gx_node *node)
{
    gx_run *run = x->run;
    gx_val *val = gx_val_of(x, &node->type);
    if (val == NULL) {
        return NULL;
    }
    val->sink = gx_run_calloc(run, sizeof(gx_sink), "an intermediate matrix");
    gx_val_put(x, gx_result_ref(x, node, 0), val);
    return val->sink;
}

void gx_result_is_made(gx_exec *x, const gx_node *node)
{
    gx_val *val = x->val[gx_result_ref(x, node, 0)];
    val->data = gx_ok(x->run) ? val->sink->value.data : NULL;
}

void *gx_temp(gx_exec *x, size_t bytes)
{
    if (!gx_ok(x->run)) {
        return NULL;
    }
    void **place = &x->temp[x->temps];
    if (x->temps == (int)(sizeof x->temp / sizeof x->temp[0])) {
        gx_run_failf(x->run, GX_UNSUPPORTED, "too many operands are converted at once");
        return NULL;
    }
    *place = gx_run_alloc(x->run, bytes, "a program's step");
    x->temps += *place != NULL;
    return *place;
}

void *gx_work(gx_exec *x, size_t bytes)
{
    if (gx_ok(x->run) && (x->work == NULL || bytes > x->work_bytes)) {
        gx_mem_free(x->run->ctx->mem, x->work);
        x->work_bytes = bytes;
        x->work = gx_run_alloc(x->run, bytes, "a program's step");
    }
    return gx_ok(x->run) ? x->work : NULL;
}

void gx_temps_free(gx_exec *x)
{
    while (x->temps > 0) {
        gx_mem_free(x->run->ctx->mem, x->temp[--x->temps]);
    }
}

const void *gx_input_data(gx_exec *x, const gx_node *node, int k, gx_number dtype)
{
    gx_val *val = x->val[gx_input(x->g, node, k)];
    const void *data = gx_val_data(x, val);
    if (data == NULL || val->type.dtype == dtype) {
        return data;
    }
    size_t bytes = 0;
    int64_t ld = gx_max(1, val->type.rows);
    gx_matrix_bytes(val->type.rows, val->type.cols, dtype, &bytes);
    void *copy = gx_temp(x, bytes);
    if (copy != NULL) {
        gx_convert(val->type.dtype, data, ld, dtype, copy, ld, val->type.rows, val->type.cols);
    }
    return copy;
}

const gx_mat *gx_input_mat(gx_exec *x, const gx_node *node, int k, gx_mat *space)
{
    gx_ref ref = gx_input(x->g, node, k);
    const char *label = x->g->node[ref].label;
    return gx_val_mat(x, x->val[ref], label == NULL ? "the operand" : label, space);
}

bool gx_input_at_hand(const gx_exec *x, const gx_node *node, int k)
{
    const gx_node *in = gx_input_node(x->g, node, k);
    if (x->val == NULL) { // nothing runs: arguments are
        return in->op->id == GX_OP_OPERAND && x->g->operand[in->whole[0]].name == NULL;
    }
    const gx_val *val = x->val[gx_input(x->g, node, k)];
    bool is_value = val->mat != NULL && val->mat->kind == GX_MAT_VALUE;
    return val->data != NULL || val->device != NULL || is_value;
}

bool gx_input_fits(const gx_exec *x, const gx_node *node, int k)
{
    const gx_type *t = &gx_input_node(x->g, node, k)->type;
    size_t bytes = 0;
    bool is_size = gx_matrix_bytes(t->rows, t->cols, t->dtype, &bytes);
    return gx_input_at_hand(x, node, k) ||
           (is_size && bytes < gx_mem_available(x->run->ctx->mem) / 3);
}

gx_scalar gx_input_number(gx_exec *x, const gx_node *node, int k)
{
    gx_val *val = x->val[gx_input(x->g, node, k)];
    const void *data = gx_val_data(x, val);
    return data == NULL ? (gx_scalar){0, 0} : gx_number_get(val->type.dtype, data, 0);
}

void gx_result_number(gx_exec *x, const gx_node *node, gx_scalar value)
{
    void *data = gx_result(x, node, 0);
    if (data != NULL) {
        gx_number_put(node->type.dtype, data, 0, value);
    }
}

bool gx_may_overwrite(const gx_exec *x, const gx_node *node, int k)
{
    gx_ref ref = gx_input(x->g, node, k);
    const gx_val *val = x->val[ref];
    const gx_type type = gx_type_now(x, node);
    if (val->refs != 1 || val->mat != NULL || val->type.rows != type.rows ||
        val->type.cols != type.cols || val->type.dtype != type.dtype) {
        return false;
    }
    for (gx_ref dead = node->first_dead; dead != GX_NO_NODE; dead = x->g->node[dead].next_dead) {
        if (dead == ref) {
            return true;
        }
    }
    return false;
}
