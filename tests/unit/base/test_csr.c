/*
** Sparse panels: csr.h.
**
** Plan:
**   1. layout: parts at multiples of 8 in all dtypes and both widths of indexes; what no blob holds
**   2. the check takes what is sound: empty rows, full rows, no rows, no entries
**   3. the check refuses each kind of damage, with 4-byte and 8-byte indexes, in its words
**   4. one index of many rows, or one start, is changed: refused where a plain search finds fault
**   5. cuts and seeks on every row against a plain search
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
    for (int dtype = 0; dtype < GX_FLOATS; dtype++) {
        for (int64_t rows = 0; rows < 5; rows++) {
            for (int64_t entries = 0; entries < 7; entries++) {
                for (int wide = 0; wide < 2; wide++) {
                    gx_csr_layout l;
                    int64_t cols = wide ? ((int64_t)1 << 31) + 1 : (int64_t)1 << 31;
                    assert_true(gx_csr_lay_out(rows, cols, entries, (gx_dtype)dtype, &l));
                    size_t index = (size_t)entries * (wide ? 8 : 4);
                    size_t value = (size_t)entries * gx_number_bytes((gx_number)dtype);
                    assert_int_equal(l.index % 8 + l.value % 8 + l.bytes % 8, 0);
                    assert_true(l.index >= (size_t)rows * 4 + 4 && l.index < (size_t)rows * 4 + 12);
                    assert_true(l.value - l.index >= index && l.value - l.index < index + 8);
                    assert_true(l.bytes - l.value >= value && l.bytes - l.value < value + 8);
                }
            }
        }
    }
    gx_csr_layout l;
    assert_false(gx_csr_lay_out(-1, 5, 0, GX_DTYPE_F64, &l));
    assert_false(gx_csr_lay_out(5, 5, -1, GX_DTYPE_F64, &l));
    assert_false(gx_csr_lay_out(INT64_MAX, 5, 0, GX_DTYPE_F64, &l));
    assert_false(gx_csr_lay_out(5, 5, INT64_MAX, GX_DTYPE_F64, &l));
    assert_false(gx_csr_lay_out((int64_t)1 << 29, 5, 0, GX_DTYPE_F64, &l));
    assert_false(gx_csr_lay_out(1, 5, 178956971, GX_DTYPE_F64, &l)); // 12 bytes each
    assert_true(gx_csr_lay_out(1, 5, 178956900, GX_DTYPE_F64, &l));
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

enum { MANY = 9000 }; /* more rows than are looked through at a time */

/* Rows of 0 to 3 entries in 6 columns. */
static int64_t many_rows(uint32_t start[MANY + 1], int32_t narrow[3 * MANY], int64_t wide[3 * MANY])
{
    int64_t e = 0;
    start[0] = 0;
    for (int64_t i = 0; i < MANY; i++) {
        for (int64_t k = 0; k < i * 7 % 4; k++) {
            narrow[e] = (int32_t)(2 * k + i % 2);
            wide[e] = narrow[e];
            e++;
        }
        start[i + 1] = (uint32_t)e;
    }
    return e;
}

static bool is_plainly_sound(const gx_csr *csr)
{
    for (int64_t i = 0; i < csr->rows; i++) {
        if (csr->start[i + 1] < csr->start[i] || csr->start[i + 1] > csr->entries) {
            return false;
        }
    }
    for (int64_t i = 0; i < csr->rows; i++) {
        for (int64_t e = csr->start[i]; e < csr->start[i + 1]; e++) {
            int64_t j = gx_csr_column(csr, e);
            if (j < 0 || j >= csr->cols ||
                (e > csr->start[i] && j <= gx_csr_column(csr, e - 1))) {
                return false;
            }
        }
    }
    return true;
}

static void changed(void **state)
{
    (void)state;
    static uint32_t start[MANY + 1];
    static int32_t narrow[3 * MANY];
    static int64_t wide[3 * MANY];
    int64_t entries = many_rows(start, narrow, wide), refused = 0;
    for (int64_t k = 0; k < 2000; k++) {
        int64_t at = k * 7919 % entries, row = 1 + k * 104729 % (MANY - 1), j = k % 9 - 1;
        bool is_wide = k % 2 != 0, is_start = k % 5 == 0;
        const gx_csr csr = {GX_F64, MANY, 6, entries, is_wide ? 8 : 4, start,
                            is_wide ? (const void *)wide : (const void *)narrow, NULL};
        uint32_t old_start = start[row];
        int32_t old = narrow[at];
        if (is_start) {
            start[row] = (uint32_t)(old_start + (uint32_t)(k % 7) - 3);
        } else {
            wide[at] = narrow[at] = (int32_t)j;
        }
        gx_err err = {.code = GX_OK};
        bool is_sound = is_plainly_sound(&csr);
        assert_int_equal(gx_csr_check(&csr, "P", &err), is_sound ? GX_OK : GX_CORRUPT);
        refused += !is_sound;
        start[row] = old_start;
        wide[at] = narrow[at] = old;
    }
    assert_true(refused > 500 && refused < 1900);
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
        cmocka_unit_test(changed),
        cmocka_unit_test(cuts_and_seeks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
