/*
** A team of threads that share the pieces of one job.  See team.h; team_cut.c cuts kernel calls
** into pieces.
**
** One job at a time: the caller publishes it under the lock (generation, open), wakes as many
** members as there are pieces for, and works itself.  Members' threads are started by the first job
** that has pieces for them: where there are many processors starting all takes a millisecond, and
** of two pieces nobody would wait for so long.  Members take piece numbers from one atomic
** counter until it runs out or the job is stopped.  A member that wakes late finds the job closed
** and sleeps again, so the caller waits only for those that joined (active).
**
** Waiting is a short spin (SPIN_NS: jobs of one call follow each other closely) and then a
** condition variable.  While the caller waits for the last pieces it goes on polling every
** WAIT_NS.
**
** Failures: the first one is kept under the lock, stops the handing out, and is returned to the
** caller.
*/
#include "team.h"

#include "../base/stats.h"
#include "../base/thread.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

/*
** How long an idle member looks for the next job before it sleeps: about twice what waking it up
** costs.
*/
static const int64_t SPIN_NS = 20 * 1000;

/* How often the caller polls while it waits for others. */
static const long WAIT_NS = 10 * 1000 * 1000;

typedef struct member {
    gx_team *team;
    int number; /* 1 .. threads-1 */
    pthread_t thread;
} member;

struct gx_team {
    gx_mem *mem;
    gx_team_poll poll; /* may be NULL */
    void *poll_arg;
    int threads; /* the caller and those that may yet be started: read by the caller only */
    int limit;   /* of the jobs that follow, likewise */
    int started; /* members that have a thread, likewise */
    int most;    /* threads that were asked for */

    pthread_mutex_t lock; /* guards what follows, up to the atomics */
    pthread_cond_t start; /* a job was published, or quit was set   */
    pthread_cond_t done;  /* active fell to 0                       */
    bool is_open;         /* members may still join the job         */
    bool quit;
    gx_err err; /* the job's first failure */

    _Atomic uint64_t generation; /* counts jobs; changed under the lock     */
    _Atomic uint64_t active;     /* members in the job; changed under the lock */
    _Atomic int64_t next;        /* the next piece to hand out              */
    atomic_bool stopped;         /* no further pieces are handed out        */

    gx_team_fn fn; /* the job; written before is_open is set under the lock */
    void *arg;
    int64_t pieces;

    member members[]; /* threads - 1 */
};

// Waiting -----------------------------------------------------------------------------------------

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Look at the word until it is (or no longer is) value, for at most SPIN_NS. */
static void spin(const _Atomic uint64_t *word, uint64_t value, bool until_equal)
{
    int64_t end_ns = gx_now_ns() + SPIN_NS;
    while ((atomic_load_explicit(word, memory_order_acquire) == value) != until_equal) {
        for (int i = 0; i < 16; i++) {
            relax();
        }
        if (gx_now_ns() > end_ns) {
            return;
        }
    }
}

// Working -----------------------------------------------------------------------------------------

/* Keep the job's first failure and stop it.  err->code GX_OK: the piece failed without a word. */
static void stop(gx_team *team, gx_code code, gx_err *err)
{
    if (err->code == GX_OK) {
        (void)gx_fail(err, code, "a piece of the work failed");
    }
    pthread_mutex_lock(&team->lock);
    if (team->err.code == GX_OK) {
        team->err = *err;
    }
    pthread_mutex_unlock(&team->lock);
    atomic_store(&team->stopped, true);
}

bool gx_team_continues(gx_team *team, int number)
{
    if (team == NULL) {
        return true;
    }
    if (number == 0 && team->poll != NULL && !atomic_load(&team->stopped)) {
        gx_err err;
        err.code = GX_OK;
        gx_code code = team->poll(team->poll_arg, &err);
        if (code != GX_OK) {
            stop(team, code, &err);
        }
    }
    return !atomic_load_explicit(&team->stopped, memory_order_relaxed);
}

/* Take pieces until there are none. */
static void work(gx_team *team, int number)
{
    while (!atomic_load_explicit(&team->stopped, memory_order_relaxed)) {
        int64_t piece = atomic_fetch_add(&team->next, 1);
        if (piece >= team->pieces) {
            return;
        }
        gx_err err;
        err.code = GX_OK;
        gx_code code = team->fn(team->arg, piece, number, &err);
        if (code != GX_OK) {
            stop(team, code, &err);
        } else if (!gx_team_continues(team, number)) {
            return;
        }
    }
}

static void *member_main(void *arg)
{
    member *self = arg;
    gx_team *team = self->team;
    uint64_t seen = 0;
    for (;;) {
        spin(&team->generation, seen, false);
        pthread_mutex_lock(&team->lock);
        while (!team->quit && atomic_load(&team->generation) == seen) {
            pthread_cond_wait(&team->start, &team->lock);
        }
        if (team->quit) {
            pthread_mutex_unlock(&team->lock);
            return NULL;
        }
        seen = atomic_load(&team->generation);
        bool joins = team->is_open;
        if (joins) {
            atomic_fetch_add(&team->active, 1);
        }
        assert((int64_t)atomic_load(&team->active) < team->most);
        pthread_mutex_unlock(&team->lock);
        if (joins) {
            work(team, self->number);
            pthread_mutex_lock(&team->lock);
            if (atomic_fetch_sub(&team->active, 1) == 1) {
                pthread_cond_signal(&team->done);
            }
            pthread_mutex_unlock(&team->lock);
        }
    }
}

// Jobs --------------------------------------------------------------------------------------------

/* Threads for the first `wanted` members. */
static void start_members(gx_team *team, int64_t wanted)
{
    for (int k = team->started; k < wanted; k++) {
        team->members[k].team = team;
        team->members[k].number = k + 1;
        if (!gx_thread_start(&team->members[k].thread, member_main, &team->members[k])) {
            team->threads = k + 1; // the system refuses more: a smaller team
            return;
        }
        team->started = k + 1;
    }
}

static void publish(gx_team *team, int64_t pieces, gx_team_fn fn, void *arg)
{
    pthread_mutex_lock(&team->lock);
    assert(!team->is_open && "jobs of a team do not nest");
    team->err.code = GX_OK;
    team->fn = fn;
    team->arg = arg;
    team->pieces = pieces;
    atomic_store(&team->next, 0);
    atomic_store(&team->stopped, false);
    team->is_open = true;
    atomic_fetch_add(&team->generation, 1);
    pthread_mutex_unlock(&team->lock);

    int64_t wanted = gx_min(pieces, gx_team_workers(team)) - 1;
    if (wanted >= team->started) {
        pthread_cond_broadcast(&team->start);
        start_members(team, wanted); // who find the job, or have come too late
    } else {
        for (int64_t i = 0; i < wanted; i++) {
            pthread_cond_signal(&team->start);
        }
    }
}

/* Wait until nobody is in the job; polls meanwhile.  Called and returns with the lock held. */
static void wait_for_members(gx_team *team)
{
    while (atomic_load(&team->active) > 0) {
        const struct timespec until = gx_deadline(CLOCK_MONOTONIC, WAIT_NS);
        if (pthread_cond_timedwait(&team->done, &team->lock, &until) != 0) {
            pthread_mutex_unlock(&team->lock);
            (void)gx_team_continues(team, 0);
            pthread_mutex_lock(&team->lock);
        }
    }
}

gx_code gx_team_run(gx_team *team, int64_t pieces, gx_team_fn fn, void *arg, gx_err *err)
{
    if (pieces <= 0) {
        return GX_OK;
    }
    publish(team, pieces, fn, arg);
    work(team, 0);
    spin(&team->active, 0, true);

    pthread_mutex_lock(&team->lock);
    assert(team->is_open && team->fn == fn);
    team->is_open = false;
    wait_for_members(team);
    assert(atomic_load(&team->stopped) || atomic_load(&team->next) >= pieces);
    gx_code code = team->err.code;
    if (code != GX_OK) {
        code = gx_fail(err, code, "%s", team->err.text);
    }
    pthread_mutex_unlock(&team->lock);
    return code;
}

// The team ----------------------------------------------------------------------------------------

static void init_locks(gx_team *team)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->start, NULL);
    pthread_cond_init(&team->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

gx_code gx_team_create(int threads, gx_mem *mem, gx_team_poll poll, void *poll_arg, gx_team **team,
                       gx_err *err)
{
    *team = NULL;
    threads = threads < 1 ? 1 : threads;
    void *block;
    GX_TRY(gx_mem_calloc(mem, sizeof **team + (size_t)(threads - 1) * sizeof(member), "thread team",
                         &block, err));
    gx_team *t = block;
    t->mem = mem;
    t->poll = poll;
    t->poll_arg = poll_arg;
    t->threads = t->limit = t->most = threads;
    init_locks(t);
    *team = t;
    return GX_OK;
}

void gx_team_free(gx_team *team)
{
    if (team == NULL) {
        return;
    }
    pthread_mutex_lock(&team->lock);
    assert(!team->is_open && atomic_load(&team->active) == 0);
    team->quit = true;
    atomic_fetch_add(&team->generation, 1); // ends the spinning
    pthread_mutex_unlock(&team->lock);
    pthread_cond_broadcast(&team->start);
    for (int i = 0; i < team->started; i++) {
        pthread_join(team->members[i].thread, NULL);
    }
    pthread_cond_destroy(&team->done);
    pthread_cond_destroy(&team->start);
    pthread_mutex_destroy(&team->lock);
    gx_mem_free(team->mem, team);
}

int gx_team_threads(const gx_team *team)
{
    return team == NULL ? 1 : team->threads;
}

int gx_team_workers(const gx_team *team)
{
    return team == NULL ? 1 : (int)gx_min(team->threads, gx_max(team->limit, team->started + 1));
}

void gx_team_limit(gx_team *team, int members)
{
    team->limit = members;
}

gx_code gx_team_poll_now(gx_team *team, gx_err *err)
{
    return team == NULL || team->poll == NULL ? GX_OK : team->poll(team->poll_arg, err);
}

gx_mem *gx_team_mem(const gx_team *team)
{
    return team->mem;
}
