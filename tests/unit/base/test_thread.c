/*
** Threads of gx.  Test plan:
**
**   1. The thread runs with its argument and blocks the signals that a host uses; the caller's mask
**      is as before.
*/
#include "base/thread.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const int SIGNALS[] = {SIGINT, SIGTERM, SIGCHLD, SIGALRM, SIGUSR1};
enum { SIGNAL_COUNT = sizeof SIGNALS / sizeof SIGNALS[0] };

static int blocked(void)
{
    sigset_t now;
    int count = 0;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (int k = 0; k < SIGNAL_COUNT; k++) {
        count += sigismember(&now, SIGNALS[k]);
    }
    return count;
}

static void *look(void *arg)
{
    *(int *)arg = blocked();
    return arg;
}

static void test_signals(void **state)
{
    (void)state;
    pthread_t thread;
    int seen = -1;
    void *returned = NULL;
    assert_int_equal(blocked(), 0);
    assert_true(gx_thread_start(&thread, look, &seen));
    pthread_join(thread, &returned);
    assert_ptr_equal(returned, &seen);
    assert_int_equal(seen, SIGNAL_COUNT);
    assert_int_equal(blocked(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_signals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
