/*
** What runs the kernels of a device that is not there, where they run one at a time (MOCK_SERIAL):
** those of preferred queues first, and no kernel is left when it has begun.
*/
#include "mock_machine.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { DEVICES_MOST = 16 };

typedef struct engine {
    bool is_busy;
    int preferred; /* that wait */
    int64_t begun;
} engine;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t is_free;
    pthread_once_t once;
    useconds_t serial_us;
    engine engine[DEVICES_MOST];
    int64_t preferred, behind, depth;
    int64_t work;
} kernels = {.lock = PTHREAD_MUTEX_INITIALIZER,
             .is_free = PTHREAD_COND_INITIALIZER,
             .once = PTHREAD_ONCE_INIT};

static void look_at_environment(void)
{
    const char *serial = getenv("MOCK_SERIAL");
    kernels.serial_us = serial == NULL ? 0 : (useconds_t)atoi(serial);
}

static void take(engine *e, bool is_preferred)
{
    int64_t before = e->begun;
    e->preferred += is_preferred;
    while (e->is_busy || (e->preferred > 0 && !is_preferred)) {
        pthread_cond_wait(&kernels.is_free, &kernels.lock);
    }
    int64_t behind = e->begun++ - before;
    e->is_busy = true;
    e->preferred -= is_preferred;
    kernels.behind = is_preferred && behind > kernels.behind ? behind : kernels.behind;
}

int mock_run_kernel(mock_action action, void *arg, bool is_preferred, int device)
{
    pthread_once(&kernels.once, look_at_environment);
    engine *e = &kernels.engine[device];
    pthread_mutex_lock(&kernels.lock);
    kernels.preferred += is_preferred;
    if (kernels.serial_us > 0) {
        take(e, is_preferred);
    }
    pthread_mutex_unlock(&kernels.lock);
    if (kernels.serial_us == 0) {
        return action(arg);
    }
    usleep(kernels.serial_us);
    int error = action(arg);
    pthread_mutex_lock(&kernels.lock);
    e->is_busy = false;
    pthread_cond_broadcast(&kernels.is_free);
    pthread_mutex_unlock(&kernels.lock);
    return error;
}

void mock_hold_kernels(int64_t count)
{
    pthread_mutex_lock(&kernels.lock);
    kernels.depth = count > kernels.depth ? count : kernels.depth;
    pthread_mutex_unlock(&kernels.lock);
}

void mock_add_work(int more)
{
    pthread_mutex_lock(&kernels.lock);
    kernels.work += more;
    pthread_cond_broadcast(&kernels.is_free);
    pthread_mutex_unlock(&kernels.lock);
}

void mock_wait_for_work(void)
{
    pthread_mutex_lock(&kernels.lock);
    while (kernels.work > 0) {
        pthread_cond_wait(&kernels.is_free, &kernels.lock);
    }
    pthread_mutex_unlock(&kernels.lock);
}

void mock_read_kernels(mock_counts *counts)
{
    pthread_mutex_lock(&kernels.lock);
    counts->preferred = kernels.preferred;
    counts->behind = kernels.behind;
    counts->depth = kernels.depth;
    pthread_mutex_unlock(&kernels.lock);
}

void mock_calm(void)
{
    pthread_mutex_lock(&kernels.lock);
    kernels.preferred = kernels.behind = kernels.depth = 0;
    pthread_mutex_unlock(&kernels.lock);
}
