/*
** Whole matrices to and from device memory, outside of programs: for what works on a matrix as a
** whole there (spectra) or keeps it there for many passes (Krylov methods).
**
** Host errors (a read, an interrupt) fail the run; the device's are returned in *err, and the run
** is well.  Where either has failed, nothing is under way any more.
*/
#ifndef GX_DEVICE_COPY_H
#define GX_DEVICE_COPY_H

#include "../mat/mat.h"
#include "accel.h"

/*
** Columns [0, cols) of mat to a (leading dimension mat->rows), as dtype; is_lower: only the tiles
** that reach into the lower triangle, the others' places are left as they are.  Read by helpers
** where they can, through page-locked buffers.
*/
gx_code gx_device_load(gx_run *run, gx_accel *accel, const gx_mat *mat, int64_t cols,
                       gx_number dtype, bool is_lower, void *a, gx_err *err);

/* The same of several matrices at once. */
enum { GX_DEVICE_PARTS = 12 }; /* as many as a fused program has inputs */
typedef struct gx_device_part {
    const gx_mat *mat;
    int64_t cols;
    gx_number dtype;
    bool is_lower;
    void *a;
} gx_device_part;

gx_code gx_device_load_all(gx_run *run, gx_accel *accel, const gx_device_part *parts, int count,
                           gx_err *err);

/*
** The same of all of mat, a panel of rows after the other, so that what is there can be worked on
** while more comes.
*/
typedef struct gx_device_panels {
    int64_t rows; /* of each but the last: a multiple of mat's tiles', or all  */
    int64_t ring; /* panels that have memory at a time                         */
    void *(*place)(void *arg, int64_t panel, int64_t *ld);
    /* The caller's thread's, or NULL: once, while helpers read what goes first; memory for it. */
    gx_code (*open)(void *arg, gx_err *err);
    /* Any thread's, one at a time: before the first copy, on `up`; the panel `ring` before it has
       been ready. */
    gx_code (*begin)(void *arg, int64_t panel, gx_err *err);
    /* The caller's thread's: behind the last copy of `count` panels from this one on, as many as
       are there; they come in any order. */
    gx_code (*ready)(void *arg, int64_t panel, int64_t count, gx_err *err);
    /* The caller's thread's, or NULL: once before any panel is ready, and while helpers read and
       none is, until it sets *is_done; then again behind the next ready(). */
    gx_code (*meanwhile)(void *arg, bool *is_done, gx_err *err);
    void *arg;
} gx_device_panels;

gx_code gx_device_load_panels(gx_run *run, gx_accel *accel, const gx_mat *mat, gx_number dtype,
                              const gx_device_panels *panels, gx_err *err);

/* m x n elements of ordinary memory to the device, and from there; b has no gaps. */
gx_code gx_device_put(gx_run *run, gx_accel *accel, gx_number dtype, int64_t m, int64_t n,
                      const void *a, int64_t lda, void *b, gx_err *err);
gx_code gx_device_get(gx_run *run, gx_accel *accel, gx_number dtype, int64_t m, int64_t n,
                      const void *b, void *a, int64_t lda, gx_err *err);

/*
** What a rectangle of mat is to be read as into a staging buffer, so that gx_device_send() has it up
** as numbers: its own narrow dtype where the device widens (gx_mat_narrow()), else the number's.
*/
gx_dtype gx_device_form(const gx_accel *accel, const gx_staging *stage, const gx_mat *mat,
                        gx_number number);

/*
** Enqueue on `up`: m x n elements `as`, without gaps at `from` in a staging buffer, to c as numbers.
** Narrow ones cross the link as they are; the device reads them there.  Any thread.
*/
gx_code gx_device_send(gx_run *run, const gx_accel *accel, gx_dtype as, const void *from,
                       gx_number number, void *c, int64_t ldc, int64_t m, int64_t n, gx_err *err);

/*
** Who copies so many bytes.  NULL: the caller, who has copied a MiB for each thread by the time
** that a team of them has been started and ended; what is copied again and again is worth that
** sooner.
*/
gx_team *gx_device_copiers(gx_run *run, size_t bytes, bool is_once);

/* Copy bytes, over the team where that pays; columns, to memory that a device reads next. */
void gx_device_memcpy(gx_run *run, void *to, const void *from, size_t bytes);
void gx_device_stage(gx_run *run, void *to, size_t to_ld_bytes, const void *from,
                     size_t from_ld_bytes, size_t col_bytes, size_t cols);

/* Wait for all queues: after a failure too, before buffers are given back. */
gx_code gx_device_settle(gx_accel *accel, gx_err *err);

/*
** The device could not do what: counted, with the reason in gx_stats; what has failed for another
** reason than a lack of memory is switched off for the connection (the accelerator is then gone).
** Everything taken from its pool must have been given back.
*/
void gx_device_give_up(gx_run *run, gx_accel *accel, const gx_err *err);

#endif
