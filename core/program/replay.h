/*
** Rounds of a loop that a device is given whole.
*/
#ifndef GX_REPLAY_H
#define GX_REPLAY_H

#include "values.h"

/* Run the loop's body once: now[k] is the value of its parameter k, before and after. */
typedef void (*gx_round)(gx_exec *x, const gx_node *loop, gx_val **now);

/* Rounds that a loop goes before it is worth asking: then its buffers are there. */
enum { GX_REPLAY_AFTER = 2 };

/*
** Up to `left` rounds more, by a record of one or two of them, where all of the body runs on the
** device and nothing in it is waited for; how many were done, 0: none.
*/
int64_t gx_replay_rounds(gx_exec *x, const gx_node *loop, gx_val **now, int64_t left,
                         gx_round round);

#endif
