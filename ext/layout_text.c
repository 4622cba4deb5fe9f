/*
** Layouts of composites (core/mat/composite.h) as the expressions that gx_lazy takes and shows.
*/
#include "layout_text.h"

#include "../core/base/decimal.h"
#include "../core/program/syntax.h"

#include <math.h>
#include <string.h>

// From an expression to terms ---------------------------------------------------------------------

typedef struct reading {
    const gx_syntax *syntax;
    gx_mem *mem;
    gx_layout *layout;
    gx_err *err;
} reading;

static gx_code fail_at(reading *r, const gx_item *item, const char *what)
{
    return gx_syntax_fail(r->syntax, item->line, item->column, r->err, GX_ARG, "%s", what);
}

static bool is_call(const gx_item *item, const char *name, int least, int most)
{
    return item->form == GX_FORM_CALL && strcmp(item->text, name) == 0 && item->count >= least &&
           item->count <= most;
}

/* A number, or what is computed of numbers. */
static bool constant(const gx_item *item, gx_scalar *value)
{
    gx_scalar a, b;
    if (item->form == GX_FORM_NUMBER) {
        *value = item->value;
        return true;
    }
    if (is_call(item, "neg", 1, 1) && constant(item->first, &a)) {
        *value = (gx_scalar){-a.re, -a.im};
        return true;
    }
    bool is_mul = is_call(item, "mul", 2, 2), is_div = is_call(item, "div", 2, 2);
    bool is_add = is_call(item, "add", 2, 2), is_sub = is_call(item, "sub", 2, 2);
    if ((!is_mul && !is_div && !is_add && !is_sub) || !constant(item->first, &a) ||
        !constant(item->last, &b) || (is_div && b.im != 0)) {
        return false;
    }
    double sign = is_add ? 1 : -1;
    *value = is_mul   ? gx_scalar_times(a, b)
             : is_div ? (gx_scalar){a.re / b.re, a.im / b.re}
                      : (gx_scalar){a.re + sign * b.re, a.im + sign * b.im};
    return true;
}

static gx_term *term_at(const reading *r, int64_t k)
{
    return &r->layout->term[k];
}

static void times(reading *r, int64_t k, gx_scalar factor)
{
    term_at(r, k)->factor = gx_scalar_times(term_at(r, k)->factor, factor);
}

static gx_code add(reading *r, gx_term_kind kind, int64_t operands)
{
    gx_term *term;
    GX_TRY(gx_layout_add(r->mem, r->layout, kind, &term, r->err));
    term->operands = operands;
    return GX_OK;
}

static gx_code take(reading *r, const gx_item *item);

static gx_code take_name(reading *r, const gx_item *item)
{
    size_t bytes = strlen(item->text);
    if (bytes == 0 || bytes > GX_NAME_MAX) {
        return fail_at(r, item, "a name has 1 to 255 bytes");
    }
    GX_TRY(add(r, GX_TERM_MATRIX, 0));
    memcpy(term_at(r, r->layout->terms - 1)->name, item->text, bytes + 1);
    return GX_OK;
}

/* Everything that + and - join, as operands of one sum. */
static gx_code take_summands(reading *r, const gx_item *item, double sign, int64_t *count)
{
    bool is_add = is_call(item, "add", 2, 2), is_sub = is_call(item, "sub", 2, 2);
    if (is_add || is_sub) {
        GX_TRY(take_summands(r, item->first, sign, count));
        return take_summands(r, item->last, is_sub ? -sign : sign, count);
    }
    int64_t at = r->layout->terms;
    GX_TRY(take(r, item));
    times(r, at, (gx_scalar){sign, 0});
    ++*count;
    return GX_OK;
}

static gx_code take_sum(reading *r, const gx_item *item)
{
    int64_t at = r->layout->terms, count = 0;
    GX_TRY(add(r, GX_TERM_SUM, 0));
    GX_TRY(take_summands(r, item, 1, &count));
    term_at(r, at)->operands = count;
    return GX_OK;
}

/* One factor is a number. */
static gx_code take_scaled(reading *r, const gx_item *item)
{
    gx_scalar factor;
    int64_t at = r->layout->terms;
    bool is_div = strcmp(item->text, "div") == 0;
    bool is_left = !is_div && constant(item->first, &factor);
    if (!is_left && !constant(item->last, &factor)) {
        return fail_at(r, item, "a lazy matrix is multiplied by numbers, and by matrices with @");
    }
    if (is_div) {
        if (factor.im != 0) {
            return fail_at(r, item, "a lazy matrix is divided by real numbers");
        }
        factor.re = 1 / factor.re;
    }
    GX_TRY(take(r, is_left ? item->last : item->first));
    times(r, at, factor);
    return GX_OK;
}

static gx_code take_turned(reading *r, const gx_item *item, bool is_turned, bool is_conjugated)
{
    int64_t at = r->layout->terms;
    GX_TRY(take(r, item->first));
    gx_term *t = term_at(r, at);
    t->is_turned = t->is_turned != is_turned;
    t->is_conjugated = t->is_conjugated != is_conjugated;
    t->factor.im = is_conjugated ? -t->factor.im : t->factor.im;
    if (is_turned && t->operands == 0 && t->rows >= 0) { // zeros, whose sizes are said
        int64_t rows = t->rows;
        t->rows = t->cols;
        t->cols = rows;
    }
    return GX_OK;
}

/* kron(A, B, C) is kron(A, kron(B, C)). */
static gx_code take_kron(reading *r, const gx_item *item)
{
    for (const gx_item *one = item->first; one != NULL; one = one->next) {
        if (one->next != NULL) {
            GX_TRY(add(r, GX_TERM_KRON, 2));
        }
        GX_TRY(take(r, one));
    }
    return GX_OK;
}

static bool size_of(const gx_item *item, int64_t *size)
{
    gx_scalar x;
    bool is_it = constant(item, &x) && x.im == 0 && x.re == floor(x.re) && fabs(x.re) < 9e15;
    *size = is_it ? (int64_t)x.re : 0;
    return is_it;
}

/* eye(n), zeros(m, n): sizes are numbers. */
static gx_code take_sized(reading *r, const gx_item *item, gx_term_kind kind)
{
    int64_t rows, cols;
    if (!size_of(item->first, &rows) || !size_of(item->last, &cols) || rows < 0 || cols < 0 ||
        (kind == GX_TERM_NUMBER && rows != cols)) {
        return fail_at(r, item,
                       kind == GX_TERM_NUMBER ? "a lazy eye(n) is square, and n is a number"
                                              : "sizes of lazy zeros(m, n) are numbers");
    }
    GX_TRY(add(r, kind, 0));
    term_at(r, r->layout->terms - 1)->rows = rows;
    term_at(r, r->layout->terms - 1)->cols = cols;
    return GX_OK;
}

static gx_code take_diagonal(reading *r, const gx_item *item)
{
    int64_t number = 0;
    if (item->count == 2 && !size_of(item->last, &number)) {
        return fail_at(r, item->last, "the number of a diagonal is a whole number");
    }
    GX_TRY(add(r, GX_TERM_DIAGONAL, 1));
    term_at(r, r->layout->terms - 1)->down = number;
    return take(r, item->first);
}

static gx_code take_toeplitz(reading *r, const gx_item *item)
{
    GX_TRY(add(r, GX_TERM_TOEPLITZ, 2));
    GX_TRY(take(r, item->first));
    return take(r, item->last);
}

/* A part of a block may be a number: on the diagonal, or zeros. */
static gx_code take_block_part(reading *r, const gx_item *item)
{
    gx_scalar x;
    if (!constant(item, &x)) {
        return take(r, item);
    }
    bool is_zero = x.re == 0 && x.im == 0;
    GX_TRY(add(r, is_zero ? GX_TERM_ZERO : GX_TERM_NUMBER, 0));
    times(r, r->layout->terms - 1, is_zero ? GX_ONE : x);
    return GX_OK;
}

static gx_code take_block(reading *r, const gx_item *item)
{
    const gx_item *rows = item->first, *row = rows->first;
    bool is_grid = rows->form == GX_FORM_LIST && row != NULL && row->form == GX_FORM_LIST;
    int64_t across = is_grid ? row->count : 0;
    for (; is_grid && row != NULL; row = row->next) {
        is_grid = row->form == GX_FORM_LIST && row->count == across;
    }
    if (!is_grid) {
        return fail_at(r, item,
                       "block takes rows of parts, all of one length: block([[A, B], "
                       "[C, 0]])");
    }
    GX_TRY(gx_layout_add_block(r->mem, r->layout, rows->count, across, r->err));
    for (row = rows->first; row != NULL; row = row->next) {
        for (const gx_item *part = row->first; part != NULL; part = part->next) {
            GX_TRY(take_block_part(r, part));
        }
    }
    return GX_OK;
}

static gx_code take_call(reading *r, const gx_item *item)
{
    if (is_call(item, "add", 2, 2) || is_call(item, "sub", 2, 2)) {
        return take_sum(r, item);
    } else if (is_call(item, "mul", 2, 2) || is_call(item, "div", 2, 2)) {
        return take_scaled(r, item);
    } else if (is_call(item, "transpose", 1, 1) || is_call(item, "adjoint", 1, 1)) {
        return take_turned(r, item, true, item->text[0] == 'a');
    } else if (is_call(item, "conj", 1, 1)) {
        return take_turned(r, item, false, true);
    } else if (is_call(item, "kron", 2, 16)) {
        return take_kron(r, item);
    } else if (is_call(item, "eye", 1, 2)) {
        return take_sized(r, item, GX_TERM_NUMBER);
    } else if (is_call(item, "zeros", 2, 2)) {
        return take_sized(r, item, GX_TERM_ZERO);
    } else if (is_call(item, "diag", 1, 2)) {
        return take_diagonal(r, item);
    } else if (is_call(item, "toeplitz", 1, 2)) {
        return take_toeplitz(r, item);
    } else if (is_call(item, "block", 1, 1)) {
        return take_block(r, item);
    }
    int64_t at = r->layout->terms;
    if (is_call(item, "neg", 1, 1)) {
        GX_TRY(take(r, item->first));
        times(r, at, GX_MINUS_ONE);
        return GX_OK;
    }
    bool is_matmul = is_call(item, "matmul", 2, 2), is_circulant = is_call(item, "circulant", 1, 1);
    if (!is_matmul && !is_circulant && !is_call(item, "permutation", 1, 1)) {
        return fail_at(r, item,
                       "a lazy matrix is made of stored ones by + - @ .T .H, kron, diag and what "
                       "else gx_lazy's page names");
    }
    GX_TRY(add(r,
               is_matmul      ? GX_TERM_PRODUCT
               : is_circulant ? GX_TERM_CIRCULANT
                              : GX_TERM_PERMUTATION,
               item->count));
    GX_TRY(take(r, item->first));
    return is_matmul ? take(r, item->last) : GX_OK;
}

static gx_code take(reading *r, const gx_item *item)
{
    return item->form == GX_FORM_NAME   ? take_name(r, item)
           : item->form == GX_FORM_CALL ? take_call(r, item)
           : item->form == GX_FORM_NUMBER
               ? fail_at(r, item, "a number alone has no size: 2 * eye(n)")
               : fail_at(r, item, "a lazy matrix is made of stored matrices, by their names");
}

gx_code gx_layout_read_text(gx_ctx *ctx, const char *text, gx_layout *layout, gx_err *err)
{
    gx_syntax *syntax;
    GX_TRY(gx_syntax_parse(NULL, text, strlen(text), &syntax, err));
    reading r = {syntax, ctx->mem, layout, err};
    const gx_item *only = syntax->program->first;
    bool is_one = syntax->program->count == 1 && only->form == GX_FORM_VALUE;
    gx_code code = is_one ? take(&r, only->first)
                          : gx_fail(err, GX_ARG,
                                    "expression is one expression, as in "
                                    "'kron(A, B) + 0.1 * eye(n)'");
    gx_syntax_free(syntax);
    return code;
}

// From terms to an expression ---------------------------------------------------------------------

static void put_number(gx_text *text, gx_scalar x)
{
    char shown[GX_DECIMAL_MAX];
    gx_decimal_format(x.im == 0 ? x.re : x.im, shown);
    if (x.re != 0 && x.im != 0) {
        char first[GX_DECIMAL_MAX];
        gx_decimal_format(x.re, first);
        gx_text_printf(text, "(%s + %sj)", first, shown);
        return;
    }
    gx_text_printf(text, "%s%s", shown, x.im == 0 ? "" : "j");
}

static void put_name(gx_text *text, const char *name)
{
    gx_text_puts(text, "\"");
    for (const char *c = name; *c != '\0'; c++) {
        gx_text_put(text, c, 1);
        if (*c == '"') {
            gx_text_puts(text, "\"");
        }
    }
    gx_text_puts(text, "\"");
}

static const gx_term *put_term(gx_text *text, const gx_term *t);

/* Operands between words; returns what is behind them. */
static const gx_term *put_operands(gx_text *text, const gx_term *t, const char *open,
                                   const char *between, const char *close)
{
    const gx_term *operand = t + 1;
    gx_text_puts(text, open);
    for (int64_t k = 0; k < t->operands; k++) {
        bool is_row = t->kind == GX_TERM_BLOCK && k > 0 && k % t->across == 0;
        gx_text_puts(text, k == 0 ? "" : is_row ? "], [" : between);
        operand = put_term(text, operand);
    }
    gx_text_puts(text, close);
    return operand;
}

static const gx_term *put_bare(gx_text *text, const gx_term *t)
{
    static const char *const calls[] = {
        [GX_TERM_KRON] = "kron(",
        [GX_TERM_TOEPLITZ] = "toeplitz(",
        [GX_TERM_CIRCULANT] = "circulant(",
        [GX_TERM_PERMUTATION] = "permutation(",
    };
    switch (t->kind) {
    case GX_TERM_ZERO:
        gx_text_printf(text, "zeros(%lld, %lld)", (long long)t->rows, (long long)t->cols);
        return t + 1;
    case GX_TERM_NUMBER:
        gx_text_printf(text, "eye(%lld)", (long long)t->rows);
        return t + 1;
    case GX_TERM_MATRIX:
        put_name(text, t->name);
        return t + 1;
    case GX_TERM_BLOCK:
        return put_operands(text, t, "block([[", ", ", "]])");
    case GX_TERM_SUM:
        return put_operands(text, t, "(", " + ", ")");
    case GX_TERM_PRODUCT:
        return put_operands(text, t, "(", " @ ", ")");
    case GX_TERM_DIAGONAL: {
        const gx_term *next = put_operands(text, t, "diag(", "", "");
        gx_text_printf(text, t->down == 0 ? ")" : ", %lld)", (long long)t->down);
        return next;
    }
    default:
        return put_operands(text, t, calls[t->kind], ", ", ")");
    }
}

static const gx_term *put_term(gx_text *text, const gx_term *t)
{
    bool is_scaled = t->factor.re != 1 || t->factor.im != 0;
    if (is_scaled) {
        gx_text_puts(text, "(");
        put_number(text, t->factor);
        gx_text_puts(text, " * ");
    }
    gx_text_puts(text, t->is_conjugated && !t->is_turned ? "conj(" : "");
    const gx_term *next = put_bare(text, t);
    gx_text_puts(text, !t->is_turned      ? t->is_conjugated ? ")" : ""
                       : t->is_conjugated ? ".H"
                                          : ".T");
    gx_text_puts(text, is_scaled ? ")" : "");
    return next;
}

void gx_layout_put_text(gx_text *text, const gx_layout *layout)
{
    put_term(text, layout->term);
}
