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
#include "exact_fn.h"
#include "table_fn.h"

#include "../core/alg/alg_lu.h"

typedef struct det_options {
    bool is_given; /* first: an offset of 0 means none */
    gx_exact_options exact;
} det_options;

static const gx_option det_keys[] = {GX_EXACT_KEYS(det_options), {NULL, GX_OPT_END, 0, 0}};

/* gx_det(A[, options]), gx_logdet(A) */
static void det(gx_fn *fn)
{
    gx_mat A;
    gx_aux aux;
    gx_determinant d;
    det_options opt = {0};
    if (!gx_fn_options(fn, fn->def->variant == 0 ? det_keys : NULL, &opt) ||
        !gx_fn_factor(fn, 0, "A", GX_AUX_LU, &A, &aux)) {
        return;
    }
    if (aux.kind == GX_AUX_NONE && gx_fn_is_exact(&opt.exact, &A, NULL)) {
        gx_exact_fn_det(fn, &opt.exact, &A);
        return;
    }
    if (gx_alg_determinant(&fn->run, &A, &aux, &d) == GX_OK) {
        bool is_log = fn->def->variant == 1;
        gx_fn_result_scalar(fn, is_log ? (gx_scalar){d.log, 0} : d.det,
                            !is_log && gx_number_is_complex(A.number));
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
    return gx_fn_factor(fn, 0, "A", GX_AUX_LU, &A, &aux) &&
           gx_alg_determinant(&fn->run, &A, &aux, state) == GX_OK;
}

static gx_cell logdet_cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    const gx_determinant *d = state;
    (void)ctx, (void)row;
    return gx_cell_real(column == COL_SIGN ? d->sign.re : column == COL_IMAG ? d->sign.im : d->log);
}

const gx_table_fn gx_table_logdet = {
    .def = {"gx_logdet", 1, 1, 0, NULL, 0},
    .shape = "CREATE TABLE x(sign REAL, imag REAL, log REAL, a HIDDEN)",
    .columns = COLUMNS,
    .state_bytes = sizeof(gx_determinant),
    .begin = begin_logdet,
    .cell = logdet_cell,
};

// gx_inverse --------------------------------------------------------------------------------------

static void inverse(gx_fn *fn)
{
    gx_mat A;
    gx_aux aux;
    det_options opt = {0};
    if (!gx_fn_options(fn, det_keys, &opt) || !gx_fn_factor(fn, 0, "A", GX_AUX_LU, &A, &aux) ||
        !gx_fn_is_square(fn, &A)) {
        return;
    }
    if (aux.kind == GX_AUX_NONE && gx_fn_is_exact(&opt.exact, &A, NULL)) {
        gx_exact_fn_solve(fn, &opt.exact, &A, NULL);
        return;
    }
    uint32_t kept = GX_PROP_LOWER | GX_PROP_UPPER | GX_PROP_UNIT;
    gx_sink C;
    gx_sink_begin(&fn->run, &fn->dest, A.rows, A.cols, A.number, A.properties & kept, 0, 0, &C);
    gx_alg_inverse(&fn->run, &A, &aux, &C);
    gx_fn_result_sink(fn, &C);
}

const gx_function gx_functions_det[] = {
    {"gx_det", 1, 2, GX_EXACT, det, 0},
    {"gx_logdet", 1, 1, 0, det, 1},
    {"gx_inverse", 1, 3, GX_MADE(1) | GX_EXACT, inverse, 0},
    {.name = NULL},
};
