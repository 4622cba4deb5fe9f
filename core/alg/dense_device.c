/*
** Spectra on a device: see dense_device.h.
**
**   up        c, through page-locked buffers (device_copy.h)
**   kernel    cuSOLVER's Xsyevd, Xgeev, Xgesvd behind the backend's SYEV, GEEV, GESDD
**   down      values, and vectors to memory of their own, so that c is as it was until all is well
**   check     two random vectors, O(n^2) (dense_check.c): sizes at which a library gives wrong
**             numbers without a word have been published, and more may come
**
** What the device cannot do, for want of memory, of a kernel, of convergence or of a right answer,
** the host does from the beginning; gx_stats says why.  GEES has no counterpart in cuSOLVER, and
** left vectors of GEEV none that can be matched with the right ones: they are the host's.
**
** Whether: predicted, from SYEV's measured rates on the host and on the device; the others are so
** many times slower than it for the same flops, on either side (slower_of).  Copies come to that.
**
** Memory on the device: c, values, vectors and the kernel's workspace; on the host, for SYEV's
** vectors, n^2 elements, less than the host's own call takes.
*/
#include "dense_device.h"
#include "../device/devcall.h"
#include "dense.h"
#include "plan.h"
#include "probe.h"

#include <math.h>
#include <string.h>

typedef struct slower {
    double host, device;
} slower;

/* Measured at n = 1000 on two and on sixteen cores, and on an H200. */
static slower slower_of(gx_kernel_id kernel)
{
    switch (kernel) {
    case GX_SYEV:
        return (slower){1, 1};
    case GX_GEEV:
        return (slower){1.3, 6};
    default:
        return (slower){0.6, 4};
    }
}

/* The buffers of a call on the device. */
enum { PART_C, PART_VALUES, PART_LEFT, PART_RIGHT, PART_WORK };

typedef struct spectrum {
    gx_run *run;
    gx_kernel_id kernel;
    gx_number dtype, real, wide;
    const gx_args *host;
    gx_devcall on;
    int64_t least; /* values */
    int64_t left_cols, right_rows;
    int64_t kernel_ns;
    void *vectors; /* SYEV's on the host, before they replace c */
} spectrum;

static bool is_svd(const spectrum *s)
{
    return s->kernel == GX_GESDD;
}

static gx_number vector_dtype(const spectrum *s)
{
    return s->kernel == GX_GEEV ? s->wide : s->dtype;
}

/* The same call with its parts on the device; NULL parts before they are taken. */
static gx_args device_args(const spectrum *s)
{
    gx_args args = *s->host;
    args.c = s->on.hold[PART_C].data;
    args.ldc = gx_max(1, args.m);
    args.values = s->on.hold[PART_VALUES].data;
    args.left = s->on.hold[PART_LEFT].data;
    args.ldleft = gx_max(1, args.m);
    args.right = s->on.hold[PART_RIGHT].data;
    args.ldright = gx_max(1, s->right_rows);
    args.work = s->on.hold[PART_WORK].data;
    return args;
}

static void measure(spectrum *s)
{
    const gx_args *a = s->host;
    size_t element = gx_number_bytes(s->dtype), vector = gx_number_bytes(vector_dtype(s));
    s->real = gx_number_real(s->dtype);
    s->least = gx_min(a->m, a->n);
    s->left_cols = is_svd(s) ? (a->is_full ? a->m : s->least) : a->n;
    s->right_rows = is_svd(s) && !a->is_full ? s->least : a->n;
    bool has_right = a->wants_right && s->kernel != GX_SYEV;
    s->on.hold[PART_C].bytes = (size_t)(a->m * a->n) * element;
    s->on.hold[PART_VALUES].bytes =
        (size_t)s->least * gx_number_bytes(s->kernel == GX_GEEV ? s->wide : s->real);
    s->on.hold[PART_LEFT].bytes = a->wants_left ? (size_t)(a->m * s->left_cols) * vector : 0;
    s->on.hold[PART_RIGHT].bytes = has_right ? (size_t)(s->right_rows * a->n) * vector : 0;
    gx_args args = device_args(s);
    s->on.hold[PART_WORK].bytes = gx_devcall_workspace(&s->on, s->kernel, s->dtype, &args);
}

// Whether -----------------------------------------------------------------------------------------

static double host_seconds(const spectrum *s)
{
    gx_ctx *ctx = s->run->ctx;
    int threads = (int)ctx->config.number[GX_SET_THREADS];
    return slower_of(s->kernel).host *
           gx_profile_kernel(gx_profile_get(ctx), s->kernel, s->dtype, s->host, threads);
}

static double device_seconds(const spectrum *s)
{
    const gx_device_profile *device = &s->on.accel->profile;
    double down = (double)(s->on.hold[PART_LEFT].bytes + s->on.hold[PART_RIGHT].bytes);
    down += s->kernel == GX_SYEV && s->host->wants_right ? (double)s->on.hold[PART_C].bytes : 0;
    return slower_of(s->kernel).device *
               gx_profile_device_kernel(device, s->kernel, s->dtype, s->host) +
           (double)s->on.hold[PART_C].bytes / device->upload_bytes_per_s +
           down / device->download_bytes_per_s;
}

static bool is_faster(const spectrum *s)
{
    return gx_place_is_less(s->run, device_seconds(s), host_seconds(s));
}

/* Does the device have such a kernel? */
static bool is_offered(const spectrum *s)
{
    const gx_args *a = s->host;
    bool is_known =
        s->kernel == GX_SYEV || s->kernel == GX_GESDD || (s->kernel == GX_GEEV && !a->wants_left);
    return is_known && a->m > 0 && a->n > 0;
}

/* The accelerator, where it has the kernel and is worth it. */
static bool choose(spectrum *s)
{
    if (!is_offered(s)) {
        return false;
    }
    s->on.accel = gx_place_for(s->run, host_seconds(s), &s->on.limit);
    if (s->on.accel == NULL || !gx_accel_offers(s->on.accel, s->kernel, s->dtype)) {
        return false;
    }
    measure(s);
    return is_faster(s);
}

double gx_dense_spectrum_seconds(gx_run *run, gx_kernel_id kernel, gx_number dtype,
                                 const gx_args *args, bool *is_chosen)
{
    spectrum s = {.run = run,
                  .kernel = kernel,
                  .dtype = dtype,
                  .wide = gx_number_promote(dtype, GX_C64),
                  .host = args,
                  .on = {.run = run, .accel = run->target}};
    *is_chosen = false;
    if (run->target == NULL) {
        return host_seconds(&s);
    }
    if (!is_offered(&s) || !gx_accel_offers(run->target, kernel, dtype)) {
        return 0;
    }
    measure(&s);
    size_t all = 0;
    for (int k = 0; k <= PART_WORK; k++) {
        all += gx_pool_rounded(s.on.hold[k].bytes);
    }
    bool fits = all <= run->target_bytes;
    *is_chosen = fits && is_faster(&s);
    return fits ? device_seconds(&s) : 0;
}

// The call ----------------------------------------------------------------------------------------

/* A buffer to the host, where there is such a one, and memory for it. */
static gx_code get(const spectrum *s, int part, gx_number dtype, int64_t m, int64_t n, void *to,
                   int64_t ld, gx_err *err)
{
    const void *from = s->on.hold[part].data;
    return from == NULL || to == NULL
               ? GX_OK
               : gx_device_get(s->run, s->on.accel, dtype, m, n, from, to, ld, err);
}

/* Values and vectors to the host; c is not touched. */
static gx_code fetch(const spectrum *s, gx_err *err)
{
    const gx_args *a = s->host;
    gx_number vector = vector_dtype(s), value = s->kernel == GX_GEEV ? s->wide : s->real;
    GX_TRY(get(s, PART_VALUES, value, s->least, 1, a->values, s->least, err));
    GX_TRY(get(s, PART_C, s->dtype, a->n, a->n, s->vectors, a->n, err));
    GX_TRY(get(s, PART_LEFT, vector, a->m, s->left_cols, a->left, a->ldleft, err));
    return get(s, PART_RIGHT, vector, s->right_rows, a->n, a->right, a->ldright, err);
}

static gx_code compute(spectrum *s, int64_t *info, gx_err *err)
{
    gx_accel *accel = s->on.accel;
    const gx_backend *backend = accel->backend;
    GX_TRY(gx_devcall_begin(&s->on, 0, err));
    if (s->kernel == GX_SYEV && s->host->wants_right) {
        GX_TRY(gx_mem_alloc(s->run->ctx->mem, s->on.hold[PART_C].bytes, "eigenvectors", &s->vectors,
                            err));
    }
    GX_TRY(gx_device_put(s->run, accel, s->dtype, s->host->m, s->host->n, s->host->c,
                         gx_max(1, s->host->ldc), s->on.hold[PART_C].data, err));
    if (!gx_ok(s->run)) {
        return GX_OK;
    }
    gx_args args = device_args(s);
    args.info = info;
    int64_t start_ns = gx_now_ns();
    GX_TRY(gx_turn_kernel(s->run, accel, s->kernel, s->dtype, &args, err));
    GX_TRY(backend->queue_wait(accel->dev, accel->run, err));
    s->kernel_ns = gx_now_ns() - start_ns;
    if (*info != 0) {
        return gx_fail(err, GX_NUMERIC, "%s's %s did not converge (%lld)", backend->name,
                       gx_kernel_name(s->kernel), (long long)*info);
    }
    return fetch(s, err);
}

/* Are the results right? */
static gx_code check(const spectrum *s, gx_err *err)
{
    gx_args args = *s->host;
    args.right = s->vectors != NULL ? s->vectors : args.right;
    args.ldright = s->vectors != NULL ? args.n : args.ldright;
    double ratio = gx_dense_ratio(s->run, s->kernel, s->dtype, &args);
    gx_stats *stats = &s->run->ctx->stats;
    gx_stats_add(stats, GX_STAT_PROBES, 1);
    gx_stats_set(stats, GX_STAT_PROBE_RATIO, ratio < 1e15 ? (int64_t)(1000 * ratio) : INT64_MAX);
    return ratio <= GX_PROBE_MOST || !gx_ok(s->run)
               ? GX_OK
               : gx_fail(err, GX_NUMERIC,
                         "the result of %s's %s failed its check (ratio %.3g of at most %d)",
                         s->on.accel->backend->name, gx_kernel_name(s->kernel), ratio,
                         GX_PROBE_MOST);
}

/* true: done, or the run has failed.  false: the host has to do it, args->c is as it was. */
static bool run_on_device(gx_run *run, gx_kernel_id kernel, gx_number dtype, const gx_args *args)
{
    int64_t info = 0;
    spectrum s = {.run = run, .kernel = kernel, .dtype = dtype, .host = args, .on = {.run = run}};
    gx_err err = {0};
    s.wide = gx_number_promote(dtype, GX_C64);
    if (!gx_ok(run) || !choose(&s)) {
        return false;
    }
    gx_code rc = compute(&s, &info, &err);
    if (rc == GX_OK && gx_ok(run)) {
        rc = check(&s, &err);
    }
    if (rc == GX_OK && gx_ok(run) && s.vectors != NULL) {
        gx_span span = gx_stats_open(&run->ctx->stats);
        int64_t cols = args->ldc == args->n ? args->n : 1; // at a time
        for (int64_t j = 0; j < args->n; j += cols) {
            gx_device_memcpy(run, gx_at(args->c, dtype, args->ldc, 0, j),
                             gx_at(s.vectors, dtype, args->n, 0, j),
                             (size_t)(args->n * cols) * gx_number_bytes(dtype));
        }
        gx_stats_close(&run->ctx->stats, GX_STAT_COPY_NS, span);
    }
    gx_mem_free(run->ctx->mem, s.vectors);
    bool is_done = gx_devcall_end(&s.on, rc, &err);
    if (is_done && gx_ok(run)) {
        gx_stats_kernel(&run->ctx->stats, gx_kernel_flops(kernel, dtype, args), s.kernel_ns);
    }
    return is_done;
}

gx_code gx_dense_spectrum(gx_run *run, gx_kernel_id kernel, gx_number dtype, const gx_args *args)
{
    if (run_on_device(run, kernel, dtype, args)) {
        return gx_run_poll(run);
    }
    gx_run_expect(
        run, host_seconds(&(spectrum){.run = run, .kernel = kernel, .dtype = dtype, .host = args}));
    return gx_dense_call(run, kernel, dtype, args);
}
