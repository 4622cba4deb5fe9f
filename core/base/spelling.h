/*
** ASCII letters and digits; how far one spelling is from another, for "did you mean".
*/
#ifndef GX_NEAR_H
#define GX_NEAR_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline char gx_lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static inline bool gx_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

enum { GX_NEAR_BYTES = 64, GX_NEAR_FAR = 1 << 20 };

/*
** Letters to insert, delete, change or swap to make b of a (the restricted Damerau-Levenshtein
** distance), case of ASCII letters apart.  GX_NEAR_FAR where one is longer than GX_NEAR_BYTES.
*/
int gx_near_distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes);

/* A misspelling: at most a third of what was written is wrong. */
bool gx_near_is_misspelt(int distance, size_t written_bytes);

#ifdef __cplusplus
}
#endif

#endif
