/*
** Threads: see thread.h.  A thread inherits the mask of whoever makes it, so that is filled for the
** moment; a signal that comes then waits.
*/
#include "thread.h"

#include <signal.h>

bool gx_thread_start(pthread_t *thread, void *(*start)(void *), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    bool is_masked = pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
    bool is_started = pthread_create(thread, NULL, start, arg) == 0;
    if (is_masked) {
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    return is_started;
}

struct timespec gx_deadline(clockid_t clock, long ns)
{
    struct timespec until;
    clock_gettime(clock, &until);
    until.tv_nsec += ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return until;
}
