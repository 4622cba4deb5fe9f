/*
** Intermediates in a file of the system: see gx_scratch_open() in store.h.
**
** SQLite names the file, in the directory where it puts such files itself; the name is gone as soon
** as the file is open, and the bytes with the last descriptor.  Tile k lies at k times the room of
** a full tile: nothing has to be looked up, so threads read and write tiles without SQLite, at the
** rate of the file system's cache.  Tables of the temp database cost three bytes written for one,
** pages of 4 KiB, and the one thread that may use the connection.
**
** Where the VFS is none of SQLite's own for files (it may encrypt), or temporary data are to stay
** in memory, there is no such file, and the temp database takes the tiles as before.
**
** Memory: the struct alone, from the governor.
*/
#include <sqlite3ext.h>

#include "store_int.h"
#include "vfs_int.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

SQLITE_EXTENSION_INIT3

/* Threads that write to one file wait for one another: tiles are dealt to some files in turn. */
enum { BLOCK = 4096, PARTS = 64, FILES = 4 };

struct gx_scratch {
    gx_store *store;
    int descriptor[FILES];
    size_t room; /* of a full tile */
};

/* May temporary data go to a file that the VFS knows nothing of? */
static gx_code ask_whether(gx_store *store, bool *may_have_file, gx_err *err)
{
    char text[64];
    sqlite3_vfs *vfs = NULL;
    bool is_plain =
        sqlite3_file_control(store->db, "main", SQLITE_FCNTL_VFS_POINTER, &vfs) == SQLITE_OK &&
        gx_vfs_is_plain(vfs);
    GX_TRY(gx_store_pragma(store->db, "main", "temp_store", text, err));
    int wanted = atoi(text);
    bool in_memory = sqlite3_compileoption_used("TEMP_STORE=3") ||
                     (sqlite3_compileoption_used("TEMP_STORE=2") && wanted != 1) || wanted == 2;
    *may_have_file = is_plain && !in_memory;
    return GX_OK;
}

/* A file, which has no name any more; -1: there is none. */
static int open_unnamed(gx_store *store)
{
    char *name = NULL;
    if (sqlite3_file_control(store->db, "main", SQLITE_FCNTL_TEMPFILENAME, &name) != SQLITE_OK ||
        name == NULL) {
        return -1;
    }
    int descriptor = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor >= 0) {
        (void)unlink(name);
    }
    sqlite3_free(name);
    return descriptor;
}

gx_code gx_scratch_open(gx_store *store, gx_meta *meta, bool *is_open, gx_err *err)
{
    static atomic_llong made; // no id of these is a table's, or comes again in the process
    void *memory;
    GX_TRY(ask_whether(store, is_open, err));
    GX_TRY(gx_mem_calloc(store->mem, sizeof(gx_scratch), "an intermediate", &memory, err));
    meta->scratch = memory;
    meta->scratch->store = store;
    if (gx_meta_tiles(meta) > 0) {
        meta->scratch->room = (gx_meta_tile_bytes(meta, 0) + BLOCK - 1) / BLOCK * BLOCK;
    }
    for (int k = 0; k < FILES; k++) {
        int descriptor = *is_open ? open_unnamed(store) : -1;
        meta->scratch->descriptor[k] = descriptor;
        *is_open = descriptor >= 0;
    }
    if (*is_open) {
        meta->id = GX_ID_MAX + atomic_fetch_add(&made, 1) + 1;
        meta->generation = meta->id;
    } else {
        gx_scratch_close(meta);
    }
    return GX_OK;
}

void gx_scratch_close(gx_meta *meta)
{
    for (int k = 0; meta->scratch != NULL && k < FILES; k++) {
        if (meta->scratch->descriptor[k] >= 0) {
            (void)close(meta->scratch->descriptor[k]);
        }
    }
    if (meta->scratch != NULL) {
        gx_mem_free(meta->scratch->store->mem, meta->scratch);
        meta->scratch = NULL;
    }
}

static gx_code failed(const gx_meta *meta, int number, const char *what, gx_err *err)
{
    char label[GX_LABEL_MAX];
    if (number == ENOSPC || number == EDQUOT || number == EFBIG) {
        return gx_fail(err, GX_FULL, "%s %s: there is no room for temporary files", what,
                       gx_meta_label(meta, label));
    }
    return gx_fail(err, GX_IO, "%s %s: %s", what, gx_meta_label(meta, label), strerror(number));
}

/* All of the parts from that place on, or to it; 0 or errno. */
static int move(int descriptor, bool is_write, struct iovec *part, int parts, off_t at)
{
    while (parts > 0) {
        ssize_t done =
            is_write ? pwritev(descriptor, part, parts, at) : preadv(descriptor, part, parts, at);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return done < 0 ? errno : is_write ? ENOSPC : EIO;
        }
        at += done;
        for (; parts > 0 && (size_t)done >= part->iov_len; part++, parts--) {
            done -= (ssize_t)part->iov_len;
        }
        if (parts > 0) {
            part->iov_base = (char *)part->iov_base + done;
            part->iov_len -= (size_t)done;
        }
    }
    return 0;
}

/* Runs of a tile that lie behind one another there go in one call. */
static gx_code move_columns(const gx_meta *meta, int64_t tile, const gx_columns *c, bool is_write,
                            gx_err *err)
{
    const gx_scratch *s = meta->scratch;
    int64_t start_ns = gx_now_ns();
    int number = 0;
    int64_t most = c->step == c->bytes ? PARTS : 1;
    for (int64_t j = 0; j < c->count && number == 0; j += most) {
        struct iovec part[PARTS];
        int parts = (int)gx_min(most, c->count - j);
        for (int k = 0; k < parts; k++) {
            part[k] = (struct iovec){(char *)c->dst + (size_t)(j + k) * c->dst_step, c->bytes};
        }
        off_t at = (off_t)((size_t)(tile / FILES) * s->room + c->offset + (size_t)j * c->step);
        number = move(s->descriptor[tile % FILES], is_write, part, parts, at);
    }
    if (number != 0) {
        return failed(meta, number, is_write ? "writing" : "reading", err);
    }
    gx_stats *stats = s->store->stats;
    bool is_new = c->offset == 0;
    gx_stats_add(stats, is_write ? GX_STAT_BYTES_WRITTEN : GX_STAT_BYTES_READ,
                 (int64_t)(c->bytes * (size_t)c->count));
    gx_stats_add(stats, is_write ? GX_STAT_TILES_WRITTEN : GX_STAT_TILES_READ, is_new);
    gx_stats_add(stats, is_write ? GX_STAT_WRITE_NS : GX_STAT_READ_NS, gx_now_ns() - start_ns);
    return GX_OK;
}

gx_code gx_scratch_read(const gx_meta *meta, int64_t tile, const gx_columns *columns, gx_err *err)
{
    return move_columns(meta, tile, columns, false, err);
}

gx_code gx_scratch_write(const gx_meta *meta, int64_t tile, const gx_columns *columns, gx_err *err)
{
    return move_columns(meta, tile, columns, true, err);
}
