/*
** Factors to solve with: choosing, factoring, solving (factoring.h).
**
**     what A is            factored                      solved, op(A) X = B
**     diagonal             its diagonal is read          X = B ./ d
**     lower, upper         not at all                    one triangular solve with A itself
**     positive definite    A = L L^H                     two triangular solves
**     anything else        P A = L U                     exchanges and two triangular solves
**
** A small matrix, and a value in memory, are resident: loaded once into one buffer, factored there,
** and all right-hand sides are solved in the result's own memory, so that a system of a few
** equations costs a few microseconds.  Larger ones go through the drivers (alg.h) with the factor
** as an intermediate: in memory where it fits beside the blocks, else in the temp database.
**
** A device that is predicted to be faster has a factor that fits its memory as a whole; what is
** solved with it is solved there (factor_device.c).
**
** Memory, resident: n^2 elements (a value that is a triangle: none), and n x (columns of B), in
** panels of whole tiles where the result is stored and memory is short.  Threads: the team's.
*/
#include "factoring.h"

#include "../run/call.h"
#include "alg_lu.h"
#include "alg_qr.h"
#include "dense.h"

#include <math.h>
#include <string.h>

/* A stored matrix up to this order is resident: about one tile, which is read at once anyway. */
enum { RESIDENT_ORDER = 1024 };

// Choosing ----------------------------------------------------------------------------------------

gx_factor_kind gx_factor_choose(const gx_mat *A, const char **why)
{
    static const struct {
        uint32_t bits;
        gx_factor_kind kind;
        const char *why;
    } rules[] = {
        {GX_PROP_LOWER | GX_PROP_UPPER, GX_FACTOR_DIAGONAL, "A is diagonal"},
        {GX_PROP_LOWER, GX_FACTOR_LOWER, "A is lower triangular"},
        {GX_PROP_UPPER, GX_FACTOR_UPPER, "A is upper triangular"},
        {GX_PROP_POSITIVE, GX_FACTOR_CHOLESKY, "A is positive definite"},
        {0, GX_FACTOR_LU, "A has no property that helps"},
    };
    const size_t LAST = sizeof rules / sizeof rules[0] - 1;
    size_t k = 0;
    while (k < LAST && (A->properties & rules[k].bits) != rules[k].bits) {
        k++;
    }
    *why = rules[k].why;
    return rules[k].kind;
}

static gx_scalar element(const gx_mat *A, int64_t i, int64_t j)
{
    return gx_number_get(A->number, A->data, j * A->ld + i);
}

/*
** All zero on one side of the diagonal?  From the corner, where a general matrix says no at once.
*/
static bool is_triangle(const gx_mat *A, gx_uplo uplo)
{
    for (int64_t j = 0; j < A->cols; j++) {
        int64_t first = uplo == GX_LOWER ? 0 : j + 1, last = uplo == GX_LOWER ? j : A->rows;
        for (int64_t i = first; i < last; i++) {
            gx_scalar x = element(A, i, j);
            if (!(x.re == 0 && x.im == 0)) {
                return false;
            }
        }
    }
    return true;
}

/* Hermitian with a real, positive diagonal: worth a Cholesky factorisation. */
static bool looks_positive(const gx_mat *A)
{
    for (int64_t j = 0; j < A->cols; j++) {
        gx_scalar d = element(A, j, j);
        if (!(d.re > 0) || d.im != 0) {
            return false;
        }
    }
    for (int64_t j = 0; j < A->cols; j++) {
        for (int64_t i = j + 1; i < A->rows; i++) {
            gx_scalar low = element(A, i, j), high = element(A, j, i);
            if (!(low.re == high.re && low.im == -high.im)) {
                return false;
            }
        }
    }
    return true;
}

static gx_factor_kind look_at_value(const gx_mat *A)
{
    bool is_lower = is_triangle(A, GX_LOWER), is_upper = is_triangle(A, GX_UPPER);
    if (is_lower || is_upper) {
        return is_lower && is_upper ? GX_FACTOR_DIAGONAL
               : is_lower           ? GX_FACTOR_LOWER
                                    : GX_FACTOR_UPPER;
    }
    return looks_positive(A) ? GX_FACTOR_CHOLESKY : GX_FACTOR_LU;
}

// Resident ----------------------------------------------------------------------------------------

/* All of A into the factor's buffer. */
static void load_whole(gx_factor *f, const gx_mat *A)
{
    if (f->memory == NULL) {
        gx_dense_alloc(f->run, f->dtype, f->n, f->n, "a factor", &f->memory);
    }
    gx_dense_load(f->run, A, f->dtype, f->memory, f->n);
    gx_mat_value(&f->mat, A->label, f->dtype, f->n, f->n, f->memory, gx_max(1, f->n));
}

/* A itself, where it lies in memory and nothing will be written to it; else a copy. */
static void lend_or_load(gx_factor *f, const gx_mat *A)
{
    if (A->kind == GX_MAT_VALUE && A->number == f->dtype) {
        f->mat = *A;
        f->mat.owned = NULL;
    } else {
        load_whole(f, A);
    }
}

/* An exact zero on the diagonal of a triangle, or in the column that a diagonal is. */
static void check_diagonal(gx_factor *f)
{
    bool is_column = f->kind == GX_FACTOR_DIAGONAL;
    for (int64_t i = 0; i < f->n && gx_ok(f->run) && f->diag != GX_UNIT; i++) {
        gx_scalar d = element(&f->mat, i, is_column ? 0 : i);
        if (d.re == 0 && d.im == 0) {
            gx_run_failf(f->run, GX_NUMERIC, "%s is singular (%s[%lld,%lld] = 0)", f->label,
                         f->label, (long long)i, (long long)i);
        }
    }
}

static bool factor_cholesky(gx_factor *f, const gx_mat *A, int64_t *minor)
{
    load_whole(f, A);
    *minor = 0;
    f->uplo = GX_LOWER;
    gx_run_call(f->run, GX_POTRF, f->dtype,
                &(gx_args){.uplo = GX_LOWER,
                           .m = f->n,
                           .n = f->n,
                           .c = f->memory,
                           .ldc = gx_max(1, f->n),
                           .info = minor});
    return *minor == 0;
}

typedef struct loading {
    gx_factor *f;
    const gx_mat *A;
} loading;

static void *load_again(void *arg)
{
    loading *l = arg;
    load_whole(l->f, l->A);
    return l->f->memory;
}

static void factor_lu(gx_factor *f, const gx_mat *A)
{
    f->pivots = gx_run_alloc(f->run, (size_t)f->n * sizeof(int64_t), "pivots");
    int64_t info = 0;
    gx_lu_in_memory(f->run, f->dtype, f->n, load_again, &(loading){f, A}, f->pivots, &info);
    if (info > 0) {
        gx_run_failf(f->run, GX_NUMERIC, "%s is singular (pivot %lld is exactly zero)", f->label,
                     (long long)info);
    }
}

static void factor_resident(gx_factor *f, const gx_mat *A, bool is_guess)
{
    int64_t minor = 0;
    f->is_resident = true;
    switch (f->kind) {
    case GX_FACTOR_LOWER:
    case GX_FACTOR_UPPER:
        lend_or_load(f, A);
        check_diagonal(f);
        break;
    case GX_FACTOR_CHOLESKY:
        if (factor_cholesky(f, A, &minor) || !gx_ok(f->run)) {
            break;
        }
        if (!is_guess) {
            gx_run_failf(f->run, GX_NUMERIC,
                         "%s is not positive definite (leading minor of order %lld)", f->label,
                         (long long)minor);
            gx_alg_explain_nonfinite(f->run, A, minor);
            break;
        }
        f->kind = GX_FACTOR_LU;
        factor_lu(f, A);
        break;
    default:
        factor_lu(f, A);
    }
}

// The diagonal ------------------------------------------------------------------------------------

/* n numbers, whatever holds A. */
static void read_diagonal(gx_factor *f, const gx_mat *A)
{
    gx_gather_diagonal(f->run, A, 0, f->n, f->dtype, &f->memory);
    gx_mat_value(&f->mat, A->label, f->dtype, f->n, 1, f->memory, gx_max(1, f->n));
    check_diagonal(f);
}

/* X = B ./ d, d repeated for each column; conjugated for op(A) = A^H. */
static void solve_diagonal(gx_factor *f, gx_trans trans, const gx_mat *B, gx_sink *X)
{
    gx_mat conjugated, repeated;
    gx_sink scratch = {0};
    const gx_mat *d = &f->mat;
    if (trans == GX_CONJ_TRANS && gx_number_is_complex(f->dtype)) {
        gx_sink_begin_scratch(f->run, f->n, 1, f->dtype, 0, &scratch);
        gx_alg_map1(f->run, GX_MAP_CONJ, GX_ONE, &f->mat, &scratch);
        if (gx_ok(f->run)) {
            gx_sink_source(&scratch, f->label, &conjugated);
            d = &conjugated;
        }
    }
    gx_mat_broadcast(&repeated, d, f->n, B->cols);
    gx_alg_map2(f->run, GX_MAP_DIV, GX_ONE, B, GX_ONE, &repeated, X);
    gx_sink_drop(&scratch);
}

// Solving in memory -------------------------------------------------------------------------------

/* Columns of B at a time: all, or as many whole tiles as a third of the memory takes. */
static int64_t panel_width(const gx_factor *f, const gx_mat *B, const gx_sink *X)
{
    size_t column = (size_t)gx_max(1, f->n) * gx_number_bytes(f->dtype);
    int64_t fits = (int64_t)(gx_mem_available(f->run->ctx->mem) / 3 / column);
    int64_t tile = gx_max(1, X->tile_cols);
    return fits >= B->cols ? gx_max(1, B->cols) : gx_max(tile, fits / tile * tile);
}

static void solve_resident(gx_factor *f, gx_trans trans, const gx_mat *B, gx_sink *X)
{
    gx_run *run = f->run;
    gx_mem *mem = run->ctx->mem;
    gx_err err = {0};
    gx_reader *own = NULL;
    void *panel = NULL;
    int64_t width = X->is_stored ? panel_width(f, B, X) : gx_max(1, B->cols);
    if (X->is_stored) {
        gx_dense_alloc(run, f->dtype, f->n, width, "right-hand sides", &panel);
    }
    if (gx_ok(run) && B->kind != GX_MAT_VALUE) {
        gx_reader_own(run->ctx->store, &own, &err);
    }
    gx_run_fail(run, &err);
    for (int64_t j = 0; j < B->cols && f->n > 0 && gx_ok(run); j += width) {
        int64_t cols = gx_min(width, B->cols - j);
        void *x = X->is_stored ? panel : X->value.data;
        gx_mat_read(run, B, own, 0, j, f->n, cols, f->dtype, x, f->n, &err);
        gx_run_fail(run, &err);
        gx_factor_apply(f, trans, x, cols);
        if (X->is_stored && gx_ok(run)) {
            gx_sink_write(X, 0, j, f->n, cols, x, f->n, &err);
            gx_run_fail(run, &err);
        }
        gx_run_poll(run);
    }
    gx_reader_close(own);
    gx_mem_free(mem, panel);
}

// By the drivers ----------------------------------------------------------------------------------

/*
** The factor is an intermediate; a stored factorisation, a Cholesky factor and a triangle are used
** where they are.  Transposed systems with a Cholesky or QR factor of a complex matrix are solved
** conjugated: A^T X = B is A^H conj(X) = conj(B).  Two more passes over B and X.
*/

/* false: not positive definite. */
static bool factor_large_cholesky(gx_factor *f, const gx_mat *A)
{
    gx_run *run = f->run;
    gx_mat converted; // as it is read
    gx_mat_view(&converted, A, GX_NO_TRANS, 0, 0, A->rows, A->cols);
    converted.number = f->dtype;
    gx_sink_begin_scratch(run, f->n, f->n, f->dtype, gx_mem_available(run->ctx->mem) / 2,
                          &f->scratch);
    if (gx_ok(run)) {
        gx_alg_cholesky(run, A->number == f->dtype ? A : &converted, GX_LOWER, &f->scratch);
    }
    return gx_ok(run) || run->err.code != GX_NUMERIC;
}

static void factor_large_lu(gx_factor *f, const gx_mat *A)
{
    gx_run *run = f->run;
    gx_alg_lu_scratch(run, A, f->dtype, &f->scratch, &f->own_aux);
    f->aux = &f->own_aux;
    if (gx_ok(run) && f->own_aux.info > 0) {
        gx_run_failf(run, GX_NUMERIC, "%s is singular (pivot %lld is exactly zero)", f->label,
                     (long long)f->own_aux.info);
    }
}

/* Triangles: A itself.  CHOLESKY, LU: an intermediate; false: A is not positive definite. */
static bool factor_large(gx_factor *factor, const gx_mat *A)
{
    bool is_factored = true;
    if (factor->kind == GX_FACTOR_LOWER || factor->kind == GX_FACTOR_UPPER) {
        factor->mat = *A;
        factor->mat.owned = NULL;
        return true;
    }
    if (factor->kind == GX_FACTOR_CHOLESKY) {
        is_factored = factor_large_cholesky(factor, A);
    } else {
        factor_large_lu(factor, A);
    }
    if (gx_ok(factor->run)) {
        gx_sink_source(&factor->scratch, factor->label, &factor->mat);
    }
    return is_factored;
}

static void substitute_large(gx_factor *f, gx_uplo uplo, gx_trans trans, const gx_mat *B,
                             gx_sink *X)
{
    gx_alg_trsm(f->run,
                &(gx_tri_args){.A = &f->mat,
                               .B = B,
                               .side = GX_LEFT,
                               .uplo = uplo,
                               .trans = trans,
                               .diag = f->diag,
                               .alpha = GX_ONE},
                X);
}

/* A = Q R:  X = R^-1 (Q^H B), or for A^H:  X = Q (R^-H B). */
static void solve_qr(gx_factor *f, gx_trans trans, const gx_mat *B, gx_sink *X)
{
    gx_run *run = f->run;
    bool is_plain = trans == GX_NO_TRANS;
    gx_trans adjoint = gx_adjoint(f->dtype);
    int64_t tile_rows, tile_cols;
    gx_sink between = {0};
    gx_mat source;
    gx_plan_panel_tiles(run, f->n, B->cols, f->n, f->dtype, &tile_rows, &tile_cols);
    gx_sink_begin_scratch_tiles(run, f->n, B->cols, f->dtype, gx_mem_available(run->ctx->mem) / 2,
                                tile_rows, tile_cols, &between);
    if (gx_ok(run) && is_plain) {
        gx_alg_qr_apply(run, &f->mat, f->tau, f->n, adjoint, B, &between);
    } else {
        substitute_large(f, GX_UPPER, adjoint, B, &between);
    }
    if (gx_ok(run)) {
        gx_sink_source(&between, "Q^H B", &source);
        if (is_plain) {
            substitute_large(f, GX_UPPER, GX_NO_TRANS, &source, X);
        } else {
            gx_alg_qr_apply(run, &f->mat, f->tau, f->n, GX_NO_TRANS, &source, X);
        }
    }
    gx_sink_drop(&between);
}

static void solve_large(gx_factor *factor, gx_trans trans, const gx_mat *B, gx_sink *X);

/* conj(X) of conj(B). */
static void solve_conjugated(gx_factor *f, const gx_mat *B, gx_sink *X)
{
    gx_run *run = f->run;
    gx_sink b = {0}, x = {0};
    gx_mat source;
    size_t keep = gx_mem_available(run->ctx->mem) / 2;
    gx_sink_begin_scratch(run, f->n, B->cols, f->dtype, keep, &b);
    if (gx_ok(run)) {
        gx_alg_map1(run, GX_MAP_CONJ, GX_ONE, B, &b);
        gx_sink_source(&b, B->label, &source);
    }
    gx_sink_begin_scratch(run, f->n, B->cols, f->dtype, keep / 2, &x);
    if (gx_ok(run)) {
        solve_large(f, GX_CONJ_TRANS, &source, &x);
    }
    if (gx_ok(run)) {
        gx_sink_source(&x, "X", &source);
        gx_alg_map1(run, GX_MAP_CONJ, GX_ONE, &source, X);
    }
    gx_sink_drop(&x);
    gx_sink_drop(&b);
}

static void solve_large(gx_factor *factor, gx_trans trans, const gx_mat *B, gx_sink *X)
{
    bool is_transposed = trans == GX_TRANS && gx_number_is_complex(factor->dtype);
    if (!gx_ok(factor->run)) {
        return;
    }
    if (is_transposed && (factor->kind == GX_FACTOR_CHOLESKY || factor->kind == GX_FACTOR_QR)) {
        solve_conjugated(factor, B, X);
        return;
    }
    switch (factor->kind) {
    case GX_FACTOR_CHOLESKY:
        gx_alg_cholesky_solve(factor->run, &factor->mat, factor->uplo, B, X);
        break;
    case GX_FACTOR_LU:
        gx_alg_lu_solve(factor->run, &factor->mat, factor->aux, trans, B, X);
        break;
    case GX_FACTOR_QR:
        solve_qr(factor, trans, B, X);
        break;
    default:
        substitute_large(factor, factor->uplo, trans, B, X);
    }
}

// The calls ---------------------------------------------------------------------------------------

/* In one buffer: values, which are there already, and what is about one tile. */
static bool is_resident(const gx_factor *f, const gx_mat *A)
{
    size_t bytes = 0;
    gx_matrix_bytes(f->n, f->n, f->dtype, &bytes);
    bool is_lent = A->kind == GX_MAT_VALUE && A->number == f->dtype &&
                   (f->kind == GX_FACTOR_LOWER || f->kind == GX_FACTOR_UPPER);
    bool is_small = A->kind == GX_MAT_VALUE || f->n <= RESIDENT_ORDER;
    return is_lent || (is_small && bytes < gx_mem_available(f->run->ctx->mem) / 2);
}

/* The scalars of the reflectors, in the precision that is computed in. */
static void take_tau(gx_factor *f)
{
    const gx_aux *aux = f->aux;
    int64_t count = aux->count;
    f->tau = aux->tau;
    if (aux->dtype != f->dtype && count > 0 &&
        gx_dense_alloc(f->run, f->dtype, count, 1, "reflectors", &f->memory) == GX_OK) {
        gx_convert(aux->dtype, aux->tau, count, f->dtype, f->memory, count, count, 1);
        f->tau = f->memory;
    }
}

/* A is a factor already. */
static void take_factor(gx_factor *f, const gx_mat *A, const gx_factor_choice *choice)
{
    f->mat = *A;
    f->mat.owned = NULL;
    f->aux = choice->aux;
    if (choice->aux == NULL) {
        f->is_resident = is_resident(f, A);
        f->kind = GX_FACTOR_CHOLESKY;
        if (f->is_resident) {
            lend_or_load(f, A);
            check_diagonal(f);
        }
        return;
    }
    f->kind = choice->aux->kind == GX_AUX_LU ? GX_FACTOR_LU : GX_FACTOR_QR;
    if (f->kind == GX_FACTOR_QR) {
        take_tau(f);
    }
    if (choice->aux->info > 0) {
        gx_run_failf(f->run, GX_NUMERIC, "%s is singular (pivot %lld is exactly zero)", f->label,
                     (long long)choice->aux->info);
    }
}

static void make_large(gx_factor *f, const gx_mat *A, bool is_guess)
{
    if (factor_large(f, A) || !is_guess) {
        return;
    }
    gx_sink_drop(&f->scratch); // A was worth an attempt, no more
    gx_run_forgive(f->run, GX_NUMERIC);
    f->scratch = (gx_sink){0};
    f->kind = GX_FACTOR_LU;
    factor_large(f, A);
}

/* The kind, for a matrix that is no factor; true: Cholesky is worth an attempt, no more. */
static bool choose(gx_factor *f, const gx_mat *A, gx_factor_kind asked)
{
    const char *why;
    f->kind = asked;
    if (asked != GX_FACTOR_AUTO) {
        return false;
    }
    bool is_looked_at = A->kind == GX_MAT_VALUE && A->properties == 0;
    f->kind = is_looked_at ? look_at_value(A) : gx_factor_choose(A, &why);
    bool is_triangle = f->kind == GX_FACTOR_LOWER || f->kind == GX_FACTOR_UPPER;
    f->diag = is_triangle && (A->properties & GX_PROP_UNIT) != 0 ? GX_UNIT : GX_NON_UNIT;
    return is_looked_at && f->kind == GX_FACTOR_CHOLESKY;
}

gx_code gx_factor_make(gx_run *run, const gx_mat *A, const gx_factor_choice *choice,
                       gx_factor *factor)
{
    memset(factor, 0, sizeof *factor);
    factor->run = run;
    if (!gx_ok(run)) {
        return run->err.code;
    }
    factor->n = A->rows;
    factor->dtype = choice->dtype;
    memcpy(factor->label, A->label, sizeof factor->label);
    if (choice->is_factor || choice->aux != NULL) {
        factor->kind = choice->kind;
        factor->uplo = choice->kind == GX_FACTOR_UPPER ? GX_UPPER : GX_LOWER;
        take_factor(factor, A, choice);
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    bool is_guess = choose(factor, A, choice->kind);
    factor->uplo = factor->kind == GX_FACTOR_UPPER ? GX_UPPER : GX_LOWER;
    if (factor->kind == GX_FACTOR_DIAGONAL) {
        read_diagonal(factor, A);
    } else if (gx_factor_make_there(factor, A, choice->cols, is_guess)) {
        factor->A = A;
        factor->choice = *choice;
    } else if (is_resident(factor, A)) {
        factor_resident(factor, A, is_guess);
    } else {
        make_large(factor, A, is_guess);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* The same factor on the host: the device could not solve with it. */
static void make_here(gx_factor *factor)
{
    gx_run *run = factor->run;
    const gx_mat *A = factor->A;
    gx_factor_choice choice = factor->choice;
    choice.cols = 0;
    gx_factor_clear(factor);
    gx_factor_make(run, A, &choice, factor);
}

gx_code gx_factor_solve(gx_factor *factor, gx_trans trans, const gx_mat *B, gx_sink *X)
{
    gx_run *run = factor->run;
    if (!gx_ok(run)) {
        return run->err.code;
    }
    if (!gx_number_is_complex(factor->dtype) && trans == GX_CONJ_TRANS) {
        trans = GX_TRANS;
    }
    if (X->rows == 0 || X->cols == 0) {
        return GX_OK;
    }
    if (factor->is_there && gx_factor_solve_there(factor, trans, B, X)) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    if (factor->choice.cols > 0 && !factor->is_there) {
        make_here(factor);
    }
    if (!gx_ok(run)) {
        return run->err.code;
    }
    if (factor->kind == GX_FACTOR_DIAGONAL) {
        solve_diagonal(factor, trans, B, X);
    } else if (factor->is_resident) {
        solve_resident(factor, trans, B, X);
    } else {
        solve_large(factor, trans, B, X);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

void gx_factor_clear(gx_factor *factor)
{
    if (factor->run == NULL) {
        return;
    }
    gx_mem *mem = factor->run->ctx->mem;
    gx_factor_clear_there(factor);
    gx_mem_free(mem, factor->memory);
    gx_mem_free(mem, factor->pivots);
    gx_sink_drop(&factor->scratch);
    gx_aux_clear(&factor->own_aux, mem);
    memset(factor, 0, sizeof *factor);
}

gx_code gx_factor_try_cholesky(gx_run *run, const gx_mat *A, bool *is_positive)
{
    gx_factor f = {.run = run, .n = A->rows, .dtype = A->number, .kind = GX_FACTOR_CHOLESKY};
    int64_t minor = 0;
    memcpy(f.label, A->label, sizeof f.label);
    *is_positive = is_resident(&f, A) ? factor_cholesky(&f, A, &minor) : factor_large(&f, A);
    gx_factor_clear(&f);
    gx_run_forgive(run, GX_NUMERIC);
    *is_positive = *is_positive && gx_ok(run);
    return gx_ok(run) ? GX_OK : run->err.code;
}
