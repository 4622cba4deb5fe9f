/*
** Devices: see device.h.
**
** The CPU and reference backends are linked in.  The CUDA backend is gx_cuda.so, a shared object
** beside this one, so that gx.so itself needs no NVIDIA library: it is opened when somebody sets
** the backend to cuda or reads gx_devices, or a call is large enough for a device, and never
** before.  Where that is, is found when the first connection is made: a relative path means another
** folder once the process has changed its own.  Three things can be missing, looked for in this
** order so that the reason names the first one to get: gx_cuda.so itself; what it needs (the
** driver, a library of the toolkit), of which it says itself what is missing; and a device.
**
** gx_cuda.so exports one function, gx_cuda_backend(), that returns its table; a table of another
** GX_BACKEND_ABI is refused.  What has been opened is not closed: device runtimes keep threads.
*/
#include "device.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The folder of the object this function is in, absolute, with its last slash; "": not known. */
static char beside[PATH_MAX];
static pthread_once_t located = PTHREAD_ONCE_INIT;

/* A relative path is the loader's of that moment: the process's folder may be another one later. */
static void locate(void)
{
    static const char anchor = 0; // an address inside this object
    Dl_info self;
    struct link_map *object = NULL;
    char program[PATH_MAX] = "", folder[PATH_MAX] = "";
    if (dladdr1(&anchor, &self, (void **)&object, RTLD_DL_LINKMAP) == 0 || object == NULL) {
        return;
    }
    const char *name = object->l_name;
    if (name == NULL || name[0] == '\0') { // the program itself
        ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
        program[gx_max(0, length)] = '\0';
        name = program;
    }
    bool is_absolute = name[0] == '/';
    if (!is_absolute && getcwd(folder, sizeof folder) == NULL) {
        return;
    }
    int length = snprintf(beside, sizeof beside, "%s%s%s", folder, is_absolute ? "" : "/", name);
    char *slash = strrchr(beside, '/');
    bool is_whole = length > 0 && (size_t)length < sizeof beside && name[0] != '\0';
    *(is_whole && slash != NULL ? slash + 1 : beside) = '\0';
}

void gx_device_locate(void)
{
    pthread_once(&located, locate);
}

/* gx_cuda.so in that folder. */
static bool find_beside(char *path, size_t bytes)
{
    gx_device_locate();
    int length = snprintf(path, bytes, "%sgx_cuda.so", beside);
    return beside[0] != '\0' && length > 0 && (size_t)length < bytes;
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
