/*
** The CUDA backend: what a failed call means.
**
** Three sorts:
**
**   memory   there is not so much free now (GX_NOMEM); nothing else is wrong
**   a call   that was refused: wrong sizes, too many resources (GX_DEVICE); the device goes on
**   the end  an illegal address, a failed launch, a device that has gone: the process's context on
**            the device is lost, and every later call gives the same error until the process ends
**
** The third sort is known by the statuses that CUDA's manual describes so, and for any other
** failure by asking: a harmless call that fails too.  It is remembered by device for the whole
** process, since a new connection would get the same context: from then on nothing of the device is
** called any more, what belongs to it is left to the end of the process, and gx_cuda_enter()
** refuses with the reason.  A plan that cuFFT has not got is GX_UNSUPPORTED.
**
** The runtime keeps the last error of each thread; it is asked for, which clears it, after every
** failure.  cuBLAS and cuSOLVER have no words for every lack of memory: where the runtime's last
** error says so, it is one.
**
** Process-wide state: the reasons, written once each under a lock.
*/
#include "cuda.h"

#include <stdio.h>
#include <string.h>

/* Statuses of which the manual says that the process must be started anew. */
static bool is_the_end(int status)
{
    static const int ends[] = {
        700, /* cudaErrorIllegalAddress      */ 702, /* cudaErrorLaunchTimeout      */
        710, /* cudaErrorAssert              */ 714, /* cudaErrorHardwareStackError */
        715, /* cudaErrorIllegalInstruction  */ 716, /* cudaErrorMisalignedAddress  */
        717, /* cudaErrorInvalidAddressSpace */ 718, /* cudaErrorInvalidPc          */
        719,                                         /* cudaErrorLaunchFailure       */
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (status == ends[i]) {
            return true;
        }
    }
    return false;
}

typedef struct lost {
    pthread_mutex_t lock;
    atomic_bool is_lost[GX_CUDA_DEVICES_MAX];
    char reason[GX_CUDA_DEVICES_MAX][200];
} lost;

static lost *lost_devices(void)
{
    static lost state = {.lock = PTHREAD_MUTEX_INITIALIZER};
    return &state;
}

bool gx_cuda_is_lost(const gx_dev *dev)
{
    return atomic_load(&lost_devices()->is_lost[dev->ordinal]);
}

static void lose(const gx_dev *dev, const char *reason)
{
    lost *l = lost_devices();
    pthread_mutex_lock(&l->lock);
    if (!atomic_load(&l->is_lost[dev->ordinal])) {
        snprintf(l->reason[dev->ordinal], sizeof l->reason[0], "%.199s", reason);
        atomic_store(&l->is_lost[dev->ordinal], true); // the reason does not change any more
    }
    pthread_mutex_unlock(&l->lock);
}

/* After a failure whose status does not say it: does the context still answer? */
static bool answers(const gx_dev *dev)
{
    size_t free_bytes, total_bytes;
    int status = dev->api->memory(&free_bytes, &total_bytes);
    (void)dev->api->last_error();
    return status == 0 || status == GX_CUDA_OUT_OF_MEMORY;
}

/* The failure in words, and whether it is the end. */
static gx_code conclude(const gx_dev *dev, bool is_memory, bool is_end, const char *text,
                        gx_err *err)
{
    if (is_end || (!gx_cuda_is_lost(dev) && !answers(dev))) {
        lose(dev, text);
    }
    bool is_only_memory = is_memory && !gx_cuda_is_lost(dev);
    return gx_fail(err, is_only_memory ? GX_NOMEM : GX_DEVICE, "%s", text);
}

gx_code gx_cuda_check(gx_dev *dev, int status, const char *call, gx_err *err)
{
    if (status == 0) {
        return GX_OK;
    }
    const gx_cuda_api *api = dev->api;
    char text[200];
    (void)api->last_error();
    snprintf(text, sizeof text, "%s on cuda:%d: %s (%s)", call, dev->ordinal,
             api->error_name(status), api->error_text(status));
    if (status == GX_CUDA_OUT_OF_MEMORY) {
        return gx_fail(err, GX_NOMEM, "%s", text);
    }
    return conclude(dev, false, is_the_end(status), text, err);
}

gx_code gx_cublas_check(gx_dev *dev, int status, const char *call, gx_err *err)
{
    if (status == 0) {
        return GX_OK;
    }
    char text[200];
    int last = dev->api->last_error();
    snprintf(text, sizeof text, "cublas %s on cuda:%d: %s", call, dev->ordinal,
             dev->api->blas_name(status));
    bool is_memory = status == GX_CUBLAS_NO_MEMORY || last == GX_CUDA_OUT_OF_MEMORY;
    return conclude(dev, is_memory, is_the_end(last), text, err);
}

gx_code gx_cusolver_check(gx_dev *dev, int status, const char *call, gx_err *err)
{
    if (status == 0) {
        return GX_OK;
    }
    char text[200];
    int last = dev->api->last_error();
    snprintf(text, sizeof text, "cusolverDn%s on cuda:%d: status %d", call, dev->ordinal, status);
    bool is_memory = status == GX_CUSOLVER_NO_MEMORY || last == GX_CUDA_OUT_OF_MEMORY;
    return conclude(dev, is_memory, is_the_end(last), text, err);
}

gx_code gx_cufft_check(gx_dev *dev, int status, const char *call, gx_err *err)
{
    if (status == 0) {
        return GX_OK;
    }
    char text[200];
    int last = dev->api->last_error();
    snprintf(text, sizeof text, "cufft%s on cuda:%d: status %d", call, dev->ordinal, status);
    bool is_memory = status == GX_CUFFT_NO_MEMORY || last == GX_CUDA_OUT_OF_MEMORY;
    bool is_refused = status == GX_CUFFT_BAD_SIZE || status >= GX_CUFFT_LACKS;
    gx_code code = conclude(dev, is_memory, is_the_end(last), text, is_refused ? NULL : err);
    return !is_refused
               ? code
               : gx_fail(err, code == GX_DEVICE && !gx_cuda_is_lost(dev) ? GX_UNSUPPORTED : code,
                         "%s", text);
}

gx_code gx_cuda_enter(gx_dev *dev, gx_err *err)
{
    if (gx_cuda_is_lost(dev)) {
        return gx_fail(err, GX_DEVICE, "cuda:%d is off until the process ends: %s", dev->ordinal,
                       lost_devices()->reason[dev->ordinal]);
    }
    return gx_cuda_check(dev, dev->api->set_device(dev->ordinal), "cudaSetDevice", err);
}

gx_code gx_cuda_settle(gx_dev *dev, gx_cuda_handle stream, gx_err *err)
{
    static const char call[] = "cudaStreamSynchronize";
    gx_code code = gx_cuda_check(dev, dev->api->stream_wait(stream), call, err);
    if (code == GX_OK || gx_cuda_is_lost(dev)) {
        return code;
    }
    gx_err again = {.code = GX_OK};
    if (gx_cuda_check(dev, dev->api->stream_wait(stream), call, &again) != GX_OK) {
        lose(dev, again.text);
    }
    return code;
}

void gx_cuda_release(gx_dev *dev, void *thing, int (*release)(void *), const char *call)
{
    if (thing != NULL && !gx_cuda_is_lost(dev)) {
        (void)gx_cuda_check(dev, release(thing), call, NULL);
    }
}
