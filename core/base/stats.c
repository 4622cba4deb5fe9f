/*
** Counters and remarks: see stats.h.
**
** A counter is one relaxed atomic: threads add to it without order, and a reader sees some
** recent value. Remarks are rare (a fallback, a bad environment variable), so their few slots
** stand behind a spin lock held for one comparison per slot.  When all slots are taken the
** remark seen least often makes room, the oldest one among equals: a remark that repeats is
** worth more than one that happened once.
*/
#include "stats.h"

#include "err.h"

#include <assert.h>
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

void gx_stats_note(gx_stats *stats, const char *format, ...)
{
    if (stats == NULL) {
        return;
    }
    char text[GX_NOTE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    gx_text_clean(text);
    lock_notes(stats);
    count_note(stats, text);
    unlock_notes(stats);
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

void gx_stats_reset(gx_stats *stats)
{
    for (int i = 0; i < GX_COUNTER_COUNT; i++) {
        gx_stats_set(stats, (gx_counter)i, 0);
    }
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
