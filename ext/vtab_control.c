/*
** The tables that show a connection to itself: gx_settings, gx_stats, gx_events, gx_predictions,
** gx_devices.
**
**   gx_settings(key, value, "default", unit, meaning)   one row a setting; set by gx_config()
**   gx_stats(name, value, unit, meaning)                one row a counter, five of memory, then
**                                                       a row 'note' a remark: value = how often
**   gx_events(time, level, event, cause, "function", reason, bytes, connection, device)
**                                                       one row an event, the oldest first
**   gx_predictions("function", device, size, calls, predicted, measured, ratio, least, most,
**              factor)                                  one row a function, place and size class
**   gx_devices(device, backend, status, reason, memory, memory_free, f64, f32, c128, c64,
**              upload, download, driver, launch, rates, links, uuid)
**                                               one row a device, or why there is none
**
** Like all table-valued functions they are eponymous and DIRECTONLY: a schema that came with a
** database file may not look.  Rows of gx_settings and gx_stats are read as they are at that
** moment; gx_devices is gathered when the scan begins, which opens gx_cuda.so where it is there.
*/
#include "gx_ext.h"

#include "../core/base/machine.h"
#include "../core/device/accel.h"
#include "../core/device/device.h"
#include "table_fn.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { DEVICES_MOST = 16, MEMORY_ROWS = 7 };

/* One row of gx_devices. */
typedef struct device {
    char name[64];
    const char *backend, *status;
    char reason[256]; /* "" = no remark                   */
    gx_dev_info info; /* bytes and rates; 0 = not known   */
    bool is_known;    /* info is filled                   */
    bool is_measured; /* profile is                       */
    gx_device_profile profile;
    char links[1024]; /* JSON; "" = none is known         */
} device;

typedef struct listing {
    int64_t count;
    device device[DEVICES_MOST];
    char text[8192]; /* of the cell that was looked at last */
} listing;

/* The events as they were when the scan began. */
enum { GX_TIME_BYTES = 32 };
typedef struct events {
    gx_event event[GX_EVENTS_MOST];
    char time[GX_TIME_BYTES]; /* of the cell that was looked at last */
} events;

static gx_cell text_cell(const char *text)
{
    return gx_cell_text(text, -1);
}

// gx_settings -------------------------------------------------------------------------------------

void gx_result_setting(sqlite3_context *sql, gx_setting setting, const char *text, int64_t number)
{
    if (gx_config_is_number(setting)) {
        sqlite3_result_int64(sql, number);
    } else {
        sqlite3_result_text(sql, text, -1, SQLITE_TRANSIENT);
    }
}

static gx_cell setting_cell(gx_setting setting, const char *text, int64_t number)
{
    return gx_config_is_number(setting) ? gx_cell_int(number) : text_cell(text);
}

static void look_settings(gx_ctx *ctx, void *state, int64_t *rows)
{
    (void)ctx, (void)state;
    *rows = GX_SETTING_COUNT;
}

static gx_cell settings_cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    (void)state;
    const gx_config *config = &ctx->config;
    gx_setting setting = (gx_setting)row;
    const gx_setting_info *info = gx_config_info(setting);
    int64_t number = 0;
    (void)gx_parse_size(config->default_text[setting], &number); // words stay 0, unused
    const gx_cell cells[] = {text_cell(info->key),
                             setting_cell(setting, config->text[setting], config->number[setting]),
                             setting_cell(setting, config->default_text[setting], number),
                             text_cell(info->unit), text_cell(info->meaning)};
    return cells[column];
}

// gx_stats ----------------------------------------------------------------------------------------

static void look_stats(gx_ctx *ctx, void *state, int64_t *rows)
{
    int notes = 0;
    while (gx_stats_note_get(&ctx->stats, notes, state)) {
        notes++;
    }
    *rows = GX_COUNTER_COUNT + MEMORY_ROWS + notes;
}

/* Of host, device and page-locked memory, in the order of stats_cell(). */
static int64_t memory_bytes(gx_ctx *ctx, int64_t row)
{
    int64_t on_devices = 0, pinned = 0;
    for (const gx_accel *a = gx_accel_opened(ctx); a != NULL; a = a->next) {
        on_devices += (int64_t)gx_pool_device_bytes(a->pool);
        pinned += (int64_t)gx_pool_pinned_bytes(a->pool);
    }
    switch (row) {
    case 0:
        return (int64_t)gx_mem_used(ctx->mem);
    case 1:
        return (int64_t)gx_mem_peak(ctx->mem);
    case 2:
        return (int64_t)gx_mem_limit(ctx->mem);
    case 3:
        return (int64_t)gx_mem_idle();
    case 4:
        return gx_mem_ns(ctx->mem);
    case 5:
        return on_devices;
    default:
        return pinned;
    }
}

/* One row of gx_stats, whichever of the three sorts it is. */
static gx_cell stats_cell(void *state, gx_ctx *ctx, int64_t at, int column)
{
    static const gx_counter_info memory[MEMORY_ROWS] = {
        {"memory_used", "bytes", "host memory that gx holds now"},
        {"memory_peak", "bytes", "the most it has held since gx_stats_reset()"},
        {"memory_limit", "bytes", "the most it may hold: the setting memory_limit"},
        {"memory_idle", "bytes",
         "host memory of the process that stands by for the next large block"},
        {"alloc_ns", "ns", "time in getting and giving back large blocks of host memory"},
        {"device_used", "bytes", "device memory that gx's pool holds now, in use or not"},
        {"pinned_used", "bytes", "page-locked host memory that gx's pool holds now"},
    };
    struct gx_note *note = state;
    gx_counter_info info = {"note", "count", ""};
    int64_t value = 0, row = at - GX_COUNTER_COUNT;
    if (row < 0) {
        info = *gx_stats_info((gx_counter)at);
        value = gx_stats_get(&ctx->stats, (gx_counter)at);
    } else if (row < MEMORY_ROWS) {
        info = memory[row];
        value = memory_bytes(ctx, row);
    } else if (gx_stats_note_get(&ctx->stats, (int)(row - MEMORY_ROWS), note)) {
        info.meaning = note->text;
        value = note->count;
    } // a note that was reset away in between shows as 0
    const gx_cell cells[] = {text_cell(info.name), gx_cell_int(value), text_cell(info.unit),
                             text_cell(info.meaning)};
    return cells[column];
}

// gx_events ---------------------------------------------------------------------------------------

/* A locked connection sees its own events alone: others' may name what it does not know. */
static void look_events(gx_ctx *ctx, void *state, int64_t *rows)
{
    bool is_locked = ctx->config.number[GX_SET_LOCKED] != 0;
    *rows = gx_events_copy(is_locked ? ctx->stats.connection : 0, ((events *)state)->event);
}

/* "2026-11-28T20:35:06.123Z" */
static void print_time(int64_t time_ms, char text[GX_TIME_BYTES])
{
    struct tm parts;
    time_t seconds = (time_t)(time_ms / 1000);
    gmtime_r(&seconds, &parts);
    size_t used = strftime(text, GX_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + used, GX_TIME_BYTES - used, ".%03dZ", (int)(time_ms % 1000));
}

static gx_cell events_cell(void *state, gx_ctx *ctx, int64_t at, int column)
{
    (void)ctx;
    events *all = state;
    const gx_event *event = &all->event[at];
    const gx_event_info *info = gx_event_info_of(event->kind);
    print_time(event->time_ms, all->time);
    const gx_cell none = {0};
    const gx_cell cells[] = {text_cell(all->time),
                             text_cell(gx_event_level_name(info->level)),
                             text_cell(info->event),
                             text_cell(info->cause),
                             text_cell(event->function),
                             text_cell(event->text),
                             event->bytes > 0 ? gx_cell_int((int64_t)event->bytes) : none,
                             gx_cell_int(event->connection),
                             event->device[0] != '\0' ? text_cell(event->device) : none};
    return cells[column];
}

// gx_predictions ----------------------------------------------------------------------------------

static void look_predictions(gx_ctx *ctx, void *state, int64_t *rows)
{
    (void)state;
    *rows = ctx->ledger.rows;
}

static gx_cell predictions_cell(void *state, gx_ctx *ctx, int64_t at, int column)
{
    (void)state;
    const gx_ledger_row *row = &ctx->ledger.row[at];
    const gx_accel *accel = gx_accel_opened(ctx);
    const gx_cell cells[] = {
        text_cell(row->label),
        text_cell(!row->is_device ? "cpu" : accel == NULL ? "cuda" : accel->info.name),
        gx_cell_int(llround(exp2(row->size))),
        gx_cell_int(row->calls),
        gx_cell_real(row->predicted_s),
        gx_cell_real(row->measured_s),
        gx_cell_real(exp(row->log_ratio / (double)gx_max(1, row->calls))),
        gx_cell_real(row->least),
        gx_cell_real(row->most),
        gx_cell_real(exp(row->log_factor))};
    return cells[column];
}

// gx_devices --------------------------------------------------------------------------------------

/* The device where the connection has opened it. */
static const gx_accel *find_open(const gx_ctx *ctx, const gx_backend *backend, int ordinal)
{
    const gx_accel *accel = gx_accel_opened(ctx);
    while (accel != NULL && (accel->backend != backend || accel->ordinal != ordinal)) {
        accel = accel->next;
    }
    return accel;
}

/* How the other open devices' memory is reached, as JSON: without the host? bytes per second. */
static void print_links(const gx_ctx *ctx, const gx_accel *accel, char *text, size_t bytes)
{
    size_t used = 0;
    for (const gx_accel *o = gx_accel_opened(ctx); o != NULL && used < bytes; o = o->next) {
        const gx_link *link = &accel->link[o->ordinal % GX_DEVICES_MOST];
        if (o != accel && link->is_known) {
            used += (size_t)snprintf(text + used, bytes - used,
                                     "%s\"cuda:%d\":{\"direct\":%s,\"rate\":%.4g}",
                                     used == 0 ? "{" : ",", o->ordinal,
                                     link->is_direct ? "true" : "false", link->bytes_per_s);
        }
    }
    if (used > 0 && used + 1 < bytes) {
        snprintf(text + used, bytes - used, "}");
    } else {
        text[0] = '\0';
    }
}

/*
** Ask a backend for one device.  The one in use is asked as it is, others are opened for the
** moment.
*/
static void describe(gx_ctx *ctx, const gx_backend *backend, int ordinal, device *out)
{
    gx_err err = {0};
    const gx_accel *accel = find_open(ctx, backend, ordinal);
    bool is_accel = accel != NULL;
    bool is_host = ctx->dev != NULL && ctx->backend == backend && ordinal == 0;
    bool is_open = is_accel || is_host;
    gx_dev *dev = is_accel ? accel->dev : is_host ? ctx->dev : NULL;
    if ((is_open || backend->open(ordinal, &dev, &err) == GX_OK) &&
        backend->info(dev, &out->info, &err) == GX_OK) {
        out->is_known = true;
        snprintf(out->name, sizeof out->name, "%s", out->info.name);
    } else {
        out->status = "off";
        snprintf(out->reason, sizeof out->reason, "%.250s", err.text);
    }
    if (!is_open) {
        backend->close(dev);
    }
    if (is_accel) {
        print_links(ctx, accel, out->links, sizeof out->links);
    }
    gx_device_profile *profile = &out->profile;
    if (out->is_known && !out->info.is_host && gx_profile_device(ctx, &out->info, profile)) {
        out->is_measured = true;
        out->info.upload_bytes_per_s = profile->upload_bytes_per_s;
        out->info.download_bytes_per_s = profile->download_bytes_per_s;
        out->info.launch_s = profile->launch_s;
        for (int dtype = 0; dtype < GX_FLOATS; dtype++) {
            out->info.flops_per_s[dtype] = profile->gemm_flops_per_s[dtype][GX_DEVICE_SIZES - 1];
        }
    }
}

static void add_device(gx_ctx *ctx, listing *all, const gx_backend *backend, int ordinal)
{
    if (all->count == DEVICES_MOST) {
        return;
    }
    const gx_backend *chosen = NULL;
    gx_device_choose(ctx, &chosen, NULL);
    device *out = &all->device[all->count++];
    out->backend = backend->name;
    bool is_cuda = backend == ctx->cuda;
    bool is_used =
        is_cuda ? find_open(ctx, backend, ordinal) != NULL : chosen == backend && ordinal == 0;
    out->status = is_used ? "used" : "ready";
    snprintf(out->name, sizeof out->name, "%s", backend->name);
    describe(ctx, backend, ordinal, out);
    if (is_cuda && ctx->is_accel_off) {
        out->status = "off";
        snprintf(out->reason, sizeof out->reason, "switched off after a failure: %.220s",
                 ctx->accel_reason);
    } else if (is_cuda && ordinal < 64 && (ctx->devices_lost >> ordinal & 1) != 0) {
        out->status = "off";
        snprintf(out->reason, sizeof out->reason, "left out: %.240s", ctx->accel_reason);
    }
}

/* The rates of the CPU are in the hardware profile, once gx_benchmark() has measured them. */
static void add_cpu_rates(gx_ctx *ctx, device *cpu)
{
    const gx_profile *profile = gx_profile_get(ctx);
    for (int dtype = 0; dtype < GX_FLOATS && profile->is_measured; dtype++) {
        cpu->info.flops_per_s[dtype] = profile->gemm_flops_per_s[dtype][GX_PROFILE_SIZES - 1];
    }
    if (!profile->is_measured) {
        snprintf(cpu->reason, sizeof cpu->reason, "rates not measured: SELECT gx_benchmark()");
    }
}

static void look_devices(gx_ctx *ctx, void *state, int64_t *rows)
{
    listing *all = state;
    add_device(ctx, all, &gx_backend_cpu, 0);
    add_cpu_rates(ctx, &all->device[0]);
    add_device(ctx, all, &gx_backend_ref, 0);
    snprintf(all->device[1].reason, sizeof all->device[1].reason,
             "plain loops; eigenvalues and singular values are LAPACK's");
    const gx_backend *cuda = gx_device_cuda(ctx);
    for (int i = 0; cuda != NULL && i < cuda->count(); i++) {
        add_device(ctx, all, cuda, i);
    }
    if (cuda == NULL) {
        device *out = &all->device[all->count++];
        *out = (device){.name = "cuda", .backend = "cuda", .status = "off"};
        snprintf(out->reason, sizeof out->reason, "%s", ctx->cuda_reason);
    }
    *rows = all->count;
}

/* A number, or NULL where it is not known. */
static gx_cell known(double value)
{
    return value > 0 ? gx_cell_real(value) : (gx_cell){0};
}

static gx_cell known_text(const char *text)
{
    return text[0] != '\0' ? text_cell(text) : (gx_cell){0};
}

/* All that has been measured of it, as JSON in the listing's own memory; NULL where nothing has. */
static gx_cell rates(listing *all, const gx_ctx *ctx, const device *dev)
{
    bool is_cpu = dev->backend == gx_backend_cpu.name && ctx->profile.is_measured;
    bool is_known =
        (dev->is_measured && gx_profile_print_device(&dev->profile, all->text, sizeof all->text)) ||
        (is_cpu && gx_profile_print(&ctx->profile, "", NULL, all->text, sizeof all->text));
    return is_known ? text_cell(all->text) : (gx_cell){0};
}

static gx_cell devices_cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    enum { RATES = 14 };
    const device *dev = &((listing *)state)->device[row];
    const gx_dev_info *info = &dev->info;
    const gx_cell none = {0};
    const gx_cell cells[] = {
        text_cell(dev->name),
        text_cell(dev->backend),
        text_cell(dev->status),
        text_cell(dev->reason),
        dev->is_known ? gx_cell_int((int64_t)info->total_bytes) : none,
        dev->is_known ? gx_cell_int((int64_t)info->free_bytes) : none,
        known(info->flops_per_s[0]),
        known(info->flops_per_s[1]),
        known(info->flops_per_s[2]),
        known(info->flops_per_s[3]),
        known(info->upload_bytes_per_s),
        known(info->download_bytes_per_s),
        known_text(info->driver),
        known(info->launch_s),
        none,
        known_text(dev->links),
        known_text(info->uuid)};
    return column == RATES ? rates(state, ctx, dev) : cells[column];
}

// The tables --------------------------------------------------------------------------------------

const gx_table_fn gx_table_settings = {
    .def = {"gx_settings", 0, 0, 0, NULL, 0},
    .shape = "CREATE TABLE x(key TEXT, value, \"default\", unit TEXT, meaning TEXT)",
    .columns = 5,
    .look = look_settings,
    .cell = settings_cell,
};

const gx_table_fn gx_table_stats = {
    .def = {"gx_stats", 0, 0, 0, NULL, 0},
    .shape = "CREATE TABLE x(name TEXT, value INTEGER, unit TEXT, meaning TEXT)",
    .columns = 4,
    .state_bytes = sizeof(struct gx_note),
    .look = look_stats,
    .cell = stats_cell,
};

const gx_table_fn gx_table_events = {
    .def = {"gx_events", 0, 0, 0, NULL, 0},
    .shape = "CREATE TABLE x(time TEXT, level TEXT, event TEXT, cause TEXT, \"function\" TEXT,"
             " reason TEXT, bytes INTEGER, connection INTEGER, device TEXT)",
    .columns = 9,
    .state_bytes = sizeof(events),
    .look = look_events,
    .cell = events_cell,
};

const gx_table_fn gx_table_predictions = {
    .def = {"gx_predictions", 0, 0, 0, NULL, 0},
    .shape = "CREATE TABLE x(\"function\" TEXT, device TEXT, size INTEGER, calls INTEGER,"
             " predicted REAL, measured REAL, ratio REAL, least REAL, most REAL, factor REAL)",
    .columns = 10,
    .look = look_predictions,
    .cell = predictions_cell,
};

const gx_table_fn gx_table_devices = {
    .def = {"gx_devices", 0, 0, 0, NULL, 0},
    .shape = "CREATE TABLE x(device TEXT, backend TEXT, status TEXT, reason TEXT, memory INTEGER,"
             " memory_free INTEGER, f64 REAL, f32 REAL, c128 REAL, c64 REAL, upload REAL,"
             " download REAL, driver TEXT, launch REAL, rates TEXT, links TEXT, uuid TEXT)",
    .columns = 17,
    .state_bytes = sizeof(listing),
    .look = look_devices,
    .cell = devices_cell,
};
