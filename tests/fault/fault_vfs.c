/*
** The n-th call to the file system fails: a shim over gx's VFS, which is over SQLite's, so that
** helpers read tiles straight from the file here, too.
**
** Each file of the shim is its own header followed by the file below it.  While armed, every
** xRead, xWrite, xTruncate, xSync, xFileSize, xLock, xShmMap, xShmLock, xOpen, xDelete and
** xAccess is an event; the n-th answers with the error that belongs to it.  Five kinds: the n-th
** alone ("io"), the n-th and all later ones ("io-all"), the n-th lock and all later ones answer
** SQLITE_BUSY ("busy"), the n-th write and all later ones answer SQLITE_FULL ("full"), or those to
** one volume, which is on a disk of its own ("full-volume").
** Unlocking and closing never fail, as SQLite does not look. Threads: any; counters are atomic.
*/
#include "fault.h"

#include "../../core/store/store.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

typedef enum scope { ALL_CALLS, LOCKS, WRITES, VOLUME_WRITES } scope;

static sqlite3_vfs *below; /* the VFS "gx"; set once by fault_vfs_install() */

static _Atomic int64_t events;
static _Atomic int64_t first, last; /* events that fail; first 0 = not armed */
static _Atomic int counted;         /* scope                                 */

typedef struct shim_file {
    sqlite3_file base;  /* must be first */
    sqlite3_file *real; /* follows       */
    bool is_volume;     /* the second one */
} shim_file;

/* SQLITE_OK, or what this call answers instead of doing its work. */
static int fail(scope what, int rc)
{
    int64_t from = atomic_load(&first);
    scope watched = (scope)atomic_load(&counted);
    bool is_write = what == WRITES || what == VOLUME_WRITES;
    bool is_watched = watched == ALL_CALLS || watched == what || (watched == WRITES && is_write);
    if (from == 0 || !is_watched) {
        return SQLITE_OK;
    }
    int64_t number = atomic_fetch_add(&events, 1) + 1;
    if (number < from || number > atomic_load(&last)) {
        return SQLITE_OK;
    }
    return watched == LOCKS ? SQLITE_BUSY : watched != ALL_CALLS ? SQLITE_FULL : rc;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((shim_file *)file)->real;
}

static int shim_close(sqlite3_file *file)
{
    sqlite3_file *real = real_of(file);
    return real->pMethods != NULL ? real->pMethods->xClose(real) : SQLITE_OK;
}

static int shim_read(sqlite3_file *file, void *data, int bytes, sqlite3_int64 offset)
{
    int rc = fail(ALL_CALLS, SQLITE_IOERR_READ);
    return rc != SQLITE_OK ? rc
                           : real_of(file)->pMethods->xRead(real_of(file), data, bytes, offset);
}

static int shim_write(sqlite3_file *file, const void *data, int bytes, sqlite3_int64 offset)
{
    bool is_volume = ((shim_file *)file)->is_volume;
    int rc = fail(is_volume ? VOLUME_WRITES : WRITES, SQLITE_IOERR_WRITE);
    return rc != SQLITE_OK ? rc
                           : real_of(file)->pMethods->xWrite(real_of(file), data, bytes, offset);
}

static int shim_truncate(sqlite3_file *file, sqlite3_int64 bytes)
{
    int rc = fail(ALL_CALLS, SQLITE_IOERR_TRUNCATE);
    return rc != SQLITE_OK ? rc : real_of(file)->pMethods->xTruncate(real_of(file), bytes);
}

/* The machine does not crash here, so nothing need reach the disk: the failure is what matters. */
static int shim_sync(sqlite3_file *file, int flags)
{
    (void)file;
    (void)flags;
    return fail(ALL_CALLS, SQLITE_IOERR_FSYNC);
}

static int shim_size(sqlite3_file *file, sqlite3_int64 *bytes)
{
    int rc = fail(ALL_CALLS, SQLITE_IOERR_FSTAT);
    return rc != SQLITE_OK ? rc : real_of(file)->pMethods->xFileSize(real_of(file), bytes);
}

static int shim_lock(sqlite3_file *file, int level)
{
    int rc = fail(LOCKS, SQLITE_IOERR_LOCK);
    return rc != SQLITE_OK ? rc : real_of(file)->pMethods->xLock(real_of(file), level);
}

static int shim_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int shim_check_reserved(sqlite3_file *file, int *is_reserved)
{
    int rc = fail(ALL_CALLS, SQLITE_IOERR_CHECKRESERVEDLOCK);
    return rc != SQLITE_OK
               ? rc
               : real_of(file)->pMethods->xCheckReservedLock(real_of(file), is_reserved);
}

static int shim_control(sqlite3_file *file, int op, void *arg)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), op, arg);
}

static int shim_sector(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int shim_traits(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int shim_shm_map(sqlite3_file *file, int page, int bytes, int extend, void volatile **out)
{
    int rc = fail(ALL_CALLS, SQLITE_IOERR_SHMMAP);
    if (rc != SQLITE_OK) {
        *out = NULL;
        return rc;
    }
    return real_of(file)->pMethods->xShmMap(real_of(file), page, bytes, extend, out);
}

static int shim_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    int rc = (flags & SQLITE_SHM_LOCK) != 0 ? fail(LOCKS, SQLITE_IOERR_SHMLOCK) : SQLITE_OK;
    return rc != SQLITE_OK ? rc
                           : real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
}

static void shim_shm_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int shim_shm_unmap(sqlite3_file *file, int is_delete)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), is_delete);
}

/* Version 2: no xFetch, so every page read is an xRead that can fail. */
static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = shim_close,
    .xRead = shim_read,
    .xWrite = shim_write,
    .xTruncate = shim_truncate,
    .xSync = shim_sync,
    .xFileSize = shim_size,
    .xLock = shim_lock,
    .xUnlock = shim_unlock,
    .xCheckReservedLock = shim_check_reserved,
    .xFileControl = shim_control,
    .xSectorSize = shim_sector,
    .xDeviceCharacteristics = shim_traits,
    .xShmMap = shim_shm_map,
    .xShmLock = shim_shm_lock,
    .xShmBarrier = shim_shm_barrier,
    .xShmUnmap = shim_shm_unmap,
};

static int shim_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *out)
{
    (void)vfs;
    shim_file *shim = (shim_file *)file;
    shim->base.pMethods = NULL;
    shim->real = (sqlite3_file *)(void *)(shim + 1);
    size_t length = path == NULL ? 0 : strlen(path);
    shim->is_volume = length > 4 && strcmp(path + length - 4, "-gx2") == 0;
    int rc = fail(ALL_CALLS, SQLITE_CANTOPEN);
    if (rc == SQLITE_OK) {
        rc = below->xOpen(below, path, shim->real, flags, out);
    }
    if (rc == SQLITE_OK) {
        shim->base.pMethods = &methods;
    }
    return rc;
}

static int shim_delete(sqlite3_vfs *vfs, const char *path, int is_dir_synced)
{
    (void)vfs;
    (void)is_dir_synced;
    int rc = fail(ALL_CALLS, SQLITE_IOERR_DELETE);
    return rc != SQLITE_OK ? rc : below->xDelete(below, path, 0);
}

static int shim_access(sqlite3_vfs *vfs, const char *path, int flags, int *out)
{
    (void)vfs;
    int rc = fail(ALL_CALLS, SQLITE_IOERR_ACCESS);
    return rc != SQLITE_OK ? rc : below->xAccess(below, path, flags, out);
}

int fault_vfs_install(void)
{
    static sqlite3_vfs shim; // a copy of the VFS below, so that everything else passes through
    gx_vfs_register();
    below = sqlite3_vfs_find("gx");
    if (below == NULL) {
        return SQLITE_ERROR;
    }
    shim = *below;
    shim.pNext = NULL;
    shim.zName = "fault";
    shim.szOsFile = (int)sizeof(shim_file) + below->szOsFile;
    shim.xOpen = shim_open;
    shim.xDelete = shim_delete;
    shim.xAccess = shim_access;
    return sqlite3_vfs_register(&shim, 1);
}

static void arm(scope what, int64_t from, int64_t to)
{
    atomic_store(&events, 0);
    atomic_store(&counted, (int)what);
    atomic_store(&last, to);
    atomic_store(&first, from);
}

static void arm_once(sqlite3 *db, int64_t n)
{
    (void)db;
    arm(ALL_CALLS, n, n);
}

static void arm_all(sqlite3 *db, int64_t n)
{
    (void)db;
    arm(ALL_CALLS, n, INT64_MAX);
}

static void arm_busy(sqlite3 *db, int64_t n)
{
    (void)db;
    arm(LOCKS, n, n);
}

static void arm_full(sqlite3 *db, int64_t n)
{
    (void)db;
    arm(WRITES, n, INT64_MAX);
}

static void arm_full_volume(sqlite3 *db, int64_t n)
{
    (void)db;
    arm(VOLUME_WRITES, n, INT64_MAX);
}

static int64_t disarm(sqlite3 *db)
{
    (void)db;
    atomic_store(&first, 0);
    return atomic_load(&events);
}

/*
** SQLite turns an unreadable or unopenable journal into CANTOPEN, a failing shared memory into
** PROTOCOL.
*/
static bool is_io(int rc)
{
    int code = rc & 0xff;
    return code == SQLITE_IOERR || code == SQLITE_CANTOPEN || code == SQLITE_FULL ||
           code == SQLITE_BUSY || code == SQLITE_PROTOCOL;
}

static bool is_busy(int rc)
{
    int code = rc & 0xff;
    return code == SQLITE_BUSY || code == SQLITE_PROTOCOL;
}

static bool is_full(int rc)
{
    return (rc & 0xff) == SQLITE_FULL;
}

const fault_kind fault_io_once = {"io", arm_once, disarm, is_io, false};
const fault_kind fault_io_all = {"io-all", arm_all, disarm, is_io, false};
const fault_kind fault_io_busy = {"busy", arm_busy, disarm, is_busy, false};
const fault_kind fault_io_full = {"full", arm_full, disarm, is_full, false};
const fault_kind fault_io_full_volume = {"full-volume", arm_full_volume, disarm, is_full, false};
