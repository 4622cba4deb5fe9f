/*
** Large transposes of the CPU backend, which go past the caches, beside the reference.  Small ones,
** and those of every backend, are test_kernels.c's.
**
** Plan, for every dtype, transposed, conjugated or only copied:
**   1. columns that begin with a cache line, as tiles' do: whole strips of lines, strips and bands
**      with a rest, one strip alone, few columns, columns that are longer than the rows
**   2. the same beside a line: other lengths of columns, another place; not past the caches
**   3. blocks that stay in a cache, of a matrix whose columns are pages apart or next to each other
** Each to the bit, with no byte outside the rectangle written; and a whole page behind the operand
** is not there, so that nothing behind it is read.
*/
#include "block.h"

#include <sys/mman.h>
#include <unistd.h>

static const uint64_t SEED = 20261123;

/* Bytes that end where the memory does. */
typedef struct fenced {
    unsigned char *base, *data;
    size_t length;
} fenced;

static fenced fenced_random(size_t bytes, uint64_t *seed)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t length = (bytes + page - 1) / page * page + page;
    void *base = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(base != MAP_FAILED);
    assert_int_equal(mprotect((char *)base + length - page, page, PROT_NONE), 0);
    fenced f = {.base = base, .length = length};
    f.data = f.base + length - page - bytes;
    for (size_t at = 0; at + 4 <= bytes; at += 4) { // small numbers: no NaN, whose bits may change
        float x = (float)random_unit(seed);
        memcpy(f.data + at, &x, sizeof x);
    }
    return f;
}

static void compare(gx_number dtype, gx_trans trans, int64_t m, int64_t n, int64_t gap,
                    int64_t apart)
{
    uint64_t seed = SEED;
    bool is_copy = trans == GX_NO_TRANS;
    int64_t rows = is_copy ? m : n, columns = is_copy ? n : m;
    int64_t lda = rows + apart;
    fenced a = fenced_random((size_t)((columns - 1) * lda + rows) * gx_number_bytes(dtype), &seed);
    block c = block_make(dtype, m, n, m + gap), want = block_copy(&c);
    gx_args args = {.transa = trans, .m = m, .n = n, .a = a.data, .lda = lda, .ldc = c.ld};
    gx_err err = {.code = GX_OK};
    args.c = want.data;
    assert_int_equal(gx_oracle.kernel[GX_TRANSPOSE][dtype](NULL, NULL, &args, &err), GX_OK);
    args.c = c.data;
    assert_int_equal(gx_backend_cpu.kernel[GX_TRANSPOSE][dtype](NULL, NULL, &args, &err), GX_OK);
    if (memcmp(c.raw, want.raw, c.bytes) != 0) {
        fail_msg("%s %dx%d, %d from column to column, trans %d", gx_number_name(dtype), (int)m,
                 (int)n, (int)c.ld, (int)trans);
    }
    assert_true(block_is_guarded(&c));
    block_free(&c);
    block_free(&want);
    assert_int_equal(munmap(a.base, a.length), 0);
}

static void large(void **state)
{
    (void)state;
    static const struct {
        int64_t m, n, gap;
    } shapes[] = {{512, 512, 0},   {1024, 1040, 0}, {512, 515, 0},   {523, 2049, 5}, {16, 20000, 0},
                  {17, 20000, 15}, {70000, 8, 0},   {70000, 17, 16}, {511, 1025, 0}, {512, 515, 3}};
    for (int d = 0; d < GX_FLOATS; d++) {
        for (int t = 0; t < 3; t++) {
            for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
                compare((gx_number)d, (gx_trans)t, shapes[k].m, shapes[k].n, shapes[k].gap, 0);
            }
        }
    }
}

static void blocks(void **state)
{
    (void)state;
    static const struct {
        int64_t m, n, gap;
    } shapes[] = {{256, 128, 8}, {511, 128, 1}, {255, 127, 9}, {125, 600, 3}, {129, 130, 1}};
    for (int d = 0; d < GX_FLOATS; d++) {
        for (int t = 0; t < 3; t++) {
            for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
                compare((gx_number)d, (gx_trans)t, shapes[k].m, shapes[k].n, shapes[k].gap, 1500);
            }
        }
    }
    for (int d = 0; d < GX_FLOATS; d++) {
        compare((gx_number)d, GX_TRANS, 250, 65, 6, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(large), cmocka_unit_test(blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
