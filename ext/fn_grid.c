/*
** Grids in SQL (core/grid/grid.h):
**
**   gx_label(G[, destination][, options])             connected components
**   gx_objects(G[, options])                          the table of them
**   gx_grid_NAME(G, ...[, destination][, options])    an operation of GX_GRID_OPS
**   gx_grid_subgrid(G, M[, destination][, options])   the box of M, cut out
**   gx_grid_compress(G[, destination][, options])     without rows and columns of one colour
**
** A batch is said by "grid_rows", the height of each grid, or "grids", a table of them.
*/
#include "../core/alg/dense.h"
#include "../core/grid/grid.h"
#include "table_fn.h"

#include <string.h>

typedef struct grid_options {
    bool is_given; /* first: an offset of 0 means none */
    const char *grids;
    int64_t grid_rows, neighbours;
    bool has_rows;
    int by;
} grid_options;

#define BATCH_KEYS                                                                                 \
    {"grids", GX_OPT_MATRIX, offsetof(grid_options, grids), 0},                                    \
    {                                                                                              \
        "grid_rows=[1,inf]", GX_OPT_INT, offsetof(grid_options, grid_rows),                        \
            offsetof(grid_options, has_rows)                                                       \
    }

static const gx_option batch_keys[] = {BATCH_KEYS, {NULL, GX_OPT_END, 0, 0}};

static const gx_option label_keys[] = {
    BATCH_KEYS,
    {"neighbours", GX_OPT_INT, offsetof(grid_options, neighbours), 0},
    {"by=" GX_GRID_BY_WORDS, GX_OPT_WORD, offsetof(grid_options, by), 0},
    {NULL, GX_OPT_END, 0, 0},
};

/* Options of labels, and argument 0. */
static bool take_label(gx_fn *fn, grid_options *opt, gx_label_rule *rule, gx_mat *A)
{
    opt->neighbours = 4;
    if (!gx_fn_options(fn, label_keys, opt) || !gx_fn_matrix(fn, 0, "G", A)) {
        return false;
    }
    *rule = (gx_label_rule){(int)opt->neighbours, (gx_grid_by)opt->by};
    return opt->neighbours == 4 || opt->neighbours == 8 ||
           gx_fn_fail(fn, "neighbours must be 4 or 8, not %lld", (long long)opt->neighbours);
}

/* The grids in A, which belong to the call. */
static bool take_batch(gx_fn *fn, const grid_options *opt, const gx_mat *A, gx_grid_batch *batch)
{
    gx_mat table;
    if (opt->has_rows && opt->grids != NULL) {
        return gx_fn_fail(fn, "\"grids\" and \"grid_rows\" exclude each other");
    }
    if (opt->grids != NULL) {
        if (!gx_fn_option_matrix(fn, "grids", opt->grids, &table)) {
            return false;
        }
        gx_grid_batch_table(&fn->run, A, &table, batch);
    } else if (opt->has_rows) {
        gx_grid_batch_even(&fn->run, A, opt->grid_rows, batch);
    } else {
        gx_grid_batch_one(&fn->run, A, batch);
    }
    return (batch->place == NULL || gx_fn_own(fn, batch->place)) && gx_ok(&fn->run);
}

/* A result of A's shape: masks are of bool, labels of u32, colours as A's where these are whole. */
static void begin_grid(gx_fn *fn, const gx_mat *A, gx_grid_result result, gx_sink *C)
{
    int64_t tile_rows, tile_cols;
    gx_dest *dest = &fn->dest;
    bool is_whole = result != GX_GRID_COLOURS || gx_dtype_is_whole(A->dtype);
    if (!dest->has_dtype && dest->place == NULL && (is_whole || A->number == GX_F32)) {
        dest->has_dtype = true;
        dest->dtype = result == GX_GRID_MASK     ? GX_DTYPE_BOOL
                      : result == GX_GRID_LABELS ? GX_DTYPE_U32
                                                 : A->dtype;
    }
    dest->is_streamed = true;
    gx_label_tiles(&fn->run, A, &tile_rows, &tile_cols);
    gx_sink_begin(&fn->run, dest, A->rows, A->cols, GX_F64, 0, tile_rows, tile_cols, C);
}

static void label(gx_fn *fn)
{
    grid_options opt = {0};
    gx_mat A;
    gx_grid_call call = {.id = GX_GRID_LABEL, .in = {&A}};
    gx_sink C;
    if (!take_label(fn, &opt, &call.rule, &A) || !take_batch(fn, &opt, &A, &call.batch)) {
        return;
    }
    begin_grid(fn, &A, GX_GRID_LABELS, &C);
    if (opt.has_rows || opt.grids != NULL) {
        gx_grid_run(&fn->run, &call, &C);
    } else {
        gx_grid_label(&fn->run, &A, &call.rule, &C);
    }
    gx_fn_result_sink(fn, &C);
}

// Operations --------------------------------------------------------------------------------------

/* What the arguments of each operation are called: "G, i, j". */
static const char *const arguments[GX_GRID_COUNT] = {[GX_GRID_LABEL] = "G",
#define ROW(X, ID, NAME, ARGUMENTS, ...) [GX_GRID_##ID] = ARGUMENTS,
                                                     GX_GRID_OPS(ROW, )
#undef ROW
};

/* Argument k's name, with a NUL behind it. */
static const char *name_of(gx_grid_id id, int k, char name[16])
{
    const char *from = arguments[id];
    for (; k > 0; k--) {
        from += strcspn(from, ",") + 2;
    }
    size_t length = strcspn(from, ",");
    memcpy(name, from, length);
    name[length] = '\0';
    return name;
}

/* The arguments of call->id: matrices into in[], numbers into call. */
static bool take_arguments(gx_fn *fn, gx_grid_call *call, gx_mat in[2])
{
    const char *kinds = gx_grid_kinds(call->id);
    int numbers = 0, matrices = 0;
    char name[16];
    for (int k = 0; kinds[k] != '\0'; k++) {
        name_of(call->id, k, name);
        bool is_number = kinds[k] == 'i';
        if (is_number ? !gx_fn_int(fn, k, name, &call->number[numbers++])
                      : !gx_fn_matrix(fn, k, name, &in[matrices++])) {
            return false;
        }
    }
    call->in[0] = &in[0];
    call->in[1] = matrices > 1 ? &in[1] : NULL;
    return true;
}

static void operate(gx_fn *fn)
{
    grid_options opt = {0};
    gx_mat in[2];
    gx_sink C;
    gx_grid_call call = {.id = (gx_grid_id)fn->def->variant};
    gx_grid_result result = gx_grid_result_of(call.id);
    if (!gx_fn_options(fn, batch_keys, &opt) || !take_arguments(fn, &call, in) ||
        !take_batch(fn, &opt, &in[0], &call.batch) ||
        !gx_fn_check(fn, gx_grid_check(&call, &fn->err))) {
        return;
    }
    if (result != GX_GRID_NUMBER) {
        begin_grid(fn, &in[0], result, &C);
    } else {
        gx_sink_begin(&fn->run, &fn->dest, call.batch.count, 1, GX_F64, 0, 0, 0, &C);
    }
    gx_grid_run(&fn->run, &call, &C);
    bool is_batch = opt.has_rows || opt.grids != NULL;
    if (result != GX_GRID_NUMBER || is_batch || fn->dest.name != NULL || fn->dest.has_dtype ||
        !gx_ok(&fn->run)) {
        gx_fn_result_sink(fn, &C);
    } else {
        gx_fn_result_scalar(fn, (gx_scalar){*(const double *)C.value.data, 0}, false);
        gx_sink_drop(&C);
    }
}

// Parts -------------------------------------------------------------------------------------------

static void subgrid(gx_fn *fn)
{
    gx_mat G, M, part;
    gx_sink C;
    gx_grid_window box = {0};
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "G", &G) ||
        !gx_fn_matrix(fn, 1, "M", &M) || gx_grid_box_of(&fn->run, &M, &box) != GX_OK) {
        return;
    }
    if (M.rows != G.rows || M.cols != G.cols) {
        gx_fn_fail(fn, "%s is %lldx%lld but %s %lldx%lld", G.label, (long long)G.rows,
                   (long long)G.cols, M.label, (long long)M.rows, (long long)M.cols);
    } else if (box.top >= box.bottom) {
        gx_fn_fail(fn, "%s is 0 everywhere: there is no box of it", M.label);
    } else {
        gx_mat_view(&part, &G, GX_NO_TRANS, box.top, box.left, box.bottom - box.top,
                    box.right - box.left);
        gx_dest dest = gx_dest_like(&fn->dest, &part);
        gx_copy_any(&fn->run, &part, &dest, 0, &C);
        gx_fn_result_sink(fn, &C);
    }
}

static void compress(gx_fn *fn)
{
    gx_mat G;
    gx_sink C;
    double *x;
    int64_t m, n;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "G", &G) ||
        gx_grid_compressed(&fn->run, &G, &x, &m, &n) != GX_OK || !gx_fn_own(fn, x)) {
        return;
    }
    if (!fn->dest.has_dtype && gx_dtype_is_whole(G.dtype)) {
        fn->dest.has_dtype = true;
        fn->dest.dtype = G.dtype;
    }
    gx_sink_begin(&fn->run, &fn->dest, m, n, GX_F64, 0, 0, 0, &C);
    if (gx_ok(&fn->run)) {
        gx_dense_write(&fn->run, &C, x, gx_max(1, m));
    }
    gx_fn_result_sink(fn, &C);
}

const gx_function gx_functions_grid[] = {
    {"gx_label", 1, 3, GX_MADE(1), label, 0},
#define ROW(X, ID, NAME, ARGUMENTS, KINDS, ...)                                                    \
    {"gx_grid_" NAME, sizeof(KINDS) - 1, sizeof(KINDS) + 1, GX_MADE(sizeof(KINDS) - 1),            \
     operate,         GX_GRID_##ID},
    GX_GRID_OPS(ROW, )
#undef ROW
        {"gx_grid_subgrid", 2, 4, GX_MADE(2), subgrid, 0},
    {"gx_grid_compress", 1, 3, GX_MADE(1), compress, 0},
    {.name = NULL},
};

// Objects -----------------------------------------------------------------------------------------

typedef struct object_table {
    gx_mem *mem;
    gx_grid_objects found;
} object_table;

static bool begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    object_table *t = state;
    grid_options opt = {0};
    gx_label_rule rule;
    gx_grid_batch batch;
    gx_mat A;
    (void)used;
    t->mem = fn->ctx->mem;
    if (!take_label(fn, &opt, &rule, &A) || !take_batch(fn, &opt, &A, &batch)) {
        return false;
    }
    gx_grid_find_objects(&fn->run, &A, &batch, &rule, &t->found);
    *rows = t->found.count;
    return gx_ok(&fn->run);
}

enum { GRID, OBJECT, COLOUR, CELLS, TOP, LEFT, HEIGHT, WIDTH, CENTRE_ROW, CENTRE_COL, COLUMNS };

static gx_cell cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    const gx_grid_object *o = &((object_table *)state)->found.object[row];
    const gx_cell none = {0};
    (void)ctx;
    switch (column) {
    case GRID:
        return gx_cell_int(o->grid);
    case OBJECT:
        return gx_cell_int(o->label);
    case COLOUR:
        return o->is_mixed ? none : gx_cell_int(o->colour);
    case CELLS:
        return gx_cell_int(o->cells);
    case TOP:
        return gx_cell_int(o->top);
    case LEFT:
        return gx_cell_int(o->left);
    case HEIGHT:
        return gx_cell_int(o->bottom - o->top + 1);
    case WIDTH:
        return gx_cell_int(o->right - o->left + 1);
    case CENTRE_ROW:
        return gx_cell_real((double)o->row_sum / (double)o->cells);
    default:
        return gx_cell_real((double)o->col_sum / (double)o->cells);
    }
}

static void clear(void *state)
{
    object_table *t = state;
    if (t->mem != NULL) {
        gx_mem_free(t->mem, t->found.object);
    }
}

const gx_table_fn gx_table_objects = {
    .def = {"gx_objects", 1, 2, 0, NULL, 0},
    .shape = "CREATE TABLE x(grid INTEGER, object INTEGER, colour INTEGER, cells INTEGER, "
             "top INTEGER, left INTEGER, height INTEGER, width INTEGER, centre_row REAL, "
             "centre_col REAL, g HIDDEN, options HIDDEN)",
    .columns = COLUMNS,
    .state_bytes = sizeof(object_table),
    .begin = begin,
    .cell = cell,
    .clear = clear,
};
