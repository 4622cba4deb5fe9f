/*
** The VFS "gx": SQLite's own for files, "unix", and one thing more: elements of a tile go from
** where they are into the file (store_lay.c), many pages in one call.
**
** SQLite writes a page at a time, out of its cache, into which it has copied the element from a
** record, into which it has copied it before.  In a file of this VFS a tile is inserted as zeros,
** which costs no record, and where SQLite writes a page of the tile's chain, the page's pointer to
** the next one and the elements that belong there are written in its place, together with those of
** its neighbours.  When and in which order pages may be written stays SQLite's: nothing is written
** before it asks for it, and everything before it reads it, cuts or syncs the file.  Where elements
** come in pieces, the pages wait for them; if SQLite wants one of them before, all that wait are
** written as it has them.  Journals, rollback and recovery are what they were.
**
** A page is replaced only where it is what is expected: zeros, wherever it is looked at, behind a
** pointer to the following page, the last one's being 0.  Any other goes through as it is, and
** marks the layout as odd; then who laid it out writes the tile again through SQLite.
**
** The descriptor is SQLite's: one of our own would, when it is closed, give up every lock that the
** process has on the file.  It is the fourth field of SQLite's unixFile, as it has been since 3.6.
** Nothing is taken on trust: the fields before it have to be what they should, and the number a
** descriptor (to lay tiles: for reading and writing) of the very file that was opened; else files
** of this VFS are those of "unix".
**
** Whoever reads tiles past SQLite's pages (store_chain.c) gets the descriptor, and is told where
** SQLite reads.  And whether a log is read: a transaction that begins when all of the log is in the
** file takes the lock WAL_READ_LOCK(0) of the log's index ("read-locks" in SQLite's code), reads
** nothing of the log then, and keeps everybody from writing it back into the file.
**
** Everything else is handed on.  The methods call nothing of SQLite's but the VFS below.
*/
#include <sqlite3ext.h>

#include "lay_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

SQLITE_EXTENSION_INIT3

typedef struct laid_file {
    sqlite3_file base;
    int descriptor;     /* SQLite's, of real; -1: not known                */
    bool may_write;     /* with it                                         */
    bool skips_log;     /* see gx_watch ...                                */
    bool has_odd_index; /* ... but not where SQLite builds one for itself  */
    gx_lay *lay;        /* or NULL; the caller's                           */
    gx_watch *watch;    /* the same                                        */
    sqlite3_file *real; /* behind this struct                              */
} laid_file;

/* How SQLite's unixFile begins. */
typedef struct unix_file {
    const sqlite3_io_methods *methods;
    sqlite3_vfs *vfs;
    void *inode;
    int descriptor;
} unix_file;

const char gx_lay_key = 0;

/* A library has it for ever: it is in its list.  A process seldom has two (see ext/gx.c). */
enum { LIBRARIES = 4 };
typedef struct vfs_over {
    sqlite3_vfs base;
    sqlite3_vfs *below; /* the library's "unix" */
} vfs_over;
static vfs_over over[LIBRARIES];

static laid_file *of(sqlite3_file *file)
{
    return (laid_file *)file;
}

// Pages that elements take the place of -----------------------------------------------------------

static size_t page_elements(const gx_lay *lay, int64_t k)
{
    size_t each = lay->page_bytes - GX_LAY_POINTER;
    return gx_min(each, lay->bytes - (size_t)k * each);
}

static uint32_t next_of(const gx_lay *lay, int64_t k)
{
    return k + 1 < lay->count ? (uint32_t)(lay->first + k + 1) : 0;
}

/* To look at all of the zeros would take a twentieth of the time that there is to be saved. */
static bool is_expected(const gx_lay *lay, int64_t k, const unsigned char *page)
{
    enum { LOOK = 61 }; // bytes from one that is looked at to the next
    uint32_t next = (uint32_t)page[0] << 24 | (uint32_t)page[1] << 16 | (uint32_t)page[2] << 8 |
                    (uint32_t)page[3];
    unsigned other = page[lay->page_bytes - 1];
    size_t end = gx_min(lay->page_bytes, 1 << 12);
    for (size_t at = GX_LAY_POINTER; at < end; at += LOOK) {
        other |= page[at];
    }
    return next == next_of(lay, k) && other == 0;
}

/* All bytes of the vectors, which change. */
static int write_all(int descriptor, struct iovec *part, int parts, off_t at)
{
    while (parts > 0) {
        ssize_t written = pwritev(descriptor, part, parts, at);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            bool is_full = written == 0 || errno == ENOSPC || errno == EDQUOT;
            return is_full ? SQLITE_FULL : SQLITE_IOERR_WRITE;
        }
        at += written;
        parts = gx_parts_left(&part, parts, (size_t)written);
    }
    return SQLITE_OK;
}

static void point(const gx_lay *lay, int64_t k, unsigned char pointer[GX_LAY_POINTER])
{
    uint32_t next = next_of(lay, k);
    for (int b = 0; b < GX_LAY_POINTER; b++) {
        pointer[b] = (unsigned char)(next >> (8 * (GX_LAY_POINTER - 1 - b)));
    }
}

/* So many of the waiting pages, of a piece, whose pointers are filled in: one part. */
static struct iovec image_part(const gx_lay *lay, int64_t pages)
{
    size_t each = lay->page_bytes - GX_LAY_POINTER;
    char *page = lay->image;
    for (int64_t r = 0; r < pages; r++, page += lay->page_bytes) {
        size_t bytes = page_elements(lay, lay->run + r);
        point(lay, lay->run + r, (unsigned char *)page);
        memset(page + GX_LAY_POINTER + bytes, 0, each - bytes);
    }
    return (struct iovec){lay->image, (size_t)(page - lay->image)};
}

typedef unsigned char pointers[GX_LAY_RUN][GX_LAY_POINTER];

/* So many of the waiting pages out of elements behind each other, or zeros: parts by turns. */
static int element_parts(const gx_lay *lay, int64_t pages, pointers pointer, struct iovec *part)
{
    static const char zeros[GX_LAY_PAGE_MAX];
    size_t each = lay->page_bytes - GX_LAY_POINTER;
    int parts = 0;
    for (int64_t r = 0; r < pages; r++) {
        int64_t k = lay->run + r;
        size_t bytes = lay->data != NULL ? page_elements(lay, k) : 0;
        point(lay, k, pointer[r]);
        part[parts++] = (struct iovec){pointer[r], GX_LAY_POINTER};
        if (bytes > 0) {
            part[parts++] = (struct iovec){(void *)(lay->data + (size_t)k * each), bytes};
        }
        if (bytes < each) { // the last page
            part[parts++] = (struct iovec){(void *)zeros, each - bytes};
        }
    }
    return parts;
}

/* The first of the pages that wait, so many, out of these parts. */
static int write_first(laid_file *f, struct iovec *part, int parts, int64_t pages)
{
    gx_lay *lay = f->lay;
    int64_t page = lay->first + lay->run - 1;
    int rc = write_all(f->descriptor, part, parts, page * (off_t)lay->page_bytes);
    lay->run += pages;
    lay->run_pages -= pages;
    return rc;
}

/*
** Write the pages that wait.  The last one of a chain is whole, zero behind its elements.  Whose
** elements are still to come is written as SQLite has it.
*/
static int settle(laid_file *f)
{
    gx_lay *lay = f->lay;
    int rc = SQLITE_OK;
    while (lay != NULL && lay->run_pages > 0) {
        struct iovec part[2 * GX_LAY_RUN + 1];
        pointers pointer;
        int64_t pages = gx_min(lay->run_pages, GX_LAY_RUN);
        int written = write_first(f, part, element_parts(lay, pages, pointer, part), pages);
        lay->written += written == SQLITE_OK && lay->data != NULL ? pages : 0;
        lay->is_odd |= lay->data == NULL;
        rc = rc == SQLITE_OK ? written : rc;
    }
    return rc;
}

/* Does a page of these bytes wait? */
static bool has_waiting(const laid_file *f, sqlite3_int64 at, int bytes)
{
    const gx_lay *lay = f->lay;
    int64_t page = lay == NULL ? 0 : (int64_t)lay->page_bytes;
    return lay != NULL && at < (lay->first - 1 + lay->run + lay->run_pages) * page &&
           at + bytes > (lay->first - 1 + lay->run) * page;
}

/* Of the pages that wait those that a piece has. */
static int write_piece(laid_file *f)
{
    gx_lay *lay = f->lay;
    int64_t pages = gx_min(lay->run_pages, lay->image_pages);
    int rc = SQLITE_OK;
    if (lay->image != NULL && lay->run == lay->image_first && pages > 0) {
        struct iovec part = image_part(lay, pages);
        rc = write_first(f, &part, 1, pages);
        lay->written += rc == SQLITE_OK ? pages : 0;
    }
    lay->image = NULL;
    return rc;
}

/* Page k of the chain: with those before it, where it follows them. */
static int join(laid_file *f, int64_t k)
{
    gx_lay *lay = f->lay;
    bool is_full = lay->data != NULL && lay->run_pages == GX_LAY_RUN;
    if (lay->run_pages > 0 && (lay->run + lay->run_pages != k || is_full)) {
        int rc = settle(f);
        if (rc != SQLITE_OK) {
            return rc;
        }
    }
    lay->run = lay->run_pages == 0 ? k : lay->run;
    lay->run_pages++;
    bool is_last = k == lay->count - 1; // whoever asked for it hears of a failure
    return lay->data != NULL && is_last ? settle(f) : SQLITE_OK;
}

static int write_page(sqlite3_file *file, const void *page, int bytes, sqlite3_int64 at)
{
    laid_file *f = of(file);
    gx_lay *lay = f->lay;
    int64_t k = lay == NULL ? -1 : at / (int64_t)lay->page_bytes - (lay->first - 1);
    if (k >= 0 && k < lay->count) {
        bool is_again = gx_lay_seen(lay, k);
        if (!is_again && (size_t)bytes == lay->page_bytes && at % bytes == 0 &&
            is_expected(lay, k, page)) {
            gx_lay_see(lay, k);
            return join(f, k);
        }
        lay->is_odd = true;
        int rc = settle(f);
        if (rc != SQLITE_OK) {
            return rc;
        }
    }
    return f->real->pMethods->xWrite(f->real, page, bytes, at);
}

// The other methods -------------------------------------------------------------------------------

/* settle() first, then what is handed on. */
#define AFTER_PAGES(file, call)                                                                    \
    laid_file *f = of(file);                                                                       \
    int rc = settle(f);                                                                            \
    return rc != SQLITE_OK ? rc : f->real->pMethods->call

/* The same for bytes of it, where pages of them wait. */
#define BESIDE_PAGES(file, call)                                                                   \
    laid_file *f = of(file);                                                                       \
    int rc = has_waiting(f, at, bytes) ? settle(f) : SQLITE_OK;                                    \
    return rc != SQLITE_OK ? rc : f->real->pMethods->call

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
    BESIDE_PAGES(file, xRead(f->real, into, bytes, at));
}

static int truncate_file(sqlite3_file *file, sqlite3_int64 size)
{
    AFTER_PAGES(file, xTruncate(f->real, size));
}

static int sync_file(sqlite3_file *file, int flags)
{
    AFTER_PAGES(file, xSync(f->real, flags));
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    AFTER_PAGES(file, xFileSize(f->real, size));
}

static int lock_file(sqlite3_file *file, int lock)
{
    HANDED_ON(file, xLock(of(file)->real, lock));
}

static int unlock_file(sqlite3_file *file, int lock)
{
    AFTER_PAGES(file, xUnlock(f->real, lock));
}

static int check_reserved(sqlite3_file *file, int *is_reserved)
{
    HANDED_ON(file, xCheckReservedLock(of(file)->real, is_reserved));
}

static int watch_file(laid_file *f, gx_watch *watch)
{
    if (f->descriptor < 0 || (watch != NULL && watch->key != &gx_lay_key)) {
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
    laid_file *f = of(file);
    gx_lay *lay = arg;
    if (what == GX_FCNTL_WATCH) {
        return watch_file(f, arg);
    }
    if (what != GX_FCNTL_LAY) {
        return f->real->pMethods->xFileControl(f->real, what, arg);
    }
    if (!f->may_write || (lay != NULL && lay->key != &gx_lay_key)) {
        return SQLITE_NOTFOUND;
    }
    if (lay != NULL && lay == f->lay) {
        return write_piece(f);
    }
    int rc = settle(f);
    f->lay = lay;
    return rc;
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
    BESIDE_PAGES(file, xFetch(f->real, at, bytes, page));
}

static int unfetch_page(sqlite3_file *file, sqlite3_int64 at, void *page)
{
    HANDED_ON(file, xUnfetch(of(file)->real, at, page));
}

static const sqlite3_io_methods methods = {
    .iVersion = 3,
    .xClose = close_file,
    .xRead = read_file,
    .xWrite = write_page,
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

static void find_descriptor(laid_file *f, const sqlite3_vfs *unix_vfs, const char *path)
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
    f->may_write = flags != -1 && (flags & (O_ACCMODE | O_APPEND)) == O_RDWR;
    f->descriptor = may_read ? begins.descriptor : -1;
}

/* A database's file; what is opened beside it is "unix"'s alone. */
static int open_file(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *out)
{
    sqlite3_vfs *unix_vfs = ((vfs_over *)vfs)->below;
    if ((flags & SQLITE_OPEN_MAIN_DB) == 0 || path == NULL) {
        return unix_vfs->xOpen(unix_vfs, path, file, flags, out);
    }
    laid_file *f = of(file);
    *f = (laid_file){.descriptor = -1, .real = (sqlite3_file *)(f + 1)};
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
    if (below == NULL || sqlite3_vfs_find(GX_VFS) != NULL || k == LIBRARIES ||
        below->szOsFile < (int)sizeof(unix_file)) {
        return;
    }
    sqlite3_vfs *ours = &over[k].base;
    over[k].below = below;
    *ours = *below;
    ours->pNext = NULL;
    ours->zName = GX_VFS;
    ours->szOsFile = below->szOsFile + (int)sizeof(laid_file);
    ours->xOpen = open_file;
    (void)sqlite3_vfs_register(ours, 0);
}

int gx_lay_drop(gx_store *store, gx_schema *schema)
{
    if (schema->laying == NULL || !schema->laying->is_waiting) {
        return SQLITE_OK;
    }
    schema->laying->is_waiting = false;
    return sqlite3_file_control(store->db, schema->name, GX_FCNTL_LAY, NULL);
}

bool gx_vfs_is_plain(const sqlite3_vfs *vfs)
{
    return vfs != NULL && (strcmp(vfs->zName, "unix") == 0 || vfs->xOpen == open_file);
}

const char *gx_vfs_over(const sqlite3_vfs *vfs)
{
    const sqlite3_vfs *ours = sqlite3_vfs_find(GX_VFS);
    bool is_ours = ours != NULL && vfs != NULL && ours->xOpen == open_file;
    return is_ours && (ours == vfs || ((const vfs_over *)ours)->below == vfs) ? GX_VFS : NULL;
}
