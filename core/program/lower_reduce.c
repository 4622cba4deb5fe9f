/*
** Reductions and what goes along lines: see lower.h.
**
** Sums, means, least and largest elements are the streamed pass of core/alg, whose bits do not
** depend on threads.  The others are computed a line at a time, in doubles: a column, a row, or the
** whole matrix row by row as NumPy counts.  What memory does not hold is read in strips of rows, as
** often as the reduction has passes; median and quantile want a line as a whole.
*/
#include "../alg/alg.h"
#include "../spectra/alg_eig.h"
#include "lines.h"
#include "lower.h"
#include "values.h"

#include <math.h>
#include <string.h>

// Sums and extremes -------------------------------------------------------------------------------

/* By the streamed pass; false: it has no such reduction. */
static bool by_pass(gx_exec *x, const gx_node *node)
{
    gx_op_id id = node->op->id;
    int64_t axis = node->whole[0];
    bool is_sum = id == GX_OP_SUM || id == GX_OP_MEAN;
    if (!is_sum && (axis >= 0 || (id != GX_OP_MIN && id != GX_OP_MAX))) {
        return false;
    }
    gx_reduce_kind kind = id == GX_OP_MIN   ? GX_REDUCE_MIN
                          : id == GX_OP_MAX ? GX_REDUCE_MAX
                          : axis < 0        ? GX_REDUCE_SUM
                          : axis == 0       ? GX_REDUCE_COL_SUM
                                            : GX_REDUCE_ROW_SUM;
    gx_mat space;
    const gx_mat *A = gx_input_mat(x, node, 0, &space);
    double *out = gx_temp(x, (size_t)gx_reduce_width(kind, A->rows, A->cols) * sizeof *out);
    double over = axis == 0   ? (double)A->rows
                  : axis == 1 ? (double)A->cols
                              : (double)A->rows * (double)A->cols;
    int64_t count = node->type.rows * node->type.cols;
    void *c = out == NULL ? NULL : gx_result(x, node, 0);
    if (c == NULL || gx_alg_reduce(x->run, A, kind, out) != GX_OK) {
        return true;
    }
    if (id == GX_OP_MEAN) {
        for (int64_t k = 0; k < 2 * count; k++) {
            out[k] /= over;
        }
    }
    gx_convert(is_sum ? GX_C128 : GX_F64, out, gx_max(1, count), node->type.dtype, c,
               gx_max(1, count), count, 1);
    return true;
}

/* All elements, row by row: in pieces where the reduction takes them. */
static void reduce_whole(gx_exec *x, const gx_node *node)
{
    gx_type from = gx_input_node(x->g, node, 0)->type;
    gx_lines rows = gx_lines_of_whole(&from), whole = gx_lines_of(&from, -1);
    const void *a = gx_input_data(x, node, 0, from.dtype);
    bool is_folded = gx_tally_can(node->op->id);
    int64_t most = gx_lines_at_once(&rows), n;
    double *line = gx_temp(x, is_folded ? gx_lines_bytes(&rows, most) : gx_lines_bytes(&whole, 1));
    void *work = gx_temp(x, gx_line_work_bytes(node->op->id, whole.length));
    if (a == NULL || line == NULL || work == NULL) {
        return;
    }
    if (!is_folded) {
        gx_lines_gather_whole(x->run, &from, a, line);
        gx_result_number(x, node,
                         gx_line_reduce(x->run, node->op->id, line, whole.length, whole.is_complex,
                                        node->alpha.re, work));
        return;
    }
    gx_tally f = {.op = node->op->id, .is_complex = rows.is_complex};
    do {
        for (int64_t k = 0; k < rows.count && gx_run_poll(x->run) == GX_OK; k += n) {
            n = gx_min(most, rows.count - k);
            gx_lines_gather(&rows, a, k, n, line);
            gx_tally_add(&f, line, n * rows.length);
        }
    } while (gx_tally_next(&f));
    gx_result_number(x, node, gx_tally_value(&f));
}

// Of a matrix that memory does not hold -----------------------------------------------------------

/* Strips of whole rows, from the first to the last; each is a matrix of its own. */
typedef struct strips {
    gx_exec *x;
    const gx_node *node;
    const gx_mat *A;
    gx_reader *reader;
    gx_type type; /* of the one that is there, in doubles */
    int64_t i, height, parts, most;
    double *data, *line; /* line: most rows of it */
} strips;

static bool open_strips(gx_exec *x, const gx_node *node, const gx_mat *A, strips *s)
{
    const gx_mem *mem = x->run->ctx->mem;
    gx_err err = {.code = GX_OK};
    *s = (strips){.x = x, .node = node, .A = A, .parts = gx_dtype_is_complex(A->dtype) ? 2 : 1};
    double row_bytes = (double)A->cols * (double)s->parts * sizeof *s->data;
    double rows = (double)gx_mem_available(mem) / 4 / row_bytes;
    s->height = gx_max(1, rows < (double)A->rows ? (int64_t)rows : A->rows);
    s->height -= s->height > A->tile_rows ? s->height % A->tile_rows : 0;
    s->type = (gx_type){.rows = s->height, .cols = A->cols, .dtype = gx_dtype_wide(A->dtype)};
    gx_lines rows_of_strip = gx_lines_of(&s->type, 1);
    s->most = gx_lines_at_once(&rows_of_strip);
    s->data = gx_temp(x, gx_lines_bytes(&rows_of_strip, s->height));
    s->line = gx_temp(x, gx_lines_bytes(&rows_of_strip, s->most));
    s->i = -s->height;
    if (s->line != NULL && gx_mat_base_stored(A) != NULL) {
        gx_reader_own(x->run->ctx->store, &s->reader, &err);
        gx_run_fail(x->run, &err);
    }
    return gx_ok(x->run);
}

/* The next one; false: there is none, and the next call begins again. */
static bool next_strip(strips *s)
{
    gx_run *run = s->x->run;
    gx_err err = {.code = GX_OK};
    s->i += s->height;
    if (s->i >= s->A->rows || gx_run_poll(run) != GX_OK) {
        s->i = -s->height;
        return false;
    }
    s->type.rows = gx_min(s->height, s->A->rows - s->i);
    gx_mat_read(run, s->A, s->reader, s->i, 0, s->type.rows, s->type.cols, s->type.dtype, s->data,
                s->type.rows, &err);
    return gx_run_fail(run, &err) == GX_OK;
}

/* Each row of the strip into a sum of its own, or all into one. */
static void add_rows(strips *s, gx_tally *one, void *c)
{
    gx_lines rows = gx_lines_of(&s->type, 1);
    for (int64_t k = 0, n; k < rows.count && gx_run_poll(s->x->run) == GX_OK; k += n) {
        n = gx_min(s->most, rows.count - k);
        gx_lines_gather(&rows, s->data, k, n, s->line);
        for (int64_t q = 0; q < n && one == NULL; q++) {
            gx_scalar value =
                gx_line_reduce(s->x->run, s->node->op->id, s->line + q * rows.length * s->parts,
                               rows.length, rows.is_complex, 0, NULL);
            gx_convert(GX_C128, &value, 1, s->node->type.dtype,
                       gx_at(c, s->node->type.dtype, 1, s->i + k + q, 0), 1, 1, 1);
        }
        if (one != NULL) {
            gx_tally_add(one, s->line, n * rows.length);
        }
    }
}

static void add_columns(strips *s, gx_tally *each)
{
    for (int64_t j = 0; j < s->type.cols; j++) {
        gx_tally_add(&each[j], s->data + j * s->type.rows * s->parts, s->type.rows);
    }
}

/* count sums: of the columns, or one; or none. */
static void reduce_strips(strips *s, gx_tally *sums, int64_t count, void *c)
{
    const gx_node *node = s->node;
    bool goes_on = true;
    for (int64_t j = 0; j < count; j++) {
        sums[j] = (gx_tally){.op = node->op->id, .is_complex = s->parts == 2};
    }
    while (goes_on && gx_ok(s->x->run)) {
        while (next_strip(s)) {
            if (node->whole[0] == 0) {
                add_columns(s, sums);
            } else {
                add_rows(s, count == 0 ? NULL : sums, c);
            }
        }
        goes_on = false;
        for (int64_t j = 0; j < count; j++) {
            goes_on = gx_tally_next(&sums[j]);
        }
    }
    for (int64_t j = 0; j < count; j++) {
        gx_scalar value = gx_tally_value(&sums[j]);
        gx_convert(GX_C128, &value, 1, node->type.dtype, gx_at(c, node->type.dtype, 1, j, 0), 1, 1,
                   1);
    }
}

/* false: it is in memory, or fits there, or has to. */
static bool by_strips(gx_exec *x, const gx_node *node)
{
    gx_mat space;
    if (!gx_tally_can(node->op->id) || gx_input_at_hand(x, node, 0) || gx_input_fits(x, node, 0)) {
        return false;
    }
    const gx_mat *A = gx_input_mat(x, node, 0, &space);
    if (A->rows == 0 || A->cols == 0) {
        return false;
    }
    int64_t axis = node->whole[0], count = axis == 0 ? A->cols : axis < 0 ? 1 : 0;
    gx_tally *sums = gx_temp(x, (size_t)gx_max(1, count) * sizeof *sums);
    void *c = gx_result(x, node, 0);
    strips s;
    if (open_strips(x, node, A, &s)) {
        reduce_strips(&s, sums, count, c);
    }
    gx_reader_close(s.reader);
    return true;
}

void gx_lower_reduce(gx_exec *x, const gx_node *node)
{
    if (by_pass(x, node) || by_strips(x, node)) {
        return;
    }
    if (node->whole[0] < 0) {
        reduce_whole(x, node);
        return;
    }
    gx_type from = gx_input_node(x->g, node, 0)->type;
    gx_lines lines = gx_lines_of(&from, node->whole[0]);
    int64_t most = gx_lines_at_once(&lines), parts = lines.is_complex ? 2 : 1, n;
    const void *a = gx_input_data(x, node, 0, from.dtype);
    void *c = gx_result(x, node, 0);
    double *line = gx_temp(x, gx_lines_bytes(&lines, most));
    gx_scalar *value = gx_temp(x, (size_t)most * sizeof *value);
    void *work = gx_temp(x, gx_line_work_bytes(node->op->id, lines.length));
    bool is_there = a != NULL && c != NULL && work != NULL;
    for (int64_t k = 0; k < lines.count && is_there && gx_run_poll(x->run) == GX_OK; k += n) {
        n = gx_min(most, lines.count - k);
        gx_lines_gather(&lines, a, k, n, line);
        for (int64_t q = 0; q < n; q++) {
            value[q] = gx_line_reduce(x->run, node->op->id, line + q * lines.length * parts,
                                      lines.length, lines.is_complex, node->alpha.re, work);
        }
        gx_convert(GX_C128, value, n, node->type.dtype, gx_at(c, node->type.dtype, 1, k, 0), n, n,
                   1);
    }
}

void gx_lower_along(gx_exec *x, const gx_node *node)
{
    gx_type from = gx_input_node(x->g, node, 0)->type;
    gx_lines lines = gx_lines_of(&from, node->whole[0]);
    int64_t most = gx_lines_at_once(&lines), parts = lines.is_complex ? 2 : 1, n;
    const void *a = gx_input_data(x, node, 0, from.dtype);
    void *c = gx_result(x, node, 0);
    double *line = gx_temp(x, gx_lines_bytes(&lines, most));
    void *work = gx_temp(x, gx_line_work_bytes(node->op->id, lines.length));
    bool is_there = a != NULL && c != NULL && work != NULL;
    lines.count = lines.length > 0 ? lines.count : 0; // however many empty ones
    for (int64_t k = 0; k < lines.count && is_there && gx_run_poll(x->run) == GX_OK; k += n) {
        n = gx_min(most, lines.count - k);
        gx_lines_gather(&lines, a, k, n, line);
        for (int64_t q = 0; q < n; q++) {
            gx_line_along(x->run, node->op->id, line + q * lines.length * parts, lines.length,
                          lines.is_complex, work);
        }
        gx_lines_scatter(&lines, &node->type, c, k, n, line);
    }
}

void gx_lower_norm(gx_exec *x, const gx_node *node)
{
    gx_mat space;
    const gx_mat *A = gx_input_mat(x, node, 0, &space);
    double norm = 0;
    char kind = (char)node->whole[0];
    if (kind == '2' || kind == 'N') {
        gx_alg_singular_norm(x->run, A, kind == 'N', &norm);
    } else {
        gx_alg_norm(x->run, A, kind, &norm);
    }
    gx_result_number(x, node, (gx_scalar){norm, 0});
}
