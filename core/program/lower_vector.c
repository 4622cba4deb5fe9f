/*
** What is made of vectors: see lower.h.
*/
#include "lines.h"
#include "lower.h"
#include "order.h"
#include "values.h"

#include <math.h>
#include <string.h>

/* A complex product. */
static void multiply(const double *a, const double *b, double *c)
{
    double re = a[0] * b[0] - a[1] * b[1];
    c[1] = a[0] * b[1] + a[1] * b[0];
    c[0] = re;
}

/* Element (i, j), of operands as complex doubles. */
static void form(const gx_node *node, const double *a, const double *b, int64_t i, int64_t j,
                 double out[2])
{
    double second[2];
    if (node->op->id == GX_OP_TOEPLITZ) {
        memcpy(out, i >= j ? a + 2 * (i - j) : b + 2 * (j - i), 2 * sizeof *out);
    } else if (node->op->id == GX_OP_VANDER) {
        out[0] = 1;
        out[1] = 0;
        for (int64_t p = 0; p < node->type.cols - 1 - j; p++) {
            multiply(out, a + 2 * i, out);
        }
    } else {
        int64_t k = i + j, u = (k + 1) % 3, v = (k + 2) % 3;
        multiply(a + 2 * u, b + 2 * v, out);
        multiply(a + 2 * v, b + 2 * u, second);
        out[0] -= second[0];
        out[1] -= second[1];
    }
}

void gx_lower_formed(gx_exec *x, const gx_node *node)
{
    const gx_type *t = &node->type;
    const double *a = gx_input_data(x, node, 0, GX_C128);
    const double *b = gx_input_data(x, node, node->count - 1, GX_C128);
    void *c = gx_result(x, node, 0);
    int64_t ld = gx_max(1, t->rows);
    bool is_there = t->rows > 0 && a != NULL && b != NULL && c != NULL;
    for (int64_t j = 0; j < t->cols && is_there; j++) {
        for (int64_t i = 0; i < t->rows; i++) {
            double element[2];
            form(node, a, b, i, j, element);
            gx_convert(GX_C128, element, 1, t->dtype, gx_at(c, t->dtype, ld, i, j), ld, 1, 1);
        }
        if (gx_run_poll(x->run) != GX_OK) {
            return;
        }
    }
}

/* The order of all elements, descending, into order; NaN first. */
static void descending(gx_run *run, const double *line, int64_t length, double *order, void *work)
{
    for (int64_t k = 0; k < length; k++) {
        order[k] = -line[k];
    }
    gx_line_along(run, GX_OP_ARGSORT, order, length, false, work);
}

void gx_lower_topk(gx_exec *x, const gx_node *node)
{
    gx_type from = gx_input_node(x->g, node, 0)->type;
    gx_lines lines = gx_lines_of(&from, -1);
    const void *a = gx_input_data(x, node, 0, from.dtype);
    double *line = gx_temp(x, (size_t)gx_max(1, lines.length) * 2 * sizeof *line);
    double *order = gx_temp(x, (size_t)gx_max(1, lines.length) * 2 * sizeof *order);
    void *work = gx_temp(x, gx_order_bytes(lines.length));
    if (a == NULL || line == NULL || order == NULL || work == NULL) {
        return;
    }
    gx_line_gather(&lines, a, 0, line);
    if (node->op->id == GX_OP_UNIQUE_COUNT) {
        int64_t count = 0;
        gx_line_along(x->run, GX_OP_SORT, line, lines.length, false, work);
        for (int64_t k = 0; k < lines.length; k++) {
            count += k == 0 || !(line[k] == line[k - 1] || (isnan(line[k]) && isnan(line[k - 1])));
        }
        gx_result_number(x, node, (gx_scalar){(double)count, 0});
        return;
    }
    descending(x->run, line, lines.length, order, work);
    void *values = gx_wants(x, node, 0) ? gx_result(x, node, 0) : NULL;
    void *places = gx_wants(x, node, 1) ? gx_result(x, node, 1) : NULL;
    for (int64_t k = 0; k < node->type.rows && gx_ok(x->run); k++) {
        if (values != NULL) {
            gx_convert(GX_F64, &line[(int64_t)order[k]], 1, node->type.dtype,
                       gx_at(values, node->type.dtype, 1, k, 0), 1, 1, 1);
        }
        if (places != NULL) {
            memcpy(gx_at(places, GX_F64, 1, k, 0), &order[k], sizeof order[k]);
        }
    }
}
