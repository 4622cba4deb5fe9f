/*
** From the tree to the graph: names, calls, subscripts, loops.
*/
#ifndef GX_COMPILE_H
#define GX_COMPILE_H

#include "ops.h"

/* What an argument ?n is. */
typedef struct gx_given {
    gx_type type; /* is_weak: a plain number                                      */
    double number;
} gx_given;

typedef struct gx_variable {
    const char *name;
    gx_ref ref;
} gx_variable;

typedef struct gx_compiler gx_compiler;

struct gx_compiler {
    gx_graph *g;
    gx_run *run;
    const gx_given *given;
    int given_count;
    gx_variable *variable;
    int32_t variables, variable_capacity;
    int32_t floor;        /* variables below are of the caller of a function           */
    const gx_item *first; /* statements of the program: where functions are defined    */
    int depth;            /* of loops, choices and calls                               */
    int within;           /* operations that are definitions: the place stays the call's */
    int64_t work;         /* expressions looked at                                     */
    gx_ref (*expression)(gx_compiler *c, const gx_item *item); /* for the other files */
    gx_ref (*block)(gx_compiler *c, const gx_item *block);
    /* The operand of a stored matrix's name; GX_NO_NODE without a failure: there is none. */
    gx_ref (*stored_if)(gx_compiler *c, const char *name);
};

enum { GX_COMPILE_WORK = 500000 };

/*
** Compile; is_plain: nothing is shared, folded or rewritten.  Stored operands are found, and so
** their schemas pinned.  *out is NULL on failure, else freed with gx_graph_free(); it refers to the
** tree.
*/
gx_code gx_compile(gx_run *run, const gx_syntax *syntax, const gx_given *given, int given_count,
                   bool is_plain, gx_graph **out, gx_err *err);

// Between its files -------------------------------------------------------------------------------

void gx_compile_at(gx_compiler *c, const gx_item *item); /* the place of what fails next */
static inline gx_ref gx_compile_expression(gx_compiler *c, const gx_item *item)
{
    return c->expression(c, item);
}
/* The value of the last expression statement; GX_NO_NODE: there is none. */
static inline gx_ref gx_compile_block(gx_compiler *c, const gx_item *block)
{
    return c->block(c, block);
}
gx_ref gx_compile_index(gx_compiler *c, const gx_item *item);
gx_ref gx_compile_product(gx_compiler *c, const gx_item *item); /* a chain of @ */
gx_ref gx_compile_list(gx_compiler *c, const gx_item *item);
gx_ref gx_compile_stacks(gx_compiler *c, const gx_item *call); /* block([[A, B], [C, D]]) */
gx_ref gx_compile_einsum(gx_compiler *c, const gx_item *call);
void gx_compile_repeat(gx_compiler *c, const gx_item *item);
void gx_compile_while(gx_compiler *c, const gx_item *item);
void gx_compile_if(gx_compiler *c, const gx_item *item);
gx_ref gx_compile_inline(gx_compiler *c, const gx_item *call, gx_item *def);
gx_ref gx_compile_body(gx_compiler *c, gx_item *def, const gx_ref *in); /* its value, of these */

/* Operations that are programs themselves (defined.c): result k of such a one. */
bool gx_op_is_defined(const gx_op *op);
gx_ref gx_compile_defined(gx_compiler *c, const gx_op *op, const gx_ref *in, int count, int k);

gx_ref gx_variable_find(const gx_compiler *c, const char *name);
void gx_variable_bind(gx_compiler *c, const char *name, gx_ref ref);

#endif
