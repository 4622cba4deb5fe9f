/*
** Events: what went otherwise than it should, in a ring of the process.
**
** A kind of event is a row here: what it is called, why it can be (for one that can be for several
** reasons), and its level.  Connections put events through their counters (stats.h), which know
** what runs and down to which level is told.  The table gx_events reads the ring.
**
** All functions may be called from any thread; none calls anybody while it holds the ring's lock.
*/
#ifndef GX_EVENTS_H
#define GX_EVENTS_H

#include "types.h"

/* The levels of the setting 'events', each with those before it. */
typedef enum gx_event_level {
    GX_EVENTS_OFF,
    GX_EVENTS_ERROR,
    GX_EVENTS_WARNING,
    GX_EVENTS_INFO
} gx_event_level;

/* EVENT(ID, event, cause, LEVEL) */
#define GX_EVENT_KINDS(EVENT)                                                                      \
    EVENT(NOMEM_HOST, out_of_memory, host, ERROR)                                                  \
    EVENT(NOMEM_DEVICE, out_of_memory, device, WARNING)                                            \
    EVENT(NOMEM_PINNED, out_of_memory, pinned, WARNING)                                            \
    EVENT(FALLBACK_MEMORY, fallback, memory, WARNING)                                              \
    EVENT(FALLBACK_DEVICE, fallback, device, WARNING)                                              \
    EVENT(FALLBACK_KERNEL, fallback, kernel, WARNING)                                              \
    EVENT(FALLBACK_RESULT, fallback, result, WARNING)                                              \
    EVENT(FALLBACK_ABSENT, fallback, absent, WARNING)                                              \
    EVENT(FALLBACK_RECORD, fallback, record, WARNING)                                              \
    EVENT(DEVICE_LOST, device_lost, device, ERROR)                                                 \
    EVENT(LINK, link, device, WARNING)                                                             \
    EVENT(PROFILE, profile, file, WARNING)                                                         \
    EVENT(DAMAGE, damage, database, ERROR)                                                         \
    EVENT(REMARK, remark, note, INFO)

typedef enum gx_event_kind {
#define GX_EVENT_ENUM(ID, ...) GX_EVENT_##ID,
    GX_EVENT_KINDS(GX_EVENT_ENUM)
#undef GX_EVENT_ENUM
        GX_EVENT_KIND_COUNT
} gx_event_kind;

typedef struct gx_event_info {
    const char *event, *cause;
    gx_event_level level;
} gx_event_info;

const gx_event_info *gx_event_info_of(gx_event_kind kind); /* static */
const char *gx_event_level_name(gx_event_level level);     /* "error"; static */

enum {
    GX_EVENTS_MOST = 256, /* that the ring holds: the oldest make room  */
    GX_EVENT_BYTES = 200, /* of a text, its NUL included                */
    GX_EVENT_DEVICE_BYTES = 64
};

typedef struct gx_event {
    int64_t number;  /* counted from 1 in the process: set by gx_events_put()  */
    int64_t time_ms; /* since 1970, UTC; likewise                              */
    gx_event_kind kind;
    int64_t connection;                 /* gx_stats.connection; 0: none                 */
    unsigned long long bytes;           /* of memory; 0: not known                      */
    const char *function;               /* that was running; static; NULL: none         */
    char device[GX_EVENT_DEVICE_BYTES]; /* "cuda:0 NVIDIA H200"; "": none               */
    char text[GX_EVENT_BYTES];          /* one line of UTF-8                            */
} gx_event;

/* Copies it into the ring. */
void gx_events_put(const gx_event *event);

/*
** Copies of those of a connection (0: of all), the oldest first, into out, which has room for
** GX_EVENTS_MOST; returns how many.
*/
int gx_events_copy(int64_t connection, gx_event *out);

/* The first one of the connection behind that number; false: there is none. */
bool gx_events_next(int64_t connection, int64_t number, gx_event *out);

#endif
