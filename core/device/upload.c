/*
** A ring of stages: see upload.h.
**
** What threads fill has to stay in the processor's cache until it goes up: a few stages more than
** threads are enough for none to wait.
*/
#include "upload.h"

enum { TURNS = 3, SPARE = 8 };

gx_code gx_upload_open(gx_upload *u, size_t bytes, int64_t threads, int64_t most, gx_err *err)
{
    size_t budget = (size_t)u->run->ctx->config.number[GX_SET_PINNING_BUDGET];
    int64_t wanted = gx_min(threads + gx_max(TURNS, gx_min(threads / 2, SPARE)), most);
    u->threads = threads;
    pthread_mutex_init(&u->lock, NULL);
    for (int64_t k = 0; k < wanted && k < GX_UPLOAD_STAGES; k++) {
        gx_err refusal = {0};
        gx_stage *s = &u->stage[k];
        if (k > TURNS && !u->stage[k - 1].memory.is_pinned) {
            break;
        }
        if (gx_pool_stage(u->accel->pool, bytes, budget, &s->memory, &refusal) != GX_OK) {
            return k > 0 ? GX_OK : gx_fail(err, refusal.code, "%s", refusal.text);
        }
        u->stages++;
        GX_TRY(u->accel->backend->mark_create(u->accel->dev, &s->mark, err));
    }
    return GX_OK;
}

int64_t gx_upload_threads(const gx_upload *u)
{
    return gx_max(1, gx_min(u->threads, u->stages));
}

gx_stage *gx_upload_take(gx_upload *u)
{
    const gx_accel *accel = u->accel;
    gx_stage *best = NULL;
    gx_err fault = {0};
    pthread_mutex_lock(&u->lock);
    for (int64_t k = 0; k < u->stages && u->fault.code == GX_OK; k++) {
        gx_stage *s = &u->stage[k];
        best = !s->is_busy && (best == NULL || s->turn < best->turn) ? s : best;
    }
    if (best != NULL) {
        best->is_busy = true;
    }
    pthread_mutex_unlock(&u->lock);
    if (best != NULL && best->turn > 0 &&
        accel->backend->mark_wait(accel->dev, best->mark, &fault) != GX_OK) {
        pthread_mutex_lock(&u->lock);
        gx_upload_end(u, best, &fault);
        return NULL;
    }
    return best;
}

bool gx_upload_begin(gx_upload *u, gx_stage *s, gx_code code)
{
    pthread_mutex_lock(&u->lock);
    s->turn = ++u->turn;
    return code == GX_OK && u->fault.code == GX_OK;
}

gx_code gx_upload_send(gx_upload *u, void *to, size_t to_ld, const void *from, size_t bytes,
                       int64_t n, gx_err *err)
{
    const gx_accel *accel = u->accel;
    if (bytes == 0) {
        return GX_OK;
    }
    gx_stats_add(&u->run->ctx->stats, GX_STAT_UPLOADED, (int64_t)bytes * n);
    return accel->backend->upload(accel->dev, accel->up, to, to_ld, from, bytes, bytes, (size_t)n,
                                  err);
}

gx_code gx_upload_mark(gx_upload *u, const gx_stage *s, gx_err *err)
{
    return u->accel->backend->mark_set(u->accel->dev, u->accel->up, s->mark, err);
}

void gx_upload_end(gx_upload *u, gx_stage *s, const gx_err *fault)
{
    if (s != NULL) {
        s->is_busy = false;
    }
    if (fault->code != GX_OK && u->fault.code == GX_OK) {
        u->fault = *fault;
    }
    pthread_mutex_unlock(&u->lock);
}

gx_code gx_upload_close(gx_upload *u, bool kernels_go_on, gx_code code, gx_err *err)
{
    gx_accel *accel = u->accel;
    gx_err late = {0};
    if (code == GX_OK && u->fault.code != GX_OK) {
        code = gx_fail(err, u->fault.code, "%s", u->fault.text);
    }
    bool is_well = code == GX_OK && gx_ok(u->run);
    gx_code settled = is_well && kernels_go_on
                          ? accel->backend->queue_wait(accel->dev, accel->up, &late)
                          : gx_device_settle(accel, &late);
    for (int64_t k = 0; k < u->stages; k++) {
        gx_pool_unstage(accel->pool, &u->stage[k].memory);
        accel->backend->mark_free(accel->dev, u->stage[k].mark);
    }
    pthread_mutex_destroy(&u->lock);
    return code != GX_OK || settled == GX_OK ? code : gx_fail(err, settled, "%s", late.text);
}
