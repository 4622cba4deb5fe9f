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
** together: FEW columns of b and c at a time, by scalars.  That is for panels whose entries find
** the columns in the cache; the panel's rows, FEW after FEW columns, should be there too.
**
** Sums run in the order of the entries, in the dtype's own precision, each line by itself: the same
** bits for every m and leading dimension.
*/
#include "cpu.h"
#include "cpu_element.h"

#include <string.h>

enum { VECTOR_BYTES = 64, VECTORS = 4, FEW = 8, AHEAD = 16, LINE_BYTES = 64 };

typedef double vec_f64 __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));
typedef float vec_f32 __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));

/* Where entry e of the panel has its column. */
#define COLUMN(s, is_wide, e)                                                                      \
    ((is_wide) ? ((const int64_t *)(s)->index)[e] : (int64_t)((const int32_t *)(s)->index)[e])

/* Fetch `bytes` from x on for reading, or for writing (a constant). */
#define FETCH(x, bytes, is_written)                                                                \
    for (size_t at_ = 0; at_ < (bytes); at_ += LINE_BYTES) {                                       \
        __builtin_prefetch((const char *)(x) + at_, (is_written), 3);                              \
    }

/*
** Lines l .. l + vectors * LANES - 1 (vectors is a constant), or one line.
*/
#define DEFINE_REAL(name, real)                                                                    \
    GX_INLINE void gather_##name(const gx_args *p, bool is_wide, int64_t l, int vectors)           \
    {                                                                                              \
        enum { LANES = VECTOR_BYTES / sizeof(real) };                                              \
        const gx_csr *s = p->sparse;                                                               \
        const real *b = (const real *)p->b + l, *value = s->value, alpha = (real)p->alpha.re;      \
        int64_t end = s->start[s->rows];                                                           \
        for (int64_t i = 0; i < s->rows; i++) {                                                    \
            vec_##name sum[VECTORS] = {{0}};                                                       \
            for (int64_t e = s->start[i]; e < s->start[i + 1]; e++) {                              \
                const real *x = b + COLUMN(s, is_wide, e) * p->ldb;                                \
                real v = value[e];                                                                 \
                if (e + AHEAD < end) {                                                             \
                    const real *next = b + COLUMN(s, is_wide, e + AHEAD) * p->ldb;                 \
                    FETCH(next, (size_t)vectors * VECTOR_BYTES, 0)                                 \
                }                                                                                  \
                for (int q = 0; q < vectors; q++) {                                                \
                    sum[q] += v * *(const vec_##name *)(x + q * LANES);                            \
                }                                                                                  \
            }                                                                                      \
            real *c = (real *)p->c + i * p->ldc + l;                                               \
            for (int q = 0; q < vectors; q++) {                                                    \
                *(vec_##name *)(c + q * LANES) += alpha * sum[q];                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    GX_INLINE void gather_line_##name(const gx_args *p, bool is_wide, int64_t l)                   \
    {                                                                                              \
        const gx_csr *s = p->sparse;                                                               \
        const real *b = (const real *)p->b + l, *value = s->value;                                 \
        for (int64_t i = 0; i < s->rows; i++) {                                                    \
            real sum = 0;                                                                          \
            for (int64_t e = s->start[i]; e < s->start[i + 1]; e++) {                              \
                sum += value[e] * b[COLUMN(s, is_wide, e) * p->ldb];                               \
            }                                                                                      \
            ((real *)p->c)[i * p->ldc + l] += (real)p->alpha.re * sum;                             \
        }                                                                                          \
    }                                                                                              \
    GX_INLINE void scatter_##name(const gx_args *p, bool is_wide, int64_t l, int vectors)          \
    {                                                                                              \
        enum { LANES = VECTOR_BYTES / sizeof(real) };                                              \
        const gx_csr *s = p->sparse;                                                               \
        const real *value = s->value, alpha = (real)p->alpha.re;                                   \
        real *c = (real *)p->c + l;                                                                \
        int64_t end = s->start[s->rows];                                                           \
        for (int64_t i = 0; i < s->rows; i++) {                                                    \
            vec_##name x[VECTORS] = {{0}};                                                         \
            for (int q = 0; q < vectors; q++) {                                                    \
                x[q] = alpha *                                                                     \
                       *(const vec_##name *)((const real *)p->b + i * p->ldb + l + q * LANES);     \
            }                                                                                      \
            for (int64_t e = s->start[i]; e < s->start[i + 1]; e++) {                              \
                real *y = c + COLUMN(s, is_wide, e) * p->ldc, v = value[e];                        \
                if (e + AHEAD < end) {                                                             \
                    const real *next = c + COLUMN(s, is_wide, e + AHEAD) * p->ldc;                 \
                    FETCH(next, (size_t)vectors * VECTOR_BYTES, 1)                                 \
                }                                                                                  \
                for (int q = 0; q < vectors; q++) {                                                \
                    *(vec_##name *)(y + q * LANES) += v * x[q];                                    \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    GX_INLINE void scatter_line_##name(const gx_args *p, bool is_wide, int64_t l)                  \
    {                                                                                              \
        const gx_csr *s = p->sparse;                                                               \
        const real *value = s->value;                                                              \
        real *c = (real *)p->c + l;                                                                \
        for (int64_t i = 0; i < s->rows; i++) {                                                    \
            real x = (real)p->alpha.re * ((const real *)p->b)[i * p->ldb + l];                     \
            for (int64_t e = s->start[i]; e < s->start[i + 1]; e++) {                              \
                c[COLUMN(s, is_wide, e) * p->ldc] += value[e] * x;                                 \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    GX_INLINE void turned_##name(const gx_args *p, bool is_wide, int64_t l, int lines)             \
    {                                                                                              \
        const gx_csr *s = p->sparse;                                                               \
        const real *b = (const real *)p->b + l * p->ldb, *value = s->value;                        \
        real *c = (real *)p->c + l * p->ldc, alpha = (real)p->alpha.re;                            \
        for (int64_t i = 0; i < s->rows; i++) {                                                    \
            real sum[FEW] = {0};                                                                   \
            for (int64_t e = s->start[i]; e < s->start[i + 1]; e++) {                              \
                const real *x = b + COLUMN(s, is_wide, e);                                         \
                for (int q = 0; q < lines; q++) {                                                  \
                    sum[q] += value[e] * x[q * p->ldb];                                            \
                }                                                                                  \
            }                                                                                      \
            for (int q = 0; q < lines; q++) {                                                      \
                real before = p->is_fresh ? 0 : c[i + q * p->ldc];                                 \
                c[i + q * p->ldc] = before + alpha * sum[q];                                       \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    GX_INLINE void columns_##name(const gx_args *p, bool is_wide)                                  \
    {                                                                                              \
        int64_t l = 0;                                                                             \
        for (; l + FEW <= p->m; l += FEW) {                                                        \
            turned_##name(p, is_wide, l, FEW);                                                     \
        }                                                                                          \
        for (; l + FEW / 2 <= p->m; l += FEW / 2) {                                                \
            turned_##name(p, is_wide, l, FEW / 2);                                                 \
        }                                                                                          \
        for (; l < p->m; l++) {                                                                    \
            turned_##name(p, is_wide, l, 1);                                                       \
        }                                                                                          \
    }                                                                                              \
    GX_INLINE void lines_##name(const gx_args *p, bool is_wide, bool is_scattered)                 \
    {                                                                                              \
        enum { LANES = VECTOR_BYTES / sizeof(real) };                                              \
        int64_t l = 0;                                                                             \
        for (; l + VECTORS * LANES <= p->m; l += VECTORS * LANES) {                                \
            if (is_scattered) {                                                                    \
                scatter_##name(p, is_wide, l, VECTORS);                                            \
            } else {                                                                               \
                gather_##name(p, is_wide, l, VECTORS);                                             \
            }                                                                                      \
        }                                                                                          \
        for (; l + LANES <= p->m; l += LANES) {                                                    \
            if (is_scattered) {                                                                    \
                scatter_##name(p, is_wide, l, 1);                                                  \
            } else {                                                                               \
                gather_##name(p, is_wide, l, 1);                                                   \
            }                                                                                      \
        }                                                                                          \
        for (; l < p->m; l++) {                                                                    \
            if (is_scattered) {                                                                    \
                scatter_line_##name(p, is_wide, l);                                                \
            } else {                                                                               \
                gather_line_##name(p, is_wide, l);                                                 \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_REAL(f64, double)
DEFINE_REAL(f32, float)

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
    GX_INLINE void columns_##name(const gx_args *p, bool is_wide)                                  \
    {                                                                                              \
        const gx_csr *s = p->sparse;                                                               \
        const real *value = s->value;                                                              \
        real sign = p->transa == GX_CONJ_TRANS ? -1 : 1;                                           \
        real are = (real)p->alpha.re, aim = (real)p->alpha.im;                                     \
        for (int64_t l = 0; l < p->m; l++) {                                                       \
            const real *b = (const real *)p->b + 2 * l * p->ldb;                                   \
            real *c = (real *)p->c + 2 * l * p->ldc;                                               \
            for (int64_t i = 0; i < s->rows; i++) {                                                \
                real sum_re = p->is_fresh ? 0 : c[2 * i];                                          \
                real sum_im = p->is_fresh ? 0 : c[2 * i + 1];                                      \
                for (int64_t e = s->start[i]; e < s->start[i + 1]; e++) {                          \
                    const real *x = b + 2 * COLUMN(s, is_wide, e);                                 \
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

GX_INLINE void columns(gx_dtype dtype, const gx_args *p, bool is_wide)
{
    switch (dtype) {
    case GX_F64:
        columns_f64(p, is_wide);
        break;
    case GX_F32:
        columns_f32(p, is_wide);
        break;
    case GX_C128:
        columns_c128(p, is_wide);
        break;
    default:
        columns_c64(p, is_wide);
    }
}

GX_INLINE void lines(gx_dtype dtype, const gx_args *p, bool is_wide, bool is_scattered)
{
    switch (dtype) {
    case GX_F64:
        lines_f64(p, is_wide, is_scattered);
        break;
    case GX_F32:
        lines_f32(p, is_wide, is_scattered);
        break;
    case GX_C128:
        lines_c128(p, is_wide, is_scattered);
        break;
    default:
        lines_c64(p, is_wide, is_scattered);
    }
}

GX_INLINE gx_code spmm(gx_dtype dtype, const gx_args *p, gx_err *err)
{
    (void)err;
    bool is_scattered = p->transa == GX_NO_TRANS;
    if (p->transb == GX_TRANS) {
        if (p->sparse->index_bytes == 8) {
            columns(dtype, p, true);
        } else {
            columns(dtype, p, false);
        }
        return GX_OK;
    }
    for (int64_t j = 0; p->is_fresh && j < p->n; j++) {
        memset(gx_at(p->c, dtype, p->ldc, 0, j), 0, (size_t)p->m * gx_dtype_bytes(dtype));
    }
    if (p->sparse->index_bytes == 8) {
        lines(dtype, p, true, is_scattered);
    } else if (is_scattered) {
        lines(dtype, p, false, true);
    } else {
        lines(dtype, p, false, false);
    }
    return GX_OK;
}

GX_FMA_SLOT(gx_cpu_spmm, f64, GX_F64, spmm, spmm)
GX_FMA_SLOT(gx_cpu_spmm, f32, GX_F32, spmm, spmm)
GX_FMA_SLOT(gx_cpu_spmm, c128, GX_C128, spmm, spmm)
GX_FMA_SLOT(gx_cpu_spmm, c64, GX_C64, spmm, spmm)
