/*
** What vector tables have, for the files above: their matrices, NAME_new, rows that wait in memory,
** and the vectors of rows.
**
** A row's vectors lie in the matrices by columns, so that one row is a page for each number; rows
** that are read one behind the other are brought in ever larger pieces.
*/
#include "vectors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_ROWS = 64, FIRST_VECTOR = 2, FIRST_MARK = 3 };

int gx_vec_error(gx_vec_table *t, const gx_err *err, int code)
{
    gx_ctx_failed(t->ctx, err);
    return gx_vec_run_error(t, err, code);
}

int gx_vec_run_error(gx_vec_table *t, const gx_err *err, int code)
{
    gx_err full = {.code = GX_OK};
    gx_fail(&full, err->code, "%s: %s", t->name, err->text);
    int mapped = gx_vtab_error(&t->base, "gx_vectors", &full);
    return code != 0 ? code : mapped;
}

gx_code gx_vec_run(gx_vec_table *t, gx_vectors_sql which, int64_t first, int64_t second,
                   gx_err *err)
{
    sqlite3_stmt *stmt;
    GX_TRY(gx_vectors_stmt(t->rows, which, &stmt, err));
    sqlite3_bind_int64(stmt, 1, first);
    if (sqlite3_bind_parameter_count(stmt) > 1) {
        sqlite3_bind_int64(stmt, 2, second);
    }
    return gx_vectors_run(t->rows, stmt, err);
}

gx_code gx_vec_store(gx_vec_table *t, gx_code (*fn)(gx_run *, gx_vec_table *, void *, gx_err *),
                     void *arg, gx_err *err)
{
    gx_run run;
    gx_run_begin(&run, t->ctx, "gx_vectors");
    gx_code code = gx_store_begin(t->ctx->store, t->schema, err);
    if (code == GX_OK) {
        code = fn(&run, t, arg, err);
        gx_code ended = gx_store_end(t->ctx->store, code == GX_OK, err);
        code = code == GX_OK ? ended : code;
    }
    gx_run_end(&run);
    return code;
}

// Matrices ----------------------------------------------------------------------------------------

void gx_vec_full_name(const gx_vec_table *t, const char *matrix, char full[2 * GX_NAME_MAX + 2])
{
    snprintf(full, 2 * GX_NAME_MAX + 2, "%.255s.%.255s", t->schema, matrix);
}

gx_code gx_vec_matrix(gx_vec_table *t, int vector, gx_mat *E, gx_err *err)
{
    const gx_vec_column *column = &t->shape.vector[vector];
    char full[2 * GX_NAME_MAX + 2];
    gx_meta meta;
    bool found;
    gx_vec_full_name(t, column->matrix, full);
    GX_TRY(gx_store_lookup(t->ctx->store, full, &meta, &found, err));
    if (!found) {
        gx_mat_value(E, column->matrix, gx_dtype_number(column->dtype), 0, column->cells, "", 1);
        return GX_OK;
    }
    bool is_one = column->is_bit ? meta.properties == GX_PROP_BITS : !gx_meta_is_made(&meta);
    if (meta.is_sparse || meta.is_composite || !is_one || meta.cols != column->cells ||
        meta.dtype != column->dtype) {
        return gx_fail(err, GX_CORRUPT,
                       "matrix %s is not one of %" PRId64 " columns of %s, which %s settles in",
                       column->matrix, column->dims,
                       column->is_bit ? "packed bits" : gx_dtype_name(column->dtype), column->name);
    }
    gx_mat_stored(E, &meta);
    return GX_OK;
}

gx_code gx_vec_height(gx_vec_table *t, int64_t *rows, gx_err *err)
{
    for (int c = 0; c < t->shape.vectors; c++) {
        gx_mat E;
        GX_TRY(gx_vec_matrix(t, c, &E, err));
        *rows = c == 0 ? E.rows : *rows;
        if (E.rows != *rows) {
            return gx_fail(err, GX_CORRUPT, "matrix %s has %" PRId64 " rows, but %s has %" PRId64,
                           t->shape.vector[c].matrix, E.rows, t->shape.vector[0].matrix, *rows);
        }
    }
    return GX_OK;
}

gx_code gx_vec_count(gx_vec_table *t, gx_vectors_sql which, int64_t of, int64_t *count, gx_err *err)
{
    sqlite3_stmt *stmt;
    bool is_row;
    GX_TRY(gx_vectors_stmt(t->rows, which, &stmt, err));
    sqlite3_bind_int64(stmt, 1, of); // where there is no ?1 nothing is bound
    gx_code code = gx_vectors_step(t->rows, stmt, &is_row, err);
    *count = is_row ? sqlite3_column_int64(stmt, 0) : 0;
    sqlite3_reset(stmt);
    return code;
}

gx_code gx_vec_count_dead(gx_vec_table *t, int64_t *dead, gx_err *err)
{
    return gx_vec_count(t, GX_VECTORS_DEAD_COUNT, 0, dead, err);
}

gx_code gx_vec_state(gx_vec_table *t, int64_t *version, int64_t *changes, bool *is_settled,
                     gx_err *err)
{
    GX_TRY(gx_vec_count(t, GX_VECTORS_VERSION, 0, version, err));
    *changes = sqlite3_total_changes(t->db);
    *is_settled = sqlite3_libversion_number() >= 3034000 &&
                  sqlite3_txn_state(t->db, t->schema) != SQLITE_TXN_WRITE;
    return GX_OK;
}

// Rows that wait in memory ------------------------------------------------------------------------

void gx_vec_free_batch(gx_vec_table *t, gx_vec_batch *batch)
{
    gx_mem *mem = t->ctx->mem;
    gx_mem_free(mem, batch->ids);
    for (int c = 0; c < GX_VEC_VECTORS_MAX; c++) {
        gx_mem_free(mem, batch->data[c]);
    }
    *batch = (gx_vec_batch){.first = 0};
}

gx_vec_batch gx_vec_take_batch(gx_vec_table *t)
{
    gx_vec_batch batch = t->batch;
    t->batch = (gx_vec_batch){.first = 0};
    return batch;
}

void gx_vec_end_batch(gx_vec_table *t, gx_vec_batch *batch, bool is_written)
{
    if (!is_written && t->is_in_transaction && t->batch.count == 0) {
        gx_vec_free_batch(t, &t->batch);
        t->batch = *batch;
    } else {
        gx_vec_free_batch(t, batch);
    }
}

/* One row of NAME_new: blobs of all vector columns. */
gx_code gx_vec_put_new(gx_vec_table *t, int64_t slot, int64_t id, const char *const *blobs,
                       gx_err *err)
{
    sqlite3_stmt *stmt;
    GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_PUT_NEW, &stmt, err));
    sqlite3_bind_int64(stmt, 1, slot);
    sqlite3_bind_int64(stmt, 2, id);
    for (int c = 0; c < t->shape.vectors; c++) {
        sqlite3_bind_blob64(stmt, c + FIRST_MARK, blobs[c], t->shape.vector[c].bytes,
                            SQLITE_STATIC);
    }
    gx_code code = gx_vectors_run(t->rows, stmt, err);
    sqlite3_clear_bindings(stmt); // the blobs are the caller's
    return code;
}

gx_code gx_vec_flush(gx_vec_table *t, gx_err *err)
{
    gx_vec_batch batch = gx_vec_take_batch(t);
    gx_code code = GX_OK;
    for (int64_t k = 0; k < batch.count && code == GX_OK; k++) {
        const char *blobs[GX_VEC_VECTORS_MAX];
        for (int c = 0; c < t->shape.vectors; c++) {
            blobs[c] = batch.data[c] + (size_t)k * t->shape.vector[c].bytes;
        }
        code = gx_vec_put_new(t, batch.first + k, batch.ids[k], blobs, err);
        if (code == GX_OK && batch.at > 0) {
            code = gx_vec_run(t, GX_VECTORS_MOVE, batch.ids[k], -(batch.first + k), err);
        }
    }
    t->grown = 0;
    gx_vec_end_batch(t, &batch, code == GX_OK);
    return code;
}

// NAME_new ----------------------------------------------------------------------------------------

void gx_vec_fresh_clear(gx_vec_fresh *fresh, gx_mem *mem)
{
    gx_mem_free(mem, fresh->block);
    for (int c = 0; c < GX_VEC_VECTORS_MAX && fresh->block == NULL; c++) {
        gx_mem_free(mem, fresh->data[c]);
    }
    gx_mem_free(mem, fresh->block == NULL ? fresh->ids : NULL);
    *fresh = (gx_vec_fresh){0};
}

/* Ids and elements as they lie in a block, NULL: nowhere; its bytes. */
static size_t lay_out_fresh(const gx_vec_table *t, gx_vec_fresh *fresh, char *block)
{
    size_t used = gx_whole_lines((size_t)fresh->count * sizeof *fresh->ids);
    fresh->ids = block == NULL ? fresh->ids : (int64_t *)(void *)block;
    for (int c = 0; c < t->shape.vectors; c++) {
        fresh->data[c] = block == NULL ? fresh->data[c] : block + used;
        used += gx_whole_lines((size_t)fresh->count * t->shape.vector[c].bytes);
    }
    return gx_round_up(used, GX_VEC_KEPT_BYTES);
}

static gx_mem_key key_of_fresh(const gx_vec_table *t)
{
    return (gx_mem_key){.file = (uint64_t)(uintptr_t)t,
                        .id = t->fresh.version,
                        .generation = t->fresh.changes,
                        .part = {t->fresh.count, INT64_MIN, t->fresh.after, 0}};
}

/* All of it in one block; false: it is not to be kept, or there is no memory. */
static bool gather_fresh(gx_vec_table *t)
{
    gx_mem *mem = t->ctx->mem;
    gx_vec_fresh *fresh = &t->fresh, whole = *fresh;
    gx_err ignored = {.code = GX_OK};
    size_t bytes = lay_out_fresh(t, fresh, NULL);
    if (fresh->block != NULL || !fresh->is_known ||
        gx_mem_alloc(mem, bytes, "new rows", &whole.block, &ignored) != GX_OK) {
        return fresh->block != NULL;
    }
    lay_out_fresh(t, &whole, whole.block);
    memcpy(whole.ids, fresh->ids, (size_t)fresh->count * sizeof *fresh->ids);
    for (int c = 0; c < t->shape.vectors; c++) {
        memcpy(whole.data[c], fresh->data[c], (size_t)fresh->count * t->shape.vector[c].bytes);
    }
    gx_vec_fresh_clear(fresh, mem);
    *fresh = whole;
    return true;
}

void gx_vec_forget_fresh(gx_vec_table *t)
{
    gx_mem_key key = key_of_fresh(t);
    if (t->cursors > 0 || t->fresh.stands_by || t->fresh.count == 0) { // nothing is in memory
        return;
    }
    if (!gather_fresh(t)) {
        gx_vec_fresh_clear(&t->fresh, t->ctx->mem);
        return;
    }
    gx_mem_keep(t->ctx->mem, t->fresh.block, &key);
    t->fresh.block = NULL;
    t->fresh.ids = NULL;
    memset(t->fresh.data, 0, sizeof t->fresh.data);
    t->fresh.stands_by = true;
}

bool gx_vec_recall_fresh(gx_vec_table *t)
{
    gx_vec_fresh *fresh = &t->fresh;
    gx_mem_key key = key_of_fresh(t);
    if (fresh->stands_by) {
        fresh->block = gx_mem_claim(t->ctx->mem, &key, lay_out_fresh(t, fresh, NULL));
        lay_out_fresh(t, fresh, fresh->block);
        fresh->stands_by = false;
        fresh->is_known = fresh->block != NULL;
    }
    return fresh->is_known;
}

static gx_code grow_fresh(gx_vec_table *t, gx_vec_fresh *fresh, int64_t *capacity, gx_err *err)
{
    gx_mem *mem = t->ctx->mem;
    int64_t wanted = gx_max(FIRST_ROWS, 2 * *capacity);
    GX_TRY(gx_mem_realloc(mem, (size_t)wanted * sizeof *fresh->ids, "new rows", &fresh->ids, err));
    for (int c = 0; c < t->shape.vectors; c++) {
        GX_TRY(gx_mem_realloc(mem, (size_t)wanted * t->shape.vector[c].bytes, "new rows",
                              &fresh->data[c], err));
    }
    *capacity = wanted;
    return GX_OK;
}

/* A row of NAME_new at the statement: its BLOBs have the lengths that they must have. */
static gx_code take_fresh(gx_vec_table *t, gx_vec_fresh *fresh, sqlite3_stmt *stmt, gx_err *err)
{
    fresh->ids[fresh->count] = sqlite3_column_int64(stmt, 1);
    for (int c = 0; c < t->shape.vectors; c++) {
        const gx_vec_column *column = &t->shape.vector[c];
        const void *blob = sqlite3_column_blob(stmt, FIRST_VECTOR + c);
        int bytes = sqlite3_column_bytes(stmt, FIRST_VECTOR + c);
        if (blob == NULL || (size_t)bytes != column->bytes) {
            return gx_fail(err, GX_CORRUPT,
                           "%s_new has %d bytes for %s of row %" PRId64 ", expected %zu", t->name,
                           bytes, column->name, fresh->ids[fresh->count], column->bytes);
        }
        memcpy(fresh->data[c] + (size_t)fresh->count * column->bytes, blob, column->bytes);
    }
    fresh->count++;
    return GX_OK;
}

gx_code gx_vec_read_fresh(gx_vec_table *t, int64_t after, int64_t entered, gx_vec_fresh *fresh,
                          gx_err *err)
{
    sqlite3_stmt *stmt;
    bool is_row;
    int64_t capacity = 0;
    fresh->after = after;
    GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_ALL_NEW, &stmt, err));
    sqlite3_bind_int64(stmt, 1, after);
    gx_code code = gx_vectors_step(t->rows, stmt, &is_row, err);
    while (code == GX_OK && is_row) {
        if (fresh->count == capacity) {
            code = grow_fresh(t, fresh, &capacity, err);
        }
        fresh->entered += code == GX_OK && sqlite3_column_int64(stmt, 0) <= entered;
        code = code == GX_OK ? take_fresh(t, fresh, stmt, err) : code;
        code = code == GX_OK ? gx_vectors_step(t->rows, stmt, &is_row, err) : code;
    }
    sqlite3_reset(stmt);
    return code;
}

gx_code gx_vec_read_new(gx_vec_table *t, int vector, int64_t slot, int64_t id, void *blob,
                        gx_err *err)
{
    const gx_vec_column *column = &t->shape.vector[vector];
    sqlite3_stmt *stmt;
    bool is_row;
    GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_NEW, &stmt, err));
    sqlite3_bind_int64(stmt, 1, slot);
    gx_code code = gx_vectors_step(t->rows, stmt, &is_row, err);
    if (code == GX_OK) {
        const void *data = is_row ? sqlite3_column_blob(stmt, FIRST_VECTOR + vector) : NULL;
        bool is_its = is_row && sqlite3_column_int64(stmt, 1) == id && data != NULL &&
                      (size_t)sqlite3_column_bytes(stmt, FIRST_VECTOR + vector) == column->bytes;
        if (is_its) {
            memcpy(blob, data, column->bytes);
        } else {
            code = gx_fail(err, GX_CORRUPT,
                           "%s_new has no vector %s of row %" PRId64 " in slot %" PRId64, t->name,
                           column->name, id, slot);
        }
    }
    sqlite3_reset(stmt);
    return code;
}

// Settled rows ------------------------------------------------------------------------------------

void gx_vec_window_clear(gx_vec_window *window, gx_mem *mem)
{
    for (int c = 0; c < GX_VEC_VECTORS_MAX; c++) {
        gx_mem_free(mem, window->of[c].blobs);
        gx_mem_free(mem, window->of[c].elements);
    }
    *window = (gx_vec_window){0};
}

/* Rows first .. first + count - 1 of E as BLOBs, by way of columns. */
static gx_code fill(gx_vec_table *t, const gx_vec_column *column, const gx_mat *E, int64_t first,
                    int64_t count, char *elements, char *blobs, gx_err *err)
{
    gx_run run;
    gx_reader *reader;
    size_t size = gx_dtype_bytes(column->dtype);
    gx_run_begin(&run, t->ctx, "gx_vectors");
    gx_code code = gx_reader_own(t->ctx->store, &reader, err);
    if (code == GX_OK) {
        code = gx_mat_read_as(&run, E, reader, first, 0, count, E->cols,
                              gx_mat_narrow(E, E->number), elements, count, err);
        gx_reader_close(reader);
    }
    gx_run_end(&run);
    for (int64_t i = 0; i < count && code == GX_OK; i++) {
        for (int64_t j = 0; j < column->cells; j++) {
            memcpy(blobs + (size_t)i * column->bytes + (size_t)j * size,
                   elements + (size_t)(j * count + i) * size, size);
        }
    }
    return code;
}

gx_code gx_vec_window_read(gx_vec_table *t, gx_vec_window *window, int vector, int64_t pos,
                           const void **blob, gx_err *err)
{
    enum { MOST_BYTES = 4 << 20 };
    const gx_vec_column *column = &t->shape.vector[vector];
    gx_mem *mem = t->ctx->mem;
    gx_mat E;
    GX_TRY(gx_vec_matrix(t, vector, &E, err));
    if (pos < 0 || pos >= E.rows) {
        return gx_fail(err, GX_CORRUPT,
                       "%s_row has position %" PRId64 ", but %s has %" PRId64 " rows", t->name, pos,
                       column->matrix, E.rows);
    }
    size_t row = column->bytes;
    int64_t first = window->of[vector].first, count = window->of[vector].count;
    bool is_same =
        window->of[vector].id == E.meta.id && window->of[vector].generation == E.meta.generation;
    if (!is_same || pos < first || pos >= first + count) { // neighbours are read at once
        int64_t most = gx_max(1, MOST_BYTES / (int64_t)row);
        bool is_next = count > 0 && pos == first + count;
        count = gx_min(E.rows - pos, is_next ? gx_min(most, 2 * count) : 1);
        window->of[vector].count = 0;
        if (count > window->of[vector].capacity) {
            window->of[vector].capacity = 0;
            GX_TRY(gx_mem_realloc(mem, (size_t)count * row, "rows", &window->of[vector].elements,
                                  err));
            GX_TRY(
                gx_mem_realloc(mem, (size_t)count * row, "rows", &window->of[vector].blobs, err));
            window->of[vector].capacity = count;
        }
        GX_TRY(fill(t, column, &E, pos, count, window->of[vector].elements,
                    window->of[vector].blobs, err));
        first = window->of[vector].first = pos;
        window->of[vector].count = count;
        window->of[vector].id = E.meta.id;
        window->of[vector].generation = E.meta.generation;
    }
    *blob = window->of[vector].blobs + (size_t)(pos - first) * column->bytes;
    return GX_OK;
}

gx_code gx_vec_alive(gx_run *run, gx_vec_table *t, int64_t rows, uint64_t **bits, gx_err *err)
{
    int64_t dead;
    sqlite3_stmt *stmt;
    bool is_row;
    *bits = NULL;
    GX_TRY(gx_vec_count_dead(t, &dead, err));
    if (dead == 0) {
        return GX_OK;
    }
    size_t words = (size_t)gx_ceil_div(rows, 64);
    GX_TRY(gx_mem_alloc(run->ctx->mem, gx_max(1, words) * sizeof **bits, "candidates", bits, err));
    memset(*bits, 0xff, words * sizeof **bits);
    GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_DEAD_IN, &stmt, err));
    sqlite3_bind_int64(stmt, 1, 0);
    sqlite3_bind_int64(stmt, 2, rows - 1);
    gx_code code = gx_vectors_step(t->rows, stmt, &is_row, err);
    while (code == GX_OK && is_row) {
        int64_t pos = sqlite3_column_int64(stmt, 0);
        (*bits)[pos / 64] &= ~((uint64_t)1 << pos % 64);
        code = gx_vectors_step(t->rows, stmt, &is_row, err);
    }
    sqlite3_reset(stmt);
    return code;
}

gx_code gx_vec_know_fresh(gx_vec_table *t, int64_t after, gx_err *err)
{
    gx_vec_fresh *fresh = &t->fresh;
    int64_t version, changes;
    bool is_settled;
    GX_TRY(gx_vec_state(t, &version, &changes, &is_settled, err));
    bool is_same = fresh->version == version && fresh->changes == changes && fresh->after == after;
    if (is_settled && fresh->is_known && is_same && gx_vec_recall_fresh(t)) {
        return GX_OK;
    }
    gx_vec_fresh_clear(fresh, t->ctx->mem);
    gx_code code = gx_vec_read_fresh(t, after, 0, fresh, err);
    if (code != GX_OK) {
        gx_vec_fresh_clear(fresh, t->ctx->mem);
        return code;
    }
    fresh->is_known = is_settled;
    fresh->version = version;
    fresh->changes = changes;
    return GX_OK;
}
