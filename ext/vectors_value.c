/*
** A vector as an SQL value: a BLOB of the column's type or of f32 or f64, JSON, a matrix value; and
** as what is stored.
**
** A BLOB without a header is told by its length, which no two types have in common: a column's
** vectors are all of one length.
*/
#include "vectors.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* No NaN and no Inf: they have no place in an order. */
static gx_code check_finite(const gx_vec_column *column, const double *number, gx_err *err)
{
    for (int64_t k = 0; k < column->dims; k++) {
        if (!isfinite(number[k])) {
            return gx_fail(err, GX_ARG, "%s has %s at %" PRId64, column->name,
                           isnan(number[k]) ? "NaN" : "Inf", k);
        }
        if (column->is_bit && number[k] != 0 && number[k] != 1) {
            return gx_fail(err, GX_ARG, "%s has %g at %" PRId64 ", which is no bit", column->name,
                           number[k], k);
        }
    }
    return GX_OK;
}

/* A BLOB of the column's own type. */
static bool is_own(const gx_vec_column *column, sqlite3_value *value)
{
    return sqlite3_value_type(value) == SQLITE_BLOB &&
           (size_t)sqlite3_value_bytes(value) == column->bytes;
}

/* Anything but a BLOB of the column's own type, as doubles: the caller frees *numbers. */
static gx_code take_numbers(gx_vec_table *t, const gx_vec_column *column, sqlite3_value *value,
                            double **numbers, gx_err *err)
{
    int64_t count;
    void *data = NULL;
    const gx_row_wish wish = {.dtype = column->is_bit ? GX_DTYPE_F32 : column->dtype,
                              .number = GX_F64,
                              .cols = column->dims,
                              .how = ""};
    if (sqlite3_value_type(value) == SQLITE_NULL) {
        return gx_fail(err, GX_ARG, "%s is NULL", column->name);
    }
    GX_TRY(gx_arg_row(t->ctx, value, column->name, &wish, &count, &data, err));
    *numbers = data;
    gx_code code =
        count == column->dims
            ? check_finite(column, *numbers, err)
            : gx_fail(err, GX_ARG, "%s has %" PRId64 " numbers, but %" PRId64 " are declared",
                      column->name, count, column->dims);
    if (code != GX_OK) {
        gx_mem_free(t->ctx->mem, *numbers);
        *numbers = NULL;
    }
    return code;
}

/* The elements of one row as doubles. */
static gx_code widen(const gx_vec_column *column, const void *elements, double *numbers,
                     gx_err *err)
{
    return gx_widen(column->dtype, elements, column->dims, GX_F64, numbers, column->dims,
                    column->dims, 1, err);
}

/*
** No NaN and no Inf among f32, two at a time: one more in the exponent reaches the place of the
** sign only where all its bits were set.
*/
static bool is_finite_f32(const char *elements, int64_t count)
{
    const uint64_t NO_SIGNS = 0x7fffffff7fffffff, ONE_MORE = 0x0080000000800000;
    uint64_t signs = 0, two;
    for (int64_t k = 0; k + 2 <= count; k += 2) {
        memcpy(&two, elements + (size_t)k * sizeof(float), sizeof two);
        signs |= (two & NO_SIGNS) + ONE_MORE;
    }
    two = 0;
    memcpy(&two, elements + (size_t)(count - 1) * sizeof(float), sizeof(float));
    signs |= (two & NO_SIGNS) + ONE_MORE;
    return (signs & ~NO_SIGNS) == 0;
}

/* Whole numbers cannot be NaN; a float is looked at as it lies, perhaps not at its alignment. */
static gx_code check_own(const gx_vec_column *column, const void *blob, gx_err *err)
{
    enum { BLOCK = 256 };
    size_t size = gx_dtype_bytes(column->dtype);
    if (column->is_bit || column->dtype == GX_DTYPE_I8 ||
        (column->dtype == GX_DTYPE_F32 && is_finite_f32(blob, column->dims))) {
        return GX_OK;
    }
    double number[BLOCK], aligned[BLOCK];
    for (int64_t k = 0; k < column->dims; k += BLOCK) {
        gx_vec_column part = *column;
        part.dims = gx_min(BLOCK, column->dims - k);
        memcpy(aligned, (const char *)blob + (size_t)k * size, (size_t)part.dims * size);
        GX_TRY(widen(&part, aligned, number, err));
        for (int64_t i = 0; i < part.dims; i++) {
            if (!isfinite(number[i])) {
                return gx_fail(err, GX_ARG, "%s has %s at %" PRId64, column->name,
                               isnan(number[i]) ? "NaN" : "Inf", k + i);
            }
        }
    }
    return GX_OK;
}

/* Zeros and ones, eight a byte. */
static void pack(const gx_vec_column *column, const double *numbers, char *bytes)
{
    memset(bytes, 0, column->bytes);
    for (int64_t k = 0; k < column->dims; k++) {
        bytes[k / 8] = (char)(bytes[k / 8] | (numbers[k] != 0) << k % 8);
    }
}

gx_code gx_vec_take(gx_vec_table *t, const gx_vec_column *column, sqlite3_value *value, char **made,
                    const char **blob, gx_err *err)
{
    if (is_own(column, value)) {
        *blob = sqlite3_value_blob(value);
        return *blob == NULL ? gx_fail_nomem(err, column->bytes, "vector")
                             : check_own(column, *blob, err);
    }
    double *numbers;
    GX_TRY(gx_mem_alloc(t->ctx->mem, column->bytes, "vector", made, err));
    *blob = *made;
    GX_TRY(take_numbers(t, column, value, &numbers, err));
    const gx_narrowing to = {.dtype = column->dtype};
    gx_code code = GX_OK;
    if (column->is_bit) {
        pack(column, numbers, *made);
    } else {
        code = gx_narrow_to(GX_F64, numbers, 1, &to, *made, 1, 1, column->dims, err);
        // a double may be beyond the type's range
        code = code == GX_OK ? check_own(column, *made, err) : code;
    }
    gx_mem_free(t->ctx->mem, numbers);
    return code;
}

gx_code gx_vec_take_query(gx_vec_table *t, const gx_vec_column *column, sqlite3_value *value,
                          double *query, gx_err *err)
{
    if (is_own(column, value)) {
        const unsigned char *data = sqlite3_value_blob(value);
        if (data == NULL) {
            return gx_fail_nomem(err, column->bytes, "query");
        }
        for (int64_t k = 0; column->is_bit && k < column->dims; k++) {
            query[k] = data[k / 8] >> k % 8 & 1;
        }
        if (column->is_bit) {
            return GX_OK;
        }
        memcpy((char *)(query + column->dims) - column->bytes, data, column->bytes);
        GX_TRY(gx_widen_in_place(column->dtype, GX_F64, query, column->dims, err));
        return check_finite(column, query, err);
    }
    double *numbers;
    GX_TRY(take_numbers(t, column, value, &numbers, err));
    memcpy(query, numbers, (size_t)column->dims * sizeof *query);
    gx_mem_free(t->ctx->mem, numbers);
    return GX_OK;
}
