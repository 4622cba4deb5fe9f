/*
** Sparse factorisations by SuiteSparse: see direct.h.
**
** SuiteSparse allocates by malloc(), whose hooks are the process's and therefore not ours: memory
** is counted by what the symbolic analysis foretells, before it is taken.  Its routines cannot be
** left in the middle (they hold memory: no jump as in docs/decisions/021); an interrupt is seen
** between them.
*/
#include "direct_int.h"

#include <dlfcn.h>

gx_code gx_direct_look(gx_run *run, gx_direct_kind kind, gx_err *err)
{
    void *library;
    GX_TRY(gx_direct_open(run, kind, &library, err));
    dlclose(library); // the reference that asking took
    return GX_OK;
}

/* Columns in 64 bits, which SuiteSparse's long variants want. */
static gx_code widen(gx_direct *F, gx_err *err)
{
    GX_TRY(gx_mem_alloc(F->run->ctx->mem, (size_t)F->A->entries * sizeof *F->index,
                        "column numbers", &F->index, err));
    for (int64_t e = 0; e < F->A->entries; e++) {
        F->index[e] = F->A->index[e];
    }
    return GX_OK;
}

gx_code gx_direct_make(gx_run *run, gx_direct_kind kind, const gx_whole *A, gx_direct *F)
{
    gx_err err = {0};
    *F = (gx_direct){.run = run, .kind = kind, .A = A};
    if (!gx_ok(run)) {
        return run->err.code;
    }
    gx_span span = gx_stats_open(&run->ctx->stats);
    if (gx_direct_open(run, kind, &F->library, &err) == GX_OK && widen(F, &err) == GX_OK) {
        kind == GX_DIRECT_CHOLMOD ? gx_cholmod_make(F, &err) : gx_umfpack_make(F, &err);
    }
    gx_stats_close(&run->ctx->stats, GX_STAT_COMPUTE_NS, span);
    return gx_run_fail(run, &err);
}

gx_code gx_direct_solve(gx_direct *F, bool is_transposed, int64_t cols, const void *b, void *x)
{
    if (!gx_ok(F->run)) {
        return F->run->err.code;
    }
    gx_span span = gx_stats_open(&F->run->ctx->stats);
    gx_code code = F->kind == GX_DIRECT_CHOLMOD ? gx_cholmod_solve(F, cols, b, x)
                                                : gx_umfpack_solve(F, is_transposed, cols, b, x);
    gx_stats_close(&F->run->ctx->stats, GX_STAT_COMPUTE_NS, span);
    return code;
}

void gx_direct_clear(gx_direct *F)
{
    if (F->run == NULL) {
        return;
    }
    if (F->state != NULL) {
        F->kind == GX_DIRECT_CHOLMOD ? gx_cholmod_clear(F) : gx_umfpack_clear(F);
    }
    gx_mem_free(F->run->ctx->mem, F->index);
    gx_mem_return(F->run->ctx->mem, F->reserved);
    if (F->library != NULL) {
        dlclose(F->library);
    }
    *F = (gx_direct){.run = NULL};
}
