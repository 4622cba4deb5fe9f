/*
** The prediction: see estimate.h.
**
** Products take their flops at a product's rate, everything else is a pass over operands and
** result, at the rate of memory or of its arithmetic, whichever is slower; loops multiply.
** Transforms that the device has not got are the host's, with copies before and after.  On
** the host stored operands are read while others are worked on.  To a device they are read, and
** copied meanwhile, before anything runs, and results come back after it.
*/
#include "estimate.h"

#include "../base/fused.h"
#include "lower.h"
#include "on_device_grid.h"

#include <math.h>

/* Rounds assumed of a loop whose count is not known. */
static const double ROUNDS_GUESSED = 10;

/*
** Of an operation on grids: what a pass of the host takes beside its cells.  On the device, where
** they are worked on side by side: a launch with its barriers, each cell of one grid, and of all
** (measured on an H200).
*/
static const double HOST_GRIDS_S = 2e-6, GRID_S = 9e-6, CELL_S = 2.5e-9, CELLS_S = 3e-11;

double gx_elements_of(const gx_type *t)
{
    return (double)t->rows * (double)t->cols;
}

static double bytes_of(const gx_type *t)
{
    return gx_elements_of(t) * (double)gx_number_bytes(t->dtype);
}

static void add_product(const gx_graph *g, const gx_node *node, double times, const gx_rates *r,
                        gx_estimate *e)
{
    const gx_type *a = &gx_input_node(g, node, 0)->type;
    double k = node->trans[0] == GX_NO_TRANS ? (double)a->cols : (double)a->rows;
    double pairs = gx_elements_of(&node->type) * k;
    double flops = pairs * (gx_number_is_complex(node->type.dtype) ? 8 : 2);
    int64_t edge = gx_max(1, (int64_t)cbrt(pairs));
    gx_number dtype = node->type.dtype;
    e->host_s += times * flops / gx_profile_flops(r->host, dtype, edge, r->threads);
    e->device_s +=
        times * (r->device->launch_s + flops / gx_profile_device_flops(r->device, dtype, edge));
}

/* A pass over operands and result. */
static void add_pass(const gx_graph *g, const gx_node *node, double times, const gx_rates *r,
                     gx_estimate *e)
{
    double bytes = bytes_of(&node->type), elements = gx_elements_of(&node->type);
    for (int i = 0; i < node->count; i++) {
        const gx_type *t = &gx_input_node(g, node, i)->type;
        bytes += bytes_of(t);
        elements = fmax(elements, gx_elements_of(t));
    }
    double flops = elements * (node->fused != NULL ? gx_fused_flops(node->fused) : 1);
    if (node->op->id == GX_OP_DISTANCE) {
        flops = 3 * gx_elements_of(&node->type) * (double)gx_input_node(g, node, 0)->type.cols;
    }
    e->host_s += times * gx_profile_pass(r->host, bytes, flops, r->threads);
    e->device_s += times * gx_profile_device_pass(r->device, bytes, flops);
}

/* What the device has not got: copies of the first operand and the result, and the host's time. */
static double elsewhere_s(const gx_type *from, const gx_type *to, const gx_rates *r)
{
    return bytes_of(from) / r->device->download_bytes_per_s +
           bytes_of(to) / r->device->upload_bytes_per_s;
}

static void add_transform(const gx_graph *g, const gx_node *node, double times, const gx_rates *r,
                          gx_estimate *e)
{
    const gx_fft_args f = gx_fft_args_of(node);
    const gx_type *to = &node->type, *from = &gx_input_node(g, node, 0)->type;
    gx_args args = {.side = f.axis == 0 ? GX_LEFT : GX_RIGHT,
                    .m = to->rows,
                    .n = to->cols,
                    .k = f.n,
                    .from = gx_dtype_of(from->dtype)};
    double host_s = gx_profile_pass(r->host, bytes_of(from) + bytes_of(to),
                                    gx_kernel_flops(GX_FFT, to->dtype, &args), r->threads);
    bool is_there = r->has_transforms && f.kind <= GX_FFT_REAL_INVERSE;
    e->host_s += times * host_s;
    e->device_s += times * (is_there ? gx_profile_device_kernel(r->device, GX_FFT, to->dtype, &args)
                                     : host_s + elsewhere_s(from, to, r));
}

static void add_grids(const gx_graph *g, const gx_node *node, double times, const gx_rates *r,
                      gx_estimate *e)
{
    const gx_type *to = &node->type, *from = &gx_input_node(g, node, 0)->type;
    double bytes = bytes_of(from) + bytes_of(to), cells = gx_elements_of(from);
    int team = (int)fmin(r->threads, ceil(cells / GX_GRID_UNIT));
    double host_s = HOST_GRIDS_S + gx_profile_pass(r->host, bytes, GX_GRID_FLOPS * cells, team);
    double device_s = GRID_S + fmax(CELL_S * cells / gx_on_device_grids(g, node), CELLS_S * cells);
    e->host_s += times * host_s;
    e->device_s +=
        times * (gx_on_device_has_grids(g, node) ? device_s : host_s + elsewhere_s(from, to, r));
}

static void add_operand(const gx_graph *g, const gx_node *node, const bool *is_held, gx_estimate *e)
{
    double bytes = bytes_of(&node->type);
    int64_t number = node->whole[0];
    bool is_there = is_held != NULL && is_held[number];
    bool is_stored = g->operand[number].name != NULL;
    e->read_bytes += is_stored ? bytes : 0;
    e->up_bytes += is_there ? 0 : bytes;
    e->sent_bytes += is_stored && !is_there ? bytes : 0;
}

static void add_block(const gx_graph *g, int32_t b, double times, const gx_rates *r,
                      const bool *is_held, gx_estimate *e);

static void add_node(const gx_graph *g, const gx_node *node, double times, const gx_rates *r,
                     const bool *is_held, gx_estimate *e)
{
    e->widest = fmax(e->widest, bytes_of(&node->type));
    if (node->op->id == GX_OP_MATMUL) {
        add_product(g, node, times, r, e);
    } else if (node->op->id == GX_OP_OPERAND) {
        add_operand(g, node, is_held, e);
    } else if (node->inner[0] > 0) {
        const gx_node *count = node->count > 0 ? gx_input_node(g, node, 0) : NULL;
        bool is_known = node->op->id == GX_OP_REPEAT && count->is_known;
        double rounds = times * (node->op->id == GX_OP_IF ? 1
                                 : is_known               ? count->value.re
                                                          : ROUNDS_GUESSED);
        add_block(g, node->inner[0], rounds, r, is_held, e);
        if (node->inner[1] > 0) {
            add_block(g, node->inner[1], rounds, r, is_held, e);
        }
    } else if (node->op->run == gx_lower_fft) {
        add_transform(g, node, times, r, e);
    } else if (node->op->run == gx_lower_grid) {
        add_grids(g, node, times, r, e);
    } else if (node->op->run != NULL) {
        add_pass(g, node, times, r, e);
    }
}

static void add_block(const gx_graph *g, int32_t b, double times, const gx_rates *r,
                      const bool *is_held, gx_estimate *e)
{
    for (int32_t k = 0; k < g->block[b].count; k++) {
        add_node(g, &g->node[g->block[b].nodes[k]], times, r, is_held, e);
    }
}

double gx_estimate_node(const gx_graph *g, const gx_node *node, const gx_rates *r)
{
    gx_estimate e = {.host_s = 0};
    add_node(g, node, 1, r, NULL, &e);
    return e.device_s;
}

void gx_estimate_graph(const gx_graph *g, const gx_rates *r, const bool *is_held, gx_estimate *e)
{
    *e = (gx_estimate){.host_s = 0};
    add_block(g, 0, 1, r, is_held, e);
    for (int k = 0; k < g->outputs; k++) {
        e->down_bytes += bytes_of(&g->node[g->output[k].node].type);
    }
    if (g->result != GX_NO_NODE) {
        e->down_bytes += bytes_of(&g->node[g->result].type);
    }
    e->host_s = fmax(e->host_s, e->read_bytes / r->read_bytes_per_s);
    e->device_s +=
        fmax(e->up_bytes / r->device->upload_bytes_per_s, e->sent_bytes / r->read_bytes_per_s) +
        e->down_bytes / r->device->download_bytes_per_s;
}
