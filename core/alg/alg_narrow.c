/*
** Products with few columns: Y = op(S) X, and S^H S, in one streamed pass over S (pass.h).
**
**   Y_i += S_ij X_j        op(S) = S: the tiles of a row of tiles give the same rows of Y
**   Y_j += S_ij^H X_i      transposed: those of a column of tiles
**
** A unit is a tile.  It is read a chunk of columns at a time, so that it is still in the core's own
** cache, and each chunk is multiplied at once (GX_PAIR; GX_GEMM from GEMM_COLUMNS on, SYRK for
** S^H S) by one thread: such a product is bounded by memory, and many threads that each read and
** multiply a tile of their own come nearer to that bound than a team that shares every block.
** What a tile adds to Y is a part, folded in the order of the tiles, strip by strip of Y.  Where
** tiles share no rows of Y it is written where it belongs at once.
**
** X is in memory (held), or, where each of its rows is wanted by one tile alone or there is no
** room, read by the unit that wants it.  Y is in memory, or, where it is large or there is no room,
** in a window of a few strips, whose finished tiles the caller writes while others go on.  In
** memory it lies strip by strip where strips are whole tiles of the result: they are written as
** they are.
**
** S^T X with complex S is conj(S^H conj(X)): one kernel for both.  C = op(A) op(B) with few rows is
** the transpose of op(B)^T op(A)^T.
**
** I/O: S once, X once, C once.  Memory: for each thread a chunk and two parts, at most three tiles
** for one thread.  The order of all additions follows from the shape of the tiles: the same bits
** for every number of threads; with `deterministic`, where GX_PAIR is taken for all k, for every
** budget.
*/
#include "dense.h"
#include "narrow.h"
#include "plan.h"

#include <string.h>

/* Columns of X, at most; of S^H S: there a tile must be as wide as S, but for a column of ones. */
enum { MOST_COLUMNS = 64, MOST_GRAM = 257 };

/* From so many columns on a packed product is faster. */
enum { GEMM_COLUMNS = 24 };

/* A chunk for packed products; of tiles higher than TALL rows. */
static const int64_t GEMM_BYTES = 2 << 20, TALL_BYTES = 8 << 20;
enum { TALL = 4096 };

/* Less is not worth the name; values that are multiplied where they are, by one call. */
static const double SMALL_FLOPS = 4e5, SMALL_VALUE_FLOPS = 4e6; /* the first is the least */

/* A stored result of so many bytes is written while others read, where that is possible. */
static const size_t LARGE_BYTES = 64 << 20;

// Planning ----------------------------------------------------------------------------------------

static bool is_one(gx_scalar x)
{
    return x.re == 1 && x.im == 0;
}

static bool has_c0(const gx_matmul_args *args)
{
    return args->C0 != NULL && (args->beta.re != 0 || args->beta.im != 0);
}

/* The units: a matrix in memory has smaller ones, so that there are some for everybody. */
static void take_tiles(const gx_mat *S, gx_narrow *n)
{
    const size_t PIECE_BYTES = 1 << 20;
    gx_err ignored = {0};
    n->S = S;
    n->tile_rows = S->tile_rows;
    n->tile_cols = S->tile_cols;
    if (gx_mat_is_value(S)) {
        gx_tile_shape(S->rows, S->cols, S->dtype, PIECE_BYTES, &n->tile_rows, &n->tile_cols,
                      &ignored);
    }
}

/* S is A: Y = C; S is B: Y = C^T = op(B)^T op(A)^T. */
static void take_sides(const gx_matmul_args *args, bool is_left, gx_narrow *n)
{
    const gx_mat *X = is_left ? args->A : args->B;
    gx_trans of_s = is_left ? args->transb : args->transa;
    gx_trans of_x = is_left ? args->transa : args->transb;
    bool is_complex = gx_number_is_complex(n->dtype);
    bool s_conj = of_s == GX_CONJ_TRANS && is_complex;
    bool x_turned = is_left ? of_x == GX_NO_TRANS : of_x != GX_NO_TRANS;
    take_tiles(is_left ? args->B : args->A, n);
    n->is_left = is_left;
    n->is_trans = is_left ? of_s == GX_NO_TRANS : of_s != GX_NO_TRANS;
    n->flips = is_complex && (n->is_trans ? !s_conj : s_conj);
    n->conj_x = is_complex && ((of_x == GX_CONJ_TRANS) != n->flips);
    gx_mat_view(&n->x, X, x_turned ? GX_TRANS : GX_NO_TRANS, 0, 0, x_turned ? X->cols : X->rows,
                x_turned ? X->rows : X->cols);
    n->p = n->is_trans ? n->S->cols : n->S->rows;
    n->q = n->is_trans ? n->S->rows : n->S->cols;
    n->k = n->x.cols;
}

/* op(A) op(A)^T, conjugated or not, with one tile across: the long side is summed over. */
static bool take_gram(const gx_matmul_args *args, gx_narrow *n)
{
    const gx_mat *A = args->A;
    take_tiles(A, n);
    n->is_trans = args->transa != GX_NO_TRANS;
    n->p = n->k = n->is_trans ? A->cols : A->rows;
    n->q = n->is_trans ? A->rows : A->cols;
    n->is_gram = true;
    return n->k <= MOST_GRAM && n->q > 4 * n->k &&
           (n->is_trans ? n->tile_cols >= A->cols : n->tile_rows >= A->rows);
}

/* Does a side of S this long stand for streaming? */
static bool is_narrow(const gx_narrow *n)
{
    const gx_mat *S = n->S;
    bool is_plain = gx_mat_is_tiled(S) || gx_mat_is_value(S) || S->kind == GX_MAT_GENERATED ||
                    S->kind == GX_MAT_CENTRED;
    double pairs = (double)n->p * (double)n->q * (double)n->k;
    double least = S->kind == GX_MAT_VALUE ? SMALL_VALUE_FLOPS : SMALL_FLOPS;
    return is_plain && n->k > 0 && 2 * pairs >= least && n->k <= n->tile_rows &&
           n->k <= n->tile_cols && (n->is_gram || n->k <= MOST_COLUMNS);
}

static size_t bytes_of(const gx_narrow *n, int64_t rows, int64_t cols)
{
    return (size_t)(rows * cols) * gx_number_bytes(n->dtype);
}

/* Columns of a tile that are read and multiplied together; all, of a piece of rows, for S^H S. */
static void choose_chunks(gx_narrow *n)
{
    const gx_mat *S = n->S;
    int64_t element = (int64_t)gx_number_bytes(n->dtype);
    int64_t rows = gx_min(n->tile_rows, S->rows), cols = gx_min(n->tile_cols, S->cols);
    n->chunk_rows = rows;
    if (n->is_gram && n->is_trans) {
        n->chunk_cols = cols;
        n->chunk_rows = gx_max(1, gx_min(rows, 2 * TALL_BYTES / element / cols));
        return;
    }
    int64_t bytes = n->is_gram || n->k >= GEMM_COLUMNS ? GEMM_BYTES : GX_PASS_CHUNK_BYTES;
    int64_t width = bytes / element / rows;
    if (rows > TALL) {
        width = gx_max(width, gx_min(4 * n->k, TALL_BYTES / element / rows));
    }
    n->chunk_cols = gx_max(1, gx_min(width, cols));
}

static size_t chunk_bytes(const gx_narrow *n)
{
    bool is_there = n->S->kind == GX_MAT_VALUE && n->S->number == n->dtype;
    return is_there ? 0 : gx_whole_lines(bytes_of(n, n->chunk_rows, n->chunk_cols));
}

/* Rows of X that a tile wants. */
static int64_t step_rows(const gx_narrow *n)
{
    return n->is_trans ? gx_min(n->tile_rows, n->S->rows) : gx_min(n->tile_cols, n->S->cols);
}

static size_t work_bytes(const gx_narrow *n)
{
    return chunk_bytes(n) + (n->holds_x || n->is_gram ? 0 : bytes_of(n, step_rows(n), n->k));
}

static size_t part_bytes(const gx_narrow *n)
{
    return n->per_strip == 1 && n->holds_y ? 0 : bytes_of(n, n->strip, n->k);
}

/* Rows of Y that make whole tiles of the result. */
static int64_t tile_of(const gx_narrow *n, const gx_sink *C)
{
    int64_t tile = n->is_left ? C->tile_cols : C->tile_rows;
    return gx_max(1, gx_min(tile > 0 ? tile : n->p, n->p));
}

/* What is there beside the threads: X, Y, and what results are turned and added in. */
static size_t common_bytes(const gx_narrow *n, const gx_sink *C)
{
    size_t tile = bytes_of(n, gx_min(n->p, gx_max(tile_of(n, C), n->strip)), n->k);
    size_t bytes = n->holds_x ? bytes_of(n, n->q, n->k) : 0;
    bytes += !n->holds_y    ? bytes_of(n, n->window, n->k)
             : n->is_direct ? 0
                            : bytes_of(n, n->p, n->k);
    bytes += n->is_left ? tile : 0;
    return bytes + (has_c0(n->args) ? tile : 0);
}

static bool fits(gx_run *run, const gx_narrow *n, const gx_sink *C)
{
    gx_pass pass = {.units = 2, .work_bytes = work_bytes(n), .part_bytes = part_bytes(n)};
    return common_bytes(n, C) + gx_pass_least_bytes(&pass) + (16 << 10) <=
           gx_mem_available(run->ctx->mem);
}

static void choose_window(gx_narrow *n, const gx_sink *C)
{
    int64_t tile = tile_of(n, C);
    bool is_aligned = n->per_strip == 1 && n->strip % tile == 0;
    n->window = is_aligned ? 0 : tile % n->strip == 0 ? tile : tile + n->strip;
    n->window = gx_min(n->window, n->p);
}

/* Where X and Y are: in memory where that is a small part of it. */
static bool place(gx_run *run, const gx_sink *C, gx_narrow *n)
{
    size_t quarter = gx_mem_available(run->ctx->mem) / 4, y = bytes_of(n, n->p, n->k);
    bool is_shared = n->is_trans ? n->S->cols > n->tile_cols : n->S->rows > n->tile_rows;
    n->is_direct = !C->is_stored && C->value.data != NULL && !n->is_left && !n->flips &&
                   is_one(n->args->alpha) && !has_c0(n->args) && !n->is_gram;
    n->holds_x = !n->is_gram && is_shared && bytes_of(n, n->q, n->k) <= quarter;
    bool overlaps =
        C->is_stored && y > LARGE_BYTES &&
        (gx_mat_base_stored(n->S) == NULL ||
         gx_store_is_wal(run->ctx->store, C->meta.schema[0] == '\0' ? "main" : C->meta.schema));
    n->holds_y = n->is_direct || n->is_gram || (!overlaps && y <= 2 * quarter);
    choose_window(n, C);
    if (!fits(run, n, C) && !n->is_gram) {
        n->holds_x = false;
        n->holds_y = n->is_direct;
    }
    return fits(run, n, C);
}

bool gx_narrow_plan(gx_run *run, const gx_matmul_args *args, const gx_sink *C, gx_narrow *n)
{
    double k = (double)(args->transa == GX_NO_TRANS ? args->A->cols : args->A->rows);
    if (C->number == GX_M31) {
        return false; // its product needs room, and is an arithmetic of its own
    }
    if (2 * (double)C->rows * (double)C->cols * k < SMALL_FLOPS) {
        return false; // is_narrow() would say so of every side: thousands of products are small
    }
    *n = (gx_narrow){.args = args, .dtype = C->number};
    n->is_fixed = run->ctx->config.number[GX_SET_DETERMINISTIC] != 0;
    bool is_found =
        gx_plan_is_gram(args, n->dtype, &n->is_hermitian) && take_gram(args, n) && is_narrow(n);
    for (int left = 0; left < 2 && !is_found; left++) {
        *n = (gx_narrow){.args = args, .dtype = C->number, .is_fixed = n->is_fixed};
        take_sides(args, left == 1, n);
        is_found = is_narrow(n);
    }
    if (!is_found || !gx_ok(run)) {
        return false;
    }
    const gx_mat *S = n->S;
    int64_t row_tiles = gx_ceil_div(S->rows, n->tile_rows);
    int64_t col_tiles = gx_ceil_div(S->cols, n->tile_cols);
    n->strip = n->is_gram    ? n->p
               : n->is_trans ? gx_min(n->tile_cols, S->cols)
                             : gx_min(n->tile_rows, S->rows);
    n->per_strip = n->is_trans ? row_tiles : col_tiles;
    choose_chunks(n);
    return place(run, C, n);
}

static double flops_of(const gx_narrow *n)
{
    gx_args size = {.m = n->p, .n = n->k, .k = n->q};
    gx_kernel_id kernel = !n->is_gram ? GX_GEMM : n->is_hermitian ? GX_HERK : GX_SYRK;
    return gx_kernel_flops(kernel, n->dtype, &size);
}

static double stored_bytes(const gx_mat *mat)
{
    mat = mat->kind == GX_MAT_CENTRED ? mat->base : mat; // as it is stored
    return gx_mat_base_stored(mat) == NULL
               ? 0
               : (double)mat->rows * (double)mat->cols * (double)gx_dtype_bytes(mat->dtype);
}

void gx_narrow_predict(gx_run *run, const gx_narrow *n, const gx_sink *C, gx_cost *cost,
                       gx_terms *terms)
{
    double element = (double)gx_number_bytes(n->dtype);
    *cost = (gx_cost){.flops = flops_of(n),
                      .bytes_read = stored_bytes(n->S) + (n->is_gram ? 0 : stored_bytes(&n->x)),
                      .bytes_up = (double)n->p * (double)n->q * element,
                      .bytes_down = (double)C->rows * (double)C->cols * element};
    cost->bytes_up =
        n->is_gram ? element * (double)n->S->rows * (double)n->S->cols : cost->bytes_up;
    cost->bytes_written = C->is_stored ? cost->bytes_down : 0;
    cost->calls = gx_ceil_div(n->S->rows, n->tile_rows) * gx_ceil_div(n->S->cols, n->tile_cols);
    cost->loads = cost->calls;
    gx_predict_pass(run, cost, n->dtype, n->k, terms);
}

// One tile ----------------------------------------------------------------------------------------

typedef struct product {
    gx_run *run;
    const gx_narrow *plan;
    gx_sink *C;
    const gx_backend *backend;
    gx_dev *dev;
    void *x_memory, *y_memory, *turned, *sums; /* turned, sums: a tile of the result */
    const char *x;
    int64_t ldx;
    char *y;
    int64_t ldy;           /* 0: strip by strip, each as high as it is */
    gx_reader *own;        /* for C0                                        */
    int64_t written, done; /* rows of Y in the result; finished in a window */
} product;

static gx_code call(const product *p, gx_kernel_id kernel, const gx_args *args, gx_err *err)
{
    return p->backend->kernel[kernel][p->plan->dtype](p->dev, NULL, args, err);
}

/* A chunk, m x w, against its part of X (m or w rows), into out. */
static gx_code multiply(const product *p, int64_t m, int64_t w, const void *a, int64_t lda,
                        const void *x, int64_t ldx, void *out, int64_t ldo, gx_err *err)
{
    const gx_narrow *n = p->plan;
    if (n->is_gram) {
        gx_trans trans = !n->is_trans ? GX_NO_TRANS : n->is_hermitian ? GX_CONJ_TRANS : GX_TRANS;
        return call(p, n->is_hermitian ? GX_HERK : GX_SYRK,
                    &(gx_args){.uplo = GX_LOWER,
                               .transa = trans,
                               .m = n->k,
                               .n = n->k,
                               .k = n->is_trans ? m : w,
                               .alpha = GX_ONE,
                               .beta = GX_ONE,
                               .a = a,
                               .lda = lda,
                               .c = out,
                               .ldc = ldo},
                    err);
    }
    if (n->k >= GEMM_COLUMNS && !n->is_fixed) {
        return call(p, GX_GEMM,
                    &(gx_args){.transa = n->is_trans ? GX_CONJ_TRANS : GX_NO_TRANS,
                               .m = n->is_trans ? w : m,
                               .n = n->k,
                               .k = n->is_trans ? m : w,
                               .alpha = GX_ONE,
                               .beta = GX_ONE,
                               .a = a,
                               .lda = lda,
                               .b = x,
                               .ldb = ldx,
                               .c = out,
                               .ldc = ldo},
                    err);
    }
    gx_args pair = {.m = m, .n = w, .k = n->k, .a = a, .lda = lda};
    if (n->is_trans) {
        pair.b2 = x;
        pair.ldb2 = ldx;
        pair.c2 = out;
        pair.ldc2 = ldo;
    } else {
        pair.b = x;
        pair.ldb = ldx;
        pair.c = out;
        pair.ldc = ldo;
    }
    return call(p, GX_PAIR, &pair, err);
}

/* A tile, its unit's place among those of its strip, and the rows of Y that it gives. */
typedef struct unit_tile {
    int64_t step, i0, j0, m, n, row, rows;
} unit_tile;

static unit_tile tile_at(const gx_narrow *n, int64_t unit)
{
    const gx_mat *S = n->S;
    int64_t strip = unit / n->per_strip, step = unit % n->per_strip;
    unit_tile t = {.step = step};
    t.i0 = (n->is_trans ? step : strip) * n->tile_rows;
    t.j0 = (n->is_trans ? strip : step) * n->tile_cols;
    t.m = gx_min(n->tile_rows, S->rows - t.i0);
    t.n = gx_min(n->tile_cols, S->cols - t.j0);
    t.row = n->is_gram ? 0 : n->is_trans ? t.j0 : t.i0;
    t.rows = n->is_gram ? n->k : n->is_trans ? t.n : t.m;
    return t;
}

/* The rows of X that the tile wants: where they are held, or read behind the chunk. */
static gx_code find_x(const product *p, const unit_tile *t, gx_pass_thread *thread, char *work,
                      const char **x, int64_t *ldx, gx_err *err)
{
    const gx_narrow *n = p->plan;
    int64_t row = n->is_trans ? t->i0 : t->j0, rows = n->is_trans ? t->m : t->n;
    *x = NULL;
    *ldx = p->ldx;
    if (n->is_gram) {
        return GX_OK;
    }
    if (n->holds_x) {
        *x = gx_at(p->x, n->dtype, p->ldx, row, 0);
        return GX_OK;
    }
    char *mine = work + chunk_bytes(n);
    *x = mine;
    *ldx = rows;
    GX_TRY(gx_pass_read(thread, &n->x, row, 0, rows, n->k, n->dtype, mine, rows, err));
    gx_args conj = {
        .map = GX_MAP_CONJ, .m = rows, .n = n->k, .a = mine, .lda = rows, .c = mine, .ldc = rows};
    return n->conj_x ? call(p, GX_MAP, &conj, err) : GX_OK;
}

/* Row `row` of Y in memory, and how far its columns are apart. */
static char *y_at(const product *p, int64_t row, int64_t *ld)
{
    const gx_narrow *n = p->plan;
    if (p->ldy > 0) {
        *ld = p->ldy;
        return gx_at(p->y, n->dtype, p->ldy, row, 0);
    }
    int64_t first = row / n->strip * n->strip;
    *ld = gx_min(n->strip, n->p - first);
    return gx_at(p->y, n->dtype, 1, first * n->k + row - first, 0);
}

static gx_code multiply_tile(void *arg, int64_t unit, gx_pass_thread *thread, void *work,
                             void *part, gx_err *err)
{
    const product *p = arg;
    const gx_narrow *n = p->plan;
    const gx_mat *S = n->S;
    unit_tile t = tile_at(n, unit);
    bool is_direct = n->per_strip == 1 && n->holds_y;
    int64_t ldo = t.rows, ldx;
    char *out = is_direct ? y_at(p, t.row, &ldo) : part;
    const char *x;
    for (int64_t c = 0; c < n->k; c++) {
        memset(gx_at(out, n->dtype, ldo, 0, c), 0, bytes_of(n, t.rows, 1));
    }
    GX_TRY(find_x(p, &t, thread, work, &x, &ldx, err));
    for (int64_t j = 0; j < t.n && gx_ok(p->run); j += n->chunk_cols) {
        for (int64_t i = 0; i < t.m && gx_ok(p->run); i += n->chunk_rows) {
            int64_t m = gx_min(n->chunk_rows, t.m - i), w = gx_min(n->chunk_cols, t.n - j);
            const void *a;
            int64_t lda;
            if (gx_mat_is_void(S, t.i0 + i, t.j0 + j, m, w)) {
                continue;
            }
            GX_TRY(gx_pass_take(thread, S, t.i0 + i, t.j0 + j, m, w, gx_dtype_of(n->dtype), work,
                                &a, &lda, err));
            bool is_cut = n->is_trans && !n->is_gram; // its columns are rows of Y
            GX_TRY(multiply(p, m, w, a, lda,
                            n->is_gram ? NULL : gx_at(x, n->dtype, ldx, n->is_trans ? i : j, 0),
                            ldx, is_cut ? gx_at(out, n->dtype, ldo, j, 0) : out, ldo, err));
        }
    }
    return GX_OK;
}

// The result --------------------------------------------------------------------------------------

/* Rows row .. row + m - 1 of Y become part of C. */
static gx_code write_rows(product *p, int64_t row, int64_t m, char *y, int64_t ldy, gx_err *err)
{
    const gx_narrow *n = p->plan;
    const gx_matmul_args *args = n->args;
    gx_args map = {.m = m, .n = n->k, .alpha = args->alpha, .a = y, .lda = ldy, .c = y, .ldc = ldy};
    if (n->flips) {
        map.map = GX_MAP_CONJ;
        GX_TRY(call(p, GX_MAP, &map, err));
    }
    int64_t i0 = n->is_left ? 0 : row, j0 = n->is_left ? row : 0;
    if (n->is_left) {
        gx_args turn = {.transa = GX_TRANS, .m = n->k, .n = m, .a = y, .lda = ldy};
        turn.c = p->turned;
        turn.ldc = n->k;
        GX_TRY(call(p, GX_TRANSPOSE, &turn, err));
        map.m = n->k;
        map.n = m;
        map.a = map.c = p->turned;
        map.lda = map.ldc = n->k;
    }
    if (has_c0(args)) {
        GX_TRY(gx_mat_read(p->run, args->C0, p->own, i0, j0, map.m, map.n, n->dtype, p->sums, map.m,
                           err));
        map.b = p->sums;
        map.ldb = map.m;
        map.beta = args->beta;
        map.map = GX_MAP_ADD;
        GX_TRY(call(p, GX_MAP, &map, err));
    } else if (!is_one(args->alpha)) {
        map.map = GX_MAP_SCALE;
        GX_TRY(call(p, GX_MAP, &map, err));
    }
    return gx_sink_write(p->C, i0, j0, map.m, map.n, map.c, map.ldc, err);
}

/* Rows of a window have been finished: whole tiles of the result go, the rest moves up. */
static gx_code empty_window(product *p, gx_err *err)
{
    const gx_narrow *n = p->plan;
    int64_t tile = tile_of(n, p->C);
    int64_t end = p->done == n->p ? n->p : p->done / tile * tile;
    for (int64_t row = p->written; row < end; row += tile) {
        int64_t m = gx_min(tile, end - row);
        GX_TRY(
            write_rows(p, row, m, gx_at(p->y, n->dtype, p->ldy, row - p->written, 0), p->ldy, err));
    }
    for (int64_t c = 0; c < n->k && end > p->written; c++) {
        memmove(gx_at(p->y, n->dtype, p->ldy, 0, c),
                gx_at(p->y, n->dtype, p->ldy, end - p->written, c), bytes_of(n, p->done - end, 1));
    }
    p->written = gx_max(end, p->written);
    return GX_OK;
}

/* Y's rows at `to` = or += a part. */
static gx_code add_part(const product *p, bool is_first, int64_t rows, const void *part, void *to,
                        int64_t ld, gx_err *err)
{
    gx_args args = {.m = rows, .n = p->plan->k, .a = part, .lda = rows, .c = to, .ldc = ld};
    args.map = GX_MAP_ADD;
    args.alpha = args.beta = GX_ONE;
    args.b = to;
    args.ldb = ld;
    return call(p, is_first ? GX_COPY : GX_MAP, &args, err);
}

static gx_code fold_tile(void *arg, int64_t unit, void *part, gx_err *err)
{
    product *p = arg;
    const gx_narrow *n = p->plan;
    unit_tile t = tile_at(n, unit);
    if (!n->holds_y && n->window == 0) {
        return write_rows(p, t.row, t.rows, part, t.rows, err);
    }
    int64_t ld, row = n->holds_y ? t.row : t.row - p->written;
    char *to = y_at(p, row, &ld);
    GX_TRY(add_part(p, t.step == 0, t.rows, part, to, ld, err));
    if (n->holds_y || t.step + 1 < n->per_strip) {
        return GX_OK;
    }
    p->done = t.row + t.rows;
    return empty_window(p, err);
}

/* All of Y, a few tiles of the result at a time. */
static void write_all(product *p)
{
    const gx_narrow *n = p->plan;
    gx_err err = {0};
    if (n->is_gram) {
        gx_args mirror = {.uplo = GX_LOWER, .m = n->k, .n = n->k, .c = p->y, .ldc = p->ldy};
        mirror.transa = n->is_hermitian ? GX_CONJ_TRANS : GX_TRANS;
        call(p, GX_SYMMETRIZE, &mirror, &err);
    }
    int64_t tile = tile_of(n, p->C);
    for (int64_t row = 0; row < n->p && err.code == GX_OK && gx_ok(p->run); row += tile) {
        int64_t ld;
        char *y = y_at(p, row, &ld);
        write_rows(p, row, gx_min(tile, n->p - row), y, ld, &err);
        gx_run_poll(p->run);
    }
    gx_run_fail(p->run, &err);
}

// The whole ---------------------------------------------------------------------------------------

static void load_x(product *p)
{
    const gx_narrow *n = p->plan;
    const gx_mat *base = n->x.base;
    p->ldx = n->q;
    if (!n->holds_x) {
        return;
    }
    if (base->kind == GX_MAT_VALUE && base->number == n->dtype && n->x.trans == GX_NO_TRANS &&
        !n->conj_x) {
        p->x = base->data;
        p->ldx = base->ld;
        return;
    }
    gx_err err = {0};
    gx_dense_alloc(p->run, n->dtype, n->q, n->k, "the narrow operand", &p->x_memory);
    gx_dense_load(p->run, &n->x, n->dtype, p->x_memory, n->q);
    gx_args conj = {
        .map = GX_MAP_CONJ, .m = n->q, .n = n->k, .a = p->x_memory, .lda = n->q, .ldc = n->q};
    conj.c = p->x_memory;
    if (n->conj_x && gx_ok(p->run)) {
        call(p, GX_MAP, &conj, &err);
    }
    gx_run_fail(p->run, &err);
    p->x = p->x_memory;
}

static void reserve(product *p)
{
    const gx_narrow *n = p->plan;
    gx_err err = {0};
    int64_t rows = n->holds_y ? n->p : n->window;
    int64_t tile = gx_min(n->p, gx_max(tile_of(n, p->C), n->strip));
    bool is_aligned = n->strip % tile_of(n, p->C) == 0;
    bool is_in_strips = n->holds_y && p->C->is_stored && is_aligned && !n->is_gram;
    p->ldy = is_in_strips ? 0 : gx_max(1, rows);
    if (n->is_direct) {
        p->y = p->C->value.data;
        p->ldy = p->C->rows;
    } else {
        gx_dense_alloc(p->run, n->dtype, rows, n->k, "the product", &p->y_memory);
        p->y = p->y_memory;
    }
    if (n->is_left) {
        gx_dense_alloc(p->run, n->dtype, tile, n->k, "a tile of the product", &p->turned);
    }
    if (has_c0(n->args)) {
        gx_dense_alloc(p->run, n->dtype, tile, n->k, "a tile of the product", &p->sums);
        gx_reader_own(p->run->ctx->store, &p->own, &err);
    }
    gx_run_fail(p->run, &err);
}

gx_code gx_narrow_run(gx_run *run, const gx_narrow *plan, gx_sink *C)
{
    product p = {.run = run, .plan = plan, .C = C};
    gx_cost cost;
    gx_terms terms;
    if (gx_ok(run) && gx_run_device(run, &p.backend, &p.dev) == GX_OK) {
        gx_narrow_predict(run, plan, C, &cost, &terms);
        gx_predict_expect(run, &terms, false);
        reserve(&p);
        load_x(&p);
        const gx_mat *sources[] = {plan->S, plan->is_gram || plan->holds_x ? NULL : &plan->x};
        int64_t strips = plan->is_gram ? 1 : gx_ceil_div(plan->p, plan->strip);
        gx_pass pass = {.sources = sources,
                        .source_count = 2,
                        .units = strips * plan->per_strip,
                        .bytes = cost.bytes_up,
                        .flops = cost.flops,
                        .work_bytes = work_bytes(plan),
                        .part_bytes = part_bytes(plan),
                        .work = multiply_tile,
                        .fold = part_bytes(plan) == 0 ? NULL : fold_tile,
                        .is_callers = !plan->holds_y,
                        .writes = !plan->holds_y && C->is_stored ? C->meta.schema : NULL,
                        .arg = &p};
        gx_pass_run(run, &pass);
        gx_stats_add(&run->ctx->stats, GX_STAT_KERNELS, pass.units);
        gx_stats_add(&run->ctx->stats, GX_STAT_FLOPS, (int64_t)cost.flops);
        if (gx_ok(run) && plan->holds_y && !plan->is_direct) {
            write_all(&p);
        }
    }
    gx_reader_close(p.own);
    gx_mem_free(run->ctx->mem, p.x_memory);
    gx_mem_free(run->ctx->mem, p.y_memory);
    gx_mem_free(run->ctx->mem, p.turned);
    gx_mem_free(run->ctx->mem, p.sums);
    return gx_ok(run) ? GX_OK : run->err.code;
}
