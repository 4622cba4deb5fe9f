/*
** The distinct values of a column, numbered as they come: categories, groups, clusters.
*/
#ifndef GX_LEVELS_H
#define GX_LEVELS_H

#include "../base/mem.h"

typedef struct gx_levels {
    gx_mem *mem;
    int64_t count;
    int64_t capacity;  /* of offset                                       */
    size_t *offset;    /* count + 1: where the text of each begins; owned */
    char *text;        /* all of them, each ended by a NUL; owned         */
    size_t text_bytes; /* that text has room for                          */
    int32_t *slot;     /* hash table of numbers + 1; owned                */
    int64_t slots;     /* a power of two, or 0                            */
} gx_levels;

void gx_levels_begin(gx_levels *levels, gx_mem *mem);
void gx_levels_clear(gx_levels *levels);

/* The number of the text, a new one where it has not come before.  GX_BUDGET, GX_NOMEM. */
gx_code gx_levels_find(gx_levels *levels, const char *text, size_t bytes, int64_t *number,
                       gx_err *err);

/* As long as nothing is added. */
static inline const char *gx_levels_text(const gx_levels *levels, int64_t number)
{
    return levels->text + levels->offset[number];
}

/*
** order: count numbers, sorted: as numbers where all texts are numbers, else by their bytes.
*/
void gx_levels_sort(const gx_levels *levels, int32_t *order);

#endif
