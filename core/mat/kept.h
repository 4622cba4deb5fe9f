/*
** Tiles of small stored matrices that stay in memory from call to call.
**
** An operand that statements ask for again and again is read from the database once.  What a call
** reads of its tiles it reads into a block that the memory governor keeps afterwards (mem.h): it is
** found by the stamp of the database and the matrix's (id, generation), so what has changed is not
** found, and it gives way to whatever else memory is asked for.  Readers get the same bytes from it
** that the store would give, so results do not depend on it.
**
** One call has the block at a time: another operand of the same name, or a statement inside of a
** statement, reads for itself.
*/
#ifndef GX_KEPT_H
#define GX_KEPT_H

#include "mat.h"

/* Matrices of so many bytes are kept: less is read in no time, more is worth streaming. */
enum { GX_KEPT_LEAST = 1 << 20, GX_KEPT_MOST = 16 << 20 };

typedef struct gx_kept gx_kept;

/*
** mat, as gx_mat_open() gives it, is read through a block from now on, which is its `owned`: when
** that is freed it is kept.  Copies of mat may be read as long.  Where it cannot be (its size,
** memory, an open transaction, a sparse matrix or one in volumes) nothing happens.  The caller's
** thread.
*/
void gx_mat_keep(gx_ctx *ctx, gx_mat *mat);

/*
** Is the run of bytes of a tile there?  NULL: it is to be read otherwise, or reading has failed
** with *code.  What is missing in front of the run's end is read first where that is little beside
** what has been wanted of the tile: strips of many threads are a small part each.  Any thread,
** with a reader of its own, which is NULL where all is there.
*/
const void *gx_kept_find(gx_kept *kept, gx_reader *reader, const gx_meta *meta, int64_t tile,
                         size_t offset, size_t bytes, size_t wanted, gx_code *code, gx_err *err);

/* The same of what is there already. */
const void *gx_kept_there(gx_kept *kept, int64_t tile, size_t offset, size_t bytes, size_t wanted);

/* All of it is there: nobody has to read. */
bool gx_kept_is_whole(const gx_kept *kept);

#endif
