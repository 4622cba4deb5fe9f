/*
** A step fails: the n-th instruction of SQLite's machine is where the progress handler says stop
** ("progress"), where sqlite3_interrupt() is called ("interrupt", which stays in force until the
** outermost statement has returned), or near the moment at which another thread calls it
** ("thread").  And: no page can be added after the n-th ("pages", PRAGMA max_page_count, as a
** quota would have it), which needs no counting of events.
**
** The handler sees the instructions of the outer statement and of all that gx runs inside it.
** Threads: "thread" starts one while armed; everything else runs on the caller's.
*/
#include "fault.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

static int64_t events, wanted; /* of the caller's thread */

static int stop_at(void *arg)
{
    (void)arg;
    return ++events == wanted;
}

static int interrupt_at(void *arg)
{
    if (++events == wanted) {
        sqlite3_interrupt(arg);
    }
    return 0;
}

static void arm_once(sqlite3 *db, int64_t n)
{
    events = 0;
    wanted = n;
    sqlite3_progress_handler(db, 1, stop_at, NULL);
}

static void arm_interrupt(sqlite3 *db, int64_t n)
{
    events = 0;
    wanted = n;
    sqlite3_progress_handler(db, 1, interrupt_at, db);
}

static int64_t disarm(sqlite3 *db)
{
    sqlite3_progress_handler(db, 0, NULL, NULL);
    return events;
}

// Another thread: n counts microseconds -----------------------------------------------------------

static pthread_t thread;
static atomic_bool is_over;
static bool is_running;
static int64_t started_ns;

typedef struct shot {
    sqlite3 *db;
    int64_t delay_ns;
} shot;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *shoot(void *arg)
{
    const shot *s = arg;
    while (!atomic_load(&is_over) && now_ns() - started_ns < s->delay_ns) {
    }
    if (!atomic_load(&is_over)) {
        sqlite3_interrupt(s->db);
    }
    return NULL;
}

static void arm_thread(sqlite3 *db, int64_t n)
{
    static shot s; // outlives this call; one shot at a time
    started_ns = now_ns();
    if (n == INT64_MAX) {
        return;
    }
    s = (shot){.db = db, .delay_ns = n * 1000};
    atomic_store(&is_over, false);
    is_running = pthread_create(&thread, NULL, shoot, &s) == 0;
}

static int64_t disarm_thread(sqlite3 *db)
{
    (void)db;
    int64_t elapsed_us = (now_ns() - started_ns) / 1000;
    if (is_running) {
        atomic_store(&is_over, true);
        pthread_join(thread, NULL);
        is_running = false;
    }
    return elapsed_us;
}

// Pages -------------------------------------------------------------------------------------------

static int64_t page_count(sqlite3 *db)
{
    int64_t pages = 0;
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(db, "PRAGMA page_count", -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW) {
        pages = sqlite3_column_int64(stmt, 0);
    }
    sqlite3_finalize(stmt);
    return pages;
}

static void set_max_pages(sqlite3 *db, int64_t pages)
{
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA max_page_count = %lld", (long long)pages);
    sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static void arm_pages(sqlite3 *db, int64_t n)
{
    events = page_count(db);
    if (n != INT64_MAX) {
        set_max_pages(db, events + n - 1);
    }
}

static int64_t disarm_pages(sqlite3 *db)
{
    int64_t added = page_count(db) - events;
    set_max_pages(db, 1073741823);
    return added < 0 ? 0 : added;
}

static bool is_interrupt(int rc)
{
    return rc == SQLITE_INTERRUPT;
}

static bool is_full(int rc)
{
    return rc == SQLITE_FULL;
}

const fault_kind fault_step_once = {"progress", arm_once, disarm, is_interrupt, true};
const fault_kind fault_step_interrupt = {"interrupt", arm_interrupt, disarm, is_interrupt, true};
const fault_kind fault_step_thread = {"thread", arm_thread, disarm_thread, is_interrupt, true};
const fault_kind fault_pages = {"pages", arm_pages, disarm_pages, is_full, true};
