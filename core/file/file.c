/*
** Imports and exports as a whole: which format, how large a band, and the join to sources and
** sinks.
**
**   import   open -> reader (file_npy.c, file_mtx.c, file_csv.c) -> gx_sink
**   export   gx_mat_read -> walk by bands -> writer (the same files) -> temporary file -> rename
**
** Memory: one band, one tile for the sink to pack, one buffer of text.  The band is a whole
** number of tiles, so that each tile of the database is written once, and at the least one tile.
**
** I/O: an export reads each element once.  How often an import passes over its file is said in
** the essays of the readers.
*/
#include "file.h"
#include "../base/decimal.h"

#include <string.h>

/* Bands beyond this size save nothing more when the file is read in order. */
static const size_t STREAM_BYTES = (size_t)32 << 20;

/* ---- formats --------------------------------------------------------------------------------- */

static bool equals_word(const char *text, const char *word)
{
    for (; *text != '\0' && (*text | 0x20) == *word; text++, word++) {
    }
    return *text == *word;
}

gx_code gx_file_format_of(const char *path, const char *option, gx_file_format *format,
                          char *delimiter, gx_err *err)
{
    static const struct {
        const char *word;
        gx_file_format format;
        char delimiter; /* 0: to be found out */
    } known[] = {{"npy", GX_FILE_NPY, 0},
                 {"mtx", GX_FILE_MTX, 0},
                 {"csv", GX_FILE_CSV, 0},
                 {"tsv", GX_FILE_CSV, '\t'},
                 {"txt", GX_FILE_CSV, 0}};
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    const char *ending = dot != NULL && (slash == NULL || dot > slash) ? dot + 1 : "";
    const char *word = option[0] != '\0' ? option : ending;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (equals_word(word, known[i].word)) {
            *format = known[i].format;
            *delimiter = known[i].delimiter;
            return GX_OK;
        }
    }
    if (option[0] != '\0') {
        return gx_fail(err, GX_ARG, "unknown format '%s' (npy, mtx, csv, tsv, txt)", option);
    }
    return gx_fail(err, GX_ARG,
                   "the ending of '%.300s' is none of npy, mtx, csv, tsv, txt: say which it is "
                   "with '{\"format\":...}'",
                   path);
}

/* ---- bands ----------------------------------------------------------------------------------- */

gx_code gx_import_begin(gx_import *im, int64_t rows, int64_t cols, gx_dtype dtype,
                        uint32_t properties, gx_err *err)
{
    im->rows = rows;
    im->cols = cols;
    im->dtype = im->options.has_dtype ? im->options.dtype : dtype;
    if (gx_dtype_is_complex(dtype) && !gx_dtype_is_complex(im->dtype)) {
        return gx_input_fail(im->in, err, 0, "holds complex numbers, but dtype %s is real",
                             gx_dtype_name(im->dtype));
    }
    size_t bytes;
    if (!gx_matrix_bytes(rows, cols, im->dtype, &bytes) || bytes > INT64_MAX) {
        return gx_input_fail(im->in, err, 0, "a matrix of %lldx%lld %s elements is too large",
                             (long long)rows, (long long)cols, gx_dtype_name(im->dtype));
    }
    im->tile_rows = im->tile_cols = 0;
    GX_TRY(im->to.begin(im->to.arg, rows, cols, im->dtype, properties, &im->tile_rows,
                        &im->tile_cols, err));
    im->tile_rows = gx_max(1, im->tile_rows);
    im->tile_cols = gx_max(1, im->tile_cols);
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
    size_t element = gx_dtype_bytes(im->dtype);
    size_t tile = (size_t)im->tile_rows * (size_t)im->tile_cols * element;
    size_t bytes = im->mem != NULL ? gx_mem_available(im->mem) : SIZE_MAX;
    const size_t headers = 4096; // the allocations' own
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

/* ---- import ---------------------------------------------------------------------------------- */

/* What a gx_import_target's arg is here. */
typedef struct sink_target {
    gx_run *run;
    const gx_dest *dest;
    gx_sink *sink;
} sink_target;

/* A failure that a run has recorded, into err. */
static gx_code run_failure(gx_run *run, gx_err *err)
{
    return gx_ok(run) ? GX_OK : gx_fail(err, run->err.code, "%s", run->err.text);
}

static gx_code begin_sink(void *arg, int64_t rows, int64_t cols, gx_dtype dtype,
                          uint32_t properties, int64_t *tile_rows, int64_t *tile_cols, gx_err *err)
{
    sink_target *target = arg;
    gx_sink_begin(target->run, target->dest, rows, cols, dtype, properties, *tile_rows, *tile_cols,
                  target->sink);
    *tile_rows = target->sink->tile_rows;
    *tile_cols = target->sink->tile_cols;
    return run_failure(target->run, err);
}

static gx_code write_sink(void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n, const void *src,
                          int64_t ld, gx_err *err)
{
    sink_target *target = arg;
    return gx_sink_write(target->sink, i0, j0, m, n, src, ld, err);
}

static gx_code advance_run(void *arg, double bytes, double total, gx_err *err)
{
    gx_run *run = ((sink_target *)arg)->run;
    if (run->total != total) { // a reader has found out how often it will pass over the file
        double done = run->done;
        gx_run_progress(run, total);
        gx_run_advance(run, done);
    }
    gx_run_advance(run, bytes);
    gx_run_poll(run);
    return run_failure(run, err);
}

gx_code gx_file_import(gx_run *run, const char *path, gx_file_format format,
                       const gx_import_options *options, const gx_dest *dest, gx_sink *sink)
{
    *sink = (gx_sink){.run = run};
    gx_err err = {0};
    gx_input in;
    sink_target target = {.run = run, .dest = dest, .sink = sink};
    gx_import im = {.in = &in,
                    .options = *options,
                    .mem = run->ctx->mem,
                    .to = {&target, begin_sink, write_sink, advance_run}};
    if (!gx_ok(run)) {
        return run->err.code;
    }
    gx_code rc = gx_input_open(path, &in, &err);
    if (rc == GX_OK) {
        im.total = (double)in.size;
        switch (format) {
        case GX_FILE_NPY:
            rc = gx_import_npy(&im, &err);
            break;
        case GX_FILE_MTX:
            rc = gx_import_mtx(&im, &err);
            break;
        default:
            rc = gx_import_csv(&im, &err);
            break;
        }
    }
    gx_input_close(&in);
    return rc == GX_OK ? GX_OK : gx_run_fail(run, &err);
}

/* ---- export ---------------------------------------------------------------------------------- */

/* The rectangle that a walk reads at once, for a matrix seen along its lines. */
static void walk_band(const gx_export *ex, int64_t lines, int64_t length, int64_t unit,
                      int64_t *band, int64_t *piece)
{
    size_t element = gx_dtype_bytes(ex->dtype);
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
    size_t element = gx_dtype_bytes(ex->dtype);
    void *buffer;
    gx_err err = {0};
    if (gx_mem_alloc(run->ctx->mem, (size_t)(band * piece) * element, "a band of the matrix",
                     &buffer, &err) != GX_OK) {
        return gx_run_fail(run, &err);
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
    bool is_double = gx_dtype_is_double(ex->dtype);
    double value = is_double ? *(const double *)element : (double)*(const float *)element;
    if (ex->options.precision > 0) {
        length = gx_decimal_format_places(value, (int)ex->options.precision, to);
    } else {
        length = is_double ? gx_decimal_format(value, to)
                           : gx_decimal_format_f32((float)value, to);
    }
    bool is_integer = length > 2 && to[length - 1] == '0' && to[length - 2] == '.';
    return to + length - (is_integer ? 2 : 0);
}

static gx_code write_format(gx_export *ex, gx_file_format format)
{
    switch (format) {
    case GX_FILE_NPY:
        return gx_export_npy(ex);
    case GX_FILE_MTX:
        return gx_export_mtx(ex);
    default:
        return gx_export_csv(ex);
    }
}

gx_code gx_file_export(gx_run *run, const gx_mat *mat, const char *path, gx_file_format format,
                       const gx_export_options *options)
{
    gx_export ex = {.run = run, .mat = mat, .options = *options};
    gx_err err = {0};
    size_t bytes = 0;
    if (!gx_ok(run)) {
        return run->err.code;
    }
    ex.dtype = options->has_dtype ? options->dtype : mat->dtype;
    if (gx_dtype_is_complex(mat->dtype) && !gx_dtype_is_complex(ex.dtype)) {
        return gx_run_failf(run, GX_ARG, "%s is complex (%s), but dtype %s is real", mat->label,
                            gx_dtype_name(mat->dtype), gx_dtype_name(ex.dtype));
    }
    gx_matrix_bytes(mat->rows, mat->cols, ex.dtype, &bytes);
    bool is_twice = format == GX_FILE_MTX && options->is_coordinate;
    gx_run_progress(run, (double)bytes * (is_twice ? 2 : 1));

    // The file is begun before anything is read: what stands in its way is known at once.
    int64_t expected = format == GX_FILE_NPY ? gx_export_npy_bytes(&ex) : 0;
    if (gx_output_begin(&ex.out, path, options->overwrite, expected, run->ctx->mem, &err) !=
        GX_OK) {
        return gx_run_fail(run, &err);
    }
    gx_code rc = GX_OK;
    if (gx_mat_base_stored(mat) != NULL) {
        rc = gx_reader_own(run->ctx->store, &ex.reader, &err);
    }
    if (rc == GX_OK) {
        rc = write_format(&ex, format);
    }
    gx_output_end(&ex.out, rc == GX_OK && gx_ok(run), &err);
    gx_reader_close(ex.reader);
    return gx_run_fail(run, &err);
}
