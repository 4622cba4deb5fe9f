/*
** gx_show(A): a matrix printed as NumPy prints an array.
**
**     [[ 1.     2.5    0.125]
**      [ 4.    -5.     6.   ]]
**
** A column of numbers shares one format, found in a first pass over what is shown: the widths
** before and after the point, or scientific notation where the largest is 1e8 or more, the smallest
** below 1e-4, or their ratio above 1000.  Each number has the fewest digits that tell it apart, and
** no more than `precision` after the point.  Of more than `threshold` elements only `edgeitems` at
** either end of each dimension are shown, with "..." between them.  Lines are broken at
** `linewidth`.  Whole numbers of a dtype of whole numbers stand to the right, without a point; bool
** as True and False.
**
** Reads the shown elements only: at most four corners.  Memory: these elements.  (The rules are
** those of numpy/core/arrayprint.py, which the tests compare with.)
*/
#include "gx_ext.h"

#include "../core/base/decimal.h"
#include "../core/base/names.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 64 }; /* bytes of one printed part: sign, 9 digits, point, fraction, exponent */

typedef struct options {
    int64_t edgeitems, precision, threshold, linewidth;
    bool has_colours; /* show_colours.c */
} options;

/* How the numbers of one part (real, imaginary) are printed. */
typedef struct format {
    bool is_f32;
    bool has_plus; /* a sign always: imaginary parts            */
    bool is_scientific;
    int precision;       /* digits after the point, at most           */
    int left, right;     /* columns before and after the point        */
    int exponent_digits; /* without the sign                          */
} format;

/* The rows and columns that are shown, and their elements. */
typedef struct view {
    gx_run *run;
    gx_number number;
    gx_dtype dtype;
    int64_t rows, cols;       /* shown                                    */
    int64_t row_gap, col_gap; /* "..." stands before this one; -1: nowhere */
    void *data;               /* rows x cols, column-major                */
} view;

// One number --------------------------------------------------------------------------------------

/* The pieces of a finite number: "-12", "5", exponent 3. */
typedef struct pieces {
    char whole[WORD_MAX / 2], fraction[WORD_MAX / 2];
    int exponent;
} pieces;

/* The C library's correctly rounded digits; the locale's point, whatever it is, is left out. */
static void split_printed(const char *printed, char *whole, char *fraction)
{
    const char *c = printed;
    while (*c >= '0' && *c <= '9') {
        *whole++ = *c++;
    }
    while (*c != '\0' && !(*c >= '0' && *c <= '9')) {
        c++;
    }
    char *end = fraction;
    while (*c >= '0' && *c <= '9') {
        *fraction++ = *c;
        end = *c++ == '0' ? end : fraction;
    }
    *whole = '\0';
    *end = '\0';
}

static void split_fixed(const format *f, double magnitude, char *whole, pieces *p)
{
    char digits[GX_DECIMAL_MAX];
    int point = 0, count = 0;
    if (magnitude > 0) {
        count = gx_decimal_digits(magnitude, f->is_f32, digits, &point);
    }
    if (count < point || count - point > f->precision) { // whole digits are never rounded
        char printed[WORD_MAX];
        snprintf(printed, sizeof printed, "%.*f", f->precision, magnitude);
        split_printed(printed, whole, p->fraction);
        return;
    }
    for (int k = 0; k < point; k++) {
        *whole++ = digits[k];
    }
    if (point <= 0) {
        *whole++ = '0';
    }
    *whole = '\0';
    char *to = p->fraction;
    for (int k = point; k < count; k++) {
        *to++ = k < 0 ? '0' : digits[k];
    }
    *to = '\0';
}

/* is_full: all `precision` digits, exactly rounded; else the shortest, if they are fewer. */
static void split_scientific(const format *f, double magnitude, bool is_full, char *whole,
                             pieces *p)
{
    char digits[GX_DECIMAL_MAX], printed[WORD_MAX];
    int point, places = f->precision;
    if (!is_full) {
        int count = magnitude > 0 ? gx_decimal_digits(magnitude, f->is_f32, digits, &point) : 1;
        places = (int)gx_min(places, count - 1);
    }
    snprintf(printed, sizeof printed, "%.*e", places, magnitude);
    char *e = strchr(printed, 'e');
    p->exponent = (int)strtol(e + 1, NULL, 10);
    *e = '\0';
    split_printed(printed, whole, p->fraction);
}

static void split(const format *f, double value, bool is_full, pieces *p)
{
    char *whole = p->whole;
    p->exponent = 0;
    if (signbit(value) || f->has_plus) {
        *whole++ = signbit(value) ? '-' : '+';
    }
    if (f->is_scientific) {
        split_scientific(f, fabs(value), is_full, whole, p);
    } else {
        split_fixed(f, fabs(value), whole, p);
    }
}

static int exponent_digits(int exponent)
{
    return abs(exponent) > 99 ? 3 : 2;
}

/* value in the common width; returns the length. */
static int print_number(const format *f, double value, char text[WORD_MAX])
{
    int width = f->left + 1 + f->right;
    if (!isfinite(value)) {
        const char *sign = value < 0 ? "-" : f->has_plus ? "+" : "";
        char word[8];
        snprintf(word, sizeof word, "%s%s", sign, isnan(value) ? "nan" : "inf");
        return snprintf(text, WORD_MAX, "%*s", width, word);
    }
    pieces p;
    split(f, value, true, &p);
    if (!f->is_scientific) {
        return snprintf(text, WORD_MAX, "%*s.%-*s", f->left, p.whole, f->right, p.fraction);
    }
    int zeros = f->precision - (int)strlen(p.fraction);
    return snprintf(text, WORD_MAX, "%*s.%s%.*se%c%0*d", f->left, p.whole, p.fraction, zeros,
                    "00000000000000000", p.exponent < 0 ? '-' : '+', f->exponent_digits,
                    abs(p.exponent));
}

// The common format -------------------------------------------------------------------------------

static double part_of(const view *v, int64_t k, bool is_imaginary)
{
    gx_scalar element = gx_number_get(v->number, v->data, k);
    return is_imaginary ? element.im : element.re;
}

/* Goes on to element k, unless the call is interrupted. */
static bool goes_on(const view *v, int64_t k)
{
    return k % 4096 != 0 || gx_run_poll(v->run) == GX_OK;
}

/* Scientific where the plain numbers would be too long or too unlike. */
static bool wants_scientific(const view *v, bool is_imaginary)
{
    double largest = 0, smallest = (double)INFINITY;
    for (int64_t k = 0; k < v->rows * v->cols && goes_on(v, k); k++) {
        double magnitude = fabs(part_of(v, k, is_imaginary));
        if (isfinite(magnitude) && magnitude != 0) {
            largest = fmax(largest, magnitude);
            smallest = fmin(smallest, magnitude);
        }
    }
    return largest > 0 && (largest >= 1e8 || smallest < 1e-4 || largest / smallest > 1000);
}

/* Widths that every number fits in; in scientific notation, the digits that each one shows. */
static format choose_format(const view *v, bool is_imaginary, int precision)
{
    format f = {.is_f32 = !gx_number_is_double(v->number),
                .has_plus = is_imaginary,
                .is_scientific = wants_scientific(v, is_imaginary),
                .precision = precision};
    int fraction = 0;
    bool has_nan = false, has_infinite = false, has_negative_infinite = is_imaginary;
    for (int64_t k = 0; k < v->rows * v->cols && goes_on(v, k); k++) {
        double value = part_of(v, k, is_imaginary);
        has_nan = has_nan || isnan(value);
        has_infinite = has_infinite || isinf(value);
        has_negative_infinite = has_negative_infinite || (isinf(value) && value < 0);
        if (isfinite(value)) {
            pieces p;
            split(&f, value, false, &p);
            f.left = (int)gx_max(f.left, (int64_t)strlen(p.whole));
            fraction = (int)gx_max(fraction, (int64_t)strlen(p.fraction));
            f.exponent_digits = (int)gx_max(f.exponent_digits, exponent_digits(p.exponent));
        }
    }
    f.right = fraction;
    if (f.is_scientific) {
        f.precision = fraction;
        f.right = fraction + 2 + f.exponent_digits;
    }
    if (has_nan || has_infinite) { // both words count where one is there, as in NumPy
        f.left = (int)gx_max(f.left, 3 + has_negative_infinite - (f.right + 1));
    }
    return f;
}

// The page ----------------------------------------------------------------------------------------

/* Where the line stands: a word that does not fit starts a new line, unless it is the first. */
typedef struct page {
    gx_text *text;
    int64_t width;  /* that words must stay within      */
    int64_t column; /* of the next word                 */
} page;

enum { INDENT = 2 };

static void put_word(page *p, const char *word, int length)
{
    if (p->column + length > p->width && p->column > INDENT) {
        gx_text *t = p->text;
        while (t->used > 0 && t->data[t->used - 1] == ' ') {
            t->used--;
        }
        gx_text_puts(t, "\n  ");
        p->column = INDENT;
    }
    gx_text_put(p->text, word, (size_t)length);
    p->column += length;
}

/* The width is of the widest: format.left. */
static int print_whole(const view *v, const format *f, int64_t k, char *word)
{
    int64_t whole = gx_look_whole(v->dtype, v->data, k);
    return v->dtype == GX_DTYPE_BOOL
               ? snprintf(word, WORD_MAX, "%*s", f->left, whole != 0 ? "True" : "False")
               : snprintf(word, WORD_MAX, "%*" PRId64, f->left, whole);
}

static format choose_width(const view *v)
{
    char word[WORD_MAX];
    format f = {.left = v->dtype == GX_DTYPE_BOOL ? (int)strlen("False") : 0};
    for (int64_t k = 0; k < v->rows * v->cols && goes_on(v, k); k++) {
        f.left = (int)gx_max(f.left, print_whole(v, &(format){0}, k, word));
    }
    return f;
}

static int print_element(const view *v, const format f[2], int64_t k, char word[2 * WORD_MAX])
{
    if (gx_dtype_is_whole(v->dtype)) {
        return print_whole(v, f, k, word);
    }
    gx_scalar element = gx_number_get(v->number, v->data, k);
    int length = print_number(&f[0], element.re, word);
    if (gx_number_is_complex(v->number)) {
        char part[WORD_MAX];
        print_number(&f[1], element.im, part);
        size_t digits = strlen(part); // the unit stands before the padding
        while (digits > 0 && part[digits - 1] == ' ') {
            digits--;
        }
        length +=
            snprintf(word + length, WORD_MAX + 2, "%.*sj%s", (int)digits, part, part + digits);
    }
    return length;
}

static void print_row(page *p, const view *v, const format f[2], int64_t i)
{
    p->column = INDENT;
    for (int64_t j = 0; j < v->cols && goes_on(v, j); j++) {
        char word[2 * WORD_MAX + 2];
        if (j == v->col_gap) {
            put_word(p, "...", 3);
            gx_text_put(p->text, " ", 1);
            p->column++;
        }
        put_word(p, word, print_element(v, f, j * v->rows + i, word));
        if (j + 1 < v->cols) {
            gx_text_put(p->text, " ", 1);
            p->column++;
        }
    }
}

static void print_view(gx_text *text, const view *v, const options *opt)
{
    format f[2];
    bool is_whole = gx_dtype_is_whole(v->dtype);
    f[0] = is_whole ? choose_width(v) : choose_format(v, false, (int)opt->precision);
    f[1] = is_whole ? f[0] : choose_format(v, true, (int)opt->precision);
    page p = {.text = text, .width = opt->linewidth - INDENT};
    for (int64_t i = 0; i < v->rows && gx_ok(text->run); i++) {
        if (i == v->row_gap) {
            gx_text_puts(text, " ...\n");
        }
        gx_text_puts(text, i == 0 ? "[[" : " [");
        print_row(&p, v, f, i);
        gx_text_puts(text, i + 1 < v->rows ? "]\n" : "]]");
        gx_run_poll(text->run);
    }
}

// Reading what is shown ---------------------------------------------------------------------------

/* The first and last edgeitems where the matrix is too large to show whole. */
static void choose_edges(int64_t length, bool is_large, int64_t edgeitems, int64_t *shown,
                         int64_t *gap)
{
    bool is_cut = is_large && length > 2 * edgeitems;
    *shown = is_cut ? 2 * edgeitems : length;
    *gap = is_cut ? edgeitems : -1;
}

/* Read the corners: each half of the rows with each half of the columns. */
static bool read_view(gx_fn *fn, const gx_mat *A, gx_reader *reader, view *v)
{
    int64_t row_cut = v->row_gap < 0 ? v->rows : v->row_gap;
    int64_t col_cut = v->col_gap < 0 ? v->cols : v->col_gap;
    for (int part = 0; part < 4 && gx_ok(&fn->run); part++) {
        bool is_lower = part % 2 == 1, is_right = part / 2 == 1;
        int64_t i = is_lower ? row_cut : 0, m = is_lower ? v->rows - row_cut : row_cut;
        int64_t j = is_right ? col_cut : 0, n = is_right ? v->cols - col_cut : col_cut;
        gx_look_read(fn, A, reader, is_lower ? A->rows - m : 0, is_right ? A->cols - n : 0, m, n,
                     gx_at(v->data, v->number, v->rows, i, j), v->rows);
    }
    return gx_ok(&fn->run);
}

/* The names of those that are shown: "rows: a, b, ..., z"; a number stands for one without. */
static void print_names(gx_fn *fn, const gx_mat *A, int axis, int64_t shown, int64_t gap,
                        gx_text *text)
{
    enum { NAME_BYTES = 44 };
    char *names, piece[NAME_BYTES];
    const char *name;
    size_t bytes;
    gx_names walk;
    if (A->kind != GX_MAT_STORED ||
        !gx_fn_check(fn, gx_store_read_labels(fn->ctx->store, &A->meta, axis, &names, &bytes,
                                              &fn->err)) ||
        names == NULL) {
        return;
    }
    gx_names_begin(&walk, names, bytes);
    gx_text_puts(text, axis == 0 ? "\nrows:" : "\ncolumns:");
    int64_t side = axis == 0 ? A->rows : A->cols, behind = gap < 0 ? 0 : side - (shown - gap);
    for (int64_t k = 0; k < side && gx_ok(&fn->run); k++) {
        bool has_one = gx_names_next(&walk, &name, &bytes) && name != NULL;
        if (gap >= 0 && k >= gap && k < behind) {
            gx_text_puts(text, k == gap ? " ...," : "");
            continue;
        }
        if (has_one) {
            gx_text_printf(text, " %s", gx_text_fit(name, bytes, piece, sizeof piece));
        } else {
            gx_text_printf(text, " %" PRId64, k);
        }
        gx_text_puts(text, k + 1 < side ? "," : "");
    }
    gx_mem_free(fn->ctx->mem, names);
}

static void show(gx_fn *fn, gx_mat *A, const options *opt, gx_text *text)
{
    int64_t elements;
    bool is_large = !gx_mul_i64(A->rows, A->cols, &elements) || elements > opt->threshold;
    view v = {.run = &fn->run, .number = A->number, .dtype = gx_look_exactly(A)};
    choose_edges(A->rows, is_large, opt->edgeitems, &v.rows, &v.row_gap);
    choose_edges(A->cols, is_large, opt->edgeitems, &v.cols, &v.col_gap);
    if (A->rows == 0 || A->cols == 0) {
        gx_text_printf(text, "[] (%" PRId64 "x%" PRId64 ")", A->rows, A->cols);
        return;
    }
    gx_reader *reader;
    if (gx_look_buffer(fn, A, v.rows, v.cols, &v.data) && gx_look_open(fn, A, &reader)) {
        bool is_read = read_view(fn, A, reader, &v);
        gx_reader_close(reader);
        if (is_read) {
            print_view(text, &v, opt);
            print_names(fn, A, 0, v.rows, v.row_gap, text);
            print_names(fn, A, 1, v.cols, v.col_gap, text);
        }
    }
}

void gx_look_show(gx_fn *fn)
{
    static const gx_option spec[] = {
        {"edgeitems=[1,1000000]", GX_OPT_INT, offsetof(options, edgeitems), 0},
        {"precision=[0,17]", GX_OPT_INT, offsetof(options, precision), 0},
        {"threshold=[0,inf]", GX_OPT_INT, offsetof(options, threshold), 0},
        {"linewidth=[1,1000000]", GX_OPT_INT, offsetof(options, linewidth), 0},
        {"colours", GX_OPT_BOOL, offsetof(options, has_colours), 0},
        {.type = GX_OPT_END},
    };
    options opt = {.edgeitems = 3, .precision = 8, .threshold = 1000, .linewidth = 75};
    gx_mat A;
    if (!gx_fn_options(fn, spec, &opt) || !gx_fn_matrix(fn, 0, "A", &A)) {
        return;
    }
    gx_text text;
    gx_text_begin(&text, &fn->run);
    if (opt.has_colours) {
        gx_show_colours(fn, &A, &text);
    } else {
        show(fn, &A, &opt, &text);
    }
    gx_fn_result_text(fn, &text);
}
