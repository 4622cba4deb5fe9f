/*
** Reductions and what goes along lines: see lower.h.
**
** Sums, means, least and largest elements are the streamed pass of core/alg, whose bits do not
** depend on threads.  The others are computed a line at a time, in doubles: a column, a row, or the
** whole matrix row by row as NumPy counts, some rows a part.  Lines and parts are shared by a team.
** What memory does not hold is read in strips of rows, as often as the reduction has passes; median
** and quantile want a line as a whole.
*/
#include "../alg/alg.h"
#include "../alg/sparse_alg.h"
#include "../run/call.h"
#include "../spectra/alg_eig.h"
#include "lines.h"
#include "lower.h"
#include "values.h"

#include <math.h>
#include <string.h>

// Sums and extremes -------------------------------------------------------------------------------

/* Extremes of a sparse matrix, but of all elements; false: it is something else. */
static bool by_entries(gx_exec *x, const gx_node *node)
{
    gx_op_id id = node->op->id;
    bool has_places = id == GX_OP_ARGMIN || id == GX_OP_ARGMAX;
    bool is_of_lines = (id == GX_OP_MIN || id == GX_OP_MAX) && node->whole[0] >= 0;
    if (!gx_reads_sparse(x->g, node) || !(has_places || is_of_lines)) {
        return false;
    }
    gx_mat space;
    const gx_mat *A = gx_input_mat(x, node, 0, &space);
    int64_t count = node->type.rows * node->type.cols;
    double *out = gx_temp(x, (size_t)gx_max(1, count) * sizeof *out);
    void *c = out == NULL ? NULL : gx_result(x, node, 0);
    bool is_max = id == GX_OP_MAX || id == GX_OP_ARGMAX;
    if (c != NULL && gx_sparse_extremes(x->run, A, is_max, node->whole[0], has_places ? NULL : out,
                                        has_places ? out : NULL) == GX_OK) {
        gx_convert(GX_F64, out, gx_max(1, count), node->type.dtype, c, gx_max(1, count), count, 1);
    }
    return true;
}

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

// In memory ---------------------------------------------------------------------------------------

/* Lines of a matrix in memory, some of them a piece. */
typedef struct line_pass {
    gx_exec *x;
    const gx_node *node;
    gx_type from, to; /* to: where lines become lines */
    gx_lines lines;
    int64_t most; /* lines of a piece */
    const void *a;
    void *c;
    size_t line_bytes, work_bytes; /* of a member */
    char *line, *work;
    double elements;       /* that a team would share; 0: the caller alone          */
    int64_t together;      /* lines that are tallied together, of a piece's ...     */
    gx_tally *part, total; /* ... a tally each, where all of it is one line         */
} line_pass;

/* Input 0, as it is computed with. */
static const void *elements_of(gx_exec *x, const gx_node *node)
{
    return gx_input_data(x, node, 0, gx_input_node(x->g, node, 0)->type.dtype);
}

/*
** Lines of a, which is lines.type.  false: failed.  A line that takes long is the caller's, who is
** asked whether to go on.
*/
static bool begin_lines(gx_exec *x, const gx_node *node, gx_lines lines, int64_t most,
                        const void *a, line_pass *p)
{
    const int64_t LONG = 1 << 22;
    p->x = x;
    p->node = node;
    p->from = lines.type;
    p->to = node->type;
    p->lines = lines;
    p->most = most;
    p->line_bytes = gx_lines_bytes(&lines, most);
    p->work_bytes = gx_line_work_bytes(node->op->id, lines.length);
    bool is_one = lines.count <= most || lines.length > LONG;
    p->elements = is_one ? 0 : (double)lines.count * (double)lines.length;
    p->a = a;
    size_t members = (size_t)gx_run_members(x->run, p->elements);
    size_t room = gx_mem_available(x->run->ctx->mem) / 4;
    if (members > 1 && p->line_bytes + p->work_bytes > room / members) {
        members = 1;
        p->elements = 0;
    }
    p->line = gx_temp(x, members * p->line_bytes);
    p->work = gx_temp(x, members * p->work_bytes);
    return p->a != NULL && p->line != NULL && p->work != NULL;
}

/* The lines of a piece, the first is k, how many; in the member's memory. */
static double *gather(const line_pass *p, int64_t piece, int member, int64_t *k, int64_t *n)
{
    double *line = (void *)(p->line + (size_t)member * p->line_bytes);
    *k = piece * p->most;
    *n = gx_min(p->most, p->lines.count - *k);
    gx_lines_gather(&p->lines, p->a, *k, *n, line);
    return line;
}

/* Whom a member asks whether to go on. */
static gx_run *asked_by(const line_pass *p, int member)
{
    return member == 0 ? p->x->run : NULL;
}

static void run_lines(line_pass *p, gx_team_fn fn)
{
    gx_run_pieces(p->x->run, p->elements, gx_ceil_div(p->lines.count, p->most), fn, p);
}

static gx_code tally_part(void *arg, int64_t piece, int member, gx_err *err)
{
    line_pass *p = arg;
    int64_t k, n;
    (void)err;
    const double *line = gather(p, piece, member, &k, &n);
    int64_t row = p->lines.length * (p->lines.is_complex ? 2 : 1);
    for (int64_t i = 0; i < n; i += p->together) {
        gx_tally *part = &p->part[(k + i) / p->together];
        *part = gx_tally_part(&p->total);
        gx_tally_add(part, line + i * row, gx_min(p->together, n - i) * p->lines.length);
    }
    return GX_OK;
}

/* All elements, row by row. */
static void reduce_whole(gx_exec *x, const gx_node *node)
{
    gx_type from = gx_input_node(x->g, node, 0)->type;
    gx_lines rows = gx_lines_of_whole(&from), whole = gx_lines_of(&from, -1);
    line_pass p = {
        .total = {.op = node->op->id, .is_complex = rows.is_complex, .ddof = node->alpha.re}};
    if (!gx_tally_can(node->op->id)) {
        if (begin_lines(x, node, whole, 1, elements_of(x, node), &p)) {
            gx_lines_gather_whole(x->run, &from, p.a, (void *)p.line);
            gx_result_number(x, node,
                             gx_line_reduce(x->run, node->op->id, (void *)p.line, whole.length,
                                            whole.is_complex, node->alpha.re, p.work));
        }
        return;
    }
    p.together = gx_lines_of_part(&rows);
    int64_t most = gx_lines_at_once(&rows) / p.together * p.together;
    if (!begin_lines(x, node, rows, gx_max(p.together, most), elements_of(x, node), &p)) {
        return;
    }
    int64_t parts = gx_ceil_div(rows.count, p.together);
    p.part = gx_temp(x, (size_t)gx_max(1, parts) * sizeof *p.part);
    do {
        run_lines(&p, tally_part);
        for (int64_t k = 0; k < parts && gx_ok(x->run); k++) {
            gx_tally_join(&p.total, &p.part[k]);
        }
    } while (gx_ok(x->run) && gx_tally_next(&p.total));
    gx_result_number(x, node, gx_tally_value(&p.total));
}

static gx_code reduce_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const line_pass *p = arg;
    int64_t k, n, parts = p->lines.is_complex ? 2 : 1;
    gx_number dtype = p->node->type.dtype;
    const double *line = gather(p, piece, member, &k, &n);
    char *work = p->work + (size_t)member * p->work_bytes;
    (void)err;
    for (int64_t q = 0; q < n; q++, line += p->lines.length * parts) {
        gx_scalar value =
            gx_line_reduce(asked_by(p, member), p->node->op->id, line, p->lines.length,
                           p->lines.is_complex, p->node->alpha.re, work);
        gx_number_put(dtype, p->c, k + q, value);
    }
    return GX_OK;
}

static gx_code along_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const line_pass *p = arg;
    int64_t k, n, parts = p->lines.is_complex ? 2 : 1;
    double *line = gather(p, piece, member, &k, &n);
    char *work = p->work + (size_t)member * p->work_bytes;
    (void)err;
    for (int64_t q = 0; q < n; q++) {
        gx_line_along(asked_by(p, member), p->node->op->id, line + q * p->lines.length * parts,
                      p->lines.length, p->lines.is_complex, work);
    }
    gx_lines_scatter(&p->lines, &p->to, p->c, k, n, line);
    return GX_OK;
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
    int64_t together;    /* elements that are tallied together (gx_lines_of_part) */
    gx_tally part;       /* ... those of them that there were                     */
    double *data, *line; /* line: most rows of it */
} strips;

static bool open_strips(gx_exec *x, const gx_node *node, const gx_mat *A, strips *s)
{
    const gx_mem *mem = x->run->ctx->mem;
    *s = (strips){.x = x, .node = node, .A = A, .parts = gx_number_is_complex(A->number) ? 2 : 1};
    double row_bytes = (double)A->cols * (double)s->parts * sizeof *s->data;
    double rows = (double)gx_mem_available(mem) / 4 / row_bytes;
    gx_type all = {.rows = A->rows, .cols = A->cols, .dtype = A->number};
    gx_lines whole = gx_lines_of_whole(&all);
    s->together = gx_lines_of_part(&whole) * whole.length;
    s->height = gx_max(1, rows < (double)A->rows ? (int64_t)rows : A->rows);
    s->height -= s->height > A->tile_rows ? s->height % A->tile_rows : 0;
    s->type = (gx_type){.rows = s->height, .cols = A->cols, .dtype = gx_number_wide(A->number)};
    gx_lines rows_of_strip = gx_lines_of(&s->type, 1);
    s->most = gx_lines_at_once(&rows_of_strip);
    s->data = gx_temp(x, gx_lines_bytes(&rows_of_strip, s->height));
    s->line = gx_temp(x, gx_lines_bytes(&rows_of_strip, s->most));
    s->i = -s->height;
    s->reader = gx_source_reader(x, A);
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

/* A part of the whole is done. */
static void join_part(strips *s, gx_tally *one)
{
    gx_tally_join(one, &s->part);
    s->part = gx_tally_part(one);
}

/* What the line holds, in the parts of a matrix in memory, which a strip may end within. */
static void tally_parts(strips *s, int64_t count, gx_tally *one)
{
    for (int64_t k = 0, n; k < count; k += n) {
        n = gx_min(s->together - s->part.length, count - k);
        gx_tally_add(&s->part, s->line + k * s->parts, n);
        if (s->part.length == s->together) {
            join_part(s, one);
        }
    }
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
                               rows.length, rows.is_complex, s->node->alpha.re, NULL);
            gx_number_put(s->node->type.dtype, c, s->i + k + q, value);
        }
        if (one != NULL) {
            tally_parts(s, n * rows.length, one);
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
        sums[j] =
            (gx_tally){.op = node->op->id, .is_complex = s->parts == 2, .ddof = node->alpha.re};
    }
    while (goes_on && gx_ok(s->x->run)) {
        s->part = count > 0 ? gx_tally_part(sums) : s->part;
        while (next_strip(s)) {
            if (node->whole[0] == 0) {
                add_columns(s, sums);
            } else {
                add_rows(s, count == 0 ? NULL : sums, c);
            }
        }
        goes_on = false;
        if (node->whole[0] < 0) {
            join_part(s, sums);
        }
        for (int64_t j = 0; j < count; j++) {
            goes_on = gx_tally_next(&sums[j]);
        }
    }
    for (int64_t j = 0; j < count; j++) {
        gx_number_put(node->type.dtype, c, j, gx_tally_value(&sums[j]));
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

static gx_lines lines_of(const gx_exec *x, const gx_node *node)
{
    return gx_lines_of(&gx_input_node(x->g, node, 0)->type, node->whole[0]);
}

static void by_lines(gx_exec *x, const gx_node *node, gx_lines lines, gx_team_fn fn)
{
    line_pass p = {.c = gx_result(x, node, 0)};
    const void *a = p.c == NULL ? NULL : elements_of(x, node);
    if (a != NULL && begin_lines(x, node, lines, gx_lines_at_once(&lines), a, &p)) {
        run_lines(&p, fn);
    }
}

/* Lines of a matrix that memory does not hold, so many at a time: a group. */
typedef struct groups {
    const gx_mat *A;
    gx_reader *reader;
    int64_t axis, lines; /* lines: of a group                                  */
    gx_sink *C;          /* where lines go that lines become; NULL: a number each */
    void *a, *c;         /* a group, and what becomes of it                    */
} groups;

static gx_type type_of(const gx_type *whole, int64_t axis, int64_t n)
{
    gx_type t = *whole;
    *(axis == 0 ? &t.cols : &t.rows) = n;
    return t;
}

/* Room for a group, and where lines go.  false: failed. */
static bool open_groups(gx_exec *x, const gx_node *node, gx_lines lines, bool is_reduced, groups *g)
{
    gx_type from = type_of(&lines.type, g->axis, 1), to = type_of(&node->type, g->axis, 1);
    size_t in = (size_t)lines.length * gx_number_bytes(from.dtype);
    size_t out = is_reduced ? 0 : (size_t)(to.rows * to.cols) * gx_number_bytes(to.dtype);
    if (is_reduced) {
        int64_t fits = (int64_t)(gx_mem_available(x->run->ctx->mem) / 4 / (in + 1));
        g->lines = gx_max(1, gx_min(fits, lines.count));
    } else {
        g->C = gx_result_strips(x, node, g->axis, in + out, &g->lines);
    }
    g->a = gx_temp(x, in * (size_t)g->lines + 1);
    g->c = is_reduced ? gx_result(x, node, 0) : gx_temp(x, out * (size_t)g->lines + 1);
    g->reader = gx_source_reader(x, g->A);
    return gx_ok(x->run);
}

/* Lines k .. of p's group. */
static void do_group(const groups *g, int64_t k, line_pass *p, gx_team_fn fn)
{
    gx_run *run = p->x->run;
    gx_err err = {.code = GX_OK};
    int64_t i0 = g->axis == 0 ? 0 : k, j0 = g->axis == 0 ? k : 0;
    const gx_type *t = &p->from;
    if (gx_mat_read(run, g->A, g->reader, i0, j0, t->rows, t->cols, t->dtype, g->a,
                    gx_max(1, t->rows), &err) == GX_OK) {
        run_lines(p, fn);
    }
    if (g->C != NULL && err.code == GX_OK && gx_ok(run) && p->to.rows > 0 && p->to.cols > 0) {
        gx_sink_write(g->C, i0, j0, p->to.rows, p->to.cols, g->c, p->to.rows, &err);
    }
    gx_run_fail(run, &err);
}

/* false: it is in memory, or fits there. */
static bool by_groups(gx_exec *x, const gx_node *node, gx_lines lines, gx_team_fn fn)
{
    bool is_reduced = fn == reduce_piece;
    gx_mat space;
    groups g = {.axis = node->whole[0]};
    if (g.axis < 0 || lines.count == 0 || lines.length == 0 || gx_input_at_hand(x, node, 0) ||
        gx_input_fits(x, node, 0)) {
        return false;
    }
    g.A = gx_input_mat(x, node, 0, &space);
    if (g.A != NULL && open_groups(x, node, lines, is_reduced, &g)) {
        size_t number = gx_number_bytes(node->type.dtype);
        gx_type first = type_of(&lines.type, g.axis, g.lines);
        gx_lines some = gx_lines_of(&first, g.axis);
        line_pass p = {.c = g.c};
        bool is_begun = begin_lines(x, node, some, gx_lines_at_once(&some), g.a, &p);
        for (int64_t k = 0; k < lines.count && is_begun && gx_ok(x->run); k += g.lines) {
            int64_t n = gx_min(g.lines, lines.count - k);
            p.from = type_of(&lines.type, g.axis, n);
            p.to = type_of(&node->type, g.axis, n);
            p.lines = gx_lines_of(&p.from, g.axis);
            p.c = is_reduced ? (char *)g.c + (size_t)k * number : g.c;
            do_group(&g, k, &p, fn);
        }
    }
    gx_reader_close(g.reader);
    return true;
}

void gx_lower_reduce(gx_exec *x, const gx_node *node)
{
    if (by_entries(x, node) || by_pass(x, node) || by_strips(x, node)) {
        return;
    }
    if (node->whole[0] < 0) {
        reduce_whole(x, node);
        return;
    }
    if (!by_groups(x, node, lines_of(x, node), reduce_piece)) {
        by_lines(x, node, lines_of(x, node), reduce_piece);
    }
}

void gx_lower_along(gx_exec *x, const gx_node *node)
{
    gx_lines lines = lines_of(x, node);
    lines.count = lines.length > 0 ? lines.count : 0; // however many empty ones
    if (!by_groups(x, node, lines, along_piece)) {
        by_lines(x, node, lines, along_piece);
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
