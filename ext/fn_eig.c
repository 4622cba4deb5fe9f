/*
** Spectra in SQL: eigenvalues, singular values, null spaces.
**
**   gx_eig(A[, values[, vectors]][, options])     values n x 1, vectors n x n (k columns)
**   gx_eigvals(A[, values][, options])
**   gx_svd(A[, s[, u[, vt]]][, options])
**   gx_nullspace(A[, destination][, options])
**   gx_sqrtm, gx_expm, gx_logm (A[, destination][, options]), gx_powm(A, power[, ...])
**
** and as tables, a row an eigenvalue, a singular value:
**
**   gx_eig   k, value, imag, residual, vector, left_vector
**   gx_svd   k, sigma, u, v, residual
**
** There vectors and residuals are computed only where the statement names their columns; left
** vectors only with {"left":true}.  Vectors are columns, as matrix values.  The options are in
** spectra.c, the mathematics in core/spectra/alg_eig.h and funm.h.  Several destinations are stored
** together or not at all (outputs.c).
*/
#include "exact_fn.h"
#include "spectra.h"
#include "table_fn.h"

#include "../core/alg/alg_qr.h"
#include "../core/alg/dense.h"
#include "../core/spectra/funm.h"

#include <math.h>
#include <string.h>

/* The real parts of complex values, or all of it. */
static gx_number value_dtype(const gx_eig_result *r, gx_number of_a)
{
    bool is_double = gx_number_is_double(of_a);
    return r->is_real ? (is_double ? GX_F64 : GX_F32) : is_double ? GX_C128 : GX_C64;
}

/* values, which are complex doubles, become dtype in place. */
static void pack_values(gx_eig_result *r, gx_number dtype)
{
    double *parts = (double *)(void *)r->values;
    if (gx_number_is_complex(dtype)) {
        gx_narrow_in_place(GX_C128, parts, r->count, dtype);
        return;
    }
    for (int64_t i = 0; i < r->count; i++) {
        parts[i] = parts[2 * i];
    }
    gx_narrow_in_place(GX_F64, parts, r->count, dtype);
}

/* Eigenvectors of a Hermitian matrix are orthonormal, unless with respect to B. */
static uint32_t vector_properties(const gx_eig_result *r, const gx_eig_args *args)
{
    return r->is_hermitian && args->B == NULL && r->count > 0 ? GX_PROP_ORTHOGONAL : 0;
}

static void find_and_store(gx_fn *fn, gx_eig_options *opt, const gx_eig_args *args)
{
    gx_eig_result r = {0};
    gx_outputs out;
    const gx_dest *dests[] = {&opt->values, &opt->vectors, &opt->left};
    gx_number of_a =
        args->B == NULL ? args->A->number : gx_number_promote(args->A->number, args->B->number);
    gx_number dtype = of_a;
    if (gx_outputs_begin(&out, fn, dests, 3) && gx_alg_eig(&fn->run, args, &r) == GX_OK) {
        const void *left = r.is_hermitian ? r.right : r.left;
        uint32_t properties = vector_properties(&r, args);
        int64_t ld = gx_max(1, r.n);
        gx_outputs_store(&out, &opt->vectors, properties, r.dtype, r.n, r.count, r.right, ld);
        gx_outputs_store(&out, &opt->left, properties, r.dtype, r.n, r.count, left, ld);
        dtype = value_dtype(&r, of_a);
        pack_values(&r, dtype);
    }
    gx_outputs_finish(&out, &opt->values, 0, dtype, r.count, 1, r.values, gx_max(1, r.count));
    r.mem = fn->ctx->mem;
    gx_eig_clear(&r);
}

/* gx_eig, gx_eigvals */
static void eig(gx_fn *fn)
{
    bool is_values_only = fn->def->variant == 1;
    const gx_option *keys = is_values_only ? gx_eigvals_keys : gx_eig_keys;
    gx_eig_options opt = {0};
    gx_mat A, mats[2];
    gx_eig_args args;
    if (!gx_fn_options(fn, keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A) ||
        (!is_values_only && !gx_fn_dest(fn, 2, &opt.vectors)) || !gx_fn_dest(fn, 1, &opt.values) ||
        !gx_eig_args_of(fn, &opt, &A, mats, &args)) {
        return;
    }
    opt.values.replace = opt.vectors.replace = opt.left.replace = opt.replace;
    args.wants_right = opt.vectors.name != NULL;
    args.wants_left = opt.left.name != NULL;
    find_and_store(fn, &opt, &args);
}

// gx_svd ------------------------------------------------------------------------------------------

/* Vectors that are in memory, or that far holds. */
static void store_side(gx_outputs *out, const gx_dest *dest, uint32_t properties,
                       const gx_svd_result *r, bool is_u, gx_svd_long *far)
{
    gx_run *run = &out->fn->run;
    int64_t rows = is_u ? r->m : r->vt_rows, cols = is_u ? r->u_cols : r->n;
    if (far->run == NULL || far->is_wide == is_u) {
        gx_outputs_store(out, dest, properties, r->dtype, rows, cols, is_u ? r->u : r->vt,
                         gx_max(1, rows));
    } else if (dest->name != NULL && gx_ok(run)) {
        gx_sink sink;
        gx_sink_begin(run, dest, rows, cols, r->dtype, properties, 0, 0, &sink);
        if (gx_ok(run)) {
            gx_svd_long_write(far, &sink);
        }
        gx_sink_end(&sink);
    }
}

/* All at once, or where the vectors are too many for that. */
static gx_code find_svd(gx_run *run, const gx_svd_args *args, gx_svd_result *r, gx_svd_long *far)
{
    return gx_svd_long_is_due(run, args) ? gx_svd_long_find(run, args, r, far)
                                         : gx_alg_svd(run, args, r);
}

static void svd(gx_fn *fn)
{
    gx_svd_options opt = {0};
    gx_mat A;
    gx_svd_args args;
    gx_svd_result r = {0};
    gx_outputs out;
    if (!gx_fn_options(fn, gx_svd_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_dest(fn, 2, &opt.u) || !gx_fn_dest(fn, 3, &opt.vt) || !gx_fn_dest(fn, 1, &opt.s) ||
        !gx_svd_args_of(fn, &opt, &A, opt.u.name != NULL || opt.vt.name != NULL, &args)) {
        return;
    }
    opt.s.replace = opt.u.replace = opt.vt.replace = opt.replace;
    const gx_dest *dests[] = {&opt.s, &opt.u, &opt.vt};
    gx_number real = gx_number_real(A.number);
    gx_svd_long far = {0};
    if (gx_outputs_begin(&out, fn, dests, 3) && find_svd(&fn->run, &args, &r, &far) == GX_OK) {
        uint32_t square = r.vt_rows == r.n ? GX_PROP_ORTHOGONAL : 0;
        store_side(&out, &opt.u, GX_PROP_ORTHOGONAL, &r, true, &far);
        store_side(&out, &opt.vt, square, &r, false, &far);
        gx_narrow_in_place(GX_F64, r.sigma, r.count, real);
    }
    gx_svd_long_end(&far);
    gx_outputs_finish(&out, &opt.s, 0, real, r.count, 1, r.sigma, gx_max(1, r.count));
    r.mem = fn->ctx->mem;
    gx_svd_clear(&r);
}

// gx_nullspace ------------------------------------------------------------------------------------

typedef struct nullspace_options {
    double tol;
    bool has_tol;
    gx_exact_options exact;
} nullspace_options;

static const gx_option nullspace_keys[] = {{"tol=[0,inf]", GX_OPT_REAL,
                                            offsetof(nullspace_options, tol),
                                            offsetof(nullspace_options, has_tol)},
                                           GX_EXACT_KEYS(nullspace_options),
                                           {NULL, GX_OPT_END, 0, 0}};

/* Singular values above the tolerance. */
static int64_t rank_of(const gx_svd_result *r, const nullspace_options *opt)
{
    double largest = r->count > 0 ? r->sigma[0] : 0;
    double tol = opt->has_tol ? opt->tol : gx_rank_rcond(r->dtype, r->m, r->n) * largest;
    int64_t rank = 0;
    while (rank < r->count && r->sigma[rank] > tol) {
        rank++;
    }
    return rank;
}

/* The last rows of V^H, conjugate transposed, each with the sign that vectors have. */
static void *nullspace_of(gx_run *run, const gx_svd_result *r, int64_t rank)
{
    void *out = NULL;
    int64_t cols = r->n - rank;
    gx_dense_alloc(run, r->dtype, r->n, cols, "a null space", &out);
    for (int64_t j = 0; j < cols && gx_ok(run); j++) {
        for (int64_t i = 0; i < r->n; i++) {
            memcpy(gx_at(out, r->dtype, r->n, i, j),
                   gx_at(r->vt, r->dtype, r->vt_rows, rank + j, i), gx_number_bytes(r->dtype));
        }
    }
    gx_dense_conj(run, r->dtype, r->n, cols, out);
    if (gx_ok(run)) {
        gx_eig_fix_sign(run, r->dtype, out, r->n, cols);
    }
    return out;
}

static void nullspace(gx_fn *fn)
{
    nullspace_options opt = {0};
    gx_mat A;
    gx_svd_result r = {0};
    gx_outputs out;
    if (!gx_fn_options(fn, nullspace_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A)) {
        return;
    }
    if (gx_fn_is_exact(&opt.exact, &A, NULL)) {
        gx_exact_fn_nullspace(fn, &opt.exact, &A);
        return;
    }
    const gx_dest *dests[] = {&fn->dest};
    // A tall matrix has all of V^H in the economy mode; a wide one needs the full one.
    gx_svd_args args = {.A = &A, .mode = A.rows >= A.cols ? GX_SVD_ECONOMY : GX_SVD_FULL};
    void *basis = NULL;
    int64_t rank = 0;
    if (gx_outputs_begin(&out, fn, dests, 1) && gx_alg_svd(&fn->run, &args, &r) == GX_OK) {
        rank = rank_of(&r, &opt);
        basis = nullspace_of(&fn->run, &r, rank);
    }
    gx_outputs_finish(&out, &fn->dest, 0, A.number, A.cols, A.cols - rank, basis,
                      gx_max(1, A.cols));
    gx_mem_free(fn->ctx->mem, basis);
    r.mem = fn->ctx->mem;
    gx_svd_clear(&r);
}

// Functions of matrices ---------------------------------------------------------------------------

static void funm(gx_fn *fn)
{
    gx_mat A;
    gx_funm_args args = {.A = &A, .function = (gx_funm)fn->def->variant};
    gx_funm_result r = {0};
    gx_outputs out;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "A", &A) ||
        (args.function == GX_FUNM_POWER && !gx_fn_real(fn, 1, "power", &args.power))) {
        return;
    }
    if (!(fabs(args.power) <= 0x1p53)) {
        gx_fn_fail(fn, "power is %g but must be at most 2^53 in magnitude", args.power);
        return;
    }
    const gx_dest *dests[] = {&fn->dest};
    if (gx_outputs_begin(&out, fn, dests, 1)) {
        gx_alg_funm(&fn->run, &args, &r);
    }
    gx_outputs_finish(&out, &fn->dest, r.properties, r.dtype, A.rows, A.rows, r.data,
                      gx_max(1, A.rows));
    gx_mem_free(fn->ctx->mem, r.data);
}

const gx_function gx_functions_eig[] = {{"gx_eig", 1, 4, GX_SPARSE(0), eig, 0},
                                        {"gx_eigvals", 1, 3, GX_SPARSE(0), eig, 1},
                                        {"gx_svd", 1, 5, GX_SPARSE(0), svd, 0},
                                        {"gx_nullspace", 1, 3, GX_MADE(1) | GX_EXACT, nullspace, 0},
                                        {"gx_sqrtm", 1, 3, GX_MADE(1), funm, GX_FUNM_SQRT},
                                        {"gx_expm", 1, 3, GX_MADE(1), funm, GX_FUNM_EXP},
                                        {"gx_logm", 1, 3, GX_MADE(1), funm, GX_FUNM_LOG},
                                        {"gx_powm", 2, 4, GX_MADE(2), funm, GX_FUNM_POWER},
                                        {.name = NULL}};

// gx_eig as a table -------------------------------------------------------------------------------

enum { EIG_K, EIG_VALUE, EIG_IMAG, EIG_RESIDUAL, EIG_VECTOR, EIG_LEFT, EIG_COLUMNS };

typedef struct eig_state {
    gx_eig_result result;
    bool has_left;
} eig_state;

static bool eig_begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    eig_state *s = state;
    gx_eig_options opt = {0};
    gx_mat A, mats[2];
    gx_eig_args args;
    s->result.mem = fn->ctx->mem;
    if (!gx_fn_options(fn, gx_eig_table_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_eig_args_of(fn, &opt, &A, mats, &args)) {
        return false;
    }
    s->has_left = opt.wants_left;
    args.wants_right = (used & 1 << EIG_VECTOR) != 0;
    args.wants_left = opt.wants_left && (used & 1 << EIG_LEFT) != 0;
    args.wants_residuals = (used & 1 << EIG_RESIDUAL) != 0;
    if (gx_alg_eig(&fn->run, &args, &s->result) != GX_OK) {
        return false;
    }
    *rows = s->result.count;
    return true;
}

static gx_cell eig_vector(const gx_eig_result *r, const void *vectors, int64_t row)
{
    return vectors == NULL
               ? (gx_cell){0}
               : gx_cell_vector(r->dtype, r->n, gx_at(vectors, r->dtype, r->n, 0, row), 1);
}

static gx_cell eig_cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    const eig_state *s = state;
    const gx_eig_result *r = &s->result;
    (void)ctx;
    switch (column) {
    case EIG_K:
        return gx_cell_int(row);
    case EIG_VALUE:
        return gx_cell_real(r->values[row].re);
    case EIG_IMAG:
        return gx_cell_real(r->values[row].im);
    case EIG_RESIDUAL:
        return r->residuals == NULL ? (gx_cell){0} : gx_cell_real(r->residuals[row]);
    case EIG_VECTOR:
        return eig_vector(r, r->right, row);
    default:
        return eig_vector(r, !s->has_left ? NULL : r->is_hermitian ? r->right : r->left, row);
    }
}

static void eig_clear(void *state)
{
    gx_eig_clear(&((eig_state *)state)->result);
}

const gx_table_fn gx_table_eig = {
    .def = {"gx_eig", 1, 2, GX_SPARSE(0), NULL, 0},
    .shape = "CREATE TABLE x(k INTEGER, value REAL, imag REAL, residual REAL, vector BLOB, "
             "left_vector BLOB, a HIDDEN, options HIDDEN)",
    .columns = EIG_COLUMNS,
    .state_bytes = sizeof(eig_state),
    .begin = eig_begin,
    .cell = eig_cell,
    .clear = eig_clear,
};

// gx_svd as a table -------------------------------------------------------------------------------

enum { SVD_K, SVD_SIGMA, SVD_U, SVD_V, SVD_RESIDUAL, SVD_COLUMNS };

/* V's columns are V^H's rows conjugated: made so once, when the scan begins. */
static bool svd_begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    gx_svd_result *r = state;
    gx_svd_options opt = {0};
    gx_mat A;
    gx_svd_args args;
    r->mem = fn->ctx->mem;
    bool wants_vectors = (used & (1 << SVD_U | 1 << SVD_V)) != 0;
    if (!gx_fn_options(fn, gx_svd_table_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_svd_args_of(fn, &opt, &A, wants_vectors, &args)) {
        return false;
    }
    args.wants_residuals = (used & 1 << SVD_RESIDUAL) != 0;
    if (gx_alg_svd(&fn->run, &args, r) != GX_OK) {
        return false;
    }
    if (r->vt != NULL) {
        gx_dense_conj(&fn->run, r->dtype, r->vt_rows, r->n, r->vt);
    }
    *rows = r->count;
    return true;
}

static gx_cell svd_cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    const gx_svd_result *r = state;
    (void)ctx;
    switch (column) {
    case SVD_K:
        return gx_cell_int(row);
    case SVD_SIGMA:
        return gx_cell_real(r->sigma[row]);
    case SVD_U:
        return r->u == NULL ? (gx_cell){0}
                            : gx_cell_vector(r->dtype, r->m,
                                             gx_at(r->u, r->dtype, r->m, 0, row), 1);
    case SVD_RESIDUAL:
        return r->residuals == NULL ? (gx_cell){0} : gx_cell_real(r->residuals[row]);
    default:
        return r->vt == NULL
                   ? (gx_cell){0}
                   : gx_cell_vector(r->dtype, r->n, gx_at(r->vt, r->dtype, r->vt_rows, row, 0),
                                    r->vt_rows);
    }
}

static void svd_clear(void *state)
{
    gx_svd_clear(state);
}

const gx_table_fn gx_table_svd = {
    .def = {"gx_svd", 1, 2, GX_SPARSE(0), NULL, 0},
    .shape = "CREATE TABLE x(k INTEGER, sigma REAL, u BLOB, v BLOB, residual REAL, a HIDDEN, "
             "options HIDDEN)",
    .columns = SVD_COLUMNS,
    .state_bytes = sizeof(gx_svd_result),
    .begin = svd_begin,
    .cell = svd_cell,
    .clear = svd_clear,
};
