/* Copies past the caches: see copy.h. */
#include "copy.h"

#include <stdint.h>
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
