/*
** Distinct texts: an open-addressing hash table (FNV-1a, linear probing) of numbers into one block
** of text.  At most half full.  See levels.h.
*/
#include "levels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_LEVELS = 8, FIRST_BYTES = 128, LEVELS_MOST = INT32_MAX / 4 };

void gx_levels_begin(gx_levels *levels, gx_mem *mem)
{
    *levels = (gx_levels){.mem = mem};
}

void gx_levels_clear(gx_levels *levels)
{
    gx_mem_free(levels->mem, levels->offset);
    gx_mem_free(levels->mem, levels->text);
    gx_mem_free(levels->mem, levels->slot);
    *levels = (gx_levels){.mem = levels->mem};
}

static uint64_t hash_of(const char *text, size_t bytes)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    }
    return hash ^ hash >> 32;
}

/* The slot that has the text, or the empty one where it belongs. */
static int64_t slot_of(const gx_levels *levels, const char *text, size_t bytes)
{
    int64_t at = (int64_t)(hash_of(text, bytes) & (uint64_t)(levels->slots - 1));
    for (; levels->slot[at] != 0; at = (at + 1) & (levels->slots - 1)) {
        int64_t number = levels->slot[at] - 1;
        size_t length = levels->offset[number + 1] - levels->offset[number] - 1;
        if (length == bytes && memcmp(gx_levels_text(levels, number), text, bytes) == 0) {
            break;
        }
    }
    return at;
}

static gx_code grow(gx_levels *levels, size_t bytes, gx_err *err)
{
    static const char *const what = "levels";
    size_t used = levels->count == 0 ? 0 : levels->offset[levels->count];
    if (levels->count >= LEVELS_MOST) {
        return gx_fail(err, GX_ARG, "there are more than %d different levels", LEVELS_MOST);
    }
    if (levels->count == levels->capacity) {
        int64_t room = gx_max(FIRST_LEVELS, 2 * levels->capacity);
        GX_TRY(gx_mem_realloc(levels->mem, (size_t)(room + 1) * sizeof *levels->offset, what,
                              &levels->offset, err));
        levels->capacity = room;
        levels->offset[levels->count] = used;
    }
    if (used + bytes + 1 > levels->text_bytes) {
        size_t room = 2 * (used + bytes) + FIRST_BYTES;
        GX_TRY(gx_mem_realloc(levels->mem, room, what, &levels->text, err));
        levels->text_bytes = room;
    }
    if (2 * (levels->count + 1) > levels->slots) {
        int64_t slots = gx_max(2 * FIRST_LEVELS, 2 * levels->slots);
        int32_t *fresh;
        GX_TRY(gx_mem_calloc(levels->mem, (size_t)slots * sizeof *fresh, what, &fresh, err));
        gx_mem_free(levels->mem, levels->slot);
        levels->slot = fresh;
        levels->slots = slots;
        for (int64_t k = 0; k < levels->count; k++) {
            size_t length = levels->offset[k + 1] - levels->offset[k] - 1;
            levels->slot[slot_of(levels, gx_levels_text(levels, k), length)] = (int32_t)k + 1;
        }
    }
    return GX_OK;
}

gx_code gx_levels_find(gx_levels *levels, const char *text, size_t bytes, int64_t *number,
                       gx_err *err)
{
    int64_t at = levels->slots == 0 ? -1 : slot_of(levels, text, bytes);
    if (at >= 0 && levels->slot[at] != 0) {
        *number = levels->slot[at] - 1;
        return GX_OK;
    }
    GX_TRY(grow(levels, bytes, err));
    size_t begin = levels->offset[levels->count];
    memcpy(levels->text + begin, text, bytes);
    levels->text[begin + bytes] = '\0';
    *number = levels->count;
    levels->slot[slot_of(levels, text, bytes)] = (int32_t)levels->count + 1;
    levels->offset[++levels->count] = begin + bytes + 1;
    return GX_OK;
}

// Order -------------------------------------------------------------------------------------------

static bool is_number(const char *text, double *number)
{
    char *end;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && !isnan(*number);
}

static int compare(const char *a, const char *b, bool by_number)
{
    double x, y;
    if (by_number && is_number(a, &x) && is_number(b, &y) && x != y) {
        return x < y ? -1 : 1;
    }
    return strcmp(a, b);
}

/* Sift down in a heap whose root is the largest. */
static void sift(const gx_levels *levels, int32_t *order, int64_t root, int64_t count, bool number)
{
    for (int64_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && compare(gx_levels_text(levels, order[child]),
                                         gx_levels_text(levels, order[child + 1]), number) < 0) {
            child++;
        }
        if (compare(gx_levels_text(levels, order[root]), gx_levels_text(levels, order[child]),
                    number) >= 0) {
            return;
        }
        int32_t moved = order[root];
        order[root] = order[child];
        order[child] = moved;
    }
}

void gx_levels_sort(const gx_levels *levels, int32_t *order)
{
    bool number = true;
    double ignored;
    for (int64_t k = 0; k < levels->count; k++) {
        order[k] = (int32_t)k;
        number = number && is_number(gx_levels_text(levels, k), &ignored);
    }
    for (int64_t k = levels->count / 2 - 1; k >= 0; k--) {
        sift(levels, order, k, levels->count, number);
    }
    for (int64_t end = levels->count - 1; end > 0; end--) {
        int32_t largest = order[0];
        order[0] = order[end];
        order[end] = largest;
        sift(levels, order, 0, end, number);
    }
}
