/*
** Shared by the files of the oracle: its slots.
*/
#ifndef GX_ORACLE_INT_H
#define GX_ORACLE_INT_H

#include "../../kernels/ref.h"
#include "oracle.h"

GX_SLOTS_DECLARE(gx_oracle_syev);
GX_SLOTS_DECLARE(gx_oracle_geev);
GX_SLOTS_DECLARE(gx_oracle_gees);
GX_SLOTS_DECLARE(gx_oracle_gesdd);

/*
** The complex Schur form of h, n x n, leading dimension n, in place (what is below the diagonal is
** left undefined); z: Q, or NULL.  false: no convergence.
*/
bool gx_oracle_schur(gx_scalar *h, gx_scalar *z, int64_t n);

size_t gx_oracle_svd_bytes(const gx_args *args);
size_t gx_oracle_spectrum_bytes(gx_kernel_id kernel, const gx_args *args);

#endif
