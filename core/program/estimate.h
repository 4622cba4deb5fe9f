/*
** What a program takes on the host and on a device, from rates: where it runs is decided by it.
*/
#ifndef GX_ESTIMATE_H
#define GX_ESTIMATE_H

#include "../run/profile.h"
#include "graph.h"

typedef struct gx_rates {
    const gx_profile *host;
    const gx_device_profile *device;
    int threads;
    double read_bytes_per_s; /* of stored matrices, by all readers together */
    bool has_transforms;     /* the device has, as far as is known           */
} gx_rates;

typedef struct gx_estimate {
    double host_s, device_s;       /* of the whole                                 */
    double up_bytes, widest;       /* of operands that go up; of the largest node  */
    double down_bytes;             /* of results                                   */
    double read_bytes, sent_bytes; /* of stored operands: all; those that go up */
} gx_estimate;

double gx_elements_of(const gx_type *t);

/* is_held: of each operand of the graph, whether the device has it already. */
void gx_estimate_graph(const gx_graph *g, const gx_rates *rates, const bool *is_held,
                       gx_estimate *e);

/* Seconds of one node on the device, all rounds of a loop, without copies. */
double gx_estimate_node(const gx_graph *g, const gx_node *node, const gx_rates *rates);

#endif
