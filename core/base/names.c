/*
** Names of rows or columns as one text: see names.h.
*/
#include "names.h"

#include <stdio.h>
#include <string.h>

/* The value of a hexadecimal digit, -1: it is none. */
static int digit(char c)
{
    const char *digits = "0123456789abcdef", *found = c == '\0' ? NULL : strchr(digits, c);
    return found == NULL ? -1 : (int)(found - digits);
}

/* Behind the escape at the backslash `at`; NULL: it is none of ours. */
static const char *pass_escape(const char *at, const char *end)
{
    if (end - at >= 2 && (at[1] == '"' || at[1] == '\\')) {
        return at + 2;
    }
    bool is_code = end - at >= 6 && memcmp(at, "\\u00", 4) == 0 && (at[4] == '0' || at[4] == '1') &&
                   digit(at[5]) >= 0 && (at[4] != '0' || at[5] != '0');
    return is_code ? at + 6 : NULL;
}

/* Behind the string or null at `at`; NULL: there is neither. */
static const char *pass_item(const char *at, const char *end)
{
    if (end - at >= 4 && memcmp(at, "null", 4) == 0) {
        return at + 4;
    }
    if (at == end || *at++ != '"') {
        return NULL;
    }
    while (at != NULL && at < end && *at != '"') {
        at = *at == '\\' ? pass_escape(at, end) : (unsigned char)*at < ' ' ? NULL : at + 1;
    }
    return at == NULL || at == end ? NULL : at + 1;
}

bool gx_names_check(const char *text, size_t bytes, int64_t *count)
{
    const char *at = text, *end = text + bytes;
    *count = 0;
    if (bytes < 2 || *at++ != '[') {
        return false;
    }
    while (*count > 0 || *at != ']') {
        at = pass_item(at, end);
        if (at == NULL || at == end || (*at != ',' && *at != ']')) {
            return false;
        }
        (*count)++;
        if (*at == ']') {
            break;
        }
        at++;
    }
    return at + 1 == end;
}

void gx_names_begin(gx_names *names, const char *text, size_t bytes)
{
    *names = (gx_names){.at = text + 1, .end = text + bytes - 1};
}

bool gx_names_next(gx_names *names, const char **name, size_t *bytes)
{
    if (names->at >= names->end) {
        return false;
    }
    const char *after = pass_item(names->at, names->end);
    bool is_null = *names->at == 'n';
    *name = is_null ? NULL : names->at + 1;
    *bytes = is_null ? 0 : (size_t)(after - names->at) - 2;
    names->at = after + 1;
    return true;
}

size_t gx_names_plain(const char *name, size_t bytes, char *plain)
{
    char *to = plain;
    const char *end = name + bytes;
    while (name < end) {
        if (*name != '\\') {
            *to++ = *name++;
        } else if (name[1] != 'u') {
            *to++ = name[1];
            name += 2;
        } else {
            *to++ = (char)(digit(name[4]) << 4 | digit(name[5]));
            name += 6;
        }
    }
    return (size_t)(to - plain);
}

size_t gx_names_quote(const char *plain, size_t bytes, char *name)
{
    char *to = name;
    *to++ = '"';
    for (size_t k = 0; k < bytes; k++) {
        if ((unsigned char)plain[k] < ' ') {
            to += snprintf(to, 7, "\\u%04x", (unsigned)plain[k]);
            continue;
        }
        if (plain[k] == '"' || plain[k] == '\\') {
            *to++ = '\\';
        }
        *to++ = plain[k];
    }
    *to++ = '"';
    return (size_t)(to - name);
}
