/*
** Functions of matrices in SQL: gx_sqrtm, gx_expm, gx_logm, gx_powm.  See core/spectra/funm.h.
*/
#include "outputs.h"

#include "../core/spectra/funm.h"

#include <math.h>

/* dest_index: 1, or 2 where a power stands before it. */
static void apply(gx_fn *fn, gx_funm function, int dest_index)
{
    gx_dest dest = {0};
    gx_mat A;
    gx_funm_args args = {.A = &A, .function = function};
    gx_funm_result r = {0};
    gx_outputs out;
    if (!gx_fn_options(fn, gx_dest_keys, &dest) || !gx_fn_matrix(fn, 0, "A", &A) ||
        (dest_index == 2 && !gx_fn_real(fn, 1, "power", &args.power)) ||
        !gx_fn_dest(fn, dest_index, &dest)) {
        return;
    }
    if (!(fabs(args.power) <= 0x1p53)) {
        gx_fn_fail(fn, "power is %g but must be at most 2^53 in magnitude", args.power);
        return;
    }
    const gx_dest *dests[] = {&dest};
    if (gx_outputs_begin(&out, fn, dests, 1)) {
        gx_alg_funm(&fn->run, &args, &r);
    }
    gx_outputs_finish(&out, &dest, r.properties, r.dtype, A.rows, A.rows, r.data,
                      gx_max(1, A.rows));
    gx_mem_free(fn->ctx->mem, r.data);
}

static void square_root(gx_fn *fn)
{
    apply(fn, GX_FUNM_SQRT, 1);
}

static void exponential(gx_fn *fn)
{
    apply(fn, GX_FUNM_EXP, 1);
}

static void logarithm(gx_fn *fn)
{
    apply(fn, GX_FUNM_LOG, 1);
}

static void power(gx_fn *fn)
{
    apply(fn, GX_FUNM_POWER, 2);
}

const gx_function gx_functions_funm[] = {{"gx_sqrtm", 1, 3, false, square_root},
                                         {"gx_expm", 1, 3, false, exponential},
                                         {"gx_logm", 1, 3, false, logarithm},
                                         {"gx_powm", 2, 4, false, power},
                                         {NULL, 0, 0, false, NULL}};
