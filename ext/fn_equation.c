/*
** Matrix equations in SQL (core/spectra/equation.h).
**
**   gx_sylvester(A, B, Q[, destination][, options])     A X + X B = Q
**   gx_lyapunov(A, Q[, destination][, options])         A X + X A^H = Q, or X - A X A^H = Q
**   gx_riccati(A, B, Q, R[, destination][, options])    continuous or discrete
*/
#include "gx_ext.h"

#include "../core/spectra/equation.h"

#include <string.h>

typedef struct equation_options {
    bool is_discrete;
} equation_options;

static const gx_option discrete_keys[] = {
    {"discrete", GX_OPT_BOOL, offsetof(equation_options, is_discrete), 0},
    {NULL, GX_OPT_END, 0, 0}};

static void equation(gx_fn *fn)
{
    gx_equation_args args = {.equation = (gx_equation)fn->def->variant};
    equation_options opt = {false};
    gx_mat mat[GX_EQUATION_MATS];
    gx_solution X = {.data = NULL};
    gx_outputs out;
    const gx_dest *all[] = {&fn->dest};
    if (!gx_fn_options(fn, args.equation == GX_SYLVESTER ? NULL : discrete_keys, &opt)) {
        return;
    }
    args.equation = (gx_equation)((int)args.equation + opt.is_discrete);
    const char *letters = gx_equation_letters[args.equation];
    for (int k = 0; letters[k] != 0; k++) {
        const char label[] = {letters[k], 0};
        if (!gx_fn_matrix(fn, k, label, &mat[k])) {
            return;
        }
        args.mat[k] = &mat[k];
    }
    if (gx_outputs_begin(&out, fn, all, 1)) {
        gx_alg_equation(&fn->run, &args, &X);
    }
    gx_outputs_finish(&out, &fn->dest, X.properties, X.number, X.rows, X.cols, X.data,
                      gx_max(1, X.rows));
    gx_mem_free(fn->ctx->mem, X.data);
}

const gx_function gx_functions_equation[] = {
    {"gx_sylvester", 3, 5, GX_MADE(3), equation, GX_SYLVESTER},
    {"gx_lyapunov", 2, 4, GX_MADE(2), equation, GX_LYAPUNOV},
    {"gx_riccati", 4, 6, GX_MADE(4), equation, GX_RICCATI},
    {.name = NULL},
};
