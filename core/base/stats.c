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

static const gx_counter_info infos[GX_COUNTER_COUNT] = {
    [GX_STAT_CALLS] = {"calls", "count", "SQL functions of gx run"},
    [GX_STAT_BYTES_READ] = {"bytes_read", "bytes", "tile bytes read from the database"},
    [GX_STAT_BYTES_WRITTEN] = {"bytes_written", "bytes", "tile bytes written to the database"},
    [GX_STAT_TILES_READ] = {"tiles_read", "count", "tile reads, whole or part"},
    [GX_STAT_TILES_WRITTEN] = {"tiles_written", "count", "tile writes, whole or part"},
    [GX_STAT_HELPER_READS] = {"helper_reads", "count",
                              "of the tile reads, those by helper connections"},
    [GX_STAT_CACHE_HITS] = {"cache_hits", "count", "blocks found in the cache"},
    [GX_STAT_CACHE_MISSES] = {"cache_misses", "count", "blocks that had to be loaded"},
    [GX_STAT_SPILLS] = {"spills", "count", "unfinished result blocks written out and read again"},
    [GX_STAT_KERNELS] = {"kernels", "count", "kernel calls"},
    [GX_STAT_KERNELS_LEFT] = {"kernels_left", "count",
                              "of these, left by an interrupt while they ran"},
    [GX_STAT_FLOPS] = {"flops", "flop", "floating-point operations, by LAPACK's counting"},
    [GX_STAT_REFINEMENTS] = {"refinements", "count", "steps of iterative refinement"},
    [GX_STAT_ITERATIONS] = {"iterations", "count", "steps of iterative methods for sparse systems"},
    [GX_STAT_PROBES] = {"probes", "count", "residual checks of results"},
    [GX_STAT_PROBE_RATIO] = {"probe_ratio", "1/1000",
                             "the latest residual check: its ratio, in thousandths"},
    [GX_STAT_READ_NS] = {"read_ns", "ns", "time in tile reads, summed over threads"},
    [GX_STAT_WRITE_NS] = {"write_ns", "ns", "time in tile writes, commits, deletions"},
    [GX_STAT_COMPUTE_NS] = {"compute_ns", "ns", "time in kernels, as the caller waited"},
    [GX_STAT_WAIT_NS] = {"wait_ns", "ns", "time the caller waited for a block"},
    [GX_STAT_CHECK_NS] = {"check_ns", "ns", "time in looks at whole operands and results"},
    [GX_STAT_COPY_NS] = {"copy_ns", "ns",
                         "time in copies between buffers, to and from a device; signs of vectors"},
    [GX_STAT_PROGRAMS] = {"programs", "count", "programs run by gx_eval"},
    [GX_STAT_NODES] = {"nodes", "count", "steps of these programs, loops' rounds each"},
    [GX_STAT_FUSED_GROUPS] = {"fused_groups", "count",
                              "of these steps, elementwise functions in one pass"},
    [GX_STAT_GPU_OPS] = {"gpu_ops", "count", "of these steps, those on a device"},
    [GX_STAT_CPU_OPS] = {"cpu_ops", "count", "of these steps, those on the host"},
    [GX_STAT_TRANSFERS] = {"transfers", "count",
                           "matrices of programs that went to a device or came from it"},
    [GX_STAT_GRAPH_REPLAYS] = {"graph_replays", "count",
                               "rounds of programs' loops that a device was given whole"},
    [GX_STAT_DEVICE_CALLS] = {"device_calls", "count", "programs run on a device"},
    [GX_STAT_DEVICE_FALLBACKS] = {"device_fallbacks", "count",
                                  "programs begun on a device and finished on the CPU"},
    [GX_STAT_DEVICE_FAULTS] = {"device_faults", "count", "failures that switched a device off"},
    [GX_STAT_DEVICE_HITS] = {"device_hits", "count",
                             "blocks still in device memory from an earlier call"},
    [GX_STAT_DEVICE_EVICTIONS] = {"device_evictions", "count", "such blocks that made room"},
    [GX_STAT_UPLOADED] = {"uploaded", "bytes", "copied to a device"},
    [GX_STAT_DOWNLOADED] = {"downloaded", "bytes", "copied from a device"},
    [GX_STAT_SPREAD_CALLS] = {"spread_calls", "count", "programs run on several devices at once"},
    [GX_STAT_DEVICES_LOST] = {"devices_lost", "count",
                              "devices left out of a program that others went on with"},
    [GX_STAT_PEER_BYTES] = {"peer_bytes", "bytes", "copied from one device to another"},
    [GX_STAT_PINNED_HITS] = {"pinned_hits", "count", "page-locked buffers reused"},
    [GX_STAT_PINNED_MISSES] = {"pinned_misses", "count", "page-locked buffers allocated"},
    [GX_STAT_PINNED_DENIED] = {"pinned_denied", "count",
                               "pageable buffers where page-locked ones were refused"},
    [GX_STAT_PASSES] = {"passes", "count", "passes of Krylov methods over their matrix"},
    [GX_STAT_PASS_BYTES] = {"pass_bytes", "bytes",
                            "of the matrix that passes read: database, memory or device"},
    [GX_STAT_PASS_NS] = {"pass_ns", "ns", "time in passes"},
    [GX_STAT_ORTHO_NS] = {"ortho_ns", "ns", "time in the orthogonalisation of Krylov bases"},
    [GX_STAT_ORTHO_COLUMNS] = {"ortho_columns", "count",
                               "blocks of Krylov bases that went column by column"},
    [GX_STAT_STALL_READ_NS] = {"stall_read_ns", "ns",
                               "on a device: time that steps waited for blocks to be read"},
    [GX_STAT_STALL_WRITE_NS] = {"stall_write_ns", "ns",
                                "on a device: time that steps waited for results to be written"},
    [GX_STAT_STALL_DEVICE_NS] = {"stall_device_ns", "ns",
                                 "on a device: time that everything else waited for its kernels"},
    [GX_STAT_READERS_IDLE_NS] = {"readers_idle_ns", "ns",
                                 "on a device: time that readers had no buffer, summed"},
    [GX_STAT_WRITER_IDLE_NS] = {"writer_idle_ns", "ns",
                                "on a device: time that the caller had nothing to write"},
    [GX_STAT_PREDICTED_NS] = {"predicted_ns", "ns", "predicted time of the latest planned call"},
    [GX_STAT_MEASURED_NS] = {"measured_ns", "ns", "measured time of the latest call"},
};

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
