/*
** The VFS "gx": SQLite's own for files, "unix", and one thing more: whoever reads tiles past
** SQLite's pages (store_chain.c) gets the descriptor of the database's file, and is told where
** SQLite reads.  It writes nothing: every call is handed on to "unix" as it is, and so a file of
** this VFS is a file of "unix".  The connections that helpers open are over it, whatever VFS of
** the two the application's is over; an application may name it, and gains nothing by that.
**
** The descriptor is SQLite's: one of our own would, when it is closed, give up every lock that the
** process has on the file.  It is the fourth field of SQLite's unixFile, as it has been since 3.6.
** Nothing is taken on trust: the fields before it have to be what they should, and the number a
** descriptor for reading of the very file that was opened; else nobody gets it, and SQLite reads.
**
** Whether a log is read is told, too: a transaction that begins when all of the log is in the file
** takes the lock WAL_READ_LOCK(0) of the log's index ("read-locks" in SQLite's code), reads nothing
** of the log then, and keeps everybody from writing it back into the file.
**
** The methods call nothing of SQLite's but the VFS below.
*/
#include <sqlite3ext.h>

#include "vfs_int.h"

#include "store.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

SQLITE_EXTENSION_INIT3

typedef struct watched_file {
    sqlite3_file base;
    int descriptor;     /* SQLite's, of real; -1: not known               */
    bool skips_log;     /* see gx_watch ...                               */
    bool has_odd_index; /* ... but not where SQLite builds one for itself */
    gx_watch *watch;    /* or NULL; the caller's                          */
    sqlite3_file *real; /* behind this struct                             */
} watched_file;

/* How SQLite's unixFile begins. */
typedef struct unix_file {
    const sqlite3_io_methods *methods;
    sqlite3_vfs *vfs;
    void *inode;
    int descriptor;
} unix_file;

const char gx_watch_key = 0;

static const char NAME[] = "gx";

/* A library has it for ever: it is in its list.  A process seldom has two (see ext/gx.c). */
enum { LIBRARIES = 4 };
typedef struct vfs_over {
    sqlite3_vfs base;
    sqlite3_vfs *below; /* the library's "unix" */
} vfs_over;
static vfs_over over[LIBRARIES];

static watched_file *of(sqlite3_file *file)
{
    return (watched_file *)file;
}

// The methods of a file ---------------------------------------------------------------------------

#define HANDED_ON(file, call) return of(file)->real->pMethods->call

static int close_file(sqlite3_file *file)
{
    HANDED_ON(file, xClose(of(file)->real));
}

static int read_file(sqlite3_file *file, void *into, int bytes, sqlite3_int64 at)
{
    if (of(file)->watch != NULL) {
        of(file)->watch->at = at;
    }
    HANDED_ON(file, xRead(of(file)->real, into, bytes, at));
}

static int write_file(sqlite3_file *file, const void *from, int bytes, sqlite3_int64 at)
{
    HANDED_ON(file, xWrite(of(file)->real, from, bytes, at));
}

static int truncate_file(sqlite3_file *file, sqlite3_int64 size)
{
    HANDED_ON(file, xTruncate(of(file)->real, size));
}

static int sync_file(sqlite3_file *file, int flags)
{
    HANDED_ON(file, xSync(of(file)->real, flags));
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    HANDED_ON(file, xFileSize(of(file)->real, size));
}

static int lock_file(sqlite3_file *file, int lock)
{
    HANDED_ON(file, xLock(of(file)->real, lock));
}

static int unlock_file(sqlite3_file *file, int lock)
{
    HANDED_ON(file, xUnlock(of(file)->real, lock));
}

static int check_reserved(sqlite3_file *file, int *is_reserved)
{
    HANDED_ON(file, xCheckReservedLock(of(file)->real, is_reserved));
}

static int watch_file(watched_file *f, gx_watch *watch)
{
    if (f->descriptor < 0 || (watch != NULL && watch->key != &gx_watch_key)) {
        return SQLITE_NOTFOUND;
    }
    f->watch = watch;
    if (watch != NULL) {
        watch->descriptor = f->descriptor;
        watch->at = -1;
        watch->skips_log = f->skips_log && !f->has_odd_index;
    }
    return SQLITE_OK;
}

static int control_file(sqlite3_file *file, int what, void *arg)
{
    if (what == GX_FCNTL_WATCH) {
        return watch_file(of(file), arg);
    }
    HANDED_ON(file, xFileControl(of(file)->real, what, arg));
}

static int sector_size(sqlite3_file *file)
{
    HANDED_ON(file, xSectorSize(of(file)->real));
}

static int characteristics(sqlite3_file *file)
{
    HANDED_ON(file, xDeviceCharacteristics(of(file)->real));
}

static int map_shared(sqlite3_file *file, int page, int bytes, int extend, void volatile **at)
{
    int rc = of(file)->real->pMethods->xShmMap(of(file)->real, page, bytes, extend, at);
    of(file)->has_odd_index |= rc != SQLITE_OK;
    return rc;
}

static int lock_shared(sqlite3_file *file, int offset, int count, int flags)
{
    const int NO_LOG = 3; // WAL_READ_LOCK(0)
    int rc = of(file)->real->pMethods->xShmLock(of(file)->real, offset, count, flags);
    if (offset <= NO_LOG && NO_LOG < offset + count && rc == SQLITE_OK) {
        of(file)->skips_log = flags == (SQLITE_SHM_LOCK | SQLITE_SHM_SHARED);
    }
    return rc;
}

static void order_shared(sqlite3_file *file)
{
    of(file)->real->pMethods->xShmBarrier(of(file)->real);
}

static int unmap_shared(sqlite3_file *file, int is_deleted)
{
    HANDED_ON(file, xShmUnmap(of(file)->real, is_deleted));
}

static int fetch_page(sqlite3_file *file, sqlite3_int64 at, int bytes, void **page)
{
    HANDED_ON(file, xFetch(of(file)->real, at, bytes, page));
}

static int unfetch_page(sqlite3_file *file, sqlite3_int64 at, void *page)
{
    HANDED_ON(file, xUnfetch(of(file)->real, at, page));
}

static const sqlite3_io_methods methods = {
    .iVersion = 3,
    .xClose = close_file,
    .xRead = read_file,
    .xWrite = write_file,
    .xTruncate = truncate_file,
    .xSync = sync_file,
    .xFileSize = file_size,
    .xLock = lock_file,
    .xUnlock = unlock_file,
    .xCheckReservedLock = check_reserved,
    .xFileControl = control_file,
    .xSectorSize = sector_size,
    .xDeviceCharacteristics = characteristics,
    .xShmMap = map_shared,
    .xShmLock = lock_shared,
    .xShmBarrier = order_shared,
    .xShmUnmap = unmap_shared,
    .xFetch = fetch_page,
    .xUnfetch = unfetch_page,
};

// Opening -----------------------------------------------------------------------------------------

static void find_descriptor(watched_file *f, const sqlite3_vfs *unix_vfs, const char *path)
{
    const sqlite3_file *real = f->real;
    unix_file begins;
    struct stat there, about;
    memcpy(&begins, real, sizeof begins);
    bool is_it = begins.methods == real->pMethods && begins.vfs == unix_vfs &&
                 begins.descriptor > 2 && stat(path, &there) == 0 &&
                 fstat(begins.descriptor, &about) == 0 && there.st_dev == about.st_dev &&
                 there.st_ino == about.st_ino;
    int flags = is_it ? fcntl(begins.descriptor, F_GETFL) : -1;
    bool may_read = flags != -1 && (flags & O_ACCMODE) != O_WRONLY;
    f->descriptor = may_read ? begins.descriptor : -1;
}

/* A database's file; what is opened beside it is "unix"'s alone. */
static int open_file(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *out)
{
    sqlite3_vfs *unix_vfs = ((vfs_over *)vfs)->below;
    if ((flags & SQLITE_OPEN_MAIN_DB) == 0 || path == NULL) {
        return unix_vfs->xOpen(unix_vfs, path, file, flags, out);
    }
    watched_file *f = of(file);
    *f = (watched_file){.descriptor = -1, .real = (sqlite3_file *)(f + 1)};
    int rc = unix_vfs->xOpen(unix_vfs, path, f->real, flags, out);
    if (rc == SQLITE_OK && f->real->pMethods->iVersion >= methods.iVersion) {
        find_descriptor(f, unix_vfs, path);
        f->base.pMethods = &methods;
    } else if (rc == SQLITE_OK) { // an SQLite without some of its methods: no VFS for us
        (void)f->real->pMethods->xClose(f->real);
        rc = SQLITE_CANTOPEN;
    }
    return rc;
}

void gx_vfs_register(void)
{
    sqlite3_vfs *below = sqlite3_vfs_find("unix");
    int k = 0;
    while (k < LIBRARIES && over[k].below != NULL) {
        k++;
    }
    if (below == NULL || sqlite3_vfs_find(NAME) != NULL || k == LIBRARIES ||
        below->szOsFile < (int)sizeof(unix_file)) {
        return;
    }
    sqlite3_vfs *ours = &over[k].base;
    over[k].below = below;
    *ours = *below;
    ours->pNext = NULL;
    ours->zName = NAME;
    ours->szOsFile = below->szOsFile + (int)sizeof(watched_file);
    ours->xOpen = open_file;
    (void)sqlite3_vfs_register(ours, 0);
}

bool gx_vfs_is_plain(const sqlite3_vfs *vfs)
{
    return vfs != NULL && (strcmp(vfs->zName, "unix") == 0 || vfs->xOpen == open_file);
}

const char *gx_vfs_over(const sqlite3_vfs *vfs)
{
    const sqlite3_vfs *ours = sqlite3_vfs_find(NAME);
    bool is_ours = ours != NULL && vfs != NULL && ours->xOpen == open_file;
    return is_ours && (ours == vfs || ((const vfs_over *)ours)->below == vfs) ? NAME : NULL;
}
