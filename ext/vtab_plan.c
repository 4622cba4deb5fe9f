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
**
** A name with other characters than letters, digits, '_' and one dot is written in double quotes.
** The figures come from a dry run of the very program that would be executed (core/schedule.c).
*/
#include "gx_ext.h"

#include "../core/plan.h"

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
    COL_EXPRESSION /* hidden: the argument */
};

static const char SCHEMA[] =
    "CREATE TABLE x(chosen INTEGER, device TEXT, driver TEXT, detail TEXT, "
    "block TEXT, cache_blocks INTEGER, calls INTEGER, bytes_read INTEGER, "
    "bytes_written INTEGER, flops REAL, seconds REAL, expression HIDDEN)";

typedef struct plan_table {
    sqlite3_vtab base; /* must be first */
    gx_ctx *ctx;
} plan_table;

typedef struct plan_row {
    char device[64], driver[32], detail[160], block[64];
    gx_cost cost;
    double seconds;
} plan_row;

typedef struct plan_cursor {
    sqlite3_vtab_cursor base; /* must be first */
    plan_row row;
    bool has_row;
    sqlite3_int64 rowid;
} plan_cursor;

/* ---- the expression -------------------------------------------------------------------------- */

typedef struct operand {
    char name[2 * GX_NAME_MAX + 2];
    gx_trans trans;
    gx_mat mat;
} operand;

typedef struct expression {
    const char *at; /* what is left of the text */
    operand a, b;
    char op; /* '@' '+' '-' '*' '/', or 'T' transpose, 'n' norm, 's' sum */
} expression;

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

static bool take_word(expression *e, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(e->at, word, length) != 0) {
        return false;
    }
    e->at += length;
    return true;
}

static gx_code parse_call(expression *e, gx_err *err)
{
    GX_TRY(parse_operand(e, &e->a, err));
    if (*e->at != ')') {
        return gx_fail(err, GX_ARG, "expression has no ')' at '%.20s'", e->at);
    }
    e->at++;
    return GX_OK;
}

static gx_code parse(expression *e, const char *text, gx_err *err)
{
    memset(e, 0, sizeof *e);
    e->at = text;
    skip_blanks(e);
    if (take_word(e, "norm(") || take_word(e, "sum(")) {
        e->op = e->at[-2] == 'm' && e->at[-5] == 'n' ? 'n' : 's';
        GX_TRY(parse_call(e, err));
    } else {
        GX_TRY(parse_operand(e, &e->a, err));
        if (*e->at != '\0' && strchr("@+-*/", *e->at) != NULL) {
            e->op = *e->at++;
            GX_TRY(parse_operand(e, &e->b, err));
        } else {
            e->op = 'T';
        }
    }
    skip_blanks(e);
    if (*e->at != '\0') {
        return gx_fail(err, GX_ARG,
                       "expression is one operation on stored matrices, but goes on with '%.20s'",
                       e->at);
    }
    if (e->op == 'T' && e->a.trans == GX_NO_TRANS) {
        return gx_fail(err, GX_ARG,
                       "expression names a matrix but no operation (@ + - * / .T .H norm sum)");
    }
    return GX_OK;
}

/* ---- candidates ------------------------------------------------------------------------------ */

static void describe_device(gx_run *run, plan_row *row)
{
    const gx_backend *backend;
    gx_dev *dev;
    if (gx_run_device(run, &backend, &dev) == GX_OK) {
        snprintf(row->device, sizeof row->device, "%s", backend->name);
    }
}

/* A sink of the shape a stored result would have, never written. */
static gx_code imagine_sink(gx_run *run, int64_t rows, int64_t cols, gx_dtype dtype, gx_sink *sink)
{
    *sink = (gx_sink){.run = run, .rows = rows, .cols = cols, .dtype = dtype, .is_stored = true};
    gx_err err = {0};
    gx_tile_shape(rows, cols, dtype, gx_store_max_tile_bytes(run->ctx->store), &sink->tile_rows,
                  &sink->tile_cols, &err);
    return gx_run_fail(run, &err);
}

static void plan_product(gx_run *run, expression *e, plan_row *row)
{
    gx_matmul_args args = {.A = &e->a.mat,
                           .B = &e->b.mat,
                           .transa = e->a.trans,
                           .transb = e->b.trans,
                           .alpha = {1, 0}};
    int64_t m, n;
    gx_dtype dtype;
    gx_err err = {0};
    gx_sink sink;
    if (gx_matmul_shape(&args, &m, &n, &dtype, &err) != GX_OK) {
        gx_run_fail(run, &err);
        return;
    }
    if (imagine_sink(run, m, n, dtype, &sink) != GX_OK) {
        return;
    }
    gx_matmul_plan plan;
    gx_plan_matmul(run, &args, sink.tile_rows, sink.tile_cols, &plan);
    gx_prog *prog = gx_matmul_program(run, &args, &plan, &sink);
    if (prog != NULL && gx_prog_cost(prog, &row->cost) == GX_OK) {
        row->seconds = gx_plan_seconds(run, &row->cost, dtype,
                                       gx_min(plan.block_m, gx_min(plan.block_n, plan.block_k)));
    }
    gx_prog_free(prog);
    snprintf(row->driver, sizeof row->driver, "%s",
             plan.is_hermitian ? "herk"
             : plan.is_syrk    ? "syrk"
                               : "gemm");
    snprintf(row->detail, sizeof row->detail,
             "%lld x %lld %s, %lld x %lld blocks of the result in memory, k %s", (long long)m,
             (long long)n, gx_dtype_name(dtype), (long long)plan.super_m, (long long)plan.super_n,
             plan.is_snake ? "back and forth" : "ascending");
    snprintf(row->block, sizeof row->block, "%lld x %lld x %lld", (long long)plan.block_m,
             (long long)plan.block_n, (long long)plan.block_k);
}

/* One pass over the operands, block by block. */
static void plan_pass(gx_run *run, expression *e, plan_row *row)
{
    const gx_mat *A = &e->a.mat, *B = e->b.name[0] != '\0' ? &e->b.mat : NULL;
    gx_sink sink;
    gx_dtype dtype = B == NULL ? A->dtype : gx_dtype_promote(A->dtype, B->dtype);
    int64_t rows = e->op == 'T' ? A->cols : A->rows, cols = e->op == 'T' ? A->rows : A->cols;
    if (imagine_sink(run, rows, cols, dtype, &sink) != GX_OK) {
        return;
    }
    bool is_reduction = e->op == 'n' || e->op == 's';
    size_t bytes_a = 0, bytes_b = 0, bytes_c = 0;
    gx_matrix_bytes(A->rows, A->cols, A->dtype, &bytes_a);
    if (B != NULL) {
        gx_matrix_bytes(B->rows, B->cols, B->dtype, &bytes_b);
    }
    if (!is_reduction) {
        gx_matrix_bytes(rows, cols, dtype, &bytes_c);
    }
    int64_t tile_rows = is_reduction ? A->tile_rows : sink.tile_rows;
    int64_t tile_cols = is_reduction ? A->tile_cols : sink.tile_cols;
    row->cost.bytes_read = (double)bytes_a + (double)bytes_b;
    row->cost.bytes_written = (double)bytes_c;
    row->cost.flops = e->op == 'T' ? 0 : (double)A->rows * (double)A->cols * (e->op == 'n' ? 2 : 1);
    row->cost.calls =
        gx_ceil_div(rows, gx_max(1, tile_rows)) * gx_ceil_div(cols, gx_max(1, tile_cols));
    row->seconds = gx_plan_seconds(run, &row->cost, dtype, 1024);
    const char *driver = e->op == 'n'   ? "norm"
                         : e->op == 's' ? "sum"
                         : e->op == 'T' ? "transpose"
                                        : "map";
    snprintf(row->driver, sizeof row->driver, "%s", driver);
    snprintf(row->detail, sizeof row->detail, "%lld x %lld %s, one pass", (long long)rows,
             (long long)cols, gx_dtype_name(dtype));
    snprintf(row->block, sizeof row->block, "%lld x %lld", (long long)tile_rows,
             (long long)tile_cols);
}

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

static void make_row(gx_run *run, const char *text, plan_row *row)
{
    expression e;
    gx_err err = {0};
    if (parse(&e, text, &err) != GX_OK) {
        gx_run_fail(run, &err);
        return;
    }
    if (!find_operand(run, &e.a) || (e.b.name[0] != '\0' && !find_operand(run, &e.b))) {
        return;
    }
    describe_device(run, row);
    if (e.op == '@') {
        plan_product(run, &e, row);
    } else {
        plan_pass(run, &e, row);
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
    cursor->has_row = false;
    cursor->rowid = 0;
    memset(&cursor->row, 0, sizeof cursor->row);
    gx_run run;
    gx_run_begin(&run, table->ctx, "gx_plan");
    const char *formula = index == 1 ? (const char *)sqlite3_value_text(argv[0]) : NULL;
    if (formula == NULL) {
        gx_run_failf(&run, GX_ARG, "takes one expression, such as gx_plan('A @ B')");
    } else {
        make_row(&run, formula, &cursor->row);
    }
    gx_run_end(&run);
    if (run.err.code != GX_OK) {
        return gx_vtab_error(base->pVtab, "gx_plan", &run.err);
    }
    cursor->has_row = true;
    return SQLITE_OK;
}

static int plan_next(sqlite3_vtab_cursor *base)
{
    plan_cursor *cursor = (plan_cursor *)base;
    cursor->has_row = false;
    cursor->rowid++;
    return SQLITE_OK;
}

static int plan_eof(sqlite3_vtab_cursor *base)
{
    return !((plan_cursor *)base)->has_row;
}

static int plan_column(sqlite3_vtab_cursor *base, sqlite3_context *sql, int column)
{
    const plan_row *row = &((plan_cursor *)base)->row;
    const gx_cost *cost = &row->cost;
    switch (column) {
    case COL_CHOSEN:
        sqlite3_result_int(sql, 1);
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
    case COL_SECONDS:
        sqlite3_result_double(sql, row->seconds);
        break;
    default:
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
