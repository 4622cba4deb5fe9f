/*
** Loading a whole matrix, and running one kernel on it: see dense.h.
**
** Loading is a streamed pass (pass.h) whose units, tiles, are read straight into their places.  Of
** tiles that are fewer than helpers could be each is cut into some, columns of it: one thread
** copies 3 GB/s, and to find the way into the middle of a tile takes less.
**
** A call goes through gx_team_call(), whose work space is the governor's.  Interrupts are noticed
** between the pieces of what is cut into pieces; LAPACK's eigensolvers are one piece, and are left
** in the middle (gx_args.poll).
*/
#include "dense.h"
#include "../exec/pass.h"
#include "../run/call.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

gx_code gx_dense_alloc(gx_run *run, gx_number dtype, int64_t rows, int64_t cols, const char *what,
                       void *ptr)
{
    gx_err err = {0};
    size_t bytes = 0;
    memset(ptr, 0, sizeof(void *)); // NULL
    if (!gx_ok(run)) {
        return run->err.code;
    }
    if (!gx_matrix_bytes(gx_max(rows, 0), gx_max(cols, 0), dtype, &bytes)) {
        return gx_run_failf(run, GX_TOOBIG, "%s of %lldx%lld is too large", what, (long long)rows,
                            (long long)cols);
    }
    gx_mem_alloc(run->ctx->mem, bytes, what, ptr, &err);
    return gx_run_fail(run, &err);
}

void *gx_dense_take(gx_run *run, gx_number dtype, int64_t rows, int64_t cols, const char *what)
{
    void *ptr = NULL;
    gx_dense_alloc(run, dtype, rows, cols, what, &ptr);
    return ptr;
}

// Loading -----------------------------------------------------------------------------------------

typedef struct loading {
    const gx_mat *mat;
    int64_t i0, m; /* rows wanted                     */
    gx_number dtype;
    void *dst;
    int64_t ld;
    int64_t row_tiles;
    int64_t parts; /* of each tile                    */
} loading;

/* A part of tile number unit / parts of those that hold wanted rows. */
static gx_code load_part(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                         gx_err *err)
{
    const loading *l = arg;
    const gx_mat *mat = l->mat;
    int64_t first = l->i0 / mat->tile_rows, t = unit / l->parts;
    int64_t i = (first + t % l->row_tiles) * mat->tile_rows, j = t / l->row_tiles * mat->tile_cols;
    int64_t i_end = gx_min(gx_min(i + mat->tile_rows, mat->rows), l->i0 + l->m);
    int64_t width = gx_ceil_div(gx_min(mat->tile_cols, mat->cols), l->parts);
    int64_t right = gx_min(j + mat->tile_cols, mat->cols);
    (void)work, (void)part;
    j += unit % l->parts * width;
    i = gx_max(i, l->i0);
    void *to = gx_at(l->dst, l->dtype, l->ld, i - l->i0, j);
    return j >= right ? GX_OK
                      : gx_pass_read(thread, mat, i, j, i_end - i, gx_min(width, right - j),
                                     l->dtype, to, l->ld, err);
}

gx_code gx_dense_load_rows(gx_run *run, const gx_mat *mat, int64_t i0, int64_t m, gx_number dtype,
                           void *dst, int64_t ld)
{
    const size_t PART_LEAST = 2 << 20; // to open a helper takes as long as a part
    gx_err err = {0};
    size_t bytes = 0;
    if (!gx_ok(run) || m == 0 || mat->cols == 0) {
        return run->err.code;
    }
    gx_matrix_bytes(m, mat->cols, mat->number, &bytes);
    if (gx_mat_is_value(mat) && gx_pass_is_small((double)bytes, 0)) {
        gx_mat_read(run, mat, NULL, i0, 0, m, mat->cols, dtype, dst, ld, &err);
        return gx_run_fail(run, &err);
    }
    loading l = {.mat = mat, .i0 = i0, .m = m, .dtype = dtype, .dst = dst, .ld = ld, .parts = 1};
    l.row_tiles = gx_ceil_div(i0 + m, mat->tile_rows) - i0 / mat->tile_rows;
    int64_t tiles = l.row_tiles * gx_ceil_div(mat->cols, mat->tile_cols);
    if (gx_mat_is_tiled(mat) && !mat->is_sparse) { // whose columns lie together
        int64_t readers = run->ctx->config.number[GX_SET_READERS];
        int64_t most = gx_min(readers, (int64_t)(bytes / PART_LEAST)) / tiles;
        l.parts = gx_max(1, gx_min(most, mat->tile_cols));
    }
    gx_pass pass = {.sources = &l.mat,
                    .source_count = 1,
                    .units = tiles * l.parts,
                    .bytes = (double)bytes,
                    .work = load_part,
                    .is_reading = true,
                    .arg = &l};
    return gx_pass_run(run, &pass);
}

gx_code gx_dense_load(gx_run *run, const gx_mat *mat, gx_number dtype, void *dst, int64_t ld)
{
    return gx_dense_load_rows(run, mat, 0, mat->rows, dtype, dst, ld);
}

void *gx_dense_whole(gx_run *run, const gx_mat *mat, gx_number dtype)
{
    int64_t ld = gx_max(1, mat->rows);
    void *x = gx_dense_take(run, dtype, mat->rows, mat->cols, mat->label);
    gx_dense_load(run, mat, dtype, x, ld);
    gx_dense_finite(run, mat->label, dtype, x, ld, mat->rows, mat->cols);
    return x;
}

gx_code gx_dense_write(gx_run *run, gx_sink *sink, const void *src, int64_t ld)
{
    gx_err err = {0};
    int64_t width = gx_max(1, sink->tile_cols);
    for (int64_t j = 0; j < sink->cols && sink->rows > 0 && gx_ok(run); j += width) {
        gx_sink_write(sink, 0, j, sink->rows, gx_min(width, sink->cols - j),
                      gx_at(src, sink->number, ld, 0, j), ld, &err);
        gx_run_fail(run, &err);
        gx_run_poll(run);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Looking -----------------------------------------------------------------------------------------

/* Is each of count parts finite?  0 times a finite number is 0: one test for many elements. */
static bool are_finite(bool is_double, const void *x, int64_t count)
{
    enum { LANES = 16 }; // sums that do not wait for each other
    const double *d = x;
    const float *f = x;
    double sum[LANES] = {0};
    int64_t i = 0;
    for (; is_double && i + LANES <= count; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            sum[k] += 0 * d[i + k];
        }
    }
    for (; !is_double && i + LANES <= count; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            sum[k] += (double)(0 * f[i + k]);
        }
    }
    for (; i < count; i++) {
        sum[0] += 0 * (is_double ? d[i] : (double)f[i]);
    }
    for (int k = 1; k < LANES; k++) {
        sum[0] += sum[k];
    }
    return sum[0] == 0;
}

/* Of a look at columns, some at a time: the first that is not as it should be. */
typedef struct look {
    gx_number dtype;
    const void *x;
    int64_t ld, m, n;
    int64_t width;      /* columns of a piece           */
    atomic_llong wrong; /* the first column so far; n   */
} look;

/* Columns of some 256 KiB: soon over, and few enough to hand out. */
static int64_t look_width(gx_number dtype, int64_t m)
{
    return gx_max(1, (int64_t)(256 << 10) / gx_max(1, m * (int64_t)gx_number_bytes(dtype)));
}

static void found_wrong(look *l, int64_t j)
{
    long long first = atomic_load(&l->wrong);
    while (j < first && !atomic_compare_exchange_weak(&l->wrong, &first, j)) {
    }
}

static gx_code look_for_finite(void *arg, int64_t piece, int member, gx_err *err)
{
    look *l = arg;
    int64_t parts = gx_number_is_complex(l->dtype) ? 2 : 1, j = piece * l->width;
    int64_t end = gx_min(l->n, j + l->width);
    (void)member, (void)err;
    for (; j < end && j < atomic_load(&l->wrong); j++) {
        if (!are_finite(gx_number_is_double(l->dtype), gx_at(l->x, l->dtype, l->ld, 0, j),
                        l->m * parts)) {
            found_wrong(l, j);
        }
    }
    return GX_OK;
}

gx_code gx_dense_finite(gx_run *run, const char *label, gx_number dtype, const void *x, int64_t ld,
                        int64_t m, int64_t n)
{
    return gx_dense_finite_part(run, label, dtype, x, ld, m, n, 0, 0);
}

gx_code gx_dense_finite_part(gx_run *run, const char *label, gx_number dtype, const void *x,
                             int64_t ld, int64_t m, int64_t n, int64_t i0, int64_t j0)
{
    bool is_double = gx_number_is_double(dtype);
    int64_t parts = gx_number_is_complex(dtype) ? 2 : 1, at = 0;
    if (m == 0 || n == 0 || !gx_ok(run)) {
        return run->err.code; // the other side may be 2^40
    }
    look l = {.dtype = dtype, .x = x, .ld = ld, .m = m, .n = n, .width = look_width(dtype, m)};
    atomic_init(&l.wrong, n);
    gx_span span = gx_stats_open(&run->ctx->stats);
    gx_run_pieces(run, (double)m * (double)n, gx_ceil_div(n, l.width), look_for_finite, &l);
    gx_stats_close(&run->ctx->stats, GX_STAT_CHECK_NS, span);
    int64_t j = atomic_load(&l.wrong);
    if (j == n || !gx_ok(run)) {
        return run->err.code;
    }
    const void *column = gx_at(x, dtype, ld, 0, j);
    double value = 0;
    for (at = 0; at < m * parts; at++) {
        value = is_double ? ((const double *)column)[at] : (double)((const float *)column)[at];
        if (!isfinite(value)) {
            break;
        }
    }
    return gx_run_failf(run, GX_NUMERIC, "%s has %s at (%lld, %lld)", label,
                        isnan(value) ? "NaN" : "Inf", (long long)(i0 + at / parts),
                        (long long)(j0 + j));
}

/* Part p (0: real, 1: imaginary) of element (i, j); always inlined with constant flags. */
static inline double part_at(bool is_double, bool is_complex, const void *x, int64_t ld, int64_t i,
                             int64_t j, int p)
{
    int64_t at = (j * ld + i) * (is_complex ? 2 : 1) + p;
    return is_double ? ((const double *)x)[at] : (double)((const float *)x)[at];
}

enum { SIDE = 64 }; // of a square: two of them stay in cache

/* Columns [jb, jb + SIDE), from the diagonal down. */
static inline __attribute__((always_inline)) bool is_mirrored(bool is_double, bool is_complex,
                                                              const look *l, int64_t jb)
{
    const void *x = l->x;
    int64_t n = l->n, ld = l->ld;
    for (int64_t ib = jb; ib < n && atomic_load(&l->wrong) == n; ib += SIDE) {
        for (int64_t j = jb; j < gx_min(jb + SIDE, n); j++) {
            for (int64_t i = gx_max(ib, j); i < gx_min(ib + SIDE, n); i++) {
                bool is_same = part_at(is_double, is_complex, x, ld, i, j, 0) ==
                               part_at(is_double, is_complex, x, ld, j, i, 0);
                if (!is_same ||
                    (is_complex && part_at(is_double, is_complex, x, ld, i, j, 1) !=
                                       -part_at(is_double, is_complex, x, ld, j, i, 1))) {
                    return false;
                }
            }
        }
    }
    return true;
}

static gx_code look_for_mirrored(void *arg, int64_t piece, int member, gx_err *err)
{
    look *l = arg;
    int64_t jb = piece * SIDE;
    bool is_same;
    (void)member, (void)err;
    switch (l->dtype) {
    case GX_F64:
        is_same = is_mirrored(true, false, l, jb);
        break;
    case GX_F32:
        is_same = is_mirrored(false, false, l, jb);
        break;
    case GX_C128:
        is_same = is_mirrored(true, true, l, jb);
        break;
    default:
        is_same = is_mirrored(false, true, l, jb);
    }
    if (!is_same) {
        found_wrong(l, jb);
    }
    return GX_OK;
}

bool gx_dense_is_hermitian(gx_run *run, gx_number dtype, const void *x, int64_t ld, int64_t n)
{
    look l = {.dtype = dtype, .x = x, .ld = ld, .m = n, .n = n, .width = SIDE};
    atomic_init(&l.wrong, n);
    gx_span span = gx_stats_open(&run->ctx->stats);
    gx_run_pieces(run, (double)n * (double)n, gx_ceil_div(n, SIDE), look_for_mirrored, &l);
    gx_stats_close(&run->ctx->stats, GX_STAT_CHECK_NS, span);
    return gx_ok(run) && atomic_load(&l.wrong) == n;
}

gx_code gx_dense_sums_of(gx_run *run, gx_number dtype, const void *x, int64_t ld, int64_t m,
                         int64_t n, gx_dense_sums *sums)
{
    double out[2] = {0, 0};
    *sums = (gx_dense_sums){.longest = (double)gx_max(m, n)};
    if (m == 0 || n == 0) {
        return GX_OK; // the other side may be 2^40
    }
    gx_dense_call(
        run, GX_REDUCE, dtype,
        &(gx_args){
            .m = m, .n = n, .a = x, .lda = ld, .reduce_kind = GX_REDUCE_SUMSQ, .reduce = out});
    sums->norm = out[1] == 0 ? 0 : out[0] * sqrt(out[1]);
    for (int64_t i = 0; i < gx_min(m, n) && gx_ok(run); i++) {
        gx_scalar a = gx_number_get(dtype, x, i * ld + i);
        sums->trace.re += a.re;
        sums->trace.im += a.im;
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_dense_check_sums(gx_run *run, const char *label, const char *what, gx_number dtype,
                            const gx_dense_sums *sums, const gx_scalar *values, int64_t count,
                            bool has_trace, bool has_squares)
{
    double eps = gx_number_eps(dtype), n = (double)gx_max(count, 1);
    double unit = sums->norm == 0 ? 1 : sums->norm;
    double underflow = n * gx_number_least(dtype) / unit;
    double limit = 10 * n * (n + sqrt(sums->longest)) * eps + underflow;
    double re = -sums->trace.re / unit, im = -sums->trace.im / unit;
    double squares = sums->norm == 0 ? 0 : -1;
    for (int64_t i = 0; i < count && gx_ok(run); i++) {
        double x = values[i].re / unit, y = values[i].im / unit;
        re += x;
        im += y;
        squares += x * x + y * y;
    }
    bool is_good = (!has_trace || hypot(re, im) <= limit) &&
                   (!has_squares || fabs(squares) <= limit); // NaN is not
    return is_good || !gx_ok(run) || !isfinite(sums->norm)
               ? (gx_ok(run) ? GX_OK : run->err.code)
               : gx_run_failf(run, GX_NUMERIC,
                              "the %s found are not those of %s: off by %.3g of its norm", what,
                              label, has_squares ? fabs(squares) : hypot(re, im));
}

// Calling -----------------------------------------------------------------------------------------

gx_code gx_dense_call(gx_run *run, gx_kernel_id kernel, gx_number dtype, const gx_args *args)
{
    int64_t info = 0;
    gx_args call = *args;
    call.info = args->info == NULL ? &info : args->info;
    if (gx_run_call(run, kernel, dtype, &call) == GX_OK && info > 0) {
        gx_run_failf(run, GX_NUMERIC, "the iteration did not converge (%s: %lld)",
                     gx_kernel_name(kernel), (long long)info);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_dense_gemm(gx_run *run, gx_number dtype, gx_trans ta, gx_trans tb, int64_t m, int64_t n,
                      int64_t k, double alpha, const void *a, int64_t lda, const void *b,
                      int64_t ldb, double beta, void *c, int64_t ldc)
{
    if (m == 0 || n == 0 || (k == 0 && beta == 1)) {
        return run->err.code;
    }
    gx_args args = {.transa = ta, .transb = tb, .m = m, .n = n, .k = k, .a = a, .b = b, .c = c};
    args.alpha.re = alpha;
    args.beta.re = beta;
    args.lda = gx_max(1, lda);
    args.ldb = gx_max(1, ldb);
    args.ldc = gx_max(1, ldc);
    return gx_dense_call(run, GX_GEMM, dtype, &args);
}

gx_code gx_dense_triangle(gx_run *run, gx_kernel_id kernel, gx_number dtype, gx_uplo uplo,
                          gx_trans trans, gx_diag diag, int64_t n, const void *a, int64_t cols,
                          void *x)
{
    gx_args args = {.side = GX_LEFT, .uplo = uplo, .transa = trans, .diag = diag, .alpha = GX_ONE};
    args.m = n;
    args.n = cols;
    args.a = a;
    args.c = x;
    args.lda = args.ldc = gx_max(1, n);
    return gx_dense_call(run, kernel, dtype, &args);
}

gx_code gx_dense_lu_solve(gx_run *run, gx_number dtype, int64_t n, const void *factor,
                          int64_t *pivots, int64_t cols, void *x)
{
    gx_args swap = {.m = n, .n = cols, .c = x, .ldc = gx_max(1, n), .pivots = pivots};
    swap.pivot_last = n;
    gx_dense_call(run, GX_LASWP, dtype, &swap);
    gx_dense_triangle(run, GX_TRSM, dtype, GX_LOWER, GX_NO_TRANS, GX_UNIT, n, factor, cols, x);
    return gx_dense_triangle(run, GX_TRSM, dtype, GX_UPPER, GX_NO_TRANS, GX_NON_UNIT, n, factor,
                             cols, x);
}

gx_code gx_dense_cholesky(gx_run *run, const char *label, gx_number dtype, int64_t n, void *c)
{
    int64_t info = 0;
    gx_args args = {.uplo = GX_LOWER, .m = n, .n = n, .c = c, .ldc = gx_max(1, n), .info = &info};
    gx_dense_call(run, GX_POTRF, dtype, &args);
    if (gx_ok(run) && info > 0) {
        gx_run_failf(run, GX_NUMERIC, "%s is not positive definite (leading minor of order %lld)",
                     label, (long long)info);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_dense_svd(gx_run *run, gx_number dtype, int64_t n, void *c, void *values, void *left,
                     void *right)
{
    gx_args args = {.m = n, .n = n, .c = c, .values = values, .left = left, .right = right};
    args.ldc = args.ldleft = args.ldright = gx_max(1, n);
    args.wants_left = args.wants_right = true;
    return gx_dense_call(run, GX_GESDD, dtype, &args);
}

/* A GX_MAP of x, and y where there is one, into x. */
static gx_code map_onto(gx_run *run, gx_map_kind map, gx_number dtype, int64_t m, int64_t n,
                        void *x, gx_scalar beta, const void *y)
{
    gx_args args = {.map = map, .m = m, .n = n, .a = x, .b = y, .c = x};
    args.alpha.re = 1;
    args.beta = beta;
    args.lda = args.ldb = args.ldc = gx_max(1, m);
    return gx_dense_call(run, GX_MAP, dtype, &args);
}

gx_code gx_dense_add(gx_run *run, gx_number dtype, int64_t m, int64_t n, void *x, gx_scalar beta,
                     const void *y)
{
    return map_onto(run, GX_MAP_ADD, dtype, m, n, x, beta, y);
}

gx_code gx_dense_conj(gx_run *run, gx_number dtype, int64_t m, int64_t n, void *x)
{
    bool is_needed = gx_number_is_complex(dtype) && m > 0 && n > 0;
    return is_needed ? map_onto(run, GX_MAP_CONJ, dtype, m, n, x, (gx_scalar){0, 0}, NULL) : GX_OK;
}

size_t gx_dense_call_bytes(gx_run *run, gx_kernel_id kernel, gx_number dtype, const gx_args *args)
{
    const gx_backend *backend;
    gx_dev *dev;
    return !gx_ok(run) || gx_run_device(run, &backend, &dev) != GX_OK
               ? 0
               : gx_team_call_bytes(backend, dev, kernel, dtype, args);
}

void gx_dense_mirror(gx_run *run, gx_number dtype, void *x, int64_t ld, int64_t n)
{
    gx_dense_call(
        run, GX_SYMMETRIZE, dtype,
        &(gx_args){.transa = GX_CONJ_TRANS, .uplo = GX_LOWER, .m = n, .n = n, .c = x, .ldc = ld});
    for (int64_t i = 0; i < n && gx_number_is_complex(dtype); i++) {
        size_t part = gx_number_bytes(dtype) / 2;
        memset((char *)gx_at(x, dtype, ld, i, i) + part, 0, part);
    }
}

double gx_dense_halve(gx_number dtype, int64_t n, void *x)
{
    double off = 0, norm = 0;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i <= j; i++) {
            gx_scalar a = gx_number_get(dtype, x, j * n + i),
                      b = gx_number_get(dtype, x, i * n + j);
            gx_scalar half = {(a.re + b.re) / 2, i == j ? 0 : (a.im - b.im) / 2};
            norm = hypot(norm, hypot(hypot(a.re, a.im), i == j ? 0 : hypot(b.re, b.im)));
            off = hypot(off, hypot(a.re - b.re, a.im + b.im));
            gx_number_put(dtype, x, j * n + i, half);
            half.im = -half.im;
            gx_number_put(dtype, x, i * n + j, half);
        }
    }
    return norm > 0 ? off / norm : 0;
}

/* 1300000000 as "1.30 GB". */
static void show_bytes(double bytes, char text[32])
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB", "PB"};
    int u = 0;
    for (; bytes >= 1000 && u < 5; u++) {
        bytes /= 1000;
    }
    snprintf(text, 32, u == 0 ? "%.0f %s" : "%.3g %s", bytes, units[u]);
}

gx_code gx_dense_fits(gx_run *run, size_t bytes, const char *what, const gx_mat *A,
                      const char *advice)
{
    char needed[32], available[32];
    size_t free_bytes = gx_mem_available(run->ctx->mem);
    if (!gx_ok(run) || bytes <= free_bytes) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    show_bytes((double)bytes, needed);
    show_bytes((double)free_bytes, available);
    return gx_run_failf(run, GX_BUDGET,
                        "%s of %s (%lldx%lld %s) need %s (%zu bytes) in memory but memory_limit "
                        "leaves %s (%zu bytes): %s",
                        what, A->label, (long long)A->rows, (long long)A->cols,
                        gx_number_name(A->number), needed, bytes, available, free_bytes, advice);
}
