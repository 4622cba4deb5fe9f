/*
** Text with delimiters: CSV, TSV, columns of numbers.
**
** A row a line (\n, \r\n or \r), fields between delimiters, blanks around them ignored.  Left
** out are blank lines, lines that start with #, and a byte order mark.  A field is a number, a
** complex number (1+2i, (1-2j)), nan, inf, or nothing, NA, N/A or null, which are NaN; it may be
** quoted as in RFC 4180. The delimiter ' ' stands for any run of blanks and tabs.
**
** What is not said is found out.  The delimiter: the first of tab ; , that the second line has
** outside quotes, else blanks (the first line, which may be names, decides where it is alone).
** The header: the first line is one when none of its fields is a number, or some are not and the
** line below has another number of fields, or columns are wanted by their names.  dtype: c128 when
** a field is complex, else f64.
**
** Import: two passes.  The first counts rows and fields and looks for complex numbers; the
** second reads numbers into bands of whole tiles, row by row.  Where the budget does not hold a
** row of tiles, a band of rows is passed over once for each group of tile columns.  Rows may
** have any length; a field that is a number fits GX_TEXT_LONGEST bytes.
**
** Export: one pass by rows; numbers as the shortest text that reads back the same, complex ones
** as 1+2j.
*/
#include "../base/decimal.h"
#include "file_int.h"

#include <math.h>
#include <string.h>

static const size_t BAND_BYTES = (size_t)32 << 20; /* a larger band reads no faster */

/* Columns [start, stop) of the file; stop < 0: to the last.  Or the one of that name. */
typedef struct range {
    int64_t start, stop;
    const char *name; /* of the options' text; NULL: by number */
    int64_t name_bytes;
} range;

/* A place in the file where a row starts. */
typedef struct place {
    int64_t offset, line;
} place;

/* A file that is being read. */
typedef struct csv {
    gx_import *im;
    gx_textin text;
    char delimiter;
    bool is_stop[256];  /* ends a field: the delimiter, \n, \r               */
    bool is_blank[256]; /* is left out around fields                         */
    range *ranges;      /* the columns wanted; NULL = all.  Of im->mem        */
    int64_t range_count;
    bool has_names;     /* a range is a name                                 */
    bool has_header;    /* the first line is names                           */
    int64_t *map;       /* field to column of the matrix or -1; NULL = itself */
    int64_t fields;     /* in a row of the file                               */
    int64_t first_line; /* number of the first row of numbers                 */
    int64_t rows, cols; /* of the matrix                                      */
    bool is_complex;    /* a field is                                         */
} csv;

/* A field.  Valid until the next one is read. */
typedef struct field {
    const char *at, *end; /* without quotes and blanks around                   */
    bool is_long;         /* too long to be looked at: at and end say nothing   */
} field;

static gx_code csv_fail(const csv *c, gx_err *err, const char *what)
{
    return gx_input_fail(c->im->in, err, c->text.line, "%s", what);
}

// Fields ------------------------------------------------------------------------------------------

static void set_delimiter(csv *c, char delimiter)
{
    c->delimiter = delimiter;
    memset(c->is_stop, 0, sizeof c->is_stop);
    memset(c->is_blank, 0, sizeof c->is_blank);
    c->is_stop['\n'] = c->is_stop['\r'] = c->is_stop[(unsigned char)delimiter] = true;
    c->is_stop['\t'] |= delimiter == ' ';
    c->is_blank[' '] = true;
    c->is_blank['\t'] = delimiter != '\t';
}

static const char *skip_blanks(const csv *c, const char *at, const char *end)
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
** Behind the end of a field at p: take the delimiter or the end of the line.  *more: another
** field follows in the row.  NULL where the window ends too early to tell.
*/
static const char *take_stop(const csv *c, const char *p, const window *w, bool *more)
{
    if (c->delimiter == ' ') {
        p = skip_blanks(c, p, w->end);
    }
    *more = false;
    if (p == w->end) {
        return w->is_last ? p : NULL;
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
        c->text.at = w.end; // blanks without end
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
        t->at = skip_blanks(c, t->at, w.end);
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
    f->at = skip_blanks(c, first, end);
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
        stop = skip_blanks(c, stop, w->end);
    }
    if (stop < w->end && !c->is_stop[(unsigned char)*stop]) {
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
    const char *first = skip_blanks(c, c->text.at, w.end);
    if (first < w.end && *first == '"') {
        return read_quoted(c, first, &w, f, more, is_whole, err);
    }
    const char *p = first;
    while (p < w.end && !c->is_stop[(unsigned char)*p]) {
        p++;
    }
    const char *after = take_stop(c, p, &w, more);
    *is_whole = after != NULL;
    if (*is_whole) {
        set_field(c, f, first, p);
        c->text.at = after;
    }
    return GX_OK;
}

static gx_code read_field(csv *c, field *f, bool *more, gx_err *err)
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

/* Go to the next row; *found false at the end of the file. */
static gx_code begin_row(csv *c, bool *found, gx_err *err)
{
    gx_textin *t = &c->text;
    for (;;) {
        window w;
        bool more;
        GX_TRY(open_window(c, &w, err));
        *found = t->at < w.end;
        if (!*found) {
            return GX_OK;
        }
        t->line++;
        if (*t->at == '#') {
            GX_TRY(gx_textin_skip_line(t, err));
            continue;
        }
        const char *p = skip_blanks(c, t->at, w.end);
        if (p < w.end && *p != '\n' && *p != '\r') {
            return GX_OK;
        }
        t->line -= p == w.end && !w.is_last; // a line of blanks beyond the window goes on
        t->at = p;
        if (p < w.end) {
            GX_TRY(take_stop_here(c, &more, err));
        }
    }
}

// Numbers -----------------------------------------------------------------------------------------

static bool is_missing(const char *at, const char *end)
{
    static const char *const words[] = {"", "na", "n/a", "null"};
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        size_t length = strlen(words[w]);
        bool is_same = (size_t)(end - at) == length;
        for (size_t i = 0; i < length && is_same; i++) {
            char lower = at[i] >= 'A' && at[i] <= 'Z' ? (char)(at[i] | 0x20) : at[i];
            is_same = lower == words[w][i];
        }
        if (is_same) {
            return true;
        }
    }
    return false;
}

static bool parse_field(const field *f, gx_scalar *value, bool *is_complex)
{
    const char *stop;
    *is_complex = false;
    value->im = 0;
    if (f->is_long) {
        return false;
    }
    if (gx_decimal_parse(f->at, f->end, &stop, &value->re) && stop == f->end) {
        return true;
    }
    if (is_missing(f->at, f->end)) {
        value->re = (double)NAN;
        return true;
    }
    return gx_decimal_parse_complex(f->at, f->end, value, is_complex);
}

/* Could the field be complex?  Then it ends with its unit or a parenthesis. */
static bool may_be_complex(const field *f)
{
    if (f->is_long || f->at == f->end) {
        return false;
    }
    char last = f->end[-1];
    return last == 'i' || last == 'j' || last == 'I' || last == 'J' || last == ')';
}

static gx_code bad_field(const csv *c, const field *f, int64_t column, int64_t line, gx_err *err)
{
    char shown[GX_TOKEN_SHOWN];
    const char *advice = "";
    if (f->is_long && c->text.ahead < GX_TEXT_LONGEST) {
        return gx_textin_no_memory(&c->text, err);
    }
    if (f->is_long) {
        return gx_input_fail(c->im->in, err, line,
                             "column %lld: more than %lld bytes are no number", (long long)column,
                             (long long)c->text.ahead);
    }
    const char *comma = memchr(f->at, ',', (size_t)(f->end - f->at));
    if (comma != NULL && comma > f->at && comma[-1] >= '0' && comma[-1] <= '9') {
        advice = " (the decimal point is '.')";
    } else if (line == c->first_line) {
        advice = c->has_header ? " ('{\"columns\":[...]}' takes those that are numbers)"
                               : " ('{\"header\":true}' leaves this line out)";
    }
    return gx_input_fail(c->im->in, err, line, "column %lld: '%s' is not a number%s",
                         (long long)column, gx_token_show(f->at, f->end - f->at, shown), advice);
}

// Columns -----------------------------------------------------------------------------------------

/* A name of the header: what does not begin as numbers and ranges do. */
static bool take_name(csv *c, const char *at, const char *end, range *r)
{
    while (at < end && *at == ' ') {
        at++;
    }
    r->name = at;
    r->name_bytes = end - at;
    bool is_name = at < end && strchr("0123456789:+-", *at) == NULL;
    c->has_names |= is_name;
    return is_name;
}

/*
** "0,2,5:9": column numbers and ranges without their ends; an end left out is the first or last.
** "area,price": names of the header.
*/
static gx_code parse_columns(csv *c, const char *text, gx_err *err)
{
    int64_t count = 1;
    for (const char *p = text; *p != '\0'; p++) {
        count += *p == ',';
    }
    void *block;
    GX_TRY(gx_mem_alloc(c->im->mem, (size_t)count * sizeof(range), "columns", &block, err));
    c->ranges = block;
    const char *at = text;
    for (; c->range_count < count; c->range_count++) {
        range *r = &c->ranges[c->range_count];
        size_t length = strcspn(at, ",");
        const char *end = at + length, *colon = memchr(at, ':', length);
        *r = (range){.start = 0, .stop = -1};
        if (take_name(c, at, end, r)) {
            at = end + 1;
            continue;
        }
        r->name = NULL;
        bool is_good =
            at == colon || gx_decimal_parse_i64(at, colon != NULL ? colon : end, &r->start);
        is_good = is_good && r->start >= 0 && r->start < INT64_MAX;
        if (colon == NULL && is_good) {
            r->stop = r->start + 1;
        } else if (colon != NULL && colon + 1 < end) {
            is_good =
                is_good && gx_decimal_parse_i64(colon + 1, end, &r->stop) && r->stop > r->start;
        }
        if (!is_good) {
            char shown[GX_TOKEN_SHOWN];
            return gx_fail(err, GX_ARG, "columns '%s' is not a list such as '0,2,5:9'",
                           gx_token_show(text, (int64_t)strlen(text), shown));
        }
        at = end + 1;
    }
    return GX_OK;
}

/* Is field number k wanted? */
static bool is_wanted(const csv *c, int64_t k)
{
    for (int64_t r = 0; r < c->range_count; r++) {
        if (k >= c->ranges[r].start && (k < c->ranges[r].stop || c->ranges[r].stop < 0)) {
            return true;
        }
    }
    return c->ranges == NULL;
}

/* Column of the matrix that field number k goes to; -1: none. */
static int64_t column_of(const csv *c, int64_t k)
{
    return c->map == NULL ? k : k < c->fields ? c->map[k] : -1;
}

/* Now that the number of fields is known: which column each becomes, and how many there are. */
static gx_code place_columns(csv *c, gx_err *err)
{
    if (c->ranges == NULL) {
        c->cols = c->fields;
        return GX_OK;
    }
    void *block;
    GX_TRY(gx_mem_alloc(c->im->mem, (size_t)c->fields * sizeof *c->map, "columns", &block, err));
    c->map = block;
    for (int64_t k = 0; k < c->fields; k++) {
        c->map[k] = -1;
    }
    for (int64_t r = 0; r < c->range_count; r++) {
        int64_t start = c->ranges[r].start, stop = c->ranges[r].stop;
        stop = stop < 0 ? c->fields : stop;
        if (start >= c->fields || stop > c->fields) {
            return gx_input_fail(c->im->in, err, c->first_line,
                                 "column %lld is wanted, but the columns are 0..%lld",
                                 (long long)gx_max(start, stop - 1), (long long)c->fields - 1);
        }
        for (int64_t k = start; k < stop; k++) {
            if (c->map[k] >= 0) {
                return gx_fail(err, GX_ARG, "column %lld is wanted twice", (long long)k);
            }
            c->map[k] = c->cols++;
        }
    }
    return GX_OK;
}

// What is not said --------------------------------------------------------------------------------

static place here(const csv *c)
{
    return (place){.offset = gx_textin_offset(&c->text), .line = c->text.line};
}

static gx_code go(csv *c, const place *p, gx_err *err)
{
    return gx_textin_seek(&c->text, p->offset, p->line, c->im->in->size, err);
}

/* Byte order mark, and the lines that the caller does not want. */
static gx_code skip_start(csv *c, gx_err *err)
{
    gx_textin *t = &c->text;
    int64_t ahead = t->end - t->at;
    if (ahead >= 2 && (memcmp(t->at, "\xff\xfe", 2) == 0 || memcmp(t->at, "\xfe\xff", 2) == 0)) {
        return gx_input_fail(c->im->in, err, 0, "is UTF-16: save it as UTF-8");
    }
    if (ahead >= 3 && memcmp(t->at, "\xef\xbb\xbf", 3) == 0) {
        t->at += 3;
    }
    for (int64_t k = 0; k < c->im->options.skip; k++) {
        t->line++;
        GX_TRY(gx_textin_skip_line(t, err));
    }
    return GX_OK;
}

/* The delimiter of the line at hand, 0 when it has none. */
static char guess_delimiter(const csv *c)
{
    const gx_textin *t = &c->text;
    bool seen[256] = {false}, is_quoted = false;
    const char *end = t->at + gx_min(t->end - t->at, t->ahead);
    const char *p = skip_blanks(c, t->at, end);
    while (end > p && (end[-1] == ' ' || end[-1] == '\n' || end[-1] == '\r')) {
        end--;
    }
    for (; p < end && (is_quoted || (*p != '\n' && *p != '\r')); p++) {
        is_quoted ^= *p == '"';
        // Blanks count between fields, not before the end of the line.
        bool is_inside = *p != ' ' || (p + 1 < end && strchr(" \r\n", p[1]) == NULL);
        seen[(unsigned char)*p] |= !is_quoted && is_inside;
    }
    return seen['\t'] ? '\t' : seen[';'] ? ';' : seen[','] ? ',' : seen[' '] ? ' ' : '\0';
}

static gx_code find_delimiter(csv *c, gx_err *err)
{
    place start = here(c);
    start.line++; // gx_textin_seek() takes the number of the line to come
    char guess = '\0';
    bool found;
    set_delimiter(c, '\t'); // so that a line of tabs is not blank
    for (int line = 0; line < 2; line++) {
        GX_TRY(begin_row(c, &found, err));
        if (found) {
            GX_TRY(gx_textin_need(&c->text, err));
            guess = guess_delimiter(c);
            GX_TRY(gx_textin_skip_line(&c->text, err));
        }
    }
    set_delimiter(c, guess != '\0' ? guess : ',');
    return go(c, &start, err);
}

/* One row: how many fields, and how many of the wanted ones are numbers and are not. */
typedef struct row_look {
    int64_t fields, numbers, texts;
} row_look;

static gx_code look_at_row(csv *c, row_look *look, gx_err *err)
{
    *look = (row_look){0};
    bool more = true;
    while (more) {
        field f;
        gx_scalar value;
        bool is_complex;
        GX_TRY(read_field(c, &f, &more, err));
        if (is_wanted(c, look->fields)) {
            bool is_number = parse_field(&f, &value, &is_complex);
            look->texts += !is_number;
            look->numbers += is_number && (is_complex || f.at < f.end);
        }
        look->fields++;
    }
    return GX_OK;
}

/* The columns that are wanted by their names: where in the row at hand, the header, these are. */
static gx_code find_names(csv *c, gx_err *err)
{
    bool more = true;
    for (int64_t r = 0; r < c->range_count; r++) {
        c->ranges[r].start = c->ranges[r].name != NULL ? -1 : c->ranges[r].start;
    }
    for (int64_t k = 0; more; k++) {
        field f;
        GX_TRY(read_field(c, &f, &more, err));
        for (int64_t r = 0; r < c->range_count && !f.is_long; r++) {
            range *wanted = &c->ranges[r];
            if (wanted->start < 0 && wanted->name_bytes == f.end - f.at &&
                memcmp(wanted->name, f.at, (size_t)wanted->name_bytes) == 0) {
                wanted->start = k;
                wanted->stop = k + 1;
            }
        }
    }
    for (int64_t r = 0; r < c->range_count; r++) {
        if (c->ranges[r].start < 0) {
            char shown[GX_TOKEN_SHOWN];
            return gx_input_fail(c->im->in, err, c->text.line, "no column is named '%s'",
                                 gx_token_show(c->ranges[r].name, c->ranges[r].name_bytes, shown));
        }
    }
    return GX_OK;
}

/* Leave the header out, when there is one.  *start: where the rows of numbers begin. */
static gx_code find_rows(csv *c, place *start, gx_err *err)
{
    const gx_import_options *options = &c->im->options;
    bool found;
    row_look first, second = {0};
    GX_TRY(begin_row(c, &found, err));
    if (!found) {
        return gx_input_fail(c->im->in, err, 0, "has no rows");
    }
    *start = here(c);
    if (c->has_names) {
        GX_TRY(find_names(c, err));
        GX_TRY(go(c, start, err));
        GX_TRY(begin_row(c, &found, err));
    }
    GX_TRY(look_at_row(c, &first, err));
    GX_TRY(begin_row(c, &found, err));
    place below = here(c);
    if (found) {
        GX_TRY(look_at_row(c, &second, err));
    }
    bool is_header = c->has_names ? true
                     : options->has_header
                         ? options->header
                         : first.texts > 0 && (first.numbers == 0 || first.fields != second.fields);
    if (is_header && !found) {
        return gx_input_fail(c->im->in, err, 0, "has no rows below its header");
    }
    *start = is_header ? below : *start;
    c->has_header = is_header;
    c->first_line = start->line;
    c->fields = is_header ? second.fields : first.fields;
    return go(c, start, err);
}

// Passes ------------------------------------------------------------------------------------------

static gx_code count_rows(csv *c, gx_err *err)
{
    for (;; c->rows++) {
        bool found, more = true;
        GX_TRY(begin_row(c, &found, err));
        if (!found) {
            return GX_OK;
        }
        int64_t line = c->text.line, fields = 0;
        while (more) {
            field f;
            GX_TRY(read_field(c, &f, &more, err));
            if (!c->is_complex && may_be_complex(&f) && column_of(c, fields) >= 0) {
                gx_scalar value;
                bool is_complex;
                c->is_complex = parse_field(&f, &value, &is_complex) && is_complex;
            }
            fields++;
        }
        if (fields != c->fields) {
            return gx_input_fail(c->im->in, err, line, "%lld field%s, but line %lld has %lld",
                                 (long long)fields, fields == 1 ? "" : "s",
                                 (long long)c->first_line, (long long)c->fields);
        }
    }
}

static void store(gx_dtype dtype, void *at, gx_scalar value)
{
    switch (dtype) {
    case GX_F64:
        *(double *)at = value.re;
        break;
    case GX_F32:
        *(float *)at = (float)value.re;
        break;
    case GX_C128:
        *(gx_scalar *)at = value;
        break;
    default:
        ((float *)at)[0] = (float)value.re;
        ((float *)at)[1] = (float)value.im;
        break;
    }
}

/* The rows at hand into columns [j0, j0 + n) of a band of m rows. */
static gx_code fill_band(csv *c, int64_t m, int64_t j0, int64_t n, void *band, gx_err *err)
{
    gx_dtype dtype = c->im->dtype;
    for (int64_t i = 0; i < m; i++) {
        bool found, more;
        GX_TRY(begin_row(c, &found, err));
        more = found;
        int64_t line = c->text.line, fields = 0;
        for (; more; fields++) {
            field f;
            gx_scalar value;
            bool is_complex;
            GX_TRY(read_field(c, &f, &more, err));
            int64_t j = column_of(c, fields) - j0;
            if (j < 0 || j >= n) {
                continue;
            }
            if (!parse_field(&f, &value, &is_complex) ||
                (is_complex && !gx_dtype_is_complex(dtype))) {
                return bad_field(c, &f, fields, line, err);
            }
            store(dtype, gx_at(band, dtype, m, i, j), value);
        }
        if (fields != c->fields) {
            return gx_input_fail(c->im->in, err, 0, "changed while it was being read");
        }
    }
    return GX_OK;
}

static gx_code import_bands(csv *c, const place *start, gx_err *err)
{
    gx_import *im = c->im;
    int64_t m, n;
    size_t bytes = 0;
    void *band;
    gx_import_band(im, GX_ORDER_ROWS, BAND_BYTES, &m, &n);
    gx_matrix_bytes(m, n, im->dtype, &bytes);
    im->total = (double)im->in->size * (double)(1 + gx_ceil_div(im->cols, n));
    GX_TRY(gx_mem_alloc(im->mem, bytes, "a band of the matrix", &band, err));
    gx_code rc = go(c, start, err);
    for (int64_t i0 = 0; i0 < im->rows && rc == GX_OK; i0 += m) {
        place rows = here(c);
        rows.line++; // of the row to come
        int64_t height = gx_min(m, im->rows - i0);
        for (int64_t j0 = 0; j0 < im->cols && rc == GX_OK; j0 += n) {
            int64_t width = gx_min(n, im->cols - j0);
            rc = j0 > 0 ? go(c, &rows, err) : GX_OK;
            if (rc == GX_OK) {
                rc = fill_band(c, height, j0, width, band, err);
            }
            if (rc == GX_OK) {
                rc = im->to.write(im->to.arg, i0, j0, height, width, band, height, err);
            }
        }
    }
    gx_mem_free(im->mem, band);
    return rc;
}

static gx_code import_text(csv *c, gx_err *err)
{
    const gx_import_options *options = &c->im->options;
    place start = {0};
    if (options->columns != NULL) {
        GX_TRY(parse_columns(c, options->columns, err));
    }
    if (c->has_names && options->has_header && !options->header) {
        return gx_fail(err, GX_ARG, "columns are wanted by name, but \"header\" is false");
    }
    GX_TRY(skip_start(c, err));
    if (options->delimiter != '\0') {
        set_delimiter(c, options->delimiter);
    } else {
        GX_TRY(find_delimiter(c, err));
    }
    GX_TRY(find_rows(c, &start, err));
    GX_TRY(place_columns(c, err));
    GX_TRY(count_rows(c, err));
    GX_TRY(gx_import_begin(c->im, c->rows, c->cols, c->is_complex ? GX_C128 : GX_F64, 0, err));
    return import_bands(c, &start, err);
}

gx_code gx_import_csv(gx_import *im, gx_err *err)
{
    csv c = {.im = im};
    im->total = 2 * (double)im->in->size;
    gx_code rc = gx_textin_open(&c.text, im, err);
    if (rc == GX_OK) {
        rc = import_text(&c, err);
    }
    gx_mem_free(im->mem, c.map);
    gx_mem_free(im->mem, c.ranges);
    gx_textin_close(&c.text);
    return rc;
}

// Export ------------------------------------------------------------------------------------------

static char *put_complex(const gx_export *ex, const char *element, char *to)
{
    to = gx_export_number(ex, element, to);
    char *sign = to++;
    char *end = gx_export_number(ex, element + gx_dtype_bytes(ex->dtype) / 2, to);
    if (*to == '-') {
        memmove(sign, to, (size_t)(end - to));
        end--;
    } else {
        *sign = '+';
    }
    *end++ = 'j';
    return end;
}

static gx_code put_band(void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n, const void *src)
{
    gx_export *ex = arg;
    bool is_complex = gx_dtype_is_complex(ex->dtype);
    (void)i0;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            if (j % 4096 == 0 && gx_run_poll(ex->run) != GX_OK) {
                return GX_OK; // the run knows
            }
            const void *element = gx_at(src, ex->dtype, m, i, j);
            char *to = gx_output_room(&ex->out);
            to = is_complex ? put_complex(ex, element, to) : gx_export_number(ex, element, to);
            *to++ = j0 + j + 1 < ex->mat->cols ? ex->options.delimiter : '\n';
            gx_output_used(&ex->out, to);
        }
    }
    return ex->out.err.code;
}

gx_code gx_export_csv(gx_export *ex)
{
    return gx_export_walk(ex, GX_ORDER_ROWS, false, put_band, ex);
}
