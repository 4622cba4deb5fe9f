/*
** The reference inside gx: its entries, found and matched.  See help.h.
**
** The build writes the pages of docs/reference/ one after the other into help_pages.h as one C
** string; before each page stands a line with a form feed and the page's path.  Nothing is indexed:
** a question walks the 100 KB once, which takes about a tenth of a millisecond and is asked by
** people.
*/
#include "help.h"

#include "../core/base/spelling.h"

#include <stdio.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Woverlength-strings"
#include "help_pages.h"

enum { SENTENCE_MAX = 400 };

// Entries -----------------------------------------------------------------------------------------

static const char *line_end(const char *line)
{
    const char *end = strchr(line, '\n');
    return end != NULL ? end : line + strlen(line);
}

/* "# Page" or "## Entry": the length of the mark with its blank; 0 for another line. */
static size_t heading_mark(const char *line)
{
    size_t marks = strspn(line, "#");
    return (marks == 1 || marks == 2) && line[marks] == ' ' ? marks + 1 : 0;
}

/* The next heading from line on, or the end of the pages; *page follows the form feeds. */
static const char *find_heading(const char *line, gx_piece *page)
{
    bool is_code = false;
    while (*line != '\0' && (is_code || heading_mark(line) == 0)) {
        const char *end = line_end(line);
        if (*line == '\f') {
            *page = (gx_piece){line + 1, (size_t)(end - line - 1)};
        }
        is_code ^= strncmp(line, "```", 3) == 0;
        line = *end == '\0' ? end : end + 1;
    }
    return line;
}

static gx_piece trimmed(const char *from, const char *to)
{
    while (from < to && (*from == '\n' || *from == ' ')) {
        from++;
    }
    while (to > from && (to[-1] == '\n' || to[-1] == ' ')) {
        to--;
    }
    return (gx_piece){from, (size_t)(to - from)};
}

/* Where the next function of a heading begins, "gx_b(B)" in "gx_a(A), gx_b(B)"; NULL: no more. */
static const char *find_function(const char *from, const char *end)
{
    static const char between[] = ", gx_";
    const char *found = strstr(from, between);
    return found != NULL && found < end ? found + strlen(", ") : NULL;
}

bool gx_help_next(const char **at, gx_help_entry *entry)
{
    if (*at == NULL) {
        *at = help_pages;
        entry->page = (gx_piece){"", 0};
    }
    bool is_within = strncmp(*at, "gx_", 3) == 0; // a heading whose first function has been
    const char *line = is_within ? *at : find_heading(*at, &entry->page);
    if (*line == '\0') {
        return false;
    }
    size_t mark = is_within ? 0 : heading_mark(line);
    const char *end = line_end(line), *start = line + mark;
    entry->is_page = mark == 2;
    entry->is_topic = strncmp(start, "gx", 2) != 0;
    const char *next = entry->is_topic ? NULL : find_function(start, end);
    const char *stop = next != NULL ? next - strlen(", ") : end;
    entry->heading = (gx_piece){start, (size_t)(stop - start)};
    entry->name = entry->heading;
    if (!entry->is_topic) {
        entry->name.bytes = strspn(entry->name.text, "abcdefghijklmnopqrstuvwxyz0123456789_");
    }
    gx_piece after = entry->page;
    const char *below = find_heading(end, &after);

    // The line of the page that comes next is the next entry's to read.
    const char *feed = memchr(end, '\f', (size_t)(below - end));
    below = feed != NULL ? feed : below;
    entry->body = trimmed(end, below);
    *at = next != NULL ? next : below;
    return true;
}

/* A full stop that ends a sentence: no "...", no initial of a name, and a blank behind it. */
static bool is_stop(const char *text, const char *start, const char *end)
{
    bool is_dots = text > start && text[-1] == '.';
    bool is_initial = text > start + 1 && text[-1] >= 'A' && text[-1] <= 'Z' &&
                      (text[-2] == ' ' || text[-2] == '.');
    return *text == '.' && !is_dots && !is_initial &&
           (text + 1 == end || text[1] == ' ' || text[1] == '\n');
}

/* The ')' of a link "](target)" that begins at text, or NULL. */
static const char *link_end(const char *text, const char *end)
{
    bool is_link = *text == ']' && text + 1 < end && text[1] == '(';
    return is_link ? memchr(text, ')', (size_t)(end - text)) : NULL;
}

/* '[' opens a link where its ']' is followed by '('. */
static bool opens_link(const char *text, const char *end)
{
    const char *close = memchr(text, ']', (size_t)(end - text));
    return *text == '[' && close != NULL && link_end(close, end) != NULL;
}

size_t gx_help_plain(gx_piece piece, char *out, size_t size)
{
    const char *text = piece.text, *end = text + piece.bytes;
    size_t used = 0;
    while (text < end && used + 1 < size) {
        const char *close = link_end(text, end);
        bool is_bar = *text == '\\' && text + 1 < end && text[1] == '|';
        if (close == NULL && !is_bar && !opens_link(text, end)) {
            out[used++] = *text;
        }
        text = close != NULL ? close + 1 : text + 1;
    }
    out[used] = '\0';
    return used;
}

/* The first paragraph's first sentence, without backticks and the targets of links. */
const char *gx_help_summary(const gx_help_entry *entry, char *out, size_t size)
{
    const char *start = entry->body.text, *end = start + entry->body.bytes, *text = start;
    size_t used = 0;
    bool is_prose = text < end && strchr("|#", *text) == NULL && strncmp(text, "```", 3) != 0;
    for (; is_prose && text < end && used + 1 < size; text++) {
        bool is_line_end = *text == '\n';
        if (is_line_end && (strchr("\n|-", text[1]) != NULL || strncmp(text + 1, "```", 3) == 0)) {
            break;
        }
        const char *close = link_end(text, end);
        if (close != NULL) {
            text = close;
        } else if (*text != '`' && !opens_link(text, end)) {
            out[used++] = is_line_end ? ' ' : *text;
        }
        if (is_stop(text, start, end)) {
            break;
        }
    }

    // No half of a character where the room ends.
    while (used + 1 >= size && used > 0 && ((unsigned char)out[used - 1] & 0x80) != 0) {
        used--;
    }
    out[used] = '\0';
    return out;
}

// Words -------------------------------------------------------------------------------------------

static bool equals(gx_piece piece, const char *word, size_t bytes)
{
    size_t k = 0;
    while (k < bytes && k < piece.bytes && gx_lower(piece.text[k]) == gx_lower(word[k])) {
        k++;
    }
    return k == bytes && k == piece.bytes;
}

static bool contains(gx_piece piece, const char *word, size_t bytes)
{
    for (size_t k = 0; k + bytes <= piece.bytes; k++) {
        if (equals((gx_piece){piece.text + k, bytes}, word, bytes)) {
            return true;
        }
    }
    return false;
}

/* Without "gx_", which every name has, and with what it is called by: "gx_solve()" is "solve". */
static gx_piece core_of(const char *text, size_t bytes)
{
    size_t skip = bytes > 3 && equals((gx_piece){text, 3}, "gx_", 3) ? 3 : 0;
    const char *call = memchr(text, '(', bytes);
    size_t end = call != NULL && call > text + skip ? (size_t)(call - text) : bytes;
    return (gx_piece){text + skip, end - skip};
}

/* "Embeddings" of "Embeddings: load, normalise, search". */
static bool is_title(const gx_help_entry *entry, gx_piece wanted)
{
    gx_piece heading = entry->heading;
    return entry->is_topic && wanted.bytes < heading.bytes &&
           strchr(":,", heading.text[wanted.bytes]) != NULL &&
           equals((gx_piece){heading.text, wanted.bytes}, wanted.text, wanted.bytes);
}

/* The line "Also called: ..." of an entry: 3 the word is one of its names, 2 in one, 0 neither. */
static int grade_of_others(const gx_help_entry *entry, const char *word, size_t bytes)
{
    static const char mark[] = "Also called: ";
    const char *end = entry->body.text + entry->body.bytes, *at = strstr(entry->body.text, mark);
    int grade = 0;
    if (at == NULL || at >= end) {
        return 0;
    }
    const char *stop = line_end(at);
    for (at += strlen(mark); at < stop && grade < 3;) {
        size_t length = strcspn(at, ",.\n");
        gx_piece name = {at, length};
        grade = equals(name, word, bytes) ? 3 : contains(name, word, bytes) ? 2 : grade;
        at += length + strspn(at + length, ",. ");
    }
    return grade;
}

static int grade_of_piece(const gx_help_entry *entry, const char *word, size_t bytes)
{
    gx_piece wanted = core_of(word, bytes);
    gx_piece name = core_of(entry->name.text, entry->name.bytes);
    char summary[SENTENCE_MAX];
    int other = grade_of_others(entry, word, bytes);
    if (equals(name, wanted.text, wanted.bytes) || is_title(entry, wanted)) {
        return 4;
    }
    if (other == 3 || (!entry->is_topic && contains(name, wanted.text, wanted.bytes))) {
        return 3;
    }
    gx_help_summary(entry, summary, sizeof summary);
    if (other > 0 || contains(entry->heading, wanted.text, wanted.bytes) ||
        contains((gx_piece){summary, strlen(summary)}, wanted.text, wanted.bytes)) {
        return 2;
    }
    return contains(entry->body, wanted.text, wanted.bytes) ? 1 : 0;
}

int gx_help_grade(const gx_help_entry *entry, const char *word)
{
    int grade = grade_of_piece(entry, word, strlen(word));
    if (grade > 0 || strchr(word, ' ') == NULL) {
        return grade;
    }
    grade = 2; // all its words, wherever they stand
    for (const char *at = word + strspn(word, " "); *at != '\0' && grade > 0;) {
        size_t bytes = strcspn(at, " ");
        int one = grade_of_piece(entry, at, bytes);
        grade = one < grade ? one : grade;
        at += bytes + strspn(at + bytes, " ");
    }
    return word[strspn(word, " ")] == '\0' ? 0 : grade;
}

bool gx_help_is_near(const gx_help_entry *entry, const char *word)
{
    gx_piece wanted = core_of(word, strlen(word));
    gx_piece name = core_of(entry->name.text, entry->name.bytes);
    int distance = gx_near_distance(wanted.text, wanted.bytes, name.text, name.bytes);
    return !entry->is_topic && gx_near_is_misspelt(distance, wanted.bytes);
}

const char *gx_help_usage(const char *function, char out[GX_USAGE_BYTES])
{
    const char *at = NULL;
    gx_help_entry entry;
    out[0] = '\0';
    while (out[0] == '\0' && gx_help_next(&at, &entry)) {
        bool is_call =
            entry.name.bytes < entry.heading.bytes && entry.heading.text[entry.name.bytes] == '(';
        if (is_call && equals(entry.name, function, strlen(function))) {
            snprintf(out, GX_USAGE_BYTES, ": %.*s", (int)entry.heading.bytes, entry.heading.text);
        }
    }
    return out;
}
