/*
** gx_eig(A, options) and gx_svd(A, options) as tables: a row an eigenvalue, a singular value.
**
**   gx_eig   k, value, imag, residual, vector, left_vector
**   gx_svd   k, sigma, u, v, residual
**
** Vectors and residuals are computed only where the statement names their columns; left vectors
** only with {"left":true}.  Vectors are columns, as matrix values.
*/
#include "spectra.h"
#include "table_fn.h"

// gx_eig ------------------------------------------------------------------------------------------

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

static void eig_vector(const eig_state *s, gx_ctx *ctx, const void *vectors, int64_t row,
                       sqlite3_context *sql)
{
    const gx_eig_result *r = &s->result;
    if (vectors != NULL) {
        gx_table_result_matrix(sql, ctx, "gx_eig", r->dtype, r->n, 1,
                               gx_at(vectors, r->dtype, r->n, 0, row), 1, gx_max(1, r->n));
    }
}

static void eig_column(void *state, gx_ctx *ctx, int64_t row, int column, sqlite3_context *sql)
{
    const eig_state *s = state;
    const gx_eig_result *r = &s->result;
    switch (column) {
    case EIG_K:
        sqlite3_result_int64(sql, row);
        break;
    case EIG_VALUE:
        sqlite3_result_double(sql, r->values[row].re);
        break;
    case EIG_IMAG:
        sqlite3_result_double(sql, r->values[row].im);
        break;
    case EIG_RESIDUAL:
        if (r->residuals != NULL) {
            sqlite3_result_double(sql, r->residuals[row]);
        }
        break;
    case EIG_VECTOR:
        eig_vector(s, ctx, r->right, row, sql);
        break;
    default:
        if (s->has_left) {
            eig_vector(s, ctx, r->is_hermitian ? r->right : r->left, row, sql);
        }
        break;
    }
}

static void eig_clear(void *state)
{
    gx_eig_clear(&((eig_state *)state)->result);
}

const gx_table_fn gx_table_eig = {
    .def = {"gx_eig", 1, 2, false, NULL},
    .shape = "CREATE TABLE x(k INTEGER, value REAL, imag REAL, residual REAL, vector BLOB, "
             "left_vector BLOB, a HIDDEN, options HIDDEN)",
    .columns = EIG_COLUMNS,
    .state_bytes = sizeof(eig_state),
    .begin = eig_begin,
    .column = eig_column,
    .clear = eig_clear,
};

// gx_svd ------------------------------------------------------------------------------------------

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
    if (r->vt != NULL && gx_number_is_complex(r->dtype)) {
        double *d = r->vt;
        float *f = r->vt;
        for (int64_t i = 0; i < r->vt_rows * r->n; i++) {
            if (r->dtype == GX_C128) {
                d[2 * i + 1] = -d[2 * i + 1];
            } else {
                f[2 * i + 1] = -f[2 * i + 1];
            }
        }
    }
    *rows = r->count;
    return true;
}

static void svd_column(void *state, gx_ctx *ctx, int64_t row, int column, sqlite3_context *sql)
{
    const gx_svd_result *r = state;
    switch (column) {
    case SVD_K:
        sqlite3_result_int64(sql, row);
        break;
    case SVD_SIGMA:
        sqlite3_result_double(sql, r->sigma[row]);
        break;
    case SVD_U:
        if (r->u != NULL) {
            gx_table_result_matrix(sql, ctx, "gx_svd", r->dtype, r->m, 1,
                                   gx_at(r->u, r->dtype, r->m, 0, row), 1, gx_max(1, r->m));
        }
        break;
    case SVD_RESIDUAL:
        if (r->residuals != NULL) {
            sqlite3_result_double(sql, r->residuals[row]);
        }
        break;
    default:
        if (r->vt != NULL) {
            gx_table_result_matrix(sql, ctx, "gx_svd", r->dtype, r->n, 1,
                                   gx_at(r->vt, r->dtype, r->vt_rows, row, 0), r->vt_rows,
                                   gx_max(1, r->n));
        }
        break;
    }
}

static void svd_clear(void *state)
{
    gx_svd_clear(state);
}

const gx_table_fn gx_table_svd = {
    .def = {"gx_svd", 1, 2, false, NULL},
    .shape = "CREATE TABLE x(k INTEGER, sigma REAL, u BLOB, v BLOB, residual REAL, a HIDDEN, "
             "options HIDDEN)",
    .columns = SVD_COLUMNS,
    .state_bytes = sizeof(gx_svd_result),
    .begin = svd_begin,
    .column = svd_column,
    .clear = svd_clear,
};
