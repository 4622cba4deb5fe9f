/*
** Operations on grids on a device: see on_device_grid.h.
**
** One kernel for all grids of the batch.  Those of an even batch are told by their height; a table
** is checked on the host, once where it is an operand, and then read by the kernel.  What the
** kernel cannot say in words it notes in a number of the lane (gx_device_refused), which every wait
** looks at: the program is then run on the host, which says which cell of what is no colour.
*/
#include "on_device_grid.h"

#include "device_memory.h"
#include "device_node.h"

#include <string.h>

enum { HEIGHT = GX_WHOLES - 1 }; /* of node->whole: shape_grid.c */

static gx_grid_id id_of(const gx_node *node)
{
    return (gx_grid_id)(node->op->id - GX_OP_GRID_LABEL);
}

/* Operands that are matrices of cells; a table may follow them. */
static int own_operands(const gx_node *node)
{
    int own = 0;
    for (const char *kind = gx_grid_kinds(id_of(node)); *kind != '\0'; kind++) {
        own += *kind != 'i';
    }
    return own;
}

static bool has_table(const gx_node *node)
{
    return node->count > own_operands(node);
}

/* A template's shape, or nothing. */
static const gx_type *template_of(const gx_graph *g, const gx_node *node)
{
    return strchr(gx_grid_kinds(id_of(node)), 'T') == NULL ? NULL
                                                           : &gx_input_node(g, node, 1)->type;
}

/* Without a table: all grids are alike. */
static gx_grid_facts facts_of_even(const gx_node *node, const gx_type *G)
{
    bool is_empty = G->rows == 0 || G->cols == 0;
    int64_t height = node->whole[HEIGHT] > 0 ? node->whole[HEIGHT] : G->rows;
    return (gx_grid_facts){.table = GX_NO_NODE,
                           .rows = G->rows,
                           .cols = G->cols,
                           .count = is_empty ? 0 : G->rows / height,
                           .cells = is_empty ? 0 : height * gx_min(G->cols, GX_GRID_MOST + 1),
                           .are_squares = height == G->cols,
                           .are_all = true};
}

/* Are there no larger ones, and is it said of none that it is turned to another shape? */
static bool is_taken(const gx_node *node, const gx_grid_facts *facts)
{
    bool has_shape = id_of(node) != GX_GRID_TURN || node->whole[0] == 180 || facts->are_squares;
    return facts->cells <= GX_GRID_MOST && has_shape;
}

bool gx_on_device_has_grids(const gx_graph *g, const gx_node *node)
{
    const gx_type *T = template_of(g, node);
    bool is_small = T == NULL || (T->rows <= GX_GRID_MOST && T->cols <= GX_GRID_MOST &&
                                  T->rows * T->cols <= GX_GRID_MOST);
    gx_grid_facts facts = facts_of_even(node, &gx_input_node(g, node, 0)->type);
    return is_small && (has_table(node) || is_taken(node, &facts));
}

double gx_on_device_grids(const gx_graph *g, const gx_node *node)
{
    gx_grid_facts facts = facts_of_even(node, &gx_input_node(g, node, 0)->type);
    int64_t count =
        has_table(node) ? gx_input_node(g, node, own_operands(node))->type.rows : facts.count;
    return (double)gx_max(1, count);
}

bool gx_on_device_knows_grids(const gx_graph *g, const gx_node *node)
{
    gx_op_id from =
        has_table(node) ? gx_input_node(g, node, own_operands(node))->op->id : GX_OP_LITERAL;
    return from == GX_OP_LITERAL || from == GX_OP_OPERAND;
}

/* The table looked at, as the host does it. */
static gx_grid_facts facts_of_table(gx_exec *x, const gx_node *node)
{
    int own = own_operands(node);
    const gx_node *G = gx_input_node(x->g, node, 0);
    gx_grid_facts facts = {.table = gx_input(x->g, node, own),
                           .rows = G->type.rows,
                           .cols = G->type.cols,
                           .are_squares = true};
    gx_grid_batch batch = {.place = NULL};
    gx_mat space, cells; // the latter without any
    const gx_mat *table = gx_input_mat(x, node, own, &space);
    gx_mat_value(&cells, gx_graph_label(x->g, gx_input(x->g, node, 0), "the operand"),
                 G->type.dtype, facts.rows, facts.cols, NULL, gx_max(1, facts.rows));
    if (table != NULL && gx_grid_batch_table(x->run, &cells, table, &batch) == GX_OK) {
        int64_t covered = 0;
        facts.count = batch.count;
        for (int64_t k = 0; k < batch.count; k++) {
            const gx_grid_place *p = &batch.place[k];
            int64_t size = p->rows > GX_GRID_MOST ? GX_GRID_MOST + 1 : p->rows * p->cols;
            facts.cells = gx_max(facts.cells, size);
            facts.are_squares = facts.are_squares && p->rows == p->cols;
            covered += p->rows * p->cols;
        }
        facts.are_all = covered == facts.rows * facts.cols;
    }
    gx_mem_free(x->run->ctx->mem, batch.place);
    return facts;
}

/* Into x->grids, where they may be from an earlier node. */
static void find_facts(gx_exec *x, const gx_node *node)
{
    const gx_type *G = &gx_input_node(x->g, node, 0)->type;
    if (!has_table(node)) {
        x->grids = facts_of_even(node, G);
        return;
    }
    gx_ref table = gx_input(x->g, node, own_operands(node));
    bool is_known = x->table.count > 0 && x->table.table == table && x->table.rows == G->rows &&
                    x->table.cols == G->cols;
    if (!is_known) {
        x->table = facts_of_table(x, node);
    }
    x->grids = x->table;
    if (!gx_on_device_knows_grids(x->g, node)) {
        x->table.count = 0; // another one next time
    }
}

bool gx_on_device_fits_grids(gx_exec *x, const gx_node *node)
{
    find_facts(x, node);
    return gx_ok(x->run) && is_taken(node, &x->grids);
}

void gx_on_device_grid(gx_exec *x, const gx_node *node)
{
    const gx_type *to = &node->type, *T = template_of(x->g, node);
    const gx_type *G = &gx_input_node(x->g, node, 0)->type;
    gx_grid_id id = id_of(node);
    int own = own_operands(node);
    gx_grid_job job = {.id = id,
                       .result = gx_grid_result_of(id),
                       .rule = {(int)node->whole[0], (gx_grid_by)node->whole[1]},
                       .count = x->grids.count,
                       .cells = x->grids.cells,
                       .a = G->dtype,
                       .c = to->dtype};
    gx_args args = {.m = G->rows,
                    .n = G->cols,
                    .lda = gx_max(1, G->rows),
                    .ldc = gx_max(1, to->rows),
                    .grid = &job};
    memcpy(job.number, node->whole, sizeof job.number);
    args.a = gx_node_input(x, node, 0, G->dtype);
    if (own > 1) {
        const gx_type *B = &gx_input_node(x->g, node, 1)->type;
        job.b = B->dtype;
        job.t_rows = T == NULL ? 0 : T->rows;
        job.t_cols = T == NULL ? 0 : T->cols;
        args.b = gx_node_input(x, node, 1, B->dtype);
        args.ldb = gx_max(1, B->rows);
    }
    if (has_table(node)) {
        args.b2 = gx_node_input(x, node, own, GX_F64);
        args.ldb2 = gx_max(1, x->grids.count);
    } else {
        job.height = job.count == 0 ? 0 : G->rows / job.count;
    }
    job.refused = gx_device_refused(x);
    args.c = job.refused == NULL ? NULL : gx_node_result(x, node);
    gx_args zeros = {.m = to->rows, .n = to->cols, .c = args.c, .ldc = args.ldc};
    if (args.c == NULL || to->rows == 0 || to->cols == 0) {
        return;
    }
    if (job.result == GX_GRID_NUMBER || x->grids.are_all ||
        gx_node_call(x, GX_FILL, to->dtype, &zeros)) {
        gx_node_call(x, GX_GRID, GX_F64, &args);
    }
}
