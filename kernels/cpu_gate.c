/*
** The gate of OpenBLAS's threads.
**
** OpenBLAS is linked into gx statically with its symbols hidden, so its thread count is ours
** alone: it is set to 1 when the first device is opened, and every kernel is then single-threaded
** and may be called from any number of threads at once.
**
** The gate is a read-write lock that prefers the writer: narrow sections read-lock it (tens of
** nanoseconds next to a product of microseconds or more; tiny products never call BLAS), a wide
** section write-locks it and so is alone.  The lock and the once-flag are the only state of the
** process here, because the thread count that they guard is one, too.
*/
#include "cpu.h"

#include <cblas.h>
#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_rwlock_t gate = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

static void use_one_thread(void)
{
    openblas_set_num_threads(1);
}

void gx_cpu_gate_open(void)
{
    (void)pthread_once(&once, use_one_thread);
}

void gx_cpu_narrow_begin(void)
{
    (void)pthread_once(&once, use_one_thread);
    (void)pthread_rwlock_rdlock(&gate);
}

void gx_cpu_narrow_end(void)
{
    (void)pthread_rwlock_unlock(&gate);
}

/*
** After a call of several threads OpenBLAS's own look for more work for some 30 ms, and take the
** processors from gx's; below this order they bring less than that.
*/
static const int64_t WIDE_ORDER = 384;

void gx_cpu_wide_begin(int threads, int64_t order)
{
    (void)pthread_once(&once, use_one_thread);
    (void)pthread_rwlock_wrlock(&gate);
    openblas_set_num_threads(threads < 1 || order < WIDE_ORDER ? 1 : threads);
}

void gx_cpu_wide_end(void)
{
    openblas_set_num_threads(1);
    (void)pthread_rwlock_unlock(&gate);
}

const char *gx_cpu_blas_config(void)
{
    return openblas_get_config();
}
