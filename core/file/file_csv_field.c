/*
** Rows and fields of text with delimiters, and the numbers in them: see file_csv.h.
**
** A row is a line (\n, \r\n or \r), or several where a quoted field holds line ends.  Fields lie
** between delimiters, blanks around them ignored; the delimiter ' ' stands for any run of blanks
** and tabs.  A field may be quoted as in RFC 4180.
**
** Comments: a line whose first character other than a blank is #; the rest of a line from a #
** on that stands behind a number or a quoted field, or, where blanks are the delimiter, between
** fields.  Any other # is text of its field: colours and numbers of flats are.  #N/A, which
** spreadsheets write, is a missing value.
**
** Fields are looked at in a window on the file that grows as far as the longest number may need;
** a longer field is passed over, and is no number.
*/
#include "../base/decimal.h"
#include "file_csv.h"

#include <math.h>
#include <string.h>

typedef gx_csv csv;
typedef gx_csv_field field;

static gx_code csv_fail(const csv *c, gx_err *err, const char *what)
{
    return gx_input_fail(c->im->in, err, c->text.line, "%s", what);
}

enum { MISSING_BYTES = 4 }; /* of #N/A */

// Fields ------------------------------------------------------------------------------------------

/* Is [at, end) the word, whose letters are small, in any case? */
static bool is_word(const char *at, const char *end, const char *word)
{
    for (; at < end && *word != '\0'; at++, word++) {
        char lower = *at >= 'A' && *at <= 'Z' ? (char)(*at | 0x20) : *at;
        if (lower != *word) {
            return false;
        }
    }
    return at == end && *word == '\0';
}

/* Is the # at p the beginning of #N/A? */
static bool is_missing_mark(const char *p, const char *end)
{
    return end - p >= MISSING_BYTES && is_word(p, p + MISSING_BYTES, "#n/a");
}

void gx_csv_set_delimiter(gx_csv *c, char delimiter)
{
    c->delimiter = delimiter;
    memset(c->is_stop, 0, sizeof c->is_stop);
    memset(c->is_blank, 0, sizeof c->is_blank);
    c->is_stop['\n'] = c->is_stop['\r'] = c->is_stop[(unsigned char)delimiter] = true;
    c->is_stop['\t'] |= delimiter == ' ';
    c->is_blank[' '] = true;
    c->is_blank['\t'] = delimiter != '\t';
}

const char *gx_csv_skip_blanks(const gx_csv *c, const char *at, const char *end)
{
    while (at < end && c->is_blank[(unsigned char)*at]) {
        at++;
    }
    return at;
}

/*
** What a field is looked at in: the next bytes, not all that the buffer holds, so that its size
** decides nothing.
*/
typedef struct window {
    const char *end;
    bool is_last; /* the file ends there */
} window;

static gx_code open_window(csv *c, window *w, gx_err *err)
{
    gx_textin *t = &c->text;
    GX_TRY(gx_textin_need(t, err));
    w->end = t->at + gx_min(t->end - t->at, t->ahead);
    w->is_last = gx_textin_is_last(t) && w->end == t->end;
    return GX_OK;
}

/*
** Behind the end of a field at p: take the delimiter or the end of the line, or stop at a comment.
** *more: another field follows in the row.  NULL where the window ends too early to tell.
*/
static const char *take_stop(csv *c, const char *p, const window *w, bool *more)
{
    if (c->delimiter == ' ') {
        p = gx_csv_skip_blanks(c, p, w->end);
    }
    *more = false;
    if (p == w->end) {
        return w->is_last ? p : NULL;
    }
    if (*p == '#') {
        if (w->end - p < MISSING_BYTES && !w->is_last) {
            return NULL;
        }
        c->is_at_comment = c->delimiter != ' ' || gx_csv_is_comment(c, p, p, w->end);
        *more = !c->is_at_comment;
        return p;
    }
    if (*p == '\n') {
        return p + 1;
    }
    if (*p == '\r') {
        if (p + 1 == w->end) {
            return w->is_last ? p + 1 : NULL;
        }
        return p + (p[1] == '\n' ? 2 : 1);
    }
    *more = true;
    return c->delimiter == ' ' ? p : p + 1;
}

/* The same at the place where the text is, over as many windows as it takes. */
static gx_code take_stop_here(csv *c, bool *more, gx_err *err)
{
    for (;;) {
        window w;
        GX_TRY(open_window(c, &w, err));
        const char *after = take_stop(c, c->text.at, &w, more);
        if (after != NULL) {
            c->text.at = after;
            return GX_OK;
        }
        c->text.at = gx_csv_skip_blanks(c, c->text.at, w.end); // blanks without end
    }
}

/* A field that is longer than the widest window: passed over. */
static gx_code skip_long_field(csv *c, field *f, bool *more, gx_err *err)
{
    gx_textin *t = &c->text;
    window w;
    bool is_quoted = false;
    *f = (field){.is_long = true};
    do { // blanks before it
        GX_TRY(open_window(c, &w, err));
        t->at = gx_csv_skip_blanks(c, t->at, w.end);
    } while (t->at == w.end && !w.is_last);
    for (;;) {
        GX_TRY(open_window(c, &w, err));
        while (t->at < w.end && (is_quoted || !c->is_stop[(unsigned char)*t->at])) {
            is_quoted ^= *t->at == '"';
            t->line += is_quoted && *t->at == '\n';
            t->at++;
        }
        if (t->at < w.end || w.is_last) {
            break;
        }
    }
    return is_quoted ? csv_fail(c, err, "a quote is never closed") : take_stop_here(c, more, err);
}

/* Between first and end, without blanks. */
static void set_field(const csv *c, field *f, const char *first, const char *end)
{
    f->is_long = false;
    f->at = gx_csv_skip_blanks(c, first, end);
    f->end = end;
    while (f->end > f->at && c->is_blank[(unsigned char)f->end[-1]]) {
        f->end--;
    }
}

/* A field in quotes, the first of them at p; *is_whole false where the window ends too early. */
static gx_code read_quoted(csv *c, const char *p, const window *w, field *f, bool *more,
                           bool *is_whole, gx_err *err)
{
    int64_t lines = 0;
    const char *q = p + 1;
    for (; q < w->end && (*q != '"' || (q + 1 < w->end && q[1] == '"')); q++) {
        lines += *q == '\n';
        q += *q == '"';
    }
    if (q == w->end && w->is_last) {
        return csv_fail(c, err, "a quote is never closed");
    }
    const char *stop = q < w->end ? q + 1 : q;
    if (c->delimiter != ' ') {
        stop = gx_csv_skip_blanks(c, stop, w->end);
    }
    if (stop < w->end && !c->is_stop[(unsigned char)*stop] && *stop != '#') {
        return csv_fail(c, err, "text behind a closing quote");
    }
    const char *after = take_stop(c, stop, w, more);
    *is_whole = after != NULL;
    if (*is_whole) {
        set_field(c, f, p + 1, q);
        c->text.at = after;
        c->text.line += lines;
    }
    return GX_OK;
}

static gx_code read_in_window(csv *c, field *f, bool *more, bool *is_whole, gx_err *err)
{
    window w;
    GX_TRY(open_window(c, &w, err));
    const char *first = gx_csv_skip_blanks(c, c->text.at, w.end);
    if (first < w.end && *first == '"') {
        return read_quoted(c, first, &w, f, more, is_whole, err);
    }
    const char *p = first;
    while (p < w.end && !c->is_stop[(unsigned char)*p]) {
        p++;
    }
    const char *mark = memchr(first, '#', (size_t)(p - first));
    while (mark != NULL && !gx_csv_is_comment(c, first, mark, w.end)) {
        mark = memchr(mark + 1, '#', (size_t)(p - mark - 1));
    }
    p = mark == NULL ? p : mark;
    const char *after = take_stop(c, p, &w, more);
    *is_whole = after != NULL;
    if (*is_whole) {
        set_field(c, f, first, p);
        c->text.at = after;
    }
    return GX_OK;
}

gx_code gx_csv_read_field(gx_csv *c, field *f, bool *more, gx_err *err)
{
    bool is_whole = false, is_wider;
    do {
        GX_TRY(read_in_window(c, f, more, &is_whole, err));
        is_wider = false;
        if (!is_whole) {
            GX_TRY(gx_textin_widen(&c->text, &is_wider, err));
        }
    } while (is_wider);
    return is_whole ? GX_OK : skip_long_field(c, f, more, err);
}

gx_code gx_csv_skip_line(csv *c, gx_err *err)
{
    gx_textin *t = &c->text;
    for (;;) {
        while (t->at < t->end && *t->at != '\n' && *t->at != '\r') {
            t->at++;
        }
        if (t->at < t->end || gx_textin_is_last(t)) {
            break;
        }
        GX_TRY(gx_textin_fill(t, err));
    }
    GX_TRY(gx_textin_need(t, err));
    if (t->at < t->end) {
        t->at += t->end - t->at > 1 && t->at[0] == '\r' && t->at[1] == '\n' ? 2 : 1;
    }
    return GX_OK;
}

gx_code gx_csv_begin_row(csv *c, bool *found, gx_err *err)
{
    gx_textin *t = &c->text;
    if (c->is_at_comment) {
        c->is_at_comment = false;
        GX_TRY(gx_csv_skip_line(c, err));
    }
    for (;;) {
        window w;
        bool more;
        GX_TRY(open_window(c, &w, err));
        *found = t->at < w.end;
        if (!*found) {
            return GX_OK;
        }
        const char *p = gx_csv_skip_blanks(c, t->at, w.end);
        if (w.end - p < MISSING_BYTES && !w.is_last) {
            t->at = p; // blanks without end
            continue;
        }
        t->line++;
        if (p < w.end && *p == '#' && !is_missing_mark(p, w.end)) {
            GX_TRY(gx_csv_skip_line(c, err));
            continue;
        }
        if (p < w.end && *p != '\n' && *p != '\r') {
            return GX_OK;
        }
        t->at = p;
        if (p < w.end) {
            GX_TRY(take_stop_here(c, &more, err));
        }
    }
}

// Numbers -----------------------------------------------------------------------------------------

/* What means that there is no value, whatever the options say. */
static bool is_missing(const char *at, const char *end)
{
    static const char *const words[] = {"", "na", "n/a", "null", "none", "<na>", "#n/a"};
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        if (is_word(at, end, words[w])) {
            return true;
        }
    }
    return false;
}

/* Is it one of the texts of the option "na", which a line end follows each? */
static bool is_listed(const char *list, const char *at, const char *end)
{
    size_t bytes = (size_t)(end - at);
    for (; list != NULL && *list != '\0'; list += *list == '\n') {
        size_t length = strcspn(list, "\n");
        if (length == bytes && memcmp(list, at, bytes) == 0) {
            return true;
        }
        list += length;
    }
    return false;
}

/* The real or complex number that all of [at, end) is, with a decimal point. */
static bool parse_number(const char *at, const char *end, gx_scalar *value, bool *is_complex)
{
    const char *stop;
    *is_complex = false;
    value->im = 0;
    return (gx_decimal_parse(at, end, &stop, &value->re) && stop == end) ||
           gx_decimal_parse_complex(at, end, value, is_complex);
}

/* The same with a decimal comma, where the options say so. */
static bool parse_marked(const csv *c, const char *at, const char *end, gx_scalar *value,
                         bool *is_complex)
{
    if (c->im->options.decimal != ',') {
        return parse_number(at, end, value, is_complex);
    }
    size_t bytes = (size_t)(end - at);
    if (memchr(at, '.', bytes) != NULL) {
        return false;
    }
    // The buffer is this reader's own: points for the commas, and back.
    char *text = c->text.buffer + (at - c->text.buffer);
    for (char *p = text; (p = memchr(p, ',', bytes - (size_t)(p - text))) != NULL;) {
        *p = '.';
    }
    bool is_number = parse_number(at, end, value, is_complex);
    for (char *p = text; (p = memchr(p, '.', bytes - (size_t)(p - text))) != NULL;) {
        *p = ',';
    }
    return is_number;
}

bool gx_csv_parse(const csv *c, const field *f, gx_scalar *value, bool *is_complex)
{
    const char *na = c->im->options.na;
    *is_complex = false;
    *value = (gx_scalar){0, 0};
    if (f->is_long) {
        return false;
    }
    if (na != NULL && is_listed(na, f->at, f->end)) {
        value->re = (double)NAN;
        return true;
    }
    if (parse_marked(c, f->at, f->end, value, is_complex)) {
        return true;
    }
    *value = (gx_scalar){(double)NAN, 0};
    *is_complex = false;
    return is_missing(f->at, f->end);
}

bool gx_csv_may_be_complex(const field *f)
{
    if (f->is_long || f->at == f->end) {
        return false;
    }
    char last = f->end[-1];
    return last == 'i' || last == 'j' || last == 'I' || last == 'J' || last == ')';
}

bool gx_csv_is_name(const field *f)
{
    for (const char *p = f->at; !f->is_long && p < f->end; p++) {
        if ((*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
            *p == '_' || (*p & 0x80) != 0) {
            return *p < '0' || *p > '9';
        }
    }
    return false;
}

bool gx_csv_is_comment(const csv *c, const char *first, const char *p, const char *end)
{
    gx_scalar value;
    bool is_complex;
    field f;
    set_field(c, &f, first, p);
    return f.at < f.end ? gx_csv_parse(c, &f, &value, &is_complex)
                        : c->delimiter == ' ' && !is_missing_mark(p, end);
}

// What is no number -------------------------------------------------------------------------------

/* Is there a sign between the characters of [at, end) that would be a delimiter?  '\0': no. */
static char find_splitter(const csv *c, const char *at, const char *end)
{
    for (const char *p = at; p < end; p++) {
        if (*p != '\0' && *p != c->delimiter && strchr("|;\t ", *p) != NULL) {
            return *p;
        }
    }
    return '\0';
}

/* What to do about a field that is no number; the empty text where nothing is to be said. */
static const char *advice(const csv *c, const field *f, int64_t line)
{
    const char *comma = memchr(f->at, ',', (size_t)(f->end - f->at)), *p = f->at;
    const char splitter = find_splitter(c, f->at, f->end);
    bool has_point = memchr(f->at, '.', (size_t)(f->end - f->at)) != NULL;
    while (p < f->end && *p != '\0' && strchr("+-.,0123456789|;\t ", *p) != NULL) {
        p++;
    }
    if (p == f->end && splitter != '\0' && *f->at >= '0' && *f->at <= '9') {
        return splitter == '|'    ? " ('{\"delimiter\":\"|\"}' takes it apart)"
               : splitter == ';'  ? " ('{\"delimiter\":\";\"}' takes it apart)"
               : splitter == '\t' ? " ('{\"delimiter\":\"tab\"}' takes it apart)"
                                  : " ('{\"delimiter\":\"space\"}' takes it apart)";
    }
    if (c->im->options.decimal == ',' && has_point) {
        return " (the decimal mark is ',')";
    }
    if (comma != NULL && comma > f->at && comma[-1] >= '0' && comma[-1] <= '9') {
        return " (the decimal mark is '.'; '{\"decimal\":\",\"}' makes it ',')";
    }
    if (p < f->end && !gx_csv_is_name(f) && f->end - f->at <= 4 && (*f->at < '0' || *f->at > '9')) {
        return " ('{\"na\":...}' lists what stands for missing values)";
    }
    if (line != c->first_line) {
        return "";
    }
    return c->has_header ? " ('{\"columns\":[...]}' takes those that are numbers)"
                         : " ('{\"header\":true}' leaves this line out)";
}

gx_code gx_csv_bad_field(const csv *c, const field *f, int64_t column, int64_t line, gx_err *err)
{
    char shown[GX_TOKEN_SHOWN];
    if (f->is_long && c->text.ahead < GX_TEXT_LONGEST) {
        return gx_textin_no_memory(&c->text, err);
    }
    if (f->is_long) {
        return gx_input_fail(c->im->in, err, line,
                             "column %lld: more than %lld bytes are no number", (long long)column,
                             (long long)c->text.ahead);
    }
    return gx_input_fail(c->im->in, err, line, "column %lld: '%s' is not a number%s",
                         (long long)column, gx_token_show(f->at, f->end - f->at, shown),
                         advice(c, f, line));
}
