/*
** Graphs on a device: what adjacency.c hands over.
*/
#ifndef GX_GRAPH_DEVICE_H
#define GX_GRAPH_DEVICE_H

#include "adjacency.h"

/*
** gx_graph_spread() on the device, where that is predicted to be faster, or wanted; G has been
** looked at.  false: the host's turn; pulse and activation are then as they were.
*/
bool gx_spread_by_device(gx_run *run, const gx_mat *G, const gx_spread_args *args,
                         const double *pulse, double *activation);

#endif
