/*
** From a profile's figures to the time of one kernel call.
**
** Products and everything that is mostly products (SYRK, TRSM, applying reflectors) run at the rate
** of a product whose edge is the geometric mean of m, n and k; factorisations and symmetric
** eigenvalues at rates of their own, by their smaller side.  A rate is interpolated between the
** measured sizes.  Below the first one the time falls more slowly than the work, but on the host
** one thread's rate is the least.  Above the last one the host's rate stays; a device's
** factorisation, whose critical path is of order n^2, keeps growing as n until it reaches LIMIT of
** a product's rate.  Kernels that only move memory take their bytes at the memory's rate.
**
** Storing takes seconds a byte, by the size of what is stored and by whether its place in the file
** is new: between the measured sizes they are interpolated in the logarithm of the size.
**
** The other dtypes: measured are products in all of them, the rest in f64; the ratio of products
** stands for the rest.
*/
#include "profile.h"

#include <math.h>

/* Of a product's rate, what LAPACK's blocked factorisations come to in the end. */
static const double LIMIT = 0.7;

/* The same of one thread: it does alone what a team does, up to that. */
static const double ONE = 0.5;

/*
** The same of functions of single elements, by the flops of map.h: measured, 0.1 to 0.2 of one
** core's product, from additions to error functions.
*/
static const double ELEMENTWISE = 0.15;

/* A device's sweep over a line takes it through so many layers of a Fourier transform, at most. */
static const double SWEEP_OF_LINES = 11;

/* A device's memory beside its link: HBM and GDDR are some tens of times as fast as PCI Express. */
static const double DEVICE_MEMORY = 20;

const char *gx_rate_name(gx_rate rate)
{
    return gx_kernel_name(gx_rate_kernel(rate));
}

gx_kernel_id gx_rate_kernel(gx_rate rate)
{
    static const gx_kernel_id kernels[GX_RATE_COUNT] = {[GX_RATE_POTRF] = GX_POTRF,
                                                        [GX_RATE_GETRF] = GX_GETRF,
                                                        [GX_RATE_GEQRF] = GX_GEQRF,
                                                        [GX_RATE_SYEV] = GX_SYEV};
    return kernels[rate];
}

/* Which rate a kernel has; GX_RATE_COUNT: a product's. */
static gx_rate rate_of(gx_kernel_id kernel)
{
    switch (kernel) {
    case GX_POTRF:
        return GX_RATE_POTRF;
    case GX_GETRF:
        return GX_RATE_GETRF;
    case GX_GEQRF:
    case GX_LARFT:
    case GX_TPQRT:
        return GX_RATE_GEQRF;
    case GX_SYEV:
    case GX_GEEV:
    case GX_GEES:
    case GX_GESDD:
    case GX_GGES:
    case GX_GEHRD:
    case GX_TRSYL:
    case GX_SYTRF:
    case GX_GEBAL:
    case GX_UNCSD:
    case GX_GEQP3:
        return GX_RATE_SYEV;
    default:
        return GX_RATE_COUNT;
    }
}

/* Does it do next to nothing but moving memory? */
static bool moves_memory(gx_kernel_id kernel)
{
    return (kernel >= GX_FILL && kernel <= GX_TRIANGLE) || kernel == GX_LASWP ||
           kernel >= GX_CONVERT;
}

/* Between the measured sizes; below the first, falling as n to the given power. */
static double between(const int64_t *size, const double *rate, int sizes, double n, double power)
{
    if (n <= (double)size[0]) {
        return rate[0] * pow(fmax(n, 1) / (double)size[0], power);
    }
    for (int i = 1; i < sizes; i++) {
        if (n < (double)size[i]) {
            double along = (n - (double)size[i - 1]) / (double)(size[i] - size[i - 1]);
            return rate[i - 1] + along * (rate[i] - rate[i - 1]);
        }
    }
    return rate[sizes - 1];
}

/* Products of GX_M31 are so many of doubles, with what comes before and after them. */
static const double FIELD_PRODUCTS = 2.4;

double gx_profile_flops(const gx_profile *profile, gx_number dtype, int64_t n, int threads)
{
    const double FULL = 64; // from this edge on one thread is at its rate
    if (dtype == GX_M31) {
        return gx_profile_flops(profile, GX_F64, n, threads) / FIELD_PRODUCTS;
    }
    const double *rates = profile->gemm_flops_per_s[dtype];
    double team = (double)gx_max(1, gx_min(threads, profile->threads)) / profile->threads;
    double all = team * between(profile->gemm_size, rates, GX_PROFILE_SIZES, (double)n, 1);
    double ratio =
        rates[GX_PROFILE_SIZES - 1] / profile->gemm_flops_per_s[GX_F64][GX_PROFILE_SIZES - 1];
    double one = ratio * profile->core_flops_per_s * fmin(1, (double)gx_max(n, 1) / FULL);
    return fmax(all, one); // a small product is not cut into more pieces than are good for it
}

double gx_profile_helpers_s(const gx_profile *profile, int64_t readers)
{
    return profile->db_open_s + (double)readers * profile->thread_s;
}

double gx_profile_sweep_rate(const gx_profile *profile, int threads)
{
    double team = (double)gx_max(1, gx_min(threads, profile->threads)) / profile->threads;
    return team * profile->sweep_bytes_per_s;
}

double gx_profile_device_flops(const gx_device_profile *profile, gx_number dtype, int64_t n)
{
    double part = dtype == GX_M31 ? FIELD_PRODUCTS : 1;
    dtype = dtype == GX_M31 ? GX_F64 : dtype;
    return between(profile->gemm_size, profile->gemm_flops_per_s[dtype], GX_DEVICE_SIZES, (double)n,
                   2) /
           part;
}

/* Seconds a byte at one of the measured sizes, or between them, by the logarithm of the size. */
static double at_size(const gx_profile *profile, const double *rate, double bytes)
{
    const double *size = profile->store_bytes;
    for (int i = 0; i < GX_STORE_SIZES; i++) {
        if (bytes <= size[i]) {
            double along = i == 0 ? 1 : log(bytes / size[i - 1]) / log(size[i] / size[i - 1]);
            double before = 1 / rate[i == 0 ? 0 : i - 1];
            return before + along * (1 / rate[i] - before);
        }
    }
    return 1 / rate[GX_STORE_SIZES - 1];
}

/*
** The same in space that was used before.  What is larger than was measured goes on as it went
** between the last two sizes, fewer of its bytes in any cache, but not beyond new space.
*/
static double again_at_size(const gx_profile *profile, const double *rate, const double *fresh,
                            double bytes)
{
    enum { LAST = GX_STORE_SIZES - 1 };
    double per_byte = at_size(profile, rate, bytes);
    const double *size = profile->store_bytes;
    if (bytes > size[LAST]) {
        double doubling = (1 / rate[LAST] - 1 / rate[LAST - 1]) / log(size[LAST] / size[LAST - 1]);
        double most = fmax(per_byte, at_size(profile, fresh, bytes));
        per_byte = fmin(most, per_byte + fmax(0, doubling) * log(bytes / size[LAST]));
    }
    return per_byte;
}

void gx_profile_store(const gx_profile *profile, double bytes, double new_written,
                      double new_committed, double *write_s, double *commit_s)
{
    const gx_store_rates *fresh = &profile->store_new, *again = &profile->store_again;
    bytes = fmax(bytes, 1);
    *write_s = new_written * at_size(profile, fresh->write_bytes_per_s, bytes) +
               (1 - new_written) * again_at_size(profile, again->write_bytes_per_s,
                                                 fresh->write_bytes_per_s, bytes);
    *commit_s = new_committed * at_size(profile, fresh->commit_bytes_per_s, bytes) +
                (1 - new_committed) * again_at_size(profile, again->commit_bytes_per_s,
                                                    fresh->commit_bytes_per_s, bytes);
}

/* The edge of a square call with as much to do. */
static double edge_of(gx_kernel_id kernel, const gx_args *args)
{
    double m = (double)gx_max(1, args->m), n = (double)gx_max(1, args->n);
    double k = (double)gx_max(1, args->k);
    switch (kernel) {
    case GX_GEMM:
        return cbrt(m * n * k);
    case GX_SYRK:
    case GX_HERK:
        return cbrt(n * n * k);
    case GX_TRSM:
    case GX_TRMM:
        return args->side == GX_LEFT ? cbrt(m * m * n) : cbrt(m * n * n);
    case GX_LARFB:
    case GX_ORMQR:
    case GX_ORGQR:
    case GX_TPMQRT:
        return cbrt(m * n * k);
    case GX_POTRF:
        return n;
    default:
        return fmin(m, n);
    }
}

static double bytes_of(gx_kernel_id kernel, gx_number dtype, const gx_args *args)
{
    int matrices = args->fused == NULL ? 3 : args->fused->inputs + args->fused->outputs;
    if (kernel == GX_COMBINE) {
        return (double)args->m * (double)(args->constraints->columns + args->n) *
               (double)gx_number_bytes(dtype);
    }
    if (kernel == GX_FFT) { // so many sweeps over a line
        matrices = 2 * (int)ceil(log2((double)gx_max(2, args->k)) / SWEEP_OF_LINES);
    }
    return matrices * (double)args->m * (double)args->n * (double)gx_number_bytes(dtype);
}

/* What a product reads at least. */
static double operand_bytes(gx_kernel_id kernel, gx_number dtype, const gx_args *args)
{
    double m = (double)args->m, n = (double)args->n, k = (double)args->k;
    return (kernel == GX_GEMM ? (m + n) * k : n * k) * (double)gx_number_bytes(dtype);
}

double gx_profile_pass(const gx_profile *profile, double bytes, double flops, int threads)
{
    double team = (double)gx_max(1, gx_min(threads, profile->threads));
    return fmax(bytes / (profile->memcpy_bytes_per_s * pow(team, 0.7)),
                flops / (ELEMENTWISE * profile->core_flops_per_s * team));
}

double gx_profile_device_pass(const gx_device_profile *profile, double bytes, double flops)
{
    const int64_t EDGE = 4096;
    double product = gx_profile_device_flops(profile, GX_F64, EDGE);
    return profile->launch_s +
           fmax(bytes / profile->sweep_bytes_per_s, flops / (ELEMENTWISE * product));
}

double gx_profile_kernel(const gx_profile *profile, gx_kernel_id kernel, gx_number dtype,
                         const gx_args *args, int threads)
{
    double team = (double)gx_max(1, gx_min(threads, profile->threads));
    if (moves_memory(kernel)) {
        bool is_alone = kernel == GX_REDUCE; // one piece
        bool has_steps = kernel == GX_FUSED || kernel == GX_COMBINE;
        double work = has_steps ? gx_kernel_flops(kernel, dtype, args) : 0;
        double bytes = bytes_of(kernel, dtype, args);
        return gx_profile_pass(profile, bytes, work, is_alone ? 1 : (int)team);
    }
    double n = edge_of(kernel, args), flops = gx_kernel_flops(kernel, dtype, args);
    double product = gx_profile_flops(profile, dtype, (int64_t)n, threads);
    gx_rate rate = rate_of(kernel);
    if (rate == GX_RATE_COUNT) {
        return flops / product;
    }
    double ratio = product / gx_profile_flops(profile, GX_F64, (int64_t)n, threads);
    double all =
        between(profile->gemm_size, profile->rate_flops_per_s[rate], GX_PROFILE_SIZES, n, 1);
    double least = fmin(all, ONE * profile->core_flops_per_s); // a team helps a small one little
    return flops / (ratio * fmax(all * team / profile->threads, least));
}

double gx_profile_device_kernel(const gx_device_profile *profile, gx_kernel_id kernel,
                                gx_number dtype, const gx_args *args)
{
    if (kernel == GX_COMBINE || kernel == GX_FFT) {
        return gx_profile_device_pass(profile, bytes_of(kernel, dtype, args),
                                      gx_kernel_flops(kernel, dtype, args));
    }
    if (moves_memory(kernel)) {
        return profile->launch_s +
               bytes_of(kernel, dtype, args) / (DEVICE_MEMORY * profile->upload_bytes_per_s);
    }
    double n = edge_of(kernel, args), flops = gx_kernel_flops(kernel, dtype, args);
    double product = gx_profile_device_flops(profile, dtype, (int64_t)n);
    gx_rate rate = rate_of(kernel);
    if (rate == GX_RATE_COUNT) {
        return profile->launch_s + fmax(flops / product, operand_bytes(kernel, dtype, args) /
                                                             profile->sweep_bytes_per_s);
    }
    double last = (double)profile->gemm_size[GX_DEVICE_SIZES - 1];
    double f64 = gx_profile_device_flops(profile, GX_F64, (int64_t)n);
    double own =
        between(profile->gemm_size, profile->rate_flops_per_s[rate], GX_DEVICE_SIZES, n, 2);
    if (n > last) {
        own = fmax(own, fmin(own * n / last, LIMIT * f64));
    }
    return profile->wait_s + flops / (own * product / f64);
}
