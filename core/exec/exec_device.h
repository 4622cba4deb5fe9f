/*
** Inside running a program on a device: exec_device.c makes it ready and puts it away,
** exec_queue.c runs it.
*/
#ifndef GX_EXEC_DEVICE_H
#define GX_EXEC_DEVICE_H

#include "../device/accel.h"
#include "exec_int.h"

#include <stdatomic.h>

enum { GX_XD_RING = 32, GX_XD_STAGES = 64 };

/* A rectangle of a block on its way. */
typedef struct gx_xd_piece {
    int64_t item;  /* of the schedule's loads or flushes */
    int64_t i, m;  /* rows of the block                  */
    int64_t j, n;  /* columns                            */
    int stage;     /* -1: none yet                       */
    bool is_first; /* of its block                      */
} gx_xd_piece;

typedef enum gx_xd_stage_state {
    GX_XD_FREE = 0,
    GX_XD_FILLING, /* up: being read into; down: being written to the sink */
    GX_XD_FULL,    /* up: read; down: enqueued to come down                */
    GX_XD_LEAVING  /* up: enqueued; free when its mark has passed          */
} gx_xd_stage_state;

typedef struct gx_xd_stage {
    gx_staging memory;
    gx_mark *mark; /* behind the latest copy into or out of it */
    gx_xd_stage_state state;
    int64_t piece; /* the latest; -1: none */
    bool is_down;
} gx_xd_stage;

/* What a slot holds and what is under way from it. */
typedef struct gx_xd_slot {
    int64_t load; /* 1 + the load it holds unchanged; 0: none        */
    int down;     /* 1 + the stage its latest copy down goes to; 0   */
} gx_xd_slot;

typedef struct gx_xd {
    gx_prog *prog;
    gx_run *run;
    gx_accel *accel;
    gx_pool *pool;
    gx_schedule plan;
    int64_t slots;
    void **place;        /* of each slot, in device memory  */
    gx_xd_slot *use;     /* of each slot                    */
    bool *is_there;      /* of each load: found in device memory, not loaded */
    int64_t *last_piece; /* of each load; -1: it has none */
    uint64_t stamp[GX_PROG_OPERANDS];
    void *work;
    size_t work_bytes;
    void *vector[GX_PROG_VECTORS];

    pthread_mutex_t lock;      /* guards what follows, up to the ring         */
    pthread_cond_t readers;    /* the helpers: a buffer, or leave to read     */
    pthread_cond_t copying;    /* the carrier: a piece to be copied           */
    pthread_cond_t running;    /* the conductor: a step's blocks are under way */
    pthread_cond_t calling;    /* the caller: a piece to be written or read   */
    gx_xd_piece *piece, *down; /* in order */
    int64_t piece_count, down_count;
    int64_t next_piece; /* the first that nobody reads yet                    */
    int64_t sent;       /* pieces that are enqueued to go up                  */
    int64_t next_down;  /* the first that is not enqueued to come down        */
    int64_t written;    /* pieces that are in their sinks                     */
    int32_t done;       /* steps that are enqueued                            */
    bool is_closed;     /* helpers take nothing more                          */
    bool is_finished;   /* the conductor and the carrier have ended           */
    gx_xd_stage stage[GX_XD_STAGES];
    int stages;
    size_t piece_most;           /* about what a piece is to have */
    size_t up_bytes, down_bytes; /* of the largest piece each way */

    pthread_mutex_t ring_lock; /* guards the ring, and use[].down with its marks */
    gx_mark *ring[GX_XD_RING]; /* behind step t, at t % GX_XD_RING */
    int32_t ring_step[GX_XD_RING];
    bool is_exclusive;
    gx_stream *stream;
    gx_reader *own; /* the caller's */
    atomic_bool is_faulty;
    gx_err fault; /* the first failure of the device; under the lock */
} gx_xd;

bool gx_xd_ok(const gx_xd *x);
void gx_xd_wake(gx_xd *x); /* everybody; under the lock */
void gx_xd_fault(gx_xd *x, const gx_err *err);

/* Run the schedule: everything is enqueued and written, or the run or the device has failed. */
void gx_xd_run(gx_xd *x);

#endif
