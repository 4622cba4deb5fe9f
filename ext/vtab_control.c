/*
** The tables that show a connection to itself: gx_settings, gx_stats, gx_predictions, gx_devices.
**
**   gx_settings(key, value, "default", unit, meaning)   one row a setting; set by gx_config()
**   gx_stats(name, value, unit, meaning)                one row a counter, five of memory, then
**                                                       a row 'note' a remark: value = how often
**   gx_predictions("function", device, size, calls, predicted, measured, ratio, least, most,
**              factor)                                  one row a function, place and size class
**   gx_devices(device, backend, status, reason, memory, memory_free, f64, f32, c128, c64,
**              upload, download, driver, launch, rates) one row a device, or why there is none
**
** All are eponymous, read-only, and DIRECTONLY: a schema that came with a database file may not
** look. The four share one module: a table says how many rows it has and puts one column of one
** row into SQLite's result.  Rows of gx_settings and gx_stats are read as they are at that
** moment; gx_devices is gathered when the scan begins, which opens gx_cuda.so where it is there.
*/
#include "gx_ext.h"

#include "../core/base/machine.h"
#include "../core/device/accel.h"
#include "../core/device/device.h"
#include "control.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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
} device;

typedef struct cursor {
    sqlite3_vtab_cursor base; // base class - must be first
    int64_t row, rows;
    struct gx_note note; /* gx_stats: of this row, when it is a note */
    device *devices;     /* gx_devices: owned, by SQLite's allocator */
} cursor;

typedef struct table table;

/* What the four differ in. */
typedef struct shape {
    const char *name, *declaration;
    int (*begin)(table *of, cursor *cur); /* sets cur->rows                     */
    void (*column)(table *of, cursor *cur, sqlite3_context *sql, int column);
} shape;

/* The module's user data. */
typedef struct binding {
    const shape *shape;
    gx_ctx *ctx;
} binding;

struct table {
    sqlite3_vtab base; // base class - must be first
    const shape *shape;
    gx_ctx *ctx;
};

static void result_text(sqlite3_context *sql, const char *text)
{
    sqlite3_result_text(sql, text, -1, SQLITE_TRANSIENT);
}

// gx_settings -------------------------------------------------------------------------------------

void gx_result_setting(sqlite3_context *sql, gx_setting setting, const char *text, int64_t number)
{
    if (gx_config_is_number(setting)) {
        sqlite3_result_int64(sql, number);
    } else {
        result_text(sql, text);
    }
}

static int begin_settings(table *of, cursor *cur)
{
    (void)of;
    cur->rows = GX_SETTING_COUNT;
    return SQLITE_OK;
}

static void column_settings(table *of, cursor *cur, sqlite3_context *sql, int column)
{
    const gx_config *config = &of->ctx->config;
    gx_setting setting = (gx_setting)cur->row;
    const gx_setting_info *info = gx_config_info(setting);
    int64_t number = 0;
    switch (column) {
    case 0:
        result_text(sql, info->key);
        break;
    case 1:
        gx_result_setting(sql, setting, config->text[setting], config->number[setting]);
        break;
    case 2:
        (void)gx_parse_size(config->default_text[setting], &number); // words stay 0, unused
        gx_result_setting(sql, setting, config->default_text[setting], number);
        break;
    case 3:
        result_text(sql, info->unit);
        break;
    default:
        sqlite3_result_text(sql, info->meaning, -1, SQLITE_STATIC);
        break;
    }
}

// gx_stats ----------------------------------------------------------------------------------------

static int begin_stats(table *of, cursor *cur)
{
    cur->rows = GX_COUNTER_COUNT + MEMORY_ROWS;
    while (gx_stats_note_get(&of->ctx->stats, (int)(cur->rows - GX_COUNTER_COUNT - MEMORY_ROWS),
                             &cur->note)) {
        cur->rows++;
    }
    return SQLITE_OK;
}

/* Of host, device and page-locked memory, in the order of column_stats(). */
static int64_t memory_bytes(gx_ctx *ctx, int64_t row)
{
    const gx_accel *accel = gx_accel_opened(ctx);
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
        return accel == NULL ? 0 : (int64_t)gx_pool_device_bytes(accel->pool);
    default:
        return accel == NULL ? 0 : (int64_t)gx_pool_pinned_bytes(accel->pool);
    }
}

/* One row of gx_stats, whichever of the three sorts it is. */
static void column_stats(table *of, cursor *cur, sqlite3_context *sql, int column)
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
    gx_ctx *ctx = of->ctx;
    gx_counter_info info = {"note", "count", ""};
    int64_t value = 0, row = cur->row - GX_COUNTER_COUNT;
    if (row < 0) {
        info = *gx_stats_info((gx_counter)cur->row);
        value = gx_stats_get(&ctx->stats, (gx_counter)cur->row);
    } else if (row < MEMORY_ROWS) {
        info = memory[row];
        value = memory_bytes(ctx, row);
    } else if (gx_stats_note_get(&ctx->stats, (int)(row - MEMORY_ROWS), &cur->note)) {
        info.meaning = cur->note.text;
        value = cur->note.count;
    } // a note that was reset away in between shows as 0
    switch (column) {
    case 0:
        result_text(sql, info.name);
        break;
    case 1:
        sqlite3_result_int64(sql, value);
        break;
    case 2:
        result_text(sql, info.unit);
        break;
    default:
        result_text(sql, info.meaning);
        break;
    }
}

// gx_predictions ----------------------------------------------------------------------------------

static int begin_predictions(table *of, cursor *cur)
{
    cur->rows = of->ctx->ledger.rows;
    return SQLITE_OK;
}

static void column_predictions(table *of, cursor *cur, sqlite3_context *sql, int column)
{
    const gx_ledger_row *row = &of->ctx->ledger.row[cur->row];
    const gx_accel *accel = gx_accel_opened(of->ctx);
    const double number[] = {
        row->predicted_s, row->measured_s, exp(row->log_ratio / (double)gx_max(1, row->calls)),
        row->least,       row->most,       exp(row->log_factor)};
    switch (column) {
    case 0:
        result_text(sql, row->label);
        break;
    case 1:
        result_text(sql, !row->is_device ? "cpu" : accel == NULL ? "cuda" : accel->info.name);
        break;
    case 2:
        sqlite3_result_int64(sql, llround(exp2(row->size)));
        break;
    case 3:
        sqlite3_result_int64(sql, row->calls);
        break;
    default:
        sqlite3_result_double(sql, number[column - 4]);
        break;
    }
}

// gx_devices --------------------------------------------------------------------------------------

/*
** Ask a backend for one device.  The one in use is asked as it is, others are opened for the
** moment.
*/
static void describe(gx_ctx *ctx, const gx_backend *backend, int ordinal, device *out)
{
    gx_err err = {0};
    gx_accel *accel = gx_accel_opened(ctx);
    bool is_accel = accel != NULL && accel->backend == backend &&
                    ordinal == (int)ctx->config.number[GX_SET_DEVICE];
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
    gx_device_profile *profile = &out->profile;
    if (out->is_known && !out->info.is_host && gx_profile_device(ctx, &out->info, profile)) {
        out->is_measured = true;
        out->info.upload_bytes_per_s = profile->upload_bytes_per_s;
        out->info.download_bytes_per_s = profile->download_bytes_per_s;
        out->info.launch_s = profile->launch_s;
        for (int dtype = 0; dtype < GX_DTYPE_COUNT; dtype++) {
            out->info.flops_per_s[dtype] = profile->gemm_flops_per_s[dtype][GX_DEVICE_SIZES - 1];
        }
    }
}

static void add_device(gx_ctx *ctx, cursor *cur, const gx_backend *backend, int ordinal)
{
    if (cur->rows == DEVICES_MOST) {
        return;
    }
    const gx_backend *chosen = NULL;
    gx_device_choose(ctx, &chosen, NULL);
    device *out = &cur->devices[cur->rows++];
    out->backend = backend->name;
    bool is_cuda = backend == ctx->cuda;
    bool is_used =
        is_cuda ? gx_accel_opened(ctx) != NULL && ordinal == (int)ctx->config.number[GX_SET_DEVICE]
                : chosen == backend && ordinal == 0;
    out->status = is_used ? "used" : "ready";
    snprintf(out->name, sizeof out->name, "%s", backend->name);
    describe(ctx, backend, ordinal, out);
    if (is_cuda && ctx->is_accel_off) {
        out->status = "off";
        snprintf(out->reason, sizeof out->reason, "switched off after a failure: %.220s",
                 ctx->accel_reason);
    }
}

/* The rates of the CPU are in the hardware profile, once gx_benchmark() has measured them. */
static void add_cpu_rates(gx_ctx *ctx, device *cpu)
{
    const gx_profile *profile = gx_profile_get(ctx);
    for (int dtype = 0; dtype < GX_DTYPE_COUNT && profile->is_measured; dtype++) {
        cpu->info.flops_per_s[dtype] = profile->gemm_flops_per_s[dtype][GX_PROFILE_SIZES - 1];
    }
    if (!profile->is_measured) {
        snprintf(cpu->reason, sizeof cpu->reason, "rates not measured: SELECT gx_benchmark()");
    }
}

static int begin_devices(table *of, cursor *cur)
{
    gx_ctx *ctx = of->ctx;
    sqlite3_free(cur->devices);
    cur->devices = sqlite3_malloc64(DEVICES_MOST * sizeof *cur->devices);
    if (cur->devices == NULL) {
        return SQLITE_NOMEM;
    }
    memset(cur->devices, 0, DEVICES_MOST * sizeof *cur->devices);
    cur->rows = 0;
    add_device(ctx, cur, &gx_backend_cpu, 0);
    add_cpu_rates(ctx, &cur->devices[0]);
    add_device(ctx, cur, &gx_backend_ref, 0);
    const gx_backend *cuda = gx_device_cuda(ctx);
    for (int i = 0; cuda != NULL && i < cuda->count(); i++) {
        add_device(ctx, cur, cuda, i);
    }
    if (cuda == NULL) {
        device *out = &cur->devices[cur->rows++];
        *out = (device){.name = "cuda", .backend = "cuda", .status = "off"};
        snprintf(out->reason, sizeof out->reason, "%s", ctx->cuda_reason);
    }
    return SQLITE_OK;
}

/* A number, or NULL where it is not known. */
static void result_known(sqlite3_context *sql, double value)
{
    if (value > 0) {
        sqlite3_result_double(sql, value);
    }
}

/* All that has been measured of it, as JSON; NULL where nothing has. */
static void result_rates(sqlite3_context *sql, const gx_ctx *ctx, const device *dev)
{
    char text[8192];
    bool is_cpu = dev->backend == gx_backend_cpu.name && ctx->profile.is_measured;
    if ((dev->is_measured && gx_profile_print_device(&dev->profile, text, sizeof text)) ||
        (is_cpu && gx_profile_print(&ctx->profile, "", NULL, text, sizeof text))) {
        result_text(sql, text);
    }
}

static void column_devices(table *of, cursor *cur, sqlite3_context *sql, int column)
{
    const device *dev = &cur->devices[cur->row];
    const gx_dev_info *info = &dev->info;
    switch (column) {
    case 0:
        result_text(sql, dev->name);
        break;
    case 1:
        result_text(sql, dev->backend);
        break;
    case 2:
        result_text(sql, dev->status);
        break;
    case 3:
        result_text(sql, dev->reason);
        break;
    case 4:
    case 5:
        if (dev->is_known) {
            size_t bytes = column == 4 ? info->total_bytes : info->free_bytes;
            sqlite3_result_int64(sql, (int64_t)bytes);
        }
        break;
    case 10:
        result_known(sql, info->upload_bytes_per_s);
        break;
    case 11:
        result_known(sql, info->download_bytes_per_s);
        break;
    case 12:
        if (info->driver[0] != '\0') {
            result_text(sql, info->driver);
        }
        break;
    case 13:
        result_known(sql, info->launch_s);
        break;
    case 14:
        result_rates(sql, of->ctx, dev);
        break;
    default:
        result_known(sql, info->flops_per_s[column - 6]);
        break;
    }
}

// The module --------------------------------------------------------------------------------------

static const shape shapes[] = {
    {"gx_settings", "CREATE TABLE x(key TEXT, value, \"default\", unit TEXT, meaning TEXT)",
     begin_settings, column_settings},
    {"gx_stats", "CREATE TABLE x(name TEXT, value INTEGER, unit TEXT, meaning TEXT)", begin_stats,
     column_stats},
    {"gx_predictions",
     "CREATE TABLE x(\"function\" TEXT, device TEXT, size INTEGER, calls INTEGER, predicted REAL,"
     " measured REAL, ratio REAL, least REAL, most REAL, factor REAL)",
     begin_predictions, column_predictions},
    {"gx_devices",
     "CREATE TABLE x(device TEXT, backend TEXT, status TEXT, reason TEXT, memory INTEGER,"
     " memory_free INTEGER, f64 REAL, f32 REAL, c128 REAL, c64 REAL, upload REAL, download REAL,"
     " driver TEXT, launch REAL, rates TEXT)",
     begin_devices, column_devices},
};

static int connect_table(sqlite3 *db, void *arg, int argc, const char *const *argv,
                         sqlite3_vtab **out, char **message)
{
    (void)argc;
    (void)argv;
    (void)message;
    const binding *bound = arg;
    int rc = sqlite3_declare_vtab(db, bound->shape->declaration);
    if (rc != SQLITE_OK) {
        return rc;
    }
    table *made = sqlite3_malloc64(sizeof *made);
    if (made == NULL) {
        return SQLITE_NOMEM;
    }
    *made = (table){.shape = bound->shape, .ctx = bound->ctx};
    *out = &made->base;
    return sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
}

static int disconnect_table(sqlite3_vtab *vtab)
{
    sqlite3_free(vtab);
    return SQLITE_OK;
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    (void)vtab;
    info->estimatedCost = 100;
    info->estimatedRows = 20;
    return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    (void)vtab;
    cursor *cur = sqlite3_malloc64(sizeof *cur);
    if (cur == NULL) {
        return SQLITE_NOMEM;
    }
    memset(cur, 0, sizeof *cur);
    *out = &cur->base;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
    cursor *cur = (cursor *)base;
    sqlite3_free(cur->devices);
    sqlite3_free(cur);
    return SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                  sqlite3_value **argv)
{
    (void)number;
    (void)text;
    (void)argc;
    (void)argv;
    cursor *cur = (cursor *)base;
    table *of = (table *)base->pVtab;
    cur->row = 0;
    return of->shape->begin(of, cur);
}

static int next(sqlite3_vtab_cursor *base)
{
    ((cursor *)base)->row++;
    return SQLITE_OK;
}

static int eof(sqlite3_vtab_cursor *base)
{
    const cursor *cur = (const cursor *)base;
    return cur->row >= cur->rows;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *sql, int index)
{
    table *of = (table *)base->pVtab;
    of->shape->column(of, (cursor *)base, sql, index);
    return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = ((cursor *)base)->row;
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .iVersion = 0,
    .xCreate = NULL, /* eponymous only: there is nothing to create */
    .xConnect = connect_table,
    .xBestIndex = best_index,
    .xDisconnect = disconnect_table,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next,
    .xEof = eof,
    .xColumn = column,
    .xRowid = rowid,
};

int gx_register_control(sqlite3 *db, gx_ctx *ctx)
{
    ctx->version = GX_VERSION;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        binding *bound = sqlite3_malloc64(sizeof *bound);
        if (bound == NULL) {
            return SQLITE_NOMEM;
        }
        *bound = (binding){.shape = &shapes[i], .ctx = ctx};
        int rc = sqlite3_create_module_v2(db, shapes[i].name, &module, bound, sqlite3_free);
        if (rc != SQLITE_OK) { // bound has been freed
            return rc;
        }
    }
    return SQLITE_OK;
}
