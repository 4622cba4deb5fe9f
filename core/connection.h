/*
** What a connection has, made and freed as a whole.
*/
#ifndef GX_CONNECTION_H
#define GX_CONNECTION_H

#include "run/run.h"

/* db is borrowed.  *ctx is NULL on failure. */
gx_code gx_ctx_create(struct sqlite3 *db, gx_ctx **ctx, gx_err *err);
void gx_ctx_free(gx_ctx *ctx); /* NULL is a no-op */

/*
** The application sets a setting, and what follows from it: the budget, the tile size, the backend.
** Refused while another call runs (the SQL function that reports its progress may only set
** 'progress').
*/
gx_code gx_ctx_configure(gx_ctx *ctx, gx_setting setting, const char *value, gx_err *err);

/* SQL text sets it, where gx_config_allow() says that it may. */
gx_code gx_ctx_configure_by_sql(gx_ctx *ctx, gx_setting setting, const char *value, gx_err *err);

#endif
