/*
** The same elements at other places: see lower.h.
*/
#include "../alg/dense.h"
#include "../run/call.h"
#include "lower.h"
#include "values.h"
#include "views.h"

#include <math.h>
#include <string.h>

/* What an operation moves: a column of the result at a time. */
typedef struct moving {
    const gx_node *node;
    gx_type from;
    const char *a; /* the operand's columns from `first` on */
    size_t element;
    char *c; /* the result's from `begin` on */
    int64_t first, begin;
    int64_t rows;   /* of the result's columns that are made                          */
    int64_t offset; /* RESHAPE: numbers of the operand's first row that come before   */
} moving;

static const char *element_of(const moving *m, int64_t i, int64_t j)
{
    return m->a + (size_t)((j - m->first) * gx_max(1, m->from.rows) + i) * m->element;
}

/* Columns j to end, not included, of a result. */
typedef void (*columns_fn)(const void *arg, int64_t j, int64_t end);

typedef struct columns {
    columns_fn make;
    const void *arg;
    int64_t cols, width; /* all, and those of a piece */
} columns;

static gx_code make_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const columns *c = arg;
    (void)member;
    (void)err;
    c->make(c->arg, piece * c->width, gx_min(c->cols, (piece + 1) * c->width));
    return GX_OK;
}

/* All columns of a result that has memory. */
static void make_columns(gx_exec *x, const gx_type *t, columns_fn make, const void *arg)
{
    const int64_t PIECE_BYTES = 256 << 10;
    const double MOVED = 0.25; // of the time of an element that is looked at
    int64_t column = gx_max(1, t->rows * (int64_t)gx_number_bytes(t->dtype));
    columns c = {make, arg, t->cols, gx_max(1, PIECE_BYTES / column)};
    gx_run_pieces(x->run, MOVED * (double)t->rows * (double)t->cols,
                  t->rows > 0 ? gx_ceil_div(t->cols, c.width) : 0, make_piece, &c);
}

/* k modulo n, from 0. */
static int64_t modulo(int64_t k, int64_t n)
{
    return (k % n + n) % n;
}

/* count elements, `step` of them apart where they come from. */
static void copy_apart(char *to, const char *from, int64_t step, int64_t count, size_t element)
{
    for (int64_t i = 0; i < count; i++, to += element, from += step * (int64_t)element) {
        switch (element) { // the compiler knows how to move these
        case 4:
            memcpy(to, from, 4);
            break;
        case 8:
            memcpy(to, from, 8);
            break;
        default:
            memcpy(to, from, 16);
        }
    }
}

/* A column of those above, or below, a diagonal: the others are 0. */
static void move_triangle(const moving *m, int64_t j, char *to)
{
    int64_t rows = m->node->type.rows, k = m->node->whole[0];
    bool is_upper = m->node->op->id == GX_OP_TRIU;
    int64_t edge = j - k + (is_upper ? 1 : 0); // the first row that is 0, or is not
    edge = gx_max(0, gx_min(edge, rows));
    size_t above = (size_t)edge * m->element, below = (size_t)(rows - edge) * m->element;
    memcpy(is_upper ? to : to + above, element_of(m, is_upper ? 0 : edge, j),
           is_upper ? above : below);
    memset(is_upper ? to + above : to, 0, is_upper ? below : above);
}

/*
** Both matrices row by row are the same numbers: a step down in the result is t->cols numbers on in
** the operand, some rows and columns.  element is a constant.
*/
static inline void walk_reshaped(size_t element, const moving *m, int64_t j, char *to)
{
    const gx_type *t = &m->node->type;
    const int64_t cols = m->from.cols, ld = gx_max(1, m->from.rows), step = t->cols % cols;
    const int64_t on = (step * ld + t->cols / cols) * (int64_t)element;
    const int64_t back = (1 - cols * ld) * (int64_t)element; // to the next row's start
    int64_t col = (j + m->offset) % cols;
    const char *from = element_of(m, (j + m->offset) / cols, col);
    for (int64_t i = 0; i < m->rows; i++, to += element) {
        memcpy(to, from, element);
        bool is_past = col + step >= cols;
        if (i + 1 < m->rows) {
            from += on + (is_past ? back : 0);
        }
        col += step - (is_past ? cols : 0);
    }
}

static void move_reshaped(const moving *m, int64_t j, char *to)
{
    switch (m->element) {
    case 4:
        walk_reshaped(4, m, j, to);
        break;
    case 8:
        walk_reshaped(8, m, j, to);
        break;
    default:
        walk_reshaped(16, m, j, to);
    }
}

/* Column j of the result, whole columns of the operand or parts of them. */
static void move_column(const moving *m, int64_t j, char *to)
{
    const gx_type *t = &m->node->type;
    int64_t axis = m->node->whole[0], by = m->node->whole[1], rows = m->from.rows;
    size_t bytes = (size_t)rows * m->element;
    switch (m->node->op->id) {
    case GX_OP_TRIU:
    case GX_OP_TRIL:
        move_triangle(m, j, to);
        return;
    case GX_OP_RESHAPE:
        move_reshaped(m, j, to);
        return;
    case GX_OP_FLIP:
        j = axis != 0 ? t->cols - 1 - j : j;
        copy_apart(to, element_of(m, axis != 1 ? rows - 1 : 0, j), axis != 1 ? -1 : 1, rows,
                   m->element);
        return;
    case GX_OP_ROLL: {
        int64_t down = axis == 0 ? modulo(by, rows) : 0;
        j = axis == 1 ? modulo(j - by % t->cols, t->cols) : j;
        memcpy(to + (size_t)down * m->element, element_of(m, 0, j),
               (size_t)(rows - down) * m->element);
        memcpy(to, element_of(m, rows - down, j), (size_t)down * m->element);
        return;
    }
    case GX_OP_REPEATED:
        if (axis == 1) {
            memcpy(to, element_of(m, 0, j / by), bytes);
            return;
        }
        for (int64_t i = 0; i < rows; i++, to += (size_t)by * m->element) {
            copy_apart(to, element_of(m, i, j), 0, by, m->element);
        }
        return;
    default: // TILE
        for (int64_t i = 0; i < t->rows; i += rows, to += bytes) {
            memcpy(to, element_of(m, 0, j % m->from.cols), bytes);
        }
    }
}

static void move_columns(const void *arg, int64_t j, int64_t end)
{
    const moving *m = arg;
    for (; j < end; j++) {
        move_column(m, j, m->c + (size_t)((j - m->begin) * m->rows) * m->element);
    }
}

/* The operand's column that column j of the result is made of. */
static int64_t column_of(const moving *m, int64_t j)
{
    int64_t axis = m->node->whole[0], by = m->node->whole[1], cols = m->node->type.cols;
    switch (m->node->op->id) {
    case GX_OP_SLICE:
        return m->node->whole[3] + j * m->node->whole[5];
    case GX_OP_FLIP:
        return axis != 0 ? cols - 1 - j : j;
    case GX_OP_ROLL:
        return axis == 1 ? modulo(j - by % cols, cols) : j;
    case GX_OP_REPEATED:
        return axis == 1 ? j / by : j;
    case GX_OP_TILE:
        return j % m->from.cols;
    default:
        return j;
    }
}

/*
** Columns j to end of the result, of those of the operand that lie within so many: they are read.
** How far that goes.
*/
static int64_t move_some(gx_exec *x, moving *m, const gx_mat *A, gx_reader *reader, int64_t j,
                         int64_t end, int64_t most, columns_fn make)
{
    int64_t low = column_of(m, j), high = low, next = j + 1;
    for (; next < end; next++) {
        int64_t k = column_of(m, next);
        if (gx_max(high, k) - gx_min(low, k) >= most) {
            break;
        }
        low = gx_min(low, k);
        high = gx_max(high, k);
    }
    gx_err err = {.code = GX_OK};
    gx_number dtype = m->node->type.dtype;
    gx_mat_read(x->run, A, reader, 0, low, m->from.rows, high - low + 1, dtype,
                (void *)(uintptr_t)m->a, gx_max(1, m->from.rows), &err);
    if (gx_run_fail(x->run, &err) == GX_OK) {
        m->first = low;
        make(m, j, next);
    }
    return next;
}

/* RESHAPE: strips of rows, which are the same numbers as some rows of the operand. */
static void reshape_strips(gx_exec *x, moving *m, const gx_mat *A)
{
    const gx_type *t = &m->node->type;
    const gx_type whole = m->from;
    size_t row = (size_t)t->cols * m->element;
    int64_t height;
    gx_sink *C = gx_result_strips(x, m->node, 1, 2 * row, &height);
    void *a = gx_temp(x, row * (size_t)height + 2 * (size_t)whole.cols * m->element);
    gx_reader *reader = gx_source_reader(x, A);
    gx_err err = {.code = GX_OK};
    m->a = a;
    m->c = gx_temp(x, row * (size_t)height);
    for (int64_t i = 0; i < t->rows && gx_run_poll(x->run) == GX_OK; i += height) {
        m->rows = gx_min(height, t->rows - i);
        int64_t first = i * t->cols / whole.cols;
        int64_t end = gx_ceil_div((i + m->rows) * t->cols, whole.cols);
        m->from.rows = end - first;
        m->offset = i * t->cols - first * whole.cols;
        if (gx_mat_read(x->run, A, reader, first, 0, end - first, whole.cols, t->dtype, a,
                        end - first, &err) == GX_OK) {
            move_columns(m, 0, t->cols);
            gx_sink_write(C, i, 0, m->rows, t->cols, m->c, m->rows, &err);
        }
        gx_run_fail(x->run, &err);
    }
    gx_reader_close(reader);
}

/* Of an operand that memory does not hold: strips of the result's columns.  false: it is there. */
static bool by_strips(gx_exec *x, const gx_node *node, columns_fn make)
{
    const gx_type *t = &node->type;
    gx_mat space;
    if (t->rows == 0 || t->cols == 0) {
        gx_result(x, node, 0);
        return true;
    }
    if (gx_input_at_hand(x, node, 0) || gx_input_fits(x, node, 0)) {
        return false;
    }
    moving m = {.node = node, .from = gx_input_node(x->g, node, 0)->type, .rows = t->rows};
    const gx_mat *A = gx_input_mat(x, node, 0, &space);
    m.element = gx_number_bytes(t->dtype);
    if (node->op->id == GX_OP_RESHAPE) {
        reshape_strips(x, &m, A);
        return true;
    }
    size_t in = (size_t)m.from.rows * m.element, out = (size_t)t->rows * m.element;
    int64_t cols;
    gx_sink *C = gx_result_strips(x, node, 0, in + out, &cols);
    int64_t most = gx_max(1, gx_min(cols, m.from.cols));
    m.a = gx_temp(x, in * (size_t)most + 1);
    m.c = gx_temp(x, out * (size_t)cols + 1);
    gx_reader *reader = gx_source_reader(x, A);
    gx_err err = {.code = GX_OK};
    for (int64_t j = 0; j < t->cols && gx_ok(x->run); j += cols) {
        int64_t end = gx_min(t->cols, j + cols);
        m.begin = j;
        for (int64_t k = j; k < end && gx_run_poll(x->run) == GX_OK;) {
            k = move_some(x, &m, A, reader, k, end, most, make);
        }
        if (gx_ok(x->run)) {
            gx_sink_write(C, 0, j, t->rows, end - j, m.c, t->rows, &err);
            gx_run_fail(x->run, &err);
        }
    }
    gx_reader_close(reader);
    return true;
}

static void by_columns(gx_exec *x, const gx_node *node, columns_fn make)
{
    const gx_type *t = &node->type;
    if (by_strips(x, node, make)) {
        return;
    }
    moving m = {.node = node,
                .from = gx_input_node(x->g, node, 0)->type,
                .a = gx_input_data(x, node, 0, t->dtype),
                .element = gx_number_bytes(t->dtype),
                .c = gx_result(x, node, 0),
                .rows = t->rows};
    if (m.a != NULL && m.c != NULL) {
        make_columns(x, t, make, &m);
    }
}

void gx_lower_arrange(gx_exec *x, const gx_node *node)
{
    by_columns(x, node, move_columns);
}

/* Rows and columns at a step: column j of the result is w[3] + j * w[5] of the operand. */
static void slice_columns(const void *arg, int64_t j, int64_t end)
{
    const moving *m = arg;
    const gx_type *t = &m->node->type;
    const int64_t *w = m->node->whole;
    for (; j < end; j++) {
        char *to = m->c + (size_t)((j - m->begin) * m->rows) * m->element;
        const char *from = element_of(m, w[0], w[3] + j * w[5]);
        if (w[2] == 1) {
            memcpy(to, from, (size_t)t->rows * m->element);
        } else {
            copy_apart(to, from, w[2], t->rows, m->element);
        }
    }
}

void gx_lower_slice(gx_exec *x, const gx_node *node)
{
    const int64_t *w = node->whole;
    const gx_val *val = x->val[gx_input(x->g, node, 0)];
    if (val->data != NULL || w[2] != 1 || w[5] != 1) {
        by_columns(x, node, slice_columns);
        return;
    }
    if (gx_lower_as_view(x, node)) {
        return;
    }
    gx_mat space, view;
    gx_sink *C = gx_result_sink(x, node, 0, 0, 0, 0);
    if (C != NULL) {
        gx_mat_view(&view, gx_input_mat(x, node, 0, &space), GX_NO_TRANS, w[0], w[3],
                    node->type.rows, node->type.cols);
        gx_copy_to_sink(x->run, &view, C);
    }
}

/* The diagonal of a matrix that is not in memory.  false: it is, or is sparse. */
static bool diagonal_of(gx_exec *x, const gx_node *node)
{
    const gx_type *t = &node->type;
    gx_mat space;
    void *diagonal = NULL;
    if (node->whole[0] != 0 || gx_input_at_hand(x, node, 0)) {
        return false;
    }
    const gx_mat *A = gx_input_mat(x, node, 0, &space);
    if (A == NULL || A->is_sparse) {
        return A == NULL;
    }
    void *c = gx_result(x, node, 0);
    if (c != NULL && gx_gather_diagonal(x->run, A, 0, t->rows, t->dtype, &diagonal) == GX_OK) {
        memcpy(c, diagonal, (size_t)t->rows * gx_number_bytes(t->dtype));
        gx_mem_free(x->run->ctx->mem, diagonal);
    }
    return true;
}

void gx_lower_diag(gx_exec *x, const gx_node *node)
{
    if ((node->whole[0] != 0 && gx_lower_as_view(x, node)) || diagonal_of(x, node)) {
        return;
    }
    const gx_type from = gx_input_node(x->g, node, 0)->type, *t = &node->type;
    const char *a = gx_input_data(x, node, 0, t->dtype);
    char *c = gx_result(x, node, 0);
    size_t element = gx_number_bytes(t->dtype);
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

/* Rows or columns of an operand, by number. */
typedef struct taking {
    bool is_rows;
    int64_t count;
    const int64_t *line; /* of the operand */
    gx_type from, to;
    const char *a; /* the operand in memory */
    char *result;
} taking;

/* Lines that follow each other in the operand as they do in the result, from number q on. */
static int64_t run_of(const taking *t, int64_t q)
{
    int64_t length = 1;
    while (q + length < t->count && t->line[q + length] == t->line[q] + length) {
        length++;
    }
    return length;
}

static void take_columns(const void *arg, int64_t j, int64_t end)
{
    const taking *t = arg;
    int64_t ld = gx_max(1, t->from.rows);
    size_t element = gx_number_bytes(t->to.dtype);
    for (; j < end; j++) {
        char *to = t->result + (size_t)(j * t->to.rows) * element;
        if (!t->is_rows) {
            memcpy(to, t->a + (size_t)(t->line[j] * ld) * element, (size_t)t->to.rows * element);
            continue;
        }
        const char *from = t->a + (size_t)(j * ld) * element;
        for (int64_t q = 0; q < t->count; q++, to += element) {
            copy_apart(to, from + (size_t)t->line[q] * element, 1, 1, element);
        }
    }
}

/* These lines alone are read. */
static void take_from_source(gx_exec *x, const taking *t, const gx_mat *A)
{
    gx_err err = {0};
    gx_reader *reader = gx_source_reader(x, A);
    for (int64_t q = 0, length; q < t->count && err.code == GX_OK && gx_ok(x->run); q += length) {
        length = run_of(t, q);
        int64_t i = t->is_rows ? t->line[q] : 0, m = t->is_rows ? length : A->rows;
        int64_t j = t->is_rows ? 0 : t->line[q], n = t->is_rows ? A->cols : length;
        void *at =
            t->result + (size_t)(t->is_rows ? q : q * t->to.rows) * gx_number_bytes(t->to.dtype);
        if (m > 0 && n > 0) {
            gx_mat_read(x->run, A, reader, i, j, m, n, t->to.dtype, at, gx_max(1, t->to.rows),
                        &err);
        }
        if (gx_run_poll(x->run) != GX_OK) {
            break;
        }
    }
    gx_reader_close(reader);
    gx_run_fail(x->run, &err);
}

/*
** Few lines of a matrix that is not in memory are read by themselves: a row costs a read for each
** of its columns, which is what some thousand elements of a tile cost.  So are all that there are
** of one that memory does not hold; in a loop what fits is loaded once.
*/
static bool is_read_by_lines(const gx_exec *x, const gx_node *node, int64_t count, int64_t side)
{
    const int64_t ONE_IN = 1024;
    bool is_few = node->block == 0 && count <= side / ONE_IN;
    return !gx_input_at_hand(x, node, 0) && (is_few || !gx_input_fits(x, node, 0));
}

void gx_lower_take(gx_exec *x, const gx_node *node)
{
    taking t = {.is_rows = node->whole[0] == 0,
                .from = gx_input_node(x->g, node, 0)->type,
                .to = node->type};
    int64_t side = t.is_rows ? t.from.rows : t.from.cols;
    const double *index = gx_input_data(x, node, 1, GX_F64);
    t.count = t.is_rows ? t.to.rows : t.to.cols;
    int64_t *line = gx_temp(x, (size_t)gx_max(1, t.count) * sizeof *line);
    for (int64_t q = 0; q < t.count && index != NULL && line != NULL; q++) {
        if (!index_of(x, index[q], side, t.is_rows ? "row" : "column", &line[q])) {
            return;
        }
    }
    t.line = line;
    t.result = index == NULL || line == NULL ? NULL : gx_result(x, node, 0);
    if (t.result == NULL) {
        return;
    }
    if (is_read_by_lines(x, node, t.count, side)) {
        gx_mat space;
        take_from_source(x, &t, gx_input_mat(x, node, 0, &space));
        return;
    }
    t.a = gx_input_data(x, node, 0, t.to.dtype);
    if (t.a != NULL) {
        make_columns(x, &t.to, take_columns, &t);
    }
}

/* One of the matrices that are put beside or below each other. */
typedef struct stacked {
    gx_type from;
    const void *a;
    gx_number to;
    char *c; /* its place in the result, whose columns have ld elements */
    int64_t ld;
} stacked;

static void stack_columns(const void *arg, int64_t j, int64_t end)
{
    const stacked *s = arg;
    int64_t ld = gx_max(1, s->from.rows);
    gx_convert(s->from.dtype, gx_at(s->a, s->from.dtype, ld, 0, j), ld, s->to,
               gx_at(s->c, s->to, s->ld, 0, j), s->ld, s->from.rows, end - j);
}

void gx_lower_stack(gx_exec *x, const gx_node *node)
{
    const gx_type *t = &node->type;
    if (gx_lower_as_view(x, node)) {
        return;
    }
    void *c = gx_result(x, node, 0);
    int64_t i = 0, j = 0, ld = gx_max(1, t->rows);
    for (int k = 0; k < node->count && c != NULL && gx_ok(x->run); k++) {
        gx_type from = gx_input_node(x->g, node, k)->type;
        stacked s = {.from = from, .a = gx_input_data(x, node, k, from.dtype), .to = t->dtype};
        s.c = gx_at(c, t->dtype, ld, i, j);
        s.ld = ld;
        if (s.a != NULL) {
            make_columns(x, &from, stack_columns, &s);
        }
        i += node->op->id == GX_OP_VSTACK ? from.rows : 0;
        j += node->op->id == GX_OP_HSTACK ? from.cols : 0;
    }
}

/* The matrix of its bands: a[i,j] is row u + i - j of column j. */
void gx_lower_bands(gx_exec *x, const gx_node *node)
{
    const gx_type *t = &node->type;
    int64_t n = t->rows, l = node->whole[0], u = node->whole[1];
    size_t element = gx_number_bytes(t->dtype);
    const char *ab = gx_input_data(x, node, 0, t->dtype);
    char *c = gx_result(x, node, 0);
    for (int64_t j = 0; ab != NULL && c != NULL && j < n && gx_run_poll(x->run) == GX_OK; j++) {
        int64_t first = gx_max(0, j - u), end = gx_min(n, j + l + 1);
        memset(c + (size_t)(j * n) * element, 0, (size_t)n * element);
        memcpy(c + (size_t)(j * n + first) * element,
               ab + (size_t)(j * (l + u + 1) + u + first - j) * element,
               (size_t)(end - first) * element);
    }
}

void gx_lower_require(gx_exec *x, const gx_node *node)
{
    gx_scalar condition = gx_input_number(x, node, 1);
    const gx_type *t = &node->type;
    if (gx_ok(x->run) && condition.re == 0 && condition.im == 0) {
        gx_run_failf(x->run, GX_NUMERIC, "%s", (const char *)node->data);
        return;
    }
    const void *a = gx_input_data(x, node, 0, t->dtype);
    void *c = gx_result(x, node, 0);
    if (a != NULL && c != NULL) {
        memcpy(c, a, (size_t)(t->rows * t->cols) * gx_number_bytes(t->dtype));
    }
}
