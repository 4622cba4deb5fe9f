/*
** All eigenvalues of a matrix that fits into memory: one call of the backend's SYEV or GEEV.
**
**   load A, look for NaN and Inf;  Hermitian where it is said, or where A = A^H to the bit
**   with a B:  B = L L^H;  A := L^-1 A L^-H          (A x = value B x is C y = value y, y = L^H x)
**   SYEV or GEEV;  with a B: x = L^-H y
**   the values' sum must be the trace (and the squares', where Hermitian, that of the elements)
**   the k wanted ones in their order;  signs;  residuals, where asked, with A read once more
**
** Work: 4/3 n^3 flops for values, about 6 n^3 with vectors (Hermitian); 10 n^3 and 25 n^3
** (general).
** Memory, in matrices of n^2 elements: Hermitian 1 and with vectors 3 (SYEV's work space); general
** 1, and with vectors 5 of A's real dtype (complex vectors, and once more in their order); B: 1
** more.
** Reads A once, with residuals twice.  What is asked of a larger matrix is refused with the
** numbers.
**
** Vectors of a real general matrix are real where all the values asked for are.
*/
#include "../alg/dense.h"
#include "../alg/dense_device.h"
#include "spectrum_int.h"

#include <math.h>
#include <string.h>

/* Columns of a residual at a time. */
enum { RESIDUAL_COLUMNS = 64 };

typedef struct solving {
    gx_run *run;
    const gx_eig_args *args;
    gx_eig_result *result;
    int64_t n, count;
    gx_number dtype; /* of A and B in memory             */
    gx_number wide;  /* the complex dtype                */
    bool is_hermitian;
    void *a;            /* A; SYEV's vectors               */
    void *b;            /* L of B; NULL: no B              */
    void *values;       /* as the kernel gives them        */
    gx_scalar *all;     /* n                               */
    void *right, *left; /* GEEV's, of `wide`               */
    int64_t *order;     /* n                               */
    gx_dense_sums sums; /* of what the kernel sees         */
} solving;

static gx_args kernel_args(const solving *s)
{
    return (gx_args){.uplo = GX_LOWER,
                     .m = s->n,
                     .n = s->n,
                     .c = s->a,
                     .ldc = gx_max(1, s->n),
                     .values = s->values,
                     .left = s->left,
                     .ldleft = gx_max(1, s->n),
                     .right = s->right,
                     .ldright = gx_max(1, s->n),
                     .wants_right = s->args->wants_right,
                     .wants_left = s->args->wants_left && !s->is_hermitian};
}

// Memory ------------------------------------------------------------------------------------------

/* What the kernel needs beside A, and what comes after it: the larger. */
static size_t peak_bytes(const solving *s)
{
    const gx_eig_args *args = s->args;
    double n = (double)s->n, count = (double)s->count;
    double es = (double)gx_number_bytes(s->dtype), wide = (double)gx_number_bytes(s->wide);
    gx_args call = kernel_args(s);
    double work =
        (double)gx_dense_call_bytes(s->run, s->is_hermitian ? GX_SYEV : GX_GEEV, s->dtype, &call);
    double b = args->B == NULL ? 0 : n * n * es, a = n * n * es;
    double sides = (args->wants_right ? 1 : 0) + (call.wants_left ? 1 : 0);
    double vectors = s->is_hermitian ? 0 : sides * n * n * wide;
    double during = a + b + vectors + work;
    double copy = s->is_hermitian ? (args->wants_right && args->k > 0 ? n * count * es : 0)
                                  : sides * n * count * wide;
    double after = (s->is_hermitian ? a : vectors) + b + copy;
    double out = s->is_hermitian ? (args->k > 0 ? copy : a) : copy;
    double residual = args->wants_residuals ? out + (a + b + 2 * RESIDUAL_COLUMNS * n * es) *
                                                        (s->is_hermitian ? 1 : 2)
                                            : 0;
    double most = during > after ? during : after;
    most = most > residual ? most : residual;
    most += n * (2 * sizeof(gx_scalar) + wide + sizeof(int64_t)) + 4096;
    return most < 1e18 ? (size_t)most : SIZE_MAX;
}

static gx_code refuse_what_is_too_large(const solving *s)
{
    bool has_k = s->args->k > 0;
    return gx_dense_fits(s->run, peak_bytes(s),
                         s->args->wants_right ? "eigenvalues and eigenvectors" : "eigenvalues",
                         s->args->A,
                         has_k ? "raise it with gx_config('memory_limit', ...)"
                               : "ask for k of them, or raise it with gx_config('memory_limit', "
                                 "...)");
}

size_t gx_eig_dense_bytes(gx_run *run, const gx_eig_args *args)
{
    gx_number dtype =
        args->B == NULL ? args->A->number : gx_number_promote(args->A->number, args->B->number);
    solving s = {.run = run,
                 .args = args,
                 .n = args->A->rows,
                 .count = args->k > 0 ? args->k : args->A->rows,
                 .dtype = dtype,
                 .wide = gx_number_promote(dtype, GX_C64),
                 .is_hermitian = args->is_hermitian};
    return peak_bytes(&s);
}

// A and B -----------------------------------------------------------------------------------------

/* a = all of mat; its lower triangle alone where it is said to be Hermitian. */
static gx_code load_whole(const solving *s, const gx_mat *mat, bool is_said, gx_number dtype,
                          void *a)
{
    int64_t ld = gx_max(1, s->n);
    gx_dense_load(s->run, mat, dtype, a, ld);
    if (is_said) {
        gx_dense_mirror(s->run, dtype, a, ld, s->n);
    }
    return gx_dense_finite(s->run, mat->label, dtype, a, ld, s->n, s->n);
}

/* b = L, B = L L^H. */
static void factor_b(solving *s)
{
    const gx_mat *B = s->args->B;
    bool is_said = (B->properties & GX_PROP_HERMITIAN) != 0;
    int64_t ld = gx_max(1, s->n);
    if (gx_dense_alloc(s->run, s->dtype, s->n, s->n, "B", &s->b) != GX_OK ||
        load_whole(s, B, is_said, s->dtype, s->b) != GX_OK) {
        return;
    }
    if (!is_said && !gx_dense_is_hermitian(s->run, s->dtype, s->b, ld, s->n)) {
        gx_run_failf(s->run, GX_NUMERIC, "%s is not %s", B->label,
                     gx_number_is_complex(B->number) ? "Hermitian" : "symmetric");
        return;
    }
    gx_dense_cholesky(s->run, B->label, s->dtype, s->n, s->b);
}

/* c = op(L)^-1 c or c op(L)^-1, n x cols. */
static void solve_by_l(const solving *s, gx_side side, gx_trans trans, gx_number dtype,
                       const void *l, void *c, int64_t cols)
{
    gx_dense_call(s->run, GX_TRSM, dtype,
                  &(gx_args){.side = side,
                             .uplo = GX_LOWER,
                             .transa = trans,
                             .alpha = GX_ONE,
                             .m = s->n,
                             .n = cols,
                             .a = l,
                             .lda = gx_max(1, s->n),
                             .c = c,
                             .ldc = gx_max(1, s->n)});
}

static void load_operands(solving *s)
{
    const gx_eig_args *args = s->args;
    if (gx_dense_alloc(s->run, s->dtype, s->n, s->n, args->A->label, &s->a) != GX_OK ||
        load_whole(s, args->A, args->is_hermitian, s->dtype, s->a) != GX_OK) {
        return;
    }
    if (!args->is_hermitian && !args->is_general) {
        s->is_hermitian = gx_dense_is_hermitian(s->run, s->dtype, s->a, gx_max(1, s->n), s->n);
    }
    if (!s->is_hermitian) {
        // What was asked before did not know yet; A is there already.
        size_t there = (size_t)(s->n * s->n) * gx_number_bytes(s->dtype);
        size_t most = peak_bytes(s);
        if (gx_mem_available(s->run->ctx->mem) < most - there) {
            refuse_what_is_too_large(s);
            return;
        }
    }
    if (args->B != NULL) {
        factor_b(s);
        solve_by_l(s, GX_LEFT, GX_NO_TRANS, s->dtype, s->b, s->a, s->n);
        solve_by_l(s, GX_RIGHT, GX_CONJ_TRANS, s->dtype, s->b, s->a, s->n);
    }
}

// The call ----------------------------------------------------------------------------------------

static void call_hermitian(solving *s)
{
    gx_number real = gx_number_real(s->dtype);
    if (gx_dense_alloc(s->run, real, s->n, 1, "eigenvalues", &s->values) != GX_OK) {
        return;
    }
    gx_args args = kernel_args(s);
    gx_dense_spectrum(s->run, GX_SYEV, s->dtype, &args);
    if (gx_ok(s->run)) {
        gx_convert(real, s->values, gx_max(1, s->n), GX_C128, s->all, gx_max(1, s->n), s->n, 1);
        s->sums.trace.im = 0; // rounding of L^-1 A L^-H
        gx_dense_check_sums(s->run, s->args->A->label, "eigenvalues", s->dtype, &s->sums, s->all,
                            s->n, true, s->b == NULL);
    }
    if (s->b != NULL && s->args->wants_right) {
        solve_by_l(s, GX_LEFT, GX_CONJ_TRANS, s->dtype, s->b, s->a, s->n);
    }
}

/* L^-H y for complex y: L as complex numbers. */
static void transform_back(solving *s)
{
    void *l = s->b;
    if (s->wide != s->dtype) {
        if (gx_dense_alloc(s->run, s->wide, s->n, s->n, "B", &l) != GX_OK) {
            return;
        }
        gx_convert(s->dtype, s->b, s->n, s->wide, l, s->n, s->n, s->n);
    }
    if (s->right != NULL) {
        solve_by_l(s, GX_LEFT, GX_CONJ_TRANS, s->wide, l, s->right, s->n);
    }
    if (s->left != NULL) {
        solve_by_l(s, GX_LEFT, GX_CONJ_TRANS, s->wide, l, s->left, s->n);
    }
    if (l != s->b) {
        gx_mem_free(s->run->ctx->mem, l);
    }
}

static void call_general(solving *s)
{
    gx_run *run = s->run;
    gx_args args = kernel_args(s);
    gx_dense_alloc(run, s->wide, s->n, 1, "eigenvalues", &s->values);
    if (args.wants_right) {
        gx_dense_alloc(run, s->wide, s->n, s->n, "eigenvectors", &s->right);
    }
    if (args.wants_left) {
        gx_dense_alloc(run, s->wide, s->n, s->n, "left eigenvectors", &s->left);
    }
    args = kernel_args(s);
    gx_dense_spectrum(run, GX_GEEV, s->dtype, &args);
    if (gx_ok(run)) {
        gx_convert(s->wide, s->values, gx_max(1, s->n), GX_C128, s->all, gx_max(1, s->n), s->n, 1);
        gx_dense_check_sums(run, s->args->A->label, "eigenvalues", s->dtype, &s->sums, s->all, s->n,
                            true, false);
    }
    gx_mem_free(run->ctx->mem, s->a);
    s->a = NULL;
    if (s->b != NULL && gx_ok(run) && s->n > 0) {
        transform_back(s);
    }
}

// The result --------------------------------------------------------------------------------------

/* Columns of `from` in their order into out, the real part where out is real. */
static void pick_columns(const solving *s, const void *from, gx_number dtype, void *out)
{
    gx_number to = s->result->dtype;
    gx_span span = gx_stats_open(&s->run->ctx->stats);
    for (int64_t j = 0; j < s->count && from != NULL && gx_ok(s->run); j++) {
        const void *x = gx_at(from, dtype, s->n, 0, s->order[j]);
        void *y = gx_at(out, to, s->n, 0, j);
        gx_convert(dtype, x, s->n, to, y, s->n, s->n, 1);
        gx_run_poll(s->run);
    }
    gx_stats_close(&s->run->ctx->stats, GX_STAT_COPY_NS, span);
}

static bool are_real(const solving *s)
{
    if (s->is_hermitian || gx_number_is_complex(s->dtype)) {
        return s->is_hermitian;
    }
    for (int64_t j = 0; j < s->count; j++) {
        if (s->all[s->order[j]].im != 0) {
            return false;
        }
    }
    return true;
}

static void give(solving *s)
{
    const gx_eig_args *args = s->args;
    gx_eig_result *r = s->result;
    gx_run *run = s->run;
    gx_mem *mem = run->ctx->mem;
    gx_eig_sort_order(s->all, s->n, args->which, args->sigma, s->is_hermitian, args->k == 0,
                      s->order);
    r->is_hermitian = s->is_hermitian;
    r->is_real = are_real(s);
    r->driver = s->is_hermitian ? "syevd" : "geev";
    r->passes = 1;
    bool is_moved = s->is_hermitian && args->k == 0 && args->wants_right; // in their order already
    bool has_left = args->wants_left && !s->is_hermitian;
    gx_number dtype = r->is_real ? s->dtype : s->wide;
    if (gx_eig_reserve(run, r, s->n, s->count, dtype, args->wants_right && !is_moved, has_left,
                       args->wants_residuals) != GX_OK) {
        return;
    }
    for (int64_t j = 0; j < s->count; j++) {
        r->values[j] = s->all[s->order[j]];
    }
    if (is_moved) {
        r->right = s->a;
        s->a = NULL;
    } else if (args->wants_right) {
        pick_columns(s, s->is_hermitian ? s->a : s->right, s->is_hermitian ? s->dtype : s->wide,
                     r->right);
    }
    if (has_left) {
        pick_columns(s, s->left, s->wide, r->left);
    }
    void *done[] = {s->a, s->b, s->right, s->left};
    for (int i = 0; i < 4; i++) {
        gx_mem_free(mem, done[i]);
    }
    s->a = s->b = s->right = s->left = NULL;
    gx_eig_fix_sign(run, dtype, r->right, s->n, s->count);
    gx_eig_fix_sign(run, dtype, r->left, s->n, s->count);
}

// Residuals ---------------------------------------------------------------------------------------

/* ||y - value x||. */
static double distance(gx_number dtype, const void *y, gx_scalar value, const void *x, int64_t n)
{
    long double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        gx_scalar a = gx_number_get(dtype, y, i), b = gx_number_get(dtype, x, i);
        long double re = a.re - (value.re * b.re - value.im * b.im);
        long double im = a.im - (value.re * b.im + value.im * b.re);
        sum += re * re + im * im;
    }
    return (double)sqrtl(sum);
}

static void find_residuals(const solving *s)
{
    const gx_eig_args *args = s->args;
    gx_eig_result *r = s->result;
    gx_run *run = s->run;
    gx_mem *mem = run->ctx->mem;
    int64_t n = s->n, width = gx_min(RESIDUAL_COLUMNS, s->count);
    void *b = NULL, *z = NULL, *a = gx_dense_take(run, r->dtype, n, n, args->A->label);
    void *y = gx_dense_take(run, r->dtype, n, width, "residuals");
    load_whole(s, args->A, args->is_hermitian, r->dtype, a);
    if (args->B != NULL) {
        b = gx_dense_take(run, r->dtype, n, n, args->B->label);
        z = gx_dense_take(run, r->dtype, n, width, "residuals");
        load_whole(s, args->B, (args->B->properties & GX_PROP_HERMITIAN) != 0, r->dtype, b);
    }
    for (int64_t j = 0; j < s->count && gx_ok(run); j += width) {
        int64_t cols = gx_min(width, s->count - j);
        const void *x = gx_at(r->right, r->dtype, s->n, 0, j);
        gx_dense_gemm(run, r->dtype, GX_NO_TRANS, GX_NO_TRANS, n, cols, n, 1, a, n, x, n, 0, y, n);
        if (b != NULL) {
            gx_dense_gemm(run, r->dtype, GX_NO_TRANS, GX_NO_TRANS, n, cols, n, 1, b, n, x, n, 0, z,
                          n);
        }
        for (int64_t q = 0; q < cols && gx_ok(run); q++) {
            r->residuals[j + q] =
                distance(r->dtype, gx_at(y, r->dtype, s->n, 0, q), r->values[j + q],
                         gx_at(b == NULL ? x : z, r->dtype, s->n, 0, q), s->n);
        }
    }
    r->passes++;
    void *done[] = {a, b, y, z};
    for (int i = 0; i < 4; i++) {
        gx_mem_free(mem, done[i]);
    }
}

gx_code gx_eig_dense(gx_run *run, const gx_eig_args *args, gx_eig_result *result)
{
    gx_mem *mem = run->ctx->mem;
    gx_number dtype =
        args->B == NULL ? args->A->number : gx_number_promote(args->A->number, args->B->number);
    solving s = {.run = run,
                 .args = args,
                 .result = result,
                 .n = args->A->rows,
                 .count = args->k > 0 ? args->k : args->A->rows,
                 .dtype = dtype,
                 .wide = gx_number_promote(dtype, GX_C64),
                 .is_hermitian = !args->is_general}; // until A is known
    refuse_what_is_too_large(&s);
    s.all = gx_dense_take(run, GX_C128, s.n, 1, "eigenvalues");
    s.order = gx_dense_take(run, GX_F64, s.n, 1, "eigenvalues");
    s.is_hermitian = args->is_hermitian;
    load_operands(&s);
    if (gx_ok(run)) {
        gx_dense_sums_of(run, s.dtype, s.a, gx_max(1, s.n), s.n, s.n, &s.sums);
        if (s.is_hermitian) {
            call_hermitian(&s);
        } else {
            call_general(&s);
        }
    }
    if (gx_ok(run)) {
        give(&s);
    }
    if (gx_ok(run) && args->wants_residuals && s.n > 0) {
        find_residuals(&s);
    }
    void *done[] = {s.a, s.b, s.values, s.right, s.left, s.all, s.order};
    for (int i = 0; i < 7; i++) {
        gx_mem_free(mem, done[i]);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}
