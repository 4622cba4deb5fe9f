/*
** Errors: see err.h.  A gx_err is filled once; later failures on the way out cannot mask the first.
*/
#include "err.h"

#include <stdarg.h>
#include <stdio.h>

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
    for (char *c = err->text; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ') {
            *c = ' ';
        }
    }
    return code;
}

gx_code gx_fail_nomem(gx_err *err, unsigned long long bytes, const char *what)
{
    return gx_fail(err, GX_NOMEM, "out of memory (%llu bytes for %s)", bytes, what);
}
