/*
** The rows of map.h as data.
*/
#include "map.h"

#include <assert.h>

const gx_map_facts *gx_map_row(gx_map_kind kind)
{
#define ROW(KIND, name, operands, numbers, keeps, dtypes, flops, complex_flops, ulps, bits)        \
    [GX_MAP_##KIND] = {#name, operands,      numbers, keeps, GX_MAP_##dtypes,                      \
                       flops, complex_flops, ulps,    bits},
    static const gx_map_facts rows[GX_MAP_KIND_COUNT] = {GX_MAPS(ROW)};
#undef ROW
    assert((unsigned)kind < GX_MAP_KIND_COUNT);
    return &rows[kind];
}

gx_code gx_map_dtype(gx_map_kind kind, gx_number operands, gx_number *result, gx_err *err)
{
    const gx_map_facts *row = gx_map_row(kind);
    if (operands == GX_M31 && !gx_map_is_of_field(kind)) {
        return gx_fail(err, GX_ARG, "%s means nothing of whole numbers modulo 2^31 - 1 (m31)",
                       row->name);
    }
    if (row->dtypes == GX_MAP_REAL_ONLY && gx_number_is_complex(operands)) {
        return gx_fail(err, GX_ARG, "%s is of real numbers, not of %s", row->name,
                       gx_number_name(operands));
    }
    *result = row->dtypes == GX_MAP_TO_REAL ? gx_number_real(operands) : operands;
    return GX_OK;
}
