/*
** Stand-ins for libcudart, libcublas and libcusolver on the CPU, in one object: what gx_cuda.so
** runs on where there is no GPU.
**
** A stream is a thread with a queue of actions, an event a mark in it (mock_machine.c); device
** memory is ordinary memory filled with NaNs; copies from and to pageable memory wait, as CUDA's
** do.  What fails, and how, is ordered (mock_machine.h); a call that fails leaves the thread's last
** error behind, and a context that has ended does nothing more and answers every call with the same
** error.
**
** Environment beside mock_machine.h's: MOCK_DRIVER the driver's version (13000; 0 = none),
** MOCK_TOOLKIT the runtime's (13000), MOCK_CC compute capabilities ("9.0,7.0"; the last one is
** that of all others).  CUDA_VISIBLE_DEVICES counts: "2,0" shows two devices.  Device code is for
** 7.5, 8.x, 9.0, 10.0 and 12.0; a newer device compiles it where the driver is not older than the
** toolkit.
*/
#include "mock_nvidia.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t MAGIC = 0x6d6f636b68616e64;

static _Thread_local int last_error, current_device;

static int number_of(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : atoi(text);
}

// How calls end -----------------------------------------------------------------------------------

int mock_keep(int status)
{
    if (status != 0 && last_error == 0) {
        mock_count(MOCK_ERROR_KEPT);
        last_error = status;
    }
    return status;
}

static int runtime_status(mock_failure failure)
{
    switch (failure) {
    case MOCK_MEMORY:
        return CUDA_NO_MEMORY;
    case MOCK_LAUNCH:
        return CUDA_BAD_LAUNCH;
    case MOCK_STATUS:
        return CUDA_INVALID;
    case MOCK_STICKY:
        return CUDA_ILLEGAL_ADDRESS;
    case MOCK_LATER:
        return CUDA_LAUNCH_FAILURE;
    case MOCK_LOST:
        return CUDA_UNKNOWN;
    case MOCK_FINE:
        break;
    }
    return 0;
}

/* ALLOC_FAILED, EXECUTION_FAILED, INTERNAL_ERROR */
static int library_status(mock_library library, mock_failure failure)
{
    bool is_blas = library == MOCK_BLAS;
    switch (failure) {
    case MOCK_MEMORY:
        return is_blas ? 3 : 2;
    case MOCK_LAUNCH:
        return is_blas ? 13 : 6;
    default:
        return is_blas ? 14 : 7;
    }
}

int mock_begin(mock_library library, const char *call, bool *is_fatal)
{
    mock_failure failure = mock_fate(call);
    if (failure == MOCK_FINE) {
        return 0;
    }
    if (failure == MOCK_LATER && is_fatal != NULL && mock_end() == MOCK_FINE) {
        *is_fatal = true;
        return 0;
    }
    if (failure >= MOCK_STICKY) {
        mock_end_now(failure);
    }
    int status = mock_keep(runtime_status(failure));
    return library == MOCK_RUNTIME ? status : library_status(library, failure);
}

API int cudaGetLastError(void)
{
    int status = mock_end() == MOCK_FINE ? last_error : runtime_status(mock_end());
    if (last_error != 0) {
        mock_count(MOCK_ERROR_CLEARED);
    }
    last_error = 0;
    return status;
}

static const struct {
    int status;
    const char *name, *text;
} words[] = {
    {CUDA_INVALID, "cudaErrorInvalidValue", "invalid argument"},
    {CUDA_NO_MEMORY, "cudaErrorMemoryAllocation", "out of memory"},
    {CUDA_OLD_DRIVER, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {CUDA_NO_DEVICE, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {CUDA_NO_IMAGE, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {CUDA_ILLEGAL_ADDRESS, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {CUDA_BAD_LAUNCH, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {CUDA_LAUNCH_FAILURE, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {CUDA_SYSTEM, "cudaErrorOperatingSystem",
     "OS call failed or operation not supported on this OS"},
    {0, "cudaErrorUnknown", "unknown error"},
};

static int word_of(int status)
{
    int k = 0;
    while (words[k].status != 0 && words[k].status != status) {
        k++;
    }
    return k;
}

API const char *cudaGetErrorName(int status)
{
    return words[word_of(status)].name;
}

API const char *cudaGetErrorString(int status)
{
    return words[word_of(status)].text;
}

// Handles -----------------------------------------------------------------------------------------

int mock_handle_make(void **handle)
{
    mock_handle *made = calloc(1, sizeof *made);
    *handle = made;
    if (made == NULL) {
        return CUDA_NO_MEMORY;
    }
    made->magic = MAGIC;
    mock_know(made);
    mock_count(MOCK_HANDLE_MADE);
    return 0;
}

bool mock_handle_is(const void *handle)
{
    const mock_handle *h = handle;
    bool is_one = h != NULL && h->magic == MAGIC;
    if (!is_one) {
        mock_count(MOCK_VIOLATION);
    }
    return is_one;
}

void mock_handle_free(void *handle)
{
    if (mock_handle_is(handle)) {
        ((mock_handle *)handle)->magic = 0;
        mock_forget(handle);
        free(handle);
        mock_count(MOCK_HANDLE_GONE);
    }
}

// Devices -----------------------------------------------------------------------------------------

API int cudaDriverGetVersion(int *version)
{
    *version = number_of("MOCK_DRIVER", 13000);
    return 0;
}

API int cudaRuntimeGetVersion(int *version)
{
    *version = number_of("MOCK_TOOLKIT", 13000);
    return 0;
}

/* The device that the process calls by this number; -1: none. */
static int physical(int device)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible == NULL) {
        return device >= 0 && device < mock_devices() ? device : -1;
    }
    for (int k = 0; *visible != '\0'; k++) {
        int found = atoi(visible);
        if (found >= mock_devices() || *visible < '0' || *visible > '9') {
            return -1; // CUDA stops at the first that is not there
        }
        if (k == device) {
            return found;
        }
        visible += strcspn(visible, ",");
        visible += *visible == ',';
    }
    return -1;
}

API int cudaGetDeviceCount(int *count)
{
    *count = 0;
    BEGIN(MOCK_RUNTIME, "cudaGetDeviceCount");
    int driver = number_of("MOCK_DRIVER", 13000), toolkit = number_of("MOCK_TOOLKIT", 13000);
    if (driver / 1000 < toolkit / 1000) {
        return mock_keep(CUDA_OLD_DRIVER);
    }
    while (physical(*count) >= 0) {
        ++*count;
    }
    return *count == 0 ? mock_keep(CUDA_NO_DEVICE) : 0;
}

API int cudaSetDevice(int device)
{
    BEGIN(MOCK_RUNTIME, "cudaSetDevice");
    if (physical(device) < 0) {
        return mock_keep(CUDA_BAD_DEVICE);
    }
    current_device = physical(device);
    return 0;
}

/* Ten times the compute capability. */
static int capability(int device)
{
    const char *text = getenv("MOCK_CC");
    int major = 9, minor = 0;
    for (int k = 0; text != NULL && *text != '\0' && k <= device; k++) {
        (void)sscanf(text, "%d.%d", &major, &minor);
        text += strcspn(text, ",");
        text += *text == ',';
    }
    return 10 * major + minor;
}

API int cudaDeviceGetAttribute(int *value, int attribute, int device)
{
    BEGIN(MOCK_RUNTIME, "cudaDeviceGetAttribute");
    int cc = capability(physical(device));
    *value = attribute == 11   ? 2147483647
             : attribute == 75 ? cc / 10
             : attribute == 76 ? cc % 10
                               : 132;
    return 0;
}

API int cudaGetDeviceProperties(void *properties, int device)
{
    BEGIN(MOCK_RUNTIME, "cudaGetDeviceProperties");
    int number = physical(device);
    snprintf(properties, 256, number == 0 ? "Mock" : "Mock %d", number);
    for (int k = 0; k < 16; k++) { // the UUID
        ((unsigned char *)properties)[256 + k] = (unsigned char)(0xa0 + k + 16 * number);
    }
    return 0;
}

API int cudaDeviceGetPCIBusId(char *text, int bytes, int device)
{
    BEGIN(MOCK_RUNTIME, "cudaDeviceGetPCIBusId");
    snprintf(text, (size_t)bytes, "0000:%02x:00.0", physical(device));
    return 0;
}

API int cudaLibraryLoadData(void **library, const void *code, int *options, void **values,
                            unsigned count, int *library_options, void **library_values,
                            unsigned library_count)
{
    (void)code, (void)options, (void)values, (void)count;
    (void)library_options, (void)library_values, (void)library_count;
    BEGIN(MOCK_RUNTIME, "cudaLibraryLoadData");
    int cc = capability(current_device), major = cc / 10;
    bool is_built = cc >= 75 && (major == 7 || major == 8 || cc == 90 || cc == 100 || cc == 120);
    if (cc < 75) {
        return mock_keep(CUDA_NO_IMAGE);
    }
    if (!is_built && number_of("MOCK_DRIVER", 13000) < 13000) {
        return mock_keep(CUDA_NEWER_PTX);
    }
    return mock_handle_make(library);
}

API int cudaLibraryUnload(void *library)
{
    int status = mock_begin(MOCK_RUNTIME, "cudaLibraryUnload", NULL);
    if (mock_end() == MOCK_FINE) {
        mock_handle_free(library);
    }
    return status;
}

// Memory ------------------------------------------------------------------------------------------

API int cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    BEGIN(MOCK_RUNTIME, "cudaMemGetInfo");
    *total_bytes = mock_memory();
    *free_bytes = mock_device_free_bytes_on(current_device);
    return 0;
}

API int cudaMalloc(void **ptr, size_t bytes)
{
    *ptr = NULL;
    BEGIN(MOCK_RUNTIME, "cudaMalloc");
    *ptr = mock_device_alloc_on(current_device, bytes);
    return *ptr == NULL ? mock_keep(CUDA_NO_MEMORY) : 0;
}

/* A failure does not keep memory from being given back, but a context that has ended does. */
API int cudaFree(void *ptr)
{
    int status = mock_begin(MOCK_RUNTIME, "cudaFree", NULL);
    if (mock_end() == MOCK_FINE) {
        mock_device_free(ptr);
    }
    return status;
}

API int cudaHostAlloc(void **ptr, size_t bytes, unsigned flags)
{
    (void)flags;
    *ptr = NULL;
    BEGIN(MOCK_RUNTIME, "cudaHostAlloc");
    *ptr = mock_pin(bytes);
    return *ptr == NULL ? mock_keep(CUDA_NO_MEMORY) : 0;
}

API int cudaFreeHost(void *ptr)
{
    int status = mock_begin(MOCK_RUNTIME, "cudaFreeHost", NULL);
    if (mock_end() == MOCK_FINE) {
        mock_unpin(ptr);
    }
    return status;
}

// Streams -----------------------------------------------------------------------------------------

API int cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
    (void)flags;
    *stream = NULL;
    BEGIN(MOCK_RUNTIME, "cudaStreamCreateWithPriority");
    *stream = mock_queue_create();
    if (*stream != NULL) {
        mock_queue_prefer(*stream, priority < 0);
    }
    return *stream != NULL ? 0 : mock_keep(CUDA_SYSTEM);
}

API int cudaStreamDestroy(void *stream)
{
    int status = mock_begin(MOCK_RUNTIME, "cudaStreamDestroy", NULL);
    if (mock_end() == MOCK_FINE) {
        mock_queue_free(stream);
    }
    return status;
}

int mock_drain(void *stream)
{
    if (stream != NULL) {
        (void)mock_queue_wait(stream);
    }
    return mock_keep(runtime_status(mock_end()));
}

API int cudaStreamSynchronize(void *stream)
{
    BEGIN(MOCK_RUNTIME, "cudaStreamSynchronize");
    return mock_drain(stream);
}

// Graphs: recordings of streams -------------------------------------------------------------------

typedef struct graph {
    mock_recording *recording; /* NULL: it was made into what is launched */
} graph;

API int cudaStreamBeginCapture(void *stream, int mode)
{
    (void)mode;
    BEGIN(MOCK_RUNTIME, "cudaStreamBeginCapture");
    mock_record_begin(stream);
    return 0;
}

API int cudaStreamEndCapture(void *stream, void **out)
{
    *out = NULL;
    mock_recording *recording = mock_record_end(stream);
    int status = mock_begin(MOCK_RUNTIME, "cudaStreamEndCapture", NULL);
    if (status != 0 || recording == NULL) {
        mock_recording_free(recording);
        return status != 0 ? status : mock_keep(CUDA_INVALID);
    }
    graph *made = calloc(1, sizeof *made);
    made->recording = recording;
    mock_know(made);
    *out = made;
    return 0;
}

API int cudaGraphInstantiate(void **made, void *from, unsigned long long flags)
{
    (void)flags;
    *made = NULL;
    BEGIN(MOCK_RUNTIME, "cudaGraphInstantiate");
    *made = ((graph *)from)->recording;
    ((graph *)from)->recording = NULL;
    return 0;
}

API int cudaGraphLaunch(void *made, void *stream)
{
    BEGIN(MOCK_RUNTIME, "cudaGraphLaunch");
    mock_replay(stream, made);
    return 0;
}

API int cudaGraphDestroy(void *which)
{
    int status = mock_begin(MOCK_RUNTIME, "cudaGraphDestroy", NULL);
    mock_recording_free(((graph *)which)->recording);
    mock_forget(which);
    free(which);
    return status;
}

API int cudaGraphExecDestroy(void *made)
{
    int status = mock_begin(MOCK_RUNTIME, "cudaGraphExecDestroy", NULL);
    mock_recording_free(made);
    return status;
}

// Events ------------------------------------------------------------------------------------------

API int cudaEventCreateWithFlags(void **event, unsigned flags)
{
    (void)flags;
    *event = NULL;
    BEGIN(MOCK_RUNTIME, "cudaEventCreateWithFlags");
    *event = mock_mark_create();
    return 0;
}

API int cudaEventDestroy(void *event)
{
    int status = mock_begin(MOCK_RUNTIME, "cudaEventDestroy", NULL);
    if (mock_end() == MOCK_FINE) {
        mock_mark_free(event);
    }
    return status;
}

API int cudaEventRecord(void *event, void *stream)
{
    BEGIN(MOCK_RUNTIME, "cudaEventRecord");
    mock_mark_set(event, stream);
    return 0;
}

API int cudaEventSynchronize(void *event)
{
    BEGIN(MOCK_RUNTIME, "cudaEventSynchronize");
    (void)mock_mark_wait(event);
    return mock_keep(runtime_status(mock_end()));
}

API int cudaEventElapsedTime(float *ms, void *from, void *to)
{
    BEGIN(MOCK_RUNTIME, "cudaEventElapsedTime");
    *ms = (float)(1e3 * mock_mark_seconds(from, to));
    return 0;
}

API int cudaStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    (void)flags;
    BEGIN(MOCK_RUNTIME, "cudaStreamWaitEvent");
    mock_queue_after(stream, event);
    return 0;
}

// What streams do ---------------------------------------------------------------------------------

typedef struct work {
    bool is_fatal;
    mock_action action;
    _Alignas(16) char arg[]; /* its own copy */
} work;

static int do_work(void *arg)
{
    work *w = arg;
    if (w->is_fatal) {
        mock_end_now(MOCK_LATER);
    }
    return mock_end() == MOCK_FINE ? w->action(w->arg) : 0;
}

int mock_enqueue(void *stream, bool is_fatal, mock_action action, const void *arg, size_t bytes)
{
    work *w = malloc(sizeof *w + bytes);
    *w = (work){.is_fatal = is_fatal, .action = action};
    memcpy(w->arg, arg, bytes);
    if (stream != NULL) {
        mock_push(stream, do_work, w);
        return 0;
    }
    (void)do_work(w);
    free(w);
    return 0;
}

typedef struct copy {
    char *dst;
    const char *src;
    size_t dst_pitch, src_pitch, width, height;
} copy;

static int do_copy(void *arg)
{
    const copy *c = arg;
    for (size_t j = 0; j < c->height; j++) {
        mock_copy(c->dst + j * c->dst_pitch, c->src + j * c->src_pitch, c->width);
    }
    return 0;
}

enum { TO_DEVICE = 1, TO_HOST = 2, BETWEEN_DEVICES = 3 };

/* Whole runs where there are no gaps, so that a table of buffers is searched once. */
static int copy_block(const char *call, copy c, int kind, void *stream)
{
    bool is_fatal = false;
    BEGIN_LATER(MOCK_RUNTIME, call, &is_fatal);
    size_t dst_bytes = c.height == 0 ? 0 : (c.height - 1) * c.dst_pitch + c.width;
    size_t src_bytes = c.height == 0 ? 0 : (c.height - 1) * c.src_pitch + c.width;
    mock_count(kind == TO_HOST ? MOCK_DOWNLOAD : kind == BETWEEN_DEVICES ? MOCK_PEER : MOCK_UPLOAD);
    if ((kind != TO_HOST && !mock_is_on_device(c.dst, dst_bytes)) ||
        (kind != TO_DEVICE && !mock_is_on_device(c.src, src_bytes))) {
        return mock_keep(CUDA_INVALID);
    }
    bool is_pinned = kind == TO_HOST     ? mock_is_pinned(c.dst, dst_bytes)
                     : kind == TO_DEVICE ? mock_is_pinned(c.src, src_bytes)
                                         : true;
    int status = mock_enqueue(stream, is_fatal, do_copy, &c, sizeof c);
    return status != 0 || is_pinned ? status : mock_drain(stream);
}

API int cudaMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, void *stream)
{
    return copy_block("cudaMemcpyAsync", (copy){dst, src, bytes, bytes, bytes, 1}, kind, stream);
}

API int cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                          size_t width, size_t height, int kind, void *stream)
{
    return copy_block("cudaMemcpy2DAsync", (copy){dst, src, dst_pitch, src_pitch, width, height},
                      kind, stream);
}

API int cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device,
                            size_t bytes, void *stream)
{
    if (!mock_is_there(dst_device, dst, bytes) || !mock_is_there(src_device, src, bytes)) {
        return mock_keep(CUDA_INVALID);
    }
    return copy_block("cudaMemcpyPeerAsync", (copy){dst, src, bytes, bytes, bytes, 1},
                      BETWEEN_DEVICES, stream);
}

API int cudaDeviceCanAccessPeer(int *can, int device, int other)
{
    BEGIN(MOCK_RUNTIME, "cudaDeviceCanAccessPeer");
    *can = device != other && mock_has_peers();
    return 0;
}

API int cudaDeviceEnablePeerAccess(int other, unsigned flags)
{
    (void)other, (void)flags;
    BEGIN(MOCK_RUNTIME, "cudaDeviceEnablePeerAccess");
    return 0;
}
