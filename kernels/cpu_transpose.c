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
** With vectors of 32 bytes no buffer is needed: as many columns as a vector has elements are turned
** in registers, and a square is written by columns, vector after vector of each.  A read from
** the memory then costs more than all the turning.
**
** So what is large is turned in strips: as many columns of the one as a cache line of the other
** has elements, read along, which the processor foresees, for BAND bytes.  Each line of the result
** is written whole and past the caches, where it would have to be read first and would take the
** place of what other threads have there.  Tiles of 8 MiB out of an array in memory, written to a
** file by another thread meanwhile, take 0.17 s a gigabyte in strips and 0.34 in squares (two
** processors, Zen 4).  What somebody copies on from the second-level cache, block by block, is
** turned in strips as well, into that cache: a block's rows are too short to be foreseen, so those
** that follow are asked for.
**
** The mirror of a triangle is the same movement within one matrix: source and destination squares
** never meet, but for those on the diagonal, which go element by element.
*/
#include "cpu.h"
#include "cpu_element.h"

#include "../core/base/copy.h"

#include <string.h>

/* Bytes: long enough for the memory to stream, short enough for a square of f32 to be 16 KiB. */
enum { RUN = 256 };

/* The longest buffer: f32, 64 columns of 65. */
enum { BUFFER = 64 * 65 * 4 };

/* Elements of a run: the side of a square. */
GX_INLINE int64_t side_of(gx_number dtype)
{
    return RUN / (int64_t)gx_number_bytes(dtype);
}

/* Negate the imaginary parts of count elements. */
GX_INLINE void flip(gx_number dtype, void *x, int64_t count)
{
    bool d = gx_number_is_double(dtype);
    for (int64_t i = 0; i < count; i++) {
        put(d, x, 2 * i + 1, -get(d, x, 2 * i + 1));
    }
}

GX_INLINE bool is_conjugated(gx_number dtype, gx_trans trans)
{
    return trans == GX_CONJ_TRANS && gx_number_is_complex(dtype);
}

/* c (m x n) = op(a), a n x m, for m, n <= side.  col_a, col_c: bytes from column to column. */
GX_INLINE void move_square(gx_number dtype, bool conj, const char *a, size_t col_a, char *c,
                           size_t col_c, int64_t m, int64_t n)
{
    union {
        char bytes[BUFFER];
        double align;
    } buffer;
    size_t bytes = gx_number_bytes(dtype), col_buffer = RUN + bytes;
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

/* Bytes: the vectors of the wide loops, of which a run has a whole number. */
enum { VECTOR = 32 };

typedef int64_t quad __attribute__((vector_size(VECTOR), aligned(4), may_alias));
typedef int32_t octet __attribute__((vector_size(VECTOR), aligned(4), may_alias));
#ifdef __clang__
typedef int32_t lined_octet __attribute__((vector_size(VECTOR), may_alias));
#endif

/* Lanes of two vectors by number, those of the second after those of the first. */
#ifdef __clang__
#define PICK(vector, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(vector, a, b, ...) __builtin_shuffle(a, b, (vector){__VA_ARGS__})
#endif

/* Write a vector; is_past: past the caches, to a multiple of VECTOR bytes. */
GX_INLINE void write_octet(bool is_past, char *to, octet x)
{
#ifdef __clang__
    if (is_past) {
        __builtin_nontemporal_store((lined_octet)x, (lined_octet *)(void *)to);
        return;
    }
#elif defined(__x86_64__)
    if (is_past) { // in words: the compiler's name for it wants AVX2 in a function that is inlined
        __asm__("vmovntdq %1, %0" : "=m"(*(octet *)to) : "x"(x));
        return;
    }
#endif
    *(octet *)to = x;
}

GX_INLINE void write_quad(bool is_past, char *to, quad x)
{
    write_octet(is_past, to, (octet)x);
}

/* What was written past the caches is there before anything that this thread does from now on. */
GX_INLINE void end_past(void)
{
#ifdef __x86_64__
    __asm__ volatile("sfence" ::: "memory");
#endif
}

/* One vector's worth of columns, for elements of 4, 8 and 16 bytes. */
GX_INLINE void turn_octets(bool is_past, const char *a, size_t col_a, char *c, size_t col_c)
{
    octet x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = *(const octet *)(a + (size_t)k * col_a);
    }
    for (int k = 0; k < 8; k += 2) {
        y[k] = PICK(octet, x[k], x[k + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        y[k + 1] = PICK(octet, x[k], x[k + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int half = 0; half < 8; half += 4) { // two plain loops, which the compiler unrolls
        for (int k = half; k < half + 2; k++) {
            x[k] = PICK(octet, y[k], y[k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            x[k + 2] = PICK(octet, y[k], y[k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
    for (int k = 0; k < 4; k++) {
        write_octet(is_past, c + (size_t)k * col_c,
                    PICK(octet, x[k], x[k + 4], 0, 1, 2, 3, 8, 9, 10, 11));
        write_octet(is_past, c + (size_t)(k + 4) * col_c,
                    PICK(octet, x[k], x[k + 4], 4, 5, 6, 7, 12, 13, 14, 15));
    }
}

GX_INLINE void turn_quads(bool is_past, const char *a, size_t col_a, char *c, size_t col_c)
{
    quad x[4], y[4];
    for (int k = 0; k < 4; k++) {
        x[k] = *(const quad *)(a + (size_t)k * col_a);
    }
    for (int k = 0; k < 4; k += 2) {
        y[k] = PICK(quad, x[k], x[k + 1], 0, 4, 2, 6);
        y[k + 1] = PICK(quad, x[k], x[k + 1], 1, 5, 3, 7);
    }
    for (int k = 0; k < 2; k++) {
        write_quad(is_past, c + (size_t)k * col_c, PICK(quad, y[k], y[k + 2], 0, 1, 4, 5));
        write_quad(is_past, c + (size_t)(k + 2) * col_c, PICK(quad, y[k], y[k + 2], 2, 3, 6, 7));
    }
}

GX_INLINE void turn_pairs(bool is_past, const char *a, size_t col_a, char *c, size_t col_c)
{
    quad x = *(const quad *)a, y = *(const quad *)(a + col_a);
    write_quad(is_past, c, PICK(quad, x, y, 0, 1, 4, 5));
    write_quad(is_past, c + col_c, PICK(quad, x, y, 2, 3, 6, 7));
}

/* As move_square(), of any size: what is left of whole vectors goes element by element. */
GX_INLINE void turn_square(gx_number dtype, bool is_past, bool conj, const char *a, size_t col_a,
                           char *c, size_t col_c, int64_t m, int64_t n)
{
    size_t bytes = gx_number_bytes(dtype);
    int64_t lanes = VECTOR / (int64_t)bytes, whole_m = m / lanes * lanes,
            whole_n = n / lanes * lanes;
    for (int64_t j = 0; j < whole_n; j += lanes) {
        for (int64_t i = 0; i < whole_m; i += lanes) {
            const char *from = a + (size_t)i * col_a + (size_t)j * bytes;
            char *to = c + (size_t)j * col_c + (size_t)i * bytes;
            if (bytes == 4) {
                turn_octets(is_past, from, col_a, to, col_c);
            } else if (bytes == 8) {
                turn_quads(is_past, from, col_a, to, col_c);
            } else {
                turn_pairs(is_past, from, col_a, to, col_c);
            }
        }
    }
    for (int64_t j = 0; j < n; j++) {
        char *column = c + (size_t)j * col_c;
        for (int64_t i = j < whole_n ? whole_m : 0; i < m; i++) {
            memcpy(column + (size_t)i * bytes, a + (size_t)i * col_a + (size_t)j * bytes, bytes);
        }
        if (conj) {
            flip(dtype, column, m);
        }
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
GX_INLINE void move_any_square(gx_number dtype, bool is_wide, bool conj, const char *a,
                               size_t col_a, char *c, size_t col_c, int64_t m, int64_t n,
                               const char *next)
{
    int64_t side = side_of(dtype);
    bool is_whole = m == side && n == side;
    if (is_whole) {
        prefetch_square(next, col_a, c, col_c, side);
    }
    if (is_wide && is_whole) {
        turn_square(dtype, false, conj, a, col_a, c, col_c, side, side);
    } else if (is_wide) {
        turn_square(dtype, false, conj, a, col_a, c, col_c, m, n);
    } else if (is_whole) {
        move_square(dtype, conj, a, col_a, c, col_c, side, side);
    } else {
        move_square(dtype, conj, a, col_a, c, col_c, m, n);
    }
}

enum {
    LINE = 64,        /* bytes of a cache line                                               */
    BAND = 8 << 10,   /* bytes of a strip's columns, before the next strip's                 */
    AHEAD = 512,      /* bytes from what is turned to what is on its way ...                 */
    LINES_AHEAD = 16, /* ... or columns of a, where only a piece of each is turned           */
    NEAR = 64 << 10,  /* bytes of what a first-level cache does not hold                     */
    FAR = 1 << 12     /* bytes from column to column, each on a page of its own              */
};

/* No conjugates, which would be read again; no line that two strips have a part of. */
GX_INLINE bool goes_past(gx_number dtype, bool conj, const gx_args *p)
{
    int64_t bytes = (int64_t)gx_number_bytes(dtype);
    return !conj && p->m * p->n * bytes >= GX_PAST_BYTES && p->m * bytes >= LINE &&
           p->n * bytes >= LINE && (uintptr_t)p->c % LINE == 0 && p->ldc * bytes % LINE == 0;
}

/* Squares of a line's elements, next to each other in a, from j to end. */
GX_INLINE void turn_strip(gx_number dtype, const gx_args *p, int64_t i, int64_t j, int64_t end)
{
    int64_t bytes = (int64_t)gx_number_bytes(dtype), strip = LINE / bytes;
    int64_t m = gx_min(strip, p->m - i);
    size_t col_a = (size_t)(p->lda * bytes), col_c = (size_t)(p->ldc * bytes);
    for (; j < end; j += strip) {
        const char *a = gx_at(p->a, dtype, p->lda, j, i);
        char *c = gx_at(p->c, dtype, p->ldc, i, j);
        if (m == strip && j + strip <= end) { // constants, so that the compiler unrolls it
            for (int64_t k = 0; k < strip; k++) {
                __builtin_prefetch(a + (size_t)k * col_a + AHEAD, 0);
            }
            turn_square(dtype, true, false, a, col_a, c, col_c, strip, strip);
        } else {
            turn_square(dtype, false, false, a, col_a, c, col_c, m, gx_min(strip, end - j));
        }
    }
}

GX_INLINE void turn_strips(gx_number dtype, const gx_args *p)
{
    int64_t bytes = (int64_t)gx_number_bytes(dtype), strip = LINE / bytes, band = BAND / bytes;
    for (int64_t j = 0; j < p->n; j += band) {
        for (int64_t i = 0; i < p->m; i += strip) {
            turn_strip(dtype, p, i, j, gx_min(p->n, j + band));
        }
    }
    end_past();
}

/* A result with room between its columns, and all of it within a second-level cache. */
GX_INLINE bool is_near_block(gx_number dtype, bool conj, const gx_args *p)
{
    int64_t bytes = (int64_t)gx_number_bytes(dtype), result = p->m * p->n * bytes;
    return !conj && p->ldc > p->m && p->ldc * bytes < FAR && result >= NEAR &&
           result < GX_PAST_BYTES;
}

/* Read along, LINES_AHEAD of them before they are needed, and written line by line. */
GX_INLINE void turn_block(gx_number dtype, const gx_args *p)
{
    int64_t bytes = (int64_t)gx_number_bytes(dtype), strip = LINE / bytes;
    size_t col_a = (size_t)(p->lda * bytes), col_c = (size_t)(p->ldc * bytes);
    for (int64_t i = 0; i < p->m; i += strip) {
        int64_t m = gx_min(strip, p->m - i);
        for (int64_t j = 0; j < p->n; j += strip) {
            const char *a = gx_at(p->a, dtype, p->lda, j, i);
            char *c = gx_at(p->c, dtype, p->ldc, i, j);
            int64_t n = gx_min(strip, p->n - j);
            for (int64_t k = 0; k < strip; k++) {
                __builtin_prefetch(a + (size_t)(k + LINES_AHEAD) * col_a, 0);
            }
            if (m == strip && n == strip) {
                turn_square(dtype, false, false, a, col_a, c, col_c, strip, strip);
            } else {
                turn_square(dtype, false, false, a, col_a, c, col_c, m, n);
            }
        }
    }
}

/* Without a transpose it is a copy. */
GX_INLINE gx_code transpose_by(gx_number dtype, bool is_wide, const gx_args *p, gx_err *err)
{
    static const gx_kernel copy[] = GX_SLOTS(gx_cpu_copy);
    if (p->transa == GX_NO_TRANS) {
        return copy[dtype](NULL, NULL, p, err);
    }
    bool conj = is_conjugated(dtype, p->transa);
    if (is_wide && goes_past(dtype, conj, p)) {
        turn_strips(dtype, p);
        return GX_OK;
    }
    if (is_wide && is_near_block(dtype, conj, p)) {
        turn_block(dtype, p);
        return GX_OK;
    }
    int64_t side = side_of(dtype);
    size_t bytes = gx_number_bytes(dtype);
    size_t col_a = (size_t)p->lda * bytes, col_c = (size_t)p->ldc * bytes;
    for (int64_t j = 0; j < p->n; j += side) {
        for (int64_t i = 0; i < p->m; i += side) {
            const char *from = gx_at(p->a, dtype, p->lda, j, i);
            const char *next = i + 2 * side <= p->m ? from + (size_t)side * col_a : NULL;
            move_any_square(dtype, is_wide, conj, from, col_a, gx_at(p->c, dtype, p->ldc, i, j),
                            col_c, gx_min(side, p->m - i), gx_min(side, p->n - j), next);
        }
    }
    return GX_OK;
}

GX_INLINE gx_code transpose_wide(gx_number dtype, const gx_args *p, gx_err *err)
{
    return transpose_by(dtype, true, p, err);
}

GX_INLINE gx_code transpose(gx_number dtype, const gx_args *p, gx_err *err)
{
    return transpose_by(dtype, false, p, err);
}
GX_WIDE_SLOTS_DEFINE(gx_cpu_transpose, transpose_wide, transpose)

/* Mirror the diagonal square c, n x n, element by element. */
GX_INLINE void mirror_diagonal(gx_number dtype, gx_uplo uplo, bool conj, char *c, size_t col,
                               int64_t n)
{
    size_t bytes = gx_number_bytes(dtype);
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

GX_INLINE gx_code symmetrize_by(gx_number dtype, bool is_wide, const gx_args *p)
{
    bool conj = is_conjugated(dtype, p->transa);
    int64_t side = side_of(dtype);
    size_t col = (size_t)p->ldc * gx_number_bytes(dtype);
    for (int64_t j = 0; j < p->n; j += side) {
        int64_t nj = gx_min(side, p->n - j);
        mirror_diagonal(dtype, p->uplo, conj, gx_at(p->c, dtype, p->ldc, j, j), col, nj);
        for (int64_t i = j + side; i < p->n; i += side) {
            int64_t ni = gx_min(side, p->n - i);
            char *below = gx_at(p->c, dtype, p->ldc, i, j);
            char *above = gx_at(p->c, dtype, p->ldc, j, i);
            if (p->uplo == GX_LOWER) {
                move_any_square(dtype, is_wide, conj, below, col, above, col, nj, ni, NULL);
            } else {
                move_any_square(dtype, is_wide, conj, above, col, below, col, ni, nj, NULL);
            }
        }
    }
    return GX_OK;
}

GX_LOOP(symmetrize_wide)
{
    return symmetrize_by(dtype, true, p);
}

GX_LOOP(symmetrize)
{
    return symmetrize_by(dtype, false, p);
}
GX_WIDE_SLOTS_DEFINE(gx_cpu_symmetrize, symmetrize_wide, symmetrize)
