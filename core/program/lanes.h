/*
** Parts of a program that have nothing to do with each other, on devices of their own.
*/
#ifndef GX_LANES_H
#define GX_LANES_H

#include "../device/fleet.h"
#include "values.h"

/*
** For a program that runs on a device: x->lanes, x->order and x->lane_of, where other devices are
** allowed and there are parts for them; else nothing changes.
*/
void gx_lanes_choose(gx_exec *x);

/*
** The devices that may share what takes the lane's alone so many seconds; the first lane's becomes
** the first of them.  false: none beside it.  And lanes for all of them.
*/
bool gx_lanes_gather(gx_exec *x, double alone_s, gx_fleet *fleet, bool *is_listed);
void gx_lanes_open(gx_exec *x, const gx_fleet *fleet);

/* May the value go after the node that uses it last, in the order of the text? */
bool gx_lanes_may_drop(const gx_exec *x, const gx_node *node, gx_ref value);

#endif
