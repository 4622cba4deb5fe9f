/*
** Reading sparse matrices: pieces, and rectangles for gx_mat_read().  See sparse.h.
**
** A piece of a stored matrix is a panel: one read of about 8 MiB, then one look through its starts
** and indexes, which the memory they have just come to gives at its rate.  A value has been looked
** through when it came, and is cut where rows and entries together have the weight of a piece:
** start[i] + i rises with every row, so a piece is found by bisection and needs no table.
**
** A rectangle reads three stretches of each panel under it: the starts of its rows, then their
** indexes and values, a buffer on the stack at a time, each checked as far as it is used.
*/
#include "sparse.h"

#include <stdio.h>
#include <string.h>

enum {
    PIECE_WEIGHT = 1 << 15, /* rows and entries of a piece of a value                     */
    STRETCH = 512           /* entries, or starts, of a rectangle that are read at a time */
};

static bool is_stored(const gx_mat *A)
{
    return A->kind == GX_MAT_STORED;
}

int64_t gx_sparse_entries(const gx_mat *A)
{
    return is_stored(A) ? A->meta.panels->entries : A->csr.entries;
}

// Pieces ------------------------------------------------------------------------------------------

int64_t gx_sparse_pieces(const gx_mat *A)
{
    if (is_stored(A)) {
        return A->meta.panels->count;
    }
    return A->rows == 0 || A->cols == 0
               ? 0
               : gx_min(A->rows, gx_ceil_div(A->rows + A->csr.entries, PIECE_WEIGHT));
}

/* The first row from which on rows and entries before it weigh so much. */
static int64_t row_of_weight(const gx_mat *A, int64_t weight)
{
    int64_t low = 0;
    GX_BISECT(low, A->rows, middle, (int64_t)A->csr.start[middle] + middle < weight)
    return low;
}

int64_t gx_sparse_piece_row(const gx_mat *A, int64_t piece)
{
    if (is_stored(A)) {
        return gx_meta_panel_row(&A->meta, piece);
    }
    return piece >= gx_sparse_pieces(A) ? A->rows : row_of_weight(A, piece * PIECE_WEIGHT);
}

int64_t gx_sparse_piece_rows(const gx_mat *A, int64_t piece)
{
    return is_stored(A) ? gx_meta_panel_rows(&A->meta, piece)
                        : gx_sparse_piece_row(A, piece + 1) - gx_sparse_piece_row(A, piece);
}

int64_t gx_sparse_piece_entries(const gx_mat *A, int64_t piece)
{
    return is_stored(A) ? A->meta.panels->place[piece].entries
                        : (int64_t)A->csr.start[gx_sparse_piece_row(A, piece + 1)] -
                              (int64_t)A->csr.start[gx_sparse_piece_row(A, piece)];
}

int64_t gx_sparse_most_rows(const gx_mat *A)
{
    int64_t most = 0;
    if (!is_stored(A)) {
        return gx_min(A->rows, PIECE_WEIGHT);
    }
    for (int64_t p = 0; p < A->meta.panels->count; p++) {
        most = gx_max(most, gx_meta_panel_rows(&A->meta, p));
    }
    return most;
}

int64_t gx_sparse_most_entries(const gx_mat *A)
{
    int64_t most = 0;
    for (int64_t p = 0; p < gx_sparse_pieces(A); p++) {
        most = gx_max(most, gx_sparse_piece_entries(A, p));
    }
    return most;
}

/* Of dtype or of numbers, starts and indexes lie in the same places. */
static gx_csr_layout layout_as(const gx_mat *A, int64_t piece, gx_dtype dtype)
{
    gx_csr_layout layout = {0};
    (void)gx_csr_lay_out(gx_sparse_piece_rows(A, piece), A->cols, gx_sparse_piece_entries(A, piece),
                         dtype, &layout);
    return layout;
}

/* In memory. */
static gx_csr_layout layout_of(const gx_mat *A, int64_t piece)
{
    return layout_as(A, piece, gx_dtype_of(A->number));
}

size_t gx_sparse_head_bytes(const gx_mat *A, int64_t piece)
{
    return layout_of(A, piece).value;
}

static size_t bytes_as(const gx_mat *A, gx_dtype dtype)
{
    gx_csr_layout layout = {0};
    size_t bytes = 0;
    if (!is_stored(A)) {
        (void)gx_csr_lay_out(A->rows, A->cols, A->csr.entries, dtype, &layout);
        return layout.bytes;
    }
    for (int64_t p = 0; p < A->meta.panels->count; p++) {
        bytes += layout_as(A, p, dtype).bytes;
    }
    return bytes;
}

size_t gx_sparse_bytes(const gx_mat *A)
{
    return bytes_as(A, gx_dtype_of(A->number));
}

size_t gx_sparse_stored_bytes(const gx_mat *A)
{
    return bytes_as(A, A->dtype);
}

size_t gx_sparse_block_bytes(const gx_mat *A)
{
    size_t most = 0;
    for (int64_t p = 0; is_stored(A) && p < A->meta.panels->count; p++) {
        size_t bytes = layout_of(A, p).bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static const char *panel_name(const gx_mat *A, int64_t panel, char name[2 * GX_NAME_MAX])
{
    snprintf(name, 2 * (size_t)GX_NAME_MAX, "panel %lld of %s", (long long)panel, A->label);
    return name;
}

/* A panel that is in block already, looked through. */
static gx_code take(const gx_mat *A, int64_t panel, const void *block, gx_csr *csr, gx_err *err)
{
    char name[2 * GX_NAME_MAX];
    gx_csr_map(csr, gx_meta_panel_rows(&A->meta, panel), A->cols,
               A->meta.panels->place[panel].entries, A->number, block);
    return gx_csr_check(csr, panel_name(A, panel, name), err);
}

/* The numbers of a panel that was read as it is stored. */
static gx_code spread_panel(const gx_mat *A, int64_t piece, void *block, gx_err *err)
{
    size_t count = (size_t)gx_sparse_piece_entries(A, piece);
    size_t wide = gx_number_bytes(A->number), narrow = gx_dtype_bytes(A->meta.dtype);
    char *values = (char *)block + layout_of(A, piece).value;
    memmove(values + count * (wide - narrow), values, count * narrow);
    return gx_widen_in_place(A->meta.dtype, A->number, values, (int64_t)count,
                             A->is_rounded ? NULL : err);
}

gx_code gx_sparse_read(const gx_mat *A, gx_reader *reader, int64_t piece, void *block, gx_csr *csr,
                       gx_err *err)
{
    if (!is_stored(A)) {
        *csr = gx_csr_cut(&A->csr, gx_sparse_piece_row(A, piece), gx_sparse_piece_rows(A, piece));
        return GX_OK;
    }
    GX_TRY(gx_reader_read(reader, &A->meta, piece, 0, layout_as(A, piece, A->meta.dtype).bytes,
                          block, err));
    GX_TRY(spread_panel(A, piece, block, err));
    return take(A, piece, block, csr, err);
}

/* The head of a piece of a value, as that of a panel. */
static void copy_head(const gx_mat *A, int64_t piece, const gx_csr_layout *layout, void *block,
                      gx_csr *csr)
{
    gx_csr cut = gx_csr_cut(&A->csr, gx_sparse_piece_row(A, piece), gx_sparse_piece_rows(A, piece));
    uint32_t *start = block, first = cut.start[0];
    size_t own = (size_t)cut.index_bytes;
    for (int64_t i = 0; i <= cut.rows; i++) {
        start[i] = cut.start[i] - first;
    }
    memcpy((char *)block + layout->index, (const char *)cut.index + first * own,
           (size_t)gx_sparse_piece_entries(A, piece) * own);
    gx_csr_map(csr, cut.rows, A->cols, gx_sparse_piece_entries(A, piece), A->number, block);
}

gx_code gx_sparse_read_head(const gx_mat *A, gx_reader *reader, int64_t piece, void *block,
                            gx_csr *csr, gx_err *err)
{
    gx_csr_layout layout = layout_of(A, piece);
    if (is_stored(A)) {
        GX_TRY(gx_reader_read(reader, &A->meta, piece, 0, layout.value, block, err));
        GX_TRY(take(A, piece, block, csr, err)); // which looks at no value
    } else {
        copy_head(A, piece, &layout, block, csr);
    }
    csr->value = NULL;
    return GX_OK;
}

gx_code gx_sparse_read_values(const gx_mat *A, gx_reader *reader, int64_t piece, int64_t first,
                              int64_t count, void *values, gx_err *err)
{
    size_t element = gx_number_bytes(A->number), bytes = (size_t)count * element;
    if (!is_stored(A)) {
        size_t at = A->csr.start[gx_sparse_piece_row(A, piece)] + (size_t)first;
        memcpy(values, (const char *)A->csr.value + at * element, bytes);
        return GX_OK;
    }
    size_t stored = gx_dtype_bytes(A->meta.dtype);
    char *to = (char *)values + (size_t)count * (element - stored);
    GX_TRY(gx_reader_read(reader, &A->meta, piece,
                          layout_of(A, piece).value + (size_t)first * stored,
                          (size_t)count * stored, to, err));
    return gx_widen_in_place(A->meta.dtype, A->number, values, count, A->is_rounded ? NULL : err);
}

// Rectangles --------------------------------------------------------------------------------------

/* The rectangle of gx_sparse_fill(), and where it goes. */
typedef struct rectangle {
    int64_t i0, j0, m, n;
    gx_number dtype;
    void *dst;
    int64_t ld;
} rectangle;

/* Entries [0, count) of a stretch, all of row i, which lie in the columns. */
static void scatter(const gx_csr *part, int64_t i, int64_t count, const rectangle *r)
{
    size_t element = gx_number_bytes(part->dtype);
    for (int64_t e = 0; e < count; e++) {
        int64_t j = gx_csr_column(part, e) - r->j0;
        if (j >= 0 && j < r->n) {
            gx_convert(part->dtype, (const char *)part->value + (size_t)e * element, 1, r->dtype,
                       gx_at(r->dst, r->dtype, r->ld, i - r->i0, j), 1, 1, 1);
        }
    }
}

static void fill_from_value(const gx_mat *A, const rectangle *r)
{
    for (int64_t i = r->i0; i < r->i0 + r->m; i++) {
        int64_t first = gx_csr_seek(&A->csr, i, r->j0), end = gx_csr_seek(&A->csr, i, r->j0 + r->n);
        gx_csr part = A->csr;
        part.index = (const char *)part.index + first * part.index_bytes;
        part.value = (const char *)part.value + (size_t)first * gx_number_bytes(part.dtype);
        scatter(&part, i, end - first, r);
    }
}

/* One row of a panel whose entries are [first, end). */
static gx_code fill_row(const gx_mat *A, gx_reader *reader, int64_t panel, int64_t i, int64_t first,
                        int64_t end, const rectangle *r, gx_err *err)
{
    char name[2 * GX_NAME_MAX];
    _Alignas(16) char index[STRETCH * 8], value[STRETCH * 16];
    gx_csr_layout layout = layout_of(A, panel);
    size_t index_bytes = (size_t)gx_csr_index_bytes(A->cols);
    for (int64_t e = first; e < end; e += STRETCH) {
        int64_t count = gx_min(STRETCH, end - e);
        const uint32_t start[2] = {0, (uint32_t)count};
        const gx_csr part = {.dtype = A->number,
                             .rows = 1,
                             .cols = A->cols,
                             .entries = count,
                             .index_bytes = (int)index_bytes,
                             .start = start,
                             .index = index,
                             .value = value};
        GX_TRY(gx_reader_read(reader, &A->meta, panel, layout.index + (size_t)e * index_bytes,
                              (size_t)count * index_bytes, index, err));
        GX_TRY(gx_csr_check(&part, panel_name(A, panel, name), err));
        if (gx_csr_column(&part, count - 1) < r->j0) {
            continue;
        }
        if (gx_csr_column(&part, 0) >= r->j0 + r->n) {
            break;
        }
        GX_TRY(gx_sparse_read_values(A, reader, panel, e, count, value, err));
        scatter(&part, i, count, r);
    }
    return GX_OK;
}

static gx_code fill_from_panel(const gx_mat *A, gx_reader *reader, int64_t panel,
                               const rectangle *r, gx_err *err)
{
    uint32_t start[STRETCH + 1];
    char name[2 * GX_NAME_MAX];
    int64_t row0 = gx_meta_panel_row(&A->meta, panel), end = A->meta.panels->place[panel].end;
    int64_t entries = A->meta.panels->place[panel].entries;
    int64_t last = gx_min(end, r->i0 + r->m);
    for (int64_t i = gx_max(row0, r->i0); i < last; i += STRETCH) {
        int64_t count = gx_min(STRETCH, last - i);
        GX_TRY(gx_reader_read(reader, &A->meta, panel, (size_t)(i - row0) * sizeof *start,
                              (size_t)(count + 1) * sizeof *start, start, err));
        if ((i == row0 && start[0] != 0) ||
            (i + count == end && start[count] != (uint64_t)entries)) {
            return gx_fail(err, GX_CORRUPT, "%s: row starts go from %lu to %lu, expected 0 to %lld",
                           panel_name(A, panel, name), (unsigned long)start[0],
                           (unsigned long)start[count], (long long)entries);
        }
        for (int64_t k = 0; k < count; k++) {
            if (start[k] > start[k + 1] || start[k + 1] > (uint64_t)entries) {
                return gx_fail(err, GX_CORRUPT, "%s: row %lld goes from entry %lu to %lu",
                               panel_name(A, panel, name), (long long)(i + k - row0),
                               (unsigned long)start[k], (unsigned long)start[k + 1]);
            }
            GX_TRY(fill_row(A, reader, panel, i + k, start[k], start[k + 1], r, err));
        }
    }
    return GX_OK;
}

/* The panel that has row i. */
static int64_t panel_of(const gx_mat *A, int64_t i)
{
    int64_t low = 0;
    GX_BISECT(low, A->meta.panels->count, middle, A->meta.panels->place[middle].end <= i)
    return low;
}

gx_code gx_sparse_fill(const gx_mat *A, gx_reader *reader, int64_t i0, int64_t j0, int64_t m,
                       int64_t n, gx_number dtype, void *dst, int64_t ld, gx_err *err)
{
    const rectangle r = {.i0 = i0, .j0 = j0, .m = m, .n = n, .dtype = dtype, .dst = dst, .ld = ld};
    for (int64_t j = 0; j < n; j++) {
        memset(gx_at(dst, dtype, ld, 0, j), 0, (size_t)m * gx_number_bytes(dtype));
    }
    if (!is_stored(A)) {
        fill_from_value(A, &r);
        return GX_OK;
    }
    for (int64_t p = panel_of(A, i0);
         p < A->meta.panels->count && gx_meta_panel_row(&A->meta, p) < i0 + m; p++) {
        GX_TRY(fill_from_panel(A, reader, p, &r, err));
    }
    return GX_OK;
}
