/*
** Regular files: see regular.h.
**
** O_NONBLOCK and O_NOCTTY are for what has taken a path's place between the look and the opening:
** the opening then returns at once, and the second look refuses it.  A regular file does not know
** O_NONBLOCK.
*/
#include "regular.h"

#include <fcntl.h>
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
