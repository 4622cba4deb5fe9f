/*
** Sparse panels: see csr.h.
**
** The check passes over starts and indexes in the order of memory; it compares neighbours, and
** counts what is wrong in loops without branches that know nothing of rows, which the compiler
** turns to vectors: a panel is checked at the rate at which it is read, however short its rows are.
*/
#include "csr.h"
#include "convert.h"

#include <inttypes.h>
#include <string.h>

bool gx_csr_lay_out(int64_t rows, int64_t cols, int64_t entries, gx_dtype dtype,
                    gx_csr_layout *layout)
{
    const int64_t most = (int64_t)GX_CSR_BYTES_MAX;
    if (rows < 0 || entries < 0 || rows >= most / 4 || entries > most / 8) {
        return false;
    }
    layout->index = gx_round_up(((size_t)rows + 1) * sizeof(uint32_t), 8);
    layout->value =
        layout->index + gx_round_up((size_t)entries * (size_t)gx_csr_index_bytes(cols), 8);
    layout->bytes = layout->value + gx_round_up((size_t)entries * gx_dtype_bytes(dtype), 8);
    return layout->bytes <= GX_CSR_BYTES_MAX;
}

void gx_csr_map(gx_csr *csr, int64_t rows, int64_t cols, int64_t entries, gx_number dtype,
                const void *block)
{
    gx_csr_layout layout = {0};
    (void)gx_csr_lay_out(rows, cols, entries, gx_dtype_of(dtype), &layout);
    *csr = (gx_csr){.dtype = dtype,
                    .rows = rows,
                    .cols = cols,
                    .entries = entries,
                    .index_bytes = gx_csr_index_bytes(cols),
                    .start = block,
                    .index = (const char *)block + layout.index,
                    .value = (const char *)block + layout.value};
}

/* Rows that are looked through at a time: their indexes stay in the cache for the second look. */
enum { CHECK_ROWS = 4096 };

/* Do starts rise or stay, up to the number of entries? */
static bool starts_are_sound(const gx_csr *csr)
{
    const uint32_t *start = csr->start;
    bool is_bad = false;
    for (int64_t i = 0; i < csr->rows; i++) {
        is_bad |= start[i + 1] < start[i];
    }
    return !is_bad; // and the last one is right
}

/*
** Entries [e, end) of rows [i, last): indexes from 0 to below cols, that fall nowhere but where a
** row begins.  So all falls are counted, and those at the beginnings of rows.
*/
#define DEFINE_SOUND(name, type)                                                                   \
    static bool name(const gx_csr *csr, int64_t i, int64_t last)                                   \
    {                                                                                              \
        const type *index = csr->index;                                                            \
        const uint32_t *start = csr->start;                                                        \
        int64_t e = start[i], end = start[last];                                                   \
        type all = 0, most = 0;                                                                    \
        type falls = 0;                                                                            \
        for (int64_t k = e; k < end; k++) {                                                        \
            all |= index[k];                                                                       \
            most = index[k] > most ? index[k] : most;                                              \
        }                                                                                          \
        for (int64_t k = e + 1; k < end; k++) {                                                    \
            falls += index[k] <= index[k - 1];                                                     \
        }                                                                                          \
        for (; i < last; i++) {                                                                    \
            uint32_t s = start[i];                                                                 \
            falls -= s > e && s < start[i + 1] && index[s] <= index[s - 1];                        \
        }                                                                                          \
        return all >= 0 && (end == e || most < csr->cols) && falls == 0;                           \
    }

DEFINE_SOUND(narrow_rows_are_sound, int32_t)
DEFINE_SOUND(wide_rows_are_sound, int64_t)

static bool rows_are_sound(const gx_csr *csr, int64_t i, int64_t last)
{
    return csr->index_bytes == 4 ? narrow_rows_are_sound(csr, i, last)
                                 : wide_rows_are_sound(csr, i, last);
}

/* What is wrong with a row that is not sound. */
static gx_code tell_row(const gx_csr *csr, int64_t row, const char *what, gx_err *err)
{
    for (int64_t k = csr->start[row]; k < csr->start[row + 1]; k++) {
        int64_t j = gx_csr_column(csr, k);
        if (j < 0 || j >= csr->cols) {
            return gx_fail(err, GX_CORRUPT,
                           "%s: row %" PRId64 " has column %" PRId64 ", expected 0 to %" PRId64,
                           what, row, j, csr->cols - 1);
        }
        if (k > csr->start[row] && j <= gx_csr_column(csr, k - 1)) {
            return gx_fail(err, GX_CORRUPT,
                           "%s: row %" PRId64 " has column %" PRId64 " behind column %" PRId64,
                           what, row, j, gx_csr_column(csr, k - 1));
        }
    }
    return GX_OK;
}

gx_code gx_csr_check(const gx_csr *csr, const char *what, gx_err *err)
{
    const uint32_t *start = csr->start;
    if (start[0] != 0 || start[csr->rows] != (uint64_t)csr->entries) {
        return gx_fail(err, GX_CORRUPT,
                       "%s: row starts go from %lu to %lu, expected 0 to %" PRId64, what,
                       (unsigned long)start[0], (unsigned long)start[csr->rows], csr->entries);
    }
    bool are_sound = starts_are_sound(csr);
    for (int64_t i = 0; i < csr->rows && !are_sound; i++) {
        if (start[i + 1] < start[i] || start[i + 1] > (uint64_t)csr->entries) {
            return gx_fail(err, GX_CORRUPT, "%s: row %" PRId64 " goes from entry %lu to %lu", what,
                           i, (unsigned long)start[i], (unsigned long)start[i + 1]);
        }
    }
    for (int64_t i = 0; i < csr->rows; i += CHECK_ROWS) {
        int64_t last = i + CHECK_ROWS < csr->rows ? i + CHECK_ROWS : csr->rows;
        are_sound = rows_are_sound(csr, i, last);
        for (int64_t row = i; row < last && !are_sound; row++) {
            GX_TRY(tell_row(csr, row, what, err));
        }
    }
    return GX_OK;
}

gx_scalar gx_csr_value(const gx_csr *csr, int64_t entry)
{
    return gx_number_get(csr->dtype, csr->value, entry);
}

gx_csr gx_csr_cut(const gx_csr *csr, int64_t first, int64_t count)
{
    gx_csr cut = *csr;
    cut.rows = count;
    cut.start = csr->start + first;
    cut.entries = (int64_t)cut.start[count] - (int64_t)cut.start[0];
    return cut;
}

int64_t gx_csr_seek(const gx_csr *csr, int64_t row, int64_t j)
{
    int64_t low = csr->start[row];
    GX_BISECT(low, csr->start[row + 1], middle, gx_csr_column(csr, middle) < j)
    return low;
}

gx_code gx_csr_refuse(const char *label, int64_t rows, int64_t cols, int64_t entries,
                      gx_number dtype, gx_err *err)
{
    size_t bytes = 0;
    gx_matrix_bytes(rows, cols, dtype, &bytes);
    return gx_fail(err, GX_ARG,
                   "%s is sparse (%" PRId64 "x%" PRId64 ", %" PRId64 " entr%s) and is needed dense "
                   "here: gx_dense makes it so, %zu bytes",
                   label, rows, cols, entries, entries == 1 ? "y" : "ies", bytes);
}
