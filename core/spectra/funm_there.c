/*
** Work matrices of functions of matrices on a device: buffers, kernels, what comes back.  See
** funm_matrix.h, and funm_device.c for who takes them.
*/
#include "funm_matrix.h"

#include "../alg/dense.h"

void gx_funm_call(const gx_funm_work *w, gx_kernel_id kernel, gx_number dtype, gx_args *args)
{
    gx_funm_device *d = w->device;
    if (d == NULL) {
        gx_dense_call(w->run, kernel, dtype, args);
    } else if (gx_funm_ok(w)) {
        args->work = d->on.hold[GX_FUNM_WORK].data;
        (void)gx_devcall_kernel(&d->on, kernel, dtype, args, &d->err);
    }
}

void *gx_funm_device_matrix(gx_funm_device *d)
{
    for (int k = 0; k < GX_FUNM_MATRICES; k++) {
        if ((d->used >> k & 1) == 0) {
            d->used |= 1U << k;
            return d->on.hold[k].data;
        }
    }
    gx_fail(&d->err, GX_DEVICE, "a function of a matrix has no work matrix left");
    return NULL;
}

void gx_funm_device_free(gx_funm_device *d, const void *x)
{
    for (int k = 0; k < GX_FUNM_MATRICES && x != NULL; k++) {
        d->used &= d->on.hold[k].data == x ? ~(1U << k) : ~0U;
    }
}

/* Everything that has been enqueued is done. */
void gx_funm_device_wait(const gx_funm_work *w)
{
    gx_funm_device *d = w->device;
    if (gx_funm_ok(w)) {
        const gx_accel *accel = d->on.accel;
        (void)accel->backend->queue_wait(accel->dev, accel->run, &d->err);
        gx_run_poll(w->run);
    }
}

void *gx_funm_device_rows(const gx_funm_device *d)
{
    return d->on.hold[GX_FUNM_ROWS].data;
}

void gx_funm_device_get(const gx_funm_work *w, int64_t m, int64_t n, const void *from, void *to)
{
    gx_funm_device *d = w->device;
    gx_funm_device_wait(w);
    if (gx_funm_ok(w)) {
        (void)gx_device_get(w->run, d->on.accel, w->dtype, m, n, from, to, gx_max(1, m), &d->err);
    }
}
