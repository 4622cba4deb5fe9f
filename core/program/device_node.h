/*
** Private to the nodes of a program that a device computes (on_device*.c): buffers, kernels,
** operands and results of the node that is enqueued, on the lane x->on.  All are no-ops in a run
** that has failed, and give NULL or false.
*/
#ifndef GX_DEVICE_NODE_H
#define GX_DEVICE_NODE_H

#include "values.h"

/* Does the device have the kernel? */
bool gx_node_offers(const gx_exec *x, gx_kernel_id kernel, gx_number dtype);

/* A buffer until the node has been enqueued; then all are given back. */
void *gx_node_take(gx_exec *x, size_t bytes);
void gx_node_give(gx_exec *x);

/* One kernel, with its workspace. */
bool gx_node_call(gx_exec *x, gx_kernel_id kernel, gx_number dtype, gx_args *args);

/* Input k there, as dtype. */
const void *gx_node_input(gx_exec *x, const gx_node *node, int k, gx_number dtype);

/* A buffer for the result, which becomes it. */
void *gx_node_result(gx_exec *x, const gx_node *node);

#endif
