/*
** Elementwise functions in SQL: gx_NAME of one to three operands for each row of core/base/map.h,
** with its numbers behind them; and gx_sub, gx_neg, which are rows with other scalars.
**
** One or two operands go the way of blocks in place; three, and those of which a complex matrix
** makes a real one, are fused programs of one step.
*/
#include "exact_fn.h"

#include "../core/alg/alg.h"
#include "../core/alg/sparse_alg.h"

#include <math.h>
#include <string.h>

/* The operands of a function, and what it makes of them. */
typedef struct operands {
    int count;
    gx_mat A[3];
    int64_t rows, cols;
    gx_number dtype, result; /* of the operands, promoted; of the result */
    gx_sink truth;          /* what a mask of a wider dtype was made to */
} operands;

static bool widen(int64_t size, int64_t *common)
{
    bool fits = size == *common || size == 1 || *common == 1;
    *common = *common == 1 ? size : *common;
    return fits;
}

/* The shape they broadcast to, as in NumPy: sides are equal, or 1. */
static bool broadcast(gx_fn *fn, operands *x)
{
    x->rows = x->A[0].rows;
    x->cols = x->A[0].cols;
    for (int k = 1; k < x->count; k++) {
        const gx_mat *A = &x->A[k - 1], *B = &x->A[k];
        bool fits_down = widen(B->rows, &x->rows), fits_across = widen(B->cols, &x->cols);
        if (!fits_down || !fits_across) {
            bool is_spread = A->rows == 1 || A->cols == 1; // then the one before is in the way
            A = k == 2 && is_spread ? &x->A[0] : A;
            gx_fn_fail(fn, "%s is %lldx%lld but %s is %lldx%lld", A->label, (long long)A->rows,
                       (long long)A->cols, B->label, (long long)B->rows, (long long)B->cols);
            return false;
        }
    }
    return true;
}

static bool take_operands(gx_fn *fn, gx_map_kind kind, operands *x)
{
    static const char *const plain[] = {"A", "B", "C"}, *const where[] = {"mask", "A", "B"},
                             *const clip[] = {"A", "least", "most"};
    const char *const *labels = kind == GX_MAP_WHERE ? where : kind == GX_MAP_CLIP ? clip : plain;
    x->count = gx_map_row(kind)->operands;
    for (int k = 0; k < x->count; k++) {
        if (!gx_fn_matrix(fn, k, labels[k], &x->A[k])) {
            return false;
        }
        bool is_first = k == (kind == GX_MAP_WHERE); // a mask only says which
        x->dtype = is_first ? x->A[k].number : gx_number_promote(x->dtype, x->A[k].number);
    }
    return gx_fn_check(fn, gx_map_dtype(kind, x->dtype, &x->result, &fn->err)) && broadcast(fn, x);
}

/* As a program of one step. */
static void run_fused(gx_fn *fn, gx_map_kind kind, const operands *x, gx_sink *C)
{
    const gx_mat *source[3] = {&x->A[0], &x->A[1], &x->A[2]};
    int from[3] = {0, 0, 0};
    gx_fused f;
    gx_fused_begin(&f, x->dtype);
    for (int k = 0; k < x->count; k++) {
        from[k] = gx_fused_input(&f);
    }
    gx_fused_output(&f, gx_fused_step(&f, kind, from[0], from[1], from[2]), GX_FOLD_NONE,
                    GX_FOLD_OF_ALL);
    f.output[0].is_real = x->result != x->dtype;
    if (gx_fused_end(&f)) {
        gx_alg_fused(&fn->run, &f, x->rows, x->cols, source, &C);
    }
}

/*
** A mask of a wider dtype than what it chooses from: 1 where it is not 0, in memory or spilled.
** Converted as it is, a tiny or an imaginary number would become 0.
*/
static void ask_mask(gx_fn *fn, operands *x)
{
    gx_mat *mask = &x->A[0];
    bool is_taken = x->dtype == GX_M31 && mask->number != GX_M31; // p is no zero
    if (!is_taken && gx_number_promote(mask->number, x->dtype) == x->dtype) {
        return;
    }
    const gx_mat *source = mask;
    gx_sink *sink = &x->truth;
    gx_fused f;
    gx_fused_begin(&f, mask->number);
    int zero = gx_fused_constant(&f, (gx_scalar){0, 0});
    int truth = gx_fused_step(&f, GX_MAP_NOT_EQUAL, gx_fused_input(&f), zero, GX_FUSED_NONE);
    gx_fused_output(&f, truth, GX_FOLD_NONE, GX_FOLD_OF_ALL);
    f.output[0].is_real = gx_number_is_complex(mask->number);
    if (gx_fused_end(&f) && gx_sink_begin_scratch(&fn->run, mask->rows, mask->cols,
                                                  gx_number_real(mask->number), 0, sink) == GX_OK) {
        gx_alg_fused(&fn->run, &f, mask->rows, mask->cols, &source, &sink);
        gx_sink_source(sink, mask->label, mask);
    }
}

/* A to the power of the number 2, in A's dtype: a multiplication, as x ** 2 in a program. */
static bool is_square(gx_map_kind kind, const operands *x)
{
    const gx_mat *p = &x->A[1];
    double power = 0;
    if (kind == GX_MAP_POW && p->kind == GX_MAT_VALUE && p->number == GX_F64 && !p->is_sparse &&
        p->rows == 1 && p->cols == 1) {
        memcpy(&power, p->data, sizeof power);
    }
    return power == 2 && x->A[0].number == x->dtype;
}

/* A factor of whole numbers modulo p. */
static bool is_whole(gx_fn *fn, gx_scalar alpha)
{
    return gx_is_of_field(alpha) ||
           gx_fn_fail(fn, "alpha is %.9g, and m31 has whole numbers alone", alpha.re);
}

/*
** The exponents of whole numbers modulo p: elements of m31 as they are, or one whole number that is
** not negative, of any size: x^(p - 1) is 1 where x is not 0.
*/
static bool take_exponent(gx_fn *fn, operands *x)
{
    gx_mat *E = &x->A[1];
    double exponent = -1;
    if (E->number == GX_M31) {
        return true;
    }
    if (E->rows == 1 && E->cols == 1 && gx_mat_is_value(E)) {
        exponent = gx_dtype_get(E->dtype, E->data).re;
    }
    if (!(exponent >= 0) || floor(exponent) != exponent || exponent > 0x1p53) {
        return gx_fn_fail(fn, "the exponent of m31 must be a whole number from 0 to 2^53, or of m31"
                              " (gx_reciprocal divides)");
    }
    uint32_t *power = gx_fn_alloc(fn, sizeof *power, "an exponent");
    if (power == NULL) {
        return false;
    }
    double cycle = GX_M31_P - 1, rest = fmod(exponent, cycle);
    *power = (uint32_t)(rest == 0 && exponent > 0 ? cycle : rest);
    gx_mat_value(E, E->label, GX_M31, 1, 1, power, 1);
    return true;
}

/* What holds for the result of one operand. */
static uint32_t properties_of(gx_map_kind kind, const operands *x, gx_scalar alpha)
{
    uint32_t keeps = gx_map_row(kind)->keeps, both = GX_KEEPS_SYMMETRY;
    if (x->count > 1) {
        return 0;
    }
    if (!gx_number_is_complex(x->dtype) && (keeps & GX_PROP_SYMMETRIC) != 0) {
        keeps |= GX_PROP_HERMITIAN; // the same of real matrices
    }
    keeps = alpha.im != 0 ? keeps & ~(uint32_t)GX_PROP_HERMITIAN : keeps;
    uint32_t kept = x->A[0].properties & keeps;
    return !gx_number_is_complex(x->result) && (kept & both) != 0 ? kept | both : kept;
}

static bool has_sparse(const operands *x)
{
    bool found = false;
    for (int k = 0; k < x->count; k++) {
        found = found || x->A[k].is_sparse;
    }
    return found;
}

/* The first sparse operand, where the function is not one of those below. */
static void refuse_sparse(gx_fn *fn, const operands *x)
{
    for (int k = 0; k < x->count; k++) {
        if (x->A[k].is_sparse) {
            gx_fn_refuse_sparse(fn, &x->A[k]);
        }
    }
}

/*
** Functions that make 0 of 0, of one sparse operand; sums and products of two of the same shape.
** Others would fill the zeros between the entries.
*/
static void map_sparse(gx_fn *fn, gx_map_kind kind, gx_scalar alpha, gx_scalar beta,
                       const operands *x)
{
    gx_sink C;
    const gx_dest *dest = &fn->dest;
    const gx_mat *A = &x->A[0], *B = &x->A[1];
    bool is_narrowed = gx_number_is_complex(x->dtype) && !gx_number_is_complex(x->result);
    bool is_pair =
        x->count == 2 && A->is_sparse && B->is_sparse && A->rows == B->rows && A->cols == B->cols;
    if (is_pair && kind == GX_MAP_ADD) {
        gx_sparse_add(&fn->run, alpha, A, beta, B, x->result, dest, &C);
    } else if (is_pair && kind == GX_MAP_MUL) {
        gx_sparse_times(&fn->run, alpha, A, B, x->result, dest, &C);
    } else if (x->count == 1 && gx_sparse_keeps_zero(kind) && !is_narrowed && alpha.im == 0) {
        gx_sparse_map(&fn->run, kind, alpha, A, x->result, properties_of(kind, x, alpha), dest, &C);
    } else {
        refuse_sparse(fn, x);
        return;
    }
    gx_fn_result_sink(fn, &C);
}

/* Rows with other scalars. */
enum { SUBTRACT = GX_MAP_KIND_COUNT, NEGATE };

static void map(gx_fn *fn)
{
    operands x = {0};
    int variant = fn->def->variant;
    gx_map_kind kind = variant == SUBTRACT ? GX_MAP_ADD
                       : variant == NEGATE ? GX_MAP_SCALE
                                           : (gx_map_kind)variant;
    gx_scalar alpha = variant == NEGATE ? GX_MINUS_ONE : GX_ONE;
    gx_scalar beta = variant == SUBTRACT ? GX_MINUS_ONE : GX_ONE;
    int numbers = fn->def->min_args - gx_map_row(kind)->operands;
    if (!gx_fn_options(fn, NULL, NULL) || !take_operands(fn, kind, &x) ||
        (numbers > 0 && !gx_fn_scalar(fn, x.count, "alpha", &alpha))) {
        return;
    }
    if (x.dtype == GX_M31 &&
        (!is_whole(fn, alpha) || (kind == GX_MAP_POW && !take_exponent(fn, &x)))) {
        return;
    }
    if (is_square(kind, &x)) {
        kind = GX_MAP_SQUARE;
        x.count = 1;
    }
    x.result = alpha.im != 0 ? gx_number_promote(x.result, GX_C64) : x.result;
    gx_sink C;
    if (has_sparse(&x)) {
        map_sparse(fn, kind, alpha, beta, &x);
        return;
    }
    if (gx_map_is_truth(kind)) {
        gx_dest_takes_truth(&fn->dest);
    }
    gx_sink_begin(&fn->run, &fn->dest, x.rows, x.cols, x.result, properties_of(kind, &x, alpha), 0,
                  0, &C);
    bool is_narrowed = gx_number_is_complex(x.dtype) && !gx_number_is_complex(x.result);
    if (kind == GX_MAP_WHERE) {
        ask_mask(fn, &x);
    }
    if (x.count > 2 || is_narrowed) {
        run_fused(fn, kind, &x, &C);
    } else if (x.count == 2) {
        gx_alg_map2(&fn->run, kind, alpha, &x.A[0], beta, &x.A[1], &C);
    } else {
        gx_alg_map1(&fn->run, kind, alpha, &x.A[0], &C);
    }
    gx_sink_drop(&x.truth);
    gx_fn_result_sink(fn, &C);
}

/* Behind operands and numbers: a destination and options. */
#define ROW(KIND, name, operands, numbers, keeps, ...)                                             \
    {"gx_" #name,                                                                                  \
     (operands) + (numbers),                                                                       \
     (operands) + (numbers) + 2,                                                                   \
     GX_MADE((operands) + (numbers)) |                                                             \
         ((operands) == 1 && ((keeps)&GX_PROP_LOWER) != 0 ? GX_SPARSE(0) : 0) |                    \
         (GX_MAP_##KIND == GX_MAP_ADD || GX_MAP_##KIND == GX_MAP_MUL ? GX_SPARSE(0) | GX_SPARSE(1) \
                                                                     : 0) |                        \
         (gx_map_is_of_field(GX_MAP_##KIND) ? GX_EXACT : 0),                                       \
     map,                                                                                          \
     GX_MAP_##KIND},

const gx_function gx_functions_map[] = {
    GX_MAPS(ROW){"gx_sub", 2, 4, GX_MADE(2) | GX_SPARSE(0) | GX_SPARSE(1) | GX_EXACT, map,
                 SUBTRACT},
    {"gx_neg", 1, 3, GX_MADE(1) | GX_SPARSE(0) | GX_EXACT, map, NEGATE},
    {.name = NULL}};
