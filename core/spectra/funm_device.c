/*
** Exponentials and whole powers on a device: the work matrices of funm_matrix.h there.
**
**   up      A, once; it stays on the host, too, as it was
**   there   products, sums, systems, norms: funm_expm.c, which does not know where it is
**   down    the result
**
** Whether: predicted, from the flops of the products and the copies.  What the device cannot do,
** for want of memory or because it fails, the host does from the beginning; gx_stats says why.
**
** Memory on the device: eight matrices, two rows, and the largest workspace of a kernel; on the
** host the pivots of a system.
*/
#include "funm_matrix.h"

#include "../alg/dense.h"
#include "../device/devcall.h"
#include "../exec/place.h"

#include <math.h>
#include <string.h>

/* Products and systems of an exponential, with the squarings of a matrix of moderate norm. */
static const double PRODUCTS_OF_EXP = 14;

// Whether -----------------------------------------------------------------------------------------

static double flops_of(const gx_funm_work *w, double products)
{
    gx_args square = gx_funm_square_args(w);
    return products * gx_kernel_flops(GX_GEMM, w->dtype, &square);
}

static double host_seconds(const gx_funm_work *w, double products)
{
    gx_ctx *ctx = w->run->ctx;
    int threads = (int)ctx->config.number[GX_SET_THREADS];
    return flops_of(w, products) / gx_profile_flops(gx_profile_get(ctx), w->dtype, w->n, threads);
}

static double device_seconds(const gx_funm_work *w, const gx_accel *accel, double products)
{
    const gx_device_profile *profile = &accel->profile;
    gx_args square = gx_funm_square_args(w);
    double bytes = (double)w->n * (double)w->n * (double)gx_number_bytes(w->dtype);
    return products * gx_profile_device_kernel(profile, GX_GEMM, w->dtype, &square) +
           bytes / profile->upload_bytes_per_s + bytes / profile->download_bytes_per_s;
}

/* Buffers for matrices, rows and the kernels' workspaces. */
static void measure(const gx_funm_work *w, gx_devcall *on)
{
    static const gx_kernel_id kernels[] = {GX_GEMM,     GX_MAP,   GX_COPY,  GX_FILL,
                                           GX_TRIANGLE, GX_GETRF, GX_LASWP, GX_TRSM};
    size_t bytes = (size_t)(w->n * w->n) * gx_number_bytes(w->dtype);
    gx_args args = gx_funm_square_args(w);
    for (int k = 0; k < GX_FUNM_MATRICES; k++) {
        on->hold[k].bytes = bytes;
    }
    on->hold[GX_FUNM_ROWS].bytes = 2 * (size_t)w->n * gx_number_bytes(w->dtype);
    on->hold[GX_FUNM_WORK].bytes = 256;
    for (int k = 0; k < (int)(sizeof kernels / sizeof kernels[0]); k++) {
        size_t work = gx_devcall_workspace(on, kernels[k], w->dtype, &args);
        on->hold[GX_FUNM_WORK].bytes =
            work > on->hold[GX_FUNM_WORK].bytes ? work : on->hold[GX_FUNM_WORK].bytes;
    }
}

static double products_of(const gx_funm_args *args)
{
    double bits = args->power == 0 ? 0 : floor(log2(fabs(args->power)));
    return args->function == GX_FUNM_EXP ? PRODUCTS_OF_EXP : 1.5 * bits + (args->power < 0 ? 2 : 0);
}

bool gx_funm_on_device(const gx_funm_work *host, const gx_funm_args *args, void *a)
{
    double products = products_of(args), host_s = host_seconds(host, products);
    gx_funm_device d = {.on = {.run = host->run}};
    gx_funm_work w = *host;
    w.device = &d;
    if (!gx_ok(w.run) || products == 0) {
        return false;
    }
    d.on.accel = gx_place_for(w.run, host_s, &d.on.limit);
    if (d.on.accel == NULL || !gx_accel_offers(d.on.accel, GX_GETRF, w.dtype) ||
        !gx_place_is_less(w.run, device_seconds(&w, d.on.accel, products), host_s)) {
        return false;
    }
    measure(&w, &d.on);
    d.pivots = gx_dense_take(w.run, GX_F64, w.n, 1, "pivots");
    if (d.pivots == NULL || !gx_devcall_fits(&d.on)) {
        gx_mem_free(w.run->ctx->mem, d.pivots);
        return false;
    }
    (void)gx_devcall_begin(&d.on, 0, &d.err);
    void *there = gx_funm_device_matrix(&d);
    if (gx_funm_ok(&w)) {
        (void)gx_device_put(w.run, d.on.accel, w.dtype, w.n, w.n, a, w.n, there, &d.err);
    }
    if (gx_funm_ok(&w) && args->function == GX_FUNM_EXP) {
        gx_funm_exponential(&w, there);
    } else if (gx_funm_ok(&w)) {
        gx_funm_whole_power(&w, there, (int64_t)args->power);
    }
    gx_err fault = d.err;
    void *result = fault.code == GX_OK && gx_ok(w.run) ? gx_funm_matrix(host) : NULL;
    if (result != NULL) {
        gx_funm_device_get(&w, w.n, w.n, there, result);
        fault = d.err;
    }
    bool is_done = gx_devcall_end(&d.on, fault.code, &fault);
    if (is_done && gx_ok(w.run)) {
        gx_funm_copy(host, result, a);
    }
    gx_mem_free(w.run->ctx->mem, d.pivots);
    gx_funm_free(host, result);
    return is_done;
}
