/*
** Which database a statement means by the table gx: gx, main.gx, aux.gx.
**
** The table gx is eponymous, part of no database.  SQLite finds it by its name alone, whatever
** stands before the dot, and tells the table nothing of that.  So the text of the statement that is
** running is read: SQLite keeps it.  A scan of aux.gx is then one of aux, and a scan that cannot
** tell (main.gx beside aux.gx in one statement) is refused, and told how to say it.
**
** Running are those statements that are in sqlite3_step(): busy, and not standing on a row for the
** application.  That is one, unless functions of the application run statements of their own.  A
** statement may reach gx through a view of temp, whose text counts where the statement's has its
** name; views of other databases and triggers may not use the table, which is DIRECTONLY.
**
** Whether gx is a table in a text is told by the word before it.  The text has been compiled, so
** that a rough look is enough; a name that looks like a table and is none adds a database, and at
** worst a statement is refused.
**
** Databases of gx 0.1 have a virtual table gx of their own, which SQLite finds first.
*/
#include <sqlite3ext.h>

#include "store_int.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

// Tokens ------------------------------------------------------------------------------------------

static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

const char *gx_sql_blanks(const char *at)
{
    for (;;) {
        at += strspn(at, " \t\n\v\f\r");
        if (strncmp(at, "--", 2) == 0) {
            at += strcspn(at, "\n");
        } else if (strncmp(at, "/*", 2) == 0) {
            const char *end = strstr(at + 2, "*/");
            at = end == NULL ? at + strlen(at) : end + 2;
        } else {
            return at;
        }
    }
}

/* The closing quote of what begins at `at`; a doubled one is inside.  Without one, the end. */
static const char *find_close(const char *at, char close)
{
    for (; *at != '\0' && (*at != close || (at[1] == close && close != ']')); at++) {
        at += *at == close;
    }
    return at;
}

const char *gx_sql_next(const char *at, gx_sql_token *t)
{
    at = gx_sql_blanks(at);
    *t = (gx_sql_token){*at, at, 1};
    if (*at == '\0') {
        return at;
    }
    if (strchr("\"'`[", *at) != NULL) {
        const char *end = find_close(at + 1, (char)(*at == '[' ? ']' : *at));
        *t = (gx_sql_token){(char)(*at == '\'' ? '\'' : '"'), at + 1, (size_t)(end - at - 1)};
        return *end == '\0' ? end : end + 1;
    }
    if (is_letter(*at)) {
        t->kind = 'a';
        while (is_letter(at[t->bytes])) {
            t->bytes++;
        }
    }
    return at + t->bytes;
}

bool gx_sql_is(const gx_sql_token *t, const char *word)
{
    return t->bytes == strlen(word) && sqlite3_strnicmp(t->text, word, (int)t->bytes) == 0;
}

static bool is_word(const gx_sql_token *t, const char *word)
{
    return t->kind == 'a' && gx_sql_is(t, word);
}

/* The name of a database, without its quotes and with one of each doubled one; "": too long. */
static void copy_name(const gx_sql_token *t, char name[GX_NAME_MAX + 1])
{
    char quote = (char)(t->kind == 'a' ? '\0' : t->text[-1]);
    size_t used = 0;
    for (size_t k = 0; k < t->bytes && used <= GX_NAME_MAX; k++) {
        name[used++] = t->text[k];
        k += t->text[k] == quote && quote != '['; // doubled: one of it
    }
    name[used <= GX_NAME_MAX ? used : 0] = '\0';
}

// Tables ------------------------------------------------------------------------------------------

/* Of one look through the texts. */
typedef struct looking {
    gx_store *store;
    const char *own;               /* the database whose table gx asks; NULL: the eponymous one */
    bool is_into;                  /* where rows are put is asked for, not where they are read  */
    int count;                     /* databases found: 0, 1, 2 for more                         */
    char schema[GX_NAME_MAX + 1];  /* the first; "": its name is out of gx's reach              */
    char other[GX_NAME_MAX + 1];   /* another one                                               */
    bool is_bare;                  /* gx stands there without a database                        */
    bool is_own;                   /* own is named                                              */
    char missing[GX_NAME_MAX + 1]; /* named, but there is no such database                      */
} looking;

static bool has_table(sqlite3 *db, const char *schema)
{
    return sqlite3_table_column_metadata(db, schema, "gx", NULL, NULL, NULL, NULL, NULL, NULL) ==
           SQLITE_OK;
}

/* Is gx, so named, the table that asks?  What SQLite finds in a database goes before it. */
static bool is_asking(const looking *l, const char *schema)
{
    sqlite3 *db = l->store->db;
    return l->own != NULL || !has_table(db, schema);
}

static void note(looking *l, const char *schema)
{
    const char *meant = schema == NULL ? "main" : schema;
    if (!is_asking(l, schema)) {
        return;
    }
    l->is_bare |= schema == NULL;
    l->is_own |= schema != NULL && l->own != NULL && sqlite3_stricmp(schema, l->own) == 0;
    if (l->count == 0) {
        snprintf(l->schema, sizeof l->schema, "%s", meant);
        l->count = 1;
    } else if (sqlite3_stricmp(l->schema, meant) != 0) {
        snprintf(l->other, sizeof l->other, "%s", meant);
        l->count = 2;
    }
}

/* Is what follows the word a table? */
static bool leads(const gx_sql_token *t)
{
    static const char *const words[] = {"from", "join",  "into", "update", "in",    "rollback",
                                        "fail", "abort", "replace", "ignore"};
    bool is_so = t->kind == ',' || t->kind == '(';
    for (size_t k = 0; k < sizeof words / sizeof words[0] && !is_so; k++) {
        is_so = is_word(t, words[k]);
    }
    return is_so;
}

/* A name gx, what stands before it, behind a database's name or not, and after it. */
static void look_at(looking *l, const gx_sql_token *lead, const gx_sql_token *qualifier,
                    const gx_sql_token *after)
{
    char named[GX_NAME_MAX + 1] = "";
    bool is_into = is_word(lead, "into");
    bool has_argument = after->kind == '(' && !is_into; // gx('aux') says it itself
    if (!leads(lead) || is_into != l->is_into || has_argument || after->kind == '.') {
        return;
    }
    if (qualifier == NULL) {
        note(l, NULL);
        return;
    }
    copy_name(qualifier, named);
    if (named[0] == '\0' || sqlite3_db_readonly(l->store->db, named) >= 0) {
        note(l, named);
    } else if (lead->kind == 'a') { // else it may be a column
        snprintf(l->missing, sizeof l->missing, "%s", named);
    }
}

static void look_through(looking *l, const char *text)
{
    gx_sql_token t[5] = {{.kind = '\0'}}; // the last five, the latest behind
    do {
        memmove(t, t + 1, sizeof t - sizeof t[0]);
        text = gx_sql_next(text, &t[4]);
        if (gx_sql_is(&t[3], "gx")) {
            bool has_qualifier = t[2].kind == '.';
            look_at(l, has_qualifier ? &t[0] : &t[2], has_qualifier ? &t[1] : NULL, &t[4]);
        }
    } while (t[4].kind != '\0');
}

// Texts -------------------------------------------------------------------------------------------

/* The names of views are words of the text; those that are no plain words may be parts of words. */
static const char reached_sql[] =
    "WITH RECURSIVE reached(sql) AS (VALUES(?1) UNION SELECT m.sql FROM temp.sqlite_master m, "
    "reached r WHERE m.type = 'view' AND CASE WHEN m.name GLOB '*[^A-Za-z0-9_]*' "
    "THEN instr(lower(r.sql), lower(m.name)) ELSE ' ' || lower(r.sql) || ' ' "
    "GLOB '*[^a-z0-9_]' || lower(m.name) || '[^a-z0-9_]*' END) SELECT sql FROM reached";

/* Mostly there is no view, and nothing more to ask.  Not to be known: true. */
static bool has_views(sqlite3 *db)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, "SELECT 1 FROM temp.sqlite_master WHERE type = 'view'", -1,
                                &stmt, NULL);
    rc = rc == SQLITE_OK ? sqlite3_step(stmt) : rc;
    sqlite3_finalize(stmt);
    return rc != SQLITE_DONE;
}

/* The statement's own text, and what it reaches in temp. */
static gx_code look_from(looking *l, const char *text, gx_err *err)
{
    sqlite3 *db = l->store->db;
    sqlite3_stmt *stmt = NULL;
    look_through(l, text);
    if (!has_views(db)) {
        return GX_OK;
    }
    int rc = sqlite3_prepare_v2(db, reached_sql, -1, &stmt, NULL);
    if (rc == SQLITE_AUTH) { // an authorizer keeps temp to itself
        return GX_OK;
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_bind_text(stmt, 1, text, -1, SQLITE_STATIC);
    }
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        rc = sqlite3_step(stmt);
        const char *sql = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
        if (sql != NULL && strcmp(sql, text) != 0) {
            look_through(l, sql);
        }
    }
    gx_code code = rc == SQLITE_DONE ? GX_OK : gx_store_fail(db, rc, err, "reading temp");
    sqlite3_finalize(stmt);
    return code;
}

/* Statements are added and taken away while temp is looked at: the texts are there before. */
static gx_code look_everywhere(looking *l, gx_err *err)
{
    enum { RUNNING_MOST = 16 };
    const char *texts[RUNNING_MOST];
    int count = 0;
    sqlite3_stmt *stmt = sqlite3_next_stmt(l->store->db, NULL);
    for (; stmt != NULL && count < RUNNING_MOST; stmt = sqlite3_next_stmt(l->store->db, stmt)) {
        const char *text = sqlite3_sql(stmt);
        if (text != NULL && sqlite3_stmt_busy(stmt) && sqlite3_data_count(stmt) == 0) {
            texts[count++] = text; // lives as long as the statement, which waits for us
        }
    }
    for (int k = 0; k < count; k++) {
        GX_TRY(look_from(l, texts[k], err));
    }
    return GX_OK;
}

gx_code gx_store_named(gx_store *store, const char *own, bool is_into,
                       char schema[GX_NAME_MAX + 1], gx_err *err)
{
    looking l = {.store = store, .own = own, .is_into = is_into};
    GX_TRY(look_everywhere(&l, err));
    bool is_main = own != NULL && sqlite3_stricmp(own, "main") == 0;
    bool is_owns = own != NULL && (is_main || (l.is_own && !l.is_bare));
    const char *found = l.count > 0 ? l.schema : own != NULL ? own : "main";
    snprintf(schema, GX_NAME_MAX + 1, "%s", is_owns ? own : found);
    if (is_owns) {
        return GX_OK;
    }
    if (l.missing[0] != '\0') {
        return gx_fail(err, GX_ARG, "no database named '%s'", l.missing);
    }
    if (l.count > 1) {
        return gx_fail(err, GX_ARG,
                       "the statement names gx of %s and of %s, which cannot be told apart: write "
                       "gx('%s') and gx('%s'), or WHERE schema = '%s'",
                       l.schema, l.other, l.schema, l.other, l.schema);
    }
    return GX_OK;
}
