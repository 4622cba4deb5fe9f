/*
** Arrays of the application's that are lent to SQL under a token (lent.c; gx_lend() in gx.h).
*/
#ifndef GX_LENT_H
#define GX_LENT_H

#include "../core/base/dtype.h"
#include "gx.h"

typedef struct gx_lent {
    char token[GX_TOKEN_BYTES]; /* "": this place is free */
    void *data;
    gx_dtype dtype;
    int64_t rows, cols, step; /* from column to column, or by_rows from row to row */
    bool by_rows, is_writable;
    int users; /* calls that are at it */
} gx_lent;

/* The array of that token, which stays until gx_lent_give_up(); NULL: it is none. */
gx_lent *gx_lent_take(const char *token);
void gx_lent_give_up(gx_lent *array);

#endif
