/*
** Rows that settle: from NAME_new into the matrices.
**
** Rows settle when they fill a tile of the matrices, or by gx_settle().  They go into a tile that
** is at least half dead, which is rewritten, else behind the last row (core/mat/rows.h): so each
** costs about its own bytes, or twice that.  gx_settle() leaves no row in NAME_new and none that is
** dead: rows from the end move to where the dead ones are, and the matrices become shorter.
**
** Settling is a storing call.  Inside an INSERT, where SQLite has no savepoint for it, what may be
** refused comes first: memory is there, the catalog is read, before a tile is written.  Where
** memory is short the rows stay in NAME_new, and settle later.
*/
#include "vectors.h"

#include "../core/mat/rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_ROWS_PARTS = 4, /* a last tile with less room than this part is not filled alone */
    MOST_ROWS = 8192,     /* in NAME_new: each search passes over them                     */
    MOVE_ROWS = 4096,     /* from the end at a time                                        */
    HELD_BYTES = 1 << 21, /* pages beside tiles that stay in SQLite's cache                */
    HELD_ROWS = 400000,   /* rows of the last three inner pages of an index, and of a table */
    HELD_STEP = 30000     /* fewer than an inner page has                                  */
};

/* Rows on their way: ids, and elements of each column, row after row. */
typedef struct rows {
    int64_t count, entered; /* the first of them are in the index */
    const int64_t *ids;
    const char *data[GX_VEC_VECTORS_MAX];
    int64_t *pos;  /* where they go; owned */
    int64_t at;    /* as in the batch: where they are entered already */
    int64_t grown; /* OUT: height of the matrices then, if none of their rows is dead; else 0 */
} rows;

// How many ----------------------------------------------------------------------------------------

/* Rows that settle at once behind `height` rows. */
static gx_code full_count(gx_vec_table *t, int64_t height, int64_t *full, gx_err *err)
{
    const int64_t MANY = (int64_t)1 << 30;
    *full = MOST_ROWS;
    for (int c = 0; c < t->shape.vectors; c++) {
        const gx_vec_column *column = &t->shape.vector[c];
        int64_t tile, width;
        GX_TRY(gx_tile_shape(MANY, column->cells, column->dtype,
                             gx_store_max_tile_bytes(t->ctx->store), &tile, &width, err));
        int64_t left = tile - height % tile;
        left += left < tile / LEAST_ROWS_PARTS ? tile : 0;
        *full = gx_min(*full, left);
    }
    return GX_OK;
}

gx_code gx_vec_know_full(gx_vec_table *t, gx_err *err)
{
    int64_t height = 0;
    if (t->full > 0) {
        return GX_OK;
    }
    GX_TRY(gx_vec_height(t, &height, err));
    return full_count(t, height, &t->full, err);
}

/*
** A statement that has written, and may have no savepoint of SQLite's to undo that, ends the
** transaction where this fails: with a code at which SQLite rolls it back.
*/
static gx_code give_up(gx_code code, const gx_err *failed, gx_err *err)
{
    bool rolls_back = code == GX_NOMEM || code == GX_FULL || code == GX_INTERRUPT;
    return gx_fail(err, rolls_back ? code : GX_IO, "%s", failed->text);
}

gx_code gx_vec_settle_full(gx_vec_table *t, gx_err *err)
{
    gx_err failed = {.code = GX_OK};
    gx_code code = gx_vec_know_full(t, &failed);
    if (code == GX_OK && t->slot < t->full) {
        return GX_OK;
    }
    t->is_half_settled = false;
    code = code == GX_OK ? gx_vec_settle(t, &failed) : code;
    if (code == GX_BUDGET &&
        !t->is_half_settled) { // they stay where they are until there is memory
        t->full *= 2;
        return GX_OK;
    }
    return code == GX_OK ? GX_OK : give_up(code, &failed, err);
}

// Into the matrices -------------------------------------------------------------------------------

static gx_code remember_dead(gx_vec_table *t, int64_t tile_rows, int64_t tile, int64_t height,
                             rows *r, int64_t *used, gx_err *err)
{
    sqlite3_stmt *stmt;
    bool is_row;
    GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_DEAD_IN, &stmt, err));
    sqlite3_bind_int64(stmt, 1, tile * tile_rows);
    sqlite3_bind_int64(stmt, 2, gx_min(height, (tile + 1) * tile_rows) - 1);
    gx_code code = gx_vectors_step(t->rows, stmt, &is_row, err);
    while (code == GX_OK && is_row && *used < r->count) {
        r->pos[(*used)++] = sqlite3_column_int64(stmt, 0);
        code = gx_vectors_step(t->rows, stmt, &is_row, err);
    }
    sqlite3_reset(stmt);
    return code;
}

/* The first rows go to dead ones, of tiles that are half dead: how many do. */
static gx_code find_places(gx_vec_table *t, int64_t tile_rows, int64_t height, rows *r,
                           int64_t *used, gx_err *err)
{
    sqlite3_stmt *stmt;
    bool is_row;
    *used = 0;
    GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_DEAD_TILES, &stmt, err));
    sqlite3_bind_int64(stmt, 1, tile_rows);
    sqlite3_bind_int64(stmt, 2, gx_max(1, tile_rows / 2));
    gx_code code = gx_vectors_step(t->rows, stmt, &is_row, err);
    while (code == GX_OK && is_row && *used < r->count) {
        int64_t tile = sqlite3_column_int64(stmt, 0);
        if (tile >= 0 && tile < gx_ceil_div(height, tile_rows)) {
            code = remember_dead(t, tile_rows, tile, height, r, used, err);
        }
        code = code == GX_OK ? gx_vectors_step(t->rows, stmt, &is_row, err) : code;
    }
    sqlite3_reset(stmt);
    for (int64_t k = *used; k < r->count; k++) {
        r->pos[k] = height + k - *used;
    }
    return code;
}

/* Rows first .. first + n - 1 of a column as a matrix; base is what it is a view of. */
static void rows_of(const gx_vec_column *column, const rows *r, int64_t vector, int64_t first,
                    int64_t n, gx_mat *base, gx_mat *out)
{
    const char *data = r->data[vector] + (size_t)first * column->bytes;
    gx_mat_array(base, column->name, column->dtype, column->cells, gx_max(n, 1), data,
                 column->cells);
    gx_mat_view(out, base, GX_TRANS, 0, 0, n, column->cells);
}

/* The first rows of all. */
static gx_code make_matrix(gx_run *run, gx_vec_table *t, const gx_vec_column *column, gx_mat *part,
                           gx_err *err)
{
    char name[2 * GX_NAME_MAX + 2];
    snprintf(name, sizeof name, "%.255s.%.255s", t->schema, column->matrix);
    gx_dest dest = {.name = name, .has_dtype = true, .dtype = column->dtype};
    gx_sink sink;
    gx_sink_begin(run, &dest, part->rows, part->cols, part->number,
                  column->is_bit ? GX_PROP_BITS : 0, 0, 0, &sink);
    gx_copy_to_sink(run, part, &sink);
    gx_code code = gx_sink_end(&sink);
    return code == GX_OK ? GX_OK : gx_fail(err, code, "%s", run->err.text);
}

static gx_code write_rows(gx_run *run, gx_vec_table *t, int vector, const rows *r, int64_t used,
                          gx_err *err)
{
    const gx_vec_column *column = &t->shape.vector[vector];
    gx_mat E, base, part;
    GX_TRY(gx_vec_matrix(t, vector, &E, err));
    rows_of(column, r, vector, 0, used, &base, &part);
    if (used > 0) {
        GX_TRY(gx_rows_set(run, &E.meta, 0, r->pos, used, &part, false, err));
    }
    rows_of(column, r, vector, used, r->count - used, &base, &part);
    return part.rows == 0 ? GX_OK
           : E.rows == 0  ? make_matrix(run, t, column, &part, err)
                          : gx_rows_append(run, &E.meta, 0, &part, false, err);
}

/* What the shadow tables say then. */
static gx_code enter_rows(gx_vec_table *t, const rows *r, int64_t used, gx_err *err)
{
    for (int64_t k = 0; k < used; k++) {
        GX_TRY(gx_vec_run(t, GX_VECTORS_REVIVE, r->pos[k], r->pos[k], err));
    }
    bool is_entered = r->at > 0 && used == 0 && r->pos[0] == r->at;
    for (int64_t k = 0; k < r->count && !is_entered; k++) {
        GX_TRY(gx_vec_run(t, GX_VECTORS_MOVE, r->ids[k], r->pos[k], err));
        if (sqlite3_changes(t->db) != 1) {
            return gx_fail(err, GX_CORRUPT,
                           "%s_row has no row %" PRId64 ", whose vector %s_new has", t->name,
                           r->ids[k], t->name);
        }
    }
    return GX_OK;
}

/* What rows.h takes: asked for before anything is written. */
static gx_code has_memory(gx_vec_table *t, gx_err *err)
{
    const size_t BOUNCE = (size_t)1 << 20, LISTS = (size_t)1 << 14;
    size_t most = gx_store_max_tile_bytes(t->ctx->store), rest = LISTS;
    for (int c = 0; c < t->shape.vectors; c++) {
        gx_mat E;
        size_t bytes = 0;
        GX_TRY(gx_vec_matrix(t, c, &E, err));
        if (E.rows > 0 &&
            gx_dtype_matrix_bytes(E.meta.tile_rows, E.meta.tile_cols, E.dtype, &bytes)) {
            most = bytes > most ? bytes : most;
        }
        rest = gx_dtype_is_number(t->shape.vector[c].dtype) ? rest : BOUNCE + LISTS;
    }
    GX_TRY(gx_mem_reserve(t->ctx->mem, 2 * most + rest, "tiles to settle", err));
    gx_mem_return(t->ctx->mem, 2 * most + rest);
    return GX_OK;
}

/* The rows that the index has not got. */
static void skip_rows(const gx_vec_table *t, rows *r)
{
    r->count -= r->entered;
    r->ids += r->entered;
    for (int c = 0; c < t->shape.vectors; c++) {
        r->data[c] += (size_t)r->entered * t->shape.vector[c].bytes;
    }
}

/* All of it, with the entries of the index, which are known before anything is written. */
static gx_code write_all(gx_run *run, gx_vec_table *t, const rows *r, const rows *new,
                         gx_vec_entries *entries, int64_t used, gx_err *err)
{
    sqlite3_stmt *stmt;
    for (int c = 0; c < t->shape.vectors; c++) {
        GX_TRY(write_rows(run, t, c, r, used, err));
    }
    GX_TRY(gx_vec_write_entries(t, entries, new->data, err));
    GX_TRY(enter_rows(t, r, used, err));
    GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_CLEAR_NEW, &stmt, err));
    return gx_vectors_run(t->rows, stmt, err);
}

static gx_code settle_rows(gx_run *run, gx_vec_table *t, void *arg, gx_err *err)
{
    rows *r = arg;
    int64_t height = 0, used = 0, tile_rows = 1, dead = 0;
    gx_vec_entries entries = {.count = 0};
    gx_mat E;
    GX_TRY(gx_vec_height(t, &height, err));
    if (height > 0) {
        GX_TRY(gx_vec_matrix(t, 0, &E, err));
        tile_rows = E.meta.tile_rows;
    }
    GX_TRY(find_places(t, tile_rows, height, r, &used, err));
    rows new = *r;
    skip_rows(t, &new);
    gx_code code = gx_vec_prepare_entries(run, t, new.ids, new.data, new.count, &entries, err);
    code = code == GX_OK ? has_memory(t, err) : code;
    if (code == GX_OK) {
        t->is_half_settled = true;
        entries.index.slot = 0; // NAME_new will be empty
        code = write_all(run, t, r, &new, &entries, used, err);
    }
    gx_vec_clear_entries(&entries, t->ctx->mem);
    GX_TRY(code);
    GX_TRY(gx_vec_count_dead(t, &dead, err));
    r->grown = dead == 0 ? height + r->count : 0;
    return GX_OK;
}

/*
** SQLite writes a page that its cache has no room for to the log, and one that has changed again
** since in its place there, whereupon the commit reads and sums up all of the log behind it once
** more.  A tile is larger than the cache.  While one is written the cache may hold one, so that
** what leaves it is the tile before and not the pages that each row changes.  Of these, the two
** neighbours of the last inner page of an index are changed when that is full, some 60 000 rows
** later: they are looked at, which makes them the youngest.
*/
static gx_code hold_pages(gx_vec_table *t, int64_t height, char before[64], gx_err *err)
{
    gx_err ignored = {.code = GX_OK};
    gx_store *store = t->ctx->store;
    size_t bytes = (size_t)t->shape.vectors * gx_store_max_tile_bytes(store) + HELD_BYTES;
    char pragma[64], told[64];
    before[0] = '\0';
    if (gx_store_pragma(t->db, t->schema, "journal_mode", told, &ignored) != GX_OK ||
        strcmp(told, "wal") != 0 || bytes > gx_mem_available(t->ctx->mem) / 4 ||
        gx_store_pragma(t->db, t->schema, "cache_spill", before, &ignored) != GX_OK) {
        return GX_OK;
    }
    int64_t pages = (int64_t)(bytes / gx_store_page_bytes(store, t->schema));
    if (strtoll(before, NULL, 10) == 0 || strtoll(before, NULL, 10) >= pages) {
        before[0] = '\0'; // it never writes early, or has as much room
        return GX_OK;
    }
    snprintf(pragma, sizeof pragma, "cache_spill = %" PRId64, pages);
    (void)gx_store_pragma(t->db, t->schema, pragma, told, &ignored);
    for (int64_t pos = height - 1; pos >= 0 && pos > height - HELD_ROWS; pos -= HELD_STEP) {
        int64_t id = 0;
        GX_TRY(gx_vec_count(t, GX_VECTORS_AT, pos, &id, err));
        GX_TRY(gx_vec_count(t, GX_VECTORS_ROW, id, &id, err));
    }
    return GX_OK;
}

/* As it was: 1, which is what a cache of `before` pages tells as well, or that number. */
static void release_pages(gx_vec_table *t, const char before[64])
{
    gx_err ignored = {.code = GX_OK};
    char pragma[80], told[64];
    if (before[0] == '\0' ||
        gx_store_pragma(t->db, t->schema, "cache_spill = 1", told, &ignored) != GX_OK ||
        gx_store_pragma(t->db, t->schema, "cache_spill", told, &ignored) != GX_OK ||
        strcmp(told, before) == 0) {
        return;
    }
    snprintf(pragma, sizeof pragma, "cache_spill = %.60s", before);
    (void)gx_store_pragma(t->db, t->schema, pragma, told, &ignored);
}

gx_code gx_vec_settle(gx_vec_table *t, gx_err *err)
{
    rows r = {.count = 0};
    gx_vec_fresh fresh = {.count = 0};
    gx_mem *mem = t->ctx->mem;
    gx_vec_batch batch = {.count = 0};
    gx_code code = GX_OK;
    int64_t entered = 0;
    char before[64] = "";
    if (t->batch.count > 0 && t->batch.first == 1) { // all that waits
        batch = gx_vec_take_batch(t);
        r.count = batch.count;
        r.ids = batch.ids;
        r.at = batch.at;
        memcpy(r.data, batch.data, sizeof r.data);
    } else {
        code = gx_vec_flush(t, err);
        code = code == GX_OK ? gx_vec_entered_slot(t, &entered, err) : code;
        code = code == GX_OK ? gx_vec_read_fresh(t, 0, entered, &fresh, err) : code;
        r.count = fresh.count;
        r.entered = fresh.entered;
        r.ids = fresh.ids;
        memcpy(r.data, fresh.data, sizeof r.data);
    }
    if (code == GX_OK && r.count > 0) {
        code = gx_mem_alloc(mem, (size_t)r.count * sizeof *r.pos, "positions", &r.pos, err);
        if (code == GX_OK && batch.count > 0) {
            code = hold_pages(t, r.at, before, err);
        }
        code = code == GX_OK ? gx_vec_store(t, settle_rows, &r, err) : code;
        release_pages(t, before);
    }
    gx_mem_free(mem, r.pos);
    gx_vec_fresh_clear(&fresh, mem);
    if (batch.count > 0) {
        gx_vec_end_batch(t, &batch, code == GX_OK);
    }
    if (code == GX_OK) {
        t->slot = r.count > 0 ? 0 : -1; // the index may know slots of rows that are gone
        t->full = 0;
        t->grown = r.grown;
    }
    return code;
}

// No dead rows ------------------------------------------------------------------------------------

/* Dead positions from `first` on below `end`, at most MOVE_ROWS, ascending. */
static gx_code dead_below(gx_vec_table *t, int64_t end, int64_t *at, int64_t *count, gx_err *err)
{
    sqlite3_stmt *stmt;
    bool is_row;
    *count = 0;
    GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_DEAD_IN, &stmt, err));
    sqlite3_bind_int64(stmt, 1, 0);
    sqlite3_bind_int64(stmt, 2, end - 1);
    gx_code code = gx_vectors_step(t->rows, stmt, &is_row, err);
    while (code == GX_OK && is_row && *count < MOVE_ROWS) {
        at[(*count)++] = sqlite3_column_int64(stmt, 0);
        code = gx_vectors_step(t->rows, stmt, &is_row, err);
    }
    sqlite3_reset(stmt);
    return code;
}

/* Rows that lie from `first` on, as many as there are dead ones before: their ids and positions. */
static gx_code tail_from(gx_vec_table *t, int64_t first, int64_t wanted, int64_t *ids, int64_t *at,
                         gx_err *err)
{
    sqlite3_stmt *stmt;
    bool is_row;
    int64_t count = 0;
    GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_TAIL, &stmt, err));
    sqlite3_bind_int64(stmt, 1, first);
    gx_code code = gx_vectors_step(t->rows, stmt, &is_row, err);
    while (code == GX_OK && is_row && count < wanted) {
        ids[count] = sqlite3_column_int64(stmt, 0);
        at[count++] = sqlite3_column_int64(stmt, 1);
        code = gx_vectors_step(t->rows, stmt, &is_row, err);
    }
    sqlite3_reset(stmt);
    return code == GX_OK && count < wanted
               ? gx_fail(err, GX_CORRUPT, "%s_dead lists rows that %s_row has", t->name, t->name)
               : code;
}

static gx_code move_vectors(gx_run *run, gx_vec_table *t, int vector, const int64_t *from,
                            const int64_t *to, int64_t count, gx_err *err)
{
    gx_mat E, part;
    gx_reader *reader;
    void *data = NULL;
    size_t bytes = 0;
    GX_TRY(gx_vec_matrix(t, vector, &E, err));
    if (!gx_matrix_bytes(count, E.cols, E.number, &bytes)) {
        return gx_fail(err, GX_TOOBIG, "%s has too many rows", t->name);
    }
    GX_TRY(gx_reader_own(t->ctx->store, &reader, err));
    gx_code code = gx_mem_alloc(t->ctx->mem, bytes, "rows that move", &data, err);
    code = code == GX_OK ? gx_rows_read(run, &E, reader, 0, from, count, E.number, data, count, err)
                         : code;
    gx_reader_close(reader);
    if (code == GX_OK) {
        gx_mat_value(&part, t->name, E.number, count, E.cols, data, count);
        code = gx_rows_set(run, &E.meta, 0, to, count, &part, false, err);
    }
    gx_mem_free(t->ctx->mem, data);
    return code;
}

/* MOVE_ROWS of the rows from `live` on come to where dead ones are; how many did. */
static gx_code move_some(gx_run *run, gx_vec_table *t, int64_t live, int64_t *work, int64_t *count,
                         gx_err *err)
{
    int64_t *to = work, *from = work + MOVE_ROWS, *ids = work + 2 * MOVE_ROWS;
    GX_TRY(dead_below(t, live, to, count, err));
    GX_TRY(tail_from(t, live, *count, ids, from, err));
    for (int c = 0; c<t->shape.vectors && * count> 0; c++) {
        GX_TRY(move_vectors(run, t, c, from, to, *count, err));
    }
    for (int64_t k = 0; k < *count; k++) {
        GX_TRY(gx_vec_run(t, GX_VECTORS_REVIVE, to[k], to[k], err));
        GX_TRY(gx_vec_run(t, GX_VECTORS_MOVE, ids[k], to[k], err));
    }
    return GX_OK;
}

/* Rows from `live` on go. */
static gx_code cut(gx_run *run, gx_vec_table *t, int64_t live, int64_t height, gx_err *err)
{
    int64_t *at;
    GX_TRY(gx_mem_alloc(t->ctx->mem, (size_t)(height - live) * sizeof *at, "numbers of rows", &at,
                        err));
    for (int64_t k = live; k < height; k++) {
        at[k - live] = k;
    }
    gx_code code = GX_OK;
    for (int c = 0; c < t->shape.vectors && code == GX_OK; c++) {
        gx_mat E;
        code = gx_vec_matrix(t, c, &E, err);
        code = code != GX_OK ? code
               : live == 0   ? gx_store_drop(t->ctx->store, &E.meta, err)
                             : gx_rows_delete(run, &E.meta, 0, at, height - live, err);
    }
    gx_mem_free(t->ctx->mem, at);
    return code == GX_OK ? gx_vec_run(t, GX_VECTORS_REVIVE, INT64_MIN, INT64_MAX, err) : code;
}

static gx_code remove_dead(gx_run *run, gx_vec_table *t, void *arg, gx_err *err)
{
    int64_t height = 0, dead = 0, moved = MOVE_ROWS, *work;
    (void)arg;
    GX_TRY(gx_vec_height(t, &height, err));
    GX_TRY(gx_vec_count_dead(t, &dead, err));
    int64_t live = height - dead;
    if (dead == 0) {
        return GX_OK;
    }
    if (live < 0) {
        return gx_fail(err, GX_CORRUPT,
                       "%s_dead has %" PRId64 " rows, but the matrices have %" PRId64, t->name,
                       dead, height);
    }
    GX_TRY(gx_mem_alloc(t->ctx->mem, 3 * MOVE_ROWS * sizeof *work, "numbers of rows", &work, err));
    gx_code code = GX_OK;
    while (moved == MOVE_ROWS && code == GX_OK) {
        code = move_some(run, t, live, work, &moved, err);
    }
    gx_mem_free(t->ctx->mem, work);
    return code == GX_OK ? cut(run, t, live, height, err) : code;
}

gx_code gx_vec_settle_all(gx_vec_table *t, gx_err *err)
{
    GX_TRY(gx_vec_settle(t, err));
    gx_code code = gx_vec_store(t, remove_dead, NULL, err);
    t->full = 0;
    return code == GX_OK ? gx_vec_renew_index(t, err) : code;
}
