/*
** gx_help: the reference of gx from within SQL, as a text to read and as a table to search.
**
** gx_help() names every function and table, by topics; gx_help('solve') is the whole entry; a
** word that is no name lists the entries that have it or are spelt like it, the best first.
** gx_help as a table has the same entries as rows.  What is said is docs/reference/, built in
** (help.h).
*/
#include "help.h"
#include "table_fn.h"

#include <stdio.h>
#include <string.h>

enum { ENTRIES_MAX = 600, SUMMARY_BYTES = 400, SHOWN_MAX = 100, LISTED_MAX = 24, WORD_MAX = 200 };
enum { LINE_MAX_BYTES = 110, CELL_BYTES = 1024, LONG_LINE_BYTES = 1024, COLUMNS_MAX = 8 };

/* What answers a word, the best first, within a rank in the order of the pages. */
typedef struct answer {
    gx_help_entry entry[ENTRIES_MAX];
    int count;
    bool is_exact;               /* the first is the entry that was asked for by name */
    char summary[SUMMARY_BYTES]; /* of the row that was looked at last     */
} answer;

/* Exact names; the word in names; in first sentences; misspelt names; the word in texts. */
enum { RANKS = 5 };

static int rank_of(const gx_help_entry *entry, const char *word)
{
    int grade = gx_help_grade(entry, word);
    return grade >= 2 ? 4 - grade : gx_help_is_near(entry, word) ? 3 : grade == 1 ? 4 : RANKS;
}

/* word NULL: all entries, in the order of the pages.  Nothing is about more than WORD_MAX bytes. */
static void find(const char *word, answer *found)
{
    found->count = 0;
    found->is_exact = false;
    if (word != NULL && strlen(word) > WORD_MAX) {
        return;
    }
    for (int rank = 0; rank < (word == NULL ? 1 : RANKS); rank++) {
        const char *at = NULL;
        gx_help_entry entry;
        while (found->count < ENTRIES_MAX && gx_help_next(&at, &entry)) {
            if (word == NULL || rank_of(&entry, word) == rank) {
                found->is_exact |= word != NULL && rank == 0;
                found->entry[found->count++] = entry;
            }
        }
    }
}

/* The word asked for; *word NULL without one or where it is empty.  false: the call has failed. */
static bool take_word(gx_fn *fn, const char **word)
{
    *word = NULL;
    bool is_taken = !gx_fn_has(fn, 0) || gx_fn_text(fn, 0, "word", word);
    *word = is_taken && *word != NULL && **word != '\0' ? *word : NULL;
    return is_taken;
}

static bool is_found(gx_fn *fn, const char *word, const answer *found)
{
    char shown[GX_SHOWN_BYTES];
    return found->count > 0 || gx_fn_fail(fn, "nothing about '%s': gx_help() lists everything",
                                          gx_text_show(word, strlen(word), shown));
}

// The text ----------------------------------------------------------------------------------------

static void put_piece(gx_text *text, gx_piece piece)
{
    gx_text_put(text, piece.text, piece.bytes);
}

/* The call, and in a column of its own the first sentence, cut between words where it is long. */
static void put_line(gx_text *text, const gx_help_entry *entry)
{
    char summary[SUMMARY_BYTES];
    gx_help_summary(entry, summary, sizeof summary);
    if (strlen(summary) > SHOWN_MAX) {
        summary[SHOWN_MAX] = '\0';
        char *blank = strrchr(summary, ' ');
        memcpy(blank != NULL ? blank : summary, " ...", sizeof " ...");
    }
    gx_text_printf(text, "  %-44.*s  %s\n", (int)entry->heading.bytes, entry->heading.text,
                   summary);
}

/* Of the page of recipes the topics are listed too: there is nothing else on it. */
static bool is_recipe(const gx_help_entry *entry)
{
    static const char page[] = "recipes.md";
    return entry->page.bytes == sizeof page - 1 &&
           memcmp(entry->page.text, page, sizeof page - 1) == 0;
}

/* A page's heading, and below it the names of its functions, as many in a line as it takes. */
static void put_overview(gx_text *text, const answer *all)
{
    size_t at = 0; /* bytes of the line */
    gx_text_puts(text,
                 "gx_help('solve') or gx_help('embeddings') is an entry in full; gx_help('any "
                 "word') looks for one.\n");
    for (int k = 0; k < all->count; k++) {
        const gx_help_entry *entry = &all->entry[k];
        gx_piece name = entry->name;
        if (entry->is_page) {
            gx_text_puts(text, "\n");
            put_piece(text, entry->heading);
            at = LINE_MAX_BYTES;
        } else if (!entry->is_topic || is_recipe(entry)) {
            const char *between = at + name.bytes + 2 > LINE_MAX_BYTES ? "\n  "
                                  : is_recipe(entry)                   ? "; "
                                                                       : " ";
            at = between[0] == '\n' ? 2 + name.bytes : at + name.bytes + 2;
            gx_text_puts(text, between);
            put_piece(text, name);
        }
    }
}

static int characters(const char *text)
{
    int count = 0;
    for (; *text != '\0'; text++) {
        count += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return count;
}

/* The next cell of a table's line, as plain text; false: there is none. */
static bool next_cell(const char **at, const char *end, char cell[CELL_BYTES])
{
    const char *from = *at + (*at < end && **at == '|'), *to = from;
    while (to < end && (*to != '|' || to[-1] == '\\')) {
        to++;
    }
    *at = to;
    while (from < to && *from == ' ') {
        from++;
    }
    const char *last = to;
    while (last > from && last[-1] == ' ') {
        last--;
    }
    gx_help_plain((gx_piece){from, (size_t)(last - from)}, cell, CELL_BYTES);
    return to < end;
}

/* Of lines that begin with '|': first the widths, then the lines.  Returns the line behind. */
static const char *put_table(gx_text *text, const char *from, const char *end)
{
    int width[COLUMNS_MAX] = {0};
    const char *line = from;
    char cell[CELL_BYTES];
    for (int pass = 0; pass < 2; pass++) {
        for (line = from; line < end && *line == '|';) {
            const char *stop = memchr(line, '\n', (size_t)(end - line)), *at = line;
            stop = stop != NULL ? stop : end;
            bool is_rule = stop - line > 1 && line[1] == '-';
            for (int c = 0; c < COLUMNS_MAX && !is_rule && next_cell(&at, stop, cell); c++) {
                int wide = characters(cell);
                width[c] = wide > width[c] ? wide : width[c];
                if (pass > 0) {
                    gx_text_printf(text, "%s%s", c > 0 ? "  " : "", cell);
                    gx_text_repeat(text, " ", at + 1 < stop ? width[c] - wide : 0);
                }
            }
            gx_text_puts(text, pass > 0 && !is_rule ? "\n" : "");
            line = stop < end ? stop + 1 : end;
        }
    }
    return line;
}

/* As it stands in the pages, but without the mark-up of links and tables. */
static void put_body(gx_text *text, gx_piece body)
{
    const char *line = body.text, *end = line + body.bytes;
    bool is_code = false;
    char plain[LONG_LINE_BYTES];
    while (line < end) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop != NULL ? stop : end;
        is_code ^= strncmp(line, "```", 3) == 0;
        if (*line == '|' && !is_code) {
            line = put_table(text, line, end);
            continue;
        }
        gx_piece piece = {line, (size_t)(stop - line)};
        if (is_code || piece.bytes >= sizeof plain) {
            put_piece(text, piece);
        } else {
            gx_text_put(text, plain, gx_help_plain(piece, plain, sizeof plain));
        }
        gx_text_puts(text, "\n");
        line = stop < end ? stop + 1 : end;
    }
}

/* What an entry says of "the table above" is before the page's first function. */
static void put_page_of(gx_text *text, const gx_help_entry *entry)
{
    static const char word[] = " above";
    const char *found = strstr(entry->body.text, word), *at = NULL;
    gx_help_entry page;
    if (entry->is_topic || found == NULL || found >= entry->body.text + entry->body.bytes) {
        return;
    }
    while (gx_help_next(&at, &page)) {
        if (page.is_page && page.page.text == entry->page.text) {
            gx_text_puts(text, "\n\nAbove all entries of its page:\n\n");
            put_body(text, page.body);
        }
    }
}

static void put_entries(gx_text *text, const answer *found, const char *word)
{
    for (int k = 0; k < found->count && gx_help_grade(&found->entry[k], word) == 4; k++) {
        gx_text_puts(text, k > 0 ? "\n\n" : "");
        put_piece(text, found->entry[k].heading);
        gx_text_puts(text, "\n\n");
        put_body(text, found->entry[k].body);
        put_page_of(text, &found->entry[k]);
    }
}

static void put_list(gx_text *text, const answer *found, const char *word)
{
    char shown[GX_SHOWN_BYTES];
    gx_text_printf(text, "There is no entry '%s'; nearest are:\n",
                   gx_text_show(word, strlen(word), shown));
    for (int k = 0; k < found->count && k < LISTED_MAX; k++) {
        put_line(text, &found->entry[k]);
    }
    if (found->count > LISTED_MAX) {
        gx_text_printf(text, "  ... and %d more: the table gx_help('%s') has them\n",
                       found->count - LISTED_MAX, shown);
    }
}

/* gx_help([word]) */
static void help(gx_fn *fn)
{
    answer found;
    const char *word;
    gx_text text;
    if (!take_word(fn, &word)) {
        return;
    }
    find(word, &found);
    if (word != NULL && !is_found(fn, word, &found)) {
        return;
    }
    gx_text_begin(&text, &fn->run);
    if (word == NULL) {
        put_overview(&text, &found);
    } else if (found.is_exact) {
        put_entries(&text, &found, word);
    } else {
        put_list(&text, &found, word);
    }
    while (text.used > 0 && text.data[text.used - 1] == '\n') {
        text.used--;
    }
    gx_fn_result_text(fn, &text);
}

const gx_function gx_functions_help[] = {
    {"gx_help", 0, 1, GX_PURE, help, 0},
    {.name = NULL},
};

// The table ---------------------------------------------------------------------------------------

enum { COL_NAME, COL_CALL, COL_SUMMARY, COL_PAGE, COL_TEXT, COLUMNS };

static bool begin_table(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    answer *found = state;
    const char *word;
    (void)used;
    if (!take_word(fn, &word)) {
        return false;
    }
    find(word, found);
    *rows = found->count;
    return true;
}

static gx_cell cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    answer *found = state;
    const gx_help_entry *entry = &found->entry[row];
    const gx_piece pieces[COLUMNS] = {[COL_NAME] = entry->name,
                                      [COL_CALL] = entry->heading,
                                      [COL_PAGE] = entry->page,
                                      [COL_TEXT] = entry->body};
    (void)ctx;
    return column == COL_SUMMARY
               ? gx_cell_text(gx_help_summary(entry, found->summary, sizeof found->summary), -1)
               : gx_cell_text(pieces[column].text, (int64_t)pieces[column].bytes);
}

const gx_table_fn gx_table_help = {
    .def = {"gx_help", 0, 1, 0, NULL, 0},
    .shape = "CREATE TABLE x(name TEXT, call TEXT, summary TEXT, page TEXT, text TEXT, "
             "word HIDDEN)",
    .columns = COLUMNS,
    .state_bytes = sizeof(answer),
    .begin = begin_table,
    .cell = cell,
};
