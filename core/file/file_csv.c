/*
** Text with delimiters: CSV, TSV, columns of numbers.
**
** Left out are blank lines, comments (file_csv_field.c says which), and a byte order mark.  A field
** is a number, a complex number (1+2i, (1-2j)), nan, inf, or it is missing, which is NaN: nothing,
** NA, N/A, #N/A, <NA>, None, null, and what the option "na" lists.
**
** What is not said is found out.  The delimiter: the first of tab ; , | that the second line has
** outside quotes, else blanks (the first line, which may be names, decides where it is alone); a
** comma is none where it is the decimal mark.  The header: the first line is one when its fields
** are names, all that are not empty, or columns are wanted by their names.  A number in it, alone
** or with something else (5 kg), makes it a row: it is read, or refused, never lost.  What was
** taken for a header is noted.  dtype: c128 when a field is complex, else f64.
**
** Import: two passes.  The first counts rows and fields and looks for complex numbers; the
** second reads numbers into bands of whole tiles, row by row.  Where the budget does not hold a
** row of tiles, a band of rows is passed over once for each group of tile columns.  Rows may
** have any length; a field that is a number fits GX_TEXT_LONGEST bytes.
*/
#include "../base/decimal.h"
#include "../base/names.h"
#include "file_csv.h"

#include <stdio.h>
#include <string.h>

static const size_t BAND_BYTES = (size_t)32 << 20; /* a larger band reads no faster */

typedef gx_csv csv;
typedef gx_csv_range range;
typedef gx_csv_field field;

/* A place in the file where a row starts, or where the comment stands that ends the one before. */
typedef struct place {
    int64_t offset, line;
    bool is_at_comment;
} place;

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
    return (place){gx_textin_offset(&c->text), c->text.line, c->is_at_comment};
}

static gx_code go(csv *c, const place *p, gx_err *err)
{
    c->is_at_comment = p->is_at_comment;
    return gx_textin_seek(&c->text, p->offset, p->line, c->im->in->size, err);
}

/* So many looks were taken at fields and ranges: now and then, is the caller to stop? */
static gx_code poll(csv *c, int64_t looks, gx_err *err)
{
    const int64_t OFTEN = 1 << 20;
    c->looks += looks;
    if (c->looks < OFTEN) {
        return GX_OK;
    }
    c->looks = 0;
    return gx_import_poll(c->im, err);
}

/* Byte order mark, and the lines that the caller does not want. */
static gx_code skip_start(csv *c, gx_err *err)
{
    gx_textin *t = &c->text;
    if (t->end - t->at >= 3 && memcmp(t->at, "\xef\xbb\xbf", 3) == 0) {
        t->at += 3;
    }
    for (int64_t k = 0; k < c->im->options.skip; k++) {
        if (t->at == t->end && gx_textin_is_last(t)) {
            return gx_input_fail(c->im->in, err, 0,
                                 "has %lld line%s, of which \"skip\" leaves out the first %lld",
                                 (long long)k, k == 1 ? "" : "s", (long long)c->im->options.skip);
        }
        t->line++;
        GX_TRY(gx_csv_skip_line(c, err));
    }
    return GX_OK;
}

/* The first byte of the field, between these delimiters or blanks, that p is in. */
static const char *field_start(const char *first, const char *p)
{
    while (p > first && (p[-1] == ' ' || p[-1] == '\t')) {
        p--;
    }
    while (p > first && strchr("\t;,| ", p[-1]) == NULL) {
        p--;
    }
    return p;
}

/* The delimiter of the line at hand, 0 when it has none. */
static char guess_delimiter(const csv *c)
{
    const gx_textin *t = &c->text;
    bool seen[256] = {false}, is_quoted = false;
    const char *end = t->at + gx_min(t->end - t->at, t->ahead);
    const char *first = gx_csv_skip_blanks(c, t->at, end), *p = first;
    while (end > p && (end[-1] == ' ' || end[-1] == '\n' || end[-1] == '\r')) {
        end--;
    }
    for (; p < end && (is_quoted || (*p != '\n' && *p != '\r')); p++) {
        if (*p == '#' && !is_quoted && gx_csv_is_comment(c, field_start(first, p), p, end)) {
            break;
        }
        is_quoted ^= *p == '"';
        // Blanks count between fields, not before the end of the line or a comment.
        bool is_inside = *p != ' ' || (p + 1 < end && strchr(" \r\n#", p[1]) == NULL);
        seen[(unsigned char)*p] |= !is_quoted && is_inside;
    }
    seen[','] &= c->im->options.decimal != ',';
    const char *const order = "\t;,| ", *found = order;
    while (*found != '\0' && !seen[(unsigned char)*found]) {
        found++;
    }
    return *found;
}

static gx_code find_delimiter(csv *c, gx_err *err)
{
    place start = here(c);
    start.line++; // gx_textin_seek() takes the number of the line to come
    char guess = '\0';
    bool found;
    gx_csv_set_delimiter(c, '\t'); // so that a line of tabs is not blank
    for (int line = 0; line < 2; line++) {
        GX_TRY(gx_csv_begin_row(c, &found, err));
        if (found) {
            GX_TRY(gx_textin_need(&c->text, err));
            guess = guess_delimiter(c);
            GX_TRY(gx_csv_skip_line(c, err));
        }
    }
    gx_csv_set_delimiter(c, guess != '\0' ? guess : c->im->options.decimal == ',' ? ';' : ',');
    return go(c, &start, err);
}

/* One row: its fields; how many of the wanted ones are names, numbers, something else. */
typedef struct row_look {
    int64_t fields, names, numbers, others;
} row_look;

static gx_code look_at_row(csv *c, row_look *look, gx_err *err)
{
    *look = (row_look){0};
    bool more = true;
    while (more) {
        field f;
        gx_scalar value;
        bool is_complex;
        GX_TRY(gx_csv_read_field(c, &f, &more, err));
        if (is_wanted(c, look->fields) && (f.is_long || f.at < f.end)) {
            bool is_number = gx_csv_parse(c, &f, &value, &is_complex);
            bool is_name = !is_number && gx_csv_is_name(&f);
            look->names += is_name;
            look->numbers += is_number;
            look->others += !is_name && !is_number;
        }
        look->fields++;
        GX_TRY(poll(c, 1 + c->range_count, err));
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
        GX_TRY(gx_csv_read_field(c, &f, &more, err));
        for (int64_t r = 0; r < c->range_count && !f.is_long; r++) {
            range *wanted = &c->ranges[r];
            if (wanted->start < 0 && wanted->name_bytes == f.end - f.at &&
                memcmp(wanted->name, f.at, (size_t)wanted->name_bytes) == 0) {
                wanted->start = k;
                wanted->stop = k + 1;
            }
        }
        GX_TRY(poll(c, 1 + c->range_count, err));
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

/* Say what was taken for a header: nobody asked for that. */
static gx_code note_header(csv *c, const place *start, gx_err *err)
{
    char shown[GX_TOKEN_SHOWN], text[160];
    const gx_textin *t = &c->text;
    if (c->im->to.note == NULL) {
        return GX_OK;
    }
    GX_TRY(go(c, start, err));
    const char *end = t->at;
    while (end < t->end && *end != '\n' && *end != '\r') {
        end++;
    }
    snprintf(text, sizeof text, "%.60s: line %lld, '%s', was taken for a header", c->im->in->name,
             (long long)start->line, gx_token_show(t->at, end - t->at, shown));
    c->im->to.note(c->im->to.arg, text);
    return GX_OK;
}

/* Leave the *header out, when there is one.  *start: where the rows of numbers begin. */
static gx_code find_rows(csv *c, place *header, place *start, gx_err *err)
{
    const gx_import_options *options = &c->im->options;
    bool found;
    row_look first, second = {0};
    GX_TRY(gx_csv_begin_row(c, &found, err));
    if (!found) {
        return gx_input_fail(c->im->in, err, 0, "has no rows");
    }
    *start = here(c);
    if (c->has_names) {
        GX_TRY(find_names(c, err));
        GX_TRY(go(c, start, err));
        GX_TRY(gx_csv_begin_row(c, &found, err));
    }
    GX_TRY(look_at_row(c, &first, err));
    GX_TRY(gx_csv_begin_row(c, &found, err));
    place below = here(c);
    if (found) {
        GX_TRY(look_at_row(c, &second, err));
    }
    bool is_guess = !c->has_names && !options->has_header;
    bool is_header = is_guess ? first.names > 0 && first.numbers + first.others == 0
                              : c->has_names || options->header;
    if (is_header && !found) {
        return gx_input_fail(c->im->in, err, 0, "has no rows below its header");
    }
    if (is_header && is_guess) {
        GX_TRY(note_header(c, start, err));
    }
    *header = *start;
    *start = is_header ? below : *start;
    c->has_header = is_header;
    c->has_words = !is_header && first.others + first.names > 0;
    c->first_line = start->line;
    c->fields = is_header ? second.fields : first.fields;
    return go(c, start, err);
}

// Passes ------------------------------------------------------------------------------------------

static gx_code count_rows(csv *c, gx_err *err)
{
    for (;; c->rows++) {
        bool found, more = true;
        GX_TRY(gx_csv_begin_row(c, &found, err));
        if (!found) {
            return GX_OK;
        }
        int64_t line = c->text.line, fields = 0;
        while (more) {
            field f;
            GX_TRY(gx_csv_read_field(c, &f, &more, err));
            if (!c->is_complex && gx_csv_may_be_complex(&f) && column_of(c, fields) >= 0) {
                gx_scalar value;
                bool is_complex;
                c->is_complex = gx_csv_parse(c, &f, &value, &is_complex) && is_complex;
            }
            fields++;
        }
        if (fields != c->fields) {
            const char *advice = c->fields == 1 && c->im->options.delimiter == '\0'
                                     ? " ('{\"delimiter\":...}' says what stands between fields)"
                                 : c->has_words ? " ('{\"header\":true}' leaves that line out)"
                                                : "";
            return gx_input_fail(c->im->in, err, line, "%lld field%s, but line %lld has %lld%s",
                                 (long long)fields, fields == 1 ? "" : "s",
                                 (long long)c->first_line, (long long)c->fields, advice);
        }
    }
}

/* The rows at hand into columns [j0, j0 + n) of a band of m rows. */
static gx_code fill_band(csv *c, int64_t m, int64_t j0, int64_t n, void *band, gx_err *err)
{
    gx_number dtype = c->im->dtype;
    for (int64_t i = 0; i < m; i++) {
        bool found, more;
        GX_TRY(gx_csv_begin_row(c, &found, err));
        more = found;
        int64_t line = c->text.line, fields = 0;
        for (; more; fields++) {
            field f;
            gx_scalar value;
            bool is_complex;
            GX_TRY(gx_csv_read_field(c, &f, &more, err));
            int64_t j = column_of(c, fields) - j0;
            if (j < 0 || j >= n) {
                continue;
            }
            if (!gx_csv_parse(c, &f, &value, &is_complex) ||
                (is_complex && !gx_number_is_complex(dtype))) {
                return gx_csv_bad_field(c, &f, fields, line, err);
            }
            gx_number_put(dtype, band, j * m + i, value);
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
                rc = gx_import_write(im, i0, j0, height, width, band, err);
            }
        }
    }
    gx_mem_free(im->mem, band);
    return rc;
}

// Names -------------------------------------------------------------------------------------------

/* One as it stands in a list of base/names.h; NULL: none. */
typedef struct name {
    const char *text;
    size_t bytes;
} name;

/* A field of the header, its quotes once, in quotes at text; returns where it ends. */
static char *take_title(const csv *c, const field *f, char *text)
{
    bool is_quoted = f->at > c->text.buffer && f->at[-1] == '"';
    char *plain = text + (f->end - f->at) + 2, *to = plain; // what is quoted never overtakes it
    for (const char *p = f->at; p < f->end && *p != '\0'; p++) {
        *to++ = *p;
        p += is_quoted && *p == '"' && p + 1 < f->end && p[1] == '"';
    }
    *to = '\0';
    gx_text_clean(plain); // so that a character becomes at most two
    return text + gx_names_quote(plain, strlen(plain), text);
}

/* The names of the columns, in the order of these; a header of another length names none. */
static gx_code read_titles(csv *c, const place *header, name *list, char *text, gx_err *err)
{
    bool found, more;
    int64_t fields = 0;
    GX_TRY(go(c, header, err));
    GX_TRY(gx_csv_begin_row(c, &found, err));
    for (more = found; more; fields++) {
        field f;
        GX_TRY(gx_csv_read_field(c, &f, &more, err));
        int64_t j = column_of(c, fields);
        if (j >= 0 && j < c->cols && !f.is_long && f.at < f.end) {
            char *end = take_title(c, &f, text);
            list[j] = (name){text, (size_t)(end - text)};
            text = end;
        }
        GX_TRY(poll(c, 1, err));
    }
    if (fields != c->fields) {
        memset(list, 0, (size_t)c->cols * sizeof *list);
    }
    return GX_OK;
}

static void join(const name *list, int64_t count, char *to)
{
    *to++ = '[';
    for (int64_t j = 0; j < count; j++) {
        size_t bytes = list[j].text == NULL ? 4 : list[j].bytes;
        memcpy(to, list[j].text == NULL ? "null" : list[j].text, bytes);
        to += bytes;
        *to++ = j + 1 < count ? ',' : ']';
    }
    *to = '\0';
}

/* The target gets the names that the header gives, where memory holds them. */
static gx_code name_columns(csv *c, const place *header, const place *below, gx_err *err)
{
    gx_mem *mem = c->im->mem;
    size_t bytes = 2 * (size_t)(below->offset - header->offset) + 8 * (size_t)c->cols + 16;
    size_t list_bytes = (size_t)c->cols * sizeof(name);
    void *list, *text = NULL, *names = NULL;
    if (c->im->to.names == NULL || c->cols == 0) {
        return GX_OK;
    }
    if (gx_mem_available(mem) / 2 < 2 * bytes + list_bytes) {
        c->im->to.note(c->im->to.arg, "memory is short for the names of the columns");
        return GX_OK;
    }
    GX_TRY(gx_mem_calloc(mem, list_bytes, "names of columns", &list, err));
    gx_code rc = gx_mem_alloc(mem, bytes, "names of columns", &text, err);
    rc = rc == GX_OK ? read_titles(c, header, list, text, err) : rc;
    rc = rc == GX_OK ? gx_mem_alloc(mem, bytes, "names of columns", &names, err) : rc;
    bool is_named = false;
    for (int64_t j = 0; rc == GX_OK && j < c->cols; j++) {
        is_named |= ((const name *)list)[j].text != NULL;
    }
    if (rc == GX_OK && is_named) {
        join(list, c->cols, names);
        c->im->to.names(c->im->to.arg, names);
        names = NULL;
    }
    gx_mem_free(mem, names);
    gx_mem_free(mem, text);
    gx_mem_free(mem, list);
    return rc;
}

static gx_code import_text(csv *c, gx_err *err)
{
    const gx_import_options *options = &c->im->options;
    place header = {0}, start = {0};
    if (options->columns != NULL) {
        GX_TRY(parse_columns(c, options->columns, err));
    }
    if (c->has_names && options->has_header && !options->header) {
        return gx_fail(err, GX_ARG, "columns are wanted by name, but \"header\" is false");
    }
    GX_TRY(skip_start(c, err));
    if (options->delimiter != '\0') {
        gx_csv_set_delimiter(c, options->delimiter);
    } else {
        GX_TRY(find_delimiter(c, err));
    }
    GX_TRY(find_rows(c, &header, &start, err));
    GX_TRY(place_columns(c, err));
    GX_TRY(count_rows(c, err));
    GX_TRY(gx_import_begin(c->im, c->rows, c->cols, c->is_complex ? GX_DTYPE_C128 : GX_DTYPE_F64, 0,
                           err));
    GX_TRY(c->has_header ? name_columns(c, &header, &start, err) : GX_OK);
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
