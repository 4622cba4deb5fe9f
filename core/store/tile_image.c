/*
** Images of tiles: see tile_image.h.
**
** In memory: the bytes that the b-tree's page takes (gx_lay_start()) end where the overflow pages
** begin, at a multiple of 64; so an element's offset from a line of 64 bytes is what it is in the
** file's page.
*/
#include <sqlite3ext.h>

#include "lay_int.h"
#include "tile_image.h"

#include "../base/copy.h"

#include <string.h>

enum { ALIGNED = 64 };

/* Bytes of a row's header: its own length, the type of the id, which is NULL there, and that of a
** blob: 12 + 2 * bytes in seven bits a byte. */
static size_t header_bytes(size_t bytes)
{
    size_t length = 2;
    for (uint64_t type = 12 + 2 * (uint64_t)bytes; type != 0; type >>= 7) {
        length++;
    }
    return length;
}

/* How much of a payload, too long for it, the b-tree's page holds. */
static size_t local_bytes(size_t page, size_t payload)
{
    size_t most = page - 35, least = (page - 12) * 32 / 255 - 23;
    size_t local = least + (payload - least) % (page - GX_LAY_POINTER);
    return local <= most ? local : least;
}

size_t gx_lay_start(size_t page_bytes, size_t bytes)
{
    size_t header = header_bytes(bytes);
    return local_bytes(page_bytes, header + bytes) - header;
}

/* Before all pages.  A tile too small to be laid has none. */
static size_t start_bytes(const gx_tile_image *image)
{
    return image->bytes < GX_LAY_LEAST ? image->bytes : gx_lay_start(image->page, image->bytes);
}

static size_t elements_of_page(const gx_tile_image *image)
{
    return image->page - GX_LAY_POINTER;
}

static size_t up(size_t bytes, size_t step)
{
    return (bytes + step - 1) / step * step;
}

size_t gx_image_bytes(size_t page, size_t bytes)
{
    size_t each = page - GX_LAY_POINTER, start = bytes < GX_LAY_LEAST ? bytes : page;
    return up(start, ALIGNED) + up(bytes, each) / each * page;
}

char *gx_image_pages(const gx_tile_image *image)
{
    return image->memory + up(start_bytes(image), ALIGNED);
}

char *gx_image_start(const gx_tile_image *image)
{
    return gx_image_pages(image) - start_bytes(image);
}

void gx_image_put(const gx_tile_image *image, size_t at, const void *source, size_t bytes)
{
    const char *from = source;
    size_t each = elements_of_page(image), start = start_bytes(image);
    char *pages = gx_image_pages(image);
    if (at < start) {
        size_t size = at + bytes < start ? bytes : start - at;
        memcpy(pages - start + at, from, size);
        at += size;
        from += size;
        bytes -= size;
    }
    while (bytes > 0) {
        size_t page = (at - start) / each, in = (at - start) % each;
        size_t size = bytes < each - in ? bytes : each - in;
        char *to = pages + page * image->page + GX_LAY_POINTER + in;
        image->is_past ? gx_copy_past(to, from, size) : (void)memcpy(to, from, size);
        at += size;
        from += size;
        bytes -= size;
    }
}

void *gx_image_flatten(const gx_tile_image *image)
{
    size_t each = elements_of_page(image);
    size_t chained = image->bytes - start_bytes(image);
    char *pages = gx_image_pages(image);
    for (size_t page = 0; page * each < chained; page++) {
        size_t left = chained - page * each;
        memmove(pages + page * each, pages + page * image->page + GX_LAY_POINTER,
                left < each ? left : each);
    }
    return gx_image_start(image);
}
