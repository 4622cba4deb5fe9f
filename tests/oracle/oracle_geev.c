/*
** The oracle of the tests: eigenvalues and eigenvectors of a general matrix, and the real Schur
** form.  See kernels/ref.c for the manner.
**
** Values of a complex matrix are the diagonal of its Schur form (oracle_eigen.c).  Those of a
** real one come from the QR algorithm with Francis' double shift on its real Hessenberg form (Golub
** & Van Loan, chapter 7), so that they are real or exact conjugate pairs.  For the Schur form the
** same steps turn all rows and columns and Z; a 2 x 2 block with real values becomes a triangle.
**
** Vectors are found by inverse iteration: (A - value I) x = b is solved by LU with partial pivoting
** for numbers b that differ from value to value, so that the vectors of a multiple value differ.
** A pivot that is too small is replaced by rounding's size: the system is singular, and that is
** what makes the solution large in the direction of the eigenvector.  Left vectors are those of
** A^H for the conjugate value.
**
** Everything is complex double in `work`: A, one more matrix, and three columns.
*/
#include "oracle_int.h"

static const double NEGLIGIBLE = 0x1p-53;
enum { STEPS_MOST = 60 }; // of QR for one eigenvalue

#define AT(x, i, j) ((x)[(j)*n + (i)])

// Values of a real matrix -------------------------------------------------------------------------

/* A reflector I - tau v v^T of 2 or 3 components, v_0 = 1, that takes x to a multiple of e_0. */
typedef struct reflector {
    int count;
    double v[3], tau;
} reflector;

static reflector reflector_of(int count, const double *x)
{
    reflector r = {.count = count, .v = {1, 0, 0}};
    double tail = count == 3 ? hypot(x[1], x[2]) : fabs(x[1]);
    if (tail == 0) {
        return r;
    }
    double beta = -copysign(hypot(x[0], tail), x[0]);
    r.tau = (beta - x[0]) / beta;
    for (int i = 1; i < count; i++) {
        r.v[i] = x[i] / (x[0] - beta);
    }
    return r;
}

/* One line of count elements, stride apart. */
static void reflect(const reflector *r, double *x, int64_t stride)
{
    double sum = 0;
    for (int i = 0; i < r->count; i++) {
        sum += r->v[i] * x[i * stride];
    }
    for (int i = 0; i < r->count; i++) {
        x[i * stride] -= r->tau * sum * r->v[i];
    }
}

/* A reflector of rows and columns k, k + 1 ... of h, and of columns of z; z NULL: there is none. */
static void reflect_both(const reflector *r, double *h, double *z, int64_t n, int64_t k,
                         int64_t first_col, int64_t last_col, int64_t first_row, int64_t last_row)
{
    for (int64_t j = first_col; j <= last_col && r->tau != 0; j++) {
        reflect(r, &AT(h, k, j), 1);
    }
    for (int64_t i = first_row; i <= last_row && r->tau != 0; i++) {
        reflect(r, &AT(h, i, k), n);
    }
    for (int64_t i = 0; i < n && z != NULL && r->tau != 0; i++) {
        reflect(r, &AT(z, i, k), n);
    }
}

/* Hessenberg form: element (i, k) is taken up into (i - 1, k), from the last row on. */
static void reduce(double *h, double *z, int64_t n)
{
    for (int64_t k = 0; k + 2 < n; k++) {
        for (int64_t i = n - 1; i > k + 1; i--) {
            reflector r = reflector_of(2, &AT(h, i - 1, k));
            reflect_both(&r, h, z, n, i - 1, k, n - 1, 0, n - 1);
            AT(h, i, k) = 0;
        }
    }
}

/* One double step on rows and columns lo .. hi, of which there are at least three. */
static void step_twice(double *h, double *z, int64_t n, int64_t lo, int64_t hi, bool is_exceptional)
{
    double sum = AT(h, hi - 1, hi - 1) + AT(h, hi, hi);
    double product = AT(h, hi - 1, hi - 1) * AT(h, hi, hi) - AT(h, hi - 1, hi) * AT(h, hi, hi - 1);
    if (is_exceptional) {
        double s = fabs(AT(h, hi, hi - 1)) + fabs(AT(h, hi - 1, hi - 2));
        sum = 1.5 * s;
        product = s * s;
    }
    double a = AT(h, lo, lo), c = AT(h, lo + 1, lo);
    double x[3] = {a * (a - sum) + product + AT(h, lo, lo + 1) * c,
                   c * (a + AT(h, lo + 1, lo + 1) - sum), c * AT(h, lo + 2, lo + 1)};
    for (int64_t k = lo; k < hi; k++) {
        int count = k < hi - 1 ? 3 : 2;
        reflector r = reflector_of(count, x);
        reflect_both(&r, h, z, n, k, gx_max(lo, k - 1), z != NULL ? n - 1 : hi, z != NULL ? 0 : lo,
                     gx_min(k + 3, hi));
        if (k > lo) {
            AT(h, k + 1, k - 1) = 0;
            if (count == 3) {
                AT(h, k + 2, k - 1) = 0;
            }
        }
        if (k + 1 < hi) {
            x[0] = AT(h, k + 1, k);
            x[1] = AT(h, k + 2, k);
            x[2] = k + 3 <= hi ? AT(h, k + 3, k) : 0;
        }
    }
}

/* Rows and columns hi - 1, hi to a triangle where their eigenvalues are real. */
static void split_pair(double *h, double *z, int64_t n, int64_t hi)
{
    double d = AT(h, hi, hi), c = AT(h, hi, hi - 1), p = (AT(h, hi - 1, hi - 1) - d) / 2;
    double q = p * p + AT(h, hi - 1, hi) * c;
    if (q >= 0 && c != 0) { // (far, c) is an eigenvector: reflected to the first axis
        reflector r = reflector_of(2, (double[]){p + copysign(sqrt(q), p), c});
        reflect_both(&r, h, z, n, hi - 1, hi - 1, n - 1, 0, hi);
        AT(h, hi, hi - 1) = 0;
    }
}

/* The two eigenvalues of rows and columns hi - 1, hi. */
static void pair_of(const double *h, int64_t n, int64_t hi, gx_scalar *values)
{
    double d = AT(h, hi, hi), p = (AT(h, hi - 1, hi - 1) - d) / 2;
    double bc = AT(h, hi - 1, hi) * AT(h, hi, hi - 1), q = p * p + bc;
    if (q < 0) {
        values[hi - 1] = (gx_scalar){d + p, sqrt(-q)};
        values[hi] = (gx_scalar){d + p, -sqrt(-q)};
        return;
    }
    double far = p + copysign(sqrt(q), p);
    values[hi - 1] = (gx_scalar){d + far, 0};
    values[hi] = (gx_scalar){far == 0 ? d : d - bc / far, 0};
}

static double whole_size(const double *h, int64_t count)
{
    long double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += (long double)h[i] * h[i];
    }
    return (double)sqrtl(sum);
}

/* h = its Schur form where there is a z, which gathers the turns; else only values are right. */
static bool real_values(double *h, double *z, int64_t n, gx_scalar *values)
{
    reduce(h, z, n);
    double size = whole_size(h, n * n);
    int step = 0;
    for (int64_t hi = n - 1; hi >= 0;) {
        int64_t lo = hi;
        for (; lo > 0; lo--) {
            double beside = fabs(AT(h, lo - 1, lo - 1)) + fabs(AT(h, lo, lo));
            if (fabs(AT(h, lo, lo - 1)) <= NEGLIGIBLE * (beside == 0 ? size : beside)) {
                AT(h, lo, lo - 1) = 0;
                break;
            }
        }
        if (hi - lo < 2) {
            if (z != NULL && lo < hi) {
                split_pair(h, z, n, hi);
                lo = AT(h, hi, hi - 1) == 0 ? hi : lo;
            }
            if (lo == hi) {
                values[hi] = (gx_scalar){AT(h, hi, hi), 0};
            } else {
                pair_of(h, n, hi, values);
            }
            hi = lo - 1;
            step = 0;
        } else if (step++ == STEPS_MOST) {
            return false;
        } else {
            step_twice(h, z, n, lo, hi, step % 10 == 0);
        }
    }
    return true;
}

// Vectors -----------------------------------------------------------------------------------------

/* The elements of b, the same for the same value: splitmix64, uniform in [-1, 1). */
static double number(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return (double)(int64_t)(z ^ z >> 31) * 0x1p-63;
}

/* x = x / ||x||, with the exponents of long double; returns ||x||. */
static double normalise(gx_scalar *x, int64_t n)
{
    long double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (long double)x[i].re * x[i].re + (long double)x[i].im * x[i].im;
    }
    double length = (double)sqrtl(sum);
    for (int64_t i = 0; i < n && length > 0; i++) {
        x[i] = (gx_scalar){x[i].re / length, x[i].im / length};
    }
    return length;
}

/* x -= f y. */
static void take_away(gx_scalar *x, gx_scalar f, gx_scalar y)
{
    *x = gx_scalar_minus(*x, times(f, y));
}

/* lu = P (op(a) - value I) = L U in place, rows exchanged as it goes; row[j]: with which. */
static void factor(const gx_scalar *a, int64_t n, bool is_adjoint, gx_scalar value, gx_scalar *lu,
                   gx_scalar *row)
{
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            gx_scalar x = is_adjoint ? conjugate(AT(a, j, i)) : AT(a, i, j);
            AT(lu, i, j) = i == j ? gx_scalar_minus(x, value) : x;
        }
    }
    for (int64_t j = 0; j < n; j++) {
        int64_t best = j;
        for (int64_t i = j + 1; i < n; i++) {
            gx_scalar x = AT(lu, i, j), y = AT(lu, best, j);
            best = hypot(x.re, x.im) > hypot(y.re, y.im) ? i : best;
        }
        row[j].re = (double)best;
        for (int64_t l = 0; l < n && best != j; l++) {
            gx_scalar x = AT(lu, j, l);
            AT(lu, j, l) = AT(lu, best, l);
            AT(lu, best, l) = x;
        }
        gx_scalar *pivot = &AT(lu, j, j);
        if (hypot(pivot->re, pivot->im) < NEGLIGIBLE) { // the largest element of a is about 1
            *pivot = (gx_scalar){NEGLIGIBLE, 0};
        }
        for (int64_t i = j + 1; i < n; i++) {
            AT(lu, i, j) = quotient(GX_C128, AT(lu, i, j), *pivot);
        }
        for (int64_t l = j + 1; l < n; l++) {
            for (int64_t i = j + 1; i < n; i++) {
                take_away(&AT(lu, i, l), AT(lu, i, j), AT(lu, j, l));
            }
        }
    }
}

/* x = U^-1 L^-1 P x to length 1; returns how much longer it was. */
static double solve(const gx_scalar *lu, const gx_scalar *row, int64_t n, gx_scalar *x)
{
    for (int64_t j = 0; j < n; j++) {
        int64_t other = (int64_t)row[j].re;
        gx_scalar t = x[j];
        x[j] = x[other];
        x[other] = t;
    }
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = j + 1; i < n; i++) {
            take_away(&x[i], AT(lu, i, j), x[j]);
        }
    }
    double shrunk = 1;
    for (int64_t j = n - 1; j >= 0; j--) {
        x[j] = quotient(GX_C128, x[j], AT(lu, j, j));
        if (hypot(x[j].re, x[j].im) > 0x1p300) {
            for (int64_t i = 0; i < n; i++) {
                x[i] = (gx_scalar){x[i].re * 0x1p-300, x[i].im * 0x1p-300};
            }
            shrunk = (double)INFINITY;
        }
        for (int64_t i = 0; i < j; i++) {
            take_away(&x[i], AT(lu, i, j), x[j]);
        }
    }
    return normalise(x, n) * shrunk;
}

/*
** One vector into column j of out.  The residual is 1 / growth: tries go on until that is
** rounding's, each from other numbers (a second step from the first one's result may well be worse
** where left and right vectors are nearly orthogonal), and the best one stays.
*/
GX_INLINE void find_vector(gx_number out_dtype, bool is_complex, const gx_scalar *lu,
                           const gx_scalar *row, int64_t n, int64_t j, gx_scalar *x, void *out,
                           int64_t ld)
{
    enum { TRIES = 6 };
    double enough = 0.25 / NEGLIGIBLE / (double)n, best = -1;
    uint64_t state = (uint64_t)j;
    for (int t = 0; t < TRIES && best < enough; t++) {
        for (int64_t i = 0; i < n; i++) {
            x[i].re = number(&state);
            x[i].im = is_complex ? number(&state) : 0;
        }
        normalise(x, n);
        double growth = solve(lu, row, n, x);
        for (int64_t i = 0; i < n && growth > best; i++) {
            store(out_dtype, out, ld, i, j, x[i]);
        }
        best = fmax(best, growth);
    }
}

/* All vectors of op(a) into out, of the complex dtype; of a conjugate pair only the first one. */
GX_INLINE void give_vectors(gx_number out_dtype, bool is_real, bool is_adjoint, const gx_scalar *a,
                            const gx_scalar *values, int64_t n, gx_scalar *lu, gx_scalar *x,
                            gx_scalar *row, void *out, int64_t ld)
{
    for (int64_t j = 0; j < n; j++) {
        gx_scalar value = is_adjoint ? conjugate(values[j]) : values[j];
        if (is_real && values[j].im < 0) {
            for (int64_t i = 0; i < n; i++) {
                store(out_dtype, out, ld, i, j, conjugate(load(out_dtype, out, ld, i, j - 1)));
            }
            continue;
        }
        factor(a, n, is_adjoint, value, lu, row);
        find_vector(out_dtype, !is_real || value.im != 0, lu, row, n, j, x, out, ld);
    }
}

/* a = c / its largest part, which is returned; 1 for no elements and zeros. */
static double load_scaled(gx_number dtype, const gx_args *p, gx_scalar *a)
{
    int64_t n = p->n;
    double largest = 0;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            gx_scalar x = load(dtype, p->c, p->ldc, i, j);
            largest = fmax(largest, fmax(fabs(x.re), fabs(x.im)));
            AT(a, i, j) = x;
        }
    }
    largest = largest == 0 ? 1 : largest;
    for (int64_t i = 0; i < n * n; i++) {
        a[i] = (gx_scalar){a[i].re / largest, a[i].im / largest};
    }
    return largest;
}

/* Values into values[], a / largest in a; h is overwritten. */
static bool find_values(const gx_scalar *a, bool is_real, int64_t n, gx_scalar *h,
                        gx_scalar *values)
{
    bool is_good;
    if (is_real) {
        double *real = (double *)h;
        for (int64_t i = 0; i < n * n; i++) {
            real[i] = a[i].re;
        }
        return real_values(real, NULL, n, values);
    }
    memcpy(h, a, (size_t)(n * n) * sizeof *h);
    is_good = gx_oracle_schur(h, NULL, n);
    for (int64_t i = 0; i < n; i++) {
        values[i] = AT(h, i, i);
    }
    return is_good;
}

GX_INLINE gx_code geev(gx_number dtype, const gx_args *p, gx_err *err)
{
    (void)err;
    int64_t n = p->n;
    bool is_real = !gx_number_is_complex(dtype);
    gx_number out = gx_number_is_double(dtype) ? GX_C128 : GX_C64;
    gx_scalar *a = p->work, *lu = a + n * n, *x = lu + n * n, *row = x + n, *values = row + n;
    double largest = load_scaled(dtype, p, a);
    *p->info = find_values(a, is_real, n, lu, values) ? 0 : 1;
    if (p->wants_right) {
        give_vectors(out, is_real, false, a, values, n, lu, x, row, p->right, p->ldright);
    }
    if (p->wants_left) {
        give_vectors(out, is_real, true, a, values, n, lu, x, row, p->left, p->ldleft);
    }
    for (int64_t j = 0; j < n; j++) {
        gx_scalar value = {values[j].re * largest, values[j].im * largest};
        store(out, p->values, 1, 0, j, value);
    }
    return GX_OK;
}

/* All of GEES for a real dtype; false: the iteration did not converge. */
static bool real_schur(gx_number dtype, const gx_args *p)
{
    int64_t n = p->n;
    gx_number out = gx_number_is_double(dtype) ? GX_C128 : GX_C64;
    gx_scalar *a = p->work, *values = a + n * n;
    double *h = (double *)a, *z = h + n * n; // both halves of the first
    double largest = load_scaled(dtype, p, a);
    for (int64_t i = 0; i < n * n; i++) {
        h[i] = a[i].re;
    }
    for (int64_t i = 0; i < n * n; i++) {
        z[i] = i % (n + 1) == 0 ? 1 : 0;
    }
    bool is_good = real_values(h, z, n, values);
    for (int64_t j = 0; j < n; j++) {
        gx_scalar value = {values[j].re * largest, values[j].im * largest};
        store(out, p->values, 1, 0, j, value);
        for (int64_t i = 0; i < n; i++) {
            double x = i > j + 1 ? 0 : AT(h, i, j) * largest;
            store(dtype, p->c, p->ldc, i, j, (gx_scalar){x, 0});
            if (p->wants_right) {
                store(dtype, p->right, p->ldright, i, j, (gx_scalar){AT(z, i, j), 0});
            }
        }
    }
    return is_good;
}

GX_INLINE gx_code gees(gx_number dtype, const gx_args *p, gx_err *err)
{
    (void)err;
    if (!gx_number_is_complex(dtype)) {
        *p->info = real_schur(dtype, p) ? 0 : 1;
        return GX_OK;
    }
    int64_t n = p->n;
    gx_scalar *h = p->work, *z = h + n * n;
    double largest = load_scaled(dtype, p, h);
    *p->info = gx_oracle_schur(h, z, n) ? 0 : 1;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            gx_scalar x = i > j ? (gx_scalar){0, 0} : AT(h, i, j);
            x = (gx_scalar){x.re * largest, x.im * largest};
            store(dtype, p->c, p->ldc, i, j, x);
            if (i == j) {
                store(dtype, p->values, 1, 0, j, x);
            }
            if (p->wants_right) {
                store(dtype, p->right, p->ldright, i, j, AT(z, i, j));
            }
        }
    }
    return GX_OK;
}

GX_SLOTS_DEFINE(, gx_oracle_geev, geev)
GX_SLOTS_DEFINE(, gx_oracle_gees, gees)
