/*
** Threads of gx in somebody else's process.
*/
#ifndef GX_THREAD_H
#define GX_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

/*
** Start one that is never handed a signal of the host's: what interrupts the host's thread, which
** waits for a key, must not end in ours.  False where the system refuses.  To be joined.
*/
bool gx_thread_start(pthread_t *thread, void *(*start)(void *), void *arg);

/* So many nanoseconds from now, below a second, by that clock: what pthread's timed waits take. */
struct timespec gx_deadline(clockid_t clock, long ns);

#endif
