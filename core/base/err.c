/*
** Errors: see err.h.  A gx_err is filled once; later failures on the way out cannot mask the first.
*/
#include "err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

/* Bytes of the UTF-8 character at c; 0 where there is none. */
static int utf8_bytes(const unsigned char *c)
{
    int bytes = *c < 0x80 ? 1 : *c < 0xc2 ? 0 : *c < 0xe0 ? 2 : *c < 0xf0 ? 3 : *c < 0xf5 ? 4 : 0;
    for (int i = 1; i < bytes; i++) {
        if ((c[i] & 0xc0) != 0x80) { // also the end of the text
            return 0;
        }
    }
    bool is_overlong = (*c == 0xe0 && c[1] < 0xa0) || (*c == 0xf0 && c[1] < 0x90);
    bool is_beyond = (*c == 0xed && c[1] >= 0xa0) || (*c == 0xf4 && c[1] >= 0x90);
    return is_overlong || is_beyond ? 0 : bytes;
}

void gx_text_clean(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c != '\0';) {
        int bytes = utf8_bytes(c);
        if (bytes == 0) {
            *c = '?';
        } else if (*c < ' ') {
            *c = ' ';
        }
        c += bytes == 0 ? 1 : bytes;
    }
}

gx_code gx_fail(gx_err *err, gx_code code, const char *format, ...)
{
    if (err == NULL) {
        return code;
    }
    if (err->code != GX_OK) {
        return err->code;
    }
    err->code = code;
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    gx_text_clean(err->text);
    return code;
}

gx_code gx_fail_nomem(gx_err *err, unsigned long long bytes, const char *what)
{
    return gx_fail(err, GX_NOMEM, "out of memory (%llu bytes for %s)", bytes, what);
}
