/*
** Nodes of a program on the connection's device.
*/
#ifndef GX_ON_DEVICE_H
#define GX_ON_DEVICE_H

#include "values.h"

/* Fewer elements are worked on where they are, on the host where they are nowhere yet. */
enum { GX_ON_DEVICE_LEAST = 1024 };

/* Choose for the whole graph: one lane, of a device or of the host. */
void gx_on_device_choose(gx_exec *x);

/* The run has been what was chosen, as far as it is enqueued: what it takes is learnt. */
void gx_on_device_learn(gx_exec *x);

/* Is there a device that is chosen, and may the node run there?  For gx_plan. */
bool gx_on_device_may(const gx_exec *x, const gx_node *node);

/* Does it run there each time, with its operands there, without being waited for? */
bool gx_on_device_repeats(const gx_exec *x, const gx_node *node);

/* Run the node there; false: it is the host's turn (or the run has failed). */
bool gx_on_device_run(gx_exec *x, const gx_node *node);

#endif
