/*
** gx_quantize, gx_dequantize: matrices as small whole numbers and a scale a row
** (core/mat/quantized.h).
*/
#include "gx_ext.h"

#include "../core/alg/quantize.h"

static const gx_option quantize_keys[] = {
    {"replace", GX_OPT_BOOL, offsetof(gx_dest, replace), 0},
    {NULL, GX_OPT_END, 0, 0},
};

/* gx_quantize(A, kind, destination[, options]): the name */
static void quantize(gx_fn *fn)
{
    static const int bits[] = {8, 4, 1};
    gx_mat A;
    int kind = -1;
    if (!gx_fn_options(fn, quantize_keys, &fn->dest) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_word(fn, 1, "kind", "i8|i4|bit", &kind)) {
        return;
    }
    if (kind < 0 || fn->dest.name == NULL) {
        gx_fn_fail(fn, kind < 0 ? "kind must be one of i8, i4, bit, not NULL"
                                : "a quantised matrix is stored: give it a destination");
        return;
    }
    if (gx_alg_quantize(&fn->run, &A, bits[kind], &fn->dest) == GX_OK) {
        sqlite3_result_text(fn->sql, fn->dest.name, -1, SQLITE_TRANSIENT);
    }
}

/* gx_dequantize(Q[, destination][, options]): what the codes stand for */
static void dequantize(gx_fn *fn)
{
    gx_mat Q;
    gx_sink C;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "Q", &Q)) {
        return;
    }
    if (gx_mat_codes(&Q) == NULL) {
        gx_fn_fail(fn, "%s is not a quantised matrix", Q.label);
        return;
    }
    gx_copy_any(&fn->run, &Q, &fn->dest, 0, &C);
    gx_fn_result_sink(fn, &C);
}

const gx_function gx_functions_quantize[] = {
    {"gx_quantize", 3, 4, GX_DEST(2), quantize, 0},
    {"gx_dequantize", 1, 3, GX_MADE(1), dequantize, 0},
    {.name = NULL},
};
