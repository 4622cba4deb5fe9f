/*
** gx_plan(expression): what gx would do, without doing it.
**
**     SELECT driver, block, calls, bytes_read, flops, seconds FROM gx_plan('A.T @ B');
**
** One row a candidate, the chosen one first.  An expression is one operation on stored matrices:
**
**     A @ B     product; A.T and A.H are the transpose and the conjugate transpose
**     A + B     A - B    A * B    A / B     elementwise
**     A.T       A.H                         transpose
**     norm(A)   sum(A)                      reductions
**     cholesky(A)  lu(A)  qr(A)             factorisations
**     solve(A, B)  lstsq(A, B)  inverse(A)  what stands on them; det(A)
**     svd(A)  svd(A, 10)                    all singular values and vectors, or the largest
**     eig(A)  eig(A, 10)                    the same of eigenvalues
**
** A name with other characters than letters, digits, '_' and one dot is written in double quotes.
** What an operation would do is plan_steps.c's; the figures come from a dry run of the very program
** that would be executed (core/schedule.c).
*/
#include "plan_row.h"

#include "../core/accel.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum {
    COL_CHOSEN = 0,
    COL_DEVICE,
    COL_DRIVER,
    COL_DETAIL,
    COL_BLOCK,
    COL_CACHE_BLOCKS,
    COL_CALLS,
    COL_BYTES_READ,
    COL_BYTES_WRITTEN,
    COL_FLOPS,
    COL_SECONDS,
    COL_START,
    COL_READ,
    COL_UP,
    COL_COMPUTE,
    COL_DOWN,
    COL_WRITE,
    COL_COMMIT,
    COL_FACTOR,
    COL_EXPRESSION /* hidden: the argument */
};

static const char SCHEMA[] =
    "CREATE TABLE x(chosen INTEGER, device TEXT, driver TEXT, detail TEXT, "
    "block TEXT, cache_blocks INTEGER, calls INTEGER, bytes_read INTEGER, "
    "bytes_written INTEGER, flops REAL, seconds REAL, start_s REAL, read_s REAL, up_s REAL, "
    "compute_s REAL, down_s REAL, write_s REAL, commit_s REAL, factor REAL, expression HIDDEN)";

typedef struct plan_table {
    sqlite3_vtab base; /* must be first */
    gx_ctx *ctx;
} plan_table;

typedef struct plan_cursor {
    sqlite3_vtab_cursor base; /* must be first */
    plan_row row[2];          /* the chosen one first */
    int rows, at;
    sqlite3_int64 rowid;
} plan_cursor;

/* ---- the expression -------------------------------------------------------------------------- */

static void skip_blanks(expression *e)
{
    while (isspace((unsigned char)*e->at)) {
        e->at++;
    }
}

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* "quoted", or letters with at most one schema dot; then .T or .H. */
static gx_code parse_operand(expression *e, operand *out, gx_err *err)
{
    skip_blanks(e);
    size_t length = 0;
    const char *start = e->at;
    if (*e->at == '"') {
        start = ++e->at;
        while (*e->at != '\0' && *e->at != '"') {
            e->at++;
        }
        length = (size_t)(e->at - start);
        e->at += *e->at == '"';
    } else {
        while (is_name_char(*e->at) ||
               (*e->at == '.' && is_name_char(e->at[1]) &&
                !((e->at[1] == 'T' || e->at[1] == 'H') && !is_name_char(e->at[2])))) {
            e->at++;
        }
        length = (size_t)(e->at - start);
    }
    if (length == 0 || length >= sizeof out->name) {
        return gx_fail(err, GX_ARG, "expression has no matrix name at '%.20s'", start);
    }
    memcpy(out->name, start, length);
    out->name[length] = '\0';
    if (e->at[0] == '.' && (e->at[1] == 'T' || e->at[1] == 'H')) {
        out->trans = e->at[1] == 'T' ? GX_TRANS : GX_CONJ_TRANS;
        e->at += 2;
    }
    skip_blanks(e);
    return GX_OK;
}

static gx_code take(expression *e, char wanted, gx_err *err)
{
    if (*e->at != wanted) {
        return gx_fail(err, GX_ARG, "expression has no '%c' at '%.20s'", wanted, e->at);
    }
    e->at++;
    return GX_OK;
}

/* "solve(A, B)": the operation and its arguments; false: it is no such word. */
static bool take_word(expression *e, bool *takes_two)
{
    static const struct {
        const char *word;
        plan_op op;
        bool takes_two;
    } words[] = {{"norm(", PLAN_NORM, false},
                 {"sum(", PLAN_SUM, false},
                 {"cholesky(", PLAN_CHOLESKY, false},
                 {"lu(", PLAN_LU, false},
                 {"qr(", PLAN_QR, false},
                 {"solve(", PLAN_SOLVE, true},
                 {"lstsq(", PLAN_LSTSQ, true},
                 {"inverse(", PLAN_INVERSE, false},
                 {"det(", PLAN_DET, false},
                 {"svd(", PLAN_SVD, false},
                 {"eig(", PLAN_EIG, false}};
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        size_t length = strlen(words[k].word);
        if (strncmp(e->at, words[k].word, length) == 0) {
            e->at += length;
            e->op = words[k].op;
            *takes_two = words[k].takes_two;
            return true;
        }
    }
    return false;
}

/* A number of at most 15 digits. */
static gx_code parse_count(expression *e, gx_err *err)
{
    const char *start = e->at;
    skip_blanks(e);
    for (int digits = 0; isdigit((unsigned char)*e->at) && digits < 15; digits++) {
        e->k = 10 * e->k + (*e->at++ - '0');
    }
    skip_blanks(e);
    return e->k > 0 ? GX_OK : gx_fail(err, GX_ARG, "expression has no count at '%.20s'", start);
}

static gx_code parse_call(expression *e, bool takes_two, gx_err *err)
{
    GX_TRY(parse_operand(e, &e->a, err));
    if (e->op >= PLAN_SVD && *e->at == ',') {
        e->at++;
        GX_TRY(parse_count(e, err));
    }
    if (takes_two) {
        GX_TRY(take(e, ',', err));
        GX_TRY(parse_operand(e, &e->b, err));
        e->has_b = true;
    }
    GX_TRY(take(e, ')', err));
    if (e->op >= PLAN_CHOLESKY && (e->a.trans != GX_NO_TRANS || e->b.trans != GX_NO_TRANS)) {
        return gx_fail(err, GX_ARG, "expression has a transpose in an operation that plans none");
    }
    return GX_OK;
}

/* A, or A and B with a sign between. */
static gx_code parse_infix(expression *e, gx_err *err)
{
    GX_TRY(parse_operand(e, &e->a, err));
    e->op = PLAN_TRANSPOSE;
    if (*e->at != '\0' && strchr("@+-*/", *e->at) != NULL) {
        e->op = *e->at++ == '@' ? PLAN_PRODUCT : PLAN_MAP;
        e->has_b = true;
        GX_TRY(parse_operand(e, &e->b, err));
    }
    return GX_OK;
}

static gx_code parse(expression *e, const char *text, gx_err *err)
{
    memset(e, 0, sizeof *e);
    e->at = text;
    skip_blanks(e);
    bool takes_two;
    if (take_word(e, &takes_two)) {
        GX_TRY(parse_call(e, takes_two, err));
    } else {
        GX_TRY(parse_infix(e, err));
    }
    skip_blanks(e);
    if (*e->at != '\0') {
        return gx_fail(err, GX_ARG,
                       "expression is one operation on stored matrices, but goes on with '%.20s'",
                       e->at);
    }
    if (e->op == PLAN_TRANSPOSE && e->a.trans == GX_NO_TRANS) {
        return gx_fail(err, GX_ARG,
                       "expression names a matrix but no operation (@ + - * / .T .H norm sum "
                       "cholesky lu qr solve lstsq inverse det svd eig)");
    }
    return GX_OK;
}

/* ---- the row --------------------------------------------------------------------------------- */

static bool find_operand(gx_run *run, operand *x)
{
    gx_meta meta;
    gx_err err = {0};
    if (gx_store_find(run->ctx->store, x->name, &meta, &err) != GX_OK) {
        gx_run_fail(run, &err);
        return false;
    }
    gx_mat_stored(&x->mat, &meta);
    return true;
}

/* The operations that are programs, which may run on a device; not the passes over one matrix. */
static bool may_leave_host(plan_op op)
{
    return op != PLAN_NORM && op != PLAN_SUM && op != PLAN_LSTSQ && op < PLAN_SVD;
}

/* The same on the device, where there is one; the row that would be used is first. */
static void add_device(gx_run *run, expression *e, plan_cursor *cursor)
{
    size_t bytes = 0;
    gx_accel *accel = may_leave_host(e->op) ? gx_plan_look(run, &bytes) : NULL;
    if (accel == NULL || !gx_ok(run)) {
        return;
    }
    run->target = accel;
    run->target_bytes = bytes;
    gx_plan_expression(run, e, &cursor->row[1]);
    run->target = NULL;
    cursor->rows = cursor->row[1].terms.seconds > 0 ? 2 : 1; // else it has no room
    bool is_forced = run->ctx->config.number[GX_SET_BACKEND] == GX_BACKEND_CUDA;
    if (cursor->rows == 2 &&
        (is_forced || gx_plan_is_faster(cursor->row[0].cost.flops, &cursor->row[0].terms,
                                        &cursor->row[1].terms))) {
        plan_row host = cursor->row[0];
        cursor->row[0] = cursor->row[1];
        cursor->row[1] = host;
    }
}

static void make_rows(gx_run *run, const char *text, plan_cursor *cursor)
{
    expression e;
    gx_err err = {0};
    if (parse(&e, text, &err) != GX_OK) {
        gx_run_fail(run, &err);
    } else if (find_operand(run, &e.a) && (!e.has_b || find_operand(run, &e.b))) {
        gx_plan_expression(run, &e, &cursor->row[0]);
        cursor->rows = 1;
        add_device(run, &e, cursor);
    }
}

/* ---- the virtual table ----------------------------------------------------------------------- */

static int plan_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                        sqlite3_vtab **out, char **message)
{
    (void)argc, (void)argv, (void)message;
    int rc = sqlite3_declare_vtab(db, SCHEMA);
    if (rc != SQLITE_OK) {
        return rc;
    }
    sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
    plan_table *table = sqlite3_malloc64(sizeof *table);
    if (table == NULL) {
        return SQLITE_NOMEM;
    }
    memset(table, 0, sizeof *table);
    table->ctx = aux;
    *out = &table->base;
    return SQLITE_OK;
}

static int plan_disconnect(sqlite3_vtab *vtab)
{
    sqlite3_free(vtab);
    return SQLITE_OK;
}

static int plan_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    (void)vtab;
    for (int k = 0; k < info->nConstraint; k++) {
        const struct sqlite3_index_constraint *c = &info->aConstraint[k];
        if (c->iColumn == COL_EXPRESSION && c->op == SQLITE_INDEX_CONSTRAINT_EQ) {
            if (!c->usable) {
                return SQLITE_CONSTRAINT;
            }
            info->aConstraintUsage[k].argvIndex = 1;
            info->aConstraintUsage[k].omit = 1;
            info->idxNum = 1;
        }
    }
    info->estimatedRows = 1;
    info->estimatedCost = 1;
    return SQLITE_OK;
}

static int plan_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    (void)vtab;
    plan_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
    if (cursor == NULL) {
        return SQLITE_NOMEM;
    }
    memset(cursor, 0, sizeof *cursor);
    *out = &cursor->base;
    return SQLITE_OK;
}

static int plan_close(sqlite3_vtab_cursor *cursor)
{
    sqlite3_free(cursor);
    return SQLITE_OK;
}

static int plan_filter(sqlite3_vtab_cursor *base, int index, const char *text, int argc,
                       sqlite3_value **argv)
{
    (void)text, (void)argc;
    plan_cursor *cursor = (plan_cursor *)base;
    plan_table *table = (plan_table *)base->pVtab;
    cursor->rows = 0;
    cursor->at = 0;
    cursor->rowid = 0;
    memset(cursor->row, 0, sizeof cursor->row);
    gx_run run;
    gx_run_begin(&run, table->ctx, "gx_plan");
    const char *formula = index == 1 ? (const char *)sqlite3_value_text(argv[0]) : NULL;
    if (formula == NULL) {
        gx_run_failf(&run, GX_ARG, "takes one expression, such as gx_plan('A @ B')");
    } else {
        make_rows(&run, formula, cursor);
    }
    gx_run_end(&run);
    if (run.err.code != GX_OK) {
        cursor->rows = 0;
        return gx_vtab_error(base->pVtab, "gx_plan", &run.err);
    }
    return SQLITE_OK;
}

static int plan_next(sqlite3_vtab_cursor *base)
{
    plan_cursor *cursor = (plan_cursor *)base;
    cursor->at++;
    cursor->rowid++;
    return SQLITE_OK;
}

static int plan_eof(sqlite3_vtab_cursor *base)
{
    const plan_cursor *cursor = (plan_cursor *)base;
    return cursor->at >= cursor->rows;
}

/* The prediction and what it is made of. */
static void result_term(sqlite3_context *sql, const gx_terms *terms, int column)
{
    const double term[] = {terms->seconds, terms->start_s,   terms->read_s,
                           terms->up_s,    terms->compute_s, terms->down_s,
                           terms->write_s, terms->commit_s,  terms->factor};
    if (column >= COL_SECONDS && column <= COL_FACTOR) {
        sqlite3_result_double(sql, term[column - COL_SECONDS]);
    }
}

static int plan_column(sqlite3_vtab_cursor *base, sqlite3_context *sql, int column)
{
    const plan_cursor *cursor = (plan_cursor *)base;
    const plan_row *row = &cursor->row[cursor->at];
    const gx_cost *cost = &row->cost;
    switch (column) {
    case COL_CHOSEN:
        sqlite3_result_int(sql, cursor->at == 0);
        break;
    case COL_DEVICE:
        sqlite3_result_text(sql, row->device, -1, SQLITE_TRANSIENT);
        break;
    case COL_DRIVER:
        sqlite3_result_text(sql, row->driver, -1, SQLITE_TRANSIENT);
        break;
    case COL_DETAIL:
        sqlite3_result_text(sql, row->detail, -1, SQLITE_TRANSIENT);
        break;
    case COL_BLOCK:
        sqlite3_result_text(sql, row->block, -1, SQLITE_TRANSIENT);
        break;
    case COL_CACHE_BLOCKS:
        sqlite3_result_int64(sql, cost->slots);
        break;
    case COL_CALLS:
        sqlite3_result_int64(sql, cost->calls);
        break;
    case COL_BYTES_READ:
        sqlite3_result_int64(sql, (int64_t)cost->bytes_read);
        break;
    case COL_BYTES_WRITTEN:
        sqlite3_result_int64(sql, (int64_t)cost->bytes_written);
        break;
    case COL_FLOPS:
        sqlite3_result_double(sql, cost->flops);
        break;
    default:
        result_term(sql, &row->terms, column);
        break;
    }
    return SQLITE_OK;
}

static int plan_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid)
{
    *rowid = ((plan_cursor *)base)->rowid;
    return SQLITE_OK;
}

static const sqlite3_module plan_module = {
    .iVersion = 0,
    .xConnect = plan_connect, /* no xCreate: eponymous only */
    .xBestIndex = plan_best_index,
    .xDisconnect = plan_disconnect,
    .xOpen = plan_open,
    .xClose = plan_close,
    .xFilter = plan_filter,
    .xNext = plan_next,
    .xEof = plan_eof,
    .xColumn = plan_column,
    .xRowid = plan_rowid,
};

int gx_register_plan(sqlite3 *db, gx_ctx *ctx)
{
    return sqlite3_create_module_v2(db, "gx_plan", &plan_module, ctx, NULL);
}
