/*
** gx: linear algebra on matrices stored in SQLite.  Public header for applications that link gx in.
**
**     #include "gx.h"
**     sqlite3_auto_extension((void (*)(void))sqlite3_gx_init);   // every later connection has gx
**
** Link with libgx.a (compiled with -DSQLITE_CORE), SQLite, OpenBLAS, cJSON, pthread, dl and m; the
** pkg-config file gx.pc names them.  Applications that load gx.so at run time need no header.
*/
#ifndef GX_H
#define GX_H

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

#ifdef __cplusplus
}
#endif

#endif
