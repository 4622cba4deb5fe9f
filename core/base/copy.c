/* Copies: see copy.h. */
#include "copy.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

void gx_copy_past(void *target, const void *source, size_t bytes)
{
    char *to = target;
    const char *from = source;
#ifdef __SSE2__
    enum { LANE = sizeof(__m128i), LINE = 64 };
    size_t head = -(uintptr_t)to % LINE;
    head = head < bytes ? head : bytes;
    memcpy(to, from, head);
    for (to += head, from += head, bytes -= head; bytes >= LINE; bytes -= LINE) {
        __m128i lane[LINE / LANE];
        memcpy(lane, from, LINE);
        for (int k = 0; k < LINE / LANE; k++) {
            _mm_stream_si128((__m128i *)(void *)to + k, lane[k]);
        }
        to += LINE;
        from += LINE;
    }
#endif
    memcpy(to, from, bytes);
}

void gx_copy_past_end(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

/* The same, element a constant where it is one of the usual ones. */
static inline void turn(size_t element, int64_t m, int64_t n, const char *from, int64_t ld_from,
                        char *to, int64_t ld_to)
{
    enum { EDGE = 32 };
    for (int64_t jb = 0; jb < n; jb += EDGE) {
        int64_t end = n - jb < EDGE ? n : jb + EDGE;
        for (int64_t ib = 0; ib < m; ib += EDGE) {
            int64_t count = m - ib < EDGE ? m - ib : EDGE;
            for (int64_t j = jb; j < end; j++) {
                char *dst = to + (size_t)(j * ld_to + ib) * element;
                const char *src = from + (size_t)(ib * ld_from + j) * element;
                for (int64_t i = 0; i < count; i++) {
                    memcpy(dst + (size_t)i * element, src + (size_t)(i * ld_from) * element,
                           element);
                }
            }
        }
    }
}

void gx_copy_turned(size_t element, int64_t m, int64_t n, const void *from, int64_t ld_from,
                    void *to, int64_t ld_to)
{
    switch (element) {
    case 1:
        turn(1, m, n, from, ld_from, to, ld_to);
        break;
    case 2:
        turn(2, m, n, from, ld_from, to, ld_to);
        break;
    case 4:
        turn(4, m, n, from, ld_from, to, ld_to);
        break;
    case 8:
        turn(8, m, n, from, ld_from, to, ld_to);
        break;
    case 16:
        turn(16, m, n, from, ld_from, to, ld_to);
        break;
    default:
        turn(element, m, n, from, ld_from, to, ld_to);
    }
}
