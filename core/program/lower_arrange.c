/*
** The same elements at other places: see lower.h.
*/
#include "lower.h"
#include "values.h"

#include <math.h>
#include <string.h>

/* Where element (i, j) of the result comes from; false: it is 0. */
static bool origin(const gx_node *node, const gx_type *from, int64_t i, int64_t j, int64_t *row,
                   int64_t *col)
{
    const gx_type *t = &node->type;
    int64_t axis = node->whole[0], by = node->whole[1], place;
    *row = i;
    *col = j;
    switch (node->op->id) {
    case GX_OP_TRIU:
        return j - i >= node->whole[0];
    case GX_OP_TRIL:
        return j - i <= node->whole[0];
    case GX_OP_RESHAPE:
        place = i * t->cols + j;
        *row = place / from->cols;
        *col = place % from->cols;
        return true;
    case GX_OP_FLIP:
        *row = axis != 1 ? t->rows - 1 - i : i;
        *col = axis != 0 ? t->cols - 1 - j : j;
        return true;
    case GX_OP_ROLL:
        *row = axis == 0 ? ((i - by % t->rows) % t->rows + t->rows) % t->rows : i;
        *col = axis == 1 ? ((j - by % t->cols) % t->cols + t->cols) % t->cols : j;
        return true;
    case GX_OP_REPEATED:
        *row = axis == 0 ? i / by : i;
        *col = axis == 1 ? j / by : j;
        return true;
    default: // TILE
        *row = i % from->rows;
        *col = j % from->cols;
        return true;
    }
}

void gx_lower_arrange(gx_exec *x, const gx_node *node)
{
    const gx_type from = gx_input_node(x->g, node, 0)->type, *t = &node->type;
    const char *a = gx_input_data(x, node, 0, t->dtype);
    void *c = gx_result(x, node, 0);
    size_t element = gx_dtype_bytes(t->dtype);
    int64_t ld = gx_max(1, from.rows);
    for (int64_t j = 0; j < t->cols && t->rows > 0 && a != NULL && c != NULL; j++) {
        char *to = gx_at(c, t->dtype, t->rows, 0, j);
        for (int64_t i = 0; i < t->rows; i++, to += element) {
            int64_t row, col;
            if (origin(node, &from, i, j, &row, &col)) {
                memcpy(to, a + (size_t)(col * ld + row) * element, element);
            } else {
                memset(to, 0, element);
            }
        }
        if (gx_run_poll(x->run) != GX_OK) {
            return;
        }
    }
}

void gx_lower_diag(gx_exec *x, const gx_node *node)
{
    const gx_type from = gx_input_node(x->g, node, 0)->type, *t = &node->type;
    const char *a = gx_input_data(x, node, 0, t->dtype);
    char *c = gx_result(x, node, 0);
    size_t element = gx_dtype_bytes(t->dtype);
    bool is_made = node->whole[0] != 0;
    if (a == NULL || c == NULL) {
        return;
    }
    if (is_made) {
        memset(c, 0, (size_t)(t->rows * t->cols) * element);
    }
    for (int64_t k = 0; k < t->rows; k++) {
        int64_t place = is_made ? k * t->rows + k : k;
        int64_t taken = is_made ? k : k * from.rows + k;
        memcpy(c + (size_t)place * element, a + (size_t)taken * element, element);
    }
}

/* Number k of an index; false: the run has failed. */
static bool index_of(gx_exec *x, double number, int64_t side, const char *what, int64_t *out)
{
    double from_end = number < 0 ? number + (double)side : number;
    if (!(from_end >= 0 && from_end < (double)side) || from_end != floor(from_end)) {
        gx_run_failf(x->run, GX_ARG, "there is no %s %g: there are %lld", what, number,
                     (long long)side);
        return false;
    }
    *out = (int64_t)from_end;
    return true;
}

void gx_lower_take(gx_exec *x, const gx_node *node)
{
    const gx_type from = gx_input_node(x->g, node, 0)->type, *t = &node->type;
    bool is_rows = node->whole[0] == 0;
    const char *a = gx_input_data(x, node, 0, t->dtype);
    const double *index = gx_input_data(x, node, 1, GX_F64);
    char *c = gx_result(x, node, 0);
    size_t element = gx_dtype_bytes(t->dtype);
    int64_t count = is_rows ? t->rows : t->cols, k, ld = gx_max(1, from.rows);
    for (int64_t q = 0; q < count && a != NULL && index != NULL && c != NULL; q++) {
        if (!index_of(x, index[q], is_rows ? from.rows : from.cols, is_rows ? "row" : "column",
                      &k)) {
            return;
        }
        if (!is_rows) {
            memcpy(c + (size_t)(q * t->rows) * element, a + (size_t)(k * ld) * element,
                   (size_t)t->rows * element);
            continue;
        }
        for (int64_t j = 0; j < t->cols; j++) {
            memcpy(c + (size_t)(j * t->rows + q) * element, a + (size_t)(j * ld + k) * element,
                   element);
        }
    }
}

void gx_lower_stack(gx_exec *x, const gx_node *node)
{
    const gx_type *t = &node->type;
    void *c = gx_result(x, node, 0);
    int64_t i = 0, j = 0;
    for (int k = 0; k < node->count && c != NULL && gx_ok(x->run); k++) {
        gx_type from = gx_input_node(x->g, node, k)->type;
        const void *a = gx_input_data(x, node, k, from.dtype);
        if (a != NULL) {
            gx_convert(from.dtype, a, gx_max(1, from.rows), t->dtype,
                       gx_at(c, t->dtype, gx_max(1, t->rows), i, j), gx_max(1, t->rows), from.rows,
                       from.cols);
        }
        i += node->op->id == GX_OP_VSTACK ? from.rows : 0;
        j += node->op->id == GX_OP_HSTACK ? from.cols : 0;
    }
}
