/*
** What all connections of the process come to: counters, memory, devices.
**
** A connection is entered when it is made and leaves when it is closed; what it has counted until
** then, or until its counters were reset, stays in the process's sum.  Between the two nothing is
** added anywhere but to its own counters, so a call costs no more for being counted.
*/
#ifndef GX_TOTALS_H
#define GX_TOTALS_H

#include "run.h"

typedef struct gx_totals {
    gx_stats stats;      /* sums; device[].since_ns: how many connections hold it */
    int64_t connections; /* that are open                                         */
    size_t used, limit;  /* of host memory, and of their settings memory_limit    */
} gx_totals;

/* A device that a connection has opened. */
typedef struct gx_device_name {
    char name[64], uuid[48], driver[48]; /* of its gx_dev_info; name "": none has */
} gx_device_name;

/* From any thread, once each; ctx has its counters, its level and its governor. */
void gx_totals_enter(gx_ctx *ctx);
void gx_totals_leave(gx_ctx *ctx);

/* The connection's counters to zero; the process's stay what they are. */
void gx_totals_reset(gx_ctx *ctx);

/* Of one connection, or (ctx NULL) of all and of those that are closed.  *out is zero before. */
void gx_totals_get(gx_ctx *ctx, gx_totals *out);

/* The device of that ordinal, when it is opened; and what it is called. */
void gx_totals_name_device(int ordinal, const gx_dev_info *info);
void gx_totals_device(int ordinal, gx_device_name *out);

#endif
