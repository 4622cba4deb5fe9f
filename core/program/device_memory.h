/*
** A value's copy in the device's memory: made, sent, fetched, given back.
**
** All work of a lane is enqueued in its accelerator's queue of kernels, in order, so that a buffer
** that is given back may be taken again at once.  What is made, sent and waited for is the lane's
** that nodes run on now; a value knows the lane of its copy.  A failure of a device is x->fault and
** stops the run with GX_DEVICE: the program is then to be run again without it.
*/
#ifndef GX_DEVICE_MEMORY_H
#define GX_DEVICE_MEMORY_H

#include "values.h"

/* The device's failure; false. */
bool gx_device_lost(gx_exec *x, const gx_err *err);

/* What the copy of a stored operand, or of a rectangle of one, is known by in later calls; file 0:
   it cannot be kept. */
gx_block_key gx_device_key_of(gx_exec *x, const gx_mat *mat, gx_number dtype);

/* A buffer for val, uninitialised; false: lost. */
bool gx_device_val_make(gx_exec *x, gx_val *val);

/* Is val in other devices' memory alone?  Then the host has to fetch it before it is sent. */
bool gx_device_val_is_away(const gx_exec *x, const gx_val *val);

/* A copy of val's elements, where there is none yet; NULL: lost, or the run has failed. */
const void *gx_device_val_send(gx_exec *x, gx_val *val);

/*
** Copies of those of the count values that are in the database alone, read at once; the others wait
** for gx_device_val_send.  is_dealt: each is for the lane of its number.  false: lost, or the run
** has failed.
*/
bool gx_device_vals_send(gx_exec *x, gx_val *const *vals, int count, bool is_dealt);

/* The copy's elements, or those of all shares, into memory. */
bool gx_device_val_fetch(gx_exec *x, const gx_val *val, void *data, int64_t ld);

/* The copy is gone, or kept for later calls; none is a no-op. */
void gx_device_val_give(gx_exec *x, gx_val *val);

/*
** A number in the device's memory that kernels make 1 where they meet what they do not take, and
** that every wait looks at: the program is then to be run on the host.  NULL: lost.
*/
int64_t *gx_device_refused(gx_exec *x);

/* Wait for what is enqueued; what kernels leave in host memory is there. */
bool gx_device_wait(gx_exec *x);

/* The same of all the program's devices. */
bool gx_device_wait_all(gx_exec *x);

/* Before values are released and after the last node. */
void gx_device_end(gx_exec *x);

#endif
