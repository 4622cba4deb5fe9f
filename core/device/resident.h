/*
** A result that stays in a device's memory: the blocks of one operand of a program, handed over by
** the executor when the program has run, and given back to the pool when it is dropped.
**
** It belongs to one accelerator; when that is closed (the device has failed, say) the elements are
** lost, and reading them fails the run.  One thread makes and drops it; any may read.
*/
#ifndef GX_RESIDENT_H
#define GX_RESIDENT_H

#include "../base/types.h"

typedef struct gx_resident gx_resident;
struct gx_accel;
struct gx_run;

/*
** Room for grid_rows x grid_cols buffers, column-major, of slot_bytes each as the pool lends them;
** all NULL.  NULL and a failed run where there is no memory for the list.
*/
gx_resident *gx_resident_create(struct gx_run *run, struct gx_accel *accel, gx_dtype dtype,
                                int64_t rows, int64_t cols, int64_t block_rows, int64_t block_cols,
                                size_t slot_bytes);
void gx_resident_free(gx_resident *r); /* the buffers go to the pool; NULL is a no-op */

/* Hand over the buffer of a block, packed: 0 is (0, 0), then down the columns. */
void gx_resident_put(gx_resident *r, int64_t block, void *buffer);

/* A gx_generate (mat.h) whose arg points to a gx_resident pointer: copied from the device. */
void gx_resident_read(const void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n, gx_dtype dtype,
                      void *dst, int64_t ld);

/* The accelerator is about to be closed: give everything back that is still on it. */
void gx_resident_lose(struct gx_accel *accel);

#endif
