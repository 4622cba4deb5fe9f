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
    int root, schema, column;
    bool is_found; /* these, and that it moves on by itself                    */
} reading;

/* An instruction of EXPLAIN: addr, opcode, p1, p2, p3, p4. */
static void read_instruction(reading *r, sqlite3_stmt *program, const char *own)
{
    enum { ADDRESS, OPCODE, P1, P2, P3, P4, FIRST_ARGUMENT = 2 };
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
    } else if (strcmp(name, "VFilter") == 0 && r->open[at].number == p1 && r->open[at].is_ours) {
        int from = (p3 + FIRST_ARGUMENT) & (PLACES - 1); // the plan's first value: MATCH
        int cursor = r->filled[from].cursor, other = cursor & (PLACES - 1);
        bool is_column = r->filled[from].number == p3 + FIRST_ARGUMENT &&
                         r->open[other].number == cursor && r->open[other].root > 0;
        if (is_column && r->queries < 0) {
            r->queries = cursor;
            r->root = r->open[other].root;
            r->schema = r->open[other].schema;
            r->column = r->filled[from].column;
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
static bool read_program(gx_vec_table *t, gx_vec_ahead *a, const char *statement, reading *r)
{
    char own[64];
    memset(r, 0xff, sizeof *r); // no register and no cursor has the number -1
    r->is_found = false;
    sqlite3_snprintf(sizeof own, own, "vtab:%p", (void *)&t->base);
    sqlite3_stmt *program = prepare(t, a, sqlite3_mprintf("EXPLAIN %s", statement));
    while (program != NULL && !r->is_found && step(a, program)) {
        read_instruction(r, program, own);
    }
    sqlite3_finalize(program);
    return r->is_found;
}

/* The statements that run are known before others are prepared. */
static char *find_source(gx_vec_table *t, gx_vec_ahead *a)
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
        if (read_program(t, a, texts[k], &r)) {
            return gx_vectors_source(t->db, r.schema, r.root, r.column, &a->is_stopped);
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
    a->query = NULL;
    a->count = a->used = 0;
}

void gx_vec_ahead_clear(gx_vec_ahead *a, gx_mem *mem)
{
    gx_vec_ahead_drop(a, mem);
    sqlite3_free(a->source);
    *a = (gx_vec_ahead){.count = 0};
}

static bool is_query(const gx_vec_ahead *a, int64_t k, int64_t dims, const double *query)
{
    return memcmp(a->query + k * dims, query, (size_t)dims * sizeof *query) == 0;
}

/* The query is one of those that were read: mostly the next one. */
static bool has_query(gx_vec_ahead *a, int64_t dims, const double *query)
{
    for (int64_t k = 1; k <= a->count; k++) {
        int64_t at = (a->at + k) % a->count;
        if (is_query(a, at, dims, query)) {
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
    double fit = (double)spare / each;
    return fit < LEAST ? 0 : gx_min(a->size, (int64_t)fmin(fit, MOST));
}

/* The row's vector becomes the last query; false: it is none, or not yet the one at hand. */
static bool take_row(gx_vec_table *t, gx_vec_ahead *a, sqlite3_stmt *row, int vector,
                     const double *query)
{
    const gx_vec_column *column = &t->shape.vector[vector];
    gx_err ignored = {.code = GX_OK};
    double *to = a->query + a->count * column->dims;
    sqlite3_value *value = sqlite3_value_dup(sqlite3_column_value(row, 1));
    bool is_good = value != NULL && sqlite3_value_type(value) != SQLITE_NULL &&
                   gx_vec_take_query(t, column, value, to, &ignored) == GX_OK;
    sqlite3_value_free(value);
    return is_good && (a->count > 0 || is_query(a, 0, column->dims, query));
}

/* The query at hand and those behind it; false: it is not there, or alone. */
static bool read_queries(gx_vec_table *t, gx_vec_ahead *a, int vector, const double *query,
                         int64_t most)
{
    int64_t dims = t->shape.vector[vector].dims, skipped = 0;
    gx_err ignored = {.code = GX_OK};
    void *memory = NULL;
    sqlite3_stmt *row = prepare(t, a, sqlite3_mprintf("%s", a->source));
    if (row == NULL || gx_mem_alloc(t->ctx->mem, (size_t)(most * dims) * sizeof(double), "queries",
                                    &memory, &ignored) != GX_OK) {
        sqlite3_finalize(row);
        return false;
    }
    a->query = memory;
    sqlite3_bind_int64(row, 1, a->last);
    while (a->count < most && skipped < SKIPPED_MOST && step(a, row)) {
        if (take_row(t, a, row, vector, query)) {
            a->count++;
            a->last = sqlite3_column_int64(row, 0);
        } else {
            skipped++;
        }
    }
    sqlite3_finalize(row);
    return a->count > 1;
}

/* How many next time, by how many of the last ones came. */
static void judge(gx_vec_ahead *a)
{
    if (a->count > 1) {
        bool is_good = a->used * GOOD_PART >= a->count;
        a->size = is_good ? gx_min(MOST, a->size * GROWTH) : a->size / GROWTH;
        a->is_off = a->size < LEAST;
    }
}

bool gx_vec_look_ahead(gx_vec_table *t, gx_vec_ahead *a, int vector, const double *query, int64_t k)
{
    gx_mem *mem = t->ctx->mem;
    int64_t dims = t->shape.vector[vector].dims, changes = sqlite3_total_changes(t->db);
    bool is_same = a->count > 0 && a->vector == vector && a->k == k && a->changes == changes &&
                   a->writes == t->writes;
    if (is_same && has_query(a, dims, query)) {
        return true;
    }
    judge(a);
    gx_vec_ahead_drop(a, mem);
    if (a->searches++ == 0) { // a search, and no join yet
        a->size = FIRST;
        a->last = INT64_MIN;
        return false;
    }
    int64_t most = a->is_off ? 0 : most_queries(t, a, dims, k);
    if (most > 0 && a->source == NULL) {
        a->source = find_source(t, a);
    }
    if (most == 0 || a->source == NULL || !read_queries(t, a, vector, query, most)) {
        gx_vec_ahead_drop(a, mem);
        a->is_off = true;
        return false;
    }
    a->vector = vector;
    a->k = k;
    a->changes = changes;
    a->writes = t->writes;
    a->at = 0;
    a->used = 1;
    return true;
}
