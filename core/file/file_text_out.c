/*
** Matrices to text: CSV and its kin, and Matrix Market files (read by file_csv.c and file_mtx.c).
**
** CSV: one pass by rows; numbers as the shortest text that reads back the same, complex ones as
** 1+2j.
**
** Matrix Market: array by columns, or coordinate with one pass more to count the entries.  The
** properties choose the symmetry.  A sparse matrix is written by its panels, row after row, as
** coordinates.
*/
#include "../base/names.h"
#include "../mat/sparse.h"
#include "file_int.h"

#include <stdio.h>
#include <string.h>

/* Printing is slow, and a band has millions of elements: now and then, is the caller to stop? */
static gx_code count_element(gx_export *ex)
{
    const int64_t OFTEN = 1 << 14;
    if (++ex->printed % OFTEN != 0) {
        return GX_OK;
    }
    return gx_run_poll(ex->run);
}

// Text with delimiters ----------------------------------------------------------------------------

static char *put_complex(const gx_export *ex, const char *element, char *to)
{
    to = gx_export_number(ex, element, to);
    char *sign = to++;
    char *end = gx_export_number(ex, element + gx_number_bytes(ex->dtype) / 2, to);
    if (*to == '-') {
        memmove(sign, to, (size_t)(end - to));
        end--;
    } else {
        *sign = '+';
    }
    *end++ = 'j';
    return end;
}

static gx_code put_rows(void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n, const void *src)
{
    gx_export *ex = arg;
    bool is_complex = gx_number_is_complex(ex->dtype);
    (void)i0;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            const void *element = gx_at(src, ex->dtype, m, i, j);
            char *to = gx_output_room(&ex->out);
            to = is_complex ? put_complex(ex, element, to) : gx_export_number(ex, element, to);
            *to++ = j0 + j + 1 < ex->mat->cols ? ex->options.delimiter : '\n';
            gx_output_used(&ex->out, to);
            GX_TRY(count_element(ex));
        }
    }
    return ex->out.err.code;
}

/* A field of the header: in quotes, quotes in it twice, where it is more than a word. */
static gx_code put_name(gx_export *ex, const char *name, size_t bytes, char *plain)
{
    size_t length = name == NULL ? 0 : gx_names_plain(name, bytes, plain);
    bool is_quoted = false;
    for (size_t k = 0; k < length; k++) {
        is_quoted |= plain[k] == ex->options.delimiter || strchr("\"\n\r#", plain[k]) != NULL ||
                     ((k == 0 || k + 1 == length) && strchr(" \t", plain[k]) != NULL);
    }
    gx_output_put(&ex->out, "\"", is_quoted);
    for (size_t k = 0; k < length; k++) {
        gx_output_put(&ex->out, "\"", plain[k] == '"');
        gx_output_put(&ex->out, plain + k, 1);
    }
    gx_output_put(&ex->out, "\"", is_quoted);
    return ex->out.err.code;
}

static gx_code put_header(gx_export *ex, gx_err *err)
{
    gx_names walk;
    const char *name;
    size_t bytes, all = strlen(ex->names);
    void *plain;
    GX_TRY(gx_mem_alloc(ex->run->ctx->mem, all, "a name", &plain, err));
    gx_code rc = GX_OK;
    gx_names_begin(&walk, ex->names, all);
    for (int64_t j = 0; j < ex->mat->cols && rc == GX_OK; j++) {
        bool has_one = gx_names_next(&walk, &name, &bytes);
        rc = put_name(ex, has_one ? name : NULL, bytes, plain);
        gx_output_put(&ex->out, j + 1 < ex->mat->cols ? &ex->options.delimiter : "\n", 1);
    }
    gx_mem_free(ex->run->ctx->mem, plain);
    return rc;
}

gx_code gx_export_csv(gx_export *ex)
{
    gx_err err = {0};
    if (ex->names != NULL && put_header(ex, &err) != GX_OK) {
        return gx_run_fail(ex->run, &err);
    }
    return gx_export_walk(ex, GX_ORDER_ROWS, false, put_rows, ex);
}

// Matrix Market -----------------------------------------------------------------------------------

typedef enum symmetry { GENERAL, SYMMETRIC, HERMITIAN } symmetry;

static const char *const symmetry_words[] = {"general", "symmetric", "hermitian"};

/* A file that is being written. */
typedef struct writer {
    gx_export *ex;
    symmetry symmetry;
    bool is_counting; /* coordinate: the pass before */
    int64_t entries;
} writer;

static symmetry symmetry_of(const gx_export *ex)
{
    const gx_mat *mat = ex->mat;
    bool is_hermitian = (mat->properties & GX_PROP_HERMITIAN) != 0;
    if (ex->options.is_general || mat->rows != mat->cols) {
        return GENERAL;
    }
    if ((mat->properties & GX_PROP_SYMMETRIC) != 0) {
        return SYMMETRIC;
    }
    return !is_hermitian ? GENERAL : gx_number_is_complex(mat->number) ? HERMITIAN : SYMMETRIC;
}

static bool is_zero(gx_number dtype, const void *element)
{
    gx_scalar x = gx_number_get(dtype, element, 0);
    return x.re == 0 && x.im == 0;
}

/* index + 1 and a blank. */
static char *put_index(char *to, int64_t index)
{
    char digits[24];
    int count = 0;
    for (int64_t rest = index + 1; rest != 0; rest /= 10) {
        digits[count++] = (char)('0' + rest % 10);
    }
    while (count > 0) {
        *to++ = digits[--count];
    }
    *to++ = ' ';
    return to;
}

static void put_element(writer *w, int64_t i, int64_t j, const char *element)
{
    gx_export *ex = w->ex;
    char *to = gx_output_room(&ex->out);
    if (ex->options.is_coordinate) {
        to = put_index(put_index(to, i), j);
    }
    to = gx_export_number(ex, element, to);
    if (gx_number_is_complex(ex->dtype)) {
        *to++ = ' ';
        if (w->symmetry == HERMITIAN && i == j) {
            *to++ = '0';
        } else {
            to = gx_export_number(ex, element + gx_number_bytes(ex->dtype) / 2, to);
        }
    }
    *to++ = '\n';
    gx_output_used(&ex->out, to);
}

static gx_code put_columns(void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n, const void *src)
{
    writer *w = arg;
    gx_number dtype = w->ex->dtype;
    for (int64_t j = 0; j < n; j++) {
        int64_t first = w->symmetry == GENERAL ? 0 : gx_max(0, j0 + j - i0);
        for (int64_t i = first; i < m; i++) {
            const void *element = gx_at(src, dtype, m, i, j);
            GX_TRY(count_element(w->ex));
            if (w->ex->options.is_coordinate && is_zero(dtype, element)) {
                continue;
            }
            if (w->is_counting) {
                w->entries++;
            } else {
                put_element(w, i0 + i, j0 + j, element);
            }
        }
    }
    return w->ex->out.err.code;
}

static gx_code put_sparse(void *arg, int64_t i, int64_t j, gx_scalar x, gx_err *err)
{
    writer *w = arg;
    double pair[2] = {x.re, x.im};
    char element[2 * sizeof(double)];
    if (w->symmetry != GENERAL && i < j) {
        return GX_OK;
    }
    if (w->is_counting) {
        w->entries++;
        return GX_OK;
    }
    gx_convert(GX_C128, pair, 1, w->ex->dtype, element, 1, 1, 1);
    put_element(w, i, j, element);
    if (count_element(w->ex) != GX_OK) {
        return gx_fail(err, w->ex->run->err.code, "%s", w->ex->run->err.text);
    }
    return w->ex->out.err.code == GX_OK
               ? GX_OK
               : gx_fail(err, w->ex->out.err.code, "%s", w->ex->out.err.text);
}

/* All entries, once; the count alone where both triangles are written is known. */
static gx_code walk(writer *w, bool is_lower)
{
    gx_run *run = w->ex->run;
    if (!w->ex->mat->is_sparse) {
        return gx_export_walk(w->ex, GX_ORDER_COLUMNS, is_lower, put_columns, w);
    }
    if (w->is_counting && !is_lower) {
        w->entries = gx_sparse_entries(w->ex->mat);
        return GX_OK;
    }
    (void)gx_sparse_each(run, w->ex->mat, put_sparse, w);
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_export_mtx(gx_export *ex)
{
    writer w = {.ex = ex, .symmetry = symmetry_of(ex)};
    bool is_coordinate = ex->options.is_coordinate;
    bool is_lower = w.symmetry != GENERAL;
    if (is_coordinate) {
        w.is_counting = true;
        GX_TRY(walk(&w, is_lower));
        w.is_counting = false;
    }
    char head[160];
    snprintf(head, sizeof head, "%%%%MatrixMarket matrix %s %s %s\n%lld %lld",
             is_coordinate ? "coordinate" : "array",
             gx_number_is_complex(ex->dtype) ? "complex" : "real", symmetry_words[w.symmetry],
             (long long)ex->mat->rows, (long long)ex->mat->cols);
    gx_output_text(&ex->out, head);
    if (is_coordinate) {
        snprintf(head, sizeof head, " %lld", (long long)w.entries);
        gx_output_text(&ex->out, head);
    }
    gx_output_text(&ex->out, "\n");
    return walk(&w, is_lower);
}
