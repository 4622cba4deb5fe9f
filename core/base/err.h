/*
** Errors: one code, one line of text, first failure wins.
**
** Every function of gx that can fail returns a gx_code and fills a gx_err that its caller lends.
** The text is one line without a function name ("A is 300x20 but B is 30x5"); ext/ puts the SQL
** function's name in front and maps the code to SQLITE_*.  No allocation, no globals, no
** thread-locals.
*/
#ifndef GX_ERR_H
#define GX_ERR_H

#include <stddef.h>

/* CODE(ID, what it is of SQLITE_*, its name in gx_metrics()) */
/* clang-format off */
#define GX_CODES(CODE)                                                                             \
    CODE(NOMEM, NOMEM, no_memory)           /* the system has no memory */                         \
    CODE(BUDGET, ERROR, memory_limit)       /* gx's memory_limit does not allow it */              \
    CODE(ARG, ERROR, argument)              /* wrong argument: type, shape, name, option */        \
    CODE(NUMERIC, ERROR, numeric)           /* singular, not definite, not converged */            \
    CODE(IO, IOERR, io)                     /* file or database I/O */                             \
    CODE(CORRUPT, CORRUPT_VTAB, damage)     /* the shadow tables hold erroneous data */            \
    CODE(DEVICE, ERROR, device)             /* an accelerator failed */                            \
    CODE(UNSUPPORTED, ERROR, unsupported)   /* valid, but not offered */                           \
    CODE(INTERRUPT, INTERRUPT, interrupt)   /* sqlite3_interrupt() */                              \
    CODE(TOOBIG, TOOBIG, too_big)           /* past SQLite's length limit */                       \
    CODE(READONLY, READONLY, read_only)     /* database is read-only */                            \
    CODE(FULL, FULL, disk_full)             /* disk is full */                                     \
    CODE(BUSY, BUSY, busy)                  /* another connection holds a lock */                  \
    CODE(AUTH, AUTH, authorizer)            /* the application's authorizer forbids it */
/* clang-format on */

typedef enum gx_code {
    GX_OK = 0,
#define GX_CODE_ENUM(ID, ...) GX_##ID,
    GX_CODES(GX_CODE_ENUM)
#undef GX_CODE_ENUM
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

#endif
