/*
** The CUDA backend: its table, devices, memory, queues, marks, copies.
**
** gx_cuda.so is this file and its neighbours (cuda.h names them), the device code compiled by nvcc
** and embedded as bytes (gx_cuda_images), and copies of err.c, types.c, mem.c and backend.c.
** It exports gx_cuda_backend() alone, and needs no NVIDIA library to be loaded: cuda_api.c opens
** them.
**
** A device is an ordinal of the runtime with the handles of our kernels; open() launches one of
** them, so that a driver too old for the device code, or a device it was not built for, is told
** there and not in the middle of a call.  A queue is a stream with, from its first product or
** factorisation on, handles and workspaces of its own (cuda_dev.c).  A mark is an event.
**
** Every call first makes the device the calling thread's.  Memory is plain device memory.  A call
** that fails for want of memory gives GX_NOMEM, and nothing else is wrong; any other failure gives
** GX_DEVICE (cuda_fault.c).
**
** Process-wide state: the tables of NVIDIA's functions and of kernels, filled once under a lock;
** the libraries behind them are process-wide themselves.
*/
#include "cuda.h"

#include "../core/base/mem.h"

#include <stdio.h>
#include <string.h>

/*
** The device code: images for cudaLibraryLoadData(), NULL at the end; the file that each is of, ""
** for one that has all kernels; the toolkit they are of.
*/
extern const void *const gx_cuda_images[];
extern const char *const gx_cuda_image_names[];
extern const char gx_cuda_image_version[];

typedef struct shared {
    pthread_mutex_t lock;
    bool is_filled;
    int devices; /* as many as the runtime shows when the table is filled */
    gx_cuda_api api;
    gx_backend backend; /* without what this toolkit lacks */
} shared;

static shared *shared_state(void)
{
    static shared state = {.lock = PTHREAD_MUTEX_INITIALIZER};
    return &state;
}

// Device code -------------------------------------------------------------------------------------

static const struct {
    const char *name;
    const char *file; /* the .cu that has it */
    enum { EACH_DTYPE, ONE_FOR_ALL, REAL_DTYPES, F32_ALONE } serves;
    int capability; /* ten times the compute capability that alone has it; 0: every one has */
    int room;       /* bytes of shared memory that a launch adds to it                      */
} function_names[GX_CUDA_FUNCTIONS] = {
#define ROW(ID, name, file, dtypes, capability, room)                                              \
    [GX_CUDA_##ID] = {#name, #file, dtypes, capability, room},
    GX_CUDA_OWN(ROW)
#undef ROW
};

/* Both versions, where the driver cannot run the device code. */
static gx_code refuse_code(gx_dev *dev, int status, const char *call, gx_err *err)
{
    int driver = 0;
    const gx_cuda_api *api = dev->api;
    (void)api->last_error();
    bool is_version = status == GX_CUDA_NO_IMAGE || status == GX_CUDA_BAD_PTX ||
                      status == GX_CUDA_NEWER_PTX || status == GX_CUDA_BAD_SOURCE;
    if (!is_version || api->driver_version(&driver) != 0) {
        return gx_cuda_check(dev, status, call, err);
    }
    return gx_fail(err, GX_DEVICE,
                   "%s: the kernels in gx_cuda.so (CUDA %s) do not run on compute capability %d.%d "
                   "with a driver for CUDA %d.%d",
                   dev->name, gx_cuda_image_version, dev->capability / 10, dev->capability % 10,
                   driver / 1000, driver % 1000 / 10);
}

static gx_code find_function(gx_dev *dev, const char *file, const char *name,
                             gx_cuda_handle *function, gx_err *err)
{
    for (int i = 0; i < GX_CUDA_IMAGES_MAX && dev->library[i] != NULL; i++) {
        const char *image = gx_cuda_image_names[i];
        if (image[0] == '\0' || strcmp(image, file) == 0) {
            int status = dev->api->library_kernel(function, dev->library[i], name);
            return status == 0 ? GX_OK : refuse_code(dev, status, name, err);
        }
    }
    return gx_fail(err, GX_DEVICE, "gx_cuda.so has no kernels of %s", file);
}

/* What a device of another kind, or an image that was not compiled for this one, does not have. */
static gx_code find_special(gx_dev *dev, int i, const char *name, gx_cuda_handle *function,
                            gx_err *err)
{
    const int ROOM = 8; // cudaFuncAttributeMaxDynamicSharedMemorySize
    if (dev->capability != function_names[i].capability) {
        return GX_OK;
    }
    if (find_function(dev, function_names[i].file, name, function, NULL) != GX_OK) {
        *function = NULL;
        return gx_cuda_enter(dev, err);
    }
    dev->room[i] = function_names[i].room;
    return gx_cuda_check(dev, dev->api->function_set(*function, ROOM, dev->room[i]),
                         "cudaFuncSetAttribute", err);
}

static bool serves(int i, gx_number dtype)
{
    return function_names[i].serves == REAL_DTYPES ? !gx_number_is_complex(dtype)
           : function_names[i].serves == F32_ALONE ? dtype == GX_F32
                                                   : true;
}

static gx_code load_code(gx_dev *dev, gx_err *err)
{
    for (int i = 0; gx_cuda_images[i] != NULL; i++) { // no more than there is room for: Makefile
        int status = dev->api->library_load(&dev->library[i], gx_cuda_images[i], NULL, NULL, 0,
                                            NULL, NULL, 0);
        if (status != 0) {
            dev->library[i] = NULL;
            return refuse_code(dev, status, "cudaLibraryLoadData", err);
        }
    }
    static const char *const suffix[GX_FLOATS] = {"f64", "f32", "c128", "c64"};
    for (int i = 0; i < GX_CUDA_FUNCTIONS; i++) {
        for (int d = 0; d < GX_FLOATS; d++) {
            char name[64];
            bool is_one = function_names[i].serves == ONE_FOR_ALL;
            gx_cuda_handle *function = &dev->function[i][d];
            if (!serves(i, (gx_number)d)) {
                continue;
            }
            snprintf(name, sizeof name, is_one ? "%s" : "%s_%s", function_names[i].name, suffix[d]);
            GX_TRY(function_names[i].capability != 0
                       ? find_special(dev, i, name, function, err)
                       : find_function(dev, function_names[i].file, name, function, err));
        }
    }
    return GX_OK;
}

/* A launch that works: the code is for this device, and the device answers. */
static gx_code try_code(gx_dev *dev, gx_err *err)
{
    void *cell = NULL;
    GX_TRY(gx_cuda_check(dev, dev->api->malloc(&cell, 256), "cudaMalloc", err));
    gx_queue queue = {0}; // the default stream
    gx_cuda_call call = {.kernel = GX_FILL, .m = 1, .n = 1, .c = cell, .ldc = 1};
    gx_cuda_dim one = {1, 1, 1};
    void *params = &call;
    int status =
        dev->api->launch(dev->function[GX_CUDA_MAP][GX_F64], one, one, &params, 0, queue.stream);
    gx_code code = status == 0 ? GX_OK : refuse_code(dev, status, "cudaLaunchKernel", err);
    if (code == GX_OK) {
        code =
            gx_cuda_check(dev, dev->api->stream_wait(queue.stream), "cudaStreamSynchronize", err);
    }
    gx_cuda_release(dev, cell, dev->api->free, "cudaFree");
    return code;
}

// Devices -----------------------------------------------------------------------------------------

static int cuda_count(void)
{
    shared *s = shared_state();
    return s->is_filled ? s->devices : 0;
}

static void name_device(gx_dev *dev)
{
    // cudaDeviceProp differs between toolkits; all begin with the name, behind which is the UUID,
    // and none is this large.
    char properties[8192];
    memset(properties, 0, sizeof properties);
    if (dev->api->properties(properties, dev->ordinal) != 0) {
        (void)dev->api->last_error();
    }
    snprintf(dev->name, sizeof dev->name, "cuda:%d %.50s", dev->ordinal, properties);
    gx_text_clean(dev->name);
    const unsigned char *u = (const unsigned char *)properties + GX_CUDA_UUID_AT;
    snprintf(dev->uuid, sizeof dev->uuid,
             "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
             u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
             u[15]);
}

static gx_code measure_device(gx_dev *dev, gx_err *err)
{
    static const int asked[] = {GX_CUDA_ATTR_PITCH, GX_CUDA_ATTR_CC_MAJOR, GX_CUDA_ATTR_CC_MINOR};
    int answer[3] = {0};
    for (int i = 0; i < 3; i++) {
        CUDA_TRY(dev, dev->api->attribute(&answer[i], asked[i], dev->ordinal),
                 "cudaDeviceGetAttribute");
    }
    dev->pitch_most = (size_t)answer[0];
    dev->capability = 10 * answer[1] + answer[2];
    return GX_OK;
}

static void cuda_close(gx_dev *dev)
{
    if (dev == NULL) {
        return;
    }
    const gx_cuda_api *api = dev->api;
    (void)gx_cuda_enter(dev, NULL);
    gx_cuda_forget_programs(dev);
    gx_cuda_forget_plans(dev);
    for (int i = 0; i < dev->idle_marks; i++) {
        gx_cuda_release(dev, dev->idle_mark[i], api->event_destroy, "cudaEventDestroy");
    }
    gx_cuda_release(dev, dev->params, api->params_destroy, "cusolverDnDestroyParams");
    gx_cuda_release(dev, dev->solver, api->solver_destroy, "cusolverDnDestroy");
    for (int i = 0; i < GX_CUDA_IMAGES_MAX && dev->library[i] != NULL; i++) {
        gx_cuda_release(dev, dev->library[i], api->library_unload, "cudaLibraryUnload");
    }
    pthread_mutex_destroy(&dev->lock);
    gx_mem_free(NULL, dev);
}

static gx_code cuda_open(int ordinal, gx_dev **out, gx_err *err)
{
    *out = NULL;
    int count = cuda_count();
    if (ordinal < 0 || ordinal >= count) {
        return gx_fail(err, GX_ARG, "cuda has %d %s, not number %d", count,
                       count == 1 ? "device" : "devices", ordinal);
    }
    void *room;
    GX_TRY(gx_mem_calloc(NULL, sizeof(gx_dev), "device", &room, err));
    gx_dev *dev = room;
    dev->api = &shared_state()->api;
    dev->ordinal = ordinal;
    pthread_mutex_init(&dev->lock, NULL);
    gx_code code = gx_cuda_enter(dev, err);
    if (code == GX_OK) {
        name_device(dev);
        code = measure_device(dev, err);
    }
    if (code == GX_OK) {
        code = load_code(dev, err);
    }
    if (code == GX_OK) {
        code = try_code(dev, err);
    }
    if (code != GX_OK) {
        cuda_close(dev);
        return code;
    }
    *out = dev;
    return GX_OK;
}

static gx_code cuda_info(gx_dev *dev, gx_dev_info *info, gx_err *err)
{
    memset(info, 0, sizeof *info);
    memcpy(info->name, dev->name, sizeof info->name);
    memcpy(info->uuid, dev->uuid, sizeof info->uuid);
    int driver = 0, runtime = 0;
    if (dev->api->driver_version(&driver) == 0 && dev->api->runtime_version(&runtime) == 0) {
        (void)snprintf(info->driver, sizeof info->driver, "CUDA %hd.%hd, driver %hd.%hd",
                       (short)(runtime / 1000), (short)(runtime % 1000 / 10),
                       (short)(driver / 1000), (short)(driver % 1000 / 10));
    }
    GX_TRY(gx_cuda_enter(dev, err));
    CUDA_TRY(dev, dev->api->memory(&info->free_bytes, &info->total_bytes), "cudaMemGetInfo");
    return GX_OK;
}

// Memory ------------------------------------------------------------------------------------------

static void cuda_free(gx_dev *dev, void *ptr)
{
    (void)gx_cuda_enter(dev, NULL); // an address tells its device, but threads may have none yet
    gx_cuda_release(dev, ptr, dev->api->free, "cudaFree");
}

static gx_code cuda_pin(gx_dev *dev, size_t bytes, void **host, gx_err *err)
{
    *host = NULL;
    GX_TRY(gx_cuda_enter(dev, err));
    int status = dev->api->host_alloc(host, bytes == 0 ? 1 : bytes, GX_CUDA_PORTABLE);
    if (status == GX_CUDA_OUT_OF_MEMORY) {
        (void)dev->api->last_error();
        *host = NULL;
        return gx_fail(err, GX_NOMEM, "no pinned memory (%zu bytes)", bytes);
    }
    return gx_cuda_check(dev, status, "cudaHostAlloc", err);
}

static void cuda_unpin(gx_dev *dev, void *host)
{
    (void)gx_cuda_enter(dev, NULL);
    gx_cuda_release(dev, host, dev->api->free_host, "cudaFreeHost");
}

// Queues ------------------------------------------------------------------------------------------

static void queue_free(gx_dev *dev, gx_queue *queue)
{
    if (queue == NULL) {
        return;
    }
    const gx_cuda_api *api = dev->api;
    (void)gx_cuda_enter(dev, NULL);
    if (queue->stream != NULL && !gx_cuda_is_lost(dev)) {
        (void)gx_cuda_settle(dev, queue->stream, NULL); // its workspaces are in use until then
    }
    gx_cuda_release(dev, queue->params, api->params_destroy, "cusolverDnDestroyParams");
    gx_cuda_release(dev, queue->solver, api->solver_destroy, "cusolverDnDestroy");
    gx_cuda_release(dev, queue->blas, api->blas_destroy, "cublasDestroy");
    cuda_free(dev, queue->blas_work);
    cuda_unpin(dev, queue->mailbox);
    gx_cuda_release(dev, queue->event, api->event_destroy, "cudaEventDestroy");
    gx_cuda_release(dev, queue->stream, api->stream_destroy, "cudaStreamDestroy");
    gx_cuda_release(dev, queue->other, api->stream_destroy, "cudaStreamDestroy");
    gx_mem_free(NULL, queue->host_work);
    gx_mem_free(NULL, queue);
}

static gx_code queue_create(gx_dev *dev, gx_queue **out, gx_err *err)
{
    *out = NULL;
    GX_TRY(gx_cuda_enter(dev, err));
    void *room, *mailbox = NULL;
    GX_TRY(gx_mem_calloc(NULL, sizeof(gx_queue), "queue", &room, err));
    gx_queue *queue = room;
    int status = dev->api->stream_create(&queue->stream, GX_CUDA_NON_BLOCKING, 0);
    gx_code code = gx_cuda_check(dev, status, "cudaStreamCreateWithPriority", err);
    if (code == GX_OK) {
        code = gx_cuda_check(dev, dev->api->event_create(&queue->event, GX_CUDA_NO_TIMING),
                             "cudaEventCreateWithFlags", err);
    }
    if (code == GX_OK) {
        code = cuda_pin(dev, GX_CUDA_MAILBOX * sizeof(int32_t), &mailbox, err);
        queue->mailbox = mailbox;
    }
    if (code != GX_OK) {
        queue_free(dev, queue);
        return code;
    }
    *out = queue;
    return GX_OK;
}

/* The handles of a queue go with its stream; cublasSetStream takes the workspace away. */
static gx_code move_handles(gx_dev *dev, gx_queue *queue, gx_cuda_handle stream, gx_err *err)
{
    const gx_cuda_api *api = dev->api;
    if (queue->blas != NULL) {
        CUBLAS_TRY(dev, api->blas_stream(queue->blas, stream), "stream");
        GX_TRY(gx_cuda_blas_workspace(dev, queue, err));
    }
    if (queue->solver != NULL) {
        CUSOLVER_TRY(dev, api->solver_stream(queue->solver, stream), "SetStream");
    }
    return GX_OK;
}

static gx_code queue_prefer(gx_dev *dev, gx_queue *queue, bool is_preferred, gx_err *err)
{
    const gx_cuda_api *api = dev->api;
    if (queue->is_preferred == is_preferred) {
        return GX_OK;
    }
    GX_TRY(gx_cuda_enter(dev, err));
    if (queue->other == NULL) {
        int priority = is_preferred ? GX_CUDA_PREFERRED : 0;
        CUDA_TRY(dev, api->stream_create(&queue->other, GX_CUDA_NON_BLOCKING, priority),
                 "cudaStreamCreateWithPriority");
    }
    gx_cuda_handle before = queue->stream;
    CUDA_TRY(dev, api->event_record(queue->event, before), "cudaEventRecord");
    CUDA_TRY(dev, api->stream_after(queue->other, queue->event, 0), "cudaStreamWaitEvent");
    queue->stream = queue->other;
    queue->other = before;
    queue->is_preferred = is_preferred;
    return move_handles(dev, queue, queue->stream, err);
}

// Marks: an event is one already ------------------------------------------------------------------

/* One that somebody gave back, or a new one: programs want dozens, for a millisecond. */
static gx_code mark_create(gx_dev *dev, gx_mark **mark, gx_err *err)
{
    gx_cuda_handle event = NULL;
    *mark = NULL;
    GX_TRY(gx_cuda_enter(dev, err));
    pthread_mutex_lock(&dev->lock);
    if (dev->idle_marks > 0) {
        event = dev->idle_mark[--dev->idle_marks];
    }
    pthread_mutex_unlock(&dev->lock);
    if (event == NULL) {
        CUDA_TRY(dev, dev->api->event_create(&event, GX_CUDA_NO_TIMING),
                 "cudaEventCreateWithFlags");
    }
    *mark = event;
    return GX_OK;
}

static void mark_free(gx_dev *dev, gx_mark *mark)
{
    bool is_kept = false;
    pthread_mutex_lock(&dev->lock);
    if (mark != NULL && !gx_cuda_is_lost(dev) && dev->idle_marks < GX_CUDA_MARKS) {
        dev->idle_mark[dev->idle_marks++] = mark;
        is_kept = true;
    }
    pthread_mutex_unlock(&dev->lock);
    if (!is_kept) {
        gx_cuda_release(dev, mark, dev->api->event_destroy, "cudaEventDestroy");
    }
}

static gx_code mark_set(gx_dev *dev, gx_queue *queue, gx_mark *mark, gx_err *err)
{
    GX_TRY(gx_cuda_enter(dev, err));
    return gx_cuda_check(dev, dev->api->event_record(mark, queue->stream), "cudaEventRecord", err);
}

static gx_code mark_wait(gx_dev *dev, gx_mark *mark, gx_err *err)
{
    GX_TRY(gx_cuda_enter(dev, err));
    return gx_cuda_check(dev, dev->api->event_wait(mark), "cudaEventSynchronize", err);
}

static gx_code queue_after_mark(gx_dev *dev, gx_queue *queue, gx_mark *mark, gx_err *err)
{
    GX_TRY(gx_cuda_enter(dev, err));
    return gx_cuda_check(dev, dev->api->stream_after(queue->stream, mark, 0), "cudaStreamWaitEvent",
                         err);
}

// Records: graphs ---------------------------------------------------------------------------------

static gx_code record_begin(gx_dev *dev, gx_queue *queue, gx_err *err)
{
    const gx_cuda_api *api = dev->api;
    if (api->capture_begin == NULL || api->capture_end == NULL || api->graph_make == NULL ||
        api->graph_launch == NULL || api->graph_destroy == NULL || api->graph_unmake == NULL) {
        return gx_fail(err, GX_UNSUPPORTED, "%s: the CUDA runtime has no graphs", dev->name);
    }
    GX_TRY(gx_cuda_enter(dev, err));
    return gx_cuda_check(dev, api->capture_begin(queue->stream, GX_CUDA_RELAXED),
                         "cudaStreamBeginCapture", err);
}

static gx_code record_end(gx_dev *dev, gx_queue *queue, gx_record **record, gx_err *err)
{
    gx_cuda_handle graph = NULL, made = NULL;
    *record = NULL;
    (void)gx_cuda_enter(dev, NULL); // whatever comes of it, the stream records no longer
    gx_code code = gx_cuda_check(dev, dev->api->capture_end(queue->stream, &graph),
                                 "cudaStreamEndCapture", err);
    if (code == GX_OK) {
        code =
            gx_cuda_check(dev, dev->api->graph_make(&made, graph, 0), "cudaGraphInstantiate", err);
    }
    gx_cuda_release(dev, graph, dev->api->graph_destroy, "cudaGraphDestroy");
    *record = code == GX_OK ? made : NULL;
    return code;
}

static gx_code replay(gx_dev *dev, gx_queue *queue, gx_record *record, gx_err *err)
{
    GX_TRY(gx_cuda_enter(dev, err));
    return gx_cuda_check(dev, dev->api->graph_launch(record, queue->stream), "cudaGraphLaunch",
                         err);
}

static void record_free(gx_dev *dev, gx_record *record)
{
    (void)gx_cuda_enter(dev, NULL);
    gx_cuda_release(dev, record, dev->api->graph_unmake, "cudaGraphExecDestroy");
}

// Copies ------------------------------------------------------------------------------------------

/* One run where the columns follow each other, two dimensions where a pitch allows, or columns. */
static gx_code copy_columns(gx_dev *dev, gx_queue *queue, int kind, char *dst, size_t dst_ld_bytes,
                            const char *src, size_t src_ld_bytes, size_t col_bytes, size_t cols,
                            gx_err *err)
{
    if (col_bytes == 0 || cols == 0) {
        return GX_OK;
    }
    GX_TRY(gx_cuda_enter(dev, err));
    const gx_cuda_api *api = dev->api;
    if (cols == 1 || (dst_ld_bytes == col_bytes && src_ld_bytes == col_bytes)) {
        int status = api->copy(dst, src, col_bytes * cols, kind, queue->stream);
        return gx_cuda_check(dev, status, "cudaMemcpyAsync", err);
    }
    if (dst_ld_bytes <= dev->pitch_most && src_ld_bytes <= dev->pitch_most) {
        int status = api->copy_2d(dst, dst_ld_bytes, src, src_ld_bytes, col_bytes, cols, kind,
                                  queue->stream);
        return gx_cuda_check(dev, status, "cudaMemcpy2DAsync", err);
    }
    for (size_t j = 0; j < cols; j++) {
        int status = api->copy(dst + j * dst_ld_bytes, src + j * src_ld_bytes, col_bytes, kind,
                               queue->stream);
        GX_TRY(gx_cuda_check(dev, status, "cudaMemcpyAsync", err));
    }
    return GX_OK;
}

static gx_code upload(gx_dev *dev, gx_queue *queue, void *dst, size_t dst_ld_bytes, const void *src,
                      size_t src_ld_bytes, size_t col_bytes, size_t cols, gx_err *err)
{
    return copy_columns(dev, queue, GX_CUDA_HOST_TO_DEVICE, dst, dst_ld_bytes, src, src_ld_bytes,
                        col_bytes, cols, err);
}

static gx_code download(gx_dev *dev, gx_queue *queue, void *dst, size_t dst_ld_bytes,
                        const void *src, size_t src_ld_bytes, size_t col_bytes, size_t cols,
                        gx_err *err)
{
    return copy_columns(dev, queue, GX_CUDA_DEVICE_TO_HOST, dst, dst_ld_bytes, src, src_ld_bytes,
                        col_bytes, cols, err);
}

// Other devices -----------------------------------------------------------------------------------

/* Where the way is barred the driver copies through the host: no failure. */
static bool reaches(gx_dev *dev, gx_dev *other)
{
    int can = 0;
    const gx_cuda_api *api = dev->api;
    if (gx_cuda_enter(dev, NULL) != GX_OK ||
        api->can_reach(&can, dev->ordinal, other->ordinal) != 0 || can == 0) {
        (void)api->last_error();
        return false;
    }
    int status = api->reach(other->ordinal, 0);
    if (status != 0) {
        (void)api->last_error();
    }
    return status == 0 || status == GX_CUDA_REACHED;
}

static gx_code copy_from(gx_dev *dev, gx_queue *queue, void *dst, gx_dev *other, const void *src,
                         size_t bytes, gx_err *err)
{
    if (bytes == 0) {
        return GX_OK;
    }
    GX_TRY(gx_cuda_enter(dev, err));
    return gx_cuda_check(
        dev, dev->api->copy_peer(dst, dev->ordinal, src, other->ordinal, bytes, queue->stream),
        "cudaMemcpyPeerAsync", err);
}

// The table ---------------------------------------------------------------------------------------

static size_t own_workspace(gx_dev *dev, gx_kernel_id kernel, gx_number dtype, const gx_args *args)
{
    if (dtype == GX_M31) {
        bool has_twiddles = kernel == GX_CIRCLE && args->c2 == NULL;
        return kernel == GX_GEMM      ? gx_cuda_field_bytes(args)
               : has_twiddles         ? sizeof(uint32_t) << args->pivot_last
               : kernel == GX_COMBINE ? gx_cuda_combine_bytes(args)
                                      : 0;
    }
    if (args->by_residues) {
        return gx_cuda_residues_bytes(args);
    }
    switch (kernel) {
    case GX_GEMM:
        return gx_max(gx_cuda_half_bytes(dev, dtype, args),
                      gx_cuda_narrow_bytes(dev, kernel, dtype, args));
    case GX_SYRK:
    case GX_HERK:
        return gx_cuda_narrow_bytes(dev, kernel, dtype, args);
    case GX_REDUCE:
        return gx_cuda_reduce_bytes(args);
    case GX_FUSED:
        return gx_cuda_fused_bytes(args);
    case GX_NEAREST:
        return gx_cuda_nearest_bytes(dev, dtype, args);
    case GX_SPMM:
        return gx_cuda_spmm_bytes(dtype, args);
    case GX_POTRF:
    case GX_GETRF:
        return gx_cuda_solver_bytes(dev, kernel, dtype, args);
    case GX_GEQRF:
    case GX_LARFT:
    case GX_LARFB:
    case GX_ORMQR:
    case GX_ORGQR:
    case GX_TPQRT:
    case GX_TPMQRT:
        return gx_cuda_qr_bytes(dev, kernel, dtype, args);
    case GX_SYEV:
    case GX_GEEV:
    case GX_GESDD:
        return gx_cuda_spectra_bytes(dev, kernel, dtype, args);
    case GX_FFT:
        return gx_cuda_fft_bytes(dev, dtype, args);
    case GX_GRID:
        return gx_cuda_grid_bytes(args);
    default:
        return 0;
    }
}

/* With room for gx_cuda_aligned(). */
static size_t workspace(gx_dev *dev, gx_kernel_id kernel, gx_number dtype, const gx_args *args)
{
    size_t bytes = own_workspace(dev, kernel, dtype, args);
    if (bytes >= GX_NO_WORKSPACE) {
        return GX_NO_WORKSPACE;
    }
    return bytes == 0 ? 0 : bytes + 256;
}

static const gx_backend backend_cuda = {
    .abi = GX_BACKEND_ABI,
    .name = "cuda",
    .count = cuda_count,
    .open = cuda_open,
    .close = cuda_close,
    .info = cuda_info,
    .alloc = gx_cuda_alloc,
    .free = cuda_free,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .queue_create = queue_create,
    .queue_free = queue_free,
    .queue_wait = gx_cuda_queue_wait,
    .queue_prefer = queue_prefer,
    .mark_create = mark_create,
    .mark_free = mark_free,
    .mark_set = mark_set,
    .mark_wait = mark_wait,
    .queue_after_mark = queue_after_mark,
    .record_begin = record_begin,
    .record_end = record_end,
    .replay = replay,
    .record_free = record_free,
    .upload = upload,
    .download = download,
    .reaches = reaches,
    .copy_from = copy_from,
    .kernel = {GX_CUDA_KERNELS(GX_KERNEL_ROW) GX_CUDA_REAL_KERNELS(GX_REAL_ROW)
                   GX_CUDA_FIELD_KERNELS(GX_FIELD_ROW)[GX_ONE_HOT][GX_F64] = gx_cuda_one_hot_f64,
               [GX_GRID][GX_F64] = gx_cuda_grid_f64},
    .workspace = workspace,
};

__attribute__((visibility("default"))) const gx_backend *gx_cuda_backend(const char *cuda_path,
                                                                         gx_err *err);

const gx_backend *gx_cuda_backend(const char *cuda_path, gx_err *err)
{
    shared *s = shared_state();
    pthread_mutex_lock(&s->lock);
    if (!s->is_filled) {
        s->is_filled = gx_cuda_api_open(cuda_path == NULL ? "" : cuda_path, &s->api, err) == GX_OK;
        if (s->is_filled && s->api.count(&s->devices) != 0) {
            (void)s->api.last_error();
            s->devices = 1; // opening it will say what is wrong
        }
        s->devices = (int)gx_min(s->devices, GX_CUDA_DEVICES_MAX);
        s->backend = backend_cuda;
        if (s->api.fft_run == NULL) {
            memset(s->backend.kernel[GX_FFT], 0, sizeof s->backend.kernel[GX_FFT]);
        }
    }
    bool is_filled = s->is_filled;
    pthread_mutex_unlock(&s->lock);
    return is_filled ? &s->backend : NULL;
}
