/*
** INSERT, UPDATE and DELETE on vector tables.
**
**   INSERT   a row of NAME_row, and its vectors in NAME_new
**   UPDATE   of columns: the row of NAME_row alone; of vectors: into NAME_new, and the row of the
**            matrix that had them is dead
**   DELETE   the row of NAME_row; its vectors leave NAME_new, or are dead
**
** A conflict of keys is found by SQLite, in NAME_row, before anything else is written: what an
** UPDATE or INSERT refuses leaves nothing behind.  OR REPLACE deletes the row in the way.
**
** The batch.  Rows that are inserted go to NAME_row at once, with the number of a slot; their
** vectors wait in memory, for most will be in a tile before anybody asks for them in NAME_new.
** When they are as many as a tile takes they settle (vectors_settle.c).  They go to NAME_new
**
**   - before this connection looks at the table in another way than by inserting;
**   - at the beginning of every savepoint, SQLite's own for one statement included (xSavepoint):
**     what waits is always younger than the youngest savepoint, and ROLLBACK TO drops it whole;
**   - before the commit (xSync).  ROLLBACK drops it.
**
** Statements of ours have savepoints of SQLite's own, too: the batch is taken from the table before
** it is written, and given back where that fails.
**
** SQLite counts a table as begun from CREATE VIRTUAL TABLE on, without a call of xBegin, nor of
** xSavepoint for savepoints that were open before: there each row is written at once.
**
** Slots count from 1 and NAME_new is emptied as a whole, so the last slot says about how many rows
** have not settled, without a look at them.
*/
#include "vectors.h"

#include <inttypes.h>
#include <string.h>

enum { FIRST_BATCH = 16, FIRST_COLUMN = 2, FIRST_MARK = 3 };

// The batch ---------------------------------------------------------------------------------------

/* Room for one row more, up to a tile's; false: the governor has none. */
static bool has_room(gx_vec_table *t)
{
    gx_vec_batch *batch = &t->batch;
    gx_mem *mem = t->ctx->mem;
    gx_err refused = {.code = GX_OK};
    if (batch->count < batch->capacity) {
        return true;
    }
    int64_t capacity = gx_max(FIRST_BATCH, 2 * batch->capacity);
    size_t bytes = (size_t)capacity * sizeof *batch->ids;
    for (int c = 0; c < t->shape.vectors; c++) {
        bytes += (size_t)capacity * t->shape.vector[c].bytes;
    }
    if (bytes > gx_mem_available(mem) / 4 ||
        gx_mem_realloc(mem, (size_t)capacity * sizeof *batch->ids, "new rows", &batch->ids,
                       &refused) != GX_OK) {
        return false;
    }
    for (int c = 0; c < t->shape.vectors; c++) {
        if (gx_mem_realloc(mem, (size_t)capacity * t->shape.vector[c].bytes, "new rows",
                           &batch->data[c], &refused) != GX_OK) {
            return false;
        }
    }
    batch->capacity = capacity;
    return true;
}

/*
** The vectors of a row that is inserted, with the last slot: into the batch, or NAME_new.  at: the
** batch's, where this is its first row.
*/
static gx_code add_new(gx_vec_table *t, int64_t id, int64_t at, const char *const *blobs,
                       gx_err *err)
{
    gx_vec_batch *batch = &t->batch;
    if (t->is_unannounced || !has_room(t)) {
        GX_TRY(gx_vec_flush(t, err));
        GX_TRY(at > 0 ? gx_vec_run(t, GX_VECTORS_MOVE, id, -t->slot, err) : GX_OK);
        return gx_vec_put_new(t, t->slot, id, blobs, err);
    }
    if (batch->count == 0) {
        batch->first = t->slot;
        batch->at = at;
    }
    for (int c = 0; c < t->shape.vectors; c++) {
        size_t bytes = t->shape.vector[c].bytes;
        memcpy(batch->data[c] + (size_t)batch->count * bytes, blobs[c], bytes);
    }
    batch->ids[batch->count++] = id;
    return GX_OK;
}

/* The slot of the next row. */
static gx_code next_slot(gx_vec_table *t, int64_t *slot, gx_err *err)
{
    if (t->slot < 0) {
        int64_t last, entered; // which no other row gets
        GX_TRY(gx_vec_count(t, GX_VECTORS_LAST_SLOT, 0, &last, err));
        GX_TRY(gx_vec_entered_slot(t, &entered, err));
        t->slot = gx_max(gx_max(0, last), entered);
    }
    if (t->slot == INT64_MAX) {
        return gx_fail(err, GX_CORRUPT, "%s_new has slot %" PRId64, t->name, t->slot);
    }
    *slot = t->slot + 1;
    return GX_OK;
}

// Rows --------------------------------------------------------------------------------------------

typedef struct change {
    gx_vec_table *t;
    sqlite3_value **argv;
    bool is_insert, is_delete, replaces;
    int code;   /* SQLITE_CONSTRAINT: of that kind the failure is; 0: of err's            */
    int64_t id; /* of the row that changes                                                */
    int64_t new_id;
    const char *blob[GX_VEC_VECTORS_MAX]; /* vectors that are given; NULL: not given           */
    char *made[GX_VEC_VECTORS_MAX];       /* those of them that are no values of argv; owned   */
} change;

/* The value of a column, by its number in the table. */
static sqlite3_value *value_of(const change *ch, int column)
{
    return ch->argv[FIRST_COLUMN + column];
}

static gx_code get_row(gx_vec_table *t, int64_t id, bool *found, int64_t *pos, gx_err *err)
{
    sqlite3_stmt *stmt;
    GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_ROW, &stmt, err));
    sqlite3_bind_int64(stmt, 1, id);
    gx_code code = gx_vectors_step(t->rows, stmt, found, err);
    *pos = *found ? sqlite3_column_int64(stmt, 1) : 0;
    sqlite3_reset(stmt);
    return code;
}

/* What stood at a position, row id's, is nobody's. */
static gx_code leave(gx_vec_table *t, int64_t id, int64_t pos, gx_err *err)
{
    GX_TRY(gx_vec_leave_index(t, id, pos, err));
    return pos >= 0 ? gx_vec_run(t, GX_VECTORS_KILL, pos, 0, err)
                    : gx_vec_run(t, GX_VECTORS_DELETE_NEW, gx_vec_slot(pos), 0, err);
}

static gx_code delete_row(gx_vec_table *t, int64_t id, gx_err *err)
{
    bool found;
    int64_t pos;
    GX_TRY(gx_vec_flush(t, err));
    GX_TRY(get_row(t, id, &found, &pos, err));
    if (!found) {
        return GX_OK;
    }
    GX_TRY(gx_vec_run(t, GX_VECTORS_DELETE, id, 0, err));
    return leave(t, id, pos, err);
}

/* The rowid of a value, which must be an integer. */
static gx_code take_id(change *ch, sqlite3_value *value, int64_t *id, gx_err *err)
{
    char shown[GX_SHOWN_BYTES];
    if (sqlite3_value_numeric_type(value) != SQLITE_INTEGER) {
        ch->code = SQLITE_MISMATCH;
        return gx_fail(err, GX_ARG, "%s must be an integer, not %s",
                       ch->t->shape.is_text_key ? "rowid" : ch->t->shape.key,
                       gx_arg_show(value, shown));
    }
    *id = sqlite3_value_int64(value);
    return GX_OK;
}

/* The rowid that an INSERT or UPDATE gives; *is_given false: SQLite chooses, or it stays. */
static gx_code take_key(change *ch, bool *is_given, gx_err *err)
{
    const gx_vec_shape *shape = &ch->t->shape;
    sqlite3_value *key = value_of(ch, GX_VEC_KEY), *own = ch->argv[1];
    bool is_kept = !ch->is_insert && sqlite3_value_nochange(key);
    *is_given = false;
    if (shape->is_text_key && !is_kept && sqlite3_value_type(key) != SQLITE_TEXT) {
        char shown[GX_SHOWN_BYTES];
        ch->code = SQLITE_CONSTRAINT;
        return gx_fail(err, GX_ARG, "%s must be a text, not %s", shape->key,
                       gx_arg_show(key, shown));
    }
    ch->new_id = ch->id;
    bool has_key = !shape->is_text_key && !is_kept && sqlite3_value_type(key) != SQLITE_NULL;
    bool has_own = sqlite3_value_type(own) != SQLITE_NULL &&
                   (ch->is_insert || sqlite3_value_int64(own) != ch->id);
    if (!has_key && !has_own) {
        bool is_nulled = !ch->is_insert && !is_kept && !shape->is_text_key;
        return is_nulled ? take_id(ch, key, &ch->new_id, err) : GX_OK;
    }
    *is_given = true;
    GX_TRY(take_id(ch, has_key ? key : own, &ch->new_id, err));
    return GX_OK;
}

static gx_code name_row(const change *ch, bool is_given, gx_code code, gx_err *err)
{
    if (code == GX_ARG && (is_given || !ch->is_insert)) {
        gx_err plain = *err;
        err->code = GX_OK;
        return gx_fail(err, GX_ARG, "row %" PRId64 ": %s", ch->new_id, plain.text);
    }
    return code;
}

/* The vectors that are given, all of them before anything is written. */
static gx_code take_vectors(change *ch, gx_err *err)
{
    gx_vec_table *t = ch->t;
    for (int c = 1; c <= t->shape.columns; c++) {
        int vector = t->shape.column[c - 1].vector;
        sqlite3_value *value = value_of(ch, c);
        if (vector < 0 || (!ch->is_insert && sqlite3_value_nochange(value))) {
            continue;
        }
        const gx_vec_column *column = &t->shape.vector[vector];
        gx_code code = gx_vec_take(t, column, value, &ch->made[vector], &ch->blob[vector], err);
        if (code != GX_OK) {
            ch->code = code == GX_ARG ? SQLITE_CONSTRAINT : 0;
            return code;
        }
    }
    return GX_OK;
}

/* The columns of NAME_row, as parameters from FIRST_MARK on. */
static void bind_columns(const change *ch, sqlite3_stmt *stmt, sqlite3_stmt *old)
{
    const gx_vec_shape *shape = &ch->t->shape;
    for (int c = 0; c <= shape->columns; c++) {
        bool is_key = c == GX_VEC_KEY;
        if (is_key ? !shape->is_text_key : shape->column[c - 1].vector >= 0) {
            continue;
        }
        int plain = is_key ? 0 : shape->column[c - 1].plain;
        for (int k = 0; is_key && k < shape->tables.columns; k++) {
            plain = shape->name[k] == shape->tables.key ? k : plain;
        }
        bool is_kept = old != NULL && sqlite3_value_nochange(value_of(ch, c));
        sqlite3_bind_value(stmt, FIRST_MARK + plain,
                           is_kept ? sqlite3_column_value(old, FIRST_COLUMN + plain)
                                   : value_of(ch, c));
    }
}

/* A row of NAME_row with its columns; a conflict is told by ch->code. */
static gx_code put_row(change *ch, gx_vectors_sql which, bool is_given, int64_t pos,
                       sqlite3_stmt *old, gx_err *err)
{
    sqlite3_stmt *stmt;
    GX_TRY(gx_vectors_stmt(ch->t->rows, which, &stmt, err));
    if (is_given) {
        sqlite3_bind_int64(stmt, 1, ch->new_id);
    } else {
        sqlite3_bind_null(stmt, 1);
    }
    sqlite3_bind_int64(stmt, 2, pos);
    bind_columns(ch, stmt, old);
    gx_code code = gx_vectors_run(ch->t->rows, stmt, err);
    ch->code = code == GX_ARG ? SQLITE_CONSTRAINT : 0;
    sqlite3_clear_bindings(stmt);
    return code;
}

/* OR REPLACE: the rows that have the rowid or the key that this one wants. */
static gx_code make_way(change *ch, bool is_given, gx_err *err)
{
    gx_vec_table *t = ch->t;
    if (is_given && (ch->is_insert || ch->new_id != ch->id)) {
        GX_TRY(delete_row(t, ch->new_id, err));
    }
    sqlite3_value *key = value_of(ch, GX_VEC_KEY);
    if (!t->shape.is_text_key || (!ch->is_insert && sqlite3_value_nochange(key))) {
        return GX_OK;
    }
    sqlite3_stmt *stmt;
    bool found;
    GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_OF_KEY, &stmt, err));
    sqlite3_bind_value(stmt, 1, key);
    gx_code code = gx_vectors_step(t->rows, stmt, &found, err);
    int64_t id = found ? sqlite3_column_int64(stmt, 0) : 0;
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    GX_TRY(code);
    bool is_other = found && (ch->is_insert || id != ch->id);
    return is_other ? delete_row(t, id, err) : GX_OK;
}

// INSERT ------------------------------------------------------------------------------------------

static gx_code insert(change *ch, gx_err *err)
{
    gx_vec_table *t = ch->t;
    bool is_given = false;
    int64_t slot;
    GX_TRY(take_key(ch, &is_given, err));
    GX_TRY(name_row(ch, is_given, take_vectors(ch, err), err));
    GX_TRY(gx_vec_know_full(t, err));
    if (ch->replaces) {
        GX_TRY(make_way(ch, is_given, err));
    }
    GX_TRY(next_slot(t, &slot, err));
    // Where many come, each is entered once, with the row of the matrices that it will be.
    int64_t batched = t->batch.count > 0 ? t->batch.at : slot == 1 ? t->grown : 0;
    GX_TRY(put_row(ch, GX_VECTORS_INSERT, is_given, batched > 0 ? batched + slot - 1 : -slot, NULL,
                   err));
    ch->new_id = is_given ? ch->new_id : sqlite3_last_insert_rowid(t->db);
    t->slot = slot;
    gx_code code = add_new(t, ch->new_id, batched, ch->blob, err);
    if (code != GX_OK) { // which SQLite may have no savepoint to undo
        gx_err ignored = {.code = GX_OK};
        (void)gx_vec_run(t, GX_VECTORS_DELETE, ch->new_id, 0, &ignored);
        return code;
    }
    return gx_vec_settle_full(t, err);
}

// UPDATE ------------------------------------------------------------------------------------------

/* The vectors that are not given, as they are. */
static gx_code complete(change *ch, int64_t pos, gx_err *err)
{
    gx_vec_table *t = ch->t;
    gx_vec_window window = {0};
    gx_code code = GX_OK;
    for (int c = 0; c < t->shape.vectors && code == GX_OK; c++) {
        const gx_vec_column *column = &t->shape.vector[c];
        const void *blob;
        if (ch->blob[c] != NULL) {
            continue;
        }
        code = gx_mem_alloc(t->ctx->mem, column->bytes, "vector", &ch->made[c], err);
        ch->blob[c] = ch->made[c];
        if (code == GX_OK && pos < 0) {
            code = gx_vec_read_new(t, c, gx_vec_slot(pos), ch->id, ch->made[c], err);
        } else if (code == GX_OK) {
            code = gx_vec_window_read(t, &window, c, pos, &blob, err);
            if (code == GX_OK) {
                memcpy(ch->made[c], blob, column->bytes);
            }
        }
    }
    gx_vec_window_clear(&window, t->ctx->mem);
    return code;
}

static bool has_vectors(const change *ch)
{
    bool has = false;
    for (int c = 0; c < ch->t->shape.vectors; c++) {
        has = has || ch->blob[c] != NULL;
    }
    return has;
}

/* The row's columns, rowid and position; `old` stands on what it was. */
static gx_code set_row(change *ch, int64_t pos, sqlite3_stmt *old, gx_err *err)
{
    gx_vec_table *t = ch->t;
    if (ch->new_id != ch->id) {
        sqlite3_stmt *stmt;
        GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_RENUMBER, &stmt, err));
        sqlite3_bind_int64(stmt, 1, ch->id);
        sqlite3_bind_int64(stmt, 2, ch->new_id);
        gx_code code = gx_vectors_run(t->rows, stmt, err);
        ch->code = code == GX_ARG ? SQLITE_CONSTRAINT : 0;
        GX_TRY(code);
    }
    return put_row(ch, GX_VECTORS_SET, true, pos, old, err);
}

static gx_code update_row(change *ch, sqlite3_stmt *old, gx_err *err)
{
    gx_vec_table *t = ch->t;
    int64_t pos = sqlite3_column_int64(old, 1), to = pos, entered;
    bool has_index = false, is_renumbered = ch->new_id != ch->id;
    GX_TRY(is_renumbered ? gx_vectors_has_index(t->rows, &has_index, err) : GX_OK);
    bool is_moved = has_vectors(ch) || has_index; // which knows rows by their rowids
    GX_TRY(gx_vec_entered_slot(t, &entered, err));
    if (is_moved && (pos >= 0 || gx_vec_slot(pos) <= entered)) { // an entry is of one vector
        GX_TRY(next_slot(t, &to, err));
        to = -to;
    }
    if (is_moved || (is_renumbered && pos < 0)) {
        GX_TRY(complete(ch, pos, err));
    }
    GX_TRY(set_row(ch, to, old, err));
    if (is_moved || (is_renumbered && pos < 0)) {
        GX_TRY(gx_vec_put_new(t, gx_vec_slot(to), ch->new_id, ch->blob, err));
        t->slot = gx_max(t->slot, gx_vec_slot(to));
    }
    return to != pos ? leave(t, ch->id, pos, err) : GX_OK;
}

static gx_code update(change *ch, gx_err *err)
{
    gx_vec_table *t = ch->t;
    bool is_given = false, found;
    int64_t slot;
    sqlite3_stmt *old;
    GX_TRY(gx_vec_flush(t, err));
    GX_TRY(gx_vec_know_full(t, err));
    GX_TRY(next_slot(t, &slot, err)); // t->slot is known from here on
    GX_TRY(take_key(ch, &is_given, err));
    GX_TRY(name_row(ch, is_given, take_vectors(ch, err), err));
    if (ch->replaces) {
        GX_TRY(make_way(ch, is_given, err));
    }
    GX_TRY(gx_vectors_select(t->rows, GX_VECTORS_ONE, NULL, 0, &old, err));
    sqlite3_bind_int64(old, 1, ch->id);
    gx_code code = gx_vectors_step(t->rows, old, &found, err);
    if (code == GX_OK && found) {
        code = update_row(ch, old, err);
    }
    sqlite3_finalize(old);
    return code == GX_OK ? gx_vec_settle_full(t, err) : code;
}

// xUpdate -----------------------------------------------------------------------------------------

/* INSERT INTO t(k) VALUES('settle'): what gx_settle() and gx_index() say; NULL: no such thing. */
static const char *command_of(const change *ch)
{
    sqlite3_value *k = ch->is_insert ? value_of(ch, gx_vec_k(&ch->t->shape)) : NULL;
    bool is_text = k != NULL && sqlite3_value_type(k) == SQLITE_TEXT;
    const char *text = is_text ? (const char *)sqlite3_value_text(k) : NULL;
    bool is_one = text != NULL && (strcmp(text, "settle") == 0 || strncmp(text, "index ", 6) == 0);
    return is_one ? text : NULL;
}

/* What waits settles without the index that there was, which may be broken. */
static gx_code make_index(gx_vec_table *t, const char *command, gx_err *err)
{
    gx_vec_index_wish wish;
    GX_TRY(gx_vec_take_index(t, command, &wish, err));
    GX_TRY(gx_vec_clear_index(t, err));
    if (wish.vector < 0) {
        return GX_OK;
    }
    GX_TRY(gx_vec_settle(t, err));
    return gx_vec_make_index(t, &wish, err);
}

static gx_code write_change(change *ch, gx_err *err)
{
    gx_vec_table *t = ch->t;
    if (!t->is_in_transaction) {
        gx_vec_begin(&t->base);
        t->is_unannounced = true;
    }
    const gx_vec_shape *shape = &t->shape;
    const char *command = command_of(ch);
    if (command != NULL && command[0] == 's') {
        return gx_vec_settle_all(t, err);
    }
    if (command != NULL) {
        return make_index(t, command, err);
    }
    int last = gx_vec_k(shape) + shape->has_probe + shape->has_plan;
    for (int c = gx_vec_distance(shape); !ch->is_delete && c <= last; c++) {
        bool is_set = ch->is_insert ? sqlite3_value_type(value_of(ch, c)) != SQLITE_NULL
                                    : !sqlite3_value_nochange(value_of(ch, c));
        if (is_set) {
            return gx_fail(
                err, GX_ARG,
                "distance, score, k, probe and gx_plan are a search's and cannot be set");
        }
    }
    return ch->is_delete   ? delete_row(t, ch->id, err)
           : ch->is_insert ? insert(ch, err)
                           : update(ch, err);
}

int gx_vec_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv, sqlite3_int64 *rowid)
{
    gx_vec_table *t = (gx_vec_table *)(void *)vtab;
    gx_err err = {.code = GX_OK};
    int64_t last = sqlite3_last_insert_rowid(t->db);
    change ch = {.t = t, .argv = argv, .is_delete = argc == 1};
    ch.is_insert = argc > 1 && sqlite3_value_type(argv[0]) == SQLITE_NULL;
    ch.id = sqlite3_value_int64(argv[0]);
    t->writes++;
    ch.replaces = argc > 1 && sqlite3_vtab_on_conflict(t->db) == SQLITE_REPLACE;
    gx_ctx_hold(t->ctx);
    gx_code code = write_change(&ch, &err);
    gx_ctx_release(t->ctx);
    for (int c = 0; c < t->shape.vectors; c++) {
        gx_mem_free(t->ctx->mem, ch.made[c]);
    }
    if (!ch.is_insert || code != GX_OK) {
        sqlite3_set_last_insert_rowid(t->db, last);
    }
    if (code != GX_OK) {
        return gx_vec_error(t, &err, ch.code);
    }
    if (ch.is_insert) {
        *rowid = ch.new_id;
    }
    return SQLITE_OK;
}

// Transactions ------------------------------------------------------------------------------------

int gx_vec_begin(sqlite3_vtab *vtab)
{
    gx_vec_table *t = (gx_vec_table *)(void *)vtab;
    t->is_marked = false;
    t->is_in_transaction = true;
    t->is_unannounced = false;
    t->slot = -1;
    t->full = t->grown = 0;
    return SQLITE_OK;
}

static int flush(gx_vec_table *t)
{
    gx_err err = {.code = GX_OK};
    return gx_vec_flush(t, &err) == GX_OK ? SQLITE_OK : gx_vec_error(t, &err, 0);
}

int gx_vec_sync(sqlite3_vtab *vtab)
{
    gx_vec_table *t = (gx_vec_table *)(void *)vtab;
    gx_err err = {.code = GX_OK};
    int code = flush(t);
    return code != SQLITE_OK || gx_vec_enter_new(t, &err) == GX_OK ? code
                                                                   : gx_vec_error(t, &err, 0);
}

int gx_vec_commit(sqlite3_vtab *vtab)
{
    gx_vec_table *t = (gx_vec_table *)(void *)vtab;
    t->is_marked = false;
    t->is_in_transaction = false; // xSync has left nothing to write
    t->slot = -1;
    t->full = t->grown = 0;
    return SQLITE_OK;
}

int gx_vec_rollback(sqlite3_vtab *vtab)
{
    gx_vec_table *t = (gx_vec_table *)(void *)vtab;
    t->is_marked = false;
    t->writes++;
    gx_vec_free_batch(t, &t->batch);
    t->is_in_transaction = false;
    t->slot = -1;
    t->full = t->grown = 0;
    return SQLITE_OK;
}

int gx_vec_savepoint(sqlite3_vtab *vtab, int n)
{
    gx_vec_table *t = (gx_vec_table *)(void *)vtab;
    t->is_marked = false;
    (void)n;
    t->is_unannounced = false;
    return flush(t);
}

int gx_vec_release(sqlite3_vtab *vtab, int n)
{
    (void)vtab, (void)n;
    return SQLITE_OK;
}

int gx_vec_rollback_to(sqlite3_vtab *vtab, int n)
{
    gx_vec_table *t = (gx_vec_table *)(void *)vtab;
    t->is_marked = false;
    (void)n;
    t->writes++;
    gx_vec_free_batch(t, &t->batch);
    t->slot = -1;
    t->full = t->grown = 0;
    return SQLITE_OK;
}
