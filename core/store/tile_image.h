/*
** A tile as the pages of the file that it goes to (store_lay.c): between its elements there is room
** for what every page begins with.
**
** Elements in overflow pages lie four bytes off, in each page by another multiple of four from
** where they are in a tile; and the kernel copies a third slower between addresses that do not
** differ by a multiple of 32 bytes (Zen 4).  An image is one copy, of pages to pages.  Who makes a
** tile for nothing but to be written makes its image.
*/
#ifndef GX_TILE_IMAGE_H
#define GX_TILE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct gx_tile_image {
    char *memory; /* gx_image_bytes(), aligned to 64; of who makes it */
    size_t page;  /* bytes; what gx_store_image_page() said           */
    size_t bytes; /* of the tile                                      */
    bool is_past; /* what is put goes past the caches                 */
} gx_tile_image;

/* Bytes of a tile in the b-tree's own page, where that does not hold all. */
size_t gx_lay_start(size_t page_bytes, size_t bytes);

/* Of a tile of so many bytes at most. */
size_t gx_image_bytes(size_t page, size_t bytes);

/*
** Bytes [at, at + bytes) of the tile, in any order.  Past the caches: others see them after
** gx_copy_past_end().
*/
void gx_image_put(const gx_tile_image *image, size_t at, const void *from, size_t bytes);

/* In the image's memory, which is none after that: the tile, its elements behind each other. */
void *gx_image_flatten(const gx_tile_image *image);

/* Where its first bytes are, those that come before all pages; and the first of the pages. */
char *gx_image_start(const gx_tile_image *image);
char *gx_image_pages(const gx_tile_image *image);

#endif
