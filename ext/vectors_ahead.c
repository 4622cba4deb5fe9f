/*
** The queries of a join, some at a time.
**
**     SELECT q.id, v.rowid FROM question q
**       JOIN note_vec v ON v.embedding MATCH q.embedding AND v.k = 10;
**
** SQLite hands a virtual table one query after another, and a search for each reads all vectors.
** Where the queries are a column of an ordinary table, those of the next rows are read here, and
** one search is made of all.  Each is answered from its lists when SQLite comes with it.
**
** Which column it is says EXPLAIN of the statement that runs: the instruction VFilter on this table
** takes the query from a register, which an instruction Column has filled from a cursor, which
** OpenRead has opened on a table and Next moves on; without Next the rows are looked up one by one.
** SQLite may change these instructions.  What is read ahead is therefore a guess and no more: an
** answer is found by the numbers of its query, so a wrong guess costs time and changes nothing.
**
** The guess has to pay.  It begins with the second query of a cursor, with FIRST queries, takes
** GROWTH times as many when a good part of the last ones came, less when not, and ends when nearly
** none did: rows of another order than that of their rowids, or of which WHERE leaves few.
**
** Answers hold as long as the table stays: while a cursor is open so does the state that it reads,
** and changes of this connection are counted.
**
** Memory: 8 bytes a number of each query and the lists, a part of what the governor has left.
*/
#include "vectors.h"

#include <math.h>
#include <string.h>

enum {
    FIRST = 64,
    GROWTH = 16,
    MOST = 2048,          /* queries at a time: more are hardly faster                        */
    LEAST = 8,            /* fewer are not worth the reading                                  */
    GOOD_PART = 8,        /* one in so many came: more next time                              */
    SKIPPED_MOST = 1024,  /* rows of the other table before the query at hand                 */
    STATEMENTS_MOST = 16, /* that run at once                                                 */
    PLACES = 64,          /* registers and cursors that are remembered, by their last bits    */
    SPARE_PARTS = 8       /* of free memory one part in so many                               */
};

// Which column ------------------------------------------------------------------------------------

/* What is known of a program while it is read. */
typedef struct reading {
    struct {
        int number, cursor, column;
    } filled[PLACES]; /* registers, by the last Column */
    struct {
        int number, root, schema;
        bool is_ours;
    } open[PLACES]; /* cursors */
    int queries;    /* the cursor that the queries come from; -1: not known yet */
    int root, schema;
    int columns, column[1 + GX_VEC_TERMS_MAX]; /* the queries', and those of terms */
    bool is_found; /* these, and that it moves on by itself                    */
} reading;

enum { FIRST_ARGUMENT = 2 }; /* of VFilter's registers */

/* The column of cursor r->queries that has filled register `number`; -2: it is none. */
static int column_in(const reading *r, int number)
{
    int at = number & (PLACES - 1);
    bool is_filled = r->filled[at].number == number && r->filled[at].cursor == r->queries;
    return is_filled ? r->filled[at].column : -2;
}

/* The queries' column, and those of the terms, of the arguments from register `first` on. */
static void take_columns(reading *r, gx_vec_ahead *a, const gx_vec_wish *wish, int first)
{
    r->column[0] = column_in(r, first);
    r->columns = 1;
    for (int k = 0; k < wish->count; k++) {
        int column = wish->terms[k].list == NULL ? column_in(r, first + wish->terms[k].place) : -2;
        a->from[k] = column == -2 ? 0 : r->columns;
        r->column[r->columns] = column;
        r->columns += column != -2;
    }
}

/* An instruction of EXPLAIN: addr, opcode, p1, p2, p3, p4. */
static void read_instruction(reading *r, gx_vec_ahead *a, const gx_vec_wish *wish,
                             sqlite3_stmt *program, const char *own)
{
    enum { ADDRESS, OPCODE, P1, P2, P3, P4 };
    const char *name = (const char *)sqlite3_column_text(program, OPCODE);
    const char *text = (const char *)sqlite3_column_text(program, P4);
    int p1 = sqlite3_column_int(program, P1), p2 = sqlite3_column_int(program, P2);
    int p3 = sqlite3_column_int(program, P3), at = p1 & (PLACES - 1), to = p3 & (PLACES - 1);
    if (name == NULL) {
        return;
    }
    if (strcmp(name, "OpenRead") == 0 || strcmp(name, "VOpen") == 0) {
        r->open[at].number = p1;
        r->open[at].root = name[0] == 'O' ? p2 : 0;
        r->open[at].schema = p3;
        r->open[at].is_ours = name[0] == 'V' && text != NULL && strcmp(text, own) == 0;
    } else if (strcmp(name, "Column") == 0) {
        r->filled[to].number = p3;
        r->filled[to].cursor = p1;
        r->filled[to].column = p2;
    } else if (strcmp(name, "Rowid") == 0) {
        r->filled[p2 & (PLACES - 1)].number = p2;
        r->filled[p2 & (PLACES - 1)].cursor = p1;
        r->filled[p2 & (PLACES - 1)].column = -1;
    } else if (strcmp(name, "VFilter") == 0 && r->open[at].number == p1 && r->open[at].is_ours) {
        int from = (p3 + FIRST_ARGUMENT) & (PLACES - 1); // the plan's first value: MATCH
        int cursor = r->filled[from].cursor, other = cursor & (PLACES - 1);
        bool is_column = r->filled[from].number == p3 + FIRST_ARGUMENT &&
                         r->open[other].number == cursor && r->open[other].root > 0;
        if (is_column && r->queries < 0) {
            r->queries = cursor;
            r->root = r->open[other].root;
            r->schema = r->open[other].schema;
            take_columns(r, a, wish, p3 + FIRST_ARGUMENT);
        }
    } else if (strcmp(name, "Next") == 0) {
        r->is_found = r->is_found || (r->queries >= 0 && r->queries == p1);
    }
}

/* What goes wrong with statements of ours ends the guess, but an interrupt is the call's. */
static sqlite3_stmt *prepare(gx_vec_table *t, gx_vec_ahead *a, char *text)
{
    sqlite3_stmt *stmt = NULL;
    int rc = text == NULL ? SQLITE_NOMEM : sqlite3_prepare_v2(t->db, text, -1, &stmt, NULL);
    a->is_stopped = a->is_stopped || rc == SQLITE_INTERRUPT;
    sqlite3_free(text);
    return rc == SQLITE_OK ? stmt : NULL;
}

static bool step(gx_vec_ahead *a, sqlite3_stmt *stmt)
{
    int rc = sqlite3_step(stmt);
    a->is_stopped = a->is_stopped || rc == SQLITE_INTERRUPT;
    return rc == SQLITE_ROW;
}

/* Does that statement take queries for this table from a column of another one, row by row? */
static bool read_program(gx_vec_table *t, gx_vec_ahead *a, const gx_vec_wish *wish,
                         const char *statement, reading *r)
{
    char own[64];
    memset(r, 0xff, sizeof *r); // no register and no cursor has the number -1
    r->is_found = false;
    sqlite3_snprintf(sizeof own, own, "vtab:%p", (void *)&t->base);
    sqlite3_stmt *program = prepare(t, a, sqlite3_mprintf("EXPLAIN %s", statement));
    while (program != NULL && !r->is_found && step(a, program)) {
        read_instruction(r, a, wish, program, own);
    }
    sqlite3_finalize(program);
    return r->is_found;
}

/* The statements that run are known before others are prepared. */
static char *find_source(gx_vec_table *t, gx_vec_ahead *a, const gx_vec_wish *wish)
{
    const char *texts[STATEMENTS_MOST];
    int count = 0;
    reading r;
    sqlite3_stmt *stmt = sqlite3_next_stmt(t->db, NULL);
    for (; stmt != NULL && count < STATEMENTS_MOST; stmt = sqlite3_next_stmt(t->db, stmt)) {
        const char *text = sqlite3_stmt_busy(stmt) ? sqlite3_sql(stmt) : NULL;
        if (text != NULL) {
            texts[count++] = text; // lives as long as the statement, which waits for us
        }
    }
    for (int k = 0; k < count; k++) {
        if (read_program(t, a, wish, texts[k], &r)) {
            return gx_vectors_source(t->db, r.schema, r.root, r.column, r.columns, &a->is_stopped);
        }
    }
    return NULL;
}

// Queries -----------------------------------------------------------------------------------------

void gx_vec_ahead_drop(gx_vec_ahead *a, gx_mem *mem)
{
    gx_mem_free(mem, a->query);
    gx_neighbours_clear(&a->list[0]);
    gx_neighbours_clear(&a->list[1]);
    gx_mem_free(mem, a->group);
    gx_mem_free(mem, a->bits[0]);
    gx_mem_free(mem, a->bits[1]);
    gx_vec_words_clear(&a->groups, mem);
    for (int64_t k = 0; k < a->values; k++) {
        sqlite3_value_free(a->value[k]);
    }
    gx_mem_free(mem, a->value);
    a->query = NULL;
    a->group = NULL;
    a->bits[0] = a->bits[1] = NULL;
    a->value = NULL;
    a->count = a->used = a->values = 0;
    a->is_masked = false;
}

void gx_vec_ahead_clear(gx_vec_ahead *a, gx_mem *mem)
{
    gx_vec_ahead_drop(a, mem);
    gx_vec_kinds_clear(&a->kinds, mem);
    sqlite3_free(a->source);
    *a = (gx_vec_ahead){.count = 0};
}

static bool is_query(const gx_vec_ahead *a, int64_t k, int64_t dims, const double *query)
{
    return memcmp(a->query + k * dims, query, (size_t)dims * sizeof *query) == 0;
}

/* The query, with its terms' group, is one of those that were read: mostly the next one. */
static bool has_query(gx_vec_ahead *a, int64_t dims, const double *query, int64_t group)
{
    for (int64_t k = 1; k <= a->count; k++) {
        int64_t at = (a->at + k) % a->count;
        if (is_query(a, at, dims, query) && (!a->is_masked || a->group[at] == group)) {
            a->at = at;
            a->used++;
            return true;
        }
    }
    return false;
}

/* As many as there is memory for, with their lists; 0: too few. */
static int64_t most_queries(gx_vec_table *t, const gx_vec_ahead *a, int64_t dims, int64_t k)
{
    enum { LIST_BYTES = 64, MORE = 256 }; /* an entry, of the matrix and of new rows; beyond k */
    size_t spare = gx_mem_available(t->ctx->mem) / SPARE_PARTS;
    double each = (double)dims * sizeof(double) + LIST_BYTES * ((double)k + MORE);
    each += a->is_masked ? (double)(a->kinds.rows[0] + a->kinds.rows[1]) / 4 : 0; // twice its bits
    double fit = (double)spare / each;
    return fit < LEAST ? 0 : gx_min(a->size, (int64_t)fmin(fit, MOST));
}

/* The group of the terms, with the row's values, NULL: the query's at hand; -1: none is added. */
static gx_code find_group(gx_vec_table *t, gx_vec_ahead *a, const gx_vec_wish *wish,
                          sqlite3_stmt *row, bool adds, int64_t *group, gx_err *err)
{
    for (int k = 0; k < wish->count; k++) {
        GX_TRY(row == NULL || a->from[k] == 0
                   ? gx_vec_put_term(&a->groups, t->ctx->mem, &wish->terms[k], err)
                   : gx_vec_put_value(&a->groups, t->ctx->mem,
                                      sqlite3_column_value(row, a->from[k] + 1), err));
    }
    return gx_vec_end_word(&a->groups, t->ctx->mem, adds, group, err);
}

/* The next query's group; its values, where it is a new one.  The first one is that at hand. */
static bool take_group(gx_vec_table *t, gx_vec_ahead *a, const gx_vec_wish *wish, sqlite3_stmt *row)
{
    gx_err ignored = {.code = GX_OK};
    int64_t known = a->groups.count, group;
    bool adds = row == NULL || a->count > 0;
    if (find_group(t, a, wish, row, adds, &group, &ignored) != GX_OK || group < 0) {
        return false;
    }
    a->group[a->count] = (int32_t)group;
    for (int k = 0; k < wish->count && group == known && !a->is_off; k++) {
        if (a->from[k] > 0) {
            sqlite3_value *value =
                row == NULL ? wish->terms[k].value : sqlite3_column_value(row, a->from[k] + 1);
            a->value[a->values] = sqlite3_value_dup(value);
            a->is_off = a->value[a->values++] == NULL;
        }
    }
    return !a->is_off;
}

/* The row's vector becomes the last query; false: it is none, or not yet the one at hand. */
static bool take_row(gx_vec_table *t, gx_vec_ahead *a, const gx_vec_wish *wish, sqlite3_stmt *row)
{
    const gx_vec_column *column = &t->shape.vector[wish->vector];
    gx_err ignored = {.code = GX_OK};
    double *to = a->query + a->count * column->dims;
    sqlite3_value *value = sqlite3_value_dup(sqlite3_column_value(row, 1));
    bool is_good = value != NULL && sqlite3_value_type(value) != SQLITE_NULL &&
                   gx_vec_take_query(t, column, value, to, &ignored) == GX_OK;
    sqlite3_value_free(value);
    return is_good && (a->count > 0 || is_query(a, 0, column->dims, wish->query)) &&
           (!a->is_masked || take_group(t, a, wish, row));
}

static bool make_room(gx_vec_table *t, gx_vec_ahead *a, const gx_vec_wish *wish, int64_t most)
{
    gx_mem *mem = t->ctx->mem;
    gx_err ignored = {.code = GX_OK};
    int64_t dims = t->shape.vector[wish->vector].dims, values = (most + 1) * wish->count;
    void *query = NULL, *group = NULL, *value = NULL;
    bool is_good = gx_mem_alloc(mem, (size_t)(most * dims) * sizeof *a->query, "queries", &query,
                                &ignored) == GX_OK;
    if (a->is_masked && is_good) {
        is_good = gx_mem_alloc(mem, (size_t)most * sizeof *a->group, "queries", &group, &ignored) ==
                      GX_OK &&
                  gx_mem_alloc(mem, (size_t)values * sizeof(void *), "queries", &value, &ignored) ==
                      GX_OK;
    }
    a->query = query;
    a->group = group;
    a->value = value;
    return is_good && (!a->is_masked || take_group(t, a, wish, NULL));
}

/* The query at hand and those behind it; false: it is not there, or alone. */
static bool read_queries(gx_vec_table *t, gx_vec_ahead *a, const gx_vec_wish *wish, int64_t most)
{
    int64_t skipped = 0;
    sqlite3_stmt *row = prepare(t, a, sqlite3_mprintf("%s", a->source));
    if (row == NULL || !make_room(t, a, wish, most)) {
        sqlite3_finalize(row);
        return false;
    }
    a->before = a->last;
    sqlite3_bind_int64(row, 1, a->last);
    while (a->count < most && skipped < SKIPPED_MOST && !a->is_off && step(a, row)) {
        if (take_row(t, a, wish, row)) {
            a->count++;
            a->last = sqlite3_column_int64(row, 0);
        } else {
            skipped++;
        }
    }
    sqlite3_finalize(row);
    return a->count > 1 && !a->is_off;
}

/* How many next time, by how many of the last ones came. */
static void judge(gx_vec_ahead *a)
{
    if (a->count > 1) {
        bool is_good = a->used * GOOD_PART >= a->count;
        a->size = is_good ? gx_min(MOST, a->size * GROWTH) : a->size / GROWTH;
        if (!is_good && a->is_masked) { // their terms may have been others
            a->is_unmasked = true;
            a->size = FIRST;
            a->last = a->before; // the query at hand is one of them
        }
        a->is_off = a->size < LEAST;
    }
}

/* What goes wrong ends the guess, but an interrupt. */
static bool is_good_guess(gx_vec_ahead *a, gx_code code)
{
    a->is_stopped = a->is_stopped || code == GX_INTERRUPT;
    return code == GX_OK;
}

/* Can terms be told to the search?  Those of rowids are as many as there are rows. */
static void know_kinds(gx_vec_table *t, gx_vec_ahead *a, const gx_vec_wish *wish, int64_t changes)
{
    gx_err err = {.code = GX_OK};
    bool is_same = a->changes == changes && a->writes == t->writes;
    for (int k = 0; k < wish->count; k++) {
        a->is_unmasked = a->is_unmasked || wish->terms[k].column < 0;
    }
    if (wish->count > 0 && !a->is_unmasked && !(a->kinds.is_known && is_same)) {
        gx_vec_kinds_clear(&a->kinds, t->ctx->mem);
        bool is_good =
            is_good_guess(a, gx_vec_find_kinds(t, wish->terms, wish->count, &a->kinds, &err));
        a->is_unmasked = !is_good || !a->kinds.is_known;
    }
    a->is_masked = wish->count > 0 && !a->is_unmasked;
    if (!a->is_masked) {
        gx_vec_kinds_clear(&a->kinds, t->ctx->mem);
    }
}

/* The query at hand, and others: whether these have been found. */
static bool look(gx_vec_table *t, gx_vec_ahead *a, const gx_vec_wish *wish, int64_t changes)
{
    gx_err err = {.code = GX_OK};
    if (a->source == NULL) {
        a->source = find_source(t, a, wish);
    }
    if (a->source == NULL) {
        return false;
    }
    know_kinds(t, a, wish, changes);
    a->changes = changes;
    a->writes = t->writes;
    int64_t most =
        a->is_stopped ? 0 : most_queries(t, a, t->shape.vector[wish->vector].dims, wish->k);
    return most > 0 && read_queries(t, a, wish, most) &&
           (!a->is_masked || is_good_guess(a, gx_vec_make_masks(t, a, wish, &err)));
}

bool gx_vec_look_ahead(gx_vec_table *t, gx_vec_ahead *a, const gx_vec_wish *wish)
{
    gx_mem *mem = t->ctx->mem;
    gx_err ignored = {.code = GX_OK};
    int64_t dims = t->shape.vector[wish->vector].dims, changes = sqlite3_total_changes(t->db);
    int64_t group = 0;
    bool is_same = a->count > 0 && a->vector == wish->vector && a->k == wish->k &&
                   a->changes == changes && a->writes == t->writes;
    if (is_same && a->is_masked) {
        is_same = find_group(t, a, wish, NULL, false, &group, &ignored) == GX_OK;
    }
    if (is_same && has_query(a, dims, wish->query, group)) {
        return true;
    }
    judge(a);
    gx_vec_ahead_drop(a, mem);
    if (a->searches++ == 0) { // a search, and no join yet
        a->size = FIRST;
        a->last = INT64_MIN;
        return false;
    }
    if (a->is_off || !look(t, a, wish, changes)) {
        gx_vec_ahead_drop(a, mem);
        gx_vec_kinds_clear(&a->kinds, mem);
        a->is_off = true;
        return false;
    }
    a->vector = wish->vector;
    a->k = wish->k;
    a->at = 0;
    a->used = 1;
    return true;
}
