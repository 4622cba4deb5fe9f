/*
** Rows appended, overwritten, deleted: see rows.h.
**
** Each of the three is a list of stretches, which says of the rows of the matrix as it will be
** where they come from: from the matrix as it is, or from the operand.  Of the new matrix's tiles
** those are written that differ from the tile of the same number, each filled from the list.
**
** In place.  A tile is written when the old tile of its number is no longer needed.  Where rows are
** deleted, each row comes from its own place or from one behind it, and numbers do not rise: in
** ascending order of numbers all that is left of the old tile has been taken, or is in the tile
** that is written.  Where they are appended every tile keeps its place, and its number, or gets a
** higher one: then the order is descending.
*/
#include "rows.h"

#include "../base/names.h"
#include "sparse.h"

#include <stdlib.h>
#include <string.h>

enum { BOUNCE_BYTES = 1 << 20 };

/* Rows of the new matrix from `at` on, up to the next stretch, are `first`, first + 1, ... */
typedef struct stretch {
    int64_t at, first;
    bool is_new; /* rows of the operand; else of the matrix as it was */
} stretch;

typedef struct change {
    gx_run *run;
    gx_store *store;
    gx_meta from, to;
    int axis;
    const stretch *list;
    int64_t count;
    gx_mat *rows;               /* the operand, or NULL                               */
    bool saturate, is_verbatim; /* i64 are moved as f64 of the same bytes          */
    gx_number number;           /* what its elements are read as                      */
    gx_reader *reader;
    char *tile;   /* the new one                                        */
    char *old;    /* an old one                                         */
    int64_t held; /* its number, -1: none                               */
    char *bounce; /* numbers before they become elements; lazily        */
} change;

/* Rows of a matrix of so many by axis, and of its tiles. */
static int64_t side_of(const gx_meta *meta, int axis)
{
    return axis == 0 ? meta->rows : meta->cols;
}

static int64_t tile_side_of(const gx_meta *meta, int axis)
{
    return axis == 0 ? meta->tile_rows : meta->tile_cols;
}

// Filling a tile ----------------------------------------------------------------------------------

/* Elements of the operand that are no elements of the dtype yet, a piece at a time. */
static gx_code convert(change *c, int64_t i0, int64_t j0, int64_t m, int64_t n, void *dst,
                       int64_t ld, gx_err *err)
{
    int64_t most = BOUNCE_BYTES / (int64_t)gx_number_bytes(c->number);
    int64_t height = gx_min(m, most), width = gx_min(n, gx_max(1, most / height));
    if (c->bounce == NULL) {
        void *bounce;
        GX_TRY(gx_mem_alloc(c->run->ctx->mem, BOUNCE_BYTES, "rows to convert", &bounce, err));
        c->bounce = bounce;
    }
    for (int64_t j = 0; j < n; j += width) {
        for (int64_t i = 0; i < m; i += height) {
            int64_t h = gx_min(height, m - i), w = gx_min(width, n - j);
            const gx_narrowing to = {
                .dtype = c->to.dtype, .saturate = c->saturate, .i0 = i0 + i, .j0 = j0 + j};
            GX_TRY(gx_mat_read(c->run, c->rows, c->reader, i0 + i, j0 + j, h, w, c->number,
                               c->bounce, h, err));
            GX_TRY(gx_narrow_to(c->number, c->bounce, h, &to,
                                gx_dtype_at(dst, c->to.dtype, ld, i, j), ld, h, w, err));
        }
    }
    return GX_OK;
}

/* A rectangle of the operand as stored elements. */
static gx_code take_new(change *c, int64_t i0, int64_t j0, int64_t m, int64_t n, void *dst,
                        int64_t ld, gx_err *err)
{
    if (gx_dtype_is(c->to.dtype, c->number) || c->is_verbatim) {
        return gx_mat_read(c->run, c->rows, c->reader, i0, j0, m, n, c->number, dst, ld, err);
    }
    if (gx_mat_narrow(c->rows, c->number) == c->to.dtype) {
        return gx_mat_read_as(c->run, c->rows, c->reader, i0, j0, m, n, c->to.dtype, dst, ld, err);
    }
    return convert(c, i0, j0, m, n, dst, ld, err);
}

/* An old tile, whole, into c->old. */
static gx_code load_old(change *c, int64_t ti, int64_t tj, gx_err *err)
{
    const gx_meta *from = &c->from;
    int64_t tile = gx_meta_tile(from, ti, tj);
    if (tile == c->held) {
        return GX_OK;
    }
    c->held = -1;
    size_t elements = (size_t)(gx_meta_tile_height(from, ti) * gx_meta_tile_width(from, tj));
    GX_TRY(gx_reader_read(c->reader, from, tile, 0, elements * gx_dtype_bytes(from->dtype), c->old,
                          err));
    c->held = tile;
    return GX_OK;
}

/* m x n elements of the old tile from (i, j) on. */
static void copy_old(const change *c, int64_t ti, int64_t i, int64_t j, int64_t m, int64_t n,
                     char *dst, int64_t ld)
{
    size_t element = gx_dtype_bytes(c->from.dtype);
    int64_t height = gx_meta_tile_height(&c->from, ti);
    const char *src = c->old + (size_t)(j * height + i) * element;
    if (m == height && m == ld) {
        memcpy(dst, src, (size_t)(m * n) * element);
        return;
    }
    for (int64_t k = 0; k < n; k++) {
        memcpy(dst + (size_t)(k * ld) * element, src + (size_t)(k * height) * element,
               (size_t)m * element);
    }
}

/* Old rows from `first` on to a part of the new tile (ti, tj), which is m x n. */
static gx_code take_old(change *c, int64_t ti, int64_t tj, int64_t first, int64_t m, int64_t n,
                        char *dst, int64_t ld, gx_err *err)
{
    size_t element = gx_dtype_bytes(c->from.dtype);
    int64_t side = tile_side_of(&c->from, c->axis), count = c->axis == 0 ? m : n, taken;
    for (int64_t k = 0; k < count; k += taken) {
        int64_t t = (first + k) / side, inside = (first + k) % side;
        taken = gx_min(count - k, side - inside);
        if (c->axis == 0) {
            GX_TRY(load_old(c, t, tj, err));
            copy_old(c, t, inside, 0, taken, n, dst + (size_t)k * element, ld);
        } else {
            GX_TRY(load_old(c, ti, t, err));
            copy_old(c, ti, 0, inside, m, taken, dst + (size_t)(k * ld) * element, ld);
        }
    }
    return GX_OK;
}

/* The number of the stretch that has a row of the new matrix. */
static int64_t find(const change *c, int64_t row)
{
    int64_t low = 0;
    GX_BISECT(low, c->count - 1, middle, c->list[middle + 1].at <= row)
    return low;
}

static int64_t end_of(const change *c, int64_t k)
{
    return k + 1 < c->count ? c->list[k + 1].at : side_of(&c->to, c->axis);
}

static gx_code fill_tile(change *c, int64_t ti, int64_t tj, gx_err *err)
{
    gx_dtype dtype = c->to.dtype;
    int64_t i0 = ti * c->to.tile_rows, m = gx_meta_tile_height(&c->to, ti);
    int64_t j0 = tj * c->to.tile_cols, n = gx_meta_tile_width(&c->to, tj);
    int64_t low = c->axis == 0 ? i0 : j0, high = low + (c->axis == 0 ? m : n);
    for (int64_t k = find(c, low); k < c->count && c->list[k].at < high; k++) {
        const stretch *s = &c->list[k];
        int64_t a = gx_max(s->at, low), b = gx_min(end_of(c, k), high);
        int64_t first = s->first + a - s->at;
        int64_t h = c->axis == 0 ? b - a : m, w = c->axis == 0 ? n : b - a;
        char *dst =
            gx_dtype_at(c->tile, dtype, m, c->axis == 0 ? a - low : 0, c->axis == 0 ? 0 : a - low);
        if (!s->is_new) {
            GX_TRY(take_old(c, ti, tj, first, h, w, dst, m, err));
        } else if (c->axis == 0) {
            GX_TRY(take_new(c, first, j0, h, w, dst, m, err));
        } else {
            GX_TRY(take_new(c, i0, first, h, w, dst, m, err));
        }
    }
    return GX_OK;
}

// Which tiles -------------------------------------------------------------------------------------

/* Is the new tile the old one of that number, as it is? */
static bool is_kept(const change *c, int64_t tile, int64_t ti, int64_t tj)
{
    const gx_meta *from = &c->from, *to = &c->to;
    if (ti >= gx_meta_row_tiles(from) || tj >= gx_meta_col_tiles(from) ||
        gx_meta_tile(from, ti, tj) != tile || from->tile_rows * ti != to->tile_rows * ti ||
        from->tile_cols * tj != to->tile_cols * tj ||
        gx_meta_tile_height(from, ti) != gx_meta_tile_height(to, ti) ||
        gx_meta_tile_width(from, tj) != gx_meta_tile_width(to, tj)) {
        return false;
    }
    int64_t low = (c->axis == 0 ? ti : tj) * tile_side_of(to, c->axis);
    int64_t high = gx_min(low + tile_side_of(to, c->axis), side_of(to, c->axis));
    bool is_so = true;
    for (int64_t k = find(c, low); k < c->count && c->list[k].at < high && is_so; k++) {
        is_so = !c->list[k].is_new && c->list[k].first == c->list[k].at;
    }
    return is_so;
}

static gx_code write_tiles(change *c, bool descends, gx_err *err)
{
    const gx_meta *to = &c->to;
    int64_t tiles = gx_meta_row_tiles(to) * gx_meta_col_tiles(to), ti, tj;
    gx_run_progress(c->run, (double)tiles);
    for (int64_t k = 0; k < tiles; k++) {
        int64_t tile = descends ? tiles - 1 - k : k;
        gx_meta_tile_place(to, tile, &ti, &tj);
        if (!is_kept(c, tile, ti, tj)) {
            GX_TRY(fill_tile(c, ti, tj, err));
            GX_TRY(gx_store_write_tile(c->store, to, tile, c->tile, err));
        }
        gx_run_advance(c->run, 1);
        if (gx_run_poll(c->run) != GX_OK) {
            return c->run->err.code;
        }
    }
    return GX_OK;
}

// The whole change --------------------------------------------------------------------------------

static bool is_over_it(const gx_mat *rows, const gx_meta *meta)
{
    bool is = false;
    const gx_mat *base;
    for (int64_t k = 0; !is && (base = gx_mat_base_number(rows, k)) != NULL; k++) {
        is = base->meta.id == meta->id && strcmp(base->meta.schema, meta->schema) == 0;
    }
    return is;
}

/* An operand that is computed from the matrix is set aside first. */
static gx_code set_aside(change *c, gx_sink *aside, gx_mat *copy, gx_err *err)
{
    *aside = (gx_sink){.run = NULL};
    if (c->rows == NULL || !is_over_it(c->rows, &c->from)) {
        return GX_OK;
    }
    if (gx_sink_begin_scratch(c->run, c->rows->rows, c->rows->cols, c->number, 2 * BOUNCE_BYTES,
                              aside) != GX_OK) {
        return gx_fail(err, c->run->err.code, "%s", c->run->err.text);
    }
    GX_TRY(gx_sink_fill(aside, c->rows, err));
    gx_sink_source(aside, c->rows->label, copy);
    c->rows = copy;
    return GX_OK;
}

static gx_code rewrite(change *c, gx_err *err)
{
    gx_mem *mem = c->run->ctx->mem;
    size_t bytes = 0, old_bytes = 0;
    void *memory;
    gx_dtype_matrix_bytes(c->to.tile_rows, c->to.tile_cols, c->to.dtype, &bytes);
    gx_dtype_matrix_bytes(c->from.tile_rows, c->from.tile_cols, c->to.dtype, &old_bytes);
    GX_TRY(gx_mem_alloc(mem, bytes, "a tile to write", &memory, err));
    c->tile = memory;
    GX_TRY(gx_mem_alloc(mem, old_bytes, "a tile to change", &memory, err));
    c->old = memory;
    GX_TRY(gx_reader_own(c->store, &c->reader, err));
    GX_TRY(gx_store_can_patch(c->store, c->to.schema, &c->to.is_over, err));
    bool is_moved = c->to.down_tiles > 0 && c->to.cols > c->from.cols;
    return write_tiles(c, is_moved, err);
}

/* The names of the rows that are left, of a matrix whose rows have names; else NULL. */
static gx_code names_left(change *c, char **left, gx_err *err)
{
    gx_mem *mem = c->run->ctx->mem;
    char *all;
    void *memory;
    size_t bytes, length;
    const char *name;
    gx_names walk;
    *left = NULL;
    GX_TRY(gx_store_read_labels(c->store, &c->from, c->axis, &all, &bytes, err));
    if (all == NULL) {
        return GX_OK;
    }
    gx_code code = gx_mem_alloc(mem, bytes + 1, "names", &memory, err);
    if (code == GX_OK) {
        char *to = *left = memory;
        int64_t k = 0;
        *to++ = '[';
        gx_names_begin(&walk, all, bytes);
        for (int64_t row = 0; gx_names_next(&walk, &name, &length); row++) {
            for (; k < c->count && row >= c->list[k].first + end_of(c, k) - c->list[k].at; k++) {
            }
            if (k < c->count && row >= c->list[k].first) { // as it stands, quotes and all
                const char *from = name == NULL ? "null" : name - 1;
                length += name == NULL ? 4 : 2;
                memcpy(to, from, length);
                to += length;
                *to++ = ',';
            }
        }
        to -= to[-1] == ',';
        memcpy(to, "]", 2);
    }
    gx_mem_free(mem, all);
    return code;
}

/* Names stay, but those of rows that are deleted; rows that are appended have none. */
static gx_code touch(change *c, gx_err *err)
{
    char *names = NULL;
    bool is_shorter = side_of(&c->to, c->axis) < side_of(&c->from, c->axis);
    GX_TRY(is_shorter ? names_left(c, &names, err) : GX_OK);
    uint32_t kept = gx_meta_is_bits(&c->to) ? GX_PROP_BITS : 0;
    gx_code code = gx_store_touch(c->store, &c->to, kept, err);
    if (code == GX_OK && names != NULL) {
        code = gx_store_write_labels(c->store, &c->to, c->axis, names, strlen(names), err);
    }
    gx_mem_free(c->run->ctx->mem, names);
    return code;
}

/* Tiles, then the row; tiles that are too many go. */
static gx_code carry_out(change *c, gx_err *err)
{
    gx_mem *mem = c->run->ctx->mem;
    gx_sink aside;
    gx_mat copy;
    int64_t tiles = gx_meta_row_tiles(&c->to) * gx_meta_col_tiles(&c->to);
    bool has_fewer = tiles < gx_meta_row_tiles(&c->from) * gx_meta_col_tiles(&c->from);
    c->held = -1;
    gx_code code = set_aside(c, &aside, &copy, err);
    code = code == GX_OK ? rewrite(c, err) : code;
    gx_reader_close(c->reader);
    gx_mem_free(mem, c->bounce);
    gx_mem_free(mem, c->old);
    gx_mem_free(mem, c->tile);
    gx_sink_drop(&aside);
    c->to.is_over = false;
    GX_TRY(code);
    if (has_fewer) {
        GX_TRY(gx_store_cut_tiles(c->store, &c->to, tiles, err));
    }
    return touch(c, err);
}

/* The operand's elements become those of the matrix, as gx_store's do. */
static gx_code check_shape(const change *c, gx_err *err)
{
    int across = 1 - c->axis;
    int64_t have = across == 1 ? c->rows->cols : c->rows->rows;
    if (have != side_of(&c->from, across)) {
        return gx_fail(err, GX_ARG, "%s is %lldx%lld, but %s is %lldx%lld: their %s differ",
                       c->rows->label, (long long)c->rows->rows, (long long)c->rows->cols,
                       c->from.name, (long long)c->from.rows, (long long)c->from.cols,
                       across == 1 ? "columns" : "rows");
    }
    return gx_dtype_takes(c->to.dtype, c->rows->number, c->rows->label, err);
}

static gx_code check_rows(change *c, gx_err *err)
{
    GX_TRY(check_shape(c, err));
    const gx_dest like = {.has_dtype = true, .dtype = c->to.dtype};
    bool is_field = c->to.dtype == GX_DTYPE_M31;
    c->is_verbatim =
        c->to.dtype == GX_DTYPE_I64 && c->rows->dtype == GX_DTYPE_I64 && !c->rows->is_sparse;
    c->number = is_field ? GX_M31 : gx_dest_number(&like, c->rows->number);
    if (c->is_verbatim) {
        gx_mat_verbatim(c->rows);
    }
    return GX_OK;
}

static gx_code refuse(const gx_meta *meta, gx_err *err)
{
    if ((meta->properties & GX_PROP_FACTOR) != 0) {
        return gx_aux_refuse(meta->name, meta->properties, err);
    }
    return meta->is_sparse || (gx_meta_is_made(meta) && !gx_meta_is_bits(meta))
               ? gx_fail(err, GX_ARG, "%s is %s: rows of a dense matrix alone are changed in place",
                         meta->name,
                         meta->is_sparse      ? "sparse"
                         : meta->is_composite ? "a composite"
                                              : "quantised")
               : GX_OK;
}

static gx_code append_sparse(change *c, gx_err *err)
{
    if (c->axis == 1) {
        return gx_fail(err, GX_ARG, "%s is sparse: columns are appended to dense matrices alone",
                       c->from.name);
    }
    GX_TRY(check_shape(c, err));
    return gx_sparse_append(c->run, &c->to, c->rows, is_over_it(c->rows, &c->from), c->saturate,
                            err);
}

static gx_code change_it(change *c, gx_meta *meta, gx_err *err)
{
    GX_TRY(gx_store_begin(c->store, meta->schema, err));
    gx_code code = c->from.is_sparse ? append_sparse(c, err) : carry_out(c, err);
    gx_code ended = gx_store_end(c->store, code == GX_OK, err);
    code = code == GX_OK ? ended : code;
    if (code == GX_OK) {
        *meta = c->to;
    }
    return code;
}

static change change_of(gx_run *run, const gx_meta *meta, int axis)
{
    return (change){.run = run, .store = run->ctx->store, .from = *meta, .to = *meta, .axis = axis};
}

// Appended ----------------------------------------------------------------------------------------

/* A tile's side where the other is so many elements long: the default size, in multiples of 64. */
static int64_t default_side(const change *c, int64_t other)
{
    enum { MULTIPLE = 64 };
    size_t element = gx_dtype_bytes(c->to.dtype);
    int64_t most = (int64_t)(gx_store_max_tile_bytes(c->store) / element) / other;
    return most > MULTIPLE ? most / MULTIPLE * MULTIPLE : most;
}

/* May the matrix have so many more? */
static gx_code check_room(const change *c, int64_t count, gx_err *err)
{
    size_t bytes;
    int64_t side = side_of(&c->from, c->axis);
    int64_t rows = c->from.rows + (c->axis == 0 ? count : 0);
    int64_t cols = c->from.cols + (c->axis == 1 ? count : 0);
    return gx_dtype_matrix_bytes(rows, cols, c->from.dtype, &bytes)
               ? GX_OK
               : gx_fail(err, GX_TOOBIG, "%lld more for %s, which has %lld: " GX_SIZES_TEXT,
                         (long long)count, c->from.name, (long long)side);
}

/* The new shape, of the tiles too.  One row of tiles may become taller. */
static gx_code grow(change *c, int64_t count, gx_err *err)
{
    gx_meta *to = &c->to;
    const gx_meta *from = &c->from;
    int64_t tiles;
    GX_TRY(check_room(c, count, err));
    *(c->axis == 0 ? &to->rows : &to->cols) += count;
    if (from->rows == 0 || from->cols == 0) {
        return gx_tile_shape(to->rows, to->cols, to->dtype, gx_store_max_tile_bytes(c->store),
                             &to->tile_rows, &to->tile_cols, err);
    }
    if (c->axis == 0 && gx_meta_row_tiles(from) == 1) {
        to->tile_rows = gx_min(to->rows, gx_max(from->tile_rows, default_side(c, to->tile_cols)));
    } else if (c->axis == 1 && gx_meta_col_tiles(from) == 1) {
        to->tile_cols = gx_min(to->cols, gx_max(from->tile_cols, default_side(c, to->tile_rows)));
    }
    int64_t before = gx_meta_row_tiles(from);
    if (gx_meta_row_tiles(to) > before && gx_meta_col_tiles(to) > 1 && from->down_tiles == 0) {
        to->down_tiles = before;
    }
    if (!gx_mul_i64(gx_meta_row_tiles(to), gx_meta_col_tiles(to), &tiles) || tiles > UINT32_MAX) {
        return gx_fail(err, GX_TOOBIG,
                       "%s would have more than 2^32 - 1 tiles: a copy with a larger tile_bytes "
                       "has fewer",
                       from->name);
    }
    return GX_OK;
}

gx_code gx_rows_append(gx_run *run, gx_meta *meta, int axis, gx_mat *rows, bool saturate,
                       gx_err *err)
{
    change c = change_of(run, meta, axis);
    int64_t count = axis == 0 ? rows->rows : rows->cols;
    const stretch list[] = {{.at = 0, .first = 0},
                            {.at = side_of(meta, axis), .first = 0, .is_new = true}};
    c.rows = rows;
    c.saturate = saturate;
    c.list = side_of(meta, axis) > 0 ? list : list + 1;
    c.count = side_of(meta, axis) > 0 ? 2 : 1;
    if (!meta->is_sparse) {
        GX_TRY(refuse(meta, err));
        GX_TRY(check_rows(&c, err));
    }
    if (count == 0) {
        return meta->is_sparse ? check_shape(&c, err) : GX_OK;
    }
    GX_TRY(meta->is_sparse ? check_room(&c, count, err) : grow(&c, count, err));
    return change_it(&c, meta, err);
}

// Overwritten, deleted ----------------------------------------------------------------------------

/* A row's number, and which of the operand's comes there. */
typedef struct place {
    int64_t at, which;
} place;

static int by_number(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return x->at != y->at ? (x->at < y->at ? -1 : 1)
                          : (x->which > y->which) - (x->which < y->which);
}

/* Ascending, checked. */
static gx_code sort_places(const change *c, const int64_t *at, int64_t count, place *list,
                           gx_err *err)
{
    int64_t side = side_of(&c->from, c->axis);
    for (int64_t k = 0; k < count; k++) {
        if (at[k] < 0 || at[k] >= side) {
            return gx_fail(err, GX_ARG, "%s %lld is not in %s, which has %lld",
                           c->axis == 0 ? "row" : "column", (long long)at[k], c->from.name,
                           (long long)side);
        }
        list[k] = (place){.at = at[k], .which = k};
    }
    qsort(list, (size_t)count, sizeof *list, by_number);
    return GX_OK;
}

/* Stretches one behind the other; neighbours are one. */
static void add_stretch(stretch *list, int64_t *count, stretch s)
{
    const stretch *last = *count > 0 ? &list[*count - 1] : NULL;
    if (last == NULL || last->is_new != s.is_new || last->first - last->at != s.first - s.at) {
        list[(*count)++] = s;
    }
}

static gx_code list_set(change *c, const place *places, int64_t count, stretch *list, gx_err *err)
{
    int64_t next = 0, side = side_of(&c->from, c->axis);
    for (int64_t k = 0; k < count; k++) {
        int64_t at = places[k].at;
        if (k > 0 && places[k - 1].at == at) {
            return gx_fail(err, GX_ARG, "%s %lld is listed twice", c->axis == 0 ? "row" : "column",
                           (long long)at);
        }
        if (at > next) {
            add_stretch(list, &c->count, (stretch){.at = next, .first = next});
        }
        add_stretch(list, &c->count, (stretch){at, places[k].which, true});
        next = at + 1;
    }
    if (next < side) {
        add_stretch(list, &c->count, (stretch){.at = next, .first = next});
    }
    return GX_OK;
}

/* What is left of the rows, and how many that are. */
static int64_t list_left(change *c, const place *places, int64_t count, stretch *list)
{
    int64_t next = 0, left = 0, side = side_of(&c->from, c->axis);
    for (int64_t k = 0; k <= count; k++) {
        int64_t at = k < count ? places[k].at : side;
        if (at > next) {
            add_stretch(list, &c->count, (stretch){.at = left, .first = next});
            left += at - next;
        }
        next = gx_max(next, at + 1);
    }
    return left;
}

/* The shape without the rows that go. */
static void shrink(change *c, int64_t left)
{
    gx_meta *to = &c->to;
    if (c->axis == 0) {
        to->rows = left;
        to->tile_rows = gx_min(to->tile_rows, gx_max(left, 1));
    } else {
        to->cols = left;
        to->tile_cols = gx_min(to->tile_cols, gx_max(left, 1));
    }
    bool has_along = gx_meta_row_tiles(to) > to->down_tiles && gx_meta_col_tiles(to) > 1;
    to->down_tiles = has_along ? to->down_tiles : 0;
}

/* rows NULL: they are deleted. */
static gx_code change_listed(change *c, gx_meta *meta, const int64_t *at, int64_t count,
                             gx_err *err)
{
    gx_mem *mem = c->run->ctx->mem;
    void *places = NULL, *list = NULL;
    size_t many = 2 * (size_t)count + 1;
    gx_code code =
        gx_mem_alloc(mem, (size_t)count * sizeof(place), "numbers of rows", &places, err);
    if (code == GX_OK) {
        code = sort_places(c, at, count, places, err);
    }
    if (code == GX_OK) {
        code = gx_mem_alloc(mem, many * sizeof(stretch), "numbers of rows", &list, err);
    }
    c->list = list;
    if (code == GX_OK && c->rows != NULL) {
        code = list_set(c, places, count, list, err);
    } else if (code == GX_OK) {
        shrink(c, list_left(c, places, count, list));
    }
    code = code == GX_OK ? change_it(c, meta, err) : code;
    gx_mem_free(mem, list);
    gx_mem_free(mem, places);
    return code;
}

gx_code gx_rows_set(gx_run *run, gx_meta *meta, int axis, const int64_t *at, int64_t count,
                    gx_mat *rows, bool saturate, gx_err *err)
{
    change c = change_of(run, meta, axis);
    int64_t have = axis == 0 ? rows->rows : rows->cols;
    c.rows = rows;
    c.saturate = saturate;
    GX_TRY(refuse(meta, err));
    if (have != count) {
        return gx_fail(err, GX_ARG, "%s has %lld %s, but %lld are listed", rows->label,
                       (long long)have, axis == 0 ? "rows" : "columns", (long long)count);
    }
    GX_TRY(check_rows(&c, err));
    return count == 0 ? GX_OK : change_listed(&c, meta, at, count, err);
}

gx_code gx_rows_delete(gx_run *run, gx_meta *meta, int axis, const int64_t *at, int64_t count,
                       gx_err *err)
{
    change c = change_of(run, meta, axis);
    GX_TRY(refuse(meta, err));
    return count == 0 ? GX_OK : change_listed(&c, meta, at, count, err);
}

// Read --------------------------------------------------------------------------------------------

gx_code gx_rows_read(gx_run *run, const gx_mat *mat, gx_reader *reader, int axis, const int64_t *at,
                     int64_t count, gx_number number, void *dst, int64_t ld, gx_err *err)
{
    int64_t near;
    for (int64_t k = 0; k < count; k += near) {
        for (near = 1; k + near < count && at[k + near] == at[k] + near; near++) {
        }
        if (axis == 0) {
            GX_TRY(gx_mat_read(run, mat, reader, at[k], 0, near, mat->cols, number,
                               gx_at(dst, number, ld, k, 0), ld, err));
        } else {
            GX_TRY(gx_mat_read(run, mat, reader, 0, at[k], mat->rows, near, number,
                               gx_at(dst, number, ld, 0, k), ld, err));
        }
    }
    return GX_OK;
}
