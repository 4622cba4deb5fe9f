/*
** The oracle's table of kernels: see oracle.h.
*/
#include "oracle_int.h"

gx_backend gx_oracle;

static size_t oracle_workspace(gx_dev *dev, gx_kernel_id kernel, gx_number dtype,
                               const gx_args *args)
{
    size_t bytes = gx_oracle_spectrum_bytes(kernel, args);
    return bytes > 0 ? bytes : gx_backend_ref.workspace(dev, kernel, dtype, args);
}

__attribute__((constructor)) static void fill(void)
{
    static const gx_kernel syev[] = GX_SLOTS(gx_oracle_syev), geev[] = GX_SLOTS(gx_oracle_geev);
    static const gx_kernel gees[] = GX_SLOTS(gx_oracle_gees), gesdd[] = GX_SLOTS(gx_oracle_gesdd);
    memcpy(&gx_oracle, &gx_backend_ref, sizeof gx_oracle);
    memcpy(gx_oracle.kernel[GX_SYEV], syev, sizeof syev);
    memcpy(gx_oracle.kernel[GX_GEEV], geev, sizeof geev);
    memcpy(gx_oracle.kernel[GX_GEES], gees, sizeof gees);
    memcpy(gx_oracle.kernel[GX_GESDD], gesdd, sizeof gesdd);
    gx_oracle.workspace = oracle_workspace;
}
