/*
** Generators of simple matrices: see simple.h.
**
** Rectangles are filled column by column in the dtype asked for; memory is the caller's buffer, and
** for diagonals the n elements of the diagonal.
*/
#include "simple.h"

#include "mat.h"

#include <string.h>

/* count copies of the value, at least one. */
static void fill(gx_number dtype, gx_scalar value, void *dst, int64_t count)
{
    size_t element = gx_number_bytes(dtype);
    gx_number_put(dtype, dst, 0, value);
    for (int64_t done = 1; done < count; done *= 2) {
        memcpy((char *)dst + (size_t)done * element, dst,
               (size_t)gx_min(done, count - done) * element);
    }
}

void gx_constant_generate(const void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n,
                          gx_number dtype, void *dst, int64_t ld)
{
    const gx_constant *constant = arg;
    (void)i0, (void)j0;
    for (int64_t j = 0; j < n; j++) {
        fill(dtype, constant->value, gx_at(dst, dtype, ld, 0, j), m);
    }
}

void gx_diagonal_generate(const void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n,
                          gx_number dtype, void *dst, int64_t ld)
{
    const gx_diagonal *diagonal = arg;
    size_t bytes = gx_number_bytes(dtype);
    for (int64_t j = 0; j < n; j++) {
        memset(gx_at(dst, dtype, ld, 0, j), 0, (size_t)m * bytes);
        int64_t i = j0 + j - diagonal->offset;
        if (i < i0 || i >= i0 + m) {
            continue;
        }
        void *place = gx_at(dst, dtype, ld, i - i0, j);
        if (diagonal->data == NULL) {
            fill(dtype, (gx_scalar){1, 0}, place, 1);
        } else {
            int64_t k = gx_min(i, j0 + j);
            gx_convert(diagonal->dtype, gx_at(diagonal->data, diagonal->dtype, 1, k, 0), 1, dtype,
                       place, 1, 1, 1);
        }
    }
}

void gx_ramp_generate(const void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n,
                      gx_number dtype, void *dst, int64_t ld)
{
    enum { STRIP = 256 };
    const gx_ramp *ramp = arg;
    double strip[STRIP];
    (void)j0, (void)n; // a column
    for (int64_t i = 0; i < m; i += STRIP) {
        int64_t count = gx_min(STRIP, m - i);
        for (int64_t p = 0; p < count; p++) {
            strip[p] = ramp->start + (double)(i0 + i + p) * ramp->step;
        }
        bool has_last = i0 + i + count == ramp->count && ramp->count > 1;
        strip[count - 1] = has_last ? ramp->last : strip[count - 1];
        gx_convert(GX_F64, strip, count, dtype, gx_at(dst, dtype, ld, i, 0), ld, count, 1);
    }
}

int64_t gx_diagonal_count(int64_t rows, int64_t cols, int64_t offset)
{
    int64_t count = offset >= 0 ? gx_min(rows, cols - gx_min(offset, cols))
                                : gx_min(cols, rows + gx_max(offset, -rows));
    return gx_max(count, 0);
}
