/*
** Matrices as rows: the modules gx_cells and gx_rows.
**
**   SELECT i, j, value, imag FROM gx_cells(A)       a row for each cell
**   SELECT i, row, label FROM gx_rows(A)            a row for each row, as a 1 x n matrix value
**   CREATE VIRTUAL TABLE a USING gx_cells('A')      the same rows as a table that can be written
**   CREATE VIRTUAL TABLE a USING gx_rows('A')
**
** One set of methods serves both modules, and both the table-valued function (A in any form: a
** name, a JSON literal, a matrix value) and the named tables (a stored matrix, looked up by name
** each time, so that it may be replaced, dropped and made again; the table is a view and owns
** nothing).  The function is the module's eponymous table, which SQLite connects without arguments;
** xCreate is xConnect.
**
** Of a sparse matrix gx_cells has the entries that are there, and nothing is written through it;
** gx_rows refuses it.
**
** The rowid is j * rows + i in gx_cells and i in gx_rows; imag is 0.0 in real matrices; a NaN is
** NULL, as everywhere in SQLite.
**
** Memory: one buffer a cursor, from the governor (cells_scan.c); a row's value is SQLite's.
** Reads: only the tiles, and in them only the rows and columns, that the constraints leave; nothing
** while only i and j are asked for.
**
** A cursor holds the context from xFilter to xClose (gx_ctx_hold), so that statements which the
** store prepared serve all its look-ups; other gx calls come and go in between.
*/
#include "cells.h"

#include "../core/base/names.h"

#include <string.h>

typedef struct cells_cursor {
    sqlite3_vtab_cursor base; /* must be first */
    gx_scan scan;
    gx_entries entries;    /* where the scan stands in a sparse matrix                           */
    sqlite3_value *matrix; /* the argument; NULL: a blob, whose elements are A's, or no argument */
    bool is_held;          /* gx_ctx_release() is due                                            */
    char *names;           /* of the rows; NULL: they have none, or nobody has asked             */
    gx_names walk;         /* along names; so many of them are behind it                         */
    int64_t named;
    const char *name; /* the latest of these, escaped; NULL: none */
    size_t name_bytes;
    bool has_asked; /* for names */
} cells_cursor;

// Errors ------------------------------------------------------------------------------------------

/* A failed scan, whose own code is SQLITE_ABORT where the matrix has changed. */
static int scan_error(cells_cursor *cursor, const gx_err *err)
{
    gx_cells_table *table = (gx_cells_table *)cursor->base.pVtab;
    return gx_cells_error(table, err, cursor->scan.has_changed ? SQLITE_ABORT : 0);
}

// Tables ------------------------------------------------------------------------------------------

/*
** The argument of CREATE VIRTUAL TABLE as SQLite hands it over, quotes and all: 'A', "A", `A` or A.
** *name is freed by sqlite3_free().
*/
static int unquote(const char *text, char **name)
{
    size_t bytes = strlen(text);
    char *out = sqlite3_malloc64(bytes + 1);
    *name = out;
    if (out == NULL) {
        return SQLITE_NOMEM;
    }
    char quote = text[0];
    if (quote != '\'' && quote != '"' && quote != '`') {
        memcpy(out, text, bytes + 1);
        return SQLITE_OK;
    }
    for (const char *c = text + 1; *c != '\0'; c++) {
        if (*c == quote && *++c != quote) {
            break; // the closing quote; a doubled one stands for itself
        }
        *out++ = *c;
    }
    *out = '\0';
    return SQLITE_OK;
}

static void free_table(gx_cells_table *table)
{
    if (table != NULL) {
        sqlite3_free(table->base.zErrMsg); // which SQLite does not take from every method
        sqlite3_free(table->schema);
        sqlite3_free(table->name);
        sqlite3_free(table->matrix);
        sqlite3_free(table);
    }
}

/* What a named table is made of; refuses, in words, anything but one name. */
static int parse_arguments(gx_cells_table *table, int argc, const char *const *argv, char **message)
{
    const char *module = table->module;
    if (argc == 3 && sqlite3_stricmp(argv[2], module) == 0) {
        return SQLITE_OK; // the table-valued function
    }
    if (argc != 4) {
        *message = sqlite3_mprintf("%s: expected one name, as in USING %s('A')", module, module);
        return SQLITE_ERROR;
    }
    if (unquote(argv[3], &table->matrix) != SQLITE_OK) {
        return SQLITE_NOMEM;
    }
    if (table->matrix[0] == '\0' || table->matrix[0] == '[' || table->matrix[0] == '{') {
        *message = sqlite3_mprintf("%s: %s: '%!.60s' is not the name of a stored matrix", module,
                                   table->name, table->matrix);
        return SQLITE_ERROR;
    }
    return SQLITE_OK;
}

/*
** The function takes the name of any matrix of the connection, so views and triggers may not use
** it.  A named table reaches one matrix of its own database (gx_cells_find()), so they may.  A
** table that a file calls gx_cells and that has no argument is taken for the function.
*/
static int declare(sqlite3 *db, const gx_cells_table *table)
{
    static const char *const columns[2][2] = {
        {"CREATE TABLE x(i INTEGER, j INTEGER, value REAL, imag REAL, matrix HIDDEN)",
         "CREATE TABLE x(i INTEGER, j INTEGER, value REAL, imag REAL)"},
        {"CREATE TABLE x(i INTEGER, row BLOB, matrix HIDDEN, label TEXT HIDDEN)",
         "CREATE TABLE x(i INTEGER, row BLOB)"}};
    int rc = sqlite3_declare_vtab(db, columns[table->is_rows][table->matrix != NULL]);
    if (rc == SQLITE_OK && table->matrix == NULL) {
        rc = sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_vtab_config(db, SQLITE_VTAB_CONSTRAINT_SUPPORT, 1);
    }
    return rc;
}

static int connect(sqlite3 *db, void *arg, int argc, const char *const *argv, sqlite3_vtab **vtab,
                   char **message)
{
    gx_cells_shared *shared = arg;
    bool is_rows = sqlite3_stricmp(argv[0], "gx_rows") == 0; // the module
    *vtab = NULL;
    gx_cells_table *table = sqlite3_malloc64(sizeof *table);
    if (table == NULL) {
        return SQLITE_NOMEM;
    }
    memset(table, 0, sizeof *table);
    table->db = db;
    table->shared = shared;
    table->ctx = shared->ctx;
    table->is_rows = is_rows;
    table->foreign_level = -1;
    table->module = is_rows ? "gx_rows" : "gx_cells";
    table->schema = sqlite3_mprintf("%s", argv[1]);
    table->name = sqlite3_mprintf("%s", argv[2]);
    int rc = table->schema == NULL || table->name == NULL ? SQLITE_NOMEM : SQLITE_OK;
    if (rc == SQLITE_OK) {
        rc = parse_arguments(table, argc, argv, message);
    }
    if (rc == SQLITE_OK) {
        rc = declare(db, table);
    }
    if (rc != SQLITE_OK) {
        gx_ctx_hold(table->ctx);
        if (*message == NULL && gx_store_is_interrupted(table->ctx->store)) {
            *message = sqlite3_mprintf("interrupted"); // SQLite's own text would not say why
            rc = SQLITE_INTERRUPT;
        }
        gx_ctx_release(table->ctx);
        free_table(table);
        return rc;
    }
    *vtab = &table->base;
    return SQLITE_OK;
}

/* Also after a transaction has ended without us: what still waits belongs to nothing any more. */
static int table_disconnect(sqlite3_vtab *vtab)
{
    gx_cells_rollback(vtab);
    free_table((gx_cells_table *)vtab);
    return SQLITE_OK;
}

/* DROP TABLE: the matrix stays, with all that was written to it. */
static int table_destroy(sqlite3_vtab *vtab)
{
    int rc = gx_cells_sync(vtab);
    if (rc == SQLITE_OK) {
        table_disconnect(vtab);
    }
    return rc;
}

static int table_rename(sqlite3_vtab *vtab, const char *name)
{
    gx_cells_table *table = (gx_cells_table *)vtab;
    char *copy = sqlite3_mprintf("%s", name);
    if (copy == NULL) {
        return SQLITE_NOMEM;
    }
    sqlite3_free(table->name);
    table->name = copy;
    return SQLITE_OK;
}

// Cursors -----------------------------------------------------------------------------------------

static int cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    (void)vtab;
    cells_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
    if (cursor == NULL) {
        return SQLITE_NOMEM;
    }
    memset(cursor, 0, sizeof *cursor);
    *out = &cursor->base;
    return SQLITE_OK;
}

static void forget_names(cells_cursor *cursor, gx_mem *mem)
{
    gx_mem_free(mem, cursor->names);
    cursor->names = NULL;
    cursor->has_asked = false;
}

static int cursor_close(sqlite3_vtab_cursor *base)
{
    cells_cursor *cursor = (cells_cursor *)base;
    gx_ctx *ctx = ((gx_cells_table *)base->pVtab)->ctx;
    forget_names(cursor, ctx->mem);
    gx_entries_clear(&cursor->entries, ctx->mem);
    gx_scan_clear(&cursor->scan);
    sqlite3_value_free(cursor->matrix);
    if (cursor->is_held) {
        gx_ctx_release(ctx);
    }
    sqlite3_free(cursor);
    return SQLITE_OK;
}

/* The matrix behind a named table.  While its own cells wait, their matrix is known: no flush. */
static gx_code open_named(gx_cells_table *table, gx_mat *A, gx_err *err)
{
    gx_meta meta;
    const gx_cells_batch *batch = &table->shared->batch;
    if (batch->table == table) {
        meta = batch->meta;
    } else {
        GX_TRY(gx_cells_find(table, &meta, err));
    }
    gx_mat_stored(A, &meta);
    return meta.is_sparse && table->is_rows
               ? gx_csr_refuse(meta.name, meta.rows, meta.cols, meta.panels->entries,
                               gx_meta_number(&meta),
                               err)
               : GX_OK;
}

/* The argument of the table-valued function.  A does not refer to it afterwards. */
static gx_code open_argument(cells_cursor *cursor, gx_cells_table *table, sqlite3_value *argument,
                             gx_mat *A, gx_err *err)
{
    if (argument == NULL) {
        return gx_fail(err, GX_ARG, "expected a matrix, as in %s('A')", table->module);
    }
    GX_TRY(table->is_rows ? gx_arg_matrix(table->ctx, argument, "A", A, err)
                          : gx_arg_matrix_any(table->ctx, argument, "A", A, err));
    sqlite3_value_free(cursor->matrix);
    cursor->matrix = NULL;
    if (A->is_sparse || sqlite3_value_type(argument) != SQLITE_BLOB) {
        cursor->matrix = sqlite3_value_dup(argument);
        if (cursor->matrix == NULL) {
            gx_mat_clear(A, table->ctx->mem);
            return gx_fail_nomem(err, (unsigned long long)sqlite3_value_bytes(argument), "A");
        }
    }
    return GX_OK;
}

static gx_code open_matrix(cells_cursor *cursor, gx_cells_table *table, sqlite3_value *argument,
                           gx_err *err)
{
    gx_mat A;
    if (table->matrix != NULL) {
        GX_TRY(open_named(table, &A, err));
    } else {
        GX_TRY(open_argument(cursor, table, argument, &A, err));
    }
    gx_scan_source(&cursor->scan, table->shared, &A);
    return GX_OK;
}

static int cursor_filter(sqlite3_vtab_cursor *base, int order, const char *plan, int argc,
                         sqlite3_value **argv)
{
    (void)argc;
    cells_cursor *cursor = (cells_cursor *)base;
    gx_cells_table *table = (gx_cells_table *)base->pVtab;
    gx_scan *scan = &cursor->scan;
    if (!cursor->is_held) {
        gx_ctx_hold(table->ctx);
        cursor->is_held = true;
    }
    scan->is_done = true;
    scan->has_changed = false;
    forget_names(cursor, table->ctx->mem);
    gx_err err = {0};
    if (open_matrix(cursor, table, gx_cells_plan_matrix(plan, argv), &err) != GX_OK) {
        return scan_error(cursor, &err);
    }
    table->rows = scan->A.rows;
    table->cols = scan->A.cols;
    bool is_rows = table->is_rows;
    gx_rect rect = gx_cells_plan_rect(plan, argv, is_rows, table->rows, table->cols);
    if (scan->A.is_sparse) {
        return gx_entries_start(&cursor->entries, scan, (gx_order)order, rect, &err) == GX_OK
                   ? SQLITE_OK
                   : scan_error(cursor, &err);
    }
    if (is_rows) { // a row without columns is a row still
        rect.j1 = gx_max(1, rect.j1);
    }
    gx_scan_start(scan, (gx_order)order, is_rows, rect);
    return SQLITE_OK;
}

static int cursor_eof(sqlite3_vtab_cursor *base)
{
    return ((cells_cursor *)base)->scan.is_done;
}

static int next_chunk(cells_cursor *cursor)
{
    gx_err err = {0};
    if (gx_scan_next_chunk(&cursor->scan, &err) != GX_OK) {
        return scan_error(cursor, &err);
    }
    return SQLITE_OK;
}

static int cells_next(sqlite3_vtab_cursor *base)
{
    gx_scan *scan = &((cells_cursor *)base)->scan;
    const gx_rect *chunk = &scan->chunk;
    if (scan->A.is_sparse) {
        gx_err err = {0};
        cells_cursor *cursor = (cells_cursor *)base;
        return gx_entries_next(&cursor->entries, scan, &err) == GX_OK ? SQLITE_OK
                                                                      : scan_error(cursor, &err);
    }
    if (scan->order == GX_BY_ROW) {
        if (++scan->j < chunk->j1) {
            return SQLITE_OK;
        }
        scan->j = chunk->j0;
        if (++scan->i < chunk->i1) {
            return SQLITE_OK;
        }
    } else {
        if (++scan->i < chunk->i1) {
            return SQLITE_OK;
        }
        scan->i = chunk->i0;
        if (++scan->j < chunk->j1) {
            return SQLITE_OK;
        }
    }
    return next_chunk((cells_cursor *)base);
}

static int rows_next(sqlite3_vtab_cursor *base)
{
    gx_scan *scan = &((cells_cursor *)base)->scan;
    return ++scan->i < scan->chunk.i1 ? SQLITE_OK : next_chunk((cells_cursor *)base);
}

// Columns -----------------------------------------------------------------------------------------

/* A failure inside xColumn: SQLite takes the text from the context. */
static int column_error(cells_cursor *cursor, sqlite3_context *sql, const gx_err *err)
{
    int code = scan_error(cursor, err);
    sqlite3_result_error(sql, cursor->base.pVtab->zErrMsg, -1);
    sqlite3_result_error_code(sql, code);
    return code;
}

/* A result of rows x (all columns) elements as a matrix value. */
static int value_column(cells_cursor *cursor, sqlite3_context *sql, int64_t rows, const void *data,
                        int64_t ld)
{
    gx_ctx *ctx = ((gx_cells_table *)cursor->base.pVtab)->ctx;
    const gx_mat *A = &cursor->scan.A;
    gx_value_buf buf;
    gx_err err = {0};
    if (gx_value_buf_create(ctx->mem, A->dtype, rows, A->cols, gx_store_length_limit(ctx->store),
                            &buf, &err) != GX_OK) {
        return column_error(cursor, sql, &err);
    }
    for (int64_t j = 0; j < A->cols; j++) {
        memcpy(gx_dtype_at(buf.data, A->dtype, rows, 0, j),
               gx_dtype_at(data, A->dtype, ld, 0, j), (size_t)rows * cursor->scan.element);
    }
    gx_result_value(sql, ctx->mem, &buf);
    return SQLITE_OK;
}

/* The argument, as it was given. */
static int matrix_column(cells_cursor *cursor, sqlite3_context *sql)
{
    const gx_mat *A = &cursor->scan.A;
    if (cursor->matrix == NULL) {
        return value_column(cursor, sql, A->rows, A->data, A->ld);
    }
    sqlite3_result_value(sql, cursor->matrix);
    return SQLITE_OK;
}

static int cells_column(sqlite3_vtab_cursor *base, sqlite3_context *sql, int column)
{
    cells_cursor *cursor = (cells_cursor *)base;
    gx_scan *scan = &cursor->scan;
    if (column == GX_CELLS_I || column == GX_CELLS_J) {
        sqlite3_result_int64(sql, column == GX_CELLS_I ? scan->i : scan->j);
        return SQLITE_OK;
    }
    if (column == GX_CELLS_MATRIX) {
        return matrix_column(cursor, sql);
    }
    if (scan->A.is_sparse) {
        const gx_scalar *x = &cursor->entries.value;
        sqlite3_result_double(sql, column == GX_CELLS_VALUE ? x->re : x->im);
        return SQLITE_OK;
    }
    if (!scan->is_loaded) {
        if (sqlite3_vtab_nochange(sql)) {
            return SQLITE_OK; // an UPDATE that leaves this column as it is
        }
        gx_err err = {0};
        if (gx_scan_load(scan, &err) != GX_OK) {
            return column_error(cursor, sql, &err);
        }
    }
    const char *at = gx_scan_at(scan, scan->i, scan->j);
    if (scan->A.dtype == GX_DTYPE_F64 && column == GX_CELLS_VALUE) {
        double value;
        memcpy(&value, at, sizeof value);
        sqlite3_result_double(sql, value);
    } else if (scan->A.dtype == GX_DTYPE_I64 && column == GX_CELLS_VALUE) {
        int64_t value;
        memcpy(&value, at, sizeof value);
        sqlite3_result_int64(sql, value);
    } else {
        gx_scalar x = gx_dtype_get(scan->A.dtype, at);
        sqlite3_result_double(sql, column == GX_CELLS_VALUE ? x.re : x.im);
    }
    return SQLITE_OK;
}

/* The names of the rows, looked up once a scan. */
static gx_code ask_for_names(cells_cursor *cursor, gx_store *store, gx_err *err)
{
    const gx_mat *A = &cursor->scan.A;
    size_t bytes;
    if (cursor->has_asked || A->kind != GX_MAT_STORED) {
        return GX_OK;
    }
    GX_TRY(gx_store_read_labels(store, &A->meta, 0, &cursor->names, &bytes, err));
    cursor->has_asked = true;
    cursor->named = INT64_MAX;
    return GX_OK;
}

/* The name of the row; rows come in order as a rule, and so do names. */
static int label_column(cells_cursor *cursor, sqlite3_context *sql)
{
    gx_ctx *ctx = ((gx_cells_table *)cursor->base.pVtab)->ctx;
    int64_t i = cursor->scan.i;
    gx_err err = {0};
    if (ask_for_names(cursor, ctx->store, &err) != GX_OK) {
        return column_error(cursor, sql, &err);
    }
    if (cursor->names != NULL && cursor->named > i + 1) {
        gx_names_begin(&cursor->walk, cursor->names, strlen(cursor->names));
        cursor->named = 0;
    }
    for (; cursor->names != NULL && cursor->named <= i; cursor->named++) {
        if (!gx_names_next(&cursor->walk, &cursor->name, &cursor->name_bytes)) {
            cursor->name = NULL;
        }
    }
    if (cursor->names == NULL || cursor->name == NULL) {
        return SQLITE_OK;
    }
    char *plain = sqlite3_malloc64(cursor->name_bytes + 1);
    if (plain == NULL) {
        return SQLITE_NOMEM;
    }
    sqlite3_result_text64(sql, plain, gx_names_plain(cursor->name, cursor->name_bytes, plain),
                          sqlite3_free, SQLITE_UTF8);
    return SQLITE_OK;
}

static int rows_column(sqlite3_vtab_cursor *base, sqlite3_context *sql, int column)
{
    cells_cursor *cursor = (cells_cursor *)base;
    gx_scan *scan = &cursor->scan;
    if (column == GX_ROWS_I) {
        sqlite3_result_int64(sql, scan->i);
        return SQLITE_OK;
    }
    if (column == GX_ROWS_MATRIX) {
        return matrix_column(cursor, sql);
    }
    if (column == GX_ROWS_LABEL) {
        return label_column(cursor, sql);
    }
    gx_err err = {0};
    if (scan->A.cols > 0 && gx_scan_load(scan, &err) != GX_OK) {
        return column_error(cursor, sql, &err);
    }
    const void *row = scan->A.cols > 0 ? gx_scan_at(scan, scan->i, 0) : NULL;
    return value_column(cursor, sql, 1, row, scan->window.ld);
}

static int cells_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid)
{
    const gx_scan *scan = &((cells_cursor *)base)->scan;
    *rowid = scan->j * scan->A.rows + scan->i;
    return SQLITE_OK;
}

static int rows_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid)
{
    *rowid = ((cells_cursor *)base)->scan.i;
    return SQLITE_OK;
}

// Modules -----------------------------------------------------------------------------------------

/* connect also creates: only then is there a table-valued function too. */
#define MODULE(next, column, rowid)                                                                \
    {                                                                                              \
        .iVersion = 2, .xCreate = connect, .xConnect = connect,                                    \
        .xBestIndex = gx_cells_best_index, .xDisconnect = table_disconnect,                        \
        .xDestroy = table_destroy, .xOpen = cursor_open, .xClose = cursor_close,                   \
        .xFilter = cursor_filter, .xNext = (next), .xEof = cursor_eof, .xColumn = (column),        \
        .xRowid = (rowid), .xUpdate = gx_cells_update, .xBegin = gx_cells_begin,                   \
        .xSync = gx_cells_sync, .xCommit = gx_cells_commit, .xRollback = gx_cells_rollback,        \
        .xRename = table_rename, .xSavepoint = gx_cells_savepoint, .xRelease = gx_cells_release,   \
        .xRollbackTo = gx_cells_rollback_to,                                                       \
    }

static const sqlite3_module cells_module = MODULE(cells_next, cells_column, cells_rowid);
static const sqlite3_module rows_module = MODULE(rows_next, rows_column, rows_rowid);

/* A module is gone; the last one takes what they share along.  The context may be gone already. */
static void free_shared(void *arg)
{
    gx_cells_shared *shared = arg;
    if (--shared->modules == 0) {
        sqlite3_free(shared);
    }
}

int gx_register_cells(sqlite3 *db, gx_ctx *ctx)
{
    gx_cells_shared *shared = sqlite3_malloc64(sizeof *shared);
    if (shared == NULL) {
        return SQLITE_NOMEM;
    }
    memset(shared, 0, sizeof *shared);
    shared->ctx = ctx;
    shared->modules = 2;
    shared->batch.entries = shared->batch.embedded;
    shared->batch.capacity = GX_CELLS_EMBEDDED;
    gx_store_set_flush(ctx->store, gx_cells_flush, shared);
    // On failure SQLite calls free_shared() as well: each call counts one module down.
    int rc = sqlite3_create_module_v2(db, "gx_cells", &cells_module, shared, free_shared);
    int rows_rc = sqlite3_create_module_v2(db, "gx_rows", &rows_module, shared, free_shared);
    return rc != SQLITE_OK ? rc : rows_rc;
}
