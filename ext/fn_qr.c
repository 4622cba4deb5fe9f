/*
** QR in SQL: factorisations, least squares, rank, pseudo-inverse.
**
** Each function reads its arguments, lets core/alg_qr.c, alg_tsqr.c and alg_lstsq.c do the
** mathematics into sinks, and returns the stored name or the value.
*/
#include "gx_ext.h"

#include "../core/alg_qr.h"

#include <math.h>

/* ---- gx_lstsq -------------------------------------------------------------------------------- */

typedef struct lstsq_options {
    gx_dest dest; /* first: a set_offset of 0 means none */
    bool replace;
    double rcond;
} lstsq_options;

static const gx_option lstsq_keys[] = {
    {"rcond", GX_OPT_REAL, offsetof(lstsq_options, rcond), 0},
    {"replace", GX_OPT_BOOL, offsetof(lstsq_options, replace), 0},
    {NULL, GX_OPT_END, 0, 0}};

/* rcond: -1 (the default) or a number in [0, 1). */
static bool check_rcond(gx_fn *fn, double rcond)
{
    return rcond == -1 || (rcond >= 0 && rcond < 1) ||
           gx_fn_fail(fn, "\"rcond\" must be at least 0 and below 1, not %g", rcond);
}

static void lstsq(gx_fn *fn)
{
    lstsq_options opt = {.rcond = -1};
    gx_mat A, B;
    if (!gx_fn_options(fn, lstsq_keys, &opt) || !check_rcond(fn, opt.rcond) ||
        !gx_fn_matrix(fn, 0, "A", &A) || !gx_fn_matrix(fn, 1, "B", &B) ||
        !gx_fn_dest(fn, 2, &opt.dest)) {
        return;
    }
    gx_lstsq_args args = {.A = &A, .B = &B, .rcond = opt.rcond};
    gx_lstsq_result result;
    int64_t rows, cols, tile_rows, tile_cols;
    gx_dtype dtype;
    gx_err err = {0};
    if (gx_lstsq_shape(&args, &rows, &cols, &dtype, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return;
    }
    opt.dest.replace = opt.replace;
    gx_sink X;
    gx_lstsq_tiles(&fn->run, &args, &tile_rows, &tile_cols);
    gx_sink_begin(&fn->run, &opt.dest, rows, cols, dtype, 0, tile_rows, tile_cols, &X);
    gx_alg_lstsq(&fn->run, &args, &X, &result);
    gx_fn_result_sink(fn, &X);
}

/* ---- gx_rank, gx_pinv ------------------------------------------------------------------------ */

static void rank(gx_fn *fn)
{
    gx_mat A;
    double tol = -1;
    int64_t result;
    if (!gx_fn_matrix(fn, 0, "A", &A) || (gx_fn_has(fn, 1) && !gx_fn_real(fn, 1, "tol", &tol))) {
        return;
    }
    if (gx_fn_has(fn, 1) && !(tol >= 0)) {
        gx_fn_fail(fn, "tol must not be negative, not %g", tol);
        return;
    }
    if (gx_alg_rank(&fn->run, &A, tol, &result) == GX_OK) {
        sqlite3_result_int64(fn->sql, result);
    }
}

static void pinv(gx_fn *fn)
{
    lstsq_options opt = {.rcond = -1};
    gx_mat A;
    if (!gx_fn_options(fn, lstsq_keys, &opt) || !check_rcond(fn, opt.rcond) ||
        !gx_fn_matrix(fn, 0, "A", &A) || !gx_fn_dest(fn, 1, &opt.dest)) {
        return;
    }
    int64_t tile_rows, tile_cols, found;
    opt.dest.replace = opt.replace;
    gx_sink P;
    gx_pinv_tiles(&fn->run, &A, &tile_rows, &tile_cols);
    gx_sink_begin(&fn->run, &opt.dest, A.cols, A.rows, A.dtype, 0, tile_rows, tile_cols, &P);
    gx_alg_pinv(&fn->run, &A, opt.rcond, &P, &found);
    gx_fn_result_sink(fn, &P);
}

const gx_function gx_functions_qr[] = {{"gx_lstsq", 2, 4, false, lstsq},
                                       {"gx_rank", 1, 2, false, rank},
                                       {"gx_pinv", 1, 3, false, pinv},
                                       {NULL, 0, 0, false, NULL}};
