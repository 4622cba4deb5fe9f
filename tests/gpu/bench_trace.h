/*
** A part of bench_core.c, which includes it when it has said what a bench is: one call, looked at
** on each device.  GX_BENCH_TRACE=1 prints it behind each time.
**
** The backend's table is copied, and what the executor enqueues is put between two events that keep
** the time.  Printed of each device: when its first and last kernel ran, how long each queue was
** busy, and how long the one of kernels was not, by what the kernel that came next waited for:
**
**   read      a copy up that was not enqueued yet: not read, or no buffer to read into
**   up        a copy up that was under way
**   across    a copy from another device
**   kernel    a kernel of another device, or copies down
**   info      the conductor waited for a result (POTRF), or for its ring of marks
**   enqueue   nothing of these: the conductor came too late
*/
#ifndef BENCH_TRACE_H
#define BENCH_TRACE_H

#include "../../kernels/cuda.h"

enum { TRACE_OPS = 1 << 16, TRACE_WAITS = 12, TRACE_MARKS = 1 << 13, TRACE_PAUSES = 1 << 14 };

typedef enum trace_queue { QUEUE_RUN, QUEUE_UP, QUEUE_DOWN, QUEUE_IN, QUEUES } trace_queue;

/* Something in a queue. */
typedef struct trace_op {
    int device;
    trace_queue queue;
    const char *name;
    double asked, begin, end; /* seconds since the call began */
    gx_cuda_handle events[2];
    int32_t wait[TRACE_WAITS]; /* the operations that its queue was told to wait for */
    int waits;
    double bytes;
} trace_op;

typedef struct trace_mark {
    gx_mark *mark;
    int32_t op; /* it was set behind; -1: none */
} trace_mark;

static struct trace {
    pthread_mutex_t lock;
    const gx_backend *real;
    gx_backend table;
    int (*elapsed)(float *ms, gx_cuda_handle from, gx_cuda_handle to);
    gx_accel *accel[GX_DEVICES_MOST];
    gx_cuda_handle base[GX_DEVICES_MOST];
    int devices;
    double base_s[GX_DEVICES_MOST], start_s;
    trace_op *op;
    int32_t ops, last[GX_DEVICES_MOST][QUEUES];
    trace_op waiting[GX_DEVICES_MOST][QUEUES]; /* whose waits are those of the next one */
    trace_mark mark[TRACE_MARKS];
    struct {
        double begin, end;
    } pause[TRACE_PAUSES]; /* of the conductor, for the device */
    int pauses;
} trace = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int trace_device(const gx_dev *dev)
{
    int d = 0;
    while (d + 1 < trace.devices && trace.accel[d]->dev != dev) {
        d++;
    }
    return d;
}

static trace_queue trace_queue_of(int d, const gx_queue *queue)
{
    const gx_accel *a = trace.accel[d];
    return queue == a->up     ? QUEUE_UP
           : queue == a->down ? QUEUE_DOWN
           : queue == a->in   ? QUEUE_IN
                              : QUEUE_RUN;
}

/* The first of its two events; -1: no room for more. */
static int32_t trace_begin(gx_dev *dev, gx_queue *queue, const char *name, double bytes)
{
    int d = trace_device(dev);
    trace_queue q = trace_queue_of(d, queue);
    pthread_mutex_lock(&trace.lock);
    int32_t at = trace.ops < TRACE_OPS ? trace.ops++ : -1;
    if (at >= 0) {
        trace.op[at] = trace.waiting[d][q];
        trace.op[at].device = d;
        trace.op[at].queue = q;
        trace.op[at].name = name;
        trace.op[at].bytes = bytes;
        trace.op[at].asked = now() - trace.start_s;
        trace.waiting[d][q].waits = 0;
        trace.last[d][q] = at;
    }
    pthread_mutex_unlock(&trace.lock);
    for (int k = 0; k < 2 && at >= 0; k++) {
        dev->api->set_device(dev->ordinal);
        dev->api->event_create(&trace.op[at].events[k], 0);
    }
    if (at >= 0) {
        dev->api->event_record(trace.op[at].events[0], queue->stream);
    }
    return at;
}

static void trace_end(gx_dev *dev, gx_queue *queue, int32_t at)
{
    if (at >= 0) {
        dev->api->set_device(dev->ordinal);
        dev->api->event_record(trace.op[at].events[1], queue->stream);
    }
}

// The backend's functions, between two events -----------------------------------------------------

static gx_code trace_upload(gx_dev *dev, gx_queue *queue, void *dst, size_t dst_ld, const void *src,
                            size_t src_ld, size_t column, size_t cols, gx_err *err)
{
    int32_t at = trace_begin(dev, queue, "up", (double)(column * cols));
    gx_code code = trace.real->upload(dev, queue, dst, dst_ld, src, src_ld, column, cols, err);
    trace_end(dev, queue, at);
    return code;
}

static gx_code trace_download(gx_dev *dev, gx_queue *queue, void *dst, size_t dst_ld,
                              const void *src, size_t src_ld, size_t column, size_t cols,
                              gx_err *err)
{
    int32_t at = trace_begin(dev, queue, "down", (double)(column * cols));
    gx_code code = trace.real->download(dev, queue, dst, dst_ld, src, src_ld, column, cols, err);
    trace_end(dev, queue, at);
    return code;
}

static gx_code trace_copy_from(gx_dev *dev, gx_queue *queue, void *dst, gx_dev *other,
                               const void *src, size_t bytes, gx_err *err)
{
    int32_t at = trace_begin(dev, queue, "in", (double)bytes);
    gx_code code = trace.real->copy_from(dev, queue, dst, other, src, bytes, err);
    trace_end(dev, queue, at);
    return code;
}

#define TRACED_KERNEL(name, id)                                                                    \
    static gx_code trace_##name(gx_dev *dev, gx_queue *queue, const gx_args *args, gx_err *err)    \
    {                                                                                              \
        int32_t at = trace_begin(dev, queue, #name, 0);                                            \
        gx_code code = trace.real->kernel[id][GX_F64](dev, queue, args, err);                      \
        trace_end(dev, queue, at);                                                                 \
        return code;                                                                               \
    }
TRACED_KERNEL(gemm, GX_GEMM)
TRACED_KERNEL(syrk, GX_SYRK)
TRACED_KERNEL(herk, GX_HERK)
TRACED_KERNEL(trsm, GX_TRSM)
TRACED_KERNEL(potrf, GX_POTRF)
TRACED_KERNEL(fill, GX_FILL)
TRACED_KERNEL(triangle, GX_TRIANGLE)

static const struct {
    const char *name;
    gx_kernel_id id;
    gx_kernel traced;
} trace_kernel[] = {{"gemm", GX_GEMM, trace_gemm},
                    {"syrk", GX_SYRK, trace_syrk},
                    {"herk", GX_HERK, trace_herk},
                    {"trsm", GX_TRSM, trace_trsm},
                    {"potrf", GX_POTRF, trace_potrf},
                    {"fill", GX_FILL, trace_fill},
                    {"triangle", GX_TRIANGLE, trace_triangle}};

// Marks -------------------------------------------------------------------------------------------

/* The mark's place, under the lock. */
static trace_mark *trace_find(gx_mark *mark)
{
    size_t at = ((size_t)mark >> 4) * 0x9E3779B97F4A7C15u % TRACE_MARKS;
    for (int k = 0; k < TRACE_MARKS && trace.mark[at].mark != NULL; k++) {
        if (trace.mark[at].mark == mark) {
            break;
        }
        at = (at + 1) % TRACE_MARKS;
    }
    if (trace.mark[at].mark == NULL) {
        trace.mark[at] = (trace_mark){.mark = mark, .op = -1};
    }
    return &trace.mark[at];
}

static gx_code trace_mark_set(gx_dev *dev, gx_queue *queue, gx_mark *mark, gx_err *err)
{
    int d = trace_device(dev);
    pthread_mutex_lock(&trace.lock);
    trace_find(mark)->op = trace.last[d][trace_queue_of(d, queue)];
    pthread_mutex_unlock(&trace.lock);
    return trace.real->mark_set(dev, queue, mark, err);
}

static gx_code trace_queue_after_mark(gx_dev *dev, gx_queue *queue, gx_mark *mark, gx_err *err)
{
    int d = trace_device(dev);
    pthread_mutex_lock(&trace.lock);
    trace_op *next = &trace.waiting[d][trace_queue_of(d, queue)];
    int32_t op = trace_find(mark)->op;
    if (op >= 0 && next->waits < TRACE_WAITS) {
        next->wait[next->waits++] = op;
    }
    pthread_mutex_unlock(&trace.lock);
    return trace.real->queue_after_mark(dev, queue, mark, err);
}

/* The host waited from then until now. */
static void trace_pause(double begin)
{
    pthread_mutex_lock(&trace.lock);
    if (trace.pauses < TRACE_PAUSES) {
        trace.pause[trace.pauses].begin = begin - trace.start_s;
        trace.pause[trace.pauses++].end = now() - trace.start_s;
    }
    pthread_mutex_unlock(&trace.lock);
}

static gx_code trace_queue_wait(gx_dev *dev, gx_queue *queue, gx_err *err)
{
    double begin = now();
    gx_code code = trace.real->queue_wait(dev, queue, err);
    trace_pause(begin);
    return code;
}

/* Of a mark behind a kernel: the conductor's ring. */
static gx_code trace_mark_wait(gx_dev *dev, gx_mark *mark, gx_err *err)
{
    pthread_mutex_lock(&trace.lock);
    int32_t op = trace_find(mark)->op;
    bool is_ring = op >= 0 && trace.op[op].queue == QUEUE_RUN;
    pthread_mutex_unlock(&trace.lock);
    double begin = now();
    gx_code code = trace.real->mark_wait(dev, mark, err);
    if (is_ring) {
        trace_pause(begin);
    }
    return code;
}

// What came of it ---------------------------------------------------------------------------------

static double trace_overlap(double begin, double end)
{
    double sum = 0;
    for (int k = 0; k < trace.pauses; k++) {
        sum += fmax(0, fmin(end, trace.pause[k].end) - fmax(begin, trace.pause[k].begin));
    }
    return fmin(sum, fmax(0, end - begin));
}

enum { CAUSE_READ, CAUSE_UP, CAUSE_ACROSS, CAUSE_KERNEL, CAUSE_INFO, CAUSE_ENQUEUE, CAUSES };

/* Whose fault it is that nothing ran from `idle` until op began. */
static void trace_blame(const trace_op *op, double idle, double blamed[CAUSES])
{
    const trace_op *last = NULL;
    for (int k = 0; k < op->waits; k++) {
        const trace_op *w = &trace.op[op->wait[k]];
        last = last == NULL || w->end > last->end ? w : last;
    }
    double gap = op->begin - idle, late = fmin(gap, fmax(0, op->asked - idle));
    if (last != NULL && last->end > idle && last->queue == QUEUE_UP) {
        double unread = fmin(gap, fmax(0, last->asked - idle));
        blamed[CAUSE_READ] += unread;
        blamed[CAUSE_UP] += gap - unread;
        return;
    }
    double info = trace_overlap(idle, idle + late);
    blamed[CAUSE_INFO] += info;
    blamed[CAUSE_ENQUEUE] += late - info;
    bool is_across = last != NULL && last->queue == QUEUE_IN;
    blamed[is_across ? CAUSE_ACROSS : CAUSE_KERNEL] += gap - late;
}

static double trace_seconds(int d, gx_cuda_handle event)
{
    float ms = 0;
    trace.elapsed(&ms, trace.base[d], event);
    return trace.base_s[d] + 1e-3 * (double)ms;
}

static void trace_print_queue(int d, trace_queue q, const char *name)
{
    double first = 1e99, last = 0, busy = 0, bytes = 0;
    for (int32_t k = 0; k < trace.ops; k++) {
        const trace_op *op = &trace.op[k];
        if (op->device == d && op->queue == q) {
            first = fmin(first, op->begin);
            last = fmax(last, op->end);
            busy += op->end - op->begin;
            bytes += op->bytes;
        }
    }
    if (last > 0) {
        printf(", \"%s\": {\"first\": %.4f, \"last\": %.4f, \"busy\": %.4f", name, first, last,
               busy);
        if (bytes > 0) {
            printf(", \"GB\": %.3f, \"GB_per_s_busy\": %.1f", bytes / 1e9, bytes / 1e9 / busy);
        }
        printf("}");
    }
}

static void trace_print_device(int d, double seconds)
{
    static const char *const cause[CAUSES] = {"read", "up", "across", "kernel", "info", "enqueue"};
    double blamed[CAUSES] = {0}, idle = 0;
    for (int32_t k = 0; k < trace.ops; k++) {
        const trace_op *op = &trace.op[k];
        if (op->device == d && op->queue == QUEUE_RUN) {
            trace_blame(op, idle, blamed);
            idle = op->end;
        }
    }
    printf("{\"trace\": \"%s\", \"seconds\": %.4f", trace.accel[d]->info.name, seconds);
    trace_print_queue(d, QUEUE_RUN, "kernels");
    trace_print_queue(d, QUEUE_UP, "up");
    trace_print_queue(d, QUEUE_IN, "in");
    trace_print_queue(d, QUEUE_DOWN, "down");
    printf(", \"idle\": {");
    for (int k = 0; k < CAUSES; k++) {
        printf("\"%s\": %.4f, ", cause[k], blamed[k]);
    }
    printf("\"end\": %.4f}", seconds - idle);
    for (size_t n = 0; n < sizeof trace_kernel / sizeof *trace_kernel; n++) {
        double busy = 0;
        int count = 0;
        for (int32_t k = 0; k < trace.ops; k++) {
            bool is_it = trace.op[k].device == d && trace.op[k].name == trace_kernel[n].name;
            busy += is_it ? trace.op[k].end - trace.op[k].begin : 0;
            count += is_it;
        }
        if (count > 0) {
            printf(", \"%s\": {\"calls\": %d, \"ms each\": %.4f}", trace_kernel[n].name, count,
                   1e3 * busy / count);
        }
    }
    printf("}\n");
}

/* A line for each tenth of the call: what share of it each device computed. */
static void trace_print_shares(double seconds)
{
    enum { PARTS = 20 };
    for (int d = 0; d < trace.devices; d++) {
        double share[PARTS] = {0};
        for (int32_t k = 0; k < trace.ops; k++) {
            const trace_op *op = &trace.op[k];
            for (int t = 0; t < PARTS && op->device == d && op->queue == QUEUE_RUN; t++) {
                double from = seconds * t / PARTS, to = seconds * (t + 1) / PARTS;
                share[t] += fmax(0, fmin(op->end, to) - fmax(op->begin, from)) / (to - from);
            }
        }
        printf("{\"trace\": \"shares of 20 parts, device %d\", \"busy\": [", d);
        for (int t = 0; t < PARTS; t++) {
            printf("%s%.2f", t == 0 ? "" : ", ", share[t]);
        }
        printf("]}\n");
    }
}

// On and off --------------------------------------------------------------------------------------

static bool trace_is_wanted(void)
{
    const char *text = getenv("GX_BENCH_TRACE");
    return text != NULL && strcmp(text, "0") != 0;
}

static void trace_release(void)
{
    for (int32_t k = 0; k < trace.ops; k++) {
        const gx_cuda_api *api = trace.accel[trace.op[k].device]->dev->api;
        api->event_destroy(trace.op[k].events[0]);
        api->event_destroy(trace.op[k].events[1]);
    }
    for (int d = 0; d < trace.devices; d++) {
        trace.accel[d]->backend = trace.real;
        trace.accel[d]->dev->api->event_destroy(trace.base[d]);
    }
    free(trace.op);
    trace.op = NULL;
}

/* What is enqueued from here on is noted.  false: it cannot be. */
static bool trace_on(bench *b)
{
    Dl_info there = {0};
    bool is_found = dladdr(*(void **)&accel_of(b)->dev->api->event_wait, &there) != 0;
    void *library = is_found ? dlopen(there.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    *(void **)&trace.elapsed = library == NULL ? NULL : dlsym(library, "cudaEventElapsedTime");
    trace.op = trace.elapsed == NULL ? NULL : malloc(TRACE_OPS * sizeof *trace.op);
    if (trace.op == NULL) {
        printf("{\"trace\": \"none: no cudaEventElapsedTime\"}\n");
        return false;
    }
    trace.devices = 0;
    trace.ops = trace.pauses = 0;
    memset(trace.last, -1, sizeof trace.last);
    memset(trace.waiting, 0, sizeof trace.waiting);
    memset(trace.mark, 0, sizeof trace.mark);
    trace.real = accel_of(b)->backend;
    trace.table = *trace.real;
    trace.table.upload = trace_upload;
    trace.table.download = trace_download;
    trace.table.copy_from = trace_copy_from;
    trace.table.mark_set = trace_mark_set;
    trace.table.mark_wait = trace_mark_wait;
    trace.table.queue_wait = trace_queue_wait;
    trace.table.queue_after_mark = trace_queue_after_mark;
    for (size_t k = 0; k < sizeof trace_kernel / sizeof *trace_kernel; k++) {
        trace.table.kernel[trace_kernel[k].id][GX_F64] = trace_kernel[k].traced;
    }
    trace.start_s = now();
    for (gx_accel *a = accel_of(b); a != NULL; a = a->next) {
        const gx_cuda_api *api = a->dev->api;
        int d = trace.devices++;
        trace.accel[d] = a;
        api->set_device(a->dev->ordinal);
        api->event_create(&trace.base[d], 0);
        api->event_record(trace.base[d], a->run->stream);
        api->event_wait(trace.base[d]);
        trace.base_s[d] = now() - trace.start_s;
        a->backend = &trace.table;
    }
    return true;
}

/* The call is over, so many seconds after it began `after` trace_on(). */
static void trace_off(double begun, double seconds)
{
    double before = begun - trace.start_s;
    for (int32_t k = 0; k < trace.ops; k++) {
        trace_op *op = &trace.op[k];
        op->begin = trace_seconds(op->device, op->events[0]) - before;
        op->end = trace_seconds(op->device, op->events[1]) - before;
        op->asked -= before;
    }
    for (int k = 0; k < trace.pauses; k++) {
        trace.pause[k].begin -= before;
        trace.pause[k].end -= before;
    }
    for (int d = 0; d < trace.devices; d++) {
        trace_print_device(d, seconds);
    }
    trace_print_shares(seconds);
    trace_release();
    fflush(stdout);
}

#endif
