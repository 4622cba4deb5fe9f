/*
** The oracle of the tests: the reference backend with loops of its own for spectra as well.
**
** The product's reference backend takes eigenvalues and singular values from LAPACK.  A test of
** LAPACK's results, or of a device's, compares with plain loops: Jacobi, and QR by rotations.
*/
#ifndef GX_ORACLE_H
#define GX_ORACLE_H

#include "../../core/base/backend.h"

/* As gx_backend_ref, but for SYEV, GEEV, GEES and GESDD.  Filled before main() begins. */
extern gx_backend gx_oracle;

#endif
