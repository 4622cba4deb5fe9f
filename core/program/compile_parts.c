/*
** Compiling subscripts and literals (see compile.h).
**
** A[i, j], A[0:10, :], A[[0, 2], :]: ranges and numbers that are known become one SLICE; an index
** that is computed, or a list of them, a TAKE of rows or columns.  As in Python a range ends before
** its stop, negative numbers count from the end, and a range that reaches too far is cut; a number
** that does is refused.
*/
#include "compile.h"

#include "../base/convert.h"
#include "ops.h"
#include "shape.h"

#include <string.h>

// Subscripts --------------------------------------------------------------------------------------

/* What is taken of one side: from first on, count, step apart; or by the numbers of a node. */
typedef struct cut {
    int64_t first, count, step;
    gx_ref taken;
} cut;

/* One bound of a range; fallback where it is left out. */
static bool bound(gx_compiler *c, const gx_item *item, int64_t side, int64_t fallback,
                  int64_t least, int64_t most, int64_t *out)
{
    *out = fallback;
    if (item == NULL || item->form == GX_FORM_ABSENT) {
        return true;
    }
    gx_ref ref = gx_compile_expression(c, item);
    gx_compile_at(c, item);
    if (!gx_take_whole(c->g, ref, "a bound", out)) {
        return false;
    }
    *out = *out < 0 ? *out + side : *out;
    *out = gx_max(least, gx_min(most, *out));
    return true;
}

static bool range(gx_compiler *c, const gx_item *item, int64_t side, cut *out)
{
    const gx_item *start = item->first, *stop = start->next, *step = stop->next;
    out->step = 1;
    if (step != NULL && step->form != GX_FORM_ABSENT &&
        !gx_take_whole(c->g, gx_compile_expression(c, step), "a step", &out->step)) {
        return false;
    }
    if (out->step == 0) {
        gx_graph_fail(c->g, "the step of a range must not be 0");
        return false;
    }
    int64_t end, least = out->step > 0 ? 0 : -1, most = out->step > 0 ? side : side - 1;
    if (!bound(c, start, side, out->step > 0 ? 0 : side - 1, least, most, &out->first) ||
        !bound(c, stop, side, out->step > 0 ? side : -1, least, most, &end)) {
        return false;
    }
    int64_t span = out->step > 0 ? end - out->first : out->first - end;
    int64_t width = out->step > 0 ? out->step : -out->step;
    out->count = span > 0 ? gx_ceil_div(span, width) : 0;
    return true;
}

/* One subscript of a side of so many. */
static bool subscript(gx_compiler *c, const gx_item *item, int64_t side, const char *what, cut *out)
{
    gx_graph *g = c->g;
    *out = (cut){.step = 1, .taken = GX_NO_NODE};
    if (item->form == GX_FORM_RANGE) {
        return range(c, item, side, out);
    }
    gx_ref ref = gx_compile_expression(c, item);
    gx_scalar value;
    gx_compile_at(c, item);
    if (ref == GX_NO_NODE) {
        return false;
    }
    const gx_type *type = &g->node[ref].type;
    bool is_number = type->rows == 1 && type->cols == 1;
    bool is_argument = g->node[ref].op->id == GX_OP_OPERAND; // whose number may change
    if (!is_number || is_argument || !gx_graph_value(g, ref, &value)) {
        out->taken = ref;
        out->count = type->rows * type->cols;
        return true;
    }
    if (!gx_take_whole(g, ref, "a subscript", &out->first)) {
        return false;
    }
    int64_t asked = out->first;
    out->first += asked < 0 ? side : 0;
    out->count = 1;
    if (out->first < 0 || out->first >= side) {
        gx_graph_fail(g, "there is no %s %lld: there are %lld", what, (long long)asked,
                      (long long)side);
        return false;
    }
    return true;
}

static gx_ref take(gx_compiler *c, gx_ref base, gx_ref index, int axis)
{
    gx_node node = {.op = gx_op_row(GX_OP_TAKE)};
    gx_ref in[3] = {base, index, gx_graph_number(c->g, (gx_scalar){axis, 0}, false)};
    return in[2] == GX_NO_NODE ? GX_NO_NODE : gx_check_take(c->g, &node, in, 3);
}

static gx_ref slice(gx_compiler *c, gx_ref base, const cut *rows, const cut *cols)
{
    gx_graph *g = c->g;
    const gx_type type = g->node[base].type;
    if (rows->first == 0 && rows->step == 1 && rows->count == type.rows && cols->first == 0 &&
        cols->step == 1 && cols->count == type.cols) {
        return base;
    }
    gx_node node = {
        .op = gx_op_row(GX_OP_SLICE),
        .type = {.rows = rows->count, .cols = cols->count, .dtype = type.dtype},
        .whole = {rows->first, rows->count, rows->step, cols->first, cols->count, cols->step}};
    return gx_graph_add(g, &node, &base, 1);
}

gx_ref gx_compile_index(gx_compiler *c, const gx_item *item)
{
    gx_graph *g = c->g;
    const gx_item *first = item->first->next, *second = first->next;
    gx_ref base = gx_compile_expression(c, item->first);
    cut rows, cols;
    if (base == GX_NO_NODE) {
        return GX_NO_NODE;
    }
    const gx_type type = g->node[base].type;
    const cut all_rows = {0, type.rows, 1, GX_NO_NODE}, all_cols = {0, type.cols, 1, GX_NO_NODE};
    rows = all_rows;
    cols = all_cols;
    if (second == NULL && type.rows == 1) { // of a row: its columns
        second = first;
        first = NULL;
    }
    if ((first != NULL && !subscript(c, first, type.rows, "row", &rows)) ||
        (second != NULL && !subscript(c, second, type.cols, "column", &cols))) {
        return GX_NO_NODE;
    }
    if (rows.taken != GX_NO_NODE) {
        base = take(c, base, rows.taken, 0);
        rows = (cut){0, rows.count, 1, GX_NO_NODE};
    }
    if (base != GX_NO_NODE && cols.taken != GX_NO_NODE) {
        base = take(c, base, cols.taken, 1);
        cols = (cut){0, cols.count, 1, GX_NO_NODE};
    }
    return base == GX_NO_NODE ? base : slice(c, base, &rows, &cols);
}

// Literals ----------------------------------------------------------------------------------------

/* A number written out: 1, -2i, 1+2i. */
static bool written(const gx_item *item, gx_scalar *value, bool *is_complex)
{
    gx_scalar a, b;
    if (item->form == GX_FORM_NUMBER) {
        *value = item->value;
        *is_complex |= item->is_quoted;
        return true;
    }
    bool is_neg = item->form == GX_FORM_CALL && item->is_infix && strcmp(item->text, "neg") == 0;
    bool is_add = item->form == GX_FORM_CALL && item->is_infix && strcmp(item->text, "add") == 0;
    bool is_sub = item->form == GX_FORM_CALL && item->is_infix && strcmp(item->text, "sub") == 0;
    if (is_neg && written(item->first, &a, is_complex)) {
        *value = (gx_scalar){-a.re, -a.im};
        return true;
    }
    if ((is_add || is_sub) && written(item->first, &a, is_complex) &&
        written(item->first->next, &b, is_complex)) {
        *value =
            is_add ? (gx_scalar){a.re + b.re, a.im + b.im} : (gx_scalar){a.re - b.re, a.im - b.im};
        return true;
    }
    return false;
}

static gx_ref literal(gx_compiler *c, int64_t rows, int64_t cols, const double *pairs,
                      bool is_complex)
{
    gx_node node = {.op = gx_op_row(GX_OP_LITERAL),
                    .type = {rows, cols, is_complex ? GX_C128 : GX_F64, 0, false}};
    size_t bytes = (size_t)(rows * cols) * gx_number_bytes(node.type.dtype);
    void *data = gx_graph_take(c->g, bytes + 1);
    if (data == NULL) {
        return GX_NO_NODE;
    }
    gx_convert(GX_C128, pairs, gx_max(1, rows), node.type.dtype, data, gx_max(1, rows), rows, cols);
    node.data = data;
    return gx_graph_add(c->g, &node, NULL, 0);
}

/* All elements into pairs, column-major; false: one is to be computed. */
static bool all_written(const gx_item *list, int64_t rows, int64_t cols, double *pairs,
                        bool *is_complex)
{
    int64_t i = 0, j;
    for (const gx_item *row = list->first; row != NULL; row = row->next, i++) {
        const gx_item *element = cols < 0 ? row : row->first;
        for (j = 0; element != NULL; element = cols < 0 ? NULL : element->next, j++) {
            gx_scalar value;
            if (!written(element, &value, is_complex)) {
                return false;
            }
            pairs[2 * (j * rows + i)] = value.re;
            pairs[2 * (j * rows + i) + 1] = value.im;
        }
    }
    return true;
}

/* Numbers that are to be computed, or matrices (has_any): stacked, at most 100 a side. */
static gx_ref stacked(gx_compiler *c, const gx_item *list, bool is_across, bool has_any)
{
    enum { MOST = 100 };
    gx_ref in[MOST];
    int count = 0;
    for (const gx_item *item = list->first; item != NULL; item = item->next) {
        if (count == MOST) {
            return gx_graph_fail(c->g, "a list with computed elements has at most %d", MOST);
        }
        bool is_row = !is_across && item->form == GX_FORM_LIST;
        in[count] = is_row ? stacked(c, item, true, has_any) : gx_compile_expression(c, item);
        if (in[count] == GX_NO_NODE) {
            return GX_NO_NODE;
        }
        gx_compile_at(c, item);
        const gx_type *type = &c->g->node[in[count]].type;
        if (!is_row && !has_any && type->rows * type->cols != 1) {
            return gx_shape_fail(c->g, in[count],
                                 "an element of a list is a number: hstack and "
                                 "vstack put matrices together");
        }
        count++;
    }
    if (count == 0) {
        return gx_graph_fail(c->g, "there is nothing to put together");
    }
    gx_node node = {.op = gx_op_row(is_across ? GX_OP_HSTACK : GX_OP_VSTACK)};
    return gx_check_stack(c->g, &node, in, count);
}

gx_ref gx_compile_list(gx_compiler *c, const gx_item *list)
{
    bool is_nested = list->count > 0 && list->first->form == GX_FORM_LIST, is_complex = false;
    int64_t rows = list->count, cols = is_nested ? list->first->count : -1;
    for (const gx_item *row = list->first; row != NULL; row = row->next) {
        if ((row->form == GX_FORM_LIST) != is_nested || (is_nested && row->count != cols)) {
            gx_compile_at(c, row);
            return is_nested && row->form == GX_FORM_LIST
                       ? gx_graph_fail(c->g, "this row has %d element%s, the first has %lld",
                                       row->count, row->count == 1 ? "" : "s", (long long)cols)
                       : gx_graph_fail(c->g, "a list holds numbers, or rows of numbers");
        }
    }
    int64_t width = is_nested ? cols : 1;
    void *pairs;
    if (gx_mem_alloc(c->g->mem, (size_t)(rows * width) * 2 * sizeof(double), "a literal", &pairs,
                     &c->g->err) != GX_OK) {
        return GX_NO_NODE;
    }
    bool is_written = all_written(list, rows, cols, pairs, &is_complex);
    gx_compile_at(c, list);
    gx_ref ref = is_written ? literal(c, rows, width, pairs, is_complex) : GX_NO_NODE;
    gx_mem_free(c->g->mem, pairs);
    return is_written ? ref : stacked(c, list, false, false);
}

gx_ref gx_compile_stacks(gx_compiler *c, const gx_item *call)
{
    const gx_item *list = call->first;
    gx_compile_at(c, list);
    if (list->form != GX_FORM_LIST) {
        return gx_graph_fail(c->g, "block takes rows of matrices: block([[A, B], [C, D]])");
    }
    return stacked(c, list, list->count == 0 || list->first->form != GX_FORM_LIST, true);
}
