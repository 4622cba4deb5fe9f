/*
** Inside the executor: what running a program on the host (exec_host.c) and on a device
** (exec_device.c) have in common (exec.c).
*/
#ifndef GX_EXEC_INT_H
#define GX_EXEC_INT_H

#include "prog_int.h"
#include "stream.h"

/* Run the program on the host.  What it comes to is in the run. */
void gx_exec_host(gx_prog *prog);

/*
** Run the program on the accelerator.  true: it has run, or the run has failed.  false: the device
** had no room for it or has failed, which gx_stats tells; nothing is lost, the program can be run
** again on the host.
*/
bool gx_exec_device(gx_prog *prog, struct gx_accel *accel, size_t device_bytes);

/*
** Make the schedule, within device_bytes of device memory (0: on the host, with what the governor
** leaves, less the schedule's own memory).  Returns the slots; 0 when the run has failed or
** device_bytes do not hold what one step needs.
*/
int64_t gx_exec_schedule(gx_prog *prog, size_t device_bytes, schedule *plan);

/* The counters of the schedule that is about to be run, and the start of progress. */
void gx_exec_count(gx_prog *prog, int64_t slots, const schedule *plan,
                   const struct gx_accel *accel);

/*
** Start the helpers for a schedule.  true: writing to one of the sinks ends their reading.
*/
bool gx_exec_stream(gx_prog *prog, const schedule *plan, gx_helper_fn fn, void *arg,
                    gx_stream **stream);

/*
** Fill dst, packed, with columns [j, j + n) of a load's block, zeros where the operand reaches past
** its source.  A spilled block comes from its own sink: by the caller's reader only.
*/
gx_code gx_exec_read(gx_run *run, const gx_opnd *op, const load *item, int64_t j, int64_t n,
                     void *dst, gx_reader *reader, gx_err *err);

/* Wait for a change, but not so long that an interrupt goes unnoticed. */
void gx_exec_wait(pthread_cond_t *changed, pthread_mutex_t *lock);

#endif
