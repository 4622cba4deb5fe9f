/*
** Names of rows or columns as one text: a JSON list of strings and nulls as gx writes it,
**
**     ["area","price",null,"say \"so\""]
**
** without blanks; characters below 32, quotes and backslashes are escaped, all others are as they
** are.  A list may be shorter than what it names: the others have no names.
*/
#ifndef GX_NAMES_H
#define GX_NAMES_H

#include "err.h"

#include <stdbool.h>
#include <stdint.h>

/* A walk along a list that has been checked. */
typedef struct gx_names {
    const char *at, *end;
} gx_names;

/* Is the text such a list?  *count: of its names and nulls. */
bool gx_names_check(const char *text, size_t bytes, int64_t *count);

void gx_names_begin(gx_names *names, const char *text, size_t bytes);

/* The next one, escaped, without its quotes; NULL: a null.  false: there are no more. */
bool gx_names_next(gx_names *names, const char **name, size_t *bytes);

/* The name itself, without NUL, into room for as many bytes; returns how many it has. */
size_t gx_names_plain(const char *name, size_t bytes, char *plain);

/* The other way, with quotes, into room for 6 * bytes + 2. */
size_t gx_names_quote(const char *plain, size_t bytes, char *name);

#endif
