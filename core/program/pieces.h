/*
** Pieces of a lowering's work: by the whole team where that pays, else by the caller, who polls
** between them either way.
*/
#ifndef GX_PIECES_H
#define GX_PIECES_H

#include "../run/team.h"
#include "values.h"

typedef struct gx_pieces {
    gx_team *team; /* NULL: the caller alone */
    int members;
} gx_pieces;

/*
** Who shares work that passes over so many bytes, each with so much memory of its own: the caller
** alone where the budget has little room for more.
*/
gx_pieces gx_pieces_of(gx_exec *x, size_t bytes, size_t own_bytes);

/* fn for pieces 0 .. count-1; one that finds the run failed has nothing to do. */
void gx_pieces_run(gx_exec *x, const gx_pieces *pieces, int64_t count, gx_team_fn fn, void *arg);

#endif
