/*
** Room on the disk for tiles that are about to be inserted.  See store_int.h.
**
** SQLite writes a tile page by page behind the end of its file, and ext4 books each block of such a
** write for an allocation to come: a quarter of the time that the writes take, 0.08 s a gigabyte.
** Blocks that are allocated it only fills.  So a tile's are allocated first, in one call, and the
** file keeps its size and its bytes.  A transaction that is rolled back cuts the file, and they go.
**
** SQLite's own call for it (SQLITE_FCNTL_CHUNK_SIZE, which then takes hints) writes a byte to each
** block where SQLite was built without HAVE_POSIX_FALLOCATE, as distributions build it.  To close a
** descriptor of our own would give up every lock that the process has on the file.  So it is
** SQLite's, found among the process's by the file that it is of.  While the write lock is held,
** which it is wherever tiles are written, SQLite closes no descriptor of that file, for the same
** reason.  The one found may be the application's own, which it may close: before each use the
** number has to mean the same file still, else another is looked for.
*/
#include <sqlite3ext.h>

#include "lay_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

SQLITE_EXTENSION_INIT3

enum { LEAST_BYTES = 1 << 20 }; /* of a tile that is worth three system calls */

static bool is_of(int fd, const struct stat *file)
{
    struct stat about;
    return fstat(fd, &about) == 0 && about.st_dev == file->st_dev && about.st_ino == file->st_ino;
}

/* The schema's file, where it is one of SQLite's own VFS and of ext4; else NULL. */
static const char *plain_file(gx_store *store, const gx_schema *schema)
{
    struct statfs disk;
    sqlite3_vfs *vfs = NULL;
    const char *path = sqlite3_db_filename(store->db, schema->name);
    (void)sqlite3_file_control(store->db, schema->name, SQLITE_FCNTL_VFS_POINTER, &vfs);
    bool is_plain = path != NULL && path[0] != '\0' && gx_vfs_is_plain(vfs) &&
                    statfs(path, &disk) == 0 &&
                    disk.f_type == EXT4_SUPER_MAGIC && !gx_store_is_wal(store, schema->name);
    return is_plain ? path : NULL;
}

/* A descriptor of a file, which *file tells from others; -1: there is none to be seen. */
static int descriptor_of(const char *path, struct stat *file)
{
    DIR *folder = stat(path, file) == 0 ? opendir("/proc/self/fd") : NULL;
    int found = -1;
    struct dirent *entry;
    while (folder != NULL && found < 0 && (entry = readdir(folder)) != NULL) {
        int fd = (int)strtol(entry->d_name, NULL, 10); // of "." and "..": 0
        if (fd > 2 && is_of(fd, file) && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR) {
            found = fd;
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return found;
}

void gx_store_make_room(gx_store *store, gx_schema *schema, size_t bytes)
{
    struct stat about;
    if (bytes < LEAST_BYTES || schema->descriptor < 0) {
        return;
    }
    if (schema->descriptor == 0 || !is_of(schema->descriptor, &schema->file)) {
        const char *path = plain_file(store, schema);
        schema->descriptor = path != NULL ? descriptor_of(path, &schema->file) : -1;
    }
    if (schema->descriptor > 0 && fstat(schema->descriptor, &about) == 0) {
        int rc;
        do { // where there is no room, or no such call, SQLite's writes will say so, or do without
            rc = fallocate(schema->descriptor, FALLOC_FL_KEEP_SIZE, about.st_size, (off_t)bytes);
        } while (rc != 0 && errno == EINTR);
    }
}
