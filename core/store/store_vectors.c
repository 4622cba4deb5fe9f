/*
** The shadow tables of vector tables: their SQL, and conditions on rows.  See vector_tables.h.
**
** They are ordinary tables of the vector table's own schema.  Names of tables and columns are the
** user's and are quoted as identifiers; values are bound, never text.
**
** gx_pos is unique among rows that have settled, by a partial index, which rows that have not
** settled do not pay for.  ALTER TABLE leaves it its name, which is therefore nobody else's.
**
** A list of values (IN) is bound as one JSON text, so that a statement's text does not depend on
** how many there are.
**
** Statements live until the tables are closed, or change: SQLite disconnects virtual tables before
** it looks for statements that are left when a connection closes.
*/
#include <sqlite3ext.h>

#include "store_int.h"
#include "vector_tables.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

struct gx_vectors {
    gx_store *store;
    sqlite3 *db;
    const gx_vectors_shape *shape;
    sqlite3_stmt *stmt[GX_VECTORS_COUNT];
};

/*
** @row, @new, @dead, @list, @full: the tables.  @cols: , "a", "b".  @marks: , ?3, ?4.  @sets:
** , "a" = ?3, "b" = ?4.  @vecs: , v0, v1.  @vmarks: , ?3, ?4.  @key: the text key.
** @pos: a name for the index.
*/
static const char *const sql[GX_VECTORS_COUNT] = {
    [GX_VECTORS_INSERT] = "INSERT INTO @row(rowid, gx_pos@cols) VALUES(?1, ?2@marks)",
    [GX_VECTORS_SET] = "UPDATE @row SET gx_pos = ?2@sets WHERE rowid = ?1",
    [GX_VECTORS_MOVE] = "UPDATE @row SET gx_pos = ?2 WHERE rowid = ?1",
    [GX_VECTORS_RENUMBER] = "UPDATE @row SET rowid = ?2 WHERE rowid = ?1",
    [GX_VECTORS_DELETE] = "DELETE FROM @row WHERE rowid = ?1",
    [GX_VECTORS_ROW] = "SELECT rowid, gx_pos@cols FROM @row WHERE rowid = ?1",
    [GX_VECTORS_AT] = "SELECT rowid FROM @row WHERE gx_pos = ?1 AND gx_pos >= 0",
    [GX_VECTORS_OF_KEY] = "SELECT rowid FROM @row WHERE @key = ?1",
    [GX_VECTORS_PUT_NEW] = "INSERT OR REPLACE INTO @new(slot, id@vecs) VALUES(?1, ?2@vmarks)",
    [GX_VECTORS_NEW] = "SELECT slot, id@vecs FROM @new WHERE slot = ?1",
    [GX_VECTORS_ALL_NEW] = "SELECT slot, id@vecs FROM @new WHERE slot > ?1 ORDER BY slot",
    [GX_VECTORS_COUNT_NEW] = "SELECT count(*) FROM @new WHERE slot <= ?1",
    [GX_VECTORS_LAST_SLOT] = "SELECT max(slot) FROM @new",
    [GX_VECTORS_DELETE_NEW] = "DELETE FROM @new WHERE slot = ?1",
    [GX_VECTORS_CLEAR_NEW] = "DELETE FROM @new",
    [GX_VECTORS_KILL] = "INSERT OR IGNORE INTO @dead(pos) VALUES(?1)",
    [GX_VECTORS_REVIVE] = "DELETE FROM @dead WHERE pos BETWEEN ?1 AND ?2",
    [GX_VECTORS_DEAD_IN] = "SELECT pos FROM @dead WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos",
    [GX_VECTORS_DEAD_COUNT] = "SELECT count(*) FROM @dead",
    [GX_VECTORS_DEAD_TILES] = "SELECT pos / ?1, count(*) FROM @dead GROUP BY 1 "
                              "HAVING count(*) >= ?2 ORDER BY 1",
    [GX_VECTORS_TAIL] = "SELECT rowid, gx_pos FROM @row WHERE gx_pos >= ?1 "
                        "AND gx_pos >= 0 ORDER BY gx_pos",
    [GX_VECTORS_VERSION] = "PRAGMA @schema.data_version",
    [GX_VECTORS_PUT_LIST] = "INSERT OR REPLACE INTO @list(key, data) VALUES(?1, ?2)",
    [GX_VECTORS_LISTS] = "SELECT key, data FROM @list WHERE key BETWEEN ?1 AND ?2 ORDER BY key",
    [GX_VECTORS_LAST_LIST] = "SELECT key, data FROM @list WHERE key BETWEEN ?1 AND ?2 "
                             "ORDER BY key DESC LIMIT 1",
    [GX_VECTORS_CLEAR_LIST] = "DELETE FROM @list",
    [GX_VECTORS_PUT_FULL] = "INSERT OR REPLACE INTO @full(id, round, v) VALUES(?1, ?2, ?3)",
    [GX_VECTORS_FULL] = "SELECT round, v FROM @full WHERE id = ?1",
    [GX_VECTORS_DROP_FULL] = "DELETE FROM @full WHERE id = ?1",
    [GX_VECTORS_CLEAR_FULL] = "DELETE FROM @full",
};

static const char *const make[] = {
    "CREATE TABLE @row(rowid INTEGER PRIMARY KEY, gx_pos INTEGER NOT NULL@types)",
    "CREATE UNIQUE INDEX @pos ON @row_bare(gx_pos) WHERE gx_pos >= 0",
    "CREATE TABLE @new(slot INTEGER PRIMARY KEY, id INTEGER NOT NULL@vecs)",
    "CREATE TABLE @dead(pos INTEGER PRIMARY KEY)",
};

static const char *const make_index[] = {
    "CREATE TABLE IF NOT EXISTS @list(key INTEGER PRIMARY KEY, data BLOB)",
    "CREATE TABLE IF NOT EXISTS @full(id INTEGER PRIMARY KEY, round INTEGER NOT NULL, v BLOB)",
};

static const char *const drop[] = {
    "DROP TABLE IF EXISTS @row",
    "DROP TABLE IF EXISTS @new",
    "DROP TABLE IF EXISTS @dead",
    "DROP TABLE IF EXISTS @list",
    "DROP TABLE IF EXISTS @full",
};

// Texts -------------------------------------------------------------------------------------------

enum { FIRST_MARK = 3 };

static void put_list(sqlite3_str *out, const gx_vectors_shape *shape, const char *word)
{
    bool is_vector = strcmp(word, "vecs") == 0 || strcmp(word, "vmarks") == 0;
    int count = is_vector ? shape->vectors : shape->columns;
    for (int c = 0; c < count; c++) {
        if (strcmp(word, "vecs") == 0) {
            sqlite3_str_appendf(out, ", v%d", c);
        } else if (strcmp(word, "cols") == 0) {
            sqlite3_str_appendf(out, ", \"%w\"", shape->column[c]);
        } else if (strcmp(word, "sets") == 0) {
            sqlite3_str_appendf(out, ", \"%w\" = ?%d", shape->column[c], c + FIRST_MARK);
        } else if (strcmp(word, "types") == 0) {
            bool is_key = shape->key == shape->column[c];
            sqlite3_str_appendf(out, ", \"%w\" %s%s", shape->column[c], shape->type[c],
                                is_key ? " NOT NULL UNIQUE" : "");
        } else {
            sqlite3_str_appendf(out, ", ?%d", c + FIRST_MARK);
        }
    }
}

static void put_word(sqlite3_str *out, const gx_vectors_shape *shape, const char *word)
{
    const char *name = shape->name;
    bool is_table = strcmp(word, "row") == 0 || strcmp(word, "new") == 0;
    is_table = is_table || strcmp(word, "dead") == 0 || strcmp(word, "list") == 0;
    if (is_table || strcmp(word, "full") == 0) {
        sqlite3_str_appendf(out, "\"%w\".\"%w_%s\"", shape->schema, name, word);
    } else if (strcmp(word, "row_bare") == 0) {
        sqlite3_str_appendf(out, "\"%w_row\"", name);
    } else if (strcmp(word, "pos") == 0) {
        uint64_t number;
        sqlite3_randomness(sizeof number, &number);
        sqlite3_str_appendf(out, "\"%w\".\"%w_row_pos_%016llx\"", shape->schema, name,
                            (unsigned long long)number);
    } else if (strcmp(word, "schema") == 0) {
        sqlite3_str_appendf(out, "\"%w\"", shape->schema);
    } else if (strcmp(word, "key") == 0) {
        sqlite3_str_appendf(out, "\"%w\"", shape->key == NULL ? "rowid" : shape->key);
    } else {
        put_list(out, shape, word);
    }
}

/* The template with its words put in. */
static void put_sql(sqlite3_str *out, const gx_vectors_shape *shape, const char *text)
{
    const char *at;
    while ((at = strchr(text, '@')) != NULL) {
        char word[16] = "";
        size_t bytes = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz_");
        memcpy(word, at + 1, bytes < sizeof word ? bytes : sizeof word - 1);
        sqlite3_str_append(out, text, (int)(at - text));
        put_word(out, shape, word);
        text = at + 1 + bytes;
    }
    sqlite3_str_appendall(out, text);
}

static gx_code failed(gx_vectors *v, int rc, gx_err *err)
{
    if ((rc & 0xff) == SQLITE_CONSTRAINT) {
        return gx_fail(err, GX_ARG, "%s", sqlite3_errmsg(v->db));
    }
    if ((rc & 0xff) == SQLITE_ERROR && gx_store_is_interrupted(v->store)) { // as json_each says it
        return gx_fail(err, GX_INTERRUPT, "interrupted");
    }
    return gx_store_fail(v->db, rc, err, "tables of %s.%s", v->shape->schema, v->shape->name);
}

static gx_code prepare(gx_vectors *v, char *text, int flags, sqlite3_stmt **stmt, gx_err *err)
{
    if (text == NULL) {
        return gx_fail_nomem(err, 0, "SQL text");
    }
    int rc = sqlite3_prepare_v3(v->db, text, -1, (unsigned)flags, stmt, NULL);
    sqlite3_free(text);
    return rc == SQLITE_OK ? GX_OK : failed(v, rc, err);
}

// The tables --------------------------------------------------------------------------------------

gx_code gx_vectors_open(gx_store *store, const gx_vectors_shape *shape, gx_vectors **out,
                        gx_err *err)
{
    void *memory;
    *out = NULL;
    GX_TRY(gx_mem_calloc(NULL, sizeof(gx_vectors), "vector table", &memory, err));
    *out = memory;
    (*out)->store = store;
    (*out)->db = store->db;
    (*out)->shape = shape;
    return GX_OK;
}

static void let_go(gx_vectors *v)
{
    for (int k = 0; k < GX_VECTORS_COUNT; k++) {
        sqlite3_finalize(v->stmt[k]);
        v->stmt[k] = NULL;
    }
}

void gx_vectors_close(gx_vectors *v)
{
    if (v != NULL) {
        let_go(v);
        gx_mem_free(NULL, v);
    }
}

static gx_code execute(gx_vectors *v, char *text, gx_err *err)
{
    if (text == NULL) {
        return gx_fail_nomem(err, 0, "SQL text");
    }
    int rc = sqlite3_exec(v->db, text, NULL, NULL, NULL);
    sqlite3_free(text);
    if ((rc & 0xff) == SQLITE_ERROR && !gx_store_is_interrupted(v->store)) {
        return gx_fail(err, GX_ARG, "%s", sqlite3_errmsg(v->db)); // such as: there is one already
    }
    return rc == SQLITE_OK ? GX_OK : failed(v, rc, err);
}

static gx_code execute_all(gx_vectors *v, const char *const *text, size_t count, gx_err *err)
{
    for (size_t k = 0; k < count; k++) {
        sqlite3_str *out = sqlite3_str_new(v->db);
        put_sql(out, v->shape, text[k]);
        GX_TRY(execute(v, sqlite3_str_finish(out), err));
    }
    return GX_OK;
}

gx_code gx_vectors_make(gx_vectors *v, gx_err *err)
{
    return execute_all(v, make, sizeof make / sizeof make[0], err);
}

gx_code gx_vectors_drop(gx_vectors *v, gx_err *err)
{
    let_go(v);
    return execute_all(v, drop, sizeof drop / sizeof drop[0], err);
}

static gx_code has_table(gx_vectors *v, const char *suffix, bool *has, gx_err *err)
{
    char *name = sqlite3_mprintf("%s_%s", v->shape->name, suffix);
    if (name == NULL) {
        return gx_fail_nomem(err, 0, "SQL text");
    }
    int rc = sqlite3_table_column_metadata(v->db, v->shape->schema, name, NULL, NULL, NULL, NULL,
                                           NULL, NULL);
    sqlite3_free(name);
    *has = rc == SQLITE_OK;
    return rc == SQLITE_OK || rc == SQLITE_ERROR ? GX_OK : failed(v, rc, err);
}

gx_code gx_vectors_has_index(gx_vectors *v, bool *has, gx_err *err)
{
    GX_TRY(has_table(v, "list", has, err));
    return *has ? has_table(v, "full", has, err) : GX_OK;
}

gx_code gx_vectors_make_index(gx_vectors *v, gx_err *err)
{
    return execute_all(v, make_index, sizeof make_index / sizeof make_index[0], err);
}

gx_code gx_vectors_rename(gx_vectors *v, const char *name, gx_err *err)
{
    static const char *const tables[] = {"row", "new", "dead", "list", "full"};
    enum { ALWAYS = 3, ALL = 5 };
    const gx_vectors_shape *shape = v->shape;
    let_go(v);
    for (int k = 0; k < ALL; k++) {
        bool has = true;
        GX_TRY(k < ALWAYS ? GX_OK : has_table(v, tables[k], &has, err));
        if (!has) {
            continue;
        }
        GX_TRY(execute(v,
                       sqlite3_mprintf("ALTER TABLE \"%w\".\"%w_%s\" RENAME TO \"%w_%s\"",
                                       shape->schema, shape->name, tables[k], name, tables[k]),
                       err));
    }
    return GX_OK;
}

// Statements --------------------------------------------------------------------------------------

gx_code gx_vectors_stmt(gx_vectors *v, gx_vectors_sql which, sqlite3_stmt **stmt, gx_err *err)
{
    if (v->stmt[which] == NULL) {
        sqlite3_str *out = sqlite3_str_new(v->db);
        put_sql(out, v->shape, sql[which]);
        GX_TRY(
            prepare(v, sqlite3_str_finish(out), SQLITE_PREPARE_PERSISTENT, &v->stmt[which], err));
    }
    *stmt = v->stmt[which];
    return GX_OK;
}

gx_code gx_vectors_step(gx_vectors *v, sqlite3_stmt *stmt, bool *is_row, gx_err *err)
{
    int rc = sqlite3_step(stmt);
    *is_row = rc == SQLITE_ROW;
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? GX_OK : failed(v, rc, err);
}

gx_code gx_vectors_run(gx_vectors *v, sqlite3_stmt *stmt, gx_err *err)
{
    bool is_row;
    gx_code code = gx_vectors_step(v, stmt, &is_row, err);
    sqlite3_reset(stmt);
    return code;
}

// By name -----------------------------------------------------------------------------------------

/* CREATE VIRTUAL TABLE ... USING gx_vectors */
static bool makes_vectors(const char *text)
{
    gx_sql_token token, before = {.kind = '\0'};
    for (text = gx_sql_next(text, &token); token.kind != '\0' && token.kind != '(';
         text = gx_sql_next(text, &token)) {
        if (gx_sql_is(&before, "USING") && gx_sql_is(&token, "gx_vectors")) {
            return true;
        }
        before = token;
    }
    return false;
}

/* Prepare and step a statement on the table: *is_row, and its text in the place of is_it. */
static gx_code ask(sqlite3 *db, char *text, const char *name, bool (*is_it)(const char *), bool *is,
                   gx_err *err)
{
    sqlite3_stmt *stmt = NULL;
    *is = false;
    if (text == NULL) {
        return gx_fail_nomem(err, 0, "SQL text");
    }
    int rc = sqlite3_prepare_v2(db, text, -1, &stmt, NULL);
    sqlite3_free(text);
    if (rc == SQLITE_OK) {
        sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
        rc = sqlite3_step(stmt);
    }
    if (rc == SQLITE_ROW && is_it != NULL) {
        const char *sql_text = (const char *)sqlite3_column_text(stmt, 0);
        *is = sql_text != NULL && is_it(sql_text);
    }
    gx_code code = GX_OK;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) { // such as: the table says why it cannot
        gx_code own = (rc & 0xff) == SQLITE_ERROR ? GX_ARG : gx_store_code(rc);
        code = gx_fail(err, own, "%s", sqlite3_errmsg(db));
    }
    sqlite3_finalize(stmt);
    return code;
}

gx_code gx_vectors_connect(sqlite3 *db, const char *schema, const char *name, bool *found,
                           gx_err *err)
{
    bool ignored;
    gx_err failed = {.code = GX_OK};
    gx_code code = ask(db,
                       sqlite3_mprintf("SELECT sql FROM \"%w\".sqlite_master "
                                       "WHERE type = 'table' AND lower(name) = lower(?1)",
                                       schema),
                       name, makes_vectors, found, &failed);
    if (code != GX_OK && code != GX_AUTH) { // who may not read the schema finds none
        return gx_fail(err, code, "%s", failed.text);
    }
    return *found ? ask(db, sqlite3_mprintf("SELECT 1 FROM \"%w\".\"%w\" LIMIT 0", schema, name),
                        NULL, NULL, &ignored, err)
                  : GX_OK;
}

gx_code gx_vectors_command(sqlite3 *db, const char *schema, const char *name, const char *command,
                           gx_err *err)
{
    bool ignored;
    return ask(db,
               sqlite3_mprintf("INSERT INTO \"%w\".\"%w\"(k) VALUES(%Q)", schema, name, command),
               NULL, NULL, &ignored, err);
}

gx_code gx_vectors_use(sqlite3 *db, const char *schema, const char *name, sqlite3_stmt **use,
                       gx_err *err)
{
    char *text = sqlite3_mprintf("SELECT 1 FROM \"%w\".\"%w\"", schema, name);
    int rc = text == NULL ? SQLITE_NOMEM : sqlite3_prepare_v2(db, text, -1, use, NULL);
    sqlite3_free(text);
    return rc == SQLITE_OK ? GX_OK : gx_store_fail(db, rc, err, "looking at %s", name);
}

// The queries of a join ---------------------------------------------------------------------------

/* *text of the first row of `sql`, with a number bound, as an identifier: sqlite3_free(). */
static char *ask_name(sqlite3 *db, char *sql_text, int number, bool *is_stopped)
{
    sqlite3_stmt *stmt = NULL;
    char *name = NULL;
    int rc = sql_text == NULL ? SQLITE_NOMEM : sqlite3_prepare_v2(db, sql_text, -1, &stmt, NULL);
    sqlite3_free(sql_text);
    if (rc == SQLITE_OK) {
        sqlite3_bind_int(stmt, 1, number);
        rc = sqlite3_step(stmt);
    }
    if (rc == SQLITE_ROW && sqlite3_column_text(stmt, 0) != NULL) {
        name = sqlite3_mprintf("\"%w\"", sqlite3_column_text(stmt, 0));
    }
    *is_stopped = *is_stopped || rc == SQLITE_INTERRUPT;
    sqlite3_finalize(stmt);
    return name;
}

char *gx_vectors_source(sqlite3 *db, int schema, int root, int column, bool *is_stopped)
{
    char *text = NULL, *table = NULL;
    char *of =
        ask_name(db, sqlite3_mprintf("%s", "SELECT name FROM pragma_database_list WHERE seq = ?1"),
                 schema, is_stopped);
    if (of != NULL) {
        table = ask_name(db,
                         sqlite3_mprintf("SELECT name FROM %s.sqlite_master "
                                         "WHERE rootpage = ?1 AND type = 'table'",
                                         of),
                         root, is_stopped);
    }
    char *any = table == NULL ? NULL : sqlite3_mprintf("SELECT * FROM %s.%s LIMIT 0", of, table);
    sqlite3_stmt *all = NULL;
    if (any != NULL && sqlite3_prepare_v2(db, any, -1, &all, NULL) == SQLITE_OK &&
        column < sqlite3_column_count(all)) {
        text = sqlite3_mprintf("SELECT rowid, \"%w\" FROM %s.%s WHERE rowid > ?1 ORDER BY rowid",
                               sqlite3_column_name(all, column), of, table);
    }
    sqlite3_finalize(all);
    sqlite3_free(any);
    sqlite3_free(of);
    sqlite3_free(table);
    return text;
}

// Conditions --------------------------------------------------------------------------------------

static const char *operator_of(int op)
{
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        return "=";
    case SQLITE_INDEX_CONSTRAINT_NE:
        return "<>";
    case SQLITE_INDEX_CONSTRAINT_LT:
        return "<";
    case SQLITE_INDEX_CONSTRAINT_LE:
        return "<=";
    case SQLITE_INDEX_CONSTRAINT_GT:
        return ">";
    case SQLITE_INDEX_CONSTRAINT_GE:
        return ">=";
    case SQLITE_INDEX_CONSTRAINT_IS:
    case SQLITE_INDEX_CONSTRAINT_ISNULL: // with NULL
        return "IS";
    case SQLITE_INDEX_CONSTRAINT_ISNOT:
    case SQLITE_INDEX_CONSTRAINT_ISNOTNULL:
        return "IS NOT";
    case SQLITE_INDEX_CONSTRAINT_LIKE:
        return "LIKE";
    case SQLITE_INDEX_CONSTRAINT_GLOB:
        return "GLOB";
    default:
        return NULL;
    }
}

bool gx_vectors_takes(int op)
{
    return operator_of(op) != NULL;
}

static void put_terms(sqlite3_str *out, const gx_vectors_shape *shape, const gx_vectors_term *terms,
                      int count)
{
    enum { FIRST = 2 };
    for (int k = 0; k < count; k++) {
        const gx_vectors_term *t = &terms[k];
        sqlite3_str_appendf(out, " AND r.\"%w\"",
                            t->column < 0 ? "rowid" : shape->column[t->column]);
        if (t->collation != NULL) {
            sqlite3_str_appendf(out, " COLLATE \"%w\"", t->collation);
        }
        if (t->list != NULL) {
            sqlite3_str_appendf(out, " IN (SELECT value FROM json_each(?%d))", k + FIRST);
        } else {
            sqlite3_str_appendf(out, " %s ?%d", operator_of(t->op), k + FIRST);
        }
    }
}

static gx_code bind(gx_vectors *v, sqlite3_stmt *stmt, const gx_vectors_term *terms, int count,
                    gx_err *err)
{
    enum { FIRST = 2 };
    int rc = SQLITE_OK;
    for (int k = 0; k < count && rc == SQLITE_OK; k++) {
        rc = terms[k].list != NULL
                 ? sqlite3_bind_text(stmt, k + FIRST, terms[k].list, -1, SQLITE_TRANSIENT)
                 : sqlite3_bind_value(stmt, k + FIRST, terms[k].value);
    }
    return rc == SQLITE_OK ? GX_OK : failed(v, rc, err);
}

gx_code gx_vectors_select(gx_vectors *v, gx_vectors_want want, const gx_vectors_term *terms,
                          int count, sqlite3_stmt **stmt, gx_err *err)
{
    static const char *const head[] = {
        [GX_VECTORS_ALL] = "SELECT r.rowid, r.gx_pos@cols FROM @row r WHERE 1",
        [GX_VECTORS_FALLING] = "SELECT r.rowid, r.gx_pos@cols FROM @row r WHERE 1",
        [GX_VECTORS_ANY_ORDER] = "SELECT r.rowid, r.gx_pos@cols FROM @row r WHERE 1",
        [GX_VECTORS_ONE] = "SELECT r.rowid, r.gx_pos@cols FROM @row r WHERE r.rowid = ?1",
        [GX_VECTORS_SETTLED] = "SELECT r.gx_pos FROM @row r WHERE 1",
        [GX_VECTORS_IS_AT] = "SELECT r.rowid FROM @row r WHERE r.gx_pos = ?1 "
                             "AND r.gx_pos >= 0",
        [GX_VECTORS_IS_ROW] = "SELECT r.rowid FROM @row r NOT INDEXED WHERE r.rowid = ?1",
    };
    static const char *const tail[] = {
        [GX_VECTORS_ALL] = " ORDER BY r.rowid",
        [GX_VECTORS_FALLING] = " ORDER BY r.rowid DESC",
        [GX_VECTORS_SETTLED] = " AND +r.gx_pos >= 0", // which is asked last of the fewest
        [GX_VECTORS_IS_ROW] = "",
    };
    sqlite3_str *out = sqlite3_str_new(v->db);
    put_sql(out, v->shape, head[want]);
    put_terms(out, v->shape, terms, count);
    sqlite3_str_appendall(out, tail[want] == NULL ? "" : tail[want]);
    GX_TRY(prepare(v, sqlite3_str_finish(out), 0, stmt, err));
    gx_code code = bind(v, *stmt, terms, count, err);
    if (code != GX_OK) {
        sqlite3_finalize(*stmt);
        *stmt = NULL;
    }
    return code;
}

// Verification ------------------------------------------------------------------------------------

/*
** ?1: rows of the matrices; ?2: the last slot that the index has.  Each counts what is wrong;
** of_index: where there is one.
*/
static const struct {
    const char *sql, *what;
    bool of_index;
} checks[] = {
    {"SELECT count(*) FROM @row WHERE gx_pos >= ?1", "rows beyond the end of the matrix", false},
    {"SELECT count(*) FROM @row r WHERE gx_pos < 0 AND NOT EXISTS "
     "(SELECT 1 FROM @new n WHERE n.slot = -r.gx_pos AND n.id = r.rowid)",
     "rows without a vector", false},
    {"SELECT count(*) FROM @new n WHERE NOT EXISTS "
     "(SELECT 1 FROM @row r WHERE r.rowid = n.id AND r.gx_pos = -n.slot)",
     "vectors without a row", false},
    {"SELECT count(*) FROM @dead WHERE pos < 0 OR pos >= ?1",
     "dead rows beyond the end of the matrix", false},
    {"SELECT abs((SELECT count(*) FROM @row WHERE gx_pos >= 0) + (SELECT count(*) FROM @dead) "
     "- ?1)",
     "rows of the matrix that are nobody's, or somebody's and dead", false},
    {"SELECT count(*) FROM @row r WHERE gx_pos >= -?2 AND NOT EXISTS "
     "(SELECT 1 FROM @full f WHERE f.id = r.rowid)",
     "rows that the index does not have", true},
    {"SELECT count(*) FROM @full f WHERE NOT EXISTS "
     "(SELECT 1 FROM @row r WHERE r.rowid = f.id AND r.gx_pos >= -?2)",
     "rows of the index that are nobody's", true},
};

static gx_code check(gx_vectors *v, size_t which, int64_t rows, int64_t entered, int64_t *count,
                     gx_err *err)
{
    sqlite3_stmt *stmt;
    bool is_row = false;
    sqlite3_str *out = sqlite3_str_new(v->db);
    put_sql(out, v->shape, checks[which].sql);
    GX_TRY(prepare(v, sqlite3_str_finish(out), 0, &stmt, err));
    if (sqlite3_bind_parameter_count(stmt) > 0) {
        sqlite3_bind_int64(stmt, 1, rows);
        sqlite3_bind_int64(stmt, 2, entered); // refused where there is ?1 alone, which is right
    }
    gx_code code = gx_vectors_step(v, stmt, &is_row, err);
    *count = is_row ? sqlite3_column_int64(stmt, 0) : 0;
    sqlite3_finalize(stmt);
    return code;
}

gx_code gx_vectors_check(gx_vectors *v, int64_t rows, int64_t entered, gx_store_report fn,
                         void *arg, gx_err *err)
{
    for (size_t k = 0; k < sizeof checks / sizeof checks[0]; k++) {
        int64_t count;
        if (checks[k].of_index && entered < 0) {
            continue;
        }
        GX_TRY(check(v, k, rows, entered, &count, err));
        if (count > 0) {
            char *line =
                sqlite3_mprintf("%s: %lld %s", v->shape->name, (long long)count, checks[k].what);
            if (line == NULL) {
                return gx_fail_nomem(err, 0, "report");
            }
            fn(arg, line);
            sqlite3_free(line);
        }
    }
    return GX_OK;
}
