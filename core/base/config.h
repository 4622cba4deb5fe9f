/*
** Settings of a connection: one table of (key, default, unit, meaning), values parsed once when
** set.
**
** Defaults come from environment variables GX_<KEY IN CAPITALS> where present (a bad one is a
** warning in gx_stats and the built-in default stays), else from the table in config.c.  Sizes are
** bytes or text such as '64MB', '2GiB'.
*/
#ifndef GX_CONFIG_H
#define GX_CONFIG_H

#include "err.h"
#include "types.h"

/* The default of tile_bytes: 1024 x 1024 f64. */
enum { GX_TILE_BYTES = 8 << 20 };

/* SETTING(ID, kind, least, most, key, unit, meaning, default); least, most: of sizes and counts. */
/* clang-format off */
#define GX_SETTINGS(SETTING)                                                                       \
    SETTING(MEMORY_LIMIT, SIZE, 1, INT64_MAX, "memory_limit", "bytes",                             \
        "host memory that gx may use in this connection",                                          \
        "half of the memory, at most 80 % of what is available")                                   \
    SETTING(PINNING_BUDGET, SIZE, 0, INT64_MAX, "pinning_budget", "bytes",                         \
        "host memory that gx may page-lock for a device",                                          \
        "half of the memory, at most 80 % of what is available, at most 8 GB")                     \
    SETTING(DEVICE_MEMORY_LIMIT, SIZE, 0, INT64_MAX, "device_memory_limit", "bytes",               \
        "memory that gx may use on each device; 0 = 80 % of what is free there", "0")              \
    SETTING(BACKEND, BACKEND, 0, 0, "backend", "word",                                             \
        "what computes: auto, cpu, cuda, or reference (plain loops)", "auto")                      \
    SETTING(THREADS, COUNT, 1, 1024, "threads", "count",                                           \
        "threads that compute, the caller's included",                                             \
        "the processors available to the process")                                                 \
    SETTING(READERS, COUNT, 0, 256, "readers", "count",                                            \
        "helper connections that read tiles; 0 = through this connection",                         \
        "as many as threads, at most 16")                                                          \
    SETTING(TILE_BYTES, SIZE, 64, GIB, "tile_bytes", "bytes",                                      \
        "size of a storage tile of new matrices", "8 MiB")                                         \
    SETTING(DETERMINISTIC, BOOL, 0, 1, "deterministic", "on/off",                                  \
        "the same bits whatever the memory limit and the number of threads", "off")                \
    SETTING(PROGRESS, PROGRESS, 0, 0, "progress", "word",                                          \
        "progress of long calls: off, on (to stderr), or an SQL function", "off")                  \
    SETTING(PROBE, PROBE, 0, 0, "probe", "word",                                                   \
        "residual checks of results: auto (where they take less than 3 % of the "                  \
        "time), on, off", "auto")                                                                  \
    SETTING(FILES, BOOL, 0, 1, "files", "on/off",                                                  \
        "gx may open files other than the database's own", "on")                                   \
    SETTING(PROFILE, BOOL, 0, 1, "profile", "on/off",                                              \
        "the saved hardware profile may be read and written", "on")                                \
    SETTING(CUDA_PATH, FOLDER, 0, 0, "cuda_path", "folder",                                        \
        "where the CUDA libraries are looked for first", "")                                       \
    SETTING(VOLUMES_ANYWHERE, BOOL, 0, 1, "volumes_anywhere", "on/off",                            \
        "volumes may be elsewhere than beside their database", "off")                              \
    SETTING(DEVICE, COUNT, 0, 1023, "device", "number",                                            \
        "which device computes where there are several, counted from 0", "0")                      \
    SETTING(DEVICES, DEVICES, 1, GX_DEVICES_MOST, "devices", "number",                             \
        "how many devices one statement may use, that of 'device' first: a "                       \
        "number, all, or a list of numbers, all of which are used", "1")                           \
    SETTING(SUITESPARSE_PATH, FOLDER, 0, 0, "suitesparse_path", "folder",                          \
        "where SuiteSparse is looked for; empty = where the loader looks", "")                     \
    SETTING(LOCKED, BOOL, 0, 1, "locked", "on/off",                                                \
        "SQL may set sizes and counts alone, up to their values at that time", "off")              \
    SETTING(EVENTS, EVENTS, 0, 0, "events", "word",                                                \
        "what goes to gx_events and to SQLite's log: off, error, warning, or "                     \
        "info, each with those before it", "warning")
/* clang-format on */

typedef enum gx_setting {
#define GX_SETTING_ENUM(ID, ...) GX_SET_##ID,
    GX_SETTINGS(GX_SETTING_ENUM)
#undef GX_SETTING_ENUM
        GX_SETTING_COUNT
} gx_setting;

enum { GX_SETTING_TEXT = 256 };

typedef struct gx_config {
    int64_t number[GX_SETTING_COUNT];             /* sizes in bytes, counts, booleans as 0/1 */
    char text[GX_SETTING_COUNT][GX_SETTING_TEXT]; /* the value as shown, NUL-terminated */
    char default_text[GX_SETTING_COUNT][GX_SETTING_TEXT]; /* the default in force, as shown     */
    int64_t most[GX_SETTING_COUNT]; /* number[] as it was when the settings were locked          */
} gx_config;

/* Values of number[GX_SET_BACKEND], in the order of their words. */
typedef enum gx_backend_choice {
    GX_BACKEND_AUTO = 0,
    GX_BACKEND_CPU,
    GX_BACKEND_CUDA,
    GX_BACKEND_REFERENCE
} gx_backend_choice;

/*
** Values of number[GX_SET_DEVICES] that are no count; and the numbers of a list, "0,2": how many,
** 0 where the text is no list of at least two different ones.
*/
enum { GX_DEVICES_ALL = 0, GX_DEVICES_LISTED = -1 };
enum { GX_DEVICES_MOST = 16 }; /* that one program may use; all are numbered below */
int gx_parse_devices(const char *text, int list[GX_DEVICES_MOST]);

/* Values of number[GX_SET_PROBE]. */
typedef enum gx_probe_choice { GX_PROBE_OFF = 0, GX_PROBE_ON, GX_PROBE_AUTO } gx_probe_choice;

/* Values of number[GX_SET_PROGRESS]; for CALLBACK, text[] is the SQL function. */
typedef enum gx_progress_choice {
    GX_PROGRESS_OFF = 0,
    GX_PROGRESS_ON,
    GX_PROGRESS_CALLBACK
} gx_progress_choice;

/* One row of gx_settings; default_text says in words where the default comes from. */
typedef struct gx_setting_info {
    const char *key, *unit, *meaning, *default_text;
} gx_setting_info;

const gx_setting_info *gx_config_info(gx_setting setting); /* static */

/* Defaults and environment.  warnings(arg, text) is called for each bad environment variable. */
void gx_config_init(gx_config *config, void (*warn)(void *arg, const char *text), void *arg);

/* GX_ARG naming the known keys. */
gx_code gx_config_find(const char *key, gx_setting *setting, gx_err *err);

/* True for sizes and counts, whose value is number[]; the others are words, text[]. */
bool gx_config_is_number(gx_setting setting);

/*
** The least memory_limit: three storage tiles, and where tiles are small 64 KiB of bookkeeping
** beside them (24 MiB with the default tile of 8 MiB).
*/
int64_t gx_config_memory_floor(int64_t tile_bytes);

/*
** Parse and set; on failure nothing changes and the text says what is accepted.  The value
** 'default' sets the default in force.
*/
gx_code gx_config_set(gx_config *config, gx_setting setting, const char *value, gx_err *err);

/*
** May SQL text set it so?  Refused, whoever wrote the text: folders that code comes from, switching
** files or locked back, what opens other files than the database's where files is off, and where
** locked is on everything but a size or a count up to its value at that time.
*/
gx_code gx_config_allow(const gx_config *config, gx_setting setting, const char *value,
                        gx_err *err);

/*
** "64MB", "2GiB", "1.5GiB", "1048576" -> bytes; decimal MB (or M), binary MiB (or Mi), K to P, any
** case, a blank before the unit allowed.  false when it is no size, negative, or past 2^63 - 1.
*/
bool gx_parse_size(const char *text, int64_t *bytes);

#endif
