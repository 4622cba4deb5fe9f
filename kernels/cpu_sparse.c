/*
** Products with a sparse panel, of the CPU backend: GX_SPMM.
**
**   c += alpha b op(sparse)        b and c have m lines; an entry (i, j) touches columns i and j
**
** What takes the time is not arithmetic but the columns of b (op = transpose: they are gathered) or
** of c (they are scattered to) at the places that the indexes name.  So m lines, one vector
** register after the other, are worked on together: the panel's indexes and values, which come in
** order, are read once for as many lines as registers hold, and a column that is fetched is used
** whole.  The columns that entries AHEAD from now will name are fetched meanwhile, where a column
** fills cache lines.  Gathered, a column of c stays in registers over its row; scattered, a column
** of b does.
**
** With b and c turned, an entry touches a row of each, and few lines that follow each other lie
** together: FEW columns of b and c at a time.  That is for panels whose entries find the columns in
** the cache; the panel's rows, FEW after FEW columns, should be there too.  Rows that run along, as
** those of a difference scheme on a grid or of a band do, each with the columns of the row before
** it moved on by one, are worked on a vector at a time, the others by scalars.  FEW columns, at
** several places each, are more streams than the processor foresees: what comes next of each is
** fetched.  A large result that is not added to goes past the caches.
**
** Sums run in the order of the entries, in the dtype's own precision, each line by itself: the same
** bits for every m and leading dimension.
*/
#include "cpu.h"
#include "cpu_element.h"

#include "../core/base/copy.h"

#include <string.h>

enum { GO_BYTES = 256, FEW = 8, AHEAD = 16, LINE_BYTES = 64 }; /* GO_BYTES: of lines in registers */
enum { STRETCH = 512 };     /* rows of FEW columns that wait in the first cache to go past it */
enum { ALONG_AHEAD = 256 }; /* bytes from where rows that run along end to what is fetched */

typedef double vec_f64_32 __attribute__((vector_size(32), aligned(8), may_alias));
typedef float vec_f32_32 __attribute__((vector_size(32), aligned(4), may_alias));
typedef double vec_f64_64 __attribute__((vector_size(64), aligned(8), may_alias));
typedef float vec_f32_64 __attribute__((vector_size(64), aligned(4), may_alias));

/* Where entry e of the panel has its column. */
#define COLUMN(s, is_wide, e)                                                                      \
    ((is_wide) ? ((const int64_t *)(s)->index)[e] : (int64_t)((const int32_t *)(s)->index)[e])

/* Fetch `bytes` from x on for reading, or for writing (a constant). */
#define FETCH(x, bytes, is_written)                                                                \
    for (size_t at_ = 0; at_ < (bytes); at_ += LINE_BYTES) {                                       \
        __builtin_prefetch((const char *)(x) + at_, (is_written), 3);                              \
    }

/*
** How c is made; constants wherever it is inlined.  is_fresh is one so that no branch parts a
** multiplication from its addition: fused everywhere or nowhere.
*/
typedef struct gx_how {
    bool is_wide;  /* the indexes                                                             */
    bool is_fresh; /* as the arguments: c is not read                                         */
    bool is_along; /* rows that run along go by vectors, fused, large results past the caches */
    int width;     /* bytes of a vector: 32 or 64                                             */
} gx_how;

/* sum + v x; fused where vectors are, as theirs: the compiler would make some sums without. */
GX_INLINE double plus_f64(bool is_fused, double sum, double v, double x)
{
    return is_fused ? __builtin_fma(v, x, sum) : sum + v * x;
}

GX_INLINE float plus_f32(bool is_fused, float sum, float v, float x)
{
    return is_fused ? __builtin_fmaf(v, x, sum) : sum + v * x;
}

/* Do rows i .. i + rows - 1 run along? */
GX_INLINE bool runs_along(const gx_csr *s, bool is_wide, int64_t i, int64_t rows)
{
    const uint32_t *start = s->start + i;
    int64_t count = start[1] - start[0], first = start[0], differ = 0;
    for (int64_t r = 1; r < rows; r++) {
        differ |= start[r + 1] - start[r] - count;
    }
    if (count == 0 || differ != 0 ||
        COLUMN(s, is_wide, first + count) != COLUMN(s, is_wide, first) + 1) {
        return false;
    }
    for (int64_t e = first; e < first + (rows - 1) * count; e++) {
        differ |= COLUMN(s, is_wide, e + count) - COLUMN(s, is_wide, e) - 1;
    }
    return differ == 0;
}

/*
** Lines l .. l + vectors * LANES - 1 (vectors is a constant), or one line; vectors of W bytes, as
** the processor has them: the compiler keeps wider ones in memory.
*/
#define DEFINE_REAL(name, real, W)                                                                 \
    GX_INLINE void gather_##name##_##W(const gx_args *p, gx_how how, int64_t l, int vectors)       \
    {                                                                                              \
        enum { LANES = W / sizeof(real) };                                                         \
        const gx_csr *s = p->sparse;                                                               \
        const real *b = (const real *)p->b + l, *value = s->value, alpha = (real)p->alpha.re;      \
        int64_t end = s->start[s->rows];                                                           \
        for (int64_t i = 0; i < s->rows; i++) {                                                    \
            vec_##name##_##W sum[(GO_BYTES / W)] = {{0}};                                          \
            for (int64_t e = s->start[i]; e < s->start[i + 1]; e++) {                              \
                const real *x = b + COLUMN(s, how.is_wide, e) * p->ldb;                            \
                real v = value[e];                                                                 \
                if (e + AHEAD < end) {                                                             \
                    const real *next = b + COLUMN(s, how.is_wide, e + AHEAD) * p->ldb;             \
                    FETCH(next, (size_t)vectors *W, 0)                                             \
                }                                                                                  \
                for (int q = 0; q < vectors; q++) {                                                \
                    sum[q] += v * *(const vec_##name##_##W *)(x + q * LANES);                      \
                }                                                                                  \
            }                                                                                      \
            real *c = (real *)p->c + i * p->ldc + l;                                               \
            for (int q = 0; q < vectors; q++) {                                                    \
                vec_##name##_##W before = {0};                                                     \
                if (!how.is_fresh) {                                                               \
                    before = *(const vec_##name##_##W *)(c + q * LANES);                           \
                }                                                                                  \
                *(vec_##name##_##W *)(c + q * LANES) = before + alpha * sum[q];                    \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    GX_INLINE void gather_line_##name##_##W(const gx_args *p, gx_how how, int64_t l)               \
    {                                                                                              \
        const gx_csr *s = p->sparse;                                                               \
        const real *b = (const real *)p->b + l, *value = s->value;                                 \
        for (int64_t i = 0; i < s->rows; i++) {                                                    \
            real sum = 0;                                                                          \
            for (int64_t e = s->start[i]; e < s->start[i + 1]; e++) {                              \
                sum += value[e] * b[COLUMN(s, how.is_wide, e) * p->ldb];                           \
            }                                                                                      \
            real *c = (real *)p->c + i * p->ldc + l, before = how.is_fresh ? 0 : *c;               \
            *c = before + (real)p->alpha.re * sum;                                                 \
        }                                                                                          \
    }                                                                                              \
    GX_INLINE void scatter_##name##_##W(const gx_args *p, gx_how how, int64_t l, int vectors)      \
    {                                                                                              \
        enum { LANES = W / sizeof(real) };                                                         \
        const gx_csr *s = p->sparse;                                                               \
        const real *value = s->value, alpha = (real)p->alpha.re;                                   \
        real *c = (real *)p->c + l;                                                                \
        int64_t end = s->start[s->rows];                                                           \
        for (int64_t i = 0; i < s->rows; i++) {                                                    \
            vec_##name##_##W x[(GO_BYTES / W)] = {{0}};                                            \
            for (int q = 0; q < vectors; q++) {                                                    \
                x[q] = alpha * *(const vec_##name##_##W *)((const real *)p->b + i * p->ldb + l +   \
                                                           q * LANES);                             \
            }                                                                                      \
            for (int64_t e = s->start[i]; e < s->start[i + 1]; e++) {                              \
                real *y = c + COLUMN(s, how.is_wide, e) * p->ldc, v = value[e];                    \
                if (e + AHEAD < end) {                                                             \
                    const real *next = c + COLUMN(s, how.is_wide, e + AHEAD) * p->ldc;             \
                    FETCH(next, (size_t)vectors *W, 1)                                             \
                }                                                                                  \
                for (int q = 0; q < vectors; q++) {                                                \
                    *(vec_##name##_##W *)(y + q * LANES) += v * x[q];                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    GX_INLINE void scatter_line_##name##_##W(const gx_args *p, gx_how how, int64_t l)              \
    {                                                                                              \
        const gx_csr *s = p->sparse;                                                               \
        const real *value = s->value;                                                              \
        real *c = (real *)p->c + l;                                                                \
        for (int64_t i = 0; i < s->rows; i++) {                                                    \
            real x = (real)p->alpha.re * ((const real *)p->b)[i * p->ldb + l];                     \
            for (int64_t e = s->start[i]; e < s->start[i + 1]; e++) {                              \
                c[COLUMN(s, how.is_wide, e) * p->ldc] += value[e] * x;                             \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    /* to(r, q) = c(i + r, q) + alpha (row i + r of the panel) b(:, q), q < lines: a row, or \
       LANES of them that run along. */     \
    GX_INLINE void row_##name##_##W(const gx_args *p, gx_how how, int64_t i, int lines,            \
                                    const real *b, const real *c, real *to, int64_t ldto)          \
    {                                                                                              \
        const gx_csr *s = p->sparse;                                                               \
        const real *value = s->value;                                                              \
        real sum[FEW] = {0}, alpha = (real)p->alpha.re;                                            \
        for (int64_t e = s->start[i]; e < s->start[i + 1]; e++) {                                  \
            const real *x = b + COLUMN(s, how.is_wide, e);                                         \
            for (int q = 0; q < lines; q++) {                                                      \
                sum[q] = plus_##name(how.is_along, sum[q], value[e], x[q * p->ldb]);               \
            }                                                                                      \
        }                                                                                          \
        for (int q = 0; q < lines; q++) {                                                          \
            real before = how.is_fresh ? 0 : c[i + q * p->ldc];                                    \
            to[q * ldto] = before + alpha * sum[q];                                                \
        }                                                                                          \
    }                                                                                              \
    GX_INLINE void along_##name##_##W(const gx_args *p, gx_how how, int64_t i, int lines,          \
                                      const real *b, const real *c, real *to, int64_t ldto)        \
    {                                                                                              \
        enum { LANES = W / sizeof(real) };                                                         \
        const gx_csr *s = p->sparse;                                                               \
        int64_t first = s->start[i], count = s->start[i + 1] - first;                              \
        vec_##name##_##W sum[FEW] = {{0}};                                                         \
        real alpha = (real)p->alpha.re;                                                            \
        for (int64_t k = 0; k < count; k++) {                                                      \
            const real *x = b + COLUMN(s, how.is_wide, first + k);                                 \
            const real *value = (const real *)s->value + first + k;                                \
            vec_##name##_##W v = {0};                                                              \
            for (int r = 0; r < LANES; r++) {                                                      \
                v[r] = value[r * count];                                                           \
            }                                                                                      \
            for (int q = 0; q < lines && k == count - 1; q++) {                                    \
                __builtin_prefetch((const char *)(x + q * p->ldb) + ALONG_AHEAD);                  \
            }                                                                                      \
            for (int q = 0; q < lines; q++) {                                                      \
                sum[q] += v * *(const vec_##name##_##W *)(x + q * p->ldb);                         \
            }                                                                                      \
        }                                                                                          \
        for (int q = 0; q < lines; q++) {                                                          \
            vec_##name##_##W before = {0};                                                         \
            if (!how.is_fresh) {                                                                   \
                before = *(const vec_##name##_##W *)(c + i + q * p->ldc);                          \
            }                                                                                      \
            *(vec_##name##_##W *)(to + q * ldto) = before + alpha * sum[q];                        \
        }                                                                                          \
    }                                                                                              \
    GX_INLINE void turned_##name##_##W(const gx_args *p, gx_how how, bool is_past, int64_t l,      \
                                       int lines)                                                  \
    {                                                                                              \
        enum { LANES = W / sizeof(real) };                                                         \
        real held[FEW * STRETCH];                                                                  \
        const real *b = (const real *)p->b + l * p->ldb;                                           \
        real *c = (real *)p->c + l * p->ldc;                                                       \
        for (int64_t row = 0; row < p->n; row += STRETCH) {                                        \
            int64_t end = gx_min(p->n, row + STRETCH), ldto = is_past ? STRETCH : p->ldc;          \
            for (int64_t i = row; i < end;) {                                                      \
                real *to = is_past ? held + (i - row) : c + i;                                     \
                if (how.is_along && lines > 1 && i + LANES <= end &&                               \
                    runs_along(p->sparse, how.is_wide, i, LANES)) {                                \
                    along_##name##_##W(p, how, i, lines, b, c, to, ldto);                          \
                    i += LANES;                                                                    \
                } else {                                                                           \
                    row_##name##_##W(p, how, i, lines, b, c, to, ldto);                            \
                    i++;                                                                           \
                }                                                                                  \
            }                                                                                      \
            for (int q = 0; is_past && q < lines; q++) {                                           \
                gx_copy_past(c + row + q * p->ldc, held + q * STRETCH,                             \
                             (size_t)(end - row) * sizeof(real));                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    GX_INLINE void columns_##name##_##W(const gx_args *p, gx_how how)                              \
    {                                                                                              \
        int64_t l = 0;                                                                             \
        bool is_past =                                                                             \
            how.is_along && how.is_fresh && p->m * p->n * (int64_t)sizeof(real) >= GX_PAST_BYTES;  \
        for (; l + FEW <= p->m; l += FEW) {                                                        \
            turned_##name##_##W(p, how, is_past, l, FEW);                                          \
        }                                                                                          \
        for (; l + FEW / 2 <= p->m; l += FEW / 2) {                                                \
            turned_##name##_##W(p, how, is_past, l, FEW / 2);                                      \
        }                                                                                          \
        for (; l < p->m; l++) {                                                                    \
            turned_##name##_##W(p, how, is_past, l, 1);                                            \
        }                                                                                          \
        if (is_past) {                                                                             \
            gx_copy_past_end();                                                                    \
        }                                                                                          \
    }                                                                                              \
    GX_INLINE void lines_##name##_##W(const gx_args *p, gx_how how, bool is_scattered)             \
    {                                                                                              \
        enum { LANES = W / sizeof(real) };                                                         \
        int64_t l = 0;                                                                             \
        for (; l + (GO_BYTES / W) * LANES <= p->m; l += (GO_BYTES / W) * LANES) {                  \
            if (is_scattered) {                                                                    \
                scatter_##name##_##W(p, how, l, (GO_BYTES / W));                                   \
            } else {                                                                               \
                gather_##name##_##W(p, how, l, (GO_BYTES / W));                                    \
            }                                                                                      \
        }                                                                                          \
        for (; l + LANES <= p->m; l += LANES) {                                                    \
            if (is_scattered) {                                                                    \
                scatter_##name##_##W(p, how, l, 1);                                                \
            } else {                                                                               \
                gather_##name##_##W(p, how, l, 1);                                                 \
            }                                                                                      \
        }                                                                                          \
        for (; l < p->m; l++) {                                                                    \
            if (is_scattered) {                                                                    \
                scatter_line_##name##_##W(p, how, l);                                              \
            } else {                                                                               \
                gather_line_##name##_##W(p, how, l);                                               \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_REAL(f64, double, 32)
DEFINE_REAL(f32, float, 32)
DEFINE_REAL(f64, double, 64)
DEFINE_REAL(f32, float, 64)

/* Complex numbers: both parts of all lines, in one loop that the compiler turns to vectors. */
#define DEFINE_COMPLEX(name, real)                                                                 \
    GX_INLINE void lines_##name(const gx_args *p, bool is_wide, bool is_scattered)                 \
    {                                                                                              \
        const gx_csr *s = p->sparse;                                                               \
        const real *value = s->value;                                                              \
        real sign = p->transa == GX_CONJ_TRANS ? -1 : 1;                                           \
        real are = (real)p->alpha.re, aim = (real)p->alpha.im;                                     \
        for (int64_t i = 0; i < s->rows; i++) {                                                    \
            for (int64_t e = s->start[i]; e < s->start[i + 1]; e++) {                              \
                int64_t j = COLUMN(s, is_wide, e);                                                 \
                real re = value[2 * e], im = sign * value[2 * e + 1];                              \
                real vre = are * re - aim * im, vim = are * im + aim * re;                         \
                const real *x = (const real *)p->b + 2 * (is_scattered ? i : j) * p->ldb;          \
                real *y = (real *)p->c + 2 * (is_scattered ? j : i) * p->ldc;                      \
                for (int64_t l = 0; l < p->m; l++) {                                               \
                    y[2 * l] += vre * x[2 * l] - vim * x[2 * l + 1];                               \
                    y[2 * l + 1] += vre * x[2 * l + 1] + vim * x[2 * l];                           \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    GX_INLINE void columns_##name(const gx_args *p, gx_how how)                                    \
    {                                                                                              \
        const gx_csr *s = p->sparse;                                                               \
        const real *value = s->value;                                                              \
        real sign = p->transa == GX_CONJ_TRANS ? -1 : 1;                                           \
        real are = (real)p->alpha.re, aim = (real)p->alpha.im;                                     \
        for (int64_t l = 0; l < p->m; l++) {                                                       \
            const real *b = (const real *)p->b + 2 * l * p->ldb;                                   \
            real *c = (real *)p->c + 2 * l * p->ldc;                                               \
            for (int64_t i = 0; i < s->rows; i++) {                                                \
                real sum_re = how.is_fresh ? 0 : c[2 * i];                                         \
                real sum_im = how.is_fresh ? 0 : c[2 * i + 1];                                     \
                for (int64_t e = s->start[i]; e < s->start[i + 1]; e++) {                          \
                    const real *x = b + 2 * COLUMN(s, how.is_wide, e);                             \
                    real re = value[2 * e], im = sign * value[2 * e + 1];                          \
                    real vre = are * re - aim * im, vim = are * im + aim * re;                     \
                    sum_re += vre * x[0] - vim * x[1];                                             \
                    sum_im += vre * x[1] + vim * x[0];                                             \
                }                                                                                  \
                c[2 * i] = sum_re;                                                                 \
                c[2 * i + 1] = sum_im;                                                             \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_COMPLEX(c128, double)
DEFINE_COMPLEX(c64, float)

GX_INLINE void columns(gx_number dtype, const gx_args *p, gx_how how)
{
    switch (dtype) {
    case GX_F64:
        how.width == 64 ? columns_f64_64(p, how) : columns_f64_32(p, how);
        break;
    case GX_F32:
        how.width == 64 ? columns_f32_64(p, how) : columns_f32_32(p, how);
        break;
    case GX_C128:
        columns_c128(p, how);
        break;
    default:
        columns_c64(p, how);
    }
}

GX_INLINE void lines(gx_number dtype, const gx_args *p, gx_how how, bool is_scattered)
{
    switch (dtype) {
    case GX_F64:
        how.width == 64 ? lines_f64_64(p, how, is_scattered) : lines_f64_32(p, how, is_scattered);
        break;
    case GX_F32:
        how.width == 64 ? lines_f32_64(p, how, is_scattered) : lines_f32_32(p, how, is_scattered);
        break;
    case GX_C128:
        lines_c128(p, how.is_wide, is_scattered);
        break;
    default:
        lines_c64(p, how.is_wide, is_scattered);
    }
}

/* Of what is added to all the same: what is scattered to, complex numbers, long indexes. */
static void clear(gx_number dtype, const gx_args *p)
{
    bool is_turned = p->transb == GX_TRANS;
    size_t bytes = (size_t)(is_turned ? p->n : p->m) * gx_number_bytes(dtype);
    for (int64_t j = 0; j < (is_turned ? p->m : p->n); j++) {
        memset(gx_at(p->c, dtype, p->ldc, 0, j), 0, bytes);
    }
}

GX_INLINE void spmm_by(gx_number dtype, gx_how how, const gx_args *p)
{
    bool is_scattered = p->transa == GX_NO_TRANS;
    if (p->transb == GX_TRANS) {
        columns(dtype, p, how);
        return;
    }
    if (how.is_fresh && (is_scattered || gx_number_is_complex(dtype))) {
        clear(dtype, p);
    }
    if (is_scattered) {
        lines(dtype, p, how, true);
    } else {
        lines(dtype, p, how, false);
    }
}

/* What is a constant in the loops; long indexes are seldom. */
GX_INLINE gx_code spmm_of(gx_number dtype, bool is_along, int width, const gx_args *p)
{
    if (p->sparse->index_bytes == 8) {
        if (p->is_fresh) {
            clear(dtype, p);
        }
        spmm_by(dtype, (gx_how){true, false, is_along, width}, p);
    } else if (p->is_fresh) {
        spmm_by(dtype, (gx_how){false, true, is_along, width}, p);
    } else {
        spmm_by(dtype, (gx_how){false, false, is_along, width}, p);
    }
    return GX_OK;
}

GX_LOOP(spmm_avx512)
{
    return spmm_of(dtype, true, 64, p);
}

GX_LOOP(spmm_avx2)
{
    return spmm_of(dtype, true, 32, p);
}

GX_LOOP(spmm)
{
    return spmm_of(dtype, false, 32, p);
}

GX_WIDTHS_SLOT(gx_cpu_spmm, f64, GX_F64, spmm_avx512, spmm_avx2, spmm)
GX_WIDTHS_SLOT(gx_cpu_spmm, f32, GX_F32, spmm_avx512, spmm_avx2, spmm)
GX_WIDTHS_SLOT(gx_cpu_spmm, c128, GX_C128, spmm_avx512, spmm_avx2, spmm)
GX_WIDTHS_SLOT(gx_cpu_spmm, c64, GX_C64, spmm_avx512, spmm_avx2, spmm)
