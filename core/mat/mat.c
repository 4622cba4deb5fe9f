/*
** Sources: rectangles of a matrix, wherever it lives (see mat.h).
**
** A stored matrix is read tile by tile.  Inside a tile the columns of a rectangle are runs of
** bytes: one run when the rectangle has the tile's full height and the buffer its leading
** dimension, else one run a column, all of them in one call where the reader can do that.  Runs go
** straight from the file or the database page into the buffer; only short runs, conversions and
** transposes pass through a bounce buffer on the stack.
*/
#include "../base/copy.h"
#include "composite.h"
#include "kept.h"
#include "sparse.h"

#include <string.h>

/* On the stack, so that reading needs no memory; large enough that a read call's cost vanishes. */
enum { BOUNCE_BYTES = 16 << 10 };

/*
** The pieces in which memory or a formula is best read: as a stored matrix of that shape would
** have.
*/
static void choose_pieces(gx_mat *mat)
{
    gx_err ignored = {0};
    if (gx_tile_shape(mat->rows, mat->cols, gx_dtype_of(mat->number), GX_TILE_BYTES,
                      &mat->tile_rows, &mat->tile_cols, &ignored) != GX_OK) {
        mat->tile_rows = mat->tile_cols = 1024;
    }
}

void gx_mat_stored(gx_mat *mat, const gx_meta *meta)
{
    memset(mat, 0, sizeof *mat);
    mat->kind = GX_MAT_STORED;
    mat->rows = meta->rows;
    mat->cols = meta->cols;
    mat->number = gx_meta_number(meta);
    mat->dtype = meta->dtype;
    mat->properties = meta->properties;
    mat->tile_rows = meta->tile_rows;
    mat->tile_cols = meta->tile_cols;
    mat->meta = *meta;
    mat->is_sparse = meta->is_sparse;
    memcpy(mat->label, meta->name, sizeof mat->label);
    if (meta->is_sparse) { // a rectangle of it has the shape of a tile
        choose_pieces(mat);
    }
}

static void init_unstored(gx_mat *mat, gx_mat_kind kind, const char *label, gx_number dtype,
                          int64_t rows, int64_t cols)
{
    memset(mat, 0, sizeof *mat);
    mat->kind = kind;
    mat->rows = rows;
    mat->cols = cols;
    mat->number = dtype;
    mat->dtype = gx_dtype_of(dtype);
    size_t length = strlen(label);
    memcpy(mat->label, label, length < GX_NAME_MAX ? length : GX_NAME_MAX); // zeroed behind it
    choose_pieces(mat);
}

void gx_mat_value(gx_mat *mat, const char *label, gx_number dtype, int64_t rows, int64_t cols,
                  const void *data, int64_t ld)
{
    init_unstored(mat, GX_MAT_VALUE, label, dtype, rows, cols);
    mat->data = data;
    mat->ld = ld;
}

void gx_mat_array(gx_mat *mat, const char *label, gx_dtype dtype, int64_t rows, int64_t cols,
                  const void *data, int64_t ld)
{
    gx_mat_value(mat, label, gx_dtype_number(dtype), rows, cols, data, ld);
    mat->kind = gx_dtype_is_number(dtype) ? GX_MAT_VALUE : GX_MAT_NARROW;
    mat->dtype = dtype;
}

void gx_mat_sparse_value(gx_mat *mat, const char *label, const gx_csr *csr)
{
    gx_mat_value(mat, label, csr->dtype, csr->rows, csr->cols, NULL, 1);
    mat->is_sparse = true;
    mat->csr = *csr;
}

void gx_mat_generated(gx_mat *mat, const char *label, gx_number dtype, int64_t rows, int64_t cols,
                      gx_generate generate, const void *arg)
{
    init_unstored(mat, GX_MAT_GENERATED, label, dtype, rows, cols);
    mat->generate = generate;
    mat->generate_arg = arg;
}

void gx_mat_view(gx_mat *mat, const gx_mat *base, gx_trans trans, int64_t row0, int64_t col0,
                 int64_t rows, int64_t cols)
{
    memset(mat, 0, sizeof *mat);
    mat->kind = GX_MAT_VIEW;
    mat->rows = rows;
    mat->cols = cols;
    mat->number = base->number;
    mat->dtype = base->dtype;
    mat->base = base;
    mat->row0 = row0;
    mat->col0 = col0;
    mat->trans = trans;
    mat->tile_rows = trans == GX_NO_TRANS ? base->tile_rows : base->tile_cols;
    mat->tile_cols = trans == GX_NO_TRANS ? base->tile_cols : base->tile_rows;
    memcpy(mat->label, base->label, sizeof mat->label);
}

void gx_mat_broadcast(gx_mat *mat, const gx_mat *base, int64_t rows, int64_t cols)
{
    init_unstored(mat, GX_MAT_BROADCAST, base->label, base->number, rows, cols);
    mat->base = base;
}

void gx_mat_centred(gx_mat *mat, const gx_mat *base, gx_number dtype, const gx_scalar *shift,
                    const double *scale, bool has_ones)
{
    int64_t cols = base->cols + (has_ones ? 1 : 0);
    init_unstored(mat, GX_MAT_CENTRED, base->label, dtype, base->rows, cols);
    mat->tile_rows = base->tile_rows;
    mat->tile_cols = base->tile_cols;
    mat->base = base;
    mat->shift = shift;
    mat->scale = scale;
    mat->has_ones = has_ones;
}

void gx_mat_real(gx_mat *mat, const gx_mat *base)
{
    init_unstored(mat, GX_MAT_REAL, base->label, gx_number_real(base->number), base->rows,
                  base->cols);
    mat->tile_rows = base->tile_rows;
    mat->tile_cols = base->tile_cols;
    mat->base = base;
}

gx_tile_place gx_tile_at(int64_t rows, int64_t cols, int64_t tile_rows, int64_t tile_cols,
                         int64_t tile)
{
    int64_t down = gx_ceil_div(rows, tile_rows);
    int64_t i0 = tile % down * tile_rows, j0 = tile / down * tile_cols;
    return (gx_tile_place){i0, j0, gx_min(tile_rows, rows - i0), gx_min(tile_cols, cols - j0)};
}

void gx_mat_clear(gx_mat *mat, gx_mem *mem)
{
    gx_mem_free(mem, mat->owned);
    mat->owned = NULL;
    mat->kept = NULL;
    mat->data = NULL;
}

const gx_mat *gx_mat_base_number(const gx_mat *mat, int64_t k)
{
    while (mat->kind == GX_MAT_VIEW || mat->kind == GX_MAT_BROADCAST ||
           mat->kind == GX_MAT_CENTRED || mat->kind == GX_MAT_REAL) {
        mat = mat->base;
    }
    for (int64_t l = 0; l < 2 * mat->leaves && mat->kind == GX_MAT_COMPOSITE; l++) {
        const gx_leaf *leaf = &mat->leaf[l / 2];
        const gx_mat *base, *operand = l % 2 == 0 ? &leaf->base : &leaf->second;
        bool is_there = operand->rows > 0 && operand->cols > 0;
        for (int64_t b = 0; is_there && (base = gx_mat_base_number(operand, b)) != NULL; b++) {
            if (k-- == 0) {
                return base;
            }
        }
    }
    return mat->kind == GX_MAT_STORED && k == 0 ? mat : NULL;
}

const gx_mat *gx_mat_base_stored(const gx_mat *mat)
{
    return gx_mat_base_number(mat, 0);
}

bool gx_mat_wants_reader(const gx_mat *mat)
{
    const gx_mat *base;
    for (int64_t k = 0; (base = gx_mat_base_number(mat, k)) != NULL; k++) {
        if (base->meta.scratch == NULL && (base->kept == NULL || !gx_kept_is_whole(base->kept))) {
            return true;
        }
    }
    return false;
}

// One tile of a stored matrix ---------------------------------------------------------------------

/* A rectangle inside one tile, and where it goes. */
typedef struct cut {
    int64_t tile;       /* number                                   */
    int64_t height;     /* of the tile = its leading dimension      */
    int64_t i, j, m, n; /* the rectangle, counted inside the tile   */
} cut;

/* A run of elements of the tile, from (i, j) of the cut on, straight into dst. */
static gx_code read_run(const gx_mat *mat, gx_reader *reader, const cut *c, int64_t i, int64_t j,
                        int64_t elements, void *dst, gx_err *err)
{
    size_t element = gx_dtype_bytes(mat->dtype), bytes = (size_t)elements * element;
    size_t offset = (size_t)((c->j + j) * c->height + c->i + i) * element;
    return gx_reader_read(reader, &mat->meta, c->tile, offset, bytes, dst, err);
}

/* All columns of a cut, those of dst step bytes apart. */
static gx_columns columns_of(const gx_mat *mat, const cut *c, void *dst, size_t step)
{
    size_t element = gx_dtype_bytes(mat->dtype);
    return (gx_columns){.offset = (size_t)(c->j * c->height + c->i) * element,
                        .bytes = (size_t)c->m * element,
                        .step = (size_t)c->height * element,
                        .count = c->n,
                        .dst = dst,
                        .dst_step = step};
}

/* All columns to their places at once, where the reader can do that. */
static bool read_columns(const gx_mat *mat, gx_reader *reader, const cut *c, void *dst, int64_t ld)
{
    const gx_columns columns = columns_of(mat, c, dst, (size_t)ld * gx_dtype_bytes(mat->dtype));
    return gx_reader_columns(reader, &mat->meta, c->tile, &columns);
}

/* m x n elements of mat as numbers, or as they are: as is mat's own dtype or a number's. */
static gx_code put_elements(const gx_mat *mat, const void *from, int64_t ld_from, gx_dtype as,
                            void *to, int64_t ld, int64_t m, int64_t n, gx_err *err)
{
    if (gx_dtype_is_number(as)) {
        return gx_widen(mat->dtype, from, ld_from, gx_dtype_number(as), to, ld, m, n,
                        mat->is_rounded ? NULL : err);
    }
    for (int64_t j = 0; j < n; j++) {
        memcpy(gx_dtype_at(to, as, ld, 0, j), gx_dtype_at(from, as, ld_from, 0, j),
               (size_t)m * gx_dtype_bytes(as));
    }
    return GX_OK;
}

/*
** The cut out of what is kept in memory, as the elements `as`.  false: it is to be read otherwise,
** where *code is GX_OK.
*/
static bool read_kept(const gx_mat *mat, gx_reader *reader, const cut *c, gx_dtype as, void *dst,
                      int64_t ld, gx_code *code, gx_err *err)
{
    size_t element = gx_dtype_bytes(mat->dtype);
    const gx_columns run = columns_of(mat, c, dst, 0);
    size_t span = (size_t)(c->n - 1) * run.step + run.bytes;
    const void *from = gx_kept_find(mat->kept, reader, &mat->meta, c->tile, run.offset, span,
                                    (size_t)(c->m * c->n) * element, code, err);
    if (from == NULL) {
        return false;
    }
    bool is_one_run = mat->dtype == as && c->m == c->height && ld == c->height;
    if (is_one_run) {
        memcpy(dst, from, span);
    } else {
        *code = put_elements(mat, from, c->height, as, dst, ld, c->m, c->n, err);
    }
    return true;
}

/* A few whole-height columns at a time; short runs are cut out of them. */
static gx_code read_short(const gx_mat *mat, gx_reader *reader, const cut *c, gx_dtype as,
                          void *dst, int64_t ld, gx_err *err)
{
    _Alignas(16) char bounce[BOUNCE_BYTES];
    int64_t column_bytes = c->height * (int64_t)gx_dtype_bytes(mat->dtype);
    int64_t width = BOUNCE_BYTES / column_bytes;
    for (int64_t j = 0; j < c->n; j += width) {
        // From the first wanted element of the first column to the last wanted one of the last.
        int64_t n = gx_min(width, c->n - j);
        int64_t elements = (n - 1) * c->height + c->m;
        GX_TRY(read_run(mat, reader, c, 0, j, elements, bounce, err));
        GX_TRY(put_elements(mat, bounce, c->height, as, gx_dtype_at(dst, as, ld, 0, j), ld, c->m, n,
                            err));
    }
    return GX_OK;
}

/*
** Elements to numbers that are as large or larger: all columns are read at once, each to the end of
** its place, and converted there.  false: the reader cannot do that.
*/
static bool read_in_place(const gx_mat *mat, gx_reader *reader, const cut *c, gx_dtype as,
                          void *dst, int64_t ld, gx_code *code, gx_err *err)
{
    size_t wide = gx_dtype_bytes(as), element = gx_dtype_bytes(mat->dtype);
    gx_err *or_rounded = mat->is_rounded ? NULL : err;
    if (wide < element || !gx_dtype_is_number(as)) {
        return false;
    }
    gx_number number = gx_dtype_number(as);
    if (c->m == c->height && ld == c->height) {
        int64_t count = c->n * c->height;
        char *at = (char *)dst + (size_t)count * (wide - element);
        *code = read_run(mat, reader, c, 0, 0, count, at, err);
        if (*code == GX_OK) {
            *code = gx_widen_in_place(mat->dtype, number, dst, count, or_rounded);
        }
        return true;
    }
    char *at = (char *)dst + (size_t)c->m * (wide - element);
    const gx_columns columns = columns_of(mat, c, at, (size_t)ld * wide);
    if (!gx_reader_columns(reader, &mat->meta, c->tile, &columns)) {
        return false;
    }
    *code = GX_OK;
    for (int64_t j = 0; j < c->n && *code == GX_OK; j++) {
        *code =
            gx_widen_in_place(mat->dtype, number, gx_dtype_at(dst, as, ld, 0, j), c->m, or_rounded);
    }
    return true;
}

/* Each column in pieces of the bounce buffer, converted on the way. */
static gx_code read_converted(const gx_mat *mat, gx_reader *reader, const cut *c, gx_dtype as,
                              void *dst, int64_t ld, gx_err *err)
{
    _Alignas(16) char bounce[BOUNCE_BYTES];
    int64_t piece = BOUNCE_BYTES / (int64_t)gx_dtype_bytes(mat->dtype);
    for (int64_t j = 0; j < c->n; j++) {
        for (int64_t i = 0; i < c->m; i += piece) {
            int64_t m = gx_min(piece, c->m - i);
            GX_TRY(read_run(mat, reader, c, i, j, m, bounce, err));
            GX_TRY(put_elements(mat, bounce, m, as, gx_dtype_at(dst, as, ld, i, j), ld, m, 1, err));
        }
    }
    return GX_OK;
}

static gx_code read_cut(const gx_mat *mat, gx_reader *reader, const cut *c, gx_dtype as, void *dst,
                        int64_t ld, gx_err *err)
{
    bool is_same = mat->dtype == as;
    gx_code code = GX_OK;
    if (mat->kept != NULL &&
        (read_kept(mat, reader, c, as, dst, ld, &code, err) || code != GX_OK)) {
        return code;
    }
    if (is_same && c->m == c->height && ld == c->height) {
        return read_run(mat, reader, c, 0, 0, c->n * c->height, dst, err);
    }
    if (is_same && read_columns(mat, reader, c, dst, ld)) {
        return GX_OK;
    }
    if (!is_same && read_in_place(mat, reader, c, as, dst, ld, &code, err)) {
        return code;
    }
    if (c->n > 1 && c->height * (int64_t)gx_dtype_bytes(mat->dtype) <= BOUNCE_BYTES / 2) {
        return read_short(mat, reader, c, as, dst, ld, err);
    }
    if (!is_same) {
        return read_converted(mat, reader, c, as, dst, ld, err);
    }
    for (int64_t j = 0; j < c->n; j++) {
        GX_TRY(read_run(mat, reader, c, 0, j, c->m, gx_dtype_at(dst, as, ld, 0, j), err));
    }
    return GX_OK;
}

static gx_code read_stored(const gx_mat *mat, gx_reader *reader, int64_t i0, int64_t j0, int64_t m,
                           int64_t n, gx_dtype as, void *dst, int64_t ld, gx_err *err)
{
    const gx_meta *meta = &mat->meta;
    for (int64_t j = j0; j < j0 + n;) {
        int64_t tj = j / meta->tile_cols;
        int64_t j_end = gx_min(j0 + n, (tj + 1) * meta->tile_cols);
        for (int64_t i = i0; i < i0 + m;) {
            int64_t ti = i / meta->tile_rows;
            int64_t i_end = gx_min(i0 + m, (ti + 1) * meta->tile_rows);
            cut c = {.tile = gx_meta_tile(meta, ti, tj),
                     .height = gx_meta_tile_height(meta, ti),
                     .i = i - ti * meta->tile_rows,
                     .j = j - tj * meta->tile_cols,
                     .m = i_end - i,
                     .n = j_end - j};
            void *to = gx_dtype_at(dst, as, ld, i - i0, j - j0);
            GX_TRY(read_cut(mat, reader, &c, as, to, ld, err));
            i = i_end;
        }
        j = j_end;
    }
    return GX_OK;
}

bool gx_mat_lend(const gx_mat *mat, int64_t i0, int64_t j0, int64_t m, int64_t n, gx_dtype as,
                 const void **at, int64_t *ld)
{
    const gx_meta *meta = &mat->meta;
    if (mat->kind == GX_MAT_VIEW && mat->trans == GX_NO_TRANS) {
        return gx_mat_lend(mat->base, mat->row0 + i0, mat->col0 + j0, m, n, as, at, ld);
    }
    if (mat->dtype != as || mat->is_sparse) {
        return false;
    }
    if (mat->kind == GX_MAT_VALUE || mat->kind == GX_MAT_NARROW) {
        *at = gx_dtype_at(mat->data, as, mat->ld, i0, j0);
        *ld = mat->ld;
        return true;
    }
    if (mat->kind != GX_MAT_STORED || mat->kept == NULL || m == 0 || n == 0) {
        return false;
    }
    int64_t ti = i0 / meta->tile_rows, tj = j0 / meta->tile_cols;
    cut c = {.tile = gx_meta_tile(meta, ti, tj),
             .height = gx_meta_tile_height(meta, ti),
             .i = i0 - ti * meta->tile_rows,
             .j = j0 - tj * meta->tile_cols,
             .m = m,
             .n = n};
    if (c.i + m > c.height || c.j + n > meta->tile_cols) {
        return false;
    }
    const gx_columns run = columns_of(mat, &c, NULL, 0);
    *ld = c.height;
    *at = gx_kept_there(mat->kept, c.tile, run.offset, (size_t)(n - 1) * run.step + run.bytes,
                        (size_t)n * run.bytes);
    return *at != NULL;
}

// Views -------------------------------------------------------------------------------------------

/* dst(i, j) = op(src(j, i)), m x n in dst. */
static void transpose_into(gx_number dtype, bool conjugate, const void *src, int64_t ld_src,
                           void *dst, int64_t ld_dst, int64_t m, int64_t n)
{
    gx_copy_turned(gx_number_bytes(dtype), m, n, src, ld_src, dst, ld_dst);
    if (conjugate && gx_number_is_complex(dtype)) {
        for (int64_t j = 0; j < n; j++) {
            for (int64_t i = 0; i < m; i++) {
                void *x = gx_at(dst, dtype, ld_dst, i, j);
                if (dtype == GX_C128) {
                    ((double *)x)[1] = -((double *)x)[1];
                } else {
                    ((float *)x)[1] = -((float *)x)[1];
                }
            }
        }
    }
}

/* A square at a time, so that a strip of short runs of the base becomes a strip of rows. */
static gx_code read_transposed(gx_run *run, const gx_mat *mat, gx_reader *reader, int64_t i0,
                               int64_t j0, int64_t m, int64_t n, gx_number dtype, void *dst,
                               int64_t ld, gx_err *err)
{
    _Alignas(16) char bounce[BOUNCE_BYTES];
    int64_t elements = BOUNCE_BYTES / (int64_t)gx_number_bytes(dtype);
    int64_t height = gx_min(n, 32 * 16); // of the base rectangle: long runs
    int64_t width = elements / height;
    for (int64_t j = 0; j < n; j += height) {
        for (int64_t i = 0; i < m; i += width) {
            int64_t h = gx_min(height, n - j), w = gx_min(width, m - i);
            GX_TRY(gx_mat_read(run, mat->base, reader, mat->col0 + j0 + j, mat->row0 + i0 + i, h, w,
                               dtype, bounce, h, err));
            transpose_into(dtype, mat->trans == GX_CONJ_TRANS, bounce, h,
                           gx_at(dst, dtype, ld, i, j), ld, w, h);
        }
    }
    return GX_OK;
}

/* Runs of the base's columns, of which the real parts are taken. */
static gx_code read_real(gx_run *run, const gx_mat *mat, gx_reader *reader, int64_t i0, int64_t j0,
                         int64_t m, int64_t n, gx_number dtype, void *dst, int64_t ld, gx_err *err)
{
    _Alignas(16) char bounce[BOUNCE_BYTES];
    gx_number from = mat->base->number;
    int64_t elements = BOUNCE_BYTES / (int64_t)gx_number_bytes(from);
    int64_t height = gx_min(m, elements), width = elements / height;
    for (int64_t j = 0; j < n; j += width) {
        for (int64_t i = 0; i < m; i += height) {
            int64_t h = gx_min(height, m - i), w = gx_min(width, n - j);
            GX_TRY(gx_mat_read(run, mat->base, reader, i0 + i, j0 + j, h, w, from, bounce, h, err));
            gx_convert(from, bounce, h, dtype, gx_at(dst, dtype, ld, i, j), ld, h, w);
        }
    }
    return GX_OK;
}

/* One row, one column or one element, repeated. */
static gx_code read_broadcast(gx_run *run, const gx_mat *mat, gx_reader *reader, int64_t i0,
                              int64_t j0, int64_t m, int64_t n, gx_number dtype, void *dst,
                              int64_t ld, gx_err *err)
{
    size_t element = gx_number_bytes(dtype);
    bool is_row = mat->base->rows == 1 && mat->rows != 1;
    bool is_column = mat->base->cols == 1 && mat->cols != 1;
    GX_TRY(gx_mat_read(run, mat->base, reader, is_row ? 0 : i0, is_column ? 0 : j0, is_row ? 1 : m,
                       is_column ? 1 : n, dtype, dst, ld, err));
    for (int64_t j = 0; j < (is_column ? 1 : n) && is_row; j++) {
        char *column = gx_at(dst, dtype, ld, 0, j);
        for (int64_t i = 1; i < m; i++) {
            memcpy(column + (size_t)i * element, column, element);
        }
    }
    for (int64_t j = 1; j < n && is_column; j++) {
        memcpy(gx_at(dst, dtype, ld, 0, j), dst, (size_t)m * element);
    }
    return GX_OK;
}

/* x = (x - by - rest) * scale for the count numbers that are `stride` (a constant) apart. */
static inline void centre(bool is_double, void *x, int64_t count, int64_t stride, double by,
                          double rest, double scale)
{
    if (is_double) {
        double *d = x;
        for (int64_t i = 0; i < count; i++) {
            d[i * stride] = (d[i * stride] - by - rest) * scale;
        }
        return;
    }
    float *f = x;
    for (int64_t i = 0; i < count; i++) {
        f[i * stride] = (float)(((double)f[i * stride] - by - rest) * scale);
    }
}

/* Real and imaginary parts of a column of m elements. */
static void centre_column(const gx_mat *mat, gx_number dtype, void *x, int64_t m, int64_t j)
{
    bool is_double = gx_number_is_double(dtype);
    double scale = mat->scale == NULL ? 1 : mat->scale[j];
    gx_scalar by = mat->shift[j], rest = mat->rest == NULL ? (gx_scalar){0, 0} : mat->rest[j];
    if (!gx_number_is_complex(dtype)) {
        centre(is_double, x, m, 1, by.re, rest.re, scale);
        return;
    }
    char *imaginary = (char *)x + gx_number_bytes(dtype) / 2;
    centre(is_double, x, m, 2, by.re, rest.re, scale);
    centre(is_double, imaginary, m, 2, by.im, rest.im, mat->is_conjugated ? -scale : scale);
}

static gx_code read_centred(gx_run *run, const gx_mat *mat, gx_reader *reader, int64_t i0,
                            int64_t j0, int64_t m, int64_t n, gx_number dtype, void *dst,
                            int64_t ld, gx_err *err)
{
    if (mat->has_ones && j0 == 0) {
        const double one[2] = {1, 0};
        gx_number from = gx_number_wide(dtype);
        gx_convert(from, one, 1, dtype, dst, 1, 1, 1);
        for (int64_t i = 1; i < m; i++) {
            memcpy(gx_at(dst, dtype, ld, i, 0), dst, gx_number_bytes(dtype));
        }
        dst = gx_at(dst, dtype, ld, 0, 1);
        n--;
    }
    j0 = mat->has_ones ? gx_max(0, j0 - 1) : j0;
    GX_TRY(gx_mat_read(run, mat->base, reader, i0, j0, m, n, dtype, dst, ld, err));
    for (int64_t j = 0; j < n; j++) {
        centre_column(mat, dtype, gx_at(dst, dtype, ld, 0, j), m, j0 + j);
    }
    return GX_OK;
}

gx_code gx_mat_read(gx_run *run, const gx_mat *mat, gx_reader *reader, int64_t i0, int64_t j0,
                    int64_t m, int64_t n, gx_number dtype, void *dst, int64_t ld, gx_err *err)
{
    if (gx_number_is_complex(mat->number) && !gx_number_is_complex(dtype)) {
        return gx_fail(err, GX_ARG, "%s is complex (%s) and cannot become %s", mat->label,
                       gx_number_name(mat->number), gx_number_name(dtype));
    }
    if (m == 0 || n == 0) {
        return GX_OK;
    }
    if (mat->is_sparse) {
        return gx_sparse_fill(mat, reader, i0, j0, m, n, dtype, dst, ld, err);
    }
    switch (mat->kind) {
    case GX_MAT_STORED:
        return read_stored(mat, reader, i0, j0, m, n, gx_dtype_of(dtype), dst, ld, err);
    case GX_MAT_VALUE:
        return gx_widen(mat->dtype, gx_at(mat->data, mat->number, mat->ld, i0, j0), mat->ld, dtype,
                        dst, ld, m, n, err);
    case GX_MAT_NARROW:
        return gx_widen(mat->dtype, gx_dtype_at(mat->data, mat->dtype, mat->ld, i0, j0), mat->ld,
                        dtype, dst, ld, m, n, mat->is_rounded ? NULL : err);
    case GX_MAT_GENERATED:
        mat->generate(mat->generate_arg, i0, j0, m, n, dtype, dst, ld);
        return GX_OK;
    case GX_MAT_BROADCAST:
        return read_broadcast(run, mat, reader, i0, j0, m, n, dtype, dst, ld, err);
    case GX_MAT_CENTRED:
        return read_centred(run, mat, reader, i0, j0, m, n, dtype, dst, ld, err);
    case GX_MAT_REAL:
        return read_real(run, mat, reader, i0, j0, m, n, dtype, dst, ld, err);
    case GX_MAT_COMPOSITE:
        return mat->read(run, mat, reader, i0, j0, m, n, dtype, dst, ld, err);
    default:
        break;
    }
    if (mat->trans == GX_NO_TRANS) {
        return gx_mat_read(run, mat->base, reader, mat->row0 + i0, mat->col0 + j0, m, n, dtype, dst,
                           ld, err);
    }
    return read_transposed(run, mat, reader, i0, j0, m, n, dtype, dst, ld, err);
}

static bool is_rectangle(const gx_mat *mat)
{
    return mat->kind == GX_MAT_VIEW && mat->trans == GX_NO_TRANS;
}

gx_dest gx_dest_like(const gx_dest *dest, gx_mat *A)
{
    gx_dest like = dest == NULL ? (gx_dest){0} : *dest;
    like.is_streamed = true;
    if (!like.has_dtype) {
        like.has_dtype = true;
        like.dtype = A->dtype;
    }
    like.is_verbatim = like.dtype == GX_DTYPE_I64 && A->dtype == GX_DTYPE_I64 && !A->is_sparse;
    if (like.is_verbatim) {
        gx_mat_verbatim(A);
    }
    return like;
}

void gx_mat_verbatim(gx_mat *A)
{
    for (gx_mat *mat = A; mat != NULL; mat = (gx_mat *)(uintptr_t)mat->base) {
        mat->dtype = GX_DTYPE_F64;
        mat->kind = mat->kind == GX_MAT_NARROW ? GX_MAT_VALUE : mat->kind;
    }
}

gx_dtype gx_mat_narrow(const gx_mat *mat, gx_number number)
{
    if (number == GX_M31) {
        return GX_DTYPE_M31; // no device makes it of other elements
    }
    while (is_rectangle(mat)) {
        mat = mat->base;
    }
    bool lies = (mat->kind == GX_MAT_STORED && !mat->is_sparse) || mat->kind == GX_MAT_NARROW;
    return lies && !gx_dtype_is_number(mat->dtype) ? mat->dtype : gx_dtype_of(number);
}

gx_code gx_mat_read_as(gx_run *run, const gx_mat *mat, gx_reader *reader, int64_t i0, int64_t j0,
                       int64_t m, int64_t n, gx_dtype as, void *dst, int64_t ld, gx_err *err)
{
    if (gx_dtype_is_number(as)) {
        return gx_mat_read(run, mat, reader, i0, j0, m, n, gx_dtype_number(as), dst, ld, err);
    }
    for (; is_rectangle(mat); mat = mat->base) {
        i0 += mat->row0;
        j0 += mat->col0;
    }
    if (mat->kind == GX_MAT_STORED) {
        return read_stored(mat, reader, i0, j0, m, n, as, dst, ld, err);
    }
    return put_elements(mat, gx_dtype_at(mat->data, as, mat->ld, i0, j0), mat->ld, as, dst, ld, m,
                        n, err);
}
