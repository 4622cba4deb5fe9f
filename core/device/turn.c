/*
** Turns of connections on a device: see turn.h.
**
** The clock of a device's turns is in seconds of predicted work, as in start-time fair queueing:
** what a connection has had goes up by what it enqueues; who comes back from a pause begins where
** those are who stayed.  So a pause earns nothing, and nobody is owed more than the lead.  Who has
** work on the device is known from the prediction and from calls that have ended, without asking
** the device; how much of its own is under way a connection knows from marks.
**
** The wait looks around every LOOK_NS: what ends it is often that another's work is done, which
** nobody tells.  Pieces are cut along the side that leaves the kernel its shape: columns or rows of
** c, and of SYRK, HERK and products with a small c the inner dimension, with beta = 1 from the
** second piece on.
**
** Eviction from another connection's pool: under a lock of its own, which may be held for as long
** as freeing takes, and that connection's `attended`, which is tried and never waited for.
**
** Process-wide state: the list of turns and the clocks, under a lock; how many there are on each
** device, which a connection that is alone looks at and no more.  The list changes under both
** locks.
*/
#include "turn.h"

#include "../base/thread.h"
#include "accel.h"

#include <math.h>

enum { LOOK_NS = 300000, WAIT_NS_MOST = 250000000, RECENT_NS = 1000000000, SIDE_LEAST = 256 };

static const int64_t SHORT_NS = 10000000000;

static struct {
    pthread_mutex_t lock, memory;
    pthread_cond_t moved; /* somebody has been served, left or rests */
    gx_turn *first;
    int waiting;
    double clock_s[GX_DEVICES_MOST];
    atomic_int users[GX_DEVICES_MOST];
    _Atomic int64_t short_ns[GX_DEVICES_MOST]; /* when somebody was last short; 0: never */
} turns = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .memory = PTHREAD_MUTEX_INITIALIZER,
           .moved = PTHREAD_COND_INITIALIZER};

void gx_turn_enter(gx_turn *turn, int ordinal, gx_pool *pool)
{
    if (ordinal < 0 || ordinal >= GX_DEVICES_MOST) {
        return; // not one that turns are counted for
    }
    pthread_mutex_init(&turn->attended, NULL);
    pthread_mutex_lock(&turns.memory);
    pthread_mutex_lock(&turns.lock);
    turn->ordinal = ordinal;
    turn->pool = pool;
    turn->next = turns.first;
    turn->link = &turns.first;
    if (turn->next != NULL) {
        turn->next->link = &turn->next;
    }
    turns.first = turn;
    atomic_fetch_add(&turns.users[ordinal], 1);
    pthread_mutex_unlock(&turns.lock);
    pthread_mutex_unlock(&turns.memory);
}

void gx_turn_leave(gx_turn *turn)
{
    if (turn->link == NULL) {
        return;
    }
    gx_turn_attend(turn, false);
    pthread_mutex_lock(&turns.memory);
    pthread_mutex_lock(&turns.lock);
    *turn->link = turn->next;
    if (turn->next != NULL) {
        turn->next->link = turn->link;
    }
    turn->link = NULL;
    atomic_fetch_sub(&turns.users[turn->ordinal], 1);
    pthread_cond_broadcast(&turns.moved);
    pthread_mutex_unlock(&turns.lock);
    pthread_mutex_unlock(&turns.memory);
    pthread_mutex_destroy(&turn->attended);
}

static bool is_alone(const gx_turn *turn)
{
    return turn->link == NULL ||
           atomic_load_explicit(&turns.users[turn->ordinal], memory_order_relaxed) < 2;
}

void gx_turn_rest(gx_turn *turn)
{
    turn->is_set[0] = turn->is_set[1] = false;
    turn->unmarked_s = 0;
    if (is_alone(turn)) {
        return;
    }
    pthread_mutex_lock(&turns.lock);
    turn->until_ns = 0;
    if (turns.waiting > 0) {
        pthread_cond_broadcast(&turns.moved);
    }
    pthread_mutex_unlock(&turns.lock);
}

// Memory ------------------------------------------------------------------------------------------

void gx_turn_attend(gx_turn *turn, bool is_begun)
{
    if (turn->link == NULL || turn->is_attended == is_begun) {
        return;
    }
    turn->is_attended = is_begun;
    (void)(is_begun ? pthread_mutex_lock : pthread_mutex_unlock)(&turn->attended);
}

size_t gx_turn_share(const gx_turn *turn, size_t bytes)
{
    return turn->link == NULL ? bytes
                              : bytes / (size_t)gx_max(1, atomic_load(&turns.users[turn->ordinal]));
}

void gx_turn_reclaim(gx_turn *turn, size_t share, size_t missing)
{
    if (is_alone(turn)) {
        return;
    }
    size_t freed = 0;
    pthread_mutex_lock(&turns.memory);
    atomic_store(&turns.short_ns[turn->ordinal], gx_now_ns());
    for (gx_turn *t = turns.first; t != NULL && freed < missing; t = t->next) {
        if (t != turn && t->ordinal == turn->ordinal && pthread_mutex_trylock(&t->attended) == 0) {
            freed += gx_pool_shrink(t->pool, share, missing - freed);
            pthread_mutex_unlock(&t->attended);
        }
    }
    pthread_mutex_unlock(&turns.memory);
}

bool gx_turn_is_short(const gx_turn *turn)
{
    if (is_alone(turn)) {
        return false;
    }
    int64_t at_ns = atomic_load(&turns.short_ns[turn->ordinal]);
    return at_ns != 0 && gx_now_ns() - at_ns < SHORT_NS;
}

// Under the lock ----------------------------------------------------------------------------------

/* Has another connection enqueued anything lately? */
static bool is_shared(const gx_turn *turn, int64_t now_ns)
{
    bool is_found = false;
    for (const gx_turn *t = turns.first; t != NULL && !is_found; t = t->next) {
        is_found = t != turn && t->ordinal == turn->ordinal && now_ns - t->used_ns < RECENT_NS;
    }
    return is_found;
}

/* What that one has had which has had least, of the others with work there or waiting for it. */
static double least_served(const gx_turn *turn, int64_t now_ns)
{
    double least = INFINITY;
    for (const gx_turn *t = turns.first; t != NULL; t = t->next) {
        bool is_there = t->is_waiting || t->until_ns > now_ns;
        if (t != turn && t->ordinal == turn->ordinal && is_there) {
            least = fmin(least, t->served_s);
        }
    }
    return least;
}

/* Wait for the turn. */
static void await(const gx_run *run, gx_turn *turn, int64_t start_ns)
{
    double *clock_s = &turns.clock_s[turn->ordinal];
    int64_t now_ns = start_ns;
    if (turn->until_ns <= now_ns) { // back from a pause
        turn->served_s = fmax(turn->served_s, *clock_s);
    }
    turn->is_waiting = true;
    turns.waiting++;
    double least = least_served(turn, now_ns);
    while (gx_ok(run) && turn->served_s > least + GX_TURN_LEAD_S &&
           now_ns - start_ns < WAIT_NS_MOST) {
        const struct timespec until = gx_deadline(CLOCK_REALTIME, LOOK_NS);
        pthread_cond_timedwait(&turns.moved, &turns.lock, &until);
        now_ns = gx_now_ns();
        least = least_served(turn, now_ns);
    }
    turns.waiting--;
    turn->is_waiting = false;
    turn->used_ns = now_ns;
    *clock_s = fmax(*clock_s, fmin(turn->served_s, least));
}

// A turn ------------------------------------------------------------------------------------------

/* The queue overtakes the others' with what the call has enqueued first. */
static gx_code prefer(gx_run *run, gx_accel *accel, double seconds, bool is_now, gx_err *err)
{
    gx_turn *turn = &accel->turn;
    if (turn->call != run->start_ns) {
        turn->call = run->start_ns;
        turn->call_s = 0;
    }
    turn->call_s += seconds;
    bool is_preferred = turn->call_s <= GX_TURN_SMALL_S;
    if (!is_now || is_preferred == turn->is_preferred || accel->backend->queue_prefer == NULL) {
        return GX_OK;
    }
    turn->is_preferred = is_preferred;
    return accel->backend->queue_prefer(accel->dev, accel->run, is_preferred, err);
}

/* No more than the latest piece is under way; what has been enqueued since is the next one. */
static gx_code bound(gx_accel *accel, gx_err *err)
{
    gx_turn *turn = &accel->turn;
    const gx_backend *backend = accel->backend;
    if (turn->unmarked_s < GX_TURN_PIECE_S / 2) {
        return GX_OK;
    }
    int next = 1 - turn->latest;
    if (turn->mark[next] == NULL) {
        GX_TRY(backend->mark_create(accel->dev, &turn->mark[next], err));
    }
    GX_TRY(backend->mark_set(accel->dev, accel->run, turn->mark[next], err));
    turn->is_set[next] = true;
    turn->unmarked_s = 0;
    if (turn->is_set[turn->latest]) {
        GX_TRY(backend->mark_wait(accel->dev, turn->mark[turn->latest], err));
        turn->is_set[turn->latest] = false;
    }
    turn->latest = next;
    return GX_OK;
}

/* Wait until work that is to take so long may be enqueued. */
static gx_code take(gx_run *run, gx_accel *accel, double seconds, gx_err *err)
{
    gx_turn *turn = &accel->turn;
    int64_t now_ns = gx_now_ns();
    pthread_mutex_lock(&turns.lock);
    bool is_ours = !is_shared(turn, now_ns);
    await(run, turn, now_ns);
    int64_t waited_ns = turn->used_ns - now_ns;
    turn->served_s += seconds;
    turn->until_ns = gx_max(turn->until_ns, turn->used_ns) + (int64_t)(seconds * 1e9);
    if (turns.waiting > 0) {
        pthread_cond_broadcast(&turns.moved);
    }
    pthread_mutex_unlock(&turns.lock);
    if (waited_ns > 0) {
        gx_stats_add(&run->ctx->stats, GX_STAT_TURN_NS, waited_ns);
    }
    GX_TRY(prefer(run, accel, seconds, !is_ours, err));
    GX_TRY(is_ours ? GX_OK : bound(accel, err));
    turn->unmarked_s += seconds;
    return GX_OK;
}

// Pieces ------------------------------------------------------------------------------------------

/* The sides of a call: [0, extent) is cut into pieces of `width`. */
typedef struct cut {
    enum { BY_COLUMNS, BY_ROWS, BY_INNER } side;
    int64_t extent, width;
} cut;

static cut whole(int side, int64_t extent)
{
    return (cut){.side = side, .extent = extent, .width = extent};
}

static cut choose_side(gx_kernel_id id, const gx_args *p)
{
    switch (id) {
    case GX_GEMM:
        return gx_max(p->m, p->n) < 2 * SIDE_LEAST ? whole(BY_INNER, p->k)
               : p->n >= p->m                      ? whole(BY_COLUMNS, p->n)
                                                   : whole(BY_ROWS, p->m);
    case GX_SYRK:
    case GX_HERK:
        return whole(BY_INNER, p->k);
    case GX_TRSM:
    case GX_TRMM:
        return p->side == GX_LEFT ? whole(BY_COLUMNS, p->n) : whole(BY_ROWS, p->m);
    default:
        return whole(BY_COLUMNS, 0);
    }
}

static const void *at_op(gx_trans trans, gx_number dtype, const void *base, int64_t ld, int64_t i,
                         int64_t j)
{
    bool is_plain = trans == GX_NO_TRANS;
    return base == NULL ? NULL : gx_at(base, dtype, ld, is_plain ? i : j, is_plain ? j : i);
}

/* The piece of the call that begins at `from`. */
static gx_args piece_of(gx_kernel_id id, gx_number dtype, const gx_args *p, const cut *c,
                        int64_t from)
{
    gx_args piece = *p;
    int64_t width = gx_min(c->width, c->extent - from);
    bool is_product = id == GX_GEMM;
    switch (c->side) {
    case BY_COLUMNS:
        piece.n = width;
        piece.c = gx_at(p->c, dtype, p->ldc, 0, from);
        piece.b = is_product ? at_op(p->transb, dtype, p->b, p->ldb, 0, from) : p->b;
        break;
    case BY_ROWS:
        piece.m = width;
        piece.c = gx_at(p->c, dtype, p->ldc, from, 0);
        piece.a = is_product ? at_op(p->transa, dtype, p->a, p->lda, from, 0) : p->a;
        break;
    case BY_INNER:
        piece.k = width;
        piece.a = at_op(p->transa, dtype, p->a, p->lda, 0, from);
        piece.b = at_op(p->transb, dtype, p->b, p->ldb, from, 0);
        piece.beta = from > 0 ? (gx_scalar){1, 0} : p->beta;
        break;
    }
    return piece;
}

static bool is_contended(const gx_turn *turn)
{
    pthread_mutex_lock(&turns.lock);
    bool is_found = is_shared(turn, gx_now_ns());
    pthread_mutex_unlock(&turns.lock);
    return is_found;
}

/* In how many pieces?  1: whole. */
static int64_t count_pieces(gx_run *run, const gx_accel *accel, gx_kernel_id id, gx_number dtype,
                            const gx_args *args, double seconds, cut *c)
{
    bool is_fixed = run->ctx->config.number[GX_SET_DETERMINISTIC] != 0 || args->by_residues;
    *c = choose_side(id, args);
    if (is_fixed || seconds <= 1.5 * GX_TURN_PIECE_S || c->extent < 2 * SIDE_LEAST ||
        !is_contended(&accel->turn)) {
        return 1;
    }
    double parts = ceil(seconds / GX_TURN_PIECE_S);
    c->width = gx_max(SIDE_LEAST, (int64_t)((double)c->extent / parts) / SIDE_LEAST * SIDE_LEAST);
    gx_args piece = piece_of(id, dtype, args, c, 0);
    size_t (*bytes)(gx_dev *, gx_kernel_id, gx_number, const gx_args *) = accel->backend->workspace;
    bool has_room =
        bytes == NULL || bytes(accel->dev, id, dtype, &piece) <= bytes(accel->dev, id, dtype, args);
    return has_room ? gx_ceil_div(c->extent, c->width) : 1;
}

gx_code gx_turn_kernel(gx_run *run, gx_accel *accel, gx_kernel_id id, gx_number dtype,
                       const gx_args *args, gx_err *err)
{
    gx_turn *turn = &accel->turn;
    gx_kernel kernel = accel->backend->kernel[id][dtype];
    if (is_alone(turn)) {
        return kernel(accel->dev, accel->run, args, err);
    }
    double seconds = gx_profile_device_kernel(&accel->profile, id, dtype, args);
    if (turn->is_recording) {
        turn->recorded_s += seconds;
        return kernel(accel->dev, accel->run, args, err);
    }
    cut c;
    int64_t pieces = count_pieces(run, accel, id, dtype, args, seconds, &c);
    if (pieces == 1) {
        GX_TRY(take(run, accel, seconds, err));
        return kernel(accel->dev, accel->run, args, err);
    }
    for (int64_t k = 0; k < pieces; k++) {
        gx_args piece = piece_of(id, dtype, args, &c, k * c.width);
        GX_TRY(take(run, accel, seconds / (double)pieces, err));
        GX_TRY(kernel(accel->dev, accel->run, &piece, err));
    }
    return GX_OK;
}

// Records -----------------------------------------------------------------------------------------

void gx_turn_record(gx_accel *accel, bool is_recording)
{
    accel->turn.is_recording = is_recording;
    accel->turn.recorded_s = is_recording ? 0 : accel->turn.recorded_s;
}

gx_code gx_turn_replay(gx_run *run, gx_accel *accel, gx_record *record, gx_err *err)
{
    GX_TRY(is_alone(&accel->turn) ? GX_OK : take(run, accel, accel->turn.recorded_s, err));
    return accel->backend->replay(accel->dev, accel->run, record, err);
}
