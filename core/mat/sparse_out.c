/*
** Writing sparse matrices, row after row.  See sparse.h.
**
** Entries are gathered as the three parts of a panel.  When a row is complete and the rows in
** memory take more than a panel may, those before it are written as one, and the row becomes the
** first of the next: so a panel is as large as the setting says, or a single row.  A value has no
** limit but SQLite's length and is put together at the end.
**
** Memory: a panel twice (its parts as they grow, the block that is written).
*/
#include "sparse.h"

#include <assert.h>
#include <math.h>
#include <string.h>

gx_code gx_sparse_out_begin(gx_run *run, const gx_dest *dest, int64_t rows, int64_t cols,
                            gx_number dtype, uint32_t properties, gx_sink *sink, gx_sparse_out *out)
{
    *out = (gx_sparse_out){.sink = sink, .index_bytes = gx_csr_index_bytes(cols)};
    GX_TRY(gx_sink_begin_sparse(run, dest, rows, cols, dtype, properties, sink));
    out->element = gx_dtype_bytes(sink->dtype);
    out->limit = sink->is_stored ? gx_store_max_tile_bytes(run->ctx->store) : 0;
    return GX_OK;
}

void gx_sparse_out_clear(gx_sparse_out *out)
{
    if (out->sink != NULL) {
        gx_mem *mem = out->sink->run->ctx->mem;
        gx_mem_free(mem, out->start);
        gx_mem_free(mem, out->index);
        gx_mem_free(mem, out->value);
        gx_mem_free(mem, out->block);
        *out = (gx_sparse_out){0};
    }
}

// Memory ------------------------------------------------------------------------------------------

static gx_code grow(gx_sparse_out *out, void *part, size_t element, int64_t count, gx_err *err)
{
    size_t bytes;
    if (!gx_mul_size((size_t)count, element, &bytes)) {
        bytes = SIZE_MAX / 2; // refused below
    }
    return gx_mem_realloc(out->sink->run->ctx->mem, bytes, "a sparse panel", part, err);
}

static gx_code grow_rows(gx_sparse_out *out, gx_err *err)
{
    int64_t capacity = gx_max(1024, out->row_capacity + out->row_capacity / 2);
    GX_TRY(grow(out, &out->start, sizeof *out->start, capacity, err));
    if (out->row_capacity == 0) {
        out->start[0] = 0;
    }
    out->row_capacity = capacity;
    return GX_OK;
}

static gx_code grow_entries(gx_sparse_out *out, gx_err *err)
{
    int64_t capacity = gx_max(4096, out->capacity + out->capacity / 2);
    if (out->entries >= (int64_t)GX_CSR_BYTES_MAX / (int64_t)out->element) {
        return gx_fail(err, GX_TOOBIG,
                       "row %lld has too many entries for one panel of 2^31 bytes, or the value "
                       "has: a stored matrix has several panels",
                       (long long)out->row);
    }
    GX_TRY(grow(out, &out->index, (size_t)out->index_bytes, capacity, err));
    GX_TRY(grow(out, &out->value, out->element, capacity, err));
    out->capacity = capacity;
    return GX_OK;
}

// Panels ------------------------------------------------------------------------------------------

/* Rows [first, first + rows) of the parts, with their entries, as the panel at block. */
static void put_together(const gx_sparse_out *out, int64_t rows, const gx_csr_layout *layout,
                         char *block)
{
    size_t entries = out->start[rows];
    size_t starts = (size_t)(rows + 1) * sizeof *out->start;
    size_t indexes = entries * (size_t)out->index_bytes, values = entries * out->element;
    memset(block + layout->index - 8, 0, 8); // what is between the parts
    memcpy(block, out->start, starts);
    if (entries > 0) {
        memset(block + layout->value - 8, 0, 8);
        memcpy(block + layout->index, out->index, indexes);
        memset(block + layout->bytes - 8, 0, 8);
        memcpy(block + layout->value, out->value, values);
    }
}

/* The first `rows` rows in memory as a panel of the sink. */
static gx_code write_panel(gx_sparse_out *out, int64_t rows, gx_err *err)
{
    gx_sink *sink = out->sink;
    gx_csr_layout layout = {0};
    int64_t entries = out->start[rows];
    if (!gx_csr_lay_out(rows, sink->cols, entries, gx_dtype_of(sink->number), &layout) ||
        !gx_csr_lay_out(rows, sink->cols, entries, sink->dtype, &layout)) { // read as numbers
        return gx_fail(err, GX_TOOBIG, "row %lld has %lld entries, too many for one panel",
                       (long long)out->first, (long long)entries);
    }
    if (layout.bytes > out->block_bytes) {
        GX_TRY(grow(out, &out->block, 1, (int64_t)layout.bytes, err));
        out->block_bytes = layout.bytes;
    }
    put_together(out, rows, &layout, out->block);
    GX_TRY(gx_sink_panel(sink, out->first + rows, entries, out->block, err));
    // What stays in memory moves to the front.
    int64_t left = out->row - out->first - rows;
    size_t kept = (size_t)(out->entries - entries);
    for (int64_t k = 0; k <= left; k++) {
        out->start[k] = out->start[rows + k] - (uint32_t)entries;
    }
    if (kept > 0) {
        memmove(out->index, out->index + entries * out->index_bytes,
                kept * (size_t)out->index_bytes);
        memmove(out->value, out->value + (size_t)entries * out->element, kept * out->element);
    }
    out->first += rows;
    out->entries = (int64_t)kept;
    return GX_OK;
}

/* The row under construction is complete. */
static gx_code end_row(gx_sparse_out *out, gx_err *err)
{
    int64_t rows = out->row - out->first + 1; // in memory, with this one
    if (rows + 1 >= out->row_capacity) {
        GX_TRY(grow_rows(out, err));
    }
    out->start[rows] = (uint32_t)out->entries;
    out->row++;
    size_t bytes = (size_t)(rows + 8) * sizeof *out->start +
                   (size_t)out->entries * ((size_t)out->index_bytes + out->element);
    if (out->limit == 0 || bytes <= out->limit) {
        return GX_OK;
    }
    if (rows > 1) {
        GX_TRY(write_panel(out, rows - 1, err));
    }
    bytes =
        9 * sizeof *out->start + (size_t)out->entries * ((size_t)out->index_bytes + out->element);
    return bytes > out->limit && out->row > out->first ? write_panel(out, 1, err) : GX_OK;
}

gx_code gx_sparse_put(gx_sparse_out *out, int64_t i, int64_t j, gx_scalar value, gx_err *err)
{
    assert(i >= out->row && i < out->sink->rows && j >= 0 && j < out->sink->cols);
    while (out->row < i) {
        GX_TRY(end_row(out, err));
    }
    if (out->entries == out->capacity) {
        GX_TRY(grow_entries(out, err));
    }
    int64_t e = out->entries++;
    out->total++;
    if (out->index_bytes == 4) {
        ((int32_t *)(void *)out->index)[e] = (int32_t)j;
    } else {
        ((int64_t *)(void *)out->index)[e] = j;
    }
    if (gx_sink_is_plain(out->sink)) {
        gx_number_put(out->sink->number, out->value, e, value);
        return GX_OK;
    }
    const gx_narrowing to = {
        .dtype = out->sink->dtype, .saturate = out->sink->saturate, .i0 = i, .j0 = j};
    return gx_narrow_to(GX_F64, &value.re, 1, &to, (char *)out->value + (size_t)e * out->element, 1,
                        1, 1, err);
}

static gx_code finish(gx_sparse_out *out, gx_err *err)
{
    gx_sink *sink = out->sink;
    if (out->row_capacity == 0) {
        GX_TRY(grow_rows(out, err));
    }
    while (sink->cols > 0 && out->row < sink->rows) {
        GX_TRY(end_row(out, err));
    }
    if (sink->is_stored) {
        return out->row > out->first ? write_panel(out, out->row - out->first, err) : GX_OK;
    }
    while (out->row < sink->rows) { // a value has its row starts even where it has no column
        GX_TRY(end_row(out, err));
    }
    gx_csr_layout layout = {0};
    GX_TRY(gx_sink_sparse_value(sink, out->entries, err));
    (void)gx_csr_lay_out(sink->rows, sink->cols, out->entries, sink->dtype, &layout);
    put_together(out, sink->rows, &layout, sink->value.data);
    return GX_OK;
}

gx_code gx_sparse_out_end(gx_sparse_out *out)
{
    gx_run *run = out->sink->run;
    gx_err err = {0};
    if (gx_ok(run) && finish(out, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Whole matrices ----------------------------------------------------------------------------------

gx_code gx_sparse_each_panel(gx_run *run, const gx_mat *A, gx_sparse_panel_visit fn, void *arg)
{
    gx_reader *reader = NULL;
    gx_err err = {0};
    void *block = gx_run_alloc(run, gx_sparse_block_bytes(A), "a panel");
    if (block == NULL) {
        return run->err.code;
    }
    gx_code code = A->kind == GX_MAT_STORED ? gx_reader_own(run->ctx->store, &reader, &err) : GX_OK;
    gx_run_progress(run, (double)gx_sparse_pieces(A));
    for (int64_t p = 0; p < gx_sparse_pieces(A) && code == GX_OK; p++) {
        gx_csr csr;
        code = gx_sparse_read(A, reader, p, block, &csr, &err);
        code = code == GX_OK ? fn(arg, &csr, gx_sparse_piece_row(A, p), &err) : code;
        gx_run_advance(run, 1);
        code = code == GX_OK ? gx_run_poll(run) : code;
    }
    gx_reader_close(reader);
    gx_mem_free(run->ctx->mem, block);
    gx_run_fail(run, &err);
    return code;
}

typedef struct visitor {
    gx_sparse_visit fn;
    void *arg;
} visitor;

static gx_code visit_panel(void *arg, const gx_csr *csr, int64_t row0, gx_err *err)
{
    const visitor *v = arg;
    for (int64_t i = 0; i < csr->rows; i++) {
        for (int64_t e = csr->start[i]; e < csr->start[i + 1]; e++) {
            GX_TRY(v->fn(v->arg, row0 + i, gx_csr_column(csr, e), gx_csr_value(csr, e), err));
        }
    }
    return GX_OK;
}

gx_code gx_sparse_each(gx_run *run, const gx_mat *A, gx_sparse_visit fn, void *arg)
{
    return gx_sparse_each_panel(run, A, visit_panel, &(visitor){fn, arg});
}

static gx_code put_entry(void *arg, int64_t i, int64_t j, gx_scalar value, gx_err *err)
{
    return gx_sparse_put(arg, i, j, value, err);
}

gx_code gx_sparse_copy(gx_run *run, const gx_mat *A, const gx_dest *dest, gx_number dtype,
                       uint32_t properties, gx_sink *sink)
{
    gx_sparse_out out;
    if (gx_sparse_out_begin(run, dest, A->rows, A->cols, dtype, properties, sink, &out) == GX_OK &&
        gx_sparse_each(run, A, put_entry, &out) == GX_OK) {
        gx_sparse_out_end(&out);
    }
    gx_sparse_out_clear(&out);
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* Rows of a dense matrix that are looked at together: as many as a fair part of memory holds. */
static int64_t band_rows(const gx_run *run, const gx_mat *A)
{
    size_t row = 1, room = gx_mem_available(run->ctx->mem) / 8;
    gx_matrix_bytes(1, gx_max(1, A->cols), A->number, &row);
    int64_t rows = gx_max(1, (int64_t)((room < GX_TILE_BYTES ? room : GX_TILE_BYTES) / row));
    rows = rows > A->tile_rows ? rows / A->tile_rows * A->tile_rows : rows;
    return gx_min(rows, gx_max(1, A->rows));
}

bool gx_sparse_is_above(gx_scalar x, double threshold)
{
    return !(hypot(x.re, x.im) <= threshold); // a NaN is
}

static gx_code put_band(gx_sparse_out *out, gx_number dtype, const void *band, int64_t i0,
                        int64_t m, int64_t n, double threshold, gx_err *err)
{
    gx_csr one = {.dtype = dtype, .value = band};
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            gx_scalar x = gx_csr_value(&one, j * m + i);
            if (gx_sparse_is_above(x, threshold)) {
                GX_TRY(gx_sparse_put(out, i0 + i, j, x, err));
            }
        }
    }
    return GX_OK;
}

/* A's rows become those from `first` on. */
static gx_code put_dense(gx_run *run, const gx_mat *A, double threshold, int64_t first,
                         gx_sparse_out *out, gx_err *err)
{
    gx_reader *reader = NULL;
    size_t bytes = 0;
    void *band;
    int64_t most = band_rows(run, A);
    gx_matrix_bytes(most, A->cols, A->number, &bytes);
    GX_TRY(gx_mem_alloc(run->ctx->mem, bytes, "rows of a dense matrix", &band, err));
    gx_code code =
        gx_mat_base_stored(A) == NULL ? GX_OK : gx_reader_own(run->ctx->store, &reader, err);
    gx_run_progress(run, (double)A->rows);
    for (int64_t i = 0; i < A->rows && code == GX_OK; i += most) {
        int64_t m = gx_min(most, A->rows - i);
        code = gx_mat_read(run, A, reader, i, 0, m, A->cols, A->number, band, m, err);
        if (code == GX_OK) {
            code = put_band(out, A->number, band, first + i, m, A->cols, threshold, err);
        }
        gx_run_advance(run, (double)m);
        if (code == GX_OK && gx_run_poll(run) != GX_OK) {
            code = gx_fail(err, run->err.code, "%s", run->err.text);
        }
    }
    gx_reader_close(reader);
    gx_mem_free(run->ctx->mem, band);
    return code;
}

gx_code gx_sparse_of_dense(gx_run *run, const gx_mat *A, const gx_dest *dest, gx_number dtype,
                           uint32_t properties, double threshold, gx_sink *sink)
{
    gx_sparse_out out;
    gx_err err = {0};
    if (gx_sparse_out_begin(run, dest, A->rows, A->cols, dtype, properties, sink, &out) == GX_OK &&
        put_dense(run, A, threshold, 0, &out, &err) == GX_OK) {
        gx_sparse_out_end(&out);
    }
    gx_sparse_out_clear(&out);
    return gx_run_fail(run, &err);
}

// Rows at the end ---------------------------------------------------------------------------------

/* Entries of rows that become those from row `first` on. */
typedef struct shifted {
    gx_sparse_out *out;
    int64_t first;
} shifted;

static gx_code put_shifted(void *arg, int64_t i, int64_t j, gx_scalar value, gx_err *err)
{
    const shifted *s = arg;
    return gx_sparse_put(s->out, s->first + i, j, value, err);
}

/* The last panel, where it is not half full, is taken back, and the new rows go on there. */
static gx_code reopen_panel(gx_sparse_out *out, const gx_meta *meta, gx_err *err)
{
    gx_panels *panels = out->sink->panels;
    gx_mem *mem = out->sink->run->ctx->mem;
    int64_t last = panels->count - 1;
    gx_csr_layout layout = {0};
    gx_mat A;
    gx_csr csr;
    gx_reader *reader;
    void *block;
    if (last < 0 ||
        !gx_csr_lay_out(gx_meta_panel_rows(meta, last), meta->cols, panels->place[last].entries,
                        meta->dtype, &layout) ||
        layout.bytes > out->limit / 2) {
        return GX_OK;
    }
    gx_mat_stored(&A, meta);
    GX_TRY(gx_mem_alloc(mem, gx_sparse_block_bytes(&A), "a panel", &block, err));
    gx_code code = gx_reader_own(out->sink->run->ctx->store, &reader, err);
    code = code == GX_OK ? gx_sparse_read(&A, reader, last, block, &csr, err) : code;
    gx_reader_close(reader);
    if (code == GX_OK) {
        out->row = out->first = gx_meta_panel_row(meta, last);
        panels->count--;
        panels->entries -= panels->place[last].entries;
        code = visit_panel(&(visitor){put_shifted, &(shifted){out, 0}}, &csr, out->first, err);
    }
    gx_mem_free(mem, block);
    return code;
}

/* The rows, then the directory and the catalog row. */
static gx_code put_rows(gx_sparse_out *out, const gx_meta *meta, const gx_mat *rows,
                        bool is_over_it, gx_err *err)
{
    gx_sink *sink = out->sink;
    gx_run *run = sink->run;
    GX_TRY(is_over_it ? GX_OK : reopen_panel(out, meta, err));
    if (rows->is_sparse) {
        gx_sparse_each(run, rows, put_shifted, &(shifted){out, meta->rows});
    } else {
        GX_TRY(put_dense(run, rows, 0, meta->rows, out, err));
    }
    if (gx_sparse_out_end(out) != GX_OK) {
        return gx_fail(err, run->err.code, "%s", run->err.text);
    }
    GX_TRY(gx_store_write_panels(run->ctx->store, &sink->meta, err));
    return gx_store_touch(run->ctx->store, &sink->meta, 0, err);
}

gx_code gx_sparse_append(gx_run *run, gx_meta *meta, const gx_mat *rows, bool is_over_it,
                         bool saturate, gx_err *err)
{
    gx_mem *mem = run->ctx->mem;
    gx_panels panels = *meta->panels;
    void *place;
    size_t bytes = (size_t)panels.count * sizeof *panels.place;
    gx_sink sink = {.run = run,
                    .rows = meta->rows + rows->rows,
                    .cols = meta->cols,
                    .number = gx_meta_number(meta),
                    .dtype = meta->dtype,
                    .saturate = saturate,
                    .is_stored = true,
                    .is_sparse = true,
                    .meta = *meta,
                    .panels = &panels,
                    .panel_capacity = panels.count};
    gx_sparse_out out = {.sink = &sink,
                         .index_bytes = gx_csr_index_bytes(meta->cols),
                         .element = gx_dtype_bytes(meta->dtype),
                         .limit = gx_store_max_tile_bytes(run->ctx->store),
                         .row = meta->rows,
                         .first = meta->rows};
    GX_TRY(gx_mem_alloc(mem, bytes, "directory of panels", &place, err));
    if (bytes > 0) {
        memcpy(place, meta->panels->place, bytes);
    }
    panels.place = place;
    sink.meta.panels = &panels;
    sink.meta.rows = sink.rows;
    sink.meta.tile_rows = gx_max(1, sink.rows);
    sink.meta.is_over = true;
    gx_code code = put_rows(&out, meta, rows, is_over_it, err);
    gx_sparse_out_clear(&out);
    gx_mem_free(mem, panels.place);
    if (code == GX_OK) {
        *meta = sink.meta;
        meta->is_over = false;
        meta->panels = NULL;
    }
    return code;
}
