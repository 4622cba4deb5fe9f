/*
** Fused programs over matrices of any size: one streamed pass (pass.h) on the host, or a program of
** one call a block where a device is predicted to be faster.
**
** On the host a unit is a tile of a stored result, else a tile of a stored operand, else some
** columns.  The thread that takes it reads the operands a chunk at a time, small enough for the
** core's own cache, and runs the program over it; operands in memory are used where they are, also
** spread and transposed ones.  Results in memory are written where they belong; tiles of stored
** ones are the unit's part, and so are folds, which go into the totals in the order of the units:
** the same bits whatever the number of threads.
**
** I/O: every tile of every operand once, every tile of the results once.  Results whose tiles are
** of different shapes are made one after the other, each in a pass of its own.
*/
#include "../exec/pass.h"
#include "../exec/place.h"
#include "alg.h"

#include <string.h>

/* Of an operand in memory, by one thread at a time. */
static const int64_t PIECE_BYTES = 1 << 20;

/* Columns are cut below so many rows. */
static const int64_t ROWS_MOST = 1 << 16;

/* A chunk is not cut further than this for lack of memory. */
static const int64_t CHUNK_LEAST = 1 << 10;

typedef struct fusion {
    gx_run *run;
    const gx_fused *f;
    const gx_mat *const *source;
    gx_sink *const *sink;
    gx_kernel kernel;
    gx_dev *dev;
    int64_t rows, cols;
    int64_t unit_rows, unit_cols, row_units;
    int64_t chunk_rows, chunk_cols;
    size_t read_at[GX_FUSED_INPUTS];   /* in a thread's memory: what is read of an operand   */
    size_t lines_at[GX_FUSED_OUTPUTS]; /* there: a chunk's fold                              */
    size_t kernel_at;                  /* there: the kernel's own                            */
    size_t part_at[GX_FUSED_OUTPUTS];  /* in a part: a tile, or a unit's fold                */
    double *total[GX_FUSED_OUTPUTS];   /* of folds                                           */
} fusion;

typedef struct rectangle {
    int64_t i, j, m, n;
} rectangle;

// Operands ----------------------------------------------------------------------------------------

/* An operand of one row (column) where there are more is the same for all of them. */
static bool spreads_down(const fusion *x, const gx_mat *s)
{
    return s->rows == 1 && x->rows != 1;
}

static bool spreads_across(const fusion *x, const gx_mat *s)
{
    return s->cols == 1 && x->cols != 1;
}

/* Element (0, 0) and the steps of an operand that the kernel can use where it is. */
static bool find_in_memory(const fusion *x, const gx_mat *s, gx_fused_place *at)
{
    const gx_mat *base = s->kind == GX_MAT_VIEW ? s->base : s;
    bool is_turned = s->kind == GX_MAT_VIEW && s->trans != GX_NO_TRANS;
    bool is_conjugated = is_turned && s->trans == GX_CONJ_TRANS && gx_number_is_complex(s->number);
    if (base->kind != GX_MAT_VALUE || base->number != x->f->dtype || is_conjugated) {
        return false;
    }
    int64_t row0 = s->kind == GX_MAT_VIEW ? s->row0 : 0,
            col0 = s->kind == GX_MAT_VIEW ? s->col0 : 0;
    at->data = is_turned ? gx_at(base->data, base->number, base->ld, col0, row0)
                         : gx_at(base->data, base->number, base->ld, row0, col0);
    at->row = spreads_down(x, s) ? 0 : is_turned ? base->ld : 1;
    at->col = spreads_across(x, s) ? 0 : is_turned ? 1 : base->ld;
    return true;
}

/* The part of an operand that a rectangle needs. */
static rectangle needed_of(const fusion *x, const gx_mat *s, const rectangle *r)
{
    bool is_down = spreads_down(x, s), is_across = spreads_across(x, s);
    return (rectangle){.i = is_down ? 0 : r->i,
                       .j = is_across ? 0 : r->j,
                       .m = is_down ? 1 : r->m,
                       .n = is_across ? 1 : r->n};
}

static gx_code place_operands(const fusion *x, const rectangle *r, gx_pass_thread *thread,
                              char *work, gx_fused_place in[GX_FUSED_INPUTS], gx_err *err)
{
    gx_number dtype = x->f->dtype;
    int64_t bytes = (int64_t)gx_number_bytes(dtype);
    for (int k = 0; k < x->f->inputs; k++) {
        const gx_mat *s = x->source[k];
        if (find_in_memory(x, s, &in[k])) {
            in[k].data = (char *)in[k].data + (r->i * in[k].row + r->j * in[k].col) * bytes;
            continue;
        }
        rectangle need = needed_of(x, s, r);
        const void *data;
        int64_t ld;
        GX_TRY(gx_pass_take(thread, s, need.i, need.j, need.m, need.n, gx_dtype_of(dtype),
                            work + x->read_at[k], &data, &ld, err));
        in[k] = (gx_fused_place){.data = (void *)data, // an operand is only read
                                 .row = spreads_down(x, s) ? 0 : 1,
                                 .col = spreads_across(x, s) ? 0 : ld};
    }
    return GX_OK;
}

// Results -----------------------------------------------------------------------------------------

static gx_fold fold_of(const fusion *x, int output)
{
    return (gx_fold)x->f->output[output].fold;
}

/* Is the result made where it belongs? */
static bool is_direct(const fusion *x, int output)
{
    const gx_sink *C = x->sink[output];
    return fold_of(x, output) == GX_FOLD_NONE && !C->is_stored && C->value.data != NULL;
}

static bool is_tile(const fusion *x, int output)
{
    return fold_of(x, output) == GX_FOLD_NONE && !is_direct(x, output);
}

/* Lines of a fold before the one of element (i, j), as doubles. */
static int64_t lines_before(const fusion *x, int output, int64_t i, int64_t j)
{
    gx_fold_of of = (gx_fold_of)x->f->output[output].fold_of;
    int64_t lines = of == GX_FOLD_OF_ALL ? 0 : of == GX_FOLD_OF_ROWS ? i : j;
    return lines * gx_fold_width(fold_of(x, output));
}

static int64_t doubles_of(const fusion *x, int output, int64_t m, int64_t n)
{
    return gx_fold_doubles(fold_of(x, output), (gx_fold_of)x->f->output[output].fold_of, m, n);
}

static size_t fold_bytes(const fusion *x, int output, int64_t m, int64_t n)
{
    return (size_t)doubles_of(x, output, m, n) * sizeof(double);
}

static int64_t lines_of(const fusion *x, int output, int64_t m, int64_t n)
{
    return doubles_of(x, output, m, n) / gx_fold_width(fold_of(x, output));
}

static rectangle unit_of(const fusion *x, int64_t unit)
{
    int64_t i = unit % x->row_units * x->unit_rows, j = unit / x->row_units * x->unit_cols;
    return (rectangle){i, j, gx_min(x->unit_rows, x->rows - i), gx_min(x->unit_cols, x->cols - j)};
}

/* The program over the chunk r of the unit u. */
static gx_code run_chunk(const fusion *x, const rectangle *u, const rectangle *r,
                         gx_pass_thread *thread, char *work, char *part, gx_err *err)
{
    gx_fused_place in[GX_FUSED_INPUTS], out[GX_FUSED_OUTPUTS];
    double *fold[GX_FUSED_OUTPUTS];
    gx_args args = {.m = r->m, .n = r->n, .fused = x->f, .in = in, .out = out, .fold = fold};
    args.work = work + x->kernel_at;
    GX_TRY(place_operands(x, r, thread, work, in, err));
    for (int k = 0; k < x->f->outputs; k++) {
        const gx_sink *C = x->sink[k];
        fold[k] = (double *)(work + x->lines_at[k]);
        out[k] =
            is_direct(x, k)
                ? (gx_fused_place){gx_at(C->value.data, C->number, x->rows, r->i, r->j), 1, x->rows}
                : (gx_fused_place){
                      gx_at(part + x->part_at[k], C->number, u->m, r->i - u->i, r->j - u->j), 1,
                      u->m};
    }
    GX_TRY(x->kernel(x->dev, NULL, &args, err));
    for (int k = 0; k < x->f->outputs; k++) {
        if (fold_of(x, k) != GX_FOLD_NONE) {
            double *lines = (double *)(part + x->part_at[k]);
            gx_fold_add(fold_of(x, k), lines_of(x, k, r->m, r->n),
                        lines + lines_before(x, k, r->i - u->i, r->j - u->j), fold[k]);
        }
    }
    return GX_OK;
}

static gx_code run_unit(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                        gx_err *err)
{
    const fusion *x = arg;
    rectangle u = unit_of(x, unit);
    for (int k = 0; k < x->f->outputs; k++) {
        if (fold_of(x, k) != GX_FOLD_NONE) {
            gx_fold_start(fold_of(x, k), lines_of(x, k, u.m, u.n),
                          (double *)((char *)part + x->part_at[k]));
        }
    }
    for (int64_t j = u.j; j < u.j + u.n; j += x->chunk_cols) {
        for (int64_t i = u.i; i < u.i + u.m && gx_ok(x->run); i += x->chunk_rows) {
            rectangle r = {i, j, gx_min(x->chunk_rows, u.i + u.m - i),
                           gx_min(x->chunk_cols, u.j + u.n - j)};
            GX_TRY(run_chunk(x, &u, &r, thread, work, part, err));
        }
    }
    return GX_OK;
}

static gx_code fold_unit(void *arg, int64_t unit, void *part, gx_err *err)
{
    const fusion *x = arg;
    rectangle u = unit_of(x, unit);
    for (int k = 0; k < x->f->outputs; k++) {
        char *at = (char *)part + x->part_at[k];
        if (is_tile(x, k)) {
            GX_TRY(gx_sink_write(x->sink[k], u.i, u.j, u.m, u.n, at, u.m, err));
        } else if (fold_of(x, k) != GX_FOLD_NONE) {
            gx_fold_add(fold_of(x, k), lines_of(x, k, u.m, u.n),
                        x->total[k] + lines_before(x, k, u.i, u.j), (double *)at);
        }
    }
    return GX_OK;
}

// Planning ----------------------------------------------------------------------------------------

/* Tiles of a stored result, or of a stored operand; columns where nothing has tiles. */
static void choose_units(fusion *x)
{
    int64_t element = (int64_t)gx_number_bytes(x->f->dtype);
    x->unit_rows = gx_min(x->rows, ROWS_MOST);
    x->unit_cols = gx_max(1, PIECE_BYTES / element / x->unit_rows);
    for (int k = 0; k < x->f->inputs; k++) {
        const gx_mat *s = x->source[k];
        if (gx_mat_base_stored(s) != NULL && s->rows == x->rows && s->cols == x->cols) {
            x->unit_rows = s->tile_rows;
            x->unit_cols = s->tile_cols;
        }
    }
    for (int k = 0; k < x->f->outputs; k++) {
        if (is_tile(x, k)) {
            x->unit_rows = x->sink[k]->tile_rows;
            x->unit_cols = x->sink[k]->tile_cols;
        }
    }
    x->row_units = gx_ceil_div(x->rows, x->unit_rows);
}

/* A thread's memory for chunks of so many elements. */
static size_t lay_out_work(fusion *x, int64_t elements, size_t kernel_bytes)
{
    size_t at = 0, element = gx_number_bytes(x->f->dtype);
    x->chunk_rows = gx_min(gx_min(x->unit_rows, x->rows), elements);
    x->chunk_cols = gx_max(1, gx_min(gx_min(x->unit_cols, x->cols), elements / x->chunk_rows));
    for (int k = 0; k < x->f->inputs; k++) {
        gx_fused_place there;
        rectangle all = {0, 0, x->chunk_rows, x->chunk_cols};
        rectangle need = needed_of(x, x->source[k], &all);
        x->read_at[k] = at;
        bool is_there = find_in_memory(x, x->source[k], &there);
        at += is_there ? 0 : gx_whole_lines((size_t)(need.m * need.n) * element);
    }
    for (int k = 0; k < x->f->outputs; k++) {
        x->lines_at[k] = at;
        at += gx_whole_lines(fold_bytes(x, k, x->chunk_rows, x->chunk_cols));
    }
    x->kernel_at = at;
    return at + gx_whole_lines(kernel_bytes);
}

static size_t lay_out_part(fusion *x)
{
    size_t at = 0;
    int64_t m = gx_min(x->unit_rows, x->rows), n = gx_min(x->unit_cols, x->cols);
    for (int k = 0; k < x->f->outputs; k++) {
        x->part_at[k] = at;
        size_t element = is_tile(x, k) ? gx_number_bytes(x->sink[k]->number) : 0;
        at += gx_whole_lines((size_t)(m * n) * element);
        at += gx_whole_lines(fold_bytes(x, k, m, n));
    }
    return at;
}

/* Chunks as large as is good, or as memory allows. */
static void choose_chunks(fusion *x, gx_pass *pass, size_t kernel_bytes)
{
    gx_mem *mem = x->run->ctx->mem;
    int64_t read = 0, all = gx_min(x->unit_rows, x->rows) * gx_min(x->unit_cols, x->cols);
    for (int k = 0; k < x->f->inputs; k++) {
        gx_fused_place there;
        read += find_in_memory(x, x->source[k], &there) ? 0 : 1;
    }
    int64_t element = (int64_t)gx_number_bytes(x->f->dtype);
    int64_t elements = read == 0 ? all : gx_min(all, GX_PASS_CHUNK_BYTES / element / read);
    pass->work_bytes = lay_out_work(x, elements, kernel_bytes);
    while (elements > CHUNK_LEAST && gx_pass_least_bytes(pass) > gx_mem_available(mem) / 2) {
        elements /= 2;
        pass->work_bytes = lay_out_work(x, elements, kernel_bytes);
    }
}

// On a device -------------------------------------------------------------------------------------

/* Blocks: tiles of the results that are no folds, else of the first operand that is all there. */
static bool choose_blocks(const fusion *x, int64_t *rows, int64_t *cols)
{
    *rows = *cols = 0;
    for (int k = 0; k < x->f->outputs; k++) {
        const gx_sink *C = x->sink[k];
        if (fold_of(x, k) != GX_FOLD_NONE) {
            continue;
        }
        if (*rows != 0 && (C->tile_rows != *rows || C->tile_cols != *cols)) {
            return false;
        }
        *rows = C->tile_rows;
        *cols = C->tile_cols;
    }
    for (int k = 0; k < x->f->inputs && *rows == 0; k++) {
        if (x->source[k]->rows == x->rows && x->source[k]->cols == x->cols) {
            *rows = x->source[k]->tile_rows;
            *cols = x->source[k]->tile_cols;
        }
    }
    return *rows > 0 && *cols > 0;
}

/* The program's operands, in the order of a call's places. */
static int name_operands(fusion *x, gx_prog *prog, int64_t rows, int64_t cols,
                         const gx_opnd *operand[GX_FUSED_INPUTS + GX_FUSED_OUTPUTS])
{
    int count = 0;
    for (int k = 0; k < x->f->inputs; k++) {
        const gx_mat *s = x->source[k];
        operand[count++] = gx_prog_operand(prog, s, NULL, x->f->dtype, s->rows, s->cols,
                                           gx_min(rows, s->rows), gx_min(cols, s->cols));
    }
    for (int k = 0; k < x->f->outputs; k++) {
        if (fold_of(x, k) == GX_FOLD_NONE) {
            operand[count++] = gx_prog_operand(prog, NULL, x->sink[k], x->sink[k]->number, x->rows,
                                               x->cols, rows, cols);
        }
    }
    return count;
}

/* Block (i, j) of an operand, (0, j) or (i, 0) of one that spreads. */
static gx_block block_of(const gx_opnd *m, int64_t i, int64_t j)
{
    return gx_blk(m, m->grid_rows == 1 ? 0 : i, m->grid_cols == 1 ? 0 : j);
}

/* Doubles of all folds of an m x n block. */
static int64_t fold_doubles(const fusion *x, int64_t m, int64_t n)
{
    int64_t doubles = 0;
    for (int k = 0; k < x->f->outputs; k++) {
        doubles += doubles_of(x, k, m, n);
    }
    return doubles;
}

/* The folds of the blocks, down the columns of the grid, into the totals. */
static void fold_blocks(fusion *x, const double *folds, int64_t rows, int64_t cols)
{
    for (int64_t j = 0; j < x->cols; j += cols) {
        for (int64_t i = 0; i < x->rows; i += rows) {
            int64_t m = gx_min(rows, x->rows - i), n = gx_min(cols, x->cols - j);
            const double *at = folds;
            for (int k = 0; k < x->f->outputs; k++) {
                if (fold_of(x, k) != GX_FOLD_NONE) {
                    gx_fold_add(fold_of(x, k), lines_of(x, k, m, n),
                                x->total[k] + lines_before(x, k, i, j), at);
                    at += doubles_of(x, k, m, n);
                }
            }
            folds += fold_doubles(x, rows, cols);
        }
    }
}

/* One call for each block; folds: of each block, one after the other. */
static void write_calls(fusion *x, gx_prog *prog, int64_t rows, int64_t cols, double *folds)
{
    const gx_opnd *operand[GX_FUSED_INPUTS + GX_FUSED_OUTPUTS];
    int count = name_operands(x, prog, rows, cols, operand), inputs = x->f->inputs;
    bool has_folds = fold_doubles(x, rows, cols) > 0;
    for (int64_t j = 0; j < gx_ceil_div(x->cols, cols) && gx_ok(x->run); j++) {
        for (int64_t i = 0; i < gx_ceil_div(x->rows, rows); i++) {
            gx_block more[GX_FUSED_INPUTS + GX_FUSED_OUTPUTS];
            gx_call call = {.kernel = GX_FUSED, .more = more, .reduce = has_folds ? folds : NULL};
            int next = 0;
            for (int k = 0; k < count; k++) {
                gx_block *to = k == inputs            ? &call.c
                               : k == 0               ? &call.a
                               : k == 1 && inputs > 1 ? &call.b
                                                      : &more[next++];
                *to = block_of(operand[k], i, j);
            }
            gx_prog_call(prog, &call);
            folds += has_folds ? fold_doubles(x, rows, cols) : 0;
        }
    }
}

/* On the device where that is faster; false: it is the host's turn. */
static bool run_on_device(fusion *x, double flops, const gx_terms *host)
{
    int64_t rows, cols;
    gx_err err = {0};
    void *folds = NULL;
    gx_prog *prog = NULL;
    if (x->f->inputs == 0 || !choose_blocks(x, &rows, &cols) ||
        !gx_place_comes_into_question(x->run, flops)) {
        return false;
    }
    int64_t blocks = gx_ceil_div(x->rows, rows) * gx_ceil_div(x->cols, cols);
    int64_t doubles = fold_doubles(x, rows, cols) * blocks;
    bool is_run = true;
    if (gx_mem_alloc(x->run->ctx->mem, (size_t)doubles * sizeof(double), "folds", &folds, &err) !=
            GX_OK ||
        gx_prog_create(x->run, blocks, &prog) != GX_OK) {
        gx_run_fail(x->run, &err);
    } else {
        gx_prog_fuse(prog, x->f);
        write_calls(x, prog, rows, cols, folds);
        is_run = gx_prog_run_beside(prog, host);
        if (is_run && gx_ok(x->run) && doubles > 0) {
            fold_blocks(x, folds, rows, cols);
        }
    }
    gx_prog_free(prog);
    gx_mem_free(x->run->ctx->mem, folds);
    return is_run;
}

// On the host -------------------------------------------------------------------------------------

/* What the pass comes to, and takes on the host. */
static void predict(const fusion *x, const gx_pass *pass, gx_terms *terms)
{
    double elements = (double)x->rows * (double)x->cols;
    gx_cost cost = {.flops = pass->flops, .bytes_up = pass->bytes, .calls = pass->units};
    cost.loads = pass->units * x->f->inputs;
    for (int k = 0; k < x->f->inputs; k++) {
        const gx_mat *base = gx_mat_base_stored(x->source[k]);
        double all = (double)x->source[k]->rows * (double)x->source[k]->cols;
        cost.bytes_read += base == NULL ? 0 : all * (double)gx_dtype_bytes(base->dtype);
    }
    for (int k = 0; k < x->f->outputs; k++) {
        double bytes = elements * (double)gx_number_bytes(x->sink[k]->number);
        cost.bytes_down += fold_of(x, k) == GX_FOLD_NONE ? bytes : 0;
        cost.bytes_written += is_tile(x, k) && x->sink[k]->is_stored ? bytes : 0;
    }
    gx_predict_pass(x->run, &cost, x->f->dtype, 1, terms);
}

static void run_pass(fusion *x, const gx_backend *backend)
{
    const char *writes = NULL;
    bool has_tiles = false, has_folds = false;
    gx_args args = {.fused = x->f};
    size_t kernel_bytes = backend->workspace(x->dev, GX_FUSED, x->f->dtype, &args);
    choose_units(x);
    for (int k = 0; k < x->f->outputs; k++) {
        has_tiles |= is_tile(x, k);
        has_folds |= fold_of(x, k) != GX_FOLD_NONE;
        writes = is_tile(x, k) && x->sink[k]->is_stored ? x->sink[k]->meta.schema : writes;
    }
    double elements = (double)x->rows * (double)x->cols;
    gx_pass pass = {.sources = x->source,
                    .source_count = x->f->inputs,
                    .units = x->row_units * gx_ceil_div(x->cols, x->unit_cols),
                    .bytes = elements * (double)gx_number_bytes(x->f->dtype) *
                             (x->f->inputs + x->f->outputs),
                    .flops = elements * gx_fused_flops(x->f),
                    .part_bytes = lay_out_part(x),
                    .work = run_unit,
                    .fold = has_tiles || has_folds ? fold_unit : NULL,
                    .is_callers = has_tiles,
                    .writes = writes,
                    .arg = x};
    choose_chunks(x, &pass, kernel_bytes);
    gx_terms terms;
    predict(x, &pass, &terms);
    if (run_on_device(x, pass.flops, &terms)) {
        return;
    }
    gx_predict_expect(x->run, &terms, false);
    gx_stats_add(&x->run->ctx->stats, GX_STAT_KERNELS, pass.units);
    gx_stats_add(&x->run->ctx->stats, GX_STAT_FLOPS, (int64_t)pass.flops);
    gx_pass_run(x->run, &pass);
}

// The whole ---------------------------------------------------------------------------------------

/* The numbers that a fold's lines stand for, into its sink. */
static void write_fold(fusion *x, int output)
{
    gx_sink *C = x->sink[output];
    gx_fold fold = fold_of(x, output);
    int64_t lines = lines_of(x, output, x->rows, x->cols);
    gx_err err = {0};
    void *numbers = NULL;
    if (gx_mem_alloc(x->run->ctx->mem, (size_t)lines * gx_number_bytes(C->number), "a fold",
                     &numbers, &err) == GX_OK) {
        for (int64_t l = 0; l < lines; l++) {
            gx_scalar value = gx_fold_value(fold, x->total[output] + l * gx_fold_width(fold));
            gx_number_put(C->number, numbers, l, value);
        }
        gx_sink_write(C, 0, 0, C->rows, C->cols, numbers, gx_max(1, C->rows), &err);
    }
    gx_mem_free(x->run->ctx->mem, numbers);
    gx_run_fail(x->run, &err);
}

static void begin_folds(fusion *x)
{
    gx_err err = {0};
    for (int k = 0; k < x->f->outputs && err.code == GX_OK; k++) {
        void *total = NULL;
        if (fold_of(x, k) != GX_FOLD_NONE &&
            gx_mem_alloc(x->run->ctx->mem, fold_bytes(x, k, x->rows, x->cols), "a fold", &total,
                         &err) == GX_OK) {
            x->total[k] = total;
            gx_fold_start(fold_of(x, k), lines_of(x, k, x->rows, x->cols), total);
        }
    }
    gx_run_fail(x->run, &err);
}

/* Do all results that are written by tiles have the same ones? */
static bool agree(const fusion *x)
{
    const gx_sink *first = NULL;
    for (int k = 0; k < x->f->outputs; k++) {
        if (is_tile(x, k)) {
            const gx_sink *C = x->sink[k];
            first = first == NULL ? C : first;
            if (C->tile_rows != first->tile_rows || C->tile_cols != first->tile_cols) {
                return false;
            }
        }
    }
    return true;
}

/* The program with one of its outputs only. */
static void run_one_by_one(fusion *x)
{
    for (int k = 0; k < x->f->outputs && gx_ok(x->run); k++) {
        gx_fused one = *x->f;
        one.outputs = 1;
        one.output[0] = x->f->output[k];
        if (gx_fused_end(&one)) {
            gx_alg_fused(x->run, &one, x->rows, x->cols, x->source, &x->sink[k]);
        }
    }
}

gx_code gx_alg_fused(gx_run *run, const gx_fused *program, int64_t rows, int64_t cols,
                     const gx_mat *const sources[], gx_sink *const sinks[])
{
    const gx_backend *backend;
    fusion x = {.run = run, .f = program, .source = sources, .sink = sinks};
    x.rows = rows;
    x.cols = cols;
    if (!gx_ok(run) || gx_run_device(run, &backend, &x.dev) != GX_OK) {
        return run->err.code;
    }
    if (!agree(&x)) {
        run_one_by_one(&x);
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    x.kernel = backend->kernel[GX_FUSED][program->dtype];
    begin_folds(&x);
    if (gx_ok(run) && rows > 0 && cols > 0) {
        run_pass(&x, backend);
    }
    for (int k = 0; k < program->outputs; k++) {
        if (fold_of(&x, k) != GX_FOLD_NONE && gx_ok(run)) {
            write_fold(&x, k);
        }
        gx_mem_free(run->ctx->mem, x.total[k]);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}
