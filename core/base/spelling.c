/*
** The distance of two spellings: see spelling.h.
**
** Dynamic programming over the prefixes (Wagner and Fischer 1974, with the swaps of neighbours of
** Damerau 1964): d(i, j) is the least of d(i-1, j) + 1, d(i, j-1) + 1, d(i-1, j-1) + [a_i /= b_j]
** and, where the last two letters are crossed, d(i-2, j-2) + 1.  Three rows are kept, on the stack;
** time is a_bytes x b_bytes.
*/
#include "spelling.h"

#include <string.h>

static int least(int a, int b)
{
    return a < b ? a : b;
}

int gx_near_distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    int older[GX_NEAR_BYTES + 1], last[GX_NEAR_BYTES + 1], row[GX_NEAR_BYTES + 1];
    if (a_bytes > GX_NEAR_BYTES || b_bytes > GX_NEAR_BYTES) {
        return GX_NEAR_FAR;
    }
    for (size_t j = 0; j <= b_bytes; j++) {
        row[j] = last[j] = (int)j;
    }
    for (size_t i = 1; i <= a_bytes; i++) {
        memcpy(older, last, sizeof older);
        memcpy(last, row, sizeof last);
        row[0] = (int)i;
        for (size_t j = 1; j <= b_bytes; j++) {
            char x = gx_lower(a[i - 1]), y = gx_lower(b[j - 1]);
            row[j] = least(last[j - 1] + (x != y), 1 + least(last[j], row[j - 1]));
            if (i > 1 && j > 1 && x == gx_lower(b[j - 2]) && y == gx_lower(a[i - 2])) {
                row[j] = least(row[j], older[j - 2] + 1);
            }
        }
    }
    return row[b_bytes];
}

bool gx_near_is_misspelt(int distance, size_t written_bytes)
{
    return distance < GX_NEAR_FAR && 3 * (size_t)distance <= written_bytes;
}
