/*
** Matrix values: see value.h for the layout.
**
** A value is one allocation of the governor's, header first, so that a finished result goes to
** SQLite without a copy, with gx_value_release() as its destructor; its memory comes back, warm, to
** the next one.  The governor counts it while gx owns it.
** Parsing reads the header with memcpy, because a blob may start at any address, and checks it
** completely: after gx_value_parse() the elements are known to lie inside the blob.
*/
#include "value.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "elements are little-endian on disk and are used in place");

static const char MAGIC[4] = {'g', 'x', 'm', 'v'};

enum {
    VERSION = 1,
    OFFSET_VERSION = 4,
    OFFSET_DTYPE = 5,
    OFFSET_SPARSE = 6,
    OFFSET_ZERO = 7,
    OFFSET_ROWS = 8,
    OFFSET_COLS = 16,
    OFFSET_ENTRIES = 24
};

bool gx_value_is(const void *blob, size_t bytes)
{
    return bytes >= sizeof MAGIC && memcmp(blob, MAGIC, sizeof MAGIC) == 0;
}

static int64_t read_i64(const unsigned char *at)
{
    int64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* The fields before the sizes: what kind of value this is. */
static gx_code check_kind(const unsigned char *header, size_t bytes, gx_err *err)
{
    if (!gx_value_is(header, bytes)) {
        return gx_fail(err, GX_ARG,
                       "a blob of %zu bytes that is no matrix value (no 'gxmv' in front)", bytes);
    }
    if (bytes < GX_VALUE_HEADER) {
        return gx_fail(err, GX_ARG,
                       "a matrix value that ends in its header (after %zu of %d bytes)", bytes,
                       GX_VALUE_HEADER);
    }
    if (header[OFFSET_VERSION] != VERSION) {
        return gx_fail(err, GX_ARG, "a matrix value of version %d, but this gx reads version %d",
                       header[OFFSET_VERSION], VERSION);
    }
    if (header[OFFSET_DTYPE] >= GX_DTYPE_COUNT) {
        return gx_fail(err, GX_ARG, "a matrix value of unknown dtype %d", header[OFFSET_DTYPE]);
    }
    if (header[OFFSET_SPARSE] > 1 || header[OFFSET_ZERO] != 0 ||
        (header[OFFSET_SPARSE] == 0 && read_i64(header + OFFSET_ENTRIES) != 0)) {
        return gx_fail(err, GX_ARG, "a matrix value with reserved bytes that are not zero");
    }
    return GX_OK;
}

/* What stands behind the header, in bytes; false: no blob has so many. */
static bool count_bytes(const gx_value *value, size_t elements, size_t *expected)
{
    gx_csr_layout layout;
    *expected = elements;
    if (!value->is_sparse) {
        return true;
    }
    bool is_possible =
        gx_csr_lay_out(value->rows, value->cols, value->entries, value->dtype, &layout);
    *expected = is_possible ? layout.bytes : 0;
    return is_possible;
}

gx_code gx_value_parse(const void *blob, size_t bytes, gx_value *value, gx_err *err)
{
    GX_TRY(gx_value_parse_any(blob, bytes, value, err));
    return !value->is_sparse ? GX_OK
                             : gx_csr_refuse("a matrix value", value->rows, value->cols,
                                             value->entries, gx_dtype_number(value->dtype), err);
}

gx_code gx_value_parse_any(const void *blob, size_t bytes, gx_value *value, gx_err *err)
{
    const unsigned char *header = blob;
    GX_TRY(check_kind(header, bytes, err));

    int64_t rows = read_i64(header + OFFSET_ROWS), cols = read_i64(header + OFFSET_COLS);
    gx_dtype dtype = (gx_dtype)header[OFFSET_DTYPE];
    size_t expected;
    if (!gx_dtype_matrix_bytes(rows, cols, dtype, &expected)) {
        return gx_fail(err, GX_ARG,
                       "a matrix value of impossible size %" PRId64 "x%" PRId64 " (" GX_SIZES_TEXT
                       ")",
                       rows, cols);
    }
    *value =
        (gx_value){.dtype = dtype, .rows = rows, .cols = cols, .data = header + GX_VALUE_HEADER};
    value->is_sparse = header[OFFSET_SPARSE] != 0;
    value->entries = read_i64(header + OFFSET_ENTRIES);
    if (!count_bytes(value, expected, &expected)) {
        return gx_fail(err, GX_ARG,
                       "a sparse matrix value of %" PRId64 "x%" PRId64 " with %" PRId64
                       " entries, which no blob can hold",
                       rows, cols, value->entries);
    }
    if (bytes - GX_VALUE_HEADER != expected) {
        return gx_fail(err, GX_ARG,
                       "a %smatrix value of %" PRId64 "x%" PRId64
                       " %s with %zu bytes instead of %zu",
                       value->is_sparse ? "sparse " : "", rows, cols, gx_dtype_name(dtype), bytes,
                       expected + GX_VALUE_HEADER);
    }
    return GX_OK;
}

/* So many bytes, of which the header is written. */
static gx_code make_buf(gx_mem *mem, size_t bytes, gx_dtype dtype, int64_t rows, int64_t cols,
                        gx_value_buf *buf, gx_err *err)
{
    unsigned char *header;
    GX_TRY(gx_mem_alloc(mem, bytes, "result value", &header, err));
    memset(header, 0, GX_VALUE_HEADER);
    memcpy(header, MAGIC, sizeof MAGIC);
    header[OFFSET_VERSION] = VERSION;
    header[OFFSET_DTYPE] = (unsigned char)dtype;
    memcpy(header + OFFSET_ROWS, &rows, sizeof rows);
    memcpy(header + OFFSET_COLS, &cols, sizeof cols);
    *buf = (gx_value_buf){.blob = header, .bytes = bytes, .data = header + GX_VALUE_HEADER};
    return GX_OK;
}

gx_code gx_value_buf_create(gx_mem *mem, gx_dtype dtype, int64_t rows, int64_t cols,
                            int64_t limit_bytes, gx_value_buf *buf, gx_err *err)
{
    *buf = (gx_value_buf){0};
    size_t elements;
    if (!gx_dtype_matrix_bytes(rows, cols, dtype, &elements)) {
        return gx_fail(err, GX_TOOBIG, "a result of %" PRId64 "x%" PRId64 " %s: " GX_SIZES_TEXT,
                       rows, cols, gx_dtype_name(dtype));
    }
    size_t bytes = elements + GX_VALUE_HEADER;
    if ((int64_t)bytes > limit_bytes) {
        return gx_fail(err, GX_TOOBIG,
                       "a result of %" PRId64 "x%" PRId64
                       " %s takes %zu bytes, past SQLite's length limit of %" PRId64
                       ": give a destination name to store it",
                       rows, cols, gx_dtype_name(dtype), bytes, limit_bytes);
    }
    return make_buf(mem, bytes, dtype, rows, cols, buf, err);
}

gx_code gx_value_buf_create_sparse(gx_mem *mem, gx_dtype dtype, int64_t rows, int64_t cols,
                                   int64_t entries, int64_t limit_bytes, gx_value_buf *buf,
                                   gx_err *err)
{
    *buf = (gx_value_buf){0};
    gx_csr_layout layout = {0};
    bool is_possible = gx_csr_lay_out(rows, cols, entries, dtype, &layout);
    size_t bytes = layout.bytes + GX_VALUE_HEADER;
    if (!is_possible || (int64_t)bytes > limit_bytes) {
        return gx_fail(err, GX_TOOBIG,
                       "a sparse result of %" PRId64 "x%" PRId64 " %s with %" PRId64
                       " entries is past SQLite's length limit of %" PRId64
                       ": give a destination name to store it",
                       rows, cols, gx_dtype_name(dtype), entries, limit_bytes);
    }
    GX_TRY(make_buf(mem, bytes, dtype, rows, cols, buf, err));
    unsigned char *header = buf->blob;
    header[OFFSET_SPARSE] = 1;
    memcpy(header + OFFSET_ENTRIES, &entries, sizeof entries);
    return GX_OK;
}

void gx_value_buf_free(gx_mem *mem, gx_value_buf *buf)
{
    gx_mem_free(mem, buf->blob);
    *buf = (gx_value_buf){0};
}

void *gx_value_buf_move(gx_mem *mem, gx_value_buf *buf, size_t *bytes)
{
    void *blob = buf->blob;
    *bytes = buf->bytes;
    if (blob != NULL) {
        gx_mem_disown(mem, blob);
    }
    *buf = (gx_value_buf){0};
    return blob;
}

void gx_value_release(void *blob)
{
    gx_mem_free(NULL, blob);
}
