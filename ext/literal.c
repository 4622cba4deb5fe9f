/*
** JSON literals: '[[1,2],[3,4]]', '[1, null, "1+2i", {"re":1,"im":2}]'.
**
**   literal = list of rows, or list of elements (a column)
**   row     = list of elements
**   element = number | null (NaN) | "number", "complex", "nan", "inf" | {"re":x,"im":y}
**
** Numbers are JSON's, and as Python, NumPy and Octave print them: NaN, Infinity, "5.", "+1".  9e999
** is infinite.  Where all are whole and f64 does not hold one, beyond 2^53, the matrix is of i64:
** no digit of the text is lost.
**
** Two passes over the text.  The first counts: rows from the opening brackets, columns from the
** first row's commas, and whether a string or object may be complex.  The second reads each element
** straight to its place in the column-major result and checks the counts.  So a literal of n
** elements takes the n elements of memory, from the governor, and a refusal can name row and
** column.  (A JSON library's tree would take eight times that, uncounted, and reads numbers of more
** than 63 characters wrongly; options, which are small, do use cJSON.)
*/
#include "gx_ext.h"

#include "../core/base/decimal.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { POLL_BYTES = 1 << 20 }; /* some ten milliseconds of reading */

typedef struct parser {
    gx_ctx *ctx;
    const char *label; /* of the argument */
    const char *c;     /* next byte       */
    const char *end;
    const char *polled; /* where sqlite3_interrupt() was last looked at                     */
    int64_t rows, cols; /* as counted                                                       */
    bool is_flat;       /* a list of elements                                               */
    bool may_complex;   /* elements are stored as pairs                                     */
    bool is_complex;    /* an element was                                                   */
    bool is_rounded;    /* f64 does not hold a whole number of the text                     */
    bool is_whole;      /* elements are read as i64, as long as all are                     */
    double *data;       /* column-major, rows x cols, pairs or not; NULL: it must be ragged */
    gx_err *err;
} parser;

static void skip_blanks(parser *p)
{
    while (p->c < p->end && (*p->c == ' ' || *p->c == '\n' || *p->c == '\t' || *p->c == '\r')) {
        p->c++;
    }
}

/* The byte at the cursor, '\0' at the end (which no rule accepts either). */
static char peek(parser *p)
{
    skip_blanks(p);
    return p->c < p->end ? *p->c : '\0';
}

static bool accept(parser *p, char expected)
{
    if (peek(p) != expected) {
        return false;
    }
    p->c++;
    return true;
}

/* Refuse what is at the cursor, naming the element. */
static gx_code refuse(parser *p, int64_t i, int64_t j, const char *expected)
{
    char shown[GX_SHOWN_BYTES], place[64];
    skip_blanks(p);
    if (p->is_flat) {
        snprintf(place, sizeof place, "element %" PRId64, i);
    } else {
        snprintf(place, sizeof place, "row %" PRId64 ", column %" PRId64, i, j);
    }
    if (p->c == p->end) {
        return gx_fail(p->err, GX_ARG, "%s ends at %s where %s is expected", p->label, place,
                       expected);
    }
    return gx_fail(p->err, GX_ARG, "%s has '%s' at %s where %s is expected", p->label,
                   gx_text_show(p->c, (size_t)(p->end - p->c), shown), place, expected);
}

// Counting ----------------------------------------------------------------------------------------

/* The end of the string that starts at c, or end. */
static const char *skip_string(const char *c, const char *end)
{
    const char *close = memchr(c + 1, '"', (size_t)(end - c - 1)); // no number needs an escape
    return close != NULL ? close : end;
}

/* What the first pass keeps. */
typedef struct tally {
    int depth, braces;
    int64_t lists;     // at depth 2: rows
    int64_t commas[2]; // of the outer list; of the first row
    bool is_filled[2]; // there is an element
} tally;

/* One byte outside strings.  Returns false at the bracket that closes the literal. */
static bool tally_byte(tally *t, char c)
{
    switch (c) {
    case '[':
        t->depth++;
        t->lists += t->depth == 2;
        return true;
    case ']':
        return --t->depth > 0;
    case ',':
        if (t->braces == 0 && (t->depth == 1 || (t->depth == 2 && t->lists == 1))) {
            t->commas[t->depth - 1]++;
        }
        return true;
    case ' ':
    case '\n':
    case '\t':
    case '\r':
        return true;
    default:
        t->braces += (c == '{') - (c == '}');
        if (t->depth == 1 || t->lists == 1) {
            t->is_filled[t->depth > 1] = true;
        }
        return true;
    }
}

/* Rows and columns as the brackets and commas say: right for every literal of the grammar. */
static void count(parser *p)
{
    tally t = {0};
    for (const char *c = p->c; c < p->end && tally_byte(&t, *c); c++) {
        p->may_complex = p->may_complex || *c == '"' || *c == '{';
        if (*c == '"') {
            const char *close = skip_string(c, p->end);
            c = close < p->end ? close : p->end - 1;
        }
    }
    p->is_flat = t.lists == 0;
    if (p->is_flat) {
        p->rows = t.is_filled[0] ? t.commas[0] + 1 : 0;
        p->cols = p->rows > 0 ? 1 : 0;
    } else {
        p->rows = t.lists;
        p->cols = t.is_filled[1] ? t.commas[1] + 1 : 0;
    }
}

// Elements ----------------------------------------------------------------------------------------

static gx_code parse_string(parser *p, int64_t i, int64_t j, gx_scalar *value)
{
    const char *close = skip_string(p->c, p->end);
    bool is_complex;
    if (close >= p->end || !gx_decimal_parse_complex(p->c + 1, close, value, &is_complex)) {
        return refuse(p, i, j, "a number such as \"1+2i\" or \"nan\"");
    }
    p->is_complex = p->is_complex || is_complex;
    p->c = close + 1;
    return GX_OK;
}

/* One of the two members of {"re":x,"im":y}, in either order. */
static bool parse_member(parser *p, gx_scalar *value, bool seen[2])
{
    if (peek(p) != '"' || p->end - p->c < 4 || p->c[3] != '"') {
        return false;
    }
    bool is_im = memcmp(p->c + 1, "im", 2) == 0;
    if (seen[is_im] || (!is_im && memcmp(p->c + 1, "re", 2) != 0)) {
        return false;
    }
    p->c += 4;
    if (!accept(p, ':')) {
        return false;
    }
    skip_blanks(p);
    seen[is_im] = true;
    double number;
    if (p->end - p->c >= 4 && memcmp(p->c, "null", 4) == 0) {
        number = (double)NAN;
        p->c += 4;
    } else if (!gx_decimal_parse(p->c, p->end, &p->c, &number)) {
        return false;
    }
    *(is_im ? &value->im : &value->re) = number;
    return true;
}

static gx_code parse_object(parser *p, int64_t i, int64_t j, gx_scalar *value)
{
    const char *start = p->c;
    bool seen[2] = {false, false};
    p->c++;
    *value = (gx_scalar){0, 0};
    if (!parse_member(p, value, seen) || !accept(p, ',') || !parse_member(p, value, seen) ||
        !accept(p, '}')) {
        p->c = start;
        return refuse(p, i, j, "{\"re\":x,\"im\":y}");
    }
    p->is_complex = true;
    return GX_OK;
}

/* The digits from start to end as they are, without a point or an exponent. */
static bool whole_of(const char *start, const char *end, int64_t *value)
{
    bool is_negative = *start == '-';
    uint64_t magnitude = 0, most = (uint64_t)INT64_MAX + is_negative;
    for (const char *c = start + (is_negative || *start == '+'); c < end; c++) {
        uint64_t digit = (uint64_t)*c - '0';
        if (digit > 9 || magnitude > (most - digit) / 10) {
            return false;
        }
        magnitude = 10 * magnitude + digit;
    }
    *value = (int64_t)(is_negative ? 0 - magnitude : magnitude);
    return true;
}

/* A whole number, in the bits of value->re where all are to be; none shorter is rounded. */
static void see_whole(parser *p, const char *start, gx_scalar *value)
{
    enum { SHORTEST = 16 };
    int64_t whole;
    if (!p->is_whole && p->c - start < SHORTEST) {
        return;
    }
    bool is_whole = whole_of(start, p->c, &whole);
    p->is_rounded = p->is_rounded || (is_whole && gx_dtype_inexact(GX_DTYPE_I64, &whole, 1) >= 0);
    p->is_whole = p->is_whole && is_whole;
    if (p->is_whole) {
        memcpy(&value->re, &whole, sizeof whole);
    }
}

static gx_code parse_element(parser *p, int64_t i, int64_t j, gx_scalar *value)
{
    *value = (gx_scalar){0, 0};
    switch (peek(p)) {
    case '"':
        return parse_string(p, i, j, value);
    case '{':
        return parse_object(p, i, j, value);
    case '[':
        return refuse(p, i, j, p->is_flat ? "a number (the list began with one)" : "a number");
    default:
        break;
    }
    if (p->end - p->c >= 4 && memcmp(p->c, "null", 4) == 0) {
        value->re = (double)NAN;
        p->c += 4;
        p->is_whole = false;
        return GX_OK;
    }
    const char *start = p->c;
    if (!gx_decimal_parse(start, p->end, &p->c, &value->re)) {
        return refuse(p, i, j, "a number");
    }
    see_whole(p, start, value);
    return GX_OK;
}

static void place(parser *p, int64_t i, int64_t j, gx_scalar value)
{
    int64_t at = j * p->rows + i;
    if (p->may_complex) {
        p->data[2 * at] = value.re;
        p->data[2 * at + 1] = value.im;
    } else {
        p->data[at] = value.re;
    }
}

/* Every POLL_BYTES of text, so that a very long literal can be interrupted. */
static gx_code poll(parser *p)
{
    if (p->c - p->polled < POLL_BYTES) {
        return GX_OK;
    }
    p->polled = p->c;
    return gx_store_is_interrupted(p->ctx->store) ? gx_fail(p->err, GX_INTERRUPT, "interrupted")
                                                  : GX_OK;
}

// Lists -------------------------------------------------------------------------------------------

/* The elements of row i up to and with its bracket; in a flat list, of the one column. */
static gx_code parse_list(parser *p, int64_t row, int64_t length)
{
    if (length == 0 && accept(p, ']')) {
        return GX_OK;
    }
    for (int64_t k = 0;; k++) {
        int64_t i = p->is_flat ? k : row, j = p->is_flat ? 0 : k;
        gx_scalar value;
        GX_TRY(parse_element(p, i, j, &value));
        if (k < length && p->data != NULL) {
            place(p, i, j, value);
        }
        GX_TRY(poll(p));
        if (accept(p, ',')) {
            continue;
        }
        if (peek(p) != ']') {
            return refuse(p, i, j, "',' or ']'");
        }
        p->c++;
        if (k + 1 != length) {
            return gx_fail(p->err, GX_ARG,
                           "%s is ragged: row 0 has %" PRId64 " element%s, row %" PRId64
                           " has %" PRId64,
                           p->label, p->cols, p->cols == 1 ? "" : "s", row, k + 1);
        }
        return GX_OK;
    }
}

static gx_code parse_rows(parser *p)
{
    for (int64_t i = 0;; i++) {
        if (!accept(p, '[')) {
            return refuse(p, i, 0, "a row '[...]'");
        }
        if (p->cols > 0 && peek(p) == ']') {
            return gx_fail(p->err, GX_ARG,
                           "%s is ragged: row 0 has %" PRId64 " element%s, row %" PRId64 " has 0",
                           p->label, p->cols, p->cols == 1 ? "" : "s", i);
        }
        GX_TRY(parse_list(p, i, p->cols));
        if (accept(p, ']')) {
            return GX_OK;
        }
        if (!accept(p, ',')) {
            return refuse(p, i + 1, 0, "',' or ']'");
        }
    }
}

static gx_code parse(parser *p, const char *text)
{
    p->c = p->polled = text + 1; // the caller saw the bracket
    GX_TRY(p->is_flat ? parse_list(p, 0, p->rows) : parse_rows(p));
    skip_blanks(p);
    if (p->c < p->end) {
        char shown[GX_SHOWN_BYTES];
        return gx_fail(p->err, GX_ARG, "%s goes on after its last bracket with '%s'", p->label,
                       gx_text_show(p->c, (size_t)(p->end - p->c), shown));
    }
    return GX_OK;
}

gx_code gx_literal_braces(const char *label, const char *text, size_t bytes, gx_err *err)
{
    const char *c = text, *end = text + bytes;
    char shown[GX_SHOWN_BYTES];
    double number;
    while (c < end && (*c == '{' || *c == ' ')) {
        c++;
    }
    bool is_null = end - c >= 4 && memcmp(c, "NULL", 4) == 0;
    if (c == text || *text != '{' || (!is_null && !gx_decimal_parse(c, end, &c, &number))) {
        return GX_OK;
    }
    return gx_fail(err, GX_ARG,
                   "%s is '%s', an array in braces as PostgreSQL writes it: a list is '[0.1,0.2]' "
                   "(replace(replace(x,'{','['),'}',']') makes it one)",
                   label, gx_text_show(text, bytes, shown));
}

gx_code gx_literal_parse(gx_ctx *ctx, const char *label, const char *text, size_t bytes,
                         gx_dtype *dtype, int64_t *rows, int64_t *cols, void **data, gx_err *err)
{
    parser p = {.ctx = ctx, .label = label, .c = text, .end = text + bytes, .err = err};
    *data = NULL;
    count(&p);
    int64_t elements;
    size_t size = 0;
    void *block = NULL;
    // More elements than bytes: some row is shorter than the first, and parsing will say which.
    bool is_possible = gx_mul_i64(p.rows, p.cols, &elements) && elements <= (int64_t)bytes;
    if (is_possible) {
        gx_matrix_bytes(p.rows, p.cols, p.may_complex ? GX_C128 : GX_F64, &size);
        GX_TRY(gx_mem_alloc(ctx->mem, size, "JSON literal", &block, err));
    }
    p.data = block;
    gx_code rc = parse(&p, text);
    if (rc == GX_OK && p.is_rounded && !p.may_complex) {
        p.is_whole = true;
        rc = parse(&p, text);
        rc = rc == GX_OK && !p.is_whole ? parse(&p, text) : rc; // others are between them
    }
    if (rc != GX_OK) {
        gx_mem_free(ctx->mem, block);
        return rc;
    }
    assert(is_possible);
    if (p.may_complex && !p.is_complex) { // strings such as "nan": keep the real parts
        for (int64_t k = 0; k < p.rows * p.cols; k++) {
            p.data[k] = p.data[2 * k];
        }
    }
    *dtype = p.is_complex ? GX_DTYPE_C128 : p.is_whole ? GX_DTYPE_I64 : GX_DTYPE_F64;
    *rows = p.rows;
    *cols = p.cols;
    *data = block;
    return GX_OK;
}
