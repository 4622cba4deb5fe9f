/*
** Elementwise operations, copies and transposes: each block of the result comes from the same
** block of the operands (for a transpose, the mirrored one).
**
** One pass: every operand tile is read once, every result tile written once.
**
** A stored result comes from a program.  Minimum memory: two blocks (three with two operands).  The
** work is bound by the database; the kernels only keep up.  Of a value that is only copied or
** turned there is nothing to load: threads make tiles out of it, which the caller writes; where
** they go to volumes, the threads write what they have made, a piece at a time.
**
** A result in memory is filled by a streamed pass (pass.h), each piece where it belongs, so that
** the bytes of a value are touched once: by the read where A is stored, by the kernel where it is a
** value.  A unit is a tile of A, some columns of several of them, or of a value.  Memory beside the
** result: for each thread a chunk of B, where B is not there already, or a tile to be transposed.
*/
#include "../exec/pass.h"
#include "../exec/place.h"
#include "alg.h"

/* Results without a tile (0 x n) still need a block size. */
static int64_t block_rows(const gx_sink *C)
{
    return gx_max(1, C->tile_rows);
}

static int64_t block_cols(const gx_sink *C)
{
    return gx_max(1, C->tile_cols);
}

static int64_t blocks_of(const gx_sink *C)
{
    return gx_ceil_div(C->rows, block_rows(C)) * gx_ceil_div(C->cols, block_cols(C));
}

static const gx_opnd *operand_like(gx_prog *prog, const gx_mat *source, gx_sink *sink,
                                   const gx_sink *C)
{
    return gx_prog_operand(prog, source, sink, C->number, C->rows, C->cols, block_rows(C),
                           block_cols(C));
}

// Into memory -------------------------------------------------------------------------------------

/* A piece of a matrix in memory. */
static const int64_t PIECE_BYTES = 1 << 20;

/* A result that is filled piece by piece, where it lies. */
typedef struct filling {
    gx_run *run;
    const gx_call *call; /* kernel GX_KERNEL_COUNT: a copy; GX_TRANSPOSE: of A, turned */
    const gx_mat *A, *B; /* B NULL: none                                               */
    gx_sink *C;
    gx_kernel kernel;
    gx_dev *dev;
    int64_t rows, cols;     /* of a unit of A                                           */
    int64_t row0, col0;     /* the first units are so much shorter: a view cuts a tile  */
    int64_t row_units;      /* units below each other                                   */
    int64_t chunk_elements; /* are worked on together                                   */
} filling;

/* Can C be filled where it lies?  Asked for, a device still makes it. */
static bool is_fillable(const gx_run *run, const gx_sink *C)
{
    return !C->is_stored && C->value.data != NULL && C->rows > 0 &&
           C->cols > 0 && run->ctx->config.number[GX_SET_BACKEND] != GX_BACKEND_CUDA;
}

/* Elements as the kernel takes them, where they are; NULL: they must be read. */
static const void *in_place(const gx_mat *X, gx_number dtype, int64_t i, int64_t j)
{
    bool is_there = X->kind == GX_MAT_VALUE && X->number == dtype;
    return is_there ? gx_at(X->data, dtype, X->ld, i, j) : NULL;
}

/*
** Some columns of several tiles below each other, so that what is filled lies together: memory that
** a process touches for the first time comes in pages of 2 MiB, which the system clears, and are
** best filled while they are in a cache.
*/
static bool choose_strips(filling *f)
{
    enum { TILES = 12, STRIP_BYTES = 5 << 19, LONG_RUN = 128 << 10 };
    const gx_mat *A = f->A, *stored = gx_mat_base_stored(A);
    bool is_view = A->kind == GX_MAT_VIEW && A->trans == GX_NO_TRANS && A->base == stored;
    int64_t element = (int64_t)gx_number_bytes(f->C->number);
    int64_t below = gx_ceil_div(A->rows, A->tile_rows);
    if (f->call->kernel != GX_KERNEL_COUNT || stored == NULL ||
        (stored != A && !is_view) || A->number != f->C->number || below < 2 ||
        A->tile_rows * element >= LONG_RUN || A->cols <= A->tile_cols / 4 ||
        !gx_reader_is_random(f->run->ctx->store, &stored->meta)) {
        return false;
    }
    int64_t tiles = gx_ceil_div(below, gx_ceil_div(below, TILES));
    int64_t width = gx_max(1, STRIP_BYTES / (tiles * A->tile_rows * element));
    f->rows = tiles * A->tile_rows;
    f->cols = gx_ceil_div(A->tile_cols, gx_ceil_div(A->tile_cols, width));
    return true;
}

/* Tiles, as they are read; columns of what is in memory or made. */
static void choose_units(filling *f)
{
    const gx_mat *A = f->A;
    int64_t element = (int64_t)gx_number_bytes(f->C->number), piece = PIECE_BYTES / element;
    bool is_view = A->kind == GX_MAT_VIEW && A->trans == GX_NO_TRANS;
    bool has_tiles = gx_mat_base_stored(A) != NULL || A->kind == GX_MAT_VIEW;
    bool is_turned = f->call->kernel == GX_TRANSPOSE;
    bool has_strips = choose_strips(f);
    if (has_tiles || is_turned) {
        f->rows = has_strips ? f->rows : A->tile_rows;
        f->cols = has_strips ? f->cols : A->tile_cols;
        f->row0 = is_view ? A->row0 % f->rows : 0;
        f->col0 = is_view ? A->col0 % f->cols : 0;
    } else {
        f->rows = gx_min(A->rows, piece);
        f->cols = gx_min(A->cols, piece / f->rows);
    }
    f->row_units = gx_ceil_div(f->row0 + A->rows, f->rows);
    int64_t all = gx_min(f->rows, A->rows) * gx_min(f->cols, A->cols);
    int64_t left = (int64_t)(gx_mem_available(f->run->ctx->mem) / 4) / element;
    int64_t chunk = gx_min(GX_PASS_CHUNK_BYTES / element, gx_max(1, left));
    f->chunk_elements = is_turned || has_strips ? all : gx_min(all, chunk);
}

/* Columns of a chunk of a unit that is m rows high; the same in rows where it has one column. */
static gx_code fill_chunk(const filling *f, gx_pass_thread *thread, void *work, int64_t i,
                          int64_t j, int64_t m, int64_t n, gx_err *err)
{
    gx_sink *C = f->C;
    bool is_turned = f->call->kernel == GX_TRANSPOSE;
    gx_args args = {.map = f->call->map, .transa = f->call->transa};
    args.m = is_turned ? n : m;
    args.n = is_turned ? m : n;
    args.alpha = f->call->alpha;
    args.beta = f->call->beta;
    args.c = is_turned ? gx_at(C->value.data, C->number, C->rows, j, i)
                       : gx_at(C->value.data, C->number, C->rows, i, j);
    args.ldc = C->rows;
    gx_dtype as = gx_dtype_of(C->number);
    if (f->kernel == NULL || !gx_mat_lend(f->A, i, j, m, n, as, &args.a, &args.lda)) {
        void *to = is_turned ? work : args.c;
        args.a = to;
        args.lda = is_turned ? m : C->rows;
        GX_TRY(gx_pass_read(thread, f->A, i, j, m, n, C->number, to, args.lda, err));
    }
    if (f->B != NULL) {
        GX_TRY(gx_pass_take(thread, f->B, i, j, m, n, as, work, &args.b, &args.ldb, err));
    }
    return f->kernel == NULL ? GX_OK : f->kernel(f->dev, NULL, &args, err);
}

static gx_code fill_unit(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                         gx_err *err)
{
    const filling *f = arg;
    (void)part;
    int64_t p = unit % f->row_units, q = unit / f->row_units;
    int64_t i0 = gx_max(0, p * f->rows - f->row0), j0 = gx_max(0, q * f->cols - f->col0);
    int64_t i1 = gx_min(f->A->rows, (p + 1) * f->rows - f->row0);
    int64_t j1 = gx_min(f->A->cols, (q + 1) * f->cols - f->col0);
    int64_t height = gx_min(i1 - i0, f->chunk_elements);
    int64_t width = gx_max(1, f->chunk_elements / height);
    for (int64_t j = j0; j < j1 && gx_ok(f->run); j += width) {
        for (int64_t i = i0; i < i1 && gx_ok(f->run); i += height) {
            GX_TRY(fill_chunk(f, thread, work, i, j, gx_min(height, i1 - i), gx_min(width, j1 - j),
                              err));
        }
    }
    return GX_OK;
}

static gx_code fill(gx_run *run, const gx_call *call, const gx_mat *A, const gx_mat *B, gx_sink *C)
{
    const gx_backend *backend;
    filling f = {.run = run, .call = call, .A = A, .B = B, .C = C};
    if (!gx_ok(run) || gx_run_device(run, &backend, &f.dev) != GX_OK) {
        return run->err.code;
    }
    const gx_mat *sources[] = {A, B};
    bool is_copy = call->kernel == GX_KERNEL_COUNT, is_turned = call->kernel == GX_TRANSPOSE;
    size_t element = gx_number_bytes(C->number);
    gx_args size = {.map = call->map, .m = A->rows, .n = A->cols};
    choose_units(&f);
    bool holds_chunk = is_turned ? in_place(A, C->number, 0, 0) == NULL
                                 : B != NULL && in_place(B, C->number, 0, 0) == NULL;
    gx_pass pass = {.sources = sources,
                    .source_count = 2,
                    .units = f.row_units * gx_ceil_div(f.col0 + A->cols, f.cols),
                    .bytes = (double)C->rows * (double)C->cols * (double)element,
                    .flops = is_copy ? 0 : gx_kernel_flops(call->kernel, C->number, &size),
                    .work_bytes = holds_chunk ? (size_t)f.chunk_elements * element : 0,
                    .work = fill_unit,
                    .arg = &f};
    f.kernel = is_copy ? NULL : backend->kernel[call->kernel][C->number];
    gx_pass_run(run, &pass);
    gx_stats_add(&run->ctx->stats, GX_STAT_KERNELS, is_copy ? 0 : pass.units);
    gx_stats_add(&run->ctx->stats, GX_STAT_FLOPS, (int64_t)pass.flops);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Out of memory, stored ---------------------------------------------------------------------------

/*
** Threads that make tiles: one writer keeps no more busy.  What they have made waits for it, the
** better the less of it there is.  So they have a tile each; where there are fewer, two.
*/
enum { MAKERS = 3 };

/* A stored copy, or turned copy, of a value. */
typedef struct making {
    gx_run *run;
    const gx_call *call; /* as of a filling */
    const gx_mat *A;
    gx_sink *C;
    gx_kernel kernel; /* NULL: a copy */
    gx_dev *dev;
    gx_writers *writers; /* of C in volumes, or NULL */
    int64_t width;       /* columns of a tile that go there together */
} making;

static gx_tile_place place_of(const gx_sink *C, int64_t tile)
{
    return gx_tile_at(C->rows, C->cols, C->tile_rows, C->tile_cols, tile);
}

static gx_code make_tile(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                         gx_err *err)
{
    const making *x = arg;
    gx_tile_place at = place_of(x->C, unit);
    gx_args args = {.transa = x->call->transa, .m = at.m, .n = at.n, .c = part, .ldc = at.m};
    (void)work;
    if (x->kernel == NULL) {
        return gx_pass_read(thread, x->A, at.i0, at.j0, at.m, at.n, x->C->number, part, at.m, err);
    }
    args.a = in_place(x->A, x->C->number, at.j0, at.i0);
    args.lda = x->A->ld;
    return x->kernel(x->dev, NULL, &args, err);
}

static gx_code write_tile(void *arg, int64_t unit, void *part, gx_err *err)
{
    const making *x = arg;
    gx_tile_place at = place_of(x->C, unit);
    return gx_sink_write(x->C, at.i0, at.j0, at.m, at.n, part, at.m, err);
}

/* A piece of a tile, whole columns or part of one, into the volumes; work: that much memory. */
static gx_code write_piece(const making *x, gx_pass_thread *thread, int64_t tile,
                           const gx_tile_place *at, int64_t j, int64_t width, void *work,
                           gx_err *err)
{
    const gx_mat *A = x->A;
    gx_number dtype = x->C->number;
    gx_args args = {.transa = x->call->transa, .m = at->m, .n = width, .c = work, .ldc = at->m};
    size_t column = (size_t)at->m * gx_number_bytes(dtype);
    const void *from = work;
    if (x->kernel != NULL) {
        args.a = in_place(A, dtype, at->j0 + j, at->i0);
        args.lda = A->ld;
        GX_TRY(x->kernel(x->dev, NULL, &args, err));
    } else if (A->ld == at->m && in_place(A, dtype, at->i0, at->j0 + j) != NULL) {
        from = in_place(A, dtype, at->i0, at->j0 + j);
    } else {
        GX_TRY(gx_pass_read(thread, A, at->i0, at->j0 + j, at->m, width, dtype, work, at->m, err));
    }
    return gx_writers_write(x->writers, tile, (size_t)j * column, (size_t)width * column, from,
                            err);
}

/* Every tile begins at another file, so that threads do not wait for each other at the first. */
static gx_code write_pieces(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                            gx_err *err)
{
    const making *x = arg;
    gx_tile_place at = place_of(x->C, unit);
    int64_t pieces = gx_ceil_div(at.n, x->width), files = gx_writers_files(x->writers);
    int64_t first = unit % files * pieces / files;
    (void)part;
    for (int64_t k = 0; k < pieces && gx_ok(x->run); k++) {
        int64_t j = (first + k) % pieces * x->width;
        GX_TRY(write_piece(x, thread, unit, &at, j, gx_min(x->width, at.n - j), work, err));
    }
    return gx_writers_seal(x->writers, unit, err);
}

/* Threads a file: one makes a piece while the other writes. */
enum { FILE_THREADS = 2 };

/* Bytes of a row of A that kernels turn together: a turned piece takes some of them whole. */
enum { ROW_BYTES = 256 };

/* Columns of a piece: about GX_PASS_CHUNK_BYTES. */
static int64_t piece_width(const gx_sink *C)
{
    int64_t element = (int64_t)gx_number_bytes(C->number), step = ROW_BYTES / element;
    int64_t width = GX_PASS_CHUNK_BYTES / (C->tile_rows * element);
    width = width > step ? (width + step / 2) / step * step : width;
    return gx_max(1, gx_min(C->tile_cols, width));
}

static void make_and_write(gx_run *run, making *x, gx_pass *pass)
{
    gx_err err = {0};
    size_t column = (size_t)x->C->tile_rows * gx_number_bytes(x->C->number);
    x->width = piece_width(x->C);
    pass->part_bytes = 0;
    pass->work_bytes = (size_t)x->width * column;
    pass->threads = FILE_THREADS * gx_writers_files(x->writers);
    pass->work = write_pieces;
    pass->fold = NULL;
    pass->is_callers = false;
    gx_pass_run(run, pass);
    gx_writers_close(x->writers, gx_ok(run), &err);
    gx_run_fail(run, &err);
}

/* Whether it was that: false leaves all to a program. */
static bool make_stored(gx_run *run, const gx_call *call, const gx_mat *A, gx_sink *C)
{
    bool is_copy = call->kernel == GX_KERNEL_COUNT, is_turned = call->kernel == GX_TRANSPOSE;
    bool is_there = is_copy ? A->kind == GX_MAT_VALUE || A->kind == GX_MAT_NARROW
                            : in_place(A, C->number, 0, 0) != NULL;
    const gx_backend *backend;
    gx_err err = {0};
    making x = {.run = run, .call = call, .A = A, .C = C};
    if (!gx_ok(run) || !C->is_stored || !(is_copy || is_turned) || !is_there || C->rows == 0 ||
        C->cols == 0 || run->ctx->config.number[GX_SET_BACKEND] == GX_BACKEND_CUDA ||
        gx_run_device(run, &backend, &x.dev) != GX_OK) {
        return false;
    }
    size_t element = gx_number_bytes(C->number);
    x.kernel = is_copy ? NULL : backend->kernel[GX_TRANSPOSE][C->number];
    const gx_mat *sources[] = {A};
    int64_t tiles = gx_ceil_div(C->rows, C->tile_rows) * gx_ceil_div(C->cols, C->tile_cols);
    gx_pass pass = {.sources = sources,
                    .source_count = 1,
                    .units = tiles,
                    .bytes = (double)C->rows * (double)C->cols * (double)element,
                    .part_bytes = (size_t)(C->tile_rows * C->tile_cols) * element,
                    .threads = MAKERS,
                    .work = make_tile,
                    .fold = write_tile,
                    .is_callers = true,
                    .writes = C->meta.schema,
                    .arg = &x};
    int64_t threads = gx_pass_threads(run, &pass);
    if (threads == 0) {
        return false;
    }
    if (gx_sink_is_plain(C) &&
        gx_writers_open(run->ctx->store, &C->meta, &x.writers, &err) != GX_OK) {
        gx_run_fail(run, &err);
        return true;
    }
    if (x.writers != NULL) {
        make_and_write(run, &x, &pass);
    } else {
        pass.parts = threads < MAKERS ? 2 : 1;
        gx_pass_run(run, &pass);
    }
    gx_stats_add(&run->ctx->stats, GX_STAT_KERNELS, is_copy ? 0 : tiles);
    return true;
}

// By a program ------------------------------------------------------------------------------------

/*
** C starts as A, then one kernel in place on each block; GX_KERNEL_COUNT: a copy.  GX_TRANSPOSE
** makes each block of the mirrored one.
*/
static gx_code map_blocks(gx_run *run, const gx_call *kernel, const gx_mat *A, const gx_mat *B,
                          gx_sink *C)
{
    gx_prog *prog;
    bool is_turned = kernel->kernel == GX_TRANSPOSE, is_copy = kernel->kernel == GX_KERNEL_COUNT;
    if (gx_ok(run) && is_fillable(run, C)) {
        return fill(run, kernel, A, B, C);
    }
    if (B == NULL && make_stored(run, kernel, A, C)) {
        return run->err.code;
    }
    if (!gx_ok(run) || gx_prog_create(run, blocks_of(C), &prog) != GX_OK) {
        return run->err.code; // C is not begun in a run that has failed
    }
    gx_prog_lookahead(prog, gx_max(4, 2 * run->ctx->config.number[GX_SET_READERS]));
    const gx_opnd *c = operand_like(prog, is_turned ? NULL : A, C, C);
    const gx_opnd *b = B == NULL ? NULL : operand_like(prog, B, NULL, C);
    const gx_opnd *a = !is_turned ? NULL
                                  : gx_prog_operand(prog, A, NULL, C->number, A->rows, A->cols,
                                                    block_cols(C), block_rows(C));
    for (int64_t j = 0; j < c->grid_cols && gx_ok(run); j++) {
        for (int64_t i = 0; i < c->grid_rows; i++) {
            gx_call call = *kernel;
            call.c = gx_blk(c, i, j);
            call.keeps_c = !is_turned;
            if (!is_copy) {
                call.a = is_turned ? gx_blk(a, j, i) : call.c;
            }
            if (b != NULL) {
                call.b = gx_blk(b, i, j);
            }
            gx_prog_call(prog, &call);
        }
    }
    gx_prog_run(prog);
    gx_prog_free(prog);
    return run->err.code;
}

gx_code gx_alg_map1(gx_run *run, gx_map_kind kind, gx_scalar alpha, const gx_mat *A, gx_sink *C)
{
    gx_call call = {.kernel = GX_MAP, .map = kind, .alpha = alpha};
    return map_blocks(run, &call, A, NULL, C);
}

gx_code gx_alg_map2(gx_run *run, gx_map_kind kind, gx_scalar alpha, const gx_mat *A, gx_scalar beta,
                    const gx_mat *B, gx_sink *C)
{
    gx_mat wide_a, wide_b;
    if (A->rows != C->rows || A->cols != C->cols) {
        gx_mat_broadcast(&wide_a, A, C->rows, C->cols);
        A = &wide_a;
    }
    if (B->rows != C->rows || B->cols != C->cols) {
        gx_mat_broadcast(&wide_b, B, C->rows, C->cols);
        B = &wide_b;
    }
    gx_call call = {.kernel = GX_MAP, .map = kind, .alpha = alpha, .beta = beta};
    return map_blocks(run, &call, A, B, C);
}

gx_code gx_copy_to_sink(gx_run *run, const gx_mat *src, gx_sink *sink)
{
    return map_blocks(run, &(gx_call){.kernel = GX_KERNEL_COUNT}, src, NULL, sink);
}

gx_code gx_alg_transpose(gx_run *run, const gx_mat *A, gx_trans trans, gx_sink *C)
{
    return map_blocks(run, &(gx_call){.kernel = GX_TRANSPOSE, .transa = trans}, A, NULL, C);
}
