/*
** Transposes and mirrored triangles of the CPU backend.
**
** A transpose reads one matrix along its columns and writes the other across them, so the plain
** double loop touches a new cache line, often a new page, at every step of one of the two.  Here
** elements move in squares whose columns are RUN bytes long (32 x 32 of f64): a square is read
** run by run, turned over into a buffer in the first cache, and written run by run.  The buffer's
** columns are one element longer than the square's, so that they do not all fall into the same
** cache sets; matrices whose columns are a power of two apart do, and are why there is a buffer
** at all.  Elements are moved by size, as bytes.
**
** The mirror of a triangle is the same movement within one matrix: source and destination squares
** never meet, but for those on the diagonal, which go element by element.
*/
#include "cpu.h"
#include "cpu_element.h"

#include <string.h>

/* Bytes: long enough for the memory to stream, short enough for a square of f32 to be 16 KiB. */
enum { RUN = 256 };

/* The longest buffer: f32, 64 columns of 65. */
enum { BUFFER = 64 * 65 * 4 };

/* Elements of a run: the side of a square. */
GX_INLINE int64_t side_of(gx_dtype dtype)
{
    return RUN / (int64_t)bytes_of(dtype);
}

/* Negate the imaginary parts of count elements. */
GX_INLINE void flip(gx_dtype dtype, void *x, int64_t count)
{
    bool d = has_doubles(dtype);
    for (int64_t i = 0; i < count; i++) {
        put(d, x, 2 * i + 1, -get(d, x, 2 * i + 1));
    }
}

GX_INLINE bool is_conjugated(gx_dtype dtype, gx_trans trans)
{
    return trans == GX_CONJ_TRANS && has_pairs(dtype);
}

/* c (m x n) = op(a), a n x m, for m, n <= side.  col_a, col_c: bytes from column to column. */
GX_INLINE void move_square(gx_dtype dtype, bool conj, const char *a, size_t col_a, char *c,
                           size_t col_c, int64_t m, int64_t n)
{
    union {
        char bytes[BUFFER];
        double align;
    } buffer;
    size_t bytes = bytes_of(dtype), col_buffer = RUN + bytes;
    for (int64_t i = 0; i < m; i++) {
        const char *from = a + (size_t)i * col_a;
        char *to = buffer.bytes + (size_t)i * bytes;
        for (int64_t j = 0; j < n; j++) {
            memcpy(to + (size_t)j * col_buffer, from + (size_t)j * bytes, bytes);
        }
    }
    for (int64_t j = 0; j < n; j++) {
        char *column = buffer.bytes + (size_t)j * col_buffer;
        if (conj) {
            flip(dtype, column, m);
        }
        memcpy(c + (size_t)j * col_c, column, (size_t)m * bytes);
    }
}

/*
** The runs of a square are on their way to the cache before they are needed: those that will be
** written now, and those of the next square to be read (next: NULL where there is none).  A run
** that does not begin with a cache line, as those of NumPy's arrays do not, ends in one more.
*/
GX_INLINE void prefetch_square(const char *next, size_t col_a, const char *c, size_t col_c,
                               int64_t side)
{
    for (int64_t j = 0; j < side; j++) {
        for (size_t line = 0; line <= RUN; line += 64) {
            size_t at = line < RUN ? line : RUN - 1;
            __builtin_prefetch(c + (size_t)j * col_c + at, 1);
            if (next != NULL) {
                __builtin_prefetch(next + (size_t)j * col_a + at, 0);
            }
        }
    }
}

/*
** Whole squares have constant sides, which the compiler unrolls; those at the edges are what is
** left.
*/
GX_INLINE void move_any_square(gx_dtype dtype, bool conj, const char *a, size_t col_a, char *c,
                               size_t col_c, int64_t m, int64_t n, const char *next)
{
    int64_t side = side_of(dtype);
    if (m == side && n == side) {
        prefetch_square(next, col_a, c, col_c, side);
        move_square(dtype, conj, a, col_a, c, col_c, side, side);
    } else {
        move_square(dtype, conj, a, col_a, c, col_c, m, n);
    }
}

GX_INLINE gx_code move_across(gx_dtype dtype, const gx_args *p, gx_err *err)
{
    (void)err;
    bool conj = is_conjugated(dtype, p->transa);
    int64_t side = side_of(dtype);
    size_t bytes = bytes_of(dtype);
    size_t col_a = (size_t)p->lda * bytes, col_c = (size_t)p->ldc * bytes;
    for (int64_t j = 0; j < p->n; j += side) {
        for (int64_t i = 0; i < p->m; i += side) {
            const char *from = gx_at(p->a, dtype, p->lda, j, i);
            const char *next = i + 2 * side <= p->m ? from + (size_t)side * col_a : NULL;
            move_any_square(dtype, conj, from, col_a, gx_at(p->c, dtype, p->ldc, i, j), col_c,
                            gx_min(side, p->m - i), gx_min(side, p->n - j), next);
        }
    }
    return GX_OK;
}
GX_SLOTS_DEFINE(static, move_across, move_across)

/* Without a transpose it is a copy. */
#define TRANSPOSE_SLOT(suffix)                                                                     \
    GX_SLOT_PROTOTYPE(gx_cpu_transpose, suffix)                                                    \
    {                                                                                              \
        gx_kernel kernel =                                                                         \
            args->transa == GX_NO_TRANS ? gx_cpu_copy_##suffix : move_across_##suffix;             \
        return kernel(dev, queue, args, err);                                                      \
    }

TRANSPOSE_SLOT(f64)
TRANSPOSE_SLOT(f32)
TRANSPOSE_SLOT(c128)
TRANSPOSE_SLOT(c64)

/* Mirror the diagonal square c, n x n, element by element. */
GX_INLINE void mirror_diagonal(gx_dtype dtype, gx_uplo uplo, bool conj, char *c, size_t col,
                               int64_t n)
{
    size_t bytes = bytes_of(dtype);
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
    int64_t side = side_of(dtype);
    size_t col = (size_t)p->ldc * bytes_of(dtype);
    for (int64_t j = 0; j < p->n; j += side) {
        int64_t nj = gx_min(side, p->n - j);
        mirror_diagonal(dtype, p->uplo, conj, gx_at(p->c, dtype, p->ldc, j, j), col, nj);
        for (int64_t i = j + side; i < p->n; i += side) {
            int64_t ni = gx_min(side, p->n - i);
            char *below = gx_at(p->c, dtype, p->ldc, i, j);
            char *above = gx_at(p->c, dtype, p->ldc, j, i);
            if (p->uplo == GX_LOWER) {
                move_any_square(dtype, conj, below, col, above, col, nj, ni, NULL);
            } else {
                move_any_square(dtype, conj, above, col, below, col, ni, nj, NULL);
            }
        }
    }
    return GX_OK;
}
GX_SLOTS_DEFINE(, gx_cpu_symmetrize, symmetrize)
