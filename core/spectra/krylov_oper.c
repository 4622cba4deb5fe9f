/*
** Operators of Krylov methods: products with a stored matrix.
**
** A is seen as columns of blocks.  Some of them are in memory, where they stay for all passes; the
** others are streamed in each pass (krylov_pass.c).  A cyclic pass over more than
** fits gets no hit from a cache that keeps what was used last, and a fixed subset is the best there
** is (Belady 1966 for cyclic references): the resident columns are that subset.
**
**   general     y_i += A_ij x_j              adjoint: y_j += A_ij^H x_i
**   Hermitian   of the lower triangle alone: y_i += A_ij x_j, y_j += A_ij^H x_i, i > j: each block
**               is used twice
**
** Where devices are chosen, they have the first columns, or all, and work beside the host
** (krylov_device.c).
**
** In deterministic mode blocks are taken in the same order and with the same shapes wherever they
** are, so that the bits of a product depend neither on the budget nor on the threads.
**
** What is made of A, inverses and the transformed problem of A x = lambda B x, is krylov_inverse.c.
*/
#include "../alg/by_parts.h"
#include "../alg/dense.h"
#include "../mat/sparse.h"
#include "krylov.h"

#include <stdio.h>
#include <string.h>

/* keep_bytes from here on: nothing is to stay anywhere, there will be no passes to speak of. */
static const size_t FEW_PASSES = SIZE_MAX / 8;

// What stays in memory ----------------------------------------------------------------------------

static gx_code load_strip(gx_oper *op, int64_t j)
{
    int64_t row0 = gx_oper_strip_row(op, j), col0 = j * op->edge_cols, rows = op->m - row0;
    int64_t cols = gx_min(op->edge_cols, op->n - col0);
    gx_mat view;
    gx_mat_view(&view, op->A, GX_NO_TRANS, row0, col0, rows, cols);
    gx_dense_alloc(op->run, op->dtype, rows, cols, "columns of the matrix", &op->strip[j]);
    gx_dense_load(op->run, &view, op->dtype, op->strip[j], rows);
    return gx_ok(op->run) ? GX_OK : op->run->err.code;
}

static gx_code apply_matrix(gx_oper *op, bool is_adjoint, const void *x, int64_t cols, void *y);

/* A matrix that is cut into blocks, of which nothing is in memory. */
static gx_oper shape_of(gx_run *run, const gx_mat *A, gx_number dtype, bool is_hermitian,
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
    return (size_t)((op->m - gx_oper_strip_row(op, j)) * cols) * gx_number_bytes(op->dtype);
}

/*
** What columns of blocks from `first` on leave alone: what others want, the threads of a pass and,
** where the columns do not all fit, what these threads read into.
*/
static size_t left_alone(gx_oper *op, int64_t first)
{
    size_t total = 0, spare = 64 << 10, keep = op->keep_bytes + spare;
    for (int64_t j = first; j < gx_oper_grid_cols(op); j++) {
        total += column_bytes(op, j);
    }
    size_t resident = keep + gx_oper_pass_bytes(op, false);
    return total + resident > gx_mem_available(op->run->ctx->mem)
               ? keep + gx_oper_pass_bytes(op, true)
               : resident;
}

/*
** May columns in memory have others between them?  What is in memory is added up first, so that in
** deterministic mode only the first columns may be.
*/
static bool may_skip(const gx_oper *op)
{
    return op->run->ctx->config.number[GX_SET_DETERMINISTIC] == 0;
}

/*
** Of the columns of blocks that are not on the device, those that there is room for: the first
** ones, and of a Hermitian matrix shorter ones behind a column that does not fit.
*/
static void keep_columns(gx_oper *op)
{
    size_t keep = left_alone(op, op->on_device);
    for (int64_t j = op->on_device; j < gx_oper_grid_cols(op) && gx_ok(op->run); j++) {
        bool fits = gx_mem_available(op->run->ctx->mem) >= column_bytes(op, j) + keep;
        if (fits && op->strip[j] == NULL) {
            load_strip(op, j);
        }
        if (!fits && !may_skip(op)) {
            break;
        }
    }
}

void gx_oper_foresee(gx_run *run, const gx_mat *A, gx_number dtype, bool is_hermitian,
                     size_t keep_bytes, int64_t cols, gx_oper_plan *plan)
{
    gx_oper op = shape_of(run, A, dtype, is_hermitian, keep_bytes);
    double share = (double)gx_number_bytes(A->number) / (double)gx_number_bytes(dtype), swept = 0;
    bool is_resident = true;
    *plan = (gx_oper_plan){0};
    int64_t first = 0;
    if (run->target != NULL) {
        first = gx_ceil_div(gx_oper_device_foresee(&op, cols, plan), op.edge_cols);
        plan->once = plan->up * share;
    }
    size_t keep = left_alone(&op, first), available = gx_mem_available(run->ctx->mem);
    for (int64_t j = first; j < gx_oper_grid_cols(&op); j++) {
        size_t bytes = column_bytes(&op, j);
        is_resident = (is_resident || may_skip(&op)) && available >= bytes + keep;
        available -= is_resident ? bytes : 0;
        *(is_resident ? &plan->once : &plan->each) += (double)bytes * share;
        swept += (double)bytes * (is_hermitian ? 2 : 1); // each element is used twice
    }
    int threads = (int)run->ctx->config.number[GX_SET_THREADS];
    double host_s = swept / gx_profile_sweep_rate(gx_profile_get(run->ctx), threads);
    plan->pass_s = host_s > plan->pass_s ? host_s : plan->pass_s; // at the same time
}

/* A device has failed: the others take the first columns anew, what has no room is the host's. */
static void leave_device(gx_oper *op)
{
    op->on_device = gx_ceil_div(gx_oper_device_begin(op), op->edge_cols);
    keep_columns(op);
}

// Products ----------------------------------------------------------------------------------------

/* One more pass, for gx_stats: what it read of A, in memory, on the device, or in the database. */
static void count_pass(gx_oper *op, int64_t sweeps, int64_t start_ns)
{
    gx_stats *stats = &op->run->ctx->stats;
    double bytes = op->device == NULL ? 0 : gx_oper_device_bytes(op);
    for (int64_t j = op->on_device; j < gx_oper_grid_cols(op); j++) {
        double rows = (double)(op->m - gx_oper_strip_row(op, j));
        int64_t cols = gx_min(op->edge_cols, op->n - j * op->edge_cols);
        bytes += rows * (double)cols * (double)gx_number_bytes(op->dtype);
    }
    op->passes++; // one, however many sweeps it takes: what follows does not depend on memory
    gx_stats_add(stats, GX_STAT_PASSES, sweeps);
    gx_stats_add(stats, GX_STAT_PASS_BYTES, (int64_t)bytes * sweeps);
    gx_stats_add(stats, GX_STAT_PASS_NS, gx_now_ns() - start_ns);
}

static gx_code apply_matrix(gx_oper *op, bool is_adjoint, const void *x, int64_t cols, void *y)
{
    size_t bytes = (size_t)((is_adjoint ? op->n : op->m) * cols) * gx_number_bytes(op->dtype);
    if (!gx_ok(op->run) || op->m == 0 || op->n == 0 || cols == 0) {
        return op->run->err.code;
    }
    int64_t start_ns = gx_now_ns(), sweeps = 1;
    for (bool is_done = false; !is_done;) {
        bool adds = op->on_device < gx_oper_grid_cols(op); // else the devices write all of y
        if (op->device != NULL) {
            gx_oper_device_start(op, is_adjoint, x, cols, adds, y);
        }
        if (adds) {
            memset(y, 0, bytes);
            sweeps = gx_oper_pass(op, is_adjoint, x, cols, y, op->on_device);
        }
        is_done = op->device == NULL || gx_oper_device_finish(op);
        if (!is_done) {
            leave_device(op);
        }
    }
    count_pass(op, sweeps, start_ns);
    return gx_run_poll(op->run);
}

/* The same of a composite that is multiplied part by part. */
static gx_code apply_parts(gx_oper *op, bool is_adjoint, const void *x, int64_t cols, void *y)
{
    const gx_parts p = {op->run, op->dtype};
    int64_t from = is_adjoint ? op->m : op->n, to = is_adjoint ? op->n : op->m;
    gx_vectors X = {from, cols, from, (void *)(uintptr_t)x}, Y = {to, cols, to, y};
    if (!gx_ok(op->run) || op->m == 0 || op->n == 0 || cols == 0) {
        return op->run->err.code;
    }
    op->passes++;
    return gx_parts_apply(&p, (gx_turned){op->A, is_adjoint, is_adjoint}, GX_ONE, X, Y);
}

size_t gx_oper_least_bytes(const gx_mat *A, gx_number dtype)
{
    size_t blocks = gx_oper_floor_bytes(A, dtype), tile = 0;
    if (A->is_sparse) {
        return blocks;
    }
    gx_oper op = shape_of(NULL, A, dtype, A->rows == A->cols, 0);
    gx_matrix_bytes(gx_min(A->rows, A->tile_rows), gx_min(A->cols, A->tile_cols), A->number, &tile);
    size_t pass = gx_oper_pass_least(&op) + 2 * tile;
    return pass < blocks ? pass : blocks;
}

size_t gx_oper_floor_bytes(const gx_mat *A, gx_number dtype)
{
    size_t bytes = 0;
    if (A->is_sparse) { // a panel for each of two threads, a vector on either side, turned
        bytes = (size_t)(2 * (A->rows + A->cols)) * gx_number_bytes(dtype);
        return bytes + 2 * gx_sparse_block_bytes(A);
    }
    gx_matrix_bytes(gx_min(A->rows, A->tile_rows), gx_min(A->cols, A->tile_cols), dtype, &bytes);
    return 4 * bytes;
}

gx_code gx_oper_begin(gx_run *run, const gx_mat *A, gx_number dtype, bool is_hermitian,
                      size_t keep_bytes, gx_oper *op)
{
    if (A->is_sparse) {
        return gx_oper_begin_sparse(run, A, dtype, is_hermitian, keep_bytes, op);
    }
    *op = shape_of(run, A, dtype, is_hermitian, keep_bytes);
    if (gx_mat_is_structured(A)) {
        op->apply = apply_parts;
        return GX_OK;
    }
    op->strip = gx_run_calloc(run, (size_t)(gx_oper_grid_cols(op) + 1) * sizeof(void *),
                              "columns of blocks");
    if (op->strip == NULL) {
        return run->err.code;
    }
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
    for (int64_t j = 0; op->strip != NULL && j < gx_oper_grid_cols(op); j++) {
        gx_mem_free(mem, op->strip[j]);
    }
    gx_mem_free(mem, op->strip);
    gx_oper_end_sparse(op);
    gx_oper_end_transformed(op);
    *op = (gx_oper){0};
}

uint64_t gx_oper_search_key(const gx_mat *A, int kind, int64_t k, int64_t ncv, int64_t block,
                            double tol)
{
    char text[GX_NAME_MAX + 160];
    snprintf(text, sizeof text, "%s %lld %lld %d %lld %lld %lld %.17g", A->meta.schema,
             (long long)A->meta.id, (long long)A->meta.generation, kind, (long long)k,
             (long long)ncv, (long long)block, tol);
    uint64_t key = 0xCBF29CE484222325; // FNV-1a
    for (const char *c = text; *c != '\0'; c++) {
        key = (key ^ (unsigned char)*c) * 0x100000001B3;
    }
    return A->kind == GX_MAT_STORED ? key : 0;
}

gx_code gx_kry_check_sizes(gx_run *run, int64_t n, int64_t k, int64_t ncv, int64_t block)
{
    int64_t least = gx_min(n, 2 * k + 1);
    if (ncv != 0 && (ncv < least || ncv > n)) {
        return gx_run_failf(run, GX_ARG, "ncv must be from %lld to %lld for k = %lld, not %lld",
                            (long long)least, (long long)n, (long long)k, (long long)ncv);
    }
    if (block < 0 || block > GX_KRY_BLOCK_MOST) {
        return gx_run_failf(run, GX_ARG, "block must be from 1 to %d, not %lld", GX_KRY_BLOCK_MOST,
                            (long long)block);
    }
    return GX_OK;
}
