/*
** A matrix band by band: where an import announces its shape, how large a band may be, the walk
** of an export over its matrix, an element as text.
**
** Memory: one band, one tile for the sink to pack, one buffer of text.  A band of an import is a
** whole number of tiles, so that each tile of the database is written once, and at the least one.
*/
#include "file_int.h"
#include "../base/decimal.h"

/* Bands beyond this size save nothing more when the file is read in order. */
static const size_t STREAM_BYTES = (size_t)32 << 20;

// Import ------------------------------------------------------------------------------------------

gx_code gx_import_begin(gx_import *im, int64_t rows, int64_t cols, gx_dtype dtype,
                        uint32_t properties, gx_err *err)
{
    im->rows = rows;
    im->cols = cols;
    im->stored = im->options.has_dtype ? im->options.dtype : dtype;
    gx_number from = gx_dtype_number(dtype), to = gx_dtype_number(im->stored);
    im->dtype = gx_dtype_is_number(im->stored) ? to : from;
    im->is_verbatim = dtype == GX_DTYPE_I64 && im->stored == GX_DTYPE_I64;
    if (gx_number_is_complex(from) && !gx_number_is_complex(to)) {
        return gx_input_fail(im->in, err, 0, "holds complex numbers, but dtype %s is real",
                             gx_dtype_name(im->stored));
    }
    size_t bytes;
    if (!gx_matrix_bytes(rows, cols, im->dtype, &bytes)) {
        return gx_input_fail(im->in, err, 0, "%lldx%lld %s elements: " GX_SIZES_TEXT,
                             (long long)rows, (long long)cols, gx_dtype_name(im->stored));
    }
    im->tile_rows = im->tile_cols = 0;
    GX_TRY(im->to.begin(im->to.arg, rows, cols, im->dtype, im->stored, im->is_verbatim, properties,
                        &im->tile_rows, &im->tile_cols, err));
    im->tile_rows = gx_max(1, im->tile_rows);
    im->tile_cols = gx_max(1, im->tile_cols);
    return GX_OK;
}

gx_code gx_import_sparse_dtype(const gx_import *im, gx_dtype from, gx_dtype *to, gx_err *err)
{
    *to = im->options.has_dtype ? im->options.dtype : from;
    if (gx_number_is_complex(gx_dtype_number(from)) &&
        !gx_number_is_complex(gx_dtype_number(*to))) {
        return gx_input_fail(im->in, err, 0, "holds complex numbers, but dtype %s is real",
                             gx_dtype_name(*to));
    }
    return GX_OK;
}

/*
** How many of count lines, in groups of unit, fit: at least one group.  line_bytes: of one line.
*/
static int64_t lines_that_fit(int64_t count, int64_t unit, size_t line_bytes, size_t bytes)
{
    int64_t fit = line_bytes == 0 ? count : (int64_t)(bytes / line_bytes);
    return fit >= count ? count : gx_min(count, gx_max(1, fit / unit) * unit);
}

void gx_import_band(const gx_import *im, gx_order order, size_t most_bytes, int64_t *m, int64_t *n)
{
    size_t element = gx_number_bytes(im->dtype);
    size_t tile = (size_t)im->tile_rows * (size_t)im->tile_cols * element;
    size_t bytes = im->mem != NULL ? gx_mem_available(im->mem) : SIZE_MAX;
    const size_t headers = 4096;                                 // the allocations' own
    bytes = bytes > tile + headers ? bytes - tile - headers : 0; // a tile for the sink to pack
    bytes = bytes < most_bytes ? bytes : most_bytes;
    if (order == GX_ORDER_ROWS) {
        *n = lines_that_fit(im->cols, im->tile_cols, (size_t)im->tile_rows * element, bytes);
        *m = *n < im->cols ? gx_min(im->tile_rows, im->rows)
                           : lines_that_fit(im->rows, im->tile_rows, (size_t)*n * element, bytes);
    } else {
        *m = lines_that_fit(im->rows, im->tile_rows, (size_t)im->tile_cols * element, bytes);
        *n = *m < im->rows ? gx_min(im->tile_cols, im->cols)
                           : lines_that_fit(im->cols, im->tile_cols, (size_t)*m * element, bytes);
    }
}

gx_code gx_import_write(const gx_import *im, int64_t i0, int64_t j0, int64_t m, int64_t n,
                        const void *band, gx_err *err)
{
    const size_t PIECE_BYTES = (size_t)8 << 20;
    size_t element = gx_number_bytes(im->dtype);
    size_t tile_column = (size_t)gx_min(m, im->tile_rows) * (size_t)gx_min(n, im->tile_cols);
    int64_t tiles = gx_max(1, (int64_t)(PIECE_BYTES / (tile_column * element)));
    int64_t height = im->tile_rows > m / tiles ? m : tiles * im->tile_rows;
    for (int64_t j = 0; j < n; j += im->tile_cols) {
        for (int64_t i = 0; i < m; i += height) {
            GX_TRY(im->to.write(im->to.arg, i0 + i, j0 + j, gx_min(height, m - i),
                                gx_min(im->tile_cols, n - j), gx_at(band, im->dtype, m, i, j), m,
                                err));
            GX_TRY(gx_import_poll(im, err));
        }
    }
    return GX_OK;
}

// Export ------------------------------------------------------------------------------------------

/* The rectangle that a walk reads at once, for a matrix seen along its lines. */
static void walk_band(const gx_export *ex, int64_t lines, int64_t length, int64_t unit,
                      int64_t *band, int64_t *piece)
{
    size_t element = gx_number_bytes(ex->dtype);
    size_t bytes = gx_mem_available(ex->run->ctx->mem) / 2; // the source has buffers of its own
    bytes = bytes < STREAM_BYTES ? bytes : STREAM_BYTES;
    int64_t elements = gx_max(1, (int64_t)(bytes / element));
    *piece = gx_min(length, elements);
    *band = *piece < length ? 1 : gx_min(lines, gx_max(1, elements / gx_max(1, length)));
    if (*band > unit) {
        *band -= *band % unit;
    }
}

gx_code gx_export_walk(gx_export *ex, gx_order order, bool is_lower, gx_export_band fn, void *arg)
{
    const gx_mat *mat = ex->mat;
    gx_run *run = ex->run;
    bool by_rows = order == GX_ORDER_ROWS;
    int64_t lines = by_rows ? mat->rows : mat->cols, length = by_rows ? mat->cols : mat->rows;
    int64_t band, piece;
    walk_band(ex, lines, length, by_rows ? mat->tile_rows : mat->tile_cols, &band, &piece);
    size_t element = gx_number_bytes(ex->dtype);
    void *buffer = gx_run_alloc(run, (size_t)(band * piece) * element, "a band of the matrix");
    gx_err err = {0};
    if (buffer == NULL) {
        return run->err.code;
    }
    for (int64_t l = 0; l < lines && gx_ok(run); l += band) {
        for (int64_t p = is_lower ? l : 0; p < length && gx_ok(run); p += piece) {
            int64_t b = gx_min(band, lines - l), q = gx_min(piece, length - p);
            int64_t i0 = by_rows ? l : p, j0 = by_rows ? p : l;
            int64_t m = by_rows ? b : q, n = by_rows ? q : b;
            gx_code rc = gx_mat_read(run, mat, ex->reader, i0, j0, m, n, ex->dtype, buffer,
                                     gx_max(1, m), &err);
            if (rc == GX_OK) {
                rc = fn(arg, i0, j0, m, n, buffer);
            }
            gx_fail(&err, rc, "%s", ex->out.err.text);
            gx_run_fail(run, &err);
            gx_run_advance(run, (double)b * (double)q * (double)element);
            gx_run_poll(run);
        }
    }
    gx_mem_free(run->ctx->mem, buffer);
    return gx_ok(run) ? GX_OK : run->err.code;
}

char *gx_export_number(const gx_export *ex, const void *element, char *to)
{
    int length;
    bool is_double = gx_number_is_double(ex->dtype);
    double value = is_double ? *(const double *)element : (double)*(const float *)element;
    if (ex->options.precision > 0) {
        length = gx_decimal_format_places(value, (int)ex->options.precision, to);
    } else {
        length = is_double ? gx_decimal_format(value, to) : gx_decimal_format_f32((float)value, to);
    }
    bool is_integer = length > 2 && to[length - 1] == '0' && to[length - 2] == '.';
    return to + length - (is_integer ? 2 : 0);
}
