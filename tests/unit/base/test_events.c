/*
** The ring of events.  Test plan:
**
**   1. Every kind has a name, a cause and a level; no two have the same name and cause.
**   2. Put, copy, next: in order, by connection, with a time; the ring keeps the latest
**      GX_EVENTS_MOST, and what is older is gone for next() too.
**   3. Through a connection's counters: counted at every level, put down to the level that is set,
**      with the function that runs; texts are cut between characters.
**   4. Threads put and read at once: each reader sees whole events in order, and all are counted.
*/
#include "base/events.h"
#include "base/stats.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static gx_event all[GX_EVENTS_MOST];

static void test_kinds(void **state)
{
    (void)state;
    for (int i = 0; i < GX_EVENT_KIND_COUNT; i++) {
        const gx_event_info *info = gx_event_info_of((gx_event_kind)i);
        assert_true(strlen(info->event) > 0 && strlen(info->cause) > 0);
        assert_true(info->level > GX_EVENTS_OFF && info->level <= GX_EVENTS_INFO);
        for (int j = 0; j < i; j++) {
            const gx_event_info *other = gx_event_info_of((gx_event_kind)j);
            assert_true(strcmp(info->event, other->event) != 0 ||
                        strcmp(info->cause, other->cause) != 0);
        }
    }
    assert_string_equal(gx_event_level_name(GX_EVENTS_WARNING), "warning");
}

static void put(int64_t connection, int k)
{
    gx_event event = {.kind = GX_EVENT_DAMAGE, .connection = connection};
    snprintf(event.text, sizeof event.text, "event %d", k);
    gx_events_put(&event);
}

static void test_ring(void **state)
{
    (void)state;
    gx_event next;
    assert_int_equal(gx_events_copy(0, all), 0);
    assert_false(gx_events_next(1, 0, &next));
    put(1, 0);
    put(2, 1);
    put(1, 2);
    assert_int_equal(gx_events_copy(0, all), 3);
    assert_int_equal(gx_events_copy(1, all), 2);
    assert_string_equal(all[0].text, "event 0");
    assert_string_equal(all[1].text, "event 2");
    assert_true(all[0].number == 1 && all[1].number == 3);
    assert_true(all[0].time_ms > 1700000000000 && all[1].time_ms >= all[0].time_ms);
    assert_true(gx_events_next(1, 1, &next));
    assert_string_equal(next.text, "event 2");
    assert_false(gx_events_next(1, 3, &next));
    for (int k = 3; k < 2 * GX_EVENTS_MOST; k++) {
        put(3, k);
    }
    assert_int_equal(gx_events_copy(0, all), GX_EVENTS_MOST);
    for (int k = 0; k < GX_EVENTS_MOST; k++) {
        assert_int_equal(all[k].number, GX_EVENTS_MOST + 1 + k);
    }
    assert_int_equal(gx_events_copy(1, all), 0);
    assert_true(gx_events_next(3, 0, &next));
    assert_int_equal(next.number, GX_EVENTS_MOST + 1);
}

static void test_levels(void **state)
{
    (void)state;
    static gx_stats stats;
    gx_err err = {0};
    gx_fail_bytes(&err, GX_NOMEM, 4711, "no \"room\"\nfor it");
    stats.connection = 77;
    for (int level = GX_EVENTS_OFF; level <= GX_EVENTS_INFO; level++) {
        int before = gx_events_copy(77, all);
        atomic_store(&stats.level, level);
        const char *outer = gx_stats_begin(&stats, "gx_test");
        gx_stats_failure(&stats, &err);
        gx_stats_tell(
            &stats,
            &(gx_about){.kind = GX_EVENT_FALLBACK_MEMORY, .device = "cuda:0 mock", .bytes = 5},
            "told");
        gx_stats_note(&stats, "a remark");
        gx_stats_end(&stats, "gx_test", outer, GX_RAN_CPU, 50, &(gx_err){.code = GX_ARG});
        assert_int_equal(gx_events_copy(77, all) - before, level);
    }
    assert_string_equal(all[0].text, "no \"room\" for it");
    assert_string_equal(all[0].function, "gx_test");
    assert_int_equal(all[0].bytes, 4711);
    assert_string_equal(all[2].device, "cuda:0 mock"); // error; error, warning; ...
    assert_int_equal(atomic_load(&stats.event[GX_EVENT_NOMEM_HOST]), 4);
    assert_int_equal(atomic_load(&stats.event[GX_EVENT_REMARK]), 4);
    assert_int_equal(atomic_load(&stats.failed[GX_ARG]), 4);
    struct gx_note note;
    assert_true(gx_stats_note_get(&stats, 0, &note));
    assert_string_equal(note.text, "told"); // a failure of a call is none

    char longest[300];
    memset(longest, 'x', sizeof longest);
    for (int k = 0; k < 290; k += 2) {
        memcpy(longest + 1 + k, "\xc3\xa4", 2);
    }
    longest[299] = '\0';
    gx_err cut = {.code = GX_CORRUPT};
    snprintf(cut.text, sizeof cut.text, "%s", longest);
    gx_stats_failure(&stats, &cut);
    int count = gx_events_copy(77, all);
    size_t end = strlen(all[count - 1].text);
    assert_true(end < GX_EVENT_BYTES && end % 2 == 0); // x, two bytes each, "..."
    assert_string_equal(all[count - 1].text + end - 3, "...");
    gx_stats_event(NULL, GX_EVENT_DAMAGE, NULL, &cut);
    gx_stats_tell(NULL, &(gx_about){.kind = GX_EVENT_DAMAGE}, "nobody hears");
}

enum { THREADS = 4, ROUNDS = 3000 };

static _Atomic int putters;

static void *put_many(void *arg)
{
    static gx_stats stats[THREADS];
    gx_stats *own = &stats[*(int *)arg];
    own->connection = 100 + *(int *)arg;
    atomic_store(&own->level, GX_EVENTS_INFO);
    for (int k = 0; k < ROUNDS; k++) {
        gx_stats_note(own, "round %d of %d", k % 7, *(int *)arg);
    }
    assert_int_equal(atomic_load(&own->event[GX_EVENT_REMARK]), ROUNDS);
    atomic_fetch_sub(&putters, 1);
    return NULL;
}

static void *read_many(void *arg)
{
    (void)arg;
    gx_event *seen = malloc(GX_EVENTS_MOST * sizeof *seen), next;
    int64_t at = 0;
    while (atomic_load(&putters) > 0) {
        int count = gx_events_copy(0, seen);
        for (int k = 1; k < count; k++) {
            assert_int_equal(seen[k].number, seen[k - 1].number + 1);
        }
        if (gx_events_next(101, at, &next)) {
            assert_true(next.number > at && next.connection == 101);
            assert_string_equal(next.text + strlen(next.text) - 4, "of 1");
            at = next.number;
        }
    }
    free(seen);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS + 1];
    int numbers[THREADS];
    atomic_store(&putters, THREADS);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, put_many, &numbers[i]), 0);
    }
    assert_int_equal(pthread_create(&threads[THREADS], NULL, read_many, NULL), 0);
    for (int i = 0; i <= THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
