/*
** The virtual table of a table-valued function: see table_fn.h.
**
** Arguments are the hidden columns, which SQLite hands over as equality constraints: xBestIndex
** takes them all, in their order, and tells xFilter by the bits of idxNum which came (the low ones)
** and which visible columns the statement uses (from USED_SHIFT on), so that vectors nobody looks
** at are not computed.  A constraint that is not usable in this plan makes SQLite look for another.
**
** A table whose first columns are ranged also takes comparisons with these, an ORDER BY of these
** and LIMIT: idxStr names them in the order of their values, two letters each (column, operator).
** None is omitted: SQLite compares once more.
**
** Of a falling column one lower bound is taken, behind the arguments, and an ORDER BY: a bit of
** idxNum each.  The order only where nothing else is compared: of few rows that are left then
** SQLite's own sorting is the faster one.
**
** xFilter is one gx call: it begins a run, lets the function compute all rows, and ends it.  The
** rows are the state of the cursor until the next xFilter or xClose.
*/
#include "table_fn.h"

#include "help.h"

#include <math.h>
#include <string.h>

#ifndef SQLITE_INDEX_CONSTRAINT_LIMIT // SQLite before 3.38 passes none
#define SQLITE_INDEX_CONSTRAINT_LIMIT 73
#define SQLITE_INDEX_CONSTRAINT_OFFSET 74
#endif

enum {
    USED_SHIFT = GX_TABLE_ARGS_MAX,
    FALLING_SHIFT = USED_SHIFT + GX_TABLE_COLUMNS_MAX,
    FLOOR_SHIFT
};

typedef struct binding {
    gx_ctx *ctx;
    const gx_table_fn *def;
} binding;

typedef struct table {
    sqlite3_vtab base; // base class - must be first
    binding bound;
} table;

typedef struct cursor {
    sqlite3_vtab_cursor base; // base class - must be first
    int64_t row, rows;
    bool has_state;
    int64_t state[]; // of def->state_bytes; SQLite aligns to 8
} cursor;

static const binding *bound_of(sqlite3_vtab_cursor *base)
{
    return &((table *)base->pVtab)->bound;
}

static int connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
                   char **message)
{
    (void)argc, (void)argv, (void)message;
    const binding *bound = aux;
    int rc = sqlite3_declare_vtab(db, bound->def->shape);
    if (rc != SQLITE_OK) {
        return rc;
    }
    sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
    table *made = sqlite3_malloc64(sizeof *made);
    if (made == NULL) {
        return SQLITE_NOMEM;
    }
    memset(made, 0, sizeof *made);
    made->bound = *bound;
    *out = &made->base;
    return SQLITE_OK;
}

static int disconnect(sqlite3_vtab *vtab)
{
    sqlite3_free(vtab);
    return SQLITE_OK;
}

static bool is_ordered(const gx_table_fn *def, const sqlite3_index_info *info)
{
    bool is = info->nOrderBy <= def->ranged;
    for (int k = 0; k < info->nOrderBy && is; k++) {
        is = info->aOrderBy[k].iColumn == k && !info->aOrderBy[k].desc;
    }
    return is;
}

/*
** What is said of ranged columns, LIMIT and OFFSET.  LIMIT counts rows that come out in the end: it
** says something of those that go in only where nothing else is in between.
*/
static int take_ranges(const gx_table_fn *def, sqlite3_index_info *info, int next)
{
    enum { LETTERS_MAX = 64 };
    char letters[LETTERS_MAX + 1];
    int count = 0;
    bool is_whole = is_ordered(def, info);
    info->orderByConsumed = info->nOrderBy > 0 && is_whole;
    for (int pass = 0; pass < 2; pass++) { // comparisons; then what they let through
        for (int k = 0; k < info->nConstraint; k++) {
            const struct sqlite3_index_constraint *c = &info->aConstraint[k];
            bool is_limit = c->op == SQLITE_INDEX_CONSTRAINT_LIMIT;
            bool is_offset = c->op == SQLITE_INDEX_CONSTRAINT_OFFSET;
            char letter = is_limit ? 'L' : is_offset ? 'O' : gx_comparison_letter(c->op);
            bool is_ranged = letter != '\0' && c->iColumn >= 0 && c->iColumn < def->ranged;
            if ((is_limit || is_offset) != (pass == 1) ||
                (pass == 0 && c->iColumn >= def->columns)) {
                continue;
            }
            if (!c->usable || (pass == 0 ? !is_ranged : !is_whole) || count == LETTERS_MAX) {
                is_whole = false;
                continue;
            }
            letters[count++] = (char)(pass == 1 ? '0' : '0' + c->iColumn);
            letters[count++] = letter;
            info->aConstraintUsage[k].argvIndex = next++;
        }
    }
    letters[count] = '\0';
    info->idxStr = sqlite3_mprintf("%s", letters);
    info->needToFreeIdxStr = 1;
    return info->idxStr == NULL ? SQLITE_NOMEM : SQLITE_OK;
}

/* The first lower bound of the falling column becomes the next value; and its order. */
static void take_falling(const gx_table_fn *def, sqlite3_index_info *info, int next)
{
    bool is_ordered =
        info->nOrderBy == 1 && info->aOrderBy[0].desc && info->aOrderBy[0].iColumn == def->falling;
    for (int k = 0; k < info->nConstraint; k++) {
        const struct sqlite3_index_constraint *c = &info->aConstraint[k];
        bool is_floor =
            c->iColumn == def->falling && c->usable && (info->idxNum >> FLOOR_SHIFT & 1) == 0 &&
            (c->op == SQLITE_INDEX_CONSTRAINT_GT || c->op == SQLITE_INDEX_CONSTRAINT_GE);
        if (is_floor) {
            info->aConstraintUsage[k].argvIndex = next;
            info->idxNum |= 1 << FLOOR_SHIFT;
        }
        is_ordered = is_ordered && (is_floor || c->iColumn >= def->columns ||
                                    c->op == SQLITE_INDEX_CONSTRAINT_LIMIT ||
                                    c->op == SQLITE_INDEX_CONSTRAINT_OFFSET);
    }
    if (is_ordered) {
        info->idxNum |= 1 << FALLING_SHIFT;
        info->orderByConsumed = 1;
    }
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    const gx_table_fn *def = ((table *)vtab)->bound.def;
    int place[GX_TABLE_ARGS_MAX], given = 0, next = 1;
    for (int a = 0; a < GX_TABLE_ARGS_MAX; a++) {
        place[a] = -1;
    }
    for (int k = 0; k < info->nConstraint; k++) {
        const struct sqlite3_index_constraint *c = &info->aConstraint[k];
        int argument = c->iColumn - def->columns;
        if (argument < 0 || argument >= def->def.max_args || c->op != SQLITE_INDEX_CONSTRAINT_EQ) {
            continue;
        }
        if (!c->usable) {
            return SQLITE_CONSTRAINT;
        }
        place[argument] = k;
    }
    for (int a = 0; a < def->def.max_args; a++) {
        if (place[a] >= 0) {
            info->aConstraintUsage[place[a]].argvIndex = next++;
            info->aConstraintUsage[place[a]].omit = 1;
            given |= 1 << a;
        }
    }
    int visible = (1 << def->columns) - 1;
    info->idxNum = given | ((int)info->colUsed & visible) << USED_SHIFT;
    if (def->falling > 0) {
        take_falling(def, info, next);
    }
    info->estimatedRows = 100;
    info->estimatedCost = 1000;
    return def->ranged > 0 ? take_ranges(def, info, next) : SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    size_t bytes = sizeof(cursor) + ((table *)vtab)->bound.def->state_bytes;
    cursor *made = sqlite3_malloc64(bytes);
    if (made == NULL) {
        return SQLITE_NOMEM;
    }
    memset(made, 0, bytes);
    *out = &made->base;
    return SQLITE_OK;
}

static void clear_state(cursor *cur)
{
    const gx_table_fn *def = bound_of(&cur->base)->def;
    if (cur->has_state && def->clear != NULL) {
        def->clear(cur->state);
    }
    cur->has_state = false;
    cur->row = cur->rows = 0;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
    clear_state((cursor *)base);
    sqlite3_free(base);
    return SQLITE_OK;
}

/* What the letters of take_ranges() and their values come to. */
static gx_table_wish wish_of(uint32_t used, const char *letters, sqlite3_value **value)
{
    gx_table_wish wish = {.used = used, .limit = INT64_MAX};
    int64_t limit = INT64_MAX, offset = 0;
    bool is_whole = true;
    for (int c = 0; c < GX_TABLE_RANGED_MAX; c++) {
        wish.end[c] = GX_INDEX_END;
    }
    for (int k = 0; letters != NULL && letters[2 * k] != '\0'; k++) {
        char letter = letters[2 * k + 1];
        bool is_count = letter == 'L' || letter == 'O';
        if (!is_count) {
            int c = letters[2 * k] - '0';
            gx_cut_by_value(letter, value[k], &wish.begin[c], &wish.end[c]);
        } else if (sqlite3_value_type(value[k]) != SQLITE_INTEGER) {
            is_whole = false;
        } else if (letter == 'L') {
            limit = sqlite3_value_int64(value[k]);
        } else {
            offset = gx_max(0, sqlite3_value_int64(value[k]));
        }
    }
    if (is_whole && limit >= 0 && limit < INT64_MAX - offset) {
        wish.limit = limit + offset;
    }
    return wish;
}

/* What is no number says nothing here; SQLite compares once more. */
static double floor_of(sqlite3_value *value)
{
    int type = sqlite3_value_type(value);
    bool is_number = type == SQLITE_INTEGER || type == SQLITE_FLOAT;
    return is_number ? sqlite3_value_double(value) : -(double)INFINITY;
}

static int filter(sqlite3_vtab_cursor *base, int index, const char *text, int argc,
                  sqlite3_value **argv)
{
    cursor *cur = (cursor *)base;
    const binding *bound = bound_of(base);
    const gx_table_fn *def = bound->def;
    int given = index & ((1 << USED_SHIFT) - 1);
    bool has_floor = (index >> FLOOR_SHIFT & 1) != 0;
    int args = argc - has_floor - (int)(text == NULL ? 0 : strlen(text) / 2); // the others: ranges
    uint32_t used = (uint32_t)(index >> USED_SHIFT) & ((1U << GX_TABLE_COLUMNS_MAX) - 1);
    clear_state(cur);
    memset(cur->state, 0, def->state_bytes);
    if (def->look != NULL) {
        cur->has_state = true;
        def->look(bound->ctx, cur->state, &cur->rows);
        gx_ctx_log(bound->ctx);
        return SQLITE_OK;
    }
    gx_fn fn;
    bool is_begun = gx_fn_begin(&fn, NULL, bound->ctx, &def->def, args, argv);
    // Arguments without a gap are the first ones.
    if (is_begun && given != (1 << args) - 1) {
        is_begun = gx_fn_fail(&fn, "an argument before the last one is missing");
    }
    if (is_begun && def->begin_within != NULL) {
        gx_table_wish wish = wish_of(used, text, argv + args);
        wish.is_falling = (index >> FALLING_SHIFT & 1) != 0;
        wish.floor = has_floor ? floor_of(argv[args]) : -(double)INFINITY;
        cur->has_state = true;
        def->begin_within(&fn, &wish, cur->state, &cur->rows);
    } else if (is_begun) {
        cur->has_state = true;
        def->begin(&fn, used, cur->state, &cur->rows);
    }
    if (gx_fn_end(&fn) != GX_OK) {
        clear_state(cur);
        return gx_vtab_error(base->pVtab, def->def.name, &fn.run.err);
    }
    return SQLITE_OK;
}

static int next(sqlite3_vtab_cursor *base)
{
    ((cursor *)base)->row++;
    return SQLITE_OK;
}

static int is_at_end(sqlite3_vtab_cursor *base)
{
    return ((cursor *)base)->row >= ((cursor *)base)->rows;
}

static void result_vector(sqlite3_context *sql, gx_ctx *ctx, const char *function,
                          const gx_cell *cell)
{
    gx_err err = {0};
    gx_value_buf buf;
    int64_t limit = sqlite3_limit(sqlite3_context_db_handle(sql), SQLITE_LIMIT_LENGTH, -1);
    if (gx_value_buf_create(ctx->mem, gx_dtype_of(cell->number), cell->integer, 1, limit, &buf,
                            &err) != GX_OK) {
        gx_result_error(sql, function, &err);
        return;
    }
    for (int64_t i = 0; i < cell->integer; i++) {
        memcpy(gx_at(buf.data, cell->number, 1, i, 0),
               gx_at(cell->data, cell->number, 1, i * cell->stride, 0),
               gx_number_bytes(cell->number));
    }
    gx_result_value(sql, ctx->mem, &buf);
}

void gx_cell_result(sqlite3_context *sql, gx_ctx *ctx, const char *function, const gx_cell *cell)
{
    switch (cell->type) {
    case GX_CELL_INT:
        sqlite3_result_int64(sql, cell->integer);
        break;
    case GX_CELL_REAL:
        sqlite3_result_double(sql, cell->real);
        break;
    case GX_CELL_TEXT:
        sqlite3_result_text(sql, cell->data, (int)cell->integer, SQLITE_TRANSIENT);
        break;
    case GX_CELL_BLOB:
        sqlite3_result_blob64(sql, cell->data, (sqlite3_uint64)cell->integer, SQLITE_TRANSIENT);
        break;
    case GX_CELL_VECTOR:
        result_vector(sql, ctx, function, cell);
        break;
    default:
        break;
    }
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *sql, int number)
{
    cursor *cur = (cursor *)base;
    const binding *bound = bound_of(base);
    if (number < bound->def->columns && bound->def->cell != NULL) {
        const gx_cell cell = bound->def->cell(cur->state, bound->ctx, cur->row, number);
        gx_cell_result(sql, bound->ctx, bound->def->def.name, &cell);
    } else if (number < bound->def->columns) {
        bound->def->column(cur->state, bound->ctx, cur->row, number, sql);
    }
    return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = ((cursor *)base)->row;
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .iVersion = 0,
    .xConnect = connect, /* no xCreate: eponymous only */
    .xBestIndex = best_index,
    .xDisconnect = disconnect,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next,
    .xEof = is_at_end,
    .xColumn = column,
    .xRowid = rowid,
};

static int register_one(sqlite3 *db, gx_ctx *ctx, const gx_table_fn *def)
{
    binding *bound = sqlite3_malloc64(sizeof *bound);
    if (bound == NULL) {
        return SQLITE_NOMEM;
    }
    *bound = (binding){.ctx = ctx, .def = def};
    return sqlite3_create_module_v2(db, def->def.name, &module, bound, sqlite3_free);
}

int gx_register_table_fns(sqlite3 *db, gx_ctx *ctx)
{
#define ROW(name) &gx_table_##name,
    static const gx_table_fn *const tables[] = {GX_TABLE_FNS(ROW)};
#undef ROW
    int rc = SQLITE_OK;
    for (size_t t = 0; t < sizeof tables / sizeof tables[0] && rc == SQLITE_OK; t++) {
        rc = register_one(db, ctx, tables[t]);
    }
    return rc;
}

// What a scan keeps -------------------------------------------------------------------------------

bool gx_keep(gx_fn *fn, gx_sink *sink, gx_kept *kept)
{
    if (gx_sink_end(sink) == GX_OK) {
        *kept = (gx_kept){fn->ctx->mem, sink->value};
    }
    return gx_ok(&fn->run);
}

void gx_kept_clear(gx_kept *kept)
{
    if (kept->mem != NULL) {
        gx_value_buf_free(kept->mem, &kept->value);
    }
}

gx_cell gx_kept_cell(const gx_kept *kept)
{
    const gx_value_buf *value = &kept->value;
    return (gx_cell){.type = kept->mem == NULL ? GX_CELL_NULL : GX_CELL_BLOB,
                     .data = value->blob,
                     .integer = (int64_t)value->bytes};
}

// Tables that are called like functions -----------------------------------------------------------

/*
** SELECT gx_knn(Q, E, k): of a name that it knows as a table alone SQLite says "no such function",
** which is true and sends its reader to look for a spelling; here it is said where such rows come
** from.
*/
static void refuse(gx_fn *fn)
{
    char usage[GX_USAGE_BYTES];
    gx_help_usage(fn->def->name, usage);
    gx_fn_fail(fn, "is a table, not a function: its rows come FROM %s",
               usage[0] == ':' ? usage + sizeof ": " - 1 : fn->def->name);
}

#define REFUSED(name) {"gx_" #name, 0, -1, 0, refuse, 0}

const gx_function gx_functions_tables[] = {
    REFUSED(cells),   REFUSED(rows),   REFUSED(topk),     REFUSED(histogram),
    REFUSED(knn),     REFUSED(spread), REFUSED(plan),     REFUSED(volume),
    REFUSED(settings), REFUSED(stats), REFUSED(events),   REFUSED(devices),
    REFUSED(objects), REFUSED(test),   REFUSED(lm_terms), REFUSED(lm_model),
    REFUSED(lm_anova), REFUSED(cca),   REFUSED(factor),   REFUSED(lda_axes),
    REFUSED(lda_groups), REFUSED(predictions),
    {.name = NULL}};
