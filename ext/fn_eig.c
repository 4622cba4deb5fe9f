/*
** Spectra in SQL: eigenvalues, singular values, null spaces.
**
**   gx_eig(A[, values[, vectors]][, options])     values n x 1, vectors n x n (k columns)
**   gx_eigvals(A[, values][, options])
**   gx_svd(A[, s[, u[, vt]]][, options])
**   gx_nullspace(A[, destination][, options])
**
** The tables of the same names are in vtab_eig.c, the options in spectra.c, the mathematics in
** core/spectra/alg_eig.h.  Several destinations are stored together or not at all (outputs.c).
*/
#include "outputs.h"
#include "spectra.h"

#include "../core/alg/alg_qr.h"
#include "../core/alg/dense.h"

#include <math.h>
#include <string.h>

/* count numbers at x, which has room for them as `from`, become dtype in place (a narrower one). */
static void narrow(gx_number from, void *x, int64_t count, gx_number dtype)
{
    if (from != dtype) {
        for (int64_t i = 0; i < count; i++) {
            char element[2 * sizeof(double)];
            memcpy(element, gx_at(x, from, 1, i, 0), gx_number_bytes(from));
            gx_convert(from, element, 1, dtype, gx_at(x, dtype, 1, i, 0), 1, 1, 1);
        }
    }
}

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
        narrow(GX_C128, parts, r->count, dtype);
        return;
    }
    for (int64_t i = 0; i < r->count; i++) {
        parts[i] = parts[2 * i];
    }
    narrow(GX_F64, parts, r->count, dtype);
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

static void eig_with(gx_fn *fn, const gx_option *keys, bool is_values_only)
{
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

static void eig(gx_fn *fn)
{
    eig_with(fn, gx_eig_keys, false);
}

static void eigvals(gx_fn *fn)
{
    eig_with(fn, gx_eigvals_keys, true);
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
        narrow(GX_F64, r.sigma, r.count, real);
    }
    gx_svd_long_end(&far);
    gx_outputs_finish(&out, &opt.s, 0, real, r.count, 1, r.sigma, gx_max(1, r.count));
    r.mem = fn->ctx->mem;
    gx_svd_clear(&r);
}

// gx_nullspace ------------------------------------------------------------------------------------

typedef struct nullspace_options {
    gx_dest dest;
    bool has_tol;
    double tol;
} nullspace_options;

static const gx_option nullspace_keys[] = {
    {"tol", GX_OPT_REAL, offsetof(nullspace_options, tol), offsetof(nullspace_options, has_tol)},
    GX_DEST_KEYS(nullspace_options, dest),
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
    if (!gx_fn_options(fn, nullspace_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_dest(fn, 1, &opt.dest)) {
        return;
    }
    if (opt.has_tol && !(opt.tol >= 0)) {
        gx_fn_fail(fn, "option \"tol\" is %g but must be at least 0", opt.tol);
        return;
    }
    const gx_dest *dests[] = {&opt.dest};
    // A tall matrix has all of V^H in the economy mode; a wide one needs the full one.
    gx_svd_args args = {.A = &A, .mode = A.rows >= A.cols ? GX_SVD_ECONOMY : GX_SVD_FULL};
    void *basis = NULL;
    int64_t rank = 0;
    if (gx_outputs_begin(&out, fn, dests, 1) && gx_alg_svd(&fn->run, &args, &r) == GX_OK) {
        rank = rank_of(&r, &opt);
        basis = nullspace_of(&fn->run, &r, rank);
    }
    gx_outputs_finish(&out, &opt.dest, 0, A.number, A.cols, A.cols - rank, basis,
                      gx_max(1, A.cols));
    gx_mem_free(fn->ctx->mem, basis);
    r.mem = fn->ctx->mem;
    gx_svd_clear(&r);
}

const gx_function gx_functions_eig[] = {{"gx_eig", 1, 4, false, eig},
                                        {"gx_eigvals", 1, 3, false, eigvals},
                                        {"gx_svd", 1, 5, false, svd},
                                        {"gx_nullspace", 1, 3, false, nullspace},
                                        {NULL, 0, 0, false, NULL}};
