/*
** Operators of Krylov methods: products with a stored matrix.
**
** A is seen as columns of blocks.  The first `resident` of them are in memory, where they stay for
** all passes; the others are streamed in each pass by a program.  A cyclic pass over more than fits
** gets no hit from a cache that keeps what was used last, and a fixed subset is the best there is
** (Belady 1966 for cyclic references): the resident columns are that subset.
**
**   general     y_i += A_ij x_j              adjoint: y_j += A_ij^H x_i
**   Hermitian   of the lower triangle alone: y_i += A_ij x_j, y_j += A_ij^H x_i, i > j, and the
**               diagonal block with its upper triangle mirrored: each block read is used twice
**
** Where a device is chosen, it has the first columns, or all, and works beside the host
** (krylov_device.c).
**
** Blocks are taken in the same order and with the same shapes wherever they are, so that the bits
** of a product do not depend on the budget (with fixed pieces: deterministic mode).
**
** What is made of A, inverses and the transformed problem of A x = lambda B x, is krylov_inverse.c.
*/
#include "krylov.h"
#include "dense.h"
#include "prog.h"

#include <string.h>

static gx_trans adjoint_of(gx_dtype dtype)
{
    return gx_dtype_is_complex(dtype) ? GX_CONJ_TRANS : GX_TRANS;
}

static size_t block_bytes(const gx_oper *op)
{
    return (size_t)(op->edge_rows * op->edge_cols) * gx_dtype_bytes(op->dtype);
}

static int64_t grid_rows(const gx_oper *op)
{
    return gx_ceil_div(op->m, op->edge_rows);
}

static int64_t grid_cols(const gx_oper *op)
{
    return gx_ceil_div(op->n, op->edge_cols);
}

/* First row of a resident column of blocks. */
static int64_t strip_row(const gx_oper *op, int64_t j)
{
    return op->is_hermitian ? j * op->edge_cols : 0;
}

/* keep_bytes from here on: nothing is to stay anywhere, there will be no passes to speak of. */
static const size_t FEW_PASSES = SIZE_MAX / 8;

/* Is the column of blocks in memory?  Not: on the device, or streamed. */
static bool is_resident(const gx_oper *op, int64_t j)
{
    return op->strip[j] != NULL;
}

/* ---- one block ------------------------------------------------------------------------------- */

/* What block (i, j) does, as a kernel call on pointers (resident) or blocks (streamed). */
typedef struct piece {
    bool is_adjoint;  /* y_j += A_ij^H x_i                                */
    int64_t i, j;     /* block                                            */
    int64_t from, to; /* first element of x and y                         */
    int64_t m, n;     /* of the block                                     */
} piece;

static piece piece_of(const gx_oper *op, int64_t i, int64_t j, bool is_adjoint)
{
    int64_t row = i * op->edge_rows, col = j * op->edge_cols;
    return (piece){.is_adjoint = is_adjoint,
                   .i = i,
                   .j = j,
                   .from = is_adjoint ? row : col,
                   .to = is_adjoint ? col : row,
                   .m = gx_min(op->edge_rows, op->m - row),
                   .n = gx_min(op->edge_cols, op->n - col)};
}

typedef struct pass {
    gx_oper *op;
    const void *x;
    void *y;
    int64_t ldx, ldy, cols;
    gx_prog *prog; /* where blocks are streamed */
    const gx_opnd *A, *X, *Y;
} pass;

static void multiply_resident(const pass *p, piece q)
{
    const gx_oper *op = p->op;
    int64_t row0 = strip_row(op, q.j), ld = op->m - row0;
    const void *a = gx_at(op->strip[q.j], op->dtype, ld, q.i * op->edge_rows - row0, 0);
    int64_t rows = q.is_adjoint ? q.n : q.m, inner = q.is_adjoint ? q.m : q.n;
    gx_kry_gemm(op->run, op->dtype, q.is_adjoint ? adjoint_of(op->dtype) : GX_NO_TRANS, GX_NO_TRANS,
                rows, p->cols, inner, 1, a, ld, gx_at(p->x, op->dtype, p->ldx, q.from, 0), p->ldx,
                1, gx_at(p->y, op->dtype, p->ldy, q.to, 0), p->ldy);
}

static void multiply_streamed(const pass *p, piece q)
{
    const gx_oper *op = p->op;
    int64_t rows = q.is_adjoint ? q.n : q.m, inner = q.is_adjoint ? q.m : q.n;
    gx_prog_call(p->prog, &(gx_call){.kernel = GX_GEMM,
                                     .transa = q.is_adjoint ? adjoint_of(op->dtype) : GX_NO_TRANS,
                                     .alpha = {1, 0},
                                     .beta = {1, 0},
                                     .keeps_c = true,
                                     .a = gx_blk(p->A, q.i, q.j),
                                     .b = gx_blk_part(p->X, 0, 0, q.from, 0, inner, p->cols),
                                     .c = gx_blk_part(p->Y, 0, 0, q.to, 0, rows, p->cols)});
}

static void multiply(const pass *p, piece q)
{
    if (is_resident(p->op, q.j)) {
        multiply_resident(p, q);
    } else {
        multiply_streamed(p, q);
    }
}

static gx_args mirror(const gx_oper *op, void *c, int64_t ld, int64_t n)
{
    return (gx_args){
        .uplo = GX_LOWER, .transa = adjoint_of(op->dtype), .m = n, .n = n, .c = c, .ldc = ld};
}

/* Column j of blocks. */
static void multiply_column(const pass *p, int64_t j, bool is_adjoint)
{
    const gx_oper *op = p->op;
    if (!op->is_hermitian) {
        for (int64_t i = 0; i < grid_rows(op) && gx_ok(op->run); i++) {
            multiply(p, piece_of(op, i, j, is_adjoint));
        }
        return;
    }
    if (!is_resident(op, j)) {
        gx_prog_call(p->prog, &(gx_call){.kernel = GX_SYMMETRIZE,
                                         .uplo = GX_LOWER,
                                         .transa = adjoint_of(op->dtype),
                                         .c = gx_blk(p->A, j, j),
                                         .keeps_c = true});
    }
    multiply(p, piece_of(op, j, j, false));
    for (int64_t i = j + 1; i < grid_rows(op) && gx_ok(op->run); i++) {
        multiply(p, piece_of(op, i, j, false));
        multiply(p, piece_of(op, i, j, true));
    }
}

/* ---- a pass ---------------------------------------------------------------------------------- */

/* A sink that writes into memory of ours, leading dimension rows. */
static gx_sink memory_sink(gx_run *run, int64_t rows, int64_t cols, gx_dtype dtype, void *data)
{
    return (gx_sink){.run = run,
                     .rows = rows,
                     .cols = cols,
                     .dtype = dtype,
                     .tile_rows = gx_max(1, rows),
                     .tile_cols = gx_max(1, cols),
                     .value = {.data = data}};
}

/* Columns of blocks that are neither in memory nor, from `first` on, on the device. */
static int64_t count_streamed(const gx_oper *op, int64_t first)
{
    int64_t count = 0;
    for (int64_t j = first; j < grid_cols(op); j++) {
        count += is_resident(op, j) ? 0 : 1;
    }
    return count;
}

static void stream(pass *p, bool is_adjoint, int64_t first)
{
    gx_oper *op = p->op;
    int64_t columns = count_streamed(op, first), calls = columns * (2 * grid_rows(op) + 1);
    gx_mat x, y;
    gx_mat_value(&x, "x", op->dtype, p->ldx, p->cols, p->x, p->ldx);
    gx_mat_value(&y, "y", op->dtype, p->ldy, p->cols, p->y, p->ldy);
    gx_sink sink = memory_sink(op->run, p->ldy, p->cols, op->dtype, p->y);
    if (gx_prog_create(op->run, calls, &p->prog) != GX_OK) {
        return;
    }
    bool is_fixed = op->run->ctx->config.number[GX_SET_DETERMINISTIC] != 0;
    gx_prog_cut(p->prog, &(gx_cut){.is_fixed = is_fixed});
    gx_prog_lookahead(p->prog, gx_max(4, 2 * op->run->ctx->config.number[GX_SET_READERS]));
    p->A = gx_prog_operand(p->prog, op->A, NULL, op->dtype, op->m, op->n, op->edge_rows,
                           op->edge_cols);
    p->X = gx_prog_operand(p->prog, &x, NULL, op->dtype, p->ldx, p->cols, p->ldx, p->cols);
    p->Y = gx_prog_operand(p->prog, &y, &sink, op->dtype, p->ldy, p->cols, p->ldy, p->cols);
    for (int64_t j = first; j < grid_cols(op) && gx_ok(op->run); j++) {
        if (!is_resident(op, j)) {
            multiply_column(p, j, is_adjoint);
        }
    }
    if (op->device != NULL) {
        gx_prog_run_on(p->prog, NULL, 0); // the device has its own part, and its memory
    } else {
        gx_prog_run(p->prog);
    }
    gx_prog_free(p->prog);
}

/* ---- what stays in memory -------------------------------------------------------------------- */

static gx_code load_strip(gx_oper *op, int64_t j)
{
    int64_t row0 = strip_row(op, j), col0 = j * op->edge_cols, rows = op->m - row0;
    int64_t cols = gx_min(op->edge_cols, op->n - col0);
    gx_mat view;
    gx_mat_view(&view, op->A, GX_NO_TRANS, row0, col0, rows, cols);
    gx_dense_alloc(op->run, op->dtype, rows * cols, "columns of the matrix", &op->strip[j]);
    gx_dense_load(op->run, &view, op->dtype, op->strip[j], rows);
    if (op->is_hermitian) {
        gx_args args = mirror(op, op->strip[j], rows, cols);
        gx_dense_call(op->run, GX_SYMMETRIZE, op->dtype, &args);
    }
    return gx_ok(op->run) ? GX_OK : op->run->err.code;
}

static gx_code apply_matrix(gx_oper *op, bool is_adjoint, const void *x, int64_t cols, void *y);

/* A matrix that is cut into blocks, of which nothing is in memory. */
static gx_oper shape_of(gx_run *run, const gx_mat *A, gx_dtype dtype, bool is_hermitian,
                        size_t keep_bytes)
{
    gx_oper op = {.run = run,
                  .m = A->rows,
                  .n = A->cols,
                  .dtype = dtype,
                  .apply = apply_matrix,
                  .A = A,
                  .is_hermitian = is_hermitian,
                  .keep_bytes = keep_bytes,
                  .edge_rows = gx_max(1, gx_min(A->tile_rows, A->rows)),
                  .edge_cols = gx_max(1, gx_min(A->tile_cols, A->cols))};
    if (is_hermitian) {
        op.edge_rows = op.edge_cols = gx_max(op.edge_rows, op.edge_cols);
    }
    return op;
}

static size_t column_bytes(const gx_oper *op, int64_t j)
{
    int64_t cols = gx_min(op->edge_cols, op->n - j * op->edge_cols);
    return (size_t)((op->m - strip_row(op, j)) * cols) * gx_dtype_bytes(op->dtype);
}

/*
** What columns of blocks from `first` on leave alone: what others want and, where they do not all
** fit, the stream of the others: blocks in flight and the program.
*/
static size_t left_alone(const gx_oper *op, int64_t first)
{
    enum { IN_FLIGHT = 6 };
    size_t total = 0, spare = 64 << 10, keep = op->keep_bytes + spare;
    for (int64_t j = first; j < grid_cols(op); j++) {
        total += column_bytes(op, j);
    }
    if (total + keep > gx_mem_available(op->run->ctx->mem)) {
        keep +=
            IN_FLIGHT * block_bytes(op) + gx_prog_overhead(grid_cols(op) * (2 * grid_rows(op) + 1),
                                                           grid_cols(op) * grid_rows(op) + 2);
    }
    return keep;
}

/* Of the columns of blocks that are not on the device, as many as there is room for. */
static void keep_columns(gx_oper *op)
{
    size_t keep = left_alone(op, op->on_device);
    for (int64_t j = op->on_device; j < grid_cols(op) && gx_ok(op->run); j++) {
        if (gx_mem_available(op->run->ctx->mem) < column_bytes(op, j) + keep) {
            break;
        }
        if (!is_resident(op, j)) {
            load_strip(op, j);
        }
        op->resident = j + 1;
    }
}

void gx_oper_foresee(gx_run *run, const gx_mat *A, gx_dtype dtype, bool is_hermitian,
                     size_t keep_bytes, double *once, double *each)
{
    gx_oper op = shape_of(run, A, dtype, is_hermitian, keep_bytes);
    size_t keep = left_alone(&op, 0), available = gx_mem_available(run->ctx->mem);
    double share = (double)gx_dtype_bytes(A->dtype) / (double)gx_dtype_bytes(dtype);
    bool is_resident = true;
    *once = *each = 0;
    for (int64_t j = 0; j < grid_cols(&op); j++) {
        size_t bytes = column_bytes(&op, j);
        is_resident = is_resident && available >= bytes + keep;
        available -= is_resident ? bytes : 0;
        *(is_resident ? once : each) += (double)bytes * share;
    }
}

/* The device has failed: what was there is the host's from now on. */
static void leave_device(gx_oper *op)
{
    op->on_device = 0;
    op->resident = 0;
    keep_columns(op);
}

/* ---- products -------------------------------------------------------------------------------- */

/* The columns of blocks from `first` on, those in memory before those that are streamed. */
static void multiply_columns(pass *p, bool is_adjoint, int64_t first)
{
    gx_oper *op = p->op;
    for (int64_t j = first; j < grid_cols(op) && gx_ok(op->run); j++) {
        if (is_resident(op, j)) {
            multiply_column(p, j, is_adjoint);
        }
    }
    if (count_streamed(op, first) > 0 && gx_ok(op->run)) {
        stream(p, is_adjoint, first);
    }
}

/* One more pass, for gx_stats: what it read of A, in memory, on the device, or in the database. */
static void count_pass(gx_oper *op, bool is_adjoint, int64_t start_ns)
{
    gx_stats *stats = &op->run->ctx->stats;
    double bytes = op->device == NULL ? 0 : gx_oper_device_bytes(op, is_adjoint);
    for (int64_t j = op->on_device; j < grid_cols(op); j++) {
        double rows = (double)(op->m - strip_row(op, j));
        int64_t cols = gx_min(op->edge_cols, op->n - j * op->edge_cols);
        bytes += rows * (double)cols * (double)gx_dtype_bytes(op->dtype);
    }
    op->passes++;
    gx_stats_add(stats, GX_STAT_PASSES, 1);
    gx_stats_add(stats, GX_STAT_PASS_BYTES, (int64_t)bytes);
    gx_stats_add(stats, GX_STAT_PASS_NS, gx_now_ns() - start_ns);
}

static gx_code apply_matrix(gx_oper *op, bool is_adjoint, const void *x, int64_t cols, void *y)
{
    pass p = {.op = op,
              .x = x,
              .y = y,
              .cols = cols,
              .ldx = is_adjoint ? op->m : op->n,
              .ldy = is_adjoint ? op->n : op->m};
    if (!gx_ok(op->run) || p.ldx == 0 || p.ldy == 0 || cols == 0) {
        return op->run->err.code;
    }
    int64_t start_ns = gx_now_ns();
    bool adds = op->on_device < grid_cols(op); // else the device writes all of y
    if (adds) {
        memset(y, 0, (size_t)(p.ldy * cols) * gx_dtype_bytes(op->dtype));
    }
    if (op->device != NULL) {
        gx_oper_device_start(op, is_adjoint, x, cols);
    }
    multiply_columns(&p, is_adjoint, op->on_device);
    if (op->device != NULL && !gx_oper_device_finish(op, adds, y)) {
        leave_device(op);
        memset(y, 0, (size_t)(p.ldy * cols) * gx_dtype_bytes(op->dtype));
        multiply_columns(&p, is_adjoint, 0);
    }
    count_pass(op, is_adjoint, start_ns);
    return gx_run_poll(op->run);
}

size_t gx_oper_floor_bytes(const gx_mat *A, gx_dtype dtype)
{
    size_t bytes = 0;
    gx_matrix_bytes(gx_min(A->rows, A->tile_rows), gx_min(A->cols, A->tile_cols), dtype, &bytes);
    return 4 * bytes;
}

gx_code gx_oper_begin(gx_run *run, const gx_mat *A, gx_dtype dtype, bool is_hermitian,
                      size_t keep_bytes, gx_oper *op)
{
    *op = shape_of(run, A, dtype, is_hermitian, keep_bytes);
    void *strip = NULL;
    gx_err err = {0};
    if (!gx_ok(run) || gx_mem_calloc(run->ctx->mem, (size_t)(grid_cols(op) + 1) * sizeof(void *),
                                     "columns of blocks", &strip, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    op->strip = strip;
    if (keep_bytes < FEW_PASSES) {
        op->on_device = gx_ceil_div(gx_oper_device_begin(op), op->edge_cols);
    }
    keep_columns(op);
    return gx_ok(run) ? GX_OK : run->err.code;
}

void gx_oper_end(gx_oper *op)
{
    if (op->run == NULL) {
        return;
    }
    gx_mem *mem = op->run->ctx->mem;
    gx_oper_device_end(op);
    for (int64_t j = 0; op->strip != NULL && j < grid_cols(op); j++) {
        gx_mem_free(mem, op->strip[j]);
    }
    gx_mem_free(mem, op->strip);
    gx_oper_end_transformed(op);
    *op = (gx_oper){0};
}
