/*
** Sparse panels: see csr.h.
**
** The check is one pass over starts and indexes, in the order of memory; it compares neighbours
** and gathers what is wrong without a branch in the inner loop, so that a panel is checked at the
** rate at which it is read.
*/
#include "csr.h"

#include <inttypes.h>
#include <string.h>

static size_t padded(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

bool gx_csr_lay_out(int64_t rows, int64_t cols, int64_t entries, gx_dtype dtype,
                    gx_csr_layout *layout)
{
    const int64_t most = (int64_t)GX_CSR_BYTES_MAX;
    if (rows < 0 || entries < 0 || rows >= most / 4 || entries > most / 8) {
        return false;
    }
    layout->index = padded(((size_t)rows + 1) * sizeof(uint32_t));
    layout->value = layout->index + padded((size_t)entries * (size_t)gx_csr_index_bytes(cols));
    layout->bytes = layout->value + padded((size_t)entries * gx_dtype_bytes(dtype));
    return layout->bytes <= GX_CSR_BYTES_MAX;
}

void gx_csr_map(gx_csr *csr, int64_t rows, int64_t cols, int64_t entries, gx_dtype dtype,
                const void *block)
{
    gx_csr_layout layout = {0};
    (void)gx_csr_lay_out(rows, cols, entries, dtype, &layout);
    *csr = (gx_csr){.dtype = dtype,
                    .rows = rows,
                    .cols = cols,
                    .entries = entries,
                    .index_bytes = gx_csr_index_bytes(cols),
                    .start = block,
                    .index = (const char *)block + layout.index,
                    .value = (const char *)block + layout.value};
}

/* Entries [e, end) of one row: do they rise, from 0 to below cols? */
static bool row_is_sound(const gx_csr *csr, int64_t e, int64_t end)
{
    if (e == end) {
        return true;
    }
    bool is_bad = false;
    if (csr->index_bytes == 4) {
        const int32_t *index = csr->index;
        for (int64_t k = e + 1; k < end; k++) {
            is_bad |= index[k] <= index[k - 1];
        }
        return !is_bad && index[e] >= 0 && index[end - 1] < csr->cols;
    }
    const int64_t *index = csr->index;
    for (int64_t k = e + 1; k < end; k++) {
        is_bad |= index[k] <= index[k - 1];
    }
    return !is_bad && index[e] >= 0 && index[end - 1] < csr->cols;
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
    for (int64_t i = 0; i < csr->rows; i++) {
        if (start[i + 1] < start[i] || start[i + 1] > (uint64_t)csr->entries) {
            return gx_fail(err, GX_CORRUPT, "%s: row %" PRId64 " goes from entry %lu to %lu", what,
                           i, (unsigned long)start[i], (unsigned long)start[i + 1]);
        }
        if (!row_is_sound(csr, start[i], start[i + 1])) {
            return tell_row(csr, i, what, err);
        }
    }
    return GX_OK;
}

gx_scalar gx_csr_value(const gx_csr *csr, int64_t entry)
{
    const double *d = csr->value;
    const float *f = csr->value;
    switch (csr->dtype) {
    case GX_F64:
        return (gx_scalar){d[entry], 0};
    case GX_F32:
        return (gx_scalar){(double)f[entry], 0};
    case GX_C128:
        return (gx_scalar){d[2 * entry], d[2 * entry + 1]};
    default:
        return (gx_scalar){(double)f[2 * entry], (double)f[2 * entry + 1]};
    }
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
    int64_t low = csr->start[row], high = csr->start[row + 1];
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (gx_csr_column(csr, middle) < j) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

gx_code gx_csr_refuse(const char *label, int64_t rows, int64_t cols, int64_t entries,
                      gx_dtype dtype, gx_err *err)
{
    size_t bytes = 0;
    gx_matrix_bytes(rows, cols, dtype, &bytes);
    return gx_fail(err, GX_ARG,
                   "%s is sparse (%" PRId64 "x%" PRId64 ", %" PRId64 " entr%s) and is needed dense "
                   "here: gx_dense makes it so, %zu bytes",
                   label, rows, cols, entries, entries == 1 ? "y" : "ies", bytes);
}
