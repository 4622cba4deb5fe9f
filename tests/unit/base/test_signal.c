/*
** Signals that end a statement.  Test plan, with SIGUSR1:
**
**   1. Nothing is watched: nothing ends.  No such signal, another signal than the first: refused.
**   2. A signal before the handler is in front: the first look asks.  Later ones: once for each
**      signal, and the application's handler is called each time.
**   3. A signal that is not to end statements, or that has been handled: nothing ends, nothing is
**      taken or given back that need not be.
**   4. The application's handler set again, and one of its own that calls ours: put back in front
**      of the first and not of the second.  Ignored: left alone.
**   5. Another thread's statements do not end.
*/
#include "base/signal.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

static volatile sig_atomic_t handled, waits, is_ours = 1, taken, ended, given;

static void application(int number)
{
    (void)number;
    handled++;
    waits = 1;
}

static int may_end(void)
{
    return is_ours;
}

static int take(void)
{
    taken++;
    int did_wait = waits;
    waits = 0;
    return did_wait;
}

static void ending(void)
{
    assert_int_equal(waits, 0);
    ended++;
}

static void again(void)
{
    waits = 1;
    given++;
}

static void look_later(void) /* than the time in which our handler is not looked for again */
{
    nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
}

static void test_watching(void **state)
{
    (void)state;
    assert_false(gx_signal_ends_statement());
    gx_signal_watched watched = {1 << 20, pthread_self(), may_end, take, ending, again};
    assert_false(gx_signal_watch(&watched));
    watched.number = SIGUSR1;
    assert_true(gx_signal_watch(&watched));
    assert_true(gx_signal_watch(&watched));
    watched.number = SIGUSR2;
    assert_false(gx_signal_watch(&watched));
    assert_false(gx_signal_ends_statement()); // there is no handler
    signal(SIGUSR1, application);
    raise(SIGUSR1);
    look_later();
    assert_true(gx_signal_ends_statement());
    assert_int_equal(waits, 1);
    assert_false(gx_signal_ends_statement());
    for (int k = 2; k < 5; k++) {
        raise(SIGUSR1);
        assert_int_equal(handled, k);
        assert_true(gx_signal_ends_statement());
        assert_false(gx_signal_ends_statement());
        assert_true(taken == k && ended == k && given == k);
    }
}

static void test_signals_that_end_nothing(void **state)
{
    (void)state;
    int before = taken, had_ended = ended;
    is_ours = 0;
    raise(SIGUSR1);
    assert_false(gx_signal_ends_statement());
    is_ours = 1;
    assert_int_equal(taken, before);
    raise(SIGUSR1);
    waits = 0; // the application has handled it
    assert_false(gx_signal_ends_statement());
    assert_int_equal(ended, had_ended);
}

static struct sigaction behind;

static void in_front(int number)
{
    behind.sa_sigaction(number, NULL, NULL);
}

static void test_handlers_set_again(void **state)
{
    (void)state;
    signal(SIGUSR1, application);
    look_later();
    assert_false(gx_signal_ends_statement());
    raise(SIGUSR1);
    assert_true(gx_signal_ends_statement());

    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = in_front}, &behind);
    look_later();
    assert_false(gx_signal_ends_statement());
    int before = handled;
    raise(SIGUSR1); // one call of each
    assert_int_equal(handled, before + 1);
    assert_true(gx_signal_ends_statement());

    signal(SIGUSR1, SIG_IGN);
    look_later();
    assert_false(gx_signal_ends_statement());
    raise(SIGUSR1);
    assert_int_equal(handled, before + 1);
    signal(SIGUSR1, application);
}

static void *other_thread(void *ends)
{
    *(bool *)ends = gx_signal_ends_statement();
    return NULL;
}

static void test_other_threads(void **state)
{
    (void)state;
    look_later();
    gx_signal_ends_statement();
    raise(SIGUSR1);
    bool ends = true;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &ends), 0);
    pthread_join(thread, NULL);
    assert_false(ends);
    assert_true(gx_signal_ends_statement());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watching),
        cmocka_unit_test(test_signals_that_end_nothing),
        cmocka_unit_test(test_handlers_set_again),
        cmocka_unit_test(test_other_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
