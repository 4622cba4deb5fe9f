/*
** Compiling: expressions and statements (see compile.h).  Control flow is in compile_flow.c,
** subscripts and literals in compile_parts.c.
**
** A name is a local variable, else a constant (pi, inf, nan), else a stored matrix, which becomes
** an operand once however often it is named.  Everything here happens before an element is read: a
** program that compiles can only fail for what elements are, or for memory.
*/
#include "compile.h"

#include "../alg/by_parts.h"
#include "../mat/composite.h"
#include "../mat/sparse.h"
#include "ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Names -------------------------------------------------------------------------------------------

static gx_ref add_operand(gx_compiler *c, const gx_operand *operand, const char *label)
{
    gx_graph *g = c->g;
    if (g->operands == GX_OPERANDS_MAX) {
        return gx_graph_fail(g, "the program reads more than %d matrices", GX_OPERANDS_MAX);
    }
    gx_node node = {.op = gx_op_row(GX_OP_OPERAND), .type = operand->type, .label = label};
    node.whole[0] = g->operands;
    gx_ref ref = gx_graph_add(g, &node, NULL, 0);
    if (ref != GX_NO_NODE) {
        g->operand[g->operands] = *operand;
        g->operand[g->operands++].node = ref;
    }
    return ref;
}

static gx_ref stored(gx_compiler *c, const gx_item *item)
{
    gx_graph *g = c->g;
    for (int k = 0; k < g->operands; k++) {
        if (g->operand[k].name != NULL && strcmp(g->operand[k].name, item->text) == 0) {
            return g->operand[k].node;
        }
    }
    gx_meta meta;
    gx_err err = {0};
    gx_mat mat = {.owned = NULL};
    gx_ctx *ctx = c->run->ctx;
    if (gx_store_find_source(ctx->store, item->text, &meta, &err) != GX_OK ||
        (gx_aux_kind_of(meta.properties) != GX_AUX_NONE &&
         gx_aux_refuse(item->text, meta.properties, &err) != GX_OK) ||
        gx_mat_open(ctx->store, ctx->mem, &meta, &mat, &err) != GX_OK) {
        if (err.code == GX_ARG) {
            return gx_graph_fail(g, "%s", err.text);
        }
        g->err = err;
        return GX_NO_NODE;
    }
    gx_operand operand = {.name = item->text,
                          .type = {mat.rows, mat.cols, mat.number, mat.properties, false}};
    if (meta.is_sparse) {
        operand.type.properties |= GX_TYPE_SPARSE;
        operand.entries = gx_sparse_entries(&mat);
    }
    operand.is_structured = gx_mat_is_structured(&mat);
    operand.parts_pay = gx_parts_pay(c->run, &mat);
    gx_mat_clear(&mat, ctx->mem);
    return add_operand(c, &operand, item->text);
}

static gx_ref stored_if(gx_compiler *c, const char *name)
{
    gx_meta meta;
    gx_err err = {0};
    bool found = false;
    const gx_item item = {.text = name};
    if (gx_store_lookup(c->run->ctx->store, name, &meta, &found, &err) != GX_OK) {
        c->g->err = err;
        return GX_NO_NODE;
    }
    return found ? stored(c, &item) : GX_NO_NODE;
}

static gx_ref argument(gx_compiler *c, const gx_item *item)
{
    gx_graph *g = c->g;
    int k = item->index - 1;
    if (k >= c->given_count) {
        return gx_graph_fail(g, "?%d is asked for, but %d argument%s came after the text",
                             item->index, c->given_count, c->given_count == 1 ? "" : "s");
    }
    for (int o = 0; o < g->operands; o++) {
        if (g->operand[o].name == NULL && g->operand[o].argument == k) {
            return g->operand[o].node;
        }
    }
    char label[16];
    snprintf(label, sizeof label, "?%d", item->index);
    gx_operand operand = {.argument = k, .type = c->given[k].type, .number = c->given[k].number};
    return add_operand(c, &operand, gx_graph_text(g, label));
}

static gx_ref name(gx_compiler *c, const gx_item *item)
{
    static const struct {
        const char *name;
        double value;
    } constants[] = {{"pi", 0x1.921fb54442d18p+1}, {"inf", (double)INFINITY}, {"nan", (double)NAN}};
    gx_ref ref = gx_variable_find(c, item->text);
    if (ref != GX_NO_NODE) {
        return ref;
    }
    for (size_t k = 0; k < sizeof constants / sizeof constants[0] && !item->is_quoted; k++) {
        if (strcmp(constants[k].name, item->text) == 0) {
            return gx_graph_number(c->g, (gx_scalar){constants[k].value, 0}, false);
        }
    }
    return stored(c, item);
}

// Calls -------------------------------------------------------------------------------------------

enum { ARGUMENTS_MOST = 100 };

/* May argument k be a word: norm(A, 'fro'), label(A, 4, 'colour'), fft(A, 'all', 1)? */
static bool takes_word(gx_op_id id, int k)
{
    bool is_second = id == GX_OP_NORM || id == GX_OP_VAR || id == GX_OP_STD;
    bool is_fourier = id >= GX_OP_FFT && id <= GX_OP_IFFTSHIFT;
    bool is_pair = id == GX_OP_CONVOLVE || id == GX_OP_CORRELATE;
    bool is_third = id == GX_OP_GRID_LABEL || id == GX_OP_REQUIRE || id == GX_OP_DISTANCE;
    return (is_second && k == 1) || (is_third && k == 2) || (is_fourier && k > is_pair);
}

/* The arguments of a call; false: failed. */
static bool arguments(gx_compiler *c, const gx_item *item, const gx_op *op, gx_ref *in)
{
    int k = 0;
    for (const gx_item *arg = item->first; arg != NULL; arg = arg->next, k++) {
        if (arg->form == GX_FORM_TEXT && op != NULL && takes_word(op->id, k)) {
            gx_node text = {.op = gx_op_row(GX_OP_LITERAL), .label = arg->text};
            text.type = (gx_type){1, 1, GX_F64, 0, false};
            in[k] = gx_graph_add(c->g, &text, NULL, 0);
        } else {
            in[k] = gx_compile_expression(c, arg);
        }
        if (in[k] == GX_NO_NODE) {
            return false;
        }
    }
    gx_compile_at(c, item);
    return true;
}

/* x ** 2 and the like. */
static gx_ref power(gx_graph *g, const gx_ref *in)
{
    gx_scalar p;
    const gx_scalar none = {0, 0};
    const gx_node *exponent = gx_at_node(g, in[1]);
    p = exponent->value;
    if (!g->is_plain && exponent->is_known && exponent->type.is_weak && p.im == 0) {
        if (p.re == 2 || p.re == -1) {
            return gx_graph_map(g, p.re == 2 ? GX_MAP_SQUARE : GX_MAP_RECIPROCAL, none, none, in,
                                1);
        }
        if (p.re == 1 && !g->node[in[0]].type.is_weak) {
            return in[0];
        }
    }
    return gx_graph_map(g, GX_MAP_POW, none, none, in, 2);
}

/*
** where(mask, a, b) is of a's and b's dtype.  A mask of a wider one is asked first where it is not
** 0: converted as it is, a tiny or an imaginary number would become 0.
*/
static gx_ref choice(gx_graph *g, const gx_ref in[3])
{
    const gx_scalar none = {0, 0};
    const gx_type mask = g->node[in[0]].type, a = g->node[in[1]].type, b = g->node[in[2]].type;
    const char *label = g->node[in[0]].label;
    bool is_double = a.is_weak && b.is_weak ? gx_number_is_double(mask.dtype)
                                            : (!a.is_weak && gx_number_is_double(a.dtype)) ||
                                                  (!b.is_weak && gx_number_is_double(b.dtype));
    bool is_complex = gx_number_is_complex(a.dtype) || gx_number_is_complex(b.dtype);
    gx_ref chosen[3] = {in[0], in[1], in[2]};
    if ((gx_number_is_double(mask.dtype) && !is_double) ||
        (gx_number_is_complex(mask.dtype) && !is_complex)) {
        const gx_ref pair[2] = {in[0], gx_graph_number(g, none, false)};
        chosen[0] = gx_graph_map(g, GX_MAP_NOT_EQUAL, none, none, pair, 2);
        if (chosen[0] != GX_NO_NODE && !g->node[chosen[0]].type.is_weak) {
            chosen[0] = gx_graph_cast(g, chosen[0], is_double ? GX_F64 : GX_F32);
        }
        if (chosen[0] != GX_NO_NODE && !g->node[chosen[0]].is_known) {
            g->node[chosen[0]].label = label;
        }
    }
    return gx_graph_map(g, GX_MAP_WHERE, none, none, chosen, 3);
}

static gx_ref elementwise(gx_compiler *c, const gx_item *item, gx_map_kind kind)
{
    gx_graph *g = c->g;
    const gx_map_facts *facts = gx_map_row(kind);
    int wanted = facts->operands + facts->numbers;
    gx_ref in[4];
    gx_scalar one = {1, 0}, none = {0, 0};
    if (item->count != wanted) {
        gx_compile_at(c, item);
        return gx_graph_fail(g, "%s takes %d argument%s, not %d", item->text, wanted,
                             wanted == 1 ? "" : "s", item->count);
    }
    if (!arguments(c, item, NULL, in)) {
        return GX_NO_NODE;
    }
    if (kind == GX_MAP_POW) {
        return power(g, in);
    }
    if (kind == GX_MAP_WHERE) {
        return choice(g, in);
    }
    if (kind == GX_MAP_SCALE) { // by an alpha that may be computed
        return gx_graph_map(g, GX_MAP_MUL, none, none, in, 2);
    }
    bool is_sum = kind == GX_MAP_ADD;
    return gx_graph_map(g, kind, is_sum ? one : none, is_sum ? one : none, in, wanted);
}

/* a - b and -a: rows of map.h with other scalars; false: it is neither. */
static bool signed_sum(gx_compiler *c, const gx_item *item, gx_ref *out)
{
    const gx_scalar plus = {1, 0}, minus = {-1, 0}, none = {0, 0};
    bool is_sub = strcmp(item->text, "sub") == 0, is_neg = strcmp(item->text, "neg") == 0;
    gx_ref in[2];
    if ((!is_sub && !is_neg) || item->count != (is_sub ? 2 : 1)) {
        return false;
    }
    *out = GX_NO_NODE;
    if (arguments(c, item, NULL, in)) {
        *out = is_sub ? gx_graph_map(c->g, GX_MAP_ADD, plus, minus, in, 2)
                      : gx_graph_map(c->g, GX_MAP_SCALE, minus, none, in, 1);
    }
    return true;
}

static gx_item *find_def(const gx_compiler *c, const char *text)
{
    for (const gx_item *s = c->first; s != NULL; s = s->next) {
        if (s->form == GX_FORM_DEF && strcmp(s->text, text) == 0) {
            return (gx_item *)(uintptr_t)s;
        }
    }
    return NULL;
}

/* result: which one of an operation that is defined; others have theirs as parts. */
static gx_ref operation(gx_compiler *c, const gx_item *item, const gx_op *op, int result)
{
    gx_graph *g = c->g;
    gx_ref in[ARGUMENTS_MOST];
    if (item->count < op->least || item->count > op->most) {
        gx_compile_at(c, item);
        int bound = item->count < op->least ? op->least : op->most;
        const char *which = op->most == op->least ? ""
                            : bound == op->least  ? "at least "
                                                  : "at most ";
        return gx_graph_fail(g, "%s takes %s%d argument%s, not %d: %s", op->name, which, bound,
                             bound == 1 ? "" : "s", item->count, op->usage);
    }
    if (op->id == GX_OP_EINSUM || op->id == GX_OP_BLOCK) {
        return op->id == GX_OP_EINSUM ? gx_compile_einsum(c, item) : gx_compile_stacks(c, item);
    }
    if (!arguments(c, item, op, in)) {
        return GX_NO_NODE;
    }
    gx_node node = {.op = op};
    return gx_op_is_defined(op) ? gx_compile_defined(c, op, in, item->count, result)
                                : op->check(g, &node, in, item->count);
}

/* The node, whole where it has several results. */
static gx_ref call(gx_compiler *c, const gx_item *item)
{
    gx_ref ref;
    gx_map_kind kind;
    gx_item *def = item->is_infix ? NULL : find_def(c, item->text);
    if (def != NULL) {
        return gx_compile_inline(c, item, def);
    }
    if (signed_sum(c, item, &ref)) {
        return ref;
    }
    const char *name = gx_op_name(item->text);
    const gx_op *op = gx_op_find(name);
    if (op != NULL && op->id == GX_OP_MATMUL && item->is_infix && !c->g->is_plain) {
        return gx_compile_product(c, item);
    }
    if (op != NULL) {
        return operation(c, item, op, 0);
    }
    if (gx_map_find(name, &kind)) {
        return elementwise(c, item, kind);
    }
    const char *dot = strrchr(item->text, '.'); // A.sum(), np.sum(A)
    const char *near = gx_op_near(dot != NULL ? dot + 1 : item->text);
    gx_compile_at(c, item);
    return gx_graph_fail(c->g, "there is no function %s%s%s%s", item->text,
                         near == NULL ? "" : " (did you mean ", near == NULL ? "" : near,
                         near == NULL ? "" : "?)");
}

static gx_ref whole_expression(gx_compiler *c, const gx_item *item)
{
    gx_graph *g = c->g;
    if (!gx_graph_ok(g)) {
        return GX_NO_NODE;
    }
    gx_compile_at(c, item);
    if (++c->work > GX_COMPILE_WORK) {
        return gx_graph_fail(g, "the program is too long to be checked");
    }
    if (c->work % 256 == 0 && gx_run_poll_fn(c->run, &g->err) != GX_OK) {
        return GX_NO_NODE;
    }
    switch (item->form) {
    case GX_FORM_NUMBER:
        return gx_graph_number(g, item->value, item->is_quoted);
    case GX_FORM_NAME:
        return name(c, item);
    case GX_FORM_ARGUMENT:
        return argument(c, item);
    case GX_FORM_LIST:
        return gx_compile_list(c, item);
    case GX_FORM_CALL:
        return call(c, item);
    case GX_FORM_INDEX:
        return gx_compile_index(c, item);
    default:
        return gx_graph_fail(g, "a text is no matrix");
    }
}

static gx_ref expression(gx_compiler *c, const gx_item *item)
{
    gx_ref ref = whole_expression(c, item);
    return gx_graph_ok(c->g) ? gx_graph_part(c->g, ref, 0) : GX_NO_NODE;
}

// Statements --------------------------------------------------------------------------------------

/* The operation that a call is of, where that is one with several results and a definition. */
static const gx_op *defined_of(const gx_compiler *c, const gx_item *item)
{
    bool is_call = item->form == GX_FORM_CALL && find_def(c, item->text) == NULL;
    const gx_op *op = is_call ? gx_op_find(gx_op_name(item->text)) : NULL;
    return op != NULL && op->results > 1 && gx_op_is_defined(op) ? op : NULL;
}

static void assign(gx_compiler *c, const gx_item *item)
{
    gx_graph *g = c->g;
    const gx_op *op = defined_of(c, item->first);
    gx_ref whole = whole_expression(c, item->first);
    int names = item->count - 1, results = 1;
    if (whole == GX_NO_NODE || !gx_graph_ok(g)) {
        return;
    }
    gx_compile_at(c, item);
    const gx_node *node = gx_at_node(g, whole);
    results = op != NULL ? op->results : node->parts != 0 ? node->op->results : 1;
    if (names > results) {
        gx_graph_fail(g, "%d names for %d result%s", names, results, results == 1 ? "" : "s");
        return;
    }
    int k = 0;
    for (const gx_item *target = item->first->next; target != NULL; target = target->next, k++) {
        gx_variable_bind(c, target->text,
                         op == NULL || k == 0 ? gx_graph_part(g, whole, k)
                                              : operation(c, item->first, op, k));
    }
}

/* Asked before a group of operations becomes one. */
static bool is_truth(const gx_graph *g, gx_ref ref)
{
    return ref != GX_NO_NODE && g->node[ref].op->id == GX_OP_MAP &&
           gx_map_is_truth(g->node[ref].map);
}

static void store(gx_compiler *c, const gx_item *item)
{
    gx_graph *g = c->g;
    gx_ref ref = gx_compile_expression(c, item->first);
    gx_compile_at(c, item);
    if (ref == GX_NO_NODE) {
        return;
    }
    if (c->depth > 0) {
        gx_graph_fail(g, "a matrix is stored by the program itself, not within a loop, a choice or "
                         "a function");
        return;
    }
    for (int k = 0; k < g->outputs; k++) {
        if (strcmp(g->output[k].name, item->text) == 0) {
            gx_graph_fail(g, "%s is stored twice", item->text);
            return;
        }
    }
    if (g->outputs == GX_OUTPUTS_MAX_EVAL) {
        gx_graph_fail(g, "the program stores more than %d matrices", GX_OUTPUTS_MAX_EVAL);
        return;
    }
    g->output[g->outputs++] =
        (gx_output){item->text, ref, is_truth(g, ref), item->line, item->column};
    gx_variable_bind(c, item->text, ref);
}

static gx_ref block_of(gx_compiler *c, const gx_item *block)
{
    gx_ref value = GX_NO_NODE;
    for (const gx_item *s = block->first; s != NULL && gx_graph_ok(c->g); s = s->next) {
        gx_compile_at(c, s);
        value = GX_NO_NODE;
        switch (s->form) {
        case GX_FORM_VALUE:
            value = gx_compile_expression(c, s->first);
            break;
        case GX_FORM_ASSIGN:
            assign(c, s);
            break;
        case GX_FORM_STORE:
            store(c, s);
            break;
        case GX_FORM_REPEAT:
            gx_compile_repeat(c, s);
            break;
        case GX_FORM_WHILE:
            gx_compile_while(c, s);
            break;
        case GX_FORM_IF:
            gx_compile_if(c, s);
            break;
        default:
            if (s->form != GX_FORM_DEF || block->first != c->first) {
                gx_graph_fail(c->g, "functions are defined by the program itself, not within a "
                                    "block");
            }
        }
    }
    return value;
}

gx_code gx_compile(gx_run *run, const gx_syntax *syntax, const gx_given *given, int given_count,
                   bool is_plain, gx_graph **out, gx_err *err)
{
    gx_graph *g;
    *out = NULL;
    GX_TRY(gx_graph_create(syntax->mem, syntax, &g, err));
    gx_compiler c = {.g = g,
                     .run = run,
                     .given = given,
                     .given_count = given_count,
                     .first = syntax->program->first,
                     .expression = expression,
                     .block = block_of,
                     .stored_if = stored_if};
    g->is_plain = is_plain;
    for (gx_item *s = syntax->program->first; s != NULL; s = s->next) {
        s->index = s->form == GX_FORM_DEF ? 0 : s->index; // an earlier compilation may have failed
    }
    g->result = gx_compile_block(&c, syntax->program);
    g->result_is_truth = is_truth(g, g->result);
    gx_mem_free(g->mem, c.variable);
    gx_graph_is_dense(g, g->result);
    for (int k = 0; k < g->outputs; k++) {
        gx_graph_is_dense(g, g->output[k].node);
    }
    if (gx_graph_ok(g) && g->result == GX_NO_NODE && g->outputs == 0) {
        gx_fail(&g->err, GX_ARG,
                "the program has no value: end it with an expression, or store "
                "with :=");
    }
    if (!gx_graph_ok(g)) {
        *err = g->err;
        gx_graph_free(g);
        return err->code;
    }
    *out = g;
    return GX_OK;
}
