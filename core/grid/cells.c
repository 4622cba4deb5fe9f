/*
** Batches, and cells in and out of memory: see grid.h, grid_int.h.
**
** Grids lie by columns, as matrices do: bytes of a value are worked on where they lie, what has to
** be converted is so in pieces that fit in a core's cache.
*/
#include "grid_int.h"

#include <math.h>
#include <string.h>

// Batches -----------------------------------------------------------------------------------------

static gx_code make_batch(gx_run *run, const gx_mat *A, int64_t count, gx_grid_batch *batch)
{
    gx_err err = {0};
    *batch = (gx_grid_batch){.label = A->label, .rows = A->rows, .cols = A->cols};
    if (gx_grid_is_of_colours(A, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    size_t bytes;
    if (!gx_dtype_matrix_bytes(count, (int64_t)sizeof *batch->place, GX_DTYPE_U8, &bytes)) {
        return gx_run_failf(run, GX_TOOBIG, "%lld grids are too many", (long long)count);
    }
    batch->place = gx_run_alloc(run, bytes, "a batch of grids");
    batch->count = batch->place == NULL ? 0 : count;
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_grid_batch_one(gx_run *run, const gx_mat *A, gx_grid_batch *batch)
{
    GX_TRY(make_batch(run, A, A->rows > 0 && A->cols > 0 ? 1 : 0, batch));
    if (batch->count == 1) {
        batch->place[0] = (gx_grid_place){0, A->rows, A->cols};
    }
    return GX_OK;
}

gx_code gx_grid_batch_even(gx_run *run, const gx_mat *A, int64_t height, gx_grid_batch *batch)
{
    *batch = (gx_grid_batch){0};
    if (height < 1) {
        return gx_run_failf(run, GX_ARG, "grids have a row or more, not %lld", (long long)height);
    }
    if (A->rows % height != 0) {
        return gx_run_failf(run, GX_ARG,
                            "%s has %lld rows, which are no whole number of grids of %lld",
                            A->label, (long long)A->rows, (long long)height);
    }
    GX_TRY(make_batch(run, A, A->cols > 0 ? A->rows / height : 0, batch));
    for (int64_t k = 0; k < batch->count; k++) {
        batch->place[k] = (gx_grid_place){k * height, height, A->cols};
    }
    return GX_OK;
}

/* Rows k .. k + count - 1 of the table, by columns in x, as places. */
static gx_code take_places(gx_grid_batch *batch, int64_t k, int64_t count, const double *x,
                           gx_err *err)
{
    for (int64_t r = 0; r < count; r++) {
        const double row = x[r], rows = x[r + count], cols = x[r + 2 * count];
        const gx_grid_place *last = k + r == 0 ? NULL : &batch->place[k + r - 1];
        double free = last == NULL ? 0 : (double)(last->row + last->rows);
        bool is_whole = floor(row) == row && floor(rows) == rows && floor(cols) == cols;
        bool is_inside = rows >= 1 && cols >= 1 && row >= 0 && cols <= (double)batch->cols &&
                         row <= (double)batch->rows && rows <= (double)batch->rows - row;
        if (!is_whole || !is_inside || row < free) {
            return gx_fail(
                err, GX_ARG, "row %lld of the grids is (%g, %g, %g): %s (first row, rows, cols) %s",
                (long long)(k + r), row, rows, cols, is_whole && is_inside ? "each grid" : "a grid",
                !is_whole    ? "is of whole numbers"
                : !is_inside ? "has a cell or more, all of them in the matrix"
                             : "begins behind the one before it");
        }
        batch->place[k + r] = (gx_grid_place){(int64_t)row, (int64_t)rows, (int64_t)cols};
    }
    return GX_OK;
}

typedef struct table_scan {
    const gx_mat *table;
    gx_grid_batch *batch;
} table_scan;

enum { TABLE_ROWS = 1 << 14 }; /* of a unit */

static gx_code read_places(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                           gx_err *err)
{
    const table_scan *s = arg;
    int64_t k = unit * TABLE_ROWS, count = gx_min(TABLE_ROWS, s->table->rows - k);
    (void)work;
    return gx_pass_read(thread, s->table, k, 0, count, 3, GX_F64, part, count, err);
}

static gx_code fold_places(void *arg, int64_t unit, void *part, gx_err *err)
{
    const table_scan *s = arg;
    int64_t k = unit * TABLE_ROWS;
    return take_places(s->batch, k, gx_min(TABLE_ROWS, s->table->rows - k), part, err);
}

gx_code gx_grid_batch_table(gx_run *run, const gx_mat *A, const gx_mat *table, gx_grid_batch *batch)
{
    *batch = (gx_grid_batch){0};
    if (table->cols != 3 || table->is_sparse || gx_number_is_complex(table->number) ||
        table->number == GX_M31) {
        return gx_run_failf(run, GX_ARG,
                            "the grids are %lldx%lld %s, but must be a dense matrix of real "
                            "numbers with 3 columns: first row, rows, cols",
                            (long long)table->rows, (long long)table->cols,
                            gx_dtype_name(table->dtype));
    }
    GX_TRY(make_batch(run, A, table->rows, batch));
    table_scan s = {.table = table, .batch = batch};
    gx_pass pass = {.sources = &s.table,
                    .source_count = 1,
                    .units = gx_ceil_div(table->rows, TABLE_ROWS),
                    .bytes = 3.0 * sizeof(double) * (double)table->rows,
                    .flops = 10.0 * (double)table->rows,
                    .part_bytes = 3 * sizeof(double) * TABLE_ROWS,
                    .work = read_places,
                    .fold = fold_places,
                    .arg = &s};
    return table->rows == 0 ? GX_OK : gx_pass_run(run, &pass);
}

// Reading -----------------------------------------------------------------------------------------

gx_code gx_grid_is_of_colours(const gx_mat *A, gx_err *err)
{
    const char *why = A->is_sparse                      ? "sparse (gx_dense makes it dense)"
                      : gx_number_is_complex(A->number) ? "complex"
                      : A->number == GX_M31             ? "of m31"
                                                        : NULL;
    return why == NULL ? GX_OK
                       : gx_fail(err, GX_ARG, "%s is %s: grids are of whole numbers of 32 bits",
                                 A->label, why);
}

enum { CHUNK = GX_PASS_CHUNK_BYTES / (int)sizeof(double) }; /* numbers */

/* Columns to read, or to write, at a time. */
static int64_t chunk_cols(int64_t rows, int64_t cols)
{
    return gx_max(1, gx_min(cols, CHUNK / gx_max(1, rows)));
}

size_t gx_grid_chunk_bytes(int64_t rows, int64_t cols)
{
    return (size_t)gx_min(rows * cols, gx_max(CHUNK, rows)) * sizeof(double);
}

/*
** count numbers as colours; false: there is one that is none.  A whole number below 2^51 that is
** added to 3 2^51 stands in the sum's last bits; of what is none, they are another number.
*/
#define DEFINE_COLOURS(name, real)                                                                 \
    static bool colours_##name(const real *from, int64_t count, int32_t *to)                       \
    {                                                                                              \
        int is_good = 1;                                                                           \
        for (int64_t k = 0; k < count; k++) {                                                      \
            double x = (double)from[k], sum = x + 0x1.8p52;                                        \
            uint64_t bits;                                                                         \
            memcpy(&bits, &sum, sizeof bits);                                                      \
            to[k] = (int32_t)(uint32_t)bits;                                                       \
            is_good &= ((double)to[k] == x) & (to[k] != INT32_MIN);                                \
        }                                                                                          \
        return is_good;                                                                            \
    }                                                                                              \
    static void numbers_##name(const int32_t *from, int64_t count, bool is_unsigned, real *to)     \
    {                                                                                              \
        for (int64_t k = 0; k < count && is_unsigned; k++) {                                       \
            to[k] = (real)(uint32_t)from[k];                                                       \
        }                                                                                          \
        for (int64_t k = 0; k < count && !is_unsigned; k++) {                                      \
            to[k] = (real)from[k];                                                                 \
        }                                                                                          \
    }

DEFINE_COLOURS(f64, double)
DEFINE_COLOURS(f32, float)

/* GX_ARG names the first of the m cells from (i0, j) on that is no colour. */
static gx_code refuse(const gx_mat *A, const void *x, int64_t i0, int64_t j, int64_t m, gx_err *err)
{
    for (int64_t i = 0; i < m; i++) {
        double value =
            gx_number_is_double(A->number) ? ((const double *)x)[i] : ((const float *)x)[i];
        if (!(fabs(value) < 0x1p31) || floor(value) != value) {
            return gx_fail(err, GX_ARG,
                           "%s has %.17g at (%lld, %lld): a colour is a whole number of 32 bits",
                           A->label, value, (long long)(i0 + i), (long long)j);
        }
    }
    return GX_OK;
}

/* Rows in one row of tiles, which are read from their beginning to their end; ld: of room. */
static gx_code read_band(gx_pass_thread *thread, const gx_mat *A, gx_tile_place t, void *chunk,
                         int32_t *room, int64_t ld, gx_err *err)
{
    int64_t most = chunk_cols(t.m, t.n), step;
    for (int64_t j0 = 0; j0 < t.n; j0 += most) {
        int64_t n = gx_min(most, t.n - j0);
        const void *from;
        GX_TRY(gx_pass_take(thread, A, t.i0, t.j0 + j0, t.m, n, gx_dtype_of(A->number), chunk,
                            &from, &step, err));
        for (int64_t j = 0; j < n; j++) {
            const void *x = gx_at(from, A->number, step, 0, j);
            int32_t *to = room + (j0 + j) * ld;
            if (!(gx_number_is_double(A->number) ? colours_f64(x, t.m, to)
                                                 : colours_f32(x, t.m, to))) {
                return refuse(A, x, t.i0, t.j0 + j0 + j, t.m, err);
            }
        }
    }
    return GX_OK;
}

gx_code gx_grid_read(gx_pass_thread *thread, const gx_mat *A, int64_t i0, int64_t m, void *chunk,
                     int32_t *room, gx_grid_cells *cells, gx_err *err)
{
    int64_t height = gx_max(1, A->tile_rows);
    *cells = (gx_grid_cells){.at = room, .ld = m, .end = room + m * A->cols};
    if (gx_mat_narrow(A, A->number) == GX_DTYPE_U8) {
        cells->are_bytes = true;
        GX_TRY(gx_pass_take(thread, A, i0, 0, m, A->cols, GX_DTYPE_U8, room, &cells->at, &cells->ld,
                            err));
        cells->end = (const char *)cells->at + (A->cols - 1) * cells->ld + m;
        return GX_OK;
    }
    for (int64_t i = i0, rows; i < i0 + m; i += rows) {
        rows = gx_min(i0 + m, (i / height + 1) * height) - i;
        gx_tile_place band = {.i0 = i, .m = rows, .n = A->cols};
        GX_TRY(read_band(thread, A, band, chunk, room + (i - i0), m, err));
    }
    return GX_OK;
}

void gx_grid_colours(const gx_grid_cells *cells, int64_t rows, int64_t cols, int32_t *to,
                     int64_t ld)
{
    for (int64_t j = 0; j < cols; j++, to += ld) {
        const uint8_t *bytes = (const uint8_t *)cells->at + j * cells->ld;
        const int32_t *colours = (const int32_t *)cells->at + j * cells->ld;
        for (int64_t i = 0; i < rows && cells->are_bytes; i++) {
            to[i] = bytes[i];
        }
        if (!cells->are_bytes) {
            memcpy(to, colours, (size_t)rows * sizeof *to);
        }
    }
}

typedef struct load_scan {
    const gx_mat *A;
    int64_t height, width; /* of a unit: a tile, or as much as is worth a unit */
    int32_t *to;
} load_scan;

static gx_code load_tile(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                         gx_err *err)
{
    const load_scan *s = arg;
    gx_tile_place t = gx_tile_at(s->A->rows, s->A->cols, s->height, s->width, unit);
    (void)part;
    return read_band(thread, s->A, t, work, s->to + t.i0 + t.j0 * s->A->rows, s->A->rows, err);
}

int32_t *gx_grid_load(gx_run *run, const gx_mat *A)
{
    enum { UNIT_CELLS = 1 << 18 };
    gx_err err = {0};
    size_t bytes;
    if (gx_grid_is_of_colours(A, &err) != GX_OK ||
        !gx_dtype_matrix_bytes(A->rows, A->cols, GX_DTYPE_I32, &bytes)) {
        gx_fail(&err, err.code == GX_OK ? GX_TOOBIG : err.code, "%s",
                err.code == GX_OK ? "the grid is too large" : err.text);
        gx_run_fail(run, &err);
        return NULL;
    }
    load_scan s = {.A = A, .height = gx_max(1, gx_min(A->rows, A->tile_rows))};
    s.width = gx_max(1, gx_min(A->cols, A->tile_cols));
    if (gx_mat_base_stored(A) == NULL) {
        s.height = gx_min(s.height, UNIT_CELLS);
        s.width = gx_max(1, gx_min(s.width, UNIT_CELLS / s.height));
    }
    s.to = gx_run_alloc(run, bytes, "a grid");
    if (s.to == NULL || bytes == 0) {
        return s.to;
    }
    gx_pass pass = {.sources = &s.A,
                    .source_count = 1,
                    .units = gx_ceil_div(A->rows, s.height) * gx_ceil_div(A->cols, s.width),
                    .bytes = (double)bytes,
                    .flops = (double)bytes,
                    .work_bytes = gx_grid_chunk_bytes(s.height, s.width),
                    .work = load_tile,
                    .arg = &s};
    if (gx_pass_run(run, &pass) != GX_OK) {
        gx_mem_free(run->ctx->mem, s.to);
        return NULL;
    }
    return s.to;
}

// Writing -----------------------------------------------------------------------------------------

int32_t *gx_grid_labels_in(const gx_grid_out *out)
{
    const gx_sink *sink = out->sink;
    bool is_there = !sink->is_stored && sink->narrow != NULL && sink->dtype == GX_DTYPE_U32;
    return out->is_unsigned && is_there ? sink->narrow : NULL;
}

/* count cells as the sink's numbers. */
static void numbers_of(const int32_t *cells, int64_t count, const gx_grid_out *out, void *to)
{
    if (gx_number_is_double(out->sink->number)) {
        numbers_f64(cells, count, out->is_unsigned, to);
    } else {
        numbers_f32(cells, count, out->is_unsigned, to);
    }
}

gx_code gx_grid_give(const gx_grid_out *out, int64_t i0, int64_t m, const int32_t *cells,
                     void *chunk, void *part, gx_err *err)
{
    gx_sink *sink = out->sink;
    bool is_direct = gx_grid_is_direct(out);
    int64_t most = chunk_cols(m, sink->cols);
    int32_t *labels = gx_grid_labels_in(out);
    if (labels != NULL) {
        for (int64_t j = 0; j < sink->cols; j++) {
            memcpy(labels + i0 + j * sink->rows, cells + j * m, (size_t)m * sizeof *cells);
        }
        return GX_OK;
    }
    for (int64_t j = 0; j < sink->cols; j += most) {
        int64_t n = gx_min(most, sink->cols - j);
        void *to = is_direct ? chunk : gx_at(part, sink->number, m, 0, j);
        numbers_of(cells + j * m, m * n, out, to);
        if (is_direct) {
            GX_TRY(gx_sink_write(sink, i0, j, m, n, to, m, err));
        }
    }
    return GX_OK;
}

gx_code gx_grid_put(gx_grid_out *out, int64_t m, const void *part, gx_err *err)
{
    gx_sink *sink = out->sink;
    int64_t height = sink->tile_rows;
    if (out->filled == 0 && (m % height == 0 || out->written + m == sink->rows)) {
        out->written += m;
        return gx_sink_write(sink, out->written - m, 0, m, sink->cols, part, m, err);
    }
    if (out->rows == NULL) {
        size_t bytes = 0;
        gx_matrix_bytes(height, sink->cols, sink->number, &bytes);
        GX_TRY(gx_mem_alloc(out->run->ctx->mem, bytes, "a row of tiles", &out->rows, err));
    }
    for (int64_t done = 0; done < m;) {
        int64_t take = gx_min(height - out->filled, m - done);
        gx_convert(sink->number, gx_at(part, sink->number, m, done, 0), m, sink->number,
                   gx_at(out->rows, sink->number, height, out->filled, 0), height, take,
                   sink->cols);
        done += take;
        out->filled += take;
        if (out->filled == height || out->written + out->filled == sink->rows) {
            GX_TRY(gx_sink_write(sink, out->written, 0, out->filled, sink->cols, out->rows, height,
                                 err));
            out->written += out->filled;
            out->filled = 0;
        }
    }
    return GX_OK;
}

// Units -------------------------------------------------------------------------------------------

/* Counts them; where row is there, notes them. */
static void cut(const gx_grid_batch *batch, int64_t target, gx_grid_units *u)
{
    int64_t begin = 0, k = 0;
    u->count = u->most_rows = u->most_cells = 0;
    while (begin < batch->rows) {
        int64_t end = begin, first = k;
        for (; k < batch->count; k++) { // grids that end in time, and one that stands alone
            const gx_grid_place *p = &batch->place[k];
            bool is_first = end == begin && p->row == begin;
            if (!is_first && p->row + p->rows - begin > target) {
                break;
            }
            end = p->row + p->rows;
            u->most_cells = gx_max(u->most_cells, p->rows * p->cols);
        }
        int64_t next = k < batch->count ? batch->place[k].row : batch->rows;
        end = gx_max(end, gx_min(next, begin + target)); // what lies between grids
        if (u->row != NULL) {
            u->row[u->count] = begin;
            u->grid[u->count] = first;
            u->row[u->count + 1] = end;
            u->grid[u->count + 1] = k;
        }
        u->count++;
        u->most_rows = gx_max(u->most_rows, end - begin);
        begin = end;
    }
}

gx_code gx_grid_cut(gx_run *run, const gx_grid_batch *batch, int64_t cells, gx_grid_units *units)
{
    enum { UNITS = 8, LEAST = 1 << 12 }; // of little: enough for a team, none too small
    int64_t least = gx_max(LEAST / gx_max(1, batch->cols), batch->rows / UNITS);
    int64_t target = gx_max(1, gx_min(cells / gx_max(1, batch->cols), least));
    *units = (gx_grid_units){0};
    cut(batch, target, units);
    if (units->most_cells >= INT32_MAX ||
        (batch->cols > 0 && units->most_rows > INT64_MAX / 64 / batch->cols)) {
        return gx_run_failf(run, GX_TOOBIG, "a grid of %s has %lld cells, more than 2^31 - 2",
                            batch->label, (long long)units->most_cells);
    }
    int64_t *memory =
        gx_run_alloc(run, (size_t)(2 * (units->count + 1)) * sizeof *memory, "a batch of grids");
    if (memory == NULL) {
        return run->err.code;
    }
    units->row = memory;
    units->grid = memory + units->count + 1;
    memory[0] = units->grid[0] = 0;
    cut(batch, target, units);
    return GX_OK;
}

gx_grid_cells gx_grid_cells_at(const gx_grid_cells *cells, int64_t i)
{
    gx_grid_cells from = *cells;
    from.at = (const char *)from.at + i * (from.are_bytes ? 1 : (int64_t)sizeof(int32_t));
    return from;
}

const int32_t *gx_grid_take(const gx_grid_place *p, int64_t i0, const gx_grid_cells *cells,
                            int32_t *room)
{
    gx_grid_cells own = gx_grid_cells_at(cells, p->row - i0);
    if (own.ld == p->rows && !own.are_bytes) {
        return own.at;
    }
    gx_grid_colours(&own, p->rows, p->cols, room, p->rows);
    return room;
}

void gx_grid_return(const gx_grid_place *p, int64_t i0, int64_t rows, const int32_t *grid,
                    int32_t *unit)
{
    int32_t *to = unit + (p->row - i0);
    for (int64_t j = 0; j < p->cols && to != grid; j++) {
        memcpy(to + j * rows, grid + j * p->rows, (size_t)p->rows * sizeof *to);
    }
}

// Shares ------------------------------------------------------------------------------------------

typedef struct shares {
    const gx_grid_piece *p;
    int64_t height, width;
    gx_grid_share fn;
    void *arg;
    gx_grid_out *out;
} shares;

static shares cut_shares(const gx_grid_piece *p, gx_grid_shape shape)
{
    enum { CELLS = 1 << 16, LEAST_ROWS = 16 }; // a cache line of a column
    int64_t rows = gx_max(1, p->rows);
    shares s = {.p = p, .height = rows, .width = gx_max(1, p->cols)}; // of nothing: no shares
    if (shape == GX_GRID_ROWS) {
        s.height = gx_max(LEAST_ROWS, gx_min(CELLS / s.width, GX_GRID_LINES));
    } else {
        s.height = shape == GX_GRID_CELLS ? gx_min(rows, GX_GRID_TALL) : rows;
        s.width = gx_max(1, gx_min(CELLS / s.height, GX_GRID_LINES));
    }
    return s;
}

static int64_t count_shares(const shares *s)
{
    return gx_ceil_div(s->p->rows, s->height) * gx_ceil_div(s->p->cols, s->width);
}

static gx_code work_on_share(void *arg, int64_t k, int member, gx_err *err)
{
    const shares *s = arg;
    gx_tile_place t = gx_tile_at(s->p->rows, s->p->cols, s->height, s->width, k);
    (void)member, (void)err;
    s->fn(s->p, (gx_grid_window){t.i0, t.i0 + t.m, t.j0, t.j0 + t.n}, s->arg);
    return GX_OK;
}

void gx_grid_each(const gx_grid_piece *p, gx_grid_shape shape, gx_grid_share fn, void *arg)
{
    shares s = cut_shares(p, shape);
    s.fn = fn;
    s.arg = arg;
    if (p->is_alone) {
        gx_run_pieces(p->run, (double)p->rows * (double)p->cols, count_shares(&s), work_on_share,
                      &s);
    }
    for (int64_t k = 0; !p->is_alone && k < count_shares(&s); k++) {
        work_on_share(&s, k, 0, NULL);
    }
}

static gx_code write_share(void *arg, int64_t k, int member, gx_err *err)
{
    const shares *s = arg;
    gx_sink *sink = s->out->sink;
    gx_tile_place t = gx_tile_at(s->p->rows, s->p->cols, s->height, s->width, k);
    double column[GX_GRID_TALL];
    (void)member;
    for (int64_t j = t.j0; j < t.j0 + t.n; j++) {
        const int32_t *from = s->p->out + t.i0 + j * s->p->rows;
        if (sink->narrow == NULL && !sink->is_dropped) {
            void *data = sink->value.data;
            numbers_of(from, t.m, s->out, gx_at(data, sink->number, sink->rows, t.i0, j));
            continue;
        }
        numbers_of(from, t.m, s->out, column);
        GX_TRY(gx_sink_write(sink, t.i0, j, t.m, 1, column, t.m, err));
    }
    return GX_OK;
}

/* The part: a row of tiles. */
static gx_code take_rows(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                         gx_err *err)
{
    const shares *s = arg;
    int64_t i0 = unit * s->height, m = gx_min(s->height, s->p->rows - i0);
    (void)thread, (void)work, (void)err;
    for (int64_t j = 0; j < s->p->cols; j++) {
        numbers_of(s->p->out + i0 + j * s->p->rows, m, s->out,
                   gx_at(part, s->out->sink->number, m, 0, j));
    }
    return GX_OK;
}

static gx_code put_rows(void *arg, int64_t unit, void *part, gx_err *err)
{
    const shares *s = arg;
    return gx_grid_put(s->out, gx_min(s->height, s->p->rows - unit * s->height), part, err);
}

void gx_grid_give_all(const gx_grid_piece *p, gx_grid_out *out)
{
    shares s = cut_shares(p, GX_GRID_CELLS);
    double cells = (double)p->rows * (double)p->cols;
    s.out = out;
    if (p->out == gx_grid_labels_in(out)) {
        return;
    }
    if (gx_grid_is_direct(out)) {
        gx_run_pieces(p->run, cells, count_shares(&s), write_share, &s);
        return;
    }
    s.height = out->sink->tile_rows;
    gx_pass pass = {.units = gx_ceil_div(p->rows, s.height),
                    .bytes = cells * sizeof *p->out,
                    .flops = cells,
                    .part_bytes = (size_t)(s.height * p->cols) * gx_number_bytes(out->sink->number),
                    .work = take_rows,
                    .fold = put_rows,
                    .is_callers = true,
                    .writes = out->sink->meta.schema,
                    .arg = &s};
    gx_pass_run(p->run, &pass);
}
