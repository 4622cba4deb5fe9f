/*
** Layouts of composites as the expressions that gx_lazy takes and shows.
*/
#ifndef GX_LAYOUT_TEXT_H
#define GX_LAYOUT_TEXT_H

#include "../core/mat/composite.h"
#include "gx_ext.h"

/* The terms of an expression; GX_ARG with line, column and caret. */
gx_code gx_layout_read_text(gx_ctx *ctx, const char *text, gx_layout *layout, gx_err *err);

/* An expression that gives this layout again. */
void gx_layout_put_text(gx_text *text, const gx_layout *layout);

#endif
