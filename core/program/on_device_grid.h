/*
** Operations on grids on a device (GX_GRID of core/base/backend.h).
*/
#ifndef GX_ON_DEVICE_GRID_H
#define GX_ON_DEVICE_GRID_H

#include "values.h"

/* May the node run there?  Of grids that a table says no more is known than that they may. */
bool gx_on_device_has_grids(const gx_graph *g, const gx_node *node);

/* How many grids there are, as far as is known before it runs; at least 1. */
double gx_on_device_grids(const gx_graph *g, const gx_node *node);

/* Where its grids lie is the same each time, and known without waiting for the device. */
bool gx_on_device_knows_grids(const gx_graph *g, const gx_node *node);

/* Are they such that a device takes them?  false: it is the host's turn, or the run has failed. */
bool gx_on_device_fits_grids(gx_exec *x, const gx_node *node);

void gx_on_device_grid(gx_exec *x, const gx_node *node);

#endif
