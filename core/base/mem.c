/*
** Memory governor: see mem.h.
**
** Each allocation carries a 64-byte header with its size, so that gx_mem_free() can give it back to
** the budget.  The budget is one atomic counter that is compared and raised in one step: threads
** never exceed the limit together, and a request that is refused never stands in another's way.
*/
#include "mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HEADER_BYTES = 64 };

/* From here on an allocation is worth aligning to a huge page (2 MiB on x86-64 and arm64). */
static const size_t HUGE_BYTES = (size_t)4 << 20;
static const size_t HUGE_PAGE = (size_t)2 << 20;

/*
** OpenBLAS 0.3.21 reads up to 31 bytes past the end of a matrix (zgemv_n_HASWELL, inside zgesdd),
** which ends the process where the next page is nobody's.  So no block ends where its memory does.
*/
static const size_t OVERREAD_BYTES = 64;

typedef struct header {
    size_t bytes; /* what was counted: the caller's bytes + HEADER_BYTES */
    void *base;   /* what aligned_alloc() returned                      */
} header;

struct gx_mem {
    atomic_size_t limit; /* bytes                  */
    atomic_size_t used;  /* bytes                  */
    atomic_size_t peak;  /* bytes, largest used    */
};

gx_code gx_mem_create(size_t limit_bytes, gx_mem **mem, gx_err *err)
{
    *mem = calloc(1, sizeof **mem);
    if (*mem == NULL) {
        return gx_fail_nomem(err, sizeof **mem, "memory governor");
    }
    atomic_init(&(*mem)->limit, limit_bytes);
    return GX_OK;
}

void gx_mem_free_all(gx_mem *mem)
{
    free(mem);
}

static void raise_peak(gx_mem *mem, size_t used)
{
    size_t peak = atomic_load(&mem->peak);
    while (used > peak && !atomic_compare_exchange_weak(&mem->peak, &peak, used)) {
    }
}

gx_code gx_mem_reserve(gx_mem *mem, size_t bytes, const char *what, gx_err *err)
{
    if (mem == NULL) {
        return GX_OK;
    }
    size_t limit = atomic_load(&mem->limit), used = atomic_load(&mem->used);
    do {
        if (bytes > limit || used > limit - bytes) {
            return gx_fail(err, GX_BUDGET,
                           "%s needs %zu bytes but memory_limit leaves %zu of %zu: raise it with "
                           "gx_config('memory_limit', ...)",
                           what, bytes, used < limit ? limit - used : 0, limit);
        }
    } while (!atomic_compare_exchange_weak(&mem->used, &used, used + bytes));
    raise_peak(mem, used + bytes);
    return GX_OK;
}

void gx_mem_return(gx_mem *mem, size_t bytes)
{
    if (mem != NULL) {
        atomic_fetch_sub(&mem->used, bytes);
    }
}

static void *allocate(size_t total)
{
    bool is_huge = total >= HUGE_BYTES;
    size_t align = is_huge ? HUGE_PAGE : HEADER_BYTES;
    size_t rounded = (total + OVERREAD_BYTES + align - 1) / align * align;
    char *base = aligned_alloc(align, rounded);
    if (base == NULL) {
        return NULL;
    }
    if (is_huge) {
        (void)madvise(base, rounded, MADV_HUGEPAGE); // a hint: where it is refused nothing is lost
    }
    *(header *)(void *)base = (header){.bytes = total, .base = base};
    return base + HEADER_BYTES;
}

gx_code gx_mem_alloc(gx_mem *mem, size_t bytes, const char *what, void **ptr, gx_err *err)
{
    *ptr = NULL;
    if (bytes > SIZE_MAX / 2) {
        return gx_fail_nomem(err, bytes, what);
    }
    size_t total = bytes + HEADER_BYTES;
    GX_TRY(gx_mem_reserve(mem, total, what, err));
    *ptr = allocate(total);
    if (*ptr == NULL) {
        gx_mem_return(mem, total);
        return gx_fail_nomem(err, bytes, what);
    }
    return GX_OK;
}

gx_code gx_mem_calloc(gx_mem *mem, size_t bytes, const char *what, void **ptr, gx_err *err)
{
    GX_TRY(gx_mem_alloc(mem, bytes, what, ptr, err));
    memset(*ptr, 0, bytes);
    return GX_OK;
}

static header *header_of(void *ptr)
{
    return (header *)(void *)((char *)ptr - HEADER_BYTES);
}

gx_code gx_mem_realloc(gx_mem *mem, size_t bytes, const char *what, void **ptr, gx_err *err)
{
    void *grown;
    GX_TRY(gx_mem_alloc(mem, bytes, what, &grown, err));
    if (*ptr != NULL) {
        size_t old_bytes = header_of(*ptr)->bytes - HEADER_BYTES;
        memcpy(grown, *ptr, old_bytes < bytes ? old_bytes : bytes);
        gx_mem_free(mem, *ptr);
    }
    *ptr = grown;
    return GX_OK;
}

void gx_mem_free(gx_mem *mem, void *ptr)
{
    if (ptr == NULL) {
        return;
    }
    header *h = header_of(ptr);
    gx_mem_return(mem, h->bytes);
    free(h->base);
}

size_t gx_mem_used(const gx_mem *mem)
{
    return atomic_load(&mem->used);
}

size_t gx_mem_peak(const gx_mem *mem)
{
    return atomic_load(&mem->peak);
}

size_t gx_mem_limit(const gx_mem *mem)
{
    return atomic_load(&mem->limit);
}

size_t gx_mem_available(const gx_mem *mem)
{
    size_t limit = gx_mem_limit(mem), used = gx_mem_used(mem);
    return used < limit ? limit - used : 0;
}

void gx_mem_set_limit(gx_mem *mem, size_t limit_bytes)
{
    atomic_store(&mem->limit, limit_bytes);
}

void gx_mem_reset_peak(gx_mem *mem)
{
    atomic_store(&mem->peak, atomic_load(&mem->used));
}

size_t gx_mem_physical(void)
{
    return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

size_t gx_mem_physical_free(void)
{
    return (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}
