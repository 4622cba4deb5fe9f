/*
** Bits that differ on the CPU: GX_HAMMING.
**
** A block of some vectors of rows meets the bytes of a query, a column of the block at a time: what
** of both differs is counted for each byte, and the counts of FEW columns, which a byte still
** holds, go to the sums together.  Bytes are counted by halves, looked up (vpshufb), or by one
** instruction (vpopcntb of AVX-512 BITALG); elsewhere by adding up neighbouring bits.
*/
#include "cpu.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

/* Columns whose counts, 8 each, a byte holds; vectors of a block. */
enum { FEW = 31, VECTORS = 8 };

/*
** Vectors of BYTES bytes.  The last rows of all lie in `spare`, with zeros behind them.
*/
#define DEFINE_HAMMING(name, vec, BYTES, attribute, count_of)                                      \
    typedef vec loose_##name __attribute__((aligned(1), may_alias));                               \
                                                                                                   \
    attribute static void block_##name(const uint8_t *a, int64_t lda, const uint8_t *b, int64_t k, \
                                       int64_t rows, int32_t *c)                                   \
    {                                                                                              \
        uint8_t sums[VECTORS * BYTES];                                                             \
        vec sum[VECTORS] = {{0}};                                                                  \
        for (int64_t l = 0; l < k; l++) {                                                          \
            const loose_##name *x = (const loose_##name *)(a + l * lda);                           \
            const vec y = (vec){0} + b[l];                                                         \
            for (int v = 0; v < VECTORS; v++) {                                                    \
                sum[v] += count_of(x[v] ^ y);                                                      \
            }                                                                                      \
        }                                                                                          \
        memcpy(sums, sum, sizeof sums);                                                            \
        for (int64_t i = 0; i < rows; i++) {                                                       \
            c[i] += sums[i];                                                                       \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    attribute static void hamming_##name(const gx_args *p)                                         \
    {                                                                                              \
        enum { ROWS = VECTORS * BYTES };                                                           \
        uint8_t spare[FEW * ROWS];                                                                 \
        for (int64_t i = 0; i < p->m; i += ROWS) {                                                 \
            int64_t rows = gx_min(ROWS, p->m - i);                                                 \
            for (int64_t l = 0; l < p->k; l += FEW) {                                              \
                int64_t k = gx_min(FEW, p->k - l), lda = rows < ROWS ? ROWS : p->lda;              \
                const uint8_t *a = (const uint8_t *)p->a + l * p->lda + i;                         \
                for (int64_t t = 0; t < k && rows < ROWS; t++) {                                   \
                    memset(spare + t * ROWS + rows, 0, (size_t)(ROWS - rows));                     \
                    memcpy(spare + t * ROWS, a + t * p->lda, (size_t)rows);                        \
                }                                                                                  \
                for (int64_t j = 0; j < p->n; j++) {                                               \
                    block_##name(rows < ROWS ? spare : a, lda,                                     \
                                 (const uint8_t *)p->b + j * p->ldb + l, k, rows,                  \
                                 (int32_t *)p->c + j * p->ldc + i);                                \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

typedef uint8_t bytes_16 __attribute__((vector_size(16)));

static inline bytes_16 count_16(bytes_16 x)
{
    x -= x >> 1 & 0x55;
    x = (x & 0x33) + (x >> 2 & 0x33);
    return (x + (x >> 4)) & 0x0f;
}

DEFINE_HAMMING(plain, bytes_16, 16, , count_16)

#ifdef __x86_64__

#define ON_256 __attribute__((target("avx2")))
#define ON_512 __attribute__((target("avx512f,avx512bw,avx512bitalg")))

typedef uint8_t bytes_32 __attribute__((vector_size(32)));
typedef uint8_t bytes_64 __attribute__((vector_size(64)));

ON_256 static inline bytes_32 count_32(bytes_32 x)
{
    const __m256i bits = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1,
                                          2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m256i half = _mm256_set1_epi8(0x0f), all = (__m256i)x;
    const __m256i low = _mm256_and_si256(all, half);
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(all, 4), half);
    return (bytes_32)_mm256_add_epi8(_mm256_shuffle_epi8(bits, low),
                                     _mm256_shuffle_epi8(bits, high));
}

ON_512 static inline bytes_64 count_64(bytes_64 x)
{
    return (bytes_64)_mm512_popcnt_epi8((__m512i)x);
}

DEFINE_HAMMING(avx2, bytes_32, 32, ON_256, count_32)
DEFINE_HAMMING(avx512, bytes_64, 64, ON_512, count_64)

#endif

GX_LOOP(hamming)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512bitalg")) {
        hamming_avx512(p);
        return GX_OK;
    }
    if (__builtin_cpu_supports("avx2")) {
        hamming_avx2(p);
        return GX_OK;
    }
#endif
    hamming_plain(p);
    return GX_OK;
}
GX_SLOT_DEFINE(, gx_cpu_hamming, f32, GX_F32, hamming)
