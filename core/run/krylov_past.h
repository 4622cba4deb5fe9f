/*
** Passes that earlier calls of the connection made over stored matrices: krylov_rehearsal.c's.
*/
#ifndef GX_PAST_H
#define GX_PAST_H

#include "../store/store.h"

/* What decides how many passes a Krylov method makes; compared as bytes, so to be cleared first. */
typedef struct gx_search {
    char schema[GX_NAME_MAX + 1];
    int64_t id, generation; /* of the matrix */
    int64_t k, ncv, block, maxiter;
    double tol, sigma[2];
    int64_t is_svd, which, is_general;
} gx_search;

enum { GX_PAST_SEARCHES = 16 };

typedef struct gx_past {
    gx_search search[GX_PAST_SEARCHES];
    int64_t passes[GX_PAST_SEARCHES]; /* 0: free */
    int next;                         /* to be overwritten */
} gx_past;

#endif
