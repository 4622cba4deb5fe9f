/*
** Statistics of columns in SQL: covariance, correlation, principal components.
**
**   gx_cov(A[, destination][, options])    gx_corr(A[, dest][, options])
**   gx_pca(A[, k[, destination]][, options])       the model, n x (2 + k): mean, scale, components
**   gx_pca(A[, k][, options])                      as a table: component, variance, ratio, vector
**   gx_pca_project(X, model[, destination][, options])    scores, one row an observation
*/
#include "spectra.h"
#include "table_fn.h"

#include "../core/alg/alg.h"
#include "../core/alg/dense.h"
#include "../core/spectra/alg_pca.h"

#include <string.h>

// gx_cov, gx_corr ---------------------------------------------------------------------------------

typedef struct cov_options {
    bool is_by_rows;
    int64_t ddof;
} cov_options;

/* The first is of gx_cov alone. */
static const gx_option cov_keys[] = {{"ddof", GX_OPT_INT, offsetof(cov_options, ddof), 0},
                                     {"rows", GX_OPT_BOOL, offsetof(cov_options, is_by_rows), 0},
                                     {NULL, GX_OPT_END, 0, 0}};

/* gx_cov, gx_corr */
static void covariance(gx_fn *fn)
{
    bool is_correlation = fn->def->variant == 1;
    cov_options opt = {.ddof = 1};
    gx_mat A, view;
    if (!gx_fn_options(fn, cov_keys + is_correlation, &opt) || !gx_fn_matrix(fn, 0, "A", &A)) {
        return;
    }
    gx_cov_args args = {.A = &A, .ddof = opt.ddof, .is_correlation = is_correlation};
    if (opt.is_by_rows) {
        gx_mat_view(&view, &A, GX_TRANS, 0, 0, A.cols, A.rows);
        args.A = &view;
    }
    uint32_t symmetric = GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN;
    uint32_t properties = gx_number_is_complex(A.number) ? GX_PROP_HERMITIAN : symmetric;
    gx_sink C;
    gx_sink_begin(&fn->run, &fn->dest, args.A->cols, args.A->cols, A.number, properties, 0, 0, &C);
    gx_alg_cov(&fn->run, &args, &C);
    gx_fn_result_sink(fn, &C);
}

// gx_pca ------------------------------------------------------------------------------------------

typedef struct pca_options {
    bool is_standardized, replace;
    int64_t ddof;
    gx_svd_options svd; /* method, and what the iterative ones take */
} pca_options;

#define PCA(field) offsetof(pca_options, field)

/* What the scalar function and the table share. */
#define PCA_COMMON                                                                                 \
    {"standardize", GX_OPT_BOOL, PCA(is_standardized), 0}, {"ddof", GX_OPT_INT, PCA(ddof), 0},     \
        GX_SVD_HOW(pca_options, svd.)

static const gx_option pca_keys[] = {
    PCA_COMMON, {"replace", GX_OPT_BOOL, PCA(replace), 0}, {NULL, GX_OPT_END, 0, 0}};

static const gx_option pca_table_keys[] = {PCA_COMMON, {NULL, GX_OPT_END, 0, 0}};

/* A and what is asked of it. */
static bool take_arguments(gx_fn *fn, const gx_option *keys, gx_mat *A, gx_pca_args *args,
                           pca_options *opt)
{
    *opt = (pca_options){.ddof = 1};
    if (!gx_fn_options(fn, keys, opt) || !gx_fn_matrix(fn, 0, "A", A) ||
        (gx_fn_has(fn, 1) && !gx_fn_int(fn, 1, "k", &args->k)) ||
        !gx_svd_args_of(fn, &opt->svd, A, true, &args->how)) {
        return false;
    }
    args->A = A;
    args->ddof = opt->ddof;
    args->is_standardized = opt->is_standardized;
    return !gx_fn_has(fn, 1) || args->k >= 1 ||
           gx_fn_fail(fn, "k must be at least 1, not %lld", (long long)args->k);
}

/* mean, scale and components as columns of one matrix of dtype. */
static void store_model(gx_fn *fn, const gx_pca_result *r, gx_sink *sink)
{
    void *model = NULL;
    int64_t n = r->n, ld = gx_max(1, n);
    if (gx_dense_alloc(&fn->run, sink->number, n, r->count + 2, "the model", &model) == GX_OK) {
        gx_number to = sink->number;
        for (int64_t j = 0; j < n; j++) { // one at a time: a complex mean may become a real one
            bool is_complex = gx_number_is_complex(to);
            const void *mean = &r->mean[j];
            gx_convert(is_complex ? GX_C128 : GX_F64, mean, 1, to, gx_at(model, to, ld, j, 0), 1, 1,
                       1);
        }
        gx_convert(GX_F64, r->scale, ld, to, gx_at(model, to, ld, 0, 1), ld, n, 1);
        gx_convert(r->dtype, r->vectors, ld, to, gx_at(model, to, ld, 0, 2), ld, n, r->count);
        gx_dense_write(&fn->run, sink, model, ld);
    }
    gx_mem_free(fn->ctx->mem, model);
}

static void pca(gx_fn *fn)
{
    pca_options opt;
    gx_pca_args args = {0};
    gx_mat A;
    if (!take_arguments(fn, pca_keys, &A, &args, &opt)) {
        return;
    }
    fn->dest.replace = opt.replace;
    int64_t most = gx_min(A.rows, A.cols), count = args.k == 0 ? most : gx_min(args.k, most);
    gx_pca_result result = {0};
    gx_sink sink;
    gx_sink_begin(&fn->run, &fn->dest, A.cols, 2 + count, A.number, 0, 0, 0, &sink);
    if (gx_alg_pca(&fn->run, &args, &result) == GX_OK) {
        store_model(fn, &result, &sink);
    }
    gx_fn_result_sink(fn, &sink);
    if (result.mem != NULL) {
        gx_pca_clear(&result);
    }
}

enum { PCA_COMPONENT, PCA_VARIANCE, PCA_RATIO, PCA_VECTOR, PCA_COLUMNS };

typedef struct pca_state {
    gx_pca_result result;
    gx_number dtype; /* of vectors as they are shown: A's */
} pca_state;

static bool pca_begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    (void)used;
    pca_state *s = state;
    pca_options opt;
    gx_pca_args args = {0};
    gx_mat A;
    s->result.mem = fn->ctx->mem;
    if (!take_arguments(fn, pca_table_keys, &A, &args, &opt)) {
        return false;
    }
    s->dtype = A.number;
    if (gx_alg_pca(&fn->run, &args, &s->result) != GX_OK) {
        return false;
    }
    gx_pca_result *r = &s->result;
    gx_narrow_in_place(r->dtype, r->vectors, r->n * r->count, s->dtype);
    *rows = r->count;
    return true;
}

static gx_cell pca_cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    const pca_state *s = state;
    const gx_pca_result *r = &s->result;
    (void)ctx;
    switch (column) {
    case PCA_COMPONENT:
        return gx_cell_int(row);
    case PCA_VARIANCE:
        return gx_cell_real(r->variance[row]);
    case PCA_RATIO:
        return gx_cell_real(r->total == 0 ? 0 : r->variance[row] / r->total);
    default:
        return gx_cell_vector(s->dtype, r->n, gx_at(r->vectors, s->dtype, r->n, 0, row), 1);
    }
}

static void pca_clear(void *state)
{
    pca_state *s = state;
    if (s->result.mem != NULL) {
        gx_pca_clear(&s->result);
    }
}

const gx_table_fn gx_table_pca = {
    .def = {"gx_pca", 1, 3, 0, NULL, 0},
    .shape = "CREATE TABLE x(component INTEGER, variance REAL, ratio REAL, vector BLOB, a HIDDEN, "
             "k HIDDEN, options HIDDEN)",
    .columns = PCA_COLUMNS,
    .state_bytes = sizeof(pca_state),
    .begin = pca_begin,
    .cell = pca_cell,
    .clear = pca_clear,
};

// gx_pca_project ----------------------------------------------------------------------------------

/* The model's first two columns as a shift and factors of the call's own memory. */
static bool take_columns(gx_fn *fn, const gx_mat *model, gx_scalar **mean, double **factor)
{
    int64_t n = model->rows;
    gx_mat head;
    gx_mat_view(&head, model, GX_NO_TRANS, 0, 0, n, 2);
    *mean = gx_fn_alloc(fn, 2 * (size_t)n * sizeof **mean, "the model");
    *factor = gx_fn_alloc(fn, (size_t)n * sizeof **factor, "the model");
    if (!gx_ok(&fn->run) ||
        gx_dense_load(&fn->run, &head, GX_C128, *mean, gx_max(1, n)) != GX_OK) {
        return false;
    }
    for (int64_t j = 0; j < n; j++) {
        (*factor)[j] = 1 / (*mean)[n + j].re;
    }
    return true;
}

static void pca_project(gx_fn *fn)
{
    gx_mat A, model, X, V;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_matrix(fn, 1, "model", &model)) {
        return;
    }
    if (model.cols < 2 || model.rows != A.cols) {
        gx_fn_fail(fn,
                   "%s is %lldx%lld but a model of %s (%lldx%lld) has %lld rows: mean, scale, "
                   "components",
                   model.label, (long long)model.rows, (long long)model.cols, A.label,
                   (long long)A.rows, (long long)A.cols, (long long)A.cols);
        return;
    }
    gx_scalar *mean = NULL;
    double *factor = NULL;
    if (!take_columns(fn, &model, &mean, &factor)) {
        return;
    }
    gx_mat_view(&V, &model, GX_NO_TRANS, 0, 2, model.rows, model.cols - 2);
    gx_number dtype = gx_number_promote(A.number, model.number);
    gx_mat_centred(&X, &A, dtype, mean, factor, false);
    gx_sink C;
    gx_sink_begin(&fn->run, &fn->dest, A.rows, V.cols, dtype, 0, 0, 0, &C);
    gx_alg_matmul(&fn->run, &(gx_matmul_args){.A = &X, .B = &V, .alpha = {1, 0}}, &C);
    gx_fn_result_sink(fn, &C);
}

const gx_function gx_functions_pca[] = {
    {"gx_cov", 1, 3, GX_MADE(1), covariance, 0},
    {"gx_corr", 1, 3, GX_MADE(1), covariance, 1},
    {"gx_pca", 1, 4, GX_DEST(2), pca, 0},
    {"gx_pca_project", 2, 4, GX_MADE(2), pca_project, 0},
    {.name = NULL},
};
