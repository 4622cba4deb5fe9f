/*
** Shared by fuzz_npy, fuzz_npz, fuzz_mtx and fuzz_csv: a file in memory through a reader of
** core/file*.c, twice.
**
** Property: a reader accepts a file or refuses it in one line, whatever the bytes; it writes
** each element of the matrix that it announced exactly once, in whole tiles (of a sparse one,
** entries that lie in it); it gives all memory back; and with little memory and small tiles (many
** bands, many passes) it gives the same bits or the same words as with plenty, or says that
** memory_limit is too small.
*/
#ifndef FILEKIT_H
#define FILEKIT_H

#include "../../core/base/convert.h"
#include "../../core/file/file_int.h"
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef gx_code (*filekit_reader)(gx_import *im, gx_err *err);

enum { FILEKIT_ELEMENTS = 1 << 16 }; /* larger matrices are refused by the target */

/* What came out of one import. */
typedef struct filekit_result {
    gx_err err;
    int64_t rows, cols, tile_rows, tile_cols;
    gx_number dtype;
    uint32_t properties;
    char *elements; /* column-major          */
    char *seen;     /* times each was written */
} filekit_result;

static gx_code filekit_begin(void *arg, int64_t rows, int64_t cols, gx_number dtype,
                             gx_dtype stored, bool is_verbatim, uint32_t properties,
                             int64_t *tile_rows, int64_t *tile_cols, gx_err *err)
{
    (void)is_verbatim;
    (void)stored;
    filekit_result *r = arg;
    int64_t elements;
    if (!gx_mul_i64(rows, cols, &elements) || elements > FILEKIT_ELEMENTS) {
        return gx_fail(err, GX_TOOBIG, "%lldx%lld is too much for the test", (long long)rows,
                       (long long)cols);
    }
    r->rows = rows;
    r->cols = cols;
    r->dtype = dtype;
    r->properties = properties;
    *tile_rows = r->tile_rows = r->tile_rows == 0 ? gx_max(1, rows) : r->tile_rows;
    *tile_cols = r->tile_cols = r->tile_cols == 0 ? gx_max(1, cols) : r->tile_cols;
    r->elements = calloc((size_t)elements + 1, gx_number_bytes(dtype));
    r->seen = calloc((size_t)elements + 1, 1);
    return GX_OK;
}

static gx_code filekit_write(void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n,
                             const void *src, int64_t ld, gx_err *err)
{
    filekit_result *r = arg;
    (void)err;
    bool is_inside = i0 >= 0 && j0 >= 0 && m > 0 && n > 0 && i0 + m <= r->rows &&
                     j0 + n <= r->cols && ld >= m;
    bool is_tiled = i0 % r->tile_rows == 0 && j0 % r->tile_cols == 0 &&
                    ((i0 + m) % r->tile_rows == 0 || i0 + m == r->rows) &&
                    ((j0 + n) % r->tile_cols == 0 || j0 + n == r->cols);
    if (!is_inside || !is_tiled) {
        fuzz_fail("a write beside the tiles", r->err.text);
    }
    for (int64_t j = 0; j < n; j++) {
        memcpy(gx_at(r->elements, r->dtype, r->rows, i0, j0 + j), gx_at(src, r->dtype, ld, 0, j),
               (size_t)m * gx_number_bytes(r->dtype));
        for (int64_t i = 0; i < m; i++) {
            r->seen[(j0 + j) * r->rows + i0 + i]++;
        }
    }
    return GX_OK;
}

static gx_code filekit_advance(void *arg, double bytes, double total, gx_err *err)
{
    (void)arg;
    (void)err;
    if (!(bytes >= 0) || !(total >= 0)) {
        fuzz_fail("progress runs backwards", "");
    }
    return GX_OK;
}

/* A sparse matrix: entries given twice are added. */
static gx_code filekit_begin_cells(void *arg, int64_t rows, int64_t cols, gx_dtype dtype,
                                   uint32_t properties, gx_err *err)
{
    filekit_result *r = arg;
    gx_code code = filekit_begin(arg, rows, cols, gx_dtype_number(dtype), dtype, false, properties,
                                 &r->tile_rows, &r->tile_cols, err);
    if (code == GX_OK) {
        memset(r->seen, 1, (size_t)(rows * cols));
    }
    return code;
}

static gx_code filekit_cell(void *arg, int64_t i, int64_t j, gx_scalar value, gx_err *err)
{
    filekit_result *r = arg;
    double sum[2] = {0, 0};
    (void)err;
    if (i < 0 || j < 0 || i >= r->rows || j >= r->cols) {
        fuzz_fail("an entry beside the matrix", r->err.text);
    }
    void *at = gx_at(r->elements, r->dtype, r->rows, i, j);
    gx_convert(r->dtype, at, 1, GX_C128, sum, 1, 1, 1);
    sum[0] += value.re;
    sum[1] += value.im;
    gx_convert(GX_C128, sum, 1, r->dtype, at, 1, 1, 1);
    return GX_OK;
}

static void filekit_import(filekit_reader reader, const uint8_t *data, size_t size,
                           const gx_import_options *options, size_t limit, filekit_result *r)
{
    gx_input in;
    gx_mem *mem;
    if (gx_mem_create(limit, &mem, NULL) != GX_OK) {
        abort();
    }
    gx_input_memory(&in, "file", data, size);
    gx_import im = {.in = &in,
                    .options = *options,
                    .mem = mem,
                    .backend = &gx_backend_cpu,
                    .total = (double)size,
                    .to = {r, filekit_begin, filekit_write, filekit_advance, NULL, NULL}};
    if (reader == gx_import_npz) { // the others are tested as dense ones
        im.to.begin_cells = filekit_begin_cells;
        im.to.cell = filekit_cell;
    }
    gx_code rc = reader(&im, &r->err);
    if (rc != r->err.code || (rc != GX_OK) != (r->err.text[0] != '\0')) {
        fuzz_fail("code and words do not agree", r->err.text);
    }
    if (gx_mem_used(mem) != 0) {
        fuzz_fail("memory is not given back", r->err.text);
    }
    gx_mem_free_all(mem);
    for (int64_t k = 0; rc == GX_OK && k < r->rows * r->cols; k++) {
        if (r->seen[k] != 1) {
            fuzz_fail("an element is not written once", "");
        }
    }
}

/* The import with plenty of memory and with little, compared. */
static void filekit_check(filekit_reader reader, const uint8_t *data, size_t size,
                          const gx_import_options *options)
{
    filekit_result ample = {.rows = 0}, tight = {.tile_rows = 3, .tile_cols = 2};
    filekit_import(reader, data, size, options, (size_t)64 << 20, &ample);
    filekit_import(reader, data, size, options, (size_t)44 << 10, &tight);
    if (tight.err.code != GX_BUDGET) {
        if (ample.err.code != tight.err.code || strcmp(ample.err.text, tight.err.text) != 0) {
            fuzz_fail(ample.err.text, tight.err.text);
        }
        size_t bytes = 0;
        gx_matrix_bytes(ample.rows, ample.cols, ample.dtype, &bytes);
        if (ample.err.code == GX_OK &&
            (ample.rows != tight.rows || ample.cols != tight.cols || ample.dtype != tight.dtype ||
             ample.properties != tight.properties ||
             memcmp(ample.elements, tight.elements, bytes) != 0)) {
            fuzz_fail("other elements with little memory", "");
        }
    }
    free(ample.elements);
    free(ample.seen);
    free(tight.elements);
    free(tight.seen);
}

#endif
