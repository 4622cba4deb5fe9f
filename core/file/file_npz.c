/*
** NumPy's archives (.npz): a zip of arrays.  Of numpy.savez, one of them is read; what
** scipy.sparse.save_npz makes of a sparse matrix is read as that, and written:
**
**   format.npy   'csr', 'csc' or 'coo'
**   shape.npy    rows, columns
**   data.npy     the values of the entries
**   indices.npy, indptr.npy   csr: columns, and where each row begins among them; csc the same
**                             turned
**   row.npy, col.npy          coo
**
** Import: members are unpacked into memory, one beside the other.  An array is then read as a file
** of its own (file_npy.c).  The entries of a sparse matrix go to the sorter of cells in any order;
** entries given twice are added, as SciPy does.
**
** Export: csr, stored, which any version of SciPy reads: the matrix is read three times, once a
** member.  Indexes have 32 bits where entries and columns allow it.  Lengths and checksums follow
** each member and stand in the directory at the end, which is what Python reads.
*/
#include "../base/convert.h"
#include "../mat/sparse.h"
#include "file_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// Import ------------------------------------------------------------------------------------------

/* A member of one dimension in memory. */
typedef struct array {
    const char *name;
    void *memory;
    gx_input in; /* the member as a file of its own */
    gx_npy npy;
    const char *data;
    int64_t count;
} array;

typedef struct archive {
    gx_import *im;
    array data, first, second; /* values; indices or row; indptr or col */
    char format[4];
    int64_t rows, cols;
} archive;

static gx_code open_array(gx_import *im, const char *name, array *a, gx_err *err)
{
    gx_zip_member member;
    bool found;
    a->name = name;
    GX_TRY(gx_zip_find(im, name, &member, &found, err));
    if (!found) {
        return gx_input_fail(im->in, err, 0,
                             "has no %s: an archive of scipy.sparse.save_npz() in csr, csc or coo "
                             "is expected (others by .tocsr())",
                             name);
    }
    GX_TRY(gx_zip_read(im, name, &member, &a->memory, err));
    gx_input_memory(&a->in, name, a->memory, (size_t)member.bytes);
    GX_TRY(gx_npy_open(&a->in, &a->npy, err));
    a->data = (const char *)a->memory + a->npy.start;
    a->count = a->npy.rows;
    return a->npy.dims <= 1 ? GX_OK
                            : gx_input_fail(im->in, err, 0, "%s is no list of numbers", name);
}

/* Element k of a list of whole numbers; what does not fit is -1, which nothing takes. */
static int64_t whole_at(const array *a, int64_t k)
{
    const unsigned char *at = (const unsigned char *)a->data + k * a->npy.item;
    uint64_t value = 0;
    for (int b = 0; b < a->npy.item; b++) {
        int place = a->npy.is_swapped ? a->npy.item - 1 - b : b;
        value |= (uint64_t)at[place] << 8 * b;
    }
    bool is_negative = (value >> (8 * a->npy.item - 1) & 1) != 0;
    if (a->npy.item < 8) {
        return is_negative && a->npy.kind == 'i' ? -1 : (int64_t)value;
    }
    return is_negative ? -1 : (int64_t)value;
}

static gx_code open_indexes(const archive *x, const char *name, array *a, gx_err *err)
{
    GX_TRY(open_array(x->im, name, a, err));
    return a->npy.kind == 'i' || a->npy.kind == 'u'
               ? GX_OK
               : gx_input_fail(x->im->in, err, 0, "%s are no whole numbers", name);
}

/* The word is the end of the array, whatever its type. */
static gx_code read_format(archive *x, const gx_zip_member *format, gx_err *err)
{
    void *memory;
    const gx_input *in = x->im->in;
    if (format->bytes < 16 || format->bytes > 4096) {
        return gx_input_fail(in, err, 0,
                             "is no archive of scipy.sparse.save_npz(): format.npy is no word");
    }
    GX_TRY(gx_zip_read(x->im, "format.npy", format, &memory, err));
    const char *end = (const char *)memory + format->bytes;
    bool is_wide = end[-1] == '\0'; // 32 bits a letter
    for (int k = 0; k < 3; k++) {
        x->format[k] = is_wide ? end[4 * k - 12] : end[k - 3];
    }
    gx_mem_free(x->im->mem, memory);
    if (strcmp(x->format, "csr") != 0 && strcmp(x->format, "csc") != 0 &&
        strcmp(x->format, "coo") != 0) {
        char shown[GX_TOKEN_SHOWN];
        return gx_input_fail(in, err, 0, "is in format '%s': csr, csc and coo are read (.tocsr())",
                             gx_token_show(x->format, 3, shown));
    }
    return GX_OK;
}

static gx_code read_shape(archive *x, gx_err *err)
{
    array shape = {.name = NULL};
    gx_code code = open_indexes(x, "shape.npy", &shape, err);
    if (code == GX_OK && shape.count == 2) {
        x->rows = whole_at(&shape, 0);
        x->cols = whole_at(&shape, 1);
    }
    if (code == GX_OK && (shape.count != 2 || x->rows < 0 || x->cols < 0)) {
        code = gx_input_fail(x->im->in, err, 0, "shape.npy is no shape of a matrix");
    }
    gx_mem_free(x->im->mem, shape.memory);
    return code;
}

/* Element k of the values. */
static gx_scalar value_at(const archive *x, int64_t k)
{
    const gx_npy *npy = &x->data.npy;
    unsigned char raw[2 * sizeof(double)];
    double value[2], pair[2];
    memcpy(raw, x->data.data + k * npy->item, (size_t)npy->item);
    (void)gx_npy_decode(npy, raw, 1, value, NULL);
    gx_convert(npy->dtype, value, 1, GX_C128, pair, 1, 1, 1);
    return (gx_scalar){pair[0], pair[1]};
}

static gx_code damaged(const archive *x, const char *what, gx_err *err)
{
    return gx_input_fail(x->im->in, err, 0, "%s does not go with the other members", what);
}

static const int64_t STEP = 1 << 16; /* entries, or rows, between two polls */

static gx_code put(const archive *x, int64_t i, int64_t j, int64_t k, gx_err *err)
{
    const gx_import_target *to = &x->im->to;
    if (i < 0 || i >= x->rows || j < 0 || j >= x->cols) {
        return gx_input_fail(x->im->in, err, 0,
                             "entry %" PRId64 " is at (%" PRId64 ", %" PRId64 ") of %" PRId64
                             "x%" PRId64,
                             k, i, j, x->rows, x->cols);
    }
    GX_TRY(to->cell(to->arg, i, j, value_at(x, k), err));
    if (k % STEP != STEP - 1) {
        return GX_OK;
    }
    double bytes = x->im->total * (double)STEP / (double)x->data.count;
    return to->advance(to->arg, bytes, x->im->total, err);
}

/* csr, and csc with sides exchanged. */
static gx_code read_compressed(const archive *x, gx_err *err)
{
    bool is_turned = x->format[2] == 'c';
    int64_t lines = is_turned ? x->cols : x->rows, begin = 0;
    if (lines >= INT64_MAX - 1 || x->second.count != lines + 1 || whole_at(&x->second, 0) != 0) {
        return damaged(x, "indptr.npy", err);
    }
    for (int64_t line = 0; line < lines; line++) {
        int64_t end = whole_at(&x->second, line + 1);
        if (line % STEP == STEP - 1) { // of rows without entries there may be many
            GX_TRY(gx_import_poll(x->im, err));
        }
        if (end < begin || end > x->data.count || end > x->first.count) {
            return damaged(x, "indptr.npy", err);
        }
        for (; begin < end; begin++) {
            int64_t index = whole_at(&x->first, begin);
            GX_TRY(put(x, is_turned ? index : line, is_turned ? line : index, begin, err));
        }
    }
    return GX_OK;
}

static gx_code read_coordinates(const archive *x, gx_err *err)
{
    if (x->first.count != x->data.count || x->second.count != x->data.count) {
        return damaged(x, "row.npy or col.npy", err);
    }
    for (int64_t k = 0; k < x->data.count; k++) {
        GX_TRY(put(x, whole_at(&x->first, k), whole_at(&x->second, k), k, err));
    }
    return GX_OK;
}

/* Whole numbers that would be rounded are refused before anything is written. */
static gx_code check_values(const archive *x, gx_err *err)
{
    const gx_npy *npy = &x->data.npy;
    for (int64_t k = 0; k < x->data.count && npy->stored == GX_DTYPE_I64; k++) {
        unsigned char raw[sizeof(int64_t)];
        double value;
        memcpy(raw, x->data.data + k * npy->item, sizeof raw);
        GX_TRY(gx_npy_decode(npy, raw, 1, &value, err));
    }
    return GX_OK;
}

static gx_code read_members(archive *x, gx_err *err)
{
    gx_import *im = x->im;
    bool is_coo = x->format[1] == 'o' && x->format[2] == 'o';
    GX_TRY(open_array(im, "data.npy", &x->data, err));
    GX_TRY(open_indexes(x, is_coo ? "row.npy" : "indices.npy", &x->first, err));
    GX_TRY(open_indexes(x, is_coo ? "col.npy" : "indptr.npy", &x->second, err));
    gx_dtype dtype;
    GX_TRY(check_values(x, err));
    GX_TRY(gx_import_sparse_dtype(im, x->data.npy.stored, &dtype, err));
    GX_TRY(im->to.begin_cells(im->to.arg, x->rows, x->cols, dtype, 0, err));
    return is_coo ? read_coordinates(x, err) : read_compressed(x, err);
}

static gx_code import_sparse(gx_import *im, const gx_zip_member *format, gx_err *err)
{
    archive x = {.im = im};
    if (im->options.has_sparse && !im->options.sparse) {
        return gx_input_fail(im->in, err, 0, "is sparse: gx_dense makes it dense");
    }
    gx_code code = read_format(&x, format, err);
    code = code == GX_OK ? read_shape(&x, err) : code;
    if (code == GX_OK && (x.rows > GX_SIDE_MAX || x.cols > GX_SIDE_MAX)) {
        code = gx_input_fail(im->in, err, 0, "a shape of %" PRId64 "x%" PRId64 ": " GX_SIZES_TEXT,
                             x.rows, x.cols);
    }
    code = code == GX_OK ? read_members(&x, err) : code;
    gx_mem_free(im->mem, x.data.memory);
    gx_mem_free(im->mem, x.first.memory);
    gx_mem_free(im->mem, x.second.memory);
    return code;
}

/* The arrays of an archive, of which one is wanted. */
typedef struct choice {
    const char *wanted;   /* NULL: the only one                  */
    int64_t count;        /* of those that it may be             */
    gx_zip_member member; /* the last of them                  */
    char name[256];
    char names[480]; /* of all, with commas, as far as fits */
} choice;

static void consider(void *arg, const char *name, const gx_zip_member *member, bool *is_done)
{
    choice *c = arg;
    size_t bytes = strlen(name), used = strlen(c->names);
    bool is_array = bytes > 4 && strcmp(name + bytes - 4, ".npy") == 0;
    size_t bare = is_array ? bytes - 4 : bytes;
    bool is_wanted = c->wanted == NULL
                         ? is_array
                         : strcmp(name, c->wanted) == 0 || (is_array && strlen(c->wanted) == bare &&
                                                            memcmp(name, c->wanted, bare) == 0);
    if (is_array) {
        snprintf(c->names + used, sizeof c->names - used, "%s%.*s", used > 0 ? ", " : "", (int)bare,
                 name);
    }
    if (is_wanted) {
        c->count++;
        c->member = *member;
        snprintf(c->name, sizeof c->name, "%s", name);
        *is_done = c->wanted != NULL;
    }
}

static gx_code choose(const gx_import *im, choice *c, gx_err *err)
{
    char shown[GX_TOKEN_SHOWN];
    GX_TRY(gx_zip_each(im, consider, c, err));
    if (c->count == 1) {
        return GX_OK;
    }
    if (c->names[0] == '\0') {
        return gx_input_fail(im->in, err, 0, "has no array in it");
    }
    if (c->wanted != NULL) {
        return gx_input_fail(im->in, err, 0, "has no array '%s', but %s",
                             gx_token_show(c->wanted, (int64_t)strlen(c->wanted), shown), c->names);
    }
    return gx_input_fail(im->in, err, 0,
                         "has %" PRId64 " arrays: '{\"member\":\"...\"}' says which: %s", c->count,
                         c->names);
}

/* One array, as a .npy file in memory. */
static gx_code import_array(gx_import *im, gx_err *err)
{
    choice c = {.wanted = im->options.member};
    char label[512];
    gx_input in;
    void *memory;
    GX_TRY(choose(im, &c, err));
    if (im->options.has_sparse && im->options.sparse) {
        return gx_input_fail(im->in, err, 0, "%s is dense: gx_sparse makes it sparse", c.name);
    }
    GX_TRY(gx_zip_read(im, c.name, &c.member, &memory, err));
    snprintf(label, sizeof label, "%.160s: %s", im->in->name, c.name);
    gx_input_memory(&in, label, memory, (size_t)c.member.bytes);
    gx_import one = *im;
    one.in = &in;
    one.total = (double)in.size;
    gx_code code = gx_import_npy(&one, err);
    gx_mem_free(im->mem, memory);
    return code;
}

gx_code gx_import_npz(gx_import *im, gx_err *err)
{
    gx_zip_member format;
    bool is_sparse = false;
    if (im->options.member == NULL) {
        GX_TRY(gx_zip_find(im, "format.npy", &format, &is_sparse, err));
    }
    return is_sparse ? import_sparse(im, &format, err) : import_array(im, err);
}

// Export ------------------------------------------------------------------------------------------

enum { MEMBERS = 5 };

/* An archive on its way. */
typedef struct writing {
    gx_export *ex;
    int64_t begin[MEMBERS], bytes[MEMBERS]; /* of each: its local header; what is in it */
    uint32_t crc[MEMBERS];
    const char *name[MEMBERS];
    int members;
    bool is_wide;         /* 64-bit indexes                    */
    int64_t row, entries; /* of indptr: rows that have begun   */
} writing;

static int64_t position(const writing *w)
{
    return w->ex->out.written + (int64_t)w->ex->out.used;
}

static void put_number(writing *w, uint64_t value, int bytes)
{
    unsigned char little[8];
    for (int k = 0; k < bytes; k++) {
        little[k] = (unsigned char)(value >> 8 * k);
    }
    gx_output_put(&w->ex->out, little, (size_t)bytes);
}

/* Bytes of the member under construction. */
static void put_bytes(writing *w, const void *bytes, size_t count)
{
    int k = w->members - 1;
    w->crc[k] = gx_crc32(w->crc[k], bytes, count);
    w->bytes[k] += (int64_t)count;
    gx_output_put(&w->ex->out, bytes, count);
}

static void put_index(writing *w, int64_t index)
{
    int32_t narrow = (int32_t)index;
    put_bytes(w, w->is_wide ? (void *)&index : (void *)&narrow,
              w->is_wide ? sizeof index : sizeof narrow);
}

/* What follows the signature in a local header, and in the directory. */
static void put_facts(writing *w, int k, bool is_known)
{
    put_number(w, 20, 2);
    put_number(w, 8, 2); // lengths and checksum follow the member
    put_number(w, 0, 2); // stored
    put_number(w, 0, 2);
    put_number(w, 0x21, 2); // 1980-01-01: equal matrices are equal files
    put_number(w, is_known ? w->crc[k] : 0, 4);
    put_number(w, is_known ? (uint64_t)w->bytes[k] : 0, 4);
    put_number(w, is_known ? (uint64_t)w->bytes[k] : 0, 4);
    put_number(w, strlen(w->name[k]), 2);
    put_number(w, 0, 2);
}

static void begin_member(writing *w, const char *name, const char *descr, const char *shape)
{
    char text[192];
    int k = w->members++, head = 10, length;
    w->begin[k] = position(w);
    w->name[k] = name;
    gx_output_put(&w->ex->out, "PK\3\4", 4);
    put_facts(w, k, false);
    gx_output_text(&w->ex->out, name);
    length = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                      descr, shape);
    int padded = (head + length + 1 + 63) / 64 * 64 - head;
    memset(text + length, ' ', (size_t)(padded - length));
    text[padded - 1] = '\n';
    put_bytes(w, "\x93NUMPY\1\0", 8);
    unsigned char bytes[2] = {(unsigned char)padded, (unsigned char)(padded >> 8)};
    put_bytes(w, bytes, 2);
    put_bytes(w, text, (size_t)padded);
}

static void end_member(writing *w)
{
    int k = w->members - 1;
    gx_output_put(&w->ex->out, "PK\7\10", 4);
    put_number(w, w->crc[k], 4);
    put_number(w, (uint64_t)w->bytes[k], 4);
    put_number(w, (uint64_t)w->bytes[k], 4);
}

static void put_directory(writing *w)
{
    int64_t start = position(w);
    for (int k = 0; k < w->members; k++) {
        gx_output_put(&w->ex->out, "PK\1\2", 4);
        put_number(w, 20, 2);
        put_facts(w, k, true);
        put_number(w, 0, 2 + 2 + 2);
        put_number(w, 0, 4);
        put_number(w, (uint64_t)w->begin[k], 4);
        gx_output_text(&w->ex->out, w->name[k]);
    }
    int64_t bytes = position(w) - start;
    gx_output_put(&w->ex->out, "PK\5\6", 4);
    put_number(w, 0, 4);
    put_number(w, (uint64_t)w->members, 2);
    put_number(w, (uint64_t)w->members, 2);
    put_number(w, (uint64_t)bytes, 4);
    put_number(w, (uint64_t)start, 4);
    put_number(w, 0, 2);
}

static gx_code put_start(void *arg, int64_t i, int64_t j, gx_scalar x, gx_err *err)
{
    writing *w = arg;
    (void)j, (void)x, (void)err;
    for (; w->row <= i; w->row++) {
        put_index(w, w->entries);
    }
    w->entries++;
    return w->ex->out.err.code;
}

static gx_code put_column(void *arg, int64_t i, int64_t j, gx_scalar x, gx_err *err)
{
    writing *w = arg;
    (void)i, (void)x, (void)err;
    put_index(w, j);
    return w->ex->out.err.code;
}

static gx_code put_value(void *arg, int64_t i, int64_t j, gx_scalar x, gx_err *err)
{
    writing *w = arg;
    _Alignas(16) char element[2 * sizeof(double)];
    const gx_narrowing to = {.dtype = w->ex->stored, .i0 = i, .j0 = j};
    GX_TRY(gx_narrow_to(GX_C128, &x, 1, &to, element, 1, 1, 1, err));
    put_bytes(w, element, gx_dtype_bytes(w->ex->stored));
    return w->ex->out.err.code;
}

/* One pass over the entries. */
static gx_code walk(writing *w, gx_sparse_visit visit)
{
    return gx_sparse_each(w->ex->run, w->ex->mat, visit, w);
}

gx_code gx_export_npz(gx_export *ex)
{
    const gx_mat *A = ex->mat;
    int64_t entries = gx_sparse_entries(A);
    writing w = {.ex = ex, .is_wide = A->cols > INT32_MAX || entries > INT32_MAX};
    char shape[64];
    const char *index = w.is_wide ? "<i8" : "<i4";
    char descr[8];
    double bytes = (double)entries * (w.is_wide ? 8 : 4) + (double)A->rows * (w.is_wide ? 8 : 4) +
                   (double)entries * (double)gx_dtype_bytes(ex->stored);
    if (bytes > 4e9) {
        return gx_run_failf(ex->run, GX_ARG,
                            "%s has %.0f bytes of entries: .npz is for up to 4 GB, .mtx for more",
                            A->label, bytes);
    }
    snprintf(shape, sizeof shape, "(%" PRId64 ",)", entries);
    begin_member(&w, "indices.npy", index, shape);
    gx_code code = walk(&w, put_column);
    end_member(&w);
    snprintf(shape, sizeof shape, "(%" PRId64 ",)", A->rows + 1);
    begin_member(&w, "indptr.npy", index, shape);
    code = code == GX_OK ? walk(&w, put_start) : code;
    for (; code == GX_OK && w.row <= A->rows; w.row++) {
        put_index(&w, w.entries);
    }
    end_member(&w);
    begin_member(&w, "format.npy", "|S3", "()");
    put_bytes(&w, "csr", 3);
    end_member(&w);
    begin_member(&w, "shape.npy", "<i8", "(2,)");
    put_bytes(&w, &A->rows, sizeof A->rows);
    put_bytes(&w, &A->cols, sizeof A->cols);
    end_member(&w);
    snprintf(shape, sizeof shape, "(%" PRId64 ",)", entries);
    snprintf(descr, sizeof descr, "%c%s", gx_dtype_bytes(ex->stored) == 1 ? '|' : '<',
             gx_dtype_npy(ex->stored));
    begin_member(&w, "data.npy", descr, shape);
    code = code == GX_OK ? walk(&w, put_value) : code;
    end_member(&w);
    put_directory(&w);
    return gx_ok(ex->run) ? GX_OK : ex->run->err.code;
}
