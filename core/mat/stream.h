/*
** Helper threads that read: each has read-only connections of its own to the files of the sources.
**
** A stream runs one function on every helper; the function asks for work (the next block of a
** schedule, the next tile of a scan) until there is none.  Where no helper can serve (an in-memory
** database, data of an open transaction, ...) the stream has no helpers, the reason is in
** gx_stats, and the caller does the reading through its own connection.  Helpers never outlive the
** SQL call.
*/
#ifndef GX_STREAM_H
#define GX_STREAM_H

#include "mat.h"

enum {
    GX_STREAM_SCHEMAS = 4
}; /* different databases whose matrices one call may mix and still stream */

/* Less to read gets no helpers: a connection costs more than it brings, about 0.2 ms to open. */
enum { GX_STREAM_LEAST_BYTES = 1 << 20 };

typedef struct gx_stream gx_stream;

/* A helper's side: which reader serves a source. */
typedef struct gx_helper {
    gx_run *run;
    int index;                            /* 0 .. helpers-1 */
    gx_reader *reader[GX_STREAM_SCHEMAS]; /* one per schema of the stream */
    const gx_stream *stream;
} gx_helper;

/*
** The body of a helper.  Ends when there is no work left or the run has stopped; reports by
** gx_run_fail.
*/
typedef void (*gx_helper_fn)(void *arg, gx_helper *helper);

/*
** Open helpers for the stored matrices under the count sources, at most wanted of them, and run fn
** on each: on one for certain, on the others as far as they get a connection.  *stream is NULL when
** there are none (never an error: the caller reads).  bytes: what will be read in all; little work
** gets no helpers.
*/
gx_code gx_stream_start(gx_run *run, const gx_mat *const *sources, int count, int wanted,
                        double bytes, gx_helper_fn fn, void *arg, gx_stream **stream);

/* Join the helpers and close their connections.  NULL is a no-op.  fn must be able to end. */
void gx_stream_stop(gx_stream *stream);

int gx_stream_helpers(const gx_stream *stream); /* threads started; NULL: 0 */

/* True when a writer of that schema is in the helpers' way (rollback journal).  NULL: false. */
bool gx_stream_excludes_writer(const gx_stream *stream, const char *schema);

/* The reader for a source; NULL when it has no stored matrix under it. */
gx_reader *gx_helper_reader(const gx_helper *helper, const gx_mat *source);

/* Wait for a change, under its lock, but not so long that an interrupt goes unnoticed. */
void gx_stream_wait(pthread_cond_t *changed, pthread_mutex_t *lock);

#endif
