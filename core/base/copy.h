/*
** Copies past the caches, of what this thread does not look at again: another thread, a device or
** the kernel reads it, and would have to find it in this processor's cache, or what is there now is
** worth more.
*/
#ifndef GX_COPY_H
#define GX_COPY_H

#include <stddef.h>

/* What is as large as this, a second-level cache, is better written past it by who makes it. */
enum { GX_PAST_BYTES = 1 << 20 };

/*
** As memcpy(): whole cache lines of `to` go to the memory, without being read before.  Others may
** look at them after gx_copy_past_end(), once for any number of copies.
*/
void gx_copy_past(void *to, const void *from, size_t bytes);
void gx_copy_past_end(void);

#endif
