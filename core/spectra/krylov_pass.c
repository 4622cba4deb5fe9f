/*
** One pass of a Krylov method over the stored matrix: y += A x for a few columns.
**
** A is cut into units, rectangles of its blocks of about UNIT_BYTES, of a streamed pass
** (exec/pass.h).  A thread reads its unit chunk by chunk (GX_PASS_CHUNK_BYTES, so that a chunk is
** still in the core's own cache) and multiplies it at once (GX_PAIR).  A Hermitian matrix is read
** below its diagonal alone, and each chunk is used twice: y_i += A_ij x_j and y_j += A_ij^H x_i.
** On the diagonal the square of a chunk is mirrored in a small buffer.
**
** What a unit adds to y is its part, which the pass folds into y in the order of the units.  Chunks
** and order follow from the shape of the blocks alone: the same bits whatever the number of threads
** and wherever the blocks are.
**
** Blocks in memory are multiplied in one pass, those that are read in another.  Every second
** product goes backwards: what the system's cache of a file larger than it still holds is the end
** of the product before (a cyclic order would find nothing there).
**
** Memory: for each thread a chunk, a square, and parts of (rows + columns of a unit) x columns.
** Where the budget does not hold that, fewer threads; then fewer columns at a time, with a sweep
** over A for each group of them.  I/O: each unit once in a sweep.
*/
#include "../alg/dense.h"
#include "../exec/pass.h"
#include "krylov.h"

#include <string.h>

/* Much work beside folding its part, little beside a pass. */
static const int64_t UNIT_BYTES = 2 << 20;

/* Rows of a unit, at most: its columns of vectors stay in the cache.  A power of two, as chunks. */
enum { ROWS_MOST = 4096 };

/* Columns of vectors for which room is kept. */
enum { USUAL_COLUMNS = 16 };

typedef struct unit {
    int64_t i0, j0, m, n; /* the rectangle of A                       */
    const void *a;        /* in memory; NULL: read                    */
    int64_t lda;
} unit;

typedef struct product {
    gx_oper *op;
    const gx_backend *backend;
    gx_dev *dev;
    bool has_rows, has_cols; /* y_i, y_j                                       */
    const char *x;
    char *y;
    int64_t ldx, ldy, cols;
    int64_t chunk_cols;
    int64_t unit_rows, unit_cols; /* at most                                        */
    unit *units;
    int64_t count;
    size_t chunk_bytes; /* of a thread's memory: the chunk, then the square */
} product;

/* What a unit adds to y. */
typedef struct sums {
    char *rows; /* m x cols: for y_i                        */
    char *cols; /* n x cols: for y_j                        */
} sums;

// Units -------------------------------------------------------------------------------------------

/* The sides of chunks and units, by the shape of a block alone. */
static void choose_sides(const gx_oper *op, product *p)
{
    int64_t element = (int64_t)gx_number_bytes(op->dtype), width = 1;
    p->unit_rows = gx_min(op->edge_rows, ROWS_MOST);
    int64_t most = gx_max(1, GX_PASS_CHUNK_BYTES / element / p->unit_rows);
    while (2 * width <= gx_min(most, ROWS_MOST) && width < op->edge_cols) {
        width *= 2;
    }
    p->chunk_cols = width;
    int64_t chunks = gx_max(1, UNIT_BYTES / element / p->unit_rows / width);
    p->unit_cols = gx_min(chunks * width, op->edge_cols);
}

static int64_t units_of_block(const gx_oper *op, const product *p)
{
    return gx_ceil_div(op->edge_rows, p->unit_rows) * gx_ceil_div(op->edge_cols, p->unit_cols);
}

/* The units of block (i, j), appended. */
static void add_block(product *p, int64_t i, int64_t j)
{
    const gx_oper *op = p->op;
    int64_t row = i * op->edge_rows, col = j * op->edge_cols;
    int64_t row_end = gx_min(op->m, row + op->edge_rows);
    int64_t col_end = gx_min(op->n, col + op->edge_cols);
    for (int64_t j0 = col; j0 < col_end; j0 += p->unit_cols) {
        for (int64_t i0 = row; i0 < row_end; i0 += p->unit_rows) {
            unit u = {.i0 = i0,
                      .j0 = j0,
                      .m = gx_min(p->unit_rows, row_end - i0),
                      .n = gx_min(p->unit_cols, col_end - j0)};
            if (op->is_hermitian && i0 + u.m <= j0) {
                continue; // above the diagonal
            }
            if (op->strip[j] != NULL) {
                int64_t top = gx_oper_strip_row(op, j);
                u.lda = op->m - top;
                u.a = gx_at(op->strip[j], op->dtype, u.lda, i0 - top, j0 - col);
            }
            p->units[p->count++] = u;
        }
    }
}

/* Those of the columns of blocks from `first` on that are to be read, or that are in memory. */
static void list_units(product *p, int64_t first, bool are_read)
{
    const gx_oper *op = p->op;
    p->count = 0;
    for (int64_t j = first; j < gx_oper_grid_cols(op); j++) {
        for (int64_t i = op->is_hermitian ? j : 0;
             (op->strip[j] == NULL) == are_read && i < gx_oper_grid_rows(op); i++) {
            add_block(p, i, j);
        }
    }
    for (int64_t t = 0; op->passes % 2 == 1 && t < p->count / 2; t++) {
        unit swap = p->units[t];
        p->units[t] = p->units[p->count - 1 - t];
        p->units[p->count - 1 - t] = swap;
    }
}

// One unit ----------------------------------------------------------------------------------------

/* What a chunk adds: rows [i, i + m), columns [j, j + n) of A at a. */
static gx_code multiply(const product *p, const unit *u, const sums *out, int64_t i, int64_t j,
                        int64_t m, int64_t n, const void *a, int64_t lda, bool is_square,
                        gx_err *err)
{
    gx_number dtype = p->op->dtype;
    gx_args args = {.m = m, .n = n, .k = p->cols, .a = a, .lda = lda};
    if (p->has_rows) {
        args.b = gx_at(p->x, dtype, p->ldx, j, 0);
        args.ldb = p->ldx;
        args.c = gx_at(out->rows, dtype, u->m, i - u->i0, 0);
        args.ldc = u->m;
    }
    if (p->has_cols && !is_square) {
        args.b2 = gx_at(p->x, dtype, p->ldx, i, 0);
        args.ldb2 = p->ldx;
        args.c2 = gx_at(out->cols, dtype, u->n, j - u->j0, 0);
        args.ldc2 = u->n;
    }
    return m == 0 ? GX_OK : p->backend->kernel[GX_PAIR][dtype](p->dev, NULL, &args, err);
}

/* A chunk with the diagonal in it: its square, mirrored, and what lies below. */
static gx_code multiply_diagonal(const product *p, const unit *u, const sums *out, char *square,
                                 int64_t j, int64_t n, const void *a, int64_t lda, gx_err *err)
{
    gx_number dtype = p->op->dtype;
    int64_t below = gx_min(j + n, u->i0 + u->m), side = below - j; // = n: chunks are square there
    const void *top = gx_at(a, dtype, lda, j - u->i0, 0);
    for (int64_t c = 0; c < side; c++) {
        memcpy(gx_at(square, dtype, side, c, c), gx_at(top, dtype, lda, c, c),
               (size_t)(side - c) * gx_number_bytes(dtype));
    }
    gx_args mirror = {.uplo = GX_LOWER,
                      .transa = gx_adjoint(dtype),
                      .m = side,
                      .n = side,
                      .c = square,
                      .ldc = side};
    GX_TRY(p->backend->kernel[GX_SYMMETRIZE][dtype](p->dev, NULL, &mirror, err));
    GX_TRY(multiply(p, u, out, j, j, side, n, square, side, true, err));
    return multiply(p, u, out, below, j, u->i0 + u->m - below, n,
                    gx_at(a, dtype, lda, below - u->i0, 0), lda, false, err);
}

static sums sums_of(const product *p, const unit *u, void *part)
{
    return (sums){part, gx_at(part, p->op->dtype, u->m, 0, p->has_rows ? p->cols : 0)};
}

/* One unit's part; memory: a chunk where A is read, and the square. */
static gx_code multiply_unit(void *arg, int64_t number, gx_pass_thread *thread, void *memory,
                             void *part, gx_err *err)
{
    const product *p = arg;
    const gx_oper *op = p->op;
    const unit *u = &p->units[number];
    sums out = sums_of(p, u, part);
    int64_t rows = (p->has_rows ? u->m : 0) + (p->has_cols ? u->n : 0);
    memset(part, 0, (size_t)(rows * p->cols) * gx_number_bytes(op->dtype));
    for (int64_t j = u->j0; j < u->j0 + u->n && gx_ok(op->run); j += p->chunk_cols) {
        int64_t n = gx_min(p->chunk_cols, u->j0 + u->n - j), lda = u->lda;
        const void *a = u->a == NULL ? NULL : gx_at(u->a, op->dtype, lda, 0, j - u->j0);
        if (op->is_hermitian && u->i0 + u->m <= j) {
            break; // above the diagonal
        }
        if (u->a == NULL) {
            GX_TRY(gx_pass_take(thread, op->A, u->i0, j, u->m, n, gx_dtype_of(op->dtype), memory,
                                &a, &lda, err));
        }
        bool is_diagonal = op->is_hermitian && u->i0 <= j;
        char *square = (char *)memory + p->chunk_bytes;
        GX_TRY(is_diagonal ? multiply_diagonal(p, u, &out, square, j, n, a, lda, err)
                           : multiply(p, u, &out, u->i0, j, u->m, n, a, lda, false, err));
    }
    return GX_OK;
}

static gx_code fold_unit(void *arg, int64_t number, void *part, gx_err *err)
{
    const product *p = arg;
    gx_number dtype = p->op->dtype;
    const unit *u = &p->units[number];
    sums from = sums_of(p, u, part);
    (void)err;
    if (p->has_rows) {
        gx_kry_add(dtype, u->m, p->cols, from.rows, gx_at(p->y, dtype, p->ldy, u->i0, 0), p->ldy);
    }
    if (p->has_cols) {
        gx_kry_add(dtype, u->n, p->cols, from.cols, gx_at(p->y, dtype, p->ldy, u->j0, 0), p->ldy);
    }
    return GX_OK;
}

// Memory ------------------------------------------------------------------------------------------

/* A pass over the units that there are, for so many columns of vectors. */
static gx_pass pass_of(product *p, int64_t cols, bool are_read)
{
    gx_number dtype = p->op->dtype;
    size_t element = gx_number_bytes(dtype);
    int64_t side = p->op->is_hermitian ? gx_min(p->chunk_cols, p->unit_rows) : 0;
    double elements = 0;
    for (int64_t t = 0; t < p->count; t++) {
        elements += (double)(p->units[t].m * p->units[t].n);
    }
    int64_t chunk = are_read ? gx_ceil_div(p->unit_rows * p->chunk_cols, 16) * 16 : 0; // aligned
    p->chunk_bytes = (size_t)chunk * element;
    return (gx_pass){.sources = &p->op->A,
                     .source_count = are_read ? 1 : 0,
                     .units = p->count,
                     .bytes = elements * (double)gx_number_bytes(p->op->A->number),
                     .flops = elements * (double)cols * (gx_number_is_complex(dtype) ? 8 : 2) *
                              (p->has_rows && p->has_cols ? 2 : 1),
                     .work_bytes = p->chunk_bytes + (size_t)(side * side) * element,
                     .part_bytes = (size_t)((p->unit_rows + p->unit_cols) * cols) * element,
                     .work = multiply_unit,
                     .fold = fold_unit,
                     .arg = p};
}

static bool reads_any(const gx_oper *op, int64_t first)
{
    for (int64_t j = first; j < gx_oper_grid_cols(op); j++) {
        if (op->strip[j] == NULL) {
            return true;
        }
    }
    return false;
}

static int64_t most_units(const gx_oper *op, const product *p)
{
    return gx_oper_grid_rows(op) * gx_oper_grid_cols(op) * units_of_block(op, p);
}

size_t gx_oper_pass_bytes(gx_oper *op, bool are_read)
{
    product p = {.op = op};
    choose_sides(op, &p);
    const gx_config *config = &op->run->ctx->config;
    int64_t threads = config->number[GX_SET_THREADS];
    threads = are_read ? gx_max(threads, config->number[GX_SET_READERS]) : threads;
    gx_pass pass = pass_of(&p, USUAL_COLUMNS, are_read);
    return (size_t)threads * gx_pass_thread_bytes(&pass) +
           (size_t)most_units(op, &p) * sizeof(unit);
}

size_t gx_oper_pass_least(const gx_oper *op)
{
    product p = {.op = (gx_oper *)(uintptr_t)op};
    choose_sides(op, &p);
    gx_pass pass = pass_of(&p, USUAL_COLUMNS, true);
    return gx_pass_least_bytes(&pass) + (size_t)most_units(op, &p) * sizeof(unit);
}

// The pass ----------------------------------------------------------------------------------------

/* The units of the columns from `first` on that are in memory, or of those that are not. */
static void run_units(product *p, int64_t first, bool are_read)
{
    gx_stats *stats = &p->op->run->ctx->stats;
    list_units(p, first, are_read);
    gx_pass pass = pass_of(p, p->cols, are_read);
    gx_pass_run(p->op->run, &pass);
    gx_stats_add(stats, GX_STAT_FLOPS, (int64_t)pass.flops);
    gx_stats_add(stats, GX_STAT_KERNELS, p->count);
}

/* So many columns at a time that memory holds what one thread needs for them. */
static int64_t columns_together(product *p, int64_t cols, bool are_read)
{
    size_t available = gx_mem_available(p->op->run->ctx->mem);
    gx_pass pass = pass_of(p, cols, are_read);
    while (cols > 1 && gx_pass_least_bytes(&pass) > available) {
        cols = gx_ceil_div(cols, 2);
        pass = pass_of(p, cols, are_read);
    }
    return cols;
}

int64_t gx_oper_pass(gx_oper *op, bool is_adjoint, const void *x, int64_t cols, void *y,
                     int64_t first)
{
    product p = {.op = op};
    int64_t sweeps = 0;
    p.has_rows = !is_adjoint || op->is_hermitian;
    p.has_cols = is_adjoint || op->is_hermitian;
    p.ldx = is_adjoint ? op->m : op->n;
    p.ldy = is_adjoint ? op->n : op->m;
    choose_sides(op, &p);
    gx_run_device(op->run, &p.backend, &p.dev);
    p.units =
        gx_run_alloc(op->run, (size_t)most_units(op, &p) * sizeof(unit), "pieces of the matrix");
    if (p.units == NULL) {
        return 0;
    }
    bool is_back = op->passes % 2 == 1;
    int64_t together = columns_together(&p, cols, reads_any(op, first));
    for (int64_t c = 0; c < cols && gx_ok(op->run); c += together, sweeps++) {
        p.cols = gx_min(together, cols - c);
        p.x = gx_at(x, op->dtype, p.ldx, 0, c);
        p.y = gx_at(y, op->dtype, p.ldy, 0, c);
        run_units(&p, first, is_back);
        run_units(&p, first, !is_back);
    }
    gx_mem_free(op->run->ctx->mem, p.units);
    return sweeps;
}
