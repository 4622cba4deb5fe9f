/*
** Whose turn it is on a device that several connections of the process use: every kernel of theirs
** is enqueued here.
**
** Work is counted in seconds as they are predicted.  A connection that has the device to itself
** enqueues as it likes.  While others use it too
**
**   - a connection is at most GX_TURN_LEAD_S ahead of the one that has had least, of those that
**     have work on the device or wait for it: whoever is further ahead waits (deficit round robin);
**   - at most two pieces of a connection's work, of about GX_TURN_PIECE_S, are under way;
**   - a product or a triangle's solution that takes longer is enqueued in such pieces;
**   - what a call enqueues up to GX_TURN_SMALL_S overtakes what others have enqueued
**     (queue_prefer of backend.h), and comes after that.
**
** With the setting 'deterministic' nothing is cut.
**
** Memory: an equal share each of what gx may take.  What others leave a connection borrows; what
** their idle connections have borrowed is evicted for who is short of its share, and for some
** seconds those that are busy take no more than theirs.
*/
#ifndef GX_TURN_H
#define GX_TURN_H

#include "../run/run.h"
#include "pool.h"

#define GX_TURN_LEAD_S 10e-3
#define GX_TURN_PIECE_S 10e-3
#define GX_TURN_SMALL_S 2e-3

/* A connection's part in a device's turns. */
typedef struct gx_turn {
    struct gx_turn *next, **link; /* of the process; link NULL: not entered            */
    int ordinal;                  /* of the device                                     */
    gx_pool *pool;                /* the connection's there                            */
    pthread_mutex_t attended;     /* held while it has a call: the pool is its own     */
    bool is_attended;             /* by its thread                                     */
    double served_s;              /* what it has had, by the clock of the device's turns */
    int64_t used_ns;              /* when it enqueued last, or waited                  */
    int64_t until_ns;             /* when what it has enqueued is done, as predicted   */
    bool is_waiting;
    int64_t call;      /* the rest is the thread's that enqueues: start_ns of its call */
    double call_s;     /* ... and what that has enqueued */
    bool is_preferred; /* its queue overtakes others     */
    gx_mark *mark[2];  /* behind the two latest pieces; NULL: none yet               */
    bool is_set[2];    /* ... and has not been waited for */
    int latest;        /* of the two                      */
    double unmarked_s; /* enqueued behind it              */
    bool is_recording; /* nothing may be waited for       */
    double recorded_s; /* what a record comes to          */
} gx_turn;

struct gx_accel;

/* A call of the connection begins, or its outermost one has ended: between the two nobody else may
** evict what its pool keeps. */
void gx_turn_attend(gx_turn *turn, bool is_begun);

/* The connection's part of so many bytes of the device. */
size_t gx_turn_share(const gx_turn *turn, size_t bytes);

/*
** The connection is short of `missing` bytes of its share: other connections without a call give
** theirs back down to the share, until that is enough.  Has somebody been short lately?
*/
void gx_turn_reclaim(gx_turn *turn, size_t share, size_t missing);
bool gx_turn_is_short(const gx_turn *turn);

/* The connection uses the device, from now on and no longer; not entered: a no-op. */
void gx_turn_enter(gx_turn *turn, int ordinal, gx_pool *pool);
void gx_turn_leave(gx_turn *turn);

/* Nothing of the connection is on the device any more. */
void gx_turn_rest(gx_turn *turn);

/*
** Enqueue a kernel when it is the connection's turn.  Any thread, one at a time.  Waits for its
** turn a quarter of a second at most, so that interrupts are in time, and not at all where the run
** has failed.
*/
gx_code gx_turn_kernel(gx_run *run, struct gx_accel *accel, gx_kernel_id id, gx_number dtype,
                       const gx_args *args, gx_err *err);

/* A record begins and ends (backend.h); it is enqueued when it is the connection's turn. */
void gx_turn_record(struct gx_accel *accel, bool is_recording);
gx_code gx_turn_replay(gx_run *run, struct gx_accel *accel, gx_record *record, gx_err *err);

#endif
