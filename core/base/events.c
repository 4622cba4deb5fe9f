/*
** Events: see events.h.
**
** The ring is of the process, because whoever looks at it has another connection than those that
** have trouble, or comes when they are closed.  Event n stands in place n % GX_EVENTS_MOST, so that
** what the ring holds is known from the latest number alone.  Its lock is held for the copy of an
** event, or of all.
*/
#include "events.h"

#include <assert.h>
#include <pthread.h>
#include <time.h>

#define INFO(ID, event, cause, LEVEL) {#event, #cause, GX_EVENTS_##LEVEL},
static const gx_event_info infos[GX_EVENT_KIND_COUNT] = {GX_EVENT_KINDS(INFO)};
#undef INFO

static struct {
    pthread_mutex_t lock;
    int64_t latest; /* number of the latest event; 0: there was none */
    gx_event event[GX_EVENTS_MOST];
} ring = {.lock = PTHREAD_MUTEX_INITIALIZER};

const gx_event_info *gx_event_info_of(gx_event_kind kind)
{
    assert(kind >= 0 && kind < GX_EVENT_KIND_COUNT);
    return &infos[kind];
}

const char *gx_event_level_name(gx_event_level level)
{
    static const char *const names[] = {"off", "error", "warning", "info"};
    return names[level];
}

void gx_events_put(const gx_event *event)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    pthread_mutex_lock(&ring.lock);
    gx_event *place = &ring.event[++ring.latest % GX_EVENTS_MOST];
    *place = *event;
    place->number = ring.latest;
    place->time_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    pthread_mutex_unlock(&ring.lock);
}

/* Under the lock: the number of the oldest event that is behind `number`. */
static int64_t first_after(int64_t number)
{
    return gx_max(number, ring.latest - GX_EVENTS_MOST) + 1;
}

int gx_events_copy(int64_t connection, gx_event *out)
{
    int count = 0;
    pthread_mutex_lock(&ring.lock);
    for (int64_t n = first_after(0); n <= ring.latest; n++) {
        const gx_event *event = &ring.event[n % GX_EVENTS_MOST];
        if (connection == 0 || event->connection == connection) {
            out[count++] = *event;
        }
    }
    pthread_mutex_unlock(&ring.lock);
    return count;
}

bool gx_events_next(int64_t connection, int64_t number, gx_event *out)
{
    bool is_found = false;
    pthread_mutex_lock(&ring.lock);
    for (int64_t n = first_after(number); n <= ring.latest && !is_found; n++) {
        const gx_event *event = &ring.event[n % GX_EVENTS_MOST];
        is_found = event->connection == connection;
        if (is_found) {
            *out = *event;
        }
    }
    pthread_mutex_unlock(&ring.lock);
    return is_found;
}
