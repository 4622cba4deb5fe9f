/*
** Counters and remarks: see stats.h.
**
** A counter is one relaxed atomic: threads add to it without order, and a reader sees some
** recent value. Remarks are rare (a fallback, a bad environment variable), so their few slots
** stand behind a spin lock held for one comparison per slot.  When all slots are taken the
** remark seen least often makes room, the oldest one among equals: a remark that repeats is
** worth more than one that happened once.
**
** Operations have numbers in the process, given when a label first ends a call and found again by
** the label's address in a table that only grows; addresses that hold the same name have the same
** number.  What a call adds to its row is written by the connection's thread alone, so that it is a
** load and a store.
*/
#include "stats.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define INFO(ID, name, unit, meaning) {#name, unit, meaning},
static const gx_counter_info infos[GX_COUNTER_COUNT] = {GX_COUNTERS(INFO)};
#undef INFO

const gx_counter_info *gx_stats_info(gx_counter counter)
{
    assert(counter >= 0 && counter < GX_COUNTER_COUNT);
    return &infos[counter];
}

void gx_stats_add(gx_stats *stats, gx_counter counter, int64_t amount)
{
    if (stats != NULL) {
        atomic_fetch_add_explicit(&stats->counter[counter], amount, memory_order_relaxed);
    }
}

void gx_stats_kernel(gx_stats *stats, double flops, int64_t ns)
{
    gx_stats_add(stats, GX_STAT_KERNELS, 1);
    gx_stats_add(stats, GX_STAT_FLOPS, (int64_t)flops);
    gx_stats_add(stats, GX_STAT_COMPUTE_NS, ns);
}

void gx_stats_set(gx_stats *stats, gx_counter counter, int64_t value)
{
    if (stats != NULL) {
        atomic_store_explicit(&stats->counter[counter], value, memory_order_relaxed);
    }
}

int64_t gx_stats_get(const gx_stats *stats, gx_counter counter)
{
    return atomic_load_explicit(&stats->counter[counter], memory_order_relaxed);
}

static int64_t counted_ns(const gx_stats *stats)
{
    return gx_stats_get(stats, GX_STAT_COMPUTE_NS) + gx_stats_get(stats, GX_STAT_WRITE_NS) +
           gx_stats_get(stats, GX_STAT_CHECK_NS) + gx_stats_get(stats, GX_STAT_COPY_NS);
}

gx_span gx_stats_open(const gx_stats *stats)
{
    return stats == NULL ? (gx_span){0} : (gx_span){gx_now_ns(), counted_ns(stats)};
}

void gx_stats_close(gx_stats *stats, gx_counter counter, gx_span span)
{
    if (stats != NULL) {
        int64_t passed = gx_now_ns() - span.start_ns, inner = counted_ns(stats) - span.inner_ns;
        gx_stats_add(stats, counter, passed > inner ? passed - inner : 0);
    }
}

static void lock_notes(gx_stats *stats)
{
    while (atomic_exchange_explicit(&stats->lock, 1, memory_order_acquire) != 0) {
        sched_yield();
    }
}

static void unlock_notes(gx_stats *stats)
{
    atomic_store_explicit(&stats->lock, 0, memory_order_release);
}

/* Remove the note seen least often, so that the slots stay in order of first appearance. */
static void drop_rarest(gx_stats *stats)
{
    int rarest = 0;
    for (int i = 1; i < stats->notes; i++) {
        if (stats->note[i].count < stats->note[rarest].count) {
            rarest = i;
        }
    }
    int after = stats->notes - rarest - 1;
    memmove(&stats->note[rarest], &stats->note[rarest + 1], (size_t)after * sizeof stats->note[0]);
    stats->notes--;
}

static void count_note(gx_stats *stats, const char *text)
{
    for (int i = 0; i < stats->notes; i++) {
        if (strcmp(stats->note[i].text, text) == 0) {
            stats->note[i].count++;
            return;
        }
    }
    if (stats->notes == GX_NOTE_COUNT) {
        drop_rarest(stats);
    }
    struct gx_note *note = &stats->note[stats->notes++];
    snprintf(note->text, sizeof note->text, "%s", text);
    note->count = 1;
}

/* Count it, and put it where the connection tells such events. */
static void put(gx_stats *stats, const gx_about *about, const char *text)
{
    atomic_fetch_add_explicit(&stats->event[about->kind], 1, memory_order_relaxed);
    int level = atomic_load_explicit(&stats->level, memory_order_relaxed);
    if ((int)gx_event_info_of(about->kind)->level > level) {
        return;
    }
    gx_event event = {.kind = about->kind, .connection = stats->connection, .bytes = about->bytes};
    event.function = atomic_load_explicit(&stats->label, memory_order_relaxed);
    snprintf(event.device, sizeof event.device, "%s", about->device == NULL ? "" : about->device);
    gx_text_fit(text, strlen(text), event.text, sizeof event.text);
    gx_events_put(&event);
    atomic_store(&stats->is_untold, true);
}

static void note(gx_stats *stats, const gx_about *about, const char *format, va_list args)
{
    char text[GX_NOTE_BYTES];
    vsnprintf(text, sizeof text, format, args);
    gx_text_clean(text);
    lock_notes(stats);
    count_note(stats, text);
    unlock_notes(stats);
    put(stats, about, about->instead != NULL ? about->instead : text);
}

void gx_stats_note(gx_stats *stats, const char *format, ...)
{
    if (stats != NULL) {
        va_list args;
        va_start(args, format);
        note(stats, &(gx_about){.kind = GX_EVENT_REMARK}, format, args);
        va_end(args);
    }
}

void gx_stats_tell(gx_stats *stats, const gx_about *about, const char *format, ...)
{
    if (stats != NULL) {
        va_list args;
        va_start(args, format);
        note(stats, about, format, args);
        va_end(args);
    }
}

void gx_stats_event(gx_stats *stats, gx_event_kind kind, const char *device, const gx_err *err)
{
    if (stats != NULL) {
        put(stats, &(gx_about){.kind = kind, .device = device, .bytes = err->bytes}, err->text);
    }
}

void gx_stats_failure(gx_stats *stats, const gx_err *err)
{
    if (err->code == GX_NOMEM || err->code == GX_BUDGET) {
        gx_stats_event(stats, GX_EVENT_NOMEM_HOST, NULL, err);
    } else if (err->code == GX_CORRUPT) {
        gx_stats_event(stats, GX_EVENT_DAMAGE, NULL, err);
    }
}

gx_event_kind gx_fallback_after(gx_code code)
{
    switch (code) {
    case GX_NOMEM:
    case GX_BUDGET:
        return GX_EVENT_FALLBACK_MEMORY;
    case GX_UNSUPPORTED:
        return GX_EVENT_FALLBACK_KERNEL;
    case GX_NUMERIC:
        return GX_EVENT_FALLBACK_RESULT;
    default:
        return GX_EVENT_FALLBACK_DEVICE;
    }
}

bool gx_stats_note_get(gx_stats *stats, int index, struct gx_note *note)
{
    lock_notes(stats);
    bool is_there = index >= 0 && index < stats->notes;
    if (is_there) {
        *note = stats->note[index];
    }
    unlock_notes(stats);
    return is_there;
}

// Operations --------------------------------------------------------------------------------------

enum { LABELS = 4 * GX_OPS_MOST }; /* places for addresses; a power of two */

const gx_op_bucket gx_op_buckets[GX_OP_BUCKETS] = {
    {100000, "0.0001"}, {1000000, "0.001"},  {10000000, "0.01"},    {100000000, "0.1"},
    {1000000000, "1"},  {10000000000, "10"}, {100000000000, "100"}, {INT64_MAX, "+Inf"}};

static struct {
    pthread_mutex_t lock; /* of what writes here */
    _Atomic(const char *) label[LABELS];
    int op[LABELS]; /* of that address, written before it */
    _Atomic(const char *) name[GX_OPS_MOST];
    int labels;
} ops = {.lock = PTHREAD_MUTEX_INITIALIZER};

const char *gx_operation_name(int k)
{
    return k >= GX_OPS_MOST ? NULL : atomic_load_explicit(&ops.name[k], memory_order_acquire);
}

/* Under the lock: the number of the name, given now where it has none; the last one is "other". */
static int op_of_name(const char *name)
{
    int k = 0;
    while (k < GX_OPS_MOST - 1 && ops.name[k] != NULL && strcmp(ops.name[k], name) != 0) {
        k++;
    }
    if (ops.name[k] == NULL) {
        atomic_store_explicit(&ops.name[k], k == GX_OPS_MOST - 1 ? "other" : name,
                              memory_order_release);
    }
    return k;
}

/* The place of the address, or the empty one where it belongs. */
static size_t place_of(const char *label)
{
    size_t at = (size_t)(((uint64_t)(uintptr_t)label * 0x9E3779B97F4A7C15U) >> 40) % LABELS;
    const char *there;
    while ((there = atomic_load_explicit(&ops.label[at], memory_order_acquire)) != NULL &&
           there != label) {
        at = (at + 1) % LABELS;
    }
    return at;
}

static int op_of(const char *label)
{
    size_t at = place_of(label);
    if (atomic_load_explicit(&ops.label[at], memory_order_acquire) != NULL) {
        return ops.op[at];
    }
    pthread_mutex_lock(&ops.lock);
    at = place_of(label); // others have come meanwhile
    int op = op_of_name(label);
    if (atomic_load(&ops.label[at]) == NULL && ops.labels < LABELS / 2) {
        ops.op[at] = op;
        ops.labels++;
        atomic_store_explicit(&ops.label[at], label, memory_order_release);
    }
    pthread_mutex_unlock(&ops.lock);
    return op;
}

/* By the only thread that writes there. */
static void add_to(_Atomic int64_t *counter, int64_t amount)
{
    int64_t before = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, before + amount, memory_order_relaxed);
}

const char *gx_stats_begin(gx_stats *stats, const char *label)
{
    const char *before = atomic_load_explicit(&stats->label, memory_order_relaxed);
    atomic_store_explicit(&stats->label, label, memory_order_relaxed);
    add_to(&stats->running, 1);
    return before;
}

void gx_stats_end(gx_stats *stats, const char *label, const char *before, gx_ran ran, int64_t ns,
                  const gx_err *err)
{
    gx_op_tally *op = &stats->op[op_of(label)];
    int bucket = 0;
    while (ns > gx_op_buckets[bucket].ns) {
        bucket++;
    }
    gx_stats_add(stats, GX_STAT_CALLS, 1);
    add_to(&op->calls[ran], 1);
    add_to(&op->within[bucket], 1);
    add_to(&op->ns, ns);
    if (err->code != GX_OK) {
        add_to(&stats->failed[err->code], 1);
        gx_stats_failure(stats, err);
    }
    add_to(&stats->running, -1);
    atomic_store_explicit(&stats->label, before, memory_order_relaxed);
}

// Devices -----------------------------------------------------------------------------------------

void gx_stats_hold(gx_stats *stats, int ordinal, bool is_held)
{
    if (stats == NULL || ordinal < 0 || ordinal >= GX_TALLIED_DEVICES) {
        return;
    }
    gx_device_tally *device = &stats->device[ordinal];
    int64_t now_ns = gx_now_ns();
    lock_notes(stats);
    device->held_ns += is_held || device->since_ns == 0 ? 0 : now_ns - device->since_ns;
    device->since_ns = is_held ? now_ns : 0;
    unlock_notes(stats);
}

void gx_stats_device_bytes(gx_stats *stats, int ordinal, size_t bytes, size_t pinned_bytes)
{
    if (stats != NULL && ordinal >= 0 && ordinal < GX_TALLIED_DEVICES) {
        atomic_store(&stats->device[ordinal].bytes, (int64_t)bytes);
        atomic_store(&stats->device[ordinal].pinned_bytes, (int64_t)pinned_bytes);
    }
}

/* What is held now is counted up to now, and goes on. */
static void add_device(gx_device_tally *device, bool is_moved, int64_t now_ns, gx_device_tally *sum)
{
    bool is_held = device->since_ns != 0;
    if (sum != NULL) {
        sum->held_ns += device->held_ns + (is_held ? gx_max(0, now_ns - device->since_ns) : 0);
    }
    if (is_moved) {
        device->held_ns = 0;
        device->since_ns = is_held ? now_ns : 0;
    } else {
        sum->since_ns += is_held; // of a sum: how many hold it
        add_to(&sum->bytes, atomic_load(&device->bytes));
        add_to(&sum->pinned_bytes, atomic_load(&device->pinned_bytes));
    }
}

// Sums --------------------------------------------------------------------------------------------

bool gx_stats_is_sum(gx_counter counter)
{
    return counter != GX_STAT_PROBE_RATIO && counter != GX_STAT_PREDICTED_NS &&
           counter != GX_STAT_MEASURED_NS;
}

/* The k-th of all sums but those of devices; NULL: there are no more. */
static _Atomic int64_t *sum_of(gx_stats *stats, int k)
{
    enum { OP_SUMS = sizeof(gx_op_tally) / sizeof(_Atomic int64_t) };
    if (k < GX_COUNTER_COUNT) {
        return &stats->counter[k];
    }
    k -= GX_COUNTER_COUNT;
    if (k < GX_EVENT_KIND_COUNT) {
        return &stats->event[k];
    }
    k -= GX_EVENT_KIND_COUNT;
    if (k < GX_CODE_COUNT) {
        return &stats->failed[k];
    }
    k -= GX_CODE_COUNT;
    gx_op_tally *op = gx_operation_name(k / OP_SUMS) == NULL ? NULL : &stats->op[k / OP_SUMS];
    int at = k % OP_SUMS - GX_RAN_COUNT;
    if (op == NULL) {
        return NULL;
    }
    return at < 0 ? &op->calls[at + GX_RAN_COUNT] : at < GX_OP_BUCKETS ? &op->within[at] : &op->ns;
}

void gx_stats_add_all(gx_stats *from, bool is_moved, gx_stats *into)
{
    _Atomic int64_t *sum;
    for (int k = 0; (sum = sum_of(from, k)) != NULL; k++) {
        int64_t value = is_moved ? atomic_exchange(sum, 0) : atomic_load(sum);
        if (into != NULL && (k >= GX_COUNTER_COUNT || gx_stats_is_sum((gx_counter)k))) {
            add_to(sum_of(into, k), value);
        }
    }
    if (!is_moved) {
        add_to(&into->running, atomic_load(&from->running));
    }
    int64_t now_ns = gx_now_ns();
    lock_notes(from);
    for (int k = 0; k < GX_TALLIED_DEVICES; k++) {
        add_device(&from->device[k], is_moved, now_ns, into == NULL ? NULL : &into->device[k]);
    }
    unlock_notes(from);
}

void gx_stats_reset(gx_stats *stats)
{
    gx_stats_add_all(stats, true, NULL);
    lock_notes(stats);
    stats->notes = 0;
    unlock_notes(stats);
}

int64_t gx_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
