/*
** Memory governor: see mem.h.
**
** Each allocation carries a 64-byte header with its size, so that gx_mem_free() can give it back to
** the budget.  The budget is one atomic counter that is compared and raised in one step: threads
** never exceed the limit together, and a request that is refused never stands in another's way.
**
** Memory that is touched for the first time costs a page fault for every 4 KiB, about as much as
** ten copies of it: a result of 32 MiB waited longer for its memory than some are computed.  So
** large blocks that are freed stay, idle, in one pool of the process and serve the next request of
** about their size.  What stands idle is nobody's, and gives way to everybody:
**
**   - what a connection uses and what stands idle are within its memory_limit together: whoever
**     counts bytes lets go of what would be too much, the oldest first;
**   - no more than IDLE_SHARE of the machine's memory stands idle;
**   - the system may have the pages at any time (MADV_FREE), and does when it runs short;
**   - where the system refuses a request, all of it goes before the request is made again;
**   - with the last governor, which is the last connection's, the pool ends.
**
** A block may stand idle with what it holds, under a key, for a later call of the same governor: a
** matrix as it came from a file.  It serves no other request, and the system cannot have its pages,
** whose contents would be gone; else it gives way like the others.
*/
#include "mem.h"
#include "stats.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

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
    size_t bytes;          /* what was counted: the caller's bytes + HEADER_BYTES */
    size_t room;           /* from base on                                        */
    void *base;            /* what malloc() or aligned_alloc() returned           */
    const gx_mem_key *key; /* of gx_mem_keep_freed(), or NULL              */
    struct header *next;   /* of the governor's that are to be kept        */
} header;

struct gx_mem {
    atomic_size_t limit; /* bytes                  */
    atomic_size_t used;  /* bytes                  */
    atomic_size_t peak;  /* bytes, largest used    */
    atomic_llong ns;     /* in large blocks' coming and going */
    header *lent;        /* blocks that are kept when they are freed; under the pool's lock */
};

// Idle blocks -------------------------------------------------------------------------------------

/* So many, of so many bytes at least; a request is served by one that is little larger. */
enum { IDLE_BLOCKS = 256, IDLE_SHARE = 8, SLACK_SHARE = 8 };
static const size_t IDLE_LEAST = (size_t)1 << 20;

typedef struct idle {
    void *base;
    size_t room;
    const gx_mem *owner; /* of contents that are kept; NULL: it holds nothing */
    gx_mem_key key;
} idle;

static struct {
    pthread_mutex_t lock;    /* of block and count                       */
    idle block[IDLE_BLOCKS]; /* the one that was freed first is in front */
    int count;
    atomic_size_t bytes; /* of all                                   */
    atomic_int governors;
    atomic_size_t most; /* what may stand idle, as the latest governor that counted knows */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Under the lock: takes block k out of the list. */
static idle remove_idle(int k)
{
    idle found = pool.block[k];
    pool.count--;
    memmove(&pool.block[k], &pool.block[k + 1], (size_t)(pool.count - k) * sizeof found);
    atomic_fetch_sub(&pool.bytes, found.room);
    ASAN_UNPOISON_MEMORY_REGION(found.base, found.room);
    return found;
}

/*
** Under the lock: the block to give up where there are too many: the oldest that holds nothing,
** which the system gives again in no time, or the oldest whose contents are kept.
*/
static int find_oldest(void)
{
    int k = 0;
    while (k < pool.count && pool.block[k].owner != NULL) {
        k++;
    }
    return k < pool.count ? k : 0;
}

/* Lets go of the oldest ones, until no more than that is left. */
static void shrink_pool(size_t most)
{
    while (atomic_load(&pool.bytes) > most) {
        idle oldest = {0};
        pthread_mutex_lock(&pool.lock);
        if (pool.count > 0) {
            oldest = remove_idle(0);
        }
        pthread_mutex_unlock(&pool.lock);
        if (oldest.base == NULL) {
            return;
        }
        free(oldest.base);
    }
}

/* The block that fits best; base NULL: none does. */
static idle take_idle(size_t room)
{
    idle found = {0};
    int best = -1;
    if (room < IDLE_LEAST || atomic_load(&pool.bytes) < room) {
        return found;
    }
    pthread_mutex_lock(&pool.lock);
    for (int k = pool.count - 1; k >= 0; k--) {
        size_t has = pool.block[k].room;
        bool fits = pool.block[k].owner == NULL && has >= room && has - room <= room / SLACK_SHARE;
        best = fits && (best < 0 || has < pool.block[best].room) ? k : best;
    }
    if (best >= 0) {
        found = remove_idle(best);
    }
    pthread_mutex_unlock(&pool.lock);
    return found;
}

/* Under the lock: the block that the governor keeps under the key; -1: there is none. */
static int find_kept(const gx_mem *mem, const gx_mem_key *key)
{
    int k = pool.count - 1;
    while (k >= 0 && (pool.block[k].owner != mem ||
                      (key != NULL && memcmp(&pool.block[k].key, key, sizeof *key) != 0))) {
        k--;
    }
    return k;
}

/* The block that the governor keeps under the key, or, without one, any; base NULL: none. */
static idle take_kept(const gx_mem *mem, const gx_mem_key *key)
{
    idle found = {0};
    pthread_mutex_lock(&pool.lock);
    int k = find_kept(mem, key);
    if (k >= 0) {
        found = remove_idle(k);
    }
    pthread_mutex_unlock(&pool.lock);
    return found;
}

/* Keeps a block that nobody uses, or frees it. */
static void keep_idle(idle block)
{
    idle oldest = {0};
    if (block.room < IDLE_LEAST || block.room > atomic_load(&pool.most) ||
        atomic_load(&pool.governors) == 0) {
        free(block.base);
        return;
    }
    if (block.room >= HUGE_BYTES && block.owner == NULL) {
        (void)madvise(block.base, block.room, MADV_FREE);
    }
    pthread_mutex_lock(&pool.lock);
    if (pool.count == IDLE_BLOCKS) {
        oldest = remove_idle(find_oldest());
    }
    ASAN_POISON_MEMORY_REGION(block.base, block.room);
    pool.block[pool.count++] = block;
    atomic_fetch_add(&pool.bytes, block.room);
    pthread_mutex_unlock(&pool.lock);
    free(oldest.base);
    shrink_pool(atomic_load(&pool.most));
}

/* The governor has counted: what it uses and what stands idle keep to its limit. */
static void share_with_pool(const gx_mem *mem)
{
    size_t most = gx_mem_keeps(mem);
    atomic_store(&pool.most, most);
    shrink_pool(most);
}

// The budget --------------------------------------------------------------------------------------

gx_code gx_mem_create(size_t limit_bytes, gx_mem **mem, gx_err *err)
{
    *mem = calloc(1, sizeof **mem);
    if (*mem == NULL) {
        return gx_fail_nomem(err, sizeof **mem, "memory governor");
    }
    atomic_init(&(*mem)->limit, limit_bytes);
    atomic_fetch_add(&pool.governors, 1);
    return GX_OK;
}

void gx_mem_free_all(gx_mem *mem)
{
    for (idle own = {0}; mem != NULL && (own = take_kept(mem, NULL)).base != NULL;) {
        free(own.base);
    }
    if (mem != NULL && atomic_fetch_sub(&pool.governors, 1) == 1) {
        shrink_pool(0);
    }
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
            return gx_fail_bytes(err, GX_BUDGET, bytes,
                                 "%s needs %zu bytes but memory_limit leaves %zu of %zu: raise it "
                                 "with gx_config('memory_limit', ...)",
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

// Blocks ------------------------------------------------------------------------------------------

/* Where the system has no memory: once more, without what stands idle. */
static void *ask_system(size_t align, size_t room)
{
    void *base = align == HUGE_PAGE ? aligned_alloc(align, room) : malloc(room);
    if (base == NULL && atomic_load(&pool.bytes) > 0) {
        shrink_pool(0);
        base = align == HUGE_PAGE ? aligned_alloc(align, room) : malloc(room);
    }
    return base;
}

/* A block with room for a header and what follows it, aligned; base NULL: there is none. */
static idle take_block(size_t total)
{
    bool is_huge = total >= HUGE_BYTES;
    size_t align = is_huge ? HUGE_PAGE : HEADER_BYTES;
    size_t room = gx_round_up(total + OVERREAD_BYTES + (is_huge ? 0 : HEADER_BYTES), align);
    idle block = take_idle(room);
    if (block.base == NULL) {
        block = (idle){.base = ask_system(align, room), .room = room};
        if (is_huge && block.base != NULL) {
            (void)madvise(block.base, room, MADV_HUGEPAGE); // a hint: refused, nothing is lost
        }
    }
    return block;
}

gx_code gx_mem_alloc(gx_mem *mem, size_t bytes, const char *what, void *ptr, gx_err *err)
{
    char *data = NULL;
    memcpy(ptr, &data, sizeof data); // a pointer of any type
    if (bytes > SIZE_MAX / 2) {
        return gx_fail_nomem(err, bytes, what);
    }
    size_t total = bytes + HEADER_BYTES;
    GX_TRY(gx_mem_reserve(mem, total, what, err));
    bool is_large = mem != NULL && total >= IDLE_LEAST;
    int64_t start_ns = is_large ? gx_now_ns() : 0;
    idle block = take_block(total);
    if (block.base == NULL) {
        gx_mem_return(mem, total);
        return gx_fail_nomem(err, bytes, what);
    }
    char *start = (char *)block.base + -(uintptr_t)block.base % HEADER_BYTES;
    *(header *)(void *)start = (header){.bytes = total, .room = block.room, .base = block.base};
    data = start + HEADER_BYTES;
    memcpy(ptr, &data, sizeof data);
    if (is_large) {
        share_with_pool(mem);
        atomic_fetch_add(&mem->ns, gx_now_ns() - start_ns);
    }
    return GX_OK;
}

gx_code gx_mem_calloc(gx_mem *mem, size_t bytes, const char *what, void *ptr, gx_err *err)
{
    void *data;
    GX_TRY(gx_mem_alloc(mem, bytes, what, ptr, err));
    memcpy(&data, ptr, sizeof data);
    memset(data, 0, bytes);
    return GX_OK;
}

static header *header_of(void *ptr)
{
    return (header *)(void *)((char *)ptr - HEADER_BYTES);
}

gx_code gx_mem_realloc(gx_mem *mem, size_t bytes, const char *what, void *ptr, gx_err *err)
{
    void *grown, *old;
    GX_TRY(gx_mem_alloc(mem, bytes, what, &grown, err));
    memcpy(&old, ptr, sizeof old);
    if (old != NULL) {
        size_t old_bytes = header_of(old)->bytes - HEADER_BYTES;
        memcpy(grown, old, old_bytes < bytes ? old_bytes : bytes);
        gx_mem_free(mem, old);
    }
    memcpy(ptr, &grown, sizeof grown);
    return GX_OK;
}

/* Nobody uses it any more. */
static void put_by(gx_mem *mem, void *ptr, idle block)
{
    gx_mem_return(mem, header_of(ptr)->bytes);
    if (mem == NULL || block.room < IDLE_LEAST) {
        keep_idle(block);
        return;
    }
    int64_t start_ns = gx_now_ns();
    share_with_pool(mem);
    keep_idle(block);
    atomic_fetch_add(&mem->ns, gx_now_ns() - start_ns);
}

/* It is being freed. */
static void take_lent(gx_mem *mem, const header *block)
{
    pthread_mutex_lock(&pool.lock);
    header **at = &mem->lent;
    while (*at != NULL && *at != block) {
        at = &(*at)->next;
    }
    *at = *at == NULL ? NULL : block->next;
    pthread_mutex_unlock(&pool.lock);
}

void gx_mem_free(gx_mem *mem, void *ptr)
{
    if (ptr != NULL && mem != NULL && header_of(ptr)->key != NULL) {
        take_lent(mem, header_of(ptr));
        gx_mem_keep(mem, ptr, header_of(ptr)->key);
    } else if (ptr != NULL) {
        put_by(mem, ptr, (idle){.base = header_of(ptr)->base, .room = header_of(ptr)->room});
    }
}

void gx_mem_keep(gx_mem *mem, void *ptr, const gx_mem_key *key)
{
    if (ptr != NULL) {
        free(take_kept(mem, key).base); // the same, which another call has kept meanwhile
        put_by(mem, ptr,
               (idle){.base = header_of(ptr)->base,
                      .room = header_of(ptr)->room,
                      .owner = mem,
                      .key = *key});
    }
}

void gx_mem_keep_freed(gx_mem *mem, void *ptr, const gx_mem_key *key)
{
    header *h = header_of(ptr);
    pthread_mutex_lock(&pool.lock);
    h->key = key;
    h->next = mem->lent;
    mem->lent = h;
    pthread_mutex_unlock(&pool.lock);
}

bool gx_mem_has_lent(gx_mem *mem, const gx_mem_key *key)
{
    pthread_mutex_lock(&pool.lock);
    const header *h = mem->lent;
    while (h != NULL && memcmp(h->key, key, sizeof *key) != 0) {
        h = h->next;
    }
    pthread_mutex_unlock(&pool.lock);
    return h != NULL;
}

void *gx_mem_claim(gx_mem *mem, const gx_mem_key *key, size_t bytes)
{
    gx_err refusal = {0};
    if (gx_mem_available(mem) < bytes + HEADER_BYTES || atomic_load(&pool.bytes) == 0) {
        return NULL;
    }
    idle block = take_kept(mem, key);
    if (block.base == NULL) {
        return NULL;
    }
    char *start = (char *)block.base + -(uintptr_t)block.base % HEADER_BYTES;
    const header *h = (const header *)(void *)start;
    if (h->bytes != bytes + HEADER_BYTES ||
        gx_mem_reserve(mem, h->bytes, "what is kept", &refusal) != GX_OK) {
        free(block.base);
        return NULL;
    }
    share_with_pool(mem);
    return start + HEADER_BYTES;
}

size_t gx_mem_keeps(const gx_mem *mem)
{
    size_t left = gx_mem_available(mem), share = gx_mem_physical() / IDLE_SHARE;
    return left < share ? left : share;
}

void gx_mem_disown(gx_mem *mem, void *ptr)
{
    gx_mem_return(mem, header_of(ptr)->bytes);
}

size_t gx_mem_idle(void)
{
    return atomic_load(&pool.bytes);
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
    share_with_pool(mem);
}

void gx_mem_reset(gx_mem *mem)
{
    atomic_store(&mem->peak, atomic_load(&mem->used));
    atomic_store(&mem->ns, 0);
}

int64_t gx_mem_ns(const gx_mem *mem)
{
    return atomic_load(&mem->ns);
}

size_t gx_mem_physical(void)
{
    static atomic_size_t known; // asked once: it is a call of the system for each block otherwise
    size_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
    if (bytes == 0) {
        bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
        atomic_store_explicit(&known, bytes, memory_order_relaxed);
    }
    return bytes;
}

size_t gx_mem_physical_free(void)
{
    return (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}
