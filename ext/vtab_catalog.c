/*
** The catalog: the virtual table gx, one row a stored matrix.
**
**     SELECT name, rows, cols, dtype, properties, tile_rows, tile_cols, bytes, generation, format,
**            nnz FROM gx;
**     DELETE FROM gx WHERE name = 'A';                drop, pages go back for reuse
**     UPDATE gx SET name = 'B' WHERE name = 'A';      rename
**     INSERT INTO gx(name, value) VALUES('A', '[[1,2],[3,4]]');
**
** Hidden columns: schema, the database of the row (WHERE schema = 'aux', or gx('aux'), lists that
** one instead of the table's own), and value, the matrix itself as a matrix value.
**
** The module gx is eponymous: nothing of it is in a database's schema, where tools without gx would
** stumble over it.  gx, or main.gx, is main's catalog, aux.gx that of aux; which one a statement
** means is told by its text (core/store/store_named.c).  gx_catalog is the table that gx 0.1 made
** in each database, and that old dumps make again: it works as it did, and dropping it leaves the
** matrices where they are.
**
** Both are DIRECTONLY: by schema and by name they reach the matrices of every database of the
** connection, and a view or trigger that came with one of them must not.
**
** A scan reads the catalog rows into memory at xFilter (about 600 bytes a matrix, from the
** governor), so that rows may be dropped and renamed while a statement runs over them.  Rows are
** shown as they are: a damaged one can be seen and deleted.  Transactions need no methods here:
** everything lives in ordinary tables, and nothing is cached between calls.
**
** rowid = number of the schema in PRAGMA database_list's order << 32 | matrix id.
*/
#include "table_fn.h"

#include "../core/mat/composite.h"
#include "../core/mat/sparse.h"

#include <stdio.h>
#include <string.h>

enum {
    COL_NAME = 0,
    COL_ROWS,
    COL_COLS,
    COL_DTYPE,
    COL_PROPERTIES,
    COL_TILE_ROWS,
    COL_TILE_COLS,
    COL_BYTES,
    COL_GENERATION,
    COL_FORMAT, /* 'dense', 'sparse'                     */
    COL_NNZ,    /* entries of a sparse one; else NULL    */
    COL_SCHEMA, /* hidden, and the argument of gx('aux') */
    COL_VALUE,  /* hidden */
    COL_COUNT
};

static const char *const column_names[COL_COUNT] = {
    "name",  "rows",       "cols",   "dtype", "properties", "tile_rows", "tile_cols",
    "bytes", "generation", "format", "nnz",   "schema",     "value",
};

static const char DECLARATION[] =
    "CREATE TABLE x(name TEXT, rows INTEGER, cols INTEGER, dtype TEXT, properties TEXT, "
    "tile_rows INTEGER, tile_cols INTEGER, bytes INTEGER, generation INTEGER, format TEXT, "
    "nnz INTEGER, schema TEXT HIDDEN, value HIDDEN)";

/* A row that is listed. */
typedef struct listed {
    gx_meta meta;
    int64_t schema_number;
} listed;

/* What xBestIndex tells xFilter: which arguments come, schema first. */
enum { BY_SCHEMA = 1, BY_NAME = 2 };

typedef struct catalog {
    sqlite3_vtab base; /* must be first */
    gx_ctx *ctx;
    sqlite3 *db;
    char schema[GX_NAME_MAX + 1]; /* of gx_catalog: the database that has it; else "" */
} catalog;

typedef struct cursor {
    sqlite3_vtab_cursor base; /* must be first */
    listed *rows;             /* ctx->mem */
    int64_t count, capacity, at;
    gx_hold *hold; /* what is listed stays as it is until the cursor is closed; or NULL */
} cursor;

static catalog *catalog_of(sqlite3_vtab_cursor *cur)
{
    return (catalog *)(void *)cur->pVtab;
}

// The table ---------------------------------------------------------------------------------------

static int connect_table(sqlite3 *db, gx_ctx *ctx, const char *schema, sqlite3_vtab **out)
{
    int rc = sqlite3_declare_vtab(db, DECLARATION);
    if (rc == SQLITE_OK) {
        rc = sqlite3_vtab_config(db, SQLITE_VTAB_CONSTRAINT_SUPPORT, 1);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
    }
    if (rc != SQLITE_OK) {
        return rc;
    }
    catalog *table = sqlite3_malloc64(sizeof *table);
    if (table == NULL) {
        return SQLITE_NOMEM;
    }
    *table = (catalog){.ctx = ctx, .db = db};
    snprintf(table->schema, sizeof table->schema, "%s", schema);
    *out = &table->base;
    return SQLITE_OK;
}

static int connect_eponymous(sqlite3 *db, void *ctx, int argc, const char *const *argv,
                             sqlite3_vtab **out, char **message)
{
    (void)argc;
    (void)argv;
    (void)message;
    return connect_table(db, ctx, "", out);
}

/* argv: module, schema, table. */
static int connect_real(sqlite3 *db, void *ctx, int argc, const char *const *argv,
                        sqlite3_vtab **out, char **message)
{
    if (argc != 3 || sqlite3_stricmp(argv[2], "gx") != 0) {
        *message = sqlite3_mprintf("gx_catalog: the table is named gx and takes no arguments");
        return SQLITE_ERROR;
    }
    if (sqlite3_stricmp(argv[1], "temp") == 0) {
        *message = sqlite3_mprintf("gx_catalog: temp has no table gx, it would hide main.gx");
        return SQLITE_ERROR;
    }
    return connect_table(db, ctx, argv[1], out);
}

static int create_real(sqlite3 *db, void *aux, int argc, const char *const *argv,
                       sqlite3_vtab **out, char **message)
{
    gx_ctx *ctx = aux;
    int rc = connect_real(db, ctx, argc, argv, out, message);
    if (rc != SQLITE_OK) {
        return rc;
    }
    gx_err err = {0};
    gx_ctx_hold(ctx);
    gx_code code = gx_store_make_tables(ctx->store, argv[1], &err);
    gx_ctx_release(ctx);
    if (code != GX_OK) {
        *message = sqlite3_mprintf("gx: %s", err.text);
        sqlite3_free(*out);
        *out = NULL;
    }
    return gx_sqlite_code(code);
}

static int disconnect(sqlite3_vtab *base)
{
    sqlite3_free(base->zErrMsg);
    sqlite3_free(base);
    return SQLITE_OK;
}

static int refuse_rename(sqlite3_vtab *base, const char *name)
{
    (void)name;
    gx_err err = {0};
    gx_fail(&err, GX_ARG, "the catalog cannot be renamed");
    return gx_vtab_error(base, "gx", &err);
}

static int is_shadow_name(const char *suffix)
{
    return sqlite3_stricmp(suffix, "meta") == 0 || sqlite3_stricmp(suffix, "tile") == 0 ||
           sqlite3_stricmp(suffix, "state") == 0 || sqlite3_stricmp(suffix, "volumes") == 0 ||
           sqlite3_stricmp(suffix, "extent") == 0 || sqlite3_stricmp(suffix, "label") == 0;
}

// Which schema ------------------------------------------------------------------------------------

/* Counts schemas up to the wanted one: by name, or by number. */
typedef struct numbered {
    const char *name; /* wanted, or NULL: the one with the number */
    int64_t number;
    char found[GX_NAME_MAX + 1];
    int64_t next;
} numbered;

static bool number_schema(void *arg, const char *schema)
{
    numbered *n = arg;
    bool is_it = n->name != NULL ? sqlite3_stricmp(n->name, schema) == 0 : n->number == n->next;
    if (is_it) {
        n->number = n->next;
        snprintf(n->found, sizeof n->found, "%s", schema);
    }
    n->next++;
    return is_it;
}

static gx_code find_schema(gx_store *store, numbered *n, gx_err *err)
{
    n->found[0] = '\0';
    n->next = 0;
    return gx_store_each_schema(store, number_schema, n, err);
}

// Scan --------------------------------------------------------------------------------------------

static int best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    (void)base;
    int schema = -1, name = -1;
    for (int i = 0; i < info->nConstraint; i++) {
        if (info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ) {
            continue;
        }
        if (info->aConstraint[i].iColumn == COL_SCHEMA) {
            if (!info->aConstraint[i].usable) {
                return SQLITE_CONSTRAINT; // without its value the rows would be of another schema
            }
            schema = i;
        } else if (info->aConstraint[i].iColumn == COL_NAME && info->aConstraint[i].usable &&
                   sqlite3_stricmp(sqlite3_vtab_collation(info, i), "BINARY") == 0) {
            name = i;
        }
    }
    int args = 0;
    if (schema >= 0) {
        info->idxNum |= BY_SCHEMA;
        info->aConstraintUsage[schema].argvIndex = ++args;
        info->aConstraintUsage[schema].omit = 1; // compared here, without case
    }
    if (name >= 0) {
        info->idxNum |= BY_NAME;
        info->aConstraintUsage[name].argvIndex = ++args;
        info->idxFlags |= SQLITE_INDEX_SCAN_UNIQUE;
    }
    info->estimatedRows = name >= 0 ? 1 : 100;
    info->estimatedCost = name >= 0 ? 10 : 200;
    info->orderByConsumed =
        info->nOrderBy == 1 && info->aOrderBy[0].iColumn == COL_NAME && !info->aOrderBy[0].desc;
    return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
    (void)base;
    cursor *cur = sqlite3_malloc64(sizeof *cur);
    if (cur == NULL) {
        return SQLITE_NOMEM;
    }
    *cur = (cursor){0};
    *out = &cur->base;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
    cursor *cur = (cursor *)(void *)base;
    gx_mem_free(catalog_of(base)->ctx->mem, cur->rows);
    gx_hold_drop(cur->hold);
    sqlite3_free(cur);
    return SQLITE_OK;
}

/* One xFilter: which schema, which name, and where the rows go. */
typedef struct collecting {
    catalog *table;
    cursor *cur;
    const char *schema;
    const char *name; /* the constraint, or NULL */
    int64_t number;   /* of the schema at hand   */
    bool has_schema;  /* it was found            */
    gx_err *err;
} collecting;

static bool add_row(void *arg, const gx_meta *meta)
{
    collecting *c = arg;
    cursor *cur = c->cur;
    if (cur->count == cur->capacity) {
        int64_t capacity = cur->capacity == 0 ? 8 : 2 * cur->capacity;
        void *grown = cur->rows;
        if (gx_mem_realloc(c->table->ctx->mem, (size_t)capacity * sizeof *cur->rows,
                           "list of matrices", &grown, c->err) != GX_OK) {
            return false;
        }
        cur->rows = grown;
        cur->capacity = capacity;
    }
    cur->rows[cur->count].meta = *meta;
    cur->rows[cur->count++].schema_number = c->number;
    return true;
}

/* gx_store_each_schema(): the rows of this one, when it is listed. */
static bool add_schema(void *arg, const char *schema)
{
    collecting *c = arg;
    if (sqlite3_stricmp(schema, c->schema) == 0) {
        c->has_schema = true;
        gx_store_list(c->table->ctx->store, schema, c->name, add_row, c, c->err);
    }
    c->number++;
    return c->has_schema || c->err->code != GX_OK;
}

/* schema NULL: that which the statement names, and which may have a name out of gx's reach. */
static gx_code fill(collecting *c)
{
    gx_store *store = c->table->ctx->store;
    const char *own = c->table->schema[0] == '\0' ? NULL : c->table->schema;
    char named[GX_NAME_MAX + 1];
    bool is_given = c->schema != NULL;
    if (!is_given) {
        GX_TRY(gx_store_named(store, own, false, named, c->err));
        c->schema = named;
    }
    GX_TRY(gx_store_each_schema(store, add_schema, c, c->err));
    if (is_given && !c->has_schema) {
        gx_fail(c->err, GX_ARG, "no database named '%.*s'", GX_NAME_MAX, c->schema);
    }
    c->schema = NULL;
    return c->err->code;
}

static int filter(sqlite3_vtab_cursor *base, int plan, const char *plan_text, int argc,
                  sqlite3_value **argv)
{
    (void)plan_text;
    (void)argc;
    gx_err err = {0};
    collecting c = {.table = catalog_of(base), .cur = (cursor *)(void *)base, .err = &err};
    c.cur->count = c.cur->at = 0;
    if ((plan & BY_SCHEMA) != 0) {
        c.schema = (const char *)sqlite3_value_text(*argv++);
    }
    if ((plan & BY_NAME) != 0) {
        c.name = (const char *)sqlite3_value_text(*argv);
    }
    if (((plan & BY_SCHEMA) != 0 && c.schema == NULL) ||
        ((plan & BY_NAME) != 0 && c.name == NULL)) { // = NULL is never true
        return SQLITE_OK;
    }
    gx_ctx_hold(c.table->ctx);
    gx_code code = fill(&c);
    gx_hold *before = c.cur->hold;
    c.cur->hold = code == GX_OK ? gx_store_keep_pins(c.table->ctx->store) : NULL;
    gx_hold_drop(before);
    gx_ctx_release(c.table->ctx);
    gx_ctx_failed(c.table->ctx, &err);
    return code == GX_OK ? SQLITE_OK : gx_vtab_error(base->pVtab, "gx", &err);
}

static int next(sqlite3_vtab_cursor *base)
{
    ((cursor *)(void *)base)->at++;
    return SQLITE_OK;
}

static int eof(sqlite3_vtab_cursor *base)
{
    const cursor *cur = (const cursor *)(const void *)base;
    return cur->at >= cur->count;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    const cursor *cur = (const cursor *)(const void *)base;
    const listed *row = &cur->rows[cur->at];
    *out = row->schema_number << 32 | (row->meta.id & UINT32_MAX);
    return SQLITE_OK;
}

/*
** Programs that show tables ask for every column that there is: what has no value is NULL, and does
** not end their statement.  gx_copy() says why.
*/
static bool has_no_value(gx_code code)
{
    return code == GX_ARG || code == GX_BUDGET || code == GX_TOOBIG || code == GX_CORRUPT ||
           code == GX_UNSUPPORTED;
}

/* The matrix itself, as a matrix value. */
static int result_value(catalog *table, sqlite3_context *sql, const gx_meta *row)
{
    gx_ctx *ctx = table->ctx;
    gx_run run;
    gx_run_begin(&run, ctx, "gx");
    gx_err err = {0};
    gx_meta meta;
    gx_mat mat;
    gx_sink sink;
    char name[2 * GX_NAME_MAX + 2];
    snprintf(name, sizeof name, "%s.%s", row->schema, row->name);
    if (gx_store_find_all(ctx->store, name, &meta, &err) == GX_OK &&
        gx_mat_open(ctx->store, ctx->mem, &meta, &mat, &err) == GX_OK) {
        if (gx_aux_kind_of(meta.properties) != GX_AUX_NONE) {
            gx_aux_refuse(meta.name, meta.properties, &err);
            gx_run_fail(&run, &err);
        }
        const gx_dest like = gx_dest_like(NULL, &mat);
        gx_copy_any(&run, &mat, &like, 0, &sink);
        if (gx_sink_end(&sink) == GX_OK) {
            gx_result_value(sql, ctx->mem, &sink.value);
        }
        gx_mat_clear(&mat, ctx->mem);
    }
    gx_run_fail(&run, &err);
    err = run.err;
    gx_code code = gx_run_end(&run);
    return code == GX_OK || has_no_value(code) ? SQLITE_OK
                                               : gx_vtab_error(&table->base, "gx", &err);
}

/* Bytes, or entries of a sparse one; NULL where there are none or the row is damaged. */
static gx_cell size_cell(gx_ctx *ctx, const gx_meta *row, bool is_entries)
{
    size_t bytes;
    int64_t entries = 0;
    gx_ctx_hold(ctx); // of a sparse one the directory is read
    bool is_sound = row->is_sparse
                        ? gx_store_measure_sparse(ctx->store, row, &entries, &bytes)
                        : !is_entries && (unsigned)row->dtype < GX_DTYPE_COUNT &&
                              gx_dtype_matrix_bytes(row->rows, row->cols, row->dtype, &bytes);
    gx_ctx_release(ctx);
    return !is_sound ? (gx_cell){0} : gx_cell_int(is_entries ? entries : (int64_t)bytes);
}

/* Properties; of a composite while its parts are what they were said of. */
static int result_properties(catalog *table, sqlite3_context *sql, const gx_meta *row)
{
    gx_ctx *ctx = table->ctx;
    gx_err err = {0};
    gx_mat mat;
    char text[GX_PROPERTIES_MAX];
    uint32_t bits = row->properties;
    if (row->is_composite && bits != 0) {
        gx_ctx_hold(ctx);
        bits = 0;
        if (gx_mat_open(ctx->store, ctx->mem, row, &mat, &err) == GX_OK) {
            bits = mat.properties;
            gx_mat_clear(&mat, ctx->mem);
        }
        gx_ctx_release(ctx);
    }
    if (err.code == GX_BUDGET || (err.code != GX_OK && !has_no_value(err.code))) {
        return gx_vtab_error(&table->base, "gx", &err);
    }
    sqlite3_result_text(sql, gx_properties_text(bits, text), -1, SQLITE_TRANSIENT);
    return SQLITE_OK;
}

static gx_cell cell_of(gx_ctx *ctx, const gx_meta *row, int which)
{
    switch (which) {
    case COL_NAME:
        return gx_cell_text(row->name, -1);
    case COL_ROWS:
        return gx_cell_int(row->rows);
    case COL_COLS:
        return gx_cell_int(gx_meta_shown_cols(row));
    case COL_DTYPE:
        return gx_cell_text(gx_dtype_name(row->dtype), -1);
    case COL_TILE_ROWS:
        return gx_cell_int(row->tile_rows);
    case COL_TILE_COLS:
        return gx_cell_int(row->tile_cols);
    case COL_BYTES:
    case COL_NNZ:
        return size_cell(ctx, row, which == COL_NNZ);
    case COL_GENERATION:
        return gx_cell_int(row->generation);
    case COL_FORMAT:
        return gx_cell_text(row->is_sparse               ? "sparse"
                            : row->is_composite          ? "composite"
                            : gx_meta_code_bits(row) > 0 ? "quantized"
                                                         : "dense",
                            -1);
    default:
        return gx_cell_text(row->schema, -1);
    }
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *sql, int which)
{
    const cursor *cur = (const cursor *)(const void *)base;
    const gx_meta *row = &cur->rows[cur->at].meta;
    gx_ctx *ctx = catalog_of(base)->ctx;
    if (sqlite3_vtab_nochange(sql)) { // UPDATE asks for columns that it does not set
        return SQLITE_OK;
    }
    if (which == COL_VALUE) {
        return result_value(catalog_of(base), sql, row);
    }
    if (which == COL_PROPERTIES) {
        return result_properties(catalog_of(base), sql, row);
    }
    const gx_cell cell = cell_of(ctx, row, which);
    gx_cell_result(sql, ctx, "gx", &cell);
    return SQLITE_OK;
}

// Change ------------------------------------------------------------------------------------------

/* The catalog row of a rowid: schema and id. */
static gx_code row_meta(catalog *table, sqlite3_value *row, gx_meta *meta, gx_err *err)
{
    int64_t number = sqlite3_value_int64(row);
    numbered n = {.number = number >> 32};
    GX_TRY(find_schema(table->ctx->store, &n, err));
    *meta = (gx_meta){.id = number & UINT32_MAX};
    snprintf(meta->schema, sizeof meta->schema, "%s", n.found);
    return GX_OK;
}

/* A full name "schema.name" for a new matrix, from the columns name and schema of an INSERT. */
static gx_code new_name(catalog *table, sqlite3_value **columns, char *full, size_t bytes,
                        gx_err *err)
{
    gx_store *store = table->ctx->store;
    const char *text, *schema = NULL, *own = table->schema[0] == '\0' ? NULL : table->schema;
    char head[GX_NAME_MAX + 1], name[GX_NAME_MAX + 1], named[GX_NAME_MAX + 1];
    bool has_column = sqlite3_value_type(columns[COL_SCHEMA]) != SQLITE_NULL;
    const char *bare;
    GX_TRY(gx_arg_text(columns[COL_NAME], "name", &text, err));
    GX_TRY(gx_store_split(store, text, head, &bare, err));
    bool has_head = head[0] != '\0';
    if (has_column) {
        GX_TRY(gx_arg_text(columns[COL_SCHEMA], "schema", &schema, err));
        if (has_head && sqlite3_stricmp(head, schema) != 0) {
            return gx_fail(err, GX_ARG, "name is in %s but schema is %s", head, schema);
        }
    }
    if (!has_head && schema == NULL) {
        GX_TRY(gx_store_named(store, own, true, named, err));
        schema = named;
    }
    if (has_head) {
        snprintf(full, bytes, "%s", text);
    } else {
        snprintf(full, bytes, "%s.%s", schema, text);
    }
    return gx_store_resolve(store, full, head, name, err);
}

/* An existing matrix of that name: SQLITE_OK when it may go, as INSERT OR REPLACE says. */
static int on_conflict(catalog *table, const char *full, gx_err *err)
{
    gx_meta taken;
    bool found;
    if (gx_store_locate(table->ctx->store, full, &taken, &found, err) != GX_OK) {
        return gx_vtab_error(&table->base, "gx", err);
    }
    if (!found || sqlite3_vtab_on_conflict(table->db) == SQLITE_REPLACE) {
        return SQLITE_OK;
    }
    gx_fail(err, GX_ARG, "matrix '%s' already exists (use INSERT OR REPLACE)", taken.name);
    (void)gx_vtab_error(&table->base, "gx", err);
    return SQLITE_CONSTRAINT;
}

/* Store the value; the run carries failures.  What else may be given is the dtype. */
static void store_value(gx_run *run, const char *full, sqlite3_value **columns)
{
    gx_ctx *ctx = run->ctx;
    gx_err err = {0};
    gx_mat mat = {.owned = NULL};
    gx_sink sink;
    const char *dtype_name;
    if (gx_arg_matrix_any(ctx, columns[COL_VALUE], "value", &mat, &err) != GX_OK) {
        gx_run_fail(run, &err);
        return;
    }
    gx_dest dest = {.name = full, .replace = true};
    dest.has_dtype = sqlite3_value_type(columns[COL_DTYPE]) != SQLITE_NULL;
    if (dest.has_dtype && gx_arg_text(columns[COL_DTYPE], "dtype", &dtype_name, &err) == GX_OK &&
        !gx_dtype_parse(dtype_name, &dest.dtype)) {
        gx_fail(&err, GX_ARG, "dtype '%s' is not known (%s)", dtype_name, gx_dtype_names());
    }
    dest = gx_dest_like(&dest, &mat);
    gx_run_fail(run, &err);
    gx_copy_any(run, &mat, &dest, mat.properties, &sink);
    gx_sink_end(&sink);
    gx_mat_clear(&mat, ctx->mem);
}

static int insert(catalog *table, sqlite3_value **columns, sqlite3_int64 *row)
{
    static const int refused[] = {COL_ROWS,       COL_COLS,      COL_PROPERTIES,
                                  COL_TILE_ROWS,  COL_TILE_COLS, COL_BYTES,
                                  COL_GENERATION, COL_FORMAT,    COL_NNZ};
    gx_err err = {0};
    char full[2 * GX_NAME_MAX + 512];
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (sqlite3_value_type(columns[refused[i]]) != SQLITE_NULL) {
            gx_fail(&err, GX_ARG, "column %s is not for INSERT: give name, value, dtype, schema",
                    column_names[refused[i]]);
            return gx_vtab_error(&table->base, "gx", &err);
        }
    }
    if (new_name(table, columns, full, sizeof full, &err) != GX_OK) {
        return gx_vtab_error(&table->base, "gx", &err);
    }
    int rc = on_conflict(table, full, &err);
    if (rc != SQLITE_OK) {
        return rc;
    }
    gx_run run;
    gx_meta meta = {.id = 0};
    gx_run_begin(&run, table->ctx, "gx");
    store_value(&run, full, columns);
    if (gx_ok(&run)) {
        gx_store_find_any(table->ctx->store, full, &meta, &err);
        numbered n = {.name = meta.schema};
        find_schema(table->ctx->store, &n, &err);
        *row = n.number << 32 | meta.id;
    }
    gx_run_fail(&run, &err);
    err = run.err;
    return gx_run_end(&run) == GX_OK ? SQLITE_OK : gx_vtab_error(&table->base, "gx", &err);
}

static gx_code drop(catalog *table, sqlite3_value *row, gx_err *err)
{
    gx_meta meta;
    GX_TRY(row_meta(table, row, &meta, err));
    return gx_store_drop(table->ctx->store, &meta, err);
}

static gx_code rename_row(catalog *table, sqlite3_value *row, sqlite3_value **columns, gx_err *err)
{
    for (int c = 0; c < COL_COUNT; c++) {
        if (c != COL_NAME && !sqlite3_value_nochange(columns[c])) {
            return gx_fail(err, GX_ARG, "column %s cannot be changed, only the name can",
                           column_names[c]);
        }
    }
    if (sqlite3_value_nochange(columns[COL_NAME])) {
        return GX_OK;
    }
    gx_meta meta;
    const char *name;
    GX_TRY(row_meta(table, row, &meta, err));
    GX_TRY(gx_arg_text(columns[COL_NAME], "name", &name, err));
    return gx_mat_rename(table->ctx->store, table->ctx->mem, &meta, name, err);
}

/* argc 1: DELETE rowid.  argv[0] NULL: INSERT.  Else UPDATE of the rowid argv[0]. */
static int update(sqlite3_vtab *base, int argc, sqlite3_value **argv, sqlite3_int64 *row)
{
    catalog *table = (catalog *)(void *)base;
    gx_err err = {0};
    gx_ctx_hold(table->ctx);
    int rc = SQLITE_OK;
    if (argc > 1 && sqlite3_value_type(argv[0]) == SQLITE_NULL) {
        rc = insert(table, argv + 2, row);
    } else {
        gx_code code;
        if (argc == 1) {
            code = drop(table, argv[0], &err);
        } else if (sqlite3_value_int64(argv[0]) != sqlite3_value_int64(argv[1])) {
            code = gx_fail(&err, GX_ARG, "rowid cannot be changed, only the name can");
        } else {
            code = rename_row(table, argv[0], argv + 2, &err);
        }
        rc = code == GX_OK ? SQLITE_OK : gx_vtab_error(base, "gx", &err);
        gx_ctx_failed(table->ctx, &err);
    }
    gx_ctx_release(table->ctx);
    return rc;
}

// PRAGMA integrity_check --------------------------------------------------------------------------

static void add_line(void *arg, const char *line)
{
    sqlite3_str *text = arg;
    sqlite3_str_appendf(text, "%s%s", sqlite3_str_length(text) > 0 ? "; " : "gx: ", line);
}

static int integrity(sqlite3_vtab *base, const char *schema, const char *name, int flags,
                     char **problems)
{
    (void)name;
    (void)flags;
    catalog *table = (catalog *)(void *)base;
    gx_err err = {0};
    sqlite3_str *text = sqlite3_str_new(NULL);
    gx_ctx_hold(table->ctx);
    gx_code code = gx_store_check_schema(table->ctx->store, schema, add_line, text, &err);
    gx_ctx_release(table->ctx);
    bool is_ours = code == GX_CORRUPT || code == GX_UNSUPPORTED; // something to report
    if (is_ours) {
        add_line(text, err.text);
    }
    gx_check_failed(table->ctx, text);
    int rc = sqlite3_str_errcode(text);
    *problems = sqlite3_str_finish(text); // NULL when empty
    if (rc == SQLITE_OK && code != GX_OK && !is_ours) {
        rc = gx_sqlite_code(code);
    }
    return rc;
}

// Registration ------------------------------------------------------------------------------------

static const gx_module_v4 real_module = {
    GX_MODULE(iVersion) = 4,
    GX_MODULE(xCreate) = create_real,
    GX_MODULE(xConnect) = connect_real,
    GX_MODULE(xBestIndex) = best_index,
    GX_MODULE(xDisconnect) = disconnect,
    GX_MODULE(xDestroy) = disconnect, // the matrices stay
    GX_MODULE(xOpen) = open_cursor,
    GX_MODULE(xClose) = close_cursor,
    GX_MODULE(xFilter) = filter,
    GX_MODULE(xNext) = next,
    GX_MODULE(xEof) = eof,
    GX_MODULE(xColumn) = column,
    GX_MODULE(xRowid) = rowid,
    GX_MODULE(xUpdate) = update,
    GX_MODULE(xRename) = refuse_rename,
    GX_MODULE(xShadowName) = is_shadow_name,
    .xIntegrity = integrity,
};

static const sqlite3_module eponymous_module = {
    .iVersion = 2,
    .xCreate = NULL, // eponymous only
    .xConnect = connect_eponymous,
    .xBestIndex = best_index,
    .xDisconnect = disconnect,
    .xDestroy = disconnect,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next,
    .xEof = eof,
    .xColumn = column,
    .xRowid = rowid,
    .xUpdate = update,
};

int gx_register_catalog(sqlite3 *db, gx_ctx *ctx)
{
    int rc = sqlite3_create_module_v2(db, "gx_catalog", GX_MODULE_OF(real_module), ctx, NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_create_module_v2(db, "gx", &eponymous_module, ctx, NULL);
    }
    return rc;
}
