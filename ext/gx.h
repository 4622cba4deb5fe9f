/*
** gx: linear algebra on matrices stored in SQLite.  Public header for applications that link gx in.
**
**     #include "gx.h"
**     sqlite3_auto_extension((void (*)(void))sqlite3_gx_init);   // every later connection has gx
**
** Link with libgx.a (compiled with -DSQLITE_CORE), SQLite, OpenBLAS, cJSON, pthread, dl and m; the
** pkg-config file gx.pc names them.  Applications that load gx.so at run time need no header, but
** for settings, lending memory and signals: gx.so has the other functions of this file too.
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

/*
** For interpreters, whose signal handlers wait until C code returns.  A statement that runs in
** `thread` (a pthread_t) looks about every 10 ms whether the signal has been sent; if so it calls,
** in this order and in that thread, may_end(), whether the signal is to end statements; take(),
** whether it still waits for its handler, which it does no longer; ending(); and again(), after
** which it waits as before.  Where the first two say so, the statement ends: SQLITE_INTERRUPT.
*/
typedef struct gx_signal {
    int number;
    uint64_t thread;
    int (*may_end)(void);
    int (*take)(void);
    void (*ending)(void);
    void (*again)(void);
} gx_signal;

/*
** Watch it, with a handler in front of the application's, once there is one, that calls it too.
** is_all: also statements without a call of gx end so, of connections onto which gx is loaded
** before gx_on_signal() is called again; SQLite's progress handler is used for them.  Only the
** first call's signal is watched; not zero: the number is another one, or no signal's.
*/
int gx_on_signal(const gx_signal *signal, int is_all);

#ifdef __cplusplus
}
#endif

#endif
