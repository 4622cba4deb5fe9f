/*
** Memory governor: one byte budget per connection, kept by every allocation of gx.
**
** gx_mem_alloc() and gx_mem_reserve() fail with GX_BUDGET when the limit would be passed, and with
** GX_NOMEM when the system has none; nothing ever exceeds the limit.  malloc() and free() are
** called in mem.c only.  All functions may be called from any thread.
**
** Large blocks that are freed stay warm for the next one, in one pool of the process that gives way
** to whatever is asked for: mem.c says how.
*/
#ifndef GX_MEM_H
#define GX_MEM_H

#include "err.h"
#include "types.h"

typedef struct gx_mem gx_mem;

/* limit_bytes: the budget.  *mem is NULL on failure. */
gx_code gx_mem_create(size_t limit_bytes, gx_mem **mem, gx_err *err);
void gx_mem_free_all(gx_mem *mem); /* NULL is a no-op.  Everything must have been freed before. */

/*
** A block of bytes, aligned to 64, contents undefined; large blocks ask for huge pages.
** mem may be NULL: then nothing is counted.  what: names the use in the error ("block cache").
** bytes == 0 gives a valid pointer.  ptr: the address of a pointer of any type, which is filled in:
** NULL on failure.  The caller owns the block and frees it with gx_mem_free().
*/
gx_code gx_mem_alloc(gx_mem *mem, size_t bytes, const char *what, void *ptr, gx_err *err);
gx_code gx_mem_calloc(gx_mem *mem, size_t bytes, const char *what, void *ptr, gx_err *err);

/*
** Grow or shrink the block whose pointer lies at ptr (it may be NULL); contents up to the smaller
** size are kept; unchanged on failure.
*/
gx_code gx_mem_realloc(gx_mem *mem, size_t bytes, const char *what, void *ptr, gx_err *err);

/* ptr NULL is a no-op. */
void gx_mem_free(gx_mem *mem, void *ptr);

/*
** The block goes to somebody who is not counted (a result that is SQLite's now) and frees it with
** gx_mem_free(NULL, ptr): its bytes leave the budget.
*/
void gx_mem_disown(gx_mem *mem, void *ptr);

/*
** What a block holds, kept for a later call: gx_mem_keep() is gx_mem_free(), but while the block
** stands idle its contents stay, and gx_mem_claim() with an equal key gives them back, the caller's
** as after gx_mem_alloc(); NULL: they are gone, or were of other bytes, or the budget has no room.
** mem is not NULL, and a key has no padding: all of it is compared.
*/
typedef struct gx_mem_key {
    uint64_t file; /* gx_store_stamp(): which database, and its state; not 0 */
    int64_t id, generation;
    int64_t part[4]; /* which part of the matrix in which form, as who keeps it says */
} gx_mem_key;

void gx_mem_keep(gx_mem *mem, void *ptr, const gx_mem_key *key); /* ptr NULL is a no-op */
/*
** From now on gx_mem_free() of the block keeps it under the key, which lies in it; has_lent: is a
** block in use that will be kept under the key?
*/
void gx_mem_keep_freed(gx_mem *mem, void *ptr, const gx_mem_key *key);
bool gx_mem_has_lent(gx_mem *mem, const gx_mem_key *key);
void *gx_mem_claim(gx_mem *mem, const gx_mem_key *key, size_t bytes);
size_t gx_mem_keeps(const gx_mem *mem); /* bytes that may stand idle: larger is not kept */

/* Count bytes that somebody else allocates, and give them back. */
gx_code gx_mem_reserve(gx_mem *mem, size_t bytes, const char *what, gx_err *err);
void gx_mem_return(gx_mem *mem, size_t bytes);

size_t gx_mem_used(const gx_mem *mem);
size_t gx_mem_peak(const gx_mem *mem);
size_t gx_mem_limit(const gx_mem *mem);
size_t gx_mem_available(const gx_mem *mem); /* limit - used, not below 0 */
size_t gx_mem_idle(void);                   /* of the pool, for all governors */
void gx_mem_set_limit(gx_mem *mem, size_t limit_bytes);
int64_t gx_mem_ns(const gx_mem *mem); /* spent on getting and giving large blocks */
void gx_mem_reset(gx_mem *mem);       /* peak = used, ns = 0 */

/*
** malloc() and free() for the kernels of OpenBLAS that write without a look at what they got: where
** there is no memory they take turns at one spare buffer (mem_spare.c).  NULL only above a million
** elements.
*/
void *gx_spare_alloc(size_t bytes);
void gx_spare_free(void *p);

/* What a machine can give: physical memory and what is free now, in bytes. */
size_t gx_mem_physical(void);
size_t gx_mem_physical_free(void);

#endif
