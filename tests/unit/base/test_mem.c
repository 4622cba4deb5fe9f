/*
** The memory governor (core/base/mem.c).
**
** Plan:
**   1. blocks are aligned, writable to the last byte, zeroed by calloc, kept by realloc; 0 bytes
**      and NULL
**   2. the budget: every byte is counted and given back, exactly to the limit and not past it,
**      with the text
**   3. reservations, the peak, limits that change
**   4. sizes that overflow are refused as memory that is not there
**   5. threads: together never past the limit, and a refused request never stands in another's way
**   6. large blocks that are freed stand by and are found again, by requests of about their
**      size, of any governor; never more of them than the limit leaves; gone with the last
**      governor; blocks that were disowned come back too; many threads
**   7. contents that are kept: found by the same governor, key and size alone, once; gone for
**      who needs the memory, with a lower limit, with the governor
*/
#include "base/mem.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include <cmocka.h>

enum { HEADER = 64 }; /* counted with every block */

static const size_t MIB = (size_t)1 << 20;

static gx_mem *mem_of(size_t limit)
{
    gx_mem *mem;
    gx_err err = {.code = GX_OK};
    assert_int_equal(gx_mem_create(limit, &mem, &err), GX_OK);
    assert_int_equal(gx_mem_limit(mem), limit);
    assert_int_equal(gx_mem_used(mem), 0);
    return mem;
}

static void *take(gx_mem *mem, size_t bytes)
{
    void *ptr;
    gx_err err = {.code = GX_OK};
    assert_int_equal(gx_mem_alloc(mem, bytes, "test", &ptr, &err), GX_OK);
    assert_non_null(ptr);
    return ptr;
}

static void blocks(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 4 << 20, (4 << 20) + 1, 9 << 20};
    gx_mem *mems[] = {NULL, mem_of(64 * MIB)};
    for (int m = 0; m < 2; m++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            char *x = take(mems[m], sizes[i]);
            assert_int_equal((uintptr_t)x % 64, 0);
            memset(x, 0xAB, sizes[i]);
            gx_mem_free(mems[m], x);

            void *zeros;
            gx_err err = {.code = GX_OK};
            assert_int_equal(gx_mem_calloc(mems[m], sizes[i], "test", &zeros, &err), GX_OK);
            for (size_t b = 0; b < sizes[i]; b++) {
                if (((char *)zeros)[b] != 0) {
                    fail_msg("byte %zu of %zu is not zero", b, sizes[i]);
                }
            }
            gx_mem_free(mems[m], zeros);
        }
        gx_mem_free(mems[m], NULL);
    }
    assert_int_equal(gx_mem_used(mems[1]), 0);
    gx_mem_free_all(mems[1]);
    gx_mem_free_all(NULL);
}

static void realloc_keeps(void **state)
{
    (void)state;
    static const size_t sizes[] = {10, 1000, 100, 100, (4 << 20) + 7, 50, 0, 20};
    gx_mem *mem = mem_of(32 * MIB);
    gx_err err = {.code = GX_OK};
    void *x = NULL;
    size_t old = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(gx_mem_realloc(mem, sizes[i], "test", &x, &err), GX_OK);
        size_t kept = old < sizes[i] ? old : sizes[i];
        for (size_t b = 0; b < kept; b++) {
            assert_int_equal(((unsigned char *)x)[b], (b * 7 + i - 1) % 256);
        }
        for (size_t b = 0; b < sizes[i]; b++) {
            ((unsigned char *)x)[b] = (unsigned char)(b * 7 + i);
        }
        old = sizes[i];
        assert_int_equal(gx_mem_used(mem), sizes[i] + HEADER);
    }

    // On failure the block is as it was.
    void *before = x;
    assert_int_equal(gx_mem_realloc(mem, 40 * MIB, "test", &x, &err), GX_BUDGET);
    assert_ptr_equal(x, before);
    assert_int_equal(((unsigned char *)x)[19], (19 * 7 + 7) % 256);
    gx_mem_free(mem, x);
    assert_int_equal(gx_mem_used(mem), 0);
    gx_mem_free_all(mem);
}

static void the_budget_is_exact(void **state)
{
    (void)state;
    gx_mem *mem = mem_of(1000);
    gx_err err = {.code = GX_OK};
    char *x = take(mem, 500);
    assert_int_equal(gx_mem_used(mem), 500 + HEADER);
    assert_int_equal(gx_mem_available(mem), 500 - HEADER);
    void *y = (void *)1;
    assert_int_equal(gx_mem_alloc(mem, 500 - 2 * HEADER + 1, "block cache", &y, &err), GX_BUDGET);
    assert_null(y);
    assert_string_equal(err.text,
                        "block cache needs 437 bytes but memory_limit leaves 436 of 1000: "
                        "raise it with gx_config('memory_limit', ...)");
    y = take(mem, 500 - 2 * HEADER);
    assert_int_equal(gx_mem_used(mem), 1000);
    assert_int_equal(gx_mem_available(mem), 0);
    gx_mem_free(mem, x);
    gx_mem_free(mem, y);
    assert_int_equal(gx_mem_used(mem), 0);
    assert_int_equal(gx_mem_peak(mem), 1000);
    gx_mem_reset(mem);
    assert_int_equal(gx_mem_peak(mem), 0);
    gx_mem_free_all(mem);
}

static void reservations(void **state)
{
    (void)state;
    gx_mem *mem = mem_of(100);
    gx_err err = {.code = GX_OK};
    assert_int_equal(gx_mem_reserve(mem, 60, "value", &err), GX_OK);
    assert_int_equal(gx_mem_reserve(mem, 41, "value", &err), GX_BUDGET);
    assert_string_equal(err.text,
                        "value needs 41 bytes but memory_limit leaves 40 of 100: raise it "
                        "with gx_config('memory_limit', ...)");
    assert_int_equal(gx_mem_reserve(mem, 40, "value", NULL), GX_OK);
    gx_mem_return(mem, 100);
    assert_int_equal(gx_mem_used(mem), 0);

    // A limit that falls below what is in use: nothing is left, nothing breaks.
    assert_int_equal(gx_mem_reserve(mem, 80, "value", NULL), GX_OK);
    gx_mem_set_limit(mem, 50);
    assert_int_equal(gx_mem_available(mem), 0);
    gx_err below = {.code = GX_OK};
    assert_int_equal(gx_mem_reserve(mem, 1, "value", &below), GX_BUDGET);
    assert_string_equal(below.text, "value needs 1 bytes but memory_limit leaves 0 of 50: raise it "
                                    "with gx_config('memory_limit', ...)");
    gx_mem_return(mem, 40);
    assert_int_equal(gx_mem_reserve(mem, 10, "value", NULL), GX_OK);
    gx_mem_return(mem, 50);
    gx_mem_free_all(mem);

    assert_int_equal(gx_mem_reserve(NULL, SIZE_MAX, "value", NULL), GX_OK); // nothing is counted
    gx_mem_return(NULL, SIZE_MAX);
}

/* Sanitizers stop the program at absurd sizes unless told to return NULL as malloc() does. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static void sizes_that_overflow(void **state)
{
    (void)state;
    gx_mem *mem = mem_of(SIZE_MAX);
    static const size_t sizes[] = {SIZE_MAX,         SIZE_MAX - 1, SIZE_MAX - 64,
                                   SIZE_MAX / 2 + 1, SIZE_MAX / 2, SIZE_MAX / 4};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int m = 0; m < 2; m++) {
            void *x = (void *)1;
            gx_err err = {.code = GX_OK};
            assert_int_equal(gx_mem_alloc(m == 0 ? NULL : mem, sizes[i], "moon", &x, &err),
                             GX_NOMEM);
            assert_null(x);
            assert_non_null(strstr(err.text, "bytes for moon)"));
        }
    }
    assert_int_equal(gx_mem_used(mem), 0);
    gx_mem_free_all(mem);
}

/*
** ---- threads
** ------------------------------------------------------------------------------------
*/

typedef struct crowd {
    gx_mem *mem;
    size_t bytes;
    int rounds;
    atomic_int refused, over;
} crowd;

static void *take_and_return(void *arg)
{
    crowd *c = arg;
    for (int i = 0; i < c->rounds; i++) {
        if (gx_mem_reserve(c->mem, c->bytes, "crowd", NULL) != GX_OK) {
            atomic_fetch_add(&c->refused, 1);
            continue;
        }
        if (gx_mem_used(c->mem) > gx_mem_limit(c->mem)) {
            atomic_fetch_add(&c->over, 1);
        }
        gx_mem_return(c->mem, c->bytes);
    }
    return NULL;
}

static void threads_share_the_budget(void **state)
{
    (void)state;
    gx_mem *mem = mem_of(1000);
    crowd fits = {.mem = mem, .bytes = 500, .rounds = 200000}; // two of these at once
    crowd greedy = {.mem = mem, .bytes = 5000, .rounds = 200000};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, take_and_return, i < 2 ? &fits : &greedy), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(fits.refused, 0);
    assert_int_equal(fits.over + greedy.over, 0);
    assert_int_equal(greedy.refused, 2 * greedy.rounds);
    assert_int_equal(gx_mem_used(mem), 0);
    assert_in_range(gx_mem_peak(mem), 500, 1000);
    gx_mem_free_all(mem);
}

/*
** ---- idle blocks
** ------------------------------------------------------------------------------------
*/

static void large_blocks_are_found_again(void **state)
{
    (void)state;
    gx_mem *mem = mem_of(256 * MIB), *other = mem_of(256 * MIB);
    assert_int_equal(gx_mem_idle(), 0);
    char *x = take(mem, 32 * MIB), *small = take(mem, MIB / 2);
    memset(x, 1, 32 * MIB);
    gx_mem_free(mem, small);
    assert_int_equal(gx_mem_idle(), 0); // not worth it
    gx_mem_free(mem, x);
    assert_in_range(gx_mem_idle(), 32 * MIB, 36 * MIB);
    assert_int_equal(gx_mem_used(mem), 0);

    char *y = take(other, 31 * MIB); // a little smaller: the same block
    assert_ptr_equal(x, y);
    assert_int_equal(gx_mem_idle(), 0);
    assert_int_equal(gx_mem_used(other), 31 * MIB + HEADER);
    assert_in_range(gx_mem_ns(other), 1, (int64_t)1e9);
    memset(y, 2, 31 * MIB);
    gx_mem_free(other, y);
    char *z = take(mem, 16 * MIB); // much smaller: one of its own
    assert_in_range(gx_mem_idle(), 32 * MIB, 36 * MIB);
    gx_mem_free(mem, z);
    assert_in_range(gx_mem_idle(), 48 * MIB, 54 * MIB);

    // A block that is nobody's: freed without a governor, it stands by as well.
    x = take(mem, 64 * MIB);
    gx_mem_disown(mem, x);
    assert_int_equal(gx_mem_used(mem), 0);
    gx_mem_free(NULL, x);
    assert_in_range(gx_mem_idle(), 112 * MIB, 122 * MIB);
    gx_mem_reset(mem);
    assert_int_equal(gx_mem_ns(mem), 0);
    gx_mem_free_all(mem);
    assert_in_range(gx_mem_idle(), 112 * MIB, 122 * MIB);
    gx_mem_free_all(other);
    assert_int_equal(gx_mem_idle(), 0);
    x = take(NULL, 8 * MIB);
    gx_mem_free(NULL, x);
    assert_int_equal(gx_mem_idle(), 0); // without a governor there is no pool
}

static void what_stands_by_keeps_to_the_limit(void **state)
{
    (void)state;
    gx_mem *mem = mem_of(40 * MIB);
    void *x = take(mem, 20 * MIB), *y = take(mem, 10 * MIB);
    gx_mem_free(mem, x);
    gx_mem_free(mem, y);
    assert_in_range(gx_mem_idle(), 30 * MIB, 36 * MIB);
    x = take(mem, 15 * MIB); // 15 used, 25 left: the oldest goes
    assert_in_range(gx_mem_idle(), 10 * MIB, 14 * MIB);
    y = take(mem, 24 * MIB);
    assert_int_equal(gx_mem_idle(), 0);
    gx_mem_free(mem, x);
    gx_mem_free(mem, y);
    assert_in_range(gx_mem_idle(), 24 * MIB, 40 * MIB);
    gx_mem_set_limit(mem, 20 * MIB);
    assert_in_range(gx_mem_idle(), 0, 20 * MIB);
    gx_mem_free_all(mem);
}

static void contents_are_kept_under_a_key(void **state)
{
    (void)state;
    const gx_mem_key one = {.file = 1, .id = 2, .generation = 3, .part = {0, 4}};
    gx_mem_key two = one;
    two.part[3] = 1;
    gx_mem *mem = mem_of(64 * MIB), *other = mem_of(64 * MIB);
    char *x = take(mem, 8 * MIB);
    memset(x, 7, 8 * MIB);
    gx_mem_keep(mem, x, &one);
    assert_int_equal(gx_mem_used(mem), 0);
    assert_in_range(gx_mem_idle(), 8 * MIB, 11 * MIB);

    // Nobody else gets it: no other request, key, governor, size.
    char *y = take(mem, 8 * MIB);
    assert_ptr_not_equal(x, y);
    gx_mem_free(mem, y);
    assert_null(gx_mem_claim(mem, &two, 8 * MIB));
    assert_null(gx_mem_claim(other, &one, 8 * MIB));
    y = gx_mem_claim(mem, &one, 8 * MIB);
    assert_ptr_equal(x, y);
    assert_int_equal(gx_mem_used(mem), 8 * MIB + HEADER);
    assert_true(y[0] == 7 && y[4 * MIB] == 7 && y[8 * MIB - 1] == 7);
    assert_null(gx_mem_claim(mem, &one, 8 * MIB)); // it is lent
    gx_mem_keep(mem, y, &one);
    assert_null(gx_mem_claim(mem, &one, 4 * MIB)); // of another size: it goes
    assert_null(gx_mem_claim(mem, &one, 8 * MIB));

    // Kept twice, there is one; a small one is not worth it; it ends with its governor.
    x = take(mem, 9 * MIB);
    y = take(mem, 9 * MIB);
    gx_mem_keep(mem, x, &two);
    gx_mem_keep(mem, y, &two);
    gx_mem_keep(mem, take(mem, MIB / 2), &one);
    assert_null(gx_mem_claim(mem, &one, MIB / 2));
    assert_ptr_equal(gx_mem_claim(mem, &two, 9 * MIB), y);
    assert_null(gx_mem_claim(mem, &two, 9 * MIB));
    gx_mem_keep(mem, y, &two);
    size_t before = gx_mem_idle();
    gx_mem_free_all(mem);
    assert_in_range(before - gx_mem_idle(), 9 * MIB, 12 * MIB);
    gx_mem_free_all(other);
    assert_int_equal(gx_mem_idle(), 0);
}

static void what_is_kept_gives_way(void **state)
{
    (void)state;
    const gx_mem_key key = {.file = 1, .id = 2, .generation = 3};
    gx_mem *mem = mem_of(40 * MIB);
    gx_mem_keep(mem, take(mem, 20 * MIB), &key);
    char *x = take(mem, 30 * MIB); // no room beside it
    assert_int_equal(gx_mem_idle(), 0);
    gx_mem_free(mem, x);
    assert_null(gx_mem_claim(mem, &key, 20 * MIB));
    gx_mem_keep(mem, take(mem, 20 * MIB), &key);
    x = take(mem, 16 * MIB);
    char *y = gx_mem_claim(mem, &key, 20 * MIB);
    assert_non_null(y);
    gx_mem_keep(mem, y, &key);
    char *z = take(mem, 2 * MIB);
    gx_mem_set_limit(mem, 24 * MIB); // nothing is left of it
    assert_null(gx_mem_claim(mem, &key, 20 * MIB));
    gx_mem_free(mem, x);
    gx_mem_free(mem, z);
    gx_mem_free_all(mem);
    assert_int_equal(gx_mem_idle(), 0);
}

static void *come_and_go(void *arg)
{
    crowd *c = arg;
    for (int i = 0; i < c->rounds; i++) {
        size_t bytes = (size_t)(1 + i % 3) * c->bytes;
        unsigned char *x = take(c->mem, bytes);
        x[0] = x[bytes / 2] = x[bytes - 1] = (unsigned char)i;
        atomic_fetch_add(&c->over, x[0] != (unsigned char)i || x[bytes - 1] != x[0]);
        gx_mem_free(c->mem, x);
    }
    return NULL;
}

static void threads_share_what_stands_by(void **state)
{
    (void)state;
    gx_mem *mem = mem_of(100 * MIB);
    crowd c = {.mem = mem, .bytes = 2 * MIB, .rounds = 2000};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &c), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(c.over, 0);
    assert_int_equal(gx_mem_used(mem), 0);
    assert_in_range(gx_mem_idle(), 2 * MIB, 100 * MIB);
    gx_mem_free_all(mem);
    assert_int_equal(gx_mem_idle(), 0);
}

static void the_machine(void **state)
{
    (void)state;
    assert_true(gx_mem_physical() >= 64 * MIB);
    assert_in_range(gx_mem_physical_free(), 1, gx_mem_physical());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks),
        cmocka_unit_test(realloc_keeps),
        cmocka_unit_test(the_budget_is_exact),
        cmocka_unit_test(reservations),
        cmocka_unit_test(sizes_that_overflow),
        cmocka_unit_test(threads_share_the_budget),
        cmocka_unit_test(large_blocks_are_found_again),
        cmocka_unit_test(contents_are_kept_under_a_key),
        cmocka_unit_test(what_is_kept_gives_way),
        cmocka_unit_test(what_stands_by_keeps_to_the_limit),
        cmocka_unit_test(threads_share_what_stands_by),
        cmocka_unit_test(the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
