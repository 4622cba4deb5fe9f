/*
** A stand-in for gx_cuda.so: a backend with memory and queues of its own whose kernels are the
** reference ones.
**
** Everything between the SQL function and the backend's table is the real thing; what is behind
** the table is mock_machine.c.  Kernels run when their queue gets to them, on device memory that
** was full of NaNs, so that a copy that comes too late shows.
*/
#include "../../core/base/backend.h"
#include "../oracle/oracle.h"
#include "mock_machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gx_dev {
    int ordinal;
};

static gx_code fail(const gx_dev *dev, gx_err *err, const char *call)
{
    return gx_fail(err, GX_DEVICE, "%s on mock:%d: ordered failure", call,
                   dev == NULL ? 0 : dev->ordinal);
}

static bool fails(const gx_dev *dev, const char *call)
{
    return mock_fails_on(dev->ordinal, call);
}

static int count(void)
{
    return mock_devices();
}

static gx_code open_device(int ordinal, gx_dev **dev, gx_err *err)
{
    *dev = NULL;
    if (ordinal < 0 || ordinal >= mock_devices()) {
        return gx_fail(err, GX_DEVICE, "no device %d: there are %d", ordinal, mock_devices());
    }
    if (mock_fails_on(ordinal, "open")) {
        return fail(&(gx_dev){.ordinal = ordinal}, err, "open");
    }
    *dev = calloc(1, sizeof **dev);
    (*dev)->ordinal = ordinal;
    return GX_OK;
}

static void close_device(gx_dev *dev)
{
    free(dev);
}

static gx_code info(gx_dev *dev, gx_dev_info *out, gx_err *err)
{
    memset(out, 0, sizeof *out);
    if (fails(dev, "info")) {
        return fail(dev, err, "info");
    }
    const char *name = getenv("MOCK_NAME");
    snprintf(out->name, sizeof out->name, "cuda:%d %.40s", dev->ordinal,
             name == NULL ? "mock" : name);
    snprintf(out->uuid, sizeof out->uuid, "GPU-6d6f636b-0000-4000-8000-%012x",
             (unsigned)dev->ordinal);
    out->total_bytes = mock_memory_of(dev->ordinal);
    out->free_bytes = mock_device_free_bytes_on(dev->ordinal);
    return GX_OK;
}

static gx_code alloc(gx_dev *dev, size_t bytes, void **ptr, gx_err *err)
{
    *ptr = NULL;
    if (fails(dev, "alloc")) {
        return fail(dev, err, "alloc");
    }
    *ptr = fails(dev, "memory") ? NULL : mock_device_alloc_on(dev->ordinal, bytes);
    return *ptr == NULL ? gx_fail(err, GX_NOMEM, "out of device memory: %zu bytes", bytes) : GX_OK;
}

static void free_buffer(gx_dev *dev, void *ptr)
{
    (void)dev;
    mock_device_free(ptr);
}

static gx_code pin(gx_dev *dev, size_t bytes, void **host, gx_err *err)
{
    *host = fails(dev, "pin") ? NULL : mock_pin(bytes);
    return *host == NULL ? gx_fail(err, GX_NOMEM, "no page-locked memory: %zu bytes", bytes)
                         : GX_OK;
}

static void unpin(gx_dev *dev, void *host)
{
    (void)dev;
    mock_unpin(host);
}

// Queues and marks --------------------------------------------------------------------------------

static mock_queue *queue_of(gx_queue *queue)
{
    return (mock_queue *)(void *)queue;
}

static mock_mark *mark_of(gx_mark *mark)
{
    return (mock_mark *)(void *)mark;
}

static gx_code queue_create(gx_dev *dev, gx_queue **queue, gx_err *err)
{
    *queue = NULL;
    if (fails(dev, "queue_create")) {
        return fail(dev, err, "queue_create");
    }
    *queue = (gx_queue *)(void *)mock_queue_create_on(dev->ordinal);
    return *queue != NULL ? GX_OK
                          : gx_fail(err, GX_DEVICE, "queue_create on mock:%d: no thread to be had",
                                    dev->ordinal);
}

static void queue_free(gx_dev *dev, gx_queue *queue)
{
    (void)dev;
    mock_queue_free(queue_of(queue));
}

static gx_code queue_wait(gx_dev *dev, gx_queue *queue, gx_err *err)
{
    bool has_failed = fails(dev, "queue_wait");
    has_failed = mock_queue_wait(queue_of(queue)) != 0 || has_failed;
    return has_failed ? fail(dev, err, "queue_wait") : GX_OK;
}

static gx_code mark_create(gx_dev *dev, gx_mark **mark, gx_err *err)
{
    *mark = NULL;
    if (fails(dev, "mark_create")) {
        return fail(dev, err, "mark_create");
    }
    *mark = (gx_mark *)(void *)mock_mark_create();
    return GX_OK;
}

static void mark_free(gx_dev *dev, gx_mark *mark)
{
    (void)dev;
    mock_mark_free(mark_of(mark));
}

static gx_code mark_set(gx_dev *dev, gx_queue *queue, gx_mark *mark, gx_err *err)
{
    if (fails(dev, "mark_set")) {
        return fail(dev, err, "mark_set");
    }
    mock_mark_set(mark_of(mark), queue_of(queue));
    return GX_OK;
}

static gx_code mark_wait(gx_dev *dev, gx_mark *mark, gx_err *err)
{
    bool has_failed = fails(dev, "mark_wait");
    return mock_mark_wait(mark_of(mark)) != 0 || has_failed ? fail(dev, err, "mark_wait") : GX_OK;
}

static gx_code queue_after_mark(gx_dev *dev, gx_queue *queue, gx_mark *mark, gx_err *err)
{
    if (fails(dev, "queue_after_mark")) {
        return fail(dev, err, "queue_after_mark");
    }
    mock_queue_after(queue_of(queue), mark_of(mark));
    return GX_OK;
}

static gx_code record_begin(gx_dev *dev, gx_queue *queue, gx_err *err)
{
    if (fails(dev, "record_begin")) {
        return fail(dev, err, "record_begin");
    }
    mock_record_begin(queue_of(queue));
    return GX_OK;
}

static void record_free(gx_dev *dev, gx_record *record)
{
    (void)dev;
    mock_recording_free((mock_recording *)(void *)record);
}

static gx_code record_end(gx_dev *dev, gx_queue *queue, gx_record **record, gx_err *err)
{
    *record = (gx_record *)(void *)mock_record_end(queue_of(queue));
    if (fails(dev, "record_end") || *record == NULL) {
        record_free(dev, *record);
        *record = NULL;
        return fail(dev, err, "record_end");
    }
    return GX_OK;
}

static gx_code replay(gx_dev *dev, gx_queue *queue, gx_record *record, gx_err *err)
{
    if (fails(dev, "replay")) {
        return fail(dev, err, "replay");
    }
    mock_replay(queue_of(queue), (mock_recording *)(void *)record);
    return GX_OK;
}

static gx_code queue_prefer(gx_dev *dev, gx_queue *queue, bool is_preferred, gx_err *err)
{
    if (fails(dev, "queue_prefer")) {
        return fail(dev, err, "queue_prefer");
    }
    mock_queue_prefer(queue_of(queue), is_preferred);
    return GX_OK;
}

// Copies ------------------------------------------------------------------------------------------

typedef struct copy {
    void *dst;
    const void *src;
    size_t dst_ld, src_ld, bytes, cols;
} copy;

static int run_copy(void *arg)
{
    const copy *c = arg;
    for (size_t j = 0; j < c->cols; j++) {
        mock_copy((char *)c->dst + j * c->dst_ld, (const char *)c->src + j * c->src_ld, c->bytes);
    }
    return 0;
}

static gx_code enqueue_copy(gx_queue *queue, const copy *what)
{
    copy *c = malloc(sizeof *c);
    *c = *what;
    mock_push(queue_of(queue), run_copy, c);
    return GX_OK;
}

static gx_code upload(gx_dev *dev, gx_queue *queue, void *dst, size_t dst_ld, const void *src,
                      size_t src_ld, size_t bytes, size_t cols, gx_err *err)
{
    mock_count(MOCK_UPLOAD);
    if (fails(dev, "upload") ||
        !mock_is_there(dev->ordinal, dst, cols == 0 ? 0 : (cols - 1) * dst_ld + bytes)) {
        return fail(dev, err, "upload");
    }
    return enqueue_copy(queue, &(copy){dst, src, dst_ld, src_ld, bytes, cols});
}

static gx_code download(gx_dev *dev, gx_queue *queue, void *dst, size_t dst_ld, const void *src,
                        size_t src_ld, size_t bytes, size_t cols, gx_err *err)
{
    mock_count(MOCK_DOWNLOAD);
    if (fails(dev, "download") ||
        !mock_is_there(dev->ordinal, src, cols == 0 ? 0 : (cols - 1) * src_ld + bytes)) {
        return fail(dev, err, "download");
    }
    return enqueue_copy(queue, &(copy){dst, src, dst_ld, src_ld, bytes, cols});
}

static bool reaches(gx_dev *dev, gx_dev *other)
{
    return dev->ordinal != other->ordinal && mock_has_peers();
}

static gx_code copy_from(gx_dev *dev, gx_queue *queue, void *dst, gx_dev *other, const void *src,
                         size_t bytes, gx_err *err)
{
    mock_count(MOCK_PEER);
    if (fails(dev, "copy_from") || !mock_is_there(dev->ordinal, dst, bytes) ||
        !mock_is_there(other->ordinal, src, bytes)) {
        return fail(dev, err, "copy_from");
    }
    return enqueue_copy(queue, &(copy){dst, src, bytes, bytes, bytes, 1});
}

// Kernels -----------------------------------------------------------------------------------------

typedef struct kernel_call {
    gx_kernel kernel;
    gx_kernel_id id;
    int device;
    gx_args args;
    gx_nearest nearest;
    gx_csr sparse;
    gx_grid_job grid;
    gx_fused_place in[GX_FUSED_INPUTS], out[GX_FUSED_OUTPUTS]; /* FUSED: the caller's last as */
    double *fold[GX_FUSED_OUTPUTS];                            /* long as the call            */
} kernel_call;

static int run_kernel(void *arg)
{
    kernel_call *call = arg;
    gx_err err = {0};
    gx_dev *dev = NULL;
    int64_t info = 0;
    int32_t *outcome = call->args.nearest != NULL ? call->nearest.outcome : NULL;
    call->args.info = outcome != NULL ? &info : call->args.info;
    gx_oracle.open(0, &dev, &err);
    gx_code rc = call->kernel(dev, NULL, &call->args, &err);
    if (outcome != NULL) {
        *outcome = (int32_t)info;
    }
    gx_oracle.close(dev);
    bool is_spectrum = call->id == GX_SYEV || call->id == GX_GEEV || call->id == GX_GESDD;
    if (is_spectrum && mock_fails_on(call->device, "wrong")) { // not right, without a word
        memset(call->args.values, 0x3f, sizeof(float));
    }
    return rc != GX_OK || mock_fails_on(call->device, "kernel_later");
}

/* Blocks of another device's memory would serve here, where all of it is the host's. */
static bool is_at_home(const gx_dev *dev, gx_kernel_id id, const gx_args *args)
{
    bool is_lent = id == GX_CONVERT && mock_is_pinned(args->a, 1);
    const void *refused = args->grid == NULL ? NULL : args->grid->refused;
    const void *block[] = {is_lent ? NULL : args->a, args->b, args->c, args->c2, args->b2, refused};
    bool is_good = true;
    for (int k = 0; k < 6; k++) {
        is_good = is_good && (block[k] == NULL || mock_is_there(dev->ordinal, block[k], 1));
    }
    if (args->sparse != NULL) {
        const gx_csr *s = args->sparse;
        size_t starts = (size_t)(s->rows + 1) * sizeof *s->start, entries = (size_t)s->entries;
        is_good = is_good && mock_is_there(dev->ordinal, s->start, starts) &&
                  mock_is_there(dev->ordinal, s->index, entries * (size_t)s->index_bytes) &&
                  mock_is_there(dev->ordinal, s->value, entries * gx_number_bytes(s->dtype));
    }
    return is_good;
}

static gx_code enqueue(gx_dev *dev, gx_kernel_id id, gx_number dtype, gx_queue *queue,
                       const gx_args *args, gx_err *err)
{
    mock_count(MOCK_KERNEL);
    if (fails(dev, gx_kernel_name(id)) || fails(dev, "kernel") || !is_at_home(dev, id, args)) {
        return fail(dev, err, gx_kernel_name(id));
    }
    kernel_call *call = malloc(sizeof *call);
    *call = (kernel_call){.kernel = gx_oracle.kernel[id][dtype],
                          .id = id,
                          .device = dev->ordinal,
                          .args = *args};
    if (args->nearest != NULL) {
        call->nearest = *args->nearest;
        call->args.nearest = &call->nearest;
    }
    if (id == GX_SPMM) {
        call->sparse = *args->sparse;
        call->args.sparse = &call->sparse;
    }
    if (id == GX_GRID) {
        call->grid = *args->grid;
        call->args.grid = &call->grid;
    }
    if (id == GX_FUSED) {
        memcpy(call->in, args->in, (size_t)args->fused->inputs * sizeof *call->in);
        memcpy(call->out, args->out, (size_t)args->fused->outputs * sizeof *call->out);
        memcpy(call->fold, args->fold, (size_t)args->fused->outputs * sizeof *call->fold);
        call->args.in = call->in;
        call->args.out = call->out;
        call->args.fold = call->fold;
    }
    mock_push_kernel(queue_of(queue), run_kernel, call);
    return GX_OK;
}

/* One function for each kernel and dtype, because a kernel is not told which it is. */
#define KERNEL(id, dtype)                                                                          \
    static gx_code call_##id##_##dtype(gx_dev *dev, gx_queue *queue, const gx_args *args,          \
                                       gx_err *err)                                                \
    {                                                                                              \
        return enqueue(dev, id, dtype, queue, args, err);                                          \
    }
#define KERNELS(id) KERNEL(id, GX_F64) KERNEL(id, GX_F32) KERNEL(id, GX_C128) KERNEL(id, GX_C64)
#define SLOTS(id)                                                                                  \
    [id] = {[GX_F64] = call_##id##_GX_F64,                                                         \
            [GX_F32] = call_##id##_GX_F32,                                                         \
            [GX_C128] = call_##id##_GX_C128,                                                       \
            [GX_C64] = call_##id##_GX_C64}

KERNELS(GX_GEMM)
KERNELS(GX_SYRK)
KERNELS(GX_HERK)
KERNELS(GX_FILL)
KERNELS(GX_COPY)
KERNELS(GX_TRANSPOSE)
KERNELS(GX_MAP)
KERNELS(GX_SYMMETRIZE)
KERNELS(GX_TRIANGLE)
KERNELS(GX_TRSM)
KERNELS(GX_TRMM)
KERNELS(GX_POTRF)
KERNELS(GX_GETRF)
KERNELS(GX_LASWP)
KERNELS(GX_GEQRF)
KERNELS(GX_LARFT)
KERNELS(GX_LARFB)
KERNELS(GX_ORMQR)
KERNELS(GX_ORGQR)
KERNELS(GX_TPQRT)
KERNELS(GX_TPMQRT)
KERNELS(GX_SYEV)
KERNELS(GX_GEEV)
KERNELS(GX_GESDD)
KERNELS(GX_CONVERT)
KERNELS(GX_FUSED)
KERNELS(GX_APART)
KERNELS(GX_MERIT)
KERNELS(GX_NEAREST)
KERNELS(GX_SPMM)
KERNELS(GX_FFT)
KERNEL(GX_GRID, GX_F64)

static size_t workspace(gx_dev *dev, gx_kernel_id kernel, gx_number dtype, const gx_args *args)
{
    (void)dev;
    return gx_oracle.workspace == NULL ? 0
                                            : gx_oracle.workspace(NULL, kernel, dtype, args);
}

static const gx_backend backend = {
    .abi = GX_BACKEND_ABI,
    .name = "cuda",
    .count = count,
    .open = open_device,
    .close = close_device,
    .info = info,
    .alloc = alloc,
    .free = free_buffer,
    .pin = pin,
    .unpin = unpin,
    .queue_create = queue_create,
    .queue_free = queue_free,
    .queue_wait = queue_wait,
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
    .workspace = workspace,
    .kernel = {SLOTS(GX_GEMM), SLOTS(GX_SYRK), SLOTS(GX_HERK), SLOTS(GX_FILL),
               SLOTS(GX_COPY), SLOTS(GX_TRANSPOSE), SLOTS(GX_MAP), SLOTS(GX_SYMMETRIZE),
               SLOTS(GX_TRIANGLE), SLOTS(GX_TRSM), SLOTS(GX_TRMM), SLOTS(GX_POTRF),
               SLOTS(GX_GETRF), SLOTS(GX_LASWP), SLOTS(GX_GEQRF), SLOTS(GX_LARFT),
               SLOTS(GX_LARFB), SLOTS(GX_ORMQR), SLOTS(GX_ORGQR), SLOTS(GX_TPQRT),
               SLOTS(GX_TPMQRT), SLOTS(GX_SYEV), SLOTS(GX_GEEV), SLOTS(GX_GESDD),
               SLOTS(GX_CONVERT), SLOTS(GX_FUSED), SLOTS(GX_APART), SLOTS(GX_MERIT),
               SLOTS(GX_NEAREST), SLOTS(GX_SPMM), SLOTS(GX_FFT),
               [GX_GRID] = {[GX_F64] = call_GX_GRID_GX_F64}},
};

MOCK_API const gx_backend *gx_cuda_backend(const char *cuda_path, gx_err *err);

const gx_backend *gx_cuda_backend(const char *cuda_path, gx_err *err)
{
    (void)cuda_path;
    if (getenv("MOCK_NO_DRIVER") != NULL) {
        gx_fail(err, GX_DEVICE, "no NVIDIA driver: libcuda.so.1 is missing");
        return NULL;
    }
    return &backend;
}
