/*
** SQL values as arguments: matrices, numbers, names, rows.
**
** A matrix argument is TEXT (a name, a JSON literal where the first character that is no blank is
** '[', or the token of a lent array), a BLOB (a matrix value), or a number (1 x 1).  Elements are
** used where they lie when their address fits their type; a blob out of a database page seldom
** does, and is copied once.  Nothing is read from a stored matrix here: a name becomes its catalog
** row.
**
** Every refusal names the argument by the letter of the documentation (A, B, i) and says what came.
** Text is taken with its length: a NUL inside a name is refused, not cut off.
*/
#include "gx_ext.h"

#include "../core/base/decimal.h"
#include "../core/mat/composite.h"
#include "../core/mat/kept.h"
#include "../core/mat/sparse.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// What a value is, in words -----------------------------------------------------------------------

const char *gx_arg_show(sqlite3_value *value, char text[GX_SHOWN_BYTES])
{
    char number[GX_DECIMAL_MAX], part[GX_SHOWN_BYTES];
    switch (sqlite3_value_type(value)) {
    case SQLITE_INTEGER:
        snprintf(text, GX_SHOWN_BYTES, "%lld", (long long)sqlite3_value_int64(value));
        break;
    case SQLITE_FLOAT:
        gx_decimal_format(sqlite3_value_double(value), number);
        snprintf(text, GX_SHOWN_BYTES, "%s", number);
        break;
    case SQLITE_TEXT: {
        const char *content = (const char *)sqlite3_value_text(value);
        size_t bytes = content == NULL ? 0 : (size_t)sqlite3_value_bytes(value);
        snprintf(text, GX_SHOWN_BYTES, "'%.60s'", gx_text_show(content, bytes, part));
        break;
    }
    case SQLITE_BLOB:
        snprintf(text, GX_SHOWN_BYTES, "a blob of %d bytes", sqlite3_value_bytes(value));
        break;
    default:
        snprintf(text, GX_SHOWN_BYTES, "NULL");
    }
    return text;
}

// Text --------------------------------------------------------------------------------------------

/* TEXT with its length; bytes may include NULs. */
static gx_code text_of(sqlite3_value *value, const char **text, size_t *bytes, gx_err *err)
{
    *bytes = 0;
    *text = (const char *)sqlite3_value_text(value);
    if (*text == NULL) {
        return gx_fail(err, GX_NOMEM, "out of memory (converting a text)");
    }
    *bytes = (size_t)sqlite3_value_bytes(value);
    return GX_OK;
}

gx_code gx_arg_text(sqlite3_value *value, const char *label, const char **out, gx_err *err)
{
    char shown[GX_SHOWN_BYTES];
    size_t bytes;
    if (sqlite3_value_type(value) != SQLITE_TEXT) {
        return gx_fail(err, GX_ARG, "%s must be a text, not %s", label, gx_arg_show(value, shown));
    }
    GX_TRY(text_of(value, out, &bytes, err));
    if (memchr(*out, '\0', bytes) != NULL) {
        return gx_fail(err, GX_ARG, "%s has a NUL character in it", label);
    }
    return GX_OK;
}

static const char *skip_blanks(const char *text, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r')) {
        i++;
    }
    return text + i;
}

int gx_word_of(const char *words, const char *text)
{
    size_t bytes = strlen(text);
    for (int which = 0;; words++) {
        size_t length = strcspn(words, "/|");
        if (length == bytes && sqlite3_strnicmp(words, text, (int)length) == 0) {
            return which;
        }
        words += length;
        which += *words == '|';
        if (*words == '\0') {
            return -1;
        }
    }
}

const char *gx_words_list(const char *words, char list[GX_WORDS_BYTES])
{
    size_t used = (size_t)snprintf(list, GX_WORDS_BYTES, strchr(words, '|') ? "one of " : "");
    while (used < GX_WORDS_BYTES) {
        used += (size_t)snprintf(list + used, GX_WORDS_BYTES - used, "%.*s",
                                 (int)strcspn(words, "/|"), words);
        words = strchr(words, '|');
        if (words == NULL) {
            break;
        }
        used += (size_t)snprintf(list + used, GX_WORDS_BYTES - used, ", ");
        words++;
    }
    return list;
}

bool gx_arg_begins(sqlite3_value *value, char first)
{
    const char *text =
        sqlite3_value_type(value) == SQLITE_TEXT ? (const char *)sqlite3_value_text(value) : NULL;
    return text != NULL && text[strspn(text, " \t\r\n")] == first;
}

// Matrices ----------------------------------------------------------------------------------------

/* Whether out may go on using the argument's own bytes, and where copies are counted. */
typedef struct source {
    gx_ctx *ctx;
    const char *label;
    bool is_borrowed;
    bool takes_factor; /* a stored factorisation is welcome */
    bool takes_sparse; /* a sparse matrix is                */
} source;

/* Elements in memory of out's own. */
static gx_code own_elements(const source *from, gx_dtype dtype, int64_t rows, int64_t cols,
                            const void *data, gx_mat *out, gx_err *err)
{
    size_t bytes = 0;
    void *copy;
    gx_dtype_matrix_bytes(rows, cols, dtype, &bytes);
    GX_TRY(gx_mem_alloc(from->ctx->mem, bytes, "argument", &copy, err));
    if (bytes > 0) {
        memcpy(copy, data, bytes);
    }
    gx_mat_array(out, from->label, dtype, rows, cols, copy, gx_max(rows, 1));
    out->owned = copy;
    return GX_OK;
}

static gx_code refuse_sparse(const source *from, const gx_mat *A, gx_err *err)
{
    return !A->is_sparse || from->takes_sparse
               ? GX_OK
               : gx_csr_refuse(A->label, A->rows, A->cols, gx_sparse_entries(A), A->number, err);
}

/* A sparse value, looked through; in memory of out's own where it may not stay. */
static gx_code sparse_of_blob(const source *from, const gx_value *v, gx_mat *out, gx_err *err)
{
    char what[GX_NAME_MAX];
    gx_csr csr;
    void *copy = NULL;
    const void *panel = v->data;
    gx_number number = gx_dtype_number(v->dtype);
    gx_csr_layout layout;
    if (!gx_csr_lay_out(v->rows, v->cols, v->entries, gx_dtype_of(number), &layout)) {
        return gx_fail(err, GX_TOOBIG, "%s has too many entries for a value", from->label);
    }
    if (!from->is_borrowed || (uintptr_t)panel % sizeof(double) != 0 ||
        !gx_dtype_is_number(v->dtype)) {
        size_t stored = (size_t)v->entries * gx_dtype_bytes(v->dtype);
        size_t end = layout.value + (size_t)v->entries * gx_number_bytes(number);
        GX_TRY(gx_mem_alloc(from->ctx->mem, layout.bytes, "argument", &copy, err));
        memcpy(copy, panel, layout.value);
        memcpy((char *)copy + end - stored, (const char *)panel + layout.value, stored);
        panel = copy;
        gx_code code =
            gx_widen_in_place(v->dtype, number, (char *)copy + layout.value, v->entries, err);
        if (code != GX_OK) {
            gx_mem_free(from->ctx->mem, copy);
            return code;
        }
    }
    snprintf(what, sizeof what, "%s is a damaged sparse value", from->label);
    gx_csr_map(&csr, v->rows, v->cols, v->entries, number, panel);
    gx_err inner = {0};
    if (gx_csr_check(&csr, what, &inner) != GX_OK) {
        gx_mem_free(from->ctx->mem, copy);
        return gx_fail(err, GX_ARG, "%s", inner.text);
    }
    gx_mat_sparse_value(out, from->label, &csr);
    out->dtype = v->dtype;
    out->owned = copy;
    gx_code code = refuse_sparse(from, out, err);
    if (code != GX_OK) {
        gx_mat_clear(out, from->ctx->mem);
    }
    return code;
}

static gx_code matrix_of_blob(const source *from, sqlite3_value *value, gx_mat *out, gx_err *err)
{
    const void *blob = sqlite3_value_blob(value);
    size_t bytes = (size_t)sqlite3_value_bytes(value);
    if (blob == NULL && bytes > 0) {
        return gx_fail_nomem(err, bytes, "argument");
    }
    gx_value v;
    gx_err inner = {0};
    if (gx_value_parse_any(blob == NULL ? "" : blob, bytes, &v, &inner) != GX_OK) {
        bool is_raw = bytes > 0 && bytes % sizeof(float) == 0 && !gx_value_is(blob, bytes);
        return gx_fail(err, inner.code, "%s is %s%s", from->label, inner.text,
                       is_raw ? ": raw numbers go through gx_from_bytes" : "");
    }
    if (v.is_sparse) {
        return sparse_of_blob(from, &v, out, err);
    }
    if (!gx_dtype_is_sound(v.dtype, v.data, v.rows * v.cols)) {
        return gx_fail(err, GX_ARG, "%s is of m31 and has elements above 2^31 - 2", from->label);
    }
    if (!from->is_borrowed || (uintptr_t)v.data % gx_dtype_alignment(v.dtype) != 0) {
        return own_elements(from, v.dtype, v.rows, v.cols, v.data, out, err);
    }
    gx_mat_array(out, from->label, v.dtype, v.rows, v.cols, v.data, gx_max(v.rows, 1));
    return GX_OK;
}

static gx_code matrix_of_literal(const source *from, const char *text, size_t bytes, gx_mat *out,
                                 gx_err *err)
{
    gx_dtype dtype;
    int64_t rows, cols;
    void *data;
    GX_TRY(gx_literal_parse(from->ctx, from->label, text, bytes, &dtype, &rows, &cols, &data, err));
    gx_mat_array(out, from->label, dtype, rows, cols, data, gx_max(rows, 1));
    out->owned = data;
    return GX_OK;
}

static gx_code matrix_of_name(const source *from, const char *name, gx_mat *out, gx_err *err)
{
    gx_meta meta;
    GX_TRY(gx_store_find_source(from->ctx->store, name, &meta, err));
    GX_TRY(gx_mat_open(from->ctx->store, from->ctx->mem, &meta, out, err));
    GX_TRY(refuse_sparse(from, out, err));
    gx_mat_keep(from->ctx, out);
    bool is_factor = gx_aux_kind_of(meta.properties) != GX_AUX_NONE;
    return is_factor && !from->takes_factor ? gx_aux_refuse(name, meta.properties, err) : GX_OK;
}

static gx_code matrix_of_text(const source *from, sqlite3_value *value, gx_mat *out, gx_err *err)
{
    const char *text;
    size_t bytes;
    GX_TRY(text_of(value, &text, &bytes, err));
    const char *start = skip_blanks(text, bytes);
    char first = start < text + bytes ? *start : '\0';
    if (first == '[') {
        return matrix_of_literal(from, start, bytes - (size_t)(start - text), out, err);
    }
    if (first == '{') {
        GX_TRY(gx_literal_braces(from->label, start, bytes - (size_t)(start - text), err));
        return gx_fail(err, GX_ARG, "%s must be a matrix, not an options object", from->label);
    }
    if (bytes == 0) {
        return gx_fail(err, GX_ARG, "%s is an empty text, not a matrix", from->label);
    }
    if (memchr(text, '\0', bytes) != NULL) {
        return gx_fail(err, GX_ARG, "%s is a name with a NUL character in it", from->label);
    }
    return matrix_of_name(from, text, out, err);
}

static gx_code matrix_of(const source *from, sqlite3_value *value, gx_mat *out, gx_err *err)
{
    switch (sqlite3_value_type(value)) {
    case SQLITE_TEXT:
        return matrix_of_text(from, value, out, err);
    case SQLITE_BLOB:
        return matrix_of_blob(from, value, out, err);
    case SQLITE_INTEGER: {
        int64_t whole = sqlite3_value_int64(value);
        double number = (double)whole;
        bool is_inexact = gx_dtype_inexact(GX_DTYPE_I64, &whole, 1) >= 0;
        return own_elements(from, is_inexact ? GX_DTYPE_I64 : GX_DTYPE_F64, 1, 1,
                            is_inexact ? (const void *)&whole : &number, out, err);
    }
    case SQLITE_FLOAT: {
        double number = sqlite3_value_double(value);
        return own_elements(from, GX_DTYPE_F64, 1, 1, &number, out, err);
    }
    default:
        return gx_fail(err, GX_ARG, "%s is NULL", from->label);
    }
}

gx_code gx_arg_matrix(gx_ctx *ctx, sqlite3_value *value, const char *label, gx_mat *out,
                      gx_err *err)
{
    const source from = {.ctx = ctx, .label = label, .is_borrowed = false};
    return matrix_of(&from, value, out, err);
}

gx_code gx_arg_matrix_any(gx_ctx *ctx, sqlite3_value *value, const char *label, gx_mat *out,
                          gx_err *err)
{
    const source from = {.ctx = ctx, .label = label, .takes_sparse = true};
    return matrix_of(&from, value, out, err);
}

/* The argument, or a failure where there are fewer. */
static bool has_argument(gx_fn *fn, int index, const char *label)
{
    if (!gx_ok(&fn->run)) {
        return false;
    }
    return index < fn->argc || gx_fn_fail(fn, "%s is missing", label);
}

/* The array that argument `index` is a token of; NULL: it is none, or the call has failed. */
static gx_lent *take_lent(gx_fn *fn, int index)
{
    const char *text;
    gx_err err;
    if (!gx_ok(&fn->run) || index >= fn->argc ||
        sqlite3_value_type(fn->argv[index]) != SQLITE_TEXT ||
        sqlite3_value_bytes(fn->argv[index]) != GX_TOKEN_BYTES - 1 ||
        gx_arg_text(fn->argv[index], "token", &text, &err) != GX_OK) {
        return NULL;
    }
    gx_lent *array = gx_lent_take(text);
    bool is_dest = index == fn->dest_at;
    for (int k = 0; k < fn->lent_count && array != NULL; k++) {
        if (fn->lent[k] == array && is_dest != (fn->lent_index[k] == fn->dest_at)) {
            gx_fn_fail(fn, "the destination is an argument too");
        }
    }
    if (array != NULL && fn->lent_count == GX_FN_LENT) {
        gx_lent_give_up(array);
        gx_fn_fail(fn, "more than %d lent arrays in one call", GX_FN_LENT);
        return NULL;
    }
    if (array != NULL) {
        fn->lent_index[fn->lent_count] = index;
        fn->lent[fn->lent_count++] = array;
    }
    return array;
}

/* Argument `index` is a token: out is its array, or the call has failed. */
static bool lent_matrix(gx_fn *fn, int index, const char *label, gx_mat *out)
{
    const gx_lent *array = take_lent(fn, index);
    if (array == NULL) {
        return !gx_ok(&fn->run);
    }
    if (array->by_rows) {
        return !gx_fn_fail(fn,
                           "%s is an array of the application's that lies by rows; this function "
                           "takes arrays by columns: "
                           "gx_from_memory() makes a matrix of it",
                           label);
    }
    gx_mat_array(out, label, array->dtype, array->rows, array->cols, array->data, array->step);
    return true;
}

/* The same, of an array to be written, in which no other argument lies. */
static bool lent_landing(gx_fn *fn, int index, gx_landing *place)
{
    const gx_lent *array = take_lent(fn, index);
    if (array == NULL) {
        return !gx_ok(&fn->run);
    }
    if (!array->is_writable || array->by_rows || array->step != array->rows) {
        return !gx_fn_fail(fn, "the destination is %s",
                           array->is_writable ? "not by columns without gaps"
                                              : "lent for reading only");
    }
    *place = (gx_landing){array->data, array->rows, array->cols, array->dtype};
    return true;
}

/* Whole numbers modulo p have no size, no order and no roundings: few functions mean something. */
static bool takes_field(gx_fn *fn, const gx_mat *A)
{
    fn->has_sparse |= A->is_sparse;
    fn->has_field |= A->number == GX_M31;
    if (A->number == GX_M31 && (fn->def->facts & GX_EXACT) == 0) {
        return gx_fn_fail(fn,
                          "%s is of m31, whole numbers modulo 2^31 - 1, of which %s makes nothing "
                          "(gx_cast takes them to i64)",
                          A->label, fn->def->name);
    }
    return !fn->has_field || !fn->has_sparse ||
           gx_fn_fail(fn, "there are no sparse matrices of m31 (gx_dense makes %s dense)",
                      A->label);
}

static bool take_matrix(gx_fn *fn, int index, const char *label, bool takes_factor, gx_mat *out)
{
    if (!has_argument(fn, index, label)) {
        return false;
    }
    if (lent_matrix(fn, index, label, out)) {
        return gx_ok(&fn->run) && takes_field(fn, out);
    }
    const source from = {.ctx = fn->ctx,
                         .label = label,
                         .is_borrowed = true,
                         .takes_factor = takes_factor,
                         .takes_sparse = index < 3 && (fn->def->facts & GX_SPARSE(index)) != 0};
    return gx_fn_check(fn, matrix_of(&from, fn->argv[index], out, &fn->err)) &&
           (out->owned == NULL || gx_fn_own(fn, out->owned)) && takes_field(fn, out);
}

bool gx_fn_matrix(gx_fn *fn, int index, const char *label, gx_mat *out)
{
    return take_matrix(fn, index, label, false, out);
}

bool gx_fn_matrix_or_factor(gx_fn *fn, int index, const char *label, gx_mat *out)
{
    return take_matrix(fn, index, label, true, out);
}

bool gx_fn_option_matrix(gx_fn *fn, const char *label, const char *text, gx_mat *out)
{
    const source from = {.ctx = fn->ctx, .label = label};
    gx_code code = text[0] == '[' ? matrix_of_literal(&from, text, strlen(text), out, &fn->err)
                                  : matrix_of_name(&from, text, out, &fn->err);
    return gx_fn_check(fn, code) && (out->owned == NULL || gx_fn_own(fn, out->owned)) &&
           takes_field(fn, out);
}

bool gx_fn_factor(gx_fn *fn, int index, const char *label, int kind, gx_mat *out, gx_aux *aux)
{
    *aux = (gx_aux){.kind = GX_AUX_NONE};
    if (!take_matrix(fn, index, label, true, out)) {
        return false;
    }
    if (out->kind != GX_MAT_STORED) {
        return true;
    }
    if (!gx_fn_check(fn, gx_aux_load(fn->ctx->store, fn->ctx->mem, &out->meta, aux, &fn->err)) ||
        (aux->blob != NULL && !gx_fn_own(fn, aux->blob))) {
        return false;
    }
    bool is_welcome = aux->kind == GX_AUX_NONE || kind == GX_AUX_ANY || (int)aux->kind == kind;
    return is_welcome || gx_fn_refuse_factor(fn, out);
}

bool gx_fn_is_square(gx_fn *fn, const gx_mat *A)
{
    return A->rows == A->cols || gx_fn_fail(fn, "%s is %" PRId64 "x%" PRId64 " but must be square",
                                            A->label, A->rows, A->cols);
}

bool gx_fn_is_ordered(gx_fn *fn, const gx_mat *A)
{
    return !gx_number_is_complex(A->number) ||
           gx_fn_fail(fn, "%s is complex (%s): complex numbers have no order", A->label,
                      gx_number_name(A->number));
}

bool gx_fn_refuse_sparse(gx_fn *fn, const gx_mat *A)
{
    return gx_fn_check(
        fn, gx_csr_refuse(A->label, A->rows, A->cols, gx_sparse_entries(A), A->number, &fn->err));
}

bool gx_fn_refuse_factor(gx_fn *fn, const gx_mat *A)
{
    return gx_fn_check(fn, gx_aux_refuse(A->label, A->properties, &fn->err));
}

bool gx_fn_dtype(gx_fn *fn, int index, gx_dtype *dtype)
{
    const char *name;
    char shown[GX_SHOWN_BYTES];
    if (!gx_fn_text(fn, index, "dtype", &name)) {
        return false;
    }
    return gx_dtype_parse(name, dtype) ||
           gx_fn_fail(fn, "dtype '%s' is not known (%s)", gx_text_show(name, strlen(name), shown),
                      gx_dtype_names());
}

// Names, numbers ----------------------------------------------------------------------------------

bool gx_fn_has(const gx_fn *fn, int index)
{
    return index < fn->argc && sqlite3_value_type(fn->argv[index]) != SQLITE_NULL;
}

bool gx_fn_text(gx_fn *fn, int index, const char *label, const char **out)
{
    return has_argument(fn, index, label) &&
           gx_fn_check(fn, gx_arg_text(fn->argv[index], label, out, &fn->err));
}

bool gx_fn_dest(gx_fn *fn, int index, gx_dest *dest)
{
    fn->dest_at = index;
    if (lent_landing(fn, index, &fn->place)) {
        dest->place = &fn->place;
        fn->has_place = true;
    } else if (gx_fn_has(fn, index) && !gx_fn_text(fn, index, "destination", &dest->name)) {
        return false;
    }
    fn->dest_name = dest->name;
    return gx_ok(&fn->run);
}

gx_code gx_arg_int(sqlite3_value *value, const char *label, int64_t *out, gx_err *err)
{
    char shown[GX_SHOWN_BYTES];
    int type = sqlite3_value_type(value);
    if (type == SQLITE_INTEGER) {
        *out = sqlite3_value_int64(value);
        return GX_OK;
    }
    double number = type == SQLITE_FLOAT ? sqlite3_value_double(value) : (double)NAN;
    if (number == floor(number) && fabs(number) <= 0x1p53) {
        *out = (int64_t)number;
        return GX_OK;
    }
    return gx_fail(err, GX_ARG, "%s must be an integer, not %s", label, gx_arg_show(value, shown));
}

gx_code gx_arg_real(sqlite3_value *value, const char *label, double *out, gx_err *err)
{
    int64_t whole = sqlite3_value_int64(value);
    if (sqlite3_value_numeric_type(value) == SQLITE_INTEGER &&
        gx_dtype_inexact(GX_DTYPE_I64, &whole, 1) >= 0) {
        return gx_fail(err, GX_ARG, "%s is %" PRId64 ", " GX_ROUNDS_TEXT, label, whole);
    }
    *out = sqlite3_value_double(value);
    return GX_OK;
}

bool gx_fn_int(gx_fn *fn, int index, const char *label, int64_t *out)
{
    return has_argument(fn, index, label) &&
           gx_fn_check(fn, gx_arg_int(fn->argv[index], label, out, &fn->err));
}

bool gx_fn_size(gx_fn *fn, int index, const char *label, int64_t *out)
{
    return gx_fn_int(fn, index, label, out) &&
           (*out >= 0 || gx_fn_fail(fn, "%s must not be negative, not %" PRId64, label, *out));
}

bool gx_fn_axis(gx_fn *fn, int index, int64_t *out)
{
    char shown[GX_SHOWN_BYTES];
    gx_err err = {0};
    return !gx_fn_has(fn, index) ||
           (gx_arg_int(fn->argv[index], "axis", out, &err) == GX_OK && (*out == 0 || *out == 1)) ||
           gx_fn_fail(fn, "axis must be 0 (down the columns) or 1 (along the rows), not %s",
                      gx_arg_show(fn->argv[index], shown));
}

bool gx_fn_word(gx_fn *fn, int index, const char *label, const char *words, int *out)
{
    char shown[GX_SHOWN_BYTES], list[GX_WORDS_BYTES];
    if (!gx_fn_has(fn, index)) {
        return true;
    }
    const char *text = (const char *)sqlite3_value_text(fn->argv[index]);
    *out = text == NULL ? -1 : gx_word_of(words, text);
    return *out >= 0 || gx_fn_fail(fn, "%s must be %s, not %s", label, gx_words_list(words, list),
                                   gx_arg_show(fn->argv[index], shown));
}

/* TEXT as a number: only what SQL cannot write as a number, unless it is complex. */
static bool text_is_special(const char *text, size_t bytes, double *out)
{
    const char *stop;
    return gx_decimal_parse(text, text + bytes, &stop, out) && stop == text + bytes &&
           !isfinite(*out);
}

gx_code gx_arg_number(sqlite3_value *value, const char *label, double *out, gx_err *err)
{
    int type = sqlite3_value_type(value);
    if (type == SQLITE_INTEGER || type == SQLITE_FLOAT) {
        return gx_arg_real(value, label, out, err);
    }
    if (type == SQLITE_TEXT) {
        const char *text;
        size_t bytes;
        GX_TRY(text_of(value, &text, &bytes, err));
        if (text_is_special(text, bytes, out)) {
            return GX_OK;
        }
    }
    char shown[GX_SHOWN_BYTES];
    return gx_fail(err, GX_ARG, "%s must be a number, not %s", label, gx_arg_show(value, shown));
}

bool gx_fn_real(gx_fn *fn, int index, const char *label, double *out)
{
    return has_argument(fn, index, label) &&
           gx_fn_check(fn, gx_arg_number(fn->argv[index], label, out, &fn->err));
}

/* '[re,im]'. */
static bool parse_pair(const char *text, const char *end, gx_scalar *out)
{
    double part[2];
    const char *c = text + 1;
    for (int k = 0; k < 2; k++) {
        c = skip_blanks(c, (size_t)(end - c));
        if (!gx_decimal_parse(c, end, &c, &part[k])) {
            return false;
        }
        c = skip_blanks(c, (size_t)(end - c));
        if (c == end || *c++ != (k == 0 ? ',' : ']')) {
            return false;
        }
    }
    *out = (gx_scalar){part[0], part[1]};
    return skip_blanks(c, (size_t)(end - c)) == end;
}

/* A matrix value of one element. */
static bool scalar_of_blob(gx_fn *fn, sqlite3_value *value, const char *label, gx_scalar *out)
{
    gx_mat mat;
    const source from = {.ctx = fn->ctx, .label = label, .is_borrowed = true};
    if (!gx_fn_check(fn, matrix_of_blob(&from, value, &mat, &fn->err))) {
        return false;
    }
    bool is_one = mat.rows == 1 && mat.cols == 1;
    if (is_one) {
        *out = gx_dtype_get(mat.dtype, mat.data);
    }
    gx_mem_free(fn->ctx->mem, mat.owned);
    return is_one || gx_fn_fail(fn, "%s must be a number, not a %" PRId64 "x%" PRId64 " matrix",
                                label, mat.rows, mat.cols);
}

bool gx_fn_scalar(gx_fn *fn, int index, const char *label, gx_scalar *out)
{
    if (!has_argument(fn, index, label)) {
        return false;
    }
    sqlite3_value *value = fn->argv[index];
    switch (sqlite3_value_type(value)) {
    case SQLITE_INTEGER:
    case SQLITE_FLOAT:
        out->im = 0;
        return gx_fn_check(fn, gx_arg_real(value, label, &out->re, &fn->err));
    case SQLITE_BLOB:
        return scalar_of_blob(fn, value, label, out);
    case SQLITE_TEXT: {
        const char *text;
        size_t bytes;
        if (!gx_fn_check(fn, text_of(value, &text, &bytes, &fn->err))) {
            return false;
        }
        const char *end = text + bytes, *start = skip_blanks(text, bytes);
        bool is_complex;
        if (start < end && *start == '[' ? parse_pair(start, end, out)
                                         : gx_decimal_parse_complex(start, end, out, &is_complex)) {
            return true;
        }
        break;
    }
    default:
        break;
    }
    char shown[GX_SHOWN_BYTES];
    return gx_fn_fail(fn, "%s must be a number, '[re,im]' or '1+2i', not %s", label,
                      gx_arg_show(value, shown));
}

// Rows --------------------------------------------------------------------------------------------

/* The elements of a row, contiguous, as numbers into *data. */
static gx_code convert_row(gx_ctx *ctx, const char *label, const gx_mat *row, int64_t count,
                           gx_number dtype, void **data, gx_err *err)
{
    if (gx_number_is_complex(row->number) && !gx_number_is_complex(dtype)) {
        return gx_fail(err, GX_ARG, "%s is complex but the matrix is %s", label,
                       gx_number_name(dtype));
    }
    size_t bytes = 0;
    gx_matrix_bytes(count, 1, dtype, &bytes);
    GX_TRY(gx_mem_alloc(ctx->mem, bytes, "row", data, err));
    return gx_widen(row->dtype, row->data, gx_max(count, 1), dtype, *data, gx_max(count, 1), count,
                    1, err);
}

/* Raw elements, as numbers: as many as the bytes hold. */
static gx_code raw_row(gx_ctx *ctx, sqlite3_value *value, const char *label,
                       const gx_row_wish *wish, int64_t *count, void **data, gx_err *err)
{
    const void *blob = sqlite3_value_blob(value);
    gx_dtype dtype = wish->dtype;
    const gx_raw raw = {.label = label,
                        .bytes = (size_t)sqlite3_value_bytes(value),
                        .cols = wish->cols,
                        .is_one_row = true,
                        .may_complex = gx_number_is_complex(wish->number),
                        .own = wish->dtype,
                        .how = wish->how};
    if (!wish->is_stated) {
        GX_TRY(gx_raw_dtype(&raw, &dtype, err));
    }
    size_t size = gx_dtype_bytes(dtype);
    if (raw.bytes % size != 0) {
        return gx_fail(err, GX_ARG, "%s is a blob of %zu bytes, not a multiple of %zu (%s)", label,
                       raw.bytes, size, gx_dtype_name(dtype));
    }
    gx_mat row;
    *count = (int64_t)(raw.bytes / size);
    gx_mat_array(&row, label, dtype, *count, 1, blob, gx_max(*count, 1));
    return convert_row(ctx, label, &row, *count, wish->number, data, err);
}

gx_code gx_arg_row(gx_ctx *ctx, sqlite3_value *value, const char *label, const gx_row_wish *wish,
                   int64_t *count, void **data, gx_err *err)
{
    *data = NULL;
    *count = 0;
    int type = sqlite3_value_type(value);
    if (type == SQLITE_BLOB &&
        !gx_value_is(sqlite3_value_blob(value), (size_t)sqlite3_value_bytes(value))) {
        return raw_row(ctx, value, label, wish, count, data, err);
    }
    if (type == SQLITE_TEXT) {
        const char *text;
        size_t bytes;
        GX_TRY(text_of(value, &text, &bytes, err));
        const char *start = skip_blanks(text, bytes);
        if (start == text + bytes || *start != '[') {
            char shown[GX_SHOWN_BYTES];
            GX_TRY(gx_literal_braces(label, start, bytes - (size_t)(start - text), err));
            return gx_fail(err, GX_ARG,
                           "%s must be a JSON list, a matrix value or raw elements, not %s", label,
                           gx_arg_show(value, shown));
        }
    }
    gx_mat row;
    const source from = {.ctx = ctx, .label = label, .is_borrowed = true};
    GX_TRY(matrix_of(&from, value, &row, err));
    gx_code rc;
    if (row.rows != 1 && row.cols != 1 && row.rows * row.cols != 0) {
        rc = gx_fail(err, GX_ARG, "%s is %" PRId64 "x%" PRId64 ", not one row or column", label,
                     row.rows, row.cols);
    } else {
        *count = row.rows * row.cols;
        rc = convert_row(ctx, label, &row, *count, wish->number, data, err);
    }
    gx_mem_free(ctx->mem, row.owned);
    return rc;
}

bool gx_fn_index(gx_fn *fn, int index, int64_t side, const char *what, int64_t **number,
                 int64_t *count)
{
    gx_mat list;
    gx_reader *reader = NULL;
    if (!gx_fn_matrix(fn, index, "index", &list)) {
        return false;
    }
    *count = list.rows * list.cols;
    *number = gx_fn_alloc(fn, (size_t)gx_max(1, *count) * sizeof **number, "index");
    double *given = gx_fn_alloc(fn, (size_t)gx_max(1, *count) * sizeof *given, "index");
    bool is_read = gx_ok(&fn->run) && gx_look_open(fn, &list, &reader);
    if (is_read && *count > 0) {
        is_read = gx_fn_check(fn, gx_mat_read(&fn->run, &list, reader, 0, 0, list.rows, list.cols,
                                              GX_F64, given, list.rows, &fn->err));
    }
    gx_reader_close(reader);
    for (int64_t k = 0; is_read && k < *count; k++) {
        double from_end = given[k] < 0 ? given[k] + (double)side : given[k];
        if (!(from_end >= 0 && from_end < (double)side) || from_end != floor(from_end)) {
            return gx_fn_fail(fn, "there is no %s %g: there are %lld", what, given[k],
                              (long long)side);
        }
        (*number)[k] = (int64_t)from_end;
    }
    return is_read;
}
