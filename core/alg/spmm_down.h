/*
** Private: the result of a product with a sparse matrix comes down from a device while panels still
** go up.
**
**     gx_spmm_down down = {.run = run, .accel = accel, ...};
**     code = gx_spmm_down_begin(&down, &err);
**     code = gx_spmm_down_take(&down, row0, rows, &err);  // stretches that have been computed
**     code = gx_spmm_down_end(&down, code, &err);
*/
#ifndef GX_SPMM_DOWN_H
#define GX_SPMM_DOWN_H

#include "../device/device_copy.h"

enum { GX_SPMM_DOWN_TURNS = 2 };

typedef struct gx_spmm_down {
    gx_run *run;
    gx_accel *accel;
    gx_dtype dtype;
    int64_t cols;     /* of the result                                                      */
    const void *from; /* on the device: a stretch of rows behind the other, each as a block */
    void *to;         /* in memory, of leading dimension ld                                 */
    int64_t ld;
    int64_t slice;    /* rows of a copy                                                     */
    gx_staging stage[GX_SPMM_DOWN_TURNS];
    gx_mark *mark[GX_SPMM_DOWN_TURNS];
    int64_t row0[GX_SPMM_DOWN_TURNS], rows[GX_SPMM_DOWN_TURNS]; /* on their way: none where 0 */
    int64_t turn;
} gx_spmm_down;

gx_code gx_spmm_down_begin(gx_spmm_down *d, gx_err *err);

/* Rows [row0, row0 + rows), a stretch that is there; the caller's thread.  arg: a gx_spmm_down. */
gx_code gx_spmm_down_take(void *arg, int64_t row0, int64_t rows, gx_err *err);

/* All that is on its way; after a failure nothing is any more.  Returns code, or what failed. */
gx_code gx_spmm_down_end(gx_spmm_down *d, gx_code code, gx_err *err);

#endif
