/*
** The oracle of the tests: Hermitian eigenvalues, and the complex Schur form (the real one is in
** oracle_geev.c).  See kernels/ref.c for the manner.
**
** SYEV: cyclic Jacobi.  A := J^H A J with a rotation J of rows and columns p, q that makes a_pq
** zero, all pairs in turn, sweep after sweep, until all of them are negligible.
**
** Schur form: rotations to Hessenberg form, then the QR algorithm with one implicit Wilkinson shift
** (Golub & Van Loan, chapter 7), by rotations; a subdiagonal element is negligible beside its
** two neighbours on the diagonal.  An exceptional shift every ten steps breaks cycles.
**
** Everything is complex double in `work`, divided by the largest element.
*/
#include "oracle_int.h"

static const double NEGLIGIBLE = 0x1p-53;
enum { SWEEPS_MOST = 80, STEPS_MOST = 60 }; // of Jacobi; of QR for one eigenvalue

/* Element (i, j) of an n x n matrix of the work space. */
#define AT(x, i, j) ((x)[(j)*n + (i)])

static double size_of(gx_scalar x)
{
    return hypot(x.re, x.im);
}

/* Frobenius norm. */
static double whole_size(const gx_scalar *x, int64_t count)
{
    long double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += (long double)x[i].re * x[i].re + (long double)x[i].im * x[i].im;
    }
    return (double)sqrtl(sum);
}

static void set_unit(gx_scalar *x, int64_t n)
{
    for (int64_t i = 0; i < n * n; i++) {
        x[i] = (gx_scalar){i % (n + 1) == 0 ? 1 : 0, 0};
    }
}

/* A unitary 2 x 2: (x, y) -> (cs x + s y, -s^* x + cs y). */
typedef struct rotation {
    double cs;
    gx_scalar s;
} rotation;

/* Lines x and y of count elements, stride apart; is_right: columns times the adjoint. */
static void turn(gx_scalar *x, gx_scalar *y, int64_t count, int64_t stride, rotation r,
                 bool is_right)
{
    gx_scalar s = is_right ? conjugate(r.s) : r.s;
    for (int64_t i = 0; i < count; i++, x += stride, y += stride) {
        gx_scalar a = *x, b = *y;
        *x = add((gx_scalar){r.cs * a.re, r.cs * a.im}, times(s, b));
        *y = gx_scalar_minus((gx_scalar){r.cs * b.re, r.cs * b.im}, times(conjugate(s), a));
    }
}

// Jacobi ------------------------------------------------------------------------------------------

/* Make a_pq zero; false where it is negligible. */
static bool turn_pair(gx_scalar *a, gx_scalar *v, int64_t n, int64_t p, int64_t q, double size)
{
    gx_scalar c = AT(a, p, q);
    double off = size_of(c);
    if (!(off > NEGLIGIBLE / 2 * size / (double)n)) {
        return false;
    }
    double theta = (AT(a, q, q).re - AT(a, p, p).re) / (2 * off);
    double t = copysign(1, theta) / (fabs(theta) + hypot(1, theta));
    double cs = 1 / hypot(1, t);
    // Row p becomes cs p - sn phase q, row q the rest; columns with the conjugates.
    rotation r = {cs, {-cs * t * c.re / off, -cs * t * c.im / off}};
    turn(&AT(a, p, 0), &AT(a, q, 0), n, n, r, false);
    turn(&AT(a, 0, p), &AT(a, 0, q), n, 1, r, true);
    turn(&AT(v, 0, p), &AT(v, 0, q), n, 1, r, true);
    return true;
}

static bool diagonalise(gx_scalar *a, gx_scalar *v, int64_t n)
{
    double size = whole_size(a, n * n);
    for (int sweep = 0; sweep < SWEEPS_MOST; sweep++) {
        bool is_done = true;
        for (int64_t p = 0; p < n; p++) {
            for (int64_t q = p + 1; q < n; q++) {
                is_done = !turn_pair(a, v, n, p, q, size) && is_done;
            }
        }
        if (is_done) {
            return true;
        }
    }
    return false;
}

/* The whole matrix out of one triangle of c. */
GX_INLINE double load_hermitian(gx_number dtype, const gx_args *p, gx_scalar *a)
{
    int64_t n = p->n;
    double largest = 0;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            bool is_stored = in_triangle(p->uplo, i, j);
            gx_scalar x = load(dtype, p->c, p->ldc, is_stored ? i : j, is_stored ? j : i);
            x = i == j ? (gx_scalar){x.re, 0} : is_stored ? x : conjugate(x);
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

GX_INLINE gx_code syev(gx_number dtype, const gx_args *p, gx_err *err)
{
    (void)err;
    int64_t n = p->n;
    gx_number real = gx_number_is_double(dtype) ? GX_F64 : GX_F32;
    gx_scalar *a = p->work, *v = a + n * n;
    double largest = load_hermitian(dtype, p, a);
    set_unit(v, n);
    *p->info = diagonalise(a, v, n) ? 0 : 1;
    for (int64_t j = 0; j < n; j++) { // the smallest that is left
        int64_t best = 0;
        for (int64_t i = 1; i < n; i++) {
            best = AT(a, i, i).re < AT(a, best, best).re ? i : best;
        }
        store(real, p->values, 1, 0, j, (gx_scalar){AT(a, best, best).re * largest, 0});
        AT(a, best, best).re = (double)INFINITY;
        for (int64_t i = 0; i < n && p->wants_right; i++) {
            store(dtype, p->c, p->ldc, i, j, AT(v, i, best));
        }
    }
    return GX_OK;
}

// The complex Schur form --------------------------------------------------------------------------

/* The rotation that takes (x, y) to (r, 0). */
static rotation rotation_of(gx_scalar x, gx_scalar y)
{
    double a = size_of(x), b = size_of(y), r = hypot(a, b);
    if (b == 0) {
        return (rotation){1, {0, 0}};
    }
    gx_scalar phase = a == 0 ? (gx_scalar){1, 0} : (gx_scalar){x.re / a, x.im / a};
    gx_scalar s = times(phase, conjugate(y));
    return (rotation){a / r, {s.re / r, s.im / r}};
}

/* Rows and columns k, k + 1 of h turned, z with them; only what the steps need to be right. */
static void turn_both(gx_scalar *h, gx_scalar *z, int64_t n, int64_t k, int64_t first_col,
                      int64_t rows, rotation r)
{
    turn(&AT(h, k, first_col), &AT(h, k + 1, first_col), n - first_col, n, r, false);
    turn(&AT(h, 0, k), &AT(h, 0, k + 1), rows, 1, r, true);
    if (z != NULL) {
        turn(&AT(z, 0, k), &AT(z, 0, k + 1), n, 1, r, true);
    }
}

/* Hessenberg form by rotations of rows k + 1 and i. */
static void reduce(gx_scalar *h, gx_scalar *z, int64_t n)
{
    for (int64_t k = 0; k + 2 < n; k++) {
        for (int64_t i = n - 1; i > k + 1; i--) {
            rotation r = rotation_of(AT(h, i - 1, k), AT(h, i, k));
            turn_both(h, z, n, i - 1, k, n, r);
            AT(h, i, k) = (gx_scalar){0, 0};
        }
    }
}

/* The eigenvalue of the last 2 x 2 of the block that is nearer to its last element. */
static gx_scalar shift_of(const gx_scalar *h, int64_t n, int64_t hi, int step)
{
    gx_scalar d = AT(h, hi, hi), b = times(AT(h, hi - 1, hi), AT(h, hi, hi - 1));
    if (step % 10 == 9) {
        return (gx_scalar){d.re + size_of(AT(h, hi, hi - 1)), d.im};
    }
    gx_scalar a = AT(h, hi - 1, hi - 1);
    double complex p = complex_of((gx_scalar){(a.re - d.re) / 2, (a.im - d.im) / 2});
    double complex root = csqrt(p * p + complex_of(b));
    double complex far = cabs(p + root) >= cabs(p - root) ? p + root : p - root;
    double complex shift = far == 0 ? complex_of(d) : complex_of(d) - complex_of(b) / far;
    return (gx_scalar){creal(shift), cimag(shift)};
}

/* First row of the block that ends at hi and has no negligible subdiagonal element. */
static int64_t block_start(gx_scalar *h, int64_t n, int64_t hi, double size)
{
    for (int64_t l = hi; l > 0; l--) {
        double beside = size_of(AT(h, l - 1, l - 1)) + size_of(AT(h, l, l));
        if (size_of(AT(h, l, l - 1)) <= NEGLIGIBLE * (beside == 0 ? size : beside)) {
            AT(h, l, l - 1) = (gx_scalar){0, 0};
            return l;
        }
    }
    return 0;
}

bool gx_oracle_schur(gx_scalar *h, gx_scalar *z, int64_t n)
{
    if (z != NULL) {
        set_unit(z, n);
    }
    reduce(h, z, n);
    double size = whole_size(h, n * n);
    int step = 0;
    for (int64_t hi = n - 1; hi > 0;) {
        int64_t lo = block_start(h, n, hi, size);
        if (lo == hi) {
            hi--;
            step = 0;
            continue;
        }
        if (step++ == STEPS_MOST) {
            return false;
        }
        gx_scalar shift = shift_of(h, n, hi, step - 1);
        rotation r = rotation_of(gx_scalar_minus(AT(h, lo, lo), shift), AT(h, lo + 1, lo));
        for (int64_t k = lo; k < hi; k++) {
            if (k > lo) {
                r = rotation_of(AT(h, k, k - 1), AT(h, k + 1, k - 1));
            }
            turn_both(h, z, n, k, k > lo ? k - 1 : lo, gx_min(k + 3, hi + 1), r);
            if (k > lo) {
                AT(h, k + 1, k - 1) = (gx_scalar){0, 0};
            }
        }
    }
    return true;
}

size_t gx_oracle_spectrum_bytes(gx_kernel_id kernel, const gx_args *args)
{
    size_t n = (size_t)gx_max(args->n, 0);
    switch (kernel) {
    case GX_GESDD:
        return gx_oracle_svd_bytes(args);
    case GX_SYEV:
    case GX_GEES:
        return 2 * n * n * sizeof(gx_scalar);
    case GX_GEEV:
        return (2 * n * n + 3 * n) * sizeof(gx_scalar);
    default:
        return 0;
    }
}

GX_SLOTS_DEFINE(, gx_oracle_syev, syev)
