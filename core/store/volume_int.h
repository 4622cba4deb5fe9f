/*
** Volumes: files beside the database that hold tiles and nothing else.  docs/format.md is the
** contract, decision 030 the reason.
**
** A *set* of volumes is one to GX_VOLUMES_MAX files that are written side by side: a tile is cut
** into as many stripes of equal length as the set has files, and stripe k stands in file k, at the
** same offset in each.  That place is the tile's *extent*, a row of gx_extent.
**
**     volume_file.c    a set's files: named, opened, known again, read, written, synced
**     volume_space.c   which bytes of a set are free
**     store_extent.c   tiles read, written, brought home
**     store_writers.c  new matrices written by several threads
**     store_volume.c   the tables of volumes: made, listed, given up, cut
*/
#ifndef GX_VOLUME_INT_H
#define GX_VOLUME_INT_H

#include "store_int.h"

enum {
    GX_VOLUME_BLOCK = 4096,    /* what offsets and lengths are multiples of; the header's bytes */
};

/* An extent as its row has it: numbers that can be places in a file, see store_extent.c. */
typedef struct gx_extent_row {
    int64_t set;    /* of volumes                                              */
    int64_t offset; /* in each file: a multiple of GX_VOLUME_BLOCK, not the header's */
    int64_t length; /* in each file: gx_extent_length() of the tile            */
    int64_t stamp;  /* also behind each stripe: whether it is this tile's      */
} gx_extent_row;

/* Bytes of a tile's extent, a stripe and what is behind it, in each of `count` files. */
int64_t gx_extent_length(size_t tile_bytes, int count);

// volume_file.c -----------------------------------------------------------------------------------

/* The open files of one set.  One thread at a time, but for gx_volumes_write_part(). */
typedef struct gx_volumes gx_volumes;

/*
** Opens the set's files as the tables of schema name them, through db: the store's connection or a
** helper's.  Memory: of the store.  GX_IO, GX_CORRUPT naming the file: it is missing, is none of
** gx's, another database's, another volume; GX_AUTH: it is not beside the database, and the setting
** volumes_anywhere is off.  is_write: to be written, by a thread a file.
*/
gx_code gx_volumes_open(const gx_store *store, struct sqlite3 *db, const char *schema, int64_t set,
                        bool is_write, gx_volumes **volumes, gx_err *err);
void gx_volumes_close(gx_volumes *volumes); /* NULL is a no-op */

int gx_volumes_count(const gx_volumes *volumes);
int64_t gx_volumes_set(const gx_volumes *volumes);

/* The longest file's bytes, a multiple of GX_VOLUME_BLOCK. */
gx_code gx_volumes_bytes(gx_volumes *volumes, int64_t *bytes, gx_err *err);

/* Bytes [offset, offset + bytes) of the tile with row id `row`. */
gx_code gx_volumes_read(gx_volumes *volumes, const gx_extent_row *extent,
                        size_t tile_bytes, size_t offset, size_t bytes, void *dst, gx_err *err);

/* Whether every stripe has the extent's stamp: GX_CORRUPT naming the file that has not. */
gx_code gx_volumes_verify(gx_volumes *volumes, const gx_extent_row *extent, int64_t row,
                          size_t tile_bytes, gx_err *err);

/* The whole tile, its stripes at the same time. */
gx_code gx_volumes_write(gx_volumes *volumes, const gx_extent_row *extent, int64_t row,
                         size_t tile_bytes, const void *data, gx_err *err);

/*
** The same by several threads, none of them in another function of these files meanwhile: bytes
** [offset, offset + bytes) of the tile; and, when they are all there, what stands behind stripes.
*/
gx_code gx_volumes_write_part(gx_volumes *volumes, const gx_extent_row *extent, size_t tile_bytes,
                              size_t offset, size_t bytes, const void *data, gx_err *err);
gx_code gx_volumes_seal(gx_volumes *volumes, const gx_extent_row *extent, int64_t row,
                        size_t tile_bytes, gx_err *err);

gx_code gx_volumes_sync(gx_volumes *volumes, gx_err *err);

/*
** The extent's bytes of every file into those of a set with as many.  poll(arg) comes between
** pieces: its failure ends the copy.
*/
gx_code gx_volumes_copy(gx_volumes *from, gx_volumes *to, const gx_extent_row *extent,
                        void *buffer, size_t buffer_bytes,
                        gx_code (*poll)(void *arg, gx_err *err), void *arg, gx_err *err);

/* Cut every file to bytes where it is longer. */
gx_code gx_volumes_truncate(gx_volumes *volumes, int64_t bytes, gx_err *err);

/*
** Holes in every file instead of bytes that nobody reads, where file system and VFS make them;
** elsewhere nothing happens.  *freed grows by what the disk got back.
*/
void gx_volumes_punch(gx_volumes *volumes, int64_t offset, int64_t length, int64_t *freed);

/*
** The path of a volume: path as the table has it (NULL: beside the database, its name with -gxID
** behind), relative ones from the database's folder.  GX_ARG: too long, or no file's database.
*/
gx_code gx_volume_path(struct sqlite3 *db, const char *schema, int64_t id, const char *path,
                       char full[GX_VOLUME_PATH_MAX], gx_err *err);

/* What tells a volume from all others: the header of its file. */
typedef struct gx_volume_id {
    int64_t key;      /* of the database, a random number */
    int64_t set, id;  /* of the volume                    */
    int32_t index, count; /* its place in the set, and files there */
} gx_volume_id;

/* Make the file, which must not exist, with its header. */
gx_code gx_volume_make(struct sqlite3 *db, const char *schema, const char *path,
                       const gx_volume_id *id, gx_err *err);

/* Whether there is a file; an empty one is none to SQLite. */
gx_code gx_volume_exists(struct sqlite3 *db, const char *schema, const char *path, bool *is_there,
                         gx_err *err);
void gx_volume_remove(struct sqlite3 *db, const char *schema, const char *path);

// volume_space.c ----------------------------------------------------------------------------------

/* Which bytes of a set's files are free: gaps between extents in use, and all behind the last. */
typedef struct gx_space_map gx_space_map;

gx_code gx_space_map_create(gx_mem *mem, gx_space_map **map, gx_err *err);
void gx_space_map_free(gx_space_map *map); /* NULL is a no-op */

/* An extent in use, in ascending order of offsets.  GX_CORRUPT: it overlaps the one before. */
gx_code gx_space_map_use(gx_space_map *map, int64_t offset, int64_t length, gx_err *err);

/* Gaps are not to be filled, and nothing is placed below bytes. */
void gx_space_map_append_only(gx_space_map *map, int64_t bytes);

/* Where length bytes are free, which are in use from now on. */
gx_code gx_space_map_take(gx_space_map *map, int64_t length, int64_t *offset, gx_err *err);

/* Gap k, in ascending order; false: there are not so many. */
bool gx_space_map_gap(const gx_space_map *map, int64_t k, int64_t *offset, int64_t *length);

/* Behind the last extent in use. */
int64_t gx_space_map_end(const gx_space_map *map);

// store_extent.c ----------------------------------------------------------------------------------

/* Reading extents through one connection: of a reader, or of the store itself. */
typedef struct gx_extent_reader {
    struct sqlite3 *db;      /* lent                               */
    const gx_store *store;   /* lent                               */
    bool is_snapshot;        /* nothing changes while a row is known */
    struct sqlite3_stmt *find;
    char schema[GX_NAME_MAX + 1]; /* of find and volumes           */
    gx_volumes *volumes;     /* of the latest tile's set, or NULL  */
    int64_t row;             /* of extent; 0: none is known        */
    gx_extent_row extent;
} gx_extent_reader;

/*
** Part of a tile of a spread matrix.  *found false: the tile has no extent (it is at home).
** schema: as the connection names it.
*/
gx_code gx_extent_read(gx_extent_reader *reader, const char *schema, const gx_meta *meta,
                       int64_t tile, size_t offset, size_t bytes, void *dst, bool *found,
                       gx_err *err);

/* The same without reading: the reader knows the extent afterwards, and its stamps are right. */
gx_code gx_extent_find(gx_extent_reader *reader, const char *schema, const gx_meta *meta,
                       int64_t tile, bool *found, gx_err *err);

/* What was found may have changed, and no statement may stay open; the files stay. */
void gx_extent_reader_reset(gx_extent_reader *reader);
void gx_extent_reader_close(gx_extent_reader *reader);

/* Whether a new matrix is to be spread: the schema has volumes, and the matrix is large. */
gx_code gx_spread_wanted(gx_store *store, gx_schema *schema, const gx_meta *meta, bool *is_wanted,
                         gx_err *err);

/* gx_store_write_tile() of a spread matrix. */
gx_code gx_spread_write(gx_store *store, gx_schema *schema, const gx_meta *meta, int64_t tile,
                        const void *data, gx_err *err);

/*
** The same in pieces: the current set's files, open for writing; a place there for a tile, with a
** stamp of its own; when it has been written, the row that says so.
*/
gx_code gx_spread_files(gx_store *store, gx_schema *schema, gx_volumes **files, gx_err *err);
gx_code gx_spread_place(gx_schema *schema, size_t tile_bytes, gx_extent_row *extent, gx_err *err);
gx_code gx_spread_enter(gx_store *store, gx_schema *schema, int64_t row,
                        const gx_extent_row *extent, gx_err *err);

/* Before a tile is changed in place: into gx_tile with it. */
gx_code gx_spread_bring_home(gx_store *store, gx_schema *schema, const gx_meta *meta, int64_t tile,
                             gx_err *err);

/* Delete the tiles, wherever they are, then the catalog row, of a matrix. */
gx_code gx_store_erase(gx_store *store, gx_schema *schema, int64_t id, gx_err *err);

/* Before the commit: what the call wrote reaches the disk, where the database's own would. */
gx_code gx_spread_sync(gx_store *store, gx_err *err);

/* gx_state's number of a key; 0: there is none. */
gx_code gx_spread_state(gx_store *store, gx_schema *schema, const char *key, int64_t *number,
                        gx_err *err);

/* *set: the next set that an extent is in, after *set; 0 when there is none. */
gx_code gx_spread_next_set(gx_store *store, gx_schema *schema, int64_t *set, gx_err *err);

/* Whether bytes that no row names may be written or cut off: see store_extent.c. */
bool gx_spread_may_fill(gx_store *store, const gx_schema *schema);

/*
** fn for each extent of a set, in ascending order of offsets, until it fails.  GX_CORRUPT: a row is
** none that gx has written, or two extents overlap.
*/
gx_code gx_spread_each(gx_store *store, gx_schema *schema, int64_t set,
                       gx_code (*fn)(void *arg, const gx_extent_row *extent, gx_err *err),
                       void *arg, gx_err *err);

/* The map of a set, from the rows that the connection sees.  Owned by the caller. */
gx_code gx_spread_map(gx_store *store, gx_schema *schema, int64_t set, gx_space_map **map,
                      gx_err *err);

/* Files closed, the map forgotten: at the end of a call, after a rollback. */
void gx_spread_forget(gx_store *store, gx_schema *schema);

/* Whether the schema has the tables of volumes, as far as the connection remembers. */
bool gx_spread_has_tables(gx_store *store, const gx_schema *schema);

#endif
