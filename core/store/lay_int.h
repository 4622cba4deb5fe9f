/*
** A tile that goes into the file under the pages that SQLite writes: store_lay.c, store_vfs.c; and
** what the VFS tells whoever reads past SQLite's pages: store_chain.c.
**
** Of core/store alone.  Include <sqlite3ext.h> first.
*/
#ifndef GX_LAY_INT_H
#define GX_LAY_INT_H

#include "store_int.h"

#include <sys/uio.h>

struct sqlite3_vfs;

enum {
    GX_LAY_LEAST = 1 << 20,    /* bytes of a tile for which it is worth it                        */
    GX_LAY_POINTER = 4,        /* bytes: what an overflow page begins with, the next one's number */
    GX_LAY_PAGE_MAX = 1 << 16, /* bytes: SQLite's largest page                                    */
    GX_LAY_PAGES = 1 << 15,    /* of one tile                                                     */
    GX_LAY_RUN = 256,          /* pages that are written in one call                              */
    GX_FCNTL_LAY = 0x67780001, /* to a file of the VFS: (gx_lay *), NULL: no more                 */
    GX_FCNTL_WATCH = 0x67780002 /* the same: (gx_watch *)                                         */
};

#define GX_VFS "gx"

/* The chain of one tile's overflow pages, which is about to be inserted as zeros. */
typedef struct gx_lay {
    const char *key;  /* &gx_lay_key: of this gx.so, where a process has several */
    const char *data; /* the elements behind those in the b-tree's own page; NULL: in pieces    */
    char *image;      /* a piece: pages, but for their pointers (tile_image.h); or NULL ... */
    int64_t image_first, image_pages; /* ... these of the chain's                     */
    size_t bytes;                     /* of those elements */
    size_t page_bytes;
    int64_t first, count; /* pages, which follow each other; the file's first is 1 */
    int64_t written;      /* those with their elements in the file                  */
    int64_t run;          /* of the chain's, from 0: they wait ...                  */
    int64_t run_pages;    /* ... so many                                            */
    bool is_odd;          /* SQLite wrote one that is not as expected               */
    uint64_t seen[GX_LAY_PAGES / 64];
} gx_lay;

extern const char gx_lay_key;

/* The tile that is written in pieces. */
typedef struct gx_laying {
    gx_lay lay;
    int64_t row;     /* in gx_tile                                  */
    bool is_waiting; /* the VFS has the layout: pages wait for pieces */
} gx_laying;

/* Nothing waits any more: what did is zeros in the file (store_vfs.c).  SQLITE_*. */
int gx_lay_drop(gx_store *store, gx_schema *schema);

/* What SQLite reads of a file.  It stays the caller's until the file is closed. */
typedef struct gx_watch {
    const char *key; /* &gx_lay_key */
    int descriptor;  /* out: SQLite's, for reading                              */
    int64_t at;      /* where the latest read began; -1, from the caller: none  */
    bool skips_log;  /* out: the transaction reads no write-ahead log, and nobody writes the file */
} gx_watch;

static inline bool gx_lay_seen(const gx_lay *lay, int64_t k)
{
    return (lay->seen[k / 64] >> (k % 64) & 1) != 0;
}

static inline void gx_lay_see(gx_lay *lay, int64_t k)
{
    lay->seen[k / 64] |= (uint64_t)1 << (k % 64);
}

/* Pieces of memory for a call that did part of them: how many are left, *part being the first. */
static inline int gx_parts_left(struct iovec **part, int parts, size_t done)
{
    while (parts > 0 && done >= (*part)->iov_len) {
        done -= (*part)->iov_len;
        ++*part;
        parts--;
    }
    if (parts > 0) {
        (*part)->iov_base = (char *)(*part)->iov_base + done;
        (*part)->iov_len -= done;
    }
    return parts;
}

/* SQLite's own VFS for files, or ours on it. */
bool gx_vfs_is_plain(const struct sqlite3_vfs *vfs);

/* The name of ours on this one, or of ours where this is it; NULL: there is none. */
const char *gx_vfs_over(const struct sqlite3_vfs *vfs);

/*
** is_possible  In this schema, in this storing call.
** out          The layout of the next tile that is inserted; false: there is none.
** begin        Before a tile is inserted into a row that is not there: whether it is to be inserted
**              as zeros.  data: its elements; NULL: they come in pieces.  Then flush, or wait,
**              follows, whatever comes of that, before anything else is done.
** flush        The elements take the place of the zeros.  SQLITE_*.
** complete     schema->patch is open on the tile: what is not in the file is written through it,
**              all or what the b-tree's page has.  SQLITE_*.
** wait         A row's pages wait for pieces (laying->is_waiting), or are zeros in the file.
** piece        The next one's pages are written; false: they are zeros.  SQLITE_*.
** complete_piece  As complete, of what the piece has.
*/
bool gx_lay_is_possible(gx_store *store, gx_schema *schema);
bool gx_lay_out(gx_store *store, gx_schema *schema, size_t bytes, gx_lay *lay);
bool gx_lay_begin(gx_store *store, gx_schema *schema, const void *data, size_t bytes, gx_lay *lay);
int gx_lay_flush(gx_store *store, const gx_schema *schema, bool is_inserted);
int gx_lay_complete(gx_schema *schema, const void *data, size_t bytes, const gx_lay *lay);
int gx_lay_wait(gx_store *store, gx_schema *schema, int64_t row, bool is_inserted);
int gx_lay_piece(gx_store *store, gx_schema *schema, int64_t row, const gx_tile_image *piece,
                 bool *is_there);
int gx_lay_complete_piece(gx_schema *schema, int64_t row, const gx_tile_image *piece,
                          bool is_there);

#endif
