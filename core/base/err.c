/*
** Errors: see err.h.  A gx_err is filled once; later failures on the way out cannot mask the first.
*/
#include "err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the UTF-8 character at c, of the left bytes there; 0 where there is none. */
static size_t utf8_bytes(const unsigned char *c, size_t left)
{
    const unsigned char lead = *c;
    size_t bytes = lead < 0x80   ? 1
                   : lead < 0xc2 ? 0
                   : lead < 0xe0 ? 2
                   : lead < 0xf0 ? 3
                   : lead < 0xf5 ? 4
                                 : 0;
    if (bytes > left) {
        return 0;
    }
    for (size_t i = 1; i < bytes; i++) {
        if ((c[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if (bytes < 3) {
        return bytes;
    }
    bool is_overlong = (*c == 0xe0 && c[1] < 0xa0) || (*c == 0xf0 && c[1] < 0x90);
    bool is_beyond = (*c == 0xed && c[1] >= 0xa0) || (*c == 0xf4 && c[1] >= 0x90);
    return is_overlong || is_beyond ? 0 : bytes;
}

/* The character at c as it is shown; *bytes: of it.  Returns how many bytes that takes. */
static size_t show_character(const unsigned char *c, size_t left, size_t *bytes, char to[4])
{
    static const char digit[] = "0123456789abcdef";
    *bytes = utf8_bytes(c, left);
    if (*bytes > 1 || (*bytes == 1 && *c >= ' ' && *c != 0x7f)) {
        memcpy(to, c, *bytes);
        return *bytes;
    }
    *bytes = 1;
    to[0] = ' ';
    if (*c == '\n' || *c == '\r' || *c == '\t') {
        return 1;
    }
    to[0] = '\\';
    to[1] = 'x';
    to[2] = digit[*c >> 4];
    to[3] = digit[*c & 15];
    return 4;
}

const char *gx_text_fit(const char *text, size_t bytes, char *shown, size_t room)
{
    const unsigned char *c = (const unsigned char *)text, *end = c + bytes;
    const size_t cut = 4; // "..." and its end
    size_t used = 0, kept = 0, taken, count;
    char one[4];
    for (; c < end; c += taken, used += count) {
        count = show_character(c, (size_t)(end - c), &taken, one);
        kept = used + cut <= room ? used : kept;
        if (used + count >= room) {
            memcpy(shown + kept, "...", cut);
            return shown;
        }
        memcpy(shown + used, one, count);
    }
    shown[used] = '\0';
    return shown;
}

void gx_text_clean(char *text)
{
    const char *end = text + strlen(text);
    for (unsigned char *c = (unsigned char *)text; *c != '\0';) {
        size_t bytes = utf8_bytes(c, (size_t)(end - (char *)c));
        if (bytes == 0) {
            *c = '?';
        } else if (*c < ' ') {
            *c = ' ';
        }
        c += bytes == 0 ? 1 : bytes;
    }
}

static gx_code fail(gx_err *err, gx_code code, unsigned long long bytes, const char *format,
                    va_list args)
{
    if (err == NULL) {
        return code;
    }
    if (err->code != GX_OK) {
        return err->code;
    }
    err->code = code;
    err->bytes = bytes;
    char text[2 * sizeof err->text];
    vsnprintf(text, sizeof text, format, args);
    gx_text_fit(text, strlen(text), err->text, sizeof err->text);
    return code;
}

gx_code gx_fail(gx_err *err, gx_code code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    gx_code kept = fail(err, code, 0, format, args);
    va_end(args);
    return kept;
}

gx_code gx_fail_bytes(gx_err *err, gx_code code, unsigned long long bytes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    gx_code kept = fail(err, code, bytes, format, args);
    va_end(args);
    return kept;
}

gx_code gx_fail_nomem(gx_err *err, unsigned long long bytes, const char *what)
{
    return gx_fail_bytes(err, GX_NOMEM, bytes, "out of memory (%llu bytes for %s)", bytes, what);
}
