/*
** Which backend a connection computes with, and the one that is loaded on demand.
*/
#ifndef GX_DEVICE_H
#define GX_DEVICE_H

#include "../run/run.h"

/*
** The CUDA backend, loaded on the first call; NULL where it cannot be had, and then
** ctx->cuda_reason says why in one line that names what is missing.  It stays loaded until the
** process ends.
*/
const gx_backend *gx_device_cuda(gx_ctx *ctx);

/* Once a process, when the first connection is made: the folder that it is looked for in. */
void gx_device_locate(void);

/* Has this process loaded it already?  Then its runtime has started, most likely. */
bool gx_device_is_loaded(void);

/* The backend that the setting asks for; GX_DEVICE with the reason where it cannot be had. */
gx_code gx_device_choose(gx_ctx *ctx, const gx_backend **backend, gx_err *err);

#endif
