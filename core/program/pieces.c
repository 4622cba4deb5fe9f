/*
** Pieces of a lowering's work: see pieces.h.
*/
#include "pieces.h"

gx_pieces gx_pieces_of(gx_exec *x, size_t bytes, size_t own_bytes)
{
    gx_pieces alone = {NULL, 1};
    if (!gx_ok(x->run)) {
        return alone;
    }
    gx_team *team = gx_device_copiers(x->run, bytes, true);
    size_t room = gx_mem_available(x->run->ctx->mem) / 4;
    size_t members = (size_t)gx_team_threads(team);
    bool has_room = own_bytes <= room / members;
    return members > 1 && has_room ? (gx_pieces){team, (int)members} : alone;
}

void gx_pieces_run(gx_exec *x, const gx_pieces *pieces, int64_t count, gx_team_fn fn, void *arg)
{
    gx_err err = {.code = GX_OK};
    for (int64_t k = 0; k < count && pieces->team == NULL; k++) {
        if (gx_run_poll(x->run) != GX_OK || fn(arg, k, 0, &err) != GX_OK) {
            break;
        }
    }
    if (pieces->team != NULL && gx_ok(x->run)) {
        gx_team_run(pieces->team, count, fn, arg, &err);
    }
    gx_run_fail(x->run, &err);
}
