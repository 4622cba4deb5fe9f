/*
** The gate of OpenBLAS's threads.
**
** OpenBLAS is linked into gx statically with its symbols hidden, so its thread count is ours
** alone: it is set to 1 when the first device is opened, and every kernel is then single-threaded
** and may be called from any number of threads at once.
**
** The gate is a read-write lock that prefers the writer: narrow sections read-lock it (tens of
** nanoseconds next to a product of microseconds or more; tiny products never call BLAS), a wide
** section write-locks it and so is alone.  The lock, who has it and the once-flag are the only
** state of the process here, because the thread count that they guard is one, too.
**
** A wide section can be left from inside LAPACK: gx_cpu_look(), which LAPACK passes again and again
** (cpu_leave.c), asks the caller's poll and jumps back to where the section began.  The poll may
** come back here (an application's progress handler that uses gx on another connection): whoever is
** alone in the gate passes it freely, and while a poll runs nothing is left.
**
** A fork() takes the gate as a writer.  The child has the forking thread alone: a section of
** another one would be in the gate for ever, and OpenBLAS, which ends its threads before a fork,
** waits for ever for one that is at work.  So a fork() lasts until all sections have ended.
*/
#include "../core/base/thread.h"
#include "cpu.h"

#include <cblas.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_rwlock_t gate = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

/* The thread in the wide section; 0: nobody. */
static _Atomic uintptr_t owner;

/* How the wide section is left; the owner's. */
static struct {
    bool is_on;
    jmp_buf place;
    const gx_args *args;
    gx_code code;
    gx_err *err;
} leave;

static bool is_owner(void)
{
    return atomic_load_explicit(&owner, memory_order_relaxed) == (uintptr_t)pthread_self();
}

/* An application's OpenBLAS; cpu_threads.c has its own way with gx's. */
__attribute__((weak)) void gx_cpu_set_threads(int count)
{
    openblas_set_num_threads(count);
}

__attribute__((weak)) bool gx_cpu_have_buffers(int callers)
{
    return callers > 0;
}

/* It comes before OpenBLAS's own, which was registered earlier. */
static void hold_gate(void)
{
    if (!is_owner()) {
        (void)pthread_rwlock_wrlock(&gate);
    }
}

static void let_go_of_gate(void)
{
    if (!is_owner()) {
        (void)pthread_rwlock_unlock(&gate);
    }
}

/* In the child, whose thread has another number: the lock would not know it for its holder. */
static void make_gate_anew(void)
{
    const pthread_rwlock_t made = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
    memcpy(&gate, &made, sizeof gate);
    if (is_owner()) {
        (void)pthread_rwlock_wrlock(&gate);
    }
}

static void use_one_thread(void)
{
    (void)pthread_atfork(hold_gate, let_go_of_gate, make_gate_anew);
    gx_cpu_set_threads(1);
}

void gx_cpu_gate_open(void)
{
    (void)pthread_once(&once, use_one_thread);
}

/* In narrow sections now. */
static atomic_int callers;

static gx_code fail_for_buffer(gx_err *err)
{
    return gx_fail(err, GX_NOMEM, "no address space for a buffer of OpenBLAS");
}

gx_code gx_cpu_narrow_begin(gx_err *err)
{
    (void)pthread_once(&once, use_one_thread);
    if (is_owner()) {
        return GX_OK;
    }
    (void)pthread_rwlock_rdlock(&gate);
    if (!gx_cpu_have_buffers(atomic_fetch_add(&callers, 1) + 1)) {
        gx_cpu_narrow_end();
        return fail_for_buffer(err);
    }
    return GX_OK;
}

void gx_cpu_narrow_end(void)
{
    if (!is_owner()) {
        atomic_fetch_sub(&callers, 1);
        (void)pthread_rwlock_unlock(&gate);
    }
}

/*
** After a call of several threads OpenBLAS's own look for more work for some 30 ms, and take the
** processors from gx's; below this order they bring less than that.
*/
static const int64_t WIDE_ORDER = 384;

/* How often the poll is asked by a section that waits for another. */
static const long WAIT_NS = 10 * 1000 * 1000;

/* Write-lock the gate; a wide section of somebody else may last. */
static gx_code wait_for_gate(const gx_args *args, gx_err *err)
{
    if (args->poll == NULL) {
        (void)pthread_rwlock_wrlock(&gate);
        return GX_OK;
    }
    for (;;) {
        const struct timespec until = gx_deadline(CLOCK_REALTIME, WAIT_NS);
        if (pthread_rwlock_timedwrlock(&gate, &until) == 0) {
            return GX_OK;
        }
        GX_TRY(args->poll(args->poll_arg, err));
    }
}

gx_code gx_cpu_wide(const gx_args *args, int64_t order, gx_cpu_call call, void *arg, gx_err *err)
{
    (void)pthread_once(&once, use_one_thread);
    if (is_owner()) {
        call(arg);
        return GX_OK;
    }
    GX_TRY(wait_for_gate(args, err));
    if (!gx_cpu_have_buffers(1)) {
        (void)pthread_rwlock_unlock(&gate);
        return fail_for_buffer(err);
    }
    atomic_store(&owner, (uintptr_t)pthread_self());
    gx_cpu_set_threads(args->threads < 1 || order < WIDE_ORDER ? 1 : args->threads);
    leave.args = args;
    leave.err = err;
    leave.code = GX_OK;
    if (_setjmp(leave.place) == 0) {
        leave.is_on = args->poll != NULL;
        call(arg);
    }
    gx_code code = leave.code;
    leave.is_on = false;
    gx_cpu_set_threads(1);
    atomic_store(&owner, 0);
    (void)pthread_rwlock_unlock(&gate);
    return code;
}

void gx_cpu_look(void)
{
    if (!is_owner() || !leave.is_on) {
        return;
    }
    leave.is_on = false;
    leave.code = leave.args->poll(leave.args->poll_arg, leave.err);
    if (leave.code != GX_OK) {
        _longjmp(leave.place, 1);
    }
    leave.is_on = true;
}

const char *gx_cpu_blas_config(void)
{
    return openblas_get_config();
}
