/*
** The reference backend: the kernels of backend.h as the plainest loops that are right.  It is the
** oracle of the tests.
**
** Every element passes through load() and store() as a complex double, so each formula is written
** once for the four dtypes, and an f32 result is rounded once, at the end.  Sums run in long
** double.  Nothing here is blocked, vectorised or threaded; nothing allocates; any number of
** threads may call at once.  Elementwise functions are in ref_map.c, factorisations in ref_solve.c
** and ref_qr.c.  There are none for spectra: gx_team_call() takes the CPU backend's instead, and
** the tests compare these with loops of their own (tests/oracle).
**
** Random numbers are random.c's own: it is their definition.  Host code calls gx_convert() and
** gx_random_generate() itself, so that the CPU backend has no such slots.
**
** What the loops fix for all backends:
**   - beta = 0 never reads c; alpha = 0 or k = 0 never reads a and b (BLAS).
**   - A scalar with imaginary part 0 multiplies part by part: 2 * (1 + Inf i) is 2 + Inf i, not
**     NaN + Inf i.
**   - A complex product is re = ac - bd, im = ad + bc, as BLAS has it; a complex quotient is C's
**     (Annex G).
**   - SUMSQ of a block with Inf or NaN is scale 1, ssq Inf or NaN; of zeros, or of nothing, scale
**     1, ssq 0.
**   - MIN of nothing is +Inf, MAX of nothing is -Inf, so that folding needs no special case.
*/
#include "ref.h"

#include "../core/base/circle.h"
#include "../core/base/mem.h"
#include "../core/base/random.h"

// Products ----------------------------------------------------------------------------------------

/* The same of whole numbers modulo p: each term is reduced. */
GX_INLINE void product_of_field(const gx_args *p, int64_t i, int64_t j)
{
    const uint32_t q = p->modulus == 0 ? GX_M31_P : p->modulus;
    uint32_t sum = 0, *c = gx_at(p->c, GX_M31, p->ldc, i, j);
    uint32_t alpha = gx_field_of((int64_t)p->alpha.re, q),
             beta = gx_field_of((int64_t)p->beta.re, q);
    for (int64_t l = 0; l < p->k && alpha != 0; l++) {
        const uint32_t *a = p->transa == GX_NO_TRANS ? gx_at(p->a, GX_M31, p->lda, i, l)
                                                     : gx_at(p->a, GX_M31, p->lda, l, i);
        const uint32_t *b = p->transb == GX_NO_TRANS ? gx_at(p->b, GX_M31, p->ldb, l, j)
                                                     : gx_at(p->b, GX_M31, p->ldb, j, l);
        sum = gx_field_add(sum, gx_field_mul(*a, *b, q), q);
    }
    sum = gx_field_mul(sum, alpha, q);
    *c = beta == 0 ? sum : gx_field_add(sum, gx_field_mul(beta, *c, q), q);
}

/* c(i,j) = alpha * (row i of op(a) times column j of op(b)) + beta c(i,j). */
GX_INLINE void product_element(gx_number dtype, const gx_args *p, gx_trans transa, gx_trans transb,
                               const void *b, int64_t ldb, int64_t i, int64_t j)
{
    gx_scalar alpha = scalar_of(dtype, p->alpha), beta = scalar_of(dtype, p->beta);
    gx_scalar value = {0, 0};
    if (!is_zero(alpha) && p->k > 0) {
        gx_scalar sum = {0, 0};
        for (int64_t l = 0; l < p->k; l++) {
            sum = add(sum, times(load_op(dtype, transa, p->a, p->lda, i, l),
                                 load_op(dtype, transb, b, ldb, l, j)));
        }
        value = scaled(alpha, sum);
    }
    if (!is_zero(beta)) {
        value = add(value, scaled(beta, load(dtype, p->c, p->ldc, i, j)));
    }
    store(dtype, p->c, p->ldc, i, j, value);
}

GX_LOOP(gemm)
{
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            if (dtype == GX_M31) {
                product_of_field(p, i, j);
                continue;
            }
            product_element(dtype, p, p->transa, p->transb, p->b, p->ldb, i, j);
        }
    }
    return GX_OK;
}
GX_SLOTS_DEFINE(, gx_ref_gemm, gemm)
GX_FIELD_SLOT_DEFINE(gx_ref_gemm, gemm)

GX_INLINE gx_code pair(gx_number dtype, const gx_args *p, gx_err *err)
{
    const gx_scalar one = {1, 0};
    gx_args plain = *p, adjoint = *p;
    plain.transa = plain.transb = adjoint.transb = GX_NO_TRANS;
    adjoint.transa = GX_CONJ_TRANS;
    plain.n = adjoint.n = p->k;
    plain.k = p->n;
    adjoint.k = plain.m = p->m;
    adjoint.m = p->n;
    adjoint.b = p->b2;
    adjoint.ldb = p->ldb2;
    adjoint.c = p->c2;
    adjoint.ldc = p->ldc2;
    plain.alpha = plain.beta = adjoint.alpha = adjoint.beta = one;
    if (p->b != NULL) {
        GX_TRY(gemm(dtype, &plain, err));
    }
    return p->b2 != NULL ? gemm(dtype, &adjoint, err) : GX_OK;
}
GX_SLOTS_DEFINE(, gx_ref_pair, pair)

GX_INLINE gx_code syrk(gx_number dtype, const gx_args *p, gx_err *err)
{
    if (gx_number_is_complex(dtype) && p->transa == GX_CONJ_TRANS) {
        return gx_fail(err, GX_UNSUPPORTED, "syrk has no conjugate transpose: herk has");
    }
    gx_trans other = p->transa == GX_NO_TRANS ? GX_TRANS : GX_NO_TRANS;
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->n; i++) {
            if (in_triangle(p->uplo, i, j)) {
                product_element(dtype, p, p->transa, other, p->a, p->lda, i, j);
            }
        }
    }
    return GX_OK;
}
GX_SLOTS_DEFINE(, gx_ref_syrk, syrk)

GX_INLINE gx_code herk(gx_number dtype, const gx_args *p, gx_err *err)
{
    if (gx_number_is_complex(dtype) && p->transa == GX_TRANS) {
        return gx_fail(err, GX_UNSUPPORTED, "herk has no plain transpose: syrk has");
    }
    gx_args real = *p;
    real.alpha.im = real.beta.im = 0;
    gx_trans other = p->transa == GX_NO_TRANS ? GX_CONJ_TRANS : GX_NO_TRANS;
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->n; i++) {
            if (!in_triangle(p->uplo, i, j)) {
                continue;
            }
            product_element(dtype, &real, p->transa, other, p->a, p->lda, i, j);
            if (i == j) {
                double re = load(dtype, p->c, p->ldc, i, i).re;
                store(dtype, p->c, p->ldc, i, i, (gx_scalar){re, 0});
            }
        }
    }
    return GX_OK;
}
GX_SLOTS_DEFINE(, gx_ref_herk, herk)

// Elementwise -------------------------------------------------------------------------------------

GX_LOOP(fill)
{
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            store(dtype, p->c, p->ldc, i, j, p->alpha);
        }
    }
    return GX_OK;
}
GX_SLOTS_DEFINE(, gx_ref_fill, fill)
GX_FIELD_SLOT_DEFINE(gx_ref_fill, fill)

GX_LOOP(transpose)
{
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            store(dtype, p->c, p->ldc, i, j, load_op(dtype, p->transa, p->a, p->lda, i, j));
        }
    }
    return GX_OK;
}
GX_SLOTS_DEFINE(, gx_ref_transpose, transpose)
GX_FIELD_SLOT_DEFINE(gx_ref_transpose, transpose)

GX_INLINE gx_code copy(gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_args plain = *p;
    plain.transa = GX_NO_TRANS;
    return transpose(dtype, &plain, err);
}
GX_SLOTS_DEFINE(, gx_ref_copy, copy)
GX_FIELD_SLOT_DEFINE(gx_ref_copy, copy)

GX_LOOP(symmetrize)
{
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->n; i++) {
            if (i != j && in_triangle(p->uplo, i, j)) {
                gx_scalar value = load(dtype, p->c, p->ldc, i, j);
                if (p->transa == GX_CONJ_TRANS) {
                    value.im = -value.im;
                }
                store(dtype, p->c, p->ldc, j, i, value);
            }
        }
    }
    return GX_OK;
}
GX_SLOTS_DEFINE(, gx_ref_symmetrize, symmetrize)
GX_FIELD_SLOT_DEFINE(gx_ref_symmetrize, symmetrize)

// Conversion, random numbers ----------------------------------------------------------------------

GX_LOOP(convert)
{
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            const void *a = gx_dtype_at(p->a, p->from, p->lda, i, j);
            store(dtype, p->c, p->ldc, i, j, gx_dtype_get(p->from, a));
        }
    }
    return GX_OK;
}
GX_SLOTS_DEFINE(, gx_ref_convert, convert)

GX_LOOP(make_random)
{
    gx_random_generate(p->random, p->first_row, p->first_col, p->m, p->n, dtype, p->c, p->ldc);
    return GX_OK;
}
GX_SLOTS_DEFINE(, gx_ref_random, make_random)

// Products with a sparse panel --------------------------------------------------------------------

/*
** Entry (i, j) of the panel with value v adds alpha v times column i of b to column j of c, or, for
** the transposes, column j of b to column i of c; of rows, where transb says that both are turned.
*/
GX_INLINE void add_entry(gx_number dtype, const gx_args *p, gx_scalar v, int64_t from, int64_t to)
{
    bool is_turned = p->transb == GX_TRANS;
    for (int64_t l = 0; l < p->m; l++) {
        int64_t i = is_turned ? to : l, j = is_turned ? l : to;
        gx_scalar x =
            is_turned ? load(dtype, p->b, p->ldb, from, l) : load(dtype, p->b, p->ldb, l, from);
        store(dtype, p->c, p->ldc, i, j, add(load(dtype, p->c, p->ldc, i, j), times(v, x)));
    }
}

GX_LOOP(spmm)
{
    const gx_csr *s = p->sparse;
    gx_scalar alpha = scalar_of(dtype, p->alpha);
    for (int64_t j = 0; p->is_fresh && j < p->n; j++) {
        for (int64_t l = 0; l < p->m; l++) {
            bool is_turned = p->transb == GX_TRANS;
            store(dtype, p->c, p->ldc, is_turned ? j : l, is_turned ? l : j, (gx_scalar){0, 0});
        }
    }
    for (int64_t i = 0; i < s->rows; i++) {
        for (int64_t e = s->start[i]; e < s->start[i + 1]; e++) {
            int64_t j = gx_csr_column(s, e);
            gx_scalar v = load(dtype, s->value, 1, 0, e);
            v.im = p->transa == GX_CONJ_TRANS ? -v.im : v.im;
            v = scaled(alpha, v);
            bool is_turned = p->transa != GX_NO_TRANS;
            add_entry(dtype, p, v, is_turned ? j : i, is_turned ? i : j);
        }
    }
    return GX_OK;
}
GX_SLOTS_DEFINE(, gx_ref_spmm, spmm)

// Circle transforms -------------------------------------------------------------------------------

/* A pair through a layer. */
static void pass_pair(bool is_back, uint32_t *x, uint32_t *y, uint32_t by)
{
    const uint32_t p = GX_M31_P;
    uint32_t v = is_back ? *y : gx_field_mul(*y, by, p), rest = gx_field_sub(*x, v, p);
    *x = gx_field_add(*x, v, p);
    *y = is_back ? gx_field_mul(rest, by, p) : rest;
}

static gx_code circle_layers(const gx_args *args)
{
    int first = (int)args->pivot_first, count = (int)args->pivot_last - first;
    int log = (int)args->row_offset;
    const uint32_t *twiddles = args->a;
    for (int64_t q = 0; q < args->n * count; q++) {
        int layer = args->is_backward ? (int)(q % count) : count - 1 - (int)(q % count);
        uint32_t *c = gx_at(args->c, GX_M31, args->ldc, 0, q / count);
        const uint32_t *t = twiddles + gx_circle_layer(log, first + layer);
        int64_t apart = (int64_t)1 << layer;
        for (int64_t e = 0; e < args->k << count; e++) {
            int64_t run = e / args->k, at = run * args->ldb + e % args->k;
            if (run / apart % 2 == 0) {
                pass_pair(args->is_backward, &c[at], &c[at + apart * args->ldb],
                          t[run / (2 * apart)]);
            }
        }
    }
    return GX_OK;
}

gx_code gx_ref_circle_m31(gx_dev *dev, gx_queue *queue, const gx_args *args, gx_err *err)
{
    (void)dev, (void)queue, (void)err;
    if (args->c2 != NULL) {
        bool is_right = args->side == GX_RIGHT;
        for (int64_t e = 0; e < args->m * args->n; e++) {
            uint32_t *c = gx_at(args->c, GX_M31, args->ldc, e % args->m, e / args->m);
            uint32_t *d = gx_at(args->c2, GX_M31, args->ldc2, e % args->m, e / args->m);
            pass_pair(args->is_backward, is_right ? d : c, is_right ? c : d,
                      (uint32_t)args->pivot_first);
        }
        return GX_OK;
    }
    if (args->a != NULL) {
        return circle_layers(args);
    }
    gx_args block = *args;
    gx_circle_twiddles((int)args->row_offset, (int)args->pivot_last, args->pivot_first,
                       args->is_backward, args->work);
    block.a = args->work;
    block.pivot_first = 0;
    block.row_offset = args->pivot_last;
    circle_layers(&block);
    uint32_t scale = gx_field_of((int64_t)args->alpha.re, GX_M31_P);
    for (int64_t e = 0; e < args->n << args->pivot_last; e++) {
        uint32_t *c = gx_at(args->c, GX_M31, args->ldc, e % ((int64_t)1 << args->pivot_last),
                            e >> args->pivot_last);
        *c = gx_field_mul(*c, scale, GX_M31_P);
    }
    return GX_OK;
}

// Assignments -------------------------------------------------------------------------------------

gx_code gx_ref_one_hot_f64(gx_dev *dev, gx_queue *queue, const gx_args *args, gx_err *err)
{
    (void)dev, (void)queue, (void)err;
    for (int64_t i = 0; i < args->m; i++) {
        double *c = (double *)args->c + i, least = 0;
        int64_t at = 0;
        for (int64_t j = 0; j < args->n; j++) {
            double x = c[j * args->ldc] + ((const double *)args->b)[j * args->ldb];
            at = j == 0 || x < least ? j : at;
            least = j == 0 || x < least ? x : least;
        }
        for (int64_t j = 0; j < args->n; j++) {
            c[j * args->ldc] = j == at;
        }
    }
    return GX_OK;
}

// Constraints -------------------------------------------------------------------------------------

gx_code gx_ref_combine_m31(gx_dev *dev, gx_queue *queue, const gx_args *args, gx_err *err)
{
    const gx_constraints *p = args->constraints;
    (void)dev, (void)queue, (void)err;
    for (int64_t i = 0; i < args->m; i++) {
        int64_t now = args->first_row + i, next = now + p->next;
        bool is_in_a = next < args->k;
        uint32_t sum[GX_CONSTRAINT_WIDTH];
        gx_constraints_row(p, gx_at(args->a, GX_M31, args->lda, now, 0), args->lda,
                           is_in_a ? gx_at(args->a, GX_M31, args->lda, next, 0)
                                   : gx_at(args->b, GX_M31, args->ldb, next - args->k, 0),
                           is_in_a ? args->lda : args->ldb, sum);
        for (int w = 0; w < p->width; w++) {
            *(uint32_t *)gx_at(args->c, GX_M31, args->ldc, i, w) = sum[w];
        }
    }
    return GX_OK;
}

// Reductions --------------------------------------------------------------------------------------

/* Sums over the rectangle (i0, j0) .. (i1, j1): of the elements, or of their magnitudes. */
typedef struct sums {
    long double re, im, abs;
} sums;

GX_INLINE sums sum_of(gx_number dtype, const gx_args *p, bool is_abs, int64_t i0, int64_t i1,
                      int64_t j0, int64_t j1)
{
    sums s = {0, 0, 0};
    for (int64_t j = j0; j < j1; j++) {
        for (int64_t i = i0; i < i1; i++) {
            gx_scalar a = load(dtype, p->a, p->lda, i, j);
            if (is_abs) {
                s.abs += (long double)magnitude_of(dtype, a);
            } else {
                s.re += (long double)a.re;
                s.im += (long double)a.im;
            }
        }
    }
    return s;
}

/* The larger one, NaN where one is. */
GX_INLINE double larger(double x, double y)
{
    return isnan(x) || x > y ? x : y;
}

/* Smallest, largest and largest absolute element; NaN where one is (|Inf + NaN i| is Inf). */
typedef struct extremes {
    double min, max, max_abs; /* max_abs: of |a| */
    double max_part;          /* of |re| and |im| */
} extremes;

GX_INLINE extremes extremes_of(gx_number dtype, const gx_args *p)
{
    extremes x = {INFINITY, -INFINITY, 0, 0};
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            gx_scalar a = load(dtype, p->a, p->lda, i, j);
            x.min = -larger(-x.min, -a.re);
            x.max = larger(x.max, a.re);
            x.max_abs = larger(x.max_abs, magnitude_of(dtype, a));
            x.max_part = larger(x.max_part, larger(fabs(a.re), fabs(a.im)));
        }
    }
    return x;
}

/*
** Everything is divided by the largest part first, so no square overflows or all of them
** underflow.
*/
GX_INLINE void reduce_sumsq(gx_number dtype, const gx_args *p)
{
    double largest = extremes_of(dtype, p).max_part;
    p->reduce[0] = 1;
    p->reduce[1] = largest;
    if (largest == 0 || !isfinite(largest)) {
        return;
    }
    long double ssq = 0;
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            gx_scalar a = load(dtype, p->a, p->lda, i, j);
            long double re = (long double)a.re / (long double)largest;
            long double im = (long double)a.im / (long double)largest;
            ssq += re * re + im * im;
        }
    }
    p->reduce[0] = largest;
    p->reduce[1] = (double)ssq;
}

GX_INLINE void reduce_lines(gx_number dtype, const gx_args *p)
{
    bool by_col = p->reduce_kind == GX_REDUCE_COL_ABS || p->reduce_kind == GX_REDUCE_COL_SUM;
    bool is_abs = p->reduce_kind == GX_REDUCE_COL_ABS || p->reduce_kind == GX_REDUCE_ROW_ABS;
    int64_t lines = by_col ? p->n : p->m;
    for (int64_t l = 0; l < lines; l++) {
        sums s = by_col ? sum_of(dtype, p, is_abs, 0, p->m, l, l + 1)
                        : sum_of(dtype, p, is_abs, l, l + 1, 0, p->n);
        if (is_abs) {
            p->reduce[l] = (double)s.abs;
        } else {
            p->reduce[2 * l] = (double)s.re;
            p->reduce[2 * l + 1] = (double)s.im;
        }
    }
}

/* Sums alone; each as an element. */
GX_INLINE gx_code reduce_field(const gx_args *p, gx_err *err)
{
    int64_t count = p->reduce_kind == GX_REDUCE_COL_SUM   ? p->n
                    : p->reduce_kind == GX_REDUCE_ROW_SUM ? p->m
                                                          : 1;
    if (p->reduce_kind != GX_REDUCE_SUM && p->reduce_kind != GX_REDUCE_COL_SUM &&
        p->reduce_kind != GX_REDUCE_ROW_SUM) {
        return gx_fail(err, GX_UNSUPPORTED,
                       "whole numbers modulo 2^31 - 1 have no size and no order");
    }
    for (int64_t l = 0; l < 2 * count; l++) {
        p->reduce[l] = 0;
    }
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            double *line = p->reduce + (p->reduce_kind == GX_REDUCE_COL_SUM   ? 2 * j
                                        : p->reduce_kind == GX_REDUCE_ROW_SUM ? 2 * i
                                                                              : 0);
            *line = fmod(*line + load(GX_M31, p->a, p->lda, i, j).re, GX_M31_P);
        }
    }
    return GX_OK;
}

GX_INLINE gx_code reduce(gx_number dtype, const gx_args *p, gx_err *err)
{
    if (dtype == GX_M31) {
        return reduce_field(p, err);
    }
    switch (p->reduce_kind) {
    case GX_REDUCE_SUM: {
        sums s = sum_of(dtype, p, false, 0, p->m, 0, p->n);
        p->reduce[0] = (double)s.re;
        p->reduce[1] = (double)s.im;
        return GX_OK;
    }
    case GX_REDUCE_SUMSQ:
        reduce_sumsq(dtype, p);
        return GX_OK;
    case GX_REDUCE_MAX_ABS:
        p->reduce[0] = extremes_of(dtype, p).max_abs;
        return GX_OK;
    case GX_REDUCE_MIN:
    case GX_REDUCE_MAX:
        if (gx_number_is_complex(dtype)) {
            break;
        }
        p->reduce[0] =
            p->reduce_kind == GX_REDUCE_MIN ? extremes_of(dtype, p).min : extremes_of(dtype, p).max;
        return GX_OK;
    case GX_REDUCE_COL_ABS:
    case GX_REDUCE_ROW_ABS:
    case GX_REDUCE_COL_SUM:
    case GX_REDUCE_ROW_SUM:
        reduce_lines(dtype, p);
        return GX_OK;
    case GX_REDUCE_KIND_COUNT:
        break;
    }
    return gx_fail(err, GX_UNSUPPORTED, "complex numbers have no smallest or largest element");
}
GX_SLOTS_DEFINE(, gx_ref_reduce, reduce)
GX_FIELD_SLOT_DEFINE(gx_ref_reduce, reduce)

// The backend -------------------------------------------------------------------------------------

int gx_host_count(void)
{
    return 1;
}

/* The device has no state: any pointer that is not NULL will do. */
gx_code gx_host_open(const char *name, int ordinal, gx_dev **dev, gx_err *err)
{
    static const char state = 0;
    *dev = ordinal == 0 ? (gx_dev *)(uintptr_t)&state : NULL;
    return ordinal == 0 ? GX_OK
                        : gx_fail(err, GX_ARG, "%s has 1 device, not number %d", name, ordinal);
}

void gx_host_close(gx_dev *dev)
{
    (void)dev;
}

gx_code gx_host_info(gx_dev *dev, gx_dev_info *info, gx_err *err)
{
    (void)dev;
    (void)err;
    *info = (gx_dev_info){.name = "reference", .is_host = true};
    info->total_bytes = gx_mem_physical();
    info->free_bytes = gx_mem_physical_free();
    return GX_OK;
}

static gx_code ref_open(int ordinal, gx_dev **dev, gx_err *err)
{
    return gx_host_open("reference", ordinal, dev, err);
}

const gx_backend gx_backend_ref = {
    .abi = GX_BACKEND_ABI,
    .name = "reference",
    .count = gx_host_count,
    .open = ref_open,
    .close = gx_host_close,
    .info = gx_host_info,
    .kernel = {GX_REF_KERNELS(GX_KERNEL_ROW) GX_REF_REAL_KERNELS(GX_REAL_ROW)
                   GX_KERNELS_OF_FIELD(GX_FIELD_ROW, ref)[GX_WHOLE][GX_F32] = gx_ref_whole_f32,
               [GX_HAMMING][GX_F32] = gx_ref_hamming_f32, [GX_ONE_HOT][GX_F64] = gx_ref_one_hot_f64,
               [GX_GRID][GX_F64] = gx_ref_grid_f64},
    .workspace = gx_ref_workspace,
};
