/*
** Several devices for one program: which, what each may take, and how they reach each other.
*/
#ifndef GX_FLEET_H
#define GX_FLEET_H

#include "accel.h"

typedef struct gx_fleet {
    int count; /* 0: the host */
    gx_accel *accel[GX_DEVICES_MOST];
    size_t bytes[GX_DEVICES_MOST]; /* device memory that each may take */
} gx_fleet;

/* The first device alone; accel NULL: the host. */
void gx_fleet_single(gx_fleet *fleet, gx_accel *accel, size_t bytes);

/* Does the setting 'devices' allow more than one?  is_listed: and says which, to be used always. */
bool gx_fleet_is_wanted(const gx_ctx *ctx, bool *is_listed);

/*
** Add the others that the setting 'devices' names, opened where they are not, and measure the
** links.  Who cannot be had is missing, and gx_stats says why.
*/
void gx_fleet_gather(gx_ctx *ctx, gx_fleet *fleet);

/* Is it one of the connection's?  What a call has begun on may be gone when the next one looks. */
bool gx_fleet_has(const gx_ctx *ctx, const gx_accel *accel);

/* Without those whose ordinal's bit is in `avoided`. */
void gx_fleet_avoid(gx_fleet *fleet, uint64_t avoided);

/*
** A call on the fleet has failed with *err, of the culprit, a number in the fleet, and what was
** taken from the pools has been given back: the fleet without those that are gone, or do not answer
** any more, or else without the culprit.  That is left out of the connection where it has failed;
** of this call, by its bit in *avoided, where it had no room.  Counted.  false: nobody else is
** open, or the culprit, well but without room, was alone: nothing was done, the caller gives up.
*/
bool gx_fleet_goes_on(gx_ctx *ctx, gx_fleet *fleet, int culprit, const gx_err *err,
                      uint64_t *avoided);

#endif
