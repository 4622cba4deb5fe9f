/*
** Is a function called by the statement's own text, or by a schema?
**
** Every function of gx that is more than its values is SQLITE_DIRECTONLY: SQLite calls it from the
** text that the application runs and from temp's views and triggers, which the application made,
** but not from what came with a file.  SQLite before 3.50 forgets CHECK constraints there: it calls
** the function for a row that is inserted, and at PRAGMA integrity_check.  A database from
** elsewhere would reach files, settings and other databases by them.
**
** So with these libraries a function looks for its call.  A function is not told which statement
** calls it, but that one runs: the call is direct where the text of a statement that runs has it
** written out, or a view or trigger of temp has.  What is found holds until the statement ends, and
** is kept with it, so that a call a row costs nothing more.
**
** The text is read as SQLite's tokens, for what is in a string or a comment is no call.
*/
#include "gx_ext.h"

#include <stdint.h>
#include <string.h>

enum { CHECKS_ARE_SAFE = 3050000 }; /* sqlite3_libversion_number() from which SQLite refuses */

// Tokens ------------------------------------------------------------------------------------------

/* One token: a name is without its quotes; other signs are themselves; '\0' at the end. */
typedef struct token {
    char sign; /* 'a': a name or keyword; '0': a number or string */
    const char *text;
    size_t bytes;
} token;

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}

static bool goes_on(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9') || c == '$';
}

/* Behind what follows the opening quote, the closing one too; a doubled one is inside. */
static const char *skip_quoted(const char *text, char close)
{
    while (*text != '\0') {
        if (*text++ == close) {
            if (*text != close || close == ']') {
                return text;
            }
            text++;
        }
    }
    return text;
}

/* Behind blanks and comments. */
static const char *skip_space(const char *text)
{
    for (;;) {
        text += strspn(text, " \t\n\r\f");
        if (text[0] == '-' && text[1] == '-') {
            text += strcspn(text, "\n");
        } else if (text[0] == '/' && text[1] == '*') {
            const char *end = strstr(text + 2, "*/");
            text = end == NULL ? text + strlen(text) : end + 2;
        } else {
            return text;
        }
    }
}

static const char *next_token(const char *text, token *found)
{
    text = skip_space(text);
    *found = (token){*text, text, 1};
    const char *end = text + 1;
    if (*text == '\0') {
        return text;
    }
    if (*text == '\'') {
        found->sign = '0';
        return skip_quoted(end, '\'');
    }
    if (*text == '"' || *text == '`' || *text == '[') {
        end = skip_quoted(end, (char)(*text == '[' ? ']' : *text));
        *found = (token){'a', text + 1, (size_t)gx_max(0, end - text - 2)};
        return end;
    }
    if (goes_on(*text)) {
        found->sign = (char)(is_letter(*text) ? 'a' : '0');
        while (goes_on(*end)) {
            end++;
        }
        found->bytes = (size_t)(end - text);
    }
    return end;
}

static bool is_word(const token *t, const char *word)
{
    return t->sign == 'a' && t->bytes == strlen(word) &&
           sqlite3_strnicmp(t->text, word, (int)t->bytes) == 0;
}

/* name( but not INTO name(, nor x.name(, which are tables. */
static bool has_call(const char *text, const char *name)
{
    token before = {.sign = ';'}, now, after;
    if (text == NULL) {
        return false;
    }
    text = next_token(text, &now);
    while (now.sign != '\0') {
        text = next_token(text, &after);
        if (after.sign == '(' && is_word(&now, name) && before.sign != '.' &&
            !is_word(&before, "INTO")) {
            return true;
        }
        before = now;
        now = after;
    }
    return false;
}

// Where the call may be ---------------------------------------------------------------------------

static bool is_in_statement(sqlite3 *db, const char *name)
{
    sqlite3_stmt *stmt = NULL;
    while ((stmt = sqlite3_next_stmt(db, stmt)) != NULL) {
        if (sqlite3_stmt_busy(stmt) && has_call(sqlite3_sql(stmt), name)) {
            return true;
        }
    }
    return false;
}

bool gx_is_direct(sqlite3_context *sql, const char *name)
{
    static char found;
    if (sqlite3_libversion_number() >= CHECKS_ARE_SAFE) {
        return true;
    }
    // Names are texts of this object, so that no two of them have the same number; below zero it is
    // the statement's, whichever of its calls asks.
    int key = -1 - (int)((uintptr_t)name & INT32_MAX);
    if (sqlite3_get_auxdata(sql, key) != NULL) {
        return true;
    }
    sqlite3 *db = sqlite3_context_db_handle(sql);
    bool is_direct = is_in_statement(db, name) || gx_store_any_in_temp(db, has_call, name);
    if (is_direct) {
        sqlite3_set_auxdata(sql, key, &found, NULL);
    }
    return is_direct;
}
