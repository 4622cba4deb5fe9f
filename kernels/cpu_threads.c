/*
** The threads and buffers of gx.so's private OpenBLAS (ld --wrap; see the Makefile and
** docs/decisions/004).  No part of libgx.a: there the library is the application's.
**
** THREADS.  OpenBLAS starts its threads when its count is raised past what it has had, and again
** after a fork(), which ended them.  Where the system refuses one it goes on as if it had it, and
** waits for it for ever, or raises SIGINT.  So they are made here before it asks, as many as can be
** had; its pthread_create() is handed one that is there and waits.
**
** BUFFERS.  A call of OpenBLAS, and each of its threads, works in a buffer of 128 MiB of address
** space, mapped when there is none to spare and kept; where mmap() refuses it OpenBLAS asks again
** for ever.  So whoever calls it sees to a buffer first, which its mmap() is then handed.  Newer
** OpenBLAS wants one while it is loaded, when nobody has seen to it: where there is no address
** space it is promised one, at an address where nothing is.  The promise is kept before the first
** call.
*/
#include "cpu.h"

#include <cblas.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

// Threads -----------------------------------------------------------------------------------------

typedef void *(*start_fn)(void *);

enum { THREADS_MOST = 256 };

/* Threads that wait for what OpenBLAS would have them do; all under the lock. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread[THREADS_MOST];
    start_fn start[THREADS_MOST]; /* NULL: not handed over, or begun */
    void *arg[THREADS_MOST];
    int made, handed, begun;
    bool is_over; /* those that were not handed over end */
} hall = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* The caller of gx_cpu_set_threads(), while OpenBLAS may ask. */
static _Atomic uintptr_t asker;

static int most = 1; /* the largest count OpenBLAS has had; the gate's, as the next */
static int started;  /* its threads that run: most - 1, or 0 after a fork           */

static void *wait_in_hall(void *arg)
{
    int k = (int)(intptr_t)arg;
    pthread_mutex_lock(&hall.lock);
    while (hall.start[k] == NULL && !hall.is_over) {
        pthread_cond_wait(&hall.changed, &hall.lock);
    }
    start_fn start = hall.start[k];
    void *its_arg = hall.arg[k];
    hall.start[k] = NULL;
    hall.begun += start != NULL;
    pthread_cond_broadcast(&hall.changed);
    pthread_mutex_unlock(&hall.lock);
    return start == NULL ? NULL : start(its_arg);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, start_fn start, void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, start_fn start, void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, start_fn start, void *arg)
{
    if (atomic_load(&asker) != (uintptr_t)pthread_self()) {
        return __real_pthread_create(thread, attr, start, arg);
    }
    if (hall.handed == hall.made) {
        return EAGAIN; // more than it should ask for
    }
    pthread_mutex_lock(&hall.lock);
    int k = hall.handed++;
    *thread = hall.thread[k];
    hall.start[k] = start;
    hall.arg[k] = arg;
    pthread_cond_broadcast(&hall.changed);
    pthread_mutex_unlock(&hall.lock);
    return 0;
}

/* Make up to count threads, without the host's signals; how many there are. */
static int fill_hall(int count)
{
    sigset_t all, old;
    sigfillset(&all);
    hall.made = hall.handed = hall.begun = 0;
    hall.is_over = false;
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (hall.made < count && __real_pthread_create(&hall.thread[hall.made], NULL, wait_in_hall,
                                                      (void *)(intptr_t)hall.made) == 0) {
        hall.made++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return hall.made;
}

/* Those handed over have begun, the others end. */
static void empty_hall(void)
{
    pthread_mutex_lock(&hall.lock);
    while (hall.begun < hall.handed) {
        pthread_cond_wait(&hall.changed, &hall.lock);
    }
    hall.is_over = true;
    pthread_cond_broadcast(&hall.changed);
    pthread_mutex_unlock(&hall.lock);
    for (int k = hall.handed; k < hall.made; k++) {
        pthread_join(hall.thread[k], NULL);
    }
}

// Buffers -----------------------------------------------------------------------------------------

static struct {
    pthread_mutex_t lock;
    void *spare[THREADS_MOST]; /* mapped, and not OpenBLAS's yet */
    int spares;
    size_t bytes; /* of each */
} shelf = {.lock = PTHREAD_MUTEX_INITIALIZER, .bytes = (size_t)128 << 20};

static atomic_int buffers; /* spare ones and OpenBLAS's, which it keeps */

/* What OpenBLAS took while it was loaded, beyond one for each caller and thread; -1: it loads. */
static atomic_int taken = -1;

/* Buffers that OpenBLAS has and that are not mapped yet, but for a page; under the shelf's lock. */
static struct {
    void *at[THREADS_MOST];
    _Atomic int count;
} promised;

void *__real_mmap(void *at, size_t bytes, int access, int kind, int file, off_t offset);

static const int KIND_AT = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
static const size_t PROMISE_BYTES = 4096;

/* The place of a buffer to come, far from what the system maps; MAP_FAILED: there is none. */
static void *promise_buffer(void)
{
    const uintptr_t FIRST = (uintptr_t)1 << 44, STEP = (uintptr_t)1 << 32;
    void *got = MAP_FAILED;
    pthread_mutex_lock(&shelf.lock);
    int k = promised.count;
    if (k < THREADS_MOST) {
        void *at = (void *)(FIRST + (uintptr_t)k * STEP); // NOLINT(performance-no-int-to-ptr)
        got = __real_mmap(at, PROMISE_BYTES, PROT_NONE, KIND_AT, -1, 0);
    }
    if (got != MAP_FAILED) {
        promised.at[k] = got;
        promised.count = k + 1;
    }
    pthread_mutex_unlock(&shelf.lock);
    return got;
}

void *__wrap_mmap(void *at, size_t bytes, int access, int kind, int file, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int access, int kind, int file, off_t offset)
{
    void *got = NULL;
    pthread_mutex_lock(&shelf.lock);
    if (at == NULL && file < 0 && bytes == shelf.bytes && shelf.spares > 0) {
        got = shelf.spare[--shelf.spares];
    }
    pthread_mutex_unlock(&shelf.lock);
    if (got == NULL) {
        got = __real_mmap(at, bytes, access, kind, file, offset);
        atomic_fetch_add(&buffers, got != MAP_FAILED);
    }
    bool is_load = atomic_load(&taken) < 0;
    if (got == MAP_FAILED && is_load && at == NULL && file < 0 && bytes == shelf.bytes) {
        got = promise_buffer();
    }
    return got;
}

/* With the shelf's lock; false: there is no address space for all that were promised. */
static bool keep_promises(void)
{
    for (int k = promised.count - 1; k >= 0; k--) {
        void *at = promised.at[k];
        (void)munmap(at, PROMISE_BYTES);
        if (__real_mmap(at, shelf.bytes, PROT_READ | PROT_WRITE, KIND_AT, -1, 0) != at) {
            (void)__real_mmap(at, PROMISE_BYTES, PROT_NONE, KIND_AT, -1, 0);
            return false;
        }
        promised.count = k;
        atomic_fetch_add(&buffers, 1);
    }
    return true;
}

/* As many as wanted in all. */
static bool fill_shelf(int wanted)
{
    const int ACCESS = PROT_READ | PROT_WRITE, KIND = MAP_PRIVATE | MAP_ANONYMOUS;
    bool is_full = true;
    pthread_mutex_lock(&shelf.lock);
    is_full = keep_promises();
    while (is_full && atomic_load(&buffers) < wanted) {
        void *got = shelf.spares == THREADS_MOST
                        ? MAP_FAILED
                        : __real_mmap(NULL, shelf.bytes, ACCESS, KIND, -1, 0);
        is_full = got != MAP_FAILED;
        if (is_full) {
            shelf.spare[shelf.spares++] = got;
            atomic_fetch_add(&buffers, 1);
        }
    }
    pthread_mutex_unlock(&shelf.lock);
    return is_full;
}

bool gx_cpu_have_buffers(int callers)
{
    int wanted = atomic_load(&taken) + callers + most - 1;
    bool is_there = atomic_load(&promised.count) == 0 && atomic_load(&buffers) >= wanted;
    return is_there || fill_shelf(wanted);
}

// How many threads --------------------------------------------------------------------------------

static void forget_threads(void)
{
    started = 0;
}

static void begin(void)
{
    atomic_store(&taken, atomic_load(&buffers) + atomic_load(&promised.count));
    (void)pthread_atfork(NULL, forget_threads, forget_threads);
}

void gx_cpu_set_threads(int count)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, begin);
    count = (int)gx_min(gx_max(count, 1), THREADS_MOST);
    if (count == 1 && started < most - 1) {
        return; // it is 1 since the end of the last wide section; OpenBLAS would start them again
    }
    while (count > most && !fill_shelf(atomic_load(&taken) + count)) {
        count--;
    }
    int wanted = (int)gx_max(count, most) - 1 - started, made = fill_hall(wanted);
    if (made < wanted && started < most - 1) { // fewer than OpenBLAS will ask for: none
        count = 0;
    } else if (made < wanted) {
        count = most + made;
    }
    if (count > 0) {
        atomic_store(&asker, (uintptr_t)pthread_self());
        openblas_set_num_threads(count);
        atomic_store(&asker, 0);
        started += hall.handed;
        most = (int)gx_max(most, count);
    }
    empty_hall();
}
