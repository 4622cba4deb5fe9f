/*
** The CPU backend: singular values.
**
** LAPACK's gesdd (divide and conquer), called inside a wide section, since it threads inside.  Its
** work space has 4 min(m, n)^2 elements, counted in 32 bits: from GESDD_SIDE on gesvd does the work
** (QR iteration: slower, and right), with the vectors in the arrays where gesdd would put them.
**
** Memory: `work` only: the real work space of complex matrices, the integers, then LAPACK's own.
*/
#include "cpu_lapack.h"

#include <string.h>

/* 4 side^2 stays below 2^31; reports of wrong results of other libraries begin at 19 000. */
enum { GESDD_SIDE = 18000 };

typedef struct plan {
    char job; /* N, S or A, LAPACK's letters */
    bool is_gesvd;
    int64_t least, most;     /* sides of c                      */
    int64_t reals, integers; /* of the first two work spaces    */
    int64_t elements;        /* of the third: LAPACK's lwork    */
    size_t reals_bytes, integers_bytes;
} plan;

/* The real number that a work space query left, in elements, rounded up. */
static int64_t asked_for(double answer)
{
    return (int64_t)answer + (int64_t)(answer / (1 << 20)) + 64; // f32 answers have 24 bits
}

/* One call of LAPACK; lwork -1: only asks. */
static lapack_int call_gesdd(gx_number dtype, const gx_args *a, char job, void *work,
                             lapack_int lwork, void *rwork, lapack_int *iwork)
{
    lapack_int m = (lapack_int)a->m, n = (lapack_int)a->n, ld = ld_of(a->ldc);
    lapack_int ldu = ld_of(a->ldleft), ldvt = ld_of(a->ldright);
    enum { LAYOUT = LAPACK_COL_MAJOR };
    switch (dtype) {
    case GX_F64:
        return LAPACKE_dgesdd_work(LAYOUT, job, m, n, a->c, ld, a->values, a->left, ldu, a->right,
                                   ldvt, work, lwork, iwork);
    case GX_F32:
        return LAPACKE_sgesdd_work(LAYOUT, job, m, n, a->c, ld, a->values, a->left, ldu, a->right,
                                   ldvt, work, lwork, iwork);
    case GX_C128:
        return LAPACKE_zgesdd_work(LAYOUT, job, m, n, a->c, ld, a->values, a->left, ldu, a->right,
                                   ldvt, work, lwork, rwork, iwork);
    default:
        return LAPACKE_cgesdd_work(LAYOUT, job, m, n, a->c, ld, a->values, a->left, ldu, a->right,
                                   ldvt, work, lwork, rwork, iwork);
    }
}

static lapack_int call_gesvd(gx_number dtype, const gx_args *a, char job, void *work,
                             lapack_int lwork, void *rwork)
{
    lapack_int m = (lapack_int)a->m, n = (lapack_int)a->n, ld = ld_of(a->ldc);
    lapack_int ldu = ld_of(a->ldleft), ldvt = ld_of(a->ldright);
    enum { LAYOUT = LAPACK_COL_MAJOR };
    switch (dtype) {
    case GX_F64:
        return LAPACKE_dgesvd_work(LAYOUT, job, job, m, n, a->c, ld, a->values, a->left, ldu,
                                   a->right, ldvt, work, lwork);
    case GX_F32:
        return LAPACKE_sgesvd_work(LAYOUT, job, job, m, n, a->c, ld, a->values, a->left, ldu,
                                   a->right, ldvt, work, lwork);
    case GX_C128:
        return LAPACKE_zgesvd_work(LAYOUT, job, job, m, n, a->c, ld, a->values, a->left, ldu,
                                   a->right, ldvt, work, lwork, rwork);
    default:
        return LAPACKE_cgesvd_work(LAYOUT, job, job, m, n, a->c, ld, a->values, a->left, ldu,
                                   a->right, ldvt, work, lwork, rwork);
    }
}

/* Leading dimensions that LAPACK accepts when it is only asked. */
static gx_args sizes_of(const gx_args *a)
{
    gx_args sizes = *a;
    sizes.c = sizes.left = sizes.right = sizes.values = NULL;
    sizes.ldc = sizes.ldleft = gx_max(a->m, 1);
    sizes.ldright = gx_max(a->n, 1);
    return sizes;
}

/* LAPACK's own work space, by asking it. */
static int64_t ask(gx_number dtype, const gx_args *a, const plan *p)
{
    gx_args sizes = sizes_of(a);
    double answer[2] = {0, 0};
    lapack_int integer;
    if (p->is_gesvd) {
        call_gesvd(dtype, &sizes, p->job, answer, -1, answer);
    } else {
        call_gesdd(dtype, &sizes, p->job, answer, -1, answer, &integer);
    }
    float narrow;
    memcpy(&narrow, answer, sizeof narrow);
    return asked_for(has_doubles(dtype) ? answer[0] : (double)narrow);
}

/* Real numbers that complex gesdd and gesvd want: the largest of what LAPACK 3.2 to 3.12 say. */
static int64_t reals_of(const plan *p)
{
    int64_t q = p->least;
    if (p->is_gesvd) {
        return 5 * q;
    }
    return p->job == 'N' ? 7 * q : gx_max(5 * q * q + 7 * q, 2 * p->most * q + 2 * q * q + q);
}

static plan plan_of(gx_number dtype, const gx_args *a)
{
    plan p = {.least = gx_min(a->m, a->n), .most = gx_max(a->m, a->n)};
    p.job = !a->wants_left ? 'N' : a->is_full ? 'A' : 'S';
    p.is_gesvd = p.least >= GESDD_SIDE;
    p.reals = has_pairs(dtype) ? reals_of(&p) : 0;
    p.integers = 8 * p.least;
    p.reals_bytes =
        ((size_t)p.reals * bytes_of(has_doubles(dtype) ? GX_F64 : GX_F32) + 63) / 64 * 64;
    p.integers_bytes = ((size_t)p.integers * sizeof(lapack_int) + 63) / 64 * 64;
    p.elements = p.least == 0 ? 0 : ask(dtype, a, &p);
    return p;
}

size_t gx_cpu_svd_bytes(gx_number dtype, const gx_args *a)
{
    plan p = plan_of(dtype, a);
    return p.reals_bytes + p.integers_bytes + (size_t)p.elements * bytes_of(dtype);
}

/* x = the unit matrix, n x n. */
static void set_unit(gx_number dtype, void *x, int64_t ld, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        char *column = gx_at(x, dtype, ld, 0, j);
        memset(column, 0, (size_t)n * bytes_of(dtype));
        if (has_doubles(dtype)) {
            memcpy(column + (size_t)j * bytes_of(dtype), &(double){1}, sizeof(double));
        } else {
            memcpy(column + (size_t)j * bytes_of(dtype), &(float){1}, sizeof(float));
        }
    }
}

/* One call of LAPACK, for gx_cpu_wide(). */
typedef struct svd_call {
    gx_number dtype;
    const gx_args *args;
    const plan *plan;
    lapack_int info;
} svd_call;

static void run_svd(void *arg)
{
    svd_call *x = arg;
    const plan *p = x->plan;
    char *rwork = x->args->work, *iwork = rwork + p->reals_bytes;
    char *work = iwork + p->integers_bytes;
    lapack_int lwork = (lapack_int)p->elements;
    x->info = p->is_gesvd
                  ? call_gesvd(x->dtype, x->args, p->job, work, lwork, rwork)
                  : call_gesdd(x->dtype, x->args, p->job, work, lwork, rwork, (void *)iwork);
}

GX_INLINE gx_code gesdd(gx_number dtype, const gx_args *a, gx_err *err)
{
    *a->info = 0;
    if (gx_min(a->m, a->n) <= 0) {
        if (a->wants_left && a->is_full) {
            set_unit(dtype, a->left, a->ldleft, gx_max(a->m, 0));
            set_unit(dtype, a->right, a->ldright, gx_max(a->n, 0));
        }
        return GX_OK;
    }
    if (!fits_lapack(a)) {
        return past_lapack(a, err);
    }
    plan p = plan_of(dtype, a);
    if (p.elements > INT32_MAX) {
        return gx_fail(err, GX_UNSUPPORTED,
                       "a %lldx%lld matrix is past LAPACK's 32-bit work space: ask for k of them",
                       (long long)a->m, (long long)a->n);
    }
    svd_call call = {.dtype = dtype, .args = a, .plan = &p};
    GX_TRY(gx_cpu_wide(a, p.least, run_svd, &call, err));
    *a->info = call.info < 0 ? 1 : call.info;
    return GX_OK;
}

GX_SLOTS_DEFINE(, gx_cpu_gesdd, gesdd)
