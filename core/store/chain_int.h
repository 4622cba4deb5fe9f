/*
** Tiles that are read straight from the file to where their elements go: store_chain.c.
**
** Of core/store alone.  Include <sqlite3ext.h> first.
*/
#ifndef GX_CHAIN_INT_H
#define GX_CHAIN_INT_H

#include "store_int.h"
#include "vfs_int.h"

/* Tiles that a reader knows the pages of: those read in turn. */
enum { GX_CHAINS = 16 };

/* The overflow pages of a tile. */
typedef struct gx_chain {
    int64_t row;   /* of gx_tile; 0: of none                                       */
    int64_t at;    /* where in the tile the latest read began; -1: none yet        */
    int64_t used;  /* when: by number                                              */
    size_t start;  /* the tile's first byte on one of them; 0: not read this way   */
    int64_t count; /* in all                                                       */
    int64_t known; /* of them, from the first one on                               */
    uint32_t *page;
} gx_chain;

typedef struct gx_chains {
    gx_mem *mem;
    struct sqlite3 *db;
    gx_watch own, *watch; /* of db's file: own, or those of who leads; NULL: none */
    size_t page_bytes;    /* 0: nothing is read this way */
    int64_t uses;
    int64_t row, at; /* of the tile that was found last: its row; where in the file it begins */
    gx_chain chain[GX_CHAINS];
} gx_chains;

/*
** begin  in a read transaction of db, a connection of its own on a file of our VFS, that has read
**        already; has_log: in WAL mode.
** join   begin with another's connection, which stays in its transaction until after end.  Only
**        find uses it, and the caller sees to it that nobody else does meanwhile.
** end    before the transaction ends: another one may find other pages.
** known  the chain of a row that was found before, or NULL.
** find   the same of a row that blob is open on, made where it is not known; NULL: no memory.
** ahead  columns are about to be read: the system is to bring what the thread will want next.
**        behind: how many tiles of the matrix come after this one.
** read   bytes of a tile, none before chain->start; false: SQLite has to, and says why where it
**        cannot, and all of dst is undefined.
*/
void gx_chains_begin(gx_chains *chains, struct sqlite3 *db, bool has_log);
void gx_chains_join(gx_chains *chains, gx_chains *of);
void gx_chains_end(gx_chains *chains);
gx_chain *gx_chain_known(gx_chains *chains, int64_t row);
gx_chain *gx_chain_find(gx_chains *chains, struct sqlite3_blob *blob, int64_t row);
void gx_chain_ahead(gx_chains *chains, gx_chain *chain, const gx_columns *columns,
                    int64_t behind);
bool gx_chain_read(gx_chains *chains, gx_chain *chain, const gx_columns *columns);

#endif
