/*
** A result that stays in a device's memory: the blocks of one operand of a program, handed over by
** the executor when the program has run, and given back to the pool when it is dropped.
**
** The sink holds it (gx_held).  It belongs to one accelerator; when that is closed (the device has
** failed, say) the elements are lost, and reading them fails the run.  One thread makes and drops
** it; any may read.
*/
#ifndef GX_RESIDENT_H
#define GX_RESIDENT_H

#include "../mat/mat.h"
#include "accel.h"

/*
** Make room for what the sink is to hold: buffers of slot_bytes each as the pool lends them, one a
** block, none there yet.  What it held before is freed.  Fails the run where there is no memory for
** the list.
*/
void gx_resident_begin(gx_sink *sink, gx_accel *accel, int64_t block_rows, int64_t block_cols,
                       size_t slot_bytes);

/* Hand over the buffer of a block, packed: 0 is (0, 0), then down the columns. */
void gx_resident_put(gx_sink *sink, int64_t block, void *buffer);

/* The accelerator is about to be closed: give everything back that is still on it. */
void gx_resident_lose(gx_accel *accel);

#endif
