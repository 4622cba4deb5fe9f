/*
** Progress of a long call: a line on stderr, or calls of an SQL function of the application.
*/
#ifndef GX_PROGRESS_H
#define GX_PROGRESS_H

#include "run.h"

/* Remember the counters from which rates are measured. */
void gx_progress_begin(gx_run *run);

/*
** Report, when the setting 'progress' asks for it and a report is due.  GX_INTERRUPT when the SQL
** function says stop; its own failure is the call's failure.  Caller's thread.
*/
gx_code gx_progress_show(gx_run *run, int64_t now_ns, gx_err *err);

/* The last report of a call that has reported before: how it ended. */
void gx_progress_end(gx_run *run);

#endif
