/*
** Inside running a program on a device: exec_device.c makes it ready and puts it away,
** exec_queue.c runs it, exec_read.c reads what goes up, exec_deliver.c writes what comes down.
*/
#ifndef GX_EXEC_DEVICE_H
#define GX_EXEC_DEVICE_H

#include "exec_int.h"

#include "../device/devcall.h"

#include <stdatomic.h>

enum { GX_XD_RING = 32, GX_XD_STAGES_DOWN = 64, GX_XD_STAGES = 192 /* both ways */ };

/* A rectangle of a block on its way. */
typedef struct gx_xd_piece {
    int64_t item;      /* of the schedule's loads or flushes */
    int64_t i, m;      /* rows of the block                  */
    int64_t j, n;      /* columns                            */
    int stage;         /* -1: none yet                       */
    int32_t copy;      /* between devices: its number there, once enqueued */
    int32_t turns;     /* up: it and those behind it that one helper reads: of a tile */
    int32_t need;      /* up: the first step that uses it, or one that comes later    */
    bool is_first;     /* of its block                      */
    bool is_sent;      /* up: enqueued                      */
    bool is_abandoned; /* up: with the rest of its unit, by a helper that had to go */
    bool is_across;    /* a whole block from another device: no staging buffer */
    bool is_written;   /* down: in its sink                 */
} gx_xd_piece;

typedef enum gx_xd_stage_state {
    GX_XD_FREE = 0,
    GX_XD_FILLING, /* up: being read into; down: being written to the sink */
    GX_XD_FULL,    /* up: read; down: enqueued to come down                */
    GX_XD_LEAVING  /* up: enqueued; free when its mark has passed          */
} gx_xd_stage_state;

typedef struct gx_xd_stage {
    gx_staging memory;
    gx_mark *mark[GX_DEVICES_MOST]; /* of each device that has used it   */
    int device;                     /* whose mark is behind the latest copy into or out of it */
    gx_xd_stage_state state;
    int64_t piece; /* the latest; -1: none */
    int64_t turn;  /* up: when it was enqueued, by number */
    int reader;    /* up: who filled it last, as in gx_xd_unit; 0: the caller, or nobody */
    bool is_down;
} gx_xd_stage;

/* The pieces of a tile that a thread reads one after the other. */
typedef struct gx_xd_unit {
    int64_t next, end;
    int reader;    /* who reads: a helper's number, from 1; 0: the caller */
    bool is_ahead; /* begun before its block could go up: its buffers are promised to it */
} gx_xd_unit;

/* What a slot holds and what is under way from it. */
typedef struct gx_xd_slot {
    int64_t load; /* 1 + the load it holds unchanged; 0: none        */
    int32_t step; /* ... and then the step that wrote it             */
    int down;     /* 1 + the stage its latest copy down goes to; 0   */
} gx_xd_slot;

/* A device's buffers: workspace, and on the first the vectors: who has any is not spread. */
enum { GX_XD_WORK, GX_XD_VECTORS, GX_XD_HOLDS = GX_XD_VECTORS + GX_PROG_VECTORS };

/* One of the program's devices. */
typedef struct gx_xd_device {
    gx_devcall on;
    gx_mark *ring[GX_XD_RING]; /* behind its latest steps */
    int32_t ring_step[GX_XD_RING];
    int32_t steps;               /* enqueued: the next is at steps % GX_XD_RING     */
    gx_mark *across[GX_XD_RING]; /* behind copy c from other devices, at c % GX_XD_RING */
    int32_t copies;              /* enqueued: the latest one's number, from 1       */
} gx_xd_device;

typedef struct gx_xd {
    gx_prog *prog;
    gx_run *run;
    gx_xd_device device[GX_DEVICES_MOST];
    int devices;
    gx_schedule plan;
    gx_slots slots;
    void **place;        /* of each slot, in device memory  */
    gx_xd_slot *use;     /* of each slot                    */
    int32_t *lent;       /* of each slot, to each device: the number of the latest copy; 0: none */
    bool *is_there;      /* of each load: found in device memory, not loaded */
    bool *is_awaited;    /* of each load: its device's kernels come after it */
    int64_t *last_piece; /* of each load: enqueued last; -1: none */
    int64_t *info;       /* of each step, looked at when all have run; NULL: at once */
    void *zeros;         /* of the largest piece down, where blocks of zeros are results; or NULL */
    gx_block_key whole[GX_PROG_OPERANDS]; /* what later calls find operands by */

    pthread_mutex_t lock;      /* guards what follows, up to the ring         */
    pthread_cond_t readers;    /* the helpers: leave to read                  */
    pthread_cond_t buffers;    /* those of them that have a unit: a buffer    */
    pthread_cond_t copying;    /* the carrier: a piece to be copied           */
    pthread_cond_t running;    /* the conductor: a step's blocks are under way */
    pthread_cond_t calling;    /* the caller: a piece to be written or read   */
    gx_xd_piece *piece, *down; /* in order */
    int64_t piece_count, down_count;
    int64_t next_piece;       /* the first that nobody reads yet                    */
    int64_t sent;             /* the first that is not enqueued to go up            */
    int64_t next_across;      /* the first from another device that is not         */
    int64_t sendings;         /* pieces enqueued from buffers                       */
    int64_t promised;         /* buffers that units will take which have begun ahead */
    int64_t units, abandoned; /* begun and not read to the end; left to the caller */
    bool is_held;             /* somebody would begin ahead if there were buffers   */
    gx_xd_unit own_unit;      /* the caller's                                       */
    int64_t next_down;        /* the first that is not enqueued to come down        */
    int64_t next_written;     /* the first that nobody writes yet                  */
    int64_t written;          /* pieces that are in their sinks: all before this one */
    int32_t done;             /* steps that are enqueued                            */
    bool is_closed;           /* helpers take nothing more                          */
    bool is_finished;         /* the conductor and the carrier have ended           */
    gx_xd_stage stage[GX_XD_STAGES];
    int stages;
    size_t piece_most[2];        /* about what a piece is to have, up and down */
    size_t up_bytes, down_bytes; /* of the largest piece each way */

    pthread_mutex_t ring_lock; /* guards the rings, use[].down and lent[] with their marks */
    bool is_exclusive;
    bool helps_writing; /* helpers write, too: all sinks are in memory */
    bool is_alone;      /* the caller is conductor and carrier, too */
    int32_t shown;      /* the caller: steps that progress has been told of */
    gx_stream *stream;
    gx_reader *own; /* the caller's */
    atomic_bool is_faulty;
    gx_err fault; /* the first failure of a device; under the lock */
    int culprit;  /* which */
} gx_xd;

/* A piece of a result that is zero: it does not come down. */
/* Is the call one of a product that is made by residues there (gx_args.by_residues)? */
static inline bool gx_xd_by_residues(const gx_xd *x, gx_kernel_id kernel, gx_number dtype,
                                     const gx_args *args)
{
    double n = (double)gx_min(args->m, gx_min(args->n, args->k));
    return kernel == GX_GEMM && dtype == GX_F64 &&
           n >= x->device[0].on.accel->profile.residues_from &&
           x->run->ctx->config.number[GX_SET_DETERMINISTIC] == 0;
}

static inline bool gx_xd_is_zero(const gx_xd *x, const gx_xd_piece *p)
{
    return x->zeros != NULL && x->plan.flushes[p->item].is_zero;
}

bool gx_xd_ok(const gx_xd *x);
void gx_xd_wake(gx_xd *x); /* everybody; under the lock */
void gx_xd_fault(gx_xd *x, int device, const gx_err *err);

/* Every sink is in memory, where any thread may write any part of it (exec_deliver.c). */
bool gx_xd_is_all_in_memory(const gx_prog *prog);

/* Under the lock: has the next piece come down, and may the caller write it? */
bool gx_xd_is_write_due(const gx_xd *x);

/* Under the lock, which is let go meanwhile: the next piece that came down goes to its sink. */
void gx_xd_deliver(gx_xd *x, bool is_caller);

// Under the lock: reading (exec_read.c) -----------------------------------------------------------

/* The next piece to be read is the caller's. */
bool gx_xd_is_callers_turn(const gx_xd *x);

/* A buffer to be filled, or -1.  One that is leaving must be waited for first. */
int gx_xd_find_stage(const gx_xd *x, bool is_down);

/* The next piece to be read is one that somebody reads. */
void gx_xd_pass_crossings(gx_xd *x);

/* What must have left its slot by step t is at least enqueued to come down. */
bool gx_xd_is_fetched(const gx_xd *x, int32_t t);

/*
** The piece's slot is free, or will be when the device comes to it, and no copy from another device
** comes before it, which may read that slot.
*/
bool gx_xd_may_go_up(const gx_xd *x, int64_t index);

/* Take the next unit; then, the lock let go while waiting, a buffer for its next piece. */
bool gx_xd_begin_unit(gx_xd *x, gx_xd_unit *u);
bool gx_xd_take_piece(gx_xd *x, gx_xd_unit *u, int64_t *index);

/* A unit has been read, or its helper leaves it to the caller. */
void gx_xd_end_unit(gx_xd *x, gx_xd_unit *u);

/* Units that are held may begin, now that something has gone on. */
void gx_xd_wake_held(gx_xd *x);

/* What a piece that has its buffer is read and sent up as: the source's narrow dtype or numbers. */
gx_dtype gx_xd_form(const gx_xd *x, const gx_xd_piece *p);

/* Without the lock: a piece that was taken. */
void gx_xd_read_piece(gx_xd *x, int64_t index, gx_reader *reader);

/* A helper's function. */
void gx_xd_help(void *arg, gx_helper *helper);

/* What a step's kernel reported, to whom it concerns. */
void gx_xd_report(gx_xd *x, int32_t t, int64_t info);

/* Run the schedule: everything is enqueued and written, or the run or the device has failed. */
void gx_xd_run(gx_xd *x);

#endif
