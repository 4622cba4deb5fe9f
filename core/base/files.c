/*
** Regular files, and files that appear whole: see files.h.
**
** O_NONBLOCK and O_NOCTTY are for what has taken a path's place between the look and the opening:
** the opening then returns at once, and the second look refuses it.  A regular file does not know
** O_NONBLOCK.
**
** renameat2() with RENAME_NOREPLACE looks and renames in one step.  File systems without it get a
** look first, and somebody who makes the file between look and rename loses it.
*/
#include "files.h"

#include "stats.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *oddity_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return NULL;
    case S_IFDIR:
        return "a folder";
    case S_IFIFO:
        return "a FIFO";
    case S_IFSOCK:
        return "a socket";
    case S_IFLNK:
        return "a link";
    default:
        return "a device";
    }
}

const char *gx_file_oddity(const char *path, bool follows_links)
{
    struct stat about;
    int rc = follows_links ? stat(path, &about) : lstat(path, &about);
    return rc == 0 ? oddity_of(about.st_mode) : NULL;
}

int gx_open_regular(const char *path, int flags, struct stat *about, const char **oddity)
{
    *oddity = gx_file_oddity(path, (flags & O_NOFOLLOW) == 0);
    if (*oddity != NULL) {
        return -1;
    }
    int fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return -1;
    }
    bool is_seen = fstat(fd, about) == 0;
    *oddity = is_seen ? oddity_of(about->st_mode) : NULL;
    if (!is_seen || *oddity != NULL) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Bytes of the path's folder, with the slash. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? 0 : (size_t)(slash + 1 - path);
}

size_t gx_newfile_name(const char *path, char *name, size_t bytes)
{
    static uint64_t calls; // of the process: two names asked for in one tick of the clock differ
    uint64_t random = (uint64_t)gx_now_ns() ^ (uint64_t)getpid() << 40 ^ (uint64_t)(uintptr_t)name;
    random += __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    random = random * 6364136223846793005u + 1442695040888963407u;
    int length = snprintf(name, bytes, "%.*s.gx-%016llx.tmp", (int)folder_length(path), path,
                          (unsigned long long)random);
    return length < 0 ? bytes : (size_t)length;
}

bool gx_newfile_publish(const char *name, const char *path, bool overwrite)
{
#if defined(__linux__) && defined(RENAME_NOREPLACE)
    if (!overwrite) {
        if (renameat2(AT_FDCWD, name, AT_FDCWD, path, RENAME_NOREPLACE) == 0) {
            return true;
        }
        if (errno != EINVAL && errno != ENOSYS) {
            return false;
        }
    }
#endif
    struct stat st;
    if (!overwrite && lstat(path, &st) == 0) {
        errno = EEXIST;
        return false;
    }
    return rename(name, path) == 0;
}

void gx_newfile_sync_folder(const char *path)
{
    char folder[PATH_MAX];
    size_t length = folder_length(path);
    const char *from = length == 0 ? "." : path;
    snprintf(folder, sizeof folder, "%.*s", (int)(length == 0 ? 1 : length), from);
    int fd = length < sizeof folder ? open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY) : -1;
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}
