/*
** Memory to and from a device's, outside of programs: for what works on a matrix as a whole there
** (spectra) or keeps it there for many passes (Krylov methods); those in the database: exec/load.h.
**
** Host errors (a read, an interrupt) fail the run; the device's are returned in *err, and the run
** is well.  Where either has failed, nothing is under way any more.
*/
#ifndef GX_DEVICE_COPY_H
#define GX_DEVICE_COPY_H

#include "../mat/mat.h"
#include "accel.h"

/* m x n elements of ordinary memory to the device, and from there; b has no gaps. */
gx_code gx_device_put(gx_run *run, gx_accel *accel, gx_number dtype, int64_t m, int64_t n,
                      const void *a, int64_t lda, void *b, gx_err *err);
gx_code gx_device_get(gx_run *run, gx_accel *accel, gx_number dtype, int64_t m, int64_t n,
                      const void *b, void *a, int64_t lda, gx_err *err);

/*
** What a rectangle of mat is to be read as into a staging buffer, for gx_device_send(): its own
** narrow dtype where the device widens (gx_mat_narrow()), else the number's.
*/
gx_dtype gx_device_form(const gx_accel *accel, const gx_staging *stage, const gx_mat *mat,
                        gx_number number);

/*
** Enqueue on `up`: m x n elements `as`, without gaps at `from` in a staging buffer, to c as
** numbers.  Narrow ones cross the link as they are; the device reads them there.  Any thread.
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

/*
** The device could not do what: counted, with the reason in gx_stats; what has failed for another
** reason than a lack of memory is switched off for the connection (the accelerator is then gone).
** Everything taken from its pool must have been given back.
*/
void gx_device_give_up(gx_run *run, gx_accel *accel, const gx_err *err);

#endif
