/*
** Events in SQLite's log, which the application may have set up (SQLITE_CONFIG_LOG): see store.h.
**
** SQLite writes the line into a buffer of its own and calls the application, on this thread.
*/
#include <sqlite3ext.h>

#include "store.h"

#include <stdio.h>

SQLITE_EXTENSION_INIT3

static int code_of(const gx_event *event)
{
    if (event->kind == GX_EVENT_DAMAGE) {
        return SQLITE_CORRUPT;
    }
    if (event->kind == GX_EVENT_NOMEM_HOST) {
        return SQLITE_NOMEM;
    }
    gx_event_level level = gx_event_info_of(event->kind)->level;
    return level == GX_EVENTS_ERROR     ? SQLITE_ERROR
           : level == GX_EVENTS_WARNING ? SQLITE_WARNING
                                        : SQLITE_NOTICE;
}

void gx_store_log(const gx_event *event)
{
    const gx_event_info *info = gx_event_info_of(event->kind);
    const char *function = event->function == NULL ? "gx" : event->function;
    sqlite3_log(code_of(event), "%s: %s (%s): %s", function, info->event, info->cause, event->text);
}
