/*
** Volumes: which bytes of a set's files are free.
**
** An array of gaps in ascending order, made from the extents in use, and the end behind the last of
** them.  A place is the first gap that is long enough from where the search before it stopped
** (next fit: tiles of one matrix are equally long and follow each other), else the end.  A length
** that no gap has is not looked for again.  What is
** taken is not given back: a call's own extents are free again when the next call reads the table.
**
** Memory: 16 bytes a gap, from the governor.
*/
#include "volume_int.h"

#include <assert.h>

typedef struct gap {
    int64_t offset, length;
} gap;

struct gx_space_map {
    gx_mem *mem;
    gap *gaps;
    int64_t count, room; /* gaps there are, and fit */
    int64_t at;          /* where the search goes on */
    int64_t hopeless;    /* the shortest length for which there was no gap; 0: none yet */
    int64_t end;
};

gx_code gx_space_map_create(gx_mem *mem, gx_space_map **map, gx_err *err)
{
    void *memory;
    *map = NULL;
    GX_TRY(gx_mem_calloc(mem, sizeof(gx_space_map), "free space of volumes", &memory, err));
    *map = memory;
    (*map)->mem = mem;
    (*map)->end = GX_VOLUME_BLOCK;
    return GX_OK;
}

void gx_space_map_free(gx_space_map *map)
{
    if (map != NULL) {
        gx_mem_free(map->mem, map->gaps);
        gx_mem_free(map->mem, map);
    }
}

static gx_code add_gap(gx_space_map *map, int64_t offset, int64_t length, gx_err *err)
{
    if (map->count == map->room) {
        int64_t room = map->room == 0 ? 64 : 2 * map->room;
        void *memory = map->gaps;
        GX_TRY(gx_mem_realloc(map->mem, (size_t)room * sizeof(gap), "free space of volumes",
                              &memory, err));
        map->gaps = memory;
        map->room = room;
    }
    map->gaps[map->count++] = (gap){offset, length};
    return GX_OK;
}

gx_code gx_space_map_use(gx_space_map *map, int64_t offset, int64_t length, gx_err *err)
{
    if (offset < map->end || length < 1 || length > INT64_MAX - offset) {
        return gx_fail(err, GX_CORRUPT, "the extent of %lld bytes at %lld overlaps another",
                       (long long)length, (long long)offset);
    }
    if (offset > map->end) {
        GX_TRY(add_gap(map, map->end, offset - map->end, err));
    }
    map->end = offset + length;
    return GX_OK;
}

void gx_space_map_append_only(gx_space_map *map, int64_t bytes)
{
    map->count = map->at = 0;
    map->end = gx_max(map->end, bytes);
}

gx_code gx_space_map_take(gx_space_map *map, int64_t length, int64_t *offset, gx_err *err)
{
    assert(length > 0 && length % GX_VOLUME_BLOCK == 0);
    bool is_hopeless = map->hopeless != 0 && length >= map->hopeless;
    for (int64_t looked = 0; looked < map->count && !is_hopeless; looked++) {
        gap *g = &map->gaps[(map->at + looked) % map->count];
        if (g->length >= length) {
            *offset = g->offset;
            g->offset += length;
            g->length -= length;
            map->at = (map->at + looked) % map->count;
            return GX_OK;
        }
    }
    map->hopeless = is_hopeless ? map->hopeless : length;
    if (length > INT64_MAX - map->end) {
        return gx_fail(err, GX_FULL, "the volumes are full");
    }
    *offset = map->end;
    map->end += length;
    return GX_OK;
}

bool gx_space_map_gap(const gx_space_map *map, int64_t k, int64_t *offset, int64_t *length)
{
    if (k >= map->count) {
        return false;
    }
    *offset = map->gaps[k].offset;
    *length = map->gaps[k].length;
    return true;
}

int64_t gx_space_map_end(const gx_space_map *map)
{
    return map->end;
}
