/*
** The CPU backend: other decompositions of one block, each a call of LAPACK or two.
**
**   GGES    LAPACK's gges, which asks of each value whether it comes first
**   GEHRD   LAPACK's gehrd, and orghr or unghr for Q; nothing is balanced
**   TRSYL   LAPACK's trsyl, which scales its right-hand side so that nothing overflows: divided by
**           that scale here
**   SYTRF   LAPACK's sytrf or hetrf
**   GEBAL   LAPACK's gebal, and gebak for T
**   UNCSD   LAPACK's orcsd or uncsd
**   GEQP3   LAPACK's geqp3
**
** All run inside a wide section.  Memory: `work` only, cut as for the spectra.
*/
#include "cpu_lapack.h"

#include <complex.h>
#include <string.h>

/* The common end of the slots. */
GX_INLINE gx_code finish(gx_cpu_call routine, gx_number dtype, const gx_args *p, space s,
                         gx_err *err)
{
    if (s.elements > INT32_MAX) {
        return past_lapack(p, err);
    }
    return run_wide(routine, dtype, p, &s, err);
}

// Generalised Schur form --------------------------------------------------------------------------

#define CHOICE(name, sort)                                                                         \
    static lapack_logical d_##name(const double *re, const double *im, const double *b)            \
    {                                                                                              \
        return comes_first(sort, *re, *im, *b);                                                    \
    }                                                                                              \
    static lapack_logical s_##name(const float *re, const float *im, const float *b)               \
    {                                                                                              \
        return comes_first(sort, (double)*re, (double)*im, (double)*b);                            \
    }                                                                                              \
    static lapack_logical z_##name(const lapack_complex_double *x, const lapack_complex_double *b) \
    {                                                                                              \
        return comes_first(sort, creal(*x), cimag(*x), creal(*b));                                 \
    }                                                                                              \
    static lapack_logical c_##name(const lapack_complex_float *x, const lapack_complex_float *b)   \
    {                                                                                              \
        return comes_first(sort, (double)crealf(*x), (double)cimagf(*x), (double)crealf(*b));      \
    }
CHOICE(left, GX_SORT_LEFT)
CHOICE(right, GX_SORT_RIGHT)
CHOICE(inside, GX_SORT_INSIDE)
CHOICE(outside, GX_SORT_OUTSIDE)
static const LAPACK_D_SELECT3 d_choice[] = {NULL, d_left, d_right, d_inside, d_outside};
static const LAPACK_S_SELECT3 s_choice[] = {NULL, s_left, s_right, s_inside, s_outside};
static const LAPACK_Z_SELECT2 z_choice[] = {NULL, z_left, z_right, z_inside, z_outside};
static const LAPACK_C_SELECT2 c_choice[] = {NULL, c_left, c_right, c_inside, c_outside};

/* The values, which nobody asks for, in s->real: real ones, or complex ones and 8 n reals. */
static lapack_int call_gges(gx_number dtype, const gx_args *p, const space *s, void *work,
                            lapack_int lwork, lapack_int *sorted)
{
    char sort = p->sort == GX_SORT_NONE ? 'N' : 'S';
    lapack_int n = (lapack_int)p->n, ld = ld_of(p->ldc), ld2 = ld_of(p->ldc2);
    lapack_int ldq = ld_of(p->ldleft), ldz = ld_of(p->ldright);
    size_t part = (size_t)p->n * (gx_number_is_double(dtype) ? 8 : 4);
    char *x = s->real;
    void *first = x, *second = x + part, *third = x + 2 * part, *fifth = x + 4 * part;
    switch (dtype) {
    case GX_F64:
        return LAPACKE_dgges_work(LAYOUT, 'V', 'V', sort, d_choice[p->sort], n, p->c, ld, p->c2,
                                  ld2, sorted, first, second, third, p->left, ldq, p->right, ldz,
                                  work, lwork, s->integer);
    case GX_F32:
        return LAPACKE_sgges_work(LAYOUT, 'V', 'V', sort, s_choice[p->sort], n, p->c, ld, p->c2,
                                  ld2, sorted, first, second, third, p->left, ldq, p->right, ldz,
                                  work, lwork, s->integer);
    case GX_C128:
        return LAPACKE_zgges_work(LAYOUT, 'V', 'V', sort, z_choice[p->sort], n, p->c, ld, p->c2,
                                  ld2, sorted, first, third, p->left, ldq, p->right, ldz, work,
                                  lwork, fifth, s->integer);
    default:
        return LAPACKE_cgges_work(LAYOUT, 'V', 'V', sort, c_choice[p->sort], n, p->c, ld, p->c2,
                                  ld2, sorted, first, third, p->left, ldq, p->right, ldz, work,
                                  lwork, fifth, s->integer);
    }
}

static void run_gges(void *arg)
{
    lapack_call *x = arg;
    lapack_int sorted = 0;
    x->info = call_gges(x->dtype, x->args, x->space, x->space->element,
                        (lapack_int)x->space->elements, &sorted);
    if (x->args->sort != GX_SORT_NONE) {
        *x->args->pivots = sorted;
    }
}

static space gges_space(gx_number dtype, const gx_args *p)
{
    gx_args sizes = sizes_of(p);
    double answer[2] = {0, 0}, reals[12];
    space none = {.real = (char *)reals};
    lapack_int sorted;
    call_gges(dtype, &sizes, &none, answer, -1, &sorted);
    int64_t n = gx_max(p->n, 1);
    return lay_out(dtype, p->work, 12 * n, n, gx_max(8 * n + 16, answer_of(dtype, answer)));
}

GX_INLINE gx_code gges(gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_code code;
    return is_answered(p, &code, err) ? code
                                      : finish(run_gges, dtype, p, gges_space(dtype, p), err);
}

// Hessenberg form ---------------------------------------------------------------------------------

/* LAPACK's block size for gehrd; tau stands before the work space. */
enum { GEHRD_BLOCK = 64 };

static space gehrd_space(gx_number dtype, const gx_args *p)
{
    int64_t n = gx_max(p->n, 1);
    return lay_out(dtype, p->work, 0, 0, n + n * GEHRD_BLOCK + (GEHRD_BLOCK + 1) * GEHRD_BLOCK);
}

static void run_gehrd(void *arg)
{
    lapack_call *x = arg;
    const gx_args *p = x->args;
    gx_number dtype = x->dtype;
    size_t es = gx_number_bytes(dtype);
    lapack_int n = (lapack_int)p->n, ld = ld_of(p->ldc), ldq = ld_of(p->ldright);
    lapack_int lwork = (lapack_int)(x->space->elements - p->n);
    void *tau = x->space->element, *work = x->space->element + (size_t)p->n * es;
    x->info = GX_LAPACK(dtype, gehrd_work, LAYOUT, n, 1, n, p->c, ld, tau, work, lwork);
    for (int64_t j = 0; j < p->n && x->info == 0; j++) {
        char *column = gx_at(p->c, dtype, p->ldc, 0, j);
        memcpy(gx_at(p->right, dtype, p->ldright, 0, j), column, (size_t)p->n * es);
        if (j + 2 < p->n) {
            memset(column + (size_t)(j + 2) * es, 0, (size_t)(p->n - j - 2) * es);
        }
    }
    if (x->info == 0) {
        x->info = GX_LAPACK2(dtype, orghr_work, (LAYOUT, n, 1, n, p->right, ldq, tau, work, lwork),
                             unghr_work, (LAYOUT, n, 1, n, p->right, ldq, tau, work, lwork));
    }
}

GX_INLINE gx_code gehrd(gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_code code;
    return is_answered(p, &code, err) ? code
                                      : finish(run_gehrd, dtype, p, gehrd_space(dtype, p), err);
}

// Sylvester's equation ----------------------------------------------------------------------------

static void run_trsyl(void *arg)
{
    lapack_call *x = arg;
    const gx_args *p = x->args;
    gx_number dtype = x->dtype;
    bool is_double = gx_number_is_double(dtype);
    char ta = trans_of(dtype, p->transa), tb = trans_of(dtype, p->transb);
    lapack_int m = (lapack_int)p->m, n = (lapack_int)p->n, ld = ld_of(p->ldc);
    lapack_int lda = ld_of(p->lda), ldb = ld_of(p->ldb);
    double wide = 1;
    float narrow = 1;
    void *scale = is_double ? (void *)&wide : (void *)&narrow;
    x->info = GX_LAPACK(dtype, trsyl_work, LAYOUT, ta, tb, 1, m, n, p->a, lda, p->b, ldb, p->c, ld,
                        scale);
    double factor = is_double ? wide : (double)narrow;
    int64_t parts = gx_number_is_complex(dtype) ? 2 : 1;
    for (int64_t j = 0; j < p->n && factor != 1; j++) {
        void *column = gx_at(p->c, dtype, p->ldc, 0, j);
        for (int64_t i = 0; i < p->m * parts; i++) {
            put(is_double, column, i, get(is_double, column, i) / factor);
        }
    }
}

GX_INLINE gx_code trsyl(gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_code code;
    return is_answered(p, &code, err) || p->m <= 0
               ? code
               : finish(run_trsyl, dtype, p, lay_out(dtype, p->work, 0, 0, 0), err);
}

// Bunch and Kaufman -------------------------------------------------------------------------------

static space sytrf_space(gx_number dtype, const gx_args *p)
{
    enum { BLOCK = 64 };
    int64_t n = gx_max(p->n, 1);
    return lay_out(dtype, p->work, 0, n, n * BLOCK);
}

static void run_sytrf(void *arg)
{
    lapack_call *x = arg;
    const gx_args *p = x->args;
    gx_number dtype = x->dtype;
    lapack_int n = (lapack_int)p->n, ld = ld_of(p->ldc), lwork = (lapack_int)x->space->elements;
    char uplo = p->uplo == GX_LOWER ? 'L' : 'U';
    lapack_int *pivots = x->space->integer;
    void *work = x->space->element;
    if (dtype == GX_C128 && p->transa == GX_CONJ_TRANS) {
        x->info = LAPACKE_zhetrf_work(LAYOUT, uplo, n, p->c, ld, pivots, work, lwork);
    } else if (dtype == GX_C64 && p->transa == GX_CONJ_TRANS) {
        x->info = LAPACKE_chetrf_work(LAYOUT, uplo, n, p->c, ld, pivots, work, lwork);
    } else {
        x->info = GX_LAPACK(dtype, sytrf_work, LAYOUT, uplo, n, p->c, ld, pivots, work, lwork);
    }
    for (int64_t i = 0; i < p->n; i++) {
        p->pivots[i] = pivots[i];
    }
    x->info = x->info > 0 ? 0 : x->info;
}

GX_INLINE gx_code sytrf(gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_code code;
    return is_answered(p, &code, err) ? code
                                      : finish(run_sytrf, dtype, p, sytrf_space(dtype, p), err);
}

// Balancing ---------------------------------------------------------------------------------------

static space gebal_space(gx_number dtype, const gx_args *p)
{
    return lay_out(dtype, p->work, gx_max(p->n, 1), 0, 0);
}

static void run_gebal(void *arg)
{
    lapack_call *x = arg;
    const gx_args *p = x->args;
    gx_number dtype = x->dtype;
    lapack_int n = (lapack_int)p->n, ld = ld_of(p->ldc), ldt = ld_of(p->ldright), low, high;
    void *scale = x->space->real;
    for (int64_t j = 0; j < p->n; j++) {
        memset(gx_at(p->right, dtype, p->ldright, 0, j), 0, (size_t)p->n * gx_number_bytes(dtype));
        gx_number_put(dtype, gx_at(p->right, dtype, p->ldright, j, j), 0, GX_ONE);
    }
    x->info = GX_LAPACK(dtype, gebal_work, LAYOUT, 'B', n, p->c, ld, &low, &high, scale);
    if (x->info == 0) {
        x->info =
            GX_LAPACK(dtype, gebak_work, LAYOUT, 'B', 'R', n, low, high, scale, n, p->right, ldt);
    }
}

GX_INLINE gx_code gebal(gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_code code;
    return is_answered(p, &code, err) ? code
                                      : finish(run_gebal, dtype, p, gebal_space(dtype, p), err);
}

// Cosines and sines -------------------------------------------------------------------------------

/* The blocks of c and of the results; what LAPACK may write over is cast to what it takes. */
static lapack_int call_uncsd(gx_number dtype, const gx_args *p, void *work, lapack_int lwork,
                             void *reals, lapack_int lreals, lapack_int *integers)
{
    lapack_int n = (lapack_int)p->n, m = (lapack_int)p->m, q = (lapack_int)p->k;
    lapack_int ld = ld_of(p->ldc), ldu = ld_of(p->ldleft), ldv = ld_of(p->ldright);
    bool is_asked = p->c != NULL;
    void *a11 = p->c, *a21 = is_asked ? gx_at(p->c, dtype, p->ldc, p->m, 0) : NULL;
    void *a12 = is_asked ? gx_at(p->c, dtype, p->ldc, 0, p->k) : NULL;
    void *a22 = is_asked ? gx_at(p->c, dtype, p->ldc, p->m, p->k) : NULL;
    void *u1 = p->left, *u2 = is_asked ? gx_at(p->left, dtype, p->ldleft, p->m, p->m) : NULL;
    void *v1 = p->right, *v2 = is_asked ? gx_at(p->right, dtype, p->ldright, p->k, p->k) : NULL;
    return GX_LAPACK2(
        dtype, orcsd_work,
        (LAYOUT, 'Y', 'Y', 'Y', 'Y', 'N', 'D', n, m, q, a11, ld, a12, ld, a21, ld, a22, ld,
         p->values, u1, ldu, u2, ldu, v1, ldv, v2, ldv, work, lwork, integers),
        uncsd_work,
        (LAYOUT, 'Y', 'Y', 'Y', 'Y', 'N', 'D', n, m, q, a11, ld, a12, ld, a21, ld, a22, ld,
         p->values, u1, ldu, u2, ldu, v1, ldv, v2, ldv, work, lwork, reals, lreals, integers));
}

static space uncsd_space(gx_number dtype, const gx_args *p)
{
    gx_args sizes = sizes_of(p);
    double answer[2] = {0, 0}, reals[2] = {0, 0};
    call_uncsd(dtype, &sizes, answer, -1, reals, -1, NULL);
    bool is_complex = gx_number_is_complex(dtype);
    return lay_out(dtype, p->work, is_complex ? answer_of(dtype, reals) : 0, gx_max(p->n, 1),
                   answer_of(dtype, answer));
}

static void run_uncsd(void *arg)
{
    lapack_call *x = arg;
    const space *s = x->space;
    x->info = call_uncsd(x->dtype, x->args, s->element, (lapack_int)s->elements, s->real,
                         (lapack_int)s->reals, s->integer);
}

GX_INLINE gx_code uncsd(gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_code code;
    return is_answered(p, &code, err) ? code
                                      : finish(run_uncsd, dtype, p, uncsd_space(dtype, p), err);
}

// QR with pivoting --------------------------------------------------------------------------------

static space geqp3_space(gx_number dtype, const gx_args *p)
{
    int64_t n = gx_max(p->n, 1), reals = gx_number_is_complex(dtype) ? 2 * n : 0;
    return lay_out(dtype, p->work, reals, n, 2 * n + (n + 1) * GX_LAPACK_BLOCK);
}

static void run_geqp3(void *arg)
{
    lapack_call *x = arg;
    const gx_args *p = x->args;
    lapack_int m = (lapack_int)p->m, n = (lapack_int)p->n, ld = ld_of(p->ldc);
    lapack_int lwork = (lapack_int)x->space->elements, *pivots = x->space->integer;
    void *work = x->space->element, *reals = x->space->real;
    memset(pivots, 0, (size_t)p->n * sizeof *pivots); // every column is free
    x->info =
        GX_LAPACK2(x->dtype, geqp3_work, (LAYOUT, m, n, p->c, ld, pivots, p->tau, work, lwork),
                   geqp3_work, (LAYOUT, m, n, p->c, ld, pivots, p->tau, work, lwork, reals));
    for (int64_t j = 0; j < p->n; j++) {
        p->pivots[j] = pivots[j] - 1;
    }
}

/* A block without rows: its columns are as they are. */
GX_INLINE gx_code geqp3(gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_code code;
    for (int64_t j = 0; j < p->n && p->m <= 0; j++) {
        p->pivots[j] = j;
    }
    return is_answered(p, &code, err) || p->m <= 0
               ? code
               : finish(run_geqp3, dtype, p, geqp3_space(dtype, p), err);
}

// The slots ---------------------------------------------------------------------------------------

size_t gx_cpu_decomposition_bytes(gx_kernel_id kernel, gx_number dtype, const gx_args *args)
{
    gx_args sizes = *args;
    sizes.work = NULL;
    switch (kernel) {
    case GX_GGES:
        return gges_space(dtype, &sizes).bytes;
    case GX_GEHRD:
        return gehrd_space(dtype, &sizes).bytes;
    case GX_SYTRF:
        return sytrf_space(dtype, &sizes).bytes;
    case GX_GEBAL:
        return gebal_space(dtype, &sizes).bytes;
    case GX_UNCSD:
        return uncsd_space(dtype, &sizes).bytes;
    case GX_GEQP3:
        return geqp3_space(dtype, &sizes).bytes;
    default:
        return 0;
    }
}

GX_SLOTS_DEFINE(, gx_cpu_gges, gges)
GX_SLOTS_DEFINE(, gx_cpu_gehrd, gehrd)
GX_SLOTS_DEFINE(, gx_cpu_trsyl, trsyl)
GX_SLOTS_DEFINE(, gx_cpu_sytrf, sytrf)
GX_SLOTS_DEFINE(, gx_cpu_gebal, gebal)
GX_SLOTS_DEFINE(, gx_cpu_uncsd, uncsd)
GX_SLOTS_DEFINE(, gx_cpu_geqp3, geqp3)
