/*
** What a BLOB without a header may be (gx_raw_dtype).
**
** Raw bytes do not say their dtype.  Embeddings mostly are f32, and read as f64 they are half as
** many numbers without meaning; bytes of another make (int8) are numbers without meaning in every
** dtype.  So a length alone decides only where the number of columns is known and one dtype makes
** whole rows of them (docs/decisions/064).  The bytes themselves are not looked at.
*/
#include "gx_ext.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Whether elements of so many bytes make the rows; how many of what they are. */
static bool fits(const gx_raw *raw, gx_dtype dtype, size_t *count)
{
    size_t size = gx_dtype_bytes(dtype), row = raw->cols < 0 ? size : (size_t)raw->cols * size;
    bool is_whole = row > 0 && raw->bytes % row == 0;
    bool is_flat = raw->is_one_row || raw->cols < 0;
    *count = !is_whole ? 0 : raw->bytes / (is_flat ? size : row);
    return is_whole && (raw->cols < 0 || !raw->is_one_row || raw->bytes == row);
}

/* "2 f32 or 1 f64", "2 rows of 4 f32 or 1 row of 4 f64". */
static void name_reading(const gx_raw *raw, gx_dtype dtype, size_t count, const char *before,
                         char text[200])
{
    size_t used = strlen(text);
    if (raw->cols < 0 || raw->is_one_row) {
        snprintf(text + used, 200 - used, "%s%zu %s", before, count, gx_dtype_name(dtype));
    } else {
        snprintf(text + used, 200 - used, "%s%zu row%s of %" PRId64 " %s", before, count,
                 count == 1 ? "" : "s", raw->cols, gx_dtype_name(dtype));
    }
}

gx_code gx_raw_dtype(const gx_raw *raw, gx_dtype *dtype, gx_err *err)
{
    const gx_dtype all[] = {GX_DTYPE_F32, GX_DTYPE_F64, GX_DTYPE_C64, GX_DTYPE_C128};
    const int numbers = raw->may_complex ? 4 : 2;
    const int kinds = numbers + (raw->is_one_row && !gx_dtype_is_number(raw->own));
    char readings[200] = "", sizes[200] = "";
    int found = 0;
    *dtype = GX_DTYPE_F64;
    if (raw->bytes == 0) {
        return GX_OK;
    }
    for (int k = 0; k < kinds; k++) {
        gx_dtype one = k < numbers ? all[k] : raw->own;
        size_t count, used = strlen(sizes);
        size_t size = gx_dtype_bytes(one) * (size_t)gx_max(raw->cols, 1);
        snprintf(sizes + used, sizeof sizes - used, "%s%zu (%s)", k == 0 ? "" : " or ", size,
                 gx_dtype_name(one));
        if (fits(raw, one, &count)) {
            *dtype = found == 0 ? one : *dtype;
            name_reading(raw, one, count, found++ == 0 ? "" : " or ", readings);
        }
    }
    if (found == 1 && raw->cols >= 0) {
        return GX_OK;
    }
    if (found > 0) {
        return gx_fail(err, GX_ARG, "%s is a blob of %zu bytes without a header, which may be %s%s",
                       raw->label, raw->bytes, readings, raw->how);
    }
    if (raw->cols < 0 || !raw->is_one_row) {
        return gx_fail(err, GX_ARG,
                       "%s is a blob of %zu bytes, neither a matrix value nor a multiple of %s",
                       raw->label, raw->bytes, sizes);
    }
    return gx_fail(err, GX_ARG,
                   "%s is a blob of %zu bytes, neither a matrix value nor %" PRId64
                   " raw numbers: expected %s",
                   raw->label, raw->bytes, raw->cols, sizes);
}
