/*
** Counters and remarks.  Test plan:
**
**   1. Every counter has a name, a unit and a meaning; names differ.
**   2. add, set, get, reset; NULL is a no-op.
**   3. Remarks: the same text is counted, control characters become blanks, long ones are cut;
**      when all slots are taken the rarest makes room, and order of appearance is kept.
**   4. Threads add and note at once: nothing is lost.
*/
#include "base/stats.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_infos(void **state)
{
    (void)state;
    for (int i = 0; i < GX_COUNTER_COUNT; i++) {
        const gx_counter_info *info = gx_stats_info((gx_counter)i);
        assert_true(strlen(info->name) > 0 && strlen(info->unit) > 0 && strlen(info->meaning) > 0);
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(info->name, gx_stats_info((gx_counter)j)->name);
        }
    }
}

static void test_counters(void **state)
{
    (void)state;
    static gx_stats stats;
    gx_stats_add(&stats, GX_STAT_FLOPS, 40);
    gx_stats_add(&stats, GX_STAT_FLOPS, 2);
    gx_stats_set(&stats, GX_STAT_PREDICTED_NS, 7);
    assert_int_equal(gx_stats_get(&stats, GX_STAT_FLOPS), 42);
    assert_int_equal(gx_stats_get(&stats, GX_STAT_PREDICTED_NS), 7);
    assert_int_equal(gx_stats_get(&stats, GX_STAT_CALLS), 0);
    gx_stats_note(&stats, "a remark");
    gx_stats_reset(&stats);
    struct gx_note note;
    assert_int_equal(gx_stats_get(&stats, GX_STAT_FLOPS), 0);
    assert_false(gx_stats_note_get(&stats, 0, &note));
    gx_stats_add(NULL, GX_STAT_FLOPS, 1);
    gx_stats_set(NULL, GX_STAT_FLOPS, 1);
    gx_stats_note(NULL, "nobody hears");
}

static void test_notes(void **state)
{
    (void)state;
    static gx_stats stats;
    struct gx_note note;
    gx_stats_note(&stats, "readers: %s", "in-memory database");
    gx_stats_note(&stats, "line\nbreak\ttab");
    gx_stats_note(&stats, "readers: in-memory database");
    assert_true(gx_stats_note_get(&stats, 0, &note));
    assert_string_equal(note.text, "readers: in-memory database");
    assert_int_equal(note.count, 2);
    assert_true(gx_stats_note_get(&stats, 1, &note));
    assert_string_equal(note.text, "line break tab");
    assert_false(gx_stats_note_get(&stats, 2, &note));
    assert_false(gx_stats_note_get(&stats, -1, &note));

    char longest[400];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    gx_stats_note(&stats, "%s", longest);
    gx_stats_note(&stats, "%s", longest);
    assert_true(gx_stats_note_get(&stats, 2, &note));
    assert_int_equal(strlen(note.text), GX_NOTE_BYTES - 1);
    assert_int_equal(note.count, 2);
}

static void test_full(void **state)
{
    (void)state;
    static gx_stats stats;
    struct gx_note note;
    for (int i = 0; i < GX_NOTE_COUNT; i++) {
        gx_stats_note(&stats, "remark %d", i);
        gx_stats_note(&stats, "remark %d", i);
    }
    gx_stats_note(&stats, "remark 0"); // 0 was seen three times: 1 is the oldest of the rarest
    gx_stats_note(&stats, "newcomer");
    assert_true(gx_stats_note_get(&stats, 0, &note));
    assert_string_equal(note.text, "remark 0");
    assert_true(gx_stats_note_get(&stats, 1, &note));
    assert_string_equal(note.text, "remark 2");
    assert_true(gx_stats_note_get(&stats, GX_NOTE_COUNT - 1, &note));
    assert_string_equal(note.text, "newcomer");
    assert_false(gx_stats_note_get(&stats, GX_NOTE_COUNT, &note));
}

enum { THREADS = 4, ROUNDS = 2000 };

static void *hammer(void *arg)
{
    gx_stats *stats = arg;
    for (int i = 0; i < ROUNDS; i++) {
        gx_stats_add(stats, GX_STAT_KERNELS, 1);
        gx_stats_note(stats, "kind %d", i % 3);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    static gx_stats stats;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, &stats), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(gx_stats_get(&stats, GX_STAT_KERNELS), THREADS * ROUNDS);
    int64_t noted = 0;
    struct gx_note note;
    for (int i = 0; gx_stats_note_get(&stats, i, &note); i++) {
        noted += note.count;
    }
    assert_int_equal(noted, THREADS * ROUNDS);
}

static void test_clock(void **state)
{
    (void)state;
    int64_t before = gx_now_ns();
    assert_true(before > 0);
    assert_true(gx_now_ns() >= before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_infos), cmocka_unit_test(test_counters), cmocka_unit_test(test_notes),
        cmocka_unit_test(test_full),  cmocka_unit_test(test_threads),  cmocka_unit_test(test_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
