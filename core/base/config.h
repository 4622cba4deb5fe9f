/*
** Settings of a connection: one table of (key, default, unit, meaning), values parsed once when
** set.
**
** Defaults come from environment variables GX_<KEY IN CAPITALS> where present (a bad one is a
** warning in gx_stats and the built-in default stays), else from the table in config.c.  Sizes are
** bytes or text such as '64MB', '2GiB'.
*/
#pragma once

#include "err.h"
#include "types.h"

/* The default of tile_bytes: 1024 x 1024 f64. */
enum { GX_TILE_BYTES = 8 << 20 };

typedef enum gx_setting {
    GX_SET_MEMORY_LIMIT = 0, /* bytes: host memory gx may use; floor 3 default tiles of the store */
    GX_SET_PINNING_BUDGET,   /* bytes: page-locked host memory                       */
    GX_SET_DEVICE_MEMORY_LIMIT, /* bytes: per device; 0 = up to 80 % of its free memory  */
    GX_SET_BACKEND,             /* text: auto, cpu, cuda, reference                     */
    GX_SET_THREADS,             /* count: compute threads; default the CPUs available   */
    GX_SET_READERS,             /* count: helper connections; 0 = none                  */
    GX_SET_TILE_BYTES,          /* bytes: size of a storage tile of new matrices        */
    GX_SET_DETERMINISTIC,       /* bool                                                 */
    GX_SET_PROGRESS,            /* text: off, on, or the name of an SQL function        */
    GX_SET_PROBE,               /* text: auto, on, off: residual checks of results           */
    GX_SET_FILES,               /* bool: gx_import and gx_export allowed                */
    GX_SET_PROFILE,             /* bool: the saved hardware profile is read and written */
    GX_SET_CUDA_PATH,           /* text: folder of the CUDA libraries; "" = usual places */
    GX_SET_VOLUMES_ANYWHERE,    /* bool: volumes may have paths of their own            */
    GX_SET_DEVICE,              /* count: which of several devices of a kind, from 0    */
    GX_SET_DEVICES,             /* text: all, how many, or a list of numbers            */
    GX_SET_SUITESPARSE_PATH,    /* text: folder of SuiteSparse; "" = the loader's places */
    GX_SET_LOCKED,              /* bool: SQL may lower sizes and counts, and set no more */
    GX_SET_EVENTS,              /* text: off, error, warning, info: gx_event_level of events.h */
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
