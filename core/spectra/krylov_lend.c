/*
** The bases of Krylov methods, page-locked where they lie while devices multiply them.
**
** A product's vectors are columns of a basis, and its result becomes others: devices that copy from
** and to the basis by themselves spare a pass two copies on the host, of which nothing hides how
** they begin and end.  Locking and unlocking a MiB takes as long as copying it some ten times (on
** an H200's host 0.15 ms): a usual basis of 18 blocks has paid for that after thirty passes.  It
** counts in the pool of the first device; what the budget does not hold is copied (decision 050).
**
** A driver lends its bases when it has them and takes them back before they are freed.  In between
** devices may come and go: whoever has the columns of A locks the bases, and lets go of them with
** everything else that it has.
*/
#include "krylov_device.h"

/* Less memory of vectors is copied while it would be page-locked. */
static const size_t WORTH_LOCKING = (size_t)4 << 20;

void gx_kry_lock(struct gx_kry_device *d)
{
    const gx_oper *op = d->op;
    size_t budget = (size_t)op->run->ctx->config.number[GX_SET_PINNING_BUDGET];
    for (int k = 0; k < GX_OPER_BASES; k++) {
        if (!d->is_locked[k] && op->basis[k].bytes >= WORTH_LOCKING &&
            gx_kry_is_open(d, &d->share[0])) {
            d->is_locked[k] = gx_pool_lock(d->share[0].accel->pool, op->basis[k].memory,
                                           op->basis[k].bytes, budget);
        }
    }
}

void gx_kry_unlock(struct gx_kry_device *d)
{
    for (int k = 0; k < GX_OPER_BASES; k++) {
        if (d->is_locked[k] && gx_kry_is_open(d, &d->share[0])) {
            gx_pool_unlock(d->share[0].accel->pool, d->op->basis[k].memory);
        } // a pool that has gone let go of them
        d->is_locked[k] = false;
    }
}

bool gx_kry_is_locked(const struct gx_kry_device *d, const void *vectors, size_t bytes)
{
    bool is_inside = false;
    for (int k = 0; k < GX_OPER_BASES; k++) {
        uintptr_t first = (uintptr_t)d->op->basis[k].memory, at = (uintptr_t)vectors;
        size_t all = d->op->basis[k].bytes;
        is_inside = is_inside || (d->is_locked[k] && at >= first && bytes <= all &&
                                  at - first <= all - bytes);
    }
    return is_inside;
}

void gx_oper_lend(gx_oper *op, void *memory, size_t bytes)
{
    int k = 0;
    while (k < GX_OPER_BASES && op->basis[k].memory != NULL) {
        k++;
    }
    if (k == GX_OPER_BASES || memory == NULL) {
        return;
    }
    op->basis[k].memory = memory;
    op->basis[k].bytes = bytes;
    if (op->device != NULL) {
        gx_kry_lock(op->device);
    }
}
