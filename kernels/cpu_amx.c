/*
** f32 products by AMX, the matrix unit of Intel's processors since Sapphire Rapids: tiles of 16 by
** 16 f32 sums of products of bf16 numbers, at sixteen times the rate of AVX-512's f32 ones.
**
** PIECES.  A bf16 number is the upper half of an f32 one: all of its exponents, 8 of its 24 bits.
** a is split into a1 + a2 + a3, each the bf16 nearest to what is missing: exact, because each piece
** takes 8 bits and a sign.  Of the nine products of pieces
**
**     a b = a1 b3 + a1 b2 + a2 b2 + a2 b1 + a3 b1 + a1 b1  (+ a2 b3 + a3 b2 + a3 b3)
**
** the three in brackets are 2^-24 of |a b| at most, as a rule 2^-27, and left out (Henry, Tang,
** Heinecke: Leveraging the bfloat16 artificial intelligence datatype for higher-precision
** computations, 2019).  Products of pieces are exact in f32; 32 of them are added up before they
** meet the sum, so that it is rounded 6 times for 32 products, where a BLAS rounds 32 times:
** errors are smaller.
**
** RANGES.  Tiles take subnormal numbers for 0 and make NaNs of an infinity's pieces.  While a block
** is packed its largest and smallest magnitudes (but 0) are looked at.  Where sums could overflow,
** or a piece or a product that is lost could matter (is_fit), BLAS computes this part of the
** product; all of it if it is the first part.  Sums of tiles begin at 0 and are added to c by
** ordinary instructions, so c may hold whatever it likes.
**
** SHORT.  Numbers of bf16, and bytes, are one piece.  Where the caller says that all are
** (gx_args.half), the others are not made, and a step is one product, a1 b1, with the same bits.
**
** BLOCKS.  As in Goto and van de Geijn, Anatomy of high-performance matrix multiplication: NC
** columns of op(b) by KC are packed, then MC rows of op(a) by KC, which stay in the second cache;
** 32 x 32 of c are four tiles of sums, beside two tiles of each operand: 14 loads for 24 products.
** Tiles are multiplied at the unit's rate as long as nothing else is waited for.  So whatever else
** there is to do is done beside the products: the next panel of op(b) comes from the third cache,
** the sums before these are added to c.
**
** Columns of c are rows of tiles, so that a tile's rows lie in memory as c's columns do.  The unit
** wants the first operand's k along its rows, and the second's in pairs beside each other: which k
** are a pair is ours to say, and being k and k + 16 both are packed by the same instructions.
**
** Memory: packed blocks, up to 9 MiB a call, from the pool of mem.c.
*/
#include "cpu_amx.h"

#include "../core/base/mem.h"
#include "cpu.h"

#include <cblas.h>
#include <string.h>

#ifdef GX_HAS_AMX
#include <immintrin.h>
#define VECTORS "avx512f,avx512bw,avx512dq,avx512vl"
#define ON_VECTORS __attribute__((target(VECTORS)))
#define ON_UNIT __attribute__((target("amx-tile,amx-bf16," VECTORS)))
#endif

/* A tile: 16 rows of 16 words, each a f32 or two bf16 of the same row.  A step: 32 of k. */
enum { SIDE = 16, STEP = 32, TILE = SIDE * SIDE };

/* A panel: two tiles wide, its pieces 1, 2, 3 of a step after each other, two tiles each. */
enum { PANEL = 2 * SIDE, PIECES = 3, PIECE_WORDS = 2 * TILE, STEP_WORDS = PIECES * PIECE_WORDS };

/* Blocks: rows of op(a), k (of short numbers, too), columns of op(b). */
enum { MC = 256, KC = 512, SHORT_KC = PIECES * KC, NC = 2560 };

/*
** The next panel of op(b) is asked for while this one is multiplied by the MC rows: words of it in
** a step, so a line every so many of 24 products.  And columns of c that a step adds to.
*/
enum { SHARE = STEP_WORDS / (MC / PANEL), EVERY = 24 * SIDE / SHARE, LATE = PANEL / 2 };

/* The same of first pieces alone: a line beside each of its four products, and a column. */
enum { SHORT_SHARE = PIECE_WORDS / (MC / PANEL), SHORT_LATE = 4 };

typedef uint32_t word;
typedef word words __attribute__((vector_size(64)));
typedef float floats __attribute__((vector_size(64)));

// Packing -----------------------------------------------------------------------------------------

/* op(x) as lines, 32 of which are a panel, by k. */
typedef struct side {
    const float *x;
    int64_t ld;
    bool is_by_k;  /* k is contiguous: else lines are               */
    bool is_first; /* of the unit's operands: k along a tile's rows */
} side;

/* Of magnitudes, as bits: the largest, and the smallest but 0, less 1. */
typedef struct range {
    word most, least;
} range;

static const float *side_at(const side *s, int64_t line, int64_t k)
{
    return s->x + (s->is_by_k ? line * s->ld + k : k * s->ld + line);
}

/* Pieces, two tiles apart, of two squares of numbers, 16 by 16, half a step each; maybe turned. */
typedef void (*split_fn)(const float *low, const float *high, int64_t ld, bool is_turned,
                         int pieces, word *to, range *r);

static word next_piece(float *x)
{
    word bits;
    float piece;
    memcpy(&bits, x, sizeof bits);
    bits = (bits + 0x8000) & 0xffff0000; // the nearest one, away from 0 at ties
    memcpy(&piece, &bits, sizeof piece);
    *x -= piece;
    return bits;
}

static void widen(range *r, float x)
{
    word bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0x7fffffff;
    r->most = bits > r->most ? bits : r->most;
    r->least = bits - 1 < r->least ? bits - 1 : r->least;
}

static void split_in_loops(const float *low, const float *high, int64_t ld, bool is_turned,
                           int pieces, word *to, range *r)
{
    for (int i = 0; i < TILE; i++) {
        int64_t row = i / SIDE, lane = i % SIDE,
                from = is_turned ? lane * ld + row : row * ld + lane;
        float x = low[from], y = high[from];
        widen(r, x);
        widen(r, y);
        for (int p = 0; p < pieces; p++) {
            word of_x = next_piece(&x);
            to[2 * p * TILE + i] = of_x >> 16 | next_piece(&y);
        }
    }
}

#ifdef GX_HAS_AMX
/* x, 16 x 16, turned: blocks of half the side change places, then of a quarter, ... */
#define TURN(s)                                                                                    \
    for (int i = 0; i < SIDE; i++) {                                                               \
        if ((i & s) == 0) {                                                                        \
            floats a = (floats)x[i], b = (floats)x[i + s];                                         \
            x[i] = (__m512)__builtin_shufflevector(a, b, LOW_##s);                                 \
            x[i + s] = (__m512)__builtin_shufflevector(a, b, HIGH_##s);                            \
        }                                                                                          \
    }
#define LOW_8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH_8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#define LOW_4 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH_4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW_2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW_1 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH_1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31

ON_VECTORS static void turn(__m512 x[SIDE]){
#pragma GCC unroll 16
    TURN(8)
#pragma GCC unroll 16
        TURN(4)
#pragma GCC unroll 16
            TURN(2)
#pragma GCC unroll 16
                TURN(1)}

ON_VECTORS static void split_in_vectors(const float *low, const float *high, int64_t ld,
                                        bool is_turned, int pieces, word *to, range *r)
{
    const __m512i half = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32((int)0xffff0000);
    const __m512i size = _mm512_set1_epi32(0x7fffffff), one = _mm512_set1_epi32(1);
    __m512i most = _mm512_setzero_si512(), least = _mm512_set1_epi32(-1);
    __m512 x[SIDE], y[SIDE];
    if (is_turned) {
#pragma GCC unroll 16
        for (int i = 0; i < SIDE; i++) {
            x[i] = _mm512_loadu_ps(low + i * ld);
            y[i] = _mm512_loadu_ps(high + i * ld);
        }
        turn(x);
        turn(y);
    }
    for (int i = 0; i < SIDE; i++) {
        __m512 a = is_turned ? x[i] : _mm512_loadu_ps(low + i * ld);
        __m512 b = is_turned ? y[i] : _mm512_loadu_ps(high + i * ld);
        __m512i size_a = _mm512_and_si512(_mm512_castps_si512(a), size);
        __m512i size_b = _mm512_and_si512(_mm512_castps_si512(b), size);
        most = _mm512_max_epu32(most, _mm512_max_epu32(size_a, size_b));
        size_a = _mm512_min_epu32(_mm512_sub_epi32(size_a, one), _mm512_sub_epi32(size_b, one));
        least = _mm512_min_epu32(least, size_a);
#pragma GCC unroll 3
        for (int p = 0; p < PIECES && p < pieces; p++) {
            __m512i of_a = _mm512_add_epi32(_mm512_castps_si512(a), half);
            __m512i of_b = _mm512_add_epi32(_mm512_castps_si512(b), half);
            of_a = _mm512_and_si512(of_a, upper);
            of_b = _mm512_and_si512(of_b, upper);
            a = _mm512_sub_ps(a, _mm512_castsi512_ps(of_a));
            b = _mm512_sub_ps(b, _mm512_castsi512_ps(of_b));
            _mm512_store_si512(to + 2 * p * TILE + i * SIDE,
                               _mm512_or_si512(_mm512_srli_epi32(of_a, 16), of_b));
        }
    }
    r->most = (word)gx_max(r->most, _mm512_reduce_max_epu32(most));
    r->least = (word)gx_min(r->least, _mm512_reduce_min_epu32(least));
}
#endif

/* The same at an edge: lines x k of x, zeros around them. */
static void split_edge(split_fn split, const side *s, const float *x, int64_t lines, int64_t k,
                       int pieces, word *to, range *r)
{
    float room[2][SIDE][SIDE] = {0};
    for (int64_t l = 0; l < k; l++) {
        for (int64_t i = 0; i < lines; i++) {
            float value = x[s->is_by_k ? i * s->ld + l : l * s->ld + i];
            room[l / SIDE][s->is_by_k ? i : l % SIDE][s->is_by_k ? l % SIDE : i] = value;
        }
    }
    split(room[0][0], room[1][0], SIDE, s->is_by_k != s->is_first, pieces, to, r);
}

/* A tile's place in a block: line and k counted from the block's first. */
static void pack_tile(split_fn split, const side *s, const float *x, int64_t lines, int64_t k,
                      int pieces, word *to, range *r)
{
    if (lines == SIDE && k == STEP) {
        const float *high = x + (s->is_by_k ? SIDE : SIDE * s->ld);
        split(x, high, s->ld, s->is_by_k != s->is_first, pieces, to, r);
    } else {
        split_edge(split, s, x, lines, k, pieces, to, r);
    }
}

/*
** A block: panels after each other, of steps after each other.  It is gone through as its numbers
** lie: by k where k is contiguous, else by lines, so that pages and lines of the cache are used up.
*/
static range pack_block(split_fn split, const side *s, int64_t line, int64_t lines, int64_t from,
                        int64_t k, int pieces, word *to)
{
    range r = {0, UINT32_MAX};
    int64_t steps = gx_ceil_div(k, STEP), tiles = 2 * gx_ceil_div(lines, PANEL);
    for (int64_t n = 0; n < steps * tiles; n++) {
        int64_t t = s->is_by_k ? n / steps : n % tiles, at = s->is_by_k ? n % steps : n / tiles;
        int64_t there = gx_max(gx_min(lines - t * SIDE, SIDE), 0);
        const float *x = there > 0 ? side_at(s, line + t * SIDE, from + at * STEP) : NULL;
        pack_tile(split, s, x, there, gx_min(k - at * STEP, STEP), pieces,
                  to + (t / 2 * steps + at) * pieces * PIECE_WORDS + t % 2 * TILE, &r);
    }
    return r;
}

/* Powers of two: of the largest sum, and of the smallest product. */
static const int HIGHEST = 120, LOWEST = -90;

static int exponent_of(word bits)
{
    return (int)(bits >> 23) - 127; // below -126 for subnormal numbers
}

/* Whether pieces and their products can stand for the numbers. */
static bool is_fit(range x, range y, int64_t k)
{
    if (x.most == 0 || y.most == 0) { // all zeros: the other may hold anything but Inf and NaN
        return exponent_of(x.most) < HIGHEST && exponent_of(y.most) < HIGHEST;
    }
    int more = 2 + 63 - __builtin_clzll((unsigned long long)k) + 1;
    int x_low = exponent_of(x.least + 1), y_low = exponent_of(y.least + 1);
    int x_high = exponent_of(x.most), y_high = exponent_of(y.most);
    return x_high < HIGHEST && y_high < HIGHEST && x_high + y_high + more < HIGHEST &&
           x_low >= -100 && y_low >= -100 && x_low + y_low >= LOWEST;
}

// Tiles -------------------------------------------------------------------------------------------

/*
** 32 x 32 sums over a step of two panels, x the first operand: to[32 j + i] = sum x_j y_i.
** Registers 0 to 3 are sums, 4 and 5 x, 6 and 7 y.  Four products of two pieces after each other
** (OF_X, OF_Y: of another piece of x, of y, than those before), tiles of y twice in a row; what
** comes next is loaded one product early.
*/
#define PIECE(panel, p, t) ((panel) + (2 * ((p)-1) + (t)) * TILE)
#define OF_Y(LOAD, DOT, p, nth)                                                                    \
    LOAD(6, PIECE(y, p, 0))                                                                        \
    DOT(3, 5, 7, (nth)-1)                                                                          \
    DOT(0, 4, 6, nth)                                                                              \
    LOAD(7, PIECE(y, p, 1))                                                                        \
    DOT(2, 5, 6, (nth) + 1)                                                                        \
    DOT(1, 4, 7, (nth) + 2)
#define OF_X(LOAD, DOT, p, nth)                                                                    \
    LOAD(4, PIECE(x, p, 0))                                                                        \
    DOT(3, 5, 7, (nth)-1)                                                                          \
    LOAD(5, PIECE(x, p, 1))                                                                        \
    DOT(0, 4, 6, nth)                                                                              \
    DOT(2, 5, 6, (nth) + 1)                                                                        \
    DOT(1, 4, 7, (nth) + 2)
#define SUM_STEP(LOAD, DOT)                                                                        \
    LOAD(4, PIECE(x, 1, 0))                                                                        \
    LOAD(6, PIECE(y, 3, 0))                                                                        \
    LOAD(5, PIECE(x, 1, 1))                                                                        \
    DOT(0, 4, 6, 0)                                                                                \
    LOAD(7, PIECE(y, 3, 1))                                                                        \
    DOT(2, 5, 6, 1)                                                                                \
    DOT(1, 4, 7, 2)                                                                                \
    OF_Y(LOAD, DOT, 2, 4)                                                                          \
    OF_X(LOAD, DOT, 2, 8)                                                                          \
    OF_Y(LOAD, DOT, 1, 12)                                                                         \
    OF_X(LOAD, DOT, 3, 16)                                                                         \
    OF_X(LOAD, DOT, 1, 20)                                                                         \
    DOT(3, 5, 7, 23)

/* The same of first pieces alone. */
#define SHORT_STEP(LOAD, DOT)                                                                      \
    LOAD(4, PIECE(x, 1, 0))                                                                        \
    LOAD(6, PIECE(y, 1, 0))                                                                        \
    LOAD(5, PIECE(x, 1, 1))                                                                        \
    DOT(0, 4, 6, 0)                                                                                \
    LOAD(7, PIECE(y, 1, 1))                                                                        \
    DOT(2, 5, 6, 1)                                                                                \
    DOT(1, 4, 7, 2)                                                                                \
    DOT(3, 5, 7, 3)

/* Two panels whose steps are multiplied and added up; next is asked for meanwhile, SHARE a step. */
typedef struct pass {
    const word *x, *y, *next;
    int64_t steps;
    bool is_short; /* there are first pieces alone */
    float *to;
} pass;

/* Sums of a pass that wait to be added to c: c = beta c + alpha sums, but for columns that are. */
typedef struct addend {
    float *c;
    int64_t ldc;
    const float *sums;
    float alpha, beta;
    int64_t columns;
} addend;

static void add_in_loops(addend *late)
{
    for (; late->columns < PANEL; late->columns++) {
        float *c = late->c + late->columns * late->ldc;
        for (int64_t i = 0; i < PANEL; i++) {
            float sum = late->alpha * late->sums[late->columns * PANEL + i];
            c[i] = late->beta == 0 ? sum : late->beta * c[i] + sum;
        }
    }
}

/* What the registers of the unit do, in loops. */
typedef struct tiles {
    words at[8][SIDE];
} tiles;

typedef double doubles __attribute__((vector_size(128)));

/* Subnormal numbers are 0 of their sign. */
GX_INLINE void flush(floats *x)
{
    words bits = (words)*x;
    *x = (floats)(bits & ((words)((bits & 0x7f800000) != 0) | 0x80000000));
}

/* sum += x y of pieces: a product has 16 bits, so the way by a double rounds as one addition. */
GX_INLINE void multiply_add(floats *sum, double x, const doubles *y)
{
    doubles wide = __builtin_convertvector(*sum, doubles) + x * *y;
    *sum = __builtin_convertvector(wide, floats);
    flush(sum);
}

/* TDPBF16PS: even and odd k are added up apart, by fused multiply-adds, then both to the sum. */
GX_INLINE void dot(tiles *t, int sum, int a, int b)
{
    floats even[SIDE] = {{0}}, odd[SIDE] = {{0}};
    for (int k = 0; k < SIDE; k++) {
        floats low = (floats)(t->at[b][k] << 16), high = (floats)(t->at[b][k] & 0xffff0000);
        flush(&low);
        flush(&high);
        doubles y = __builtin_convertvector(low, doubles),
                z = __builtin_convertvector(high, doubles);
        for (int i = 0; i < SIDE; i++) {
            floats x = (floats)((words){0} + t->at[a][i][k]);
            floats of_even = (floats)((words)x << 16), of_odd = (floats)((words)x & 0xffff0000);
            flush(&of_even);
            flush(&of_odd);
            multiply_add(&even[i], of_even[0], &y);
            multiply_add(&odd[i], of_odd[0], &z);
        }
    }
    for (int i = 0; i < SIDE; i++) {
        floats c = (floats)t->at[sum][i], both = even[i] + odd[i];
        flush(&c);
        flush(&both);
        c += both;
        flush(&c);
        t->at[sum][i] = (words)c;
    }
}

GX_INLINE void sums_by(void (*dot_by)(tiles *t, int sum, int a, int b), const pass *p)
{
    const word *x = p->x, *y = p->y;
    tiles t;
    memset(&t, 0, sizeof t);
#define LOAD(r, from) memcpy(t.at[r], from, sizeof t.at[r]);
#define DOT(sum, a, b, nth) dot_by(&t, sum, a, b);
    for (int64_t s = 0; s < p->steps && p->is_short; s++, x += PIECE_WORDS, y += PIECE_WORDS) {
        SHORT_STEP(LOAD, DOT)
    }
    for (int64_t s = 0; s < p->steps && !p->is_short; s++, x += STEP_WORDS, y += STEP_WORDS) {
        SUM_STEP(LOAD, DOT)
    }
#undef LOAD
#undef DOT
    for (int i = 0; i < PANEL; i++) {
        for (int j = 0; j < 2; j++) {
            const words *row = &t.at[i / SIDE * 2 + j][i % SIDE];
            memcpy(p->to + i * PANEL + j * SIDE, row, sizeof *row);
        }
    }
}

static void dot_in_loops(tiles *t, int sum, int a, int b)
{
    dot(t, sum, a, b);
}

static void sums_in_loops(const pass *p, addend *late)
{
    add_in_loops(late);
    sums_by(dot_in_loops, p);
}

#ifdef GX_HAS_AMX
ON_VECTORS static void dot_in_vectors(tiles *t, int sum, int a, int b)
{
    dot(t, sum, a, b);
}

ON_VECTORS GX_INLINE void add_column(const addend *late, int64_t j)
{
    const __m512 alpha = _mm512_set1_ps(late->alpha), beta = _mm512_set1_ps(late->beta);
    float *c = late->c + j * late->ldc;
    __m512 low = _mm512_mul_ps(alpha, _mm512_load_ps(late->sums + j * PANEL));
    __m512 high = _mm512_mul_ps(alpha, _mm512_load_ps(late->sums + j * PANEL + SIDE));
    if (late->beta != 0) {
        low = _mm512_add_ps(_mm512_mul_ps(beta, _mm512_loadu_ps(c)), low);
        high = _mm512_add_ps(_mm512_mul_ps(beta, _mm512_loadu_ps(c + SIDE)), high);
    }
    _mm512_storeu_ps(c, low);
    _mm512_storeu_ps(c + SIDE, high);
}

ON_VECTORS static void add_in_vectors(addend *late)
{
    for (; late->columns < PANEL; late->columns++) {
        add_column(late, late->columns);
    }
}

static void sums_in_vectors(const pass *p, addend *late)
{
    add_in_vectors(late);
    sums_by(dot_in_vectors, p);
}

/*
** A step.  Between its products lines are asked for: four of each operand's next step, and every
** EVERY products one that is wanted later, in the second cache; and columns are added to c (late;
** NULL: none), one beside each of the first LATE products.
*/
ON_UNIT GX_INLINE void step_on_unit(const word *x, const word *y, const word *next,
                                    const addend *late)
{
#define LOAD(r, from) _tile_loadd(r, from, SIDE * sizeof(word));
#define DOT(sum, a, b, nth)                                                                        \
    _tile_dpbf16ps(sum, a, b);                                                                     \
    for (int line = 4 * (nth); line < 4 * (nth) + 4; line++) {                                     \
        __builtin_prefetch(x + STEP_WORDS + line * SIDE);                                          \
        __builtin_prefetch(y + STEP_WORDS + line * SIDE);                                          \
    }                                                                                              \
    if ((nth) % EVERY == 0) {                                                                      \
        __builtin_prefetch(next + (nth) / EVERY * SIDE, 0, 2);                                     \
    }                                                                                              \
    if (late != NULL && (nth) < LATE) {                                                            \
        add_column(late, late->columns + (nth));                                                   \
    }
    SUM_STEP(LOAD, DOT)
#undef LOAD
#undef DOT
}

/* A step of first pieces: each of its products asks for 8 lines of each operand's next step. */
ON_UNIT GX_INLINE void short_step_on_unit(const word *x, const word *y, const word *next,
                                          const addend *late)
{
#define LOAD(r, from) _tile_loadd(r, from, SIDE * sizeof(word));
#define DOT(sum, a, b, nth)                                                                        \
    _tile_dpbf16ps(sum, a, b);                                                                     \
    for (int line = 8 * (nth); line < 8 * (nth) + 8; line++) {                                     \
        __builtin_prefetch(x + PIECE_WORDS + line * SIDE);                                         \
        __builtin_prefetch(y + PIECE_WORDS + line * SIDE);                                         \
    }                                                                                              \
    __builtin_prefetch(next + (nth)*SIDE, 0, 2);                                                   \
    if (late != NULL) {                                                                            \
        add_column(late, late->columns + (nth));                                                   \
    }
    SHORT_STEP(LOAD, DOT)
#undef LOAD
#undef DOT
}

ON_UNIT static void sums_on_unit(const pass *p, addend *late)
{
    const word *x = p->x, *y = p->y, *next = p->next;
    int64_t s = 0;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (; p->is_short && s < p->steps; s++) {
        const word *at = next + s * SHORT_SHARE;
        bool adds = late->columns < PANEL;
        short_step_on_unit(x + s * PIECE_WORDS, y + s * PIECE_WORDS, at, adds ? late : NULL);
        late->columns += adds ? SHORT_LATE : 0;
    }
    for (; s < p->steps && late->columns < PANEL; s++, late->columns += LATE) {
        step_on_unit(x + s * STEP_WORDS, y + s * STEP_WORDS, next + s * SHARE, late);
    }
    add_in_vectors(late); // where there are few steps
    for (; s < p->steps; s++) {
        step_on_unit(x + s * STEP_WORDS, y + s * STEP_WORDS, next + s * SHARE, NULL);
    }
    _tile_stored(0, p->to, PANEL * sizeof *p->to);
    _tile_stored(1, p->to + SIDE, PANEL * sizeof *p->to);
    _tile_stored(2, p->to + SIDE * PANEL, PANEL * sizeof *p->to);
    _tile_stored(3, p->to + SIDE * PANEL + SIDE, PANEL * sizeof *p->to);
}

/* All registers 16 rows of 64 bytes. */
ON_UNIT static void begin_tiles(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } layout = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        layout.row_bytes[i] = SIDE * sizeof(word);
        layout.rows[i] = SIDE;
    }
    __asm__ volatile("" : : "r"(&layout) : "memory"); // gcc thinks that 8 bytes of it are read
    _tile_loadconfig(&layout);
}

ON_UNIT static void end_tiles(void)
{
    _tile_release();
}
#endif

// Products ----------------------------------------------------------------------------------------

/* How it is done. */
typedef struct tools {
    split_fn split;
    void (*sums)(const pass *p, addend *late); /* once late is added */
    void (*add)(addend *late);
} tools;

/* A product: c, or its triangle uplo, where op(b) is op(a)^T. */
typedef struct product {
    const gx_args *p;
    const tools *by;
    bool is_triangle;
    bool is_short;
    side a, b;
    word *x, *y; /* room for packed blocks of op(b), op(a) */
} product;

static int pieces_of(const product *w)
{
    return w->is_short ? 1 : PIECES;
}

/* A part of it: rows and columns of c, and which k. */
typedef struct part {
    int64_t i, m, j, n, l, k;
    float beta;
} part;

/* Rows of [i, i + m) that column j has: all, or those in the triangle. */
static void clip_rows(const product *w, int64_t j, int64_t i, int64_t m, int64_t *from, int64_t *to)
{
    *from = w->is_triangle && w->p->uplo == GX_LOWER ? gx_max(i, j) : i;
    *to = w->is_triangle && w->p->uplo == GX_UPPER ? gx_min(i + m, j + 1) : i + m;
}

/* The same of m x n of them, from (i, j) on, in the triangle. */
static void add_some(const product *w, float beta, const float *sums, int64_t i, int64_t j,
                     int64_t m, int64_t n)
{
    float alpha = (float)w->p->alpha.re;
    for (int64_t col = 0; col < n; col++, sums += PANEL) {
        float *c = (float *)w->p->c + (j + col) * w->p->ldc;
        int64_t from, to;
        clip_rows(w, j + col, i, m, &from, &to);
        for (int64_t row = from; row < to; row++) {
            float sum = alpha * sums[row - i];
            c[row] = beta == 0 ? sum : beta * c[row] + sum;
        }
    }
}

/* The packed blocks of a part. */
static void multiply_blocks(const product *w, const part *at)
{
    _Alignas(64) float sums[2][PANEL * PANEL];
    int64_t steps = gx_ceil_div(at->k, STEP), ldc = w->p->ldc;
    int64_t panel = steps * pieces_of(w) * PIECE_WORDS;
    addend late = {.ldc = ldc, .alpha = (float)w->p->alpha.re, .beta = at->beta, .columns = PANEL};
    for (int64_t j = 0; j < at->n; j += PANEL) {
        for (int64_t i = 0; i < at->m; i += PANEL) {
            int64_t row = at->i + i, col = at->j + j, from, to;
            float *c = (float *)w->p->c + col * ldc + row;
            clip_rows(w, w->p->uplo == GX_LOWER ? col : col + PANEL - 1, row, PANEL, &from, &to);
            if (from >= to) {
                continue; // outside of the triangle
            }
            bool is_all = at->m - i >= PANEL && at->n - j >= PANEL &&
                          !(w->is_triangle && row < col + PANEL && col < row + PANEL);
            for (int64_t k = 0; is_all && at->beta != 0 && k < PANEL; k++) {
                __builtin_prefetch(c + k * ldc, 0, 2);
                __builtin_prefetch(c + k * ldc + PANEL - 1, 0, 2);
            }
            pass now = {.x = w->x + j / PANEL * panel, .y = w->y + i / PANEL * panel};
            now.next = now.x + panel + i / PANEL * steps * (w->is_short ? SHORT_SHARE : SHARE);
            now.steps = steps;
            now.is_short = w->is_short;
            now.to = late.sums == sums[0] ? sums[1] : sums[0];
            w->by->sums(&now, &late);
            if (is_all) {
                late.c = c;
                late.sums = now.to;
                late.columns = 0;
            } else {
                add_some(w, at->beta, now.to, row, col, gx_min(PANEL, at->m - i),
                         gx_min(PANEL, at->n - j));
            }
        }
    }
    w->by->add(&late);
}

static CBLAS_TRANSPOSE blas_trans(gx_trans trans)
{
    return trans == GX_NO_TRANS ? CblasNoTrans : CblasTrans;
}

/* A part by BLAS, whole; nothing where it is empty. */
static void call_gemm(const product *w, const part *at)
{
    const gx_args *p = w->p;
    if (at->m > 0) {
        cblas_sgemm(CblasColMajor, blas_trans(p->transa), blas_trans(p->transb), (blasint)at->m,
                    (blasint)at->n, (blasint)at->k, (float)p->alpha.re,
                    side_at(&w->a, at->i, at->l), (blasint)p->lda, side_at(&w->b, at->j, at->l),
                    (blasint)p->ldb, at->beta, (float *)p->c + at->j * p->ldc + at->i,
                    (blasint)p->ldc);
    }
}

/* The triangle's columns of a panel, whose diagonal is in the part's rows or beside all of them. */
static void call_syrk(const product *w, const part *panel)
{
    const gx_args *p = w->p;
    part rest = *panel;
    int64_t end = panel->i + panel->m, next = panel->j + panel->n;
    if (panel->j >= panel->i && panel->j < end) {
        cblas_ssyrk(CblasColMajor, p->uplo == GX_LOWER ? CblasLower : CblasUpper,
                    blas_trans(p->transa), (blasint)panel->n, (blasint)panel->k, (float)p->alpha.re,
                    side_at(&w->a, panel->j, panel->l), (blasint)p->lda, panel->beta,
                    (float *)p->c + panel->j * p->ldc + panel->j, (blasint)p->ldc);
    }
    rest.i = p->uplo == GX_LOWER ? gx_max(panel->i, next) : panel->i;
    rest.m = (p->uplo == GX_LOWER ? end : gx_min(end, panel->j)) - rest.i;
    call_gemm(w, &rest);
}

static gx_code multiply_by_blas(const product *w, const part *at, gx_err *err)
{
    GX_TRY(gx_cpu_narrow_begin(err));
    for (int64_t j = 0; w->is_triangle && j < at->n; j += PANEL) {
        part panel = *at;
        panel.j = at->j + j;
        panel.n = gx_min(PANEL, at->n - j);
        call_syrk(w, &panel);
    }
    if (!w->is_triangle) {
        call_gemm(w, at);
    }
    gx_cpu_narrow_end();
    return GX_OK;
}

/*
** Columns and k of a part with all rows.  From where its numbers are unfit on BLAS takes over, but
** for the very first ones, which speak for the others: *is_unfit, nothing is done.
*/
static gx_code multiply_part(const product *w, const part *all, bool *is_unfit, gx_err *err)
{
    int pieces = pieces_of(w);
    range x = pack_block(w->by->split, &w->b, all->j, all->n, all->l, all->k, pieces, w->x);
    part at = *all;
    int64_t end = all->i + all->m;
    for (; at.i < end; at.i += at.m) {
        at.m = gx_min(MC, end - at.i);
        range y = pack_block(w->by->split, &w->a, at.i, at.m, at.l, at.k, pieces, w->y);
        if (!is_fit(x, y, at.k)) {
            at.m = end - at.i;
            *is_unfit = at.j == 0 && at.l == 0 && at.i == all->i;
            return *is_unfit ? GX_OK : multiply_by_blas(w, &at, err);
        }
        multiply_blocks(w, &at);
    }
    return GX_OK;
}

static gx_code multiply(const product *w, bool *is_unfit, gx_err *err)
{
    const gx_args *p = w->p;
    int64_t most = w->is_short ? SHORT_KC : KC;
    int64_t kc = gx_ceil_div(gx_ceil_div(p->k, gx_ceil_div(p->k, most)), STEP) * STEP;
    int64_t nc = gx_ceil_div(gx_ceil_div(p->n, gx_ceil_div(p->n, NC)), PANEL) * PANEL;
    for (int64_t j = 0; j < p->n; j += nc) {
        for (int64_t l = 0; l < p->k && !*is_unfit; l += kc) {
            part at = {.j = j, .n = gx_min(nc, p->n - j), .l = l, .k = gx_min(kc, p->k - l)};
            at.beta = l == 0 ? (float)p->beta.re : 1;
            // Of a triangle the rows beside these columns' part of the diagonal, in whole panels.
            at.i = w->is_triangle && p->uplo == GX_LOWER ? j : 0;
            at.m = (w->is_triangle && p->uplo == GX_UPPER ? j + at.n : p->m) - at.i;
            GX_TRY(multiply_part(w, &at, is_unfit, err));
        }
    }
    return GX_OK;
}

static gx_code multiply_by_way(gx_amx_way way, product *w, bool *is_unfit, gx_err *err)
{
    static const tools loops = {split_in_loops, sums_in_loops, add_in_loops};
    w->by = &loops;
#ifdef GX_HAS_AMX
    static const tools vectors = {split_in_vectors, sums_in_vectors, add_in_vectors};
    static const tools unit = {split_in_vectors, sums_on_unit, add_in_vectors};
    if (way == GX_AMX_UNIT) {
        w->by = &unit;
        begin_tiles();
        gx_code code = multiply(w, is_unfit, err);
        end_tiles();
        return code;
    }
    w->by = gx_cpu_amx_has_vectors() ? &vectors : &loops;
#endif
    (void)way;
    return multiply(w, is_unfit, err);
}

/* From here on mem.c asks for huge pages, which packed blocks are gone through faster on. */
static const int64_t HUGE_BYTES = (int64_t)4 << 20;

/* Words of a packed block. */
static int64_t block_words(const product *w, int64_t lines)
{
    int64_t k = gx_min(w->p->k, w->is_short ? SHORT_KC : KC);
    return gx_ceil_div(lines, PANEL) * gx_ceil_div(k, STEP) * pieces_of(w) * PIECE_WORDS;
}

gx_code gx_cpu_amx_gemm(gx_amx_way way, const gx_args *p, bool is_triangle, bool *is_unfit,
                        gx_err *err)
{
    product w = {.p = p, .is_triangle = is_triangle, .is_short = p->half == GX_DTYPE_BF16};
    int64_t of_x = block_words(&w, gx_min(p->n, NC)), of_y = block_words(&w, gx_min(p->m, MC));
    void *room;
    *is_unfit = false;
    int64_t bytes = (of_x + of_y) * (int64_t)sizeof(word);
    bytes = bytes > HUGE_BYTES / 2 ? gx_max(bytes, HUGE_BYTES) : bytes;
    GX_TRY(gx_mem_alloc(NULL, (size_t)bytes, "the packed blocks of a product", &room, err));
    w.a = (side){p->a, p->lda, p->transa != GX_NO_TRANS, false};
    w.b = (side){p->b, p->ldb, p->transb == GX_NO_TRANS, true};
    w.x = room;
    w.y = w.x + of_x;
    gx_code code = multiply_by_way(way, &w, is_unfit, err);
    gx_mem_free(NULL, room);
    return code;
}
