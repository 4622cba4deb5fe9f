/*
** Errors: one code, one line of text, first failure wins.
**
** Every function of gx that can fail returns a gx_code and fills a gx_err that its caller lends.
** The text is one line without a function name ("A is 300x20 but B is 30x5"); ext/ puts the SQL
** function's name in front and maps the code to SQLITE_*.  No allocation, no globals, no
** thread-locals.
*/
#pragma once

#include <stddef.h>

typedef enum gx_code {
    GX_OK = 0,
    GX_NOMEM,       /* the system has no memory                     -> SQLITE_NOMEM        */
    GX_BUDGET,      /* gx's memory_limit does not allow it          -> SQLITE_ERROR        */
    GX_ARG,         /* wrong argument: type, shape, name, option    -> SQLITE_ERROR        */
    GX_NUMERIC,     /* singular, not definite, not converged        -> SQLITE_ERROR        */
    GX_IO,          /* file or database I/O                         -> SQLITE_IOERR        */
    GX_CORRUPT,     /* the shadow tables hold erroneous data        -> SQLITE_CORRUPT_VTAB */
    GX_DEVICE,      /* an accelerator failed                        -> SQLITE_ERROR        */
    GX_UNSUPPORTED, /* valid, but not offered                       -> SQLITE_ERROR        */
    GX_INTERRUPT,   /* sqlite3_interrupt()                          -> SQLITE_INTERRUPT    */
    GX_TOOBIG,      /* past SQLite's length limit                   -> SQLITE_TOOBIG       */
    GX_READONLY,    /* database is read-only                        -> SQLITE_READONLY     */
    GX_FULL,        /* disk is full                                 -> SQLITE_FULL         */
    GX_BUSY,        /* another connection holds a lock              -> SQLITE_BUSY         */
    GX_AUTH,        /* the application's authorizer forbids it      -> SQLITE_AUTH         */
    GX_CODE_COUNT
} gx_code;

typedef struct gx_err {
    gx_code code;             /* GX_OK until the first failure              */
    char text[500];           /* one line, NUL-terminated, cut when longer  */
    unsigned long long bytes; /* of memory that was refused; 0: not known. Set by gx_fail() */
} gx_err;

/*
** Record a failure and return its code.  If err already holds one, it stays and ITS code is
** returned (first failure wins).  err may be NULL.  The text follows printf; what is in it appears
** as gx_text_fit() shows it.
*/
gx_code gx_fail(gx_err *err, gx_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
** A piece of text for a message, into room bytes (at least 8), NUL included: UTF-8 as it is, line
** ends and tabs as blanks, other bytes as \x00, "..." at the end when cut.  Returns shown.
*/
const char *gx_text_fit(const char *text, size_t bytes, char *shown, size_t room);

/* Make a text fit for a message: control characters become spaces, what is not UTF-8 '?'. */
void gx_text_clean(char *text);

/* The same where memory was refused: so many bytes of it. */
gx_code gx_fail_bytes(gx_err *err, gx_code code, unsigned long long bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Record "out of memory (N bytes for WHAT)". */
gx_code gx_fail_nomem(gx_err *err, unsigned long long bytes, const char *what);

/* Return from the calling function when expr fails.  For functions that own nothing yet. */
#define GX_TRY(expr)                                                                               \
    do {                                                                                           \
        gx_code gx_try_code_ = (expr);                                                             \
        if (gx_try_code_ != GX_OK) {                                                               \
            return gx_try_code_;                                                                   \
        }                                                                                          \
    } while (0)
