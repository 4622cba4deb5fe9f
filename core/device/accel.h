/*
** The accelerators of a connection: opened devices with memory of their own, queues and pools.
**
** The first is opened when the first program that is worth it comes along, and closed with the
** connection; others, where the setting 'devices' allows them, by fleet.c.  After a failure of a
** device it is left out for the connection, and when that was the last one, off: everything is
** then computed on the host, and gx_stats and gx_devices say why.
*/
#ifndef GX_ACCEL_H
#define GX_ACCEL_H

#include "device.h"
#include "pool.h"
#include "turn.h"

/* From another device's memory to this one's. */
typedef struct gx_link {
    bool is_known;
    bool is_direct;     /* without the host between them          */
    double bytes_per_s; /* measured                               */
} gx_link;

typedef struct gx_accel {
    const gx_backend *backend;
    gx_dev *dev;
    int ordinal;
    gx_dev_info info; /* as it was when the device was opened */
    gx_queue *up;     /* copies to the device                 */
    gx_queue *run;    /* kernels                              */
    gx_queue *down;   /* copies from the device               */
    gx_queue *in;     /* copies from other devices            */
    gx_pool *pool;
    gx_turn turn; /* among the connections that use it */
    bool has_no_records; /* one could not be made: they are not tried again */
    gx_device_profile profile;     /* what it does per second     */
    gx_link link[GX_DEVICES_MOST]; /* by the other's ordinal      */
    int64_t seen_ns;               /* when its free memory was asked for */
    size_t seen_bytes;             /* ... with what the pool held then   */
    struct gx_accel *next;         /* the connection's next one, or NULL */
} gx_accel;

/*
** A device that nobody has measured: what opening it takes, about, in a process that has not
** started the vendor's runtime, and measuring it after that.
*/
#define GX_ACCEL_OPEN_S 0.3
#define GX_ACCEL_MEASURE_S 1.0

/*
** The connection's accelerator, opened at the first call.  NULL where the setting 'backend' rules
** it out, where there is none, or after a failure; a failure to open is a remark in gx_stats.
*/
gx_accel *gx_accel_get(gx_ctx *ctx);

/* Its ordinal, by the settings 'device' and 'devices'. */
int gx_accel_first(const gx_ctx *ctx);

/* The same without opening one. */
gx_accel *gx_accel_opened(const gx_ctx *ctx);

/*
** Close it and the others; a later call of gx_accel_get() opens it again, unless it has failed.
** May be closed.
*/
void gx_accel_close(gx_ctx *ctx);

/*
** One of the connection's devices has failed (NULL: none could be opened): a remark, and where it
** was the first one the next open one is; where there is none, no accelerator for this connection
** from now on.  Its queues must not be waited for any more.
*/
void gx_accel_leave_out(gx_ctx *ctx, gx_accel *accel, const gx_err *err);

/*
** The device of that ordinal, opened where it is not, behind the others; NULL where it cannot be
** had, which gx_stats says; one that has failed is not tried again.
*/
gx_accel *gx_accel_more(gx_ctx *ctx, int ordinal);

/*
** Bytes of device memory that the connection may take in all: the setting device_memory_limit, and
** never more than 80 % of what is free beside what it has already.  Where that is less than its
** share, and than the call wants, idle connections give theirs back first (turn.h).
*/
gx_code gx_accel_limit(gx_ctx *ctx, gx_accel *accel, double wanted, size_t *bytes, gx_err *err);

/* Wait for all queues: after a failure too, before buffers are given back. */
static inline gx_code gx_device_settle(gx_accel *accel, gx_err *err)
{
    gx_queue *queues[3] = {accel->up, accel->run, accel->down};
    gx_code rc = GX_OK;
    for (int k = 0; k < 3; k++) {
        gx_err late = {0};
        gx_code code = accel->backend->queue_wait(accel->dev, queues[k], &late);
        if (code != GX_OK && rc == GX_OK) {
            rc = code;
            gx_fail(err, code, "%s", late.text);
        }
    }
    return rc;
}

/* Is the kernel offered for the dtype? */
bool gx_accel_offers(const gx_accel *accel, gx_kernel_id kernel, gx_number dtype);

/*
** Measure a device: copies, products and factorisations by size, the cost of a launch, in about so
** many seconds, with about half of `limit` bytes of its memory.  (profile_device.c)  A failure
** leaves *profile with figures that are not positive.
*/
gx_code gx_accel_measure(gx_ctx *ctx, gx_accel *accel, double seconds, size_t limit,
                         gx_device_profile *profile, gx_err *err);

/* Measure the open device anew, at leisure, and put the figures in force; may switch it off. */
gx_code gx_accel_remeasure(gx_ctx *ctx, gx_err *err);

#endif
