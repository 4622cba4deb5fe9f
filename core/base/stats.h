/*
** Counters of a connection, shown by the table gx_stats and by gx_metrics().  Thread-safe.
**
** A fallback is never silent: gx_stats_note() keeps the latest reason of each kind and counts it,
** and gx_stats_tell() makes an event of it too (events.h).
*/
#ifndef GX_STATS_H
#define GX_STATS_H

#include "err.h"
#include "events.h"
#include "types.h"

#include <stdatomic.h>

/* Rows of gx_stats: the counter, its name, its unit, its meaning. */
// clang-format off
#define GX_COUNTERS(COUNTER)                                                                       \
    COUNTER(CALLS, calls, "count", "SQL functions of gx run")                                      \
    COUNTER(BYTES_READ, bytes_read, "bytes", "tile bytes read from the database")                  \
    COUNTER(BYTES_WRITTEN, bytes_written, "bytes", "tile bytes written to the database")           \
    COUNTER(TILES_READ, tiles_read, "count", "tile reads, whole or part")                          \
    COUNTER(TILES_WRITTEN, tiles_written, "count", "tile writes, whole or part")                   \
    COUNTER(HELPER_READS, helper_reads, "count", "of the tile reads, those by helper connections") \
    COUNTER(KEPT_BYTES, kept_bytes, "bytes", "tile bytes found in memory from earlier calls")     \
    COUNTER(CACHE_HITS, cache_hits, "count", "blocks found in the cache")                          \
    COUNTER(CACHE_MISSES, cache_misses, "count", "blocks that had to be loaded")                   \
    COUNTER(SPILLS, spills, "count", "unfinished result blocks written out and read again")        \
    COUNTER(KERNELS, kernels, "count", "kernel calls")                                             \
    COUNTER(KERNELS_LEFT, kernels_left, "count", "of these, left by an interrupt while they ran")  \
    COUNTER(FLOPS, flops, "flop", "floating-point operations, by LAPACK's counting")               \
    COUNTER(REFINEMENTS, refinements, "count", "steps of iterative refinement")                    \
    COUNTER(ITERATIONS, iterations, "count", "steps of iterative methods for sparse systems")      \
    COUNTER(PROBES, probes, "count", "residual checks of results")                                 \
    COUNTER(PROBE_RATIO, probe_ratio, "1/1000",                                                    \
            "the latest residual check: its ratio, in thousandths")                                \
    COUNTER(READ_NS, read_ns, "ns", "time in tile reads, summed over threads")                     \
    COUNTER(WRITE_NS, write_ns, "ns", "time in tile writes, commits, deletions")                   \
    COUNTER(COMPUTE_NS, compute_ns, "ns", "time in kernels, as the caller waited")                 \
    COUNTER(WAIT_NS, wait_ns, "ns", "time the caller waited for a block")                          \
    COUNTER(CHECK_NS, check_ns, "ns", "time in looks at whole operands and results")               \
    COUNTER(COPY_NS, copy_ns, "ns",                                                                \
            "time in copies between buffers, to and from a device; signs of vectors")              \
    COUNTER(PROGRAMS, programs, "count", "programs run by gx_eval")                                \
    COUNTER(NODES, nodes, "count", "steps of these programs, loops' rounds each")                  \
    COUNTER(FUSED_GROUPS, fused_groups, "count",                                                   \
            "of these steps, elementwise functions in one pass")                                   \
    COUNTER(GPU_OPS, gpu_ops, "count", "of these steps, those on a device")                        \
    COUNTER(CPU_OPS, cpu_ops, "count", "of these steps, those on the host")                        \
    COUNTER(TRANSFERS, transfers, "count",                                                         \
            "matrices of programs that went to a device or came from it")                          \
    COUNTER(GRAPH_REPLAYS, graph_replays, "count",                                                 \
            "rounds of programs' loops that a device was given whole")                             \
    COUNTER(DEVICE_CALLS, device_calls, "count", "programs run on a device")                       \
    COUNTER(DEVICE_FALLBACKS, device_fallbacks, "count",                                           \
            "programs begun on a device and finished on the CPU")                                  \
    COUNTER(DEVICE_FAULTS, device_faults, "count", "failures that switched a device off")          \
    COUNTER(DEVICE_HITS, device_hits, "count",                                                     \
            "blocks still in device memory from an earlier call")                                  \
    COUNTER(DEVICE_EVICTIONS, device_evictions, "count", "such blocks that made room")             \
    COUNTER(UPLOADED, uploaded, "bytes", "copied to a device")                                     \
    COUNTER(DOWNLOADED, downloaded, "bytes", "copied from a device")                               \
    COUNTER(SPREAD_CALLS, spread_calls, "count", "programs run on several devices at once")        \
    COUNTER(DEVICES_LOST, devices_lost, "count",                                                   \
            "devices left out of a program that others went on with")                              \
    COUNTER(PEER_BYTES, peer_bytes, "bytes", "copied from one device to another")                  \
    COUNTER(PINNED_HITS, pinned_hits, "count", "page-locked buffers reused")                       \
    COUNTER(PINNED_MISSES, pinned_misses, "count", "page-locked buffers allocated")                \
    COUNTER(PINNED_DENIED, pinned_denied, "count",                                                 \
            "pageable buffers where page-locked ones were refused")                                \
    COUNTER(PASSES, passes, "count", "passes of Krylov methods over their matrix")                 \
    COUNTER(PASS_BYTES, pass_bytes, "bytes",                                                       \
            "of the matrix that passes read: database, memory or device")                          \
    COUNTER(PASS_NS, pass_ns, "ns", "time in passes")                                              \
    COUNTER(ORTHO_NS, ortho_ns, "ns", "time in the orthogonalisation of Krylov bases")             \
    COUNTER(ORTHO_COLUMNS, ortho_columns, "count",                                                 \
            "blocks of Krylov bases that went column by column")                                   \
    COUNTER(STALL_READ_NS, stall_read_ns, "ns",                                                    \
            "on a device: time that steps waited for blocks to be read")                           \
    COUNTER(STALL_WRITE_NS, stall_write_ns, "ns",                                                  \
            "on a device: time that steps waited for results to be written")                       \
    COUNTER(STALL_DEVICE_NS, stall_device_ns, "ns",                                                \
            "on a device: time that everything else waited for its kernels")                       \
    COUNTER(TURN_NS, turn_ns, "ns",                                                                \
            "on a device: time that kernels waited for those of other connections")                \
    COUNTER(READERS_IDLE_NS, readers_idle_ns, "ns",                                                \
            "on a device: time that readers had no buffer, summed")                                \
    COUNTER(WRITER_IDLE_NS, writer_idle_ns, "ns",                                                  \
            "on a device: time that the caller had nothing to write")                              \
    COUNTER(PREDICTED_NS, predicted_ns, "ns", "predicted time of the latest planned call")         \
    COUNTER(MEASURED_NS, measured_ns, "ns", "measured time of the latest call")
// clang-format on

typedef enum gx_counter {
#define GX_COUNTER_ENUM(ID, ...) GX_STAT_##ID,
    GX_COUNTERS(GX_COUNTER_ENUM)
#undef GX_COUNTER_ENUM
    GX_COUNTER_COUNT
} gx_counter;

enum { GX_NOTE_COUNT = 16, GX_NOTE_BYTES = 160 };

/*
** Calls by operation, which is what runs are called by ("gx_matmul"; run.h).  GX_OPS_MOST is above
** the number of SQL functions: what is called by other names beyond that is counted as "other".
*/
enum { GX_OPS_MOST = 512, GX_OP_BUCKETS = 8 };

/* What each bucket ends with: the most nanoseconds, and the same in seconds as text. */
typedef struct gx_op_bucket {
    int64_t ns;
    const char *seconds;
} gx_op_bucket;
extern const gx_op_bucket gx_op_buckets[GX_OP_BUCKETS];

typedef enum gx_ran { GX_RAN_CPU, GX_RAN_REFERENCE, GX_RAN_CUDA, GX_RAN_COUNT } gx_ran;

typedef struct gx_op_tally {
    _Atomic int64_t calls[GX_RAN_COUNT];   /* by what they ran on                        */
    _Atomic int64_t within[GX_OP_BUCKETS]; /* by how long they took; each call once      */
    _Atomic int64_t ns;                    /* of all of them                             */
} gx_op_tally;

/* A device as this connection uses it, by its ordinal; those beyond GX_TALLIED_DEVICES are not. */
enum { GX_TALLIED_DEVICES = 64 };

typedef struct gx_device_tally {
    _Atomic int64_t bytes, pinned_bytes; /* that the connection's pool has now              */
    int64_t held_ns;                     /* time that calls had buffers of it: under `lock` */
    int64_t since_ns;                    /* such a call began then; 0: there is none        */
} gx_device_tally;

typedef struct gx_stats {
    _Atomic int64_t counter[GX_COUNTER_COUNT];
    _Atomic int64_t event[GX_EVENT_KIND_COUNT]; /* put, at any level                       */
    _Atomic int64_t failed[GX_CODE_COUNT];      /* calls that ended so                     */
    _Atomic int64_t running;                    /* calls that have begun and not ended     */
    gx_op_tally op[GX_OPS_MOST];
    gx_device_tally device[GX_TALLIED_DEVICES];
    int64_t connection;          /* its number in the process; 0: none      */
    _Atomic(const char *) label; /* of the call that runs; static; or NULL  */
    _Atomic int level;           /* gx_event_level: what is told                  */
    _Atomic bool is_untold;      /* events have not gone to SQLite's log    */
    _Atomic int lock;            /* spin lock of note[] and of times in device[]: both are rare */
    int notes;
    struct gx_note {
        char text[GX_NOTE_BYTES]; /* "readers: in-memory database" */
        int64_t count;            /* how often it was noted        */
    } note[GX_NOTE_COUNT];
} gx_stats;

typedef struct gx_counter_info {
    const char *name, *unit, *meaning;
} gx_counter_info;

const gx_counter_info *gx_stats_info(gx_counter counter); /* static */

void gx_stats_add(gx_stats *stats, gx_counter counter, int64_t amount); /* stats NULL: no-op */
void gx_stats_set(gx_stats *stats, gx_counter counter, int64_t value);
/* One kernel call of so many flops, and the time the caller waited for it. */
void gx_stats_kernel(gx_stats *stats, double flops, int64_t ns);

/*
** From open to close the caller's thread is at one thing: what passes meanwhile goes to `counter`,
** but for what kernels, writes, checks and copies inside have counted for themselves.  stats NULL:
** no-op.
*/
typedef struct gx_span {
    int64_t start_ns, inner_ns;
} gx_span;
gx_span gx_stats_open(const gx_stats *stats);
void gx_stats_close(gx_stats *stats, gx_counter counter, gx_span span);

int64_t gx_stats_get(const gx_stats *stats, gx_counter counter);

/* Count a remark: a fallback, a warning.  printf; the same text is counted, not repeated. */
void gx_stats_note(gx_stats *stats, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Copy of the index-th remark, oldest first; false past the last. */
bool gx_stats_note_get(gx_stats *stats, int index, struct gx_note *note);

/* The same, and an event of that kind. */
typedef struct gx_about {
    gx_event_kind kind;
    const char *device;       /* NULL: none                                                  */
    unsigned long long bytes; /* 0: not known                                                */
    const char *instead;      /* the event's text where the remark shows elements; else NULL */
} gx_about;
void gx_stats_tell(gx_stats *stats, const gx_about *about, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The event alone, with the failure's text and bytes.  stats NULL: no-op. */
void gx_stats_event(gx_stats *stats, gx_event_kind kind, const char *device, const gx_err *err);

/* That where the failure, which a statement gets, is one of memory or damage; else nothing. */
void gx_stats_failure(gx_stats *stats, const gx_err *err);

/* The kind of a fallback after such a failure of a device. */
gx_event_kind gx_fallback_after(gx_code code);

/*
** A call begins (returns the label before it), and ends: by what it ran on, after ns, with err.
** One thread at a time: the connection's.
*/
const char *gx_stats_begin(gx_stats *stats, const char *label);
void gx_stats_end(gx_stats *stats, const char *label, const char *before, gx_ran ran, int64_t ns,
                  const gx_err *err);

/* The name of operation k of all that have run in the process; NULL: there are no more. */
const char *gx_operation_name(int k);

/* The connection holds the device from now on, and no longer; ordinal beyond the tally: no-op. */
void gx_stats_hold(gx_stats *stats, int ordinal, bool is_held);
void gx_stats_device_bytes(gx_stats *stats, int ordinal, size_t bytes, size_t pinned_bytes);

/*
** Add what one has counted to another, which nobody else uses meanwhile.  is_moved: and begin again
** from zero (into may be NULL then); else what it has now is added too: device[].since_ns of the
** other is how many hold the device.  A counter that is no sum is left out.
*/
void gx_stats_add_all(gx_stats *from, bool is_moved, gx_stats *into);
bool gx_stats_is_sum(gx_counter counter);

/* All to zero, and no remark any more; what it has now stays. */
void gx_stats_reset(gx_stats *stats);

/* Nanoseconds of a monotonic clock. */
int64_t gx_now_ns(void);

#endif
