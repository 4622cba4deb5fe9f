/*
** Plans of vector tables: xBestIndex.  See vtab_vectors.c for what they mean.
*/
#include "vectors.h"

#include <string.h>

/*
** A search comes before anything else that a statement could do with the table: without it MATCH
** cannot be answered, and SQLite, who does not know that, would take a row for each term of an OR.
** One among the rows of another table (rowid = other.id) comes last: it would be made for each.
*/
static const double MATCH_COST = 15, MATCH_ONE_COST = 1e8, SCAN_COST = 1e6, ROW_COST = 10;

typedef struct plan {
    sqlite3_index_info *info;
    const gx_vec_shape *shape;
    sqlite3_str *text;
    int next, terms;
    int match, k, limit, offset, probe; /* constraints; -1: none                              */
    bool is_unusable; /* one without which there is no such plan is not known here */
    bool is_whole;    /* all of WHERE is in the plan                               */
    bool is_one;      /* rowid = ?                                                 */
} plan;

/* The column of NAME_row behind one of the table's, -1 for the rowid; -2: there is none. */
int gx_vec_plain(const gx_vec_shape *s, int column)
{
    if (column < 0 || (column == GX_VEC_KEY && !s->is_text_key)) {
        return -1;
    }
    if (column == GX_VEC_KEY) {
        for (int c = 0; c < s->tables.columns; c++) {
            if (s->name[c] == s->tables.key) {
                return c;
            }
        }
    }
    return column <= s->columns && s->column[column - 1].vector < 0 ? s->column[column - 1].plain
                                                                    : -2;
}

/* The value of constraint c goes to xFilter. */
static void use(plan *p, int c, bool is_exact)
{
    p->info->aConstraintUsage[c].argvIndex = p->next++;
    p->info->aConstraintUsage[c].omit = is_exact;
}

/* MATCH, k, probe, LIMIT, OFFSET, before all others: whether there is a search. */
static void look_for_match(plan *p)
{
    for (int c = 0; c < p->info->nConstraint; c++) {
        const struct sqlite3_index_constraint *x = &p->info->aConstraint[c];
        int column = x->iColumn;
        bool is_vector =
            column > 0 && column <= p->shape->columns && p->shape->column[column - 1].vector >= 0;
        int *place = x->op == SQLITE_INDEX_CONSTRAINT_LIMIT                ? &p->limit
                     : x->op == SQLITE_INDEX_CONSTRAINT_OFFSET             ? &p->offset
                     : x->op == SQLITE_INDEX_CONSTRAINT_MATCH && is_vector ? &p->match
                     : x->op == SQLITE_INDEX_CONSTRAINT_EQ && column == gx_vec_k(p->shape) ? &p->k
                     : x->op == SQLITE_INDEX_CONSTRAINT_EQ && column == gx_vec_probe(p->shape)
                         ? &p->probe
                         : NULL;
        if (place == NULL) {
            continue;
        }
        p->is_unusable |= !x->usable || (place == &p->match && p->match >= 0);
        *place = c;
    }
}

/* A condition on a column, or on the distance: into the plan, or left to SQLite. */
static void take_term(plan *p, int c)
{
    const struct sqlite3_index_constraint *x = &p->info->aConstraint[c];
    bool is_distance = x->iColumn == gx_vec_distance(p->shape) && p->match >= 0;
    int column = gx_vec_plain(p->shape, x->iColumn);
    const char *collation = sqlite3_vtab_collation(p->info, c);
    bool can_list = sqlite3_libversion_number() >= 3038000;
    if (!x->usable || p->terms == GX_VEC_TERMS_MAX) {
        p->is_whole = false;
        return;
    }
    if (is_distance && strchr("<l>g", gx_comparison_letter(x->op)) != NULL &&
        gx_comparison_letter(x->op) != '\0') {
        sqlite3_str_appendf(p->text, "d %d;", x->op);
        use(p, c, true);
        return;
    }
    if (column == -2 || !gx_vectors_takes(x->op) ||
        (collation != NULL && strpbrk(collation, "; ") != NULL)) {
        p->is_whole = false;
        return;
    }
    bool is_told = x->op != SQLITE_INDEX_CONSTRAINT_NE && x->op != SQLITE_INDEX_CONSTRAINT_ISNOT;
    collation = column < 0 || collation == NULL || !is_told ? "" : collation; // the column's own
    if (can_list && x->op == SQLITE_INDEX_CONSTRAINT_EQ && sqlite3_vtab_in(p->info, c, -1)) {
        sqlite3_vtab_in(p->info, c, 1);
        sqlite3_str_appendf(p->text, "i %d %s;", column, collation);
    } else {
        sqlite3_str_appendf(p->text, "t %d %d %s;", x->op, column, collation);
        p->is_one |= column == -1 && x->op == SQLITE_INDEX_CONSTRAINT_EQ;
    }
    p->terms++;
    use(p, c, true);
}

/* ORDER BY distance, or the score that falls or rises with it. */
static bool is_by_distance(const plan *p)
{
    const sqlite3_index_info *info = p->info;
    const gx_vec_shape *s = p->shape;
    if (info->nOrderBy != 1) {
        return info->nOrderBy == 0;
    }
    int vector = s->column[info->aConstraint[p->match].iColumn - 1].vector;
    bool is_distance = gx_measures[s->vector[vector].metric].is_distance;
    return info->aOrderBy[0].iColumn == gx_vec_score(s)
               ? info->aOrderBy[0].desc != is_distance
               : info->aOrderBy[0].iColumn == gx_vec_distance(s) && !info->aOrderBy[0].desc;
}

static void plan_match(plan *p)
{
    sqlite3_index_info *info = p->info;
    bool is_ordered = is_by_distance(p);
    int asked = gx_vec_plan(p->shape);
    bool is_asked = asked > 0 && (info->colUsed >> asked & 1) != 0;
    info->idxNum = GX_VEC_PLAN_MATCH | (is_asked ? GX_VEC_PLAN_ASKED : 0);
    info->orderByConsumed = is_ordered && info->nOrderBy > 0;
    info->estimatedCost = p->is_one ? MATCH_ONE_COST : MATCH_COST;
    info->estimatedRows = 10;
    if (p->probe >= 0) {
        sqlite3_str_appendall(p->text, "p;");
        use(p, p->probe, true);
    }
    if (p->k >= 0) {
        sqlite3_str_appendall(p->text, "k;");
        use(p, p->k, true);
    } else if (p->limit >= 0 && is_ordered && p->is_whole) {
        sqlite3_str_appendall(p->text, "l;");
        use(p, p->limit, false);
        if (p->offset >= 0) {
            sqlite3_str_appendall(p->text, "o;");
            use(p, p->offset, false);
        }
    }
}

static void plan_scan(plan *p)
{
    sqlite3_index_info *info = p->info;
    bool is_by_rowid =
        info->nOrderBy == 1 && gx_vec_plain(p->shape, info->aOrderBy[0].iColumn) == -1;
    info->orderByConsumed = is_by_rowid;
    if (is_by_rowid) {
        info->idxNum |= info->aOrderBy[0].desc ? GX_VEC_PLAN_FALLING : GX_VEC_PLAN_BY_ROWID;
    }
    info->estimatedRows = p->is_one ? 1 : 1000000 >> gx_min(16, 3 * p->terms);
    info->estimatedCost = p->is_one ? ROW_COST : SCAN_COST / (p->terms > 0 ? 4 : 1);
    info->idxFlags |= p->is_one ? SQLITE_INDEX_SCAN_UNIQUE : 0;
}

int gx_vec_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    gx_vec_table *t = (gx_vec_table *)(void *)vtab;
    plan p = {.info = info, .shape = &t->shape, .next = 1, .is_whole = true};
    p.match = p.k = p.limit = p.offset = p.probe = -1;
    look_for_match(&p);
    if (p.match >= 0 ? p.is_unusable : p.k >= 0 || p.probe >= 0) {
        return SQLITE_CONSTRAINT; // k and probe say nothing without MATCH
    }
    p.text = sqlite3_str_new(NULL);
    if (p.match >= 0) {
        int column = info->aConstraint[p.match].iColumn;
        sqlite3_str_appendf(p.text, "m %d;", t->shape.column[column - 1].vector);
        use(&p, p.match, true);
    }
    for (int c = 0; c < info->nConstraint; c++) {
        if (c != p.match && c != p.k && c != p.limit && c != p.offset && c != p.probe) {
            take_term(&p, c);
        }
    }
    if (p.match >= 0) {
        plan_match(&p);
    } else {
        plan_scan(&p);
    }
    bool is_empty = sqlite3_str_length(p.text) == 0 && sqlite3_str_errcode(p.text) == SQLITE_OK;
    info->idxStr = sqlite3_str_finish(p.text);
    info->idxStr = is_empty ? sqlite3_mprintf("%s", "") : info->idxStr;
    info->needToFreeIdxStr = 1;
    return info->idxStr == NULL ? SQLITE_NOMEM : SQLITE_OK;
}
