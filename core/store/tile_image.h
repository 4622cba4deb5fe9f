/*
** A piece of a tile as the pages of the file that it goes to (store_lay.c): between its elements
** there is room for what every page begins with.
**
** Elements in overflow pages lie four bytes off, in each page by another multiple of four from
** where they are in a tile; and the kernel copies a third slower between addresses that do not
** differ by a multiple of 32 bytes (Zen 4).  An image is one copy, of pages to pages.  Who makes a
** tile for nothing but to be written makes images; of pieces where it can, so small that the writer
** finds them in a cache, where whole tiles go through the memory.
*/
#ifndef GX_TILE_IMAGE_H
#define GX_TILE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a usual piece's pages. */
enum { GX_IMAGE_PIECE = 1 << 20 };

typedef struct gx_tile_image {
    char *memory;         /* gx_image_bytes(), aligned to 64; of who makes it         */
    size_t page;          /* bytes; what gx_store_image_page() said                   */
    size_t bytes;         /* of the tile                                              */
    size_t start;         /* of these bytes those before all pages                    */
    int64_t first, pages; /* of the tile's; the first piece has what comes before too */
    bool is_past;         /* what is put goes past the caches                         */
} gx_tile_image;

/* Bytes of a tile in the b-tree's own page, where that does not hold all. */
size_t gx_lay_start(size_t page_bytes, size_t bytes);

/*
** How many pieces of at most so many bytes of pages (0: one of all) a tile has, at least one;
** memory for any of them, and of a smaller tile's.
*/
int64_t gx_image_pieces(size_t page, size_t bytes, size_t most);
size_t gx_image_bytes(size_t page, size_t bytes, size_t most);

/* Piece `piece` of a tile of so many bytes; and which of these are in it: [from, to). */
gx_tile_image gx_image_of(void *memory, size_t page, size_t bytes, size_t most, int64_t piece);
size_t gx_image_from(const gx_tile_image *image);
size_t gx_image_to(const gx_tile_image *image);

/*
** Bytes [at, at + bytes) of the tile, in any order: those that are in the piece.  Past the caches:
** others see them after gx_copy_past_end().
*/
void gx_image_put(const gx_tile_image *image, size_t at, const void *from, size_t bytes);

/* In the image's memory, which is none after that: its elements behind each other. */
void *gx_image_flatten(const gx_tile_image *image);

/* Where the first piece's bytes before all pages are; and the first of the piece's pages. */
char *gx_image_start(const gx_tile_image *image);
char *gx_image_pages(const gx_tile_image *image);

#endif
