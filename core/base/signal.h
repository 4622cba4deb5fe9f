/*
** A signal that ends a statement, for languages whose signal handlers wait until C code returns.
*/
#ifndef GX_SIGNAL_H
#define GX_SIGNAL_H

#include <pthread.h>
#include <stdbool.h>

/* As gx_signal in ext/gx.h, which says what the functions do. */
typedef struct gx_signal_watched {
    int number;
    pthread_t thread;
    int (*may_end)(void);
    int (*take)(void);
    void (*ending)(void);
    void (*again)(void);
} gx_signal_watched;

/* The first call says what is watched; false: that is another signal, or there is no such one. */
bool gx_signal_watch(const gx_signal_watched *watched);

/* Whether the statement that calls this is to end, once for each signal.  Any thread; cheap. */
bool gx_signal_ends_statement(void);

#endif
