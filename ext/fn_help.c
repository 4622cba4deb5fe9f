/*
** gx_help: the reference of gx from within SQL, as a text to read and as a table to search.
**
** gx_help() lists every function and table with its first sentence; gx_help('solve') is the whole
** entry; a word that is no name lists the entries that have it or are spelt like it, the best
** first.  gx_help as a table has the same entries as rows.  What is said is docs/reference/, built
** in (help.h).
*/
#include "help.h"
#include "table_fn.h"

#include <stdio.h>
#include <string.h>

enum { ENTRIES_MAX = 400, SUMMARY_BYTES = 400, SHOWN_MAX = 100, LISTED_MAX = 24, WORD_MAX = 200 };

/* What answers a word, the best first, within a rank in the order of the pages. */
typedef struct answer {
    gx_help_entry entry[ENTRIES_MAX];
    int count;
    bool is_exact; /* the first is the entry that was asked for by name */
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

static void put_overview(gx_text *text, const answer *all)
{
    gx_text_puts(text,
                 "gx_help('solve') or gx_help('embeddings') is an entry in full; gx_help('any "
                 "word') looks for one.\n");
    for (int k = 0; k < all->count; k++) {
        const gx_help_entry *entry = &all->entry[k];
        if (entry->is_page) {
            gx_text_puts(text, "\n");
            put_piece(text, entry->heading);
            gx_text_puts(text, "\n");
        } else if (!entry->is_topic || is_recipe(entry)) {
            put_line(text, entry);
        }
    }
}

static void put_entries(gx_text *text, const answer *found, const char *word)
{
    for (int k = 0; k < found->count && gx_help_grade(&found->entry[k], word) == 4; k++) {
        gx_text_puts(text, k > 0 ? "\n\n" : "");
        put_piece(text, found->entry[k].heading);
        gx_text_puts(text, "\n\n");
        put_piece(text, found->entry[k].body);
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
