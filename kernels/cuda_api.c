/*
** NVIDIA's libraries, opened at run time: see cuda_api.h.
**
** Three libraries are needed, cudart, cublas and cusolver, all of one toolkit: CUDA 13 is tried
** first, then 12; cufft may be missing.  Each is looked for by its soname in the folders of
** find_folders() and, between the folders that the user names and those that are guessed, by the
** loader's own rules, which also find what the process has loaded already.  Libraries that cusolver
** itself needs are opened from the same places first, where they are: PyPI's packages keep each in
** a folder of its own.
**
** A toolkit that the driver is too old for does not count as found, so that CUDA 12's libraries
** serve beside CUDA 13's on a machine with a driver for 12.
**
** Nothing is closed again: these libraries keep threads and state until the process ends.  No
** state is kept here; the table belongs to the caller.
*/
#include "cuda_api.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Folders -----------------------------------------------------------------------------------------

enum { FOLDERS_MAX = 96 };

typedef struct folders {
    char path[FOLDERS_MAX][512];
    int count;
    int named; /* the first ones, which the user names, come before the loader's own rules */
} folders;

static void add_matches(folders *f, const char *pattern)
{
    glob_t found;
    if (glob(pattern, GLOB_ONLYDIR, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc && f->count < FOLDERS_MAX; i++) {
            snprintf(f->path[f->count++], sizeof f->path[0], "%s", found.gl_pathv[i]);
        }
        globfree(&found);
    }
}

/* The folders under root that may hold libraries; root NULL or "" has none. */
static void add_root(folders *f, const char *root, const char *const *below)
{
    char pattern[PATH_MAX];
    for (int i = 0; root != NULL && root[0] != '\0' && below[i] != NULL; i++) {
        int length = snprintf(pattern, sizeof pattern, "%s%s", root, below[i]);
        if (length > 0 && (size_t)length < sizeof pattern) {
            add_matches(f, pattern);
        }
    }
}

static void find_folders(const char *cuda_path, folders *f)
{
    static const char *const toolkit[] = {
        "",       "/lib64", "/lib", "/targets/*/lib", "/nvidia/cu1[23]/lib", "/nvidia/*/lib",
        "/*/lib", NULL};
    static const char *const plain[] = {"/lib64", "/lib", "/targets/*/lib", NULL};
    static const char *const python[] = {"/lib/python3*/site-packages/nvidia/cu1[23]/lib",
                                         "/lib/python3*/site-packages/nvidia/*/lib",
                                         "/lib/python3*/dist-packages/nvidia/*/lib",
                                         "/lib/python3/dist-packages/nvidia/*/lib",
                                         "/.local/lib/python3*/site-packages/nvidia/*/lib",
                                         "/lib",
                                         NULL};
    f->count = 0;
    add_root(f, cuda_path, toolkit);
    add_root(f, getenv("CUDA_PATH"), plain);
    add_root(f, getenv("CUDA_HOME"), plain);
    f->named = f->count;
    static const char *const usual[] = {"/usr/local/cuda", "/usr/local/cuda-1[23]*", "/opt/cuda",
                                        "/usr/lib/cuda", NULL};
    for (int i = 0; usual[i] != NULL; i++) {
        add_root(f, usual[i], plain);
    }
    const char *const prefixes[] = {getenv("VIRTUAL_ENV"), getenv("CONDA_PREFIX"), getenv("HOME"),
                                    "/usr/local", "/usr"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        add_root(f, prefixes[i], python);
    }
}

// Libraries ---------------------------------------------------------------------------------------

static void *open_in(const folders *f, int first, int last, const char *soname)
{
    char path[1024];
    for (int i = first; i < last; i++) {
        snprintf(path, sizeof path, "%s/%s", f->path[i], soname);
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library != NULL) {
            return library;
        }
    }
    return NULL;
}

static void *open_library(const folders *f, const char *soname)
{
    void *library = open_in(f, 0, f->named, soname);
    if (library == NULL) {
        library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    }
    return library != NULL ? library : open_in(f, f->named, f->count, soname);
}

/* A toolkit's names of its libraries. */
typedef struct toolkit {
    const char *name;
    const char *library[4]; /* cudart, cublas, cusolver, cufft  */
    const char *package[3]; /* of PyPI                          */
    const char *needed[4];  /* by those; opened where found     */
    const char *nvrtc;
} toolkit;

enum { CUDART, CUBLAS, CUSOLVER, CUFFT, LIBRARIES };

static const toolkit toolkits[] = {
    {"CUDA 13",
     {"libcudart.so.13", "libcublas.so.13", "libcusolver.so.12", "libcufft.so.12"},
     {"nvidia-cuda-runtime", "nvidia-cublas", "nvidia-cusolver"},
     {"libnvJitLink.so.13", "libcublasLt.so.13", "libcusparse.so.12", NULL},
     "libnvrtc.so.13"},
    {"CUDA 12",
     {"libcudart.so.12", "libcublas.so.12", "libcusolver.so.11", "libcufft.so.11"},
     {"nvidia-cuda-runtime-cu12", "nvidia-cublas-cu12", "nvidia-cusolver-cu12"},
     {"libnvJitLink.so.12", "libcublasLt.so.12", "libcusparse.so.12", NULL},
     "libnvrtc.so.12"},
};
enum { TOOLKITS = sizeof toolkits / sizeof *toolkits };

// Functions ---------------------------------------------------------------------------------------

typedef struct entry {
    size_t at; /* offset in gx_cuda_api */
    const char *name;
    int library;
    bool is_optional;
} entry;

#define ENTRY(library, member, name, is_optional)                                                  \
    {offsetof(gx_cuda_api, member), name, library, is_optional},
#define OF_CUDART(result, member, name, ...) ENTRY(CUDART, member, #name, false)
#define OF_GRAPHS(result, member, name, ...) ENTRY(CUDART, member, #name, true)
#define OF_CUBLAS(result, member, name, ...) ENTRY(CUBLAS, member, #name, false)
#define OF_CUSOLVER(result, member, name, ...) ENTRY(CUSOLVER, member, #name, false)
#define OF_GEEV(result, member, name, ...) ENTRY(CUSOLVER, member, #name, true)
#define OF_CUFFT(result, member, name, ...) ENTRY(CUFFT, member, #name, true)
#define BLAS_OF(member, name)                                                                      \
    ENTRY(CUBLAS, member[GX_F64], "cublasD" name, false)                                           \
    ENTRY(CUBLAS, member[GX_F32], "cublasS" name, false)                                           \
    ENTRY(CUBLAS, member[GX_C128], "cublasZ" name, false)                                          \
    ENTRY(CUBLAS, member[GX_C64], "cublasC" name, false)

static const entry entries[] = {
    GX_CUDART(OF_CUDART)
    GX_CUDART_GRAPHS(OF_GRAPHS)
    GX_CUBLAS(OF_CUBLAS)
    BLAS_OF(gemm, "gemm_v2_64")
    ENTRY(CUBLAS, gemm_ex, "cublasGemmEx_64", false)
    BLAS_OF(batch, "gemmStridedBatched_64")
    BLAS_OF(syrk, "syrk_v2_64")
    ENTRY(CUBLAS, herk[GX_C128], "cublasZherk_v2_64", false)
    ENTRY(CUBLAS, herk[GX_C64], "cublasCherk_v2_64", false)
    BLAS_OF(trsm, "trsm_v2_64")
    BLAS_OF(trmm, "trmm_v2_64")
    GX_CUSOLVER(OF_CUSOLVER)
    GX_CUSOLVER_GEEV(OF_GEEV)
    GX_CUFFT(OF_CUFFT)
};

static gx_code fill_table(void *const library[LIBRARIES], const toolkit *t, gx_cuda_api *api,
                          gx_err *err)
{
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        const entry *e = &entries[i];
        void *from = library[e->library];
        void *function = from == NULL ? NULL : dlsym(from, e->name);
        if (function == NULL && strcmp(e->name, "cudaGetDeviceProperties_v2") == 0) {
            function = dlsym(library[e->library], "cudaGetDeviceProperties"); // CUDA 13
        }
        if (function == NULL && !e->is_optional) {
            return gx_fail(err, GX_DEVICE, "%s has no %s: CUDA 12.8 or newer is needed",
                           t->library[e->library], e->name);
        }
        memcpy((char *)api + e->at, &function, sizeof function);
    }
    return GX_OK;
}

/* The driver and a device are there, and the toolkit is not too new for the driver. */
static gx_code look_at_driver(const gx_cuda_api *api, gx_err *err)
{
    int count = 0, driver = 0, runtime = 0;
    int status = api->count(&count);
    (void)api->driver_version(&driver);
    (void)api->runtime_version(&runtime);
    if (status != 0) {
        (void)api->last_error();
    }
    if (driver == 0) {
        return gx_fail(err, GX_DEVICE, "no NVIDIA driver: libcuda.so.1 is missing");
    }
    if (status == GX_CUDA_OLD_DRIVER) {
        return gx_fail(err, GX_DEVICE,
                       "the NVIDIA driver is for CUDA %d.%d, the libraries are of CUDA %d.%d",
                       driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    }
    if (status == GX_CUDA_NO_DEVICE || (status == 0 && count == 0)) {
        return gx_fail(err, GX_DEVICE, "no CUDA device");
    }
    return status == 0 ? GX_OK
                       : gx_fail(err, GX_DEVICE, "no CUDA device: %s (%s)", api->error_name(status),
                                 api->error_text(status));
}

/*
** Asked of the runtime alone, before the other libraries are loaded: they take some 200 MB of the
** process, for nothing where there is no driver.
*/
static gx_code look_for_driver(void *cudart, gx_err *err)
{
    int (*version)(int *) = NULL;
    int driver = 0;
    void *function = dlsym(cudart, "cudaDriverGetVersion");
    memcpy(&version, &function, sizeof version);
    if (version != NULL && version(&driver) == 0 && driver == 0) {
        return gx_fail(err, GX_DEVICE, "no NVIDIA driver: libcuda.so.1 is missing");
    }
    return GX_OK;
}

static gx_code open_toolkit(const folders *f, const toolkit *t, gx_cuda_api *api, bool *is_missing,
                            gx_err *err)
{
    void *library[LIBRARIES];
    *is_missing = false;
    for (int i = 0; i < LIBRARIES; i++) {
        for (int q = 0; i == CUBLAS && t->needed[q] != NULL; q++) {
            (void)open_library(f, t->needed[q]);
        }
        library[i] = open_library(f, t->library[i]);
        if (library[i] == NULL && i != CUFFT) {
            *is_missing = i == CUDART;
            return gx_fail(err, GX_DEVICE,
                           "%s is missing: it comes with the CUDA toolkit and with PyPI's %s; "
                           "GX_CUDA_PATH names its folder",
                           t->library[i], t->package[i]);
        }
        if (i == CUDART) {
            GX_TRY(look_for_driver(library[i], err));
        }
    }
    GX_TRY(fill_table(library, t, api, err));
    return look_at_driver(api, err);
}

gx_code gx_cuda_api_open(const char *cuda_path, gx_cuda_api *api, gx_err *err)
{
    folders f;
    gx_err first = {.code = GX_OK};
    find_folders(cuda_path, &f);
    for (int i = 0; i < TOOLKITS; i++) {
        gx_err why = {.code = GX_OK};
        bool is_missing;
        memset(api, 0, sizeof *api);
        if (open_toolkit(&f, &toolkits[i], api, &is_missing, &why) == GX_OK) {
            snprintf(api->cuda_path, sizeof api->cuda_path, "%s", cuda_path);
            api->nvrtc = toolkits[i].nvrtc;
            return GX_OK;
        }
        // A toolkit that is half there tells more than one that is not there at all.
        if (first.code == GX_OK || (!is_missing && strstr(first.text, "libcudart") != NULL)) {
            first = why;
        }
    }
    return gx_fail(err, GX_DEVICE, "%s", first.text);
}

void gx_cuda_api_nvrtc(const gx_cuda_api *api, gx_nvrtc *nvrtc)
{
#define OF_NVRTC(result, member, name, ...) {offsetof(gx_nvrtc, member), #name},
    static const struct {
        size_t at;
        const char *name;
    } functions[] = {GX_NVRTC(OF_NVRTC)};
    folders f;
    find_folders(api->cuda_path, &f);
    void *library = open_library(&f, api->nvrtc);
    memset(nvrtc, 0, sizeof *nvrtc);
    for (size_t i = 0; library != NULL && i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(library, functions[i].name);
        if (function == NULL) {
            memset(nvrtc, 0, sizeof *nvrtc);
            return;
        }
        memcpy((char *)nvrtc + functions[i].at, &function, sizeof function);
    }
}
