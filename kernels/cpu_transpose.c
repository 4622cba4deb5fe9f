/*
** Transposes and mirrored triangles of the CPU backend.
**
** A transpose reads one matrix along its columns and writes the other across them, so the plain double
** loop touches a new cache line, often a new page, at every step of one of the two.  Here elements move in
** squares one cache line (64 bytes) wide: the square's columns are read as whole lines into a local buffer and
** written from it as whole lines; squares are visited in 64 x 64 panels, which keeps to 128 pages at a time.
** Elements are moved by size as bytes; conjugation flips signs in the buffer.
**
** The mirror of a triangle is the same movement within one matrix: source and destination squares never
** meet, but for those on the diagonal, which go element by element.
*/
#include "cpu.h"

#include <string.h>

enum { LINE = 64, PANEL = 64, SIDE_MAX = 16 };

/* Negate the imaginary parts of count elements. */
GX_INLINE void flip(gx_dtype dtype, void *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (dtype == GX_C128) {
            ((double *)x)[2 * i + 1] = -((double *)x)[2 * i + 1];
        } else if (dtype == GX_C64) {
            ((float *)x)[2 * i + 1] = -((float *)x)[2 * i + 1];
        }
    }
}

GX_INLINE bool is_conjugated(gx_dtype dtype, gx_trans trans)
{
    return trans == GX_CONJ_TRANS && (dtype == GX_C128 || dtype == GX_C64);
}

/* c (m x n) = op(a), a n x m, for m, n <= side: the square, or what is left of it at the edges. */
GX_INLINE void move_square(gx_dtype dtype, size_t bytes, bool conj, const char *a, size_t col_a,
                           char *c, size_t col_c, int64_t m, int64_t n)
{
    union {
        char bytes[SIDE_MAX * LINE];
        double align;
    } buffer;
    size_t side = LINE / bytes;
    for (int64_t i = 0; i < m; i++) {
        const char *from = a + (size_t)i * col_a;
        for (int64_t j = 0; j < n; j++) {
            memcpy(buffer.bytes + ((size_t)j * side + (size_t)i) * bytes, from + (size_t)j * bytes,
                   bytes);
        }
    }
    for (int64_t j = 0; j < n; j++) {
        char *column = buffer.bytes + (size_t)j * LINE;
        if (conj) {
            flip(dtype, column, m);
        }
        memcpy(c + (size_t)j * col_c, column, (size_t)m * bytes);
    }
}

/* c (m x n) = op(a) for any m, n; the two do not overlap.  col_a, col_c: bytes from column to column. */
GX_INLINE void move_panel(gx_dtype dtype, bool conj, const char *a, size_t col_a, char *c,
                          size_t col_c, int64_t m, int64_t n)
{
    size_t bytes = dtype == GX_C128 ? 16 : dtype == GX_F32 ? 4 : 8;
    int64_t side = LINE / (int64_t)bytes;
    for (int64_t j = 0; j < n; j += side) {
        for (int64_t i = 0; i < m; i += side) {
            const char *from = a + (size_t)i * col_a + (size_t)j * bytes;
            char *to = c + (size_t)j * col_c + (size_t)i * bytes;
            if (m - i >= side && n - j >= side) {
                move_square(dtype, bytes, conj, from, col_a, to, col_c, side, side);
            } else {
                move_square(dtype, bytes, conj, from, col_a, to, col_c, gx_min(side, m - i),
                            gx_min(side, n - j));
            }
        }
    }
}

GX_INLINE gx_code transpose(gx_dtype dtype, const gx_args *p, gx_err *err)
{
    (void)err;
    bool conj = is_conjugated(dtype, p->transa);
    size_t bytes = gx_dtype_bytes(dtype);
    size_t col_a = (size_t)p->lda * bytes, col_c = (size_t)p->ldc * bytes;
    for (int64_t j = 0; j < p->n; j += PANEL) {
        for (int64_t i = 0; i < p->m; i += PANEL) {
            move_panel(dtype, conj, gx_at(p->a, dtype, p->lda, j, i), col_a,
                       gx_at(p->c, dtype, p->ldc, i, j), col_c, gx_min(PANEL, p->m - i),
                       gx_min(PANEL, p->n - j));
        }
    }
    return GX_OK;
}
GX_SLOTS_DEFINE(static, move_across, transpose)

/* Without a transpose it is a copy. */
GX_INLINE gx_code transpose_or_copy(gx_kernel move, gx_kernel copy, const gx_args *p, gx_err *err)
{
    return (p->transa == GX_NO_TRANS ? copy : move)(NULL, NULL, p, err);
}

#define TRANSPOSE_SLOT(suffix)                                                                     \
    GX_SLOT_PROTOTYPE(gx_cpu_transpose, suffix)                                                    \
    {                                                                                              \
        (void)dev;                                                                                 \
        (void)queue;                                                                               \
        return transpose_or_copy(move_across_##suffix, gx_cpu_copy_##suffix, args, err);           \
    }

TRANSPOSE_SLOT(f64)
TRANSPOSE_SLOT(f32)
TRANSPOSE_SLOT(c128)
TRANSPOSE_SLOT(c64)

/* Mirror the diagonal panel c, n x n, element by element. */
GX_INLINE void mirror_diagonal(gx_dtype dtype, gx_uplo uplo, bool conj, char *c, size_t col,
                               int64_t n)
{
    size_t bytes = dtype == GX_C128 ? 16 : dtype == GX_F32 ? 4 : 8;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = j + 1; i < n; i++) {
            char *below = c + (size_t)j * col + (size_t)i * bytes;
            char *above = c + (size_t)i * col + (size_t)j * bytes;
            char *from = uplo == GX_LOWER ? below : above, *to = uplo == GX_LOWER ? above : below;
            memcpy(to, from, bytes);
            if (conj) {
                flip(dtype, to, 1);
            }
        }
    }
}

GX_INLINE gx_code symmetrize(gx_dtype dtype, const gx_args *p, gx_err *err)
{
    (void)err;
    bool conj = is_conjugated(dtype, p->transa);
    size_t col = (size_t)p->ldc * gx_dtype_bytes(dtype);
    for (int64_t j = 0; j < p->n; j += PANEL) {
        int64_t nj = gx_min(PANEL, p->n - j);
        mirror_diagonal(dtype, p->uplo, conj, gx_at(p->c, dtype, p->ldc, j, j), col, nj);
        for (int64_t i = j + PANEL; i < p->n; i += PANEL) {
            int64_t ni = gx_min(PANEL, p->n - i);
            char *below = gx_at(p->c, dtype, p->ldc, i, j);
            char *above = gx_at(p->c, dtype, p->ldc, j, i);
            if (p->uplo == GX_LOWER) {
                move_panel(dtype, conj, below, col, above, col, nj, ni);
            } else {
                move_panel(dtype, conj, above, col, below, col, ni, nj);
            }
        }
    }
    return GX_OK;
}
GX_SLOTS_DEFINE(, gx_cpu_symmetrize, symmetrize)
