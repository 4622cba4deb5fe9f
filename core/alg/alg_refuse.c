/*
** Looking at the elements of a matrix: at its diagonal, and at pairs of blocks that mirror each
** other; and what a matrix must be before, or turns out not to have been after, a factorisation:
** finite, symmetric, with no zero on the diagonal.  The first element that is not is named.
**
** A look is a streamed pass (pass.h) over stretches of the diagonal, or over pairs of squares
** (i, j), (j, i), i >= j.  Elements are c128, so one loop serves every dtype.  What a unit finds is
** folded in order, so the element that is named does not depend on who looked.
*/
#include "../base/decimal.h"
#include "../exec/pass.h"
#include "../mat/composite.h"
#include "alg.h"
#include "dense.h"

#include <math.h>
#include <string.h>

/* The side of a square, where tiles and memory allow it. */
enum { SQUARE = 512, SMALLEST_SQUARE = 16 };

enum { ELEMENT_TEXT = 3 * GX_DECIMAL_MAX };

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

static gx_code fail_nonfinite(const gx_mat *A, int64_t i, int64_t j, gx_scalar x, gx_err *err)
{
    const char *what = isnan(x.re) || isnan(x.im) ? "NaN" : x.re < 0 || x.im < 0 ? "-Inf" : "Inf";
    return gx_fail(err, GX_ARG, "%s[%lld,%lld] is %s", A->label, (long long)i, (long long)j, what);
}

// The diagonal ------------------------------------------------------------------------------------

/*
** Elements that are read together, at least.  They lie on every page of the tiles: where columns
** are short, whole ones are read faster than elements are looked for.
*/
enum { STRETCH = 256, BYTES_EACH = 256, SHORT_COLUMN = 4096 };

typedef struct diagonal {
    gx_run *run;
    const gx_mat *A;
    gx_mat column; /* of a structured A: what is visited */
    int64_t offset, count;
    int64_t stretch; /* a tile's, so that its pages are gone through once     */
    int64_t columns; /* that are read whole, at a time; 0: elements one by one */
    gx_diagonal_visit fn;
    void *arg;
} diagonal;

/* Elements first on of the diagonal, from whole columns of tiles. */
static gx_code read_columns(const diagonal *d, gx_pass_thread *thread, int64_t first, int64_t count,
                            void *work, gx_scalar *x, gx_err *err)
{
    const gx_mat *A = d->A;
    int64_t i = first - gx_min(0, d->offset), step = 0;
    for (int64_t k = 0; k < count && gx_ok(d->run); k += step, i += step) {
        int64_t top = i / A->tile_rows * A->tile_rows, high = gx_min(A->tile_rows, A->rows - top);
        step = gx_min(gx_min(d->columns, count - k), top + high - i);
        GX_TRY(gx_pass_read(thread, A, top, i + d->offset, high, step, gx_dtype_number(A->dtype),
                            work, high, err));
        for (int64_t j = 0; j < step; j++) {
            x[k + j] = gx_number_get(gx_dtype_number(A->dtype), work, j * high + i + j - top);
        }
    }
    return GX_OK;
}

static gx_code read_stretch(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                            gx_err *err)
{
    const diagonal *d = arg;
    gx_scalar *x = part;
    int64_t first = unit * d->stretch, i0 = first - gx_min(0, d->offset);
    if (d->columns > 0) {
        return read_columns(d, thread, first, gx_min(d->stretch, d->count - first), work, x, err);
    }
    if (gx_mat_is_structured(d->A)) {
        return gx_pass_read(thread, &d->column, first, 0, gx_min(d->stretch, d->count - first), 1,
                            GX_C128, x, d->stretch, err);
    }
    for (int64_t k = 0; k < gx_min(d->stretch, d->count - first) && gx_ok(d->run); k++) {
        GX_TRY(
            gx_pass_read(thread, d->A, i0 + k, i0 + k + d->offset, 1, 1, GX_C128, &x[k], 1, err));
    }
    return GX_OK;
}

static gx_code show_stretch(void *arg, int64_t unit, void *part, gx_err *err)
{
    const diagonal *d = arg;
    const gx_scalar *x = part;
    int64_t first = unit * d->stretch;
    for (int64_t k = 0; k < gx_min(d->stretch, d->count - first); k++) {
        GX_TRY(d->fn(d->arg, first + k, x[k], err));
    }
    return GX_OK;
}

gx_code gx_alg_each_diagonal(gx_run *run, const gx_mat *A, int64_t offset, int64_t count,
                             gx_diagonal_visit fn, void *arg)
{
    diagonal d = {.run = run, .A = A, .offset = offset, .count = count, .fn = fn, .arg = arg};
    int64_t high = gx_min(A->tile_rows, A->rows),
            bytes = (int64_t)gx_number_bytes(gx_dtype_number(A->dtype));
    bool has_room = gx_mem_available(run->ctx->mem) / 16 > GX_PASS_CHUNK_BYTES;
    if (!gx_mat_is_value(A) && !gx_mat_is_structured(A) && high <= SHORT_COLUMN && has_room) {
        d.columns = gx_max(1, GX_PASS_CHUNK_BYTES / (gx_max(1, high) * bytes));
    }
    d.stretch = gx_max(STRETCH, gx_min(A->tile_rows, A->tile_cols));
    gx_composite_diagonal(A, -gx_min(0, offset), gx_max(0, offset), count, &d.column);
    gx_pass pass = {.sources = &d.A,
                    .source_count = 1,
                    .units = gx_ceil_div(count, d.stretch),
                    .bytes = (double)count * BYTES_EACH,
                    .work_bytes = (size_t)(d.columns * high * bytes),
                    .part_bytes = (size_t)d.stretch * sizeof(gx_scalar),
                    .work = read_stretch,
                    .fold = show_stretch,
                    .is_reading = true,
                    .arg = &d};
    return gx_pass_run(run, &pass);
}

/* Where the elements go, as what. */
typedef struct gathering {
    gx_number number;
    void *to;
} gathering;

static gx_code put_element(void *arg, int64_t i, gx_scalar x, gx_err *err)
{
    const gathering *g = arg;
    (void)err;
    gx_number_put(g->number, g->to, i, x);
    return GX_OK;
}

gx_code gx_gather_diagonal(gx_run *run, const gx_mat *A, int64_t offset, int64_t count,
                           gx_number dtype, void **data)
{
    gathering g = {.number = dtype};
    if (gx_dense_alloc(run, dtype, count, 1, "a diagonal", data) == GX_OK) {
        g.to = *data;
        gx_alg_each_diagonal(run, A, offset, count, put_element, &g);
    }
    if (!gx_ok(run)) {
        gx_mem_free(run->ctx->mem, *data);
        *data = NULL;
    }
    return run->err.code;
}

static gx_code refuse_zero(void *arg, int64_t i, gx_scalar x, gx_err *err)
{
    const gx_mat *A = arg;
    return x.re != 0 || x.im != 0 ? GX_OK
                                  : gx_fail(err, GX_NUMERIC, "%s is singular (%s[%lld,%lld] = 0)",
                                            A->label, A->label, (long long)i, (long long)i);
}

/* The imaginary part of a Hermitian matrix's diagonal counts as 0. */
static gx_code refuse_nonfinite_pivot(void *arg, int64_t i, gx_scalar x, gx_err *err)
{
    const gx_mat *A = arg;
    return isfinite(x.re) ? GX_OK : fail_nonfinite(A, i, i, (gx_scalar){x.re, 0}, err);
}

gx_code gx_alg_refuse_zero_pivot(gx_run *run, const gx_mat *A)
{
    return gx_alg_each_diagonal(run, A, 0, gx_min(A->rows, A->cols), refuse_zero,
                                (void *)(uintptr_t)A);
}

gx_code gx_alg_refuse_nonfinite_diagonal(gx_run *run, const gx_mat *A)
{
    return gx_alg_each_diagonal(run, A, 0, gx_min(A->rows, A->cols), refuse_nonfinite_pivot,
                                (void *)(uintptr_t)A);
}

// Blocks ------------------------------------------------------------------------------------------

typedef struct look {
    const gx_mat *A;
    bool has_mirror;
    int64_t side, across; /* of a square; squares along the longer side */
    gx_look_fn fn;
    const void *arg;
} look;

/* part: what has been found, a gx_err. */
static gx_code look_at_unit(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                            gx_err *err)
{
    const look *l = arg;
    const gx_mat *A = l->A;
    gx_scalar *low = work, *high = low + l->side * l->side;
    gx_look_block b = {.A = A, .low = low, .high = low};
    gx_err *found = part;
    *found = (gx_err){.code = GX_OK};
    b.i0 = unit % l->across * l->side;
    b.j0 = unit / l->across * l->side;
    b.m = gx_max(0, gx_min(l->side, A->rows - b.i0));
    b.n = gx_max(0, gx_min(l->side, A->cols - b.j0));
    b.m_high = gx_max(0, gx_min(l->side, A->rows - b.j0));
    b.n_high = gx_max(0, gx_min(l->side, A->cols - b.i0));
    if (b.i0 < b.j0) {
        return GX_OK; // the mirror of another one
    }
    GX_TRY(gx_pass_read(thread, A, b.i0, b.j0, b.m, b.n, GX_C128, low, gx_max(1, b.m), err));
    if (l->has_mirror && b.i0 > b.j0) {
        b.high = high;
        GX_TRY(gx_pass_read(thread, A, b.j0, b.i0, b.m_high, b.n_high, GX_C128, high,
                            gx_max(1, b.m_high), err));
    }
    l->fn(l->arg, &b, found);
    return GX_OK;
}

static gx_code tell(void *arg, int64_t unit, void *part, gx_err *err)
{
    const gx_err *found = part;
    (void)arg, (void)unit;
    *err = found->code == GX_OK ? *err : *found;
    return found->code;
}

gx_code gx_alg_look(gx_run *run, const gx_mat *A, bool has_mirror, gx_look_fn fn, const void *arg)
{
    look l = {.A = A, .has_mirror = has_mirror, .fn = fn, .arg = arg};
    int64_t longest = gx_max(A->rows, A->cols), tile = gx_max(A->tile_rows, A->tile_cols);
    gx_pass pass = {.sources = &l.A, .source_count = 1, .part_bytes = sizeof(gx_err)};
    l.side = gx_max(SMALLEST_SQUARE, gx_min(SQUARE, tile));
    size_t room = gx_mem_available(run->ctx->mem) / 2;
    while (l.side > SMALLEST_SQUARE && (size_t)(2 * l.side * l.side) * sizeof(gx_scalar) > room) {
        l.side /= 2;
    }
    l.across = gx_ceil_div(longest, l.side);
    pass.units = l.across * gx_ceil_div(gx_min(A->rows, A->cols), l.side);
    pass.work_bytes = (size_t)(2 * l.side * l.side) * sizeof(gx_scalar);
    pass.bytes = (double)A->rows * (double)A->cols * (double)gx_number_bytes(A->number);
    pass.work = look_at_unit;
    pass.fold = tell;
    pass.arg = &l;
    return gx_pass_run(run, &pass);
}

/* Of a square, what lies on and below the matrix's diagonal. */
static void look_for_nonfinite(const void *arg, const gx_look_block *b, gx_err *found)
{
    (void)arg;
    for (int64_t j = 0; j < b->n; j++) {
        for (int64_t i = gx_max(0, b->j0 + j - b->i0); i < b->m; i++) {
            gx_scalar x = b->low[j * b->m + i];
            bool is_diagonal = b->i0 + i == b->j0 + j; // whose imaginary part counts as 0
            if (!isfinite(x.re) || (!is_diagonal && !isfinite(x.im))) {
                x.im = is_diagonal ? 0 : x.im;
                fail_nonfinite(b->A, b->i0 + i, b->j0 + j, x, found);
                return;
            }
        }
    }
}

void gx_alg_explain_nonfinite(gx_run *run, const gx_mat *A, int64_t order)
{
    const gx_err known = run->err;
    gx_mat leading;
    if (gx_run_forgive(run, known.code)) {
        order = gx_min(order, gx_min(A->rows, A->cols));
        gx_mat_view(&leading, A, GX_NO_TRANS, 0, 0, order, order);
        gx_alg_look(run, &leading, false, look_for_nonfinite, NULL);
        if (gx_run_forgive(run, GX_BUDGET) || gx_run_forgive(run, GX_NOMEM) || gx_ok(run)) {
            gx_run_fail(run, &known);
        }
    }
}

static void look_for_asymmetric(const void *arg, const gx_look_block *b, gx_err *found)
{
    const gx_mat *A = b->A;
    (void)arg;
    for (int64_t j = 0; j < b->n; j++) {
        for (int64_t i = gx_max(0, b->j0 + j - b->i0); i < b->m; i++) {
            gx_scalar x = b->low[j * b->m + i], y = b->high[i * b->n + j];
            bool is_nan = isnan(x.re) || isnan(x.im) || isnan(y.re) || isnan(y.im);
            if ((x.re == y.re && x.im == -y.im) || is_nan) { // a NaN is named as such, later
                continue;
            }
            char first[ELEMENT_TEXT], second[ELEMENT_TEXT];
            gx_fail(found, GX_ARG, "%s is not %s (%s[%lld,%lld] = %s, %s[%lld,%lld] = %s)",
                    A->label, gx_number_is_complex(A->number) ? "Hermitian" : "symmetric", A->label,
                    (long long)(b->i0 + i), (long long)(b->j0 + j),
                    format_element(A->number, x, first), A->label, (long long)(b->j0 + j),
                    (long long)(b->i0 + i), format_element(A->number, y, second));
            return;
        }
    }
}

gx_code gx_alg_refuse_asymmetric(gx_run *run, const gx_mat *A)
{
    if (gx_alg_need_square(run, A) != GX_OK) {
        return run->err.code;
    }
    return gx_alg_look(run, A, true, look_for_asymmetric, NULL);
}

gx_code gx_alg_need_square(gx_run *run, const gx_mat *A)
{
    if (gx_ok(run) && A->rows != A->cols) {
        gx_run_failf(run, GX_ARG, "%s is %lldx%lld but must be square", A->label,
                     (long long)A->rows, (long long)A->cols);
    }
    return run->err.code;
}
