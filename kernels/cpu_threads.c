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
** for ever.  So whoever calls it sees to a buffer first, which its mmap() is then handed.
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

void *__real_mmap(void *at, size_t bytes, int access, int kind, int file, off_t offset);
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
    return got;
}

/* As many as wanted in all. */
static bool fill_shelf(int wanted)
{
    const int ACCESS = PROT_READ | PROT_WRITE, KIND = MAP_PRIVATE | MAP_ANONYMOUS;
    bool is_full = true;
    pthread_mutex_lock(&shelf.lock);
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
    int wanted = callers + most - 1;
    return atomic_load(&buffers) >= wanted || fill_shelf(wanted);
}

// How many threads --------------------------------------------------------------------------------

static void forget_threads(void)
{
    started = 0;
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, forget_threads, forget_threads);
}

void gx_cpu_set_threads(int count)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_forks);
    count = (int)gx_min(gx_max(count, 1), THREADS_MOST);
    if (count == 1 && started < most - 1) {
        return; // it is 1 since the end of the last wide section; OpenBLAS would start them again
    }
    while (count > most && !fill_shelf(count)) {
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
