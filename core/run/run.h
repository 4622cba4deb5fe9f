/*
** gx_ctx: what a connection has (made by core/connection.c).  gx_run: one SQL call.
**
** A run carries the call's error (first failure wins), its interrupt flag, progress, and the team
** of threads once one is wanted.  Drivers and executors are sticky: they do nothing once the run
** has failed.
*/
#ifndef GX_RUN_H
#define GX_RUN_H

#include "../base/config.h"
#include "../base/err.h"
#include "../base/ledger.h"
#include "../base/mem.h"
#include "../base/stats.h"
#include "../store/store.h"
#include "profile.h"
#include "team.h"

#include <pthread.h>

typedef struct gx_ctx {
    gx_store *store;
    gx_mem *mem;
    gx_config config;
    gx_stats stats;
    const gx_backend *backend; /* of dev, the host's: cpu or reference        */
    gx_dev *dev;               /* opened at first use; NULL before            */
    struct gx_accel *accel;    /* the accelerator; NULL: not open (accel.h)   */
    void (*attend)(struct gx_ctx *ctx, bool is_begun); /* its, as calls begin and end */
    bool is_accel_off;         /* it has failed: accel_reason                 */
    char accel_reason[256];
    uint64_t devices_lost;     /* ordinals of devices that have failed, as bits */
    char device_name[96]; /* of the device whose figures device_profile holds; "": none */
    gx_device_profile device_profile;
    int64_t sought_ns;     /* when the file was last looked at for saved_device; 0: not yet */
    bool has_saved_device;
    gx_device_profile saved_device;
    bool is_suitesparse_open; /* a library of it: suitesparse_path stays         */
    bool is_cuda_tried;     /* core/device/device.c has looked for the backend    */
    const gx_backend *cuda; /* found; NULL: cuda_reason says why not       */
    char cuda_reason[256];
    const struct gx_drivers *drivers; /* for matrices inside others: alg/by_parts.h */
    const char *version; /* of gx, for the profile's key; static        */
    int (*load)(struct sqlite3 *db, struct gx_ctx **made, char **message); /* gx onto another one */
    bool is_profile_loaded; /* profile is valid                            */
    gx_profile profile;     /* see gx_profile_get()                        */
    gx_ledger ledger;       /* predicted and measured times, ledger.h      */
    void *programs; /* prepared ones, of core/program; freed with the connection */
    void (*programs_free)(void *programs);
    double owed_s;          /* what a device would have saved (place.c)    */
    double owed_fleet_s;    /* what others beside it would have saved      */
    struct {
        uint64_t file;
        int64_t id, generation;
        double seconds;
    } owed_copy; /* what it would have saved with this matrix in its memory */
    int holds;              /* calls and cursors that use the store now    */
    int runs;               /* of these, calls                             */
    int64_t logged;         /* the latest event that went to SQLite's log  */
    bool is_logging;        /* one is on its way there                     */
    struct gx_ctx *next, **link; /* in the process's list: totals.h         */
} gx_ctx;

/*
** A use of the store that lasts: every run is one, and a cursor takes one from xFilter to
** xClose, since other calls begin and end while it is open.  The last release is
** gx_store_release().
*/
void gx_ctx_hold(gx_ctx *ctx);
void gx_ctx_release(gx_ctx *ctx);

/*
** The connection's events since the last time to sqlite3_log(): whoever reads the log may use other
** connections, and no lock is held.  Every release does it; the connection's thread.
*/
void gx_ctx_log(gx_ctx *ctx);

/* A failure that a statement gets without a run: an event, as the end of a run makes of its own. */
void gx_ctx_failed(gx_ctx *ctx, const gx_err *err);

typedef struct gx_run {
    gx_ctx *ctx;
    const char *label;    /* "gx_matmul": for progress; static string      */
    const char *outer;    /* of the call that this one runs in; or NULL    */
    int64_t device_calls; /* the counter when the call began               */
    gx_err err;           /* the call's failure; read by the caller thread */
    pthread_mutex_t lock; /* guards err when threads report                */
    atomic_bool stopped;  /* set with the first failure: threads look here */
    gx_team *team;        /* NULL until gx_run_team()                      */
    int64_t start_ns;
    int64_t polled_ns;                       /* last look at sqlite3_interrupt()              */
    int64_t shown_ns;                        /* last progress report                          */
    struct gx_accel *target;                 /* planning for this device; NULL: for the host  */
    size_t target_bytes;                     /* device memory that plans may count on         */
    const char *planned_as;                  /* the name that is learnt under                 */
    char planned_name[GX_LEDGER_LABEL];      /* where that is made for the call               */
    double planned_work;                     /* of the programs that have run, ...            */
    double planned_model_s, planned_s;       /* and how long they were to take */
    double planned_own_s;                    /* of that for threads and computing             */
    bool is_careful;                         /* on the host, by kernels that divide: see alg_lu.c */
    bool is_planned_on_device, is_irregular; /* not to be learnt from          */
    double done, total;                      /* progress in any unit (flops, bytes)           */
    double expected_s;                       /* of a call that counts nothing; 0: there is none */
    int64_t expected_ns;                     /* when it began                                 */
    int64_t base_flops;                      /* the counter when the progress began: for rates */
    int64_t base_bytes;                      /* the same of tile bytes read and written       */
    int shown_percent;                       /* of the latest progress report                 */
    bool is_shown;                           /* progress of this call has been reported       */
} gx_run;

void gx_run_begin(gx_run *run, gx_ctx *ctx, const char *label);
gx_code gx_run_end(gx_run *run); /* joins the team, releases the store; returns the code */

static inline bool gx_ok(const gx_run *run)
{
    return !atomic_load_explicit(&run->stopped, memory_order_relaxed);
}

/* Report a failure from any thread; returns the run's (first) code.  err->code GX_OK is a no-op. */
gx_code gx_run_fail(gx_run *run, const gx_err *err);

/* The same, with a text. */
gx_code gx_run_failf(gx_run *run, gx_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* gx_mem_alloc() and gx_mem_calloc(); NULL: the run fails for it, or had failed. */
void *gx_run_alloc(gx_run *run, size_t bytes, const char *what);
void *gx_run_calloc(gx_run *run, size_t bytes, const char *what);

/*
** Where the run has failed with this code: forget it, and return true.  For a driver that has
** another way; everything begun since the run was last well must have been ended before.
*/
bool gx_run_forgive(gx_run *run, gx_code code);

/* Caller's thread: interrupt and progress.  Cheap: looks at most every 10 ms. */
gx_code gx_run_poll(gx_run *run);
gx_code gx_run_poll_fn(void *run, gx_err *err); /* the same as a gx_team_poll */

/* The interrupt alone, for where no SQL of the application may run; the run does not fail by it. */
gx_code gx_run_interrupted(void *run, gx_err *err);

/* What progress counts: call total once, then add as work is done.  Caller's thread. */
void gx_run_progress(gx_run *run, double total);
void gx_run_advance(gx_run *run, double done);

/*
** What comes now is one call of a library that does not say how far it is, predicted to take so
** long: until work is counted again, progress is told by the clock, as an estimate.
*/
void gx_run_expect(gx_run *run, double seconds);

/*
** The team, made at first use: of one member, who polls between pieces, where the setting
** 'threads' is 1.  NULL (and a remark in gx_stats) where there is no memory for one: the caller
** works alone.
*/
gx_team *gx_run_team(gx_run *run);

/* The same for a job that one thread does in so many seconds: no more threads than pay. */
gx_team *gx_run_team_for(gx_run *run, double seconds);

/*
** A share of so many threads, which are divided among the connections of the process that have a
** call under way; with 'deterministic' all of them.  gx_run_threads() is that of the setting
** 'threads'.
*/
int64_t gx_run_share(const gx_run *run, int64_t threads);
int gx_run_threads(const gx_run *run);

/*
** How many threads a job is worth that one does in so many seconds: where each costs the caller
** START seconds, seconds / threads + threads * START is least at the root of seconds / START.
*/
int64_t gx_run_threads_worth(double seconds);

/* The host's kernels, the CPU's or the reference's; opens the backend at first use. */
gx_code gx_run_device(gx_run *run, const gx_backend **backend, gx_dev **dev);

#endif
