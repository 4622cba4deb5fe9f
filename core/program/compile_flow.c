/*
** Compiling loops, choices and functions (see compile.h).
**
** The names that a body assigns, and that were known before it, are the loop's variables: its body
** is a block with a parameter and a result for each.  A stored matrix is known where the body reads
** it before it assigns its name: repeat 9 { X = A @ X } begins with the stored X.  So it is where
** one side of `if` assigns the name and the other leaves it.  Their shapes may not change from
** round to round; a dtype that does (x = 1; repeat 3 { x = x * 1i }) is widened before the loop,
** and the body compiled again.  The sides of `if` are blocks whose results are the names that both
** sides know.  Other names of a block end with it.  A function is compiled where it is called.
*/
#include "compile.h"

#include "ops.h"
#include "shape.h"

#include <string.h>

enum { NAMES_MOST = 100, ROUNDS_MOST = 8, CALLS_MOST = 50 };

typedef struct names {
    const char *name[NAMES_MOST];
    gx_ref before[NAMES_MOST]; /* its first value                                */
    gx_ref after[NAMES_MOST];
    int count;
} names;

static void add_name(gx_compiler *c, names *set, const char *text)
{
    for (int k = 0; k < set->count; k++) {
        if (strcmp(set->name[k], text) == 0) {
            return;
        }
    }
    if (set->count == NAMES_MOST) {
        gx_graph_fail(c->g, "a block sets more than %d names", NAMES_MOST);
        return;
    }
    set->name[set->count++] = text;
}

/* What a block assigns, blocks in it too. */
static void find_names(gx_compiler *c, const gx_item *block, names *set)
{
    for (const gx_item *s = block->first; s != NULL; s = s->next) {
        if (s->form == GX_FORM_ASSIGN) {
            for (const gx_item *t = s->first->next; t != NULL; t = t->next) {
                add_name(c, set, t->text);
            }
        } else if (s->form == GX_FORM_REPEAT || s->form == GX_FORM_WHILE || s->form == GX_FORM_IF) {
            for (const gx_item *b = s->first->next; b != NULL; b = b->next) {
                find_names(c, b, set);
            }
        }
    }
}

typedef enum first_use { UNUSED, READ, ASSIGNED } first_use;

/* How an expression or a block uses a name first, in the order in which it is run. */
static first_use use_of(const gx_item *item, const char *name)
{
    if (item->form == GX_FORM_NAME) {
        return strcmp(item->text, name) == 0 ? READ : UNUSED;
    }
    const gx_item *part = item->first;
    first_use use = UNUSED;
    if (item->form == GX_FORM_ASSIGN) { // its value, then its names
        use = use_of(part, name);
        for (part = part->next; part != NULL && use == UNUSED; part = part->next) {
            use = strcmp(part->text, name) == 0 ? ASSIGNED : UNUSED;
        }
        return use;
    }
    bool is_choice =
        item->form == GX_FORM_IF || item->form == GX_FORM_WHILE || item->form == GX_FORM_REPEAT;
    for (; part != NULL && use == UNUSED; part = part->next) {
        use = use_of(part, name);
        if (is_choice && use == ASSIGNED) { // perhaps it is not run
            use = UNUSED;
        }
    }
    return use;
}

/* A stored matrix that the block reads by a name which it then assigns becomes a variable. */
static void adopt_stored(gx_compiler *c, const gx_item *block, const names *set)
{
    for (int k = 0; k < set->count && gx_graph_ok(c->g); k++) {
        if (gx_variable_find(c, set->name[k]) == GX_NO_NODE &&
            use_of(block, set->name[k]) == READ) {
            gx_variable_bind(c, set->name[k], c->stored_if(c, set->name[k]));
        }
    }
}

/* Only the names that have a value now. */
static void keep_known(gx_compiler *c, names *set)
{
    int kept = 0;
    for (int k = 0; k < set->count; k++) {
        gx_ref ref = gx_variable_find(c, set->name[k]);
        if (ref != GX_NO_NODE) {
            set->name[kept] = set->name[k];
            set->before[kept++] = ref;
        }
    }
    set->count = kept;
}

/* Parameters of a new block for the names, which are bound to them. */
static int32_t open_block(gx_compiler *c, const names *set, bool is_body)
{
    gx_graph *g = c->g;
    int32_t block = gx_graph_block(g, g->at);
    int32_t params = gx_graph_pool(g, set->count);
    if (!gx_graph_ok(g)) {
        return 0;
    }
    g->block[block].is_body = is_body;
    g->block[block].params = params;
    g->block[block].param_count = set->count;
    g->at = block;
    for (int k = 0; k < set->count; k++) {
        gx_node param = {.op = gx_op_row(GX_OP_PARAM), .label = set->name[k]};
        param.type = g->node[set->before[k]].type;
        param.type.properties = 0;
        param.whole[0] = k;
        gx_ref ref = gx_graph_add(g, &param, NULL, 0);
        if (ref == GX_NO_NODE) {
            return 0;
        }
        g->pool[params + k] = ref;
        gx_variable_bind(c, set->name[k], ref);
    }
    return block;
}

static void close_block(gx_compiler *c, int32_t block, const gx_ref *results, int count)
{
    gx_graph *g = c->g;
    int32_t at = gx_graph_pool(g, count);
    if (gx_graph_ok(g)) {
        for (int k = 0; k < count; k++) {
            g->pool[at + k] = results[k];
        }
        g->block[block].results = at;
        g->block[block].result_count = count;
    }
}

// Loops -------------------------------------------------------------------------------------------

/* a's and b's dtype in one; weak where both are. */
static gx_type joined(const gx_type *a, const gx_type *b)
{
    gx_type type = *a;
    type.is_weak = a->is_weak && b->is_weak;
    type.dtype = a->is_weak && !b->is_weak && !gx_number_is_complex(a->dtype) ? b->dtype
                 : b->is_weak && !a->is_weak && !gx_number_is_complex(b->dtype)
                     ? a->dtype
                     : gx_number_promote(a->dtype, b->dtype);
    return type;
}

static gx_ref as_type(gx_graph *g, gx_ref ref, const gx_type *type)
{
    const gx_type *from = &g->node[ref].type;
    return from->dtype == type->dtype && (from->is_weak == type->is_weak || type->is_weak)
               ? ref
               : gx_graph_cast(g, ref, type->dtype);
}

/*
** One compilation of a body.  false: a variable's dtype has grown, its first value is widened, and
** it is to be done again.
*/
static bool try_body(gx_compiler *c, const gx_item *block, names *set, int32_t *body)
{
    gx_graph *g = c->g;
    int32_t outer = g->at, known = c->variables;
    *body = open_block(c, set, true);
    gx_compile_block(c, block);
    bool is_settled = true;
    for (int k = 0; k < set->count && gx_graph_ok(g); k++) {
        gx_ref after = gx_variable_find(c, set->name[k]);
        const gx_type first = g->node[set->before[k]].type, last = g->node[after].type;
        gx_compile_at(c, block);
        if (first.rows != last.rows || first.cols != last.cols) {
            gx_graph_fail(g, "%s is %lldx%lld before the loop but %lldx%lld after a round of it",
                          set->name[k], (long long)first.rows, (long long)first.cols,
                          (long long)last.rows, (long long)last.cols);
            break;
        }
        gx_type type = joined(&first, &last);
        if (type.dtype != first.dtype || type.is_weak != first.is_weak) {
            g->at = outer;
            set->before[k] = gx_graph_cast(g, set->before[k], type.dtype);
            g->at = *body;
            is_settled = false;
        }
        set->after[k] = as_type(g, after, &type);
    }
    g->at = outer;
    c->variables = known;
    return is_settled || !gx_graph_ok(g);
}

static void compile_body(gx_compiler *c, const gx_item *block, names *set, int32_t *body)
{
    int round = 0;
    while (!try_body(c, block, set, body)) {
        if (++round == ROUNDS_MOST) {
            gx_graph_fail(c->g, "the dtypes of the loop's variables do not settle");
            return;
        }
    }
    close_block(c, *body, set->after, set->count);
}

/* The loop's node, and its results' names. */
static void add_loop(gx_compiler *c, gx_node *node, gx_ref count, const names *set)
{
    gx_graph *g = c->g;
    gx_ref in[NAMES_MOST + 1];
    int inputs = 0;
    if (!gx_graph_ok(g)) {
        return;
    }
    if (count != GX_NO_NODE) {
        in[inputs++] = count;
    }
    node->given = inputs;
    for (int k = 0; k < set->count; k++) {
        in[inputs++] = set->before[k];
    }
    int32_t parts = gx_graph_pool(g, set->count);
    node->type = (gx_type){1, 1, GX_F64, 0, false};
    gx_ref loop = gx_graph_add(g, node, in, inputs);
    if (loop == GX_NO_NODE) {
        return;
    }
    g->node[loop].parts = parts;
    g->node[loop].part_count = set->count;
    for (int k = 0; k < set->count; k++) {
        gx_variable_bind(c, set->name[k], gx_graph_part(g, loop, k));
    }
}

/* A 1 x 1 real condition or count. */
static bool is_number(gx_compiler *c, const gx_item *item, gx_ref ref, const char *what)
{
    gx_compile_at(c, item);
    if (ref == GX_NO_NODE) {
        return false;
    }
    const gx_type *type = &c->g->node[ref].type;
    if (type->rows != 1 || type->cols != 1 || gx_number_is_complex(type->dtype)) {
        gx_graph_fail(c->g, "%s is %lldx%lld %s, but must be one real number", what,
                      (long long)type->rows, (long long)type->cols, gx_number_name(type->dtype));
        return false;
    }
    return true;
}

void gx_compile_repeat(gx_compiler *c, const gx_item *item)
{
    names set = {.count = 0};
    gx_node node = {.op = gx_op_row(GX_OP_REPEAT)};
    const gx_item *block = item->first->next;
    gx_ref count = gx_compile_expression(c, item->first);
    if (!is_number(c, item->first, count, "the number of rounds")) {
        return;
    }
    find_names(c, block, &set);
    adopt_stored(c, block, &set);
    keep_known(c, &set);
    c->depth++;
    compile_body(c, block, &set, &node.inner[0]);
    c->depth--;
    gx_compile_at(c, item);
    add_loop(c, &node, count, &set);
}

void gx_compile_while(gx_compiler *c, const gx_item *item)
{
    gx_graph *g = c->g;
    names set = {.count = 0};
    gx_node node = {.op = gx_op_row(GX_OP_WHILE)};
    const gx_item *block = item->first->next;
    find_names(c, block, &set);
    adopt_stored(c, item, &set); // its condition is run first
    keep_known(c, &set);
    c->depth++;
    compile_body(c, block, &set, &node.inner[0]);
    int32_t outer = g->at, known = c->variables;
    node.inner[1] = gx_graph_ok(g) ? open_block(c, &set, true) : 0;
    gx_ref condition = gx_compile_expression(c, item->first);
    if (gx_graph_ok(g) && is_number(c, item->first, condition, "the condition")) {
        close_block(c, node.inner[1], &condition, 1);
    }
    g->at = outer;
    c->variables = known;
    c->depth--;
    gx_compile_at(c, item);
    add_loop(c, &node, GX_NO_NODE, &set);
}

// Choices -----------------------------------------------------------------------------------------

/* Whether a side assigns the name. */
static bool assigns(gx_compiler *c, const gx_item *block, const char *name)
{
    names set = {.count = 0};
    if (block != NULL) {
        find_names(c, block, &set);
    }
    for (int k = 0; k < set.count; k++) {
        if (strcmp(set.name[k], name) == 0) {
            return true;
        }
    }
    return false;
}

/* One side, an empty one where block is NULL: the names' values after it. */
static int32_t side(gx_compiler *c, const gx_item *block, const names *set, gx_ref *after)
{
    gx_graph *g = c->g;
    int32_t outer = g->at, known = c->variables, made = gx_graph_block(g, outer);
    if (!gx_graph_ok(g)) {
        return 0;
    }
    g->at = made;
    if (block != NULL) {
        gx_compile_block(c, block);
    }
    for (int k = 0; k < set->count; k++) {
        after[k] = gx_variable_find(c, set->name[k]);
    }
    g->at = outer;
    c->variables = known;
    return made;
}

/* Both sides' values of one name as one type; false where they do not fit. */
static bool join(gx_compiler *c, const char *name, const int32_t inner[2], gx_ref *a, gx_ref *b)
{
    gx_graph *g = c->g;
    const gx_type x = g->node[*a].type, y = g->node[*b].type;
    if (x.rows != y.rows || x.cols != y.cols) {
        gx_graph_fail(g, "%s is %lldx%lld on one side of the choice but %lldx%lld on the other",
                      name, (long long)x.rows, (long long)x.cols, (long long)y.rows,
                      (long long)y.cols);
        return false;
    }
    gx_type type = joined(&x, &y);
    int32_t outer = g->at;
    g->at = inner[0];
    *a = as_type(g, *a, &type);
    g->at = inner[1];
    *b = as_type(g, *b, &type);
    g->at = outer;
    return gx_graph_ok(g);
}

void gx_compile_if(gx_compiler *c, const gx_item *item)
{
    gx_graph *g = c->g;
    names set = {.count = 0};
    gx_node node = {.op = gx_op_row(GX_OP_IF)};
    gx_ref other[NAMES_MOST];
    gx_ref condition = gx_compile_expression(c, item->first);
    if (!is_number(c, item->first, condition, "the condition")) {
        return;
    }
    const gx_item *yes = item->first->next, *no = yes->next;
    find_names(c, yes, &set);
    if (no != NULL) {
        find_names(c, no, &set);
    }
    for (int k = 0; k < set.count && gx_graph_ok(g); k++) {
        bool is_known = gx_variable_find(c, set.name[k]) != GX_NO_NODE;
        bool on_one = assigns(c, yes, set.name[k]) != assigns(c, no, set.name[k]);
        if (!is_known && on_one) {
            gx_variable_bind(c, set.name[k], c->stored_if(c, set.name[k]));
        }
    }
    c->depth++;
    node.inner[0] = side(c, yes, &set, set.after);
    node.inner[1] = side(c, no, &set, other);
    c->depth--;
    gx_compile_at(c, item);
    names both = {.count = 0};
    gx_ref results[2][NAMES_MOST];
    for (int k = 0; k < set.count && gx_graph_ok(g); k++) {
        if (set.after[k] != GX_NO_NODE && other[k] != GX_NO_NODE &&
            join(c, set.name[k], node.inner, &set.after[k], &other[k])) {
            results[0][both.count] = set.after[k];
            results[1][both.count] = other[k];
            both.name[both.count++] = set.name[k];
        }
    }
    if (gx_graph_ok(g)) {
        close_block(c, node.inner[0], results[0], both.count);
        close_block(c, node.inner[1], results[1], both.count);
    }
    names none = both;
    int count = both.count;
    none.count = 0;
    add_loop(c, &node, condition, &none);
    if (!gx_graph_ok(g)) {
        return;
    }
    gx_ref choice = g->block[g->at].nodes[g->block[g->at].count - 1];
    int32_t parts = gx_graph_pool(g, count);
    g->node[choice].parts = parts;
    g->node[choice].part_count = count;
    for (int k = 0; k < count && gx_graph_ok(g); k++) {
        gx_variable_bind(c, both.name[k], gx_graph_part(g, choice, k));
    }
}

// Functions ---------------------------------------------------------------------------------------

gx_ref gx_compile_body(gx_compiler *c, gx_item *def, const gx_ref *in)
{
    int32_t floor = c->floor, known = c->variables;
    c->floor = known;
    for (const gx_item *param = def->first->next; param != NULL; param = param->next) {
        gx_variable_bind(c, param->text, *in++);
    }
    def->index = 1;
    c->depth++;
    gx_ref value = gx_compile_block(c, def->first);
    c->depth--;
    def->index = 0;
    c->floor = floor;
    c->variables = known;
    return value;
}

gx_ref gx_compile_inline(gx_compiler *c, const gx_item *item, gx_item *def)
{
    gx_graph *g = c->g;
    gx_ref in[NAMES_MOST];
    int wanted = def->count - 1, k = 0;
    gx_compile_at(c, item);
    if (item->count != wanted || wanted > NAMES_MOST) {
        return gx_graph_fail(g, "%s takes %d argument%s, not %d", def->text, wanted,
                             wanted == 1 ? "" : "s", item->count);
    }
    if (def->index != 0) {
        return gx_graph_fail(g, "%s calls itself", def->text);
    }
    for (const gx_item *arg = item->first; arg != NULL; arg = arg->next) {
        in[k] = gx_compile_expression(c, arg);
        if (in[k++] == GX_NO_NODE) {
            return GX_NO_NODE;
        }
    }
    gx_ref value = gx_compile_body(c, def, in);
    if (gx_graph_ok(g) && value == GX_NO_NODE) {
        gx_compile_at(c, item);
        return gx_graph_fail(g, "%s has no value: its last statement is no expression", def->text);
    }
    return value;
}
