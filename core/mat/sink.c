/*
** Sinks: where a result is built (see mat.h).
**
** A stored result opens a savepoint at begin (which takes the write lock, so that whatever would
** refuse the result refuses it before the work), writes each tile once, and becomes visible at the
** end.  A value is one BLOB, filled rectangle by rectangle.  An intermediate is a value without a
** length limit, or lies in a file without a name, or is a matrix of the temp database that is
** erased.
**
** Where elements are to be stored as another dtype than they are computed as, gx_sink_write()
** narrows them, and nothing else may write: a value has no data then, and a stored result is no
** gx_sink_is_plain().  Who reads what it has written gets an intermediate, which becomes the result
** when it ends.
*/
#include "mat.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/*
** Whether functions of the application may run until the end, and COMMIT: then the matrix that is
** replaced has to be whole until the new one takes its name, and is not written over.
*/
static bool may_be_committed(const gx_run *run, const gx_dest *dest)
{
    return dest->is_asked_for || run->ctx->config.number[GX_SET_PROGRESS] == GX_PROGRESS_CALLBACK;
}

static void describe(gx_sink *sink)
{
    gx_meta *meta = &sink->meta;
    meta->rows = sink->rows;
    meta->cols = sink->cols;
    meta->dtype = sink->dtype;
    meta->tile_rows = sink->tile_rows;
    meta->tile_cols = sink->tile_cols;
}

/* The matrix under construction, which says what its tiles are. */
static gx_code create(gx_sink *sink, const char *over, gx_err *err)
{
    gx_meta *meta = &sink->meta;
    describe(sink);
    GX_TRY(gx_store_create(sink->run->ctx->store, meta, over, err));
    sink->tile_rows = meta->tile_rows;
    sink->tile_cols = meta->tile_cols;
    return GX_OK;
}

static gx_code begin_stored(gx_run *run, const gx_dest *dest, uint32_t properties, gx_sink *sink)
{
    gx_store *store = run->ctx->store;
    gx_err err = {0};
    gx_meta *meta = &sink->meta;
    if (gx_store_resolve(store, dest->name, meta->schema, sink->name, &err) != GX_OK ||
        gx_store_check_free(store, meta->schema, sink->name, dest->replace, &err) != GX_OK ||
        gx_store_begin(store, meta->schema, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    sink->is_begun = true;
    meta->properties = properties;
    memcpy(meta->name, sink->name, sizeof meta->name);
    bool may_write_over = dest->replace && !may_be_committed(run, dest);
    create(sink, may_write_over ? sink->name : NULL, &err);
    return gx_run_fail(run, &err);
}

/* A sink of numbers that is not begun yet: an intermediate, or dropped. */
static gx_sink sink_of(gx_run *run, int64_t rows, int64_t cols, gx_number number)
{
    return (gx_sink){
        .run = run, .rows = rows, .cols = cols, .number = number, .dtype = gx_dtype_of(number)};
}

/* The application's memory takes the result as it is. */
static gx_code begin_in_memory(gx_sink *sink, const gx_landing *place, gx_err *err)
{
    if (place->rows != sink->rows || place->cols != sink->cols || place->dtype != sink->dtype) {
        return gx_fail(err, GX_ARG, "the destination is %lldx%lld %s but the result %lldx%lld %s",
                       (long long)place->rows, (long long)place->cols, gx_dtype_name(place->dtype),
                       (long long)sink->rows, (long long)sink->cols, gx_dtype_name(sink->dtype));
    }
    sink->is_lent = true;
    sink->value.data = place->data;
    return GX_OK;
}

/* What is written becomes what the call asked for; a value that it does not lie in yet. */
static gx_code begin_value(gx_run *run, const gx_dest *dest, gx_sink *sink, gx_err *err)
{
    gx_store *store = run->ctx->store;
    if (dest != NULL && dest->place != NULL) {
        GX_TRY(begin_in_memory(sink, dest->place, err));
    } else {
        GX_TRY(gx_value_buf_create(run->ctx->mem, sink->dtype, sink->rows, sink->cols,
                                   gx_store_length_limit(store), &sink->value, err));
    }
    if (!gx_sink_is_plain(sink)) {
        sink->narrow = sink->value.data;
        sink->value.data = NULL;
    }
    return sink->tile_rows != 0
               ? GX_OK
               : gx_tile_shape(sink->rows, sink->cols, sink->dtype, gx_store_max_tile_bytes(store),
                               &sink->tile_rows, &sink->tile_cols, err);
}

/* What the elements are stored as: an array of the application's says it by itself. */
static gx_dtype dtype_of(const gx_dest *dest, gx_number number)
{
    if (dest == NULL || dest->has_dtype) {
        return dest == NULL ? gx_dtype_of(number) : dest->dtype;
    }
    return dest->place != NULL && !gx_dtype_is_number(dest->place->dtype) ? dest->place->dtype
                                                                          : gx_dtype_of(number);
}

/* An intermediate of numbers, and behind it the result. */
static gx_code begin_both(gx_run *run, const gx_dest *dest, uint32_t properties,
                          const gx_sink *asked, gx_sink *sink)
{
    gx_dest streamed = *dest;
    gx_sink *final = gx_run_calloc(run, sizeof *sink, "a result");
    if (final == NULL) {
        return run->err.code;
    }
    streamed.is_streamed = true;
    gx_sink_begin(run, &streamed, asked->rows, asked->cols, asked->number, properties, 0, 0, final);
    gx_sink_begin_scratch_tiles(run, asked->rows, asked->cols, asked->number, 0, asked->tile_rows,
                                asked->tile_cols, sink);
    sink->run = run;
    sink->final = final;
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_sink_begin(gx_run *run, const gx_dest *dest, int64_t rows, int64_t cols, gx_number dtype,
                      uint32_t properties, int64_t tile_rows, int64_t tile_cols, gx_sink *sink)
{
    *sink = sink_of(run, rows, cols, dtype);
    if (!gx_ok(run)) {
        return run->err.code;
    }
    sink->tile_rows = tile_rows;
    sink->tile_cols = tile_cols;
    sink->is_stored = dest != NULL && dest->name != NULL;
    sink->replace = dest != NULL && dest->replace;
    sink->saturate = dest != NULL && dest->saturate;
    sink->is_verbatim = dest != NULL && dest->is_verbatim;
    sink->dtype = dtype_of(dest, dtype);
    gx_err err = {0};
    if (!gx_sink_is_plain(sink)) {
        if ((properties & GX_PROP_FACTOR) != 0) {
            gx_fail(&err, GX_ARG, "a factorisation is stored as it is computed (%s), not as %s",
                    gx_number_name(dtype), gx_dtype_name(sink->dtype));
            return gx_run_fail(run, &err);
        }
        if (gx_dtype_takes(sink->dtype, dtype, "the result", &err) != GX_OK) {
            return gx_run_fail(run, &err);
        }
        properties &= ~(uint32_t)(GX_PROP_POSITIVE | GX_PROP_ORTHOGONAL); // rounded away
        if (dest->is_blocked) {
            gx_tile_shape(rows, cols, gx_dtype_of(dtype), gx_store_max_tile_bytes(run->ctx->store),
                          &sink->tile_rows, &sink->tile_cols, &err);
        }
        if (!dest->is_streamed) {
            const gx_sink asked = *sink;
            return begin_both(run, dest, properties, &asked, sink);
        }
    }
    if (sink->is_stored) {
        return begin_stored(run, dest, properties, sink);
    }
    begin_value(run, dest, sink, &err);
    return gx_run_fail(run, &err);
}

gx_code gx_sink_begin_sparse(gx_run *run, const gx_dest *dest, int64_t rows, int64_t cols,
                             gx_number dtype, uint32_t properties, gx_sink *sink)
{
    *sink = sink_of(run, rows, cols, dtype);
    sink->is_sparse = true;
    if (!gx_ok(run)) {
        return run->err.code;
    }
    sink->is_stored = dest != NULL && dest->name != NULL;
    sink->replace = dest != NULL && dest->replace;
    gx_err err = {0};
    size_t bytes;
    if (dtype == GX_M31 || dtype_of(dest, dtype) == GX_DTYPE_M31) {
        return gx_run_failf(run, GX_ARG, "there are no sparse matrices of m31");
    }
    if (!gx_matrix_bytes(rows, cols, dtype, &bytes)) {
        gx_fail(&err, GX_TOOBIG, "a result of %lldx%lld %s: " GX_SIZES_TEXT, (long long)rows,
                (long long)cols, gx_number_name(dtype));
        return gx_run_fail(run, &err);
    }
    if (dest != NULL && dest->place != NULL) {
        gx_fail(
            &err, GX_ARG,
            "the result is a sparse matrix; memory of the application's takes dense matrices only");
        return gx_run_fail(run, &err);
    }
    sink->dtype = dtype_of(dest, dtype);
    sink->saturate = dest != NULL && dest->saturate;
    if (!gx_sink_is_plain(sink) &&
        gx_dtype_takes(sink->dtype, dtype, "the result", &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    if (!sink->is_stored) {
        return GX_OK;
    }
    sink->panels = gx_run_calloc(run, sizeof *sink->panels, "directory of panels");
    if (sink->panels == NULL) {
        return run->err.code;
    }
    sink->meta.is_sparse = true;
    sink->meta.panels = sink->panels;
    return begin_stored(run, dest, properties, sink);
}

gx_code gx_sink_panel(gx_sink *sink, int64_t end, int64_t entries, const void *block, gx_err *err)
{
    gx_panels *panels = sink->panels;
    if (panels->count == sink->panel_capacity) {
        int64_t capacity = gx_max(16, 2 * sink->panel_capacity);
        GX_TRY(gx_mem_realloc(sink->run->ctx->mem, (size_t)capacity * sizeof *panels->place,
                              "directory of panels", &panels->place, err));
        sink->panel_capacity = capacity;
    }
    panels->place[panels->count] = (gx_panel_place){.end = end, .entries = entries};
    panels->count++;
    panels->entries += entries;
    return gx_store_write_tile(sink->run->ctx->store, &sink->meta, panels->count - 1, block, err);
}

gx_code gx_sink_sparse_value(gx_sink *sink, int64_t entries, gx_err *err)
{
    return gx_value_buf_create_sparse(sink->run->ctx->mem, sink->dtype, sink->rows, sink->cols,
                                      entries, gx_store_length_limit(sink->run->ctx->store),
                                      &sink->value, err);
}

static void forget_panels(gx_sink *sink)
{
    if (sink->panels != NULL) {
        gx_mem_free(sink->run->ctx->mem, sink->panels->place);
        gx_mem_free(sink->run->ctx->mem, sink->panels);
        sink->panels = NULL;
        sink->meta.panels = NULL;
    }
}

gx_code gx_sink_aux(gx_sink *sink, gx_aux *aux)
{
    gx_run *run = sink->run;
    if (!gx_ok(run)) {
        return run->err.code;
    }
    gx_err err = {0};
    assert(sink->is_stored && aux->rows == sink->rows && aux->cols == sink->cols);
    assert((sink->meta.properties & GX_PROP_FACTOR) ==
           (uint32_t)(aux->kind == GX_AUX_LU ? GX_PROP_LU : GX_PROP_QR));
    sink->aux = aux;
    gx_store_allows_aux(run->ctx->store, aux->bytes, &err);
    return gx_run_fail(run, &err);
}

void gx_sink_names(gx_sink *sink, int axis, char *names)
{
    gx_sink *final = sink->final != NULL ? sink->final : sink;
    gx_mem *mem = sink->run->ctx->mem;
    gx_mem_free(mem, final->names[axis]);
    final->names[axis] = final->is_stored ? names : NULL;
    if (!final->is_stored) {
        gx_mem_free(mem, names);
    }
}

gx_code gx_sink_take_names(gx_sink *sink, const gx_mat *A)
{
    gx_run *run = sink->run;
    gx_err err = {0};
    bool is_wanted = gx_ok(run) && A->kind == GX_MAT_STORED && A->rows == sink->rows &&
                     A->cols == sink->cols;
    for (int axis = 0; axis < 2 && is_wanted && err.code == GX_OK; axis++) {
        char *names;
        size_t bytes;
        if (gx_store_read_labels(run->ctx->store, &A->meta, axis, &names, &bytes, &err) == GX_OK) {
            gx_sink_names(sink, axis, names);
        }
    }
    return gx_run_fail(run, &err);
}

static void free_names(gx_sink *sink)
{
    for (int axis = 0; axis < 2; axis++) {
        gx_mem_free(sink->run->ctx->mem, sink->names[axis]);
        sink->names[axis] = NULL;
    }
}

/* Make the result visible, with what goes with it. */
static gx_code publish(gx_sink *sink, gx_err *err)
{
    gx_store *store = sink->run->ctx->store;
    if (sink->is_sparse) {
        GX_TRY(gx_store_write_panels(store, &sink->meta, err));
    }
    if (sink->aux != NULL) {
        gx_aux_seal(sink->aux);
        GX_TRY(gx_store_write_aux(store, &sink->meta, sink->aux->blob, sink->aux->bytes, err));
    }
    GX_TRY(gx_store_publish(store, &sink->meta, sink->name, sink->replace, err));
    for (int axis = 0; axis < 2; axis++) {
        if (sink->names[axis] != NULL) {
            GX_TRY(gx_store_write_labels(store, &sink->meta, axis, sink->names[axis],
                                         strlen(sink->names[axis]), err));
        }
    }
    return GX_OK;
}

/* m x n elements that are written at (i, j) to where they are kept. */
static gx_code put(const gx_sink *sink, int64_t i, int64_t j, int64_t m, int64_t n, const void *src,
                   int64_t ld, void *dst, int64_t ld_dst, gx_err *err)
{
    const gx_narrowing to = {.dtype =
                                 gx_sink_is_plain(sink) ? gx_dtype_of(sink->number) : sink->dtype,
                             .saturate = sink->saturate,
                             .i0 = i,
                             .j0 = j};
    return gx_narrow_to(sink->number, src, ld, &to, dst, ld_dst, m, n, err);
}

/* Write one tile that starts at src; packs it when the block is taller than the tile. */
static gx_code write_tile(gx_sink *sink, int64_t ti, int64_t tj, const void *src, int64_t ld,
                          gx_err *err)
{
    const gx_meta *meta = &sink->meta;
    int64_t m = gx_meta_tile_height(meta, ti), n = gx_meta_tile_width(meta, tj);
    if (meta->scratch != NULL) { // by any thread
        size_t element = gx_number_bytes(sink->number);
        const gx_columns columns = {.bytes = (size_t)m * element,
                                    .step = (size_t)m * element,
                                    .count = n,
                                    .dst = (void *)(uintptr_t)src,
                                    .dst_step = (size_t)ld * element};
        return gx_scratch_write(meta, gx_meta_tile(meta, ti, tj), &columns, err);
    }
    if ((ld != m && n > 1) || !gx_sink_is_plain(sink)) {
        if (sink->bounce == NULL) {
            size_t bytes = 0;
            gx_dtype_matrix_bytes(meta->tile_rows, meta->tile_cols, meta->dtype, &bytes);
            GX_TRY(gx_mem_alloc(sink->run->ctx->mem, bytes, "a tile to write", &sink->bounce, err));
        }
        gx_span span = gx_stats_open(&sink->run->ctx->stats);
        GX_TRY(put(sink, ti * meta->tile_rows, tj * meta->tile_cols, m, n, src, ld, sink->bounce, m,
                   err));
        gx_stats_close(&sink->run->ctx->stats, GX_STAT_COPY_NS, span);
        src = sink->bounce;
    }
    return gx_store_write_tile(sink->run->ctx->store, meta, gx_meta_tile(meta, ti, tj), src,
                               err);
}

/* In a file of its own; else in the temp database. */
static gx_code begin_spilled(gx_sink *sink, gx_err *err)
{
    gx_store *store = sink->run->ctx->store;
    gx_meta *meta = &sink->meta;
    bool is_open;
    sink->is_stored = true;
    snprintf(meta->schema, sizeof meta->schema, "temp");
    if (sink->tile_rows == 0) {
        GX_TRY(gx_tile_shape(sink->rows, sink->cols, sink->dtype, gx_store_max_tile_bytes(store),
                             &sink->tile_rows, &sink->tile_cols, err));
    }
    describe(sink);
    GX_TRY(gx_scratch_open(store, meta, &is_open, err));
    if (is_open) {
        return GX_OK;
    }
    GX_TRY(gx_store_begin(store, meta->schema, err));
    sink->is_begun = true;
    return create(sink, NULL, err);
}

bool gx_scratch_fits(gx_run *run, int64_t rows, int64_t cols, gx_number dtype, size_t keep_bytes)
{
    size_t bytes = 0, left = gx_mem_available(run->ctx->mem);
    const size_t SLACK = 256; // what the governor takes itself
    return gx_matrix_bytes(rows, cols, dtype, &bytes) && bytes < left &&
           left - bytes > keep_bytes + SLACK;
}

/*
** In memory or in temp.  Memory of the governor's: a value's is SQLite's, which gives no more than
** 2 GiB at a time.
*/
static gx_code begin_scratch(gx_sink *sink, size_t keep_bytes, gx_err *err)
{
    gx_run *run = sink->run;
    size_t bytes = 0;
    if (!gx_scratch_fits(run, sink->rows, sink->cols, sink->number, keep_bytes)) {
        return begin_spilled(sink, err);
    }
    gx_matrix_bytes(sink->rows, sink->cols, sink->number, &bytes);
    if (sink->tile_rows == 0) {
        GX_TRY(gx_tile_shape(sink->rows, sink->cols, sink->dtype,
                             gx_store_max_tile_bytes(run->ctx->store), &sink->tile_rows,
                             &sink->tile_cols, err));
    }
    return gx_mem_alloc(run->ctx->mem, bytes, "an intermediate matrix", &sink->value.data, err);
}

gx_code gx_sink_write(gx_sink *sink, int64_t i0, int64_t j0, int64_t m, int64_t n, const void *src,
                      int64_t ld, gx_err *err)
{
    if (m == 0 || n == 0 || sink->is_dropped) {
        bool is_taken = m > 0 && n > 0 && sink->take != NULL;
        return is_taken ? sink->take(sink->take_arg, i0, j0, m, n, src, ld, err) : GX_OK;
    }
    if (sink->narrow != NULL) {
        return put(sink, i0, j0, m, n, src, ld,
                   gx_dtype_at(sink->narrow, sink->dtype, sink->rows, i0, j0), sink->rows, err);
    }
    if (!sink->is_stored) {
        gx_convert(sink->number, src, ld, sink->number,
                   gx_at(sink->value.data, sink->number, sink->rows, i0, j0), sink->rows, m, n);
        return GX_OK;
    }
    assert(i0 % sink->tile_rows == 0 && j0 % sink->tile_cols == 0);
    assert((i0 + m) % sink->tile_rows == 0 || i0 + m == sink->rows);
    assert((j0 + n) % sink->tile_cols == 0 || j0 + n == sink->cols);
    for (int64_t j = j0; j < j0 + n; j += sink->tile_cols) {
        for (int64_t i = i0; i < i0 + m; i += sink->tile_rows) {
            GX_TRY(write_tile(sink, i / sink->tile_rows, j / sink->tile_cols,
                              gx_at(src, sink->number, ld, i - i0, j - j0), ld, err));
        }
    }
    return GX_OK;
}

gx_code gx_sink_fill(gx_sink *sink, const gx_mat *from, gx_err *err)
{
    gx_run *run = sink->run;
    gx_reader *reader;
    void *tile;
    size_t bytes = 0;
    gx_matrix_bytes(sink->tile_rows, sink->tile_cols, sink->number, &bytes);
    GX_TRY(gx_mem_alloc(run->ctx->mem, bytes, "a tile of the result", &tile, err));
    gx_code code = gx_reader_own(run->ctx->store, &reader, err);
    int64_t tiles =
        gx_ceil_div(sink->rows, sink->tile_rows) * gx_ceil_div(sink->cols, sink->tile_cols);
    for (int64_t k = 0; k < tiles && code == GX_OK && gx_run_poll(run) == GX_OK; k++) {
        gx_tile_place t = gx_tile_at(sink->rows, sink->cols, sink->tile_rows, sink->tile_cols, k);
        code = gx_mat_read(run, from, reader, t.i0, t.j0, t.m, t.n, sink->number, tile, t.m, err);
        code = code != GX_OK ? code : gx_sink_write(sink, t.i0, t.j0, t.m, t.n, tile, t.m, err);
    }
    gx_reader_close(reader);
    gx_mem_free(run->ctx->mem, tile);
    return code;
}

/* The intermediate to the result behind it. */
static gx_code pass_on(gx_sink *sink, gx_err *err)
{
    gx_mat from;
    if (!sink->is_stored) {
        return gx_sink_write(sink->final, 0, 0, sink->rows, sink->cols, sink->value.data,
                             sink->rows, err);
    }
    gx_sink_source(sink, "the result", &from);
    return gx_sink_fill(sink->final, &from, err);
}

static gx_code end_both(gx_sink *sink)
{
    gx_run *run = sink->run;
    gx_sink *final = sink->final;
    gx_err err = {0};
    if (gx_ok(run)) {
        pass_on(sink, &err);
        gx_run_fail(run, &err);
    }
    gx_sink_drop(sink);
    gx_sink_end(final);
    *sink = *final;
    gx_mem_free(run->ctx->mem, final);
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_sink_end(gx_sink *sink)
{
    gx_run *run = sink->run;
    if (sink->final != NULL) {
        return end_both(sink);
    }
    gx_mem_free(run->ctx->mem, sink->bounce);
    sink->bounce = NULL;
    if (sink->is_begun) {
        gx_err err = {0};
        bool commit = gx_ok(run);
        gx_span span = gx_stats_open(&run->ctx->stats);
        if (commit) {
            commit = publish(sink, &err) == GX_OK;
        }
        gx_store_end(run->ctx->store, commit, &err);
        gx_stats_close(&run->ctx->stats, GX_STAT_WRITE_NS, span);
        sink->is_begun = false;
        gx_run_fail(run, &err);
    }
    forget_panels(sink);
    free_names(sink);
    if (!gx_ok(run)) {
        gx_value_buf_free(run->ctx->mem, &sink->value);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Intermediates -----------------------------------------------------------------------------------

gx_code gx_sink_begin_scratch(gx_run *run, int64_t rows, int64_t cols, gx_number dtype,
                              size_t keep_bytes, gx_sink *sink)
{
    return gx_sink_begin_scratch_tiles(run, rows, cols, dtype, keep_bytes, 0, 0, sink);
}

gx_code gx_sink_begin_scratch_tiles(gx_run *run, int64_t rows, int64_t cols, gx_number dtype,
                                    size_t keep_bytes, int64_t tile_rows, int64_t tile_cols,
                                    gx_sink *sink)
{
    memset(sink, 0, sizeof *sink);
    if (!gx_ok(run)) {
        return run->err.code;
    }
    *sink = sink_of(run, rows, cols, dtype);
    sink->tile_rows = tile_rows;
    sink->tile_cols = tile_cols;
    sink->is_scratch = true;
    gx_err err = {0};
    begin_scratch(sink, keep_bytes, &err);
    return gx_run_fail(run, &err);
}

gx_code gx_sink_begin_lent(gx_run *run, const gx_landing *place, gx_number dtype, gx_sink *sink)
{
    const gx_dest dest = {
        .place = place, .has_dtype = true, .dtype = place->dtype, .is_streamed = true};
    return gx_sink_begin(run, &dest, place->rows, place->cols, gx_dest_number(&dest, dtype), 0, 0,
                         0, sink);
}

void gx_sink_begin_nowhere(gx_run *run, int64_t rows, int64_t cols, gx_number dtype,
                           int64_t tile_rows, int64_t tile_cols, gx_sink *sink)
{
    *sink = sink_of(run, rows, cols, dtype);
    sink->tile_rows = tile_rows;
    sink->tile_cols = tile_cols;
    sink->is_dropped = true;
}

void gx_sink_source(const gx_sink *sink, const char *label, gx_mat *mat)
{
    if (sink->is_stored) {
        gx_mat_stored(mat, &sink->meta);
        snprintf(mat->label, sizeof mat->label, "%s", label);
    } else {
        gx_mat_value(mat, label, sink->number, sink->rows, sink->cols, sink->value.data,
                     gx_max(1, sink->rows));
    }
}

/* Erased by hand: a rollback would undo what other sinks have written since it began. */
void gx_sink_drop(gx_sink *sink)
{
    if (sink->run == NULL) {
        return;
    }
    gx_run *run = sink->run;
    free_names(sink);
    gx_mem_free(run->ctx->mem, sink->bounce);
    sink->bounce = NULL;
    gx_scratch_close(&sink->meta);
    if (sink->is_begun) {
        gx_err err = {0};
        bool commit = gx_ok(run) && gx_store_drop(run->ctx->store, &sink->meta, &err) == GX_OK;
        gx_store_end(run->ctx->store, commit, &err);
        sink->is_begun = false;
        gx_run_fail(run, &err);
    }
    if (sink->is_scratch) {
        gx_mem_free(run->ctx->mem, sink->value.data);
        sink->value.data = NULL;
    }
    gx_value_buf_free(run->ctx->mem, &sink->value);
}
