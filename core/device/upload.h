/*
** A ring of page-locked buffers (stages) through which threads send what they have read to a
** device, and fetch what is there.
**
** A thread takes the stage that has been leaving longest, waits for its mark, fills it, and
** enqueues copies from it under the ring's lock, which is over the queues as well.  The device's
** first failure is kept: from then on no stage is to be had, and the threads go on without a word.
*/
#ifndef GX_UPLOAD_H
#define GX_UPLOAD_H

#include "../run/run.h"
#include "accel.h"

enum { GX_UPLOAD_STAGES = 32 };

typedef struct gx_stage {
    gx_staging memory;
    gx_mark *mark; /* behind its copies */
    bool is_busy;
    int64_t turn; /* of the copies, ascending; 0: none so far */
} gx_stage;

typedef struct gx_upload {
    gx_run *run;
    gx_accel *accel;
    gx_stage stage[GX_UPLOAD_STAGES];
    int64_t stages, threads;
    pthread_mutex_t lock; /* over what follows, the stages' states and the queues */
    int64_t turn;
    gx_err fault; /* of the device, the first */
} gx_upload;

/*
** Stages of so many bytes, and marks, for so many threads: some more than these where there is
** memory, at most `most`; at least one, and few that are not page-locked, which come out of
** memory_limit.  To be closed in any case.
*/
gx_code gx_upload_open(gx_upload *u, size_t bytes, int64_t threads, int64_t most, gx_err *err);

/* Threads that may each have a stage. */
int64_t gx_upload_threads(const gx_upload *u);

/* A stage to fill; there are as many as threads, at least.  NULL: the device has failed. */
gx_stage *gx_upload_take(gx_upload *u);

/* Take the lock; false: nothing is to be sent any more.  code: what filling it came to. */
bool gx_upload_begin(gx_upload *u, gx_stage *s, gx_code code);

/* n columns of so many bytes that lie in the stage without gaps; then the mark behind all. */
gx_code gx_upload_send(gx_upload *u, void *to, size_t to_ld, const void *from, size_t bytes,
                       int64_t n, gx_err *err);
gx_code gx_upload_mark(gx_upload *u, const gx_stage *s, gx_err *err);

/* Let go of the lock, and of the stage; s NULL: it is still being filled. */
void gx_upload_end(gx_upload *u, gx_stage *s, const gx_err *fault);

/*
** Nothing is under way any more, but for kernels where all went well and `kernels_go_on`, and the
** stages are the pool's.  The first failure: code, which *err is of, the fault, or a late one.
*/
gx_code gx_upload_close(gx_upload *u, bool kernels_go_on, gx_code code, gx_err *err);

#endif
