/*
** The index of a vector table: inverted lists (core/alg/ivf.h) of one of its vector columns.
**
** NAME_list has a row for each panel of a list, at gx_vec_list_key(), the centres' as those of list
** -1, and the head at key 0.  NAME_full has the vectors of all rows that have settled, each in a
** row of its own, so that one of them is read at the cost of its own bytes.
**
** The index has every row that has settled, and those of NAME_new up to a slot: rows enter it when
** they settle, or before, where a transaction ends with ENTERED of them, in rounds; the others are
** in NAME_new and are compared there.  A row of a list is meant where NAME_full has its id with the
** same round.  So a row that is deleted, or gets another vector or rowid, leaves NAME_full, and
** its entry in a list is void.  Rows that settle become panels of their own where the last
** panel of their list has LEAST_ROWS.
**
** The head's state is another random number after each change that somebody can have looked at:
** who keeps lists and vectors in memory keeps them under it.  So a connection that writes gives a
** new one at the first change behind a savepoint, and behind each search of its own.
**
** gx_index() makes the lists anew: k-means on a sample, then all rows by one product with the
** centres.  How many lists a search looks at is measured: the neighbours of some rows, as a search
** of all rows finds them, must be in the lists that come first.
**
** Memory: the sample, at most 32 rows a list, while centres are made; then a strip of
** rows, and codes, a quarter of what is left of memory_limit at most.  Lists are written as often
** as that is full.
*/
#include "vectors.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const int64_t MAGIC = 0x0200000076697867; /* "gxiv", version 2 */

/* New rows that enter lists, at least: fewer are compared one by one in each search. */
enum { ENTERED = 128 };

enum { LEAST_ROWS = 32 }; /* of a panel that is not written again */
enum { PANEL_BYTES = 256 << 10 };

static const gx_vec_column *column_of(const gx_vec_table *t, const gx_vec_index *index)
{
    return &t->shape.vector[index->vector];
}

// The head ----------------------------------------------------------------------------------------

static bool is_sound(const gx_vec_table *t, const gx_vec_index *x)
{
    bool is = x->magic == MAGIC && x->vector >= 0 && x->vector < t->shape.vectors;
    is = is && x->dims == column_of(t, x)->dims && x->metric == column_of(t, x)->metric;
    is = is && x->lists >= 1 && x->lists <= GX_IVF_LISTS_MOST;
    is = is && x->probe >= 1 && x->probe <= x->lists;
    is = is && x->round >= 1 && x->round < INT32_MAX;
    is = is && x->entries >= 0 && x->entries <= (int64_t)1 << 40;
    is = is && x->panels >= 0 && x->panels <= x->entries && x->trained >= 1;
    is = is && x->slot >= 0 && x->slot < INT64_MAX;
    is = is && x->wished_lists >= 0 && x->wished_probe >= 0;
    is = is && x->wished_recall >= 0 && x->wished_recall <= 1;
    return is && x->recall >= 0 && x->recall <= 1;
}

gx_code gx_vec_read_index(gx_vec_table *t, gx_vec_index *index, bool *found, gx_err *err)
{
    sqlite3_stmt *stmt;
    bool is_row;
    GX_TRY(gx_vectors_has_index(t->rows, found, err));
    if (!*found) {
        return GX_OK;
    }
    GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_LISTS, &stmt, err));
    sqlite3_bind_int64(stmt, 1, 0);
    sqlite3_bind_int64(stmt, 2, 0);
    gx_code code = gx_vectors_step(t->rows, stmt, &is_row, err);
    *found = code == GX_OK && is_row;
    bool is_good = !*found || sqlite3_column_bytes(stmt, 1) == (int)sizeof *index;
    if (*found && is_good) {
        memcpy(index, sqlite3_column_blob(stmt, 1), sizeof *index);
        is_good = is_sound(t, index);
    }
    sqlite3_reset(stmt);
    return code == GX_OK && !is_good
               ? gx_fail(err, GX_CORRUPT,
                         "%s_list has no head of this table's: gx_index('%s') "
                         "makes the index anew",
                         t->name, t->name)
               : code;
}

static int64_t new_state(void)
{
    int64_t state;
    sqlite3_randomness(sizeof state, &state);
    return state;
}

gx_vec_index gx_vec_new_index(const gx_vec_index_wish *wish, const gx_vec_column *column)
{
    return (gx_vec_index){.magic = MAGIC,
                          .vector = wish->vector,
                          .metric = column->metric,
                          .dims = column->dims,
                          .round = 1,
                          .wished_lists = wish->lists,
                          .wished_probe = wish->probe,
                          .wished_recall = wish->recall,
                          .state = new_state()};
}

static gx_code put_list(gx_vec_table *t, int64_t key, const void *data, size_t bytes, gx_err *err)
{
    sqlite3_stmt *stmt;
    GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_PUT_LIST, &stmt, err));
    sqlite3_bind_int64(stmt, 1, key);
    sqlite3_bind_blob64(stmt, 2, data, bytes, SQLITE_STATIC);
    gx_code code = gx_vectors_run(t->rows, stmt, err);
    sqlite3_clear_bindings(stmt); // the bytes are the caller's
    return code;
}

gx_code gx_vec_put_index(gx_vec_table *t, const gx_vec_index *index, gx_err *err)
{
    gx_vec_index put = *index;
    put.state = new_state();
    t->is_marked = true;
    return put_list(t, 0, &put, sizeof put, err);
}

// Centres -----------------------------------------------------------------------------------------

gx_code gx_vec_read_centres(gx_vec_table *t, const gx_vec_index *index, void *bytes, gx_err *err)
{
    sqlite3_stmt *stmt;
    bool is_row;
    int64_t done = 0, d = index->dims;
    GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_LISTS, &stmt, err));
    sqlite3_bind_int64(stmt, 1, gx_vec_list_key(-1, 1));
    sqlite3_bind_int64(stmt, 2, gx_vec_list_key(0, 0) - 1);
    gx_code code = gx_vectors_step(t->rows, stmt, &is_row, err);
    for (; code == GX_OK && is_row; done += GX_IVF_PANEL_ROWS) {
        int64_t m = gx_min(GX_IVF_PANEL_ROWS, index->lists - done);
        size_t size = m > 0 ? gx_ivf_panel_bytes(m, d) : 0;
        char *to = (char *)bytes + gx_ivf_panel_bytes(done, d);
        gx_ivf_panel panel;
        if (size == 0 || (size_t)sqlite3_column_bytes(stmt, 1) != size) {
            code = gx_fail(err, GX_CORRUPT, "%s_list has other centres", t->name);
            break;
        }
        memcpy(to, sqlite3_column_blob(stmt, 1), size);
        code = gx_ivf_panel_check(to, size, d, t->name, &panel, err);
        code = code == GX_OK ? gx_vectors_step(t->rows, stmt, &is_row, err) : code;
    }
    sqlite3_reset(stmt);
    return code == GX_OK && done < index->lists
               ? gx_fail(err, GX_CORRUPT, "%s_list has too few centres", t->name)
               : code;
}

gx_code gx_vec_write_centres(gx_vec_table *t, const gx_vec_index *index, const void *bytes,
                             gx_err *err)
{
    int64_t part = 1, d = index->dims;
    for (int64_t l = 0; l < index->lists; l += GX_IVF_PANEL_ROWS, part++) {
        int64_t m = gx_min(GX_IVF_PANEL_ROWS, index->lists - l);
        GX_TRY(put_list(t, gx_vec_list_key(-1, part),
                        (const char *)bytes + gx_ivf_panel_bytes(l, d), gx_ivf_panel_bytes(m, d),
                        err));
    }
    return GX_OK;
}

/* Centres as a matrix: C, whose numbers are the caller's to free. */
gx_code gx_vec_centre_matrix(gx_vec_table *t, const gx_vec_index *index, float **numbers, gx_mat *C,
                             gx_err *err)
{
    gx_mem *mem = t->ctx->mem;
    void *bytes = NULL;
    GX_TRY(
        gx_mem_alloc(mem, gx_ivf_centres_bytes(index->lists, index->dims), "centres", &bytes, err));
    gx_code code = gx_vec_read_centres(t, index, bytes, err);
    code = code == GX_OK
               ? gx_mem_alloc(mem, (size_t)(index->lists * index->dims) * sizeof **numbers,
                              "centres", numbers, err)
               : code;
    if (code == GX_OK) {
        gx_ivf_centre_numbers(bytes, index->lists, index->dims, *numbers);
        gx_mat_value(C, "centres", GX_F32, index->lists, index->dims, *numbers, index->lists);
    }
    gx_mem_free(mem, bytes);
    return code;
}

// Entries -----------------------------------------------------------------------------------------

void gx_vec_clear_entries(gx_vec_entries *e, gx_mem *mem)
{
    gx_mem_free(mem, e->block);
    *e = (gx_vec_entries){.count = 0};
}

static size_t entry_bytes(int64_t d)
{
    return sizeof(int64_t) + sizeof(int32_t) + 3 * sizeof(float) + (size_t)d;
}

gx_code gx_vec_make_entries(gx_vec_table *t, const gx_vec_index *index, int64_t capacity,
                            gx_vec_entries *e, gx_err *err)
{
    *e = (gx_vec_entries){.has_index = true, .index = *index, .capacity = capacity};
    GX_TRY(gx_mem_alloc(t->ctx->mem, (size_t)capacity * entry_bytes(index->dims) + 1,
                        "rows of an index", &e->block, err));
    e->ids = e->block;
    e->list = (int32_t *)(void *)(e->ids + capacity);
    e->facts.scale = (float *)(void *)(e->list + capacity);
    e->facts.residual = e->facts.scale + capacity;
    e->facts.norm = e->facts.residual + capacity;
    e->codes = (int8_t *)(e->facts.norm + capacity);
    return GX_OK;
}

/* Rows behind those that are there: their lists and codes.  There is room. */
gx_code gx_vec_add_entries(gx_run *run, gx_vec_table *t, const gx_mat *C, const int64_t *ids,
                           const char *data, int64_t count, gx_vec_entries *e, gx_err *err)
{
    const gx_vec_column *column = column_of(t, &e->index);
    int64_t d = column->dims, at = e->count;
    gx_mat base, Q;
    const gx_row_facts facts = {e->facts.scale + at, e->facts.residual + at, e->facts.norm + at};
    gx_mat_array(&base, column->name, column->dtype, d, count, data, d);
    gx_mat_view(&Q, &base, GX_TRANS, 0, 0, count, d);
    if (gx_ivf_assign(run, &Q, C, gx_measures[column->metric].metric, e->list + at) != GX_OK) {
        return gx_fail(err, run->err.code, "%s", run->err.text);
    }
    GX_TRY(gx_ivf_code(run, &Q, 0, count, &facts, e->codes + at * d, err));
    memcpy(e->ids + at, ids, (size_t)count * sizeof *ids);
    e->count += count;
    return GX_OK;
}

/* Entry k becomes row i of a panel. */
static void put_entry(const gx_vec_entries *e, int64_t k, gx_ivf_panel *to, int64_t i)
{
    to->id[i] = e->ids[k];
    to->round[i] = (int32_t)e->index.round;
    to->facts.scale[i] = e->facts.scale[k];
    to->facts.residual[i] = e->facts.residual[k];
    to->facts.norm[i] = e->facts.norm[k];
    for (int64_t j = 0; j < to->d; j++) {
        to->codes[j * to->m + i] = e->codes[k * to->d + j];
    }
}

static void copy_entries(const gx_ivf_panel *from, gx_ivf_panel *to)
{
    for (int64_t i = 0; i < from->m; i++) {
        to->id[i] = from->id[i];
        to->round[i] = from->round[i];
        to->facts.scale[i] = from->facts.scale[i];
        to->facts.residual[i] = from->facts.residual[i];
        to->facts.norm[i] = from->facts.norm[i];
    }
    for (int64_t j = 0; j < to->d; j++) {
        memcpy(to->codes + j * to->m, from->codes + j * from->m, (size_t)from->m);
    }
}

static int64_t panel_rows(int64_t d)
{
    int64_t most = PANEL_BYTES / (int64_t)gx_ivf_panel_bytes(1, d);
    return gx_max(LEAST_ROWS, gx_min(GX_IVF_PANEL_ROWS, most));
}

/* The last panel of a list: *part 0, if there is none; rows, if it takes more of them, into old. */
static gx_code last_panel(gx_vec_table *t, int64_t list, int64_t d, int64_t *part,
                          gx_ivf_panel *old, void *memory, gx_err *err)
{
    sqlite3_stmt *stmt;
    bool is_row;
    size_t size = 0;
    old->m = 0;
    GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_LAST_LIST, &stmt, err));
    sqlite3_bind_int64(stmt, 1, gx_vec_list_key(list, 1));
    sqlite3_bind_int64(stmt, 2, gx_vec_list_key(list + 1, 0) - 1);
    gx_code code = gx_vectors_step(t->rows, stmt, &is_row, err);
    *part = code == GX_OK && is_row ? sqlite3_column_int64(stmt, 0) - gx_vec_list_key(list, 0) : 0;
    if (*part > 0) {
        size = (size_t)sqlite3_column_bytes(stmt, 1);
        if (size > 0 && size < gx_ivf_panel_bytes(LEAST_ROWS, d)) {
            memcpy(memory, sqlite3_column_blob(stmt, 1), size);
            code = gx_ivf_panel_check(memory, size, d, t->name, old, err);
        }
    }
    sqlite3_reset(stmt);
    return code;
}

/* Entries order[0 .. count - 1] into a list, behind what it has. */
static gx_code write_list(gx_vec_table *t, gx_vec_entries *e, int64_t list, const int64_t *order,
                          int64_t count, bool is_new, void *memory, gx_err *err)
{
    int64_t d = e->index.dims, most = panel_rows(d), part = 0, done = 0;
    gx_ivf_panel old = {.m = 0};
    char *fresh = (char *)memory + gx_whole_lines(gx_ivf_panel_bytes(LEAST_ROWS, d));
    GX_TRY(is_new ? GX_OK : last_panel(t, list, d, &part, &old, memory, err));
    part += old.m == 0;
    e->index.panels -= old.m > 0;
    for (; done < count; part++) {
        int64_t m = gx_min(most, old.m + count - done);
        gx_ivf_panel panel = gx_ivf_panel_at(fresh, m, d);
        int64_t at = old.m;
        if (at > 0) {
            copy_entries(&old, &panel);
        }
        for (old.m = 0; at < m; at++) {
            put_entry(e, order[done++], &panel, at);
        }
        if (part >= gx_vec_list_key(0, 0)) {
            return gx_fail(err, GX_CORRUPT, "a list of %s has no number left", t->name);
        }
        GX_TRY(put_list(t, gx_vec_list_key(list, part), fresh, gx_ivf_panel_bytes(m, d), err));
        e->index.panels++;
    }
    return GX_OK;
}

/* By list, those of one list in their order: of entry k, order[k]; ends: of each list. */
static void sort_entries(const gx_vec_entries *e, int64_t *order, int64_t *ends)
{
    memset(ends, 0, (size_t)(e->index.lists + 1) * sizeof *ends);
    for (int64_t k = 0; k < e->count; k++) {
        ends[e->list[k] + 1]++;
    }
    for (int64_t l = 0; l < e->index.lists; l++) {
        ends[l + 1] += ends[l];
    }
    for (int64_t k = 0; k < e->count; k++) {
        order[ends[e->list[k]]++] = k;
    }
}

/* All entries into their lists, which have rows already or not. */
gx_code gx_vec_write_lists(gx_vec_table *t, gx_vec_entries *e, bool is_new, gx_err *err)
{
    int64_t d = e->index.dims, lists = e->index.lists, from = 0, *order;
    size_t panels =
        gx_whole_lines(gx_ivf_panel_bytes(LEAST_ROWS, d)) + gx_ivf_panel_bytes(panel_rows(d), d);
    size_t numbers = gx_whole_lines((size_t)(e->count + lists + 1) * sizeof *order);
    GX_TRY(gx_mem_alloc(t->ctx->mem, numbers + panels, "rows of an index", &order, err));
    int64_t *ends = order + e->count;
    sort_entries(e, order, ends);
    gx_code code = GX_OK;
    for (int64_t l = 0; l < lists && code == GX_OK; from = ends[l], l++) {
        if (ends[l] > from) {
            code = write_list(t, e, l, order + from, ends[l] - from, is_new,
                              (char *)order + numbers, err);
        }
    }
    gx_mem_free(t->ctx->mem, order);
    e->index.entries += e->count;
    return code;
}

/* Their vectors, row after row. */
gx_code gx_vec_write_full(gx_vec_table *t, const gx_vec_index *index, const int64_t *ids,
                          const char *data, int64_t count, gx_err *err)
{
    size_t bytes = column_of(t, index)->bytes;
    sqlite3_stmt *stmt;
    GX_TRY(gx_vectors_stmt(t->rows, GX_VECTORS_PUT_FULL, &stmt, err));
    gx_code code = GX_OK;
    for (int64_t k = 0; k < count && code == GX_OK; k++) {
        sqlite3_bind_int64(stmt, 1, ids[k]);
        sqlite3_bind_int64(stmt, 2, index->round);
        sqlite3_bind_blob64(stmt, 3, data + (size_t)k * bytes, bytes, SQLITE_STATIC);
        code = gx_vectors_run(t->rows, stmt, err);
    }
    sqlite3_clear_bindings(stmt);
    return code;
}

// Rows that settle, and before --------------------------------------------------------------------

gx_code gx_vec_entered_slot(gx_vec_table *t, int64_t *slot, gx_err *err)
{
    gx_vec_index index;
    bool found;
    GX_TRY(gx_vec_read_index(t, &index, &found, err));
    *slot = found ? index.slot : -1;
    return GX_OK;
}

gx_code gx_vec_prepare_entries(gx_run *run, gx_vec_table *t, const int64_t *ids,
                               const char *const *data, int64_t count, gx_vec_entries *e,
                               gx_err *err)
{
    gx_vec_index index;
    float *numbers = NULL;
    gx_mat C;
    bool found;
    GX_TRY(gx_vec_read_index(t, &index, &found, err));
    if (!found) {
        return GX_OK;
    }
    index.round++;
    GX_TRY(gx_vec_make_entries(t, &index, count, e, err));
    if (count == 0) {
        return GX_OK;
    }
    gx_code code = gx_vec_centre_matrix(t, &index, &numbers, &C, err);
    code = code == GX_OK ? gx_vec_add_entries(run, t, &C, ids, data[index.vector], count, e, err)
                         : code;
    gx_mem_free(t->ctx->mem, numbers);
    return code;
}

gx_code gx_vec_write_entries(gx_vec_table *t, gx_vec_entries *e, const char *const *data,
                             gx_err *err)
{
    if (!e->has_index) {
        return GX_OK;
    }
    GX_TRY(gx_vec_write_lists(t, e, false, err));
    GX_TRY(gx_vec_write_full(t, &e->index, e->ids, data[e->index.vector], e->count, err));
    return gx_vec_put_index(t, &e->index, err);
}

/* Rows of NAME_new, which are read, and their lists and codes: nothing is written. */
static gx_code prepare_new(gx_vec_table *t, int64_t after, gx_vec_fresh *fresh, gx_vec_entries *e,
                           gx_err *err)
{
    gx_run run;
    const char *data[GX_VEC_VECTORS_MAX];
    GX_TRY(gx_vec_read_fresh(t, after, 0, fresh, err));
    memcpy(data, fresh->data, sizeof data);
    gx_run_begin(&run, t->ctx, "gx_vectors");
    gx_code code = gx_vec_prepare_entries(&run, t, fresh->ids, data, fresh->count, e, err);
    gx_run_end(&run);
    return code;
}

gx_code gx_vec_enter_new(gx_vec_table *t, gx_err *err)
{
    gx_vec_fresh fresh = {0};
    gx_vec_entries e = {.count = 0};
    gx_err failed = {.code = GX_OK};
    const char *data[GX_VEC_VECTORS_MAX];
    int64_t entered;
    if (t->slot < ENTERED || t->slot == INT64_MAX) { // or nothing has been written, or a forged one
        return GX_OK;
    }
    GX_TRY(gx_vec_entered_slot(t, &entered, err));
    if (entered < 0 || t->slot - entered < ENTERED) {
        return GX_OK;
    }
    gx_code code = prepare_new(t, entered, &fresh, &e, &failed);
    memcpy(data, fresh.data, sizeof data);
    if (code == GX_OK) {
        e.index.slot = t->slot;
        code = gx_vec_write_entries(t, &e, data, err);
    } else if (code == GX_BUDGET) { // they stay where they are until there is memory
        code = GX_OK;
    } else {
        gx_fail(err, code, "%s", failed.text);
    }
    gx_vec_clear_entries(&e, t->ctx->mem);
    gx_vec_fresh_clear(&fresh, t->ctx->mem);
    return code;
}

gx_code gx_vec_leave_index(gx_vec_table *t, int64_t id, int64_t pos, gx_err *err)
{
    gx_vec_index index;
    bool has;
    GX_TRY(gx_vectors_has_index(t->rows, &has, err));
    if (!has || (t->is_marked && pos >= 0)) {
        return has ? gx_vec_run(t, GX_VECTORS_DROP_FULL, id, 0, err) : GX_OK;
    }
    GX_TRY(gx_vec_read_index(t, &index, &has, err));
    if (!has || (pos < 0 && gx_vec_slot(pos) > index.slot)) {
        return GX_OK;
    }
    GX_TRY(gx_vec_run(t, GX_VECTORS_DROP_FULL, id, 0, err));
    return t->is_marked ? GX_OK : gx_vec_put_index(t, &index, err);
}
