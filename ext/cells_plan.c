/*
** Which rows a query wants: constraints on i, j and rowid become a rectangle of the matrix.
**
** xBestIndex sees constraints without their values and leaves a plan for xFilter: idxNum is the
** order in which rows are to come, idxStr has two characters for each value that xFilter will get,
** in turn:
**
**   column     m the argument (always first), i, j, or r the rowid
**   operator   =   <   l (<=)   >   g (>=)
**
** Every constraint taken is answered exactly, so SQLite does not test it again (omit).  Exactly
** means as SQLite compares an INTEGER column with any value: text that looks like a number is one;
** other text and blobs are greater than all numbers; nothing compares with NULL; 2.5 < i means 3 <=
** i.
**
** Orders: any ORDER BY over i and j, ascending, is served by walking by column or by row, both
** streamed (cells_scan.c), so that neither ORDER BY j, i nor GROUP BY i sorts.  Descending ones
** SQLite sorts.
**
** Costs are in units of a row fetched.  A named table knows its matrix; of an argument only values
** that come with the statement can be looked at, and anything else is taken for 1024 x 1024.
*/
#include "cells.h"

#include <math.h>
#include <string.h>

enum { MAX_TERMS = 64 }; /* constraints taken; more are left to SQLite */

/* A matrix nobody has seen yet, in rows and columns. */
static const double USUAL_EDGE = 1024;

/* Looking a matrix up and opening a blob; a row of SELECT sum(value); the bytes of one column. */
static const double OPEN_COST = 25, ROW_COST = 0.6, RUN_COST = 1.5;

typedef struct plan {
    const sqlite3_index_info *info;
    bool is_rows;
    int matrix;              /* constraint of the argument; -1: none given           */
    bool is_matrix_unusable; /* one is given, but not yet known at this place        */
    int taken[MAX_TERMS];    /* constraints for i, j, rowid                          */
    char text[2 * MAX_TERMS + 3];
    int terms;
    bool fixes_i, fixes_j, fixes_cell; /* by = */
    int ranges_i, ranges_j;            /* by < <= > >= */
} plan;

char gx_comparison_letter(int op)
{
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        return '=';
    case SQLITE_INDEX_CONSTRAINT_LT:
        return '<';
    case SQLITE_INDEX_CONSTRAINT_LE:
        return 'l';
    case SQLITE_INDEX_CONSTRAINT_GT:
        return '>';
    case SQLITE_INDEX_CONSTRAINT_GE:
        return 'g';
    default:
        return '\0';
    }
}

/* The plan's letter for an operator, or 0. */
static char operator_letter(int op)
{
    return op == SQLITE_INDEX_CONSTRAINT_IS ? '=' : gx_comparison_letter(op);
}

/* The plan's letter for a column, or 0. */
static char column_letter(bool is_rows, int column)
{
    if (column == -1) {
        return 'r';
    }
    if (column == (is_rows ? GX_ROWS_MATRIX : GX_CELLS_MATRIX)) {
        return 'm';
    }
    if (column == 0) {
        return 'i';
    }
    return !is_rows && column == GX_CELLS_J ? 'j' : 0;
}

static void take(plan *p, int index, char column, char op)
{
    if (p->terms == MAX_TERMS || (column == 'r' && op != '=')) {
        return;
    }
    p->text[2 + 2 * p->terms] = column;
    p->text[3 + 2 * p->terms] = op;
    p->taken[p->terms++] = index;
    bool is_point = op == '=';
    p->fixes_cell |= column == 'r';
    p->fixes_i |= column == 'i' && is_point;
    p->fixes_j |= column == 'j' && is_point;
    p->ranges_i += column == 'i' && !is_point;
    p->ranges_j += column == 'j' && !is_point;
}

static void take_all(plan *p)
{
    for (int c = 0; c < p->info->nConstraint; c++) {
        char op = operator_letter(p->info->aConstraint[c].op);
        char column = op != 0 ? column_letter(p->is_rows, p->info->aConstraint[c].iColumn) : 0;
        bool is_usable = p->info->aConstraint[c].usable != 0;
        if (column == 'm' && op == '=') {
            p->is_matrix_unusable |= !is_usable;
            p->matrix = is_usable && p->matrix < 0 ? c : p->matrix;
        } else if (column != 0 && column != 'm' && is_usable) {
            take(p, c, column, op);
        }
    }
    p->text[0] = 'm';
    p->text[1] = '=';
    p->text[2 + 2 * p->terms] = '\0';
}

/*
** The order that serves ORDER BY, and whether one does.  Columns that a constraint fixes do not
** count, and nothing does after i and j, which name a row.
*/
static bool serves_order(const plan *p, gx_order *order)
{
    bool has_i = p->fixes_i || p->fixes_cell, has_j = p->fixes_j || p->fixes_cell || p->is_rows;
    gx_order found = GX_BY_TILE;
    for (int t = 0; t < p->info->nOrderBy && !(has_i && has_j); t++) {
        char column = column_letter(p->is_rows, p->info->aOrderBy[t].iColumn);
        column = p->is_rows && column == 'r' ? 'i' : column;
        if (column == 'm' || (column == 'i' && has_i) || (column == 'j' && has_j)) {
            continue;
        }
        if (column == 0 || p->info->aOrderBy[t].desc) {
            return false;
        }
        // The first free column decides; the rowid counts down the columns, as does the second.
        if (column == 'r') {
            if (has_i || has_j) {
                return false;
            }
            has_i = has_j = true;
            found = GX_BY_COLUMN;
        } else {
            found = found != GX_BY_TILE ? found : column == 'i' ? GX_BY_ROW : GX_BY_COLUMN;
            has_i |= column == 'i';
            has_j |= column == 'j';
        }
    }
    *order = p->is_rows ? GX_BY_ROW : found;
    return p->info->nOrderBy > 0;
}

/* Rows of an edge of n that constraints leave: one for =, a quarter for each side of a range. */
static double selected(double n, bool is_fixed, int ranges)
{
    double left = is_fixed ? 1 : n / pow(4, ranges < 2 ? ranges : 2);
    return left < 1 ? 1 : left;
}

static void estimate(const plan *p, const gx_cells_table *table, sqlite3_index_info *info)
{
    double rows = table->rows > 0 ? (double)table->rows : USUAL_EDGE;
    double cols = table->cols > 0 ? (double)table->cols : USUAL_EDGE;
    double m = selected(rows, p->fixes_i || p->fixes_cell, p->ranges_i);
    double n = p->is_rows ? 1 : selected(cols, p->fixes_j || p->fixes_cell, p->ranges_j);
    double runs = p->is_rows || p->fixes_i || p->ranges_i > 0 ? (p->is_rows ? cols : n) : 1;
    double cells = p->is_rows ? m * cols / 16 : m * n;
    info->estimatedRows = (sqlite3_int64)(m * n < 1e15 ? m * n : 1e15);
    info->estimatedCost = OPEN_COST + RUN_COST * runs + ROW_COST * (m * n + cells);
    if (p->fixes_cell || (p->fixes_i && (p->is_rows || p->fixes_j))) {
        info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
    }
}

int gx_cells_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    const gx_cells_table *table = (const gx_cells_table *)vtab;
    plan p = {.info = info, .is_rows = table->is_rows, .matrix = -1};
    take_all(&p);
    if (p.matrix < 0 && p.is_matrix_unusable) {
        return SQLITE_CONSTRAINT; // the argument comes from a table that has to be read before
    }

    // What xFilter gets: the argument, then the rest.
    bool has_matrix = p.matrix >= 0;
    if (has_matrix) {
        info->aConstraintUsage[p.matrix].argvIndex = 1;
        info->aConstraintUsage[p.matrix].omit = 1;
    }
    for (int t = 0; t < p.terms; t++) {
        info->aConstraintUsage[p.taken[t]].argvIndex = t + 1 + has_matrix;
        info->aConstraintUsage[p.taken[t]].omit = 1;
    }
    info->idxStr = sqlite3_mprintf("%s", has_matrix ? p.text : p.text + 2);
    if (info->idxStr == NULL) {
        return SQLITE_NOMEM;
    }
    info->needToFreeIdxStr = 1;

    gx_order order = table->is_rows ? GX_BY_ROW : GX_BY_TILE;
    info->orderByConsumed = serves_order(&p, &order);
    info->idxNum = (int)order;
    estimate(&p, table, info);
    if (table->matrix == NULL && !has_matrix) {
        info->estimatedCost = 1e50; // xFilter will ask for the argument, unless OR finds one
        info->idxFlags = 0;
    }
    return SQLITE_OK;
}

// Values ------------------------------------------------------------------------------------------

sqlite3_value *gx_cells_plan_matrix(const char *plan_text, sqlite3_value **argv)
{
    return plan_text[0] == 'm' ? argv[0] : NULL;
}

/* Cut the indexes [lo, hi) by one comparison with the integer x, or with x and a half. */
static void cut_range(char op, int64_t x, bool is_between, int64_t *lo, int64_t *hi)
{
    bool from_next = op == '>' || (is_between && op == 'g'); // the first index is past x
    bool to_x = op == 'l' || (is_between && op == '<');      // the last index is x
    if (op == '=' && is_between) {
        *hi = *lo;
    } else if (op == '=') {
        *lo = gx_max(*lo, x);
        *hi = gx_min(*hi, x + 1);
    } else if (op == '<' || op == 'l') {
        *hi = gx_min(*hi, to_x ? x + 1 : x);
    } else {
        *lo = gx_max(*lo, from_next ? x + 1 : x);
    }
}

gx_code gx_cells_check_index(const char *label, int64_t index, int64_t count, gx_err *err)
{
    if (count == 0) {
        return gx_fail(err, GX_ARG, "%s = %lld, but the matrix has no %s", label, (long long)index,
                       label[0] == 'i' ? "rows" : "columns");
    }
    if (index < 0 || index >= count) {
        return gx_fail(err, GX_ARG, "%s = %lld is outside 0..%lld", label, (long long)index,
                       (long long)(count - 1));
    }
    return GX_OK;
}

/* Indexes lie in [0, 2^62], so x may be brought into [-1, 2^62]. */
void gx_cut_by_value(char op, sqlite3_value *value, int64_t *lo, int64_t *hi)
{
    const int64_t most = GX_INDEX_END;
    double real;
    switch (sqlite3_value_numeric_type(value)) {
    case SQLITE_INTEGER:
        cut_range(op, gx_max(-1, gx_min(most, sqlite3_value_int64(value))), false, lo, hi);
        break;
    case SQLITE_FLOAT:
        real = sqlite3_value_double(value);
        if (real < -1 || real > (double)most) {
            cut_range(op, real < -1 ? -1 : most, false, lo, hi);
        } else {
            cut_range(op, (int64_t)floor(real), floor(real) != real, lo, hi);
        }
        break;
    case SQLITE_NULL:
        *hi = *lo;
        break;
    default: // text and blobs come after all numbers
        if (op != '<' && op != 'l') {
            *hi = *lo;
        }
        break;
    }
}

/* The one row, or one cell, of a rowid. */
static void cut_by_rowid(sqlite3_value *value, bool is_rows, int64_t rows, gx_rect *r)
{
    int64_t lo = 0, hi = GX_INDEX_END;
    gx_cut_by_value('=', value, &lo, &hi);
    if (lo >= hi || rows == 0) {
        r->i1 = r->i0;
        return;
    }
    int64_t i = is_rows ? lo : lo % rows, j = is_rows ? 0 : lo / rows;
    cut_range('=', i, false, &r->i0, &r->i1);
    if (!is_rows) {
        cut_range('=', j, false, &r->j0, &r->j1);
    }
}

gx_rect gx_cells_plan_rect(const char *plan_text, sqlite3_value **argv, bool is_rows, int64_t rows,
                           int64_t cols)
{
    gx_rect r = {.i1 = rows, .j1 = cols};
    for (int a = 0; plan_text[2 * a] != '\0'; a++) {
        char column = plan_text[2 * a], op = plan_text[2 * a + 1];
        if (column == 'i') {
            gx_cut_by_value(op, argv[a], &r.i0, &r.i1);
        } else if (column == 'j') {
            gx_cut_by_value(op, argv[a], &r.j0, &r.j1);
        } else if (column == 'r') {
            cut_by_rowid(argv[a], is_rows, rows, &r);
        }
    }
    return r;
}
