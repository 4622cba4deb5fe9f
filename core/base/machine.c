/*
** The machine: see machine.h.
**
** Linux tells its limits in files of one line or one "key: value" a line.  Version 2 control
** groups form one tree under /sys/fs/cgroup, and every group from the process's own up to the
** root limits it; version 1 has one tree per controller.  In a container the group's path often
** names a place outside what is mounted: then the mount's root is the container's own group, so
** that is looked at as well.
**
** A file is read into a fixed buffer (the lines looked for stand near the top), so nothing here
** allocates.  Nothing is cached: callers ask once per connection.
*/
#include "machine.h"

#include "mem.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { FILE_BYTES = 4096, PATH_BYTES = 600 };

/* Read the start of a file as text; false when there is none. */
static bool read_text(const char *path, char text[FILE_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t got = read(fd, text, FILE_BYTES - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* The value after "key" at the start of a line, up to the end of that line; false when absent. */
static bool find_line(const char *text, const char *key, char *value, size_t bytes)
{
    size_t length = strlen(key);
    for (const char *line = text; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');
        if (strncmp(line, key, length) == 0) {
            const char *from = line + length;
            from += strspn(from, " \t:");
            size_t count = end == NULL ? strlen(from) : (size_t)(end > from ? end - from : 0);
            snprintf(value, bytes, "%.*s", (int)gx_min((int64_t)count, (int64_t)bytes - 1), from);
            return true;
        }
        line = end == NULL ? NULL : end + 1;
    }
    return false;
}

/* The process's group: in version 2 the line "0::/path", in version 1 "4:memory:/path". */
static bool find_group(const char *controller, char *path, size_t bytes)
{
    char text[FILE_BYTES];
    if (!read_text("/proc/self/cgroup", text)) {
        return false;
    }
    for (const char *line = text; line != NULL && *line != '\0';) {
        const char *names = strchr(line, ':');
        const char *group = names == NULL ? NULL : strchr(names + 1, ':');
        const char *end = strchr(line, '\n');
        if (group != NULL && (end == NULL || group < end)) {
            char list[128];
            snprintf(list, sizeof list, ",%.*s,", (int)gx_min(group - names - 1, 100), names + 1);
            char wanted[32];
            snprintf(wanted, sizeof wanted, ",%s,", controller);
            if (strstr(list, wanted) != NULL) {
                size_t count = end == NULL ? strlen(group + 1) : (size_t)(end - group - 1);
                snprintf(path, bytes, "%.*s", (int)gx_min((int64_t)count, 400), group + 1);
                return true;
            }
        }
        line = end == NULL ? NULL : end + 1;
    }
    return false;
}

/* Calls look(arg, text) with the file of each group that limits the process. */
typedef void (*look_fn)(void *arg, const char *text);

static void walk_groups(const char *mount, const char *controller, const char *file, look_fn look,
                        void *arg)
{
    char group[PATH_BYTES];
    if (!find_group(controller, group, sizeof group)) {
        return;
    }
    for (;;) {
        char path[PATH_BYTES * 2], text[FILE_BYTES];
        snprintf(path, sizeof path, "%s%s/%s", mount, strcmp(group, "/") == 0 ? "" : group, file);
        if (read_text(path, text)) {
            look(arg, text);
        }
        char *slash = strrchr(group, '/');
        if (slash == NULL || strcmp(group, "/") == 0) {
            return;
        }
        slash[slash == group ? 1 : 0] = '\0';
    }
}

/* A limit in bytes; "max" (version 2) or a huge number (version 1) is none. */
static void look_memory(void *arg, const char *text)
{
    size_t *limit = arg;
    char *end;
    unsigned long long bytes = strtoull(text, &end, 10);
    if (end != text && bytes > 0 && bytes < *limit) {
        *limit = (size_t)bytes;
    }
}

size_t gx_machine_memory(void)
{
    size_t bytes = gx_mem_physical();
    walk_groups("/sys/fs/cgroup", "", "memory.max", look_memory, &bytes);
    walk_groups("/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes", look_memory, &bytes);
    return bytes;
}

size_t gx_machine_memory_available(void)
{
    size_t bytes = gx_mem_physical_free();
    char text[FILE_BYTES], value[64];
    if (read_text("/proc/meminfo", text) && find_line(text, "MemAvailable", value, sizeof value)) {
        bytes = (size_t)strtoull(value, NULL, 10) * 1024;
    }
    size_t limit = gx_machine_memory();
    return bytes < limit ? bytes : limit;
}

/* "200000 100000": microseconds of processor time per period; "max" and -1 are no limit. */
static void look_quota(void *arg, const char *text)
{
    int64_t *cpus = arg;
    char *end;
    long long quota = strtoll(text, &end, 10);
    long long period = end == text ? 0 : strtoll(end, NULL, 10);
    if (quota > 0 && period > 0 && gx_ceil_div(quota, period) < *cpus) {
        *cpus = gx_ceil_div(quota, period);
    }
}

/*
** Version 1 has quota and period in two files: the quota is kept and joined with the root's
** period.
*/
static void look_quota_v1(void *arg, const char *text)
{
    char period[FILE_BYTES], both[FILE_BYTES];
    if (read_text("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period)) {
        snprintf(both, sizeof both, "%lld %lld", strtoll(text, NULL, 10),
                 strtoll(period, NULL, 10));
        look_quota(arg, both);
    }
}

int gx_machine_cpus(void)
{
    int64_t cpus = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        cpus = CPU_COUNT(&set);
    }
    walk_groups("/sys/fs/cgroup", "", "cpu.max", look_quota, &cpus);
    walk_groups("/sys/fs/cgroup/cpu", "cpu", "cpu.cfs_quota_us", look_quota_v1, &cpus);
    return (int)gx_max(1, gx_min(cpus, INT_MAX));
}

void gx_machine_cpu_name(char *text, size_t bytes)
{
    char file[FILE_BYTES];
    if (read_text("/proc/cpuinfo", file) && find_line(file, "model name", text, bytes)) {
        return;
    }
    struct utsname system;
    snprintf(text, bytes, "%s", uname(&system) == 0 ? system.machine : "unknown");
}
