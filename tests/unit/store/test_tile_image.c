/*
** Images of tiles (core/store/tile_image.c), against the layout worked out byte by byte.
**
** Plan: pages of every size; tiles smaller than those that are laid, and larger ones that end with
** a page, one byte before and after it; put in pieces of random lengths in random order.  Every
** byte is where the chain of pages has it, nothing is written outside of gx_image_bytes(), and the
** tile comes out flat.
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

static void check_one(size_t page, size_t bytes)
{
    size_t room = gx_image_bytes(page, bytes), each = page - POINTER;
    unsigned char *tile = malloc(bytes), *memory = aligned_alloc(64, (room + 2 * GUARD) / 64 * 64);
    assert_non_null(tile);
    assert_non_null(memory);
    for (size_t k = 0; k < bytes; k++) {
        tile[k] = (unsigned char)(k * 31 + k / 251);
    }
    memset(memory, 0xA5, (room + 2 * GUARD) / 64 * 64);
    gx_tile_image image = {(char *)memory, page, bytes, random_below(2) == 0};
    put_range(&image, tile, 0, bytes);
    gx_copy_past_end();
    size_t start = bytes < LEAST ? bytes : gx_lay_start(page, bytes);
    const unsigned char *pages = (unsigned char *)gx_image_pages(&image);
    assert_int_equal((uintptr_t)pages % 64, 0);
    assert_true((unsigned char *)gx_image_start(&image) >= memory);
    assert_memory_equal(gx_image_start(&image), tile, start);
    for (size_t k = start; k < bytes; k += each) {
        size_t in = bytes - k < each ? bytes - k : each;
        const unsigned char *at = pages + (k - start) / each * page;
        assert_true(at + page <= memory + room);
        assert_memory_equal(at + POINTER, tile + k, in);
        assert_int_equal(at[0], 0xA5); // the pointer is somebody else's
    }
    for (size_t k = room; k < room + GUARD; k++) {
        assert_int_equal(memory[k], 0xA5);
    }
    assert_memory_equal(gx_image_flatten(&image), tile, bytes);
    free(memory);
    free(tile);
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
