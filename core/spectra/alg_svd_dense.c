/*
** Singular values, A = U diag(sigma) V^H: the dense driver.
**
**   with vectors    load A, look for NaN and Inf, GESDD; the k largest (smallest); signs
**   values alone    the same; where one side is at least twice the other, first a QR of A (of A^H)
**                   by TSQR (alg_tsqr.c), or in little memory by panels of rows, R := the triangle
**                   of [R; panel] (TPQRT), and GESDD of R, which has the same singular values
**                   (Demmel, Grigori, Hoemmen & Langou 2012)
**
** Work: 4 m n^2 - 4/3 n^3 flops for values (m >= n), about 6 m n^2 + 20 n^3 with vectors.  Reads A
** once.  Memory: A, U and V^H, and GESDD's work space; for values of a tall or wide matrix the
** shorter side squared, GESDD of it, and a panel, whatever the longer side.
*/
#include "../alg/alg_qr.h"
#include "../alg/dense.h"
#include "../alg/dense_device.h"
#include "../alg/small_r.h"
#include "spectrum_int.h"

#include <math.h>
#include <string.h>

/* Bytes of a panel of rows: long enough for full speed, short beside the memory. */
enum { PANEL_BYTES = 16 << 20 };

typedef struct solving {
    gx_run *run;
    const gx_svd_args *args;
    gx_svd_result *result; /* NULL: only asks */
    int64_t m, n, least;
    gx_number dtype;
    void *a; /* A, or R */
} solving;

static solving solving_of(gx_run *run, const gx_svd_args *args, gx_svd_result *result)
{
    const gx_mat *A = args->A;
    return (solving){.run = run,
                     .args = args,
                     .result = result,
                     .m = A->rows,
                     .n = A->cols,
                     .least = gx_min(A->rows, A->cols),
                     .dtype = A->number};
}

// GESDD -------------------------------------------------------------------------------------------

static gx_args kernel_args(const solving *s, int64_t m, int64_t n)
{
    const gx_svd_result *r = s->result;
    gx_svd_mode mode = s->args->mode;
    bool is_full = mode == GX_SVD_FULL;
    return (gx_args){.m = m,
                     .n = n,
                     .c = s->a,
                     .ldc = gx_max(1, m),
                     .left = r == NULL ? NULL : r->u,
                     .ldleft = gx_max(1, m),
                     .right = r == NULL ? NULL : r->vt,
                     .ldright = gx_max(1, is_full ? n : s->least),
                     .wants_left = mode != GX_SVD_VALUES,
                     .wants_right = mode != GX_SVD_VALUES,
                     .is_full = is_full};
}

/* What the call on all of A takes. */
static size_t whole_bytes(const solving *s)
{
    double m = (double)s->m, n = (double)s->n, least = (double)s->least;
    double es = (double)gx_number_bytes(s->dtype), vectors = 0;
    gx_args args = kernel_args(s, s->m, s->n);
    if (args.wants_left) {
        vectors = args.is_full ? m * m + n * n : (m + n) * least;
    }
    double bytes = (m * n + vectors) * es + 32 * least + 4096 +
                   (double)gx_dense_call_bytes(s->run, GX_GESDD, s->dtype, &args);
    return bytes < 1e18 ? (size_t)bytes : SIZE_MAX;
}

bool gx_svd_is_long(const gx_mat *A)
{
    int64_t least = gx_min(A->rows, A->cols), most = gx_max(A->rows, A->cols);
    return least > 0 && most / 2 >= least && most > 64;
}

bool gx_svd_takes_panels(const gx_svd_args *args)
{
    return args->mode == GX_SVD_VALUES && gx_svd_is_long(args->A);
}

/* A panel of rows of the tall one of A and A^H, and the call that takes it into the triangle. */
static size_t panel_bytes(const solving *s, int64_t rows)
{
    gx_args args = {.m = rows, .n = s->least, .ldc = s->least, .ldc2 = rows};
    size_t work = gx_dense_call_bytes(s->run, GX_TPQRT, s->dtype, &args), panel = 0;
    gx_matrix_bytes(rows + 1, s->least, s->dtype, &panel);
    return panel + work;
}

/* Rows of a panel of PANEL_BYTES, at least a square. */
static int64_t full_panel(const solving *s)
{
    int64_t rows = PANEL_BYTES / (s->least * (int64_t)gx_number_bytes(s->dtype));
    return gx_min(gx_max(s->m, s->n), gx_max(s->least, rows));
}

/* Panels decide how rounding errors add up, so that in deterministic mode they are never lower. */
static bool is_fixed(const solving *s)
{
    return s->run->ctx->config.number[GX_SET_DETERMINISTIC] != 0;
}

/* The triangle, and a panel, as low as is sensible, or then GESDD of the triangle. */
static size_t panels_bytes(const solving *s)
{
    const int64_t LEAST_ROWS = 64;
    int64_t rows = is_fixed(s) ? full_panel(s) : gx_min(LEAST_ROWS, s->least);
    size_t triangle = 0;
    gx_args args = kernel_args(s, s->least, s->least);
    gx_matrix_bytes(s->least, s->least, s->dtype, &triangle);
    size_t panel = panel_bytes(s, rows);
    size_t call = gx_dense_call_bytes(s->run, GX_GESDD, s->dtype, &args);
    return triangle + (panel > call ? panel : call) + 32 * (size_t)s->least + 4096;
}

static size_t needed_bytes(const solving *s)
{
    return gx_svd_takes_panels(s->args) ? panels_bytes(s) : whole_bytes(s);
}

static gx_code refuse_what_is_too_large(const solving *s)
{
    const gx_svd_args *args = s->args;
    const char *what =
        args->mode == GX_SVD_VALUES ? "singular values" : "singular values and vectors";
    const char *advice = "ask for k of them, or raise it with gx_config('memory_limit', ...)";
    if (args->mode == GX_SVD_FULL) {
        advice = "ask for the economy mode or for k of them, or raise it with "
                 "gx_config('memory_limit', ...)";
    } else if (args->is_smallest && s->m != s->n) {
        advice = "all of it is needed for the smallest ones of a matrix that is not square: raise "
                 "it with gx_config('memory_limit', ...)";
    }
    return gx_dense_fits(s->run, needed_bytes(s), what, args->A, advice);
}

/*
** GESDD of args->c, which is destroyed: sigma, min(m, n) values, whose squares must add up to those
** of c's elements.  is_whole: it is all of a problem, which may go to a device.
*/
static gx_code decompose(gx_run *run, const char *label, gx_number dtype, const gx_args *args,
                         bool is_whole, double *sigma)
{
    gx_args call = *args;
    gx_number real = gx_number_real(dtype);
    int64_t count = gx_min(call.m, call.n), ld = gx_max(1, count);
    gx_dense_sums sums;
    void *pairs = NULL;
    gx_dense_alloc(run, real, count, 1, "singular values", &call.values);
    gx_dense_alloc(run, GX_C128, count, 1, "singular values", &pairs);
    gx_dense_sums_of(run, dtype, call.c, call.ldc, call.m, call.n, &sums);
    if ((is_whole ? gx_dense_spectrum : gx_dense_call)(run, GX_GESDD, dtype, &call) == GX_OK) {
        gx_convert(real, call.values, ld, GX_F64, sigma, ld, count, 1);
        gx_convert(real, call.values, ld, GX_C128, pairs, ld, count, 1);
        gx_dense_check_sums(run, label, "singular values", dtype, &sums, pairs, count, false, true);
    }
    gx_mem_free(run->ctx->mem, call.values);
    gx_mem_free(run->ctx->mem, pairs);
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_svd_square(gx_run *run, const char *label, gx_number dtype, int64_t n, void *r,
                      double *sigma, void *x, void *yh)
{
    gx_args args = {.m = n, .n = n, .c = r, .left = x, .right = yh};
    args.ldc = args.ldleft = args.ldright = gx_max(1, n);
    args.wants_left = args.wants_right = true;
    return decompose(run, label, dtype, &args, false, sigma);
}

// Values of a tall matrix -------------------------------------------------------------------------

/* A, or its conjugate transpose where that is the tall one. */
static const gx_mat *tall_view(const gx_mat *A, gx_mat *view)
{
    if (A->rows >= A->cols) {
        return A;
    }
    gx_mat_view(view, A, GX_CONJ_TRANS, 0, 0, A->cols, A->rows);
    return view;
}

/* R := the triangle of [R; rows i0 ..]. */
static void add_panel(const solving *s, const gx_mat *T, int64_t i0, int64_t rows, void *panel,
                      void *tau)
{
    int64_t n = T->cols;
    gx_dense_load_rows(s->run, T, i0, rows, s->dtype, panel, rows);
    gx_dense_finite(s->run, T->label, s->dtype, panel, rows, rows, n);
    gx_dense_call(
        s->run, GX_TPQRT, s->dtype,
        &(gx_args){.m = rows, .n = n, .c = s->a, .ldc = n, .c2 = panel, .ldc2 = rows, .tau = tau});
}

/* Fewer rows than that where memory is short. */
static int64_t panel_rows(const solving *s)
{
    int64_t rows = full_panel(s);
    while (rows > 1 && !is_fixed(s) && panel_bytes(s, rows) > gx_mem_available(s->run->ctx->mem)) {
        rows = gx_ceil_div(rows, 2);
    }
    return rows;
}

/* The triangle by TSQR; false: there is no room for that, or A has NaN or Inf, to be found. */
static bool triangle_by_tree(solving *s, const gx_mat *T)
{
    gx_run *run = s->run;
    int64_t n = T->cols;
    gx_tsqr_plan plan;
    gx_sink R = {0};
    gx_mat source;
    double sum = NAN;
    gx_plan_tsqr(run, T->rows, n, 0, s->dtype, &plan);
    if (!gx_ok(run) || is_fixed(s) || !plan.is_possible ||
        !gx_scratch_fits(run, n, n, s->dtype, 0)) {
        return false;
    }
    if (gx_sink_begin_scratch(run, n, n, s->dtype, 0, &R) == GX_OK &&
        gx_alg_tsqr(run, &(gx_tsqr_args){.A = T, .R = &R}, &plan) == GX_OK) {
        gx_sink_source(&R, T->label, &source);
        gx_dense_load(run, &source, s->dtype, s->a, n);
        sum = gx_small_norm(s->dtype, s->a, n, n * n, 1);
    }
    gx_sink_drop(&R);
    return isfinite(sum) || !gx_ok(run);
}

static void reduce_to_triangle(solving *s, const gx_mat *T)
{
    gx_run *run = s->run;
    gx_mem *mem = run->ctx->mem;
    int64_t m = T->rows, n = T->cols;
    void *panel = NULL, *tau = NULL;
    gx_dense_alloc(run, s->dtype, n, n, "the triangle of its QR", &s->a);
    if (triangle_by_tree(s, T)) {
        return;
    }
    int64_t rows = panel_rows(s);
    if (gx_ok(run) &&
        gx_dense_alloc(run, s->dtype, rows, n, "a panel of its rows", &panel) == GX_OK &&
        gx_dense_alloc(run, s->dtype, n, 1, "reflectors", &tau) == GX_OK) {
        memset(s->a, 0, (size_t)(n * n) * gx_number_bytes(s->dtype));
        gx_run_progress(run, (double)m);
    }
    for (int64_t i = 0; i < m && gx_ok(run); i += rows) {
        add_panel(s, T, i, gx_min(rows, m - i), panel, tau);
        gx_run_advance(run, (double)gx_min(rows, m - i));
    }
    gx_mem_free(mem, panel);
    gx_mem_free(mem, tau);
}

gx_code gx_svd_triangle(gx_run *run, const gx_svd_args *args, void **r)
{
    gx_mat view;
    solving s = solving_of(run, args, NULL);
    reduce_to_triangle(&s, tall_view(args->A, &view));
    *r = s.a;
    return gx_ok(run) ? GX_OK : run->err.code;
}

size_t gx_svd_triangle_bytes(gx_run *run, const gx_svd_args *args)
{
    solving s = solving_of(run, args, NULL);
    return panels_bytes(&s);
}

static gx_code long_values(solving *s, double *sigma)
{
    gx_mat view;
    const gx_mat *T = tall_view(s->args->A, &view);
    reduce_to_triangle(s, T);
    gx_args call = kernel_args(s, s->least, s->least);
    return decompose(s->run, s->args->A->label, s->dtype, &call, true, sigma);
}

// The driver --------------------------------------------------------------------------------------

static void load_and_call(solving *s, double *sigma)
{
    const gx_mat *A = s->args->A;
    int64_t ld = gx_max(1, s->m);
    gx_dense_alloc(s->run, s->dtype, s->m, s->n, A->label, &s->a);
    gx_dense_load(s->run, A, s->dtype, s->a, ld);
    gx_dense_finite(s->run, A->label, s->dtype, s->a, ld, s->m, s->n);
    gx_args call = kernel_args(s, s->m, s->n);
    decompose(s->run, A->label, s->dtype, &call, true, sigma);
}

bool gx_svd_dense_fits(gx_run *run, const gx_svd_args *args)
{
    solving s = solving_of(run, args, NULL);
    return needed_bytes(&s) <= gx_mem_available(run->ctx->mem);
}

gx_code gx_svd_refuse_dense(gx_run *run, const gx_svd_args *args)
{
    solving s = solving_of(run, args, NULL);
    return refuse_what_is_too_large(&s);
}

/* Only the first k of V^H's rows, and their leading dimension; U's columns are the first anyway. */
static void keep_first(gx_svd_result *r, int64_t k)
{
    size_t es = gx_number_bytes(r->dtype);
    for (int64_t j = 1; r->vt != NULL && j < r->n; j++) {
        memmove((char *)r->vt + (size_t)(j * k) * es, gx_at(r->vt, r->dtype, r->vt_rows, 0, j),
                (size_t)k * es);
    }
    r->count = r->u_cols = r->vt_rows = k;
}

/* Exchange the numbers i and j of a vector whose elements are `step` apart. */
static void exchange(gx_number dtype, void *x, int64_t step, int64_t i, int64_t j)
{
    char kept[2 * sizeof(double)];
    size_t es = gx_number_bytes(dtype);
    char *a = (char *)x + (size_t)(i * step) * es, *b = (char *)x + (size_t)(j * step) * es;
    memcpy(kept, a, es);
    memcpy(a, b, es);
    memcpy(b, kept, es);
}

/* Triplets in ascending order; what is beyond them of a full U and V^H stays. */
static void turn_around(gx_svd_result *r)
{
    for (int64_t i = 0, j = r->count - 1; i < j; i++, j--) {
        exchange(GX_F64, r->sigma, 1, i, j);
        for (int64_t p = 0; r->u != NULL && p < r->m; p++) {
            exchange(r->dtype, gx_at(r->u, r->dtype, r->m, p, 0), r->m, i, j);
        }
        for (int64_t p = 0; r->vt != NULL && p < r->n; p++) {
            exchange(r->dtype, gx_at(r->vt, r->dtype, r->vt_rows, 0, p), 1, i, j);
        }
    }
}

gx_code gx_svd_dense(gx_run *run, const gx_svd_args *args, gx_svd_result *result)
{
    solving s = solving_of(run, args, result);
    bool wants_long = gx_svd_takes_panels(args);
    refuse_what_is_too_large(&s);
    gx_svd_reserve(run, result, s.m, s.n, s.least, s.dtype, args->mode);
    if (gx_ok(run) && wants_long) {
        long_values(&s, result->sigma);
    } else if (gx_ok(run)) {
        load_and_call(&s, result->sigma);
    }
    gx_mem_free(run->ctx->mem, s.a);
    if (gx_ok(run)) {
        result->driver = "gesdd";
        result->passes = 1;
        if (args->is_smallest) {
            turn_around(result);
        }
        if (args->k > 0 && args->k < s.least) {
            keep_first(result, args->k);
        }
        gx_svd_fix_sign(run, result);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}
