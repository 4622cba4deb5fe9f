/*
** Products of whole numbers on the CPU: GX_WHOLE, 8 bits by 16 with sums of 32.
**
** A block of rows meets DEEP columns at a time.  Two columns that lie side by side become pairs of
** 16 bits, and a pair of a query's numbers is multiplied with them and added up by one instruction
** (pmaddwd, or vpdpwssd of AVX-512 VNNI): they stay in registers while all queries of a batch pass,
** whose sums stay in the first cache.  Nothing is packed: columns are read as they lie.
**
** Within a vector pairs lie in the order that unpacking leaves, by lanes of 128 bits: rows 0 to 3
** of a lane's eight in `low`, the others in `high`.  It is undone when the sums go to memory.
*/
#include "cpu.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

/* Columns of a step; queries of a batch; rows of a block at most. */
enum { DEEP = 8, PAIRS = DEEP / 2, QUERIES = 128, MOST = 32 };

/* So few queries meet all rows of WIDE columns before the next: columns are read once, in order. */
enum { FEW = 2, WIDE = 4 * DEEP, WIDE_PAIRS = WIDE / 2 };

/* No processor foretells where columns of up to so many rows go on: the next WIDE are asked for. */
enum { SHORT = 1024 };

/* Where there are no such vectors. */
static void plain(const gx_args *p)
{
    for (int64_t j = 0; j < p->n; j++) {
        int32_t *c = (int32_t *)p->c + j * p->ldc;
        for (int64_t l = 0; l < p->k; l++) {
            int32_t b = ((const int16_t *)p->b)[j * p->ldb + l];
            const uint8_t *x = (const uint8_t *)p->a + l * p->lda;
            const int8_t *y = (const int8_t *)p->a + l * p->lda;
            for (int64_t i = 0; p->from == GX_DTYPE_U8 && i < p->m; i++) {
                c[i] += x[i] * b;
            }
            for (int64_t i = 0; p->from != GX_DTYPE_U8 && i < p->m; i++) {
                c[i] += y[i] * b;
            }
        }
    }
}

#ifdef __x86_64__

/*
** Column l of a block of rows, or zeros: a whole vector.  Behind the rows is what follows them in
** the matrix, or spare where its end is near.
*/
GX_INLINE const void *column_of(const gx_args *p, int64_t i0, int64_t rows, int64_t most, int64_t l,
                                char spare[MOST])
{
    const char *at = (const char *)p->a + l * p->lda + i0;
    if (l < p->k && (rows == most || (p->k - 1 - l) * p->lda + p->m - i0 >= most)) {
        return at;
    }
    memset(spare, 0, MOST);
    if (l < p->k) {
        memcpy(spare, at, (size_t)rows);
    }
    return spare;
}

/* DEEP numbers of a query from l on, zeros behind its end. */
GX_INLINE const char *numbers_of(const gx_args *p, int64_t j, int64_t l, int16_t spare[DEEP])
{
    const int16_t *at = (const int16_t *)p->b + j * p->ldb + l;
    if (l + DEEP <= p->k) {
        return (const char *)at;
    }
    memset(spare, 0, DEEP * sizeof *spare);
    memcpy(spare, at, (size_t)(p->k - l) * sizeof *spare);
    return (const char *)spare;
}

GX_INLINE int32_t pair_at(const char *at)
{
    int32_t pair;
    memcpy(&pair, at, sizeof pair);
    return pair;
}

typedef int32_t four __attribute__((vector_size(16), aligned(4), may_alias));

/* The sums of a block and query, in lanes, to its rows. */
GX_INLINE void put_sums(const gx_args *p, int64_t i0, int64_t rows, int64_t most, int64_t j,
                        const four *low, const four *high)
{
    int32_t *c = (int32_t *)p->c + j * p->ldc + i0;
    for (int64_t i = 0; i < rows && rows < most; i++) {
        c[i] += (i % 8 < 4 ? low : high)[i / 8][i % 4];
    }
    for (int64_t i = 0; i < most && rows == most; i += 8) {
        *(four *)(c + i) += low[i / 8];
        *(four *)(c + i + 4) += high[i / 8];
    }
}

/*
** One block of ROWS rows and the queries [j0, j1).  vec: of ROWS / 2 sums; bytes_to(x): ROWS bytes
** at x as 16 bits, with their sign or not.
*/
#define DEFINE_WHOLE(name, words, vec, ROWS, zero, signed_of, unsigned_of, low_of, high_of, all,   \
                     add_product)                                                                  \
    __attribute__((target(words), always_inline)) static inline vec column_##name(bool has_sign,   \
                                                                                  const void *x)   \
    {                                                                                              \
        return has_sign ? signed_of(x) : unsigned_of(x);                                           \
    }                                                                                              \
                                                                                                   \
    __attribute__((target(words), always_inline)) static inline void block_##name(                 \
        const gx_args *p, bool has_sign, int64_t i0, int64_t rows, int64_t j0, int64_t j1,         \
        int64_t l0, int64_t l1)                                                                    \
    {                                                                                              \
        vec sum[QUERIES][2];                                                                       \
        char spare[MOST];                                                                          \
        int16_t tail[DEEP];                                                                        \
        for (int64_t j = 0; j < j1 - j0; j++) {                                                    \
            sum[j][0] = sum[j][1] = zero();                                                        \
        }                                                                                          \
        for (int64_t l = l0; l < l1; l += DEEP) {                                                  \
            vec low[PAIRS], high[PAIRS];                                                           \
            for (int t = 0; t < PAIRS; t++) {                                                      \
                vec x = column_##name(has_sign, column_of(p, i0, rows, ROWS, l + 2 * t, spare));   \
                vec y =                                                                            \
                    column_##name(has_sign, column_of(p, i0, rows, ROWS, l + 2 * t + 1, spare));   \
                low[t] = low_of(x, y);                                                             \
                high[t] = high_of(x, y);                                                           \
            }                                                                                      \
            for (int64_t j = 0; j < j1 - j0; j++) {                                                \
                const char *b = numbers_of(p, j0 + j, l, tail);                                    \
                vec lower = sum[j][0], upper = sum[j][1];                                          \
                for (int t = 0; t < PAIRS; t++) {                                                  \
                    vec both = all(pair_at(b + 4 * t));                                            \
                    lower = add_product(lower, low[t], both);                                      \
                    upper = add_product(upper, high[t], both);                                     \
                }                                                                                  \
                sum[j][0] = lower;                                                                 \
                sum[j][1] = upper;                                                                 \
            }                                                                                      \
        }                                                                                          \
        for (int64_t j = 0; j < j1 - j0; j++) {                                                    \
            put_sums(p, i0, rows, ROWS, j0 + j, (const four *)&sum[j][0],                          \
                     (const four *)&sum[j][1]);                                                    \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* One query and WIDE whole columns from l on; gives the rows that are done. */                \
    __attribute__((target(words), always_inline)) static inline int64_t columns_##name(            \
        const gx_args *p, bool has_sign, int64_t j, int64_t l)                                     \
    {                                                                                              \
        const char *a = (const char *)p->a + l * p->lda;                                           \
        const char *b = (const char *)((const int16_t *)p->b + j * p->ldb + l);                    \
        vec both[WIDE_PAIRS];                                                                      \
        for (int t = 0; t < WIDE_PAIRS; t++) {                                                     \
            both[t] = all(pair_at(b + 4 * t));                                                     \
        }                                                                                          \
        bool is_short = p->lda == p->m && p->m <= SHORT;                                           \
        int64_t i = 0;                                                                             \
        for (; i + ROWS <= p->m; i += ROWS) {                                                      \
            vec lower = zero(), upper = zero();                                                    \
            for (int64_t t = i * WIDE; t < (i + ROWS) * WIDE && is_short; t += 64) {               \
                __builtin_prefetch(a + WIDE * p->lda + t);                                         \
            }                                                                                      \
            for (int t = 0; t < WIDE_PAIRS; t++) {                                                 \
                vec x = column_##name(has_sign, a + 2 * t * p->lda + i);                           \
                vec y = column_##name(has_sign, a + (2 * t + 1) * p->lda + i);                     \
                lower = add_product(lower, low_of(x, y), both[t]);                                 \
                upper = add_product(upper, high_of(x, y), both[t]);                                \
            }                                                                                      \
            put_sums(p, i, ROWS, ROWS, j, (const four *)&lower, (const four *)&upper);             \
        }                                                                                          \
        return i;                                                                                  \
    }                                                                                              \
                                                                                                   \
    __attribute__((target(words), always_inline)) static inline void all_##name(const gx_args *p,  \
                                                                                bool has_sign)     \
    {                                                                                              \
        int64_t l = 0;                                                                             \
        for (; p->n <= FEW && l + WIDE <= p->k; l += WIDE) {                                       \
            int64_t done = 0;                                                                      \
            for (int64_t j = 0; j < p->n; j++) {                                                   \
                done = columns_##name(p, has_sign, j, l);                                          \
            }                                                                                      \
            if (done < p->m) {                                                                     \
                block_##name(p, has_sign, done, p->m - done, 0, p->n, l, l + WIDE);                \
            }                                                                                      \
        }                                                                                          \
        for (int64_t j = 0; j < p->n && l < p->k; j += QUERIES) {                                  \
            int64_t end = gx_min(p->n, j + QUERIES);                                               \
            for (int64_t i = 0; i < p->m; i += ROWS) {                                             \
                block_##name(p, has_sign, i, gx_min(ROWS, p->m - i), j, end, l, p->k);             \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    __attribute__((target(words), noinline)) static void whole_##name(const gx_args *p)            \
    {                                                                                              \
        if (p->from == GX_DTYPE_U8) {                                                              \
            all_##name(p, false);                                                                  \
        } else {                                                                                   \
            all_##name(p, true);                                                                   \
        }                                                                                          \
    }

#define LOAD_128(x) _mm_loadu_si128((const __m128i *)(x))
#define LOAD_256(x) _mm256_loadu_si256((const __m256i *)(x))
#define SIGNED_256(x) _mm256_cvtepi8_epi16(LOAD_128(x))
#define UNSIGNED_256(x) _mm256_cvtepu8_epi16(LOAD_128(x))
#define SIGNED_512(x) _mm512_cvtepi8_epi16(LOAD_256(x))
#define UNSIGNED_512(x) _mm512_cvtepu8_epi16(LOAD_256(x))
#define ADD_256(sum, x, y) _mm256_add_epi32(sum, _mm256_madd_epi16(x, y))
#define ADD_512(sum, x, y) _mm512_add_epi32(sum, _mm512_madd_epi16(x, y))

DEFINE_WHOLE(avx2, "avx2", __m256i, 16, _mm256_setzero_si256, SIGNED_256, UNSIGNED_256,
             _mm256_unpacklo_epi16, _mm256_unpackhi_epi16, _mm256_set1_epi32, ADD_256)
DEFINE_WHOLE(avx512, "avx512f,avx512bw", __m512i, 32, _mm512_setzero_si512, SIGNED_512,
             UNSIGNED_512, _mm512_unpacklo_epi16, _mm512_unpackhi_epi16, _mm512_set1_epi32, ADD_512)
DEFINE_WHOLE(vnni, "avx512f,avx512bw,avx512vnni", __m512i, 32, _mm512_setzero_si512, SIGNED_512,
             UNSIGNED_512, _mm512_unpacklo_epi16, _mm512_unpackhi_epi16, _mm512_set1_epi32,
             _mm512_dpwssd_epi32)
#endif

GX_LOOP(whole)
{
#ifdef __x86_64__
    bool is_wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    if (is_wide && __builtin_cpu_supports("avx512vnni")) {
        whole_vnni(p);
        return GX_OK;
    }
    if (is_wide) {
        whole_avx512(p);
        return GX_OK;
    }
    if (__builtin_cpu_supports("avx2")) {
        whole_avx2(p);
        return GX_OK;
    }
#endif
    plain(p);
    return GX_OK;
}
GX_SLOT_DEFINE(, gx_cpu_whole, f32, GX_F32, whole)
