/*
** Images of tiles (core/store/tile_image.c), against the layout worked out byte by byte.
**
** Plan: pages of every size; tiles smaller than those that are laid, and larger ones that end with
** a page, one byte before and after it.  Their pieces follow each other and are all of them; the
** whole tile is put into each, in lengths and orders that are random.  Every byte is where the
** chain of pages has it, nothing is written outside of gx_image_bytes(), and the piece comes out
** flat.
*/
#include "base/copy.h"
#include "store/tile_image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { POINTER = 4, GUARD = 128, LEAST = 1 << 20 };

static unsigned state = 1;

static size_t random_below(size_t n)
{
    state = state * 1664525u + 1013904223u;
    return n == 0 ? 0 : (state >> 4) % n;
}

/* In any order: the second half of what is left first, at times. */
static void put_range(const gx_tile_image *image, const unsigned char *tile, size_t at, size_t end)
{
    size_t longest = random_below(3) == 0 ? 200 : 20000, middle = at + random_below(end - at);
    if (end - at <= longest || middle == at) {
        gx_image_put(image, at, tile + at, end - at);
    } else if (random_below(2) == 0) {
        put_range(image, tile, middle, end);
        put_range(image, tile, at, middle);
    } else {
        put_range(image, tile, at, middle);
        put_range(image, tile, middle, end);
    }
}

/* One piece of the tile, in memory for any; where it ends. */
static size_t check_piece(size_t page, const unsigned char *tile, size_t bytes, size_t most,
                          int64_t piece, size_t from)
{
    size_t room = gx_image_bytes(page, bytes, most), each = page - POINTER;
    unsigned char *memory = aligned_alloc(64, (room + 2 * GUARD) / 64 * 64);
    assert_non_null(memory);
    memset(memory, 0xA5, (room + 2 * GUARD) / 64 * 64);
    gx_tile_image image = gx_image_of(memory, page, bytes, most, piece);
    image.is_past = random_below(2) == 0;
    put_range(&image, tile, 0, bytes);
    gx_copy_past_end();
    size_t start = piece > 0 ? from : bytes < LEAST ? bytes : gx_lay_start(page, bytes);
    size_t to = gx_image_to(&image);
    const unsigned char *pages = (unsigned char *)gx_image_pages(&image);
    assert_int_equal(gx_image_from(&image), from);
    assert_int_equal((uintptr_t)pages % 64, 0);
    assert_true((unsigned char *)gx_image_start(&image) >= memory);
    assert_memory_equal(gx_image_start(&image), tile + from, start - from);
    assert_int_equal(image.pages, (to - start + each - 1) / each);
    for (size_t k = start; k < to; k += each) {
        size_t in = to - k < each ? to - k : each;
        const unsigned char *at = pages + (k - start) / each * page;
        assert_true(at + page <= memory + room);
        assert_memory_equal(at + POINTER, tile + k, in);
        assert_int_equal(at[0], 0xA5); // the pointer is somebody else's
    }
    for (size_t k = room; k < room + GUARD; k++) {
        assert_int_equal(memory[k], 0xA5);
    }
    assert_memory_equal(gx_image_flatten(&image), tile + from, to - from);
    free(memory);
    return to;
}

static void check_pieces(size_t page, size_t bytes, size_t most)
{
    unsigned char *tile = malloc(bytes);
    size_t from = 0;
    int64_t pieces = gx_image_pieces(page, bytes, most);
    assert_non_null(tile);
    for (size_t k = 0; k < bytes; k++) {
        tile[k] = (unsigned char)(k * 31 + k / 251);
    }
    for (int64_t piece = 0; piece < pieces; piece++) {
        assert_true(piece == 0 || from < bytes); // none is empty
        from = check_piece(page, tile, bytes, most, piece, from);
    }
    assert_int_equal(from, bytes);
    assert_true(most > 0 || pieces == 1);
    free(tile);
}

static void check_one(size_t page, size_t bytes)
{
    check_pieces(page, bytes, 0);
    check_pieces(page, bytes, GX_IMAGE_PIECE);
    check_pieces(page, bytes, random_below(LEAST)); // of a page, at times
}

static void images(void **unused)
{
    (void)unused;
    for (size_t page = 512; page <= 1 << 16; page *= 2) {
        const size_t sizes[] = {1, 8, 4096, LEAST - 1, LEAST, LEAST + 1};
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            check_one(page, sizes[k]);
        }
        for (int k = 0; k < 12; k++) { // its last page is full, or a byte short of it, or holds one
            size_t each = page - POINTER, bytes = LEAST + random_below(3 * LEAST);
            size_t over = (bytes - gx_lay_start(page, bytes)) % each;
            check_one(page, bytes - over + (size_t)(k % 3));
            check_one(page, bytes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(images)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
