/*
** gx: linear algebra on matrices stored in SQLite.  Public header for applications that link gx in.
**
**     #include "gx.h"
**     sqlite3_auto_extension((void (*)(void))sqlite3_gx_init);   // every later connection has gx
**
** Link with libgx.a (compiled with -DSQLITE_CORE), SQLite, OpenBLAS, cJSON, pthread, dl and m; the
** pkg-config file gx.pc names them.  Applications that load gx.so at run time need no header, but
** for settings and lending memory: gx.so has gx_configure(), gx_lend() and gx_lend_end() too.
*/
#ifndef GX_H
#define GX_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GX_VERSION "0.1.0"

struct sqlite3;
struct sqlite3_api_routines;

/*
** Register gx on one connection.  Returns an SQLite result code; on failure *message, when not
** NULL, is a text to be freed with sqlite3_free().  api is ignored when gx was compiled with
** -DSQLITE_CORE.
*/
int sqlite3_gx_init(struct sqlite3 *db, char **message, const struct sqlite3_api_routines *api);

/*
** The same for SQL that may come from strangers: 'files' is off and 'locked' on from the start, so
** that SQL reaches no file but the databases of the connection and changes no setting but sizes
** and counts, downwards.  Where gx is on the connection already, it is restricted so from now on.
*/
int sqlite3_gx_safe_init(struct sqlite3 *db, char **message,
                         const struct sqlite3_api_routines *api);

/*
** Set a setting of a connection that has gx, as gx_config(key, value) does, also one that SQL may
** not set ('cuda_path', 'suitesparse_path') or no longer.  Not within a call of gx.  Returns an
** SQLite result code; message as above.
*/
int gx_configure(struct sqlite3 *db, const char *key, const char *value, char **message);

/*
** Lend an array to SQL: token, a text that nobody can guess, stands for it in gx_from_memory(token,
** 'A') and gx_to_memory('A', token), and by columns as any function's matrix argument or, without
** gaps, destination, until gx_lend_end(token), which waits for calls that use it.
** Element (i, j) of any dtype ("f64", "u8"), in the machine's byte order, is i * row_step + j *
** col_step elements behind data; one step is 1, the other at least the length of the side that lies
** together.  One row without gaps is by columns, too.  Not zero where it cannot be: no such array,
** or GX_LENT_MAX are lent.  Any thread, before any connection too.
*/
enum { GX_LENT_MAX = 64, GX_TOKEN_BYTES = 33 };
int gx_lend(void *data, const char *dtype, int64_t rows, int64_t cols, int64_t row_step,
            int64_t col_step, int is_writable, char token[GX_TOKEN_BYTES]);
void gx_lend_end(const char *token);

#ifdef __cplusplus
}
#endif

#endif
