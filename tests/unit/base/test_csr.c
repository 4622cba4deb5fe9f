/*
** Sparse panels: csr.h.
**
** Plan:
**   1. layout: parts at multiples of 8 in all dtypes and both widths of indexes; what no blob holds
**   2. the check takes what is sound: empty rows, full rows, no rows, no entries
**   3. the check refuses each kind of damage, with 4-byte and 8-byte indexes, in its words
**   4. cuts and seeks on every row against a plain search
*/
#include "base/csr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define WIDE ((int64_t)1 << 40)

static void layouts(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < GX_DTYPE_COUNT; dtype++) {
        for (int64_t rows = 0; rows < 5; rows++) {
            for (int64_t entries = 0; entries < 7; entries++) {
                for (int wide = 0; wide < 2; wide++) {
                    gx_csr_layout l;
                    int64_t cols = wide ? ((int64_t)1 << 31) + 1 : (int64_t)1 << 31;
                    assert_true(gx_csr_lay_out(rows, cols, entries, (gx_dtype)dtype, &l));
                    size_t index = (size_t)entries * (wide ? 8 : 4);
                    size_t value = (size_t)entries * gx_dtype_bytes((gx_dtype)dtype);
                    assert_int_equal(l.index % 8 + l.value % 8 + l.bytes % 8, 0);
                    assert_true(l.index >= (size_t)rows * 4 + 4 && l.index < (size_t)rows * 4 + 12);
                    assert_true(l.value - l.index >= index && l.value - l.index < index + 8);
                    assert_true(l.bytes - l.value >= value && l.bytes - l.value < value + 8);
                }
            }
        }
    }
    gx_csr_layout l;
    assert_false(gx_csr_lay_out(-1, 5, 0, GX_F64, &l));
    assert_false(gx_csr_lay_out(5, 5, -1, GX_F64, &l));
    assert_false(gx_csr_lay_out(INT64_MAX, 5, 0, GX_F64, &l));
    assert_false(gx_csr_lay_out(5, 5, INT64_MAX, GX_F64, &l));
    assert_false(gx_csr_lay_out((int64_t)1 << 29, 5, 0, GX_F64, &l));
    assert_false(gx_csr_lay_out(1, 5, 178956971, GX_F64, &l)); // 12 bytes each
    assert_true(gx_csr_lay_out(1, 5, 178956900, GX_F64, &l));
}

/* rows with these starts and indexes, in a matrix of cols columns (or of WIDE and those). */
typedef struct block {
    uint64_t memory[64];
    gx_csr csr;
} block;

static void fill(block *b, int64_t rows, int64_t cols, const uint32_t *start, const int64_t *index,
                 int64_t entries)
{
    memset(b, 0, sizeof *b);
    gx_csr_map(&b->csr, rows, cols, entries, GX_F64, b->memory);
    memcpy(b->memory, start, (size_t)(rows + 1) * sizeof *start);
    for (int64_t e = 0; e < entries; e++) {
        if (b->csr.index_bytes == 4) {
            ((int32_t *)(uintptr_t)b->csr.index)[e] = (int32_t)index[e];
        } else {
            ((int64_t *)(uintptr_t)b->csr.index)[e] = index[e];
        }
        ((double *)(uintptr_t)b->csr.value)[e] = (double)e + 0.5;
    }
}

static void says(int64_t rows, int64_t cols, const uint32_t *start, const int64_t *index,
                 int64_t entries, const char *text)
{
    block b;
    gx_err err = {.code = GX_OK};
    fill(&b, rows, cols, start, index, entries);
    gx_code code = gx_csr_check(&b.csr, "P", &err);
    assert_int_equal(code, text == NULL ? GX_OK : GX_CORRUPT);
    assert_string_equal(err.text, text == NULL ? "" : text);
}

#define STARTS(...) ((const uint32_t[]){__VA_ARGS__})
#define INDEXES(...) ((const int64_t[]){__VA_ARGS__})

static void sound(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        int64_t cols = wide ? WIDE : 4;
        says(0, cols, STARTS(0), NULL, 0, NULL);
        says(3, cols, STARTS(0, 0, 0, 0), NULL, 0, NULL);
        says(2, cols, STARTS(0, 4, 4), INDEXES(0, 1, 2, 3), 4, NULL);
        says(3, cols, STARTS(0, 1, 3, 4), INDEXES(3, 0, 3, 0), 4, NULL);
    }
    says(1, WIDE, STARTS(0, 2), INDEXES((int64_t)1 << 33, WIDE - 1), 2, NULL);
}

static void damaged(void **state)
{
    (void)state;
    says(2, 4, STARTS(1, 2, 4), INDEXES(0, 1, 2, 3), 4,
         "P: row starts go from 1 to 4, expected 0 to 4");
    says(2, 4, STARTS(0, 2, 3), INDEXES(0, 1, 2, 3), 4,
         "P: row starts go from 0 to 3, expected 0 to 4");
    says(3, 4, STARTS(0, 3, 2, 4), INDEXES(0, 1, 2, 3), 4, "P: row 1 goes from entry 3 to 2");
    says(3, 4, STARTS(0, 9, 9, 4), INDEXES(0, 1, 2, 3), 4, "P: row 0 goes from entry 0 to 9");
    for (int wide = 0; wide < 2; wide++) {
        int64_t cols = wide ? ((int64_t)1 << 31) + 1 : 4;
        const char *past = wide ? "P: row 1 has column 2147483649, expected 0 to 2147483648"
                                : "P: row 1 has column 4, expected 0 to 3";
        const char *negative = wide ? "P: row 1 has column -1, expected 0 to 2147483648"
                                    : "P: row 1 has column -1, expected 0 to 3";
        says(2, cols, STARTS(0, 1, 3), INDEXES(0, 1, cols), 3, past);
        says(2, cols, STARTS(0, 1, 3), INDEXES(0, -1, 2), 3, negative);
        says(2, cols, STARTS(0, 1, 3), INDEXES(0, 2, 2), 3,
             "P: row 1 has column 2 behind column 2");
        says(2, cols, STARTS(0, 1, 3), INDEXES(0, 3, 1), 3,
             "P: row 1 has column 1 behind column 3");
    }
}

static void cuts_and_seeks(void **state)
{
    (void)state;
    block b;
    fill(&b, 4, 9, STARTS(0, 3, 3, 4, 8), INDEXES(1, 4, 8, 0, 0, 1, 2, 7), 8);
    for (int64_t first = 0; first < 4; first++) {
        gx_csr cut = gx_csr_cut(&b.csr, first, 4 - first);
        for (int64_t i = 0; i < cut.rows; i++) {
            for (int64_t j = -1; j < 10; j++) {
                int64_t e = b.csr.start[first + i];
                while (e < b.csr.start[first + i + 1] && gx_csr_column(&b.csr, e) < j) {
                    e++;
                }
                assert_int_equal(gx_csr_seek(&cut, i, j), e);
            }
        }
        assert_int_equal(cut.entries, 8 - b.csr.start[first]);
    }
    assert_true(gx_csr_value(&b.csr, 5).re == 5.5 && gx_csr_value(&b.csr, 5).im == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts),
        cmocka_unit_test(sound),
        cmocka_unit_test(damaged),
        cmocka_unit_test(cuts_and_seeks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
