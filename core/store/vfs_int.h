/*
** What the VFS "gx" tells whoever reads a file past SQLite's pages (store_chain.c): store_vfs.c.
**
** Of core/store alone.  Include <sqlite3ext.h> first.
*/
#ifndef GX_VFS_INT_H
#define GX_VFS_INT_H

#include <stdbool.h>
#include <stdint.h>

struct sqlite3_vfs;

enum { GX_FCNTL_WATCH = 0x67780002 }; /* to a file of the VFS: (gx_watch *), NULL: no more */

extern const char gx_watch_key;

/* What SQLite reads of a file.  It stays the caller's until the file is closed. */
typedef struct gx_watch {
    const char *key; /* &gx_watch_key: of this gx.so, where a process has several           */
    int descriptor;  /* out: SQLite's, for reading                                          */
    int64_t at;      /* where the latest read began; -1, from the caller: none              */
    bool skips_log;  /* out: the transaction reads no write-ahead log, and nobody writes the file */
} gx_watch;

/* SQLite's own VFS for files, or ours on it. */
bool gx_vfs_is_plain(const struct sqlite3_vfs *vfs);

/* The name of ours on this one, or of ours where this is it; NULL: there is none. */
const char *gx_vfs_over(const struct sqlite3_vfs *vfs);

#endif
