/*
** A signal that ends a statement: see signal.h.
**
** Our handler is put before the application's: it notes that a signal came and passes it on.  The
** thread of the statement sees the note when it looks for interrupts, and only then asks the
** application whether the signal still waits.  To ask may mean to wait for an interpreter's lock,
** whose holder may be waiting for the statement; so a thread that has not been sent a signal never
** asks.
**
** An application that sets its handler again takes ours away.  It is put back at the next look,
** which asks once in any case: a signal may have come meanwhile.  It is put back before the first
** handler seen and before no other one, since another one may be in front of ours and call it.
*/
#include "signal.h"

#include "stats.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

static const int64_t LOOK_NS = 5 * 1000 * 1000; // between looks whether our handler is there

static gx_signal_watched watched;
static atomic_int watched_number; // 0: nothing is watched
static struct sigaction before; // the application's handler; only the watched thread changes it
static atomic_bool is_before_known, has_come;

static void note(int number, siginfo_t *info, void *context)
{
    atomic_store(&has_come, true);
    if ((before.sa_flags & SA_SIGINFO) != 0) {
        before.sa_sigaction(number, info, context);
    } else {
        before.sa_handler(number);
    }
}

/* Put our handler before the application's, where there is one; false: it was there. */
static bool put_before(int number)
{
    static int64_t looked_ns; // a system call costs as much as a small statement
    struct sigaction now;
    int64_t now_ns = gx_now_ns();
    if (now_ns - looked_ns < LOOK_NS) {
        return false;
    }
    looked_ns = now_ns;
    if (sigaction(number, NULL, &now) != 0 || now.sa_sigaction == note ||
        now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) {
        return false;
    }
    if (atomic_load(&is_before_known) && now.sa_handler != before.sa_handler) {
        return false;
    }
    before = now;
    atomic_store(&is_before_known, true);
    now.sa_sigaction = note;
    now.sa_flags |= SA_SIGINFO;
    return sigaction(number, &now, NULL) == 0;
}

bool gx_signal_watch(const gx_signal_watched *wanted)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct sigaction now;
    pthread_mutex_lock(&lock);
    if (watched.number == 0 && sigaction(wanted->number, NULL, &now) == 0) {
        watched = *wanted; // its thread puts our handler in, at its next look
        atomic_store(&watched_number, watched.number);
    }
    bool is_watched = watched.number != 0 && watched.number == wanted->number;
    pthread_mutex_unlock(&lock);
    return is_watched;
}

bool gx_signal_ends_statement(void)
{
    int number = atomic_load(&watched_number);
    if (number == 0 || !pthread_equal(pthread_self(), watched.thread)) {
        return false;
    }
    bool may_have_come = put_before(number);
    if (!atomic_exchange(&has_come, false) && !may_have_come) {
        return false;
    }
    if (watched.may_end() == 0 || watched.take() == 0) {
        return false;
    }
    watched.ending();
    watched.again();
    return true;
}
