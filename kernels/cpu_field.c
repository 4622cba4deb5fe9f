/*
** Whole numbers modulo p on the CPU (field.h): products, elementwise functions, sums.
**
** Products are two of doubles.  An element of op(a) is taken to between -p/2 and p/2 and cut into
** two halves, a = hi 2^15 + lo, |hi| <= 2^15, |lo| <= 2^14; one of op(b) is taken to between -p/2
** and p/2.  So a product of TERMS terms is a whole number below 2^53 of either half, which dgemm
** gives exactly, in whatever order it adds.  Both halves are one operand, one above the other:
** dgemm packs b once.  x - rint(x / p) p brings a sum back, exactly: quotient and product are whole
** numbers below 2^53, too.
**
** Elementwise functions of p = 2^31 - 1 reduce by shifting: 2^31 is 1.
*/
#include "cpu.h"

#include "ref.h"

#include <cblas.h>

/*
** TERMS: 248 2^45 + 2^31 < 2^53.  Rows and columns of c at once; up to PLAIN multiply-adds a loop
** beats a call of BLAS.
*/
enum { TERMS = 248, ROWS = 1024, COLUMNS = 256, PLAIN = 4096 };

/* name(parameters): the loop name_loop, compiled for the vectors of several processors. */
#ifdef __x86_64__
#define COPY(name, words, target_words, parameters, arguments)                                     \
    static __attribute__((target(target_words), noinline)) void name##_##words parameters          \
    {                                                                                              \
        name##_loop arguments;                                                                     \
    }
#define COPIES(name, parameters, arguments)                                                        \
    COPY(name, avx512, "avx512f,avx512dq,avx512vl", parameters, arguments)                         \
    COPY(name, avx2, "avx2", parameters, arguments)                                                \
    static void name parameters                                                                    \
    {                                                                                              \
        if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {            \
            name##_avx512 arguments;                                                               \
        } else if (__builtin_cpu_supports("avx2")) {                                               \
            name##_avx2 arguments;                                                                 \
        } else {                                                                                   \
            name##_loop arguments;                                                                 \
        }                                                                                          \
    }
#else
#define COPIES(name, parameters, arguments)                                                        \
    static void name parameters                                                                    \
    {                                                                                              \
        name##_loop arguments;                                                                     \
    }
#endif

// Products ----------------------------------------------------------------------------------------

/* The sizes of a step, and where its numbers are. */
typedef struct step {
    const gx_args *args;
    uint32_t p, alpha, beta; /* alpha multiplies the elements of b */
    int64_t m, n, k;         /* at most ROWS, COLUMNS, TERMS       */
    double *a, *b, *c;       /* 2m x k, k x n, 2m x n              */
} step;

static int64_t rows_of(const gx_args *args)
{
    return gx_min(args->m, ROWS);
}

static int64_t columns_of(const gx_args *args)
{
    return gx_min(args->n, COLUMNS);
}

static size_t take_room(const gx_args *args, char *work, step *s)
{
    int64_t k = gx_min(args->k, TERMS);
    size_t used = 0;
    used = gx_take(work, used, (size_t)(2 * rows_of(args) * k) * sizeof(double), &s->a);
    used = gx_take(work, used, (size_t)(k * columns_of(args)) * sizeof(double), &s->b);
    return gx_take(work, used, (size_t)(2 * rows_of(args) * columns_of(args)) * sizeof(double),
                   &s->c);
}

size_t gx_cpu_field_gemm_bytes(const gx_args *args)
{
    step s;
    double terms = (double)args->m * (double)args->n * (double)args->k;
    bool is_plain = terms <= PLAIN || args->m <= 0 || args->n <= 0;
    return is_plain ? 0 : take_room(args, NULL, &s);
}

/* The nearest whole number of what is below 2^51, in a form that is vectorised. */
GX_INLINE double rounded(double x)
{
    const double UNIT_IS_1 = 0x1.8p52;
    return x + UNIT_IS_1 - UNIT_IS_1;
}

/* Between -p/2 and p/2. */
GX_INLINE double balanced(uint32_t x, uint32_t p)
{
    int32_t y = (int32_t)x, half = (int32_t)(p / 2);
    return (double)(y - (y > half ? (int32_t)p : 0));
}

/* Halves of count elements; x may be where step is 1 or a column apart. */
GX_INLINE void halve(const uint32_t *x, int64_t apart, int64_t count, uint32_t p, double *hi,
                     double *lo)
{
    for (int64_t i = 0; i < count; i++) {
        double whole = balanced(x[i * apart], p), upper = rounded(whole * 0x1p-15);
        hi[i] = upper;
        lo[i] = whole - upper * 0x1p15;
    }
}

GX_INLINE void halve_column_loop(const uint32_t *x, int64_t count, uint32_t p, double *hi,
                                 double *lo)
{
    halve(x, 1, count, p, hi, lo);
}
COPIES(halve_column, (const uint32_t *x, int64_t count, uint32_t p, double *hi, double *lo),
       (x, count, p, hi, lo))

GX_INLINE void widen_column_loop(const uint32_t *x, int64_t count, uint32_t p, double *to)
{
    for (int64_t i = 0; i < count; i++) {
        to[i] = balanced(x[i], p);
    }
}
COPIES(widen_column, (const uint32_t *x, int64_t count, uint32_t p, double *to), (x, count, p, to))

/* The rectangle (i0, l0) of op(a), m x k, as halves. */
static void pack_left(const step *s, int64_t i0, int64_t l0)
{
    const gx_args *args = s->args;
    if (args->transa == GX_NO_TRANS) {
        for (int64_t l = 0; l < s->k; l++) {
            double *hi = s->a + 2 * s->m * l;
            halve_column(gx_at(args->a, GX_M31, args->lda, i0, l0 + l), s->m, s->p, hi, hi + s->m);
        }
        return;
    }
    enum { SIDE = 16 }; // rows of op(a) at a time: lines of the cache are used whole
    for (int64_t i = 0; i < s->m; i += SIDE) {
        for (int64_t l = 0; l < s->k; l++) {
            double *hi = s->a + 2 * s->m * l + i;
            halve(gx_at(args->a, GX_M31, args->lda, l0 + l, i0 + i), args->lda,
                  gx_min(SIDE, s->m - i), s->p, hi, hi + s->m);
        }
    }
}

/* The rectangle (l0, j0) of alpha op(b), k x n. */
static void pack_right(const step *s, int64_t l0, int64_t j0)
{
    const gx_args *args = s->args;
    for (int64_t j = 0; j < s->n; j++) {
        double *to = s->b + s->k * j;
        if (args->transb == GX_NO_TRANS && s->alpha == 1) {
            widen_column(gx_at(args->b, GX_M31, args->ldb, l0, j0 + j), s->k, s->p, to);
            continue;
        }
        for (int64_t l = 0; l < s->k; l++) {
            const uint32_t *x = args->transb == GX_NO_TRANS
                                    ? gx_at(args->b, GX_M31, args->ldb, l0 + l, j0 + j)
                                    : gx_at(args->b, GX_M31, args->ldb, j0 + j, l0 + l);
            to[l] = balanced(s->alpha == 1 ? *x : gx_field_mul(s->alpha, *x, s->p), s->p);
        }
    }
}

/* A column of c from its halves, added to what is there or not; zeros are left of the halves. */
GX_INLINE void unite_loop(double *restrict hi, double *restrict lo, int64_t count, uint32_t p,
                          bool adds, uint32_t *restrict c)
{
    double whole = p, per_one = 1 / whole;
    int32_t kept = adds ? -1 : 0;
    for (int64_t i = 0; i < count; i++) {
        double x = hi[i] - rounded(hi[i] * per_one) * whole;
        x = x * 0x1p15 + lo[i] + (double)((int32_t)c[i] & kept);
        hi[i] = lo[i] = 0;
        int32_t rest = (int32_t)(x - rounded(x * per_one) * whole);
        c[i] = (uint32_t)rest + (uint32_t)(rest >> 31 & (int32_t)p);
    }
}
COPIES(unite, (double *hi, double *lo, int64_t count, uint32_t p, bool adds, uint32_t *c),
       (hi, lo, count, p, adds, c))

static void multiply_step(const step *s, int64_t i0, int64_t j0, bool adds)
{
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, (blasint)(2 * s->m), (blasint)s->n,
                (blasint)s->k, 1, s->a, (blasint)(2 * s->m), s->b, (blasint)s->k, 1, s->c,
                (blasint)(2 * s->m));
    for (int64_t j = 0; j < s->n; j++) {
        double *hi = s->c + 2 * s->m * j;
        unite(hi, hi + s->m, s->m, s->p, adds, gx_at(s->args->c, GX_M31, s->args->ldc, i0, j0 + j));
    }
}

/* c = beta c; beta = 0 does not read it. */
static void scale_result(const gx_args *args, uint32_t beta, uint32_t p)
{
    for (int64_t j = 0; j < args->n && beta != 1; j++) {
        uint32_t *c = gx_at(args->c, GX_M31, args->ldc, 0, j);
        for (int64_t i = 0; i < args->m; i++) {
            c[i] = beta == 0 ? 0 : gx_field_mul(beta, c[i], p);
        }
    }
}

gx_code gx_cpu_gemm_m31(gx_dev *dev, gx_queue *queue, const gx_args *args, gx_err *err)
{
    step s = {.args = args, .p = args->modulus == 0 ? GX_M31_P : args->modulus};
    s.alpha = gx_field_of((int64_t)args->alpha.re, s.p);
    s.beta = gx_field_of((int64_t)args->beta.re, s.p);
    double terms = (double)args->m * (double)args->n * (double)args->k;
    if (args->k == 0 || s.alpha == 0) {
        scale_result(args, s.beta, s.p);
        return GX_OK;
    }
    if (terms <= PLAIN || args->work == NULL) {
        return gx_ref_gemm_m31(dev, queue, args, err);
    }
    take_room(args, args->work, &s);
    scale_result(args, s.beta == 0 ? 1 : s.beta, s.p);
    memset(s.c, 0, (size_t)(2 * rows_of(args) * columns_of(args)) * sizeof *s.c);
    GX_TRY(gx_cpu_narrow_begin(err));
    for (int64_t i = 0; i < args->m; i += s.m) {
        s.m = gx_min(ROWS, args->m - i);
        for (int64_t l = 0; l < args->k; l += s.k) {
            s.k = gx_min(TERMS, args->k - l);
            pack_left(&s, i, l);
            for (int64_t j = 0; j < args->n; j += s.n) {
                s.n = gx_min(COLUMNS, args->n - j);
                pack_right(&s, l, j);
                multiply_step(&s, i, j, l > 0 || s.beta != 0);
            }
        }
    }
    gx_cpu_narrow_end();
    return GX_OK;
}

// Elements ----------------------------------------------------------------------------------------

GX_INLINE void multiply_all_loop(const uint32_t *a, const uint32_t *b, int64_t count, uint32_t *c)
{
    for (int64_t i = 0; i < count; i++) {
        c[i] = gx_m31_mul(a[i], b[i]);
    }
}
COPIES(multiply_all, (const uint32_t *a, const uint32_t *b, int64_t count, uint32_t *c),
       (a, b, count, c))

GX_INLINE void scale_all_loop(uint32_t alpha, const uint32_t *a, int64_t count, uint32_t *c)
{
    for (int64_t i = 0; i < count; i++) {
        c[i] = gx_m31_mul(alpha, a[i]);
    }
}
COPIES(scale_all, (uint32_t alpha, const uint32_t *a, int64_t count, uint32_t *c),
       (alpha, a, count, c))

/* c = a + b; is_minus: a - b. */
GX_INLINE void add_all_loop(const uint32_t *a, const uint32_t *b, int64_t count, bool is_minus,
                            uint32_t *c)
{
    for (int64_t i = 0; i < count && !is_minus; i++) {
        c[i] = gx_m31_add(a[i], b[i]);
    }
    for (int64_t i = 0; i < count && is_minus; i++) {
        c[i] = gx_m31_sub(a[i], b[i]);
    }
}
COPIES(add_all, (const uint32_t *a, const uint32_t *b, int64_t count, bool is_minus, uint32_t *c),
       (a, b, count, is_minus, c))

GX_INLINE void combine_all_loop(uint32_t alpha, const uint32_t *a, uint32_t beta, const uint32_t *b,
                                int64_t count, uint32_t *c)
{
    for (int64_t i = 0; i < count; i++) {
        c[i] = gx_m31_add(gx_m31_mul(alpha, a[i]), gx_m31_mul(beta, b[i]));
    }
}
COPIES(combine_all,
       (uint32_t alpha, const uint32_t *a, uint32_t beta, const uint32_t *b, int64_t count,
        uint32_t *c),
       (alpha, a, beta, b, count, c))

static bool has_zero(const uint32_t *x, int64_t count)
{
    bool is_there = false;
    for (int64_t i = 0; i < count; i++) {
        is_there |= x[i] == 0;
    }
    return is_there;
}

gx_code gx_cpu_field_block(gx_map_kind kind, int64_t count, gx_scalar alpha, gx_scalar beta,
                           const void *const from[3], void *dst, gx_err *err)
{
    const uint32_t *a = from[0], *b = from[1], *c = from[2];
    uint32_t one = gx_m31_of(alpha.re), two = gx_m31_of(beta.re), *to = dst;
    int by = gx_field_divides_by(kind), operands = gx_map_row(kind)->operands;
    if (by >= 0 && has_zero(from[by], count)) {
        return gx_fail(err, GX_NUMERIC, GX_FIELD_ZERO_TEXT);
    }
    switch (kind) {
    case GX_MAP_ADD:
        if (one == 1 && (two == 1 || two == GX_M31_P - 1)) {
            add_all(a, b, count, two != 1, to);
        } else {
            combine_all(one, a, two, b, count, to);
        }
        return GX_OK;
    case GX_MAP_MUL:
        multiply_all(a, b, count, to);
        return GX_OK;
    case GX_MAP_SQUARE:
        multiply_all(a, a, count, to);
        return GX_OK;
    case GX_MAP_SCALE:
        scale_all(one, a, count, to);
        return GX_OK;
    default:
        for (int64_t i = 0; i < count; i++) {
            to[i] = gx_field_map(kind, one, two, a[i], operands > 1 ? b[i] : 0,
                                 operands > 2 ? c[i] : 0);
        }
        return GX_OK;
    }
}

GX_LOOP(fill)
{
    uint32_t value = gx_m31_of(p->alpha.re);
    for (int64_t j = 0; j < p->n; j++) {
        uint32_t *c = gx_at(p->c, GX_M31, p->ldc, 0, j);
        for (int64_t i = 0; i < p->m; i++) {
            c[i] = value;
        }
    }
    return GX_OK;
}
GX_FIELD_SLOT_DEFINE(gx_cpu_fill, fill)

// Moves, whose elements are any of 32 bits --------------------------------------------------------

GX_LOOP(transpose)
{
    return gx_cpu_transpose_f32(NULL, NULL, p, err);
}
GX_FIELD_SLOT_DEFINE(gx_cpu_transpose, transpose)

GX_LOOP(symmetrize)
{
    return gx_cpu_symmetrize_f32(NULL, NULL, p, err);
}
GX_FIELD_SLOT_DEFINE(gx_cpu_symmetrize, symmetrize)

GX_LOOP(triangle)
{
    return gx_ref_triangle_m31(NULL, NULL, p, err);
}
GX_FIELD_SLOT_DEFINE(gx_cpu_triangle, triangle)

// Sums --------------------------------------------------------------------------------------------

GX_LOOP(reduce)
{
    bool is_of_all = p->reduce_kind == GX_REDUCE_SUM;
    if (!is_of_all && p->reduce_kind != GX_REDUCE_COL_SUM) {
        return gx_ref_reduce_m31(NULL, NULL, p, err);
    }
    uint64_t total = 0;
    for (int64_t j = 0; j < p->n; j++) {
        const uint32_t *a = gx_at(p->a, GX_M31, p->lda, 0, j);
        uint64_t sum = 0; // of at most 2^40 elements below 2^32, then modulo p
        for (int64_t i0 = 0; i0 < p->m; i0 += 1 << 30) {
            uint64_t part = 0;
            for (int64_t i = i0; i < gx_min(p->m, i0 + (1 << 30)); i++) {
                part += a[i];
            }
            sum = (sum + part) % GX_M31_P;
        }
        total = (total + sum) % GX_M31_P;
        if (!is_of_all) {
            p->reduce[2 * j] = (double)sum;
            p->reduce[2 * j + 1] = 0;
        }
    }
    if (is_of_all) {
        p->reduce[0] = (double)total;
        p->reduce[1] = 0;
    }
    return GX_OK;
}
GX_FIELD_SLOT_DEFINE(gx_cpu_reduce, reduce)
