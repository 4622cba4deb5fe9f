/*
** Local names while a program is compiled (see compile.h): the latest of a name counts, and blocks
** and functions take theirs away by going back to how many there were.
*/
#include "compile.h"

#include <string.h>

void gx_compile_at(gx_compiler *c, const gx_item *item)
{
    if (c->within == 0) {
        c->g->line = item->line;
        c->g->column = item->column;
    }
}

gx_ref gx_variable_find(const gx_compiler *c, const char *name)
{
    for (int32_t k = c->variables - 1; k >= c->floor; k--) {
        if (strcmp(c->variable[k].name, name) == 0) {
            return c->variable[k].ref;
        }
    }
    return GX_NO_NODE;
}

void gx_variable_bind(gx_compiler *c, const char *name, gx_ref ref)
{
    gx_graph *g = c->g;
    if (!gx_graph_ok(g) || ref == GX_NO_NODE) {
        return;
    }
    if (c->variables == c->variable_capacity) {
        int32_t capacity = c->variable_capacity < 8 ? 8 : 2 * c->variable_capacity;
        void *variables = c->variable;
        if (gx_mem_realloc(g->mem, (size_t)capacity * sizeof *c->variable, "a program's names",
                           &variables, &g->err) != GX_OK) {
            return;
        }
        c->variable = variables;
        c->variable_capacity = capacity;
    }
    c->variable[c->variables++] = (gx_variable){.name = name, .ref = ref};
    gx_node *node = gx_at_node(g, ref);
    if (node->label == NULL) {
        node->label = name;
    }
}
