/*
** The virtual table of a table-valued function: see table_fn.h.
**
** Arguments are the hidden columns, which SQLite hands over as equality constraints: xBestIndex
** takes them all, in their order, and tells xFilter by the bits of idxNum which came (the low ones)
** and which visible columns the statement uses (from USED_SHIFT on), so that vectors nobody looks
** at are not computed.  A constraint that is not usable in this plan makes SQLite look for another.
**
** xFilter is one gx call: it begins a run, lets the function compute all rows, and ends it.  The
** rows are the state of the cursor until the next xFilter or xClose.
*/
#include "table_fn.h"

#include <string.h>

enum { USED_SHIFT = GX_TABLE_ARGS_MAX };

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
    info->estimatedRows = 100;
    info->estimatedCost = 1000;
    return SQLITE_OK;
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

static int filter(sqlite3_vtab_cursor *base, int index, const char *text, int argc,
                  sqlite3_value **argv)
{
    (void)text;
    cursor *cur = (cursor *)base;
    const binding *bound = bound_of(base);
    const gx_table_fn *def = bound->def;
    clear_state(cur);
    memset(cur->state, 0, def->state_bytes);
    gx_fn fn;
    bool is_begun = gx_fn_begin(&fn, NULL, bound->ctx, &def->def, argc, argv);
    // Arguments without a gap are the first ones.
    if (is_begun && (index & ((1 << USED_SHIFT) - 1)) != (1 << argc) - 1) {
        is_begun = gx_fn_fail(&fn, "an argument before the last one is missing");
    }
    if (is_begun) {
        cur->has_state = true;
        def->begin(&fn, (uint32_t)(index >> USED_SHIFT), cur->state, &cur->rows);
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

static int column(sqlite3_vtab_cursor *base, sqlite3_context *sql, int number)
{
    cursor *cur = (cursor *)base;
    const binding *bound = bound_of(base);
    if (number < bound->def->columns) {
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

void gx_table_result_matrix(sqlite3_context *sql, gx_ctx *ctx, const char *name, gx_dtype dtype,
                            int64_t rows, int64_t cols, const void *data, int64_t stride,
                            int64_t ld)
{
    gx_err err = {0};
    gx_value_buf buf;
    int64_t limit = sqlite3_limit(sqlite3_context_db_handle(sql), SQLITE_LIMIT_LENGTH, -1);
    if (gx_value_buf_create(ctx->mem, dtype, rows, cols, limit, &buf, &err) != GX_OK) {
        gx_result_error(sql, name, &err);
        return;
    }
    size_t es = gx_dtype_bytes(dtype);
    for (int64_t j = 0; j < cols && rows > 0; j++) {
        for (int64_t i = 0; i < rows; i++) {
            memcpy(gx_at(buf.data, dtype, rows, i, j), gx_at(data, dtype, ld, i * stride, j), es);
        }
    }
    gx_result_value(sql, ctx->mem, &buf);
}
