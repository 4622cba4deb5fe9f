/*
** A device that is not there: see mock_machine.h.
**
** One lock guards everything that is counted.  A queue is a thread and a list of actions; marks are
** two counters: how often it was set, and how often that has been reached.  Nothing is started
** before it is asked for, and mock_queue_free() joins.
*/
#include "mock_machine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BUFFERS_MOST = 4096, DEVICES_MOST = 16, NAN_BYTE = 0xFF };

typedef struct buffer {
    char *at;
    size_t bytes;
    int device;
} buffer;

static struct machine {
    pthread_mutex_t lock;
    pthread_once_t once;
    int devices;
    size_t memory[2]; /* of the first device, and of the others */
    double bandwidth;
    useconds_t slow_us[2];
    bool has_no_peers;
    char fail_call[64], fail_mode[16];
    int fail_device; /* -1: any */
    int64_t fail_at, fail_seen;
    bool is_lost;
    mock_failure end; /* how the context has ended */
    size_t others;
    int64_t others_from;
    size_t used[DEVICES_MOST];
    mock_counts counts;
    void *known[BUFFERS_MOST];
    buffer device[BUFFERS_MOST], pinned[BUFFERS_MOST]; /* pinned: device -1, somebody else's */
} machine = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void order(const char *text)
{
    machine.fail_call[0] = '\0';
    machine.fail_mode[0] = '\0';
    machine.fail_at = 0;
    machine.fail_seen = 0;
    machine.is_lost = false;
    machine.end = MOCK_FINE;
    machine.counts.calls = 0;
    machine.counts.failures = 0;
    machine.counts.vain = 0;
    long long at = 0;
    if (text != NULL &&
        sscanf(text, "%63[^:]:%lld:%15s", machine.fail_call, &at, machine.fail_mode) >= 2) {
        machine.fail_at = at;
        char *device = strchr(machine.fail_call, '@');
        machine.fail_device = device == NULL ? -1 : atoi(device + 1);
        if (device != NULL) {
            *device = '\0';
        }
    }
}

static void share(const char *text)
{
    long long bytes = 0, from = 0;
    machine.counts.calls = 0;
    if (text == NULL || sscanf(text, "%lld:%lld", &bytes, &from) < 1) {
        bytes = 0;
    }
    machine.others = (size_t)bytes;
    machine.others_from = from;
}

static void look_at_environment(void)
{
    const char *devices = getenv("MOCK_DEVICES"), *memory = getenv("MOCK_MEMORY");
    const char *bandwidth = getenv("MOCK_BANDWIDTH"), *slow = getenv("MOCK_SLOW");
    machine.devices = devices == NULL ? 1 : atoi(devices);
    const char *peers = getenv("MOCK_PEERS");
    for (int k = 0; k < 2; k++) {
        const char *comma = memory == NULL ? NULL : strchr(memory, ',');
        memory = k == 1 && comma != NULL ? comma + 1 : memory;
        comma = slow == NULL ? NULL : strchr(slow, ',');
        slow = k == 1 && comma != NULL ? comma + 1 : slow;
        machine.memory[k] = memory == NULL ? (size_t)4 << 30 : (size_t)atoll(memory);
        machine.slow_us[k] = slow == NULL ? 0 : (useconds_t)atoi(slow);
    }
    machine.has_no_peers = peers != NULL && strcmp(peers, "none") == 0;
    machine.bandwidth = bandwidth == NULL ? 0 : atof(bandwidth);
    order(getenv("MOCK_FAIL"));
    share(getenv("MOCK_OTHERS"));
}

static void enter(void)
{
    pthread_once(&machine.once, look_at_environment);
    pthread_mutex_lock(&machine.lock);
}

static void leave(void)
{
    pthread_mutex_unlock(&machine.lock);
}

void mock_note_halves(void)
{
    pthread_mutex_lock(&machine.lock);
    machine.counts.halves++;
    pthread_mutex_unlock(&machine.lock);
}

int mock_devices(void)
{
    enter();
    int devices = machine.devices;
    leave();
    return devices;
}

size_t mock_memory_of(int device)
{
    return machine.memory[device > 0];
}

size_t mock_memory(void)
{
    return mock_memory_of(0);
}

bool mock_has_peers(void)
{
    return !machine.has_no_peers;
}

bool mock_fails(const char *call)
{
    return mock_fails_on(-1, call);
}

bool mock_fails_on(int device, const char *call)
{
    enter();
    machine.counts.calls++;
    bool is_its = machine.fail_device < 0 || machine.fail_device == device;
    bool is_named =
        is_its && (strcmp(machine.fail_call, "*") == 0 || strcmp(machine.fail_call, call) == 0);
    bool fails = machine.is_lost && is_its;
    if (!fails && machine.fail_at > 0 && is_named) {
        machine.fail_seen++;
        bool is_later = strcmp(machine.fail_mode, "always") == 0;
        fails = machine.fail_seen == machine.fail_at ||
                (is_later && machine.fail_seen > machine.fail_at);
        machine.is_lost = fails && strcmp(machine.fail_mode, "lost") == 0;
        if (fails && is_later) {
            snprintf(machine.fail_call, sizeof machine.fail_call, "%s", call); // "*" was this one
        }
    }
    machine.counts.failures += fails;
    leave();
    return fails;
}

static mock_failure mode_of(const char *mode)
{
    static const struct {
        const char *name;
        mock_failure failure;
    } modes[] = {{"launch", MOCK_LAUNCH},
                 {"status", MOCK_STATUS},
                 {"sticky", MOCK_STICKY},
                 {"later", MOCK_LATER},
                 {"lost", MOCK_LOST}};
    for (size_t k = 0; k < sizeof modes / sizeof *modes; k++) {
        if (strcmp(mode, modes[k].name) == 0) {
            return modes[k].failure;
        }
    }
    return MOCK_MEMORY;
}

mock_failure mock_fate(const char *call)
{
    mock_failure end = mock_end();
    if (end != MOCK_FINE) {
        enter();
        machine.counts.vain++;
        leave();
        return end;
    }
    enter();
    mock_failure failure = mode_of(machine.fail_mode);
    leave();
    // "lost" is a mode of both stand-ins; here what follows is the caller's to say.
    if (!mock_fails(call)) {
        return MOCK_FINE;
    }
    return failure;
}

mock_failure mock_end(void)
{
    enter();
    mock_failure end = machine.end;
    leave();
    return end;
}

void mock_end_now(mock_failure how)
{
    enter();
    machine.end = machine.end == MOCK_FINE ? how : machine.end;
    leave();
}

void mock_read(mock_counts *counts)
{
    enter();
    *counts = machine.counts;
    leave();
    mock_read_kernels(counts);
}

void mock_order(const char *failure)
{
    enter();
    order(failure);
    leave();
}

void mock_share(const char *others)
{
    enter();
    share(others);
    leave();
}

void mock_count(mock_done what)
{
    enter();
    machine.counts.handles += (what == MOCK_HANDLE_MADE) - (what == MOCK_HANDLE_GONE);
    machine.counts.uncleared += (what == MOCK_ERROR_KEPT) - (what == MOCK_ERROR_CLEARED);
    machine.counts.violations += what == MOCK_VIOLATION;
    machine.counts.kernels += what == MOCK_KERNEL;
    machine.counts.uploads += what == MOCK_UPLOAD;
    machine.counts.downloads += what == MOCK_DOWNLOAD;
    machine.counts.peers += what == MOCK_PEER;
    leave();
}

// Memory ------------------------------------------------------------------------------------------

static void *allocate(buffer *table, size_t bytes, int device)
{
    for (int k = 0; k < BUFFERS_MOST; k++) {
        if (table[k].at == NULL) {
            size_t rounded = (bytes + 255) / 256 * 256;
            table[k].at = aligned_alloc(256, rounded == 0 ? 256 : rounded);
            table[k].bytes = bytes;
            table[k].device = device;
            if (table[k].at != NULL) {
                memset(table[k].at, NAN_BYTE, rounded);
            }
            return table[k].at;
        }
    }
    return NULL;
}

/* Bytes of the buffer that is gone; -1 when there was none. */
static int64_t discard(buffer *table, void *ptr, int *device)
{
    for (int k = 0; k < BUFFERS_MOST; k++) {
        if (ptr != NULL && table[k].at == ptr) {
            table[k].at = NULL;
            *device = table[k].device;
            if (*device >= 0) {
                free(ptr);
            }
            return (int64_t)table[k].bytes;
        }
    }
    machine.counts.violations += ptr != NULL;
    return -1;
}

/* Under the lock: what nobody has. */
static size_t free_on(int device)
{
    bool is_shared = machine.counts.calls >= machine.others_from;
    size_t taken = machine.used[device] + (is_shared ? machine.others : 0);
    size_t memory = machine.memory[device > 0];
    return taken < memory ? memory - taken : 0;
}

void *mock_device_alloc_on(int device, size_t bytes)
{
    enter();
    void *ptr = NULL;
    mock_counts *c = &machine.counts;
    if (bytes <= free_on(device)) {
        ptr = allocate(machine.device, bytes, device);
    }
    if (ptr != NULL) {
        c->device_buffers++;
        c->device_bytes += (int64_t)bytes;
        machine.used[device] += bytes;
        c->device_peak = c->device_bytes > c->device_peak ? c->device_bytes : c->device_peak;
    }
    leave();
    return ptr;
}

void *mock_device_alloc(size_t bytes)
{
    return mock_device_alloc_on(0, bytes);
}

void mock_device_free(void *ptr)
{
    mock_wait_for_work();
    enter();
    int device = 0;
    int64_t bytes = discard(machine.device, ptr, &device);
    if (bytes >= 0) {
        machine.counts.device_buffers--;
        machine.counts.device_bytes -= bytes;
        machine.used[device] -= (size_t)bytes;
    }
    leave();
}

size_t mock_device_free_bytes_on(int device)
{
    enter();
    size_t bytes = free_on(device);
    leave();
    return bytes;
}

size_t mock_device_free_bytes(void)
{
    return mock_device_free_bytes_on(0);
}

static void count_pinned(size_t bytes)
{
    mock_counts *c = &machine.counts;
    c->pinned_buffers++;
    c->pinned_bytes += (int64_t)bytes;
    c->pinned_peak = c->pinned_bytes > c->pinned_peak ? c->pinned_bytes : c->pinned_peak;
}

void *mock_pin(size_t bytes)
{
    enter();
    void *ptr = allocate(machine.pinned, bytes, 0);
    if (ptr != NULL) {
        count_pinned(bytes);
    }
    leave();
    return ptr;
}

void mock_unpin(void *ptr)
{
    enter();
    int device;
    int64_t bytes = discard(machine.pinned, ptr, &device);
    if (bytes >= 0) {
        machine.counts.pinned_buffers--;
        machine.counts.pinned_bytes -= bytes;
    }
    leave();
}

/* device -1: any. */
static bool is_in(const buffer *table, int device, const void *ptr, size_t bytes)
{
    bool is_inside = bytes == 0;
    for (int k = 0; k < BUFFERS_MOST && !is_inside; k++) {
        const buffer *b = &table[k];
        const char *at = ptr;
        is_inside = b->at != NULL && at >= b->at && at + bytes <= b->at + b->bytes &&
                    (device < 0 || device == b->device);
    }
    return is_inside;
}

bool mock_is_pinned(const void *ptr, size_t bytes)
{
    enter();
    bool is_pinned = is_in(machine.pinned, -1, ptr, bytes);
    leave();
    return is_pinned;
}

bool mock_is_on_device(const void *ptr, size_t bytes)
{
    return mock_is_there(-1, ptr, bytes);
}

bool mock_is_there(int device, const void *ptr, size_t bytes)
{
    enter();
    bool is_inside = is_in(machine.device, device, ptr, bytes);
    machine.counts.violations += !is_inside;
    leave();
    return is_inside;
}

void mock_copy(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
    if (machine.bandwidth > 0) {
        usleep((useconds_t)(1e6 * (double)bytes / machine.bandwidth));
    }
}

void mock_know(void *thing)
{
    enter();
    int k = 0;
    while (k < BUFFERS_MOST - 1 && machine.known[k] != NULL) {
        k++;
    }
    machine.known[k] = thing;
    leave();
}

void mock_forget(const void *thing)
{
    enter();
    for (int k = 0; k < BUFFERS_MOST; k++) {
        machine.known[k] = machine.known[k] == thing ? NULL : machine.known[k];
    }
    leave();
}

// Queues ------------------------------------------------------------------------------------------

typedef struct node {
    struct node *next;
    mock_action action;
    void *arg;
    bool is_kernel, is_preferred;
} node;

struct mock_recording {
    node *first, *last;
    int users; /* the owner, and replays under way: under the machine's lock */
    bool is_spoilt;
};

struct mock_queue {
    mock_recording *recording; /* NULL: actions are done */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    node *first, *last;
    bool is_busy, is_ending;
    bool is_preferred; /* what comes now */
    int device;
    int64_t kernels; /* that it holds */
    useconds_t slow_us;
    int error;
};

struct mock_mark {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t set, reached;
    double reached_s;  /* by the clock  */
    mock_queue *queue; /* it was set in */
};

static void *run_queue(void *arg)
{
    mock_queue *q = arg;
    pthread_mutex_lock(&q->lock);
    for (;;) {
        while (q->first == NULL && !q->is_ending) {
            pthread_cond_wait(&q->changed, &q->lock);
        }
        node *n = q->first;
        if (n == NULL) {
            break;
        }
        q->first = n->next;
        q->is_busy = true;
        pthread_mutex_unlock(&q->lock);
        if (q->slow_us > 0) {
            usleep(q->slow_us);
        }
        bool was_kernel = n->is_kernel;
        int error = was_kernel ? mock_run_kernel(n->action, n->arg, n->is_preferred, q->device)
                               : n->action(n->arg);
        free(n->arg);
        free(n);
        mock_add_work(-1);
        pthread_mutex_lock(&q->lock);
        q->kernels -= was_kernel;
        q->error = q->error == 0 ? error : q->error;
        q->is_busy = false;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

mock_queue *mock_queue_create(void)
{
    return mock_queue_create_on(0);
}

mock_queue *mock_queue_create_on(int device)
{
    mock_queue *q = calloc(1, sizeof *q);
    q->slow_us = machine.slow_us[device > 0];
    q->device = device;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    if (pthread_create(&q->thread, NULL, run_queue, q) != 0) {
        pthread_cond_destroy(&q->changed);
        pthread_mutex_destroy(&q->lock);
        free(q);
        return NULL;
    }
    mock_know(q);
    enter();
    machine.counts.queues++;
    leave();
    return q;
}

void mock_queue_free(mock_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->is_ending = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    pthread_join(q->thread, NULL);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    mock_forget(q);
    free(q);
    enter();
    machine.counts.queues--;
    leave();
}

static void push(mock_queue *q, const node *what)
{
    node *n = calloc(1, sizeof *n);
    *n = *what;
    pthread_mutex_lock(&q->lock);
    mock_add_work(q->recording == NULL);
    n->is_preferred = q->is_preferred;
    if (n->is_kernel && q->recording == NULL) {
        mock_hold_kernels(++q->kernels);
    }
    node **first = q->recording != NULL ? &q->recording->first : &q->first;
    node **last = q->recording != NULL ? &q->recording->last : &q->last;
    if (*first == NULL) {
        *first = n;
    } else {
        (*last)->next = n;
    }
    *last = n;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

void mock_push(mock_queue *q, mock_action action, void *arg)
{
    push(q, &(node){.action = action, .arg = arg});
}

void mock_push_kernel(mock_queue *q, mock_action action, void *arg)
{
    push(q, &(node){.action = action, .arg = arg, .is_kernel = true});
}

void mock_queue_prefer(mock_queue *q, bool is_preferred)
{
    pthread_mutex_lock(&q->lock);
    q->is_preferred = is_preferred;
    pthread_mutex_unlock(&q->lock);
}

int mock_queue_wait(mock_queue *q)
{
    const int CAPTURE_UNSUPPORTED = 900;
    pthread_mutex_lock(&q->lock);
    bool is_recording = q->recording != NULL;
    if (is_recording) {
        q->recording->is_spoilt = true;
    }
    while (!is_recording && (q->first != NULL || q->is_busy)) {
        pthread_cond_wait(&q->changed, &q->lock);
    }
    int error = is_recording ? CAPTURE_UNSUPPORTED : q->error;
    pthread_mutex_unlock(&q->lock);
    return error;
}

// Recordings --------------------------------------------------------------------------------------

static void leave_recording(mock_recording *r)
{
    enter();
    bool is_last = --r->users == 0;
    leave();
    while (is_last && r->first != NULL) {
        node *n = r->first;
        r->first = n->next;
        free(n->arg);
        free(n);
    }
    if (is_last) {
        mock_forget(r);
        free(r);
    }
}

void mock_record_begin(mock_queue *q)
{
    mock_recording *r = calloc(1, sizeof *r);
    r->users = 1;
    mock_know(r);
    mock_count(MOCK_HANDLE_MADE);
    pthread_mutex_lock(&q->lock);
    q->recording = r;
    pthread_mutex_unlock(&q->lock);
}

mock_recording *mock_record_end(mock_queue *q)
{
    pthread_mutex_lock(&q->lock);
    mock_recording *r = q->recording;
    q->recording = NULL;
    pthread_mutex_unlock(&q->lock);
    if (r != NULL && r->is_spoilt) {
        mock_recording_free(r);
        r = NULL;
    }
    return r;
}

static int run_recording(void *arg)
{
    mock_recording *r = *(mock_recording **)arg;
    int error = 0;
    for (node *n = r->first; n != NULL; n = n->next) {
        int status = n->action(n->arg);
        error = error == 0 ? status : error;
    }
    leave_recording(r);
    return error;
}

void mock_replay(mock_queue *q, mock_recording *r)
{
    mock_recording **arg = malloc(sizeof *arg);
    *arg = r;
    enter();
    r->users++;
    leave();
    mock_push(q, run_recording, arg);
}

void mock_recording_free(mock_recording *r)
{
    if (r != NULL) {
        mock_count(MOCK_HANDLE_GONE);
        leave_recording(r);
    }
}

// Marks -------------------------------------------------------------------------------------------

mock_mark *mock_mark_create(void)
{
    mock_mark *m = calloc(1, sizeof *m);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    mock_know(m);
    enter();
    machine.counts.marks++;
    leave();
    return m;
}

void mock_mark_free(mock_mark *m)
{
    if (m != NULL) {
        pthread_cond_destroy(&m->changed);
        pthread_mutex_destroy(&m->lock);
        mock_forget(m);
        free(m);
        enter();
        machine.counts.marks--;
        leave();
    }
}

typedef struct mark_arg {
    mock_mark *mark;
    int64_t count;
} mark_arg;

static int reach(void *arg)
{
    mark_arg *a = arg;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&a->mark->lock);
    a->mark->reached = a->count;
    a->mark->reached_s = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    pthread_cond_broadcast(&a->mark->changed);
    pthread_mutex_unlock(&a->mark->lock);
    return 0;
}

static int await(void *arg)
{
    mark_arg *a = arg;
    pthread_mutex_lock(&a->mark->lock);
    while (a->mark->reached < a->count) {
        pthread_cond_wait(&a->mark->changed, &a->mark->lock);
    }
    pthread_mutex_unlock(&a->mark->lock);
    return 0;
}

static mark_arg *argument(mock_mark *m, int64_t count)
{
    mark_arg *a = calloc(1, sizeof *a);
    *a = (mark_arg){.mark = m, .count = count};
    return a;
}

void mock_mark_set(mock_mark *m, mock_queue *q)
{
    pthread_mutex_lock(&m->lock);
    int64_t count = ++m->set;
    m->queue = q;
    pthread_mutex_unlock(&m->lock);
    mock_push(q, reach, argument(m, count));
}

void mock_queue_after(mock_queue *q, mock_mark *m)
{
    pthread_mutex_lock(&m->lock);
    int64_t count = m->set;
    pthread_mutex_unlock(&m->lock);
    mock_push(q, await, argument(m, count));
}

int mock_mark_wait(mock_mark *m)
{
    pthread_mutex_lock(&m->lock);
    int64_t count = m->set;
    mock_queue *q = m->queue;
    while (m->reached < count) {
        pthread_cond_wait(&m->changed, &m->lock);
    }
    pthread_mutex_unlock(&m->lock);
    if (q == NULL) {
        return 0;
    }
    pthread_mutex_lock(&q->lock);
    int error = q->error;
    pthread_mutex_unlock(&q->lock);
    return error;
}

double mock_mark_seconds(mock_mark *from, mock_mark *to)
{
    mock_mark_wait(from);
    mock_mark_wait(to);
    return to->reached_s - from->reached_s;
}
