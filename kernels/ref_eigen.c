/*
** The reference backend: the work space of spectra.  See ref.c for the manner.
*/
#include "ref.h"

size_t gx_ref_spectrum_bytes(gx_kernel_id kernel, const gx_args *args)
{
    return kernel == GX_GESDD ? gx_ref_svd_bytes(args) : 0;
}
