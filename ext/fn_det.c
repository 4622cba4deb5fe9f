/*
** Determinants and inverses in SQL.
**
**   gx_det(A)                                   the determinant; inf where it is no double
**   gx_logdet(A)                                log |det A|
**   SELECT sign, imag, log FROM gx_logdet(A)    and its sign, a number of modulus 1
**   gx_inverse(A[, destination][, options])
**
** Each takes a stored LU factorisation in the place of A.
*/
#include "parts.h"
#include "table_fn.h"

#include "../core/alg/alg_lu.h"

#include <math.h>

SQLITE_EXTENSION_INIT3

/* A, or a factorisation of it; a QR factorisation is refused. */
static bool take_matrix(gx_fn *fn, gx_mat *A, gx_aux *aux)
{
    gx_err err = {0};
    if (!gx_fn_factor(fn, 0, "A", A, aux)) {
        return false;
    }
    if (aux->kind != GX_AUX_NONE && aux->kind != GX_AUX_LU) {
        gx_aux_refuse(A->label, A->properties, &err);
        gx_run_fail(&fn->run, &err);
    }
    return gx_ok(&fn->run);
}

static void det(gx_fn *fn)
{
    gx_mat A;
    gx_aux aux;
    gx_determinant d;
    if (gx_fn_options(fn, NULL, NULL) && take_matrix(fn, &A, &aux) &&
        gx_alg_determinant(&fn->run, &A, &aux, &d) == GX_OK) {
        gx_fn_result_scalar(fn, d.det, gx_number_is_complex(A.number));
    }
}

static void logdet(gx_fn *fn)
{
    gx_mat A;
    gx_aux aux;
    gx_determinant d;
    if (gx_fn_options(fn, NULL, NULL) && take_matrix(fn, &A, &aux) &&
        gx_alg_determinant(&fn->run, &A, &aux, &d) == GX_OK) {
        gx_fn_result_scalar(fn, (gx_scalar){d.log, 0}, false);
    }
}

// gx_logdet as a table ----------------------------------------------------------------------------

enum { COL_SIGN, COL_IMAG, COL_LOG, COLUMNS };

static bool begin_logdet(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    gx_mat A;
    gx_aux aux;
    (void)used;
    *rows = 1;
    return take_matrix(fn, &A, &aux) && gx_alg_determinant(&fn->run, &A, &aux, state) == GX_OK;
}

static void put_logdet(void *state, gx_ctx *ctx, int64_t row, int column, sqlite3_context *sql)
{
    const gx_determinant *d = state;
    (void)ctx;
    (void)row;
    sqlite3_result_double(sql, column == COL_SIGN   ? d->sign.re
                               : column == COL_IMAG ? d->sign.im
                                                    : d->log);
}

const gx_table_fn gx_table_logdet = {
    .def = {"gx_logdet", 1, 1, false, NULL},
    .shape = "CREATE TABLE x(sign REAL, imag REAL, log REAL, a HIDDEN)",
    .columns = COLUMNS,
    .state_bytes = sizeof(gx_determinant),
    .begin = begin_logdet,
    .column = put_logdet,
};

// gx_inverse --------------------------------------------------------------------------------------

static void inverse(gx_fn *fn)
{
    gx_dest dest = {0};
    gx_mat A;
    gx_aux aux;
    if (!gx_fn_options(fn, gx_dest_keys, &dest) || !take_matrix(fn, &A, &aux) ||
        !gx_fn_dest(fn, 1, &dest)) {
        return;
    }
    if (A.rows != A.cols) {
        gx_fn_fail(fn, "%s is %lldx%lld but must be square", A.label, (long long)A.rows,
                   (long long)A.cols);
        return;
    }
    uint32_t kept = GX_PROP_LOWER | GX_PROP_UPPER | GX_PROP_UNIT;
    gx_sink C;
    gx_sink_begin(&fn->run, &dest, A.rows, A.cols, A.number, A.properties & kept, 0, 0, &C);
    gx_alg_inverse(&fn->run, &A, &aux, &C);
    gx_fn_result_sink(fn, &C);
}

const gx_function gx_functions_det[] = {
    {"gx_det", 1, 1, false, det},
    {"gx_logdet", 1, 1, false, logdet},
    {"gx_inverse", 1, 3, false, inverse},
    {NULL, 0, 0, false, NULL},
};
