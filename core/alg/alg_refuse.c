/*
** What a matrix must be before, or turns out not to have been after, a factorisation: finite,
** symmetric, with no zero on the diagonal.  The first element that is not is named.
**
** One pass over what is looked at, on the caller's thread, through the caller's connection, in
** rectangles of at most PIECE elements of c128 (so one loop serves every dtype).  The diagonal is n
** reads of one element, spread over every page of its tiles: helper threads share a long one, and
** the caller names the first element that one of them refused.  These checks are before or beside
** the work, never inside it.
*/
#include "../base/decimal.h"
#include "../mat/stream.h"
#include "alg.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Elements of a rectangle that is looked at: 128 KiB of c128. */
enum { PIECE = 1 << 13 };

/* Side of the squares in which a matrix is compared with its transpose, where memory allows it. */
enum { SQUARE = 256, SMALLEST_SQUARE = 16 };

enum { ELEMENT_TEXT = 3 * GX_DECIMAL_MAX };

/* A rectangle of A as pairs of doubles. */
typedef struct window {
    gx_run *run;
    const gx_mat *A;
    gx_reader *own;
    gx_scalar *x;   /* column-major, no gaps */
    int64_t square; /* side of two squares that x has room for */
    int64_t i0, j0, m, n;
} window;

static gx_code open_window(gx_run *run, const gx_mat *A, size_t elements, window *w, gx_err *err)
{
    void *memory = NULL;
    *w = (window){.run = run, .A = A};
    GX_TRY(gx_mem_alloc(run->ctx->mem, elements * sizeof(gx_scalar), "a piece of a matrix", &memory,
                        err));
    w->x = memory;
    return gx_reader_own(run->ctx->store, &w->own, err);
}

static void close_window(window *w)
{
    gx_reader_close(w->own);
    gx_mem_free(w->run->ctx->mem, w->x);
}

/* Looks at the interrupt itself: the run may have failed already. */
static gx_code read_window(window *w, int64_t i0, int64_t j0, int64_t m, int64_t n, gx_scalar *x,
                           gx_err *err)
{
    if (gx_store_is_interrupted(w->run->ctx->store)) {
        return gx_fail(err, GX_INTERRUPT, "interrupted");
    }
    w->i0 = i0;
    w->j0 = j0;
    w->m = m;
    w->n = n;
    return gx_mat_read(w->run, w->A, w->own, i0, j0, m, n, GX_C128, x, gx_max(1, m), err);
}

static int format_real(gx_number dtype, double x, char *text)
{
    return gx_number_is_double(dtype) ? gx_decimal_format(x, text)
                                     : gx_decimal_format_f32((float)x, text);
}

/* "2.5", "1+2i". */
static const char *format_element(gx_number dtype, gx_scalar x, char text[ELEMENT_TEXT])
{
    int used = format_real(dtype, x.re, text);
    if (gx_number_is_complex(dtype)) {
        if (!(x.im < 0)) {
            text[used++] = '+';
        }
        used += format_real(dtype, x.im, text + used);
        text[used++] = 'i';
        text[used] = '\0';
    }
    return text;
}

static bool is_finite(gx_scalar x)
{
    return isfinite(x.re) && isfinite(x.im);
}

static gx_code fail_nonfinite(const gx_mat *A, int64_t i, int64_t j, gx_scalar x, gx_err *err)
{
    const char *what = isnan(x.re) || isnan(x.im) ? "NaN" : x.re < 0 || x.im < 0 ? "-Inf" : "Inf";
    return gx_fail(err, GX_ARG, "%s[%lld,%lld] is %s", A->label, (long long)i, (long long)j, what);
}

// The diagonal ------------------------------------------------------------------------------------

typedef gx_code (*look_fn)(const gx_mat *A, int64_t i, gx_scalar x, gx_err *err);

/* A long diagonal is spread over every page of its tiles: helpers share it. */
typedef struct diagonal {
    const gx_mat *A;
    look_fn look;
    int64_t count;
    _Atomic int64_t next; /* the first piece nobody has taken      */
    _Atomic int64_t bad;  /* the first element that is to be refused; count: none */
} diagonal;

static void note_bad(diagonal *d, int64_t i)
{
    int64_t bad = d->bad;
    while (i < bad && !atomic_compare_exchange_weak(&d->bad, &bad, i)) {
    }
}

static void look_along(void *arg, gx_helper *helper)
{
    enum { PIECE_ROWS = 256 };
    diagonal *d = arg;
    gx_run *run = helper->run;
    gx_reader *reader = gx_helper_reader(helper, d->A);
    for (int64_t i0; (i0 = atomic_fetch_add(&d->next, PIECE_ROWS)) < d->count && gx_ok(run);) {
        for (int64_t i = i0; i < gx_min(d->count, i0 + PIECE_ROWS) && gx_ok(run); i++) {
            gx_scalar x;
            gx_err err = {0}, refusal = {0};
            if (gx_mat_read(run, d->A, reader, i, i, 1, 1, GX_C128, &x, 1, &err) != GX_OK) {
                gx_run_fail(run, &err);
            } else if (d->look(d->A, i, x, &refusal) != GX_OK) {
                note_bad(d, i);
            }
        }
    }
}

/* Where the caller has to begin: at the first element that helpers would refuse; 0: no helpers. */
static int64_t look_with_helpers(gx_run *run, const gx_mat *A, look_fn look, int64_t count)
{
    enum { LONG = 4096 };
    diagonal d = {.A = A, .look = look, .count = count, .bad = count};
    gx_stream *stream = NULL;
    if (count >= LONG && gx_mat_base_stored(A) != NULL) {
        double bytes = (double)count * (double)LONG;
        gx_stream_start(run, &A, 1, (int)run->ctx->config.number[GX_SET_READERS], bytes, look_along,
                        &d, &stream);
    }
    bool is_shared = stream != NULL;
    gx_stream_stop(stream);
    return is_shared ? d.bad : 0;
}

static gx_code look_at_diagonal(gx_run *run, const gx_mat *A, look_fn look)
{
    if (!gx_ok(run)) {
        return run->err.code;
    }
    window w;
    gx_err err = {0};
    int64_t count = gx_min(A->rows, A->cols), first = look_with_helpers(run, A, look, count);
    gx_code code = open_window(run, A, 1, &w, &err);
    for (int64_t i = first; i < count && code == GX_OK && gx_ok(run); i++) {
        code = read_window(&w, i, i, 1, 1, w.x, &err);
        if (code == GX_OK) {
            code = look(A, i, w.x[0], &err);
        }
    }
    close_window(&w);
    return gx_run_fail(run, &err);
}

static gx_code refuse_zero(const gx_mat *A, int64_t i, gx_scalar x, gx_err *err)
{
    return x.re != 0 || x.im != 0 ? GX_OK
                                  : gx_fail(err, GX_NUMERIC, "%s is singular (%s[%lld,%lld] = 0)",
                                            A->label, A->label, (long long)i, (long long)i);
}

/* The imaginary part of a Hermitian matrix's diagonal counts as 0. */
static gx_code refuse_nonfinite_pivot(const gx_mat *A, int64_t i, gx_scalar x, gx_err *err)
{
    return isfinite(x.re) ? GX_OK : fail_nonfinite(A, i, i, (gx_scalar){x.re, 0}, err);
}

gx_code gx_alg_refuse_zero_pivot(gx_run *run, const gx_mat *A)
{
    return look_at_diagonal(run, A, refuse_zero);
}

gx_code gx_alg_refuse_nonfinite_diagonal(gx_run *run, const gx_mat *A)
{
    return look_at_diagonal(run, A, refuse_nonfinite_pivot);
}

// Finite ------------------------------------------------------------------------------------------

/* Of a piece, what lies on and below the matrix's diagonal. */
static gx_code look_for_nonfinite(const window *w, gx_err *err)
{
    for (int64_t j = 0; j < w->n; j++) {
        for (int64_t i = gx_max(0, w->j0 + j - w->i0); i < w->m; i++) {
            gx_scalar x = w->x[j * w->m + i];
            if (w->i0 + i == w->j0 + j) {
                x.im = 0;
            }
            if (!is_finite(x)) {
                return fail_nonfinite(w->A, w->i0 + i, w->j0 + j, x, err);
            }
        }
    }
    return GX_OK;
}

/* The lower triangle of the first order rows and columns, down each column of tiles. */
static gx_code find_nonfinite(gx_run *run, const gx_mat *A, int64_t order, gx_err *err)
{
    window w;
    int64_t height = gx_min(gx_max(1, A->tile_rows), PIECE);
    int64_t width = gx_min(gx_max(1, A->tile_cols), PIECE / height);
    gx_code code = open_window(run, A, PIECE, &w, err);
    for (int64_t j = 0; j < order && code == GX_OK; j += width) {
        for (int64_t i = j / height * height; i < order && code == GX_OK; i += height) {
            code = read_window(&w, i, j, gx_min(height, order - i), gx_min(width, order - j), w.x,
                               err);
            if (code == GX_OK) {
                code = look_for_nonfinite(&w, err);
            }
        }
    }
    close_window(&w);
    return code;
}

void gx_alg_explain_nonfinite(gx_run *run, const gx_mat *A, int64_t order)
{
    gx_err err = {0};
    gx_code code = find_nonfinite(run, A, gx_min(order, gx_min(A->rows, A->cols)), &err);
    if (code != GX_OK && code != GX_BUDGET && code != GX_NOMEM) {
        run->err = err; // the threads of the program are gone: nobody else looks at it
    }
}

// Symmetric ---------------------------------------------------------------------------------------

/* x: m x n at (i0, j0) of the lower triangle; y: n x m at (j0, i0). */
static gx_code compare(const gx_mat *A, const gx_scalar *x, const gx_scalar *y, int64_t i0,
                       int64_t j0, int64_t m, int64_t n, gx_err *err)
{
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = gx_max(0, j0 + j - i0); i < m; i++) {
            gx_scalar a = x[j * m + i], b = y[i * n + j];
            bool is_equal = a.re == b.re && a.im == -b.im;
            bool is_nan = isnan(a.re) || isnan(a.im) || isnan(b.re) || isnan(b.im);
            if (is_equal || is_nan) { // a NaN is named as such, later
                continue;
            }
            char first[ELEMENT_TEXT], second[ELEMENT_TEXT];
            bool is_complex = gx_number_is_complex(A->number);
            return gx_fail(err, GX_ARG, "%s is not %s (%s[%lld,%lld] = %s, %s[%lld,%lld] = %s)",
                           A->label, is_complex ? "Hermitian" : "symmetric", A->label,
                           (long long)(i0 + i), (long long)(j0 + j),
                           format_element(A->number, a, first), A->label, (long long)(j0 + j),
                           (long long)(i0 + i), format_element(A->number, b, second));
        }
    }
    return GX_OK;
}

static gx_code compare_at(window *w, int64_t i, int64_t j, gx_err *err)
{
    int64_t m = gx_min(w->square, w->A->rows - i), n = gx_min(w->square, w->A->cols - j);
    gx_scalar *y = w->x + w->square * w->square;
    GX_TRY(read_window(w, i, j, m, n, w->x, err));
    GX_TRY(read_window(w, j, i, n, m, y, err));
    return compare(w->A, w->x, y, i, j, m, n, err);
}

gx_code gx_alg_refuse_asymmetric(gx_run *run, const gx_mat *A)
{
    window w;
    gx_err err = {0};
    if (!gx_ok(run)) {
        return run->err.code;
    }
    if (A->rows != A->cols) {
        return gx_run_failf(run, GX_ARG, "%s is %lldx%lld but must be square", A->label,
                            (long long)A->rows, (long long)A->cols);
    }
    int64_t side = SQUARE;
    while (side > SMALLEST_SQUARE &&
           (size_t)(2 * side * side) * sizeof(gx_scalar) > gx_mem_available(run->ctx->mem) / 2) {
        side /= 2;
    }
    gx_code code = open_window(run, A, (size_t)(2 * side * side), &w, &err);
    w.square = side;
    for (int64_t j = 0; j < A->cols && code == GX_OK; j += side) {
        for (int64_t i = j; i < A->rows && code == GX_OK; i += side) {
            code = compare_at(&w, i, j, &err);
        }
    }
    close_window(&w);
    return gx_run_fail(run, &err);
}
