/*
** A prepared program in words: its steps in the order in which they run, for gx_plan.
*/
#include "../base/fused.h"
#include "graph.h"
#include "on_device.h"
#include "ops.h"
#include "prepared.h"
#include "program.h"
#include "shares.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct telling {
    const gx_graph *g;
    const gx_exec *x; /* where it would run */
    bool (*fn)(void *arg, const gx_program_step *step);
    void *arg;
    int64_t number, depth;
    bool goes_on;
} telling;

/* Text at the end of what is there, cut where there is no room. */
__attribute__((format(printf, 3, 4))) static void add(char *text, size_t room, const char *format,
                                                      ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, room - used, format, args);
    va_end(args);
}

/* What an operand is called: by its name, its value, or its step's number. */
static void add_name(const gx_graph *g, gx_ref ref, char *text, size_t room)
{
    const gx_node *node = gx_at_node(g, ref);
    if (node->op->id == GX_OP_PART && node->label == NULL) {
        add(text, room, "v%d[%lld]", (int)gx_input(g, node, 0), (long long)node->whole[0]);
    } else if (node->is_known && node->op->id == GX_OP_NUMBER) {
        add(text, room, "%g", node->value.re);
        if (node->value.im != 0) {
            add(text, room, "%+gi", node->value.im);
        }
    } else if (node->op->id == GX_OP_OPERAND || node->op->id == GX_OP_PARAM) {
        add(text, room, "%s", node->label == NULL ? "?" : node->label);
    } else {
        add(text, room, "v%d", (int)ref);
    }
}

static void add_inputs(const gx_graph *g, const gx_node *node, char *text, size_t room)
{
    for (int k = 0; k < node->count; k++) {
        add(text, room, k > 0 ? ", " : "");
        add_name(g, gx_input(g, node, k), text, room);
    }
}

static void add_product(const telling *t, const gx_node *node, char *text, size_t room)
{
    const gx_graph *g = t->g;
    static const char *const marks[] = {"", ".T", ".H"};
    bool is_gram = gx_input(g, node, 0) == gx_input(g, node, 1) &&
                   (node->type.properties & (GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN)) != 0;
    add_name(g, gx_input(g, node, 0), text, room);
    add(text, room, "%s @ ", marks[node->trans[0]]);
    add_name(g, gx_input(g, node, 1), text, room);
    add(text, room, "%s%s%s", marks[node->trans[1]], is_gram ? ", half of it computed" : "",
        gx_is_postponed(t->x, node) ? ", block by block" : "");
}

static void add_fused(const telling *t, const gx_node *node, char *text, size_t room)
{
    const gx_graph *g = t->g;
    static const char *const folds[] = {"", "sum of ", "norm of ", "min of ", "max of "};
    const gx_fused *f = node->fused;
    add(text, room, "%s", folds[f->output[0].fold]);
    for (int k = 0; k < f->steps; k++) {
        add(text, room, "%s%s", k > 0 ? ", " : "", gx_map_row((gx_map_kind)f->step[k].map)->name);
    }
    add(text, room, " of ");
    add_inputs(g, node, text, room);
    for (int k = 0; k < node->count; k++) {
        if (gx_is_postponed(t->x, gx_input_node(g, node, k))) {
            add(text, room, ", finishing each block of v%d as it is made",
                (int)gx_input(g, node, k));
        }
    }
}

static void describe(const telling *t, const gx_node *node, char *text, size_t room)
{
    const gx_graph *g = t->g;
    switch (node->op->id) {
    case GX_OP_MATMUL:
        add_product(t, node, text, room);
        break;
    case GX_OP_FUSED:
        add_fused(t, node, text, room);
        break;
    case GX_OP_OPERAND:
        add(text, room, "%s", node->label == NULL ? "an argument" : node->label);
        break;
    case GX_OP_MAP:
        add(text, room, "%s of ", gx_map_row(node->map)->name);
        add_inputs(g, node, text, room);
        break;
    default:
        add_inputs(g, node, text, room);
    }
}

static double flops_of(const gx_graph *g, const gx_node *node)
{
    double size = (double)node->type.rows * (double)node->type.cols;
    double each = gx_number_is_complex(node->type.dtype) ? 4 : 1;
    if (node->op->id == GX_OP_MATMUL) {
        const gx_type *a = &gx_input_node(g, node, 0)->type;
        return 2 * each * size * (double)(node->trans[0] == GX_NO_TRANS ? a->cols : a->rows);
    }
    if (node->op->id == GX_OP_FUSED) {
        bool is_fold = node->fused->output[0].fold != GX_FOLD_NONE;
        size = is_fold ? (double)node->whole[0] * (double)node->whole[1] : size;
        return size * gx_fused_flops(node->fused);
    }
    return 0;
}

static const char *word_of(const gx_node *node)
{
    static const char *const words[] = {
        [GX_OP_NUMBER] = "number", [GX_OP_LITERAL] = "literal", [GX_OP_OPERAND] = "operand",
        [GX_OP_PART] = "part",     [GX_OP_REPEAT] = "repeat",   [GX_OP_WHILE] = "while",
        [GX_OP_IF] = "if",         [GX_OP_MAP] = "map",         [GX_OP_FUSED] = "fused",
        [GX_OP_CAST] = "cast",     [GX_OP_SLICE] = "slice",
    };
    bool has_word =
        (size_t)node->op->id < sizeof words / sizeof words[0] && words[node->op->id] != NULL;
    return has_word ? words[node->op->id] : node->op->name == NULL ? "trace" : node->op->name;
}

static void tell_block(telling *t, int32_t b);

static void tell(telling *t, gx_ref ref)
{
    const gx_node *node = gx_at_node(t->g, ref);
    gx_program_step step = {.number = ref,
                            .depth = t->depth,
                            .rows = node->type.rows,
                            .cols = node->type.cols,
                            .dtype = node->type.dtype};
    if (node->op->id == GX_OP_PARAM || node->op->id == GX_OP_PART || node->op->id == GX_OP_NUMBER) {
        return;
    }
    snprintf(step.op, sizeof step.op, "%s", word_of(node));
    snprintf(step.detail, sizeof step.detail, "%*sv%d = ", (int)(2 * t->depth), "", (int)ref);
    describe(t, node, step.detail, sizeof step.detail);
    gx_text_clean(step.detail); // cut within a character, perhaps
    step.bytes = (double)node->type.rows * (double)node->type.cols *
                 (double)gx_number_bytes(node->type.dtype);
    step.flops = flops_of(t->g, node);
    step.is_on_device = gx_on_device_may(t->x, node);
    t->goes_on = t->fn(t->arg, &step);
    t->depth++;
    for (int k = 0; k < 2 && t->goes_on; k++) {
        if (node->inner[k] > 0) {
            tell_block(t, node->inner[k]);
        }
    }
    t->depth--;
}

static void tell_block(telling *t, int32_t b)
{
    const gx_region *block = &t->g->block[b];
    for (int32_t k = 0; k < block->count && t->goes_on; k++) {
        tell(t, block->nodes[k]);
    }
}

void gx_program_steps(gx_run *run, const gx_program *program,
                      bool (*fn)(void *arg, const gx_program_step *step), void *arg)
{
    gx_exec x = {.run = run, .g = program->graph, .lane = {{.call = {.run = run}}}};
    gx_shares_find(&x);
    gx_on_device_choose(&x);
    telling t = {.g = program->graph, .fn = fn, .arg = arg, .x = &x, .goes_on = true};
    tell_block(&t, 0);
    gx_shares_end(&x);
}
