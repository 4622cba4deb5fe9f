/*
** Streamed passes: the matrix is used in the thread that read it, piece by piece.
**
** A pass is a number of units (tiles, mostly).  Threads take them in order; each reads its unit
** with a connection of its own and works on it at once, while it is in the core's cache, so a pass
** runs at the rate of the reads and no thread waits for another one's tile.  What a unit comes to
** is a part; parts are folded one at a time, in the order of the units: the same bits whatever the
** number of threads.
*/
#ifndef GX_PASS_H
#define GX_PASS_H

#include "../mat/stream.h"

/*
** A unit is best read, and worked on, so many bytes at a time: half of a common second-level cache
** (1-2 MiB a core).
*/
enum { GX_PASS_CHUNK_BYTES = 512 << 10 };

typedef struct gx_pass_thread gx_pass_thread;

/*
** Unit `unit`, by any thread.  work: work_bytes of the thread's own; part: part_bytes to be filled,
** undefined at entry.  Both aligned to 64.  Reads through gx_pass_read(), into memory that outlives
** the call (work, part, not its stack).
*/
typedef gx_code (*gx_pass_work)(void *arg, int64_t unit, gx_pass_thread *thread, void *work,
                                void *part, gx_err *err);

/* Take in a unit's part, which is its to change: in the order of units, never two at a time. */
typedef gx_code (*gx_pass_fold)(void *arg, int64_t unit, void *part, gx_err *err);

/* Parts of a thread, at most: one to be filled while one waits. */
enum { GX_PASS_PARTS = 2 };

typedef struct gx_pass {
    const gx_mat *const *sources; /* all that units read; NULL among them: none             */
    int source_count;
    int64_t units;
    double bytes, flops; /* of all units: little of both is done by the caller alone        */
    size_t work_bytes;   /* of each thread                                                  */
    size_t part_bytes;   /* of each part: a thread has one to GX_PASS_PARTS                 */
    int64_t threads;     /* at most so many; 0: as many as there are                        */
    int parts;           /* of a thread at most; 0: GX_PASS_PARTS                           */
    gx_pass_work work;
    gx_pass_fold fold;  /* NULL: nothing to fold                                          */
    bool is_reading;    /* units do nothing but read: no team where the caller has to do it */
    bool is_callers;    /* folding is the caller's: it writes to a sink, or reads for it  */
    bool (*meanwhile)(void *arg); /* the caller's, while others work, or after each unit of its own:
                                     false: there is nothing to do for now; or NULL */
    const char *writes; /* the schema that it stores in; NULL: it does not                */
    void *arg;
} gx_pass;

/* Runs it.  Fails, as GX_BUDGET, where memory does not hold what one thread needs. */
gx_code gx_pass_run(gx_run *run, const gx_pass *pass);

/* So little is done by the caller alone. */
bool gx_pass_is_small(double bytes, double flops);

/* gx_mat_read() and gx_mat_read_as() from the thread that works on a unit. */
gx_code gx_pass_read(gx_pass_thread *thread, const gx_mat *source, int64_t i0, int64_t j0,
                     int64_t m, int64_t n, gx_number dtype, void *dst, int64_t ld, gx_err *err);
gx_code gx_pass_read_as(gx_pass_thread *thread, const gx_mat *source, int64_t i0, int64_t j0,
                        int64_t m, int64_t n, gx_dtype as, void *dst, int64_t ld, gx_err *err);

/*
** The same as they lie in memory (gx_mat_lend()), or read into own, m rows of it: *at is where they
** are, columns *ld elements apart.
*/
gx_code gx_pass_take(gx_pass_thread *thread, const gx_mat *source, int64_t i0, int64_t j0,
                     int64_t m, int64_t n, gx_dtype as, void *own, const void **at, int64_t *ld,
                     gx_err *err);

/* gx_sparse_read() from there: a piece of a sparse matrix (sparse.h). */
gx_code gx_pass_read_piece(gx_pass_thread *thread, const gx_mat *source, int64_t piece, void *block,
                           gx_csr *csr, gx_err *err);

/* gx_sparse_read_head() and gx_sparse_read_values(). */
gx_code gx_pass_read_head(gx_pass_thread *thread, const gx_mat *source, int64_t panel, void *block,
                          gx_csr *csr, gx_err *err);
gx_code gx_pass_read_values(gx_pass_thread *thread, const gx_mat *source, int64_t panel,
                            int64_t first, int64_t count, void *values, gx_err *err);

/* Bytes that one thread takes at least, and with both of its parts. */
size_t gx_pass_least_bytes(const gx_pass *pass);
size_t gx_pass_thread_bytes(const gx_pass *pass);

/* How many threads there will be, in the memory that is free now; 0: not even one. */
int64_t gx_pass_threads(gx_run *run, const gx_pass *pass);

#endif
