/*
** INSERT, UPDATE and DELETE on the named tables of gx_cells and gx_rows.
**
**   INSERT   sets a cell (or a row): every cell of a matrix exists, so none is ever added
**   UPDATE   changes the value; or moves it: the cell it leaves becomes zero, and the one it comes
**            to must be zero, or it is a conflict that OR REPLACE overrides
**   DELETE   sets to zero
**
** The batch.  A tile is one blob of some megabytes, and the way to a cell inside it leads along all
** the pages before it.  Cells are therefore gathered and written tile by tile: each entry of the
** batch is one real number (a complex cell is two) with the key tile << 32 | index inside the
** tile.  A flush sorts the entries, keeps the latest of each key, and patches runs of
** neighbours.  One batch serves a connection; it holds cells of one table at a time.
**
** What everybody else sees.  The batch begins by touching the matrix (a new generation, no
** properties), under the write lock, so nothing can come between.  It is flushed
**
**   - when it is full;
**   - before anybody on this connection looks at the catalog: the store calls gx_cells_flush()
**     first thing in every look-up (gx_store_set_flush), so functions and cursors find the cells;
**   - at the beginning of every savepoint, SQLite's own for one statement included (xSavepoint):
**     what waits is always younger than the youngest savepoint, and ROLLBACK TO drops it whole;
**   - before the commit (xSync).  ROLLBACK drops it.
**
** Only a plain SELECT of gx_tile.data in the transaction that wrote the cells may see the bytes
** before.
**
** A table may be in another schema than its matrix (CREATE VIRTUAL TABLE temp.a).  SQLite undoes a
** failed statement by a savepoint of the table's schema alone, so cells of the other schema that
** were flushed inside that statement would stay: gx_cells_rollback_to() finds out by the
** generation, and then fails, at which SQLite rolls the transaction back.
**
** Memory: the batch takes up to BATCH_BYTES and a quarter of what the governor has left, and gives
** it back with the flush; with nothing left, 32 entries inside the connection's data.
*/
#include "cells.h"

#include "../core/base/decimal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A million real numbers, and as many to sort them. */
static const size_t BATCH_BYTES = (size_t)32 << 20;

enum { FIRST_ENTRIES = 1024, PATCH_BYTES = 8192 };

// Errors ------------------------------------------------------------------------------------------

/* "a: text" for a named table, "text" else. */
static gx_err with_name(const gx_cells_table *table, const gx_err *err)
{
    gx_err full = *err;
    if (table->matrix != NULL) {
        full.code = GX_OK;
        gx_fail(&full, err->code, "%s: %s", table->name, err->text);
    }
    return full;
}

int gx_cells_error(gx_cells_table *table, const gx_err *err, int code)
{
    gx_err full = with_name(table, err);
    gx_ctx_failed(table->ctx, err);
    int mapped = gx_vtab_error(&table->base, table->module, &full);
    return code != 0 ? code : mapped;
}

// Where a cell is ---------------------------------------------------------------------------------

/* Real numbers of one element. */
static int parts(const gx_meta *meta)
{
    return gx_number_is_complex(gx_meta_number(meta)) ? 2 : 1;
}

/* The numbers that wait for an i64 matrix are i64, in the bytes of a double. */
static bool is_i64(const gx_meta *meta)
{
    return meta->dtype == GX_DTYPE_I64;
}

/* What one of them is stored as. */
static gx_dtype real_dtype(const gx_meta *meta)
{
    return gx_dtype_is_number(meta->dtype) ? gx_dtype_of(gx_number_real(gx_meta_number(meta)))
           : is_i64(meta)                  ? GX_DTYPE_F64
                                           : meta->dtype;
}

/* The key of the first real number of cell (i, j). */
static uint64_t key_of(const gx_meta *meta, int64_t i, int64_t j)
{
    int64_t ti = i / meta->tile_rows, tj = j / meta->tile_cols;
    int64_t tile = gx_meta_tile(meta, ti, tj);
    int64_t inside =
        (j - tj * meta->tile_cols) * gx_meta_tile_height(meta, ti) + (i - ti * meta->tile_rows);
    return (uint64_t)tile << 32 | (uint64_t)(inside * parts(meta));
}

/* Whether the text says the table's own schema; *bare: the name without it. */
static gx_code own_name(gx_cells_table *table, bool *is_own, const char **bare, gx_err *err)
{
    char head[GX_NAME_MAX + 1];
    GX_TRY(gx_store_split(table->ctx->store, table->matrix, head, bare, err));
    *is_own = head[0] == '\0' || sqlite3_stricmp(head, table->schema) == 0;
    return GX_OK;
}

gx_code gx_cells_find(gx_cells_table *table, gx_meta *meta, gx_err *err)
{
    gx_store *store = table->ctx->store;
    char full[2 * GX_NAME_MAX + 2];
    const char *bare;
    bool found = false, is_own;
    GX_TRY(own_name(table, &is_own, &bare, err));
    if (is_own && strlen(table->schema) <= GX_NAME_MAX && strlen(bare) <= GX_NAME_MAX) {
        snprintf(full, sizeof full, "%.255s.%.255s", table->schema, bare);
        GX_TRY(gx_store_lookup(store, full, meta, &found, err));
        found = found && sqlite3_stricmp(meta->schema, table->schema) == 0;
    }
    if (found) {
        return gx_meta_is_made(meta) ? gx_store_refuse_made(meta, err) : GX_OK;
    }
    GX_TRY(gx_store_find_any(store, table->matrix, meta, err));
    if (sqlite3_stricmp(table->schema, "temp") == 0) {
        return GX_OK; // made by this connection: no file can bring such a table
    }
    return gx_fail(err, GX_ARG, "matrix '%s' is in %s, but a table of %s reaches those of %s only",
                   table->matrix, meta->schema, table->schema, table->schema);
}

// The batch: sorting and flushing -----------------------------------------------------------------

static bool is_sorted(const gx_cells_entry *e, size_t count)
{
    for (size_t p = 1; p < count; p++) {
        if (e[p - 1].key > e[p].key) {
            return false;
        }
    }
    return true;
}

/* Merge the sorted runs [a, b) and [b, c) of from into to; equal keys keep their order. */
static void merge(const gx_cells_entry *from, size_t a, size_t b, size_t c, gx_cells_entry *to)
{
    size_t left = a, right = b;
    for (size_t p = a; p < c; p++) {
        bool take_left = left < b && (right == c || from[left].key <= from[right].key);
        to[p] = take_left ? from[left++] : from[right++];
    }
}

/* Merge sort from the bottom up: stable, and needs no memory but the second half of the batch. */
static void sort(gx_cells_batch *batch)
{
    gx_cells_entry *from = batch->entries, *to = from + batch->capacity;
    size_t count = batch->count;
    if (is_sorted(from, count)) {
        return;
    }
    for (size_t run = 1; run < count; run *= 2) {
        for (size_t a = 0; a < count; a += 2 * run) {
            size_t b = a + run < count ? a + run : count;
            merge(from, a, b, b + run < count ? b + run : count, to);
        }
        gx_cells_entry *swap = from;
        from = to;
        to = swap;
    }
    if (from != batch->entries) {
        memcpy(batch->entries, from, count * sizeof *from);
    }
}

/* Of sorted entries with one key, keep the latest. */
static void drop_overwritten(gx_cells_batch *batch)
{
    gx_cells_entry *e = batch->entries;
    size_t kept = 0;
    for (size_t p = 0; p < batch->count; p++) {
        if (kept > 0 && e[kept - 1].key == e[p].key) {
            kept--;
        }
        e[kept++] = e[p];
    }
    batch->count = kept;
}

/* Neighbours in one tile: count entries from e on. */
static gx_code patch_run(gx_store *store, const gx_meta *meta, const gx_cells_entry *e,
                         size_t count, gx_err *err)
{
    _Alignas(16) char bytes[PATCH_BYTES];
    size_t part = gx_dtype_bytes(meta->dtype) / (size_t)parts(meta);
    const gx_narrowing to = {.dtype = real_dtype(meta)};
    for (size_t p = 0; p < count; p++) {
        GX_TRY(gx_narrow_to(GX_F64, &e[p].value, 1, &to, bytes + p * part, 1, 1, 1, err));
    }
    int64_t tile = (int64_t)(e->key >> 32);
    size_t offset = (size_t)(e->key & UINT32_MAX) * part;
    return gx_store_patch_tile(store, meta, tile, offset, count * part, bytes, err);
}

/*
** Patch every entry.  From the last to the first: SQLite learns where the pages of a tile are in
** one walk along them, when the far end comes first.
*/
static gx_code patch_all(gx_store *store, const gx_cells_batch *batch, gx_err *err)
{
    const gx_cells_entry *e = batch->entries;
    size_t most = PATCH_BYTES / sizeof(double);
    for (size_t end = batch->count; end > 0;) {
        size_t begin = end - 1;
        while (begin > 0 && end - begin < most && e[begin - 1].key + 1 == e[begin].key) {
            begin--;
        }
        GX_TRY(patch_run(store, &batch->meta, e + begin, end - begin, err));
        end = begin;
    }
    return GX_OK;
}

/* Forget what waits, and give its memory back. */
static void drop_batch(gx_cells_shared *shared)
{
    gx_cells_batch *batch = &shared->batch;
    if (batch->entries != batch->embedded) {
        gx_mem_free(shared->ctx->mem, batch->entries);
    }
    batch->entries = batch->embedded;
    batch->capacity = GX_CELLS_EMBEDDED;
    batch->count = 0;
    batch->table = NULL;
}

/* Entries into their tiles; on failure the batch stays, and a later flush writes all of it. */
static gx_code write_entries(gx_cells_shared *shared, gx_err *err)
{
    gx_cells_batch *batch = &shared->batch;
    if (batch->count == 0 || batch->is_flushing) {
        return GX_OK;
    }
    batch->is_flushing = true;
    gx_ctx_hold(shared->ctx);
    sort(batch);
    drop_overwritten(batch);
    gx_code rc = patch_all(shared->ctx->store, batch, err);
    gx_store_close_patches(shared->ctx->store);
    gx_ctx_release(shared->ctx);
    batch->is_flushing = false;
    gx_cells_table *table = batch->table;
    if (sqlite3_stricmp(table->schema, batch->meta.schema) != 0) {
        table->foreign_level = table->level;
        table->foreign = batch->meta;
    }
    return rc;
}

gx_code gx_cells_flush(void *arg, gx_err *err)
{
    gx_cells_shared *shared = arg;
    if (shared->batch.table == NULL || shared->batch.is_flushing) {
        return GX_OK;
    }
    if (!shared->batch.table->is_in_transaction) {
        drop_batch(shared); // rolled back by SQLite itself, in the middle of a call
        return GX_OK;
    }
    GX_TRY(write_entries(shared, err));
    drop_batch(shared);
    return GX_OK;
}

// The batch: beginning and growing ----------------------------------------------------------------

/* The batch for this table's matrix: touched, so that its old state is nobody's any more. */
static gx_code begin_batch(gx_cells_table *table, gx_meta *meta, gx_err *err)
{
    gx_cells_shared *shared = table->shared;
    gx_store *store = table->ctx->store;
    if (shared->batch.table == table) {
        return GX_OK;
    }
    GX_TRY(gx_store_begin(store, meta->schema, err)); // flushes another table's batch
    gx_code rc = gx_store_may_patch(store, meta->schema, err);
    rc = rc != GX_OK ? rc : gx_store_touch(store, meta, 0, err);
    gx_code ended = gx_store_end(store, rc == GX_OK, err);
    rc = rc == GX_OK ? ended : rc;
    if (rc == GX_OK) {
        shared->batch.table = table;
        shared->batch.meta = *meta;
    }
    return rc;
}

/* Twice the room, when BATCH_BYTES and the governor allow. */
static bool grow(gx_cells_shared *shared)
{
    gx_cells_batch *batch = &shared->batch;
    size_t capacity = gx_max(FIRST_ENTRIES, (int64_t)(2 * batch->capacity));
    size_t bytes = 2 * capacity * sizeof *batch->entries;
    gx_mem *mem = shared->ctx->mem;
    gx_err refused = {0};
    void *entries;
    if (bytes > BATCH_BYTES || bytes > gx_mem_available(mem) / 4 ||
        gx_mem_alloc(mem, bytes, "cells to write", &entries, &refused) != GX_OK) {
        return false;
    }
    memcpy(entries, batch->entries, batch->count * sizeof *batch->entries);
    if (batch->entries != batch->embedded) {
        gx_mem_free(mem, batch->entries);
    }
    batch->entries = entries;
    batch->capacity = capacity;
    return true;
}

/* Room for count more entries, as far as it can be had: then adding them cannot fail half-way. */
static gx_code make_room(gx_cells_shared *shared, size_t count, gx_err *err)
{
    gx_cells_batch *batch = &shared->batch;
    while (batch->capacity - batch->count < count && grow(shared)) {
    }
    if (batch->capacity - batch->count < count) {
        GX_TRY(write_entries(shared, err));
        batch->count = 0;
    }
    return GX_OK;
}

static gx_code set_part(gx_cells_shared *shared, uint64_t key, double value, gx_err *err)
{
    gx_cells_batch *batch = &shared->batch;
    if (batch->count == batch->capacity) {
        GX_TRY(make_room(shared, 1, err));
    }
    batch->entries[batch->count++] = (gx_cells_entry){.key = key, .value = value};
    return GX_OK;
}

/* Which parts of a cell an UPDATE gives. */
typedef struct cell {
    int64_t i, j;
    gx_scalar x;
    bool sets_re, sets_im;
} cell;

static gx_code set_cell(gx_cells_shared *shared, const cell *c, gx_err *err)
{
    const gx_meta *meta = &shared->batch.meta;
    uint64_t key = key_of(meta, c->i, c->j);
    const gx_narrowing to = {.dtype = real_dtype(meta), .i0 = c->i, .j0 = c->j};
    _Alignas(double) char bytes[sizeof(double)];
    if (c->sets_re) { // what the dtype has not is refused now, by its row
        GX_TRY(gx_narrow_to(GX_F64, &c->x.re, 1, &to, bytes, 1, 1, 1, err));
        GX_TRY(set_part(shared, key, c->x.re, err));
    }
    if (c->sets_im && gx_number_is_complex(gx_meta_number(meta))) {
        GX_TRY(set_part(shared, key + 1, c->x.im, err));
    }
    return GX_OK;
}

/* A number becomes what waits for an i64 matrix: rounded, and refused beyond its range. */
static gx_code to_i64(const gx_meta *meta, int64_t i, int64_t j, double *x, gx_err *err)
{
    const gx_narrowing to = {.dtype = GX_DTYPE_I64, .i0 = i, .j0 = j};
    double number = *x;
    return is_i64(meta) ? gx_narrow_to(GX_F64, &number, 1, &to, x, 1, 1, 1, err) : GX_OK;
}

/* Row i from n numbers, of double precision; NULL: zeros. */
static gx_code set_row(gx_cells_shared *shared, int64_t i, const char *elements, gx_err *err)
{
    const gx_meta *meta = &shared->batch.meta;
    gx_number number = gx_number_wide(gx_meta_number(meta));
    cell c = {.i = i, .sets_re = true, .sets_im = true};
    for (; c.j < meta->cols; c.j++) {
        if (elements != NULL) {
            c.x = gx_dtype_get(gx_dtype_of(number), gx_at(elements, number, 0, c.j, 0));
            GX_TRY(to_i64(meta, i, c.j, &c.x.re, err));
        }
        GX_TRY(set_cell(shared, &c, err));
    }
    return GX_OK;
}

// Values of a row that is written -----------------------------------------------------------------

/* An INTEGER column: an integer, in whatever form. */
static gx_code parse_index(sqlite3_value *value, const char *label, int64_t count, int64_t *index,
                           gx_err *err)
{
    int type = sqlite3_value_numeric_type(value);
    double real = sqlite3_value_double(value);
    *index = sqlite3_value_int64(value);
    if (type == SQLITE_NULL) {
        return gx_fail(err, GX_ARG, "%s is NULL", label);
    }
    if (type == SQLITE_TEXT || type == SQLITE_BLOB) {
        char shown[GX_SHOWN_BYTES];
        return gx_fail(err, GX_ARG, "%s is %s, not an integer", label, gx_arg_show(value, shown));
    }
    if (type == SQLITE_FLOAT && (real != floor(real) || real < -9e18 || real > 9e18)) {
        char shown[GX_DECIMAL_MAX];
        gx_decimal_format(real, shown);
        return real != floor(real) ? gx_fail(err, GX_ARG, "%s = %s is not an integer", label, shown)
                                   : gx_fail(err, GX_ARG, "%s = %s is outside 0..%lld", label,
                                             shown, (long long)(count - 1));
    }
    return gx_cells_check_index(label, *index, count, err);
}

/* The value of a cell: a number, or text that looks like one (the shell's .import gives text). */
static gx_code parse_real(sqlite3_value *value, const char *label, double *real, gx_err *err)
{
    int type = sqlite3_value_numeric_type(value);
    if (type == SQLITE_NULL) {
        return gx_fail(err, GX_ARG, "%s is NULL", label);
    }
    if (type == SQLITE_TEXT || type == SQLITE_BLOB) {
        char shown[GX_SHOWN_BYTES];
        return gx_fail(err, GX_ARG, "%s is %s, not a number", label, gx_arg_show(value, shown));
    }
    return gx_arg_real(value, label, real, err);
}

/* As it waits for the matrix; an i64 with all its digits. */
static gx_code parse_value(sqlite3_value *value, const gx_meta *meta, cell *c, gx_err *err)
{
    if (is_i64(meta) && sqlite3_value_numeric_type(value) == SQLITE_INTEGER) {
        int64_t whole = sqlite3_value_int64(value);
        memcpy(&c->x.re, &whole, sizeof whole);
    return GX_OK;
    }
    GX_TRY(parse_real(value, "value", &c->x.re, err));
    return to_i64(meta, c->i, c->j, &c->x.re, err);
}

/* The cell that an INSERT or UPDATE gives. */
static gx_code parse_cell(sqlite3_value **columns, bool is_insert, const gx_meta *meta, cell *c,
                          gx_err *err)
{
    GX_TRY(parse_index(columns[GX_CELLS_I], "i", meta->rows, &c->i, err));
    GX_TRY(parse_index(columns[GX_CELLS_J], "j", meta->cols, &c->j, err));
    c->sets_re = is_insert || !sqlite3_value_nochange(columns[GX_CELLS_VALUE]);
    c->sets_im = is_insert || !sqlite3_value_nochange(columns[GX_CELLS_IMAG]);
    if (c->sets_re) {
        GX_TRY(parse_value(columns[GX_CELLS_VALUE], meta, c, err));
    }
    bool is_given = sqlite3_value_type(columns[GX_CELLS_IMAG]) != SQLITE_NULL;
    if (c->sets_im && (is_given || !is_insert)) { // an INSERT may leave it out
        GX_TRY(parse_real(columns[GX_CELLS_IMAG], "imag", &c->x.im, err));
    }
    if (c->x.im != 0 && !gx_number_is_complex(gx_meta_number(meta))) {
        char shown[GX_DECIMAL_MAX];
        gx_decimal_format(c->x.im, shown);
        return gx_fail(err, GX_ARG, "imag = %s, but %s is real (%s)", shown, meta->name,
                       gx_dtype_name(meta->dtype));
    }
    return GX_OK;
}

// Moves -------------------------------------------------------------------------------------------

/* Read the cells of rect, which must be in one chunk, into *scan (to be cleared). */
static gx_code peek(gx_cells_table *table, const gx_meta *meta, gx_rect rect, gx_scan *scan,
                    gx_err *err)
{
    memset(scan, 0, sizeof *scan);
    gx_mat A;
    gx_mat_stored(&A, meta);
    gx_scan_source(scan, table->shared, &A);
    gx_scan_start(scan, GX_BY_ROW, true, rect);
    return scan->is_done ? GX_OK : gx_scan_load(scan, err);
}

/* Every cell of rect (a cell, or a row) must be zero. */
static gx_code check_vacant(gx_cells_table *table, const gx_meta *meta, gx_rect rect, gx_err *err)
{
    gx_scan scan;
    gx_code rc = peek(table, meta, rect, &scan, err);
    for (int64_t j = rect.j0; j < rect.j1 && rc == GX_OK; j++) {
        gx_scalar x = gx_dtype_get(meta->dtype, gx_scan_at(&scan, rect.i0, j));
        if (x.re != 0 || x.im != 0) {
            rc =
                gx_fail(err, GX_ARG, "cell (%lld, %lld) is not zero: UPDATE OR REPLACE moves there",
                        (long long)rect.i0, (long long)j);
        }
    }
    gx_scan_clear(&scan);
    return rc;
}

/* The parts of a moving cell that the UPDATE leaves as they are. */
static gx_code complete_cell(gx_cells_table *table, const gx_meta *meta, int64_t i, int64_t j,
                             cell *c, gx_err *err)
{
    gx_scan scan;
    gx_rect rect = {.i0 = i, .i1 = i + 1, .j0 = j, .j1 = j + 1};
    gx_code rc = peek(table, meta, rect, &scan, err);
    if (rc == GX_OK) {
        gx_dtype as = is_i64(meta) ? GX_DTYPE_F64 : meta->dtype;
        gx_scalar old = gx_dtype_get(as, gx_scan_at(&scan, i, j));
        c->x.re = c->sets_re ? c->x.re : old.re;
        c->x.im = c->sets_im ? c->x.im : old.im;
        c->sets_re = c->sets_im = true;
    }
    gx_scan_clear(&scan);
    return rc;
}

// xUpdate -----------------------------------------------------------------------------------------

/* One row written: what SQLite gave, and what it means. */
typedef struct change {
    gx_cells_table *table;
    bool is_insert, is_delete;
    sqlite3_value **columns;
    int64_t rowid; /* of the row changed or deleted              */
    bool replaces; /* OR REPLACE                                 */
    bool is_bad;   /* the failure is the row's: a constraint     */
    int64_t new_rowid;
    gx_meta meta;
} change;

static gx_code write_cell(change *ch, gx_err *err)
{
    gx_cells_table *table = ch->table;
    gx_meta *meta = &ch->meta;
    int64_t old_i = meta->rows > 0 ? ch->rowid % meta->rows : 0;
    int64_t old_j = meta->rows > 0 ? ch->rowid / meta->rows : 0;
    cell old = {.i = old_i, .j = old_j, .sets_re = true, .sets_im = true};
    cell c = old;
    bool is_move = false;
    ch->is_bad = true;
    if (!ch->is_delete) {
        GX_TRY(parse_cell(ch->columns, ch->is_insert, meta, &c, err));
        is_move = !ch->is_insert && (c.i != old_i || c.j != old_j);
    }
    ch->is_bad = false;
    if (is_move) {
        GX_TRY(complete_cell(table, meta, old_i, old_j, &c, err));
    }
    if (is_move && !ch->replaces) {
        ch->is_bad = true;
        gx_rect to = {.i0 = c.i, .i1 = c.i + 1, .j0 = c.j, .j1 = c.j + 1};
        GX_TRY(check_vacant(table, meta, to, err));
        ch->is_bad = false;
    }
    GX_TRY(begin_batch(table, meta, err));
    GX_TRY(make_room(table->shared, 4, err));
    if (is_move) {
        GX_TRY(set_cell(table->shared, &old, err));
    }
    ch->new_rowid = c.j * meta->rows + c.i;
    return set_cell(table->shared, &c, err);
}

/* The elements of the row that is written: owned by the caller; NULL for none. */
static gx_code parse_row(change *ch, void **elements, gx_err *err)
{
    int64_t count;
    const gx_meta *meta = &ch->meta;
    sqlite3_value *row = ch->columns[GX_ROWS_ROW];
    GX_TRY(parse_index(ch->columns[GX_ROWS_I], "i", meta->rows, &ch->new_rowid, err));
    if (sqlite3_value_type(row) == SQLITE_NULL) {
        return gx_fail(err, GX_ARG, "row is NULL");
    }
    const gx_row_wish wish = {.dtype = meta->dtype,
                              .number = gx_number_wide(gx_meta_number(meta)),
                              .cols = meta->cols,
                              .how = ": gx_from_bytes(row, 'c64') or 'f64' says which"};
    GX_TRY(gx_arg_row(ch->table->ctx, row, "row", &wish, &count, elements, err));
    if (count != meta->cols) {
        gx_mem_free(ch->table->ctx->mem, *elements);
        *elements = NULL;
        return gx_fail(err, GX_ARG, "row has %lld elements, but %s has %lld columns",
                       (long long)count, meta->name, (long long)meta->cols);
    }
    return GX_OK;
}

static gx_code write_row(change *ch, gx_err *err)
{
    gx_cells_table *table = ch->table;
    gx_meta *meta = &ch->meta;
    void *elements = NULL;
    bool is_move = false;
    ch->new_rowid = ch->rowid;
    ch->is_bad = true;
    if (!ch->is_delete) {
        GX_TRY(parse_row(ch, &elements, err));
        is_move = !ch->is_insert && ch->new_rowid != ch->rowid;
    }
    gx_code rc = GX_OK;
    if (is_move && !ch->replaces) {
        gx_rect to = {.i0 = ch->new_rowid, .i1 = ch->new_rowid + 1, .j1 = meta->cols};
        rc = check_vacant(table, meta, to, err);
    }
    ch->is_bad = rc != GX_OK;
    rc = rc != GX_OK ? rc : begin_batch(table, meta, err);
    if (rc == GX_OK) {
        size_t row_parts = (size_t)meta->cols * (size_t)parts(meta);
        rc = make_room(table->shared, is_move ? 2 * row_parts : row_parts, err);
    }
    if (rc == GX_OK && is_move) {
        rc = set_row(table->shared, ch->rowid, NULL, err);
    }
    if (rc == GX_OK) {
        rc = set_row(table->shared, ch->new_rowid, elements, err);
    }
    gx_mem_free(table->ctx->mem, elements);
    return rc;
}

static gx_code write_change(change *ch, gx_err *err)
{
    gx_cells_table *table = ch->table;
    if (table->matrix == NULL) {
        return gx_fail(
            err, GX_ARG,
            "a function's rows cannot be written; those of a virtual table USING %s('A') can",
            table->module);
    }
    if (table->shared->batch.table == table) {
        ch->meta = table->shared->batch.meta;
    } else {
        GX_TRY(gx_cells_find(table, &ch->meta, err));
    }
    if (ch->meta.is_sparse) {
        return gx_fail(err, GX_ARG,
                       "%s is sparse and cannot be written cell by cell: store it anew",
                       ch->meta.name);
    }
    // The row may be gone: the matrix was replaced by a smaller one while the statement ran.
    int64_t cells = table->is_rows ? ch->meta.rows : ch->meta.rows * ch->meta.cols;
    if (!ch->is_insert && (ch->rowid < 0 || ch->rowid >= cells)) {
        return gx_fail(err, GX_ARG, "%s changed while being written", ch->meta.name);
    }
    return table->is_rows ? write_row(ch, err) : write_cell(ch, err);
}

/*
** One change, at once in its tile where nobody would call xRollbackTo for it.  SQLite counts a
** table as begun from CREATE VIRTUAL TABLE on, without a call of xBegin, nor of xSavepoint for
** savepoints that were open before.
*/
static gx_code write_now(change *ch, gx_err *err)
{
    gx_cells_table *table = ch->table;
    if (!table->is_in_transaction) {
        gx_cells_begin(&table->base);
        table->is_unannounced = true;
    }
    GX_TRY(write_change(ch, err));
    if (table->is_in_transaction && table->is_unannounced) {
        GX_TRY(gx_cells_flush(table->shared, err));
    }
    if (!table->is_in_transaction) { // no memory, disk full, ...
        return gx_fail(err, GX_IO, "the transaction was rolled back during the statement");
    }
    return GX_OK;
}

int gx_cells_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv, sqlite3_int64 *rowid)
{
    gx_cells_table *table = (gx_cells_table *)vtab;
    gx_ctx *ctx = table->ctx;
    change ch = {.table = table, .is_delete = argc == 1};
    ch.is_insert = sqlite3_value_type(argv[0]) == SQLITE_NULL;
    ch.rowid = sqlite3_value_int64(argv[0]);
    ch.columns = argv + 2;
    gx_err err = {0};
    bool gives_rowid = false;
    if (!ch.is_delete) {
        ch.replaces = sqlite3_vtab_on_conflict(table->db) == SQLITE_REPLACE;
        gives_rowid = ch.is_insert ? sqlite3_value_type(argv[1]) != SQLITE_NULL
                                   : sqlite3_value_int64(argv[1]) != ch.rowid;
    }
    gx_code rc;
    if (gives_rowid) {
        ch.is_bad = true;
        rc = gx_fail(&err, GX_ARG, "the rowid follows from %s and cannot be set",
                     table->is_rows ? "i" : "i and j");
    } else {
        gx_ctx_hold(ctx);
        rc = write_now(&ch, &err);
        gx_ctx_release(ctx);
    }
    if (rc != GX_OK) {
        bool is_constraint = ch.is_bad && rc == GX_ARG;
        return gx_cells_error(table, &err, is_constraint ? SQLITE_CONSTRAINT : 0);
    }
    if (ch.is_insert) {
        *rowid = ch.new_rowid;
    }
    return SQLITE_OK;
}

// Transactions ------------------------------------------------------------------------------------

int gx_cells_begin(sqlite3_vtab *vtab)
{
    gx_cells_table *table = (gx_cells_table *)vtab;
    table->is_in_transaction = true;
    table->is_unannounced = false;
    table->level = 0;
    table->foreign_level = -1;
    return SQLITE_OK;
}

static int flush(gx_cells_table *table)
{
    gx_err err = {0};
    if (gx_cells_flush(table->shared, &err) != GX_OK) {
        return gx_cells_error(table, &err, 0);
    }
    return SQLITE_OK;
}

int gx_cells_sync(sqlite3_vtab *vtab)
{
    return flush((gx_cells_table *)vtab);
}

int gx_cells_commit(sqlite3_vtab *vtab)
{
    ((gx_cells_table *)vtab)->is_in_transaction = false; // xSync has left nothing to write
    return SQLITE_OK;
}

static void drop_if_mine(gx_cells_table *table)
{
    gx_cells_shared *shared = table->shared;
    if (shared->batch.table == table && !shared->batch.is_flushing) {
        drop_batch(shared);
    }
    shared->epoch++;
}

int gx_cells_rollback(sqlite3_vtab *vtab)
{
    gx_cells_table *table = (gx_cells_table *)vtab;
    drop_if_mine(table);
    table->is_in_transaction = false;
    return SQLITE_OK;
}

int gx_cells_savepoint(sqlite3_vtab *vtab, int n)
{
    gx_cells_table *table = (gx_cells_table *)vtab;
    int rc = flush(table); // none while one is under way: this is a statement of its own
    table->is_unannounced = false;
    table->level = n + 1;
    return rc;
}

int gx_cells_release(sqlite3_vtab *vtab, int n)
{
    gx_cells_table *table = (gx_cells_table *)vtab;
    table->level = n;
    table->foreign_level = table->foreign_level < n ? table->foreign_level : n;
    return SQLITE_OK;
}

/* Whether the latest cells flushed into another schema are still there. */
static bool foreign_cells_stay(gx_cells_table *table)
{
    char name[2 * GX_NAME_MAX + 2];
    const gx_meta *then = &table->foreign;
    snprintf(name, sizeof name, "%s.%s", then->schema, then->name);
    gx_err err = {0};
    gx_meta now;
    bool found = false;
    gx_ctx_hold(table->ctx);
    gx_code rc = gx_store_lookup(table->ctx->store, name, &now, &found, &err);
    gx_ctx_release(table->ctx);
    return rc != GX_OK || (found && now.id == then->id && now.generation >= then->generation);
}

/*
** SQLite has rolled back by now.  Cells that were flushed into another schema since the savepoint
** must be gone with it; where they are not, the whole transaction has to go.
*/
int gx_cells_rollback_to(sqlite3_vtab *vtab, int n)
{
    gx_cells_table *table = (gx_cells_table *)vtab;
    drop_if_mine(table);
    table->level = n + 1;
    if (table->foreign_level <= n) {
        return SQLITE_OK;
    }
    table->foreign_level = -1;
    return foreign_cells_stay(table) ? SQLITE_ABORT : SQLITE_OK;
}
