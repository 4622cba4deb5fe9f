/*
** Text results: one growing buffer of SQLite's own memory, handed over without a copy.
**
** The buffer doubles; what it holds is counted by the memory governor while it grows.  Writing
** stops where SQLite's length limit is passed (by one piece at most), and gx_text_expect() refuses
** a result that is certain to pass it before anything is read.  Growing takes the old and the new
** buffer together for a moment, at most three times the text's bytes.
**
** And gx_text_show(): the piece of somebody's text that a message shows.
*/
#include "gx_ext.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *gx_text_show(const char *text, size_t bytes, char shown[GX_SHOWN_BYTES])
{
    const size_t room = 28; // of 24 bytes, and what says that there were more
    return gx_text_fit(text, bytes, shown, room);
}

// The buffer --------------------------------------------------------------------------------------

void gx_text_begin(gx_text *text, gx_run *run)
{
    *text = (gx_text){.run = run, .limit = (size_t)gx_store_length_limit(run->ctx->store)};
}

bool gx_text_expect(gx_text *text, size_t bytes)
{
    if (bytes > text->limit) {
        gx_run_failf(
            text->run, GX_TOOBIG,
            "the text takes %zu bytes or more, past SQLite's length limit of %zu: take a slice",
            bytes, text->limit);
    }
    return gx_ok(text->run);
}

/* Twice as much; where the budget does not allow that, what is needed and a little. */
static bool grow(gx_text *text, size_t needed)
{
    enum { LITTLE = 64 << 10 };
    gx_mem *mem = text->run->ctx->mem;
    size_t capacity = text->capacity == 0 ? 256 : 2 * text->capacity;
    capacity = capacity > text->limit ? text->limit : capacity;
    capacity = capacity < needed ? needed : capacity;
    gx_err err = {0};
    if (gx_mem_reserve(mem, capacity - text->capacity, "text", NULL) != GX_OK) {
        capacity = needed + LITTLE;
        if (gx_mem_reserve(mem, capacity - text->capacity, "text", &err) != GX_OK) {
            gx_run_fail(text->run, &err);
            return false;
        }
    }
    char *grown = sqlite3_realloc64(text->data, capacity);
    if (grown == NULL) {
        gx_mem_return(mem, capacity - text->capacity);
        gx_fail_nomem(&err, capacity, "text");
        gx_run_fail(text->run, &err);
        return false;
    }
    text->data = grown;
    text->capacity = capacity;
    return true;
}

char *gx_text_room(gx_text *text, size_t bytes)
{
    if (!gx_ok(text->run)) {
        return NULL;
    }
    size_t needed = text->used + bytes;
    if (!gx_text_expect(text, text->used) || (needed > text->capacity && !grow(text, needed))) {
        return NULL;
    }
    return text->data + text->used;
}

void gx_text_put(gx_text *text, const char *content, size_t bytes)
{
    char *room = gx_text_room(text, bytes);
    if (room != NULL && bytes > 0) {
        memcpy(room, content, bytes);
        text->used += bytes;
    }
}

void gx_text_puts(gx_text *text, const char *content)
{
    gx_text_put(text, content, strlen(content));
}

void gx_text_repeat(gx_text *text, const char *content, int64_t times)
{
    for (int64_t k = 0; k < times; k++) {
        gx_text_puts(text, content);
    }
}

void gx_text_printf(gx_text *text, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    gx_text_puts(text, line);
}

/* Quotes, backslashes and control characters escaped, the rest as it is. */
void gx_text_json(gx_text *text, const char *content)
{
    gx_text_puts(text, "\"");
    for (const char *c = content; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            gx_text_printf(text, "\\%c", *c);
        } else if ((unsigned char)*c < ' ') {
            gx_text_printf(text, "\\u%04x", (unsigned char)*c);
        } else {
            gx_text_put(text, c, 1);
        }
    }
    gx_text_puts(text, "\"");
}

void gx_text_clear(gx_text *text)
{
    if (text->data != NULL) {
        sqlite3_free(text->data);
        gx_mem_return(text->run->ctx->mem, text->capacity);
    }
    text->data = NULL;
    text->used = text->capacity = 0;
}

void gx_fn_result_text(gx_fn *fn, gx_text *text)
{
    if (gx_text_expect(text, text->used) && text->data != NULL) {
        gx_mem_return(text->run->ctx->mem, text->capacity);
        sqlite3_result_text64(fn->sql, text->data, text->used, sqlite3_free, SQLITE_UTF8);
        text->data = NULL;
    } else if (gx_ok(&fn->run)) {
        sqlite3_result_text(fn->sql, "", 0, SQLITE_STATIC);
    }
    gx_text_clear(text);
}
