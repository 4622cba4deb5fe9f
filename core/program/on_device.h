/*
** Nodes of a program on the connection's device.
*/
#ifndef GX_ON_DEVICE_H
#define GX_ON_DEVICE_H

#include "values.h"

/* Choose for the whole graph: x->accel, or NULL for the host. */
void gx_on_device_choose(gx_exec *x);

/* Run the node there; false: it is the host's turn (or the run has failed). */
bool gx_on_device_run(gx_exec *x, const gx_node *node);

#endif
