/*
** gx_metrics([scope]): counters in the text format of Prometheus, version 0.0.4.
**
** A family is two lines that say what it is, and a line a sample.  Which there are:
**
**   operations and how long they took      from the tallies of operations (stats.h)
**   a counter of gx_stats each             by one rule, counter_name(); those that are one thing in
**                                          several ways (bytes by direction) are the rows of `ways`
**   failures, fallbacks, memory refused    by the codes of errors and the kinds of events
**   memory, connections, devices           as they are now
**
** Labels hold names of functions and words of gx's own, and what a driver and SQLite call
** themselves, which is escaped; so there are no more samples than functions times a few.  Numbers
** are printed without printf's %g, which follows the locale.
*/
#include "gx_ext.h"

#include "../core/run/totals.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 64, SCOPE_PROCESS = 0 };

typedef struct page {
    gx_text text;
    gx_totals *totals;
} page;

// Lines -------------------------------------------------------------------------------------------

/* What begins a family; type: counter, gauge, histogram. */
static void family(page *p, const char *name, const char *type, const char *help)
{
    gx_text_printf(&p->text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A label's value, in quotes: of backslashes, quotes and line ends their escapes. */
static void put_value(page *p, const char *value)
{
    gx_text_puts(&p->text, "\"");
    for (const char *c = value; *c != '\0'; c++) {
        if (*c == '\n') {
            gx_text_puts(&p->text, "\\n");
        } else {
            gx_text_put(&p->text, "\\", *c == '\\' || *c == '"');
            gx_text_put(&p->text, c, 1);
        }
    }
    gx_text_puts(&p->text, "\"");
}

/* {key="value",...}: keys and values by turns, NULL at the end. */
static void put_labels(page *p, const char *const *labels)
{
    for (int k = 0; labels[k] != NULL; k += 2) {
        gx_text_printf(&p->text, "%s%s=", k == 0 ? "{" : ",", labels[k]);
        put_value(p, labels[k + 1]);
    }
    gx_text_puts(&p->text, labels[0] == NULL ? "" : "}");
}

static void sample(page *p, const char *name, const char *const *labels, int64_t value)
{
    gx_text_puts(&p->text, name);
    put_labels(p, labels);
    gx_text_printf(&p->text, " %" PRId64 "\n", value);
}

/* The same of nanoseconds, as seconds. */
static void sample_ns(page *p, const char *name, const char *const *labels, int64_t ns)
{
    const int64_t SECOND = 1000000000;
    gx_text_puts(&p->text, name);
    put_labels(p, labels);
    gx_text_printf(&p->text, " %" PRId64 ".%09" PRId64 "\n", ns / SECOND, ns % SECOND);
}

#define LABELS(...) ((const char *const[]){__VA_ARGS__, NULL})
static const char *const no_labels[] = {NULL};

// Operations --------------------------------------------------------------------------------------

static const char *const ran_names[GX_RAN_COUNT] = {
    [GX_RAN_CPU] = "cpu", [GX_RAN_REFERENCE] = "reference", [GX_RAN_CUDA] = "cuda"};

static void put_operations(page *p)
{
    gx_stats *stats = &p->totals->stats;
    const char *op;
    family(p, "gx_operations_total", "counter",
           "Calls of gx, by function and by what they ran on.");
    for (int k = 0; (op = gx_operation_name(k)) != NULL; k++) {
        for (int ran = 0; ran < GX_RAN_COUNT; ran++) {
            int64_t calls = atomic_load(&stats->op[k].calls[ran]);
            if (calls > 0) {
                sample(p, "gx_operations_total", LABELS("op", op, "backend", ran_names[ran]),
                       calls);
            }
        }
    }
}

static void put_durations(page *p)
{
    gx_stats *stats = &p->totals->stats;
    const char *op;
    family(p, "gx_operation_seconds", "histogram", "How long calls of gx took.");
    for (int k = 0; (op = gx_operation_name(k)) != NULL; k++) {
        int64_t count = 0;
        for (int b = 0; b < GX_OP_BUCKETS; b++) {
            count += atomic_load(&stats->op[k].within[b]);
        }
        int64_t so_far = 0;
        for (int b = 0; b < GX_OP_BUCKETS && count > 0; b++) {
            so_far += atomic_load(&stats->op[k].within[b]);
            sample(p, "gx_operation_seconds_bucket",
                   LABELS("op", op, "le", gx_op_buckets[b].seconds), so_far);
        }
        if (count > 0) {
            sample_ns(p, "gx_operation_seconds_sum", LABELS("op", op),
                      atomic_load(&stats->op[k].ns));
            sample(p, "gx_operation_seconds_count", LABELS("op", op), count);
        }
    }
}

static void put_failures(page *p)
{
#define WORD(ID, SQLITE, word) #word,
    static const char *const codes[GX_CODE_COUNT] = {"", GX_CODES(WORD)};
#undef WORD
    family(p, "gx_operation_failures_total", "counter", "Of these calls, those that failed.");
    for (int code = GX_OK + 1; code < GX_CODE_COUNT; code++) {
        sample(p, "gx_operation_failures_total", LABELS("reason", codes[code]),
               atomic_load(&p->totals->stats.failed[code]));
    }
}

// Counters of gx_stats ----------------------------------------------------------------------------

/* Counters that are one family, which the first row of it says more of. */
static const struct {
    const char *family, *label, *value, *help;
    gx_counter counter;
} ways[] = {
    {"gx_bytes_total", "direction", "read",
     "Bytes of tiles read and written, and of copies between host and devices.",
     GX_STAT_BYTES_READ},
    {"gx_bytes_total", "direction", "written", NULL, GX_STAT_BYTES_WRITTEN},
    {"gx_bytes_total", "direction", "up", NULL, GX_STAT_UPLOADED},
    {"gx_bytes_total", "direction", "down", NULL, GX_STAT_DOWNLOADED},
    {"gx_bytes_total", "direction", "peer", NULL, GX_STAT_PEER_BYTES},
    {"gx_cache_blocks_total", "result", "hit",
     "Blocks that were in the cache of their call, and that had to be loaded.", GX_STAT_CACHE_HITS},
    {"gx_cache_blocks_total", "result", "miss", NULL, GX_STAT_CACHE_MISSES},
    {"gx_kept_blocks_total", "result", "hit",
     "Blocks still in device memory from an earlier call, and those that made room.",
     GX_STAT_DEVICE_HITS},
    {"gx_kept_blocks_total", "result", "evicted", NULL, GX_STAT_DEVICE_EVICTIONS},
    {"gx_pinned_buffers_total", "result", "hit",
     "Page-locked buffers used again, not there, and refused.", GX_STAT_PINNED_HITS},
    {"gx_pinned_buffers_total", "result", "miss", NULL, GX_STAT_PINNED_MISSES},
    {"gx_pinned_buffers_total", "result", "denied", NULL, GX_STAT_PINNED_DENIED},
};

enum { WAYS = sizeof ways / sizeof ways[0] };

static void put_ways(page *p)
{
    for (int k = 0; k < WAYS; k++) {
        if (ways[k].help != NULL) {
            family(p, ways[k].family, "counter", ways[k].help);
        }
        sample(p, ways[k].family, LABELS(ways[k].label, ways[k].value),
               gx_stats_get(&p->totals->stats, ways[k].counter));
    }
}

/* "gx_kernels_total", of read_ns "gx_read_seconds_total". */
static void counter_name(const gx_counter_info *info, char name[NAME_BYTES])
{
    bool is_ns = strcmp(info->unit, "ns") == 0;
    int bytes = (int)strlen(info->name) - (is_ns ? (int)strlen("_ns") : 0);
    snprintf(name, NAME_BYTES, "gx_%.*s%s_total", bytes, info->name, is_ns ? "_seconds" : "");
}

/* Calls are the operations. */
static bool is_told(gx_counter counter)
{
    bool is = counter == GX_STAT_CALLS || !gx_stats_is_sum(counter);
    for (int k = 0; k < WAYS; k++) {
        is = is || ways[k].counter == counter;
    }
    return is;
}

static void put_counters(page *p)
{
    char name[NAME_BYTES];
    for (int k = 0; k < GX_COUNTER_COUNT; k++) {
        const gx_counter_info *info = gx_stats_info((gx_counter)k);
        int64_t value = gx_stats_get(&p->totals->stats, (gx_counter)k);
        if (is_told((gx_counter)k)) {
            continue;
        }
        counter_name(info, name);
        family(p, name, "counter", info->meaning);
        if (strcmp(info->unit, "ns") == 0) {
            sample_ns(p, name, no_labels, value);
        } else {
            sample(p, name, no_labels, value);
        }
    }
}

/* Events of one name by their causes. */
static void put_events(page *p, const char *name, const char *label, const char *event,
                       const char *help)
{
    family(p, name, "counter", help);
    for (int k = 0; k < GX_EVENT_KIND_COUNT; k++) {
        const gx_event_info *info = gx_event_info_of((gx_event_kind)k);
        if (strcmp(info->event, event) == 0) {
            sample(p, name, LABELS(label, info->cause), atomic_load(&p->totals->stats.event[k]));
        }
    }
}

/* The others, by name. */
static void put_other_events(page *p)
{
    family(p, "gx_events_total", "counter",
           "Other events: devices lost, links, profiles, damage, remarks.");
    for (int k = 0; k < GX_EVENT_KIND_COUNT; k++) {
        const gx_event_info *info = gx_event_info_of((gx_event_kind)k);
        if (strcmp(info->event, "fallback") != 0 && strcmp(info->event, "out_of_memory") != 0) {
            sample(p, "gx_events_total",
                   LABELS("event", info->event, "level", gx_event_level_name(info->level)),
                   atomic_load(&p->totals->stats.event[k]));
        }
    }
}

// What there is now -------------------------------------------------------------------------------

static void put_memory(page *p)
{
    const char *name = "gx_memory_bytes";
    family(p, name, "gauge", "Host memory: held, the most that may be, and standing by.");
    sample(p, name, LABELS("kind", "host"), (int64_t)p->totals->used);
    sample(p, name, LABELS("kind", "host_limit"), (int64_t)p->totals->limit);
    sample(p, name, LABELS("kind", "host_idle"), (int64_t)gx_mem_idle());
    family(p, "gx_connections", "gauge", "Open connections that have gx.");
    sample(p, "gx_connections", no_labels, p->totals->connections);
    family(p, "gx_operations_running", "gauge", "Calls of gx under way, this one included.");
    sample(p, "gx_operations_running", no_labels, atomic_load(&p->totals->stats.running));
}

/* The lines that a family of devices has for one. */
typedef void device_lines(page *p, const char *name, const gx_device_name *device,
                          const char *short_name, gx_device_tally *tally);

static void device_info(page *p, const char *name, const gx_device_name *device,
                        const char *short_name, gx_device_tally *tally)
{
    (void)tally;
    sample(p, name,
           LABELS("device", short_name, "uuid", device->uuid, "name", device->name, "driver",
                  device->driver),
           1);
}

static void device_busy(page *p, const char *name, const gx_device_name *device,
                        const char *short_name, gx_device_tally *tally)
{
    sample_ns(p, name, LABELS("device", short_name, "uuid", device->uuid), tally->held_ns);
}

static void device_queue(page *p, const char *name, const gx_device_name *device,
                         const char *short_name, gx_device_tally *tally)
{
    sample(p, name, LABELS("device", short_name, "uuid", device->uuid), tally->since_ns);
}

static void device_memory(page *p, const char *name, const gx_device_name *device,
                          const char *short_name, gx_device_tally *tally)
{
    sample(p, name, LABELS("device", short_name, "uuid", device->uuid, "kind", "kept"),
           atomic_load(&tally->bytes));
    sample(p, name, LABELS("device", short_name, "uuid", device->uuid, "kind", "pinned"),
           atomic_load(&tally->pinned_bytes));
}

static void put_devices(page *p)
{
    static const struct {
        const char *name, *type, *help;
        device_lines *lines;
    } families[] = {
        {"gx_device_info", "gauge", "A device that gx has opened.", device_info},
        {"gx_device_busy_seconds_total", "counter",
         "Time that calls of gx held buffers of the device, summed over connections.", device_busy},
        {"gx_device_queue_depth", "gauge",
         "Connections whose calls hold buffers of the device now.", device_queue},
        {"gx_device_memory_bytes", "gauge",
         "Memory of the device that gx keeps, and page-locked memory for copies.", device_memory},
    };
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        family(p, families[f].name, families[f].type, families[f].help);
        for (int k = 0; k < GX_TALLIED_DEVICES; k++) {
            gx_device_name device;
            char short_name[sizeof device.name]; // "cuda:0" of "cuda:0 NVIDIA H200"
            gx_totals_device(k, &device);
            snprintf(short_name, sizeof short_name, "%.*s", (int)strcspn(device.name, " "),
                     device.name);
            if (device.name[0] != '\0') {
                families[f].lines(p, families[f].name, &device, short_name,
                                  &p->totals->stats.device[k]);
            }
        }
    }
}

// The function ------------------------------------------------------------------------------------

static void put_build(page *p)
{
    char format[16];
    snprintf(format, sizeof format, "%d", GX_FORMAT_VERSION);
    family(p, "gx_build_info", "gauge", "Versions of gx, of SQLite and of the file format.");
    sample(p, "gx_build_info",
           LABELS("version", GX_VERSION, "sqlite", sqlite3_libversion(), "format", format), 1);
}

void gx_fn_metrics(gx_fn *fn)
{
    int scope = SCOPE_PROCESS;
    if (!gx_fn_word(fn, 0, "scope", "process|connection", &scope)) {
        return;
    }
    if (scope == SCOPE_PROCESS && fn->ctx->config.number[GX_SET_LOCKED] != 0) {
        gx_run_failf(&fn->run, GX_AUTH,
                     "the settings of this connection are locked: it sees its "
                     "own counters alone, gx_metrics('connection')");
        return;
    }
    page p = {.totals = gx_fn_alloc(fn, sizeof *p.totals, "metrics")};
    if (p.totals == NULL) {
        return;
    }
    memset(p.totals, 0, sizeof *p.totals);
    gx_totals_get(scope == SCOPE_PROCESS ? NULL : fn->ctx, p.totals);
    gx_text_begin(&p.text, &fn->run);
    put_build(&p);
    put_operations(&p);
    put_durations(&p);
    put_failures(&p);
    put_ways(&p);
    put_counters(&p);
    put_events(&p, "gx_fallbacks_total", "reason", "fallback",
               "What was to run on a device, or as a record of it, and went another way.");
    put_events(&p, "gx_out_of_memory_total", "place", "out_of_memory",
               "Memory that was refused: calls that failed (host), and refusals of a device.");
    put_other_events(&p);
    put_memory(&p);
    put_devices(&p);
    gx_fn_result_text(fn, &p.text);
}
