/*
** A team of threads that share the pieces of one job.
**
** A team belongs to one SQL call: made when the first job worth it comes, joined before the call
** returns, so no thread of ours outlives a call.  The caller is member 0 and works too; a team of 1
** has no threads at all.
*/
#ifndef GX_TEAM_H
#define GX_TEAM_H

#include "../base/backend.h"
#include "../base/mem.h"

typedef struct gx_team gx_team;

/*
** One piece of a job.  member: 0 .. threads-1, who runs it.  A failure stops the remaining pieces.
*/
typedef gx_code (*gx_team_fn)(void *arg, int64_t piece, int member, gx_err *err);

/* Called by the caller's thread between pieces; a failure (GX_INTERRUPT) stops the job. */
typedef gx_code (*gx_team_poll)(void *arg, gx_err *err);

/*
** threads: at least 1, the caller included; each is started by the first job that has a piece for
** it.  Where the system refuses some the team is smaller from then on, never an error.  *team is
** owned by the caller; NULL on failure.
*/
gx_code gx_team_create(int threads, gx_mem *mem, gx_team_poll poll, void *poll_arg, gx_team **team,
                       gx_err *err);
void gx_team_free(gx_team *team);         /* joins; NULL is a no-op */
int gx_team_threads(const gx_team *team); /* 1 for NULL */

/*
** The jobs that follow start threads up to so many members, the caller included: little work is
** done before many have started.  Members keep their numbers, below gx_team_threads().
*/
void gx_team_limit(gx_team *team, int members);
int gx_team_workers(const gx_team *team); /* how many a job has now: to cut it; 1 for NULL */
gx_mem *gx_team_mem(const gx_team *team); /* the governor it was made with */

/*
** Run pieces 0 .. pieces-1, each once, in any order, handed out one at a time; returns when all
** have ended.  The first failure is returned.
*/
gx_code gx_team_run(gx_team *team, int64_t pieces, gx_team_fn fn, void *arg, gx_err *err);

/*
** For a piece of several steps: called between them by the member that runs it.  Polls when that is
** the caller.  false: the job has been stopped and knows why; the piece returns GX_OK.
** team may be NULL: true.
*/
bool gx_team_continues(gx_team *team, int member);

/* Between jobs: poll; GX_OK for a NULL team. */
gx_code gx_team_poll_now(gx_team *team, gx_err *err);

/*
** How a kernel call is cut.  The unit is the largest piece of c (m x n) and of the inner dimension
** (k) that one kernel invocation sees, in elements.
**
** is_fixed   Pieces are exactly the units, counted from the block's (0, 0), whatever the number of
**            threads, and each unit's k pieces run in ascending order: the same bits for every team
**            size (deterministic mode).  SYRK and HERK use n for both sides of c.  Otherwise units
**            may be merged or cut further for speed.
*/
typedef struct gx_cut {
    int64_t m, n, k; /* 0 = the default of the kernel */
    bool is_fixed;
} gx_cut;

/*
** Run one kernel of a host backend over the whole team, cut as said.  No piece takes more than
** about 50 ms, so that poll is called often.  team may be NULL (the caller alone).
**
** args->work is not looked at: what the pieces need is taken from the team's governor, at most
** gx_team_call_bytes(), and given back.  REDUCE, PAIR and SPMM run as one piece on the caller.
*/
gx_code gx_team_call(gx_team *team, const gx_backend *backend, gx_dev *dev, gx_kernel_id kernel,
                     gx_number dtype, const gx_args *args, const gx_cut *cut, gx_err *err);

/* Memory that a factorisation's call takes at its peak; sizes and flags of args are enough. */
size_t gx_team_call_bytes(const gx_backend *backend, gx_dev *dev, gx_kernel_id kernel,
                          gx_number dtype, const gx_args *args);

#endif
