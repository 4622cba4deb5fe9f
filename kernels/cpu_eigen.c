/*
** The CPU backend: the work space of spectra.
*/
#include "cpu_lapack.h"

size_t gx_cpu_spectrum_bytes(gx_kernel_id kernel, gx_dtype dtype, const gx_args *args)
{
    return kernel == GX_GESDD ? gx_cpu_svd_bytes(dtype, args) : 0;
}
