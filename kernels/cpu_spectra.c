/*
** The CPU backend: eigenvalues and singular values.
**
**   SYEV    LAPACK's syevd or heevd (divide and conquer); from SYEVD_SIDE on, where their 2 n^2
**           elements of work space cannot be counted in 32 bits any more, syev or heev (QR
**           iteration: slower, in place).  Of a real tridiagonal matrix sterf or stevd: it is what
**           the others make first
**   GEEV    LAPACK's geev.  Real ones give a conjugate pair as two real columns; these are written
**           into the memory of the complex columns and spread there, from the last element on.
**   GEES    LAPACK's gees, and trevc for eigenvectors; the values of real ones are made complex.
**           Sorted: by the functions that gees asks of each value
**   TREXC   LAPACK's trexc
**   GESDD   LAPACK's gesdd (divide and conquer).  Its work space has 4 min(m, n)^2 elements,
**           counted in 32 bits: from GESDD_SIDE on gesvd does it (QR iteration: slower, and right),
**           with the vectors in the arrays where gesdd would put them.
**
** All but trexc are called inside a wide section, since they thread inside.  Memory: `work` only:
** real numbers (complex routines want some), integers, then LAPACK's own elements.
*/
#include "cpu_lapack.h"

#include <complex.h>
#include <math.h>
#include <string.h>

/*
** 2 side^2 and 4 side^2 stay below 2^31.  Reports of wrong results of other libraries' gesdd begin
** at 19 000.
*/
enum { SYEVD_SIDE = 32000, GESDD_SIDE = 18000 };

// Hermitian ---------------------------------------------------------------------------------------

static bool is_divided(const gx_args *p)
{
    return p->n < SYEVD_SIDE;
}

/* What LAPACK's pages ask for, and 64 columns where it blocks. */
static space syev_space(gx_number dtype, const gx_args *p)
{
    enum { COLUMNS = 66 };
    int64_t n = gx_max(p->n, 1), square = p->wants_right ? n * n : 0;
    if (!is_divided(p)) {
        return lay_out(dtype, p->work, 3 * n, 0, COLUMNS * n);
    }
    bool is_complex = gx_number_is_complex(dtype);
    int64_t reals = !is_complex ? 0 : p->wants_right ? 1 + 5 * n + 2 * square : n;
    return lay_out(dtype, p->work, reals, 3 + 5 * n,
                   gx_max(COLUMNS * n, 1 + 6 * n + (is_complex ? 1 : 2) * square));
}

static lapack_int call_syevd(gx_number dtype, const gx_args *p, const space *s)
{
    char job = p->wants_right ? 'V' : 'N', uplo = p->uplo == GX_LOWER ? 'L' : 'U';
    lapack_int n = (lapack_int)p->n, ld = ld_of(p->ldc), lwork = (lapack_int)s->elements;
    lapack_int lrwork = (lapack_int)s->reals, liwork = (lapack_int)s->integers;
    void *work = s->element, *rwork = s->real;
    return GX_LAPACK2(dtype, syevd_work,
                      (LAYOUT, job, uplo, n, p->c, ld, p->values, work, lwork, s->integer, liwork),
                      heevd_work,
                      (LAYOUT, job, uplo, n, p->c, ld, p->values, work, lwork, rwork, lrwork,
                       s->integer, liwork));
}

static lapack_int call_syev(gx_number dtype, const gx_args *p, const space *s)
{
    char job = p->wants_right ? 'V' : 'N', uplo = p->uplo == GX_LOWER ? 'L' : 'U';
    lapack_int n = (lapack_int)p->n, ld = ld_of(p->ldc), lwork = (lapack_int)s->elements;
    void *work = s->element, *rwork = s->real;
    return GX_LAPACK2(dtype, syev_work, (LAYOUT, job, uplo, n, p->c, ld, p->values, work, lwork),
                      heev_work, (LAYOUT, job, uplo, n, p->c, ld, p->values, work, lwork, rwork));
}

/* Is the triangle that is read 0, but for the diagonal and the one beside it? */
GX_INLINE bool is_tridiagonal(gx_number dtype, const gx_args *p)
{
    bool is_double = gx_number_is_double(dtype), is = !gx_number_is_complex(dtype) && p->n > 2;
    for (int64_t j = 0; j < p->n && is; j++) {
        int64_t from = p->uplo == GX_LOWER ? j + 2 : 0, to = p->uplo == GX_LOWER ? p->n : j - 1;
        for (int64_t i = from; i < to && is; i++) {
            is = get(is_double, p->c, i + j * p->ldc) == 0;
        }
    }
    return is;
}

/* Its diagonals leave the matrix, whose place the vectors take. */
static lapack_int call_stevd(gx_number dtype, const gx_args *p, const space *s)
{
    bool is_double = gx_number_is_double(dtype);
    size_t element = gx_number_bytes(dtype);
    lapack_int n = (lapack_int)p->n, lwork = (lapack_int)s->elements - n;
    void *beside = s->element, *work = (char *)s->element + (size_t)p->n * element;
    for (int64_t j = 0; j < p->n; j++) {
        int64_t next = p->uplo == GX_LOWER ? j + 1 + j * p->ldc : j + (j + 1) * p->ldc;
        put(is_double, p->values, j, get(is_double, p->c, j + j * p->ldc));
        if (j + 1 < p->n) {
            put(is_double, beside, j, get(is_double, p->c, next));
        }
    }
    if (!p->wants_right) {
        return is_double ? LAPACKE_dsterf(n, p->values, beside)
                         : LAPACKE_ssterf(n, p->values, beside);
    }
    return is_double ? LAPACKE_dstevd_work(LAYOUT, 'V', n, p->values, beside, p->c, ld_of(p->ldc),
                                           work, lwork, s->integer, (lapack_int)s->integers)
                     : LAPACKE_sstevd_work(LAYOUT, 'V', n, p->values, beside, p->c, ld_of(p->ldc),
                                           work, lwork, s->integer, (lapack_int)s->integers);
}

static void run_stevd(void *arg)
{
    lapack_call *x = arg;
    x->info = call_stevd(x->dtype, x->args, x->space);
}

static void run_syev(void *arg)
{
    lapack_call *x = arg;
    x->info = is_divided(x->args) ? call_syevd(x->dtype, x->args, x->space)
                                  : call_syev(x->dtype, x->args, x->space);
}

GX_INLINE gx_code syev(gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_code code;
    if (is_answered(p, &code, err)) {
        return code;
    }
    space s = syev_space(dtype, p);
    bool is_short = is_divided(p) && is_tridiagonal(dtype, p);
    return run_wide(is_short ? run_stevd : run_syev, dtype, p, &s, err);
}

// General -----------------------------------------------------------------------------------------

/* lwork -1: only asks.  Real matrices: values in two halves of s->real, vectors 2 ld apart. */
static lapack_int call_geev(gx_number dtype, const gx_args *p, const space *s, void *work,
                            lapack_int lwork)
{
    char left = p->wants_left ? 'V' : 'N', right = p->wants_right ? 'V' : 'N';
    lapack_int n = (lapack_int)p->n, ld = ld_of(p->ldc);
    lapack_int twice = gx_number_is_complex(dtype) ? 1 : 2;
    lapack_int ldl = twice * ld_of(p->ldleft), ldr = twice * ld_of(p->ldright);
    void *real = s->real, *imag = s->real + (size_t)p->n * (gx_number_is_double(dtype) ? 8 : 4);
    return GX_LAPACK2(
        dtype, geev_work,
        (LAYOUT, left, right, n, p->c, ld, real, imag, p->left, ldl, p->right, ldr, work, lwork),
        geev_work,
        (LAYOUT, left, right, n, p->c, ld, p->values, p->left, ldl, p->right, ldr, work, lwork,
         real));
}

static void run_geev(void *arg)
{
    lapack_call *x = arg;
    x->info =
        call_geev(x->dtype, x->args, x->space, x->space->element, (lapack_int)x->space->elements);
}

static space geev_space(gx_number dtype, const gx_args *p)
{
    gx_args sizes = sizes_of(p);
    space none = {0};
    double answer[2] = {0, 0}, reals[2];
    none.real = (char *)reals;
    call_geev(dtype, &sizes, &none, answer, -1);
    int64_t least = 4 * gx_max(p->n, 1);
    return lay_out(dtype, p->work, 2 * p->n, 0, gx_max(least, answer_of(dtype, answer)));
}

/*
** Columns of two reals (the first and second halves of a pair, or a real vector) become complex
** columns where they are: real column j begins where complex column j does.
*/
GX_INLINE void spread(bool is_double, const void *imag, int64_t n, void *vectors, int64_t ld)
{
    for (int64_t j = 0; j < n; j++) {
        void *x = vectors;
        double im_j = get(is_double, imag, j);
        for (int64_t i = n - 1; i >= 0 && im_j == 0; i--) {
            double re = get(is_double, x, 2 * ld * j + i);
            put_pair(is_double, x, ld * j + i, (gx_scalar){re, 0});
        }
        if (im_j == 0) {
            continue;
        }
        // A pair: first the second column, whose conjugate is the first.
        for (int64_t i = n - 1; i >= 0; i--) {
            double re = get(is_double, x, 2 * ld * j + i);
            double im = get(is_double, x, 2 * ld * (j + 1) + i);
            put_pair(is_double, x, ld * (j + 1) + i, (gx_scalar){re, -im});
        }
        for (int64_t i = 0; i < n; i++) {
            gx_scalar second = get_pair(is_double, x, ld * (j + 1) + i);
            put_pair(is_double, x, ld * j + i, (gx_scalar){second.re, -second.im});
        }
        j++;
    }
}

/* The values of a real matrix, which LAPACK left as real and imaginary parts. */
GX_INLINE void give_values(gx_number dtype, const gx_args *p, const space *s)
{
    bool is_double = gx_number_is_double(dtype);
    const char *imag = s->real + (size_t)p->n * (is_double ? 8 : 4);
    for (int64_t j = 0; j < p->n; j++) {
        put_pair(is_double, p->values, j,
                 (gx_scalar){get(is_double, s->real, j), get(is_double, imag, j)});
    }
}

/* What a real matrix's call left, as complex values and columns. */
GX_INLINE void give_complex(gx_number dtype, const gx_args *p, const space *s)
{
    bool is_double = gx_number_is_double(dtype);
    const char *imag = s->real + (size_t)p->n * (is_double ? 8 : 4);
    give_values(dtype, p, s);
    if (p->wants_right) {
        spread(is_double, imag, p->n, p->right, p->ldright);
    }
    if (p->wants_left) {
        spread(is_double, imag, p->n, p->left, p->ldleft);
    }
}

GX_INLINE gx_code geev(gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_code code;
    if (is_answered(p, &code, err)) {
        return code;
    }
    space s = geev_space(dtype, p);
    GX_TRY(run_wide(run_geev, dtype, p, &s, err));
    if (!gx_number_is_complex(dtype) && *p->info == 0) {
        give_complex(dtype, p, &s);
    }
    return GX_OK;
}

// Schur form --------------------------------------------------------------------------------------

/* The functions that LAPACK asks which values come first, one for each kind of number. */
#define CHOICE(name, sort)                                                                         \
    static lapack_logical d_##name(const double *re, const double *im)                             \
    {                                                                                              \
        return comes_first(sort, *re, *im, 1);                                                     \
    }                                                                                              \
    static lapack_logical s_##name(const float *re, const float *im)                               \
    {                                                                                              \
        return comes_first(sort, (double)*re, (double)*im, 1);                                     \
    }                                                                                              \
    static lapack_logical z_##name(const lapack_complex_double *x)                                 \
    {                                                                                              \
        return comes_first(sort, creal(*x), cimag(*x), 1);                                         \
    }                                                                                              \
    static lapack_logical c_##name(const lapack_complex_float *x)                                  \
    {                                                                                              \
        return comes_first(sort, (double)crealf(*x), (double)cimagf(*x), 1);                       \
    }
CHOICE(left, GX_SORT_LEFT)
CHOICE(right, GX_SORT_RIGHT)
CHOICE(inside, GX_SORT_INSIDE)
CHOICE(outside, GX_SORT_OUTSIDE)
static const LAPACK_D_SELECT2 d_choice[] = {NULL, d_left, d_right, d_inside, d_outside};
static const LAPACK_S_SELECT2 s_choice[] = {NULL, s_left, s_right, s_inside, s_outside};
static const LAPACK_Z_SELECT1 z_choice[] = {NULL, z_left, z_right, z_inside, z_outside};
static const LAPACK_C_SELECT1 c_choice[] = {NULL, c_left, c_right, c_inside, c_outside};

/* Real matrices: values in two halves of s->real. */
static lapack_int call_gees(gx_number dtype, const gx_args *p, const space *s, void *work,
                            lapack_int lwork, lapack_int *sorted)
{
    char job = p->wants_right ? 'V' : 'N', sort = p->sort == GX_SORT_NONE ? 'N' : 'S';
    lapack_int n = (lapack_int)p->n, ld = ld_of(p->ldc), ldq = ld_of(p->ldright);
    void *re = s->real, *im = s->real + (size_t)p->n * (gx_number_is_double(dtype) ? 8 : 4);
    switch (dtype) {
    case GX_F64:
        return LAPACKE_dgees_work(LAYOUT, job, sort, d_choice[p->sort], n, p->c, ld, sorted, re, im,
                                  p->right, ldq, work, lwork, s->integer);
    case GX_F32:
        return LAPACKE_sgees_work(LAYOUT, job, sort, s_choice[p->sort], n, p->c, ld, sorted, re, im,
                                  p->right, ldq, work, lwork, s->integer);
    case GX_C128:
        return LAPACKE_zgees_work(LAYOUT, job, sort, z_choice[p->sort], n, p->c, ld, sorted,
                                  p->values, p->right, ldq, work, lwork, re, s->integer);
    default:
        return LAPACKE_cgees_work(LAYOUT, job, sort, c_choice[p->sort], n, p->c, ld, sorted,
                                  p->values, p->right, ldq, work, lwork, re, s->integer);
    }
}

/* left = Q times the eigenvectors of T; of real matrices as geev leaves them, without `reals`. */
static lapack_int call_trevc(gx_number dtype, const gx_args *p, void *work, void *reals)
{
    bool is_complex = gx_number_is_complex(dtype);
    lapack_int n = (lapack_int)p->n, ld = ld_of(p->ldc), count;
    lapack_int ldx = (is_complex ? 1 : 2) * ld_of(p->ldleft);
    for (int64_t j = 0; j < p->n; j++) {
        memcpy((char *)p->left + (size_t)(j * ldx) * gx_number_bytes(dtype),
               (char *)p->right + (size_t)(j * p->ldright) * gx_number_bytes(dtype),
               (size_t)p->n * gx_number_bytes(dtype));
    }
    switch (dtype) {
    case GX_F64:
        return LAPACKE_dtrevc_work(LAYOUT, 'R', 'B', NULL, n, p->c, ld, NULL, 1, p->left, ldx, n,
                                   &count, work);
    case GX_F32:
        return LAPACKE_strevc_work(LAYOUT, 'R', 'B', NULL, n, p->c, ld, NULL, 1, p->left, ldx, n,
                                   &count, work);
    case GX_C128:
        return LAPACKE_ztrevc_work(LAYOUT, 'R', 'B', NULL, n, p->c, ld, NULL, 1, p->left, ldx, n,
                                   &count, work, reals);
    default:
        return LAPACKE_ctrevc_work(LAYOUT, 'R', 'B', NULL, n, p->c, ld, NULL, 1, p->left, ldx, n,
                                   &count, work, reals);
    }
}

static void run_gees(void *arg)
{
    lapack_call *x = arg;
    const space *s = x->space;
    lapack_int sorted = 0;
    x->info = call_gees(x->dtype, x->args, s, s->element, (lapack_int)s->elements, &sorted);
    if (x->args->sort != GX_SORT_NONE) {
        *x->args->pivots = sorted;
    }
    if (x->info == 0 && x->args->wants_left) {
        x->info = call_trevc(x->dtype, x->args, s->element, s->real);
    }
}

/* Columns become ones of length 1; their largest elements are near 1. */
GX_INLINE void shorten(bool is_double, int64_t n, void *vectors, int64_t ld)
{
    for (int64_t j = 0; j < n; j++) {
        double square = 0;
        for (int64_t i = 0; i < n; i++) {
            gx_scalar x = get_pair(is_double, vectors, ld * j + i);
            square += x.re * x.re + x.im * x.im;
        }
        for (int64_t i = 0; i < n; i++) {
            gx_scalar x = get_pair(is_double, vectors, ld * j + i);
            put_pair(is_double, vectors, ld * j + i,
                     (gx_scalar){x.re / sqrt(square), x.im / sqrt(square)});
        }
    }
}

static space gees_space(gx_number dtype, const gx_args *p)
{
    gx_args sizes = sizes_of(p);
    double answer[2] = {0, 0}, reals[2];
    space none = {.real = (char *)reals};
    lapack_int sorted;
    call_gees(dtype, &sizes, &none, answer, -1, &sorted);
    int64_t least = 3 * gx_max(p->n, 1), bits = p->sort == GX_SORT_NONE ? 0 : p->n;
    return lay_out(dtype, p->work, 2 * p->n, bits, gx_max(least, answer_of(dtype, answer)));
}

GX_INLINE gx_code gees(gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_code code;
    if (is_answered(p, &code, err)) {
        return code;
    }
    space s = gees_space(dtype, p);
    GX_TRY(run_wide(run_gees, dtype, p, &s, err));
    bool is_double = gx_number_is_double(dtype);
    if (!gx_number_is_complex(dtype) && *p->info == 0) {
        give_values(dtype, p, &s);
    }
    if (p->wants_left && *p->info == 0) {
        const char *imag = s.real + (size_t)p->n * (is_double ? 8 : 4);
        if (!gx_number_is_complex(dtype)) {
            spread(is_double, imag, p->n, p->left, p->ldleft);
        }
        shorten(is_double, p->n, p->left, p->ldleft);
    }
    return GX_OK;
}

/* info of trexc: 1 where two values are too close, which is an answer. */
GX_INLINE gx_code trexc(gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_code code;
    if (is_answered(p, &code, err)) {
        return code;
    }
    lapack_int n = (lapack_int)p->n, ld = ld_of(p->ldc), ldq = ld_of(p->ldright);
    lapack_int from = (lapack_int)p->pivot_first + 1, to = (lapack_int)p->pivot_last + 1;
    if (dtype == GX_F64) {
        LAPACKE_dtrexc_work(LAYOUT, 'V', n, p->c, ld, p->right, ldq, &from, &to, p->work);
    } else if (dtype == GX_F32) {
        LAPACKE_strexc_work(LAYOUT, 'V', n, p->c, ld, p->right, ldq, &from, &to, p->work);
    } else if (dtype == GX_C128) {
        LAPACKE_ztrexc_work(LAYOUT, 'V', n, p->c, ld, p->right, ldq, from, to);
    } else {
        LAPACKE_ctrexc_work(LAYOUT, 'V', n, p->c, ld, p->right, ldq, from, to);
    }
    *p->pivots = to - 1;
    return GX_OK;
}

// Singular values ---------------------------------------------------------------------------------

static char svd_job(const gx_args *p)
{
    return !p->wants_left ? 'N' : p->is_full ? 'A' : 'S';
}

/* One call of gesdd, or of gesvd, which has no use for integers; lwork -1: only asks. */
static lapack_int call_svd(gx_number dtype, const gx_args *p, void *work, lapack_int lwork,
                           void *rwork, lapack_int *iwork)
{
    char job = svd_job(p);
    lapack_int m = (lapack_int)p->m, n = (lapack_int)p->n, ld = ld_of(p->ldc);
    lapack_int ldu = ld_of(p->ldleft), ldvt = ld_of(p->ldright);
    void *c = p->c, *values = p->values, *u = p->left, *vt = p->right;
    if (gx_min(p->m, p->n) >= GESDD_SIDE) {
        return GX_LAPACK2(
            dtype, gesvd_work,
            (LAYOUT, job, job, m, n, c, ld, values, u, ldu, vt, ldvt, work, lwork), gesvd_work,
            (LAYOUT, job, job, m, n, c, ld, values, u, ldu, vt, ldvt, work, lwork, rwork));
    }
    return GX_LAPACK2(
        dtype, gesdd_work, (LAYOUT, job, m, n, c, ld, values, u, ldu, vt, ldvt, work, lwork, iwork),
        gesdd_work,
        (LAYOUT, job, m, n, c, ld, values, u, ldu, vt, ldvt, work, lwork, rwork, iwork));
}

static void run_svd(void *arg)
{
    lapack_call *x = arg;
    const space *s = x->space;
    x->info = call_svd(x->dtype, x->args, s->element, (lapack_int)s->elements, s->real, s->integer);
}

/* Real numbers that complex gesdd and gesvd want: the largest of what LAPACK 3.2 to 3.12 say. */
static int64_t svd_reals(const gx_args *p)
{
    int64_t q = gx_min(p->m, p->n), most = gx_max(p->m, p->n);
    return q >= GESDD_SIDE     ? 5 * q
           : svd_job(p) == 'N' ? 7 * q
                               : gx_max(5 * q * q + 7 * q, 2 * most * q + 2 * q * q + q);
}

static space svd_space(gx_number dtype, const gx_args *p)
{
    gx_args sizes = sizes_of(p);
    double answer[2] = {0, 0};
    lapack_int integer;
    int64_t least = gx_min(p->m, p->n);
    if (least > 0) {
        call_svd(dtype, &sizes, answer, -1, answer, &integer);
    }
    return lay_out(dtype, p->work, gx_number_is_complex(dtype) ? svd_reals(p) : 0, 8 * least,
                   least > 0 ? answer_of(dtype, answer) : 0);
}

/* x = the unit matrix, n x n. */
static void set_unit(gx_number dtype, void *x, int64_t ld, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        char *column = gx_at(x, dtype, ld, 0, j);
        memset(column, 0, (size_t)n * gx_number_bytes(dtype));
        gx_number_put(dtype, column, j, GX_ONE);
    }
}

GX_INLINE gx_code gesdd(gx_number dtype, const gx_args *p, gx_err *err)
{
    *p->info = 0;
    if (gx_min(p->m, p->n) <= 0) {
        if (p->wants_left && p->is_full) {
            set_unit(dtype, p->left, p->ldleft, gx_max(p->m, 0));
            set_unit(dtype, p->right, p->ldright, gx_max(p->n, 0));
        }
        return GX_OK;
    }
    if (!fits_lapack(p)) {
        return past_lapack(p, err);
    }
    space s = svd_space(dtype, p);
    if (s.elements > INT32_MAX) {
        return gx_fail(err, GX_UNSUPPORTED,
                       "a %lldx%lld matrix is past LAPACK's 32-bit work space: ask for k of them",
                       (long long)p->m, (long long)p->n);
    }
    return run_wide(run_svd, dtype, p, &s, err);
}

// The slots ---------------------------------------------------------------------------------------

size_t gx_cpu_spectrum_bytes(gx_kernel_id kernel, gx_number dtype, const gx_args *args)
{
    gx_args sizes = *args;
    sizes.work = NULL;
    switch (kernel) {
    case GX_SYEV:
        return syev_space(dtype, &sizes).bytes;
    case GX_GEEV:
        return geev_space(dtype, &sizes).bytes;
    case GX_GEES:
        return gees_space(dtype, &sizes).bytes;
    case GX_TREXC:
        return (size_t)gx_max(args->n, 0) * gx_number_bytes(dtype);
    case GX_GESDD:
        return svd_space(dtype, &sizes).bytes;
    default:
        return gx_cpu_decomposition_bytes(kernel, dtype, args);
    }
}

GX_SLOTS_DEFINE(, gx_cpu_syev, syev)
GX_SLOTS_DEFINE(, gx_cpu_geev, geev)
GX_SLOTS_DEFINE(, gx_cpu_gees, gees)
GX_SLOTS_DEFINE(, gx_cpu_trexc, trexc)
GX_SLOTS_DEFINE(, gx_cpu_gesdd, gesdd)
