/*
** Settings of a connection: see config.h.
**
** One table row per setting says its key, unit, meaning, kind and bounds; a value is parsed
** once, by its kind, into a number, and kept as the text to show.  Three places give a value,
** the later one wins:
**
**   the built-in default    from the machine (memory, processors) or a constant below
**   GX_<KEY>                environment variable; a bad one is reported and ignored
**   gx_config(key, value)   the connection's own, or gx_configure() of the application
**
** SQL text may come from a stranger, so that gx_config_allow() is asked before gx_config() sets:
** docs/security.md has the list, and a test that each setting is in it.
**
** memory_limit and tile_bytes bind each other: the limit must hold three storage tiles, or a
** product could not keep one tile of A, B and C each.  So either is refused when it would break
** that, and the environment's tile size is read before its memory limit.
**
** Parsing depends on no locale.  Nothing here is shared between connections or allocates.
*/
#include "config.h"

#include "events.h"
#include "machine.h"
#include "spelling.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind {
    KIND_SIZE,
    KIND_COUNT,
    KIND_BOOL,
    KIND_BACKEND,
    KIND_PROBE,
    KIND_PROGRESS,
    KIND_EVENTS,
    KIND_DEVICES,
    KIND_FOLDER
} kind;

typedef struct row {
    kind kind;
    int64_t least, most; /* SIZE and COUNT: what is accepted */
    gx_setting_info info;
} row;

static const int64_t MIB = (int64_t)1 << 20;
static const int64_t GIB = (int64_t)1 << 30;
static const int64_t PINNING_MOST = 8000000000; /* page-locked memory is taken from everybody */
static const int64_t BOOKKEEPING_BYTES = (int64_t)64 << 10;

enum { READERS_USUAL = 16 }; /* more connections than this read hardly faster */

#define ROW(ID, KIND, LEAST, MOST, ...) {KIND_##KIND, LEAST, MOST, {__VA_ARGS__}},
static const row rows[GX_SETTING_COUNT] = {GX_SETTINGS(ROW)};
#undef ROW

const gx_setting_info *gx_config_info(gx_setting setting)
{
    assert(setting >= 0 && setting < GX_SETTING_COUNT);
    return &rows[setting].info;
}

bool gx_config_is_number(gx_setting setting)
{
    return rows[setting].kind == KIND_SIZE || rows[setting].kind == KIND_COUNT;
}

int64_t gx_config_memory_floor(int64_t tile_bytes)
{
    int64_t tiles = 3 * tile_bytes;
    return gx_max(tiles, gx_min(tiles + BOOKKEEPING_BYTES, (int64_t)3 * GX_TILE_BYTES));
}

// Words and numbers -------------------------------------------------------------------------------

static bool equals(const char *a, const char *b)
{
    while (*a != '\0' && gx_lower(*a) == gx_lower(*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* "", "B", "kB", "K", "KiB", "Ki", ... to bytes per unit; 0 when it is no unit. */
static int64_t parse_unit(const char *text)
{
    if (*text == '\0' || equals(text, "b")) {
        return 1;
    }
    const char *prefixes = "kmgtp";
    const char *prefix = strchr(prefixes, gx_lower(*text));
    if (prefix == NULL) {
        return 0;
    }
    bool is_binary = equals(text + 1, "i") || equals(text + 1, "ib");
    if (!is_binary && text[1] != '\0' && !equals(text + 1, "b")) {
        return 0;
    }
    int64_t unit = 1;
    for (const char *p = prefixes; p <= prefix; p++) {
        unit *= is_binary ? 1024 : 1000;
    }
    return unit;
}

/*
** whole.fraction unit.  The whole part is exact; the fraction, less than one unit, is rounded to
** the nearest byte from its first 15 digits, and must be zero when the unit is the byte.
*/
bool gx_parse_size(const char *text, int64_t *bytes)
{
    while (is_space(*text)) {
        text++;
    }
    if (!gx_is_digit(*text)) {
        return false;
    }
    int64_t whole = 0;
    for (; gx_is_digit(*text); text++) {
        if (!gx_mul_i64(whole, 10, &whole) || whole > INT64_MAX - (*text - '0')) {
            return false;
        }
        whole += *text - '0';
    }
    double fraction = 0, scale = 1;
    if (*text == '.') {
        for (text++; gx_is_digit(*text); text++) {
            if (scale < 1e15) {
                scale *= 10;
                fraction = fraction * 10 + (*text - '0');
            }
        }
    }
    while (is_space(*text)) {
        text++;
    }
    int64_t unit = parse_unit(text);
    if (unit == 0 || (unit == 1 && fraction != 0) || !gx_mul_i64(whole, unit, &whole)) {
        return false;
    }
    int64_t part = (int64_t)(fraction / scale * (double)unit + 0.5);
    if (whole > INT64_MAX - part) {
        return false;
    }
    *bytes = whole + part;
    return true;
}

/* The words of a kind, each the number that it stands for. */
static const char *const words[][4] = {
    [KIND_BOOL] = {"off", "on"},
    [KIND_BACKEND] = {"auto", "cpu", "cuda", "reference"},
    [KIND_PROBE] = {"off", "on", "auto"},
    [KIND_PROGRESS] = {"off", "on"},
    [KIND_EVENTS] = {"off", "error", "warning", "info"},
};

static const char *const choices[] = {
    [KIND_BOOL] = "on or off",
    [KIND_BACKEND] = "auto, cpu, cuda or reference",
    [KIND_PROBE] = "auto, on or off",
    [KIND_PROGRESS] = "off, on, or the name of an SQL function",
    [KIND_EVENTS] = "off, error, warning or info",
};

static bool parse_word(kind of, const char *text, int64_t *number)
{
    static const char *const no_and_yes[] = {"0", "1", "false", "true", "no", "yes"};
    for (int i = 0; i < 4 && words[of][i] != NULL; i++) {
        if (equals(text, words[of][i])) {
            *number = i;
            return true;
        }
    }
    for (int i = 0; i < 6 && of != KIND_BACKEND && of != KIND_EVENTS; i++) {
        if (equals(text, no_and_yes[i])) {
            *number = i % 2;
            return true;
        }
    }
    return false;
}

/*
** An SQL function's name is put into a statement, so it is held to letters, digits and
** underscores.
*/
static bool is_identifier(const char *text)
{
    size_t length = 0;
    for (; text[length] != '\0'; length++) {
        char c = gx_lower(text[length]);
        if (!(c >= 'a' && c <= 'z') && c != '_' && !(length > 0 && gx_is_digit(c))) {
            return false;
        }
    }
    return length > 0 && length < 64;
}

int gx_parse_devices(const char *text, int list[GX_DEVICES_MOST])
{
    int count = 0;
    uint32_t seen = 0;
    while (count < GX_DEVICES_MOST && gx_is_digit(*text)) {
        int number = 0;
        for (; gx_is_digit(*text) && number < GX_DEVICES_MOST; text++) {
            number = 10 * number + (*text - '0');
        }
        if (number >= GX_DEVICES_MOST || (seen >> number & 1) != 0) {
            return 0;
        }
        seen |= (uint32_t)1 << number;
        list[count++] = number;
        if (*text != ',') {
            break;
        }
        text += 1 + strspn(text + 1, " ");
    }
    return *text == '\0' && count >= 2 ? count : 0;
}

static bool parse_devices(const row *def, const char *text, int64_t *number)
{
    int list[GX_DEVICES_MOST];
    if (equals(text, "all")) {
        *number = GX_DEVICES_ALL;
        return true;
    }
    if (gx_parse_devices(text, list) > 0) {
        *number = GX_DEVICES_LISTED;
        return strlen(text) < GX_SETTING_TEXT;
    }
    return text[strspn(text, "0123456789")] == '\0' && gx_parse_size(text, number) &&
           *number >= def->least && *number <= def->most;
}

// Setting -----------------------------------------------------------------------------------------

static gx_code refuse(const row *def, const char *value, gx_err *err)
{
    const char *key = def->info.key;
    switch (def->kind) {
    case KIND_SIZE:
        return gx_fail(err, GX_ARG,
                       "%s '%.40s' is no size: give bytes, or text such as '64MB' or '2GiB'", key,
                       value);
    case KIND_COUNT:
        return gx_fail(err, GX_ARG,
                       "%s must be a whole number from %" PRId64 " to %" PRId64 ", not '%.40s'",
                       key, def->least, def->most, value);
    case KIND_BOOL:
    case KIND_BACKEND:
    case KIND_PROBE:
    case KIND_PROGRESS:
    case KIND_EVENTS:
        return gx_fail(err, GX_ARG, "%s must be %s, not '%.*s'", key, choices[def->kind],
                       def->kind == KIND_PROGRESS ? 70 : 40, value);
    case KIND_DEVICES:
        return gx_fail(err, GX_ARG,
                       "%s must be all, a number from %" PRId64 " to %" PRId64
                       ", or a list of numbers below that such as '0,2', not '%.40s'",
                       key, def->least, def->most, value);
    case KIND_FOLDER:
        return gx_fail(err, GX_ARG, "%s must be a folder's path of at most %d bytes", key,
                       GX_SETTING_TEXT - 1);
    }
    return GX_ARG;
}

/* memory_limit must hold three tiles of tile_bytes. */
static gx_code check_floor(const gx_config *config, gx_setting setting, int64_t number, gx_err *err)
{
    int64_t limit = config->number[GX_SET_MEMORY_LIMIT], tile = config->number[GX_SET_TILE_BYTES];
    if (setting == GX_SET_MEMORY_LIMIT && number < gx_config_memory_floor(tile)) {
        return gx_fail(err, GX_ARG,
                       "memory_limit %" PRId64 " is below the floor of %" PRId64
                       " bytes, three tiles of %" PRId64 " (lower tile_bytes for less)",
                       number, gx_config_memory_floor(tile), tile);
    }
    if (setting == GX_SET_TILE_BYTES && limit < gx_config_memory_floor(number)) {
        return gx_fail(err, GX_ARG,
                       "tile_bytes %" PRId64 " needs a memory_limit of at least %" PRId64
                       " bytes, three tiles, but it is %" PRId64,
                       number, gx_config_memory_floor(number), limit);
    }
    return GX_OK;
}

static gx_code parse(const row *def, const char *value, int64_t *number, gx_err *err)
{
    bool is_good = false;
    switch (def->kind) {
    case KIND_SIZE:
    case KIND_COUNT:
        is_good = gx_parse_size(value, number);
        if (def->kind == KIND_COUNT) {
            is_good = is_good && *number >= def->least && *number <= def->most &&
                      value[strspn(value, "0123456789.")] == '\0';
        }
        break;
    case KIND_PROGRESS:
        *number = GX_PROGRESS_CALLBACK;
        is_good = parse_word(def->kind, value, number) || is_identifier(value);
        break;
    case KIND_BOOL:
    case KIND_BACKEND:
    case KIND_PROBE:
    case KIND_EVENTS:
        is_good = parse_word(def->kind, value, number);
        break;
    case KIND_DEVICES:
        is_good = parse_devices(def, value, number);
        break;
    case KIND_FOLDER:
        *number = 0;
        is_good = strlen(value) < GX_SETTING_TEXT;
        break;
    }
    if (!is_good) {
        return refuse(def, value, err);
    }
    if (def->kind == KIND_SIZE && (*number < def->least || *number > def->most)) {
        return gx_fail(err, GX_ARG, "%s must be %" PRId64 " to %" PRId64 " bytes, not %" PRId64,
                       def->info.key, def->least, def->most, *number);
    }
    return GX_OK;
}

/* The text to show: canonical, whatever was typed. */
static void show(gx_config *config, gx_setting setting, const char *value)
{
    int64_t number = config->number[setting];
    char text[GX_SETTING_TEXT]; // beside config: value may be in there
    bool is_number = gx_config_is_number(setting);
    switch (rows[setting].kind) {
    case KIND_BOOL:
    case KIND_BACKEND:
    case KIND_PROBE:
    case KIND_PROGRESS:
    case KIND_EVENTS:
        if (words[rows[setting].kind][number] != NULL) { // else the name of an SQL function
            value = words[rows[setting].kind][number];
        }
        break;
    case KIND_DEVICES:
        is_number = number > 0;
        value = number == GX_DEVICES_ALL ? "all" : value;
        break;
    case KIND_SIZE:
    case KIND_COUNT:
    case KIND_FOLDER:
        break;
    }
    if (is_number) {
        snprintf(text, sizeof text, "%" PRId64, number);
    } else {
        snprintf(text, sizeof text, "%s", value);
    }
    memcpy(config->text[setting], text, sizeof text);
}

gx_code gx_config_set(gx_config *config, gx_setting setting, const char *value, gx_err *err)
{
    assert(setting >= 0 && setting < GX_SETTING_COUNT);
    char standard[GX_SETTING_TEXT]; // a copy: show() writes into config
    if (equals(value, "default")) {
        memcpy(standard, config->default_text[setting], sizeof standard);
        value = standard;
    }
    int64_t number = 0;
    GX_TRY(parse(&rows[setting], value, &number, err));
    GX_TRY(check_floor(config, setting, number, err));
    if (setting == GX_SET_LOCKED && number > config->number[setting]) {
        memcpy(config->most, config->number, sizeof config->most);
    }
    config->number[setting] = number;
    show(config, setting, value);
    return GX_OK;
}

/* GX_ and the key in capitals. */
enum { ENVIRONMENT_NAME = 64 };
static const char *environment_name(gx_setting setting, char name[ENVIRONMENT_NAME])
{
    const char *key = rows[setting].info.key;
    snprintf(name, ENVIRONMENT_NAME, "GX_%s", key);
    for (char *c = name; *c != '\0'; c++) {
        *c = (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    }
    return name;
}

/* The number that a larger one is more than. */
static int64_t reach(gx_setting setting, int64_t number)
{
    return setting == GX_SET_DEVICE_MEMORY_LIMIT && number == 0 ? INT64_MAX : number;
}

/* Of locked settings: sizes and counts, which 'device' is not, up to what they were. */
static gx_code allow_locked(const gx_config *config, gx_setting setting, int64_t number,
                            gx_err *err)
{
    const char *key = rows[setting].info.key;
    if (!gx_config_is_number(setting) || setting == GX_SET_DEVICE) {
        return gx_fail(err, GX_AUTH,
                       "%s cannot be set: the settings of this connection are locked", key);
    }
    if (reach(setting, number) > reach(setting, config->most[setting])) {
        return gx_fail(err, GX_AUTH,
                       "%s %" PRId64 " is more than %" PRId64
                       ", its value when the settings of this connection were locked",
                       key, number, config->most[setting]);
    }
    return GX_OK;
}

gx_code gx_config_allow(const gx_config *config, gx_setting setting, const char *value, gx_err *err)
{
    gx_config next = *config;
    GX_TRY(gx_config_set(&next, setting, value, err));
    const char *key = rows[setting].info.key;
    char name[ENVIRONMENT_NAME];
    const int64_t *was = config->number;
    if (strcmp(next.text[setting], config->text[setting]) == 0) {
        return GX_OK;
    }
    if (rows[setting].kind == KIND_FOLDER) {
        return gx_fail(err, GX_AUTH,
                       "%s cannot be set by SQL, because code is loaded from there: set %s in the "
                       "environment, or call gx_configure() in C",
                       key, environment_name(setting, name));
    }
    if ((setting == GX_SET_FILES && was[setting] == 0) ||
        (setting == GX_SET_LOCKED && was[setting] != 0)) {
        return gx_fail(err, GX_ARG, "%s is %s and stays %s in this connection", key,
                       config->text[setting], config->text[setting]);
    }
    if (was[GX_SET_LOCKED] != 0) {
        return allow_locked(config, setting, next.number[setting], err);
    }
    if (setting == GX_SET_VOLUMES_ANYWHERE && was[GX_SET_FILES] == 0) {
        return gx_fail(err, GX_AUTH, "%s cannot be switched on: files is off in this connection",
                       key);
    }
    return GX_OK;
}

gx_code gx_config_find(const char *key, gx_setting *setting, gx_err *err)
{
    for (int i = 0; i < GX_SETTING_COUNT; i++) {
        if (equals(key, rows[i].info.key)) {
            *setting = (gx_setting)i;
            return GX_OK;
        }
    }
    char known[400] = "";
    size_t used = 0;
    for (int i = 0; i < GX_SETTING_COUNT; i++) {
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ",
                                 rows[i].info.key);
    }
    return gx_fail(err, GX_ARG, "no setting '%.60s': the settings are %s", key, known);
}

// Defaults ----------------------------------------------------------------------------------------

/* Half of the memory and at most 80 % of what is available, so that the host keeps its share. */
static int64_t memory_share(void)
{
    int64_t half = (int64_t)(gx_machine_memory() / 2);
    int64_t available = (int64_t)(gx_machine_memory_available() / 5 * 4);
    return gx_min(half, available) / MIB * MIB;
}

static void set_built_in(gx_config *config)
{
    int64_t share = memory_share(), cpus = gx_machine_cpus();
    int64_t *number = config->number;
    *config = (gx_config){0};
    number[GX_SET_TILE_BYTES] = GX_TILE_BYTES;
    number[GX_SET_MEMORY_LIMIT] = gx_max(share, gx_config_memory_floor(GX_TILE_BYTES));
    number[GX_SET_PINNING_BUDGET] = gx_min(share, PINNING_MOST);
    number[GX_SET_THREADS] = gx_min(cpus, rows[GX_SET_THREADS].most);
    number[GX_SET_READERS] = gx_min(number[GX_SET_THREADS], READERS_USUAL);
    number[GX_SET_PROBE] = GX_PROBE_AUTO;
    number[GX_SET_FILES] = 1;
    number[GX_SET_PROFILE] = 1;
    number[GX_SET_DEVICES] = 1;
    number[GX_SET_EVENTS] = GX_EVENTS_WARNING;
    for (int i = 0; i < GX_SETTING_COUNT; i++) {
        show(config, (gx_setting)i, rows[i].kind == KIND_FOLDER ? "" : "off");
    }
}

/* From the environment, where it is set and good. */
static void read_environment(gx_config *config, gx_setting setting,
                             void (*warn)(void *arg, const char *text), void *arg)
{
    char name[ENVIRONMENT_NAME];
    const char *value = getenv(environment_name(setting, name));
    if (value == NULL || *value == '\0') {
        return;
    }
    gx_err err = {0};
    if (setting == GX_SET_TILE_BYTES) {
        // The limit is still the built-in one: a larger tile raises it instead of being refused.
        int64_t number = 0;
        if (parse(&rows[setting], value, &number, &err) == GX_OK) {
            int64_t floor = gx_config_memory_floor(number);
            config->number[GX_SET_MEMORY_LIMIT] =
                gx_max(config->number[GX_SET_MEMORY_LIMIT], floor);
            show(config, GX_SET_MEMORY_LIMIT, "");
        }
    }
    if (err.code != GX_OK || gx_config_set(config, setting, value, &err) != GX_OK) {
        char text[sizeof name + sizeof err.text + 16];
        snprintf(text, sizeof text, "%s ignored: %s", name, err.text);
        warn(arg, text);
    }
}

void gx_config_init(gx_config *config, void (*warn)(void *arg, const char *text), void *arg)
{
    set_built_in(config);
    memcpy(config->default_text, config->text, sizeof config->default_text);

    // The settings that others' defaults follow come first.
    read_environment(config, GX_SET_TILE_BYTES, warn, arg);
    read_environment(config, GX_SET_THREADS, warn, arg);
    config->number[GX_SET_READERS] = gx_min(config->number[GX_SET_THREADS], READERS_USUAL);
    show(config, GX_SET_READERS, "");
    for (int i = 0; i < GX_SETTING_COUNT; i++) {
        if (i != GX_SET_TILE_BYTES && i != GX_SET_THREADS) {
            read_environment(config, (gx_setting)i, warn, arg);
        }
    }
    memcpy(config->default_text, config->text, sizeof config->default_text);
}
