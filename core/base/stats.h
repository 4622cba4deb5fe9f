/*
** Counters of a connection, shown by the table gx_stats.  Thread-safe.
**
** A fallback is never silent: gx_stats_note() keeps the latest reason of each kind and counts it.
*/
#ifndef GX_STATS_H
#define GX_STATS_H

#include "types.h"

#include <stdatomic.h>

typedef enum gx_counter {
    GX_STAT_CALLS = 0,     /* SQL functions of gx run                               */
    GX_STAT_BYTES_READ,    /* tile bytes read from the database                     */
    GX_STAT_BYTES_WRITTEN, /* tile bytes written to the database                    */
    GX_STAT_TILES_READ,    /* tile reads, whole or part                             */
    GX_STAT_TILES_WRITTEN,
    GX_STAT_HELPER_READS,     /* of the tile reads, those by helper connections        */
    GX_STAT_CACHE_HITS,       /* block found in the cache                              */
    GX_STAT_CACHE_MISSES,     /* block loaded                                          */
    GX_STAT_SPILLS,           /* unfinished result blocks written and read again       */
    GX_STAT_KERNELS,          /* kernel calls                                          */
    GX_STAT_KERNELS_LEFT,     /* of these, left by an interrupt while they ran         */
    GX_STAT_FLOPS,            /* floating-point operations, LAPACK's counting          */
    GX_STAT_REFINEMENTS,      /* steps of iterative refinement                         */
    GX_STAT_ITERATIONS,       /* steps of iterative methods for systems                */
    GX_STAT_PROBES,           /* residual checks of results                           */
    GX_STAT_PROBE_RATIO,      /* the latest one's ratio, in thousandths               */
    GX_STAT_READ_NS,          /* time in tile reads, summed over threads               */
    GX_STAT_WRITE_NS,         /* time in tile writes                                   */
    GX_STAT_COMPUTE_NS,       /* time in kernels, as the caller waited                 */
    GX_STAT_WAIT_NS,          /* time the caller waited for a block                    */
    GX_STAT_CHECK_NS,         /* ... looked at operands and results: gx_stats_close()  */
    GX_STAT_COPY_NS,          /* ... copied, packed, converted, gave vectors their sign */
    GX_STAT_PROGRAMS,         /* programs run by gx_eval                               */
    GX_STAT_NODES,            /* their steps                                           */
    GX_STAT_FUSED_GROUPS,     /* of these, groups of elementwise functions in one pass */
    GX_STAT_GPU_OPS,          /* of these steps, those on a device                     */
    GX_STAT_CPU_OPS,          /* ... and those on the host                             */
    GX_STAT_TRANSFERS,        /* matrices that went to a device or came from it        */
    GX_STAT_GRAPH_REPLAYS,    /* rounds of loops that were enqueued whole              */
    GX_STAT_DEVICE_CALLS,     /* programs run on a device                             */
    GX_STAT_DEVICE_FALLBACKS, /* programs begun on a device and finished on the host  */
    GX_STAT_DEVICE_FAULTS,    /* devices switched off after a failure                 */
    GX_STAT_DEVICE_HITS,      /* blocks still in device memory from an earlier call   */
    GX_STAT_DEVICE_EVICTIONS, /* such blocks that had to make room                    */
    GX_STAT_UPLOADED,         /* bytes copied to a device                             */
    GX_STAT_DOWNLOADED,       /* bytes copied from a device                           */
    GX_STAT_SPREAD_CALLS,     /* programs run on several devices                      */
    GX_STAT_DEVICES_LOST,     /* devices left out of one that others finished         */
    GX_STAT_PEER_BYTES,       /* bytes copied from one device to another              */
    GX_STAT_PINNED_HITS,      /* page-locked buffers reused                           */
    GX_STAT_PINNED_MISSES,    /* page-locked buffers that had to be allocated         */
    GX_STAT_PINNED_DENIED,    /* pageable buffers instead                             */
    GX_STAT_PASSES,           /* of Krylov methods over their matrix                  */
    GX_STAT_PASS_BYTES,       /* of the matrix that they read, wherever it is         */
    GX_STAT_PASS_NS,          /* the time they took                                   */
    GX_STAT_ORTHO_NS,         /* ... and that between them for orthonormal bases      */
    GX_STAT_ORTHO_COLUMNS,    /* blocks of these that went column by column           */
    GX_STAT_STALL_READ_NS,    /* on a device: steps waited for blocks to be read       */
    GX_STAT_STALL_WRITE_NS,   /* ... for finished blocks to be written                 */
    GX_STAT_STALL_DEVICE_NS,  /* ... for the device: it was the slowest, as it should  */
    GX_STAT_READERS_IDLE_NS,  /* readers had no buffer or nothing to read, summed      */
    GX_STAT_WRITER_IDLE_NS,   /* the caller had nothing to write                       */
    GX_STAT_PREDICTED_NS,     /* the planner's prediction for the latest call          */
    GX_STAT_MEASURED_NS,      /* the latest call, wall time                            */
    GX_COUNTER_COUNT
} gx_counter;

enum { GX_NOTE_COUNT = 16, GX_NOTE_BYTES = 160 };

typedef struct gx_stats {
    _Atomic int64_t counter[GX_COUNTER_COUNT];
    _Atomic int lock; /* spin lock of note[]: notes are rare */
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

void gx_stats_reset(gx_stats *stats);

/* Nanoseconds of a monotonic clock. */
int64_t gx_now_ns(void);

#endif
