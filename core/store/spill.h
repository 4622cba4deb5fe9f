/*
** Temporary data that does not fit the memory budget: byte streams in a private SQLite database.
**
** The database is SQLite's own kind of temporary file (sqlite3_open("")): in the directory where
** SQLite puts such files, invisible to everybody else, gone with gx_spill_free() or the process.
** Nothing of the user's connection, its schemas or transactions is touched.
*/
#ifndef GX_SPILL_H
#define GX_SPILL_H

#include "../base/err.h"
#include "../base/mem.h"

typedef struct gx_spill gx_spill;

/*
** piece_bytes: size of the rows that streams are cut into, and of the one buffer (of mem).
** *spill: owned by the caller; NULL on failure.
*/
gx_code gx_spill_create(gx_mem *mem, size_t piece_bytes, gx_spill **spill, gx_err *err);
void gx_spill_free(gx_spill *spill); /* NULL is a no-op */

/* Streams are written one at a time: begin, append, end.  *stream: what gx_spill_read() wants. */
void gx_spill_begin(gx_spill *spill, int64_t *stream);
gx_code gx_spill_append(gx_spill *spill, const void *data, size_t bytes, gx_err *err);
gx_code gx_spill_end(gx_spill *spill, gx_err *err);

/* Bytes [offset, offset + bytes) of a stream that has been ended. */
gx_code gx_spill_read(gx_spill *spill, int64_t stream, int64_t offset, size_t bytes, void *dst,
                      gx_err *err);

#endif
