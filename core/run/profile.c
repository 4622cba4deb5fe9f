/*
** The hardware profile: see profile.h.
**
** The file is one JSON object, $XDG_CACHE_HOME/gx/hardware.json (~/.cache by default):
**
**   {"format":1, "machines":{
**      "host; Intel(R) Xeon(R); 16 processors; gx 0.1.0":{
**         "threads":16, "memcpy_bytes_per_s":1.5e10, "touch_bytes_per_s":5e9,
**         "db_read_bytes_per_s":5e9, "db_readers":16, "db_read_all_bytes_per_s":4e10, ...
**         "gemm_size":[128,512,1536], "gemm_flops_per_s":{"f64":[...], "f32":[...], ...},
**         "f64_flops_per_s":{"potrf":[...], ...}}},
**    "devices":{"host; ...; gx 0.1.0; cuda:0 NVIDIA H200; CUDA 13.0, driver 13.0":{...}}}
**
** A home folder may be shared by machines, so each has its key; the oldest keys make room beyond
** 32. The file is replaced by renaming a finished one over it: readers see the old or the new,
** and of two writers the later wins.  Everything that can go wrong with it is a remark in
** gx_stats, and what is read is believed only when every figure is positive and finite.
**
** cJSON allocates a few kilobytes of its own here, while loading and saving.
*/
#include "profile.h"

#include "../base/machine.h"
#include "../base/files.h"
#include "run.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { FORMAT = 1, MACHINES_MOST = 32, FILE_MOST = 1 << 20, KEY_BYTES = 512 };

/* A device that was not in the file may be there so much later: others have measured it. */
static const int64_t AGAIN_NS = 1000000000;

// Figures -----------------------------------------------------------------------------------------

/* The numbers that a profile begins with, and what they are where nothing was measured. */
typedef struct figures {
    int count, needed; /* the first ones must be in a file; others files of earlier versions lack */
    const char *name[12];
    double usual[12];
} figures;

/* sweep_bytes_per_s: of a thread. */
static const figures of_machine = {
    12,
    3,
    {"memcpy_bytes_per_s", "db_read_bytes_per_s", "db_write_bytes_per_s", "touch_bytes_per_s",
     "db_readers", "db_read_all_bytes_per_s", "db_open_s", "db_commit_bytes_per_s", "db_commit_s",
     "sweep_bytes_per_s", "core_flops_per_s", "thread_s"},
    {8e9, 2.5e9, 1.2e9, 4e9, 1, 2.5e9, 2e-4, 1.5e9, 1e-3, 4e9, 16e9, 40e-6}};

/* Copies over PCI Express 3. */
static const figures of_device = {
    12,
    8,
    {"upload_bytes_per_s", "download_bytes_per_s", "pageable_up_bytes_per_s",
     "pageable_down_bytes_per_s", "pin_bytes_per_s", "launch_s", "wait_s", "open_s", "alloc_s",
     "alloc_bytes_per_s", "sweep_bytes_per_s", "residues_from"},
    {12e9, 12e9, 6e9, 6e9, 1e9, 1e-5, 3e-4, 0.3, 1e-4, 1e12, 250e9, GX_RESIDUES_NEVER}};

static_assert(offsetof(gx_profile, thread_s) == 11 * sizeof(double), "as the list");
static_assert(offsetof(gx_device_profile, residues_from) == 11 * sizeof(double), "as the list");

/* Factorisations that were not measured: what share of a product's rate they were seen to have. */
static void fill_rates(gx_profile *profile)
{
    static const double share[GX_RATE_COUNT] = {0.5, 0.4, 0.4, 0.1};
    for (int rate = 0; rate < GX_RATE_COUNT; rate++) {
        for (int i = 0; i < GX_PROFILE_SIZES; i++) {
            profile->rate_flops_per_s[rate][i] = share[rate] * profile->gemm_flops_per_s[GX_F64][i];
        }
    }
}

/* Storing as far as it was not measured by size: the same at every size. */
static void fill_store(gx_profile *profile)
{
    for (int i = 0; i < GX_STORE_SIZES; i++) {
        static const double sizes[GX_STORE_SIZES] = {8 << 20, 64 << 20, 256 << 20};
        profile->store_bytes[i] = sizes[i];
        profile->store_new.write_bytes_per_s[i] = profile->db_write_bytes_per_s;
        profile->store_new.commit_bytes_per_s[i] = profile->db_commit_bytes_per_s;
    }
    profile->store_again = profile->store_new;
}

void gx_profile_built_in(gx_profile *profile)
{
    // Per thread, and half of what a machine of two slow cores was seen to do.
    static const double per_thread[GX_FLOATS] = {
        [GX_F64] = 16e9, [GX_F32] = 32e9, [GX_C128] = 16e9, [GX_C64] = 32e9};
    static const double share[GX_PROFILE_SIZES] = {0.25, 0.75, 1, 1}; // small products thread badly
    *profile = (gx_profile){.threads = gx_machine_cpus(), .gemm_size = {128, 512, 1536, 3072}};
    memcpy(profile, of_machine.usual, sizeof of_machine.usual);
    profile->sweep_bytes_per_s *= profile->threads;
    for (int dtype = 0; dtype < GX_FLOATS; dtype++) {
        for (int i = 0; i < GX_PROFILE_SIZES; i++) {
            profile->gemm_flops_per_s[dtype][i] = per_thread[dtype] * share[i] * profile->threads;
        }
    }
    fill_rates(profile);
    fill_store(profile);
}

// The file as bytes -------------------------------------------------------------------------------

bool gx_profile_path(char *path, size_t bytes)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (cache != NULL && cache[0] == '/') { // the XDG specification has relative ones ignored
        length = snprintf(path, bytes, "%s/gx/hardware.json", cache);
    } else if (home != NULL && home[0] == '/') {
        length = snprintf(path, bytes, "%s/.cache/gx/hardware.json", home);
    }
    return length > 0 && (size_t)length < bytes;
}

/* Each remark on the file is an event, too. */
static const gx_about about_file = {.kind = GX_EVENT_PROFILE};

static void note_errno(gx_ctx *ctx, const char *what, const char *path)
{
    char text[100];
    gx_stats_tell(&ctx->stats, &about_file, "hardware profile not %s: %s: %.80s", what,
                  strerror_r(errno, text, sizeof text), path);
}

/* The whole file as text; NULL when it is not there (silently), or cannot be read (a remark). */
static char *read_file(gx_ctx *ctx, const char *path)
{
    struct stat about;
    const char *oddity;
    int fd = gx_open_regular(path, O_RDONLY, &about, &oddity);
    if (oddity != NULL) {
        gx_stats_tell(&ctx->stats, &about_file,
                      "hardware profile not read: %s, no regular file: %.80s", oddity, path);
        return NULL;
    }
    if (fd < 0) {
        if (errno != ENOENT && errno != ENOTDIR) {
            note_errno(ctx, "read", path);
        }
        return NULL;
    }
    void *text = NULL;
    if (about.st_size > FILE_MOST) {
        gx_stats_tell(&ctx->stats, &about_file,
                      "hardware profile not read: no file of at most 1 MiB: %.80s", path);
    } else if (gx_mem_alloc(ctx->mem, (size_t)about.st_size + 1, "hardware profile", &text, NULL) ==
               GX_OK) {
        ssize_t got = read(fd, text, (size_t)about.st_size);
        if (got < 0) {
            note_errno(ctx, "read", path);
        }
        ((char *)text)[got < 0 ? 0 : got] = '\0';
    }
    close(fd);
    return text;
}

/* mkdir of every folder on the way to path. */
static void make_folders(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(folder, 0700); // where this fails, opening the file tells
        *slash = '/';
    }
}

static void write_file(gx_ctx *ctx, const char *path, const char *text)
{
    char temporary[PATH_MAX + 64];
    const char *oddity = gx_file_oddity(path, false);
    if (oddity != NULL && strcmp(oddity, "a link") != 0) { // a link is replaced, as a file is
        gx_stats_tell(&ctx->stats, &about_file, "hardware profile not written: %s is there: %.80s",
                      oddity, path);
        return;
    }
    snprintf(temporary, sizeof temporary, "%s.%ld.%lld", path, (long)getpid(),
             (long long)gx_now_ns());
    make_folders(path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        note_errno(ctx, "written", path);
        return;
    }
    size_t bytes = strlen(text);
    bool is_written = write(fd, text, bytes) == (ssize_t)bytes;
    is_written = close(fd) == 0 && is_written;
    if (!is_written || rename(temporary, path) != 0) {
        note_errno(ctx, "written", path);
        (void)unlink(temporary);
    }
}

// The file as JSON --------------------------------------------------------------------------------

static void machine_key(const gx_ctx *ctx, char key[KEY_BYTES])
{
    char cpu[128];
    gx_machine_cpu_name(cpu, sizeof cpu);
    struct utsname system;
    bool is_named = uname(&system) == 0;
    snprintf(key, KEY_BYTES, "%s; %s; %d processors; gx %s", is_named ? system.nodename : "unknown",
             cpu, gx_machine_cpus(), ctx->version == NULL ? "?" : ctx->version);
}

/* The object of the file, or NULL. */
static cJSON *load(gx_ctx *ctx)
{
    char path[PATH_MAX];
    if (!gx_profile_path(path, sizeof path)) {
        gx_stats_tell(&ctx->stats, &about_file,
                      "hardware profile not read: neither XDG_CACHE_HOME nor HOME is set");
        return NULL;
    }
    char *text = read_file(ctx, path);
    if (text == NULL) {
        return NULL;
    }
    cJSON *root = cJSON_Parse(text);
    gx_mem_free(ctx->mem, text);
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(root, "format");
    if (!cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(root, "machines")) ||
        !cJSON_IsNumber(format) || format->valueint != FORMAT) {
        gx_stats_tell(&ctx->stats, &about_file,
                      "hardware profile not read: not in its format: %.80s", path);
        cJSON_Delete(root);
        return NULL;
    }
    return root;
}

/* A positive finite number, or false and *is_sound cleared. */
static double positive(const cJSON *item, bool *is_sound)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble > 0) || !(item->valuedouble < 1e18)) {
        *is_sound = false;
        return 1;
    }
    return item->valuedouble;
}

/* Into a profile that has the usual ones. */
static void parse_figures(const figures *f, const cJSON *object, void *profile, bool *is_sound)
{
    for (int i = 0; i < f->count; i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, f->name[i]);
        if (item != NULL || i < f->needed) {
            ((double *)profile)[i] = positive(item, is_sound);
        }
    }
}

static void parse_list(const cJSON *list, double *values, int count, bool *is_sound)
{
    for (int i = 0; i < count; i++) {
        values[i] = positive(cJSON_GetArrayItem(list, i), is_sound);
    }
}

/*
** What add_rates() writes: sizes, gemm[][sizes], and "f64_flops_per_s":{"potrf":[...], ...} into
** rates[][sizes]; false where that is not there.
*/
static bool parse_rates(const cJSON *object, int64_t *size, double *gemm, double *rates, int sizes,
                        bool *is_sound)
{
    const cJSON *edges = cJSON_GetObjectItemCaseSensitive(object, "gemm_size");
    const cJSON *products = cJSON_GetObjectItemCaseSensitive(object, "gemm_flops_per_s");
    for (int i = 0; i < sizes; i++) {
        size[i] = (int64_t)positive(cJSON_GetArrayItem(edges, i), is_sound);
        *is_sound = *is_sound && size[i] > (i == 0 ? 0 : size[i - 1]);
    }
    for (int dtype = 0; dtype < GX_FLOATS; dtype++) {
        const char *name = gx_number_name((gx_number)dtype);
        parse_list(cJSON_GetObjectItemCaseSensitive(products, name), gemm + dtype * sizes, sizes,
                   is_sound);
    }
    const cJSON *lists = cJSON_GetObjectItemCaseSensitive(object, "f64_flops_per_s");
    for (int rate = 0; rate < GX_RATE_COUNT && lists != NULL; rate++) {
        const cJSON *list = cJSON_GetObjectItemCaseSensitive(lists, gx_rate_name((gx_rate)rate));
        parse_list(list, rates + rate * sizes, sizes, is_sound);
    }
    return lists != NULL;
}

static void parse_store_rates(const cJSON *rates, gx_store_rates *out, bool *is_sound)
{
    parse_list(cJSON_GetObjectItemCaseSensitive(rates, "write"), out->write_bytes_per_s,
               GX_STORE_SIZES, is_sound);
    parse_list(cJSON_GetObjectItemCaseSensitive(rates, "commit"), out->commit_bytes_per_s,
               GX_STORE_SIZES, is_sound);
}

/* Storing by size, which files of earlier versions do not have. */
static void parse_store(const cJSON *machine, gx_profile *profile, bool *is_sound)
{
    const cJSON *sizes = cJSON_GetObjectItemCaseSensitive(machine, "store_bytes");
    fill_store(profile);
    if (sizes == NULL) {
        return;
    }
    parse_list(sizes, profile->store_bytes, GX_STORE_SIZES, is_sound);
    for (int i = 1; i < GX_STORE_SIZES; i++) {
        *is_sound = *is_sound && profile->store_bytes[i] > profile->store_bytes[i - 1];
    }
    parse_store_rates(cJSON_GetObjectItemCaseSensitive(machine, "store_new"), &profile->store_new,
                      is_sound);
    parse_store_rates(cJSON_GetObjectItemCaseSensitive(machine, "store_again"),
                      &profile->store_again, is_sound);
}

/* Every figure of one machine's object; false when one is missing or cannot be. */
static bool parse_machine(const cJSON *machine, gx_profile *profile)
{
    bool is_sound = true;
    const cJSON *threads = cJSON_GetObjectItemCaseSensitive(machine, "threads");
    gx_profile_built_in(profile);
    profile->is_measured = true;
    profile->sweep_bytes_per_s /= profile->threads;
    profile->threads = (int)fmin(positive(threads, &is_sound), 65536);
    profile->sweep_bytes_per_s *= profile->threads;
    parse_figures(&of_machine, machine, profile, &is_sound);
    parse_store(machine, profile, &is_sound);
    if (!parse_rates(machine, profile->gemm_size, profile->gemm_flops_per_s[0],
                     profile->rate_flops_per_s[0], GX_PROFILE_SIZES, &is_sound)) {
        fill_rates(profile);
    }
    return is_sound && profile->threads >= 1;
}

/* Four digits are more than a measurement is worth. */
static double rounded(double value)
{
    double unit = pow(10, floor(log10(value)) - 3);
    return round(value / unit) * unit;
}

static void add_number(cJSON *list, double value)
{
    cJSON *item = cJSON_CreateNumber(value);
    if (!cJSON_AddItemToArray(list, item)) { // no memory for the list
        cJSON_Delete(item);
    }
}

static void add_figures(cJSON *object, const figures *f, const void *profile)
{
    for (int i = 0; i < f->count; i++) {
        cJSON_AddNumberToObject(object, f->name[i], rounded(((const double *)profile)[i]));
    }
}

static void add_list(cJSON *object, const char *name, const double *values, int count)
{
    cJSON *list = cJSON_AddArrayToObject(object, name);
    for (int i = 0; i < count; i++) {
        add_number(list, rounded(values[i]));
    }
}

static void add_store(cJSON *object, const char *name, const gx_store_rates *rates)
{
    cJSON *lists = cJSON_AddObjectToObject(object, name);
    add_list(lists, "write", rates->write_bytes_per_s, GX_STORE_SIZES);
    add_list(lists, "commit", rates->commit_bytes_per_s, GX_STORE_SIZES);
}

/* Sizes, products by dtype and size, and the other rates: what both kinds of objects have. */
static void add_rates(cJSON *object, const int64_t *size, const double *gemm, const double *rates,
                      int sizes)
{
    cJSON *list = cJSON_AddArrayToObject(object, "gemm_size");
    for (int i = 0; i < sizes; i++) {
        add_number(list, (double)size[i]);
    }
    cJSON *lists = cJSON_AddObjectToObject(object, "gemm_flops_per_s");
    for (int dtype = 0; dtype < GX_FLOATS; dtype++) {
        add_list(lists, gx_number_name((gx_number)dtype), gemm + dtype * sizes, sizes);
    }
    lists = cJSON_AddObjectToObject(object, "f64_flops_per_s");
    for (int rate = 0; rate < GX_RATE_COUNT; rate++) {
        add_list(lists, gx_rate_name((gx_rate)rate), rates + rate * sizes, sizes);
    }
}

/* One machine's object; NULL without memory. */
static cJSON *compose_machine(const gx_profile *profile)
{
    cJSON *machine = cJSON_CreateObject();
    cJSON_AddNumberToObject(machine, "threads", profile->threads);
    add_figures(machine, &of_machine, profile);
    add_list(machine, "store_bytes", profile->store_bytes, GX_STORE_SIZES);
    add_store(machine, "store_new", &profile->store_new);
    add_store(machine, "store_again", &profile->store_again);
    add_rates(machine, profile->gemm_size, profile->gemm_flops_per_s[0],
              profile->rate_flops_per_s[0], GX_PROFILE_SIZES);
    return machine;
}

static cJSON *compose_device(const gx_device_profile *device)
{
    cJSON *object = cJSON_CreateObject();
    add_figures(object, &of_device, device);
    add_rates(object, device->gemm_size, device->gemm_flops_per_s[0], device->rate_flops_per_s[0],
              GX_DEVICE_SIZES);
    return object;
}

/* Owns object. */
static bool print(cJSON *object, char *text, size_t bytes)
{
    bool is_printed =
        cJSON_PrintPreallocated(object, text, (int)gx_min((int64_t)bytes, INT_MAX), 0);
    cJSON_Delete(object);
    return is_printed;
}

bool gx_profile_print_device(const gx_device_profile *device, char *text, size_t bytes)
{
    return print(compose_device(device), text, bytes);
}

bool gx_profile_print(const gx_profile *profile, const char *name, const gx_device_profile *device,
                      char *text, size_t bytes)
{
    cJSON *machine = compose_machine(profile);
    cJSON_AddBoolToObject(machine, "measured", profile->is_measured);
    if (device != NULL) {
        cJSON *object = compose_device(device);
        cJSON_AddStringToObject(object, "name", name);
        if (!cJSON_AddItemToObject(machine, "device", object)) {
            cJSON_Delete(object);
        }
    }
    return print(machine, text, bytes);
}

/* Put object into a section of the file under a key, in place of what is there.  Owns object. */
static void save(gx_ctx *ctx, const char *section, const char *key, cJSON *object)
{
    char path[PATH_MAX];
    if (!gx_profile_path(path, sizeof path)) {
        gx_stats_tell(&ctx->stats, &about_file,
                      "hardware profile not written: neither XDG_CACHE_HOME nor HOME is set");
        cJSON_Delete(object);
        return;
    }
    cJSON *root = load(ctx);
    if (root == NULL) {
        root = cJSON_CreateObject();
        cJSON_AddNumberToObject(root, "format", FORMAT);
        cJSON_AddObjectToObject(root, "machines");
    }
    cJSON *entries = cJSON_GetObjectItemCaseSensitive(root, section);
    if (!cJSON_IsObject(entries)) {
        cJSON_DeleteItemFromObjectCaseSensitive(root, section);
        entries = cJSON_AddObjectToObject(root, section);
    }
    cJSON_DeleteItemFromObjectCaseSensitive(entries, key);
    while (cJSON_GetArraySize(entries) >= MACHINES_MOST) {
        cJSON_DeleteItemFromArray(entries, 0);
    }
    bool is_added = cJSON_AddItemToObject(entries, key, object);
    if (!is_added) {
        cJSON_Delete(object);
    }
    char *text = is_added ? cJSON_Print(root) : NULL;
    if (text == NULL) {
        gx_stats_tell(&ctx->stats, &about_file, "hardware profile not written: out of memory");
    } else {
        write_file(ctx, path, text);
    }
    cJSON_free(text);
    cJSON_Delete(root);
}

// Devices -----------------------------------------------------------------------------------------

static bool parse_device(const cJSON *object, gx_device_profile *device)
{
    bool is_sound = true;
    memcpy(device, of_device.usual, (size_t)of_device.count * sizeof(double));
    parse_figures(&of_device, object, device, &is_sound);
    bool has_rates = parse_rates(object, device->gemm_size, device->gemm_flops_per_s[0],
                                 device->rate_flops_per_s[0], GX_DEVICE_SIZES, &is_sound);
    return has_rates && is_sound;
}

/* The device of any machine begins with the machine's key. */
static void device_key(const gx_ctx *ctx, const gx_dev_info *info, char key[2 * KEY_BYTES])
{
    char machine[KEY_BYTES];
    machine_key(ctx, machine);
    snprintf(key, 2 * KEY_BYTES, "%s; %s; %s", machine, info->name, info->driver);
}

static void name_device(const gx_dev_info *info, char name[96])
{
    snprintf(name, 96, "%.50s; %.40s", info->name, info->driver);
}

bool gx_profile_device(gx_ctx *ctx, const gx_dev_info *info, gx_device_profile *profile)
{
    char name[96];
    name_device(info, name);
    if (strcmp(ctx->device_name, name) == 0) {
        *profile = ctx->device_profile;
        return true;
    }
    cJSON *root = ctx->config.number[GX_SET_PROFILE] ? load(ctx) : NULL;
    char key[2 * KEY_BYTES];
    device_key(ctx, info, key);
    const cJSON *devices = cJSON_GetObjectItemCaseSensitive(root, "devices");
    gx_device_profile saved;
    bool is_found = parse_device(cJSON_GetObjectItemCaseSensitive(devices, key), &saved);
    if (is_found) {
        *profile = saved;
    }
    cJSON_Delete(root);
    return is_found;
}

void gx_profile_guess_device(gx_device_profile *device)
{
    double *rates = device->gemm_flops_per_s[0];
    *device = (gx_device_profile){.gemm_size = {0}};
    memcpy(device, of_device.usual, (size_t)of_device.count * sizeof(double));
    for (int i = 0; i < GX_FLOATS * GX_DEVICE_SIZES; i++) {
        rates[i] = INFINITY;
    }
    device->sweep_bytes_per_s = INFINITY;
}

bool gx_profile_saved_device(gx_ctx *ctx, gx_device_profile *profile)
{
    if (ctx->device_name[0] != '\0') {
        *profile = ctx->device_profile;
        return true;
    }
    int64_t now_ns = gx_now_ns();
    if (!ctx->has_saved_device && (ctx->sought_ns == 0 || now_ns - ctx->sought_ns > AGAIN_NS)) {
        ctx->sought_ns = now_ns;
        cJSON *root = ctx->config.number[GX_SET_PROFILE] ? load(ctx) : NULL;
        char key[KEY_BYTES];
        machine_key(ctx, key);
        const cJSON *devices = cJSON_GetObjectItemCaseSensitive(root, "devices"), *device;
        cJSON_ArrayForEach(device, devices)
        {
            if (strncmp(device->string, key, strlen(key)) == 0 &&
                parse_device(device, &ctx->saved_device)) {
                ctx->has_saved_device = true;
                break;
            }
        }
        cJSON_Delete(root);
    }
    if (ctx->has_saved_device) {
        *profile = ctx->saved_device;
    } else {
        gx_profile_guess_device(profile);
    }
    return ctx->has_saved_device;
}

static bool may_write(const gx_ctx *ctx)
{
    return ctx->config.number[GX_SET_PROFILE] != 0 && ctx->config.number[GX_SET_FILES] != 0;
}

void gx_profile_keep_device(gx_ctx *ctx, const gx_dev_info *info, const gx_device_profile *profile)
{
    char key[2 * KEY_BYTES];
    ctx->device_profile = *profile;
    name_device(info, ctx->device_name);
    if (may_write(ctx)) {
        device_key(ctx, info, key);
        save(ctx, "devices", key, compose_device(profile));
    }
}

// The connection's profile ------------------------------------------------------------------------

const gx_profile *gx_profile_get(gx_ctx *ctx)
{
    if (ctx->is_profile_loaded) {
        return &ctx->profile;
    }
    ctx->is_profile_loaded = true;
    gx_profile_built_in(&ctx->profile);
    cJSON *root = ctx->config.number[GX_SET_PROFILE] ? load(ctx) : NULL;
    char key[KEY_BYTES];
    machine_key(ctx, key);
    const cJSON *machines = cJSON_GetObjectItemCaseSensitive(root, "machines");
    const cJSON *machine = cJSON_GetObjectItemCaseSensitive(machines, key);
    gx_profile saved;
    if (machine != NULL && parse_machine(machine, &saved)) {
        ctx->profile = saved;
    } else if (machine != NULL) {
        gx_stats_tell(&ctx->stats, &about_file,
                      "hardware profile not read: a figure is missing or not positive");
    }
    cJSON_Delete(root);
    return &ctx->profile;
}

void gx_profile_keep(gx_ctx *ctx, const gx_profile *profile)
{
    ctx->profile = *profile;
    ctx->is_profile_loaded = true;
    if (may_write(ctx)) {
        char key[KEY_BYTES];
        machine_key(ctx, key);
        save(ctx, "machines", key, compose_machine(profile));
    }
}
