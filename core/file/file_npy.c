/*
** NumPy's .npy files: one array with a header.
**
**   offset  bytes
**        0      6   \x93NUMPY
**        6      2   version: 1.0, 2.0 or 3.0
**        8   2, 4   length of the header text, little-endian (2 bytes in version 1.0, else 4)
**        .      .   {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }, blanks, newline
**        .      .   the elements, nothing behind them
**
** The header is a Python dictionary with exactly these three keys, in any order; version 3.0
** says that it is UTF-8 instead of Latin-1, which matters to structured types only.  Shapes of
** 0, 1 and 2 dimensions become 1 x 1, n x 1 and m x n.  Elements: those of dtype.def, either byte
** order; u8, which is no dtype of gx, becomes f64, beyond 2^53 rounded to the nearest.  bf16 has no
** type there: ml_dtypes writes V2, which is read as bf16 where the caller says so.  i64 go through
** as the f64 of the same bytes.
**
** Import: a line is a row of a C-order file or a column of a Fortran-order one.  A band of whole
** tiles is read at a time, across all lines where the budget holds that, else along them with
** one read a line: each byte of the file is read once.  Elements that need no conversion go from
** the file into the band, or by the kernel that turns rows to columns.  The threads of the team
** read a large file's band together, a piece each at a time; the caller then writes it.  Memory:
** the band and at most 3 MiB of chunks a thread.
**
** Export: fortran_order True, little-endian, version 1.0; one pass over the matrix by columns.
*/
#include "file_int.h"

#include <stdio.h>
#include <string.h>

enum {
    MAGIC_BYTES = 8,     /* magic and version                                            */
    HEADER_MOST = 65536, /* bytes of header text; NumPy itself stops at 10000 by default */
    HEADER_UNIT = 64,    /* what NumPy aligns the elements to                            */
    ITEM_MOST = 16,      /* bytes of the largest element                                 */
    CHUNK_LEAST = 256,   /* elements converted at a time                                 */
    CHUNK_MOST = 65536,
    CHUNK_ROWS = 64 /* rows of a C-order file taken together: cache lines of f64    */
};
static const size_t PIECE_BYTES = (size_t)1 << 20; /* of a band, that a thread reads */
static const size_t BAND_BYTES = (size_t)32 << 20; /* a larger band reads no faster */

typedef gx_npy npy;

// Header ------------------------------------------------------------------------------------------

/* The text of the dictionary while it is read. */
typedef struct header {
    const gx_input *in;
    const char *at, *end;
    bool has_descr, has_order, has_shape;
    gx_err *err;
} header;

static gx_code bad_header(header *h, const char *expected)
{
    char shown[GX_TOKEN_SHOWN];
    return gx_input_fail(h->in, h->err, 0, "header: expected %s, found '%s'", expected,
                         gx_token_show(h->at, h->end - h->at, shown));
}

static void skip_blanks(header *h)
{
    while (h->at < h->end && (*h->at == ' ' || *h->at == '\t' || *h->at == '\n')) {
        h->at++;
    }
}

/* Take the character c, when it is next. */
static bool take(header *h, char c)
{
    skip_blanks(h);
    if (h->at == h->end || *h->at != c) {
        return false;
    }
    h->at++;
    return true;
}

static bool take_word(header *h, const char *word)
{
    skip_blanks(h);
    size_t length = strlen(word);
    if ((size_t)(h->end - h->at) < length || memcmp(h->at, word, length) != 0) {
        return false;
    }
    h->at += length;
    return true;
}

/* A quoted text without escapes: NumPy writes no others for these keys and types. */
static gx_code read_string(header *h, const char **text, int64_t *length)
{
    skip_blanks(h);
    if (h->at == h->end || (*h->at != '\'' && *h->at != '"')) {
        return bad_header(h, "a quoted text");
    }
    const char *quote = memchr(h->at + 1, *h->at, (size_t)(h->end - h->at - 1));
    if (quote == NULL) {
        return bad_header(h, "a quoted text");
    }
    *text = h->at + 1;
    *length = quote - *text;
    h->at = quote + 1;
    return GX_OK;
}

/* f8 and its like: a dtype, or u8, which is f64 without loss up to 2^53. */
static bool is_known(const char *name, size_t length, npy *file)
{
    file->kind = name[0];
    file->is_dtype = gx_dtype_of_npy(name, length, &file->stored);
    if (file->is_dtype) {
        file->item = (int)gx_dtype_bytes(file->stored);
        file->dtype = gx_dtype_number(file->stored);
        return true;
    }
    file->item = 8;
    file->dtype = GX_F64;
    file->stored = GX_DTYPE_F64;
    return length == 2 && memcmp(name, "u8", 2) == 0;
}

/* '<f8' and its like. */
static gx_code read_descr(header *h, npy *file)
{
    skip_blanks(h);
    if (h->at < h->end && *h->at == '[') {
        return gx_input_fail(h->in, h->err, 0, "holds structured elements, not numbers");
    }
    const char *text;
    int64_t length;
    GX_TRY(read_string(h, &text, &length));
    bool has_order = length > 0 && memchr("<>|=", *text, 4) != NULL;
    file->is_swapped = length > 0 && *text == '>';
    const char *name = text + has_order;
    size_t name_length = (size_t)(length - has_order);
    if (name_length > 1 && is_known(name, name_length, file)) {
        return GX_OK;
    }
    char shown[GX_TOKEN_SHOWN];
    gx_token_show(text, length, shown);
    if (name_length > 0 && *name == 'O') {
        return gx_input_fail(h->in, h->err, 0, "holds Python objects, not numbers");
    }
    return gx_input_fail(h->in, h->err, 0,
                         "dtype '%s' is not supported (f2 f4 f8 c8 c16 i1..i8 u1..u8 b1 are)",
                         shown);
}

static gx_code read_order(header *h, npy *file)
{
    if (take_word(h, "True")) {
        file->is_fortran = true;
        return GX_OK;
    }
    return take_word(h, "False") ? GX_OK : bad_header(h, "True or False");
}

/* A size, with the L that Python 2 put behind it. */
static gx_code read_size(header *h, int64_t *size)
{
    skip_blanks(h);
    const char *first = h->at;
    *size = 0;
    for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++) {
        if (__builtin_mul_overflow(*size, 10, size) ||
            __builtin_add_overflow(*size, *h->at - '0', size)) {
            h->at = first;
            return bad_header(h, "a size below 2^63");
        }
    }
    if (h->at == first) {
        return bad_header(h, "a size");
    }
    h->at += h->at < h->end && *h->at == 'L';
    return GX_OK;
}

static gx_code read_shape(header *h, npy *file)
{
    if (!take(h, '(')) {
        return bad_header(h, "a shape such as (3, 4)");
    }
    file->rows = file->cols = 1;
    for (file->dims = 0; !take(h, ')'); file->dims++) {
        int64_t size;
        if (file->dims > 0 && !take(h, ',')) {
            return bad_header(h, "',' or ')'");
        }
        if (file->dims > 0 && take(h, ')')) {
            break;
        }
        GX_TRY(read_size(h, &size));
        file->rows = file->dims == 0 ? size : file->rows;
        file->cols = file->dims == 1 ? size : file->cols;
    }
    if (file->dims > 2) {
        return gx_input_fail(h->in, h->err, 0, "has %d dimensions: a matrix has 2", file->dims);
    }
    return GX_OK;
}

static gx_code read_entry(header *h, npy *file)
{
    const char *key;
    int64_t length;
    GX_TRY(read_string(h, &key, &length));
    if (!take(h, ':')) {
        return bad_header(h, "':'");
    }
    bool *seen = NULL;
    gx_code (*read)(header *, npy *) = NULL;
    if (length == 5 && memcmp(key, "descr", 5) == 0) {
        seen = &h->has_descr;
        read = read_descr;
    } else if (length == 13 && memcmp(key, "fortran_order", 13) == 0) {
        seen = &h->has_order;
        read = read_order;
    } else if (length == 5 && memcmp(key, "shape", 5) == 0) {
        seen = &h->has_shape;
        read = read_shape;
    }
    if (seen == NULL || *seen) {
        char shown[GX_TOKEN_SHOWN];
        return gx_input_fail(h->in, h->err, 0, "header: key '%s' is %s",
                             gx_token_show(key, length, shown),
                             seen == NULL ? "none of descr, fortran_order, shape" : "there twice");
    }
    *seen = true;
    return read(h, file);
}

static gx_code parse_header(header *h, npy *file)
{
    if (!take(h, '{')) {
        return bad_header(h, "'{'");
    }
    while (!take(h, '}')) {
        GX_TRY(read_entry(h, file));
        if (!take(h, ',')) {
            if (!take(h, '}')) {
                return bad_header(h, "',' or '}'");
            }
            break;
        }
    }
    skip_blanks(h);
    if (h->at < h->end) {
        return bad_header(h, "the end");
    }
    if (!h->has_descr || !h->has_order || !h->has_shape) {
        return gx_input_fail(h->in, h->err, 0, "header: key '%s' is missing",
                             !h->has_descr   ? "descr"
                             : !h->has_order ? "fortran_order"
                                             : "shape");
    }
    return GX_OK;
}

/* Do the elements that the shape announces follow, and nothing else? */
static gx_code check_length(const npy *file, gx_err *err)
{
    size_t bytes;
    static const char *const order[] = {"<", ">"};
    if (!gx_matrix_bytes(file->rows, file->cols, GX_C128, &bytes)) { // no item is longer
        return gx_input_fail(file->in, err, 0, "a shape of %lldx%lld: " GX_SIZES_TEXT,
                             (long long)file->rows, (long long)file->cols);
    }
    bytes = bytes / gx_number_bytes(GX_C128) * (size_t)file->item;
    if ((int64_t)bytes != file->in->size - file->start) {
        return gx_input_fail(
            file->in, err, 0, "%lldx%lld elements of %s%c%d are %lld bytes, but the file has %lld",
            (long long)file->rows, (long long)file->cols,
            file->item == 1 ? "|" : order[file->is_swapped], file->kind, file->item,
            (long long)bytes, (long long)(file->in->size - file->start));
    }
    return GX_OK;
}

gx_code gx_npy_open(const gx_input *in, gx_npy *file, gx_err *err)
{
    unsigned char lead[MAGIC_BYTES + 4];
    if (in->size < MAGIC_BYTES + 2) {
        return gx_input_fail(in, err, 0, "is no .npy file: it has %lld bytes", (long long)in->size);
    }
    GX_TRY(in->read(in, 0, MAGIC_BYTES + 2, lead, err));
    if (memcmp(lead, "\x93NUMPY", 6) != 0) {
        return gx_input_fail(in, err, 0, "is no .npy file: it does not start with \\x93NUMPY");
    }
    if (lead[6] < 1 || lead[6] > 3 || lead[7] != 0) {
        return gx_input_fail(in, err, 0, "is of .npy version %d.%d: 1.0, 2.0 and 3.0 are known",
                             lead[6], lead[7]);
    }
    int64_t text = MAGIC_BYTES + (lead[6] == 1 ? 2 : 4), length = lead[8] | lead[9] << 8;
    if (lead[6] > 1) {
        if (in->size < text) {
            return gx_input_fail(in, err, 0, "ends inside its header");
        }
        GX_TRY(in->read(in, MAGIC_BYTES + 2, 2, lead + MAGIC_BYTES + 2, err));
        length |= (int64_t)lead[10] << 16 | (int64_t)lead[11] << 24;
    }
    if (length > in->size - text) {
        return gx_input_fail(in, err, 0, "ends inside its header: %lld bytes announced, %lld there",
                             (long long)length, (long long)(in->size - text));
    }
    if (length > HEADER_MOST) {
        return gx_input_fail(in, err, 0, "has a header of %lld bytes (limit %d)", (long long)length,
                             HEADER_MOST);
    }
    void *buffer;
    GX_TRY(gx_mem_alloc(NULL, (size_t)length, "a .npy header", &buffer, err));
    gx_code rc = in->read(in, text, (size_t)length, buffer, err);
    header h = {.in = in, .at = buffer, .end = (char *)buffer + length, .err = err};
    *file = (npy){.in = in, .start = text + length};
    rc = rc == GX_OK ? parse_header(&h, file) : rc;
    gx_mem_free(NULL, buffer);
    return rc == GX_OK ? check_length(file, err) : rc;
}

// Elements ----------------------------------------------------------------------------------------

/* Reverse the bytes of count numbers of the given size. */
static void swap_bytes(unsigned char *bytes, int64_t count, int size)
{
    for (int64_t k = 0; k < count; k++, bytes += size) {
        for (int b = 0; b < size / 2; b++) {
            unsigned char low = bytes[b];
            bytes[b] = bytes[size - 1 - b];
            bytes[size - 1 - b] = low;
        }
    }
}

static double integer_of(const void *from, char kind, int item)
{
    uint64_t bits = 0;
    memcpy(&bits, from, (size_t)item); // little-endian
    if (kind == 'b') {
        return bits != 0;
    }
    if (kind == 'u') {
        return (double)bits;
    }
    int unused = 64 - 8 * item;
    return (double)((int64_t)(bits << unused) >> unused);
}

gx_code gx_npy_decode(const npy *file, unsigned char *from, int64_t count, void *to, gx_err *err)
{
    if (file->is_swapped) {
        int numbers = file->kind == 'c' ? 2 : 1;
        swap_bytes(from, count * numbers, file->item / numbers);
    }
    if (file->is_dtype) {
        return gx_widen(file->stored, from, count, file->dtype, to, count, count, 1, err);
    }
    for (int64_t k = 0; k < count; k++) {
        ((double *)to)[k] = integer_of(from + k * file->item, file->kind, file->item);
    }
    return GX_OK;
}

/* Elements that are in the file as they will be in the matrix. */
static bool is_plain(const npy *file, const gx_import *im)
{
    return !file->is_swapped && file->is_dtype && gx_dtype_is(file->stored, im->dtype);
}

/* Buffers for a chunk of elements on its way from the file's form to the result's. */
typedef struct chunk {
    gx_import *im;
    const npy *file;
    int64_t elements;   /* that fit                        */
    unsigned char *raw; /* as in the file                  */
    void *decoded;      /* in file->dtype                  */
    void *final;        /* in im->dtype; may be either     */
} chunk;

/* As many of them, or fewer, as there are members in the team: one in any case. */
static gx_code open_chunks(gx_import *im, const npy *file, chunk **chunks, int *count, gx_err *err)
{
    size_t share = im->mem != NULL ? gx_mem_available(im->mem) / 8 : SIZE_MAX;
    int64_t elements = (int64_t)gx_min(share / (3 * (size_t)ITEM_MOST), CHUNK_MOST);
    elements = gx_max(CHUNK_LEAST, elements);
    size_t part = (size_t)elements * ITEM_MOST, each = sizeof(chunk) + 3 * part;
    *count = (int)gx_max(1, gx_min(gx_team_threads(im->team), (int64_t)(share / each)));
    void *block;
    GX_TRY(gx_mem_alloc(im->mem, (size_t)*count * each, "a read buffer", &block, err));
    *chunks = block;
    unsigned char *buffer = (unsigned char *)(*chunks + *count);
    for (int k = 0; k < *count; k++, buffer += 3 * part) {
        chunk *c = &(*chunks)[k];
        *c = (chunk){.im = im, .file = file, .elements = elements, .raw = buffer};
        c->decoded = buffer + part;
        c->final = is_plain(file, im)         ? buffer
                   : file->dtype == im->dtype ? c->decoded
                                              : buffer + 2 * part;
    }
    return GX_OK;
}

/* Read count elements from an element index on, into raw + at (elements). */
static gx_code read_raw(chunk *c, int64_t index, int64_t at, int64_t count, gx_err *err)
{
    const npy *file = c->file;
    return file->in->read(file->in, file->start + index * file->item, (size_t)(count * file->item),
                          c->raw + at * file->item, err);
}

/* What is in raw to final. */
static gx_code convert(chunk *c, int64_t count, gx_err *err)
{
    const npy *file = c->file;
    gx_import *im = c->im;
    if (c->final == c->raw) {
        return GX_OK;
    }
    GX_TRY(gx_npy_decode(file, c->raw, count, c->decoded, err));
    if (c->final != c->decoded) {
        gx_convert(file->dtype, c->decoded, count, im->dtype, c->final, count, count, 1);
    }
    return GX_OK;
}

/* A rectangle of the matrix, and where it is in the band: column-major. */
typedef struct rectangle {
    int64_t i0, j0, m, n;
    void *band;
    int64_t ld;
} rectangle;

/* Fortran order: columns, straight into the band where nothing is to be converted. */
static gx_code read_by_columns(chunk *c, const rectangle *r, gx_err *err)
{
    const npy *file = c->file;
    gx_import *im = c->im;
    bool is_direct = is_plain(file, im);
    // Whole columns lie behind each other: one run.
    bool is_whole = r->m == file->rows;
    int64_t runs = is_whole ? 1 : r->n, length = is_whole ? r->m * r->n : r->m;
    int64_t most = is_direct ? (int64_t)(BAND_BYTES / 8) / file->item : c->elements;
    for (int64_t run = 0; run < runs; run++) {
        int64_t index = (r->j0 + run) * file->rows + r->i0;
        char *to = gx_at(r->band, im->dtype, r->ld, 0, run);
        for (int64_t k = 0; k < length; k += most) {
            int64_t count = gx_min(most, length - k);
            void *dst = to + (size_t)k * gx_number_bytes(im->dtype);
            if (is_direct) {
                GX_TRY(file->in->read(file->in, file->start + (index + k) * file->item,
                                      (size_t)(count * file->item), dst, err));
                continue;
            }
            GX_TRY(read_raw(c, index + k, 0, count, err));
            GX_TRY(convert(c, count, err));
            memcpy(dst, c->final, (size_t)count * gx_number_bytes(im->dtype));
        }
    }
    return GX_OK;
}

/* Columns, and rows, that a chunk holds of a rectangle of a C-order file. */
static int64_t chunk_width(const chunk *c, int64_t n)
{
    return gx_min(n, c->elements / CHUNK_ROWS);
}

static int64_t chunk_height(const chunk *c, int64_t m, int64_t n)
{
    return gx_min(m, c->elements / chunk_width(c, n));
}

/* C order: groups of rows, turned into the band. */
static gx_code read_by_rows(chunk *c, const rectangle *r, gx_err *err)
{
    const npy *file = c->file;
    gx_import *im = c->im;
    bool is_whole = r->n == file->cols;
    int64_t width = chunk_width(c, r->n), height = chunk_height(c, r->m, r->n);
    for (int64_t i = 0; i < r->m; i += height) {
        int64_t rows = gx_min(height, r->m - i);
        for (int64_t j = 0; j < r->n; j += width) {
            int64_t cols = gx_min(width, r->n - j);
            int64_t index = (r->i0 + i) * file->cols + r->j0 + j;
            bool is_run = is_whole && cols == r->n;
            for (int64_t k = 0; k < (is_run ? 1 : rows); k++) {
                GX_TRY(read_raw(c, index + k * file->cols, k * cols, is_run ? rows * cols : cols,
                                err));
            }
            GX_TRY(convert(c, rows * cols, err));
            gx_args args = {.transa = GX_TRANS, .m = rows, .n = cols, .a = c->final, .lda = cols};
            args.c = gx_at(r->band, im->dtype, r->ld, i, j);
            args.ldc = r->ld;
            GX_TRY(im->backend->kernel[GX_TRANSPOSE][im->dtype](im->dev, NULL, &args, err));
        }
    }
    return GX_OK;
}

/* A band on its way: pieces of it, any of which any thread reads. */
typedef struct reading {
    chunk *chunks;
    rectangle r;
    int64_t lines; /* of a piece: the band's rows, or its columns */
} reading;

static gx_code read_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const reading *x = arg;
    chunk *c = &x->chunks[member];
    bool by_columns = c->file->is_fortran;
    int64_t first = piece * x->lines;
    rectangle r = x->r;
    if (by_columns) {
        r.j0 += first;
        r.n = gx_min(x->lines, r.n - first);
    } else {
        r.i0 += first;
        r.m = gx_min(x->lines, r.m - first);
    }
    r.band = gx_at(r.band, c->im->dtype, r.ld, by_columns ? 0 : first, by_columns ? first : 0);
    return by_columns ? read_by_columns(c, &r, err) : read_by_rows(c, &r, err);
}

/* All of a band, by the team where it has a chunk for every member; counts as progress. */
static gx_code read_band(reading *x, int count, gx_err *err)
{
    const npy *file = x->chunks->file;
    gx_import *im = x->chunks->im;
    const rectangle *r = &x->r;
    int64_t lines = file->is_fortran ? r->n : r->m, length = file->is_fortran ? r->m : r->n;
    int64_t least = file->is_fortran ? 1 : chunk_height(x->chunks, r->m, r->n);
    double bytes = (double)length * file->item;
    x->lines = gx_max(least, (int64_t)((double)PIECE_BYTES / bytes));
    int64_t pieces = gx_ceil_div(lines, x->lines);
    if (count > 1 && pieces > 1 && count == gx_team_threads(im->team)) {
        GX_TRY(gx_team_run(im->team, pieces, read_piece, x, err));
        return im->to.advance(im->to.arg, bytes * (double)lines, im->total, err);
    }
    for (int64_t k = 0; k < pieces; k++) {
        GX_TRY(read_piece(x, k, 0, err));
        GX_TRY(im->to.advance(im->to.arg, bytes * (double)gx_min(x->lines, lines - k * x->lines),
                              im->total, err));
    }
    return GX_OK;
}

static gx_code import_bands(gx_import *im, const npy *file, gx_err *err)
{
    reading x = {.chunks = NULL};
    int count;
    int64_t m, n;
    GX_TRY(open_chunks(im, file, &x.chunks, &count, err));
    gx_order order = file->is_fortran ? GX_ORDER_COLUMNS : GX_ORDER_ROWS;
    gx_import_band(im, order, BAND_BYTES, &m, &n);
    size_t bytes = 0;
    void *band = NULL;
    gx_code rc = gx_matrix_bytes(m, n, im->dtype, &bytes)
                     ? gx_mem_alloc(im->mem, bytes, "a band of the matrix", &band, err)
                     : gx_fail_nomem(err, bytes, "a band of the matrix");

    // Bands in the file's order.
    int64_t down = gx_ceil_div(im->rows, m), across = gx_ceil_div(im->cols, n);
    for (int64_t b = 0; b < down * across && rc == GX_OK; b++) {
        int64_t bi = file->is_fortran ? b % down : b / across;
        int64_t bj = file->is_fortran ? b / down : b % across;
        x.r = (rectangle){.i0 = bi * m, .j0 = bj * n, .band = band};
        x.r.m = x.r.ld = gx_min(m, im->rows - x.r.i0);
        x.r.n = gx_min(n, im->cols - x.r.j0);
        rc = read_band(&x, count, err);
        if (rc == GX_OK) {
            rc = gx_import_write(im, x.r.i0, x.r.j0, x.r.m, x.r.n, band, err);
        }
    }
    gx_mem_free(im->mem, band);
    gx_mem_free(im->mem, x.chunks);
    return rc;
}

gx_code gx_import_npy(gx_import *im, gx_err *err)
{
    npy file;
    GX_TRY(gx_npy_open(im->in, &file, err));
    bool is_said = im->options.has_dtype && im->options.dtype == GX_DTYPE_BF16;
    if (file.stored == GX_DTYPE_BF16 && !is_said) {
        return gx_input_fail(
            im->in, err, 0,
            "holds elements of two bytes that the file has no type for ('V2'); "
            "ml_dtypes writes bfloat16 so: the option \"dtype\":\"bf16\" reads them");
    }
    GX_TRY(gx_import_begin(im, file.rows, file.cols, file.stored, 0, err));
    if (im->is_verbatim) {
        file.stored = GX_DTYPE_F64; // the bytes of each element
    }
    if (file.rows == 0 || file.cols == 0) {
        return GX_OK;
    }
    return import_bands(im, &file, err);
}

// Export ------------------------------------------------------------------------------------------

/* The header, padded so that the elements start at a multiple of 64 bytes.  Returns its length. */
static int64_t make_header(const gx_export *ex, char text[4 * HEADER_UNIT])
{
    const int lead = MAGIC_BYTES + 2;
    memcpy(text, "\x93NUMPY\x01\x00", MAGIC_BYTES);
    int length = snprintf(text + lead, (size_t)(4 * HEADER_UNIT - lead),
                          "{'descr': '%s%s', 'fortran_order': True, 'shape': (%lld, %lld), }",
                          gx_dtype_bytes(ex->stored) == 1 ? "|" : "<", gx_dtype_npy(ex->stored),
                          (long long)ex->mat->rows, (long long)ex->mat->cols);
    int total = (lead + length + 1 + HEADER_UNIT - 1) / HEADER_UNIT * HEADER_UNIT;
    memset(text + lead + length, ' ', (size_t)(total - lead - length));
    text[total - 1] = '\n';
    text[MAGIC_BYTES] = (char)((total - lead) & 255);
    text[MAGIC_BYTES + 1] = (char)((total - lead) >> 8);
    return total;
}

int64_t gx_export_npy_bytes(const gx_export *ex)
{
    char text[4 * HEADER_UNIT];
    size_t bytes = 0;
    gx_dtype_matrix_bytes(ex->mat->rows, ex->mat->cols, ex->stored, &bytes);
    return make_header(ex, text) + (int64_t)bytes;
}

static gx_code put_band(void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n, const void *src)
{
    gx_export *ex = arg;
    _Alignas(16) char strip[CHUNK_LEAST * ITEM_MOST];
    if (ex->is_verbatim || gx_dtype_is(ex->stored, ex->dtype)) {
        gx_output_put(&ex->out, src, (size_t)(m * n) * gx_number_bytes(ex->dtype));
        return ex->out.err.code;
    }
    for (int64_t k = 0; k < m * n; k += CHUNK_LEAST) {
        const gx_narrowing to = {.dtype = ex->stored, .i0 = i0 + k % m, .j0 = j0 + k / m};
        int64_t count = gx_min(CHUNK_LEAST, m * n - k);
        GX_TRY(gx_narrow_to(ex->dtype, gx_at(src, ex->dtype, 0, k, 0), count, &to, strip, count,
                            count, 1, &ex->out.err));
        gx_output_put(&ex->out, strip, (size_t)count * gx_dtype_bytes(ex->stored));
    }
    return ex->out.err.code;
}

gx_code gx_export_npy(gx_export *ex)
{
    char text[4 * HEADER_UNIT];
    gx_output_put(&ex->out, text, (size_t)make_header(ex, text));
    return gx_export_walk(ex, GX_ORDER_COLUMNS, false, put_band, ex);
}
