/*
** The n-th allocation fails: the process's malloc family, defined here in front of libc's.
**
** An executable's own malloc() serves every shared library too, so SQLite's allocations,
** cJSON's, libc's own and gx's all pass here.  Each is counted while armed; the n-th returns
** NULL (once), or the n-th and all later ones (all). Blocks alive are counted always, which is
** how the harness sees a leak.  Under AddressSanitizer the calls go on to its allocator instead
** of libc's.  Threads: any; the counters are atomic.
*/
#include "fault.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#define REAL(name) __interceptor_##name
#define REAL_MEMALIGN __interceptor_memalign
#else
#define REAL(name) __libc_##name
#define REAL_MEMALIGN __libc_memalign
#endif

void *REAL(malloc)(size_t bytes);
void *REAL(calloc)(size_t count, size_t bytes);
void *REAL(realloc)(void *ptr, size_t bytes);
void REAL(free)(void *ptr);
void *REAL_MEMALIGN(size_t align, size_t bytes);

#define EXPORT __attribute__((visibility("default")))

EXPORT void *malloc(size_t bytes);
EXPORT void *calloc(size_t count, size_t bytes);
EXPORT void *realloc(void *ptr, size_t bytes);
EXPORT void free(void *ptr);
EXPORT void *aligned_alloc(size_t align, size_t bytes);
EXPORT void *memalign(size_t align, size_t bytes);
EXPORT int posix_memalign(void **out, size_t align, size_t bytes);

static _Atomic int64_t live;   /* blocks                                          */
static _Atomic int64_t events; /* allocations since armed                         */
static _Atomic int64_t first;  /* the one that fails; 0 = not armed               */
static _Atomic int64_t last;   /* the last one that fails: first, or far away     */

/* The sanitizer's own start of a thread allocates, and does not live with a refusal. */
static bool is_spared(void)
{
#ifdef __SANITIZE_ADDRESS__
    return gettid() != getpid();
#else
    return false;
#endif
}

static bool is_failing(void)
{
    int64_t from = atomic_load_explicit(&first, memory_order_relaxed);
    if (from == 0 || is_spared()) {
        return false;
    }
    int64_t number = atomic_fetch_add(&events, 1) + 1;
    return number >= from && number <= atomic_load(&last);
}

static void *count(void *ptr)
{
    if (ptr != NULL) {
        atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    }
    return ptr;
}

static void *refuse(void)
{
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t bytes)
{
    return is_failing() ? refuse() : count(REAL(malloc)(bytes));
}

void *calloc(size_t number, size_t bytes)
{
    return is_failing() ? refuse() : count(REAL(calloc)(number, bytes));
}

void *realloc(void *ptr, size_t bytes)
{
    if (is_failing()) {
        return refuse();
    }
    void *moved = REAL(realloc)(ptr, bytes);
    return ptr == NULL ? count(moved) : moved;
}

void free(void *ptr)
{
    if (ptr != NULL) {
        atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    }
    REAL(free)(ptr);
}

void *memalign(size_t align, size_t bytes)
{
    return is_failing() ? refuse() : count(REAL_MEMALIGN(align, bytes));
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
    *out = memalign(align, bytes);
    return *out == NULL ? ENOMEM : 0;
}

int64_t fault_alloc_live(void)
{
    return atomic_load(&live);
}

static void arm(int64_t from, int64_t to)
{
    atomic_store(&events, 0);
    atomic_store(&last, to);
    atomic_store(&first, from);
}

static void arm_once(sqlite3 *db, int64_t n)
{
    (void)db;
    arm(n, n);
}

static void arm_all(sqlite3 *db, int64_t n)
{
    (void)db;
    arm(n, INT64_MAX);
}

static int64_t disarm(sqlite3 *db)
{
    (void)db;
    atomic_store(&first, 0);
    return atomic_load(&events);
}

static bool is_nomem(int rc)
{
    return (rc & 0xff) == SQLITE_NOMEM || rc == SQLITE_IOERR_NOMEM;
}

const fault_kind fault_alloc_once = {"alloc", arm_once, disarm, is_nomem, false};
const fault_kind fault_alloc_all = {"alloc-all", arm_all, disarm, is_nomem, false};
