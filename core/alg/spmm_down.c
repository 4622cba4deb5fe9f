/*
** Results on their way down: see spmm_down.h.
**
** Two page-locked buffers take turns: while one is being filled, what is in the other goes to its
** place, a column of it by each thread of the team, unless the team is at work already (it does the
** reading where no helpers can).
*/
#include "spmm_down.h"

#include "../run/team.h"

#include <string.h>

gx_code gx_spmm_down_begin(gx_spmm_down *d, gx_err *err)
{
    size_t budget = (size_t)d->run->ctx->config.number[GX_SET_PINNING_BUDGET];
    size_t row = (size_t)d->cols * gx_dtype_bytes(d->dtype);
    d->slice = gx_max(1, (int64_t)(GX_PIECE_BYTES / row));
    for (int k = 0; k < GX_SPMM_DOWN_TURNS; k++) {
        GX_TRY(gx_pool_stage(d->accel->pool, (size_t)d->slice * row, budget, &d->stage[k], err));
        GX_TRY(d->accel->backend->mark_create(d->accel->dev, &d->mark[k], err));
    }
    return GX_OK;
}

typedef struct placing {
    const gx_spmm_down *d;
    int k;
} placing;

static gx_code place_column(void *arg, int64_t piece, int member, gx_err *err)
{
    const placing *p = arg;
    const gx_spmm_down *d = p->d;
    size_t element = gx_dtype_bytes(d->dtype);
    (void)member, (void)err;
    memcpy(gx_at(d->to, d->dtype, d->ld, d->row0[p->k], piece),
           gx_at(d->stage[p->k].data, d->dtype, d->rows[p->k], 0, piece),
           (size_t)d->rows[p->k] * element);
    return GX_OK;
}

/* What is in a buffer, to its place. */
static gx_code place(gx_spmm_down *d, int k, gx_err *err)
{
    placing p = {.d = d, .k = k};
    gx_err interrupt = {0};
    if (d->rows[k] == 0) {
        return GX_OK;
    }
    GX_TRY(d->accel->backend->mark_wait(d->accel->dev, d->mark[k], err));
    gx_team *team = gx_run_team(d->run);
    if (gx_team_threads(team) > 1 && !gx_team_is_busy(team)) {
        gx_team_run(team, d->cols, place_column, &p, &interrupt);
        gx_run_fail(d->run, &interrupt);
    } else {
        for (int64_t j = 0; j < d->cols; j++) {
            place_column(&p, j, 0, &interrupt);
        }
    }
    d->rows[k] = 0;
    return GX_OK;
}

gx_code gx_spmm_down_take(void *arg, int64_t row0, int64_t rows, gx_err *err)
{
    gx_spmm_down *d = arg;
    const gx_accel *accel = d->accel;
    size_t element = gx_dtype_bytes(d->dtype);
    const char *from = (const char *)d->from + (size_t)(row0 * d->cols) * element;
    for (int64_t i = 0; i < rows && gx_ok(d->run); i += d->slice) {
        int k = (int)(d->turn++ % GX_SPMM_DOWN_TURNS);
        int64_t n = gx_min(d->slice, rows - i);
        GX_TRY(place(d, k, err));
        GX_TRY(accel->backend->download(accel->dev, accel->down, d->stage[k].data,
                                        (size_t)n * element, from + (size_t)i * element,
                                        (size_t)rows * element, (size_t)n * element,
                                        (size_t)d->cols, err));
        GX_TRY(accel->backend->mark_set(accel->dev, accel->down, d->mark[k], err));
        d->row0[k] = row0 + i;
        d->rows[k] = n;
        gx_stats_add(&d->run->ctx->stats, GX_STAT_DOWNLOADED, n * d->cols * (int64_t)element);
    }
    return GX_OK;
}

gx_code gx_spmm_down_end(gx_spmm_down *d, gx_code code, gx_err *err)
{
    for (int k = 0; k < GX_SPMM_DOWN_TURNS; k++) {
        int oldest = (int)((d->turn + k) % GX_SPMM_DOWN_TURNS);
        if (code == GX_OK && gx_ok(d->run)) {
            code = place(d, oldest, err);
        }
    }
    gx_err late = {0};
    if (code != GX_OK || !gx_ok(d->run)) {
        gx_device_settle(d->accel, &late);
    }
    for (int k = 0; k < GX_SPMM_DOWN_TURNS; k++) {
        gx_pool_unstage(d->accel->pool, &d->stage[k]);
        d->accel->backend->mark_free(d->accel->dev, d->mark[k]);
    }
    return code;
}
