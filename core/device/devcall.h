/*
** A call on a device: what it takes there, what of that later calls may find, and how it ends.
**
**     gx_devcall on = {.run = run, .accel = accel};
**     on.key = gx_devcall_key(run, mat, 0, mat->rows, dtype); // or none
**     on.hold[0].bytes = ..., on.hold[1].bytes = ...; // what it wants, in an order of its own
**     if (gx_devcall_fits(&on)) {
**         code = gx_devcall_begin(&on, 0, &err);
**         ... enqueue, wait; on.is_there = true once the matrix of the key is in hold[0] ...
**         is_done = gx_devcall_end(&on, code, &err);
**     }
*/
#ifndef GX_DEVCALL_H
#define GX_DEVCALL_H

#include "device_copy.h"
#include "fleet.h"

enum { GX_DEVCALL_HOLDS = 14, GX_DEVCALL_MARKS = 5 };

/* Where everything that is wanted is in the pool: its size is not asked for. */
#define GX_DEVCALL_NO_LIMIT (SIZE_MAX / 4)

/* A buffer in the device's memory. */
typedef struct gx_hold {
    void *data;   /* NULL: not taken  */
    size_t bytes; /* 0: not wanted    */
} gx_hold;

typedef struct gx_devcall {
    gx_run *run;
    gx_accel *accel;
    size_t limit;     /* of the device's memory: set by gx_devcall_fits()       */
    gx_block_key key; /* of hold[0], by which later calls find it; file 0: none */
    bool is_there;    /* what the key says is on the device                     */
    gx_hold hold[GX_DEVCALL_HOLDS];
    gx_mark *mark[GX_DEVCALL_MARKS]; /* NULL: none */
    gx_staging stage;                /* data NULL: none */
} gx_devcall;

/* Rows [i0, i0 + m) of a stored matrix as it is now; of another matrix file is 0. */
gx_block_key gx_devcall_key(gx_run *run, const gx_mat *mat, int64_t i0, int64_t m, gx_number dtype);

/*
** Is there room for all that is wanted?  Looks whether hold[0] is there; the device is asked for
** its memory only where the pool has not got everything.  Takes nothing.  A device that does not
** answer is left out.
*/
bool gx_devcall_fits(gx_devcall *c);

/* Add what taking it would allocate. */
void gx_devcall_foresee(const gx_devcall *c, gx_growth *growth);

/* Claim hold[0], where it is there, and take what is wanted from hold[first] on. */
gx_code gx_devcall_begin(gx_devcall *c, int first, gx_err *err);
gx_code gx_devcall_take(gx_devcall *c, int k, gx_err *err); /* hold[k], if it is yet to be */

/* hold[k] of at least so many bytes; where it is too small, what it holds is lost. */
gx_code gx_devcall_grow(gx_devcall *c, int k, size_t bytes, gx_err *err);

/* The same for a buffer of the host that copies pass through, page-locked within pinning_budget. */
gx_code gx_devcall_stage(const gx_devcall *c, gx_staging *stage, size_t bytes, gx_err *err);

/* Make those of mark[first], ..., mark[end - 1] that are not there yet. */
gx_code gx_devcall_marks(gx_devcall *c, int first, int end, gx_err *err);

/* Another call, one of a progress report, may have lost the device meanwhile. */
bool gx_devcall_is_open(const gx_devcall *c);
gx_code gx_devcall_check_open(const gx_devcall *c, gx_err *err);

/* Enqueue a kernel among the others of the device, and count it. */
gx_code gx_devcall_kernel(const gx_devcall *c, gx_kernel_id id, gx_number dtype,
                          const gx_args *args, gx_err *err);

/* Bytes of the kernel's workspace; as many as no device has where it cannot say. */
size_t gx_devcall_workspace(const gx_devcall *c, gx_kernel_id id, gx_number dtype,
                            const gx_args *args);

/* Everything back to the pool, where hold[0] is kept if it is there; nothing may be under way. */
void gx_devcall_give(gx_devcall *c);

/*
** The end of a call that has come to code and *err: nothing is under way any more, everything has
** been given back, and a device that could not do it is given up (gx_device_give_up).  Where all
** went well the caller has waited.  true: done, or the run has failed; false: the host's turn.
*/
bool gx_devcall_end(gx_devcall *c, gx_code code, const gx_err *err);

// Several devices for one call --------------------------------------------------------------------

typedef struct gx_devcalls {
    gx_devcall *on[GX_DEVICES_MOST];
    int count;
    int culprit; /* the number of the device whose failure *err is */
} gx_devcalls;

/*
** The end of what they do together, with the first failure in *err: every device has finished, as
** they wait for and copy from each other, and then everything is given back.  *err: the same, or
** the first failure that shows only now.
*/
void gx_devcalls_end(gx_devcalls *calls, gx_err *err);

/*
** They have ended with *err: may the call be done again on the others (gx_fleet_goes_on)?  Else the
** culprit is given up, and it is the host's turn.  In either case the culprit is left out of the
** connection, or, where it had no room, of this call by its bit in *avoided.  The same of a fleet.
*/
bool gx_devcalls_go_on(const gx_devcalls *calls, const gx_err *err, uint64_t *avoided);
bool gx_device_goes_on(gx_run *run, gx_fleet *fleet, int culprit, const gx_err *err,
                       uint64_t *avoided);

#endif
