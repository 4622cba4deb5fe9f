/*
** Graphs: nodes, sharing, and what can be known before anything runs: see graph.h.
**
** A node that is equal to one that can be seen is not made again (common subexpressions), and an
** elementwise function of known numbers is a number (constants): both are done as nodes are added,
** so that later rules see the shared and folded ones.
**
** Everything grows by doubling and is freed as a whole; after a failure nothing is added, and
** every new node is GX_NO_NODE, so that whoever builds looks once at the end.
*/
#include "graph.h"

#include "../base/csr.h"

#include "../base/backend.h"
#include "ops.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

gx_code gx_graph_create(gx_mem *mem, const gx_syntax *syntax, gx_graph **out, gx_err *err)
{
    void *memory;
    *out = NULL;
    GX_TRY(gx_mem_calloc(mem, sizeof(gx_graph), "a program's graph", &memory, err));
    gx_graph *g = memory;
    g->mem = mem;
    g->syntax = syntax;
    g->result = GX_NO_NODE;
    for (int k = 0; k < GX_HASH; k++) {
        g->hash[k] = GX_NO_NODE;
    }
    gx_graph_pool(g, 1); // so that 0 means none
    gx_graph_block(g, -1);
    if (!gx_graph_ok(g)) {
        *err = g->err;
        gx_graph_free(g);
        return err->code;
    }
    *out = g;
    return GX_OK;
}

void gx_graph_free(gx_graph *g)
{
    if (g == NULL) {
        return;
    }
    for (int32_t k = 0; k < g->owns; k++) {
        gx_mem_free(g->mem, g->owned[k]);
    }
    for (int32_t k = 0; k < g->blocks; k++) {
        gx_mem_free(g->mem, g->block[k].nodes);
    }
    while (g->defined != NULL) {
        gx_syntax *tree = g->defined;
        g->defined = tree->next;
        gx_syntax_free(tree);
    }
    gx_mem_free(g->mem, g->owned);
    gx_mem_free(g->mem, g->block);
    gx_mem_free(g->mem, g->node);
    gx_mem_free(g->mem, g->pool);
    gx_mem_free(g->mem, g);
}

// Growing -----------------------------------------------------------------------------------------

/* Room for `wanted` things of `size` bytes at *array; false where there is none. */
static bool grow(gx_graph *g, void **array, int32_t *capacity, int32_t wanted, size_t size)
{
    if (wanted <= *capacity) {
        return gx_graph_ok(g);
    }
    int32_t room = *capacity < 16 ? 16 : 2 * *capacity;
    room = room < wanted ? wanted : room;
    if (gx_graph_ok(g) &&
        gx_mem_realloc(g->mem, (size_t)room * size, "a program's graph", array, &g->err) == GX_OK) {
        *capacity = room;
    }
    return gx_graph_ok(g);
}

void *gx_graph_take(gx_graph *g, size_t bytes)
{
    void *owned = g->owned, *memory;
    if (!grow(g, &owned, &g->own_capacity, g->owns + 1, sizeof *g->owned)) {
        return NULL;
    }
    g->owned = owned;
    if (gx_mem_calloc(g->mem, bytes, "a program's graph", &memory, &g->err) != GX_OK) {
        return NULL;
    }
    return g->owned[g->owns++] = memory;
}

const char *gx_graph_text(gx_graph *g, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = gx_graph_take(g, bytes);
    return copy == NULL ? "" : memcpy(copy, text, bytes);
}

int32_t gx_graph_pool(gx_graph *g, int32_t count)
{
    void *pool = g->pool;
    if (!grow(g, &pool, &g->pool_capacity, g->pooled + count, sizeof *g->pool)) {
        return 0;
    }
    g->pool = pool;
    int32_t at = g->pooled;
    for (int32_t k = 0; k < count; k++) {
        g->pool[at + k] = GX_NO_NODE;
    }
    g->pooled += count;
    return at;
}

int32_t gx_graph_block(gx_graph *g, int32_t parent)
{
    void *blocks = g->block;
    if (!grow(g, &blocks, &g->block_capacity, g->blocks + 1, sizeof *g->block)) {
        return 0;
    }
    g->block = blocks;
    g->block[g->blocks] = (gx_region){.parent = parent};
    return g->blocks++;
}

/* Is what stands in `block` seen from `from`? */
static bool sees(const gx_graph *g, int32_t from, int32_t block)
{
    while (from >= 0 && from != block) {
        from = g->block[from].parent;
    }
    return from == block;
}

gx_ref gx_graph_fail(gx_graph *g, const char *format, ...)
{
    char text[sizeof g->err.text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    gx_syntax_fail(g->syntax, g->line, g->column, &g->err, GX_ARG, "%s", text);
    return GX_NO_NODE;
}

// Nodes -------------------------------------------------------------------------------------------

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

static uint32_t hash_of(const gx_node *n, const gx_ref *in, int count)
{
    uint64_t hash = mix((uint64_t)n->op->id * GX_MAP_KIND_COUNT + n->map, (uint64_t)n->type.rows);
    hash = mix(mix(hash, gx_bits_of(n->alpha.re)), gx_bits_of(n->value.re));
    for (int k = 0; k < count; k++) {
        hash = mix(hash, (uint64_t)in[k]);
    }
    return (uint32_t)(hash % GX_HASH);
}

static bool same_scalar(gx_scalar a, gx_scalar b)
{
    return gx_bits_of(a.re) == gx_bits_of(b.re) && gx_bits_of(a.im) == gx_bits_of(b.im);
}

static bool same_type(const gx_type *a, const gx_type *b)
{
    return a->rows == b->rows && a->cols == b->cols && a->dtype == b->dtype &&
           a->is_weak == b->is_weak;
}

static bool is_same(const gx_graph *g, const gx_node *a, const gx_node *b, const gx_ref *in,
                    int count)
{
    return a->op == b->op && a->map == b->map && same_type(&a->type, &b->type) &&
           same_scalar(a->value, b->value) && same_scalar(a->alpha, b->alpha) &&
           same_scalar(a->beta, b->beta) && a->count == count && a->data == b->data &&
           memcmp(a->trans, b->trans, sizeof a->trans) == 0 &&
           memcmp(a->whole, b->whole, sizeof a->whole) == 0 &&
           (count == 0 || memcmp(&g->pool[a->inputs], in, (size_t)count * sizeof *in) == 0);
}

/* What has no inner blocks, and is no place for values, can be shared. */
static bool may_share(const gx_node *n)
{
    switch (n->op->id) {
    case GX_OP_OPERAND:
    case GX_OP_PARAM:
    case GX_OP_PART:
    case GX_OP_REPEAT:
    case GX_OP_WHILE:
    case GX_OP_IF:
    case GX_OP_LITERAL:
        return false;
    default:
        return true;
    }
}

static gx_ref find_same(gx_graph *g, const gx_node *node, uint32_t hash, const gx_ref *in,
                        int count)
{
    if (g->is_plain || !may_share(node)) {
        return GX_NO_NODE;
    }
    for (gx_ref ref = g->hash[hash]; ref != GX_NO_NODE; ref = g->node[ref].next_same) {
        if (is_same(g, &g->node[ref], node, in, count) && sees(g, g->at, g->node[ref].block)) {
            return ref;
        }
    }
    return GX_NO_NODE;
}

/*
** Where a node stands: what does not change in a loop, and cannot fail, in front of it.
*/
static int32_t block_for(const gx_graph *g, const gx_node *node, const gx_ref *in, int count)
{
    int32_t at = g->at;
    gx_op_id id = node->op->id;
    if (id == GX_OP_OPERAND || id == GX_OP_NUMBER || id == GX_OP_LITERAL) {
        return 0;
    }
    if (g->is_plain || !node->op->is_safe) {
        return at;
    }
    for (bool moves = true; moves && g->block[at].is_body;) {
        for (int k = 0; k < count && moves; k++) {
            moves = g->node[in[k]].block != at;
        }
        at = moves ? g->block[at].parent : at;
    }
    return at;
}

static bool append(gx_graph *g, int32_t at, gx_ref ref)
{
    gx_region *block = &g->block[at];
    void *nodes = block->nodes;
    if (!grow(g, &nodes, &block->capacity, block->count + 1, sizeof *block->nodes)) {
        return false;
    }
    block->nodes = nodes;
    block->nodes[block->count++] = ref;
    return true;
}

int64_t gx_graph_entries(const gx_graph *g, gx_ref ref)
{
    while (g->node[ref].op->id != GX_OP_OPERAND) { // transposes of one
        ref = gx_input(g, &g->node[ref], 0);
    }
    return g->operand[g->node[ref].whole[0]].entries;
}

bool gx_graph_is_dense(gx_graph *g, gx_ref ref)
{
    gx_err err = {0};
    if (!gx_graph_ok(g) || ref == GX_NO_NODE || !gx_is_sparse(&g->node[ref].type)) {
        return true;
    }
    const gx_type *t = &g->node[ref].type;
    gx_csr_refuse(gx_graph_label(g, ref, "the transpose"), t->rows, t->cols,
                  gx_graph_entries(g, ref), t->dtype, &err);
    gx_graph_fail(g, "%s", err.text);
    return false;
}

/* Does the operation work on the panels of a sparse operand? */
static bool takes_sparse(const gx_graph *g, const gx_node *node, const gx_ref *in)
{
    switch (node->op->id) {
    case GX_OP_MATMUL: // by a dense matrix
        return !gx_is_sparse(&g->node[in[0]].type) || !gx_is_sparse(&g->node[in[1]].type);
    case GX_OP_TRANSPOSE: // for a product, which reads it transposed
    case GX_OP_ADJOINT:
        return !g->is_plain;
    case GX_OP_SUM:
    case GX_OP_MEAN:
    case GX_OP_TRACE:
    case GX_OP_MIN:
    case GX_OP_MAX:
    case GX_OP_ARGMIN:
    case GX_OP_ARGMAX:
        return g->node[in[0]].op->id == GX_OP_OPERAND;
    case GX_OP_NORM:
        return node->whole[0] != '2' && node->whole[0] != 'N' &&
               g->node[in[0]].op->id == GX_OP_OPERAND;
    default:
        return false;
    }
}

/* The node with the bit where it is right; false: it takes no sparse operand, and has one. */
static bool mark_sparse(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    bool is_turned = node->op->id == GX_OP_TRANSPOSE || node->op->id == GX_OP_ADJOINT;
    if (!is_turned && node->op->id != GX_OP_OPERAND) {
        node->type.properties &= ~GX_TYPE_SPARSE;
    }
    for (int k = 0; k < count; k++) {
        if (gx_is_sparse(&g->node[in[k]].type) && !takes_sparse(g, node, in)) {
            return gx_graph_is_dense(g, in[k]);
        }
    }
    return true;
}

// Whole numbers modulo 2^31 - 1 (m31): they go with one another, and with whole numbers that are
// known when the program is prepared; an operand that is a number is pinned to its value.

/* Whose operands are of different kinds: nothing is computed of all of them. */
static bool is_flow(gx_op_id id)
{
    return id == GX_OP_REPEAT || id == GX_OP_WHILE || id == GX_OP_IF || id == GX_OP_PART ||
           id == GX_OP_PARAM || id == GX_OP_SLICE || id == GX_OP_ROLL || id == GX_OP_TILE ||
           id == GX_OP_REPEATED || id == GX_OP_RESHAPE || id == GX_OP_FLIP || id == GX_OP_TAKE;
}

static bool has_field(const gx_node *node)
{
    switch (node->op->id) {
    case GX_OP_OPERAND:
    case GX_OP_ROWS:
    case GX_OP_COLS:
    case GX_OP_SIZE:
    case GX_OP_MATMUL:
    case GX_OP_TRANSPOSE:
    case GX_OP_ADJOINT:
    case GX_OP_SUM:
    case GX_OP_TRACE:
    case GX_OP_DIAG:
    case GX_OP_HSTACK:
    case GX_OP_VSTACK:
    case GX_OP_BLOCK:
    case GX_OP_FUSED:
    case GX_OP_SOLVE:
    case GX_OP_INVERSE:
    case GX_OP_DET:
    case GX_OP_RANK:
    case GX_OP_LU:
        return true;
    case GX_OP_MAP:
        return gx_map_is_of_field(node->map);
    default:
        return is_flow(node->op->id);
    }
}

static bool takes_with_field(gx_graph *g, const gx_node *node, gx_ref in, int k)
{
    const gx_type *t = &g->node[in].type;
    gx_scalar value = {0, 0};
    if (t->dtype == GX_M31) {
        return true;
    }
    if (!t->is_weak || !gx_graph_value(g, in, &value)) {
        gx_graph_fail(g,
                      "%s is of %s and goes with m31, whole numbers modulo 2^31 - 1: gx_cast one",
                      gx_graph_label(g, in, "an operand"), gx_number_name(t->dtype));
        return false;
    }
    bool is_exponent = node->op->id == GX_OP_MAP && node->map == GX_MAP_POW && k == 1;
    double least = is_exponent ? 0 : -0x1p53, most = is_exponent ? GX_M31_P - 2.0 : 0x1p53;
    if (value.im != 0 || floor(value.re) != value.re || !(value.re >= least && value.re <= most)) {
        gx_graph_fail(g, "%.17g goes with m31, which takes whole numbers from %.17g to %.17g%s",
                      value.re, least, most, is_exponent ? " as exponents" : "");
        return false;
    }
    return true;
}

static bool takes_field(gx_graph *g, const gx_node *node, const gx_ref *in, int count)
{
    bool is_field = node->type.dtype == GX_M31;
    for (int k = 0; k < count; k++) {
        is_field = is_field || g->node[in[k]].type.dtype == GX_M31;
    }
    if (is_field && !has_field(node)) {
        const char *name = node->op->name != NULL      ? node->op->name
                           : node->op->id == GX_OP_MAP ? gx_map_row(node->map)->name
                                                       : node->op->help;
        gx_graph_fail(g, "%s means nothing of whole numbers modulo 2^31 - 1 (m31)", name);
        return false;
    }
    for (int k = 0; k < count && is_field && !is_flow(node->op->id); k++) {
        if (!takes_with_field(g, node, in[k], k)) {
            return false;
        }
    }
    return true;
}

gx_ref gx_graph_add(gx_graph *g, const gx_node *given, const gx_ref *in, int count)
{
    size_t bytes;
    gx_node marked = *given;
    const gx_node *node = &marked;
    for (int k = 0; k < count; k++) {
        if (in[k] == GX_NO_NODE) {
            return GX_NO_NODE;
        }
    }
    if (!mark_sparse(g, &marked, in, count) || !takes_field(g, node, in, count)) {
        return GX_NO_NODE;
    }
    if (!gx_matrix_bytes(node->type.rows, node->type.cols, node->type.dtype, &bytes)) {
        return gx_graph_fail(g, "a result of %lldx%lld: " GX_SIZES_TEXT, (long long)node->type.rows,
                             (long long)node->type.cols);
    }
    uint32_t hash = hash_of(node, in, count);
    gx_ref same = find_same(g, node, hash, in, count);
    if (same != GX_NO_NODE) {
        return same;
    }
    if (g->nodes >= GX_NODES_MAX) {
        return gx_graph_fail(g, "the program has more than %d steps", GX_NODES_MAX);
    }
    void *nodes = g->node;
    if (!grow(g, &nodes, &g->node_capacity, g->nodes + 1, sizeof *g->node)) {
        return GX_NO_NODE;
    }
    g->node = nodes;
    int32_t inputs = gx_graph_pool(g, count), parts = 0;
    if (node->op->results > 1) {
        parts = gx_graph_pool(g, node->op->results);
    }
    int32_t at = block_for(g, node, in, count);
    if (!gx_graph_ok(g) || !append(g, at, g->nodes)) {
        return GX_NO_NODE;
    }
    gx_node *added = &g->node[g->nodes];
    *added = *node;
    added->inputs = inputs;
    added->count = count;
    if (node->op->results > 1) {
        added->parts = parts;
        added->part_count = node->op->results;
    }
    added->block = at;
    added->line = g->line;
    added->column = g->column;
    for (int k = 0; k < count; k++) {
        g->pool[inputs + k] = in[k];
    }
    added->next_same = g->hash[hash];
    g->hash[hash] = g->nodes;
    return g->nodes++;
}

gx_ref gx_graph_part(gx_graph *g, gx_ref ref, int k)
{
    if (ref == GX_NO_NODE) {
        return GX_NO_NODE;
    }
    gx_node *whole = gx_at_node(g, ref);
    if (whole->parts == 0) {
        return ref;
    }
    int32_t place = whole->parts + k;
    if (g->pool[place] == GX_NO_NODE) {
        gx_node part = {.op = gx_op_row(GX_OP_PART), .type = whole->type};
        if (whole->inner[0] > 0) {
            part.type = g->node[g->pool[g->block[whole->inner[0]].results + k]].type;
            part.type.properties = 0;
        } else if (k > 0) {
            part.type = whole->more[k - 1];
        }
        part.whole[0] = k;
        gx_ref added = gx_graph_add(g, &part, &ref, 1);
        if (added != GX_NO_NODE) {
            g->pool[place] = added;
        }
        return added;
    }
    return g->pool[place];
}

gx_ref gx_graph_number(gx_graph *g, gx_scalar value, bool is_complex)
{
    gx_node node = {.op = gx_op_row(GX_OP_NUMBER),
                    .type = {1, 1, is_complex ? GX_C128 : GX_F64, 0, true},
                    .is_known = true,
                    .value = value};
    return gx_graph_add(g, &node, NULL, 0);
}

gx_ref gx_graph_cast(gx_graph *g, gx_ref ref, gx_number dtype)
{
    if (ref == GX_NO_NODE) {
        return ref;
    }
    const gx_node *from = gx_at_node(g, ref);
    if (from->type.dtype == dtype && !from->type.is_weak) {
        return ref;
    }
    gx_node node = {.op = gx_op_row(GX_OP_CAST), .type = from->type, .label = from->label};
    node.type.dtype = dtype;
    node.type.is_weak = false;
    return gx_graph_add(g, &node, &ref, 1);
}

const char *gx_graph_label(const gx_graph *g, gx_ref ref, const char *what)
{
    const char *label = ref == GX_NO_NODE ? NULL : g->node[ref].label;
    return label == NULL ? what : label;
}

// Elementwise functions ---------------------------------------------------------------------------

/* The function of known numbers, by the reference's kernel. */
static bool apply(gx_map_kind map, gx_scalar alpha, gx_scalar beta, const gx_scalar *in, int count,
                  bool is_complex, gx_scalar *out)
{
    double a[3][2], c[2] = {0, 0};
    gx_err err = {0};
    gx_number dtype = is_complex ? GX_C128 : GX_F64;
    for (int k = 0; k < count; k++) {
        a[k][0] = in[k].re;
        a[k][1] = in[k].im;
    }
    gx_args args = {.m = 1,
                    .n = 1,
                    .map = map,
                    .alpha = alpha,
                    .beta = beta,
                    .a = a[0],
                    .lda = 1,
                    .b = a[1],
                    .ldb = 1,
                    .b2 = a[2],
                    .ldb2 = 1,
                    .c = c,
                    .ldc = 1};
    gx_kernel kernel = gx_backend_ref.kernel[GX_MAP][dtype];
    if (kernel == NULL || kernel(NULL, NULL, &args, &err) != GX_OK) {
        return false;
    }
    *out = (gx_scalar){c[0], is_complex ? c[1] : 0};
    return true;
}

/* Widths that fit each other: equal, or 1. */
static bool fits(int64_t *a, int64_t b)
{
    bool is_right = *a == b || *a == 1 || b == 1;
    *a = *a == 1 ? b : *a;
    return is_right;
}

/*
** The dtype: what those that are not weak promote to, complex where any is; of plain numbers alone,
** doubles.
*/
static void map_type(const gx_graph *g, const gx_ref *in, int count, gx_type *type)
{
    bool is_complex = false, has_strong = false;
    gx_number dtype = GX_F64;
    for (int k = 0; k < count; k++) {
        const gx_type *t = &g->node[in[k]].type;
        is_complex |= gx_number_is_complex(t->dtype);
        if (!t->is_weak) {
            dtype = has_strong ? gx_number_promote(dtype, t->dtype) : t->dtype;
            has_strong = true;
        }
    }
    if (is_complex && !gx_number_is_complex(dtype)) {
        dtype = gx_number_is_double(dtype) ? GX_C128 : GX_C64;
    }
    type->dtype = dtype;
    type->is_weak = !has_strong;
}

gx_ref gx_graph_map(gx_graph *g, gx_map_kind map, gx_scalar alpha, gx_scalar beta, const gx_ref *in,
                    int count)
{
    const gx_map_facts *facts = gx_map_row(map);
    gx_node node = {.op = gx_op_row(GX_OP_MAP), .map = map, .alpha = alpha, .beta = beta};
    node.type.rows = node.type.cols = 1;
    bool is_known = true;
    gx_scalar known[3];
    for (int k = 0; k < count; k++) {
        if (in[k] == GX_NO_NODE) {
            return GX_NO_NODE;
        }
        const gx_node *operand = gx_at_node(g, in[k]);
        if (!fits(&node.type.rows, operand->type.rows) ||
            !fits(&node.type.cols, operand->type.cols)) {
            const gx_type *a = &g->node[in[0]].type;
            return gx_graph_fail(g, "%s is %lldx%lld but %s is %lldx%lld",
                                 gx_graph_label(g, in[0], "the left side"), (long long)a->rows,
                                 (long long)a->cols, gx_graph_label(g, in[k], "the right side"),
                                 (long long)operand->type.rows, (long long)operand->type.cols);
        }
        is_known = is_known && operand->is_known && operand->type.is_weak;
        known[k] = operand->value;
    }
    map_type(g, in, count, &node.type);
    bool is_complex = gx_number_is_complex(node.type.dtype);
    gx_scalar value;
    bool is_real = is_complex && facts->dtypes == GX_MAP_TO_REAL;
    if (is_complex && facts->dtypes == GX_MAP_REAL_ONLY) {
        return gx_graph_fail(g, "%s is complex: %s is for real numbers",
                             gx_graph_label(g, in[0], "the operand"), facts->name);
    }
    if (is_known && !g->is_plain && apply(map, alpha, beta, known, count, is_complex, &value)) {
        return gx_graph_number(g, value, is_complex && !is_real);
    }
    if (count == 1) {
        node.type.properties = g->node[in[0]].type.properties & facts->keeps;
    }
    gx_ref ref = gx_graph_add(g, &node, in, count);
    bool is_weak = node.type.is_weak;
    if (is_real && ref != GX_NO_NODE) {
        ref = gx_graph_cast(g, ref, gx_number_real(node.type.dtype));
        if (is_weak && ref != GX_NO_NODE) {
            g->node[ref].type.is_weak = true;
        }
    }
    return ref;
}

/* No deeper than that. */
static bool value_of(gx_graph *g, gx_ref ref, int depth, gx_scalar *value)
{
    if (ref == GX_NO_NODE) {
        return false;
    }
    const gx_node *n = gx_at_node(g, ref);
    if (n->is_known) {
        *value = n->value;
        return true;
    }
    if (depth > 0 && n->op->id == GX_OP_CAST) {
        return value_of(g, gx_input(g, n, 0), depth - 1, value);
    }
    if (n->op->id == GX_OP_OPERAND) {
        gx_operand *operand = &g->operand[n->whole[0]];
        if (operand->type.is_weak && operand->name == NULL) {
            operand->is_pinned = true;
            *value = (gx_scalar){operand->number, 0};
            return true;
        }
        return false;
    }
    if (depth == 0 || n->op->id != GX_OP_MAP || n->type.rows != 1 || n->type.cols != 1) {
        return false;
    }
    gx_scalar known[3] = {{0, 0}};
    for (int k = 0; k < n->count; k++) {
        if (!value_of(g, gx_input(g, n, k), depth - 1, &known[k])) {
            return false;
        }
    }
    gx_node *known_now = gx_at_node(g, ref);
    if (!apply(n->map, n->alpha, n->beta, known, n->count, gx_number_is_complex(n->type.dtype),
               value)) {
        return false;
    }
    known_now->is_known = true; // and so it is not looked for again
    known_now->value = *value;
    return true;
}

const char *gx_graph_word(const gx_graph *g, gx_ref ref)
{
    const gx_node *node = ref == GX_NO_NODE ? NULL : &g->node[ref];
    return node != NULL && node->op->id == GX_OP_LITERAL ? node->label : NULL;
}

bool gx_graph_value(gx_graph *g, gx_ref ref, gx_scalar *value)
{
    return value_of(g, ref, 200, value);
}
