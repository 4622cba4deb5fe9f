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
static size_t start_bytes(size_t page, size_t bytes)
{
    return bytes < GX_LAY_LEAST ? bytes : gx_lay_start(page, bytes);
}

static size_t elements_of_page(const gx_tile_image *image)
{
    return image->page - GX_LAY_POINTER;
}

static size_t up(size_t bytes, size_t step)
{
    return (bytes + step - 1) / step * step;
}

static int64_t pages_of(size_t page, size_t bytes)
{
    size_t each = page - GX_LAY_POINTER;
    return (int64_t)(up(bytes - start_bytes(page, bytes), each) / each);
}

static int64_t pages_of_piece(size_t page, size_t bytes, size_t most)
{
    int64_t all = gx_max(1, pages_of(page, bytes));
    return most == 0 ? all : gx_min(all, gx_max(1, (int64_t)(most / page)));
}

int64_t gx_image_pieces(size_t page, size_t bytes, size_t most)
{
    return gx_max(1, gx_ceil_div(pages_of(page, bytes), pages_of_piece(page, bytes, most)));
}

size_t gx_image_bytes(size_t page, size_t bytes, size_t most)
{
    size_t pages = (size_t)pages_of_piece(page, bytes, most) * page;
    return up(page, ALIGNED) + gx_max(pages, GX_LAY_LEAST); // a smaller one has no pages
}

gx_tile_image gx_image_of(void *memory, size_t page, size_t bytes, size_t most, int64_t piece)
{
    int64_t pages = pages_of_piece(page, bytes, most);
    gx_tile_image image = {.memory = memory,
                           .page = page,
                           .bytes = bytes,
                           .start = start_bytes(page, bytes),
                           .first = piece * pages};
    image.pages = gx_min(pages, pages_of(page, bytes) - image.first);
    return image;
}

/* The tile's bytes before page k of its pages. */
static size_t before(const gx_tile_image *image, int64_t k)
{
    return image->start + (size_t)k * elements_of_page(image);
}

size_t gx_image_from(const gx_tile_image *image)
{
    return image->first == 0 ? 0 : before(image, image->first);
}

size_t gx_image_to(const gx_tile_image *image)
{
    return gx_min(image->bytes, before(image, image->first + image->pages));
}

static size_t bytes_before_pages(const gx_tile_image *image)
{
    return before(image, image->first) - gx_image_from(image);
}

char *gx_image_pages(const gx_tile_image *image)
{
    return image->memory + up(bytes_before_pages(image), ALIGNED);
}

char *gx_image_start(const gx_tile_image *image)
{
    return gx_image_pages(image) - bytes_before_pages(image);
}

void gx_image_put(const gx_tile_image *image, size_t at, const void *source, size_t bytes)
{
    size_t each = elements_of_page(image), start = before(image, image->first);
    size_t from = gx_max(at, gx_image_from(image)), to = gx_min(at + bytes, gx_image_to(image));
    char *pages = gx_image_pages(image);
    while (from < to) {
        bool is_before = from < start;
        size_t in = is_before ? 0 : (from - start) % each;
        char *there = is_before ? pages - (start - from)
                                : pages + (from - start) / each * image->page + GX_LAY_POINTER + in;
        size_t size = gx_min(is_before ? start - from : each - in, to - from);
        const char *here = (const char *)source + (from - at);
        image->is_past ? gx_copy_past(there, here, size) : (void)memcpy(there, here, size);
        from += size;
    }
}

void *gx_image_flatten(const gx_tile_image *image)
{
    size_t each = elements_of_page(image),
           chained = gx_image_to(image) - before(image, image->first);
    char *pages = gx_image_pages(image);
    for (size_t page = 0; page * each < chained; page++) {
        size_t left = chained - page * each;
        memmove(pages + page * each, pages + page * image->page + GX_LAY_POINTER,
                gx_min(left, each));
    }
    return gx_image_start(image);
}
