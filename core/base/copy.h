/*
** Copies.  Past the caches: of what this thread does not look at again.  Another thread, a device
** or the kernel reads it, and would have to find it in this processor's cache, or what is there now
** is worth more.
*/
#ifndef GX_COPY_H
#define GX_COPY_H

#include <stddef.h>
#include <stdint.h>

/* What is as large as this, a second-level cache, is better written past it by who makes it. */
enum { GX_PAST_BYTES = 1 << 20 };

/*
** As memcpy(): whole cache lines of `to` go to the memory, without being read before.  Others may
** look at them after gx_copy_past_end(), once for any number of copies.
*/
void gx_copy_past(void *to, const void *from, size_t bytes);
void gx_copy_past_end(void);

/*
** to(i, j) = from(j, i), m x n elements in `to`, of so many bytes, columns ld elements apart: in
** squares, so that both sides stay in cache.
*/
void gx_copy_turned(size_t element, int64_t m, int64_t n, const void *from, int64_t ld_from,
                    void *to, int64_t ld_to);

#endif
