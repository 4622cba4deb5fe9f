/*
** Devices: see device.h.
**
** The CPU and reference backends are linked in.  The CUDA backend is gx_cuda.so, a shared object
** beside this one, so that gx.so itself needs no NVIDIA library: it is opened when somebody sets
** the backend to cuda or reads gx_devices, or a call is large enough for a device, and never
** before.  Three things can be missing, looked for in this order so that the reason names the
** first one to get: gx_cuda.so itself; what it needs (the driver, a library of the toolkit), of
** which it says itself what is missing; and a device.
**
** gx_cuda.so exports one function, gx_cuda_backend(), that returns its table; a table of another
** GX_BACKEND_ABI is refused.  What has been opened is not closed: device runtimes keep threads.
*/
#include "device.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* gx_cuda.so in the folder of the object this function is in. */
static bool find_beside(char *path, size_t bytes)
{
    Dl_info self;
    static const char anchor = 0; // an address inside this object
    if (dladdr(&anchor, &self) == 0 || self.dli_fname == NULL) {
        return false;
    }
    const char *slash = strrchr(self.dli_fname, '/');
    int folder = slash == NULL ? 0 : (int)(slash - self.dli_fname) + 1;
    int length = snprintf(path, bytes, "%.*s%s", folder, self.dli_fname,
                          folder == 0 ? "./gx_cuda.so" : "gx_cuda.so");
    return length > 0 && (size_t)length < bytes;
}

static const gx_backend *refuse(gx_ctx *ctx, const char *reason, const char *detail)
{
    snprintf(ctx->cuda_reason, sizeof ctx->cuda_reason, "%.60s%.190s", reason, detail);
    return NULL;
}

/* Ask the object at path for its backend. */
static const gx_backend *open_backend(gx_ctx *ctx, const char *path)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (object == NULL) {
        const char *text = dlerror();
        return refuse(ctx, "", text == NULL ? "gx_cuda.so cannot be loaded" : text);
    }
    void *symbol = dlsym(object, "gx_cuda_backend");
    if (symbol == NULL) {
        return refuse(ctx, "not a backend of gx: ", path);
    }
    gx_backend_entry get;
    memcpy(&get, &symbol, sizeof get); // ISO C has no cast from object to function pointers
    gx_err err = {0};
    const gx_backend *backend = get(ctx->config.text[GX_SET_CUDA_PATH], &err);
    if (backend == NULL) {
        return refuse(ctx, "", err.text[0] == '\0' ? "no CUDA" : err.text);
    }
    if (backend->abi != GX_BACKEND_ABI) {
        return refuse(ctx, "built for another version of gx: ", path);
    }
    if (backend->count() < 1) {
        return refuse(ctx, "no CUDA device", "");
    }
    return backend;
}

const gx_backend *gx_device_cuda(gx_ctx *ctx)
{
    int64_t choice = ctx->config.number[GX_SET_BACKEND];
    if (ctx->is_cuda_tried) {
        return ctx->cuda;
    }
    if (choice == GX_BACKEND_CPU || choice == GX_BACKEND_REFERENCE) { // CUDA is not touched
        return refuse(ctx, "not looked for: the setting backend is ",
                      choice == GX_BACKEND_CPU ? "cpu" : "reference");
    }
    ctx->is_cuda_tried = true;
    char path[PATH_MAX];
    if (!find_beside(path, sizeof path) || access(path, R_OK) != 0) {
        return refuse(ctx, "gx_cuda.so is not beside gx.so", "");
    }
    ctx->cuda = open_backend(ctx, path);
    return ctx->cuda;
}

bool gx_device_is_loaded(void)
{
    char path[PATH_MAX];
    void *object =
        find_beside(path, sizeof path) ? dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD) : NULL;
    if (object != NULL) {
        dlclose(object); // the reference that asking took
    }
    return object != NULL;
}

gx_code gx_device_choose(gx_ctx *ctx, const gx_backend **backend, gx_err *err)
{
    switch ((gx_backend_choice)ctx->config.number[GX_SET_BACKEND]) {
    case GX_BACKEND_REFERENCE:
        *backend = &gx_backend_ref;
        return GX_OK;
    case GX_BACKEND_CUDA:
        *backend = gx_device_cuda(ctx);
        return *backend != NULL
                   ? GX_OK
                   : gx_fail(err, GX_DEVICE, "backend cuda is not available: %s", ctx->cuda_reason);
    case GX_BACKEND_AUTO:
    case GX_BACKEND_CPU:
        break;
    }
    *backend = &gx_backend_cpu;
    return GX_OK;
}
