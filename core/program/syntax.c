/*
** Trees of programs: memory, what the grammar's actions make, and errors with their place.
**
** Items come from chunks that are freed together.  Failures stick in syntax->err, and everything
** that is made afterwards is NULL, so that the grammar's actions need not look.  Depths are
** counted as the tree grows: whoever walks it may recurse.
*/
#include "syntax.h"

#include "../base/decimal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK_BYTES = 8192 };

typedef struct gx_chunk {
    struct gx_chunk *next;
    size_t used, bytes;
    _Alignas(16) char data[];
} gx_chunk;

/* bytes of the tree's memory, zeroed; NULL where there is none. */
static void *take(gx_syntax *syntax, size_t bytes)
{
    bytes = (bytes + 15) / 16 * 16;
    gx_chunk *chunk = syntax->chunk;
    if (chunk == NULL || chunk->bytes - chunk->used < bytes) {
        size_t room = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        void *memory;
        if (gx_mem_calloc(syntax->mem, sizeof *chunk + room, "a program's tree", &memory,
                          syntax->err) != GX_OK) {
            return NULL;
        }
        gx_chunk *fresh = memory;
        fresh->bytes = room;
        fresh->next = chunk;
        syntax->chunk = chunk = fresh;
    }
    void *place = chunk->data + chunk->used;
    chunk->used += bytes;
    return place;
}

// Errors ------------------------------------------------------------------------------------------

/* Bytes of up to `characters` characters at text. */
static size_t character_bytes(const char *text, const char *end, int characters)
{
    const char *c = text;
    for (; characters > 0 && c < end; characters--) {
        c++;
        while (c < end && ((unsigned char)*c & 0xc0) == 0x80) {
            c++;
        }
    }
    return (size_t)(c - text);
}

/* The line, around the column where it is long, and a caret under it. */
static void show_place(const gx_syntax *syntax, int line, int column, gx_err *err)
{
    enum { BEFORE = 50, SHOWN = 70 };
    const char *start = syntax->source, *end = start + syntax->bytes;
    for (int k = 1; k < line && start != NULL; k++) {
        start = memchr(start, '\n', (size_t)(end - start));
        start = start == NULL ? NULL : start + 1;
    }
    size_t used = strlen(err->text);
    if (start == NULL || sizeof err->text - used < (size_t)5 * SHOWN) {
        return;
    }
    const char *stop = memchr(start, '\n', (size_t)(end - start));
    stop = stop == NULL ? end : stop;
    int skipped = column > BEFORE + 1 ? column - 1 - BEFORE : 0;
    start += character_bytes(start, stop, skipped);
    size_t shown = character_bytes(start, stop, SHOWN);
    char piece[4 * SHOWN + 1];
    memcpy(piece, start, shown);
    piece[shown] = '\0';
    gx_text_clean(piece);
    snprintf(err->text + used, sizeof err->text - used, "\n  %s\n  %*s^", piece,
             column - 1 - skipped, "");
}

gx_code gx_syntax_fail(const gx_syntax *syntax, int line, int column, gx_err *err, gx_code code,
                       const char *format, ...)
{
    char text[sizeof err->text];
    if (err->code != GX_OK) {
        return err->code;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    gx_fail(err, code, "line %d, column %d: %s", line, column, text);
    show_place(syntax, line, column, err);
    return code;
}

/* What other languages write there, and what is written here instead; "" for anything else. */
static const char *say_instead(const gx_syntax *syntax, const gx_token *at, const char *shown)
{
    char before = at->at > syntax->source ? at->at[-1] : ' ';
    bool is_sum = before != ' ' && strchr("+-*/@", before) != NULL;
    return strcmp(shown, "=") == 0 && is_sum ? ": A = A + B is written out"
           : strcmp(shown, "=") == 0         ? ": arguments go by place, sum(A, 0)"
           : *shown == '/' && before == '/'  ? ": a whole quotient is floor(A / B)"
           : strcmp(shown, "and") == 0       ? ": A and B is A & B"
           : strcmp(shown, "or") == 0        ? ": A or B is A | B"
                                             : "";
}

void gx_syntax_unexpected(gx_syntax *syntax, const gx_token *at, bool is_end)
{
    char shown[32];
    size_t bytes = character_bytes(at->at, at->at + at->bytes, 20);
    bytes = bytes < sizeof shown ? bytes : sizeof shown - 1;
    memcpy(shown, at->at, bytes);
    shown[bytes] = '\0';
    if (is_end) {
        gx_syntax_fail(syntax, at->line, at->column, syntax->err, GX_ARG,
                       "the program ends in the middle of a statement");
    } else {
        gx_syntax_fail(syntax, at->line, at->column, syntax->err, GX_ARG,
                       "'%s' is not expected here%s", shown, say_instead(syntax, at, shown));
    }
}

void gx_syntax_too_deep(gx_syntax *syntax)
{
    gx_fail(syntax->err, GX_ARG, "the program is nested too deeply");
}

// Items -------------------------------------------------------------------------------------------

gx_item *gx_item_new(gx_syntax *syntax, gx_form form, const gx_token *at)
{
    if (syntax->err->code != GX_OK) {
        return NULL;
    }
    if (++syntax->items > GX_ITEMS_MAX) {
        gx_fail(syntax->err, GX_ARG, "the program has more than %d parts", GX_ITEMS_MAX);
        return NULL;
    }
    gx_item *item = take(syntax, sizeof *item);
    if (item != NULL) {
        item->form = form;
        item->line = at == NULL ? 1 : at->line;
        item->column = at == NULL ? 1 : at->column;
        item->depth = 1;
        item->text = "";
    }
    return item;
}

gx_item *gx_item_text(gx_syntax *syntax, gx_form form, const gx_token *at)
{
    gx_item *item = gx_item_new(syntax, form, at);
    bool is_quoted = at->bytes >= 2 && (*at->at == '"' || *at->at == '\'');
    size_t bytes = at->bytes - (is_quoted ? 2 : 0);
    char *text = item == NULL ? NULL : take(syntax, bytes + 1);
    if (text == NULL) {
        return NULL;
    }
    memcpy(text, at->at + is_quoted, bytes);
    item->text = text;
    item->is_quoted = is_quoted;
    return item;
}

gx_item *gx_item_number(gx_syntax *syntax, const gx_token *at)
{
    gx_item *item = gx_item_new(syntax, GX_FORM_NUMBER, at);
    const char *stop;
    double value = 0;
    if (item != NULL && gx_decimal_parse(at->at, at->at + at->bytes, &stop, &value)) {
        bool is_imaginary = stop < at->at + at->bytes;
        item->value = is_imaginary ? (gx_scalar){0, value} : (gx_scalar){value, 0};
        item->is_quoted = is_imaginary;
    }
    return item;
}

gx_item *gx_item_argument(gx_syntax *syntax, const gx_token *at)
{
    gx_item *item = gx_item_new(syntax, GX_FORM_ARGUMENT, at);
    int64_t index = 0;
    if (item == NULL) {
        return NULL;
    }
    if (!gx_decimal_parse_i64(at->at + 1, at->at + at->bytes, &index) || index < 1 ||
        index > GX_ARGUMENT_MAX) {
        gx_syntax_fail(syntax, at->line, at->column, syntax->err, GX_ARG, "arguments are ?1 to ?%d",
                       GX_ARGUMENT_MAX);
        return NULL;
    }
    item->index = (int)index;
    syntax->arguments = item->index > syntax->arguments ? item->index : syntax->arguments;
    return item;
}

gx_item *gx_item_infix(gx_syntax *syntax, const char *name, const gx_token *at, gx_item *first,
                       gx_item *second)
{
    gx_item *item = gx_item_new(syntax, GX_FORM_CALL, at);
    if (item == NULL) {
        return NULL;
    }
    item->text = name;
    item->is_infix = true;
    gx_item_add(syntax, item, first);
    return second == NULL ? item : gx_item_add(syntax, item, second);
}

gx_item *gx_item_add(gx_syntax *syntax, gx_item *parent, gx_item *child)
{
    if (parent == NULL || child == NULL || syntax->err->code != GX_OK) {
        return NULL;
    }
    child->next = NULL;
    if (parent->last == NULL) {
        parent->first = child;
    } else {
        parent->last->next = child;
    }
    parent->last = child;
    parent->count++;
    if (child->depth >= parent->depth) {
        parent->depth = child->depth + 1;
    }
    if (parent->depth > GX_NESTING_MAX) {
        gx_syntax_fail(syntax, child->line, child->column, syntax->err, GX_ARG,
                       "nested more than %d deep: give parts names of their own", GX_NESTING_MAX);
        return NULL;
    }
    return parent;
}

// The whole ---------------------------------------------------------------------------------------

gx_code gx_syntax_parse(gx_mem *mem, const char *text, size_t bytes, gx_syntax **out, gx_err *err)
{
    *out = NULL;
    if (bytes > GX_TEXT_MAX) {
        return gx_fail(err, GX_ARG, "the program has %zu bytes, more than the %d allowed", bytes,
                       GX_TEXT_MAX);
    }
    void *memory;
    GX_TRY(gx_mem_calloc(mem, sizeof(gx_syntax), "a program's tree", &memory, err));
    gx_syntax *syntax = memory;
    gx_err inner = {0};
    syntax->mem = mem;
    syntax->err = &inner;
    char *copy = take(syntax, bytes + 1);
    if (copy != NULL) {
        memcpy(copy, text, bytes);
        syntax->source = copy;
        syntax->bytes = bytes;
        gx_grammar_run(syntax);
    }
    syntax->err = NULL;
    if (inner.code != GX_OK) {
        gx_syntax_free(syntax);
        *err = inner;
        return inner.code;
    }
    *out = syntax;
    return GX_OK;
}

void gx_syntax_free(gx_syntax *syntax)
{
    if (syntax == NULL) {
        return;
    }
    while (syntax->chunk != NULL) {
        gx_chunk *chunk = syntax->chunk;
        syntax->chunk = chunk->next;
        gx_mem_free(syntax->mem, chunk);
    }
    gx_mem_free(syntax->mem, syntax);
}
