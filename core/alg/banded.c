/*
** Band systems: see banded.h.
**
** Gaussian elimination with partial pivoting in the band (as LAPACK's gbtf2): an exchange of rows
** moves at most `lower` more elements to the right, so that U has lower + upper bands above its
** diagonal.  The right-hand sides are eliminated along with it: L is not kept.
*/
#include "banded.h"

#include "dense.h"

#include <math.h>
#include <string.h>

typedef struct work {
    gx_run *run;
    const gx_banded *A;
    double *f;     /* the factor: (2 lower + upper + 1) x n; a[i,j] is its row `top` + i - j */
    int64_t top;   /* lower + upper                                                          */
    int64_t ld;    /* of f                                                                   */
    int64_t width; /* doubles of a number: 1 or 2                                            */
    double *x;     /* the right-hand sides, n x cols                                         */
    int64_t cols;
} work;

static double *at(const work *w, int64_t i, int64_t j)
{
    return w->f + (j * w->ld + w->top + i - j) * w->width;
}

static double *of_side(const work *w, int64_t i, int64_t j)
{
    return w->x + (j * w->A->n + i) * w->width;
}

static gx_scalar get(const work *w, const double *x)
{
    return (gx_scalar){x[0], w->width == 2 ? x[1] : 0};
}

/* y -= x times z: `count` numbers. */
static void subtract(const work *w, double *y, const double *x, gx_scalar z, int64_t count)
{
    if (w->width == 1) {
        for (int64_t i = 0; i < count; i++) {
            y[i] -= x[i] * z.re;
        }
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        double re = x[2 * i], im = x[2 * i + 1];
        y[2 * i] -= re * z.re - im * z.im;
        y[2 * i + 1] -= re * z.im + im * z.re;
    }
}

/* a / b, by Smith's formula. */
static gx_scalar divide(gx_scalar a, gx_scalar b)
{
    if (b.im == 0) {
        return (gx_scalar){a.re / b.re, a.im / b.re};
    }
    bool is_steep = fabs(b.im) > fabs(b.re);
    double ratio = is_steep ? b.re / b.im : b.im / b.re;
    double bottom = is_steep ? b.re * ratio + b.im : b.re + b.im * ratio;
    return is_steep ? (gx_scalar){(a.re * ratio + a.im) / bottom, (a.im * ratio - a.re) / bottom}
                    : (gx_scalar){(a.re + a.im * ratio) / bottom, (a.im - a.re * ratio) / bottom};
}

static void put(const work *w, double *x, gx_scalar value)
{
    x[0] = value.re;
    if (w->width == 2) {
        x[1] = value.im;
    }
}

/* `x` and `y` change places: one number. */
static void exchange(const work *w, double *x, double *y)
{
    for (int64_t k = 0; k < w->width; k++) {
        double kept = x[k];
        x[k] = y[k];
        y[k] = kept;
    }
}

/* The bands as a factor begins: zeros where rows that are exchanged put something. */
static void load(const work *w)
{
    const gx_banded *A = w->A;
    int64_t rows = A->lower + A->upper + 1;
    for (int64_t j = 0; j < A->n; j++) {
        int64_t first = gx_max(0, j - A->upper), end = gx_min(A->n, j + A->lower + 1);
        size_t bytes = (size_t)((end - first) * w->width) * sizeof(double);
        const double *from =
            (const double *)A->bands + (j * rows + A->upper + first - j) * w->width;
        memset(w->f + j * w->ld * w->width, 0, (size_t)(w->ld * w->width) * sizeof(double));
        memcpy(at(w, first, j), from, bytes);
        for (int64_t k = 0; k < (end - first) * w->width; k++) {
            if (!isfinite(from[k])) {
                gx_run_failf(w->run, GX_NUMERIC, "%s[%lld,%lld] is not finite", A->label,
                             (long long)(A->upper + first - j + k / w->width), (long long)j);
                return;
            }
        }
    }
}

/* The row from j on with the largest element of column j. */
static int64_t pivot_of(const work *w, int64_t j, int64_t end)
{
    int64_t best = j;
    double most = -1;
    for (int64_t i = j; i < end; i++) {
        gx_scalar x = get(w, at(w, i, j));
        double size = w->width == 1 ? fabs(x.re) : hypot(x.re, x.im);
        if (size > most) {
            most = size;
            best = i;
        }
    }
    return best;
}

/* Step j of the elimination; false: the pivot is zero. */
static bool eliminate(const work *w, int64_t j)
{
    const gx_banded *A = w->A;
    int64_t end = gx_min(A->n, j + A->lower + 1), right = gx_min(A->n, j + w->top + 1);
    int64_t p = pivot_of(w, j, end), count = end - j - 1;
    gx_scalar pivot = get(w, at(w, p, j));
    if (pivot.re == 0 && pivot.im == 0) {
        return false;
    }
    for (int64_t k = j; p != j && k < right; k++) {
        exchange(w, at(w, p, k), at(w, j, k));
    }
    for (int64_t i = j + 1; i < end; i++) {
        put(w, at(w, i, j), divide(get(w, at(w, i, j)), pivot));
    }
    for (int64_t k = j + 1; k < right && count > 0; k++) {
        subtract(w, at(w, j + 1, k), at(w, j + 1, j), get(w, at(w, j, k)), count);
    }
    for (int64_t k = 0; k < w->cols; k++) {
        if (p != j) {
            exchange(w, of_side(w, p, k), of_side(w, j, k));
        }
        subtract(w, of_side(w, j, k) + w->width, at(w, j, j) + w->width, get(w, of_side(w, j, k)),
                 count);
    }
    return true;
}

/* x = U^-1 x, one step of each column. */
static void substitute(const work *w, int64_t j)
{
    int64_t first = gx_max(0, j - w->top);
    for (int64_t k = 0; k < w->cols; k++) {
        gx_scalar x = divide(get(w, of_side(w, j, k)), get(w, at(w, j, j)));
        put(w, of_side(w, j, k), x);
        subtract(w, of_side(w, first, k), at(w, first, j), x, j - first);
    }
}

gx_code gx_alg_banded_solve(gx_run *run, const gx_banded *A, int64_t cols, void *x)
{
    const int64_t POLL = 256;
    int64_t ld = 2 * A->lower + A->upper + 1;
    work w = {.run = run,
              .A = A,
              .f = gx_dense_take(run, A->number, ld, A->n, "the factor of a band matrix"),
              .top = A->lower + A->upper,
              .ld = ld,
              .width = gx_number_is_complex(A->number) ? 2 : 1,
              .x = x,
              .cols = cols};
    if (gx_ok(run)) {
        load(&w);
    }
    for (int64_t j = 0; j < A->n && gx_ok(run); j++) {
        if (!eliminate(&w, j)) {
            gx_run_failf(run, GX_NUMERIC, "%s is singular (pivot %lld is exactly zero)", A->label,
                         (long long)(j + 1));
        } else if (j % POLL == 0) {
            gx_run_poll(run);
        }
    }
    for (int64_t j = A->n - 1; j >= 0 && gx_ok(run); j--) {
        substitute(&w, j);
        if (j % POLL == 0) {
            gx_run_poll(run);
        }
    }
    gx_mem_free(run->ctx->mem, w.f);
    return gx_ok(run) ? GX_OK : run->err.code;
}
