/*
** A program as a graph: each node is one operation of the table (ops.h) whose operands are earlier
** nodes, so a name that is assigned twice is two nodes.  Shapes and dtypes are known.
**
** Nodes stand in blocks, in the order in which they run: block 0 is the program, others are the
** bodies and conditions of loops and the sides of `if`.  A node may use nodes of its own block and
** of those around it.  A block has parameters (GX_OP_PARAM), which a loop gives a value in each
** round, and results.
*/
#ifndef GX_GRAPH_H
#define GX_GRAPH_H

#include "../base/map.h"
#include "../base/mem.h"
#include "../run/run.h"
#include "syntax.h"

struct gx_op;
struct gx_mat;

typedef int32_t gx_ref; /* a node's number; GX_NO_NODE: none */
enum { GX_NO_NODE = -1, GX_PARTS_MOST = 4, GX_WHOLES = 6 };

typedef struct gx_type {
    int64_t rows, cols;
    gx_number dtype;
    uint32_t properties; /* GX_PROP_ bits                                          */
    bool is_weak;        /* a plain number: takes the precision of what it meets   */
} gx_type;

/*
** A bit of properties, of the graph's only: a stored matrix of panels, or its transpose.  Products
** and some reductions take it (graph.c); nothing makes one.
*/
#define GX_TYPE_SPARSE ((uint32_t)1 << 30)

typedef struct gx_node {
    const struct gx_op *op;
    gx_type type;
    bool is_known; /* 1 x 1 with this value                                      */
    bool is_live;  /* somebody wants it                                          */
    gx_scalar value;
    int32_t inputs, count; /* in gx_graph.pool: nodes                            */
    int32_t parts;         /* in the pool: the PART nodes of its results; 0: it has one result */
    int32_t part_count;
    int32_t block;    /* where it stands                                       */
    int32_t inner[2]; /* loops: body, condition; IF: both sides                */
    int32_t given;    /* loops: inputs that are the parameters' first values   */
    gx_map_kind map;  /* MAP                                                   */
    gx_scalar alpha, beta;
    gx_trans trans[2];               /* MATMUL: of its operands                               */
    bool is_joined;                  /* MATMUL: one group alone uses it, and may finish it; a
                                        transform: one reduction alone does, as it is made       */
    bool is_half;                    /* a transform of real columns that such a one is of        */
    int64_t whole[GX_WHOLES];        /* what the operation was told: axis, k, ...       */
    const void *data;                /* LITERAL: column-major, of the graph                   */
    gx_type more[GX_PARTS_MOST - 1]; /* of the other results                     */
    int line, column;
    const char *label;      /* its name in messages; NULL: none                      */
    struct gx_fused *fused; /* FUSED: of the graph                               */
    gx_ref first_dead;      /* what is not wanted any more after it, a chain by ...       */
    gx_ref next_dead;
    int32_t uses;      /* by live nodes, as results and as outputs                   */
    int32_t next_same; /* of the nodes with this hash                                    */
} gx_node;

typedef struct gx_region {
    int32_t *nodes;
    int32_t count, capacity;
    int32_t parent; /* -1: none                                                  */
    gx_ref owner;   /* the loop or choice it is of; GX_NO_NODE: the program      */
    bool is_body;   /* of a loop: what does not change in it moves out           */
    int32_t params, param_count, results, result_count; /* in the pool           */
} gx_region;

/* A stored matrix or an argument that the program reads. */
typedef struct gx_operand {
    const char *name; /* NULL: an argument                                       */
    int argument;     /* from 0                                                  */
    bool is_pinned;   /* the program holds for this number only                  */
    double number;
    gx_type type;
    int64_t entries;  /* of a sparse one, for messages                             */
    gx_ref node;
    bool is_structured; /* a composite that is multiplied by its parts */
    bool parts_pay;     /* ... by few columns, where they lie or are kept */
} gx_operand;

/* C := e */
typedef struct gx_output {
    const char *name;
    gx_ref node;
    bool is_truth; /* of a comparison or of logic */
    int line, column;
} gx_output;

enum { GX_NODES_MAX = 100000, GX_OPERANDS_MAX = 200, GX_OUTPUTS_MAX_EVAL = 64, GX_HASH = 1021 };

typedef struct gx_graph {
    gx_mem *mem;
    gx_err err; /* the first failure; nothing is added after it                  */
    const gx_syntax *syntax;
    gx_syntax *defined; /* trees of definitions that the program uses, a chain           */
    gx_node *node;
    int32_t nodes, node_capacity;
    int32_t *pool;
    int32_t pooled, pool_capacity;
    gx_region *block;
    int32_t blocks, block_capacity;
    void **owned; /* data, labels                                                */
    int32_t owns, own_capacity;
    gx_operand operand[GX_OPERANDS_MAX];
    int operands;
    gx_output output[GX_OUTPUTS_MAX_EVAL];
    int outputs;
    gx_ref result;         /* the value; GX_NO_NODE: the last output's name       */
    bool result_is_truth;  /* of a comparison or of logic                         */
    bool is_plain;         /* no pass changes anything: for the tests             */
    int32_t at;            /* the block that nodes are added to                   */
    int32_t hash[GX_HASH]; /* first node of each; -1: none                       */
    int line, column;      /* of what is being compiled                          */
} gx_graph;

static inline gx_node *gx_at_node(const gx_graph *g, gx_ref ref)
{
    return &g->node[ref];
}

static inline gx_ref gx_input(const gx_graph *g, const gx_node *node, int k)
{
    return g->pool[node->inputs + k];
}

static inline gx_node *gx_input_node(const gx_graph *g, const gx_node *node, int k)
{
    return &g->node[g->pool[node->inputs + k]];
}

static inline bool gx_is_sparse(const gx_type *type)
{
    return (type->properties & GX_TYPE_SPARSE) != 0;
}

static inline bool gx_reads_sparse(const gx_graph *g, const gx_node *node)
{
    bool reads = false;
    for (int k = 0; k < node->count; k++) {
        reads |= gx_is_sparse(&gx_input_node(g, node, k)->type);
    }
    return reads;
}

static inline bool gx_graph_ok(const gx_graph *g)
{
    return g->err.code == GX_OK;
}

gx_code gx_graph_create(gx_mem *mem, const gx_syntax *syntax, gx_graph **out, gx_err *err);
void gx_graph_free(gx_graph *g); /* NULL is a no-op */

/* Fail with the place that is being compiled; returns GX_NO_NODE. */
gx_ref gx_graph_fail(gx_graph *g, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Memory of the graph, zeroed; NULL where there is none. */
void *gx_graph_take(gx_graph *g, size_t bytes);
const char *gx_graph_text(gx_graph *g, const char *text);

/* count numbers more in the pool, GX_NO_NODE each; where. */
int32_t gx_graph_pool(gx_graph *g, int32_t count);

/*
** A node as given, with those inputs, at the end of the block g->at; an equal one that is there
** already, and can be seen from the block, takes its place.
*/
gx_ref gx_graph_add(gx_graph *g, const gx_node *node, const gx_ref *inputs, int count);

/* Entries of a sparse node. */
int64_t gx_graph_entries(const gx_graph *g, gx_ref ref);

/* Fails where the node is sparse: what is wanted of it needs it dense. */
bool gx_graph_is_dense(gx_graph *g, gx_ref ref);

/* Result k of a node of several. */
gx_ref gx_graph_part(gx_graph *g, gx_ref ref, int k);

gx_ref gx_graph_number(gx_graph *g, gx_scalar value, bool is_complex);

/* An elementwise function: its dtype and shape, and constants folded. */
gx_ref gx_graph_map(gx_graph *g, gx_map_kind map, gx_scalar alpha, gx_scalar beta, const gx_ref *in,
                    int count);

/* As another dtype; the same node where it is that already. */
gx_ref gx_graph_cast(gx_graph *g, gx_ref ref, gx_number dtype);

int32_t gx_graph_block(gx_graph *g, int32_t parent);

/*
** The value of a 1 x 1 node where it can be known before the program runs; arguments that it comes
** from are pinned.
*/
bool gx_graph_value(gx_graph *g, gx_ref ref, gx_scalar *value);

/* The text of an argument that is a word, the 'fro' of norm(A, 'fro'); NULL: it is none. */
const char *gx_graph_word(const gx_graph *g, gx_ref ref);

/*
** Before it runs (finish.c): what nobody wants is dropped, and each node learns what it is the last
** to use.
*/
void gx_graph_finish(gx_graph *g);

/* Count uses and liveness afresh. */
void gx_graph_count(gx_graph *g);

/* Groups of elementwise functions become one node each (pass_fuse.c). */
void gx_graph_fuse(gx_graph *g);

/* What a node is called in messages: a name, else "what". */
const char *gx_graph_label(const gx_graph *g, gx_ref ref, const char *what);

#endif
