/*
** Reductions of the CPU backend: sums, sums of squares, extremes, sums by row and by column.
**
** Order, and so the bits, depend on the block's shape only.  A sum runs over each column in chunks
** of CHUNK parts; a chunk is folded into LANES running sums (which the compiler keeps in vector
** registers) that are then added as a tree; the sums of the chunks are added pairwise (struct
** tree), so that the error grows with the logarithm of the count, as NumPy's does.  A block with
** nothing between its columns is one long column.  f32 parts are added up as doubles.
**
** Complex sums are sums of parts: LANES is even, so real parts fall into even lanes and imaginary
** ones into odd lanes.
**
** Sums of squares are plain: squares of doubles that overflow or all but vanish show in the
** result, and only then the block is read again with its elements scaled by a power of two.
*/
#include "cpu.h"
#include "cpu_element.h"

#include <string.h>

enum { LANES = 16, CHUNK = 1024, WIDE_LANES = 128 };

/* What is added up: the parts, their squares, or magnitudes (of elements, in even lanes). */
typedef enum term { TERM_PART, TERM_SQUARE, TERM_ABS } term;

/* The block as the loops see it: columns of elements. */
typedef struct columns {
    const char *a;
    int64_t m, n; /* one column of m n where nothing lies between the columns */
    size_t col_bytes;
} columns;

GX_INLINE columns columns_of(gx_number dtype, const gx_args *p)
{
    bool is_flat = p->lda == p->m;
    return (columns){.a = p->a,
                     .m = is_flat ? p->m * p->n : p->m,
                     .n = is_flat ? gx_min(p->n, 1) : p->n,
                     .col_bytes = (size_t)p->lda * gx_number_bytes(dtype)};
}

// Sums --------------------------------------------------------------------------------------------

/*
** Pairwise addition of a stream: level l holds the sum of 2^l chunks, where bit l of count is set.
*/
typedef struct tree {
    double re[64], im[64];
    uint64_t count;
} tree;

GX_INLINE void tree_add(tree *t, gx_scalar sum)
{
    int level = 0;
    for (; (t->count >> level & 1) != 0; level++) {
        sum.re += t->re[level];
        sum.im += t->im[level];
    }
    t->re[level] = sum.re;
    t->im[level] = sum.im;
    t->count++;
}

GX_INLINE gx_scalar tree_sum(const tree *t)
{
    gx_scalar sum = {0, 0};
    for (int level = 0; t->count >> level != 0 && level < 64; level++) {
        if ((t->count >> level & 1) != 0) {
            sum.re += t->re[level];
            sum.im += t->im[level];
        }
    }
    return sum;
}

GX_INLINE double term_of(term what, double part)
{
    return what == TERM_SQUARE ? part * part : what == TERM_ABS ? fabs(part) : part;
}

/* The terms of parts x[0 .. n-1], n <= CHUNK: even lanes in re, odd lanes in im. */
GX_INLINE gx_scalar sum_chunk(bool is_double, term what, const void *x, int64_t n)
{
    double lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int l = 0; l < LANES; l++) {
            lane[l] += term_of(what, get(is_double, x, i + l));
        }
    }
    for (int l = 0; i + l < n; l++) {
        lane[l] += term_of(what, get(is_double, x, i + l));
    }
    for (int width = LANES / 2; width >= 2; width /= 2) {
        for (int l = 0; l < width; l++) {
            lane[l] += lane[l + width];
        }
    }
    return (gx_scalar){lane[0], lane[1]};
}

/* Magnitudes of n complex elements. */
GX_INLINE gx_scalar sum_magnitudes(bool is_double, const void *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += magnitude(get_pair(is_double, x, i));
    }
    return (gx_scalar){sum, 0};
}

/* Add one column of m elements to the tree. */
GX_INLINE void add_column(gx_number dtype, term what, const char *column, int64_t m, tree *t)
{
    bool d = gx_number_is_double(dtype), is_abs = gx_number_is_complex(dtype) && what == TERM_ABS;
    int64_t parts = gx_number_is_complex(dtype) ? 2 * m : m;
    for (int64_t i = 0; i < parts; i += CHUNK) {
        const char *x = column + (size_t)i * (d ? 8 : 4);
        int64_t count = gx_min(CHUNK, parts - i);
        tree_add(t, is_abs ? sum_magnitudes(d, x, count / 2) : sum_chunk(d, what, x, count));
    }
}

/* Lanes know no elements: a real dtype's sum is the sum of all lanes. */
GX_INLINE gx_scalar finish(gx_number dtype, term what, const tree *t)
{
    gx_scalar sum = tree_sum(t);
    if (!gx_number_is_complex(dtype) || what != TERM_PART) {
        sum = (gx_scalar){sum.re + sum.im, 0};
    }
    return sum;
}

GX_INLINE gx_scalar sum_block(gx_number dtype, term what, const gx_args *p)
{
    columns x = columns_of(dtype, p);
    tree t;
    t.count = 0;
    for (int64_t j = 0; j < x.n; j++) {
        add_column(dtype, what, x.a + (size_t)j * x.col_bytes, x.m, &t);
    }
    return finish(dtype, what, &t);
}

GX_INLINE void sum_columns(gx_number dtype, const gx_args *p)
{
    size_t col_bytes = (size_t)p->lda * gx_number_bytes(dtype);
    bool is_abs = p->reduce_kind == GX_REDUCE_COL_ABS;
    for (int64_t j = 0; j < p->n; j++) {
        const char *column = (const char *)p->a + (size_t)j * col_bytes;
        tree t;
        t.count = 0;
        if (is_abs) {
            add_column(dtype, TERM_ABS, column, p->m, &t);
            p->reduce[j] = finish(dtype, TERM_ABS, &t).re;
        } else {
            add_column(dtype, TERM_PART, column, p->m, &t);
            gx_scalar sum = finish(dtype, TERM_PART, &t);
            p->reduce[2 * j] = sum.re;
            p->reduce[2 * j + 1] = sum.im;
        }
    }
}

/* Add m elements of a column to the running sums of their rows: of pairs, as pairs. */
GX_INLINE void add_to_rows(gx_number dtype, bool is_abs, const char *column, int64_t m,
                           double *rows)
{
    bool d = gx_number_is_double(dtype), pairs = gx_number_is_complex(dtype);
    for (int64_t i = 0; i < m; i++) {
        if (pairs && is_abs) {
            rows[i] += magnitude(get_pair(d, column, i));
        } else if (is_abs) {
            rows[i] += fabs(get(d, column, i));
        } else if (pairs) {
            rows[2 * i] += get(d, column, 2 * i);
            rows[2 * i + 1] += get(d, column, 2 * i + 1);
        } else {
            rows[i] += get(d, column, i);
        }
    }
}

/* CHUNK rows at a time, so that their sums stay in the first cache. */
GX_INLINE void sum_rows(gx_number dtype, const gx_args *p)
{
    double rows[2 * CHUNK];
    bool is_abs = p->reduce_kind == GX_REDUCE_ROW_ABS, pairs = gx_number_is_complex(dtype);
    int64_t width = is_abs ? 1 : 2;
    for (int64_t i = 0; i < p->m; i += CHUNK) {
        int64_t m = gx_min(CHUNK, p->m - i);
        double *out = p->reduce + i * width;
        memset(rows, 0, sizeof rows);
        for (int64_t j = 0; j < p->n; j++) {
            const char *column = gx_at(p->a, dtype, p->lda, i, j);
            if (is_abs) {
                add_to_rows(dtype, true, column, m, rows);
            } else {
                add_to_rows(dtype, false, column, m, rows);
            }
        }
        for (int64_t r = 0; r < m * width; r++) {
            out[r] = is_abs || pairs ? rows[r] : r % 2 == 0 ? rows[r / 2] : 0;
        }
    }
}

// Extremes ----------------------------------------------------------------------------------------

/* What is looked for; SIZE: the largest magnitude; PART: the largest |re| or |im|. */
typedef enum extreme { EXTREME_MIN, EXTREME_MAX, EXTREME_SIZE, EXTREME_PART } extreme;

/* The better of the two; once either is NaN, NaN. */
GX_INLINE double better(extreme what, double best, double x)
{
    bool wins = what == EXTREME_MIN ? x < best : x > best;
    return (wins | (x != x)) ? x : best; // one mask, which the vector unit can make
}

GX_INLINE double extreme_column(gx_number dtype, extreme what, const char *x, int64_t m,
                                double best)
{
    bool d = gx_number_is_double(dtype), is_abs = what == EXTREME_SIZE || what == EXTREME_PART;
    if (gx_number_is_complex(dtype) && what == EXTREME_SIZE) {
        for (int64_t i = 0; i < m; i++) {
            best = better(what, best, magnitude(get_pair(d, x, i)));
        }
        return best;
    }
    int64_t parts = gx_number_is_complex(dtype) ? 2 * m : m, i = 0;
    if (parts >= WIDE_LANES) {
        double lane[WIDE_LANES];
        for (int l = 0; l < WIDE_LANES; l++) {
            lane[l] = best;
        }
        for (; i + WIDE_LANES <= parts; i += WIDE_LANES) {
            for (int l = 0; l < WIDE_LANES; l++) {
                double part = get(d, x, i + l);
                lane[l] = better(what, lane[l], is_abs ? fabs(part) : part);
            }
        }
        for (int l = 0; l < WIDE_LANES; l++) {
            best = better(what, best, lane[l]);
        }
    }
    for (; i < parts; i++) {
        double part = get(d, x, i);
        best = better(what, best, is_abs ? fabs(part) : part);
    }
    return best;
}

/* MIN of nothing is +Inf, MAX of nothing -Inf, so that folding needs no special case. */
GX_INLINE double extreme_block(gx_number dtype, extreme what, const gx_args *p)
{
    columns x = columns_of(dtype, p);
    double best = what == EXTREME_MIN ? INFINITY : what == EXTREME_MAX ? -INFINITY : 0;
    for (int64_t j = 0; j < x.n; j++) {
        best = extreme_column(dtype, what, x.a + (size_t)j * x.col_bytes, x.m, best);
    }
    return best;
}

// Sums of squares ---------------------------------------------------------------------------------

/* The squares of the parts times factor, a power of two. */
GX_INLINE double sum_scaled_squares(gx_number dtype, const gx_args *p, double factor)
{
    columns x = columns_of(dtype, p);
    bool d = gx_number_is_double(dtype);
    int64_t parts = gx_number_is_complex(dtype) ? 2 * x.m : x.m;
    double ssq = 0;
    for (int64_t j = 0; j < x.n; j++) {
        const char *column = x.a + (size_t)j * x.col_bytes;
        double column_ssq = 0;
        for (int64_t i = 0; i < parts; i++) {
            double part = factor * get(d, column, i);
            column_ssq += part * part;
        }
        ssq += column_ssq;
    }
    return ssq;
}

/*
** Squares below 2^-1022 lose digits, each less than 2^-1074 in absolute terms: nothing next to a
** sum above 2^-900.  Squares that overflow make the sum Inf.
*/
GX_INLINE void sum_squares(gx_number dtype, const gx_args *p)
{
    double ssq = sum_block(dtype, TERM_SQUARE, p).re;
    p->reduce[0] = 1;
    p->reduce[1] = ssq;
    if (ssq != ssq || (ssq > 0x1p-900 && ssq < INFINITY)) {
        return;
    }
    double largest = extreme_block(dtype, EXTREME_PART, p);
    if (largest == 0 || !isfinite(largest)) {
        p->reduce[1] = largest;
        return;
    }
    int exponent;
    (void)frexp(largest, &exponent);
    exponent = exponent > 1000 ? 1000 : exponent < -1000 ? -1000 : exponent;
    p->reduce[0] = ldexp(1, exponent);
    p->reduce[1] = sum_scaled_squares(dtype, p, ldexp(1, -exponent));
}

// The kernel --------------------------------------------------------------------------------------

GX_INLINE gx_code reduce(gx_number dtype, const gx_args *p, gx_err *err)
{
    switch (p->reduce_kind) {
    case GX_REDUCE_SUM: {
        gx_scalar sum = sum_block(dtype, TERM_PART, p);
        p->reduce[0] = sum.re;
        p->reduce[1] = sum.im;
        return GX_OK;
    }
    case GX_REDUCE_SUMSQ:
        sum_squares(dtype, p);
        return GX_OK;
    case GX_REDUCE_MAX_ABS:
        p->reduce[0] = extreme_block(dtype, EXTREME_SIZE, p);
        return GX_OK;
    case GX_REDUCE_MIN:
    case GX_REDUCE_MAX:
        if (gx_number_is_complex(dtype)) {
            break;
        }
        p->reduce[0] = p->reduce_kind == GX_REDUCE_MIN ? extreme_block(dtype, EXTREME_MIN, p)
                                                       : extreme_block(dtype, EXTREME_MAX, p);
        return GX_OK;
    case GX_REDUCE_COL_ABS:
    case GX_REDUCE_COL_SUM:
        sum_columns(dtype, p);
        return GX_OK;
    case GX_REDUCE_ROW_ABS:
    case GX_REDUCE_ROW_SUM:
        sum_rows(dtype, p);
        return GX_OK;
    case GX_REDUCE_KIND_COUNT:
        break;
    }
    return gx_fail(err, GX_UNSUPPORTED, "complex numbers have no smallest or largest element");
}
GX_FMA_SLOTS_DEFINE(gx_cpu_reduce, reduce)
