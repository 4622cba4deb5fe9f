/*
** Matrix Market exchange files (Boisvert, Pozo, Remington: Matrix Market Exchange Formats, 1996),
** read; file_text_out.c writes them.
**
**   %%MatrixMarket matrix coordinate|array real|complex|integer|pattern
**                         general|symmetric|skew-symmetric|hermitian
**   % comments
**   rows cols entries           coordinate: then one line "row col value" an entry, from 1, any
**   order rows cols                   array: then one line an element, column by column
**
** Keywords in any case, blank lines anywhere, numbers separated by blanks; a complex value is two
** numbers, a pattern has none and means 1.  Of a symmetric or Hermitian matrix only one triangle is
** there, of a skew-symmetric one without its diagonal: the rest is mirrored.
**
** The format leaves open, or readers differ, and here it is so, as in SciPy where that loses
** nothing: before the first line there may be a byte order mark and blanks, and it may begin with
** one %; comments are accepted between entries and behind them, with blanks before them; entries
** given twice are added; an entry above the diagonal of a symmetric matrix stands for its mirror
** image, but not in a file that has both triangles, which is refused; a hermitian matrix of real
** numbers is a symmetric one; a skew-symmetric one may say that its diagonal is 0; Fortran's
** exponents (1.0D+05), inf and nan are numbers; a value of an integer matrix is a whole number
** however it is written (1e3), and beyond 2^53 is rounded to the nearest double; an imaginary part
** on the diagonal of a Hermitian matrix and anything behind the last number of a line are refused.
** "unsigned-integer", which SciPy writes, is integer, and "double" is real.
**
** Import: entries come in any order, so they are scattered into the largest band of whole tiles
** that the budget holds.  The first pass checks the whole file, fills the first band and notes
** for each other band which stretch of the file has its entries; one pass over the stretch fills
** each.  A matrix that fits is one pass; a larger one in column order two; entries in random
** order one pass a band.
**
** Both triangles: the places above and below the diagonal are each summed up as hashes.  Where the
** sums agree, each entry has its mirror image in the file.
**
** A sparse result needs no bands: its entries go, in one pass, to whoever sorts them.
*/
#include "../base/decimal.h"
#include "../mat/assembly.h"
#include "file_int.h"

#include <math.h>
#include <string.h>

typedef enum field { REAL, COMPLEX, INTEGER, PATTERN } field;
typedef enum symmetry { GENERAL, SYMMETRIC, SKEW, HERMITIAN } symmetry;

static const char *const field_words[] = {"real", "complex", "integer", "pattern"};
static const char *const symmetry_words[] = {"general", "symmetric", "skew-symmetric", "hermitian"};

/* A file that is being read. */
typedef struct mtx {
    gx_import *im;
    gx_textin text;
    bool is_coordinate;
    field field;
    symmetry symmetry;
    int64_t rows, cols;
    int64_t entries;    /* that the size line announces or implies   */
    int64_t size_line;  /* its number                                */
    int64_t i, j;       /* array: where the next element belongs     */
    int64_t above;      /* entries above the diagonal                */
    int64_t above_line; /* of the first of them                      */
    uint64_t places[2]; /* hashes of those below and above           */
} mtx;

typedef struct entry {
    int64_t i, j; /* from 0 */
    double re, im;
} entry;

// Lines and numbers -------------------------------------------------------------------------------

enum { TOKENS_MOST = 6 }; /* the banner has 5; one more shows that there is too much */

typedef struct token {
    const char *at, *end;
} token;

/* The tokens of a line up to a comment behind them, at most TOKENS_MOST of them. */
static int split(const char *c, const char *end, token tokens[TOKENS_MOST])
{
    int count = 0;
    for (;;) {
        while (c < end && (*c == ' ' || *c == '\t' || *c == '\r')) {
            c++;
        }
        if (c == end || count == TOKENS_MOST || (*c == '%' && count > 0)) {
            return count;
        }
        tokens[count].at = c;
        while (c < end && *c != ' ' && *c != '\t' && *c != '\r') {
            c++;
        }
        tokens[count++].end = c;
    }
}

/* The next line that is neither blank nor a comment; count 0 at the end of the file. */
static gx_code next_line(mtx *m, token tokens[TOKENS_MOST], int *count, gx_err *err)
{
    const char *line, *end;
    do {
        GX_TRY(gx_textin_line(&m->text, '%', &line, &end, err));
        *count = line != NULL ? split(line, end, tokens) : 0;
        *count = *count > 0 && *tokens[0].at == '%' ? 0 : *count; // with blanks before it
    } while (*count == 0 && line != NULL);
    return GX_OK;
}

static gx_code bad_token(const mtx *m, token t, const char *what, gx_err *err)
{
    char shown[GX_TOKEN_SHOWN];
    bool has_comma = memchr(t.at, ',', (size_t)(t.end - t.at)) != NULL;
    return gx_input_fail(m->im->in, err, m->text.line, "'%s' is not %s%s",
                         gx_token_show(t.at, t.end - t.at, shown), what,
                         has_comma ? " (blanks stand between numbers, and '.' in them)" : "");
}

/* 1.0D+05 with an e in the place of the letter. */
static bool parse_fortran(token t, const char *letter, double *value)
{
    char copy[64];
    size_t length = (size_t)(t.end - t.at);
    if (length > sizeof copy || (*letter | 0x20) != 'd') {
        return false;
    }
    memcpy(copy, t.at, length);
    copy[letter - t.at] = 'e';
    const char *stop;
    return gx_decimal_parse(copy, copy + length, &stop, value) && stop == copy + length;
}

static gx_code parse_value(const mtx *m, token t, double *value, gx_err *err)
{
    const char *stop;
    bool is_number = gx_decimal_parse(t.at, t.end, &stop, value) &&
                     (stop == t.end || parse_fortran(t, stop, value));
    bool is_whole = is_number && floor(*value) == *value && isfinite(*value);
    if (m->field == INTEGER && !is_whole) {
        return bad_token(
            m, t, is_number ? "an integer (\"real\" in line 1 is for those)" : "an integer", err);
    }
    return is_number ? GX_OK : bad_token(m, t, "a number", err);
}

/* An index from 1 to most, to one from 0. */
static gx_code parse_index(const mtx *m, token t, const char *what, int64_t most, int64_t *index,
                           gx_err *err)
{
    if (!gx_decimal_parse_i64(t.at, t.end, index)) {
        return bad_token(m, t, "an index", err);
    }
    if (*index < 1 || *index > most) {
        return gx_input_fail(m->im->in, err, m->text.line, "%s %lld is outside 1..%lld", what,
                             (long long)*index, (long long)most);
    }
    --*index;
    return GX_OK;
}

// Banner and size ---------------------------------------------------------------------------------

static bool is_word(token t, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(t.end - t.at) != length) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        char lower = t.at[i] >= 'A' && t.at[i] <= 'Z' ? (char)(t.at[i] | 0x20) : t.at[i];
        if (lower != word[i]) {
            return false;
        }
    }
    return true;
}

/* Which of 4 words; -1: none. */
static int find_word(token t, const char *const words[4])
{
    for (int i = 0; i < 4; i++) {
        if (is_word(t, words[i])) {
            return i;
        }
    }
    return -1;
}

/* The first line that is not blank, behind a byte order mark, as its words. */
static gx_code find_banner(mtx *m, token t[TOKENS_MOST], int *count, gx_err *err)
{
    const char *line, *end;
    if (m->text.end - m->text.at >= 3 && memcmp(m->text.at, "\xef\xbb\xbf", 3) == 0) {
        m->text.at += 3;
    }
    do {
        GX_TRY(gx_textin_line(&m->text, '\0', &line, &end, err));
        *count = line != NULL ? split(line, end, t) : 0;
    } while (line != NULL && *count == 0);
    if (*count == 0 || (!is_word(t[0], "%%matrixmarket") && !is_word(t[0], "%matrixmarket"))) {
        return gx_input_fail(m->im->in, err, 0,
                             "is no Matrix Market file: it does not start with %%%%MatrixMarket");
    }
    return GX_OK;
}

static gx_code read_banner(mtx *m, gx_err *err)
{
    token t[TOKENS_MOST];
    int count;
    GX_TRY(find_banner(m, t, &count, err));
    if (count != 5) {
        return gx_input_fail(m->im->in, err, m->text.line,
                             "expected 4 words behind %%%%MatrixMarket (matrix, format, field, "
                             "symmetry), found %s%d",
                             count > 5 ? "more than " : "", count > 5 ? 4 : count - 1);
    }
    if (!is_word(t[1], "matrix")) {
        return bad_token(m, t[1], "an object that is known (matrix)", err);
    }
    m->is_coordinate = is_word(t[2], "coordinate");
    if (!m->is_coordinate && !is_word(t[2], "array")) {
        return bad_token(m, t[2], "a format (coordinate, array)", err);
    }
    int kind = is_word(t[3], "unsigned-integer") ? INTEGER
               : is_word(t[3], "double")         ? REAL
                                                 : find_word(t[3], field_words);
    if (kind < 0) {
        return bad_token(m, t[3], "a field (real, complex, integer, pattern)", err);
    }
    m->field = (field)kind;
    kind = find_word(t[4], symmetry_words);
    if (kind < 0) {
        return bad_token(m, t[4], "a symmetry (general, symmetric, skew-symmetric, hermitian)",
                         err);
    }
    m->symmetry = kind == HERMITIAN && m->field != COMPLEX ? SYMMETRIC : (symmetry)kind;
    if (m->field == PATTERN && !m->is_coordinate) {
        return gx_input_fail(m->im->in, err, m->text.line,
                             "a pattern is for the coordinate format, not array");
    }
    return GX_OK;
}

/* How many elements an array has: all, or those of the triangle. */
static int64_t count_elements(const mtx *m)
{
    int64_t n = m->rows;
    return m->symmetry == GENERAL ? n * m->cols
           : m->symmetry == SKEW  ? n * (n - 1) / 2
                                  : n * (n + 1) / 2;
}

static gx_code read_size(mtx *m, gx_err *err)
{
    token t[TOKENS_MOST];
    int count, wanted = m->is_coordinate ? 3 : 2;
    int64_t size[3];
    GX_TRY(next_line(m, t, &count, err));
    if (count == 0) {
        return gx_input_fail(m->im->in, err, 0, "ends before its size line");
    }
    m->size_line = m->text.line;
    if (count != wanted) {
        return gx_input_fail(m->im->in, err, m->size_line, "expected %s, found %d number%s",
                             wanted == 3 ? "rows, columns and entries" : "rows and columns", count,
                             count == 1 ? "" : "s");
    }
    for (int i = 0; i < wanted; i++) {
        if (!gx_decimal_parse_i64(t[i].at, t[i].end, &size[i]) || size[i] < 0) {
            return bad_token(m, t[i], "a size", err);
        }
    }
    size_t bytes;
    m->rows = size[0];
    m->cols = size[1];
    if (!gx_matrix_bytes(m->rows, m->cols, GX_F32, &bytes)) {
        return gx_input_fail(m->im->in, err, m->size_line, "%lldx%lld: " GX_SIZES_TEXT,
                             (long long)m->rows, (long long)m->cols);
    }
    if (m->symmetry != GENERAL && m->rows != m->cols) {
        return gx_input_fail(m->im->in, err, m->size_line, "a %s matrix is square, not %lldx%lld",
                             symmetry_words[m->symmetry], (long long)m->rows, (long long)m->cols);
    }
    m->entries = m->is_coordinate ? size[2] : count_elements(m);
    m->j = 0;
    m->i = m->symmetry == SKEW ? 1 : 0;
    return GX_OK;
}

// Entries -----------------------------------------------------------------------------------------

/* A number for a place, as good as a random one (the finisher of splitmix64). */
static uint64_t hash_place(int64_t i, int64_t j)
{
    uint64_t x = (uint64_t)i * 0x9e3779b97f4a7c15U + (uint64_t)j + 1;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

/* What the diagonal of a matrix of that symmetry cannot have; counts what lies beside it. */
static gx_code check_place(mtx *m, const entry *e, gx_err *err)
{
    if (m->symmetry == GENERAL) {
        return GX_OK;
    }
    if (e->i != e->j) {
        bool is_above = e->i < e->j;
        m->places[is_above] += hash_place(gx_max(e->i, e->j), gx_min(e->i, e->j));
        m->above_line = is_above && m->above == 0 ? m->text.line : m->above_line;
        m->above += is_above;
        return GX_OK;
    }
    bool is_skewed = m->symmetry == SKEW && (e->re != 0 || e->im != 0);
    if (is_skewed || (m->symmetry == HERMITIAN && e->im != 0)) {
        return gx_input_fail(m->im->in, err, m->text.line,
                             "entry (%lld, %lld) on the diagonal of a %s matrix %s (general in "
                             "line 1 is for others)",
                             (long long)e->i + 1, (long long)e->j + 1, symmetry_words[m->symmetry],
                             is_skewed ? "is not 0" : "has an imaginary part");
    }
    return GX_OK;
}

/* Behind the last entry: does each have its mirror image, and would be taken twice? */
static gx_code check_triangles(const mtx *m, gx_err *err)
{
    if (m->above == 0 || m->places[0] != m->places[1]) {
        return GX_OK;
    }
    return gx_input_fail(m->im->in, err, m->above_line,
                         "the file of a %s matrix has one triangle, but this has both: say general "
                         "in line 1",
                         symmetry_words[m->symmetry]);
}

/* Array: where the next element belongs. */
static void step(mtx *m)
{
    if (++m->i == m->rows) {
        m->j++;
        m->i = m->symmetry == GENERAL ? 0 : m->symmetry == SKEW ? m->j + 1 : m->j;
    }
}

/* The next entry; *found false at the end of the file. */
static gx_code next_entry(mtx *m, entry *e, bool *found, gx_err *err)
{
    token t[TOKENS_MOST];
    int count;
    static const int values[] = {[REAL] = 1, [COMPLEX] = 2, [INTEGER] = 1, [PATTERN] = 0};
    int indexes = m->is_coordinate ? 2 : 0, wanted = indexes + values[m->field];
    GX_TRY(next_line(m, t, &count, err));
    *found = count > 0;
    if (count == 0) {
        return GX_OK;
    }
    if (m->field == PATTERN && count == wanted + 1) {
        count = wanted; // a value all the same: others write it, and nobody reads it
    }
    if (count != wanted) {
        const char *advice = m->is_coordinate && m->field != COMPLEX && count == 4
                                 ? " (complex values are \"complex\" in line 1)"
                             : !m->is_coordinate && count > wanted ? " (an element a line)"
                                                                   : "";
        return gx_input_fail(m->im->in, err, m->text.line, "expected %d number%s, found %d%s%s",
                             wanted, wanted == 1 ? "" : "s", count,
                             count == TOKENS_MOST ? " or more" : "", advice);
    }
    *e = (entry){.re = 1};
    if (m->is_coordinate) {
        GX_TRY(parse_index(m, t[0], "row", m->rows, &e->i, err));
        GX_TRY(parse_index(m, t[1], "column", m->cols, &e->j, err));
    } else {
        e->i = m->i;
        e->j = m->j;
        step(m);
    }
    if (wanted > indexes) {
        GX_TRY(parse_value(m, t[indexes], &e->re, err));
    }
    if (m->field == COMPLEX) {
        GX_TRY(parse_value(m, t[indexes + 1], &e->im, err));
    }
    return check_place(m, e, err);
}

// Bands -------------------------------------------------------------------------------------------

/*
** The stretch of the file that has the entries of one band, and where an array stands at its
** start.
*/
typedef struct stretch {
    int64_t start, stop; /* offsets; start == stop: none */
    int64_t line, i, j;
} stretch;

/* A rectangle of the matrix in memory: band number b, counted down the columns first. */
typedef struct scatter {
    mtx *m;
    int64_t height, width;   /* of a band          */
    int64_t down, count;     /* bands in a column, in all */
    int64_t b;               /* the one in memory   */
    int64_t i0, j0, rows, cols;
    void *elements;          /* column-major, ld = rows; NULL: cells of the target */
    gx_err err;              /* of a cell that was not taken */
    stretch *stretches;      /* count of them; NULL for one band */
} scatter;

/*
** Add to the element; an array gives each once, and a sum with 0 would lose the sign of its
** zero.
*/
static void add(scatter *s, int64_t i, int64_t j, double re, double im)
{
    gx_number dtype = s->m->im->dtype;
    int64_t at = (j - s->j0) * s->rows + i - s->i0;
    gx_scalar old = gx_number_get(dtype, s->elements, at);
    bool is_sum = s->m->is_coordinate;
    gx_number_put(dtype, s->elements, at,
                  is_sum ? (gx_scalar){old.re + re, old.im + im} : (gx_scalar){re, im});
}

/* Into the band in memory, or to the notes of another. */
static void place(scatter *s, int64_t i, int64_t j, double re, double im, const stretch *here)
{
    if (s->elements == NULL) {
        const gx_import_target *to = &s->m->im->to;
        (void)(s->err.code == GX_OK ? to->cell(to->arg, i, j, (gx_scalar){re, im}, &s->err) : 0);
        return;
    }
    int64_t b = s->count == 1 ? 0 : i / s->height + j / s->width * s->down;
    if (b == s->b) {
        add(s, i, j, re, im);
    } else if (here != NULL) {
        stretch *noted = &s->stretches[b];
        if (noted->start == noted->stop) {
            *noted = *here;
        }
        noted->stop = here->stop;
    }
}

/* An entry and its mirror image. */
static void place_both(scatter *s, const entry *e, const stretch *here)
{
    place(s, e->i, e->j, e->re, e->im, here);
    if (s->m->symmetry != GENERAL && e->i != e->j) {
        double sign_re = s->m->symmetry == SKEW ? -1 : 1;
        double sign_im = s->m->symmetry == SYMMETRIC ? 1 : -1;
        place(s, e->j, e->i, sign_re * e->re, sign_im * e->im, here);
    }
}

/* Check the whole file, fill band 0, note the stretches of the others. */
static gx_code first_pass(scatter *s, gx_err *err)
{
    mtx *m = s->m;
    entry e;
    bool found = true;
    for (int64_t k = 0; k < m->entries; k++) {
        stretch here = {.start = gx_textin_offset(&m->text), .line = m->text.line + 1};
        here.i = m->i;
        here.j = m->j;
        GX_TRY(next_entry(m, &e, &found, err));
        if (!found) {
            return gx_input_fail(m->im->in, err, 0,
                                 "ends after %lld of the %lld entr%s that line %lld announces",
                                 (long long)k, (long long)m->entries,
                                 m->entries == 1 ? "y" : "ies", (long long)m->size_line);
        }
        here.stop = gx_textin_offset(&m->text);
        place_both(s, &e, s->count > 1 ? &here : NULL);
        if (s->err.code != GX_OK) {
            return gx_fail(err, s->err.code, "%s", s->err.text);
        }
    }
    token t[TOKENS_MOST];
    int count;
    GX_TRY(next_line(m, t, &count, err));
    if (count > 0) {
        return gx_input_fail(m->im->in, err, m->text.line,
                             "more than the %lld entr%s that line %lld announces",
                             (long long)m->entries, m->entries == 1 ? "y" : "ies",
                             (long long)m->size_line);
    }
    return check_triangles(m, err);
}

/* Fill band s->b from its stretch. */
static gx_code later_pass(scatter *s, gx_err *err)
{
    mtx *m = s->m;
    const stretch *from = &s->stretches[s->b];
    if (from->start == from->stop) {
        return GX_OK;
    }
    GX_TRY(gx_textin_seek(&m->text, from->start, from->line, from->stop, err));
    m->i = from->i;
    m->j = from->j;
    for (;;) {
        entry e;
        bool found;
        GX_TRY(next_entry(m, &e, &found, err));
        if (!found) {
            return GX_OK;
        }
        if (e.i >= m->rows || e.j >= m->cols) {
            return gx_input_fail(m->im->in, err, m->text.line, "changed while it was being read");
        }
        place_both(s, &e, NULL);
    }
}

static gx_code write_band(scatter *s, gx_err *err)
{
    return gx_import_write(s->m->im, s->i0, s->j0, s->rows, s->cols, s->elements, err);
}

/* Make it the one in memory: zeros, a piece at a time, since it may be all that memory holds. */
static gx_code select_band(scatter *s, int64_t b, gx_err *err)
{
    const size_t PIECE_BYTES = (size_t)32 << 20;
    const mtx *m = s->m;
    s->b = b;
    s->i0 = b % s->down * s->height;
    s->j0 = b / s->down * s->width;
    s->rows = gx_min(s->height, m->rows - s->i0);
    s->cols = gx_min(s->width, m->cols - s->j0);
    size_t bytes = (size_t)(s->rows * s->cols) * gx_number_bytes(m->im->dtype);
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        memset((char *)s->elements + at, 0, gx_min(PIECE_BYTES, bytes - at));
        GX_TRY(gx_import_poll(m->im, err));
    }
    return GX_OK;
}

/* Cut the matrix into bands, with memory for one and for the notes on the others. */
static gx_code open_scatter(scatter *s, mtx *m, gx_err *err)
{
    gx_import *im = m->im;
    *s = (scatter){.m = m};
    size_t bytes = 0, notes = 0;
    for (int round = 0; round < 2; round++) { // the notes take memory from the band
        size_t left = im->mem != NULL ? gx_mem_available(im->mem) : SIZE_MAX;
        gx_import_band(im, GX_ORDER_COLUMNS, left > 2 * notes ? left - 2 * notes : 0, &s->height,
                       &s->width);
        s->down = gx_ceil_div(m->rows, s->height);
        s->count = s->down * gx_ceil_div(m->cols, s->width);
        if (!gx_mul_size((size_t)s->count, sizeof(stretch), &notes)) {
            notes = SIZE_MAX / 4; // refused below
        }
        notes = s->count > 1 ? notes : 0;
    }
    void *block;
    if (s->count > 1) {
        GX_TRY(gx_mem_calloc(im->mem, notes, "notes on the bands of a matrix", &block, err));
        s->stretches = block;
    }
    gx_matrix_bytes(s->height, s->width, im->dtype, &bytes);
    GX_TRY(gx_mem_alloc(im->mem, bytes, "a band of the matrix", &s->elements, err));
    return select_band(s, 0, err);
}

static gx_code import_bands(mtx *m, gx_err *err)
{
    scatter s;
    gx_code rc = open_scatter(&s, m, err);
    if (rc == GX_OK) {
        rc = first_pass(&s, err);
    }
    if (rc == GX_OK) {
        rc = write_band(&s, err);
    }
    for (int64_t b = 1; b < s.count && rc == GX_OK; b++) {
        m->im->total += (double)(s.stretches[b].stop - s.stretches[b].start);
    }
    for (int64_t b = 1; b < s.count && rc == GX_OK; b++) {
        rc = select_band(&s, b, err);
        rc = rc == GX_OK ? later_pass(&s, err) : rc;
        if (rc == GX_OK) {
            rc = write_band(&s, err);
        }
    }
    gx_mem_free(m->im->mem, s.elements);
    gx_mem_free(m->im->mem, s.stretches);
    return rc;
}

static uint32_t properties_of(const mtx *m)
{
    bool is_real = m->field != COMPLEX;
    switch (m->symmetry) {
    case SYMMETRIC:
        return is_real ? GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN : GX_PROP_SYMMETRIC;
    case HERMITIAN:
        return GX_PROP_HERMITIAN;
    default:
        return 0;
    }
}

/* What coordinates become where the options do not say: decision 040. */
static bool wants_sparse(const mtx *m)
{
    const gx_import_options *options = &m->im->options;
    size_t bytes = 0;
    if (!m->is_coordinate || m->im->to.begin_cells == NULL) {
        return false;
    }
    double filled = (double)m->entries * (m->symmetry == GENERAL ? 1 : 2);
    bool is_large = !gx_matrix_bytes(m->rows, m->cols, GX_F64, &bytes) ||
                    bytes > GX_IMPORT_DENSE_BYTES;
    return options->has_sparse ? options->sparse
                               : is_large && filled <= (double)m->rows * (double)m->cols / 4;
}

static gx_code import_cells(mtx *m, gx_err *err)
{
    gx_import *im = m->im;
    scatter cells = {.m = m, .count = 1};
    gx_number dtype = m->field == COMPLEX ? GX_C128 : GX_F64;
    im->rows = m->rows;
    im->cols = m->cols;
    gx_dtype stored;
    GX_TRY(gx_import_sparse_dtype(im, gx_dtype_of(dtype), &stored, err));
    im->dtype = gx_dtype_number(stored);
    if (m->rows > GX_SCATTER_INDEX_END) {
        return gx_input_fail(im->in, err, m->size_line, GX_SCATTER_ROWS_TEXT, (long long)m->rows);
    }
    GX_TRY(im->to.begin_cells(im->to.arg, m->rows, m->cols, stored, properties_of(m), err));
    return first_pass(&cells, err);
}

gx_code gx_import_mtx(gx_import *im, gx_err *err)
{
    mtx m = {.im = im};
    gx_code rc = gx_textin_open(&m.text, im, err);
    if (rc == GX_OK) {
        rc = read_banner(&m, err);
    }
    if (rc == GX_OK) {
        rc = read_size(&m, err);
    }
    if (rc == GX_OK && im->options.has_sparse && im->options.sparse && !m.is_coordinate) {
        rc = gx_input_fail(im->in, err, 1, "is an array: gx_sparse makes a sparse matrix of it");
    }
    if (rc == GX_OK && wants_sparse(&m)) {
        rc = import_cells(&m, err);
        gx_textin_close(&m.text);
        return rc;
    }
    if (rc == GX_OK) {
        rc = gx_import_begin(im, m.rows, m.cols, m.field == COMPLEX ? GX_DTYPE_C128 : GX_DTYPE_F64,
                             properties_of(&m), err);
    }
    if (rc == GX_OK && (m.rows == 0 || m.cols == 0)) {
        scatter none = {.m = &m, .count = 1}; // no band: whatever entry comes is refused
        rc = first_pass(&none, err);
    } else if (rc == GX_OK) {
        rc = import_bands(&m, err);
    }
    gx_textin_close(&m.text);
    return rc;
}
