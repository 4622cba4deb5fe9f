/*
** One kernel call on buffers in memory: the one way from everything above to the host's kernels.
*/
#ifndef GX_CALL_H
#define GX_CALL_H

#include "run.h"

/*
** Fewer flops than these are done by one thread on the host: about 0.1 ms, what it costs to wake
** others, or to look at a device.
*/
enum { GX_TEAM_FLOPS = 4000000 };

/* Seconds of one thread, at a guess: enough to say how many threads it is worth starting. */
#define GX_SECONDS_OF_FLOPS(flops) (1e-4 / GX_TEAM_FLOPS * (double)(flops))
#define GX_SECONDS_OF_BYTES(bytes) (1e-10 * (double)(bytes))

/* A product of fewer takes no microsecond: it counts, but the clock is not read. */
enum { GX_CLOCK_FLOPS = 1000 };

/*
** Over the run's team, where it is worth one; pieces as the setting 'deterministic' says.
** args->work is not looked at; args->info may be NULL.  Polls, but not after a product
** below GX_CLOCK_FLOPS; returns the run's code.
*/
gx_code gx_run_call(gx_run *run, gx_kernel_id kernel, gx_number dtype, const gx_args *args);

/*
** The same over this team (NULL: alone), cut as said, on the thread that the team is of.  The
** failure is *err's, not the run's.  gx_run_device() has been called.
*/
gx_code gx_run_call_cut(gx_run *run, gx_team *team, gx_kernel_id kernel, gx_number dtype,
                        const gx_args *args, const gx_cut *cut, gx_err *err);

/*
** fn of pieces 0 .. pieces-1 by the run's team, where `work` (elements looked at) is worth one and
** there is a team; else by the caller.  What fails is the run's; the caller's thread.
*/
gx_code gx_run_pieces(gx_run *run, double work, int64_t pieces, gx_team_fn fn, void *arg);

/* How many members they are shared by: for memory of each one's own. */
int gx_run_members(gx_run *run, double work);

#endif
