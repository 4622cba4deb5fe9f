/*
** The CUDA backend: Fourier transforms by cuFFT.
**
** A plan says how long lines are, how many, and how they lie; making one takes longer than most
** transforms, so that a device keeps the latest ones.  workspace() makes the plan, which alone
** knows how much memory it works in; that memory is the caller's, and a plan's tables are cuFFT's
** own.  Where no plan can be made workspace() asks for nothing, and the kernel, which tries again,
** says why.  A plan is used under the device's lock: its stream and work area are set for each
** call, and are those of what is enqueued.
*/
#include "cuda.h"

static gx_code drop(gx_dev *dev, gx_cuda_plan *plan, gx_err *err)
{
    bool is_made = plan->is_made;
    plan->is_made = false;
    return is_made && !gx_cuda_is_lost(dev)
               ? gx_cufft_check(dev, dev->api->fft_destroy(plan->plan), "Destroy", err)
               : GX_OK;
}

void gx_cuda_forget_plans(gx_dev *dev)
{
    for (int k = 0; k < GX_CUDA_PLANS; k++) {
        (void)drop(dev, &dev->plan[k], NULL);
    }
}

/* The fields of a plan for these lines that say what it is for. */
static gx_cuda_plan plan_for(gx_number dtype, const gx_args *p)
{
    bool is_column = p->side == GX_LEFT;
    int64_t lda = gx_max(1, p->lda), ldc = gx_max(1, p->ldc);
    return (gx_cuda_plan){.in_type = gx_cuda_type((gx_number)p->from),
                          .out_type = gx_cuda_type(dtype),
                          .n = p->k,
                          .count = is_column ? p->n : p->m,
                          .in_step = is_column ? 1 : lda,
                          .in_next = is_column ? lda : 1,
                          .out_step = is_column ? 1 : ldc,
                          .out_next = is_column ? ldc : 1};
}

static bool is_same(const gx_cuda_plan *x, const gx_cuda_plan *y)
{
    return x->is_made && x->in_type == y->in_type && x->out_type == y->out_type && x->n == y->n &&
           x->count == y->count && x->in_step == y->in_step && x->in_next == y->in_next &&
           x->out_step == y->out_step && x->out_next == y->out_next;
}

/* What the plan's fields say; it is the caller's to drop, also after a failure. */
static gx_code make(gx_dev *dev, gx_cuda_plan *x, gx_err *err)
{
    const gx_cuda_api *api = dev->api;
    long long n = x->n, in_side = x->n,
              out_side = x->n; // sides are not looked at, but must be there
    bool is_wide = x->in_type == GX_CUDA_R_64F || x->in_type == GX_CUDA_C_64F;
    CUFFT_TRY(dev, api->fft_create(&x->plan), "Create");
    x->is_made = true;
    CUFFT_TRY(dev, api->fft_allocates(x->plan, 0), "SetAutoAllocation");
    return gx_cufft_check(dev,
                          api->fft_make(x->plan, 1, &n, &in_side, x->in_step, x->in_next,
                                        x->in_type, &out_side, x->out_step, x->out_next,
                                        x->out_type, x->count, &x->bytes,
                                        is_wide ? GX_CUDA_C_64F : GX_CUDA_C_32F),
                          "XtMakePlanMany", err);
}

/* The plan for these lines, kept or made in the place of the oldest.  dev->lock is held. */
static gx_code find(gx_dev *dev, gx_number dtype, const gx_args *p, gx_cuda_plan **out, gx_err *err)
{
    gx_cuda_plan wanted = plan_for(dtype, p), *oldest = &dev->plan[0];
    for (int k = 0; k < GX_CUDA_PLANS; k++) {
        gx_cuda_plan *plan = &dev->plan[k];
        if (is_same(plan, &wanted)) {
            plan->used = ++dev->plans_used;
            *out = plan;
            return GX_OK;
        }
        oldest = !plan->is_made || (oldest->is_made && plan->used < oldest->used) ? plan : oldest;
    }
    GX_TRY(drop(dev, oldest, err)); // which waits for what still runs with it
    *oldest = wanted;
    gx_code code = make(dev, oldest, err);
    if (code != GX_OK) {
        (void)drop(dev, oldest, NULL);
        return code;
    }
    oldest->used = ++dev->plans_used;
    *out = oldest;
    return GX_OK;
}

size_t gx_cuda_fft_bytes(gx_dev *dev, gx_number dtype, const gx_args *args)
{
    gx_cuda_plan *plan = NULL;
    if (args->m <= 0 || args->n <= 0 || gx_cuda_enter(dev, NULL) != GX_OK) {
        return 0;
    }
    pthread_mutex_lock(&dev->lock);
    size_t bytes = find(dev, dtype, args, &plan, NULL) == GX_OK ? plan->bytes : 0;
    pthread_mutex_unlock(&dev->lock);
    return bytes;
}

/* dev->lock is held. */
static gx_code run(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    const gx_cuda_api *api = dev->api;
    gx_cuda_plan *plan;
    GX_TRY(find(dev, dtype, p, &plan, err));
    if (plan->bytes > 0 && p->work == NULL) {
        return gx_fail(err, GX_NOMEM, "out of memory on cuda:%d (a plan of %lld)", dev->ordinal,
                       (long long)p->k);
    }
    CUFFT_TRY(dev, api->fft_stream(plan->plan, queue->stream), "SetStream");
    CUFFT_TRY(dev, api->fft_work(plan->plan, p->work), "SetWorkArea");
    return gx_cufft_check(
        dev, api->fft_run(plan->plan, (void *)(uintptr_t)p->a, p->c, p->is_backward ? 1 : -1),
        "XtExec", err);
}

static gx_code fft(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    if (p->m <= 0 || p->n <= 0) {
        return GX_OK;
    }
    pthread_mutex_lock(&dev->lock);
    gx_code code = run(dev, queue, dtype, p, err);
    pthread_mutex_unlock(&dev->lock);
    return code;
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_fft, fft)
