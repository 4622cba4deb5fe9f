/*
** Private: which device of several computes which steps of a program, and in what order they are
** enqueued.
*/
#ifndef GX_SPREAD_H
#define GX_SPREAD_H

#include "exec_int.h"

/* Is every step known by its blocks alone?  Else the program stays on one device. */
bool gx_prog_can_spread(const gx_prog *prog);

/*
** Give each step to a device of the fleet, in proportion to their rates, and put the steps into an
** order in which all devices have work.  Of one device, or none (the host): everything.  The result
** is the same to the last bit, where equal kernels give equal bits.  Fails the run where there is
** no memory for it.
*/
void gx_prog_spread(gx_prog *prog, const gx_fleet *fleet);

#endif
