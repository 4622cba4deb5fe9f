/*
** Volumes: the files of a set.  See volume_int.h.
**
** A file is a header of one block and extents behind it:
**
**     0     "gxvolume"      8 bytes
**     8     version         32 bits, 1, little-endian as all that follow
**     12    count           32 bits, files of the set
**     16    index           32 bits, which of them this is, from 0
**     20    zero            32 bits
**     24    key             64 bits, of the database
**     32    set             64 bits
**     40    id              64 bits, of the volume
**     48    check           64 bits, FNV-1a of the 48 bytes before
**
** and an extent is a stripe of a tile, then zeros up to a multiple of the block, then 16 bytes that
** are written with it: the extent's stamp and the tile's row id.  Whoever reads a stripe of a tile
** for the first time looks at them, so that a volume from another day than its database is noticed.
**
** All through the VFS of the database, as its journal, where the file is beside it: it gets the
** database's permissions, and their folder is synced with it.  A file is read and written by one
** thread at a time: the caller's, or, where whole tiles are written to several, a thread a file
** that waits for the next tile (the caller's has the first file).
**
** Holes are the one thing that a VFS has no call for: they are made through a descriptor of our
** own, where the VFS is SQLite's for Unix, which has each byte where it says, and the file behind
** the path is the one that is open.  Nobody locks a volume, so that closing the descriptor gives up
** no lock of the process's.
**
** Memory: the VFS's handles, from the governor.
*/
#include <sqlite3ext.h>

#include "vfs_int.h"
#include "volume_int.h"

#include "../base/files.h"
#include "../base/thread.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

SQLITE_EXTENSION_INIT3

enum {
    HEADER_BYTES = 56,
    TRAILER_BYTES = 16,
    PIECE_BYTES = 65536 /* SQLite asks a VFS for no more than a page at a time: some rely on it */
};

typedef enum work { WORK_WRITE, WORK_SYNC, WORK_QUIT } work;

typedef struct volume {
    gx_volumes *set;
    int index;
    int64_t id;
    char *path;         /* sqlite3_create_filename(): lives as long as the file is open */
    sqlite3_file *file; /* of mem; NULL until it is open                                */
    bool is_plain;      /* its VFS has the bytes where they are in a file of the system */
    int holes;          /* descriptor for making holes; 0: not opened, -1: it cannot be */
    pthread_t thread;   /* of all but the first, where is_started                       */
    int rc;             /* of the latest work                                           */
    pthread_mutex_t turn; /* of gx_volumes_write_part()                                 */
} volume;

struct gx_volumes {
    gx_mem *mem;
    int64_t set;
    int count;
    volume volume[GX_VOLUMES_MAX];

    bool is_started; /* threads are there                            */
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    uint64_t generation; /* counts what was to be done; with what follows, under the lock */
    int active;          /* threads that have not finished the work         */
    work work;
    const gx_extent_row *extent; /* of WORK_WRITE, with what follows */
    int64_t row;
    size_t tile_bytes;
    const char *data;
};

/* Bytes of one stripe of a tile. */
static int64_t stripe_bytes(size_t tile_bytes, int count)
{
    int64_t part = gx_ceil_div((int64_t)tile_bytes, count);
    return gx_ceil_div(part, GX_VOLUME_BLOCK) * GX_VOLUME_BLOCK;
}

int64_t gx_extent_length(size_t tile_bytes, int count)
{
    return stripe_bytes(tile_bytes, count) + GX_VOLUME_BLOCK;
}

int gx_volumes_count(const gx_volumes *volumes)
{
    return volumes->count;
}

int64_t gx_volumes_set(const gx_volumes *volumes)
{
    return volumes->set;
}

// Paths -------------------------------------------------------------------------------------------

gx_code gx_volume_path(sqlite3 *db, const char *schema, int64_t id, const char *path,
                       char full[GX_VOLUME_PATH_MAX], gx_err *err)
{
    const char *file = sqlite3_db_filename(db, schema);
    if (file == NULL || file[0] == '\0') {
        return gx_fail(err, GX_UNSUPPORTED, "%s has no file: volumes are beside one", schema);
    }
    const char *slash = strrchr(file, '/');
    int folder = slash == NULL || (path != NULL && path[0] == '/') ? 0 : (int)(slash - file) + 1;
    int length = path == NULL ? snprintf(full, GX_VOLUME_PATH_MAX, "%s-gx%lld", file, (long long)id)
                              : snprintf(full, GX_VOLUME_PATH_MAX, "%.*s%s", folder, file, path);
    if (length < 0 || length >= GX_VOLUME_PATH_MAX) {
        return gx_fail(err, GX_ARG, "the path of volume %lld of %s is too long", (long long)id,
                       schema);
    }
    return GX_OK;
}

static sqlite3_vfs *vfs_of(sqlite3 *db, const char *schema)
{
    sqlite3_vfs *vfs = NULL;
    (void)sqlite3_file_control(db, schema, SQLITE_FCNTL_VFS_POINTER, &vfs);
    return vfs != NULL ? vfs : sqlite3_vfs_find(NULL);
}


void gx_volume_remove(sqlite3 *db, const char *schema, const char *path)
{
    sqlite3_vfs *vfs = vfs_of(db, schema);
    (void)vfs->xDelete(vfs, path, 1);
}

// Headers -----------------------------------------------------------------------------------------

static void put(unsigned char *to, int bytes, uint64_t value)
{
    for (int k = 0; k < bytes; k++) {
        to[k] = (unsigned char)(value >> 8 * k);
    }
}

static uint64_t take(const unsigned char *from, int bytes)
{
    uint64_t value = 0;
    for (int k = bytes; k-- > 0;) {
        value = value << 8 | from[k];
    }
    return value;
}

static void write_header(const gx_volume_id *id, unsigned char header[HEADER_BYTES])
{
    memset(header, 0, HEADER_BYTES);
    memcpy(header, "gxvolume", 8);
    put(header + 8, 4, 1);
    put(header + 12, 4, (uint64_t)id->count);
    put(header + 16, 4, (uint64_t)id->index);
    put(header + 24, 8, (uint64_t)id->key);
    put(header + 32, 8, (uint64_t)id->set);
    put(header + 40, 8, (uint64_t)id->id);
    put(header + HEADER_BYTES - 8, 8, gx_store_hash(GX_HASH_SEED, header, HEADER_BYTES - 8));
}

/* Errors of a VFS have no text but the code's. */
static gx_code file_failed(int rc, const char *what, const char *path, gx_err *err)
{
    if (rc == SQLITE_IOERR_SHORT_READ) {
        return gx_fail(err, GX_CORRUPT, "the volume %s is cut short", path);
    }
    return gx_fail(err, gx_store_code(rc), "%s the volume %s: %s", what, path, sqlite3_errstr(rc));
}

static gx_code check_header(volume *v, const gx_volume_id *expected, gx_err *err)
{
    unsigned char header[HEADER_BYTES], wanted[HEADER_BYTES];
    int rc = v->file->pMethods->xRead(v->file, header, HEADER_BYTES, 0);
    if (rc != SQLITE_OK && rc != SQLITE_IOERR_SHORT_READ) {
        return file_failed(rc, "reading", v->path, err);
    }
    write_header(expected, wanted);
    if (rc == SQLITE_OK && memcmp(header, wanted, HEADER_BYTES) == 0) {
        return GX_OK;
    }
    if (rc != SQLITE_OK || memcmp(header, wanted, 8) != 0) {
        return gx_fail(err, GX_CORRUPT, "%s is not a volume of gx", v->path);
    }
    if (take(header + 8, 4) > 1) {
        return gx_fail(err, GX_UNSUPPORTED, "the volume %s was made by a newer gx", v->path);
    }
    if ((int64_t)take(header + 24, 8) != expected->key) {
        return gx_fail(err, GX_CORRUPT, "the volume %s belongs to another database", v->path);
    }
    return gx_fail(err, GX_CORRUPT, "%s is volume %lld, not volume %lld: volumes were exchanged",
                   v->path, (long long)take(header + 40, 8), (long long)expected->id);
}

gx_code gx_volume_exists(sqlite3 *db, const char *schema, const char *path, bool *is_there,
                         gx_err *err)
{
    sqlite3_vfs *vfs = vfs_of(db, schema);
    int answer = 0;
    int rc = vfs->xAccess(vfs, path, SQLITE_ACCESS_EXISTS, &answer);
    *is_there = answer != 0;
    return rc == SQLITE_OK ? GX_OK : file_failed(rc, "looking for", path, err);
}

// Open and close ----------------------------------------------------------------------------------

/* *made: to be closed; its path is kept. */
static gx_code open_file(gx_mem *mem, sqlite3_vfs *vfs, const char *path, int flags, volume *made,
                         gx_err *err)
{
    void *memory;
    made->path = (char *)(uintptr_t)sqlite3_create_filename(path, "", "", 0, NULL);
    if (made->path == NULL) {
        return gx_fail_nomem(err, strlen(path), "path of a volume");
    }
    GX_TRY(gx_mem_calloc(mem, (size_t)vfs->szOsFile, "file of a volume", &memory, err));
    made->file = memory;
    int out = 0;
    made->is_plain = gx_vfs_is_plain(vfs);
    int rc = vfs->xOpen(vfs, made->path, made->file, flags, &out);
    if (rc == SQLITE_OK && (flags & SQLITE_OPEN_READWRITE) != 0 &&
        (out & SQLITE_OPEN_READONLY) != 0) {
        return gx_fail(err, GX_READONLY, "the volume %s may not be written", path);
    }
    return rc == SQLITE_OK ? GX_OK : file_failed(rc, "opening", path, err);
}

static void close_file(gx_mem *mem, volume *v)
{
    if (v->file != NULL && v->file->pMethods != NULL) {
        (void)v->file->pMethods->xClose(v->file);
    }
    gx_mem_free(mem, v->file);
    v->file = NULL;
    if (v->holes > 0) {
        close(v->holes);
        v->holes = 0;
    }
    if (v->path != NULL) {
        sqlite3_free_filename(v->path);
        v->path = NULL;
    }
}

gx_code gx_volume_make(sqlite3 *db, const char *schema, const char *path, const gx_volume_id *id,
                       gx_err *err)
{
    const int FLAGS = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_EXCLUSIVE;
    const char *file = sqlite3_db_filename(db, schema);
    size_t length = strlen(file);
    bool is_beside = strncmp(path, file, length) == 0 && path[length] == '-';
    int type = is_beside ? SQLITE_OPEN_MAIN_JOURNAL : SQLITE_OPEN_SUPER_JOURNAL;
    unsigned char block[GX_VOLUME_BLOCK] = {0};
    volume v = {.file = NULL};
    gx_code code = open_file(NULL, vfs_of(db, schema), path, FLAGS | type, &v, err);
    bool is_made = code == GX_OK;
    if (code == GX_OK) {
        write_header(id, block);
        int rc = v.file->pMethods->xWrite(v.file, block, GX_VOLUME_BLOCK, 0);
        if (rc == SQLITE_OK) {
            rc = v.file->pMethods->xSync(v.file, SQLITE_SYNC_NORMAL);
        }
        code = rc == SQLITE_OK ? GX_OK : file_failed(rc, "writing", path, err);
    }
    close_file(NULL, &v);
    if (is_made && code != GX_OK) {
        gx_volume_remove(db, schema, path);
    }
    return code;
}

/* The set's rows and the database's key; path NULL: beside the database. */
static const char set_sql[] =
    "SELECT id, path, (SELECT value FROM main.gx_state WHERE key = 'volume_key') "
    "FROM main.gx_volumes WHERE set_id = ?1 ORDER BY id";

static gx_code missing(const volume *v, const char *schema, const char *path, gx_err *err)
{
    return gx_fail(err, GX_IO,
                   "volume %lld of %s is missing: there is no %s (volumes move with their database "
                   "and are renamed with it)",
                   (long long)v->id, schema, path);
}

/*
** Before the VFS opens it, which of a FIFO may wait for ever.  A link is a path of somebody's, as
** one in the table is.
*/
static gx_code check_regular(const gx_store *store, int64_t id, const char *schema,
                             const char *full, gx_err *err)
{
    const char *oddity = gx_file_oddity(full, store->volumes_anywhere);
    if (oddity == NULL) {
        return GX_OK;
    }
    bool is_link = strcmp(oddity, "a link") == 0;
    return gx_fail(err, is_link ? GX_AUTH : GX_IO, "volume %lld of %s, %s, is %s, %s",
                   (long long)id, schema, full, oddity,
                   is_link ? "not beside the database: allow that with "
                             "gx_config('volumes_anywhere', 'on')"
                           : "not a regular file");
}

/*
** One row of set_sql.  A path is the database's word, and that may have come from elsewhere: files
** that gx did not name itself are opened where the user has said so.
*/
static gx_code open_volume(const gx_store *store, gx_volumes *set, sqlite3 *db, const char *schema,
                           sqlite3_stmt *stmt, bool is_write, gx_err *err)
{
    char full[GX_VOLUME_PATH_MAX];
    const char *path = (const char *)sqlite3_column_text(stmt, 1);
    if (set->count == GX_VOLUMES_MAX) {
        return gx_fail(err, GX_CORRUPT, "gx_volumes of %s has more than %d volumes in a set",
                       schema, GX_VOLUMES_MAX);
    }
    volume *v = &set->volume[set->count];
    v->set = set;
    v->index = set->count++;
    pthread_mutex_init(&v->turn, NULL);
    v->id = sqlite3_column_int64(stmt, 0);
    GX_TRY(gx_volume_path(db, schema, v->id, path, full, err));
    if (path != NULL && !store->volumes_anywhere) {
        return gx_fail(err, GX_AUTH,
                       "volume %lld of %s is %s, not beside the database: allow that with "
                       "gx_config('volumes_anywhere', 'on')",
                       (long long)v->id, schema, full);
    }
    GX_TRY(check_regular(store, v->id, schema, full, err));
    bool is_there;
    GX_TRY(gx_volume_exists(db, schema, full, &is_there, err));
    if (!is_there) {
        return missing(v, schema, full, err);
    }
    int flags = is_write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
    return open_file(set->mem, vfs_of(db, schema), full, flags | SQLITE_OPEN_MAIN_JOURNAL, v, err);
}

static gx_code open_all(const gx_store *store, gx_volumes *set, sqlite3 *db, const char *schema,
                        sqlite3_stmt *stmt, bool is_write, gx_err *err)
{
    int rc;
    int64_t key = 0;
    GX_TRY(gx_store_check_select(schema, stmt, err));
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        key = sqlite3_column_int64(stmt, 2);
        GX_TRY(open_volume(store, set, db, schema, stmt, is_write, err));
    }
    if (rc != SQLITE_DONE) {
        return gx_store_fail(db, rc, err, "volumes of %s", schema);
    }
    if (set->count == 0) {
        return gx_fail(err, GX_CORRUPT, "%s has no volumes of the set %lld", schema,
                       (long long)set->set);
    }
    for (int k = 0; k < set->count; k++) {
        const gx_volume_id id = {key, set->set, set->volume[k].id, k, set->count};
        GX_TRY(check_header(&set->volume[k], &id, err));
    }
    return GX_OK;
}

gx_code gx_volumes_open(const gx_store *store, sqlite3 *db, const char *schema, int64_t set,
                        bool is_write, gx_volumes **volumes, gx_err *err)
{
    *volumes = NULL;
    void *memory;
    GX_TRY(gx_mem_calloc(store->mem, sizeof(gx_volumes), "volumes", &memory, err));
    gx_volumes *made = memory;
    made->mem = store->mem;
    made->set = set;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->start, NULL);
    pthread_cond_init(&made->done, NULL);
    sqlite3_stmt *stmt = NULL;
    char *text = gx_store_qualify(schema, set_sql);
    int rc = text == NULL ? SQLITE_NOMEM : sqlite3_prepare_v2(db, text, -1, &stmt, NULL);
    sqlite3_free(text);
    if (rc == SQLITE_OK) {
        rc = sqlite3_bind_int64(stmt, 1, set);
    }
    gx_code code = rc == SQLITE_OK ? open_all(store, made, db, schema, stmt, is_write, err)
                                   : gx_store_fail(db, rc, err, "volumes of %s", schema);
    sqlite3_finalize(stmt);
    if (code != GX_OK) {
        gx_volumes_close(made);
        return code;
    }
    *volumes = made;
    return GX_OK;
}

// Threads -----------------------------------------------------------------------------------------

static int write_bytes(volume *v, const char *data, int64_t bytes, int64_t offset)
{
    int rc = SQLITE_OK;
    for (int64_t done = 0; done < bytes && rc == SQLITE_OK; done += PIECE_BYTES) {
        int part = (int)gx_min(bytes - done, PIECE_BYTES);
        rc = v->file->pMethods->xWrite(v->file, data + done, part, offset + done);
    }
    return rc;
}

static int write_trailer(volume *v, const gx_extent_row *e, int64_t row, int64_t stripe)
{
    unsigned char trailer[GX_VOLUME_BLOCK] = {0}; // whole, so that a file ends with a block
    put(trailer, 8, (uint64_t)e->stamp);
    put(trailer + 8, 8, (uint64_t)row);
    return v->file->pMethods->xWrite(v->file, trailer, GX_VOLUME_BLOCK, e->offset + stripe);
}

static int write_stripe(const gx_volumes *set, volume *v)
{
    const gx_extent_row *e = set->extent;
    int64_t stripe = stripe_bytes(set->tile_bytes, set->count);
    int64_t from = v->index * stripe;
    int64_t left = gx_max(0, gx_min(stripe, (int64_t)set->tile_bytes - from));
    int rc = write_bytes(v, set->data + from, left, e->offset);
    return rc != SQLITE_OK ? rc : write_trailer(v, e, set->row, stripe);
}

static void do_work(gx_volumes *set, volume *v)
{
    v->rc = set->work == WORK_WRITE ? write_stripe(set, v)
                                  : v->file->pMethods->xSync(v->file, SQLITE_SYNC_NORMAL);
}

static void *serve(void *arg)
{
    volume *v = arg;
    gx_volumes *set = v->set;
    uint64_t seen = 0;
    for (;;) {
        pthread_mutex_lock(&set->lock);
        while (set->generation == seen) {
            pthread_cond_wait(&set->start, &set->lock);
        }
        seen = set->generation;
        bool quit = set->work == WORK_QUIT;
        pthread_mutex_unlock(&set->lock);
        if (quit) {
            return NULL;
        }
        do_work(set, v);
        pthread_mutex_lock(&set->lock);
        if (--set->active == 0) {
            pthread_cond_signal(&set->done);
        }
        pthread_mutex_unlock(&set->lock);
    }
}

static void publish(gx_volumes *set, work next)
{
    pthread_mutex_lock(&set->lock);
    set->work = next;
    set->active = set->count - 1;
    set->generation++;
    pthread_cond_broadcast(&set->start);
    pthread_mutex_unlock(&set->lock);
}

static void stop_threads(gx_volumes *set, int count)
{
    set->count = count;
    publish(set, WORK_QUIT);
    for (int k = 1; k < count; k++) {
        pthread_join(set->volume[k].thread, NULL);
    }
    set->is_started = false;
}

/* Without threads the caller's own does it all. */
static void start_threads(gx_volumes *set)
{
    int count = set->count, started = 1;
    while (started < count &&
           gx_thread_start(&set->volume[started].thread, serve, &set->volume[started])) {
        started++;
    }
    set->is_started = started == count;
    if (!set->is_started) {
        stop_threads(set, started);
        set->count = count;
    }
}

/* On every file at once; what: "writing". */
static gx_code run(gx_volumes *set, work next, const char *what, gx_err *err)
{
    if (!set->is_started && set->count > 1) {
        start_threads(set);
    }
    if (set->is_started) {
        publish(set, next);
        do_work(set, &set->volume[0]);
        pthread_mutex_lock(&set->lock);
        while (set->active > 0) {
            pthread_cond_wait(&set->done, &set->lock);
        }
        pthread_mutex_unlock(&set->lock);
    } else {
        set->work = next;
        for (int k = 0; k < set->count; k++) {
            do_work(set, &set->volume[k]);
        }
    }
    for (int k = 0; k < set->count; k++) {
        if (set->volume[k].rc != SQLITE_OK) {
            return file_failed(set->volume[k].rc, what, set->volume[k].path, err);
        }
    }
    return GX_OK;
}

void gx_volumes_close(gx_volumes *volumes)
{
    if (volumes == NULL) {
        return;
    }
    if (volumes->is_started) {
        stop_threads(volumes, volumes->count);
    }
    for (int k = 0; k < volumes->count; k++) {
        close_file(volumes->mem, &volumes->volume[k]);
        pthread_mutex_destroy(&volumes->volume[k].turn);
    }
    pthread_mutex_destroy(&volumes->lock);
    pthread_cond_destroy(&volumes->start);
    pthread_cond_destroy(&volumes->done);
    gx_mem_free(volumes->mem, volumes);
}

// Tiles -------------------------------------------------------------------------------------------

gx_code gx_volumes_write(gx_volumes *volumes, const gx_extent_row *extent, int64_t row,
                         size_t tile_bytes, const void *data, gx_err *err)
{
    volumes->extent = extent;
    volumes->row = row;
    volumes->tile_bytes = tile_bytes;
    volumes->data = data;
    return run(volumes, WORK_WRITE, "writing", err);
}

gx_code gx_volumes_write_part(gx_volumes *volumes, const gx_extent_row *extent, size_t tile_bytes,
                              size_t offset, size_t bytes, const void *data, gx_err *err)
{
    int64_t stripe = stripe_bytes(tile_bytes, volumes->count);
    const char *from = data;
    while (bytes > 0) {
        volume *v = &volumes->volume[(int64_t)offset / stripe];
        int64_t at = (int64_t)offset % stripe, part = gx_min((int64_t)bytes, stripe - at);
        pthread_mutex_lock(&v->turn);
        int rc = write_bytes(v, from, part, extent->offset + at);
        pthread_mutex_unlock(&v->turn);
        if (rc != SQLITE_OK) {
            return file_failed(rc, "writing", v->path, err);
        }
        from += part;
        offset += (size_t)part;
        bytes -= (size_t)part;
    }
    return GX_OK;
}

gx_code gx_volumes_seal(gx_volumes *volumes, const gx_extent_row *extent, int64_t row,
                        size_t tile_bytes, gx_err *err)
{
    int64_t stripe = stripe_bytes(tile_bytes, volumes->count);
    for (int k = 0; k < volumes->count; k++) {
        volume *v = &volumes->volume[k];
        pthread_mutex_lock(&v->turn);
        int rc = write_trailer(v, extent, row, stripe);
        pthread_mutex_unlock(&v->turn);
        if (rc != SQLITE_OK) {
            return file_failed(rc, "writing", v->path, err);
        }
    }
    return GX_OK;
}

gx_code gx_volumes_sync(gx_volumes *volumes, gx_err *err)
{
    return run(volumes, WORK_SYNC, "waiting for the disk of", err);
}

static gx_code verify_stripe(volume *v, const gx_extent_row *extent, int64_t row, int64_t stripe,
                             gx_err *err)
{
    unsigned char trailer[TRAILER_BYTES];
    int rc =
        v->file->pMethods->xRead(v->file, trailer, TRAILER_BYTES, extent->offset + stripe);
    if (rc != SQLITE_OK) {
        return file_failed(rc, "reading", v->path, err);
    }
    if ((int64_t)take(trailer, 8) != extent->stamp || (int64_t)take(trailer + 8, 8) != row) {
        return gx_fail(err, GX_CORRUPT,
                       "the volume %s does not have what the database says is there: one of them "
                       "is older than the other, or was changed",
                       v->path);
    }
    return GX_OK;
}

gx_code gx_volumes_verify(gx_volumes *volumes, const gx_extent_row *extent, int64_t row,
                          size_t tile_bytes, gx_err *err)
{
    int64_t stripe = stripe_bytes(tile_bytes, volumes->count);
    for (int k = 0; k < volumes->count; k++) {
        GX_TRY(verify_stripe(&volumes->volume[k], extent, row, stripe, err));
    }
    return GX_OK;
}

gx_code gx_volumes_read(gx_volumes *volumes, const gx_extent_row *extent,
                        size_t tile_bytes, size_t offset, size_t bytes, void *dst, gx_err *err)
{
    int64_t stripe = stripe_bytes(tile_bytes, volumes->count);
    char *to = dst;
    while (bytes > 0) {
        volume *v = &volumes->volume[(int64_t)offset / stripe];
        int64_t at = (int64_t)offset % stripe;
        int part = (int)gx_min(gx_min((int64_t)bytes, stripe - at), PIECE_BYTES);
        int rc = v->file->pMethods->xRead(v->file, to, part, extent->offset + at);
        if (rc != SQLITE_OK) {
            return file_failed(rc, "reading", v->path, err);
        }
        to += part;
        offset += (size_t)part;
        bytes -= (size_t)part;
    }
    return GX_OK;
}

// Sizes -------------------------------------------------------------------------------------------

gx_code gx_volumes_bytes(gx_volumes *volumes, int64_t *bytes, gx_err *err)
{
    *bytes = GX_VOLUME_BLOCK;
    for (int k = 0; k < volumes->count; k++) {
        sqlite3_int64 size = 0;
        volume *v = &volumes->volume[k];
        int rc = v->file->pMethods->xFileSize(v->file, &size);
        if (rc != SQLITE_OK) {
            return file_failed(rc, "looking at", v->path, err);
        }
        *bytes = gx_max(*bytes, gx_ceil_div(size, GX_VOLUME_BLOCK) * GX_VOLUME_BLOCK);
    }
    return GX_OK;
}

gx_code gx_volumes_truncate(gx_volumes *volumes, int64_t bytes, gx_err *err)
{
    for (int k = 0; k < volumes->count; k++) {
        sqlite3_int64 size = 0;
        volume *v = &volumes->volume[k];
        int rc = v->file->pMethods->xFileSize(v->file, &size);
        if (rc == SQLITE_OK && size > bytes) {
            rc = v->file->pMethods->xTruncate(v->file, bytes);
        }
        if (rc != SQLITE_OK) {
            return file_failed(rc, "cutting", v->path, err);
        }
    }
    return GX_OK;
}

/* Whether the descriptor is of the file that the VFS has open: its header says which it is. */
static bool is_same_file(volume *v, int fd)
{
    unsigned char ours[HEADER_BYTES], theirs[HEADER_BYTES];
    sqlite3_int64 size = 0;
    struct stat about;
    return v->file->pMethods->xRead(v->file, theirs, HEADER_BYTES, 0) == SQLITE_OK &&
           v->file->pMethods->xFileSize(v->file, &size) == SQLITE_OK && fstat(fd, &about) == 0 &&
           S_ISREG(about.st_mode) && about.st_size == size &&
           pread(fd, ours, HEADER_BYTES, 0) == HEADER_BYTES &&
           memcmp(ours, theirs, HEADER_BYTES) == 0;
}

static void open_for_holes(volume *v)
{
    struct stat about;
    const char *oddity;
    v->holes = v->is_plain ? gx_open_regular(v->path, O_RDWR | O_NOFOLLOW, &about, &oddity) : -1;
    if (v->holes >= 0 && (v->holes < 3 || !is_same_file(v, v->holes))) {
        close(v->holes);
        v->holes = -1;
    }
}

/* Bytes that the file takes on the disk; -1: who knows. */
static int64_t taken(int fd)
{
    struct stat about;
    return fstat(fd, &about) == 0 ? (int64_t)about.st_blocks * 512 : -1;
}

void gx_volumes_punch(gx_volumes *volumes, int64_t offset, int64_t length, int64_t *freed)
{
    for (int k = 0; k < volumes->count; k++) {
        volume *v = &volumes->volume[k];
        if (v->holes == 0) {
            open_for_holes(v);
        }
        if (v->holes < 0) {
            continue;
        }
        int64_t before = taken(v->holes);
        int rc;
        do {
            rc = fallocate(v->holes, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length);
        } while (rc != 0 && errno == EINTR);
        int64_t after = taken(v->holes);
        *freed += rc == 0 && after >= 0 ? gx_max(0, before - after) : 0;
    }
}

static gx_code copy_part(volume *from, volume *to, int64_t offset, int bytes, void *buffer,
                         gx_err *err)
{
    int rc = from->file->pMethods->xRead(from->file, buffer, bytes, offset);
    if (rc != SQLITE_OK) {
        return file_failed(rc, "reading", from->path, err);
    }
    rc = to->file->pMethods->xWrite(to->file, buffer, bytes, offset);
    return rc == SQLITE_OK ? GX_OK : file_failed(rc, "writing", to->path, err);
}

gx_code gx_volumes_copy(gx_volumes *from, gx_volumes *to, const gx_extent_row *extent,
                        void *buffer, size_t buffer_bytes,
                        gx_code (*poll)(void *arg, gx_err *err), void *arg, gx_err *err)
{
    int64_t most = gx_min((int64_t)buffer_bytes, PIECE_BYTES);
    assert(from->count == to->count);
    for (int k = 0; k < from->count; k++) {
        for (int64_t done = 0; done < extent->length; done += most) {
            GX_TRY(poll(arg, err));
            GX_TRY(copy_part(&from->volume[k], &to->volume[k], extent->offset + done,
                             (int)gx_min(most, extent->length - done), buffer, err));
        }
    }
    return GX_OK;
}
