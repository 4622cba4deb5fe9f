/*
** The oracle of the tests: singular values.  See kernels/ref.c for the manner.
**
** One-sided Jacobi (Hestenes 1958): columns i and j of W are rotated until they are orthogonal,
** all pairs in turn, sweep after sweep, until a whole sweep finds nothing to do.  Then W = U S, and
** the product of the rotations is V: A = W V^H.  A wide matrix has its conjugate transpose worked
** on: A^H = U' S V'^H is A = V' S U'^H.
**
** Everything is complex double in `work`: W (longer side x shorter side, square when is_full), V,
** and the lengths of W's columns.  Inner products are taken in long double, whose exponents are
** long enough for the squares of doubles.  Columns of U that belong to a singular value of 0, and
** those that is_full adds, are unit vectors made orthogonal to the others, twice.
*/
#include "oracle_int.h"

/* A pair is orthogonal when its cosine is below this; a matrix needs about ten sweeps. */
static const double ORTHOGONAL = 0x1p-52;
enum { SWEEPS_MOST = 80 };

/*
** A column beyond the rank loses sixteen digits in each sweep, until it is so short (beside the
** largest element, 1) that its elements would become subnormal, never to be orthogonal: it is 0.
*/
static const double SHORT = 1e-290;

/* The work space. */
typedef struct jacobi {
    int64_t p, q;       /* longer and shorter side                   */
    int64_t u_cols;     /* of W, at the end: q, or p when is_full    */
    gx_scalar *w, *v;   /* p x u_cols, q x q                         */
    double *length;     /* q: of W's columns                         */
    bool is_transposed; /* W began as c^H                            */
    bool wants_vectors;
} jacobi;

static jacobi jacobi_of(const gx_args *a)
{
    jacobi s = {.p = gx_max(a->m, a->n), .q = gx_min(a->m, a->n), .is_transposed = a->m < a->n};
    s.wants_vectors = a->wants_left;
    s.u_cols = s.wants_vectors && a->is_full ? s.p : s.q;
    s.w = a->work;
    s.v = s.w == NULL ? NULL : s.w + s.p * s.u_cols;
    s.length = s.w == NULL ? NULL : (double *)(s.v + s.q * s.q);
    return s;
}

size_t gx_oracle_svd_bytes(const gx_args *a)
{
    gx_args sizes = *a;
    sizes.work = NULL;
    jacobi s = jacobi_of(&sizes);
    size_t u, v;
    gx_matrix_bytes(s.p, s.u_cols, GX_C128, &u);
    gx_matrix_bytes(s.q, s.q, GX_C128, &v);
    return u + v + (size_t)s.q * sizeof(double);
}

/* x^H y. */
static gx_scalar inner(const gx_scalar *x, const gx_scalar *y, int64_t n)
{
    long double re = 0, im = 0;
    for (int64_t i = 0; i < n; i++) {
        re += (long double)x[i].re * y[i].re + (long double)x[i].im * y[i].im;
        im += (long double)x[i].re * y[i].im - (long double)x[i].im * y[i].re;
    }
    return (gx_scalar){(double)re, (double)im};
}

static double length_of(const gx_scalar *x, int64_t n)
{
    long double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (long double)x[i].re * x[i].re + (long double)x[i].im * x[i].im;
    }
    return (double)sqrtl(sum);
}

/* x = cs x - sn phase^* y, y = sn x + cs phase^* y. */
static void rotate(gx_scalar *x, gx_scalar *y, int64_t n, double cs, double sn, gx_scalar phase)
{
    for (int64_t i = 0; i < n; i++) {
        gx_scalar turned = times(conjugate(phase), y[i]), old = x[i];
        x[i] = (gx_scalar){cs * old.re - sn * turned.re, cs * old.im - sn * turned.im};
        y[i] = (gx_scalar){sn * old.re + cs * turned.re, sn * old.im + cs * turned.im};
    }
}

/* Make columns i and j orthogonal; false where they are. */
static bool turn_pair(const jacobi *s, int64_t i, int64_t j)
{
    gx_scalar *x = s->w + i * s->p, *y = s->w + j * s->p;
    double a = length_of(x, s->p), b = length_of(y, s->p);
    if (a < SHORT || b < SHORT) {
        memset(a < SHORT ? x : y, 0, (size_t)s->p * sizeof *x);
        return false;
    }
    // Of the columns divided by their lengths, so that nothing under- or overflows.
    gx_scalar c = inner(x, y, s->p);
    c = (gx_scalar){c.re / a / b, c.im / a / b};
    double cosine = hypot(c.re, c.im);
    if (!(cosine > ORTHOGONAL)) {
        return false;
    }
    gx_scalar phase = {c.re / cosine, c.im / cosine};
    double zeta = (b / a - a / b) / (2 * cosine);
    double t = copysign(1, zeta) / (fabs(zeta) + hypot(1, zeta));
    double cs = 1 / hypot(1, t);
    rotate(x, y, s->p, cs, cs * t, phase);
    rotate(s->v + i * s->q, s->v + j * s->q, s->q, cs, cs * t, phase);
    return true;
}

/* false: not orthogonal after SWEEPS_MOST sweeps. */
static bool turn_all(const jacobi *s)
{
    for (int sweep = 0; sweep < SWEEPS_MOST; sweep++) {
        bool is_done = true;
        for (int64_t i = 0; i < s->q; i++) {
            for (int64_t j = i + 1; j < s->q; j++) {
                is_done = !turn_pair(s, i, j) && is_done;
            }
        }
        if (is_done) {
            return true;
        }
    }
    return false;
}

static void swap_columns(gx_scalar *x, int64_t n, int64_t i, int64_t j)
{
    for (int64_t l = 0; l < n && i != j; l++) {
        gx_scalar t = x[i * n + l];
        x[i * n + l] = x[j * n + l];
        x[j * n + l] = t;
    }
}

/* Lengths descending, the columns of W and V with them. */
static void sort_columns(const jacobi *s)
{
    for (int64_t i = 0; i < s->q; i++) {
        int64_t best = i;
        for (int64_t j = i + 1; j < s->q; j++) {
            best = s->length[j] > s->length[best] ? j : best;
        }
        double t = s->length[i];
        s->length[i] = s->length[best];
        s->length[best] = t;
        swap_columns(s->w, s->p, i, best);
        swap_columns(s->v, s->q, i, best);
    }
}

/* Column j of W: a unit vector orthogonal to the columns before it. */
static void complete(const jacobi *s, int64_t j)
{
    // The axis that the columns so far cover least.
    int64_t axis = 0;
    double least = (double)INFINITY;
    for (int64_t i = 0; i < s->p; i++) {
        double covered = 0;
        for (int64_t l = 0; l < j; l++) {
            gx_scalar x = s->w[l * s->p + i];
            covered += x.re * x.re + x.im * x.im;
        }
        if (covered < least) {
            least = covered;
            axis = i;
        }
    }
    gx_scalar *x = s->w + j * s->p;
    for (int64_t i = 0; i < s->p; i++) {
        x[i] = (gx_scalar){i == axis ? 1 : 0, 0};
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t l = 0; l < j; l++) {
            gx_scalar part = inner(s->w + l * s->p, x, s->p);
            for (int64_t i = 0; i < s->p; i++) {
                x[i] = gx_scalar_minus(x[i], times(part, s->w[l * s->p + i]));
            }
        }
        double length = length_of(x, s->p);
        for (int64_t i = 0; i < s->p; i++) {
            x[i] = (gx_scalar){x[i].re / length, x[i].im / length};
        }
    }
}

static void normalise(const jacobi *s)
{
    for (int64_t j = 0; j < s->u_cols; j++) {
        double length = j < s->q ? s->length[j] : 0;
        if (length == 0) {
            complete(s, j);
            continue;
        }
        for (int64_t i = 0; i < s->p; i++) {
            gx_scalar *x = &s->w[j * s->p + i];
            *x = (gx_scalar){x->re / length, x->im / length};
        }
    }
}

/* W = c / largest (or its conjugate transpose), V = I; returns the largest part, 1 for none. */
GX_INLINE double begin(gx_number dtype, const gx_args *a, const jacobi *s)
{
    double largest = 0;
    for (int64_t j = 0; j < a->n; j++) {
        for (int64_t i = 0; i < a->m; i++) {
            gx_scalar x = load(dtype, a->c, a->ldc, i, j);
            largest = fmax(largest, fmax(fabs(x.re), fabs(x.im)));
        }
    }
    largest = largest == 0 ? 1 : largest;
    for (int64_t j = 0; j < s->q; j++) {
        for (int64_t i = 0; i < s->p; i++) {
            gx_scalar x = s->is_transposed ? conjugate(load(dtype, a->c, a->ldc, j, i))
                                           : load(dtype, a->c, a->ldc, i, j);
            s->w[j * s->p + i] = (gx_scalar){x.re / largest, x.im / largest};
        }
        for (int64_t i = 0; i < s->q; i++) {
            s->v[j * s->q + i] = (gx_scalar){i == j ? 1 : 0, 0};
        }
    }
    return largest;
}

/* U and V^H out of W and V. */
GX_INLINE void give_vectors(gx_number dtype, const gx_args *a, const jacobi *s)
{
    for (int64_t j = 0; j < s->u_cols; j++) {
        for (int64_t i = 0; i < s->p; i++) {
            gx_scalar x = s->w[j * s->p + i];
            if (s->is_transposed) {
                store(dtype, a->right, a->ldright, j, i, conjugate(x));
            } else {
                store(dtype, a->left, a->ldleft, i, j, x);
            }
        }
    }
    for (int64_t j = 0; j < s->q; j++) {
        for (int64_t i = 0; i < s->q; i++) {
            gx_scalar x = s->v[j * s->q + i];
            if (s->is_transposed) {
                store(dtype, a->left, a->ldleft, i, j, x);
            } else {
                store(dtype, a->right, a->ldright, j, i, conjugate(x));
            }
        }
    }
}

GX_INLINE gx_code gesdd(gx_number dtype, const gx_args *a, gx_err *err)
{
    (void)err;
    jacobi s = jacobi_of(a);
    gx_number real = gx_number_is_double(dtype) ? GX_F64 : GX_F32;
    double largest = begin(dtype, a, &s);
    *a->info = turn_all(&s) ? 0 : 1;
    for (int64_t j = 0; j < s.q; j++) {
        s.length[j] = length_of(s.w + j * s.p, s.p);
    }
    sort_columns(&s);
    for (int64_t j = 0; j < s.q; j++) {
        store(real, a->values, 1, 0, j, (gx_scalar){s.length[j] * largest, 0});
    }
    if (s.wants_vectors) {
        normalise(&s);
        give_vectors(dtype, a, &s);
    }
    return GX_OK;
}

GX_SLOTS_DEFINE(, gx_oracle_gesdd, gesdd)
