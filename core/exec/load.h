/*
** Matrices from the database, or of any source, to a device's memory.
**
** Host errors (a read, an interrupt) fail the run; the device's are returned in *err, and the run
** is well.  Where either has failed, nothing is under way any more.
*/
#ifndef GX_LOAD_H
#define GX_LOAD_H

#include "../device/upload.h"
#include "pass.h"

/*
** Columns [0, cols) of mat to a (leading dimension mat->rows), as dtype; is_lower: only the tiles
** that reach into the lower triangle, the others' places are left as they are.  Read by helpers
** where they can, through page-locked buffers.
*/
gx_code gx_device_load(gx_run *run, gx_accel *accel, const gx_mat *mat, int64_t cols,
                       gx_number dtype, bool is_lower, void *a, gx_err *err);

/* The same of several matrices at once, each to a device. */
enum { GX_DEVICE_PARTS = 12 }; /* as many as a fused program has inputs */
typedef struct gx_device_part {
    gx_accel *accel;
    const gx_mat *mat;
    int64_t cols;
    gx_number dtype;
    bool is_lower;
    void *a;
} gx_device_part;

/* *culprit: the device of *err's failure. */
gx_code gx_device_load_all(gx_run *run, const gx_device_part *parts, int count,
                           gx_accel **culprit, gx_err *err);

/*
** The same of all of mat, a panel of rows after the other, so that what is there can be worked on
** while more comes.
*/
typedef struct gx_device_panels {
    int64_t rows; /* of each but the last: a multiple of mat's tiles', or all  */
    int64_t ring; /* panels that have memory at a time                         */
    /* Any thread's, one at a time: before each copy, on `up`, where the panel lies; the panel
       `ring` before it has been ready.  NULL: the device has failed. */
    void *(*place)(void *arg, int64_t panel, int64_t *ld, gx_err *err);
    /* The caller's thread's, or NULL: once, while others read what goes first; memory for it. */
    gx_code (*open)(void *arg, gx_err *err);
    /* The caller's thread's: behind the last copy of `count` panels from this one on, as many as
       are there; they come in any order. */
    gx_code (*ready)(void *arg, int64_t panel, int64_t count, gx_err *err);
    /* The caller's thread's, or NULL: once before any panel is ready, and while others read and
       none is, until it sets *is_done; then again behind the next ready(). */
    gx_code (*meanwhile)(void *arg, bool *is_done, gx_err *err);
    void *arg;
} gx_device_panels;

gx_code gx_device_load_panels(gx_run *run, gx_accel *accel, const gx_mat *mat, gx_number dtype,
                              const gx_device_panels *panels, gx_err *err);

/*
** For passes that bring other things as well: a matrix as units, each of them some columns of a
** tile, or some tiles, in pieces that go up one behind the other.  place, of a matrix that comes by
** panels: under the ring's lock, before each copy, where the panel lies; NULL: nowhere any more.
** sent, or NULL: under the lock, when a unit has been enqueued, up to the stage's mark.
*/
typedef struct gx_load_part {
    gx_device_part to;
    int64_t panel_rows, piece_rows, piece_cols, unit_cols;
    int64_t down, per_panel; /* units in a column of a panel; in a panel */
    int64_t units, pieces;   /* of all; at most                          */
    size_t piece_bytes;
    void *(*place)(void *arg, int64_t panel, int64_t *ld, gx_err *err);
    gx_code (*sent)(void *arg, int64_t panel, const gx_stage *s, gx_err *err);
    void *arg;
} gx_load_part;

/* panel_rows 0: one panel. */
void gx_load_cut(gx_load_part *part, const gx_device_part *to, int64_t panel_rows);

/* Unit `unit` of the part, from a pass. */
gx_code gx_load_unit(gx_upload *u, const gx_load_part *part, int64_t unit, gx_pass_thread *thread,
                     gx_err *err);

#endif
